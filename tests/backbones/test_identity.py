"""Fingerprint and revision: other settings make another backbone; a copy elsewhere is the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from torch import nn

from capscore import BackboneUnavailable, CapscoreError, load_backbone
from capscore.backbones.base import architecture_digest, settings_digest
from capscore.backbones.embedded import load_embedded

from .tiny_open_clip import write_open_clip
from .tiny_transformers import write_clip


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
    before, with_code = settings_digest(tmp_path), settings_digest(tmp_path, code=True)
    (tmp_path / "weights.bin").write_bytes(b"2")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    assert settings_digest(tmp_path) == before
    (tmp_path / "model.py").write_text("a = 2")
    assert settings_digest(tmp_path) == before and settings_digest(tmp_path, code=True) != with_code
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert settings_digest(tmp_path) != before


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
    with pytest.raises(BackboneUnavailable, match=r"trust_remote_code|tokenizer"):
        load_backbone(str(folder), device="cpu")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("revision", ["../..", "/etc", "a/../b"])
def test_a_revision_is_no_path(revision):
    for arguments in (("org/name@" + revision, None), ("org/name", revision)):
        with pytest.raises(CapscoreError, match=r"revision=.*expected a commit, branch or tag"):
            load_backbone(arguments[0], revision=arguments[1])


def test_a_home_that_nobody_has():
    with pytest.raises(BackboneUnavailable, match="~nobody-at-all/model"):
        load_backbone("~nobody-at-all/model")
