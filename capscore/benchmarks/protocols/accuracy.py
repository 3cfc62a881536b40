"""How often scores are in the order that people give: pairs of captions, foils, entailment, pairs of photos.

A tie is never a win; ties are counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from ...errors import InputError
from ...options import Sampling
from ...statistics.bootstrap import NO_INTERVALS
from ...statistics.columns import (
    Column,
    flag_column,
    group_codes,
    label_codes,
    left_out,
    number_column,
    present_rows,
    units_of,
)
from ...tables import counted
from .results import ProtocolResult, Statistic, estimates, plain_mean

# two correct human captions; two human captions, one of another photo; human and machine; two machines
PASCAL50S_CATEGORIES = ("HC", "HI", "HM", "MM")
# Phenomenon → its pieces, named like VALSE's files (Parcalabescu et al. 2022). The published table calls
# counting-hard "balanced", counting-small-quant "small numbers" and relations "spatial relations".
VALSE_PHENOMENA = {
    "existence": ("existence",),
    "plurality": ("plurals",),
    "counting": ("counting-hard", "counting-small-quant", "counting-adversarial"),
    "relations": ("relations",),
    "actions": ("action-replacement", "actant-swap"),
    "coreference": ("coreference-standard", "coreference-hard"),
    "foil-it": ("foil-it",),
}
VALSE_PIECES = tuple(chain.from_iterable(VALSE_PHENOMENA.values()))
XVNLI_LABELS = ("entailment", "neutral", "contradiction")
_EXPERIMENTS = {f"experiment_{number}": f"accuracy_{number}" for number in (1, 2, 3)}
# the label in SNLI and its descendants where annotators did not agree
UNLABELLED = "-"


def pairwise_by_category(
    first: Column,
    second: Column,
    labels: Column,
    categories: Column,
    *,
    images: Column | None = None,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> ProtocolResult:
    """How often the preferred caption scores strictly higher, per category (Hu et al. 2023, §4.2, Table 1).

    Published tables break ties of the human votes at random, so labels must be frozen to be comparable. The
    published figures also depend on the choice of five references for metrics that use references.

    Args:
        first, second: Scores of the first and of the second captions, (n,) each.
        labels: 0 where people prefer the first, 1 where they prefer the second.
        categories: Category of each pair, one of `PASCAL50S_CATEGORIES`.
        images, sampling, missing: See `capscore.benchmarks.protocols`.

    Returns:
        "accuracy_<category>", then "accuracy_mean": the plain mean of categories, None if one has no pair.
        Details: "ties", statistic → number of pairs whose scores are equal.

    >>> result = pairwise_by_category(
    ...     [0.9, 0.2, 0.3, 0.8, 0.5], [0.1, 0.7, 0.2, 0.9, 0.5], [0, 0, 0, 1, 1],
    ...     ["HC", "HC", "HI", "HM", "MM"],
    ... )
    >>> result.table()
    [('accuracy hc', 0.5, 2), ('accuracy hi', 1.0, 1), ('accuracy hm', 1.0, 1), ('accuracy mm', 0.0, 1),
     ('accuracy mean', 0.625, 5)]
    >>> result.notes
    ('1 tie of scores in MM, not counted as a win',)
    """
    item = number_column(first, "first")
    n = len(item)
    other = number_column(second, "second", n)
    label = label_codes(labels, "labels", n, (0, 1))
    codes = label_codes(categories, "categories", n, PASCAL50S_CATEGORIES)
    present = present_rows(missing, {"first": item, "second": other})
    better, worse = np.where(label == 0, (item, other), (other, item))
    names = {name: f"accuracy_{name.lower()}" for name in PASCAL50S_CATEGORIES}
    rows, ties, notes = _pairs(better, worse, codes, names, present, images, sampling)
    return ProtocolResult(
        tuple(rows[:-1]),
        {"pairs": rows[-1].n, "ties": ties[rows[-1].name], "left out": int((~present).sum())},
        (*left_out(present, "pairs"), *notes),
        {"ties": ties},
    )


def foils(
    caption_scores: Column,
    foil_scores: Column,
    pieces: Column | None = None,
    valid: Column | None = None,
    *,
    images: Column | None = None,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> ProtocolResult:
    """How often the caption scores strictly higher than its foil, per piece.

    VALSE (Gomes et al. 2025, Tables 4 and 6) has 11 pieces, `VALSE_PIECES`. A pair is valid if at least
    two of three annotators chose the caption (`mturk.caption >= 2`): 7,702 of the released 8,782. (Gomes et
    al. report 6,704 without saying how they selected them.)

    Args:
        caption_scores, foil_scores: Scores of the true captions and of their foils, (n,) each.
        pieces: Piece of each pair, such as the domain or the phenomenon; None puts all pairs into one, "all".
        valid: True for each pair that counts; None counts all.
        images, sampling, missing: See `capscore.benchmarks.protocols`; pairs that are not valid need no
            score.

    Returns:
        "accuracy_<piece>", sorted, or in VALSE's order; then "accuracy_mean" (the plain mean of the pieces,
        as published; None if one has no valid pair) and "accuracy_pooled" (over all valid pairs). Details:
        "ties", as in `pairwise_by_category`; of VALSE also "phenomena", the plain mean of each one's pieces.

    >>> foils([0.9, 0.8, 0.3], [0.2, 0.8, 0.1], ["in", "in", "out"]).table()
    [('accuracy in', 0.5, 2), ('accuracy out', 1.0, 1), ('accuracy mean', 0.75, 3),
     ('accuracy pooled', 0.666..., 3)]
    """
    captions = number_column(caption_scores, "caption_scores")
    n = len(captions)
    foiled = number_column(foil_scores, "foil_scores", n)
    if pieces is None:
        pieces = ["all"] * n
    if valid is None:
        valid = [True] * n
    codes, known = group_codes(pieces, "pieces", n)
    phenomena: dict[str, tuple[str, ...]] = {}
    if set(known) == set(VALSE_PIECES):
        phenomena = VALSE_PHENOMENA
        codes, known = np.array([VALSE_PIECES.index(piece) for piece in known])[codes], [*VALSE_PIECES]
    counts = flag_column(valid, "valid", n)
    captions, foiled = np.where(counts, captions, 0.0), np.where(counts, foiled, 0.0)
    present = present_rows(missing, {"caption_scores": captions, "foil_scores": foiled})
    names = {name: f"accuracy_{name}" for name in known}
    rows, ties, notes = _pairs(captions, foiled, codes, names, counts & present, images, sampling)
    shares = dict(zip(known, [row.value for row in rows], strict=False))
    means = {}
    for phenomenon, of in phenomena.items():
        means[phenomenon] = plain_mean([shares[piece] for piece in of])
    n_invalid, n_missing = int((~counts).sum()), int((~present).sum())
    return ProtocolResult(
        tuple(rows),
        {"pairs": rows[-1].n, "ties": ties[rows[-1].name], "not valid": n_invalid, "left out": n_missing},
        (*left_out(counts, "pairs", "not valid"), *left_out(present, "pairs"), *notes),
        {"phenomena": means, "ties": ties},
    )


def xvnli(
    scores: Column,
    labels: Column,
    image_ids: Column,
    *,
    premise_ids: Column | None = None,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> ProtocolResult:
    """The three XVNLI experiments (Gomes et al. 2025, §4.3.3, App. E.1, Table 5).

    The paper compares captions "with the same image": 442 pairs, 1,259 pairs and 511 triples per language.
    The digits of its table fit another unit: captions written for the same premise, one of an image's five
    Flickr30k captions (`captionID` in the files), which gives 377, 1,057 and 304. Of all numbers of pairs
    below 623, only 377 gives every figure of Accuracy 1 to its digit, and of all numbers of triples below
    608, only 304 does so for Accuracy 3. To compare with the table, pass `premise_ids` too. Random scores win
    half of the pairs and a sixth of the triples.

    Args:
        scores: Score of each caption (`sentence2` in the files) with its image, (n,).
        labels: "entailment", "neutral", "contradiction", or "-" where annotators did not agree.
        image_ids: Image id of each caption (`Flikr30kID` in the files); the bootstrap draws images.
        premise_ids: Premise id of each caption (`captionID` in the files); only captions with the same
            premise and image are then compared.
        sampling, missing: See `capscore.benchmarks.protocols`.

    Returns:
        "accuracy_1" (pairs of an entailed and a contradicted caption), "accuracy_2" (all pairs of different
        labels, won if entailment > neutral > contradiction holds) and "accuracy_3" (triples with one caption
        per label, tied if only equal scores prevent a win). Details: "ties", as in `pairwise_by_category`.

    >>> result = xvnli(
    ...     [0.9, 0.5, 0.5, 0.1],
    ...     ["entailment", "neutral", "contradiction", "contradiction"],
    ...     ["a", "a", "a", "a"],
    ... )
    >>> result.table()
    [('accuracy 1', 1.0, 2), ('accuracy 2', 0.8, 5), ('accuracy 3', 0.5, 2)]
    """
    values = number_column(scores, "scores")
    n = len(values)
    label = label_codes(labels, "labels", n, (*XVNLI_LABELS, UNLABELLED))
    group = image = group_codes(image_ids, "image_ids", n)[0]
    if premise_ids is not None:
        premise = group_codes(premise_ids, "premise_ids", n)[0]
        _, group = np.unique(image * n + premise, return_inverse=True)
    labelled = label < len(XVNLI_LABELS)
    present = present_rows(missing, {"scores": np.where(labelled, values, 0)})
    kept = labelled & present
    by_label = np.bincount(group[labelled] * 3 + label[labelled], minlength=3 * (int(group.max()) + 1))
    by_label = by_label.reshape(-1, 3)
    e, u, c = by_label.T
    total = int((2 * e * c + e * u + u * c + e * u * c).sum())
    numbers = _xvnli_comparisons(values[kept], label[kept], group[kept], image[kept])
    rows, ties, notes = _accuracies(numbers, _EXPERIMENTS, "image", sampling)
    compared = sum(row.n for row in rows)
    return ProtocolResult(
        tuple(rows),
        {
            "captions": n,
            "without label": int((~labelled).sum()),
            "images" if premise_ids is None else "premises": int(((by_label > 0).sum(axis=1) > 1).sum()),
            "comparisons": compared,
            "left out": total - compared,
        },
        (*left_out(labelled, "captions", "no label"), *left_out(present, "captions"), *notes),
        {"ties": ties},
    )


def marvl(
    left_scores: Column,
    right_scores: Column,
    labels: Column,
    captions: Column,
    ids: Column,
    *,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> ProtocolResult:
    """The two MaRVL experiments (Gomes et al. 2025, §4.3.3, App. E.2, Table 5).

    A group is the four rows of a caption, two of them true. The released files also have captions with
    another number of true rows, with fewer rows, or with the rows of several groups. The digits of the
    published table fit the groups that remain without every caption that lacks exactly two true and two false
    rows: id 282, sw 268, ta 289, tr 293, zh 251. Random scores win 5/6 of the pairs and 41/70 of the groups.

    Args:
        left_scores, right_scores: Scores of the caption with the left and with the right photo, (n,) each.
        labels: True where the caption is true of the pair of photos.
        captions: Text of each row, or any value shared by the rows of one caption.
        ids: Unique id of each row, such as "sw-17".
        sampling, missing: See `capscore.benchmarks.protocols`; groups are drawn.

    Returns:
        "accuracy_1": share of pairs of a true and a false row of one group (four per group) in which the
        higher score of the true row's photos is above the lower score of the false row's. "accuracy_2": share
        of groups in which that holds for all four. Details: "ties", as in `pairwise_by_category`.

    >>> result = marvl(
    ...     [0.9, 0.2, 0.4, 0.8, 0.5],
    ...     [0.1, 0.7, 0.3, 0.75, 0.5],
    ...     [True, True, False, False, True],
    ...     ["ein Hund", "ein Hund", "ein Hund", "ein Hund", "eine Katze"],
    ...     ["de-0", "de-1", "de-2", "de-3", "de-4"],
    ... )
    >>> result.table(), result.counts["irregular groups"]
    ([('accuracy 1', 0.75, 4), ('accuracy 2', 0.0, 1)], 1)
    """
    left = number_column(left_scores, "left_scores")
    n = len(left)
    right = number_column(right_scores, "right_scores", n)
    label = flag_column(labels, "labels", n)
    group = group_codes(captions, "captions", n)[0]
    codes, names = group_codes(ids, "ids", n)
    if len(names) < n:
        twice = int((np.bincount(codes) > 1).argmax())
        raise InputError(f"the id {names[twice]!r} occurs twice", field="ids")
    present = present_rows(missing, {"left_scores": left, "right_scores": right})
    n_true = np.bincount(group, weights=label).astype(np.int64)
    n_false = np.bincount(group) - n_true
    regular = (n_true == 2) & (n_false == 2)

    by_label = np.lexsort((label, group))  # false, false, true, true
    fours = by_label[regular[group[by_label]]].reshape(-1, 4)
    best, worst = np.maximum(left, right)[fours[:, 2:]], np.minimum(left, right)[fours[:, :2]]
    better, worse = np.broadcast_arrays(best[:, :, None], worst[:, None, :])
    numbers = _marvl_comparisons(better.reshape(-1, 4), worse.reshape(-1, 4))
    rows, ties, notes = _accuracies(numbers, dict([*_EXPERIMENTS.items()][:2]), "group", sampling)
    n_irregular = int((~regular).sum())
    if n_irregular:
        what = counted(n_irregular, "group")
        notes.insert(0, f"{what} left out: not two true and two false rows")
    lost = 5 * len(fours) - sum(row.n for row in rows)
    return ProtocolResult(
        tuple(rows),
        {"rows": n, "groups": len(fours), "irregular groups": n_irregular, "left out": lost},
        (*left_out(present, "rows"), *notes),
        {"ties": ties},
    )


# ---- shares of wins ----


def _accuracies(
    numbers: np.ndarray, names: Mapping[str, str], unit: str, sampling: Sampling, n_mean: int = 0
) -> tuple[list[Statistic], dict[str, int], list[str]]:
    """Numbers of comparisons, wins and ties, (3, units, categories) → a row per category (`names`: what notes
    call it → name of its row), and one of the mean of the first `n_mean` if any; ties by row; notes."""
    n_of, wins_of = (part.T.astype(np.float64) for part in numbers[:2])

    def shares(drawn: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            values = (wins_of @ drawn) / (n_of @ drawn)  # NaN if a sample lacks a category
        if n_mean:
            values = np.vstack([values, values[:n_mean].mean(axis=0)])
        return values

    labels = list(names)
    if n_mean:
        labels.append("the mean")
    size = {"n_units": numbers.shape[1], "n_rows": numbers[0].size}
    found, notes = estimates(shares, labels, unit=unit, sampling=sampling, **size)
    rows, ties = [], {}
    for (label, name), (n, _, tied) in zip(names.items(), numbers.sum(axis=1).T.tolist(), strict=True):
        rows.append(Statistic(name, *found[label], n))
        ties[name] = tied
        if not n:
            notes.append(f"{label} has nothing to compare: no accuracy, and no mean over all")
        if tied and label != _POOLED:
            notes.append(f"{counted(tied, 'tie')} of scores in {label}, not counted as a win")
    if n_mean:
        rows.append(Statistic("accuracy_mean", *found["the mean"], rows[-1].n))
    return rows, ties, notes


# all categories together
_POOLED = "all pairs"


def _pairs(
    better: np.ndarray,
    worse: np.ndarray,
    codes: np.ndarray,
    names: Mapping[str, str],
    kept: np.ndarray,
    images: Any,
    sampling: Sampling,
) -> tuple[list[Statistic], dict[str, int], list[str]]:
    """n pairs of scores by category → a row per category, their mean, and all pairs; ties by row; notes."""
    units, unit = units_of(images, kept, "pair", worse, better, codes)
    shape = (int(units.max(initial=-1)) + 1, len(names))
    cells, better, worse = units * len(names) + codes[kept], better[kept], worse[kept]
    won, tied = cells[better > worse], cells[better == worse]
    counts = [np.bincount(part, minlength=shape[0] * shape[1]).reshape(shape) for part in (cells, won, tied)]
    numbers = np.stack([np.hstack([part, part.sum(axis=1, keepdims=True)]) for part in counts])
    pooled = {_POOLED: "accuracy_pooled"}
    rows, ties, notes = _accuracies(numbers, {**names, **pooled}, unit, sampling, n_mean=len(names))
    return [*rows[:-2], rows[-1], rows[-2]], ties, notes


# ---- comparisons of XVNLI and MaRVL ----


def _xvnli_comparisons(
    values: np.ndarray, label: np.ndarray, group: np.ndarray, image: np.ndarray
) -> np.ndarray:
    """Numbers of comparisons within groups, of wins and of ties: int64 (3, images, experiments)."""
    entailed, neutral, contradicted = (np.flatnonzero(label == code) for code in range(3))
    upper = _pairs_within(entailed, neutral, group)
    lower = _pairs_within(neutral, contradicted, group)
    outer = _pairs_within(entailed, contradicted, group)
    n_images = int(image.max(initial=-1)) + 1

    def by_image(holds: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Numbers per image where the relation holds between better and worse."""
        pairs = [
            np.bincount(image[left], weights=holds(values[left], values[right]), minlength=n_images)
            for left, right in (outer, upper, lower)
        ]
        # a triple in order is a neutral caption with an entailed one above and a contradicted one below
        above = np.bincount(upper[1], weights=holds(*values[list(upper)]), minlength=len(values))
        below = np.bincount(lower[0], weights=holds(*values[list(lower)]), minlength=len(values))
        triples = np.bincount(image, weights=above * below, minlength=n_images)
        return np.stack([pairs[0], sum(pairs), triples], axis=1).astype(np.int64)

    wins = by_image(np.greater)
    every = by_image(lambda better, worse: np.ones(len(better)))
    return np.stack([every, wins, by_image(np.greater_equal) - wins])


def _pairs_within(left: np.ndarray, right: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a left and a right row of the same group."""
    left = left[np.argsort(group[left], kind="stable")]
    right = right[np.argsort(group[right], kind="stable")]
    start = np.searchsorted(group[right], group[left], side="left")
    partners = np.searchsorted(group[right], group[left], side="right") - start
    offset = np.cumsum(partners) - partners
    within = np.arange(partners.sum()) - np.repeat(offset, partners)
    return np.repeat(left, partners), right[np.repeat(start, partners) + within]


def _marvl_comparisons(better: np.ndarray, worse: np.ndarray) -> np.ndarray:
    """Four pairs of scores per group, (groups, 4) → numbers of comparisons, wins, ties: (3, groups, 2)."""
    scored = ~np.isnan(better) & ~np.isnan(worse)
    won, tied = better > worse, better == worse
    won_all = won.all(axis=1)
    # a group is tied if only equal scores prevent the win
    tied_all = (won | tied).all(axis=1) & ~won_all
    pairs = [part.sum(axis=1) for part in (scored, won, tied)]
    groups = [scored.all(axis=1), won_all, tied_all]
    return np.stack([np.stack(pairs), np.stack(groups)], axis=2).astype(np.int64)
