"""Any way a person hands over an image → its RGB pixels, and a key of its content.

In: paths, bytes, open files, PIL images, arrays, `datasets.Image` dicts, columns, URLs when asked for.
Out: PIL images of mode RGB, and short strings that are equal only where the content is.

Larger images than `PIL.Image.MAX_IMAGE_PIXELS` are refused before they are decoded: that one number is the
limit here as well, so a program that raises it (or sets it to None) for Pillow has raised it for capscore.
ICC profiles are not applied, as no CLIP preprocessing applies them.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
import stat
import tempfile
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from PIL import Image, ImageFile, UnidentifiedImageError

from ..errors import ImageError

MAX_DOWNLOAD_BYTES = 32 * 2**20
"""Largest image that is fetched from a URL."""

TIMEOUT = (10, 30)
"""Seconds to wait for a connection, and for the next bytes of an answer."""

DECODING = 1
"""Raised whenever the same bytes would give other pixels; part of every cached embedding's address."""

EXPECTED = (
    "expected a path, bytes, an open binary file, a PIL image, a uint8 array (height, width, channels), "
    'or a datasets.Image dict {"path": …, "bytes": …}'
)

_CHUNK = 2**20

# EXIF orientation → what brings the picture upright.
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

# Not rasters: Pillow hands EPS to Ghostscript and the others to programs of the operating system.
_NOT_RASTER = {"EPS", "WMF", "EMF", "BUFR", "GRIB", "HDF5", "MPEG"}

# Handed-over PIL images and open files are shared by threads, and neither may be read by two at once.
_LOCKS = [threading.Lock() for _ in range(64)]


def content_key(image: Any, *, allow_urls: bool = False) -> str:
    """A digest of what an image is made of, never of where it lies.

    Args:
        image: one image, in any of the forms that `load_image` takes.
        allow_urls: whether http(s) addresses may be fetched.

    Returns:
        "file:" and 32 hexadecimal digits for encoded images (paths, bytes, open files, dicts, URLs), over
        the encoded bytes; "rgb:" and 32 digits for pixels (PIL images, arrays), over the size and the RGB
        pixels that `load_image` returns. XXH3, 128 bits.

    Raises:
        ImageError: nothing there, not readable, empty, or pixels that are no image. Encoded bytes are not
            decoded here, so a damaged file still has a key.

    >>> content_key(np.zeros((2, 3, 3), np.uint8)) == content_key(Image.new("L", (3, 2)))
    True
    """
    encoded = _encoded(image, allow_urls)
    if encoded is None:
        return _pixel_key(_pixels(image))
    return encoded.key()


def load_image(image: Any, *, allow_urls: bool = False, expected_key: str | None = None) -> Image.Image:
    """One image, upright, on white, as 8-bit RGB.

    Decoded, turned as EXIF says, transparency laid on white, then made RGB. Sixteen-bit greys keep their
    upper eight bits, as Pillow does with sixteen-bit colours. Of animations and multi-page files, the first
    frame; of a PIL image, the frame it is at.

    Args:
        image: a path (str, PathLike, "~/…", "file://…"), encoded bytes, an open binary file, a data URI, a
            PIL image of any mode, a uint8 array or tensor (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), a
            datasets.Image dict, or with `allow_urls` an http(s) address (at most `MAX_DOWNLOAD_BYTES`).
        allow_urls: whether http(s) addresses may be fetched.
        expected_key: what `content_key` said before; another content is an error.

    Returns:
        A PIL image of mode RGB that shares nothing with what was given.

    Raises:
        ImageError: what was given, what was expected, and how to convert it.

    >>> load_image(np.full((1, 1, 4), (255, 0, 0, 51), np.uint8)).getpixel((0, 0))
    (255, 204, 204)
    """
    encoded = _encoded(image, allow_urls)
    if encoded is None:
        rgb, name = _pixels(image), describe(image)
        changed = expected_key is not None and _pixel_key(rgb) != expected_key
    else:
        data, name = encoded.read(), encoded.name
        changed = expected_key is not None and _bytes_key(data) != expected_key
    if changed:
        raise _error(f"{name} changed while being scored")
    return rgb if encoded is None else _decode(data, name)


