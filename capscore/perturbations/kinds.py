"""Captions → the same captions with lexical noise: one record of each kind.

`KINDS` are Algorithm 1 of PR-MCS (Kim et al. 2023), with p = 0.4; `UNSEEN_KINDS` are others, which PR-MCS is
not trained on. A perturbed caption depends only on the caption, the seed and the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

import numpy as np

from ..errors import CapscoreError, InputError, Setting
from ..registry import PERTURBATIONS
from ..text.languages import NAMES, language_code, stated_code
from ..text.segmentation import check_texts, has_spaces, segmenter_name
from . import negation, published, unseen
from .objects import ORDERS, Object, find_nouns, find_objects, noun_finder
from .rules import languages_with
from .words import Span, caption_random, words_and_gaps

P = 0.4  # Kim et al. 2023, section 5.2


def word_finder(language: str | None = None) -> str:
    """What finds the words of a language, for signatures: white space ("blanks") or its segmenter."""
    if has_spaces(language):
        return "blanks"
    return segmenter_name(language)


@dataclass(frozen=True)
class Kind:
    """A kind of perturbation.

    Attributes:
        change: Function (caption, language code, rng) → caption, whose docstring begins with what it does; of
            a kind that `draws_words`, (words, gaps, drawn, language code) → caption; of one that
            `takes_objects`, (caption, places, rng, order) → caption.
        title: Heading in narrow tables; "" for the name.
        languages: Codes of the languages that it has rules for; None for all.
        finders: Setting for signatures → function that names what finds the words or verbs of a language.
        settings: Further settings for signatures; the version in "rules" grows whenever they change.
        draws_words: Whether it draws words with probability p; all such kinds draw the same ones.
        takes_objects: Whether it exchanges critical objects.
    """

    name: str
    change: Callable[..., str]
    title: str = ""
    languages: Sequence[str] | None = None
    finders: Mapping[str, Callable[[str | None], str]] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    draws_words: bool = False
    takes_objects: bool = False

    def has_rules(self, language: str | None) -> bool:
        """Whether it has rules for a language."""
        return self.languages is None or stated_code(language) in self.languages

    def signature(self, code: str | None, seed: int, p: float) -> dict[str, object]:
        """Settings for signatures, without those of the objects."""
        found: dict[str, object] = {"seed": int(seed)}
        if self.draws_words:
            found |= {"words": word_finder(code), "p": float(p), "draws": "shared"}
        found |= self.settings
        found |= {name: finder(code) for name, finder in self.finders.items()}
        return {name: value for name, value in found.items() if value != ""}


REPETITION = Kind("repetition", published.repeat, "repeat", draws_words=True)
REMOVAL = Kind("removal", published.keep, settings={"removal": "keep"}, draws_words=True)
MASKING = Kind("masking", published.mask, "mask", draws_words=True)
JUMBLE = Kind("jumble", published.jumble, finders={"words": word_finder})
SUBSTITUTION = Kind("substitution", published.substitute, "subst.", takes_objects=True)

_UNSEEN_RULES, _WORDS = {"rules": "unseen1"}, {"words": word_finder}
NEIGHBOURS = Kind("neighbours", unseen.swap_neighbours, "neighb.", settings=_UNSEEN_RULES, finders=_WORDS)
TYPOS = Kind("typos", unseen.mistype, settings=_UNSEEN_RULES, finders=_WORDS)
NUMBER = Kind("number", unseen.change_number, languages=languages_with("numbers"), settings=_UNSEEN_RULES)
NEGATION = Kind(
    "negation",
    negation.negate,
    "negat.",
    languages=negation.LANGUAGES,
    settings={"rules": "unseen2"},
    finders={"verbs": negation.verb_finder},
)
FOREIGN = Kind("foreign", unseen.replace_by_foreign_word, settings=_UNSEEN_RULES, finders=_WORDS)
TRUNCATION = Kind("truncation", unseen.truncate, "trunc.", settings=_UNSEEN_RULES, finders=_WORDS)

_PUBLISHED = (REPETITION, REMOVAL, MASKING, JUMBLE, SUBSTITUTION)
_UNSEEN = (NEIGHBOURS, TYPOS, NUMBER, NEGATION, FOREIGN, TRUNCATION)
KINDS = tuple(kind.name for kind in _PUBLISHED)
UNSEEN_KINDS = tuple(kind.name for kind in _UNSEEN)


@dataclass(frozen=True)
class Perturbed:
    """Result of perturbing n captions."""

    captions: list[str]
    unchanged: np.ndarray = field(repr=False)
    not_found: np.ndarray = field(repr=False)
    kind: str
    language: str | None
    settings: dict[str, object]


def all_kinds() -> tuple[str, ...]:
    """Names of all perturbations: the published five, the unseen ones, and those registered from outside."""
    return tuple(PERTURBATIONS.names())


def chosen_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Perturbations, given by name or as the sets "paper", "unseen" and "all", each once.

    >>> chosen_kinds(["typos", "paper"])
    ('typos', 'repetition', 'removal', 'masking', 'jumble', 'substitution')
    """
    sets = {"paper": KINDS, "unseen": UNSEEN_KINDS, "all": all_kinds()}
    kinds: dict[str, None] = {}
    for name in names:
        kinds |= dict.fromkeys(sets.get(name, (name,)))
    unknown = [kind for kind in kinds if kind not in sets["all"]]
    if unknown or not kinds:
        raise InputError(Setting("kind", unknown), f": expected {', '.join([*sets['all'], *sets])}")
    return tuple(kinds)


