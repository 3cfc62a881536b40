"""Which part of a backbone is trained, and saved: whole towers, layers by their names, or LoRA."""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm  # noqa: PLC2701

from capscore.backbones import load_backbone
from capscore.backbones.base import Backbone
from capscore.backbones.embedded.backbone import EmbeddedBackbone
from capscore.errors import CapscoreError, MissingExtraError, Setting
from training.data.pictures import Fixed
from training.engine.loop_settings import ABOVE_ZERO, require, require_range
from training.engine.saved_towers import save_image_tower, save_tuned

TowerChoice = Literal["both", "image", "text"]
_NOT_TRAINED = ("logit_scale", "logit_bias")  # which a loss of cosines does not use


@dataclass
class PartSettings:
    """Which part of a backbone is trained.

    Attributes:
        towers: Towers to train: "both", "image" or "text".
        layers: Patterns of names of the parameters to train, such as "*.resblocks.11.*", or of linear layers
            with LoRA; [] for all of the towers.
        lora_rank: Rank of LoRA (Hu et al. 2022): two small matrices beside each linear layer are trained, and
            added to it at the end. None trains the layers themselves.
        lora_alpha: The product of the two matrices counts lora_alpha / lora_rank.
        lora_dropout: Dropout before the first matrix.
        gradient_checkpointing: Whether activations are computed twice instead of kept.
    """

    towers: TowerChoice = "both"
    layers: list[str] = field(default_factory=list)
    lora_rank: int | None = None
    lora_alpha: float = 16.0
    lora_dropout: float = 0.0
    gradient_checkpointing: bool = False

    def __post_init__(self) -> None:
        require_range(self, ["lora_rank"], 1, math.inf, "at least 1, or nothing (null)")
        require_range(self, ["lora_alpha"], ABOVE_ZERO, math.inf, "a number above 0")
        require_range(self, ["lora_dropout"], 0, 1, "a share from 0 to below 1")


