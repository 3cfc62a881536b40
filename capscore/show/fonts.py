"""Texts in any language → the installed fonts that have their characters, and the width of a text in them."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError

if TYPE_CHECKING:
    from PIL import ImageFont

# Chinese, Japanese and Korean draw some characters differently; font families are named after the language.
_ENDINGS = {"ja": ("JP",), "ko": ("KR",), "zh": ("SC", "TC")}
_TRADITIONAL = re.compile(r"hant|-(tw|hk|mo)\b", re.IGNORECASE)
# fonts that have a box for every character
_BOXES = ("lastresort", "adobeblank", "notdef")
# letters that change with their neighbours, or run from right to left
_SHAPED = re.compile(
    "[\u0590-\u08ff\u0900-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\ufb1d-\ufdff\ufe70-\ufefc]"
)


@dataclass(frozen=True)
class FontFile:
    """An installed font.

    Attributes:
        path: The file.
        family: Name of the family.
        letters: Requested characters that it has.
    """

    path: str
    family: str
    letters: frozenset[str]


@dataclass(frozen=True)
class Fonts:
    """Fonts for some texts.

    Attributes:
        base: Paths of the regular and the bold file of DejaVu Sans. It comes with matplotlib and has Latin,
            Greek, Cyrillic, Arabic, Hebrew, Armenian, Georgian, ✓ and ✗.
        others: Fonts for characters that DejaVu Sans does not have, preferred ones first.
        missing: Characters that no installed font has.
        unshaped: Whether there are letters that this Pillow cannot order or join, because it lacks libraqm.
    """

    base: tuple[str, str]
    others: tuple[FontFile, ...]
    missing: frozenset[str]
    unshaped: bool

    def drawable(self, text: str) -> str:
        """The text in one line, with "?" for missing characters and without invisible ones.

        >>> Fonts(("", ""), (), frozenset("猫"), False).drawable("a 猫\\n✓\ufe0e")
        'a ? ✓'
        """
        kept = (" " if letter.isspace() else letter for letter in text if not _invisible(letter))
        return "".join("?" if letter in self.missing else letter for letter in kept)

    def runs(self, text: str, language: str = "", bold: bool = False) -> list[tuple[str, str]]:
        """A text in pieces, each with the path of its font; those made for the language come first.

        Only the base font has a bold variant.
        """
        endings = _endings(language)
        fonts = sorted(self.others, key=lambda font: not font.family.endswith(endings))
        runs: list[tuple[str, str]] = []
        for letter in text:
            path = next((font.path for font in fonts if letter in font.letters), self.base[bold])
            if runs and runs[-1][0] == path:
                runs[-1] = path, runs[-1][1] + letter
            else:
                runs.append((path, letter))
        return runs

    def placed(
        self, text: str, size: float, language: str = "", bold: bool = False, direction: str | None = None
    ) -> Iterator[tuple[float, str, ImageFont.FreeTypeFont, dict[str, Any]]]:
        """The pieces of a text from left to right, and an empty one at its end.

        Args:
            text: One line.
            size: Font size in pixels.
            language: BCP 47 tag.
            bold: Whether to use the bold base font.
            direction: "ltr" or "rtl"; None lets each piece decide.

        Yields:
            Pixels from the text's left end, the piece, its font, and Pillow's options for drawing it.
        """
        options: dict[str, Any] = {}
        if has_raqm():
            options = {"direction": direction, "language": language.replace("_", "-") or None}
        runs = self.runs(text, language, bold)
        x = 0.0
        for path, piece in [*(runs[::-1] if direction == "rtl" else runs), (self.base[0], "")]:
            font = _font(path, size)
            yield x, piece, font, options
            x += font.getlength(piece, **options)

    def width(self, text: str, size: float, **options: Any) -> float:
        """The width of a text in pixels; options as in `placed`."""
        return max(x for x, *_ in self.placed(text, size, **options))


@functools.lru_cache(maxsize=1)
def has_raqm() -> bool:
    """Whether this Pillow can order text that runs from right to left, and join letters."""
    from PIL import features

    return bool(features.check("raqm"))


@functools.lru_cache(maxsize=256)
def _font(path: str, size: float) -> ImageFont.FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.truetype(path, size)  # the layout engine is libraqm where there is one


def find_fonts(texts: Iterable[tuple[str, str]]) -> Fonts:
    """Find fonts for texts; installed fonts are searched only if the base font is not enough.

    Args:
        texts: Pairs of a text and its BCP 47 tag ("" where not stated).

    Returns:
        A few fonts that cover as many characters as possible, upright sans-serif fonts first, and those made
        for the languages.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    texts = list(texts)
    letters = {x for text, _ in texts for x in text if not x.isspace() and not _invisible(x)}
    base = _base_fonts()
    missing = letters - _covered(base[0], letters)
    others = _installed(missing, [_endings(tag) for _, tag in texts]) if missing else []
    missing -= {letter for font in others for letter in font.letters}
    unshaped = not has_raqm() and any(_SHAPED.search(text) for text, _ in texts)
    return Fonts(base, tuple(others), frozenset(missing), unshaped)


