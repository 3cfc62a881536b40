"""Captions → the pieces that a backbone's text tower reads, with their places, and each piece encoded alone.

In: texts and a backbone. Out: token ids with spans in characters; one row per id.

InfoMetIC encodes each token without its neighbours, since a text tower's states within a caption describe the
caption more than the word (Hu et al. 2023, appendix A).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np

from ..backbones.base import Backbone
from ..errors import CapscoreError, InputError, Setting
from ..text.checks import check_texts
from .config import InfoMetICConfig

MAX_PIECES = 32  # per caption (Hu et al. 2023, section 4.1)
REMEMBERED = 32_768  # rows per backbone, 64 MB with 512 numbers each
_BATCH = 128


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of one caption.

    Attributes:
        ids: p token ids, without special tokens.
        starts: int64 (p,), place of each piece's first character in the caption, counted from 0.
        ends: int64 (p,), place after its last character; equal to `starts` for a piece that writes nothing,
            such as a blank. Pieces of one character share its place.
        n_cut: Number of pieces beyond the limit, which are left out.
        seen: Number of characters before the first piece that was left out; all characters if none was.
    """

    ids: list[int]
    starts: np.ndarray
    ends: np.ndarray
    n_cut: int
    seen: int

    def __len__(self) -> int:
        return len(self.ids)


def split_pieces(backbone: Backbone, texts: Sequence[str], max_pieces: int = MAX_PIECES) -> list[Pieces]:
    """The pieces of captions; each distinct caption is tokenised once.

    Args:
        backbone: Backbone with `piece_spans`.
        texts: n captions; no prefix is added.
        max_pieces: Maximum number of pieces per caption, at least 1.

    Returns:
        n `Pieces`. Equal captions share one object. A caption of blanks may have no pieces.

    Raises:
        InputError: a row is not a string (the error has its number), or `max_pieces` is less than 1.
        CapscoreError: the backbone cannot say where its tokens are.

    >>> from capscore import load_backbone
    >>> (pieces,) = split_pieces(load_backbone("embedded", device="cpu"), ["Two Rottweilers run"])
    >>> ["Two Rottweilers run"[a:b] for a, b in zip(pieces.starts, pieces.ends)]
    ['Two', 'Ro', 'ttweiler', 's', 'run']
    """
    check_texts(texts)
    if isinstance(max_pieces, bool) or not isinstance(max_pieces, Integral) or max_pieces < 1:
        raise InputError(Setting("max_pieces", max_pieces), ": expected a whole number of at least 1")
    distinct = list(dict.fromkeys(texts))
    found = {
        text: _cut(text, spans, max_pieces)
        for text, spans in zip(distinct, backbone.piece_spans(distinct), strict=True)
    }
    return [found[text] for text in texts]


def _cut(text: str, spans: Sequence[tuple[int, int, int]], most: int) -> Pieces:
    places = np.array([span for _, *span in spans[:most]], np.int64).reshape(-1, 2)
    return Pieces(
        ids=[token for token, _, _ in spans[:most]],
        starts=places[:, 0],
        ends=places[:, 1],
        n_cut=max(0, len(spans) - most),
        seen=spans[most][1] if len(spans) > most else len(text),
    )


@dataclass(frozen=True)
class PieceSequence:
    """The sequence in which a network reads the pieces of a caption.

    Attributes:
        length: Maximum number of tokens in the sequence.
        before: Special tokens before the pieces.
        after: Special tokens after the pieces.
        pad_token: Token that fills every sequence up to `length`; None for no filling.

    >>> sequence = PieceSequence(6, (101,), (102,), 0)
    >>> sequence.room, sequence.ids([7, 8])
    (4, [101, 7, 8, 102, 0, 0])
    """

    length: int
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pad_token: int | None = None

    @property
    def room(self) -> int:
        """Maximum number of pieces."""
        return self.length - len(self.before) - len(self.after)

    def ids(self, pieces: Sequence[int]) -> list[int]:
        """All tokens of the sequence with these pieces, for which there must be room."""
        listed = [*self.before, *pieces, *self.after]
        return listed if self.pad_token is None else listed + [self.pad_token] * (self.length - len(listed))


