"""Images of every form, and lists of them → the RGB pixels and keys they must have; one error for others."""

import contextlib
import io
import itertools
import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import datasets
import numpy as np
import pandas
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image, ImageFile

from capscore.errors import ImageError, InputError
from capscore.files.text_files import IMAGE_BYTES
from capscore.images.load import check_images, content_key, load_image

from ..photos import COLOUR, GREY, GREY_ALPHA, PALETTE, encode, noise, png, row

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)
PINK = (255, 127, 127)  # half transparent red on white: 255 × (1 − 128/255) = 127


def pixels_of(image) -> list[tuple[int, int, int]]:
    return [tuple(map(int, pixel)) for pixel in np.asarray(load_image(image)).reshape(-1, 3)]


def grey(*levels: int) -> list[tuple[int, int, int]]:
    return [(level,) * 3 for level in levels]


def palette(*colours, **info) -> Image.Image:
    image = row("P", *range(len(colours)))
    image.putpalette([level for colour in colours for level in colour])
    image.info.update(info)
    return image


PIL_IMAGES = {
    "1": (row("1", 0, 255), [BLACK, WHITE]),
    "L": (row("L", 0, 7, 255), grey(0, 7, 255)),
    "LA": (row("LA", (10, 255), (10, 0), (0, 128)), grey(10, 255, 127)),
    "La": (row("LA", (10, 255), (10, 0)).convert("La"), grey(10, 255)),
    "RGB": (row("RGB", (1, 2, 3), RED), [(1, 2, 3), RED]),
    "RGBA": (row("RGBA", (*RED, 255), (*RED, 0), (*RED, 128)), [RED, WHITE, PINK]),
    "RGBa": (row("RGBA", (9, 8, 7, 255), (9, 8, 7, 0)).convert("RGBa"), [(9, 8, 7), WHITE]),
    "RGBX": (row("RGBX", (1, 2, 3, 0)), [(1, 2, 3)]),
    "P": (palette(RED, GREEN), [RED, GREEN]),
    "P transparent index": (palette(RED, GREEN, transparency=1), [RED, WHITE]),
    "P alpha per colour": (palette(RED, GREEN, transparency=bytes([128, 255])), [PINK, GREEN]),
    "PA": (palette(RED, GREEN).convert("PA"), [RED, GREEN]),
    # a full ink takes its colour away, black takes all three
    "CMYK": (row("CMYK", (0,) * 4, (255, 0, 0, 0), (0, 255, 255, 0)), [WHITE, (0, 255, 255), RED]),
    "CMYK, black": (row("CMYK", (0, 0, 0, 255), (0, 0, 0, 100)), [BLACK, (155, 155, 155)]),
    "YCbCr": (row("YCbCr", (0, 128, 128), (255, 128, 128), (100, 128, 128)), grey(0, 255, 100)),
    "HSV": (row("HSV", (0, 255, 255), (0, 0, 40)), [RED, (40, 40, 40)]),
    "I;16": (Image.fromarray(np.array([[0, 0x1234, 0xFFFF]], np.uint16)), grey(0, 0x12, 255)),
    "I;16B": (Image.fromarray(np.array([[0, 0x1234, 0xFFFF]], ">u2")), grey(0, 0x12, 255)),
}


def u16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


def grey_png(bits: int, lines: bytes, width: int, *transparent: int, colour=GREY, chunks=()) -> bytes:
    chunks = [(b"tRNS", u16(*transparent))] if transparent else chunks
    return png(width, 1, bits=bits, colour=colour, lines=b"\0" + lines, chunks=chunks)


def colour_png(bits: int, lines: bytes, width: int, *transparent: int) -> bytes:
    return grey_png(bits, lines, width, *transparent, colour=COLOUR)


