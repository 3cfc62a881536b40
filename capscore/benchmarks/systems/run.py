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
from ...statistics.bootstrap import Interval, multiplicities, percentile_interval, resample
from ..data.annotation_files import KeptReadings
from ..protocols.results import counted, notes_by_config
from ..run import COMPONENTS, BenchmarkRun, heard, open_benchmark, start_run
from ..tasks import TaskOptions
from .captions import SystemCaptions, read_captions
from .matched_rows import MatchedRows, configs_by_language, known_languages, match_captions
from .side_by_side import Evaluation, published_scores

if TYPE_CHECKING:
    from ...metrics.base import Scorer

ALL = "all"
_LEAST_EVALUATIONS = 3  # for a correlation within one language


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
        names = dict.fromkeys(name for one in self.languages for name in one.means)
        return {
            name: math.fsum(one.means[name] for one in self.languages) / len(self.languages)
            for name in names
            if all(name in one.means for one in self.languages)
        }

    @property
    def signature(self) -> str:
        """The signatures of all languages as one: "var" where they differ, and the languages joined."""
        read = [parse_signature(one.signature)[1] for one in self.languages]
        keys = dict.fromkeys(key for settings in read for key in settings)
        joined = {}
        for key in keys:
            values = list(dict.fromkeys(settings.get(key, "none") for settings in read))
            joined[key] = values[0] if len(values) == 1 else "+".join(values) if key == "lang" else "var"
        return format_signature(parse_signature(self.languages[0].signature)[0], joined)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "languages": {one.language: one.to_dict() for one in self.languages},
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
            "metrics": {one.metric: one.to_dict() for one in self.metrics},
            "evaluations": [dataclasses.asdict(one) for one in self.evaluations],
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
    chosen = configs_by_language(slug, configs)
    known = known_languages(slug)
    read = []
    for name, path in systems.items():
        say(f"{slug}: {path}")
        read.append(read_captions(name, path, list(chosen), known=known, may_be_empty=may_be_empty))
    notes = [
        f"{one.name}: {counted(one.n_elsewhere, 'row')} in other languages left out"
        for one in read
        if one.n_elsewhere
    ]
    spoken = [code for code in chosen if configs or any(code in one.captions for one in read)]
    if not spoken:
        raise InputError(f"no file has a caption in {', '.join(chosen)}")
    opens_images = any(METRICS.get(_scored_by(name)[0]).needs_images for name in metrics)
    runs, rows = [], []
    for run, found in _read_languages(
        slug,
        {code: chosen[code] for code in spoken},
        read,
        options,
        common_rows=common_rows,
        say=say,
        data_dir=data_dir,
        split=split,
        image_dir=image_dir,
        images=None if opens_images else False,
    ):
        runs.append(run)
        rows.append(found)
        if len(found.photos) < found.n_whole:
            n = f"{len(found.photos):,} of {found.n_whole:,} photos"
            notes.append(f"{found.language}: {n}, those that all have")
    used, left = _usable(evaluations, list(systems), spoken)
    measured = []
    for name, make in metrics.items():
        say(f"{slug}: {name}")
        parts = _scored(slug, name, make, rows, options, partial=partial, say=say)
        measured.append(SystemsMetric(name, tuple(parts), _agreement(parts, used)))
    if len(systems) == 1:
        notes.append("1 system: there is nothing to compare it with")
    return SystemsRun(
        benchmark=slug,
        split=runs[0].split,
        version=runs[0].version,
        files={name: digest for run in runs for name, digest in run.files.items()},
        systems={name: Path(path) for name, path in systems.items()},
        options=options,
        metrics=tuple(measured),
        evaluations=tuple(used),
        notes=(*notes_by_config([(run.config, note) for run in runs for note in run.notes]), *notes, *left),
    )


