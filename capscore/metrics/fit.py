"""Fit: how likely it is that a caption is of this photo, and not of another.

The cosine of caption and photo, less the caption's mean cosine with the nearest photos of a background: a
caption that says little is near every photo. This is one side of cross-domain similarity local scaling
(Conneau et al. 2018, section 2.3). A logistic makes it a probability.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..embedding.background import SHARED, Background, Curve, read_background, unit_rows
from ..errors import InputError, RecipeWarning, Setting, warn
from ..files.photo_names import has_image_suffix
from ..files.shipped import weights_folder
from ..text.languages import stated_code
from .rows import PreparedRows
from .scores import Scores
from .with_backbone import BackboneScorer

if TYPE_CHECKING:
    from ..embedding.embedder import EmbeddedRows, Embedder

# weight of the best reference's cosine beside that of the photo
REFERENCE_WEIGHT = 1.5


def fit(
    clear_cosines: np.ndarray, scale: np.ndarray | float = 1.0, bias: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds and probabilities, on arrays: scale · number + bias, through the logistic function.

    Args:
        clear_cosines: float (n,), cosines of captions and photos, less those that are usual.
        scale, bias: The curve, for all rows or one per row.

    >>> [values.tolist() for values in fit(np.array([0.25, 0.0]), 8.0, -2.0)][0]
    [0.0, -2.0]
    """
    margin = scale * np.asarray(clear_cosines, np.float64) + bias
    return margin, 1.0 / (1.0 + np.exp(-np.clip(margin, -700.0, 700.0)))


