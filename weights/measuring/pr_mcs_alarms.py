"""Measures weights of PR-MCS: drops, false alarms, curves by degree, what is kept of captions; beside MCS.

    python -m weights.measuring.pr_mcs_alarms --data DATA --held-out held_out \
        --backbone embedded-pr-mcs --backbone runs/pr-mcs-published --markdown pr_mcs.md --output pr_mcs.json

In: fine-tuned backbones, the official files (folders multi30k, xflickrco, and, for the captions of captioning
models, capeval1k, composite, polaris, thumb), and the files of `weights.measuring.held_out`. Out: the tables
of `capscore robustness` for each set of captions, and what the other parts give, in one JSON file and one of
Markdown. Agreement with people, and search, are those of `weights.measuring.image_tower`.

Each backbone is compared with MCS on the backbone that it was fine-tuned from. Where there are no photos, an
English caption replaces each, embedded by that plain backbone: scores of a tuned tower and of its base are
comparable only if both look at the same thing. A caption of a captioning model replaces its own photo, so
that MCS is full and the score is the share that is kept. What is not there is listed as not measured.
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
from capscore.benchmarks.reading import Configuration, read_benchmark
from capscore.benchmarks.robustness import (
    CaptionSet,
    Robustness,
    RobustnessOptions,
    SetResult,
    file_captions,
)
from capscore.benchmarks.robustness.run import alarms, measure, measure_degrees, measure_styles
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import EmbeddedRows, Embedder
from capscore.errors import CapscoreError, InputError
from capscore.infometic.words import caption_words
from capscore.metrics.mcs import MCS
from capscore.metrics.with_backbone import row_cosines
from capscore.statistics.bootstrap import NO_INTERVALS
from capscore.tables import Report, Table
from training.engine.config import main as run_as_command

from .figures import percent, study_parser, write_results

LEAST = 50  # a language with fewer captions is not measured
SAMPLE, BY_DEGREE, OF_MODELS = 500, 100, 1000  # captions of a set, of a curve, of models per data set
REPLACED = "no photo was opened: an English caption, embedded by the plain tower, replaces it"
MODELS = ("capeval1k", "composite", "thumb", "polaris")
TRANSLATED = {"multi30k": ("de", "fr", "cs"), "xflickrco": ("de", "es", "ja", "zh", "ru", "tr")}


class Tower(NamedTuple):
    """A fine-tuned backbone, and the plain one that it was fine-tuned from."""

    name: str
    own: Embedder
    plain: Embedder


class TextsForPhotos(Embedder):
    """An embedder of captions whose photos are texts, which the plain backbone embeds."""

    def __init__(self, own: Embedder, plain: Embedder) -> None:
        super().__init__(own.backbone, cache=own.cache)
        self.plain = plain

    def images(self, images: Sequence[str], **how: Any) -> EmbeddedRows:
        return self.plain.texts(list(images), prefix=self.plain.backbone.prefix)


def caption_sets(data: Path, held_out: Path) -> Iterator[tuple[str, Callable[[], list[CaptionSet]]]]:
    yield "photos", partial(file_captions, held_out / "photos.jsonl")
    for name in ("english", "dutch", "xtd10"):
        yield name, partial(file_with_texts, held_out / f"{name}.jsonl")
    for slug, languages in TRANSLATED.items():
        for language in languages:
            yield f"{slug}, {language}", partial(translated_with_texts, slug, language, data / slug)


def with_texts(data: str, rows: Iterable[tuple[str, str, str, str]]) -> list[CaptionSet]:
    """Rows of (language, caption, photo, text that replaces the photo) → a set per language."""
    found: dict[str, CaptionSet] = {}
    for language, caption, photo, text in rows:
        new = CaptionSet(data, "", "", language, [], [], [], notes=(REPLACED,))
        captions = found.setdefault(language, new)
        captions.captions.append(caption)
        captions.image_ids.append(photo)
        captions.images.append(text)
    return list(found.values())


def file_with_texts(path: Path) -> list[CaptionSet]:
    """The captions of a file of `weights.measuring.held_out`, each with a text in place of its photo."""
    rows = []
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        rows.append((row["language"], row["caption"], row["stand_in"], row["stand_in"]))
    return with_texts(path.name, rows)


def translated_with_texts(slug: str, language: str, folder: Path) -> list[CaptionSet]:
    """The captions of a benchmark's language, with the first English caption in place of each photo."""
    english: dict[str, str] = {}
    _, rows = read_benchmark(Configuration(slug, "en", folder), images=False)
    for _, row in rows:
        english.setdefault(row["image_id"], row["references"][0])
    _, rows = read_benchmark(Configuration(slug, language, folder), images=False)
    found = []
    for _, row in rows:
        photo = row["image_id"]
        found += [(language, caption, photo, english[photo]) for caption in row["references"]]
    return with_texts(slug, dict.fromkeys(found))


