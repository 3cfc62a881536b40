"""Tiny official files that the eye is trained with, and drawn photos; captions and numbers are invented."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from tests.datasets_scripts.official import capeval1k, composite, pascal50s, thumb, valse, vicr, xvnli

from ..test_captions import SAYS, text_row, write_flickr8k, write_lines, write_multi30k, write_xflickrco

# of Flickr8k's training split and Multi30k, of the training split alone, of no split, and held out ones
FLICKR8K = ("111_aa.jpg", "700_bb.jpg", "222_ii.jpg", "701_dd.jpg", "710_hh.jpg", "703_ff.jpg")
# 99 is known to be of train2014, 130 of val2014, 140 of neither; 56 is in a test set
COCO = (
    "coco128/train2017/000000000099.jpg",
    "coco128/train2017/000000000130.jpg",
    "coco128/train2017/000000000140.jpg",
    "coco_train2014/COCO_train2014_000000000056.jpg",
    "coco_train2014/COCO_train2014_000000000098.jpg",
    "coco_train2014/COCO_train2014_000000000099.jpg",
    "coco_val2014/COCO_val2014_000000000130.jpg",
)
TEXTS = {
    "zh": [
        ("flickr8k-cn", "700_bb.jpg#zhc#0"),
        ("flickr8k-cn", "701_dd.jpg#zhc#0"),
        ("coco-cn-extension", "COCO_train2014_000000000099#0"),
        ("coco-cn-extension", "COCO_val2014_000000000077#0"),
    ],
    "ar": [("arabic-flickr8k", "111_aa.jpg#0"), ("arabic-flickr8k", "703_ff.jpg#1")],
    "ja": [("jsts", "99-5"), ("jsts", "98-7"), ("jsts", "77-6")],
}


def write_data(folder: Path) -> Path:
    """The folder of official files; returns it."""
    write_multi30k(folder / "multi30k")
    write_flickr8k(folder / "flickr8k")
    write_lines(folder / "flickr8k" / "Flickr_8k.devImages.txt", ["710_hh.jpg"])
    write_xflickrco(folder / "xflickrco")
    for benchmark in (capeval1k, composite, pascal50s, thumb, valse, vicr, xvnli):
        own = folder / benchmark.__name__.rpartition(".")[2]
        own.mkdir()
        benchmark.write(own)
    return folder


def write_texts(folder: Path) -> Path:
    """The folder of `weights.making.package_texts`; returns it."""
    says = {**SAYS, "ar": "كلب ينام بجانب اللافتة {}"}
    for language, keys in TEXTS.items():
        rows = [text_row(source, key, language, says[language].format(f"{key}!")) for source, key in keys]
        write_lines(folder / f"{language}.jsonl", rows)
    return folder


def draw_photo(path: Path, seed: int, size: tuple[int, int] = (40, 30)) -> None:
    """A photo of some coloured shapes on a gradient."""
    chance = np.random.default_rng(seed)
    across = np.linspace(0, 255, size[0], dtype=np.uint8)
    image = Image.fromarray(np.broadcast_to(across[None, :, None], (size[1], size[0], 3)).copy())
    draw = ImageDraw.Draw(image)
    for _ in range(4):
        x, y = chance.integers(0, size[0] - 8), chance.integers(0, size[1] - 8)
        draw.rectangle((x, y, x + 7, y + 7), fill=tuple(int(c) for c in chance.integers(0, 256, 3)))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, quality=95)


def write_photos(folder: Path) -> Path:
    """The folder of photos; returns it."""
    for seed, name in enumerate((*(f"flickr8k/{name}" for name in FLICKR8K), *COCO)):
        draw_photo(folder / name, seed)
    return folder


def write_coco_rows(path: Path, photos: list[object], language: str = "en") -> Path:
    """JSONL rows of captions of COCO's photos; returns the file."""
    rows = [
        {"photo": photo, "caption": f"A dog beside sign {photo}.", "language": language} for photo in photos
    ]
    write_lines(path, map(json.dumps, rows))
    return path
