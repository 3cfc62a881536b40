"""Text → image retrieval in several languages among Flickr8k's test photos → figures.

A photo is known by its Flickr number, the digits before the first underscore, in whatever set it turns up.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from capscore.benchmarks.data.load import benchmark_builder
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.metrics.backbone_scorer import MCS
from capscore.metrics.signature import format_signature
from weights.making.package_texts import source_named, source_texts

from ..figures import ratio_of_shares
from ..retrieval import (
    KS,
    Ranked,
    embedded_photos,
    flickr8k_captions,
    flickr8k_test_photos,
    rank_photos,
    recall,
)
from .report import Report, of_share

Captions = list[tuple[str, str]]  # (photo's name, caption)

# language, with what sets two packages in it apart → the package that has Flickr8k's captions in it, and its
# title. Chinese ones were written for the photos, and the English ones of the test photos were translated.
PACKAGED = {"zh": "flickr8k-cn", "zh_translated": "flickr8k-cn-test", "ar": "arabic-flickr8k"}
_TITLES = {
    "zh": "zh, Flickr8k-CN",
    "zh_translated": "zh, Flickr8k-CN, translated",
    "ar": "ar, Arabic Flickr8k",
}
# languages of Multi30k's translations
TRANSLATED = ("de", "fr", "cs")


def number(photo: str) -> str:
    """The Flickr number of a photo.

    >>> number("1000268201_693b08cb0e.jpg"), number("1000268201.jpg")
    ('1000268201', '1000268201')
    """
    return photo.partition("_")[0].removesuffix(".jpg")


def packaged(packages: Path | None, key: str, photos: Collection[str]) -> Captions:
    """The captions of some photos in one of the packages of `PACKAGED`."""
    name = PACKAGED[key]
    if packages is None:
        raise InputError(f"{name}: no folder of packages is given; --packages names it")
    return [
        (photo, row["text"])
        for row in source_texts(source_named(name), packages, [key.partition("_")[0]])
        if (photo := row["id"].removeprefix(f"{name}/").partition("#")[0]) in photos
    ]


def translated(multi30k: Path, language: str, photos: Collection[str]) -> Captions:
    """Multi30k's captions (task 1) of those of the photos that it shares, under their names in Flickr8k."""
    names = {number(photo): photo for photo in photos}
    builder = benchmark_builder("multi30k", language, data_dir=multi30k, images=False)
    return [
        (names[number(row["image_id"])], text)
        for split in builder.splits()
        for _, row in builder.checked_rows(split)
        if number(row["image_id"]) in names
        for text in row["references"]
    ]


class _Search:
    """One backbone's search among some photos; its figures go into a report."""

    def __init__(self, report: Report, embedder: Embedder, files: list[Path], options: TaskOptions):
        self.report, self.embedder, self.options = report, embedder, options
        # as in `capscore benchmark`, whose retrieval compares cosines too
        self.signature = format_signature("mcs", MCS(embedder).settings)
        self.index = {path.name: index for index, path in enumerate(files)}
        self.photos = embedded_photos(embedder, files)

    def measured(self, key: str, title: str, captions: Captions) -> Ranked:
        """R@k of some captions, each with the name of one of the photos."""
        if not captions:
            raise InputError("no photo has a caption in this language")
        numbered = [(self.index[photo], text) for photo, text in captions]
        ranked = rank_photos(self.embedder, self.photos, numbered)
        self.report.figures += [
            of_share(
                f"{key}/r@{k}",
                f"R@{k} {title}",
                recall(ranked, k, self.options),
                n=len(captions),
                n_of="captions",
                signature=self.signature,
                note=f"{len(ranked.photos):,} photos have captions, {ranked.n_photos:,} are ranked",
            )
            for k in KS
        ]
        return ranked

    def compared(self, key: str, title: str, ranked: Ranked, english: Ranked) -> None:
        """The share of English R@5 that another language reaches on the photos that both have."""
        both = np.intersect1d(ranked.photos, english.photos)
        share = ratio_of_shares(ranked.of(both).counts(5), english.of(both).counts(5), self.options)
        title = f"share of English R@5, {title}"
        about = {"n": len(both), "n_of": "photos", "signature": self.signature}
        self.report.figures.append(of_share(f"{key}/share_of_english_r@5", title, share, **about))


def measure_retrieval(
    report: Report, embedder: Embedder, data: Path, photos: Path, packages: Path | None, options: TaskOptions
) -> None:
    """Add R@1, R@5 and R@10 of every language to a report.

    Each language is compared with English on the same photos: with Flickr8k's own captions where the other
    language has several of each photo, with Multi30k's English sentence where it has a translation of that.
    """
    key = "retrieval/flickr8k_test"
    with report.noting(key, "1,000 test photos"):
        files = flickr8k_test_photos(data / "flickr8k", photos / "flickr8k")
        search = _Search(report, embedder, files, options)
        _search_packaged(search, key, data / "flickr8k", packages)
        _search_translated(search, key, data / "multi30k")


def _search_packaged(search: _Search, key: str, flickr8k: Path, packages: Path | None) -> None:
    english, title = None, f"en, {len(search.index):,} test photos"
    with search.report.noting(f"{key}/en", title):
        captions = [(photo, text) for photo, text in flickr8k_captions(flickr8k) if photo in search.index]
        english = search.measured(f"{key}/en", title, captions)
    for code, title in _TITLES.items():
        with search.report.noting(f"{key}/{code}", title):
            ranked = search.measured(f"{key}/{code}", title, packaged(packages, code, search.index))
            if english is not None:
                search.compared(f"{key}/{code}", title, ranked, english)


def _search_translated(search: _Search, key: str, multi30k: Path) -> None:
    originals: dict[frozenset[str], Ranked] = {}
    for language in TRANSLATED:
        with search.report.noting(f"{key}/{language}", f"{language}, Multi30k"):
            captions = translated(multi30k, language, search.index)
            shared = frozenset(photo for photo, _ in captions)
            if captions and shared not in originals:
                title = f"en, Multi30k, {len(shared):,} photos"
                same = translated(multi30k, "en", shared)
                originals[shared] = search.measured(f"{key}/en_of_{language}", title, same)
            title = f"{language}, Multi30k, {len(shared):,} photos"
            ranked = search.measured(f"{key}/{language}", title, captions)
            search.compared(f"{key}/{language}", title, ranked, originals[shared])
