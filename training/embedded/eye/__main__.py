"""Official caption files and a folder of photos → the weights of the eye, the backbone `embedded`.

    python -m training.embedded.package_texts --out texts \
        --sources flickr8k-cn,arabic-flickr8k,jsts,coco-cn-extension --languages ar,ja,zh
    python -m training.embedded.eye --config training/configs/embedded_eye.yaml --data DATA --photos PHOTOS \
        --texts texts --out runs/eye

In: the official files of Flickr8k, Multi30k and xFlickr&CO and of every set that is held out, the texts of
`training.embedded.package_texts`, and photos in folders `flickr8k` and `coco…`. Out: the weights, a card, the
settings, and the log and checkpoints of the run. Rows are checked before anything is computed: a photo that
is measured on is never trained on, in whatever data set or language it turns up. The same command continues
a run that was killed, in each of its parts.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from capscore.backbones.eye import Eye
from capscore.backbones.folded_trunk import folded
from capscore.backbones.free import class_directions, load_image_tower
from capscore.backbones.learned import save_eye
from capscore.backbones.loading import load_backbone
from capscore.backbones.sentence_encoder import SentenceEncoderBackbone
from capscore.backbones.use_text import LANGUAGES
from capscore.errors import CapscoreError, Setting
from training.data.origin import DataSource, Origin
from training.embedded.captions import describe
from training.embedded.eye.data import prepare, rows_of
from training.embedded.eye.fit import Fitted, fit
from training.embedded.eye.rows import COCO, FLICKR8K, SOURCES, TrainingRows
from training.embedded.eye.settings import EyeSettings
from training.embedded.held_out import HeldOut
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.model_card import ModelCard, write_card
from training.engine.processes import device, is_main_process, say
from training.engine.recipe import write_settings

_PHOTOS = {
    FLICKR8K: ("Flickr8k, photos", "for research only", "https://doi.org/10.1613/jair.3994"),
    COCO: ("COCO, photos of train2014", "terms of Flickr, photo by photo", "https://cocodataset.org"),
}

_NOT_ON_CARD = ("out", "name", "features", "license", "data_license")


def train(settings: EyeSettings, *, command: str = "") -> Fitted:
    """Run the recipe: read rows, compute features, train, save.

    Args:
        settings: Settings of the run.
        command: Command for the card; "" for one with the run's own settings file.

    Raises:
        CapscoreError, InputError: malformed data or settings, a photo that is held out, a loss that is not
            finite; the message names row or batch.
        BackboneUnavailable, MissingExtraError: the text encoder or the trunk is not installed.
    """
    out = Path(settings.out).expanduser()
    rows, held = rows_of(settings)
    say(_told(rows))
    encoder = load_backbone(settings.text_encoder, device=device(), dtype="float32")
    if not isinstance(encoder, SentenceEncoderBackbone):
        raise CapscoreError(
            Setting("text_encoder", settings.text_encoder),
            ": expected embedded-free, whose centre the eye has",
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        eye = Eye()
    tower = load_image_tower()
    eye.trunk = folded(tower)
    eye.head.classes.load_state_dict(tower.classifier.state_dict())
    eye.head.names.data.copy_(class_directions())
    data = prepare(settings, rows, eye, encoder)
    fitted = fit(settings, data, out)
    if fitted.run.finished and is_main_process():
        save_eye(
            fitted.eye,
            out,
            w=fitted.w,
            logit_scale=settings.logit_scale,
            languages=None,  # the captions of one photo agree in every language of the encoder
            notes={"recipe": "eye", "steps": fitted.run.step},
        )
        write_settings(out, settings)
        write_card(out, card_of(settings, fitted, rows, held, command))
    return fitted


def card_of(
    settings: EyeSettings, fitted: Fitted, rows: TrainingRows, held: HeldOut, command: str
) -> ModelCard:
    """The card of the weights."""
    shown = {
        name: value for name, value in asdict(settings).items() if name not in ("out", "name", "features")
    }
    return ModelCard(
        name=settings.name or Path(settings.out).resolve().name,
        recipe="eye",
        base="EfficientNet-Lite2 (ImageNet) and the text encoder of embedded-free",
        languages=[language for language in rows.languages if language in LANGUAGES],
        license=settings.license,
        command=command or "python -m training.embedded.eye --config settings.yaml",
        settings={**shown, "w": fitted.w},
        data=sources_of(settings, rows),
        held_out=held.statement(),
        results=fitted.results,
        limitations=[
            f"It was trained with {len(rows.photos):,} photos and the captions of {len(rows.texts):,} more."
        ],
        compute=f"{torch.device(device()).type}, {fitted.run.seconds / 60:.0f} minutes, features not counted",
    )


def sources_of(settings: EyeSettings, rows: TrainingRows) -> list[DataSource]:
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
    for path in map(Path, settings.coco):
        if others[path.name]:
            origin = Origin(str(path), path.name, settings.data_license)
            origin.n = others[path.name]
            found += origin.described()
    return found


def _told(rows: TrainingRows) -> str:
    """The rows in lines for people: per source its captions, and what was left out."""
    by_source: dict[str, list[str]] = defaultdict(list)
    for (source, language), n in sorted(rows.counts.items()):
        by_source[source].append(f"{language} {n:,}")
    left: Counter[str] = Counter()
    for (source, _), n in rows.left_out.items():
        left[source] += n
    lines = [f"{len(rows.photos):,} photos, and captions of {len(rows.texts):,} without pixels"]
    for source in sorted(by_source.keys() | left.keys()):
        kept = ", ".join(by_source.get(source, ["nothing"]))
        lines.append(f"  {source}: {kept}" + (f"; left out: {left[source]:,}" if left[source] else ""))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    settings = parse(EyeSettings, arguments, "Train the eye, the image side of the backbone `embedded`.")
    fitted = train(settings, command=f"python -m training.embedded.eye {shlex.join(arguments)}")
    say(f"saved to {settings.out}" if fitted.run.finished else "not finished: the same command continues")


if __name__ == "__main__":
    run_as_command(main)
