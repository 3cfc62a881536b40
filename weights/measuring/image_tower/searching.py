"""Text → image retrieval in several languages among Flickr8k's test photos → figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import EmbeddedRows, Embedder
from capscore.errors import InputError
from capscore.metrics.mcs import MCS
from capscore.metrics.signature import format_signature

from ..intervals import ratio_of_shares
from ..retrieval import KS, Ranked, rank_photos, recall
from .captions import (
    PACKAGED,
    SEVERAL,
    TRANSLATED,
    Captions,
    english,
    in_several_languages,
    language_of,
    packaged,
    test_photos,
    translated,
)
from .figures import Report, of_share

SETS = {
    "zh": "Flickr8k-CN",
    "zh_translated": "Flickr8k-CN, translated",
    "ar": "Arabic Flickr8k",
    **dict.fromkeys(TRANSLATED, "Multi30k"),
}


def measure_retrieval(
    report: Report,
    embedder: Embedder,
    data: Path,
    photos: Path,
    packages: Path | None,
    options: TaskOptions,
) -> None:
    """Add R@1, R@5 and R@10 of every language to a report.

    Each language is compared with English on the same photos: with Flickr8k's own captions where the other
    language has several of each photo, with Multi30k's English sentence where it has a translation of that.
    """
    search = _Search(report, embedder, options)
    among = "1,000 test photos"
    key = "retrieval/flickr8k_test"
    with report.noting(key, among):
        files = test_photos(data / "flickr8k", photos / "flickr8k")
        among = f"{len(files):,} test photos"
        names = [path.name for path in files]
        search.over(files)
        english_ranks = None
        with report.noting(f"{key}/en", f"en, {among}"):
            english_ranks = search.measured(f"{key}/en", f"en, {among}", english(data / "flickr8k", names))
        for own in PACKAGED:
            title = f"{language_of(own)}, {SETS[own]}"
            with report.noting(f"{key}/{own}", title):
                found = search.measured(f"{key}/{own}", title, packaged(packages, own, names))
                if english_ranks is not None:
                    search.compared(f"{key}/{own}", title, found, english_ranks)
        originals: dict[frozenset[str], Ranked] = {}
        for language in TRANSLATED:
            title = f"{language}, {SETS[language]}"
            with report.noting(f"{key}/{language}", title):
                captions = translated(data / "multi30k", language, names)
                shared = frozenset(photo for photo, _ in captions)
                if shared not in originals:
                    beside = f"en, {SETS[language]}, {len(shared):,} photos"
                    same = translated(data / "multi30k", "en", shared)
                    originals[shared] = search.measured(f"{key}/en_of_{language}", beside, same)
                title = f"{title}, {len(shared):,} photos"
                found = search.measured(f"{key}/{language}", title, captions)
                search.compared(f"{key}/{language}", title, found, originals[shared])

    key = "retrieval/flickr8k_several"
    with report.noting(key, "photos with captions in several languages"):
        files, by_language = in_several_languages(data / "flickr8k")
        search.over(files)
        for language in SEVERAL:
            title = f"{language}, {len(files)} photos"
            with report.noting(f"{key}/{language}", title):
                search.measured(f"{key}/{language}", title, by_language.get(language, []))


class _Search:
    """One backbone's search among some photos; its figures go into a report."""

    def __init__(self, report: Report, embedder: Embedder, options: TaskOptions):
        self.report, self.embedder, self.options = report, embedder, options
        # as in `capscore benchmark`, whose retrieval compares cosines too
        self.signature = format_signature("mcs", MCS(embedder).settings)
        self.place: dict[str, int] = {}
        self.images: EmbeddedRows

    def over(self, files: list[Path]) -> None:
        """Search among these photos from now on."""
        self.place = {path.name: row for row, path in enumerate(files)}
        self.images = self.embedder.images(files)

    def measured(self, key: str, title: str, captions: Captions) -> Ranked:
        """R@k of some captions, each with the name of one of the photos; one caption or more."""
        if not captions:
            raise InputError("no photo has a caption in this language")
        ranked = rank_photos(
            self.embedder, self.images, [(self.place[photo], text) for photo, text in captions]
        )
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

    def compared(self, key: str, title: str, found: Ranked, english_ranks: Ranked) -> None:
        """The share of English R@5 that another language reaches on the photos that both have."""
        both = np.intersect1d(found.photos, english_ranks.photos)
        share = ratio_of_shares(found.of(both).counts(5), english_ranks.of(both).counts(5), self.options)
        self.report.figures.append(
            of_share(
                f"{key}/share_of_english_r@5",
                f"share of English R@5, {title}",
                share,
                n=len(both),
                n_of="photos",
                signature=self.signature,
            )
        )
