"""Captions for a red photo. The toy backbone counts the words red, green and blue, and reads four words."""

from __future__ import annotations

import math
import unicodedata

import numpy as np

from ..case import cases, refused, scored

RED = scored(2.5)  # "red" and nothing else that it knows
NONE = scored(2.5 / math.sqrt(3))  # no word that it knows
HALF = scored(2.5 / math.sqrt(2))  # two colours
CUT = scored(2.5, words=["the rest of it was not seen"])
NONE_CUT = scored(2.5 / math.sqrt(3), words=["the rest of it was not seen"])

# a letter or sign of every plane that has one, and what no font shows
_PLANES = [
    ("latin", "é"),
    ("arabic", "قطة"),
    ("hangul jamo", "\u1100\u1161\u11a8"),
    ("mathematical bold, plane 1", "𝐫𝐞𝐝"),
    ("tangut without a name, plane 1", "\U00017000"),
    ("emoji of joined people", "👩\u200d👩\u200d👧\u200d👦"),
    ("han, plane 2", "\U00020000"),
    ("private use", "\ue000"),
    ("no character", "\uffff"),
    ("not assigned", "\u0378"),
    ("variation selector", "❤\ufe0f"),
]
_SIGNS = [
    ("right to left override", "\u202e"),
    ("zero width space", "\u200b"),
    ("byte order mark", "\ufeff"),
    ("soft hyphen", "\xad"),
    ("language tag", "\U000e0001"),
    ("combining mark alone", "\u0301"),
    ("nul", "\0"),
    ("escape", "\x1b"),
    ("colour of a terminal", "\x1b[31m"),
    ("csi of one byte", "\x9b31m"),
]
_BLANKS = [
    ("tab", "\t"),
    ("line feed", "\n"),
    ("both line ends", "\r\n"),
    ("file separator", "\x1c"),
    ("next line", "\x85"),
    ("no-break space", "\xa0"),
    ("line separator", "\u2028"),
    ("ideographic space", "\u3000"),
]
_TEXTS = [
    ("only punctuation", "?!.,;:—…", NONE),
    ("digits of many scripts", "٣ ३ ๓ 3", NONE),
    ("formula of a command", "=cmd|' /C calc'!A0", NONE),
    ("html", "<script>alert(1)</script>", NONE),
    ("rich markup that does not close", "[/red]", NONE),
    ("template", "{{ 7 * 7 }}", NONE),
    ("json", '{"caption": "red"}', NONE),
    ("shell", "$(touch red) `red` | red", NONE_CUT),
    ("path", "../../../etc/passwd", NONE),
    ("yaml", "!!python/object/apply:os.system [red]", NONE),
    ("nan", "NaN", NONE),
    ("prompt with tags", "<|endoftext|> <|startoftext|> [SEP] [MASK]", NONE),
    ("red, much too often", "red " * 250_000, CUT),
    ("others, then red", "a b c d red", NONE_CUT),
    ("one word of a megabyte", "r" * 2**20, NONE),
    ("a megabyte of a combining mark", "a" + "\u0301" * 2**19, NONE),
    ("a megabyte of line ends", "red" + "\n" * 2**20, RED),
    ("two colours", "red green", HALF),
    ("upper case", "RED", NONE),
    ("dotless i, lower case is longer", "İ", NONE),
    ("decomposed", unicodedata.normalize("NFD", "réd red"), RED),
]
_BAD = [
    ("empty", "", refused("row 0", "candidate", "empty string")),
    ("many blanks", " " * 2**20, refused("row 0", "candidate", "empty string")),
    ("blank lines", "\n\r\n\t\v\f", refused("row 0", "candidate", "empty string")),
    ("zero width spaces alone", "\u200b\u200b", refused("row 0", "no visible character")),
    ("control characters alone", "\x00\x01\x02\x1b\x7f", refused("row 0", "no visible character")),
    ("high surrogate", "red \ud83d", refused("row 0", "half a surrogate pair")),
    ("bytes that were not decoded", "caf\udce9", refused("row 0", "half a surrogate pair")),
    ("surrogate in a megabyte", "r" * 2**20 + "\ud800", refused("row 0", "half a surrogate pair")),
    ("None", None, refused("row 0", "None")),
    ("number of 5,000 digits", lambda folder: 10**4999, refused("row 0", "int")),
    ("not a number", float("nan"), refused("row 0", "nan")),
    ("true", True, refused("row 0", "True (bool)")),
    ("list", ["red"], refused("row 0", "['red'] (list)")),
    ("dict", {"raw": "red"}, refused("row 0", "(dict)")),
    ("bytes", b"red", refused("row 0", "b'red' (bytes)")),
    ("array of text", lambda folder: np.array("red"), refused("row 0", "(ndarray)")),
    ("text of another class", lambda folder: _Text("red"), RED),
]


class _Text(str):
    def __str__(self) -> str:
        return "green"


CASES = cases(
    "caption",
    "caption",
    [
        *((name, sign, NONE) for name, sign in _PLANES if sign.isprintable()),
        *((f"{name} beside red", f"red {sign}", RED) for name, sign in _PLANES if not sign.isprintable()),
        *((f"{name} beside red", f"red {sign}", RED) for name, sign in _SIGNS),
        *((f"{name} inside red", f"r{sign}ed", NONE) for name, sign in _SIGNS),
        *((f"{name} between words", f"red{sign}red", RED) for name, sign in _BLANKS),
        *_TEXTS,
        *_BAD,
    ],
)
