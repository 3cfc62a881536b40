"""The picture at the top of the README: a photo with captions in three languages, scored and marked.

A photo that scikit-image ships (public domain) and captions of capscore/show/examples.json →
docs/scored_photo.jpg: `make picture`, or `python docs/picture.py --output scored_photo.jpg`. MCS scores each
caption, InfoMetIC marks its words; one caption has a planted noun, which should be marked as wrong. Chromium
draws the page.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops

import capscore
from capscore.files.write import whole_file
from capscore.images.load import load_image
from capscore.show.explained import explained_captions, segments
from capscore.show.pages import inline_jpeg, templates_of
from demo import CAPTIONS as CAPTIONS_FILE
from demo import SETTINGS, photo_path

OUTPUT = Path(__file__).with_name("scored_photo.jpg")
PHOTO = "cat"
# Language → a caption with a planted noun; the others are the demo's right ones.
CAPTIONS = {"en": "", "de": "Ein braun getigertes Motorrad mit grünen Augen blickt zur Seite.", "zh": ""}
LANGUAGES = {"en": "English", "de": "German, with a wrong noun", "zh": "Chinese"}
WIDTH = 660  # CSS pixels


def scored_captions(image: Image.Image, captions: dict[str, str]) -> list[dict[str, Any]]:
    """Captions of one photo (language → text), scored by MCS and marked by InfoMetIC."""
    texts, languages, photos = [*captions.values()], [*captions], [image] * len(captions)
    backbone = capscore.load_backbone("embedded")
    marks = capscore.load("infometic", cache=False)
    explained = explained_captions(texts, marks.score(texts, photos, language=languages))
    scores = capscore.load("mcs", backbone=backbone, cache=False).score(texts, photos, language=languages)
    return [
        {
            "language": caption.language,
            "name": LANGUAGES[caption.language],
            "pieces": segments(caption),
            "score": float(score),
            "share": float(score) / backbone.w,
            "rank": round(float(rank)),
        }
        for caption, score, rank in zip(explained, scores.scores, scores.percentiles(), strict=True)
    ]


def page(image: Image.Image, captions: list[dict[str, Any]], foot: str) -> str:
    """The page that is drawn: the photo at the left, the captions with marks and scores at the right."""
    template = templates_of(Path(__file__).with_name("templates")).get_template("picture.html")
    return template.render(title="Scores", photo=inline_jpeg(image, 640)[0], captions=captions, foot=foot)


def screenshot(html: str, width: int = WIDTH) -> Image.Image:
    """A page as Chromium shows it, two pixels for one of CSS, without the empty space below it.

    Raises:
        CapscoreError: Chromium is not installed, or fails.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        raise capscore.CapscoreError("Chromium is not installed: apt install chromium (Debian's package)")
    with tempfile.TemporaryDirectory() as folder:
        source, drawn = Path(folder, "page.html"), Path(folder, "page.png")
        source.write_text(html, encoding="utf-8")
        options = [f"--screenshot={drawn}", f"--window-size={width},2000", "--force-device-scale-factor=2"]
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command = [program, *quiet, f"--user-data-dir={folder}/profile", *options, source.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if not drawn.is_file():
            raise capscore.CapscoreError(f"{program} drew nothing: {done.stderr.strip()[-300:]}")
        picture = Image.open(drawn).convert("RGB")
    ground = Image.new("RGB", picture.size, picture.getpixel((0, picture.height - 1)))
    bottom = (ImageChops.difference(picture, ground).getbbox() or (0, 0, 0, picture.height))[3]
    return picture.crop((0, 0, picture.width, min(picture.height, bottom + 24)))


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
        "Scores: MCS, backbone embedded; ranks in each language. Marks: InfoMetIC; straight line: right, "
        f"wave: wrong. {entry['credit']}."
    )
    picture = screenshot(page(image, scored_captions(image, captions), foot))
    with whole_file(output, "picture", make_folders=True) as file:
        picture.save(file, "JPEG", quality=80, optimize=True, progressive=True)
    print(f"{output}: {picture.width} × {picture.height} pixels, {output.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    try:
        main()
    except capscore.CapscoreError as error:
        raise SystemExit(f"picture: {error}") from None
