"""Captions that are true of two pairs of photos and false of two others → how often scores separate them.

In: scores for the left and the right photo of each row, whether the caption is true of the pair, the caption
and the row's id. Out: the two MaRVL experiments, and the groups that lack two rows of each label.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import InputError, Setting
from .accuracy import Accuracy, Sampling, Tally
from .inputs import flag_column, group_codes, present_rows, score_column
from .results import ProtocolResult, Statistic, counted


@dataclass(frozen=True)
class IrregularGroup:
    """Rows of one caption that are not two true and two false ones.

    Attributes:
        ids: Ids of the rows, in order.
        n_true, n_false: Numbers of rows by label.
    """

    ids: tuple[str | int, ...]
    n_true: int
    n_false: int


@dataclass(frozen=True)
class MarvlAccuracy(ProtocolResult):
    """Accuracy of a metric on MaRVL, in one language.

    Attributes:
        experiment_1: Accuracy on pairs of a true and a false row of one group (four per group); won if the
            higher score of the true row's photos is above the lower score of the false row's.
        experiment_2: Accuracy on groups; won if that holds for all four pairs.
        n_rows: Number of rows, those of irregular groups included.
        n_groups: Number of groups of two true and two false rows.
        irregular: Other groups; they take no part.
        n_missing: Numbers of pairs and of groups left out because a score is missing.
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "marvl"
    experiment_1: Accuracy
    experiment_2: Accuracy
    n_rows: int
    n_groups: int
    irregular: tuple[IrregularGroup, ...]
    n_missing: tuple[int, int]
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """Named "accuracy_1" (pairs) and "accuracy_2" (groups), as in the published table."""
        return [self.experiment_1.statistic("accuracy_1"), self.experiment_2.statistic("accuracy_2")]

    def counts(self) -> dict[str, int]:
        """Numbers of rows, groups, irregular groups, and comparisons left out."""
        return {
            "rows": self.n_rows,
            "groups": self.n_groups,
            "irregular groups": len(self.irregular),
            "left out": sum(self.n_missing),
        }


