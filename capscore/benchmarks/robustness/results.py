"""What robustness finds: drops by kind, false alarms by style, curves by degree; as tables, rows and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import __version__
from ...options import Sampling
from ...perturbations import KINDS, P, all_kinds, check_draws, chosen_kinds, kind_of
from ...perturbations.styles import STYLES
from ...statistics.columns import plain
from ...tables import Report, Result, Table, counted, fixed, level_text, percent, signed
from ..protocols.results import plain_mean
from ..results import MetricResult
from .captions import CaptionSet

# headings for a terminal of 80 columns, besides those of kinds
_SHORT = {
    "language": "",
    "title": "Title",
    "capitals": "CAPS",
    "blanks": "blank",
    "stopped": "stop",
    "fragment": "frag.",
    "paragraph": "par.",
}
_DROPS = (
    "Drops are changes of the mean score, in percent. Kept: original mean as a share of the first metric's, "
    "and how often original captions retrieve their photo, in percent."
)
_ALARMS = (
    "Below half: share of right captions that score below half of what {against} gives them, in percent. "
    "Kept: their mean as a share of the mean of {against}, in percent."
)
_CURVES = (
    "Drops are changes of the mean score, in percent; touched is the share of the words. ρ: Spearman's rank "
    "correlation of the fall and the share touched, over the degrees, and over captions at all degrees."
)
# numbers of a style or a kind, by name
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class RobustnessOptions:
    """How captions are perturbed, and how scores become numbers.

    Args:
        kinds: Names of perturbations, or of sets: "paper", "unseen", "all".
        p: Probability with which a word is drawn.
        order: Order of the objects in a substitution: "published", any order that differs, or "every", an
            order in which every object moves.
        sampling: Draws of photos for the intervals of the drops; its seed is the one of all random draws.
        styles: Whether right captions in other styles are scored too, to count false alarms.
        degrees: Whether captions are perturbed to each degree too, by the published kinds among `kinds`.
        sample: Largest number of captions per language; None for all.
        partial: Whether captions whose photo is missing are left out.
    """

    kinds: Sequence[str] = ("paper",)
    p: float = P
    order: str = "published"
    sampling: Sampling = field(default_factory=Sampling)
    styles: bool = False
    degrees: bool = False
    sample: int | None = None
    partial: bool = False

    def __post_init__(self) -> None:
        chosen = chosen_kinds(self.kinds)
        object.__setattr__(self, "kinds", tuple(kind for kind in all_kinds() if kind in chosen))
        check_draws(self.p, self.sampling.seed, self.order)

    def to_dict(self) -> dict[str, object]:
        """How captions are perturbed and drawn, by name, ready for JSON."""
        draws = {"seed": self.sampling.seed, "bootstrap": self.sampling.bootstrap}
        return {"kinds": list(self.kinds), "p": self.p, "order": self.order, **draws}


@dataclass(frozen=True)
class Versions:
    """What metrics make of captions in other styles, or at each degree of noise.

    Attributes:
        numbers: Metric → style or kind → numbers, as `run.alarms` or `run.curve` gives them.
        skipped: Style or kind → why the captions have no such version.
        against: Metric → name of the plain metric, for styles.
    """

    what: str
    settings: Mapping[str, object]
    numbers: Mapping[str, Mapping[str, Numbers]]
    skipped: Mapping[str, str]
    against: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        results = []
        for metric, numbers in self.numbers.items():
            result: dict[str, object] = {"metric": metric}
            if self.against:
                result["against"] = self.against[metric]
            results.append({**result, self.what: plain(numbers)})
        return {**self.settings, "results": results, "skipped": dict(self.skipped)}


@dataclass(frozen=True)
class SetResult:
    """What one set of captions says about every metric.

    Attributes:
        unchanged: Kind → number of captions that it left unchanged.
        not_found: Number of critical objects that are not in their captions.
        results: One result per metric, with the statistics "mean_original"; "mean_<kind>", "drop_<kind>" and
            their plain means "mean_average" and "drop_average" over the published kinds,
            "mean_average_unseen" and "drop_average_unseen" over the others; "original_of_first", the original
            mean as a share of the first metric's; "text_to_image_r@<k>", the share of captions that find
            their photo. Its scores are those of the original captions.
        styles, degrees: False alarms by style, and curves by degree; None if they were not asked for.
    """

    captions: CaptionSet
    options: RobustnessOptions
    unchanged: dict[str, int]
    not_found: int
    results: list[MetricResult]
    skipped: dict[str, str]
    notes: tuple[str, ...]
    styles: Versions | None = None
    degrees: Versions | None = None

    @property
    def language(self) -> str:
        return self.captions.language

    def result(self, metric: str) -> MetricResult:
        return next(result for result in self.results if result.metric == metric)

    def to_dict(self) -> dict[str, object]:
        return {
            **self.captions.names(),
            "split": self.captions.split,
            "capscore_version": __version__,
            "files": self.captions.files,
            "n_photos": len(set(self.captions.image_ids)),
            "images": "photos",
            "options": self.options.to_dict(),
            "unchanged": self.unchanged,
            "objects_not_found": self.not_found,
            "results": [result.to_dict() for result in self.results],
            "skipped": self.skipped,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Robustness(Result):
    """What `capscore.robustness` found, for each set of captions; it prints as tables."""

    sets: list[SetResult]

    def groups(self) -> dict[str, list[SetResult]]:
        """Sets by data set; a configuration that is not a language is a data set of its own."""
        found: dict[str, list[SetResult]] = {}
        for one in self.sets:
            name, config = one.captions.data, one.captions.config
            if config not in ("", "default", one.language):
                name = f"{name} · {config}"
            found.setdefault(name, []).append(one)
        return found

    def to_pandas(self) -> Any:
        """A row per set, metric and kind ("" for original captions), and degree where one was asked for."""
        import pyarrow as pa

        rows: list[dict[str, object]] = []
        for name, sets in self.groups().items():
            for one in sets:
                for result in one.results:
                    about = {"data": name, "language": one.language, "metric": result.metric}
                    rows.append({**about, "kind": "", "mean": result.value("mean_original")})
                    for kind in one.unchanged:
                        drop = result.statistics[f"drop_{kind}"]
                        found = {"mean": result.value(f"mean_{kind}"), "drop": drop.value}
                        rows.append({**about, "kind": kind, **found, "interval": drop.interval})
                    curves = one.degrees.numbers[result.metric] if one.degrees else {}
                    for kind, curve in curves.items():
                        for degree, value in zip(curve["degrees"], curve["drops"], strict=True):
                            rows.append({**about, "kind": kind, "degree": degree, "drop": value})
        names = ("data", "language", "metric", "kind", "degree", "mean", "drop", "interval")
        return pa.table({name: [row.get(name) for row in rows] for name in names}).to_pandas()

    def to_dict(self) -> dict[str, Any]:
        """Everything unrounded, as `capscore robustness --output` writes it."""
        document: dict[str, Any] = {"runs": [one.to_dict() for one in self.sets]}
        for one in self.sets:
            for name, part in (("styles", one.styles), ("degrees", one.degrees)):
                if part is not None:
                    numbers = {**one.captions.names(), **part.to_dict()}
                    document.setdefault(name, []).append(numbers)
        document["averages"] = {}
        for name, sets in self.groups().items():
            of_metrics = {}
            for result in sets[0].results:
                measured, published = averages(sets, result.metric)
                both = {key: {"measured": measured[key], "published": published[key]} for key in measured}
                of_metrics[result.metric] = both
            document["averages"][name] = of_metrics
        return document

    def report(self) -> Report:
        """For each data set: drops of each metric, and what is kept; then false alarms, and curves."""
        parts: list[Report | Table | str] = [
            _drops_report(name, sets) for name, sets in self.groups().items()
        ]
        parts += _alarms(self.sets)
        parts += _curves(self.sets)
        return Report("", parts)

    def not_measured(self) -> list[str]:
        """What could not be measured of which captions, and why."""
        lines: dict[str, None] = {}
        for one in self.sets:
            for part in (one, one.styles, one.degrees):
                for name, why in part.skipped.items() if part else ():
                    lines[f"{one.captions.title}: {name} was not measured. {why}"] = None
        return list(lines)


# ---- means over languages ----


def averages(
    sets: Sequence[SetResult], metric: str
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Statistic → plain mean over the languages, measured and published; None if a language lacks one."""
    measured: dict[str, float | None] = {}
    published: dict[str, float | None] = {}
    results = [one.result(metric) for one in sets]
    figures = [published_values(result) for result in results]
    for result in results:
        for name in result.statistics:
            measured[name] = plain_mean([one.value(name) for one in results])
            published[name] = plain_mean([part.get(name) for part in figures])
    return measured, published


