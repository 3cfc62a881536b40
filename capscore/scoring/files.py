"""Scores the rows of a file or folder: checks, one pass over the rows, result files and a summary.

Where a number depends on all rows, as CIDEr, a rank or the best tenth do, rows are written after the last
was measured; otherwise as they come.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from ..errors import CapscoreError, InputError, OptionError, Setting
from ..files.columns import ColumnNames, columns_of, find_id_column, find_image_column, find_reference_columns
from ..files.console import make_console, progress_bar
from ..files.image_folder import ImageFolder, find_images, pair_captions
from ..files.references import are_files, open_with_references, read_references, with_references
from ..files.row_source import CHUNK_ROWS, Chunk, RowSource, check_names_are_free, rows_in_memory, rows_of
from ..files.write import Writer, check_output
from ..metrics.base import Scorer
from ..metrics.calibration import (
    LIKELY_WRONG,
    RANKS,
    Standing,
    check_has_ranks,
    has_calibration,
    placed,
    read_calibrations,
    standings,
)
from ..metrics.loading import ScorerLoader, check_options, chosen_metrics, preset_metrics
from ..metrics.rows import PreparedRows
from ..metrics.scores import Scores
from ..options import LoadOptions, OutputOptions, RowOptions, share_of, split_options
from ..registry import METRICS
from ..tables import Report, Result, Table, counted, fixed, photo_name, shown_caption
from ..text.languages import option_code
from .pipeline import (
    LEFT_OUT,
    Columns,
    RowScorer,
    column_types,
    column_values,
    named_summary,
    photo_column,
    result_columns,
    row_errors,
    rows_left_out,
    summary_document,
)
from .row_filter import REASON_COLUMN, RowFilter

if TYPE_CHECKING:
    import pandas as pd

Scorable = str | Path | RowSource | Iterable[str | Path] | Iterable[Mapping[str, object]]  # files, or rows
MAX_SHOWN_ROWS, MAX_COLUMNS = 10, 3
"""Rows and metrics up to which a report shows every row."""
MAX_SHOWN_CAPTION = 160
"""Characters of a caption in a terminal."""


@dataclass
class ScoredFile(Result):
    """The rows of a file with their scores; made by `score_file`.

    Attributes:
        columns: New columns: name → (metric, component).
        ranks: Metric → its ranks among captions of a calibration, float64 (n,) each.
        failures: Row → its line in the file (or None) and what was wrong with it.
        kept: Which rows stayed, and how many; None if none were asked for.
        photos: Number of photos that rows name several times, and metric → mean over photos of the mean of a
            photo's captions; (0, {}) where photos are not named, or each of them once.
        odd: Row → how its texts or its photo look wrong, as keys of `capscore.text.suspicious.KINDS`.
        calibration: File of the calibrations that gave ranks; None for those of the library.
    """

    source: RowSource
    names: ColumnNames
    folder: ImageFolder
    columns: Columns
    scores: dict[str, Scores]
    ranks: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)
    failures: dict[int, tuple[int | None, str]] = field(default_factory=dict)
    kept: RowFilter | None = None
    photos: tuple[int, dict[str, float]] = (0, {})
    output: OutputOptions = field(default_factory=OutputOptions)
    notes: list[str] = field(default_factory=list)
    odd: Mapping[int, Sequence[str]] = field(default_factory=dict)
    calibration: str | Path | None = None

    def __getitem__(self, metric: str) -> Scores:
        """The scores of a metric."""
        return self.scores[metric]

    def to_dict(self) -> dict[str, object]:
        """Means, counts, settings, failures and versions, ready for JSON; None for the mean of nothing.

        Keys: "input" and "output", the files; "rows"; "metrics", with "mean", "mean_<component>", counts,
        "signature" and, where they are known, "mean_of_photos" and "calibration" of each; "failures";
        "versions"; "likely_wrong", numbers of such rows and of all with a rank, if there are ranks;
        "languages", if there are several; "kept", if rows were chosen.
        """
        failures: list[dict[str, object]] = []
        for row, (line, error) in sorted(self.failures.items()):
            failures.append({"row": row, "line": line, "error": error})
        files = {"input": _file_name(self.source.path), "output": _file_name(self.output.output)}
        found = {**files, **summary_document(self.metrics(), self.source.n_rows, failures)}
        if any(self.ranks.values()) or self.is_judged:
            n_wrong, n_ranked = self._counts_of_ranks()
            metric = next(iter(self.scores))
            found["likely_wrong"] = {"metric": metric, "rows": n_wrong, "ranked": n_ranked}
        if languages := self.languages():
            found["languages"] = languages
        if self.kept is not None:
            files = {"file": _file_name(self.output.keep), "dropped": _file_name(self.output.drop)}
            found["kept"] = {**files, **self.kept.to_dict()}
        return found

    def metrics(self) -> dict[str, dict[str, object]]:
        """Metric → its summary: "mean", counts, signature, and what else is known of it."""
        found: dict[str, dict[str, object]] = {}
        for name, part in self.scores.items():
            found[name] = summary = named_summary(name, part.summary())
            if name in self.photos[1]:
                mean = self.photos[1][name]
                summary["mean_of_photos"] = None if math.isnan(mean) else mean
            if name in self.standings:
                summary["calibration"] = self.standings[name].to_dict()
        return found

    def to_pandas(self) -> pd.DataFrame:
        """A `pandas.DataFrame` of all rows: their own columns, then the new ones."""
        import pandas as pd

        parts, errors = [], row_errors(self.scores)
        for chunk in self.source.chunks(CHUNK_ROWS):
            cells = column_values(self.columns, self.scores, errors, _rows_of(chunk), self.ranks)
            parts.append(
                pd.DataFrame({**{name: chunk.values(name) for name in self.source.columns}, **cells})
            )
        return pd.concat(parts, ignore_index=True)

    def numbers(self, metric: str) -> dict[str, np.ndarray]:
        """Numbers of all rows, by the component of their column; "" is the score."""
        scores = self.scores[metric]
        return {"": scores.scores, **scores.components, **self.ranks.get(metric, {})}

    def order(self, column: str | None = None) -> list[tuple[str, str]]:
        """What rows are sorted by, as (metric, component): a new column; the first metric's rank; its score.

        Where a row with a score lacks a rank, as in a language without a calibration, ranks decide nothing.
        """
        metric, first = next(iter(self.scores.items()))
        parts = dict.fromkeys((RANKS[0], "", first.ranked_by))  # the last decides ties
        if self._n_without_rank():
            del parts[RANKS[0]]
        order = [(metric, part) for part in parts if part in self.numbers(metric)]
        if column is None:
            return order
        check_sort(column, self.columns)
        return [self.columns[column], *order]

    def rising(self, column: str | None = None) -> list[int]:
        """Numbers of the rows with a score, the worst first, as `order` says of a column, or of `sort`."""
        column = column or self.output.sort
        if column not in self._rising:
            keys, order = [], self.order(column)
            for metric, component in order:
                numbers = self.numbers(metric)[component]
                falls = component in self.scores[metric].lower_is_better
                keys.append(-numbers if falls else numbers)
            scored = np.isfinite(self.numbers(order[0][0])[""])
            ordered = np.lexsort(keys[::-1])
            self._rising[column] = ordered[scored[ordered]].tolist()
        return [*self._rising[column]]

    @cached_property
    def _rising(self) -> dict[str | None, list[int]]:
        """What `rising` found, by column."""
        return {}

    def _n_without_rank(self) -> int:
        """Number of rows with a score in the first metric that lack a rank, where others have one."""
        scored = np.isfinite(next(iter(self.scores.values())).scores)
        without = scored & np.isnan(self.first_ranks)
        return int(without.sum()) if without.sum() < scored.sum() else 0

    def languages(self) -> dict[str, dict[str, float | int | None]]:
        """Language → its numbers; {} where all rows are in one language.

        Each has "rows", the mean score of every metric by its name and, where the first metric has ranks,
        "rank", their mean, and "likely_wrong", the number of such captions; None in a language without ranks.
        """
        languages = np.array(next(iter(self.scores.values())).languages)
        codes = [*dict.fromkeys(languages.tolist())]
        if len(codes) < 2:
            return {}
        found: dict[str, dict[str, float | int | None]] = {}
        for code in codes:
            rows = languages == code
            numbers: dict[str, float | int | None] = {"rows": int(rows.sum())}
            for metric, part in self.scores.items():
                present = part.scores[rows & np.isfinite(part.scores)]
                numbers[metric] = float(present.mean()) if len(present) else None
            if any(self.ranks.values()):
                n_wrong, n_known = self._counts_of_ranks(rows)
                ranked = self.first_ranks[rows]
                rank = float(np.nanmean(ranked)) if np.isfinite(ranked).any() else None
                numbers |= {"rank": rank, "likely_wrong": n_wrong if n_known else None}
            found[code] = numbers
        return found

    def likely_wrong(self) -> list[int]:
        """Numbers of the rows that are likely wrong, the worst first.

        The rank in the first metric is below `LIKELY_WRONG`, or a metric that judges captions as a whole says
        that the caption does not fit.
        """
        wrong, _ = self._verdicts
        return [row for row in self.rising() if wrong[row]]

    @cached_property
    def _verdicts(self) -> tuple[np.ndarray, np.ndarray]:
        """bool (n,) each: whether a caption is likely wrong, and whether it is known."""
        ranked = self.first_ranks
        wrong, known = ranked < LIKELY_WRONG, np.isfinite(ranked)
        for part in self.scores.values():
            for row in range(len(part) if part.details else 0):
                fits = part.fits(row)
                if fits is not None:
                    known[row] = True
                    wrong[row] |= not fits
        return wrong, known

    @cached_property
    def first_ranks(self) -> np.ndarray:
        """Ranks in the first metric, float64 (n,); NaN where it has none."""
        first = next(iter(self.scores))
        return self.ranks.get(first, {}).get(RANKS[0], np.full(self.source.n_rows, np.nan))

    @property
    def is_judged(self) -> bool:
        """Whether it is known of some caption if it is likely wrong."""
        return bool(self._verdicts[1].any())

    def _counts_of_ranks(self, rows: np.ndarray | slice = slice(None)) -> tuple[int, int]:
        """Numbers of rows that are likely wrong, and of those that are known, among some, bool (n,)."""
        wrong, known = self._verdicts
        return int(wrong[rows].sum()), int(known[rows].sum())

    def likely_wrong_sentence(self) -> str:
        """How many captions are likely wrong, of those with a rank."""
        without = self.without_rank_sentence()
        return "; ".join(filter(None, (self.headline(), without)))

    def headline(self) -> str:
        """How many of the captions that are ranked or judged are likely wrong."""
        n_wrong, n_ranked = self._counts_of_ranks()
        share = f"{100 * n_wrong / max(n_ranked, 1):.1f} %"
        are = "is" if n_wrong == 1 else "are"
        return f"{n_wrong:,} of {n_ranked:,} captions {are} likely wrong ({share})"

    def without_rank_sentence(self) -> str:
        without = self.source.n_rows - self._counts_of_ranks()[1]
        verb = "has" if without == 1 else "have"
        return f"{without:,} of {self.source.n_rows:,} rows {verb} no rank" if without else ""

    def is_above_limit(self) -> bool:
        """Whether a larger share of captions is likely wrong than `fail_under` allows."""
        if self.output.fail_under is None:
            return False
        if not self.is_judged:
            self.check_some_ranks()
        n_wrong, n_ranked = self._counts_of_ranks()
        return n_wrong > share_of("fail_under", self.output.fail_under) * n_ranked

    def check_some_ranks(self) -> None:
        if not np.isfinite(self.first_ranks).any():
            standing = self.standings.get(next(iter(self.scores)))
            why = "no row was scored" if standing is None else standing.reason
            raise CapscoreError(f"no caption has a rank, so none is known to be likely wrong: {why}")

    def print(self, worst: int | None = None, sort: str | None = None) -> None:
        self.report(worst, sort).print(make_console())

    def report(self, worst: int | None = None, sort: str | None = None) -> Report:
        """Rows with the worst scores, or all if they are few; means, counts, standings and signatures.

        Args:
            sort: Column that rows are sorted by; None for that of the output options.
        """
        is_asked = worst is not None or (sort or self.output.sort) is not None
        shows_all = self.source.n_rows <= MAX_SHOWN_ROWS and len(self.scores) <= MAX_COLUMNS
        parts: list[Table | str] = []
        wrong = self.likely_wrong() if self.output.fail_under is not None else []
        if self.is_judged and self.source.n_rows > MAX_SHOWN_ROWS:
            parts.append(f"{self.likely_wrong_sentence()}.")
        if is_asked:
            parts += self._rows_shown(self.rising(sort)[: worst or MAX_SHOWN_ROWS], numbered=True)
        elif wrong:
            parts += self._rows_shown(wrong[:MAX_SHOWN_ROWS], numbered=True)
        elif shows_all:
            numbered = self.source.page_column is not None
            parts += self._rows_shown(range(self.source.n_rows), numbered=numbered)
        if self.source.n_rows > 1 or not parts:
            parts.append(self._means())
        parts += self._means_of_languages()
        parts += (f"{name}: {standing.sentence()}" for name, standing in self.standings.items())
        for name, part in self.scores.items():
            if part.corpus:
                numbers = ", ".join(f"{key} {value:.4f}" for key, value in part.corpus.items())
                parts.append(f"{name} of all rows together: {numbers}")
        n_photos, means = self.photos
        for name, mean in means.items():
            per_caption = f"{name}: mean per caption {fixed(self.scores[name].mean)}"
            parts.append(f"{per_caption}, per photo {fixed(mean)} ({counted(n_photos, 'photo')})")
        parts += (part.signature for part in self.scores.values())
        n_rows = self.source.n_rows
        n_scored = n_rows - len(self.failures) - int(rows_left_out(self.scores).sum())
        path = "" if self.source.path == Path() else f" of {self.source.path}"
        parts.append(f"Scored {n_scored:,} of {counted(n_rows, 'row')}{path}.")
        if self.kept is not None:
            parts.append(self.kept.sentence())
        return Report("", parts, unbroken=True)

    def _means(self) -> Table:
        headings = ("metric", "mean", "scored", "failed", "empty", "images", "truncated")
        rows = []
        for name, part in self.scores.items():
            counts = (part.n_scored, part.n_failed, part.n_empty, part.n_unique_images, part.n_truncated)
            rows.append([name, fixed(part.mean), *(f"{count:,}" for count in counts)])
        return Table(headings, rows)

    def _means_of_languages(self) -> list[Table]:
        headings, rows = ["language", "rows", *self.scores], []
        for code, numbers in self.languages().items():
            means = [fixed(numbers[metric]) for metric in self.scores]
            rows.append([code or "not stated", f"{numbers['rows']:,}", *means])
            if "likely_wrong" in numbers:
                n_wrong, rank = numbers["likely_wrong"], numbers["rank"]
                rows[-1].append("–" if rank is None else f"{rank:.0f} %")
                rows[-1].append("–" if n_wrong is None else f"{n_wrong:,}")
        if any(self.ranks.values()):
            headings += ["mean rank", "likely wrong"]
        return [Table(headings, rows)] if rows else []

    def _rows_shown(self, rows: Sequence[int], *, numbered: bool) -> list[Table | str]:
        """A line per row, with its rank in the first metric and what metrics found; then reasons."""
        cells = self._texts(rows, numbered=numbered)
        metric, first = next(iter(self.scores.items()))
        headings = [*cells, *self.scores]
        columns = [[*values] for values in cells.values()]
        columns += ([fixed(part.scores[row]) for row in rows] for part in self.scores.values())
        standing = self.standings.get(metric)
        is_ranked = standing is not None and not standing.reason and len(first) > 1
        if is_ranked:
            ranks_of = self.ranks[metric][RANKS[0]]
            headings.append("rank")
            columns.append(["–" if math.isnan(ranks_of[row]) else f"{ranks_of[row]:.0f} %" for row in rows])
        found = [first.found(row, brief=True) for row in rows]
        if any(found):
            headings.append("found")
            columns.append(found)
        lines = [[*line] for line in zip(*columns, strict=True)]
        names = range(len(cells) - 1)
        parts: list[Table | str] = [Table(headings, lines, left=len(cells), wide=len(cells) - 1, names=names)]
        if any(name.startswith("row ") for name in cells.get("row", ())):
            parts.append("rows are counted from 0")
        for line, row in zip(lines, rows, strict=True):
            name = next(filter(None, line))
            for part in self.scores.values():
                words = ", ".join(word for _, _, word in part.wrong_words(row))
                said = (part.reason(row), words and f"likely wrong: {words}")
                parts += (f"{name}: {reason}" for reason in said if reason)
        if standing is not None and is_ranked:
            of = "" if len(self.scores) == 1 else f" in {metric}"
            worse = "higher" if "" in first.lower_is_better else "lower"
            if numbered and self.output.sort is None and (n_without := self._n_without_rank()):
                has = "row has" if n_without == 1 else "rows have"
                parts.append(f"{n_without:,} {has} no rank, so all are sorted by {metric}")
            parts.append(f"rank{of}: percent of {standing.captions} ({standing.set_name}) that score {worse}")
        return parts

    def row_name(self, row: int, line: int | None, photo: str) -> str:
        """How lists that show the name of its photo name a row: without a file that has the photo's name."""
        place = self.source.short_place(row, line).removesuffix(", counted from 0")
        file, comma, within = place.rpartition(", ")
        file, within = (file, within) if comma else (place, "")
        if Path(file).stem == Path(photo).stem:
            return within
        return place.removeprefix(f"{self.source.path}{os.sep}")

    def _texts(self, rows: Sequence[int], *, numbered: bool) -> dict[str, list[str]]:
        """Place, photo and caption of rows, by the heading of their column."""
        image, wanted = self.names.image, {*rows}
        texts: dict[int, list[str]] = {}
        for chunk in self.source.chunks(CHUNK_ROWS, [*filter(None, {image, self.names.candidate})]):
            for row in wanted.intersection(_rows_of(chunk)):
                index = row - chunk.start
                caption = " ".join(shown_caption(chunk.values(self.names.candidate)[index]).split())
                if len(caption) > MAX_SHOWN_CAPTION:
                    caption = f"{caption[:MAX_SHOWN_CAPTION].rstrip()}…"
                photo = "" if image is None else photo_name(chunk.values(image)[index])
                texts[row] = [caption]
                if image is not None:
                    texts[row].insert(0, photo or "–")
                if numbered:
                    line = chunk.lines[index] if chunk.lines else None
                    texts[row].insert(0, self.row_name(row, line, photo))
        headings = ["row"] * numbered + ["photo"] * (image is not None) + ["caption"]
        columns = zip(*(texts[row] for row in rows), strict=True)
        return dict(zip(headings, map(list, columns), strict=True))


