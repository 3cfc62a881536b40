"""A model's repeated layers spread over the processes, so that no process holds all of its weights, gradients
and optimizer state: FSDP (Zhao et al. 2023), by torch's `fully_shard`.

In: a model whose layers repeat, as a transformer's blocks do. Each becomes a unit whose weights the processes
collect just before it computes. What does not repeat (embeddings, projections) stays whole in each process.
Accelerate's own FSDP wraps the whole model, whose `forward` a loss over parts of it does not call.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from capscore.errors import CapscoreError, Setting


def repeated_layers(model: nn.Module) -> list[tuple[nn.Module, str]]:
    """Trained layers that stand in a row with others of their class: the module around each, and its name.

    A row is an `nn.ModuleList` or `nn.Sequential`. Layers within a layer that was found are not looked for,
    and a layer of which nothing is trained is left out: it may be one that not every process uses.

    >>> layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    >>> text = nn.ModuleDict({"words": nn.Embedding(9, 4), "layers": layers})
    >>> [name for _, name in repeated_layers(text)]
    ['0', '1', '2']
    """
    found: list[tuple[nn.Module, str]] = []
    children = list(model.named_children())
    if isinstance(model, (nn.ModuleList, nn.Sequential)):
        kinds = [type(child) for _, child in children]
        found += [
            (model, name)
            for name, child in children
            if kinds.count(type(child)) > 1 and any(p.requires_grad for p in child.parameters())
        ]
    chosen = {name for _, name in found}
    for name, child in children:
        if name not in chosen:
            found += repeated_layers(child)
    return found


def has_sharded_layers(model: nn.Module) -> bool:
    """Whether layers of a model are spread over the processes now."""
    return any(isinstance(module, FSDPModule) for module in model.modules())


class ShardedLayers:
    """The repeated layers of a model, from here on spread over the processes of the run.

    Parameters are other objects than before: ask the model for them again. All processes compute each layer
    equally often, as each time they collect its weights together.

    Args:
        model: Model on the device of this process, with the same weights in every process.

    Raises:
        CapscoreError: no trained layers of the model repeat.
    """

    def __init__(self, model: nn.Module):
        self._places = repeated_layers(model)
        if not self._places:
            raise CapscoreError(
                Setting("shard_layers", True), f": no trained layers of this {type(model).__name__} repeat"
            )
        self._device = next(model.parameters()).device
        mesh = init_device_mesh(self._device.type, (torch.distributed.get_world_size(),))
        layers = [parent.get_submodule(name) for parent, name in self._places]
        # a sharded module can be neither copied nor made whole again
        self._plain = [copy.deepcopy(layer).cpu() for layer in layers]
        self._sharded: list[Any] = [fully_shard(layer, mesh=mesh) for layer in layers]

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Within the block, the model has plain layers, and this process can use it without the others.

        All processes enter together. What the block does to weights is lost.
        """
        self.put_back()
        try:
            yield
        finally:
            self._put(self._sharded)
            for layer in self._plain:
                layer.cpu()

    @torch.no_grad()
    def put_back(self) -> None:
        """Give the model its plain layers back, with the weights of now. All processes do this together."""
        for plain, sharded in zip(self._plain, self._sharded, strict=True):
            plain.to(self._device)
            own = dict(plain.named_parameters()) | dict(plain.named_buffers())
            for name, tensor in (*sharded.named_parameters(), *sharded.named_buffers()):
                own[name].copy_(whole(tensor))
            for plain_part, sharded_part in zip(plain.modules(), sharded.modules(), strict=True):
                plain_part.training = sharded_part.training
        self._put(self._plain)

    def _put(self, layers: Sequence[nn.Module]) -> None:
        for (parent, name), layer in zip(self._places, layers, strict=True):
            setattr(parent, name, layer)


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is spread over the processes."""
    return isinstance(tensor, DTensor)


def whole(tensor: Tensor) -> Tensor:
    """A tensor, collected from the processes if it is spread over them. All processes ask together."""
    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor.detach()


def part_of(values: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, spread over the processes as another one is, if it is."""
    if not isinstance(like, DTensor):
        return values
    # each process has all values and takes its own
    return distribute_tensor(values.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def whole_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """An optimizer's `state_dict` with whole tensors. All processes ask together."""
    content = optimizer.state_dict()
    state = {
        index: {name: whole(v).cpu() if isinstance(v, Tensor) else v for name, v in values.items()}
        for index, values in content["state"].items()
    }
    return {**content, "state": state}


def load_whole_state(optimizer: torch.optim.Optimizer, content: Mapping[str, Any]) -> None:
    """Give an optimizer what `whole_state` made of it."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = {
        index: {
            name: part_of(v, parameters[index]) if isinstance(v, Tensor) and v.ndim else v
            for name, v in values.items()
        }
        for index, values in content["state"].items()
    }
    optimizer.load_state_dict({**content, "state": state})


def clip_gradients(parameters: Sequence[nn.Parameter], most: float) -> float:
    """Scale gradients down to a norm over all parameters and processes, and give the norm that they had."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norms = [whole(torch.linalg.vector_norm(gradient)) for gradient in gradients]
    norm = float(torch.linalg.vector_norm(torch.stack(norms)))
    factor = most / (norm + 1e-6)  # as torch.nn.utils.clip_grad_norm_
    if factor < 1:
        for gradient in gradients:
            gradient.mul_(factor)
    return norm
