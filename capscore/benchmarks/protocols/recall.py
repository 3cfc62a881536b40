"""Similarities of images and texts → how often an image finds its text, and a text its image.

In: a similarity of every image with every text, or embeddings of both, and the image of each text. Out: R@1,
R@5 and R@10 in both directions. Works on slices: memory does not grow with images times texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, Setting
from ...statistics.ratings import check_missing
from .inputs import MISSING_SCORE, as_list
from .results import ProtocolResult, Statistic, counted

# Cosines at most this far apart are tied: float32 products of the same two unit vectors differ by up to about
# 8e-7 with the shape of the matrices (measured for 64 to 2,048 dimensions).
COSINE_TIE = 1e-6

_SLICE = 32_000_000  # similarities in memory at a time: 128 MB in float32


def retrieval(
    similarity: Any = None,
    *,
    image_embeddings: Any = None,
    text_embeddings: Any = None,
    text_to_image: Any,
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
        ks: Numbers of best answers to look at.
        missing: See `capscore.benchmarks.protocols`; a similarity is missing if it or an embedding has NaN.
            Queries without a similarity to a right answer take no part.

    Returns:
        "image_to_text_r@<k>" (all texts of an image are right, and the best one counts), then
        "text_to_image_r@<k>". Details by direction: "at" and "chance" (k → share, and the same for answers in
        random order; None without queries), "n_queries", "n_candidates", "n_tied"; and "n_missing" pairs.

    >>> similarity = np.array([[0.9, 0.3, 0.2], [0.1, 0.3, 0.4]])
    >>> result = retrieval(similarity, text_to_image=[0, 1, 1], ks=(1, 2))
    >>> result.details["text_to_image"]["at"], result.details["text_to_image"]["n_tied"]
    ({1: 0.666..., 2: 1.0}, 1)
    >>> images, texts = np.eye(2), np.array([[2.0, 1.0], [0.0, 3.0]])
    >>> retrieval(image_embeddings=images, text_embeddings=texts, text_to_image=[0, 1], ks=(1,)).table()
    [('image to text r@1', 1.0, 2), ('text to image r@1', 1.0, 2)]
    """
    check_missing(missing)
    ks = _check_ks(ks)
    embedded = [given is not None for given in (image_embeddings, text_embeddings)]
    if (similarity is None) != all(embedded) or any(embedded) != all(embedded):
        raise InputError("expected similarity, or image_embeddings and text_embeddings", field="similarity")
    if similarity is None:
        pairs = _cosines(image_embeddings, text_embeddings, text_to_image)
    else:
        pairs = _matrix(similarity, text_to_image)
    return _recall(pairs, ks, missing)


@dataclass(frozen=True)
class _Pairs:
    """Similarities of images and texts, a slice of images at a time.

    Attributes:
        rows: First image, last image → their similarities with all texts, (images, texts), as a new array.
        own: Image of each text, int64 (texts,).
        right: Similarity of each text with its own image, (texts,).
        n_images: Number of images.
        tie: Largest difference of tied similarities.
        field: Name of the argument, for errors.
    """

    rows: Callable[[int, int], np.ndarray]
    own: np.ndarray
    right: np.ndarray
    n_images: int
    tie: float
    field: str


def _matrix(similarity: Any, text_to_image: Any) -> _Pairs:
    matrix = similarity if isinstance(similarity, np.ndarray) else np.asarray(similarity)
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf" or 0 in matrix.shape:
        raise InputError(
            f"expected a matrix of numbers (images, texts), got shape {matrix.shape} of {matrix.dtype}",
            field="similarity",
        )
    own = _places(text_to_image, *matrix.shape)
    dtype = np.float32 if matrix.dtype in (np.float16, np.float32) else np.float64

    def rows(start: int, stop: int) -> np.ndarray:
        return np.array(matrix[start:stop], dtype=dtype)

    right = np.empty(len(own), dtype=dtype)
    order = np.argsort(own, kind="stable")  # in row order, for memory maps
    right[order] = matrix[own[order], order]
    return _Pairs(rows, own, right, matrix.shape[0], 0.0, "similarity")


