"""Scores captioning systems on a set of captioned photos: their captions in, means and differences out.

Each language is scored apart, with all references of a photo, and CIDEr counts documents among its photos.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import __version__
from ...errors import CapscoreError, InputError, Setting
from ...metrics.signature import format_signature, parse_signature
from ...registry import METRICS
from ...statistics.agreement import SystemLevel, side_by_side
from ...statistics.bootstrap import Interval, bootstrap_intervals
from ..data.annotation_files import KeptReadings
from ..protocols.results import counted, notes_by_config
from ..run import COMPONENTS, heard, open_benchmark, start_run
from ..tasks import TaskOptions
from .captions import MatchedRows, SystemCaptions, configs_by_language, match_captions, read_captions
from .side_by_side import Evaluation, published_scores

if TYPE_CHECKING:
    from ...metrics.base import Scorer

ALL = "all"
_MIN_EVALUATIONS = 3  # for a correlation within one language


@dataclass(frozen=True)
class PairDifference:
    """The difference of two systems in one language.

    Attributes:
        first, second: Names of the systems, in the given order.
        difference: Mean of the second minus mean of the first.
        interval: Its bootstrap interval over photos; None without one.
    """

    first: str
    second: str
    difference: float
    interval: Interval | None

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


@dataclass(frozen=True)
class LanguageScores:
    """Scores of all systems in one language.

    Attributes:
        language, config: Language, and the benchmark's configuration with its references.
        n_photos: Number of photos behind every mean.
        n_references: Number of their references.
        means: System → mean score.
        differences: Differences of every two systems.
        published: Model → published score, where all photos were scored.
        signature: Signature of the scores, which is that of all systems.
        seconds: Time that scoring took.
        warnings: Warnings given while scoring.
    """

    language: str
    config: str
    n_photos: int
    n_references: int
    means: Mapping[str, float]
    differences: tuple[PairDifference, ...]
    published: Mapping[str, float]
    signature: str
    seconds: float
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**dataclasses.asdict(self), "warnings": list(self.warnings)}


@dataclass(frozen=True)
class SystemsMetric:
    """What one metric says about the systems.

    Attributes:
        metric: Name of the metric.
        languages: Scores in each language.
        agreement: "all", or a language → correlation of the differences with people's gains.
    """

    metric: str
    languages: tuple[LanguageScores, ...]
    agreement: Mapping[str, SystemLevel] = field(default_factory=dict)

    @property
    def means(self) -> dict[str, float]:
        """System → plain mean over the languages, for systems with captions in all of them."""
        names = dict.fromkeys(name for part in self.languages for name in part.means)
        return {
            name: math.fsum(part.means[name] for part in self.languages) / len(self.languages)
            for name in names
            if all(name in part.means for part in self.languages)
        }

    @property
    def signature(self) -> str:
        """The signatures of all languages as one: "var" where they differ, and the languages joined."""
        read = [parse_signature(part.signature)[1] for part in self.languages]
        keys = dict.fromkeys(key for settings in read for key in settings)
        joined = {}
        for key in keys:
            values = list(dict.fromkeys(settings.get(key, "none") for settings in read))
            joined[key] = values[0] if len(values) == 1 else "+".join(values) if key == "lang" else "var"
        return format_signature(parse_signature(self.languages[0].signature)[0], joined)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "languages": {part.language: part.to_dict() for part in self.languages},
            "means": self.means,
            "agreement": {name: level.to_dict() for name, level in self.agreement.items()},
        }


@dataclass(frozen=True)
class SystemsRun:
    """Systems that were compared on a benchmark.

    Attributes:
        benchmark, split, version: Names of what was read.
        files: Name of every annotation file that was read → its SHA-256.
        systems: System → its file.
        options: How intervals are made.
        metrics: What each metric says.
        evaluations: People's evaluations that the agreement is with.
        notes: Remarks that a reader needs.
    """

    benchmark: str
    split: str
    version: str
    files: Mapping[str, str]
    systems: Mapping[str, Path]
    options: TaskOptions
    metrics: tuple[SystemsMetric, ...]
    evaluations: tuple[Evaluation, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every two systems, in the given order."""
        return list(itertools.combinations(self.systems, 2))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "benchmark": self.benchmark,
            "split": self.split,
            "script_version": self.version,
            "capscore_version": __version__,
            "files": dict(self.files),
            "systems": {name: str(path) for name, path in self.systems.items()},
            "options": {name: getattr(self.options, name) for name in ("bootstrap", "confidence", "seed")},
            "metrics": {metric.metric: metric.to_dict() for metric in self.metrics},
            "evaluations": [dataclasses.asdict(rating) for rating in self.evaluations],
            "notes": list(self.notes),
        }


