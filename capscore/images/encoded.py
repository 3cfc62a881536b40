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

import xxhash

from .given import image_error

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

    def _refuse_empty(self, size: int) -> None:
        if not size:
            raise image_error(f"{self.name} is empty (0 bytes)")


@dataclass(frozen=True)
class EncodedBytes(Encoded):
    """An encoded image whose bytes a function returns."""

    fetch: Callable[[], bytes]

    def read(self) -> bytes:
        data = self.fetch()
        self._refuse_empty(len(data))
        return data

    def key(self) -> str:
        return bytes_key(self.read())


@dataclass(frozen=True)
class EncodedFile(Encoded):
    """An encoded image in a file."""

    path: Path

    def read(self) -> bytes:
        with self._open() as file:
            data = self._checked(file.read)
        self._refuse_empty(len(data))
        return data

    def key(self) -> str:
        digest, size = xxhash.xxh3_128(), 0
        with self._open() as file:
            while chunk := self._checked(lambda: file.read(_CHUNK)):
                digest.update(chunk)
                size += len(chunk)
        self._refuse_empty(size)
        return f"file:{digest.hexdigest()}"

    def _open(self) -> io.BufferedReader:
        try:
            kind = os.stat(self.path).st_mode
            if stat.S_ISDIR(kind):
                raise image_error(f"{self.name} is a folder; expected one image file")
            if not stat.S_ISREG(kind):
                raise image_error(
                    f"{self.name} is not a regular file and cannot be read twice; pass its bytes"
                )
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

    def _checked(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except OSError as error:
            raise image_error(f"{self.name} cannot be read: {error.strerror or error}") from None


def bytes_key(data: bytes) -> str:
    """Key of encoded bytes: "file:" and 32 hexadecimal digits."""
    return f"file:{xxhash.xxh3_128(data).hexdigest()}"
