"""Which task belongs to which benchmark: rows → `Queries` → scores → `ProtocolResult`.

tasks.json names the task of each benchmark, by its protocol and the statistics that it asks for; a benchmark
of another package names one as the attribute `task` of its builder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import CapscoreError, InputError, Setting
from ..files.write import json_bytes, write_text
from ..metrics.base import Scorer
from ..metrics.rows import format_signature
from ..metrics.scores import Scores
from ..options import Sampling
from ..registry import BENCHMARKS, PROTOCOLS
from ..statistics.agreement import agreement, compare
from ..statistics.battles import TIE_BAND
from ..statistics.columns import check_missing
from . import protocols
from .protocols import ProtocolResult, Statistic
from .protocols.results import ends
from .protocols.words import doubts_of, labels_at, places_of, scores_of_tokens

# captions whose regions are held in memory at the same time
_BLOCK = 4000

# the rows of a benchmark, as its loading script gives them: pairs of key and row
KeyedRows = Sequence[tuple[str, Mapping[str, Any]]]
# for each caption, its words as in `Scores.details`
Words = Sequence[Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class TaskOptions:
    """How scores become numbers, and of which rows.

    Args:
        raters: Meaning of several ratings per item: "flatten" (one row each, as published) or "mean".
        missing: What happens to items without a score: "raise" or "skip".
        sampling: Draws for the intervals.
        partial: Whether to score only the rows whose photos (and references) are available, and say how many.
        compare: Whether to test every metric against the first, paired by photo, on the rows that both
            scored, where the benchmark has ratings.
    """

    raters: str = "flatten"
    missing: str = "raise"
    sampling: Sampling = field(default_factory=Sampling)
    partial: bool = False
    compare: bool = False

    def __post_init__(self) -> None:
        check_missing(self.missing)
        if self.raters not in ("flatten", "mean"):
            raise InputError(Setting("raters", self.raters), ": expected 'flatten' or 'mean'", field="raters")

    @property
    def of_protocols(self) -> dict[str, Any]:
        """What every protocol takes that makes intervals."""
        return {"sampling": self.sampling, "missing": self.missing}

    def for_rows(self, rows: KeyedRows) -> dict[str, Any]:
        """The same, with the photos that are drawn."""
        return {"images": _column(rows, "image_id"), **self.of_protocols}

    def to_dict(self) -> dict[str, str | float]:
        """How scores become numbers, by name, ready for JSON."""
        return {"raters": self.raters, "missing": self.missing, **asdict(self.sampling)}


class Measurement(NamedTuple):
    """One scoring of a benchmark's rows: its numbers, the signature of the scores, and the (q,) scores of the
    queries, or None where scores aren't one per query."""

    outcome: ProtocolResult
    signature: str
    scores: np.ndarray | None


@dataclass
class Queries:
    """What a metric scores: q captions, each with its photo and its references.

    Attributes:
        ids: Unique names, in the benchmark's order.
        images: Paths of the photos; None where a photo is missing.
        references: Lists of references; [] where there are none.
        owners: Number of the benchmark's row that each belongs to.
    """

    ids: list[str] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    image_ids: list[str] = field(default_factory=list)
    images: list[str | None] = field(default_factory=list)
    references: list[list[str]] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(
        cls, rows: KeyedRows, captions: Callable[[Mapping[str, Any]], Iterable[tuple[str, str, str]]]
    ) -> Queries:
        """The queries of a benchmark's rows: endings of their names, captions, and beginnings of the names of
        the photo's columns, where a row has several."""
        queries = cls()
        for index, (key, row) in enumerate(rows):
            for ending, caption, side in captions(row):
                queries.ids.append(f"{key}{ending}")
                queries.candidates.append(caption)
                queries.image_ids.append(row[f"{side}image_id"])
                queries.images.append(row[f"{side}image"])
                queries.references.append(list(row.get("references") or ()))
                queries.languages.append(row["language"])
                queries.owners.append(index)
        return queries

    def to_rows(self) -> list[dict[str, Any]]:
        """The queries as rows of a JSONL file, for any metric to score."""
        columns = (self.ids, self.image_ids, self.images, self.candidates, self.references, self.languages)
        names = ("id", "image_id", "image", "caption", "references", "language")
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def write(self, path: Path) -> None:
        write_text(path, "".join(f"{json_bytes(row).decode()}\n" for row in self.to_rows()))


