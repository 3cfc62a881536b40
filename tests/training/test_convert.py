"""The converter of public checkpoints: layouts it reads, files it refuses, and that nothing is left half-way.

That the scores are those of the public code is in `tests/metrics/test_infometic_as_released.py`.
"""

from __future__ import annotations

import os

import pytest
import torch

import capscore
from capscore.errors import CapscoreError, InputError, ResultWriteError
from capscore.infometic.network import InfoMetIC
from tools.tiny.transformers_models import write_clip
from training import convert as module
from training.convert import Settings, main

from ..infometic.public_code import random_checkpoint

STATE = random_checkpoint(intra=2, inter=1)


def convert(checkpoint, out, **options):
    return module.convert(Settings(str(checkpoint), str(out), **options))


def saved(path, content):
    torch.save(content, path)
    return path


def prefixed(state, prefix):
    return {prefix + name: tensor for name, tensor in state.items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return convert(saved(folder / "best_model.pth", STATE), folder / "network")


@pytest.mark.parametrize(
    "layout",
    [
        {"model": {"state_dict": STATE}, "epoch": 3},
        {"state_dict": prefixed(STATE, "module.")},
        prefixed({**STATE, "clip_backbone.visual.proj": torch.zeros(3, 2)}, "module."),
    ],
)
def test_every_layout_gives_the_same_network(tmp_path, plain, layout):
    found = convert(saved(tmp_path / "best_model.pth", layout), tmp_path / "network")
    assert found.fingerprint() == plain.fingerprint()


def test_tensors_stand_where_they_belong(plain, tmp_path):
    config, state = plain.config, plain.state_dict()
    assert (config.dim, config.heads, config.intra_layers, config.inter_layers) == (16, 16, 2, 1)
    assert config == config.released() and config.backbone == ""
    assert torch.equal(state["box_position.weight"], STATE["bbox_position_embedding"].T)
    assert torch.equal(state["region_query.weight"], STATE["img_att_query"].T)
    assert torch.equal(state["token_key.weight"], STATE["text_att_key"].T)
    found = state["inter_layers.0.mlp_in.weight"]
    assert torch.equal(found, STATE["fusion_encoder.resblocks.0.mlp.c_fc.weight"])
    half = {name: tensor.half() for name, tensor in STATE.items()}
    found = convert(saved(tmp_path / "half.pth", half), tmp_path / "network").region_query.weight
    assert found.dtype == torch.float32
    assert torch.allclose(found, plain.region_query.weight, atol=1e-3)


def without(start):
    return {name: tensor for name, tensor in STATE.items() if not name.startswith(start)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (without("logit_scale"), "Missing key.*log_scale"),
        (without("text_encoder.resblocks.1."), "2 layers of each .*text_layers.1.attention_in.weight"),
        ({**STATE, "img_bboxtext_fusion": torch.zeros(32, 16)}, "Unexpected key.*img_bboxtext_fusion"),
        ({**STATE, "image_encoder.resblocks.2.ln_1.bias": torch.zeros(16)}, "3 layers of each .*Missing"),
        ({**STATE, "text_att_key": torch.zeros(16, 8)}, "size mismatch for token_key.weight"),
        ({**STATE, "text_att_key": torch.zeros(16)}, "size mismatch for token_key.weight"),
        ({**STATE, "ln.bias": torch.full((16,), torch.nan)}, "norms.all.bias of .* is not finite"),
        ({**STATE, "ln.bias": [0.0] * 16}, "'ln.bias' should be a tensor of numbers, not list"),
        ({**STATE, "ln.bias": torch.zeros(16).long()}, "'ln.bias' should be a tensor of numbers"),
        ({"weight": torch.zeros(2)}, r"no vector ln.weight \(it has weight\).*Nor is it one of PAC-S"),
        ({**STATE, "ln.weight": torch.zeros(2, 2)}, "it has no vector ln.weight"),
        ({}, "holds dict: expected names with their tensors"),
        (torch.zeros(3), "holds Tensor: expected names with their tensors"),
    ],
)
def test_unexpected_content_is_one_error_and_nothing_is_written(tmp_path, content, message):
    path = saved(tmp_path / "wrong.pth", content)
    with pytest.raises(CapscoreError, match=message):
        convert(path, tmp_path / "network")
    assert [entry.name for entry in tmp_path.iterdir()] == ["wrong.pth"]


