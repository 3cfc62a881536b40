"""`Row`s → captions in memory, and the embedding of each distinct image that they describe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xxhash

from capscore.errors import InputError
from capscore.tables import counted
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

    @property
    def texts(self) -> list[str]:
        return [row.caption for row in self.rows]

    def languages(self, chosen: np.ndarray) -> list[str]:
        return sorted({self.rows[index].language for index in chosen.tolist()})

    def images_in_words(self) -> str:
        """Number of images, and of those that texts replace, for people."""
        images = counted(len(self.keys), "image")
        return f"{images}, {self.n_stand_ins:,} of them replaced by texts" if self.n_stand_ins else images

    def limitations(self) -> list[str]:
        """What a card says of images that texts replace."""
        images = f"{self.n_stand_ins:,} of the {len(self.keys):,} images were not available"
        told = f"{images}: other captions stood in for each, through the base's own text tower."
        return [told] if self.n_stand_ins else []

    def digest(self, chosen: np.ndarray, file: np.ndarray | None = None) -> str:
        """Digest of the chosen captions, and of the number of the file that each is in."""
        digest = xxhash.xxh3_128()
        for index in chosen.tolist():
            row, key = self.rows[index], self.keys[self.image[index]]
            of_file = 0 if file is None else int(file[index])
            parts = (key, row.caption, row.language, row.objects, row.rating, of_file)
            digest.update(repr(parts).encode())
        return digest.hexdigest()


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
