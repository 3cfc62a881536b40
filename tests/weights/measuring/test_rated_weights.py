"""The study of rated weights: its translations, its table, and its numbers computed a second way."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kendalltau

from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from tests.toy import ColourBackbone
from weights.measuring import rated_weights as study
from weights.measuring.rated_weights import RatedCaptions, in_languages, measure_ratings, measure_search


class RedBlind(ColourBackbone):
    """Sees green and blue alone."""

    name, revision, rated_from = "red-blind", "w00000001", "red"

    def encode_pixels(self, pixels):
        rows = super().encode_pixels(pixels)
        rows[:, 0] = 0.1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


BACKBONES = ColourBackbone(fingerprint="a"), RedBlind(fingerprint="b")
COLOURS = [(240, 20, 20), (30, 230, 25), (10, 30, 220), (200, 100, 15)]


@pytest.fixture
def rated(tmp_path) -> RatedCaptions:
    images, captions, ratings = [], [], []
    (tmp_path / "flickr8k").mkdir()
    for number, colour in enumerate(COLOURS):
        path = tmp_path / "flickr8k" / f"{number}.jpg"
        Image.new("RGB", (6, 6), colour).save(path, "PNG")
        for text, rating in zip(("red", "green", "blue"), colour, strict=True):
            images.append(path)
            captions.append(text)
            ratings.append([rating // 60, rating // 50])
    return RatedCaptions("Toy", images, captions, ratings, "en", ("tau_c", "tau_b"), "flatten")


def test_lines_are_before_after_and_the_difference(rated):
    embedders = [Embedder(backbone, cache=None) for backbone in BACKBONES]
    lines = measure_ratings(rated, embedders, TaskOptions(bootstrap=200))
    assert [line.title for line in lines] == ["Toy, τ_c", "Toy, τ_b"] and lines[0].n == 12
    flat = [rating for pair in rated.ratings for rating in pair]
    for line, variant in zip(lines, "cb", strict=True):
        found = []
        for backbone, value in zip(BACKBONES, (line.before, line.after), strict=True):
            photos = backbone.encode_images([Image.open(path) for path in rated.images])
            scores = (photos * backbone.encode_texts(rated.captions)).sum(axis=1)
            found.append(kendalltau(np.repeat(scores, 2), flat, variant=variant).statistic)
            assert value.value == pytest.approx(found[-1], abs=1e-8)
            assert value.interval[0] <= value.value <= value.interval[1]
        assert line.difference.value == pytest.approx(found[1] - found[0], abs=1e-8) and found[1] < found[0]


def test_captions_are_translated_where_somebody_translated_them(rated):
    texts = {"zh": {"red": "红", "blue": "蓝"}, "de": {"red": "Rot!"}, "fr": {}}
    parts = in_languages(rated, texts)
    assert [(part.title, part.language, len(part.captions)) for part in parts] == [
        ("Toy", "en", 12),
        ("Toy, zh", "zh", 8),
        ("Toy, en of Multi30k's", "en", 4),
        ("Toy, de", "de", 4),
    ]
    assert parts[1].captions[:2] == ["红", "蓝"] and parts[3].captions == ["Rot!"] * 4
    assert parts[2].captions == ["red"] * 4 and parts[2].ratings == rated.ratings[::3]


def test_search_is_among_the_held_out_photos_before_and_after(rated, tmp_path):
    tokens = "0.jpg#0\tred red green\n1.jpg#0\tgreen\n2.jpg#0\tblue\n3.jpg#0\tgreen green red\n"
    (tmp_path / "flickr8k" / "Flickr8k.token.txt").write_text(tokens)
    embedders = [Embedder(backbone, cache=None) for backbone in BACKBONES]
    texts = {"zh": {}, "de": {"blue": "blue"}}
    lines = measure_search(
        tmp_path, tmp_path, frozenset([0, 2, 3]), texts, embedders, TaskOptions(bootstrap=50)
    )
    first, _, missing, german, _ = lines
    assert first.title == "search among 3 photos, en, R@1" and first.n == 3
    values = (first.before.value, first.after.value, first.difference.value)
    assert values == pytest.approx((2 / 3, 1, 1 / 3))  # the first of them is more like the last photo
    assert missing.missing and german.n == 1 and german.after.value == 1


def test_the_command_writes_what_is_there_and_why_the_rest_is_not(rated, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "rated_split", lambda folder: SimpleNamespace(held_out=frozenset([0])))
    monkeypatch.setattr(study, "translations", lambda data, packages: {"de": {"red": "rot"}})
    monkeypatch.setattr(study, "flickr8k_ratings", lambda data, photos, held_out: [rated])
    monkeypatch.setattr(study, "resolve_cache", lambda cache: None)
    monkeypatch.setattr("capscore.load_backbone", lambda name: BACKBONES[name == "after"])
    files = [tmp_path / "out.json", tmp_path / "out.md"]
    folders = ["--data", str(tmp_path), "--photos", str(tmp_path), "--base", "before", "--rated", "after"]
    study.main([*folders, "--output", str(files[0]), "--markdown", str(files[1])])
    found, table = json.loads(files[0].read_text()), files[1].read_text()
    measured = [line["title"] for line in found["lines"] if not line["missing"]]
    assert measured == [
        f"Toy{part}, {sign}" for part in ("", ", en of Multi30k's", ", de") for sign in ("τ_c", "τ_b")
    ]
    assert {line["title"] for line in found["lines"] if line["missing"]} == {"VICR", "search", "VALSE"}
    assert "| Toy, τ_c | 12 | " in table and "| VICR — not measured: " in table
    assert "`colours@w00000000`" in table and found["rated"] == "red"
