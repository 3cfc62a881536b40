"""The files of Flickr30k Entities (Plummer et al. 2017) → captions with phrases, and boxes in a photo.

A phrase names its chain, the thing that it refers to. The annotations of the photo tie boxes to chains.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree import ElementTree

from .annotation_files import AnnotationSource

CORNERS = ("xmin", "ymin", "xmax", "ymax")
_PHRASE = re.compile(r"\[/EN#(?P<chain>\d+)/(?P<types>\S+)\s+(?P<text>[^\[\]]*[^\[\]\s])\s*\]")
_MAX_PIXELS = 100_000


@dataclass(frozen=True)
class Phrase:
    """A phrase of a caption that names something.

    Attributes:
        text: the phrase, with single blanks between its words.
        first_word: number of its first word in the caption, from 0.
        chain: what it names, the same for all phrases of a photo that name one thing; "0" for what cannot be
            seen.
        types: kinds of the thing, such as ("people",).
    """

    text: str
    first_word: int
    chain: str
    types: tuple[str, ...]


class EntityCaption(NamedTuple):
    """A caption, its tokens separated by single blanks; its phrases; its line in the file, from 1."""

    text: str
    phrases: tuple[Phrase, ...]
    line: int


class EntityObject(NamedTuple):
    """An object of a photo's annotations.

    Attributes:
        entry: what an error calls it.
        chains: the chains that it shows, at least one.
        corners: its box (xmin, ymin, xmax, ymax) as the file has it: in pixels from 1, the last included;
            None without a box.
        is_scene: whether the whole photo shows it.
        has_no_box: whether the file says that it has no box.
    """

    entry: str
    chains: tuple[str, ...]
    corners: tuple[int, int, int, int] | None
    is_scene: bool = False
    has_no_box: bool = False


class EntityAnnotation(NamedTuple):
    """A photo's annotations: its width and height in pixels, and its objects, in the file's order."""

    width: int
    height: int
    objects: tuple[EntityObject, ...]


def parse_sentence(line: str) -> tuple[str, tuple[Phrase, ...]]:
    """A caption with its phrases marked → the plain caption and its phrases.

    Raises:
        ValueError: a bracket marks no phrase.

    >>> text, phrases = parse_sentence("[/EN#7/people A man] feeds [/EN#9/animals/other a red hen] .")
    >>> text
    'A man feeds a red hen .'
    >>> phrases[1]
    Phrase(text='a red hen', first_word=3, chain='9', types=('animals', 'other'))
    """
    words: list[str] = []
    phrases = []
    end = 0
    for match in _PHRASE.finditer(line):
        words += line[end : match.start()].split()
        phrase = match["text"].split()
        phrases.append(Phrase(" ".join(phrase), len(words), match["chain"], tuple(match["types"].split("/"))))
        words += phrase
        end = match.end()
    text = " ".join(words + line[end:].split())
    if "[/EN#" in text:
        raise ValueError(f"has a phrase that is not [/EN#<chain>/<type> words]: {line!r:.80}")
    return text, tuple(phrases)


def read_sentences(source: AnnotationSource) -> tuple[EntityCaption, ...]:
    """The captions of a sentence file; blank lines do not count.

    Raises:
        AnnotationError: the file is missing, damaged or has no caption, or a phrase does not end.
    """
    captions = []
    for number, line in ((number, line) for number, line in source.lines() if line.strip()):
        try:
            captions.append(EntityCaption(*parse_sentence(line), number))
        except ValueError as error:
            raise source.error(str(error), line=number) from None
    if not captions:
        raise source.error("has no caption")
    return tuple(captions)


def read_annotation(source: AnnotationSource) -> EntityAnnotation:
    """The annotations of a photo.

    Raises:
        AnnotationError: the file is missing, is not XML, or lacks a size, a chain or a number.
    """
    try:
        with source.open() as stream:
            root = ElementTree.parse(stream).getroot()
    except ElementTree.ParseError as error:
        raise source.error(f"is not XML, or cut short: {error}", line=error.position[0]) from error

    def number(element: ElementTree.Element, path: str, low: int, high: int, entry: str | None = None) -> int:
        return source.row({f"<{path}>": element.findtext(path)}, entry=entry).integer(f"<{path}>", low, high)

    width, height = (number(root, f"size/{side}", 1, _MAX_PIXELS) for side in ("width", "height"))
    objects = []
    for index, element in enumerate(root.findall("object")):
        entry = f"object[{index}]"
        chains = tuple((name.text or "").strip() for name in element.findall("name"))
        if not chains or not all(chains):
            raise source.error("has no <name>, the chain of mentions that it is of", entry=entry)
        if element.find("bndbox") is None:
            scene, none = (number(element, name, 0, 1, entry) for name in ("scene", "nobndbox"))
            objects.append(EntityObject(entry, chains, None, bool(scene), bool(none)))
            continue
        xmin, ymin, xmax, ymax = (
            number(element, f"bndbox/{name}", -_MAX_PIXELS, _MAX_PIXELS, entry) for name in CORNERS
        )
        objects.append(EntityObject(entry, chains, (xmin, ymin, xmax, ymax)))
    return EntityAnnotation(width, height, tuple(objects))


def box_error(source: AnnotationSource, thing: EntityObject, annotation: EntityAnnotation) -> Exception:
    """What is raised for a box that is inverted, or outside the photo."""
    return source.error(
        f"the box {', '.join(map(str, thing.corners or ()))} ({', '.join(CORNERS)}) is none of a photo of "
        f"{annotation.width} × {annotation.height} pixels",
        entry=thing.entry,
    )


def listed_photos(source: AnnotationSource) -> list[str]:
    """The numbers of photos on Flickr that a split's list names, in its order; else AnnotationError."""
    lines = [(line, text.strip()) for line, text in source.lines() if text.strip()]
    for line, text in lines:
        if not text.isdigit():
            raise source.error(f"{text!r:.60} is no photo's number", line=line)
    return [text for _, text in lines]


def unrelated_captions(source: AnnotationSource) -> dict[str, list[int]]:
    """Photo → numbers of its captions, from 0, that have nothing to do with it; [] for any other photo."""
    found: dict[str, list[int]] = defaultdict(list)
    for line, text in source.lines():
        parts = text.partition("#")[0].split()
        if parts:
            row = source.row(dict(zip(("photo", "caption"), parts, strict=False)), line=line)
            found[row.identifier("photo")].append(row.integer("caption", 1, 5) - 1)
    return found


@contextmanager
def annotation_folder(source: AnnotationSource) -> Iterator[Callable[[str], AnnotationSource]]:
    """What gives a file of a folder or zip archive by folder and name, such as "Sentences/36979.txt".

    Raises:
        AnnotationError: the archive is damaged; from what is given: there is no such file.
    """
    if source.path.is_dir():
        yield lambda name: AnnotationSource(source.path / name)
        return
    if source.opened is not None:
        source.opened[source.path] = source
    with source.zip() as archive:
        # the list of names, long for many files, is read once
        members = {"/".join(entry.filename.split("/")[-2:]): entry for entry in archive.infolist()}

        def find(name: str) -> AnnotationSource:
            if name not in members:
                raise source.error(f"the archive holds no {name}")
            content = source.entry(archive, members[name])
            return AnnotationSource(source.path, members[name].filename, content=content)

        yield find