def model_captions(slug: str, data: Path) -> list[str]:
    """The captions of a data set that captioning models wrote."""
    if slug == "polaris":
        text = (data / slug / "polaris_exp_val.json").read_text(encoding="utf-8")
        return [row["mt"] for row in json.loads(text)]
    config = "all" if slug == "composite" else None
    rows = load_benchmark(slug, config, split="test", data_dir=data / slug, images=False)
    return [row["caption"] for row in rows if row.get("system", "") != "Human"]


def written_alike(captions: Iterable[str], most: int = OF_MODELS) -> list[str]:
    """Some captions, each once, in lower case and without the stop."""
    plain = (re.sub(r"[\s.]+$", "", " ".join(text.lower().split())) for text in captions)
    texts = [text for text in dict.fromkeys(plain) if text]
    chosen = np.random.default_rng(0).permutation(len(texts))[:most]
    return [texts[row] for row in sorted(chosen)]


def measure_set(captions: CaptionSet, towers: Sequence[Tower]) -> dict[str, SetResult]:
    """Drops of each backbone on a set of captions: as published, with styles and degrees, and with every
    object moved."""
    plain = towers[0].plain

    def scorer(embedder: Embedder) -> MCS:
        return MCS(TextsForPhotos(embedder, plain) if REPLACED in captions.notes else embedder)

    plain_name = f"mcs@{plain.backbone.name}"
    tuned = {tower.name: scorer(tower.own) for tower in towers}
    scorers = {plain_name: scorer(plain), **tuned}
    every = RobustnessOptions(kinds=("all",), sampling=NO_INTERVALS)
    moved = RobustnessOptions(kinds=("substitution",), order="every", sampling=NO_INTERVALS)
    against = dict.fromkeys(tuned, (plain_name, scorers[plain_name]))
    found = replace(
        measure(captions, scorers, every),
        styles=measure_styles(_with_paragraphs(captions), scorers, against),
        degrees=measure_degrees(captions.sample(BY_DEGREE, 0), scorers, every),
    )
    return {"every_kind": found, "every_object_moved": measure(captions, scorers, moved)}


def _with_paragraphs(captions: CaptionSet) -> CaptionSet:
    """The captions; where photos have one each, the captions of five photos count as those of one.

    What they describe then belongs to several photos, so MCS is lower; what is kept of it is not.
    """
    if len(set(captions.image_ids)) < len(captions):
        return captions
    ids = captions.image_ids
    return replace(captions, image_ids=[ids[row - row % 5] for row in range(len(ids))])


def gaming(captions: Sequence[str]) -> dict[str, list[str]]:
    """English captions as no one describes a photo, though their words are right.

    >>> for name, (text,) in gaming(["A dog chases a ball."]).items():
    ...     print(f"{name}: {text}")
    its words in a list: dog, chases, ball
    said twice: A dog chases a ball. A dog chases a ball.
    a dangling end: A dog chases a ball on
    """
    bare = [caption.rstrip(" .") for caption in captions]
    listed = [[word.text for word in words if word.semantic] for words in caption_words(bare, "en")]
    return {
        "its words in a list": [", ".join(words) for words in listed],
        "said twice": [f"{text}. {text}." for text in bare],
        "a dangling end": [f"{text} on" for text in bare],
    }


def kept_of_texts(tower: Tower, texts: Sequence[str]) -> np.ndarray:
    """Score of each text as a share of its MCS, with the text itself in place of its photo, (n,)."""
    own, other = (each.texts(list(texts), prefix=each.backbone.prefix) for each in (tower.own, tower.plain))
    return np.maximum(row_cosines(own.matrix, own.index, other.matrix, other.index), 0)


