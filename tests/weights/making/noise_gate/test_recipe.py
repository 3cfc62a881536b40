"""The recipe of the gate, run once on the embedded backbone with a tiny gate; its settings and card."""

import json

import numpy as np
import pytest
import yaml

import capscore
from capscore import CapscoreError, load_backbone
from capscore.backbones import tuned
from tools.tiny.marked_captions import CAPTIONS, write_marked
from training.engine.model_card import CARD, read_card
from weights.making.noise_gate.__main__ import main, split_texts, train
from weights.making.settings import NoiseGateSettings

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")
TEXTS = [CAPTIONS["en"][0], "two dogs", "dogs dogs dogs two two"]


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    return write_marked(tmp_path_factory.mktemp("texts"))


def settings(marked, out, **changes) -> NoiseGateSettings:
    given = {
        "base": "embedded",
        "texts": [str(marked)],
        "languages": ["en:2", "de:1"],
        "gate": [16, 1, 2],
        "max_steps": 2,
        "batch_size": 4,
        "validation_share": 0.4,
        "validation_texts": 40,
        "keep_right": 0.3,
        "log_every": 2,
        "checkpoint_every": 1,
        "out": str(out),
        "name": "tiny gate",
        "license": "apache-2.0",
    }
    return NoiseGateSettings(**{**given, **changes})


@pytest.fixture(scope="module")
def trained(marked, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "run.yaml").write_text(yaml.safe_dump(vars(settings(marked, folder / "gate"))))
    main(["--config", str(folder / "run.yaml")])
    return folder / "gate"


def test_the_folder_is_a_backbone_for_pr_mcs(trained, embedded):
    gated = load_backbone(trained, device="cpu")
    assert gated.network_parts() == {"noise_gate": {"width": 16, "layers": 1, "heads": 2}}
    rows, turned = embedded.encode_texts(TEXTS), gated.encode_texts(TEXTS)
    kept = gated.encode_judged(gated.tokenize(TEXTS).ids)[1][:, 0]
    np.testing.assert_allclose((rows * turned).sum(axis=1), kept, atol=1e-5)
    assert capscore.load("pr_mcs", backbone=str(trained)).backbone.fingerprint == gated.fingerprint


def test_settings_result_and_card_say_what_was_done(trained):
    assert yaml.safe_load((trained / "settings.yaml").read_text())["gate"] == [16, 1, 2]
    result = json.loads((trained / "result.json").read_text())
    assert result["step"] == 2 and result["n_training"] + result["n_validation"] == 12
    assert result["validation"]["kept_right"] >= 0.3 and set(result["languages"]) == {"de", "en"}
    card = (trained / CARD).read_text(encoding="utf-8")
    assert "# tiny gate" in card and "| own captions | Apache-2.0 | 12 | training |" in card
    assert "Held out: photos of the test; the captions of 40% of the photos" in card
    numbers = {(row.metric, row.language): row for row in read_card(trained).results}
    assert numbers["kept_right", ""].value == result["validation"]["kept_right"]
    assert numbers["kept_right", "de"].rows == result["languages"]["de"][0]


def test_the_direction_is_that_of_training_captions_of_other_photos_than_validation(
    marked, trained, embedded
):
    training, validation, digest = split_texts(settings(marked, "out"))
    assert len(training) + len(validation) == 12 and len(digest) == 16 and validation
    assert not {text.source for text in training} & {text.source for text in validation}
    # few captions: any direction without them is as good; what is left is the lean, 0.05 away from the mean
    rows = embedded.encode_texts([text.text for text in training])
    mean = rows.mean(axis=0)
    away = load_backbone(trained, device="cpu").text.away.numpy()
    np.testing.assert_allclose(rows @ away, -rows @ mean / np.linalg.norm(mean) * 0.05, atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"languages": ["en"]}, "languages"),
        ({"gate": [15, 1, 2]}, "an even width that the heads divide"),
        ({"keep_right": 1.0}, "keep_right"),
        ({"kind_weight": -1.0}, "kind_weight"),
        ({"max_steps": None}, "max_steps"),
        ({"sources": ["tatoeba"]}, "sources"),
        ({"right": ["ko:-1"]}, "right"),
        ({"languages": ["en:1", "fr:1"]}, "there are no captions in fr"),
        ({"sources": ["tatoba:0.5"]}, "there are no captions of tatoba; expected some of own"),
    ],
)
def test_settings_out_of_range_and_untrainable_data_are_errors(marked, tmp_path, changes, message):
    with pytest.raises(CapscoreError, match=message):
        train(settings(marked, tmp_path / "out", **changes))


def test_a_folder_of_another_model_and_a_base_without_the_text_encoder_are_errors(
    marked, tmp_path, monkeypatch
):
    (tmp_path / tuned.WEIGHTS).write_bytes(b"other")
    with pytest.raises(CapscoreError, match="has the weights of another model: give another folder as out"):
        train(settings(marked, tmp_path))
    monkeypatch.setattr("weights.making.noise_gate.__main__.load_backbone", lambda *_, **__: object())
    with pytest.raises(CapscoreError, match=r"base.*expected one with the embedded text encoder"):
        train(settings(marked, tmp_path / "out"))
