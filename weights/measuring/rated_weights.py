"""Measures what fine-tuning on ratings does to a backbone, on photos that it did not learn from.

    python -m weights.measuring.rated_weights --data DATA --photos PHOTOS --packages PACKAGES \
        --base embedded --rated runs/rated --markdown rated.md --output rated.json

In: a backbone, the same one fine-tuned, the official files (folders flickr8k, composite, multi30k, vicr,
valse), photos (folders flickr8k, coco_val2014), and the package with Flickr8k's captions in Chinese. Out:
agreement with people, search and VALSE before and after, each with its 95 % bootstrap interval over photos,
and the difference with its own, as a table. Flickr8k's ratings and photos are those of the 300 photos that
`weights.making.rated_split` holds out; VICR's are on photos of COCO, which are never trained on.

Captions in other languages are translations by people of the rated captions themselves: Flickr8k-CN's of all,
Multi30k's of those that it has; the English captions of the latter stand beside them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import capscore
from capscore.backbones.base import Backbone
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.flickr8k_captions import token_captions
from capscore.benchmarks.data.load import benchmark_builder, load_benchmark
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.files.whole_file import write_text
from capscore.metrics.mcs import MCS
from capscore.statistics.agreement import agreement, compare
from training.engine.valse_check import valse_result
from weights.making.package_texts import MORE_SOURCES, source_texts
from weights.making.photo_names import photo_of
from weights.making.rated_rows import plain
from weights.making.rated_split import rated_split

from .intervals import share_of_sums
from .retrieval import Ranked, rank_photos, recall

CHINESE = "flickr8k-cn-test"
TRANSLATED = ("de", "fr")
KS = (1, 5)
SIGNS = {"tau_b": "τ_b", "tau_c": "τ_c", "spearman": "ρ"}


@dataclass(frozen=True)
class RatedCaptions:
    """Rated captions in one language.

    Attributes:
        title: Name in the table.
        images: Paths of the photos.
        captions: The captions.
        ratings: A number or a list of numbers each.
        language: Language of the captions.
        statistics: Statistics to measure.
        raters: Meaning of several ratings, as in `agreement`; None where each caption has one.
    """

    title: str
    images: list[Path]
    captions: list[str]
    ratings: list[Any]
    language: str
    statistics: tuple[str, ...]
    raters: str | None = None


@dataclass(frozen=True)
class Line:
    """A line of the table: a number before and after training, times 100, and the difference.

    Attributes:
        title: What is measured.
        n: Number of captions.
        before, after, difference: Each a value with the ends of its interval; None where there is none.
        missing: Why it is not measured; "" if it is.
    """

    title: str
    n: int = 0
    before: tuple[float, float, float] | None = None
    after: tuple[float, float, float] | None = None
    difference: tuple[float, float, float] | None = None
    missing: str = ""


class Translations:
    """English captions of Flickr8k → translations of them by people.

    Args:
        data: Folder of the official files.
        packages: Folder of packages; None for no Chinese.
    """

    def __init__(self, data: Path, packages: Path | None):
        source = AnnotationSource(data / "flickr8k" / "Flickr8k.token.txt")
        english = {line.caption_id: line.text for line in token_captions(source)}
        self.of: dict[str, dict[str, str]] = {"zh": {}, **{code: {} for code in TRANSLATED}}
        if packages is not None:
            package = next(source for source in MORE_SOURCES if source.name == CHINESE)
            for row in source_texts(package, packages, ["zh"]):
                photo, _, number = row["id"].removeprefix(f"{CHINESE}/").split("#")
                if text := english.get(f"{photo}#{number}"):
                    self.of["zh"][plain(text)] = row["text"]
        for language in TRANSLATED:
            here, there = (
                benchmark_builder("multi30k", code, data_dir=data / "multi30k", images=False)
                for code in ("en", language)
            )
            for split in here.splits():
                if split not in there.splits():
                    continue
                pairs = zip(here.checked_rows(split), there.checked_rows(split), strict=True)
                for (_, row), (_, other) in pairs:
                    for text, translated in zip(row["references"], other["references"], strict=True):
                        self.of[language][plain(text)] = translated

    def in_languages(self, rated: RatedCaptions) -> list[RatedCaptions]:
        """The captions as they are, and those that are translated, with their English beside Multi30k's."""
        found = [rated]
        for language, texts in self.of.items():
            there = [row for row, caption in enumerate(rated.captions) if plain(caption) in texts]
            if not there:
                continue
            if language == TRANSLATED[0]:
                found.append(_part(rated, there, f"{rated.title}, en of Multi30k's", rated.captions, "en"))
            translated = [texts.get(plain(caption), "") for caption in rated.captions]
            found.append(_part(rated, there, f"{rated.title}, {language}", translated, language))
        return found


