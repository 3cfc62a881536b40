"""Captions → the same captions with lexical noise: one table of all kinds.

In: captions of one language. Out: perturbed captions, and which of them are unchanged. The five kinds of
`KINDS` are Algorithm 1 of PR-MCS (Kim et al. 2023), with p = 0.4. Those of `UNSEEN_KINDS` are kinds that
PR-MCS neither trains on nor reports: they show whether a metric has learnt that something is wrong with a
caption's words, or only the five kinds of its training. `capscore.registry.register_perturbation` adds kinds
from outside. A perturbed caption depends only on the caption, the seed and the settings, never on other
captions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, islice
from numbers import Integral, Real

import numpy as np

from ..errors import CapscoreError, InputError, Setting
from ..registry import PERTURBATIONS
from ..text.languages import NAMES, language_code
from ..text.segmentation import check_texts, has_spaces, segmenter_name
from .negation import NEGATED_LANGUAGES, verb_finder
from .objects import ORDERS, Object, exchange_objects, find_nouns, find_objects, noun_finder
from .unseen import NUMBERS
from .words import caption_random, only_words, weave, words_and_gaps

KINDS = ("repetition", "removal", "masking", "jumble", "substitution")
MASK = "[MASK]"
P = 0.4  # Kim et al. 2023, section 5.2
UNSEEN_RULES = "unseen1"  # in signatures; the number grows whenever the rules for a caption change
UNSEEN_KINDS = ("neighbours", "typos", "number", "negation", "foreign", "truncation")
# Kinds with rules for these languages alone; other kinds need none.
_RULES_FOR = {"number": sorted(NUMBERS), "negation": NEGATED_LANGUAGES}


@dataclass(frozen=True)
class Perturbed:
    """Result of perturbing n captions.

    Attributes:
        captions: n perturbed captions, none empty.
        unchanged: bool (n,), True where the caption is unchanged.
        not_found: int (n,), number of critical objects given as texts that are not in their caption.
        kind: Name of the perturbation.
        language: Primary subtag, or None if no language was stated.
        settings: Settings that the result depends on, for signatures.
    """

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

    Raises:
        InputError: an unknown name.

    >>> chosen_kinds(["typos", "paper"])
    ('typos', 'repetition', 'removal', 'masking', 'jumble', 'substitution')
    """
    sets = {"paper": KINDS, "unseen": UNSEEN_KINDS, "all": all_kinds()}
    kinds = tuple(dict.fromkeys(kind for name in names for kind in sets.get(name, (name,))))
    unknown = [kind for kind in kinds if kind not in sets["all"]]
    if unknown or not kinds:
        raise InputError(Setting("kind", unknown), f": expected {', '.join([*sets['all'], *sets])}")
    return kinds


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

    Published (Kim et al. 2023, section 5.2 and Algorithm 1): repetition, removal and masking draw words, each
    with probability p, but always at least one and, of two or more words, never all; all three draw the same
    words of a caption. Repetition writes a drawn word twice, and masking replaces it by `[MASK]`. Removal
    keeps the drawn words and drops the others, as in the published code and figures (the paper's text says
    the opposite). Jumble reorders all words. Substitution puts the critical objects of a caption into any
    order that differs, so that some of three or more objects may stay in place; with `order="every"`, every
    object leaves its place.

    Unseen: neighbours exchanges two adjacent words. typos exchanges, drops or doubles letters of one word (of
    two, in captions of eight or more words). number replaces a number by another one. negation adds a "not".
    foreign replaces a word by one of another language. truncation cuts off the last 30 to 50 percent.

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

    Raises:
        CapscoreError: an unknown kind or setting, p outside 0 to 1, or objects for another kind.
        InputError: a caption is not a string or is blank, or an object is neither a text nor a place in its
            caption (the error names the row); the numbers of objects and captions differ; the kind has no
            rules for the language, or no words can be found in it.
        MissingExtraError: the language's segmenter, or its tagger, is not installed.

    >>> perturb(["a dog runs on the beach"], "masking", "en", seed=1).captions
    ['a [MASK] runs on the beach']
    >>> perturb(["a dog on a beach"], "substitution", "en", objects=[["dog", "beach"]]).captions
    ['a beach on a dog']
    >>> perturb(["two dogs run on the beach"], "number", "en").captions
    ['six dogs run on the beach']
    >>> perturb(["Ein Hund läuft."], "negation", "de").captions
    ['Kein Hund läuft.']
    """
    check_kind(kind, all_kinds())
    check_draws(p, seed, order)
    if objects is not None and kind != "substitution":
        raise CapscoreError(Setting("objects"), f" are for substitution; {kind} takes none")
    code = None if language is None else language_code(language)
    check_captions(captions)
    not_found = np.zeros(len(captions), dtype=np.int64)
    settings: dict[str, object] = {"seed": int(seed)}
    drawing = "draw" if kind in ("repetition", "removal", "masking") else kind
    draws = (caption_random(int(seed), drawing, caption) for caption in captions)
    if kind == "substitution":
        settings |= {"objects": noun_finder(code) if objects is None else "given", "order": order}
        found, not_found = find_objects(captions, find_nouns(captions, code) if objects is None else objects)
        texts = [exchange_objects(*row, order)[0] for row in zip(captions, found, draws, strict=True)]
    else:
        change: Callable[..., str] = PERTURBATIONS.get(kind)
        if kind in UNSEEN_KINDS:
            settings |= _unseen_settings(kind, code)
        elif kind in KINDS:
            settings["words"] = word_finder(code)
        if drawing == "draw":
            settings |= {"p": float(p), "draws": "shared"}
            change = partial(change, p=p)
        if kind == "removal":
            settings["removal"] = "keep"
        texts = [change(caption, code or "en", rng) for caption, rng in zip(captions, draws, strict=True)]
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return Perturbed(texts, unchanged, not_found, kind, code, settings)


def has_rules(kind: str, language: str | None = None) -> bool:
    """Whether a kind has rules for a language.

    >>> has_rules("negation", "ja"), has_rules("negation", "sw"), has_rules("typos", "sw")
    (True, False, True)
    """
    code = "en" if language is None else language_code(language)
    return kind not in _RULES_FOR or code in _RULES_FOR[kind]


def check_kind(kind: str, known: Sequence[str]) -> None:
    """Raise CapscoreError unless a perturbation is a known one."""
    if kind not in known:
        raise CapscoreError(f"perturbation {kind!r} is not one of {', '.join(known)}")


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


def word_finder(language: str | None = None) -> str:
    """Name, for signatures, of what finds the words of a language: white space ("blanks") or its segmenter.

    Raises:
        InputError, MissingExtraError: see `capscore.text.segmentation.segmenter_name`.

    >>> word_finder("de"), word_finder("ko")
    ('blanks', 'blanks')
    """
    return "blanks" if has_spaces(language) else segmenter_name(language)


def change_words(kind: str, words: list[str], gaps: list[str], drawn: list[bool], between: str) -> str:
    """The caption with its drawn words repeated, masked or, as published for removal, kept alone."""
    if kind == "removal":
        return only_words(words, gaps, drawn)
    return weave(
        [
            word if not is_drawn else MASK if kind == "masking" else f"{word}{between}{word}"
            for word, is_drawn in zip(words, drawn, strict=True)
        ],
        gaps,
    )


def repeat_words(caption: str, language: str, rng: random.Random, p: float = P) -> str:
    """The caption with the drawn words written twice."""
    return _with_drawn("repetition", caption, language, rng, p)


def remove_words(caption: str, language: str, rng: random.Random, p: float = P) -> str:
    """The drawn words of the caption, as published."""
    return _with_drawn("removal", caption, language, rng, p)


def mask_words(caption: str, language: str, rng: random.Random, p: float = P) -> str:
    """The caption with `[MASK]` in place of the drawn words."""
    return _with_drawn("masking", caption, language, rng, p)


def jumble_words(caption: str, language: str, rng: random.Random) -> str:
    """The caption with its words in another order."""
    return _jumble(*words_and_gaps(caption, language), rng)


def exchange_nouns(caption: str, language: str, rng: random.Random) -> str:
    """The caption with its nouns in another order."""
    return exchange_objects(caption, find_nouns([caption], language)[0], rng)[0]


def _with_drawn(kind: str, caption: str, language: str, rng: random.Random, p: float) -> str:
    words, gaps = words_and_gaps(caption, language)
    between = " " if has_spaces(language) else ""
    return change_words(kind, words, gaps, _draw(len(words), p, rng), between)


def _unseen_settings(kind: str, code: str | None) -> dict[str, object]:
    if not has_rules(kind, code):
        language = f"{NAMES[code][1]} ({code!r})" if code in NAMES else repr(code)
        raise InputError(
            f"there are no rules for {kind!r} in {language}; expected one of {', '.join(_RULES_FOR[kind])}",
            field="language",
        )
    settings: dict[str, object] = {"rules": UNSEEN_RULES}
    if kind in ("neighbours", "typos", "foreign", "truncation"):
        settings["words"] = word_finder(code)
    verbs = verb_finder(code or "en") if kind == "negation" else None
    return settings | ({"verbs": verbs} if verbs else {})


def _draw(n: int, p: float, rng: random.Random) -> list[bool]:
    """Draw words: at least one and, of two or more, never all."""
    draws = [rng.random() for _ in range(n)]
    drawn = [draw < p for draw in draws]
    if not any(drawn):
        drawn[draws.index(min(draws))] = True
    elif n > 1 and all(drawn):
        drawn[draws.index(max(draws))] = False
    return drawn


def _jumble(words: list[str], gaps: list[str], rng: random.Random) -> str:
    caption, text = weave(words, gaps), weave(rng.sample(words, len(words)), gaps)
    if text == caption and len(set(words)) > 1:
        pairs = combinations(rng.sample(range(len(words)), len(words)), 2)
        # 1,000 are more than enough, except for thousands of words such as ha, haha without spaces
        for a, b in islice((pair for pair in pairs if words[pair[0]] != words[pair[1]]), 1000):
            order = words.copy()
            order[a], order[b] = order[b], order[a]
            text = weave(order, gaps)
            if text != caption:
                break
    return text
