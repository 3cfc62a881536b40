"""The caption files of Flickr8k, Flickr30k and COCO → photos with their captions, references."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .annotation_files import AnnotationFile, AnnotationSource

if TYPE_CHECKING:
    from .builder import CaptionBenchmark


class TokenCaption(NamedTuple):
    """A line of a token file: `photo.jpg#0`, a tab, the caption.

    Attributes:
        line: number of the line, from 1.
        caption_id: the photo's file name, "#" and the number of the caption.
        photo: the photo's file name.
        text: the caption as the file has it, blanks in a row included.
    """

    line: int
    caption_id: str
    photo: str
    text: str


def token_captions(source: AnnotationSource) -> Iterator[TokenCaption]:
    """The captions of a token file (Flickr8k.token.txt, results_20130124.token), in its order.

    Raises:
        AnnotationError: the file is missing, damaged or empty, a line is not a caption's, or a caption id
            appears twice; names the line.
    """
    seen: set[str] = set()
    for line, (caption_id, text) in source.tsv("caption id", "caption"):
        photo, sign, number = caption_id.rpartition("#")
        if not sign or not number.isdigit():
            raise source.error(f"{caption_id!r} is not a caption id such as 'photo.jpg#0'", line=line)
        if caption_id in seen:
            raise source.error(f"caption {caption_id} appears twice", line=line)
        seen.add(caption_id)
        yield TokenCaption(line, caption_id, photo, text)


def listed_photos(source: AnnotationSource) -> list[str]:
    """The photos that a list of Flickr8k's names: what stands before the first tab of each line.

    Raises:
        AnnotationError: the file is missing or damaged, or names no photo; names the line.
    """
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


def photos_with_captions(
    source: AnnotationSource, *, image_fields: Sequence[str] = (), caption_fields: Sequence[str] = ()
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """(entry of `images`, its entries of `annotations`) of every photo, both in the file's order.

    "file_name" of a photo is a name and "caption" a caption (blanks in a row become one); other fields are as
    in the file. A photo without captions has [].

    Args:
        source: the file, `{"images": [{"id", "file_name"}], "annotations": [{"id", "image_id", "caption"}]}`.
        image_fields, caption_fields: what entries must have beside these.

    Raises:
        AnnotationError: a field is missing, an id appears twice, a caption is empty or of no photo.
    """
    document = source.json()
    source.require(document, ["images", "annotations"])
    captions: dict[Any, list[dict[str, Any]]] = {}
    names: dict[str, Any] = {}
    for number, image in enumerate(source.items(document["images"], "'images'")):
        entry = f"images[{number}]"
        source.require(image, ["id", "file_name", *image_fields], entry=entry)
        identity = source.integer(image["id"], "'id'", 0, 2**53, entry=entry)
        if identity in captions:
            raise source.error(f"the id {identity} appears twice", entry=entry)
        captions[identity] = []
        image["file_name"] = source.identifier(image["file_name"], "'file_name'", entry=entry)
        source.once(names, image["file_name"], "'file_name'", entry=entry)
    seen: set[int] = set()
    for number, annotation in enumerate(source.items(document["annotations"], "'annotations'")):
        entry = f"annotations[{number}]"
        source.require(annotation, ["id", "image_id", "caption", *caption_fields], entry=entry)
        identity = source.integer(annotation["id"], "'id'", 0, 2**53, entry=entry)
        if identity in seen:
            raise source.error(f"the id {identity} appears twice", entry=entry)
        seen.add(identity)
        photo = source.integer(annotation["image_id"], "'image_id'", 0, 2**53, entry=entry)
        if photo not in captions:
            raise source.error(f"'image_id' {photo} is none of its photos", entry=entry)
        annotation["caption"] = source.caption(annotation["caption"], "'caption'", entry=entry)
        captions[photo].append(annotation)
    for image in document["images"]:
        yield image, captions[image["id"]]


_KARPATHY = "caption_datasets.zip, Karpathy's splits"

FLICKR8K = {
    "flickr8k_captions": AnnotationFile(
        ("Flickr8k.token.txt", "Flickr8k_text/Flickr8k.token.txt", "Flickr8k_text.zip::Flickr8k.token.txt"),
        source="Flickr8k_text.zip",
        optional=True,
    ),
    "flickr8k_karpathy": AnnotationFile(
        ("dataset_flickr8k.json", "caption_datasets.zip::dataset_flickr8k.json"),
        source=_KARPATHY,
        optional=True,
    ),
}
FLICKR30K = {
    "flickr30k_captions": AnnotationFile(
        (
            "results_20130124.token",
            "flickr30k/results_20130124.token",
            "flickr30k.tar.gz::results_20130124.token",
        ),
        source="flickr30k.tar.gz, by request from the authors",
        optional=True,
    ),
    "flickr30k_karpathy": AnnotationFile(
        ("dataset_flickr30k.json", "caption_datasets.zip::dataset_flickr30k.json"),
        source=_KARPATHY,
        optional=True,
    ),
}
COCO = {
    f"coco_{part}": AnnotationFile(
        (
            f"captions_{part}.json",
            f"annotations/captions_{part}.json",
            f"annotations_trainval2014.zip::annotations/captions_{part}.json",
        ),
        source="annotations_trainval2014.zip from https://cocodataset.org/#download",
        optional=True,
    )
    for part in ("val2014", "train2014")
} | {
    "coco_karpathy": AnnotationFile(
        ("dataset_coco.json", "caption_datasets.zip::dataset_coco.json"), source=_KARPATHY, optional=True
    )
}


def references_of(
    builder: CaptionBenchmark, photos: Collection[str], files: Sequence[str]
) -> dict[str, list[str]]:
    """The captions of photos, from the first of these files that are there.

    Args:
        builder: the benchmark; `files` are names in its FILES.
        photos: file names.
        files: looked for in this order; the next one is read only if photos are left.

    Returns:
        Photo → captions, in the file's order. {} if no file is there: a `BenchmarkWarning` says so.

    Raises:
        AnnotationError: a file is damaged, or there are files and none has the captions of a photo.
    """
    found = [source for name in files if (source := builder.find(name)) is not None]
    left = set(photos)
    if not left:
        return {}
    if not found:
        names = ", ".join(builder.FILES[name].names[0] for name in files)
        builder.warn(
            f"{builder.name} ({builder.config.name}): {len(left):,} photos have no references, for none of "
            f"{names} is under data_dir"
        )
        return {}
    captions: dict[str, list[str]] = {}
    for source in found:
        captions |= photo_captions(source, left)
        left -= captions.keys()
        if not left:
            return captions
    read = " or ".join(str(source) for source in found[:-1])
    raise found[-1].error(
        f"has no captions of {len(left):,} of the {len(set(photos)):,} photos{read and f', nor has {read}'}; "
        f"one is {min(left)}"
    )


def photo_captions(source: AnnotationSource, photos: Collection[str]) -> dict[str, list[str]]:
    """Photo → its captions in a caption file: `photo#0⇥caption` lines, COCO's JSON, or Karpathy's.

    Raises:
        AnnotationError: the file is damaged, or is none of these.
    """
    name = source.member or source.path.name
    read = _json_captions if name.endswith(".json") else _token_captions
    captions: dict[str, list[str]] = {}
    for photo, caption in read(source, frozenset(photos)):
        captions.setdefault(photo, []).append(caption)
    return captions


def letters_and_digits(caption: str) -> str:
    """What of a caption does not change when it is tokenised or lower-cased.

    >>> letters_and_digits("A dog 's 2 toys .") == letters_and_digits("a dog's 2 toys")
    True
    """
    return "".join(character for character in caption.casefold() if character.isalnum())


def _token_captions(source: AnnotationSource, photos: frozenset[str]) -> Iterator[tuple[str, str]]:
    for line, _, photo, text in token_captions(source):
        if photo in photos:
            yield photo, source.caption(text, "the caption", line=line)


def _json_captions(source: AnnotationSource, photos: frozenset[str]) -> Iterator[tuple[str, str]]:
    document = source.json()
    source.require(document, ["images"])
    if "annotations" in document:
        yield from _coco_captions(source, document, photos)
        return
    for entry, image in _objects(source, document, "images", ["filename", "sentences"]):
        photo = source.identifier(image["filename"], "'filename'", entry=entry)
        if photo in photos:
            for _, sentence in _objects(source, image, "sentences", ["raw"], entry=entry):
                yield photo, source.caption(sentence["raw"], "'raw'", entry=entry)


def _coco_captions(
    source: AnnotationSource, document: dict[str, Any], photos: frozenset[str]
) -> Iterator[tuple[str, str]]:
    names: dict[str, str] = {}
    for entry, image in _objects(source, document, "images", ["id", "file_name"]):
        names[str(image["id"])] = source.identifier(image["file_name"], "'file_name'", entry=entry)
    for entry, annotation in _objects(source, document, "annotations", ["image_id", "caption"]):
        photo = names.get(str(annotation["image_id"]))
        if photo is None:
            raise source.error(f"image_id {annotation['image_id']!r} is none of its images", entry=entry)
        if photo in photos:
            yield photo, source.caption(annotation["caption"], "'caption'", entry=entry)


def _objects(
    source: AnnotationSource,
    document: dict[str, Any],
    name: str,
    required: Sequence[str],
    entry: int | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, object) of a list of objects, a field of a JSON document."""
    for number, value in enumerate(source.items(document[name], repr(name), entry=entry)):
        source.require(value, required, entry=number if entry is None else entry)
        yield number, value
