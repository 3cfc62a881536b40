"""A folder of Flickr30k Entities (Plummer et al. 2017) → photos with captions and boxes to train on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.flickr30k_entities import (
    EntityCaption,
    box_error,
    listed_photos,
    read_annotation,
    read_sentences,
    unrelated_captions,
)
from capscore.errors import InputError

ANNOTATIONS, SENTENCES = "Annotations", "Sentences"
UNRELATED = "UNRELATED_CAPTIONS"
# The chain of phrases that name nothing visible.
NOT_VISUAL = "0"

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class EntityPhoto:
    """A photo with its captions and boxes.

    Attributes:
        id: number of the photo on Flickr.
        captions: its captions, usually five.
        boxes: (left, top, right, bottom) in pixels, from 0, each once, in the file's order.
        chains: for each box the chains that it shows.
    """

    id: str
    captions: tuple[EntityCaption, ...]
    boxes: tuple[Box, ...]
    chains: tuple[frozenset[str], ...]

    @property
    def file_name(self) -> str:
        """The photo's file name."""
        return f"{self.id}.jpg"

    def mentioned(self, caption: EntityCaption) -> tuple[int, ...]:
        """Numbers of the boxes that show what a caption's phrases name."""
        named = {phrase.chain for phrase in caption.phrases} - {NOT_VISUAL}
        return tuple(number for number, chains in enumerate(self.chains) if named & chains)


def read_entities(folder: str | Path, split: str | None = None) -> Iterator[EntityPhoto]:
    """The photos of a Flickr30k Entities folder.

    Captions on its list of unrelated captions are left out, if the list is there.

    Args:
        folder: folder with the folders Annotations and Sentences.
        split: "train", "val" or "test": the photos that `<split>.txt` lists, in its order; None for all
            photos, in the order of their numbers.

    Raises:
        InputError: a folder or list is missing.
        AnnotationError: a file is missing or damaged; names it and the place.
    """
    folder = Path(folder).expanduser()
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
        left_out = unrelated.get(photo, ())
        captions = read_sentences(AnnotationSource(folder / SENTENCES / f"{photo}.txt"))
        boxes = _boxes(AnnotationSource(folder / ANNOTATIONS / f"{photo}.xml"))
        yield EntityPhoto(
            id=photo,
            captions=tuple(caption for number, caption in enumerate(captions) if number not in left_out),
            boxes=tuple(boxes),
            chains=tuple(map(frozenset, boxes.values())),
        )


def _boxes(source: AnnotationSource) -> dict[Box, set[str]]:
    """Box → the chains that it shows; a box that reaches over the edge of the photo is cut there."""
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
