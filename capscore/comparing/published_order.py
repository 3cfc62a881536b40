"""Does a metric put captioning systems in a published order? Counts the pairs of systems on which both agree.

In: published numbers of systems, of a set of captioned photos, from a file or in Python, and those that were
measured. Out: per metric and published column the pairs, with a test of each.
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ..benchmarks.published import PublishedOrder, orders_of, sets_with_systems
from ..errors import InputError, Setting
from ..files.columns import number_in
from ..files.read import open_rows
from ..files.row_source import RowSource
from ..files.text_files import TextFile, json_document
from ..metrics.loading import is_lower_better
from ..options import RowOptions, Sampling
from ..scoring.files import open_rows_to_score
from ..statistics.bootstrap import holm
from ..statistics.columns import Column, plain
from ..statistics.systems import ALL, RowStatistics, SystemComparison, pair_p_values
from ..tables import Table, counted, signed

Published = str | Path | Mapping[str, object] | Sequence[object]  # also of `PublishedOrder`
Test = Callable[[Sequence[tuple[str, str]]], Sequence[float] | None]

# columns that name systems, and whose numbers are places, the first of which is the best
_NAMES = ("system", "name", "model", "captioner", "method")
_RANKS = ("rank", "ranking", "place", "position")
_TIE = 1e-9


class OrderedPair(NamedTuple):
    """Two systems, of which the first is published as the better one.

    Attributes:
        better, worse: Their names.
        published: Published number of the better one less that of the other; of places, how many lie between.
        measured: By how much the metric finds the better one better; below 0 where it says the opposite.
        p_value_holm: Two-sided p-value, corrected for all pairs of the published column; None without a test.
    """

    better: str
    worse: str
    published: float
    measured: float
    p_value_holm: float | None

    @property
    def agrees(self) -> bool:
        """Whether the metric prefers the better one; a tie does not agree."""
        return self.measured > _TIE


@dataclass(frozen=True)
class OrderAgreement:
    """How far a metric puts systems in a published order.

    Attributes:
        metric, rows: What was measured, on which rows: "all", or a language.
        published, source: Title of the published column, and where it is from.
        pairs: Every two systems with different published numbers.
        n_tied: Number of pairs with equal published numbers, which are left out.
        without: Systems without a published number.
        confidence: A p-value below the rest shows a difference.
    """

    metric: str
    rows: str
    published: str
    source: str
    pairs: tuple[OrderedPair, ...]
    n_tied: int
    without: tuple[str, ...]
    confidence: float

    @property
    def n_agree(self) -> int:
        """Number of pairs that the metric puts in the published order."""
        return sum(pair.agrees for pair in self.pairs)

    def is_shown(self, pair: OrderedPair) -> bool:
        """Whether the test shows a difference between the two, in the order that the metric puts them in."""
        return pair.p_value_holm is not None and pair.p_value_holm < 1 - self.confidence

    @property
    def n_contradicted(self) -> int:
        """Number of pairs of which the test shows the opposite order."""
        return sum(self.is_shown(pair) and not pair.agrees for pair in self.pairs)

    def to_dict(self) -> dict[str, object]:
        """Everything, ready for JSON."""
        pairs = []
        for pair in self.pairs:
            pairs.append({**pair._asdict(), "agrees": pair.agrees, "shown": self.is_shown(pair)})
        found = {name: plain(value) for name, value in vars(self).items()}
        counts = {"n_pairs": len(pairs), "n_agree": self.n_agree, "n_contradicted": self.n_contradicted}
        return {**found, **counts, "pairs": pairs}


def agreements(
    orders: Sequence[PublishedOrder],
    metric: str,
    figures: Mapping[str, float],
    test: Test,
    *,
    rows: str = ALL,
    higher_is_better: bool = True,
    confidence: float = 0.95,
) -> Iterator[OrderAgreement]:
    """Hold the numbers of systems against published ones.

    Args:
        orders: Columns of published numbers (see `published_orders`).
        metric, figures, rows, higher_is_better: What was measured; system → number.
        test: Function from pairs of systems to their p-values, or to None where nothing can be tested.
        confidence: Share of samples inside an interval.

    >>> order = PublishedOrder("CLIPScore", "a paper", {"a": 0.7, "b": 0.8, "c": 0.8})
    >>> measured = {"a": 2.0, "b": 3.0, "c": 1.0}
    >>> (found,) = agreements([order], "cider", measured, lambda pairs: [0.01, 0.2])
    >>> found.n_agree, len(found.pairs), found.n_tied, [pair.p_value_holm for pair in found.pairs]
    (1, 2, 1, [0.02, 0.2])
    """
    pairs_of = [[*_pairs(order, figures)] for order in orders]
    distinct = [*dict.fromkeys(itertools.chain.from_iterable(pairs_of))]
    tested = test(distinct) if distinct else None
    p_values = None if tested is None else dict(zip(distinct, tested, strict=True))
    sign = 1 if higher_is_better else -1
    for order, pairs in zip(orders, pairs_of, strict=True):
        corrected: Iterable[float | None] = itertools.repeat(None)
        if p_values is not None:
            corrected = holm([p_values[pair] for pair in pairs])
        found = []
        for (better, worse), p_value in zip(pairs, corrected, strict=False):
            apart = abs(order.values[better] - order.values[worse])
            measured = sign * (figures[better] - figures[worse])
            found.append(OrderedPair(better, worse, apart, measured, p_value))
        n_known = sum(name in order.values for name in figures)
        yield OrderAgreement(
            metric=metric,
            rows=rows,
            published=order.title,
            source=order.source,
            pairs=tuple(found),
            n_tied=n_known * (n_known - 1) // 2 - len(found),
            without=tuple(name for name in figures if name not in order.values),
            confidence=confidence,
        )


def order_agreements(
    orders: Sequence[PublishedOrder],
    metric: str,
    compared: SystemComparison,
    systems: Mapping[str, RowStatistics],
    photos: Column | None,
    sampling: Sampling,
) -> Iterator[OrderAgreement]:
    """`agreements` of a metric's comparison; each pair is tested as the comparison tests its differences."""
    return agreements(
        orders,
        metric,
        compared.figures,
        lambda pairs: pair_p_values(systems, pairs, images=photos, sampling=sampling),
        rows=compared.rows,
        higher_is_better=compared.higher_is_better,
        confidence=sampling.confidence,
    )