def run_systems(
    slug: str,
    systems: Mapping[str, str | Path],
    metrics: Mapping[str, Callable[[], Scorer]],
    *,
    configs: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    split: str | None = None,
    image_dir: str | Path | None = None,
    options: TaskOptions | None = None,
    evaluations: Sequence[Evaluation] = (),
    common_rows: bool = False,
    partial: bool = False,
    may_be_empty: bool = False,
    say: Callable[[str], None] | None = None,
) -> SystemsRun:
    """Score systems' captions in every language, and compare every two systems.

    Args:
        slug: Name of a set of captioned photos, such as "xm3600".
        systems: Name → file of captions (see `read_captions`). One system is scored and not compared.
        metrics: Name → function that makes its scorer; names as in `run_benchmark`.
        configs: Configurations of the benchmark, each in another language; None for all languages that the
            systems have captions in.
        data_dir, split, image_dir: As in `run_benchmark`.
        options: Bootstrap draws, confidence and seed; None for 1,000 draws.
        evaluations: People's side-by-side evaluations of these systems.
        common_rows: Whether a system may lack languages or photos: each language is then compared on the
            photos that all its systems have.
        partial: Whether a metric that looks at photos scores only those that are available.
        may_be_empty: Whether captions may be empty; the scorers say what becomes of them.
        say: Function that takes one line about what is being done.

    Raises:
        InputError: a file does not fit the benchmark or the other files; names file and row.
        CapscoreError: loading or scoring failed, or photos that a metric needs are missing.

    >>> run = run_systems("xm3600", {"a": "a.jsonl", "b": "b.jsonl"}, data_dir="xm3600",    # doctest: +SKIP
    ...                   metrics={"cider": lambda: capscore.load("cider")})
    >>> run.metrics[0].languages[0].differences[0].difference                               # doctest: +SKIP
    0.0412…
    """
    options, say = options or TaskOptions(), say or (lambda line: None)
    if not systems or not metrics:
        raise InputError("expected at least one system and one metric")
    chosen, known = configs_by_language(slug, configs)
    read = []
    for name, path in systems.items():
        say(f"{slug}: {path}")
        read.append(read_captions(name, path, list(chosen), known=known, may_be_empty=may_be_empty))
    spoken = [code for code in chosen if configs or any(code in system.captions for system in read)]
    if not spoken:
        raise InputError(f"no file has a caption in {', '.join(chosen)}")
    used = [
        rating
        for rating in evaluations
        if {rating.first, rating.second} <= set(systems) and rating.language in spoken
    ]
    if evaluations and not used:
        raise InputError(
            f"no side-by-side rating compares two of the systems {', '.join(systems)} in {', '.join(spoken)}"
        )
    opens_images = any(METRICS.get(_scored_by(name)[0]).needs_images for name in metrics)
    opening: dict[str, Any] = {"data_dir": data_dir, "split": split, "image_dir": image_dir}
    opening |= {"images": None if opens_images else False, "kept": KeptReadings()}
    runs, matched = [], []
    for code in spoken:
        say(f"{slug} · {chosen[code]}")
        builder, part = open_benchmark(slug, chosen[code], **opening)
        run, rows = start_run(builder, part, options)
        where, is_whole = f"{slug} · {chosen[code]}", builder.published(part).get("rows") == len(rows)
        how = {"is_whole": is_whole, "common_rows": common_rows}
        runs.append(run)
        matched.append(match_captions(code, chosen[code], where, rows, read, **how))
    measured = []
    for name, make in metrics.items():
        scorer, parts = make(), []
        for found in matched:
            say(f"{slug} · {found.config}: {name}")
            usable = _available(slug, name, scorer, found, partial)
            parts.append(_of_language(slug, name, scorer, usable, options))
        measured.append(SystemsMetric(name, tuple(parts), _agreement(parts, used)))
    return SystemsRun(
        benchmark=slug,
        split=runs[0].split,
        version=runs[0].version,
        files={name: digest for run in runs for name, digest in run.files.items()},
        systems={name: Path(path) for name, path in systems.items()},
        options=options,
        metrics=tuple(measured),
        evaluations=tuple(used),
        notes=(
            *notes_by_config([(run.config, note) for run in runs for note in run.notes]),
            *_notes(read, matched, len(evaluations), len(used)),
        ),
    )


def _notes(
    systems: Sequence[SystemCaptions], matched: Sequence[MatchedRows], n_ratings: int, n_used: int
) -> Iterator[str]:
    """What was left out."""
    for system in systems:
        if system.n_elsewhere:
            yield f"{system.name}: {counted(system.n_elsewhere, 'row')} in other languages left out"
    for rows in matched:
        if len(rows.photos) < rows.n_whole:
            yield f"{rows.language}: {len(rows.photos):,} of {rows.n_whole:,} photos, those that all have"
    if len(systems) == 1:
        yield "1 system: there is nothing to compare it with"
    if n_used < n_ratings:
        what = counted(n_ratings, "side-by-side evaluation")
        yield f"{n_ratings - n_used} of {what} left out: they are of other systems or languages"


