"""Captions → the same captions with lexical noise: the five perturbations of PR-MCS.

In: captions of one language. Out: perturbed captions, and which of them stayed as they were. Algorithm 1 of
PR-MCS (both versions), with p = 0.4. What a caption becomes depends on the caption, the seed and the settings
alone, never on the captions around it.
"""

from __future__ import annotations

import difflib
import operator
import random
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from numbers import Integral, Real
from typing import TypeAlias

import numpy as np

from ..errors import CapscoreError, InputError
from ..text.checks import text_problem
from ..text.languages import language_code
from ..text.segmentation import join, segmenter_name, words

KINDS = ("repetition", "removal", "masking", "jumble", "substitution")
MASK = "[MASK]"
P = 0.4  # PR-MCS §5.2
REMOVALS = ("keep", "drop")
BLANKS = "blanks"  # in signatures: words are what stands between white space

# a critical object: its text, or where it stands in the caption
Object: TypeAlias = str | tuple[int, int]


@dataclass(frozen=True)
class Perturbed:
    """What a perturbation made of n captions.

    Attributes:
        captions: n texts, none empty.
        unchanged: bool (n,), True where the caption stayed as it was.
        not_found: int (n,), critical objects that were given as texts but are not in their caption.
        kind: one of `KINDS`.
        language: primary subtag, or None if none was stated.
        settings: what the result depends on besides the captions, for signatures.
    """

    captions: list[str]
    unchanged: np.ndarray
    not_found: np.ndarray
    kind: str
    language: str | None
    settings: dict[str, object]


def perturb(
    captions: Sequence[str],
    kind: str,
    language: str | None = None,
    *,
    p: float = P,
    seed: int = 0,
    objects: Sequence[Sequence[Object]] | None = None,
    shared_draws: bool = True,
    removal: str = "keep",
) -> Perturbed:
    """Perturb captions (PR-MCS §5.2 and Algorithm 1).

    Repetition, removal and masking draw words, each with probability p, but always one at least and, of two
    words or more, never all: no caption gets empty, and each changes if it can. Repetition writes a drawn
    word twice, masking writes `[MASK]` for it, and removal keeps it and drops the others, as the published
    code and figures do (its text says the contrary). Jumble puts all words in another order. Substitution
    puts each critical object where another one was.

    Words are what stands between white space, and in Japanese, Chinese and Thai what the segmenter finds.
    White space stays where it was: a caption differs by its perturbation and by nothing else. What stays
    unchanged is a caption without two different words (jumble, removal) or objects (substitution), or whose
    drawn words are `[MASK]` already (masking).

    Args:
        captions: n texts in one language.
        kind: one of `KINDS`.
        language: as `capscore.text.languages.language_code` takes it; None counts as English.
        p: probability with which a word is drawn, 0 to 1.
        seed: a whole number; another one gives other draws.
        objects: for substitution, the critical objects of each caption, as texts or as (start, end) places in
            it (see `find_objects`); None takes the caption's nouns (`find_nouns`). An object that the caption
            does not have is left out and counted. With fewer than two different ones, whatever their case,
            the caption stays as it is.
        shared_draws: whether repetition, removal and masking draw the same words of a caption, as published.
        removal: "keep" the drawn words, as published, or "drop" them.

    Raises:
        CapscoreError: an unknown kind or setting, p outside 0 to 1, objects for another kind.
        InputError: a caption that is not a string or is blank, an object that is neither a text nor a place
            in its caption; names the row. Also another number of objects than captions, or a language that
            nothing here finds words in.
        MissingExtraError: the language's segmenter, or what finds its nouns, is not installed.

    >>> perturb(["a dog runs on the beach"], "masking", "en", seed=1).captions
    ['a [MASK] runs on the beach']
    >>> perturb(["a dog runs on the beach"], "repetition", "en", seed=1).captions
    ['a dog dog runs on the beach']
    >>> perturb(["a dog on a beach"], "substitution", "en", objects=[["dog", "beach"]]).captions
    ['a beach on a dog']
    """
    p, seed = _check_settings(kind, p, seed, shared_draws, removal, objects)
    code = None if language is None else language_code(language)
    check_captions(captions)
    settings: dict[str, object] = {"seed": seed}
    not_found = np.zeros(len(captions), dtype=np.int64)
    if kind == "substitution":
        settings["objects"] = "given"
        if objects is None:
            objects, settings["objects"] = find_nouns(captions, code), noun_finder(code)
        found, not_found = find_objects(captions, objects)
        texts = [
            _exchanged(caption, places, _generator(seed, kind, caption))
            for caption, places in zip(captions, found, strict=True)
        ]
    else:
        settings["words"] = word_finder(code)
        if kind != "jumble":
            settings["p"] = p
            settings["draws"] = "shared" if shared_draws else "own"
        if kind == "removal":
            settings["removal"] = removal
        drawing = "draw" if shared_draws and kind != "jumble" else kind
        between = "" if _unspaced(code) else " "
        texts = []
        for caption in captions:
            pieces, gaps = _parted(caption, code)
            chance = _generator(seed, drawing, caption)
            if kind == "jumble":
                texts.append(_jumbled(pieces, gaps, chance))
                continue
            drawn = _drawn(len(pieces), p, chance)
            if kind == "removal":
                kept = (
                    drawn if removal == "keep" or len(pieces) == 1 else [not is_drawn for is_drawn in drawn]
                )
                texts.append(_without_others(pieces, gaps, kept))
            else:
                texts.append(_woven(_written(pieces, drawn, kind, between), gaps))
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return Perturbed(texts, unchanged, not_found, kind, code, settings)


