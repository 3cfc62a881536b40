"""Texts and the teacher's embeddings → the loss and the evaluation of a student (Kim et al. 2023, §3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.base import pad_batch
from capscore.backbones.text_towers import StudentTextTower
from capscore.backbones.tokens import pad_id_of
from capscore.benchmarks.protocols.recall import retrieval
from capscore.errors import CapscoreError
from training.data.parallel_text import ENGLISH, ParallelText
from training.engine.loop import Evaluate, Loss
from training.engine.processes import Gather
from training.engine.texts import by_length

_EVALUATION_BATCH = 256
_KS = (1, 5, 10)


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


def examples_of(text: ParallelText, number: Mapping[str, int], *, with_english: bool) -> list[Example]:
    """All examples of parallel text: first its pairs, then, if wanted, its English sentences.

    Args:
        text: The parallel text.
        number: English sentence → its number among the teacher's embeddings.
        with_english: Whether the English sentences are examples too.

    >>> text = ParallelText(["A dog."], np.array([0]), ["Ein Hund."], ["de"], rows=(1,))
    >>> [(row.text, row.sentence) for row in examples_of(text, {"A dog.": 7}, with_english=True)]
    [('Ein Hund.', 7), ('A dog.', 7)]
    """
    sentences = [number[text.sources[source]] for source in text.pair_source.tolist()]
    examples = list(map(Example, text.targets, text.languages, sentences))
    if with_english:
        examples += [Example(source, ENGLISH, number[source]) for source in text.sources]
    return examples


def squared_distance(embeddings: np.ndarray) -> Loss:
    """The loss of teacher learning: the squared distance to the teacher, its mean over the texts.

    Args:
        embeddings: float32 (sentences, d), embeddings of the teacher, rows of unit length; the student's are
            not normalised, so that it learns the length too.

    Returns:
        A loss for `training.engine.loop.run`: "loss", and "cosine" to the teacher.
    """

    def loss(model: nn.Module, rows: Sequence[Example], gather: Gather) -> Mapping[str, Tensor]:
        embedded = embed(model, [row.text for row in rows])
        right = torch.from_numpy(np.ascontiguousarray(embeddings[[row.sentence for row in rows]]))
        student, teacher = gather(embedded.float()), gather(right.to(embedded.device))
        return {
            "loss": (student - teacher).square().sum(dim=1).mean(),
            "cosine": F.cosine_similarity(student, teacher).mean(),
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
            student = embed_sorted(model, [row.text for row in rows])
            sentences, right = np.unique([row.sentence for row in rows], return_inverse=True)
            teacher = np.asarray(embeddings[sentences])
            lengths = np.linalg.norm(student, axis=1)
            if not np.isfinite(lengths).all() or not lengths.all():
                raise CapscoreError(
                    f"after step {step} the student gives {language} texts embeddings that are 0 or infinite"
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


def embed(model: nn.Module, texts: Sequence[str]) -> Tensor:
    """A batch of texts → embeddings (n, d) with gradients."""
    assert isinstance(model, StudentTextTower)
    ids, mask = pad_batch(model.tokenize(texts).ids, pad_id_of(model.tokenizer))
    at = model.projection.weight.device
    return model(ids.to(at), mask.to(at))


def embed_sorted(model: nn.Module, texts: Sequence[str]) -> np.ndarray:
    """Texts → float32 (n, d), in batches of texts of similar length."""
    return by_length(texts, lambda part: embed(model, part).float().cpu(), _EVALUATION_BATCH).numpy()
