"""An image in any form → its RGB pixels, or a key of its content.

In: paths, bytes, open files, PIL images, arrays, `datasets.Image` dicts, and URLs if allowed. Out: PIL images
of mode RGB; short strings that are equal only for equal content.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import xxhash
from PIL import Image

from ..errors import ImageError
from .decoding import Hold, count_pixels, decode, rgb_pixels
from .encoded import Encoded, EncodedFile, bytes_key
from .given import describe, image_error
from .in_flight import IN_FLIGHT, Ticket
from .sources import find_encoded

_READ_FIRST = 2**20  # bytes of a file that is read before its pixels are taken from `IN_FLIGHT`


def content_key(image: Any, *, allow_urls: bool = False, allow_private_urls: bool = False) -> str:
    """A key of an image's content, which does not depend on its place.

    Args:
        image: Image in any form that `load_image` takes.
        allow_urls: Whether http(s) addresses may be fetched.
        allow_private_urls: Whether they may lead to hosts that are not public, such as localhost.

    Returns:
        "file:" and 32 hexadecimal digits for encoded images (paths, bytes, open files, dicts, URLs), a digest
        of the encoded bytes; "rgb:" and 32 digits for pixels (PIL images, arrays), a digest of the size and
        the RGB pixels that `load_image` returns. XXH3, 128 bits.

    Raises:
        ImageError: there is no image, it cannot be read, is empty, or has unsuitable pixels. Encoded bytes
            are not decoded, so a damaged file still has a key.

    >>> import numpy as np
    >>> content_key(np.zeros((2, 3, 3), np.uint8)) == content_key(Image.new("L", (3, 2)))
    True
    """
    encoded = find_encoded(image, allow_urls, allow_private_urls)
    if encoded is None:
        return _pixel_key(rgb_pixels(image))
    return encoded.key()


def load_image(
    image: Any,
    *,
    allow_urls: bool = False,
    allow_private_urls: bool = False,
    expected_key: str | None = None,
) -> Image.Image:
    """An image as upright 8-bit RGB, transparency on white.

    The image is decoded, turned upright by its EXIF orientation, put on white, and converted to RGB.
    Sixteen-bit greys keep their upper eight bits, as in Pillow's treatment of sixteen-bit colours. Animations
    and multi-page files give their first frame, PIL images their current one.

    Args:
        image: Path (str, PathLike, "~/…", "file://…"), encoded bytes, open binary file, data URI, PIL image
            of any mode, uint8 array or tensor (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), datasets.Image dict,
            or with `allow_urls` an http(s) address (at most `capscore.images.fetch.MAX_DOWNLOAD_BYTES`,
            within `capscore.images.fetch.DEADLINE` seconds).
        allow_urls: Whether http(s) addresses may be fetched.
        allow_private_urls: Whether they may lead to hosts that are not public, such as localhost.
        expected_key: Earlier result of `content_key`; it is an error if the content has changed.

    Returns:
        A PIL image of mode RGB that shares no memory with the argument.

    Raises:
        ImageError: no image can be made; the message says what was given, what was expected, and how to
            convert it.

    >>> import numpy as np
    >>> load_image(np.full((1, 1, 4), (255, 0, 0, 51), np.uint8)).getpixel((0, 0))
    (255, 204, 204)
    """
    encoded = find_encoded(image, allow_urls, allow_private_urls)
    decoded, ticket = _load_with_ticket(image, encoded, expected_key)
    ticket.give_back()
    return decoded


def load_with_ticket(image: Any, *, expected_key: str) -> tuple[Image.Image, Ticket]:
    """`load_image` of an image, but no URL, and the pixels taken from `IN_FLIGHT`, to be given back."""
    return _load_with_ticket(image, find_encoded(image, False), expected_key)


def _load_with_ticket(
    image: Any, encoded: Encoded | None, expected_key: str | None
) -> tuple[Image.Image, Ticket]:
    tickets = []

    @contextmanager
    def keep(pixels: int) -> Iterator[None]:
        tickets.append(IN_FLIGHT.take(pixels))
        yield

    try:
        if isinstance(encoded, EncodedFile) and encoded.size > _READ_FIRST:
            # a thread that waits should not have the whole file in memory already
            with keep(count_pixels(image, encoded)):
                decoded = _load(image, encoded, expected_key, lambda pixels: nullcontext())
        else:
            decoded = _load(image, encoded, expected_key, keep)
    except BaseException:
        for ticket in tickets:
            ticket.give_back()
        raise
    return decoded, tickets[0]


def pixels_to_decode(image: Any) -> int:
    """How many pixels of `IN_FLIGHT` an image takes while it is decoded; 0 if it cannot be.

    Args:
        image: Image in any form that `load_image` takes, but no URL.
    """
    try:
        return count_pixels(image, find_encoded(image, False))
    except ImageError:  # decoding says what is wrong
        return 0


def load_counted_image(image: Any, *, expected_key: str) -> Image.Image:
    """`load_image` of an image, but no URL, whose `pixels_to_decode` the caller took from `IN_FLIGHT`."""
    return _load(image, find_encoded(image, False), expected_key, lambda pixels: nullcontext())


def _load(image: Any, encoded: Encoded | None, expected_key: str | None, hold: Hold) -> Image.Image:
    if encoded is None:
        rgb, name = rgb_pixels(image, hold), describe(image)
        changed = expected_key is not None and _pixel_key(rgb) != expected_key
    else:
        data, name = encoded.read(), encoded.name
        changed = expected_key is not None and bytes_key(data) != expected_key
    if changed:
        raise image_error(f"{name} changed while being scored")
    return rgb if encoded is None else decode(data, name, hold)


def _pixel_key(rgb: Image.Image) -> str:
    digest = xxhash.xxh3_128(f"{rgb.width}x{rgb.height}:".encode())
    digest.update(rgb.tobytes())
    return f"rgb:{digest.hexdigest()}"
