"""Tux Paint's stamps → photos on a plain ground, and their captions in fifteen languages, for the recipe.

    apt-get download tuxpaint-stamps-default && dpkg -x tuxpaint-stamps-default_*.deb tuxpaint
    python -m weights.making.image_tower.stamps --stamps tuxpaint/usr/share/tuxpaint/stamps --photos PHOTOS \
        --out stamps.jsonl

In: the folder of the stamps, cut-out photos with a text file beside each. Out: one JPEG per stamp in
PHOTOS/tuxpaint, and JSONL rows of file, caption and language for the recipe's setting `labelled`, with their
source for the card in `….sources.json`. Drawings are left out: they have few colours.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from capscore.errors import CapscoreError, InputError
from capscore.files.whole_file import write_text
from training.data.origin import SOURCES

FOLDER = "tuxpaint"
# Names of the languages in the stamps' files, in the order in which a language with two names is looked up.
_LANGUAGES = frozenset("ar cs de es fr it ja ko nl pl pt pt_BR ru tr zh_CN zh_TW".split())
_LINE = re.compile(r"([A-Za-z_@]+)\.utf8=(.*)")
# Below this a stamp is too small to show anything.
_LEAST_SIDE = 100
# Colours, in 32 steps per channel, that a cut-out of 128 pixels has at least if it is a photo.
_LEAST_COLOURS = 250
_SIDE = 384
_LONGEST_CAPTION = 120
_GREYS = (255, 255, 255, 235, 200, 128)


def captions_of(text: str) -> dict[str, str]:
    """Text file of a stamp → language and caption; empty if it has no English one.

    >>> captions_of("A frog.\\nde.utf8=Ein Frosch.\\nzh_TW.utf8=青蛙。\\nhe.utf8=צפרדע")
    {'en': 'A frog.', 'de': 'Ein Frosch.', 'zh': '青蛙。'}
    """
    first, *rest = text.splitlines() or [""]
    if not first.strip():
        return {}
    found = {"en": first.strip()}
    for line in rest:
        match = _LINE.match(line)
        if match and match[1] in _LANGUAGES and (caption := match[2].strip()):
            # some Arabic captions have their full stop at the wrong end
            found.setdefault(match[1].partition("_")[0], caption.lstrip(".") if match[1] == "ar" else caption)
    return {language: caption for language, caption in found.items() if len(caption) <= _LONGEST_CAPTION}


def is_photo(cut_out: Image.Image) -> bool:
    """Whether an RGBA picture is large enough, and has as many colours as photos have."""
    if min(cut_out.size) < _LEAST_SIDE:
        return False
    small = cut_out.copy()
    small.thumbnail((128, 128))
    pixels = np.asarray(small).reshape(-1, 4)
    return len(np.unique(pixels[pixels[:, 3] > 128, :3] >> 3, axis=0)) >= _LEAST_COLOURS


def on_ground(cut_out: Image.Image, grey: int) -> Image.Image:
    """An RGBA picture in the middle of a grey square, at most 384 pixels a side."""
    side = max(cut_out.size)
    ground = Image.new("RGB", (side + side // 10,) * 2, (grey,) * 3)
    place = (ground.width - cut_out.width) // 2, (ground.height - cut_out.height) // 2
    ground.paste(cut_out, place, cut_out)
    ground.thumbnail((_SIDE, _SIDE))
    return ground


def stamps(folder: Path) -> Iterator[tuple[str, Image.Image, dict[str, str]]]:
    """(file name, picture, captions) of the stamps that are photos, in the order of their paths.

    Raises:
        InputError: the folder has no stamp, or a picture is damaged; names it.
    """
    paths = sorted(folder.rglob("*.png"))
    if not paths:
        raise InputError(
            f"{folder} has no PNG files: expected the folder of Tux Paint's stamps", field="stamps"
        )
    chance = random.Random(0)
    for path in paths:
        parts = path.relative_to(folder).parts
        text = path.with_suffix(".txt")
        if parts[0] == "symbols" or "cartoon" in parts or not text.exists():
            continue
        try:
            with Image.open(path) as opened:
                cut_out = opened.convert("RGBA")
        except (OSError, UnidentifiedImageError) as error:
            raise InputError(f"{path} is no picture that can be read: {error}", field="stamps") from None
        if not is_photo(cut_out):
            continue
        ground = on_ground(cut_out, chance.choice(_GREYS))
        captions = captions_of(text.read_text(encoding="utf-8", errors="replace"))
        if captions:
            yield "-".join(parts)[: -len(".png")] + ".jpg", ground, captions


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stamps", type=Path, required=True, help="folder of the stamps")
    parser.add_argument("--photos", type=Path, required=True, help="folder of the photos")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file to write")
    options = parser.parse_args(argv)
    lines, photos = [], 0
    try:
        for name, picture, captions in stamps(options.stamps):
            (options.photos / FOLDER).mkdir(parents=True, exist_ok=True)
            picture.save(options.photos / FOLDER / name, quality=92)
            photos += 1
            for language, caption in captions.items():
                row = {"file": f"{FOLDER}/{name}", "caption": caption, "language": language}
                lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        source = {
            "name": "Tux Paint stamps 2022.06.04",
            "license": "GPL-2.0-or-later",
            "rows": photos,
            "url": "https://tuxpaint.org/stamps/",
        }
        beside = {"held_out": "", "sources": [source]}
        write_text(
            Path(f"{options.out}{SOURCES}"), json.dumps(beside, indent=2) + "\n", "source of the stamps"
        )
        write_text(options.out, "".join(lines), "captions of the stamps")
    except CapscoreError as error:
        parser.error(str(error))
    print(f"{photos:,} photos with {len(lines):,} captions in {options.out}")


if __name__ == "__main__":
    main()
