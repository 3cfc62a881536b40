"""Ranks captioning systems by battles of their captions on the same photos.

In: files of captions or of scores, one per system. A judge sees a photo with two captions, in both orders,
and says which is better; of any other metric the better score wins. Out: Bradley–Terry ratings with
intervals, wins, and Elo ratings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .. import __version__
from ..errors import InputError, Setting
from ..files.columns import columns_of, named_columns
from ..files.matching import MatchedRows, match_rows
from ..files.references import read_references, with_references
from ..files.row_source import CHUNK_ROWS, LazySequence, RowSource, read_dicts
from ..metrics.base import Scorer
from ..metrics.loading import check_options, component_of, is_lower_better, metric_names
from ..metrics.rows import RIVAL, format_signature
from ..options import LoadOptions, OutputOptions, RowOptions, Sampling, check_whole_number, split_options
from ..registry import METRICS
from ..scoring.files import FileScoring, Scorable, open_rows_to_score
from ..statistics.battles import (
    bradley_terry,
    drawn_pairs,
    drawn_ratings,
    elo,
    groups_that_met,
    outcomes_of,
    wins_by_unit,
)
from ..statistics.bootstrap import Interval, intervals_of
from ..statistics.columns import check_systems, group_codes, plain
from ..tables import Report, Result, Table, counted, fixed, level_text
from .comparison import PaperTable
from .published_order import OrderAgreement, Published, agreement_parts, agreements, published_orders
from .systems import SystemScores, read_systems

if TYPE_CHECKING:
    import pandas as pd

Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]  # row, first and second system of each battle


@dataclass(frozen=True)
class Battles(Result):
    """Systems that were ranked by battles.

    Attributes:
        metric, signature: Metric that decided, and everything that outcomes depend on.
        systems: System → its file, the best first.
        ratings: System → Bradley–Terry rating (see `statistics.battles.bradley_terry`), the mean is 1000.
        intervals: System → interval of its rating, by drawing photos; {} without draws.
        elo: System → Elo rating as CapArena computes it (see `statistics.battles.elo`).
        wins: float64 (k, k) in the order of `systems`: battles that one won against another, ties half.
        n_ties, n_left_out: Number of ties, and of battles without an outcome.
        n_photos, unit: Number of photos, or of rows where nothing names photos; "photo" or "row".
        tie: Largest difference of scores, or distance of a judge's probability from 0.5, that is a tie.
        above: float64 (k, k) in the order of `systems`: share of the draws in which one is rated above
            another, ties half; (0, 0) without draws.
        first: Mean probability, from 0 to 1, with which a judge prefers the caption that it sees first; None
            for other metrics.
        contradicted: Share of the battles in which its two orders name the same place; None for others.
        sampling: Draws, confidence and seed.
        matched_by, notes: What rows were matched by, and remarks that a reader needs.
        orders: How far the ratings are in a published order, per published column (see `held_against`).
    """

    metric: str
    signature: str
    systems: dict[str, str]
    ratings: dict[str, float]
    intervals: dict[str, Interval | None]
    elo: dict[str, float]
    wins: np.ndarray
    n_ties: int
    n_left_out: int
    n_photos: int
    unit: str
    tie: float
    above: np.ndarray
    first: float | None
    contradicted: float | None
    sampling: Sampling
    matched_by: str
    notes: tuple[str, ...]
    orders: tuple[OrderAgreement, ...] = ()

    def held_against(self, published: Published) -> Battles:
        """The same, with the pairs of systems whose ratings are in a published order.

        A pair's p-value is twice the smaller share of the draws on one side of a tie.

        Args:
            published: As in `compare`.
        """

        def test(pairs: Sequence[tuple[str, str]]) -> list[float] | None:
            if not self.above.size:
                return None
            at, n = {name: place for place, name in enumerate(self.systems)}, self.sampling.bootstrap
            shares = np.array([self.above[at[one], at[other]] for one, other in pairs])
            return np.minimum(2 * (1 + n * np.minimum(shares, 1 - shares)) / (1 + n), 1).tolist()

        orders = published_orders(published, [*self.systems])
        title = f"battles by {self.metric}"
        found = agreements(orders, title, self.ratings, test, confidence=self.sampling.confidence)
        return replace(self, orders=tuple(found))

    @property
    def n_battles(self) -> int:
        """Number of battles with an outcome."""
        return round(self.wins.sum())

    @property
    def shares(self) -> dict[str, float]:
        """System → share of its battles that it won, ties counted half; NaN without battles."""
        fought = (self.wins + self.wins.T).sum(axis=1)
        with np.errstate(invalid="ignore"):
            return dict(zip(self.systems, (self.wins.sum(axis=1) / fought).tolist(), strict=True))

    def to_dict(self) -> dict[str, object]:
        """Everything, ready for JSON."""
        found = {name: plain(value) for name, value in vars(self).items() if name != "orders"}
        found |= {"published_orders": [part.to_dict() for part in self.orders]}
        return {**found, "n_battles": self.n_battles, "shares": plain(self.shares), "version": __version__}

    def to_pandas(self) -> pd.DataFrame:
        """A `pandas.DataFrame`, a line per system: rating, interval, share won, Elo, wins against each."""
        import pandas as pd

        lines = []
        for at, name in enumerate(self.systems):
            line = {"system": name, "rating": self.ratings[name]}
            interval = self.intervals.get(name)
            if interval is not None:
                line |= {"low": interval.low, "high": interval.high}
            line |= {"won": self.shares[name], "elo": self.elo[name]}
            line |= {f"wins against {other}": self.wins[at, to] for to, other in enumerate(self.systems)}
            lines.append(line)
        return pd.DataFrame(lines)

    def table(self) -> PaperTable:
        """Systems, the best first, with ratings and intervals, as a table of a paper."""
        titles = ["Rating", f"{level_text(self.sampling.confidence)} interval", "Won (%)", "Elo"]
        cells = [[*row[1:]] for row in self._ratings().rows]
        nothing: list[list[float | None]] = [[None] * len(titles) for _ in cells]
        best = frozenset({(0, 0)})
        caption = f"{self._counts()}. Bradley–Terry ratings."
        signatures = {self.metric: self.signature}
        return PaperTable([*self.systems], titles, cells, best, frozenset(), nothing, caption, signatures)

    def to_latex(self) -> str:
        """`table` in LaTeX, for the package booktabs."""
        return self.table().latex()

    def report(self) -> Report:
        """The order with intervals, wins against each other, and how they were made."""
        parts: list[Table | str | Report] = [self._ratings(), self._wins(), f"{self._counts()}."]
        if self.first is not None and self.contradicted is not None:
            parts.append(
                "Position bias: the caption that comes first is better with probability "
                f"{fixed(self.first, 3)} (0.5: no bias), and in {100 * self.contradicted:.1f} % of the "
                "battles the two orders name the same place. The mean of both orders counts."
            )
        remark = "Ratings are Bradley–Terry, with the mean 1000: 400 more win 10 of 11 battles"
        if self.intervals:
            drawn = f"{self.sampling.bootstrap:,} draws of {self.unit}s, seed {self.sampling.seed}"
            remark += f"; {level_text(self.sampling.confidence)} intervals, {drawn}"
        parts.append(f"{remark}. Prior: each system also tied once with an average one.")
        parts += agreement_parts(self.orders)
        parts += [self.signature, f"Rows were matched by {self.matched_by}."]
        parts += [f"note: {note}" for note in self.notes]
        if self.above.size:
            shares = zip(itertools.pairwise(self.systems), np.diag(self.above, 1), strict=True)
            said = "; ".join(f"{one} above {other} in {100 * share:.1f} %" for (one, other), share in shares)
            parts.append(f"{self.metric}, of the draws: {said}.")
        return Report(f"Battles by {self.metric}", parts)

    def _ratings(self) -> Table:
        rows = []
        for name, rating in self.ratings.items():
            interval = self.intervals.get(name)
            ends = "" if interval is None else f"{interval.low:.0f} to {interval.high:.0f}"
            won = fixed(100 * self.shares[name], 1)
            rows.append([name, f"{rating:.0f}", ends, won, f"{self.elo[name]:.0f}"])
        return Table(("system", "rating", "interval", "won, %", "Elo"), rows)

    def _wins(self) -> Table:
        with np.errstate(invalid="ignore"):
            shares = 100 * self.wins / (self.wins + self.wins.T)
        rows = []
        for name, of_system in zip(self.systems, shares.tolist(), strict=True):
            rows.append([name, *(fixed(share, 1) for share in of_system)])
        title = "Battles won against each system, in percent; a tie is half a win"
        return Table(("", *self.systems), rows, title)

    def _counts(self) -> str:
        said = f"{counted(self.n_battles, 'battle')} on {counted(self.n_photos, self.unit)}"
        ties = f"{counted(self.n_ties, 'tie')} ({'p within' if self.first is not None else 'at most'} "
        ties += f"{self.tie:g} {'of 0.5' if self.first is not None else 'apart'})"
        left = f", {self.n_left_out:,} left out without an outcome" if self.n_left_out else ""
        return f"{said}, {ties}{left}"


def battles(
    systems: Mapping[str, Scorable],
    metric: str = "judge",
    *,
    pairs: int | None = None,
    tie: float | None = None,
    match_by: str | None = None,
    common_rows: bool = False,
    **options: object,
) -> Battles:
    """Rank captioning systems by battles: on each photo, every two captions fight.

    A judge is asked which of two captions describes the photo better, in both orders (see
    `capscore.judges.battle.Battle`); with another `reading`, and of any other metric, the caption with the
    better score wins. Rows are matched as in `compare`.

    Args:
        systems: System → file of its captions or scores, as in `compare`; at least 2.
        metric: Metric that decides (METRIC or METRIC@BACKBONE), a component such as "bleu_4", or a column of
            scores.
        pairs: Number of battles, spread evenly over pairs of systems and photos by seed; None for all.
        tie: Difference of scores up to which a battle is a tie, or of a judge the distance of its probability
            from 0.5; None for 0.00001 or, of a judge, 0.05.
        match_by, common_rows: As in `compare`.
        **options: How rows are read (`capscore.options.RowOptions`), the metric is loaded (`capscore.load`)
            and intervals are drawn (`Sampling`; 10,000 draws unless `bootstrap` says otherwise).

    Raises:
        InputError: fewer than 2 systems, rows that do not match, no battle with an outcome.
        CapscoreError: an unknown metric or option, a metric that cannot be loaded.

    >>> rows = [{"image": "1.jpg", "length": 3}, {"image": "2.jpg", "length": 5}]
    >>> longer = [{"image": "1.jpg", "length": 4}, {"image": "2.jpg", "length": 5}]
    >>> found = battles({"a": rows, "b": longer}, "length", bootstrap=0)
    >>> found.wins.tolist(), {name: round(rating) for name, rating in found.ratings.items()}
    ([[0.0, 1.5], [0.5, 0.0]], {'b': 1073, 'a': 927})
    """
    rows, load, sampling = split_options({"bootstrap": 10_000, **options}, RowOptions, LoadOptions, Sampling)
    check_systems(systems, 2)
    if pairs is not None:
        check_whole_number("pairs", pairs, 1)
    (metric,) = metric_names(metric, most=1)
    name, component = component_of(metric)
    known = METRICS.find(name)
    kind = known or Scorer
    check_options([name] if known else METRICS.names(), load.arguments())
    own = {**kind.battling, **load.metric_options}
    asks = not component and kind.battles(own)
    most, expected = math.inf, "a finite number of at least 0"
    if asks:
        most, expected = 0.5, "a number from 0 to below 0.5"
    if tie is not None and not (isinstance(tie, (int, float)) and 0 <= tie < most):
        raise InputError(Setting("tie", tie), f": expected {expected}")
    if asks:
        load = replace(load, metric_options=own)
        sources, matched = _matched(systems, rows, match_by, common_rows)
        drawn = _drawn(matched, pairs, sampling.seed)
        fought = _asked(sources, matched, metric, rows, load, drawn)
    else:
        read = read_systems(systems, [metric], rows, load, match_by=match_by, common_rows=common_rows)
        drawn = _drawn(read.rows, pairs, sampling.seed)
        fought = _scored(read, kind.tie_band, drawn)
    settings: dict[str, object] = {"pairs": pairs or "all"}
    if pairs is not None:
        settings["seed"] = sampling.seed
    return fought.ranked(drawn, fought.tie if tie is None else float(tie), settings, metric, sampling)


@dataclass(frozen=True)
class _Fought:
    """Battles and what decided them.

    Attributes:
        files, rows, notes: As in `SystemScores`.
        margins: float64 (n,), by how much the first is better, NaN where nothing is known.
        tie: Margin up to which a battle is a tie, unless another is stated.
        firsts: float64 (n,), probability with which a judge prefers what it sees first; None without one.
    """

    files: dict[str, str]
    rows: MatchedRows
    notes: Sequence[str]
    margins: np.ndarray
    signature: str
    tie: float
    firsts: np.ndarray | None = None

    def ranked(
        self, drawn: Drawn, tie: float, settings: Mapping[str, object], metric: str, sampling: Sampling
    ) -> Battles:
        """Systems in the order of their ratings."""
        outcomes = outcomes_of(self.margins, tie)
        decided = ~np.isnan(outcomes)
        if not decided.any():
            raise InputError("no battle has an outcome: no row has scores of two systems")
        row, first, second = (column[decided] for column in drawn)
        outcomes, k = outcomes[decided], len(self.files)
        unit, units = "row", row
        if self.rows.photos is not None:
            unit, units = "photo", group_codes(self.rows.photos, "photos", len(self.rows.keys))[0][row]
        _, units = np.unique(units, return_inverse=True)
        of_units = wins_by_unit(first, second, outcomes, units, k)
        wins = of_units.sum(axis=0)
        ratings = bradley_terry(wins)
        order = np.argsort(-ratings, kind="stable")
        names = [[*self.files][at] for at in order]
        notes = [*self.notes, *_notes_on_wins(wins, [*self.files])]
        intervals: dict[str, Interval | None] = {}
        above = np.empty((0, 0))
        if sampling.bootstrap and len(of_units) < 2:
            notes.append(f"no intervals: a bootstrap needs at least 2 {unit}s, and there is 1")
        elif sampling.bootstrap:
            draws = drawn_ratings(of_units, sampling)[order]
            above = np.array([outcomes_of(of_system - draws, 1e-6).mean(axis=1) for of_system in draws])
            intervals, more = intervals_of(names, draws, "image" if unit == "photo" else unit, sampling)
            notes += more
        by_name = np.argsort(np.argsort([*self.files], kind="stable"))
        elo_ratings = elo(by_name[first], by_name[second], outcomes, k)[by_name]
        bias = self._position_bias(decided)
        return Battles(
            metric=metric,
            signature=format_signature(self.signature, {**settings, "tie": tie, "prior": "one-tie"}),
            systems={name: self.files[name] for name in names},
            ratings=dict(zip(names, ratings[order].tolist(), strict=True)),
            intervals=intervals,
            elo=dict(zip(names, elo_ratings[order].tolist(), strict=True)),
            wins=wins[np.ix_(order, order)],
            n_ties=int((outcomes == 0.5).sum()),
            n_left_out=int((~decided).sum()),
            n_photos=len(of_units),
            unit=unit,
            tie=tie,
            above=above,
            first=bias and bias[0],
            contradicted=bias and bias[1],
            sampling=sampling,
            matched_by=self.rows.matched_by,
            notes=tuple(notes),
        )

    def _position_bias(self, decided: np.ndarray) -> tuple[float, float] | None:
        """`Battles.first` and `Battles.contradicted`, over the battles with an outcome."""
        if self.firsts is None:
            return None
        firsts, margins = self.firsts[decided], self.margins[decided]
        return float(firsts.mean()), float((np.abs(firsts - 0.5) > np.abs(margins)).mean())


def _drawn(rows: MatchedRows, pairs: int | None, seed: int) -> Drawn:
    """Battles to hold, in the order of the rows; the order of rows and systems does not matter otherwise."""
    by_key = np.array(sorted(range(len(rows.keys)), key=rows.keys.__getitem__))
    by_name = np.argsort([*rows.numbers], kind="stable")
    drawn, first, second = drawn_pairs(len(by_key), len(by_name), pairs, seed)
    row, first, second = by_key[drawn], by_name[first], by_name[second]
    order = np.lexsort((second, first, row))
    return row[order], first[order], second[order]


def _scored(read: SystemScores, tie: float, drawn: Drawn) -> _Fought:
    """Battles that scores decide."""
    ((column, scores),) = read.scores.items()
    numbers = np.array([*scores.values()])
    if is_lower_better(column):
        numbers = -numbers
    row, first, second = drawn
    margins = numbers[first, row] - numbers[second, row]
    return _Fought(read.files, read.rows, read.notes, margins, read.signatures.get(column, column), tie)


def _matched(
    systems: Mapping[str, Scorable], rows: RowOptions, match_by: str | None, common_rows: bool
) -> tuple[dict[str, RowSource], MatchedRows]:
    """The rows of systems, of the first with the references of another file, and which belong together."""
    plain_rows = replace(rows, references=None)
    sources = {name: open_rows_to_score(path, plain_rows) for name, path in systems.items()}
    matched = match_rows(sources, rows, match_by=match_by, common_rows=common_rows)
    if rows.references is not None:
        first = next(iter(sources))
        sources[first] = with_references(sources[first], read_references(rows.references, rows), rows)
    return sources, matched


def _asked(
    sources: Mapping[str, RowSource],
    matched: MatchedRows,
    metric: str,
    rows: RowOptions,
    load: LoadOptions,
    drawn: Drawn,
) -> _Fought:
    """Battles that a judge decides, which sees each photo with two captions."""
    source = _rows_of_battles(sources, matched, rows, drawn)
    scoring = FileScoring(source, [metric], rows, load, OutputOptions())
    (scorer,) = scoring.scorer.scorers
    (scores,) = scoring.run().scores.values()
    files = {name: str(source.path) for name, source in sources.items()}
    notes = [*dict.fromkeys((*scoring.notes, *matched.notes))]
    margins = scores.scores - 0.5
    firsts = scores.components.get("first")
    return _Fought(files, matched, notes, margins, scores.signature, scorer.tie_band, firsts)


def _rows_of_battles(
    sources: Mapping[str, RowSource], matched: MatchedRows, rows: RowOptions, drawn: Drawn
) -> RowSource:
    """A row per battle: that of the first file, with the caption of one system and of its rival."""
    names, numbers = [*sources], [*matched.numbers.values()]
    base = sources[names[0]]
    columns = [columns_of(source, rows, with_images=False).candidate for source in sources.values()]
    captions = []
    for source, name in zip(sources.values(), columns, strict=True):
        captions += source.cells(name)
    listed = [*zip(*(part.tolist() for part in drawn), strict=True)]  # in the order of the first file
    faults: dict[int, InputError] = {}
    battles_of: dict[int, list[tuple[int, ...]]] = {}
    for at, (row, *pair) in enumerate(listed):
        battles_of.setdefault(numbers[0][row], []).append((row, *pair))
        for system in pair:
            if problem := sources[names[system]].faults.get(numbers[system][row]):
                faults[at] = problem

    def read() -> Iterator[tuple[None, dict[str, object]]]:
        for chunk in base.chunks(CHUNK_ROWS):
            for index, cells in enumerate(chunk.dicts()):
                for row, *pair in battles_of.get(chunk.start + index, ()):
                    texts = [captions[system][numbers[system][row]] for system in pair]
                    yield None, {**cells, columns[0]: texts[0], RIVAL: texts[1]}

    @cache
    def places(system: int) -> list[str]:
        source, found = sources[names[system]], []
        for chunk in source.chunks(CHUNK_ROWS):
            found += [source.place(chunk, row) for row in range(len(chunk))]
        return found

    def place(at: int) -> str:
        row, *pair = listed[at]
        sides = [f"{names[system]} ({places(system)[numbers[system][row]]})" for system in pair]
        return " against ".join(sides)

    others = [name for name in base.columns if name not in named_columns((RIVAL,), base.columns)]
    return replace(
        base,
        columns=[*others, RIVAL],
        n_rows=len(listed),
        read=read_dicts(read),
        arrow_schema=None,
        faults=faults,
        places=LazySequence(len(listed), place),
    )


def _notes_on_wins(wins: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    """What a reader of the ratings must know: who won or lost all, and who never met."""
    groups = groups_that_met(wins)
    if len(groups) > 1:
        listed = " | ".join(", ".join(names[at] for at in group) for group in groups)
        yield f"no battles connect these groups of systems, so the order between them is unknown: {listed}"
    if (wins == wins.T).all():
        yield "no system won more battles than another against any"
    for at, name in enumerate(names):
        for part, did in ((wins[:, at], "won"), (wins[at], "lost")):
            if not part.any() and (wins[at] + wins[:, at]).any():
                yield f"{name} {did} all its battles: only the prior keeps its rating from infinity"
