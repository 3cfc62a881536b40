"""`capscore publish` to a Hub on this machine; what it published, loaded by a process with nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import capscore
from capscore.cli import app
from tests.backbones.loopback_hub import clean_environment
from tests.datasets_scripts.conftest import official

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

VERSION = capscore.__version__


def run(*arguments: object, **more: object):
    return CliRunner().invoke(app, ["publish", *(str(argument) for argument in arguments)], **more)


def done(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def failed(*arguments: object, code: int) -> str:
    """What a command that must fail says, on one line."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    (line,) = (line for line in result.stderr.splitlines() if "error: " in line)
    return line.partition("error: ")[2]


def elsewhere(hub, tmp_path, installed, code: str, **job: object):
    """What a process prints that has the wheels, an empty cache, and no token."""
    environment = clean_environment(hub, tmp_path / "elsewhere") | {
        "PYTHONPATH": str(installed),
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [sys.executable, "-c", code, json.dumps(job)]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


# ---- metrics ----

MODULE = """
import json, sys
import numpy as np
import capscore, evaluate
job = json.loads(sys.argv[1])
photo = np.zeros((64, 64, 3), np.uint8)
photo[16:48, 16:48, 0] = 255
module = evaluate.load(job["module"], device="cpu", cache=False, **job["options"])
found = module.compute(predictions=["a red square", "two dogs"], images=[photo] * 2, language="en")
print(json.dumps([capscore.__file__, found["scores"], found["signature"]]))
"""


def test_a_module_with_wheels_in_its_space(hub, wheels, installed, tmp_path):
    library = wheels[0]
    said = done("metric", "mcs", "--org", "jo", "--install", library)
    assert f"created and filled jo/mcs: {hub.url}/spaces/jo/mcs/commit/" in said
    assert "load it: evaluate.load('jo/mcs', revision='" in said
    assert f"note: {library.name} goes into the Space" in said
    held = hub.files_of("spaces/jo/mcs")
    assert held.keys() == {
        *("README.md", "app.py", "mcs.py", "requirements.txt", ".gitattributes"),
        library.name,
    }
    wanted = f"capscore[app,demo,embedded] @ {hub.url}/spaces/jo/mcs/resolve/main/{library.name}"
    assert wanted in held["requirements.txt"].decode().splitlines()
    card = held["README.md"].decode()
    assert 'evaluate.load("jo/mcs"' in card and "sdk: gradio" in card

    place, scores, signature = elsewhere(
        hub, tmp_path, installed, MODULE, module="jo/mcs", options={"backbone": "embedded-free"}
    )
    assert Path(place).is_relative_to(installed), "the wheel is what runs"
    assert scores[0] > scores[1] and "backbone:embedded-free" in signature

    assert "already has all files; no commit was made" in done(
        "metric", "mcs", "--org", "jo", "--install", library
    )


def test_a_module_needs_all_its_wheels(wheels):
    library, weights = wheels
    said = failed("metric", "pr_mcs", "--org", "jo", "--install", library, code=2)
    assert "the Space needs the wheel of capscore-weights too" in said
    both = ("--install", library, "--install", weights)
    said = done("metric", "pr_mcs", "--org", "jo", *both, "--dry-run")
    assert library.name in said and weights.name in said and "would go to jo/pr_mcs" in said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "Missing option '--install'"),
        (["capscore.zip"], "expected release"),
        (["nothing.whl"], "expected release"),
        (["git+https://example.org/capscore@main"], "with the 40 digits of a commit"),
        (["git+https://example.org/capscore@" + 40 * "a", "release"], "with the 40 digits"),
    ],
)
def test_ways_to_install_that_are_none(given, message):
    said = run("metric", "mcs", "--org", "jo", *(part for one in given for part in ("--install", one)))
    assert said.exit_code == 2
    assert re.search(message, " ".join(said.stderr.split()))


def test_a_wheel_that_is_none(tmp_path, wheels):
    broken = tmp_path / wheels[0].name
    broken.write_bytes(b"PK")
    assert "wheels of capscore" in failed("metric", "mcs", "--org", "jo", "--install", broken, code=2)
    other = tmp_path / "capscore-0.0.1-py3-none-any.whl"
    other.write_bytes(wheels[0].read_bytes())
    said = failed("metric", "mcs", "--org", "jo", "--install", other, code=2)
    assert f"wheels of capscore {VERSION}" in said


def test_a_metric_that_is_none():
    said = failed("metric", "msc", "--org", "jo", "--install", "release", "--dry-run", code=2)
    assert "there is no module 'msc'" in said


def test_a_card_of_a_space_that_somebody_edited_is_kept(hub, wheels):
    send = ("metric", "mcs", "--org", "jo", "--install", wheels[0])
    done(*send)
    edited = hub.repos["spaces/jo/mcs"]["main"] / "README.md"
    edited.write_text(edited.read_text() + "Edited on the Hub.\n")
    assert "the card on the Hub differs and was kept" in done(*send)
    assert "Edited on the Hub." in hub.files_of("spaces/jo/mcs")["README.md"].decode()
    assert "kept" not in done(*send, "--overwrite-card")


# ---- weights ----

WEIGHTS = """
import json, sys
import numpy as np
import capscore
job = json.loads(sys.argv[1])
photo = np.zeros((64, 64, 3), np.uint8)
found = {}
for name, options in job["asked"].items():
    scorer = capscore.load(options.pop("metric"), device="cpu", cache=False, **options)
    scores = scorer.score(["a dog runs", "dog a a a runs the"], [photo] * 2, language="en")
    found[name] = [scores.scores.tolist(), scores.signature]
print(json.dumps(found))
"""


