"""Carrying the shipped gate over to small eyes: the text encoder is the real one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from capscore import load_backbone
from capscore.backbones import tuned
from capscore.backbones.base import tensors_digest
from capscore.backbones.learned import save_eye
from capscore.errors import BackboneUnavailable, CapscoreError, InputError
from capscore.files.installed_weights import weights_folder
from tests.backbones import tiny_transformers as tiny
from tests.backbones.tiny_eye import random_eye
from training.embedded import moved_gate
from training.embedded.caption_grammar import generate
from training.embedded.moved_gate import Settings, move, tower_folder

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

# Well-formed captions, and the same with their words repeated, masked and shuffled.
RIGHT = [
    "Two dogs run along the beach.",
    "A man in a red coat rides a bicycle.",
    "Ein Hund rennt am Strand.",
    "Un enfant joue au football dans le parc.",
]
WRONG = [
    [
        "Two Two dogs dogs run run along the the beach.",
        "Two [MASK] run [MASK] the [MASK].",
        "beach along dogs the run Two.",
    ],
    [
        "A man man in in a red red coat rides.",
        "A [MASK] in a [MASK] coat [MASK] a bicycle.",
        "bicycle a coat rides red in man a A.",
    ],
    [
        "Ein Hund Hund rennt rennt am am Strand.",
        "Ein [MASK] rennt [MASK] Strand.",
        "Strand am rennt Hund Ein.",
    ],
    [
        "Un enfant enfant joue joue au football.",
        "Un [MASK] joue au [MASK] dans le parc.",
        "parc le football dans enfant joue Un au.",
    ],
]
CAPTIONS = 150


@pytest.fixture(scope="module")
def write(tmp_path_factory, embedded_free):
    """Folder of an eye whose texts have the encoder's centre, and an adapter of their own."""

    def make(seed: int) -> Path:
        eye = random_eye(seed)
        with torch.no_grad():
            eye.text.centre.copy_(embedded_free.centre)
        folder = tmp_path_factory.mktemp("eyes") / f"eye{seed}"
        save_eye(eye, folder)
        return folder

    return make


@pytest.fixture(scope="module")
def eye(write):
    return write(0)


@pytest.fixture(scope="module")
def moved(eye, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "moved"
    return move(Settings(tower="embedded-pr-mcs", base=str(eye), out=str(out), captions=CAPTIONS))


@pytest.fixture(scope="module")
def base(eye):
    return load_backbone(eye, device="cpu")


@pytest.fixture(scope="module")
def tower(moved):
    return load_backbone(moved, device="cpu")


@pytest.fixture(scope="module")
def shipped():
    return load_backbone("embedded-pr-mcs", device="cpu")


def test_the_gate_says_the_same_as_before(tower, shipped):
    texts = [*RIGHT, *(text for texts in WRONG for text in texts)]
    found = []
    for each in (tower, shipped):
        ids = each.tokenize(texts).ids
        with torch.inference_mode():
            found.append(each.embed_gated(ids)[1].numpy())
    assert np.abs(found[1]).max() > 1
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-6)


def test_well_formed_captions_keep_their_places_and_perturbed_ones_leave(tower, base):
    plain, kept = base.encode_texts(RIGHT), tower.encode_texts(RIGHT)
    assert (plain * kept).sum(axis=1).min() > 0.99
    # the places of the captions stand for those of their photos
    for place, texts in zip(plain, WRONG, strict=True):
        before, after = base.encode_texts(texts) @ place, tower.encode_texts(texts) @ place
        assert before.min() > 0.2
        assert after.max() < 0.05


