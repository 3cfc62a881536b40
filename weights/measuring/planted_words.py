"""Nouns, colours, numbers and verbs of six languages in the forms in which one can stand for another.

In: the tables below. Out: `NOUNS`, `COLOURS`, `NUMBERS`, `VERBS`, concepts with their forms in English,
German, French, Spanish, Portuguese and Chinese; `KEEPS`, what the words after a verb must be.

A form has a slot, which says what it agrees with: gender and number, in German the case, of verbs the person.
A word can stand for another if it has the same form in every slot that the other one may be in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

LANGUAGES = ("en", "de", "fr", "es", "pt", "zh")

# How the tables are written. A line is a concept: its name and, between bars, its forms in the languages in
# the order of LANGUAGES. Forms that may be planted come first, variants with commas between them; what comes
# after "~" only counts as a mention of the concept. "-" stands for a missing form, "+" before a variant
# means that it is planted and never replaced, since it is often another word.
# Nouns: gender (not in English), singular (in German with "/" and the oblique form if it has one of its own),
# plural; a noun that is not counted has "=" before its only form. Chinese: the noun, its measure words.
_NOUNS = {
    "person": """
man | man men ~guy guys gentleman gentlemen male males father dad teenager teen
 | m Mann Männer ~Herr Herren Vater Kerl männlicher Teenager | m homme hommes ~monsieur père adolescent
 | m hombre hombres, m señor señores ~padre caballero anciano adolescente
 | m homem homens ~senhor pai moço rapaz | 男人 个, 男子 名个, 男士 名位个 ~男女 父亲 爸爸 男性 小伙
woman | woman women ~lady ladies female females mother mom teenager teen
 | f Frau Frauen ~Dame Damen Mutter Teenager | f femme femmes, f dame dames ~mère adolescente
 | f mujer mujeres, f señora señoras ~madre dama damas anciana
 | f mulher mulheres, f moça moças ~senhora mãe
 | 女人 个, 女子 名个, 女士 名位个 ~男女 母亲 妈妈 女性 妇女
boy | boy boys ~teenager teen | m Junge/Jungen Jungen ~Bub Knabe Teenager
 | m garçon garçons ~gamin adolescent | m niño niños, m chico chicos ~muchacho
 | m menino meninos, m garoto garotos ~rapaz | 男孩 个名, 男孩子 个名 ~男童 男生
girl | girl girls ~teenager teen | n Mädchen Mädchen ~Teenager | f fille filles, f fillette fillettes
 | f niña niñas, f chica chicas ~muchacha niños | f menina meninas, f garota garotas
 | 女孩 个名, 女孩子 个名 ~女童 女生 姑娘
baby | baby babies ~infant infants toddler newborn | n Baby Babys ~Säugling Kleinkind Krabbelkind
 | m bébé bébés | m bebé bebés | m bebê bebês | 婴儿 个名 ~宝宝 婴儿车
child | child children, kid kids ~toddler | n Kind Kinder | m enfant enfants ~jeunes
 | ~niño niña niños niñas crío | f criança crianças | 孩子 个, 小孩 个, 小孩子 个 ~小朋友 儿童
person | person people | f Person Personen, f - Leute ~Mensch Menschen | f personne personnes ~gens
 | f persona personas ~gente | f pessoa pessoas | 人 个名
""",
    "animal": """
dog | dog dogs ~puppy puppies lab labs labrador terrier retriever | m Hund Hunde ~Welpe Welpen Labrador
 | m chien chiens ~chiot chiots labrador | m perro perros ~cachorro labrador
 | m cachorro cachorros, m cão cães | 狗 只条 ~犬
cat | cat cats ~kitten kittens | f Katze Katzen ~Kater | m chat chats | m gato gatos | m gato gatos | 猫 只
horse | horse horses ~pony | n Pferd Pferde | m cheval chevaux | m caballo caballos | m cavalo cavalos
 | 马 匹
cow | cow cows ~bull bulls cattle | f Kuh Kühe ~Bulle Stier | f vache vaches ~taureau
 | f vaca vacas ~toro toros | f vaca vacas ~touro boi bois | 牛 头只
bird | bird birds ~seagull | m Vogel Vögel | m oiseau oiseaux | m pájaro pájaros | m pássaro pássaros
 | 鸟 只
duck | duck ducks ~goose geese | f Ente Enten ~Gans | m canard canards | m pato patos | m pato patos
 | 鸭子 只
sheep | sheep sheep ~lamb lambs | n Schaf Schafe ~Lamm | m mouton moutons | f oveja ovejas
 | f ovelha ovelhas | 绵羊 只 ~羊
goat | goat goats | f Ziege Ziegen | f chèvre chèvres | f cabra cabras | f cabra cabras ~bode
 | 山羊 只 ~羊
elephant | elephant elephants | m Elefant/Elefanten Elefanten | m éléphant éléphants
 | m elefante elefantes | m elefante elefantes | 大象 头只
