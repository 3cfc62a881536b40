"""A backbone → the plain backbone that embeds the texts standing for photos.

Scores of a tuned tower and of its base are comparable only if both look at the same thing. So the base embeds
what stands for a photo, whichever tower embeds the caption.
"""

from __future__ import annotations

from pathlib import Path

from ...backbones import find
from ...backbones.checkpoint import cached_snapshot, read_json


def plain_backbone(spec: str) -> str:
    """The backbone at the start of a chain of fine-tuning; the backbone itself if it was not fine-tuned.

    Args:
        spec: Backbone as in `capscore.load_backbone`; one from the Hub must have been loaded before.

    Raises:
        BackboneUnavailable: the folder of a fine-tuned backbone is damaged.

    >>> plain_backbone("embedded-pr-mcs"), plain_backbone("embedded")
    ('embedded', 'embedded')
    """
    seen: set[str] = set()
    while spec not in seen:
        seen.add(spec)
        spec = _base(spec) or spec
    return spec


def _base(spec: str) -> str:
    """The backbone that a backbone was fine-tuned from, or ""."""
    known = find(spec)
    if known is not None:
        return known.base
    folder = Path(spec).expanduser()
    if not folder.is_dir():
        # from the Hub: it has been loaded before
        repository, _, revision = spec.partition("@")
        cached = cached_snapshot(repository, revision)
        if cached is None:
            return ""
        folder = cached
    from ...backbones.tuned import MARKER, resolved

    marker = folder / MARKER
    return resolved(str(read_json(marker)["base"]), folder) if marker.is_file() else ""
