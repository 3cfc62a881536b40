"""Measures how well a backbone sees: search in several languages, and agreement with people.

    python -m weights.measuring.image_tower --data DATA --photos PHOTOS --sources SOURCES \
        --output figures.json --markdown figures.md

In: the official files (folders flickr8k, multi30k, pascal50s, composite, vicr), photos (folders flickr8k,
voc_animals, coco_val2014), sources with Flickr8k's captions in Chinese and Arabic as `weights.making.sources`
fetches them, and any number of backbones. Out: R@k among Flickr8k's test photos, and what `capscore
benchmark` says of the rows whose photos are there, with 95 % bootstrap intervals over photos. What cannot be
measured is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import capscore
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.benchmarks.protocols.recall import COSINE_TIE
from capscore.benchmarks.protocols.results import estimates
from capscore.benchmarks.results import BenchmarkRun
from capscore.benchmarks.tasks import task_of
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.metrics.mcs import MCS
from capscore.metrics.rows import format_signature
from capscore.options import Sampling
from capscore.registry import METRICS
from capscore.tables import Report, Table, fixed
from weights.making.jsonl import beside
from weights.making.package_texts import source_texts
from weights.making.settings import command
from weights.making.sources import SOURCES

from .figures import FILES, MaybePath, noting, write_results
from .held_out import translated

KS = (1, 5, 10)
BACKBONES = ("embedded", "embedded-free")
_STATED = beside(__file__, "image_tower.yaml")
RATED: Sequence[Mapping[str, Any]] = _STATED["rated"]
PACKAGED: Mapping[str, str] = _STATED["packaged"]
MACHINES = ", captions of machines alone"  # of Composite, a third of whose captions are people's

Captions = list[tuple[str, str]]  # (photo's name, caption)
Figure = tuple[float | None, float | None, float | None]  # in percent: value, ends of its interval


def ranks(texts: np.ndarray, photos: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Rank of each caption's own photo, from 1; a photo that ties with it comes before it.

    Texts (q, d) and photos (n, d) are rows of unit length; `own` (q,) are the numbers of the captions'
    photos. Cosines at most 10⁻⁶ apart are tied, as in `capscore benchmark`.
    """
    cosines = texts @ photos.T
    right = cosines[np.arange(len(own)), own]
    return (cosines >= right[:, None] - COSINE_TIE).sum(axis=1)


def ratio(columns: Sequence[np.ndarray], sampling: Sampling = Sampling()) -> Figure:
    """Of columns a and b, one number per photo, Σa / Σb; of a, b, c and d, (Σa / Σb) / (Σc / Σd).

    The interval is that of a bootstrap that draws photos; None where there is none.
    """
    matrix = np.stack(columns).astype(float)

    def ratios(drawn: np.ndarray) -> np.ndarray:
        shares = matrix @ drawn
        while len(shares) > 1:
            over, under = shares[::2], shares[1::2]
            shares = np.divide(over, under, out=np.full(over.shape, np.nan), where=under != 0)
        return 100 * shares

    size = dict.fromkeys(("n_units", "n_rows"), matrix.shape[1])
    found, _ = estimates(ratios, ["ratio"], unit="photo", sampling=sampling, **size)
    value, interval = found["ratio"]
    return (value, *(interval or (None, None)))


def languages(
    data: Path, sources: Path, photos: Collection[str]
) -> Iterator[tuple[str, Callable[[], Captions], str]]:
    """What is searched for, its captions, and the English ones that it is compared with."""

    def english() -> Captions:
        lines = token_captions(AnnotationSource(data / "flickr8k" / "Flickr8k.token.txt"))
        return [(line.photo, line.text) for line in lines if line.photo in photos]

    yield "en", english, ""
    for code, name in PACKAGED.items():
        yield code, partial(packaged, sources, name, photos), "en"
    for language in ("en", "de", "fr", "cs"):
        read = partial(translated, data, "multi30k", language, photos)
        yield f"{language}, Multi30k", read, "en, Multi30k"


def packaged(sources: Path, name: str, photos: Collection[str]) -> Captions:
    """The captions of some photos in a source of texts, whose ids name the photo."""
    found = []
    for row in source_texts(SOURCES[name], sources):
        photo = row["id"].removeprefix(f"{name}/").partition("#")[0]
        if photo in photos:
            found.append((photo, row["text"]))
    return found


