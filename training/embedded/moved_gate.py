"""Carries the gate of a PR-MCS tower over to another backbone with the same text network, without training.

    python -m training.embedded.moved_gate --tower embedded-pr-mcs --base embedded --out runs/moved

In: a tower with a gate as `training.pr_mcs` leaves it, by name or folder, with its card and settings; and a
backbone whose text network is the one that the gate was trained behind, such as an eye. Out: a folder that
`capscore.load("pr_mcs", backbone=folder)` takes, with a card, settings.yaml (how the gate was trained) and
result.json.

The gate reads the text network's tokens alone, which the new base does not change. So its weights stay bit
for bit, its threshold among them. Two vectors belong to the base, and are made again:

- `centre`: that of the new base.
- `away`, where malformed texts go. As in training (`training.engine.gate.away_from`), it is the opposite of
  the mean embedding of captions in the base's space. An eye has an adapter behind the gate, so the direction
  is turned back through it (`before_placing`). The captions are those of the caption grammar, in the gate's
  languages, since the training captions do not ship. Photos lie where captions lie, so this is away from
  photos too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from capscore import load_backbone
from capscore.backbones import tuned
from capscore.backbones.base import Backbone
from capscore.backbones.registry import find
from capscore.backbones.sentence_encoder import SentenceEncoderBackbone
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError, Setting
from capscore.files.installed_weights import weights_folder
from capscore.files.whole_file import write_text
from training.embedded.caption_grammar import LANGUAGES, generate
from training.engine.card_reader import Origins, read_origins
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.gate import away_from
from training.engine.model_card import ModelCard, Result, write_card
from training.engine.processes import say
from training.engine.recipe import RESULT, SETTINGS
from training.engine.settings_file import read_settings

_GATE = "gate."
_OF_BASE = {"away", "centre"}


@dataclass
class Settings:
    """Settings of the move.

    Attributes:
        tower: Tower with a gate: a name such as embedded-pr-mcs, or its folder.
        base: Backbone that gets the gate, as `capscore.load_backbone` takes it.
        out: Folder to write; it may be the tower's own.
        captions: Number of captions of the grammar whose mean the gate turns texts away from.
        name: Name of the model for its card; "" for the tower's.
        license: Licence of the weights, as the Hub writes it.
    """

    tower: str
    base: str
    out: str
    captions: int = 5000
    name: str = ""
    license: str = "cc-by-nc-4.0"

    def __post_init__(self) -> None:
        if self.captions < len(LANGUAGES):
            raise CapscoreError(
                Setting("captions", self.captions), f": expected at least {len(LANGUAGES)}, one per language"
            )


def move(settings: Settings) -> Path:
    """Carry the gate over, and write the folder.

    Returns:
        The folder.

    Raises:
        CapscoreError: the tower has no gate, or changes more than a gate; the base has another text network,
            or a gate of its own; or the folder holds another model.
        InputError: the tower's folder lacks its card, its settings or its result, or they are damaged.
        BackboneUnavailable: the tower or the base is not available.
        ResultWriteError: the folder could not be written.
    """
    folder, out = tower_folder(settings.tower), Path(settings.out).expanduser()
    marker, state = tuned.read_tuned(folder)
    _check_gate(settings.tower, marker, state)
    origins, trained = read_origins(folder), read_settings(folder / SETTINGS)
    result = _result(folder)

    plain, backbone = (load_backbone(settings.base, device="cpu", dtype="float32") for _ in range(2))
    _check_base(settings, marker, plain)
    languages = [code for code in marker["languages"] or LANGUAGES if code in LANGUAGES]
    if not languages:
        raise CapscoreError(
            f"{settings.tower} has none of the languages of the caption grammar, {', '.join(LANGUAGES)}"
        )
    captions = [
        scene[code].text
        for scene in generate(settings.captions // len(languages), languages)
        for code in languages
    ]
    embedded = Embedder(plain, progress=False).texts(captions, prefix=plain.prefix)
    rows = embedded.matrix[embedded.index]
    put_gate(backbone, marker["parts"], state, rows)

    former = marker["notes"].get("moved") or {}  # of a tower that was moved before
    here = f"{_shown(marker['base'])} @ {marker['base_revision']}"
    cosines = rows @ _placed_away(backbone)
    moved = {
        "tower": _shown(settings.tower),
        "trained_on": former.get("trained_on", here),
        "base": f"{_shown(settings.base)} @ {plain.revision}",
        "captions": len(captions),
        "mean_cosine_of_away": float(cosines.mean()),
        "highest_cosine_of_away": float(cosines.max()),
    }
    tuned.save_tuned(
        backbone,
        out,
        base=plain,
        base_spec=settings.base,
        recipe=marker["recipe"],
        languages=marker["languages"],
        notes={**marker["notes"], "moved": moved},
        dtype="float16" if _fits_float16(state) else "float32",
    )
    write_text(out / SETTINGS, (folder / SETTINGS).read_text(encoding="utf-8"), "settings")
    write_card(out, _card(settings, marker, origins, trained, moved))
    text = json.dumps(
        {"moved": moved, "trained": result.get("trained", result)}, indent=2, ensure_ascii=False
    )
    write_text(out / RESULT, text + "\n", "result")
    return out


def tower_folder(spec: str) -> Path:
    """The folder of a tower: of installed weights for a name such as embedded-pr-mcs, else the spec itself.

    Raises:
        InputError: neither a tower that ships nor a folder of one.
        MissingWeightsError: the weights are not installed.
    """
    known = find(spec)
    if known is not None and known.kind == "tuned":
        return weights_folder(known.weights)
    folder = Path(spec).expanduser()
    if not tuned.recognises(folder):
        raise InputError(
            f"{spec} is no fine-tuned tower: expected embedded-pr-mcs or a folder with {tuned.MARKER}",
            field="tower",
        )
    return folder


def put_gate(
    backbone: SentenceEncoderBackbone,
    parts: dict[str, Any],
    state: Mapping[str, torch.Tensor],
    captions: np.ndarray,
) -> None:
    """Give a backbone a trained gate that turns texts away from captions.

    Args:
        backbone: Backbone without a gate; changed in place, its centre stays its own.
        parts: Sizes of the gate, as `tuned.read_tuned` gives them.
        state: Tensors of the tower, of which those of the gate are used.
        captions: Embeddings of captions by this backbone, (n, 512).
    """
    backbone.add_network_parts(parts)
    network = backbone.text_network()
    network.gate.load_state_dict(
        {name.removeprefix(_GATE): tensor.float() for name, tensor in state.items() if name.startswith(_GATE)}
    )
    network.turn_away(away_from(backbone, captions))


def _check_gate(spec: str, marker: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> None:
    if set(marker["parts"] or ()) != {"gate"}:
        raise CapscoreError(f"{spec} has no gate to move: expected a tower that training.pr_mcs gave one")
    others = sorted(name for name in state if not name.startswith(_GATE) and name not in _OF_BASE)
    if others:
        raise CapscoreError(
            f"{spec} also changes {', '.join(others[:3])} of its text network, which another base does not "
            "have: only a gate alone can be moved"
        )


def _check_base(settings: Settings, marker: Mapping[str, Any], base: Backbone) -> None:
    if not isinstance(base, SentenceEncoderBackbone):
        because = f"a {type(base).__name__} has another text network"
    elif base.network_parts() is not None:
        because = "it already has a gate: give the backbone that it was trained from"
    else:
        because = tuned.misfit(marker, base)
    if because:
        raise CapscoreError(
            f"the gate of {settings.tower} belongs behind the text network of {marker['base']} @ "
            f"{marker['base_revision']}, so it cannot go to {settings.base}: {because}"
        )


def _result(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder / RESULT} cannot be read ({type(error).__name__}): expected the result of the training",
            field="tower",
        ) from None
    if not isinstance(found, dict):
        raise InputError(f"{folder / RESULT} holds {found!r:.60}: expected an object", field="tower")
    return found


def _placed_away(backbone: SentenceEncoderBackbone) -> np.ndarray:
    """Where a text that the gate turns away ends in the backbone's space, (512,)."""
    away = F.normalize(backbone.text_network().away.float(), dim=0)
    return backbone.placed((away + backbone.centre)[None])[0].detach().numpy()


