"""Fine-tuned towers: what comes back is what was trained, on its own base and on no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from PIL import Image
from safetensors.torch import load_file, save_file

from capscore import BackboneUnavailable, CapscoreError, InputError, ResultWriteError, load_backbone
from capscore.backbones import find, loading
from capscore.backbones.base import tensors_digest
from capscore.backbones.loading import is_downloaded
from capscore.backbones.tuned import MARKER, WEIGHTS, save_tuned
from capscore.errors import MissingWeightsError
from capscore.metrics.loading import default_backbone

from . import tiny_transformers as tiny
from .loopback_hub import LoopbackHub
from .test_trainable import CAPTIONS, Gated, step
from .tiny_kinds import KINDS, Checkpoint
from .tiny_open_clip import write_open_clip

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

PHOTO = Image.linear_gradient("L").convert("RGB")


@pytest.fixture
def clip(tmp_path):
    """The folder of a tiny CLIP."""
    return tiny.write_clip(tmp_path / "clip")


def load(spec, **options):
    return load_backbone(spec, device="cpu", **options)


def train_and_save(spec, folder, *, base=None, **arguments):
    """One step from the base of that spec, saved; returns the trained backbone."""
    trained = load(spec)
    step(trained)
    save_tuned(trained, folder, base=base or load(spec), base_spec=str(spec), recipe="one step", **arguments)
    return trained


def edit(folder: Path, **changes) -> None:
    marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    (folder / MARKER).write_text(json.dumps(marker | changes), encoding="utf-8")


# There and back


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_comes_back(kind, tmp_path):
    checkpoint = Checkpoint(kind, tmp_path)
    trained, base = checkpoint.load(), checkpoint.load()
    step(trained)
    spec = checkpoint.spec
    save_tuned(trained, tmp_path / "out", base=base, base_spec=spec, recipe="one step", languages=["de"])
    back = load(tmp_path / "out")

    np.testing.assert_allclose(back.encode_texts(CAPTIONS), trained.encode_texts(CAPTIONS), rtol=0, atol=1e-6)
    assert np.abs(back.encode_texts(CAPTIONS) - base.encode_texts(CAPTIONS)).max() > 1e-3
    np.testing.assert_allclose(back.encode_images([PHOTO]), base.encode_images([PHOTO]), rtol=0, atol=1e-6)
    assert (back.name, back.languages) == ("out", {"de"})
    assert (back.prefix, back.dim, back.logit_scale) == (base.prefix, base.dim, base.logit_scale)
    assert back.fingerprint == trained.remade().fingerprint != base.fingerprint
    assert back.revision[0] == "w" and back.revision != base.revision
    assert back.revision == load(tmp_path / "out", dtype="bf16").revision

    save_tuned(trained, tmp_path / "half", base=base, base_spec=spec, recipe="one step", dtype="float16")
    half = load(tmp_path / "half")
    np.testing.assert_allclose(half.encode_texts(CAPTIONS), trained.encode_texts(CAPTIONS), atol=2e-3)
    assert half.languages == base.languages and half.dtype == "float32"
    assert all(tensor.dtype == torch.float16 for tensor in load_file(tmp_path / "half" / WEIGHTS).values())
    assert half.revision != back.revision


def test_only_what_changed_is_stored(clip, tmp_path):
    trained = load(clip)
    projection = trained.text_network().text_projection
    with torch.no_grad():
        projection.weight[0, 0] += 1
    save_tuned(trained, tmp_path / "out", base=load(clip), base_spec=str(clip), recipe="by hand")
    stored = load_file(tmp_path / "out" / WEIGHTS)
    assert list(stored) == ["text_projection.weight"]
    assert torch.equal(stored["text_projection.weight"], projection.weight)
    marker = json.loads((tmp_path / "out" / MARKER).read_text())
    assert (marker["format"], marker["recipe"], marker["parts"]) == (1, "by hand", None)
    assert not list((tmp_path / "out").glob(".partial*"))


def test_the_embedded_table_is_not_stored(tmp_path):
    trained = train_and_save("embedded", tmp_path / "out")
    stored = load_file(tmp_path / "out" / WEIGHTS)
    assert sorted(stored) == sorted(name for name, _ in trained.text_network().named_parameters())
    assert sum(tensor.numel() for tensor in stored.values()) == 3_386_112
    marker = json.loads((tmp_path / "out" / MARKER).read_text())
    assert (marker["base"], marker["base_revision"]) == ("embedded", load("embedded").revision)


def test_options_are_those_of_the_base(clip, tmp_path):
    trained = train_and_save(clip, tmp_path / "out")
    back = load(tmp_path / "out", dtype="bf16")
    assert (back.dtype, back.device) == ("bfloat16", "cpu")
    cosines = (back.encode_texts(CAPTIONS) * trained.encode_texts(CAPTIONS)).sum(axis=1)
    assert cosines.min() > 0.99
    with pytest.raises(CapscoreError):
        load(tmp_path / "out", image_tower="ViT-B-32-quickgelu/openai")
    with pytest.raises(CapscoreError):
        load(tmp_path / "out", revision="v1")


def test_an_image_tower_is_kept_and_can_be_another(tmp_path):
    checkpoint = Checkpoint("m-clip", tmp_path)
    other = tiny.write_clip(tmp_path / "other images", seed=1)
    trained = checkpoint.load()
    step(trained)
    save_tuned(
        trained, tmp_path / "out", base=checkpoint.load(), base_spec=checkpoint.spec, recipe="one step"
    )
    plain, same, swapped = (
        load(tmp_path / "out", image_tower=tower) for tower in (None, str(tmp_path / "images"), str(other))
    )
    assert (plain.name, same.name, swapped.name) == ("out", "out", "out+other images")
    assert plain.fingerprint == same.fingerprint != swapped.fingerprint
    assert plain.revision.endswith(f"+{load(tmp_path / 'images').revision}")
    assert swapped.revision.endswith(f"+{load(other).revision}")
    np.testing.assert_allclose(
        swapped.encode_texts(CAPTIONS), trained.encode_texts(CAPTIONS), rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(
        swapped.encode_images([PHOTO]), load(other).encode_images([PHOTO]), rtol=0, atol=1e-6
    )


def test_a_prefix_and_no_languages(clip, tmp_path):
    trained = load(clip)
    step(trained)
    trained.prefix = "A photo depicts "
    save_tuned(trained, tmp_path / "out", base=load(clip), base_spec=str(clip), recipe="one step")
    back = load(tmp_path / "out")
    assert (back.prefix, back.languages) == ("A photo depicts ", None)


# Where the base is


def test_base_and_tuned_move_together_where_the_path_is_relative(clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = train_and_save("clip", "runs/out")
    assert json.loads((tmp_path / "runs/out" / MARKER).read_text())["base"] == "../../clip"
    shutil.copytree(tmp_path / "runs", tmp_path / "elsewhere" / "runs")
    shutil.move(clip, tmp_path / "elsewhere" / "clip")
    monkeypatch.chdir("/")
    back = load(tmp_path / "elsewhere" / "runs" / "out")
    np.testing.assert_allclose(back.encode_texts(CAPTIONS), trained.encode_texts(CAPTIONS), rtol=0, atol=1e-6)
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "runs" / "out")


def test_a_base_inside_the_folder(clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    shutil.move(clip, tmp_path / "out" / "base")
    train_and_save("out/base", "out")
    assert json.loads((tmp_path / "out" / MARKER).read_text())["base"] == "./base"
    assert load("out").name == "out"


def test_on_the_hub_both_are_pinned(clip, tmp_path, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with LoopbackHub().running() as hub:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        pinned = hub.add("org/base", clip)
        trained = train_and_save("org/base", tmp_path / "out")
        hub.add("org/base", tiny.write_clip(tmp_path / "newer", seed=1))  # main moves on
        commit = hub.add("org/tuned", tmp_path / "out")
        back = load("org/tuned")
    assert json.loads((tmp_path / "out" / MARKER).read_text())["base"] == f"org/base@{pinned}"
    assert (back.name, back.revision) == ("org/tuned", commit)
    np.testing.assert_allclose(back.encode_texts(CAPTIONS), trained.encode_texts(CAPTIONS), rtol=0, atol=1e-6)


def test_another_base_is_refused(clip, tmp_path):
    train_and_save(clip, tmp_path / "out")
    revision = load(clip).revision
    other = tiny.write_clip(tmp_path / "other", seed=1)
    edit(tmp_path / "out", base=str(other))
    rf"out was fine-tuned from .*other @ {revision}, but .*other is now @ {load(other).revision}: "
    for dtype in ("fp32", "bf16", "fp16"):
        with pytest.raises(BackboneUnavailable):
            load(tmp_path / "out", dtype=dtype)
    edit(tmp_path / "out", base="embedded")
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "out")


def test_a_base_that_cuts_texts_otherwise_is_refused(clip, tmp_path):
    train_and_save(clip, tmp_path / "out")
    tokenizer = json.loads((clip / "tokenizer.json").read_text())
    tokenizer["model"]["merges"] = []
    (clip / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "out")


def test_a_tuned_tower_can_be_tuned_further(clip, tmp_path):
    first = train_and_save(clip, tmp_path / "first")
    second = train_and_save(tmp_path / "first", tmp_path / "second", base=None)
    back = load(tmp_path / "second")
    np.testing.assert_allclose(back.encode_texts(CAPTIONS), second.encode_texts(CAPTIONS), rtol=0, atol=1e-6)
    assert np.abs(back.encode_texts(CAPTIONS) - first.encode_texts(CAPTIONS)).max() > 1e-3


@pytest.mark.parametrize("base", [".", "../second"])
def test_a_folder_that_is_its_own_base(clip, tmp_path, base):
    train_and_save(clip, tmp_path / "first")
    train_and_save(tmp_path / "first", tmp_path / "second")
    edit(tmp_path / "first", base=base)
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "first")
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "second")


# What cannot be loaded


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, r"of format 2; .*reads format 1: pip install --upgrade capscore"),
        ({"format": None}, r"of format None; this version of capscore reads format 1: pip install"),
        ({"base": 3}, "'base' should be present, as str"),
        ({"parts": []}, "'parts' should be present, as dict or null"),
        ({"languages": ["nothing"]}, "nothing"),
        ({"weights": "0"}, "does not belong to capscore_tuned.json"),
        ({"base": "org/nobody-has-this"}, "was fine-tuned from org/nobody-has-this: .*HF_HUB_OFFLINE is set"),
        ({"base": "/gone/away"}, "was fine-tuned from /gone/away: .*no folder /gone/away"),
        ({"parts": {"gate": {}}}, r"parts of the text network that cannot be built, \{'gate': \{\}\}"),
    ],
)
def test_a_marker_that_is_not_right(clip, tmp_path, changes, said):
    train_and_save(clip, tmp_path / "out")
    edit(tmp_path / "out", **changes)
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "out")


def test_torn_missing_and_foreign_files(clip, tmp_path):
    whole = tmp_path / "whole"
    train_and_save(clip, whole)
    weights = (whole / WEIGHTS).read_bytes()

    def broken(name):
        return shutil.copytree(whole, tmp_path / name)

    folder = broken("torn")
    (folder / WEIGHTS).write_bytes(weights[:1000])
    with pytest.raises(BackboneUnavailable):
        load(folder)
    folder = broken("pointer")
    (folder / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(BackboneUnavailable):
        load(folder)
    folder = broken("no weights")
    (folder / WEIGHTS).unlink()
    with pytest.raises(BackboneUnavailable):
        load(folder)
    folder = broken("other weights")
    train_and_save(clip, tmp_path / "second", dtype="float16")
    shutil.copy(tmp_path / "second" / WEIGHTS, folder)
    with pytest.raises(BackboneUnavailable):
        load(folder)
    folder = broken("torn marker")
    (folder / MARKER).write_text((folder / MARKER).read_text()[:100])
    with pytest.raises(BackboneUnavailable):
        load(folder)
    folder = broken("half written")
    (folder / MARKER).unlink()
    with pytest.raises(BackboneUnavailable):
        load(folder)


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        ("text_projection.weight", torch.zeros(3, 3), "text_projection.weight have a shape that differs"),
        ("text_projection.extra", torch.zeros(3), "text_projection.extra belong to no part of the model"),
    ],
)
def test_tensors_that_do_not_fit(clip, tmp_path, name, tensor, said):
    train_and_save(clip, tmp_path / "out")
    state = load_file(tmp_path / "out" / WEIGHTS) | {name: tensor}
    save_file(state, tmp_path / "out" / WEIGHTS)
    edit(tmp_path / "out", weights=tensors_digest(state))
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "out")


# What cannot be saved


def test_what_does_not_go_together_is_not_saved(clip, tmp_path):
    out = tmp_path / "out"
    trained, base = load(clip), load(clip)

    def refused(said, **changes):
        arguments = {"base": base, "base_spec": str(clip), "recipe": "none"} | changes
        with pytest.raises(CapscoreError):
            save_tuned(arguments.pop("backbone", trained), arguments.pop("folder", out), **arguments)
        assert not (out / MARKER).exists()

    refused("nothing was trained: every weight equals the base's")
    step(trained)
    refused("share their network: load the base", base=trained)
    refused("share their network", base=trained.remade())
    refused("are saved from float32", base=load(clip, dtype="bf16"))
    refused("TransformersClip was not fine-tuned from EmbeddedBackbone", base=load("embedded"))
    refused("splits texts into other tokens", base=load(tiny.write_siglip_2(tmp_path / "siglip")))
    moved = load(clip)
    step(moved)
    refused("the base has changed since it was loaded", base=moved)
    refused("base_spec='': expected a name", base_spec="")
    refused("dtype='bf16': weights are stored as", dtype="bf16")
    refused("dtype='float61' is not one of", dtype="float61")
    refused("notes and parts must be ready for JSON", notes={"loss": torch.tensor(1)})
    refused("notes and parts must be ready for JSON", notes={"loss": float("nan")})
    refused("clip is the folder of the base itself", folder=clip)
    with pytest.raises(InputError):
        save_tuned(trained, out, base=base, base_spec=str(clip), recipe="none", languages=["nothing"])
    another = write_open_clip(tmp_path / "another")
    refused(r"another already holds weights \(open_clip_model.safetensors\)", folder=another)
    with torch.no_grad():
        trained.text_network().text_projection.weight[0, 0] = 1e6
    refused("text_projection.weight of the network is too large for float16", dtype="fp16")
    with torch.no_grad():
        trained.text_network().text_projection.weight[0, 0] = float("nan")
    refused("text_projection.weight of the network holds NaN")


def test_another_text_network_is_not_saved(tmp_path):
    """The same tokenizer, towers of another size."""
    small, large = tmp_path / "small", tmp_path / "large"
    tiny.write_multilingual_clip(small)
    tiny.write_multilingual_clip(large, dim=24)
    images = {16: load(tiny.write_clip(tmp_path / "images")), 24: load(_wide_clip(tmp_path / "wide"))}
    first, second = load(small, image_tower=images[16]), load(large, image_tower=images[24])
    with pytest.raises(CapscoreError):
        save_tuned(first, tmp_path / "out", base=second, base_spec=str(large), recipe="none")


def _wide_clip(folder: Path) -> Path:
    from transformers import CLIPConfig, CLIPModel

    tiny.write_clip(folder)
    config = CLIPConfig.from_pretrained(folder)
    config.projection_dim = 24
    return tiny._save(CLIPModel(config), folder)


def test_a_second_save_replaces_the_first_or_leaves_it(clip, tmp_path, monkeypatch):
    first = train_and_save(clip, tmp_path / "out")
    (tmp_path / "out" / "log.jsonl").write_text("{}")
    further = load(clip)
    step(further, rate=0.1)
    with monkeypatch.context() as full_disk:

        def fail(*_, **__):
            raise OSError(28, "No space left on device")

        full_disk.setattr("safetensors.torch.save_file", fail)
        with pytest.raises(ResultWriteError):
            save_tuned(further, tmp_path / "out", base=load(clip), base_spec=str(clip), recipe="more")
    assert load(tmp_path / "out").fingerprint == first.remade().fingerprint
    save_tuned(further, tmp_path / "out", base=load(clip), base_spec=str(clip), recipe="more")
    assert load(tmp_path / "out").fingerprint == further.remade().fingerprint
    assert (tmp_path / "out" / "log.jsonl").is_file()
    assert not list((tmp_path / "out").glob(".partial*"))


# Parts


@pytest.fixture
def gates(monkeypatch):
    monkeypatch.setattr("capscore.backbones.embedded.backbone.gated", Gated)


def with_gate(width: int):
    backbone = load("embedded")
    backbone.add_network_parts({"width": width})
    return backbone


def test_parts_come_back(gates, tmp_path):
    trained = with_gate(3)
    save = {"base": load("embedded"), "base_spec": "embedded", "recipe": "gate"}
    # the new tensors are written even where they are as they came, since nothing else says what they are
    save_tuned(trained, tmp_path / "untrained", **save)
    assert sorted(load_file(tmp_path / "untrained" / WEIGHTS)) == ["gate.bias", "gate.weight"]
    step(trained)
    save_tuned(trained, tmp_path / "out", **save)
    assert json.loads((tmp_path / "out" / MARKER).read_text())["parts"] == {"width": 3}
    back = load(tmp_path / "out")
    assert back.network_parts() == {"width": 3}
    np.testing.assert_allclose(back.encode_texts(CAPTIONS), trained.encode_texts(CAPTIONS), rtol=0, atol=1e-6)
    assert back.fingerprint == trained.remade().fingerprint

    # on from there: the base has the parts already
    step(back)
    save_tuned(
        back, tmp_path / "on", base=load(tmp_path / "out"), base_spec=str(tmp_path / "out"), recipe="on"
    )
    assert json.loads((tmp_path / "on" / MARKER).read_text())["parts"] is None
    on = load(tmp_path / "on")
    np.testing.assert_allclose(on.encode_texts(CAPTIONS), back.encode_texts(CAPTIONS), rtol=0, atol=1e-6)
    for backbone, base in ((with_gate(4), back), (load("embedded"), with_gate(3).remade())):
        with pytest.raises(CapscoreError):
            save_tuned(backbone, tmp_path / "no", base=base.remade(), base_spec="embedded", recipe="no")


def test_a_part_without_its_weights_is_refused(gates, tmp_path):
    trained = with_gate(3)
    step(trained)
    save_tuned(trained, tmp_path / "out", base=load("embedded"), base_spec="embedded", recipe="gate")
    state = load_file(tmp_path / "out" / WEIGHTS)
    del state["gate.bias"]
    save_file(state, tmp_path / "out" / WEIGHTS)
    edit(tmp_path / "out", weights=tensors_digest(state))
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "out")
    edit(tmp_path / "out", parts=None)
    with pytest.raises(BackboneUnavailable):
        load(tmp_path / "out")


# What is installed


def test_the_default_of_pr_mcs_is_the_installed_one(tmp_path, monkeypatch):
    installed = tmp_path / "pr_mcs"
    monkeypatch.setattr(loading, "weights_folder", {"pr_mcs": installed}.__getitem__)
    assert default_backbone("pr_mcs") == "embedded-pr-mcs"
    trained = train_and_save("embedded", installed, languages=["en", "de"])
    back = load("embedded-pr-mcs")
    np.testing.assert_allclose(back.encode_texts(CAPTIONS), trained.encode_texts(CAPTIONS), rtol=0, atol=1e-6)
    assert back.name == "embedded-pr-mcs" and back.revision[0] == "w"
    assert back.languages == load("embedded").languages - {"th"}, "as the registry has them"
    with pytest.raises(CapscoreError):
        load("embedded-pr-mcs@v1")
    with pytest.raises(CapscoreError):
        load("embedded-pr-mcs", image_tower="embedded")


def test_the_variable_does_not_turn_pr_mcs_into_mcs(monkeypatch):
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    assert [default_backbone(metric) for metric in ("pr_mcs", "mcs")] == ["embedded-pr-mcs", "embedded"]
    for name in ("embedded-pr-mcs", "my/folder", "BAAI/AltCLIP"):
        monkeypatch.setenv("CAPSCORE_BACKBONE", name)
        assert default_backbone("pr_mcs") == name


def test_whether_the_installed_one_is_here(monkeypatch):
    known = find("embedded-pr-mcs")
    assert (known.kind, known.weights) == ("tuned", "pr_mcs") and known.base in ("embedded", "embedded-free")
    assert loading.repository_of(known) == ""
    assert is_downloaded(known)
    with monkeypatch.context() as patch:
        patch.setattr(loading, "has_weights", lambda name: name != "pr_mcs")
        assert not is_downloaded(known)
    monkeypatch.setattr(loading, "find_spec", lambda name: name if name == "torch" else None)
    assert not is_downloaded(known), "its base is missing"


@pytest.mark.usefixtures("no_weights_installed")
def test_without_capscore_weights_the_error_says_how_to_get_them():
    with pytest.raises(MissingWeightsError) as caught:
        load("embedded-pr-mcs")
    assert str(caught.value).startswith("backbone 'embedded-pr-mcs' is not available: ")
    assert "backbone='embedded-free'" in str(caught.value)
    assert not is_downloaded(find("embedded-pr-mcs"))
