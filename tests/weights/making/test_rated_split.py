"""Which of the rated photos may be trained on."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from capscore.errors import InputError
from weights.making.held_out import HeldOut
from weights.making.rated_rows import RATINGS, check_rows, rated_split, split_numbers


def write(folder: Path, numbers) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    half = len(numbers) // 2
    for file, part in zip(RATINGS, (numbers[:half], numbers[half:]), strict=True):
        lines = (f"{number}_ab.jpg\t{number}_ab.jpg#{k}\t1\t1\t1\n" for number in part for k in (0, 1))
        (folder / file).write_text("".join(lines))
    return folder


def test_the_rule_is_the_one_that_was_written_down(tmp_path):
    numbers = list(range(1000, 2000))
    split = rated_split(write(tmp_path, numbers))
    assert (len(split.training), len(split.held_out)) == (700, 300)
    assert split.training | split.held_out == set(numbers) and not split.training & split.held_out
    digests = {n: int.from_bytes(hashlib.sha256(str(n).encode("ascii")).digest(), "big") for n in numbers}
    assert max(digests[n] for n in split.training) < min(digests[n] for n in split.held_out)
    # by heart: another rule or another digest gives another set
    assert sorted(split.held_out)[:5] == FIRST


FIRST = [1001, 1002, 1014, 1016, 1017]


def test_neither_order_nor_repetition_moves_a_photo():
    assert split_numbers([5, 3, 1, 3, 2, 4], 3) == split_numbers(range(1, 6), 3)


def test_a_held_out_photo_among_training_rows_is_an_error():
    split = split_numbers(range(10), 7)
    nothing = HeldOut({})

    def check(names):
        check_rows([{"id": name} for name in names], split, nothing, "ratings")

    check([f"{number}_ab.jpg" for number in split.training])
    held = min(split.held_out)
    first, second = sorted(split.training)[:2]
    rows = [f"{first}_ab.jpg", f"{second}.jpg", f"{held}.jpg#1"]
    with pytest.raises(InputError, match=f"Flickr {held} .*may not be trained on") as caught:
        check(rows)
    assert "row 2" in str(caught.value)
    with pytest.raises(InputError, match=r"'sunset\.jpg' has no Flickr number"):
        check(["sunset.jpg"])


def test_too_few_photos_are_an_error():
    with pytest.raises(InputError, match="3 rated photos: expected more than the 700"):
        split_numbers(range(3))
