"""Convert a checkpoint of the public code of InfoMetIC, PAC-S or PAC-S++ into weights that capscore loads.

    python -m training.convert --checkpoint best_model.pth --out runs/released \
        --backbone ViT-B-32-quickgelu/openai
    python -m training.convert --checkpoint clip_ViT-B-32.pth --out runs/pac-s

In: a file of the public code; its tensors say which. Out: a folder with a card, which appears whole, or not
at all. Of InfoMetIC (Hu et al. 2023, github.com/HAWLYQ/InfoMetIC) it is for
`capscore.load("infometic", weights=folder)`. Of PAC-S and PAC-S++ (Sarto et al. 2023, 2025,
github.com/aimagelab/pacscore), a whole CLIP with other weights, it is a backbone in open_clip's form with the
prefix "A photo depicts " and w = 2: with it `clip_score` is PAC-S, and `ref_clip_score` RefPAC-S.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from capscore.backbones import load_backbone
from capscore.backbones.base import Backbone, as_read
from capscore.backbones.checkpoint import OPEN_CLIP_CONFIG, OPEN_CLIP_WEIGHTS
from capscore.backbones.open_clip import tag_config
from capscore.errors import CapscoreError, InputError, message_of
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from training.data.source import DataSource
from training.data.stored import whole_folder
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.model_card import ModelCard, write_card

PUBLISHED = "ViT-B-32-quickgelu/openai"  # backbone of the published checkpoints
PREFIX, W = "A photo depicts ", 2.0
_CLIP = "clip_backbone."
_CLIP_TOKENS = "token_embedding.weight"
_READING = ("mean", "std", "interpolation", "resize_mode")
# Names of InfoMetIC's public code → ours. Its matrices stand on the right of a product, ours (`nn.Linear`) on
# the left, so that some are transposed.
_PARTS = {
    "image_encoder.resblocks.": "image_layers.",
    "text_encoder.resblocks.": "text_layers.",
    "fusion_encoder.resblocks.": "inter_layers.",
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
_COCO = DataSource("MSCOCO, training split", "unknown", url="https://cocodataset.org")
_FLICKR30K = DataSource("Flickr30k, training split", "for research only")
_CODE = {"infometic": "github.com/HAWLYQ/InfoMetIC", "pac_s": "github.com/aimagelab/pacscore"}


@dataclass
class Settings:
    """Settings of the conversion.

    Attributes:
        checkpoint: File that the public code saved: a state dict, alone or under "model" or "state_dict", its
            names with or without "module." before them.
        out: Folder to write; missing or empty.
        backbone: For InfoMetIC, the backbone whose features the network reads, as `capscore.load_backbone`
            takes it: the weights then refuse any other; "" records none. For PAC-S, the CLIP that was trained
            further, whose weights are not needed: ViT-B-32-quickgelu/openai, also where it is "", for
            clip_ViT-B-32.pth and PAC++_clip_ViT-B-32.pth, ViT-L-14-quickgelu/openai for
            PAC++_clip_ViT-L-14.pth, ViT-L-14/laion2b_s32b_b82k for openClip_ViT-L-14.pth.
        license: Licence of the weights for the card.

    Raises:
        InputError: the folder holds something.
    """

    checkpoint: str
    out: str
    backbone: str = ""
    license: str = "unknown"

    def __post_init__(self) -> None:
        if self.target.exists() and not (self.target.is_dir() and not any(self.target.iterdir())):
            raise InputError(f"{self.target} is not empty: give a new folder", field="out")

    @property
    def source(self) -> Path:
        return Path(self.checkpoint).expanduser()

    @property
    def target(self) -> Path:
        return Path(self.out).expanduser()


def convert(settings: Settings) -> InfoMetIC | Backbone:
    """Write the network of a public checkpoint as a folder; returns InfoMetIC's network, or PAC-S's backbone.

    A CapscoreError says that the file is not such a checkpoint, or that the backbone has other features.
    """
    tensors = read_tensors(settings.source)
    if "visual.proj" in tensors:
        return _pac_s(settings, tensors)
    return _infometic(settings, tensors)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, in float32, without running code; CapscoreError for other content.

    They are at the top level or under "model" or "state_dict"; "module." before a name is left out.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}", field="checkpoint")
    try:
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch's own message advises to load the file anyway
        raise CapscoreError(
            f"{path} cannot be read safely as a checkpoint: it is damaged, or holds more than tensors"
        ) from None
    for wrapped_in in ("model", "state_dict"):
        if isinstance(found, Mapping) and isinstance(found.get(wrapped_in), Mapping):
            found = found[wrapped_in]
    if not isinstance(found, Mapping) or not found:
        raise CapscoreError(f"{path} holds {type(found).__name__}: expected names with their tensors")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or not value.is_floating_point():
            raise CapscoreError(f"{path}: {name!r} should be a tensor of numbers, not {type(value).__name__}")
    return {name.removeprefix("module."): tensor.float() for name, tensor in found.items()}


def _infometic(settings: Settings, tensors: Mapping[str, Tensor]) -> InfoMetIC:
    """InfoMetIC's network, whose weights of CLIP are left out."""
    path = settings.source
    network = {name: tensor for name, tensor in tensors.items() if not name.startswith(_CLIP)}
    norm = network.get("ln.weight")
    if norm is None or norm.ndim != 1:
        problem = "has neither the vector ln.weight of InfoMetIC's public code nor visual.proj of PAC-S's"
        raise CapscoreError(f"{path} {problem}; it has {', '.join([*network][:3])}")
    layers = set(re.findall(r"^(\w+)\.resblocks\.(\d+)\.", "\n".join(network), re.MULTILINE))
    depths = Counter(stack for stack, _ in layers)
    intra, inter = max(depths["image_encoder"], depths["text_encoder"]), depths["fusion_encoder"]
    config = InfoMetICConfig(dim=len(norm), heads=16, intra_layers=intra, inter_layers=inter).released()
    if settings.backbone:
        loaded = load_backbone(settings.backbone, device="cpu", dtype="float32")
        _check_backbone(config, loaded, tensors.get(_CLIP + _CLIP_TOKENS), path)
        config = config.on(loaded)
    with torch.device("meta"):
        model = InfoMetIC(config)
    sizes = f"{intra} layers of each modality, {inter} of both, and vectors of {config.dim}"
    _fill(model, _renamed(network), f"{path} does not fit the public code's model with {sizes}")
    notes = {"converted_from": path.name, "recipe": "infometic", "languages": ["en"]}
    stated = asdict(replace(config, backbone="", backbone_revision="", backbone_fingerprint=""))
    stated = {name: value for name, value in stated.items() if value != ""}
    with whole_folder(settings.target) as whole:
        model.save_pretrained(whole, notes=notes)
        write_card(whole, _card(settings, "infometic", stated, [_COCO, _FLICKR30K]))
    return InfoMetIC.from_pretrained(settings.target)


