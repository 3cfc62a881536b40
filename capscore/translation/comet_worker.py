"""COMET under a Python of its own: pairs of texts in, estimates of quality out, as lines of JSON.

`python comet_worker.py` needs the package unbabel-comet and nothing of capscore. The first line in is
{"model", "batch_size", "gpus"}, and the first line out {"references"}: whether the model compares with
references. Each further line in is {"pairs": [[source, translation], …]}, and the line out {"scores": […]}.
What fails is a line {"error", "kind"}. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any


def load_model(model: str) -> Any:
    """A COMET model.

    Args:
        model: Id on the Hub, the file of a checkpoint, or its folder.

    Raises:
        ImportError: There is no package unbabel-comet.
        Exception: What comet says, such as a KeyError for a model that is gated.
    """
    import comet

    path = os.path.expanduser(model)
    if os.path.isdir(path):
        path = os.path.join(path, "checkpoints", "model.ckpt")
    return comet.load_from_checkpoint(path if os.path.isfile(path) else comet.download_model(model))


def estimate(model: Any, pairs: Sequence[Sequence[str]], batch_size: int, gpus: int) -> list[float]:
    """Estimates for pairs of a source and its translation."""
    samples = [{"src": source, "mt": translation} for source, translation in pairs]
    made = model.predict(samples, batch_size=batch_size, gpus=gpus, progress_bar=False)
    return [float(score) for score in made.scores]


def main() -> None:
    """Answer line by line."""
    # the folder of this file holds modules whose names others may use
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != here]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what packages print is not an answer

    def answer(**content: Any) -> None:
        print(json.dumps(content), file=answers, flush=True)

    asked = json.loads(sys.stdin.readline())
    try:
        model = load_model(asked["model"])
        answer(references=bool(model.requires_references()))
        for line in sys.stdin:
            pairs = json.loads(line)["pairs"]
            answer(scores=estimate(model, pairs, asked["batch_size"], asked["gpus"]))
    except Exception as error:
        answer(error=" ".join(str(error).split())[:300] or type(error).__name__, kind=_kind(error))


def _kind(error: Exception) -> str:
    missing = isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "comet"
    return "missing" if missing else "failed"


if __name__ == "__main__":
    main()