class Fit(BackboneScorer):
    """The probability that a caption is of this photo and not of another, in [0, 1], where each is as likely.

    Components: "margin", its log-odds, on which rows are ranked; "clear_cosine", the caption's cosine with
    its photo less "usual_cosine", its mean cosine with the nearest photos of a background.

    For `embedded`, the background and the curve are those of InfoMetIC's marks, whose "p_fits" this is, but
    that a caption of several sentences is read by its sentences. `capscore calibrate --metric fit
    --background FOLDER` makes both for any other backbone.

    Args:
        background: File that `capscore calibrate` wrote for the backbone, or a folder of photos, which has no
            curve: captions are then ranked, but the scores are no probabilities. None for what ships for
            the backbone.
        with_references: Whether references of the rows join by the best one's cosine.
        prefix, long: As in `BackboneScorer`; a text that is read by its sentences has unit length.

    Raises:
        InputError: There is no background for the backbone, or none that is calibrated with references.
        CapscoreError: The background is for another backbone.

    Warns:
        RecipeWarning: The background is not calibrated.
    """

    metric = "fit"
    title = "Fit"
    variant_names = ("ref_fit",)
    citation = ("conneau-etal-2018-word",)
    score_range = (0, 1)
    default_backbone = "embedded"
    component_names = ("margin", "clear_cosine", "usual_cosine")
    ranked_by = "margin"
    takes_references = True

    def __init__(
        self,
        embedder: Embedder,
        *,
        background: str | os.PathLike[str] | Background | None = None,
        with_references: bool = False,
        **common: Any,
    ):
        super().__init__(embedder, **common)
        self.set_own(needs_references=with_references)
        self.background = _background_of(background, embedder)
        curves = self.background.curves
        if curves and with_references and self.background.with_references is None:
            problem = ": the background was calibrated without references"
            raise InputError(Setting("with_references"), problem)

    @property
    def reads_references(self) -> bool:
        return self.needs_references

    @property
    def known_as(self) -> str:
        return "ref_fit" if self.needs_references else self.metric

    @property
    def value_names(self) -> tuple[str, ...]:
        return (*super().value_names, "usual", "length")

    def constants(self) -> dict[str, object]:
        stated: dict[str, object] = {"background": self.background.name(self.needs_references)}
        if not self.background.curves:
            stated["curve"] = ""
        return stated

    def text_values(self, texts: EmbeddedRows, rows: np.ndarray) -> dict[str, np.ndarray]:
        distinct, places = np.unique(rows, return_inverse=True)
        found = texts.matrix[distinct]
        usual, lengths = self.background.usual(unit_rows(found)), np.linalg.norm(found, axis=1)
        return {"usual": usual[places], "length": lengths[places].astype(np.float64)}

    def finish(self, rows: PreparedRows) -> Scores:
        background, kept = self.background, np.flatnonzero(rows.kept)
        if not background.curves:
            message = "the background is not calibrated: scores rank captions, but are no probabilities; "
            warn(
                RecipeWarning(
                    message,
                    "`capscore calibrate --metric fit` with ",
                    Setting("background"),
                    " calibrates it",
                )
            )
        curves = [self._curve(rows.languages[row]) for row in kept]
        scale, bias = np.array(curves, np.float64).reshape(-1, 2).T
        return self.finish_with(rows, {"scale": scale, "bias": bias}, {})

    def _curve(self, language: str) -> Curve:
        curves = self.background.curves
        if not curves:
            return Curve(1.0, 0.0)
        if self.needs_references and self.background.with_references is not None:
            return self.background.with_references
        return curves.get(stated_code(language or None), curves[SHARED])

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        clear = values["image_cosine"] / np.maximum(values["length"], 1e-9) - values["usual"]
        number = clear
        if self.needs_references:
            number = clear + REFERENCE_WEIGHT * values["text_cosine"]
        margin, scores = fit(number, values["scale"], values["bias"])
        return scores, {"margin": margin, "clear_cosine": clear, "usual_cosine": values["usual"]}

    def embed_to_retrieve(
        self, captions: Sequence[str], images: object
    ) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
        """As in `BackboneScorer`; a further column takes off what is usual."""
        photos, texts, settings = super().embed_to_retrieve(captions, images)
        texts = unit_rows(texts)
        usual = self.background.usual(texts).astype(np.float32)
        return np.c_[photos, np.ones(len(photos), np.float32)], np.c_[texts, -usual], settings

    def learn(self, right: Scores, wrong: Scores) -> dict[str, object]:
        """The curves of a background that has none."""
        if self.background.curves:
            return {}
        curves = {}
        for name in ("clear_cosine", "margin"):  # without a curve, the margin is the number itself
            known = [scores.components[name] for scores in (right, wrong)]
            curves[name] = Curve.of(*(values[np.isfinite(values)] for values in known))
        self.background = dataclasses.replace(
            self.background,
            curves={SHARED: curves["clear_cosine"]},
            with_references=curves["margin"] if self.needs_references else None,
        )
        return {"background": self.background.to_dict()}


def _background_of(given: str | os.PathLike[str] | Background | None, embedder: Embedder) -> Background:
    from ..infometic.mark_calibration import INSTALLED_MARKS, load_mark_calibration

    backbone = embedder.backbone
    if isinstance(given, Background):
        return given
    if given is None:
        if backbone.name not in INSTALLED_MARKS:
            problem = f": none ships for the backbone {backbone.name!r}; expected a folder of photos"
            raise InputError(Setting("background"), problem, ", or a file that `capscore calibrate` wrote")
        folder = weights_folder(INSTALLED_MARKS[backbone.name])
        return load_mark_calibration(folder, backbone=backbone).background()
    path = Path(given)
    if not os.path.isdir(path):  # of a name that is too long, pathlib raises
        return read_background(path, backbone)
    photos = sorted(
        file for file in path.rglob("*") if has_image_suffix(file.name) and not file.name.startswith(".")
    )
    if not photos:
        raise InputError(
            Setting("background", path),
            ": expected a folder of photos, or a file that `capscore calibrate` wrote",
        )
    found = embedder.images(photos)
    return Background(unit_rows(found.matrix), f"{backbone.name}@{backbone.revision}")