class Task:
    """How a benchmark is scored; this one scores the caption of every row."""

    #: whether its numbers depend on the order of scores alone
    ranks: bool = True
    #: what it asks for, after the benchmark's name, where one score per query is not enough
    asks_for: ClassVar[str] = ""
    #: whether each row is a photo with the captions that people wrote
    captioned: ClassVar[bool] = False

    def queries(self, rows: KeyedRows) -> Queries:
        """Captions to score: one per row, unless a benchmark needs more."""
        return Queries.of(rows, lambda row: [("", row["caption"], "")])

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        """(q,) scores of the queries → the benchmark's numbers; unless it `asks_for` more."""
        raise NotImplementedError

    def check_takes_scores(self, slug: str) -> None:
        """Raise `CapscoreError` if one score per query is not enough for the benchmark of that name."""
        if self.asks_for:
            raise CapscoreError(f"{slug} {self.asks_for}")

    def measure(self, rows: KeyedRows, scorer: Scorer, component: str, options: TaskOptions) -> Measurement:
        """Score the rows, and make the numbers of the score (""), or of a component of it."""
        found = _score(scorer, self.queries(rows), slice(None))
        scores = self.numbers(found, component)
        return Measurement(self.outcome(rows, scores, options), found.signature, scores)

    def numbers(self, found: Scores, component: str) -> np.ndarray:
        """What the benchmark's numbers are made of: the component, if any, else what ranks the rows."""
        if component or not self.ranks:
            return found.rising(component)
        return found.ranking

    def refusal(self, slug: str, kind: Scorer | type[Scorer], component: str) -> str:
        """Why a metric, or a component of it, cannot be measured on the benchmark; "" where it can.

        The reason continues a sentence that begins with the metric's name.
        """
        return ""

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        """(configuration, statistic, settings) under which the published figures list one of our numbers."""
        return config, statistic, ("", "frozen_references")

    def measured_as_published(self, rows: KeyedRows, options: TaskOptions) -> bool:
        """Whether papers turn scores into numbers in the same way."""
        return True

    def compare(
        self, rows: KeyedRows, first: np.ndarray, second: np.ndarray, options: TaskOptions
    ) -> list[dict[str, Any]]:
        """Paired tests of one metric's scores against another's; [] where no test is defined."""
        return []


def _score(scorer: Scorer, queries: Queries, block: slice, **columns: Any) -> Scores:
    images = references = None
    if scorer.needs_images:
        images = queries.images[block]
    if scorer.needs_references:
        references = queries.references[block]
    languages = queries.languages[block]
    if scorer.compares_rows and "image_id" in {column.name for column in scorer.extra_columns}:
        # each row is a document, as in the scripts that published figures are from
        columns["image_id"] = queries.ids[block]
    return scorer.score(queries.candidates[block], images, references, language=languages, **columns)


def _column(rows: KeyedRows, name: str) -> list[Any]:
    return [row[name] for _, row in rows]


class RatingTask(Task):
    """Agreement with human ratings: τ_b, τ_c, ρ or r (see `capscore.statistics.agreement.agreement`).

    Published tables (Gomes et al. 2025, §4.2; Hu et al. 2023, §4.2.2; Kim et al. 2023, §5.5) use:

    - Flickr8k-Expert: τ_c, three ratings per item, "flatten"; 5,664 items, 16,992 ratings.
    - Flickr8k-CF: τ_b with the share of yes, one number per item; 47,830 items.
    - Composite: τ_c with correctness. Polaris, Nebula, LongCap-Arena: τ_c. CapEval1k: τ_c and Pearson's r.
    - VICR: τ_b, τ_c and ρ; the source does not say whether ratings are flattened or averaged.
    """

    def __init__(self, *statistics: str):
        self.statistics = statistics
        self.ranks = "pearson" not in statistics

    def measured_as_published(self, rows: KeyedRows, options: TaskOptions) -> bool:
        return options.raters == "flatten" or self._ratings(rows, options)[1] is None

    def _ratings(self, rows: KeyedRows, options: TaskOptions) -> tuple[list[Any], str | None]:
        """The ratings, a number or a list of numbers per row; and how lists are combined, if any are."""
        name = "ratings" if rows and "ratings" in rows[0][1] else "rating"
        ratings = _column(rows, name)
        several = bool(ratings) and isinstance(ratings[0], (list, tuple))
        return ratings, options.raters if several else None

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        ratings, raters = self._ratings(rows, options)
        how = {"raters": raters, "statistics": self.statistics, **options.for_rows(rows)}
        found = agreement(scores, ratings, **how)
        statistics = []
        for name, value in found.values.items():
            statistics.append(Statistic(name, value, ends(found.intervals.get(name)), found.n_rows))
        counts = {"items": found.n_items, "ratings": found.n_ratings, "photos": found.n_images or 0}
        return ProtocolResult(tuple(statistics), counts, found.notes)

    def compare(
        self, rows: KeyedRows, first: np.ndarray, second: np.ndarray, options: TaskOptions
    ) -> list[dict[str, Any]]:
        ratings, raters = self._ratings(rows, options)
        draws = options.sampling.bootstrap or Sampling().bootstrap
        drawn = replace(options, sampling=replace(options.sampling, bootstrap=draws))
        how = {"raters": raters, "statistic": self.statistics[0], **drawn.for_rows(rows)}
        return [compare((first, second), ratings, **how).to_dict()]