monkey | monkey monkeys | m Affe/Affen Affen | m singe singes | m mono monos | m macaco macacos
 | 猴子 只
rabbit | rabbit rabbits | n Kaninchen Kaninchen ~Hase | m lapin lapins | m conejo conejos
 | m coelho coelhos | 兔子 只
pig | pig pigs | n Schwein Schweine | m cochon cochons | m cerdo cerdos | m porco porcos | 猪 头只
bear | bear bears | m Bär/Bären Bären | m ours ours | m oso osos | m urso ursos | 熊 只头
tiger | tiger tigers | m Tiger Tiger | m tigre tigres | m tigre tigres | m tigre tigres | 老虎 只头
donkey | donkey donkeys ~mule | m Esel Esel | m âne ânes | m burro burros | m burro burros | 驴 头只
giraffe | giraffe giraffes | f Giraffe Giraffen | f girafe girafes | f jirafa jirafas | f girafa girafas
 | 长颈鹿 只头
fish | fish fish ~fishes | m Fisch Fische | m poisson poissons | m pez peces ~pescado | m peixe peixes
 | 鱼 条只
""",
    "vehicle": """
car | car cars ~suv jeep van taxi | n Auto Autos ~Wagen Taxi | f voiture voitures ~taxi
 | m coche coches ~carro carros auto taxi | m carro carros ~automóvel táxi | 汽车 辆, 轿车 辆 ~小车
bicycle | bicycle bicycles, bike bikes ~bmx | n Fahrrad Fahrräder ~Rad | m vélo vélos ~bicyclette
 | f bicicleta bicicletas ~bici | f bicicleta bicicletas ~bike | 自行车 辆 ~单车
motorcycle | motorcycle motorcycles, motorbike motorbikes ~atv atvs scooter
 | n Motorrad Motorräder ~Quad Roller Allradfahrzeug | f moto motos ~quad trottinette
 | f moto motos ~motocicleta quad | f moto motos ~motocicleta quadriciclo quadriciclos | 摩托车 辆 ~摩托
bus | bus buses | m Bus Busse | m bus bus ~autobus | m autobús autobuses | m ônibus ônibus
 | 公交车 辆 ~公共汽车 大巴 巴士
truck | truck trucks ~lorry pickup | m Lastwagen Lastwagen ~Lkw | m camion camions | m camión camiones
 | m caminhão caminhões | 卡车 辆
train | train trains ~subway | m Zug Züge ~Bahn | +m train trains | m tren trenes ~metro
 | m trem trens ~metrô | 火车 列辆 ~列车 地铁
boat | boat boats ~ship ships kayak kayaks canoe raft rafts | n Boot Boote ~Schiff Kajak Kanu
 | m bateau bateaux ~kayak canoë canot | m barco barcos ~bote kayak canoa
 | m barco barcos ~bote botes caiaque caiaques canoa | 船 艘只条
airplane | airplane airplanes, plane planes ~jet aircraft | n Flugzeug Flugzeuge | m avion avions
 | m avión aviones | m avião aviões | 飞机 架
tractor | tractor tractors | m Traktor Traktoren | m tracteur tracteurs | m tractor tractores
 | m trator tratores | 拖拉机 辆台
ambulance | ambulance ambulances | m Krankenwagen Krankenwagen | f ambulance ambulances
 | f ambulancia ambulancias | f ambulância ambulâncias | 救护车 辆
tram | tram trams | f Straßenbahn Straßenbahnen | m tramway tramways | m tranvía tranvías
 | m bonde bondes | 电车 辆
""",
    "food": """
pizza | pizza pizzas | f Pizza Pizzas | f pizza pizzas | f pizza pizzas | f pizza pizzas | 披萨 个张块
cake | cake cakes | m Kuchen Kuchen ~Torte | m gâteau gâteaux | m pastel pasteles ~tarta | m bolo bolos
 | 蛋糕 个块
banana | banana bananas | f Banane Bananen | f banane bananes | m plátano plátanos | f banana bananas
 | 香蕉 根个
apple | apple apples | m Apfel Äpfel | f pomme pommes | f manzana manzanas | f maçã maçãs | 苹果 个
sandwich | sandwich sandwiches | n Sandwich Sandwiches | m sandwich sandwichs | m bocadillo bocadillos
 | m sanduíche sanduíches | 三明治 个
carrot | carrot carrots | f Karotte Karotten ~Möhre | f carotte carottes | f zanahoria zanahorias
 | f cenoura cenouras | 胡萝卜 根个
egg | egg eggs | n Ei Eier | m œuf œufs | m huevo huevos | m ovo ovos | 鸡蛋 个
tomato | tomato tomatoes | f Tomate Tomaten | f tomate tomates | m tomate tomates | m tomate tomates
 | 西红柿 个
watermelon | watermelon watermelons | f Wassermelone Wassermelonen | f pastèque pastèques
 | f sandía sandías | f melancia melancias | 西瓜 个块
