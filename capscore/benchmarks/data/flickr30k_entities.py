"""The files of Flickr30k Entities (Plummer et al. 2017) → captions with phrases, and boxes in a photo.

A phrase names its chain, the thing that it refers to. The annotations of the photo tie boxes to chains.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from .annotation_files import AnnotationSource

CORNERS = ("xmin", "ymin", "xmax", "ymax")
_PHRASE = re.compile(r"\[/EN#(?P<chain>\d+)/(?P<types>\S+)\s+(?P<text>[^\[\]]*[^\[\]\s])\s*\]")
_MAX_PIXELS = 100_000


def parse_sentence(line: str) -> tuple[str, list[dict[str, Any]]]:
    """A caption with its phrases marked → the plain caption and its phrases.

    Returns:
        The caption, with single blanks between its tokens. For each phrase "text"; "first_word", the number
        of its first word in the caption, from 0; "chain", what it names, the same for all phrases of a photo
        that name one thing and "0" for what cannot be seen; "types", kinds of the thing.

    Raises:
        ValueError: a bracket marks no phrase.

    >>> text, phrases = parse_sentence("[/EN#7/people A man] feeds [/EN#9/animals/other a red hen] .")
    >>> text
    'A man feeds a red hen .'
    >>> phrases[1]
    {'first_word': 3, 'text': 'a red hen', 'chain': '9', 'types': ['animals', 'other']}
    """
    words: list[str] = []
    phrases, end = [], 0
    for match in _PHRASE.finditer(line):
        words += line[end : match.start()].split()
        phrase, types = match["text"].split(), match["types"].split("/")
        about = {"text": " ".join(phrase), "chain": match["chain"], "types": types}
        phrases.append({"first_word": len(words), **about})
        words += phrase
        end = match.end()
    text = " ".join(words + line[end:].split())
    if "[/EN#" in text:
        raise ValueError(f"has a phrase that is not [/EN#<chain>/<type> words]: {line!r:.80}")
    return text, phrases


def read_sentences(source: AnnotationSource) -> tuple[list[str], list[dict[str, Any]]]:
    """The five captions of a photo, and their phrases, as in `parse_sentence`, with the number of the caption
    as "reference".

    Raises:
        AnnotationError: the file is missing or damaged, has not five captions, or a phrase does not end.
    """
    captions: list[str] = []
    phrases = []
    for number, line in ((number, line) for number, line in source.lines() if line.strip()):
        try:
            text, found = parse_sentence(line)
        except ValueError as error:
            raise source.error(str(error), line=number) from None
        phrases += [{"reference": len(captions), **phrase} for phrase in found]
        captions.append(text)
    if len(captions) != 5:
        raise source.error(f"has {len(captions)} captions, expected 5")
    return captions, phrases


def read_annotation(source: AnnotationSource) -> dict[str, Any]:
    """The annotations of a photo.

    Returns:
        "width" and "height" in pixels; "boxes", each with its "chain" and `CORNERS` as the file has them: in
        pixels from 1, the last included; "scenes", chains that the whole photo shows; "without_box", chains
        of which the file says that they have none.

    Raises:
        AnnotationError: the file is missing, is not XML, lacks a size, a chain or a number, or a box is
            inverted or outside the photo.
    """
    try:
        with source.open() as stream:
            root = ElementTree.parse(stream).getroot()
    except ElementTree.ParseError as error:
        raise source.error(f"is not XML, or cut short: {error}", line=error.position[0]) from error

    def number(element: ElementTree.Element, path: str, low: int, high: int, entry: str | None = None) -> int:
        return source.row({f"<{path}>": element.findtext(path)}, entry=entry).integer(f"<{path}>", low, high)

    width, height = (number(root, f"size/{side}", 1, _MAX_PIXELS) for side in ("width", "height"))
    found: dict[str, Any] = {"boxes": [], "scenes": [], "without_box": [], "width": width, "height": height}
    for index, element in enumerate(root.findall("object")):
        entry = f"object[{index}]"
        chains = [(name.text or "").strip() for name in element.findall("name")]
        if not chains or not all(chains):
            raise source.error("has no <name>, the chain of mentions that it belongs to", entry=entry)
        if element.find("bndbox") is None:
            found["scenes"] += chains if number(element, "scene", 0, 1, entry) else []
            found["without_box"] += chains if number(element, "nobndbox", 0, 1, entry) else []
            continue
        corners = {
            name: number(element, f"bndbox/{name}", -_MAX_PIXELS, _MAX_PIXELS, entry) for name in CORNERS
        }
        xmin, ymin, xmax, ymax = corners.values()
        if not (0 <= xmin <= xmax and 0 <= ymin <= ymax and xmin <= width and ymin <= height):
            box = f"{', '.join(map(str, corners.values()))} ({', '.join(CORNERS)})"
            problem = f"the box {box} does not fit a photo of {width} × {height} pixels"
            raise source.error(problem, entry=entry)
        found["boxes"] += [{"chain": chain, **corners} for chain in chains]
    return found


def listed_photos(source: AnnotationSource) -> list[str]:
    """The numbers of photos on Flickr that a split's list names, in its order; else AnnotationError."""
    lines = [(line, text.strip()) for line, text in source.lines() if text.strip()]
    for line, text in lines:
        if not text.isdigit():
            raise source.error(f"{text!r:.60} is not the number of a photo", line=line)
    return [text for _, text in lines]


def unrelated_captions(source: AnnotationSource) -> dict[str, list[int]]:
    """Photo → numbers of its captions, from 0, that have nothing to do with it; [] for any other photo."""
    found: dict[str, list[int]] = defaultdict(list)
    for line, text in source.lines():
        if parts := text.partition("#")[0].split():
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
