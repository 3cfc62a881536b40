"""Flickr30k Entities (Plummer et al. 2017) → images with captions, their phrases, and each phrase's boxes.

In: its folder, with `Annotations/<id>.xml` and `Sentences/<id>.txt`. Out: an `EntityImage` an image.
What is wrong with a file names it, and the line or the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from capscore.benchmark.data.annotation_files import AnnotationSource
from capscore.errors import InputError

ANNOTATIONS, SENTENCES = "Annotations", "Sentences"
UNRELATED = "UNRELATED_CAPTIONS"
# The chain of phrases that name nothing that can be seen.
NOT_VISUAL = "0"
_PHRASE = re.compile(r"\[/EN#(\d+)((?:/[^\s/\[\]]+)+)\s+([^\[\]]+?)\s*\]")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
# no image of the data set is that large
_MOST_PIXELS = 100_000


@dataclass(frozen=True)
class Phrase:
    """A phrase of a caption that names something.

    Attributes:
        text: as it is written.
        start, end: its place in the caption, in characters: `caption[start:end]`.
        chain: what it names, the same for all phrases of an image that name one thing; "0" for what cannot be
            seen.
        types: what kind of thing, such as ("people",).
    """

    text: str
    start: int
    end: int
    chain: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class EntityCaption:
    """A caption and its phrases, in order.

    Attributes:
        text: the caption; its tokens are parted by blanks, as in the file.
        phrases: none overlapping.
        line: number of its line in the file, from 1.
    """

    text: str
    phrases: tuple[Phrase, ...]
    line: int


@dataclass(frozen=True)
class EntityImage:
    """An image with what is said of it and where that is.

    Attributes:
        id: number of the image on Flickr.
        file_name: of the image.
        size: width and height in pixels.
        captions: usually five.
        boxes: (left, top, right, bottom) in pixels, each once, in the file's order.
        chains: for each box the chains that it shows.
        scenes: chains that the whole image shows.
        unboxed: chains without a box.
    """

    id: str
    file_name: str
    size: tuple[int, int]
    captions: tuple[EntityCaption, ...]
    boxes: tuple[tuple[float, float, float, float], ...]
    chains: tuple[frozenset[str], ...]
    scenes: frozenset[str]
    unboxed: frozenset[str]

    def mentioned(self, caption: EntityCaption) -> tuple[int, ...]:
        """Numbers of the boxes that show what a caption's phrases name."""
        named = {phrase.chain for phrase in caption.phrases} - {NOT_VISUAL}
        return tuple(number for number, chains in enumerate(self.chains) if named & chains)


def read_entities(folder: str | Path, split: str | None = None) -> Iterator[EntityImage]:
    """The images of a Flickr30k Entities folder.

    Captions that its list of unrelated captions names are left out, if the list is there.

    Args:
        folder: it has the folders Annotations and Sentences.
        split: "train", "val" or "test": the images that `<split>.txt` lists, in its order; None for all,
            in the order of their names.

    Raises:
        InputError: a folder or list is not there.
        AnnotationError: a file is missing, damaged, or not as documented; names it and the place.
    """
    folder = Path(folder).expanduser()
    for name in (ANNOTATIONS, SENTENCES):
        if not (folder / name).is_dir():
            raise InputError(
                f"{folder} has no folder {name}; expected that of Flickr30k Entities, with {ANNOTATIONS} and "
                f"{SENTENCES} unpacked",
                field="data",
            )
    unrelated = _unrelated(folder / UNRELATED)
    for identity in _identities(folder, split):
        image = read_image(folder, identity)
        kept = tuple(
            caption
            for number, caption in enumerate(image.captions, start=1)
            if (identity, number) not in unrelated
        )
        yield replace(image, captions=kept)


def read_image(folder: str | Path, identity: str) -> EntityImage:
    """One image by its number; errors as in `read_entities`."""
    folder = Path(folder).expanduser()
    file_name, size, boxes, scenes, unboxed = read_boxes(folder / ANNOTATIONS / f"{identity}.xml")
    return EntityImage(
        id=identity,
        file_name=file_name,
        size=size,
        captions=read_sentences(folder / SENTENCES / f"{identity}.txt"),
        boxes=tuple(boxes),
        chains=tuple(frozenset(chains) for chains in boxes.values()),
        scenes=scenes,
        unboxed=unboxed,
    )


