"""What systems make up: how many captions name something wrong, and how many of the names are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from ..errors import InputError
from ..options import Sampling
from ..statistics.bootstrap import Interval, bootstrap_intervals
from ..statistics.columns import Column, check_systems, units_of
from .scores import Detail, Scores


@dataclass(frozen=True)
class Hallucinated:
    """What a system makes up.

    Attributes:
        captions: Share of captions with a noun marked wrong, or with a made-up object.
        nouns: Share of nouns marked wrong, or of mentions of objects that are made up; NaN if there are none.
        captions_interval, nouns_interval: Their bootstrap intervals; None without samples or two photos.
        n_captions, n_nouns: Number of captions that were scored, and of nouns or mentions in them.
    """

    captions: float
    nouns: float
    captions_interval: Interval | None
    nouns_interval: Interval | None
    n_captions: int
    n_nouns: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The attributes, ready for JSON; None for NaN."""
        nouns = self.nouns if self.n_nouns else None
        return {**asdict(self), "nouns": nouns, "notes": list(self.notes)}


def hallucinated(
    systems: Mapping[str, Scores],
    *,
    images: Column | None = None,
    n: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Hallucinated]:
    """Share of captions with a noun that InfoMetIC marks wrong, and share of such nouns, of each system.

    Of CHAIR, made-up objects are counted, and the shares are CHAIRs and CHAIRi. Where a caption does not fit
    its photo as a whole, InfoMetIC does not judge its words, and all its nouns count as wrong; nouns of which
    it cannot tell count as right. Marks call some right nouns wrong (see `false_alarms`): compare systems, or
    a system with captions that people wrote, rather than reading a share alone.

    Args:
        systems: Name → `Scores` of `infometic` or `chair`.
        images: n photo ids, the same for all systems; None takes the photos that `Scores` name. The bootstrap
            draws photos, with all their captions; without names of photos, it draws captions.
        n: Number of bootstrap samples; 0 for no intervals.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.

    Raises:
        InputError: scores of another metric, no scored caption, another number of ids than of rows.

    >>> import capscore
    >>> scorer = capscore.load("chair")
    >>> references = [["a dog on a sofa"], ["a red bus"], ["two cats"]]
    >>> scores = scorer.score(["a dog and a cat", "a bus and a man", "cats"], references=references)
    >>> found = capscore.hallucinated({"mine": scores}, n=100)["mine"]
    >>> round(found.captions, 4), round(found.nouns, 4), found.n_nouns
    (0.6667, 0.5, 4)
    """
    check_systems(systems)
    sampling = Sampling(n, confidence, seed)
    return {name: _of_system(name, scores, images, sampling) for name, scores in systems.items()}


def _of_system(name: str, scores: Scores, images: Column | None, sampling: Sampling) -> Hallucinated:
    names = {"words", "mentioned"} & {*scores.detail_names}
    if not names:
        raise InputError(f"{name}: expected Scores of infometic or chair, got those of {scores.metric}")
    details = scores.details or []
    counts = [_counts(detail) for detail in details if detail is not None]
    if not counts:
        raise InputError(f"{name}: no caption was scored")
    kept = np.array([detail is not None for detail in details])
    if images is None and any(scores.image_keys):
        images = scores.image_keys
    units, unit = units_of(images, kept, "caption", np.arange(len(kept)))
    n_units = int(units.max()) + 1
    nouns, wrong = np.array(counts, dtype=np.float64).T
    columns = (wrong > 0, np.ones(len(wrong)), wrong, nouns)
    sums = np.array([np.bincount(units, column, minlength=n_units) for column in columns])

    def shares(drawn: np.ndarray) -> np.ndarray:
        totals = sums @ drawn.astype(np.float64)
        with np.errstate(invalid="ignore"):
            return totals[::2] / totals[1::2]

    (captions,), (share,) = shares(np.ones((n_units, 1)))
    intervals, notes = bootstrap_intervals(
        shares, ("captions", "nouns"), n_units=n_units, unit=unit, n_rows=n_units, sampling=sampling
    )
    ends = intervals.get("captions"), intervals.get("nouns")
    return Hallucinated(float(captions), float(share), *ends, len(wrong), int(nouns.sum()), tuple(notes))


def _counts(detail: Detail) -> tuple[int, int]:
    if "mentioned" in detail:
        mentioned, made_up = (
            detail[key].split(", ") if detail[key] else () for key in ("mentioned", "made_up")
        )
        return len(mentioned), len(made_up)
    nouns = [word for word in detail["words"] if word["word_class"] == "noun" and word["score"] is not None]
    wrong = sum(word["correct"] is False or detail["fits"] is False for word in nouns)
    return len(nouns), wrong
