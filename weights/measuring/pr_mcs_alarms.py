"""Measures weights of PR-MCS: drops, false alarms, curves by degree, what is kept of captions; beside MCS.

    python -m weights.measuring.pr_mcs_alarms --data DATA --held-out held_out \
        --backbone embedded-pr-mcs --backbone runs/pr-mcs-published --markdown pr_mcs.md --output pr_mcs.json

In: fine-tuned backbones, the official files (folders multi30k, xflickrco, and, for the captions of captioning
models, capeval1k, composite, polaris, thumb), and the files of `weights.measuring.held_out`. Out: the tables
of `capscore robustness` for each set of captions, and what the other parts give. What is not there is listed
as not measured.

Each backbone is compared with MCS on the backbone that it was fine-tuned from. Where there are no photos, an
English caption replaces each, embedded by that plain backbone: scores of a tuned tower and of its base are
comparable only if both look at the same thing. A caption of a captioning model replaces its own photo, so
that MCS is full and the score is the share that is kept.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import capscore
from capscore.benchmarks.robustness import CaptionSet, Robustness, RobustnessOptions, SetResult, file_captions
from capscore.benchmarks.robustness.run import alarms, measure, measure_degrees, measure_styles
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import EmbeddedRows, Embedder
from capscore.errors import InputError
from capscore.infometic.words import caption_words
from capscore.metrics.mcs import MCS
from capscore.metrics.with_backbone import row_cosines
from capscore.statistics.bootstrap import NO_INTERVALS
from capscore.tables import Report, Table
from weights.making.held_out import official_rows
from weights.making.settings import command

from .figures import FILES, MaybePath, in_percent, noting, read_rows, write_results
from .held_out import SHARED, translated

LEAST = 50  # a language with fewer captions is not measured
SAMPLE, BY_DEGREE, OF_MODELS = 500, 100, 1000  # captions of a set, of a curve, of models per data set
REPLACED = "no photo was opened: an English caption, embedded by the plain tower, replaces it"
MODELS = {  # data set → its configuration and split
    "capeval1k": (None, "test"),
    "composite": ("all", "test"),
    "thumb": (None, "test"),
    "polaris": ("explained", "validation"),
}
TRANSLATED = {"multi30k": ("de", "fr", "cs"), "xflickrco": ("de", "es", "ja", "zh", "ru", "tr")}

Towers = Mapping[str, Embedder]  # name → fine-tuned backbone
Measured = dict[str, SetResult]  # of a set of captions: as published, and with every object moved


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
            yield f"{slug}, {language}", partial(translated_with_texts, slug, language, data)


def with_texts(data: str, language: str, rows: Iterable[tuple[str, str, str]]) -> CaptionSet:
    """Rows of caption, photo, and text that replaces the photo → a set."""
    captions, photos, texts = (list(column) for column in zip(*rows, strict=True))
    return CaptionSet(data, "", "", language, captions, photos, texts, notes=(REPLACED,))


def file_with_texts(path: Path) -> list[CaptionSet]:
    """The captions of a file of `weights.measuring.held_out`, each with a text in place of its photo."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for row in read_rows(path, "language", "caption", "stand_in"):
        own = (row["caption"], row["stand_in"], row["stand_in"])
        found.setdefault(row["language"], []).append(own)
    return [with_texts(path.name, language, rows) for language, rows in found.items()]


def translated_with_texts(slug: str, language: str, data: Path) -> list[CaptionSet]:
    """The captions of a benchmark's language, with the first English caption in place of each photo."""
    split, _ = SHARED[slug]
    first = dict(reversed(translated(data, slug, "en", splits=(split,))))
    found = translated(data, slug, language, splits=(split,))
    own = dict.fromkeys((caption, photo, first[photo]) for photo, caption in found)
    return [with_texts(slug, language, own)]


def model_captions(slug: str, data: Path) -> list[str]:
    """The captions of a data set that captioning models wrote."""
    rows = official_rows(data, slug, *MODELS[slug])
    return [row["caption"] for row in rows if row.get("system", "") != "Human"]


def written_alike(captions: Iterable[str], most: int = OF_MODELS) -> list[str]:
    """Some captions, each once, in lower case and without the stop."""
    plain = (re.sub(r"[\s.]+$", "", " ".join(text.lower().split())) for text in captions)
    texts = [text for text in dict.fromkeys(plain) if text]
    chosen = np.random.default_rng(0).permutation(len(texts))[:most]
    return [texts[row] for row in sorted(chosen)]


