"""A file of captions to train on: six photos that scikit-image ships, and two that are not available."""

from __future__ import annotations

from pathlib import Path

from tools.tiny.official import write_jsonl

CAPTIONS = {
    "chelsea.png": (
        "A tabby cat looks to the side with green eyes.",
        "Eine getigerte Katze blickt mit grünen Augen zur Seite.",
        "緑色の目をした縞模様の猫が横を見ている。",
    ),
    "coffee.png": (
        "A cup of black coffee stands on a saucer with a spoon.",
        "Eine Tasse Kaffee steht mit einem Löffel auf einer Untertasse.",
        "スプーンの付いた皿の上にコーヒーのカップがある。",
    ),
    "rocket.jpg": (
        "A white rocket stands on the launch pad under a dark sky.",
        "Eine weiße Rakete steht auf der Startrampe unter dunklem Himmel.",
        "暗い空の下の発射台に白いロケットが立っている。",
    ),
    "astronaut.png": (
        "A smiling woman in an orange space suit sits before a flag.",
        "Eine lächelnde Frau im orangefarbenen Raumanzug sitzt vor einer Flagge.",
        "オレンジ色の宇宙服を着た女性が旗の前で微笑んでいる。",
    ),
    "motorcycle_left.png": (
        "A red motorcycle is parked in a garage full of tools.",
        "Ein rotes Motorrad steht in einer Garage voller Werkzeug.",
        "工具でいっぱいの車庫に赤いオートバイが止まっている。",
    ),
    "coins.png": (
        "Old coins lie in rows on a dark cloth.",
        "Alte Münzen liegen in Reihen auf einem dunklen Tuch.",
        "古い硬貨が暗い布の上に並んでいる。",
    ),
}
# what stands in for the photo, and its captions
WITHOUT_PHOTO = {
    "Two dogs run after a ball on the sand.": (
        "Two dogs chase a ball across the beach.",
        "Zwei Hunde jagen am Strand einem Ball nach.",
        "二匹の犬が砂浜でボールを追いかけている。",
    ),
    "Ein Kind im gelben Regenmantel springt in eine Pfütze.": (
        "A boy in a yellow raincoat jumps into a puddle.",
        "Ein Junge im Regenmantel hüpft durch das Wasser.",
        "黄色いレインコートの男の子が水たまりに飛び込む。",
    ),
}
LANGUAGES = ("en", "de", "ja")

# English, German in place of a photo, texts of regions, and which of them the caption mentions
EIGHT = (
    (
        "A red boat sails on the calm lake.",
        "Ein rotes Boot segelt auf dem See.",
        ["a red boat", "a tree"],
        [0],
    ),
    (
        "Two brown dogs chase a ball.",
        "Zwei Hunde jagen einen Ball.",
        ["two dogs", "a ball", "a bicycle"],
        [0, 1],
    ),
    ("An old woman reads a newspaper.", "Eine alte Frau liest.", ["an old woman", "a newspaper"], [0, 1]),
    ("A small child paints a yellow house.", "Ein Kind malt ein Haus.", ["a dog", "a yellow house"], [1]),
    ("Three white horses cross the meadow.", "Drei weiße Pferde.", ["a lamp", "white horses"], [1]),
    ("A man repairs a bicycle.", "Ein Mann repariert ein Fahrrad.", ["a man", "a bicycle", "a cake"], [0, 1]),
    ("A black cat sleeps under the table.", "Eine Katze schläft.", ["a black cat", "an airplane"], [0]),
    ("A young girl eats a large cake.", "Ein Mädchen isst Kuchen.", ["a young girl", "a boat"], [0]),
)


def write_captions(path: Path) -> Path:
    """24 captions in three languages."""
    import skimage

    photos = Path(skimage.__file__).parent / "data"
    rows = [
        {"image": str(photos / name), "caption": caption, "language": language}
        for name, captions in CAPTIONS.items()
        for language, caption in zip(LANGUAGES, captions, strict=True)
    ]
    rows += [
        {"stand_in": stand_in, "caption": caption, "language": language}
        for stand_in, captions in WITHOUT_PHOTO.items()
        for language, caption in zip(LANGUAGES, captions, strict=True)
    ]
    return write_jsonl(path, rows)
