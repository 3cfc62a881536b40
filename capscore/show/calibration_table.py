"""What a good score is: a file of calibrations → a table of percentiles, for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..metrics.signature import parse_signature

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = (5, 25, 50, 75, 95)
HEADER = ("metric", "captions", "n", *(f"{percent} %" for percent in SHOWN))


def lines(document: Mapping[str, Any], language: str = "all") -> list[tuple[str, ...]]:
    """Cells of the table: for each metric a line for right captions, and one for captions of other photos.

    Args:
        document: Content of a file of calibrations.
        language: Language, or "all".
    """
    places = [list(document["percents"]).index(percent) for percent in SHOWN]
    found = []
    for entry in document["metrics"]:
        kinds = entry["languages"].get(language)
        for kind in ("right", "shuffled") if kinds else ():
            values = [f"{kinds[kind]['values'][place]:.3f}".replace("-", "−") for place in places]
            name = metric_name(entry) if kind == "right" else ""
            found.append((name, kind, f"{kinds[kind]['n']:,}", *values))
    return found


def metric_name(entry: Mapping[str, Any]) -> str:
    """A metric, and how many references it was given.

    >>> metric_name({"metric": "text_score", "signature": "text_score|refs:4|lang:en"})
    'text_score, 4 references'
    """
    count = parse_signature(entry["signature"])[1].get("refs", "0")
    if count == "0":
        return str(entry["metric"])
    return f"{entry['metric']}, {count} reference{'' if count == '1' else 's'}"


def counts(document: Mapping[str, Any]) -> str:
    """The set, its counts and the date, in one sentence."""
    made_of = document["set"]
    languages = ", ".join(f"{code} {count:,}" for code, count in made_of["languages"].items())
    return (
        f"{made_of['name']}: {made_of['captions']:,} captions of {made_of['photos']:,} photos ({languages}), "
        f"measured on {document['made']} with capscore {document['version']}; up to "
        f"{document['shuffled_per_caption']} captions of other photos for each."
    )


def print_table(document: Mapping[str, Any], console: Console) -> None:
    """Print the percentiles over all languages, and what they were measured on."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for name in HEADER:
        table.add_column(name, overflow="fold", justify="left" if name in HEADER[:2] else "right")
    for line in lines(document):
        table.add_row(*map(Text, line))
    console.print(table)
    console.print(Text(counts(document)))


def table(document: Mapping[str, Any], language: str = "all") -> str:
    """The percentiles of a language, or of all, as a Markdown table."""
    found = [f"| {' | '.join(HEADER)} |", f"|---|---{'|---:' * (len(HEADER) - 2)}|"]
    found += [f"| {' | '.join(line)} |" for line in lines(document, language)]
    return "\n".join(found)