def find_nouns(captions: Sequence[str], language: str | None = None) -> list[list[tuple[int, int]]]:
    """Where the nouns of captions stand: those that a substitution exchanges where no objects are given.

    In Japanese, Chinese and Thai nouns that stand side by side are one, as compounds are written there.

    Returns:
        n lists of (start, end) places in the caption, from left to right.

    Raises:
        InputError, MissingExtraError: as `capscore.text.word_classes.tag`.
    """
    from ..text.word_classes import tag

    code = "en" if language is None else language_code(language)
    compounds = _unspaced(code)
    found = []
    for tagged in tag(captions, code):
        places: list[tuple[int, int]] = []
        for word in tagged:
            if word.word_class != "noun":
                continue
            if compounds and places and places[-1][1] == word.start:
                places[-1] = (places[-1][0], word.end)
            else:
                places.append((word.start, word.end))
        found.append(places)
    return found


def find_objects(
    captions: Sequence[str], objects: Sequence[Sequence[Object]]
) -> tuple[list[list[tuple[int, int]]], np.ndarray]:
    """Where given objects stand in captions, none over another.

    Places are taken as they are. Texts are looked for with the longer ones first, so that "dog" does not take
    what belongs to "dog house": in any case, as a word of its own before a part of one, spelt alike before
    not, from left to right. An object that is given twice is looked for twice.

    Args:
        captions: n texts.
        objects: n lists, each in any order.

    Returns:
        n lists of (start, end) places from left to right; int (n,), the texts that were not found.

    Raises:
        InputError: another number of lists than captions, or an object that is neither a text nor a place in
            its caption, or over another; names the row.

    >>> find_objects(["A dog at a dog house"], [["dog", "dog house", "cat"]])
    ([[(2, 5), (11, 20)]], array([1]))
    """
    if isinstance(objects, str) or len(objects) != len(captions):
        given = "one string" if isinstance(objects, str) else f"{len(objects)} lists of objects"
        raise InputError(f"{given} for {len(captions)} captions; expected a list for each", field="objects")
    found = []
    not_found = np.zeros(len(captions), dtype=np.int64)
    for row, (caption, given) in enumerate(zip(captions, objects, strict=True)):
        places, not_found[row] = _places(caption, given, row)
        found.append(places)
    return found, not_found


def noun_finder(language: str | None = None) -> str:
    """What finds the nouns of a language, with versions, for signatures.

    Raises:
        InputError, MissingExtraError: as `capscore.text.word_classes.tagger_name`.
    """
    from ..text.word_classes import tagger_name

    return tagger_name("en" if language is None else language)


def word_finder(language: str | None = None) -> str:
    """What finds the words of a language, with versions, for signatures: white space, or its segmenter.

    Raises:
        InputError, MissingExtraError: as `capscore.text.segmentation.segmenter_name`.

    >>> word_finder("de"), word_finder("ko")
    ('blanks', 'blanks')
    """
    return segmenter_name(language) if _unspaced(language) else BLANKS


