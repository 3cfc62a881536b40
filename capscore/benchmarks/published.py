"""Finds published figures: a benchmark and a metric → the figures in papers, with their sources."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ..backbones import find as find_backbone

# One formula, 2.5 · max(cos, 0), which papers call MCS if the text tower is multilingual. With a named
# backbone both names mean the same score.
_ONE_FORMULA = frozenset({"clip_score", "mcs"})


@dataclass(frozen=True)
class Published:
    """One printed figure.

    Attributes:
        config: Name of its configuration, such as "expert"; "all" for all configurations together.
        statistic: "tau_b", "tau_c", "spearman", "pearson", "accuracy…" (by category, piece or experiment),
            "…_r@k", "mean…" and "drop…" (by perturbation).
        unit: "percent", "fraction" or "score" (the metric's own scale).
        kind: "published" (read in the source), "quoted" (read in another public source that quotes it) or
            "recomputed" (on the official files).
        setting: Differences from the plain metric on the unchanged benchmark, in parts joined by "+"; "" for
            none.
        decimals: Decimals that its column prints.
        unlike: Difference that rules out comparing a measured value with it; "" for none.
    """

    benchmark: str
    config: str
    metric: str
    statistic: str
    value: float
    unit: str
    source: str
    table: str
    kind: str
    backbone: str | None = None
    language: str | None = None
    setting: str = ""
    note: str = ""
    decimals: int = 0
    unlike: str = ""

    @property
    def citation(self) -> str:
        """Source and table, short enough for a table cell."""
        return f"{sources()[self.source].short}, {self.table}"

    @property
    def measured_unit(self) -> float:
        """The value in capscore's unit: percentages divided by 100, all others unchanged."""
        return round(self.value / 100, 8) if self.unit == "percent" else self.value

    @property
    def printed(self) -> str:
        """The value times 100, with the digits that its table has."""
        decimals = self.decimals
        if self.unit != "percent":
            decimals = max(0, decimals - 2)
        return f"{100 * self.measured_unit:.{decimals}f}"

    def standing(self, measured: float | None) -> str:
        """What a measured value in capscore's unit says about this one.

        Returns:
            "reproduced" if it differs by at most half a unit of the last printed digit, "not reproduced" if
            by more, or "not comparable: " with the reason.
        """
        if self.unlike or measured is None:
            return f"not comparable: {self.unlike or 'the measured value is undefined'}"
        difference = abs(measured - self.measured_unit)
        if self.unit == "percent":
            difference *= 100
        return "reproduced" if difference <= 0.5 * 10**-self.decimals + 1e-9 else "not reproduced"

    def beside(self, measured: float | None) -> dict[str, Any]:
        """The published value as it stands beside a measured one, ready for JSON."""
        found: dict[str, Any] = {"value": self.measured_unit, "printed": self.printed}
        found |= {"kind": self.kind, "metric": self.metric, "backbone": self.backbone}
        found |= {"setting": self.setting, "note": self.note, "source": self.citation, "difference": None}
        if measured is not None:
            found["difference"] = measured - self.measured_unit
        return {**found, "standing": self.standing(measured)}


@dataclass(frozen=True)
class Source:
    """A source of figures: `short` for a table cell ("Hu et al. 2023"), `full` for a bibliography."""

    short: str
    full: str


def find(
    benchmark: str,
    config: str | None,
    metric: str,
    *,
    backbone: str | None = None,
    language: str | None = None,
) -> list[Published]:
    """Every published figure of a metric on a benchmark, preferred figures first.

    Returns:
        The figures; [] if nothing is published.
    """
    metrics = {metric}
    if backbone is not None:
        known = find_backbone(backbone)
        if known is not None:
            backbone = known.name
        if metric in _ONE_FORMULA:
            metrics = set(_ONE_FORMULA)
    return [
        figure
        for figure in figures()
        if figure.benchmark == benchmark
        and figure.metric in metrics
        and config in (None, figure.config)
        and backbone in (None, figure.backbone)
        and language in (None, figure.language)
    ]


@cache
def figures() -> tuple[Published, ...]:
    """Every figure, in the order of the file, which is the order of preference."""
    return tuple(figure for table in _content()["tables"] for figure in _of_table(table))


@cache
def sources() -> dict[str, Source]:
    return {key: Source(**texts) for key, texts in _content()["sources"].items()}


@dataclass(frozen=True)
class PublishedOrder:
    """Published numbers of captioning systems: a column of a table.

    Attributes:
        title: Heading of the column.
        source: What the table is from, short enough for a line.
        values: System → number, as printed; systems without one are left out.
        higher_is_better: Whether the highest number is the best.
    """

    title: str
    source: str
    values: dict[str, float]
    higher_is_better: bool = True


def orders_of(benchmark: str, config: str | None = None) -> list[PublishedOrder]:
    """Published numbers of the systems of a set of captioned photos, by column; [] if nothing is published.

    >>> [order.title for order in orders_of("coco_captions", "karpathy")][3:5]
    ['CLIPScore', 'PAC-S++']
    >>> orders_of("coco_captions")[3].values["BLIP-2"]
    0.782
    """
    found = []
    for table in _content()["systems"]:
        if table["benchmark"] != benchmark or config not in (None, table["config"]):
            continue
        source = f"{sources()[table['source']].short}, {table['table']}"
        for at, title in enumerate(table["columns"]):
            numbers = {row["system"]: row["values"][at] for row in table["rows"]}
            values = {name: number for name, number in numbers.items() if number is not None}
            found.append(PublishedOrder(title, source, values))
    return found


def sets_with_systems() -> list[str]:
    """Sets of captioned photos with published systems, by name."""
    return [*dict.fromkeys(table["benchmark"] for table in _content()["systems"])]


@cache
def _content() -> dict[str, Any]:
    return json.loads(files(__package__).joinpath("published.json").read_text(encoding="utf-8"))


def _of_table(table: Mapping[str, Any]) -> Iterator[Published]:
    """The figures of a table: what it says of all, then of a column, then of a row."""
    shared = {key: given for key, given in table.items() if key not in ("columns", "rows", "transcription")}
    columns = zip(*(row["values"] for row in table["rows"]), strict=True)
    decimals = [_decimals(column) for column in columns]
    for row in table["rows"]:
        named = {key: given for key, given in row.items() if key not in ("values", "notes")}
        notes_of_cells = row.get("notes", {})
        for index, (column, value) in enumerate(zip(table["columns"], row["values"], strict=True)):
            if value is None:
                continue
            notes = [part["note"] for part in (shared, column, named) if "note" in part]
            if str(index) in notes_of_cells:
                notes.append(notes_of_cells[str(index)])
            settings = [part["setting"] for part in (shared, named, column) if "setting" in part]
            cell = {"value": float(value), "note": " ".join(notes), "setting": "+".join(settings)}
            yield Published(**{**shared, **column, **named, **cell, "decimals": decimals[index]})


def _decimals(column: Iterable[float | None]) -> int:
    """Most decimals that a column of a table prints."""
    return max(len(str(value).partition(".")[2]) for value in column)
