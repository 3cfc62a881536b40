"""The file name of a photo → the photo: its collection and its number there, the same in every data set.

Data sets name one photo in many ways: `1000268201_693b08cb0e.jpg`, `1000268201.jpg#2`,
`COCO_train2014_000000000009.jpg`, `val2017/000000000139.jpg`, `VOC2012/JPEGImages/2008_003849.jpg`.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_COCO = re.compile(r"COCO_(train|val|test)(20\d\d)_(\d+)", re.IGNORECASE)
# COCO's names since 2017; the folder tells the split
_COCO_2017 = re.compile(r"(?:.*?(train|val|test)2017/)?(?:.*/)?(\d{12})(?:\.\w+)?")
_VOC = re.compile(r"(20(?:0[7-9]|1[0-2]))_(\d{6})(?!\d)")
_FLICKR = re.compile(r"(\d+)(?:_[0-9a-z]+)?(?:\.\w+)*")
_TITLES = {"flickr": "Flickr", "coco": "COCO", "voc": "VOC", "labelled": "labelled photo"}


class Photo(NamedTuple):
    """A photo, whatever a data set calls it: its collection and its number there.

    The number is, of VOC, the year and the number in one (2008003849); of a labelled photo, which has none, a
    digest of its file.
    """

    collection: Literal["flickr", "coco", "voc", "labelled"]
    number: int

    def __str__(self) -> str:
        return f"{_TITLES[self.collection]} {self.number}"


def photo_of(name: str) -> Photo | None:
    """The photo that a file name or caption id names; None if it names none.

    >>> str(photo_of("1000268201_693b08cb0e.jpg#zhc#0")), str(photo_of("1000268201.jpg"))
    ('Flickr 1000268201', 'Flickr 1000268201')
    >>> str(photo_of("COCO_train2014_000000000009.jpg#367178")), str(photo_of("train2017/000000000009.jpg"))
    ('COCO 9', 'COCO 9')
    >>> str(photo_of("VOC2012/JPEGImages/2008_003849.jpg")), photo_of("sunset.jpg")
    ('VOC 2008003849', None)
    """
    path = name.partition("#")[0].strip()
    last = path.rpartition("/")[2]
    if coco := _COCO.match(last):
        return Photo("coco", int(coco[3]))
    if coco := _COCO_2017.fullmatch(path):
        return Photo("coco", int(coco[2]))
    if voc := _VOC.match(last):
        return Photo("voc", int(voc[1] + voc[2]))
    flickr = _FLICKR.fullmatch(last)
    return Photo("flickr", int(flickr[1])) if flickr else None


def coco_split(name: str) -> str:
    """The split of 2014 that the file name of a COCO photo tells; "" if it tells none.

    The photos of val2017 are all of val2014. Those of train2017 are of train2014 or of val2014, so their
    names tell nothing.

    >>> coco_split("COCO_train2014_000000000009.jpg"), coco_split("val2017/000000000139.jpg")
    ('train2014', 'val2014')
    >>> coco_split("train2017/000000000009.jpg"), coco_split("1000268201_693b08cb0e.jpg")
    ('', '')
    """
    path = name.partition("#")[0].strip()
    if coco := _COCO.match(path.rpartition("/")[2]):
        return f"{coco[1].lower()}{coco[2]}"
    coco = _COCO_2017.fullmatch(path)
    return {"val": "val2014", "test": "test2017"}.get(coco[1] or "", "") if coco else ""