def _part(
    rated: RatedCaptions, there: list[int], title: str, captions: Sequence[str], language: str
) -> RatedCaptions:
    return RatedCaptions(
        title,
        [rated.images[row] for row in there],
        [captions[row] for row in there],
        [rated.ratings[row] for row in there],
        language,
        rated.statistics,
        rated.raters,
    )


def flickr8k_ratings(data: Path, photos: Path, held_out: frozenset[int]) -> list[RatedCaptions]:
    """Expert, CF and Composite of the held-out photos.

    Raises:
        InputError: a photo is missing.
    """
    sets = (
        ("Flickr8k-Expert", "flickr8k_human", "expert", "flickr8k", ("tau_c", "tau_b"), "flatten"),
        ("Flickr8k-CF", "flickr8k_human", "crowdflower", "flickr8k", ("tau_b",), None),
        ("Composite, Flickr8k", "composite", "flickr8k", "composite", ("tau_c",), None),
    )
    found = []
    for title, slug, config, home, statistics, raters in sets:
        rows = [
            row
            for row in load_benchmark(slug, config, split="test", data_dir=data / home, images=False)
            if (photo := photo_of(row["image_id"])) is not None and photo.number in held_out
        ]
        names = _names_by_number(photos / "flickr8k")
        images = [photos / "flickr8k" / names.get(photo_of(row["image_id"]).number, "") for row in rows]
        found.append(
            RatedCaptions(
                title,
                _there(images, title),
                [row["caption"] for row in rows],
                [row["ratings"] if raters else row["rating"] for row in rows],
                "en",
                statistics,
                raters,
            )
        )
    return found


def vicr_ratings(data: Path, photos: Path) -> RatedCaptions:
    """VICR's public sample: the rows whose photos of COCO val2014 are there.

    Raises:
        InputError: none is.
    """
    folder, rows = photos / "coco_val2014", []
    for split in ("train", "validation", "test"):
        rows += load_benchmark("vicr", split=split, data_dir=data / "vicr", images=False)
    there = [row for row in rows if (folder / row["image_id"]).is_file()]
    if not there:
        raise InputError(f"none of VICR's photos is in {folder}")
    return RatedCaptions(
        f"VICR's sample, {len(there)} of {len(rows)} rows",
        [folder / row["image_id"] for row in there],
        [row["caption"] for row in there],
        [list(row["ratings"]) for row in there],
        "en",
        ("tau_b", "tau_c", "spearman"),
        "mean",
    )


