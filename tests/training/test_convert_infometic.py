"""The converter of public checkpoints: layouts it reads, files it refuses, and that nothing is left half-way.

That the scores are those of the public code is in `tests/metrics/test_infometic_as_released.py`.
"""

from __future__ import annotations

import os
import stat

import pytest
import torch
from typer.testing import CliRunner

import capscore
from capscore.errors import CapscoreError, InputError, ResultWriteError
from capscore.hub.weights import plan_weights
from capscore.infometic.network import InfoMetIC
from training import convert_infometic
from training.convert_infometic import app, convert

from ..backbones.tiny_transformers import write_clip
from ..infometic.public_code import random_checkpoint

STATE = random_checkpoint(intra=2, inter=1)


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
        {"model": STATE, "epoch": 3, "optimizer": {"state": {}}},
        {"state_dict": prefixed(STATE, "module.")},
        {"model": {"state_dict": STATE}},
        prefixed(STATE, "module."),
        {
            **STATE,
            "clip_backbone.logit_scale": torch.tensor(4.6),
            "clip_backbone.ln_final.bias": torch.zeros(3),
        },
        prefixed({**STATE, "clip_backbone.visual.proj": torch.zeros(3, 2)}, "module."),
    ],
    ids=["model", "state_dict and module", "both", "module", "with CLIP", "with CLIP and module"],
)
def test_every_layout_gives_the_same_network(tmp_path, plain, layout):
    found = convert(saved(tmp_path / "best_model.pth", layout), tmp_path / "network")
    assert found.fingerprint() == plain.fingerprint()


def test_the_config_is_the_public_codes(plain):
    config = plain.config
    assert (config.dim, config.heads, config.intra_layers, config.inter_layers) == (16, 16, 2, 1)
    assert config == config.released()
    assert (config.backbone, config.backbone_revision) == ("", "")


def test_tensors_stand_where_they_belong(plain):
    state = plain.state_dict()
    assert torch.equal(state["box_position.weight"], STATE["bbox_position_embedding"].T)
    assert torch.equal(state["region_query.weight"], STATE["img_att_query"].T)
    assert torch.equal(state["token_key.weight"], STATE["text_att_key"].T)
    found = state["inter_layers.0.mlp_in.weight"]
    assert torch.equal(found, STATE["fusion_encoder.resblocks.0.mlp.c_fc.weight"])


def test_half_precision_becomes_float32(tmp_path, plain):
    half = {name: tensor.half() for name, tensor in STATE.items()}
    found = convert(saved(tmp_path / "half.pth", half), tmp_path / "network")
    assert found.region_query.weight.dtype == torch.float32
    assert torch.allclose(found.region_query.weight, plain.region_query.weight, atol=1e-3)


def without(*names):
    return {name: tensor for name, tensor in STATE.items() if name not in names}


