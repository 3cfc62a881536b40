"""The things that people marked in COCO's photos → captions such as "a dog, a frisbee and a person".

    python -m weights.making.image_tower.marked_objects --labels instances_train2014.json --data DATA \
        --out objects.jsonl

In: COCO's official annotations of instances. Out: JSONL rows of photo, caption and language for the recipe's
setting `coco`, two per photo, with its things in two orders, and their source for the card in
`objects.jsonl.sources.json`; photos that are held out, by the official files in DATA, are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capscore.benchmarks.data.annotation_files import AnnotationSource
from training.engine.config import main as run_as_command
from weights.making.held_out import Photo, held_out_photos
from weights.making.jsonl import write_lines, write_sources


def things_of(path: Path) -> dict[int, list[str]]:
    """Number of each COCO photo → the names of its things, each once, in alphabetical order.

    AnnotationError names an entry that is damaged.
    """
    document = AnnotationSource(path).json()
    names = {entry.integer("id"): entry.identifier("name") for entry in document.rows("categories")}
    found: dict[int, set[str]] = {}
    for entry in document.rows("annotations"):
        category = entry.integer("category_id")
        if category not in names:
            raise entry.wrong("category_id", "the id of one of its categories")
        found.setdefault(entry.integer("image_id"), set()).add(names[category])
    return {number: sorted(own) for number, own in sorted(found.items())}


def described(names: Sequence[str]) -> str:
    """Names of things → a noun phrase.

    >>> described(["dog", "umbrella", "person"])
    'a dog, an umbrella and a person'
    """
    phrases = [f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}" for name in names]
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def captions(things: dict[int, list[str]], *, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Two rows per photo, with its things in two random orders, one as a phrase and one as a sentence."""
    for number, names in things.items():
        chance = np.random.default_rng([seed, number])
        phrase, sentence = (
            described([names[place] for place in chance.permutation(len(names))]) for _ in range(2)
        )
        for text in (phrase, f"{sentence[0].upper()}{sentence[1:]}."):
            yield {"photo": number, "caption": text, "language": "en"}


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--labels", type=Path, required=True, help="COCO's annotations of instances")
    parser.add_argument("--data", type=Path, required=True, help="folder of the official files")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file to write")
    options = parser.parse_args(argv)
    held = held_out_photos(options.data).sets
    things = things_of(options.labels)
    rows = list(captions({n: own for n, own in things.items() if Photo("coco", n) not in held}))
    source = {"name": "COCO, annotated things", "license": "CC BY 4.0", "url": "https://cocodataset.org"}
    write_sources(options.out, [{**source, "rows": len(rows)}])
    write_lines(options.out, rows)
    print(f"{len(rows):,} captions in {options.out}")


if __name__ == "__main__":
    run_as_command(main)
