"""Rows in, `Scores` out: one file per metric. `load` makes a scorer by its metric's name."""

from .loading import PRESETS, load, load_together

__all__ = ["PRESETS", "load", "load_together"]