def _file_name(path: str | Path | None) -> str | None:
    return None if path in (None, Path()) else str(path)


def _rows_of(chunk: Chunk) -> range:
    return range(chunk.start, chunk.start + len(chunk))


def check_sort(column: str, columns: Columns) -> None:
    """Raise OptionError unless a column holds numbers that rows can be sorted by."""
    sortable = []
    for name, (metric, component) in columns.items():
        if metric and component not in METRICS.get(metric).detail_columns:
            sortable.append(name)
    if column not in sortable:
        raise OptionError(Setting("sort", column), f": expected {', '.join(sortable)}")


class FileScoring:
    """The scoring of a file, of which everything is checked that can be before a row is read."""

    def __init__(
        self,
        source: RowSource,
        metrics: str | Scorer | Sequence[str | Scorer] | None,
        rows: RowOptions,
        load: LoadOptions,
        output: OutputOptions,
        *,
        preset: str | None = None,
        calibration: str | Path | None = None,
        spell: Callable[[Setting], str] = str,
    ):
        self.source, self.options, self.calibration, self._output = source, rows, calibration, output
        self.notes, self._spell = [*source.notes], spell
        if calibration is not None:
            read_calibrations(calibration)
        chosen, backbones = self._chosen(metrics, preset)
        names = [item if isinstance(item, str) else item.metric for item in chosen]
        given = load.arguments()
        if any(isinstance(item, Scorer) for item in chosen):
            given.pop("allow_urls", None)  # it is for reading rows, too
        check_options(names, given)
        self.kept = None
        if output.keep is not None or output.drop is not None:
            self.kept = RowFilter(names[0], output)
            self.kept.check_range(METRICS.get(names[0]))
        self.names = self._columns_for(chosen, load)
        inputs = source.columns if output.output or output.keep or output.drop else ()
        if inputs:
            new = result_columns(names, inputs, on_error=rows.on_error, ranked=names)
            check_names_are_free(source, [*new, *[REASON_COLUMN] * (output.drop is not None)])
        self._paths = self._checked_paths(output)
        progress = load.progress
        self.has_bar = source.n_rows > CHUNK_ROWS and progress is not False
        if source.n_rows > CHUNK_ROWS:  # one bar for all rows: scorers show theirs for each chunk
            load = dataclasses.replace(load, progress=False)
        loader = ScorerLoader(load.arguments(), backbones)
        needs_ranks = [name for name in ("fail_under", "min_rank") if getattr(output, name) is not None]
        if needs_ranks:
            self._check_ranks(needs_ranks[0], chosen[0], loader)
        scorers = [item if isinstance(item, Scorer) else loader(item) for item in chosen]
        _check_language(scorers, rows.language)
        if needs_ranks:
            self._check_ranks(needs_ranks[0], scorers[0], loader)
        if self.kept is not None:
            self.kept.check_range(scorers[0])
        ranked = [scorer.metric for scorer in scorers if has_calibration(scorer, calibration)]
        self.columns = result_columns(scorers, inputs, on_error=rows.on_error, ranked=ranked)
        if output.sort is not None:
            check_sort(output.sort, self.columns)
        folder = ImageFolder(Path(rows.images or source.folder), allow_urls=load.allow_urls)
        self.scorer = RowScorer(scorers, rows, folder, spell, keeps_odd=True)
        self.failures: dict[int, tuple[int | None, str]] = {}
        self._prepared: dict[str, list[PreparedRows]] = defaultdict(list)
        self._writers: dict[str, Writer] = {}
        self._photos = array("Q")  # hashes of the names of the rows' photos

    def _check_ranks(self, option: str, first: str | Scorer, loader: ScorerLoader) -> None:
        if isinstance(first, str):
            check_has_ranks(option, first, loader.known_backbone(first), self.calibration)
        elif not has_calibration(first, self.calibration):
            name = getattr(getattr(first, "backbone", None), "name", "")
            check_has_ranks(option, first.metric, name, self.calibration)

    def _chosen(
        self, metrics: str | Scorer | Sequence[str | Scorer] | None, preset: str | None
    ) -> tuple[list[str | Scorer], dict[str, str]]:
        """The metrics, each once, and the backbones that are named with them."""
        named, backbones, from_preset = list[str | Scorer](), dict[str, str](), list[str]()
        if metrics is not None or preset is None:
            named, backbones = chosen_metrics("mcs" if metrics is None else metrics)
        if preset is not None:
            from_preset, notes = chosen_by_preset(preset, self.source, self.options, self._spell)
            self.notes += notes
            if not from_preset and not named:
                problem = ": the input lacks the photos or references that it needs"
                raise OptionError(Setting("preset", preset), problem)
        found = {item if isinstance(item, str) else item.metric: item for item in (*from_preset, *named)}
        return [*found.values()], backbones

    def _columns_for(self, chosen: Sequence[str | Scorer], load: LoadOptions) -> ColumnNames:
        """The columns that the metrics read; an error says which metrics need one that is missing."""
        needs: dict[str, list[str]] = {"images": [], "references": []}
        has_lists = bool(find_reference_columns(self.source.columns, self.options.references_column))
        given = load.arguments()
        for item in chosen:
            if isinstance(item, Scorer):
                has_instead = item.has_instead
                name, images, references = item.metric, item.needs_images, item.needs_references
            else:
                kind = METRICS.get(item)
                has_instead = kind.has_instead
                name, (images, references) = item, kind.needs(given)
            if images:
                needs["images"].append(name)
            if references and (has_lists or not has_instead(self.source.columns)):
                needs["references"].append(name)
        try:
            names = columns_of(
                self.source,
                self.options,
                with_images=bool(needs["images"]),
                with_references=bool(needs["references"]),
            )
        except InputError as error:
            what = {"image_column": "images", "references_column": "references"}.get(error.option or "", "")
            if len(error.parts) < 2 or not what:
                raise
            verb = "needs" if len(needs[what]) == 1 else "need"
            need = f": {', '.join(needs[what])} {verb} {what}"
            raise InputError(error.parts[0], need, *error.parts[1:]) from None
        self.notes += names.notes
        return names

    def _checked_paths(self, output: OutputOptions) -> dict[str, Path]:
        paths: dict[str, Path] = {}
        for option in ("output", "keep", "drop"):
            path = getattr(output, option)
            if path is None:
                continue
            checked = check_output(path, self.source, force=output.force, option=option)
            for other, file in paths.items():
                if file == checked:
                    raise OptionError(Setting(option, path), " is the file of ", Setting(other), " too")
            paths[option] = checked
        return paths

    def run(self) -> ScoredFile:
        """Score all rows, and write them and those that stay.

        Raises:
            InputError: A row cannot be scored and on_error="raise"; names row and line.
            ResultWriteError: A file cannot be written.
        """
        types = column_types(self.columns)
        with ExitStack() as opened:
            for option, path in self._paths.items():
                more = {REASON_COLUMN: str} if option == "drop" else {}
                self._writers[option] = writer = Writer(path, self.source, {**types, **more})
                opened.callback(writer.stop)
            scores = self._score()
            places = {name: placed(part, self.calibration) for name, part in scores.items()}
            if self.kept is not None:
                self.kept.unranked = places[self.kept.metric].reasons
            ranked = {metric for metric, component in self.columns.values() if component in RANKS}
            found = ScoredFile(
                source=self.source,
                names=self.names,
                folder=self.scorer.folder,
                columns=self.columns,
                scores=scores,
                ranks={metric: places[metric].ranks for metric in ranked},
                standings=standings(scores, places, self.calibration),
                failures=self.failures,
                kept=self.kept,
                photos=self._photo_means(scores),
                output=self._output,
                notes=self.notes,
                odd=self.scorer.odd.kinds or {},
                calibration=self.calibration,
            )
            if self._waits:
                self._write_together(found)
            if self._writers:
                signatures = {name: part.signature for name, part in scores.items()}
                text = json.dumps(found.to_dict(), ensure_ascii=False, indent=2)
                for writer in self._writers.values():
                    writer.finish({"signatures": signatures}, f"{text}\n")
        return found

    @cached_property
    def _waits(self) -> bool:
        """Whether no row is written before all are scored."""
        ranked = any(component in RANKS for _, component in self.columns.values())
        in_order = self._output.top is None and self._output.sort is None
        return ranked or not in_order or any(scorer.waits for scorer in self.scorer.scorers)

    def _score(self) -> dict[str, Scores]:
        """Scores of all rows, which are written as they come unless they wait."""
        shown = None if self.has_bar else False
        naming = photo_column(self.source, self.options)
        with progress_bar("Scoring", self.source.n_rows, shown=shown) as advance:
            for chunk in self.source.chunks(CHUNK_ROWS):
                if naming is not None:
                    for name in chunk.values(naming):
                        self._photos.append(
                            xxhash.xxh3_64_intdigest(str(name).encode(errors="backslashreplace"))
                        )
                prepared = self.scorer.prepare(self.source, self.names, chunk, chunk.start)
                for metric, part in prepared.items():
                    self._prepared[metric].append(part)
                if not self._waits:
                    scores = self.scorer.finish(prepared)
                    errors, rows = row_errors(scores), range(len(chunk))
                    self._note_failures(chunk, _rows_of(chunk), [errors.get(row) for row in rows])
                    stays = None if self.kept is None else self.kept.choose(scores)
                    self._write(chunk, rows, scores, errors, {}, stays)
                advance(len(chunk))
        together = {metric: PreparedRows.concatenate(rows) for metric, rows in self._prepared.items()}
        scores = self.scorer.finish(together)
        for scorer in self.scorer.scorers:
            scorer.warn_about_truncation(scores[scorer.metric].truncated)
        self.scorer.odd.warn(places=self.source.places)
        return scores

    def _write_together(self, found: ScoredFile) -> None:
        stays = None
        if self.kept is not None:
            if self.kept.min_rank is not None:
                found.check_some_ranks()
            stays = self.kept.choose(found.scores, found.ranks)
        errors, source = row_errors(found.scores), self.source
        if not self._writers and {*errors.values()} <= {LEFT_OUT}:
            return  # there is no file to write, and no failure to note
        order: Sequence[int] = range(source.n_rows)
        if self._output.sort is not None:
            rising = found.rising()
            order = [*rising, *sorted({*order} - {*rising})]
            source = source.reordered(order)
        for chunk in source.chunks(CHUNK_ROWS):
            rows = order[chunk.start : chunk.start + len(chunk)]
            self._note_failures(chunk, rows, [errors.get(row) for row in rows])
            here = None if stays is None else stays[rows]
            self._write(chunk, rows, found.scores, errors, found.ranks, here)

    def _note_failures(self, chunk: Chunk, numbers: Sequence[int], errors: Sequence[str | None]) -> None:
        """Note what failed in a chunk, whose rows have these numbers in the file."""
        for index, error in enumerate(errors):
            if error is not None and error != LEFT_OUT:
                self.failures[numbers[index]] = (chunk.lines[index] if chunk.lines else None, error)

    def _write(
        self,
        chunk: Chunk,
        rows: Sequence[int],
        scores: Mapping[str, Scores],
        errors: Mapping[int, str],
        found_ranks: Mapping[str, Mapping[str, np.ndarray]],
        stays: np.ndarray | None,
    ) -> None:
        """Write the rows of a chunk, which are these rows of the scores, to the files that get them."""
        if not self._writers:
            return
        cells = column_values(self.columns, scores, errors, rows, found_ranks)
        if "output" in self._writers:
            self._writers["output"].write(chunk, cells)
        if stays is None or self.kept is None:
            return
        for option, chosen in (("keep", stays), ("drop", ~stays)):
            if option not in self._writers or not chosen.any():
                continue
            new = {name: [*itertools.compress(values, chosen)] for name, values in cells.items()}
            if option == "drop":
                reasons = new[REASON_COLUMN] = []
                for row in itertools.compress(rows, chosen):
                    reasons.append(errors.get(row) or self.kept.reason(row, scores, found_ranks))
            self._writers[option].write(chunk.filter(chosen.tolist()), new)

    def _photo_means(self, scores: Mapping[str, Scores]) -> tuple[int, dict[str, float]]:
        found, index = np.unique(self._photos, return_inverse=True)
        means: dict[str, float] = {}
        if not 1 < len(found) < len(self._photos):
            return 0, means
        for metric, part in scores.items():
            scored = ~np.isnan(part.scores)
            counts = np.bincount(index[scored])
            sums = np.bincount(index[scored], part.scores[scored])
            means[metric] = (
                float(np.mean(sums[counts > 0] / counts[counts > 0])) if scored.any() else math.nan
            )
        return len(found), means