def test_centre_and_direction_are_the_new_base_s_own(tower, base, moved):
    network = tower.text_network()
    assert torch.allclose(network.centre, base.centre, rtol=0, atol=1e-4)  # stored in float16
    languages = tuned.read_tuned(moved)[0]["languages"]
    scenes = generate(CAPTIONS // len(languages), languages)
    rows = base.encode_texts([scene[code].text for scene in scenes for code in languages])
    mean = rows.astype(np.float64).mean(axis=0)
    away = network.away.double().numpy()
    adapter = base.eye.text.adapter.weight.double().numpy()
    placed = away + adapter @ away
    np.testing.assert_allclose(
        placed / np.linalg.norm(placed), -mean / np.linalg.norm(mean), rtol=0, atol=2e-4
    )
    said = json.loads((moved / "result.json").read_text())["moved"]
    assert said["captions"] == len(rows)
    cosines = rows @ (placed / np.linalg.norm(placed))
    assert said["mean_cosine_of_away"] == pytest.approx(cosines.mean(), abs=1e-4)
    assert said["highest_cosine_of_away"] == pytest.approx(cosines.max(), abs=1e-3)


def test_the_gate_is_stored_as_it_was_and_the_card_says_what_was_done(moved, eye):
    old, new = (load_file(folder / "model.safetensors") for folder in (weights_folder("pr_mcs"), moved))
    assert old.keys() == new.keys()
    for name in old:
        assert torch.equal(old[name], new[name]) or name in ("away", "centre"), name
    marker = tuned.read_tuned(moved)[0]
    assert marker["base"] == str(eye) and marker["notes"]["noise"]["order"] == "every"
    assert marker["notes"]["moved"]["base"].startswith("eye0 @ w")
    settings = yaml.safe_load((moved / "settings.yaml").read_text())
    assert settings["gate"] == [128, 4, 4]
    card = (moved / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(card.split("---")[1])["license"] == "cc-by-nc-4.0"
    for expected in (
        "python -m training.embedded.moved_gate --tower embedded-pr-mcs",
        "carried over to eye0 @ w",
        "| [Multi30k, training split](https://github.com/multi30k/dataset) | none stated, for research |",
        "| `order` | every |",
        "the sets XVNLI, MaRVL, VALSE",
    ):
        assert expected in card, expected
    assert card.count("It was taught five kinds of damage") == 1
    assert str(eye.parent) not in card
    trained = json.loads((weights_folder("pr_mcs") / "result.json").read_text())
    assert json.loads((moved / "result.json").read_text())["trained"] == trained.get("trained", trained)


def trained_on() -> str:
    """The base that the shipped gate was trained on, which may have been moved itself."""
    marker = tuned.read_tuned(weights_folder("pr_mcs"))[0]
    here = f"{marker['base']} @ {marker['base_revision']}"
    return marker["notes"].get("moved", {}).get("trained_on", here)


def test_a_moved_gate_moves_on(moved, write, tmp_path):
    again = move(
        Settings(tower=str(moved), base=str(write(1)), out=str(tmp_path / "again"), captions=CAPTIONS)
    )
    first, second = (load_file(folder / "model.safetensors") for folder in (moved, again))
    assert all(torch.equal(first[name], second[name]) for name in first if name.startswith("gate."))
    assert not torch.equal(first["away"], second["away"])
    card = (again / "README.md").read_text(encoding="utf-8")
    assert card.count("- The gate was trained on ") == 1 and "carried over to eye1 @ w" in card
    results = [json.loads((folder / "result.json").read_text()) for folder in (moved, again)]
    assert results[0]["trained"] == results[1]["trained"]
    # what it was trained on stays, wherever it goes
    assert {result["moved"]["trained_on"] for result in results} == {trained_on()}


def test_a_gate_that_float16_would_change_is_stored_in_float32(eye, tmp_path):
    folder = copied(tmp_path / "fine")
    state = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    state["gate.leave.bias"] += 1e-6
    written(folder, state)
    out = move(Settings(tower=str(folder), base=str(eye), out=str(tmp_path / "out"), captions=15))
    assert torch.equal(load_file(out / "model.safetensors")["gate.leave.bias"], state["gate.leave.bias"])


# Bad input


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(weights_folder("pr_mcs"), folder))


def written(folder: Path, state: dict[str, torch.Tensor], **changes) -> None:
    """Other tensors, and other fields of the marker, in a folder of a tower."""
    save_file(state, folder / "model.safetensors")
    marker = json.loads((folder / tuned.MARKER).read_text())
    marker.update({"weights": tensors_digest(state), **changes})
    (folder / tuned.MARKER).write_text(json.dumps(marker))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda marker, state: marker.update(parts=None), "has no gate to move"),
        (lambda marker, state: state.update(table=torch.ones(2)), "also changes table of its text network"),
        (
            lambda marker, state: marker.update(base_text={"float32": "0"}),
            "belongs behind the text network of embedded.*: its text network is a different one",
        ),
        (lambda marker, state: marker.update(base_tokens="0"), "it splits texts into other tokens"),
        (lambda marker, state: marker.update(languages=["th"]), "none of the languages of the caption"),
    ],
)
def test_towers_that_cannot_be_moved(change, message, eye, tmp_path):
    folder = copied(tmp_path / "tower")
    marker, state = json.loads((folder / tuned.MARKER).read_text()), load_file(folder / "model.safetensors")
    change(marker, state)
    del marker["weights"]
    written(folder, state, **marker)
    with pytest.raises(CapscoreError, match=message):
        move(Settings(tower=str(folder), base=str(eye), out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("README.md", None, "README.md cannot be read .*expected the card"),
        ("README.md", "# a tower\n", "README.md has no table of the training data"),
        ("result.json", None, "result.json cannot be read"),
        ("result.json", "[]", r"result.json holds \[\]: expected an object"),
        ("settings.yaml", None, "settings.yaml"),
    ],
)
def test_folders_that_lack_what_the_card_needs(name, content, message, eye, tmp_path):
    folder = copied(tmp_path / "tower")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(CapscoreError, match=message):
        move(Settings(tower=str(folder), base=str(eye), out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_bases_with_another_text_network_are_refused(moved, tmp_path):
    settings = {"tower": "embedded-pr-mcs", "out": str(tmp_path / "out")}
    clip = tiny.write_clip(tmp_path / "clip")
    with pytest.raises(
        CapscoreError, match=r"cannot go to .*clip: a TransformersClip has another text network"
    ):
        move(Settings(base=str(clip), **settings))
    with pytest.raises(CapscoreError, match="it already has a gate"):
        move(Settings(base=str(moved), **settings))
    with pytest.raises(BackboneUnavailable, match="no-such-backbone"):
        move(Settings(base="no-such-backbone", **settings))


def test_what_is_no_tower_is_said(eye):
    for spec in ("embedded-pr-msc", str(eye)):
        with pytest.raises(InputError, match="no fine-tuned tower: expected embedded-pr-mcs or a folder"):
            tower_folder(spec)


def test_too_few_captions_are_refused():
    with pytest.raises(CapscoreError, match="captions=3: expected at least 15"):
        Settings(tower="embedded-pr-mcs", base="embedded", out="o", captions=3)


def test_the_command_says_where_it_saved(eye, tmp_path, capsys):
    out = tmp_path / "out"
    line = ["--tower", "embedded-pr-mcs", "--base", str(eye), "--out", str(out), "--captions", "15"]
    moved_gate.main(line)
    assert f"saved to {out}" in capsys.readouterr().err
    assert tuned.recognises(out)