HALF_RED = [(b"PLTE", bytes([*GREEN, *RED])), (b"tRNS", bytes([255, 128]))]
ANIMATION = [Image.new("RGB", (2, 1), colour) for colour in (RED, GREEN)]
FRAMES = {"save_all": True, "append_images": ANIMATION[1:]}
WIDE = u16(0x1234, 0x2345, 0x3456, 0x7777, 0x2345, 0x3456)
HALF_RED_BLUE = row("RGBA", (*RED, 128), (*BLUE, 255))
FILES = {
    "PNG, 1 bit, black transparent": (grey_png(1, b"\x40", 2, 0), [WHITE, WHITE]),
    "PNG, 2 bits, level 1 transparent": (grey_png(2, b"\x1b", 4, 1), grey(0, 255, 170, 255)),
    "PNG, 4 bits, level 3 transparent": (grey_png(4, b"\x31", 2, 3), grey(255, 17)),
    "PNG, 8 bits, level 5 transparent": (grey_png(8, b"\5\6", 2, 5), grey(255, 6)),
    "PNG, 16 bits": (grey_png(16, u16(0, 0x80FF, 0xFFFF), 3), grey(0, 0x80, 255)),
    "PNG, 16 bits, transparent": (grey_png(16, u16(0x1234, 0x1235), 2, 0x1234), grey(255, 0x12)),
    "PNG, 16 bits, alpha": (grey_png(16, u16(0x1234, 0xFFFF, 0, 0), 2, colour=GREY_ALPHA), grey(0x12, 255)),
    "PNG, colour, transparent": (colour_png(8, b"\1\2\3\4\5\6", 2, 1, 2, 3), [WHITE, (4, 5, 6)]),
    "PNG, wide colour": (colour_png(16, WIDE, 2, 0x1234, 0x2345, 0x3456), [WHITE, (119, 35, 52)]),
    "PNG, palette": (grey_png(8, b"\0\1", 2, colour=PALETTE, chunks=HALF_RED), [GREEN, PINK]),
    "PGM of 16 bits": (b"P5 3 1 65535\n" + u16(0, 0x8001, 0xFFFF), grey(0, 0x80, 255)),
    "PGM of 10 bits": (b"P5 2 1 1023\n" + u16(0, 1023), [BLACK, WHITE]),
    "TIFF of 16 bits": (encode(np.array([[0x1234, 0xFFFF]], np.uint16), "TIFF"), grey(0x12, 255)),
    "TIFF of 16 bits, big-endian": (encode(np.array([[0x1234]], ">u2"), "TIFF"), grey(0x12)),
    "TIFF in CMYK": (encode(row("CMYK", (0, 255, 255, 0)), "TIFF"), [RED]),
    "animated GIF": (encode(ANIMATION[0], "GIF", **FRAMES), [RED, RED]),
    "GIF with a transparent pixel": (encode(palette(RED, GREEN), "GIF", transparency=0), [WHITE, GREEN]),
    "WebP": (encode(HALF_RED_BLUE, "WEBP", lossless=True, exact=True), [PINK, BLUE]),
}


@pytest.mark.parametrize("name", [*PIL_IMAGES, *FILES])
def test_every_mode_and_file_has_the_pixels_that_it_shows(name, tmp_path):
    image, expected = (PIL_IMAGES | FILES)[name]
    assert pixels_of(image) == expected
    if isinstance(image, bytes):
        path = tmp_path / "image"  # without a suffix: contents decide
        path.write_bytes(image)
        assert pixels_of(path) == expected


def test_a_jpeg_of_inks_which_it_stores_inverted():
    data = encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=100)
    assert b"Adobe" in data and np.abs(np.asarray(load_image(data)).astype(int) - RED).max() <= 2


# by how many quarters the stored array is turned to be upright, and whether it is mirrored before
# (EXIF 2.32, tag Orientation)
TURNS = {1: (0, 1), 2: (0, -1), 3: (2, 1), 4: (2, -1), 5: (1, -1), 6: (-1, 1), 7: (-1, -1), 8: (1, 1)}


