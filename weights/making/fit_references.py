"""The curve of captions with references: `capscore.metrics.fit` beside the background of a mark calibration.

    python -m weights.making.fit_references --flickr8k flickr8k --photos photos --backbone embedded \
        --calibration runs/mark_calibration --out curve.json

In: Flickr8k's text files and photos, of which those of the development split are read: no weights learned
from them. Each caption has the other four of its photo as references; ten captions of other photos are wrong
beside the same. Out: the curve, in the configuration of the mark calibration and in a file of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import capscore
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.files.write import write_text
from capscore.infometic.mark_calibration import load_mark_calibration
from capscore.metrics.fit import Fit
from capscore.scoring.calibrating import CaptionedPhoto, calibrate_metric
from training.engine.config import main as run_as_command


def development_captions(flickr8k: Path, photos: Path) -> list[CaptionedPhoto]:
    listed = set(listed_photos(AnnotationSource(flickr8k / "Flickr_8k.devImages.txt")))
    captions = token_captions(AnnotationSource(flickr8k / "Flickr8k.token.txt"))
    return [
        CaptionedPhoto(photo, str(photos / photo), caption, "en")
        for _, _, photo, caption in captions
        if photo in listed
    ]


def learned_curve(rows: Sequence[CaptionedPhoto], backbone: str, calibration: Path) -> list[float]:
    """Scale and bias of captions with references, for the background of a mark calibration."""
    embedder = Embedder(capscore.load_backbone(backbone), cache=resolve_cache(None))
    background = load_mark_calibration(calibration, backbone=embedder.backbone).background()
    bare = dataclasses.replace(background, curves={}, with_references=None)
    scorer = Fit(embedder, background=bare, with_references=True)
    learned = calibrate_metric(scorer, rows)["learned"]["background"]
    return list(learned["with_references"])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure the curve of captions with references.")
    parser.add_argument("--flickr8k", type=Path, required=True, help="folder of Flickr8k's text files")
    parser.add_argument("--photos", type=Path, required=True, help="folder of its photos")
    parser.add_argument("--backbone", default="embedded", help="default: %(default)s")
    parser.add_argument("--calibration", type=Path, required=True, help="folder of the mark calibration")
    parser.add_argument("--out", type=Path, help="JSON file of the curve")
    given = parser.parse_args(argv)
    rows = development_captions(given.flickr8k, given.photos)
    curve = learned_curve(rows, given.backbone, given.calibration)
    path = given.calibration / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["with_references"] = curve
    write_text(path, json.dumps(config, ensure_ascii=False, indent=2) + "\n")
    if given.out:
        write_text(given.out, json.dumps(curve) + "\n")
    print(f"scale {curve[0]}, bias {curve[1]} in {path}")


if __name__ == "__main__":
    run_as_command(main)