def _scored_by(name: str) -> tuple[str, str]:
    """A name in the table ("bleu_4", "mcs@embedded") → the metric, and its component or ""."""
    plain = name.partition("@")[0]
    return COMPONENTS.get(plain, (plain, ""))


def _available(slug: str, name: str, scorer: Scorer, rows: MatchedRows, partial: bool) -> MatchedRows:
    """The rows that a metric can be run on; a CapscoreError if photos or references are missing."""
    available = [
        (path is not None or not scorer.needs_images) and bool(texts or not scorer.needs_references)
        for path, texts in zip(rows.paths, rows.references, strict=True)
    ]
    if all(available):
        return rows
    if not partial or not any(available):
        gone = rows.photos[available.index(False)]
        raise CapscoreError(
            f"{name}: {available.count(False):,} of the {len(available):,} photos of {slug} · {rows.config} "
            f"cannot be scored; {gone}, for one, is missing or has no references; ",
            Setting("partial", True),
            " scores the others",
        )
    return rows.keep(available)


def _of_language(
    slug: str, name: str, scorer: Scorer, rows: MatchedRows, options: TaskOptions
) -> LanguageScores:
    """Means and differences of the systems in a language."""
    start = time.perf_counter()
    metric, component = name.partition("@")[0], _scored_by(name)[1]
    columns, signature = [], ""
    with heard() as said:
        for system, captions in rows.captions.items():
            try:
                found = scorer.score(
                    captions,
                    rows.paths if scorer.needs_images else None,
                    references=rows.references if scorer.needs_references else None,
                    language=rows.language,
                )
            except InputError as error:
                photo = "" if error.row is None else f", photo {rows.photos[error.row]}"
                place = f"{metric} on {slug} · {rows.config}: {system}{photo}: "
                raise InputError(place, *error.parts) from error
            columns.append(found.components[component] if component else found.scores)
            signature = signature or found.signature
    seconds = time.perf_counter() - start
    values = np.array(columns)
    kept = ~np.isnan(values).any(axis=0)  # empty captions that the scorer leaves out
    if not kept.any():
        raise CapscoreError(f"{metric} has no score of any photo of {slug} · {rows.config}")
    systems, values = list(rows.captions), values[:, kept]
    is_whole = rows.is_whole and kept.all()
    return LanguageScores(
        language=rows.language,
        config=rows.config,
        n_photos=int(kept.sum()),
        n_references=sum(map(len, itertools.compress(rows.references, kept.tolist()))),
        means=dict(zip(systems, values.mean(axis=1).tolist(), strict=True)),
        differences=_differences(systems, values, options),
        published=published_scores(slug, metric, rows.language) if is_whole else {},
        signature=f"{signature}|component:{component}" if component else signature,
        seconds=round(seconds, 3),
        warnings=tuple(said),
    )


def _differences(
    names: Sequence[str], values: np.ndarray, options: TaskOptions
) -> tuple[PairDifference, ...]:
    """Differences of every two of s systems by scores (s, n), with intervals over photos."""
    pairs = list(itertools.combinations(names, 2))
    if not pairs:
        return ()
    first, second = np.array([*itertools.combinations(range(len(names)), 2)]).T
    n = values.shape[1]
    means = values.mean(axis=1)

    def differences(drawn: np.ndarray) -> np.ndarray:
        drawn_means = values @ drawn.astype(np.float64) / n
        return drawn_means[second] - drawn_means[first]

    sampling = (options.bootstrap, options.confidence, options.seed)
    labels = [" − ".join(pair) for pair in pairs]
    intervals, _ = bootstrap_intervals(
        differences, labels, n_units=n, unit="photo", n_rows=n, sampling=sampling
    )
    measured = (means[second] - means[first]).tolist()
    return tuple(
        PairDifference(*pair, difference, intervals.get(label))
        for pair, difference, label in zip(pairs, measured, labels, strict=True)
    )


def _agreement(parts: Sequence[LanguageScores], evaluations: Sequence[Evaluation]) -> dict[str, SystemLevel]:
    """Correlations of differences with gains: over all languages, and in those with enough evaluations."""
    points: dict[str, list[tuple[float, float]]] = {ALL: []}
    for part in parts:
        differences = {(pair.first, pair.second): pair.difference for pair in part.differences}
        differences |= {(second, first): -value for (first, second), value in differences.items()}
        for rating in evaluations:
            difference = differences.get((rating.first, rating.second))
            if rating.language == part.language and difference is not None:
                points[ALL].append((difference, rating.gain))
                points.setdefault(part.language, []).append((difference, rating.gain))
    return {
        name: side_by_side(*zip(*some, strict=True))
        for name, some in points.items()
        if len(some) >= (1 if name == ALL else _MIN_EVALUATIONS)
    }
