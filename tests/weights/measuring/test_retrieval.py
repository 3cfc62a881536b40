"""Ranks of photos for captions, against the benchmark's protocol and by hand; the command's table."""

from __future__ import annotations

import doctest
import json

import numpy as np
import pytest
from PIL import Image

from capscore.benchmarks.protocols.recall import retrieval as protocol
from capscore.benchmarks.tasks import TaskOptions
from tests.toy import ColourBackbone
from weights.measuring import retrieval
from weights.measuring.retrieval import Ranked, main, ranks, recall


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_docstrings():
    result = doctest.testmod(retrieval)
    assert result.attempted and not result.failed


def test_recall_is_the_protocol_s(monkeypatch):
    rng = np.random.default_rng(7)
    photos = unit(rng.normal(size=(12, 4))).astype(np.float32)
    photos[5] = photos[3]  # a tie counts against the caption
    own = rng.integers(0, 12, 40)
    texts = unit(photos[own] + rng.normal(size=(40, 4))).astype(np.float32)
    expected = protocol(image_embeddings=photos, text_embeddings=texts, text_to_image=own)
    monkeypatch.setattr(retrieval, "_CAPTIONS", 7)
    ranked = Ranked(ranks(texts, photos, own), own, len(photos))
    for k in (1, 5, 10):
        found = recall(ranked, k, TaskOptions(bootstrap=0))
        assert found.value == pytest.approx(expected.value(f"text_to_image_r@{k}"), abs=1e-9)


def test_counts_are_per_photo_with_a_caption():
    ranked = Ranked(np.array([1, 6, 2, 1]), np.array([4, 4, 0, 2]), 9)
    assert ranked.photos.tolist() == [0, 2, 4]
    found, captions = ranked.counts(5)
    assert (found.tolist(), captions.tolist()) == ([1, 1, 1], [1, 1, 2])
    some = ranked.of(np.array([4, 2]))
    assert (some.rank.tolist(), some.own.tolist(), some.n_photos) == ([1, 6, 1], [4, 4, 2], 9)


def test_the_command_ranks_the_photos_that_have_captions(tmp_path, monkeypatch, capsys):
    (tmp_path / "images").mkdir()
    for name, colour in {"a.png": (255, 0, 0), "b.png": (0, 255, 0), "c.png": (0, 0, 255)}.items():
        Image.new("RGB", (4, 4), colour).save(tmp_path / "images" / name)
    captions = {
        "a.png": {"en": ["red", "green"], "de": ["red"], "split": "test"},
        "b.png": {"en": ["green"], "de": ["green"]},
        "c.png": {"en": ["blue", "green"]},
        "gone.png": {"en": ["red"]},
    }
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    monkeypatch.setattr("capscore.load_backbone", lambda name: ColourBackbone())
    main(["--images", str(tmp_path / "images"), "--captions", str(tmp_path / "captions.json")])
    first, _, _, *lines = capsys.readouterr().out.replace("|", "").splitlines()
    assert first == "3 photos, backbone colours@w00000000"
    # two of the five English captions name the colour of another photo
    assert [line.split()[:3] for line in lines] == [["en", "5", "60.0"], ["de", "2", "100.0"]]
    assert lines[1].split()[-5:] == ["50", "/", "250", "/", "500"]