def parse_sentence(line: str) -> tuple[str, tuple[Phrase, ...]]:
    """A caption with its phrases marked → the plain caption and its phrases.

    Raises:
        ValueError: a bracket is left that marks no phrase; the message is the rest of the line from there.

    >>> text, phrases = parse_sentence("[/EN#7/people A man] feeds [/EN#9/animals/other a red hen] .")
    >>> text
    'A man feeds a red hen .'
    >>> phrases[1]
    Phrase(text='a red hen', start=12, end=21, chain='9', types=('animals', 'other'))
    """
    parts: list[str] = []
    phrases: list[Phrase] = []
    length = place = 0

    def add(text: str) -> int:
        """Put words behind those before, one blank between; returns where they start."""
        nonlocal length
        if parts:
            length += 1
        parts.append(text)
        length += len(text)
        return length - len(text)

    for found in _PHRASE.finditer(line):
        between = " ".join(line[place : found.start()].split())
        if between:
            add(between)
        text = " ".join(found[3].split())
        start = add(text)
        phrases.append(Phrase(text, start, start + len(text), found[1], tuple(found[2].split("/")[1:])))
        place = found.end()
    rest = " ".join(line[place:].split())
    if rest:
        add(rest)
    plain = " ".join(parts)
    if "[/EN#" in plain:
        raise ValueError(plain[plain.index("[/EN#") :])
    return plain, tuple(phrases)


def read_sentences(path: str | Path) -> tuple[EntityCaption, ...]:
    """The captions of a sentence file; blank lines do not count.

    Raises:
        AnnotationError: there is no such file, no caption in it, or a line with a phrase that does not end.
    """
    source = AnnotationSource(Path(path))
    captions = []
    for number, line in source.lines():
        if not line.strip():
            continue
        try:
            text, phrases = parse_sentence(line)
        except ValueError as error:
            raise source.error(
                f"{str(error)!r:.80} is no phrase; expected [/EN#chain/type words]", line=number
            ) from None
        captions.append(EntityCaption(source.caption(text, "the caption", line=number), phrases, number))
    if not captions:
        raise source.error("has no caption")
    return tuple(captions)


def read_boxes(
    path: str | Path,
) -> tuple[
    str,
    tuple[int, int],
    dict[tuple[float, float, float, float], set[str]],
    frozenset[str],
    frozenset[str],
]:
    """An annotation file → name and size of the image, box → chains, chains of the scene, chains without box.

    The file counts pixels from 1, the last one included: xmin 1 and xmax 10 are the edges 0 and 10 here. What
    reaches over the edge of the image is cut off.

    Raises:
        AnnotationError: no XML, or not that of the data set; a box that is inverted, or wholly outside.
    """
    source = AnnotationSource(Path(path))
    text = source.text()
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise source.error(f"is not whole XML: {error}", line=error.position[0]) from None

    def number(node: ElementTree.Element, name: str, low: int, high: int, entry: str) -> int:
        return source.integer(_text(node, name), name, low, high, entry=entry)

    file_name = source.identifier(_text(root, "filename"), "filename")
    width, height = (number(root, f"size/{side}", 1, _MOST_PIXELS, "size") for side in ("width", "height"))
    boxes: dict[tuple[float, float, float, float], set[str]] = {}
    scenes: set[str] = set()
    unboxed: set[str] = set()
    for place, node in enumerate(root.findall("object")):
        entry = f"object {place}"
        chains = {(name.text or "").strip() for name in node.findall("name")} - {""}
        if not chains:
            raise source.error("has no name, which is the chain that it shows", entry=entry)
        box = node.find("bndbox")
        if box is None:
            scenes |= chains if number(node, "scene", 0, 1, entry) else set()
            unboxed |= chains if number(node, "nobndbox", 0, 1, entry) else set()
            continue
        corners = [number(box, corner, -_MOST_PIXELS, _MOST_PIXELS, entry) for corner in _CORNERS]
        left, top = (max(corner - 1.0, 0.0) for corner in corners[:2])
        right, bottom = min(corners[2], float(width)), min(corners[3], float(height))
        if right <= left or bottom <= top:
            raise source.error(
                f"its box is {' '.join(map(str, corners))} ({' '.join(_CORNERS)}): it is inverted, or "
                f"outside the image of {width} × {height} pixels",
                entry=entry,
            )
        boxes.setdefault((left, top, right, bottom), set()).update(chains)
    return file_name, (width, height), boxes, frozenset(scenes), frozenset(unboxed)


def _text(node: ElementTree.Element, path: str) -> str | None:
    found = node.find(path)
    return None if found is None else found.text


def _identities(folder: Path, split: str | None) -> list[str]:
    if split is None:
        return sorted((path.stem for path in (folder / ANNOTATIONS).glob("*.xml")), key=lambda n: (len(n), n))
    path = folder / f"{split}.txt"
    if not path.is_file():
        raise InputError(f"there is no list {path} of the images of the split {split!r}", field="data")
    return [line.strip() for _, line in AnnotationSource(path).lines() if line.strip()]


def _unrelated(path: Path) -> frozenset[tuple[str, int]]:
    """(image, number of the caption from 1) of captions that do not belong to their image."""
    if not path.is_file():
        return frozenset()
    source = AnnotationSource(path)
    found = set()
    for number, line in source.lines():
        parts = line.partition("#")[0].split()
        if not parts:
            continue
        if len(parts) != 2 or not all(part.isdigit() for part in parts):
            raise source.error(f"{line!r:.60}: expected an image and the number of a caption", line=number)
        found.add((parts[0], int(parts[1])))
    return frozenset(found)