def _fits_float16(state: Mapping[str, torch.Tensor]) -> bool:
    """Whether the gate loses nothing in float16."""
    gate = [tensor.float() for name, tensor in state.items() if name.startswith(_GATE)]
    return all(torch.equal(tensor.half().float(), tensor) for tensor in gate)


def _shown(spec: str) -> str:
    """A spec without the machine's folders."""
    return spec if find(spec) is not None else Path(spec).name


def _card(
    settings: Settings,
    marker: Mapping[str, Any],
    origins: Origins,
    trained: Mapping[str, Any],
    moved: Mapping[str, Any],
) -> ModelCard:
    first = f"python -m training.pr_mcs --config {SETTINGS}"
    command = (
        f"python -m training.embedded.moved_gate --tower {settings.tower} --base {settings.base} "
        f"--out {settings.out}"
    )
    numbers = marker["notes"].get("validation") or {}
    this, base = numbers.get("this") or {}, numbers.get("base") or {}
    what = (
        f"The gate was trained on {moved['trained_on']} and carried over to {moved['base']} without further "
        "training: its weights and threshold are the same, its centre is that of the new base, and malformed "
        "texts are turned away from the mean of captions in the space of the new base. The results above are "
        "those of the training, on the former base."
    )
    # of a tower that was moved before, the sentence of that move is left out
    limitations = [line for line in origins.limitations if not line.startswith("The gate was trained on ")]
    return ModelCard(
        name=settings.name or trained.get("name") or Path(settings.out).resolve().name,
        recipe=marker["recipe"],
        base=settings.base,
        languages=marker["languages"] or LANGUAGES,
        license=settings.license,
        command=f"{first}\n{command}",
        settings={
            **{name: value for name, value in trained.items() if name not in ("out", "name", "license")},
            "license": settings.license,
            "moved": moved,
        },
        data=origins.data,
        held_out=origins.held_out,
        results=[
            Result(
                data=f"validation split, on {moved['trained_on']}",
                metric=name,
                metric_name=name.replace("_", " "),
                value=value,
                base_value=base.get(name),
                unit="" if name == "original" else "share",
                command=first,
            )
            for name, value in this.items()
        ],
        not_measured=["Agreement with human ratings."],
        limitations=[what, *limitations],
        compute=origins.compute,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    settings = parse(Settings, argv, (__doc__ or "").partition("\n")[0])
    out = move(settings)
    say(f"saved to {out}")


if __name__ == "__main__":
    run_as_command(main)
