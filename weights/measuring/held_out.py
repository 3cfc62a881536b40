"""Captions of photos that no weights of ours learned from → files for `capscore robustness`.

    python -m weights.measuring.held_out --flickr8k flickr8k --out held_out
    python -m weights.measuring.held_out --flickr8k flickr8k --photos Flicker8k_Dataset \
        --xflickrco xflickrco --multi30k multi30k --descriptions DutchDescriptions/Data --out held_out
    python -m weights.measuring.held_out --dutch Test --multi30k multi30k --out held_out
    python -m weights.measuring.held_out --xtd10 XTD10 --trained captions.jsonl --out held_out

In: Flickr8k's text files, and, for photos with captions in several languages, `multilingual_captions.json`
({photo: {language: [captions]}}) with the folder `images`. Out: `photos.jsonl` (photo, caption, language) and
`english.jsonl`, the test split's captions, the first of each photo standing for it. With the folder of
all of Flickr8k's photos also `calibration.jsonl`: those of `photos.jsonl`, and captions of the photos that
XFlickr&CO and Multi30k test, too, with Dutch and German ones of van Miltenburg et al. (2017).

Or in: the Dutch descriptions of Flickr30k's test photos (van Miltenburg et al. 2017) and Multi30k's files,
whose `test_2016_flickr` has the same photos in the same order. Out: `dutch.jsonl`.

Or in: the captions of XTD10's 1,000 COCO photos in seven languages (Aggarwal and Kale 2020), and captions of
the training. Out: `xtd10.jsonl`, without photos that any caption of the training describes. In both, the
English caption stands for the photo.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.benchmarks.data.load import benchmark_builder
from capscore.errors import InputError
from training.engine.config import main as run_as_command
from weights.making.held_out import Photo, photo_of
from weights.making.jsonl import write_lines
from weights.making.package_texts import photo_name

XTD10 = ("es", "it", "ko", "pl", "ru", "tr", "zh")
Rows = list[dict[str, str]]
# test sets of Flickr30k's photos: benchmark → its split, and languages with captions that people wrote
SHARED = {
    "xflickrco": ("test", ("de", "en", "es", "ja", "ru", "tr", "zh")),
    "multi30k": ("test_2016_flickr", ("fr",)),
}
# files of five descriptions of each of these photos
DESCRIBED = {"nl": ("Dutch/Test", "test.[0-4]"), "de": ("German/Test", "de_test.[1-5]")}
# Photos with five descriptions in a language; of more, the first, so that no language outweighs others.
MAX_DESCRIBED = 100


def photo_rows(folder: Path) -> Rows:
    """One row per caption of an available photo, without machine translations (`hi_mt`)."""
    listed = json.loads((folder / "multilingual_captions.json").read_text(encoding="utf-8"))
    return [
        {"image": str((folder / "images" / photo).resolve()), "caption": caption, "language": language}
        for photo, languages in listed.items()
        if (folder / "images" / photo).is_file()
        for language, captions in languages.items()
        if isinstance(captions, list) and not language.endswith("_mt")
        for caption in captions
    ]


def shared_rows(
    photos: Path, xflickrco: Path, multi30k: Path, descriptions: Path | None, apart: Iterable[str]
) -> Rows:
    """One row per caption of a photo of Flickr8k that a test set of Flickr30k's photos shares.

    `photos` is the folder of all of Flickr8k's photos, of which those named in `apart` are left out.
    """
    known = {photo_of(name) for name in apart}
    names = {photo_of(path.name): path.name for path in sorted(photos.iterdir())}
    names = {photo: name for photo, name in names.items() if photo not in known}
    found: dict[str, list[tuple[str, str]]] = {}
    for (slug, (split, languages)), folder in zip(SHARED.items(), (xflickrco, multi30k), strict=True):
        for language in languages:
            found.setdefault(language, []).extend(
                translated(folder, slug, language, names.values(), (split,))
            )
    listed = [photo_of(name) for name in _lines(multi30k / "image_splits" / "test_2016_flickr.txt")]
    at = [line for line, photo in enumerate(listed) if photo in names][:MAX_DESCRIBED]
    for language, (folder_name, pattern) in DESCRIBED.items() if descriptions else ():
        for path in sorted((descriptions / folder_name).glob(pattern)):
            texts = _lines(path)
            found.setdefault(language, []).extend((names[listed[line]], texts[line]) for line in at)
    rows = []
    for language, captions in found.items():
        for name, text in captions:
            if text.strip():
                image = str((photos / name).resolve())
                rows.append({"image": image, "caption": text.strip(), "language": language})
    return rows


def english_rows(folder: Path) -> Rows:
    """Captions two to five of every photo in the test split; the first stands for the photo."""
    test = set(listed_photos(AnnotationSource(folder / "Flickr_8k.testImages.txt")))
    first: dict[str, str] = {}
    found = []
    for _, _, photo, caption in token_captions(AnnotationSource(folder / "Flickr8k.token.txt")):
        if photo in first:
            found.append(_row(photo, first[photo], caption, "en"))
        elif photo in test:
            first[photo] = caption
    return found


def dutch_rows(folder: Path, multi30k: Path) -> Rows:
    english = gzip.decompress((multi30k / "test_2016_flickr.en.gz").read_bytes()).decode("utf-8").splitlines()
    found = []
    for number in range(5):
        described = zip(_lines(folder / f"test.{number}"), english, strict=True)
        for photo, (caption, stand_in) in enumerate(described):
            if caption.strip():
                found.append(_row(str(photo), stand_in, caption, "nl"))
    return found


def xtd10_rows(folder: Path, trained: Path | None = None) -> Rows:
    """One caption per photo and language, of photos that no caption in the file `trained` describes."""
    known = {described_photo(json.loads(line)["id"]) for line in (_lines(trained) if trained else ())}
    if trained and known <= {None}:
        raise InputError(f"{trained}: no id names a photo, so nothing tells which photos were trained on")
    photos, english = _lines(folder / "test_image_names.txt"), _lines(folder / "test_1kcaptions_en.txt")
    return [
        _row(photo, stand_in, caption, language)
        for language in XTD10
        for photo, stand_in, caption in zip(
            photos, english, _lines(folder / f"test_1kcaptions_{language}.txt"), strict=True
        )
        if photo_of(photo) not in known
    ]


def described_photo(name: str) -> Photo | None:
    """The photo that a caption of the training describes, by its id; None if it names none.

    >>> str(described_photo("mscoco-it/mscoco-it/COCO_val2014_000000303550.jpg#345"))
    'COCO 303550'
    >>> str(described_photo("jsts/jsts/31-7")), described_photo("tatoeba/tatoeba/15ea04a1271438ed")
    ('COCO 31', None)
    """
    _, _, rest = name.partition("/")
    return photo_of(photo_name(rest) if "/" in rest else rest)


def translated(
    folder: Path, slug: str, language: str, photos: Iterable[str], splits: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """(photo's name, caption) of those of the photos that a benchmark shares, known by their numbers.

    `splits` are all unless named.
    """
    names = {photo_of(photo): photo for photo in photos}
    builder = benchmark_builder(slug, language, data_dir=folder, images=False)
    return [
        (names[photo], text)
        for split in splits or builder.splits()
        for _, row in builder.checked_rows(split)
        if (photo := photo_of(row["image_id"])) in names
        for text in row["references"]
    ]


def _row(photo: str, stand_in: str, caption: str, language: str) -> dict[str, str]:
    return {"id": photo, "stand_in": stand_in, "caption": caption, "language": language}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flickr8k", type=Path, help="folder of its files")
    parser.add_argument("--dutch", type=Path, help="folder of test.0 to test.4")
    parser.add_argument("--multi30k", type=Path, help="folder of its files, for --dutch and --photos")
    parser.add_argument("--photos", type=Path, help="folder of all of Flickr8k's photos, for --flickr8k")
    parser.add_argument("--xflickrco", type=Path, help="folder of its files, for --photos")
    parser.add_argument("--descriptions", type=Path, help="folder of Dutch/Test, German/Test, for --photos")
    parser.add_argument("--xtd10", type=Path, help="folder of test_1kcaptions_en.txt and others")
    parser.add_argument("--trained", type=Path, help="captions of the training, for --xtd10")
    parser.add_argument("--out", type=Path, required=True, help="folder for the files")
    options = parser.parse_args(argv)
    written = {}
    if options.flickr8k:
        written = {"photos": photo_rows(options.flickr8k), "english": english_rows(options.flickr8k)}
    if options.flickr8k and options.photos and options.xflickrco and options.multi30k:
        apart = {Path(row["image"]).name for row in written["photos"]}
        more = (options.photos, options.xflickrco, options.multi30k, options.descriptions)
        written["calibration"] = written["photos"] + shared_rows(*more, apart)
    if options.dutch and options.multi30k:
        written["dutch"] = dutch_rows(options.dutch, options.multi30k)
    if options.xtd10 and options.trained:
        written["xtd10"] = xtd10_rows(options.xtd10, options.trained)
    if not written:
        parser.error("expected --flickr8k, or --dutch and --multi30k, or --xtd10 and --trained")
    for name, rows in written.items():
        write_lines(options.out / f"{name}.jsonl", rows)
        print(f"{options.out / name}.jsonl: {len(rows):,} captions")


if __name__ == "__main__":
    run_as_command(main)
