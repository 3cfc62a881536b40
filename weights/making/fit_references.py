"""The curve of captions with references: `capscore.metrics.fit` beside the background of a mark calibration.

In: Flickr8k's text files and photos, of which those of the development split are read: no weights learned
from them. Each caption has the other four of its photo as references; ten captions of other photos are wrong
beside the same. Out: the curve, in the configuration of the mark calibration and in a file of its own.
"""

from __future__ import annotations

import json
from dataclasses import replace
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
from weights.making.settings import command


@command(
    flickr8k="folder of Flickr8k's text files",
    photos="folder of its photos",
    backbone="as capscore.load_backbone takes it",
    calibration="folder of the mark calibration",
    out="file of the curve, JSON",
)
def main(flickr8k: Path, photos: Path, backbone: str, calibration: Path, out: Path) -> None:
    listed = set(listed_photos(AnnotationSource(flickr8k / "Flickr_8k.devImages.txt")))
    rows = []
    for _, _, photo, caption in token_captions(AnnotationSource(flickr8k / "Flickr8k.token.txt")):
        if photo in listed:
            rows.append(CaptionedPhoto(photo, str(photos / photo), caption, "en"))
    embedder = Embedder(capscore.load_backbone(backbone), cache=resolve_cache(None))
    background = load_mark_calibration(calibration, backbone=embedder.backbone).background()
    bare = replace(background, curves={}, with_references=None)
    scorer = Fit(embedder, background=bare, with_references=True)
    curve = list(calibrate_metric(scorer, rows)["learned"]["background"]["with_references"])
    path = calibration / "config.json"
    config = {**json.loads(path.read_text(encoding="utf-8")), "with_references": curve}
    write_text(path, json.dumps(config, ensure_ascii=False, indent=2) + "\n")
    write_text(out, json.dumps(curve) + "\n")
    print(f"scale {curve[0]}, bias {curve[1]} in {path}")


if __name__ == "__main__":
    main()