class TrainedPart:
    """The part of a backbone that is trained, and its weights afterwards.

    The backbone is changed in place: parameters of `network`, the module to train, are frozen or not, and
    LoRA is added, whose first matrices `seed` draws. `fixed` is that of `TrainedPictures`.
    """

    def __init__(self, backbone: Backbone, settings: PartSettings, *, seed: int = 0):
        towers = settings.towers
        self._backbone, self._origin = backbone, f"{backbone.name}@{backbone.revision}"
        self._saved: Literal["text", "both"] = "both"
        if towers == "text" and not isinstance(backbone, EmbeddedBackbone):
            self._saved = "text"
            self.network: nn.Module = backbone.text_network()
            of_text = self.network.parameters()
        else:  # the text side of an image tower is part of it
            self.network = backbone.network()
            of_text = iter(backbone.text_parameters())
        own = set(map(id, of_text))
        named = dict(self.network.named_parameters())
        text = {name for name, parameter in named.items() if id(parameter) in own}
        chosen = {"text": text, "image": named.keys() - text, "both": named.keys()}[towers]
        self._names = {name for name in chosen if name.rpartition(".")[2] not in _NOT_TRAINED}
        self._lora: Any = None
        self.network.requires_grad_(False)
        if settings.lora_rank is None:
            for name in _chosen(settings.layers, sorted(self._names), "parameter"):
                self.network.get_parameter(name).requires_grad_(True)
        else:
            self._add_lora(settings, seed)
        trained = [name for name, parameter in self.network.named_parameters() if parameter.requires_grad]
        self.fixed: Fixed = "embedding"
        if any(_layer_weight(name) not in text for name in trained):
            in_trunk = any(name.startswith("trunk.") for name in trained)
            has_map = isinstance(backbone, EmbeddedBackbone) and not in_trunk
            self.fixed = "map" if has_map else "pixels"
        if settings.gradient_checkpointing:
            self._checkpoint_gradients(backbone.name)

    def _add_lora(self, settings: PartSettings, seed: int) -> None:
        try:
            import peft
        except ImportError:
            raise MissingExtraError("peft", "training", "LoRA") from None
        import torch

        chosen = _chosen(settings.layers, sorted(_linear_layers(self.network, self._names)), "linear layer")
        # peft declares a whole number and takes any
        options: dict[str, Any] = {"lora_alpha": settings.lora_alpha, "lora_dropout": settings.lora_dropout}
        config = peft.LoraConfig(r=settings.lora_rank or 1, target_modules=chosen, **options)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._lora = peft.LoraModel(self.network, config, "default")

    @property
    def n_trained(self) -> int:
        return sum(parameter.numel() for parameter in self.network.parameters() if parameter.requires_grad)

    def train(self) -> None:
        """Set the mode for training; batch norms keep their statistics, which processes do not share."""
        self.network.train()
        for module in self.network.modules():
            if isinstance(module, BatchNorm):
                module.eval()

    def _checkpoint_gradients(self, name: str) -> None:
        module: Any
        is_offered = False
        for module in self.network.modules():
            if hasattr(module, "gradient_checkpointing_enable"):
                # the usual way loses the gradients of LoRA, whose layers begin with frozen embeddings
                module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
                is_offered = True
            elif hasattr(module, "set_grad_checkpointing"):
                module.set_grad_checkpointing(True)
                is_offered = True
        require(is_offered, "gradient_checkpointing", True, f"a model that offers it, not {name!r}")

    def merge(self) -> None:
        """Add what LoRA learned to the layers themselves, whose names are then those of the base again."""
        if self._lora is not None:
            self._lora.merge_and_unload()
            self._lora = None

    def save(
        self, folder: Path, base: str, *, recipe: str, notes: Mapping[str, object], dtype: str, w: float = 1.0
    ) -> None:
        """Write the weights, trained from a base. The factor of an image tower is multiplied by `w`."""
        backbone = self._backbone
        if isinstance(backbone, EmbeddedBackbone):
            save_image_tower(
                backbone.network(),
                folder,
                w=w * (backbone.w or 1.0),
                logit_scale=backbone.logit_scale,
                languages=backbone.languages,
                recipe=recipe,
                rated_from=self._origin,
                notes=notes,
            )
            return
        save_tuned(
            backbone,
            folder,
            base=load_backbone(base, device="cpu", dtype="float32"),
            base_spec=base,
            recipe=recipe,
            notes=notes,
            dtype=dtype,
            towers=self._saved,
            rated_from=self._origin,
        )


def _layer_weight(name: str) -> str:
    """The name of a layer's weight, whatever LoRA has put in its place."""
    before, mark, _ = name.partition(".lora_")
    return f"{before}.weight" if mark else name


def _linear_layers(network: nn.Module, names: set[str]) -> list[str]:
    """Linear layers inside the towers.

    Not those at the top, projections that another module of the backbone may share, nor those of torch's own
    multi-head attention, which reads their weights past LoRA and whose layers are of a subclass.
    """
    linear = [name for name, module in network.named_modules() if type(module) is nn.Linear]
    return [name for name in linear if "." in name and f"{name}.weight" in names]


def _chosen(patterns: Sequence[str], names: Sequence[str], what: str) -> list[str]:
    if not names:
        raise CapscoreError(f"the requested towers have no {what} to train")
    matches: set[str] = set()
    for pattern in patterns or ["*"]:
        found = fnmatch.filter(names, pattern)
        if not found:
            near = difflib.get_close_matches(pattern, names, n=1)
            hint = "".join(f"did you mean {name!r}? " for name in near)
            shown = ", …, ".join(dict.fromkeys((names[0], names[-1])))
            raise CapscoreError(
                Setting("layers", pattern), f" matches no {what}; {hint}There are {len(names):,}: {shown}"
            )
        matches.update(found)
    return [name for name in names if name in matches]