def search(
    embedder: Embedder, data: Path, photos: Path, sources: Path, missing: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """Language → R@k among Flickr8k's test photos, and the share of English R@5 on photos that both have."""
    names = listed_photos(AnnotationSource(data / "flickr8k" / "Flickr_8k.testImages.txt"))
    images = embedder.images([photos / "flickr8k" / name for name in names])
    index = {name: number for number, name in enumerate(names)}
    found: dict[str, dict[str, Any]] = {}
    hits: dict[str, np.ndarray] = {}  # (4, photos): captions that find them among the first k, and all
    for code, read, english in languages(data, sources, index):
        with noting(missing, f"text → image, {embedder.backbone.name}, {code}"):
            captions = read()
            if not captions:
                raise InputError("no photo has a caption in this language")
            own = np.array([index[photo] for photo, _ in captions])
            texts = embedder.texts([text for _, text in captions], prefix=embedder.backbone.prefix)
            rank = ranks(texts.matrix[texts.index], images.matrix[images.index], own)
            counts = np.stack([np.bincount(own, rank <= k, len(names)) for k in (*KS, len(names))])
            shown = counts[-1] > 0
            found[code] = {"captions": len(captions), "photos": int(shown.sum())}
            for k, count in zip(KS, counts, strict=False):
                found[code][f"r@{k}"] = ratio([count[shown], counts[-1][shown]])
            if english in hits:
                both = shown & (hits[english][-1] > 0)
                columns = [*counts[[1, -1]][:, both], *hits[english][[1, -1]][:, both]]
                found[code]["share of English r@5"] = ratio(columns)
            hits[code] = counts
    return found


def agreement(
    embedders: Mapping[str, Embedder], slug: str, metrics: Sequence[str], **options: Any
) -> Iterator[BenchmarkRun]:
    """What `capscore benchmark` says of every backbone, on rows whose photos are there."""
    named = {}
    for backbone, embedder in embedders.items():
        for metric in metrics:
            named[f"{metric}@{backbone}"] = partial(METRICS.get(metric), embedder)
    (run,) = capscore.benchmark(slug, named, partial=True, **options).runs
    yield run
    if slug == "composite":
        results = []
        for result in run.results:
            kept = [n for n, (_, row) in enumerate(result.rows) if row["system"] != "Human"]
            rows, scores = [result.rows[n] for n in kept], result.scores[kept]
            outcome = task_of(slug, run.config).outcome(rows, scores, run.options)
            results.append(replace(result, outcome=outcome, n_rows=len(kept), published={}))
        yield replace(run, config=f"{run.config}{MACHINES}", results=results, skipped={})


def search_table(measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Table:
    """measured: backbone → language → its figures, as `search` gives them."""
    names = [*(f"r@{k}" for k in KS), "share of English r@5"]
    rows = []
    for backbone, found in measured.items():
        for code, own in found.items():
            cells = [_cell(*own.get(name, (None, None, None))) for name in names]
            rows.append([code, backbone, f"{own['captions']:,}", f"{own['photos']:,}", *cells])
    headings = ["language", "backbone", "captions", "photos", *names]
    return Table(headings, rows, "Text → image among Flickr8k's test photos, in percent", 2)


def _cell(value: float | None, low: float | None, high: float | None) -> str:
    """The value and its interval.

    >>> _cell(40.13, 38.7, 41.54)
    '40.1 [38.7–41.5]'
    """
    return fixed(value, 1, "") + ("" if low is None else f" [{fixed(low, 1)}–{fixed(high, 1)}]")


@command(
    data="folder of the official files",
    photos="folder of the photos",
    sources="folder of weights.making.sources",
    backbone=f"name or folder; repeatable; default: {', '.join(BACKBONES)}",
    **FILES,
)
def main(data: Path, photos: Path, sources: Path, backbone: list[str] | None, **files: MaybePath) -> None:
    embedders = {}
    for name in backbone or BACKBONES:
        embedders[name] = Embedder(capscore.load_backbone(name), cache=resolve_cache(None))
    missing: dict[str, str] = {}
    searched, runs = {}, []
    for name, embedder in embedders.items():
        with noting(missing, f"text → image, {name}"):
            searched[name] = search(embedder, data, photos, sources, missing)
    for stated in RATED:
        with noting(missing, f"{stated['slug']}, {stated['config']}"):
            folders = {"data_dir": data / stated["data_dir"], "images": photos / stated["images"]}
            runs += agreement(embedders, **{**stated, **folders})
    numbers = {
        "capscore": capscore.__version__,
        "signatures": {name: format_signature("mcs", MCS(each).settings) for name, each in embedders.items()},
        "search": searched,
        "runs": [run.to_dict() for run in runs],
        "missing": missing,
    }
    parts: list[Table | Report] = [search_table(searched), *(run.report() for run in runs)]
    write_results(files, numbers, parts, missing)


if __name__ == "__main__":
    main()