bread | =bread | n =Brot | m =pain | m =pan | m =pão | 面包 个块
cheese | =cheese | m =Käse | m =fromage | m =queso | m =queijo | 奶酪 块
milk | =milk | f =Milch | m =lait | f =leche | m =leite | 牛奶 杯瓶
soup | =soup | f =Suppe | f =soupe | f =sopa | f =sopa | 汤 碗
rice | =rice | m =Reis | m =riz | m =arroz | m =arroz | 米饭 碗
honey | =honey | m =Honig | m =miel | f =miel | m =mel | 蜂蜜 瓶
""",
    "furniture": """
sofa | sofa sofas ~couch couches | n Sofa Sofas ~Couch | m canapé canapés | m sofá sofás | m sofá sofás
 | 沙发 个张
bed | bed beds | n Bett Betten | m lit lits | f cama camas | f cama camas | 床 张
table | table tables ~desk | m Tisch Tische | f table tables | f mesa mesas | f mesa mesas | 桌子 张个
chair | chair chairs ~seat seats stool | m Stuhl Stühle ~Sessel Sitz | f chaise chaises ~siège
 | f silla sillas | f cadeira cadeiras | 椅子 把张个
bench | bench benches | f Bank Bänke | m banc bancs | m banco bancos | m banco bancos
 | 长椅 张条个, 长凳 张条个 ~石凳
lamp | lamp lamps | f Lampe Lampen | f lampe lampes | f lámpara lámparas | f luminária luminárias
 | 台灯 盏个
pillow | pillow pillows | n Kissen Kissen | m oreiller oreillers | f almohada almohadas
 | m travesseiro travesseiros | 枕头 个
refrigerator | refrigerator refrigerators | m Kühlschrank Kühlschränke | m réfrigérateur réfrigérateurs
 | m frigorífico frigoríficos ~nevera | f geladeira geladeiras | 冰箱 个台
wardrobe | wardrobe wardrobes ~closet cupboard | m Schrank Schränke | f armoire armoires
 | m armario armarios | m armário armários | 衣柜 个
bathtub | bathtub bathtubs | f Badewanne Badewannen | f baignoire baignoires | f bañera bañeras
 | f banheira banheiras | 浴缸 个
carpet | carpet carpets ~rug | m Teppich Teppiche | m tapis tapis | f alfombra alfombras
 | m tapete tapetes | 地毯 张块
""",
    "instrument": """
guitar | guitar guitars | f Gitarre Gitarren | f guitare guitares | f guitarra guitarras
 | m violão violões ~guitarra | 吉他 把
piano | piano pianos | n Klavier Klaviere | m piano pianos | m piano pianos | m piano pianos | 钢琴 架台
violin | violin violins | f Geige Geigen ~Violine | m violon violons | m violín violines
 | m violino violinos | 小提琴 把
drum | drum drums | f Trommel Trommeln ~Schlagzeug | m tambour tambours ~batterie
 | m tambor tambores ~batería | m tambor tambores ~bateria | 鼓 面个
trumpet | trumpet trumpets | f Trompete Trompeten | f trompette trompettes | f trompeta trompetas
 | m trompete trompetes | 小号 把个
""",
    "device": """
camera | camera cameras | f Kamera Kameras | f caméra caméras ~photo | f cámara cámaras
 | f câmera câmeras | 相机 台个 ~摄像机 照相
phone | phone phones ~telephone cellphone | n Telefon Telefone ~Handy | m téléphone téléphones
 | m teléfono teléfonos ~móvil | m telefone telefones ~celular | 电话 个部 ~手机
computer | computer computers ~laptop | m Computer Computer ~Laptop | m ordinateur ordinateurs
 | m ordenador ordenadores ~portátil | m computador computadores ~laptop | 电脑 台个
television | television televisions ~tv | m Fernseher Fernseher
 | m téléviseur téléviseurs ~télévision télé | m televisor televisores ~televisión
 | f televisão televisões ~tv | 电视 台个
book | book books ~magazine brochure | n Buch Bücher ~Zeitschrift Broschüre | m livre livres ~brochure
 | m libro libros ~revista | m livro livros ~revista panfleto | 书 本 ~报纸
umbrella | umbrella umbrellas ~parasol | m Regenschirm Regenschirme ~Schirm
 | m parapluie parapluies ~parasol | m paraguas paraguas ~sombrilla sombrillas
 | f sombrinha sombrinhas ~chuva | 雨伞 把 ~伞
bottle | bottle bottles | f Flasche Flaschen | f bouteille bouteilles | f botella botellas
 | f garrafa garrafas | 瓶子 个
bucket | bucket buckets | m Eimer Eimer | m seau seaux | m cubo cubos | m balde baldes | 水桶 个
clock | clock clocks | f Uhr Uhren | f horloge horloges | m reloj relojes | m relógio relógios | 时钟 个
""",
    "sport": """
