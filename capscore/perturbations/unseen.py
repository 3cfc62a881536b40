"""Captions → the same captions with lexical noise of kinds that PR-MCS neither trains on nor reports.

In: captions of one language. Out: `Perturbed`, as of `capscore.perturbations.published`: what a caption
becomes depends on the caption, the seed and the language alone. They show whether a metric learnt that
something is wrong with a caption's words, or only the five kinds it was trained on; two of them, number and
negation, leave fluent captions that say something else.

What a language writes (numbers, where a negation stands, common nouns) is in tables here. A kind that a
language has no table for is an error, not a guess.
"""

from __future__ import annotations

import difflib
import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from ..errors import CapscoreError, InputError
from ..text.languages import NAMES, language_code
from .published import Perturbed, _generator, _parted, _woven, check_captions, word_finder

KINDS = ("neighbours", "typos", "number", "negation", "foreign", "truncation")
RULES = "unseen1"  # in signatures; the digit grows whenever a caption can come out otherwise


def perturb_unseen(
    captions: Sequence[str], kind: str, language: str | None = None, *, seed: int = 0
) -> Perturbed:
    """Perturb captions in a way that the five published kinds do not.

    - neighbours: two words that stand side by side change places.
    - typos: in a word of three letters or more, of captions of eight words or more in two, two letters change
      places, or one is left out or doubled. In Japanese and Chinese a character is written as the one beside
      it.
    - number: a number, as a word from two to ten or in digits, becomes another one. A caption without any
      stays as it is.
    - negation: a "not" stands where the language puts it. A caption for which no rule does stays as it is.
    - foreign: a word becomes a word of another language: its counterpart where it is a common noun that is
      known here, else any common noun.
    - truncation: the last 30 to 50 percent of the words are cut off.

    Args:
        captions: n texts in one language.
        kind: one of `KINDS`.
        language: as `capscore.text.languages.language_code` takes it; None counts as English.
        seed: another one gives other draws.

    Raises:
        CapscoreError: an unknown kind, a seed that is no whole number.
        InputError: a caption that is not a string or is blank (names the row); the kind has no rules for the
            language.
        MissingExtraError: the language's segmenter, or what finds its verbs, is not installed.

    >>> perturb_unseen(["two dogs run on the beach"], "number", "en").captions
    ['six dogs run on the beach']
    >>> perturb_unseen(["Ein Hund läuft."], "negation", "de").captions
    ['Kein Hund läuft.']
    """
    if kind not in KINDS:
        close = difflib.get_close_matches(str(kind).lower(), KINDS, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CapscoreError(f"perturbation {kind!r} is not one of {', '.join(KINDS)}{hint}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise CapscoreError(f"seed={seed!r}: expected a whole number")
    check_captions(captions)
    code = None if language is None else language_code(language)
    if not known(kind, code):
        raise InputError(
            f"there are no rules for {kind!r} in {_named(code)}; there are for {', '.join(_TABLES[kind])}",
            field="language",
        )
    settings: dict[str, object] = {"seed": seed, "rules": RULES}
    if kind in ("neighbours", "typos", "foreign", "truncation"):
        settings["words"] = word_finder(code)
    if kind == "negation" and (code or "en") in _NEEDS_VERBS:
        from ..text.word_classes import tagger_name

        settings["verbs"] = tagger_name(code or "en")
    change = _CHANGES[kind]
    texts = [change(caption, code or "en", _generator(seed, kind, caption)) for caption in captions]
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return Perturbed(texts, unchanged, np.zeros(len(texts), dtype=np.int64), kind, code, settings)


def known(kind: str, language: str | None = None) -> bool:
    """Whether a kind has rules for a language.

    >>> known("negation", "ja"), known("negation", "sw"), known("typos", "sw")
    (True, False, True)
    """
    code = "en" if language is None else language_code(language)
    return kind not in _TABLES or code in _TABLES[kind]


def _named(code: str | None) -> str:
    return f"{NAMES[code][1]} ({code!r})" if code in NAMES else repr(code)


# ---- words and their places ----


def _pieces(caption: str, code: str) -> list[tuple[int, int]]:
    """Where the words stand, without the punctuation around them; none for what is punctuation alone."""
    places, end = [], 0
    pieces, gaps = _parted(caption, code)
    for piece, gap in zip(pieces, gaps[:-1], strict=True):
        start = end + len(gap)
        last = end = start + len(piece)
        while start < last and _is_sign(caption[start]):
            start += 1
        while start < last and _is_sign(caption[last - 1]):
            last -= 1
        if start < last:
            places.append((start, last))
    return places


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] in "PSC"


def _as(word: str, model: str) -> str:
    """The word with a capital where the model has one."""
    return word[0].upper() + word[1:] if model[:1].isupper() else word


# ---- neighbours ----


def _neighbours(caption: str, code: str, chance: random.Random) -> str:
    places = _pieces(caption, code)
    texts = [caption[start:end] for start, end in places]
    pairs = [n for n in range(len(texts) - 1) if texts[n] != texts[n + 1]]
    if not pairs:
        return caption
    n = chance.choice(pairs)
    (a, b), (c, d) = places[n : n + 2]
    return caption[:a] + caption[c:d] + caption[b:c] + caption[a:b] + caption[d:]


# ---- typos ----


def _typos(caption: str, code: str, chance: random.Random) -> str:
    places = _pieces(caption, code)
    if code in ("ja", "zh"):
        return _another_character(caption, chance)
    long = [place for place in places if len(_letters(caption[slice(*place)])) >= 3]
    chosen = chance.sample(long, min(len(long), 2 if len(places) >= 8 else 1))
    for start, end in sorted(chosen, reverse=True):
        caption = caption[:start] + _mistyped(caption[start:end], chance) + caption[end:]
    return caption


def _letters(word: str) -> list[str]:
    """What a reader takes for one letter: a character with the marks on it."""
    found: list[str] = []
    for character in word:
        if found and (unicodedata.category(character)[0] == "M" or character in "\u200c\u200d"):
            found[-1] += character
        else:
            found.append(character)
    return found


def _mistyped(word: str, chance: random.Random) -> str:
    letters = _letters(word)
    way = chance.choice(("swap", "drop", "double"))
    different = [n for n in range(len(letters) - 1) if letters[n] != letters[n + 1]]
    if way == "swap" and different:
        n = chance.choice(different)
        letters[n : n + 2] = letters[n + 1], letters[n]
        return "".join(letters)
    n = chance.randrange(len(letters))
    letters[n : n + 1] = [] if way == "drop" else letters[n : n + 1] * 2
    return "".join(letters)


def _another_character(caption: str, chance: random.Random) -> str:
    places = [n for n, character in enumerate(caption) if character.isalnum()]
    pairs = [(n, m) for n in places for m in (n - 1, n + 1) if m in places and caption[n] != caption[m]]
    if not pairs:
        return caption
    n, m = chance.choice(pairs)
    return caption[:n] + caption[m] + caption[n + 1 :]


# ---- truncation ----


def _truncation(caption: str, code: str, chance: random.Random) -> str:
    pieces, gaps = _parted(caption, code)
    counts = [cut for cut in range(1, len(pieces)) if 3 * len(pieces) <= 10 * cut <= 5 * len(pieces)]
    if not counts:
        return caption
    kept = len(pieces) - chance.choice(counts)
    return _woven(pieces[:kept], [*gaps[:kept], ""])


# ---- number ----

# Numbers that can stand for each other in a phrase, in rows of words; "-" where a word means something else
# too, or takes another form of the noun. One is left out: it is the article in most of these languages.
_NUMBERS: dict[str, tuple[str, ...]] = {
    "ar": ("- ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة", "- ثلاث أربع خمس ست سبع ثماني تسع عشر"),
    "cs": ("dva tři čtyři", "dvě tři čtyři", "- - - pět šest sedm osm devět deset"),
    "da": ("to tre fire fem seks syv otte ni ti",),
    "de": ("zwei drei vier fünf sechs sieben acht neun zehn",),
    "en": ("two three four five six seven eight nine ten",),
    "es": ("dos tres cuatro cinco seis siete ocho nueve diez",),
    "fr": ("deux trois quatre cinq six sept huit - dix",),
    "id": ("dua tiga empat lima enam tujuh delapan sembilan sepuluh",),
    "it": ("due tre quattro cinque sei sette otto nove dieci",),
    "ja": (),
    "ko": (),
    "nl": ("twee drie vier vijf zes zeven acht negen tien",),
    "no": ("to tre fire fem seks sju åtte ni ti",),
    "pl": (
        "dwa trzy cztery",
        "dwie trzy cztery",
        "- - - pięć sześć siedem osiem dziewięć dziesięć",
        "dwóch trzech czterech pięciu sześciu siedmiu ośmiu dziewięciu dziesięciu",
        "dwoje troje czworo pięcioro sześcioro",
    ),
    "pt": (
        "dois três quatro cinco seis sete oito nove dez",
        "duas três quatro cinco seis sete oito nove dez",
    ),
    "ru": (
        "два три четыре",
        "две три четыре",
        "- - - пять шесть семь восемь девять десять",
        "двое трое четверо пятеро шестеро",
        "двух трёх четырёх пяти шести семи восьми девяти десяти",
    ),
    "sv": ("två tre fyra fem sex sju åtta nio tio",),
    "th": ("สอง สาม สี่ ห้า หก เจ็ด แปด เก้า สิบ",),
    "tr": ("iki üç dört beş altı yedi sekiz dokuz on",),
    "uk": ("два три чотири", "дві три чотири", "- - - п'ять шість сім вісім дев'ять десять"),
    "zh": (),
}
# Written together with what is counted: (pattern of the number, what may stand in its place)
_HAN = "〇一二三四五六七八九十百千两兩"
_COUNTED = {
    "ja": (
        rf"(?<![{_HAN}])[一二三四五六七八九](?=人|匹|頭|台|本|個|枚|羽|つ|名|隻|艘|冊|着|足|組|機|両|杯|軒|歳)",
        "一二三四五六七八九",
    ),
    "ko": (
        r"(?<!\w)(?:두|세|네|다섯|여섯|일곱|여덟|아홉|열)(?=\s|명|마리|개|대|사람|살|그루|켤레|장|송이|척|쌍)",
        "두 세 네 다섯 여섯 일곱 여덟 아홉 열".split(),
    ),
    "zh": (
        rf"(?<![{_HAN}第])[二两兩三四五六七八九](?=个|個|名|只|隻|条|條|位|辆|輛|匹|头|頭|张|張|棵|艘|架|把|件|座|朵|块|塊|人)",
        "三四五六七八九",  # not two, of which there are two words
    ),
}
_DIGITS = re.compile(r"(?<![\w.,:])\d+(?!\w|[.,:]\d)")
_DIGITS_IN_TEXT = re.compile(r"(?<!\d)\d+(?!\d)")


def _number(caption: str, code: str, chance: random.Random) -> str:
    found: list[tuple[int, int, list[str]]] = []
    if code in _COUNTED:
        pattern, others = _COUNTED[code]
        for match in re.finditer(pattern, caption):
            found.append((*match.span(), [other for other in others if other != match.group()]))
    rows = _number_rows(code)
    if rows:
        for start, end in _pieces(caption, code):
            word = caption[start:end]
            row = rows.get(word.lower().replace("’", "'"))
            if row is not None:
                found.append((start, end, [_as(other, word) for other in row if other != word.lower()]))
    for match in (_DIGITS_IN_TEXT if code in ("ja", "ko", "th", "zh") else _DIGITS).finditer(caption):
        found.append((*match.span(), [_another_number(match.group(), chance)]))
    if not found:
        return caption
    start, end, others = chance.choice(sorted(found))
    return caption[:start] + chance.choice(others) + caption[end:]


@cache
def _number_rows(code: str) -> dict[str, list[str]]:
    """A number as a word → the words of its row; of a word in several rows, those of the first."""
    rows: dict[str, list[str]] = {}
    for row in _NUMBERS[code]:
        listed = [word for word in row.split() if word != "-"]
        for word in listed:
            rows.setdefault(word, listed)
    return rows


def _another_number(digits: str, chance: random.Random) -> str:
    """Another number with as many digits, in the same script; of one digit none but 2 to 9."""
    zero = ord(digits[0]) - unicodedata.decimal(digits[0])
    value, n = int(digits), len(digits)
    low = 2 if n == 1 else 10 ** (n - 1)
    while (other := chance.randrange(low, 10**n)) == value:
        pass
    return "".join(chr(zero + int(digit)) for digit in str(other))


# ---- negation ----

# The word that stands before the verb, and words that stand between it and the verb.
_BEFORE_VERB = {
    "ar": ("لا", ""),
    "es": ("no", "se lo la los las le les me te nos"),
    "he": ("לא", ""),
    "id": ("tidak", "sedang"),
    "it": ("non", "si lo la li le gli ci vi ne mi ti"),
    "pl": ("nie", ""),
    "pt": ("não", "se lhe lhes me te"),
    "ro": ("nu", "se o îl îi le își"),
    "ru": ("не", ""),
    "uk": ("не", ""),
}
# Forms that a tagger counts among "other": auxiliaries and copulas.
_AUXILIARIES = {
    "en": "is are was were am can will would could should must may might",
    "es": "es son está están era eran estaba estaban hay ha han fue",
    "fr": "est sont était étaient a ont avait peut peuvent",
    "it": "è sono era erano sta stanno ha hanno può possono",
    "pl": "jest są był była były może",
    "pt": "é são está estão era eram estava estavam há tem têm foi",
    "ro": "este sunt e era erau are au",
    "ru": "был была было были есть",
    "uk": "був була було були є",
    "id": "sedang akan bisa",
}
# Where there is no verb, the negation stands before the first of these: A man not in the street.
_PREPOSITIONS = {
    "da": "i på ved med under foran bag over mod gennem langs til",
    "de": "in im auf an am bei mit vor hinter unter über neben zwischen durch entlang aus zu zum zur",
    "en": "in on at with near under behind by over above along beside inside between through against next",
    "es": "en sobre con junto ante bajo detrás cerca entre por",
    "fr": "dans sur avec devant derrière sous près en au aux à parmi",
    "id": "di dengan pada dalam",
    "it": "in nel nella nello su sul sulla con davanti dietro sotto vicino tra al alla",
    "nl": "in op aan bij met voor achter onder over naast tussen door langs",
    "no": "i på ved med under foran bak over mot gjennom langs til",
    "pl": "w we na z ze przy pod nad obok przed za między",
    "pt": "em no na nos nas sobre com junto sob perto entre por",
    "ro": "în pe cu lângă sub la printre",
    "ru": "в во на с со у под над возле перед за между",
    "sv": "i på vid med under framför bakom över mot genom längs till",
    "uk": "в у на з із біля під над перед за між",
}
# The article becomes "no".
_NO_ARTICLE = {
    "da": {"en": "ingen", "et": "intet"},
    "de": {f"ein{end}": f"kein{end}" for end in ("", "e", "en", "em", "er", "es")},
    "nl": {"een": "geen"},
    "no": {"en": "ingen", "et": "intet"},
    "sv": {"en": "ingen", "ett": "inget"},
}
_NOT = {"da": "ikke", "de": "nicht", "en": "not", "fr": "pas", "nl": "niet", "no": "ikke", "sv": "inte"}
# Endings, the first that a caption has; of several places the last.
_ENDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "ja": (
        (r"([てで])いる", r"\1いない"),
        (r"([てで])います", r"\1いません"),
        (r"([てで])いた", r"\1いなかった"),
        (r"([てで])いました", r"\1いませんでした"),
        (r"([がもは])ある", r"\1ない"),
        (r"([がもはに])いる", r"\1いない"),
        (r"([がもは])あります", r"\1ありません"),
        (r"([がもはに])います", r"\1いません"),
        (r"である", "ではない"),
        (r"ました", "ませんでした"),
        (r"ます(?!ま)", "ません"),
        (r"です", "ではありません"),
        (r"([っし着])た(?=[\u4e00-\u9fff\u30a0-\u30ff])", r"\1ていない"),
        (r"んだ(?=[\u4e00-\u9fff\u30a0-\u30ff])", "んでいない"),
    ),
    "ko": (
        (r"고 있는", "고 있지 않은"),
        (r"고 있", "고 있지 않"),
        (r"([아어여해와워]) 있는", r"\1 있지 않은"),
        (r"([아어여해와워]) 있", r"\1 있지 않"),
        (r"([이가은는에]) 있", r"\1 없"),
    ),
}
_NEEDS_VERBS = frozenset((*_BEFORE_VERB, "cs", "en", "fr", "th", "zh"))


