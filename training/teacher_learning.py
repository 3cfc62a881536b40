"""Teacher learning: a multilingual text tower that gives a translation the embedding of its English sentence.

    python -m training.teacher_learning --config training/configs/teacher_learning.yaml

In: parallel text, the text tower of any backbone as teacher, and as student an encoder of transformers, or
the size of a new one. Out, in the folder of the run: `student/` with a card, which `capscore.load("mcs",
backbone=…)` takes and which works with the teacher's image tower; log and checkpoints; `teacher/` with the
teacher's embeddings.

The method is that of Kim et al. 2023 (§3.1 and Appendix A), after Carlsson et al. 2022: student s, teacher t,
N sentences, L = 1/N Σ (t − s)². The teacher is not changed.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.base import pad_batch
from capscore.backbones.loading import load_backbone
from capscore.backbones.text_towers import StudentTextTower
from capscore.backbones.tokens import pad_id_of
from capscore.benchmarks.protocols.recall import retrieval
from capscore.benchmarks.protocols.results import counted
from capscore.errors import CapscoreError
from training.data.batches import ShuffledBatches
from training.data.origin import Origin
from training.data.parallel_text import ParallelText, read_parallel_text
from training.engine.config import main, parse
from training.engine.loop import Evaluate, Loss, RunResult, run
from training.engine.model_card import ModelCard, Result, write_card
from training.engine.processes import Gather, device, is_main_process, main_process_first, say
from training.engine.recipe import SETTINGS, own_settings, write_settings
from training.engine.student import SCRATCH, StudentSettings, make_student
from training.engine.teacher_embeddings import teacher_embeddings

_EVALUATION_BATCH = 256
_KS = (1, 5, 10)
# What the card calls a number, besides those of retrieval.
_MEASURES = {"cosine": "cosine to the teacher's embedding"}
# Settings that do not make a run what it is: where its files are, and what the card says.
_NO_IDENTITY = (
    *("data", "validation", "languages", "cache", "image_tower"),
    *("name", "license", "data_license"),
)


@dataclass
class TeacherLearning(StudentSettings):
    """Settings of a run, besides those of the loop and of the student.

    Defaults are those of the paper (Kim et al. 2023, Appendix A) where it states them: teacher, student and
    5 epochs.

    Attributes:
        data: Files of parallel text, as `training.data.parallel_text` reads them.
        languages: Languages to learn; None for all languages of the data.
        validation: Files of parallel text to evaluate on; none for no evaluation.
        teacher_prefix: Text put before every sentence for the teacher. The paper has none.
        with_english: Whether the student learns the English sentences too. The paper does not say; MCS scores
            English with the same tower.
        reduction: Reduction over an embedding's numbers. "sum" is the paper's formula, a squared distance;
            "mean" is torch's `MSELoss`, smaller by the dimension, which affects only clip_norm and AdamW's
            eps.
        cache: Folder of the teacher's embeddings; None for `teacher` in the folder of the run.
        name: Name of the student for its card; "" for the name of the folder `out`.
        license: Licence of the weights, as the Hub writes it.
        data_license: Licence of the parallel text. A file of the same name with .sources.json behind it says
            more about its origins, and the card cites them.

    Raises:
        CapscoreError: a value outside its range, or no data.
    """

    epochs: int = 5
    batch_size: int = 256
    data: list[str] = field(default_factory=list)
    languages: list[str] | None = None
    validation: list[str] = field(default_factory=list)
    teacher_prefix: str = ""
    with_english: bool = True
    reduction: Literal["sum", "mean"] = "sum"
    cache: str | None = None
    name: str = ""
    license: str = "unknown"
    data_license: str = "unknown"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise CapscoreError("no data: give --data, files of parallel text")


class Example(NamedTuple):
    """A text for the student, and the sentence whose embedding it should get.

    Attributes:
        text: A translation, or the English sentence itself.
        language: Language of the text.
        sentence: Number of the English sentence among the teacher's embeddings.
    """

    text: str
    language: str
    sentence: int


class Examples(Sequence[Example]):
    """All examples of parallel text: first its pairs, then, if wanted, its English sentences.

    Args:
        text: The parallel text.
        numbers: Number of each of its sources among the teacher's embeddings.
        with_english: Whether the sources are examples too.

    >>> text = ParallelText(["A dog."], np.array([0]), ["Ein Hund."], ["de"], duplicates=0)
    >>> [(example.text, example.sentence) for example in Examples(text, np.array([7]), with_english=True)]
    [('Ein Hund.', 7), ('A dog.', 7)]
    """

    def __init__(self, text: ParallelText, numbers: np.ndarray, *, with_english: bool):
        self.text, self.numbers = text, numbers
        self.n_english = len(text.sources) if with_english else 0

    def __len__(self) -> int:
        return len(self.text) + self.n_english

    def __getitem__(self, index: int) -> Example:  # type: ignore[override]
        text, source = self.text, index - len(self.text)
        if source < 0:
            sentence = int(self.numbers[text.pair_source[index]])
            return Example(text.targets[index], text.languages[index], sentence)
        if source >= self.n_english:
            raise IndexError(index)
        return Example(text.sources[source], "en", int(self.numbers[source]))


def train(settings: TeacherLearning, *, command: str = "") -> RunResult:
    """Train a student, or continue, and save it with its card to `student/` in the folder of the run.

    Args:
        settings: Settings of the run.
        command: Command on the card that trains the student again; "" for one with the run's own settings
            file.

    Raises:
        CapscoreError: malformed data, languages or settings, or a folder that holds another run.
        BackboneUnavailable: teacher or student is not available.
        ResultWriteError: the folder cannot be written.
    """
    out = Path(settings.out).expanduser()
    text = read_parallel_text(settings.data, settings.languages)
    languages = sorted(text.counts())
    validation = read_parallel_text(settings.validation, languages) if settings.validation else None
    held_out = [] if validation is None else validation.sources
    sentences = list(dict.fromkeys([*text.sources, *held_out]))
    shared = len(text.sources) + len(held_out) - len(sentences)
    counts = ", ".join(f"{language} {n:,}" for language, n in text.counts().items())
    say(
        f"{len(text):,} pairs ({counts}) of {len(text.sources):,} sentences; {text.duplicates:,} duplicates "
        f"left out; {len(held_out):,} sentences for validation, {shared:,} of them in the training data too"
    )
    teacher = load_backbone(settings.teacher, device=device())
    cache = Path(settings.cache).expanduser() if settings.cache else out / "teacher"
    with main_process_first():
        embeddings = teacher_embeddings(teacher, sentences, cache, prefix=settings.teacher_prefix)
    identity = {
        **own_settings(settings, _NO_IDENTITY),
        "digest of the data": text.digest,
        "fingerprint of the teacher": teacher.fingerprint,
    }
    name, dim = f"{teacher.name}@{teacher.revision}", teacher.dim
    del teacher
    learned = [*languages, "en"] if settings.with_english else languages
    student = make_student(settings, text, dim=dim, teacher=name, languages=learned)
    number = {sentence: index for index, sentence in enumerate(sentences)}

    def examples(of: ParallelText) -> Examples:
        numbers = np.array([number[source] for source in of.sources])
        return Examples(of, numbers, with_english=settings.with_english)

    result = run(
        student.train(),
        ShuffledBatches(examples(text), settings.batch_size, settings.seed),
        mse_loss(embeddings, settings.reduction),
        settings,
        evaluate=None if validation is None else evaluation(examples(validation), embeddings),
        identity=identity,
    )
    if not result.finished:
        say(f"stopped after step {result.step}; the same command continues")
    elif is_main_process():
        student.eval().save_pretrained(out / "student")
        _write_card(settings, result, student, text, validation, shared, command)
        say(f'the student is in {out / "student"}: capscore.load("mcs", backbone="{out / "student"}")')
    return result


def _write_card(
    settings: TeacherLearning,
    result: RunResult,
    student: StudentTextTower,
    text: ParallelText,
    validation: ParallelText | None,
    shared: int,
    command: str,
) -> None:
    """Write the card and the settings beside the student's weights."""
    folder = Path(settings.out).expanduser() / "student"
    write_settings(folder, settings)
    command = command or f"python -m training.teacher_learning --config {SETTINGS}"
    data = []
    for path, rows in zip(settings.data, text.rows, strict=True):
        origin = Origin(path, Path(path).name, settings.data_license)
        origin.n = rows
        data += origin.described()
    results, held_out = [Result("validation", "cosine", None)], "nothing: no validation text was given"
    if validation is not None:
        n_rows = {**validation.counts(), "en": len(validation.sources)}
        results = [
            Result(
                "validation",
                measure,
                value,
                metric_name=_MEASURES.get(measure, f"{measure} of the sentence"),
                language=language,
                command=command,
                rows=n_rows[language],
            )
            for name, value in result.evaluation.items()
            for language, measure in [name.split()]
        ]
        n = len(validation.sources) - shared
        held_out = f"{counted(n, 'sentence')} of the validation text"
        if shared:
            held_out += f"; {counted(shared, 'other sentence')} of it is in the training text too"
    card = ModelCard(
        name=settings.name or folder.resolve().parent.name,
        recipe="teacher_learning",
        base="a new encoder" if settings.student == SCRATCH else settings.student,
        languages=sorted(student.languages or ()),
        license=settings.license,
        command=command,
        settings={name: value for name, value in asdict(settings).items() if name not in ("out", "name")},
        data=data,
        held_out=held_out,
        results=results,
        not_measured=["Agreement with human ratings.", "Agreement with photos."],
        teacher=student.teacher,
        image_tower=student.image_tower,
        compute=f"{torch.device(device()).type}, {result.seconds / 60:.1f} minutes",
    )
    write_card(folder, card)


