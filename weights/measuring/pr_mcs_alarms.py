"""Measures weights of PR-MCS: drops, false alarms, curves by degree, agreement and search, beside MCS.

    python -m weights.measuring.pr_mcs_alarms --data DATA --photos PHOTOS --held-out held_out \
        --backbone embedded-pr-mcs --backbone runs/pr-mcs-published --markdown pr_mcs.md --output pr_mcs.json

In: fine-tuned backbones, the official files (folders flickr8k, multi30k, xflickrco, and, for the captions of
captioning models, capeval1k, composite, polaris, thumb), Flickr8k's photos (PHOTOS/flickr8k), and the files
of `weights.measuring.held_out`. Out: one JSON file and one of Markdown tables.

Each backbone is compared with MCS on the backbone that it was fine-tuned from. Captions of captioning models
have no photo here: a caption stands for its own photo, embedded by that plain backbone, so that MCS is full
and the score is the share that is kept. What is not there is listed as not measured.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import capscore
from capscore.benchmarks.data.load import load_benchmark
from capscore.benchmarks.robustness import (
    CaptionSet,
    RobustnessOptions,
    benchmark_captions,
    file_captions,
    run_robustness,
)
from capscore.benchmarks.robustness.run import plain_backbone
from capscore.benchmarks.robustness.styles_and_degrees import alarms, run_alarms, run_degrees
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.metrics.backbone_scorer import MCS, row_cosines
from capscore.perturbations import KINDS, UNSEEN_KINDS
from capscore.perturbations.by_degree import DEGREES
from capscore.perturbations.styles import STYLES
from capscore.show.tables import Report, Table, fixed, signed
from capscore.statistics.columns import plain
from training.engine.config import main as run_as_command

from . import image_tower
from .figures import percent, study_parser, write_results

LEAST = 50  # a language with fewer captions is not measured
SAMPLE, BY_DEGREE, OF_MODELS = 500, 100, 1000  # captions of a set, of a curve, of models per data set

Found = dict[str, Any]  # what was measured, ready for JSON


class Tower(NamedTuple):
    """A fine-tuned backbone, and the plain one that it was fine-tuned from."""

    name: str
    own: Embedder
    plain: Embedder


# -------------------------------------------------------------------------- captions


def caption_sets(data: Path, held_out: Path) -> Iterator[tuple[str, Callable[[], list[CaptionSet]]]]:
    """Titles, and what reads their captions."""

    def of_file(name: str, stand_in: bool = True) -> Callable[[], list[CaptionSet]]:
        return partial(file_captions, held_out / f"{name}.jsonl", stand_in=stand_in)

    yield "Flickr8k, 83 photos", of_file("photos", stand_in=False)
    yield "Flickr8k test", of_file("english")
    for slug, title, languages in (
        ("multi30k", "Multi30k test 2016", ("de", "fr", "cs")),
        ("xflickrco", "XFlickrCO test", ("de", "es", "ja", "zh", "ru", "tr")),
    ):
        for language in languages:
            read = partial(benchmark_captions, slug, language, data_dir=data / slug, stand_in=True)
            yield f"{title}, {language}", read
    for name, title in (("dutch", "Dutch descriptions"), ("xtd10", "XTD10")):
        if (held_out / f"{name}.jsonl").is_file():
            yield title, of_file(name)


def model_captions(data: Path) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Data sets, and what reads captions of captioning models."""

    def of_benchmark(slug: str, config: str | None) -> list[str]:
        rows = load_benchmark(slug, config, split="test", data_dir=data / slug, images=False)
        return [row["caption"] for row in rows if row.get("system", "") != "Human"]

    def polaris() -> list[str]:
        text = (data / "polaris" / "polaris_exp_val.json").read_text(encoding="utf-8")
        return [row["mt"] for row in json.loads(text)]

    for slug, config in (("capeval1k", None), ("composite", "all"), ("thumb", None)):
        yield slug, partial(of_benchmark, slug, config)
    yield "polaris", polaris


def written_alike(captions: Iterable[str], most: int = OF_MODELS) -> list[str]:
    """Some captions, each once, in lower case and without the stop."""
    texts = dict.fromkeys(re.sub(r"[\s.]+$", "", " ".join(text.lower().split())) for text in captions)
    texts.pop("", None)
    chosen = np.random.default_rng(0).permutation(len(texts))[:most]
    return [list(texts)[row] for row in sorted(chosen)]


# -------------------------------------------------------------------------- measuring


