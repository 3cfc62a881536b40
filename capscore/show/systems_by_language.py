"""Systems that were compared in several languages → tables for a terminal of 80 columns, or Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..benchmarks.protocols.results import counted
from ..benchmarks.systems.run import ALL, LanguageScores, SystemsMetric, SystemsRun
from ..benchmarks.systems.side_by_side import PublishedAgreement, published_citation
from .benchmark_table import NAMES, printable

if TYPE_CHECKING:
    from rich.console import Console

CORRELATIONS = ("pearson", "spearman", "tau_b")
_MEAN = "mean"
_CLEAR = "*"
_NONE = "–"
_WIDEST = 9  # of a system's name in a heading of the terminal
_REFERENCES = {"xm600": "XM600", "xm3600": "XM3600", "coco_dev_translated": "COCO-dev"}


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Attributes:
        title: Line above it; "" for none.
        headings: Headings of the columns.
        rows: Cells.
        left: Number of columns whose cells stand to the left, which are repeated where columns do not fit.
        bold: (row, column) of cells that stand out.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1
    bold: frozenset[tuple[int, int]] = frozenset()


def tables(run: SystemsRun) -> Iterator[TextTable]:
    """For each metric: means and differences per language, and agreement with people's ratings."""
    for metric in run.metrics:
        if len(run.systems) == 2:
            yield _two_systems(run, metric)
        else:
            yield _means(run, metric)
            if len(run.systems) > 2:
                yield _differences(run, metric)
        if metric.agreement:
            yield _agreement(metric)


def remarks(run: SystemsRun) -> Iterator[str]:
    """The text below the tables: what intervals are, published figures, notes, signatures."""
    if len(run.systems) > 1:
        level = f"{100 * run.options.confidence:.10g}%"
        drawn = f"{run.options.bootstrap:,} bootstrap draws of photos, seed {run.options.seed}"
        yield (
            f"{_CLEAR} marks a difference whose {level} interval leaves out 0 ({drawn}); intervals are not "
            "corrected for the number of languages or of pairs."
            if run.options.bootstrap
            else "No intervals: no bootstrap draws."
        )
    for model in dict.fromkeys(filter(None, map(_published_model, run.metrics))):
        yield (
            f"published: {model}, the best model of {published_citation()}; its captions and the references "
            "were split into words in another way."
        )
    if any(metric.agreement for metric in run.metrics):
        yield (
            "Agreement: correlation of differences with side-by-side gains; each evaluation counts twice, "
            "with signs flipped (Thapliyal et al. 2022, §3.3)."
        )
    for note in run.notes:
        yield f"note: {note}"
    for metric in run.metrics:
        seconds = sum(part.seconds for part in metric.languages)
        languages = counted(len(metric.languages), "language")
        photos = sum(part.n_photos for part in metric.languages)
        references = sum(part.n_references for part in metric.languages)
        yield (
            f"{metric.metric}: {languages}, {counted(photos, 'captioned photo')} per system, "
            f"{counted(references, 'reference')}; {seconds:.1f} s"
        )
        yield f"  {metric.signature}"
        for name, correlated in metric.agreement.items():
            for note in correlated.notes:
                yield f"  note: agreement, {name}: {note}"
        for warning in dict.fromkeys(text for part in metric.languages for text in part.warnings):
            yield f"  note: {warning}"


def heading(run: SystemsRun) -> str:
    """Name and split of the set, and the systems."""
    return f"{run.benchmark} ({run.split}): {', '.join(run.systems)}"


def print_systems(run: SystemsRun, console: Console) -> None:
    """Print tables and remarks."""
    from rich.text import Text

    console.print(Text(printable(heading(run), console.encoding), style="bold"))
    for table in tables(run):
        _print(table, console)
    console.print()
    for remark in remarks(run):
        console.print(Text(printable(remark, console.encoding)), soft_wrap="|" in remark)


def to_markdown(run: SystemsRun) -> str:
    """Tables and remarks."""
    parts = [f"## {heading(run)}\n"]
    for table in tables(run):
        parts += _markdown(table)
    parts += [f"- `{remark.strip()}`" if "|" in remark else f"- {remark.strip()}" for remark in remarks(run)]
    return "\n".join(parts) + "\n"