def _negation(caption: str, code: str, chance: random.Random) -> str:
    if code in _ENDINGS:
        return _by_ending(caption, code)
    if code in _NO_ARTICLE:
        return _by_article(caption, code, chance)
    if code == "tr":
        return _turkish(caption)
    return _NEGATIONS.get(code, _before_verb)(caption, code)


def _by_ending(caption: str, code: str) -> str:
    for pattern, negated in _ENDINGS[code]:
        matches = list(re.finditer(pattern, caption))
        if matches:
            last = matches[-1]
            return caption[: last.start()] + last.expand(negated) + caption[last.end() :]
    return caption


def _by_article(caption: str, code: str, chance: random.Random) -> str:
    """No dog for a dog; without an article "not" before the first preposition, else at the end."""
    places = _pieces(caption, code)
    # at the end it is a part of the verb: er steigt ein
    articles = [place for place in places[:-1] if caption[slice(*place)].lower() in _NO_ARTICLE[code]]
    if articles:
        start, end = chance.choice(articles)
        word = caption[start:end]
        return caption[:start] + _as(_NO_ARTICLE[code][word.lower()], word) + caption[end:]
    return _before_preposition(caption, code, _NOT[code]) or _at_end(caption, f" {_NOT[code]}")


def _turkish(caption: str) -> str:
    there = re.compile(r"\bvar\b").search(caption)
    if there:
        return caption[: there.start()] + "yok" + caption[there.end() :]
    return _at_end(caption, " değil")


