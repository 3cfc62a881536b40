"""Captions for a red photo, references, words and languages.

The toy backbone counts the words red, green and blue, and reads four words. ROUGE-L is 1 where a reference
has the candidate's words.
"""

from __future__ import annotations

import math

from .. import surfaces
from ..case import cases, refused, scored

RED = scored(2.5)  # "red" and nothing else that it knows
NONE = scored(2.5 / math.sqrt(3))  # no word that it knows
CUT = "the rest of it was not seen"
ONE, ZERO = scored(1.0), scored(0.0)


class _Text(str):
    def __str__(self) -> str:
        return "green"


# a letter or sign of every plane that has one
_LETTERS = [("arabic", "قطة"), ("mathematical bold, plane 1", "𝐫𝐞𝐝"), ("han, plane 2", "\U00020000")]
# what no font shows, or a terminal obeys
_SIGNS = [
    ("right to left override", "\u202e"),
    ("zero width space", "\u200b"),
    ("nul", "\0"),
    ("colour of a terminal", "\x1b[31m"),
    ("csi of one byte", "\x9b31m"),
]
_BLANKS = [
    ("both line ends", "\r\n"),
    ("next line", "\x85"),
    ("line separator", "\u2028"),
    ("ideographic space", "\u3000"),
]
_CAPTIONS = [
    ("rich markup that does not close", "[/red]", NONE),
    ("prompt with tags", "<|endoftext|> <|startoftext|> [SEP] [MASK]", NONE),
    ("red, much too often", "red " * 50_000, scored(2.5, words=[CUT])),
    ("others, then red", "a b c d red", scored(2.5 / math.sqrt(3), words=[CUT])),
    ("one word of a megabyte", "r" * 2**20, NONE),
    ("very many line ends", "red" + "\n" * 2**16, RED),
    ("decomposed", "re\u0301d red", RED),
    ("blank", "\n\r\n\t\v\f", scored(0.0, words=["row 0", "empty caption", "lowest score"])),
    ("control characters alone", "\x00\x01\x02\x1b\x7f", scored(0.0, words=["row 0", "empty caption"])),
    ("bytes that were not decoded", "caf\udce9", refused("row 0", "half a surrogate pair")),
    ("not a number", math.nan, refused("row 0", "nan")),
    ("dict", {"raw": "red"}, refused("row 0", "(dict)")),
    ("text of another class", _Text("red"), RED),
]
_REFERENCES = [
    ("list of lists", [["a b"]], refused("row 0", "reference 0", "(list)")),
    ("blank reference after a good one", ["a b", " \t "], refused("row 0", "reference 1", "empty")),
    ("no visible character", ["a b", "\u200b"], refused("row 0", "reference 1", "visible")),
    ("surrogate", ["a b", "c \ud800"], refused("row 0", "reference 1", "surrogate")),
    ("generator", lambda: (text for text in ["c", "a b"]), ONE),
    ("set", {"a b"}, ONE),
    ("reference of 50,000 words", ["c " * 50_000], ZERO),
    # "b", "a", "b", "b": of four words two are in the candidate, so R = 1/2; (1 + 1.44) R / (R + 1.44)
    ("html around", ["<b>a b</b>"], scored(2.44 * 0.5 / 1.94)),
    ("control characters between", ["a\x1b b\a"], ONE),
]
_WORDS = [
    # as in coco-caption, where no words at all are one empty word
    ("signs that the tokenizer removes", ("!", "!", "en"), ONE),
    # two words, 一只 and 狗, of which one is the same
    ("chinese, simplified and traditional", ("一只狗", "一隻狗", "zh"), scored(0.5)),
    ("chinese, one word of 20,000 signs", ("狗" * 20_000, "狗" * 20_000, "zh"), ONE),
    ("japanese of half width", ("ﾈｺ", "ﾈｺ", "ja"), ONE),
    ("korean with a nul", ("개\0고양이", "개\0고양이", "ko"), ONE),
    ("thai marks without a letter", ("\u0e31\u0e34", "\u0e31\u0e34", "th"), ONE),
    ("arabic with marks of direction", ("\u200fقطة", "\u200fقطة", "ar"), ONE),
    ("tangut without a name, russian", ("\U00017000", "\U00017000", "ru"), ONE),
]
_LANGUAGES = [
    ("too long", "e" * 100_000, refused("language code")),
    ("nul", "en\0", refused("language code")),
    ("line end", "en\n", ONE),
    ("escape", "en\x1b[31m", refused("language code")),
    ("surrogate", "e\ud800", refused("language code")),
    ("full width", "ｅｎ", refused("language code")),
    ("markup", "[red]en[/red]", refused("language code")),
    ("with script and region", "zh_Hant_TW", ONE),
    ("not a number in a list", [math.nan], ONE),
]

CASES = [
    *cases("caption", surfaces.caption, ((name, sign, NONE) for name, sign in _LETTERS)),
    *cases("caption", surfaces.caption, ((f"{name} beside red", f"red {sign}", RED) for name, sign in _SIGNS)),
    *cases("caption", surfaces.caption, ((f"{name} inside red", f"r{sign}ed", NONE) for name, sign in _SIGNS)),
    *cases("caption", surfaces.caption, ((f"{name} between words", f"red{sign}red", RED) for name, sign in _BLANKS)),
    *cases("caption", surfaces.caption, _CAPTIONS),
    *cases("reference", surfaces.references, _REFERENCES),
    *cases("word", surfaces.words, _WORDS),
    *cases("language", surfaces.language, _LANGUAGES),
]  # fmt: skip