LAYER = "text_encoder.resblocks.1."
WRONG = {
    "missing": (without("logit_scale"), r"logit_scale is missing\. Nothing was written"),
    "many missing": (
        {name: tensor for name, tensor in STATE.items() if not name.startswith(LAYER)},
        rf"2 layers of each modality, 1 of both, .*: {LAYER}attn.in_proj_weight, .* and 9 more are missing",
    ),
    "unexpected": (
        {**STATE, "img_bboxtext_fusion": torch.zeros(32, 16)},
        "img_bboxtext_fusion is not part of the network",
    ),
    "a layer without an end": (
        {**STATE, "image_encoder.resblocks.2.ln_1.bias": torch.zeros(16)},
        "3 layers of each modality, .* are missing",
    ),
    "another shape": (
        {**STATE, "text_att_key": torch.zeros(16, 8), "bbox_position_embedding": torch.zeros(16, 4)},
        r"bbox_position_embedding \(found \(16, 4\), expected \(4, 16\)\), text_att_key \(found \(16, 8\), "
        r"expected \(16, 16\)\) have another shape",
    ),
    "a vector for a matrix": ({**STATE, "text_att_key": torch.zeros(16)}, r"text_att_key \(found \(16,\)"),
    "a matrix for the norm": ({**STATE, "ln.weight": torch.zeros(2, 2)}, "it has no vector ln.weight"),
    "all sorts": (
        {**without("ln.bias"), "extra": torch.zeros(1), "logit_scale": torch.zeros(2)},
        r"ln.bias is missing; extra is not part of the network; logit_scale \(found \(2,\), expected \(\)\)",
    ),
    "not finite": (
        {**STATE, "ln.bias": torch.full((16,), torch.nan)},
        "norms.all.bias of .* is not finite",
    ),
    "integers": ({**STATE, "ln.bias": torch.zeros(16).long()}, "'ln.bias' should be a tensor of numbers"),
    "no tensor": ({**STATE, "ln.bias": [0.0] * 16}, "'ln.bias' should be a tensor of numbers, not list"),
    "a number for a name": ({**STATE, 3: torch.zeros(1)}, "3 should be a tensor"),
    "another model": ({"weight": torch.zeros(2)}, r"no vector ln.weight \(it has weight\)"),
    "nothing": ({}, "holds dict: expected names with their tensors"),
    "only a tensor": (torch.zeros(3), "holds Tensor: expected names with their tensors"),
    "a wrapped list": ({"model": [1, 2]}, "'model' should be a tensor"),
}


@pytest.mark.parametrize("content, message", WRONG.values(), ids=WRONG.keys())
def test_another_content_is_one_error_and_nothing_is_written(tmp_path, content, message):
    path = saved(tmp_path / "wrong.pth", content)
    with pytest.raises(CapscoreError, match=message):
        convert(path, tmp_path / "network")
    assert [entry.name for entry in tmp_path.iterdir()] == ["wrong.pth"]


class Code:
    def __reduce__(self):
        return (os.mkdir, ("ran",))


def test_a_file_with_code_is_refused_and_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path / "code.pth", {**STATE, "x": Code()})
    with pytest.raises(CapscoreError, match=r"code\.pth cannot be read safely: it is damaged, or holds more"):
        convert(path, tmp_path / "network")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "network").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02", b"hello", bytes(range(256)) * 8])
