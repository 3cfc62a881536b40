"""`Row`s → captions in memory, and the embedding of each distinct image that they describe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xxhash

from capscore.errors import InputError
from capscore.perturbations import noun_finder
from training.data.photos import Photos, photos_of
from training.data.pictures import Pictures
from training.data.rows import Row


@dataclass(frozen=True, eq=False)
class Captions:
    """n captions without their images, and the embeddings of the u images that they describe.

    `image` (n,) are the numbers of the images, `embeddings` float32 unit rows (u, d), a memory map. Equal
    pixels, or equal stand-ins, are one image: `n_stand_ins` of the u are texts, of which a photo may have
    several.
    """

    rows: list[Row]
    image: np.ndarray
    embeddings: np.ndarray
    keys: list[str]
    n_stand_ins: int
    photos: Photos

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def texts(self) -> list[str]:
        return [row.caption for row in self.rows]

    def digest(self, chosen: np.ndarray, file: np.ndarray | None = None) -> str:
        """Digest of the chosen captions, and of the number of the file that each is in."""
        digest = xxhash.xxh3_128()
        for index in chosen.tolist():
            row, key = self.rows[index], self.keys[self.image[index]]
            of_file = 0 if file is None else int(file[index])
            parts = (key, row.caption, row.language, row.objects, row.rating, of_file)
            digest.update(repr(parts).encode())
        return digest.hexdigest()


def check_captions(rows: Iterable[Row], *, nouns: bool) -> None:
    """Read all captions once before any is embedded, so that a bad row ends a run in its first seconds.

    `nouns` says whether the nouns of captions without annotated objects will be needed.
    """
    languages: dict[str, bool] = {}  # whether there are captions without annotated objects
    for row in rows:
        if len(row.stand_in) > 1:
            raise InputError(f"{row.where}, stand_in: it is a list of {len(row.stand_in)}; expected one text")
        languages[row.language] = languages.get(row.language, False) or row.objects is None
    for language, needed in languages.items():
        if nouns and needed:
            with contextlib.suppress(InputError):  # without a finder, other perturbations are used
                noun_finder(language)


def embed_captions(rows: Iterable[Row], pictures: Pictures) -> Captions:
    """Read captions in chunks; `pictures` embeds each distinct image that they describe once."""
    known, image = pictures.add(rows)
    if not known:
        raise InputError("there are no captions to train on")
    return Captions(
        rows=known,
        image=np.array(image, dtype=np.int64),
        embeddings=pictures.matrix.finish(),
        keys=pictures.keys,
        n_stand_ins=len(pictures.stand_ins),
        photos=photos_of(known, [pictures.keys[number] for number in image]),
    )
