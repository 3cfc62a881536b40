"""What of a benchmark is scored, and which published numbers its scores give: rows → `Queries` → `Outcome`.

A query is a caption with its photo and references, what a metric scores. How scores become numbers is said by
`capscore.benchmark.protocols` and `capscore.statistics.agreement`; here is only which of them belongs to
which benchmark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ..errors import CapscoreError, InputError
from ..statistics.bootstrap import check_sampling
from .protocols.results import Statistic

if TYPE_CHECKING:
    from ..scorers.backbone_scorer import BackboneScorer
    from ..scorers.base import Scorer, Scores

RATERS = ("flatten", "mean")
MISSING = ("raise", "skip")
# what else than the whole people may rate; a metric's component of that name has a row where they did
ASPECTS = ("precision", "recall")


@runtime_checkable
class ScoresPairs(Protocol):
    """A scorer whose score of an image and a caption is not their cosine, or another number in its order."""

    def score_matrix(
        self, candidates: Sequence[str], images: Any, language: str | Sequence[str] | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Scores (images, candidates), and components of that size."""


class ScoresTokens(Protocol):
    """A scorer that scores the words of a caption and the regions of its image: in `Scores.details`."""

    beta: float

    def score(
        self,
        candidates: Sequence[str],
        images: Any = None,
        references: None = None,
        language: str | Sequence[str] | None = None,
        *,
        on_error: str = "raise",
        boxes: Sequence[Any] | None = None,
    ) -> Scores:
        """As every scorer; `boxes` are the regions."""


@dataclass(frozen=True)
class Options:
    """How numbers are made of scores.

    Args:
        raters: what several ratings of an item mean: "flatten" (a row each, as published) or "mean".
        bootstrap: draws for the intervals; 0 gives none.
        confidence: share of draws inside an interval.
        seed: of the draws.
        missing: "raise" or "skip": what becomes of items without a score.

    Raises:
        InputError: one of them cannot be; says what is expected.

    >>> Options(bootstrap=200).confidence
    0.95
    """

    raters: str = "flatten"
    bootstrap: int = 1000
    confidence: float = 0.95
    seed: int = 0
    missing: str = "raise"

    def __post_init__(self) -> None:
        for name, given, known in (("raters", self.raters, RATERS), ("missing", self.missing, MISSING)):
            if given not in known:
                raise InputError(f"{name}={given!r}: expected one of {', '.join(known)}", field=name)
        check_sampling(self.bootstrap, self.confidence, self.seed, field="bootstrap", least=0)

    @property
    def sampling(self) -> dict[str, Any]:
        """What every protocol with intervals takes, by name."""
        return {
            "bootstrap": self.bootstrap,
            "confidence": self.confidence,
            "seed": self.seed,
            "missing": self.missing,
        }


@dataclass(frozen=True)
class Outcome:
    """What a benchmark says of a metric.

    Attributes:
        statistics: the numbers, the one that papers lead with first.
        counts: items, ratings, photos, …
        notes: what else one has to know, in words.
        details: everything the protocol found, ready for JSON.
    """

    statistics: tuple[Statistic, ...]
    counts: dict[str, int]
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class Queries:
    """What a metric scores: q captions, each with its photo and its references.

    Attributes:
        ids: unique names, in the benchmark's order.
        candidates: captions.
        image_ids: file names of the photos.
        images: paths of the photos; None where one is not there.
        references: lists of references, [] where there are none.
        languages: language codes.
    """

    ids: list[str] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    image_ids: list[str] = field(default_factory=list)
    images: list[str | None] = field(default_factory=list)
    references: list[list[str]] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def add(
        self,
        name: str,
        caption: str,
        image_id: str,
        image: str | None,
        references: Sequence[str] = (),
        language: str = "",
    ) -> None:
        """One more query."""
        self.ids.append(name)
        self.candidates.append(caption)
        self.image_ids.append(image_id)
        self.images.append(image)
        self.references.append(list(references))
        self.languages.append(language)

    @property
    def missing_images(self) -> list[str]:
        """File names of the photos that are not there, each once, in order."""
        names = zip(self.image_ids, self.images, strict=True)
        return list(dict.fromkeys(name for name, path in names if path is None))

    @property
    def without_references(self) -> int:
        """How many queries have no reference."""
        return sum(not texts for texts in self.references)

    def to_rows(self) -> list[dict[str, Any]]:
        """The queries as rows for a JSONL file, to be scored by anybody's metric."""
        return [
            {
                "id": self.ids[row],
                "image_id": self.image_ids[row],
                "image": self.images[row],
                "caption": self.candidates[row],
                "references": self.references[row],
                "language": self.languages[row],
            }
            for row in range(len(self))
        ]


