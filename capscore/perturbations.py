"""Captions → the same captions with lexical noise: the five perturbations of PR-MCS.

In: captions of one language. Out: perturbed captions, and which of them stayed as they were. Algorithm 1 of
PR-MCS (both versions), with p = 0.4. What a caption becomes depends on the caption, the seed and the settings
alone, never on the captions around it.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .errors import CapscoreError, InputError
from .languages import language_code
from .segmentation import join, segmenter_name, words

KINDS = ("repetition", "removal", "masking", "jumble", "substitution")
MASK = "[MASK]"
P = 0.4  # PR-MCS §5.2
REMOVALS = ("keep", "drop")

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

    Args:
        captions: n texts in one language.
        kind: one of `KINDS`.
        language: as `capscore.languages.language_code` takes it; None counts as English.
        p: share of words that are drawn, 0 to 1.
        seed: another one gives other draws.
        objects: for substitution, the critical objects of each caption, as texts or as (start, end) places in
            it; None takes the caption's nouns (`find_nouns`). An object that the caption does not have is
            left out and counted. With fewer than two different ones the caption stays as it is.
        shared_draws: whether repetition, removal and masking draw the same words of a caption, as published.
        removal: "keep" the drawn words, as published, or "drop" them.

    Raises:
        CapscoreError: an unknown kind or setting, p outside 0 to 1, objects for another kind.
        InputError: a caption that is not a string or is blank, another number of objects than captions; names
            the row.
        MissingExtraError: the language's segmenter, or what finds its nouns, is not installed.

    >>> perturb(["a dog runs on the beach"], "masking", "en", seed=1).captions
    ['a [MASK] runs on the beach']
    >>> perturb(["a dog runs on the beach"], "repetition", "en", seed=1).captions
    ['a dog dog runs on the beach']
    >>> perturb(["a dog on a beach"], "substitution", "en", objects=[["dog", "beach"]]).captions
    ['a beach on a dog']
    """
    _check_settings(kind, p, seed, removal, objects)
    code = None if language is None else language_code(language)
    _check_captions(captions)
    settings: dict[str, object] = {"seed": seed}
    not_found = np.zeros(len(captions), dtype=np.int64)
    if kind == "substitution":
        settings["objects"] = "given"
        if objects is None:
            objects, settings["objects"] = find_nouns(captions, code), noun_finder(code)
        if len(objects) != len(captions):
            raise InputError(f"{len(objects)} lists of objects for {len(captions)} captions", field="objects")
        texts = []
        for row, (caption, given) in enumerate(zip(captions, objects, strict=True)):
            places, not_found[row] = _places(caption, given, row)
            texts.append(_exchanged(caption, places, _generator(seed, kind, caption)))
    else:
        settings["words"] = segmenter_name(code)
        if kind != "jumble":
            settings["p"] = p
            settings["draws"] = "shared" if shared_draws else "own"
        if kind == "removal":
            settings["removal"] = removal
        drawing = "draw" if shared_draws and kind != "jumble" else kind
        texts = []
        for caption in captions:
            pieces, chance = words(caption, code), _generator(seed, drawing, caption)
            if kind == "jumble":
                changed = _jumbled(pieces, chance)
            else:
                changed = _written(pieces, _drawn(len(pieces), p, chance), kind, removal)
            texts.append(caption if changed == pieces else join(changed, code))
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return Perturbed(texts, unchanged, not_found, kind, code, settings)


def find_nouns(captions: Sequence[str], language: str | None = None) -> list[list[tuple[int, int]]]:
    """Where the nouns of captions stand: those that a substitution exchanges where no objects are given.

    In Japanese, Chinese and Thai nouns that stand side by side are one, as compounds are written there.

    Returns:
        n lists of (start, end) places in the caption, from left to right.

    Raises:
        InputError, MissingExtraError: as `capscore.word_classes.tag`.
    """
    from .word_classes import tag

    code = "en" if language is None else language_code(language)
    compounds = join(["a", "b"], code) == "ab"
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


def noun_finder(language: str | None = None) -> str:
    """What finds the nouns of a language, with versions, for signatures."""
    from .word_classes import tagger_name

    return tagger_name("en" if language is None else language)


