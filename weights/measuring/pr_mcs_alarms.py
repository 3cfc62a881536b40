"""Measures weights of PR-MCS: drops, false alarms, curves by degree, agreement and search, beside MCS.

    python -m weights.measuring.pr_mcs_alarms --data DATA --photos PHOTOS --dutch DUTCH --held-out held_out \
        --backbone embedded-pr-mcs --backbone runs/pr-mcs-published --markdown pr_mcs.md --output pr_mcs.json

In: one or more fine-tuned backbones, the official files (folders flickr8k, multi30k, xflickrco, and, for the
captions of captioning models, capeval1k, composite, polaris, thumb), Flickr8k's photos (PHOTOS/flickr8k), and
the files of `weights.measuring.held_out`. Out: one JSON file, one Markdown table, and a list of the captions
of captioning models that lose most, for a person to look at.

Each backbone is compared with MCS on the backbone that it was fine-tuned from. Captions of captioning models
have no photo here: a caption stands for its own photo, embedded by that plain backbone, so that MCS is full
and the score is the share that is kept. What is not there is listed as not measured. With `--trained`, the
captions of the training, a photo that is both trained and measured on is an error.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import capscore
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.benchmarks.data.load import load_benchmark
from capscore.benchmarks.robustness import (
    CaptionSet,
    RobustnessOptions,
    benchmark_captions,
    file_captions,
    run_robustness,
)
from capscore.benchmarks.robustness.alarms import StyleAlarms, alarms, run_alarms
from capscore.benchmarks.robustness.degrees import run_degrees
from capscore.benchmarks.robustness.stand_in import plain_backbone
from capscore.benchmarks.run import run_benchmark
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.files.whole_file import write_text
from capscore.metrics.backbone_scorer import BackboneScorer, row_cosines
from capscore.metrics.mcs import MCS
from capscore.metrics.text_score import TextScore
from capscore.perturbations import KINDS
from capscore.perturbations import UNSEEN_KINDS as UNSEEN_KINDS
from capscore.perturbations.styles import STYLES
from capscore.statistics.plain_values import plain
from weights.making.photo_names import photo_of

from .held_out import described_photo
from .retrieval import KS, rank_photos

MULTI30K = ("de", "fr", "cs")
XFLICKRCO = ("de", "es", "ja", "zh", "ru", "tr")
# A language with fewer captions than this is not measured.
LEAST = 50
# Captions of captioning models of each data set, drawn at random.
MOST_OF_MODELS = 1000
FALLEN = 100
_TITLES = {"photos": "photos", "stand-in": "stand-ins"}


@dataclass(frozen=True)
class Tower:
    """A fine-tuned backbone and the plain one that it is compared with.

    Attributes:
        name: Name as given.
        own: Its embedder.
        plain: Embedder of the backbone that it was fine-tuned from.
    """

    name: str
    own: Embedder
    plain: Embedder


@dataclass
class Measured:
    """All that was measured, ready for JSON.

    Attributes:
        sets: One per set of captions: drops, false alarms and curves of each backbone.
        models: Data set → backbone → false alarms on captions of captioning models.
        fallen: Backbone → captions of captioning models that lose most, with the share they keep.
        agreement: Title → backbone → τ_c, of MCS and of PR-MCS, times 100.
        search: Title → backbone → R@k of MCS and of PR-MCS, times 100.
        missing: What was not measured, and why.
        seconds: What → time.
    """

    sets: list[dict[str, Any]] = field(default_factory=list)
    models: dict[str, dict[str, StyleAlarms]] = field(default_factory=dict)
    fallen: dict[str, list[tuple[float, str, str]]] = field(default_factory=dict)
    agreement: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    search: dict[str, dict[str, dict[str, tuple[float, float]]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


# -------------------------------------------------------------------------- captions


def caption_sets(
    data: Path, held_out: Path, sample: int
) -> Iterator[tuple[str, Callable[[], list[CaptionSet]]]]:
    """Titles, and what reads their captions."""
    yield "Flickr8k, 83 photos", partial(_of_file, held_out / "photos.jsonl", False, sample)
    yield "Flickr8k test", partial(_of_file, held_out / "english.jsonl", True, sample)
    for slug, title, languages in (
        ("multi30k", "Multi30k test 2016", MULTI30K),
        ("xflickrco", "XFlickrCO test", XFLICKRCO),
    ):
        for language in languages:
            yield f"{title}, {language}", partial(_of_benchmark, slug, title, language, data, sample)
    if (held_out / "dutch.jsonl").is_file():
        yield "Dutch descriptions", partial(_of_file, held_out / "dutch.jsonl", True, sample)
    if (held_out / "xtd10.jsonl").is_file():
        yield "XTD10", partial(_of_file, held_out / "xtd10.jsonl", True, sample)


def _of_file(path: Path, stand_in: bool, sample: int) -> list[CaptionSet]:
    return [one.sample(sample, 0) for one in file_captions(path, stand_in=stand_in)]


def _of_benchmark(slug: str, title: str, language: str, data: Path, sample: int) -> list[CaptionSet]:
    sets = benchmark_captions(slug, language, data_dir=data / slug, stand_in=True)
    return [one.sample(sample, 0) for one in sets]


def model_captions(data: Path, most: int = MOST_OF_MODELS) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Data sets, and what reads captions of captioning models: each once, in lower case, without the stop."""
    for slug, config in (("capeval1k", None), ("composite", "all"), ("thumb", None)):
        yield slug, partial(_model_captions_of, slug, config, data, most)
    yield (
        "polaris",
        lambda: _written(
            [row["mt"] for row in json.loads((data / "polaris" / "polaris_exp_val.json").read_text("utf-8"))],
            most,
        ),
    )