def measure_set(captions: CaptionSet, towers: Towers, plain: Embedder) -> Measured:
    """Drops of each backbone on a set of captions, as published with styles and degrees."""

    def scorer(embedder: Embedder) -> MCS:
        return MCS(TextsForPhotos(embedder, plain) if REPLACED in captions.notes else embedder)

    plain_name, tuned = f"mcs@{plain.backbone.name}", {name: scorer(own) for name, own in towers.items()}
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


def measure_sets(
    towers: Towers, plain: Embedder, data: Path, held_out: Path, missing: dict[str, str]
) -> list[Measured]:
    found = []
    for title, read in caption_sets(data, held_out):
        with noting(missing, title):
            for captions in read():
                if len(captions) >= LEAST:
                    with noting(missing, f"{title}, {captions.language}"):
                        found.append(measure_set(captions.sample(SAMPLE, 0), towers, plain))
    return found


def texts_to_keep(data: Path, held_out: Path, missing: dict[str, str]) -> dict[str, list[str]]:
    """Captions of models by their data set, and all of them; English captions by what is done to them."""
    found: dict[str, list[str]] = {}
    for slug in MODELS:
        with noting(missing, f"captions of captioning models, {slug}"):
            found[slug] = written_alike(model_captions(slug, data))
    if found:
        found["all"] = [text for texts in found.values() for text in texts]
    with noting(missing, "captions that game a metric"):
        (english,) = (part for part in file_captions(held_out / "photos.jsonl") if part.language == "en")
        found |= gaming(list(dict.fromkeys(english.captions)))
    return found


def kept_of_texts(towers: Towers, plain: Embedder, texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Backbone → false alarms in texts, each of which is in place of its photo, so that MCS is full."""
    found = {}
    other = plain.texts(list(texts), prefix=plain.backbone.prefix)
    for name, tower in towers.items():
        own = tower.texts(list(texts), prefix=tower.backbone.prefix)
        kept = np.maximum(row_cosines(own.matrix, own.index, other.matrix, other.index), 0)
        found[name] = alarms(kept, np.ones(len(kept)))
    return found


def tables(sets: Sequence[Measured], texts: Mapping[str, Any]) -> Iterator[Table | Report]:
    for data in dict.fromkeys(part["every_kind"].captions.data for part in sets):
        own = [part.values() for part in sets if part["every_kind"].captions.data == data]
        for column in zip(*own, strict=True):
            yield Robustness(list(column)).report()
    rows = []
    for title, by_name in texts.items():
        for name, part in by_name.items():
            shares = in_percent(part["below_half"]), in_percent(part["kept"])
            rows.append([title, name, f"{part['n']:,}", *shares])
    said = "Captions of models, in lower case without the stop, and English ones changed, in percent"
    yield Table(["captions", "metric", "n", "below half", "mean kept"], rows, said, 2)


@command(
    data="folder of the official files",
    held_out="folder of weights.measuring.held_out",
    backbone="name or folder; repeatable; default: embedded-pr-mcs",
    **FILES,
)
def main(data: Path, held_out: Path, backbone: list[str] | None, **files: MaybePath) -> None:
    for category in (capscore.BenchmarkWarning, capscore.LanguageWarning):
        warnings.simplefilter("ignore", category)
    tuned = {spec: capscore.load_backbone(spec) for spec in backbone or ["embedded-pr-mcs"]}
    base, *others = {tower.tuned_from or spec for spec, tower in tuned.items()}
    if others:
        raise InputError(f"--backbone: one base is expected, not {', '.join(sorted([base, *others]))}")
    cache, missing = resolve_cache(None), dict[str, str]()
    plain = Embedder(capscore.load_backbone(base), cache=cache)
    towers = {Path(spec).name: Embedder(tower, cache=cache) for spec, tower in tuned.items()}
    sets = measure_sets(towers, plain, data, held_out, missing)
    listed = texts_to_keep(data, held_out, missing)
    texts = {title: kept_of_texts(towers, plain, own) for title, own in listed.items()}
    document = {
        "backbones": [f"{own.backbone.name}@{own.backbone.revision}" for own in towers.values()],
        "sets": [{name: Robustness([one]).to_dict() for name, one in part.items()} for part in sets],
        "texts": texts,
        "missing": missing,
    }
    write_results(files, document, [*tables(sets, texts)], missing)


if __name__ == "__main__":
    main()
