"""Metrics of captions for evaluation harnesses: lm-evaluation-harness, lmms-eval, lighteval.

The first two call `process_results` for every document and `aggregation` for all of them; both are plain
functions, so that nothing of theirs is imported. lighteval has classes, which `lighteval_metric` makes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import MissingExtraError
from ..metrics import load
from ..metrics.base import Scorer

Row = tuple[str, object, Sequence[str] | None]


class HarnessMetric:
    """A metric for the captions that a harness lets a model write.

    Args:
        metric: METRIC, METRIC@BACKBONE, or a loaded scorer.
        image: Function from a document to its photo; None for metrics without photos.
        references: Function from a document to its references, for metrics that read them.
        language: Language of the captions.
        **options: Options of `capscore.load`.

    In the `utils.py` of a task, of which `process_results: !function utils.process_results`, the `metric`
    `mcs`, `aggregation: !function utils.aggregation` and `higher_is_better` of its YAML file speak:

    >>> metric = HarnessMetric("rouge_l", image=None, references=lambda document: document["answers"])
    >>> process_results, aggregation = metric.process_results, metric.aggregation
    >>> rows = [process_results({"answers": ["a dog runs"]}, [" a dog runs "])]
    >>> round(aggregation([row["rouge_l"] for row in rows]), 3)
    1.0
    """

    def __init__(
        self,
        metric: str | Scorer = "mcs",
        *,
        image: Callable[[Mapping[str, Any]], Any] | None = lambda document: document["image"],
        references: Callable[[Mapping[str, Any]], Sequence[str]] | None = None,
        language: str | None = None,
        **options: Any,
    ):
        self.scorer = load(metric, **options)
        self.name, self.image, self.language = self.scorer.metric, image, language
        self.references = references if self.scorer.reads_references else None

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher score is better, as `higher_is_better` of a task's YAML file says."""
        return self.scorer.higher_is_better

    def process_results(self, document: Mapping[str, Any], results: Sequence[str]) -> dict[str, Row]:
        """A document and what the model answered → what `aggregation` gets of it; None is no caption."""
        answer = results[0] if results else None
        caption = "" if answer is None else str(answer).strip()
        image = references = None
        if self.image is not None:
            image = self.image(document)
        if self.references is not None:
            references = self.references(document)
        return {self.name: (caption, image, references)}

    def aggregation(self, rows: Sequence[Row]) -> float:
        """The number of all rows, mostly their mean; photos and texts are encoded in batches."""
        captions, images, references = map(list, zip(*rows, strict=True))
        return self.scorer.score(
            captions,
            None if self.image is None else images,
            None if self.references is None else references,
            self.language,
        ).of_set


def lighteval_metric(metric: HarnessMetric) -> Any:
    """The same for lighteval: a `CorpusLevelMetric`, for the `metrics` of a task.

    A document of lighteval has the photo as `images[0]`, and references as `choices`; `image` and
    `references` of the metric get its fields as a mapping.

    Raises:
        MissingExtraError: lighteval is not installed.
    """
    try:
        from lighteval.metrics.metrics_corpus import CorpusLevelComputation
        from lighteval.metrics.sample_preparator import Preparator
        from lighteval.metrics.utils.metric_utils import CorpusLevelMetric
        from lighteval.tasks.requests import SamplingMethod
    except ImportError:
        raise MissingExtraError("lighteval", "lighteval", "lighteval_metric") from None

    class Captions(Preparator):
        def prepare(self, doc: Any, model_response: Any, **kwargs: object) -> Row:
            document = {field.name: getattr(doc, field.name) for field in dataclasses.fields(doc)}
            return metric.process_results(document, model_response.final_text)[metric.name]

    class MeanScore(CorpusLevelComputation):
        def compute_corpus(self, items: list[Row]) -> float:
            return metric.aggregation(items)

    return CorpusLevelMetric(
        metric_name=metric.name,
        higher_is_better=metric.higher_is_better,
        category=SamplingMethod.GENERATIVE,
        sample_level_fn=Captions(),
        corpus_level_fn=MeanScore(),
    )
