"""Finders of regions: their names, their windows, and the choice of one region of each cluster."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.images.boxes import overlaps
from capscore.infometic import regions as module
from capscore.infometic.regions import Regions, WindowFinder, choose, contrast, load_finder, windows
from tools.tiny.colours import ColourBackbone


@pytest.fixture
def embedder():
    return Embedder(ColourBackbone(), cache=None)


@pytest.fixture
def finder(embedder):
    return WindowFinder(embedder)


def test_finders_by_name(embedder):
    finder = load_finder("windows", embedder)
    assert isinstance(finder, WindowFinder)
    assert (finder.name, finder.max_regions, finder.embedder) == ("windows", 100, embedder)
    assert finder.fingerprint != WindowFinder(embedder, max_regions=7).fingerprint
    other = Embedder(ColourBackbone(fingerprint="colours-2"), cache=None)
    assert finder.fingerprint != load_finder("windows", other).fingerprint
    assert load_finder(finder, other) is finder
    # stored features rest on it; it changes with the layout, a threshold or the decoding of images
    assert finder.fingerprint == "5a8dae7a059a306dbc4ed92639f9352f"


@pytest.mark.parametrize("spec", ["window", "", 7, "detr:org/model", "things"])
def test_a_finder_that_is_unknown_or_lacks_its_calibration_is_refused(embedder, spec):
    complaint = "needs a mark calibration" if spec == "things" else "expected 'things', 'windows'"
    with pytest.raises(InputError, match=f"regions={spec!r}.*{complaint}"):
        load_finder(spec, embedder)


def photo(box: tuple[int, int, int, int], size: tuple[int, int] = (120, 90)) -> Image.Image:
    image = Image.new("RGB", size, (0, 0, 255))
    image.paste((255, 0, 0), box)
    return image


def test_windows_of_a_photo():
    boxes = windows((100, 100))
    assert boxes[0].tolist() == [0, 0, 100, 100]
    sides = {(right - left, bottom - top) for left, top, right, bottom in boxes.tolist()}
    # √(shape) · 50 across and 50 / √(shape) down: 35 (or 36) × 71 (or 70), and the other way round
    assert {(75, 75), (50, 50), (33, 33)} <= sides
    assert all(across * down in range(2300, 2600) for across, down in sides if across != down)
    assert 30 <= len(boxes) <= 60


@given(st.integers(1, 400), st.integers(1, 400))
def test_windows_lie_on_the_photo_and_cover_it(width, height):
    boxes = windows((width, height))
    assert boxes[0].tolist() == [0, 0, width, height] and (boxes == boxes.round()).all()
    assert len({*map(tuple, boxes.tolist())}) == len(boxes)
    assert (boxes[:, :2] >= 0).all() and (boxes[:, :2] < boxes[:, 2:]).all()
    assert (boxes[:, 2:] <= [width, height]).all()
    assert len(boxes) <= 1 + 5 * (math.ceil((6 - 1) / 0.65) + 1) ** 2
    for low, high, length in ((0, 2, width), (1, 3, height)):
        covered = np.zeros(length, dtype=bool)
        for box in boxes[1:].astype(int):
            covered[box[low] : box[high]] = True
        assert covered.all() or len(boxes) == 1


def test_contrast_by_hand():
    whole, left, right = [0, 0, 4, 2], [0, 0, 2, 2], [2, 0, 4, 2]
    rows = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]])
    # left: contained in the whole: 0.6; beside it half of the whole (weight 1/4) and all of right (weight 1)
    expected = [0.6 - (0.25 * 0.6 + 1.0 * 0.0) / 1.25, 0.8 - (0.25 * 0.8 + 1.0 * 0.0) / 1.25]
    assert contrast(np.array([whole, left, right]), rows)[1:] == pytest.approx(expected)


@pytest.mark.parametrize("box", [(5, 5, 45, 45), (70, 40, 115, 85), (40, 20, 80, 60)])
def test_the_region_of_a_thing_comes_first(finder, box):
    (found,) = finder.find([photo(box)])
    shared = overlaps(np.array([box]), found.boxes)[0]
    assert shared[0] > 0.3
    assert shared[: len(found) // 4].max() == shared.max() > 0.4
    assert (np.diff(found.confidences) <= 0).all()
    assert found.labels == ("",) * len(found)
    boxes = windows((120, 90))
    highest = contrast(boxes, finder.embedder.regions([photo(box)], [boxes])[0])[1:].max()
    assert found.confidences[0] == pytest.approx((1 + highest / 2) / 2)


def test_windows_that_stay_differ(finder):
    (found,) = finder.find([photo((5, 5, 45, 45))])
    shared = overlaps(found.boxes, found.boxes) - np.eye(len(found))
    assert shared.max() <= 0.5 and [0.0, 0.0, 120.0, 90.0] not in found.boxes.tolist()
    (pixel,) = finder.find([Image.new("RGB", (1, 1), (9, 200, 3))])
    assert (pixel.boxes.tolist(), pixel.confidences.tolist()) == ([[0, 0, 1, 1]], [0.5])
    few = WindowFinder(finder.embedder, max_regions=3).find([photo((5, 5, 45, 45))] * 2)
    assert [len(found) for found in few] == [3, 3]


def test_boxes_of_objects_come_before_windows_however_object_like_these_are(finder):
    # an object of 40 %, a confidence too low, and a box too small
    boxes = [[0.1, 0.1, 0.3, 0.4], [0.5, 0.5, 0.9, 0.9], [0.0, 0.0, 0.03, 0.5]]
    logits, shares = torch.tensor([[0.4, 0.3, 0.9]]).logit(), torch.tensor([boxes])
    network = SimpleNamespace(reduce=lambda maps: maps, object_boxes=lambda cells, *size: (logits, shares))
    finder.embedder.maps = lambda images: torch.zeros(len(images), 1, 2, 2)
    objects = module.ObjectFinder(finder.embedder, SimpleNamespace(network=network, name="m"))
    (found,) = objects.find([photo((5, 5, 45, 45))])
    (around,) = finder.find([photo((5, 5, 45, 45))])
    assert around.confidences.max() > 0.4
    assert found.boxes[0].tolist() == [12, 9, 36, 36] and found.confidences[0] == pytest.approx(0.4)
    assert len(found) > 5 and {*found.confidences[1:]} <= {*(0.3 * around.confidences)}


def test_regions_have_their_own_embeddings(embedder, finder):
    (regions,) = module.RegionMaker(embedder, finder, n=3, seed=0).find([photo((70, 40, 115, 85))])
    (expected,) = embedder.regions([photo((70, 40, 115, 85))], [regions.boxes])
    assert len(regions) == 3 < len(finder.find([photo((70, 40, 115, 85))])[0])
    np.testing.assert_allclose(regions.embeddings, expected, atol=1e-6)


def side_by_side(confidences) -> Regions:
    lefts = 2.0 * np.arange(len(confidences))
    boxes = np.column_stack([lefts, 0 * lefts, lefts + 1.0, 0 * lefts + 1.0])
    return Regions(boxes, np.array(confidences, np.float64), ("thing",) * len(confidences))


def test_the_most_confident_of_each_cluster_is_chosen():
    # three heaps far from each other: 0, 3, 6 | 1, 4 | 2, 5
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])[[0, 1, 2, 0, 1, 2, 0]]
    jitter = 0.1 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]])
    given = side_by_side([0.2, 0.9, 0.3, 0.8, 0.1, 0.7, 0.5])
    for seed in range(5):
        assert choose(given, centres + jitter, n=3, seed=seed).tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("confidences", "embeddings", "n", "expected"),
    [
        # a confident heap does not crowd out the rest
        ([0.9, 0.8, 0.7, 0.6, 0.5, 0.1], [[1, 0]] * 5 + [[0, 1]], 2, [0, 5]),
        *(([0.1, 0.2], [[1, 0], [0, 1]], 2, [0, 1]), ([], np.zeros((0, 3)), 20, [])),
        # regions that look the same are still n
        ([0.1, 0.4, 0.3, 0.2], np.ones((4, 3)), 3, [1, 2, 3]),
    ],
)
def test_diverse_regions_are_chosen(confidences, embeddings, n, expected):
    assert choose(side_by_side(confidences), np.array(embeddings, float), n).tolist() == expected


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_order_does_not_matter(count, n, seed, random):
    generator = np.random.default_rng(seed)
    given = side_by_side(generator.integers(0, 3, count) / 4)
    embeddings = generator.integers(-2, 3, (count, 3)).astype(float)
    order = np.array(random.sample(range(count), count))
    chosen = choose(given, embeddings, n, seed=7)
    again = choose(given.take(order), embeddings[order], n, seed=7)
    assert sorted(order[again].tolist()) == chosen.tolist()
    assert len(chosen) == min(count, n)


def test_maps_of_photos_that_no_reader_has_seen_are_made(embedded):
    photo = Image.fromarray(np.arange(48 * 64 * 3, dtype=np.uint8).reshape(48, 64, 3))
    expected = embedded.feature_maps([embedded.preprocess(photo)] * 2)
    assert torch.allclose(Embedder(embedded, cache=None).maps([photo] * 2), expected, atol=1e-6)