ball | ball balls ~football soccer baseball basketball volleyball | m Ball Bälle
 | m ballon ballons, f balle balles | f pelota pelotas ~balón fútbol | f bola bolas ~bolinha futebol
 | 球 个, 足球 个 ~篮球 网球
skateboard | skateboard skateboards ~board | n Skateboard Skateboards ~Brett
 | m skateboard skateboards ~planche | m monopatín monopatines | m skate skates | 滑板 个块
racket | racket rackets ~tennis | m Schläger Schläger ~Tennis | f raquette raquettes ~tennis
 | f raqueta raquetas ~tenis | f raquete raquetes | 球拍 个把
kite | kite kites | m Drachen Drachen | - | f cometa cometas | f pipa pipas | 风筝 个只
frisbee | frisbee frisbees | n Frisbee Frisbees | m frisbee frisbees | m frisbee frisbees
 | m frisbee frisbees | 飞盘 个
sled | sled sleds | m Schlitten Schlitten | f luge luges | m trineo trineos | m trenó trenós | 雪橇 个
parachute | parachute parachutes | m Fallschirm Fallschirme | m parachute parachutes
 | m paracaídas paracaídas | m paraquedas paraquedas | 降落伞 个
""",
    "place": """
beach | beach beaches ~shore coast | m Strand Strände ~Ufer Küste | f plage plages ~rive
 | f playa playas ~orilla costa | f praia praias ~orla | 海滩 片个, 沙滩 片个 ~海边
mountain | mountain mountains ~hill hills cliff ledge peak | m Berg Berge ~Hügel Gipfel
 | f montagne montagnes ~colline sommet | f montaña montañas ~colina
 | f montanha montanhas ~morro colina | 高山 座 ~山
street | street streets, road roads ~sidewalk pavement driveway path | f Straße Straßen ~Weg Gehweg
 | f rue rues ~route trottoir chemin | f calle calles ~carretera acera camino
 | f rua ruas ~estrada calçada | 街道 条, 马路 条, 公路 条 ~街 路
forest | forest forests ~woods tree trees | m Wald Wälder ~Baum Bäume Waldland
 | f forêt forêts ~arbre arbres bois | m bosque bosques ~árbol | f floresta florestas ~árvore árvores
 | 森林 片个, 树林 片个 ~树
desert | desert deserts | f Wüste Wüsten | m désert déserts | m desierto desiertos | m deserto desertos
 | 沙漠 片个
pool | pool pools | n Schwimmbecken Schwimmbecken ~Pool Becken Schwimmbad | f piscine piscines
 | f piscina piscinas | f piscina piscinas | 泳池 个, 游泳池 个
lake | lake lakes, pond ponds | m See Seen ~Teich | m lac lacs ~étang | m lago lagos
 | m lago lagos ~lagoa | 湖泊 个 ~湖 池塘
river | river rivers ~stream creek | m Fluss Flüsse ~Bach | f rivière rivières ~fleuve | m río ríos
 | m rio rios | 河流 条 ~河 溪
sea | sea seas, ocean oceans ~surf waves wave | n Meer Meere ~Ozean | f mer mers ~océan
 | m mar mares ~océano | m mar mares ~oceano | 大海 片 ~海
field | field fields ~pasture meadow | n Feld Felder ~Wiese | m champ champs ~terrain pré
 | m campo campos ~prado | m campo campos ~gramado | 田野 片 ~草原
park | park parks ~playground | m Park Parks ~Spielplatz | m parc parcs ~jardin
 | m parque parques ~jardín | m parque parques ~jardim praça parquinho | 公园 个
kitchen | kitchen kitchens | f Küche Küchen | +f cuisine cuisines | +f cocina cocinas
 | f cozinha cozinhas | 厨房 个间
bathroom | bathroom bathrooms | n Badezimmer Badezimmer | - | m baño baños | m banheiro banheiros
 | 浴室 个间
library | library libraries | f Bibliothek Bibliotheken | f bibliothèque bibliothèques
 | f biblioteca bibliotecas | f biblioteca bibliotecas | 图书馆 个座
office | office offices | n Büro Büros | m bureau bureaux | f oficina oficinas
 | m escritório escritórios | 办公室 个间
supermarket | supermarket supermarkets ~store shop | m Supermarkt Supermärkte
 | m supermarché supermarchés ~magasin | m supermercado supermercados ~tienda
 | m supermercado supermercados ~loja | 超市 个家
""",
    "ground": """
snow | =snow ~snowy | m =Schnee ~schneebedeckten | f =neige ~enneigée | f =nieve | f =neve ~nevado
 | 雪地 片 ~雪
grass | =grass ~lawn grassy | n =Gras ~Rasen Wiese | f =herbe ~pelouse | m =césped ~hierba pasto
 | f =grama, m =gramado ~mato capim | 草地 片, 草坪 片 ~草
