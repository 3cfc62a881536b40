"""An image in any form → upright 8-bit RGB with transparency on white, or a key of its content.

ICC profiles are not applied, as no CLIP preprocessing applies them. Pillow's limit of pixels,
`PIL.Image.MAX_IMAGE_PIXELS`, holds. `PIL.ImageFile.LOAD_TRUNCATED_IMAGES` is cleared while a thread decodes:
a photo with a grey lower half would be scored as if it were complete.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from PIL import Image

from ..errors import ImageError, InputError, Setting, address_name
from ..files.image_folder import data_bytes
from ..files.row_source import LazySequence
from ..files.text_files import IMAGE_BYTES, looks_like, readable_size
from ..switches import Switch
from .fetch import DownloadedImage, fetch, image_error

DECODING = 1
"""Version of the decoding, part of every cached embedding's key; raised whenever pixels change."""

_EXPECTED = (
    "expected a path, bytes, a PIL image, an array (height, width, channels), a tensor (channels, height, "
    'width), or a datasets.Image dict {"path": …, "bytes": …}'
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
_BYTES = (bytes, bytearray, memoryview)
# Floats of 0 to 255 have a highest above this. Those between 1 and this would be black: they are floats of
# 0 to 1 that resampling pushed over the end, or that were normalised, and are refused.
_OVERSHOOT = 8
_ORIENTATION_TAG = 0x0112
_TILE_TAGS = (322, 323)
# Not raster images: Pillow passes EPS to Ghostscript and the others to programs of the operating system.
_NOT_RASTER = {"EPS", "WMF", "EMF", "BUFR", "GRIB", "HDF5", "MPEG"}
# Whether Pillow decodes photos that are cut short: one flag for all threads.
_TRUNCATED_IMAGES = Switch.of_attribute("PIL.ImageFile", "LOAD_TRUNCATED_IMAGES")


def describe(image: Any) -> str:
    """A short description of an object for error messages."""
    if isinstance(image, (str, os.PathLike)):
        text = os.fsdecode(image)
        if ":" in text:
            text = address_name(text)
        if len(text) > 200:
            text = f"{text[:60]}…({len(text)} characters)"
        return repr(text)
    if isinstance(image, _BYTES):
        return f"{type(image).__name__} of length {len(image)}"
    if isinstance(image, Image.Image):
        return f"PIL image (mode {image.mode}, {image.width} × {image.height})"
    with suppress(Exception):  # a nested tensor has no shape, and raises when it is asked
        kind = "array" if isinstance(image, np.ndarray) else type(image).__name__
        return f"{kind} of shape {tuple(image.shape)} and dtype {str(image.dtype).removeprefix('torch.')}"
    if image is None or isinstance(image, (bool, int, float)):
        return repr(image)
    return f"an object of type {type(image).__name__}"


def content_key(image: object, *, allow_urls: bool = False, allow_private_urls: bool = False) -> str:
    """A key of an image's content, which does not depend on its place; arguments are those of `load_image`.

    Returns:
        "file:" and a digest (XXH3, 32 hexadecimal digits) of the encoded bytes; for pixels (PIL images,
        arrays) "rgb:" and one of the size and the RGB pixels that `load_image` returns.

    Raises:
        ImageError: There is no image, it cannot be read, is empty, or has unsuitable pixels. Encoded bytes
            are not decoded, so a damaged file still has a key.

    >>> import numpy as np
    >>> content_key(np.zeros((2, 3, 3), np.uint8)) == content_key(Image.new("L", (3, 2)))
    True
    """
    return _key(_read(image, allow_urls, allow_private_urls)[1])


def load_image(
    image: object,
    *,
    allow_urls: bool = False,
    allow_private_urls: bool = False,
    expected_key: str | None = None,
) -> Image.Image:
    """An image as upright 8-bit RGB, transparency on white.

    Args:
        image: Path, http(s) address, encoded bytes, PIL image, `datasets.Image` dict, or array or tensor of
            whole numbers from 0 to 255, or floats from 0 to 1 or to 255: (h, w), (h, w, 1 | 3 | 4) or
            (1 | 3 | 4, h, w). If a shape is ambiguous, PyTorch tensors are read with channels first, arrays
            with channels last.
        allow_urls: Whether http(s) addresses may be fetched.
        allow_private_urls: Whether they may lead to hosts that are not public, such as localhost.
        expected_key: `content_key` that the image must still have, or None.

    Returns:
        Image of mode RGB that shares no memory with the input.

    Raises:
        ImageError: There is no image, it cannot be read or decoded, is cut short, too large, or has another
            key; says what was given.

    >>> import numpy as np
    >>> load_image(np.full((1, 1, 4), (255, 0, 0, 51), np.uint8)).getpixel((0, 0))
    (255, 204, 204)
    """
    name, content = _read(image, allow_urls, allow_private_urls)
    if expected_key is not None and _key(content) != expected_key:
        raise image_error(f"{name} changed while being scored")
    if isinstance(content, bytes):
        return _decode(name, content)
    return content


def address_of(image: object) -> str:
    """The http(s) address that an image is, or that its `datasets.Image` dict has as path; "" for none."""
    if isinstance(image, dict) and image.get("bytes") is None:
        image = image.get("path")
    if isinstance(image, str) and image.lower().startswith(("http://", "https://")):
        return image
    return ""


# keys of the photos that this process has seen and that show nothing
BLANK: set[str] = set()


def shows_nothing(image: Image.Image) -> bool:
    """Whether an RGB image has one colour, as transparent ones become white, or a side of 1 or 2 pixels.

    Colours count as one where each channel differs by at most 4 of 255, as JPEG may change them.

    >>> shows_nothing(Image.new("RGB", (8, 8))), shows_nothing(Image.radial_gradient("L").convert("RGB"))
    (True, False)
    """
    if min(image.size) < 3:
        return True
    extrema: Any = image.getextrema()
    return all(high - low <= 4 for low, high in extrema)


def _key(content: bytes | Image.Image) -> str:
    if isinstance(content, bytes):
        return f"file:{xxhash.xxh3_128_hexdigest(content)}"
    digest = xxhash.xxh3_128(f"{content.width}x{content.height}:".encode())
    digest.update(content.tobytes())
    return f"rgb:{digest.hexdigest()}"


def _read(image: object, allow_urls: bool, allow_private_urls: bool) -> tuple[str, bytes | Image.Image]:
    """Name for messages, and the encoded bytes or the RGB pixels of an image."""
    if isinstance(image, DownloadedImage):
        name = describe(image.url)
        return name, _file_bytes(str(image.path), name)
    if hasattr(image, "as_py"):  # a scalar of an Arrow column
        image = image.as_py()
    name = describe(image)
    if isinstance(image, dict):
        path, data = image.get("path"), image.get("bytes")
        if not isinstance(data, _BYTES) and not (data is None and isinstance(path, (str, os.PathLike))):
            expected = 'expected {"path": …, "bytes": …} with one of them'
            raise image_error(f"the dict {image!r:.60} is not an image; {expected}")
        name = describe(data if path is None else path)
        image = path if data is None else data
    if isinstance(image, str):
        if not image.strip():
            raise image_error("an empty string is not an image path")
        data = _bytes_at(image, name, allow_urls, allow_private_urls)
    elif isinstance(image, os.PathLike):
        data = _file_bytes(os.fsdecode(image), name)
    elif isinstance(image, _BYTES):
        data = bytes(image)
    else:
        return name, _rgb_pixels(image, name)
    _check_size(len(data), name)
    return name, data


def _bytes_at(text: str, name: str, allow_urls: bool, allow_private_urls: bool) -> bytes:
    if text[:5].lower() == "data:":
        return data_bytes(text)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if scheme is None:
        return _file_bytes(text, name)
    if scheme[1].lower() not in ("http", "https"):
        raise image_error(f"{name}: expected a path, or an http(s) address")
    if not allow_urls:
        raise image_error(f"{name} is a URL, which is fetched only with ", Setting("allow_urls", True))
    return fetch(text, allow_private=allow_private_urls)


def _file_bytes(text: str, name: str) -> bytes:
    path = text
    try:
        if text.startswith("~"):
            with suppress(RuntimeError):  # no such user: the file may really have that name
                path = str(Path(text).expanduser())
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            raise image_error(f"{name} is not a regular file; expected one image file")
        _check_size(about.st_size, name)
        with open(path, "rb") as file:
            return file.read(about.st_size)
    except FileNotFoundError:
        if not os.path.isabs(path):
            name = f"{name} in {os.getcwd()}"
        raise image_error(f"no such file: {name}") from None
    except ImageError:
        raise
    except (OSError, ValueError) as error:  # ValueError: NUL, or half a surrogate pair in the name
        raise image_error(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _check_size(size: int, name: str) -> None:
    """Raise an `ImageError` unless an encoded image of so many bytes may be read."""
    if not size:
        raise image_error(f"{name} is empty (0 bytes)")
    # nearly every image is below the limit that holds without the variable
    may_be_large = size > IMAGE_BYTES.default or IMAGE_BYTES.variable in os.environ
    if may_be_large and size > IMAGE_BYTES.bytes:
        raise image_error(f"{name} has {readable_size(size)}; {IMAGE_BYTES}")


@contextmanager
def _strict_decoding(name: str) -> Iterator[None]:
    """Whatever Pillow and its plugins raise (OSError, SyntaxError, struct.error, …), as an `ImageError`."""
    try:
        with _TRUNCATED_IMAGES.at(False):
            yield
    except (ImageError, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise image_error(f"{name} is too large: {error}") from None
    except Exception as error:
        raise image_error(f"{name} is cut short or damaged: {error!r:.200}") from None


def _decode(name: str, data: bytes) -> Image.Image:
    with _strict_decoding(name):
        try:
            image = Image.open(io.BytesIO(data))
        except Image.UnidentifiedImageError:
            start = looks_like(data[:64]) or f"it begins with {data[:24]!r}"
            raise image_error(f"{name} is not an image that can be read, or is damaged: {start}") from None
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


def photo_problem(data: bytes) -> str:
    """What is wrong with the encoded bytes of a photo, as the end of a sentence; "" for nothing.

    All of them are read, those of a JPEG for a small copy of it, which is quick.
    """
    try:
        with _strict_decoding("the photo"), Image.open(io.BytesIO(data)) as image:
            image.draft("RGB", (1, 1))
            _check_pixels(image.width * image.height, "the photo")
            image.load()
    except ImageError:
        start = looks_like(data[:64]) or f"it begins with {data[:24]!r}"
        return f"holds no photo that can be read, or a damaged one: {start}"
    return ""


def _check_pixels(pixels: int, name: str) -> None:
    if Image.MAX_IMAGE_PIXELS is not None and pixels > Image.MAX_IMAGE_PIXELS:
        limit = f"{Image.MAX_IMAGE_PIXELS:,} (PIL.Image.MAX_IMAGE_PIXELS)"
        raise image_error(f"{name} has {pixels:,} pixels; the limit is {limit}")


def _scale_png_transparency(image: Image.Image, bits: int) -> None:
    """Scale a PNG's transparent colour as Pillow scales 2-, 4- and 16-bit pixels, so that it matches some."""
    transparent = image.info.get("transparency")
    if image.mode == "L" and bits in (2, 4) and isinstance(transparent, int):
        image.info["transparency"] = transparent * 255 // (2**bits - 1)
    elif image.mode == "RGB" and bits == 16 and isinstance(transparent, tuple):
        image.info["transparency"] = tuple(level >> 8 for level in transparent)


def _rgb_pixels(image: object, name: str) -> Image.Image:
    """A PIL image or an array → RGB in new memory."""
    if isinstance(image, Image.Image):
        if not image.width or not image.height:
            raise image_error(f"{name} has no pixels")
        _check_pixels(image.width * image.height, name)
        with _strict_decoding(name):
            image.load()
            return _upright_rgb(image, name)
    array = _as_array(image, name)
    if array.shape[2:] == (1,):
        array = array[..., 0]
    return _upright_rgb(Image.fromarray(array), name)


def _as_array(image: Any, name: str) -> np.ndarray:
    """An array or tensor of any library as a uint8 array (h, w) or (h, w, 1 | 3 | 4)."""
    is_tensor = hasattr(image, "detach")
    try:
        if is_tensor:
            image = image.detach().cpu().numpy()
        elif not isinstance(image, np.ndarray) and hasattr(image, "__array__"):
            image = np.asarray(image)
    except MemoryError:
        raise
    except Exception as error:  # dtypes that NumPy lacks, such as bfloat16; sparse and nested tensors
        reason = " ".join(str(error).split())[:150]
        raise image_error(f"{name} cannot become a NumPy array of uint8: {reason}") from None
    if not isinstance(image, np.ndarray):
        raise image_error(f"{name} is not an image; {_EXPECTED}")
    if not image.size:
        raise image_error(f"{name} has no pixels")
    if np.ma.is_masked(image):
        raise image_error(f"{name} has masked pixels; fill them first")
    channels = (1, 3, 4)
    if image.ndim == 3 and image.shape[0] in channels and (is_tensor or image.shape[2] not in channels):
        image = np.moveaxis(image, 0, -1)
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in channels):
        raise image_error(f"{name}: expected (height, width) or (height, width, 1, 3 or 4 channels)")
    _check_pixels(image.shape[0] * image.shape[1], name)
    return _eight_bits(image, name)


def _eight_bits(pixels: np.ndarray, name: str) -> np.ndarray:
    """Numbers from 0 to 255, or floats from 0 to 1, as uint8."""
    kind = pixels.dtype.kind
    if pixels.dtype == np.uint8:
        return pixels
    if kind in "iuf":
        lowest, highest = pixels.min(), pixels.max()
        if kind == "f" and 0 <= lowest and highest <= 1:
            return np.rint(pixels * 255).astype(np.uint8)
        if 0 <= lowest and highest <= 255 and (kind != "f" or highest > _OVERSHOOT):
            return np.rint(pixels).astype(np.uint8)
        name = f"{name}, values from {lowest} to {highest}"
    raise image_error(f"{name}: expected numbers from 0 to 255, or float from 0 to 1: convert it first")


def _upright_rgb(image: Image.Image, name: str) -> Image.Image:
    """A loaded image of any mode → RGB in new memory, upright, transparency laid on white."""
    turn = None
    with suppress(Exception):  # a photo with damaged EXIF is still a photo, of unknown orientation
        turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION_TAG, 0))
    upright = _rgb(image, name)
    if turn is not None:
        upright = upright.transpose(turn)
    upright.info = {}  # it would still contain the orientation
    return upright


