"""Names of things in many languages, parallel to each other, from the names of emoji (Unicode's CLDR).

Captions of photos repeat a few hundred nouns. Emoji picture many everyday things, and Unicode names each of
them in many languages.
"""

from __future__ import annotations

import re
from functools import cache

# Blocks of emoji that picture things: food and drink, plants, sports and places, animals, clothes, tools,
# furniture and devices, traffic, newer animals, food, clothes and tools.
_THINGS = (
    (0x1F32D, 0x1F37F),
    (0x1F380, 0x1F393),
    (0x1F399, 0x1F39E),
    (0x1F3A0, 0x1F3C0),
    (0x1F3CD, 0x1F3F8),
    (0x1F3F9, 0x1F43E),
    (0x1F451, 0x1F462),
    (0x1F48A, 0x1F48E),
    (0x1F4A1, 0x1F4A3),
    (0x1F4B8, 0x1F4BF),
    (0x1F4DE, 0x1F4FF),
    (0x1F525, 0x1F52D),
    (0x1F56F, 0x1F57A),
    (0x1F680, 0x1F6FC),
    (0x1F950, 0x1F9C3),
    (0x1F9E2, 0x1F9FF),
    (0x1FA70, 0x1FADF),
)
# What people do and feel, and what signs say, is no thing.
_NO_THING = frozenset(
    "face faces person people man woman hand hands button symbol sign heart hearts moon arrow mark suit "
    "volume mode bars clock paw prints no non restroom room lavatory control potable walking running "
    "litter smoking bathing customs claim".split()
)
# One word, of letters alone.
_WORD = re.compile(r"[^\W\d_]{2,}")
# Languages in which a name is one word without blanks, however long.
_UNSPACED = frozenset(("zh", "ja"))
_MOST_UNSPACED = 5


@cache
def names_of_things() -> tuple[dict[str, str], ...]:
    """For each thing: language → its name, in lower case; only names of one word, always one in English.

    >>> violin, = (names for names in names_of_things() if names["en"] == "violin")
    >>> violin["de"], violin["zh"]
    ('geige', '小提琴')
    """
    import emoji

    languages = [code for code in emoji.LANGUAGES if code != "alias"]
    for code in languages:
        emoji.config.load_language(code)
    found = []
    for sign, about in emoji.EMOJI_DATA.items():
        points = [point for point in map(ord, sign) if point != 0xFE0F]
        if len(points) != 1 or not any(first <= points[0] <= last for first, last in _THINGS):
            continue
        names = {code: name for code in languages if (name := _plain(about.get(code), code))}
        if names.get("en") and names["en"] not in _NO_THING:
            found.append(names)
    unique = {names["en"]: names for names in found}
    return tuple(unique[name] for name in sorted(unique))


def _plain(name: str | None, code: str) -> str:
    """ ":Name:" → "name"; "" if it is more than one word."""
    plain = (name or "").strip(":").lower()
    if not _WORD.fullmatch(plain) or (code in _UNSPACED and len(plain) > _MOST_UNSPACED):
        return ""
    return plain