def _model_captions_of(slug: str, config: str | None, data: Path, most: int) -> list[str]:
    rows = load_benchmark(slug, config, split="test", data_dir=data / slug, images=False)
    return _written([row["caption"] for row in rows if row.get("system", "") != "Human"], most)


def _written(captions: Sequence[str], most: int) -> list[str]:
    texts = dict.fromkeys(re.sub(r"[\s.]+$", "", " ".join(text.lower().split())) for text in captions)
    texts.pop("", None)
    found = list(texts)
    chosen = np.random.default_rng(0).permutation(len(found))[:most]
    return [found[row] for row in sorted(chosen)]


def check_untrained(sets: Sequence[CaptionSet], trained: Path) -> int:
    """Raise if a photo is trained and measured on; the number of photos that were compared.

    Raises:
        InputError: names the photo and the data sets.
    """
    measured = {
        photo: f"{one.data} ({one.language})"
        for one in sets
        for name in one.image_ids
        if (photo := photo_of(Path(name).name)) is not None
    }
    with trained.open(encoding="utf-8") as lines:
        for row, line in enumerate(lines):
            name = json.loads(line).get("id", "")
            photo = described_photo(name)
            if photo is not None and photo in measured:
                raise InputError(
                    f"{photo} of {measured[photo]} is trained on, as {name}", row=row, field=str(trained)
                )
    return len(measured)


# -------------------------------------------------------------------------- measuring


def measure_set(title: str, one: CaptionSet, towers: Sequence[Tower], by_degree: int) -> dict[str, Any]:
    """Drops, false alarms and curves of each backbone on one set of captions."""
    plain_name = f"mcs@{towers[0].plain.backbone.name}"
    scorers = {plain_name: MCS(towers[0].plain), **{tower.name: MCS(tower.own) for tower in towers}}
    stand_ins = {plain_name: towers[0].plain, **{tower.name: tower.plain for tower in towers}}
    embedders = stand_ins if one.stand_ins is not None else None
    run = run_robustness(
        one, scorers, RobustnessOptions(kinds=("all",), bootstrap=0), plain_embedders=embedders
    )
    every = run_robustness(
        one,
        scorers,
        RobustnessOptions(kinds=("substitution",), order="every", bootstrap=0),
        plain_embedders=embedders,
    )
    against = {tower.name: (scorers[tower.name], MCS(tower.plain), plain_name) for tower in towers}
    styled = run_alarms(_with_paragraphs(one), against, plain_embedders=embedders)
    curves = run_degrees(one.sample(by_degree, 0), scorers, plain_embedders=embedders)
    results: dict[str, Any] = {}
    for result, moved in zip(run.results, every.results, strict=True):
        drops = {name: part.drop for name, part in result.parts.items()}
        drops["every"] = moved.parts["substitution"].drop if "substitution" in moved.parts else None
        results[result.metric] = {
            "drops": drops,
            "average": None if result.paper is None else result.paper.value("drop_average"),
            "kept": result.original_of_first,
            "recall": {f"R@{k}": value for k, value in result.retrieval.items()},
            "styles": {},
            "curves": plain(curves.curves[result.metric]),
        }
    for part in styled.results:
        results[part.metric]["styles"] = plain(part.styles)
    return {
        "title": title,
        "language": one.language,
        "images": run.images,
        "n_captions": len(one),
        "n_photos": len(set(one.image_ids)),
        "results": results,
        "skipped": {**run.skipped, **styled.skipped, **curves.skipped},
    }


