"""Captions of Flickr8k's test photos in several languages, from official files: (photo's name, caption).

A photo is known by its Flickr number, the digits before the first underscore, in whatever set it turns up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.flickr8k_captions import listed_photos, token_captions
from capscore.benchmarks.data.load import benchmark_builder
from capscore.errors import InputError
from weights.making.package_texts import MORE_SOURCES, SOURCES, source_texts

from ..retrieval import read_captions

Captions = list[tuple[str, str]]

# language, with what sets two packages in it apart → the package that has Flickr8k's captions in it. Chinese
# ones were written for the photos, and the English ones of the test photos were translated as well.
PACKAGED = {"zh": "flickr8k-cn", "zh_translated": "flickr8k-cn-test", "ar": "arabic-flickr8k"}
# languages of Multi30k's translations, and of the photos with captions in many languages
TRANSLATED = ("de", "fr", "cs")
SEVERAL = ("en", "zh", "ar", "pt", "de", "fr")


def number(photo: str) -> str:
    """The Flickr number of a photo.

    >>> number("1000268201_693b08cb0e.jpg"), number("1000268201.jpg")
    ('1000268201', '1000268201')
    """
    return photo.partition("_")[0].removesuffix(".jpg")


def test_photos(flickr8k: Path, photos: Path) -> list[Path]:
    """The files of Flickr8k's test photos, in the order of its list.

    Args:
        flickr8k: Folder with Flickr_8k.testImages.txt.
        photos: Folder of the photos.

    Raises:
        AnnotationError: there is no list.
        InputError: a photo is missing; says how many are, and names one.
    """
    files = [photos / name for name in listed_photos(AnnotationSource(flickr8k / "Flickr_8k.testImages.txt"))]
    gone = [file for file in files if not file.is_file()]
    if gone:
        raise InputError(f"{len(gone):,} of {len(files):,} test photos are missing, such as {gone[0]}")
    return files


def english(flickr8k: Path, photos: Collection[str]) -> Captions:
    """The English captions of some photos, from Flickr8k.token.txt."""
    source = AnnotationSource(flickr8k / "Flickr8k.token.txt")
    return [(line.photo, line.text) for line in token_captions(source) if line.photo in photos]


def language_of(key: str) -> str:
    """The language of a key of `PACKAGED`.

    >>> language_of("zh_translated"), language_of("ar")
    ('zh', 'ar')
    """
    return key.partition("_")[0]


def packaged(packages: Path | None, key: str, photos: Collection[str]) -> Captions:
    """The captions of some photos in one of the packages of `PACKAGED`.

    Args:
        packages: Folder of packages as `weights.making.package_texts` reads them.
        key: Key of `PACKAGED`.
        photos: Names of the photos.

    Raises:
        CapscoreError: the package is missing or of another version; none of the photos is in it.
    """
    name = PACKAGED[key]
    if packages is None:
        raise InputError(f"{name}: no folder of packages is given; --packages names it")
    source = next(source for source in (*SOURCES, *MORE_SOURCES) if source.name == name)
    found = [
        (photo, row["text"])
        for row in source_texts(source, packages, [language_of(key)])
        if (photo := row["id"].removeprefix(f"{name}/").partition("#")[0]) in photos
    ]
    return _some(found, name)


def translated(multi30k: Path, language: str, photos: Collection[str]) -> Captions:
    """Multi30k's captions (task 1) of those of the photos that it shares, under their names in Flickr8k.

    Raises:
        CapscoreError: a file is missing or damaged; it shares none of the photos.
    """
    own = {number(photo): photo for photo in photos}
    builder = benchmark_builder("multi30k", language, data_dir=multi30k, images=False)
    found = [
        (own[number(row["image_id"])], text)
        for split in builder.splits()
        for _, row in builder.checked_rows(split)
        if number(row["image_id"]) in own
        for text in row["references"]
    ]
    return _some(found, f"{multi30k}, {language}")


def in_several_languages(flickr8k: Path) -> tuple[list[Path], dict[str, Captions]]:
    """Photos in the folder `images` beside multilingual_captions.json, and language → their captions.

    Raises:
        InputError: there is no such file, or none of its photos.
    """
    file = flickr8k / "multilingual_captions.json"
    if not file.is_file():
        raise InputError(f"there is no {file}")
    read = read_captions(file)
    names: Sequence[str] = sorted({photo for by_photo in read.values() for photo in by_photo})
    files = [flickr8k / "images" / name for name in names]
    files = [path for path in files if path.is_file()]
    if not files:
        raise InputError(f"none of the photos of {file} is in {flickr8k / 'images'}")
    there = {path.name for path in files}
    return files, {
        language: [
            (photo, text) for photo, texts in read[language].items() if photo in there for text in texts
        ]
        for language in SEVERAL
        if language in read
    }


def _some(captions: Captions, where: str) -> Captions:
    if not captions:
        raise InputError(f"{where}: has no caption of these photos")
    return captions
