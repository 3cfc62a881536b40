"""Photos with a label each, in folders or by their names → captions such as "a rocket" for the recipe.

    python -m weights.making.image_tower.labelled --photos PHOTOS --folder caltech101 --most 25 \
        --out caltech.jsonl
    python -m weights.making.image_tower.labelled --photos PHOTOS --folder imagenet_sample \
        --label 'n[0-9]+_(.+)[.]JPEG$' --out imagenet.jsonl --name ImageNet --license "for research only"

In: a folder inside the folder of photos. The label is the photo's own folder, or what --label finds in its
path. Out: JSONL rows of file, caption and language for the recipe's setting `labelled`, two per photo, and
their source for the card in `….sources.json`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.errors import InputError
from capscore.images.load import content_key
from training.engine.config import main as run_as_command
from weights.making.held_out import Photo
from weights.making.image_tower.marked_objects import described
from weights.making.image_tower.rows import LABELLED, PHOTO_SUFFIXES, Caption, stated_caption
from weights.making.jsonl import write_lines, write_sources

# The name of the folder that a photo lies in.
_OF_FOLDER = r"([^/]+)/[^/]+$"


def labelled_photos(
    photos: Path, folder: str, *, label: str = _OF_FOLDER, most: int | None = None
) -> dict[str, str]:
    """Path of each photo of a folder in `photos` → its label, with spaces for underscores, in this order.

    Args:
        label: Regular expression that is searched in the path under `folder`; its first group is the label.
        most: Most photos of a label, evenly spread over them; None for all.
    """
    pattern = re.compile(label)
    by_label: dict[str, list[str]] = {}
    for path in sorted((photos / folder).rglob("*")):
        if path.suffix.lower() not in PHOTO_SUFFIXES:
            continue
        found = pattern.search(path.relative_to(photos / folder).as_posix())
        if found is None or not found.group(1):
            raise InputError(f"{path}: --label {label!r:.80} matches nothing in its path", field="label")
        name = found[1].replace("_", " ").strip()
        by_label.setdefault(name, []).append(path.relative_to(photos).as_posix())
    if not by_label:
        raise InputError(f"{photos / folder} has no photo ({', '.join(PHOTO_SUFFIXES)})", field="folder")
    kept = {}
    for name, paths in by_label.items():
        n = len(paths) if most is None else min(most, len(paths))
        kept.update({paths[index * len(paths) // n]: name for index in range(n)})
    return dict(sorted(kept.items()))


def rows_of(labels: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Two rows per photo: its label as a phrase, and in a sentence.

    >>> [row["caption"] for row in rows_of({"things/owl/1.jpg": "owl"})]
    ['an owl', 'A photo of an owl.']
    """
    for file, name in labels.items():
        phrase = described([name])
        for text in (phrase, f"A photo of {phrase}."):
            yield {"file": file, "caption": text, "language": "en"}


def labelled_captions(path: Path, photos: Path) -> tuple[list[Caption], dict[Photo, str]]:
    """The captions of a file of labelled photos, and each photo's file.

    The file has JSONL rows {"file": path under `photos`, "caption": …, "language": "en"}; an error of it
    or of a photo names the line.
    """
    source = AnnotationSource(path)
    photo_of_file: dict[str, Photo] = {}
    captions = []
    for row in source.jsonl():
        file = row.identifier("file")
        if file not in photo_of_file:
            if not (photos / file).is_file():
                raise row.error(f"there is no photo {photos / file}")
            # equal files in two collections are one photo
            digest = content_key(photos / file).rpartition(":")[2]
            photo_of_file[file] = Photo(LABELLED, int(digest[:15], 16))
        text, language = stated_caption(row)
        captions.append(Caption(photo_of_file[file], file, language, text, path.name))
    files: dict[Photo, str] = {}
    for file, photo in photo_of_file.items():
        files.setdefault(photo, file)
    return captions, files


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--photos", type=Path, required=True, help="folder of the photos")
    parser.add_argument("--folder", required=True, help="folder in it whose photos have labels")
    parser.add_argument(
        "--label", default=_OF_FOLDER, help="regular expression; its first group is the label"
    )
    parser.add_argument("--most", type=int, help="most photos of a label")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file to write")
    parser.add_argument("--name", help="name of the collection for the card")
    parser.add_argument("--license", default="unknown", help="licence of the photos")
    parser.add_argument("--url", default="", help="address of the collection")
    options = parser.parse_args(argv)
    labels = labelled_photos(options.photos, options.folder, label=options.label, most=options.most)
    source = {"name": options.name or options.folder, "license": options.license, "url": options.url}
    write_sources(options.out, [{**source, "rows": len(labels)}])
    write_lines(options.out, rows_of(labels))
    print(f"{len(labels):,} photos with {len(set(labels.values())):,} labels in {options.out}")


if __name__ == "__main__":
    run_as_command(main)
