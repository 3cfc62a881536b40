"""Photos with all their captions in all languages: rows for training and calibrating marks.

In: official caption files, texts of `weights.making.package_texts`, folders of photos. Out: JSONL, one photo
a row: `photo`, `file`, `split`, and `captions`, a list of [caption, language, source]; and the captions'
origins, for the card. The split of a photo follows from its number alone:

- "train": no set holds it out;
- "calibrate": held out, and its number gives 0 or 1 when divided by 5; or a photo of COCO that no set holds
  out, with an even number: thresholds are set on its captions;
- "measure": held out otherwise. Such a photo is seen by no training and no calibration.

Photos in the folder `flickr8k/images` of the data are always of "measure".
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import token_captions
from capscore.errors import InputError
from weights.making.captions import HELD_OUT, describe, photo_captions
from weights.making.held_out import (
    TESTED,
    HeldOut,
    Photo,
    first_names,
    held_out_photos,
    measured_images,
    photo_files,
    photo_of,
)
from weights.making.jsonl import beside, print_counts, read_lines, write_lines, write_sources
from weights.making.package_texts import photo_name, read_texts
from weights.making.settings import command

# Blocks of emoji that picture things, words that name none, and COCO's things.
_KNOWN = beside(__file__, "things.yaml")
COCO_THINGS: list[str] = _KNOWN["coco"]
_NO_THING = frozenset(_KNOWN["no_things"].split())
# One word, of letters alone.
_WORD = re.compile(r"[^\W\d_]{2,}")
# Languages in which a name is one word without blanks, however long.
_UNSPACED = frozenset(("zh", "ja"))
_MOST_UNSPACED = 5


def split_of(
    photo: Photo, name: str, held: HeldOut, always: frozenset[Photo | None] = frozenset()
) -> str | None:
    """The split of a photo; None for one that may not be trained on, but is in no measured set either.

    Its file name may tell COCO's split; photos of `always` are always measured on.
    """
    if photo in always:
        return "measure"
    if photo in held.sets:
        return "calibrate" if photo.number % 5 < 2 else "measure"
    if held.reason(photo, name):
        return None
    return "calibrate" if photo.collection == "coco" and photo.number % 2 == 0 else "train"


def captions_of(data: Path, texts: Path) -> Iterator[tuple[Photo, str, str, str]]:
    """Photo, caption, language and source of every caption, of held-out photos as well."""
    for text in photo_captions(data, ()):
        source, _, number = text.image.rpartition("/")
        # of xFlickr&CO, the numbers of COCO's photos have at most six digits
        is_of_coco = source == "xflickrco" and len(number) <= 6
        yield Photo("coco" if is_of_coco else "flickr", int(number)), text.caption, text.language, source
    # of all photos of Flickr8k, which `photo_captions` reads of its training split alone
    for _, _, image, caption in token_captions(AnnotationSource(data / "flickr8k" / "Flickr8k.token.txt")):
        if (photo := photo_of(image)) is not None:
            yield photo, caption, "en", "flickr8k"
    for file in sorted(texts.glob("*.jsonl")):
        for row in read_texts(file):
            photo = photo_of(photo_name(row["id"]))
            if photo is not None and row["source"] != "mscoco-it":  # whose photos are all of val2014
                yield photo, row["text"], row["language"], row["source"]


def names_of_things() -> tuple[dict[str, str], ...]:
    """For each thing: language → its name, in lower case; only names of one word, always one in English."""
    import emoji

    languages = [code for code in emoji.LANGUAGES if code != "alias"]
    for code in languages:
        emoji.config.load_language(code)
    unique = {}
    for sign, about in emoji.EMOJI_DATA.items():
        points = [point for point in map(ord, sign) if point != 0xFE0F]
        if len(points) > 1 or not any(first <= points[0] <= last for first, last in _KNOWN["emoji"]):
            continue
        names = {}
        for code in languages:
            name = about.get(code, "").strip(":").lower()
            if _WORD.fullmatch(name) and (code not in _UNSPACED or len(name) <= _MOST_UNSPACED):
                names[code] = name
        if "en" in names and names["en"] not in _NO_THING:
            unique[names["en"]] = names
    return tuple(unique[name] for name in sorted(unique))


def write_rows(data: Path, texts: Path, folder: Path, out: Path) -> dict[str, Counter[str]]:
    """Write the file; returns split → language → number of captions."""
    files, held = first_names(photo_files(folder)), held_out_photos(data, sets=TESTED)
    always = frozenset(map(photo_of, measured_images(data)))
    captions: dict[Photo, dict[tuple[str, str], str]] = defaultdict(dict)
    for photo, caption, language, source in captions_of(data, texts):
        if photo in files and caption.strip():
            captions[photo].setdefault((language, caption.strip()), source)
    trained: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {split: Counter() for split in ("train", "calibrate", "measure")}
    rows: list[dict[str, Any]] = []
    for photo in sorted(captions):
        split = split_of(photo, files[photo], held, always)
        if split is None:
            continue
        listed = [[caption, language, source] for (language, caption), source in captions[photo].items()]
        file = str(folder / files[photo])
        rows.append({"photo": str(photo), "file": file, "split": split, "captions": listed})
        counts[split].update(language for _, language, _ in listed)
        if split == "train":
            trained.update(source for _, _, source in listed)
    if not trained:
        raise InputError(f"no photo in {folder} has a caption to train on", field="photos")
    write_lines(out, rows)
    write_sources(out, describe({"": trained}), HELD_OUT)
    return counts


def read_mark_rows(file: str | Path) -> list[dict[str, Any]]:
    """The rows of a file that this command wrote; raises InputError if it is missing or damaged."""

    def convert(row: dict[str, Any]) -> dict[str, Any]:
        if not all(len(item) == 3 for item in row["captions"]):
            raise ValueError
        return row

    return list(read_lines(file, "rows", ("split", "file"), convert))


@command(
    data="folder with multi30k, flickr8k and xflickrco, which determine what is held out",
    texts="folder of weights.making.package_texts",
    photos="folder with photos; its folders are searched too",
    out="file to write",
)
def main(data: Path, texts: Path, photos: Path, out: Path) -> None:
    print_counts(write_rows(data, texts, photos, out))


if __name__ == "__main__":
    main()