def test_installed_weights_there_and_back(hub, installed, tmp_path):
    for name in ("pr_mcs", "infometic", "mark_calibration"):
        said = done("weights", name, "--org", "jo")
        assert f"created and filled jo/{name.replace('_', '-')}: " in said
    assert "marks='jo/mark-calibration@" in said
    asked = {
        "here": {"metric": "pr_mcs", "backbone": "embedded-pr-mcs"},
        "there": {"metric": "pr_mcs", "backbone": "jo/pr-mcs"},
        "infometic": {"metric": "infometic"},
        "both": {"metric": "infometic", "weights": "jo/infometic", "marks": "jo/mark-calibration"},
    }
    found = elsewhere(hub, tmp_path, installed, WEIGHTS, asked=asked)
    assert found["there"][0] == pytest.approx(found["here"][0], abs=1e-6)
    assert f"backbone:jo/pr-mcs@{hub.commit_of('jo/pr-mcs', 'main')}" in found["there"][1]
    assert found["both"][0] == pytest.approx(found["infometic"][0], abs=1e-6)
    assert f"weights:jo/infometic@{hub.commit_of('jo/infometic', 'main')}" in found["both"][1]


# ---- data sets ----

ROWS = """
import json, sys
import datasets
job = json.loads(sys.argv[1])
data = datasets.load_dataset(job["repo"], job["config"])
print(json.dumps({split: data[split].to_list() for split in data}, default=str))
"""


@pytest.fixture
def valse(tmp_path) -> Path:
    folder = tmp_path / "valse"
    folder.mkdir()
    official("valse").write(folder)
    return folder


@pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")
def test_a_benchmark_as_parquet(hub, installed, tmp_path, valse):
    send = ("dataset", "valse", "--org", "jo", "--data-dir", valse, "--config", "existence")
    said = done(*send)
    assert "load it: load_dataset('jo/valse', 'existence', revision='" in said
    held = hub.files_of("datasets/jo/valse")
    assert {name for name in held if name.endswith(".parquet")} == {"existence/valse-test.parquet"}
    assert 'load_dataset("jo/valse", "existence")' in held["README.md"].decode()
    found = elsewhere(hub, tmp_path, installed, ROWS, repo="jo/valse", config="existence")
    here = capscore.load_benchmark("valse", "existence", data_dir=valse)
    assert found["test"] == json.loads(json.dumps(here["test"].to_list(), default=str))
    assert "no commit was made" in done(*send)


def test_of_a_set_for_research_only_no_data_are_published(hub, tmp_path):
    folder = tmp_path / "flickr8k_human"
    folder.mkdir()
    official("flickr8k_human").write(folder)
    said = done("dataset", "flickr8k_human", "--org", "jo", "--data-dir", folder)
    assert "card and builder only" in said
    held = hub.files_of("datasets/jo/flickr8k_human")
    assert held.keys() == {
        *("README.md", "builder/flickr8k_human.py", ".gitattributes"),
    }
    card = held["README.md"].decode()
    assert "The data are not here" in card
    assert 'capscore.load_benchmark("flickr8k_human", data_dir="<folder>")' in card


# ---- what goes wrong ----


@pytest.fixture
def there(hub) -> str:
    done("weights", "pr_mcs", "--org", "jo")
    return "jo/pr-mcs"


def loading(spec: str) -> str:
    with pytest.raises(capscore.CapscoreError) as raised:
        capscore.load("pr_mcs", backbone=spec, device="cpu")
    return str(raised.value)


def test_the_server_is_down(hub, there):
    hub.broken = True
    said = loading(there)
    assert "503" in said and "has no copy of 'jo/pr-mcs'" in said


def test_offline_variables(there, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    said = loading(there)
    assert "HF_HUB_OFFLINE is set, so the network is not used" in said and "has no copy" in said


def test_a_revision_that_is_not_there(there):
    said = loading(f"{there}@v9")
    assert "'jo/pr-mcs'" in said and "revision 'v9'" in said


def test_a_repository_that_is_half_uploaded(hub, there):
    (hub.repos[there]["main"] / "model.safetensors").unlink()
    assert "model.safetensors" in loading(there)


def test_a_file_that_is_corrupted(hub, there):
    weights = hub.repos[there]["main"] / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-100] ^= 0xFF
    weights.write_bytes(bytes(content))
    said = loading(there)
    assert "model.safetensors" in said or "capscore_tuned.json" in said


def test_a_gated_repository(hub, there):
    hub.gated.add(there)
    assert "'jo/pr-mcs' is gated: accept its terms on its page" in loading(there)


def test_a_token_that_may_not_write(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    said = failed("weights", "pr_mcs", "--org", "jo", code=1)
    assert "403" in said and "hf_ann" not in said
    assert hub.steps == []


def test_weights_that_are_not_there():
    from typer.testing import CliRunner

    from capscore.cli import app

    outcome = CliRunner().invoke(app, ["publish", "weights", "nope", "--org", "me", "--dry-run"])
    assert outcome.exit_code == 2
    told = " ".join(outcome.output.split())
    assert (
        "nope is no folder and none of the installed weights: image_tower, infometic, mark_calibration, "
        "pr_mcs" in told
    )
