"""An image in any form → its RGB pixels, or a key of its content.

In: paths, bytes, open files, PIL images, arrays, `datasets.Image` dicts, and URLs if allowed. Out: PIL images
of mode RGB; short strings that are equal only for equal content.
"""

from __future__ import annotations

from typing import Any

import xxhash
from PIL import Image

from .decoding import decode, rgb_pixels
from .encoded import bytes_key
from .given import describe, image_error
from .sources import find_encoded


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
    if encoded is None:
        rgb, name = rgb_pixels(image), describe(image)
        changed = expected_key is not None and _pixel_key(rgb) != expected_key
    else:
        data, name = encoded.read(), encoded.name
        changed = expected_key is not None and bytes_key(data) != expected_key
    if changed:
        raise image_error(f"{name} changed while being scored")
    return rgb if encoded is None else decode(data, name)


def _pixel_key(rgb: Image.Image) -> str:
    digest = xxhash.xxh3_128(f"{rgb.width}x{rgb.height}:".encode())
    digest.update(rgb.tobytes())
    return f"rgb:{digest.hexdigest()}"
