"""All captions of a run on ratings: those to contrast, the rated ones, and the rated ones to measure on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import xxhash

from capscore.errors import InputError
from training.data.pictures import Pictures
from training.data.rows import Row
from training.data.source import Source
from training.data.split import Split

# What a file is for: the contrast, the correlation, or only to measure on.
Role = Literal["data", "ratings", "validation"]


class FilePart(NamedTuple):
    """Some rows of a file: its name, the number of each row's picture, and the rows."""

    file: str
    pictures: list[int]
    rows: list[Row]


class RatedRows:
    """The rows of several files, and their pictures.

    Args:
        sources: Files by their role.
        pictures: What the rows show; takes in their pictures.

    Raises:
        InputError: a row is malformed.
        ImageError: an image cannot be read.

    Attributes:
        sources: The files.
        rows: The rows, without their images.
        image, file: int64 (n,), numbers of each row's picture and file.
        files: Role and name of each file.
        names: Names by which a list may refer to each row.
        keys: Content key of each picture.
    """

    def __init__(self, sources: Mapping[Role, Sequence[Source]], pictures: Pictures):
        self.sources = sources
        self.rows: list[Row] = []
        self.files: list[tuple[Role, str]] = []
        image: list[int] = []
        file: list[int] = []
        for role, listed in sources.items():
            for source in listed:
                rows, numbers = pictures.add(source.rows())
                image += numbers
                file += [len(self.files)] * len(rows)
                self.rows += rows
                self.files.append((role, source.spec))
        self.keys, self.names = pictures.keys, [row.names for row in self.rows]
        self.image, self.file = np.array(image, dtype=np.int64), np.array(file, dtype=np.int64)

    def parts(self, role: Role, chosen: np.ndarray) -> Iterator[FilePart]:
        """Of each file of a role, those of the chosen rows that are its own."""
        for number, (own, spec) in enumerate(self.files):
            if own == role:
                kept = chosen[self.file[chosen] == number].tolist()
                yield FilePart(spec, self.image[kept].tolist(), [self.rows[row] for row in kept])

    def digest(self, chosen: np.ndarray) -> str:
        """Digest of the chosen rows."""
        digest = xxhash.xxh3_128()
        for index in chosen.tolist():
            row, key, file = self.rows[index], self.keys[self.image[index]], int(self.file[index])
            digest.update(repr((key, row.caption, row.language, row.rating, file)).encode())
        return digest.hexdigest()

    def given_split(self) -> Split:
        """The split in which the rows to measure on are those of the files for it.

        Raises:
            InputError: a picture is in both parts; names the rows.
        """
        measured = [number for number, (role, _) in enumerate(self.files) if role == "validation"]
        held = np.isin(self.file, measured)
        shared = np.isin(self.image, self.image[held]) & ~held
        if shared.any():
            row = int(np.flatnonzero(shared)[0])
            other = int(np.flatnonzero(held & (self.image == self.image[row]))[0])
            raise InputError(
                f"{self.rows[row].where}: its photo is in the measured rows too, {self.rows[other].where}; "
                "remove one of the two",
                field="validation",
            )
        return Split(np.flatnonzero(~held), np.flatnonzero(held))
