"""Every way to hand a module an image gives the score of its path."""

from __future__ import annotations

import io
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

import capscore
from tools.tiny.transformers_models import write_clip

from ..photos import encode, noise

CAPTIONS = ["a cat on the mat", "two dogs run"]


def data_set(paths: list[Path], *, decode: bool) -> datasets.Dataset:
    cells = [str(path) if decode else {"path": None, "bytes": path.read_bytes()} for path in paths]
    features = datasets.Features({"photo": datasets.Image(decode=decode)})
    return datasets.Dataset.from_dict({"photo": cells}, features=features)


FORMS = {
    "str": lambda paths: [str(path) for path in paths],
    "bytes": lambda paths: [path.read_bytes() for path in paths],
    # a JPEG that Pillow has opened remembers its format, and `datasets` would encode it as JPEG once more
    "PIL": lambda paths: [Image.open(path) for path in paths],
    "PIL without file": lambda paths: [Image.open(io.BytesIO(path.read_bytes())) for path in paths],
    "PIL edited": lambda paths: [Image.open(path).convert("RGB") for path in paths],
    "array": lambda paths: [np.asarray(Image.open(path)) for path in paths],
    "stacked array": lambda paths: np.stack([np.asarray(Image.open(path)) for path in paths]),
    "dict of path": lambda paths: [{"path": str(path), "bytes": None} for path in paths],
    "dict of bytes": lambda paths: [{"path": None, "bytes": path.read_bytes()} for path in paths],
    # a list on datasets 3, a view on datasets 4 and later
    "column": lambda paths: data_set(paths, decode=True)["photo"],
    "column of bytes": lambda paths: data_set(paths, decode=False)["photo"],
}


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    return capscore.load_backbone(write_clip(tmp_path_factory.mktemp("tiny-clip")), device="cpu")


@pytest.mark.parametrize("form", FORMS)
def test_each_form_scores_as_its_path_at_once_and_one_by_one(load, backbone, tmp_path, form):
    paths = [tmp_path / f"{seed}.jpeg" for seed in range(2)]
    for seed, path in enumerate(paths):  # of noise, so that one more lossy encoding would show
        path.write_bytes(encode(noise(40, 56, seed), "JPEG", quality=30))
    module = load("mcs", backbone=backbone)
    expected = module.compute(predictions=CAPTIONS, images=paths)["scores"]
    assert abs(expected[0] - expected[1]) > 1e-3  # the two photos are told apart
    result = module.compute(predictions=CAPTIONS, images=FORMS[form](paths))
    np.testing.assert_allclose(result["scores"], expected, atol=1e-6)
    assert result["n_unique_images"] == 2
    for caption, image in zip(CAPTIONS, FORMS[form](paths), strict=True):
        module.add(prediction=caption, image=image)
    np.testing.assert_allclose(module.compute()["scores"], expected, atol=1e-6)
