"""All captions of a run on ratings: those to contrast, the rated ones, and the rated ones to measure on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import xxhash

from capscore.errors import InputError
from training.data.pictures import Pictures
from training.data.rows import Row
from training.data.source import Source
from training.data.split import Split

# What a file is for: the contrast, the correlation, or only to measure on.
Role = Literal["data", "ratings", "validation"]


class RatedRows:
    """The rows of several files, and their pictures.

    Args:
        sources: Files by their role.
        pictures: What the rows show; takes in their pictures.

    Raises:
        InputError: a row is malformed, or a file of ratings has one rating alone.
        ImageError: an image cannot be read.

    Attributes:
        rows: The rows, without their images.
        image: int64 (n,), number of each row's picture.
        source: int64 (n,), number of each row's file.
        roles: Role of each file.
        names: Names by which a list may refer to each row.
        keys: Content key of each picture.
    """

    def __init__(self, sources: Mapping[Role, Sequence[Source]], pictures: Pictures):
        self.rows: list[Row] = []
        self.roles: list[Role] = []
        self.specs: list[str] = []
        image: list[int] = []
        source_of: list[int] = []
        for role, source in [(role, source) for role, listed in sources.items() for source in listed]:
            rows = list(source.rows())
            image += pictures.add(rows)
            self.rows += [replace(row, image=None) for row in rows]
            source_of += [len(self.roles)] * len(rows)
            self.roles.append(role)
            self.specs.append(source.spec)
        pictures.finish()
        self.keys = pictures.keys
        self.names = [row.names for row in self.rows]
        self.image = np.array(image, dtype=np.int64)
        self.source = np.array(source_of, dtype=np.int64)

    def of_role(self, role: Role) -> np.ndarray:
        """bool (n,): the rows of files of a role."""
        return np.array([own == role for own in self.roles], dtype=bool)[self.source]

    def parts(self, role: Role, chosen: np.ndarray) -> Iterator[tuple[str, list[int], list[Row]]]:
        """The name of each file of a role, and the pictures and rows of it among the chosen rows."""
        for number, spec in enumerate(self.specs):
            if self.roles[number] == role:
                kept = chosen[self.source[chosen] == number].tolist()
                yield spec, self.image[kept].tolist(), [self.rows[row] for row in kept]

    def digest(self, chosen: np.ndarray) -> str:
        """Digest of the chosen rows."""
        digest = xxhash.xxh3_128()
        for index in chosen.tolist():
            row = self.rows[index]
            key, source = self.keys[self.image[index]], int(self.source[index])
            digest.update(repr((key, row.caption, row.language, row.rating, source)).encode())
        return digest.hexdigest()

    def given_split(self) -> Split:
        """The split in which the rows to measure on are those of the files for it.

        Raises:
            InputError: a picture is in both parts; names the rows.
        """
        held = self.of_role("validation")
        shared = np.isin(self.image, self.image[held]) & ~held
        if shared.any():
            row = int(np.flatnonzero(shared)[0])
            other = int(np.flatnonzero(held & (self.image == self.image[row]))[0])
            n = len(np.unique(self.image[shared]))
            raise InputError(
                f"{self.rows[row].where}: its picture is one of the {n:,} that are measured on too, by "
                f"{self.rows[other].where}. Remove it from one of the two",
                field="validation",
            )
        return Split(np.flatnonzero(~held), np.flatnonzero(held))


def check_rated(source: Source) -> None:
    """Read the rows of a file of ratings once, so that a bad row ends a run in its first seconds.

    Raises:
        InputError: a row is malformed, or all ratings of the file are equal.
    """
    found = {row.rating for row in source.rows()}
    if len(found) == 1:
        raise InputError(
            f"{source.spec}: all {source.n:,} ratings are {found.pop():g}; nothing can be learned from "
            "ratings that do not differ",
            field="ratings",
        )