def measure_set(title: str, captions: CaptionSet, towers: Sequence[Tower]) -> dict[str, Any]:
    """Drops, false alarms and curves of each backbone on one set of captions."""
    plain_name = f"mcs@{towers[0].plain.backbone.name}"
    scorers = {plain_name: MCS(towers[0].plain), **{tower.name: MCS(tower.own) for tower in towers}}
    stand_ins = {plain_name: towers[0].plain, **{tower.name: tower.plain for tower in towers}}
    embedders = stand_ins if captions.stand_ins is not None else None
    one_kind = RobustnessOptions(kinds=("substitution",), order="every", bootstrap=0)
    run, every = (
        run_robustness(captions, scorers, options, plain_embedders=embedders)
        for options in (RobustnessOptions(kinds=("all",), bootstrap=0), one_kind)
    )
    against = {tower.name: (scorers[tower.name], MCS(tower.plain), plain_name) for tower in towers}
    styles = run_alarms(_with_paragraphs(captions), against, plain_embedders=embedders).rows
    curves = run_degrees(captions.sample(BY_DEGREE, 0), scorers, plain_embedders=embedders).rows
    results: dict[str, Any] = {}
    for result, moved in zip(run.results, every.results, strict=True):
        drops = {kind: result.value(f"drop_{kind}") for kind in run.unchanged}
        results[result.metric] = {
            "drops": {**drops, "every": moved.value("drop_substitution")},
            "average": result.value("drop_average"),
            "kept": result.value("original_of_first"),
            "styles": plain(styles.get(result.metric, {})),
            "curves": plain(curves[result.metric]),
        }
    about = {"language": captions.language, "images": run.images, "n_captions": len(captions)}
    return {"title": title, **about, "results": results}


def _with_paragraphs(captions: CaptionSet) -> CaptionSet:
    """The captions; where photos have one each, the captions of five photos count as those of one.

    What they describe then belongs to several photos, so MCS is lower; what is kept of it is not.
    """
    if len(set(captions.image_ids)) < len(captions):
        return captions
    ids = captions.image_ids
    return replace(captions, image_ids=[ids[row - row % 5] for row in range(len(ids))])


def kept_of_texts(tower: Tower, texts: Sequence[str]) -> np.ndarray:
    """Score of each text as a share of its MCS, with the text itself in place of its photo, (n,)."""
    own, other = (each.texts(list(texts), prefix=each.backbone.prefix) for each in (tower.own, tower.plain))
    return np.maximum(row_cosines(own.matrix, own.index, other.matrix, other.index), 0)


def measure_models(found: Found, data: Path, towers: Sequence[Tower]) -> None:
    """False alarms on captions of captioning models."""
    kept: dict[str, list[np.ndarray]] = {tower.name: [] for tower in towers}
    for slug, read in model_captions(data):
        with _noting(found, f"captions of captioning models, {slug}"):
            texts = written_alike(read())
            for tower in towers:
                kept[tower.name].append(kept_of_texts(tower, texts))
            found["models"][slug] = {name: parts[-1] for name, parts in kept.items()}
    if found["models"]:
        found["models"]["all"] = {name: np.concatenate(parts) for name, parts in kept.items()}
    for by_name in found["models"].values():
        by_name.update({name: alarms(rows, np.ones(len(rows))) for name, rows in by_name.items()})


def measure_seeing(found: Found, data: Path, photos: Path, towers: Sequence[Tower]) -> None:
    """Agreement with Flickr8k-Expert and search among Flickr8k's test photos, plain and fine-tuned."""
    for tower in towers:
        before, after = (_seen(found, each, data, photos) for each in (tower.plain, tower.own))
        for title, value in after.items():
            found["seeing"].setdefault(title, {})[tower.name] = [before[title], value]


def _seen(found: Found, embedder: Embedder, data: Path, photos: Path) -> dict[str, float | None]:
    """Figures of the study of image towers in percent, by their titles."""
    figures: list[image_tower.Figure] = []
    options = TaskOptions(bootstrap=0)
    image_tower.measure_ratings(figures, embedder, "expert", data, photos, options)
    with _noting(found, "search among Flickr8k's test photos"):
        image_tower.Search(embedder, data, photos, options, figures).english()
    found["missing"] |= {f"Flickr8k-Expert, {item.title}": item.missing for item in figures if item.missing}
    return {item.title: item.value for item in figures if not item.missing and "ref_clip" not in item.key}


