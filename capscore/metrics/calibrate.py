"""Measures how a metric scores right captions and captions of other photos, for a set of photos.

In: captions with their photos, and perhaps references. Out: percentiles of the scores of both, per language
and over all, as a JSON document that holds numbers and no texts.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import __version__
from ..errors import InputError, Setting, TruncationWarning
from .backbone_scorer import BackboneScorer
from .base import PreparedRows, Scorer, Scores
from .calibration import ALL, FORMAT, PERCENTS, RIGHT, SHUFFLED, Distribution

CHUNK = 1024
LEAST_PHOTOS = 20  # of a language that has percentiles of its own


@dataclass(frozen=True)
class CaptionedPhotos:
    """Right captions of photos.

    Attributes:
        photos: Name of each row's photo.
        images: Image of each row, as a scorer takes it.
        captions: Caption of each row.
        languages: Language of each row, "" where it is not stated.
        references: References of each row, or None.
    """

    photos: list[str]
    images: list[Any]
    captions: list[str]
    languages: list[str]
    references: list[list[str]] | None = None

    def __len__(self) -> int:
        return len(self.photos)

    def rows(self, places: Sequence[int]) -> CaptionedPhotos:
        """The rows at some places."""
        return CaptionedPhotos(
            [self.photos[place] for place in places],
            [self.images[place] for place in places],
            [self.captions[place] for place in places],
            [self.languages[place] for place in places],
            None if self.references is None else [self.references[place] for place in places],
        )

    def distinct(self) -> CaptionedPhotos:
        """Each caption of a photo once."""
        first: dict[tuple[str, str, str], int] = {}
        for place, key in enumerate(zip(self.photos, self.languages, self.captions, strict=True)):
            first.setdefault(key, place)
        return self.rows(list(first.values()))

    def in_languages(self, known: frozenset[str] | None, least_photos: int) -> CaptionedPhotos:
        """The rows in languages that a backbone knows and that have enough photos."""
        photos = defaultdict(set)
        for photo, language in zip(self.photos, self.languages, strict=True):
            photos[language].add(photo)
        kept = {
            language
            for language, found in photos.items()
            if len(found) >= least_photos and (known is None or not language or language in known)
        }
        return self.rows([place for place, language in enumerate(self.languages) if language in kept])

    def with_references(self, number: int | None) -> CaptionedPhotos:
        """Each caption with other captions of its photo as references; rows with too few are left out.

        Args:
            number: Number of references per row, the first ones; None for all others.
        """
        others = defaultdict(list)
        for place, key in enumerate(zip(self.photos, self.languages, strict=True)):
            others[key].append(place)
        kept, references = [], []
        for place, key in enumerate(zip(self.photos, self.languages, strict=True)):
            found = [self.captions[other] for other in others[key] if other != place]
            if len(found) >= (number or 1):
                kept.append(place)
                references.append(found[:number])
        return replace(self.rows(kept), references=references)

    def counts(self) -> dict[str, Any]:
        """Numbers of photos, of captions, and of captions per language, ready for JSON."""
        return {
            "photos": len(set(self.photos)),
            "captions": len(self),
            "languages": dict(sorted(Counter(language or "unstated" for language in self.languages).items())),
        }


def calibrate(
    scorer: Scorer,
    rows: CaptionedPhotos,
    *,
    shuffled: int = 10,
    n_references: int | None = None,
    least_photos: int = LEAST_PHOTOS,
    seed: int = 0,
    advance: Callable[[int], None] = lambda count: None,
) -> dict[str, Any]:
    """Percentiles of a metric over right captions, and over captions of other photos in the same language.

    Args:
        scorer: Scorer of the metric.
        rows: Right captions. A metric that compares with references takes theirs, or, where there are none,
            the other captions of the photo in the same language.
        shuffled: Number of captions of other photos that are scored for each right one.
        n_references: Number of references per row, where they are other captions; None for all.
        least_photos: Number of photos that a language needs; languages with fewer are left out.
        seed: Seed for the choice of other captions.
        advance: Function that gets the number of rows scored.

    Returns:
        One entry of `document`, ready for JSON.

    Raises:
        InputError: too few photos, an option that does not apply, or a metric whose scores depend on the rows
            that are scored with them.
    """
    rows = rows.distinct()
    if scorer.needs_references:
        if rows.references is None:
            rows = rows.with_references(n_references)
        elif n_references is not None:
            raise InputError(Setting("n_references", n_references), ": the rows have references of their own")
    elif rows.references is not None:
        rows = replace(rows, references=None)
    known = scorer.backbone.languages if isinstance(scorer, BackboneScorer) else None
    rows = rows.in_languages(known, least_photos)
    if not len(rows):
        raise InputError(
            f"{scorer.metric}: no language that the metric knows has {least_photos} photos with captions"
            + (" and references" if scorer.needs_references else "")
            + "; ",
            Setting("least_photos"),
            " lowers the number",
        )
    owners, others = other_captions(rows, shuffled, seed)
    if not len(owners):
        raise InputError("captions of other photos need at least 2 photos in a language")
    right = _score(scorer, rows, advance)
    wrong_rows = replace(rows.rows(owners), captions=[rows.captions[place] for place in others])
    wrong = _score(scorer, wrong_rows, advance)
    entry: dict[str, Any] = {
        "metric": scorer.metric,
        "signature": right.signature,
        "backbone": None,
        "truncated": right.n_truncated,
        "languages": {ALL: _distributions(right.scores, wrong.scores)},
    }
    if isinstance(scorer, BackboneScorer):
        entry["backbone"] = {"name": scorer.backbone.name, "fingerprint": scorer.backbone.fingerprint}
    if wrong.signature != right.signature:
        raise InputError(
            f"{scorer.metric}: the scores depend on which rows are scored together, so they have no fixed "
            "percentiles; give fixed ",
            Setting("document_frequencies"),
        )
    for language in sorted({*rows.languages} - {""}):
        mine = np.array([one == language for one in rows.languages])
        theirs = np.array([one == language for one in wrong_rows.languages])
        if theirs.any():
            entry["languages"][language] = _distributions(right.scores[mine], wrong.scores[theirs])
    return entry


def other_captions(rows: CaptionedPhotos, number: int, seed: int) -> tuple[list[int], list[int]]:
    """Rows, and for each of them rows of other photos in the same language: equally long lists of places.

    Args:
        rows: Rows to draw from.
        number: Number of captions of other photos per row, or all there are.
        seed: Seed for the draws.

    >>> rows = CaptionedPhotos(["x", "x", "y"], [None] * 3, ["a", "b", "c"], ["en"] * 3)
    >>> other_captions(rows, 2, 0)
    ([0, 1, 2, 2], [2, 2, 0, 1])
    """
    rng = np.random.default_rng(seed)
    by_language = defaultdict(list)
    for place, language in enumerate(rows.languages):
        by_language[language].append(place)
    owners: list[int] = []
    others: list[int] = []
    for places in by_language.values():
        # photos side by side, so that "not of this photo" is all but one stretch
        places = sorted(places, key=lambda place: (rows.photos[place], place))
        photos = [rows.photos[place] for place in places]
        starts = {photo: start for start, photo in reversed([*enumerate(photos)])}
        sizes = Counter(photos)
        for place, photo in zip(places, photos, strict=True):
            n_others = len(places) - sizes[photo]
            drawn = rng.choice(n_others, size=min(number, n_others), replace=False) if n_others else ()
            for one in sorted(drawn):
                owners.append(place)
                others.append(places[one if one < starts[photo] else one + sizes[photo]])
    return owners, others


def document(
    entries: Sequence[dict[str, Any]],
    rows: CaptionedPhotos,
    *,
    name: str,
    made: str,
    shuffled: int,
    seed: int,
) -> dict[str, Any]:
    """A file of calibrations, ready for JSON: percentiles of several metrics, and on what they were measured.

    Args:
        entries: Results of `calibrate`.
        rows: The captions that were scored.
        name: Name of the set, as it is shown beside scores.
        made: Date, such as 2026-01-31.
        shuffled, seed: As in `calibrate`.
    """
    return {
        "format": FORMAT,
        "set": {"name": name, **rows.counts()},
        "made": made,
        "version": __version__,
        "shuffled_per_caption": shuffled,
        "seed": seed,
        "percents": list(PERCENTS),
        "metrics": list(entries),
    }


def _score(scorer: Scorer, rows: CaptionedPhotos, advance: Callable[[int], None]) -> Scores:
    """Scores of all rows, prepared in chunks, so that only one chunk's photos are in memory."""
    parts = []
    for start in range(0, len(rows), CHUNK):
        part = rows.rows(range(start, min(start + CHUNK, len(rows))))
        spoken: Any = [language or None for language in part.languages]
        with warnings.catch_warnings():
            # told once, by the entry's count, and not once per chunk with numbers of rows that nobody knows
            warnings.simplefilter("ignore", TruncationWarning)
            prepared = scorer.prepare(
                part.captions,
                part.images if scorer.needs_images else None,
                part.references,
                spoken if any(spoken) else None,
            )
        parts.append(prepared)
        advance(len(part))
    return scorer.finish(PreparedRows.concatenate(parts))


def _distributions(right: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    found = {RIGHT: Distribution.of(right), SHUFFLED: Distribution.of(wrong)}
    return {kind: {"n": one.n, "values": list(one.values)} for kind, one in found.items()}
