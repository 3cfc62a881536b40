"""Folders of checkpoints, of InfoMetIC's weights and of caches, in each of which one file is hostile."""

from __future__ import annotations

import json
import os
import pickle
import struct

from .. import surfaces
from ..case import cases, refused


class Harmful:
    """A pickle that would write a file."""

    def __reduce__(self) -> tuple:
        return os.system, ("touch harmed",)


def _header(header: bytes, size: int | None = None) -> bytes:
    """A safetensors file without numbers."""
    return struct.pack("<Q", len(header) if size is None else size) + header


def _tensor(**more: object) -> bytes:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **more}
    return _header(json.dumps({"x": entry}).encode()) + bytes(8)


# what either kind of folder may have in place of a file
_FILES = [
    ("a folder", os.mkdir),
    ("a pipe", os.mkfifo),
    ("a link to a device", lambda path: path.symlink_to("/dev/zero")),
]
_CONFIGS = [
    ("a list", "[]"),
    ("100,000 levels", '{"a":' * 100_000),
    ("UTF-16", '{"model_type": "clip"}'.encode("utf-16")),
]
_WEIGHTS = [
    ("zeros", bytes(1000)),
    ("header of 100 MB that is not there", _header(b"{}", 10**8)),
    ("no tensor", _header(b"{}")),
    ("offsets beyond the end", _tensor(data_offsets=[0, 10**9])),
    ("shape of 2 to the 64th", _tensor(shape=[2**62, 4])),
    ("unknown type of numbers", _tensor(dtype="F7")),
    ("a pickle", pickle.dumps(Harmful())),
]
_OF_CLIP = [
    ("model_type: an object", {"model_type": {"clip": 1}}),
    ("model_type: a path", {"model_type": "../../clip"}),
    ("model_type: escape sequences", {"model_type": "\x1b[31mclip"}),
    ("width negative", {"projection_dim": -1}),
    ("towers that are lists", {"text_config": [], "vision_config": []}),
    ("no towers", {"text_config": {}, "vision_config": {}}),
]
_OF_INFOMETIC = [
    ("width negative", {"width": -1}),
    ("width of 2 to the 40th", {"width": 2**40}),
    ("heads zero", {"heads": 0}),
    ("a million layers", {"inter_layers": 10**6}),
    ("scale not a number", {"input_scale": "NaN"}),
    ("switch is a text", {"mask_padding": "no"}),
]


def _weights(kind: str, file: str, rows: list) -> list:
    return cases(
        kind,
        surfaces.weights,
        ((f"{file}: {name}", (kind, file, content), refused()) for name, content in rows),
    )


CASES = [
    *_weights("checkpoint", "config.json", [*_FILES, *_OF_CLIP]),
    *_weights("checkpoint", "model.safetensors", [*_FILES, *_WEIGHTS]),
    *_weights(
        "checkpoint",
        "model.safetensors.index.json",
        [
            ("part with a nul", '{"weight_map": {"x": "a\\u0000"}}'),
            ("part is a device", '{"weight_map": {"x": "/dev/zero"}}'),
        ],
    ),
    *_weights("checkpoint", "tokenizer.json", [("binary", bytes(range(256)))]),
    *_weights("network", "config.json", [*_FILES, *_CONFIGS, *_OF_INFOMETIC]),
    *_weights("network", "model.safetensors", [*_FILES, *_WEIGHTS]),
]