class PairTask(Task):
    """Pascal-50S: which of two captions of a photo people prefer, per category."""

    def queries(self, rows: KeyedRows) -> Queries:
        return Queries.of(rows, lambda row: [(f"|{n}", text, "") for n, text in enumerate(row["captions"])])

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        labels, categories = _column(rows, "label"), _column(rows, "category")
        how = options.for_rows(rows)
        return protocols.pairwise_by_category(scores[0::2], scores[1::2], labels, categories, **how)


class BattleTask(PairTask):
    """CapArena: which of two captions people prefer, and how they rank the systems that wrote them."""

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        return self._outcome(rows, scores[0::2] - scores[1::2], TIE_BAND, options)

    def _outcome(
        self, rows: KeyedRows, margins: np.ndarray, tie: float, options: TaskOptions
    ) -> ProtocolResult:
        columns = (_column(rows, name) for name in ("winner", "systems", "level"))
        banded = np.where(np.abs(margins) <= tie, 0.0, margins)
        return protocols.battles_with_people(banded, *columns, **options.for_rows(rows))

    def measure(self, rows: KeyedRows, scorer: Scorer, component: str, options: TaskOptions) -> Measurement:
        if not scorer.compares_candidates:
            return super().measure(rows, scorer, component, options)
        queries = self.queries(rows)
        found = _score(scorer, queries, slice(0, None, 2), rival=queries.candidates[1::2])
        margins = found.components[component] if component else found.scores - 0.5
        return Measurement(self._outcome(rows, margins, scorer.tie_band, options), found.signature, None)


class FoilTask(Task):
    """VALSE: how often a caption scores higher than a false one that differs little."""

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        piece = statistic.removeprefix("accuracy_")
        return (config, statistic, ("",)) if piece == "mean" else (piece, "accuracy", ("",))

    def queries(self, rows: KeyedRows) -> Queries:
        return Queries.of(rows, lambda row: [("", row["caption"], ""), ("|foil", row["foil"], "")])

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        pieces = [row.get("piece", "all") for _, row in rows]
        valid = [row.get("valid", True) for _, row in rows]
        found = protocols.foils(scores[0::2], scores[1::2], pieces, valid, **options.for_rows(rows))
        # of a single piece, the mean and all pairs together are that piece
        return found if len(found.statistics) > 3 else replace(found, statistics=found.statistics[:1])


class HallucinationTask(Task):
    """HAT: whether a metric finds the hallucinated words of captions, and separates those captions."""

    def marked(self, rows: KeyedRows) -> list[tuple[bool, list[tuple[int, int]]]]:
        """For each query, whether its caption has a wrong word, and where its wrong words start and end."""
        found = []
        for _, row in rows:
            places, start = [], 0
            for token, wrong in zip(row["tokens"], row["token_labels"], strict=True):
                if wrong:
                    places.append((start, start + len(token)))
                start += len(token) + 1
            found.append((bool(places), places))
        return found

    def outcome(
        self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions, words: Words | None = None
    ) -> ProtocolResult:
        """The outcome of (q,) scores of captions and, unless None, of the words of each caption."""
        marked = self.marked(rows)
        doubts = labels = None
        if words is not None:
            doubts = doubts_of(words)
            labels = [labels_at(of, places) for of, (_, places) in zip(words, marked, strict=True)]
        return protocols.localisation(
            scores,
            [wrong for wrong, _ in marked],
            doubts,
            labels,
            images=self.queries(rows).image_ids,
            **options.of_protocols,
        )

    def measure(self, rows: KeyedRows, scorer: Scorer, component: str, options: TaskOptions) -> Measurement:
        if "words" not in scorer.detail_names:
            return super().measure(rows, scorer, component, options)
        queries = self.queries(rows)
        parts: list[np.ndarray] = []
        words: list[Any] = []
        signature = ""
        # a block at a time, and regions are forgotten: those of all captions would fill the memory
        for first in range(0, len(queries), _BLOCK):
            found = _score(scorer, queries, slice(first, first + _BLOCK))
            parts.append(self.numbers(found, component))
            words += [[] if detail is None else detail["words"] for detail in found.details or ()]
            signature = signature or found.signature
        scores = np.concatenate(parts)
        return Measurement(self.outcome(rows, scores, options, words), signature, scores)


