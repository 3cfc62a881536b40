"""One process of a distributed run, started by test_distributed.py.

In: a JSON object as the only argument. Out: a JSON file with the result and what this process encoded.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import evaluate

from tests.toy import ColourBackbone


class SlowColours(ColourBackbone):
    """Takes its time with every batch of images."""

    def __init__(self, seconds: float):
        super().__init__()
        self.seconds = seconds

    def encode_pixels(self, pixels):
        time.sleep(self.seconds)
        return super().encode_pixels(pixels)


def main(job: dict) -> None:
    folder, rank = Path(job["folder"]), job["rank"]
    backbone = SlowColours(job["seconds"])
    module = evaluate.load(
        job["module"],
        num_process=job["n_process"],
        process_id=rank,
        experiment_id="shared",
        cache_dir=str(folder / "storage"),
        timeout=job["timeout"],
        **({"backbone": backbone, "cache": str(folder / f"embeddings-{rank}")} if job["towers"] else {}),
    )
    # all have loaded before the first adds a row, so that no timeout depends on how fast Python starts
    (folder / f"ready-{rank}").touch()
    while len(list(folder.glob("ready-*"))) < job["n_process"]:
        time.sleep(0.02)
    for start, end in job["batches"]:
        batch = {name: values[start:end] for name, values in job["rows"].items()}
        module.add_batch(**{"language": job["language"], **batch})
    for path in job["rows"].get("images", ()):
        os.remove(path)  # whoever needs the image from now on fails
    result = module.compute()
    counts = {"images": backbone.encoded_images, "texts": backbone.encoded_texts}
    (folder / f"result-{rank}.json").write_text(json.dumps({"result": result, "encoded": counts}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
