"""Files to fine-tune on ratings with: ten pictures, captions in three languages, ratings in two."""

from pathlib import Path

import numpy as np
from PIL import Image

from tools.tiny.official import write_jsonl

LANGUAGES = ("de", "en", "ru")


def write_rated(folder: Path) -> tuple[Path, Path]:
    """Captions for the contrast (30) and rated ones (40, two people each), beside their pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    shown, rated = [], []
    for number in range(10):
        rough = Image.fromarray(chance.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        rough.resize((40, 36)).save(folder / f"{number}.png")
        image = {"image": f"{number}.png"}
        shown += [{**image, "caption": f"{code} cat {number}", "language": code} for code in LANGUAGES]
        for place in range(4):
            caption = {"caption": f"the dog {number} on beach {place}", "language": ("de", "en")[place % 2]}
            rated.append({**image, **caption, "rating": [place + 1, (number + place) % 4 + 1]})
    return write_jsonl(folder / "shown.jsonl", shown), write_jsonl(folder / "rated.jsonl", rated)
