"""A model's repeated layers spread over the processes, so that no process holds all of its weights, gradients
and optimizer state: FSDP (Zhao et al. 2023), by torch's `fully_shard`.

In: a model whose layers repeat, as a transformer's blocks do. Each becomes a unit whose weights the processes
collect just before it computes. What does not repeat (embeddings, projections) stays whole in each process.
Out: the same model, computing the same. `put_back` gives its plain layers back, with the weights as trained.
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
    found = []
    children = list(model.named_children())
    if isinstance(model, (nn.ModuleList, nn.Sequential)):
        kinds = [type(child) for _, child in children]
        found = [
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
        self._plain: list[nn.Module] = []
        self._sharded: list[nn.Module] = []
        for parent, name in self._places:
            layer = parent.get_submodule(name)
            # a sharded module can be neither copied nor made whole again
            self._plain.append(copy.deepcopy(layer).cpu())
            self._sharded.append(fully_shard(layer, mesh=mesh))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Within the block, the model has plain layers, and this process can use it without the others.

        All processes enter together. What the block does to weights is lost.
        """
        self._put(self._collected())
        try:
            yield
        finally:
            self._put(self._sharded)
            for layer in self._plain:
                layer.cpu()

    def put_back(self) -> None:
        """Give the model its plain layers back, with the weights of now. All processes do this together."""
        self._put(self._collected())

    def _put(self, layers: Sequence[nn.Module]) -> None:
        for (parent, name), layer in zip(self._places, layers, strict=True):
            setattr(parent, name, layer)

    @torch.no_grad()
    def _collected(self) -> list[nn.Module]:
        for plain, sharded in zip(self._plain, self._sharded, strict=True):
            plain.to(self._device)
            own = dict(plain.named_parameters()) | dict(plain.named_buffers())
            for name, parameter in sharded.named_parameters():
                if parameter.requires_grad:
                    own[name].copy_(whole(parameter))
            for name, buffer in sharded.named_buffers():
                own[name].copy_(buffer)
            for plain_part, sharded_part in zip(plain.modules(), sharded.modules(), strict=True):
                plain_part.training = sharded_part.training
        return self._plain


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is spread over the processes."""
    return isinstance(tensor, DTensor)


def whole(tensor: Tensor) -> Tensor:
    """A tensor, collected from the processes if it is spread over them. All processes ask together."""
    return tensor.detach().full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def part_of(values: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, spread over the processes as another one is, if it is."""
    if not isinstance(like, DTensor):
        return values
    values = values.to(like.device)
    # each process has all values and takes its own
    return distribute_tensor(values, like.device_mesh, like.placements, src_data_rank=None)


def apart(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Groups of parameters, each cut in two, as an optimizer cannot update whole and sharded ones at once."""
    cut = []
    for group in groups:
        for sharded in (False, True):
            own = [p for p in group["params"] if isinstance(p, DTensor) == sharded]
            if own:
                cut.append({**group, "params": own})
    return cut


def whole_state(state: Mapping[Tensor, Mapping[str, Any]], parameters: Sequence[Tensor]) -> dict[int, Any]:
    """An optimizer's state by the place of the parameter in a list, with whole tensors.

    All processes ask together.

    Args:
        state: Parameter → its state by name, as in `torch.optim.Optimizer.state`.
        parameters: All parameters, in the order in which a checkpoint counts them.
    """
    return {
        index: {name: whole(v).cpu() if isinstance(v, Tensor) else v for name, v in state[parameter].items()}
        for index, parameter in enumerate(parameters)
        if parameter in state
    }


def gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Norm of all gradients, over all processes; a tensor of no dimension."""
    norms = [torch.linalg.vector_norm(p.grad) for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(torch.stack([whole(norm) for norm in norms]))


def clip_gradients(parameters: Sequence[nn.Parameter], most: float) -> float:
    """Scale gradients down to a norm, and give the norm that they had.

    Args:
        parameters: Parameters, sharded or whole.
        most: Largest norm, over all parameters and processes.
    """
    norm = float(gradient_norm(parameters))
    factor = most / (norm + 1e-6)  # as torch.nn.utils.clip_grad_norm_
    if factor < 1:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(factor)
    return norm
