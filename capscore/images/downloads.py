"""Images from http(s) addresses, each downloaded once."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import xxhash

from ..errors import ImageError
from .encoded import EncodedFile
from .fetch import Fetch
from .given import describe, image_error


class Downloads:
    """Fetches every URL once, so that the same bytes are keyed and decoded; deletes the files when closed.

    Args:
        allow_urls: Whether http(s) addresses may be fetched; otherwise they are returned, to be refused
            later.
        allow_private_urls: Whether hosts that are not public may be asked, such as localhost.
    """

    def __init__(self, allow_urls: bool, allow_private_urls: bool = False):
        self._allowed, self._allow_private = allow_urls, allow_private_urls
        self._stopped = False
        self._running: set[Fetch] = set()
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
                    self._folder = tempfile.TemporaryDirectory(
                        prefix="capscore-",
                        ignore_cleanup_errors=True,  # after an interrupt, threads may still be writing
                    )
            except OSError as error:
                raise image_error(f"{describe(url)} cannot be stored: {error}") from None
            name = xxhash.xxh3_128_hexdigest(url.encode("utf-8", "surrogatepass"))
            place = Path(self._folder.name, name)
            turn = self._turns.setdefault(url, threading.Lock())
        with turn:
            if url not in self._fetched:
                try:
                    place.write_bytes(self._download(url))
                    self._fetched[url] = EncodedFile(describe(url), place)
                except ImageError as error:
                    self._fetched[url] = error
                except OSError as error:
                    self._fetched[url] = image_error(f"{describe(url)} could not be stored: {error}")
        fetched = self._fetched[url]
        if isinstance(fetched, ImageError):
            raise fetched
        return fetched

    def stop(self) -> None:
        """End the downloads that are under way, and begin no more: the threads that wait for them go on."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for fetch in running:
            fetch.stop()

    def _download(self, url: str) -> bytes:
        fetch = Fetch(url, allow_private=self._allow_private)
        with self._lock:
            if self._stopped:
                raise image_error(f"{describe(url)} was not fetched: the run was ended")
            self._running.add(fetch)
        try:
            return fetch.result()
        finally:
            with self._lock:
                self._running.discard(fetch)
