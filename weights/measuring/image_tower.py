"""Measures how well a backbone sees: search in several languages, and agreement with people.

    python -m weights.measuring.image_tower --data DATA --photos PHOTOS --sources SOURCES \
        --output figures.json --markdown figures.md

In: the official files (folders flickr8k, multi30k, xflickrco, pascal50s, composite, vicr), photos (folders
flickr8k, voc_animals, coco_val2014), sources with Flickr8k's captions in Chinese and Arabic as
`weights.making.sources` fetches them, and any number of backbones. Out: every number with its 95 % bootstrap
interval over photos, as tables in Markdown and as JSON. What cannot be measured is listed with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import capscore
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.benchmarks.protocols.recall import COSINE_TIE
from capscore.benchmarks.tasks import TaskOptions, task_of
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.metrics.mcs import MCS
from capscore.metrics.rows import format_signature
from capscore.registry import METRICS
from capscore.tables import Report, Table, fixed
from training.engine.config import main as run_as_command
from weights.making.jsonl import beside
from weights.making.package_texts import source_texts
from weights.making.sources import source_named

from .figures import Figure, noting, ratio, study_parser, write_results
from .held_out import translated

KS = (1, 5, 10)
BACKBONES = ("embedded", "embedded-free")
_STATED = beside(__file__, "image_tower.yaml")
GROUPS: Mapping[str, str] = _STATED["groups"]
LABELS: Mapping[str, str] = _STATED["labels"]
PACKAGED: Mapping[str, Sequence[str]] = _STATED["packaged"]
# Languages of Multi30k's translations.
TRANSLATED = ("de", "fr", "cs")
_RETRIEVAL = "retrieval/flickr8k_test"
# Captions whose cosines with all photos are in memory at once.
_CAPTIONS = 1024

Captions = list[tuple[str, str]]  # (photo's name, caption)
Counts = dict[Any, np.ndarray]  # of each photo: k → captions that find it among the first k; "all" → captions


class RatedSet(NamedTuple):
    """A benchmark, and what is measured on it; `home` and `photos` are folders of files and of photos."""

    slug: str
    config: str
    home: str
    # meaning of several ratings per caption, as in `TaskOptions` → statistic → its name in the table
    statistics: Mapping[str, Mapping[str, str]]
    photos: str = "flickr8k"
    metrics: Sequence[str] = tuple(LABELS)
    split: str | None = None
    human: str = ""  # what the column `system` calls people, whose captions a further figure leaves out


RATED = {group: RatedSet(**stated) for group, stated in _STATED["rated"].items()}


def measure(
    embedder: Embedder, data: Path, photos: Path, sources: Path | None, options: TaskOptions
) -> list[Figure]:
    """Measure a backbone; what a folder that is None would serve is not measured."""
    figures: list[Figure] = []
    with noting(figures, _RETRIEVAL, "1,000 test photos"):
        search = Search(embedder, data, photos, options, figures)
        search.packaged(search.english(), sources)
        search.translated(data / "multi30k")
    for group in RATED:
        measure_ratings(figures, embedder, group, data, photos, options)
    return figures


def ranks(texts: np.ndarray, photos: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Rank of each caption's own photo, from 1; a photo that ties with it comes before it.

    Texts (q, d) and photos (n, d) are rows of unit length; `own` (q,) are the numbers of the captions'
    photos. Cosines at most 10⁻⁶ apart are tied, as in `capscore benchmark`.
    """
    rank = np.empty(len(texts), dtype=np.int64)
    for start in range(0, len(texts), _CAPTIONS):
        part = slice(start, start + _CAPTIONS)
        cosines = texts[part] @ photos.T
        right = cosines[np.arange(len(cosines)), own[part]]
        rank[part] = (cosines >= right[:, None] - COSINE_TIE).sum(axis=1)
    return rank


