"""The installed weights: their files, and what they see in photos that scikit-image has."""

import json

import pytest
import yaml
from skimage import data

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import MissingWeightsError
from capscore.files.shipped import weights_folder
from capscore.infometic.network import INSTALLED, load_aligner
from capscore.metrics.infometic import InfoMetIC
from capscore.metrics.loading import default_backbone

BASE = default_backbone("infometic")  # the backbone that they belong to
FOLDER = weights_folder(INSTALLED[BASE])
# photo, language, a right caption, its noun, and a noun that is not in the photo
PLANTED = [
    ("chelsea", "en", "A tabby cat looks to the side.", "cat", "train"),
    ("chelsea", "zh", "一只虎斑猫看着旁边。", "猫", "火车"),
    ("coffee", "fr", "Une tasse de café est posée sur une table en bois.", "café", "chevaux"),
]


@pytest.fixture(scope="module")
def base(backbones):
    return backbones(BASE)


@pytest.fixture(scope="module")
def scorer(base):
    return InfoMetIC(Embedder(base, progress=False))


def test_the_files_and_what_their_card_says():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 15e6
    names = {"README.md", "config.json", "model.safetensors", "result.json", "run.json", "settings.yaml"}
    assert {path.name for path in FOLDER.iterdir()} == names
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert config["dtype"] == "float16" and config["context_width"] is not None
    _, front, text = (FOLDER / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    front = yaml.safe_load(front)
    assert front["license"] == "cc-by-nc-4.0" and {"en", "de", "fr", "zh"} <= set(front["language"])
    assert "Flickr8k" in text.partition("\n## Training data\n")[2].partition("\n## ")[0]


@pytest.mark.usefixtures("no_weights_installed")
def test_without_capscore_weights_the_error_says_how_to_get_them(base):
    with pytest.raises(MissingWeightsError, match=r"'infometic' .*capscore-weights .*pip install"):
        load_aligner(None, base)
    with pytest.raises(MissingWeightsError, match="'mark_calibration' "):
        capscore.load("infometic", backbone=base, progress=False)
    assert load_aligner("info_clip", base)[1] == "info_clip"


def test_their_backbone_takes_them_by_itself(base, scorer, monkeypatch):
    aligner, name = load_aligner(None, base)
    assert name == scorer.weights and name.startswith(f"{FOLDER.name}@w")
    # its fingerprint has changed since the training: other modules compute the same numbers
    assert aligner.config.backbone_revision == base.revision
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    assert default_backbone("infometic") == BASE


@pytest.mark.parametrize(("photo", "language", "caption", "right", "wrong"), PLANTED)
def test_a_planted_noun_scores_lowest(scorer, photo, language, caption, right, wrong):
    captions = [caption, caption.replace(right, wrong)]
    scores = scorer.score(captions, [getattr(data, photo)()] * 2, language=language)
    words = [word for word in scores.details[1]["words"] if word["semantic"]]
    assert min(words, key=lambda word: word["score"])["text"] == wrong
    precision = scores.components["precision"]
    assert precision[0] > precision[1]
