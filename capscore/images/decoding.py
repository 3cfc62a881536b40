"""Encoded images, PIL images and arrays → upright 8-bit RGB, transparency on white.

ICC profiles are not applied, as no CLIP preprocessing applies them. Images larger than
`PIL.Image.MAX_IMAGE_PIXELS` are refused before decoding; a program that raises this limit of Pillow (None for
no limit) raises it for capscore as well.
"""

from __future__ import annotations

import io
import re
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError

from ..errors import ImageError
from .encoded import Encoded
from .given import describe, image_error, lock_of
from .in_flight import IN_FLIGHT

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
_TILE_WIDTH_TAG, _TILE_HEIGHT_TAG = 322, 323

# Not raster images: Pillow passes EPS to Ghostscript and the others to programs of the operating system.
_NOT_RASTER = {"EPS", "WMF", "EMF", "BUFR", "GRIB", "HDF5", "MPEG"}


class _StrictDecoding:
    """While held, a truncated file is an error, whatever the program's LOAD_TRUNCATED_IMAGES says.

    Otherwise a photo with a grey lower half would be scored as if it were complete. The flag is global, since
    Pillow has none per image: it is cleared while at least one thread decodes, and restored after the last. A
    count rather than a lock keeps decoding parallel. Another part of the program that decodes damaged files
    at the same time sees Pillow's default, an OSError.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._lenient: bool = False

    def __enter__(self) -> None:
        with self._lock:
            self._holders += 1
            self._put_down()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._holders -= 1
            self._put_down()
            if not self._holders:
                ImageFile.LOAD_TRUNCATED_IMAGES, self._lenient = self._lenient, False

    def _put_down(self) -> None:
        self._lenient = self._lenient or ImageFile.LOAD_TRUNCATED_IMAGES
        ImageFile.LOAD_TRUNCATED_IMAGES = False


_STRICT = _StrictDecoding()


Hold = Callable[[int], AbstractContextManager[None]]
"""Holds pixels while an image is decoded: `IN_FLIGHT.hold`, or nothing where the caller has taken them."""


def count_pixels(image: Any, encoded: Encoded | None) -> int:
    """How many pixels decoding takes from `IN_FLIGHT`: the image's own, and a quarter of its encoded bytes.

    Only the beginning of encoded images is read. 0 if it cannot be, because then decoding says what is wrong.

    Args:
        image: Image in any form.
        encoded: Its encoded form, or None.
    """
    try:
        if encoded is not None:
            with encoded.open() as file, Image.open(file) as opened:
                return opened.width * opened.height + encoded.size // 4
        if isinstance(image, Image.Image):
            return image.width * image.height
        height, width = image.shape[:2]
        return int(height) * int(width)
    except Exception:  # plugins raise whatever they like, and so do objects that are no images
        return 0


def decode(data: bytes, name: str, hold: Hold = IN_FLIGHT.hold) -> Image.Image:
    """Encoded bytes → RGB."""
    try:
        with _STRICT, Image.open(io.BytesIO(data)) as image:
            if image.format in _NOT_RASTER:
                raise image_error(f"{name} is {image.format}, not a raster image; convert it to PNG")
            _check_size(image.size, name)
            _check_tile(image, name)
            with hold(image.width * image.height + len(data) // 4):
                image.load()
                _check_size(image.size, name)  # an icon may hold a larger image than it says
                if image.format == "PNG":
                    _mend_png_transparency(image, bits=data[24])
                return _upright_rgb(image, name)
    except UnidentifiedImageError:
        raise image_error(f"{name} is not an image that can be read: {_looks_like(data)}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        pixels = re.search(r"\d+", str(error))
        raise too_large_error(name, f"{int(pixels[0]):,} pixels" if pixels else str(error)) from None
    except (ImageError, MemoryError):
        raise
    except Exception as error:  # plugins raise OSError, SyntaxError, ValueError, struct.error, zlib.error, …
        raise image_error(f"{name} is cut short or damaged: {error or type(error).__name__}") from None


def rgb_pixels(image: Any, hold: Hold = IN_FLIGHT.hold) -> Image.Image:
    """A PIL image or an array → RGB in new memory."""
    if isinstance(image, Image.Image):
        return _pil_pixels(image, hold)
    array = _as_array(image)
    if array is None:
        raise image_error(f"{describe(image)} is not an image; {_EXPECTED}")
    _check_array(array)
    if array.shape[2:] == (1,):
        array = array[..., 0]
    with hold(array.shape[0] * array.shape[1]):
        return _upright_rgb(Image.fromarray(array), describe(image))


def _pil_pixels(image: Image.Image, hold: Hold) -> Image.Image:
    name = describe(image)
    if not image.width or not image.height:
        raise image_error(f"{name} has no pixels")
    _check_size(image.size, name)
    with hold(image.width * image.height), lock_of(image):  # loading and palettes change the object
        try:
            with _STRICT:
                image.load()
                return _upright_rgb(image, name)
        except (ImageError, MemoryError):
            raise
        except Exception as error:
            raise image_error(f"{name} cannot be read (closed, cut short or damaged): {error}") from None


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


def _mend_png_transparency(image: Image.Image, bits: int) -> None:
    """Scale a PNG's transparent colour like its pixels.

    Pillow stretches 2- and 4-bit greys to 0…255 and keeps the upper byte of 16-bit colours, but does not
    scale the transparent colour, which then matches no pixel.
    """
    transparent = image.info.get("transparency")
    if image.mode == "L" and bits in (2, 4) and isinstance(transparent, int):
        image.info["transparency"] = transparent * 255 // (2**bits - 1)
    elif image.mode == "RGB" and bits == 16 and isinstance(transparent, tuple):
        image.info["transparency"] = tuple(level >> 8 for level in transparent)


def _check_size(size: tuple[int, int], name: str) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and size[0] * size[1] > limit:
        raise too_large_error(name, f"{size[0]} × {size[1]} = {size[0] * size[1]:,} pixels")


def _check_tile(image: Image.Image, name: str) -> None:
    """Refuse a TIFF whose single tiles are larger than an image may be: each is decoded whole."""
    tags = getattr(image, "tag_v2", {})
    width, height = tags.get(_TILE_WIDTH_TAG), tags.get(_TILE_HEIGHT_TAG)
    if isinstance(width, int) and isinstance(height, int):
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and width * height > limit:
            raise too_large_error(name, f"tiles of {width} × {height} = {width * height:,} pixels")


def too_large_error(name: str, extent: str) -> ImageError:
    return image_error(
        f"{name} has {extent}; the limit is {Image.MAX_IMAGE_PIXELS:,}. "
        "If you trust it, raise PIL.Image.MAX_IMAGE_PIXELS (None: no limit)"
    )


def _as_array(image: Any) -> np.ndarray | None:
    """An array or tensor of any library as a NumPy array, or None for anything else."""
    # an array can be masked only where numpy.ma is loaded; naming it would load it
    if "numpy.ma" in sys.modules and isinstance(image, np.ma.MaskedArray) and np.ma.is_masked(image):
        raise image_error(f"{describe(image)} has masked pixels, whose colour is unknown; fill them first")
    if isinstance(image, np.ndarray):
        return image
    if str(getattr(image, "device", "")) == "meta":
        raise image_error(f"{describe(image)} is on the device 'meta', which stores no pixels")
    try:
        if hasattr(image, "detach"):
            return image.detach().cpu().numpy()
        return np.asarray(image) if hasattr(image, "__array__") else None
    except MemoryError:
        raise
    except Exception as error:  # dtypes that NumPy lacks, such as bfloat16; sparse and nested tensors
        given = describe(image)
        if isinstance(error, TypeError) and "uint8" not in str(getattr(image, "dtype", "")):
            how = "does not hold uint8; scale it to 0…255 and convert to uint8"
        else:
            how = f"cannot be made a NumPy array: {' '.join(str(error).split()):.150}"
        raise image_error(f"{given} {how}") from None


def _check_array(array: np.ndarray) -> None:
    given = describe(array)
    shape = array.shape
    if array.ndim == 1 and array.dtype == np.uint8:
        raise image_error(f"{given} has one dimension; if it is an encoded file, pass array.tobytes()")
    if array.ndim == 4:
        raise image_error(f"{given} is a batch of {shape[0]} images; expected one (height, width, channels)")
    if array.ndim not in (2, 3):
        raise image_error(f"{given} has {array.ndim} dimensions; expected (height, width[, channels])")
    if not array.size:
        raise image_error(f"{given} has no pixels")
    if array.ndim == 3 and shape[2] not in (1, 3, 4):
        if shape[0] in (1, 3, 4):
            raise image_error(
                f"{given} has its channels first; transpose it to (height, width, channels): "
                "array.transpose(1, 2, 0), for a tensor tensor.permute(1, 2, 0)"
            )
        raise image_error(f"{given} has {shape[2]} channels; expected 1, 3 or 4 in the last place")
    _check_size((shape[1], shape[0]), given)
    if array.dtype != np.uint8:
        raise image_error(f"{given} {_how_to_uint8(array)}")


def _how_to_uint8(array: np.ndarray) -> str:
    """The values of an array that is not uint8, and how to convert them."""
    if array.dtype == bool:
        return 'holds booleans; expected uint8: array.astype("uint8") * 255'
    if array.dtype.kind not in "iuf":
        return "does not hold numbers; expected uint8"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        culprit = "NaN" if np.isnan(array).any() else "infinite values"
        return f"contains {culprit}; expected uint8 from 0 to 255"
    low, high = array.min(), array.max()
    values = f"holds values from {low:g} to {high:g}; expected uint8: "
    if low >= 0 and high <= 1 and array.dtype.kind == "f":
        return values + '(array * 255).round().astype("uint8")'
    if low >= 0 and high <= 255:
        rounded = ".round()" if array.dtype.kind == "f" else ""
        return values + f'array{rounded}.astype("uint8")'
    if array.dtype == np.uint16:
        return values + '(array >> 8).astype("uint8")'
    return values + "undo the normalisation and scale to 0…255 first"


_UNREADABLE = "is cut short, damaged, or of a kind that Pillow cannot read"
_SIGNATURES = [
    (rb"\xff\xd8\xff", "it begins like a JPEG, but " + _UNREADABLE),
    (rb"\x89PNG", "it begins like a PNG, but " + _UNREADABLE),
    (rb"GIF8|RIFF....WEBP|II\*\0|MM\0\*", "it begins like an image, but " + _UNREADABLE),
    (rb"(?i)\s*(<!doctype html|<html|<head|<body)", "it looks like HTML (an error page saved as an image?)"),
    (rb"(?s)\s*(<\?xml.*?)?(<!--.*?-->\s*)?<svg", "it looks like SVG, a drawing; convert it to PNG"),
    (rb"\s*<\?xml", "it looks like XML"),
    (rb"\s*[{\[][\s\"{\[\]}]", "it looks like JSON"),
    (rb"version https://git-lfs", "it is a Git LFS pointer: the file was never pulled (git lfs pull)"),
    (rb"%PDF", "it looks like PDF; convert the page to PNG"),
    (
        rb"(?s)....ftyp(heic|heix|hevc|mif1|msf1)",
        "it looks like HEIC; install pillow-heif, register its opener",
    ),
    (rb"(?s)....ftypavi[fs]", "it looks like AVIF: damaged, or this Pillow cannot read it"),
    (rb"(?s)....ftyp", "it looks like a video (MP4, MOV)"),
    (rb"PK\x03\x04", "it looks like a ZIP archive"),
    (rb"\x1f\x8b", "it looks like gzip"),
    (rb"\x93NUMPY", "it looks like a NumPy file; pass np.load(path)"),
    (rb"\0+\Z", "it consists of zero bytes"),
]


def _looks_like(data: bytes) -> str:
    """What bytes that Pillow cannot read seem to be."""
    start = data[:1024]
    for pattern, meaning in _SIGNATURES:
        if re.match(pattern, start):
            return meaning
    # The last character may have been cut.
    text = " ".join(start[:40].decode("utf-8", errors="replace").rstrip("\ufffd").split())
    if text and text.isprintable() and "\ufffd" not in text:
        return f"it looks like text, {text!r}"
    return f"it begins with the bytes {start[:8].hex(' ')}"
