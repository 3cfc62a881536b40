"""Rows that look wrong: captions and references → kinds of oddity; one warning counts the rows."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from pathlib import PurePath
from typing import Any

from ..errors import RowWarning, warn

# One search for all that may be odd in a text: damaged signs, entities, special tokens, and labels.
_ODD = re.compile(
    r"(?P<decoded>\ufffd)|(?P<entities>&(?:#\w{2,6}|[A-Za-z]{2,8});)"
    r"|(?P<tokens></?(?:s|pad|unk|eos|bos|start|end|end_of_turn)>|<\|[^|<>\s]+\|>)"
    r"|(?P<wide>[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a])|(?P<tatweel>\u0640)"
    # in the scripts of South East Asia it stands between words
    r"|(?P<zero>(?<=[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\u200b(?=\w))"
    r"|(?P<label>^\s*(?i:caption|description|assistant)\s*:)"
)
# UTF-8 that was read as Latin-1 or Windows-1252: a letter, and the sign of a byte from 0x80 to 0xbf
_MISREAD = "[\xc2-\xf4][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
# what all odd texts hold, so that others cost next to nothing
_MAY_BE_ODD = re.compile(rf"[&<:\ufffd\u0640\u200b\uff10-\uff5a]|{_MISREAD}").search
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # where full-width letters are usual
_MAX_READ = 2000  # characters of a text
_NONE = frozenset(("nan", "none", "na", "n/a", "<na>", "null"))
_SAID = {
    "decoded": "have text that was decoded wrongly",
    "entities": "have HTML entities",
    "tokens": "have special tokens of a model",
    "wide": "have full-width letters",
    "tatweel": "have tatweel (U+0640), which lengthens letters",
    "zero": "have zero-width spaces inside words",
    "label": "have a caption that begins with a label",
    "none": "have a caption such as nan or none",
    "name": "have the name of their photo as caption",
    "mass": "got an answer other than the one that the judge was asked for (mass below 0.5)",
    "blank": "have a photo that is black, white or one pixel",
}


@lru_cache(2**14)
def oddity(text: str) -> str:
    """Kind of oddity of a text, a key of the warning; "" for none.

    >>> oddity("a dog"), oddity("gar\u00c3\u00a7on"), oddity("it&#39;s"), oddity("a dog</s>")
    ('', 'decoded', 'entities', 'tokens')
    """
    if not _MAY_BE_ODD(text):
        return ""
    found = _ODD.search(text)
    if found is not None and not _is_usual(found):
        return str(found.lastgroup)
    if not text.isascii():
        from ftfy.badness import is_bad

        return "decoded" if is_bad(text) else ""
    return ""


def _is_usual(found: re.Match[str]) -> bool:
    if found.lastgroup == "wide":
        return _EAST_ASIAN.search(found.string) is not None
    return found.lastgroup == "entities" and html.unescape(found[0]) == found[0]


def _caption_oddity(caption: str, image: Any) -> str:
    text = caption.strip()
    if text.casefold() in _NONE:
        return "none"
    if isinstance(image, dict):
        image = image.get("path")
    # a part of the path, which is quicker to tell, and the whole of it or of its name
    if isinstance(image, str | PurePath) and " " not in text and text in str(image):
        path = PurePath(image)
        is_number = text.isdecimal() and path.stem.endswith(text)
        is_stem = text == path.stem and re.search(r"\d", text)
        if is_number or is_stem or text in (str(image), path.name):
            return "name"
    return oddity(caption[:_MAX_READ])


class OddRows:
    """Counts rows that look wrong, piece by piece.

    Attributes:
        first: Kind of oddity → number of such rows, the first of them, and its text.
    """

    def __init__(self) -> None:
        self.first: dict[str, tuple[int, int, str]] = {}
        self._last: dict[str, int] = {}

    def add(
        self,
        candidates: Sequence[Any],
        images: Sequence[Any] | None = None,
        references: Iterable[Any] | None = None,
        start: int = 0,
    ) -> OddRows:
        """Count rows, the first of them row `start`; values that are not text are checked elsewhere."""
        n_rows = len(candidates)
        photos = images if isinstance(images, list | tuple) else repeat(None, n_rows)  # none read from disk
        lists = repeat((), n_rows) if references is None else references
        for row, (caption, image, texts) in enumerate(zip(candidates, photos, lists, strict=True), start):
            kinds = {}
            if isinstance(caption, str):
                kinds[_caption_oddity(caption, image)] = caption
            if isinstance(texts, str):
                texts = [texts]
            for text in texts if isinstance(texts, list | tuple) else ():
                if isinstance(text, str):
                    kinds.setdefault(oddity(text[:_MAX_READ]), text)
            kinds.pop("", None)
            for kind, text in kinds.items():
                self.count(kind, row, repr(text)[:60])
        return self

    def count(self, kind: str, row: int, shown: str = "") -> None:
        """Count an odd row."""
        if row <= self._last.get(kind, -1):  # another metric saw the same
            return
        self._last[kind] = row
        number, first, example = self.first.get(kind, (0, row, shown))
        self.first[kind] = (number + 1, first, example)

    def warn(self) -> None:
        """Warn once of all that was counted."""
        listed = []
        for kind, (number, row, shown) in self.first.items():
            example = f": {shown}" if shown else ""
            listed.append(f"{number:,} {_SAID[kind]} (first: row {row}, counted from 0{example})")
        if listed:
            warn(RowWarning(f"rows that look wrong were scored as they are: {'; '.join(listed)}"))