def published_table(lines: Sequence[PublishedAgreement]) -> TextTable:
    """Thapliyal et al. 2022, Table 6: computed from its Tables 5 and 7, beside what it prints."""
    return TextTable(
        "CIDEr differences against people's side-by-side gains, recomputed (printed)",
        ("languages", "references", "N", *(NAMES[name] for name in CORRELATIONS)),
        tuple(
            (
                one.languages,
                _REFERENCES[one.references],
                str(one.level.n_points),
                *(
                    f"{_decimals(one.level.values[name], 3)} ({_decimals(one.printed[name], 2)})"
                    for name in CORRELATIONS
                ),
            )
            for one in lines
        ),
        left=2,
    )


def print_published(lines: Sequence[PublishedAgreement], console: Console) -> None:
    """Print Table 6."""
    from rich.text import Text

    _print(published_table(lines), console)
    console.print(Text(f"{published_citation()}; inputs are rounded as printed."))


def published_markdown(lines: Sequence[PublishedAgreement]) -> str:
    """Table 6 as Markdown."""
    return "\n".join([*_markdown(published_table(lines)), f"- {published_citation()}"]) + "\n"


def _two_systems(run: SystemsRun, metric: SystemsMetric) -> TextTable:
    """One line per language: both means, their difference, its interval."""
    first, second = run.systems
    model = _published_model(metric)
    level = f"{100 * run.options.confidence:.10g}% interval"
    rows: list[tuple[str, ...]] = []
    bold = set()
    for part in metric.languages:
        found = next(iter(part.differences), None)
        interval = None if found is None else found.interval
        cells = [part.language, *_photos(metric, part), _score(part, first), _score(part, second)]
        cells.append(_NONE if found is None else _signed(found.difference) + _mark(found.is_clear))
        cells.append("" if interval is None else f"{_signed(interval.low)} to {_signed(interval.high)}")
        cells += _published(part, model)
        if found is not None and found.difference:
            bold.add((len(rows), cells.index(_score(part, second if found.difference > 0 else first))))
        rows.append(tuple(cells))
    means = metric.means
    if len(metric.languages) > 1 and {first, second} <= means.keys():
        difference = _signed(means[second] - means[first]) + " "
        before = [_MEAN, *_photos(metric, None), _decimals(means[first]), _decimals(means[second])]
        rows.append((*before, difference, "", *([""] if model else [])))
    headings = ["language", *_photos(metric, None, "photos"), first, second, f"{second} − {first}", level]
    return TextTable(
        _title(metric),
        tuple([*headings, "published"] if model else headings),
        tuple(rows),
        bold=frozenset(bold),
    )


def _means(run: SystemsRun, metric: SystemsMetric) -> TextTable:
    """One line per language: the mean of every system, the best in bold."""
    model = _published_model(metric)
    names = list(run.systems)
    start = 1 + len(_photos(metric, None))
    rows: list[tuple[str, ...]] = []
    bold = set()
    for part in metric.languages:
        if len(part.means) > 1:
            best = max(part.means.values())
            ahead = [name for name, mean in part.means.items() if mean == best]
            bold |= {(len(rows), start + names.index(name)) for name in ahead}
        scores = [_score(part, name) for name in names]
        rows.append((part.language, *_photos(metric, part), *scores, *_published(part, model)))
    if len(metric.languages) > 1:
        means = metric.means
        scores = [_decimals(means[name]) if name in means else _NONE for name in names]
        rows.append((_MEAN, *_photos(metric, None), *scores, *([""] if model else [])))
    headings = ["language", *_photos(metric, None, "photos"), *names]
    return TextTable(
        f"{_title(metric)}: means",
        tuple([*headings, "published"] if model else headings),
        tuple(rows),
        bold=frozenset(bold),
    )


def _differences(run: SystemsRun, metric: SystemsMetric) -> TextTable:
    """One line per language: the difference of every two systems."""
    rows: list[tuple[str, ...]] = []
    for part in metric.languages:
        found = {(one.first, one.second): one for one in part.differences}
        cells = [part.language]
        for pair in run.pairs:
            one = found.get(pair)
            cells.append(_NONE if one is None else _signed(one.difference) + _mark(one.is_clear))
        rows.append(tuple(cells))
    if len(metric.languages) > 1:
        means = metric.means
        cells = [_MEAN]
        for first, second in run.pairs:
            known = {first, second} <= means.keys()
            cells.append(_signed(means[second] - means[first]) + " " if known else _NONE)
        rows.append(tuple(cells))
    headings = [f"{second} − {first}" for first, second in run.pairs]
    return TextTable(f"{metric.metric}: differences", ("language", *headings), tuple(rows))