Rows = Sequence[tuple[str, Mapping[str, Any]]]


class Task(ABC):
    """What is done with a benchmark; its rows are (key, row) as the loading script gives them."""

    #: whether scores of queries are enough
    takes_scores: ClassVar[bool] = True
    #: what it does with more than those, after its name
    asks_for: ClassVar[str] = ""
    #: which of `ASPECTS` its ratings are of
    aspects: ClassVar[tuple[str, ...]] = ()
    #: queries that a row makes
    queries_a_row: ClassVar[int] = 1

    def queries(self, rows: Rows) -> Queries:
        """What is scored: the caption of every row, unless a benchmark asks for more."""
        queries = Queries()
        for key, row in rows:
            _query(queries, key, row)
        return queries

    @abstractmethod
    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        """(q,) scores of the queries → the benchmark's numbers."""

    def refusal(self, slug: str, name: str, kind: type[Scorer], component: str) -> str:
        """Why a metric cannot be measured on the benchmark, whatever its rows are; "" where it can.

        Args:
            slug: the benchmark.
            name: of the metric in the table.
            kind: the class of its scorer.
            component: which component is meant; "" for the score.
        """
        return ""

    def reported(self, kind: type[Scorer]) -> dict[str, str]:
        """Further rows of a metric in the table: name → component."""
        return {
            name: component
            for name, component in kind.reported.items()
            if component not in ASPECTS or component in self.aspects
        }

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        """(configuration, statistic, settings) under which published figures have a number of ours."""
        return config, statistic, ("", "frozen_references")

    def measured_as_published(self, rows: Rows, options: Options) -> bool:
        """Whether papers make their numbers of the scores in the same way."""
        return True

    def compare(
        self, rows: Rows, first: np.ndarray, second: np.ndarray, options: Options
    ) -> list[dict[str, Any]]:
        """Paired tests of one metric's scores against another's; none where no test is defined."""
        return []

    def keep(self, rows: Rows, there: Sequence[bool]) -> Rows:
        """The rows of which all queries are there."""
        owners = self.owners(rows)
        gone = {row for row, here in zip(owners, there, strict=True) if not here}
        return [row for number, row in enumerate(rows) if number not in gone]

    def owners(self, rows: Rows) -> list[int]:
        """For each query, the number of its row."""
        return [number for number in range(len(rows)) for _ in range(self.queries_a_row)]


def _query(queries: Queries, key: str, row: Mapping[str, Any], caption: str = "caption") -> None:
    queries.add(
        key if caption == "caption" else f"{key}|{caption}",
        row[caption],
        row["image_id"],
        row["image"],
        row.get("references") or (),
        row["language"],
    )


class RatingTask(Task):
    """Agreement with human ratings.

    Args:
        statistics: which, the one that papers lead with first.
    """

    def __init__(self, *statistics: str):
        self.statistics = statistics

    def ratings(self, rows: Rows) -> list[Any]:
        """A number or a list of numbers a row."""
        column = "ratings" if rows and "ratings" in rows[0][1] else "rating"
        return [row[column] for _, row in rows]

    def measured_as_published(self, rows: Rows, options: Options) -> bool:
        return options.raters == "flatten" or not _several(self.ratings(rows))

    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        from ..statistics.agreement import agreement
        from .protocols.results import ends

        ratings = self.ratings(rows)
        found = agreement(
            scores,
            ratings,
            raters=options.raters if _several(ratings) else None,
            images=[row["image_id"] for _, row in rows],
            statistics=self.statistics,
            **options.sampling,
        )
        return Outcome(
            statistics=tuple(
                Statistic(name, found.values[name], ends(found.intervals.get(name)), found.n_rows)
                for name in self.statistics
            ),
            counts={"items": found.n_items, "ratings": found.n_ratings, "photos": found.n_images or 0},
            notes=tuple(found.notes),
            details=found.to_dict(),
        )

    def compare(
        self, rows: Rows, first: np.ndarray, second: np.ndarray, options: Options
    ) -> list[dict[str, Any]]:
        from ..statistics.agreement import compare

        ratings = self.ratings(rows)
        return [
            compare(
                first,
                second,
                ratings,
                raters=options.raters if _several(ratings) else None,
                images=[row["image_id"] for _, row in rows],
                statistic=self.statistics[0],
                method=method,
                n=options.bootstrap or 1000,
                confidence=options.confidence,
                seed=options.seed,
                missing=options.missing,
            ).to_dict()
            for method in ("bootstrap", "randomisation")
        ]


