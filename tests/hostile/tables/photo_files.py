"""Files of photos for the caption "red"."""

from __future__ import annotations

import io
import os
import struct
import zlib

import numpy as np
from PIL import Image

from ...photos import COLOUR, GREY, encode, noise, png
from ...toy import RED
from ..case import cases, refused, scored

ONE = scored(2.5)
_NOISE = noise()
_PNG, _JPEG = encode(RED), encode(_NOISE, "JPEG")
_REDS = Image.fromarray(np.tile(RED, (8, 8, 1)))


def _red(format: str, **options: object) -> bytes:
    return encode(_REDS, format, **options)


def _bomb(width: int, height: int) -> bytes:
    """A PNG of few bytes that promises many pixels."""
    return png(width, height, bits=8, colour=GREY, lines=b"\0" * 1000)


def _animated() -> bytes:
    packed = io.BytesIO()
    frames = [Image.fromarray(RED), Image.new("RGB", (3, 4), "blue")]
    frames[0].save(packed, "GIF", save_all=True, append_images=frames[1:] * 20)
    return packed.getvalue()


def _exif(orientation: object) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return _red("PNG", exif=exif.tobytes())


def _sparse(path: os.PathLike) -> None:
    with open(path, "wb") as file:
        file.truncate(3 * 2**30)


def _circle(path) -> None:
    other = path.with_name("other.png")
    path.symlink_to(other)
    other.symlink_to(path)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# red in every mode that a file may have
_GOOD = [
    ("20,000 wide, one high", "a.png", encode(np.tile(RED[:1, :1], (1, 20_000, 1)))),
    ("palette", "a.png", encode(_REDS.convert("P"))),
    ("GIF", "a.gif", _red("GIF")),
    ("TIFF", "a.tif", _red("TIFF")),
    ("WebP without loss", "a.webp", _red("WEBP", lossless=True)),
    ("PNG named JPEG", "a.jpg", _PNG),
    ("PNG without a suffix", "a", _PNG),
    ("name of a formula", "=1+1.png", _PNG),
    ("name with markup", "<b>[red].png", _PNG),
    ("name of two hundred letters", "n" * 200 + ".png", _PNG),
    ("escape sequences in the name", "\x1b[31m.png", _PNG),
    ("animation", "a.gif", _animated()),
    ("text chunk of a megabyte", "a.png", _PNG[:-12] + _chunk(b"zTXt", b"k\0\0" + zlib.compress(b"a" * 10_000)) + _PNG[-12:]),
    ("rubbish at the end", "a.png", _PNG + b"rubbish" * 100),
    ("orientation 9", "a.png", _exif(9)),
    ("transparent, red below", "a.png", encode(Image.new("RGBA", (4, 4), (255, 0, 0, 255)))),
    ("16 bits per colour", "a.png", png(1, 1, bits=16, colour=COLOUR, lines=b"\0\xff\xff\0\0\0\0")),
]  # fmt: skip
_BAD = [
    ("empty", "a.png", b"", ["a.png"]),
    ("signature alone", "a.png", _PNG[:8], ["a.png"]),
    ("PNG cut short", "a.png", encode(_NOISE)[:-200], ["a.png", "cut short or damaged"]),
    ("PNG with a wrong checksum", "a.png", _PNG[:29] + b"\0\0\0\0" + _PNG[33:], ["a.png"]),
    ("PNG with damaged data", "a.png", encode(_NOISE)[:100] + b"\xff" * 50 + encode(_NOISE)[150:], ["a.png"]),
    ("JPEG cut short", "a.jpg", _JPEG[: len(_JPEG) // 2], ["a.jpg", "cut short or damaged"]),
    ("GIF cut short", "a.gif", encode(Image.fromarray(_NOISE), "GIF")[:800], ["a.gif"]),
    ("BMP of negative width", "a.bmp", _red("BMP")[:18] + struct.pack("<i", -5) + _red("BMP")[22:], ["a.bmp"]),
    ("TIFF whose directory is itself", "a.tif", b"II*\0\x08\0\0\0\0\0\x08\0\0\0", ["a.tif"]),
    ("WebP cut short", "a.webp", encode(_NOISE, "WEBP")[:-200], ["a.webp"]),
    ("PPM of 5,000 digits", "a.ppm", b"P6 " + b"9" * 5_000 + b" 9 255\n", ["a.ppm"]),
    ("PNG of no width", "a.png", _bomb(0, 5), ["a.png"]),
    ("400 million pixels", "a.png", _bomb(20_000, 20_000), ["pixels"]),
    ("2 to the 62nd pixels", "a.png", _bomb(2**31 - 1, 2**31 - 1), ["pixels"]),
    ("text chunk that unpacks to 100 MB", "a.png", _PNG[:33] + _chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**8))) + _PNG[33:], ["a.png"]),
    ("web page", "a.jpg", b"<!DOCTYPE html><title>404</title>", ["a.jpg"]),
    ("drawing", "a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", ["a.svg"]),
    ("PostScript", "a.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) run\n", ["EPS"]),
    ("HEIC", "a.heic", b"\0\0\0\x18ftypheic" + bytes(16), ["a.heic"]),
    ("gzip", "a.png", b"\x1f\x8b" + bytes(20), ["a.png"]),
    ("zeros", "a.png", bytes(1000), ["a.png"]),
    ("pointer of Git LFS", "a.jpg", b"version https://git-lfs.github.com/spec/v1\n", ["a.jpg"]),
    ("escape sequences", "a.png", b"\x1b[31mred\x1b]0;x\a", ["a.png"]),
    ("floats", "a.tif", encode(Image.new("F", (4, 4)), "TIFF"), ["32-bit"]),
    ("a folder", "a.png", lambda path: path.mkdir(), ["a.png"]),
    ("a pipe", "a.png", lambda path: os.mkfifo(path), ["a.png"]),
    ("a link in a circle", "a.png", _circle, ["a.png"]),
    ("a link to a device", "a.png", lambda path: path.symlink_to("/dev/zero"), ["a.png"]),
    ("3 GB of nothing", "a.jpg", _sparse, ["a.jpg", "CAPSCORE_MAX_IMAGE_BYTES"]),
]  # fmt: skip

CASES = cases(
    "image",
    "image_file",
    [
        *((name, (file, content), ONE) for name, file, content in _GOOD),
        *((name, (file, content), refused(*words)) for name, file, content, words in _BAD),
    ],
)