def _agreement(metric: SystemsMetric) -> TextTable:
    """Correlations with people's gains."""
    return TextTable(
        f"{metric.metric}: agreement with side-by-side ratings",
        ("language", "pairs", *(NAMES[name] for name in CORRELATIONS)),
        tuple(
            (
                name,
                str(level.n_evaluations),
                *(_decimals(level.values[which], 3) for which in CORRELATIONS),
            )
            for name, level in sorted(metric.agreement.items(), key=lambda item: (item[0] != ALL, item[0]))
        ),
    )


def _print(table: TextTable, console: Console) -> None:
    """Print a table; where its columns do not fit, in several parts, each with the first columns again."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def text(words: str, style: str = "") -> Text:
        return Text(printable(words, console.encoding), style=style)

    console.print(text(f"\n{table.title}"))
    for columns in _parts(table, console.width):
        shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
        for column in columns:
            shown.add_column(
                text(table.headings[column]),
                justify="left" if column < table.left else "right",
                overflow="fold",
                min_width=_width(table, column),
                max_width=_width(table, column),
            )
        for number, row in enumerate(table.rows):
            if row[0] == _MEAN:
                shown.add_section()
            shown.add_row(
                *(text(row[column], "bold" if (number, column) in table.bold else "") for column in columns)
            )
        console.print(shown)


def _parts(table: TextTable, width: int) -> Iterator[list[int]]:
    """The columns that stand beside each other; the first ones are in every part."""
    first = list(range(table.left))
    taken: list[int] = []
    for column in range(table.left, len(table.headings)):
        together = [*first, *taken, column]
        if taken and sum(_width(table, one) for one in together) + 3 * (len(together) - 1) > width:
            yield [*first, *taken]
            taken = []
        taken.append(column)
    yield [*first, *taken]


def _width(table: TextTable, column: int) -> int:
    """The width of a column: that of its cells, and of its heading unless that is folded."""
    from rich.cells import cell_len

    cells = max((cell_len(row[column]) for row in table.rows), default=1)
    return max(cells, min(cell_len(table.headings[column]), _WIDEST))


def _markdown(table: TextTable) -> list[str]:
    rule = "|".join(["---"] * table.left + ["---:"] * (len(table.headings) - table.left))
    rows = []
    for number, row in enumerate(table.rows):
        cells = [cell.strip().replace("|", "\\|").replace("*", "\\*") for cell in row]
        rows.append([f"**{cell}**" if (number, n) in table.bold else cell for n, cell in enumerate(cells)])
    named = [heading.replace("|", "\\|") for heading in table.headings]
    lines = [f"| {' | '.join(row)} |" for row in (named, *rows)]
    return [f"### {table.title}\n", lines[0], f"|{rule}|", *lines[1:], ""]


def _score(part: LanguageScores, system: str) -> str:
    return _decimals(part.means[system]) if system in part.means else _NONE


def _title(metric: SystemsMetric) -> str:
    """The metric, with the number of photos where it is the same in every language."""
    numbers = {part.n_photos for part in metric.languages}
    if len(numbers) > 1:
        return metric.metric
    return f"{metric.metric} ({counted(numbers.pop(), 'photo')} per language)"


def _photos(metric: SystemsMetric, part: LanguageScores | None, otherwise: str = "") -> list[str]:
    """The cell of the number of photos; [] where all languages have the same."""
    if len({one.n_photos for one in metric.languages}) == 1:
        return []
    return [otherwise if part is None else f"{part.n_photos:,}"]


def _published_model(metric: SystemsMetric) -> str:
    """The published model that is best over these languages; "" where none is published."""
    totals: Counter[str] = Counter()
    for part in metric.languages:
        totals.update(part.published)
    return max(totals, key=lambda model: totals[model]) if totals else ""


def _published(part: LanguageScores, model: str) -> list[str]:
    """The cell of the published model; [] where no language has one."""
    if not model:
        return []
    return [f"{part.published[model]:.3f}" if model in part.published else ""]


def _mark(is_clear: bool) -> str:
    return _CLEAR if is_clear else " "


def _decimals(value: float | None, decimals: int = 4) -> str:
    return "undefined" if value is None else f"{value:.{decimals}f}".replace("-", "−")


def _signed(value: float) -> str:
    text = f"{value:+.4f}"
    return "0.0000" if text in ("+0.0000", "-0.0000") else text.replace("-", "−")
