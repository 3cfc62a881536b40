"""Images for the caption "red": arrays, and files."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from ...toy import RED
from ..case import cases, refused, scored

ONE = scored(2.5)

_ARRAYS = [
    ("None", None, refused("row 0", "image")),
    ("number", 7, refused("row 0", "image", "7")),
    ("list", [1, 2], refused("row 0", "image", "list")),
    ("empty dict", {}, refused("row 0", "image")),
    ("dict with a number as bytes", {"bytes": 7, "path": None}, refused("row 0", "image")),
    ("empty bytes", b"", refused("row 0", "image")),
    ("text with a nul", "red\0.png", refused("row 0", "image")),
    ("lone surrogate", "red\ud800.png", refused("row 0", "image")),
    ("path of 100,000 letters", "r" * 100_000, refused("row 0", "image")),
    ("escape sequences in a path", "red\x1b[31m.png", refused("row 0", "image")),
    ("unknown user", "~nobody-of-that-name/red.png", refused("row 0", "image")),
    ("data URI that is no base64", "data:image/png;base64,§§§", refused("row 0", "image")),
    ("data URI of text", "data:text/html,<b>red</b>", refused("row 0", "image")),
    ("file address with a bracket", "file://[::1/x.jpg", refused("row 0", "image")),
    ("file address of another machine", "file://example.org/red.png", refused("row 0", "image")),
    ("web address without leave", "http://127.0.0.1:1/red.png", refused("row 0", "image")),
    ("array of no pixels", np.zeros((0, 3, 3), np.uint8), refused("row 0", "no pixels")),
    ("array of four dimensions", np.zeros((1, 4, 4, 3), np.uint8), refused("row 0", "(1, 4, 4, 3)")),
    ("array without dimensions", np.array(7, np.uint8), refused("row 0", "image")),
    ("channels first", np.zeros((3, 8, 9), np.uint8), refused("row 0", "(3, 8, 9)")),
    ("two channels", np.zeros((8, 9, 2), np.uint8), refused("row 0", "channels")),
    ("floats of 0 to 1", np.zeros((4, 4, 3)), refused("row 0", "uint8")),
    ("floats with NaN", np.full((4, 4, 3), np.nan), refused("row 0", "uint8")),
    ("booleans", np.zeros((4, 4), bool), refused("row 0", "uint8")),
    ("objects", np.full((4, 4, 3), None, object), refused("row 0", "uint8")),
    ("records", np.zeros((4, 4), [("r", "u1")]), refused("row 0", "uint8")),
    ("a billion pixels in no memory", lambda folder: np.broadcast_to(np.zeros((1, 1, 3), np.uint8), (40_000, 40_000, 3)),
     refused("row 0", "pixels")),
    ("tensor on meta", lambda folder: torch.zeros(4, 4, 3, dtype=torch.uint8, device="meta"), refused("row 0")),
    ("tensor that is sparse", lambda folder: torch.zeros(4, 4, dtype=torch.uint8).to_sparse(), refused("row 0")),
    ("tensor with a gradient", lambda folder: torch.zeros(4, 4, 3, requires_grad=True), refused("row 0", "uint8")),
    ("closed image", lambda folder: _closed(), refused("row 0", "image")),
    ("image of floats", lambda folder: Image.new("F", (4, 4)), refused("row 0", "32-bit")),
    ("object whose array raises", lambda folder: _Raises(), refused("row 0", "image")),
    ("object whose shape lies", lambda folder: _Lies(), refused("row 0", "image")),
    ("not aligned in memory", lambda folder: _strided(), ONE),
    ("read-only", lambda folder: np.broadcast_to(RED[:1, :1], (4, 4, 3)), ONE),
    ("subclass of array", lambda folder: np.ma.masked_array(RED, mask=True), refused("row 0", "masked")),
    ("one pixel", np.array([[[255, 0, 0]]], np.uint8), ONE),
]  # fmt: skip


def _closed() -> Image.Image:
    image = Image.new("RGB", (4, 4))
    image.close()
    return image


def _strided() -> np.ndarray:
    wide = np.zeros((8, 8, 4), np.uint8)
    wide[..., 0] = 255
    return wide[::2, ::2, :3]


class _Raises:
    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise RuntimeError("no")


class _Lies:
    shape = "four"
    dtype = None


CASES = cases("array", "image", _ARRAYS)
