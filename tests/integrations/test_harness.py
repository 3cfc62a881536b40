"""Metrics in evaluation harnesses: `make test-harnesses` installs each; one that is not installed is skipped.

That documents become the mean score of the library is one of the laws of metrics.
"""

from argparse import Namespace

import datasets
import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.integrations.harness import HarnessMetric, lighteval_metric
from tools.tiny.colours import ColourBackbone

DOCUMENTS = [
    {"image": Image.new("RGB", (4, 4), "red"), "answers": ["a red square"]},
    {"image": Image.new("RGB", (4, 4), "blue"), "answers": ["a blue square"]},
]
ANSWERS = ["a red square", " two dogs "]
OPTIONS = {"backbone": ColourBackbone(), "cache": False}


@pytest.fixture
def settings(tmp_path):
    """A task of its own, in the form that lm-evaluation-harness and lmms-eval share."""
    metric = HarnessMetric("rouge_l", image=None, references=lambda row: row["answers"], language="en")
    rows = [{"number": number, "answers": row["answers"]} for number, row in enumerate(DOCUMENTS)]
    datasets.Dataset.from_list(rows).to_json(tmp_path / "rows.jsonl")
    data = {"data_files": {"test": str(tmp_path / "rows.jsonl")}}
    measured = {"metric": "rouge_l", "aggregation": metric.aggregation, "higher_is_better": True}
    return {
        **{"task": "captions", "dataset_path": "json", "dataset_kwargs": data, "test_split": "test"},
        **{"output_type": "generate_until", "generation_kwargs": {"until": ["\n"]}},
        **{"process_results": metric.process_results, "metric_list": [measured]},
    }


def refuse(*_):
    raise NotImplementedError


def test_with_lm_evaluation_harness(settings):
    lm_eval = pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask

    class Answers(LM):
        loglikelihood = loglikelihood_rolling = refuse

        def generate_until(self, requests, **_):
            return [ANSWERS[request.doc["number"]] for request in requests]

    task = ConfigurableTask(config={**settings, "doc_to_text": "Describe.", "doc_to_target": ""})
    found = lm_eval.evaluate(lm=Answers(), task_dict={"captions": task}, bootstrap_iters=0)
    assert found["results"]["captions"]["rouge_l,none"] == pytest.approx(0.5, abs=1e-6)


def test_with_lmms_eval(settings):
    pytest.importorskip("lmms_eval", reason="lmms_eval is not installed")
    from lmms_eval.api.model import lmms
    from lmms_eval.api.task import ConfigurableTask
    from lmms_eval.evaluator import evaluate

    class Answers(lmms):
        loglikelihood = generate_until_multi_round = refuse

        def generate_until(self, requests):
            return [ANSWERS[request.args[3]] for request in requests]

    asked = {"doc_to_visual": lambda row: [], "doc_to_text": lambda row: "Describe."}
    task = ConfigurableTask(config={**settings, **asked, "doc_to_target": "answers"})
    options = Namespace(process_with_media=False)
    found = evaluate(lm=Answers(), task_dict={"captions": task}, bootstrap_iters=0, cli_args=options)
    assert found["results"]["captions"]["rouge_l,none"] == pytest.approx(0.5, abs=1e-6)


def test_with_lighteval():
    pytest.importorskip("lighteval", reason="lighteval is not installed")
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    of_photos = HarnessMetric("mcs", image=lambda document: document["images"][0], language="en", **OPTIONS)
    metric = lighteval_metric(of_photos)
    rows = []
    for row, answer in zip(DOCUMENTS, ANSWERS, strict=True):
        doc = Doc(query="Describe.", choices=row["answers"], gold_index=0, images=[row["image"]])
        rows.append(metric.compute_sample(doc=doc, model_response=ModelResponse(text=[answer]))["mcs"])
    found = metric.get_corpus_aggregations()["mcs"](rows)
    captions, photos = [answer.strip() for answer in ANSWERS], [row["image"] for row in DOCUMENTS]
    expected = capscore.load("mcs", **OPTIONS).score(captions, photos, language="en").mean
    assert np.mean(found) == pytest.approx(expected, abs=1e-6)