def _base_fonts() -> tuple[str, str]:
    try:
        from matplotlib.font_manager import FontProperties, findfont
    except ImportError as error:
        raise MissingExtraError("matplotlib", "figures", "a picture") from error
    regular, bold = (
        str(findfont(FontProperties(family=["DejaVu Sans"], weight=w))) for w in ("normal", "bold")
    )
    return regular, bold


def _installed(missing: set[str], endings: Iterable[tuple[str, ...]]) -> list[FontFile]:
    """Fonts that have missing characters."""
    from matplotlib.font_manager import findSystemFonts  # reads the folders anew each time

    found = [
        FontFile(path, _open(path).family_name, frozenset(covered))
        for path in findSystemFonts()
        if (covered := _covered(path, missing))
    ]
    chosen: list[FontFile] = []
    left = set(missing)
    while best := min(found, key=lambda font: (-len(font.letters & left), _rank(font)), default=None):
        if not best.letters & left:
            break
        chosen.append(best)
        left -= best.letters
    for ending in filter(None, endings):
        suiting = [font for font in found if font.family.endswith(ending)]
        chosen += sorted(suiting, key=lambda font: (-len(font.letters), _rank(font)))[:1]
    return list(dict.fromkeys(chosen))


def _open(path: str) -> Any:
    from matplotlib import ft2font

    return ft2font.FT2Font(path)


def _covered(path: str, letters: set[str]) -> set[str]:
    try:
        font = _open(path)
    except (RuntimeError, OSError):  # a font without outlines, such as colour bitmaps
        return set()
    if any(name in font.family_name.lower().replace(" ", "") for name in _BOXES):
        return set()
    return {letter for letter in letters if font.get_char_index(ord(letter))}


def _rank(font: FontFile) -> tuple[bool, bool, bool, str]:
    style, family = _open(font.path).style_name.lower(), font.family.lower()
    upright = style in ("regular", "book", "roman", "normal", "medium", "w3")
    return not upright, "serif" in family and "sans" not in family, "mono" in family, font.path


def _endings(tag: str) -> tuple[str, ...]:
    """The endings of the families made for a language; none for most.

    >>> _endings("ja"), _endings("zh-CN"), _endings("zh_TW"), _endings("en")
    (('JP',), ('SC', 'TC'), ('TC',), ())
    """
    tag = tag.lower().replace("_", "-")
    primary = tag.partition("-")[0]
    if primary == "zh" and _TRADITIONAL.search(tag):
        return ("TC",)
    return _ENDINGS.get(primary, ())


def _invisible(letter: str) -> bool:
    """Whether a character only changes the look of others; joiners and marks of direction stay."""
    if letter in "\u200c\u200d\u200e\u200f":
        return False
    return unicodedata.category(letter) == "Cf" or "\ufe00" <= letter <= "\ufe0f"