class Downloads:
    """Fetches every URL once: what was keyed is what is decoded. The files go when it is closed.

    Args:
        allow_urls: whether http(s) addresses may be fetched; otherwise they pass through, to be refused.
    """

    def __init__(self, allow_urls: bool):
        self._allowed = allow_urls
        self._folder: tempfile.TemporaryDirectory | None = None
        self._fetched: dict[str, _Encoded | ImageError] = {}
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}

    def __enter__(self) -> Downloads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def local(self, image: Any) -> Any:
        """An image as it is; in place of a URL (also as a dict's path), what was fetched from it.

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
                raise _error(f"{_url_name(url)} has no place to be fetched to: {error}") from None
            name = xxhash.xxh3_128_hexdigest(url.encode("utf-8", "surrogatepass"))
            place = Path(self._folder.name, name)
            turn = self._turns.setdefault(url, threading.Lock())
        with turn:
            if url not in self._fetched:
                try:
                    place.write_bytes(_download(url))
                    self._fetched[url] = _Encoded(_url_name(url), path=place)
                except ImageError as error:
                    self._fetched[url] = error
                except OSError as error:
                    self._fetched[url] = _error(f"{_url_name(url)} could not be kept: {error}")
        fetched = self._fetched[url]
        if isinstance(fetched, ImageError):
            raise fetched
        return fetched


@dataclass(frozen=True)
class _Encoded:
    """An image that is not decoded yet: how errors call it, and the file it is in or how to get its bytes."""

    name: str
    path: Path | None = None
    fetch: Callable[[], bytes] | None = None

    def read(self) -> bytes:
        if self.fetch is not None:
            data = self.fetch()
        else:
            with self._open() as file:
                data = self._checked(file.read)
        if not data:
            raise _error(f"{self.name} is empty (0 bytes)")
        return data

    def key(self) -> str:
        if self.fetch is not None:
            return _bytes_key(self.read())
        digest, size = xxhash.xxh3_128(), 0
        with self._open() as file:
            while chunk := self._checked(lambda: file.read(_CHUNK)):
                digest.update(chunk)
                size += len(chunk)
        if not size:
            raise _error(f"{self.name} is empty (0 bytes)")
        return f"file:{digest.hexdigest()}"

    def _open(self) -> io.BufferedReader:
        try:
            kind = os.stat(self.path).st_mode
            if stat.S_ISDIR(kind):
                raise _error(f"{self.name} is a folder; expected one image file")
            if not stat.S_ISREG(kind):
                raise _error(f"{self.name} is not a regular file and cannot be read twice; pass its bytes")
            return open(self.path, "rb")
        except FileNotFoundError:
            place = "" if self.path.is_absolute() else f" in {os.getcwd()}"
            raise _error(f"no such file: {self.name}{place}{self._base64_hint()}") from None
        except (OSError, ValueError) as error:  # ValueError: half a surrogate pair in the name
            reason = getattr(error, "strerror", None) or error
            raise _error(f"{self.name} cannot be read: {reason}{self._base64_hint()}") from None

    def _base64_hint(self) -> str:
        if len(str(self.path)) > 255 and re.fullmatch(r"[A-Za-z0-9+/=\s]+", str(self.path)):
            return "; if it is base64, pass the decoded bytes or a data URI (data:image/jpeg;base64,…)"
        return ""

    def _checked(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except OSError as error:
            raise _error(f"{self.name} cannot be read: {error.strerror or error}") from None


def _encoded(image: Any, allow_urls: bool) -> _Encoded | None:
    """Where the encoded bytes of an image are, or None if it is pixels (or no image at all)."""
    if isinstance(image, _Encoded):  # from Downloads
        return image
    if hasattr(image, "as_py"):  # a scalar of an Arrow column
        image = image.as_py()
    if isinstance(image, dict):
        return _encoded_dict(image, allow_urls)
    if isinstance(image, str):
        return _encoded_text(image, allow_urls)
    if isinstance(image, os.PathLike):
        return _encoded_path(os.fsdecode(image))
    if isinstance(image, (bytes, bytearray, memoryview)):
        return _Encoded(describe(image), fetch=lambda: bytes(image))
    if hasattr(image, "read") and hasattr(image, "seek"):
        return _Encoded(describe(image), fetch=lambda: _read_open_file(image))
    return None


def _encoded_dict(image: dict, allow_urls: bool) -> _Encoded:
    if not image.keys() & {"path", "bytes"}:
        raise _error(
            f"a dict with the keys {sorted(map(str, image))} is not an image; "
            'expected {"path": …, "bytes": …}'
        )
    path, data = image.get("path"), image.get("bytes")
    if data is None and path is None:
        raise _error('the dict has neither "path" nor "bytes": the image is missing')
    if data is None:
        if not isinstance(path, (str, os.PathLike)):
            raise _error(f'"path" in the dict is {describe(path)}; expected a str')
        return _encoded(path, allow_urls)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise _error(f'"bytes" in the dict is {describe(data)}; expected bytes')
    name = describe(data) if path is None else describe(path)
    return _Encoded(name, fetch=lambda: bytes(data))


def _encoded_text(text: str, allow_urls: bool) -> _Encoded:
    scheme = text.partition(":")[0].lower()
    if not text.strip():
        raise _error("an empty string is not an image path")
    if scheme == "data":
        return _Encoded(describe(text), fetch=lambda: _read_data_uri(text))
    if scheme in ("http", "https") and text[len(scheme) :].startswith("://"):
        if not allow_urls:
            raise _error(f"{_url_name(text)} is a URL, and none is fetched unless you pass allow_urls=True")
        return _Encoded(_url_name(text), fetch=lambda: _download(text))
    if scheme == "file" and text[4:].startswith("://"):
        parts = urllib.parse.urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise _error(f"{describe(text)} names the host {parts.netloc!r}; expected file:///path")
        from urllib.request import url2pathname  # slow to import, and file:// is rare

        return _encoded_path(url2pathname(parts.path))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise _error(
            f"{describe(text)}: addresses with {scheme}:// cannot be read; "
            "download the file, or pass its bytes"
        )
    return _encoded_path(text)


def _encoded_path(path: str) -> _Encoded:
    if "\0" in path:
        raise _error(
            f"{describe(path)} holds a NUL character, which no path can; pass encoded bytes as bytes"
        )
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:  # "~nobody/…": no such user, so the file really has to be called that
        expanded = Path(path)
    return _Encoded(describe(path), path=expanded)


def _read_open_file(file: Any) -> bytes:
    """All bytes of an open file, from its start; its position stays where it was."""
    with _lock_of(file):
        try:
            position = file.tell()
            file.seek(0)
            data = file.read()
            file.seek(position)
        except (OSError, ValueError) as error:  # closed, or a pipe
            raise _error(f"{describe(file)} cannot be read: {error}; pass its path or bytes") from None
    if isinstance(data, str):
        raise _error(f'{describe(file)} is open as text; open it with mode "rb"')
    return data


def _read_data_uri(uri: str) -> bytes:
    header, comma, payload = uri.partition(",")
    if not comma:
        raise _error(f"{describe(uri)}: a data URI without a comma; expected data:image/…;base64,…")
    payload = urllib.parse.unquote_to_bytes(payload)
    if not header.lower().endswith(";base64"):
        return payload
    try:
        return base64.b64decode(b"".join(payload.split()), validate=True)
    except binascii.Error as error:
        raise _error(f"{describe(uri)}: its base64 cannot be decoded: {error}") from None


def _download(url: str) -> bytes:
    import requests

    name = _url_name(url)
    too_large = f"{name} is larger than {MAX_DOWNLOAD_BYTES:,} bytes; download it yourself and pass the path"
    # "identity": the limit then counts what really arrives, and no compressed answer can swell beyond it.
    headers = {"Accept": "image/*", "Accept-Encoding": "identity", "User-Agent": "capscore"}
    try:
        with requests.Session() as session:
            session.max_redirects = 5
            with session.get(url, headers=headers, timeout=TIMEOUT, stream=True) as response:
                if response.status_code != 200:
                    raise _error(f"{name} answered HTTP {response.status_code} {response.reason}")
                stated = response.headers.get("Content-Length", "")
                if stated.isdigit() and int(stated) > MAX_DOWNLOAD_BYTES:
                    raise _error(too_large)
                received = bytearray()
                for chunk in response.raw.stream(2**16, decode_content=False):
                    received += chunk
                    if len(received) > MAX_DOWNLOAD_BYTES:
                        raise _error(too_large)
    except requests.exceptions.InvalidSchema:
        raise _error(f"{name} redirects to something that is not http(s), which is not followed") from None
    except Exception as error:
        if isinstance(error, ImageError):
            raise
        # urllib3's own errors come through `raw`, so requests' classes are not all there is.
        raise _error(f"{name} could not be fetched: {type(error).__name__}: {error}") from None
    return bytes(received)


class _StrictDecoding:
    """While held, a file that is cut short is an error, whatever the program's LOAD_TRUNCATED_IMAGES says.

    That flag is global, and a grey lower half would score as if it were the photo. Pillow has no flag per
    image, so the global one is put down while at least one thread decodes here and put back after the last: a
    count rather than a lock, so that decoding stays parallel. Another part of the program that decodes
    damaged files at that very moment sees Pillow's default, an OSError.
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