class Search:
    """A backbone's search among Flickr8k's test photos; what is measured goes into `figures`."""

    def __init__(
        self, embedder: Embedder, data: Path, photos: Path, options: TaskOptions, figures: list[Figure]
    ):
        self.embedder, self.options, self.figures = embedder, options, figures
        self.flickr8k = data / "flickr8k"
        names = listed_photos(AnnotationSource(self.flickr8k / "Flickr_8k.testImages.txt"))
        files = [photos / "flickr8k" / name for name in names]
        if gone := [file for file in files if not file.is_file()]:
            raise InputError(f"{len(gone):,} of {len(files):,} test photos are missing, such as {gone[0]}")
        # as in `capscore benchmark`, whose retrieval compares cosines too
        self.signature = format_signature("mcs", MCS(embedder).settings)
        self.index = {path.name: index for index, path in enumerate(files)}
        rows = embedder.images(files)
        self.photos = rows.matrix[rows.index]

    def english(self) -> Counts | None:
        title = f"en, {len(self.index):,} test photos"
        with noting(self.figures, f"{_RETRIEVAL}/en", title):
            lines = token_captions(AnnotationSource(self.flickr8k / "Flickr8k.token.txt"))
            captions = [(line.photo, line.text) for line in lines if line.photo in self.index]
            return self._measured("en", title, captions)
        return None

    def packaged(self, english: Counts | None, sources: Path | None) -> None:
        """Search in languages that have several captions of each photo, compared with English."""
        for code, (_, title) in PACKAGED.items():
            with noting(self.figures, f"{_RETRIEVAL}/{code}", title):
                counts = self._measured(code, title, packaged(sources, code, self.index))
                if english is not None:
                    self._compared(code, title, counts, english)

    def translated(self, multi30k: Path) -> None:
        """Search for translations of Multi30k's English sentences, compared with these on the same photos."""
        originals: dict[frozenset[str], Counts] = {}
        for language in TRANSLATED:
            with noting(self.figures, f"{_RETRIEVAL}/{language}", f"{language}, Multi30k"):
                captions = translated(multi30k, "multi30k", language, self.index)
                shared = frozenset(photo for photo, _ in captions)
                title = f"Multi30k, {len(shared):,} photos"
                if captions and shared not in originals:
                    same = translated(multi30k, "multi30k", "en", shared)
                    originals[shared] = self._measured(f"en_of_{language}", f"en, {title}", same)
                counts = self._measured(language, f"{language}, {title}", captions)
                self._compared(language, f"{language}, {title}", counts, originals[shared])

    def _measured(self, code: str, title: str, captions: Captions) -> Counts:
        """R@k of some captions, each with the name of one of the photos."""
        if not captions:
            raise InputError("no photo has a caption in this language")
        own = np.array([self.index[photo] for photo, _ in captions])
        rows = self.embedder.texts([text for _, text in captions], prefix=self.embedder.backbone.prefix)
        rank = ranks(rows.matrix[rows.index], self.photos, own)
        counts: Counts = {k: np.bincount(own, rank <= k, len(self.photos)) for k in KS}
        counts["all"] = np.bincount(own, minlength=len(self.photos))
        shown = counts["all"] > 0
        note = f"{shown.sum():,} photos have captions, {len(shown):,} are ranked"
        for k in KS:
            share = ratio([counts[k][shown], counts["all"][shown]], self.options)
            key, name = f"{_RETRIEVAL}/{code}/r@{k}", f"R@{k} {title}"
            self.figures.append(Figure(key, name, *share, len(captions), self.signature, note))
        return counts

    def _compared(self, code: str, title: str, counts: Counts, english: Counts) -> None:
        """The share of English R@5 that another language reaches on the photos that both have."""
        both = (counts["all"] > 0) & (english["all"] > 0)
        share = ratio([each[k][both] for each in (counts, english) for k in (5, "all")], self.options)
        key, name = f"{_RETRIEVAL}/{code}/share_of_english_r@5", f"share of English R@5, {title}"
        self.figures.append(Figure(key, name, *share, int(both.sum()), self.signature))


def packaged(sources: Path | None, code: str, photos: Collection[str]) -> Captions:
    """The captions of some photos in one of the sources of `PACKAGED`."""
    name, _ = PACKAGED[code]
    if sources is None:
        raise InputError(f"{name}: no folder of sources is given; name it with --sources")
    return [
        (photo, row["text"])
        for row in source_texts(source_named(name), sources)
        if (photo := row["id"].removeprefix(f"{name}/").partition("#")[0]) in photos
    ]


