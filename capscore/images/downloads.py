"""Images from http(s) addresses, each downloaded once."""

from __future__ import annotations

import tempfile
import threading
import urllib.parse
from pathlib import Path
from typing import Any

import xxhash

from ..errors import ImageError
from .encoded import EncodedFile
from .given import describe, image_error

MAX_DOWNLOAD_BYTES = 32 * 2**20
"""Size limit, in bytes, of an image from a URL."""

TIMEOUT = (10, 30)
"""Timeouts in seconds, of the connection and of the next bytes of an answer."""


class Downloads:
    """Fetches every URL once, so that the same bytes are keyed and decoded; deletes the files when closed.

    Args:
        allow_urls: Whether http(s) addresses may be fetched; otherwise they are returned, to be refused
            later.
    """

    def __init__(self, allow_urls: bool):
        self._allowed = allow_urls
        self._folder: tempfile.TemporaryDirectory | None = None
        self._fetched: dict[str, EncodedFile | ImageError] = {}
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}

    def __enter__(self) -> Downloads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def local(self, image: Any) -> Any:
        """The image itself, or the file fetched from it if it is a URL or a dict with a URL as path.

        Raises:
            ImageError: the URL could not be fetched.
        """
        url = image.get("path") if isinstance(image, dict) and image.get("bytes") is None else image
        if (
            not self._allowed
            or not isinstance(url, str)
            or not url.lower().startswith(("http://", "https://"))
        ):
            return image
        with self._lock:
            try:
                if self._folder is None:
                    self._folder = tempfile.TemporaryDirectory(prefix="capscore-")
            except OSError as error:
                raise image_error(f"{url_name(url)} cannot be stored: {error}") from None
            name = xxhash.xxh3_128_hexdigest(url.encode("utf-8", "surrogatepass"))
            place = Path(self._folder.name, name)
            turn = self._turns.setdefault(url, threading.Lock())
        with turn:
            if url not in self._fetched:
                try:
                    place.write_bytes(download(url))
                    self._fetched[url] = EncodedFile(url_name(url), place)
                except ImageError as error:
                    self._fetched[url] = error
                except OSError as error:
                    self._fetched[url] = image_error(f"{url_name(url)} could not be stored: {error}")
        fetched = self._fetched[url]
        if isinstance(fetched, ImageError):
            raise fetched
        return fetched


def download(url: str) -> bytes:
    import requests

    name = url_name(url)
    too_large = f"{name} is larger than {MAX_DOWNLOAD_BYTES:,} bytes; download it yourself and pass the path"
    # "identity", so that the limit counts the bytes that arrive and no compressed answer can expand beyond
    # it.
    headers = {"Accept": "image/*", "Accept-Encoding": "identity", "User-Agent": "capscore"}
    try:
        with requests.Session() as session:
            session.max_redirects = 5
            with session.get(url, headers=headers, timeout=TIMEOUT, stream=True) as response:
                if response.status_code != 200:
                    raise image_error(f"{name} answered HTTP {response.status_code} {response.reason}")
                stated = response.headers.get("Content-Length", "")
                if stated.isdigit() and int(stated) > MAX_DOWNLOAD_BYTES:
                    raise image_error(too_large)
                received = bytearray()
                for chunk in response.raw.stream(2**16, decode_content=False):
                    received += chunk
                    if len(received) > MAX_DOWNLOAD_BYTES:
                        raise image_error(too_large)
    except requests.exceptions.InvalidSchema:
        raise image_error(f"{name} redirects to something that is not http(s), which is refused") from None
    except Exception as error:
        if isinstance(error, ImageError):
            raise
        # `raw` also raises urllib3's errors, not only those of requests.
        raise image_error(f"{name} could not be fetched: {type(error).__name__}: {error}") from None
    return bytes(received)


def url_name(url: str) -> str:
    """A URL for error messages, without user name and password."""
    try:
        parts = urllib.parse.urlsplit(url)
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:  # not an address; requests will say so
        pass
    return describe(url)
