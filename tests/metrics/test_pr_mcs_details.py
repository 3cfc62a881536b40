"""Details of PR-MCS: what a caption keeps, and what was found in it; in memory, in shards, in streams."""

from __future__ import annotations

import pytest

import capscore
from capscore.metrics.base import PreparedRows

from ..toy import BLUE, GREEN, RED, ColourBackbone, JudgingColours

CAPTIONS = ["red", "red red red red", "blue green blue"]
# tokens that differ among all, start and end among them: 3 / 3, 3 / 6, 4 / 5
EXPECTED = [
    {"kept": 1.0, "lost": 0.0, "kind": "none", "p_kind": 1.0},
    {"kept": 0.5, "lost": 0.5, "kind": "none", "p_kind": 0.5},
    {"kept": 0.8, "lost": 0.2, "kind": "none", "p_kind": 0.8},
]
PHOTOS = [RED, GREEN, BLUE]


@pytest.fixture
def scorer():
    return capscore.load("pr_mcs", backbone=JudgingColours(), cache=False)


def assert_details(found, expected):
    for told, wanted in zip(found, expected, strict=True):
        assert told == (wanted and {name: pytest.approx(value, abs=1e-6) for name, value in wanted.items()})


def test_each_caption_has_its_details(scorer):
    scores = scorer.score(CAPTIONS, PHOTOS)
    assert_details(scores.details, EXPECTED)
    told = scores.to_dict()
    assert told["kind"] == ["none"] * 3 and told["kept"] == pytest.approx([1.0, 0.5, 0.8])
    assert "kept" not in scores.to_dict(per_row=False)
    assert scores.detail_names == ("kept", "lost", "kind", "p_kind")


def test_the_most_likely_kind_is_named():
    backbone = JudgingColours()
    backbone.max_tokens = 20
    (told,) = capscore.load("pr_mcs", backbone=backbone, cache=False).score(["red " * 10], [RED]).details
    assert told["kind"] == "repetition" and told["p_kind"] == pytest.approx(0.75)


def test_rows_without_a_score_have_none():
    scorer = capscore.load("pr_mcs", backbone=JudgingColours(), cache=False, empty="skip")
    scores = scorer.score(["red", " ", "red red red red", 3], [RED, RED, b"no photo", RED], on_error="skip")
    assert_details(scores.details, [EXPECTED[0], None, None, None])
    assert scores.to_dict()["kept"] == [1.0, None, None, None]


def test_a_backbone_without_a_gate_gives_none():
    backbone = ColourBackbone()
    backbone.recipe = "pr_mcs"
    scores = capscore.load("pr_mcs", backbone=backbone, cache=False).score(CAPTIONS, PHOTOS)
    assert scores.details is None
    assert scores.to_dict()["kind"] == [None] * 3


def test_other_metrics_have_none():
    scores = capscore.load("mcs", backbone=JudgingColours(), cache=False).score(CAPTIONS, PHOTOS)
    assert scores.details is None and "kept" not in scores.to_dict()


def test_rows_that_come_in_pieces_keep_them(scorer):
    parts = [scorer.prepare([text], [photo]) for text, photo in zip(CAPTIONS, PHOTOS, strict=True)]
    assert_details(scorer.finish(PreparedRows.concatenate(parts)).details, EXPECTED)


def test_a_stream_has_them_as_columns(scorer):
    rows = [{"image": photo, "caption": text} for text, photo in zip(CAPTIONS, PHOTOS, strict=True)]
    scored = list(capscore.score_stream(rows, scorer, batch_rows=2))
    assert_details([{name: row[name] for name in EXPECTED[0]} for row in scored], EXPECTED)
