"""Rows in and out of files: reading, writing, which column holds what, and how the package is laid out."""
