"""Measures what fine-tuning on ratings does to a backbone, on photos that it did not learn from.

    python -m weights.measuring.rated_weights --data DATA --photos PHOTOS --packages PACKAGES \
        --base embedded --rated runs/rated --markdown rated.md --output rated.json

In: a backbone, the same one fine-tuned, the official files (folders flickr8k, composite, multi30k, vicr,
valse), photos (folders flickr8k, coco_val2014), and the package with Flickr8k's captions in Chinese. Out:
agreement with people, search and VALSE before and after, each with its 95 % bootstrap interval over photos,
and the difference with its own. Flickr8k's ratings and photos are those of the 300 photos that
`weights.making.rated_rows` holds out; VICR's are on photos of COCO, which are never trained on.

Captions in other languages are translations by people of the rated captions themselves: Flickr8k-CN's of all,
Multi30k's of those that it has; the English captions of the latter stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import capscore
from capscore.backbones.base import Backbone
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import token_captions
from capscore.benchmarks.data.load import benchmark_builder, load_benchmark
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.metrics.backbone_scorer import MCS
from capscore.statistics.agreement import agreement, compare
from training.engine.config import main as run_as_command
from training.engine.ratings_check import valse_result
from weights.making.held_out import photo_of
from weights.making.package_texts import source_named, source_texts
from weights.making.rated_rows import plain, rated_split

from .figures import Share, percent, share_of_sums, study_parser, table, write_results
from .retrieval import available, embedded_photos, flickr8k_captions, rank_photos, recall

CHINESE = "flickr8k-cn-test"
TRANSLATED = ("de", "fr")
KS = (1, 5)
_UNDEFINED = Share(None)
SIGNS = {"tau_b": "τ_b", "tau_c": "τ_c", "spearman": "ρ"}

Translations = dict[str, dict[str, str]]  # language → English caption, as `plain` has it → translation


@dataclass(frozen=True)
class RatedCaptions:
    """Rated captions in one language, each with the path of its photo and one rating, or a list of them.

    `statistics` are those to measure; `raters` is the meaning of several ratings, as in `agreement`.
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
    """A line of the table: a number of n captions before and after training, or why there is none."""

    title: str
    n: int = 0
    before: Share = _UNDEFINED
    after: Share = _UNDEFINED
    difference: Share = _UNDEFINED
    missing: str = ""


def translations(data: Path, packages: Path | None) -> Translations:
    """Translations of Flickr8k's captions by people; no Chinese without a folder of packages."""
    found: Translations = {"zh": {}, **{code: {} for code in TRANSLATED}}
    if packages is not None:
        lines = token_captions(AnnotationSource(data / "flickr8k" / "Flickr8k.token.txt"))
        english = {line.caption_id: line.text for line in lines}
        for row in source_texts(source_named(CHINESE), packages, ["zh"]):
            photo, _, number = row["id"].removeprefix(f"{CHINESE}/").split("#")
            if text := english.get(f"{photo}#{number}"):
                found["zh"][plain(text)] = row["text"]
    for language in TRANSLATED:
        here, there = (
            benchmark_builder("multi30k", code, data_dir=data / "multi30k", images=False)
            for code in ("en", language)
        )
        for split in (split for split in here.splits() if split in there.splits()):
            for (_, row), (_, other) in zip(*(own.checked_rows(split) for own in (here, there)), strict=True):
                found[language].update(zip(map(plain, row["references"]), other["references"], strict=True))
    return found


def in_languages(rated: RatedCaptions, texts: Translations) -> list[RatedCaptions]:
    """The captions as they are, and those that are translated, with their English beside Multi30k's."""
    parts = [rated]
    for language, known in texts.items():
        there = [row for row, caption in enumerate(rated.captions) if plain(caption) in known]
        if not there:
            continue
        same = replace(
            rated,
            title=f"{rated.title}, en of Multi30k's",
            images=[rated.images[row] for row in there],
            captions=[rated.captions[row] for row in there],
            ratings=[rated.ratings[row] for row in there],
        )
        if language == TRANSLATED[0]:
            parts.append(same)
        translated = [known[plain(caption)] for caption in same.captions]
        title = f"{rated.title}, {language}"
        parts.append(replace(same, title=title, captions=translated, language=language))
    return parts


