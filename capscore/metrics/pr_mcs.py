"""PR-MCS (Kim et al. 2023, section 3.4): MCS with a text tower that was fine-tuned to notice lexical noise.

In: captions in languages of the backbone, and images. Out: one score per row in [0, w], and their mean;
w is the backbone's, 2.5 for most.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from ..embedding.embedder import Embedder
from ..errors import RecipeWarning, warn
from .backbone_scorer import CLIPScore
from .base import PreparedRows, Scores

RECIPE = "pr_mcs"
# What is kept of each row of the gate's verdict: see `PRMCS`.
_VALUES = ("kept", "kind", "p_kind")


class PRMCS(CLIPScore):
    """PR-MCS. Its default backbone is `embedded-pr-mcs`, of the distribution capscore-weights.

    The formula is that of MCS; the difference is the training of the text tower (`training.pr_mcs`). With a
    backbone without that training, the scores are those of MCS.

    The gate of `embedded-pr-mcs` says in `details` how it judges each caption: "kept", the share of its MCS
    that it keeps, from 0 to 1; "lost", 1 − kept; "kind", the kind of noise that it most likely has, or
    "none"; and "p_kind", the probability of that kind. A caption of several sentences keeps the mean of what
    they keep, by their lengths. Backbones without a gate give no details.

    Args:
        embedder, prefix: As in every scorer with a backbone.

    Warns:
        RecipeWarning: the backbone does not come from that recipe.
    """

    metric = "pr_mcs"
    title = "PR-MCS"
    citation = ("kim-etal-2023-pr-mcs",)
    default_backbone = "embedded-pr-mcs"
    detail_names = ("kept", "lost", "kind", "p_kind")
    detail_columns: ClassVar[Mapping[str, type]] = dict(
        zip(detail_names, (float, float, str, float), strict=True)
    )

    def __init__(
        self,
        embedder: Embedder,
        *,
        prefix: str | None = None,
        empty: Literal["raise", "score", "skip"] = "raise",
    ):
        super().__init__(embedder, prefix=prefix, empty=empty)
        if self.backbone.recipe != RECIPE:
            warn(
                RecipeWarning(
                    f"the backbone {self.backbone.name!r} does not say that it was fine-tuned for PR-MCS, so "
                    "its scores are those of MCS; backbones that training.pr_mcs wrote say so, as does "
                    '"embedded-pr-mcs"'
                )
            )

    @property
    def value_names(self) -> tuple[str, ...]:
        return (*super().value_names, *(_VALUES if self.backbone.kinds_of_noise else ()))

    def text_values(self, verdicts: np.ndarray) -> dict[str, np.ndarray]:
        if not self.backbone.kinds_of_noise:
            return {}
        kinds = verdicts[:, 1:].astype(np.float64)
        found = kinds.argmax(axis=1)
        columns = (verdicts[:, 0].astype(np.float64), found.astype(np.float64), kinds.max(axis=1))
        return dict(zip(_VALUES, columns, strict=True))

    def finish(self, rows: PreparedRows) -> Scores:
        scores = super().finish(rows)
        if not self.backbone.kinds_of_noise:
            return scores
        kept, kind, sure = (rows.values[name] for name in _VALUES)
        return dataclasses.replace(scores, details=_details(kept, kind, sure, self.backbone.kinds_of_noise))


def _details(
    kept: np.ndarray, kind: np.ndarray, sure: np.ndarray, kinds: tuple[str, ...]
) -> list[dict[str, object] | None]:
    """Kept shares, numbers of the kinds and their probabilities, (n,) each, NaN for a row that failed."""
    return [
        None
        if share != share
        else {"kept": share, "lost": 1 - share, "kind": kinds[int(number)], "p_kind": p}
        for share, number, p in zip(kept.tolist(), kind.tolist(), sure.tolist(), strict=True)
    ]
