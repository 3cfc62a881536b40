"""The picture at the top of the README: a photo with captions in three languages, scored and marked.

A photo that scikit-image ships (public domain) and captions of demo_captions.json → docs/scored_photo.jpg:
`make picture`, or `python docs/picture.py --output scored_photo.jpg`. MCS scores each caption, InfoMetIC
marks its words; one caption has a planted noun, which should be marked as wrong.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

import capscore
from capscore.files.whole_file import whole_file
from capscore.images.load import load_image
from capscore.show.canvas import Canvas
from capscore.show.explained import ExplainedCaption, explained_captions
from capscore.show.fonts import find_fonts
from capscore.show.marked_words import INK, SOFT, draw_words
from demo import CAPTIONS as CAPTIONS_FILE
from demo import SETTINGS, photo_path

OUTPUT = Path(__file__).with_name("scored_photo.jpg")
PHOTO = "cat"
# Language → a caption with a planted noun; the others are the demo's right ones.
CAPTIONS = {"en": "", "de": "Ein braun getigertes Motorrad mit grünen Augen blickt zur Seite.", "zh": ""}
LANGUAGES = {"en": "English", "de": "German, with a wrong noun", "zh": "Chinese"}
# lengths in points
_WIDTH, _MARGIN, _PHOTO, _GAP = 660.0, 14.0, 250.0, 20.0
_LEFT = _MARGIN + _PHOTO + _GAP
_COLUMN = _WIDTH - _MARGIN - _LEFT
_TRACK = "#e4e3df"


@dataclass(frozen=True)
class ScoredCaption:
    """A caption with its marks, its score, the percentage of right captions that score lower, and the
    highest possible score."""

    language: str
    explained: ExplainedCaption
    mcs: float
    rank: float
    w: float


def scored_captions(image: Image.Image, captions: dict[str, str]) -> list[ScoredCaption]:
    """Captions of one photo (language → text), scored by MCS and marked by InfoMetIC."""
    texts, languages, photos = [*captions.values()], [*captions], [image] * len(captions)
    backbone = capscore.load_backbone("embedded")
    marks = capscore.load("infometic", cache=False)
    explained = explained_captions(texts, marks.score(texts, photos, language=languages))
    scores = capscore.load("mcs", backbone=backbone, cache=False).score(texts, photos, language=languages)
    return [
        ScoredCaption(language, marked, float(score), float(rank), backbone.w)
        for language, marked, score, rank in zip(
            languages, explained, scores.scores, scores.percentiles(), strict=True
        )
    ]


def draw_scored(image: Image.Image, captions: list[ScoredCaption], foot: str) -> Image.Image:
    """The picture: the photo at the left, the captions with their marks and scores at the right."""
    fonts = find_fonts([(one.explained.text, one.language) for one in captions] + [(foot, "")])
    canvas = Canvas(fonts, _WIDTH)
    height = _PHOTO * image.height / image.width
    canvas.photo(image, (_MARGIN, _MARGIN, _MARGIN + _PHOTO, _MARGIN + height))
    y = _MARGIN - 2
    for one in captions:
        canvas.text(_LEFT, y + 8, LANGUAGES[one.language], 8.0, SOFT)
        y = draw_words(canvas, one.explained, _LEFT, y + 13, _COLUMN)
        canvas.text(_LEFT, y + 8, "MCS", 9.0, SOFT)
        bar = _LEFT + 28, _WIDTH - _MARGIN - 34
        canvas.line(*bar, y + 5, _TRACK, 7)
        canvas.line(bar[0], bar[0] + (bar[1] - bar[0]) * one.mcs / one.w, y + 5, INK, 7)
        canvas.text(bar[1] + 8, y + 9, f"{one.mcs:.2f}", 10.0, INK, bold=True)
        rank = f"better than {one.rank:.0f} % of right captions"
        canvas.text(bar[0], y + 19, rank, 7.5, SOFT)
        y += 34
    bottom = max(y, _MARGIN + height + 8)
    canvas.text(_MARGIN, bottom + 8, foot, 7.0, SOFT)
    return canvas.image(bottom + 8 + _MARGIN)


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="JPEG file to write")
    output = parser.parse_args().output
    entry = json.loads(CAPTIONS_FILE.read_text(encoding="utf-8"))[PHOTO]
    captions = {
        language: planted or entry["captions"][language]["right"] for language, planted in CAPTIONS.items()
    }
    image = load_image(photo_path(entry["file"]))
    foot = (
        "Scores: MCS, backbone embedded; ranks in each language. Marks: InfoMetIC; "
        "straight line: right, wave: wrong. "
        f"{entry['credit']}."
    )
    picture = draw_scored(image, scored_captions(image, captions), foot)
    with whole_file(output, "picture", make_folders=True) as file:
        picture.save(file, "JPEG", quality=80, optimize=True, progressive=True)
    print(f"{output}: {picture.width} × {picture.height} pixels, {output.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    main()
