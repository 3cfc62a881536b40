"""Results in the repository of a model, read back as the Hub's own library reads them."""

import json

import pytest
import yaml
from huggingface_hub import EvalResultEntry, parse_eval_result_entries

import capscore
from capscore.benchmarks.result_file import stamped
from capscore.errors import InputError
from capscore.hub.eval_results import eval_result_files
from capscore.hub.weights import plan_weights

from .conftest import done, failed

PACKAGES = {"torch": "2.15.0", "numpy": "2.4.6"}


def result(signature, metric="mcs", **changed):
    statistics = [
        {"name": "tau_c", "measured": 0.543832, "interval": [0.5249, 0.5627], "n": 30},
        {"name": "image_to_text_r@1", "measured": None, "interval": None, "n": 0},
        {"name": "text_to_image_r@5", "measured": 1.0, "interval": None, "n": 30},
    ]
    parts = {"backbone": "own", "statistics": statistics, "counts": {}, "n_rows": 12}
    return {"metric": metric, "signature": signature, **parts, **changed}


def document(*results, **changed):
    options = {"raters": "flatten", "bootstrap": 1000, "confidence": 0.995, "seed": 0, "missing": "raise"}
    run = {"benchmark": "flickr8k_human", "config": "expert", "split": "test", "script_version": "1.0.0"}
    run |= {"capscore_version": "0.9.0", "files": {}, "n_rows": 12, "options": options, **changed}
    environment = {"python": "3.11.7", "system": "Linux", "machine": "x86_64", "packages": PACKAGES}
    return stamped({**run, "results": list(results)}) | {"environment": environment}


def read(content):
    return parse_eval_result_entries(yaml.safe_load(content))


def test_entries_hold_data_set_task_value_command_signature_and_versions():
    files = eval_result_files([document(result("mcs|backbone:own@w1|w:2.5"))], "lab", date="2026-11-27")
    ((name, content),) = files.items()
    assert name == ".eval_results/flickr8k_human-expert-test-mcs.yaml"
    first, second = read(content)
    assert first == EvalResultEntry(
        dataset_id="lab/flickr8k_human",
        task_id="expert_test_tau_c",
        value=54.38,
        date="2026-11-27",
        source_url="https://pypi.org/project/capscore/0.9.0/",
        source_name="capscore 0.9.0",
        notes="tau_c times 100, 99.5% interval 52.49 to 56.27, 12 rows. "
        "capscore benchmark --data flickr8k_human --config expert --split test --metric mcs --backbone own. "
        "mcs|backbone:own@w1|w:2.5. torch 2.15.0, numpy 2.4.6",
    )
    assert (second.task_id, second.value) == ("expert_test_text_to_image_r_5", 100.0)


def test_only_results_of_the_model_on_all_rows_are_taken():
    own = result("infometic|backbone:own@w1|weights:net@w2", "infometic")
    texts, theirs = result("cider|n:4", "cider", backbone=None), result("a.jsonl, by id", "a", backbone=None)
    part = result("clip_score|backbone:own@w1", "clip_score", n_rows=3)
    files = eval_result_files([document(own, texts, theirs, part)], "lab")
    assert [name.rpartition("-")[2] for name in files] == ["infometic.yaml"]
    several = [document(own, result("mcs|backbone:own@w1"))]
    with pytest.raises(InputError, match="of one model, got those of net@w2 and own@w1"):
        eval_result_files(several, "lab")
    (name,) = eval_result_files(several, "lab", revision="w1")
    assert name.endswith("-mcs.yaml")
    with pytest.raises(InputError, match="two results of infometic on flickr8k_human, expert"):
        eval_result_files([document(own), document(own)], "lab")


def test_weights_are_published_with_the_results_of_exactly_them(hub, eye, tmp_path):
    revision = capscore.load_backbone(eye, device="cpu").revision
    for name, shown in (("now", revision), ("earlier", "w00000000")):
        content = document(result(f"mcs|backbone:eye@{shown}"), config=name)
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    send = ("weights", eye, "--org", "jo", "--results")
    done(*send, tmp_path / "now.json", "--results", tmp_path / "earlier.json")
    held = hub.files_of("jo/eye")
    (name,) = (name for name in held if name.startswith(".eval_results/"))
    assert name == ".eval_results/flickr8k_human-now-test-mcs.yaml"
    assert [entry.dataset_id for entry in read(held[name])] == ["jo/flickr8k_human"] * 2
    (eye / ".eval_results").mkdir()
    (eye / ".eval_results" / "vicr-default-test-mcs.yaml").write_text("[]")
    assert ".eval_results/vicr-default-test-mcs.yaml" in plan_weights(eye).files
    said = done(*send, tmp_path / "earlier.json", "--dry-run")
    assert f"note: no results of these weights ({revision}) on all rows" in said
    assert "is neither a file of results" in failed(*send, tmp_path / "gone", code=2)