def flickr8k_ratings(data: Path, photos: Path, held_out: frozenset[int]) -> list[RatedCaptions]:
    """Expert, CF and Composite of the held-out photos."""
    numbered = ((photo_of(path.name), path) for path in (photos / "flickr8k").glob("*.jpg"))
    files = {photo.number: path for photo, path in numbered if photo is not None}
    found = []
    for title, slug, config, home, statistics, raters in (
        ("Flickr8k-Expert", "flickr8k_human", "expert", "flickr8k", ("tau_c", "tau_b"), "flatten"),
        ("Flickr8k-CF", "flickr8k_human", "crowdflower", "flickr8k", ("tau_b",), None),
        ("Composite, Flickr8k", "composite", "flickr8k", "composite", ("tau_c",), None),
    ):
        every = load_benchmark(slug, config, split="test", data_dir=data / home, images=False)
        numbered = ((photo_of(row["image_id"]), row) for row in every)
        rows = [(p.number, row) for p, row in numbered if p is not None and p.number in held_out]
        images = [files.get(number, Path(row["image_id"])) for number, row in rows]
        ratings = [row["ratings"] if raters else row["rating"] for _, row in rows]
        captions = [row["caption"] for _, row in rows]
        images = available(images, f"photos of {title}")
        found.append(RatedCaptions(title, images, captions, ratings, "en", statistics, raters))
    return found


def vicr_ratings(data: Path, photos: Path) -> RatedCaptions:
    """VICR's public sample: the rows whose photos of COCO val2014 are there."""
    folder, rows = photos / "coco_val2014", []
    for split in ("train", "validation", "test"):
        rows += load_benchmark("vicr", split=split, data_dir=data / "vicr", images=False)
    there = [row for row in rows if (folder / row["image_id"]).is_file()]
    if not there:
        raise InputError(f"none of VICR's photos is in {folder}")
    title, images = (
        f"VICR's sample, {len(there)} of {len(rows)} rows",
        [folder / r["image_id"] for r in there],
    )
    captions, ratings = [row["caption"] for row in there], [list(row["ratings"]) for row in there]
    return RatedCaptions(title, images, captions, ratings, "en", ("tau_b", "tau_c", "spearman"), "mean")


def measure_ratings(rated: RatedCaptions, embedders: Sequence[Embedder], options: TaskOptions) -> list[Line]:
    """A line per statistic."""
    images = [str(image) for image in rated.images]
    base, own = (
        MCS(embedder).score(rated.captions, images=images, language=rated.language).scores
        for embedder in embedders
    )
    about: dict[str, Any] = {"raters": rated.raters, "images": images, "seed": options.seed}
    lines = []
    for name in rated.statistics:
        before, after = (
            agreement(scores, rated.ratings, bootstrap=options.bootstrap, statistics=name, **about)
            for scores in (base, own)
        )
        apart = compare(own, base, rated.ratings, statistic=name, n=options.bootstrap, **about)
        both = [_share(part.values[name], part.intervals[name]) for part in (before, after)]
        title = f"{rated.title}, {SIGNS[name]}"
        lines.append(Line(title, len(rated.captions), *both, _share(apart.difference, apart.interval)))
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
    english = [
        (photo, text)
        for photo, text in flickr8k_captions(data / "flickr8k")
        if photo_of(photo).number in held_out
    ]
    names = sorted({photo for photo, _ in english})
    index = {name: number for number, name in enumerate(names)}
    files = available([photos / "flickr8k" / name for name in names], "photos of the search")
    images = [embedded_photos(embedder, files) for embedder in embedders]
    by_language = {"en": [(index[photo], text) for photo, text in english]}
    for code, known in texts.items():
        by_language[code] = [(index[photo], known[plain(t)]) for photo, t in english if plain(t) in known]
    lines = []
    for language, captions in by_language.items():
        if not captions:
            lines.append(Line(f"search, {language}", missing="no captions"))
            continue
        both = [rank_photos(*tower, captions) for tower in zip(embedders, images, strict=True)]
        for k in KS:
            shares = [recall(ranked, k, options) for ranked in both]
            (before, wholes), (after, _) = (ranked.counts(k) for ranked in both)
            apart = share_of_sums(after - before, wholes, options)
            title = f"search among {len(names)} photos, {language}, R@{k}"
            lines.append(Line(title, len(captions), *shares, apart))
    return lines