def published_values(result: MetricResult) -> dict[str, float]:
    """The preferred published value of each statistic."""
    return {name: figures[0].measured_unit for name, figures in result.published.items()}


# ---- drops ----


def _drops_report(name: str, sets: Sequence[SetResult]) -> Report:
    parts: list[Table | str] = []
    measured = [kind for kind in sets[0].options.kinds if any(kind in one.unchanged for one in sets)]
    for result in sets[0].results:
        title = result.name
        for which, average in (("", "average"), (", kinds that PR-MCS does not train on", "average_unseen")):
            kinds = [kind for kind in measured if (kind in KINDS) == (average == "average")]
            if kinds:
                headings = ("language", "", "original", *kinds, "average")
                rows = _drop_rows(sets, result.metric, [*kinds, average])
                parts.append(_table(headings, rows, f"{title}{which}"))
    kept = []
    for one in sets:
        language = one.language
        for result in one.results:
            found = [_share(result.value(f"text_to_image_r@{k}")) for k in (1, 5, 10)]
            kept.append((language, result.metric, fixed(result.value("original_of_first"), 3, ""), *found))
            language = ""
    parts += [_table(("language", "metric", "of first", "R@1", "R@5", "R@10"), kept, "Kept"), _DROPS]
    split = sets[0].captions.split
    title = f"{name} ({split})" if split else name
    return Report(title, [*parts, *_sources(sets), *_remarks(sets)])


