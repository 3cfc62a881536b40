"""Official caption files and a folder of photos → training rows, one per photo, without what is held out.

Captions of one photo come together by its number: Flickr8k's in English, Flickr8k-CN's, the Arabic ones,
Multi30k's and xFlickr&CO's, and those of COCO's photos. Photos whose pixels are not there give rows of
captions alone, for the text side.

Photos that are held out are left out of every source, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from capscore.benchmarks.data.annotation_files import AnnotationSource, Row
from capscore.benchmarks.data.caption_files import photos_with_captions
from capscore.errors import InputError
from capscore.text.languages import language_code
from weights.making.captions import training_captions
from weights.making.held_out import HeldOut, Photo, photo_of
from weights.making.package_texts import photo_name, read_texts

# Sources of `weights.making.package_texts` that caption photos, each with its language.
PACKAGE_TEXTS = {"flickr8k-cn": "zh", "arabic-flickr8k": "ar", "jsts": "ja", "coco-cn-extension": "zh"}
SOURCES = ("flickr8k", "multi30k", "xflickrco", *PACKAGE_TEXTS)
# Folders of photos: Flickr8k's, and all whose names begin with coco.
FLICKR8K, COCO = "flickr8k", "coco"
_SOURCE_OF = {"flickr": FLICKR8K, "coco": COCO}
PHOTO_SUFFIXES = (".jpg", ".jpeg", ".png")


class Caption(NamedTuple):
    photo: Photo
    name: str  # file name of the photo or id of the caption, as its source has it
    language: str
    text: str
    source: str


class PhotoRow(NamedTuple):
    photo: Photo
    name: str  # path in the folder of photos; for captions alone, its name in the first source
    file: Path | None  # where its pixels are; None for captions alone
    source: str  # "flickr8k", "coco" or "multi30k"
    captions: dict[str, tuple[str, ...]]  # language → captions, each once, in the order of the sources


@dataclass(frozen=True)
class TrainingRows:
    """The rows to train on, in order of collection and number."""

    photos: list[PhotoRow]  # with pixels
    texts: list[PhotoRow]  # without pixels, two captions or more
    counts: Counter[tuple[str, str]]  # (source, language) of captions
    left_out: Counter[str]  # source of captions of photos that are held out


def photo_files(folder: Path) -> dict[str, Photo]:
    """Path in the folder → photo, in its parts `flickr8k` and `coco…`; InputError if a name has no number."""
    files: dict[str, Photo] = {}
    for part in sorted(part for part in folder.glob("*") if part.is_dir()):
        if part.name != FLICKR8K and not part.name.startswith(COCO):
            continue
        for path in sorted(part.rglob("*")):
            if path.suffix.lower() not in PHOTO_SUFFIXES:
                continue
            name = path.relative_to(folder).as_posix()
            photo = photo_of(name)
            if photo is None or photo.collection != ("flickr" if part.name == FLICKR8K else "coco"):
                raise InputError(f"{path}: expected a name of {part.name} with a number", field="photos")
            files[name] = photo
    if not files:
        raise InputError(f"{folder} has no photo in a folder 'flickr8k' or 'coco_…'", field="photos")
    return files


def read_captions(
    data: Path, texts: Path, coco: Sequence[Path] = (), sources: Sequence[str] = SOURCES
) -> list[Caption]:
    """The captions of all sources, held out or not; InputError if a source has none."""
    found = list(training_captions(data, sources))
    for language in dict.fromkeys(PACKAGE_TEXTS[source] for source in sources if source in PACKAGE_TEXTS):
        found += [
            (row["source"], photo_name(row["id"]), language, row["text"])
            for row in read_texts(texts / f"{language}.jsonl")
            if row["source"] in sources
        ]
    if missing := set(sources) - {source for source, *_ in found}:
        said = f"{texts} has no caption of {', '.join(sorted(missing))}: give it to package_texts --sources"
        raise InputError(f"{said}, or leave it out", field="texts")
    captions = []
    for source, name, language, text in sorted(found, key=lambda entry: sources.index(entry[0])):
        photo = photo_of(name)
        if photo is None:
            raise InputError(f"{name!r} of {source} names no photo; expected a name such as 1234_ab.jpg")
        captions.append(Caption(photo, name, language, " ".join(text.split()), source))
    return captions + [caption for path in coco for caption in coco_captions(path)]


def coco_captions(path: Path) -> Iterator[Caption]:
    """The captions of a file of COCO's photos; CapscoreError if it is missing or damaged.

    It has COCO's own annotations (`captions_train2014.json`), or JSONL rows {"photo": 9, "caption": …,
    "language": "en"}.
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
    captions: Iterable[Caption],
    folder: Path,
    files: Mapping[str, Photo],
    held: HeldOut,
) -> TrainingRows:
    """Captions → rows, without what is held out; InputError if no photo in the folder has a caption."""
    # the first path of a photo
    names = {photo: name for name, photo in reversed(files.items())}
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
        if name := names.get(photo):
            seen.append(PhotoRow(photo, name, folder / name, _SOURCE_OF[photo.collection], rows))
        elif sum(map(len, rows.values())) > 1:
            first = next(iter(next(iter(own.values())).values()))
            texts.append(PhotoRow(photo, first.name, None, first.source, rows))
    if not seen:
        raise InputError("no caption is of an available photo that may be trained on", field="photos")
    counts = Counter(
        (item.source, item.language)
        for row in (*seen, *texts)
        for same in found[row.photo].values()
        for item in same.values()
    )
    return TrainingRows(seen, texts, counts, left_out)
