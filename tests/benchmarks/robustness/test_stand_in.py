"""Which tower embeds texts that stand for photos, and agreement with ratings by them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import kendalltau

import capscore
from capscore.backbones import find
from capscore.benchmarks.robustness.stand_in import plain_backbone, stand_in_agreement
from capscore.benchmarks.tasks import TaskOptions
from capscore.errors import BackboneUnavailable, CapscoreError

from ...datasets_scripts.conftest import official
from ..test_run import rated

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


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


def test_agreement_by_references_that_stand_for_photos(tmp_path, scorer, plain):
    captions, ratings = rated(tmp_path)
    run = stand_in_agreement(
        "flickr8k_human",
        "expert",
        {"mcs": scorer},
        {"mcs": plain},
        data_dir=tmp_path,
        options=TaskOptions(bootstrap=0),
    )
    tower = scorer.backbone
    pairs = [(captions[f"{row + 4}.jpg#2"], captions[f"{row % 4}.jpg#0"]) for row in range(12)]
    cosines = [float(np.dot(*tower.encode_texts(pair))) for pair in pairs]
    expected = kendalltau(np.repeat(np.round(cosines, 6), 3), np.ravel(ratings), variant="c").statistic
    (result,) = run.results
    assert result.scores == pytest.approx(2.5 * np.array(cosines), abs=1e-6)
    assert result.outcome.statistics[0].value == pytest.approx(expected, abs=0.02)
    assert "|images:stand-in,colours@w00000000" in result.signature
    assert any("its first reference" in note for note in run.notes)
    assert result.published["tau_c"] == []


def test_what_has_no_references_cannot_do_without_photos(tmp_path, scorer, plain):
    official("xvnli").write(tmp_path)
    with pytest.raises(CapscoreError, match="captions have no reference to stand for"):
        stand_in_agreement("xvnli", "fr", {"mcs": scorer}, {"mcs": plain}, data_dir=tmp_path)
    official("xflickrco").write(tmp_path / "captions")
    with pytest.raises(CapscoreError, match="has no ratings to agree with"):
        stand_in_agreement("xflickrco", "de", {"mcs": scorer}, {"mcs": plain}, data_dir=tmp_path / "captions")


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