def _at_end(caption: str, ending: str) -> str:
    end = len(caption)
    while end and (_is_sign(caption[end - 1]) or caption[end - 1].isspace()):
        end -= 1
    return caption[:end] + ending + caption[end:] if end else caption


def _before_preposition(caption: str, code: str, negation: str) -> str:
    """The negation before the first preposition that does not begin the caption; "" if there is none."""
    for start, end in _pieces(caption, code)[1:]:
        if caption[start:end] in _set_of(_PREPOSITIONS, code):
            return f"{caption[:start]}{negation} {caption[start:]}"
    return ""


def _set_of(table: dict[str, str], code: str) -> frozenset[str]:
    return frozenset(table.get(code, "").split())


def _first_verb(caption: str, code: str) -> int | None:
    """Number of the first verb or auxiliary among the words that `tag` finds."""
    auxiliaries = _set_of(_AUXILIARIES, code)
    for number, word in enumerate(_tagged(caption, code)):
        if word.word_class == "verb" or word.text.lower() in auxiliaries:
            return number
    return None


def _tagged(caption: str, code: str) -> list:
    from ..text.word_classes import tag

    return tag([caption], code)[0]


def _before_verb(caption: str, code: str) -> str:
    negation, between = _BEFORE_VERB[code]
    found, number = _tagged(caption, code), _first_verb(caption, code)
    if number is None:
        return _before_preposition(caption, code, negation) or caption
    while number and found[number - 1].text.lower() in between.split():
        number -= 1
    return _inserted(caption, found[number].start, negation)


