"""Convert a checkpoint of InfoMetIC's public code (Hu et al. 2023) into weights that capscore loads.

    python -m training.convert_infometic best_model.pth runs/released --backbone ViT-B-32-quickgelu/openai

In: a file with a state dict of the public code's model, alone or under "model" or "state_dict", its names
with or without "module." before them. Out: a folder for `capscore.load("infometic", weights=folder)`, with a
card. The folder appears whole, or not at all.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from capscore.backbones.base import Backbone, as_read
from capscore.backbones.checkpoint import in_one_line
from capscore.backbones.loading import load_backbone
from capscore.cli.terminal import as_command, say
from capscore.errors import CapscoreError, InputError, ResultWriteError
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from training.data.origin import DataSource
from training.engine.model_card import ModelCard, write_card

# Backbone of the published checkpoint.
PUBLISHED = "ViT-B-32-quickgelu/openai"
HEADS = 16
_WRAPPED_IN = ("model", "state_dict")
_PARALLEL = "module."
_CLIP = "clip_backbone."
_CLIP_TOKENS = "token_embedding.weight"
# Names of the public code → ours; a "*" is the number of a layer. Its matrices stand on the right of a
# product, ours (`nn.Linear`) on the left, so that some are transposed.
_STACKS = {"image_encoder": "image_layers", "text_encoder": "text_layers", "fusion_encoder": "inter_layers"}
_LAYER = {
    "attn.in_proj_weight": "attention_in.weight",
    "attn.in_proj_bias": "attention_in.bias",
    "attn.out_proj.weight": "attention_out.weight",
    "attn.out_proj.bias": "attention_out.bias",
    "ln_1.weight": "attention_norm.weight",
    "ln_1.bias": "attention_norm.bias",
    "ln_2.weight": "mlp_norm.weight",
    "ln_2.bias": "mlp_norm.bias",
    "mlp.c_fc.weight": "mlp_in.weight",
    "mlp.c_fc.bias": "mlp_in.bias",
    "mlp.c_proj.weight": "mlp_out.weight",
    "mlp.c_proj.bias": "mlp_out.bias",
}
_SINGLE = {"ln.weight": "norms.all.weight", "ln.bias": "norms.all.bias", "logit_scale": "log_scale"}
_TRANSPOSED = {
    "bbox_position_embedding": "box_position.weight",
    "img_att_query": "region_query.weight",
    "img_att_key": "region_key.weight",
    "text_att_query": "token_query.weight",
    "text_att_key": "token_key.weight",
}
_DATA = (
    DataSource("MSCOCO, training split", "unknown", url="https://cocodataset.org"),
    DataSource("Flickr30k, training split", "for research only"),
)


def convert(
    checkpoint: str | Path,
    out: str | Path,
    *,
    backbone: str = "",
    heads: int = HEADS,
    license: str = "unknown",
) -> InfoMetIC:
    """Write the network of a public checkpoint as a folder.

    Args:
        checkpoint: File that the public code saved.
        out: Folder to write; it must be missing or empty.
        backbone: Backbone whose features the network reads, as `capscore.load_backbone` takes it; the weights
            then refuse any other. "" records none.
        heads: Number of attention heads, which the tensors do not tell.
        license: Licence of the weights for the card.

    Returns:
        The network, as the folder has it.

    Raises:
        InputError: there is no such file, or the folder holds something.
        CapscoreError: the file is not such a checkpoint; tensors that are missing, unexpected or of another
            shape are named. Or the backbone has other features.
        BackboneUnavailable: the backbone is not available.
        ResultWriteError: the folder cannot be written.
    """
    source, target = Path(checkpoint).expanduser(), Path(out).expanduser()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{target} already holds something: give a new folder", field="out")
    network, clip = _parts(_read(source), source)
    config = _config(network, source, heads)
    if backbone:
        config = _on(config, load_backbone(backbone, device="cpu", dtype="float32"), clip, source)
    with torch.random.fork_rng(devices=[]):
        model = InfoMetIC(config)
    _load(model, network, source)
    notes = {"converted_from": source.name, "recipe": "infometic", "languages": ["en"]}
    card = _card(target, source, config, backbone, license)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as scratch:
            whole = Path(scratch) / target.name
            model.save_pretrained(whole, notes=notes)
            write_card(whole, card)
            os.replace(whole, target)
    except OSError as error:
        if isinstance(error, CapscoreError):
            raise
        raise ResultWriteError(f"{target} could not be written: {error.strerror or error}") from error
    return InfoMetIC.from_pretrained(target)


def _read(path: Path) -> Mapping[str, Any]:
    """The names and values of a checkpoint; no code in the file runs."""
    if not path.is_file():
        raise InputError(f"there is no file {path}", field="checkpoint")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch's own message advises to load the file anyway
        raise CapscoreError(
            f"{path} cannot be read safely as a checkpoint: it is damaged, or holds more than tensors"
        ) from None
    for name in _WRAPPED_IN:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not found:
        raise CapscoreError(f"{path} holds {type(found).__name__}: expected names with their tensors")
    return found


def _parts(found: Mapping[str, Any], path: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The network's tensors and CLIP's, without the prefixes of their names."""
    network: dict[str, Tensor] = {}
    clip: dict[str, Tensor] = {}
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or not value.is_floating_point():
            raise CapscoreError(f"{path}: {name!r} should be a tensor of numbers, not {type(value).__name__}")
        plain = name.removeprefix(_PARALLEL)
        (clip if plain.startswith(_CLIP) else network)[plain.removeprefix(_CLIP)] = value.float()
    return network, clip