def check_captions(captions: Sequence[str]) -> None:
    """See that captions can be perturbed.

    Raises:
        InputError: one that is not a string, is blank or holds half a surrogate pair; names the row.
    """
    if isinstance(captions, str):
        raise InputError(f"{captions!r:.60} is one string; expected a list of captions", field="caption")
    for row, caption in enumerate(captions):
        problem = text_problem(caption)
        if problem is None and not caption.replace("\0", " ").strip():
            problem = "the caption is blank: there is nothing to perturb"
        if problem:
            raise InputError(problem, row=row, field="caption")


def _check_settings(
    kind: str, p: float, seed: int, shared_draws: bool, removal: str, objects: object
) -> tuple[float, int]:
    for name, given, known in (("perturbation", kind, KINDS), ("removal", removal, REMOVALS)):
        if given not in known:
            close = difflib.get_close_matches(str(given).lower(), known, n=1, cutoff=0.4)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise CapscoreError(f"{name} {given!r} is not one of {', '.join(known)}{hint}")
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= p <= 1:
        raise CapscoreError(f"p={p!r}: expected a probability from 0 to 1")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise CapscoreError(f"seed={seed!r}: expected a whole number")
    if not isinstance(shared_draws, (bool, np.bool_)):
        raise CapscoreError(f"shared_draws={shared_draws!r}: expected True or False")
    if objects is not None and kind != "substitution":
        raise CapscoreError(f"objects are for substitution; {kind} takes none")
    return float(p), int(seed)


def _unspaced(language: str | None) -> bool:
    return join(["a", "b"], language) == "ab"


def _generator(seed: int, use: str, caption: str) -> random.Random:
    # seeding with a string goes through SHA-512: the same in every process, on every machine
    return random.Random(f"{seed}|{use}|{caption}")


def _drawn(n: int, p: float, chance: random.Random) -> list[bool]:
    draws = [chance.random() for _ in range(n)]
    drawn = [draw < p for draw in draws]
    if not any(drawn):
        drawn[draws.index(min(draws))] = True
    elif n > 1 and all(drawn):
        drawn[draws.index(max(draws))] = False
    return drawn


def _parted(caption: str, code: str | None) -> tuple[list[str], list[str]]:
    """The n words of a caption, and the n + 1 stretches of white space around them."""
    pieces: list[str] = []
    gaps: list[str] = []
    last = 0
    for piece in words(caption, code):
        start = caption.index(piece, last)
        if pieces and start == last and _one_sign(pieces[-1], piece):
            pieces[-1] += piece
        else:
            pieces.append(piece)
            gaps.append(caption[last:start])
        last = start + len(piece)
    return pieces, [*gaps, caption[last:]]


def _one_sign(before: str, after: str) -> bool:
    """Whether segmenters cut through what a reader sees as one sign: a letter and its mark, an emoji."""
    last, first = before[-1], after[0]
    return (
        first == "\u200d"
        or last == "\u200d"
        or "\U0001f3fb" <= first <= "\U0001f3ff"  # colours of skin
        or unicodedata.category(first)[0] == "M"
        or (_is_flag_half(first) and len(before) % 2 == 1 and all(map(_is_flag_half, before)))
    )