def _rgb(image: Image.Image, name: str) -> Image.Image:
    """A loaded image of any mode → RGB in new memory, transparency laid on white."""
    # Pillow clips wide greys at 255, which makes almost all of a photo white.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        wide = np.asarray(image)
        grey = (wide >> 8).astype(np.uint8)
        transparent = image.info.get("transparency")
        if isinstance(transparent, int):
            grey[wide == transparent] = 255
        return Image.fromarray(grey).convert("RGB")
    if image.mode in ("I", "F"):
        raise image_error(f"{name} has 32-bit pixels (mode {image.mode!r}); scale them to 0…255 as uint8")
    if image.mode == "La":
        image = image.convert("LA")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


def check_images(images: Any) -> Sequence[Any]:
    """The images of all rows → a sequence with cheap access by index.

    Nothing is decoded or read from disk: a column of a `datasets.Dataset`, and an Arrow column, are read row
    by row as stored. Iterators and streams become lists.

    Args:
        images: List, array (N, H, W, C), tensor (N, C, H, W), column of pandas, Arrow or a data set, other
            sequence, or iterator.

    Raises:
        InputError: It is a single image, a folder, a table or something without order.

    >>> check_images(["a.jpg", "b.jpg"])
    ['a.jpg', 'b.jpg']
    """
    is_table = hasattr(images, "columns") or hasattr(images, "column_names")
    is_iterable = isinstance(images, Iterable) or hasattr(images, "__getitem__")
    if is_table or not is_iterable or isinstance(images, (set, frozenset)) or _is_one_image(images):
        raise InputError(
            f"images={describe(images)}: expected a list with one image per candidate, not one image, a "
            "folder, a table or a set; of a table, pass one column"
        )
    column = _dataset_column(images)
    if column is not None:
        return column
    if hasattr(images, "to_pylist"):
        return LazySequence(len(images), lambda index: images[index].as_py())
    has_rows = hasattr(images, "__len__") and hasattr(images, "__getitem__")
    if isinstance(images, Sequence) or (has_rows and not hasattr(images, "ndim")):
        return images
    # The rows of an array are views, so no pixels are copied; and [i] of a pandas column would be a label.
    return list(images)


