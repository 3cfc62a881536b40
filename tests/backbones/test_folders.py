"""What digests of a checkpoint see, and folders that are made to do harm: no file outside is opened."""

import json
import os

import pytest
import torch

from capscore import load_backbone
from capscore.backbones.base import exact_convolutions, fingerprint_of, settings_digest, tensors_digest
from capscore.backbones.checkpoint import read_config, refuse_oversized
from capscore.errors import BackboneUnavailable, CapscoreError
from tools.tiny.backbones import edit_json


def test_digests_stay_as_they_are(tmp_path):
    """Caches and signatures that people keep rest on these."""
    assert fingerprint_of("embedded", 1, None, ("a", 2.5)) == "b38a66adfcdc30b89ef3ec1bb422039b"
    tensors = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor([1, 2])}
    assert tensors_digest(tensors) == "aa8a5c0124d6f959252cb2e00bfd7724"
    (tmp_path / "config.json").write_text('{"dim": 2}')
    # neither weights nor code, nor what downloads, training and scoring leave, is a setting
    left = "model.safetensors model.py model.safetensors.index.json .cache.json result.json run.json"
    left += " notes.txt scores.summary.json all_results.json trainer_state.json train/log.txt .git/b.json"
    for name in left.split():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert settings_digest(tmp_path) == "cf09ac50a0c03ec2f13ab97234a9c796"
    names = "vocab.txt vocab.json merges.txt tokenizer.json tokenizer_config.json spiece.model modules.json"
    names += " added_tokens.json preprocessor_config.json open_clip_config.json chat_template.json dict.txt"
    for name in f"config.json 1_Pooling/config.json generation_config.json {names}".split():
        before = settings_digest(tmp_path)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"dim": 3}')
        assert settings_digest(tmp_path) != before, name


@pytest.mark.parametrize(("dtype", "allowed"), [("float32", False), ("bfloat16", True)])
def test_convolutions_are_exact_in_float32_only_and_within_the_block(monkeypatch, dtype, allowed):
    switch = torch.backends.cudnn
    monkeypatch.setattr(switch, "is_available", lambda: True)
    monkeypatch.setattr(switch, "allow_tf32", True)
    enabled = switch.enabled
    with pytest.raises(ValueError), exact_convolutions(dtype):
        assert switch.allow_tf32 is allowed and switch.enabled == enabled, "cuDNN itself stays on"
        raise ValueError
    assert switch.allow_tf32 is True


SIZES = ("hidden_size", "num_hidden_layers", "width", "layers", "embed_dim", "context_length")


@pytest.mark.parametrize("kind", ["open_clip clip", "m-clip", "student"])
@pytest.mark.parametrize("value", [10**12, -1, "many", [1]], ids=str)
def test_a_size_that_no_weights_fill_is_refused(kind, value, checkpoints, tmp_path):
    folder = checkpoints(kind).copied(tmp_path)
    for path in folder.glob("*config.json"):
        whole = path.read_text()
        for keys in paths_of(json.loads(whole)):
            edit_json(path, *keys, value=value)
            with pytest.raises(CapscoreError):
                checkpoints(kind).load(folder)
            path.write_text(whole)


def paths_of(node, path=()):
    for name, inner in node.items():
        if isinstance(inner, dict):
            yield from paths_of(inner, (*path, name))
        elif name in SIZES and isinstance(inner, int):
            yield (*path, name)


def test_a_network_larger_than_its_weights_is_never_made(tmp_path):
    for config in ({"a": [{"num_hidden_layers": 100_000}]}, {"hidden_size": 10**10}):
        with pytest.raises(BackboneUnavailable, match="are too few for"):
            refuse_oversized(tmp_path, config, 10**9)
    refuse_oversized(tmp_path, {"hidden_size": 10, "vocab_size": 10}, 1_000)


def test_json_files_have_a_size(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSCORE_MAX_CONFIG_BYTES", "100")
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"a": "x" * 92}))
    with pytest.raises(BackboneUnavailable, match="CAPSCORE_MAX_CONFIG_BYTES"):
        read_config(path)
    path.write_text(json.dumps({"a": "x" * 91}))
    assert read_config(path)


def test_other_kinds_of_files_are_no_folder_of_a_backbone(tmp_path):
    os.mkfifo(tmp_path / "config.json")  # could wait for ever
    with pytest.raises(CapscoreError):
        load_backbone(tmp_path)
