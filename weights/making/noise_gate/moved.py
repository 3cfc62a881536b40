"""A gate that was trained before → the same gate behind another backbone with the same text network.

    python -m weights.making.noise_gate.moved --gate runs/gate --base embedded --out runs/moved

In: weights of `weights.making.noise_gate`, by folder or as embedded-pr-mcs; and a backbone, such as an eye.
Out: a folder that `capscore.load("pr_mcs", backbone=folder)` takes, with a card, settings.yaml (how the gate
was trained) and result.json. Nothing is trained.

The gate reads the text network's tokens, which the new base does not change. So its weights and its curve
stay, and it says the same of every text. The direction in which taken scores go belongs to the base's space
and is found anew (`weights.making.noise_gate.away`), with captions of the caption grammar, since the training
captions do not ship.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from capscore import load_backbone
from capscore.backbones import find, tuned
from capscore.backbones.base import Backbone
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.embedded.backbone import SentenceEncoderBackbone
from capscore.backbones.embedded.noise_gate import PART
from capscore.errors import CapscoreError, InputError
from capscore.files.installed_weights import weights_folder
from capscore.files.whole_file import write_text
from training.engine.card_reader import read_origins
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.loop_settings import is_whole, require
from training.engine.model_card import ModelCard, write_card
from training.engine.processes import say
from training.engine.recipe import RESULT, SETTINGS
from training.engine.settings_file import read_settings
from weights.making.caption_grammar import LANGUAGES, generate
from weights.making.noise_gate.away import null_direction
from weights.making.noise_gate.card import described, validation_results
from weights.making.noise_gate.settings import GateSettings

_GATE = "gate."
_CURVE = "curve"
# Fewer captions than twice the 512 numbers of an embedding say little on where none lies.
_FEWEST = 1024


@dataclass
class Settings:
    """Settings of the move.

    Attributes:
        gate: Weights with a gate: a folder of `weights.making.noise_gate`, or embedded-pr-mcs.
        base: Backbone that gets the gate, as `capscore.load_backbone` takes it.
        out: Folder to write.
        captions: Number of captions of the grammar from whose embeddings the direction is found.
        name: Name of the model for its card; "" for that of the gate.
        license: Licence of the weights, as the Hub writes it; "" for that of the gate.
    """

    gate: str
    base: str
    out: str
    captions: int = 6000
    name: str = ""
    license: str = ""

    def __post_init__(self) -> None:
        right = is_whole(self.captions) and self.captions >= _FEWEST
        require(right, "captions", self.captions, f"a whole number of at least {_FEWEST}")


def move(settings: Settings, *, command: str = "") -> Path:
    """Put the gate behind the base, and write the folder.

    Args:
        settings: Settings of the move.
        command: Command of the move, for the card.

    Returns:
        The folder.

    Raises:
        CapscoreError: the weights have no gate, or change more than a gate; the base has another text
            network, or a gate of its own; or the folder holds another model.
        InputError: the gate's folder lacks its card, its settings or its result, or they are damaged.
        BackboneUnavailable: the gate or the base is not available.
        ResultWriteError: the folder could not be written.
    """
    folder, out = _folder(settings.gate), Path(settings.out).expanduser()
    marker, state = tuned.read_tuned(folder)
    _check_gate(settings.gate, marker, state)
    trained, result = _settings(folder), _result(folder)
    plain, backbone = (load_backbone(settings.base, device="cpu", dtype="float32") for _ in range(2))
    _check_base(settings, marker, plain)
    moved = {
        # of a gate that was moved before, what it was trained on
        "trained_on": (marker["notes"].get("moved") or {}).get("trained_on", _shown(marker["base"])),
        "base": f"{_shown(settings.base)} @ {plain.revision}",
        "captions": settings.captions,
    }
    card = _card(settings, folder, trained, result, moved, command)

    assert isinstance(backbone, SentenceEncoderBackbone)
    direction = null_direction(backbone, grammar_captions(settings.captions))
    backbone.add_network_parts(marker["parts"])
    network = backbone.text_network()
    network.gate.load_state_dict(
        {name.removeprefix(_GATE): tensor.float() for name, tensor in state.items() if name.startswith(_GATE)}
    )
    with torch.no_grad():
        # a curve that equals an untrained gate's is stored all the same: the base has none
        network.curve.copy_(state[_CURVE])
    network.turn_to(direction)
    tuned.save_tuned(
        backbone,
        out,
        base=plain,
        base_spec=settings.base,
        recipe=marker["recipe"],
        languages=marker["languages"],
        notes={**marker["notes"], "moved": moved},
        dtype=trained.stored_dtype,
    )
    write_text(out / SETTINGS, (folder / SETTINGS).read_text(encoding="utf-8"), "settings")
    write_card(out, card)
    said = json.dumps({**result, "moved": moved}, indent=1, ensure_ascii=False)
    write_text(out / RESULT, said + "\n", "result")
    return out


def grammar_captions(n: int) -> list[str]:
    """n captions of the caption grammar, its languages in turn."""
    scenes = generate(-(-n // len(LANGUAGES)), LANGUAGES)
    return [scene[language].text for scene in scenes for language in LANGUAGES][:n]


def _folder(spec: str) -> Path:
    known = find(spec)
    if known is not None and known.kind == "tuned":
        return weights_folder(known.weights)
    folder = Path(spec).expanduser()
    if folder_kind(folder) != "tuned":
        raise InputError(
            f"{spec} has no trained weights: expected embedded-pr-mcs or a folder with {tuned.MARKER}",
            field="gate",
        )
    return folder


def _check_gate(spec: str, marker: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> None:
    if set(marker["parts"] or ()) != {PART}:
        raise CapscoreError(f"{spec} has no gate to move: expected weights of weights.making.noise_gate")
    others = sorted(name for name in state if not name.startswith(_GATE) and name not in ("away", _CURVE))
    if others:
        raise CapscoreError(
            f"{spec} also changes {', '.join(others[:3])} of its text network, which another base does not "
            "have: only a gate alone can be moved"
        )


def _check_base(settings: Settings, marker: Mapping[str, Any], base: Backbone) -> None:
    if not isinstance(base, SentenceEncoderBackbone):
        because = f"a {type(base).__name__} has another text network"
    elif base.network_parts() is not None:
        because = "it already has a gate: give the backbone that it stands behind"
    else:
        because = tuned.misfit(marker, base)
    if because:
        raise CapscoreError(
            f"the gate of {settings.gate} belongs behind the text network of {marker['base']} @ "
            f"{marker['base_revision']}, so it cannot go to {settings.base}: {because}"
        )


def _settings(folder: Path) -> GateSettings:
    try:
        return GateSettings(**read_settings(folder / SETTINGS))
    except TypeError as error:
        raise InputError(
            f"{folder / SETTINGS} has no settings of the gate's recipe: {error}", field="gate"
        ) from None


def _result(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        if not (isinstance(found["validation"], dict) and isinstance(found["languages"], dict)):
            raise TypeError("validation and languages must be objects")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder / RESULT} has no result of the gate's recipe ({type(error).__name__}: {error})",
            field="gate",
        ) from None
    return found


def _shown(spec: str) -> str:
    """A spec without the machine's folders."""
    return spec if find(spec) is not None else Path(spec).name


def _card(
    settings: Settings,
    folder: Path,
    trained: GateSettings,
    result: Mapping[str, Any],
    moved: Mapping[str, Any],
    command: str,
) -> ModelCard:
    origins = read_origins(folder)
    # the gate reads the same tokens and says the same as before, so its numbers hold
    results = validation_results(result["validation"], result["languages"], trained.validation_texts)
    card = described(trained, command="", results=results, compute=origins.compute)
    what = (
        f"The gate was trained behind {moved['trained_on']} and put behind {moved['base']} without further "
        "training. It says the same of every text; the direction in which taken scores go was found anew "
        f"with {moved['captions']:,} captions of the caption grammar."
    )
    return replace(
        card,
        name=settings.name or card.name,
        base=settings.base,
        license=settings.license or card.license,
        command="\n".join(part for part in (origins.command, command) if part),
        data=origins.data,
        held_out=origins.held_out,
        limitations=[what],
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    settings = parse(Settings, arguments, (__doc__ or "").partition("\n")[0])
    out = move(settings, command=f"python -m weights.making.noise_gate.moved {shlex.join(arguments)}")
    say(f"saved to {out}")


if __name__ == "__main__":
    run_as_command(main)
