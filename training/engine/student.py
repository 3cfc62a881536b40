"""Settings → the student of teacher learning: a published encoder with its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from capscore.backbones.text_towers import StudentTextTower
from capscore.backbones.tokens import load_tokenizer, pad_id_of
from capscore.errors import BackboneUnavailable
from training.engine.loop_settings import LoopSettings


@dataclass
class StudentSettings(LoopSettings):
    """Which student is trained.

    Attributes:
        teacher: Backbone that teaches with its text tower, as `capscore.load_backbone` takes it.
        student: Hub id or local folder of a transformers encoder with its tokenizer.
        student_revision: Commit, branch or tag on the Hub.
        max_tokens: Longest text that the student reads, in tokens with the special ones; None for the
            encoder's maximum.
        image_tower: Image tower that the saved student names; None for the teacher's.
    """

    out: str = "runs/teacher_learning"
    teacher: str = "RN50x4-quickgelu/openai"
    student: str = "distilbert-base-multilingual-cased"
    student_revision: str | None = None
    max_tokens: int | None = None
    image_tower: str | None = None


def make_student(
    settings: StudentSettings, *, dim: int, teacher: str, languages: Sequence[str]
) -> StudentTextTower:
    """The student before the first step; its head is drawn with the seed.

    Args:
        settings: Which student.
        dim: Length of the teacher's embeddings.
        teacher: Name of the teacher, for the record.
        languages: Languages that the student is trained on.

    Raises:
        BackboneUnavailable: encoder or tokenizer is not available.
        CapscoreError: encoder and tokenizer do not fit each other.
    """
    from transformers import AutoModel, AutoTokenizer

    name, options = settings.student, {"revision": settings.student_revision, "trust_remote_code": False}
    folder = Path(name).expanduser()
    source = str(folder) if folder.is_dir() else name
    try:
        if folder.is_dir():
            tokenizer = load_tokenizer(folder)
        else:
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
        encoder = AutoModel.from_pretrained(source, dtype=torch.float32, use_safetensors=True, **options)
    except BackboneUnavailable:
        raise
    except Exception as error:  # a damaged file, no network, no such model: each library raises its own
        raise BackboneUnavailable(
            f"the student {name!r} is not available: {' '.join(str(error).split())}. Give a local folder "
            "with an encoder and its tokenizer"
        ) from error
    pad_id_of(tokenizer)
    torch.manual_seed(settings.seed)
    named = settings.image_tower or settings.teacher
    return StudentTextTower(
        encoder,
        tokenizer,
        dim=dim,
        max_tokens=settings.max_tokens,
        # an absolute path is found from wherever the student is loaded
        image_tower=str(Path(named).resolve()) if Path(named).is_dir() else named,
        languages=languages,
        teacher=teacher,
    )
