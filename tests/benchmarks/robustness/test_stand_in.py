"""Which tower embeds texts that stand for photos."""

from __future__ import annotations

import json

import numpy as np
import pytest

import capscore
from capscore.backbones import find
from capscore.benchmarks.robustness.run import plain_backbone
from capscore.errors import BackboneUnavailable, CapscoreError


def tuned(folder, base):
    folder.mkdir(parents=True)
    (folder / "capscore_tuned.json").write_text(json.dumps({"base": base}))
    return folder


def test_the_plain_backbone_is_what_all_tuning_began_with(tmp_path):
    first = tuned(tmp_path / "first", "embedded")
    second = tuned(tmp_path / "second", "../first")
    assert [plain_backbone(str(folder)) for folder in (first, second)] == ["embedded", "embedded"]
    assert plain_backbone("embedded-pr-mcs") == find("embedded-pr-mcs").base
    (tmp_path / "plain").mkdir()
    assert plain_backbone(str(tmp_path / "plain")) == str(tmp_path / "plain")
    assert plain_backbone("some/model@main") == "some/model@main"


def test_a_tuned_backbone_of_the_hub_is_found_where_it_was_downloaded_to(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    model = tmp_path / "models--some--model"
    commit = "abcd" * 10
    tuned(model / "snapshots" / commit, "embedded")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commit)
    assert plain_backbone("some/model") == plain_backbone(f"some/model@{commit}") == "embedded"


def test_a_torn_marker_is_told(tmp_path):
    (tuned(tmp_path / "torn", "x") / "capscore_tuned.json").write_text("{")
    with pytest.raises(BackboneUnavailable, match="cannot be read: Expecting property name"):
        plain_backbone(str(tmp_path / "torn"))


def test_towers_of_another_size_are_refused(captions, plain):
    from capscore.benchmarks.robustness import RobustnessOptions, run_robustness

    from ...toy import ColourBackbone

    class Wide(ColourBackbone):
        dim = 4

        def encode_tokens(self, ids):
            return np.eye(4, dtype=np.float32)[np.zeros(len(ids), dtype=int)]

    wide = capscore.load("mcs", backbone=Wide(fingerprint="wide"), cache=False)
    given = captions.__class__(**{**vars(captions), "stand_ins": ["red"] * 4})
    with pytest.raises(CapscoreError, match="embeddings of 4 numbers, and colours, which embeds the texts"):
        run_robustness(given, {"mcs": wide}, RobustnessOptions(), plain_embedders={"mcs": plain})