def _with_paragraphs(one: CaptionSet) -> CaptionSet:
    """The captions; where photos have one each, the captions of five photos count as those of one.

    What they describe then belongs to several photos, so MCS is lower; what is kept of it is not.
    """
    if len(set(one.image_ids)) < len(one):
        return one

    return replace(one, image_ids=[one.image_ids[row - row % 5] for row in range(len(one))])


def kept_of_texts(tower: Tower, texts: Sequence[str]) -> np.ndarray:
    """Score of each text as a share of its MCS, with the text itself in place of its photo, (n,)."""
    own, other = (each.texts(list(texts), prefix=each.backbone.prefix) for each in (tower.own, tower.plain))
    return np.maximum(row_cosines(own.matrix, own.index, other.matrix, other.index), 0)


def measure_models(found: Measured, data: Path, towers: Sequence[Tower], most: int) -> None:
    """False alarms on captions of captioning models, and those that fall most."""
    lost: dict[str, list[tuple[float, str, str]]] = {tower.name: [] for tower in towers}
    for slug, read in model_captions(data, most):
        try:
            texts = read()
        except (CapscoreError, OSError) as error:
            found.missing[f"captions of captioning models, {slug}"] = str(error).splitlines()[0]
            continue
        found.models[slug] = {}
        for tower in towers:
            kept = kept_of_texts(tower, texts)
            found.models[slug][tower.name] = alarms(kept, np.ones(len(kept)))
            lost[tower.name] += [(float(share), slug, text) for share, text in zip(kept, texts, strict=True)]
    found.fallen = {name: sorted(rows)[:FALLEN] for name, rows in lost.items()}
    if any(lost.values()):
        found.models["all"] = {
            name: alarms(np.array([row[0] for row in rows]), np.ones(len(rows)))
            for name, rows in lost.items()
        }


def measure_agreement(found: Measured, data: Path, photos: Path | None, towers: Sequence[Tower]) -> None:
    """τ_c with Flickr8k-Expert's ratings, by photos and by references."""
    made: dict[str, type[BackboneScorer]] = {"references": TextScore}
    if photos is not None:
        made["photos"] = MCS
    else:
        found.missing["Flickr8k-Expert by photos"] = "no --photos"
    for how, scorer in made.items():
        title = f"Flickr8k-Expert τ_c, by {how}"
        found.agreement[title] = {}
        for tower in towers:
            run = run_benchmark(
                "flickr8k_human",
                "expert",
                data_dir=data / "flickr8k",
                image_dir=photos / "flickr8k" if photos is not None and how == "photos" else None,
                metrics={
                    f"{scorer.metric}@plain": partial(scorer, tower.plain),
                    f"{scorer.metric}@own": partial(scorer, tower.own),
                },
                options=TaskOptions(bootstrap=0),
            )
            values = [
                next(each.value for each in result.outcome.statistics if each.name == "tau_c")
                for result in run.results
            ]
            found.agreement[title][tower.name] = (100 * values[0], 100 * values[1])


def measure_search(found: Measured, data: Path, photos: Path | None, towers: Sequence[Tower]) -> None:
    """R@k of the captions of Flickr8k's test photos among these photos."""
    if photos is None:
        found.missing["search among Flickr8k's test photos"] = "no --photos"
        return
    names = sorted(listed_photos(AnnotationSource(data / "flickr8k" / "Flickr_8k.testImages.txt")))
    files = [photos / "flickr8k" / name for name in names]
    gone = [file for file in files if not file.is_file()]
    if gone:
        raise InputError(f"{len(gone):,} of {len(files):,} photos are missing, such as {gone[0]}")
    place = {name: number for number, name in enumerate(names)}
    captions = [
        (place[line.photo], line.text)
        for line in token_captions(AnnotationSource(data / "flickr8k" / "Flickr8k.token.txt"))
        if line.photo in place
    ]
    title = f"search among {len(files):,} test photos of Flickr8k, en"
    found.search[title] = {}
    for tower in towers:
        both = [rank_photos(each, each.images(files), captions) for each in (tower.plain, tower.own)]
        found.search[title][tower.name] = {
            f"R@{k}": tuple(100 * float((ranked.rank <= k).mean()) for ranked in both) for k in KS
        }


