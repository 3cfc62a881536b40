"""Teacher learning: a multilingual text tower that gives a translation the embedding of its English sentence.

    python -m training.teacher_learning --config training/configs/teacher_learning.yaml

In: parallel text, the text tower of any backbone as teacher, an encoder of transformers as student, or the
size of a new one. Out: in the folder of the run `student/`, which `capscore.load("mcs", backbone=…)` takes
and which goes with the teacher's image tower; log and checkpoints; `teacher/`, the teacher's embeddings.

The method is that of the PR-MCS paper, §3.1 and Appendix A, after Carlsson et al. 2022: student s, teacher t,
N sentences, L = 1/N Σ (t − s)². The teacher stays as it is.
"""

from __future__ import annotations

import io
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones import load_backbone
from capscore.backbones.base import Backbone, fingerprint_of, pad_batch
from capscore.backbones.student import StudentTextTower
from capscore.backbones.transformers_tokenizer import load_tokenizer, pad_id_of
from capscore.benchmark.protocols.retrieval_recall import retrieval
from capscore.embedding.embedder import Embedder
from capscore.errors import BackboneUnavailable, CapscoreError, ResultWriteError
from training.data.batches import ShuffledBatches
from training.data.parallel_text import ParallelText, read_parallel_text
from training.engine.config import main, parse
from training.engine.loop import Evaluate, Loss, RunResult, run
from training.engine.loop_settings import LoopSettings
from training.engine.processes import Gather, device, is_main_process, main_process_first, say

# A student of one's own instead of a published encoder.
SCRATCH = "scratch"
# Sentences that the teacher embeds between two writes to disk.
_SLAB = 8192
# A tokenizer is trained on no more sentences than this, taken evenly from all.
_TOKENIZER_SENTENCES = 2_000_000
_EVALUATION_BATCH = 256
_KS = (1, 5, 10)


@dataclass
class TeacherLearning(LoopSettings):
    """The settings. Defaults are the paper's (Appendix A) where it states them: teacher, student, 5 epochs.

    Attributes:
        data: files of parallel text, as `training.data.parallel_text` reads them.
        languages: those to learn; None for all that the data has.
        validation: parallel text to evaluate on; none for no evaluation.
        teacher: what `load_backbone` takes; its text tower teaches.
        teacher_prefix: text put before every sentence for the teacher. The paper has none.
        student: a Hub id or local folder of a transformers encoder, or "scratch" for a new one.
        student_revision: commit, branch or tag on the Hub.
        tokenizer: of a new student, a local folder or Hub id; None trains one on the data.
        vocabulary: pieces of a tokenizer that is trained.
        layers: of a new student.
        width: of a new student.
        heads: of a new student.
        max_tokens: the longest text the student reads, in tokens with the special ones; None for what the
            encoder allows, 128 for a new one.
        with_english: whether the student learns the English sentences too. The paper does not say; MCS scores
            English with it.
        reduction: over an embedding's numbers. "sum" is the paper's formula, a squared distance; "mean" is
            torch's `MSELoss`, smaller by the dimension, which acts on clip_norm and AdamW's eps alone.
        image_tower: what the saved student names for its images; None for the teacher's.
        cache: folder of the teacher's embeddings; None for `teacher` in the folder of the run.

    Raises:
        CapscoreError: a value outside its range, or no data.
    """

    out: str = "runs/teacher_learning"
    data: list[str] = field(default_factory=list)
    languages: list[str] | None = None
    validation: list[str] = field(default_factory=list)
    teacher: str = "RN50x4-quickgelu/openai"
    teacher_prefix: str = ""
    student: str = "distilbert-base-multilingual-cased"
    student_revision: str | None = None
    tokenizer: str | None = None
    vocabulary: int = 16_000
    layers: int = 4
    width: int = 256
    heads: int = 4
    max_tokens: int | None = None
    with_english: bool = True
    reduction: Literal["sum", "mean"] = "sum"
    image_tower: str | None = None
    cache: str | None = None
    epochs: int = 5
    batch_size: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise CapscoreError("no data: give --data, files of parallel text")
        for name in ("vocabulary", "layers", "width", "heads"):
            if getattr(self, name) < 1:
                raise CapscoreError(f"{name}={getattr(self, name)}: expected at least 1")
        if self.width % self.heads:
            raise CapscoreError(f"width={self.width} cannot be shared by heads={self.heads}")
        if self.tokenizer is not None and self.student != SCRATCH:
            raise CapscoreError(
                f"tokenizer={self.tokenizer!r} is for student={SCRATCH!r}; {self.student} brings its own"
            )


