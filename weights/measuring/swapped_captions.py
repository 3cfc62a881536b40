"""Captions in the place of right ones → how many are likely wrong by a metric, and how many right ones are.

    python -m weights.measuring.swapped_captions --rows held_out/photos.jsonl

In: a file of `weights.measuring.held_out`. Each of 1,000 captions is one of another photo in the language of
a right one, drawn by a seed; some happen to fit.
"""

from __future__ import annotations

import random
from pathlib import Path

import capscore
from capscore.tables import Table
from weights.making.settings import command

from .figures import FILES, MaybePath, read_rows, write_results

SWAPPED, SEED = 1000, 7
LANGUAGES = ("ar", "de", "en", "fr", "pt", "zh")
METRICS = (["mcs"], ["fit"], ["mcs", "infometic"], ["infometic"])
HEADINGS = ("metric", "found, six languages", "right ones marked", "found, English", "right ones marked")


@command(rows="file of photos, captions and languages", **FILES)
def main(rows: Path, **files: MaybePath) -> None:
    listed = read_rows(rows, "image", "caption", "language")
    right = [row for row in listed if row["language"] in LANGUAGES]
    right.sort(key=lambda row: (row["image"], LANGUAGES.index(row["language"])))
    draws, swapped = random.Random(SEED), []
    for row in draws.choices(right, k=SWAPPED):
        spoken, image = row["language"], row["image"]
        others = [other for other in right if other["language"] == spoken and other["image"] != image]
        swapped.append({**row, "caption": draws.choice(others)["caption"]})
    lines = []
    for metrics in METRICS:
        line = [",".join(metrics)]
        for only in (LANGUAGES, ("en",)):
            parts = [[row for row in part if row["language"] in only] for part in (swapped, right)]
            found = capscore.score_file(parts[0] + parts[1], metrics, backbone="embedded")
            n_swapped = sum(row < len(parts[0]) for row in found.likely_wrong())
            n_right = len(found.likely_wrong()) - n_swapped
            line += [f"{100 * n_swapped / len(parts[0]):.0f} %", f"{100 * n_right / len(parts[1]):.1f} %"]
        lines.append(line)
    write_results(files, lines, [Table(HEADINGS, lines)])


if __name__ == "__main__":
    main()
