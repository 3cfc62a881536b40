"""Captions in any language → words: those that metrics count, and those that a text is rebuilt from.

In: texts and a language. `tokenize` returns words as CIDEr, BLEU and ROUGE-L count them (lower case, no
punctuation); `words` returns pieces of the text, which `join` puts together again.

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
from collections.abc import Iterable, Sequence
from functools import cache

from ..errors import InputError
from . import ptb
from .checks import check_texts, text_problem
from .languages import language_code
from .segmenters import SEGMENTERS, Segmenter
from .spaced_words import SPACED, spaced_words

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
_loading = threading.Lock()


def tokenize(texts: Sequence[str], language: str | None = None, *, whole: bool = False) -> list[list[str]]:
    """The words of captions, as n-gram metrics count them.

    Args:
        texts: n captions.
        language: Language code of all texts (see `capscore.text.languages.language_code`); None for English.
        whole: Whether an English word that contains a blank ("2 1/2") stays one, as ROUGE-L counts it.

    Returns:
        n lists of words in lower case; [] for a caption without words.

    Raises:
        InputError: a row is not a string (the error has its number), or the language is written without
            spaces and has no segmenter.
        MissingExtraError: the segmenter of the language is not installed.

    >>> tokenize(["Der Hund läuft – schnell!", ""], "de")
    [['der', 'hund', 'läuft', 'schnell'], []]
    >>> tokenize(["L'homme d'en face s'arrête aujourd'hui."], "fr")
    [["l'", 'homme', "d'", 'en', 'face', "s'", 'arrête', "aujourd'hui"]]
    """
    code = _code(language)
    segmenter = _segmenter(code)
    check_texts(texts)
    if code == "en":
        return ptb.tokenize_all(texts, whole=whole)
    found: dict[str, list[str]] = {}
    rows: list[list[str]] = []
    for text in texts:
        if text not in found:
            found[text] = segmenter.tokens(text)
        rows.append(found[text].copy())
    return rows


def words(text: str, language: str | None = None) -> list[str]:
    """The pieces of a text in its own spelling, with punctuation, from which `join` rebuilds it.

    In scripts with spaces, pieces are what stands between spaces; in Japanese, Chinese and Thai, what the
    segmenter finds. `join(words(text, language), language)` is the text again, except for its white space.

    Raises:
        InputError, MissingExtraError: see `tokenize`.

    >>> words("A cat, asleep.", "en")
    ['A', 'cat,', 'asleep.']
    """
    spaced = has_spaces(language)
    problem = text_problem(text)
    if problem:
        raise InputError(problem, field="text")
    return text.split() if spaced else _segmenter(_code(language)).pieces(text)


def join(words: Sequence[str], language: str | None = None) -> str:
    """Words → a text: joined by spaces, in Japanese, Chinese and Thai by nothing. Needs no segmenter.

    Raises:
        InputError: the language is written without spaces and has no segmenter.

    >>> join(["A", "cat,", "asleep."], "en"), join(["猫", "が", "寝る"], "ja")
    ('A cat, asleep.', '猫が寝る')
    """
    return (" " if has_spaces(language) else "").join(words)


def has_spaces(language: str | None = None) -> bool:
    """Whether `words` splits texts of a language at spaces.

    Raises:
        InputError: the language is written without spaces and has no segmenter.

    >>> has_spaces("ko"), has_spaces("ja")
    (True, False)
    """
    code = _code(language)
    _refuse_unsegmented(code)
    return code not in _UNSPACED


def not_split_by_blanks(texts: Iterable[str], language: str | None = None) -> list[str]:
    """The texts that are written without spaces although their language is split at spaces.

    Their language was stated wrongly, or not at all. [] for a language with a segmenter; otherwise the texts
    of which more than half is Chinese, Japanese, Thai or in a similar script.

    >>> not_split_by_blanks(["犬が走る。", "ein Schild: 出口"], "de")
    ['犬が走る。']
    """
    if _code(language) in SEGMENTERS:
        return []
    return [
        text
        for text in texts
        if not text.isascii() and 2 * len(_UNSPACED_SIGN.findall(text)) > len("".join(text.split()))
    ]


def segmenter_name(language: str | None = None) -> str:
    """Name, for signatures, of what finds the words of a language, with versions.

    Raises:
        InputError, MissingExtraError: see `tokenize`.

    >>> segmenter_name(), segmenter_name("de")
    ('ptb2', 'space1')
    """
    return _segmenter(_code(language)).name


def _segmenter(code: str) -> Segmenter:
    with _loading:
        return _load(code)


@cache
def _load(code: str) -> Segmenter:
    _refuse_unsegmented(code)
    if code in SEGMENTERS:
        return SEGMENTERS[code]()
    if code == "en":
        return Segmenter(ptb.NAME, ptb.tokenize)
    return Segmenter(SPACED, lambda text: spaced_words(text, code))


def _code(language: str | None) -> str:
    return "en" if language is None else language_code(language)


def _refuse_unsegmented(code: str) -> None:
    if code in _UNSEGMENTED:
        raise InputError(
            f"{_UNSEGMENTED[code]} ({code!r}) is written without spaces between words, and capscore has no "
            "segmenter for it (it has segmenters for ja, ko, th and zh)",
            field="language",
        )
