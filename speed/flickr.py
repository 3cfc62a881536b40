"""RefCLIPScore of rows shaped like Flickr8k-Expert on ViT-B/32, beside a loop over rows and bare encoding.

In: random weights and made-up data. Out: ratios of wall-clock times, and how far the three scores differ.
"""

from __future__ import annotations

import logging
import tempfile
from itertools import count, cycle, islice
from pathlib import Path

import numpy as np
import open_clip
import torch
from PIL import Image

from capscore.backbones.base import BackboneOptions
from capscore.backbones.open_clip import ClipTokenizer, OpenClipBackbone
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.metrics.ref_clip_score import RefCLIPScore

from .data import ScoredPhotos, flickr8k_expert_rows, write_photos
from .figures import Figure, repeat

MODEL = "ViT-B-32"
PREFIX = "A photo depicts "
LOOPED = 3  # rows of the loop that are timed at once


class Bare:
    """The bare model: the least work possible, and how a plain script scores."""

    image_batch: int  # the two are capscore's own
    text_batch: int

    def __init__(self) -> None:
        torch.manual_seed(0)
        logging.getLogger().setLevel(logging.ERROR)  # open_clip warns of random weights; they are meant
        self.model, _, self.transform = open_clip.create_model_and_transforms(MODEL, pretrained=None)
        self.model.eval()
        self.tokenizer = open_clip.get_tokenizer(MODEL)

    def pixels(self, paths: list[str]) -> torch.Tensor:
        """Images, decoded and preprocessed one after the other in one thread."""
        return torch.stack([self.transform(Image.open(path).convert("RGB")) for path in paths])

    def encode_images(self, paths: list[str]) -> torch.Tensor:
        """Batches as they come: decode, preprocess, encode."""
        batches = [paths[at : at + self.image_batch] for at in range(0, len(paths), self.image_batch)]
        return unit(torch.cat([self.model.encode_image(self.pixels(batch)) for batch in batches]))

    def encode_texts(self, texts: list[str]) -> torch.Tensor:
        """Tokenised at once, sorted by length, in batches cut to the longest text of each."""
        ids = self.tokenizer([PREFIX + text for text in texts])
        lengths = ids.argmax(dim=1) + 1  # the end of text has the highest id
        order = lengths.argsort()
        out = torch.empty(len(texts), 512)
        for start in range(0, len(texts), self.text_batch):
            rows = order[start : start + self.text_batch]
            out[rows] = self.encode_cut(ids[rows, : lengths[rows].max()])
        return unit(out)

    def encode_cut(self, ids: torch.Tensor) -> torch.Tensor:
        """The text tower on fewer places than its 77: attention is causal, so nothing else changes."""
        model, width = self.model, ids.shape[1]
        x = model.token_embedding(ids) + model.positional_embedding[:width]
        x = model.ln_final(model.transformer(x, attn_mask=model.attn_mask[:width, :width]))
        return x[torch.arange(len(ids)), ids.argmax(dim=1)] @ model.text_projection

    def score_row(self, candidate: str, path: str, references: list[str]) -> float:
        """One row as the published CLIPScore code does it, at 77 tokens, remembering nothing."""
        with torch.inference_mode():
            image = unit(self.model.encode_image(self.pixels([path])))
            caption = unit(self.model.encode_text(self.tokenizer([PREFIX + candidate])))
            others = unit(self.model.encode_text(self.tokenizer([PREFIX + text for text in references])))
            return float(formula(caption @ image.T, (caption @ others.T).max()))

    def score_all(self, rows: ScoredPhotos) -> np.ndarray:
        """Scores of all rows from bare encoding of the distinct images and texts."""
        paths, texts = rows.distinct_images(), rows.distinct_texts()
        with torch.inference_mode():
            images, embedded = self.encode_images(paths), self.encode_texts(texts)
        image_at, text_at = ({name: i for i, name in enumerate(names)} for names in (paths, texts))
        scores = []
        for candidate, path, references in zip(rows.candidates, rows.images, rows.references, strict=True):
            caption = embedded[text_at[candidate]]
            others = embedded[[text_at[text] for text in references]]
            scores.append(float(formula(images[image_at[path]] @ caption, (others @ caption).max())))
        return np.array(scores)

    def encode_all(self, rows: ScoredPhotos) -> None:
        """The part of `score_all` that is timed: encoding alone."""
        with torch.inference_mode():
            self.encode_images(rows.distinct_images())
            self.encode_texts(rows.distinct_texts())