def _read_languages(
    slug: str,
    configs: Mapping[str, str],
    systems: Sequence[SystemCaptions],
    options: TaskOptions,
    *,
    common_rows: bool,
    say: Callable[[str], None],
    **opening: Any,
) -> Iterator[tuple[BenchmarkRun, MatchedRows]]:
    """What was read of each language, and its rows; a file that holds several languages is parsed once.

    Args:
        slug: Name of the set.
        configs: Language → configuration.
        systems: What the systems say.
        options, common_rows, say: As in `run_systems`.
        opening: Further arguments of `open_benchmark`.
    """
    kept = KeptReadings() if len(configs) > 1 else None
    for code, config in configs.items():
        say(f"{slug} · {config}")
        builder, part = open_benchmark(slug, config, kept=kept, **opening)
        run, keyed = start_run(builder, part, options)
        found = match_captions(code, config, slug, keyed, systems, common_rows=common_rows)
        if builder.published(part).get("rows") != len(keyed):
            found = dataclasses.replace(found, is_published=False)
        yield run, found


def _scored(
    slug: str,
    name: str,
    make: Callable[[], Scorer],
    rows: Sequence[MatchedRows],
    options: TaskOptions,
    *,
    partial: bool,
    say: Callable[[str], None],
) -> list[LanguageScores]:
    """Scores of every language by one scorer."""
    component = _scored_by(name)[1]
    scorer = make()
    parts = []
    for part in rows:
        say(f"{slug} · {part.config}: {name}")
        kept = _available(slug, name, scorer, part, partial=partial)
        parts.append(_of_language(slug, name.partition("@")[0], component, scorer, kept, options))
    return parts


def _scored_by(name: str) -> tuple[str, str]:
    """A name in the table ("bleu_4", "mcs@embedded") → the metric, and its component or ""."""
    plain = name.partition("@")[0]
    return COMPONENTS.get(plain, (plain, ""))


def _available(slug: str, name: str, scorer: Scorer, rows: MatchedRows, *, partial: bool) -> MatchedRows:
    """The rows that a metric can be run on.

    Raises:
        CapscoreError: photos or references are missing.
    """
    there = np.ones(len(rows.photos), dtype=bool)
    if scorer.needs_images:
        there &= np.array([photo.path is not None for photo in rows.photos])
    if scorer.needs_references:
        there &= np.array([bool(photo.references) for photo in rows.photos])
    if there.all():
        return rows
    gone = rows.photos[int(there.argmin())]
    what = "is missing" if scorer.needs_images and gone.path is None else "has no references"
    if not partial or not there.any():
        raise CapscoreError(
            f"{name}: {int((~there).sum()):,} of the {len(there):,} photos of {slug} · {rows.config} cannot "
            f"be scored; {gone.key}, for one, {what}; ",
            Setting("partial", True),
            " scores the others",
        )
    return rows.keep(there.tolist())


def _of_language(
    slug: str, metric: str, component: str, scorer: Scorer, rows: MatchedRows, options: TaskOptions
) -> LanguageScores:
    """Means and differences of the systems in a language."""
    start = time.perf_counter()
    columns: dict[str, np.ndarray] = {}
    signatures: dict[str, str] = {}
    with heard() as said:
        for name, captions in rows.captions.items():
            try:
                found = scorer.score(
                    captions,
                    [photo.path for photo in rows.photos] if scorer.needs_images else None,
                    references=[one.references for one in rows.photos] if scorer.needs_references else None,
                    language=rows.language,
                )
            except InputError as error:
                photo = "" if error.row is None else f", photo {rows.photos[error.row].key}"
                place = f"{metric} on {slug} · {rows.config}: {name}{photo}: "
                raise InputError(place, *error.parts) from error
            columns[name] = found.components[component] if component else found.scores
            signatures[name] = found.signature
    seconds = time.perf_counter() - start
    values = np.array([*columns.values()])
    kept = ~np.isnan(values).any(axis=0)  # empty captions that the scorer leaves out
    if not kept.any():
        raise CapscoreError(f"{metric} has no score of any photo of {slug} · {rows.config}")
    names, values = list(columns), values[:, kept]
    whole = rows.is_published and len(rows.photos) == rows.n_whole and kept.all()
    signature = next(iter(signatures.values()))
    return LanguageScores(
        language=rows.language,
        config=rows.config,
        n_photos=int(kept.sum()),
        n_references=sum(len(photo.references) for photo in itertools.compress(rows.photos, kept.tolist())),
        means=dict(zip(names, values.mean(axis=1).tolist(), strict=True)),
        differences=_differences(names, values, options),
        published=published_scores(slug, metric, rows.language) if whole else {},
        signature=f"{signature}|component:{component}" if component else signature,
        seconds=round(seconds, 3),
        warnings=tuple(said),
    )