class LocalisationTask(HallucinationTask):
    """FOIL, nocaps-FOIL: whether a metric finds a foil's wrong word, and scores it below its caption."""

    def queries(self, rows: KeyedRows) -> Queries:
        return FoilTask().queries(rows)

    def marked(self, rows: KeyedRows) -> list[tuple[bool, list[tuple[int, int]]]]:
        found: list[tuple[bool, list[tuple[int, int]]]] = []
        for _, row in rows:
            found += [(False, []), (True, places_of(row["foil"], row["foil_word"]))]
        return found

    def outcome(
        self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions, words: Words | None = None
    ) -> ProtocolResult:
        pairs = FoilTask().outcome(rows, scores, options)
        found = super().outcome(rows, scores, options, words)
        notes = tuple(dict.fromkeys((*pairs.notes, *found.notes)))
        counts = {**pairs.counts, **found.counts}
        return ProtocolResult((*pairs.statistics, *found.statistics), counts, notes, pairs.details)


class XvnliTask(Task):
    """XVNLI: entailed, neutral and contradicted captions of one photo, in three experiments."""

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        name, sign, _ = statistic.partition("_same_premise")
        return config, name, ("",) if sign else ()

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        labels, images = _column(rows, "label"), _column(rows, "image_id")
        image, premise = (
            protocols.xvnli(scores, labels, images, premise_ids=premises, **options.of_protocols)
            for premises in (None, _column(rows, "premise_id"))
        )
        again = [row._replace(name=f"{row.name}_same_premise") for row in premise.statistics]
        ties = {f"{name}_same_premise": n for name, n in premise.details["ties"].items()}
        notes = [f"within a premise: {note}" for note in premise.notes if note not in image.notes]
        return replace(
            image,
            statistics=(*image.statistics, *again),
            notes=(*image.notes, *notes),
            details={"ties": {**image.details["ties"], **ties}},
        )


class MarvlTask(Task):
    """MaRVL: a caption that is true of some pairs of photos and false of others, in two experiments."""

    def queries(self, rows: KeyedRows) -> Queries:
        sides = ("left", "right")
        return Queries.of(rows, lambda row: [(f"|{side}", row["caption"], f"{side}_") for side in sides])

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        labels, captions, ids = (_column(rows, name) for name in ("label", "caption", "id"))
        return protocols.marvl(scores[0::2], scores[1::2], labels, captions, ids, **options.of_protocols)


class ThumbTask(Task):
    """THumB 1.0: Pearson's r with precision, recall and total, with and without human captions."""

    ranks = False

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        _, rating, setting = statistic.split("_", maxsplit=2)
        return config, f"pearson_{rating}", (setting,)

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        columns = {"precision": "precision", "recall": "recall", "total": "rating"}
        ratings = {name: _column(rows, column) for name, column in columns.items()}
        return protocols.thumb(scores, ratings, _column(rows, "system"), **options.for_rows(rows))


class DetailTask(RatingTask):
    """DetailCaps: agreement with the grades that GPT-4 gave to detailed captions of several models."""

    def __init__(self) -> None:
        super().__init__("pearson")

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> ProtocolResult:
        grades, photos = _column(rows, "rating"), _column(rows, "image_id")
        return protocols.detailcaps(scores, grades, photos, **options.of_protocols)


