"""What the studies share: shares over photos with the bootstrap drawn a second time, ranks, examples."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from capscore.benchmarks.protocols.recall import retrieval as protocol
from capscore.benchmarks.tasks import TaskOptions
from tests.toy import ColourBackbone
from weights.measuring import retrieval
from weights.measuring.figures import Share, ratio_of_shares, share_of_sums
from weights.measuring.retrieval import Ranked, ranks, recall

FOUND = np.array([2.0, 0.0, 5.0, 1.0, 3.0])
ALL = np.array([5.0, 5.0, 5.0, 1.0, 4.0])
OTHER = np.array([1.0, 2.0, 4.0, 1.0, 2.0])


def draws(n_units, n_samples=1000, seed=0):
    """The photos of every sample, as numbers."""
    return np.random.default_rng(seed).integers(0, n_units, size=(n_samples, n_units))


def test_a_share_is_of_all_captions_and_its_interval_draws_whole_photos():
    found = share_of_sums(FOUND, ALL, TaskOptions())
    assert found.value == pytest.approx(11 / 20)
    samples = [FOUND[drawn].sum() / ALL[drawn].sum() for drawn in draws(5)]
    assert found.interval == pytest.approx(tuple(np.quantile(samples, [0.025, 0.975])))


def test_a_ratio_uses_the_same_photos_above_and_below():
    found = ratio_of_shares((OTHER, ALL), (FOUND, ALL), TaskOptions(bootstrap=200, seed=3, confidence=0.8))
    assert found.value == pytest.approx(10 / 11)
    samples = [OTHER[drawn].sum() / FOUND[drawn].sum() for drawn in draws(5, 200, 3) if FOUND[drawn].sum()]
    assert found.interval == pytest.approx(tuple(np.quantile(samples, [0.1, 0.9])))


def test_what_is_undefined_has_no_number_and_without_draws_there_is_no_interval():
    nothing = np.zeros(3)
    assert share_of_sums(nothing, nothing, TaskOptions()) == Share(None)
    assert ratio_of_shares((FOUND, ALL), (0 * FOUND, ALL), TaskOptions()) == Share(None)
    assert share_of_sums(FOUND, ALL, TaskOptions(bootstrap=0)) == Share(pytest.approx(0.55))
    assert (Share(None).in_percent, Share(0.55).in_percent) == ("–", "55.0")


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_recall_is_the_benchmark_protocol_s(monkeypatch):
    rng = np.random.default_rng(7)
    photos = unit(rng.normal(size=(12, 4)))
    photos[5] = photos[3]  # a tie counts against the caption
    own = rng.integers(0, 12, 40)
    texts = unit(photos[own] + rng.normal(size=(40, 4)))
    expected = protocol(image_embeddings=photos, text_embeddings=texts, text_to_image=own)
    monkeypatch.setattr(retrieval, "_CAPTIONS", 7)
    ranked = Ranked(ranks(texts, photos, own), own, len(photos))
    for k in (1, 5, 10):
        found = recall(ranked, k, TaskOptions(bootstrap=0))
        assert found.value == pytest.approx(expected.value(f"text_to_image_r@{k}"), abs=1e-9)


def test_captions_are_counted_by_photo():
    ranked = Ranked(np.array([1, 6, 2, 1]), np.array([4, 4, 0, 2]), 9)
    assert ranked.photos.tolist() == [0, 2, 4]
    found, captions = ranked.counts(5)
    assert (found.tolist(), captions.tolist()) == ([1, 1, 1], [1, 1, 2])
    some = ranked.of(np.array([4, 2]))
    assert (some.rank.tolist(), some.own.tolist(), some.n_photos) == ([1, 6, 1], [4, 4, 2], 9)


def test_the_command_ranks_the_photos_that_have_captions(tmp_path, monkeypatch, capsys):
    (tmp_path / "images").mkdir()
    for name, colour in {"a.png": "red", "b.png": "lime", "c.png": "blue"}.items():
        Image.new("RGB", (4, 4), colour).save(tmp_path / "images" / name)
    captions = {
        "a.png": {"en": ["red", "green"], "de": ["red"], "split": "test"},
        "b.png": {"en": ["green"], "de": ["green"]},
        "c.png": {"en": ["blue", "green"]},
        "gone.png": {"en": ["red"]},
    }
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    monkeypatch.setattr("capscore.load_backbone", lambda name: ColourBackbone())
    retrieval.main(["--images", str(tmp_path / "images"), "--captions", str(tmp_path / "captions.json")])
    first, _, _, *lines = capsys.readouterr().out.replace("|", "").splitlines()
    assert first == "3 photos, backbone colours@w00000000"
    # two of the five English captions name the colour of another photo
    assert [line.split()[:3] for line in lines] == [["en", "5", "60.0"], ["de", "2", "100.0"]]
    assert lines[1].split()[-5:] == ["50", "/", "250", "/", "500"]
