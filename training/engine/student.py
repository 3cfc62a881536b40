"""Settings → the student of teacher learning: a published encoder, or a new one with its tokenizer."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from capscore.backbones.base import fingerprint_of
from capscore.backbones.text_towers import StudentTextTower
from capscore.backbones.tokens import load_tokenizer, pad_id_of
from capscore.errors import BackboneUnavailable, CapscoreError, ResultWriteError, Setting
from training.data.parallel_text import ParallelText
from training.engine.loop_settings import LoopSettings, require
from training.engine.processes import main_process_first

# The student is a new encoder instead of a published one.
SCRATCH = "scratch"
# Most sentences to train a tokenizer on, taken evenly from all.
_TOKENIZER_SENTENCES = 2_000_000


@dataclass
class StudentSettings(LoopSettings):
    """Which student is trained.

    Attributes:
        teacher: Backbone that teaches with its text tower, as `capscore.load_backbone` takes it.
        student: Hub id or local folder of a transformers encoder, or "scratch" for a new one.
        student_revision: Commit, branch or tag on the Hub.
        tokenizer: Local folder or Hub id of a tokenizer for a new student; None trains one on the data.
        vocabulary: Number of pieces of a tokenizer that is trained.
        layers: Number of layers of a new student.
        width: Width of a new student.
        heads: Number of attention heads of a new student.
        max_tokens: Longest text that the student reads, in tokens with the special ones; None for the
            encoder's maximum, 128 for a new one.
        image_tower: Image tower that the saved student names; None for the teacher's.
    """

    out: str = "runs/teacher_learning"
    teacher: str = "RN50x4-quickgelu/openai"
    student: str = "distilbert-base-multilingual-cased"
    student_revision: str | None = None
    tokenizer: str | None = None
    vocabulary: int = 16_000
    layers: int = 4
    width: int = 256
    heads: int = 4
    max_tokens: int | None = None
    image_tower: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocabulary", "layers", "width", "heads"):
            value = getattr(self, name)
            require(value >= 1, name, value, "at least 1")
        if self.width % self.heads:
            raise CapscoreError(
                Setting("width", self.width), " is not a multiple of ", Setting("heads", self.heads)
            )
        if self.tokenizer is not None and self.student != SCRATCH:
            raise CapscoreError(
                Setting("tokenizer", self.tokenizer),
                " is for ",
                Setting("student", SCRATCH),
                f"; {self.student} has its own",
            )


def make_student(
    settings: StudentSettings, text: ParallelText, *, dim: int, teacher: str, languages: Sequence[str]
) -> StudentTextTower:
    """The student before the first step; its head, and a whole new encoder, are drawn with the seed.

    Args:
        settings: Which student.
        text: Text to train a tokenizer on, if needed.
        dim: Length of the teacher's embeddings.
        teacher: Name of the teacher, for the record.
        languages: Languages that the student is trained on.

    Raises:
        BackboneUnavailable: encoder or tokenizer is not available.
        CapscoreError: encoder and tokenizer do not fit each other.
    """
    if settings.student == SCRATCH:
        tokenizer = _tokenizer(settings, text)
        torch.manual_seed(settings.seed)
        encoder = _new_encoder(settings, tokenizer)
    else:
        tokenizer, encoder = _published(settings.student, settings.student_revision)
        torch.manual_seed(settings.seed)
    pad_id_of(tokenizer)
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


def _published(name: str, revision: str | None) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    folder = Path(name).expanduser()
    source = str(folder) if folder.is_dir() else name
    try:
        if folder.is_dir():
            tokenizer = load_tokenizer(folder)
        else:
            tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
        encoder = AutoModel.from_pretrained(
            source, revision=revision, trust_remote_code=False, dtype=torch.float32, use_safetensors=True
        )
    except BackboneUnavailable:
        raise
    except Exception as error:  # a damaged file, no network, no such model: each library raises its own
        raise BackboneUnavailable(
            f"the student {name!r} is not available: {' '.join(str(error).split())}. Give a local folder "
            "with an encoder and its tokenizer, or ",
            Setting("student", SCRATCH),
            " for a new one",
        ) from error
    return tokenizer, encoder


def _new_encoder(settings: StudentSettings, tokenizer: Any) -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        max_position_embeddings=settings.max_tokens or 128,
        type_vocab_size=1,
        pad_token_id=pad_id_of(tokenizer),
    )
    return BertModel(config, add_pooling_layer=False)


def _tokenizer(settings: StudentSettings, text: ParallelText) -> Any:
    """The tokenizer of a new student: the given one, or one trained on the text and kept with the run."""
    if settings.tokenizer is not None:
        folder = Path(settings.tokenizer).expanduser()
        if folder.is_dir():
            return load_tokenizer(folder)
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(settings.tokenizer, trust_remote_code=False)
        except Exception as error:  # as for the student
            raise BackboneUnavailable(
                f"the tokenizer {settings.tokenizer!r} is not available: {' '.join(str(error).split())}. "
                "Give a local folder, or none to train a tokenizer on the data"
            ) from error
    digest = fingerprint_of(text.digest, settings.vocabulary)
    folder = Path(settings.out).expanduser() / f"tokenizer-{digest[:12]}"
    with main_process_first():
        if not folder.is_dir():
            _train_tokenizer(text, settings.vocabulary, folder)
        return load_tokenizer(folder)


def _train_tokenizer(text: ParallelText, vocabulary: int, folder: Path) -> None:
    """Byte-pair encoding of characters: NFKC, blanks as ▁, <s> and </s> around a text.

    Not Unigram, whose trainer in `tokenizers` gives a different vocabulary every time.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special.values()),
        limit_alphabet=max(1, vocabulary // 2),  # the rarest characters become <unk>
        show_progress=False,
    )
    every = -(-(len(text.sources) + len(text)) // _TOKENIZER_SENTENCES)
    tokenizer.train_from_iterator([*text.sources, *text.targets][::every], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        special_tokens=[(piece, tokenizer.token_to_id(piece)) for piece in ("<s>", "</s>")],
    )
    aside = folder.with_name(f".partial-{uuid.uuid4().hex[:12]}")
    try:
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(aside)
        os.replace(aside, folder)
    except OSError as error:
        raise ResultWriteError(
            f"the tokenizer {folder} could not be written: {error.strerror or error}"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
