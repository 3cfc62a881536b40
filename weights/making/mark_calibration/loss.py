"""Photos with words → the loss of the network.

    L = L_words + a · (L_confidence + L_boxes)

L_words is the cross-entropy of right and wrong words, half of the weight for each. A cell of the map is
responsible for the smallest box of a thing that its centre lies in (Tian et al. 2019, FCOS); L_confidence is
the cross-entropy of whether there is one, L_boxes 1 − the overlap with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.infometic.mark_calibration import MarkNetwork, PhotoBatch
from training.engine.processes import Gather
from weights.making.mark_calibration.draws import PhotoWords
from weights.making.mark_calibration.features import MarkFeatures


class MarkLoss:
    """The loss on photos, as `training.engine.loop.run` calls it.

    Args:
        features: Features.
        boxes: Place of a photo → its boxes (k, 4) as shares; photos without an entry teach no boxes.
        thing_weight: The weight a.
    """

    def __init__(self, features: MarkFeatures, boxes: Mapping[int, np.ndarray], thing_weight: float):
        self.features, self.boxes, self.thing_weight = features, boxes, thing_weight
        self.embeddings = torch.from_numpy(np.array(features.embeddings))

    def __call__(self, model: nn.Module, rows: Sequence[PhotoWords], gather: Gather) -> dict[str, Tensor]:
        """Loss and terms over the rows of all processes."""
        assert isinstance(model, MarkNetwork)
        seen = seen_photos(self.features, [row.photo for row in rows])
        words, classes, right, there = padded(rows)
        logits = model.word_logits(seen, self.embeddings[words].float(), classes)
        each = F.binary_cross_entropy_with_logits(logits.float(), right, reduction="none")
        is_right, is_wrong = there & (right > 0), there & (right == 0)
        weight = is_right / gather(is_right.sum(dim=1)).sum().clamp(min=1)
        weight = weight + is_wrong / gather(is_wrong.sum(dim=1)).sum().clamp(min=1)
        terms = {"words": gather((each * weight).sum(dim=1)).sum() / 2.0}
        if self.thing_weight and self.boxes:
            confidence, overlap, known = (gather(item) for item in self._things(model, seen, rows))
            n_known = known.sum().clamp(min=1)
            terms["confidence"], terms["boxes"] = confidence.sum() / n_known, overlap.sum() / n_known
        things = terms.get("confidence", 0.0) + terms.get("boxes", 0.0)
        return {"loss": terms["words"] + self.thing_weight * things, **terms}

    def _things(
        self, model: MarkNetwork, seen: PhotoBatch, rows: Sequence[PhotoWords]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Losses of confidence and overlap per photo, 0 without an entry; and 1 for a photo with one."""
        photos = [row.photo for row in rows]
        height, width = self.features.side
        logits, found = model.object_boxes(seen.cells, height, width)
        targets, there = zip(
            *(cell_boxes(self.boxes.get(photo, np.zeros((0, 4))), height, width) for photo in photos),
            strict=True,
        )
        wanted, has = torch.from_numpy(np.stack(targets)), torch.from_numpy(np.stack(there))
        confidence = F.binary_cross_entropy_with_logits(logits.float(), has.float(), reduction="none")
        overlap = (1.0 - overlaps_of(found.float(), wanted)) * has
        known = torch.tensor([float(photo in self.boxes) for photo in photos])
        overlap = overlap.sum(dim=1) / has.sum(dim=1).clamp(min=1)
        return confidence.mean(dim=1) * known, overlap * known, known


def seen_photos(features: MarkFeatures, photos: Sequence[int]) -> PhotoBatch:
    """What the network sees of these photos."""
    places = list(photos)
    return PhotoBatch(
        torch.from_numpy(features.cells[places].astype(np.float32)),
        torch.from_numpy(features.whole[places].astype(np.float32)),
        torch.from_numpy(features.windows[places].astype(np.float32)),
        torch.from_numpy(features.there[places]),
    )


def padded(rows: Sequence[PhotoWords]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Words, classes, right (all (n, m)) and where words are, bool (n, m)."""
    most = max((len(row.words) for row in rows), default=0)
    words, classes = np.zeros((2, len(rows), most), np.int64)
    right = np.zeros((len(rows), most), np.float32)
    there = np.zeros((len(rows), most), bool)
    for place, row in enumerate(rows):
        part = slice(0, len(row.words))
        words[place, part], classes[place, part], right[place, part] = row.words, row.classes, row.right
        there[place, part] = True
    return (
        torch.from_numpy(words),
        torch.from_numpy(classes),
        torch.from_numpy(right),
        torch.from_numpy(there),
    )


def cell_boxes(boxes: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest box around each cell's centre, float32 (h · w, 4), and whether there is one, bool (h ·
    w,).

    >>> wanted, there = cell_boxes(np.array([[0.0, 0.0, 0.5, 1.0]]), 2, 2)
    >>> there.tolist(), wanted[0].tolist()
    ([True, False, True, False], [0.0, 0.0, 0.5, 1.0])
    """
    row, column = np.mgrid[:height, :width]
    x, y = ((column + 0.5) / width).ravel()[:, None], ((row + 0.5) / height).ravel()[:, None]
    wanted, there = np.zeros((height * width, 4), np.float32), np.zeros(height * width, bool)
    if len(boxes):
        inside = (x > boxes[:, 0]) & (x < boxes[:, 2]) & (y > boxes[:, 1]) & (y < boxes[:, 3])
        extents = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        there = inside.any(axis=1)
        wanted[there] = boxes[np.where(inside, extents, np.inf).argmin(axis=1)][there]
    return wanted, there


def overlaps_of(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of boxes (…, 4) with those at the same place, (…)."""
    corner = torch.maximum(first[..., :2], second[..., :2])
    other = torch.minimum(first[..., 2:], second[..., 2:])
    common = (other - corner).clamp(min=0).prod(dim=-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1) for boxes in (first, second)]
    return common / (areas[0] + areas[1] - common).clamp(min=1e-8)