def measure(
    towers: Sequence[Tower],
    data: Path,
    photos: Path | None,
    held_out: Path,
    *,
    sample: int = 500,
    by_degree: int = 100,
    of_models: int = MOST_OF_MODELS,
    trained: Path | None = None,
) -> Measured:
    """Everything; what cannot be measured says why."""
    found = Measured()
    sets: list[tuple[str, CaptionSet]] = []
    for title, read in caption_sets(data, held_out, sample):
        try:
            sets += [(title, one) for one in read() if len(one) >= min(LEAST, sample)]
        except CapscoreError as error:
            found.missing[title] = str(error).splitlines()[0]
    if trained is not None:
        print(
            f"{check_untrained([one for _, one in sets], trained):,} photos: none is in {trained}", flush=True
        )

    def timed(what: str, made: Callable[[], Any]) -> None:
        start = time.perf_counter()
        try:
            made()
        except CapscoreError as error:
            found.missing[what] = str(error).splitlines()[0]
        found.seconds[what] = round(time.perf_counter() - start, 1)
        print(f"{what}: {found.seconds[what]:.0f} s", flush=True)

    timed("captions of captioning models", lambda: measure_models(found, data, towers, of_models))
    for title, one in sets:
        timed(
            f"{title}, {one.language}" if not title.endswith(one.language) else title,
            lambda title=title, one=one: found.sets.append(measure_set(title, one, towers, by_degree)),
        )
    timed("agreement", lambda: measure_agreement(found, data, photos, towers))
    timed("search", lambda: measure_search(found, data, photos, towers))
    return found


# ---------------------------------------------------------------------------- tables