def _cosines(image_embeddings: Any, text_embeddings: Any, text_to_image: Any) -> _Pairs:
    images, image_norms = _embeddings(image_embeddings, "image_embeddings")
    texts, text_norms = _embeddings(text_embeddings, "text_embeddings")
    if images.shape[1] != texts.shape[1]:
        raise InputError(
            f"embeddings of {texts.shape[1]} numbers, but those of images have {images.shape[1]}",
            field="text_embeddings",
        )
    own = _places(text_to_image, len(images), len(texts))

    def rows(start: int, stop: int) -> np.ndarray:
        cosines = images[start:stop] @ texts.T
        cosines /= image_norms[start:stop, None]
        cosines /= text_norms
        return cosines

    right = np.empty(len(texts), dtype=np.float32)
    step = max(1, _SLICE // images.shape[1])
    for start in range(0, len(texts), step):
        part = slice(start, start + step)
        right[part] = np.einsum("td,td->t", images[own[part]], texts[part])
    right /= image_norms[own]
    right /= text_norms
    return _Pairs(rows, own, right, len(images), COSINE_TIE, "image_embeddings")


def _recall(pairs: _Pairs, ks: tuple[int, ...], missing: str) -> ProtocolResult:
    right, n_images, n_texts = pairs.right, pairs.n_images, len(pairs.own)
    best = np.full(n_images, -np.inf)  # best similarity of each image with its texts
    np.fmax.at(best, pairs.own, right)  # ignores NaN; -inf where all are missing
    sizes = np.bincount(pairs.own, minlength=n_images)
    has_text, image_asks, text_asks = sizes > 0, np.isfinite(best), ~np.isnan(right)
    ranks, n_missing = _ranks(pairs, best, missing)
    of_images = [1 - _miss_all(n_texts, sizes[image_asks], k) for k in ks]
    of_texts = [np.full(int(text_asks.sum()), min(k / n_images, 1.0)) for k in ks]
    parts = {
        "image_to_text": _direction(ranks[0][:, image_asks], n_texts, of_images, ks),
        "text_to_image": _direction(ranks[1][:, text_asks], n_images, of_texts, ks),
    }
    notes = []
    if not has_text.all():
        notes.append(
            f"{counted(int((~has_text).sum()), 'image')} without a text: not a query, but ranked by the texts"
        )
    if n_missing:
        lost_images = counted(int((has_text & ~image_asks).sum()), "image")
        lost_texts = counted(int((~text_asks).sum()), "text")
        notes.append(
            f"{counted(n_missing, 'pair')} without a similarity left out; of queries, {lost_images} and "
            f"{lost_texts}"
        )
    for direction, part in parts.items():
        notes += _direction_notes(direction, part, pairs.tie)
    return ProtocolResult(
        "retrieval",
        tuple(
            Statistic(f"{direction}_r@{k}", value, None, part["n_queries"])
            for direction, part in parts.items()
            for k, value in part["at"].items()
        ),
        {
            "images": parts["image_to_text"]["n_queries"],
            "texts": parts["text_to_image"]["n_queries"],
            "tied": sum(part["n_tied"] for part in parts.values()),
            "left out": n_missing,
        },
        {**parts, "n_missing": n_missing},
        tuple(notes),
    )


def _ranks(pairs: _Pairs, best: np.ndarray, missing: str) -> tuple[tuple[np.ndarray, np.ndarray], int]:
    """Count wrong answers at or above the right ones (the rank minus one), and clearly above, slice by slice.

    Returns:
        Both counts for the images, int64 (2, images), and for the texts, (2, texts); missing similarities.
    """
    own, n_texts = pairs.own, len(pairs.own)
    of_images, of_texts = np.zeros((2, pairs.n_images), np.int64), np.zeros((2, n_texts), np.int64)
    order = np.argsort(own, kind="stable")
    ends = np.searchsorted(own[order], np.arange(pairs.n_images + 1))
    n_missing = 0
    step = max(1, _SLICE // n_texts)
    for start in range(0, pairs.n_images, step):
        stop = min(start + step, pairs.n_images)
        similarity = pairs.rows(start, stop)
        n_missing += _count_missing(similarity, start, pairs.field, missing)
        texts = order[ends[start] : ends[stop]]  # texts of the images in this slice
        similarity[own[texts] - start, texts] = np.nan  # NaN compares as False: right answers are not counted
        # thresholds have the similarities' type; every comparison would otherwise make a converted copy
        low, high = ((best[start:stop, None] + d).astype(similarity.dtype) for d in (-pairs.tie, pairs.tie))
        of_images[0, start:stop] = np.count_nonzero(similarity >= low, axis=1)
        of_images[1, start:stop] = np.count_nonzero(similarity > high, axis=1)
        low, high = ((pairs.right + d).astype(similarity.dtype) for d in (-pairs.tie, pairs.tie))
        of_texts[0] += np.count_nonzero(similarity >= low, axis=0)
        of_texts[1] += np.count_nonzero(similarity > high, axis=0)
    return (of_images, of_texts), n_missing


def _direction(
    ranks: np.ndarray, n_candidates: int, chance: list[np.ndarray], ks: Sequence[int]
) -> dict[str, Any]:
    rank, above = ranks
    n = len(rank)
    return {
        "at": {k: int((rank < k).sum()) / n if n else None for k in ks},
        "chance": {
            k: float(np.sort(share).mean()) if n else None for k, share in zip(ks, chance, strict=True)
        },
        "n_queries": n,
        "n_candidates": n_candidates,
        "n_tied": int((rank > above).sum()),
    }


def _direction_notes(direction: str, part: dict[str, Any], tie: float) -> list[str]:
    words, candidates = direction.replace("_", " "), f"{direction.rpartition('_')[2]}s"
    notes = []
    if not part["n_queries"]:
        notes.append(f"{words}: no queries, no recall")
    if part["n_tied"]:
        near = f"within {tie:g} of" if tie else "as"
        notes.append(
            f"{words}: {counted(part['n_tied'], 'query', 'queries')} with a wrong answer that scores {near} "
            "the right one, ranked above it"
        )
    trivial = [f"R@{k}" for k in part["at"] if k >= part["n_candidates"]]
    if trivial:
        notes.append(
            f"{words}: {', '.join(trivial)} is trivial: there are only {part['n_candidates']} {candidates}"
        )
    return notes


def _miss_all(n: int, right: np.ndarray, k: int) -> np.ndarray:
    """Probability that none of the right answers is among k drawn from n."""
    drawn = np.arange(min(k, n))
    return np.prod(np.clip(n - right[:, None] - drawn, 0, None) / (n - drawn), axis=1)


def _count_missing(similarity: np.ndarray, start: int, field: str, missing: str) -> int:
    """Number of missing similarities in a slice, or an error."""
    if np.isfinite(similarity).all():
        return 0
    infinite = np.isinf(similarity)
    if infinite.any():
        row, text = np.argwhere(infinite)[0].tolist()
        raise InputError(f"the similarity with text {text} is infinite", row=start + row, field=field)
    gaps = np.isnan(similarity)
    if missing == "raise":
        row, text = np.argwhere(gaps)[0].tolist()
        raise InputError(f"with text {text}: ", *MISSING_SCORE, row=start + row, field=field)
    return int(gaps.sum())


def _embeddings(values: Any, field: str) -> tuple[np.ndarray, np.ndarray]:
    """float32 (n, d), and the length of each row."""
    try:
        matrix = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"expected a matrix of numbers, one row each ({error})", field=field) from error
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"expected a matrix of numbers, one row each, got shape {matrix.shape}", field=field)
    norms = np.sqrt(np.einsum("nd,nd->n", matrix, matrix))
    for wrong, what in ((norms == 0, "of length 0"), (np.isinf(norms), "of infinite length")):
        if wrong.any():
            raise InputError(f"the embedding is {what}", row=int(wrong.argmax()), field=field)
    return matrix, norms


def _places(values: Any, n_images: int, n_texts: int) -> np.ndarray:
    column = as_list(values, "text_to_image")
    if len(column) != n_texts:
        raise InputError(
            f"{counted(len(column), 'index', 'indices')} for {counted(n_texts, 'text')}",
            field="text_to_image",
        )
    for row, value in enumerate(column):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or not 0 <= value < n_images:
            raise InputError(
                f"expected the index of an image, 0 to {n_images - 1}, got {value!r:.60}",
                row=row,
                field="text_to_image",
            )
    return np.array(column, dtype=np.int64)


def _check_ks(ks: Sequence[int]) -> tuple[int, ...]:
    given: tuple[Any, ...] = tuple(ks) if hasattr(ks, "__iter__") else (ks,)
    if not given or any(isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1 for k in given):
        raise InputError(Setting("ks", ks), ": expected whole numbers of at least 1", field="ks")
    return tuple(sorted({int(k) for k in given}))