class TokenTask(Task):
    """CapTokenEval: which words of a caption are right, and which regions of its photo it mentions."""

    asks_for = "asks for scores of words and regions, which a score of captions does not give"

    def refusal(self, slug: str, kind: Scorer | type[Scorer], component: str) -> str:
        if kind.marks_words() and not component:
            return ""
        return f"is a score of captions, and {slug} {self.asks_for}"

    def measure(self, rows: KeyedRows, scorer: Any, component: str, options: TaskOptions) -> Measurement:
        found = _score(scorer, self.queries(rows), slice(None), boxes=_column(rows, "regions"))
        words, details = [], list[Any](found.details or ())
        for number, ((_, row), detail) in enumerate(zip(rows, details, strict=True)):
            try:
                words.append(scores_of_tokens(row["caption"], row["words"], detail["words"]))
            except InputError as error:
                raise error.at(number) from None
        result = protocols.captokeneval(
            words,
            _column(rows, "word_labels"),
            _column(rows, "semantic"),
            [[region["score"] for region in detail["regions"]] for detail in details],
            _column(rows, "region_labels"),
            beta=scorer.beta,
            missing=options.missing,
        )
        outcome = _without_intervals(result, "shares of words and regions have none", options)
        return Measurement(outcome, found.signature, None)


class RetrievalTask(Task):
    """Captioned photos: how often the right caption or photo is among the best 1, 5 and 10."""

    captioned = True
    asks_for = "compares every photo with every caption: scores of rows are not enough"

    def refusal(self, slug: str, kind: Scorer | type[Scorer], component: str) -> str:
        if kind.needs_images and not kind.needs_references:
            return ""
        return f"compares captions with references, and {slug} asks which photo belongs to which caption"

    def queries(self, rows: KeyedRows) -> Queries:
        captions = Queries.of(
            rows, lambda row: [(f"|{n}", text, "") for n, text in enumerate(row["references"])]
        )
        return replace(captions, references=[[] for _ in captions.ids])

    def measure(self, rows: KeyedRows, scorer: Any, component: str, options: TaskOptions) -> Measurement:
        queries, photos = self.queries(rows), _column(rows, "image")
        right: dict[str, Any] = {"text_to_image": queries.owners, "missing": options.missing}
        if not scorer.retrieves_by_cosine:
            matrix, parts = scorer.score_matrix(queries.candidates, photos, queries.languages)
            ranked_by = component or scorer.ranked_by
            if ranked_by:
                matrix = parts[ranked_by]
            if scorer.lower_is_better(ranked_by):
                matrix = -matrix
            found, settings = protocols.retrieval(matrix, **right), scorer.settings
        else:
            images, texts, settings = scorer.embed_to_retrieve(queries.candidates, photos)
            unit = "long" not in settings
            found = protocols.retrieval(image_embeddings=images, text_embeddings=texts, unit=unit, **right)
        languages = "+".join(sorted({*queries.languages} - {""})) or "unstated"
        signature = format_signature(scorer.metric, {**settings, "lang": languages})
        # a photo drawn twice would be a second right answer to its own captions
        return Measurement(
            _without_intervals(found, "photos cannot be resampled here", options), signature, None
        )


def _without_intervals(found: ProtocolResult, why: str, options: TaskOptions) -> ProtocolResult:
    if not options.sampling.bootstrap:
        return found
    return replace(found, notes=(*found.notes, f"no intervals: {why}"))


@cache
def _listed() -> dict[str, dict[str, str]]:
    """Of tasks.json: tasks of benchmarks, or of configurations; and why other data sets have none."""
    return json.loads(files(__package__).joinpath("tasks.json").read_text(encoding="utf-8"))


def task_of(slug: str, config: str) -> Task:
    """The task of a benchmark's configuration."""
    known = _listed()["tasks"]
    task = known.get(f"{slug}/{config}") or known.get(slug) or BENCHMARKS.get(slug).task
    if isinstance(task, str):
        task = _made(task)
    if not isinstance(task, Task):
        why = _listed()["without"].get(slug, "it has no `task`, the name of a protocol")
        raise CapscoreError(f"{slug} is not a benchmark of caption scores: {why}")
    return task


@cache
def _made(task: str) -> Task:
    """The task that a protocol's name and its statistics stand for."""
    name, *statistics = task.split()
    return PROTOCOLS.get(name)(*statistics)


def known_slugs() -> list[str]:
    """Benchmarks that have a task, those of other packages last."""
    slugs = dict.fromkeys(name.partition("/")[0] for name in _listed()["tasks"])
    others = [name for name in BENCHMARKS.outside() if BENCHMARKS.get(name).task is not None]
    return [*slugs, *others]


def check_captioned(slug: str) -> None:
    """Raise `InputError` unless a benchmark is a set of captioned photos."""
    known = [name for name in known_slugs() if task_of(name, "").captioned]
    if slug not in known:
        raise InputError(f"{slug!r} is not a set of captioned photos; those are {', '.join(known)}")