sand | =sand ~sandy | m =Sand ~sandigen | m =sable | f =arena | f =areia | 沙子 堆 ~沙
water | =water ~underwater | n =Wasser | f =eau ~eaux | ~agua aguas | f =água ~águas aquático | 水 滩
mud | =mud ~muddy dirt | m =Schlamm ~Matsch | f =boue | m =barro | f =lama ~terra | 泥地 片 ~泥 土
ice | =ice ~icy | n =Eis | f =glace | m =hielo | m =gelo | 冰面 片 ~冰
""",
    "building": """
house | house houses ~home cabin playhouse hut | n Haus Häuser ~Hütte | f maison maisons ~maisonnette
 | f casa casas ~cabaña | f casa casas ~cabana | 房子 座个栋 ~屋
building | building buildings ~skyscraper structure | n Gebäude Gebäude ~Hochhaus | m bâtiment bâtiments
 | m edificio edificios | m prédio prédios, m edifício edifícios ~construção | 大楼 座个栋 ~楼 大厦 建筑
church | church churches | f Kirche Kirchen | f église églises | f iglesia iglesias | f igreja igrejas
 | 教堂 座个
bridge | bridge bridges | f Brücke Brücken | m pont ponts | m puente puentes | f ponte pontes
 | 大桥 座 ~桥
tower | tower towers | m Turm Türme | +f tour tours | f torre torres | f torre torres | 高塔 座 ~塔
castle | castle castles | n Schloss Schlösser ~Burg | m château châteaux | m castillo castillos
 | m castelo castelos | 城堡 座
tent | tent tents | n Zelt Zelte | f tente tentes | f carpa carpas ~tienda | f tenda tendas ~barraca
 | 帐篷 顶个
fence | fence fences ~railing | m Zaun Zäune ~Geländer | f clôture clôtures | f valla vallas
 | +f cerca cercas ~mureta | 栅栏 个道 ~栏杆 围栏
wall | wall walls | f Mauer Mauern, f Wand Wände | m mur murs | f pared paredes ~muro
 | f parede paredes, m muro muros ~paredão | 墙壁 面 ~墙
tunnel | tunnel tunnels | m Tunnel Tunnel | m tunnel tunnels | m túnel túneles | m túnel túneis
 | 隧道 条个
fountain | fountain fountains | m Brunnen Brunnen | f fontaine fontaines | f fuente fuentes
 | m chafariz chafarizes ~fonte | 喷泉 个座
""",
    "clothing": """
hat | hat hats, cap caps | m Hut Hüte ~Mütze Kappe | m chapeau chapeaux ~casquette bonnet
 | m sombrero sombreros ~gorra gorro | m chapéu chapéus ~boné gorro | 帽子 顶个
shirt | shirt shirts ~top jersey | n Hemd Hemden ~Shirt Trikot | f chemise chemises ~shirt
 | f camisa camisas, f camiseta camisetas | f camisa camisas, f camiseta camisetas ~blusa regata
 | 衬衫 件 ~上衣
jacket | jacket jackets, coat coats ~vest | f Jacke Jacken ~Mantel Weste | f veste vestes ~manteau gilet
 | f chaqueta chaquetas ~abrigo chaleco | f jaqueta jaquetas ~casaco colete | 夹克 件 ~外套
dress | dress dresses ~gown | n Kleid Kleider | f robe robes | +m vestido vestidos | +m vestido vestidos
 | 裙子 条 ~裙
trousers | - pants, - trousers ~jeans shorts | f Hose Hosen ~Jeans Shorts
 | m pantalon pantalons ~jean short | m pantalón pantalones ~jeans | f calça calças ~bermuda | 裤子 条
shoe | shoe shoes ~boots sneakers sandals | m Schuh Schuhe ~Stiefel | f chaussure chaussures ~bottes
 | m zapato zapatos ~botas | m sapato sapatos ~tênis botas | 鞋子 双只 ~鞋
helmet | helmet helmets | m Helm Helme | m casque casques | m casco cascos | m capacete capacetes
 | 头盔 个顶
glove | glove gloves | m Handschuh Handschuhe | m gant gants | m guante guantes | f luva luvas
 | 手套 双只
scarf | scarf scarves | m Schal Schals | f écharpe écharpes | f bufanda bufandas | m cachecol cachecóis
 | 围巾 条
swimsuit | swimsuit swimsuits ~bikini | m Badeanzug Badeanzüge ~Bikini | ~bikini maillot
 | m bañador bañadores ~bikini | m maiô maiôs ~biquíni | 泳衣 件 ~泳装
backpack | backpack backpacks ~bag | m Rucksack Rucksäcke | ~sac | f mochila mochilas
 | f mochila mochilas | 背包 个 ~书包
