"""Official caption files and a folder of photos → training rows, one per photo, without what is held out.

Captions of one photo come together by its number: Flickr8k's in English, Flickr8k-CN's, the Arabic ones,
Multi30k's and xFlickr&CO's, and those of COCO's photos. Photos whose pixels are not there give rows of
captions alone, for the text side.

Photos that are held out are left out of every source, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from capscore.benchmarks.data.annotation_files import AnnotationSource, Row
from capscore.benchmarks.data.caption_files import photos_with_captions
from capscore.errors import InputError
from capscore.text.languages import language_code
from weights.making.captions import training_captions
from weights.making.held_out import HeldOut, Photo, photo_of
from weights.making.package_texts import read_texts

# Sources of `weights.making.package_texts` that caption photos, each with its language.
PACKAGE_TEXTS = {"flickr8k-cn": "zh", "arabic-flickr8k": "ar", "jsts": "ja", "coco-cn-extension": "zh"}
SOURCES = ("flickr8k", "multi30k", "xflickrco", *PACKAGE_TEXTS)
# Folders of photos: Flickr8k's, and all whose names begin with coco.
FLICKR8K, COCO = "flickr8k", "coco"
# Source of photos that are known by their files and labels alone.
LABELLED = "labelled"
_SOURCE_OF = {"flickr": FLICKR8K, "coco": COCO, "labelled": LABELLED}
PHOTO_SUFFIXES = (".jpg", ".jpeg", ".png")


class Caption(NamedTuple):
    """A caption of a photo."""

    photo: Photo
    name: str  # file name of the photo or id of the caption, as its source has it
    language: str
    text: str
    source: str


class PhotoRow(NamedTuple):
    """A photo with its captions."""

    photo: Photo
    name: str  # path in the folder of photos; for captions alone, its name in the first source
    file: Path | None  # where its pixels are; None for captions alone
    source: str  # "flickr8k", "coco", "labelled" or "multi30k"
    captions: dict[str, tuple[str, ...]]  # language → captions, each once, in the order of the sources


@dataclass(frozen=True)
class TrainingRows:
    """The rows to train on, in order of collection and number."""

    photos: list[PhotoRow]  # with pixels
    texts: list[PhotoRow]  # without pixels, two captions or more
    counts: Counter[tuple[str, str]]  # (source, language) of captions
    left_out: Counter[str]  # source of captions of photos that are held out

    @property
    def languages(self) -> list[str]:
        """Languages of the captions, in alphabetical order."""
        return sorted({language for _, language in self.counts})


@dataclass(frozen=True)
class PhotoFiles:
    """A folder of photos."""

    folder: Path
    files: dict[Photo, str]  # photo → its path in the folder; the first in alphabetical order
    names: list[str]  # all paths, from which `held_out_photos` learns the splits of COCO photos


def photo_files(folder: Path) -> PhotoFiles:
    """The photos in a folder's parts `flickr8k` and `coco…`; raises InputError if a name has no number."""
    parts = [part for part in sorted(folder.glob("*")) if part.is_dir()]
    parts = [part for part in parts if part.name == FLICKR8K or part.name.startswith(COCO)]
    files: dict[Photo, str] = {}
    names: list[str] = []
    for part in parts:
        for path in sorted(part.rglob("*")):
            if path.suffix.lower() not in PHOTO_SUFFIXES:
                continue
            name = path.relative_to(folder).as_posix()
            photo = photo_of(name)
            if photo is None or photo.collection != ("flickr" if part.name == FLICKR8K else "coco"):
                raise InputError(f"{path}: expected a name of {part.name} with a number", field="photos")
            files.setdefault(photo, name)
            names.append(name)
    if not files:
        raise InputError(f"{folder} has no photo in a folder 'flickr8k' or 'coco_…'", field="photos")
    return PhotoFiles(folder, files, names)


