"""A function of photos as a metric: a number per row, whichever rows share a photo."""

import numpy as np
import pytest

from capscore.errors import ImageError, InputError
from capscore.metrics.from_function import scorer_of
from tools.tiny.colours import plain

from ..photos import encode

WHITE, BLACK = plain((255, 255, 255)), plain((0, 0, 0))
CAPTIONS, PHOTOS = ["a", "bb", "ccc", "d", "eeee"], [WHITE, BLACK, encode(WHITE), b"no image", WHITE]


def light(candidate, image):
    if len(candidate) == 4:
        raise InputError("too long", field="candidate")
    return len(candidate) + np.asarray(image).mean()


def lights(candidates, images):
    return [light(candidate[:3], image) for candidate, image in zip(candidates, images, strict=True)]


@pytest.mark.parametrize(("function", "last"), [(light, np.nan), (lights, 258)])
def test_rows_keep_their_order_and_bad_ones_are_named(function, last):
    scorer = scorer_of(function, "light", version="1")()
    found = scorer.score(CAPTIONS, PHOTOS, on_error="skip")
    np.testing.assert_allclose(found.scores, [256, 2, 258, np.nan, last])
    assert [bool(key) for key in found.image_keys] == [True, True, True, False, not np.isnan(last)]
    with pytest.raises(ImageError, match=r"^row 3, image: "):
        scorer.score(CAPTIONS[:4], PHOTOS[:4])