def unit(rows: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(rows, dim=-1)


def formula(image_cosine: torch.Tensor, text_cosine: torch.Tensor) -> torch.Tensor:
    a, b = 2.5 * image_cosine.clamp(min=0), text_cosine.clamp(min=0)
    return 2 * a * b / (a + b).clamp(min=1e-12)


def measure(quick: bool) -> list[Figure]:
    """408 rows on 24 images; `quick`: 102 on 6."""
    with tempfile.TemporaryDirectory() as folder:
        rows = flickr8k_expert_rows(write_photos(Path(folder) / "photos", 6 if quick else 24))
        bare = Bare()
        options = BackboneOptions(f"{MODEL}/random", prefix=PREFIX)
        backbone = OpenClipBackbone(bare.model, ClipTokenizer(bare.tokenizer), options, settings=MODEL)
        embedder = Embedder(backbone)
        bare.image_batch, bare.text_batch = embedder.image_batch, embedder.text_batch
        repeats = 2 if quick else 7
        return _against_bare(bare, backbone, rows, repeats) + _from_cache(
            backbone, rows, Path(folder), repeats
        )


def _score(backbone: OpenClipBackbone, rows: ScoredPhotos, cache: EmbeddingCache | None = None) -> np.ndarray:
    embedder = Embedder(backbone, cache=cache, progress=False)  # a new one has nothing in memory
    return RefCLIPScore(embedder).score(rows.candidates, rows.images, rows.references, "en").scores


def _against_bare(bare: Bare, backbone: OpenClipBackbone, rows: ScoredPhotos, repeats: int) -> list[Figure]:
    ours = _score(backbone, rows)  # this and the next line also warm everything up
    apart = [float(np.abs(ours - bare.score_all(rows)).max())]
    sample = cycle(np.linspace(0, len(rows) - 1, LOOPED * repeats).astype(int).tolist())

    def loop() -> None:
        for row in islice(sample, LOOPED):
            score = bare.score_row(rows.candidates[row], rows.images[row], rows.references[row])
            apart.append(abs(score - ours[row]))

    works = {"ours": lambda: _score(backbone, rows), "bare": lambda: bare.encode_all(rows), "loop": loop}
    timed = repeat(works, repeats)
    # Every row of the loop is the same work: one photo of one size, six texts at 77 tokens.
    ours_s, bare_s, loop_s = timed["ours"].best, timed["bare"].best, timed["loop"].best / LOOPED * len(rows)
    disturbed = any(timing.disturbed for timing in timed.values())
    shape = f"{len(rows)} rows ({len(rows.distinct_images())} images, {len(rows.distinct_texts())} texts)"
    return [
        Figure(f"capscore, {shape}", ours_s, "{:.2f} s", **timed["ours"].spread()),
        Figure("bare encoding of the distinct ones", bare_s, "{:.2f} s", **timed["bare"].spread()),
        Figure(
            f"loop over rows ({LOOPED} timed, scaled to all)", loop_s, "{:.1f} s", **timed["loop"].spread()
        ),
        Figure(
            "capscore ÷ bare encoding", ours_s / bare_s, "{:.2f}×", 1.25, at_most=True, disturbed=disturbed
        ),
        Figure("loop over rows ÷ capscore", loop_s / ours_s, "{:,.0f}×", 20, disturbed=disturbed),
        Figure("largest difference between their scores", max(apart), "{:.0e}", 1e-5, at_most=True),
    ]


def _from_cache(backbone: OpenClipBackbone, rows: ScoredPhotos, folder: Path, repeats: int) -> list[Figure]:
    numbers = count()

    def run(name: str) -> None:
        # a new cache each time, as in another process
        _score(backbone, rows, EmbeddingCache(folder / name))

    run("filled")
    timed = repeat({"first": lambda: run(f"empty{next(numbers)}"), "second": lambda: run("filled")}, repeats)
    first, second = timed["first"].best, timed["second"].best
    return [
        Figure("capscore, first run, cache on disk", first, "{:.2f} s", **timed["first"].spread()),
        Figure(
            "capscore, second run, from the cache", second * 1000, "{:.1f} ms", **timed["second"].spread()
        ),
        Figure("first run ÷ second run", first / second, "{:,.0f}×", 50, disturbed=timed["first"].disturbed),
    ]