def _drop_rows(sets: Sequence[SetResult], metric: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Means, drops, intervals and published drops of a metric in each language, and their averages."""
    rows: list[tuple[str, ...]] = []
    for one in sets:
        result = one.result(metric)
        values = {name: statistic.value for name, statistic in result.statistics.items()}
        rows += _rows(one.language, names, values)
        rows += _interval_rows(result, names, level_text(one.options.sampling.confidence))
        rows += _published_row(names, published_values(result))
    if len(sets) > 1:
        measured, published = averages(sets, metric)
        rows += _rows("all", names, measured)
        rows += _published_row(names, published)
    return rows


def _rows(language: str, names: Sequence[str], values: Mapping[str, float | None]) -> list[tuple[str, ...]]:
    means = [fixed(values.get(f"mean_{name}"), 4, "") for name in ("original", *names)]
    drops = [_percent(values.get(f"drop_{name}")) for name in names]
    return [(language, "mean", *means), ("", "drop %", "", *drops)]


def _interval_rows(result: MetricResult, names: Sequence[str], level: str) -> Iterator[tuple[str, ...]]:
    lows, highs = [], []
    for name in names:
        statistic = result.statistics.get(f"drop_{name}")
        low, high = (statistic and statistic.interval) or (None, None)
        lows.append(_percent(low))
        highs.append(_percent(high))
    if any(lows):
        yield "", f"{level} from", "", *lows
        yield "", f"{level} to", "", *highs


def _published_row(names: Sequence[str], published: Mapping[str, float | None]) -> Iterator[tuple[str, ...]]:
    drops = [_percent(published.get(f"drop_{name}")) for name in names]
    if any(drops):
        yield "", "published", fixed(published.get("mean_original"), 4, ""), *drops


def _sources(sets: Sequence[SetResult]) -> Iterator[str]:
    """Sources of the published figures with their notes, each once with its languages."""
    languages: dict[tuple[str, str], list[str]] = {}
    for one in sets:
        for result in one.results:
            for figure in result.published.get("drop_average", [])[:1]:
                source = figure.citation
                if figure.note:
                    source += f": {figure.note}"
                languages.setdefault((result.metric, source), []).append(one.language)
    for (metric, source), codes in languages.items():
        yield f"published {metric} ({', '.join(codes)}): {source}"


def _remarks(sets: Sequence[SetResult]) -> Iterator[str]:
    """Counts, notes, signatures, and what was not run."""
    for one in sets:
        photos = counted(len(set(one.captions.image_ids)), "photo")
        yield f"{one.language}: {counted(len(one.captions), 'caption')} of {photos}"
        for kind, reason in one.skipped.items():
            yield f"  {kind}: not run. {reason}"
        notes = dict.fromkeys(one.notes)
        for result in one.results:
            yield f"  {result.signature}"
            notes |= dict.fromkeys((*result.outcome.notes, *result.warnings))
        for note in notes:
            yield f"  note: {note}"


# ---- styles and degrees ----


def _alarms(sets: Sequence[SetResult]) -> Iterator[Table | str]:
    """Of each metric and language, captions per style, the share below half, and what is kept."""
    found = [(one.language, one.styles) for one in sets if one.styles is not None]
    for metric, against in found[0][1].against.items() if found else ():
        rows = []
        for language, versions in found:
            styles = [versions.numbers[metric].get(style, {}) for style in STYLES]
            rows.append((language, "captions", *(f"{part.get('n', '')}" for part in styles)))
            rows.append(("", "below half", *(_share(part.get("below_half")) for part in styles)))
            rows.append(("", "kept", *(_share(part.get("kept")) for part in styles)))
        yield _table(("language", "", *STYLES), rows, f"Right captions in other styles, {metric}")
        yield _ALARMS.format(against=against)
    yield from _skipped(found)


def _curves(sets: Sequence[SetResult]) -> Iterator[Table | str]:
    """Of each metric, language and kind, the drops at each degree with both ρ, and the share touched."""
    found = [(one.language, one.degrees) for one in sets if one.degrees is not None]
    for metric in found[0][1].numbers if found else ():
        rows, degrees = [], []
        for language, versions in found:
            for kind, curve in versions.numbers[metric].items():
                degrees = [f"{degree:g}" for degree in curve["degrees"]]
                rhos = fixed(curve["of_means"], 2, ""), fixed(curve["of_captions"], 2, "")
                rows.append((language, kind, "drop", *map(_percent, curve["drops"]), *rhos))
                rows.append(("", "", "touched", *map(_share, curve["touched"]), "", ""))
                language = ""
        headings = ("language", "kind", "degree", *degrees, "ρ", "ρ each")
        yield _table(headings, rows, f"By degree, {metric}", left=3)
        yield _CURVES
    yield from _skipped(found)


def _skipped(found: Sequence[tuple[str, Versions]]) -> Iterator[str]:
    for language, versions in found:
        for name, reason in versions.skipped.items():
            yield f"{language}: {name} was not measured. {reason}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str, left: int = 2) -> Table:
    titles = dict(_SHORT)
    for kind in map(kind_of, all_kinds()):
        titles.setdefault(kind.name, kind.title or kind.name)
    short = [titles.get(name, name) for name in headings]
    return Table(headings, rows, title, left=left, short=short)


def _percent(value: float | None) -> str:
    return signed(percent(value), 1, "")


def _share(value: float | None) -> str:
    return fixed(percent(value), 1, "")