class Example(NamedTuple):
    """A text for the student, and whose embedding it is to get.

    Attributes:
        text: a translation, or the English sentence itself.
        language: of the text.
        sentence: place of the English sentence among the teacher's embeddings.
    """

    text: str
    language: str
    sentence: int


class Examples(Sequence[Example]):
    """All examples of some parallel text: first its pairs, then, if wanted, its English sentences.

    Args:
        text: the parallel text.
        places: for each of its sources the place among the teacher's embeddings.
        with_english: whether the sources are examples too.

    >>> text = ParallelText(["A dog."], np.array([0]), ["Ein Hund."], ["de"], duplicates=0)
    >>> [(example.text, example.sentence) for example in Examples(text, np.array([7]), with_english=True)]
    [('Ein Hund.', 7), ('A dog.', 7)]
    """

    def __init__(self, text: ParallelText, places: np.ndarray, *, with_english: bool):
        self._text, self._places = text, places
        self._pairs = len(text)
        self._n = self._pairs + (len(text.sources) if with_english else 0)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, number: int) -> Example:
        if not 0 <= number < self._n:
            raise IndexError(number)
        text = self._text
        if number < self._pairs:
            place = int(self._places[text.pair_source[number]])
            return Example(text.targets[number], text.languages[number], place)
        source = number - self._pairs
        return Example(text.sources[source], "en", int(self._places[source]))


def train(settings: TeacherLearning) -> RunResult:
    """Train a student, or go on with it, and save it to `student/` in the folder of the run.

    Raises:
        CapscoreError: data, languages or settings that are not as they should be; a folder that holds another
            run.
        BackboneUnavailable: teacher or student cannot be had.
        ResultWriteError: the folder cannot be written.
    """
    out = Path(settings.out).expanduser()
    text = read_parallel_text(settings.data, settings.languages)
    languages = sorted(text.counts())
    validation = read_parallel_text(settings.validation, languages) if settings.validation else None
    sentences = list(dict.fromkeys([*text.sources, *(validation.sources if validation else ())]))
    place = {sentence: number for number, sentence in enumerate(sentences)}
    say(
        f"{len(text):,} pairs ({', '.join(f'{k} {n:,}' for k, n in text.counts().items())}) of "
        f"{len(text.sources):,} sentences; {text.duplicates:,} duplicates left out"
    )
    if validation is not None:
        shared = len(text.sources) + len(validation.sources) - len(sentences)
        say(
            f"validation: {len(validation):,} pairs of {len(validation.sources):,} sentences, "
            f"{shared:,} of them in the training data too"
        )

    teacher = load_backbone(settings.teacher, device=device())
    teacher_name, dim = f"{teacher.name}@{teacher.revision}", teacher.dim
    cache = Path(settings.cache).expanduser() if settings.cache else out / "teacher"
    with main_process_first():
        embeddings = teacher_embeddings(teacher, sentences, cache, prefix=settings.teacher_prefix)
    identity = _identity(settings, text, teacher.fingerprint)
    del teacher

    student = make_student(
        settings, text, dim=dim, teacher=teacher_name, languages=[*languages, *_english(settings)]
    )
    places = np.array([place[source] for source in text.sources])
    examples = Examples(text, places, with_english=settings.with_english)
    evaluate = None
    if validation is not None:
        held_out = np.array([place[source] for source in validation.sources])
        evaluate = evaluation(Examples(validation, held_out, with_english=settings.with_english), embeddings)
    result = run(
        student.train(),
        ShuffledBatches(examples, settings.batch_size, settings.seed),
        mse_loss(embeddings, settings.reduction),
        settings,
        evaluate=evaluate,
        identity=identity,
    )
    if not result.finished:
        say(f"stopped after step {result.step}; the same command goes on")
    elif is_main_process():
        student.eval().save_pretrained(out / "student")
        say(f'the student is in {out / "student"}: capscore.load("mcs", backbone="{out / "student"}")')
    return result