def _several(ratings: list[Any]) -> bool:
    """Whether items have a list of ratings each."""
    return bool(ratings) and isinstance(ratings[0], (list, tuple))


class ThumbTask(Task):
    """Pearson with THumB's precision, recall and total, with and without human captions."""

    aspects = ("precision", "recall")

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        _, rating, setting = statistic.split("_", maxsplit=2)
        return config, f"pearson_{rating}", (setting,)

    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        from .protocols import thumb

        columns = [row for _, row in rows]
        found = thumb(
            scores,
            [row["precision"] for row in columns],
            [row["recall"] for row in columns],
            [row["rating"] for row in columns],
            [row["system"] for row in columns],
            images=[row["image_id"] for row in columns],
            **options.sampling,
        )
        return _outcome(found, found.statistics())


class PairTask(Task):
    """Which of two captions of a photo people prefer, per category."""

    queries_a_row = 2

    def queries(self, rows: Rows) -> Queries:
        queries = Queries()
        for key, row in rows:
            for number, caption in enumerate(row["captions"]):
                queries.add(
                    f"{key}|{number}",
                    caption,
                    row["image_id"],
                    row["image"],
                    row.get("references") or (),
                    row["language"],
                )
        return queries

    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        from .protocols import pairwise_by_category

        found = pairwise_by_category(
            scores[0::2],
            scores[1::2],
            [row["label"] for _, row in rows],
            [row["category"] for _, row in rows],
            images=[row["image_id"] for _, row in rows],
            **options.sampling,
        )
        return _outcome(found, found.statistics())


class FoilTask(Task):
    """A caption against its foil."""

    queries_a_row = 2

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        piece = statistic.removeprefix("accuracy_")
        return (config, statistic, ("",)) if piece == "mean" else (piece, "accuracy", ("",))

    def queries(self, rows: Rows) -> Queries:
        queries = Queries()
        for key, row in rows:
            _query(queries, key, row)
            _query(queries, key, row, "foil")
        return queries

    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        from .protocols import VALSE_PIECES, foils, valse

        pieces = [row.get("piece", "all") for _, row in rows]
        measure = valse if set(pieces) == set(VALSE_PIECES) else foils
        found = measure(
            scores[0::2],
            scores[1::2],
            pieces,
            [row.get("valid", True) for _, row in rows],
            images=[row["image_id"] for _, row in rows],
            **options.sampling,
        )
        statistics = found.statistics()
        return _outcome(found, statistics if len(found.pieces) > 1 else statistics[:1])


class XvnliTask(Task):
    """Entailed, neutral and contradicted captions of one photo, in three experiments.

    Measured twice: between all captions of a photo, as the paper says, and between those written for one
    premise, which is what its figures fit (see `protocols.xvnli`).
    """

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        name, sign, _ = statistic.partition("_same_premise")
        return config, name, ("",) if sign else ()

    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        from .protocols import xvnli

        within = [
            xvnli(
                scores,
                [row["label"] for _, row in rows],
                [row["image_id"] for _, row in rows],
                premise_ids=premises,
                **options.sampling,
            )
            for premises in (None, [row["premise_id"] for _, row in rows])
        ]
        image, premise = within
        again = [found._replace(name=f"{found.name}_same_premise") for found in premise.statistics()]
        return Outcome(
            (*image.statistics(), *again),
            counts=image.counts(),
            notes=(
                *(note for note in image.notes if note in premise.notes),
                *(f"within a photo: {note}" for note in image.notes if note not in premise.notes),
                *(f"within a premise: {note}" for note in premise.notes if note not in image.notes),
            ),
            details={"same_image": image.to_dict(), "same_premise": premise.to_dict()},
        )


