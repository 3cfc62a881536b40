"""References, words and languages. The metric is ROUGE-L: 1 where a reference has the candidate's words."""

from __future__ import annotations

import math

from ..case import cases, refused, scored

ONE, ZERO = scored(1.0), scored(0.0)

_REFERENCES = [
    ("None", None, refused("row 0", "references", "None")),
    ("not a number", math.nan, refused("row 0", "references", "nan")),
    ("true", True, refused("row 0", "references", "bool")),
    ("empty list", [], refused("row 0", "references", "empty list")),
    ("dict", {"a b": 1}, refused("row 0", "references", "dict")),
    ("bytes", b"a b", refused("row 0", "references", "bytes")),
    ("list of lists", [["a b"]], refused("row 0", "reference 0", "(list)")),
    ("list of None", [None], refused("row 0", "reference 0 is None")),
    ("blank reference after a good one", ["a b", " \t "], refused("row 0", "reference 1", "empty")),
    ("no visible character", ["a b", "\u200b"], refused("row 0", "reference 1", "visible")),
    ("surrogate", ["a b", "c \ud800"], refused("row 0", "reference 1", "surrogate")),
    ("generator", lambda folder: (text for text in ["c", "a b"]), ONE),
    ("set", lambda folder: {"a b"}, ONE),
    ("ten thousand references", ["c"] * 9_999 + ["a b"], ONE),
    ("reference of 250,000 words", ["c " * 250_000], ZERO),
    ("only punctuation", ["?!."], ZERO),
    # "b", "a", "b", "b": of four words two are in the candidate, so R = 1/2; (1 + 1.44) R / (R + 1.44)
    ("html around", ["<b>a b</b>"], scored(2.44 * 0.5 / 1.94)),
    ("control characters between", ["a\x1b b\a"], ONE),
]
_WORDS = [
    ("punctuation at the end", ("a cat.", ["a cat !"], "en"), ONE),
    ("two signs that the tokenizer keeps", ("?!", ["?!"], "en"), ONE),
    # as in coco-caption, where no words at all are one empty word
    ("signs that the tokenizer removes", ("!", ["!"], "en"), ONE),
    ("candidate of 20,000 words", ("a " * 20_000, ["a " * 20_000], "en"), ONE),
    # two words, 一只 and 狗, of which one is the same
    ("chinese, simplified and traditional", ("一只狗", ["一隻狗"], "zh"), scored(0.5)),
    ("chinese of a rare plane", ("\U00020000狗", ["\U00020000狗"], "zh"), ONE),
    ("chinese, one word of 20,000 signs", ("狗" * 20_000, ["狗" * 20_000], "zh"), ONE),
    ("japanese of half width", ("ﾈｺ", ["ﾈｺ"], "ja"), ONE),
    ("japanese with a nul", ("猫\0犬", ["猫\0犬"], "ja"), ONE),
    ("korean with a nul", ("개\0고양이", ["개\0고양이"], "ko"), ONE),
    ("thai marks without a letter", ("\u0e31\u0e34", ["\u0e31\u0e34"], "th"), ONE),
    ("arabic with marks of direction", ("\u200fقطة", ["\u200fقطة"], "ar"), ONE),
    ("hindi with joiners", ("क्\u200dष", ["क्\u200dष"], "hi"), ONE),
    ("tangut without a name, russian", ("\U00017000", ["\U00017000"], "ru"), ONE),
    ("turkish dotted i", ("İ", ["İ"], "tr"), ONE),
    ("german sharp s", ("STRASSE ẞ", ["strasse ß"], "de"), ONE),
    ("chinese without a language", ("一只狗", ["一只狗"], None), ONE),
]
_LANGUAGES = [
    ("empty", "", refused("language code")),
    ("unknown", "xx", refused("'xx'")),
    ("English name", "English", refused("English")),
    ("too long", "e" * 100_000, refused("language code")),
    ("nul", "en\0", refused("language code")),
    ("line end", "en\n", ONE),
    ("escape", "en\x1b[31m", refused("language code")),
    ("surrogate", "e\ud800", refused("language code")),
    ("full width", "ｅｎ", refused("language code")),
    ("two codes", "en,de", refused("language code")),
    ("markup", "[red]en[/red]", refused("language code")),
    ("private use", "x-klingon", ONE),
    ("number", 7, refused("language", "int")),
    ("list of two for one row", ["en", "de"], refused("got 2; expected 1, one per candidate")),
    ("list with a number", [7], refused("row 0", "7")),
    ("with an underscore", "pt_BR", ONE),
    ("with script and region", "zh-Hant-TW", ONE),
    ("nothing", None, ONE),
    ("not a number in a list", [math.nan], ONE),
]

CASES = [
    *cases("reference", "references", _REFERENCES),
    *cases("word", "words", _WORDS),
    *cases("language", "language", _LANGUAGES),
]