class Code:
    def __reduce__(self):
        return (os.mkdir, ("ran",))


def test_a_file_with_code_does_not_run_and_a_damaged_one_is_one_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = saved(tmp_path / "code.pth", {**STATE, "x": Code()}).read_bytes()
    whole = saved(tmp_path / "whole.pth", STATE).read_bytes()
    for content in (code, b"", b"PK\x03\x04", b"hello", whole[: len(whole) // 2]):
        (tmp_path / "torn.pth").write_bytes(content)
        with pytest.raises(CapscoreError, match=r"torn\.pth cannot be read safely"):
            convert(tmp_path / "torn.pth", tmp_path / "network")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "network").exists()


def test_the_folder_appears_whole_and_replaces_nothing(tmp_path, monkeypatch, capsys):
    path, out = saved(tmp_path / "best.pth", STATE), tmp_path / "out"
    out.mkdir()
    main(["--checkpoint", str(path), "--out", str(out), "--license", "apache-2.0"])
    said = capsys.readouterr().out
    assert "2 layers of each modality, 1 of both, vectors of 16" in said and "no backbone is recorded" in said
    assert {"README.md", "config.json", "model.safetensors"} <= {entry.name for entry in out.iterdir()}
    text = (out / "README.md").read_text(encoding="utf-8")
    assert "training.convert --checkpoint best.pth --out out" in text and str(tmp_path) not in text
    assert "a checkpoint of the public code" in text and "refuse none of its length" in text
    assert InfoMetIC.from_pretrained(out).notes["converted_from"] == "best.pth"
    for taken in (out, path):
        with pytest.raises(InputError, match="is not empty: give a new folder"):
            convert(path, taken)
    with pytest.raises(InputError, match="there is no file"):
        convert(tmp_path / "other.pth", tmp_path / "new")
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def full(*_, error=error):
            raise error

        monkeypatch.setattr(module, "write_card", full)
        with pytest.raises((ResultWriteError, KeyboardInterrupt)):
            convert(path, tmp_path / "deep" / "network")
        assert list((tmp_path / "deep").iterdir()) == []


def test_the_weights_refuse_another_backbone(tmp_path, embedded, monkeypatch):
    clip = write_clip(tmp_path / "tiny", context=77)
    backbone = capscore.load_backbone(str(clip), device="cpu")
    tokens = backbone.text_network().state_dict()["text_model.embeddings.token_embedding.weight"]
    path = saved(tmp_path / "best.pth", {**STATE, "clip_backbone.token_embedding.weight": tokens.half()})
    found = convert(path, tmp_path / "network", backbone=str(clip))
    assert found.config.backbone_revision and found.config.backbone_fingerprint
    load = dict(weights=str(tmp_path / "network"), device="cpu", cache=False)
    scorer = capscore.load("infometic", backbone=str(clip), **load)
    assert scorer.weights == f"network@{found.revision}"
    other = write_clip(tmp_path / "other", context=77, seed=1)
    with pytest.raises(CapscoreError, match="the InfoMetIC weights were made for"):
        capscore.load("infometic", backbone=str(other), **load)
    with pytest.raises(CapscoreError, match=r"was trained with another CLIP than .*: their tables of tokens"):
        convert(path, tmp_path / "again", backbone=str(other))
    assert not (tmp_path / "again").exists()
    monkeypatch.setattr(module, "load_backbone", lambda *_, **__: embedded)
    with pytest.raises(CapscoreError, match="reads features of length 16; those of embedded have 512"):
        convert(path, tmp_path / "again", backbone="embedded")
    wide = saved(tmp_path / "wide.pth", random_checkpoint(dim=512, intra=1, inter=1))
    with pytest.raises(CapscoreError, match=r"'embedded' does not offer text embeddings .* any length"):
        convert(wide, tmp_path / "again", backbone="embedded")