def measure_ratings(rated: RatedCaptions, embedders: Sequence[Embedder], options: TaskOptions) -> list[Line]:
    """A line per statistic."""
    images = [str(image) for image in rated.images]
    scores = [
        MCS(embedder).score(rated.captions, images=images, language=rated.language).scores
        for embedder in embedders
    ]
    lines = []
    for statistic in rated.statistics:
        each = [
            agreement(
                own,
                rated.ratings,
                raters=rated.raters,
                images=images,
                bootstrap=options.bootstrap,
                seed=options.seed,
                statistics=statistic,
            )
            for own in scores
        ]
        apart = compare(
            scores[1],
            scores[0],
            rated.ratings,
            raters=rated.raters,
            images=images,
            statistic=statistic,
            n=options.bootstrap,
            seed=options.seed,
        )
        before, after = (_percent(one.values[statistic], one.intervals[statistic]) for one in each)
        lines.append(
            Line(
                f"{rated.title}, {SIGNS[statistic]}",
                len(rated.captions),
                before,
                after,
                _percent(apart.difference, apart.interval),
            )
        )
    return lines


def measure_search(
    data: Path,
    photos: Path,
    held_out: frozenset[int],
    texts: Translations,
    embedders: Sequence[Embedder],
    options: TaskOptions,
) -> list[Line]:
    """R@k of the held-out photos' captions among these photos, in each language."""
    source = AnnotationSource(data / "flickr8k" / "Flickr8k.token.txt")
    english = [
        (line.photo, line.text) for line in token_captions(source) if photo_of(line.photo).number in held_out
    ]
    names = sorted({photo for photo, _ in english})
    place = {name: number for number, name in enumerate(names)}
    files = _there([photos / "flickr8k" / name for name in names], "search")
    by_language = {"en": [(place[photo], text) for photo, text in english]}
    for code, known in texts.of.items():
        by_language[code] = [(place[photo], known[plain(t)]) for photo, t in english if plain(t) in known]
    lines = []
    for language, captions in by_language.items():
        if not captions:
            lines.append(Line(f"search, {language}", missing="no captions"))
            continue
        both = [rank_photos(own, own.images(files), captions) for own in embedders]
        for k in KS:
            shares = [_of_share(recall(ranked, k, options)) for ranked in both]
            apart = _of_share(share_of_sums(*_gained(both, k), options))
            lines.append(
                Line(f"search among {len(names)} photos, {language}, R@{k}", len(captions), *shares, apart)
            )
    return lines


def _gained(both: Sequence[Ranked], k: int) -> tuple[np.ndarray, np.ndarray]:
    (before, wholes), (after, _) = (ranked.counts(k) for ranked in both)
    return after - before, wholes


def measure_valse(data: Path, photos: Path, backbones: Sequence[Backbone]) -> list[Line]:
    """Accuracy on the foils whose photos are there; too few for an interval of their own."""
    both = [valse_result(backbone, data / "valse", photos / "coco_val2014") for backbone in backbones]
    lines = []
    for first, second in zip(*(result.outcome.statistics for result in both), strict=True):
        if first.value is None or second.value is None:
            continue
        values = [100 * one.value for one in (first, second)]
        apart = values[1] - values[0]
        lines.append(
            Line(
                f"VALSE, {first.name}, {both[0].n_rows} rows with photos",
                first.n,
                *((value, np.nan, np.nan) for value in values),
                (apart, np.nan, np.nan),
            )
        )
    return lines


def measure(
    base: Backbone, rated: Backbone, data: Path, photos: Path, packages: Path | None, options: TaskOptions
) -> list[Line]:
    """All lines of the table; what cannot be measured says why."""
    split = rated_split(data / "flickr8k")
    embedders = [Embedder(backbone, cache=resolve_cache(None)) for backbone in (base, rated)]
    texts = Translations(data, packages)
    lines: list[Line] = []

    def part(title: str, made: Callable[[], list[Line]]) -> None:
        try:
            lines.extend(made())
        except CapscoreError as error:
            lines.append(Line(title, missing=str(error).splitlines()[0]))

    for one in flickr8k_ratings(data, photos, split.held_out):
        for own in texts.in_languages(one) if not one.title.startswith("Composite") else [one]:
            part(own.title, lambda own=own: measure_ratings(own, embedders, options))
    part("VICR", lambda: measure_ratings(vicr_ratings(data, photos), embedders, options))
    part("search", lambda: measure_search(data, photos, split.held_out, texts, embedders, options))
    part("VALSE", lambda: measure_valse(data, photos, (base, rated)))
    return lines


