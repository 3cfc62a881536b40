"""Lists, arrays and columns of images: what passes, that nothing is decoded on the way, what is refused."""

import io
from pathlib import Path

import datasets
import numpy as np
import pandas
import pyarrow
import pytest
import torch
from PIL import Image

from capscore.errors import ImageError, InputError
from capscore.images.load import check_images, content_key, load_image

from ..photos import encode, noise


@pytest.fixture
def paths(tmp_path) -> list[str]:
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(encode(noise(8, 9, seed=number), "JPEG", quality=60))
    return [str(tmp_path / f"{number}.jpg") for number in range(4)]


@pytest.fixture
def decoded(monkeypatch) -> list[int]:
    """One entry for each time that `datasets` decodes an image."""
    calls, original = [], datasets.Image.decode_example

    def noted(*args, **options):
        calls.append(1)
        return original(*args, **options)

    monkeypatch.setattr(datasets.Image, "decode_example", noted)
    return calls


def keys(images) -> list[str]:
    return [content_key(image) for image in images]


def image_data_set(rows: list, **options) -> datasets.Dataset:
    features = datasets.Features({"image": datasets.Image(**options), "row": datasets.Value("int64")})
    return datasets.Dataset.from_dict({"image": rows, "row": list(range(len(rows)))}, features=features)


HAS_COLUMNS = hasattr(datasets.arrow_dataset, "Column")
lazy_columns = pytest.mark.skipif(not HAS_COLUMNS, reason="before datasets 4 a column is a list of images")


@lazy_columns
def test_no_column_of_images_is_decoded(paths, decoded):
    stored, all_rows = image_data_set(paths), [0, 1, 2, 3]
    nested = datasets.Features({"photo": {"image": datasets.Image()}})
    inner = datasets.Dataset.from_dict({"photo": [{"image": path} for path in paths]}, features=nested)
    for given, order in (
        (stored["image"], all_rows),
        (image_data_set([Path(path).read_bytes() for path in paths])["image"], all_rows),
        (stored.select([3, 1])["image"], [3, 1]),
        (stored.with_format("torch")["image"], all_rows),
        (stored.to_iterable_dataset()["image"], all_rows),
        (inner["photo"]["image"], all_rows),
        (datasets.Dataset.from_dict({"image": paths})["image"], all_rows),
    ):
        column, expected = check_images(given), keys(paths[row] for row in order)
        assert len(column) == len(order) and keys(column) == expected
        assert content_key(column[-1]) == expected[-1] and keys(column[1:]) == expected[1:]
        with pytest.raises(IndexError):
            column[len(order)]
    assert not decoded


@lazy_columns
def test_a_transform_or_a_mode_is_honoured_row_by_row(paths, decoded):
    grey = check_images(image_data_set(paths, mode="L")["image"])
    assert len(grey) == 4 and not decoded
    assert grey[1].mode == "L" and len(decoded) == 1
    transformed = image_data_set(paths).with_transform(
        lambda batch: {"image": [image.resize((2, 2)) for image in batch["image"]]}
    )
    column = check_images(transformed["image"])
    assert len(column) == 4 and load_image(column[2]).size == (2, 2)


def test_a_missing_row_of_a_column_is_an_error(paths):
    column = check_images(image_data_set([paths[0], None])["image"])
    assert content_key(column[0])
    with pytest.raises(ImageError, match="None is not an image"):
        content_key(column[1])


def test_every_list_gives_its_rows_in_order(paths):
    for rows in (
        paths,
        tuple(paths),
        np.array(paths),
        np.array(paths, object),
        pandas.Series(paths, index=[9, 3, 0, 1]),  # labels are not positions
        pyarrow.array(paths),
        pyarrow.chunked_array([paths[:1], paths[1:]]),
        iter(paths),
        dict(enumerate(paths)).values(),
    ):
        checked = check_images(rows)
        assert [checked[number] for number in range(len(checked))] == paths
    assert check_images(paths) is paths
    rows = [{"bytes": Path(path).read_bytes(), "path": None} for path in paths]
    assert keys(check_images(pyarrow.array(rows))[:2]) == keys(paths[:2])


def test_a_batch_of_pixels_is_a_list_of_images():
    batch = np.stack([noise(seed=number) for number in range(3)])
    assert keys(check_images(torch.from_numpy(batch))) == keys(check_images(batch)) == keys(batch)
    assert np.shares_memory(check_images(batch)[1], batch)


NO_LISTS = [
    *("a.jpg", Path("a.jpg"), b"abc", {"path": "a.jpg", "bytes": None}, Image.new("L", (2, 3))),
    *(np.zeros((4, 4, 3), np.uint8), torch.zeros(3, 4, 4), np.zeros(9, np.uint8), io.BytesIO(b"x"), None),
    *({"a.jpg"}, pandas.DataFrame({"image": ["a.jpg"]}), datasets.Dataset.from_dict({"a": [1], "b": [2]})),
]


@pytest.mark.parametrize("images", NO_LISTS, ids=lambda images: type(images).__name__)
def test_images_must_be_a_list(images):
    with pytest.raises(InputError, match="expected a list with one image per candidate"):
        check_images(images)
