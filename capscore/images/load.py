"""An image in any form → upright 8-bit RGB with transparency on white, or a key of its content.

ICC profiles are not applied, as no CLIP preprocessing applies them. Images larger than
`PIL.Image.MAX_IMAGE_PIXELS` are refused before decoding; a program that raises this limit of Pillow (None
for no limit) raises it for capscore as well.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
import stat
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash
from PIL import Image, ImageFile, UnidentifiedImageError

from ..errors import ImageError, Setting
from ..files.sizes import IMAGE_BYTES, readable_size
from .describe import describe, image_error
from .fetch import DownloadedImage, fetch

DECODING = 1
"""Version of the decoding, part of every cached embedding's key; raised whenever pixels change."""

_EXPECTED = (
    "expected a path, bytes, an open binary file, a PIL image, a uint8 array (height, width, channels), "
    'or a datasets.Image dict {"path": …, "bytes": …}'
)
# EXIF orientation → the transposition that turns the picture upright.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION_TAG = 0x0112
_TILE_TAGS = (322, 323)
# Not raster images: Pillow passes EPS to Ghostscript and the others to programs of the operating system.
_NOT_RASTER = {"EPS", "WMF", "EMF", "BUFR", "GRIB", "HDF5", "MPEG"}
# PIL images and open files may be shared by threads, and neither can be read by two at once.
_LOCKS = [threading.Lock() for _ in range(64)]


class _Encoded(NamedTuple):
    """The bytes of an image that is not decoded yet, and its name in error messages."""

    name: str
    data: bytes


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
    encoded = _read(image, allow_urls, allow_private_urls)
    return _pixel_key(_rgb_pixels(image)) if encoded is None else _bytes_key(encoded.data)


def load_image(
    image: Any,
    *,
    allow_urls: bool = False,
    allow_private_urls: bool = False,
    expected_key: str | None = None,
) -> Image.Image:
    """An image as upright 8-bit RGB, transparency on white.

    Args:
        image: Path, `file://` address, http(s) address, data URI, encoded bytes, open binary file, PIL image,
            uint8 array or tensor (h, w) or (h, w, 1 | 3 | 4), or a `datasets.Image` dict.
        allow_urls: Whether http(s) addresses may be fetched.
        allow_private_urls: Whether they may lead to hosts that are not public, such as localhost.
        expected_key: `content_key` that the image must still have, or None.

    Returns:
        Image of mode RGB that shares no memory with what was given.

    Raises:
        ImageError: there is no image, it cannot be read or decoded, is cut short, too large, or has another
            key; says what was given.

    >>> import numpy as np
    >>> load_image(np.full((1, 1, 4), (255, 0, 0, 51), np.uint8)).getpixel((0, 0))
    (255, 204, 204)
    """
    encoded = _read(image, allow_urls, allow_private_urls)
    if encoded is None:
        rgb = _rgb_pixels(image)
        if expected_key is not None and _pixel_key(rgb) != expected_key:
            raise image_error(f"{describe(image)} changed while being scored")
        return rgb
    if expected_key is not None and _bytes_key(encoded.data) != expected_key:
        raise image_error(f"{encoded.name} changed while being scored")
    return _decode(encoded)


def _bytes_key(data: bytes) -> str:
    return f"file:{xxhash.xxh3_128_hexdigest(data)}"


def _pixel_key(rgb: Image.Image) -> str:
    digest = xxhash.xxh3_128(f"{rgb.width}x{rgb.height}:".encode())
    digest.update(rgb.tobytes())
    return f"rgb:{digest.hexdigest()}"


# Forms → encoded bytes


def _read(image: Any, allow_urls: bool, allow_private_urls: bool) -> _Encoded | None:
    """The encoded bytes of an image, or None if it has none: pixels, or anything that is not an image."""
    name = None
    if isinstance(image, DownloadedImage):
        return _read_path(str(image.path), describe(image.url))
    if hasattr(image, "as_py"):  # a scalar of an Arrow column
        image = image.as_py()
    if isinstance(image, dict):
        image, name = _from_dict(image)
    name = name or describe(image)
    if isinstance(image, str):
        return _from_text(image, allow_urls, allow_private_urls)
    if isinstance(image, os.PathLike):
        return _read_path(os.fsdecode(image), name)
    if isinstance(image, (bytes, bytearray, memoryview)):
        return _checked(name, bytes(image))
    if hasattr(image, "read") and hasattr(image, "seek"):
        return _checked(name, _read_open_file(image))
    return None