def _check_settings(kind: str, p: float, seed: int, removal: str, objects: object) -> None:
    for name, given, known in (("perturbation", kind, KINDS), ("removal", removal, REMOVALS)):
        if given not in known:
            close = difflib.get_close_matches(str(given).lower(), known, n=1, cutoff=0.4)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise CapscoreError(f"{name} {given!r} is not one of {', '.join(known)}{hint}")
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise CapscoreError(f"p={p!r}: expected a probability from 0 to 1")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise CapscoreError(f"seed={seed!r}: expected a whole number")
    if objects is not None and kind != "substitution":
        raise CapscoreError(f"objects are for substitution; {kind} takes none")


def _check_captions(captions: Sequence[str]) -> None:
    if isinstance(captions, str):
        raise InputError(f"{captions!r:.60} is one string; expected a list of captions", field="caption")
    for row, caption in enumerate(captions):
        if not isinstance(caption, str):
            raise InputError(
                f"{caption!r:.60} is a {type(caption).__name__}; expected a string", row=row, field="caption"
            )
        if not caption.strip():
            raise InputError("the caption is blank: there is nothing to perturb", row=row, field="caption")


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


def _written(pieces: list[str], drawn: list[bool], kind: str, removal: str) -> list[str]:
    pairs = list(zip(pieces, drawn, strict=True))
    if kind == "masking":
        return [MASK if is_drawn else piece for piece, is_drawn in pairs]
    if kind == "repetition":
        return [piece for piece, is_drawn in pairs for _ in range(1 + is_drawn)]
    keep = removal == "keep" or len(pieces) == 1
    return [piece for piece, is_drawn in pairs if is_drawn == keep]


def _jumbled(pieces: list[str], chance: random.Random) -> list[str]:
    order = chance.sample(pieces, len(pieces))
    if order == pieces:
        others = [place for place, piece in enumerate(pieces) if piece != pieces[0]]
        if others:
            place = chance.choice(others)
            order[0], order[place] = order[place], order[0]
    return order


def _places(caption: str, objects: Sequence[Object], row: int) -> tuple[list[tuple[int, int]], int]:
    """Where the objects stand, none over another, and how many are not there.

    Longer ones look first, so that "dog" does not take what belongs to "dog house".
    """
    if isinstance(objects, str):
        raise InputError(
            f"{objects!r:.60} is one string; expected a list of objects", row=row, field="objects"
        )
    taken: list[tuple[int, int]] = []
    missing = 0
    for thing in sorted(objects, key=lambda thing: -len(thing) if isinstance(thing, str) else 0):
        if isinstance(thing, str):
            place = _find(caption, thing.strip(), taken)
            if place is None:
                missing += 1
                continue
        else:
            place = _checked_place(thing, caption, taken, row)
        taken.append(place)
    return sorted(taken), missing


def _checked_place(place: object, caption: str, taken: list[tuple[int, int]], row: int) -> tuple[int, int]:
    try:
        start, end = (int(number) for number in place)  # type: ignore[attr-defined]
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
    """The first place of a text that nothing has taken: as a word of its own before part of one."""
    if not text:
        return None
    best = None
    for spelt, sought in ((caption, text), (caption.lower(), text.lower())):
        if len(spelt) != len(caption):  # lower case of İ is two characters
            continue
        start = spelt.find(sought)
        while start >= 0:
            end = start + len(sought)
            if not any(start < b and a < end for a, b in taken):
                if _is_apart(caption, start, end):
                    return start, end
                best = best or (start, end)
            start = spelt.find(sought, start + 1)
    return best


def _is_apart(caption: str, start: int, end: int) -> bool:
    return not (caption[start - 1 : start].isalnum() or caption[end : end + 1].isalnum())


def _exchanged(caption: str, places: list[tuple[int, int]], chance: random.Random) -> str:
    """The caption with the text of each place at another one.

    Places with the same text are put side by side in a random order, and the texts move on by as many places
    as the most frequent one has: so a place gets its own text back only where that cannot be helped.
    """
    groups: dict[str, list[int]] = {}
    for number, (start, end) in enumerate(places):
        groups.setdefault(caption[start:end], []).append(number)
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