def mse_loss(embeddings: np.ndarray, reduction: Literal["sum", "mean"] = "sum") -> Loss:
    """The loss of teacher learning: squared differences, over the sentences their mean.

    Args:
        embeddings: float32 (sentences, d), the teacher's, rows of unit length; the student's are compared as
            they are, so that it learns the length too.
        reduction: "sum" or "mean" over the d numbers of an embedding.

    Returns:
        A loss for `training.engine.loop.run`: "loss", "cosine" to the teacher, and "truncated", the part of
        the texts that were longer than the student's context.
    """

    def loss(model: nn.Module, rows: Sequence[Example], gather: Gather) -> Mapping[str, Tensor]:
        own, truncated = _embed(model, [row.text for row in rows])
        student = gather(own.float())
        teacher = gather(_rows(embeddings, [row.sentence for row in rows]).to(own.device))
        squares = (student - teacher).square()
        per_sentence = squares.sum(dim=1) if reduction == "sum" else squares.mean(dim=1)
        return {
            "loss": per_sentence.mean(),
            "cosine": F.cosine_similarity(student, teacher).mean(),
            "truncated": gather(torch.from_numpy(truncated).float().to(own.device)).mean(),
        }

    return loss


def evaluation(examples: Sequence[Example], embeddings: np.ndarray) -> Evaluate:
    """What is measured while a student trains, for each language of the examples.

    Args:
        examples: those of a validation set.
        embeddings: float32 (sentences, d), the teacher's, rows of unit length.

    Returns:
        (student, step) → "de cosine", the mean cosine of student's and teacher's embeddings, and "de r@1",
        "de r@5", "de r@10": how often the teacher's embedding of a translation's own English sentence is
        among the 1, 5, 10 nearest of all English sentences that have a translation in the language.
    """
    by_language: dict[str, list[Example]] = {}
    for example in examples:
        by_language.setdefault(example.language, []).append(example)

    def evaluate(model: nn.Module, step: int) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for language, rows in sorted(by_language.items()):
            own = _embed_sorted(model, [row.text for row in rows])
            sentences, right = np.unique([row.sentence for row in rows], return_inverse=True)
            teacher = np.asarray(embeddings[sentences])
            lengths = np.linalg.norm(own, axis=1)
            if not np.isfinite(lengths).all() or not lengths.all():
                raise CapscoreError(
                    f"after step {step} the student gives {language} texts embeddings that are 0 or not "
                    "finite"
                )
            cosines = (own * teacher[right]).sum(axis=1) / lengths
            found = retrieval(
                image_embeddings=teacher, text_embeddings=own, text_to_image=right.tolist(), ks=_KS
            )
            numbers[f"{language} cosine"] = float(cosines.mean())
            numbers |= {f"{language} r@{k}": part for k, part in found.text_to_image.at.items()}
        return numbers

    return evaluate


# ------------------------------------------------------------------ the teacher


def teacher_embeddings(
    teacher: Backbone, sentences: Sequence[str], folder: Path, *, prefix: str = ""
) -> np.ndarray:
    """The teacher's embeddings of distinct sentences, computed once, then read from a memory-mapped file.

    Args:
        teacher: the backbone.
        sentences: any number.
        folder: where the file is or will be; its name is a digest of teacher, prefix and sentences. Work that
            was broken off goes on where it was.
        prefix: text put before every sentence.

    Returns:
        float32 (sentences, d), rows of unit length; a read-only memory map.

    Raises:
        ResultWriteError: the file cannot be written.
    """
    embedder = Embedder(teacher)
    # what lies in this folder are whole sentences, told apart by length as well
    digest = fingerprint_of(embedder.fingerprint, prefix, *(f"{len(s)}:{s}" for s in sentences))
    final = folder / f"{digest}.npy"
    if not final.is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / f".{digest}.lock"):
                if not final.is_file():
                    _write_embeddings(embedder, sentences, prefix, final)
        except OSError as error:
            if isinstance(error, CapscoreError):
                raise
            raise ResultWriteError(
                f"the teacher's embeddings {final} could not be written: {error.strerror or error}"
            ) from error
    return np.load(final, mmap_mode="r")