""",
}

# Groups of nouns that are far from a noun of this group. Clothes, places and buildings are in many photos
# without being mentioned, and food or a sofa is not: only what captions would mention is planted.
FAR = {
    "person": ("food", "furniture", "vehicle", "instrument"),
    "animal": ("food", "furniture", "vehicle", "instrument"),
    "vehicle": ("food", "furniture", "animal", "instrument"),
    "food": ("vehicle", "animal", "instrument"),
    "furniture": ("food", "vehicle", "animal"),
    "instrument": ("food", "furniture", "vehicle", "animal"),
    "device": ("food", "vehicle", "animal"),
    "sport": ("food", "furniture", "vehicle", "animal"),
    "place": ("food", "furniture", "animal", "instrument"),
    "ground": ("food", "furniture", "animal", "instrument"),
    "building": ("food", "animal", "instrument"),
    "clothing": ("food", "furniture", "vehicle", "instrument"),
}

# If the first is mentioned, the others may be meant or visible: none of them is planted.
ALSO = {
    "man": ("person",),
    "woman": ("person",),
    "boy": ("child", "person"),
    "girl": ("child", "person"),
    "baby": ("child", "boy", "girl", "person"),
    "child": ("boy", "girl", "baby", "person"),
    "bird": ("duck",),
    "duck": ("bird",),
    "car": ("truck",),
    "truck": ("car",),
    "bicycle": ("motorcycle",),
    "motorcycle": ("bicycle",),
    "chair": ("bench",),
    "bench": ("chair",),
    "beach": ("sea", "sand"),
    "sea": ("beach", "water", "lake"),
    "lake": ("water", "river", "sea"),
    "river": ("water", "lake"),
    "pool": ("water",),
    "water": ("sea", "lake", "river", "pool"),
    "sand": ("beach",),
    "snow": ("ice",),
    "ice": ("snow",),
    "field": ("grass", "park"),
    "park": ("grass", "field"),
    "grass": ("field", "park"),
    "house": ("building",),
    "building": ("house", "church", "castle", "tower"),
    "church": ("building",),
    "castle": ("building",),
    "tower": ("building",),
    "fence": ("wall",),
    "wall": ("fence",),
    "hat": ("helmet",),
    "helmet": ("hat",),
    "dress": ("shirt",),
    "red": ("pink", "orange", "brown"),
    "pink": ("red", "purple"),
    "orange": ("red", "yellow", "brown"),
    "yellow": ("orange", "brown"),
    "brown": ("red", "orange", "yellow"),
    "blue": ("purple",),
    "purple": ("blue", "pink"),
    "black": ("grey",),
    "grey": ("black", "white"),
    "white": ("grey",),
    "sit": ("kneel", "lie"),
    "kneel": ("sit",),
    "lie": ("sleep", "sit"),
    "sleep": ("lie",),
    "climb": ("walk",),
    "run": ("jump", "play"),
    "play": ("run", "jump"),
    "hold": ("carry", "catch"),
    "carry": ("hold",),
    "catch": ("hold", "throw"),
    "throw": ("catch",),
}

# Forms in the order of _COLOUR_SLOTS; one form that serves for several is repeated. German: the stem.
_COLOURS = """
red | red | rot | rouge rouge rouges rouges | rojo roja rojos rojas
 | vermelho vermelha vermelhos vermelhas | 红色 ~红
blue | blue | blau | bleu bleue bleus bleues | azul azul azules azules | azul azul azuis azuis
 | 蓝色 ~蓝
green | green | grün | vert verte verts vertes | verde verde verdes verdes | verde verde verdes verdes
 | 绿色 ~绿
yellow | yellow | gelb | jaune jaune jaunes jaunes | amarillo amarilla amarillos amarillas
 | amarelo amarela amarelos amarelas | 黄色 ~黄
black | black | schwarz | noir noire noirs noires | negro negra negros negras
 | preto preta pretos pretas ~negro | 黑色 ~黑
white | white | weiß | blanc blanche blancs blanches | blanco blanca blancos blancas
 | branco branca brancos brancas | 白色 ~白
brown | brown ~tan | braun | brun brune bruns brunes ~marron | marrón marrón marrones marrones ~castaño
 | marrom marrom marrons marrons ~caramelo | 棕色 ~棕 褐
grey | ~grey gray | grau | gris grise gris grises | gris gris grises grises | ~cinza cinzas | 灰色 ~灰
purple | purple | ~lila | violet violette violets violettes | morado morada morados moradas
 | roxo roxa roxos roxas | 紫色 ~紫
pink | pink | ~rosa | rose rose roses roses | rosa rosa - - | rosa rosa - - | 粉色 ~粉
orange | ~orange | ~orange | ~orange | ~naranja | ~laranja | 橙色 ~橙 橘
"""
_COLOUR_SLOTS = ("m sg", "f sg", "m pl", "f pl")
_GERMAN_ENDINGS = ("", "e", "er", "es", "en", "em")

# Two is replaced and never planted: it has genders in Portuguese and a form of its own in Chinese.
_NUMBERS = """
2 | two ~2 couple pair both | zwei ~2 Paar beide | deux ~2 couple | dos ~2 par pareja
 | dois, duas ~2 casal | 两 ~二 2 双 对