def _decode(data: bytes, name: str) -> Image.Image:
    """Encoded bytes → RGB."""
    try:
        with _STRICT, Image.open(io.BytesIO(data)) as image:
            if image.format in _NOT_RASTER:
                raise _error(f"{name} is {image.format}, not a raster image; convert it to PNG")
            _check_size(image.size, name)
            image.load()
            if image.format == "PNG":
                _mend_png_transparency(image, bits=data[24])
            return _upright_rgb(image, name)
    except UnidentifiedImageError:
        raise _error(f"{name} is not an image that can be read: {_looks_like(data)}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        pixels = re.search(r"\d+", str(error))
        raise _too_large(name, f"{int(pixels[0]):,} pixels" if pixels else str(error)) from None
    except (ImageError, MemoryError):
        raise
    except Exception as error:  # plugins raise OSError, SyntaxError, ValueError, struct.error, zlib.error, …
        raise _error(f"{name} is cut short or damaged: {error or type(error).__name__}") from None


def _pixels(image: Any) -> Image.Image:
    """A PIL image or an array → RGB, in memory of its own."""
    if isinstance(image, Image.Image):
        return _pil_pixels(image)
    array = _as_array(image)
    if array is None:
        raise _error(f"{describe(image)} is not an image; {EXPECTED}")
    _check_array(array)
    _check_size((array.shape[1], array.shape[0]), describe(image))
    if array.shape[2:] == (1,):
        array = array[..., 0]
    return _upright_rgb(Image.fromarray(array), describe(image))


def _pil_pixels(image: Image.Image) -> Image.Image:
    name = describe(image)
    if not image.width or not image.height:
        raise _error(f"{name} has no pixels")
    _check_size(image.size, name)
    with _lock_of(image):  # loading and palettes change the object
        try:
            with _STRICT:
                image.load()
                return _upright_rgb(image, name)
        except (ImageError, MemoryError):
            raise
        except Exception as error:
            raise _error(f"{name} cannot be read (closed, cut short or damaged): {error}") from None


def _upright_rgb(image: Image.Image, name: str) -> Image.Image:
    """A loaded image of any mode → RGB, upright, transparency laid on white."""
    try:
        turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION_TAG))
    except Exception:  # a photo with damaged EXIF is still a photo, and says nothing about its orientation
        turn = None
    rgb = _rgb(image, name)
    upright = rgb.copy() if turn is None else rgb.transpose(turn)
    upright.info = {}  # it would still say which way to turn
    return upright


