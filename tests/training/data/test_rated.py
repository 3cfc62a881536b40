"""Batches of rated captions and of images with captions, and the two in turn."""

from collections import Counter

import numpy as np
import pytest

from capscore.errors import CapscoreError, InputError
from training.data.batches import AlternatingBatches, kinds_of
from training.data.rated import ContrastiveBatches, FilePart, PearsonBatches, PearsonRow, ShownRow
from training.data.rows import Row


def rated(pictures, ratings) -> FilePart:
    return FilePart("rated.jsonl", pictures, pictures, [Row("a", "en", rating=rating) for rating in ratings])


def pearson(ratings, batch_size=4, seed=0) -> PearsonBatches:
    return PearsonBatches([rated(range(len(ratings)), ratings)], batch_size=batch_size, seed=seed)


@pytest.mark.parametrize("n", [2, 5, 23])
def test_every_batch_has_two_ratings_or_more_even_if_one_row_alone_differs(n):
    ratings = [1.0] * (n - 1) + [5.0]
    batches = pearson(ratings)
    for epoch in range(5):
        for step in range(batches.steps_per_epoch):
            rows = batches.batch(epoch, step)
            assert len(rows) >= 2 and len({row.rating for row in rows}) == 2
            assert rows == batches.batch(epoch, step)  # a pure function


def test_ratings_are_scaled_and_files_are_not_mixed():
    parts = [rated([0, 1, 2], [0.0, 0.5, 1.0]), rated([3, 4, 5, 6], [1.0, 2.0, 4.0, 5.0])]
    batches = PearsonBatches(parts, batch_size=2, seed=0)
    seen = Counter()
    for step in range(batches.steps_per_epoch):
        rows = batches.batch(0, step)
        assert len({row.picture >= 3 for row in rows}) == 1
        seen.update(row.picture for row in rows)
    assert sorted(seen) == list(range(7))
    ratings = {row.picture: row.rating for step in range(3) for row in batches.batch(0, step)}
    first = [ratings[number] for number in range(3)]
    assert np.mean(first) == pytest.approx(0) and np.std(first) == pytest.approx(1)


def test_each_epoch_has_a_new_order_of_files_and_draws_afresh_the_row_that_breaks_a_tie():
    files = PearsonBatches([rated([file, file], [0.0, 1.0]) for file in range(5)], batch_size=2, seed=0)
    assert len({tuple(files.batch(epoch, step)[0].picture for step in range(5)) for epoch in range(9)}) > 5
    tied, drawn = pearson([0.0] * 3 + [1.0, 2.0, 3.0], batch_size=3), set()
    for epoch in range(200):
        seen = Counter(row.picture for step in (0, 1) for row in tied.batch(epoch, step))
        drawn.update(picture for picture, times in seen.items() if times > 1)
    assert drawn == {3, 4, 5}


def test_ratings_that_do_not_differ():
    for ratings in ([3.0, 3.0], [3.0], []):
        with pytest.raises(InputError, match=f"the {len(ratings)} training rows of rated.jsonl .*can be"):
            pearson(ratings)
    with pytest.raises(CapscoreError, match="batch_size=1: nothing is learned from a row alone"):
        pearson([1.0, 2.0], batch_size=1)


def test_a_contrastive_batch_has_each_image_once_and_draws_languages_evenly():
    parts = []
    for photo in range(6):  # two pictures of each
        rows = [*(Row(f"en {photo} {number}", "en") for number in range(8)), Row(f"de {photo}", "de")]
        parts.append(FilePart("a", [photo] * 4 + [photo + 6] * 5, [photo] * 9, rows))
    batches = ContrastiveBatches(parts, batch_size=3, seed=0)
    drawn = Counter()
    for epoch in range(200):
        rows = [row for step in range(2) for row in batches.batch(epoch, step)]
        assert sorted(row.picture % 6 for row in rows) == list(range(6))
        for row in rows:
            language, photo, *number = row.caption.split()
            assert row.picture == int(photo) + 6 * (language == "de" or int(number[0]) > 3)
        drawn.update(row.caption[:2] for row in rows)
    assert drawn["de"] / 1200 == pytest.approx(0.5, abs=0.05)


def test_a_step_has_one_batch_of_each_kind_never_mixed():
    shown = ContrastiveBatches([rated(range(4), [0.0] * 4)], batch_size=2, seed=0)
    both = AlternatingBatches([shown, pearson([float(row) for row in range(10)], batch_size=2)])
    assert (shown.steps_per_epoch, both.steps_per_epoch) == (2, 5)
    for step in range(5):
        first, second = kinds_of(both.batch(0, step))
        assert {type(row) for row in first} == {ShownRow} and {type(row) for row in second} == {PearsonRow}
    # the shorter source has begun its third epoch by then, in a new order
    assert kinds_of(both.batch(1, 0))[0] == shown.batch(2, 1)
