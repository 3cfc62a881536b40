"""Ratings of 700 of Flickr8k's rated photos, and captions to contrast → files for `training.human_ratings`.

    python -m weights.making.rated_rows --data DATA --photos PHOTOS --packages PACKAGES --out rows

In: the official files (folders flickr8k, composite, multi30k and those of `weights.making.held_out`),
photos (folder flickr8k) and the package with Flickr8k's captions in Chinese. Out, in a folder:

- `crowdflower.jsonl` and `composite.jsonl`: the ratings of Flickr8k-CF and of Composite's Flickr8k part for
  the photos that `split_numbers` gives for training. Where a photo is missing, its references stand in for
  it, without the rated caption.
- `captions.jsonl`: captions of these photos, and of training photos of Flickr8k that nothing is measured on,
  in English, Chinese (Li et al. 2016), German and French (Multi30k).
- beside each, its origin and licence.

The split of the rated photos: their Flickr numbers, those of ExpertAnnotations.txt and
CrowdFlowerAnnotations.txt, are sorted by the SHA-256 digest of the number in decimal digits. The first 700
are for training, the others are held out. It was written down before the first run, and depends on nothing
but the numbers.

Expert ratings are not trained on. A photo that is measured on is an error, whatever file it came from.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.benchmarks.data.load import benchmark_builder, load_benchmark
from capscore.errors import InputError
from training.engine.config import main as run_as_command
from weights.making.held_out import HeldOut, Photo, held_out_photos, photo_of
from weights.making.jsonl import write_lines, write_sources
from weights.making.package_texts import source_named, source_texts

Row = dict[str, Any]
RATINGS = ("ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt")
N_TRAINING = 700
CHINESE = "flickr8k-cn"
TRANSLATED = ("de", "fr")
# name of the file → benchmark, its configuration, licence of the ratings
RATED = {
    "crowdflower": ("flickr8k_human", "crowdflower", "flickr8k", "Flickr8k-CF", "research use"),
    "composite": ("composite", "flickr8k", "composite", "Composite, Flickr8k part", "unknown"),
}


@dataclass(frozen=True)
class RatedSplit:
    """Numbers of the rated photos that may be trained on, and of those that are measured on."""

    training: frozenset[int]
    held_out: frozenset[int]


def split_numbers(numbers: Iterable[int], n_training: int = N_TRAINING) -> RatedSplit:
    """Split Flickr numbers by the rule above; raises InputError if none would be held out.

    >>> split = split_numbers(range(10), n_training=7)
    >>> sorted(split.training), sorted(split.held_out)
    ([0, 1, 3, 4, 7, 8, 9], [2, 5, 6])
    """
    ordered = sorted(set(numbers), key=lambda number: hashlib.sha256(str(number).encode()).hexdigest())
    if len(ordered) <= n_training:
        raise InputError(f"{len(ordered)} rated photos: expected more than the {n_training} for training")
    return RatedSplit(frozenset(ordered[:n_training]), frozenset(ordered[n_training:]))


def rated_split(flickr8k: Path) -> RatedSplit:
    """The split of the rated photos in Flickr8k's files."""
    names = [name for file in RATINGS for name in listed_photos(AnnotationSource(flickr8k / file))]
    return split_numbers(_photo(name, row, "rated photos").number for row, name in enumerate(names))


def _photo(name: str, row: int | None = None, source: str | None = None) -> Photo:
    photo = photo_of(name)
    if photo is None or photo.collection != "flickr":
        raise InputError(f"{name!r:.80} has no Flickr number", row=row, field=source)
    return photo


def rated_rows(data: Path, photos: Path, split: RatedSplit, name: str) -> Iterator[Row]:
    """The ratings of one of `RATED` for the training photos; photos: folder of Flickr8k's."""
    slug, config, home, _, _ = RATED[name]
    references: dict[int, list[str]] = {}
    for photo_name, texts in _english(data / "flickr8k").items():
        references.setdefault(_photo(photo_name).number, []).extend(texts)
    for row in load_benchmark(slug, config, split="test", data_dir=data / home, images=False):
        photo = photo_of(row["image_id"])
        if photo is not None and photo.number in split.training:
            shown = _shown(photos, row["image_id"], references.get(photo.number, ()), row["caption"])
            if shown is not None:
                said = {"caption": row["caption"], "language": "en", "rating": row["rating"]}
                yield {"id": row["image_id"], **shown, **said}


