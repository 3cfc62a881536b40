"""Folders of checkpoints, of InfoMetIC's weights and of caches, in each of which one file is hostile."""

from __future__ import annotations

import json
import os
import pickle
import struct

from ..case import cases, refused, scored

_DEEP = '{"a":' * 100_000
_DIGITS = f'{{"model_type": "clip", "projection_dim": {"9" * 5_000}}}'


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


def _circle(path) -> None:
    path.symlink_to(path.name)


def _folder(path) -> None:
    path.mkdir()


_JSON = [
    ("missing", None),
    ("empty", ""),
    ("cut short", '{"model_type": "cl'),
    ("a list", "[]"),
    ("100,000 levels", _DEEP),
    ("5,000 digits", _DIGITS),
    ("UTF-16", '{"model_type": "clip"}'.encode("utf-16")),
    ("a folder", _folder),
    ("a pipe", lambda path: os.mkfifo(path)),
    ("a link to a device", lambda path: path.symlink_to("/dev/zero")),
]
_KINDS = [
    ("an object", {"clip": 1}),
    ("null", None),
    ("unknown", "clap"),
    ("a path", "../../clip"),
    ("escape sequences", "\x1b[31mclip"),
    ("100,000 letters", "c" * 100_000),
]
_SIZES = [
    ("negative", {"projection_dim": -1}),
    ("text", {"projection_dim": "many"}),
    ("another one", {"projection_dim": 7}),
    ("towers that are lists", {"text_config": [], "vision_config": []}),
    ("no towers", {"text_config": {}, "vision_config": {}}),
]
_WEIGHTS = [
    ("missing", None),
    ("empty", b""),
    ("zeros", bytes(1000)),
    ("header of 2 to the 63rd bytes", _header(b"{}", 2**63 - 1)),
    ("header of 100 MB that is not there", _header(b"{}", 10**8)),
    ("header of 10,000 levels", _header(b'{"a":' * 10_000)),
    ("no tensor", _header(b"{}")),
    ("offsets beyond the end", _tensor(data_offsets=[0, 10**9])),
    ("offsets that are texts", _tensor(data_offsets=["0", "8"])),
    ("shape of 2 to the 64th", _tensor(shape=[2**62, 4])),
    ("unknown type of numbers", _tensor(dtype="F7")),
    ("a pickle", pickle.dumps(Harmful())),
    ("a pipe", lambda path: os.mkfifo(path)),
]
_INDEXES = [
    ("empty", ""),
    ("map is a list", '{"weight_map": []}'),
    ("map is empty", '{"weight_map": {}}'),
    ("part is a number", '{"weight_map": {"x": 7}}'),
    ("part outside the folder", '{"weight_map": {"x": "../../etc/passwd"}}'),
    ("part is a device", '{"weight_map": {"x": "/dev/zero"}}'),
    ("part that is not there", '{"weight_map": {"x": "model-00001-of-00002.safetensors"}}'),
    ("part with a nul", '{"weight_map": {"x": "a\\u0000.safetensors"}}'),
    ("100,000 levels", _DEEP),
]
_TOKENIZERS = [
    ("missing", None),
    ("a list", "[]"),
    ("100,000 levels", _DEEP),
    ("binary", bytes(range(256))),
]
_PROCESSORS = [
    ("a list", "[]"),
    ("100,000 levels", _DEEP),
]
_NETWORKS = [
    ("width negative", {"width": -1}),
    ("width of 2 to the 40th", {"width": 2**40}),
    ("heads zero", {"heads": 0}),
    ("a million layers", {"inter_layers": 10**6}),
    ("scale not a number", {"input_scale": "NaN"}),
    ("switch is a text", {"mask_padding": "no"}),
    ("unknown field", {"layers": 1}),
]
_CACHES = [
    ("a file that is text", lambda folder: _damaged(folder, b"text" * 1000), 0),
    ("a file cut in half", lambda folder: _damaged(folder, None), 0),
    ("a file whose page is damaged", lambda folder: _damaged(folder, 5000), 0),
    ("a file whose schema is damaged", lambda folder: _damaged(folder, "schema"), 0),
    ("an empty file", lambda folder: _damaged(folder, b""), 0),
    ("a folder in place of its file", lambda folder: _damaged(folder, "folder"), 0),
    ("a file in place of the folder", lambda folder: _plain_file(folder), 0),
    ("a device", lambda folder: "/dev/null", 0),
    ("nul", lambda folder: f"{folder}/a\0b", None),
    ("lone surrogate", lambda folder: f"{folder}/\ud800", None),
    ("300 letters", lambda folder: f"{folder}/{'c' * 300}", None),
    ("a link to itself", lambda folder: _self_link(folder), 0),
    ("home of nobody", lambda folder: "~nobody-of-that-name/cache", None),
]  # fmt: skip


def _filled(folder):
    """The file of a cache that holds what the case embeds."""
    import capscore

    from ...toy import RED, ColourBackbone

    cache = folder / "cache"
    capscore.load("mcs", backbone=ColourBackbone(), cache=cache).score(["red"], [RED])
    (database,) = [
        path for path in cache.iterdir() if path.suffix not in (".lock",) and "-" not in path.name[-4:]
    ]
    return cache, database


def _damaged(folder, how):
    cache, database = _filled(folder)
    content = bytearray(database.read_bytes())
    if how == "folder":
        database.unlink()
        database.mkdir()
    elif how == "schema":
        place = content.index(b"CREATE")
        content[place + 8 : place + 20] = b"\xff" * 12
        database.write_bytes(content)
    elif how is None:
        database.write_bytes(content[: len(content) // 2])
    elif isinstance(how, int):
        content[how : how + 100] = b"\xff" * 100
        database.write_bytes(content)
    else:
        database.write_bytes(how)
    return str(cache)


def _plain_file(folder):
    (folder / "plain").write_text("text")
    return str(folder / "plain")


def _self_link(folder):
    (folder / "circle").symlink_to("circle")
    return str(folder / "circle")


def _merged(name: str, value: object) -> tuple:
    return ("config.json", {name: value})


CASES = [
    *cases("checkpoint", "checkpoint", ((f"config.json: {name}", ("config.json", content), refused()) for name, content in _JSON)),
    *cases("checkpoint", "checkpoint", ((f"model_type: {name}", _merged("model_type", value), refused()) for name, value in _KINDS)),
    *cases("checkpoint", "checkpoint", ((f"sizes: {name}", ("config.json", value), refused()) for name, value in _SIZES)),
    *cases("checkpoint", "checkpoint", ((f"weights: {name}", ("model.safetensors", content), refused()) for name, content in _WEIGHTS)),
    *cases("checkpoint", "checkpoint", ((f"index: {name}", ("model.safetensors.index.json", content), refused()) for name, content in _INDEXES)),
    *cases("checkpoint", "checkpoint", ((f"tokenizer.json: {name}", ("tokenizer.json", content), refused()) for name, content in _TOKENIZERS)),
    *cases("checkpoint", "checkpoint", ((f"preprocessor_config.json: {name}", ("preprocessor_config.json", content), refused()) for name, content in _PROCESSORS)),
    *cases("network", "network", ((f"config.json: {name}", ("config.json", content), refused()) for name, content in _JSON)),
    *cases("network", "network", ((name, ("config.json", value), refused()) for name, value in _NETWORKS)),
    *cases("network", "network", ((f"weights: {name}", ("model.safetensors", content), refused()) for name, content in _WEIGHTS)),
    *cases("cache", "cache", ((name, given, refused("no folder can have this path") if score is None else scored(2.5)) for name, given, score in _CACHES)),
]  # fmt: skip
