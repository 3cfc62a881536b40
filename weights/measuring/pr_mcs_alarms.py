"""Measures weights of PR-MCS: drops, false alarms, curves by degree, agreement and search, beside MCS.

    python -m weights.measuring.pr_mcs_alarms --data DATA --photos PHOTOS --held-out held_out \
        --backbone embedded-pr-mcs --backbone runs/pr-mcs-published --markdown pr_mcs.md --output pr_mcs.json

In: fine-tuned backbones, the official files (folders flickr8k, multi30k, xflickrco, and, for the captions of
captioning models, capeval1k, composite, polaris, thumb), Flickr8k's photos (PHOTOS/flickr8k), and the files
of `weights.measuring.held_out`. Out: one JSON file and one of Markdown tables.

Each backbone is compared with MCS on the backbone that it was fine-tuned from. Captions of captioning models
have no photo here: a caption stands for its own photo, embedded by that plain backbone, so that MCS is full
and the score is the share that is kept. What is not there is listed as not measured. With `--trained`, the
captions of the training, a photo that is both trained and measured on is an error.
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
from capscore.benchmarks.run import run_benchmark
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.metrics.backbone_scorer import MCS, TextScore, row_cosines
from capscore.perturbations import KINDS, UNSEEN_KINDS
from capscore.perturbations.styles import STYLES
from capscore.statistics.columns import plain
from training.engine.config import main as run_as_command
from weights.making.held_out import photo_of

from .figures import percent, study_parser, table, write_results
from .held_out import described_photo
from .retrieval import KS, embedded_photos, flickr8k_captions, flickr8k_test_photos, rank_photos

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


def check_untrained(sets: Sequence[CaptionSet], trained: Path) -> None:
    """Raise InputError if a photo is trained and measured on; names the photo and the data sets."""
    measured = {
        photo: f"{item.data} ({item.language})"
        for item in sets
        for name in item.image_ids
        if (photo := photo_of(Path(name).name)) is not None
    }
    with trained.open(encoding="utf-8") as lines:
        for row, line in enumerate(lines):
            name = json.loads(line).get("id", "")
            photo = described_photo(name)
            if photo is not None and photo in measured:
                said = f"{photo} of {measured[photo]} is trained on, as {name}"
                raise InputError(said, row=row, field=str(trained))


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
    styled = run_alarms(_with_paragraphs(captions), against, plain_embedders=embedders)
    curves = run_degrees(captions.sample(BY_DEGREE, 0), scorers, plain_embedders=embedders)
    styles: dict[str, Any] = plain(styled.rows)
    results: dict[str, Any] = {}
    for result, moved in zip(run.results, every.results, strict=True):
        drops = {kind: result.value(f"drop_{kind}") for kind in run.unchanged}
        drops["every"] = moved.value("drop_substitution")
        results[result.metric] = {
            "drops": drops,
            "average": result.value("drop_average"),
            "kept": result.value("original_of_first"),
            "recall": {f"R@{k}": result.value(f"text_to_image_r@{k}") for k in (1, 5, 10)},
            "styles": styles.get(result.metric, {}),
            "curves": plain(curves.rows[result.metric]),
        }
    return {
        "title": title,
        "language": captions.language,
        "images": run.images,
        "n_captions": len(captions),
        "n_photos": len(set(captions.image_ids)),
        "results": results,
        "skipped": {**run.skipped, **styled.skipped, **curves.skipped},
    }


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
        try:
            texts = written_alike(read())
        except (CapscoreError, OSError) as error:
            found["missing"][f"captions of captioning models, {slug}"] = str(error).splitlines()[0]
            continue
        for tower in towers:
            kept[tower.name].append(kept_of_texts(tower, texts))
        found["models"][slug] = {name: parts[-1] for name, parts in kept.items()}
    if found["models"]:
        found["models"]["all"] = {name: np.concatenate(parts) for name, parts in kept.items()}
    for by_name in found["models"].values():
        by_name.update({name: alarms(rows, np.ones(len(rows))) for name, rows in by_name.items()})


def measure_agreement(found: Found, data: Path, photos: Path | None, towers: Sequence[Tower]) -> None:
    """τ_c with Flickr8k-Expert's ratings, by references and by photos."""
    if photos is None:
        found["missing"]["Flickr8k-Expert by photos"] = "no --photos"
    for how, scorer in (("references", TextScore), *([("photos", MCS)] if photos is not None else [])):
        by_name = found["agreement"][f"Flickr8k-Expert τ_c, by {how}"] = {}
        for tower in towers:
            both = {"plain": tower.plain, "own": tower.own}
            run = run_benchmark(
                "flickr8k_human",
                "expert",
                data_dir=data / "flickr8k",
                image_dir=photos / "flickr8k" if photos is not None and how == "photos" else None,
                metrics={f"{scorer.metric}@{name}": partial(scorer, own) for name, own in both.items()},
                options=TaskOptions(bootstrap=0),
            )
            by_name[tower.name] = [
                100 * next(each.value for each in result.outcome.statistics if each.name == "tau_c")
                for result in run.results
            ]