def read_captions(
    data: Path, texts: Path | None, coco: Sequence[Path] = (), sources: Sequence[str] = SOURCES
) -> list[Caption]:
    """The captions of all sources, held out or not; raises InputError if a source has none.

    `data` holds the official files, `texts` those of `package_texts`; `coco` are files for `coco_captions`.
    """
    captions: list[Caption] = []
    for source in sources:
        if source in PACKAGE_TEXTS:
            found = list(_package_texts(texts, source))
        else:
            found = [
                _caption(name, language, text, source)
                for _, name, language, text in training_captions(data, (source,))
            ]
        if not found:
            said = f"{texts} has no caption of {source}: give it to package_texts --sources, or leave it out"
            raise InputError(said, field="texts")
        captions += found
    for path in coco:
        captions += coco_captions(path)
    return captions


def _package_texts(folder: Path | None, source: str) -> Iterator[Caption]:
    language = PACKAGE_TEXTS[source]
    for row in read_texts(folder / f"{language}.jsonl") if folder else ():
        if row["source"] == source:
            name = row["id"].partition("/")[2]
            name = _coco_name(name) if source == "jsts" else name
            yield _caption(name, language, row["text"], source)


def _coco_name(jsts: str) -> str:
    """COCO's name of a photo in JSTS: its number, a dash and the number of the caption.

    YJ Captions, from which the pairs are, are of train2014 alone (Miyazaki and Shimizu 2016).
    """
    number = jsts.partition("-")[0]
    return f"COCO_train2014_{int(number):012d}.jpg" if number.isdecimal() else jsts


def _caption(name: str, language: str, text: str, source: str) -> Caption:
    photo = photo_of(name)
    if photo is None:
        raise InputError(f"{name!r} of {source} names no photo; expected a name such as 1234_ab.jpg")
    return Caption(photo, name, language, " ".join(text.split()), source)


def coco_captions(path: Path) -> Iterator[Caption]:
    """The captions of a file of COCO's photos.

    It has COCO's own annotations (`captions_train2014.json`), or JSONL rows {"photo": 9, "caption": …,
    "language": "en"}. Raises CapscoreError if it is missing or damaged; names the line or entry.
    """
    source = AnnotationSource(path)
    if path.suffix != ".jsonl":
        for image, annotations in photos_with_captions(source):
            photo = Photo("coco", image["id"])
            for annotation in annotations:
                text = annotation.caption("caption")
                yield Caption(photo, image.identifier("file_name"), "en", text, COCO)
        return
    for row in source.jsonl():
        photo = Photo("coco", row.integer("photo"))
        text, language = stated_caption(row)
        yield Caption(photo, f"photo {photo.number}", language, text, path.name)


def stated_caption(row: Row) -> tuple[str, str]:
    """Caption and language of a row; raises AnnotationError if one is malformed."""
    try:
        language = language_code(row.identifier("language"))
    except InputError as error:
        raise row.error(str(error)) from None
    return row.caption("caption"), language


def training_rows(
    captions: Iterable[Caption], photos: PhotoFiles, held: HeldOut, *, most_photos: int | None = None
) -> TrainingRows:
    """Captions and photos → rows, without what is held out.

    Of `most_photos` photos with pixels, evenly spread. InputError if no photo has a caption.
    """
    found: dict[Photo, dict[str, dict[str, Caption]]] = {}
    left_out: Counter[str] = Counter()
    for caption in captions:
        if held.reason(caption.photo, caption.name):
            left_out[caption.source] += 1
        else:
            of_language = found.setdefault(caption.photo, {}).setdefault(caption.language, {})
            of_language.setdefault(caption.text.casefold(), caption)
    seen, texts = [], []
    for photo, own in sorted(found.items()):
        rows = {language: tuple(item.text for item in same.values()) for language, same in own.items()}
        if photo in photos.files:
            name = photos.files[photo]
            seen.append(PhotoRow(photo, name, photos.folder / name, _SOURCE_OF[photo.collection], rows))
        elif sum(map(len, rows.values())) > 1:
            first = next(iter(next(iter(own.values())).values()))
            texts.append(PhotoRow(photo, first.name, None, first.source, rows))
    if not seen:
        raise InputError("no caption is of a photo that is there and may be trained on", field="photos")
    if most_photos is not None and most_photos < len(seen):
        seen = [seen[index * len(seen) // most_photos] for index in range(most_photos)]
    counts = Counter(
        (item.source, item.language)
        for row in (*seen, *texts)
        for same in found[row.photo].values()
        for item in same.values()
    )
    return TrainingRows(seen, texts, counts, left_out)
