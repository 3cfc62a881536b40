"""InfoMetIC beside MCS on the same rows: time, and the memory of few photos beside that of many.

In: made-up photos with 17 captions each, the embedded backbone, nothing cached. Out: seconds and their ratio;
the peak memory of `capscore score` in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import capscore
from capscore import load_backbone
from capscore.backbones.base import Backbone

from .data import captions, write_photos
from .figures import Figure, peak_memory, seconds

ROOT = Path(__file__).resolve().parents[1]
CAPTIONS = 17  # as many rows as a photo of Flickr8k-Expert has
EACH = 2  # of the photos whose memory is measured
# the longest captions that are judged have 5,000 characters
LONG = {
    "one word of 5,000 letters": "a" * 5_000,
    "1,000 nouns": "dogs " * 1_000,
    "2,500 words of a letter": "a " * 2_500,
    "5,000 dots": "." * 5_000,
}


def measure(quick: bool) -> list[Figure]:
    """1,000 photos for time, 1,536 and 3,072 for memory; `quick`: 24, 12 and 24, which say little."""
    count, few, many = (24, 12, 24) if quick else (1_000, 1_536, 3_072)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder) / "photos", many, distinct=min(count, 100))
        texts = _captions(CAPTIONS * count)
        images = [path for path in paths[:count] for _ in range(CAPTIONS)]
        backbone = load_backbone("embedded", device="cpu")
        _score("infometic", backbone, texts[:2], images[:2])  # taggers and libraries are loaded now
        mcs, infometic = (
            seconds(lambda name=name: _score(name, backbone, texts, images)) for name in ("mcs", "infometic")
        )
        long = [_one_long(backbone, what, text, paths[0]) for what, text in LONG.items()]
        low, high = (_peak(Path(folder), paths[:number], texts) for number in (few, many))
    rows = f"{count:,} photos with {CAPTIONS} captions each"
    return [
        Figure(f"{rows}, MCS", mcs, "{:.1f} s"),
        Figure("  InfoMetIC, with its words and regions", infometic, "{:.1f} s"),
        Figure("  InfoMetIC ÷ MCS", infometic / mcs, "{:.2f}×", 4.0, at_most=True),
        Figure(f"capscore score, InfoMetIC: {few:,} photos, {EACH} captions each", low, "{:,.0f} MB"),
        Figure(f"  {many:,} photos", high, "{:,.0f} MB"),
        Figure("  difference", high - low, "{:,.0f} MB", None if quick else 150, at_most=True),
        *long,
    ]


def _captions(count: int) -> list[str]:
    """Distinct captions: those of the grammar, and longer ones."""
    drawn = captions(-(-count // 2))
    return [text for one in drawn for text in (one, f"{one} near a parked car")][:count]


def _score(name: str, backbone: Backbone, texts: list[str], images: list[str]) -> None:
    scorer = capscore.load(name, backbone=backbone, cache=False, progress=False)
    scored = scorer.score(texts, images, language="en").n_items
    if scored != len(texts):
        raise RuntimeError(f"{scored} rows were scored, expected {len(texts)}")


def _one_long(backbone: Backbone, what: str, text: str, image: str) -> Figure:
    """Seconds for a row whose caption is long, by a scorer that has scored before."""
    scorer = capscore.load("infometic", backbone=backbone, cache=False, progress=False)
    scorer.score(["a dog"], [image], language="en")
    took = seconds(lambda: scorer.score([text], [image], language="en"))
    return Figure(f"one caption: {what}", took, "{:.2f} s", 1.0, at_most=True)


def _peak(folder: Path, paths: list[str], texts: list[str]) -> float:
    file = folder / f"{len(paths)}.jsonl"
    with file.open("w") as lines:
        for number, text in enumerate(texts[: EACH * len(paths)]):
            row = {"image": paths[number // EACH], "caption": text}
            lines.write(json.dumps(row) + "\n")
    out = folder / f"scored-{len(paths)}.jsonl"
    options = "--metric infometic --backbone embedded --language en --no-cache --quiet".split()
    code = (
        "import atexit, runpy; from speed.infometic import _print_peak; "
        "atexit.register(_print_peak); runpy.run_module('capscore', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, "score", str(file), *options, "--output", str(out)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def _print_peak() -> None:
    print(peak_memory())