def _is_flag_half(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def _woven(pieces: Sequence[str], gaps: Sequence[str]) -> str:
    return "".join(part for pair in zip(gaps, [*pieces, ""], strict=True) for part in pair)


def _written(pieces: list[str], drawn: list[bool], kind: str, between: str) -> list[str]:
    return [
        piece if not is_drawn else MASK if kind == "masking" else f"{piece}{between}{piece}"
        for piece, is_drawn in zip(pieces, drawn, strict=True)
    ]


def _without_others(pieces: list[str], gaps: list[str], kept: list[bool]) -> str:
    """The words that are kept; of the white space between two of them, the first."""
    out, gap = [gaps[0]], None
    for piece, is_kept, after in zip(pieces, kept, gaps[1:], strict=True):
        if is_kept:
            out += [piece] if gap is None else [gap, piece]
            gap = after
        elif gap is not None:
            gap = gap or after
    return "".join(out) + gaps[-1]


def _jumbled(pieces: list[str], gaps: list[str], chance: random.Random) -> str:
    caption, text = _woven(pieces, gaps), _woven(chance.sample(pieces, len(pieces)), gaps)
    if text == caption and len(set(pieces)) > 1:
        pairs = combinations(chance.sample(range(len(pieces)), len(pieces)), 2)
        # 1,000 are more than enough, but for thousands of words such as ha, haha, hahaha without spaces
        for one, other in islice((pair for pair in pairs if pieces[pair[0]] != pieces[pair[1]]), 1000):
            order = pieces.copy()
            order[one], order[other] = order[other], order[one]
            text = _woven(order, gaps)
            if text != caption:
                break
    return text


def _places(caption: str, objects: Sequence[Object], row: int) -> tuple[list[tuple[int, int]], int]:
    if isinstance(objects, (str, bytes)):
        raise InputError(
            f"{objects!r:.60} is one string; expected a list of objects", row=row, field="objects"
        )
    try:
        things = list(objects)
    except TypeError:
        raise InputError(f"{objects!r:.60} is no list of objects", row=row, field="objects") from None
    taken: list[tuple[int, int]] = []
    for thing in things:
        if not isinstance(thing, str):
            taken.append(_checked_place(thing, caption, taken, row))
    missing = 0
    texts = (" ".join(thing.split()) for thing in things if isinstance(thing, str))
    for text in sorted(texts, key=lambda text: (-len(text), text)):
        place = _find(caption, text, taken)
        if place is None:
            missing += 1
        else:
            taken.append(place)
    return sorted(taken), missing


def _checked_place(place: object, caption: str, taken: list[tuple[int, int]], row: int) -> tuple[int, int]:
    try:
        if isinstance(place, bytes):
            raise TypeError
        start, end = (operator.index(number) for number in place)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InputError(
            f"{place!r:.60} is neither a text nor a (start, end) place", row=row, field="objects"
        ) from None
    if not 0 <= start < end <= len(caption):
        raise InputError(
            f"the place ({start}, {end}) is not in the caption, which has {len(caption)} characters",
            row=row,
            field="objects",
        )
    if any(start < b and a < end for a, b in taken):
        raise InputError(f"the place ({start}, {end}) overlaps another one", row=row, field="objects")
    return start, end


def _find(caption: str, text: str, taken: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The best place of a text that nothing has taken."""
    if not text:
        return None
    free = [
        (start, end)
        for start, end in (match.span(1) for match in _pattern(text).finditer(caption))
        if not _is_cut(caption, end) and not any(start < b and a < end for a, b in taken)
    ]
    return min(
        free,
        key=lambda place: (not _is_apart(caption, *place), caption[slice(*place)] != text, place),
        default=None,
    )


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    """A text wherever it begins, in any case, white space and composition."""
    forms = dict.fromkeys([text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))])
    spelt = "|".join(r"\s+".join(map(re.escape, form.split(" "))) for form in forms)
    return re.compile(f"(?=({spelt}))", re.IGNORECASE)


def _is_cut(caption: str, end: int) -> bool:
    """Whether a mark that belongs to the letter before it stands at a place."""
    return end < len(caption) and _one_sign(caption[end - 1], caption[end])


def _is_apart(caption: str, start: int, end: int) -> bool:
    return not (caption[start - 1 : start].isalnum() or caption[end : end + 1].isalnum())


def _exchanged(caption: str, places: list[tuple[int, int]], chance: random.Random) -> str:
    """The caption with the text of each place at another one.

    Places with the same text are put side by side in a random order, and the texts move on by as many places
    as the most frequent one has: so a place gets its own text back only where that cannot be helped.
    """
    groups: dict[str, list[int]] = {}
    for number, (start, end) in enumerate(places):
        groups.setdefault(_folded(caption[start:end]), []).append(number)
    if len(groups) < 2:
        return caption
    order = []
    for text in chance.sample(list(groups), len(groups)):
        order += chance.sample(groups[text], len(groups[text]))
    step = max(map(len, groups.values()))
    texts = {}
    for position, number in enumerate(order):
        start, end = places[order[position - step]]
        texts[number] = caption[start:end]
    out, last = [], 0
    for number, (start, end) in enumerate(places):
        out += [caption[last:start], texts[number]]
        last = end
    return "".join(out) + caption[last:]


def _folded(text: str) -> str:
    """What two objects have in common that are the same but for case, white space and composition."""
    return unicodedata.normalize("NFC", " ".join(text.split())).casefold()
