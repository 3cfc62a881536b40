"""Boxes: what is taken and what is refused, and geometry against counting pixels one by one."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from capscore.errors import InputError
from capscore.images.boxes import check_boxes, crops, normalised, overlaps, suppress

SIZE = (20, 10)
across, down = (st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True).map(sorted) for n in SIZE)
corners = st.tuples(across, down).map(lambda pair: [pair[0][0], pair[1][0], pair[0][1], pair[1][1]])


SHARES = [[[0.1, 0.2, 0.9, 0.95]], [[0.5, 0.5, 0.2, 0.3], (0.1, 0.1, 0.2, 0.2)]]
SHARES += [np.array([[0.0, 0, 1, 1.01]], np.float32)]


def pixels(box: list[int]) -> set[tuple[int, int]]:
    left, top, right, bottom = box
    return {(x, y) for x in range(left, right) for y in range(top, bottom)}


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, lambda boxes: [*map(np.array, boxes)]])
def test_boxes_of_every_kind_are_clipped_to_the_photo(kind):
    checked = check_boxes(kind([[-3.0, 2.0, 4.0, 12.0], [19.5, 0.0, 20.0, 1.0]]), SIZE)
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, [[0, 2, 4, 10], [19.5, 0, 20, 1]])
    assert check_boxes([], SIZE).shape == (0, 4)
    assert check_boxes([[0, 0, 1, 1], [0, 0, 20, 10]], SIZE).shape == (2, 4), "one may lie within a pixel"
    assert check_boxes([[0, 0, 1, 1]], (1, 1)).tolist() == [[0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("boxes", "complaint"),
    [
        ([[0, 0, 5, 5], [6, 1, 2, 4]], "box 1 is [6, 1, 2, 4]: expected left below right"),
        ([[1, 4, 2, 4]], "box 0 is [1, 4, 2, 4]: expected left below right"),
        ([[20, 0, 25, 5]], "box 0 is [20, 0, 25, 5]: it lies outside the photo of 20 × 10"),
        ([[0, 0, 5, 5], [2, -9, 3, -1]], "box 1 is [2, -9, 3, -1]: it lies outside"),
        *(([[0, 0, wrong, 5]], "four finite numbers") for wrong in (float("nan"), float("inf"), "5", True)),
        *(([[0, 0, 5]], "box 0 is [0, 0, 5]: expected four"), ([[0, 0, 5, 5], None], "box 1 is None")),
        *((given, "expected a list of boxes") for given in ([0, 0, 5, 5], "0 0 5 5")),
        *((given, "left and right by 20, top and bottom by 10") for given in SHARES),
    ],
)
def test_invalid_boxes_are_named(boxes, complaint):
    with pytest.raises(InputError) as caught:
        check_boxes(boxes, SIZE, row=3)
    assert str(caught.value).startswith("row 3, boxes: ") and complaint in str(caught.value)
    assert (caught.value.row, caught.value.field) == (3, "boxes")


def test_shares_of_the_photo():
    np.testing.assert_array_equal(normalised(np.array([[5, 5, 20, 10]]), SIZE), [[0.25, 0.5, 1, 1]])
    assert normalised(np.zeros((0, 4)), SIZE).shape == (0, 4)


@settings(max_examples=20)
@given(st.lists(corners, max_size=4), st.lists(corners, max_size=4))
def test_overlap_is_that_of_the_pixels(a, b):
    counted = [[len(pixels(x) & pixels(y)) / len(pixels(x) | pixels(y)) for y in b] for x in a]
    found = overlaps(np.array(a), np.array(b))
    assert found.shape == (len(a), len(b))
    np.testing.assert_allclose(found, np.array(counted).reshape(found.shape), atol=1e-12)
    point = np.array([[2.0, 2.0, 2.0, 2.0]])
    np.testing.assert_array_equal(overlaps(point, point), [[0.0]])  # without area, it overlaps nothing


@pytest.mark.parametrize("threshold", [0.3, 0.55, 0.9])
def test_suppression_equals_torchvision(threshold):
    ops = pytest.importorskip("torchvision.ops")
    random = np.random.default_rng(8)
    left_top = random.uniform(0, 200, (300, 2))
    boxes = np.hstack([left_top, left_top + random.uniform(1, 120, (300, 2))])
    confidences = random.integers(0, 40, 300) / 40  # with ties
    theirs = ops.nms(torch.from_numpy(boxes), torch.from_numpy(confidences), threshold).tolist()
    assert suppress(boxes, confidences, threshold).tolist() == theirs
    assert suppress(boxes[:1].repeat(3, axis=0), np.array([0.5] * 3), threshold).tolist() == [0]
    # an overlap of 1/2 is not above 1/2
    assert suppress(np.array([[0.0, 0, 4, 4], [0, 0, 4, 2]]), np.array([0.9, 0.8]), 0.5).tolist() == [0, 1]


def test_crops_hold_every_pixel_that_a_box_touches():
    image = Image.fromarray(np.arange(600, dtype=np.uint32).astype(np.uint8).reshape(10, 20, 3))
    whole, sliver = crops(image, np.array([[0, 0, 20, 10], [3.2, 4.9, 3.3, 6.1]]))
    assert whole.tobytes() == image.tobytes() and sliver.size == (1, 3)
    np.testing.assert_array_equal(np.asarray(sliver), np.asarray(image)[4:7, 3:4])
