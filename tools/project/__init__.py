"""Checks of the project's own files: what documents name, how packages are built, which licences are stated.

    python -m tools.project

Each check is a function without arguments that gives the problems which it found, a line each.
"""
