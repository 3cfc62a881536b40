"""Image towers that were trained from the same start → one, the mean of their weights.

    python -m weights.making.image_tower.averaged --weights runs/first runs/second --out runs/image_tower

In: folders of the recipe, whose runs had the same `seed` and sizes, with other data or settings. Out: the
weights, the settings of the last folder, and a card. Runs from one start end so near each other that the mean
of their weights is an image tower too, and often a better one than either (Wortsman et al. 2022): each keeps
what the other has forgotten. `w` is the mean as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from capscore.backbones.embedded.backbone import load_image_tower
from capscore.backbones.embedded.image_tower import ImageTower
from capscore.errors import InputError
from capscore.files.write import write_text
from training.engine.config import main as run_as_command
from training.engine.model_card import read_card, write_card
from training.engine.recipe import SETTINGS
from training.engine.saved_towers import save_image_tower


def average_folders(folders: Sequence[Path], out: Path) -> None:
    """Read image towers, and write their mean with settings and card.

    Raises:
        CapscoreError: a folder holds no image tower or no card of the recipe, or sizes, scales or seeds
            differ.
    """
    towers, configs = zip(*map(load_image_tower, folders), strict=True)
    cards = [read_card(folder) for folder in folders]
    # the heads were drawn by the seed, so those of two seeds have nothing in common
    kinds = [
        (tower.config, config["logit_scale"], card.settings.get("seed"))
        for tower, config, card in zip(towers, configs, cards, strict=True)
    ]
    if len(folders) < 2 or kinds != kinds[:1] * len(kinds):
        raise InputError("expected two or more image towers of one size, one scale and one seed")
    states = [tower.state_dict() for tower in towers]
    mean = ImageTower(towers[0].config).eval()
    mean.load_state_dict(
        {key: torch.stack([state[key] for state in states]).mean(dim=0) for key in states[0]}
    )
    w = sum(config["w"] for config in configs) / len(configs)
    notes = {"recipe": "image_tower", "mean_of": [config["weights"] for config in configs]}
    save_image_tower(mean, out, w=w, logit_scale=configs[0]["logit_scale"], notes=notes)
    write_text(out / SETTINGS, (folders[-1] / SETTINGS).read_text(encoding="utf-8"), "settings")
    last = cards[-1]
    given = f"--weights {' '.join(map(str, folders))} --out {out}"
    card = replace(
        last,
        settings={**last.settings, "w": w},
        languages=sorted({code for card in cards for code in card.languages}),
        command=f"python -m weights.making.image_tower.averaged {given}",
        # of two counts of one source, that of the last run
        data=list({source.name: source for card in cards for source in card.data}.values()),
        limitations=[
            f"It is the mean of {len(folders)} runs, and the settings are those of the last.",
            *last.limitations[:1],
        ],
        compute="; ".join(card.compute for card in cards if card.compute),
    )
    write_card(out, card, force=True)


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--weights", type=Path, nargs="+", required=True, help="folders of image towers")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    options = parser.parse_args(argv)
    average_folders(options.weights, options.out)
    print(f"the mean of {len(options.weights)} image towers in {options.out}")


if __name__ == "__main__":
    run_as_command(main)