def measure_search(found: Found, data: Path, photos: Path | None, towers: Sequence[Tower]) -> None:
    """R@k of the captions of Flickr8k's test photos among these photos."""
    if photos is None:
        found["missing"]["search among Flickr8k's test photos"] = "no --photos"
        return
    files = sorted(flickr8k_test_photos(data / "flickr8k", photos / "flickr8k"))
    index = {file.name: number for number, file in enumerate(files)}
    captions = [(index[name], text) for name, text in flickr8k_captions(data / "flickr8k") if name in index]
    by_name = found["search"][f"search among {len(files):,} test photos of Flickr8k, en"] = {}
    for tower in towers:
        both = [
            rank_photos(each, embedded_photos(each, files), captions) for each in (tower.plain, tower.own)
        ]
        by_name[tower.name] = {
            f"R@{k}": [100 * float((ranked.rank <= k).mean()) for ranked in both] for k in KS
        }


def measure(
    towers: Sequence[Tower], data: Path, photos: Path | None, held_out: Path, trained: Path | None = None
) -> Found:
    """Everything, ready for JSON; "missing" says what cannot be measured, and why."""
    found: Found = {"sets": [], "models": {}, "agreement": {}, "search": {}, "missing": {}}

    @contextmanager
    def noting(what: str) -> Iterator[None]:
        try:
            yield
        except CapscoreError as error:
            found["missing"][what] = str(error).splitlines()[0]

    sets: list[tuple[str, CaptionSet]] = []
    for title, read in caption_sets(data, held_out):
        with noting(title):
            sets += [(title, item.sample(SAMPLE, 0)) for item in read() if len(item) >= LEAST]
    if trained is not None:
        check_untrained([item for _, item in sets], trained)
    with noting("captions of captioning models"):
        measure_models(found, data, towers)
    for title, captions in sets:
        with noting(f"{title}, {captions.language}"):
            found["sets"].append(measure_set(title, captions, towers))
    with noting("agreement"):
        measure_agreement(found, data, photos, towers)
    with noting("search"):
        measure_search(found, data, photos, towers)
    return found


# ---------------------------------------------------------------------------- tables


