"""An untrained gate beside the text encoder of an eye, whose verdicts differ from text to text."""

from __future__ import annotations

from typing import Any

import torch

PARTS: dict[str, Any] = {"noise_gate": {"width": 16, "layers": 1, "heads": 2}}


def with_gate(backbone: Any) -> Any:
    """A backbone of the embedded kinds, which gets the gate, as `remade`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone.add_network_parts(PARTS)
        backbone.text.turn_to(torch.randn(512))
        with torch.no_grad():
            backbone.text.gate.whole.weight.normal_(0, 1.0)
    return backbone.remade()
