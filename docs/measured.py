"""Writes what was measured here into the cards of metrics and benchmarks.

    python docs/measured.py

In: `results/`, files that `capscore benchmark --output` wrote. Out: the cards, with what stands between their
markers `<!-- results -->` and `<!-- end -->` written anew. A test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from capscore.benchmarks.result_file import ReportedNumber, read_results
from capscore.files.write import write_text

ROOT = Path(__file__).resolve().parents[1]
_PART = re.compile(r"(<!-- results -->\n).*?(<!-- end -->)", re.DOTALL)
# metric of a card → the names under which its results stand
_NAMES = {"infometic": ("infometic", "infometic_plus"), "cider": ("cider", "cider_d")}
_STATISTICS = {"tau_b": "τ_b", "tau_c": "τ_c", "spearman": "ρ", "pearson": "r"}


def cards() -> dict[Path, str]:
    """Card with markers → its text with the tables of now."""
    numbers = read_results([ROOT / "results"])
    found = {}
    for card in sorted([*ROOT.glob("metrics/*/README.md"), *ROOT.glob("datasets_scripts/*/README.md")]):
        text = card.read_text(encoding="utf-8")
        if "<!-- results -->" not in text:
            continue
        lines = of_metric if card.parents[1].name == "metrics" else of_benchmark
        table = "\n".join(lines(card.parent.name, numbers))
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
