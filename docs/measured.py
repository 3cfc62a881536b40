"""Writes what was measured here into the cards of metrics and benchmarks, and into docs/reproduced.md.

    python docs/measured.py

In: `results/`, files that `capscore benchmark --output` wrote. Out: these documents, with what stands
between their markers `<!-- results -->` and `<!-- end -->` written anew. A test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from capscore.benchmarks.result_file import ReportedNumber, read_results
from capscore.benchmarks.results import benchmark_title, statistic_name
from capscore.files.write import write_text
from capscore.tables import signed

ROOT = Path(__file__).resolve().parents[1]
_PART = re.compile(r"(<!-- results -->\n).*?(<!-- end -->)", re.DOTALL)
# metric of a card → the names under which its results stand
_NAMES = {
    "infometic": ("infometic", "infometic_plus"),
    "cider": ("cider", "cider_d"),
    "bleu": ("bleu_4", "bleu_1"),
}
_STATISTICS = {"tau_b": "τ_b", "tau_c": "τ_c", "spearman": "ρ", "pearson": "r"}


def cards() -> dict[Path, str]:
    """Document with markers → its text with the tables of now."""
    numbers = read_results([ROOT / "results"])
    found = {}
    page = ROOT / "docs/reproduced.md"
    for card in sorted([page, *ROOT.glob("metrics/*/README.md"), *ROOT.glob("datasets_scripts/*/README.md")]):
        text = card.read_text(encoding="utf-8")
        if "<!-- results -->" not in text:
            continue
        lines = of_metric if card.parents[1].name == "metrics" else of_benchmark
        table = "\n".join(of_published(numbers) if card == page else lines(card.parent.name, numbers))
        found[card] = _PART.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)
    return found


def of_metric(metric: str, numbers: Iterable[ReportedNumber]) -> Iterator[str]:
    """What a metric got on each benchmark: its main number beside the published one; signatures."""
    names = _NAMES.get(metric, (metric,))
    own = [one for one in numbers if one.metric in names and one.main]
    yield "| benchmark | metric | backbone | statistic | measured [95 %] | published |"
    yield "|---|---|---|---|---:|---:|"
    for one in own:
        published = "" if one.published is None else f"{100 * one.published:.1f} ({one.source})"
        yield (
            f"| `{one.benchmark}`, {one.config} | `{one.metric}` | {_code(one.backbone)} | "
            f"{_named(one.statistic)} | {_measured(one)} | {published} |"
        )
    yield ""
    yield "Files: " + ", ".join(f"`results/{name}`" for name in dict.fromkeys(one.file for one in own)) + "."
    yield "Signatures:"
    yield ""
    for signature in dict.fromkeys(one.signature for one in own):
        yield f"    {signature}"


def of_benchmark(benchmark: str, numbers: Iterable[ReportedNumber]) -> Iterator[str]:
    """What each metric got on a benchmark: a table per configuration, a column per number."""
    own = [one for one in numbers if one.benchmark == benchmark]
    for config in dict.fromkeys(one.config for one in own):
        here = [one for one in own if one.config == config]
        statistics = list(dict.fromkeys(one.statistic for one in here))
        yield f"Configuration `{config}`, {here[0].n_of:,} rows, in percent:"
        yield ""
        yield f"| metric | backbone | {' | '.join(map(_named, statistics))} |"
        yield f"|---|---|{'---:|' * len(statistics)}"
        for metric, backbone in dict.fromkeys((one.metric, one.backbone) for one in here):
            values = {
                one.statistic: one.value
                for one in here
                if (one.metric, one.backbone) == (metric, backbone) and one.value is not None
            }
            cells = [f"{100 * values[name]:.1f}" if name in values else "" for name in statistics]
            yield f"| `{metric}` | {_code(backbone)} | {' | '.join(cells)} |"
        yield ""
    names = dict.fromkeys(one.file for one in own)
    yield "Intervals, signatures and versions: " + ", ".join(f"`results/{name}`" for name in names) + "."


def of_published(numbers: Iterable[ReportedNumber]) -> Iterator[str]:
    """Published figures beside the numbers measured here: reproduced, not reproduced, not comparable."""
    found: dict[str, dict[tuple[str, ...], list[Sequence[str]]]] = {}
    for one in numbers:
        for figure in one.figures:
            standing, _, why = figure["standing"].partition(": ")
            name = statistic_name(one.statistic)
            metric = f"`{one.metric}`" + f" on `{one.backbone}`" * bool(one.backbone)
            key = (benchmark_title(one.benchmark, one.config), metric)
            row: Sequence[str]
            if standing == "reproduced":
                row = f"{name} {100 * one.value:.2f}", figure["source"]
            else:
                key += (why,) if why else (name, f"{100 * one.value:.2f}", figure["printed"])
                row = (
                    f"{name} {figure['printed']}" if why else signed(100 * figure["difference"], 2),
                    figure["source"],
                )
            found.setdefault(standing, {}).setdefault(key, []).append(row)
    tables = {
        "reproduced": ("benchmark", "metric", "measured", "published by"),
        "not reproduced": ("benchmark", "metric", "statistic", "measured", "published", "off by", "source"),
        "not comparable": ("benchmark", "metric", "why", "published", "source"),
    }
    counts = (f"{sum(map(len, found.get(standing, {}).values()))} {standing}" for standing in tables)
    yield f"Of the figures here, {', '.join(counts)}."
    for standing, headings in tables.items():
        yield f"\n## {standing.capitalize()}\n\n| {' | '.join(headings)} |\n|{'---|' * len(headings)}"
        for key, rows in found.get(standing, {}).items():
            columns = ("; ".join(dict.fromkeys(column)) for column in zip(*rows, strict=True))
            yield f"| {' | '.join((*key, *columns))} |"


def _measured(one: ReportedNumber) -> str:
    if one.value is None:
        return ""
    interval = one.interval and f" [{100 * one.interval[0]:.1f}–{100 * one.interval[1]:.1f}]"
    return f"{100 * one.value:.1f}{interval or ''}"


def _named(statistic: str) -> str:
    """A statistic as a reader knows it.

    >>> _named("tau_b"), _named("accuracy_hc")
    ('τ_b', 'accuracy hc')
    """
    return _STATISTICS.get(statistic, statistic.replace("_", " "))


def _code(name: str) -> str:
    return f"`{name}`" if name else ""


def main() -> None:
    for card, text in cards().items():
        write_text(card, text)


if __name__ == "__main__":
    main()
