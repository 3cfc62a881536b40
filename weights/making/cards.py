"""Cards of the shipped weights: from a recipe's run, and with figures that were measured later.

    python -m weights.making.cards --weights runs/image_tower --figures build/training/image_tower.json

In: a folder of the recipe of the image tower, and the file that `weights.measuring.image_tower` writes with
`--output`. Out: its card, with the figures of these weights as its results; those of other weights are
refused.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from capscore import load_backbone
from capscore.backbones.embedded.text_encoder import LANGUAGES
from capscore.errors import InputError
from training.data.source import DataSource, Origin
from training.engine.config import main as run_as_command
from training.engine.model_card import ModelCard, Result, read_card, write_card
from training.engine.recipe import card_of, command_of
from weights.making.captions import describe
from weights.making.held_out import HeldOut
from weights.making.image_tower.rows import COCO, FLICKR8K, SOURCES, TrainingRows
from weights.making.image_tower.settings import TowerSettings
from weights.making.jsonl import beside
from weights.making.mark_calibration.settings import MarkCalibrationSettings
from weights.making.noise_gate.settings import NoiseGateSettings
from weights.making.sources import source_named

_PHOTOS = {FLICKR8K: "flickr8k-photos", COCO: "coco-train2014-photos"}
_NOT_ON_CARD = ("out", "name", "license", "features", "texts", "rows", "boxes")
_DETECTOR = DataSource(**source_named("yolox-nano").described(None), used_for="finding things")
_STATED = beside(__file__, "cards.yaml")
_NAMES = DataSource(**_STATED["names of things"])
_RATED_SETS: Mapping[str, tuple[str, str]] = _STATED["rated sets"]
_NOT_SEEN = "Other languages of the text encoder, and photos of other kinds than Flickr's and COCO's."
_RATED = ("tau_b", "tau_c", "accuracy_hc", "accuracy_hi", "accuracy_hm", "accuracy_mm")


def _card(
    settings: Any, files: Sequence[str], held_out: str, w: float | None = None, **others: Any
) -> ModelCard:
    """A card with what the settings and the origins of files say; others: further fields of `ModelCard`."""
    known = asdict(settings) | ({} if w is None else {"w": w})
    stated = {name: value for name, value in known.items() if name not in _NOT_ON_CARD}
    origins = [Origin(path, Path(path).name, "unknown") for path in files]
    return card_of(settings, Path(settings.out), origins, [held_out], **{"settings": stated, **others})


def image_tower_card(
    settings: TowerSettings, rows: TrainingRows, held: HeldOut, *, w: float, compute: str
) -> ModelCard:
    trained_with = f"{len(rows.photos):,} photos and the captions of {len(rows.texts):,} more"
    return _card(
        settings,
        [],
        held.statement(),
        w,
        base="EfficientNet-Lite2 (ImageNet) and the text encoder of embedded-free",
        languages=sorted({language for _, language in rows.counts if language in LANGUAGES}),
        data=image_tower_data(settings, rows),
        limitations=[f"It was trained with {trained_with}."],
        compute=compute,
    )


def image_tower_data(settings: TowerSettings, rows: TrainingRows) -> list[DataSource]:
    """The photos and captions of the rows by their sources, with licences and counts."""
    photos = Counter(row.source for row in rows.photos)
    found = [
        DataSource(**source_named(name).described(photos[source]))
        for source, name in _PHOTOS.items()
        if photos[source]
    ]
    official: dict[str, Counter[str]] = defaultdict(Counter)
    others: Counter[str] = Counter()
    for (source, language), n in rows.counts.items():
        if source in SOURCES:
            official[language][source] += n
        else:
            others[source] += n
    found += [DataSource(**source) for source in describe(official)]
    if others[COCO]:
        found.append(DataSource("COCO Captions", "CC BY 4.0", others[COCO], "https://cocodataset.org"))
    for path in map(Path, settings.coco):
        if others[path.name]:
            origin = Origin(str(path), path.name, "unknown")
            origin.n = others[path.name]
            found += origin.described()
    return found


def noise_gate_card(settings: NoiseGateSettings, *, results: Sequence[Result], compute: str) -> ModelCard:
    share = f"{settings.validation_share:.0%}"
    return _card(
        settings,
        settings.texts,
        f"the captions of {share} of the photos, for the validation below",
        base=settings.base,
        languages=sorted(settings.language_shares),
        results=results,
        not_measured=["Agreement with human ratings."],
        compute=compute,
    )


def validation_results(
    numbers: Mapping[str, float], languages: Mapping[str, tuple[int, float]], n: int
) -> list[Result]:
    """The numbers of `NoiseGateCheck` over n samples, and by language, → results for the card."""
    entries = [(metric, value, "", n) for metric, value in numbers.items()]
    entries += [("kept_right", kept, language, rows) for language, (rows, kept) in languages.items()]
    command = command_of(NoiseGateSettings.module)
    return [
        Result(
            "validation captions", metric, value, command, metric.replace("_", " "), "share", code, rows=rows
        )
        for metric, value, code, rows in entries
    ]


def mark_calibration_card(
    settings: MarkCalibrationSettings, notes: Mapping[str, Any], *, compute: str
) -> ModelCard:
    """The card of a mark calibration; notes: what `weights.making.mark_calibration` records of it."""
    results = [
        Result(
            "calibration captions",
            f"{word_class}s_found",
            found,
            command_of(settings.module),
            f"wrong {word_class}s marked, at 5 % of right ones",
            "share",
            "" if language == "shared" else language,
        )
        for language, classes in notes["found"].items()
        for word_class, found in classes.items()
    ]
    n = notes["photos"]["calibrate"]
    card = _card(
        settings,
        [settings.rows],
        f"{n:,} of the held-out photos set the thresholds; nothing is measured on them",
        base=settings.base,
        languages=sorted(language for language in notes["found"] if language != "shared"),
        results=results,
        compute=compute,
    )
    return replace(card, data=[*card.data, _DETECTOR, _NAMES])


def image_tower_results(
    measures: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]
) -> Iterator[Result]:
    """Figures of `weights.measuring.image_tower`, of a tower and of what it is compared with → results."""
    before = {figure["key"]: figure["value"] for figure in base}
    for figure in measures:
        group, *path, metric = figure["key"].split("/")
        if figure["value"] is None:
            continue
        language = "en"
        if group == "retrieval" and path[0] == "flickr8k_test" and metric.startswith("r@"):
            language = path[1].partition("_")[0]
            translated = path[1].startswith("en_of") or language in ("de", "fr", "cs")
            data, split = ("multi30k", "Flickr8k's test photos") if translated else ("flickr8k", "test")
        elif group in _RATED_SETS and (own := next((item for item in _RATED if item in figure["key"]), "")):
            (data, split), metric = _RATED_SETS[group], own
        else:
            continue
        yield Result(
            data=data,
            metric=metric,
            value=figure["value"],
            command="make measure-embedded-image-tower DATA=data PHOTOS=photos",
            metric_name=figure["title"],
            unit="%",
            language=language,
            split=split,
            rows=figure["n"],
            base_value=before.get(figure["key"]),
            interval=tuple(figure["interval"]) if figure["interval"] else None,
            signature=figure["signature"],
        )


def measured_card(weights: Path, figures: Path, *, base: str = "embedded-free") -> ModelCard:
    """The card of an image tower with its figures; an error if the file has none of these weights."""
    card, revision = read_card(weights), load_backbone(str(weights), device="cpu").revision
    try:
        reports = json.loads(figures.read_text(encoding="utf-8"))["backbones"]
        found = {report["backbone"]["revision"]: report["measures"] for report in reports}
        compared = [report["measures"] for report in reports if report["name"] == base]
        results = list(image_tower_results(found.get(revision, ()), compared[0] if compared else ()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise InputError(f"{figures} has no figures of weights.measuring ({said})") from None
    if revision not in found:
        raise InputError(f"{figures} has figures of {', '.join(found)}, not of {weights}, {revision}")
    return replace(card, results=results, not_measured=[_NOT_SEEN])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--weights", type=Path, required=True, help="folder of the weights")
    parser.add_argument("--figures", type=Path, required=True, help="JSON file of the figures")
    options = parser.parse_args(argv)
    card = measured_card(options.weights, options.figures)
    write_card(options.weights, card, force=True)
    print(f"{len(card.results)} results on the card of {card.name}")


if __name__ == "__main__":
    run_as_command(main)
