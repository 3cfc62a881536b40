"""Scores rows of files, streams and batches: one pipeline from a source to files and a summary."""
