"""Rows to train on, and the sources that they come from."""
