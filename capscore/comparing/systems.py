"""Compares captioning systems on the same photos: does one score higher than another?"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from ..benchmarks.published import PublishedOrder
from ..errors import CapscoreError, InputError, OptionError, Setting
from ..files.columns import check_column, find_candidate_column, find_reference_columns, read_numbers
from ..files.matching import Key, MatchedRows, match_rows
from ..files.references import read_references, with_references
from ..files.row_source import RowSource
from ..files.text_files import TextFile
from ..files.write import summary_path
from ..metrics.base import Scorer
from ..metrics.loading import component_of, is_lower_better, metric_of
from ..metrics.rows import parse_signature
from ..metrics.scores import Scores
from ..options import NO_OPTIONS, LoadOptions, OutputOptions, RowOptions, Sampling
from ..registry import METRICS
from ..scoring.files import FileScoring, Scorable, ScoredFile, chosen_by_preset, open_rows_to_score
from ..statistics.columns import Column, check_systems
from ..statistics.systems import TEN_THOUSAND, RowStatistics, SystemComparison, compare_by_language
from ..tables import counted
from ..text.sentences import RULE as SENTENCE_RULE
from .comparison import Comparison
from .published_order import OrderAgreement, order_agreements


def compare_systems(
    systems: Mapping[str, Scores | Column],
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

    The difference comes with an interval (paired bootstrap over photos) and a p-value (approximate
    randomisation), Holm-corrected for the number of systems. It says whether the metric prefers a system on
    photos like these, not whether people would. Means of rows are compared, or of `Scores` of a metric such
    as BLEU the numbers of the corpus, computed anew from the photos of each draw. p-values are not corrected
    for several metrics or languages.

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
    >>> {name: round(mean, 4) for name, mean in found[0].figures.items()}
    {'small': 0.52, 'large': 0.5629}
    >>> large = found[0].differences[0]
    >>> round(large.difference, 4), large.p_value     # 6 photos: 2 of 64 ways are as extreme
    (0.0429, 0.03125)
    """
    check_systems(systems, 2)
    scored = {name: given for name, given in systems.items() if isinstance(given, Scores)}
    if scored:
        truncated = {name for name, given in scored.items() if given.n_truncated}
        _check_signatures({name: given.signature for name, given in scored.items()}, truncated=truncated)
        if images is None:
            images = _photos(scored)
        if languages is None:
            spoken = next(iter(scored.values())).languages
            languages = spoken if len(set(spoken)) > 1 else None
    compared = compare_by_language(
        {
            name: statistics_of(given) if isinstance(given, Scores) else given
            for name, given in systems.items()
        },
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
    """The photos of the rows, the same for all systems; None for a metric that opens none."""
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


class _System:
    """The rows of a system, their scores in the file or computed, and what is stated of them."""

    def __init__(self, name: str, source: RowSource):
        self.name, self.source, self.metrics = name, source, _summary(source.path)
        self.computed: dict[str, RowStatistics] = {}

    @property
    def columns(self) -> list[str]:
        """Columns of the rows, and those that were computed."""
        return [*self.source.columns, *(name for name in self.computed if name not in self.source.columns)]

    def take(self, found: ScoredFile, names: Sequence[str]) -> None:
        """Take metrics or components that were computed, as if the file had columns of these names."""
        summaries = found.metrics()
        for name in names:
            metric, component = component_of(name)
            self.metrics = {**self.metrics, name: summaries[metric]}
            self.computed[name] = statistics_of(found.scores[metric], component)

    def statistics(self, columns: Sequence[str]) -> dict[str, RowStatistics]:
        """Column of scores → its n rows, NaN where one has no score."""
        found = {**self.computed}
        read = [column for column in columns if column not in found]
        names = [check_column("metric", column, self.source.columns) for column in read]
        for column, numbers in zip(read, read_numbers(self.source, *names), strict=True):
            found[column] = RowStatistics.of_mean(np.array(numbers))
        return found

    def stated(self, column: str, what: str) -> object:
        """What the summary states of the metric that a column belongs to, such as its signature."""
        for metric, stated in self.metrics.items():
            parts = [name.removeprefix("mean_") for name in stated if name.startswith("mean_")]
            if column in (metric, *parts, *(f"{metric}_{part}" for part in parts)):
                return stated.get(what)
        return None


@dataclass(frozen=True)
class SystemScores:
    """Scores of several systems on the same rows."""

    files: dict[str, str]
    statistics: dict[str, dict[str, RowStatistics]]
    rows: MatchedRows
    signatures: dict[str, str]
    notes: list[str]
    sources: dict[str, RowSource]
    options: RowOptions

    @property
    def scores(self) -> dict[str, dict[str, np.ndarray]]:
        """Metric → system → float64 (n,), the scores of the rows."""
        found: dict[str, dict[str, np.ndarray]] = {}
        for column, systems in self.statistics.items():
            found[column] = {name: part.scores for name, part in systems.items()}
        return found

    def compare(
        self,
        baseline: str | None = None,
        sampling: Sampling = TEN_THOUSAND,
        orders: Sequence[PublishedOrder] = (),
    ) -> Comparison:
        """Test the differences of each metric; rows that lack a score are left out.

        `orders` are published numbers of the systems that the metrics are held against.
        """
        metrics = {}
        agreeing: list[OrderAgreement] = []
        for column, systems in self.statistics.items():
            metrics[column] = compare_by_language(
                systems,
                self.rows.languages,
                images=self.rows.photos,
                baseline=baseline,
                sampling=sampling,
                missing="skip",
                higher_is_better=not is_lower_better(column),
            )
            agreeing += order_agreements(
                orders, column, metrics[column][0], systems, self.rows.photos, sampling
            )
        return Comparison(
            self.files,
            metrics,
            self.signatures,
            self.rows.matched_by,
            self.rows.n_left,
            self.notes,
            orders=tuple(agreeing),
        )


def read_systems(
    systems: Mapping[str, Scorable],
    metrics: Sequence[str] = (),
    rows: RowOptions = RowOptions(),
    load: LoadOptions = NO_OPTIONS,
    *,
    preset: str | None = None,
    match_by: str | None = None,
    common_rows: bool = False,
) -> SystemScores:
    """Read the scores of several systems, compute those that a file lacks, and match the rows."""
    read = []
    for name, path in systems.items():
        source = open_rows_to_score(path, replace(rows, references=None))
        read.append(_System(name, source))
    _add_references(read, metrics, rows, always=preset is not None)
    notes: list[str] = []
    if preset is not None:
        from_preset, notes = chosen_by_preset(preset, read[0].source, rows)
        if not from_preset:
            raise OptionError(Setting("preset", preset), ": the files lack the photos or references it needs")
        in_tables = [METRICS.get(name).in_tables or (name,) for name in from_preset]
        metrics = [*itertools.chain.from_iterable(in_tables), *metrics]
    sources = {system.name: system.source for system in read}
    matched = match_rows(sources, rows, match_by=match_by, common_rows=common_rows)
    if common_rows:
        matched = _only_common(read, matched)
    notes += _compute_missing(read, metrics, rows, load)
    columns = _score_columns(read, metrics)
    _count_again(read, columns, rows, load)
    notes += _signature_notes(read, columns, common_rows, rows)
    statistics: dict[str, dict[str, RowStatistics]] = {column: {} for column in columns}
    signatures: dict[str, str] = {}
    for system in read:
        found = system.statistics(columns)
        for column in columns:
            statistics[column][system.name] = found[column].only(matched.numbers[system.name])
    notes += _notes_on_means(statistics)
    for column, found in statistics.items():
        if not all(part.of_corpus for part in found.values()):
            statistics[column] = {name: RowStatistics.of_mean(part.scores) for name, part in found.items()}
    for column in columns:
        if stated := read[0].stated(column, "signature"):
            signatures[column] = str(stated)
    if not common_rows:
        _refuse_missing_scores(statistics, matched.keys)
    files = {name: str(source.path) for name, source in sources.items()}
    said = "\n".join(notes)
    notes += [note for note in matched.notes if note not in said]
    stated = (system.stated(column, "signature") for system in read for column in columns)
    if caution := captioner_caution(str(signature or "") for signature in stated):
        notes += [*caution, *_length_notes(read, rows)]
    sources = {system.name: system.source for system in read}
    return SystemScores(files, statistics, matched, signatures, notes, sources, rows)


def _missing(system: _System, metrics: Sequence[str]) -> list[str]:
    """The metrics, or their components, that are to be computed for a system."""
    known = [name for name in metrics if metric_of(name) is not None]
    return [name for name in known if name not in system.source.columns]


def _add_references(
    systems: Sequence[_System], metrics: Sequence[str], rows: RowOptions, *, always: bool
) -> None:
    """Give the rows that will be scored the references of a file of their own, where one is named."""
    if rows.references is None:
        return
    known = None
    for system in systems:
        if always or _missing(system, metrics):
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
) -> Sequence[str]:
    """Score each system with the metrics that its file lacks, after all files were checked; notes on rows."""
    loaded: dict[str, Scorer] = {}
    scorings = []
    for system in systems:
        for batch in _batches(_missing(system, metrics)):
            chosen = [loaded.get(name, name) for name in batch]
            scoring = FileScoring(system.source, chosen, rows, load, OutputOptions())
            loaded |= zip(batch, scoring.scorer.scorers, strict=True)
            scorings.append((system, scoring, [*itertools.chain.from_iterable(batch.values())]))
    notes: dict[str, None] = {}
    for system, scoring, names in scorings:
        system.take(scoring.run(), names)
        notes |= dict.fromkeys(f"{system.name}: {note}" for note in scoring.notes)
    return [*notes]


