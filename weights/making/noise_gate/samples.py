"""Captions → batches of texts in all styles, right and damaged, as a pure function of epoch and step.

Kinds of damage are those of PR-MCS (Kim et al. 2023, §3.2 and Algorithm 1), from a single word to all. What a
perturbation leaves well-formed is no damage: a phrase without its article, words of one stretch, one noun.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from capscore.backbones.embedded.noise_gate import FOUND, LONGEST
from capscore.backbones.embedded.text_encoder import PieceTokenizer, folded
from capscore.backbones.tokens import BLANK
from capscore.errors import InputError
from capscore.perturbations import MASK, P
from capscore.perturbations.words import Span, overlaps, with_texts
from weights.making.jsonl import beside
from weights.making.noise_gate import styles
from weights.making.noise_gate.styles import UNSPACED
from weights.making.noise_gate.texts import MarkedText, PlacedText
from weights.making.settings import NoiseGateSettings

# What samples are drawn by, the shares of kinds of damage, parts of captions and ways of writing among it.
_STATED: dict[str, Any] = beside(__file__, "samples.yaml")
# Batches that are drawn together and sorted by length, so that little is padded.
_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Sample:
    """A text as the noise gate reads it, and what it should say."""

    language: str
    ids: list[int]  # of its tokens
    touched: list[int]  # for each token 1 where noise touched it, 0 elsewhere, −1 where that is not known
    taken: float  # share of the score that noise should take, 0 for a right text
    found: int  # number of its kind of noise in `FOUND`


@dataclass(frozen=True, slots=True)
class Damaged:
    text: str
    touched: tuple[Span, ...] = ()  # places where noise is, or where a word is missing
    taken: float = 0.0  # share of the score that the noise should take, from 0 to 1
    kind: str = FOUND[0]


class SampleBatches:
    """Batches of samples. A batch is a pure function of (seed, epoch, step).

    Every text is drawn twice, as it is right and damaged: what tells the two apart is the damage alone, not
    what they are about. InputError if a language of the settings has no captions.
    """

    def __init__(
        self,
        texts: Iterable[MarkedText],
        tokenizer: PieceTokenizer,
        settings: NoiseGateSettings,
        *,
        steps: int,
        seed: int,
    ):
        self.steps_per_epoch, self.batch_size, self.seed = steps, settings.batch_size, seed
        self._tokenizer = tokenizer
        shares, weights = settings.numbers("languages"), settings.numbers("sources")
        self.texts: dict[str, list[MarkedText]] = defaultdict(list)
        for text in texts:
            self.texts[text.language].append(text)
        if missing := shares.keys() - self.texts.keys():
            raise InputError(f"there are no captions in {', '.join(sorted(missing))}", field="texts")
        self._languages, odds = list(shares), np.array(list(shares.values()))
        self._shares = odds / odds.sum()
        self._cumulated: dict[str, np.ndarray] = {}
        for language in shares:
            own = [weights.get(text.source.partition("/")[0], 1.0) for text in self.texts[language]]
            self._cumulated[language] = np.cumsum(own)
        self._drawn = lru_cache(maxsize=2)(self._draw)

    def batch(self, epoch: int, step: int) -> list[Sample]:
        number, place = divmod(step, _TOGETHER)
        return self._drawn(epoch, number)[place]

    def _draw(self, epoch: int, number: int) -> list[list[Sample]]:
        n = self.batch_size * _TOGETHER
        draw = np.random.default_rng((self.seed, epoch, number))
        languages = draw.choice(len(self._languages), size=n // 2, p=self._shares)
        spots = draw.random((n // 2, 3))
        chance = random.Random(int(draw.integers(2**62)))
        made: list[tuple[str, Damaged]] = []
        for row, which in enumerate(languages.tolist()):
            language = self._languages[which]
            weights = self._cumulated[language]
            places = np.searchsorted(weights, spots[row] * weights[-1], side="right")
            chosen = [self.texts[language][place] for place in places]
            made += [(language, text) for text in draw_pair(chosen, chance)]
        samples, most = [], LONGEST + 2
        tokenized = self._tokenizer([row.text for _, row in made])
        for (language, row), ids in zip(made, tokenized, strict=True):
            marks = token_marks(self._tokenizer, ids, row.text, row.touched)
            samples.append(Sample(language, ids[:most], marks[:most], row.taken, FOUND.index(row.kind)))
        samples.sort(key=lambda sample: len(sample.ids))
        batches = [samples[start : start + self.batch_size] for start in range(0, n, self.batch_size)]
        return [batches[place] for place in draw.permutation(_TOGETHER)]


def draw_pair(chosen: Sequence[MarkedText], chance: random.Random) -> tuple[Damaged, Damaged]:
    """Captions of one language → a text in a drawn style, right and damaged.

    The first caption is the sample; the others are joined to it where the drawn style asks for it. A text
    that no kind of damage fits, such as a single word that is no object, comes back right twice.
    """
    part, way = _drawn(_STATED["parts"], chance), _drawn(_STATED["ways"], chance)
    ill_making, text = ILL_MADE.get(_drawn(_STATED["ill_made"], chance)), chosen[0]
    ill_made = ill_making and ill_making(chosen, way, chance)
    if ill_made is not None:
        return Damaged(_written(text, way, chance).text), ill_made
    if part not in ("whole", "joined"):
        found = getattr(styles, part)(text, chance)
        text = text if found is None else _ended(found, chance)
    listed = part == "joined" and chance.random() < _STATED["listed"]
    if listed:
        text = _phrase(chosen[0], chance)
    written = _written(text, way, chance)
    if written is text:  # others are then written as they are too
        way = "same"
    right = Damaged(written.text)
    damage = _damage(written, chance) or right
    if part != "joined" or len(chosen) < 2:
        return right, damage
    whole = [_phrase(other, chance) if listed else other for other in chosen[1:]]
    others = [_written(other, way, chance) for other in whole]
    if chance.random() < 0.5:
        others = others[:1]
    between = _between("listed" if listed else "texts", written.language, chance)
    index = chance.randrange(len(others) + 1)
    # the whole loses the share of its damaged part
    share = len(written.words) / (len(written.words) + sum(len(other.words) for other in others))

    def joined(own: Damaged) -> Damaged:
        parts = [other.text.rstrip() for other in others]
        parts.insert(index, own.text)
        if between.strip():
            parts = [*(part.rstrip(" .。") for part in parts[:-1]), parts[-1]]
        before = len(between.join([*parts[:index], ""]))
        touched = tuple((start + before, end + before) for start, end in own.touched)
        return replace(own, text=between.join(parts), touched=touched, taken=own.taken * share)

    return joined(right), joined(damage)


def _ended(text: PlacedText, chance: random.Random) -> PlacedText:
    """A part of a caption, now and then as a sentence, or with a year."""
    end = chance.random()
    if end < _STATED["finished"]:
        return styles.finished(text, chance) or text
    if end < _STATED["finished"] + _STATED["dated"]:
        return styles.dated(text, chance) or text
    return text


def _phrase(text: MarkedText, chance: random.Random) -> PlacedText:
    """A noun phrase of several words, or the whole caption where the drawn noun has none."""
    phrase = styles.noun_phrase(text, chance)
    return phrase if phrase is not None and len(phrase.words) > 1 else text


def _written(text: PlacedText, way: str, chance: random.Random) -> PlacedText:
    """The text in a way of writing, or the same text where it has no such form."""
    if way == "same":
        return text
    if way == "in_blanks":
        return styles.in_blanks(text, chance)
    return getattr(styles, way)(text) or text


def _cut(chosen: Sequence[MarkedText], way: str, chance: random.Random) -> Damaged | None:
    """The caption up to a word that needs another behind it."""
    cut = styles.cut_short(chosen[0], chance)
    return cut and _ill_ended(cut, way, chance)


def _dangling(chosen: Sequence[MarkedText], way: str, chance: random.Random) -> Damaged | None:
    """The caption, and behind it one or two words at which another one would be cut: " on", " with a"."""
    cut = styles.cut_short(chosen[-1], chance)
    if cut is None:
        return None
    ending = cut.text[cut.words[-chance.choice((1, 2))][0] :].lower()
    return _ill_ended(styles.followed(styles.unstopped(chosen[0]) or chosen[0], ending), way, chance)


def _ill_ended(text: PlacedText, way: str, chance: random.Random) -> Damaged:
    written = _written(text, way, chance)
    return Damaged(written.text, written.words[-1:], _STATED["takes"]["cut"], "removal")


def _words_listed(chosen: Sequence[MarkedText], way: str, chance: random.Random) -> Damaged | None:
    """The caption's nouns, verbs and adjectives, or its nouns alone, one behind the other."""
    text = chosen[0]
    wanted = chance.choice(("nvjr", "nvj", "n"))
    words = [word for word, letter in zip(text.cores(), text.classes, strict=True) if letter in wanted]
    words = [word.lower() if chance.random() < 0.9 else word for word in words if word]
    if len(words) < 3:
        return None
    if chance.random() < 0.2:
        chance.shuffle(words)
    listed = _between("words", text.language, chance).join(words)
    return Damaged(listed, ((0, len(listed)),), _STATED["takes"]["words_listed"], "removal")


