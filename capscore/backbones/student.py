"""capscore's own multilingual text towers: students of a CLIP text tower, saved to and loaded from a folder.

In: a transformers encoder and a tokenizer, or the folder of a saved student. Out: a module to train, or a
`Backbone` of that text tower and its teacher's image tower.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..text.languages import language_code
from .base import Backbone, LoadOptions, settings_digest
from .checkpoint import load_config, read_json, read_marker, read_state_dict, replacing_files
from .mean_pooled import MeanPooledTower, load_encoder_and_projection
from .paired import PairedBackbone
from .transformers_tokenizer import context_length, load_tokenizer, position_limit

_MARKER = "capscore_student.json"
_FORMAT = 1
# Fields of the marker and their types.
_FIELDS: dict[str, tuple[type, ...]] = {
    "dim": (int,),
    "max_tokens": (int,),
    "image_tower": (str,),
    "prefix": (str,),
    "languages": (list, type(None)),
    "teacher": (str,),
    "logit_scale": (float, int, type(None)),
}


class StudentTextTower(MeanPooledTower):
    """A transformers encoder → attention-masked mean over all tokens → Linear(hidden, dim), not normalised.

    Args:
        encoder: Model from `transformers.AutoModel`.
        tokenizer: Tokenizer of the encoder.
        dim: Length of the teacher's embeddings.
        max_tokens: Context length, special tokens included; None for the longest that the encoder allows.
        image_tower: Spec of the teacher's image tower for `load_backbone`.
        prefix: Text put before every candidate and reference.
        languages: Codes of its training languages, stored in `language_code`'s form; None if not known.
        teacher: Name of the teacher, for the record.
        logit_scale: Factor on cosines during training; None for the image tower's.

    Raises:
        CapscoreError: `max_tokens` is out of the encoder's range, or a language code is unknown.
    """

    def __init__(
        self,
        encoder: Any,
        tokenizer: Any,
        *,
        dim: int,
        max_tokens: int | None = None,
        image_tower: str = "",
        prefix: str = "",
        languages: Iterable[str] | None = None,
        teacher: str = "",
        logit_scale: float | None = None,
    ):
        allowed = position_limit(encoder.config, encoder)
        if max_tokens is None:
            max_tokens = context_length(encoder.config, encoder, tokenizer)
        elif max_tokens < 3 or (allowed is not None and max_tokens > allowed):
            raise CapscoreError(
                Setting("max_tokens", max_tokens), f" was given, but the encoder reads 3 to {allowed} tokens"
            )
        super().__init__(encoder, nn.Linear(encoder.config.hidden_size, dim), tokenizer, max_tokens)
        self.image_tower, self.prefix, self.teacher = image_tower, prefix, teacher
        self.languages = None if languages is None else frozenset(map(language_code, languages))
        self.logit_scale = logit_scale

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the tower to a folder: capscore_student.json, model.safetensors, config.json, the tokenizer.

        All files are written aside and then renamed, capscore_student.json last: without it a folder holds no
        student. Other files in the folder stay.

        Raises:
            ResultWriteError: the student could not be written; an earlier one in the folder is unharmed.
        """
        with replacing_files(Path(folder), _MARKER, "the student") as aside:
            self._write(aside)

    def _write(self, folder: Path) -> None:
        self.encoder.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in self.state_dict().items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        marker = {
            "format": _FORMAT,
            "dim": self.dim,
            "max_tokens": self.max_tokens,
            "image_tower": self.image_tower,
            "prefix": self.prefix,
            "languages": None if self.languages is None else sorted(self.languages),
            "teacher": self.teacher,
            "logit_scale": self.logit_scale,
        }
        (folder / _MARKER).write_text(
            json.dumps(marker, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> StudentTextTower:
        """Load a saved student, in float32, on the CPU, in eval mode.

        Raises:
            BackboneUnavailable: a file is missing or damaged, or the weights do not fit config.json.
        """
        folder = Path(folder)
        marker = read_marker(folder / _MARKER, _FORMAT, _FIELDS)
        state = read_state_dict(folder)
        read_json(folder / "config.json")
        config = load_config(folder, "an encoder", BackboneUnavailable)
        encoder, projection = load_encoder_and_projection(
            folder, config, state, encoder_prefix="encoder.", projection_prefix="projection."
        )
        if projection.out_features != marker["dim"]:
            raise BackboneUnavailable(
                f"{folder / _MARKER} says dim {marker['dim']}, "
                f"but projection.weight has {projection.out_features}"
            )
        tower = cls(encoder, load_tokenizer(folder, config), **{field: marker[field] for field in _FIELDS})
        tower.projection = projection
        return tower.eval()


def recognises(folder: Path) -> bool:
    """Whether a folder holds a student that `StudentTextTower.save_pretrained` finished writing."""
    return (folder / _MARKER).is_file()


def load_folder(folder: Path, options: LoadOptions) -> Backbone:
    """Load a saved student with the image tower that it was made for, or with another one.

    Args:
        folder: Folder from `StudentTextTower.save_pretrained`.
        options: Options of the backbone; prefix, languages and image tower that are left out come from the
            folder. No code comes with a student, so trust has no effect.

    Raises:
        BackboneUnavailable: a file is missing or damaged, or the image tower is not available.
        CapscoreError: no image tower, or one of another dimension.
    """
    folder = Path(folder)
    tower = StudentTextTower.from_pretrained(folder)
    languages = tower.languages if options.languages is None else options.languages
    return PairedBackbone(
        tower,
        replace(options, prefix=options.prefix or tower.prefix, languages=languages),
        settings=settings_digest(folder),
        made_for=tower.image_tower,
        logit_scale=tower.logit_scale,
    )
