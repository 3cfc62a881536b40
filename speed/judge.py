"""The metric judge beside the bare forward passes of its model, and what sharing a photo saves.

In: random models with the proportions of Qwen2.5-VL-3B and SmolVLM2-500M, made-up photos and captions. Out:
seconds of the processor on one core, which other programs hardly change; their ratios; peak memory.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import capscore
from capscore.errors import RowWarning
from tools.tiny.judges import write_model

from .data import captions, write_photos
from .figures import Figure, peak_memory, repeat

warnings.simplefilter("ignore", RowWarning)  # random models do not answer
ROOT = Path(__file__).resolve().parents[1]
BATCH, EACH, CLAIMS = 8, 5, 10
LAYERS = 4


def _like_qwen(config: Any, processor: Any) -> None:
    """An eighth of Qwen2.5-VL-3B's widths; 234 tokens for a photo of 500 × 375."""
    rotary = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64, "rope_parameters": rotary}
    _set(config.text_config, 151_936, 256, 1376, layer_types=["full_attention"] * LAYERS, **heads)
    sizes = {"hidden_size": 160, "intermediate_size": 428, "out_hidden_size": 256, "num_heads": 4}
    vars(config.vision_config).update(sizes, depth=LAYERS, window_size=112, fullatt_block_indexes=[3])
    config.tie_word_embeddings = True
    processor.image_processor.size = {"shortest_edge": 56**2, "longest_edge": 28**2 * 1280}


def _like_smolvlm(config: Any, processor: Any) -> None:
    """A quarter of SmolVLM2-500M's widths; four tiles of 64 tokens for a photo, and 64 for the whole."""
    _set(config.text_config, 49_280, 240, 640, num_attention_heads=4, num_key_value_heads=1, head_dim=60)
    sizes = {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 3}
    vars(config.vision_config).update(sizes, num_hidden_layers=LAYERS, image_size=512, patch_size=16)
    config.scale_factor, processor.image_seq_len = 4, 64
    images = processor.image_processor
    images.size, images.max_image_size = {"longest_edge": 1024}, {"longest_edge": 512}


def _set(config: Any, vocabulary: int, width: int, inner: int, **more: Any) -> None:
    sizes = {"vocab_size": vocabulary, "hidden_size": width, "intermediate_size": inner}
    vars(config).update(sizes, num_hidden_layers=LAYERS, tie_word_embeddings=True, **more)


MODELS: dict[str, Callable[[Any, Any], None]] = {"qwen2_5_vl": _like_qwen, "smolvlm": _like_smolvlm}


def measure(quick: bool) -> list[Figure]:
    """20 rows for time, 8 and 64 for memory; `quick`: 10 rows, one repetition, 8 and 16."""
    count, repeats = (10, 1) if quick else (20, 3)
    torch.set_num_threads(1)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder) / "photos", 64, distinct=8)
        for family, change in MODELS.items():
            model = Path(folder) / family
            model.mkdir()
            write_model(model, family, change=change)
            figures += _times(model, paths[:count], repeats)
            few, many = (_peak(model, paths[:rows]) for rows in (BATCH, 2 * BATCH if quick else 64))
            label = f"  peak memory, {BATCH if quick else 64 - BATCH} rows more than a batch of {BATCH}"
            figures.append(Figure(label, many - few, "{:,.0f} MB"))
    return figures


