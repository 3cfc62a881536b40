"""Metrics in evaluation harnesses; those that are not installed are skipped by name.

That documents become the mean score of the library is one of the laws of metrics.
"""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.integrations.harness import HarnessMetric, lighteval_metric

from ..toy import ColourBackbone

DOCUMENTS = [
    {"image": Image.new("RGB", (4, 4), "red"), "answers": ["a red square"]},
    {"image": Image.new("RGB", (4, 4), "blue"), "answers": ["a blue square"]},
]
ANSWERS = ["a red square", " two dogs "]
OPTIONS = {"backbone": ColourBackbone(), "cache": False}


def expected() -> float:
    photos = [document["image"] for document in DOCUMENTS]
    captions = [answer.strip() for answer in ANSWERS]
    return float(capscore.load("mcs", **OPTIONS).score(captions, photos, language="en").mean)


def test_with_lm_evaluation_harness(tmp_path):
    """A task of its own, whose model is a list of answers."""
    lm_eval = pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    import datasets
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask

    class Answers(LM):
        def generate_until(self, requests: list[Instance], **_: object) -> list[str]:
            return [ANSWERS[request.doc["number"]] for request in requests]

        def loglikelihood(self, requests, **_):
            raise NotImplementedError

        def loglikelihood_rolling(self, requests, **_):
            raise NotImplementedError

    rows = datasets.Dataset.from_list(
        [{"number": number, "answers": one["answers"]} for number, one in enumerate(DOCUMENTS)]
    )
    rows.to_json(tmp_path / "rows.jsonl")
    metric = HarnessMetric("rouge_l", image=None, references=lambda row: row["answers"], language="en")
    task = ConfigurableTask(
        config={
            "task": "captions",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(tmp_path / "rows.jsonl")}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "Describe.",
            "doc_to_target": "",
            "generation_kwargs": {"until": ["\n"]},
            "process_results": metric.process_results,
            "metric_list": [
                {"metric": "rouge_l", "aggregation": metric.aggregation, "higher_is_better": True}
            ],
        }
    )
    found = lm_eval.evaluate(lm=Answers(), task_dict={"captions": task}, bootstrap_iters=0)
    assert found["results"]["captions"]["rouge_l,none"] == pytest.approx(0.5, abs=1e-6)


def test_with_lighteval():
    pytest.importorskip("lighteval", reason="lighteval is not installed")
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    metric = lighteval_metric(
        HarnessMetric("mcs", image=lambda document: document["images"][0], language="en", **OPTIONS)
    )
    documents = [
        Doc(query="Describe.", choices=one["answers"], gold_index=0, images=[one["image"]])
        for one in DOCUMENTS
    ]
    rows = [
        metric.compute_sample(doc=doc, model_response=ModelResponse(text=[answer]))["mcs"]
        for doc, answer in zip(documents, ANSWERS, strict=True)
    ]
    found = metric.get_corpus_aggregations()["mcs"](rows)
    assert np.mean(found) == pytest.approx(expected(), abs=1e-6)