def measure(towers: Sequence[Tower], data: Path, photos: Path | None, held_out: Path) -> Found:
    """Everything, ready for JSON; "missing" says what cannot be measured, and why."""
    found: Found = {"sets": [], "models": {}, "seeing": {}, "missing": {}}
    sets: list[tuple[str, CaptionSet]] = []
    for title, read in caption_sets(data, held_out):
        with _noting(found, title):
            sets += [(title, item.sample(SAMPLE, 0)) for item in read() if len(item) >= LEAST]
    measure_models(found, data, towers)
    for title, captions in sets:
        with _noting(found, f"{title}, {captions.language}"):
            found["sets"].append(measure_set(title, captions, towers))
    measure_seeing(found, data, photos or data, towers)
    return found


@contextmanager
def _noting(found: Found, what: str) -> Iterator[None]:
    try:
        yield
    except (CapscoreError, OSError) as error:
        found["missing"][what] = str(error).splitlines()[0]


# ---------------------------------------------------------------------------- tables


def report(found: Found, names: Sequence[str]) -> Report:
    """All tables; names: of the backbones."""
    every = [(part, name, result) for part in found["sets"] for name, result in part["results"].items()]
    where = ["language", "captions", "metric"]
    drops, unseen = (
        [
            [part["language"], f"{part['title']}, {part['n_captions']} captions, {part['images']}", name]
            + [percent(result["drops"].get(kind), "+") for kind in kinds]
            for part, name, result in every
        ]
        for kinds in ((*KINDS, "every"), UNSEEN_KINDS)
    )
    for row, (_, _, result) in zip(drops, every, strict=True):
        row += [percent(result["average"], "+"), percent(result["kept"])]
    heads = [*where, *KINDS, "every object moved", "average", "mean kept"]
    parts = [
        Table(heads, drops, "Change of the mean score, in percent", 3),
        Table([*where, *UNSEEN_KINDS], unseen, "Kinds that were not trained on", 3),
    ]
    for name in names:
        own = [(part, result) for part, other, result in every if other == name]
        styles = [
            [part["language"], part["title"]]
            + [percent(result["styles"].get(style, {}).get("below_half")) for style in STYLES]
            for part, result in own
        ]
        curves = [
            [part["language"], part["title"], kind, *(percent(drop, "+") for drop in curve["drops"])]
            for part, result in own
            for kind, curve in result["curves"].items()
        ]
        said = f"{name}: right captions in each style that score below half of their MCS, in percent"
        parts.append(Table(["language", "captions", *STYLES], styles, said, 2))
        heads = ["language", "captions", "kind", *(f"{degree:g}" for degree in DEGREES)]
        parts.append(Table(heads, curves, f"{name}: change of the mean score by degree, in percent", 3))
    models = [
        [slug, name, f"{part['n']:,}", percent(part["below_half"]), percent(part["kept"])]
        for slug, by_name in found["models"].items()
        for name, part in by_name.items()
    ]
    said = "Captions of captioning models, in lower case without the stop, in percent"
    parts.append(Table(["captions", "metric", "n", "below half", "mean kept"], models, said, 2))
    seen = [
        [title, name, fixed(before, 2), fixed(after, 2), signed(after - before, 2)]
        for title, by_name in found["seeing"].items()
        for name, (before, after) in by_name.items()
    ]
    parts.append(
        Table(
            ["measure", "metric", "MCS", "PR-MCS", "difference"],
            seen,
            "Experts' ratings, and search",
            2,
        )
    )
    return Report("", [*parts, *(f"not measured: {what}: {why}" for what, why in found["missing"].items())])


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = study_parser("pr_mcs_alarms", __doc__)
    parser.add_argument("--held-out", type=Path, required=True, help="folder of weights.measuring.held_out")
    parser.add_argument("--photos", type=Path, help="folder with Flickr8k's photos, flickr8k")
    parser.add_argument("--backbone", action="append", help="default: embedded-pr-mcs; repeatable")
    given = parser.parse_args(argv)
    for category in (capscore.BenchmarkWarning, capscore.LanguageWarning):
        warnings.simplefilter("ignore", category)
    specs = given.backbone or ["embedded-pr-mcs"]
    bases = {plain_backbone(spec) for spec in specs}
    if len(bases) > 1:
        raise InputError(f"--backbone: one base is expected, not {', '.join(sorted(bases))}")
    cache = resolve_cache(None)
    base, *own = (Embedder(capscore.load_backbone(spec), cache=cache) for spec in (*bases, *specs))
    towers = [Tower(Path(spec).name, each, base) for spec, each in zip(specs, own, strict=True)]
    found = measure(towers, given.data, given.photos, given.held_out)
    backbones = [f"{tower.own.backbone.name}@{tower.own.backbone.revision}" for tower in towers]
    tables = report(found, [tower.name for tower in towers]).markdown()
    write_results(given, {"backbones": backbones, **found}, tables)


if __name__ == "__main__":
    run_as_command(main)