def _config(network: Mapping[str, Tensor], path: Path, heads: int) -> InfoMetICConfig:
    norm = network.get("ln.weight")
    if norm is None or norm.ndim != 1:
        few = ", ".join(list(network)[:3]) or "nothing else"
        raise CapscoreError(
            f"{path} is not a checkpoint of InfoMetIC's public code: it has no vector ln.weight (it has "
            f"{few})"
        )
    layers = {stack: {_layer(name) for name in network if name.startswith(stack)} for stack in _STACKS}
    depths = {stack: len(numbers - {None}) for stack, numbers in layers.items()}
    config = InfoMetICConfig(
        dim=len(norm),
        heads=heads,
        intra_layers=max(depths["image_encoder"], depths["text_encoder"]),
        inter_layers=depths["fusion_encoder"],
    )
    return config.released()


def _layer(name: str) -> str | None:
    """The number of the layer that a tensor of the public code belongs to."""
    found = re.match(r"\w+\.resblocks\.(\d+)\.", name)
    return found and found[1]


def _on(
    config: InfoMetICConfig, backbone: Backbone, clip: Mapping[str, Tensor], path: Path
) -> InfoMetICConfig:
    """The config for a backbone, if it can be the one that the checkpoint was trained with."""
    if backbone.dim != config.dim:
        raise CapscoreError(
            f"{path} reads features of length {config.dim}; those of {backbone.name} have {backbone.dim}",
        )
    as_read(backbone, unit=config.unit_inputs, caption_tokens=config.caption_tokens)
    theirs = clip.get(_CLIP_TOKENS)
    if theirs is not None:
        state = backbone.text_network().state_dict()
        ours = [tensor.float().cpu() for name, tensor in state.items() if name.endswith(_CLIP_TOKENS)]
        # the public code keeps CLIP in half precision
        same = (
            ours and ours[0].shape == theirs.shape and torch.allclose(ours[0], theirs, rtol=2e-3, atol=1e-4)
        )
        if not same:
            raise CapscoreError(
                f"{path} was trained with another CLIP than {backbone.name}: their tables of tokens differ"
            )
    return config.on(backbone)


def _load(model: InfoMetIC, network: Mapping[str, Tensor], path: Path) -> None:
    """Give the model the tensors, exactly those that it has."""
    renamed = {}
    for name, tensor in network.items():
        stack, _, rest = name.partition(".resblocks.")
        layer, _, part = rest.partition(".")
        ours = {**_SINGLE, **_TRANSPOSED}.get(name)
        if ours is None and stack in _STACKS and part in _LAYER:
            ours = f"{_STACKS[stack]}.{layer}.{_LAYER[part]}"
        renamed[ours or name] = tensor.mT if name in _TRANSPOSED and tensor.ndim > 1 else tensor
    try:
        model.load_state_dict(renamed)
    except RuntimeError as error:
        config = model.config
        raise CapscoreError(
            f"{path} does not fit the public code's model with {config.intra_layers} layers of each "
            f"modality, {config.inter_layers} of both, and vectors of {config.dim}: {in_one_line(error)}"
        ) from None


def _card(target: Path, source: Path, config: InfoMetICConfig, backbone: str, license: str) -> ModelCard:
    plain = asdict(replace(config, backbone="", backbone_revision="", backbone_fingerprint=""))
    command = ["python", "-m", "training.convert_infometic", source.name, target.name]
    command += ["--backbone", backbone] if backbone else []
    command += ["--heads", str(config.heads)] if config.heads != HEADS else []
    limitations = [
        "These weights were not trained here: they are a checkpoint of the public code "
        "(github.com/HAWLYQ/InfoMetIC), whose scores they give. The data are those of its paper."
    ]
    if not backbone:
        limitations.append("The weights do not record their backbone: they refuse none of its length.")
    return ModelCard(
        name=target.name,
        recipe="infometic",
        base=backbone or PUBLISHED,
        languages=["en"],
        license=license,
        command=shlex.join(command),
        settings={name: value for name, value in plain.items() if value != ""},
        data=_DATA,
        not_measured=["Agreement with human ratings."],
        limitations=limitations,
    )


app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command(help="Convert a checkpoint of InfoMetIC's public code into a folder that capscore loads.")
@as_command
def main_command(
    checkpoint: Annotated[
        Path, typer.Argument(help="File that the public code saved, such as best_model.pth.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder to write; missing or empty.")],
    backbone: Annotated[
        str,
        typer.Option(
            help=f"Backbone to bind the weights to; the published ones are for {PUBLISHED}. Default: none.",
            show_default=False,
        ),
    ] = "",
    heads: Annotated[int, typer.Option(help="Number of attention heads.", min=1)] = HEADS,
    license: Annotated[str, typer.Option(help="Licence of the weights, for the card.")] = "unknown",
) -> None:
    model = convert(checkpoint, out, backbone=backbone, heads=heads, license=license)
    config = model.config
    say(
        f"saved to {out}: {config.intra_layers} layers of each modality, {config.inter_layers} of both, "
        f"vectors of {config.dim}"
    )
    if not backbone:
        say(f"note: no backbone is recorded; --backbone {PUBLISHED} makes the weights refuse any other")
    say(f"load it: capscore.load('infometic', backbone={config.backbone or PUBLISHED!r}, weights='{out}')")


if __name__ == "__main__":
    app()