def _inserted(caption: str, place: int, word: str) -> str:
    """A word and a blank at a place; a capital goes over to it."""
    rest = caption[place:]
    if not caption[:place].strip() and rest[:1].isupper():
        word, rest = _as(word, rest), rest[0].lower() + rest[1:]
    return f"{caption[:place]}{word} {rest}"


def _english(caption: str, code: str) -> str:
    """is not, does not run, do not run, not running; without a verb not in."""
    auxiliaries = _set_of(_AUXILIARIES, code)
    tagged = _tagged(caption, code)
    for word, after in zip(tagged, [*tagged[1:], None], strict=True):
        text = word.text.lower()
        helping = text in ("has", "have", "had") and after is not None and after.word_class == "verb"
        if text in auxiliaries or helping:
            return f"{caption[: word.end]} not{caption[word.end :]}"
        if word.word_class != "verb" and text not in ("has", "have", "had"):
            continue
        if text.endswith(("ing", "ed", "en", "wn")):
            return _inserted(caption, word.start, "not")
        if text in ("has", "does", "goes"):
            text = {"has": "does not have", "does": "does not do", "goes": "does not go"}[text]
        elif text.endswith("s") and not text.endswith("ss"):
            text = f"does not {_base(text)}"
        elif text in _ENGLISH_PAST:
            text = f"did not {_ENGLISH_PAST[text]}"
        else:
            text = f"do not {text}"
        return caption[: word.start] + _as(text, word.text) + caption[word.end :]
    return _before_preposition(caption, code, "not") or caption


