"""Measures how well a backbone matches captions with photos: text → image retrieval on a folder of photos.

    python -m weights.measuring.retrieval --images Flickr8k/images --captions captions.json

In: photos, and captions as JSON, `{photo: {language: [captions]}}`. Out: R@1, R@5, R@10 in percent per
language, each with its 95 % interval, beside chance. A caption ranks the photos that are in the folder; the
others' captions are left out. Ties count against the caption.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import capscore
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.benchmarks.protocols.recall import COSINE_TIE
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from training.engine.config import main as run_as_command

from .figures import Share, share_of_sums, table

KS = (1, 5, 10)
# captions whose cosines with all photos are in memory at once
_CAPTIONS = 1024


@dataclass(frozen=True, eq=False)
class Ranked:
    """Rank of each caption's own photo among `n_photos`, from 1, and that photo's number, int64 (q,) each."""

    rank: np.ndarray
    own: np.ndarray
    n_photos: int

    @property
    def photos(self) -> np.ndarray:
        """Numbers of the photos that have a caption, ascending."""
        return np.unique(self.own)

    def of(self, photos: np.ndarray) -> Ranked:
        """The captions of some photos alone, ranked as before; photos: their numbers."""
        kept = np.isin(self.own, photos)
        return Ranked(self.rank[kept], self.own[kept], self.n_photos)

    def counts(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Of each of `photos`, float64: captions that find it among the first k, and all its captions."""
        _, unit = np.unique(self.own, return_inverse=True)
        return np.bincount(unit, weights=self.rank <= k), np.bincount(unit).astype(float)


def flickr8k_captions(flickr8k: Path) -> list[tuple[str, str]]:
    """(photo, caption) of every line of Flickr8k.token.txt."""
    return [
        (line.photo, line.text) for line in token_captions(AnnotationSource(flickr8k / "Flickr8k.token.txt"))
    ]


def flickr8k_test_photos(flickr8k: Path, photos: Path) -> list[Path]:
    """The files of Flickr8k's test photos, in the order of their list; errors as in `available`."""
    names = listed_photos(AnnotationSource(flickr8k / "Flickr_8k.testImages.txt"))
    return available([photos / name for name in names], "test photos")


def available(files: list[Path], what: str) -> list[Path]:
    """The files; raises InputError if one is missing, says how many are, and names one."""
    gone = [file for file in files if not file.is_file()]
    if gone:
        raise InputError(f"{len(set(gone)):,} of {len(set(files)):,} {what} are missing, such as {gone[0]}")
    return files


def read_captions(path: Path) -> dict[str, dict[str, list[str]]]:
    """{photo: {language: [captions]}} in JSON → {language: {photo: [captions]}}."""
    captions: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for photo, by_language in json.loads(path.read_text(encoding="utf-8")).items():
        for language, texts in by_language.items():
            if isinstance(texts, list):  # such files also name the split of a photo
                captions[language][photo] = texts
    return captions


def ranks(texts: np.ndarray, photos: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Rank of each caption's own photo, from 1; a photo that ties with it comes before it.

    Texts (q, d) and photos (n, d) are rows of unit length; `own` (q,) are the numbers of the captions'
    photos. Cosines at most 10⁻⁶ apart are tied, as in `capscore benchmark`.

    >>> texts, photos = np.array([[1.0, 0.0], [0.8, 0.6]]), np.eye(2)
    >>> ranks(texts, photos, np.array([0, 1])).tolist()
    [1, 2]
    """
    rank = np.empty(len(texts), dtype=np.int64)
    for start in range(0, len(texts), _CAPTIONS):
        part = slice(start, start + _CAPTIONS)
        cosines = texts[part] @ photos.T
        right = cosines[np.arange(len(cosines)), own[part]]
        rank[part] = (cosines >= right[:, None] - COSINE_TIE).sum(axis=1)
    return rank


def embedded_photos(embedder: Embedder, files: Sequence[Path]) -> np.ndarray:
    """Embeddings of photos, float32 (n, d), rows of unit length."""
    rows = embedder.images(files)
    return rows.matrix[rows.index]


def rank_photos(embedder: Embedder, photos: np.ndarray, captions: Sequence[tuple[int, str]]) -> Ranked:
    """Rank embedded photos (n, d) for captions, each with the number of its photo; at least one caption."""
    own = np.array([photo for photo, _ in captions])
    rows = embedder.texts([text for _, text in captions], prefix=embedder.backbone.prefix)
    return Ranked(ranks(rows.matrix[rows.index], photos, own), own, len(photos))


def recall(ranked: Ranked, k: int, options: TaskOptions) -> Share:
    """Share of the captions that find their photo among the first k; the bootstrap draws captioned photos."""
    return share_of_sums(*ranked.counts(k), options)


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, required=True, help="folder of photos")
    parser.add_argument("--captions", type=Path, required=True, help="JSON")
    parser.add_argument("--backbone", default="embedded")
    options = parser.parse_args(argv)

    photos = sorted(path for path in options.images.iterdir() if path.is_file())
    embedder = Embedder(capscore.load_backbone(options.backbone))
    print(f"{len(photos)} photos, backbone {embedder.backbone.name}@{embedder.backbone.revision}")
    images, rows = embedded_photos(embedder, photos), []
    for language, by_photo in read_captions(options.captions).items():
        # only photos with a caption in this language are ranked
        there = [index for index, photo in enumerate(photos) if by_photo.get(photo.name)]
        captions = [
            (place, text) for place, index in enumerate(there) for text in by_photo[photos[index].name]
        ]
        if captions:
            ranked = rank_photos(embedder, images[there], captions)
            recalls = [recall(ranked, k, TaskOptions()).in_percent for k in KS]
            chance = " / ".join(f"{100 * k / len(there):.0f}" for k in KS)
            rows.append([language, str(len(captions)), *recalls, chance])
    print(table(["language", "captions", *(f"R@{k}" for k in KS), "chance"], rows, 1))


if __name__ == "__main__":
    run_as_command(main)
