"""Which photos no weights may be trained on: official files of the test sets → photos, each with its sets.

A photo is held out by its number, in whatever data set or language it turns up. Data sets name one photo in
many ways: `1000268201_693b08cb0e.jpg`, `1000268201.jpg#2`, `COCO_train2014_000000000009.jpg`,
`val2017/000000000139.jpg`. The files are those of the benchmarks, in one folder, and, if it is there,
`coco/captions_val2014.json`.

COCO's val2014 is held out as a whole. Its photos are known by their names (`COCO_val2014_…`). Names of 2017
do not tell: val2017 and a third of train2017 are of val2014. So a COCO photo is trained on only if some name
shows that it is of train2014, or if COCO's own list of val2014 is there and lacks it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos
from capscore.benchmarks.data.load import load_benchmark
from capscore.errors import InputError
from weights.making.jsonl import beside

_COCO = re.compile(r"COCO_(train|val|test)(20\d\d)_(?P<number>\d+)", re.IGNORECASE)
# COCO's names since 2017; the folder tells the split
_COCO_2017 = re.compile(r"(?:.*?(train|val|test)2017/)?(?:.*/)?(?P<number>\d{12})(?:\.\w+)?")
_SPLITS_2017 = {"val": "val2014", "test": "test2017"}
_VOC = re.compile(r"(20(?:0[7-9]|1[0-2]))_(\d{6})(?!\d)")
_FLICKR = re.compile(r"(\d+)(?:_[0-9a-z]+)?(?:\.\w+)*")
_TITLES = {"flickr": "Flickr", "coco": "COCO", "voc": "VOC"}
VAL2014 = "COCO val2014"


class Photo(NamedTuple):
    """A photo by its collection and its number there; of VOC, year and number in one (2008003849)."""

    collection: Literal["flickr", "coco", "voc"]
    number: int

    def __str__(self) -> str:
        return f"{_TITLES[self.collection]} {self.number}"


def photo_of(name: str) -> Photo | None:
    """The photo that a file name or caption id names; None if it names none."""
    return _photo_and_split(name)[0]


def _photo_and_split(name: str) -> tuple[Photo | None, str]:
    """The photo that a name names, and the split of COCO of 2014 that it tells, "" if it tells none."""
    path = name.partition("#")[0].strip()
    last = path.rpartition("/")[2]
    if coco := _COCO.match(last):
        return Photo("coco", int(coco["number"])), f"{coco[1].lower()}{coco[2]}"
    if coco := _COCO_2017.fullmatch(path):
        return Photo("coco", int(coco["number"])), _SPLITS_2017.get(coco[1], "")
    if voc := _VOC.match(last):
        return Photo("voc", int(voc[1] + voc[2])), ""
    flickr = _FLICKR.fullmatch(last)
    return Photo("flickr", int(flickr[1])) if flickr else None, ""


def photo_files(folder: Path) -> dict[str, Photo]:
    """Path in the folder → photo, of all *.jpg below it whose names have a number; InputError if none has."""
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.jpg")))
    files = {name: photo for name in names if (photo := photo_of(name)) is not None}
    if not files:
        raise InputError(f"{folder} has no photo (*.jpg) whose name has a number", field="photos")
    return files


def first_names(files: Mapping[str, Photo]) -> dict[Photo, str]:
    """Photo → its first path in a folder."""
    return {photo: name for name, photo in reversed(files.items())}


# Name of a set → where the names of its photos are.
Sets = Mapping[str, Mapping[str, Any]]
_SETS: Mapping[str, Sets] = beside(__file__, "held_out.yaml")
TESTED: Sets = _SETS["tested"]
SETS: Sets = {**TESTED, **_SETS["others"]}


def measured_images(data: Path) -> list[str]:
    return [path.name for path in (data / "flickr8k" / "images").glob("*.jpg")]


def _names(data: Path, where: Mapping[str, Any]) -> list[str]:
    """The names of a set's photos, out of the folder of the official files."""
    if "folder" in where:
        return measured_images(data)
    if "list" in where:
        return listed_photos(AnnotationSource(data / "flickr8k" / where["list"]))
    names: list[str] = []
    for split in where["splits"]:
        names += official_rows(data, where["benchmark"], where.get("config"), split)["image_id"]
    return names


def official_rows(data: Path, slug: str, config: str | None, split: str) -> Any:
    """The rows of a benchmark, a `datasets.Dataset`, without photos."""
    return load_benchmark(slug, config, split=split, data_dir=data / slug, images=False)


@dataclass(frozen=True)
class HeldOut:
    """Photos that may not be trained on."""

    sets: Mapping[Photo, tuple[str, ...]]  # photo → names of the sets that hold it
    train2014: frozenset[int] = frozenset()  # numbers of COCO photos that a name shows to be of train2014
    val2014_is_complete: bool = False  # whether every photo of val2014 is in `sets`

    def reason(self, photo: Photo, name: str = "") -> str:
        """Why a photo may not be trained on, for a message; "" if it may. Its name may tell COCO's split."""
        if photo in self.sets:
            return f"it is in {', '.join(self.sets[photo])}"
        if photo.collection != "coco":
            return ""
        split = _photo_and_split(name)[1]
        if split and split != "train2014":
            return f"it is in COCO {split}"
        if split or photo.number in self.train2014 or self.val2014_is_complete:
            return ""
        return "nothing shows that it is in COCO train2014, not in val2014"

    def statement(self) -> str:
        counts = Counter(chain.from_iterable(self.sets.values()))
        listed = ", ".join(f"{name} ({n:,})" for name, n in counts.items() if name != VAL2014)
        return (
            "every photo, by its number, in whatever data set or language it turns up, of these sets: "
            f"{listed}; and all of {VAL2014}: a photo of COCO was taken only where a file name or COCO's own "
            "list shows that it is of train2014"
        )


def held_out_photos(data: Path, names: Iterable[str] = (), sets: Sets = SETS) -> HeldOut:
    """Read which photos of some sets are held out; further `names` may tell the splits of COCO photos.

    CapscoreError if an official file is missing or damaged, or no name of a set has a photo's number.
    """
    told: list[tuple[str, str]] = []  # set, name of a photo
    for title, where in sets.items():
        listed = _names(data, where)
        if listed and not any(map(photo_of, listed)):  # some may be of other collections
            raise InputError(f"{title}: no name of a photo has its number, such as {listed[0]!r:.60}")
        told += [(title, name) for name in listed]
    found: dict[Photo, dict[str, None]] = defaultdict(dict)
    train2014: set[int] = set()
    for title, name in (*told, *(("", name) for name in names)):
        photo, split = _photo_and_split(name)
        if photo is None:
            continue
        if title:
            found[photo][title] = None
        if split == "train2014":
            train2014.add(photo.number)
        elif split:
            found[photo][f"COCO {split}"] = None
    val2014 = data / "coco" / "captions_val2014.json"
    if val2014.exists():
        document = AnnotationSource(val2014).json()
        if not document.array("images"):
            raise document.error("names no photo")
        for image in document.rows("images"):
            found[Photo("coco", image.integer("id"))][VAL2014] = None
    held_by = {photo: tuple(titles) for photo, titles in found.items()}
    return HeldOut(held_by, frozenset(train2014), val2014.exists())