_ENGLISH_PAST = {
    past: base
    for past, base in (
        pair.split(":")
        for pair in "ran:run sat:sit stood:stand rode:ride held:hold wore:wear took:take ate:eat drank:drink "
        "made:make lay:lie flew:fly swam:swim went:go had:have did:do threw:throw caught:catch "
        "drove:drive got:get came:come".split()
    )
}


def _base(verb: str) -> str:
    """An English verb in the third person → the infinitive.

    >>> [_base(verb) for verb in ("runs", "carries", "watches", "rides", "crosses", "lies")]
    ['run', 'carry', 'watch', 'ride', 'cross', 'lie']
    """
    if verb.endswith("ies"):
        return f"{verb[:-3]}y" if len(verb) > 4 else verb[:-1]
    if verb.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return verb[:-2]
    return verb[:-1]


def _french(caption: str, code: str) -> str:
    """ne … pas around the verb and the pronoun before it; ne pas before an infinitive.

    Before a participle, or without a verb before a preposition, pas alone.
    """
    found, number = _tagged(caption, code), _first_verb(caption, code)
    if number is None:
        return _before_preposition(caption, code, "pas") or caption
    verb = found[number]
    text = verb.text.lower()
    if text not in _set_of(_AUXILIARIES, code):
        before = found[number - 1].text.lower() if number else ""
        if text.endswith(("er", "ir", "re")) and before in (
            "à",
            "de",
            "pour",
            "sans",
            "d'",
            "d’",
            "en train",
        ):
            return _inserted(caption, verb.start, "ne pas")
        if re.search(r"(?:é|ée|és|ées|u|ue|us|ues|is|ise|ises|it|ite|ert|erte|erts|ertes)$", text):
            return _inserted(caption, verb.start, "pas")
    first = number
    while first and found[first - 1].text.lower() in ("se", "s'", "s’", "y", "en", "lui", "leur"):
        first -= 1
    start, end = found[first].start, verb.end
    inner = caption[start:end]
    elided = unicodedata.normalize("NFD", inner[0].lower())[0] in "aeiouy"
    return f"{caption[:start]}{'n’' if elided else 'ne '}{inner} pas{caption[end:]}"


