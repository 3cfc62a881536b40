"""Captions and foils of photos → how often the caption scores higher.

In: scores of captions and of foils, (n,) each, and the piece of the benchmark that each pair belongs to. Out:
accuracy per piece and over pieces, for VALSE, FOIL, nocaps foils and similar sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...statistics.bootstrap import Interval
from .accuracy import Accuracy, Sampling, Tally
from .inputs import flag_column, group_codes, label_codes, present_rows, score_column
from .pairwise_accuracy import category_names, drawn_notes, mean_value, pair_notes, pair_units
from .results import ProtocolResult, Statistic, counted, ends

# Phenomenon → its pieces, named like VALSE's files. The published table calls counting-hard "balanced",
# counting-small-quant "small numbers" and relations "spatial relations".
VALSE_PHENOMENA = {
    "existence": ("existence",),
    "plurality": ("plurals",),
    "counting": ("counting-hard", "counting-small-quant", "counting-adversarial"),
    "relations": ("relations",),
    "actions": ("action-replacement", "actant-swap"),
    "coreference": ("coreference-standard", "coreference-hard"),
    "foil-it": ("foil-it",),
}
VALSE_PIECES = tuple(piece for pieces in VALSE_PHENOMENA.values() for piece in pieces)


@dataclass(frozen=True)
class FoilAccuracy(ProtocolResult):
    """Accuracy of a metric on captions and foils.

    Attributes:
        pieces: Piece → accuracy on its valid pairs; ties are counted apart and are not wins.
        phenomena: Phenomenon → plain mean of its pieces, None if one is empty; {} except for VALSE.
        mean: Plain mean over **pieces** (11 for VALSE), each counted once whatever its size; this is the
            published average. None if a piece has no valid pair.
        mean_interval: Bootstrap interval of the mean; None if none was asked for.
        pooled: Accuracy over all valid pairs, whatever their piece; not the published average.
        n_invalid: Number of pairs left out because they are not valid.
        n_missing: Number of valid pairs left out because a score is missing.
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "foils"
    pieces: dict[str, Accuracy]
    phenomena: dict[str, float | None]
    mean: float | None
    mean_interval: Interval | None
    pooled: Accuracy
    n_invalid: int
    n_missing: int
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """Named "accuracy_<piece>", then "accuracy_mean" (over pieces), "accuracy_pooled" (over pairs)."""
        return [
            *(part.statistic(f"accuracy_{name}") for name, part in self.pieces.items()),
            Statistic("accuracy_mean", self.mean, ends(self.mean_interval), self.pooled.n),
            self.pooled.statistic("accuracy_pooled"),
        ]

    def counts(self) -> dict[str, int]:
        """Numbers of pairs, of ties, of pairs that are not valid, and of valid ones left out."""
        return {
            "pairs": self.pooled.n,
            "ties": self.pooled.ties,
            "not valid": self.n_invalid,
            "left out": self.n_missing,
        }


def foils(
    caption_scores: Any,
    foil_scores: Any,
    pieces: Any = None,
    valid: Any = None,
    *,
    known: Sequence[str] | None = None,
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> FoilAccuracy:
    """How often the caption scores strictly higher than its foil, per piece.

    Args:
        caption_scores: Scores of the true captions, (n,).
        foil_scores: Scores of their foils, (n,).
        pieces: Piece of each pair, such as the domain or the phenomenon; None puts all pairs into one, "all".
        valid: True for each pair that counts; None counts all.
        known: All pieces, in the order of the result; None takes those that occur, sorted.
        images: Image id of each pair; the bootstrap draws the pairs of one image together. None draws single
            pairs.
        bootstrap: Number of samples for the intervals; 0 makes none.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a valid pair with a missing score (NaN); "skip" leaves it out and counts it.

    Raises:
        InputError: different lengths, an unknown piece, a missing score.

    >>> foils([0.9, 0.8, 0.3], [0.2, 0.8, 0.1], ["in", "in", "out"]).table()
    [('accuracy in', 0.5, 2), ('accuracy out', 1.0, 1), ('accuracy mean', 0.75, 3),
     ('accuracy pooled', 0.666..., 3)]
    """
    sampling = Sampling(bootstrap, confidence, seed)
    captions = score_column(caption_scores, "caption_scores")
    n = len(captions)
    foiled = score_column(foil_scores, "foil_scores", n)
    names: Sequence[str]
    if pieces is None:
        codes, names = np.zeros(n, dtype=np.int64), ("all",)
    elif known is None:
        codes, found_names = group_codes(pieces, "pieces", n)
        names = [str(name) for name in found_names]
    else:
        names = category_names(known)
        codes = label_codes(pieces, "pieces", n, names)
    counts = np.full(n, True) if valid is None else flag_column(valid, "valid", n)
    # pairs that are not valid need no score
    captions, foiled = np.where(counts, captions, 0.0), np.where(counts, foiled, 0.0)
    present = present_rows(missing, caption_scores=captions, foil_scores=foiled)
    kept = counts & present
    units, drawn = pair_units(images, sampling, captions, foiled, codes)

    tally = Tally.of(captions[kept], foiled[kept], codes[kept], len(names), units[kept]).with_total()
    (*parts, pooled), mean_interval, notes = tally.accuracies(
        [*names, "all pairs"], sampling, units=drawn, n_mean=len(names)
    )
    found = dict(zip(names, parts, strict=True))
    n_invalid = int((~counts).sum())
    invalid = [f"{n_invalid:,} of {counted(n, 'pair')} left out: not valid"] if n_invalid else []
    return FoilAccuracy(
        pieces=found,
        phenomena={},
        mean=mean_value(parts),
        mean_interval=mean_interval,
        pooled=pooled,
        n_invalid=n_invalid,
        n_missing=int((~present).sum()),
        notes=(*invalid, *pair_notes(present, found), *drawn_notes(images, sampling), *notes),
    )


def valse(
    caption_scores: Any,
    foil_scores: Any,
    pieces: Any,
    valid: Any,
    *,
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> FoilAccuracy:
    """Accuracy on VALSE (Parcalabescu et al. 2022; Gomes et al. 2025, Tables 4 and 6).

    The published average is the plain mean over the 11 pieces. Rows are valid if at least two of three
    annotators chose the caption: 7,702 of the released 8,782. (Gomes et al. report 6,704 without saying how
    they selected them.)

    Args:
        caption_scores: Scores of the true captions, (n,).
        foil_scores: Scores of their foils, (n,).
        pieces: Piece of each pair, one of `VALSE_PIECES`.
        valid: True for each pair that people found valid (`mturk.caption >= 2`).
        images, bootstrap, confidence, seed, missing: As in `foils`.

    Returns:
        As `foils`, with `phenomena`: existence, plurality, counting (three pieces), relations, actions (two),
        coreference (two) and foil-it, each the plain mean of its pieces.

    Raises:
        InputError: different lengths, an unknown piece, a missing score.

    >>> result = valse([0.9] * 12, [0.1] * 11 + [0.95], [*VALSE_PIECES, "actant-swap"], [True] * 12)
    >>> result.pieces["actant-swap"].value, result.phenomena["actions"], round(result.mean, 4)
    (0.5, 0.75, 0.9545)
    """
    found = foils(
        caption_scores,
        foil_scores,
        pieces,
        valid,
        known=VALSE_PIECES,
        images=images,
        bootstrap=bootstrap,
        confidence=confidence,
        seed=seed,
        missing=missing,
    )
    phenomena = {
        phenomenon: mean_value([found.pieces[piece] for piece in parts])
        for phenomenon, parts in VALSE_PHENOMENA.items()
    }
    return replace(found, phenomena=phenomena)
