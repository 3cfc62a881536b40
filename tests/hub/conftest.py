"""A Hub on this machine to publish to, and what is published: tiny weights with their cards."""

import json
from dataclasses import replace

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from tests.cli.conftest import run
from tools.tiny.backbones import tune_clip
from tools.tiny.image_tower import write_image_tower
from tools.tiny.loopback_hub import logged_in
from training.engine.model_card import DataSource, ModelCard, write_card

CARD = ModelCard(
    name="tiny",
    recipe="teacher_learning",
    base="org/encoder",
    languages=["de", "en"],
    license="apache-2.0",
    command="python -m training.teacher_learning --config tiny.yaml",
    settings={"epochs": 5},
    data=[DataSource("Invented captions", "CC0", rows=5)],
)
NETWORK = InfoMetICConfig(width=8, heads=2, intra_layers=1, inter_layers=1)


def done(*arguments):
    result = run("publish", *arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def failed(*arguments, code=1):
    result = run("publish", *arguments)
    assert result.exit_code == code and "Traceback" not in result.output, result.output
    (line,) = (line for line in result.stderr.splitlines() if "error: " in line)
    return line.partition("error: ")[2]


def change(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def change_bias(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["projection.bias"] += 1
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def hub(tmp_path, monkeypatch, checkpoints):
    """The user is logged in as "jo"; the image tower of students and tuned towers is there."""
    with logged_in(tmp_path, monkeypatch) as hub:
        hub.add("org/clip", checkpoints("clip").spec_path)
        yield hub


@pytest.fixture
def elsewhere(hub, tmp_path, monkeypatch):
    """Makes of this machine one that has downloaded nothing, and has no token."""

    def leave():
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
        monkeypatch.delenv("HF_TOKEN")
        hub.served.clear()

    return leave


@pytest.fixture
def student(checkpoints, tmp_path):
    folder = checkpoints("student").copied(tmp_path).rename(tmp_path / "tiny")
    change(folder / "capscore_student.json", image_tower="org/clip")
    return write_card(folder, CARD).parent


@pytest.fixture
def tuned(hub, tmp_path):
    """The text tower of the CLIP that is on the Hub, one step away."""
    folder = tune_clip(tmp_path / "tuned", "org/clip", recipe="pr_mcs", languages=["en"])
    return write_card(folder, CARD).parent


@pytest.fixture
def eye(tmp_path):
    folder = write_image_tower(tmp_path / "eye", languages=["de", "en"], w=1.5)
    return write_card(folder, replace(CARD, recipe="image_tower")).parent


def write_network(folder, config, seed=0):
    """A network with its card, and what the recipe leaves beside it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = InfoMetIC(config)
    network.save_pretrained(folder, dtype="float16", notes={"recipe": "infometic", "languages": ["de", "en"]})
    write_card(folder, replace(CARD, name="net", recipe="infometic", base="embedded"))
    for name in ("settings.yaml", "result.json", "log.jsonl", "features/boxes.npy"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def network(tmp_path, embedded):
    return write_network(tmp_path / "net", NETWORK.on(embedded))
