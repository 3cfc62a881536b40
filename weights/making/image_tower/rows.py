"""Official caption files and a folder of photos → training rows, one per photo, without what is held out.

Captions of one photo come together by its number: Flickr8k's in English, Flickr8k-CN's, the Arabic ones,
Multi30k's and xFlickr&CO's, and those of COCO's photos. Photos whose pixels are not there give rows of
captions alone, for the text side.

Official files have photos that are held out among their rows: these are left out and counted. A file of
captions that somebody made for the training should have none: there, one is an error that names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import photos_with_captions
from capscore.errors import CapscoreError, InputError
from capscore.text.languages import language_code
from weights.making.captions import training_captions
from weights.making.held_out import HeldOut, TrainingPhoto
from weights.making.jsonl import read_lines, with_texts
from weights.making.photo_names import Photo, photo_of

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
    """A caption of a photo.

    Attributes:
        photo: The photo.
        name: File name of the photo or id of the caption, as its source has it.
        language: Language of the caption.
        text: The caption.
        source: Its source.
        row: 0-based row in a file that was made for the training, where a photo that is held out is an
            error; None for an official source, where it is left out.
    """

    photo: Photo
    name: str
    language: str
    text: str
    source: str
    row: int | None = None


class PhotoRow(NamedTuple):
    """A photo with its captions.

    Attributes:
        photo: The photo.
        name: Its file name in the folder of photos, with the folder's name; for captions alone, its name in
            the first source.
        file: Where its pixels are; None for captions alone.
        source: Collection of the photos: "flickr8k", "coco", "labelled" or "multi30k".
        captions: Language → captions, each once, in the order of the sources.
    """

    photo: Photo
    name: str
    file: Path | None
    source: str
    captions: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class TrainingRows:
    """The rows to train on.

    Attributes:
        photos: Photos with pixels, in order of collection and number.
        texts: Photos without pixels that have two captions or more, in the same order.
        counts: (source, language) → number of captions in both.
        left_out: (source, reason) → number of captions that were left out.
    """

    photos: list[PhotoRow]
    texts: list[PhotoRow]
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def languages(self) -> list[str]:
        """Languages of the captions, in alphabetical order."""
        return sorted({language for _, language in self.counts})

    def check(self, held: HeldOut) -> None:
        """Raise if a row is of a photo that may not be trained on; errors as in `HeldOut.refuse`."""
        for part in (self.photos, self.texts):
            held.refuse(TrainingPhoto(one.photo, one.name, one.source, row) for row, one in enumerate(part))


@dataclass(frozen=True)
class PhotoFiles:
    """A folder of photos.

    Attributes:
        folder: The folder.
        files: Photo → its name, with the name of the part of the folder. A photo that several parts have is
            taken from the first of them in alphabetical order.
        names: All names, from which `held_out_photos` learns the splits of COCO photos.
    """

    folder: Path
    files: dict[Photo, str]
    names: list[str]


def photo_files(folder: Path) -> PhotoFiles:
    """The photos in a folder's parts `flickr8k` and `coco…`.

    Raises:
        InputError: a part is missing, has no photo, or a file in it whose name names no photo.
    """
    parts = [part for part in sorted(folder.glob("*")) if part.is_dir()]
    parts = [part for part in parts if part.name == FLICKR8K or part.name.startswith(COCO)]
    if FLICKR8K not in {part.name for part in parts}:
        raise InputError(
            f"{folder} has no folder {FLICKR8K!r}; expected Flickr8k's photos there, and COCO's in folders "
            "such as 'coco_train2014'",
            field="photos",
        )
    files: dict[Photo, str] = {}
    names: list[str] = []
    for part in parts:
        found = [path for path in sorted(part.rglob("*")) if path.suffix.lower() in PHOTO_SUFFIXES]
        if not found:
            raise InputError(f"{part} has no photo ({', '.join(PHOTO_SUFFIXES)})", field="photos")
        collection, example = (
            ("flickr", "1000268201_693b08cb0e.jpg")
            if part.name == FLICKR8K
            else ("coco", "COCO_train2014_000000000009.jpg or 000000000009.jpg")
        )
        for path in found:
            name = path.relative_to(folder).as_posix()
            photo = photo_of(name)
            if photo is None or photo.collection != collection:
                expected = f"expected a name of {part.name} with a number, such as {example}"
                raise InputError(f"{path}: {expected}", field="photos")
            files.setdefault(photo, name)
            names.append(name)
    return PhotoFiles(folder, files, names)


def read_captions(
    data: Path, texts: Path | None, coco: Sequence[Path] = (), sources: Sequence[str] = SOURCES
) -> list[Caption]:
    """The captions of all sources, held out or not.

    Args:
        data: Folder with the folders flickr8k, multi30k and xflickrco.
        texts: Folder of `weights.making.package_texts`; None for none.
        coco: Files of captions of COCO's photos, as `coco_captions` reads them.
        sources: Official sources to read, among `SOURCES`.

    Raises:
        CapscoreError: a file is missing or damaged, or a source has no caption.
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
            raise InputError(
                f"{texts} has no caption of {source}: run weights.making.package_texts with --sources "
                f"{','.join(PACKAGE_TEXTS)}, or leave the source out",
                field="texts",
            )
        captions += found
    for path in coco:
        captions += coco_captions(path)
    return captions


