"""Measures how well a backbone matches captions with photos: text → image retrieval on a folder of photos.

    python -m benchmarks.studies.retrieval --images Flickr8k/images --captions Flickr8k.token.txt

In: photos, and captions as Flickr8k's token file (`photo.jpg#0<TAB>caption`) or as JSON
`{photo: {language: [captions]}}`. Out: R@1, R@5, R@10 in percent per language, beside chance. A caption ranks
the photos that are in the folder; the others' captions are left out. Ties count against the caption.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

import capscore
from capscore.benchmark.data.annotation_files import AnnotationSource
from capscore.benchmark.data.flickr8k_captions import token_captions
from capscore.embedding.embedder import Embedder


def read_captions(path: Path) -> dict[str, dict[str, list[str]]]:
    """{language: {photo: [captions]}}."""
    captions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    if path.suffix == ".json":
        for photo, by_language in json.loads(path.read_text(encoding="utf-8")).items():
            for language, texts in by_language.items():
                if isinstance(texts, list):  # such files also name the split of a photo
                    captions[language][photo].extend(texts)
    else:
        for _, _, photo, caption in token_captions(AnnotationSource(path)):
            captions["en"][photo].append(caption)
    return captions


def recall(cosines: np.ndarray, own: np.ndarray, ks: tuple[int, ...] = (1, 5, 10)) -> list[float]:
    """Cosines (texts, images) and each text's own image → share of texts, in percent, per k.

    >>> recall(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]), ks=(1, 2))
    [50.0, 100.0]
    """
    right = cosines[np.arange(len(own)), own]
    rank = (cosines >= right[:, None]).sum(axis=1)
    return [float(100 * (rank <= k).mean()) for k in ks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, required=True, help="folder of photos")
    parser.add_argument("--captions", type=Path, required=True, help="Flickr8k token file, or JSON")
    parser.add_argument("--backbone", default="embedded")
    arguments = parser.parse_args()

    photos = sorted(path for path in arguments.images.iterdir() if path.is_file())
    place = {path.name: row for row, path in enumerate(photos)}
    embedder = Embedder(capscore.load_backbone(arguments.backbone))
    images = embedder.images(photos)
    print(f"{len(photos)} photos, backbone {embedder.backbone.name}@{embedder.backbone.revision}")
    print(f"{'language':9}{'captions':>9}{'R@1':>7}{'R@5':>7}{'R@10':>7}   {'chance':>15}")
    for language, by_photo in read_captions(arguments.captions).items():
        pairs = [(text, place[name]) for name, texts in by_photo.items() if name in place for text in texts]
        if not pairs:
            continue
        texts, own = zip(*pairs, strict=True)
        rows = embedder.texts(texts, prefix=embedder.backbone.prefix)
        candidates = np.unique(own)  # only photos with a caption in this language
        cosines = rows.matrix[rows.index] @ images.matrix[images.index[candidates]].T
        percent = recall(cosines, np.searchsorted(candidates, own))
        chance = " / ".join(f"{100 * k / len(candidates):.0f}" for k in (1, 5, 10))
        print(
            f"{language:9}{len(pairs):9}" + "".join(f"{value:7.1f}" for value in percent) + f"   {chance:>15}"
        )


if __name__ == "__main__":
    main()
