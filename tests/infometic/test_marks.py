"""Marks of rows: each word, caption and region for itself, whatever else is in the call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from capscore.infometic.mark_calibration import SHARED, MarkCurve, PhotoBatch
from capscore.infometic.marks import MarkedRow, PhotoFeatures, mark_rows
from capscore.infometic.words import CaptionWord
from tests.infometic.tiny_marks import EVEN, SIZES, tiny_marks

TEXTS = ("dog", "runs", "red", "two", "the")
CLASSES = ("noun", "verb", "adjective", "number", "other")


def said(own):
    """The caption of some words."""
    return " ".join(word.text for word in own)


def embed(texts):
    """A text's row depends on the text alone."""
    rows = [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
    return np.array([row / np.linalg.norm(row) for row in rows], np.float32)


def _unit(chance, *shape):
    rows = chance.normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def words(*numbers):
    """Some of the words, one after the other."""
    found, start = [], 0
    for number in numbers:
        text = TEXTS[number]
        found.append(CaptionWord(text, start, start + len(text), number < 4, CLASSES[number]))
        start += len(text) + 1
    return found


@pytest.fixture(scope="module")
def rows():
    chance = np.random.default_rng(0)
    features = [
        PhotoFeatures(
            chance.normal(size=(6, SIZES.reduced)).astype(np.float16), _unit(chance, n, 8).astype(np.float16)
        )
        for n in (5, 3)
    ]
    photos = _unit(chance, 2, 8)
    return [
        MarkedRow(
            features[photo], photos[photo], embed([said(words(*own))])[0], said(words(*own)), words(*own),
            language, _unit(chance, k, 8),
            chance.random((k, 4)),
        )
        for photo, own, language, k in (
            (0, (0, 1, 2), "en", 4), (1, (0,), "de", 1), (0, (4, 3), "en", 0), (1, (), "", 2),
            (0, (2, 2, 0, 1), "ja", 3),
        )
    ]  # fmt: skip


def same(first, second):
    assert (first.fits, first.correct, first.region) == (second.fits, second.correct, second.region)
    assert first.p_fits == pytest.approx(second.p_fits, abs=1e-6)
    for one, other in zip(first.p_correct, second.p_correct, strict=True):
        assert one == (None if other is None else pytest.approx(other, abs=1e-6))
    assert first.p_mentioned == pytest.approx(second.p_mentioned, abs=1e-6)


def test_rows_do_not_depend_on_each_other(rows):
    loaded = tiny_marks()
    together = mark_rows(loaded, rows, embed, 0.05)
    for row, found in zip(rows, together, strict=True):
        same(mark_rows(loaded, [row], embed, 0.05)[0], found)
    backwards = mark_rows(loaded, rows[::-1], embed, 0.05)
    for first, second in zip(together, backwards[::-1], strict=True):
        same(first, second)


def test_the_probability_is_that_of_the_network(rows):
    """The second way: one caption, one photo, step by step without the batches."""
    loaded, row = tiny_marks(), rows[0]
    seen = PhotoBatch(
        torch.from_numpy(row.features.cells.astype(np.float32))[None],
        torch.from_numpy(row.photo)[None],
        torch.from_numpy(row.features.windows.astype(np.float32))[None],
        torch.ones(1, 5, dtype=torch.bool),
    )
    classes, there = torch.tensor([[0, 1, 2]]), torch.ones(1, 3, dtype=torch.bool)
    alone = torch.stack(
        [
            loaded.network.word_logits(seen, torch.from_numpy(embed([text]))[None], torch.tensor([[number]]))[
                0, 0
            ]
            for number, text in enumerate(TEXTS[:3])
        ]
    )[None]
    words = torch.from_numpy(embed(TEXTS[:3]))[None]
    rest = torch.from_numpy(embed(["runs red", "dog red", "dog runs"]))[None]
    texts = torch.from_numpy(embed(["dog runs red"]))
    highest = loaded.network.best_window_logits(seen, words)
    logits = loaded.network.in_caption_logits(
        loaded.network.word_features(seen, texts, rest, alone, there, classes, highest)
    )
    (found,) = mark_rows(loaded, [row], embed, 0.05)
    expected = (1 / (1 + np.exp(-logits[0].numpy()))).tolist()
    assert found.p_correct == pytest.approx(expected, abs=1e-6)
    fit = loaded.network.fit_logits(loaded.network.fit_features(seen, texts, alone, there))
    assert found.p_fits == pytest.approx(1 / (1 + np.exp(-fit.item())), abs=1e-6)


def test_what_is_not_judged_has_no_probability(rows):
    found = mark_rows(tiny_marks(), rows, embed, 0.05)[2]
    assert found.p_correct == [None, None]  # "the" is not semantic, and numbers have no curve
    assert found.correct == [None, None]


def test_a_class_that_is_hardly_found_is_never_marked(rows):
    found = mark_rows(tiny_marks(found=0.1), rows, embed, 0.5)
    assert {one for row in found for one in row.correct} == {None}
    assert any(p is not None for row in found for p in row.p_correct)


def test_words_of_a_caption_that_does_not_fit_are_not_judged_one_by_one(rows):
    loaded = tiny_marks()
    never = MarkCurve(1.0, -40.0, (0.5,) * 101, 0.9)
    loaded.fits, loaded.mentions = {SHARED: never}, never
    for found, row in zip(mark_rows(loaded, rows, embed, 0.05), rows, strict=True):
        assert not found.fits and found.p_fits < 1e-6
        assert found.correct == [None] * len(row.words) == found.region
        assert not any(found.mentioned)


def test_a_word_that_is_likely_wrong_lies_in_no_region(rows):
    loaded = tiny_marks()
    wrong = MarkCurve(1.0, -40.0, EVEN, 0.9)
    right = MarkCurve(1.0, 40.0, EVEN, 0.9)
    loaded.words, loaded.fits = {SHARED: {"noun": wrong, "verb": right}}, {SHARED: right}
    found = mark_rows(loaded, rows[:1], embed, 0.05)[0]
    assert found.correct == [False, True, None]
    assert found.region[0] is None and found.region[1] in range(4) and found.region[2] is None


def test_the_region_of_a_word_is_the_one_that_it_names(rows):
    row = replace(
        rows[0],
        regions=np.stack([*_unit(np.random.default_rng(5), 2, 8), embed(["runs"])[0]]),
        shares=np.zeros((3, 4)),
    )
    loaded = tiny_marks()
    loaded.network.named_word.weight.data.zero_()  # then cosines decide
    right = MarkCurve(1.0, 40.0, EVEN, 0.9)
    loaded.words, loaded.fits = {SHARED: {"verb": right}}, {SHARED: right}
    assert mark_rows(loaded, [row], embed, 0.05)[0].region[1] == 2


def test_no_rows():
    assert mark_rows(tiny_marks(), [], embed, 0.05) == []