def _czech(caption: str, code: str) -> str:
    """The verb with ne- before it; without one ne before a preposition."""
    for word in _tagged(caption, code):
        text = word.text.lower()
        if text == "je":
            return caption[: word.start] + _as("není", word.text) + caption[word.end :]
        if word.word_class == "verb" or text in ("jsou", "byl", "byla", "byli", "byly"):
            return caption[: word.start] + _as(f"ne{text}", word.text) + caption[word.end :]
    return caption


def _chinese(caption: str, code: str) -> str:
    """没有 before the first verb or what says that it goes on, 不 before 是 and 在.

    In simplified or traditional characters, as the caption is written.
    """
    from ..text.segmenters import chinese_simplifier

    simplified = chinese_simplifier()(caption) == caption
    have_not = "没有" if simplified else "沒有"
    found = _tagged(caption, code)
    for word, after in zip(found, [*found[1:], None], strict=True):
        if word.text == "正在":
            return f"{caption[: word.start]}{have_not}在{caption[word.end :]}"
        going_on = word.text == "在" and after is not None and after.word_class == "verb"
        if word.text in ("是", "有"):
            return caption[: word.start] + {"是": "不", "有": have_not[0]}[word.text] + caption[word.start :]
        if going_on or word.word_class == "verb":
            return caption[: word.start] + have_not + caption[word.start :]
    for word in found:
        if word.text == "在":
            return f"{caption[: word.start]}不{caption[word.start :]}"
    return caption


def _thai(caption: str, code: str) -> str:
    """ไม่ได้ before what marks that something goes on, or before the first verb; ไม่ before มี."""
    found = _tagged(caption, code)
    going_on = next((word for word in found if word.text == "กำลัง"), None)
    verb = going_on or next((word for word in found if word.word_class == "verb"), None)
    if verb is None:
        return caption
    negation = "ไม่" if verb.text == "มี" else "ไม่ได้"
    return caption[: verb.start] + negation + caption[verb.start :]


_NEGATIONS: dict[str, Callable[[str, str], str]] = {
    "cs": _czech,
    "en": _english,
    "fr": _french,
    "th": _thai,
    "zh": _chinese,
}

# ---- foreign ----