def markdown(found: Measured, towers: Sequence[Tower]) -> str:
    """All tables."""
    names = [tower.name for tower in towers]
    parts = [_drops(found), _unseen(found), *(_styles(found, name) for name in names)]
    parts += [_models(found), *(_curves(found, name) for name in names), _rest(found, names)]
    if found.missing:
        parts.append(
            "\n".join(["Not measured:", "", *(f"- {name}: {why}" for name, why in found.missing.items())])
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """A Markdown table with so many columns on the left."""
    rule = "|".join(["---"] * left + ["---:"] * (len(heads) - left))
    return "\n".join(f"| {' | '.join(row)} |" if row else f"|{rule}|" for row in [heads, (), *rows])


def percent(value: float | None, sign: str = "") -> str:
    """A share times 100.

    >>> percent(-0.5, "+"), percent(0.015), percent(None)
    ('−50.0', '1.5', '')
    """
    return "" if value is None else f"{100 * value:{sign}.1f}".replace("-", "−")


def _where(one: dict[str, Any]) -> str:
    return f"{one['title']}, {one['n_captions']} captions, {_TITLES[one['images']]}"


def _drops(found: Measured) -> str:
    heads = ["language", "captions", "metric", *KINDS, "every object moved", "average", "mean kept"]
    rows = [
        [
            one["language"],
            _where(one),
            name,
            *(percent(result["drops"].get(kind), "+") for kind in (*KINDS, "every")),
            percent(result["average"], "+"),
            percent(result["kept"]),
        ]
        for one in found.sets
        for name, result in one["results"].items()
    ]
    return f"Change of the mean score, in percent:\n\n{table(heads, rows, 3)}"


def _unseen(found: Measured) -> str:
    rows = [
        [
            one["language"],
            one["title"],
            name,
            *(percent(result["drops"].get(kind), "+") for kind in UNSEEN_KINDS),
        ]
        for one in found.sets
        for name, result in one["results"].items()
    ]
    heads = ["language", "captions", "metric", *UNSEEN_KINDS]
    return f"Kinds that were not trained on:\n\n{table(heads, rows, 3)}"


def _styles(found: Measured, name: str) -> str:
    rows = []
    for one in found.sets:
        styles = one["results"][name]["styles"]
        for what in ("below_half", "kept"):
            cells = [percent(styles.get(style, {}).get(what)) for style in STYLES]
            rows.append([one["language"], one["title"], what.replace("_", " "), *cells])
    return (
        f"`{name}`: right captions in each style, the share below half of their MCS and the mean kept, in "
        f"percent:\n\n{table(['language', 'captions', '', *STYLES], rows, 3)}"
    )


def _models(found: Measured) -> str:
    rows = [
        [slug, name, f"{part.n:,}", percent(part.below_half), percent(part.kept)]
        for slug, by_tower in found.models.items()
        for name, part in by_tower.items()
    ]
    heads = ["captions", "metric", "n", "below half", "mean kept"]
    return f"Captions of captioning models, in lower case without the stop:\n\n{table(heads, rows, 2)}"


def _curves(found: Measured, name: str) -> str:
    rows = []
    heads = ["language", "captions", "kind", "n"]
    for one in found.sets:
        for kind, curve in one["results"][name]["curves"].items():
            heads = [*heads[:4], *(f"{degree:g}" for degree in curve["degrees"]), "ρ", "ρ each"]
            rhos = [_rho(curve[key]) for key in ("of_means", "of_captions")]
            drops = [percent(drop, "+") for drop in curve["drops"]]
            rows.append([one["language"], one["title"], kind, str(curve["n"]), *drops, *rhos])
    return f"`{name}` by degree, change of the mean score in percent:\n\n{table(heads, rows, 3)}"


def _rho(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".replace("-", "−")


def _rest(found: Measured, names: Sequence[str]) -> str:
    rows = []
    for title, by_tower in found.agreement.items():
        rows += [[title, name, *_pair(*by_tower[name])] for name in names if name in by_tower]
    for title, by_name in found.search.items():
        for name in names:
            rows += [[f"{title}, {k}", name, *_pair(*values)] for k, values in by_name[name].items()]
    return table(["measure", "metric", "MCS", "PR-MCS", "difference"], rows, 2) if rows else ""


def _pair(before: float, after: float) -> list[str]:
    return [f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}".replace("-", "−")]


def fallen_text(found: Measured) -> str:
    """The captions of captioning models that lose most, a line each: share kept, data set, text."""
    lines = []
    for name, rows in found.fallen.items():
        lines.append(f"# {name}")
        lines += [f"{share:.3f}\t{slug}\t{text}" for share, slug, text in rows]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m weights.measuring.pr_mcs_alarms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the official files")
    parser.add_argument("--held-out", type=Path, required=True, help="folder of weights.measuring.held_out")
    parser.add_argument("--photos", type=Path, help="folder with Flickr8k's photos, flickr8k")
    parser.add_argument("--backbone", action="append", help="default: embedded-pr-mcs; repeatable")
    parser.add_argument(
        "--trained", type=Path, help="captions of the training, to check that none is measured"
    )
    parser.add_argument("--sample", type=int, default=500, help="captions per set (default: 500)")
    parser.add_argument(
        "--of-models",
        type=int,
        default=MOST_OF_MODELS,
        help="captions of models per data set (default: 1000)",
    )
    parser.add_argument("--by-degree", type=int, default=100, help="captions per curve (default: 100)")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    parser.add_argument("--fallen", type=Path, help="write the captions that lose most to this file")
    parser.add_argument("--output", type=Path, help="write the numbers to this JSON file")
    given = parser.parse_args(argv)
    for category in (capscore.BenchmarkWarning, capscore.LanguageWarning):
        warnings.simplefilter("ignore", category)
    try:
        cache = resolve_cache(None)
        plains: dict[str, Embedder] = {}
        towers = []
        for spec in given.backbone or ["embedded-pr-mcs"]:
            own = Embedder(capscore.load_backbone(spec), cache=cache)
            base = plain_backbone(spec)
            if base not in plains:
                plains[base] = Embedder(capscore.load_backbone(base), cache=cache)
            towers.append(Tower(Path(spec).name, own, plains[base]))
        if len(plains) > 1:
            raise InputError(f"--backbone: one base is expected, not {', '.join(plains)}")
        found = measure(
            towers,
            given.data,
            given.photos,
            given.held_out,
            sample=given.sample,
            by_degree=given.by_degree,
            of_models=given.of_models,
            trained=given.trained,
        )
        tables = markdown(found, towers)
        if given.markdown:
            write_text(given.markdown, tables, "tables")
        if given.fallen:
            write_text(given.fallen, fallen_text(found), "captions")
        if given.output:
            said = {"backbones": [f"{t.own.backbone.name}@{t.own.backbone.revision}" for t in towers]}
            write_text(
                given.output,
                json.dumps({**said, **plain(vars(found))}, ensure_ascii=False, indent=1) + "\n",
                "numbers",
            )
    except CapscoreError as error:
        parser.exit(1, f"pr_mcs_alarms: {error}\n")
    print(tables)


if __name__ == "__main__":
    main()
