"""Every benchmark on its tiny official files: rows, checks, exports, and the numbers of every task."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from capscore.files.shipped import benchmark_slugs

from .place import Place, file_rows, write_rows
from .table import KERNELS, case

# benchmark → the configurations that are measured, with the metrics that ask nothing of a photo's words
MEASURED = {
    "caparena": ("default",),
    "capeval1k": ("default",),
    "captokeneval": ("default",),
    "coco_captions": ("karpathy",),
    "composite": ("coco", "all"),
    "detailcaps": ("default",),
    "flickr8k_human": ("expert", "crowdflower"),
    "foil": ("default",),
    "hat": ("default",),
    "longcap_arena": ("test_a_descriptiveness",),
    "m_capeval1k": ("de",),
    "m_finecap3k": ("ja",),
    "marvl": ("sw", "id"),
    "multi30k": ("de",),
    "nebula": ("default",),
    "nocaps": ("foil",),
    "pascal50s": ("default",),
    "polaris": ("default",),
    "thumb": ("default",),
    "valse": ("all",),
    "vicr": ("default",),
    "xflickrco": ("de",),
    "xm3600": ("de",),
    "xvnli": ("en", "ar"),
}
METRICS = ("cider", "rouge_l", "bleu_4", "text_score", "mcs")
COMPONENTS = ("infometic_plus", "infometic_recall", "infometic_precision")
# those of one photo, of which none can be drawn
OF_ONE_PHOTO = ("composite_coco", "flickr8k_human_crowdflower", "m_capeval1k_de")


def readable(value: Any) -> Any:
    """A row of a data set → the same without pixels: an image is its size and mode."""
    if isinstance(value, dict):
        return {key: readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [readable(item) for item in value]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if hasattr(value, "getbbox"):
        return [value.mode, *value.size]
    return value


def benchmark(place: Place, *arguments: Any) -> Any:
    """`capscore benchmark … --json` → its answer."""
    return place.capscore("benchmark", *arguments, "--no-cache", "--json")


for _slug in sorted(benchmark_slugs()):

    @case(f"benchmarks/rows_{_slug}")
    def _(place: Place, slug: str = _slug) -> Any:
        """All rows of all configurations, with photos and without."""
        import capscore

        official = place.benchmark(slug)
        found = {}
        for config in dict.fromkeys(config for config, _ in official.ROWS):
            rows = capscore.load_benchmark(slug, config, data_dir=slug, images=False)
            found[config] = {
                split: {"columns": part.column_names, "rows": readable(list(part))}
                for split, part in rows.items()
            }
        last = capscore.load_benchmark(slug, config, data_dir=slug)
        found["with photos"] = {split: readable(list(part)[:2]) for split, part in last.items()}
        return found


for _slug in sorted(benchmark_slugs()):

    @case(f"benchmarks/check_{_slug}")
    def _(place: Place, slug: str = _slug) -> Any:
        """What `data check` finds, for the configurations that the tiny files have."""
        official = place.benchmark(slug)
        configs = list(dict.fromkeys(config for config, _ in official.ROWS))[:3]
        options = [option for config in configs for option in ("--config", config)]
        return place.capscore("data", "check", slug, "--data-dir", slug, *options, "--json")


for _slug, _configs in MEASURED.items():
    for _config in _configs:

        @case(f"benchmarks/{_slug}_{_config}", tolerance=KERNELS)
        def _(place: Place, slug: str = _slug, config: str = _config) -> Any:
            """What every metric's scores come to, or why they come to nothing."""
            place.benchmark(slug)
            metrics = [option for metric in METRICS for option in ("--metric", metric)]
            where = ("--data", slug, "--config", config, "--data-dir", slug)
            split = ("--split", "validation") if slug == "nocaps" else ()
            towers = ("--backbone", place.clip())
            draws = 0 if f"{slug}_{config}" in OF_ONE_PHOTO else 20
            return benchmark(place, *where, *split, *metrics, *towers, "--partial", "--bootstrap", draws)


@case("benchmarks/rated")
def _(place: Place) -> Any:
    """Twelve rated rows: intervals, comparisons, raters, tables, scores of others."""
    where = ("--data", "flickr8k_human", "--config", "expert", "--data-dir", place.rated())
    words = ("-m", "cider", "-m", "rouge_l", "-m", "bleu_4")
    found = {
        "words": benchmark(place, *where, *words, "--bootstrap", 100, "--compare"),
        "raters": benchmark(place, *where, *words, "--bootstrap", 50, "--raters", "mean", "--seed", 3),
        "confidence": benchmark(place, *where, "-m", "cider", "--bootstrap", 50, "--confidence", 0.8),
    }
    files = ("--output", "out/r.json", "--markdown", "out/r.md")
    found["written"] = place.capscore("benchmark", *where, *words, "--bootstrap", 20, "--quiet", *files)
    found["files"] = sorted(path.name for path in Path("out").iterdir())
    found["document"] = file_rows("out/r.json")
    found["queries"] = place.capscore("benchmark", *where, "--write-queries", "queries.jsonl")
    rows = file_rows("queries.jsonl")
    found["rows"] = rows
    write_rows("mine.jsonl", [{**row, "score": (7 * number) % 5} for number, row in enumerate(rows)])
    write_rows("gaps.jsonl", [{"id": row["id"], "score": number} for number, row in enumerate(rows[:-1])])
    found["mine"] = benchmark(
        place, *where, "--scores", "mine.jsonl", "-m", "cider", "--bootstrap", 20, "--compare"
    )
    found["gaps"] = benchmark(
        place, *where, "--scores", "g=gaps.jsonl", "--missing", "skip", "--bootstrap", 0
    )
    return found


@case("benchmarks/embedded", tolerance=KERNELS)
def _(place: Place) -> Any:
    """On the backbone `embedded`: ratings without photos, and sets with photos."""
    where = ("--data", "flickr8k_human", "--config", "expert", "--data-dir", place.rated())
    towers = ("--backbone", "embedded", "--bootstrap", 20)
    found = {"ratings": benchmark(place, *where, "-m", "text_score", *towers)}
    found["no photos"] = place.capscore("benchmark", *where, "-m", "rouge_l", "-m", "mcs", *towers, "--json")
    for slug, config, metrics in (
        ("valse", "existence", ("mcs", "clip_score")),
        ("xflickrco", "de", ("mcs", "infometic", "infometic_plus")),
        ("captokeneval", "default", ("infometic",)),
        ("thumb", "default", ("infometic", *COMPONENTS, "ref_clip_score", "clip_cider")),
    ):
        place.benchmark(slug)
        options = [option for metric in metrics for option in ("--metric", metric)]
        found[slug] = benchmark(place, "--data", slug, "-c", config, "--data-dir", slug, *options, *towers)
    found["info_clip"] = benchmark(
        place, "--data", "captokeneval", "--data-dir", "captokeneval", "-m", "infometic", *towers,
        "--weights", "info_clip", "--beta", 0.2, "--n-regions", 5,
    )  # fmt: skip
    return found


@case("benchmarks/suite")
def _(place: Place) -> Any:
    """A suite: what is there is measured, what is not is named."""
    for slug in ("flickr8k_human", "pascal50s", "thumb"):
        place.benchmark(slug, photos=False)
    return benchmark(place, "--suite", "english", "--data-dir", ".", "-m", "rouge_l", "--bootstrap", 20)
