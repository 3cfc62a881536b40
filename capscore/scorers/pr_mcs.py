"""PR-MCS (Kim et al. 2023, section 3.4): MCS with a text tower that was fine-tuned to notice lexical noise.

In: captions in languages of the backbone, and images. Out: one score per row in [0, w], and their mean;
w is the backbone's, 2.5 for most.
"""

from __future__ import annotations

from ..embedding.embedder import Embedder
from ..errors import RecipeWarning, warn
from .clip_score import CLIPScore
from .options import EMPTY

RECIPE = "pr_mcs"


class PRMCS(CLIPScore):
    """PR-MCS. Its default backbone is `embedded-pr-mcs`, of the distribution capscore-weights.

    The formula is that of MCS; the difference is the training of the text tower (`training.pr_mcs`). With a
    backbone without that training, the scores are those of MCS.

    Args:
        embedder, prefix: As in every scorer with a backbone.

    Warns:
        RecipeWarning: the backbone does not come from that recipe.
    """

    metric = "pr_mcs"

    def __init__(
        self,
        embedder: Embedder,
        *,
        prefix: str | None = None,
        empty: str = EMPTY,
        per_row: bool = True,
    ):
        super().__init__(embedder, prefix=prefix, empty=empty, per_row=per_row)
        if self.backbone.recipe != RECIPE:
            warn(
                RecipeWarning(
                    f"the backbone {self.backbone.name!r} does not say that it was fine-tuned for PR-MCS, so "
                    "its scores are those of MCS; backbones that training.pr_mcs wrote say so, as does "
                    '"embedded-pr-mcs"'
                )
            )
