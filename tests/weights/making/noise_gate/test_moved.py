"""A gate behind another backbone: small eyes, whose text encoder is the real one."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import capscore
from capscore import BackboneUnavailable, CapscoreError, InputError, load_backbone
from capscore.backbones import tuned
from capscore.backbones.base import tensors_digest
from tests.backbones import tiny_transformers as tiny
from tests.backbones.tiny_eye import write_eye
from training.engine.model_card import CARD
from weights.making.noise_gate.__main__ import train
from weights.making.noise_gate.moved import Settings, grammar_captions, main, move

from .gate_texts import CAPTIONS, write_marked
from .test_recipe import settings as recipe

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

FEW = 1024
TEXTS = [*CAPTIONS["en"][:3], "two dogs", "dogs dogs dogs two two", "ein Hund Hund"]


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train(recipe(write_marked(folder), folder / "gate", steps=2, learning_rate=0.05))
    return folder / "gate"


@pytest.fixture(scope="module")
def eye(tmp_path_factory):
    return write_eye(tmp_path_factory.mktemp("eyes") / "small")


@pytest.fixture(scope="module")
def moved(gate, eye, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "moved"
    return move(Settings(str(gate), str(eye), str(out), FEW), command="python -m … --gate here")


def test_the_gate_says_the_same_as_before(gate, moved, eye):
    before, after = (load_backbone(folder, device="cpu") for folder in (gate, moved))
    kept = [one.encode_judged(one.tokenize(TEXTS).ids)[1][:, 0] for one in (before, after)]
    assert kept[0] == pytest.approx(kept[1], abs=1e-6) and np.ptp(kept[0]) > 1e-3
    old, new = (load_file(folder / tuned.WEIGHTS) for folder in (gate, moved))
    assert old.keys() == new.keys()
    assert [name for name in old if not torch.equal(old[name], new[name])] == ["away"]
    # the score of a text is the new base's, times what it keeps
    rows, turned = (load_backbone(one, device="cpu").encode_texts(TEXTS) for one in (eye, moved))
    np.testing.assert_allclose((rows * turned).sum(axis=1), kept[1], atol=1e-5)
    assert capscore.load("pr_mcs", backbone=str(moved)).backbone.fingerprint == after.fingerprint


def test_what_is_taken_goes_where_no_caption_of_the_new_base_lies(gate, moved, eye):
    rows = load_backbone(eye, device="cpu").encode_texts(grammar_captions(FEW)[:300])
    spreads = [
        (rows @ load_backbone(folder, device="cpu").text.away.numpy()).std() for folder in (gate, moved)
    ]
    # 1/√512 is the spread in a direction like any other
    assert spreads[1] < spreads[0] / 2 and spreads[1] < 512**-0.5 / 10


def test_the_folder_says_what_was_done(gate, moved):
    marker, _ = tuned.read_tuned(moved)
    assert marker["recipe"] == "pr_mcs" and marker["notes"]["moved"]["trained_on"] == "embedded"
    assert (moved / "settings.yaml").read_text() == (gate / "settings.yaml").read_text()
    results = [json.loads((folder / "result.json").read_text()) for folder in (gate, moved)]
    assert results[1] == {**results[0], "moved": marker["notes"]["moved"]}
    card = (moved / CARD).read_text(encoding="utf-8")
    for expected in (
        "# tiny gate",
        "| own captions | Apache-2.0 | 12 | training |",
        "Held out: photos of the test",
        "The gate was trained behind embedded and put behind small @ w",
        "python -m weights.making.noise_gate --config settings.yaml\npython -m … --gate here",
        "right captions, mean kept, share",
    ):
        assert expected in card, expected


def test_a_moved_gate_moves_on(moved, tmp_path, capsys):
    other, out = write_eye(tmp_path / "other", seed=1), tmp_path / "again"
    line = ["--gate", str(moved), "--base", str(other), "--out", str(out), "--captions", str(FEW)]
    main([*line, "--name", "next", "--license", "mit"])
    assert f"saved to {out}" in capsys.readouterr().err
    assert tuned.read_tuned(out)[0]["notes"]["moved"]["trained_on"] == "embedded"
    card = (out / CARD).read_text(encoding="utf-8")
    assert "# next" in card and "license: mit" in card and "-m weights.making.noise_gate.moved --gate" in card
    assert "trained behind embedded and put behind other @ w" in card and "behind small" not in card


def test_captions_of_all_languages_alike():
    captions = grammar_captions(50)
    assert len(captions) == 50 and all(captions)
    kana = [any("\u3040" <= letter <= "\u30ff" for letter in caption) for caption in captions]
    # Japanese is the eighth of fifteen languages
    assert [number for number, found in enumerate(kana, 1) if found] == [8, 23, 38]


# Bad input


def copied(gate, folder, change):
    """The folder of a gate, its marker and tensors changed."""
    shutil.copytree(gate, folder, ignore=shutil.ignore_patterns("checkpoints"))
    marker, state = json.loads((folder / tuned.MARKER).read_text()), load_file(folder / tuned.WEIGHTS)
    change(marker, state)
    save_file(state, folder / tuned.WEIGHTS)
    (folder / tuned.MARKER).write_text(json.dumps({**marker, "weights": tensors_digest(state)}))
    return str(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda marker, state: marker.update(parts=None), "has no gate to move"),
        (lambda marker, state: state.update(table=torch.ones(2)), "also changes table of its text network"),
        (
            lambda marker, state: marker.update(base_text={"float32": "0"}),
            "belongs behind the text network of embedded @ .*: its text network is a different one",
        ),
        (lambda marker, state: marker.update(base_tokens="0"), "it splits texts into other tokens"),
    ],
)
def test_gates_that_cannot_be_moved(gate, eye, tmp_path, change, message):
    folder = copied(gate, tmp_path / "gate", change)
    with pytest.raises(CapscoreError, match=message):
        move(Settings(folder, str(eye), str(tmp_path / "out"), FEW))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (CARD, None, "expected the card of the weights"),
        ("result.json", "[]", "has no result of the gate's recipe"),
        ("result.json", None, "has no result of the gate's recipe"),
        ("settings.yaml", "depth: 3", "has no settings of the gate's recipe"),
    ],
)
def test_folders_that_lack_what_the_card_needs(gate, eye, tmp_path, name, content, message):
    folder = copied(gate, tmp_path / "gate", lambda marker, state: None)
    (tmp_path / "gate" / name).unlink()
    if content is not None:
        (tmp_path / "gate" / name).write_text(content)
    with pytest.raises(InputError, match=message):
        move(Settings(folder, str(eye), str(tmp_path / "out"), FEW))
    assert not (tmp_path / "out").exists()


def test_bases_that_cannot_have_the_gate(gate, moved, tmp_path):
    clip = tiny.write_clip(tmp_path / "clip")
    for base, message in (
        (clip, "a TransformersClip has another text network"),
        (moved, "already has a gate"),
    ):
        with pytest.raises(CapscoreError, match=f"cannot go to .*: .*{message}"):
            move(Settings(str(gate), str(base), str(tmp_path / "out"), FEW))
    with pytest.raises(BackboneUnavailable, match="no-such-backbone"):
        move(Settings(str(gate), "no-such-backbone", str(tmp_path / "out"), FEW))


def test_what_is_no_gate_is_said(eye, tmp_path):
    for spec in ("embedded-pr-msc", str(eye)):
        with pytest.raises(InputError, match="expected embedded-pr-mcs or a folder with"):
            move(Settings(spec, str(eye), str(tmp_path / "out")))


def test_too_few_captions_are_refused():
    with pytest.raises(CapscoreError, match="captions=100: expected a whole number of at least 1024"):
        Settings("embedded-pr-mcs", "embedded", "out", 100)
