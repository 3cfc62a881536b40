"""Hostile inputs as tables, each with what it ends in: one clear error, or the score of a harmless twin."""
