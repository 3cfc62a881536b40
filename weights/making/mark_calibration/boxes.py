"""Boxes of things that a detector finds in photos: what the network learns to find things from.

In: rows of `weights.making.mark_calibration.rows`, and a detector of the YOLOX family (Ge et al. 2021) as an
ONNX file, whose outputs teach; the file itself stays outside. Out: JSON, file of a photo → [[left, top,
right, bottom as shares, class, confidence], …].
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from capscore.errors import MissingExtraError
from capscore.files.write import write_text
from capscore.images.boxes import normalised, suppress
from capscore.images.load import load_image
from weights.making.mark_calibration.rows import read_mark_rows
from weights.making.settings import command

SIDE = 416
_STRIDES = (8, 16, 32)
_GREY = 114
# Confidence that a box must have, and overlap above which the less confident of two of a class is left out.
_LEAST, _OVERLAP = 0.3, 0.5


def detected(session: Any, image: Image.Image) -> list[list[Any]]:
    """Boxes of an RGB photo as shares of its sides, class and confidence, the most confident first."""
    pixels, ratio = fitted(image)
    boxes, scores = decoded(session.run(None, {session.get_inputs()[0].name: pixels[None]})[0][0])
    shares = normalised(boxes / ratio, image.size)
    classes, confidence = scores.argmax(axis=1), scores.max(axis=1)
    kept: list[int] = []
    for item in np.unique(classes[confidence > _LEAST]).tolist():
        own = np.flatnonzero((classes == item) & (confidence > _LEAST))
        kept += own[suppress(shares[own], confidence[own], _OVERLAP)].tolist()
    kept.sort(key=lambda place: -confidence[place])
    inside = shares[kept].clip(0, 1).round(4).tolist()
    columns = zip(inside, classes[kept].tolist(), confidence[kept].tolist(), strict=True)
    return [[*box, item, round(p, 3)] for box, item, p in columns]


def fitted(image: Image.Image) -> tuple[np.ndarray, float]:
    """A photo in the top left of a grey square, blue first, float32 (3, 416, 416), and its factor."""
    ratio = min(SIDE / image.width, SIDE / image.height)
    size = max(1, int(image.width * ratio)), max(1, int(image.height * ratio))
    square = np.full((SIDE, SIDE, 3), _GREY, np.uint8)
    square[: size[1], : size[0]] = np.asarray(image.resize(size, Image.Resampling.BILINEAR))[:, :, ::-1]
    return np.ascontiguousarray(square.transpose(2, 0, 1), np.float32), ratio


def decoded(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A detector's output (n, 5 + classes) → boxes in pixels (n, 4) and scores (n, classes) (Ge et al. 2021).

    >>> boxes, scores = decoded(np.zeros((52 * 52 + 26 * 26 + 13 * 13, 7)))
    >>> boxes[0].tolist(), scores.shape
    ([-4.0, -4.0, 4.0, 4.0], (3549, 2))
    """
    corners, sizes = [], []
    for stride in _STRIDES:
        row, column = np.mgrid[: SIDE // stride, : SIDE // stride]
        corners.append(np.stack([column, row], axis=2).reshape(-1, 2))
        sizes.append(np.full((len(corners[-1]), 1), stride))
    corner, size = np.concatenate(corners), np.concatenate(sizes)
    centre, extent = (found[:, :2] + corner) * size, np.exp(found[:, 2:4]) * size
    return np.concatenate([centre - extent / 2, centre + extent / 2], axis=1), found[:, 4:5] * found[:, 5:]


@command(
    rows="file of weights.making.mark_calibration.rows",
    detector="file in ONNX of a YOLOX detector that reads 416 × 416 pixels",
    out="file to write",
)
def main(rows: Path, detector: Path, out: Path) -> None:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "boxes", "a detector in ONNX") from None
    session = onnxruntime.InferenceSession(str(detector), providers=["CPUExecutionProvider"])
    files = [row["file"] for row in read_mark_rows(rows) if row["split"] == "train"]
    found = {file: detected(session, load_image(file)) for file in files}
    write_text(out, json.dumps(found) + "\n", "the boxes")
    print(f"{sum(map(len, found.values())):,} boxes")


if __name__ == "__main__":
    main()