def test_a_damaged_file_is_one_error(tmp_path, content):
    (tmp_path / "torn.pth").write_bytes(content)
    with pytest.raises(CapscoreError, match=r"torn\.pth"):
        convert(tmp_path / "torn.pth", tmp_path / "network")
    half = saved(tmp_path / "whole.pth", STATE).read_bytes()
    (tmp_path / "torn.pth").write_bytes(half[: len(half) // 2])
    with pytest.raises(CapscoreError, match=r"torn\.pth is not a checkpoint that torch can read"):
        convert(tmp_path / "torn.pth", tmp_path / "network")


def test_heads_must_divide_the_width(tmp_path):
    path = saved(tmp_path / "best.pth", STATE)
    assert convert(path, tmp_path / "eight", heads=8).config.heads == 8
    with pytest.raises(CapscoreError, match="heads=12 does not divide the width 16"):
        convert(path, tmp_path / "twelve", heads=12)


def test_a_folder_that_holds_something_stays(tmp_path):
    path, out = saved(tmp_path / "best.pth", STATE), tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="already holds something: give a new folder"):
        convert(path, out)
    with pytest.raises(InputError, match="already holds something"):
        convert(path, path)
    assert [entry.name for entry in out.iterdir()] == ["mine.txt"]
    with pytest.raises(InputError, match="there is no file"):
        convert(tmp_path / "other.pth", tmp_path / "new")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_nothing(tmp_path, monkeypatch, error):
    def full(*_):
        raise error

    monkeypatch.setattr(convert_infometic, "write_card", full)
    path = saved(tmp_path / "best.pth", STATE)
    with pytest.raises((ResultWriteError, KeyboardInterrupt)):
        convert(path, tmp_path / "deep" / "network")
    assert list((tmp_path / "deep").iterdir()) == []


def test_an_empty_folder_is_filled_and_others_may_read_it(tmp_path):
    (tmp_path / "network").mkdir()
    convert(saved(tmp_path / "best.pth", STATE), tmp_path / "network")
    names = sorted(entry.name for entry in (tmp_path / "network").iterdir())
    assert names == ["README.md", "config.json", "model.safetensors", "run.json"]
    plain = tmp_path / "plain"
    plain.mkdir()
    assert stat.S_IMODE((tmp_path / "network").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


# ------------------------------------------------------------------ the backbone


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip") / "tiny", context=77)


def tokens_of(folder):
    backbone = capscore.load_backbone(str(folder), device="cpu")
    return backbone.text_network().state_dict()["text_model.embeddings.token_embedding.weight"]


def test_the_weights_refuse_another_backbone(tmp_path, clip):
    state = {**STATE, "clip_backbone.token_embedding.weight": tokens_of(clip).half()}
    found = convert(saved(tmp_path / "best.pth", state), tmp_path / "network", backbone=str(clip))
    assert found.config.backbone_revision and found.config.backbone_fingerprint
    scorer = capscore.load(
        "infometic", backbone=str(clip), weights=str(tmp_path / "network"), device="cpu", cache=False
    )
    assert scorer.weights == f"network@{found.revision}"
    other = write_clip(tmp_path / "other", context=77, seed=1)
    with pytest.raises(CapscoreError, match="the InfoMetIC weights were made for"):
        capscore.load("infometic", backbone=str(other), weights=str(tmp_path / "network"), device="cpu")
    with pytest.raises(CapscoreError, match=r"was trained with another CLIP than .*: their tables of tokens"):
        convert(tmp_path / "best.pth", tmp_path / "again", backbone=str(other))
    assert not (tmp_path / "again").exists()


def test_a_backbone_that_cannot_be_it_is_refused(tmp_path):
    path = saved(tmp_path / "best.pth", STATE)
    with pytest.raises(CapscoreError, match="reads features of length 16; those of embedded have 512"):
        convert(path, tmp_path / "network", backbone="embedded")
    wide = saved(tmp_path / "wide.pth", random_checkpoint(dim=512, intra=1, inter=1))
    with pytest.raises(CapscoreError, match=r"'embedded' does not offer text embeddings .* any length"):
        convert(wide, tmp_path / "network", backbone="embedded")


# ------------------------------------------------------------------ card and command


def test_the_card_can_be_pushed_and_says_where_the_weights_come_from(tmp_path):
    path = saved(tmp_path / "best_model.pth", STATE)
    convert(path, tmp_path / "network", license="apache-2.0")
    text = (tmp_path / "network" / "README.md").read_text(encoding="utf-8")
    assert "license: apache-2.0" in text and "MSCOCO" in text
    assert "python -m training.convert_infometic best_model.pth network" in text
    assert "a checkpoint of the public code" in text and "refuse none of its length" in text
    assert str(tmp_path) not in text
    ready = plan_weights(tmp_path / "network")
    assert list(ready.files) == ["README.md", "config.json", "model.safetensors"]
    assert InfoMetIC.from_pretrained(tmp_path / "network").notes["converted_from"] == "best_model.pth"


def test_the_command(tmp_path, clip):
    path = saved(tmp_path / "best_model.pth", STATE)
    run = CliRunner().invoke(app, [str(path), str(tmp_path / "network")])
    assert run.exit_code == 0, run.output
    assert "2 layers of each modality, 1 of both, vectors of 16" in run.output
    assert "note: no backbone is recorded" in run.output
    run = CliRunner().invoke(app, [str(path), str(tmp_path / "bound"), "--backbone", str(clip)])
    assert run.exit_code == 0 and "note" not in run.output
    run = CliRunner().invoke(app, [str(path), str(tmp_path / "network")])
    assert run.exit_code == 1 and "error: " in run.output and "already holds something" in run.output
    saved(path, {})
    run = CliRunner().invoke(app, [str(path), str(tmp_path / "third")])
    assert run.exit_code == 1 and "expected names with their tensors" in run.output
