"""Compares captioning systems on the same photos: does one score higher than another?

`compare` reads files of captions or of scores, computes the metrics that a file lacks, puts the rows in one
order and tests the means. On a benchmark of captioned photos, each language is compared alone.
`compare_systems` tests `Scores`, or plain numbers.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..errors import InputError, Setting
from ..files.columns import check_column, find_candidate_column, find_reference_columns, read_numbers
from ..files.matching import Key, MatchedRows, match_rows
from ..files.references import read_references, with_references
from ..files.row_source import RowSource
from ..files.write import summary_path
from ..metrics.base import Scorer
from ..metrics.loading import is_lower_better
from ..metrics.scores import Scores
from ..metrics.signature import parse_signature
from ..options import NO_OPTIONS, LoadOptions, OutputOptions, RowOptions, Sampling
from ..registry import METRICS
from ..scoring.files import FileScoring, Scorable, ScoredFile, open_rows_to_score
from ..statistics.bootstrap import Interval
from ..statistics.columns import Column
from ..statistics.system_means import ALL, SystemComparison, SystemDifference, compare_means_by_language
from ..tables import Report, Result, Table, counted, fixed, level_text, signed
from ..text.sentences import RULE as SENTENCE_RULE

if TYPE_CHECKING:
    import pandas as pd


def compare_systems(
    systems: Mapping[str, Any],
    *,
    images: Column | None = None,
    languages: Column | None = None,
    baseline: str | None = None,
    n: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> list[SystemComparison]:
    """Test whether the captions of one system score higher than those of another, on the same photos.

    The difference of two means comes with an interval (paired bootstrap over photos) and a p-value
    (approximate randomisation), Holm-corrected for the number of systems. It says whether the metric
    prefers a system on photos like these, not whether people would. Means of rows are compared: a corpus
    score, such as corpus BLEU, is not tested. p-values are not corrected for several metrics or languages.

    Args:
        systems: Name → `Scores` of one metric, or a list of n scores; at least 2 systems, rows in one order.
        images: n photo ids; None takes the photos that `Scores` name. Rows of one photo are drawn together.
        languages: n language codes, for a comparison in each; None takes those of `Scores`.
        baseline: System that the others are compared with; None for the first.
        n: Number of samples. If there are no more than n ways to swap photos, all are counted.
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
    >>> round(large.difference, 4), large.p_value     # 6 photos: 2 of 64 ways are as extreme
    (0.0429, 0.03125)
    """
    if len(systems) < 2:
        raise InputError(f"expected at least 2 systems to compare, got {len(systems)}")
    scored = {name: given for name, given in systems.items() if isinstance(given, Scores)}
    if scored:
        truncated = {name for name, given in scored.items() if given.n_truncated}
        _check_signatures({name: given.signature for name, given in scored.items()}, truncated=truncated)
        if images is None:
            images = _photos(scored)
        if languages is None:
            spoken = next(iter(scored.values())).languages
            languages = spoken if len(set(spoken)) > 1 else None
    compared = compare_means_by_language(
        {name: given.scores if isinstance(given, Scores) else given for name, given in systems.items()},
        languages,
        images=images,
        baseline=baseline,
        sampling=Sampling(n, confidence, seed),
        missing=missing,
        higher_is_better=not any("" in given.lower_is_better for given in scored.values()),
    )
    caution = captioner_caution(given.signature for given in scored.values())
    return [replace(part, notes=(*part.notes, *caution)) for part in compared]


def _photos(scored: Mapping[str, Scores]) -> list[str] | None:
    """The photos of the rows, the same for all systems; None for a metric that opens none.

    A row that failed has no photo, so another system's photo is taken there.
    """
    keys = [item.image_keys for item in scored.values()]
    if not any(map(any, keys)):
        return None
    photos = []
    for row, names in enumerate(zip(*keys, strict=False)):
        found = sorted({*names} - {""})
        if len(found) > 1:
            raise InputError(f"the systems {', '.join(scored)} describe different photos", row=row)
        photos.append(found[0] if found else f"row {row}")
    return photos


def _check_signatures(
    signatures: Mapping[str, str], *, without: Sequence[str] = (), truncated: Collection[str] = ()
) -> None:
    """Check that scores depend on the same things, but for `empty` and the settings in `without`.

    `truncated` names those of whose texts some were cut. Without such texts, scores that do not state
    `SENTENCE_RULE` under `long` are those of short texts, which are read alike.
    """
    first = ""
    expected: dict[str, str] = {}

    def same(key: str) -> bool:
        pair = expected.get(key), found.get(key)
        silent = first if pair[0] is None else name
        return pair[0] == pair[1] or (
            key == "long" and set(pair) == {None, SENTENCE_RULE} and silent not in truncated
        )

    for name, signature in signatures.items():
        try:
            metric, settings = parse_signature(signature)
        except ValueError as error:  # a summary that somebody edited
            raise InputError(f"{name} has no signature that can be read: {error}") from None
        # what is done with empty captions is stated where there are any; those left out are missing rows
        found = {"metric": metric, **settings, **dict.fromkeys((*without, "empty"), "")}
        if not first:
            first, expected = name, found
        differing = [
            f"{key} {expected.get(key, 'not stated')!r:.80} against {found.get(key, 'not stated')!r:.80}"
            for key in dict.fromkeys([*expected, *found])
            if not same(key)
        ]
        if differing:
            hint = "; score CIDEr of both with the same document frequencies" if "df" in found else ""
            raise InputError(
                f"{first} and {name} were scored in different ways, so their numbers cannot be compared: "
                f"{'; '.join(differing)}{hint}"
            )


# ---- scored files ----


@dataclass(frozen=True)
class Comparison(Result):
    """Systems that were compared on the same rows.

    Attributes:
        systems: System → its file.
        metrics: Metric, or column of scores → comparison of all rows, then of each language if there are
            several; on a benchmark, of each language alone.
        signatures: Metric → signature, where it is known; "var" for a setting in which languages differ.
        matched_by: What rows were matched by, in words.
        n_left: System → number of its rows that were left out.
        notes: Remarks that a reader needs.
        about: What was read of a benchmark: its name, split, version and the checksums of its files.
    """

    systems: dict[str, str]
    metrics: dict[str, list[SystemComparison]]
    signatures: dict[str, str]
    matched_by: str
    n_left: dict[str, int]
    notes: list[str]
    about: dict[str, object] = field(default_factory=dict)

    def means(self, metric: str) -> dict[str, float]:
        """System → mean of all rows, or on a benchmark the plain mean over languages."""
        parts = self.metrics[metric] if self.about else self.metrics[metric][:1]
        return {name: math.fsum(part.means[name] for part in parts) / len(parts) for name in self.systems}

    def to_dict(self) -> dict[str, object]:
        """Everything, ready for JSON."""
        metrics = {}
        for metric, parts in self.metrics.items():
            metrics[metric] = {
                "signature": self.signatures.get(metric),
                "means": self.means(metric),
                "comparisons": [part.to_dict() for part in parts],
            }
        return {
            **self.about,
            "systems": self.systems,
            "matched_by": self.matched_by,
            "rows_left_out": self.n_left,
            "metrics": metrics,
            "notes": self.notes,
            "version": __version__,
        }

    def to_pandas(self) -> pd.DataFrame:
        """A `pandas.DataFrame`, a line per metric, rows and system: mean, difference, interval, p."""
        import pandas as pd

        lines = []
        for metric, parts in self.metrics.items():
            for part in parts:
                differences = {other.system: other for other in part.differences}
                for system, mean in part.means.items():
                    line = {"metric": metric, "rows": part.rows, "system": system, "mean": mean}
                    if other := differences.get(system):
                        line |= {"difference": other.difference, "p": other.p_value_holm}
                        if other.interval is not None:
                            line |= {"low": other.interval.low, "high": other.interval.high}
                    lines.append(line)
        return pd.DataFrame(lines)

    def report(self) -> Report:
        """A table per metric and language, how the tests were made, signatures, and a sentence per metric."""
        parts: list[Table | str] = []
        for metric, comparisons in self.metrics.items():
            if self.about:
                parts.append(self._means_by_language(metric))
            if len(self.systems) > 1:
                parts += [comparison_table(metric, comparison) for comparison in comparisons]
        parts += comparison_remarks([*itertools.chain.from_iterable(self.metrics.values())])
        parts += [self.signatures[metric] for metric in self.metrics if self.signatures.get(metric)]
        parts.append(self._matching())
        parts += [f"note: {note}" for note in self.notes]
        if not self.about:
            parts += [verdict(metric, comparisons) for metric, comparisons in self.metrics.items()]
            return Report("", parts)
        title = f"{self.about['benchmark']} ({self.about['split']}): {', '.join(self.systems)}"
        return Report(title, parts)

    def _matching(self) -> str:
        left = [f"{count:,} of {name}" for name, count in self.n_left.items() if count]
        more = f"; rows that not all systems have were left out: {', '.join(left)}" if left else ""
        return f"Rows were matched by {self.matched_by}{more}."

    def _means_by_language(self, metric: str) -> Table:
        """A row per language: the mean of every system, the best in bold; then the mean over languages."""
        rows: list[list[str]] = []
        bold = set()
        for comparison in self.metrics[metric]:
            means = comparison.means
            if len(means) > 1:
                best = comparison.best
                bold |= {(len(rows), 2 + at) for at, name in enumerate(means) if name in best}
            rows.append([comparison.rows, f"{comparison.n_rows:,}", *map(fixed, means.values())])
        if len(rows) > 1:
            rows.append(["mean", "", *map(fixed, self.means(metric).values())])
        return Table(("language", "photos", *self.systems), rows, f"{metric}: means", bold=frozenset(bold))


class _System:
    """The rows of a system, their scores in the file or computed, and what is stated of them."""

    def __init__(self, name: str, source: RowSource):
        self.name, self.source, self.metrics = name, source, _summary(source.path)
        self.computed: dict[str, np.ndarray] = {}

    @property
    def columns(self) -> list[str]:
        """Columns of the rows, and those that were computed."""
        return [*self.source.columns, *(name for name in self.computed if name not in self.source.columns)]

    def take(self, found: ScoredFile) -> None:
        """Take the scores that were computed, as if the file had them."""
        self.metrics = {**self.metrics, **found.metrics()}
        for name, (metric, component) in found.columns.items():
            if metric and component in found.numbers(metric):
                self.computed[name] = found.numbers(metric)[component]

    def numbers(self, columns: Sequence[str]) -> dict[str, np.ndarray]:
        """Column of scores → float64 (n,), NaN where a row has none."""
        numbers = {**self.computed}
        read = [column for column in columns if column not in numbers]
        names = [check_column("metric", column, self.source.columns) for column in read]
        for column, found in zip(read, read_numbers(self.source, *names), strict=True):
            numbers[column] = np.array(found)
        return numbers

    def stated(self, column: str, what: str) -> Any:
        """What the summary states of the metric that a column belongs to, such as its signature."""
        for metric, stated in self.metrics.items():
            parts = [name.removeprefix("mean_") for name in stated if name.startswith("mean_")]
            if column in (metric, *parts, *(f"{metric}_{part}" for part in parts)):
                return stated.get(what)
        return None


@dataclass(frozen=True)
class SystemScores:
    """Scores of several systems on the same rows.

    Attributes:
        files: System → its file.
        scores: Metric → system → float64 (n,).
        rows: How the rows were matched.
        signatures: Metric → signature, where it is known.
        notes: Remarks that a reader needs.
    """

    files: dict[str, str]
    scores: dict[str, dict[str, np.ndarray]]
    rows: MatchedRows
    signatures: dict[str, str]
    notes: list[str]

    def compare(self, baseline: str | None = None, sampling: Sampling = Sampling(10_000)) -> Comparison:
        """Test the differences of each metric's means; rows that lack a score are left out."""
        metrics = {}
        for column, scores in self.scores.items():
            metrics[column] = compare_means_by_language(
                scores,
                self.rows.languages,
                images=self.rows.photos,
                baseline=baseline,
                sampling=sampling,
                missing="skip",
                higher_is_better=not is_lower_better(column),
            )
        rows = self.rows
        return Comparison(self.files, metrics, self.signatures, rows.matched_by, rows.n_left, self.notes)


