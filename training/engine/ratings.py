"""Scores and people's ratings → the losses of training on ratings (Gomes et al. 2025, §3), and the check.

L_P = 1 − r, Pearson's correlation as a loss, a pure function; L_C, the contrast, is that of PR-MCS. The check
measures τ_b, τ_c and ρ per language on held-out ratings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.statistics.correlation import spearman, tau_b, tau_c
from training.data.pictures import TrainedPictures
from training.data.rated import FilePart, PearsonRow, ShownRow
from training.engine.pr_mcs_losses import contrastive_loss
from training.engine.processes import Gather
from training.engine.texts import TextSide, text_numbers

STATISTICS = {"tau_b": tau_b, "tau_c": tau_c, "rho": spearman}
# Scores whose deviations from their mean are together shorter than this count as equal, with r = 0.
_SHORTEST = 1e-8


def pearson_loss(scores: torch.Tensor, ratings: torch.Tensor) -> torch.Tensor:
    """1 − r, in [0, 2], of scores (n,) of any float type and of ratings (n,), which are not all equal.

    r does not depend on the scale of either side. Equal scores have r = 0, not NaN; their gradient, towards
    the ratings, is large but finite.

    >>> ratings = torch.tensor([1.0, 2.0, 3.0])
    >>> round(pearson_loss(torch.tensor([0.1, 0.2, 0.3]), ratings).item(), 4)
    0.0
    >>> round(pearson_loss(torch.tensor([0.2, 0.1, 0.3]), ratings).item(), 4)
    0.5
    >>> pearson_loss(torch.tensor([0.2, 0.2, 0.2]), ratings).item()
    1.0
    """
    if scores.dtype != torch.float64:
        scores = scores.float()
    ratings = ratings.double()
    ratings = F.normalize(ratings - ratings.mean(), dim=0, eps=_SHORTEST)
    scores = F.normalize(scores - scores.mean(), dim=0, eps=_SHORTEST)
    return 1 - (scores * ratings.to(scores)).sum()


@dataclass(eq=False)
class RatingsLoss:
    """L_C of contrastive rows or L_P of Pearson rows, as `training.engine.loop.run` calls it for one kind.

    L_P correlates ratings with the plain cosine: MCS scales it by a factor, which r does not notice, and cuts
    it off at 0, where it would have no gradient.
    """

    pictures: TrainedPictures
    texts: TextSide
    logit_scale: float
    contrastive_weight: float = 1.0
    pearson_weight: float = 1.0

    def __call__(
        self, model: nn.Module, rows: Sequence[ShownRow] | Sequence[PearsonRow], gather: Gather
    ) -> dict[str, Tensor]:
        """The weighted loss of these rows and the loss itself, "contrastive" or "pearson"."""
        pictures, captions = [row.picture for row in rows], [row.caption for row in rows]
        own_images, own_texts = self.pictures.embed(pictures), self.texts(captions)
        at = own_texts.device
        with torch.autocast(at.type, enabled=False):
            images, texts = gather(own_images.float()), gather(own_texts.float())
            rated = [row.rating for row in rows if isinstance(row, PearsonRow)]
            if rated:
                ratings = gather(torch.tensor(rated, dtype=torch.float64, device=at))
                loss = pearson_loss((images * texts).sum(dim=1), ratings)
                return {"loss": self.pearson_weight * loss, "pearson": loss}
            # captions that two images share are not each other's negatives
            groups = gather(text_numbers(captions, at))
            loss = contrastive_loss(images, texts, logit_scale=self.logit_scale, caption_groups=groups)
            return {"loss": self.contrastive_weight * loss, "contrastive": loss}


class RatingsCheck:
    """Measures agreement with ratings of captions that are not trained on, per file and language.

    `n` captions are measured, `base_numbers` before training.
    """

    def __init__(self, held_out: Sequence[FilePart], pictures: TrainedPictures, texts: TextSide):
        stems = [Path(part.file).stem for part in held_out]
        if len(set(stems)) < len(stems):  # files of one name are told apart by their numbers
            stems = [f"{number}_{stem}" for number, stem in enumerate(stems, start=1)]
        self._parts = [(stem, part) for stem, part in zip(stems, held_out, strict=True) if part.rows]
        self.n = sum(len(part.rows) for _, part in self._parts)
        self._pictures, self._texts = pictures, texts
        self.base_numbers = self()

    def __call__(self) -> dict[str, float]:
        """Measure the backbone as it is now; NaN where a number is undefined.

        "tau_b", "tau_c" and "rho" are means over files and languages where they are defined. Beside them are
        "tau_b_<language>" and so on; of several files "tau_b_<file>_<language>", numbered if names are equal.
        """
        found: dict[str, dict[str, float]] = {name: {} for name in STATISTICS}
        for stem, part in self._parts:
            cosines, ratings = self._cosines(part), np.array([row.rating for row in part.rows])
            languages = np.array([row.language for row in part.rows])
            prefix = f"{stem}_" if len(self._parts) > 1 else ""
            for language in np.unique(languages).tolist():
                chosen = languages == language
                for name, statistic in STATISTICS.items():
                    value = statistic(cosines[chosen], ratings[chosen])
                    found[name][f"{name}_{prefix}{language}"] = math.nan if value is None else value
        numbers = {name: _mean_of_defined(values.values()) for name, values in found.items()}
        for values in found.values():
            numbers |= values
        return numbers

    @torch.no_grad()
    def _cosines(self, part: FilePart) -> np.ndarray:
        # in the weights' own precision, in which the saved backbone scores
        with torch.autocast(self._texts.backbone.device.partition(":")[0], enabled=False):
            texts = self._texts([row.caption for row in part.rows]).float().cpu().numpy()
            images = self._pictures.embedded(part.pictures)
        return (images * texts).sum(axis=1).astype(np.float64)


def _mean_of_defined(values: Iterable[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan
