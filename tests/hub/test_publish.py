"""`capscore publish` to a Hub on this machine: a metric, weights, a data set; one commit, or nothing."""

import io
import zipfile

import numpy as np
import pyarrow.parquet as pq
import pytest
from huggingface_hub import constants

import capscore
from capscore.errors import InputError
from capscore.hub.push import Plan, push
from capscore.hub.weights import plan_weights
from capscore.registry import METRICS, register_metric
from tests.datasets_scripts.conftest import official

from .conftest import change, change_bias, done, failed

pytestmark = [
    pytest.mark.usefixtures("embedded_is_read_once"),
    pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning"),
]
VERSION = capscore.__version__
PHOTO = np.full((64, 64, 3), 90, np.uint8)
PACKAGES, SPACE = ("capscore", "capscore_weights"), {"README.md", "app.py", "requirements.txt"}


def test_a_metric_with_wheels_in_its_space(hub, tmp_path):
    library, weights = (tmp_path / f"{name}-{VERSION}-py3-none-any.whl" for name in PACKAGES)
    for path in (library, weights):
        zipfile.ZipFile(path, "w").close()
    send = ("metric", "mcs", "--org", "jo", "--install", library)
    said = done(*send)
    assert f"created and filled jo/mcs: {hub.url}/spaces/jo/mcs/commit/" in said
    assert "load it: evaluate.load('jo/mcs', revision='" in said
    held = hub.files_of("spaces/jo/mcs")
    assert held.keys() == {*SPACE, "mcs.py", ".gitattributes", library.name}
    wanted = f"capscore[app,demo,embedded] @ {hub.url}/spaces/jo/mcs/resolve/main/{library.name}"
    assert wanted in held["requirements.txt"].decode().splitlines()
    card = held["README.md"].decode()
    assert 'evaluate.load("jo/mcs"' in card and "sdk: gradio" in card
    edited = hub.repos["spaces/jo/mcs"]["main"] / "README.md"
    edited.write_text(f"{card}Edited on the Hub.\n")
    assert "the card on the Hub differs and was kept" in done(*send)
    assert "Edited on the Hub." in hub.files_of("spaces/jo/mcs")["README.md"].decode()
    assert "kept" not in done(*send, "--overwrite-card")
    assert "already has all files; no commit was made" in done(*send)
    send = ("metric", "pr_mcs", "--org", "jo", "--install", library)
    assert "the Space needs the wheel of capscore-weights too" in failed(*send, code=2)
    said = done(*send, "--install", weights, "--dry-run")
    assert library.name in said and weights.name in said and "would go to jo/pr_mcs" in said


def test_installed_weights_give_the_same_scores_from_the_hub(hub, elsewhere, embedded):
    for name in ("pr_mcs", "infometic", "mark_calibration"):
        said = done("weights", name, "--org", "jo")
        assert f"created and filled jo/{name.replace('_', '-')}: " in said
    assert "marks='jo/mark-calibration@" in said
    elsewhere()

    def scored(metric, **options):
        scorer = capscore.load(metric, cache=False, **options)
        return scorer.score(["a dog runs", "dog a a a runs the"], [PHOTO] * 2, language="en")

    here, there = (scored("pr_mcs", backbone=name) for name in ("embedded-pr-mcs", "jo/pr-mcs"))
    assert there.scores == pytest.approx(here.scores, abs=1e-6)
    assert f"backbone:jo/pr-mcs@{hub.commit_of('jo/pr-mcs', 'main')}" in there.signature
    published = {"weights": "jo/infometic", "marks": "jo/mark-calibration"}
    here, there = (scored("infometic", backbone=embedded, **options) for options in ({}, published))
    assert there.scores == pytest.approx(here.scores, abs=1e-6)
    assert f"weights:jo/infometic@{hub.commit_of('jo/infometic', 'main')}" in there.signature


def test_a_benchmark_as_parquet(hub, tmp_path):
    official("valse").write(tmp_path)
    send = ("dataset", "valse", "--org", "jo", "--data-dir", tmp_path, "--config", "existence")
    assert "load it: load_dataset('jo/valse', 'existence', revision='" in done(*send)
    held = hub.files_of("datasets/jo/valse")
    assert {name for name in held if name.endswith(".parquet")} == {"existence/valse-test.parquet"}
    assert 'load_dataset("jo/valse", "existence")' in held["README.md"].decode()
    here = capscore.load_benchmark("valse", "existence", data_dir=tmp_path, split="test")
    assert pq.read_table(io.BytesIO(held["existence/valse-test.parquet"])).to_pylist() == here.to_list()
    assert "no commit was made" in done(*send)


def test_of_a_set_for_research_only_no_data_are_published(hub, tmp_path):
    official("flickr8k_human").write(tmp_path)
    said = done("dataset", "flickr8k_human", "--org", "jo", "--data-dir", tmp_path)
    assert "only card and builder" in said
    held = hub.files_of("datasets/jo/flickr8k_human")
    assert held.keys() == {"README.md", "builder/flickr8k_human.py", ".gitattributes"}
    assert 'capscore.load_benchmark("flickr8k_human", data_dir="<folder>")' in held["README.md"].decode()


def send(student, *options):
    return ("weights", student, "--org", "jo", *options)


def test_the_dry_run_lists_exactly_what_is_sent(hub, student, monkeypatch):
    files = plan_weights(student).files
    (student / "log.jsonl").write_text("{}\n")
    with monkeypatch.context() as patch:
        patch.delenv("HF_TOKEN")
        patch.setenv("HF_HUB_OFFLINE", "1")
        listed = done(*send(student, "--dry-run"))
    assert "not sent: log.jsonl" in listed and all(name in listed for name in files)
    assert f"dry run: {len(files)} files, " in listed and "to jo/tiny in one commit" in listed
    assert hub.steps == [] and set(hub.repos) == {"org/clip"}
    said, commit = done(*send(student)), hub.commit_of("jo/tiny", "main")
    assert f"created and filled jo/tiny: {hub.url}/jo/tiny/commit/{commit}" in said
    assert f"capscore.load(…, backbone='jo/tiny@{commit}')" in said
    assert hub.steps == ["create", "lfs", "commit"] and hub.messages[-1] == "Upload tiny with capscore"
    assert hub.files_of("jo/tiny").keys() == {*files, ".gitattributes"}


def test_a_network_does_not_replace_a_tower_and_further_files_stay(hub, network, student):
    push(plan_weights(student), "jo/tiny")
    message = "jo/tiny has further files that loading would read: capscore_student.json; "
    assert message in failed("weights", network, "--org", "jo", "--name", "tiny")
    (student / "LICENSE").write_text("x")
    push(plan_weights(student), "jo/tiny")
    (student / "LICENSE").unlink()
    change(student / "capscore_student.json", teacher="another")
    assert push(plan_weights(student), "jo/tiny").changed and "LICENSE" in hub.files_of("jo/tiny")


@pytest.mark.parametrize("step", ["preupload", "lfs-batch", "lfs", "commit"])
def test_a_failure_leaves_no_half_commit(hub, student, step):
    hub.refused["commit"] = 422
    assert failed(*send(student)).endswith("jo/tiny, which was created for it, is empty")
    hub.refused.clear()
    commit = push(plan_weights(student), "jo/tiny").commit
    before, weights = hub.files_of("jo/tiny"), student / "model.safetensors"
    change_bias(student)
    hub.refused[step] = 422
    message = failed(*send(student))
    assert "422" in message and message.endswith("; nothing was sent")
    assert hub.commit_of("jo/tiny", "main") == commit and hub.files_of("jo/tiny") == before
    hub.refused.clear()
    push(plan_weights(student), "jo/tiny")
    assert hub.files_of("jo/tiny")["model.safetensors"] == weights.read_bytes()


def test_another_process_may_write_first(hub, student):
    push(plan_weights(student), "jo/tiny")
    change(student / "capscore_student.json", teacher="another")
    preupload = hub.preupload

    def meanwhile(repo, revision, asked):
        hub.preupload = preupload
        hub.add(repo, hub._new_folder(repo))
        return preupload(repo, revision, asked)

    hub.preupload = meanwhile
    assert "A commit has happened since" in failed(*send(student))
    assert hub.files_of("jo/tiny") == {}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HF_TOKEN", "", "no token found"),
        ("HF_TOKEN", "hf_ann", "403"),
        ("HF_HUB_OFFLINE", "1", "HF_HUB_OFFLINE is set"),
        ("ENDPOINT", "http://127.0.0.1:9", "the Hub (http://127.0.0.1:9)"),
        ("broken", True, "503"),
        ("license: apache-2.0", "license: my-own", "must be one of them"),
    ],
)
def test_nothing_is_sent_if_the_hub_refuses(hub, student, monkeypatch, name, value, message):
    if name == "ENDPOINT":
        monkeypatch.setattr(constants, name, value)
    elif name == "broken":
        hub.broken = value
    elif name.startswith("HF_"):
        monkeypatch.setenv(name, value)
    card = student / "README.md"
    card.write_text(card.read_text().replace(name, str(value)))
    said = failed(*send(student))
    assert message in said and "hf_ann" not in said
    assert hub.steps == [] and set(hub.repos) == {"org/clip"}


def test_repositories_of_others_are_refused(hub, student):
    hub.add("ann/tiny", student)
    for name in ("tiny", "new"):
        assert "403" in failed("weights", student, "--org", "ann", "--name", name, "--overwrite-card")
    assert hub.steps == []
    with pytest.raises(InputError, match="expected org/name") as caught:
        push(Plan("model", {}, "", list, "tiny"), "tiny")
    assert caught.value.option == "repo_id"


def test_a_metric_without_a_module_gets_a_plain_one(hub):
    send = ("metric", "rouge_l", "--org", "jo", "--install", "release")
    assert "created and filled jo/rouge_l" in done(*send)
    held = hub.files_of("spaces/jo/rouge_l")
    assert {*SPACE, "rouge_l.py"} <= held.keys()
    assert held["requirements.txt"].decode() == f"capscore[app]=={VERSION}\n"
    scope = {}
    exec(compile(held["rouge_l.py"], "rouge_l.py", "exec"), scope)
    module = scope["Module"]()
    found = module.compute(predictions=["a dog"], references=[["a dog"]], language="en")
    assert found["rouge_l"] == pytest.approx(1.0) and "ROUGE-L" in module.describe()[0]
    card = held["README.md"].decode()
    for part in ("ROUGE-L (Lin 2004)", 'evaluate.load("jo/rouge_l")', "\n`pip install capscore`\n"):
        assert part in card


def test_a_metric_of_no_package_is_refused():
    register_metric("mine")(lambda candidate: 1.0)
    METRICS.get("mine").__module__ = "nowhere"
    try:
        message = failed("metric", "mine", "--org", "jo", "--install", "release", code=2)
    finally:
        METRICS.unregister("mine")
    assert "is in no installed package" in message
