"""The study of rated weights: its table, its translations, and its numbers computed a second way."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kendalltau

from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from tests.toy import ColourBackbone
from weights.measuring import rated_weights
from weights.measuring.rated_weights import Line, RatedCaptions, in_languages, markdown, measure_ratings


class RedBlind(ColourBackbone):
    """Sees green and blue alone."""

    name, revision = "red-blind", "w00000001"

    def encode_pixels(self, pixels):
        rows = super().encode_pixels(pixels)
        rows[:, 0] = 0.1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def rated(tmp_path) -> RatedCaptions:
    images, captions, ratings = [], [], []
    for number, colour in enumerate([(240, 20, 20), (30, 230, 25), (10, 30, 220), (200, 100, 15)]):
        path = tmp_path / f"{number}.png"
        Image.new("RGB", (6, 6), colour).save(path)
        for text, rating in (("red", colour[0]), ("green", colour[1]), ("blue", colour[2])):
            images.append(path)
            captions.append(text)
            ratings.append([rating // 60, rating // 50])
    return RatedCaptions("Toy", images, captions, ratings, "en", ("tau_c", "tau_b"), "flatten")


def test_lines_are_before_after_and_the_difference(rated):
    backbones = ColourBackbone(fingerprint="a"), RedBlind(fingerprint="b")
    lines = measure_ratings(rated, [Embedder(own) for own in backbones], TaskOptions(bootstrap=200))
    assert [line.title for line in lines] == ["Toy, τ_c", "Toy, τ_b"] and lines[0].n == 12
    flat = [rating for pair in rated.ratings for rating in pair]
    for line, variant in zip(lines, "cb", strict=True):
        found = []
        for backbone, value in zip(backbones, (line.before, line.after), strict=True):
            photos = backbone.encode_images([Image.open(path) for path in rated.images])
            scores = (photos * backbone.encode_texts(rated.captions)).sum(axis=1)
            expected = kendalltau(np.repeat(scores, 2), flat, variant=variant).statistic
            assert value.value == pytest.approx(expected, abs=1e-8)
            assert value.interval[0] <= value.value <= value.interval[1]
            found.append(expected)
        assert line.difference.value == pytest.approx(found[1] - found[0], abs=1e-8)
        assert line.difference.value < 0


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


def test_what_is_missing_says_why():
    base = ColourBackbone()
    table = markdown([Line("VICR", missing="no photos")], base, base)
    assert "| VICR — not measured: no photos |" in table


def test_examples():
    assert doctest.testmod(rated_weights).failed == 0