def _dataset_column(images: Any) -> Sequence[Any] | None:
    """A column of a data set → its stored rows: paths and encoded bytes; None for anything else."""
    datasets = sys.modules.get("datasets")  # imported already if there is a column
    names: list[str] = []
    source = images
    while hasattr(source, "column_name") and type(source).__module__.startswith("datasets."):
        names.insert(0, source.column_name)
        source = source.source
    if datasets is None or not names:
        return None
    if isinstance(source, datasets.IterableDataset):
        stream = source if source.features is None else source.decode(False)
        for name in names:
            stream = stream[name]
        return list(stream)
    feature = source.features
    for name in names:
        feature = feature[name]
    # A transform, or the feature's mode, is part of what the user wants scored: such rows are decoded.
    is_image = isinstance(feature, datasets.Image) and feature.mode in (None, "RGB")
    texts = ("string", "large_string", "binary", "large_binary")
    is_text = isinstance(feature, datasets.Value) and feature.dtype in texts
    if source.format["type"] == "custom" or not (is_image or is_text):
        return images
    rows = source.select_columns([names[0]]).with_format("arrow")

    def get(index: int) -> Any:
        value = rows[index].column(0)[0].as_py()
        for name in names[1:]:
            value = None if value is None else value[name]
        return value

    return LazySequence(len(rows), get)


def _is_one_image(images: Any) -> bool:
    is_column = hasattr(images, "to_pylist") or hasattr(images, "to_list")
    dimensions = None if is_column else getattr(images, "ndim", None)
    return (
        isinstance(images, (str, os.PathLike, bytes, bytearray, memoryview, dict, Image.Image))
        or dimensions in (0, 2, 3)
        or (dimensions == 1 and getattr(images.dtype, "kind", "u") not in "OUST")
        or (hasattr(images, "read") and hasattr(images, "seek"))
    )
