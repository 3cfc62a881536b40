"""Image and text towers with one interface, loaded by registry name, Hub id or local folder."""

from __future__ import annotations

from .base import Backbone, Tokens
from .registry import Known, find, registry, suggest

__all__ = ["Backbone", "Known", "Tokens", "find", "load_backbone", "registry", "suggest"]


def load_backbone(
    spec: str | Backbone,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    image_tower: str | None = None,
    trust_remote_code: bool = False,
) -> Backbone:
    """Load a backbone; see `capscore.backbones.loading.load_backbone`, which is imported when needed."""
    from .loading import load_backbone as load

    return load(
        spec,
        device=device,
        dtype=dtype,
        revision=revision,
        image_tower=image_tower,
        trust_remote_code=trust_remote_code,
    )