def _package_texts(folder: Path | None, source: str) -> Iterator[Caption]:
    language = PACKAGE_TEXTS[source]
    if folder is None:
        raise InputError(
            f"the captions of {source} are read from a folder of weights.making.package_texts, but none "
            "was given",
            field="texts",
        )
    names = ("id", "text", "source")
    expected = f"row of weights.making.package_texts: {', '.join(names)}"
    for row in read_lines(folder / f"{language}.jsonl", with_texts(*names), "texts", expected):
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

    Args:
        path: COCO's own annotations (`captions_train2014.json`), or JSONL rows
            {"photo": 9, "caption": …, "language": "en"}.

    Raises:
        CapscoreError: the file is missing or damaged; names the line or entry.
    """
    source = AnnotationSource(path)
    if path.suffix != ".jsonl":
        for image, annotations in photos_with_captions(source):
            for annotation in annotations:
                yield Caption(
                    Photo("coco", image["id"]), image["file_name"], "en", annotation["caption"], COCO
                )
        return
    for row, (line, cells) in enumerate(source.jsonl("photo", "caption", "language")):
        photo = Photo("coco", source.integer(cells["photo"], "'photo'", 0, 2**53, line=line))
        try:
            language = language_code(source.identifier(cells["language"], "'language'", line=line))
        except CapscoreError as error:
            raise source.error(str(error), line=line) from None
        text = source.caption(cells["caption"], "'caption'", line=line)
        yield Caption(photo, f"photo {photo.number}", language, text, path.name, row)


def training_rows(
    captions: Iterable[Caption],
    photos: PhotoFiles,
    held: HeldOut,
    *,
    most_photos: int | None = None,
    captionless: bool = False,
) -> TrainingRows:
    """Captions and photos → rows, without what is held out.

    Args:
        captions: Captions of all sources.
        photos: Photos that are there.
        held: Photos that may not be trained on.
        most_photos: Most photos with pixels, evenly spread over them; None for all.
        captionless: Whether photos without a caption are rows too, for a teacher that looks at photos.

    Raises:
        InputError: no photo has a caption, or a file that was made for the training has one of a photo that
            is held out; names photo, sets and row.
    """
    found: dict[Photo, dict[str, dict[str, Caption]]] = {}
    left_out: Counter[tuple[str, str]] = Counter()
    for caption in captions:
        photo = caption.photo
        if reason := held.reason(photo, caption.name):
            if caption.row is not None and photo in held.sets:
                held.refuse([TrainingPhoto(photo, caption.name, caption.source, caption.row)])
            left_out[caption.source, reason] += 1
        else:
            of_language = found.setdefault(photo, {}).setdefault(caption.language, {})
            of_language.setdefault(caption.text.casefold(), caption)
    if captionless:
        for photo, name in photos.files.items():
            if not held.reason(photo, name):
                found.setdefault(photo, {})
    seen, texts = [], []
    for photo, own in sorted(found.items()):
        rows = {language: tuple(one.text for one in same.values()) for language, same in own.items()}
        if photo in photos.files:
            name = photos.files[photo]
            seen.append(PhotoRow(photo, name, photos.folder / name, _SOURCE_OF[photo.collection], rows))
        elif sum(map(len, rows.values())) > 1:
            first = next(iter(next(iter(own.values())).values()))
            texts.append(PhotoRow(photo, first.name, None, first.source, rows))
    if not any(row.captions for row in seen):
        raise InputError("no caption is of a photo that is there and may be trained on", field="photos")
    if most_photos is not None and most_photos < len(seen):
        seen = [seen[place * len(seen) // most_photos] for place in range(most_photos)]
    counts: Counter[tuple[str, str]] = Counter()
    for row in (*seen, *texts):
        for same in found.get(row.photo, {}).values():
            counts.update((one.source, one.language) for one in same.values())
    return TrainingRows(seen, texts, counts, left_out)
