"""Which finder a word stands for, and which words stand for none."""

from __future__ import annotations

import numpy as np
import pytest

from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.infometic.regions import RegionFinder, Regions, WindowFinder, load_finder

from ..toy import ColourBackbone


class Nowhere(RegionFinder):
    name = fingerprint = "nowhere"
    most = 1

    def find(self, images):
        return [Regions(np.zeros((0, 4)), np.zeros(0), ()) for _ in images]


@pytest.fixture
def embedder():
    return Embedder(ColourBackbone(), cache=None)


def test_windows_and_finders(embedder):
    finder = load_finder("windows", embedder)
    assert isinstance(finder, WindowFinder)
    assert (finder.name, finder.max_regions, finder.embedder) == ("windows", 100, embedder)
    assert finder.fingerprint != WindowFinder(embedder, max_regions=7).fingerprint
    other = Embedder(ColourBackbone(fingerprint="colours-2"), cache=None)
    assert finder.fingerprint != load_finder("windows", other).fingerprint
    given = Nowhere()
    assert load_finder(given, embedder) is given


@pytest.mark.parametrize(
    ("spec", "options", "complaint"),
    [
        ("window", {}, "regions='window': expected 'things', 'windows'"),
        (7, {}, "regions=7: expected 'things', 'windows'"),
        ("detr", {}, "regions='detr': expected"),
        ("windows:large", {}, "regions='windows:large': expected"),
        ("owlv2:org/model", {}, "regions='owlv2:org/model': expected"),
        ("things", {}, "needs a mark calibration"),
    ],
)
def test_what_does_not_go_together(embedder, spec, options, complaint):
    with pytest.raises(InputError) as caught:
        load_finder(spec, embedder, **options)
    assert complaint in str(caught.value)


def test_regions_go_with_each_other():
    boxes = np.array([[0, 0, 2, 2], [1, 1, 3, 3], [4, 4, 5, 5]])
    three = Regions(boxes, np.array([0.1, 0.2, 0.3]), ("a", "b", "c"))
    assert len(three) == 3
    two = three.take(np.array([2, 0]))
    assert two.labels == ("c", "a")
    np.testing.assert_array_equal(two.boxes, boxes[[2, 0]])
    np.testing.assert_array_equal(two.confidences, [0.3, 0.1])