def _rgb(image: Image.Image, name: str) -> Image.Image:
    # Pillow clips wide greys at 255, which turns nearly all of a photo white.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        wide = np.asarray(image)
        grey = (wide >> 8).astype(np.uint8)
        transparent = image.info.get("transparency")
        if isinstance(transparent, int):
            grey[wide == transparent] = 255
        return Image.fromarray(grey).convert("RGB")
    if image.mode in ("I", "F"):
        low, high = image.getextrema()
        raise _error(
            f"{name} has 32-bit pixels (mode {image.mode!r}, from {low:g} to {high:g}), "
            "for which no white is defined; scale them to 0…255 and convert to uint8"
        )
    if image.mode == "La":
        image = image.convert("LA")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image if image.mode == "RGB" else image.convert("RGB")


def _mend_png_transparency(image: Image.Image, bits: int) -> None:
    """Bring the PNG colour that counts as transparent to the scale of the pixels.

    Pillow stretches 2- and 4-bit greys to 0…255 and keeps the upper byte of 16-bit colours, but leaves that
    colour as it is in the file, where it then matches nothing.
    """
    transparent = image.info.get("transparency")
    if image.mode == "L" and bits in (2, 4) and isinstance(transparent, int):
        image.info["transparency"] = transparent * 255 // (2**bits - 1)
    elif image.mode == "RGB" and bits == 16 and isinstance(transparent, tuple):
        image.info["transparency"] = tuple(level >> 8 for level in transparent)


def _check_size(size: tuple[int, int], name: str) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and size[0] * size[1] > limit:
        raise _too_large(name, f"{size[0]} × {size[1]} = {size[0] * size[1]:,} pixels")


