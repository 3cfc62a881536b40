"""Details of PR-MCS → a few words for people: what a caption keeps of its score, and what was found in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def found_noise(detail: Mapping[str, Any] | None, *, sure: bool = True) -> str:
    """One row of `Scores.details` in words; "" for a row without details of PR-MCS.

    Args:
        detail: The row's details, or None.
        sure: Whether the probability of the kind is said.

    >>> found_noise({"kept": 0.12, "lost": 0.88, "kind": "repetition", "p_kind": 0.991})
    '12 % kept: repetition (p = 0.99)'
    >>> found_noise({"kept": 1.0, "lost": 0.0, "kind": "none", "p_kind": 0.95}, sure=False)
    '100 % kept: no noise'

    A suspicion that cost nothing is left out:

    >>> found_noise({"kept": 1.0, "lost": 0.0, "kind": "jumble", "p_kind": 0.5})
    '100 % kept'
    """
    if detail is None or "p_kind" not in detail:
        return ""
    kept = f"{100 * detail['kept']:.0f} % kept"
    if detail["kind"] == "none":
        kind = "no noise"
    elif detail["lost"] < 0.005:
        return kept
    else:
        kind = detail["kind"]
    return f"{kept}: {kind}" + (f" (p = {detail['p_kind']:.2f})" if sure else "")