def captions(
    data: Path, photos: Path, packages: Path | None, split: RatedSplit, held: HeldOut, most: int
) -> Iterator[Row]:
    """Captions in several languages of photos that are there.

    These are all rated photos for training, and `most` further ones, the first of Flickr8k's training split
    that are not held out. Without a folder of packages, there is no Chinese.
    """
    english = _english(data / "flickr8k")
    listed = listed_photos(AnnotationSource(data / "flickr8k" / "Flickr_8k.trainImages.txt"))
    free = [name for name in listed if not held.reason(_photo(name), name) and (photos / name).is_file()]
    rated = [n for n in english if _photo(n).number in split.training and (photos / n).is_file()]
    names = {_photo(name).number: name for name in (*rated, *free[:most])}
    for name in names.values():
        for text in english[name]:
            yield _row(photos, name, text, "en")
    if packages is not None:
        for found in source_texts(source_named(CHINESE), packages, ["zh"]):
            photo = photo_of(found["id"].removeprefix(f"{CHINESE}/"))
            if photo is not None and photo.number in names:
                yield _row(photos, names[photo.number], found["text"], "zh")
    for language in TRANSLATED:
        builder = benchmark_builder("multi30k", language, data_dir=data / "multi30k", images=False)
        for _, row in chain.from_iterable(map(builder.checked_rows, ("train", "validation"))):
            photo = photo_of(row["image_id"])
            for text in row["references"] if photo is not None and photo.number in names else ():
                yield _row(photos, names[photo.number], text, language)


def check_rows(rows: Sequence[Row], split: RatedSplit, held: HeldOut, source: str) -> None:
    """Raise InputError if a row has a photo that is measured on; names photo and row."""
    for number, row in enumerate(rows):
        photo = _photo(row["id"], number, source)
        if photo.number in split.held_out:
            HeldOut({photo: ("the rated photos that are measured on",)}).refuse(
                photo, row["id"], source, number
            )
        if photo.number not in split.training:
            held.refuse(photo, row["id"], source, number)


def write_rows(
    data: Path, photos: Path, out: Path, packages: Path | None = None, *, most: int = 300
) -> dict[str, int]:
    """Write all files; returns the number of rows of each. Arguments are those of the command."""
    split = rated_split(data / "flickr8k")
    held = held_out_photos(data)
    folder = photos / "flickr8k"
    counts = {}
    n_held, n_free = len(split.held_out), len(split.training)
    statement = (
        f"{n_held} of the {n_held + n_free:,} rated photos of Flickr8k, chosen by a hash of their numbers "
        "(weights.making.rated_rows), with everything that is rated or captioned of them; and, besides the "
        f"other {n_free}, {held.statement()}"
    )
    parts: dict[str, tuple[list[Row], list[Mapping[str, Any]]]] = {}
    for name, (*_, title, licence) in RATED.items():
        rows = list(rated_rows(data, folder, split, name))
        parts[name] = rows, [_source(title, licence, rows)]
    rows = list(captions(data, folder, packages, split, held, most))
    licences = {"en": ("Flickr8k", "research use"), "zh": ("Flickr8k-CN", "none stated")}
    sources = []
    for code in ("en", "zh", *TRANSLATED):
        title, licence = licences.get(code, ("Multi30k", "research use"))
        if own := [row for row in rows if row["language"] == code]:
            sources.append(_source(f"{title}, {code}", licence, own))
    parts["captions"] = rows, sources
    for name, (own, sources) in parts.items():
        check_rows(own, split, held, name)
        path = out / f"{name}.jsonl"
        write_lines(path, own)
        write_sources(path, sources, statement)
        counts[name] = len(own)
    return counts


def _source(name: str, licence: str, rows: Sequence[Row]) -> Mapping[str, Any]:
    return {"name": name, "license": licence, "rows": len(rows)}


def _row(photos: Path, name: str, text: str, language: str) -> Row:
    return {"id": name, "image": str((photos / name).resolve()), "caption": text, "language": language}


def _english(flickr8k: Path) -> dict[str, list[str]]:
    """Name of each photo → its captions."""
    found: dict[str, list[str]] = {}
    for line in token_captions(AnnotationSource(flickr8k / "Flickr8k.token.txt")):
        found.setdefault(line.photo, []).append(line.text)
    return found


def _shown(photos: Path, name: str, references: Iterable[str], caption: str) -> Row | None:
    """The photo, or its references without the caption; None where there is neither."""
    if (photos / name).is_file():
        return {"image": str((photos / name).resolve())}
    others = [text for text in references if plain(text) != plain(caption)]
    return {"stand_in": others} if others else None


def plain(text: str) -> str:
    """Letters and digits of a caption, by which two data sets' copies of it are recognised.

    >>> plain("Two dogs , running !") == plain("two dogs, running!")
    True
    """
    return re.sub(r"[^\w]|_", "", text.lower())


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the official files")
    parser.add_argument("--photos", type=Path, required=True, help="folder that holds the folder flickr8k")
    parser.add_argument("--packages", type=Path, help="folder of packages with Chinese captions")
    parser.add_argument("--out", type=Path, required=True, help="folder for the files")
    parser.add_argument("--most", type=int, default=300, help="photos to contrast besides the rated ones")
    given = parser.parse_args(argv)
    counts = write_rows(given.data, given.photos, given.out, given.packages, most=given.most)
    for name, count in counts.items():
        print(f"{given.out / name}.jsonl: {count:,} rows")


if __name__ == "__main__":
    run_as_command(main)
