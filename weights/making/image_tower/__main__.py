"""Official caption files and a folder of photos → the weights of the image tower of `embedded`.

    python -m weights.making.package_texts --from build/sources --out texts
    python -m weights.making.image_tower --config weights/making/configs/image_tower.yaml --data DATA \
        --photos PHOTOS --texts texts --out runs/image_tower

In: the official files of Flickr8k, Multi30k and xFlickr&CO and of every set that is held out, the texts of
`weights.making.package_texts`, and photos in folders `flickr8k` and `coco…`. Out: the weights, a card, the
settings, and the log and checkpoints of the run. Rows are checked before anything is computed: a photo that
is measured on is never trained on, in whatever data set or language it turns up. The same command continues
a run that was killed: whole parts are not computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from capscore.backbones import load_backbone
from capscore.backbones.embedded.backbone import (
    SentenceEncoderBackbone,
    centred,
    load_classes,
    load_efficientnet,
)
from capscore.backbones.embedded.image_tower import ImageTower
from capscore.errors import CapscoreError, Setting
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.loop import RunResult
from training.engine.model_card import ModelCard, write_card
from training.engine.processes import device, is_main_process, say
from training.engine.recipe import compute_of, write_settings
from training.engine.saved_towers import save_image_tower
from weights.making.cards import image_tower_card
from weights.making.image_tower.data import prepare, rows_of
from weights.making.image_tower.features import folded
from weights.making.image_tower.fit import fit
from weights.making.image_tower.rows import TrainingRows
from weights.making.image_tower.settings import ImageTowerSettings, TowerSettings


def train(settings: ImageTowerSettings) -> RunResult:
    """Run the recipe: read rows, compute features, train, save."""
    out = Path(settings.out).expanduser()
    rows, held = rows_of(settings)
    say_counts(rows)
    encoder = sentence_encoder(settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        tower = ImageTower()
    published = load_efficientnet()
    tower.trunk = folded(published)
    tower.head.classes.load_state_dict(published.classifier.state_dict())
    tower.head.names.data.copy_(centred(load_classes())[1])
    data = prepare(settings, rows, tower, encoder)
    result, w = fit(settings, data, out)
    if result.finished and is_main_process():
        compute = f"{compute_of(result, 0)}, features not counted"
        card = image_tower_card(settings, rows, held, w=w, compute=compute)
        save(settings, tower, result, card, w)
    return result


def save(settings: TowerSettings, tower: ImageTower, result: RunResult, card: ModelCard, w: float) -> None:
    out = Path(settings.out).expanduser()
    save_image_tower(
        tower,
        out,
        w=w,
        logit_scale=settings.logit_scale,
        languages=None,  # the captions of one photo agree in every language of the encoder
        notes={"recipe": "image_tower", "steps": result.step},
    )
    write_settings(out, settings)
    write_card(out, card)


def say_counts(rows: TrainingRows) -> None:
    say(f"{len(rows.photos):,} photos, and captions of {len(rows.texts):,} without pixels")
    for source in sorted({*rows.left_out, *(source for source, _ in rows.counts)}):
        n = sum(n for (item, _), n in rows.counts.items() if item == source)
        say(f"  {source}: {n:,} captions, {rows.left_out[source]:,} left out")


def sentence_encoder(settings: TowerSettings) -> SentenceEncoderBackbone:
    """The backbone whose text encoder embeds the captions; CapscoreError if it has none."""
    encoder = load_backbone(settings.text_encoder, device=device(), dtype="float32")
    if not isinstance(encoder, SentenceEncoderBackbone):
        raise CapscoreError(
            Setting("text_encoder", settings.text_encoder),
            ": expected embedded-free, whose centre the image tower has",
        )
    return encoder


def main(argv: Sequence[str] | None = None) -> None:
    settings = parse(ImageTowerSettings, argv, "Train the image side of the backbone `embedded`.")
    finished = train(settings).finished
    say(f"saved to {settings.out}" if finished else "not finished: the same command continues")


if __name__ == "__main__":
    run_as_command(main)
