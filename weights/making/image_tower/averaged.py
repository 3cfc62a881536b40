"""Eyes that were trained from the same start → one eye, the mean of their weights.

    python -m weights.making.image_tower.averaged --weights runs/first runs/second --out runs/eye

In: folders of the recipe, whose runs had the same `seed` and sizes, with other data or settings. Out: the
weights, the settings of the last folder, and a card. Runs from one start end so near each other that the mean
of their weights is an eye too, and often a better one than either (Wortsman et al. 2022): each keeps what the
other has forgotten. `w` is the mean as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
import yaml

from capscore.backbones.embedded.backbone import load_image_tower, save_image_tower
from capscore.backbones.embedded.image_tower import ImageTower
from capscore.errors import CapscoreError, InputError
from capscore.files.whole_file import write_text
from training.data.origin import DataSource
from training.engine.card_reader import read_front_matter, read_origins
from training.engine.model_card import write_card
from training.engine.recipe import SETTINGS
from weights.making.image_tower.card import described
from weights.making.image_tower.settings import ImageTowerSettings


def averaged(eyes: Sequence[ImageTower]) -> ImageTower:
    """The mean of the weights of eyes of one size.

    Raises:
        InputError: there are fewer than two, or their sizes differ.
    """
    if len(eyes) < 2:
        raise InputError(f"{len(eyes)} eyes were given; expected two or more", field="weights")
    for number, eye in enumerate(eyes):
        if eye.config != eyes[0].config:
            raise InputError(
                f"the eyes 0 and {number} have networks of different sizes, so they have no mean",
                field="weights",
            )
    states = [eye.state_dict() for eye in eyes]
    mean = ImageTower(eyes[0].config).eval()
    mean.load_state_dict(
        {name: torch.stack([state[name] for state in states]).mean(dim=0) for name in states[0]}
    )
    return mean


def average_folders(folders: Sequence[Path], out: Path, *, command: str = "", name: str = "") -> None:
    """Read eyes, and write their mean with settings and card.

    Args:
        folders: Folders of the recipe.
        out: Folder to write.
        command: Command that makes these weights again, for the card.
        name: Name of the model, for the card; "" for the name in the last folder's settings.

    Raises:
        CapscoreError: a folder holds no eye or no card of the recipe, or their sizes or scales differ.
    """
    loaded = [load_image_tower(folder) for folder in folders]
    eye = averaged([own for own, _ in loaded])
    scales = {config["logit_scale"] for _, config in loaded}
    if len(scales) > 1:
        raise InputError(f"the eyes have the scales {sorted(scales)}: expected one", field="weights")
    w = sum(config["w"] for _, config in loaded) / len(loaded)
    origins = [read_origins(folder) for folder in folders]
    texts = [(folder / SETTINGS).read_text(encoding="utf-8") for folder in folders]
    every = [ImageTowerSettings(**yaml.safe_load(text)) for text in texts]
    settings, settings_text = every[-1], texts[-1]
    seeds = sorted({own.seed for own in every})
    if len(seeds) > 1:  # the heads were drawn from it, so those of two seeds have nothing in common
        raise InputError(f"the eyes were trained with the seeds {seeds}: expected one", field="weights")
    save_image_tower(
        eye,
        out,
        w=w,
        logit_scale=scales.pop(),
        notes={"recipe": "eye", "mean_of": [c["weights"] for _, c in loaded]},
    )
    write_text(out / SETTINGS, settings_text, "settings")
    data: dict[str, DataSource] = {}
    for origin in origins:
        for source in origin.data:  # of two counts of one source, that of the last run
            data[source.name] = source
    card = described(
        settings,
        name=name or settings.name or out.resolve().name,
        w=w,
        languages=sorted({code for folder in folders for code in read_front_matter(folder)["language"]}),
        command=command
        or "python -m weights.making.image_tower.averaged "
        f"--weights {' '.join(map(str, folders))} --out {out}",
        data=list(data.values()),
        held_out=origins[-1].held_out,
        limitations=[
            f"It is the mean of {len(folders)} runs, and the settings are those of the last.",
            *origins[-1].limitations[:1],
        ],
        compute="; ".join(origin.compute for origin in origins if origin.compute),
    )
    write_card(out, card, force=True)


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, nargs="+", required=True, help="folders of eyes")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--command", default="", help="command that makes these weights, for the card")
    parser.add_argument("--name", default="", help="name of the model, for the card")
    options = parser.parse_args(argv)
    try:
        average_folders(options.weights, options.out, command=options.command, name=options.name)
    except CapscoreError as error:
        parser.error(str(error))
    print(f"the mean of {len(options.weights)} eyes in {options.out}")


if __name__ == "__main__":
    main()