def _count_again(
    systems: Sequence[_System], columns: Sequence[str], rows: RowOptions, load: LoadOptions
) -> None:
    """Count what makes a corpus figure, where files hold scores of rows, captions and references.

    The counts are taken if they make the scores in the file; otherwise other settings did.
    """
    for system in systems:
        names = [name for name in columns if name not in system.computed and _has_corpus_figure(name)]
        texts = find_candidate_column(system.source.columns, rows.candidate_column)
        if not (texts and find_reference_columns(system.source.columns, rows.references_column)):
            continue
        in_file = system.statistics(names)
        for batch in _batches(names):
            with suppress(CapscoreError):  # a row that cannot be read, or data that are not installed
                found = FileScoring(system.source, [*batch], rows, load, OutputOptions()).run()
                for name in itertools.chain.from_iterable(batch.values()):
                    metric, component = component_of(name)
                    counted = statistics_of(found.scores[metric], component)
                    if np.allclose(counted.scores, in_file[name].scores, rtol=0, atol=1e-6, equal_nan=True):
                        system.computed[name] = counted


def _has_corpus_figure(column: str) -> bool:
    """Whether a column belongs to a metric, made from texts, of which papers print a corpus figure."""
    kind, component = metric_of(column), component_of(column)[1]
    if kind is None or kind.takes_backbone or not kind.statistic_names:
        return False
    return (f"corpus_{component}" if component else kind.aggregation) in kind.corpus_names


