"""What the recipe knows about its run → the card of the eye."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from capscore.backbones.embedded.text_encoder import LANGUAGES
from training.data.origin import DataSource, Origin
from training.engine.model_card import ModelCard
from training.engine.processes import device
from weights.making.captions import describe
from weights.making.held_out import HeldOut
from weights.making.image_tower.fit import Fitted
from weights.making.image_tower.rows import COCO, FLICKR8K, SOURCES, TrainingRows
from weights.making.image_tower.settings import ImageTowerSettings

_PHOTOS = {
    FLICKR8K: ("Flickr8k, photos", "for research only", "https://doi.org/10.1613/jair.3994"),
    COCO: ("COCO, photos of train2014", "terms of Flickr, photo by photo", "https://cocodataset.org"),
}
_NOT_ON_CARD = ("out", "name", "features", "license", "data_license")


def described(
    settings: ImageTowerSettings, *, name: str, w: float, languages: Sequence[str], **others: Any
) -> ModelCard:
    """The card of an eye.

    Args:
        settings: Settings of its run.
        name: Name of the model.
        w: Its factor on cosines of photos and captions.
        languages: Codes of the training languages.
        others: Further fields of `ModelCard`; `command` and `data` are needed.
    """
    shown = {key: value for key, value in asdict(settings).items() if key not in _NOT_ON_CARD}
    return ModelCard(
        name=name,
        recipe="eye",
        base="EfficientNet-Lite2 (ImageNet) and the text encoder of embedded-free",
        languages=languages,
        license=settings.license,
        settings={**shown, "w": w},
        **others,
    )


def card_of(
    settings: ImageTowerSettings, fitted: Fitted, rows: TrainingRows, held: HeldOut, command: str
) -> ModelCard:
    """The card of the weights of a run."""
    return described(
        settings,
        name=settings.name or Path(settings.out).resolve().name,
        w=fitted.w,
        languages=[language for language in rows.languages if language in LANGUAGES],
        command=command or "python -m weights.making.image_tower --config settings.yaml",
        data=sources_of(settings, rows),
        held_out=held.statement(),
        limitations=[
            f"It was trained with {len(rows.photos):,} photos and the captions of {len(rows.texts):,} more."
        ],
        compute=f"{torch.device(device()).type}, {fitted.run.seconds / 60:.0f} minutes, features not counted",
    )


def sources_of(settings: ImageTowerSettings, rows: TrainingRows) -> list[DataSource]:
    """The photos and captions of the rows by their sources, with licences and counts."""
    photos = Counter(row.source for row in rows.photos)
    found = [
        DataSource(name, terms, rows=photos[source], url=url)
        for source, (name, terms, url) in _PHOTOS.items()
        if photos[source]
    ]
    official: dict[str, Counter[str]] = defaultdict(Counter)
    others: Counter[str] = Counter()
    for (source, language), n in rows.counts.items():
        if source in SOURCES:
            official[language][source] += n
        else:
            others[source] += n
    found += [DataSource(**source) for source in describe(official)["sources"]]
    if others[COCO]:
        found.append(DataSource("COCO Captions", "CC BY 4.0", others[COCO], "https://cocodataset.org"))
    for path in map(Path, [*settings.coco, *settings.labelled]):
        if others[path.name]:
            origin = Origin(str(path), path.name, settings.data_license)
            origin.n = others[path.name]
            found += origin.described()
    return found
