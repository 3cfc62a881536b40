"""PR-MCS (Kim et al. 2023): MCS with a text tower that was fine-tuned to notice lexical noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import RecipeWarning, warn
from .clip_score import CLIPScore
from .rows import PreparedRows
from .scores import Detail, Scores

if TYPE_CHECKING:
    from ..embedding.embedder import EmbeddedRows, Embedder

_VERDICT = ("kept", "kind", "p_kind")  # what is kept of each row of a noise gate's verdict: see `PRMCS`


class PRMCS(CLIPScore):
    """PR-MCS (Kim et al. 2023, section 3.4): MCS with a text tower that was fine-tuned to notice noise.

    Its default backbone is `embedded-pr-mcs`, of the distribution capscore-weights. The formula is that of
    MCS; the difference is the training of the text tower (`training.pr_mcs`). With a backbone without that
    training, the scores are those of MCS.

    `details` hold the verdict of `embedded-pr-mcs`'s gate on each caption: "kept", the share of its MCS that
    it keeps, from 0 to 1; "lost", 1 − kept; "kind", the kind of noise that it most likely has, or "none"; and
    "p_kind", the probability of that kind. A caption of several sentences keeps the mean of their shares,
    weighted by length. Backbones without a gate give no details.

    Warns:
        RecipeWarning: the backbone was not trained for PR-MCS.
    """

    metric = "pr_mcs"
    published_prefix = ""
    title = "PR-MCS"
    citation = ("kim-etal-2023-pr-mcs",)
    default_backbone = "embedded-pr-mcs"
    refused_options = ("pairs",)
    detail_columns: ClassVar[Mapping[str, type]] = {
        "kept": float,
        "lost": float,
        "kind": str,
        "p_kind": float,
    }
    detail_names = tuple(detail_columns)

    @classmethod
    def found(cls, detail: Detail, *, brief: bool = False) -> str:
        """The share of the score that is kept, and the kind of noise; its probability unless `brief`."""
        kept = f"{100 * detail['kept']:.0f} % kept"
        kind = {"none": "no noise"}.get(detail["kind"], detail["kind"])
        if detail["kind"] != "none" and detail["lost"] < 0.005:
            return kept  # a suspicion that cost nothing
        if brief:
            return f"{kept}: {kind}"
        return f"{kept}: {kind} (p = {detail['p_kind']:.2f})"

    def __init__(self, embedder: Embedder, **common: Any):
        super().__init__(embedder, **common)
        if self.backbone.recipe != "pr_mcs":
            message = (
                f"the backbone {self.backbone.name!r} does not say that it was fine-tuned for PR-MCS, so its "
                'scores are those of MCS; backbones of training.pr_mcs say so, as does "embedded-pr-mcs"'
            )
            warn(RecipeWarning(message))

    @property
    def value_names(self) -> tuple[str, ...]:
        return (*super().value_names, *(_VERDICT if self.backbone.kinds_of_noise else ()))

    def text_values(self, texts: EmbeddedRows, rows: np.ndarray) -> dict[str, np.ndarray]:
        if not self.backbone.kinds_of_noise:
            return {}
        verdicts = texts.verdicts[rows]
        kept, kinds = verdicts[:, 0].astype(np.float64), verdicts[:, 1:].astype(np.float64)
        return dict(zip(_VERDICT, (kept, kinds.argmax(axis=1), kinds.max(axis=1)), strict=True))

    def finish(self, rows: PreparedRows) -> Scores:
        scores, kinds = super().finish(rows), self.backbone.kinds_of_noise
        if not kinds:
            return scores
        verdicts = zip(*(rows.values[name].tolist() for name in _VERDICT), strict=True)
        details: list[dict[str, object] | None] = [
            None
            if share != share
            else {"kept": share, "lost": 1 - share, "kind": kinds[int(number)], "p_kind": p}
            for share, number, p in verdicts
        ]
        return dataclasses.replace(scores, details=details)