def read_systems(
    systems: Mapping[str, Scorable],
    metrics: Sequence[str] = (),
    rows: RowOptions = RowOptions(),
    load: LoadOptions = NO_OPTIONS,
    *,
    match_by: str | None = None,
    common_rows: bool = False,
) -> SystemScores:
    """Read the scores of several systems, compute those that a file lacks, and match the rows.

    Arguments and errors as in `compare`.
    """
    read = []
    for name, path in systems.items():
        source = open_rows_to_score(path, replace(rows, references=None))
        read.append(_System(name, source))
    _add_references(read, metrics, rows)
    sources = {system.name: system.source for system in read}
    matched = match_rows(sources, rows, match_by=match_by, common_rows=common_rows)
    if common_rows:
        matched = _only_common(read, matched)
    _compute_missing(read, metrics, rows, load)
    columns = _score_columns(read, metrics)
    notes = _signature_notes(read, columns, common_rows)
    scores: dict[str, dict[str, np.ndarray]] = {column: {} for column in columns}
    signatures: dict[str, str] = {}
    for system in read:
        numbers = system.numbers(columns)
        for column in columns:
            scores[column][system.name] = numbers[column][matched.numbers[system.name]]
    for column in columns:
        if stated := read[0].stated(column, "signature"):
            signatures[column] = str(stated)
    if not common_rows:
        _refuse_missing_scores(scores, matched.keys)
    files = {name: str(source.path) for name, source in sources.items()}
    notes += matched.notes
    stated = (system.stated(column, "signature") for system in read for column in columns)
    if caution := captioner_caution(str(signature or "") for signature in stated):
        notes += [*caution, *_length_notes(read)]
    return SystemScores(files, scores, matched, signatures, notes)