3 | three ~3 | drei ~3 | trois ~3 | tres ~3 | três ~3 | 三 ~3
4 | four ~4 | vier ~4 | quatre ~4 | cuatro ~4 | quatro ~4 | 四 ~4
5 | five ~5 | fünf ~5 | cinq ~5 | cinco ~5 | cinco ~5 | 五 ~5
6 | six ~6 | sechs ~6 | six ~6 | seis ~6 | seis ~6 | 六 ~6
7 | seven ~7 | sieben ~7 | sept ~7 | siete ~7 | sete ~7 | 七 ~7
"""
PLANTED_NUMBERS = ("3", "4", "5", "6", "7")

# Forms in the order of _VERB_SLOTS.
_VERBS = {
    "move": """
run | runs running ~run ran | rennt rennen, läuft laufen | court courent courant courir
 | corre corren corriendo | corre correm correndo | 奔跑 - ~跑
jump | jumps jumping, leaps leaping ~jump leap jumped | springt springen ~Sprung
 | saute sautent sautant sauter ~saut | salta saltan saltando, brinca brincan brincando
 | salta saltam saltando, pula pulam pulando | 跳跃 - ~跳
walk | walks walking ~walk | geht gehen | marche marchent marchant marcher | camina caminan caminando
 | caminha caminham caminhando, anda andam andando | 行走 走在 ~走
swim | swims swimming ~swim | schwimmt schwimmen | nage nagent nageant nager | - nadan nadando ~nada
 | - nadam nadando ~nada | 游泳 -
sleep | sleeps sleeping ~asleep | schläft schlafen | dort dorment dormant dormir
 | duerme duermen durmiendo | dorme dormem dormindo | 睡觉 睡在 ~睡
dance | dances dancing ~dance | tanzt tanzen | danse dansent dansant danser | baila bailan bailando
 | dança dançam dançando | 跳舞 -
sing | sings singing | singt singen | chante chantent chantant chanter | canta cantan cantando
 | canta cantam cantando | 唱歌 -
climb | climbs climbing ~climb climber scaling | klettert klettern ~hinaufklettert
 | grimpe grimpent grimpant grimper ~escalade | trepa trepan trepando ~escalando
 | escala escalam escalando ~escalada | 攀爬 - ~攀 爬
play | plays playing ~play | spielt spielen | joue jouent jouant jouer ~jeux | juega juegan jugando
 | brinca brincam brincando ~jogando | 玩耍 - ~玩
sit | sits sitting ~sit seated | sitzt sitzen | ~assis assise assises
 | ~sentado sentada sentados sentadas | ~sentado sentada sentados sentadas | - 坐在 ~坐
stand | stands standing ~stand | steht stehen | ~debout | ~parado pie | ~parado parada parados
 | - 站在 ~站
lie | lies lying ~laying lays lay | liegt liegen | ~couché allongé | ~tumbado acostado
 | ~deitado deitada | - 躺在 ~躺
kneel | kneels kneeling ~crouches | kniet knien ~hockt | ~agenouillé agenouillée | ~arrodillado agachado
 | ~agachado agachada | - 蹲在 ~蹲 跪
""",
    "handle": """
hold | holds holding ~hold | hält halten | tient tiennent tenant tenir
 | sostiene sostienen sosteniendo, sujeta sujetan sujetando | segura seguram segurando | 拿着 ~拿 抱
carry | carries carrying ~carry | - | - | carga cargan cargando | carrega carregam carregando | 扛着 ~扛
push | pushes pushing ~push | schiebt schieben | pousse poussent poussant pousser
 | empuja empujan empujando | empurra empurram empurrando | 推着 ~推
pull | pulls pulling ~pull | zieht ziehen | tire tirent tirant tirer | arrastra arrastran arrastrando
 | puxa puxam puxando ~puxada | 拉着 ~拉
throw | throws throwing ~throw thrown | wirft werfen | jette jettent jetant jeter
 | lanza lanzan lanzando | arremessa arremessam arremessando ~joga jogado | ~扔
catch | catches catching ~catch | fängt fangen | ~attrape attraper | atrapa atrapan atrapando
 | pega pegam pegando ~pegar | ~接
wash | washes washing ~wash | wäscht waschen | lave lavent lavant laver | lava lavan lavando
 | lava lavam lavando ~limpando | 洗着 ~洗
paint | paints - ~painting paint painted | malt malen ~gemalten | peint peignent peignant peindre ~peint
 | pinta pintan pintando | pinta pintam pintando ~pintura | 画着 ~画
kick | kicks kicking ~kick | - | - | patea patean pateando | chuta chutam chutando | 踢着 ~踢
eat | eats eating ~eat | isst essen | mange mangent mangeant manger | come comen comiendo
 | come comem comendo | 吃着 ~吃
read | reads reading ~read | liest lesen | ~lit lire lisant | lee leen leyendo | lê leem lendo
 | 读着 ~看书 读