def _batches(names: Sequence[str]) -> list[dict[str, list[str]]]:
    """METRIC or METRIC@BACKBONE → what is named of it; each metric once in a batch.

    >>> _batches(["bleu_1", "bleu_4", "mcs@x", "mcs@y"])
    [{'bleu': ['bleu_1', 'bleu_4'], 'mcs@x': ['mcs@x']}, {'mcs@y': ['mcs@y']}]
    """
    batches: list[dict[str, list[str]]] = []
    for name in dict.fromkeys(names):
        metric, (_, sign, backbone) = component_of(name)[0], name.partition("@")
        scored_as = f"{metric}{sign}{backbone}"
        for batch in batches:
            if scored_as in batch or metric not in {known.partition("@")[0] for known in batch}:
                batch.setdefault(scored_as, []).append(name)
                break
        else:
            batches.append({scored_as: [name]})
    return batches


def statistics_of(scores: Scores, component: str = "") -> RowStatistics:
    """What makes the number of all rows together of a metric, or of a component: counts, or scores."""
    values = scores.components[component] if component else scores.scores
    key = f"corpus_{component}" if component else scores.aggregation
    kind = METRICS.find(scores.metric)
    if kind is None or not scores.statistics or key not in kind.corpus_names:
        return RowStatistics.of_mean(values)
    corpus_of, names, codes = kind.corpus_of, [*scores.statistics], np.array(scores.languages, dtype=object)
    languages = sorted({*scores.languages})
    parts = []
    for code in languages:
        parts += [np.where(codes == code, numbers, 0.0) for numbers in scores.statistics.values()]

    def figure(sums: np.ndarray) -> np.ndarray:
        by_language = {}
        for code, rows in zip(languages, sums.reshape(len(languages), len(names), -1), strict=True):
            by_language[code] = dict(zip(names, rows, strict=True))
        return np.asarray(corpus_of(by_language)[key])

    return RowStatistics(values, np.array(parts), figure)