def measure_ratings(
    figures: list[Figure], embedder: Embedder, group: str, data: Path, photos: Path, options: TaskOptions
) -> None:
    """Agreement on one of `RATED`, on the rows whose photos are there."""
    rated = RATED[group]
    for metric in rated.metrics:
        for raters, titles in rated.statistics.items():
            all_titles = f"{LABELS[metric]} {', '.join(titles.values())}"
            with noting(figures, f"{group}/{metric}/{raters}", all_titles):
                found = capscore.benchmark(
                    rated.slug,
                    {metric: METRICS.get(metric)(embedder)},
                    config=rated.config or (),
                    data_dir=data / rated.home,
                    split=rated.split,
                    images=photos / rated.photos,
                    **vars(dataclasses.replace(options, raters=raters, partial=True)),
                )
                (run,) = found.runs
                (result,) = run.results
                notes = [f"{result.n_rows:,} of {run.n_rows:,} rows"] if result.n_rows < run.n_rows else []
                end = "/mean_ratings" if raters == "mean" else ""
                outcomes = {("", ""): result.outcome}
                if rated.human and result.scores is not None:
                    kept = [n for n, (_, row) in enumerate(result.rows) if row["system"] != rated.human]
                    outcomes["/machines", ", captions of machines alone"] = task_of(
                        rated.slug, rated.config
                    ).outcome([result.rows[n] for n in kept], result.scores[kept], options)
                figures += [
                    Figure(
                        f"{group}/{metric}/{name}{end}{part}",
                        f"{LABELS[metric]} {titles[name]}{said}",
                        None if value is None else 100 * value,
                        None if ends is None else (100 * ends[0], 100 * ends[1]),
                        n,
                        result.signature,
                        "; ".join([*notes, *outcome.notes]),
                    )
                    for (part, said), outcome in outcomes.items()
                    for name, value, ends, n in outcome.statistics
                    if name in titles
                ]


def markdown(measured: Mapping[str, Sequence[Figure]]) -> str:
    """One table per group; measured: name of each backbone → its figures."""
    by_key = [{figure.key: figure for figure in figures} for figures in measured.values()]
    keys = dict.fromkeys(figure.key for figures in measured.values() for figure in figures)
    parts: list[Table | str] = []
    for group, heading in GROUPS.items():
        rows = []
        for key in (key for key in keys if key.partition("/")[0] == group):
            cells = [figures.get(key) for figures in by_key]
            known = [figure for figure in cells if figure is not None]
            rows.append([known[0].title, f"{max(f.n for f in known):,}", *map(_cell, cells)])
        if rows:
            parts.append(Table(["measure", "n", *(f"`{name}`" for name in measured)], rows, heading))
    parts.append(
        "τ, ρ, R@k and accuracies are times 100. In brackets: 95 % bootstrap intervals, which draw photos "
        "with all their captions; in retrieval the ranked photos stay the same."
    )
    for name, figures in measured.items():
        parts += [f"{name}, {f.title}: not measured: {f.missing}" for f in figures if f.missing]
    return Report("", parts).markdown()


def _cell(figure: Figure | None) -> str:
    """The value and its interval.

    >>> _cell(Figure("expert/mcs/tau_c", "MCS", 40.13, (38.7, 41.54)))
    '40.1 [38.7–41.5]'
    """
    if figure is None or figure.value is None:
        return "–"
    ends = "" if figure.interval is None else f" [{'–'.join(fixed(end, 1) for end in figure.interval)}]"
    return f"{fixed(figure.value, 1)}{ends}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = study_parser("image_tower", __doc__)
    parser.add_argument("--photos", type=Path, required=True, help="folder of the photos")
    parser.add_argument("--sources", type=Path, help="folder of weights.making.sources")
    parser.add_argument(
        "--backbone", action="append", help=f"name or folder; repeatable (default: {', '.join(BACKBONES)})"
    )
    given = parser.parse_args(argv)
    cache, folders = resolve_cache(None), (given.data, given.photos, given.sources)
    measured: dict[str, list[Figure]] = {}
    reports = []
    for name in given.backbone or BACKBONES:
        backbone = capscore.load_backbone(name)
        measured[name] = measure(Embedder(backbone, cache=cache), *folders, TaskOptions())
        about = {"revision": backbone.revision, "fingerprint": backbone.fingerprint}
        reports.append({"name": name, "backbone": about, "measures": [*map(asdict, measured[name])]})
    write_results(given, {"capscore": capscore.__version__, "backbones": reports}, markdown(measured))


if __name__ == "__main__":
    run_as_command(main)
