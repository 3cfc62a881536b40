"""The demo's photos and captions in eight languages: how often right > half right > wrong → figures."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.metrics.mcs import MCS
from capscore.metrics.ref_clip_score import RefCLIPScore

from ..intervals import share_of_sums
from .figures import Figure, Report, of_share

DOCS = Path(__file__).resolve().parents[3] / "docs"
# photo, a caption that is right for it, and one that is wrong
ASTRONAUT = ("astronaut.png", "An astronaut in an orange suit.", "Two men play football")


def demo() -> ModuleType:
    """The module docs/demo.py."""
    if str(DOCS) not in sys.path:
        sys.path.insert(0, str(DOCS))  # it imports its page from there
    return importlib.import_module("demo")


def measure_demo(report: Report, embedder: Embedder, options: TaskOptions) -> None:
    """Add the number of photo–language pairs in strict order, and the check of the astronaut."""
    with report.noting("demo", "the demo's photos and captions"):
        shown = demo()
        photos = json.loads(shown.CAPTIONS.read_text(encoding="utf-8"))
        pairs = [
            (place, captions)
            for place, entry in enumerate(photos.values())
            for captions in entry["captions"].values()
        ]
        languages = [language for entry in photos.values() for language in entry["captions"]]
        files = [shown.photo_path(entry["file"]) for entry in photos.values()]
        marks = list(shown.MARKS)  # from best to worst
        texts = [captions[mark] for _, captions in pairs for mark in marks]
        rows = {
            "images": [files[place] for place, _ in pairs for _ in marks],
            "language": [language for language in languages for _ in marks],
        }
        references = [captions["references"] for _, captions in pairs for _ in marks]
        for title, scores in (
            ("MCS", MCS(embedder).score(texts, **rows)),
            ("RefCLIPScore", RefCLIPScore(embedder).score(texts, references=references, **rows)),
        ):
            table = scores.scores.reshape(len(pairs), len(marks))
            falls = np.diff(table, axis=1)
            photo = np.array([place for place, _ in pairs])
            for key, sign, ordered in (("ordered", ">", falls < 0), ("ordered_or_tied", "≥", falls <= 0)):
                share = share_of_sums(
                    np.bincount(photo, weights=ordered.all(axis=1)),
                    np.bincount(photo).astype(float),
                    options,
                )
                report.figures.append(
                    of_share(
                        f"demo/{title.lower()}/{key}",
                        f"{title}: right {sign} half right {sign} wrong",
                        share,
                        times=len(pairs),
                        n=len(pairs),
                        n_of="pairs of photo and language",
                        unit="pairs",
                        signature=scores.signature,
                        note=f"{len(files)} photos",
                    )
                )
        name, right, wrong = ASTRONAUT
        scores = MCS(embedder).score([right, wrong], [shown.photo_path(name)] * 2, language="en")
        report.figures.append(
            Figure(
                "demo/mcs/astronaut",
                f"MCS: “{right.removesuffix('.')}” over “{wrong}”",
                float(scores.scores[0] - scores.scores[1]),
                n=1,
                n_of="photo",
                unit="score",
                signature=scores.signature,
                note="right" if scores.scores[0] > scores.scores[1] else "wrong: expected above 0",
            )
        )
