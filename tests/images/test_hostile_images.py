"""Images that are huge or made to fill the memory, and objects that only look like images: one error each."""

from __future__ import annotations

import functools
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from capscore.errors import CapscoreError, ImageError
from capscore.files.sizes import IMAGE_BYTES
from capscore.images.load import content_key, load_image

from ..photos import COLOUR, encode, noise, png


@pytest.fixture
def sparse(tmp_path):
    """A file of 3 GB that takes no room."""
    path = tmp_path / "photo.jpg"
    with open(path, "wb") as file:
        file.write(b"\xff\xd8\xff")
        file.truncate(3 * 10**9)
    return path


@pytest.mark.parametrize("function", [content_key, load_image])
def test_a_file_beyond_the_limit_is_refused_before_it_is_read(sparse, monkeypatch, function):
    def opened(*_, **__):
        raise AssertionError("it was opened")

    monkeypatch.setattr("builtins.open", opened)
    for image in (sparse, {"path": str(sparse), "bytes": None}, f"file://{sparse}"):
        with pytest.raises(
            ImageError, match=r"has 3\.0 GB; the limit is 536\.9 MB \(CAPSCORE_MAX_IMAGE_BYTES"
        ):
            function(image)


@pytest.mark.parametrize("function", [content_key, load_image])
def test_the_limit_is_that_of_every_form(monkeypatch, function, tmp_path):
    data = encode(noise())
    (tmp_path / "a.png").write_bytes(data)
    forms = [tmp_path / "a.png", data, io.BytesIO(data), {"bytes": data, "path": None}]
    monkeypatch.setenv(IMAGE_BYTES.variable, str(len(data)))
    for image in forms:
        function(image)
    monkeypatch.setenv(IMAGE_BYTES.variable, str(len(data) - 1))
    for image in forms:
        with pytest.raises(ImageError, match="the limit is"):
            function(image)
    monkeypatch.setenv(IMAGE_BYTES.variable, "all")
    with pytest.raises(CapscoreError, match=r"CAPSCORE_MAX_IMAGE_BYTES is 'all'; expected a number of bytes"):
        function(tmp_path / "a.png")


def test_an_open_file_without_end_is_read_up_to_the_limit(monkeypatch):
    class Endless(io.BytesIO):
        def read(self, size=-1):
            assert 0 <= size <= 1001
            return b"\xff" * size

    monkeypatch.setenv(IMAGE_BYTES.variable, "1000")
    with pytest.raises(ImageError, match="the limit is"):
        load_image(Endless(b"x"))


def _tiled_bomb() -> bytes:
    """A TIFF of 8 × 8 pixels in one tile of 30,000 × 30,000, packed a thousandfold."""
    packed = zlib.compress(bytes(2**20)) * 50
    entries = [
        (256, 4, 1, 8), (257, 4, 1, 8), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1),
        (322, 4, 1, 30_000), (323, 4, 1, 30_000), (324, 4, 1, 8), (325, 4, 1, len(packed)),
    ]  # fmt: skip
    head = struct.pack("<2sHI", b"II", 42, 8 + len(packed))
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return head + packed + directory + struct.pack("<I", 0)


@functools.cache
def _packed_zeros() -> bytes:
    return zlib.compress(bytes(200 * 2**20), 9)


def _text_chunk(kind: bytes) -> bytes:
    text = _packed_zeros()
    head = b"key\0\0" + (b"\0\0\0" if kind == b"iTXt" else b"")
    if kind == b"iTXt":
        head = b"key\0\1\0\0\0"
    return png(1, 1, bits=8, colour=COLOUR, lines=b"\0\1\2\3", chunks=[(kind, head + text)])


def _gif(width: int, height: int) -> bytes:
    small = bytearray(encode(noise(2, 2), "GIF"))
    small[6:10] = struct.pack("<HH", width, height)
    return bytes(small)


def _webp(width: int, height: int) -> bytes:
    small = bytearray(encode(noise(2, 2), "WEBP", lossless=True))
    place = (
        small.index(b"VP8L") + 9
    )  # after the length and the signature: width and height less 1, 14 bits each
    bits = int.from_bytes(small[place : place + 4], "little") & ~(2**28 - 1)
    small[place : place + 4] = (bits | (height - 1) << 14 | (width - 1)).to_bytes(4, "little")
    return bytes(small)