def _missing(system: _System, metrics: Sequence[str]) -> list[str]:
    """The metrics that are to be computed for a system."""
    return [name for name in metrics if METRICS.find(name) is not None and name not in system.source.columns]


def _add_references(systems: Sequence[_System], metrics: Sequence[str], rows: RowOptions) -> None:
    """Give the rows that will be scored the references of a file of their own, where one is named."""
    if rows.references is None:
        return
    known = None
    for system in systems:
        if _missing(system, metrics):
            known = known or read_references(rows.references, rows)
            system.source = with_references(system.source, known, rows)


def _only_common(systems: Sequence[_System], matched: MatchedRows) -> MatchedRows:
    """Leave out the rows that not all systems have, before they are scored; the match of the others."""
    numbers = {}
    for system in systems:
        kept = sorted(matched.numbers[system.name])
        places = {row: place for place, row in enumerate(kept)}
        numbers[system.name] = [places[row] for row in matched.numbers[system.name]]
        system.source = system.source.only(kept)
    return replace(matched, numbers=numbers)


def _compute_missing(
    systems: Sequence[_System], metrics: Sequence[str], rows: RowOptions, load: LoadOptions
) -> None:
    """Score each system with the metrics that its file lacks, after all files were checked."""
    loaded: dict[str, Scorer] = {}
    scorings = []
    for system in systems:
        missing = _missing(system, metrics)
        if not missing:
            continue
        chosen = [loaded.get(name, name) for name in missing]
        scoring = FileScoring(system.source, chosen, rows, load, OutputOptions())
        loaded |= {scorer.metric: scorer for scorer in scoring.scorer.scorers}
        scorings.append((system, scoring))
    for system, scoring in scorings:
        system.take(scoring.run())


