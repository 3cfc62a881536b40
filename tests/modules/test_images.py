"""Every way to hand a module an image gives the score of its path."""

from __future__ import annotations

import io
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

import capscore

from ..backbones.tiny_transformers import write_clip
from ..photos import encode, noise

CAPTIONS = ["a cat on the mat", "two dogs run"]


def data_set(paths: list[Path], *, decode: bool) -> datasets.Dataset:
    cells = [str(path) if decode else {"path": None, "bytes": path.read_bytes()} for path in paths]
    features = datasets.Features({"photo": datasets.Image(decode=decode)})
    return datasets.Dataset.from_dict({"photo": cells}, features=features)


FORMS = {
    "str": lambda paths: [str(path) for path in paths],
    "bytes": lambda paths: [path.read_bytes() for path in paths],
    "open file": lambda paths: [io.BytesIO(path.read_bytes()) for path in paths],
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


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> list[Path]:
    """Two photos in which every pixel matters, so that one more lossy encoding would show."""
    folder = tmp_path_factory.mktemp("photos")
    made = [folder / f"{seed}.jpeg" for seed in range(2)]
    for seed, path in enumerate(made):
        path.write_bytes(encode(noise(40, 56, seed), "JPEG", quality=30))
    return made


@pytest.mark.parametrize("form", FORMS)
def test_each_form_scores_as_its_path_at_once_and_one_by_one(load, backbone, paths, form):
    module = load("mcs", backbone=backbone)
    expected = module.compute(predictions=CAPTIONS, images=paths)["scores"]
    assert abs(expected[0] - expected[1]) > 1e-3  # the two photos are told apart
    result = module.compute(predictions=CAPTIONS, images=FORMS[form](paths))
    np.testing.assert_allclose(result["scores"], expected, atol=1e-6)
    assert result["n_unique_images"] == 2
    for caption, image in zip(CAPTIONS, FORMS[form](paths), strict=True):
        module.add(prediction=caption, image=image)
    np.testing.assert_allclose(module.compute()["scores"], expected, atol=1e-6)
    if form == "bytes":  # what all forms are kept from
        again = [encode(Image.open(path).convert("RGB"), "JPEG", quality=75) for path in paths]
        changed = module.compute(predictions=CAPTIONS, images=again)["scores"]
        assert np.abs(np.array(changed) - expected).max() > 1e-5


def test_an_edited_image_is_scored_as_it_is_now(load):
    """`datasets` would remember the file it was opened from."""
    photo = Image.open(io.BytesIO(encode(Image.new("RGB", (8, 6), (255, 0, 0)))))
    photo.paste((0, 0, 255), (0, 0, 8, 6))
    assert load("mcs").compute(predictions=["blue", "red"], images=[photo, photo])["scores"] == [2.5, 0.0]