class Study:
    """What is measured of some backbones, and in `missing` what cannot be measured, and why."""

    def __init__(self, towers: Sequence[Tower]) -> None:
        self.towers = towers
        self.sets: list[dict[str, SetResult]] = []
        self.models: dict[str, dict[str, Any]] = {}  # data set → backbone → false alarms
        self.gaming: dict[str, dict[str, float]] = {}  # what is done to captions → backbone → share kept
        self.missing: dict[str, str] = {}

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """A block that cannot be measured is missing, and the next block goes on."""
        try:
            yield
        except (CapscoreError, OSError) as error:
            self.missing[what] = str(error).splitlines()[0]

    def measure_sets(self, data: Path, held_out: Path) -> None:
        """Drops, false alarms and curves on every set of captions."""
        for title, read in caption_sets(data, held_out):
            with self.noting(title):
                for captions in (part.sample(SAMPLE, 0) for part in read() if len(part) >= LEAST):
                    with self.noting(f"{title}, {captions.language}"):
                        self.sets.append(measure_set(captions, self.towers))

    def measure_models(self, data: Path) -> None:
        kept: dict[str, list[np.ndarray]] = {tower.name: [] for tower in self.towers}
        for slug in MODELS:
            with self.noting(f"captions of captioning models, {slug}"):
                texts = written_alike(model_captions(slug, data))
                for tower in self.towers:
                    kept[tower.name].append(kept_of_texts(tower, texts))
                self.models[slug] = {name: _alarms(parts[-1]) for name, parts in kept.items()}
        if self.models:
            self.models["all"] = {name: _alarms(np.concatenate(parts)) for name, parts in kept.items()}

    def measure_gaming(self, held_out: Path) -> None:
        """Shares that are kept of English captions which were changed as no one writes them."""
        with self.noting("captions that game a metric"):
            (english,) = (part for part in file_captions(held_out / "photos.jsonl") if part.language == "en")
            for name, texts in gaming(list(dict.fromkeys(english.captions))).items():
                kept = {tower.name: kept_of_texts(tower, texts) for tower in self.towers}
                self.gaming[name] = {tower: float(values.mean()) for tower, values in kept.items()}

    def document(self) -> dict[str, Any]:
        names = [f"{tower.own.backbone.name}@{tower.own.backbone.revision}" for tower in self.towers]
        sets = []
        for measured in self.sets:
            sets.append({name: Robustness([one]).to_dict() for name, one in measured.items()})
        parts = {name: getattr(self, name) for name in ("models", "gaming", "missing")}
        return {"backbones": names, "sets": sets, **parts}

    def markdown(self) -> str:
        reports: list[Report] = []
        for data in dict.fromkeys(part["every_kind"].captions.data for part in self.sets):
            own = [part.values() for part in self.sets if part["every_kind"].captions.data == data]
            reports += [Robustness(list(column)).report() for column in zip(*own, strict=True)]
        kept = []
        for slug, by_name in self.models.items():
            for name, part in by_name.items():
                kept.append(
                    [slug, name, f"{part['n']:,}", percent(part["below_half"]), percent(part["kept"])]
                )
        for changed, shares in self.gaming.items():
            kept += [[changed, name, "", "", percent(share)] for name, share in shares.items()]
        said = "Captions of models, in lower case without the stop, and English ones changed, in percent"
        parts: list[Table | str] = [
            Table(["captions", "metric", "n", "below half", "mean kept"], kept, said, 2),
            *(f"not measured: {what}: {why}" for what, why in self.missing.items()),
        ]
        return "\n".join(report.markdown() for report in [*reports, Report("", parts)])


def _alarms(kept: np.ndarray) -> dict[str, Any]:
    return alarms(kept, np.ones(len(kept)))


def main(argv: Sequence[str] | None = None) -> None:
    parser = study_parser("pr_mcs_alarms", __doc__)
    parser.add_argument("--held-out", type=Path, required=True, help="folder of weights.measuring.held_out")
    parser.add_argument("--backbone", action="append", help="default: embedded-pr-mcs; repeatable")
    given = parser.parse_args(argv)
    for category in (capscore.BenchmarkWarning, capscore.LanguageWarning):
        warnings.simplefilter("ignore", category)
    specs = given.backbone or ["embedded-pr-mcs"]
    tuned = [capscore.load_backbone(spec) for spec in specs]
    base, *others = {backbone.tuned_from or spec for backbone, spec in zip(tuned, specs, strict=True)}
    if others:
        raise InputError(f"--backbone: one base is expected, not {', '.join(sorted([base, *others]))}")
    cache = resolve_cache(None)
    plain = Embedder(capscore.load_backbone(base), cache=cache)
    own = [Embedder(backbone, cache=cache) for backbone in tuned]
    study = Study([Tower(Path(spec).name, each, plain) for spec, each in zip(specs, own, strict=True)])
    study.measure_sets(given.data, given.held_out)
    study.measure_models(given.data)
    study.measure_gaming(given.held_out)
    write_results(given, study.document(), study.markdown())


if __name__ == "__main__":
    run_as_command(main)
