"""The figures of `weights.measuring.image_tower` → the table of results on the card of an eye.

    python -m weights.making.image_tower.measured_card --weights weights/capscore_weights/image_tower \
        --figures build/training/eye.json --command "make train-embedded-image-tower DATA=data PHOTOS=photos"

In: a folder of the recipe and a file of `--output`. Out: its README.md, written again from the settings, from
what the old card says of data and limits, and from the figures of the backbone whose weights these are.
Figures of other weights are refused, so a card never has the numbers of an earlier eye.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from capscore.backbones.embedded.backbone import load_embedded
from capscore.errors import CapscoreError, InputError
from training.engine.card_reader import read_front_matter, read_origins
from training.engine.model_card import ModelCard, Result, write_card
from training.engine.recipe import SETTINGS
from weights.making.image_tower.card import described
from weights.making.image_tower.settings import ImageTowerSettings

_MEASURED_WITH = "make measure-embedded-image-tower DATA=data PHOTOS=photos"
# Groups of figures → data set and split on the card.
_SETS = {
    "expert": ("flickr8k_human", "expert"),
    "crowdflower": ("flickr8k_human", "crowdflower"),
    "pascal50s": ("pascal50s", "animals only"),
    "vicr": ("vicr", "public sample"),
}
_RATED = ("tau_b", "tau_c", "accuracy_hc", "accuracy_hi", "accuracy_hm", "accuracy_mm")
_NOT_MEASURED = "Other languages of the text encoder, and photos of other kinds than Flickr's and COCO's."


def results(measures: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]) -> list[Result]:
    """The results for the card, in the order of the figures.

    Args:
        measures: Figures of the eye, as `Figure.to_dict` has them.
        base: Those of the backbone to compare with; none for no comparison.
    """
    other = {figure["key"]: figure["value"] for figure in base}
    return [
        Result(
            data=data,
            metric=metric,
            value=figure["value"],
            command=_MEASURED_WITH,
            metric_name=figure["title"],
            unit="%",
            language=language or "en",
            split=split,
            rows=figure["n"],
            base_value=other.get(figure["key"]),
            interval=tuple(figure["interval"]) if figure["interval"] else None,
            signature=figure["signature"],
        )
        for figure, data, split, language, metric in _shown(measures)
    ]


def _shown(measures: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str, str, str, str]]:
    """(figure, data set, split, language, metric) of the figures that a card has."""
    for figure in measures:
        group, *path, metric = figure["key"].split("/")
        if figure["value"] is None or figure["unit"] != "percent":
            continue
        if group == "retrieval" and path[0] == "flickr8k_test" and metric.startswith("r@"):
            language = path[1].partition("_")[0]
            translated = path[1].startswith("en_of") or language in ("de", "fr", "cs")
            data, split = ("multi30k", "Flickr8k's test photos") if translated else ("flickr8k", "test")
            yield figure, data, split, language, metric
        elif group in _SETS and (found := next((one for one in _RATED if one in figure["key"]), "")):
            yield figure, *_SETS[group], "", found


def measured_card(
    weights: Path, figures: Path, *, base: str = "embedded-free", command: str = "", name: str = ""
) -> ModelCard:
    """The card of an eye with the figures of its own weights.

    Args:
        weights: Folder of the recipe.
        figures: File of `weights.measuring.image_tower --output`.
        base: Name of the backbone in that file to compare with; it may lack there.
        command: Command that trains it again; "" for one with the run's own settings file.
        name: Name of the model; "" for the name in the settings, or else the folder's.

    Raises:
        InputError: the file is missing, damaged, or has no figures of these weights.
        CapscoreError: the folder holds no eye, or its card is none of the recipe.
    """
    backbone = load_embedded(weights, device="cpu")
    try:
        reports = json.loads(figures.read_text(encoding="utf-8"))["backbones"]
        by_fingerprint = {report["backbone"]["fingerprint"]: report for report in reports}
        compared: list[dict[str, Any]] = next(
            (report["measures"] for report in reports if report["name"] == base), []
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{figures} has no figures of embedded_eye --output ({type(error).__name__}: {error})",
            field="figures",
        ) from None
    own = by_fingerprint.get(backbone.fingerprint)
    if own is None:
        measured = ", ".join(f"{report['name']}@{report['backbone']['revision']}" for report in reports)
        raise InputError(
            f"{figures} has figures of {measured or 'nothing'}, not of the eye in {weights}, "
            f"{backbone.revision}: measure it first",
            field="figures",
        )
    settings = ImageTowerSettings(**yaml.safe_load((weights / SETTINGS).read_text(encoding="utf-8")))
    origins = read_origins(weights)
    return described(
        settings,
        name=name or settings.name or weights.resolve().name,
        w=backbone.w,
        languages=read_front_matter(weights)["language"],
        command=command or origins.command,
        data=origins.data,
        held_out=origins.held_out,
        limitations=origins.limitations,
        compute=origins.compute,
        results=results(own["measures"], compared),
        not_measured=[_NOT_MEASURED],
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="folder of the eye")
    parser.add_argument("--figures", type=Path, required=True, help="JSON file of the figures")
    parser.add_argument("--base", default="embedded-free", help="backbone in it to compare with")
    parser.add_argument("--command", default="", help="command that trains these weights, for the card")
    parser.add_argument("--name", default="", help="name of the model, for the card")
    options = parser.parse_args(argv)
    try:
        card = measured_card(
            options.weights, options.figures, base=options.base, command=options.command, name=options.name
        )
        write_card(options.weights, card, force=True)
    except CapscoreError as error:
        parser.error(str(error))
    print(f"{len(card.results)} results on the card of {card.name}")


if __name__ == "__main__":
    main()
