"""Measures the quality of metrics and weights on real data; each module is a command."""
