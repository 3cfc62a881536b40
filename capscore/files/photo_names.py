"""Names of photos: their parts, and which names of one file mean the photos of another.

One rule for all: the longest agreeing tail of the path decides. Folders that both names state must agree; a
name without one means a photo only if the name is unique on both sides, and so do a name without its suffix,
and numbers that differ in zeros: 42, 0042, "42.0".
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

IMAGE_SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .webp .gif .bmp .tif .tiff .jp2 .avif .ppm .pgm".split()
)
_COCO_NAME = re.compile(r"COCO_[A-Za-z0-9]+_([0-9]{12})")  # unique in COCO, in whatever folder it is
_Form = tuple[int, str]
_NUMBER = re.compile(r"([0-9]{1,18})(?:\.0)?")  # 42, 000042, and what pandas makes of a column with gaps


class PhotoName(NamedTuple):
    """A name in its parts.

    Attributes:
        folders: Folders, the outermost first; () for names of COCO, which mean one photo in any folder.
        base, stem: Name without folders, with and without the suffix of an image.
    """

    folders: tuple[str, ...]
    base: str
    stem: str
    number: str
    is_coco: bool
    is_absolute: bool

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.folders, self.base)

    @property
    def inner(self) -> str:
        """The innermost folder, "" for none."""
        return self.folders[-1] if self.folders else ""


def composed(name: str) -> str:
    """A name as it is compared: macOS and ZIP files take letters and their accents apart."""
    return unicodedata.normalize("NFC", name)


def has_image_suffix(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def id_text(image_id: object) -> str:
    """An id as text; "" for anything but an id. Arrow holds whole numbers of a column with gaps as floats."""
    if isinstance(image_id, float) and image_id.is_integer():
        image_id = int(image_id)
    if isinstance(image_id, bool) or not isinstance(image_id, int | str | os.PathLike):
        return ""
    if isinstance(image_id, int) and abs(image_id) >= 10**18:
        return ""
    return composed(str(image_id))


@lru_cache(2**16)
def parts_of(name: str) -> PhotoName:
    r"""A name in its parts; folders may be separated as on Windows.

    >>> parts_of(r"photos\.\dog\007.jpg")[:4]
    (('photos', 'dog'), '007.jpg', '007', '7')
    """
    if name[:5].lower() == "data:":
        return PhotoName((), name, name, "", False, False)
    path = posixpath.normpath(composed(name).replace("\\", "/").strip())
    *folders, base = path.split("/")
    stem = os.path.splitext(base)[0] if has_image_suffix(base) else base
    coco, number = _COCO_NAME.fullmatch(stem), _NUMBER.fullmatch(stem)
    is_absolute = path[:1] == "/" or path[1:2] == ":"
    if coco is not None:
        folders, is_absolute = [], False
    digits = coco or number
    text = "" if digits is None else digits[1].lstrip("0") or "0"
    return PhotoName(tuple(filter(None, folders)), base, stem, text, coco is not None, is_absolute)


@dataclass
class NameMatches:
    """What names of one file mean in another.

    Attributes:
        problems: Name without a match → what came near, and why it is not taken.
    """

    matches: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    ambiguous: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class KnownNames:
    """Names of photos, found by other names for them."""

    def __init__(self, names: Iterable[str] | Mapping[str, Hashable]):
        self._photos = names if isinstance(names, Mapping) else {name: name for name in names}
        self._by_path: dict[tuple[str, ...], dict[Hashable, str]] = defaultdict(dict)
        # form → photo → its first name of that form; form and innermost folder, "" for none → names
        self._by_form: dict[_Form, dict[Hashable, str]] = defaultdict(dict)
        self._in_folder: dict[tuple[_Form, str], list[str]] = defaultdict(list)
        for name, photo in self._photos.items():
            parts = parts_of(name)
            self._by_path[parts.path].setdefault(photo, name)
            forms = [(0, parts.base), (1, parts.stem)]
            if parts.number:
                forms += [(2, parts.number), (3, parts.number)][: 1 if parts.is_coco else 2]
            for form in forms:
                self._by_form[form].setdefault(photo, name)
                self._in_folder[form, parts.inner].append(name)

    def match(self, names: Iterable[str], *, one_to_one: bool = True) -> NameMatches:
        """The photo that each of the names means.

        Args:
            one_to_one: Whether two names never mean one photo: then the better match has it, or neither.
        """
        found = NameMatches()
        ranks: dict[str, tuple[int, int]] = {}
        for name in dict.fromkeys(names):
            self._find(name, found, ranks)
        if one_to_one:
            self._refuse_shared(found, ranks)
        numbers: list[str] = []
        bare: list[str] = []
        for name, other in found.matches.items():
            form, minus_folders = ranks[name]
            if form >= 2 and not (_is_of_coco(name) or _is_of_coco(other)):
                numbers.append(name)
            elif minus_folders > 0:
                bare.append(name)
        for few, how in ((numbers, "as numbers, whatever their zeros"), (bare, "without their folders")):
            if few:
                example = f"{few[0]!r:.60} is {found.matches[few[0]]!r:.60}"
                found.notes.append(f"{len(few):,} names of photos are matched {how} (first: {example})")
        return found

    def _find(self, name: str, found: NameMatches, ranks: dict[str, tuple[int, int]]) -> None:
        """Note the best match of a name, and its rank: form, and minus the number of folders that agree."""
        parts = parts_of(name)
        same = self._by_path.get(parts.path, {})
        if name in self._photos or len(same) == 1:
            found.matches[name] = name if name in self._photos else next(iter(same.values()))
            ranks[name] = (0, -len(parts.folders))
            return
        for form in _forms(parts):
            photos = self._by_form.get(form, {})
            near = self._in_folder.get((form, parts.inner), []) if parts.inner else []
            agreeing = [_agreeing(parts, parts_of(other)) for other in near]
            most = max(agreeing, default=0)
            if most > 0:
                best = {self._photos[o]: o for o, n in zip(near, agreeing, strict=True) if n == most}
            elif parts.inner and photos and (form, "") not in self._in_folder:
                found.problems.setdefault(name, f"{next(iter(photos.values()))!r:.60} is in another folder")
                continue
            else:  # without a folder to go by, it must be the only one
                best = photos
            if len(best) == 1:
                (other,) = best.values()
                found.problems.pop(name, None)
                found.matches[name] = other
                ranks[name] = (form[0], 1 if parts.inner != parts_of(other).inner else -most)
                return
            if best:
                some = " and ".join(f"{other!r:.60}" for other in [*best.values()][:2])
                found.problems[name] = f"it could be {some}"
                found.ambiguous.append(name)
                return

    def _refuse_shared(self, found: NameMatches, ranks: Mapping[str, tuple[int, int]]) -> None:
        """Of several names for one photo, only one that fits better than the others keeps its match."""
        claims: dict[Hashable, list[str]] = defaultdict(list)
        for name, other in found.matches.items():
            claims[self._photos[other]].append(name)
        for names in claims.values():
            best = min(ranks[name] for name in names)
            first = {parts_of(name).path: name for name in names if ranks[name] == best}
            for name in names:
                if len(first) > 1 or parts_of(name).path not in first:
                    rival = next(other for other in (*first.values(), *names) if other != name)
                    other = found.matches.pop(name)
                    found.problems[name] = f"{other!r:.60} may be {rival!r:.60} as well"


def _agreeing(a: PhotoName, b: PhotoName) -> int:
    """Number of innermost folders that agree, 0 if outer ones contradict each other.

    Of absolute paths that start at different roots, outer folders may differ: they are of two machines.
    """
    n = 0
    for one, other in zip(reversed(a.folders), reversed(b.folders), strict=False):
        if one != other:
            break
        n += 1
    elsewhere = a.is_absolute and b.is_absolute and a.folders[0] != b.folders[0]
    return n if elsewhere or n == min(len(a.folders), len(b.folders)) else 0


def _forms(name: PhotoName) -> list[_Form]:
    """What a name is looked up by, the strictest form first: file name, stem, number."""
    forms = [(0, name.base), (1, name.stem)]
    if name.number:
        forms.append((3 if name.is_coco else 2, name.number))
    return forms


def _is_of_coco(name: str) -> bool:
    """Whether COCO wrote the number of a photo, with twelve digits."""
    parts = parts_of(name)
    return parts.is_coco or len(parts.stem) == 12