def _twice(chosen: Sequence[MarkedText], way: str, chance: random.Random) -> Damaged | None:
    """The caption, and once more the caption, in one sentence: sentences are read one by one."""
    text = _written(styles.unstopped(chosen[0]) or chosen[0], way, chance).text.rstrip()
    first = text + _between("twice", chosen[0].language, chance)
    again = (len(first), len(first + text))
    return Damaged(first + text, (again,), _STATED["takes"]["twice"], "repetition")


def _between(texts: str, language: str, chance: random.Random) -> str:
    spacing = "unspaced" if language in UNSPACED else "spaced"
    return chance.choice(_STATED["between"][texts][spacing])


ILL_MADE = {"cut": _cut, "dangling": _dangling, "words_listed": _words_listed, "twice": _twice}


def _damage(text: PlacedText, chance: random.Random) -> Damaged | None:
    """A random kind of damage; another where it cannot damage the text."""
    left = dict(_STATED["kinds"])
    while left:
        kind = _drawn(left, chance)
        found = damaged(text, kind, chance)
        if found is not None and found.text != text.text:
            return found
        del left[kind]
    return None


def _drawn(shares: Mapping[Any, float], chance: random.Random) -> Any:
    return chance.choices([*shares], [*shares.values()])[0]


def token_marks(tokenizer: PieceTokenizer, ids: Sequence[int], text: str, spans: Sequence[Span]) -> list[int]:
    """For each token of a text, whether it lies in one of the places: 1 or 0.

    Start and end tokens have 0; where the tokenizer has rewritten the text, all others have −1.
    """
    if not spans:
        return [0] * len(ids)
    pieces = tokenizer.pieces(ids[1:-1])
    text, marks, place = folded(text), [], 0
    for piece in pieces:
        core = piece.lstrip(BLANK)
        while core != piece and text[place : place + 1].isspace():
            place += 1
        end = place + len(core)
        if text[place:end] != core:
            return [0, *[-1] * len(pieces), 0]
        marks.append(int(bool(core) and overlaps((place, end), spans)))
        place = end
    return [0, *marks, 0]