def _score_columns(systems: Sequence[_System], metrics: Sequence[str]) -> list[str]:
    """The columns of scores: those that are named, or all metrics that the files have in common."""
    for system in systems:
        for metric in metrics:
            check_column("metric", metric, system.columns, f" (in {system.source.path})")
    if metrics:
        return list(dict.fromkeys(metrics))
    known = {*METRICS.names(), "score"}
    for system in systems:
        known.update(system.metrics)
    columns = []
    for name in systems[0].columns:
        if name in known and all(name in system.columns for system in systems):
            columns.append(name)
    if columns:
        return columns
    raise InputError(
        Setting("metric"),
        ": the files have no metric in common; name metrics that are to be computed, such as ",
        Setting("metric", "mcs"),
        ", or a column of scores",
    )


def _summary(path: Path) -> dict[str, dict[str, object]]:
    """The metrics in the summary beside a file of scores; {} if there is none."""
    if path == Path():  # rows in memory
        return {}
    summary = summary_path(path)
    try:
        found = json.loads(summary.read_text(encoding="utf-8"))["metrics"]
        return {name: stated for name, stated in found.items() if isinstance(stated, dict)}
    except (FileNotFoundError, LookupError, TypeError, AttributeError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{summary}, the summary of {path}, cannot be read: {error}") from None


def _signature_notes(systems: Sequence[_System], columns: Sequence[str], common_rows: bool) -> list[str]:
    """Refuse scores that depend on different things; notes on those that state nothing."""
    notes = []
    for column in columns:
        signatures = {system.name: str(system.stated(column, "signature") or "") for system in systems}
        stated = {name: signature for name, signature in signatures.items() if signature}
        try:
            # of other rows, languages and numbers of references may be others
            truncated = {system.name for system in systems if system.stated(column, "n_truncated")}
            without = _may_differ(systems, stated.values()) if common_rows else ()
            _check_signatures(stated, without=without, truncated=truncated)
        except InputError as error:
            raise InputError(f"{column}: ", *error.parts) from None
        if silent := ", ".join(name for name in signatures if name not in stated):
            notes.append(
                f"{column}: no summary states how {silent} was scored; whether settings agree is not checked"
            )
    return notes


def _may_differ(systems: Sequence[_System], signatures: Iterable[str]) -> list[str]:
    """Settings of signatures that may differ because files have other rows beside the common ones."""
    counts = [parse_signature(signature)[1].get("refs") for signature in signatures]
    listed = []
    for system in systems:
        cells = system.source.cells(*find_reference_columns(system.source.columns))
        listed.append(sorted(map(str, zip(*cells, strict=True))))
    if "var" in counts and listed[0] and all(references == listed[0] for references in listed):
        return ["lang", "refs"]
    return ["lang"]


def captioner_caution(signatures: Iterable[str]) -> list[str]:
    """What a reader of a comparison on an embedded backbone needs to know; [] for other scores."""
    stated = [parse_signature(signature)[1].get("backbone", "") for signature in signatures if signature]
    if not any(backbone.startswith("embedded") for backbone in stated):
        return []
    return [
        "`embedded` is for trying out, for finding wrong captions and for retrieval; it is too small to rank "
        "captioners: to say which is better, use a backbone from the Hub, or judge"
    ]


def _length_notes(systems: Sequence[_System]) -> list[str]:
    """A note where systems whose captions differ in length are compared on an embedded backbone."""
    lengths = {}
    for system in systems:
        column = find_candidate_column(system.source.columns)
        chunks = system.source.chunks(4096, [column]) if column else ()
        captions = [text for chunk in chunks for text in chunk.values(column or "") if isinstance(text, str)]
        if not captions:
            return []
        lengths[system.name] = float(np.mean(list(map(len, captions))))
    if max(lengths.values()) <= 1.3 * min(lengths.values()):
        return []
    shown = "; ".join(f"{name}: {length:.0f} characters" for name, length in lengths.items())
    return [f"captions differ in length ({shown}), which moves scores on `embedded`"]


def _refuse_missing_scores(scores: Mapping[str, Mapping[str, np.ndarray]], keys: Sequence[Key]) -> None:
    for column, by_system in scores.items():
        for name, values in by_system.items():
            if (missing := np.isnan(values)).any():
                raise InputError(
                    f"{column}: {missing.sum():,} rows of {name} have no score, such as "
                    f"{keys[int(missing.argmax())]}; ",
                    Setting("common_rows", True),
                    " compares only the rows that every system has a score for",
                )


# ---- tables ----

_HEADINGS = ("system", "mean", "difference", "interval", "p")


def comparison_table(metric: str, comparison: SystemComparison) -> Table:
    """A row per system, the baseline first; the best mean in bold, unless several systems share it."""
    means = comparison.means
    rows = [(comparison.baseline, fixed(means[comparison.baseline]), "", "", "")]
    rows += [_difference_cells(means[other.system], other) for other in comparison.differences]
    bold = [(index, 1) for index, row in enumerate(rows) if row[0] in comparison.best]
    if len(bold) > 1:
        bold = []
    title = metric
    if comparison.rows != ALL:
        title += f", {comparison.rows}"
    counts = counted(comparison.n_rows, "row")
    if comparison.resampled_by != "row":
        counts += f", {counted(comparison.n_images, 'photo')}"
    return Table(_HEADINGS, rows, f"{title} ({counts})", bold=frozenset(bold))


def _difference_cells(mean: float, other: SystemDifference) -> tuple[str, str, str, str, str]:
    interval = p_value = ""
    if other.interval is not None:
        interval = _ends(other.interval)
    if other.p_value_holm is not None:
        p_value = f"{other.p_value_holm:.2g}"
    return other.system, fixed(mean), signed(other.difference), interval, p_value


def _ends(interval: Interval) -> str:
    return f"{signed(interval.low)} to {signed(interval.high)}"


def comparison_remarks(comparisons: Sequence[SystemComparison]) -> Iterator[str]:
    """How differences, intervals and p-values were made, and each note of a comparison once."""
    for comparison in comparisons:
        if comparison.differences:
            yield from _sampling_remarks(comparison)
            break
    notes: dict[str, str] = {}
    for comparison in comparisons:
        rows = f"{comparison.rows}: "
        if comparison.rows == ALL:
            rows = ""
        for note in comparison.notes:
            notes.setdefault(note, f"note: {rows}{note}")
    yield from notes.values()


def _sampling_remarks(comparison: SystemComparison) -> Iterator[str]:
    """What was drawn how often, and what the p-values are corrected for; nothing without intervals."""
    intervals = [other.interval for other in comparison.differences if other.interval is not None]
    if not intervals:
        return
    unit = {"image": "photos"}.get(comparison.resampled_by, "rows")
    yield (
        f"Differences are system minus {comparison.baseline}, with {level_text(intervals[0].confidence)} "
        f"intervals; {comparison.n_samples:,} draws of {unit}, seed {comparison.seed}."
    )
    n_others = len(comparison.differences)
    if n_others > 1:
        yield (
            f"p-values are corrected for the {n_others} comparisons with {comparison.baseline} "
            "(Holm), not for several metrics or languages."
        )


def verdict(metric: str, comparisons: Sequence[SystemComparison]) -> str:
    """One sentence about all rows: which systems score higher or lower than the baseline."""
    outcomes = [_outcome(other, comparisons[0]) for other in comparisons[0].differences]
    return f"{metric}: {'; '.join(outcomes)}."


def _outcome(other: SystemDifference, comparison: SystemComparison) -> str:
    """What a system's test says; where less is better, that it is."""
    baseline = comparison.baseline
    if other.interval is None or other.p_value_holm is None:
        return f"too few photos to tell {other.system} and {baseline} apart"
    p_value = f"p {other.p_value_holm:.2g}"
    if other.p_value_holm >= 1 - other.interval.confidence:
        return f"no difference between {other.system} and {baseline} is shown, {p_value}"
    direction = "lower"
    if other.difference > 0:
        direction = "higher"
    if not comparison.higher_is_better:
        direction = {"lower": "better (lower)", "higher": "worse (higher)"}[direction]
    size = f"{fixed(abs(other.difference))} ({_ends(other.interval)})"
    return f"{other.system} scores {direction} than {baseline} by {size}, {p_value}"
