"""Encoded images in files or in memory: their bytes, and a key of their content."""

from __future__ import annotations

import io
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import xxhash

from ..files.sizes import IMAGE_BYTES, readable_size
from .given import image_error

Got = TypeVar("Got")

_CHUNK = 2**20


@dataclass(frozen=True)
class Encoded(ABC):
    """An image that is not decoded yet.

    Attributes:
        name: Name in error messages.
    """

    name: str

    @abstractmethod
    def read(self) -> bytes:
        """All bytes, at least one.

        Raises:
            ImageError: they cannot be read, or there are none.
        """

    @abstractmethod
    def key(self) -> str:
        """Key of the bytes; raises like `read`."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """The bytes as an open file, for those who need only its beginning; raises like `read`."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of bytes; raises like `read`."""

    def _check_size(self, size: int) -> None:
        if not size:
            raise image_error(f"{self.name} is empty (0 bytes)")
        refuse_large(self.name, size)


@dataclass(frozen=True)
class EncodedBytes(Encoded):
    """An encoded image whose bytes a function returns."""

    fetch: Callable[[], bytes]

    def read(self) -> bytes:
        data = self.fetch()
        self._check_size(len(data))
        return data

    def open(self) -> BinaryIO:
        return io.BytesIO(self.read())

    @property
    def size(self) -> int:
        return len(self.read())

    def key(self) -> str:
        return bytes_key(self.read())


@dataclass(frozen=True)
class EncodedFile(Encoded):
    """An encoded image in a file."""

    path: Path

    def read(self) -> bytes:
        with self.open() as file:
            # one more than the limit tells whether the file has grown since it was opened
            data = self._checked(lambda: file.read(IMAGE_BYTES.bytes + 1))
        self._check_size(len(data))
        return data

    def key(self) -> str:
        digest, size = xxhash.xxh3_128(), 0
        with self.open() as file:
            while chunk := self._checked(lambda: file.read(_CHUNK)):
                digest.update(chunk)
                size += len(chunk)
                refuse_large(self.name, size)
        self._check_size(size)
        return f"file:{digest.hexdigest()}"

    @property
    def size(self) -> int:
        with self.open():  # says what is wrong if there is no such file
            return self._checked(lambda: os.stat(self.path).st_size)

    def open(self) -> BinaryIO:
        try:
            about = os.stat(self.path)
            kind = about.st_mode
            if stat.S_ISDIR(kind):
                raise image_error(f"{self.name} is a folder; expected one image file")
            if not stat.S_ISREG(kind):
                raise image_error(
                    f"{self.name} is not a regular file and cannot be read twice; pass its bytes"
                )
            refuse_large(self.name, about.st_size)
            return open(self.path, "rb")
        except FileNotFoundError:
            place = "" if self.path.is_absolute() else f" in {os.getcwd()}"
            raise image_error(f"no such file: {self.name}{place}{self._base64_hint()}") from None
        except (OSError, ValueError) as error:  # ValueError: half a surrogate pair in the name
            reason = getattr(error, "strerror", None) or error
            raise image_error(f"{self.name} cannot be read: {reason}{self._base64_hint()}") from None

    def _base64_hint(self) -> str:
        if len(str(self.path)) > 255 and re.fullmatch(r"[A-Za-z0-9+/=\s]+", str(self.path)):
            return "; if it is base64, pass the decoded bytes or a data URI (data:image/jpeg;base64,…)"
        return ""

    def _checked(self, read: Callable[[], Got]) -> Got:
        try:
            return read()
        except OSError as error:
            raise image_error(f"{self.name} cannot be read: {error.strerror or error}") from None


def refuse_large(name: str, size: int) -> None:
    """Raise ImageError if an encoded image has more bytes than the limit."""
    if size > IMAGE_BYTES.bytes:
        raise image_error(f"{name} has {readable_size(size)}; {IMAGE_BYTES}")


def bytes_key(data: bytes) -> str:
    """Key of encoded bytes: "file:" and 32 hexadecimal digits."""
    return f"file:{xxhash.xxh3_128(data).hexdigest()}"
