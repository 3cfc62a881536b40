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
from collections import Counter
from collections.abc import Mapping, Sequence
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
        sentence: Place of the English sentence among the teacher's embeddings.
    """

    text: str
    language: str
    sentence: int


class Examples(Sequence[Example]):
    """All examples of parallel text: first its pairs, then, if wanted, its English sentences.

    Args:
        text: The parallel text.
        places: Place of each of its sources among the teacher's embeddings.
        with_english: Whether the sources are examples too.

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
    identity = {
        **own_settings(settings, _NO_IDENTITY),
        "digest of the data": text.digest,
        "fingerprint of the teacher": teacher.fingerprint,
    }
    del teacher

    english = ["en"] if settings.with_english else []
    student = make_student(settings, text, dim=dim, teacher=teacher_name, languages=[*languages, *english])
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
        say(f"stopped after step {result.step}; the same command continues")
    elif is_main_process():
        student.eval().save_pretrained(out / "student")
        _write_card(settings, result, student, text, validation, teacher_name, command)
        say(f'the student is in {out / "student"}: capscore.load("mcs", backbone="{out / "student"}")')
    return result


def _write_card(
    settings: TeacherLearning,
    result: RunResult,
    student: StudentTextTower,
    text: ParallelText,
    validation: ParallelText | None,
    teacher: str,
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
    results = [Result("validation", "cosine", None)]
    if validation is not None:
        languages = Counter(validation.languages)
        if settings.with_english:
            languages["en"] = len(validation.sources)
        results = []
        for name, value in result.evaluation.items():
            language, _, measure = name.partition(" ")
            about = (
                "cosine to the teacher's embedding" if measure == "cosine" else f"{measure} of the sentence"
            )
            results.append(
                Result(
                    "validation",
                    measure,
                    value,
                    metric_name=about,
                    language=language,
                    command=command,
                    rows=languages[language],
                )
            )
    seen = set(text.sources).intersection(() if validation is None else validation.sources)
    held_out = "nothing: no validation text was given"
    if validation is not None:
        held_out = f"{counted(len(validation.sources) - len(seen), 'sentence')} of the validation text"
        if seen:
            held_out += f"; {counted(len(seen), 'other sentence')} of it is in the training text too"
    card = ModelCard(
        name=settings.name or folder.resolve().parent.name,
        recipe="teacher_learning",
        base="a new encoder" if settings.student == SCRATCH else settings.student,
        languages=list(student.languages),
        license=settings.license,
        command=command,
        settings={name: value for name, value in asdict(settings).items() if name not in ("out", "name")},
        data=data,
        held_out=held_out,
        results=results,
        not_measured=["Agreement with human ratings.", "Agreement with photos."],
        teacher=teacher,
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
            numbers |= {f"{language} r@{k}": found.value(f"text_to_image_r@{k}") for k in _KS}
        return numbers

    return evaluate


def _embed(model: nn.Module, texts: Sequence[str]) -> tuple[Tensor, np.ndarray]:
    """A batch of texts → embeddings (n, d) with gradients, and bool (n,) for texts that were cut off."""
    assert isinstance(model, StudentTextTower)
    tokens = model.tokenize(texts)
    ids, mask = pad_batch(tokens.ids, pad_id_of(model.tokenizer))
    where = model.projection.weight.device
    return model(ids.to(where), mask.to(where)), tokens.truncated


def _embed_sorted(model: nn.Module, texts: Sequence[str]) -> np.ndarray:
    """Texts → float32 (n, d), in batches of texts of similar length."""
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


def _main() -> None:
    """The command; see the top of this file."""
    settings = parse(TeacherLearning, None, "Teach a multilingual text tower.")
    train(settings, command=f"python -m training.teacher_learning {shlex.join(sys.argv[1:])}")


if __name__ == "__main__":
    main(_main)