def markdown(found: Found, names: Sequence[str]) -> str:
    """All tables; names: of the backbones."""
    every = [(one, name, result) for one in found["sets"] for name, result in one["results"].items()]
    where = "language captions metric".split()
    drops, unseen = (
        [
            [one["language"], title(one), name]
            + [percent(result["drops"].get(kind), "+") for kind in kinds]
            + [percent(result[key], sign) for key, sign in others]
            for one, name, result in every
        ]
        for kinds, title, others in (
            (
                (*KINDS, "every"),
                lambda one: f"{one['title']}, {one['n_captions']} captions, {one['images']}",
                (("average", "+"), ("kept", "")),
            ),
            (UNSEEN_KINDS, lambda one: one["title"], ()),
        )
    )
    heads = [*where, *KINDS, "every object moved", "average", "mean kept"]
    parts = [f"Change of the mean score, in percent:\n\n{table(heads, drops, 3)}"]
    parts.append(f"Kinds that were not trained on:\n\n{table([*where, *UNSEEN_KINDS], unseen, 3)}")
    for name in names:
        own = [(one, result) for one, other, result in every if other == name]
        parts += [_styles(name, own), _curves(name, own)]
    models = [
        [slug, name, f"{part['n']:,}", percent(part["below_half"]), percent(part["kept"])]
        for slug, by_name in found["models"].items()
        for name, part in by_name.items()
    ]
    heads = ["captions", "metric", "n", "below half", "mean kept"]
    said = "Captions of captioning models, in lower case without the stop"
    parts.append(f"{said}:\n\n{table(heads, models, 2)}")
    both = {(title, name): pair for title, own in found["agreement"].items() for name, pair in own.items()}
    for title, by_name in found["search"].items():
        both |= {(f"{title}, {k}", name): pair for name, own in by_name.items() for k, pair in own.items()}
    rows = [
        [*key, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}".replace("-", "−")]
        for key, (before, after) in both.items()
    ]
    parts.append(table(["measure", "metric", "MCS", "PR-MCS", "difference"], rows, 2))
    if found["missing"]:
        parts.append(
            "\n".join(["Not measured:", "", *(f"- {n}: {why}" for n, why in found["missing"].items())])
        )
    return "\n\n".join(parts) + "\n"


def _styles(name: str, sets: Sequence[tuple[Any, Any]]) -> str:
    rows = [
        [item["language"], item["title"], what.replace("_", " ")]
        + [percent(result["styles"].get(style, {}).get(what)) for style in STYLES]
        for item, result in sets
        for what in ("below_half", "kept")
    ]
    said = f"`{name}`: right captions in each style, the share below half of their MCS and the mean kept"
    return f"{said}, in percent:\n\n{table(['language', 'captions', '', *STYLES], rows, 3)}"


def _curves(name: str, sets: Sequence[tuple[Any, Any]]) -> str:
    rows, degrees = [], []
    for item, result in sets:
        for kind, curve in result["curves"].items():
            degrees = [f"{degree:g}" for degree in curve["degrees"]]
            rhos = [curve["of_means"], curve["of_captions"]]
            cells = ["" if rho is None else f"{rho:.2f}".replace("-", "−") for rho in rhos]
            drops = [percent(drop, "+") for drop in curve["drops"]]
            rows.append([item["language"], item["title"], kind, str(curve["n"]), *drops, *cells])
    heads = ["language", "captions", "kind", "n", *degrees, "ρ", "ρ each"]
    return f"`{name}` by degree, change of the mean score in percent:\n\n{table(heads, rows, 3)}"


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = study_parser("pr_mcs_alarms", __doc__)
    parser.add_argument("--held-out", type=Path, required=True, help="folder of weights.measuring.held_out")
    parser.add_argument("--photos", type=Path, help="folder with Flickr8k's photos, flickr8k")
    parser.add_argument("--backbone", action="append", help="default: embedded-pr-mcs; repeatable")
    parser.add_argument("--trained", type=Path, help="captions of the training, of which none is measured")
    given = parser.parse_args(argv)
    for category in (capscore.BenchmarkWarning, capscore.LanguageWarning):
        warnings.simplefilter("ignore", category)
    cache, plains, towers = resolve_cache(None), {}, []
    for spec in given.backbone or ["embedded-pr-mcs"]:
        base = plain_backbone(spec)
        if base not in plains:
            plains[base] = Embedder(capscore.load_backbone(base), cache=cache)
        own = Embedder(capscore.load_backbone(spec), cache=cache)
        towers.append(Tower(Path(spec).name, own, plains[base]))
    if len(plains) > 1:
        raise InputError(f"--backbone: one base is expected, not {', '.join(plains)}")
    found = measure(towers, given.data, given.photos, given.held_out, given.trained)
    backbones = [f"{tower.own.backbone.name}@{tower.own.backbone.revision}" for tower in towers]
    write_results(given, {"backbones": backbones, **found}, markdown(found, [tower.name for tower in towers]))


if __name__ == "__main__":
    run_as_command(main)
