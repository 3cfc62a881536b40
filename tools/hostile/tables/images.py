"""Images for the caption "red": arrays, addresses and files."""

from __future__ import annotations

import io
import os
import struct
import zlib

import numpy as np
import torch
from PIL import Image

from tests.photos import GREY, encode, png
from tools.tiny.colours import RED

from .. import surfaces
from ..case import cases, refused, scored

ONE = scored(2.5)
_PNG = encode(RED)
_BMP = encode(Image.fromarray(RED), "BMP")


class _Lies:
    shape = "four"
    dtype = None


_WRONG = [
    ("array with masked pixels", np.ma.masked_equal(RED, 0), ["masked pixels"]),
    ("dict with a number as bytes", {"bytes": 7, "path": None}, []),
    ("lone surrogate", "red\ud800.png", []),
    ("path of 100,000 letters", "r" * 100_000, []),
    ("escape sequences in a path", "red\x1b[31m.png", []),
    ("unknown user", "~nobody-of-that-name/red.png", []),
    ("file address with a bracket", "file://[::1/x.jpg", []),
    ("file address of another machine", "file://example.org/red.png", []),
    ("array of four dimensions", np.zeros((1, 4, 4, 3), np.uint8), ["(1, 4, 4, 3)"]),
    ("tensor on meta", torch.zeros(4, 4, 3, dtype=torch.uint8, device="meta"), []),
    ("tensor that is sparse", torch.zeros(4, 4, dtype=torch.uint8).to_sparse(), []),
    ("object whose shape lies", _Lies(), []),
]
_RIGHT = [
    ("not aligned in memory", np.tile(RED[:1, :1], (8, 8, 2))[::2, ::2, :3], ONE),
    ("read-only", np.broadcast_to(RED[:1, :1], (4, 4, 3)), ONE),
]
_ADDRESSES = [
    ("password", "http://user:secret@127.0.0.1/red.png"),
    ("nul in the host", "http://127.0.0.1\0/red.png"),
    ("line end in the host", "http://127.0.0.1\r\nHost: x/red.png"),
    ("lone surrogate", "http://127.0.0.1/\ud800.png"),
    ("backslashes", "http:\\\\127.0.0.1\\red.png"),
]


def _animated() -> bytes:
    packed = io.BytesIO()
    Image.fromarray(RED).save(
        packed, "GIF", save_all=True, append_images=[Image.new("RGB", (3, 4), "blue")] * 20
    )
    return packed.getvalue()


def _sparse(path) -> None:
    path.touch()
    os.truncate(path, 3 * 2**30)


def _text(size: int) -> bytes:
    """A red PNG with a text of many bytes, packed to few."""
    data = b"zTXtk\0\0" + zlib.compress(bytes(size))
    return (
        _PNG[:33] + struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data)) + _PNG[33:]
    )


_GOOD = [
    ("20,000 wide, one high", "a.png", encode(np.tile(RED[:1, :1], (1, 20_000, 1)))),
    ("name with markup", "<b>[red].png", _PNG),
    ("escape sequences in the name", "\x1b[31m.png", _PNG),
    ("animation", "a.gif", _animated()),
    ("text chunk", "a.png", _text(10_000)),
    ("rubbish at the end", "a.png", _PNG + b"rubbish" * 100),
]
_BAD = [
    ("PNG with a wrong checksum", "a.png", _PNG[:29] + b"\0\0\0\0" + _PNG[33:]),
    ("BMP of negative width", "a.bmp", _BMP[:18] + struct.pack("<i", -5) + _BMP[22:]),
    ("TIFF whose directory is itself", "a.tif", b"II*\0\x08\0\0\0\0\0\x08\0\0\0"),
    ("PPM of 5,000 digits", "a.ppm", b"P6 " + b"9" * 5_000 + b" 9 255\n"),
    ("PNG of no width", "a.png", png(0, 5, bits=8, colour=GREY, lines=b"")),
    ("2 to the 62nd pixels", "a.png", png(2**31 - 1, 2**31 - 1, bits=8, colour=GREY, lines=b"")),
    ("drawing", "a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>"),
    ("pointer of Git LFS", "a.jpg", b"version https://git-lfs.github.com/spec/v1\n"),
    ("a folder", "a.png", os.mkdir),
    ("a link in a circle", "a.png", lambda path: path.symlink_to(path.name)),
    ("a link to a device", "a.png", lambda path: path.symlink_to("/dev/zero")),
    ("3 GB of nothing", "a.jpg", _sparse),
]

CASES = [
    *cases("array", surfaces.image, ((name, given, refused("row 0", "image", *words)) for name, given, words in _WRONG)),
    *cases("array", surfaces.image, _RIGHT),
    *cases("address", surfaces.image, ((name, given, refused("row 0", "image")) for name, given in _ADDRESSES)),
    *cases("image", surfaces.image_file, ((name, (file, content), ONE) for name, file, content in _GOOD)),
    *cases("image", surfaces.image_file, ((name, (file, content), refused(file)) for name, file, content in _BAD)),
]  # fmt: skip
