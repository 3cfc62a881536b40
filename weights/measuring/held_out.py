"""Captions of photos that no weights of ours learned from → files for `capscore robustness`.

    python -m weights.measuring.held_out --data DATA --out held_out
    python -m weights.measuring.held_out --data DATA --photos Flicker8k_Dataset \
        --descriptions DutchDescriptions/Data --xtd10 XTD10 --trained captions.jsonl --out held_out

In: the official files, in the folders flickr8k, multi30k and xflickrco; for photos with captions in several
languages `flickr8k/multilingual_captions.json` ({photo: {language: [captions]}}) and `flickr8k/images`. Out:

- `photos.jsonl`: photo, caption and language;
- `english.jsonl`: the captions of Flickr8k's test split, the first of each photo standing for it;
- with the folder of all of Flickr8k's photos, `calibration.jsonl`: those of `photos.jsonl`, and captions of
  photos that XFlickr&CO and Multi30k test, too, with German and Dutch descriptions;
- with the descriptions of Flickr30k's test photos (van Miltenburg et al. 2017), `dutch.jsonl`: Multi30k's
  `test_2016_flickr` has the same photos in the same order;
- with the captions of XTD10's 1,000 COCO photos (Aggarwal and Kale 2020) and those of the training,
  `xtd10.jsonl`, without photos that any caption of the training describes.

In the last two, the English caption stands for the photo.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.benchmarks.data.load import benchmark_builder
from capscore.errors import InputError
from weights.making.held_out import photo_files, photo_of
from weights.making.jsonl import write_lines
from weights.making.package_texts import photo_name
from weights.making.settings import command

from .figures import MaybePath, noting, read_rows

XTD10 = ("es", "it", "ko", "pl", "ru", "tr", "zh")
Rows = Iterator[dict[str, str]]
# test sets of Flickr30k's photos: benchmark → its split, and languages with captions that people wrote
SHARED = {
    "xflickrco": ("test", ("de", "en", "es", "ja", "ru", "tr", "zh")),
    "multi30k": ("test_2016_flickr", ("fr",)),
}
# files of five descriptions of each of these photos
DESCRIBED = {"nl": ("Dutch/Test", "test.[0-4]"), "de": ("German/Test", "de_test.[1-5]")}
# Photos with five descriptions in a language; of more, the first, so that no language outweighs others.
MAX_DESCRIBED = 100


def photo_rows(flickr8k: Path) -> Rows:
    """One row per caption of an available photo, without machine translations (`hi_mt`)."""
    listed = json.loads((flickr8k / "multilingual_captions.json").read_text(encoding="utf-8"))
    for photo, languages in listed.items():
        image = flickr8k / "images" / photo
        for language, captions in languages.items():
            if image.is_file() and isinstance(captions, list) and not language.endswith("_mt"):
                yield from (_of_photo(image, language, caption) for caption in captions)


def _of_photo(image: Path, language: str, caption: str) -> dict[str, str]:
    return {"image": str(image.resolve()), "caption": caption, "language": language}


def shared_rows(data: Path, photos: Path, descriptions: Path | None, apart: Iterable[str]) -> Rows:
    """One row per caption of a photo of Flickr8k that a test set of Flickr30k's photos shares.

    `photos` is the folder of all of Flickr8k's photos, of which those named in `apart` are left out.
    """
    known = {photo_of(name) for name in apart}
    names = {photo: name for name, photo in photo_files(photos).items() if photo not in known}
    found: dict[str, list[tuple[str, str]]] = {}
    for slug, (split, languages) in SHARED.items():
        for language in languages:
            captions = translated(data, slug, language, names.values(), (split,))
            found.setdefault(language, []).extend(captions)
    listed = _lines(data / "multi30k" / "image_splits" / "test_2016_flickr.txt")
    at = [line for line, name in enumerate(listed) if photo_of(name) in names][:MAX_DESCRIBED]
    for language, (folder, pattern) in DESCRIBED.items() if descriptions else ():
        for path in sorted((descriptions / folder).glob(pattern)):
            texts = _lines(path)
            found.setdefault(language, []).extend((names[photo_of(listed[n])], texts[n]) for n in at)
    for language, captions in found.items():
        for name, text in captions:
            if text.strip():
                yield _of_photo(photos / name, language, text.strip())


def english_rows(flickr8k: Path) -> Rows:
    """Captions two to five of every photo in the test split; the first stands for the photo."""
    test = set(listed_photos(AnnotationSource(flickr8k / "Flickr_8k.testImages.txt")))
    first: dict[str, str] = {}
    for _, _, photo, caption in token_captions(AnnotationSource(flickr8k / "Flickr8k.token.txt")):
        if photo in first:
            yield _row(photo, first[photo], caption, "en")
        elif photo in test:
            first[photo] = caption


def dutch_rows(folder: Path, multi30k: Path) -> Rows:
    english = gzip.decompress((multi30k / "test_2016_flickr.en.gz").read_bytes()).decode("utf-8").splitlines()
    for path in sorted(folder.glob("test.[0-4]")):
        for photo, (caption, stand_in) in enumerate(zip(_lines(path), english, strict=True)):
            if caption.strip():
                yield _row(str(photo), stand_in, caption, "nl")


def xtd10_rows(folder: Path, trained: Path) -> Rows:
    """One caption per photo and language, of photos that no caption in the file `trained` describes."""
    known = set()
    for row in read_rows(trained, "id"):
        # source/number, or source/id of `package_texts`, such as jsts/jsts/31-7
        _, _, rest = row["id"].partition("/")
        known.add(photo_of(photo_name(rest) if "/" in rest else rest))
    if known <= {None}:
        raise InputError(f"{trained}: no id names a photo, so nothing tells which photos were trained on")
    photos, english = _lines(folder / "test_image_names.txt"), _lines(folder / "test_1kcaptions_en.txt")
    for language in XTD10:
        captions = _lines(folder / f"test_1kcaptions_{language}.txt")
        for photo, stand_in, caption in zip(photos, english, captions, strict=True):
            if photo_of(photo) not in known:
                yield _row(photo, stand_in, caption, language)


def translated(
    data: Path, slug: str, language: str, photos: Iterable[str] | None = None, splits: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """(photo's name, caption) of a benchmark's photos, by default all, and of all splits.

    Photos that are given are known by their numbers, and have the names that are given.
    """
    names = {photo_of(photo): photo for photo in photos or ()}
    builder = benchmark_builder(slug, language, data_dir=data / slug, images=False)
    found = []
    for split in splits or builder.splits():
        for _, row in builder.checked_rows(split):
            name = row["image_id"] if photos is None else names.get(photo_of(row["image_id"]))
            if name is not None:
                found += [(name, text) for text in row["references"]]
    return found


def _row(photo: str, stand_in: str, caption: str, language: str) -> dict[str, str]:
    return {"id": photo, "stand_in": stand_in, "caption": caption, "language": language}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@command(
    data="folder of the official files",
    out="folder for the files",
    photos="folder of all of Flickr8k's photos, for calibration.jsonl; default: none",
    descriptions="folder of Dutch/Test and German/Test; default: none",
    xtd10="folder of test_1kcaptions_en.txt and others; default: none",
    trained="file of captions of the training, for --xtd10; default: none",
)
def main(
    data: Path, out: Path, photos: MaybePath, descriptions: MaybePath, xtd10: MaybePath, trained: MaybePath
) -> None:
    written: dict[str, list[dict[str, str]]] = {}
    missing: dict[str, str] = {}
    for name, read in (("photos", photo_rows), ("english", english_rows)):
        with noting(missing, name):
            written[name] = [*read(data / "flickr8k")]
    if photos:
        apart = {Path(row["image"]).name for row in written["photos"]}
        shared = shared_rows(data, photos, descriptions, apart)
        written["calibration"] = [*written["photos"], *shared]
    if descriptions:
        written["dutch"] = [*dutch_rows(descriptions / "Dutch/Test", data / "multi30k")]
    if xtd10:
        if trained is None:
            raise InputError("--xtd10 needs --trained, the captions of the training")
        written["xtd10"] = [*xtd10_rows(xtd10, trained)]
    for name, rows in written.items():
        if not rows:
            raise InputError(f"there is no caption for {name}.jsonl")
        write_lines(out / f"{name}.jsonl", rows)
        print(f"{out / name}.jsonl: {len(rows):,} captions")
    for name, why in missing.items():
        print(f"{out / name}.jsonl: not written: {why}")


if __name__ == "__main__":
    main()
