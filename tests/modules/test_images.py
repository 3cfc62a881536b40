"""Ways to hand a module an image, in which `evaluate` could change it, give the score of its path."""

import datasets
import numpy as np
import pytest
from PIL import Image

from ..photos import encode, noise

CAPTIONS = ["a cat on the mat", "two dogs run"]


def column(paths):
    """A list on datasets 3, a view on datasets 4 and later."""
    features = datasets.Features({"photo": datasets.Image()})
    return datasets.Dataset.from_dict({"photo": [*map(str, paths)]}, features=features)["photo"]


FORMS = {
    "bytes": lambda paths: [path.read_bytes() for path in paths],
    # a JPEG that Pillow has opened remembers its format, and `datasets` would encode it as JPEG once more
    "PIL": lambda paths: [Image.open(path) for path in paths],
    "stacked array": lambda paths: np.stack([np.asarray(Image.open(path)) for path in paths]),
    "dict": lambda paths: [{"path": None, "bytes": path.read_bytes()} for path in paths],
    "column": column,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_scores_as_its_path_at_once_and_one_by_one(load, backbones, tmp_path, form):
    paths = [tmp_path / f"{seed}.jpeg" for seed in range(2)]
    for seed, path in enumerate(paths):  # of noise, so that one more lossy encoding would show
        path.write_bytes(encode(noise(40, 56, seed), "JPEG", quality=30))
    module = load("mcs", backbone=backbones("clip"))
    expected = module.compute(predictions=CAPTIONS, images=paths)["scores"]
    assert abs(expected[0] - expected[1]) > 1e-3  # the two photos are told apart
    result = module.compute(predictions=CAPTIONS, images=FORMS[form](paths))
    np.testing.assert_allclose(result["scores"], expected, atol=1e-6)
    assert result["n_unique_images"] == 2
    for caption, image in zip(CAPTIONS, FORMS[form](paths), strict=True):
        module.add(prediction=caption, image=image)
    np.testing.assert_allclose(module.compute()["scores"], expected, atol=1e-6)