def _write_embeddings(embedder: Embedder, sentences: Sequence[str], prefix: str, final: Path) -> None:
    partial = final.with_name(f".{final.name}.partial")
    shape = (len(sentences), embedder.backbone.dim)
    truncated = 0
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    start, row = header.tell(), 4 * shape[1]
    with open(partial, "ab") as file:
        if file.tell() < start:  # new, or cut within the header
            file.truncate(0)
            file.write(header.getvalue())
            file.flush()
        done = (file.tell() - start) // row
        file.truncate(start + done * row)  # a kill may have cut the last one
        for first in range(done, len(sentences), _SLAB):
            part = embedder.texts(sentences[first : first + _SLAB], prefix=prefix)
            truncated += int(part.truncated[part.index].sum())
            file.write(part.matrix[part.index].astype("<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())
            say(f"teacher: {min(first + _SLAB, len(sentences)):,} of {len(sentences):,} sentences embedded")
    os.replace(partial, final)
    if truncated:
        say(
            f"teacher: {truncated:,} sentences were longer than its {embedder.backbone.max_tokens} tokens "
            "and were cut"
        )


# ------------------------------------------------------------------ the student


def make_student(
    settings: TeacherLearning, text: ParallelText, *, dim: int, teacher: str, languages: Sequence[str]
) -> StudentTextTower:
    """The student as it is before the first step; its head, and all of a new one, are drawn with the seed.

    Args:
        settings: which student.
        text: what a tokenizer is trained on if one is to be.
        dim: length of the teacher's embeddings.
        teacher: its name, for the record.
        languages: those that it will be trained on.

    Raises:
        BackboneUnavailable: encoder or tokenizer cannot be had.
        CapscoreError: an encoder and a tokenizer that do not go together.
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
        # a folder is found again from wherever the student is loaded
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
    except Exception as error:  # a torn file, no network, no such model: each library has its own
        raise BackboneUnavailable(
            f"the student {name!r} cannot be had: {' '.join(str(error).split())}. Instead: a local folder "
            f"with an encoder and its tokenizer, or --student {SCRATCH} for a new one"
        ) from error
    return tokenizer, encoder


def _new_encoder(settings: TeacherLearning, tokenizer: Any) -> Any:
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


def _tokenizer(settings: TeacherLearning, text: ParallelText) -> Any:
    """The tokenizer of a new student: the one given, or one trained on the text and kept with the run."""
    if settings.tokenizer is not None:
        folder = Path(settings.tokenizer).expanduser()
        if folder.is_dir():
            return load_tokenizer(folder)
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(settings.tokenizer, trust_remote_code=False)
        except Exception as error:  # as of the student
            raise BackboneUnavailable(
                f"the tokenizer {settings.tokenizer!r} cannot be had: {' '.join(str(error).split())}. "
                "Instead: a local folder, or none to train one on the data"
            ) from error
    digest = fingerprint_of(text.digest, settings.vocabulary)
    folder = Path(settings.out).expanduser() / f"tokenizer-{digest[:12]}"
    with main_process_first():
        if not folder.is_dir():
            _train_tokenizer(text, settings.vocabulary, folder)
        return load_tokenizer(folder)


def _train_tokenizer(text: ParallelText, vocabulary: int, folder: Path) -> None:
    """Byte-pair encoding of characters: NFKC, blanks as ▁, <s> and </s> around a text.

    Not Unigram, whose trainer in `tokenizers` gives another vocabulary every time.
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
        limit_alphabet=max(1, vocabulary // 2),  # the rarest of many characters are <unk>
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


# ------------------------------------------------------------------ parts of it


def _embed(model: nn.Module, texts: Sequence[str]) -> tuple[Tensor, np.ndarray]:
    """Texts, one batch → (n, d) with gradients, and which were cut."""
    assert isinstance(model, StudentTextTower)
    tokens = model.tokenize(texts)
    ids, mask = pad_batch(tokens.ids, pad_id_of(model.tokenizer))
    where = model.projection.weight.device
    return model(ids.to(where), mask.to(where)), tokens.truncated


def _embed_sorted(model: nn.Module, texts: Sequence[str]) -> np.ndarray:
    """Texts → float32 (n, d), in batches of texts of like length."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    rows: list[np.ndarray] = [np.empty(0)] * len(texts)
    for start in range(0, len(order), _EVALUATION_BATCH):
        batch = order[start : start + _EVALUATION_BATCH]
        own, _ = _embed(model, [texts[row] for row in batch])
        for row, embedding in zip(batch, own.float().cpu().numpy(), strict=True):
            rows[row] = embedding
    return np.stack(rows)


def _rows(embeddings: np.ndarray, places: Sequence[int]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(embeddings[list(places)]))


def _identity(settings: TeacherLearning, text: ParallelText, teacher: str) -> dict[str, Any]:
    """What else than the loop's settings makes a run what it is; where its files lie does not."""
    places = {"data", "validation", "languages", "cache", "image_tower"}
    own = {item.name for item in fields(settings)} - {item.name for item in fields(LoopSettings)} - places
    return {
        **{name: getattr(settings, name) for name in own},
        "digest of the data": text.digest,
        "fingerprint of the teacher": teacher,
    }


def _english(settings: TeacherLearning) -> list[str]:
    return ["en"] if settings.with_english else []


if __name__ == "__main__":
    main(lambda: train(parse(TeacherLearning, None, "Teach a multilingual text tower.")))
