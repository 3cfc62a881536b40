"""Which part of a backbone is trained: whole towers, layers by their names, or LoRA; and how it saves memory.

In: a backbone and what was asked for. Out: the module for `training.engine.loop.run`, everything else frozen.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm  # noqa: PLC2701

from capscore.backbones.base import Backbone
from capscore.backbones.embedded.backbone import EmbeddedBackbone
from capscore.errors import CapscoreError, MissingExtraError, Setting

TowerChoice = Literal["both", "image", "text"]
# Factors that a loss of cosines does not use.
_NOT_TRAINED = ("logit_scale", "logit_bias")


@dataclass(frozen=True)
class LoraOptions:
    """LoRA (Hu et al. 2022): two small matrices beside each linear layer are trained, and added to it at the
    end.

    Attributes:
        rank: Rank of the product of the two matrices.
        alpha: The product counts alpha / rank.
        dropout: Dropout before the first matrix.
    """

    rank: int
    alpha: float
    dropout: float


class TrainedPart:
    """The part of a backbone that is trained.

    Args:
        backbone: Backbone, changed in place: parameters are frozen or not, LoRA is added.
        towers: Towers to train.
        layers: Patterns of names of parameters ("*.layers.11.*"), or of linear layers with LoRA; () for all.
        lora: LoRA instead of the parameters themselves; None for none.
        seed: Seed of LoRA's first matrices.

    Attributes:
        network: Module to train.
        saved: Network that the weights belong to, as `capscore.backbones.tuned.save_tuned` takes it.
        trains_images: Whether embeddings of images change.
        behind_map: Whether only what follows the image tower's feature map is trained.

    Raises:
        CapscoreError: the backbone has no such part, or a pattern fits no name.
        MissingExtraError: LoRA without the package peft.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        towers: TowerChoice = "both",
        layers: Sequence[str] = (),
        lora: LoraOptions | None = None,
        seed: int = 0,
    ):
        eye = isinstance(backbone, EmbeddedBackbone)
        # the text side of an eye is part of it
        whole = towers != "text" or eye
        self.saved: Literal["text", "both"] = "both" if whole else "text"
        self.network: nn.Module = backbone.network() if whole else backbone.text_network()
        own = {
            id(parameter)
            for parameter in (backbone.text_parameters() if whole else self.network.parameters())
        }
        text = {name for name, parameter in self.network.named_parameters() if id(parameter) in own}
        self._names = {
            name
            for name, _ in self.network.named_parameters()
            if (towers == "both" or (name in text) == (towers == "text"))
            and name.rpartition(".")[2] not in _NOT_TRAINED
        }
        self._lora: Any = None
        self.network.requires_grad_(False)
        if lora is None:
            for name in _chosen(layers, sorted(self._names), "parameter"):
                self.network.get_parameter(name).requires_grad_(True)
        else:
            self._add_lora(lora, layers, seed)
        trained = [name for name, parameter in self.network.named_parameters() if parameter.requires_grad]
        self.trains_images = any(_plain(name) not in text for name in trained)
        self.behind_map = eye and not any(name.startswith("trunk.") for name in trained)

    def _add_lora(self, lora: LoraOptions, layers: Sequence[str], seed: int) -> None:
        try:
            import peft
        except ImportError:
            raise MissingExtraError("peft", "training", "LoRA") from None
        import torch

        chosen = _chosen(layers, sorted(_linear_layers(self.network, self._names)), "linear layer")
        # peft declares a whole number and takes any
        options: dict[str, Any] = {"lora_alpha": lora.alpha, "lora_dropout": lora.dropout}
        config = peft.LoraConfig(r=lora.rank, target_modules=list(chosen), **options)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._lora = peft.LoraModel(self.network, config, "default")

    @property
    def n_trained(self) -> int:
        """Number of trained numbers."""
        return sum(parameter.numel() for parameter in self.network.parameters() if parameter.requires_grad)

    def train(self, dropout: bool) -> None:
        """Set the mode for training; batch norms keep their statistics, which processes do not share."""
        self.network.train(dropout)
        for module in self.network.modules():
            if isinstance(module, BatchNorm):
                module.eval()

    def checkpoint_gradients(self, name: str) -> None:
        """Compute activations twice instead of keeping them.

        Args:
            name: Name of the backbone, for the error.

        Raises:
            CapscoreError: no part of the network offers it.
        """
        offered = False
        module: Any
        for module in self.network.modules():
            if hasattr(module, "gradient_checkpointing_enable"):
                # the usual way loses the gradients of LoRA, whose layers begin with frozen embeddings
                module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
                offered = True
            elif hasattr(module, "set_grad_checkpointing"):
                module.set_grad_checkpointing(True)
                offered = True
        if not offered:
            raise CapscoreError(
                Setting("gradient_checkpointing", True), f": the model of {name!r} does not offer it"
            )

    def merge(self) -> None:
        """Add what LoRA learned to the layers themselves, whose names are then those of the base again."""
        if self._lora is not None:
            self._lora.merge_and_unload()
            self._lora = None


def _plain(name: str) -> str:
    """The name of a layer's weight, whatever LoRA has put in its place."""
    before, mark, _ = name.partition(".lora_")
    return f"{before}.weight" if mark else name


def _linear_layers(network: nn.Module, names: set[str]) -> list[str]:
    """Linear layers inside the towers.

    Not those at the top, projections that another module of the backbone may share, nor those of torch's own
    multi-head attention, which reads their weights past LoRA.
    """
    inside = {
        f"{name}.{child}"
        for name, module in network.named_modules()
        if isinstance(module, nn.MultiheadAttention)
        for child, _ in module.named_modules()
    }
    return [
        name
        for name, module in network.named_modules()
        if type(module) is nn.Linear and "." in name and name not in inside and f"{name}.weight" in names
    ]


def _chosen(patterns: Sequence[str], names: Sequence[str], what: str) -> list[str]:
    if not names:
        raise CapscoreError(f"the towers that were asked for have no {what} to train")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = difflib.get_close_matches(pattern, names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            shown = f"{names[0]}, …, {names[-1]}" if len(names) > 1 else names[0]
            raise CapscoreError(
                Setting("layers", pattern), f" fits no {what}; {hint}There are {len(names):,}: {shown}"
            )
    return [name for name in names if not patterns or any(fnmatchcase(name, p) for p in patterns)]
