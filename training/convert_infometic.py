"""Convert a checkpoint of InfoMetIC's public code (Hu et al. 2023) into weights that capscore loads.

    python -m training.convert_infometic --checkpoint best_model.pth --out runs/released \
        --backbone ViT-B-32-quickgelu/openai

In: a file with a state dict of the public code's model, alone or under "model" or "state_dict", its names
with or without "module." before them. Out: a folder for `capscore.load("infometic", weights=folder)`, with a
card. The folder appears whole, or not at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from capscore.backbones.base import Backbone, as_read
from capscore.backbones.loading import load_backbone
from capscore.errors import CapscoreError, message_of
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from training.data.source import DataSource
from training.data.stored import whole_folder
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.model_card import ModelCard, write_card
from training.engine.public_checkpoint import command_of, new_folder, origin_of, read_tensors

# Backbone of the published checkpoint.
PUBLISHED = "ViT-B-32-quickgelu/openai"
_CLIP = "clip_backbone."
_CLIP_TOKENS = "token_embedding.weight"
# Names of the public code → ours. Its matrices stand on the right of a product, ours (`nn.Linear`) on the
# left, so that some are transposed.
_STACKS = {"image_encoder": "image_layers", "text_encoder": "text_layers", "fusion_encoder": "inter_layers"}
_LAYER = {
    "attn.in_proj_": "attention_in.",
    "attn.out_proj.": "attention_out.",
    "ln_1.": "attention_norm.",
    "ln_2.": "mlp_norm.",
    "mlp.c_fc.": "mlp_in.",
    "mlp.c_proj.": "mlp_out.",
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


@dataclass
class Settings:
    """Settings of the conversion.

    Attributes:
        checkpoint: File that the public code saved, such as best_model.pth.
        out: Folder to write; missing or empty.
        backbone: Backbone whose features the network reads, as `capscore.load_backbone` takes it; the weights
            then refuse any other. "" records none. The published checkpoint is for ViT-B-32-quickgelu/openai.
        license: Licence of the weights for the card.
    """

    checkpoint: str
    out: str
    backbone: str = ""
    license: str = "unknown"


def convert(
    checkpoint: str | Path, out: str | Path, *, backbone: str = "", license: str = "unknown"
) -> InfoMetIC:
    """Write the network of a public checkpoint as a folder; arguments are those of `Settings`.

    Returns:
        The network, as the folder has it.

    Raises:
        InputError: there is no such file, or the folder holds something.
        CapscoreError: the file is not such a checkpoint; tensors that are missing, unexpected or of another
            shape are named. Or the backbone has other features.
        BackboneUnavailable: the backbone is not available.
        ResultWriteError: the folder cannot be written.
    """
    source, target = Path(checkpoint).expanduser(), new_folder(out)
    found = read_tensors(source)
    network = {name: tensor for name, tensor in found.items() if not name.startswith(_CLIP)}
    config = _config(network, source)
    if backbone:
        loaded = load_backbone(backbone, device="cpu", dtype="float32")
        _check_backbone(config, loaded, found.get(_CLIP + _CLIP_TOKENS), source)
        config = config.on(loaded)
    with torch.random.fork_rng(devices=[]):
        model = InfoMetIC(config)
    _load(model, network, source)
    notes = {"converted_from": source.name, "recipe": "infometic", "languages": ["en"]}
    card = _card(target, source, config, backbone, license)
    with whole_folder(target) as whole:
        model.save_pretrained(whole, notes=notes)
        write_card(whole, card)
    return InfoMetIC.from_pretrained(target)


def _config(network: Mapping[str, Tensor], path: Path) -> InfoMetICConfig:
    norm = network.get("ln.weight")
    if norm is None or norm.ndim != 1:
        few = ", ".join(list(network)[:3]) or "nothing else"
        what = "is not a checkpoint of InfoMetIC's public code: it has no vector ln.weight"
        raise CapscoreError(f"{path} {what} (it has {few})")
    layers = set(re.findall(r"^(\w+)\.resblocks\.(\d+)\.", "\n".join(network), re.MULTILINE))
    depths = Counter(stack for stack, _ in layers)
    intra, inter = max(depths["image_encoder"], depths["text_encoder"]), depths["fusion_encoder"]
    return InfoMetICConfig(dim=len(norm), heads=16, intra_layers=intra, inter_layers=inter).released()


def _check_backbone(config: InfoMetICConfig, backbone: Backbone, theirs: Tensor | None, path: Path) -> None:
    """Raise unless a backbone can be the one that the checkpoint was trained with."""
    if backbone.dim != config.dim:
        raise CapscoreError(
            f"{path} reads features of length {config.dim}; those of {backbone.name} have {backbone.dim}",
        )
    as_read(backbone, unit=config.unit_inputs, caption_tokens=config.caption_tokens)
    if theirs is not None:
        state = backbone.text_network().state_dict()
        ours = [tensor.float().cpu() for name, tensor in state.items() if name.endswith(_CLIP_TOKENS)]
        same = bool(ours) and ours[0].shape == theirs.shape
        # the public code keeps CLIP in half precision
        if not same or not torch.allclose(ours[0], theirs, rtol=2e-3, atol=1e-4):
            raise CapscoreError(
                f"{path} was trained with another CLIP than {backbone.name}: their tables of tokens differ"
            )


def _load(model: InfoMetIC, network: Mapping[str, Tensor], path: Path) -> None:
    """Give the model the tensors, exactly those that it has."""
    renamed = {}
    for name, tensor in network.items():
        ours = {**_SINGLE, **_TRANSPOSED}.get(name, name)
        stack, _, rest = name.partition(".resblocks.")
        layer, _, part = rest.partition(".")
        for theirs, own in _LAYER.items():
            if stack in _STACKS and part in (f"{theirs}weight", f"{theirs}bias"):
                ours = f"{_STACKS[stack]}.{layer}.{own}{part.removeprefix(theirs)}"
        renamed[ours] = tensor.mT if name in _TRANSPOSED and tensor.ndim > 1 else tensor
    try:
        model.load_state_dict(renamed)
    except RuntimeError as error:
        config = model.config
        raise CapscoreError(
            f"{path} does not fit the public code's model with {config.intra_layers} layers of each "
            f"modality, {config.inter_layers} of both, and vectors of {config.dim}: {message_of(error)}"
        ) from None


def _card(target: Path, source: Path, config: InfoMetICConfig, backbone: str, license: str) -> ModelCard:
    plain = asdict(replace(config, backbone="", backbone_revision="", backbone_fingerprint=""))
    limitations = [origin_of("github.com/HAWLYQ/InfoMetIC")]
    if not backbone:
        limitations.append("The weights do not record their backbone: they refuse none of its length.")
    return ModelCard(
        name=target.name,
        recipe="infometic",
        base=backbone or PUBLISHED,
        languages=["en"],
        license=license,
        command=command_of("infometic", source, target, backbone),
        settings={name: value for name, value in plain.items() if value != ""},
        data=_DATA,
        not_measured=["Agreement with human ratings."],
        limitations=limitations,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    given = parse(Settings, argv, "Convert a checkpoint of InfoMetIC's public code.")
    config = convert(given.checkpoint, given.out, backbone=given.backbone, license=given.license).config
    layers = f"{config.intra_layers} layers of each modality, {config.inter_layers} of both"
    print(f"saved to {given.out}: {layers}, vectors of {config.dim}")
    if not given.backbone:
        print(f"no backbone is recorded; --backbone {PUBLISHED} makes the weights refuse any other")


if __name__ == "__main__":
    run_as_command(main, Settings)
