"""Text cells of CSV and TSV that a spreadsheet program would run as formulas ⇄ cells that it shows as text.

A cell that begins with = + - @, a tab or a line break, and is not a number, gets an apostrophe in front:
`=1+1` is written `'=1+1`, which Excel and LibreOffice show and do not run. Reading takes the apostrophe away
again, so that capscore gives back what it got. A text that has the apostrophe already gets a second one.
"""

from __future__ import annotations

import re

# the wide forms count, because spreadsheets in Japanese and Chinese take them for the narrow ones
_SIGNS = "=+\\-@\\t\\r\\n＝＋－＠"
_RUNS = re.compile(f"'*[{_SIGNS}]")
_ESCAPED = re.compile(f"'+[{_SIGNS}]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-Infinity")


def without_formula(cell: str) -> str:
    """The cell as it is written.

    >>> [without_formula(cell) for cell in ("=1+1", "-0.5", "A cat.", "'@x")]
    ["'=1+1", '-0.5', 'A cat.', "''@x"]
    """
    return f"'{cell}" if _RUNS.match(cell) and not _NUMBER.fullmatch(cell) else cell


def with_formula(cell: str) -> str:
    """The cell as it was, from how it is written.

    >>> [with_formula(cell) for cell in ("'=1+1", "-0.5", "A cat.", "''@x")]
    ['=1+1', '-0.5', 'A cat.', "'@x"]
    """
    return cell[1:] if _ESCAPED.match(cell) else cell