def _times(model: Path, paths: list[str], repeats: int) -> list[Figure]:
    scorer = capscore.load(
        "judge", backbone=str(model), device="cpu", batch_size=BATCH, cache=False, progress=False
    )
    processor, network = scorer.model.processor, scorer.model.model
    texts = captions(len(paths))

    def batches() -> list[dict[str, torch.Tensor]]:
        question = scorer.reading.question
        return [
            _inputs(processor, question, texts[start : start + BATCH], paths[start : start + BATCH])
            for start in range(0, len(paths), BATCH)
        ]

    prepared = batches()
    tokens = int(sum(batch["attention_mask"].sum() for batch in prepared)) / len(paths)

    def forward() -> None:
        with torch.inference_mode():
            for batch in prepared:
                network(**batch, logits_to_keep=1)

    few = [path for path in paths[: len(paths) // EACH] for _ in range(EACH)]
    fighter, lister = (
        capscore.load(
            "judge", backbone=scorer.model, reading=reading, batch_size=BATCH, cache=False, progress=False
        )
        for reading in ("battle", "statements")
    )
    claims = [f"{text.rstrip('.').capitalize()}." for text in captions(CLAIMS * len(paths))]
    paragraphs = [" ".join(claims[start :: len(paths)]) for start in range(len(paths))]
    works = {
        "score": lambda: scorer.score(texts, paths),
        "forward": forward,
        "prepare": batches,
        "shared": lambda: scorer.score(texts, few),
        "claims": lambda: lister.score(paragraphs, paths),
        "battles": lambda: fighter.score(texts, few, rival=texts[::-1]),
    }
    forward()
    timed = repeat(works, repeats, clock=time.process_time)
    best = {name: timing.best / len(paths) for name, timing in timed.items()}

    def row(label: str, name: str) -> Figure:
        return Figure(label, best[name] * 1000, "{:.0f} ms", **timed[name].spread())

    return [
        row(f"{len(paths)} photos with a caption each, {model.name} of {tokens:.0f} tokens: a row", "score"),
        row("  bare forward passes", "forward"),
        row("  decoding and the processor alone", "prepare"),
        Figure("  judge ÷ bare passes", best["score"] / best["forward"], "{:.2f}×", 1.15, at_most=True),
        Figure(
            "  judge ÷ bare passes and preparation",
            best["score"] / (best["forward"] + best["prepare"]),
            "{:.2f}×",
        ),
        row(f"  {EACH} captions of each photo: a row", "shared"),
        Figure("  ÷ a photo for each", best["shared"] / best["score"], "{:.2f}×", 0.45, at_most=True),
        Figure(f"  {CLAIMS} claims ÷ a row", best["claims"] / best["score"], "{:.2f}×", 2.5, at_most=True),
        Figure("  a battle, in both orders ÷ a row", best["battles"] / best["score"], "{:.2f}×"),
        _formula(network, prepared[0], tokens, best["forward"]),
    ]


def _formula(network: Any, batch: Any, tokens: float, took: float) -> Figure:
    """Seconds of 2 × parameters × places at the speed of a large matrix product, beside those measured.

    The image encoder reads patches, the rest tokens, and the vocabulary one place.
    """
    square = torch.randn(1024, 1024)
    product = repeat({"product": lambda: [square @ square for _ in range(20)]}, 3, clock=time.process_time)
    speed = 20 * 2 * 1024**3 / product["product"].best
    vision = network.config.vision_config
    patch = 3 * vision.patch_size**2 * getattr(vision, "temporal_patch_size", 1)
    patches = batch["pixel_values"].numel() / patch / len(batch["input_ids"])
    operations = 0.0
    for name, weight in network.named_parameters():
        if "embed_tokens" not in name and "lm_head" not in name:
            operations += 2 * weight.numel() * (patches if "vis" in name else tokens)
    label = f"  bare passes ÷ ({operations / 1e9:.0f} GFLOP ÷ {speed / 1e9:.0f} GFLOP/s)"
    return Figure(label, took * speed / operations, "{:.1f}×")


def _inputs(processor: Any, question: str, texts: list[str], paths: list[str]) -> dict[str, torch.Tensor]:
    """What the library's own processor makes of a batch, padded on the left."""
    messages = []
    for text, path in zip(texts, paths, strict=True):
        with Image.open(path) as file:
            image = {"type": "image", "image": file.convert("RGB")}
        asked = {"type": "text", "text": question.replace("{caption}", text)}
        messages.append([{"role": "user", "content": [image, asked]}])
    options = {"padding": True, "padding_side": "left"}
    return processor.apply_chat_template(
        messages,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs=options,
    )


def _peak(model: Path, paths: list[str]) -> float:
    command = [sys.executable, "-m", "speed.judge", str(model), *paths]
    return float(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)


if __name__ == "__main__":
    own = capscore.load("judge", backbone=sys.argv[1], device="cpu", batch_size=BATCH, cache=False)
    own.score(captions(len(sys.argv) - 2), sys.argv[2:])
    print(peak_memory())
