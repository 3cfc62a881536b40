"""What a protocol's rows count: comparisons, wins and ties."""

from __future__ import annotations


def counted(found):
    """Name of a row, without "accuracy_" → (comparisons, wins, ties); the mean has no wins of its own."""
    ties = found.details["ties"]
    return {
        row.name.removeprefix("accuracy_"): (row.n, round(row.n * (row.value or 0)), ties[row.name])
        for row in found.statistics
        if row.name in ties
    }


def interval(found, name):
    """Ends of a row's interval."""
    return next(row.interval for row in found.statistics if row.name == name)
