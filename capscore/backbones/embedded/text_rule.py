"""A caption as somebody wrote it → the caption as the embedded backbones read it.

What stands around a caption goes: quotes, brackets, list marks, markup, special tokens of a model, an
assistant's lead-in, signs at the end. What is style inside it has one form: capitals, dashes, apostrophes,
blanks before signs. What says something stays. Each rule is a row of `_AROUND` or `_INSIDE`, a word of a
list, or `_in_one_case`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable

# Name of the rule in signatures; to be raised whenever it can change a text in another way.
TEXT_RULE = "folded2"

# ---- what stands around a caption ----

_BLANKS = " \t\r\n\f\v\u00a0\u2002\u2003\u2009\u200b\u200c\u200d\u200e\u200f\u2060\u3000\ufeff"
_FIRST = _BLANKS + "¿¡,;:…|，；：、"
_FINAL = _BLANKS + ".!?…;:,|۔।؟؛،。！？．｡；：，、–—-"
# What a caption is called by those who ask for one and those who give one.
_NAMES = (
    "answer|caption|description|snapshot|photo|photograph|image|picture|output|response|result|title|alt"
    "|alt[ -]?text|text|summary|assistant|prediction|hypothesis|candidate|screenshot|a"
    "|bildunterschrift|bildbeschreibung|bildtitel|beschreibung|antwort|bild|foto|ausgabe|ergebnis|titel"
    "|légende|réponse|titre|résultat|sortie|texte alternatif"
    "|leyenda|descripción|respuesta|imagen|título|pie de foto|resultado|subtítulo|texto alternativo"
    "|legenda|descrição|resposta|imagem|didascalia|descrizione|risposta|immagine|onderschrift|beschrijving"
    "|подпись|описание|ответ|açıklama|altyazı|opis|الوصف|وصف الصورة|التعليق|الإجابة"
    "|答案|回答|(?:图片|图像|照片|圖片)?(?:描述|说明|說明|标题|標題)|图片|图像|照片|字幕|输出"
    "|キャプション|説明|画像|写真|캡션|설명|답변"
)
_BEFORE_NAME = (
    "the|a|an|my|your|final|short|brief|detailed|generated|predicted|possible|suggested|best|one-sentence"
    "|image|photo|picture|model|english|german|french|spanish|chinese|die|der|das|la|le|el|una?|une"
)
_LABEL = rf"(?:(?:{_BEFORE_NAME})[ -]+){{0,3}}(?:{_NAMES})(?:\s*(?:#\s*)?\d+)?"
_OPENERS = (
    "sure(?: thing)?|certainly|of course|okay|ok|absolutely|natürlich|gerne?|klar|sicher|bien sûr|d'accord"
    "|certainement|claro(?: que sí)?|por supuesto|desde luego|当然(?:可以)?|好的|没问题|certo|com certeza"
)
_PRESENTS = (
    "here(?:'s|’s| is| are)|this is|below is|the following is|hier (?:ist|sind|kommt)|voici"
    "|aqu[ií] (?:tienes|está|va)|esta es|ecco|这是|以下是|下面是"
)
_COLON = r"\s*[:：][\"'*]*\s*"
# What stands before a caption; it is taken off again and again, until nothing is found.
_LEAD = re.compile(
    r"\.\.+"
    # a list mark, a heading, a quotation: "- ", "1. ", "(a) ", "#2: ", "2、"
    r"|[-–—*•·‣▪●○◦→>#+]+\s+|[・①-⑳]\s*|#?\d{1,3}(?:[.)\]]\s+|(?::|\s[-–|])\s+(?=\D))|#\d{1,3}\s+|\d{1,2}[、．]\s*"
    r"|[(\[（【](?:\d{1,3}|[a-z]|[ivx]{2,4})[)\]）】]\s*|(?:[a-z]|[ivx]{2,4})\)\s+"
    rf"|[\"'*]*(?:{_LABEL})[\"'*]*{_COLON}(?=.)"
    rf"|(?:{_OPENERS})\s*[!,.，！。]+\s*"
    rf"|(?:{_PRESENTS})[^:：.!?。！？\n]{{0,60}}?(?:{_NAMES})[^:：.!?。！？\n]{{0,60}}{_COLON}"
    r"|```\w*\s*\n",
    re.IGNORECASE,
)
# Signs of one kind, which go at both ends of a text → where one of them opens or closes a quotation.
_QUOTES = {
    kind: re.compile(rf"(?<!\w)[{kind}]|[{kind}](?!\w)")
    for kind in ('"“”„‟″＂', "'‘’‚‛", "«»‹›", "「」『』《》", "`´", "*", "~")
}
_BRACKETS = dict(zip("([{<（【［｛〈〔", ")]}>）】］｝〉〕", strict=True))
_MASK = "[MASK]"

# ---- what is style inside it ----

_TOKENS = re.compile(
    r"<\|[^|<>]{1,40}\|>|</?(?:s|pad|unk|eos|bos|sos|cls|sep|go|start|end|image|img|start_of_turn|end_of_turn"
    r"|assistant|user|caption|p|b|i|u|q|em|br|div|span|strong|blockquote|li|h[1-6])\s*/?>"
    r"|\[(?:cls|sep|pad|unk|eos|bos|sos|/?inst)\]|\b(?:startseq|endseq)\b",
    re.IGNORECASE,
)
_STOP = "[，。！？、；：]"
_HAN = "[\u3040-\u30ff\u3400-\u9fff]"
# What a text needs for a pattern to be looked for; the pattern; what it becomes
_INSIDE = (
    (re.compile(r"[<\[]|seq\b", re.IGNORECASE).search, _TOKENS, " "),
    (re.compile("[wW]/").search, re.compile(r"\bw/o\b", re.IGNORECASE), "without"),
    (re.compile("[wW]/").search, re.compile(r"\bw/\s*", re.IGNORECASE), "with "),
    (
        re.compile(_HAN).search,
        re.compile(rf"(?<={_HAN})[ \t\u3000]+(?={_HAN}|{_STOP})|(?<={_STOP})[ \t\u3000]+(?={_HAN})"),
        "",
    ),
    # as tokenisers leave it: "a dog , which does n't run", "a man 's hat"
    (
        re.compile(r"\s[,;:.!?'’n]").search,
        re.compile(r"(?<=\w)\s+(?=[,;:.!?](?:\s|\Z)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)"),
        "",
    ),
    (re.compile("[’ʼ＇]").search, re.compile(r"(?<=\w)[’ʼ＇](?=\w)"), "'"),
)
_SIGNS = str.maketrans({"_": " ", "\u0640": None, **dict.fromkeys("‐‑–—", "-"), **dict.fromkeys("“”„", '"')})
_SAYS_SOMETHING = re.compile(r"[^\W_]").search
# Most captions in lower case, which are read as they are where no word ends as "startseq" and "endseq" do.
_PLAIN = re.compile(r"(?!.*seq\b)[a-z]+(?: [a-z]+)*\Z")

# ---- capitals ----

_WORD = re.compile(r"[^\W\d_]+")  # digits and signs have no case
# What follows one of these is part of a word: "D'un", "T-shirt".
_JOINTS = ("'", "’", "-")
# Always in capitals: in lower case they mean the same.
_ACRONYMS = frozenset("tv uk dvd suv bbq bmx nba nfl atv nyc gps bmw lcd".split())
# Kept as they stand: in lower case they are words, in English or another language.
_KEPT = frozenset("US USA EU UN".split())
# What titles leave in lower case.
_SMALL = frozenset(
    "a an the and or nor but as at by for from in into of off on onto out over per to up via with near is"
    " le la les l un une des du de d et ou à au aux en dans sur avec par pour sous"
    " el los las una unos unas del y o e con por para al sobre su sus que"
    " il lo gli i uno di da nel nella su della do da dos das no na nos nas com em ao".split()
)
# German words, one of the first or two of the second of which tell the language: nouns have capitals there.
_GERMAN = frozenset(
    "ein eine einen einem einer eines und auf neben zwei drei vier fünf sitzt steht läuft".split()
)
_ALSO_GERMAN = frozenset("der die das den dem im am zum zur mit vor zu von ist sind über durch".split())
# A noun follows these at once, but for adjectives, and those end in one of these.
_ARTICLES = frozenset(
    "ein eine einen einem einer eines der die das den dem im am zum zur zwei drei vier fünf".split()
)
_ADJECTIVAL = ("e", "en", "er", "es", "em")

NounTest = Callable[[str], bool]


def folded(text: str, is_noun: NounTest | None = None) -> str:
    """A text as the embedded backbones read it: what is around the caption goes, style has one form.

    The first word is in lower case, and so are words of capitals but for acronyms. Where all other words are
    capitalised, or all but the small ones, as in titles, they are in lower case, too; where some are not,
    capitals mark nouns and names, which the encoder then knows better. German nouns that have lost theirs get
    them back if `is_noun` knows them. "[MASK]", which hides a word, stays, and so does a text of signs alone.

    >>> folded("A dog runs. It is brown !"), folded("A herd of ELEPHANTS"), folded("Ein Hund im Schnee.")
    ('a dog runs. It is brown', 'a herd of elephants', 'ein Hund im Schnee')
    >>> folded('1. **Caption:** "A Herd of Elephants Stop"</s>'), folded("İKİ KÖPEK"), folded("...")
    ('a herd of elephants stop', 'iki köpek', '...')
    """
    if _PLAIN.match(text):  # then only acronyms and German nouns get capitals
        words = text.split(" ")
        if _ACRONYMS.isdisjoint(words) and not (is_noun and _is_german(words)):
            return text
    return _in_one_case(unwrapped(text), is_noun)


def all_folded(texts: Iterable[str], is_noun: NounTest | None = None) -> list[str]:
    """Each text `folded`."""
    return [folded(text, is_noun) for text in texts]


def all_unwrapped(texts: Iterable[str]) -> list[str]:
    """Each text `unwrapped`."""
    return list(map(unwrapped, texts))


def unwrapped(text: str) -> str:
    """A text without what stands around a caption and without markup; its capitals stay.

    >>> unwrapped("Sure! Here is a caption: “A dog &amp; a cat”"), unwrapped("The image shows a dog")
    ('A dog & a cat', 'The image shows a dog')
    """
    if _PLAIN.match(text):
        return text
    plain = text
    for _ in range(2):
        plain = html.unescape(plain) if "&" in plain else plain
    for may_be, pattern, form in _INSIDE:
        if may_be(plain):
            plain = pattern.sub(form, plain)
    plain = plain.translate(_SIGNS)
    before = ""
    while plain != before:
        before = plain
        plain = plain.rstrip(_FINAL).lstrip(_FIRST)
        if lead := _LEAD.match(plain):
            plain = plain[lead.end() :]
        plain = _without_pair(plain)
    return plain if _SAYS_SOMETHING(plain) else text


def _without_pair(text: str) -> str:
    """A text without the quotes or brackets around all of it."""
    close = _BRACKETS.get(text[:1])
    if close and text.endswith(close) and text != _MASK:
        depth = 0
        for index, sign in enumerate(text):
            depth += (sign == text[0]) - (sign == close)
            if not depth:
                return text[1:-1].strip() if index == len(text) - 1 else text
    for kind, sign_of_quotation in _QUOTES.items():
        inner = text.strip(kind)
        if inner == text or not inner:
            continue
        within = sign_of_quotation.search(inner)
        both = text[0] in kind and text[-1] in kind
        if within is None:
            if both or "'" not in kind:
                return inner.strip()
        elif both and inner[: within.start()].endswith((" ", "(")):
            return text[1:-1].strip()  # it opens a quotation within this one
    return text


def _in_one_case(text: str, is_noun: NounTest | None) -> str:
    """A text without capitals that are style; see `folded`."""
    text = text.replace("I\u0307", "İ")
    words = list(_WORD.finditer(text.replace(_MASK, " " * len(_MASK))))
    styled = _is_title([word[0] for word in words if text[word.start() - 1 : word.start()] not in _JOINTS])
    own_case = {"I": "ı", "İ": "i"} if "İ" in text else {}
    shouted = [len(word[0]) > 1 and word[0].isupper() for word in words]
    forms = []
    for index, match in enumerate(words):
        word = match[0]
        lower = "".join(own_case.get(letter, letter.lower()) for letter in word)
        is_code = text[match.end() : match.end() + 1].isdigit()  # as in "A4"
        single = len(word) == 1 and not is_code and any(shouted[max(index - 1, 0) : index + 2])
        if lower in _ACRONYMS:
            lower = lower.upper()
        elif not styled and (word in _KEPT or not (index == 0 or shouted[index] or single)):
            lower = word
        forms.append(lower)
    if is_noun is not None and _is_german(forms):
        none_kept = not any(form[0].isupper() for form in forms[1:] if form.lower() not in _ACRONYMS)
        for index in range(1, len(forms)):
            form = forms[index]
            follows = forms[index - 1] in _ARTICLES and not form.endswith(_ADJECTIVAL)
            if (none_kept or shouted[index]) and (follows or is_noun(form)):
                forms[index] = form.capitalize()
    parts, end = [], 0
    for match, form in zip(words, forms, strict=True):
        parts += [text[end : match.start()], form]
        end = match.end()
    return "".join([*parts, text[end:]])


def _is_title(words: list[str]) -> bool:
    """Whether capitals say nothing: all words have one, or all but the small words of a title."""
    others = [word for word in words[1:] if word not in _KEPT and word.lower() not in _ACRONYMS]
    small = [word for word in others if word[0] == word[0].lower()]
    if not small:
        return bool(others) or len(words) < 2
    return len(others) > len(small) + 1 and _SMALL.issuperset(small) and not _is_german(small)


def _is_german(words: list[str]) -> bool:
    return not _GERMAN.isdisjoint(words) or len(_ALSO_GERMAN.intersection(words)) > 1
