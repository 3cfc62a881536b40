"""Peak memory of 10,000 image paths beside that of 1,000, and of four photos of the largest size beside one.

In: JPEG files of photo size, PNG files of the largest allowed size, and a tower too small to matter; each
number of images in a process of its own. Out: peak resident memory, the difference, the ratio.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from .data import captions, write_photos
from .figures import Figure, peak_memory

ROOT = Path(__file__).resolve().parents[1]
FEW, MANY, BATCH = 1_000, 10_000, 256
DOORS = {
    "score": "one scorer.score",
    "add_batch": f"module, add_batch of {BATCH}",
}


def measure(quick: bool) -> list[Figure]:
    """`quick` compares 500 with 100, which says little; it only shows that the benchmark runs."""
    few, many = (100, 500) if quick else (FEW, MANY)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        write_photos(Path(folder) / "photos", many, distinct=8, quality=50)  # 0.2 GB of disk
        for door, label in DOORS.items():
            low, high = (_peak(door, Path(folder), count) for count in (few, many))
            figures += [
                Figure(f"{label}: {few:,} images", low, "{:,.0f} MB"),
                Figure(f"  {many:,} images", high, "{:,.0f} MB"),
                Figure("  difference", high - low, "{:,.0f} MB", 150, at_most=True),
            ]
        _write_largest(Path(folder) / "largest", 1000 if quick else 9459)
        one, four = (_peak("largest", Path(folder), count) for count in (1, 4))
        figures += [
            Figure("photos of the largest size: one costs", one, "{:,.0f} MB"),
            Figure("  four cost", four, "{:,.0f} MB"),
            Figure("  ratio", four / one, "{:.2f}×", None if quick else 1.25, at_most=True),
        ]
    return figures


def _write_largest(folder: Path, side: int) -> None:
    """Four photos with transparency, the most that a pixel can cost."""
    from PIL import Image

    folder.mkdir()
    for number in range(4):
        colour = (number, 100, 200, 128)
        Image.new("RGBA", (side, side), colour).save(folder / f"{number}.png", compress_level=1)


def _peak(door: str, folder: Path, count: int) -> float:
    command = [sys.executable, "-m", "speed.memory", door, str(folder), str(count)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def _small_backbone():
    """CLIP with photos of 224 × 224 and rows of 512 as ViT-B/32 has, and next to nothing in between."""
    import open_clip
    import torch
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    from capscore.backbones.base import BackboneOptions
    from capscore.backbones.open_clip import ClipTokenizer, OpenClipBackbone

    torch.manual_seed(0)
    model = CLIP(
        512,
        CLIPVisionCfg(layers=1, width=64, head_width=32, patch_size=32, image_size=224),
        CLIPTextCfg(layers=1, width=64, heads=2),
    )
    model.visual.preprocess_cfg = {"size": 224}
    tokenizer = ClipTokenizer(open_clip.get_tokenizer("ViT-B-32"))
    return OpenClipBackbone(model, tokenizer, BackboneOptions("small/random"), settings="small")


def _small_photo():
    import numpy as np

    return np.zeros((32, 32, 3), np.uint8)


def _run(door: str, folder: Path, count: int) -> None:
    import capscore

    photos = folder / ("largest" if door == "largest" else "photos")
    paths = sorted(str(path) for path in photos.iterdir())[:count]
    texts = captions(count)
    backbone = _small_backbone()
    with tempfile.TemporaryDirectory() as scratch:
        cache = str(Path(scratch) / "embeddings")
        if door == "largest":
            scorer = capscore.load("clip_score", backbone=backbone, cache=cache)
            scorer.embedder.workers = 8  # as on a larger machine
            scorer.score(["a small photo"], [_small_photo()], language="en")  # libraries are loaded now
            before = peak_memory()
            scored = scorer.score(texts, paths, language="en").n_items
            print(peak_memory() - before)
        elif door == "score":
            scorer = capscore.load("clip_score", backbone=backbone, cache=cache)
            scored = scorer.score(texts, paths, language="en").n_items
        else:
            import evaluate

            module = evaluate.load(
                str(ROOT / "metrics" / "clip_score"),
                backbone=backbone,
                cache=cache,
                cache_dir=str(Path(scratch) / "evaluate"),
            )
            for start in range(0, count, BATCH):
                part = slice(start, start + BATCH)
                module.add_batch(predictions=texts[part], images=paths[part], language="en")
            scored = module.compute()["n_items"]
    if scored != count:
        raise RuntimeError(f"{scored} rows were scored, expected {count}")
    if door != "largest":
        print(peak_memory())


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
