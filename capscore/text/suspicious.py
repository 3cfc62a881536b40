"""Texts that cannot be scored, and rows that look wrong: what is wrong, and one warning that counts the rows.

`odd_texts.json` has the kinds: how their texts are found, what the warning says of them, and examples.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import Path, PurePath
from typing import Any

from ..errors import InputError, RowWarning, warn
from .reasoning import THOUGHT


@dataclass(frozen=True)
class OddKind:
    """A kind of odd text; each way to find it is a regular expression, or "".

    Attributes:
        anywhere: Found anywhere in a text; every match holds one of the characters `signs`.
        begins: Found where a text in lower case begins, after blanks, quotes and brackets.
        ends: Found in the last 16 characters of a text in lower case, before blanks and punctuation.
    """

    said: str
    examples: Sequence[str] = ()
    anywhere: str = ""
    signs: str = ""
    begins: str = ""
    ends: str = ""


def _kinds() -> dict[str, OddKind]:
    data = json.loads(Path(__file__).with_name("odd_texts.json").read_text(encoding="utf-8"))
    parts = {"«thought»": THOUGHT, **data["parts"]}
    kinds = {}
    for name, kind in data["kinds"].items():
        for way in ("anywhere", "begins", "ends"):
            pattern = "|".join(kind.get(way, ()))
            for part, meaning in parts.items():
                pattern = pattern.replace(part, meaning)
            kind[way] = pattern
        kinds[name] = OddKind(**kind)
    return kinds


KINDS = _kinds()
"""Kinds in the order in which they are tried at one place; a text counts for the first that is found."""

# UTF-8 that was read as Latin-1 or Windows-1252: a letter, and the sign of a byte from 0x80 to 0xbf
_MISREAD = "[\xc2-\xf4][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # where full-width letters are usual
_MAX_READ = 2000  # characters of a text


def _any_of(way: str) -> str:
    """One pattern for all kinds that are found in a way, each a group with the name of its kind."""
    listed = [(name, getattr(kind, way)) for name, kind in KINDS.items()]
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in listed if pattern)


_anywhere = re.compile(_any_of("anywhere")).finditer
_at_begin = re.compile(rf"[\s\"'“‘„«(\[<*]*(?:{_any_of('begins')})").match
_at_end = re.compile(rf"(?:{_any_of('ends')})\W*\Z").search
# what all texts hold that are odd somewhere, so that others cost next to nothing
_has_sign = re.compile(rf"[{''.join(kind.signs for kind in KINDS.values())}]|{_MISREAD}").search
# what begins most captions and no odd one; how odd ends end; what has no sign of `KINDS`
_USUAL_BEGINS = ("a ", "an ", "two ")
_ODD_ENDS = ("seq", "sequence", "token", "unk", "eos", "bos")
_is_plain = re.compile("[A-Za-z ,.'-]*").fullmatch


@lru_cache(2**14)
def oddity(text: str) -> str:
    """The kind of oddity of a text, a key of `KINDS`; "" for none.

    >>> oddity("a dog"), oddity("gar\u00c3\u00a7on"), oddity("it&#39;s"), oddity("a dog</s>")
    ('', 'decoded', 'entities', 'tokens')
    """
    lower = text.lower()
    found = None if lower.startswith(_USUAL_BEGINS) else _at_begin(lower)
    is_plain = _is_plain(text) is not None
    if not is_plain or lower.rstrip(" ,.'-").endswith(_ODD_ENDS):
        found = found or _at_end(lower, max(0, len(lower) - 16))
    if found is not None:
        return str(found.lastgroup)
    if not is_plain and _has_sign(text):
        for found in _anywhere(text):
            if not _is_usual(found):
                return str(found.lastgroup)
        if not text.isascii():
            from ftfy.badness import is_bad

            if is_bad(text):
                return "decoded"
    return "loop" if _repeats(text) or _repeats(text[::-1]) else ""


def _is_usual(found: re.Match[str]) -> bool:
    if found.lastgroup == "wide":
        return _EAST_ASIAN.search(found.string) is not None
    return found.lastgroup == "entities" and html.unescape(found[0]) == found[0]


def _repeats(text: str) -> bool:
    """Whether a text ends in the same words, or letters, three and a half times."""
    text = text.rstrip(" \n.,!?…。！")
    last = text[-6:]
    at = text.rfind(last, 0, -1)
    if at < 0 or len(text) < 8:
        return False
    period = len(text) - len(last) - at
    end = text[-period * 7 // 2 :]
    is_whole = len(end) * 2 >= period * 7
    return is_whole and end[period:] == end[:-period] and any(map(str.isalpha, end))


def _caption_oddity(caption: str, image: object) -> str:
    text = caption.strip()
    if " " in text or image is None:
        return oddity(caption[:_MAX_READ])
    if isinstance(image, dict):
        image = image.get("path")
    # a part of the path, which is quicker to tell, and the whole of it or of its name
    if isinstance(image, str | PurePath) and text in str(image):
        path = PurePath(image)
        is_number = text.isdecimal() and path.stem.endswith(text)
        is_stem = text == path.stem and re.search(r"\d", text)
        if is_number or is_stem or text in (str(image), path.name):
            return "name"
    return oddity(caption[:_MAX_READ])


# a word: without blanks, and short in scripts that have none between words, as Thai, Chinese and Japanese
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(
    rf"[^\s{_UNSPACED}]+|[\u3040-\u30ff\u3400-\u9fff]{{1,4}}|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{{1,8}}"
)


def are_tokens(lists: Iterable[object]) -> bool:
    """Whether lists, one per row, hold the tokens of a text: single words alone, three or more on average.

    >>> are_tokens([["a", "red", "bus"], ["two", "dogs", "play"]]), are_tokens([["a red bus", "bus"]])
    (True, False)
    """
    n_lists, n_words = 0, 0
    for items in lists:
        if not isinstance(items, list | tuple) or not items:
            continue
        for item in items:
            if isinstance(item, str) and not _WORD.fullmatch(item.strip()):
                return False
        n_lists, n_words = n_lists + 1, n_words + len(items)
    return n_words >= 3 * n_lists > 0


class OddRows:
    """Counts rows that look wrong, piece by piece.

    Attributes:
        first: Kind of oddity, a key of `KINDS` → number of such rows, the first of them, and its text.
        kinds: Odd row → its kinds of oddity; None where rows are only counted, as in streams without end.
    """

    def __init__(self, *, keeps_rows: bool = False) -> None:
        self.first: dict[str, tuple[int, int, str]] = {}
        self.kinds: dict[int, list[str]] | None = {} if keeps_rows else None
        self._last: dict[str, int] = {}

    def add(
        self,
        candidates: Sequence[object],
        images: Sequence[object] | None = None,
        references: Iterable[object] | None = None,
        start: int = 0,
    ) -> OddRows:
        """Count rows, the first of them row `start`; values that are not text are checked elsewhere."""
        n_rows = len(candidates)
        photos = images if isinstance(images, list | tuple) else repeat(None, n_rows)  # none read from disk
        lists = repeat((), n_rows) if references is None else references
        for row, (caption, image, texts) in enumerate(zip(candidates, photos, lists, strict=True), start):
            kinds = {}
            if isinstance(caption, str) and (kind := _caption_oddity(caption, image)):
                kinds[kind] = caption
            if isinstance(texts, str):
                texts = [texts]
            for text in texts if isinstance(texts, list | tuple) else ():
                if isinstance(text, str) and (kind := oddity(text[:_MAX_READ])):
                    kinds.setdefault(kind, text)
            for kind, text in kinds.items():
                self.count(kind, row, repr(text)[:60])
        return self

    def count(self, kind: str, row: int, shown: str = "") -> None:
        if row <= self._last.get(kind, -1):  # another metric saw the same
            return
        self._last[kind] = row
        if self.kinds is not None:
            self.kinds.setdefault(row, []).append(kind)
        number, first, example = self.first.get(kind, (0, row, shown))
        self.first[kind] = (number + 1, first, example)

    def warn(self, remedy: str = "", places: Sequence[str] = ()) -> None:
        """Warn once of all that was counted, and say what may be done; `places` name rows, () by number."""
        listed = []
        for kind, (number, row, shown) in self.first.items():
            example = f": {shown}" if shown else ""
            place = places[row] if places else f"row {row}, counted from 0"
            listed.append(f"{number:,} {KINDS[kind].said} (first: {place}{example})")
        if listed:
            warn(RowWarning(f"rows that look wrong were scored as they are: {'; '.join(listed)}{remedy}"))


_SURROGATE = re.compile("[\ud800-\udfff]")


def text_problem(text: object) -> str:
    """What is wrong with a caption; "" for nothing."""
    if not isinstance(text, str):
        return shown_value(text)
    if text.isprintable() and text.strip(" "):
        return ""  # nearly every text
    if _SURROGATE.search(text):
        return f"{text!r:.60}, which holds half a surrogate pair (text decoded wrongly)"
    if is_empty(text):
        return f"an empty string ({text!r:.60} has no visible character)"
    return ""


def shown_value(value: object) -> str:
    if value is None:
        return "None"
    try:
        return f"{value!r:.60} ({type(value).__name__})"
    except ValueError:  # Python does not print numbers of thousands of digits
        return f"a very large number ({type(value).__name__})"


def is_empty(text: object) -> bool:
    """Whether a text has no visible character: "", blanks, or signs such as a zero-width space.

    >>> is_empty(" \\u3000\\u200b"), is_empty("."), is_empty(None)
    (True, False, False)
    """
    return (
        isinstance(text, str)
        and not any(sign.isprintable() and sign != " " for sign in text)
        and not _SURROGATE.search(text)
    )


def reference_list(texts: Any, may_be_empty: bool = False, may_lack: bool = False) -> list[str]:
    if hasattr(texts, "to_pylist"):
        texts = texts.to_pylist()
    if isinstance(texts, str) and not re.fullmatch(r"\s*\[.*\]\s*", texts, re.DOTALL):  # no list in writing
        texts = [texts]
    if isinstance(texts, (str, bytes, Mapping)) or not is_iterable(texts):
        raise InputError(f"expected a list of references, got {shown_value(texts)}", field="references")
    texts = list(texts)
    if not texts and not may_lack:
        raise InputError("expected at least one reference, got an empty list", field="references")
    for position, text in enumerate(texts):
        problem = text_problem(text)
        if problem and may_be_empty and is_empty(text):
            texts[position] = ""
        elif problem:
            raise InputError(f"reference {position} is {problem}, expected a caption", field="references")
    return texts


def is_iterable(values: object) -> bool:
    return hasattr(values, "__iter__") and getattr(values, "ndim", 1) > 0