# Common nouns of captions: a row is one thing in all of these languages.
_NOUN_LANGUAGES = "en de fr es it pt nl pl ru tr id", "ja zh ko ar th"
_NOUN_ROWS = (
    """
dog Hund chien perro cane cão hond pies собака köpek anjing
cat Katze chat gato gatto gato kat kot кошка kedi kucing
man Mann homme hombre uomo homem man mężczyzna мужчина adam pria
woman Frau femme mujer donna mulher vrouw kobieta женщина kadın wanita
boy Junge garçon niño ragazzo menino jongen chłopiec мальчик oğlan bocah
girl Mädchen fille niña ragazza menina meisje dziewczynka девочка kız gadis
child Kind enfant niño bambino criança kind dziecko ребёнок çocuk anak
people Leute gens gente persone pessoas mensen ludzie люди insanlar orang
water Wasser eau agua acqua água water woda вода su air
street Straße rue calle strada rua straat ulica улица sokak jalan
beach Strand plage playa spiaggia praia strand plaża пляж plaj pantai
car Auto voiture coche macchina carro auto samochód машина araba mobil
bicycle Fahrrad vélo bicicleta bicicletta bicicleta fiets rower велосипед bisiklet sepeda
ball Ball ballon pelota palla bola bal piłka мяч top bola
table Tisch table mesa tavolo mesa tafel stół стол masa meja
house Haus maison casa casa casa huis dom дом ev rumah
tree Baum arbre árbol albero árvore boom drzewo дерево ağaç pohon
grass Gras herbe hierba erba grama gras trawa трава çim rumput
hat Hut chapeau sombrero cappello chapéu hoed kapelusz шляпа şapka topi
shirt Hemd chemise camisa camicia camisa hemd koszula рубашка gömlek kemeja
horse Pferd cheval caballo cavallo cavalo paard koń лошадь at kuda
bird Vogel oiseau pájaro uccello pássaro vogel ptak птица kuş burung
snow Schnee neige nieve neve neve sneeuw śnieg снег kar salju
mountain Berg montagne montaña montagna montanha berg góra гора dağ gunung
""",
    """
犬 狗 개 كلب สุนัข
猫 猫 고양이 قطة แมว
男性 男人 남자 رجل ผู้ชาย
女性 女人 여자 امرأة ผู้หญิง
少年 男孩 소년 ولد เด็กชาย
少女 女孩 소녀 فتاة เด็กหญิง
子供 孩子 아이 طفل เด็ก
人々 人们 사람들 ناس ผู้คน
水 水 물 ماء น้ำ
通り 街道 거리 شارع ถนน
浜辺 海滩 해변 شاطئ ชายหาด
車 汽车 자동차 سيارة รถยนต์
自転車 自行车 자전거 دراجة จักรยาน
ボール 球 공 كرة ลูกบอล
テーブル 桌子 탁자 طاولة โต๊ะ
家 房子 집 بيت บ้าน
木 树 나무 شجرة ต้นไม้
草 草地 풀 عشب หญ้า
帽子 帽子 모자 قبعة หมวก
シャツ 衬衫 셔츠 قميص เสื้อ
馬 马 말 حصان ม้า
鳥 鸟 새 طائر นก
雪 雪 눈 ثلج หิมะ
山 山 산 جبل ภูเขา
""",
)


@cache
def _nouns() -> list[dict[str, str]]:
    languages = " ".join(_NOUN_LANGUAGES).split()
    halves = (part.strip().split("\n") for part in _NOUN_ROWS)
    return [dict(zip(languages, " ".join(row).split(), strict=True)) for row in zip(*halves, strict=True)]


@cache
def _noun_rows(code: str) -> dict[str, dict[str, str]]:
    """A noun of a language, in lower case → its row."""
    return {row[code].lower(): row for row in reversed(_nouns()) if code in row}


def _foreign(caption: str, code: str, chance: random.Random) -> str:
    places = _pieces(caption, code)
    if not places:
        return caption
    named = _noun_rows(code)
    common = [place for place in places if caption[slice(*place)].lower() in named]
    start, end = chance.choice(common or places)
    word = caption[start:end]
    row = named[word.lower()] if common else chance.choice(_nouns())
    others = [text for language, text in row.items() if language != code and text.lower() != word.lower()]
    other = chance.choice(sorted(set(others)))
    return caption[:start] + _as(other, word if not common else "") + caption[end:]


_CHANGES: dict[str, Callable[[str, str, random.Random], str]] = {
    "neighbours": _neighbours,
    "typos": _typos,
    "number": _number,
    "negation": _negation,
    "foreign": _foreign,
    "truncation": _truncation,
}
# kind → the languages that it has rules for; kinds that are not here need none
_TABLES: dict[str, list[str]] = {
    "number": sorted(_NUMBERS),
    "negation": sorted({*_BEFORE_VERB, *_NEGATIONS, *_NO_ARTICLE, *_ENDINGS, "tr"}),
}
