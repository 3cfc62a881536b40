"""Statistics of captions → the columns of Thapliyal et al. 2022, Table 1, for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..benchmarks.caption_statistics import COUNTED, MEANS, CaptionTable, ConfigStatistics
from ..benchmarks.protocols.results import counted, notes_by_config
from .benchmark_table import printable

if TYPE_CHECKING:
    from rich.console import Console

HEADINGS = ("config", "captions", "1", "2", "3+", "words", "characters")
_SHORT = {
    "captions": "captions",
    "photos_with_1": "1",
    "photos_with_2": "2",
    "photos_with_3_or_more": "3+",
    "words": "words",
    "characters": "char.",
}
_LEGEND = (
    "1, 2, 3+: photos with so many captions. words: between spaces, per caption. characters: code points per "
    "caption, spaces among them."
)
_UNSPACED = ("ja", "th", "zh")


def cells(one: ConfigStatistics) -> tuple[str, ...]:
    """A line of the table.

    >>> from capscore.benchmarks.caption_statistics import count_captions
    >>> cells(ConfigStatistics("de", "test", "de", count_captions([["Ein Hund"], ["Zwei", "Drei"]])))
    ('de', '3', '1', '1', '0', '1.3', '5.3')
    """
    own = vars(one.found)
    numbers = (f"{own[name]:,}" for name in COUNTED)
    means = ("–" if own[name] is None else f"{own[name]:.1f}" for name in MEANS)
    return one.config, *numbers, *means


def beside(one: ConfigStatistics) -> str:
    """What is printed where it differs; "same" where nothing does, "" where nothing is published."""
    if not one.published:
        return ""
    return ", ".join(f"{_SHORT[name]} {number:,}" for name, number in one.differing.items()) or "same"


def remarks(table: CaptionTable) -> Iterator[str]:
    """The text below the table."""
    total = sum(one.found.captions for one in table.configs)
    yield f"{total:,} captions in {counted(len(table.configs), 'configuration')}. {_LEGEND}"
    unspaced = [one.config for one in table.configs if one.language in _UNSPACED]
    if unspaced:
        yield f"{', '.join(unspaced)}: written without spaces, so a caption counts as about one word."
    for source in dict.fromkeys(one.source for one in table.configs if one.source):
        yield f"published: {source}; where it differs, its numbers are shown."
    for note in notes_by_config([(one.config, note) for one in table.configs for note in one.notes]):
        yield f"note: {note}"
    reasons: dict[str, list[str]] = {}
    for config, reason in table.missing.items():
        reasons.setdefault(reason.replace(repr(config), "…").replace(f"({config})", "…"), []).append(config)
    for configs in reasons.values():
        yield f"{', '.join(configs)}: not counted. {table.missing[configs[0]]}"


def print_captions(table: CaptionTable, console: Console) -> None:
    """Print the table and its remarks."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def text(words: str) -> Text:
        return Text(printable(words, console.encoding))

    has_published = any(one.published for one in table.configs)
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for number, name in enumerate(HEADINGS):
        shown.add_column(name, justify="right" if number else "left", no_wrap=True)
    if has_published:
        shown.add_column("published", overflow="fold")
    for one in table.configs:
        shown.add_row(*map(text, [*cells(one), beside(one)] if has_published else cells(one)))
    console.print(Text(f"{table.benchmark} ({table.configs[0].split})", style="bold"))
    console.print(shown)
    for remark in remarks(table):
        console.print(text(remark))


def to_markdown(table: CaptionTable) -> str:
    """The table and its remarks."""
    parts = [
        f"## {table.benchmark} ({table.configs[0].split})\n",
        f"| {' | '.join((*HEADINGS, 'published'))} |",
        f"|---{'|---:' * (len(HEADINGS) - 1)}|---|",
    ]
    parts += [f"| {' | '.join((*cells(one), beside(one)))} |" for one in table.configs]
    return "\n".join([*parts, "", *(f"- {remark}" for remark in remarks(table))]) + "\n"
