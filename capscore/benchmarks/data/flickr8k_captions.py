"""Flickr8k's text files → the captions of its photos, and the photos that a list names.

Flickr30k's captions come in a file of the same format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .annotation_files import AnnotationSource


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
