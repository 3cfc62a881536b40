"""Measures time and memory, as ratios within one run; each module is one part of `python -m speed`."""