def markdown(lines: Sequence[Line], base: Backbone, rated: Backbone) -> str:
    """The table.

    >>> line = Line("τ_c", 9, (40.0, 38.0, 42.0), (43.0, 41.0, 45.0), (3.0, -1.0, 4.0))
    >>> print(markdown([line], *(2 * [type("B", (), {"name": "b", "revision": "w1"})])).splitlines()[2])
    | τ_c | 9 | 40.0 [38.0, 42.0] | 43.0 [41.0, 45.0] | +3.0 [−1.0, +4.0] |
    """
    heads = " | ".join(f"`{one.name}@{one.revision}`" for one in (base, rated))
    table = [f"| measure | n | {heads} | difference |", "|---|---:|---:|---:|---:|"]
    for line in lines:
        if line.missing:
            table.append(f"| {line.title} — not measured: {line.missing} | | | | |")
            continue
        cells = [_cell(line.before), _cell(line.after), _cell(line.difference, "+")]
        table.append(f"| {line.title} | {line.n:,} | {' | '.join(cells)} |")
    return "\n".join(
        [
            *table,
            "",
            "All times 100; in brackets 95 % bootstrap intervals, which draw photos, the same for both.",
            "",
        ]
    )


def _cell(found: tuple[float, float, float] | None, sign: str = "") -> str:
    if found is None:
        return "undefined"
    value, *ends = (f"{number:{sign}.1f}".replace("-", "−") for number in found)
    return value if np.isnan(found[1]) else f"{value} [{', '.join(ends)}]"


def _percent(value: float | None, interval: Any) -> tuple[float, float, float] | None:
    if value is None:
        return None
    ends = (np.nan, np.nan) if interval is None else (interval.low, interval.high)
    return 100 * value, 100 * ends[0], 100 * ends[1]


def _of_share(share: Any) -> tuple[float, float, float] | None:
    if share.value is None:
        return None
    ends = (np.nan, np.nan) if share.interval is None else share.interval
    return 100 * share.value, 100 * ends[0], 100 * ends[1]


def _names_by_number(folder: Path) -> dict[int, str]:
    return {
        photo.number: path.name for path in folder.glob("*.jpg") if (photo := photo_of(path.name)) is not None
    }


def _there(images: list[Path], title: str) -> list[Path]:
    gone = [image for image in images if not image.is_file()]
    if gone:
        raise InputError(f"{title}: {len(set(gone)):,} photos are missing, such as {gone[0]}")
    return images


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m weights.measuring.rated_weights",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the official files")
    parser.add_argument("--photos", type=Path, required=True, help="folder of the photos")
    parser.add_argument("--packages", type=Path, help="folder of packages with Chinese captions")
    parser.add_argument("--base", default="embedded", help="backbone before training (default: embedded)")
    parser.add_argument("--rated", required=True, help="backbone after training")
    parser.add_argument("--bootstrap", type=int, default=1000, help="draws per interval (default: 1000)")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--output", type=Path, help="write the numbers to this JSON file")
    given = parser.parse_args(argv)
    try:
        base, rated = (capscore.load_backbone(spec) for spec in (given.base, given.rated))
        options = TaskOptions(bootstrap=given.bootstrap)
        lines = measure(base, rated, given.data, given.photos, given.packages, options)
        table = markdown(lines, base, rated)
        if given.markdown:
            write_text(given.markdown, table, "table")
        if given.output:
            said = {"base": base.name, "rated": rated.rated_from, "lines": [asdict(line) for line in lines]}
            write_text(given.output, json.dumps(said, ensure_ascii=False, indent=1) + "\n", "numbers")
    except CapscoreError as error:
        parser.exit(1, f"rated_weights: {error}\n")
    print(table)


if __name__ == "__main__":
    main()