def _pairs(order: PublishedOrder, figures: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Every two systems with different published numbers, the better one first."""
    known = [name for name in figures if name in order.values]
    known.sort(key=order.values.__getitem__, reverse=order.higher_is_better)
    for better, worse in itertools.combinations(known, 2):
        if order.values[better] != order.values[worse]:
            yield better, worse


def agreement_parts(found: Sequence[OrderAgreement]) -> Iterator[Table | str]:
    """For people: k of n pairs, the pairs in another order, and what was counted."""
    if not found:
        return
    metrics = [*dict.fromkeys(part.metric for part in found)]
    counts: dict[str, dict[str, str]] = {}
    # metric → pair and by how much → columns that have it the other way
    opposite: dict[str, dict[tuple[str, str], list[str]]] = {}
    for part in found:
        title = part.published if part.rows == ALL else f"{part.published}, {part.rows}"
        against = f", {part.n_contradicted}†" if part.n_contradicted else ""
        counts.setdefault(title, {})[part.metric] = f"{part.n_agree} of {len(part.pairs)}{against}"
        for pair in part.pairs:
            if not pair.agrees:
                cells = f"{pair.better} above {pair.worse}", signed(pair.measured) + "†" * part.is_shown(pair)
                opposite.setdefault(part.metric, {}).setdefault(cells, []).append(title)
    rows = []
    for title, of in counts.items():
        rows.append([title, *(of.get(name, "") for name in metrics)])
    yield Table(("published", *metrics), rows, "Pairs of systems in the published order")
    for metric, pairs in opposite.items():
        listed = [[pair, ", ".join(titles), measured] for (pair, measured), titles in pairs.items()]
        heading = f"{metric}: pairs in another order, and by how much"
        yield Table(("pair", "published by", "measured"), listed, heading, left=2, wide=1)
    yield from _remarks(found)


def _remarks(found: Sequence[OrderAgreement]) -> Iterator[str]:
    if any(part.n_contradicted for part in found):
        yield (
            f"†: the test shows the opposite of what was published (p < {1 - found[0].confidence:.4g}, "
            "Holm-corrected for the pairs of a column); without it, the pair may be in either order."
        )
    for source in dict.fromkeys(part.source for part in found):
        titles = dict.fromkeys(part.published for part in found if part.source == source)
        yield f"Published: {', '.join(titles)} ({source})."
    for part in {part.published: part for part in found}.values():
        if part.n_tied:
            yield f"note: {part.published} is the same for {counted(part.n_tied, 'pair')}, left out"
        if part.without:
            yield f"note: no published {part.published} for {', '.join(part.without)}"


# ---- published numbers ----


def published_orders(given: Published, systems: Sequence[str]) -> list[PublishedOrder]:
    """Published numbers of systems, by column.

    Args:
        given: A set with published systems (`benchmarks.published.sets_with_systems`); or a file: a table of
            systems and numbers, JSON, or a system per line of a .txt, the best first; or the same in Python:
            system → number, title → system → number, a list of systems, or of dicts. What `capscore compare
            --output` wrote is one too. Of a column "rank", and of metrics of which less is better, the lowest
            number is the best.
        systems: Names of the systems that are compared. Case, blanks and signs do not count in a name.

    Raises:
        InputError: an unknown set, no such file, a cell that is no number, two numbers of one system, or no
            column that has numbers of two systems.

    >>> (order,) = published_orders({"BLIP-2": 0.782, "M² Transformer": 0.757}, ["blip2", "m2_transformer"])
    >>> order.values
    {'blip2': 0.782, 'm2_transformer': 0.757}
    """
    columns = [*_columns(given)]
    if found := orders_among(columns, systems):
        return found
    names = [*dict.fromkeys(itertools.chain.from_iterable(order.values for order in columns))]
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    raise InputError(
        Setting("published", given if isinstance(given, str | Path) else None),
        f": it has no column with numbers of two of {', '.join(systems)}; its systems are "
        f"{', '.join(names[:12])}{more}",
    )


def orders_among(columns: Iterable[PublishedOrder], systems: Sequence[str]) -> list[PublishedOrder]:
    """The columns with numbers of at least two systems, by the names that these have here.

    Of systems whose names differ only in what does not count, one has a number if it has the exact name.
    """
    found, shared = [], Counter(map(_folded, systems))
    for order in columns:
        numbers = {_folded(name): number for name, number in order.values.items()}
        values = {}
        for name in systems:
            if name in order.values or (shared[_folded(name)] == 1 and _folded(name) in numbers):
                values[name] = numbers[_folded(name)]
        if len(values) > 1:
            found.append(replace(order, values=values))
    return found


def _folded(name: str) -> str:
    """A name without case, blanks and signs.

    >>> _folded("M² Transformer"), _folded("m2-transformer")
    ('m2transformer', 'm2transformer')
    """
    text = unicodedata.normalize("NFKC", name).casefold()
    return "".join(filter(str.isalnum, text)) or text


def _columns(given: Published) -> Iterator[PublishedOrder]:
    """All columns of published numbers."""
    if not isinstance(given, str | Path):
        yield from _of_value(given, "published numbers", "published")
        return
    path = Path(given)
    if not path.exists():
        if orders := orders_of(str(given)):
            yield from orders
            return
        raise InputError(
            Setting("published", given),
            f": there is no such file; expected one, or a set with published systems: "
            f"{', '.join(sets_with_systems())}",
        )
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    title = path.name.partition(".")[0]
    if suffix == ".json":
        yield from _of_value(json_document(path, "published"), str(path), title)
    elif suffix == ".txt":
        lines = [line.strip() for _, line in TextFile(path).text_lines()]
        yield _of_list([*filter(None, lines)], str(path), title)
    else:
        yield from _of_rows(open_rows(path), str(path))


def _of_value(value: object, source: str, title: str) -> Iterator[PublishedOrder]:
    """Columns of a value of JSON or Python."""
    if isinstance(value, Mapping) and isinstance(metrics := value.get("metrics"), Mapping):
        value = {name: stated["figures"] for name, stated in metrics.items()}  # of a comparison
    elif isinstance(value, Mapping) and isinstance(ratings := value.get("ratings"), Mapping):
        value = {f"battles by {value.get('metric')}": ratings}
    if isinstance(value, Mapping) and value:
        nested = [isinstance(part, Mapping | list | tuple) for part in value.values()]
        if all(nested):
            for name, part in value.items():
                yield from _of_value(part, source, str(name))
            return
        if not any(nested):
            yield _of_numbers(title, source, [*value.items()])
            return
    if isinstance(value, list | tuple) and value:
        if all(isinstance(part, PublishedOrder) for part in value):
            yield from value
            return
        if all(isinstance(part, str) for part in value):
            yield _of_list(value, source, title)
            return
        if all(isinstance(part, Mapping) for part in value):
            yield from _of_rows(open_rows_to_score(value, RowOptions()), source)
            return
    expected = "expected system → number, title → system → number, a list of systems, or of rows"
    raise InputError(f"{source} holds {value!r:.60}; {expected}", field="published")


def _of_list(names: Sequence[str], source: str, title: str) -> PublishedOrder:
    """A list of systems, the best first."""
    places = enumerate(names, start=1)
    return _of_numbers(title, source, [(name, place) for place, name in places], are_places=True)


def _of_rows(rows: RowSource, source: str) -> Iterator[PublishedOrder]:
    """The columns of numbers of a table; those that hold no number are left out."""
    usual = [column for column in rows.columns if column.strip().casefold() in _NAMES]
    if len(usual) != 1:
        expected = f"expected one of {', '.join(_NAMES)}, and columns of numbers"
        raise InputError(f"{source} has the columns {', '.join(rows.columns)}; {expected}", field="published")
    others = [column for column in rows.columns if column not in usual]
    names, *listed = rows.cells(*usual, *others)
    for column, cells in zip(others, listed, strict=True):
        if any(math.isfinite(number_in(cell)) for cell in cells):
            yield _of_numbers(column.strip(), source, [*zip(names, cells, strict=True)])


def _of_numbers(
    title: str, source: str, given: Sequence[tuple[object, object]], *, are_places: bool = False
) -> PublishedOrder:
    """A column of systems and their numbers; an empty cell is none."""
    values: dict[str, float] = {}
    folded: dict[str, str] = {}
    for system, cell in given:
        name, number = str(system).strip(), number_in(cell)
        if math.isinf(number):
            problem = f"{source}, {title} of {name!r:.80}: {cell!r:.40}; expected a finite number"
            raise InputError(problem, field="published")
        if math.isnan(number):
            continue
        if _folded(name) in folded:
            problem = f"{source}, {title}: two numbers of one system, {folded[_folded(name)]} and {name}"
            raise InputError(problem, field="published")
        values[name], folded[_folded(name)] = number, name
    low = are_places or title.casefold() in _RANKS or is_lower_better(title)
    return PublishedOrder(title, source, values, higher_is_better=not low)
