"""A background of photos: how near photos are to a text, and what that makes of its cosine with one photo."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import CapscoreError, InputError, Setting
from ..files.text_files import json_document

if TYPE_CHECKING:
    from torch import Tensor

    from ..backbones.base import Backbone

NEAREST = 10
"""Number of photos of the background, the nearest to a text, that it is compared with."""
SHARED = "shared"
"""Name of the curve for languages without their own."""
_CHUNK = 4096  # texts that are compared with the background at once


def usual_cosines(texts: Tensor, photos: Tensor) -> Tensor:
    """Mean cosine of texts (…, d) with the nearest photos (m, d) of a background, (…).

    What says little is near many photos ("hubs", Radovanović et al. 2010), so its cosine says little too.
    Cross-domain similarity local scaling (Conneau et al. 2018, section 2.3) subtracts it on both sides.
    """
    cosines = texts @ photos.T
    return cosines.topk(min(NEAREST, cosines.shape[-1]), dim=-1).values.mean(dim=-1)


class Curve(NamedTuple):
    """A logistic: log-odds of being right are scale · number + bias, where as many are right as wrong."""

    scale: float
    bias: float

    @classmethod
    def of(cls, right: np.ndarray, wrong: np.ndarray) -> Curve:
        """The likeliest curve, right numbers (n,) and wrong ones (m,) weighing the same."""
        from scipy.optimize import minimize

        signed = np.concatenate([right, wrong])
        target = np.concatenate([np.ones(len(right)), -np.ones(len(wrong))])
        weight = np.concatenate(
            [np.full(len(right), 0.5 / len(right)), np.full(len(wrong), 0.5 / len(wrong))]
        )

        def loss(curve: np.ndarray) -> float:
            margins = (curve[0] * signed + curve[1]) * target
            return float(weight @ np.logaddexp(0.0, -margins) + 1e-6 * curve @ curve)

        scale, bias = minimize(loss, np.array([1.0, 0.0]), method="BFGS").x
        return cls(round(float(scale), 5), round(float(bias), 5))


@dataclass(frozen=True, eq=False)
class Background:
    """Photos beside which captions are compared with their own, for one backbone.

    Attributes:
        photos: float32 (m, d), their unit embeddings.
        curves: Language or `SHARED` → curve of captions without references; {} if it is not calibrated.
        with_references: Curve of captions with references; None if it is not calibrated with them.
    """

    photos: np.ndarray
    backbone: str
    curves: Mapping[str, Curve] = field(default_factory=dict)
    with_references: Curve | None = None

    def name(self, with_references: bool) -> str:
        """Name for signatures: the number of photos, and a digest of them and of the curves that are read."""
        return self._names[with_references]

    @cached_property
    def _names(self) -> tuple[str, str]:
        """The name without references, and with them; each batch of rows asks for it."""
        photos = hashlib.sha256(np.ascontiguousarray(self.photos, "<f2").tobytes())
        names = []
        for curves in (sorted(self.curves.items()), self.with_references):
            digest = photos.copy()
            digest.update(repr(curves).encode())
            names.append(f"{len(self.photos)}@{digest.hexdigest()[:8]}")
        return names[0], names[1]

    def usual(self, texts: np.ndarray) -> np.ndarray:
        import torch

        photos = torch.from_numpy(self.photos)
        found = [np.zeros(0)]
        for start in range(0, len(texts), _CHUNK):
            part = torch.from_numpy(np.ascontiguousarray(texts[start : start + _CHUNK], np.float32))
            found.append(usual_cosines(part, photos).numpy().astype(np.float64))
        return np.concatenate(found)

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON; the embeddings as half-precision numbers in base64."""
        content = base64.b64encode(np.ascontiguousarray(self.photos, "<f2").tobytes()).decode("ascii")
        return {
            "backbone": self.backbone,
            "photos": content,
            "curves": {language: list(curve) for language, curve in self.curves.items()},
            "with_references": self.with_references and list(self.with_references),
        }


def read_background(path: str | Path, backbone: Backbone) -> Background:
    given = Setting("background", Path(path))
    document = json_document(path, "background")
    try:
        found = document["background"]
        rows = np.frombuffer(base64.b64decode(found["photos"], validate=True), "<f2").astype(np.float32)
        photos = rows.reshape(-1, backbone.dim)
        curves = {str(language): Curve(*map(float, curve)) for language, curve in found["curves"].items()}
        _ = curves[SHARED]  # a KeyError if it is missing
        with_references = None
        if found["with_references"]:
            with_references = Curve(*map(float, found["with_references"]))
        if not len(photos) or not np.isfinite(photos).all():
            raise ValueError("expected finite embeddings of photos")
        made_for = str(found["backbone"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__} {error!s:.200}"
        raise InputError(given, f" holds no background that `capscore calibrate` wrote: {why}") from None
    now = f"{backbone.name}@{backbone.revision}"
    if made_for != now:
        raise CapscoreError(f"the background {path} is for the backbone {made_for}, not for {now}")
    return Background(unit_rows(photos), made_for, curves, with_references)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of unit length, float32 (m, d)."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
