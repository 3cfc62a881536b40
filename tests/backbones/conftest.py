"""What the tests of text towers share."""

from __future__ import annotations

import pytest

from capscore import load_backbone

from . import tiny_transformers as tiny


@pytest.fixture(scope="module")
def image_tower(tmp_path_factory):
    """A tiny CLIP, whose image tower goes with text towers that were published alone."""
    folder = tiny.write_clip(tmp_path_factory.mktemp("clip") / "clip")
    return load_backbone(str(folder), device="cpu")
