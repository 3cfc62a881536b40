"""What every task shares: what is scored (`Queries`), how (`TaskOptions`), and what comes out (`Outcome`)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import CapscoreError, InputError, Setting
from ...statistics.bootstrap import check_sampling
from ..protocols.results import ProtocolResult, Statistic

if TYPE_CHECKING:
    from ...metrics.base import Scorer

RATERS = ("flatten", "mean")
MISSING = ("raise", "skip")
# parts of a caption's quality that people may rate apart; a metric's component of that name gets a row there
ASPECTS = ("precision", "recall")

# the rows of a benchmark, as its loading script gives them
KeyedRows = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class TaskOptions:
    """How scores become numbers.

    Args:
        raters: Meaning of several ratings per item: "flatten" (one row each, as published) or "mean".
        bootstrap: Number of draws for the intervals; 0 gives none.
        confidence: Share of the draws inside an interval.
        seed: Seed for the draws.
        missing: What happens to items without a score: "raise" or "skip".

    Raises:
        InputError: a value is not allowed; the message says what is expected.

    >>> TaskOptions(bootstrap=200).confidence
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
                raise InputError(Setting(name, given), f": expected one of {', '.join(known)}", field=name)
        check_sampling(self.bootstrap, self.confidence, self.seed, field="bootstrap", least=0)

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments of every protocol that makes intervals, by name."""
        return {
            "bootstrap": self.bootstrap,
            "confidence": self.confidence,
            "seed": self.seed,
            "missing": self.missing,
        }


@dataclass(frozen=True)
class Outcome:
    """What a benchmark says about a metric.

    Attributes:
        statistics: Numbers, with the one that papers report first at the front.
        counts: Numbers of items, ratings, photos, …
        notes: Remarks that a reader needs.
        details: Everything the protocol found, ready for JSON.
    """

    statistics: tuple[Statistic, ...]
    counts: dict[str, int]
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, found: ProtocolResult, statistics: Sequence[Statistic] | None = None, notes: Sequence[str] = ()
    ) -> Outcome:
        """The outcome of a protocol.

        Args:
            found: Result of the protocol.
            statistics: Statistics to keep; None keeps all.
            notes: Further notes, after the protocol's own.
        """
        return cls(
            tuple(found.statistics() if statistics is None else statistics),
            counts=found.counts(),
            notes=(*found.notes, *notes),
            details=found.to_dict(),
        )


@dataclass(frozen=True)
class Measurement:
    """One scoring of a benchmark's rows.

    Attributes:
        outcomes: Component → outcome; "" is the score itself.
        signature: Signature of the scores.
        seconds: Time that scoring took.
        scores: Component → (q,) scores of the queries; empty where scores aren't one per query.
    """

    outcomes: dict[str, Outcome]
    signature: str
    seconds: float
    scores: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Queries:
    """What a metric scores: q captions, each with its photo and its references.

    Attributes:
        ids: Unique names, in the benchmark's order.
        candidates: Captions.
        image_ids: File names of the photos.
        images: Paths of the photos; None where a photo is missing.
        references: Lists of references; [] where there are none.
        languages: Language codes.
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
        """Add one query."""
        self.ids.append(name)
        self.candidates.append(caption)
        self.image_ids.append(image_id)
        self.images.append(image)
        self.references.append(list(references))
        self.languages.append(language)

    def add_row(self, name: str, row: Mapping[str, Any], caption: str) -> None:
        """Add a caption with the photo, references and language of a benchmark's row."""
        self.add(name, caption, row["image_id"], row["image"], row.get("references") or (), row["language"])

    @property
    def missing_images(self) -> list[str]:
        """File names of the missing photos, each once, in order."""
        names = zip(self.image_ids, self.images, strict=True)
        return list(dict.fromkeys(name for name, path in names if path is None))

    @property
    def without_references(self) -> int:
        """Number of queries that have no reference."""
        return sum(not texts for texts in self.references)

    @property
    def named_languages(self) -> str:
        """The languages as a signature writes them: "de+en", or "unstated".

        >>> Queries(languages=["en", "", "de", "en"]).named_languages
        'de+en'
        """
        return "+".join(sorted(set(self.languages) - {""})) or "unstated"

    def to_rows(self) -> list[dict[str, Any]]:
        """The queries as rows of a JSONL file, for any metric to score."""
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


class Task:
    """How a benchmark is scored; its rows are pairs of key and row, as the loading script gives them."""

    #: whether one score per query is enough
    takes_scores: ClassVar[bool] = True
    #: what it asks for instead, after the benchmark's name
    asks_for: ClassVar[str] = ""
    #: which of `ASPECTS` people rated
    aspects: ClassVar[tuple[str, ...]] = ()
    #: number of queries per row
    queries_per_row: ClassVar[int] = 1

    def queries(self, rows: KeyedRows) -> Queries:
        """What is scored: the caption of every row, unless a benchmark asks for more."""
        queries = Queries()
        for key, row in rows:
            queries.add_row(key, row, row["caption"])
        return queries

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> Outcome:
        """(q,) scores of the queries → the benchmark's numbers.

        Raises:
            CapscoreError: one score per query is not enough.
        """
        raise CapscoreError(f"this benchmark {self.asks_for}")

    def measure(
        self, rows: KeyedRows, scorer: Scorer, components: Collection[str], options: TaskOptions
    ) -> Measurement:
        """Score the rows once, and make the numbers of the score ("") and of each component."""
        queries = self.queries(rows)
        start = time.perf_counter()
        found = scorer.score(
            queries.candidates,
            queries.images if scorer.needs_images else None,
            references=queries.references if scorer.needs_references else None,
            language=queries.languages,
        )
        seconds = time.perf_counter() - start
        scores = {part: found.components[part] if part else found.scores for part in components}
        outcomes = {part: self.outcome(rows, column, options) for part, column in scores.items()}
        return Measurement(outcomes, found.signature, seconds, scores)

    def refusal(self, slug: str, kind: type[Scorer], component: str) -> str:
        """Why a metric cannot be measured on the benchmark, whatever its rows are; "" where it can.

        The reason continues a sentence that begins with the metric's name.

        Args:
            slug: Name of the benchmark.
            kind: Class of its scorer.
            component: Component that is meant; "" for the score.
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

    def keep(self, rows: KeyedRows, there: Sequence[bool]) -> KeyedRows:
        """The rows whose queries are all there."""
        owners = self.owners(rows)
        gone = {row for row, here in zip(owners, there, strict=True) if not here}
        return [row for number, row in enumerate(rows) if number not in gone]

    def owners(self, rows: KeyedRows) -> list[int]:
        """For each query, the number of its row."""
        return [number for number in range(len(rows)) for _ in range(self.queries_per_row)]