def measure_valse(data: Path, photos: Path, backbones: Sequence[Backbone]) -> list[Line]:
    """Accuracy on the foils whose photos are there; too few for an interval of their own."""
    both = [valse_result(backbone, data / "valse", photos / "coco_val2014") for backbone in backbones]
    lines = []
    for first, second in zip(*(result.outcome.statistics for result in both), strict=True):
        if first.value is not None and second.value is not None:
            shares = map(Share, (first.value, second.value, second.value - first.value))
            lines.append(Line(f"VALSE, {first.name}, {both[0].n_rows} rows with photos", first.n, *shares))
    return lines


def measure(
    base: Backbone, rated: Backbone, data: Path, photos: Path, packages: Path | None, options: TaskOptions
) -> list[Line]:
    """All lines of the table; what cannot be measured says why."""
    split = rated_split(data / "flickr8k")
    embedders = [Embedder(backbone, cache=resolve_cache(None)) for backbone in (base, rated)]
    texts = translations(data, packages)
    lines: list[Line] = []

    def part(title: str, made: Callable[[], list[Line]]) -> None:
        try:
            lines.extend(made())
        except CapscoreError as error:
            lines.append(Line(title, missing=str(error).splitlines()[0]))

    for rows in flickr8k_ratings(data, photos, split.held_out):
        for own in [rows] if rows.title.startswith("Composite") else in_languages(rows, texts):
            part(own.title, lambda own=own: measure_ratings(own, embedders, options))
    part("VICR", lambda: measure_ratings(vicr_ratings(data, photos), embedders, options))
    part("search", lambda: measure_search(data, photos, split.held_out, texts, embedders, options))
    part("VALSE", lambda: measure_valse(data, photos, (base, rated)))
    return lines


def markdown(lines: Sequence[Line], base: Backbone, rated: Backbone) -> str:
    """The table.

    >>> line = Line("τ_c", 9, *map(Share, (0.4, 0.43, 0.03), ((0.38, 0.42), (0.41, 0.45), (-0.01, 0.04))))
    >>> print(markdown([line], *(2 * [type("B", (), {"name": "b", "revision": "w1"})])).splitlines()[2])
    | τ_c | 9 | 40.0 [38.0, 42.0] | 43.0 [41.0, 45.0] | +3.0 [−1.0, +4.0] |
    """
    heads = [f"`{backbone.name}@{backbone.revision}`" for backbone in (base, rated)]
    rows = [
        [f"{line.title} — not measured: {line.missing}", "", "", "", ""]
        if line.missing
        else [line.title, f"{line.n:,}", _cell(line.before), _cell(line.after), _cell(line.difference, "+")]
        for line in lines
    ]
    note = "All times 100; in brackets 95 % bootstrap intervals, which draw photos, the same for both."
    return f"{table(['measure', 'n', *heads, 'difference'], rows, 1)}\n\n{note}\n"


def _cell(share: Share, sign: str = "") -> str:
    if share.value is None:
        return "undefined"
    value, *ends = (percent(number, sign) for number in (share.value, *(share.interval or ())))
    return f"{value} [{', '.join(ends)}]" if ends else value


def _share(value: float | None, interval: Any) -> Share:
    """A share; the interval has ends `low` and `high`, or is None."""
    return Share(value, None if value is None or interval is None else (interval.low, interval.high))


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = study_parser("rated_weights", __doc__)
    parser.add_argument("--photos", type=Path, required=True, help="folder of the photos")
    parser.add_argument("--packages", type=Path, help="folder of packages with Chinese captions")
    parser.add_argument("--base", default="embedded", help="backbone before training (default: embedded)")
    parser.add_argument("--rated", required=True, help="backbone after training")
    given = parser.parse_args(argv)
    base, rated = (capscore.load_backbone(spec) for spec in (given.base, given.rated))
    lines = measure(base, rated, given.data, given.photos, given.packages, TaskOptions(bootstrap=1000))
    numbers = {"base": base.name, "rated": rated.rated_from, "lines": [asdict(line) for line in lines]}
    write_results(given, numbers, markdown(lines, base, rated))


if __name__ == "__main__":
    run_as_command(main)