def mse_loss(embeddings: np.ndarray, reduction: Literal["sum", "mean"] = "sum") -> Loss:
    """The loss of teacher learning: squared differences, with the mean over the sentences.

    Args:
        embeddings: float32 (sentences, d), embeddings of the teacher, rows of unit length; the student's are
            not normalised, so that it learns the length too.
        reduction: "sum" or "mean" over the d numbers of an embedding.

    Returns:
        A loss for `training.engine.loop.run`: "loss", "cosine" to the teacher, and "truncated", the share of
        texts that are longer than the student's context.
    """

    def loss(model: nn.Module, rows: Sequence[Example], gather: Gather) -> Mapping[str, Tensor]:
        embedded, truncated = _embed(model, [row.text for row in rows])
        at = embedded.device
        right = np.ascontiguousarray(embeddings[[row.sentence for row in rows]])
        student, teacher = gather(embedded.float()), gather(torch.from_numpy(right).to(at))
        squares = (student - teacher).square()
        per_sentence = squares.sum(dim=1) if reduction == "sum" else squares.mean(dim=1)
        return {
            "loss": per_sentence.mean(),
            "cosine": F.cosine_similarity(student, teacher).mean(),
            "truncated": gather(torch.from_numpy(truncated).float().to(at)).mean(),
        }

    return loss


