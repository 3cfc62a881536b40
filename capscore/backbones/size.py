"""A loaded backbone → the number of its weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .base import Backbone

if TYPE_CHECKING:
    import torch

# how deep networks lie in the objects that hold them: backbone → tower → network
_DEPTH = 4


def count_weights(backbone: Backbone) -> int:
    """Number of weights of all networks of a backbone, frozen ones included, each once.

    Counted are parameters, and the frozen tables that capscore's own networks hold as buffers. A backbone
    without networks has 0.

    >>> count_weights(load_backbone("embedded-free"))                               # doctest: +SKIP
    75077498
    """
    sizes = {
        tensor.data_ptr(): tensor.numel()
        for network in _networks(backbone, set(), _DEPTH)
        for tensor in (*network.parameters(), *(network.buffers() if _is_own(network) else ()))
    }
    return sum(sizes.values())


def _is_own(held: Any) -> bool:
    return type(held).__module__.startswith(__name__.partition(".")[0] + ".")


def _networks(held: Any, seen: set[int], depth: int) -> Iterator[torch.nn.Module]:
    import torch

    if depth == 0 or id(held) in seen:
        return
    seen.add(id(held))
    if isinstance(held, torch.nn.Module):
        yield held
    elif isinstance(held, Backbone) or _is_own(held):
        for value in getattr(held, "__dict__", {}).values():
            yield from _networks(value, seen, depth - 1)