def marvl(
    left_scores: Any,
    right_scores: Any,
    labels: Any,
    captions: Any,
    ids: Any,
    *,
    group_by: str = "caption",
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> MarvlAccuracy:
    """The two MaRVL experiments (Gomes et al. 2025, §4.3.3, App. E.2, Table 5).

    A group is the four rows of a caption, two of them true. The released files also have captions with
    another number of true rows, with fewer rows, or with the rows of several groups. The digits of the
    published table fit the groups that remain without every caption that lacks exactly two true and two false
    rows: id 282, sw 268, ta 289, tr 293, zh 251. Splitting captions at gaps in the ids gives two more in sw
    and 13 more in ta. Random scores win 5/6 of the pairs and 41/70 of the groups.

    Args:
        left_scores: Scores of the caption with the left photo, (n,).
        right_scores: Scores of the caption with the right photo, (n,).
        labels: True where the caption is true of the pair of photos.
        captions: Text of each row, or any value shared by the rows of one caption.
        ids: Unique id of each row, an integer or a string that ends in one, such as "sw-17".
        group_by: "caption" (as published), or "consecutive_ids" for rows of one caption with consecutive ids.
        bootstrap: Number of samples of groups for the intervals; 0 makes none.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a missing score (NaN); "skip" leaves out every pair and group that needs
            it and counts them.

    Raises:
        InputError: different lengths, a label that is not a flag, an id that occurs twice or has no
            number, a missing score.

    >>> result = marvl(
    ...     [0.9, 0.2, 0.4, 0.8, 0.5],
    ...     [0.1, 0.7, 0.3, 0.75, 0.5],
    ...     [True, True, False, False, True],
    ...     ["ein Hund", "ein Hund", "ein Hund", "ein Hund", "eine Katze"],
    ...     ["de-0", "de-1", "de-2", "de-3", "de-4"],
    ... )
    >>> result.table()
    [('accuracy 1', 0.75, 4), ('accuracy 2', 0.0, 1)]
    >>> result.irregular
    (IrregularGroup(ids=('de-4',), n_true=1, n_false=0),)
    """
    sampling = Sampling(bootstrap, confidence, seed)
    left = score_column(left_scores, "left_scores")
    n = len(left)
    right = score_column(right_scores, "right_scores", n)
    label = flag_column(labels, "labels", n)
    group = group_codes(captions, "captions", n)[0]
    id_codes, id_names = group_codes(ids, "ids", n)
    if len(id_names) < n:
        seen = np.full(len(id_names), False)
        for row, code in enumerate(id_codes):
            if seen[code]:
                raise InputError(f"the id {id_names[code]!r} occurs twice", row=row, field="ids")
            seen[code] = True
    numbers = _id_numbers(id_codes, id_names, required=group_by == "consecutive_ids")
    if group_by == "consecutive_ids":
        group = _split(group, numbers)
    elif group_by != "caption":
        raise InputError(
            Setting("group_by", group_by), ": expected 'caption' or 'consecutive_ids'", field="group_by"
        )
    present = present_rows(missing, left_scores=left, right_scores=right)

    size = int(group.max()) + 1
    n_true = np.bincount(group, weights=label, minlength=size).astype(np.int64)
    n_false = np.bincount(group, minlength=size) - n_true
    regular = (n_true == 2) & (n_false == 2)

    order = np.lexsort((id_codes, numbers, label, group))
    fours = order[regular[group[order]]].reshape(-1, 4)  # false, false, true, true
    best_of_true = np.maximum(left, right)[fours[:, 2:]]
    worst_of_false = np.minimum(left, right)[fours[:, :2]]
    pairs = np.broadcast_arrays(best_of_true[:, :, None], worst_of_false[:, None, :])
    better, worse = (part.reshape(-1, 4) for part in pairs)
    scored = ~np.isnan(better) & ~np.isnan(worse)
    whole = scored.all(axis=1)
    won, tied = better > worse, better == worse
    # a group is tied if only equal scores prevent the win
    held = (won | tied).all(axis=1)
    tally = Tally(
        n=np.stack([scored.sum(axis=1), whole], axis=1).astype(np.int64),
        wins=np.stack([won.sum(axis=1), won.all(axis=1)], axis=1).astype(np.int64),
        ties=np.stack([tied.sum(axis=1), held & ~won.all(axis=1)], axis=1).astype(np.int64),
    )
    names = ["experiment 1", "experiment 2"]
    (experiment_1, experiment_2), _, sampling_notes = tally.accuracies(names, sampling, units="groups")

    # rows of a group are adjacent in `order`; list them in the order of their ids
    irregular_rows = order[~regular[group[order]]]
    irregular_rows = irregular_rows[np.lexsort((id_codes[irregular_rows], numbers[irregular_rows]))]
    members: dict[int, list[int]] = {}
    for row in irregular_rows.tolist():
        members.setdefault(int(group[row]), []).append(row)
    irregular = tuple(
        IrregularGroup(tuple(id_names[id_codes[row]] for row in rows), int(n_true[code]), int(n_false[code]))
        for code, rows in members.items()
    )
    n_missing = (int((~scored).sum()), int((~whole).sum()))

    notes = []
    if irregular:
        notes.append(
            f"{counted(len(irregular), 'group')} ({counted(len(irregular_rows), 'row')}) left out: not two "
            "true and two false rows; see `irregular` for their ids"
        )
    if not present.all():
        notes.append(
            f"{counted(int((~present).sum()), 'row')} without a score (first such row: "
            f"{int((~present).argmax())}): {counted(n_missing[0], 'pair')} of experiment 1 and "
            f"{counted(n_missing[1], 'group')} of experiment 2 left out"
        )
    for name, part in zip(names, (experiment_1, experiment_2), strict=True):
        if not part.n:
            notes.append(f"{name} has nothing to compare: no accuracy")
        if part.ties:
            notes.append(f"{counted(part.ties, 'tie')} of scores in {name}, not counted as a win")
    return MarvlAccuracy(
        experiment_1=experiment_1,
        experiment_2=experiment_2,
        n_rows=n,
        n_groups=int(regular.sum()),
        irregular=irregular,
        n_missing=n_missing,
        notes=(*notes, *sampling_notes),
    )


def _id_numbers(codes: np.ndarray, names: list[str] | list[int], *, required: bool) -> np.ndarray:
    """Number at the end of each row's id, int64 (n,); 0 where an id has none and needs none."""
    numbers = np.zeros(len(names), dtype=np.int64)
    for code, name in enumerate(names):
        found = re.search(r"[0-9]{1,18}$", str(name))
        if found:
            numbers[code] = int(found[0])
        elif required:
            raise InputError(
                f"expected an integer or a string that ends in one, got {name!r:.60}",
                row=int((codes == code).argmax()),
                field="ids",
            )
    return numbers[codes]


def _split(group: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Groups, split at gaps between the ids of their rows."""
    order = np.lexsort((numbers, group))
    starts = np.ones(len(group), dtype=bool)
    starts[1:] = (np.diff(group[order]) != 0) | (np.diff(numbers[order]) != 1)
    split = np.empty(len(group), dtype=np.int64)
    split[order] = np.cumsum(starts) - 1
    return split
