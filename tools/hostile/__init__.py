"""Hostile inputs: as tables, each with what it ends in, and as calls that are drawn by a seed.

python -m tools.hostile --calls 5000 --seed 1
"""