BOMBS = {
    "zTXt": lambda: _text_chunk(b"zTXt"),
    "iTXt": lambda: _text_chunk(b"iTXt"),
    "iCCP": lambda: _text_chunk(b"iCCP"),
    "PNG": lambda: png(60_000, 60_000, bits=8, colour=COLOUR, lines=bytes(2**20)),
    "TIFF tile": _tiled_bomb,
    "GIF": lambda: _gif(65_535, 65_535),
    "WebP": lambda: _webp(16_383, 16_383),
    "IDAT beyond the picture": lambda: png(
        1, 1, bits=8, colour=COLOUR, lines=b"\0\1\2\3" + bytes(200 * 2**20)
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_take_little_memory(name):
    data = BOMBS[name]()
    assert len(data) < 2**20
    load_image(encode(noise()))  # what is imported once does not count
    before = _start_of_peak()
    try:
        load_image(data)
    except ImageError as error:
        assert len(str(error)) < 400
    else:
        assert name in ("iCCP", "IDAT beyond the picture")  # the picture itself is whole
    assert _peak() - before < 100 * 2**20


def _start_of_peak() -> int:
    """The resident memory now, from which a new peak is measured; decoders are C, so Python knows nothing."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the peak of the memory can be measured anew on Linux only")
    return _peak()


def _peak() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return int(line.split()[1]) * 1024


class Pretender:
    """Something that says it is an array and fails when it is asked."""

    shape, dtype = (2, 2, 3), "uint8"

    def __init__(self, answer):
        self.answer = answer

    def __array__(self, dtype=None, copy=None):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


ZEROS = np.zeros((2, 2, 3))
ODD = {
    "meta": (torch.zeros(2, 2, 3, dtype=torch.uint8, device="meta"), "cannot be made a NumPy array"),
    "sparse": (torch.zeros(2, 2, dtype=torch.uint8).to_sparse(), "cannot be made a NumPy array"),
    "bfloat16": (torch.zeros(2, 2, 3, dtype=torch.bfloat16), "of uint8"),
    "gradient": (torch.zeros(2, 2, 3, requires_grad=True), "expected uint8"),
    "float": (ZEROS, "expected uint8"),
    "float16": (ZEROS.astype(np.float16), "expected uint8"),
    "complex": (ZEROS.astype(complex), "expected uint8"),
    "object": (ZEROS.astype(object), "expected uint8"),
    "bool": (ZEROS.astype(bool), "expected uint8"),
    "times": (ZEROS.astype("M8[s]"), "expected uint8"),
    "fields": (np.zeros((2, 2), [("a", "u1")]), "expected uint8"),
    "0-d": (np.array(3, np.uint8), "expected"),
    "5-d": (np.zeros((1, 1, 1, 1, 1), np.uint8), "expected"),
    "no channels": (np.zeros((2, 2, 0), np.uint8), "has no pixels"),
    "huge": (np.broadcast_to(np.uint8(0), (10**6, 10**6, 3)), "the limit is 89,478,485"),
    "huge floats": (np.broadcast_to(np.float32(0), (10**6, 10**6, 3)), "the limit is 89,478,485"),
    "masked": (np.ma.masked_all((2, 2, 3), np.uint8), "has masked pixels"),
    "raises": (Pretender(RuntimeError("no\npixels")), "cannot be made a NumPy array of uint8: no pixels"),
    "answers wrongly": (Pretender([1]), "cannot be made a NumPy array"),
}


@pytest.mark.parametrize("function", [content_key, load_image])
@pytest.mark.parametrize("name", ODD)
def test_arrays_that_hold_no_picture(name, function):
    image, message = ODD[name]
    with pytest.raises(ImageError, match=message):
        function(image)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_has_no_shape():
    with pytest.raises(ImageError, match="an object of type Tensor cannot be made a NumPy array"):
        load_image(torch.nested.nested_tensor([torch.zeros(2, 2), torch.zeros(2, 3)]))


def test_arrays_in_any_order_of_memory():
    pixels = noise(5, 7)
    expected = np.asarray(load_image(pixels))
    for same in (pixels[::-1][::-1], np.asfortranarray(pixels), np.ma.masked_array(pixels)):
        np.testing.assert_array_equal(np.asarray(load_image(same)), expected)
    np.testing.assert_array_equal(np.asarray(load_image(pixels[::-1, ::-1])), expected[::-1, ::-1])


@pytest.mark.parametrize("damage", ["cut", "closed"])
def test_pil_images_that_turn_out_to_be_broken(damage):
    data = encode(noise())
    image = Image.open(io.BytesIO(data[: len(data) // 2] if damage == "cut" else data))
    if damage == "closed":
        image.fp.close()
    with pytest.raises(ImageError, match="cut short or damaged"):
        load_image(image)
