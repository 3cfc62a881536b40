"""Official caption files and a folder of photos → the weights of the image tower of `embedded`.

    python -m weights.making.image_tower --config weights/making/configs/image_tower.yaml --data DATA \
        --photos PHOTOS --texts texts --out runs/image_tower

In: the official files of Flickr8k, Multi30k and xFlickr&CO and of every set that is held out, the texts of
`weights.making.package_texts`, and photos. Out: the weights, a card, the settings, and the log and
checkpoints of the run. Rows are checked before anything is computed: a photo that is measured on is never
trained on, in whatever data set or language it turns up. The same command continues a run that was killed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from capscore.backbones import load_backbone
from capscore.backbones.embedded.backbone import centred, load_classes, load_efficientnet
from capscore.backbones.embedded.image_tower import ImageTower
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.loop import RunResult
from training.engine.processes import device, is_main_process, say
from training.engine.recipe import compute_of
from weights.making.cards import image_tower_card
from weights.making.image_tower.data import ENCODER, prepare, rows_of
from weights.making.image_tower.features import folded
from weights.making.image_tower.fit import fit, save
from weights.making.settings import ImageTowerSettings


def train(settings: ImageTowerSettings) -> RunResult:
    """Run the recipe: read rows, compute features, train, save."""
    rows, held = rows_of(settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        tower = ImageTower()
    published = load_efficientnet()
    tower.trunk = folded(published)
    tower.head.classes.load_state_dict(published.classifier.state_dict())
    tower.head.names.data.copy_(centred(load_classes())[1])
    data = prepare(settings, rows, tower, load_backbone(ENCODER, device=device(), dtype="float32"))
    result, w = fit(settings, data)
    if result.finished and is_main_process():
        compute = f"{compute_of(result, 0)}, features not counted"
        save(settings, tower, result.step, image_tower_card(settings, rows, held, w=w, compute=compute), w)
    return result


def main(argv: Sequence[str] | None = None) -> None:
    settings = parse(ImageTowerSettings, argv, "Train the image side of the backbone `embedded`.")
    finished = train(settings).finished
    say(f"saved to {settings.out}" if finished else "not finished: the same command continues")


if __name__ == "__main__":
    run_as_command(main)
