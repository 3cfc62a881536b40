"""Cards of the shipped weights, from a recipe's run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from capscore.backbones.embedded.text_encoder import LANGUAGES
from training.data.source import DataSource, Origin
from training.engine.model_card import ModelCard, Result
from training.engine.recipe import card_of, command_of
from weights.making.captions import describe
from weights.making.held_out import HeldOut
from weights.making.image_tower.rows import TrainingRows
from weights.making.settings import MarkCalibrationSettings, NoiseGateSettings, TowerSettings
from weights.making.sources import SOURCES

_PHOTOS = {"flickr": "flickr8k-photos", "coco": "coco-train2014-photos"}
_NOT_ON_CARD = ("out", "name", "license", "texts", "rows", "boxes")
_DETECTOR = DataSource(**SOURCES["yolox-nano"].described(None), used_for="finding things")
_NAMES = DataSource(
    "names of emoji (Unicode CLDR)",
    "Unicode-3.0",
    url="https://cldr.unicode.org",
    used_for="names of rare things in 14 languages",
)


def _card(settings: Any, files: Sequence[str], held_out: str, **others: Any) -> ModelCard:
    """A card with what the settings and the origins of files say; others: further fields of `ModelCard`."""
    stated = {name: value for name, value in asdict(settings).items() if name not in _NOT_ON_CARD}
    origins = [Origin(path, Path(path).name, "unknown") for path in files]
    return card_of(settings, Path(settings.out), origins, [held_out], **{"settings": stated, **others})


def image_tower_card(
    settings: TowerSettings, rows: TrainingRows, held: HeldOut, *, w: float, compute: str
) -> ModelCard:
    photos = Counter(row.photo.collection for row in rows.photos)
    listed = [SOURCES[name].described(photos[of]) for of, name in _PHOTOS.items() if photos[of]]
    languages = set(chain.from_iterable(row.captions for row in (*rows.photos, *rows.texts)))
    seen = f"It was trained with {len(rows.photos):,} photos and the captions of {len(rows.texts):,} more."
    card = _card(
        settings,
        [],
        held.statement(),
        base="EfficientNet-Lite2 (ImageNet) and the text encoder of embedded-free",
        languages=sorted(languages.intersection(LANGUAGES)),
        data=[DataSource(**source) for source in (*listed, *describe({"": rows.counts}))],
        limitations=[seen],
        compute=compute,
    )
    return replace(card, settings={**card.settings, "w": w})


def noise_gate_card(settings: NoiseGateSettings, *, results: Sequence[Result], compute: str) -> ModelCard:
    return _card(
        settings,
        settings.texts,
        f"the captions of {settings.validation_share:.0%} of the photos, for the validation below",
        base=settings.base,
        languages=sorted(settings.numbers("languages")),
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
    where, command = "validation captions", command_of(NoiseGateSettings.module)
    return [
        Result(where, metric, value, command, metric.replace("_", " "), "share", code, rows=rows)
        for metric, value, code, rows in entries
    ]


def mark_calibration_card(
    settings: MarkCalibrationSettings, notes: Mapping[str, Any], *, compute: str
) -> ModelCard:
    """The card of a mark calibration; notes: what `weights.making.mark_calibration` records of it."""
    command, results, n = command_of(settings.module), [], notes["photos"]["calibrate"]
    for language, classes in notes["found"].items():
        code = "" if language == "shared" else language
        for name, found in classes.items():
            title = f"wrong {name}s marked, at 5 % of right ones"
            measured = "calibration captions", f"{name}s_found", found, command, title, "share", code
            results.append(Result(*measured))
    card = _card(
        settings,
        [settings.rows, settings.boxes],
        f"{n:,} of the held-out photos set the thresholds; nothing is measured on them",
        base=settings.base,
        languages=sorted(language for language in notes["found"] if language != "shared"),
        results=results,
        compute=compute,
    )
    return replace(card, data=[*card.data, _DETECTOR, _NAMES])
