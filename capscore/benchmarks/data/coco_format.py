"""A caption file in COCO's format → its photos, each with its captions, checked.

COCO's own files, nocaps and VizWiz-Captions are such files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .annotation_files import AnnotationSource


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