class MarvlTask(Task):
    """A caption that is true of some pairs of photos and false of others, in two experiments."""

    queries_a_row = 2

    def queries(self, rows: Rows) -> Queries:
        queries = Queries()
        for key, row in rows:
            for side in ("left", "right"):
                queries.add(
                    f"{key}|{side}",
                    row["caption"],
                    row[f"{side}_image_id"],
                    row[f"{side}_image"],
                    (),
                    row["language"],
                )
        return queries

    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        from .protocols import marvl

        found = marvl(
            scores[0::2],
            scores[1::2],
            [row["label"] for _, row in rows],
            [row["caption"] for _, row in rows],
            [row["id"] for _, row in rows],
            **options.sampling,
        )
        return _outcome(found, found.statistics())


class RetrievalTask(Task):
    """Every caption against every photo: how often the right one is among the best 1, 5 and 10.

    Captions are the rows' references. A photo with several has them all in the pool.
    """

    takes_scores = False
    asks_for = "compares every photo with every caption: scores of rows are not enough"

    def refusal(self, slug: str, name: str, kind: type[Scorer], component: str) -> str:
        if kind.needs_images and not kind.needs_references:
            return ""
        return (
            f"{name} compares captions with references, and {slug} asks which photo belongs to which caption"
        )

    def queries(self, rows: Rows) -> Queries:
        queries = Queries()
        for key, row in rows:
            for number, caption in enumerate(row["references"]):
                queries.add(f"{key}|{number}", caption, row["image_id"], row["image"], (), row["language"])
        return queries

    def owners(self, rows: Rows) -> list[int]:
        return [number for number, (_, row) in enumerate(rows) for _ in row["references"]]

    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        raise CapscoreError(f"retrieval {self.asks_for}")

    def retrieve(
        self, rows: Rows, scorer: BackboneScorer, components: Sequence[str], options: Options
    ) -> dict[str, Outcome]:
        """The benchmark's numbers for the scores ("") and components of a scorer."""
        from .protocols import retrieval

        queries, photos = self.queries(rows), [row["image"] for _, row in rows]
        right: dict[str, Any] = {"text_to_image": self.owners(rows), "missing": options.missing}
        if isinstance(scorer, ScoresPairs):
            scores, parts = scorer.score_matrix(queries.candidates, photos, queries.languages)
            found = {
                component: retrieval(parts[component] if component else scores, **right)
                for component in components
            }
        else:
            images = scorer.embedder.images(photos)
            texts = scorer.embedder.texts(queries.candidates, prefix=scorer.prefix)
            cosines = retrieval(
                image_embeddings=images.matrix[images.index],
                text_embeddings=texts.matrix[texts.index],
                **right,
            )
            found = dict.fromkeys(components, cosines)
        # drawn twice, a photo would be a second right answer to its own captions
        notes = ("no intervals: photos cannot be drawn anew here",) if options.bootstrap else ()
        outcomes = {component: _outcome(one, one.statistics()) for component, one in found.items()}
        return {
            component: replace(outcome, notes=(*outcome.notes, *notes))
            for component, outcome in outcomes.items()
        }


