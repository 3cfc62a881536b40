"""Formulas of the metrics that count words: tokens in, scores out."""
