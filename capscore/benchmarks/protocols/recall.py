"""Similarities of images and texts → how often an image finds its text, and a text its image.

Works on slices: memory does not grow with images times texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from ...errors import InputError, Setting
from ...statistics.columns import MISSING, Column, check_missing, label_codes
from ...tables import counted
from .results import ProtocolResult, Statistic

# Cosines at most this far apart are tied: float32 products of the same two unit vectors differ by up to about
# 8e-7 with the shape of the matrices (measured for 64 to 2,048 dimensions).
COSINE_TIE = 1e-6

_SLICE = 32_000_000  # similarities in memory at a time: 128 MB in float32


def retrieval(
    similarity: Column | None = None,
    *,
    image_embeddings: Column | None = None,
    text_embeddings: Column | None = None,
    text_to_image: Column,
    unit: bool = True,
    ks: Sequence[int] = (1, 5, 10),
    missing: str = "raise",
) -> ProtocolResult:
    """Recall at k in both directions (Hu et al. 2023, §4.3, Table 4, for nocaps).

    Give either a similarity of every image with every text, or embeddings of both, which are compared by
    cosine. 30,000 images and 150,000 texts need no full matrix: it is computed, or read, a slice of rows at a
    time.

    A wrong answer that ties with the right one counts as ranked above it; cosines of embeddings are tied if
    at most 10⁻⁶ apart. A metric that gives everything the same score therefore finds nothing.

    Args:
        similarity: Similarities (images, texts), higher for more similar; an array or a memory map.
        image_embeddings: Embeddings (images, d), of any length but 0.
        text_embeddings: Embeddings (texts, d), of any length but 0.
        text_to_image: Index of each text's image, (texts,); an image may have any number of texts.
        unit: Whether embeddings are scaled to unit length; otherwise their products are compared.
        ks: Numbers of best answers to look at.
        missing: See `capscore.benchmarks.protocols`; a similarity is missing if it or an embedding has NaN.
            Queries without a similarity to a right answer take no part.

    Returns:
        "image_to_text_r@<k>" (all texts of an image are right, and the best one counts), then
        "text_to_image_r@<k>". Details by direction: "at" (k → share, None without queries), "n_queries",
        "n_candidates", "n_tied".

    >>> similarity = np.array([[0.9, 0.3, 0.2], [0.1, 0.3, 0.4]])
    >>> result = retrieval(similarity, text_to_image=[0, 1, 1], ks=(1, 2))
    >>> result.details["text_to_image"]["at"], result.details["text_to_image"]["n_tied"]
    ({1: 0.666..., 2: 1.0}, 1)
    >>> images, texts = np.eye(2), np.array([[2.0, 1.0], [0.0, 3.0]])
    >>> retrieval(image_embeddings=images, text_embeddings=texts, text_to_image=[0, 1], ks=(1,)).table()
    [('image to text r@1', 1.0, 2), ('text to image r@1', 1.0, 2)]
    """
    check_missing(missing)
    numbers = [k for k in ks if isinstance(k, (int, np.integer)) and not isinstance(k, bool) and k > 0]
    if not numbers or len(numbers) < len(ks):
        raise InputError(Setting("ks", ks), ": expected whole numbers of at least 1", field="ks")
    embedded = image_embeddings is not None and text_embeddings is not None
    if embedded == (similarity is not None):
        raise InputError("expected similarity, or image_embeddings and text_embeddings", field="similarity")
    if embedded:
        found = _read_embeddings(image_embeddings, text_embeddings, text_to_image, unit)
    else:
        found = _read_matrix(similarity, text_to_image)
    best = np.full(found.n_images, -np.inf)  # best similarity of each image with its texts
    np.fmax.at(best, found.own, found.right)  # ignores NaN; -inf where all are missing
    of_images, of_texts, n_missing = _ranks(found, best, missing)
    n_silent = int((np.bincount(found.own, minlength=found.n_images) == 0).sum())
    ks = sorted({int(k) for k in ks})
    parts = {
        "image_to_text": _direction(of_images[:, np.isfinite(best)], len(found.own), ks),
        "text_to_image": _direction(of_texts[:, ~np.isnan(found.right)], found.n_images, ks),
    }
    statistics = []
    for direction, part in parts.items():
        for k, value in part["at"].items():
            statistics.append(Statistic(f"{direction}_r@{k}", value, None, part["n_queries"]))
    return ProtocolResult(
        tuple(statistics),
        {
            "images": parts["image_to_text"]["n_queries"],
            "texts": parts["text_to_image"]["n_queries"],
            "tied": sum(part["n_tied"] for part in parts.values()),
            "left out": n_missing,
        },
        tuple(_notes(parts, n_silent, n_missing)),
        parts,
    )


def _notes(parts: Mapping[str, _Direction], n_silent: int, n_missing: int) -> Iterator[str]:
    if n_silent:
        yield f"{counted(n_silent, 'image')} without a text: not a query, but ranked by the texts"
    if n_missing:
        yield f"{counted(n_missing, 'pair')} without a similarity left out"
    for direction, part in parts.items():
        words = direction.replace("_", " ")
        if not part["n_queries"]:
            yield f"{words}: no queries, no recall"
        if part["n_tied"]:
            tied = counted(part["n_tied"], "query", "queries")
            yield f"{words}: {tied} with a wrong answer that ties with the right one, ranked above it"
        if trivial := [f"R@{k}" for k in part["at"] if k >= part["n_candidates"]]:
            yield f"{words}: {', '.join(trivial)} is trivial: there are no more candidates"


class _Similarities(NamedTuple):
    """Similarities of images and texts.

    Attributes:
        slices: Function from the first and the last image to their similarities with all texts, as a new
            array (images, texts).
        tie: Largest difference of similarities that are equal.
    """

    slices: Callable[[int, int], np.ndarray]
    right: np.ndarray
    own: np.ndarray
    n_images: int
    tie: float


def _read_matrix(similarity: object, text_to_image: Column) -> _Similarities:
    matrix = similarity if isinstance(similarity, np.ndarray) else np.asarray(similarity)
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf" or 0 in matrix.shape:
        given = f"shape {matrix.shape} of {matrix.dtype}"
        raise InputError(f"expected a matrix of numbers (images, texts), got {given}", field="similarity")
    n_images, n_texts = matrix.shape
    own = label_codes(text_to_image, "text_to_image", n_texts, range(n_images))
    dtype = np.float32 if matrix.dtype in (np.float16, np.float32) else np.float64
    right = np.empty(n_texts, dtype=dtype)
    order = np.argsort(own, kind="stable")  # in row order, for memory maps
    right[order] = matrix[own[order], order]

    def slices(start: int, stop: int) -> np.ndarray:
        return np.array(matrix[start:stop], dtype=dtype)

    return _Similarities(slices, right, own, n_images, 0.0)


def _read_embeddings(
    image_embeddings: object, text_embeddings: object, text_to_image: Column, unit: bool
) -> _Similarities:
    images = _rows(image_embeddings, "image_embeddings", unit)
    texts = _rows(text_embeddings, "text_embeddings", unit)
    if images.shape[1] != texts.shape[1]:
        sizes = f"{texts.shape[1]} numbers, but those of images have {images.shape[1]}"
        raise InputError(f"embeddings of {sizes}", field="text_embeddings")
    own = label_codes(text_to_image, "text_to_image", len(texts), range(len(images)))
    right = np.empty(len(texts), dtype=np.float32)
    step = max(1, _SLICE // images.shape[1])
    for start in range(0, len(texts), step):
        part = slice(start, start + step)
        right[part] = np.einsum("td,td->t", images[own[part]], texts[part])

    def slices(start: int, stop: int) -> np.ndarray:
        return images[start:stop] @ texts.T

    return _Similarities(slices, right, own, len(images), COSINE_TIE)


def _rows(values: object, field: str, unit: bool) -> np.ndarray:
    """float32 (n, d), each row of length 1 where that is asked, or NaN."""
    try:
        matrix = np.array(values, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"expected a matrix of numbers, one row each ({error})", field=field) from error
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"expected a matrix of numbers, one row each, got shape {matrix.shape}", field=field)
    norms = np.sqrt(np.einsum("nd,nd->n", matrix, matrix))
    wrong = (norms == 0) | np.isinf(norms)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"the embedding is of length {norms[row]:g}", row=row, field=field)
    if unit:
        matrix /= norms[:, None]
    return matrix


def _ranks(found: _Similarities, best: np.ndarray, missing: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Count wrong answers at or above the right ones (the rank minus one), and clearly above, slice by slice.

    Returns:
        Both counts for the images, int64 (2, images), and for the texts, (2, texts); missing similarities.
    """
    right, own, tie = found.right, found.own, found.tie
    n_images, n_texts = len(best), len(own)
    of_images, of_texts = np.zeros((2, n_images), np.int64), np.zeros((2, n_texts), np.int64)
    order = np.argsort(own, kind="stable")
    ends = np.searchsorted(own[order], np.arange(n_images + 1))
    n_missing = 0
    step = max(1, _SLICE // n_texts)
    for start in range(0, n_images, step):
        stop = min(start + step, n_images)
        similarity = found.slices(start, stop)
        gaps = ~np.isfinite(similarity)
        if gaps.any():
            row = start + int(gaps.any(axis=1).argmax())
            if np.isinf(similarity).any():
                raise InputError("a similarity is infinite", row=row)
            if missing == "raise":
                raise InputError(*MISSING, row=row, field="similarity")
            n_missing += int(gaps.sum())
        texts = order[ends[start] : ends[stop]]  # texts of the images in this slice
        similarity[own[texts] - start, texts] = np.nan  # NaN compares as False: right answers are not counted
        # thresholds have the similarities' type; every comparison would otherwise make a converted copy
        low, high = ((best[start:stop, None] + d).astype(similarity.dtype) for d in (-tie, tie))
        of_images[0, start:stop] = np.count_nonzero(similarity >= low, axis=1)
        of_images[1, start:stop] = np.count_nonzero(similarity > high, axis=1)
        low, high = ((right + d).astype(similarity.dtype) for d in (-tie, tie))
        of_texts[0] += np.count_nonzero(similarity >= low, axis=0)
        of_texts[1] += np.count_nonzero(similarity > high, axis=0)
    return of_images, of_texts, n_missing


class _Direction(TypedDict):
    at: dict[int, float | None]
    n_queries: int
    n_candidates: int
    n_tied: int


def _direction(ranks: np.ndarray, n_candidates: int, ks: Sequence[int]) -> _Direction:
    rank, above = ranks
    n = len(rank)
    at: dict[int, float | None] = dict.fromkeys(ks)
    if n:
        at = {k: int((rank < k).sum()) / n for k in ks}
    return {"at": at, "n_queries": n, "n_candidates": n_candidates, "n_tied": int((rank > above).sum())}
