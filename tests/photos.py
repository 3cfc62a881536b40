"""Tiny images for the tests. In: pixels. Out: encoded files, also such as Pillow reads but does not write."""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def encode(image, format="PNG", **options):
    if isinstance(image, np.ndarray):
        image = Image.fromarray(image)
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def row(mode, *pixels):
    image = Image.new(mode, (len(pixels), 1))
    image.putdata(list(pixels))
    return image


def noise(height=48, width=64, seed=0):
    """An array that does not compress, so that every part of its file matters."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


GREY, COLOUR, PALETTE, GREY_ALPHA = 0, 2, 3, 4


def png(width, height, *, bits, colour, lines, chunks=()):
    """A PNG written by hand: `lines` are the rows as the format packs them, each after a filter byte 0."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    written = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), *chunks, (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        written += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return written
