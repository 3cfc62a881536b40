"""The weights that ship for `embedded`: their files, and what they see in photos that scikit-image has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import capscore
from capscore.infometic import weights as shipped_weights
from capscore.infometic.weights import SHIPPED, load_aligner

FOLDER = Path(shipped_weights.__file__).with_name(SHIPPED["embedded"])
# photo → language → a right caption, and the same with a noun that is not in the photo
PLANTED = {
    "chelsea": {
        "en": ("A tabby cat looks to the side.", "cat", "train"),
        "de": ("Eine getigerte Katze blickt zur Seite.", "Katze", "Zug"),
        "zh": ("一只虎斑猫看着旁边。", "猫", "火车"),
    },
    "coffee": {
        "fr": ("Une tasse de café est posée sur une table en bois.", "café", "chevaux"),
    },
}
CASES = [(photo, language) for photo, said in PLANTED.items() for language in said]


@pytest.fixture(scope="module")
def scorer(embedded):
    from capscore.embedding.embedder import Embedder
    from capscore.scorers.infometic import InfoMetIC

    return InfoMetIC(Embedder(embedded, progress=False))


def test_the_files():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 15e6
    assert {path.name for path in FOLDER.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "result.json", "settings.yaml",
    }  # fmt: skip
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert config["dtype"] == "float16" and config["context_width"] is not None


def test_the_card_says_what_they_learned_from():
    front = yaml.safe_load((FOLDER / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert front["license"] == "cc-by-nc-4.0"
    assert any("Flickr8k" in name for name in front["datasets"])
    assert {"en", "de", "fr", "zh"} <= set(front["language"])


def test_embedded_takes_them_by_itself(embedded, scorer):
    aligner, name = load_aligner(None, embedded)
    assert name == scorer.weights and name.startswith(f"{FOLDER.name}@w")
    # its fingerprint has changed since the training: other modules compute the same numbers
    assert aligner.config.backbone_revision == embedded.revision
    assert load_aligner("info_clip", embedded)[1] == "info_clip"
    assert capscore.load("infometic", backbone="embedded", progress=False).weights == name


@pytest.mark.parametrize(("photo", "language"), CASES, ids=[" ".join(case) for case in CASES])
def test_a_planted_noun_scores_lowest(scorer, photo, language):
    data = pytest.importorskip("skimage.data")
    caption, right, wrong = PLANTED[photo][language]
    planted = caption.replace(right, wrong)
    scores = scorer.score([caption, planted], [getattr(data, photo)()] * 2, language=language)
    words = [word for word in scores.details[1]["words"] if word["semantic"]]
    assert min(words, key=lambda word: word["score"])["text"] == wrong
    precision = scores.components["precision"]
    assert precision[0] > precision[1]
