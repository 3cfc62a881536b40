"""Fingerprint and revision: other settings make another backbone; a copy elsewhere is the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from capscore import BackboneUnavailable, CapscoreError, load_backbone
from capscore.backbones.base import (
    architecture_digest,
    exact_convolutions,
    fingerprint_of,
    settings_digest,
    tensors_digest,
)
from capscore.backbones.embedded.backbone import load_embedded

from .tiny_open_clip import write_open_clip
from .tiny_transformers import write_clip, write_multilingual_clip, write_sentence_transformer


def edited(folder: Path, copy: Path, file: str, *keys: str, value: object) -> Path:
    """A copy of a folder in which one entry of a JSON file is another."""
    shutil.copytree(folder, copy)
    content = json.loads((copy / file).read_text())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    (copy / file).write_text(json.dumps(content))
    return copy


def test_digests_stay_as_they_are(tmp_path):
    """Caches and signatures that people keep rest on these."""
    assert fingerprint_of("embedded", 1, None, ("a", 2.5)) == "b38a66adfcdc30b89ef3ec1bb422039b"
    tensors = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor([1, 2])}
    assert tensors_digest(tensors) == "aa8a5c0124d6f959252cb2e00bfd7724"
    (tmp_path / "config.json").write_text('{"dim": 2}')
    (tmp_path / "model.safetensors").write_bytes(b"x")
    (tmp_path / "model.py").write_text("pass")
    assert settings_digest(tmp_path) == "cf09ac50a0c03ec2f13ab97234a9c796"


CONFIG = "open_clip_config.json"


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        (CONFIG, ("model_cfg", "quick_gelu"), True),
        (CONFIG, ("model_cfg", "text_cfg", "heads"), 1),
        (CONFIG, ("preprocess_cfg", "mean"), [0.1, 0.2, 0.3]),
    ],
)
def test_same_weights_used_otherwise_are_another_open_clip(tmp_path, file, keys, value):
    original = write_open_clip(tmp_path / "a" / "m", "clip")
    other = edited(original, tmp_path / "b" / "m", file, *keys, value=value)
    first, second = (load_backbone(str(folder), device="cpu") for folder in (original, other))
    assert first.fingerprint != second.fingerprint
    assert first.revision != second.revision and first.name == second.name


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        ("config.json", ("text_config", "hidden_act"), "gelu"),
        ("config.json", ("vision_config", "layer_norm_eps"), 0.1),
        ("preprocessor_config.json", ("image_mean",), [0.1, 0.2, 0.3]),
    ],
)
def test_same_weights_used_otherwise_are_another_transformers_clip(tmp_path, file, keys, value):
    original = write_clip(tmp_path / "a" / "m")
    other = edited(original, tmp_path / "b" / "m", file, *keys, value=value)
    first, second = (load_backbone(str(folder), device="cpu") for folder in (original, other))
    assert first.fingerprint != second.fingerprint
    assert first.revision != second.revision and first.name == second.name


@pytest.mark.parametrize(
    ("write", "file", "keys", "value"),
    [
        (write_multilingual_clip, "encoder_config.json", ("layer_norm_eps",), 0.1),
        (write_multilingual_clip, "encoder_config.json", ("num_attention_heads",), 1),
        (write_multilingual_clip, "encoder_config.json", ("hidden_act",), "relu"),
        (write_sentence_transformer, "2_Dense/config.json", ("activation_function",), "torch.nn.ReLU"),
        (write_sentence_transformer, "config.json", ("n_heads",), 1),
    ],
)
def test_same_weights_used_otherwise_are_another_text_tower(tmp_path, write, file, keys, value):
    images = load_backbone(str(write_clip(tmp_path / "images")), device="cpu")
    original = write(tmp_path / "a" / "m")
    assert keys[-1] in (original / file).read_text()
    other = edited(original, tmp_path / "b" / "m", file, *keys, value=value)
    copy = shutil.copytree(original, tmp_path / "c" / "m")
    first, second, third = (
        load_backbone(str(folder), device="cpu", image_tower=images) for folder in (original, other, copy)
    )
    assert first.fingerprint != second.fingerprint and first.revision != second.revision
    assert (first.fingerprint, first.revision) == (third.fingerprint, third.revision)
    # The architecture alone tells them apart, whatever the files say.
    assert architecture_digest(first._text) != architecture_digest(second._text)
    assert architecture_digest(first._text) == architecture_digest(third._text)


def test_weights_named_with_their_architecture_have_a_revision_of_both(tmp_path, monkeypatch):
    """Other files beside them do not count: they may lie among anything."""
    import open_clip

    folder = write_open_clip(tmp_path / "m", "clip")
    config = json.loads((folder / CONFIG).read_text())["model_cfg"]
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "plain", config)
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "quick", config | {"quick_gelu": True})
    weights = folder / "open_clip_model.safetensors"
    plain, quick = (load_backbone(f"open_clip:{name}/{weights}", device="cpu") for name in ("plain", "quick"))
    assert plain.revision != quick.revision and plain.fingerprint != quick.fingerprint
    (folder / "notes.txt").write_text("mine")
    assert load_backbone(f"open_clip:plain/{weights}", device="cpu").revision == plain.revision


@pytest.mark.parametrize("write", [write_open_clip, write_clip])
def test_a_copy_elsewhere_is_the_same_backbone(tmp_path, write):
    original = write(tmp_path / "a" / "m")
    shutil.copytree(original, tmp_path / "b" / "m")
    first, second = (load_backbone(str(tmp_path / side / "m"), device="cpu") for side in "ab")
    assert (first.fingerprint, first.revision) == (second.fingerprint, second.revision)


def test_digests_see_what_they_should(tmp_path):
    plain = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    assert architecture_digest(plain) == architecture_digest(nn.Sequential(nn.Linear(2, 2), nn.GELU()))
    assert architecture_digest(plain) != architecture_digest(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert architecture_digest(nn.LayerNorm(2)) != architecture_digest(nn.LayerNorm(2, eps=0.1))
    assert architecture_digest(plain.train()) == architecture_digest(plain.eval())
    (tmp_path / "model.py").write_text("a = 1")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "weights.bin").write_bytes(b"1")
    before = settings_digest(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"2")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    (tmp_path / ".git" / "a").mkdir(parents=True)
    (tmp_path / ".git" / "a" / "b.json").write_text("{}")
    (tmp_path / ".cache.json").write_text("{}")
    assert settings_digest(tmp_path) == before
    (tmp_path / "model.py").write_text("a = 2")
    assert settings_digest(tmp_path) == before
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert settings_digest(tmp_path) != before


def test_convolutions_are_exact_in_float32_only(monkeypatch):
    switch = torch.backends.cudnn
    monkeypatch.setattr(switch, "is_available", lambda: True)
    monkeypatch.setattr(switch, "allow_tf32", True)
    enabled = switch.enabled
    with exact_convolutions("float32"):
        assert switch.allow_tf32 is False
        assert switch.enabled == enabled, "cuDNN itself stays on"
    assert switch.allow_tf32 is True
    with exact_convolutions("bfloat16"):
        assert switch.allow_tf32 is True
    with pytest.raises(ValueError), exact_convolutions("float32"):
        raise ValueError
    assert switch.allow_tf32 is True


@pytest.mark.parametrize("write", [write_open_clip, write_clip])
def test_images_go_through_exact_convolutions(tmp_path, write, monkeypatch):
    backbone = load_backbone(str(write(tmp_path / "m")), device="cpu")
    seen = []
    convolve = nn.Conv2d.forward
    monkeypatch.setattr(torch.backends.cudnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(
        nn.Conv2d,
        "forward",
        lambda self, x: seen.append(torch.backends.cudnn.allow_tf32) or convolve(self, x),
    )
    backbone.encode_pixels([torch.zeros(3, 32, 32)])
    assert seen == [False]


def test_the_embedded_backbone_is_the_same_each_time():
    first, second = load_embedded(device="cpu"), load_embedded(device="cpu")
    assert (first.fingerprint, first.revision) == (second.fingerprint, second.revision)


@pytest.mark.parametrize("asked", ["trust_remote_code", "nothing"])
def test_an_open_clip_tokenizer_cannot_bring_code(tmp_path, asked, monkeypatch):
    folder = write_open_clip(tmp_path / "m", "worldwide")
    if asked == "trust_remote_code":
        config = json.loads((folder / CONFIG).read_text())
        config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
        (folder / CONFIG).write_text(json.dumps(config))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["auto_map"] = {"AutoTokenizer": ["foreign.Tokenizer", "foreign.Tokenizer"]}
    settings["tokenizer_class"] = "Tokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "foreign.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w')\n"
        "from transformers import PreTrainedTokenizerFast as Tokenizer\n"
    )
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a library must not ask"))
    with pytest.raises(BackboneUnavailable):
        load_backbone(str(folder), device="cpu")
    assert not (tmp_path / "ran").exists()


def test_a_text_tower_of_open_clip_cannot_bring_code(tmp_path, monkeypatch):
    folder = write_open_clip(tmp_path / "m", "xlmr")
    plain = load_backbone(str(folder), device="cpu")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "foreign.Config", "AutoModel": "foreign.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "foreign.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a library must not ask"))
    assert load_backbone(str(folder), device="cpu").fingerprint == plain.fingerprint
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("arguments", ["model_args", "model_kwargs", "processor_kwargs", "config_args"])
def test_a_sentence_transformer_cannot_trust_itself(tmp_path, arguments, monkeypatch):
    images = load_backbone(str(write_clip(tmp_path / "images")), device="cpu")
    folder = write_sentence_transformer(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "foreign", "auto_map": {"AutoConfig": "foreign.C", "AutoModel": "foreign.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "foreign.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps({arguments: {"trust_remote_code": True}}))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a library must not ask"))
    with pytest.raises(BackboneUnavailable):
        load_backbone(str(folder), device="cpu", image_tower=images)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("revision", ["../..", "/etc", "a/../b"])
def test_a_revision_is_no_path(revision):
    for arguments in (("org/name@" + revision, None), ("org/name", revision)):
        with pytest.raises(CapscoreError):
            load_backbone(arguments[0], revision=arguments[1])


def test_a_home_that_nobody_has():
    with pytest.raises(BackboneUnavailable):
        load_backbone("~nobody-at-all/model")


def test_a_mistyped_folder_is_not_only_blamed_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(BackboneUnavailable):
        load_backbone("runs/bset")


@pytest.mark.parametrize(
    ("write", "weights"),
    [(write_open_clip, "open_clip_model.safetensors"), (write_clip, "model.safetensors")],
)
def test_weights_that_were_never_pulled(tmp_path, write, weights):
    folder = write(tmp_path / "m")
    (folder / weights).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(BackboneUnavailable):
        load_backbone(str(folder), device="cpu")