def _differences(
    names: Sequence[str], values: np.ndarray, options: TaskOptions
) -> tuple[PairDifference, ...]:
    """Differences of every two systems, with intervals over photos, which are drawn for all systems alike.

    Args:
        names: Names of the s systems.
        values: Scores of n photos, (s, n).
        options: Bootstrap draws, confidence and seed.
    """
    pairs = list(itertools.combinations(range(len(names)), 2))
    if not pairs:
        return ()
    first, second = np.array(pairs).T
    n_photos = values.shape[1]
    means = values.mean(axis=1)
    intervals: list[Interval | None] = [None] * len(pairs)
    if options.bootstrap and n_photos > 1:

        def drawn_differences(drawn: np.ndarray) -> np.ndarray:
            drawn_means = values @ drawn.astype(np.float64) / n_photos
            return drawn_means[second] - drawn_means[first]

        samples = resample(
            drawn_differences,
            multiplicities,
            n_units=n_photos,
            n_samples=options.bootstrap,
            seed=options.seed,
            n_rows=n_photos,
            label="bootstrap",
        )
        intervals = [percentile_interval(some, options.confidence) for some in samples]
    return tuple(
        PairDifference(names[a], names[b], float(means[b] - means[a]), interval)
        for (a, b), interval in zip(pairs, intervals, strict=True)
    )


def _usable(
    evaluations: Sequence[Evaluation], systems: Sequence[str], languages: Sequence[str]
) -> tuple[list[Evaluation], list[str]]:
    """The evaluations of these systems in these languages, and a note on the others.

    Raises:
        InputError: there are evaluations, but none of these systems in these languages.
    """
    used = [
        one for one in evaluations if {one.first, one.second} <= set(systems) and one.language in languages
    ]
    if evaluations and not used:
        rated = ", ".join(dict.fromkeys(name for one in evaluations for name in (one.first, one.second)))
        spoken = ", ".join(dict.fromkeys(one.language for one in evaluations))
        raise InputError(
            f"no side-by-side rating compares two of the systems {', '.join(systems)} in "
            f"{', '.join(languages)}: the ratings are of {rated} in {spoken}"
        )
    left = len(evaluations) - len(used)
    told = f"{left} of {counted(len(evaluations), 'side-by-side evaluation')} left out"
    return used, [f"{told}: they are of other systems or languages"] if left else []


def _agreement(parts: Sequence[LanguageScores], evaluations: Sequence[Evaluation]) -> dict[str, SystemLevel]:
    """Correlations of differences with gains: over all languages, and in those with enough evaluations."""
    points: dict[str, list[tuple[float, float]]] = {ALL: []}
    for part in parts:
        of_pair = {(one.first, one.second): one.difference for one in part.differences}
        for one in evaluations:
            if one.language != part.language:
                continue
            pair = (one.first, one.second)
            pair = pair if pair in of_pair else pair[::-1]
            if pair in of_pair:
                point = (of_pair[pair], one.gain_of(pair[1]))
                points[ALL].append(point)
                points.setdefault(part.language, []).append(point)
    return {
        name: side_by_side(*zip(*some, strict=True))
        for name, some in points.items()
        if len(some) >= (1 if name == ALL else _LEAST_EVALUATIONS)
    }
