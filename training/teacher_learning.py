"""Teacher learning: a multilingual text tower that gives a translation the embedding of its English sentence.

    python -m training.teacher_learning --config training/configs/teacher_learning.yaml

In: parallel text, the text tower of any backbone as teacher, and an encoder of transformers as student. Out,
in the folder of the run: `student/` with a card, which `capscore.load("mcs", backbone=…)` takes and which
works with the teacher's image tower; log and checkpoints. The method is that of Kim et al. 2023 (§3.1 and
Appendix A), after Carlsson et al. 2022: student s, teacher t, N sentences, L = 1/N Σ (t − s)².
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from capscore.backbones import load_backbone
from capscore.errors import CapscoreError, Setting
from capscore.tables import counted
from training.data.batches import ShuffledBatches
from training.data.parallel_text import ENGLISH, ParallelText, read_parallel_text
from training.data.source import Origin
from training.engine.config import main, parse
from training.engine.loop import RunResult, run
from training.engine.loop_settings import LoopSettings, require, require_whole
from training.engine.model_card import Result, write_card
from training.engine.processes import device, is_main_process, main_process_first, say
from training.engine.recipe import card_of, command_of, compute_of, own_settings, write_settings
from training.engine.saved_towers import StudentRecord, save_student
from training.engine.student import (
    evaluation,
    examples_of,
    make_student,
    squared_distance,
    teacher_embeddings,
)

# Settings that do not make a run what it is: where its files are, and what the card says.
_NO_IDENTITY = ("data", "validation", "languages", "image_tower", "name", "license", "data_license")


@dataclass
class TeacherLearning(LoopSettings):
    """Settings of a run, besides those of the loop; the teacher, the student and 5 epochs are the paper's.

    Attributes:
        teacher: Backbone that teaches with its text tower, as `capscore.load_backbone` takes it.
        student, student_revision: Hub id or local folder of a transformers encoder with its tokenizer;
            commit, branch or tag on the Hub.
        max_tokens: Longest text that the student reads, in tokens with the special ones; None for the
            encoder's maximum.
        image_tower: Image tower that the saved student names; None for the teacher's.
        data: Files of parallel text (`training.data.parallel_text`). A file of the same name with
            .sources.json behind it says more about its origins, and the card cites them.
        languages: Languages to learn; None for all languages of the data.
        validation: Files of parallel text to evaluate on; none for no evaluation.
        with_english: Whether the student learns the English sentences too. The paper does not say; MCS scores
            English with the same tower.
        accumulation_steps: Parts into which a batch is cut, in order, to save memory. The loss compares no
            rows, so it stays the same.
        name: Name of the student for its card; "" for the name of the folder `out`.
        license: Licence of the weights, as the Hub writes it.
        data_license: Licence of the parallel text.
    """

    recipe_name: ClassVar[str] = "teacher_learning"
    module: ClassVar[str] = "training.teacher_learning"

    out: str = "runs/teacher_learning"
    epochs: int = 5
    batch_size: int = 256
    teacher: str = "RN50x4-quickgelu/openai"
    student: str = "distilbert-base-multilingual-cased"
    student_revision: str | None = None
    max_tokens: int | None = None
    image_tower: str | None = None
    data: list[str] = field(default_factory=list)
    languages: list[str] | None = None
    validation: list[str] = field(default_factory=list)
    with_english: bool = True
    accumulation_steps: int = 1
    name: str = ""
    license: str = "unknown"
    data_license: str = "unknown"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise CapscoreError("no data: give files of parallel text, as ", Setting("data", ["text.jsonl"]))
        require_whole(self, "accumulation_steps", 1)
        parts, most = self.accumulation_steps, self.batch_size
        require(most >= parts, "accumulation_steps", parts, f"at most the batch_size, {most}")


def train(settings: TeacherLearning) -> RunResult:
    """Train a student, or continue, and save it with its card to `student/` in the folder of the run."""
    out = Path(settings.out).expanduser()
    text = read_parallel_text(settings.data, settings.languages)
    languages = sorted(text.counts())
    validation, held_out, shared = None, [], 0
    if settings.validation:
        given = read_parallel_text(settings.validation, languages)
        validation = given.without(set(text.sources))
        held_out, shared = validation.sources, len(given.sources) - len(validation.sources)
        if not held_out:
            problem = "is in the training data: give others as validation"
            raise CapscoreError(f"every sentence of the validation text {problem}")
    counts = ", ".join(f"{language} {n:,}" for language, n in text.counts().items())
    said = f"{counted(len(held_out), 'sentence')} for validation"
    if shared:
        said += f"; left out: {shared:,} that {'is' if shared == 1 else 'are'} in the training data"
    say(f"{len(text.pairs):,} different pairs ({counts}) of {len(text.sources):,} sentences; {said}")
    number = {sentence: index for index, sentence in enumerate([*text.sources, *held_out])}
    teacher = load_backbone(settings.teacher, device=device())
    encoder = settings.student, settings.student_revision, settings.max_tokens
    student = make_student(*encoder, teacher.dim, settings.seed).train()
    with main_process_first():
        embeddings = teacher_embeddings(teacher, list(number))
    identity = {
        **own_settings(settings, _NO_IDENTITY),
        "digest of the data": text.digest(),
        "fingerprint of the teacher": teacher.fingerprint,
    }
    name = f"{teacher.name}@{teacher.revision}"
    del teacher
    if settings.with_english:
        languages.append(ENGLISH)
    examples = partial(examples_of, number=number, with_english=settings.with_english)
    rows = ShuffledBatches(examples(text), settings.batch_size, settings.seed)
    evaluate = None if validation is None else evaluation(examples(validation), embeddings)
    loss, parts = squared_distance(embeddings), settings.accumulation_steps
    result = run(
        student, rows, loss, settings, evaluate=evaluate, identity=identity, accumulation_steps=parts
    )
    if not result.finished:
        say(f"stopped after step {result.step}; the same command continues")
    elif is_main_process():
        folder, named = out / "student", settings.image_tower or settings.teacher
        if Path(named).is_dir():
            named = str(Path(named).resolve())  # found from wherever the student is loaded
        record = StudentRecord(named, languages=languages, teacher=name)
        save_student(student.eval(), folder, record)
        _write_card(settings, result, record, text, validation, shared)
        say(f'the student is in {folder}: capscore.load("mcs", backbone="{folder}")')
    return result


def _write_card(
    settings: TeacherLearning,
    trained: RunResult,
    student: StudentRecord,
    text: ParallelText,
    validation: ParallelText | None,
    shared: int,
) -> None:
    folder = Path(settings.out).expanduser() / "student"
    write_settings(folder, settings)
    sources = []
    for path, rows in zip(settings.data, text.rows, strict=True):
        sources.append(Origin(path, Path(path).name, settings.data_license))
        sources[-1].n = rows
    results, held_out = [], "nothing: no validation text was given"
    if validation is not None:
        n_rows = {**validation.counts(), ENGLISH: len(validation.sources)}
        for name, value in trained.evaluation.items():
            language, measure = name.split()
            of = "to the teacher's embedding" if measure == "cosine" else "of the sentence"
            result = Result("validation", measure, value, command_of(settings.module), f"{measure} {of}")
            results.append(replace(result, language=language, rows=n_rows[language]))
        held_out = f"{counted(len(validation.sources), 'sentence')} of the validation text"
        if shared:
            held_out += f"; {counted(shared, 'other sentence')} of it, in the training text too, left out"
    card = card_of(
        settings,
        folder.parent,
        sources,
        [held_out],
        base=settings.student,
        languages=sorted(student.languages or ()),
        results=results,
        not_measured=["Agreement with human ratings.", "Agreement with photos."],
        teacher=student.teacher,
        image_tower=student.image_tower,
        compute=compute_of(trained),
    )
    write_card(folder, card)


def _main() -> None:
    train(parse(TeacherLearning, None, "Teach a multilingual text tower."))


if __name__ == "__main__":
    main(_main, TeacherLearning)
