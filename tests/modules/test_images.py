"""Every way to hand a module an image gives the score of its path."""

from __future__ import annotations

import io
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

import capscore

from ..photos import encode, noise

CAPTIONS = ["a cat on the mat", "two dogs run"]


def column(paths: list[Path]) -> object:
    """A column of a data set: a list on datasets 3, a view on datasets 4 and later."""
    table = datasets.Dataset.from_dict({"photo": [str(path) for path in paths]})
    return table.cast_column("photo", datasets.Image())["photo"]


def encoded_column(paths: list[Path]) -> object:
    """The same, its images not decoded, their bytes in the table."""
    rows = [{"path": None, "bytes": path.read_bytes()} for path in paths]
    features = datasets.Features({"photo": datasets.Image(decode=False)})
    return datasets.Dataset.from_dict({"photo": rows}, features=features)["photo"]


FORMS = {
    "str": lambda paths: [str(path) for path in paths],
    "Path": lambda paths: list(paths),
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
    "column": column,
    "column of bytes": encoded_column,
}


@pytest.fixture(scope="module")
def backbone(checkpoint):
    return capscore.load_backbone(checkpoint, device="cpu")


@pytest.fixture(scope="module", params=["png", "jpeg"])
def paths(request, tmp_path_factory) -> list[Path]:
    """Two photos in which every pixel matters, so that one more lossy encoding would show."""
    folder = tmp_path_factory.mktemp("photos")
    options = {"quality": 30} if request.param == "jpeg" else {}
    made = []
    for seed in range(2):
        path = folder / f"{seed}.{request.param}"
        path.write_bytes(encode(noise(40, 56, seed), request.param.upper(), **options))
        made.append(path)
    return made


@pytest.mark.parametrize("form", FORMS)
def test_same_score_as_the_path(load, backbone, paths, form):
    module = load("mcs", backbone=backbone)
    expected = module.compute(predictions=CAPTIONS, images=paths)["scores"]
    assert abs(expected[0] - expected[1]) > 1e-3  # the two photos are told apart
    result = module.compute(predictions=CAPTIONS, images=FORMS[form](paths))
    np.testing.assert_allclose(result["scores"], expected, atol=1e-6)
    assert result["n_unique_images"] == 2


@pytest.mark.parametrize("form", [form for form in FORMS if form != "stacked array"])
def test_one_at_a_time(load, backbone, paths, form):
    module = load("mcs", backbone=backbone)
    expected = module.compute(predictions=CAPTIONS, images=paths)["scores"]
    images = FORMS[form](paths)
    for row in range(2):
        module.add(prediction=CAPTIONS[row], image=images[row])
    np.testing.assert_allclose(module.compute()["scores"], expected, atol=1e-6)


def test_a_second_lossy_encoding_would_show(load, backbone, paths):
    """The tests above can fail: this is what they guard against."""
    again = [encode(Image.open(path).convert("RGB"), "JPEG", quality=75) for path in paths]
    module = load("mcs", backbone=backbone)
    expected = module.compute(predictions=CAPTIONS, images=paths)["scores"]
    changed = module.compute(predictions=CAPTIONS, images=again)["scores"]
    assert max(abs(left - right) for left, right in zip(expected, changed, strict=True)) > 1e-5


def test_an_edited_image_is_scored_as_it_is_now(load):
    """`datasets` would remember the file it was opened from."""
    buffer = io.BytesIO(encode(Image.new("RGB", (8, 6), (255, 0, 0))))
    photo = Image.open(buffer)
    photo.paste((0, 0, 255), (0, 0, 8, 6))
    module = load("mcs")
    assert module.compute(predictions=["blue", "red"], images=[photo, photo])["scores"] == [2.5, 0.0]


def test_a_data_set_row_by_row(load, paths):
    """The loop that people write."""
    table = datasets.Dataset.from_dict(
        {"caption": ["red", "green"], "photo": [str(path) for path in paths]}
    ).cast_column("photo", datasets.Image())
    module = load("mcs")
    for row in table:
        module.add(prediction=row["caption"], image=row["photo"], language="en")
    looped = module.compute()
    at_once = module.compute(predictions=table["caption"], images=table["photo"], language="en")
    assert looped == at_once
