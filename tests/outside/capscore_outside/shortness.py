"""A metric of texts: the number of words of the candidate over that of its shortest reference."""

import numpy as np

from capscore.metrics.with_references import Compared, ReferenceScorer
from capscore.registry import register_metric


@register_metric("shortness")
class Shortness(ReferenceScorer):
    """Words of the candidate over words of its shortest reference.

    Args:
        highest: Highest score.
    """

    title = "Shortness"
    citation = ("@misc{short, title = {Short Captions}, author = {A. Author}, year = {2026}}",)
    score_range = (0, None)
    compares_rows = False  # the score of a row depends on that row alone

    def __init__(self, *, highest: float = 1.0, **common):
        super().__init__(**common)
        self.highest = highest

    def compare(self, texts):
        words = np.array([len(candidate.split()) for candidate in texts.candidates], dtype=float)
        shortest = [min(len(text.split()) for text in references) for references in texts.references]
        ratio = np.minimum(words / np.maximum(shortest, 1), self.highest)
        return Compared(ratio, {"highest": self.highest})
