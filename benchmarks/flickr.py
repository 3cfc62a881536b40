"""RefCLIPScore of rows shaped like Flickr8k-Expert on ViT-B/32, beside a loop over rows and bare encoding.

In: random weights and made-up data. Out: ratios of wall-clock times, and how far the three scores differ.
"""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import open_clip
import torch
from PIL import Image

from capscore.backbones.open_clip import OpenClipBackbone
from capscore.cache import EmbeddingCache
from capscore.embedding import Embedder
from capscore.scorers.ref_clip_score import RefCLIPScore

from .data import Rows, flickr8k_expert_rows, write_photos
from .figures import Figure, noise, seconds

MODEL = "ViT-B-32"
PREFIX = "A photo depicts "
IMAGE_BATCH, TEXT_BATCH = 32, 64  # capscore's own on a CPU, for the bare encoding too


class Bare:
    """The model with nothing around it: what there is to gain on, and how a plain script scores."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        logging.getLogger().setLevel(logging.ERROR)  # open_clip warns of random weights; they are meant
        self.model, _, self.transform = open_clip.create_model_and_transforms(MODEL, pretrained=None)
        self.model.eval()
        self.tokenizer = open_clip.get_tokenizer(MODEL)

    def pixels(self, paths: list[str]) -> torch.Tensor:
        """Decoded and preprocessed one after the other, in one thread."""
        return torch.stack([self.transform(Image.open(path).convert("RGB")) for path in paths])

    def encode_images(self, paths: list[str]) -> torch.Tensor:
        """Batches as they come: decode, preprocess, encode."""
        batches = [paths[start : start + IMAGE_BATCH] for start in range(0, len(paths), IMAGE_BATCH)]
        return unit(torch.cat([self.model.encode_image(self.pixels(batch)) for batch in batches]))

    def encode_texts(self, texts: list[str]) -> torch.Tensor:
        """Tokenised at once, sorted by length, in batches cut to the longest text of each."""
        ids = self.tokenizer([PREFIX + text for text in texts])
        lengths = ids.argmax(dim=1) + 1  # the end of text has the highest id
        order = lengths.argsort()
        out = torch.empty(len(texts), 512)
        for start in range(0, len(texts), TEXT_BATCH):
            rows = order[start : start + TEXT_BATCH]
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

    def score_all(self, rows: Rows) -> np.ndarray:
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

    def encode_all(self, rows: Rows) -> None:
        """What `score_all` is timed for: the encoding alone."""
        with torch.inference_mode():
            self.encode_images(rows.distinct_images())
            self.encode_texts(rows.distinct_texts())


def unit(rows: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(rows, dim=-1)


def formula(image_cosine: torch.Tensor, text_cosine: torch.Tensor) -> torch.Tensor:
    a, b = 2.5 * image_cosine.clamp(min=0), text_cosine.clamp(min=0)
    return 2 * a * b / (a + b).clamp(min=1e-12)


def measure(quick: bool) -> list[Figure]:
    """About 430 rows on 24 images; `quick`: about 100 on 6."""
    with tempfile.TemporaryDirectory() as folder:
        rows = flickr8k_expert_rows(write_photos(Path(folder) / "photos", 6 if quick else 24))
        bare = Bare()
        backbone = OpenClipBackbone.from_model(
            bare.model, bare.tokenizer, bare.transform, name=f"{MODEL}/random", prefix=PREFIX, device="cpu"
        )
        return _against_bare(bare, backbone, rows, quick) + _from_cache(backbone, rows, Path(folder), quick)


def _score(backbone: OpenClipBackbone, rows: Rows, cache: EmbeddingCache | None = None) -> np.ndarray:
    embedder = Embedder(backbone, cache=cache, progress=False)  # a new one has nothing in memory
    return RefCLIPScore(embedder).score(rows.candidates, rows.images, rows.references, "en").scores


def _against_bare(bare: Bare, backbone: OpenClipBackbone, rows: Rows, quick: bool) -> list[Figure]:
    ours, expected = _score(backbone, rows), bare.score_all(rows)  # also warms everything up
    sample = [int(row) for row in np.linspace(0, len(rows) - 1, 4 if quick else 24)]
    repeats = 3 if quick else 8
    timed: dict[str, list[float]] = {"ours": [], "bare": [], "loop": []}
    busy: dict[str, list[float]] = {"ours": [], "bare": []}
    apart = float(np.abs(ours - expected).max())
    # In turn, so that whatever else the machine does falls on all three.
    for repeat in range(repeats):
        for name, work in (("ours", lambda: _score(backbone, rows)), ("bare", lambda: bare.encode_all(rows))):
            start = time.process_time()
            timed[name].append(seconds(work))
            busy[name].append(time.process_time() - start)
        for row in sample[repeat::repeats]:
            start = time.perf_counter()
            score = bare.score_row(rows.candidates[row], rows.images[row], rows.references[row])
            timed["loop"].append(time.perf_counter() - start)
            apart = max(apart, abs(score - ours[row]))
    ours_s, bare_s = min(timed["ours"]), min(timed["bare"])
    # Every row of the loop is the same work: one photo of one size, six texts at 77 tokens. Its best stands
    # for all, as the best run does for the others: a busy machine must not make the loop look worse.
    loop_s = min(timed["loop"]) * len(rows)
    n_images, n_texts = len(rows.distinct_images()), len(rows.distinct_texts())
    return [
        Figure(
            f"capscore, {len(rows)} rows ({n_images} images, {n_texts} texts)",
            ours_s, "{:.2f} s", noise=noise(timed["ours"]),
        ),
        Figure(
            "bare encoding of the distinct ones, tight padding",
            bare_s, "{:.2f} s", noise=noise(timed["bare"]),
        ),
        Figure(
            f"loop over rows ({len(timed['loop'])} timed, scaled to all)",
            loop_s, "{:.1f} s", noise=noise(timed["loop"]),
        ),
        Figure("capscore ÷ bare encoding", ours_s / bare_s, "{:.2f}×", 1.25, at_most=True),
        Figure("  the same in processor time", min(busy["ours"]) / min(busy["bare"]), "{:.2f}×"),
        Figure("loop over rows ÷ capscore", loop_s / ours_s, "{:.0f}×", 20),
        Figure("largest difference between their scores", apart, "{:.0e}", 1e-5, at_most=True),
    ]  # fmt: skip


def _from_cache(backbone: OpenClipBackbone, rows: Rows, folder: Path, quick: bool) -> list[Figure]:
    first, second = [], []
    for repeat in range(2 if quick else 4):
        place = folder / f"cache{repeat}"
        with EmbeddingCache(place) as cache:
            first.append(seconds(lambda: _score(backbone, rows, cache)))
        for _ in range(3):
            with EmbeddingCache(place) as cache:  # a new one, as in another process
                second.append(seconds(lambda: _score(backbone, rows, cache)))
    return [
        Figure("capscore, first run, cache on disk", min(first), "{:.2f} s", noise=noise(first)),
        Figure("capscore, second run, from the cache", min(second) * 1000, "{:.0f} ms", noise=noise(second)),
        Figure("first run ÷ second run", min(first) / min(second), "{:.0f}×", 50),
    ]