def evaluation(examples: Iterable[Example], embeddings: np.ndarray) -> Evaluate:
    """The evaluation of a student, for each language of the examples.

    Args:
        examples: Examples of a validation set.
        embeddings: float32 (sentences, d), embeddings of the teacher, rows of unit length.

    Returns:
        (student, step) → "de cosine", the mean cosine of the student's and the teacher's embeddings, and
        "de r@1", "de r@5", "de r@10": how often the teacher's embedding of a translation's English sentence
        is among the 1, 5, 10 nearest of all English sentences that have a translation in the language.
    """
    by_language: dict[str, list[Example]] = {}
    for example in examples:
        by_language.setdefault(example.language, []).append(example)

    def evaluate(model: nn.Module, step: int) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for language, rows in sorted(by_language.items()):
            student = _embed_sorted(model, [row.text for row in rows])
            sentences, right = np.unique([row.sentence for row in rows], return_inverse=True)
            teacher = np.asarray(embeddings[sentences])
            lengths = np.linalg.norm(student, axis=1)
            if not np.isfinite(lengths).all() or not lengths.all():
                raise CapscoreError(
                    f"after step {step} the student gives {language} texts embeddings that are 0 or not "
                    "finite"
                )
            cosines = (student * teacher[right]).sum(axis=1) / lengths
            found = retrieval(
                image_embeddings=teacher, text_embeddings=student, text_to_image=right.tolist(), ks=_KS
            )
            numbers[f"{language} cosine"] = float(cosines.mean())
            for k in _KS:
                numbers[f"{language} r@{k}"] = float(found.value(f"text_to_image_r@{k}") or 0)
        return numbers

    return evaluate


def _embed(model: nn.Module, texts: Sequence[str]) -> tuple[Tensor, np.ndarray]:
    """A batch of texts → embeddings (n, d) with gradients, and bool (n,) for texts that were cut off."""
    assert isinstance(model, StudentTextTower)
    tokens = model.tokenize(texts)
    ids, mask = pad_batch(tokens.ids, pad_id_of(model.tokenizer))
    at = model.projection.weight.device
    return model(ids.to(at), mask.to(at)), tokens.truncated


def _embed_sorted(model: nn.Module, texts: Sequence[str]) -> np.ndarray:
    """Texts → float32 (n, d), in batches of texts of similar length."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    parts = [
        _embed(model, [texts[row] for row in order[start : start + _EVALUATION_BATCH]])[0].float().cpu()
        for start in range(0, len(order), _EVALUATION_BATCH)
    ]
    return torch.cat(parts)[np.argsort(order)].numpy()


def _main() -> None:
    """The command; see the top of this file."""
    settings = parse(TeacherLearning, None, "Teach a multilingual text tower.")
    train(settings, command=f"python -m training.teacher_learning {shlex.join(sys.argv[1:])}")


if __name__ == "__main__":
    main(_main)