def damaged(text: PlacedText, kind: str, chance: random.Random) -> Damaged | None:
    """Damage a well-formed text by a random degree of a kind of `KINDS`; None where this cannot damage it."""
    p = P if chance.random() < _STATED["published"] else chance.uniform(0.05, 0.9)
    if kind == "substitution":
        return _substituted(text, p, chance)
    if kind == "jumble":
        return _jumbled(text, p, chance)
    n = len(text.words)
    drawn = [chance.random() < p for _ in range(n)]
    if kind == "removal":
        return _removed(text, drawn, chance)
    if not any(drawn):
        drawn[chance.randrange(n)] = True
    elif n > 1 and all(drawn):
        drawn[chance.randrange(n)] = False
    words = text.cut(text.words)
    between = "" if text.language in UNSPACED else " "
    new = [MASK if kind == "masking" else f"{word}{between}{word}" for word in words]
    new = [other if is_drawn else word for other, word, is_drawn in zip(new, words, drawn, strict=True)]
    return _put(text, text.words, new, drawn, kind, sum(drawn) / n)


def taken_of(kind: str, share: float) -> float:
    """Share of the words that noise touched → share of the score that it takes.

    >>> round(taken_of("repetition", 0.1), 2), round(taken_of("repetition", 0.4), 2)
    (0.47, 0.95)
    """
    return 1 - (1 - share) ** _STATED["powers"][kind]


