"""Compares captioning systems by `Scores` of one metric, or by plain numbers, on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..statistics.system_means import SystemComparison, check_systems, compare_means_by_language
from .base import Scores
from .signature import parse_signature


def compare_systems(
    systems: Mapping[str, Any],
    *,
    images: Any = None,
    languages: Any = None,
    baseline: str | None = None,
    n: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> list[SystemComparison]:
    """Test whether the captions of one system score higher than those of another, on the same photos.

    The difference of two means comes with an interval (paired bootstrap over photos) and two p-values
    (paired bootstrap, approximate randomisation), corrected for the number of systems after Holm. It says
    whether the metric prefers a system on photos like these, not whether people would. Means of rows are
    compared: a number of all rows together, such as corpus BLEU, is not tested. Several metrics, or several
    languages, are not corrected for.

    Args:
        systems: Name → `Scores` of one metric, or a list of n scores; at least 2 systems, rows in one order.
        images: n photo ids; None takes the photos that `Scores` name. Rows of one photo are drawn together.
        languages: n language codes, for a comparison in each; None takes those of `Scores`.
        baseline: System that the others are compared with; None for the first.
        n: Number of samples. Where there are no more than n ways to swap photos, all are counted.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a row that a system has no score for; "skip" leaves it out for all.

    Returns:
        The comparison over all rows, then one for each language if there are several.

    Raises:
        InputError: fewer than 2 systems, different numbers of rows, `Scores` with different signatures or
            photos, an unknown baseline, a value that is not a finite number.

    >>> import capscore
    >>> photos = ["1.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg", "6.jpg"]
    >>> found = capscore.compare_systems(
    ...     {"small": [0.50, 0.54, 0.61, 0.40, 0.58, 0.52, 0.49],
    ...      "large": [0.55, 0.59, 0.65, 0.48, 0.60, 0.57, 0.50]}, images=photos)
    >>> {name: round(mean, 4) for name, mean in found[0].means.items()}
    {'small': 0.52, 'large': 0.5629}
    >>> large = found[0].differences[0]
    >>> round(large.difference, 4), large.p_randomisation     # 6 photos: 2 of 64 ways are as extreme
    (0.0429, 0.03125)
    """
    first = check_systems(list(systems), baseline)
    scored = {name: given for name, given in systems.items() if isinstance(given, Scores)}
    if scored:
        check_same_signatures({name: given.signature for name, given in scored.items()})
        one = scored.get(first, next(iter(scored.values())))
        if images is None:
            images = _photos(scored, one)
        if languages is None and len(set(one.languages)) > 1:
            languages = one.languages
    return compare_means_by_language(
        {name: given.scores if isinstance(given, Scores) else given for name, given in systems.items()},
        languages,
        images=images,
        baseline=first,
        n=n,
        confidence=confidence,
        seed=seed,
        missing=missing,
    )


def check_same_signatures(signatures: Mapping[str, str], *, without: Sequence[str] = ()) -> None:
    """Check that scores of several systems depend on the same things.

    Args:
        signatures: System → signature of its scores.
        without: Settings that may differ, besides `empty`.

    Raises:
        InputError: they differ; names the settings.
    """
    read = {name: parse_signature(signature) for name, signature in signatures.items()}
    for name, (metric, settings) in read.items():
        first, (first_metric, first_settings) = next(iter(read.items()))
        found = {"metric": metric, **settings}
        expected = {"metric": first_metric, **first_settings}
        differing = [
            f"{key} {expected.get(key, 'not stated')!r:.80} against {found.get(key, 'not stated')!r:.80}"
            for key in dict.fromkeys([*expected, *found])
            # what is done with empty captions is stated where there are any; those left out are missing rows
            if expected.get(key) != found.get(key) and key not in (*without, "empty")
        ]
        if differing:
            hint = (
                ". CIDEr counted its n-grams in different references; score both with the same "
                "document frequencies"
                if any(one.startswith("df ") for one in differing)
                else ""
            )
            raise InputError(
                f"{first} and {name} were scored in different ways, so their numbers cannot be compared: "
                f"{'; '.join(differing)}{hint}"
            )


def _photos(scored: Mapping[str, Scores], first: Scores) -> list[str] | None:
    """The photos of the rows, the same for all systems; None for a metric that opens none.

    A row that failed has no photo, so another system's photo is taken there.
    """
    lengths = {name: len(one) for name, one in scored.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise InputError(f"systems with different numbers of rows: {counts}")
    if not any(first.image_keys):
        return None
    photos = []
    for row in range(len(first)):
        keys = {name: one.image_keys[row] for name, one in scored.items() if one.image_keys[row]}
        if len(set(keys.values())) > 1:
            raise InputError(f"the systems {', '.join(keys)} describe different photos", row=row)
        photos.append(next(iter(keys.values()), f"row {row}"))
    return photos
