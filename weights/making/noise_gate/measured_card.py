"""The figures of `weights.measuring.pr_mcs_alarms` → the table of results on the card of a gate.

    python -m weights.making.noise_gate.measured_card --weights weights/capscore_weights/pr_mcs \
        --figures build/training/pr_mcs.json --command "make train-embedded DATA=data"

In: a folder of the recipe and a file of `--output`. Out: its README.md, written again from its settings and
from what the old card says of the data, with the figures of these weights beside those of MCS. Figures of
other weights are refused, so a card never has the numbers of an earlier gate.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from capscore import load_backbone
from capscore.errors import CapscoreError, InputError
from training.engine.card_reader import read_origins
from training.engine.model_card import ModelCard, Result, write_card
from training.engine.recipe import SETTINGS
from weights.making.noise_gate.card import described
from weights.making.noise_gate.settings import NoiseGateSettings

_MEASURED_WITH = "make measure-embedded DATA=data PHOTOS=photos DUTCH=dutch"
_SHOWN_DROPS = {"average": "average drop", "substitution": "drop under substitution"}
_SHOWN_STYLES = {
    "given": "as written",
    "lower": "in lower case, without the stop",
    "nouns": "noun phrases",
    "stopped": "noun phrases with a full stop",
    "paragraph": "paragraphs",
}


def results(figures: Mapping[str, Any], name: str) -> Iterator[Result]:
    """The results for the card: drops, false alarms, agreement and search of one backbone.

    Args:
        figures: Content of the file.
        name: Name of the backbone in it.
    """

    def percent(data: str, metric: str, title: str, value: float | None, **others: Any) -> Result:
        return Result(data, metric, value, _MEASURED_WITH, title, "%", **others)

    for one in figures["sets"]:
        own = one["results"][name]
        plain = next(result for other, result in one["results"].items() if other.startswith("mcs@"))
        place = {"language": one["language"], "rows": one["n_captions"]}
        for key, title in _SHOWN_DROPS.items():
            before, after = (_drop(result, key) for result in (plain, own))
            yield percent(one["title"], f"drop_{key}", title, after, base_value=before, **place)
        for style, alarms in own["styles"].items():
            if alarms["below_half"] is not None and style in _SHOWN_STYLES:
                yield percent(
                    one["title"],
                    f"false_alarms_{style}",
                    f"right captions below half of their MCS, {_SHOWN_STYLES[style]}",
                    100 * alarms["below_half"],
                    language=one["language"],
                    rows=alarms["n"],
                )
    for slug, by_name in figures["models"].items():
        alarms = by_name[name]
        title = "captions of captioning models below half of their MCS"
        data = "capeval1k, composite, thumb, polaris" if slug == "all" else slug
        yield percent(
            data, "false_alarms_models", title, 100 * alarms["below_half"], language="en", rows=alarms["n"]
        )
    for title, by_name in figures["agreement"].items():
        before, after = by_name[name]
        yield percent(
            "flickr8k_human", "kendall_tau_c", title, after, base_value=before, language="en", split="expert"
        )
    for title, by_name in figures["search"].items():
        for k, (before, after) in by_name[name].items():
            yield percent("flickr8k", k.lower(), f"{title}, {k}", after, base_value=before, split="test")


def _drop(result: Mapping[str, Any], key: str) -> float | None:
    value = result["average"] if key == "average" else result["drops"].get(key)
    return None if value is None else 100 * value


def measured_card(weights: Path, figures: Path, *, command: str = "") -> ModelCard:
    """The card of a gate with the figures of its own weights.

    Args:
        weights: Folder of the recipe.
        figures: File of `weights.measuring.pr_mcs_alarms --output`.
        command: Command that trains it again; "" for that of the old card.

    Raises:
        InputError: the file is missing, damaged, or has no figures of these weights.
        CapscoreError: the folder has no weights, or its card is none of the recipe.
    """
    revision = load_backbone(str(weights), device="cpu").revision
    try:
        content = json.loads(figures.read_text(encoding="utf-8"))
        measured = [str(one) for one in content["backbones"]]
        own = next((one for one in measured if one.rpartition("@")[2] == revision), None)
        if own is None:
            raise InputError(
                f"{figures} has figures of {', '.join(measured) or 'nothing'}, not of the weights in "
                f"{weights}, {revision}: measure them first",
                field="figures",
            )
        names = list(content["models"].get("all", {})) or [own.partition("@")[0]]
        found = list(results(content, names[measured.index(own)]))
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        if isinstance(error, CapscoreError):
            raise
        raise InputError(
            f"{figures} has no figures of pr_mcs_alarms --output ({type(error).__name__}: {error})",
            field="figures",
        ) from None
    settings = NoiseGateSettings(**yaml.safe_load((weights / SETTINGS).read_text(encoding="utf-8")))
    origins = read_origins(weights)
    card = described(settings, command=command or origins.command, results=found, compute=origins.compute)
    return replace(card, data=origins.data, held_out=origins.held_out)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="folder of the gate")
    parser.add_argument("--figures", type=Path, required=True, help="JSON file of the figures")
    parser.add_argument("--command", default="", help="command that trains these weights, for the card")
    options = parser.parse_args()
    try:
        card = measured_card(options.weights, options.figures, command=options.command)
        write_card(options.weights, card, force=True)
    except CapscoreError as error:
        parser.exit(1, f"measured_card: {error}\n")
    print(f"{len(card.results)} results on the card of {options.weights}")


if __name__ == "__main__":
    main()