def _from_dict(image: dict) -> tuple[Any, str | None]:
    """The bytes, else the path of a dict as `datasets.Image` has it; and the name for error messages."""
    path, data = image.get("path"), image.get("bytes")
    if not image.keys() & {"path", "bytes"}:
        keys = sorted(map(str, image))
        raise image_error(f'a dict with the keys {keys} is not an image; expected {{"path": …, "bytes": …}}')
    if data is None and path is None:
        raise image_error('the dict has neither "path" nor "bytes": the image is missing')
    if data is None and not isinstance(path, (str, os.PathLike)):
        raise image_error(f'"path" in the dict is {describe(path)}; expected a str')
    if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
        raise image_error(f'"bytes" in the dict is {describe(data)}; expected bytes')
    return (path, None) if data is None else (data, None if path is None else describe(path))


def _from_text(text: str, allow_urls: bool, allow_private_urls: bool) -> _Encoded:
    scheme, name = text.partition(":")[0].lower(), describe(text)
    if not text.strip():
        raise image_error("an empty string is not an image path")
    if scheme == "data":
        return _checked(name, _read_data_uri(text))
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        return _read_path(text, name)
    if scheme in ("http", "https"):
        if not allow_urls:
            raise image_error(
                f"{name} is a URL, and URLs are fetched only with ", Setting("allow_urls", True)
            )
        return _checked(name, fetch(text, allow_private=allow_private_urls))
    if scheme == "file":
        host, slash, path = text[7:].partition("/")
        if host.lower() not in ("", "localhost") or not slash:
            host = host.rpartition("@")[2]
            raise image_error(f"{name} names the host {host!r:.60}; expected file:///path")
        from urllib.request import url2pathname  # slow to import, and file:// is rare

        return _read_path(url2pathname(slash + re.split("[?#]", path)[0]), name)
    raise image_error(
        f"{name}: addresses with {scheme}:// cannot be read; download the file, or pass its bytes"
    )


def _read_path(text: str, name: str) -> _Encoded:
    path = Path(text)
    try:
        with suppress(RuntimeError):  # no such user: the file may really have that name
            path = path.expanduser()
        about = os.stat(path)
        if stat.S_ISDIR(about.st_mode):
            raise image_error(f"{name} is a folder; expected one image file")
        if not stat.S_ISREG(about.st_mode):
            raise image_error(f"{name} is not a regular file and cannot be read twice; pass its bytes")
        _checked_size(name, about.st_size)
        with open(path, "rb") as file:
            # one more than the limit tells whether the file has grown since
            return _checked(name, file.read(IMAGE_BYTES.bytes + 1))
    except ImageError:
        raise
    except (OSError, ValueError) as error:  # ValueError: NUL, or half a surrogate pair in the name
        is_base64 = len(text) > 255 and re.fullmatch(r"[A-Za-z0-9+/=\s]+", text)
        hint = "; for base64, pass the decoded bytes or a data URI" if is_base64 else ""
        if isinstance(error, FileNotFoundError):
            folder = "" if path.is_absolute() else f" in {os.getcwd()}"
            raise image_error(f"no such file: {name}{folder}{hint}") from None
        reason = getattr(error, "strerror", None) or error
        raise image_error(f"{name} cannot be read: {reason}{hint}") from None


def _read_open_file(file: Any) -> bytes:
    """All bytes of an open file from its start; its position is restored."""
    with _lock_of(file):
        try:
            position = file.tell()
            file.seek(0)
            data = file.read(IMAGE_BYTES.bytes + 1)
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
        if not header.lower().endswith(";base64"):
            return data
        return base64.b64decode(b"".join(data.split()), validate=True)
    except UnicodeEncodeError:  # half a surrogate pair
        raise image_error(f"{describe(uri)}: a data URI with characters that no URI can hold") from None
    except binascii.Error as error:
        raise image_error(f"{describe(uri)}: its base64 cannot be decoded: {error}") from None


def _checked(name: str, data: bytes) -> _Encoded:
    _checked_size(name, len(data))
    return _Encoded(name, data)