def perturb(
    captions: Sequence[str],
    kind: str,
    language: str | None = None,
    *,
    p: float = P,
    seed: int = 0,
    objects: Sequence[Sequence[Object]] | None = None,
    order: str = "published",
) -> Perturbed:
    """Perturb captions.

    Repetition, removal and masking draw the same words of a caption, each with probability p (Kim et al.
    2023, section 5.2 and Algorithm 1), but always at least one and, of two or more words, never all.

    Words are separated by white space; in Japanese, Chinese and Thai the segmenter finds them. White space
    stays in place, so a caption differs only by its perturbation. A caption that offers nothing to perturb is
    unchanged.

    Args:
        captions: n texts in one language.
        kind: One of `all_kinds()`.
        language: Language code (see `capscore.text.languages.language_code`); None for English.
        p: Probability of drawing a word, from 0 to 1.
        seed: Whole number that seeds the draws.
        objects: Critical objects of each caption for substitution, as texts or as (start, end) places in it
            (see `find_objects`); None for the caption's nouns (`find_nouns`). An object that is not in the
            caption is left out and counted.
        order: Order of the objects in a substitution: "published", or "every" to move all of them.

    >>> perturb(["a dog runs on the beach"], "masking", "en", seed=1).captions
    ['a [MASK] runs on the beach']
    >>> perturb(["a dog on a beach"], "substitution", "en", objects=[["dog", "beach"]]).captions
    ['a beach on a dog']
    >>> perturb(["two dogs run on the beach"], "number", "en").captions
    ['six dogs run on the beach']
    >>> perturb(["Ein Hund läuft."], "negation", "de").captions
    ['Kein Hund läuft.']
    """
    record = kind_of(kind)
    check_draws(p, seed, order)
    if objects is not None and not record.takes_objects:
        raise CapscoreError(Setting("objects"), f" are for substitution; {kind} takes none")
    code = None if language is None else language_code(language)
    check_captions(captions)
    if not record.has_rules(code):
        name, expected = code or "en", ", ".join(record.languages or ())
        language = f"{NAMES[name][1]} ({name!r})" if name in NAMES else repr(name)
        problem = f"there are no rules for {kind!r} in {language}; expected one of {expected}"
        raise InputError(problem, field="language")
    settings = record.signature(code, seed, p)
    places: Sequence[Sequence[Span]] = []
    not_found = np.zeros(len(captions), dtype=np.int64)
    if record.takes_objects:
        settings |= {"objects": "given", "order": order}
        if objects is None:
            settings["objects"] = noun_finder(code)
            objects = find_nouns(captions, code)
        places, not_found = find_objects(captions, objects)
    texts = []
    for row, caption in enumerate(captions):
        rng = caption_random(int(seed), "draw" if record.draws_words else kind, caption)
        if record.draws_words:
            words, gaps = words_and_gaps(caption, code)
            texts.append(record.change(words, gaps, published.draw_words(words, p, rng), code))
        elif record.takes_objects:
            texts.append(record.change(caption, places[row], rng, order))
        else:
            texts.append(record.change(caption, code or "en", rng))
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return Perturbed(texts, unchanged, not_found, kind, code, settings)


def kind_of(name: str) -> Kind:
    """The record of a kind; for a function from outside, a record with its name."""
    entry = PERTURBATIONS.get(name)
    if isinstance(entry, Kind):
        return entry
    return Kind(name, entry)


def check_captions(captions: Sequence[str]) -> None:
    """Raise InputError, with the row, unless all captions are texts with something to perturb."""
    check_texts(captions, "caption")
    for row, caption in enumerate(captions):
        if not caption.replace("\0", " ").strip():
            raise InputError("the caption is blank: there is nothing to perturb", row=row, field="caption")


def check_draws(p: float, seed: int, order: str) -> None:
    """Raise InputError unless settings of `perturb` have values that it takes."""
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= p <= 1:
        raise InputError(Setting("p", p), ": expected a probability from 0 to 1")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise InputError(Setting("seed", seed), ": expected a whole number")
    if order not in ORDERS:
        raise InputError(Setting("order", order), f": expected one of {', '.join(ORDERS)}")
