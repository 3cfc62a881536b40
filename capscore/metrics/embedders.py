"""Options of `capscore.load` → the embedder of a backbone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder

_OF_BACKBONE = ("device", "dtype", "revision", "image_tower", "trust_remote_code")


def make_embedder(backbone: Any, options: Mapping[str, Any], *, progress: bool | None) -> Embedder:
    """Load a backbone and make its embedder.

    Args:
        backbone: As `capscore.load` takes it.
        options: Options of `capscore.load`; those of metrics alone are passed over.
        progress: Whether embedding shows a progress bar; None for long work in a terminal.

    Raises:
        BackboneUnavailable: The weights are not available here.
        CapscoreError: As of `capscore.load_backbone`.
    """
    from ..backbones.loading import load_backbone
    from ..embedding.cache import resolve_cache
    from ..embedding.embedder import Embedder

    return Embedder(
        load_backbone(backbone, **{name: options[name] for name in _OF_BACKBONE if name in options}),
        batch_size=options.get("batch_size"),
        cache=resolve_cache(options.get("cache")),
        allow_urls=options.get("allow_urls", False),
        allow_private_urls=options.get("allow_private_urls", False),
        progress=progress,
    )
