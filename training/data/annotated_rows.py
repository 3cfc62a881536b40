"""COCO's captions files, and Flickr30k Entities (Plummer et al. 2017) with its boxes → `Row`s to train on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import photos_with_captions
from capscore.benchmarks.data.flickr30k_entities import (
    box_error,
    listed_photos,
    read_annotation,
    read_sentences,
    unrelated_captions,
)
from capscore.errors import InputError
from capscore.files.image_folder import ImageFolder
from capscore.text.languages import language_code
from training.data.rows import Row

ANNOTATIONS, SENTENCES = "Annotations", "Sentences"
UNRELATED = "UNRELATED_CAPTIONS"
# The chain of phrases that name nothing visible.
NOT_VISUAL = "0"

Box = tuple[float, float, float, float]


def coco_rows(path: str | Path, images: str | Path, *, language: str = "en") -> Iterator[Row]:
    """The captions of a file in COCO's format (captions_train2014.json, …).

    Args:
        path: The file.
        images: Folder of the images.
        language: Language of the captions.

    Raises:
        InputError, ImageError: an image is missing; names it.
        AnnotationError: the file is not in COCO's format; names the entry.
    """
    folder, code = ImageFolder(Path(images)), language_code(language)
    for image, captions in photos_with_captions(AnnotationSource(Path(path).expanduser())):
        name = image["file_name"]
        file = folder.find(name)
        for caption in captions:
            yield Row(
                caption=caption.caption("caption"),
                language=code,
                image=file,
                names=tuple(dict.fromkeys((str(image["id"]), name, Path(name).name, Path(name).stem))),
                where=f"{path}, caption {caption['id']}",
            )


def entity_rows(folder: str | Path, images: str | Path, *, split: str | None = None) -> Iterator[Row]:
    """The captions of Flickr30k Entities; a caption mentions the boxes that show what its phrases name.

    Captions on the list of unrelated captions are left out, if the list is there.

    Args:
        folder: Folder with the folders Annotations and Sentences.
        images: Folder of the images of Flickr30k.
        split: "train", "val" or "test": the photos that `<split>.txt` lists, in its order; None for all
            photos, in the order of their numbers.

    Raises:
        InputError, ImageError: a folder, list or image is missing.
        AnnotationError: a file is missing or damaged; names it and the place.
    """
    folder, found = Path(folder).expanduser(), ImageFolder(Path(images))
    for name in (ANNOTATIONS, SENTENCES):
        if not (folder / name).is_dir():
            raise InputError(
                f"{folder} has no folder {name}; expected the folder of Flickr30k Entities, with "
                f"{ANNOTATIONS} and {SENTENCES} unpacked",
                field="data",
            )
    listed = folder / UNRELATED
    unrelated = unrelated_captions(AnnotationSource(listed)) if listed.is_file() else {}
    for photo in _photos(folder, split):
        captions = read_sentences(AnnotationSource(folder / SENTENCES / f"{photo}.txt"))
        boxes = _boxes(AnnotationSource(folder / ANNOTATIONS / f"{photo}.xml"))
        file = found.find(f"{photo}.jpg")
        for number, caption in enumerate(captions):
            if number in unrelated.get(photo, ()):
                continue
            named = {phrase.chain for phrase in caption.phrases} - {NOT_VISUAL}
            yield Row(
                caption=caption.text,
                language="en",
                image=file,
                boxes=tuple(boxes),
                mentioned=tuple(box for box, chains in enumerate(boxes.values()) if named & chains),
                names=(photo, f"{photo}.jpg"),
                where=f"{folder}, {photo}.txt, line {caption.line}",
            )


def _boxes(source: AnnotationSource) -> dict[Box, set[str]]:
    """Box (left, top, right, bottom) in pixels from 0, cut at the photo's edge → the chains that it shows."""
    annotation = read_annotation(source)
    boxes: dict[Box, set[str]] = {}
    for thing in annotation.objects:
        if thing.corners is None:
            continue
        # xmin 1 and xmax 10 in the file are the edges 0 and 10
        left, top = (max(corner - 1.0, 0.0) for corner in thing.corners[:2])
        right = min(thing.corners[2], float(annotation.width))
        bottom = min(thing.corners[3], float(annotation.height))
        if right <= left or bottom <= top:
            raise box_error(source, thing, annotation)
        boxes.setdefault((left, top, right, bottom), set()).update(thing.chains)
    return boxes


def _photos(folder: Path, split: str | None) -> list[str]:
    if split is None:
        return sorted((path.stem for path in (folder / ANNOTATIONS).glob("*.xml")), key=lambda n: (len(n), n))
    path = folder / f"{split}.txt"
    if not path.is_file():
        raise InputError(f"there is no list {path} of the photos in the split {split!r}", field="data")
    return listed_photos(AnnotationSource(path))