def _notes_on_means(statistics: Mapping[str, Mapping[str, RowStatistics]]) -> list[str]:
    """Notes on metrics of which papers print a corpus figure, where files hold scores of rows alone."""
    columns = []
    for column, systems in statistics.items():
        if _has_corpus_figure(column) and not all(part.of_corpus for part in systems.values()):
            columns.append(column)
    if not columns:
        return []
    return [
        f"{', '.join(columns)}: means of rows, as the files hold no counts for the number that papers print; "
        "compare the files of captions for it"
    ]


def _score_columns(systems: Sequence[_System], metrics: Sequence[str]) -> list[str]:
    """The columns of scores: those that are named, or all metrics that the files have in common."""
    for system in systems:
        for metric in metrics:
            check_column("metric", metric, system.columns, f" (in the file of {system.name})")
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
    if not summary.exists():
        return {}
    with suppress(LookupError, TypeError, AttributeError):
        found = TextFile(summary).json_value()["metrics"]
        return {name: stated for name, stated in found.items() if isinstance(stated, dict)}
    return {}


def _signature_notes(
    systems: Sequence[_System], columns: Sequence[str], common_rows: bool, rows: RowOptions
) -> list[str]:
    """Refuse scores that depend on different things; notes on those that state nothing."""
    notes = []

    @cache
    def same_references() -> bool:
        return _have_same_references(systems, rows)

    for column in columns:
        signatures = {system.name: str(system.stated(column, "signature") or "") for system in systems}
        stated = {name: signature for name, signature in signatures.items() if signature}
        try:
            truncated = {system.name for system in systems if system.stated(column, "n_truncated")}
            without = ["lang"] if common_rows else []  # those of other rows may be others
            varies = any("refs:var" in text.split("|") for text in stated.values())
            if common_rows and varies and same_references():
                without.append("refs")
            _check_signatures(stated, without=without, truncated=truncated)
        except InputError as error:
            raise InputError(f"{column}: ", *error.parts) from None
        if silent := ", ".join(name for name in signatures if name not in stated):
            notes.append(
                f"{column}: no summary states how {silent} was scored; whether settings agree is not checked"
            )
    return notes


def _have_same_references(systems: Sequence[_System], rows: RowOptions) -> bool:
    """Whether the files have the same lists of references, in any order; not where they have none."""
    listed = []
    for system in systems:
        given = rows.references_column if rows.references is None else None
        columns = find_reference_columns(system.source.columns, given)
        cells = system.source.cells(*columns)
        listed.append(sorted(map(str, zip(*cells, strict=True))))
    return bool(listed[0]) and all(references == listed[0] for references in listed)


def captioner_caution(signatures: Iterable[str]) -> list[str]:
    """What a reader of a comparison on an embedded backbone needs to know; [] for other scores."""
    stated = [parse_signature(signature)[1].get("backbone", "") for signature in signatures if signature]
    if not any(backbone.startswith("embedded") for backbone in stated):
        return []
    return [
        "`embedded` is for trying out, for finding wrong captions and for retrieval; it is too small to rank "
        "captioners, though fit comes nearest: to say which is better, use a backbone from the Hub, or judge"
    ]


def _length_notes(systems: Sequence[_System], rows: RowOptions) -> list[str]:
    """A note where systems whose captions differ in length are compared on an embedded backbone."""
    lengths = {}
    for system in systems:
        (cells,) = system.source.cells(find_candidate_column(system.source.columns, rows.candidate_column))
        captions = [text for text in cells if isinstance(text, str)]
        if not captions:
            return []
        lengths[system.name] = float(np.mean(list(map(len, captions))))
    if max(lengths.values()) <= 1.3 * min(lengths.values()):
        return []
    shown = "; ".join(f"{name}: {counted(round(length), 'character')}" for name, length in lengths.items())
    return [f"captions differ in length ({shown}), which moves scores on `embedded`"]


def _refuse_missing_scores(
    statistics: Mapping[str, Mapping[str, RowStatistics]], keys: Sequence[Key]
) -> None:
    for column, by_system in statistics.items():
        for name, part in by_system.items():
            if (missing := np.isnan(part.scores)).any():
                raise InputError(
                    f"{column}: {missing.sum():,} rows of {name} have no score, such as "
                    f"{keys[int(missing.argmax())]}; ",
                    Setting("common_rows", True),
                    " compares only the rows that every system has a score for",
                )
