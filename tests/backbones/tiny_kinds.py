"""A tiny checkpoint of every kind of text tower that can be fine-tuned, each loaded as a person would.

In: a folder. Out: what `load_backbone` takes for the checkpoint, and for its image tower where it has none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from capscore import load_backbone
from capscore.backbones.base import Backbone
from capscore.backbones.text_towers import StudentTextTower

from . import tiny_transformers as tiny
from .tiny_open_clip import MODELS, write_open_clip


def write_student(folder: Path) -> Path:
    """A student on XLM-R whose images are those of the tiny CLIP in images/ beside its folder."""
    # its last layer is drawn, the same in every run
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        StudentTextTower(
            tiny.tiny_encoder(folder.parent / "tokenizer").train(),
            _tokenizer(folder.parent / "tokenizer"),
            dim=tiny.DIM,
            image_tower=str(folder.parent / "images"),
            prefix="A photo: ",
            languages=["de", "ja"],
        ).save_pretrained(folder)
    return folder


def _tokenizer(folder: Path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


# kind → who writes it, and whether an image tower has to be named
_WRITERS: dict[str, tuple[Callable[[Path], Path], bool]] = {
    **{
        f"open_clip {kind}": (lambda folder, kind=kind: write_open_clip(folder, kind), False)
        for kind in MODELS
    },
    "clip": (tiny.write_clip, False),
    "metaclip 2": (tiny.write_metaclip_2, False),
    "altclip": (tiny.write_altclip, False),
    "chinese clip": (tiny.write_chinese_clip, False),
    "siglip": (tiny.write_siglip, False),
    "siglip 2": (tiny.write_siglip_2, False),
    "siglip 2 naflex": (tiny.write_siglip_2_naflex, False),
    "m-clip": (tiny.write_multilingual_clip, True),
    "sentence-transformers": (tiny.write_sentence_transformer, True),
    "student": (write_student, False),
}
KINDS = (*_WRITERS, "embedded", "embedded-free")


class Checkpoint:
    """A checkpoint of one of KINDS.

    Attributes:
        spec: what `load_backbone` takes for it.
        image_tower: the same for its image tower; None if it has one.
    """

    def __init__(self, kind: str, root: Path):
        self.kind, self.spec, self.image_tower = kind, kind, None
        if kind in _WRITERS:
            write, needs_images = _WRITERS[kind]
            if needs_images or kind == "student":
                tiny.write_clip(root / "images")
            self.spec = str(write(root / "model"))
            self.image_tower = str(root / "images") if needs_images else None

    def load(self, **options) -> Backbone:
        return load_backbone(self.spec, device="cpu", image_tower=self.image_tower, **options)