def _checked_size(name: str, size: int) -> None:
    if not size:
        raise image_error(f"{name} is empty (0 bytes)")
    if size > IMAGE_BYTES.bytes:
        raise image_error(f"{name} has {readable_size(size)}; {IMAGE_BYTES}")


# Encoded bytes → RGB


class _StrictDecoding:
    """While entered, a truncated file is an error, whatever the program's LOAD_TRUNCATED_IMAGES says.

    Otherwise a photo with a grey lower half would be scored as if it were complete. Pillow has this flag for
    the whole process: it is cleared while at least one thread decodes, and restored after the last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._lenient = False

    def __enter__(self) -> None:
        with self._lock:
            self._threads += 1
            self._clear()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            self._clear()
            if not self._threads:
                ImageFile.LOAD_TRUNCATED_IMAGES, self._lenient = self._lenient, False

    def _clear(self) -> None:
        self._lenient = self._lenient or ImageFile.LOAD_TRUNCATED_IMAGES
        ImageFile.LOAD_TRUNCATED_IMAGES = False


_STRICT = _StrictDecoding()


@contextmanager
def _decoding_errors(message: str) -> Iterator[None]:
    """Whatever Pillow and its plugins raise (OSError, SyntaxError, struct.error, …), as an `ImageError`."""
    try:
        yield
    except (ImageError, MemoryError):
        raise
    except Exception as error:
        raise image_error(f"{message}: {error or type(error).__name__}") from None


def _decode(encoded: _Encoded) -> Image.Image:
    name, data = encoded
    with _decoding_errors(f"{name} is cut short or damaged"), _STRICT:
        try:
            image = Image.open(io.BytesIO(data))
        except UnidentifiedImageError:
            raise image_error(f"{name} is not an image that can be read: {_looks_like(data)}") from None
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            pixels = re.search(r"\d+", str(error))
            raise _too_large(name, int(pixels[0]) if pixels else 0) from None
        with image:
            if image.format in _NOT_RASTER:
                raise image_error(f"{name} is {image.format}, not a raster image; convert it to PNG")
            _check_pixels(image.width * image.height, name)
            width, height = (getattr(image, "tag_v2", {}).get(tag) for tag in _TILE_TAGS)
            if isinstance(width, int) and isinstance(height, int):  # each tile of a TIFF is decoded whole
                _check_pixels(width * height, name)
            image.load()
            _check_pixels(image.width * image.height, name)  # an icon may hold a larger image than it says
            if image.format == "PNG":
                _scale_png_transparency(image, bits=data[24])
            return _upright_rgb(image, name)


def _check_pixels(pixels: int, name: str) -> None:
    if Image.MAX_IMAGE_PIXELS is not None and pixels > Image.MAX_IMAGE_PIXELS:
        raise _too_large(name, pixels)


def _too_large(name: str, pixels: int) -> ImageError:
    return image_error(
        f"{name} has {pixels:,} pixels; the limit is {Image.MAX_IMAGE_PIXELS:,}. "
        "If you trust it, raise PIL.Image.MAX_IMAGE_PIXELS (None: no limit)"
    )


def _scale_png_transparency(image: Image.Image, bits: int) -> None:
    """Scale a PNG's transparent colour like its pixels.

    Pillow stretches 2- and 4-bit greys to 0…255 and keeps the upper byte of 16-bit colours, but does not
    scale the transparent colour, which then matches no pixel.
    """
    transparent = image.info.get("transparency")
    if image.mode == "L" and bits in (2, 4) and isinstance(transparent, int):
        image.info["transparency"] = transparent * 255 // (2**bits - 1)
    elif image.mode == "RGB" and bits == 16 and isinstance(transparent, tuple):
        image.info["transparency"] = tuple(level >> 8 for level in transparent)


def _looks_like(data: bytes) -> str:
    """What bytes that Pillow cannot read seem to be."""
    start = data[:1024]
    if re.match(rb"\xff\xd8\xff|\x89PNG|GIF8|RIFF....WEBP|II\*\0|MM\0\*", start):
        return "it begins like an image, but is cut short or damaged"
    if re.match(rb"(?i)\s*(<!doctype html|<html|<head|<body)", start):
        return "it looks like HTML (an error page saved as an image?)"
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer: the file was never pulled (git lfs pull)"
    if re.match(rb"(?s)....ftyp(heic|heix|hevc|mif1|msf1)", start):
        return "it looks like HEIC; install pillow-heif, register its opener"
    text = " ".join(start[:40].decode("utf-8", errors="replace").rstrip("\ufffd").split())
    if text and text.isprintable() and "\ufffd" not in text:
        return f"it looks like text, {text!r}"
    return f"it begins with the bytes {start[:8].hex(' ')}"


# Pixels → RGB


def _rgb_pixels(image: Any) -> Image.Image:
    """A PIL image or an array → RGB in new memory."""
    name = describe(image)
    if isinstance(image, Image.Image):
        if not image.width or not image.height:
            raise image_error(f"{name} has no pixels")
        _check_pixels(image.width * image.height, name)
        # loading and palettes change the object
        with (
            _lock_of(image),
            _decoding_errors(f"{name} cannot be read (closed, cut short or damaged)"),
            _STRICT,
        ):
            image.load()
            return _upright_rgb(image, name)
    array = _as_array(image, name)
    return _upright_rgb(Image.fromarray(array[..., 0] if array.shape[2:] == (1,) else array), name)


def _as_array(image: Any, name: str) -> np.ndarray:
    """An array or tensor of any library as a uint8 array (h, w) or (h, w, 1 | 3 | 4)."""
    # an array can be masked only where numpy.ma is loaded; naming it would load it
    if "numpy.ma" in sys.modules and isinstance(image, np.ma.MaskedArray) and np.ma.is_masked(image):
        raise image_error(f"{name} has masked pixels, whose colour is unknown; fill them first")
    try:
        if hasattr(image, "detach"):
            image = image.detach().cpu().numpy()
        elif not isinstance(image, np.ndarray) and hasattr(image, "__array__"):
            image = np.asarray(image)
    except MemoryError:
        raise
    except Exception as error:  # dtypes that NumPy lacks, such as bfloat16; sparse and nested tensors
        reason = " ".join(str(error).split())[:150]
        raise image_error(f"{name} cannot be made a NumPy array of uint8: {reason}") from None
    if not isinstance(image, np.ndarray):
        raise image_error(f"{name} is not an image; {_EXPECTED}")
    shape = image.shape
    if not image.size:
        raise image_error(f"{name} has no pixels")
    if image.ndim not in (2, 3) or (image.ndim == 3 and shape[2] not in (1, 3, 4)):
        channels_first = image.ndim == 3 and shape[0] in (1, 3, 4)
        hint = "; its channels come first: array.transpose(1, 2, 0)" if channels_first else ""
        raise image_error(f"{name}: expected (height, width) or (height, width, 1, 3 or 4 channels){hint}")
    _check_pixels(shape[0] * shape[1], name)
    if image.dtype != np.uint8:
        values = ""
        if image.dtype.kind in "iuf":
            values = f" holds values from {image.min():g} to {image.max():g}"
        raise image_error(f"{name}{values}; expected uint8 from 0 to 255: scale and convert it first")
    return image


def _upright_rgb(image: Image.Image, name: str) -> Image.Image:
    """A loaded image of any mode → RGB, upright, transparency laid on white."""
    try:
        turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION_TAG, 0))
    except Exception:  # a photo with damaged EXIF is still a photo, of unknown orientation
        turn = None
    rgb = _rgb(image, name)
    if turn is not None:
        upright = rgb.transpose(turn)
    else:
        upright = rgb.copy() if rgb is image else rgb
    upright.info = {}  # it would still contain the orientation
    return upright


def _rgb(image: Image.Image, name: str) -> Image.Image:
    # Pillow clips wide greys at 255, which makes almost all of a photo white.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        wide = np.asarray(image)
        grey = (wide >> 8).astype(np.uint8)
        transparent = image.info.get("transparency")
        if isinstance(transparent, int):
            grey[wide == transparent] = 255
        return Image.fromarray(grey).convert("RGB")
    if image.mode in ("I", "F"):
        low, high = image.getextrema()
        raise image_error(
            f"{name} has 32-bit pixels (mode {image.mode!r}, from {low:g} to {high:g}), "
            "whose white is not defined; scale them to 0…255 and convert to uint8"
        )
    if image.mode == "La":
        image = image.convert("LA")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image if image.mode == "RGBA" else image.convert("RGBA"))
    return image if image.mode == "RGB" else image.convert("RGB")


def _lock_of(item: object) -> threading.Lock:
    return _LOCKS[(id(item) >> 4) % len(_LOCKS)]