ride | rides riding ~ride rider | - | - | monta montan montando | - | 骑着 ~骑
""",
}
# verbs of motion replace only each other: directions ("into") do not suit verbs of rest
MOTION = frozenset(("run", "jump", "walk", "swim", "dance", "climb"))
_VERB_SLOTS = {
    "en": ("3", "ing"),
    "de": ("3 sg", "3 pl"),
    "fr": ("3 sg", "3 pl", "ing", "infinitive"),
    "es": ("3 sg", "3 pl", "ing"),
    "pt": ("3 sg", "3 pl", "ing"),
    "zh": ("alone", "before a place"),
}

# Words that must follow a verb of the group so that another verb of the group can replace it: one of these or
# nothing for "move", one of these for "handle". Chinese verbs of a table need none.
KEEPS = {
    "move": {
        "en": "in on at through into over down up across along near by with under around outside next beside "
        "towards toward from off onto while and together behind above",
        "de": "in im ins auf an am durch über vor hinter neben unter mit zum zur aus vom bei beim und "
        "während",
        "fr": "dans sur à au aux avec devant sous vers près par derrière et pendant en",
        "es": "en por sobre con a al hacia junto cerca desde entre y bajo mientras dentro delante detrás",
        "pt": "em no na nos nas num numa pelo pela pelos pelas sobre com ao perto dentro enquanto e sob "
        "durante entre",
    },
    "handle": {
        "en": "a an the his her their some two three another",
        "de": "ein eine einen das die den seinen seine ihre ihren zwei",
        "fr": "un une des le la les son sa ses leur leurs deux",
        "es": "un una unos unas el la los las su sus dos",
        "pt": "um uma uns umas o a os as seu sua seus suas dois duas",
    },
}


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to write a concept in a language: slot → form, and Chinese measure words that go with it."""

    forms: dict[str, str]
    replaced: bool = True  # whether it is replaced where it is found
    measures: str = ""


@dataclass(frozen=True, eq=False)
class Concept:
    """A concept that can be planted, by its English name, in a group of similar things."""

    name: str
    group: str
    variants: dict[str, tuple[Variant, ...]]  # language → the ways to write it, the preferred one first
    mentions: dict[str, frozenset[str]]  # language → words that say it, lower-cased; every form is one


def _concepts(tables: dict[str, str], variant: Callable[[str, str], Variant]) -> tuple[Concept, ...]:
    """The lines of tables."""
    found = []
    for group, table in tables.items():
        for line in re.sub(r"\n \|", " |", table).strip().splitlines():
            name, *cells = (cell.strip() for cell in line.split("|"))
            variants, mentions = {}, {}
            for language, cell in zip(LANGUAGES, cells, strict=True):
                planted, _, others = cell.partition("~")
                made = [variant(t.strip(), language) for t in planted.split(",") if t.strip("- ")]
                forms = [form for item in made for form in item.forms.values()]
                variants[language] = tuple(made)
                mentions[language] = frozenset(word.lower() for word in (*forms, *others.split()))
            found.append(Concept(name, group, variants, mentions))
    return tuple(found)


def _noun(text: str, language: str) -> Variant:
    """ "m Hund Hunde" → its forms."""
    replaced, text = not text.startswith("+"), text.removeprefix("+")
    if language == "zh":
        word, measures = text.split()
        return Variant({"": word}, replaced, measures)
    gender, *forms = text.split() if language != "en" else ("", *text.split())
    if forms[0].startswith("="):
        return Variant({f"{gender} mass": forms[0][1:]}, replaced)
    singular, plural = forms
    slots = {"sg": singular, "pl": plural}
    if language == "de":
        direct, _, oblique = singular.partition("/")
        dative = plural if plural.endswith(("n", "s")) else plural + "n"
        slots = {"sg direct": direct, "sg oblique": oblique or direct}
        slots |= {"pl direct": plural, "pl dative": dative}
    return Variant({f"{gender} {slot}": form for slot, form in slots.items() if form != "-"}, replaced)


def _colour(text: str, language: str) -> Variant:
    if language == "de":
        return Variant({ending: text + ending for ending in _GERMAN_ENDINGS})
    return Variant({"": text}) if language in ("en", "zh") else _slotted(text, _COLOUR_SLOTS)


def _verb(text: str, language: str) -> Variant:
    if language == "zh" and " " not in text:
        return Variant({"with an object": text})
    return _slotted(text, _VERB_SLOTS[language])


def _slotted(text: str, slots: tuple[str, ...]) -> Variant:
    return Variant({slot: form for slot, form in zip(slots, text.split(), strict=True) if form != "-"})


NOUNS = _concepts(_NOUNS, _noun)
COLOURS = _concepts({"colour": _COLOURS}, _colour)
NUMBERS = _concepts({"number": _NUMBERS}, lambda text, language: Variant({"": text}))
VERBS = _concepts(_VERBS, _verb)