def _fill(model: nn.Module, tensors: Mapping[str, Tensor], problem: str) -> None:
    """Put a checkpoint's tensors into a model without memory; `problem` begins the error."""
    try:
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise CapscoreError(f"{problem}: {message_of(error)}") from None


def _check_backbone(config: InfoMetICConfig, backbone: Backbone, theirs: Tensor | None, path: Path) -> None:
    """Raise unless a backbone can be the one that the checkpoint was trained with."""
    if backbone.dim != config.dim:
        lengths = f"{config.dim}; those of {backbone.name} have {backbone.dim}"
        raise CapscoreError(f"{path} reads features of length {lengths}")
    as_read(backbone, unit=config.unit_inputs, caption_tokens=config.caption_tokens)
    if theirs is None:
        return
    for name, tensor in backbone.text_network().state_dict().items():
        ours = tensor.float().cpu()
        # the public code keeps CLIP in half precision
        if name.endswith(_CLIP_TOKENS) and ours.shape == theirs.shape:
            if torch.allclose(ours, theirs, rtol=2e-3, atol=1e-4):
                return
    problem = f"was trained with another CLIP than {backbone.name}: their tables of tokens differ"
    raise CapscoreError(f"{path} {problem}")


def _renamed(network: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of InfoMetIC's public code, as ours are called."""
    renamed = {}
    for name, tensor in network.items():
        ours = {**_SINGLE, **_TRANSPOSED}.get(name, name)
        for theirs, own in _PARTS.items():
            ours = ours.replace(theirs, own)
        renamed[ours] = tensor.mT if name in _TRANSPOSED and tensor.ndim > 1 else tensor
    return renamed


def _pac_s(settings: Settings, tensors: Mapping[str, Tensor]) -> Backbone:
    """The CLIP of PAC-S, or of PAC-S++ with its LoRA added."""
    source, backbone = settings.source, settings.backbone or PUBLISHED
    architecture, _, tag = backbone.partition("/")
    model = open_clip.get_model_config(architecture)
    if model is None:
        raise InputError(f"{backbone!r}: open_clip has no architecture {architecture!r}", field="backbone")
    published = tag_config(architecture, tag)
    model["quick_gelu"] = bool(published.get("quick_gelu", False))
    with torch.device("meta"):
        clip = open_clip.CLIP(**model)
    _fill(clip, _without_lora(tensors, source), f"{source} does not fit {architecture}")
    config = {
        "model_cfg": model,
        "preprocess_cfg": {name: published[name] for name in _READING if published.get(name) is not None},
        "capscore": {"prefix": PREFIX, "w": W, "converted_from": source.name},
    }
    with whole_folder(settings.target) as whole:
        (whole / OPEN_CLIP_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        weights = {name: tensor.contiguous() for name, tensor in clip.state_dict().items()}
        save_file(weights, whole / OPEN_CLIP_WEIGHTS[0])
        write_card(whole, _card(settings, "pac_s", {"prefix": PREFIX, "w": W}, [_COCO]))
    return load_backbone(settings.target, device="cpu")


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


def _card(
    settings: Settings, recipe: str, stated: Mapping[str, object], data: Sequence[DataSource]
) -> ModelCard:
    words = ["python", "-m", "training.convert", "--checkpoint", settings.source.name]
    words += ["--out", settings.target.name]
    code = f"a checkpoint of the public code ({_CODE[recipe]}), whose scores they give"
    limits = [f"These weights were not trained here: they are {code}. The data are those of its paper."]
    if settings.backbone:
        words += ["--backbone", settings.backbone]
    elif recipe == "infometic":
        limits.append("The weights do not record their backbone: they refuse none of its length.")
    return ModelCard(
        name=settings.target.name,
        recipe=recipe,
        base=settings.backbone or PUBLISHED,
        languages=["en"],
        license=settings.license,
        command=shlex.join(words),
        settings=stated,
        data=data,
        not_measured=["Agreement with human ratings."],
        limitations=limits,
    )


def main(argv: Sequence[str] | None = None) -> None:
    settings = parse(Settings, argv, "Convert a checkpoint of InfoMetIC, PAC-S or PAC-S++.")
    made = convert(settings)
    if isinstance(made, Backbone):
        print(f"saved to {settings.out}: vectors of {made.dim}, w = {made.w:g}, prefix {made.prefix!r}")
        return
    config = made.config
    layers = f"{config.intra_layers} layers of each modality, {config.inter_layers} of both"
    print(f"saved to {settings.out}: {layers}, vectors of {config.dim}")
    if not settings.backbone:
        print(f"no backbone is recorded; --backbone {PUBLISHED} makes the weights refuse any other")


if __name__ == "__main__":
    run_as_command(main, Settings)
