"""The recipe of the gate, run for real on the embedded backbone with a tiny gate."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

import capscore
from capscore import CapscoreError, load_backbone
from capscore.backbones import tuned
from training.engine.config import parse
from training.engine.model_card import CARD
from weights.making.noise_gate.__main__ import main, split_texts, train
from weights.making.noise_gate.settings import NoiseGateSettings

from .marked_texts import CAPTIONS, write_marked

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
        "steps": 4,
        "batch_size": 8,
        "validation_share": 0.4,
        "validation_texts": 60,
        "keep_right": 0.3,
        "log_every": 2,
        "checkpoint_every": 2,
        "out": str(out),
        "name": "tiny gate",
        "license": "apache-2.0",
    }
    return NoiseGateSettings(**{**given, **changes})


@pytest.fixture(scope="module")
def trained(marked, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "gate"
    assert train(settings(marked, out)).finished
    return out


def test_the_folder_is_a_backbone_for_pr_mcs(trained):
    plain, gated = load_backbone("embedded", device="cpu"), load_backbone(trained, device="cpu")
    assert gated.network_parts() == {"noise_gate": {"width": 16, "layers": 1, "heads": 2}}
    rows, turned = plain.encode_texts(TEXTS), gated.encode_texts(TEXTS)
    kept = gated.encode_judged(gated.tokenize(TEXTS).ids)[1][:, 0]
    np.testing.assert_allclose((rows * turned).sum(axis=1), kept, atol=1e-5)
    assert capscore.load("pr_mcs", backbone=str(trained)).backbone.fingerprint == gated.fingerprint


def test_settings_result_and_card_say_what_was_done(trained):
    assert yaml.safe_load((trained / "settings.yaml").read_text())["gate"] == [16, 1, 2]
    result = json.loads((trained / "result.json").read_text())
    assert result["step"] == 4 and result["n_training"] + result["n_validation"] == 12
    assert result["validation"]["kept_right"] >= 0.3 and set(result["languages"]) == {"de", "en"}
    card = (trained / CARD).read_text(encoding="utf-8")
    assert "# tiny gate" in card and "| own captions | Apache-2.0 | 12 | training |" in card
    assert "Held out: photos of the test; the captions of 40% of the photos" in card
    assert "right captions, mean kept, share" in card


def test_the_direction_is_that_of_the_base_s_captions(marked, trained):
    training, _, _ = split_texts(settings(marked, "out"))
    # few captions: any direction without them is as good, so what counts is that none of them lies in it
    rows = load_backbone("embedded", device="cpu").encode_texts([text.text for text in training])
    away = load_backbone(trained, device="cpu").text.away.numpy()
    mean = rows.mean(axis=0)
    # all that is left is the lean, 0.05 of the mean, away from it
    np.testing.assert_allclose(rows @ away, -rows @ mean / np.linalg.norm(mean) * 0.05, atol=1e-3)


def test_photos_of_validation_captions_are_not_trained_on(marked):
    training, validation, digest = split_texts(settings(marked, "out"))
    assert len(training) + len(validation) == 12 and len(digest) == 16
    photos = [{text.source for text in part} for part in (training, validation)]
    assert photos[0] and photos[1] and not photos[0] & photos[1]


def test_an_interrupted_run_goes_on_to_the_same_weights(marked, trained, tmp_path):
    assert not train(settings(marked, tmp_path / "part", max_minutes=1e-9)).finished
    finished = train(settings(marked, tmp_path / "part"))
    assert finished.finished and finished.step == 4
    one, other = (load_backbone(folder, device="cpu") for folder in (trained, tmp_path / "part"))
    np.testing.assert_allclose(one.encode_texts(TEXTS), other.encode_texts(TEXTS), atol=1e-5)


def test_a_gate_can_be_trained_on(marked, trained, tmp_path):
    # with a learning rate of next to nothing it stays what it was
    train(settings(marked, tmp_path / "on", start=str(trained), learning_rate=1e-12, steps=1))
    one, other = (load_backbone(folder, device="cpu").text.gate for folder in (trained, tmp_path / "on"))
    for name, tensor in one.state_dict().items():
        np.testing.assert_allclose(other.state_dict()[name], tensor, atol=1e-3)
    with pytest.raises(CapscoreError, match=r"start.*weights with a noise gate of the size \[32, 1, 2\]"):
        train(settings(marked, tmp_path / "wide", start=str(trained), gate=[32, 1, 2]))


def test_the_weights_of_another_model_are_not_overwritten(marked, tmp_path):
    (tmp_path / tuned.WEIGHTS).write_bytes(b"other")
    with pytest.raises(CapscoreError, match="has the weights of another model: give another folder as out"):
        train(settings(marked, tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": []}, "texts is missing"),
        ({"languages": []}, "languages is missing"),
        ({"gate": [15, 1, 2]}, "an even width that the heads divide"),
        ({"gate": [16, 1]}, "its width, layers and heads"),
        ({"gate": [16, 1, 0]}, "its width, layers and heads"),
        ({"keep_right": 1.0}, "a share between 0 and 1"),
        ({"kind_weight": -1.0}, "a weight of at least 0"),
        ({"steps": 0}, "at least 1"),
        ({"validation_texts": 0}, "at least 1"),
        ({"stored_dtype": "int8"}, "float32 or float16"),
    ],
)
def test_settings_out_of_range(marked, changes, message):
    with pytest.raises(CapscoreError, match=message):
        settings(marked, "out", **changes)


def test_no_captions_in_a_language(marked, tmp_path):
    with pytest.raises(CapscoreError, match="there are no captions in fr"):
        train(settings(marked, tmp_path / "out", languages=["en:1", "fr:1"]))


def test_a_data_set_that_is_not_there(marked, tmp_path):
    with pytest.raises(CapscoreError, match="there are no captions of tatoba; there are those of own"):
        train(settings(marked, tmp_path / "out", sources=["tatoba:0.5"]))


def test_a_base_without_the_text_encoder(marked, tmp_path):
    from tests.toy import ColourBackbone

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weights.making.noise_gate.__main__.load_backbone", lambda *_, **__: ColourBackbone())
        with pytest.raises(CapscoreError, match="expected a backbone with the embedded text encoder"):
            train(settings(marked, tmp_path / "out"))


def test_the_shipped_settings_are_read(marked):
    given = parse(
        NoiseGateSettings,
        ["--config", "weights/making/configs/pr_mcs.yaml", "--texts", str(marked), "--out", "o"],
        "",
    )
    assert len(given.language_shares) == 15 and given.source_shares["tatoeba"] < 1


def test_the_command_says_where_the_weights_are(marked, tmp_path, capsys):
    given = settings(marked, tmp_path / "out", steps=1)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({**vars(given)}))
    main(["--config", str(tmp_path / "run.yaml")])
    assert f"saved to {tmp_path / 'out'}" in capsys.readouterr().err
