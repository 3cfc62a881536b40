"""Texts of any language → names of installed fonts that have their characters, and those that none has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Comes with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew, Armenian, Georgian, ✓ and ✗.
_BASE = "DejaVu Sans"
# Chinese, Japanese and Korean write some characters differently; font families say whose way is theirs.
_ENDINGS = {"ja": ("JP",), "ko": ("KR",), "zh": ("SC", "TC")}
_TRADITIONAL = re.compile(r"hant|-(tw|hk|mo)\b", re.IGNORECASE)
# fonts that have a box for every character
_BOXES = ("lastresort", "adobeblank", "notdef")
# letters that change with their neighbours, or run from right to left
_SHAPED = re.compile(
    "[\u0590-\u08ff\u0900-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\ufb1d-\ufdff\ufe70-\ufefc]"
)


@dataclass(frozen=True)
class Fonts:
    """Fonts for some texts.

    Attributes:
        families: names for matplotlib, to be tried from first to last.
        found: characters that the first one has not, and another has.
        missing: characters that no installed font has.
        unshaped: whether there are letters that this matplotlib cannot put in order or join; from 3.11 on it
            can.
    """

    families: tuple[str, ...]
    found: frozenset[str]
    missing: frozenset[str]
    unshaped: bool

    def for_language(self, tag: str) -> list[str]:
        """The families, those for this language before others.

        >>> families = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC")
        >>> fonts = Fonts(families, frozenset(), frozenset(), unshaped=False)
        >>> fonts.for_language("zh-CN")
        ['DejaVu Sans', 'Noto Sans CJK SC', 'Noto Sans CJK JP']
        """
        endings = _endings(tag)
        first, *others = self.families
        return [first, *sorted(others, key=lambda name: not name.endswith(endings))]

    def drawable(self, text: str) -> str:
        """The text with "?" for what cannot be drawn, in one line, and without what has no look of its own.

        >>> Fonts(("DejaVu Sans",), frozenset(), frozenset("猫"), False).drawable("a 猫\\n✓\ufe0e")
        'a ? ✓'
        """
        kept = (" " if letter.isspace() else letter for letter in text if not _invisible(letter))
        return "".join("?" if letter in self.missing else letter for letter in kept)


def find_fonts(texts: Iterable[tuple[str, str]]) -> Fonts:
    """Find fonts; files are looked through only where the font that comes with matplotlib is not enough.

    Args:
        texts: pairs of a text and its BCP 47 tag ("" where not stated).

    Returns:
        As few families as cover most, upright ones without serifs first.
    """
    from matplotlib import ft2font

    texts = list(texts)
    letters = {x for text, _ in texts for x in text if not x.isspace() and not _invisible(x)}
    others = letters - _covered(_base_font(), letters)
    families, missing = _installed(others, [tag for _, tag in texts]) if others else ([], set())
    unshaped = not hasattr(ft2font, "__libraqm_version__") and any(_SHAPED.search(text) for text, _ in texts)
    return Fonts((_BASE, *families), frozenset(others - missing), frozenset(missing), unshaped)


def _base_font() -> str:
    from matplotlib import font_manager

    return str(font_manager.findfont(font_manager.FontProperties(family=[_BASE])))


def _installed(missing: set[str], tags: Sequence[str]) -> tuple[list[str], set[str]]:
    """Families with these characters, and the characters that are in none."""
    from matplotlib import font_manager

    # matplotlib's own list is one of the day it was first used; fonts may have come since
    found = ((path, _covered(path, missing)) for path in font_manager.findSystemFonts())
    coverage = {path: letters for path, letters in found if letters}
    families: list[str] = []
    while missing:
        best = min(coverage, key=lambda path: (-len(coverage[path] & missing), _rank(path)), default=None)
        if best is None or not coverage[best] & missing:
            break
        missing = missing - coverage.pop(best)
        families += _families(best, tags)
    return list(dict.fromkeys(families)), missing


def _covered(path: str, letters: set[str]) -> set[str]:
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
    except (RuntimeError, OSError):  # of a kind that matplotlib cannot draw with, such as colour bitmaps
        return set()
    if any(name in font.family_name.lower().replace(" ", "") for name in _BOXES):
        return set()
    return {letter for letter in letters if font.get_char_index(ord(letter))}


def _rank(path: str) -> tuple[bool, bool, bool, str]:
    from matplotlib.ft2font import FT2Font

    font = FT2Font(path)
    style, family = font.style_name.lower(), font.family_name.lower()
    upright = style in ("regular", "book", "roman", "normal", "medium", "w3")
    return not upright, "serif" in family and "sans" not in family, "mono" in family, path


def _families(path: str, tags: Sequence[str]) -> list[str]:
    """The families in a file that suit the languages; its first one if none is made for them."""
    from matplotlib.font_manager import fontManager

    names = [entry.name for entry in fontManager.ttflist if str(entry.fname) == path]
    if not names:
        fontManager.addfont(path)
        names = [entry.name for entry in fontManager.ttflist if str(entry.fname) == path]
    suiting = []
    for tag in tags:
        endings = _endings(tag)
        suiting += [name for name in names if endings and name.endswith(endings) and "Mono" not in name][:1]
    return suiting or names[:1]


def _endings(tag: str) -> tuple[str, ...]:
    primary = tag.lower().replace("_", "-").partition("-")[0]
    if primary == "zh" and _TRADITIONAL.search(tag.replace("_", "-")):
        return ("TC",)
    return _ENDINGS.get(primary, ())


def _invisible(letter: str) -> bool:
    """Whether it only says how others look; joiners and marks of direction stay, as shaping reads them."""
    if letter in "\u200c\u200d\u200e\u200f":
        return False
    return unicodedata.category(letter) == "Cf" or "\ufe00" <= letter <= "\ufe0f"