def _put(
    text: PlacedText, spans: Sequence[Span], new: list[str], marked: list[bool], kind: str, share: float
) -> Damaged:
    """The text with new content at some places, of which some are touched; share: of the words."""
    touched, moved = [], 0
    for (start, end), content, is_marked in zip(spans, new, marked, strict=True):
        start += moved
        if is_marked:
            touched.append((start, start + len(content)))
        moved = start + len(content) - end
    return Damaged(with_texts(text.text, spans, new), tuple(touched), taken_of(kind, share), kind)


def _removed(text: PlacedText, kept: list[bool], chance: random.Random) -> Damaged | None:
    n = len(kept)
    if not any(kept):
        kept[chance.randrange(n)] = True
    left = [number for number in range(n) if kept[number]]
    # without its articles a phrase is right, and one stretch of a text is a fragment
    openers = styles.openers(text)
    gone = {number for number in range(n) if not kept[number]} - openers
    if not any(left[0] < number < left[-1] for number in gone):
        return None
    written = text.text[slice(*text.words[left[0]])]
    touched = []
    for before, number in itertools.pairwise(left):
        gap = text.text[text.words[before][1] : text.words[before + 1][0]]
        added = gap + text.text[slice(*text.words[number])]
        if number > before + 1:
            touched.append((len(written) - 1, len(written + added)))
        written += added
    share = len(gone) / max(n - len(openers), 1)
    return Damaged(written, tuple(touched), taken_of("removal", share), "removal")


def _jumbled(text: PlacedText, p: float, chance: random.Random) -> Damaged | None:
    words = text.cut(text.words)
    n = len(words)
    if n < 2:
        return None
    moving = list(range(n)) if p == P else [number for number in range(n) if chance.random() < p]
    while len(moving) < 2:
        moving = sorted({*moving, chance.randrange(n)})
    order = _shuffled(n, moving, chance)
    new = [words[number] for number in order]
    if new == words:
        return None
    parted = [later != earlier + 1 for earlier, later in itertools.pairwise(order)]
    displaced = sum(old != word for old, word in zip(words, new, strict=True))
    # a text whose two halves changed places has moved every word, and yet reads well
    share = (displaced / n + sum(parted) / (n - 1)) / 2
    return _put(text, text.words, new, [order[0] != 0, *parted], "jumble", share)


def _substituted(text: PlacedText, p: float, chance: random.Random) -> Damaged | None:
    names = text.cut(text.objects)
    folded = [name.lower() for name in names]
    if len(set(folded)) < 2:
        return None
    n = len(names)
    moving = list(range(n))
    if p != P and n > 2:
        moving = sorted(chance.sample(moving, max(2, min(n, round(p * n)))))
    for _ in range(8):
        order = _shuffled(n, moving, chance)
        changed = [folded[order[number]] != folded[number] for number in range(n)]
        if any(changed):
            new = [names[number] for number in order]
            return _put(text, text.objects, new, changed, "substitution", sum(changed) / n)
    return None


def _shuffled(n: int, moving: Sequence[int], chance: random.Random) -> list[int]:
    """The numbers below n, of which some change places at random."""
    order = list(range(n))
    for number, other in zip(moving, chance.sample(moving, len(moving)), strict=True):
        order[number] = other
    return order