class TokenTask(Task):
    """Which words of a caption are right, and which regions of its photo it mentions, as on CapTokenEval.

    The regions are those of the benchmark. Its words are scored by those that the metric finds in the same
    caption (see `protocols.captokeneval.scores_of_tokens`).
    """

    takes_scores = False
    asks_for = "asks for scores of words and regions, which a score of captions does not give"

    def refusal(self, slug: str, name: str, kind: type[Scorer], component: str) -> str:
        if {"words", "regions"} <= set(kind.detail_names) and not component:
            return ""
        return (
            f"{name} is a score of captions, and {slug} is no benchmark of caption scores: it {self.asks_for}"
        )

    def reported(self, kind: type[Scorer]) -> dict[str, str]:
        return {}  # all say the same of words and regions

    def outcome(self, rows: Rows, scores: np.ndarray, options: Options) -> Outcome:
        raise CapscoreError(f"this benchmark {self.asks_for}")

    def score(self, rows: Rows, scorer: ScoresTokens) -> Scores:
        """Captions and photos of the rows, scored with the benchmark's regions."""
        queries = self.queries(rows)
        return scorer.score(
            queries.candidates,
            queries.images,
            language=queries.languages,
            boxes=[row["regions"] for _, row in rows],
        )

    def token_outcome(
        self, rows: Rows, details: Sequence[Mapping[str, Any]], beta: float, options: Options
    ) -> Outcome:
        """What was said of each row's words and regions → the benchmark's numbers.

        Args:
            rows: n rows.
            details: n dictionaries with "words" and "regions", as in `Scores.details`.
            beta: words and regions with a score above it are right, or mentioned.
            options: how numbers are made.

        Raises:
            InputError: the benchmark's words are not those of its caption; a score is missing that counts.
        """
        from .protocols.captokeneval import captokeneval, scores_of_tokens

        words = []
        for number, ((_, row), detail) in enumerate(zip(rows, details, strict=True)):
            try:
                words.append(scores_of_tokens(row["caption"], row["words"], detail["words"]))
            except InputError as error:
                raise error.at(number) from None
        found = captokeneval(
            words,
            [row["word_labels"] for _, row in rows],
            [row["semantic"] for _, row in rows],
            [[region["score"] for region in detail["regions"]] for detail in details],
            [row["region_labels"] for _, row in rows],
            beta=beta,
            missing=options.missing,
        )
        outcome = _outcome(found, found.statistics())
        notes = ("no intervals: none are made of shares of words and regions",) if options.bootstrap else ()
        return replace(outcome, notes=(*outcome.notes, *notes))


def _outcome(found: Any, statistics: Sequence[Statistic]) -> Outcome:
    """What a protocol found."""
    return Outcome(
        tuple(statistics), counts=found.counts(), notes=tuple(found.notes), details=found.to_dict()
    )


_TASKS: dict[str, Task] = {
    "flickr8k_human": RatingTask("tau_c", "tau_b", "spearman"),
    "flickr8k_human/crowdflower": RatingTask("tau_b", "tau_c", "spearman"),
    "composite": RatingTask("tau_c", "tau_b", "spearman"),
    "pascal50s": PairTask(),
    "thumb": ThumbTask(),
    "captokeneval": TokenTask(),
    "vicr": RatingTask("tau_c", "tau_b", "spearman"),
    "polaris": RatingTask("tau_c", "tau_b"),
    "nebula": RatingTask("tau_c", "tau_b"),
    "capeval1k": RatingTask("tau_c", "pearson"),
    "m_capeval1k": RatingTask("tau_c", "pearson"),
    "valse": FoilTask(),
    "xvnli": XvnliTask(),
    "marvl": MarvlTask(),
    "xm3600": RetrievalTask(),
    "multi30k": RetrievalTask(),
    "xflickrco": RetrievalTask(),
    "coco_captions": RetrievalTask(),
    "nocaps": RetrievalTask(),
    "nocaps/foil": FoilTask(),
    "vizwiz_captions": RetrievalTask(),
}
# benchmarks whose numbers need more than a score a caption
_ELSEWHERE = {
    "m_finecap3k": "it compares captions with perturbed ones, which is another protocol",
    "flickr30k_entities": "it holds phrases and boxes to train on, and no ratings",
}


def task_of(slug: str, config: str) -> Task:
    """What is done with a benchmark's configuration.

    Raises:
        CapscoreError: it is none that a metric's scores are compared on; says why.
    """
    if slug in _ELSEWHERE:
        raise CapscoreError(f"{slug} is no benchmark of caption scores: {_ELSEWHERE[slug]}")
    task = _TASKS.get(f"{slug}/{config}") or _TASKS.get(slug)
    if task is None:
        raise CapscoreError(
            f"{slug!r} is not one of the benchmarks of caption scores: {', '.join(known_slugs())}"
        )
    return task


def known_slugs() -> list[str]:
    """Benchmarks that have a task."""
    return [slug for slug in _TASKS if "/" not in slug]
