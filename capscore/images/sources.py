"""An image in any form → its encoded form: a path, bytes, an open file, a data URI, a dict or a URL."""

from __future__ import annotations

import base64
import binascii
import os
import re
import urllib.parse
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import Setting
from ..files.sizes import IMAGE_BYTES
from .encoded import Encoded, EncodedBytes, EncodedFile
from .fetch import Fetch
from .given import describe, image_error, lock_of


class _Urls(NamedTuple):
    """What may be fetched: http(s) addresses at all, and those of hosts that are not public."""

    allowed: bool
    private_allowed: bool


def find_encoded(image: Any, allow_urls: bool, allow_private_urls: bool = False) -> Encoded | None:
    """The encoded form of an image, or None if it has none: pixels, or anything that is not an image."""
    urls = _Urls(allow_urls, allow_private_urls)
    if isinstance(image, Encoded):  # from `Downloads`
        return image
    if hasattr(image, "as_py"):  # a scalar of an Arrow column
        image = image.as_py()
    if isinstance(image, dict):
        return _from_dict(image, urls)
    if isinstance(image, str):
        return _from_text(image, urls)
    if isinstance(image, os.PathLike):
        return _from_path(os.fsdecode(image))
    if isinstance(image, (bytes, bytearray, memoryview)):
        return EncodedBytes(describe(image), lambda: bytes(image))
    if hasattr(image, "read") and hasattr(image, "seek"):
        return EncodedBytes(describe(image), lambda: _read_open_file(image))
    return None


def _from_dict(image: dict, urls: _Urls) -> Encoded:
    if not image.keys() & {"path", "bytes"}:
        raise image_error(
            f"a dict with the keys {sorted(map(str, image))} is not an image; "
            'expected {"path": …, "bytes": …}'
        )
    path, data = image.get("path"), image.get("bytes")
    if data is None and path is None:
        raise image_error('the dict has neither "path" nor "bytes": the image is missing')
    if data is None:
        if isinstance(path, os.PathLike):
            return _from_path(os.fsdecode(path))
        if not isinstance(path, str):
            raise image_error(f'"path" in the dict is {describe(path)}; expected a str')
        return _from_text(path, urls)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise image_error(f'"bytes" in the dict is {describe(data)}; expected bytes')
    name = describe(data) if path is None else describe(path)
    return EncodedBytes(name, lambda: bytes(data))


def _from_text(text: str, urls: _Urls) -> Encoded:
    scheme = text.partition(":")[0].lower()
    if not text.strip():
        raise image_error("an empty string is not an image path")
    if scheme == "data":
        return EncodedBytes(describe(text), lambda: _read_data_uri(text))
    if scheme in ("http", "https") and text[len(scheme) :].startswith("://"):
        if not urls.allowed:
            raise image_error(
                f"{describe(text)} is a URL, and URLs are fetched only with ", Setting("allow_urls", True)
            )
        return EncodedBytes(describe(text), lambda: Fetch(text, allow_private=urls.private_allowed).result())
    if scheme == "file" and text[4:].startswith("://"):
        host, slash, path = text[7:].partition("/")
        if host.lower() not in ("", "localhost") or not slash:
            host = host.rpartition("@")[2]
            raise image_error(f"{describe(text)} names the host {host!r:.60}; expected file:///path")
        from urllib.request import url2pathname  # slow to import, and file:// is rare

        return _from_path(url2pathname(slash + re.split("[?#]", path)[0]))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise image_error(
            f"{describe(text)}: addresses with {scheme}:// cannot be read; "
            "download the file, or pass its bytes"
        )
    return _from_path(text)


def _from_path(path: str) -> Encoded:
    if "\0" in path:
        raise image_error(
            f"{describe(path)} holds a NUL character, which paths cannot contain; pass encoded bytes as bytes"
        )
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:  # no such user: the file may really have that name
        expanded = Path(path)
    return EncodedFile(describe(path), expanded)


def _read_open_file(file: Any) -> bytes:
    """All bytes of an open file from its start; its position is restored."""
    with lock_of(file):
        try:
            position = file.tell()
            file.seek(0)
            data = file.read(IMAGE_BYTES.bytes + 1)  # one more tells that there is more
            file.seek(position)
        except (OSError, ValueError) as error:  # closed, or a pipe
            raise image_error(f"{describe(file)} cannot be read: {error}; pass its path or bytes") from None
    if isinstance(data, str):
        raise image_error(f'{describe(file)} is open as text; open it with mode "rb"')
    return data


def _read_data_uri(uri: str) -> bytes:
    header, comma, payload = uri.partition(",")
    if not comma:
        raise image_error(f"{describe(uri)}: a data URI without a comma; expected data:image/…;base64,…")
    try:
        data = urllib.parse.unquote_to_bytes(payload)
    except UnicodeEncodeError:  # half a surrogate pair
        raise image_error(f"{describe(uri)}: a data URI with characters that no URI can hold") from None
    if not header.lower().endswith(";base64"):
        return data
    try:
        return base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error as error:
        raise image_error(f"{describe(uri)}: its base64 cannot be decoded: {error}") from None
