"""Captioners in a published order, as rows to compare them on.

    python -m weights.measuring.captioners --captions awesome-captioning-evaluation/test_captions \
        --photos val2014 --rows rows

In: the captions of four captioners and of people on Karpathy's test photos of COCO, as Sarto et al. (2025)
released them, and those of the photos that are available. Out: a file of rows per captioner, in which each
caption of people is scored beside the other four, for `capscore compare --published coco_captions`.
"""

from __future__ import annotations

import json
from collections import ChainMap
from pathlib import Path
from typing import Any

from capscore.files.photo_names import KnownNames
from weights.making.jsonl import write_lines
from weights.making.settings import command

# system, as it is published → its file
SYSTEMS = {
    "M2 Transformer": "m2_transformer.json",
    "BLIP-2": "blip2_results_xe.json",
    "LLaVA-1.5 brief": "llava-1.5-7b_briefly.json",
    "LLaVA-1.5": "llava-1.5-7b_default.json",
}
PEOPLE = "Humans"
N_REFERENCES = 5


def read_captions(path: Path) -> dict[str, Any]:
    """Photo's number → caption or captions; some files are lists of such dicts of one entry."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return dict(ChainMap(*found)) if isinstance(found, list) else found


@command(
    captions="folder of the released captions",
    photos="folder of photos of COCO val2014",
    rows="folder for a file of rows per captioner",
)
def main(captions: Path, photos: Path, rows: Path) -> None:
    references = read_captions(captions / "reference_captions.json")
    files = {path.stem: path for path in sorted(photos.iterdir())}
    known = KnownNames([*references]).match([*files]).matches
    systems = {name: read_captions(captions / file) for name, file in SYSTEMS.items()}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in (*systems, PEOPLE)}
    for stem, number in sorted(known.items()):
        listed = [text.strip() for text in references[number][:N_REFERENCES]]
        # each person's caption is scored beside the four others
        for at, of_person in enumerate(listed):
            shared = {"id": f"{number}-{at}", "image": str(files[stem].absolute())}
            others = [*listed[:at], *listed[at + 1 :]]
            for name, captioned in found.items():
                caption = of_person if name == PEOPLE else systems[name][number].strip()
                captioned.append({**shared, "caption": caption, "references": others})
    for name, captioned in found.items():
        write_lines(rows / f"{name}.jsonl", captioned)
        print(f"{rows / name}.jsonl: {len(captioned):,} captions")


if __name__ == "__main__":
    main()