def _too_large(name: str, extent: str) -> ImageError:
    return _error(
        f"{name} has {extent}; the limit is {Image.MAX_IMAGE_PIXELS:,}. "
        "If you trust it, raise PIL.Image.MAX_IMAGE_PIXELS (None: no limit)"
    )


def _as_array(image: Any) -> np.ndarray | None:
    """An array or tensor of any library as NumPy, or None if it is neither."""
    if isinstance(image, np.ndarray):
        return image
    try:
        if hasattr(image, "detach"):
            return image.detach().cpu().numpy()
        return np.asarray(image) if hasattr(image, "__array__") else None
    except TypeError:  # bfloat16 and the like, which NumPy lacks
        given = describe(image)
        raise _error(f"{given} does not hold uint8; scale it to 0…255 and convert to uint8") from None


def _check_array(array: np.ndarray) -> None:
    given = describe(array)
    shape = array.shape
    if array.ndim == 1 and array.dtype == np.uint8:
        raise _error(f"{given} has one dimension; if it is an encoded file, pass array.tobytes()")
    if array.ndim == 4:
        raise _error(f"{given} is a batch of {shape[0]} images; expected one (height, width, channels)")
    if array.ndim not in (2, 3):
        raise _error(f"{given} has {array.ndim} dimensions; expected (height, width[, channels])")
    if not array.size:
        raise _error(f"{given} has no pixels")
    if array.ndim == 3 and shape[2] not in (1, 3, 4):
        if shape[0] in (1, 3, 4):
            raise _error(
                f"{given} has its channels first; transpose it to (height, width, channels): "
                "array.transpose(1, 2, 0), for a tensor tensor.permute(1, 2, 0)"
            )
        raise _error(f"{given} has {shape[2]} channels; expected 1, 3 or 4 in the last place")
    if array.dtype != np.uint8:
        raise _error(f"{given} {_how_to_uint8(array)}")


def _how_to_uint8(array: np.ndarray) -> str:
    """What the values of an array are that is not uint8, and how it becomes one."""
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


def _bytes_key(data: bytes) -> str:
    return f"file:{xxhash.xxh3_128(data).hexdigest()}"


def _pixel_key(rgb: Image.Image) -> str:
    digest = xxhash.xxh3_128(f"{rgb.width}x{rgb.height}:".encode())
    digest.update(rgb.tobytes())
    return f"rgb:{digest.hexdigest()}"


def _lock_of(thing: object) -> threading.Lock:
    return _LOCKS[(id(thing) >> 4) % len(_LOCKS)]


def _error(message: str) -> ImageError:
    return ImageError(message, field="image")


def _url_name(url: str) -> str:
    """A URL for an error message: without the password that may be in it."""
    try:
        parts = urllib.parse.urlsplit(url)
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:  # no address at all; requests will say so
        pass
    return describe(url)


def describe(image: Any) -> str:
    """What was given, short enough for an error message."""
    if isinstance(image, (str, os.PathLike)):
        text = os.fsdecode(image)
        return repr(text if len(text) <= 200 else f"{text[:60]}…({len(text)} characters)")
    if isinstance(image, (bytes, bytearray, memoryview)):
        return f"{type(image).__name__} of length {len(image)}"
    if isinstance(image, Image.Image):
        return f"PIL image (mode {image.mode}, {image.width} × {image.height})"
    if hasattr(image, "shape") and hasattr(image, "dtype"):
        kind = "array" if isinstance(image, np.ndarray) else type(image).__name__
        return f"{kind} of shape {tuple(image.shape)} and dtype {str(image.dtype).removeprefix('torch.')}"
    if image is None or isinstance(image, (bool, int, float)):
        return repr(image)
    return f"an object of type {type(image).__name__}"


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
    (rb"\0+\Z", "it holds nothing but zero bytes"),
]


def _looks_like(data: bytes) -> str:
    """What encoded bytes that Pillow does not know seem to be."""
    start = data[:1024]
    for pattern, meaning in _SIGNATURES:
        if re.match(pattern, start):
            return meaning
    # The cut may fall inside a character, so the last one may be damaged.
    text = " ".join(start[:40].decode("utf-8", errors="replace").rstrip("\ufffd").split())
    if text and text.isprintable() and "\ufffd" not in text:
        return f"it looks like text, {text!r}"
    return f"it begins with the bytes {start[:8].hex(' ')}"