def piece_sequence(backbone: Backbone, config: InfoMetICConfig | None) -> PieceSequence:
    """The sequence that a network with this config reads; None for the paper's.

    Raises:
        CapscoreError: the frame leaves no room for pieces, or the backbone cannot say what it is.

    >>> from capscore import load_backbone
    >>> from capscore.infometic.config import InfoMetICConfig
    >>> piece_sequence(load_backbone("embedded", device="cpu"), InfoMetICConfig(max_tokens=12)).room
    12
    """
    if config is None:
        return PieceSequence(MAX_PIECES)
    before, after = backbone.special_tokens() if config.frame else ([], [])
    sequence = PieceSequence(config.max_tokens, tuple(before), tuple(after), config.pad_token)
    if sequence.room < 1:
        raise CapscoreError(
            Setting("max_tokens", config.max_tokens),
            f" leaves no room for pieces: {backbone.name!r} puts {len(before) + len(after)} special tokens "
            "around a text",
        )
    return sequence


def encode_pieces(backbone: Backbone, ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Embeddings of single pieces between the special tokens of the tower: start, piece, end.

    Each piece is encoded once; up to `REMEMBERED` rows are remembered as long as the backbone exists.

    Args:
        backbone: Backbone with `piece_spans`.
        ids: n token ids from `Pieces.ids`, with or without repetitions.

    Returns:
        float32 (n, d), rows from `Backbone.encode_tokens`: of unit length, unless the backbone is one from
        `capscore.backbones.features.as_read`.

    Raises:
        CapscoreError: the backbone cannot say where its tokens are, or returns NaN or infinity.

    >>> from capscore import load_backbone
    >>> encode_pieces(load_backbone("embedded", device="cpu"), [2665, 2042, 2665]).shape
    (3, 512)
    """
    asked, row_of = np.unique(np.asarray(ids, np.int64).reshape(-1), return_inverse=True)
    if not len(asked):
        return np.zeros((0, backbone.dim), np.float32)
    with _turn:
        known = _known.get(backbone)
        if known is None or known.fingerprint != backbone.fingerprint:
            known = _known[backbone] = _Remembered(backbone.fingerprint, *backbone.special_tokens())
    return known.rows(backbone, asked)[row_of.reshape(-1)]


@dataclass(eq=False)
class _Remembered:
    """Rows of a backbone's pieces, sorted by id, and the special tokens around a piece."""

    fingerprint: str
    before: list[int]
    after: list[int]
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    matrix: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(self, backbone: Backbone, asked: np.ndarray) -> np.ndarray:
        """The rows of distinct ids in ascending order."""
        with self.lock:
            missing = np.setdiff1d(asked, self.ids, assume_unique=True)
            if len(missing):
                fresh = self._encoded(backbone, missing)
                if not len(self.ids):
                    ids, matrix = missing, fresh
                else:
                    ids, matrix = np.concatenate([self.ids, missing]), np.concatenate([self.matrix, fresh])
                order = np.argsort(ids)
                ids, matrix = ids[order], matrix[order]
            else:
                ids, matrix = self.ids, self.matrix
            found = np.searchsorted(ids, asked)
            rows = matrix[found]
            if len(ids) > REMEMBERED:  # the latest ids are the likeliest to be needed next
                ids, matrix = asked[:REMEMBERED], rows[:REMEMBERED]
            self.ids, self.matrix = ids, matrix
            return rows

    def _encoded(self, backbone: Backbone, ids: np.ndarray) -> np.ndarray:
        alone = [[*self.before, int(token), *self.after] for token in ids]
        rows = np.concatenate(
            [backbone.encode_tokens(alone[start : start + _BATCH]) for start in range(0, len(alone), _BATCH)]
        )
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise CapscoreError(
                f"{backbone.name} returned NaN or infinity in {backbone.dtype} for {len(bad)} of {len(ids)} "
                f"pieces encoded alone, the first of them token {ids[bad[0]]}"
            )
        return rows


_known: weakref.WeakKeyDictionary[Backbone, _Remembered] = weakref.WeakKeyDictionary()
_turn = threading.Lock()