@pytest.mark.parametrize("orientation", TURNS)
def test_exif_orientation_turns_once(orientation):
    stored, (quarters, mirrored) = noise(3, 5), TURNS[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    for options in ({}, {"format": "TIFF"}):
        data = encode(stored, exif=exif, **options)
        for image in (data, Image.open(io.BytesIO(data)), load_image(data)):
            assert np.array_equal(np.asarray(load_image(image)), np.rot90(stored[:, ::mirrored], quarters))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("exif", [b"garbage", b"II*\0\xff\xff\xff\xff"])
def test_a_photo_with_damaged_exif_is_still_a_photo(exif):
    data = encode(Image.new("RGB", (8, 8), "white"), "JPEG", exif=b"Exif\0\0" + exif)
    assert set(pixels_of(data)) == {WHITE}


@pytest.fixture
def photo(tmp_path) -> Path:
    path = tmp_path / "a photo.png"
    path.write_bytes(encode(noise()))
    return path


FORMS = {
    "str": lambda path, data: str(path),
    "Path": lambda path, data: path,
    "relative": lambda path, data: os.path.relpath(path),
    "from home": lambda path, data: f"~/{path.name}",
    "bytes": lambda path, data: data,
    "memoryview": lambda path, data: memoryview(data),
    "dict with a path": lambda path, data: {"path": str(path), "bytes": None},
    "dict with bytes and another machine's path": lambda path, data: {"path": "/gone/a.png", "bytes": data},
    "arrow scalar": lambda path, data: pyarrow.scalar(str(path)),
}
PIXELS = {
    "array": lambda pixels: pixels,
    "tensor": torch.from_numpy,
    "PIL": Image.fromarray,
    "turned view": lambda pixels: pixels[:, ::-1].copy()[:, ::-1],
    "Fortran": np.asfortranarray,
    "opened PNG": lambda pixels: Image.open(io.BytesIO(encode(pixels))),
}


@pytest.mark.parametrize("form", [*FORMS, *PIXELS])
def test_every_form_of_a_picture_is_the_same_image(form, photo, monkeypatch):
    monkeypatch.setenv("HOME", str(photo.parent))
    image = FORMS[form](photo, photo.read_bytes()) if form in FORMS else PIXELS[form](noise())
    key = content_key(image)
    assert key == content_key(photo if form in FORMS else noise())
    assert key.startswith("file:" if form in FORMS else "rgb:")
    rgb = load_image(image, expected_key=key)
    assert np.array_equal(np.asarray(rgb), noise())
    rgb.putpixel((0, 0), (255, 255, 254))  # the result shares no memory with what was given
    assert np.array_equal(np.asarray(load_image(image)), noise())
    with pytest.raises(ImageError, match="changed while being scored"):
        load_image(image, expected_key=key[:-1])


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_array_round_trip(data):
    channels = data.draw(st.sampled_from([None, 1, 3, 4]))
    size = tuple(data.draw(st.tuples(st.integers(1, 6), st.integers(5, 9))))
    array = data.draw(arrays.arrays(np.uint8, size if channels is None else (*size, channels)))
    rgb = np.asarray(load_image(array))
    layers = array.reshape(*size, -1)
    if channels == 4:
        alpha = layers[..., 3:] / 255
        assert np.abs(rgb - (layers[..., :3] * alpha + 255 * (1 - alpha))).max() <= 1
    else:
        assert np.array_equal(rgb, np.broadcast_to(layers, rgb.shape))
    changed = rgb.copy()
    changed[0, 0, 0] ^= 1
    assert content_key(changed) != content_key(rgb) == content_key(array)


@pytest.mark.parametrize("size", [(5, 7), (3, 3), (4, 3), (1, 1)])
def test_tensors_have_their_channels_first_and_arrays_last_unless_they_cannot(size):
    photo = noise()[: size[0], : size[1]]
    first = np.moveaxis(photo, -1, 0)
    kinds = torch.uint8, torch.int64, torch.float32, torch.float16
    tensors = [torch.tensor(first).to(kind) for kind in kinds]
    for tensor in (*tensors, torch.tensor(first).double() / 255, torch.tensor(first / 255).float()):
        assert np.array_equal(load_image(tensor), photo)
        assert all(np.array_equal(load_image(row), photo) for row in check_images(torch.stack([tensor] * 2)))
    assert np.array_equal(load_image(torch.tensor(first[:1])), np.repeat(photo[..., :1], 3, axis=2))
    assert np.array_equal(load_image(photo / 255), photo)
    if size == (5, 7):
        assert np.array_equal(load_image(first), photo) and content_key(first) == content_key(photo)
        assert np.array_equal(load_image(torch.tensor(photo)), photo)


def test_keys_go_by_content(photo):
    # XXH3's published 128-bit digest of the one letter a.
    assert content_key(b"a") == "file:a96faf705af16834e6c632b61e964e1f"
    before = content_key(photo)
    photo.write_bytes(encode(noise(seed=1)))
    assert content_key(photo) != before
    assert content_key(np.zeros((2, 3), np.uint8)) != content_key(np.zeros((3, 2), np.uint8))
    assert content_key(palette(RED, GREEN)) == content_key(row("RGB", RED, GREEN))
    image = Image.open(photo)
    before = content_key(image)
    image.putpixel((0, 0), (1, 2, 3))  # `filename` still says where it came from
    assert image.filename and content_key(image) != before and pixels_of(image)[0] == (1, 2, 3)


EARLY = {
    **{"None": (None, "None is not an image"), "list": ([1, 2], "an object of type list is not an image")},
    **{"missing file": ("/no/such.jpg", "'/no/such.jpg'"), "empty string": ("", "an empty string")},
    **{"NUL": ("a\0b", "null byte|null character"), "empty bytes": (b"", r"empty \(0 bytes\)")},
    **{"text as bytes": ({"bytes": "text"}, "is not an image"), "number as path": ({"path": 3}, "not an im")},
    "URL": ("https://me:secret@x.org/a", r"^image: 'https://…@x\.org/a' is a URL.*allow_urls=True"),
    "other address": ("ftp://x.org/a.jpg", r"expected a path, or an http\(s\) address"),
    "0 to 1 that resampling pushed over": (np.full((2, 2, 3), 1.02), "from 1.02 to 1.02: expected numbers"),
    "16 bits": (np.full((2, 2, 3), 256), "values from 256 to 256: expected numbers from 0 to 255"),
    "normalised tensor": (torch.full((3, 2, 2), -0.1), "expected numbers from 0 to 255"),
    "NaN": (torch.full((3, 2, 2), torch.nan), "expected numbers from 0 to 255"),
    "bfloat16": (torch.zeros(2, 2, dtype=torch.bfloat16), "cannot become a NumPy array of uint8"),
    "letters": (np.array([["a", "b"]]), "dtype <U1: expected numbers from 0 to 255"),
    "two channels": (np.zeros((2, 8, 8), np.uint8), "1, 3 or 4 channels"),
    "encoded file as an array": (np.zeros(9, np.uint8), "1, 3 or 4 channels"),
    "no pixels": (np.zeros((0, 8, 3), np.uint8), "has no pixels"),
    "PIL image without pixels": (Image.new("RGB", (0, 5)), r"\(mode RGB, 0 × 5\) has no pixels"),
    "32-bit grey": (Image.fromarray(np.array([[0, 70000]], np.int32)), r"32-bit pixels .*to 0…255"),
    "huge": (np.broadcast_to(np.uint8(0), (10**6, 10**6, 3)), "the limit is 89,478,485"),
}


@pytest.mark.parametrize("name", EARLY)
def test_invalid_images_are_named(name):
    image, message = EARLY[name]
    for function in (content_key, load_image):
        with pytest.raises(ImageError, match=message) as caught:
            function(image)
        assert caught.value.field == "image" and caught.value.row is None


def test_paths_that_are_no_file_or_cannot_be_read(tmp_path, photo):
    (tmp_path / "empty.jpg").touch()
    os.mkfifo(tmp_path / "pipe")
    cases = {"empty.jpg": r"empty \(0 bytes\)", "": "one image file", "pipe": "not a regular file"}
    for name, message in (cases | {"empty.jpg/x": "cannot be read: Not a directory"}).items():
        with pytest.raises(ImageError, match=message):
            content_key(tmp_path / name)
    if os.geteuid() != 0:  # root may read everything
        photo.chmod(0)
        with pytest.raises(ImageError, match="cannot be read: Permission denied"):
            content_key(photo)


@pytest.fixture
def lenient():
    """A program that has told Pillow to accept files that are cut short."""
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    yield
    ImageFile.LOAD_TRUNCATED_IMAGES = False


FORMATS = ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"]


@pytest.mark.filterwarnings("ignore:Truncated File Read", "ignore:Corrupt EXIF")
@pytest.mark.parametrize("format", [*FORMATS, "HTML"])
def test_every_kind_of_damage_is_an_error_and_never_a_grey_half(format, lenient, photo):
    flipped = bytearray(encode(noise()))
    flipped[len(flipped) // 2] ^= 0xFF
    damaged = [b"<!DOCTYPE html><html><title>404</title>", bytes(5000), flipped]
    if format in FORMATS:
        whole = encode(noise(), format)
        damaged = [whole[: int(len(whole) * kept)] for kept in (0.3, 0.99)]
    for data, flag in itertools.product(damaged, (False, True)):
        photo.write_bytes(data)
        ImageFile.LOAD_TRUNCATED_IMAGES = flag
        with pytest.raises(ImageError, match=r"a photo.png' is (cut short or damaged|not an image)"):
            load_image(photo)
        assert ImageFile.LOAD_TRUNCATED_IMAGES == flag


def test_lazy_pil_images_that_turn_out_to_be_broken_or_closed(lenient, photo):
    closed = Image.open(photo)
    closed.close()
    for image in (closed, Image.open(io.BytesIO(encode(noise(), "JPEG")[:-200]))):
        with pytest.raises(ImageError, match="cut short or damaged"):
            content_key(image)


def test_drawings_are_refused_before_an_interpreter_sees_them():
    with pytest.raises(ImageError, match="is EPS, not a raster image"):
        load_image(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_the_limit_of_pixels_is_pillows_and_holds_for_all(monkeypatch, photo):
    for image in (photo, Image.open(photo), noise()):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 64 * 48 - 1)
        with pytest.raises(ImageError, match="3,072 pixels; the limit is 3,071"):
            load_image(image)
        for limit in (64 * 48, None):
            monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
            assert load_image(image).size == (64, 48)


def test_the_limit_of_bytes(monkeypatch, photo):
    data = photo.read_bytes()
    for image in (photo, data, {"bytes": data, "path": None}):
        monkeypatch.setenv(IMAGE_BYTES.variable, str(len(data)))
        load_image(image)
        monkeypatch.setenv(IMAGE_BYTES.variable, str(len(data) - 1))
        with pytest.raises(ImageError, match="the limit is"):
            load_image(image)


def _tiled_bomb() -> bytes:
    """A TIFF of 8 × 8 pixels in one tile of 30,000 × 30,000, packed a thousandfold."""
    packed = zlib.compress(bytes(2**20)) * 50
    entries = [(256, 4, 1, 8), (257, 4, 1, 8), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]
    entries += [(322, 4, 1, 30_000), (323, 4, 1, 30_000), (324, 4, 1, 8), (325, 4, 1, len(packed))]
    head = struct.pack("<2sHI", b"II", 42, 8 + len(packed))
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return head + packed + directory + struct.pack("<I", 0)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_bombs_are_refused_before_they_are_decoded():
    grey_bomb = png(10_000, 10_000, bits=8, colour=GREY, lines=b"\0")  # of which Pillow only warns
    for data in (_tiled_bomb(), grey_bomb):
        with pytest.raises(ImageError, match="the limit is"):
            load_image(data)


def test_files_cut_short_in_many_threads(lenient):
    def is_read(data):
        with contextlib.suppress(ImageError):
            return bool(load_image(data))
        return False

    whole = encode(noise(), "JPEG")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(is_read, [whole, whole[:-300]] * 50)) == [True, False] * 50
    assert ImageFile.LOAD_TRUNCATED_IMAGES


@pytest.fixture
def paths(tmp_path) -> list[str]:
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(encode(noise(8, 9, seed=number), "JPEG", quality=60))
    return [str(tmp_path / f"{number}.jpg") for number in range(4)]


@pytest.fixture
def decoded(monkeypatch) -> list:
    """One entry for each time that `datasets` decodes an image."""
    decode = datasets.Image.decode_example
    noted = mock.create_autospec(decode, side_effect=decode)
    monkeypatch.setattr(datasets.Image, "decode_example", noted)
    return noted.call_args_list


def keys(images) -> list[str]:
    return [content_key(image) for image in images]


def image_data_set(rows: list, **options) -> datasets.Dataset:
    features = datasets.Features({"image": datasets.Image(**options), "row": datasets.Value("int64")})
    return datasets.Dataset.from_dict({"image": rows, "row": list(range(len(rows)))}, features=features)


COLUMNS = hasattr(datasets.arrow_dataset, "Column")
lazy_columns = pytest.mark.skipif(not COLUMNS, reason="before datasets 4 a column is a list of images")


@lazy_columns
def test_no_column_of_images_is_decoded(paths, decoded):
    stored, all_rows = image_data_set(paths), [0, 1, 2, 3]
    nested = datasets.Features({"photo": {"image": datasets.Image()}})
    inner = datasets.Dataset.from_dict({"photo": [{"image": path} for path in paths]}, features=nested)
    for images, order in (
        (stored["image"], all_rows),
        (image_data_set([Path(path).read_bytes() for path in paths])["image"], all_rows),
        *((stored.select([3, 1])["image"], [3, 1]), (stored.with_format("torch")["image"], all_rows)),
        *((stored.to_iterable_dataset()["image"], all_rows), (inner["photo"]["image"], all_rows)),
        (datasets.Dataset.from_dict({"image": paths})["image"], all_rows),
    ):
        column, expected = check_images(images), keys(paths[row] for row in order)
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

    def smaller(batch):
        return {"image": [image.resize((2, 2)) for image in batch["image"]]}

    column = check_images(image_data_set(paths).with_transform(smaller)["image"])
    assert len(column) == 4 and load_image(column[2]).size == (2, 2)


def test_a_missing_row_of_a_column_is_an_error(paths):
    column = check_images(image_data_set([paths[0], None])["image"])
    assert content_key(column[0])
    with pytest.raises(ImageError, match="None is not an image"):
        content_key(column[1])


def test_every_list_gives_its_rows_in_order(paths):
    for rows in (
        *(paths, tuple(paths), np.array(paths), np.array(paths, object), iter(paths)),
        *(pyarrow.array(paths), pyarrow.chunked_array([paths[:1], paths[1:]])),
        pandas.Series(paths, index=[9, 3, 0, 1]),  # labels are not positions
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
