"""Measures of an image tower: search, agreement with people, speed; the figures and their table."""
