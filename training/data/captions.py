"""`CaptionRow`s → captions in memory, and the embedding of each distinct image that they describe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from capscore.embedding.embedder import EmbeddedRows, Embedder
from capscore.errors import ImageError, InputError
from capscore.perturbations import Object, noun_finder
from training.data.caption_rows import CaptionRow
from training.data.stored_rows import StoredRows

# Embeddings beyond this many bytes go to a file: 2 million images of 512 numbers are 4 GB.
_IN_MEMORY = 2**30
# Rows that are read and embedded at a time.
_CHUNK = 1024


@dataclass(frozen=True, eq=False)
class Captions:
    """n captions and the embeddings of the u images that they describe.

    Attributes:
        texts: Captions (n).
        languages: Language of each, a primary subtag.
        objects: Critical objects of each; None where they are not annotated.
        image: int64 (n,), number of the image that each describes.
        names: Names by which a list may refer to each.
        embeddings: float32 (u, d), rows of unit length; a memory map where there are many.
        keys: Content keys (u): equal pixels, or equal stand-ins, are one image.
        n_stand_ins: Number of the u images that are texts standing in for an image.
        n_truncated: Number of these texts that were cut to the context length.
    """

    texts: list[str]
    languages: list[str]
    objects: list[tuple[Object, ...] | None]
    image: np.ndarray
    names: list[tuple[str, ...]]
    embeddings: np.ndarray
    keys: list[str]
    n_stand_ins: int
    n_truncated: int

    def __len__(self) -> int:
        return len(self.texts)


def check_captions(rows: Iterable[CaptionRow], *, nouns: bool) -> None:
    """Read all captions once before any is embedded, so that a bad row ends a run in its first seconds.

    Args:
        rows: Captions, as `embed_captions` takes them.
        nouns: Whether the nouns of captions without annotated objects will be needed.

    Raises:
        InputError: there are no rows, or a row is malformed or names no image; names its place.
        MissingExtraError: the package that finds the nouns of a language is not installed.
    """
    asked: set[str] = set()
    n_rows = 0
    for row in rows:
        n_rows += 1
        if nouns and row.objects is None and row.language not in asked:
            asked.add(row.language)
            with contextlib.suppress(InputError):  # without a finder, other perturbations are used
                noun_finder(row.language)
    if not n_rows:
        raise InputError("there are no captions to train on")


def embed_captions(
    rows: Iterable[CaptionRow],
    embedder: Embedder,
    *,
    folder: str | Path | None = None,
    in_memory: int = _IN_MEMORY,
) -> Captions:
    """Read captions and embed what they describe: each image once, from the cache where possible.

    Texts that stand in go through the text tower as it is now, before any training.

    Args:
        rows: Captions with an image or a `stand_in` each, read in chunks.
        embedder: Embedder of the base.
        folder: Folder for a temporary file, if the embeddings take more than `in_memory` bytes; None for the
            system's folder for temporary files.
        in_memory: Most bytes of embeddings to keep in memory.

    Raises:
        InputError: there are no rows, or a row is malformed; names its place.
        ImageError: an image cannot be read; names its place.
    """
    texts: list[str] = []
    languages: list[str] = []
    objects: list[tuple[Object, ...] | None] = []
    names: list[tuple[str, ...]] = []
    index: list[int] = []
    places: dict[str, int] = {}
    n_stand_ins = n_truncated = 0
    matrix = StoredRows(embedder.backbone.dim, folder, in_memory)
    source = iter(rows)
    while chunk := list(islice(source, _CHUNK)):
        pictured = [row for row in chunk if row.stand_in is None]
        described = [row for row in chunk if row.stand_in is not None]
        shown = embedder.images([row.image for row in pictured], on_error="skip")
        if shown.failures:
            first = min(shown.failures)
            raise ImageError(f"{pictured[first].place}, image: {shown.failures[first].message}")
        told = embedder.texts([row.stand_in for row in described], prefix=embedder.backbone.prefix)
        before = len(places)
        for embedded in (shown, told):
            matrix.append(_fresh(embedded, places))
            if embedded is told:
                n_stand_ins += len(places) - before
            before = len(places)
        n_truncated += int(told.truncated.sum())
        keys = {True: iter(shown.keys), False: iter(told.keys)}
        for row in chunk:
            index.append(places[next(keys[row.stand_in is None])])
            texts.append(row.caption)
            languages.append(row.language)
            objects.append(row.objects)
            names.append(row.names)
    if not texts:
        raise InputError("there are no captions to train on")
    return Captions(
        texts=texts,
        languages=languages,
        objects=objects,
        image=np.array(index, dtype=np.int64),
        names=names,
        embeddings=matrix.finish(),
        keys=list(places),
        n_stand_ins=n_stand_ins,
        n_truncated=n_truncated,
    )


def _fresh(embedded: EmbeddedRows, places: dict[str, int]) -> np.ndarray:
    """The embeddings that have no place yet; each gets one."""
    new = []
    for key, row in zip(embedded.keys, embedded.index, strict=True):
        if key not in places:
            places[key] = len(places)
            new.append(row)
    return embedded.matrix[new]
