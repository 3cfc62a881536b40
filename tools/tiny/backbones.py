"""A tiny checkpoint of every kind of backbone, each loaded as a person would.

In: a folder. Out: what `load_backbone` takes for the checkpoint, and for its image tower where it has none.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from capscore import load_backbone
from capscore.backbones.base import Backbone
from capscore.backbones.text_towers import TextTower
from capscore.backbones.tokens import load_tokenizer
from tools.tiny import transformers_models as tiny
from tools.tiny.gate import with_gate
from tools.tiny.image_tower import write_image_tower
from tools.tiny.open_clip_models import MODELS, write_open_clip
from training.engine.saved_towers import StudentRecord, save_student, save_tuned


def write_student(folder: Path) -> Path:
    """A student on XLM-R whose images are those of the tiny CLIP in images/ beside its folder."""
    # its last layer is drawn, the same in every run
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = tiny.tiny_encoder(folder.parent / "tokenizer").train()
        head = nn.Linear(encoder.config.hidden_size, tiny.DIM)
        tower = TextTower(encoder, head, load_tokenizer(folder.parent / "tokenizer"))
    about = {"image_tower": str(folder.parent / "images"), "prefix": "A photo: ", "languages": ["de", "ja"]}
    save_student(tower, folder, StudentRecord(**about))
    return folder


def make_student(
    folder: Path, kind: str = "distilbert", dim: int = tiny.DIM, max_tokens: int | None = None
) -> TextTower:
    """A student that has not been saved; `folder` is for its tokenizer."""
    encoder = tiny.tiny_encoder(folder, kind)
    head = nn.Linear(encoder.config.hidden_size, dim)
    tiny.randomise(head, seed=1)
    return TextTower(encoder, head, load_tokenizer(folder, encoder.config), max_tokens).eval()


def tune_clip(folder: Path, spec: str, *, prefix: str = "", **about: Any) -> Path:
    """A text tower fine-tuned by one step from the CLIP of `spec`."""
    trained, base = (load_backbone(spec, device="cpu") for _ in range(2))
    with torch.no_grad():
        trained.text_network().text_projection.weight.add_(0.05)
    trained.prefix = prefix
    save_tuned(trained, folder, base=base, base_spec=spec, **about)
    return folder


def write_tuned(folder: Path) -> Path:
    """A tower fine-tuned from the tiny CLIP in base/ beside its folder."""
    spec = str(tiny.write_clip(folder.parent / "base"))
    return tune_clip(folder, spec, prefix="A photo of ", recipe="one step", languages=["de"])


def write_gated(folder: Path) -> Path:
    """A noise gate, saved as a fine-tuned tower, whose base is the tiny image tower in eye/ beside it."""
    spec = str(write_image_tower(folder.parent / "eye"))
    plain, base = (load_backbone(spec, device="cpu") for _ in range(2))
    save_tuned(with_gate(plain), folder, base=base, base_spec=spec, recipe="pr_mcs")
    return folder


# kind → who writes it, and whether an image tower has to be named
_WRITERS: dict[str, tuple[Callable[[Path], Path], bool]] = {
    **{
        f"open_clip {kind}": (lambda folder, kind=kind: write_open_clip(folder, kind), False)
        for kind in MODELS
    },
    "clip": (tiny.write_clip, False),
    "clip new end": (lambda folder: tiny.write_clip(folder, legacy_eos=False, pad_token="!"), False),
    "metaclip 2": (tiny.write_metaclip_2, False),
    "altclip": (tiny.write_altclip, False),
    "chinese clip": (tiny.write_chinese_clip, False),
    "siglip": (tiny.write_siglip, False),
    "siglip 2": (tiny.write_siglip_2, False),
    "siglip 2 naflex": (tiny.write_siglip_2_naflex, False),
    "m-clip": (tiny.write_multilingual_clip, True),
    "sentence-transformers": (tiny.write_sentence_transformer, True),
    "student": (write_student, False),
    "image tower": (write_image_tower, False),
    "tuned": (write_tuned, False),
    "noise gate": (write_gated, False),
}
FOLDERS = (*_WRITERS,)
KINDS = (*FOLDERS, "embedded", "embedded-free", "embedded-pr-mcs", "from outside")


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

    def load(self, folder: Path | None = None, **options: Any) -> Backbone:
        """The backbone, or that of a changed copy of its folder."""
        return load_backbone(folder or self.spec, device="cpu", **{"image_tower": self.image_tower} | options)

    @property
    def spec_path(self) -> Path:
        return Path(self.spec)

    def copied(self, to: Path) -> Path:
        """A copy of its folder, to be changed."""
        return Path(shutil.copytree(self.spec, to / "model"))


def edit_json(path: Path, *keys: str | int, value: object) -> None:
    """Change one entry of a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    tiny.write_json(path, content)
