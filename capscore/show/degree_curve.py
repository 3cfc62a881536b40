"""A caption with more and more noise → its curves by degree: a drawing of scores, and the same as a table.

In: a caption, and a function that scores texts. Out: HTML for the demo of PR-MCS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import CapscoreError
from ..perturbations import KINDS
from ..perturbations.by_degree import DEGREES, by_degree
from .markup import change_in_percent, render

# Draws behind each point, since which words are drawn matters in a short caption.
DRAWS = 3
# Longest caption that curves are made for: they score it once per kind, degree and draw.
MOST_CURVED = 1_000
# The drawing in its own units: places of its corners, and room for the numbers beside it.
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 455.0, 10.0, 190.0
# Okabe and Ito's colours are distinct with every kind of colour vision; dashes differ too
_LOOKS = dict(
    zip(
        KINDS,
        (
            ("#0072B2", ""),
            ("#009E73", "7 3"),
            ("#D55E00", "2 3"),
            ("#CC79A7", "9 3 2 3"),
            ("#E69F00", "14 4"),
        ),
        strict=True,
    )
)


@dataclass(frozen=True)
class DegreeCurve:
    """What a caption scores under more and more noise of one kind.

    Attributes:
        kind: Kind of the noise.
        scores: Mean score at each of `DEGREES`.
    """

    kind: str
    scores: list[float]


def degree_curves(
    caption: str,
    code: str | None,
    score: Callable[[list[str]], Sequence[float]],
    *,
    kinds: Sequence[str] = KINDS,
    objects: Sequence[str] = (),
    seed: int = 0,
) -> list[DegreeCurve]:
    """Score a caption under each kind of noise, by degree.

    Args:
        caption: The caption.
        code: Its language, or None.
        score: Function that scores texts; called once with all distinct ones.
        kinds: Kinds of noise.
        objects: Objects for substitution; () for the caption's nouns.
        seed: Seed of the first of `DRAWS` draws; the others follow it.

    Returns:
        Curves of the kinds that can change the caption.
    """
    texts: dict[str, list[list[str]]] = {}
    for kind in kinds:
        given = [objects] if kind == "substitution" and objects else None
        try:
            made = [
                [
                    by_degree([caption], kind, code, degree=degree, seed=seed + draw, objects=given)
                    for draw in range(DRAWS)
                ]
                for degree in DEGREES
            ]
        except CapscoreError:  # the table of perturbations says why
            continue
        if not any(one.unchanged[0] for draws in made for one in draws):
            texts[kind] = [[one.captions[0] for one in draws] for draws in made]
    distinct = list(dict.fromkeys(text for own in texts.values() for draws in own for text in draws))
    scores = dict(zip(distinct, score(distinct), strict=True)) if distinct else {}
    return [
        DegreeCurve(kind, [sum(scores[text] for text in draws) / len(draws) for draws in own])
        for kind, own in texts.items()
    ]


def curves_html(curves: Sequence[DegreeCurve], original: float) -> str:
    """Curves, and what the caption itself scores → a drawing and a table; "" without curves."""
    if not curves:
        return ""
    top = max(original, *(score for curve in curves for score in curve.scores)) or 1.0

    def place(degree: float, score: float) -> tuple[str, str]:
        x = _LEFT + (_RIGHT - _LEFT) * degree / DEGREES[-1]
        return f"{x:.1f}", f"{_BOTTOM - (_BOTTOM - _TOP) * score / top:.1f}"

    lines = []
    for curve in curves:
        points = [place(*pair) for pair in zip((0.0, *DEGREES), (original, *curve.scores), strict=True)]
        colour, dashes = _LOOKS[curve.kind]
        lines.append(
            {
                "kind": curve.kind,
                "colour": colour,
                "dashes": dashes,
                "points": points,
                "path": " ".join(f"{x},{y}" for x, y in points),
                "cells": [
                    {
                        "score": score,
                        "change": change_in_percent((score - original) / original if original > 0 else None),
                    }
                    for score in curve.scores
                ],
            }
        )
    return render(
        "degree_curves.html",
        lines=lines,
        degrees=[f"{100 * degree:.0f} %" for degree in DEGREES],
        ticks=[(place(degree, 0)[0], f"{100 * degree:.0f} %") for degree in (0.0, *DEGREES)],
        levels=[(place(0, share * top)[1], share * top) for share in (0.0, 0.5, 1.0)],
        original=original,
        draws=DRAWS,
        box={"left": _LEFT, "right": _RIGHT, "bottom": _BOTTOM},
    )