def chosen_by_preset(
    preset: str, source: RowSource, options: RowOptions, spell: Callable[[Setting], str] = str
) -> tuple[list[str], list[str]]:
    """The metrics of a preset that rows have inputs for, and notes on what is left out."""
    has_photos, notes = _has_photos(source, options, spell)
    has_references = bool(find_reference_columns(source.columns, options.references_column))
    found, more = preset_metrics(preset, has_images=has_photos, has_references=has_references)
    return found, notes + more


def _has_photos(
    source: RowSource, options: RowOptions, spell: Callable[[Setting], str]
) -> tuple[bool, list[str]]:
    """Whether rows have photos; ids alone are none where no folder is given and none of them is found."""
    column = find_image_column(source.columns, options.image_column)
    if column is None or options.images is not None or find_id_column(source.columns) is None:
        return column is not None, []
    folder = ImageFolder(source.folder, allow_urls=True)
    chunk = next(source.chunks(CHUNK_ROWS, [column]))
    problems: dict[int, InputError] = {}
    if any(image is not None for image in find_images(chunk, column, folder, problems)):
        return True, []
    where = f"no photo of {column} is found in {folder.folder}, so the rows have none; "
    return False, [f"{where}{spell(Setting('images'))} names their folder"]


def _check_language(scorers: Sequence[Scorer], language: str | None) -> None:
    """Raise an error if a metric cannot score the language that is stated for all rows."""
    code = language and option_code(language)
    for scorer in scorers:
        if code and (problem := scorer.language_problem(code)):
            raise OptionError(Setting("language", language), f": {problem}")


