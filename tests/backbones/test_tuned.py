"""Fine-tuned towers: what is stored, on which base they go, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from capscore import BackboneUnavailable, CapscoreError, load_backbone
from capscore import backbones as loading
from capscore.backbones import find
from capscore.backbones.base import tensors_digest
from capscore.backbones.tuned import MARKER, WEIGHTS
from capscore.metrics.loading import default_backbone
from tools.tiny import transformers_models as tiny
from tools.tiny.backbones import edit_json
from tools.tiny.colours import ColourBackbone
from tools.tiny.gate import PARTS, with_gate
from tools.tiny.image_tower import write_image_tower
from tools.tiny.open_clip_models import write_open_clip
from training.engine.saved_towers import save_tuned

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

CAPTIONS = [text for text in tiny.TEXTS if text]
PHOTO = Image.linear_gradient("L").convert("RGB")


@pytest.fixture
def clip(checkpoints, tmp_path):
    return Path(shutil.copytree(checkpoints("clip").spec, tmp_path / "clip"))


def load(spec, **options):
    return load_backbone(spec, device="cpu", **options)


def trained_from(spec, **options):
    """What stands for a step of training: every parameter of the text network a little larger."""
    backbone = load(spec, **options)
    with torch.no_grad():
        for parameter in backbone.text_network().parameters():
            parameter.mul_(1.05)
    return backbone


def train_and_save(spec, folder, **arguments):
    trained = trained_from(spec)
    save_tuned(trained, folder, base=load(spec), base_spec=str(spec), recipe="one step", **arguments)
    return trained


def same_texts(first, second):
    rows = (backbone.encode_texts(CAPTIONS) for backbone in (first, second))
    np.testing.assert_allclose(*rows, rtol=0, atol=1e-6)


def marker_of(folder):
    return json.loads((folder / MARKER).read_text(encoding="utf-8"))


def test_only_what_changed_is_stored(clip, tmp_path):
    trained, out = load(clip), tmp_path / "out"
    projection = trained.text_network().text_projection
    with torch.no_grad():
        projection.weight[0, 0] += 1
    save_tuned(trained, out, base=load(clip), base_spec=str(clip), recipe="by hand", notes={"loss": 1})
    stored = load_file(out / WEIGHTS)
    assert list(stored) == ["text_projection.weight"]
    assert torch.equal(stored["text_projection.weight"], projection.weight)
    marker = marker_of(out)
    said = [marker[key] for key in ("format", "recipe", "parts", "notes")]
    assert said == [1, "by hand", None, {"loss": 1}]
    assert not list(out.glob(".partial*"))


def test_both_towers_and_the_ratings_behind_them_come_back(clip, tmp_path):
    trained = load(clip)
    with torch.no_grad():
        trained.network().visual_projection.weight.mul_(-1)
    about = {"recipe": "human_ratings", "towers": "both", "rated_from": "clip@w1", "languages": ["de"]}
    save_tuned(trained, tmp_path / "out", base=load(clip), base_spec=str(clip), **about)
    back = load(tmp_path / "out")
    np.testing.assert_allclose(back.encode_images([PHOTO]), trained.encode_images([PHOTO]), rtol=0, atol=1e-6)
    assert np.abs(back.encode_images([PHOTO]) - load(clip).encode_images([PHOTO])).max() > 0.1
    assert (back.rated_from, back.languages) == ("clip@w1", {"de"})
    assert (back.tuned_from, load(clip).tuned_from) == (str(clip), "")
    edit_json(tmp_path / "out" / MARKER, "towers", value="left")
    with pytest.raises(BackboneUnavailable, match="'towers' or 'rated_from' is damaged"):
        load(tmp_path / "out")


def test_an_image_tower_is_saved_and_can_be_replaced(checkpoints, backbones, tmp_path):
    made, out = checkpoints("m-clip"), tmp_path / "out"
    other, tower = tiny.write_clip(tmp_path / "other", seed=1), made.image_tower
    trained = trained_from(made.spec, image_tower=tower)
    save_tuned(trained, out, base=backbones("m-clip"), base_spec=made.spec, recipe="one step")
    plain, same, swapped = (load(out, image_tower=each) for each in (None, tower, str(other)))
    assert (plain.name, same.name, swapped.name) == ("out", "out", "out+other")
    assert plain.fingerprint == same.fingerprint != swapped.fingerprint
    assert plain.revision.endswith(f"+{load(tower).revision}")
    assert swapped.revision.endswith(f"+{load(other).revision}")
    same_texts(swapped, trained)


def test_the_path_of_a_base_is_absolute(clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = train_and_save("clip", "runs/out")
    assert marker_of(tmp_path / "runs/out")["base"] == str(clip)
    monkeypatch.chdir("/")
    same_texts(load(tmp_path / "runs" / "out"), trained)
    edit_json(tmp_path / "runs/out" / MARKER, "base", value=str(tmp_path / "runs/out"))
    with pytest.raises(BackboneUnavailable, match="was fine-tuned from itself"):
        load(tmp_path / "runs" / "out")


def test_on_the_hub_both_are_pinned(clip, tmp_path, hub):
    pinned = hub.add("org/base", clip)
    trained = train_and_save("org/base", tmp_path / "out")
    hub.add("org/base", tiny.write_clip(tmp_path / "newer", seed=1))  # main moves on
    commit = hub.add("org/tuned", tmp_path / "out")
    back = load("org/tuned")
    assert marker_of(tmp_path / "out")["base"] == f"org/base@{pinned}"
    assert (back.name, back.revision) == ("org/tuned", commit)
    same_texts(back, trained)


def test_a_base_with_other_weights_or_tokens_is_refused(clip, tmp_path):
    out = tmp_path / "out"
    train_and_save(clip, out)
    other = tiny.write_clip(tmp_path / "other", seed=1)
    for base, dtype in ((str(other), "fp32"), (str(other), "bf16"), ("embedded", "fp32")):
        edit_json(out / MARKER, "base", value=base)
        with pytest.raises(BackboneUnavailable, match="with another text network or tokenizer"):
            load(out, dtype=dtype)
    edit_json(out / MARKER, "base", value=str(clip))
    edit_json(clip / "tokenizer.json", "model", "merges", value=[])
    with pytest.raises(BackboneUnavailable, match="with another text network or tokenizer"):
        load(out)


def test_tensors_that_belong_to_no_part_or_have_another_shape(clip, tmp_path):
    out = tmp_path / "out"
    train_and_save(clip, out)
    before = load_file(out / WEIGHTS)
    for name in ("text_projection.weight", "text_projection.extra"):
        state = before | {name: torch.zeros(3, 3)}
        save_file(state, out / WEIGHTS)
        edit_json(out / MARKER, "weights", value=tensors_digest(state))
        with pytest.raises(BackboneUnavailable, match=name):
            load(out)


def test_mismatched_parts_are_not_saved(clip, backbones, tmp_path):
    out = tmp_path / "out"
    trained, base = load(clip), load(clip)

    def refused(said, **changes):
        arguments = {"base": base, "base_spec": str(clip), "recipe": "none"} | changes
        with pytest.raises(CapscoreError, match=said):
            save_tuned(arguments.pop("backbone", trained), arguments.pop("folder", out), **arguments)
        assert not (out / MARKER).exists()

    refused("nothing was trained: every weight equals the base's")
    trained, moved = trained_from(clip), trained_from(clip)
    refused("share their network", base=trained.remade())
    refused("both in float32", base=load(clip, dtype="bf16"))
    refused("of one kind", base=backbones("embedded-free"))
    wide = tiny.write_multilingual_clip(tmp_path / "wide", dim=512)  # the same tokenizer
    other = {"backbone": backbones("m-clip"), "base": load(wide, image_tower="embedded-free")}
    refused("the network is not that of the base", **other)
    refused("splits texts into other tokens", base=backbones("siglip 2"))
    refused("the base has changed since it was loaded", base=moved)
    for option, value in (("base_spec", ""), ("dtype", "bf16"), ("dtype", "float61")):
        refused(f"{option}={value!r}", **{option: value})
    for loss in (torch.tensor(1), float("nan")):
        refused("as JSON", notes={"loss": loss})
    refused("nothing", languages=["nothing"])
    refused("another folder", folder=clip)
    another = write_open_clip(tmp_path / "another")
    refused("another already holds open_clip_model.safetensors", folder=another)
    for value in (1e6, float("nan")):
        with torch.no_grad():
            trained.text_network().text_projection.weight[0, 0] = value
        refused("text_projection.weight of the fine-tuned tower is not finite as torch.float16", dtype="fp16")
    for call in (ColourBackbone().text_network, ColourBackbone().network, ColourBackbone().remade):
        with pytest.raises(CapscoreError, match="does not offer"):
            call()


def test_saved_parts_load_and_can_be_trained_further(tmp_path):
    eye, out = write_image_tower(tmp_path / "eye"), tmp_path / "out"
    plain = load(eye, dtype="bf16")
    gated = with_gate(load(eye, dtype="bf16"))
    assert plain.network_parts() is None and gated.network_parts() == PARTS
    assert gated.text_network().gate.touched.weight.dtype == torch.bfloat16, "cast as the rest of it is"
    with pytest.raises(CapscoreError, match="already has"):
        gated.add_network_parts(PARTS)

    # the new tensors are written even where they are as they came, since nothing else says what they are
    save_tuned(with_gate(load(eye)), out, base=load(eye), base_spec=str(eye), recipe="gate")
    assert {name.split(".")[0] for name in load_file(out / WEIGHTS)} == {"away", "curve", "gate"}
    assert marker_of(out)["parts"] == PARTS and load(out).network_parts() == PARTS
    further = trained_from(out)  # the base has the parts already
    save_tuned(further, tmp_path / "on", base=load(out), base_spec=str(out), recipe="on")
    assert marker_of(tmp_path / "on")["parts"] is None
    same_texts(load(tmp_path / "on"), further)
    with pytest.raises(CapscoreError, match="has the parts None, but its base has"):
        save_tuned(trained_from(eye), tmp_path / "no", base=load(out), base_spec=str(out), recipe="no")

    state = load_file(out / WEIGHTS)
    del state["gate.whole.bias"]
    save_file(state, out / WEIGHTS)
    edit_json(out / MARKER, "weights", value=tensors_digest(state))
    for parts, said in ((PARTS, "missing, such as gate.whole.bias"), (None, "unexpected")):
        edit_json(out / MARKER, "parts", value=parts)
        with pytest.raises(BackboneUnavailable, match=said):
            load(out)


def test_the_default_of_pr_mcs_is_the_installed_one(tmp_path, monkeypatch):
    assert default_backbone("pr_mcs") == "embedded-pr-mcs"
    known = find("embedded-pr-mcs")
    assert (known.kind, known.weights) == ("tuned", "pr_mcs") and known.base in ("embedded", "embedded-free")
    assert loading.repository_of(known) == ""
    for named, tuned in (("embedded", "embedded-pr-mcs"), ("my/folder", "my/folder")):
        monkeypatch.setenv("CAPSCORE_BACKBONE", named)
        assert [default_backbone(metric) for metric in ("pr_mcs", "mcs")] == [tuned, named]
    installed = tmp_path / "pr_mcs"
    monkeypatch.setattr(loading, "weights_folder", {"pr_mcs": installed}.__getitem__)
    trained = train_and_save("embedded", installed, languages=["en", "de"])
    back = load("embedded-pr-mcs")
    same_texts(back, trained)
    assert back.name == "embedded-pr-mcs" and back.languages == load("embedded").languages - {"th"}
    with pytest.raises(CapscoreError, match="revision='v1'"):
        load("embedded-pr-mcs@v1")
