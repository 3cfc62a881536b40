"""Images of every kind → the RGB pixels and keys they must have, and the errors of those that are none."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import struct
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image, ImageFile, PngImagePlugin

from capscore.errors import ImageError
from capscore.images.load import content_key, load_image

from ..photos import COLOUR, GREY, GREY_ALPHA, PALETTE, encode, noise, png, row

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def pixels_of(image) -> list[tuple[int, int, int]]:
    """The RGB pixels in reading order, as load_image gives them."""
    rgb = load_image(image)
    assert rgb.mode == "RGB"
    return [tuple(map(int, pixel)) for pixel in np.asarray(rgb).reshape(-1, 3)]


def palette(*colours, transparency=None) -> Image.Image:
    image = row("P", *range(len(colours)))
    image.putpalette([level for colour in colours for level in colour])
    if transparency is not None:
        image.info["transparency"] = transparency
    return image


# Modes. Half transparent red on white: 255, and 255 × (1 − 128/255) = 127.

PIL_IMAGES = {
    "1": (row("1", 0, 255), [BLACK, WHITE]),
    "L": (row("L", 0, 7, 255), [BLACK, (7, 7, 7), WHITE]),
    "LA": (row("LA", (10, 255), (10, 0), (0, 128)), [(10, 10, 10), WHITE, (127, 127, 127)]),
    "La": (row("LA", (10, 255), (10, 0)).convert("La"), [(10, 10, 10), WHITE]),
    "RGB": (row("RGB", (1, 2, 3), RED), [(1, 2, 3), RED]),
    "RGBA": (
        row("RGBA", (255, 0, 0, 255), (255, 0, 0, 0), (255, 0, 0, 128)),
        [RED, WHITE, (255, 127, 127)],
    ),
    "RGBa": (row("RGBA", (9, 8, 7, 255), (9, 8, 7, 0)).convert("RGBa"), [(9, 8, 7), WHITE]),
    "RGBX": (row("RGBX", (1, 2, 3, 0)), [(1, 2, 3)]),
    "P": (palette(RED, GREEN), [RED, GREEN]),
    "P transparent index": (palette(RED, GREEN, transparency=1), [RED, WHITE]),
    "P alpha per colour": (palette(RED, GREEN, transparency=bytes([128, 255])), [(255, 127, 127), GREEN]),
    "PA": (palette(RED, GREEN).convert("PA"), [RED, GREEN]),
    # C M Y K: a full ink takes its colour away, black takes all three.
    "CMYK": (
        row("CMYK", (0, 0, 0, 0), (255, 0, 0, 0), (0, 255, 255, 0), (0, 0, 0, 255), (0, 0, 0, 100)),
        [WHITE, (0, 255, 255), RED, BLACK, (155, 155, 155)],
    ),
    "YCbCr": (row("YCbCr", (0, 128, 128), (255, 128, 128), (100, 128, 128)), [BLACK, WHITE, (100,) * 3]),
    "HSV": (row("HSV", (0, 255, 255), (0, 0, 40)), [RED, (40, 40, 40)]),
    "I;16": (Image.fromarray(np.array([[0, 0x1234, 0xFFFF]], np.uint16)), [BLACK, (0x12,) * 3, WHITE]),
    "I;16B": (Image.fromarray(np.array([[0, 0x1234, 0xFFFF]], ">u2")), [BLACK, (0x12,) * 3, WHITE]),
    "RGB with a transparent colour": (row("RGB", (1, 2, 3), (1, 2, 4)), [WHITE, (1, 2, 4)]),
}
PIL_IMAGES["RGB with a transparent colour"][0].info["transparency"] = (1, 2, 3)


@pytest.mark.parametrize("mode", PIL_IMAGES)
def test_every_mode_of_a_pil_image(mode):
    image, expected = PIL_IMAGES[mode]
    assert pixels_of(image) == expected


def test_sixteen_bit_modes_are_what_they_are_called():
    assert [PIL_IMAGES[mode][0].mode for mode in ("I;16", "I;16B")] == ["I;16", "I;16B"]


def u16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


ANIMATION = [Image.new("RGB", (2, 1), colour) for colour in (RED, GREEN)]
PNGS = {
    "1 bit": (png(2, 1, bits=1, colour=GREY, lines=b"\0\x40"), [BLACK, WHITE]),
    "1 bit, white is transparent": (
        png(2, 1, bits=1, colour=GREY, lines=b"\0\x40", chunks=[(b"tRNS", u16(0))]),
        [WHITE, WHITE],
    ),
    "2 bits": (png(4, 1, bits=2, colour=GREY, lines=b"\0\x1b"), [(v, v, v) for v in (0, 85, 170, 255)]),
    "2 bits, level 1 transparent": (
        png(4, 1, bits=2, colour=GREY, lines=b"\0\x1b", chunks=[(b"tRNS", u16(1))]),
        [(v, v, v) for v in (0, 255, 170, 255)],
    ),
    "4 bits, level 3 transparent": (
        png(2, 1, bits=4, colour=GREY, lines=b"\0\x31", chunks=[(b"tRNS", u16(3))]),
        [WHITE, (17, 17, 17)],
    ),
    "8 bits, level 5 transparent": (
        png(2, 1, bits=8, colour=GREY, lines=b"\0\x05\x06", chunks=[(b"tRNS", u16(5))]),
        [WHITE, (6, 6, 6)],
    ),
    "16 bits": (
        png(3, 1, bits=16, colour=GREY, lines=b"\0" + u16(0, 0x80FF, 0xFFFF)),
        [BLACK, (0x80,) * 3, WHITE],
    ),
    "16 bits, one level transparent": (
        png(2, 1, bits=16, colour=GREY, lines=b"\0" + u16(0x1234, 0x1235), chunks=[(b"tRNS", u16(0x1234))]),
        [WHITE, (0x12,) * 3],
    ),
    "16 bits with alpha": (
        png(2, 1, bits=16, colour=GREY_ALPHA, lines=b"\0" + u16(0x1234, 0xFFFF, 0x1234, 0)),
        [(0x12,) * 3, WHITE],
    ),
    "colour, one transparent": (
        png(2, 1, bits=8, colour=COLOUR, lines=b"\0\1\2\3\4\5\6", chunks=[(b"tRNS", u16(1, 2, 3))]),
        [WHITE, (4, 5, 6)],
    ),
    "16-bit colour": (
        png(1, 1, bits=16, colour=COLOUR, lines=b"\0" + u16(0x1234, 0xFFFF, 0x00FF)),
        [(0x12, 0xFF, 0x00)],
    ),
    "16-bit colour, one transparent": (
        png(
            2,
            1,
            bits=16,
            colour=COLOUR,
            lines=b"\0" + u16(0x1234, 0x2345, 0x3456, 0x7777, 0x2345, 0x3456),
            chunks=[(b"tRNS", u16(0x1234, 0x2345, 0x3456))],
        ),
        [WHITE, (0x77, 0x23, 0x34)],
    ),
    "palette, the second half transparent": (
        png(
            2,
            1,
            bits=8,
            colour=PALETTE,
            lines=b"\0\0\1",
            chunks=[(b"PLTE", bytes([*GREEN, *RED])), (b"tRNS", bytes([255, 128]))],
        ),
        [GREEN, (255, 127, 127)],
    ),
}
FILES = {
    **{f"PNG {name}": case for name, case in PNGS.items()},
    "PGM of 16 bits": (b"P5 3 1 65535\n" + u16(0, 0x8001, 0xFFFF), [BLACK, (0x80,) * 3, WHITE]),
    "PGM of 10 bits": (b"P5 2 1 1023\n" + u16(0, 1023), [BLACK, WHITE]),
    "TIFF of 16 bits": (encode(np.array([[0x1234, 0xFFFF]], np.uint16), "TIFF"), [(0x12,) * 3, WHITE]),
    "TIFF of 16 bits, big-endian": (encode(np.array([[0x1234]], ">u2"), "TIFF"), [(0x12,) * 3]),
    "TIFF in CMYK": (encode(row("CMYK", (0, 255, 255, 0)), "TIFF"), [RED]),
    "TIFF of two pages": (
        encode(ANIMATION[0], "TIFF", save_all=True, append_images=ANIMATION[1:]),
        [RED, RED],
    ),
    "animated GIF": (encode(ANIMATION[0], "GIF", save_all=True, append_images=ANIMATION[1:]), [RED, RED]),
    "GIF with a transparent pixel": (
        encode(palette(RED, GREEN, transparency=0), "GIF", transparency=0),
        [WHITE, GREEN],
    ),
    "animated WebP": (
        encode(ANIMATION[0], "WEBP", save_all=True, append_images=ANIMATION[1:], lossless=True),
        [RED, RED],
    ),
    "WebP with alpha": (
        encode(row("RGBA", (255, 0, 0, 128), (0, 0, 255, 255)), "WEBP", lossless=True, exact=True),
        [(255, 127, 127), BLUE],
    ),
    "animated PNG": (encode(ANIMATION[0], "PNG", save_all=True, append_images=ANIMATION[1:]), [RED, RED]),
    "BMP": (encode(row("RGB", RED, BLUE), "BMP"), [RED, BLUE]),
    "one pixel": (encode(row("L", 77)), [(77, 77, 77)]),
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file(name, tmp_path):
    data, expected = FILES[name]
    path = tmp_path / "image"  # without a suffix: contents decide
    path.write_bytes(data)
    assert pixels_of(path) == expected
    assert pixels_of(data) == expected


@pytest.mark.parametrize("mode, colour, expected", [
    ("L", 200, (200, 200, 200)),
    ("CMYK", (0, 255, 255, 0), RED),
    ("CMYK", (0, 0, 0, 55), (200, 200, 200)),
    ("YCbCr", (76, 85, 255), RED),
])  # fmt: skip
def test_jpeg_of_every_mode(mode, colour, expected):
    data = encode(Image.new(mode, (16, 16), colour), "JPEG", quality=100)
    assert (b"Adobe" in data) == (mode == "CMYK")  # which stores its inks inverted
    assert np.abs(np.asarray(load_image(data)).astype(int) - expected).max() <= 2


# What to do to the stored array to see it upright (EXIF 2.32, tag Orientation).
TURNS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
    8: lambda a: np.rot90(a, 1),
}


@pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", TURNS)
def test_exif_orientation(orientation, format):
    stored = noise(3, 5)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(stored, format, exif=exif, **({"lossless": True} if format == "WEBP" else {}))
    upright = TURNS[orientation](stored)
    opened = Image.open(io.BytesIO(data))
    for image in (data, opened, opened.convert("RGB"), load_image(data)):  # the last: never turned twice
        assert np.array_equal(np.asarray(load_image(image)), upright)


def test_exif_orientation_of_a_jpeg():
    corners = np.zeros((32, 48, 3), np.uint8)
    corners[:16, :16] = RED
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying: the top left of what is stored is the top right of what was seen
    rgb = load_image(encode(corners, "JPEG", quality=95, exif=exif))
    assert rgb.size == (32, 48)
    assert rgb.getpixel((28, 4))[0] > 200 and max(rgb.getpixel((4, 4))) < 30


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
@pytest.mark.parametrize("exif", [b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff"])
def test_a_photo_with_damaged_exif_is_still_a_photo(exif, format):
    data = encode(Image.new("RGB", (8, 8), "white"), format, exif=exif)
    assert set(pixels_of(data)) == {WHITE}


def test_wide_grey_of_older_pillow():
    """Before Pillow 11 a 16-bit PNG opened with mode I."""
    image = row("I", 0, 0x1234, 0xFFFF)
    image.format = "PNG"
    assert pixels_of(image) == [BLACK, (0x12,) * 3, WHITE]


@pytest.mark.parametrize("image", [
    Image.fromarray(np.array([[0, 70000]], np.int32)),
    Image.fromarray(np.array([[0.0, 1.0]], np.float32)),
    encode(np.array([[0, 70000]], np.int32), "TIFF"),
    encode(np.array([[0.0, 1.0]], np.float32), "TIFF"),
])  # fmt: skip
def test_pixels_without_a_defined_white(image):
    with pytest.raises(ImageError, match=r"32-bit pixels .*scale them to 0…255"):
        load_image(image)


# Kinds of input.


@pytest.fixture
def photo(tmp_path) -> Path:
    path = tmp_path / "a photo.png"
    path.write_bytes(encode(noise()))
    return path


def kinds(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    return {
        "str": str(path),
        "Path": path,
        "file URL": path.as_uri(),
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "BytesIO": io.BytesIO(data),
        "dict with a path": {"path": str(path), "bytes": None},
        "dict with bytes": {"path": None, "bytes": data},
        "dict with bytes and another machine's path": {"path": "/gone/photo.png", "bytes": data},
        "data URI": "data:image/png;base64," + base64.b64encode(data).decode(),
        "percent-encoded data URI": "data:image/png," + "".join(f"%{byte:02x}" for byte in data),
        "arrow scalar": pyarrow.scalar(str(path)),
    }


def test_all_encoded_kinds_are_the_same_image(photo):
    for kind, image in kinds(photo).items():
        assert np.array_equal(np.asarray(load_image(image)), noise()), kind
        assert content_key(image) == content_key(photo), kind
        assert load_image(image, expected_key=content_key(photo)).size == (64, 48), kind


def test_path_from_home_and_relative_path(photo, monkeypatch):
    monkeypatch.setenv("HOME", str(photo.parent))
    monkeypatch.chdir(photo.parent)
    assert content_key("~/a photo.png") == content_key("a photo.png") == content_key(photo)


def test_an_open_file_is_read_from_its_start_and_left_where_it_was(photo):
    with open(photo, "rb") as file:
        file.seek(10)
        assert content_key(file) == content_key(photo)
        assert file.tell() == 10


def test_arrays_and_tensors_are_the_same_image():
    pixels = noise()
    grey = pixels[..., 0]
    for image in (pixels, torch.from_numpy(pixels), Image.fromarray(pixels), pixels[:, ::-1][:, ::-1]):
        assert np.array_equal(np.asarray(load_image(image)), pixels)
        assert content_key(image) == content_key(pixels)
    for image in (grey, grey[..., None], Image.fromarray(grey), np.dstack([grey] * 3)):
        assert np.array_equal(np.asarray(load_image(image)), np.dstack([grey] * 3))
        assert content_key(image) == content_key(grey)


def test_the_result_shares_no_memory_with_what_was_given():
    for image in (Image.new("RGB", (2, 2)), np.zeros((2, 2, 3), np.uint8)):
        rgb = load_image(image)
        rgb.putpixel((0, 0), RED)
        assert pixels_of(image) == [BLACK] * 4


@settings(max_examples=60, deadline=None)
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
    assert content_key(array) == content_key(array.copy()) == content_key(rgb)
    changed = rgb.copy()
    changed[0, 0, 0] ^= 1
    assert content_key(changed) != content_key(rgb)


# Keys.


def test_key_is_the_digest_of_the_bytes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"a")
    # XXH3's published 128-bit digest of the one letter a.
    assert content_key(path) == content_key(b"a") == "file:a96faf705af16834e6c632b61e964e1f"


def test_keys_go_by_content(tmp_path, photo):
    twin = tmp_path / "twin.jpg"
    twin.write_bytes(photo.read_bytes())
    assert content_key(twin) == content_key(photo)
    before = content_key(photo)
    photo.write_bytes(encode(noise(seed=1)))
    assert content_key(photo) != before


def test_same_pixels_in_another_shape_have_another_key():
    assert content_key(np.zeros((2, 3), np.uint8)) != content_key(np.zeros((3, 2), np.uint8))


def test_key_of_a_pil_image_sees_edits_in_place(photo):
    image = Image.open(photo)
    before = content_key(image)
    assert before == content_key(Image.open(photo)) == content_key(noise())
    image.putpixel((0, 0), (1, 2, 3))
    assert image.filename  # still says where it came from
    assert content_key(image) != before
    assert pixels_of(image)[0] == (1, 2, 3)


def test_key_of_a_palette_is_that_of_its_colours():
    assert content_key(palette(RED, GREEN)) == content_key(row("RGB", RED, GREEN))
    assert content_key(palette(RED, GREEN)) != content_key(palette(RED, BLUE))


def test_an_image_that_changes_between_key_and_pixels(photo):
    key = content_key(photo)
    photo.write_bytes(encode(noise(seed=1)))
    with pytest.raises(ImageError, match=r"a photo.png' changed while being scored"):
        load_image(photo, expected_key=key)
    array = np.zeros((2, 2), np.uint8)
    key = content_key(array)
    assert load_image(array, expected_key=key).size == (2, 2)
    array[0, 0] = 1
    with pytest.raises(ImageError, match=r"array of shape .* changed while being scored"):
        load_image(array, expected_key=key)


# Errors. Both functions raise those that need no decoding.

EARLY = {
    "None": (None, "None is not an image; expected a path"),
    "a missing value": (float("nan"), "nan is not an image"),
    "number": (3, "3 is not an image"),
    "list": ([1, 2], "an object of type list is not an image"),
    "missing file": ("/no/such.jpg", "no such file: '/no/such.jpg'"),
    "missing relative file": ("no_such.jpg", r"no such file: 'no_such.jpg' in /"),
    "empty string": ("", "an empty string"),
    "NUL": ("a\0b", "null byte|null character"),
    "empty bytes": (b"", r"bytes of length 0 is empty \(0 bytes\)"),
    "empty dict": ({}, "is not an image"),
    "dict of something else": ({"url": "x"}, "is not an image"),
    "dict of None": ({"path": None, "bytes": None}, "is not an image"),
    "dict with text as bytes": ({"bytes": "text"}, "is not an image"),
    "dict with a number as path": ({"path": 3}, "is not an image"),
    "URL": ("https://x.org/a.jpg", "is a URL.*allow_urls=True"),
    "URL in a dict": ({"path": "http://x.org/a.jpg", "bytes": None}, "allow_urls=True"),
    "URL with a password": ("https://me:secret@x.org/a", r"^image: 'https://…@x\.org/a' is a URL"),
    "other scheme": ("s3://bucket/a.jpg", "expected a path"),
    "file URL of another host": ("file://host/a.jpg", "expected a path"),
    "data URI without data": ("data:image/png;base64", "without a comma"),
    "data URI with bad base64": ("data:image/png;base64,@@@", "cannot be decoded"),
    "empty data URI": ("data:image/png;base64,", "empty"),
    "bare base64": (base64.b64encode(bytes(range(256)) * 8).decode(), "no such file|cannot be read"),
    "text file": (io.StringIO("x"), 'open it with mode "rb"'),
    "booleans": (np.zeros((2, 2), bool), "expected uint8"),
    "floats to 1": (
        np.full((2, 2, 3), 0.5),
        "expected uint8",
    ),
    "floats to 255": (np.full((2, 2, 3), 99.5), "expected uint8 from 0 to 255"),
    "normalised floats": (np.array([[-1.5, 2.5]]), "expected uint8"),
    "NaN": (np.array([[0, np.nan]]), "expected uint8"),
    "infinity": (np.array([[0, np.inf]]), "expected uint8"),
    "half floats": (torch.zeros(2, 2, dtype=torch.bfloat16), "of uint8"),
    "float tensor": (torch.zeros(2, 2), "expected uint8"),
    "int64": (np.full((2, 2), 7), "dtype int64.*expected uint8"),
    "uint16": (np.full((2, 2), 700, np.uint16), "expected uint8"),
    "objects": (np.array([["a", "b"]], object), "expected uint8"),
    "channels first": (np.zeros((3, 8, 8), np.uint8), "1, 3 or 4 channels"),
    "channels first tensor": (torch.zeros(1, 8, 8), "1, 3 or 4 channels"),
    "two channels": (np.zeros((8, 8, 2), np.uint8), "1, 3 or 4 channels"),
    "encoded file as an array": (np.zeros(9, np.uint8), r"expected \(height, width\)"),
    "batch": (np.zeros((5, 8, 8, 3), np.uint8), r"expected \(height, width\)"),
    "no dimension": (np.uint8(3), r"expected \(height, width\)"),
    "five dimensions": (np.zeros((1, 1, 1, 1, 1), np.uint8), r"expected \(height, width\)"),
    "no pixels": (np.zeros((0, 8, 3), np.uint8), "has no pixels"),
    "PIL image without pixels": (Image.new("RGB", (0, 5)), r"\(mode RGB, 0 × 5\) has no pixels"),
}


@pytest.mark.parametrize("name", EARLY)
def test_what_is_no_image(name):
    image, message = EARLY[name]
    for function in (content_key, load_image):
        with pytest.raises(ImageError, match=message) as caught:
            function(image)
        assert caught.value.field == "image" and caught.value.row is None


def test_places_that_are_no_file(tmp_path):
    empty = tmp_path / "empty.jpg"
    empty.touch()
    os.mkfifo(tmp_path / "pipe")
    for function in (content_key, load_image):
        with pytest.raises(ImageError, match=r"empty.jpg' is empty \(0 bytes\)"):
            function(empty)
        with pytest.raises(ImageError, match="expected one image file"):
            function(tmp_path)
        with pytest.raises(ImageError, match="no regular file"):
            function(tmp_path / "pipe")
        with pytest.raises(ImageError, match=r"empty.jpg/x' cannot be read: Not a directory"):
            function(empty / "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(photo):
    photo.chmod(0)
    with pytest.raises(ImageError, match="cannot be read: Permission denied"):
        content_key(photo)


def test_file_that_fails_while_it_is_read(photo, monkeypatch):
    class Failing(io.BytesIO):
        def read(self, *_):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("builtins.open", lambda *_: Failing())
    for function in (content_key, load_image):
        with pytest.raises(ImageError, match=r"a photo.png' cannot be read: Input/output error"):
            function(photo)


def test_closed_things(photo):
    file = open(photo, "rb")
    file.close()
    with pytest.raises(ImageError, match="closed file; pass its path or bytes"):
        content_key(file)
    image = Image.open(photo)
    image.close()
    with pytest.raises(ImageError, match="cut short or damaged"):
        content_key(image)


NOT_IMAGES = {
    "HTML": b"<!DOCTYPE html><html><title>404</title>",
    "JSON": b'{"error": "gone"}',
    "LFS": b"version https://git-lfs.github.com/spec/v1\noid",
    "zeros": bytes(5000),
    "text": "Überall\nist Text".encode(),
    "other bytes": b"\x01\xfe\x03\x04",
    "beginning of a JPEG": encode(noise(), "JPEG")[:20],
    "beginning of a GIF": encode(noise(), "GIF")[:9],
}


@pytest.mark.parametrize("name", NOT_IMAGES)
def test_files_that_are_no_image(name, tmp_path):
    data = NOT_IMAGES[name]
    path = tmp_path / "photo.jpg"
    path.write_bytes(data)
    with pytest.raises(ImageError, match=r"photo.jpg' is not an image that can be read"):
        load_image(path)


def test_drawings_are_refused_before_an_interpreter_sees_them():
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    with pytest.raises(ImageError, match="is EPS, not a raster image"):
        load_image(eps)


@pytest.fixture
def lenient():
    """A program that has told Pillow to accept files that are cut short."""
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    yield
    ImageFile.LOAD_TRUNCATED_IMAGES = False


FORMATS = ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"]


@pytest.mark.filterwarnings("ignore:Truncated File Read", "ignore:Corrupt EXIF")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kept", [0.3, 0.5, 0.9, 0.99])
def test_a_file_cut_short_is_an_error(format, kept, lenient, tmp_path):
    data = encode(noise(), format)
    path = tmp_path / "photo"
    path.write_bytes(data[: int(len(data) * kept)])
    for flag in (False, True):
        ImageFile.LOAD_TRUNCATED_IMAGES = flag
        assert load_image(data).size == (64, 48)
        with pytest.raises(ImageError, match=r"photo' is (cut short or damaged|not an image)"):
            load_image(path)
        assert ImageFile.LOAD_TRUNCATED_IMAGES == flag


def test_a_lazy_pil_image_cut_short_is_an_error(lenient):
    image = Image.open(io.BytesIO(encode(noise(), "JPEG")[:-200]))
    with pytest.raises(ImageError, match="cut short or damaged"):
        content_key(image)


def test_a_damaged_png_is_an_error(lenient):
    data = bytearray(encode(noise()))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(ImageError, match="cut short or damaged"):
        load_image(data)


def test_decompression_bombs_are_refused_before_they_are_decoded():
    def bomb(width, height):
        return png(width, height, bits=8, colour=GREY, lines=b"\0")

    for action in ("ignore", "error"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            with pytest.raises(ImageError, match=r"the limit is|too large"):
                load_image(bomb(10_000, 10_000))
            with pytest.raises(ImageError, match=r"the limit is|too large"):
                load_image(bomb(100_000, 100_000))


def test_the_limit_is_that_of_pillow_and_holds_for_all(monkeypatch, photo):
    for image in (photo, Image.open(photo), noise()):
        with monkeypatch.context() as patch:
            patch.setattr(Image, "MAX_IMAGE_PIXELS", 64 * 48 - 1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with pytest.raises(ImageError, match="3,072 pixels; the limit is 3,071"):
                    load_image(image)
            patch.setattr(Image, "MAX_IMAGE_PIXELS", 64 * 48)
            assert load_image(image).size == (64, 48)
            patch.setattr(Image, "MAX_IMAGE_PIXELS", None)
            assert load_image(image).size == (64, 48)


def test_a_text_bomb_in_a_png():
    info = PngImagePlugin.PngInfo()
    info.add_text("comment", "x" * 5_000_000, zip=True)
    data = encode(noise(), pnginfo=info)
    assert len(data) < 50_000
    with pytest.raises(ImageError, match=r"(?i)decompressed data too large"):
        load_image(data)


# Threads.


class SlowFile(io.BytesIO):
    """Lets other threads in between going to a place, reading there and going back."""

    def seek(self, *place):
        found = super().seek(*place)
        time.sleep(0.001)
        return found

    def read(self, *size):
        data = super().read(*size)
        time.sleep(0.001)
        return data


def test_one_object_in_many_threads():
    pixels = noise(300, 400)
    data = encode(pixels)
    together = threading.Barrier(8)

    def load(image):
        together.wait(10)
        return content_key(image), np.asarray(load_image(image))

    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for image in (Image.open(io.BytesIO(data)), SlowFile(data)):
                results = list(pool.map(load, [image] * 8))
                assert len({key for key, _ in results}) == 1
                assert all(np.array_equal(rgb, pixels) for _, rgb in results)
        transparent = palette(RED, GREEN, transparency=1)
        assert list(pool.map(pixels_of, [transparent] * 40)) == [[RED, WHITE]] * 40


def test_files_cut_short_in_many_threads(lenient):
    whole = encode(noise(), "JPEG")

    def is_read(data: bytes) -> bool:
        with contextlib.suppress(ImageError):
            load_image(data)
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(is_read, [whole, whole[:-300]] * 100)) == [True, False] * 100
    assert ImageFile.LOAD_TRUNCATED_IMAGES
