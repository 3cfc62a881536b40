"""capscore's own multilingual text towers: students of a CLIP text tower, saved to and loaded from a folder.

In: a transformers encoder and a tokenizer, or the folder of a saved student. Out: a module that training
moves, or a `Backbone` of that text tower and its teacher's image tower.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from ..errors import BackboneUnavailable, CapscoreError, InputError, ResultWriteError
from ..text.languages import language_code
from .base import Backbone, LoadOptions, settings_digest
from .checkpoint import in_one_line, read_json, read_state_dict
from .mean_pooled import MeanPooledTower, load_encoder_and_projection
from .paired import PairedBackbone
from .transformers_tokenizer import context_length, load_tokenizer, position_limit

_MARKER = "capscore_student.json"
_FORMAT = 1
# What the marker must hold, and of which types.
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
        encoder: a model as `transformers.AutoModel` makes them.
        tokenizer: the encoder's.
        dim: length of the teacher's embeddings.
        max_tokens: context length, special tokens included; None for the longest that the encoder allows.
        image_tower: what `load_backbone` takes for the image tower that goes with it, the teacher's.
        prefix: text put before every candidate and reference.
        languages: codes of those it is trained on, kept as `language_code` gives them; None if not known.
        teacher: what the teacher was, for the record.
        logit_scale: factor on cosines it was trained with; None for that of the image tower.

    Raises:
        CapscoreError: `max_tokens` is more than the encoder allows, or a language is none.
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
                f"max_tokens={max_tokens} was given, but the encoder reads 3 to {allowed} tokens"
            )
        super().__init__(encoder, nn.Linear(encoder.config.hidden_size, dim), tokenizer, max_tokens)
        self.image_tower, self.prefix, self.teacher = image_tower, prefix, teacher
        self.languages = None if languages is None else frozenset(map(language_code, languages))
        self.logit_scale = logit_scale

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the tower to a folder: capscore_student.json, model.safetensors, config.json, the tokenizer.

        All of it is written aside first and then renamed, capscore_student.json last: a folder without that
        file is no student. Other files in the folder stay.

        Raises:
            ResultWriteError: it could not be written; a student that was there before is still whole.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder) as aside:
                self._write(Path(aside))
                (folder / _MARKER).unlink(missing_ok=True)
                for file in sorted(Path(aside).iterdir(), key=lambda file: file.name == _MARKER):
                    os.replace(file, folder / file.name)
        except Exception as error:  # on a full disk every library raises its own
            raise ResultWriteError(
                f"the student could not be saved to {folder}: {in_one_line(error)}"
            ) from error

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
            BackboneUnavailable: a file is missing or torn, or the weights are not those of config.json.
        """
        folder = Path(folder)
        marker = _read_marker(folder)
        state = read_state_dict(folder)
        config = _encoder_config(folder)
        encoder, projection = load_encoder_and_projection(
            folder, config, state, encoder_prefix="encoder.", projection_prefix="projection."
        )
        if projection.out_features != marker["dim"]:
            raise BackboneUnavailable(
                f"{folder / _MARKER} says dim {marker['dim']}, "
                f"but projection.weight has {projection.out_features}"
            )
        tower = cls(encoder, load_tokenizer(folder, config), **marker)
        tower.projection = projection
        return tower.eval()


def recognises(folder: Path) -> bool:
    """Whether a folder holds a student that `StudentTextTower.save_pretrained` finished."""
    return (folder / _MARKER).is_file()


def load_folder(folder: Path, options: LoadOptions) -> Backbone:
    """Load a saved student, and the image tower that it was made for or another one.

    Args:
        folder: what `StudentTextTower.save_pretrained` wrote.
        options: whatever is left out of prefix, languages and image tower is as the folder says. No code
            comes with a student, so that trust has no effect.

    Raises:
        BackboneUnavailable: a file is missing or torn, or the image tower cannot be had.
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


def _read_marker(folder: Path) -> dict[str, Any]:
    path = folder / _MARKER
    marker = read_json(path)
    if marker.pop("format", None) != _FORMAT:
        raise BackboneUnavailable(f"{path} is not of format {_FORMAT}, which this version of capscore reads")
    for field, types in _FIELDS.items():
        if field not in marker or isinstance(marker[field], bool) or not isinstance(marker[field], types):
            raise BackboneUnavailable(
                f"{path}: {field!r} should be there, as {' or '.join(t.__name__ for t in types)}"
            )
    try:
        for language in marker["languages"] or ():
            language_code(language)
    except InputError as error:
        raise BackboneUnavailable(f"{path}: {error}") from None
    return {field: marker[field] for field in _FIELDS}


def _encoder_config(folder: Path) -> Any:
    from transformers import AutoConfig

    read_json(folder / "config.json")
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except ValueError as error:
        raise BackboneUnavailable(
            f"{folder / 'config.json'} is no config of an encoder: {in_one_line(error)}"
        ) from None
