"""PR-MCS (Kim et al. 2023, §3.4): MCS with a text tower that was fine-tuned to see lexical noise.

In: captions in any language the backbone knows, and images. Out: one score a row in [0, 2.5], their mean.
"""

from __future__ import annotations

from ..embedding.embedder import Embedder
from ..errors import RecipeWarning, warn
from .clip_score import CLIPScore

RECIPE = "pr_mcs"


class PRMCS(CLIPScore):
    """PR-MCS. Its default backbone ships with capscore: `embedded-pr-mcs`.

    The formula is that of MCS; what makes it PR-MCS is the text tower's training (`training.pr_mcs`). With a
    backbone that had none it warns, since the scores are those of MCS then.

    Args:
        embedder, prefix: as of every scorer with a backbone.

    Warns:
        RecipeWarning: the backbone is not one of that recipe.
    """

    metric = "pr_mcs"

    def __init__(self, embedder: Embedder, *, prefix: str | None = None):
        super().__init__(embedder, prefix=prefix)
        if self.backbone.recipe != RECIPE:
            warn(
                RecipeWarning(
                    f"the backbone {self.backbone.name!r} does not say that it was fine-tuned for PR-MCS, so "
                    "its scores are those of MCS; backbones that training.pr_mcs wrote say so, as does "
                    '"embedded-pr-mcs"'
                )
            )
