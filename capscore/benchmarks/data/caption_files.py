"""The caption files of Flickr8k, Flickr30k and COCO → photos and captions, and references of others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .annotation_files import AnnotationFile, AnnotationSource, Row

if TYPE_CHECKING:
    from .builder import CaptionBenchmark

# where photos lie, as people unpack the archives
FLICKR8K_FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset/Flicker8k_Dataset", "Flickr8k_Dataset")
FLICKR30K_FOLDERS = ("images", "flickr30k-images", "flickr30k_images", "flickr30k/images")
_KARPATHY = "caption_datasets.zip, Karpathy's splits"


def _karpathy(name: str) -> AnnotationFile:
    return AnnotationFile((f"{name}.json", f"caption_datasets.zip::{name}.json"), _KARPATHY)


def _coco(name: str) -> AnnotationFile:
    places = (name, f"annotations/{name}", f"annotations_trainval2014.zip::annotations/{name}")
    return AnnotationFile(places, "annotations_trainval2014.zip from https://cocodataset.org/#download")


FLICKR8K = {
    "flickr8k_captions": AnnotationFile(
        (
            "Flickr8k.token.txt",
            "Flickr8k_text/Flickr8k.token.txt",
            "Flickr8k_text.zip::Flickr8k.token.txt",
            "../flickr8k/Flickr8k.token.txt",  # beside the folder of another benchmark of its photos
        ),
        "Flickr8k_text.zip",
    ),
    "flickr8k_karpathy": _karpathy("dataset_flickr8k"),
}
FLICKR30K = {
    "flickr30k_captions": AnnotationFile(
        ("results_20130124.token", "flickr30k/results_20130124.token"),
        "flickr30k.tar.gz, by request from the authors",
    ),
    "flickr30k_karpathy": _karpathy("dataset_flickr30k"),
}
COCO = {
    "coco_val2014": _coco("captions_val2014.json"),
    "coco_train2014": _coco("captions_train2014.json"),
    "coco_karpathy": _karpathy("dataset_coco"),
}


class TokenCaption(NamedTuple):
    """A line of a token file: `photo.jpg#0`, a tab, the caption."""

    line: int
    caption_id: str
    photo: str
    text: str


def token_captions(source: AnnotationSource) -> Iterator[TokenCaption]:
    """The captions of a token file (Flickr8k.token.txt, results_20130124.token), in its order."""
    seen: set[str] = set()
    for row in source.tsv("caption id", "caption"):
        caption_id = row["caption id"]
        photo, _, number = caption_id.rpartition("#")
        if not photo or not number.isdigit():
            raise row.wrong("caption id", "such as 'photo.jpg#0'")
        if caption_id in seen:
            raise row.error(f"caption {caption_id} appears twice")
        seen.add(caption_id)
        yield TokenCaption(row.line or 0, caption_id, photo, row["caption"])


def listed_photos(source: AnnotationSource) -> list[str]:
    """The photos that a list of Flickr8k's names before the first tab of each line; else AnnotationError."""
    photos = []
    for line, text in source.lines():
        photo = text.partition("\t")[0].strip()
        if text.strip() and not photo.endswith(".jpg"):
            raise source.error(f"{photo!r:.60}: expected the name of a photo, such as 1234_ab.jpg", line=line)
        if photo:
            photos.append(photo)
    if not photos:
        raise source.error("names no photo")
    return photos


def photos_with_captions(source: AnnotationSource) -> list[tuple[Row, list[Row]]]:
    """Every photo of a file in COCO's format, in order: (entry of `images`, its entries of `annotations`)."""
    document = source.json()
    captions: dict[int, list[Row]] = {}
    images = list(document.rows("images"))
    names: set[str] = set()
    for image in images:
        number, name = image.integer("id"), image.identifier("file_name")
        if number in captions or name in names:
            raise image.error(f"the id {number} or the name {name!r} appears twice")
        names.add(name)
        captions[number] = []
    seen: set[int] = set()
    for annotation in document.rows("annotations"):
        number, photo = annotation.integer("id"), annotation.integer("image_id")
        if number in seen:
            raise annotation.error(f"the id {number} appears twice")
        if photo not in captions:
            raise annotation.wrong("image_id", "the id of one of its photos")
        seen.add(number)
        annotation.caption("caption")
        captions[photo].append(annotation)
    return [(image, captions[image["id"]]) for image in images]


def references_of(
    builder: CaptionBenchmark, photos: Collection[str], files: Mapping[str, AnnotationFile]
) -> dict[str, list[str]]:
    """Photo → its captions, in the file's order, from those of a benchmark's files that are there.

    The next file is read only if photos are left. {} if no file is there: a `BenchmarkWarning` says so.
    """
    found = [source for source in map(builder.find, files) if source is not None]
    left = set(photos)
    captions: dict[str, list[str]] = {}
    for source in found:
        if left:
            captions |= photo_captions(source, left)
        left -= captions.keys()
    if left and found:
        read = " or ".join(map(str, found))
        raise found[-1].error(
            f"there are no captions for {len(left):,} of {len(photos):,} photos in {read}; one is {min(left)}"
        )
    if left:
        names = ", ".join(known.names[0] for known in files.values())
        builder.warn(
            f"{builder.name} ({builder.config.name}): {len(left):,} photos have no references, because "
            f"none of {names} is under data_dir"
        )
    return captions


def photo_captions(source: AnnotationSource, photos: Collection[str]) -> dict[str, list[str]]:
    """Photo → its captions in a file of `photo#0⇥caption` lines, COCO's JSON, or Karpathy's."""
    read = _token_rows
    if (source.member or source.path.name).endswith(".json"):
        read = _json_rows
    captions: dict[str, list[str]] = {}
    for photo, row in read(source):
        if photo in photos:
            captions.setdefault(photo, []).append(row.caption(row.either("raw", "caption")))
    return captions


def _token_rows(source: AnnotationSource) -> Iterator[tuple[str, Row]]:
    for token in token_captions(source):
        yield token.photo, source.row({"caption": token.text}, line=token.line)


def _json_rows(source: AnnotationSource) -> Iterator[tuple[str, Row]]:
    document = source.json()
    if "annotations" not in document:
        for image in document.rows("images"):
            photo = image.identifier("filename")
            yield from ((photo, sentence) for sentence in image.rows("sentences"))
        return
    names = {str(image["id"]): image.identifier("file_name") for image in document.rows("images")}
    for annotation in document.rows("annotations"):
        photo = str(annotation["image_id"])
        if photo not in names:
            raise annotation.wrong("image_id", "the id of one of its images")
        yield names[photo], annotation


def others_than(caption: str, captions: Iterable[str]) -> list[str]:
    """The captions that differ from one in more than the way they are tokenised or lower-cased.

    >>> others_than("A dog 's 2 toys .", ["a dog's 2 toys", "a dog"])
    ['a dog']
    """
    own = letters_and_digits(caption)
    return [text for text in captions if letters_and_digits(text) != own]


def letters_and_digits(caption: str) -> str:
    """What of a caption does not change when it is tokenised or lower-cased."""
    return "".join(character for character in caption.casefold() if character.isalnum())
