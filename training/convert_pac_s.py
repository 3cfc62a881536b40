"""Convert a checkpoint of PAC-S or PAC-S++ (Sarto et al. 2023, 2025) into a backbone.

    python -m training.convert_pac_s --checkpoint clip_ViT-B-32.pth --out runs/pac-s

In: a checkpoint of the public code (github.com/aimagelab/pacscore), a whole CLIP with other weights, for
PAC-S++ with LoRA. Out: a folder in open_clip's form, with a card, the prefix "A photo depicts " and w = 2.
With it as backbone, `clip_score` is PAC-S, and `ref_clip_score` RefPAC-S. The folder appears whole, or not at
all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import open_clip
import torch
from safetensors.torch import save_file
from torch import Tensor

from capscore.backbones.base import Backbone
from capscore.backbones.checkpoint import OPEN_CLIP_CONFIG, OPEN_CLIP_WEIGHTS
from capscore.backbones.loading import load_backbone
from capscore.backbones.open_clip import tag_config
from capscore.errors import CapscoreError, InputError
from training.data.source import DataSource
from training.data.stored import whole_folder
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.model_card import ModelCard, write_card
from training.engine.public_checkpoint import command_of, new_folder, origin_of, read_tensors

PREFIX, W = "A photo depicts ", 2.0
_DATA = [DataSource("MSCOCO, training split", "unknown", url="https://cocodataset.org")]
_READING = ("mean", "std", "interpolation", "resize_mode")


@dataclass
class Settings:
    """Settings of the conversion.

    Attributes:
        checkpoint: File of the public code, such as clip_ViT-B-32.pth.
        out: Folder to write; missing or empty.
        license: Licence of the weights for the card.
        backbone: CLIP that was trained further: ViT-B-32-quickgelu/openai for clip_ViT-B-32.pth and
            PAC++_clip_ViT-B-32.pth, ViT-L-14-quickgelu/openai for PAC++_clip_ViT-L-14.pth,
            ViT-L-14/laion2b_s32b_b82k for openClip_ViT-L-14.pth. Its weights are not needed.
    """

    checkpoint: str
    out: str
    backbone: str = "ViT-B-32-quickgelu/openai"
    license: str = "unknown"


def convert(
    checkpoint: str | Path,
    out: str | Path,
    *,
    backbone: str = Settings.backbone,
    license: str = Settings.license,
) -> Backbone:
    """Write the CLIP of a public checkpoint as a folder; arguments are those of `Settings`.

    Returns:
        The backbone, as the folder has it.

    Raises:
        InputError: there is no such file or architecture, or the folder holds something.
        CapscoreError: the file is not such a checkpoint; names tensors that are missing, unexpected or of
            another shape.
        ResultWriteError: the folder cannot be written.
    """
    source, target = Path(checkpoint).expanduser(), new_folder(out)
    architecture, _, tag = backbone.partition("/")
    model = open_clip.get_model_config(architecture)
    if model is None:
        raise InputError(f"{backbone!r}: open_clip has no architecture {architecture!r}", field="backbone")
    published = tag_config(architecture, tag)
    model["quick_gelu"] = bool(published.get("quick_gelu", False))
    tensors = _without_lora(read_tensors(source), source)
    with torch.device("meta"):
        expected = open_clip.CLIP(**model).state_dict()
    wrong = [f"{name} is missing" for name in expected if name not in tensors]
    wrong += [f"{name} is unexpected" for name in tensors if name not in expected]
    wrong += [
        f"{name} has the shape {tuple(tensors[name].shape)}, not {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape != tensor.shape
    ]
    if wrong:
        few = "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        raise CapscoreError(f"{source} does not fit {architecture}: {few}")
    config = {
        "model_cfg": model,
        "preprocess_cfg": {name: published[name] for name in _READING if published.get(name) is not None},
        "capscore": {"prefix": PREFIX, "w": W, "converted_from": source.name},
    }
    with whole_folder(target) as whole:
        (whole / OPEN_CLIP_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        save_file({name: tensors[name].contiguous() for name in expected}, whole / OPEN_CLIP_WEIGHTS[0])
        write_card(whole, _card(target, source, backbone, license))
    return load_backbone(target, device="cpu")


def _card(target: Path, source: Path, backbone: str, license: str) -> ModelCard:
    return ModelCard(
        name=target.name,
        recipe="pac_s",
        base=backbone,
        languages=["en"],
        license=license,
        command=command_of("pac_s", source, target, backbone),
        settings={"prefix": PREFIX, "w": W},
        data=_DATA,
        not_measured=["Agreement with human ratings."],
        limitations=[origin_of("github.com/aimagelab/pacscore")],
    )


def _without_lora(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Tensors with LoRA added to the weights it belongs to: W + B A / rank.

    In an MLP, the public code takes LoRA for added already when it reads the file: there W counts alone.
    """
    found = {name: tensor for name, tensor in tensors.items() if "lora_" not in name}
    for name, first in tensors.items():
        if not name.endswith("lora_A") or ".mlp." in name:
            continue
        start = name.removesuffix("lora_A")  # "….in_proj_weight_", or "….out_proj."
        weight = start.removesuffix("_") if start.endswith("_") else f"{start}weight"
        try:
            whole, second = found[weight], tensors[f"{start}lora_B"]
            # of a convolution, both factors repeat the rank for each row of its kernel
            rank = len(first) // (whole.shape[-1] if whole.ndim == 4 else 1)
            found[weight] = whole + (second @ first).reshape(whole.shape) / rank
        except (KeyError, RuntimeError):
            raise CapscoreError(f"{path}: {name}, {start}lora_B and {weight} do not go together") from None
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    given = parse(Settings, argv, "Convert a checkpoint of PAC-S or PAC-S++.")
    made = convert(given.checkpoint, given.out, backbone=given.backbone, license=given.license)
    print(f"saved to {given.out}: vectors of {made.dim}, w = {made.w:g}, prefix {made.prefix!r}")


if __name__ == "__main__":
    run_as_command(main, Settings)