def open_rows_to_score(rows: Scorable, options: RowOptions) -> RowSource:
    """Rows of files or a folder, of a source, or in memory; with those of a file of references."""
    if isinstance(rows, RowSource):
        return rows
    if are_files(rows):
        return open_with_references(rows, options)
    listed = [*rows_of(rows)]
    for index, row in enumerate(listed):
        if not isinstance(row, Mapping):
            expected = "expected a dict with a caption, and an image or references"
            raise InputError(f"got a {type(row).__name__}; {expected}", row=index)
    if not listed:
        raise InputError("there are no rows")
    places = [f"row {row}, counted from 0" for row in range(len(listed))]
    return _with_named_references(rows_in_memory(listed, places), options)


def rows_to_score(
    paths: Sequence[Path],
    photos: Sequence[str],
    captions: Sequence[str],
    references: Sequence[str],
    options: RowOptions,
) -> RowSource:
    """Rows of files or a folder, or else of captions given one by one, as `pair_captions` pairs them."""
    if paths:
        return open_with_references(paths, options)
    return _with_named_references(pair_captions(photos, captions, references), options)


def _with_named_references(source: RowSource, options: RowOptions) -> RowSource:
    if options.references is None:
        return source
    return with_references(source, read_references(options.references, options), options)


def score_file(
    rows: Scorable,
    metrics: str | Scorer | Sequence[str | Scorer] | None = None,
    *,
    preset: str | None = None,
    calibration: str | Path | None = None,
    **options: object,
) -> ScoredFile:
    """Score the captions of a file or folder with several metrics, and write them.

    Args:
        rows: File or folder of any kind that docs/scoring.md lists, a list of files or a pattern of names,
            which are one input; a list of dicts; or a table of pandas, Arrow or polars.
        metrics: Metrics by name, METRIC or METRIC@BACKBONE, or scorers that are loaded; None for mcs, or
            those of the preset.
        preset: Set of metrics: coco, clipscore, multilingual, reference-free.
        calibration: File that `capscore.calibrate` wrote, for ranks; None for the library's own.
        **options: How rows are read (`capscore.options.RowOptions`: images, references, language, on_error,
            …), what is written (`OutputOptions`: output, keep, top, …), how metrics are loaded
            (`capscore.load`: backbone, device, …), and the options of the metrics.

    Raises:
        InputError: a file or column that does not exist, a row that cannot be scored; names row and line.
        CapscoreError: an unknown metric or option, a metric that cannot be loaded.
        ResultWriteError: a result cannot be written.

    >>> import capscore
    >>> rows = [{"caption": "a cat sits", "references": ["a cat sits there"]},
    ...         {"caption": "a dog", "references": ["a dog runs"]}]
    >>> found = capscore.score_file(rows, ["rouge_l", "cider"], language="en")
    >>> round(found["rouge_l"].mean, 4), found.to_dict()["metrics"]["cider"]["n_scored"]
    (0.8039, 2)
    """
    read, load, output = split_options(options, RowOptions, LoadOptions, OutputOptions)
    source = open_rows_to_score(rows, read)
    scoring = FileScoring(source, metrics, read, load, output, preset=preset, calibration=calibration)
    return scoring.run()
