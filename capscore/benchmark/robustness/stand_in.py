"""A backbone → the plain one that texts which stand for photos are embedded with.

Scores of a tuned tower and of its base are only comparable if both look at the same thing. So what stands for
a photo is embedded by the base, whatever tower embeds the caption.
"""

from __future__ import annotations

from pathlib import Path

from ...backbones.checkpoint import read_json
from ...backbones.download import cached_snapshot
from ...backbones.registry import find


def plain_backbone(spec: str) -> str:
    """What a backbone was fine-tuned from, down to one that was not; itself where it was not.

    Args:
        spec: what `capscore.load_backbone` takes; one of the Hub has been loaded before.

    Raises:
        BackboneUnavailable: the folder of a fine-tuned one is damaged.

    >>> plain_backbone("embedded-pr-mcs"), plain_backbone("embedded")
    ('embedded', 'embedded')
    """
    seen: set[str] = set()
    while spec not in seen:
        seen.add(spec)
        spec = _base(spec) or spec
    return spec


def _base(spec: str) -> str:
    """What a backbone was fine-tuned from; "" where it was not."""
    known = find(spec)
    if known is not None:
        return known.base
    folder = Path(spec).expanduser()
    if not folder.is_dir():
        # of the Hub: it has been loaded, so it is there
        repository, _, revision = spec.partition("@")
        cached = cached_snapshot(repository, revision)
        if cached is None:
            return ""
        folder = cached
    from ...backbones.tuned import MARKER, resolved

    marker = folder / MARKER
    return resolved(str(read_json(marker)["base"]), folder) if marker.is_file() else ""
