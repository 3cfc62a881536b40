"""The student of teacher learning: its teacher's embeddings, its loss and its evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.base import Backbone, pad_batch
from capscore.backbones.text_towers import TextTower
from capscore.backbones.tokens import load_tokenizer, pad_id_of
from capscore.benchmarks.protocols.recall import retrieval
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.embedding.photos import in_batches
from capscore.errors import BackboneUnavailable, CapscoreError, message_of
from training.data.parallel_text import ENGLISH, ParallelText
from training.data.stored import StoredRows
from training.engine.loop import Evaluate, Loss
from training.engine.processes import Gather, say
from training.engine.texts import by_length

# Sentences that the teacher embeds at a time; texts that the student embeds at once in an evaluation.
_SLAB, _EVALUATION_BATCH = 8192, 256
_KS = (1, 5, 10)


def make_student(name: str, revision: str | None, max_tokens: int | None, dim: int, seed: int) -> TextTower:
    """The student before the first step: an encoder, and a drawn head of the teacher's dimension.

    The encoder is of the Hub, at a revision, or in a folder; `max_tokens` is None for all that it reads.
    """
    from transformers import AutoModel, AutoTokenizer

    options = {"revision": revision, "trust_remote_code": False}
    folder, source = Path(name).expanduser(), name
    try:
        if folder.is_dir():
            source, tokenizer = str(folder), load_tokenizer(folder)
        else:
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
        encoder = AutoModel.from_pretrained(source, dtype=torch.float32, use_safetensors=True, **options)
    except BackboneUnavailable:
        raise
    except Exception as error:  # a damaged file, no network, no such model: each library raises its own
        problem = f"{message_of(error).rstrip('.')}. Give a local folder with an encoder and its tokenizer"
        raise BackboneUnavailable(f"the student {name!r} is not available: {problem}") from error
    pad_id_of(tokenizer)
    torch.manual_seed(seed)
    head = nn.Linear(encoder.config.hidden_size, dim)
    return TextTower(encoder, head, tokenizer, max_tokens)


def teacher_embeddings(teacher: Backbone, sentences: Sequence[str]) -> np.ndarray:
    """The teacher's embeddings of distinct sentences, float32 (n, d), rows of unit length; a memory map.

    They are computed once: another run, and one that was interrupted, reads them from the cache.
    """
    embedder = Embedder(teacher, cache=EmbeddingCache(None))
    rows, n_cut = StoredRows(teacher.dim), 0
    for slab in in_batches(sentences, _SLAB):
        part = embedder.texts(slab)
        rows.append(part.matrix[part.index])
        n_cut += int(part.truncated[part.index].sum())
        say(f"teacher: {rows.n:,} of {len(sentences):,} sentences embedded")
    if n_cut:
        say(f"teacher: {n_cut:,} sentences had more than {teacher.max_tokens} tokens and were cut")
    return rows.finish()


class Example(NamedTuple):
    """A text for the student, and the number of the sentence whose embedding it should get."""

    text: str
    language: str
    sentence: int


def examples_of(text: ParallelText, number: Mapping[str, int], *, with_english: bool) -> list[Example]:
    """All examples of parallel text: first its pairs, then, if wanted, its English sentences.

    `number` has the number of each English sentence among the teacher's embeddings.
    """
    examples = [Example(pair.target, pair.language, number[pair.source]) for pair in text.pairs]
    if with_english:
        examples += [Example(source, ENGLISH, number[source]) for source in text.sources]
    return examples


def squared_distance(embeddings: np.ndarray) -> Loss:
    """The loss of teacher learning for `run`: the squared distance to the teacher, its mean over the texts.

    The teacher's embeddings (sentences, d) have unit length; the student's are not normalised, so that it
    learns the length too. "cosine" to the teacher is given beside the loss.
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
    """The evaluation of a student on examples, by language, beside the teacher's embeddings (sentences, d).

    "de cosine" is the mean cosine of the student's and the teacher's embeddings, "de r@5" says how often the
    teacher's embedding of a translation's English sentence is among the 5 nearest of all such sentences.
    """
    by_language: dict[str, list[Example]] = {}
    for example in examples:
        by_language.setdefault(example.language, []).append(example)

    def evaluate(model: nn.Module, step: int) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for language, rows in sorted(by_language.items()):
            student = embed_sorted(model, [row.text for row in rows])
            sentences, own = np.unique([row.sentence for row in rows], return_inverse=True)
            teacher = np.asarray(embeddings[sentences])
            lengths = np.linalg.norm(student, axis=1)
            if not np.isfinite(lengths).all() or not lengths.all():
                problem = f"gives {language} texts embeddings that are 0 or infinite"
                raise CapscoreError(f"after step {step} the student {problem}")
            cosines = (student * teacher[own]).sum(axis=1) / lengths
            found = retrieval(image_embeddings=teacher, text_embeddings=student, text_to_image=own, ks=_KS)
            numbers[f"{language} cosine"] = float(cosines.mean())
            for k in _KS:
                numbers[f"{language} r@{k}"] = float(found.value(f"text_to_image_r@{k}") or 0)
        return numbers

    return evaluate


def embed(model: nn.Module, texts: Sequence[str]) -> Tensor:
    """A batch of texts → embeddings (n, d) with gradients."""
    assert isinstance(model, TextTower)
    ids, mask = pad_batch(model.tokenize(texts).ids, pad_id_of(model.tokenizer))
    at = model.projection.weight.device
    return model(ids.to(at), mask.to(at))


def embed_sorted(model: nn.Module, texts: Sequence[str]) -> np.ndarray:
    """Texts → float32 (n, d), in batches of texts of similar length."""
    return by_length(texts, lambda part: embed(model, part).float().cpu(), _EVALUATION_BATCH).numpy()
