"""Writes the tables of docs/scores.md from the calibrations that ship.

    python docs/scores.py

In: `capscore/metrics/calibrations/embedded.json`, which `make calibrate` makes. Out: the page, with what
stands between its markers `<!-- table: … -->` and `<!-- end -->` written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capscore.files.write import write_text
from capscore.metrics.calibration import calibration_files
from capscore.scoring.calibrating import calibration_counts, calibration_table

PAGE = Path(__file__).with_name("scores.md")
_PART = re.compile(r"(<!-- table: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page(text: str, document: Mapping[str, Any]) -> str:
    """The page's text with tables of a file of calibrations.

    Args:
        text: Text with markers: "all" or a language for its table, "counts" for what was measured.
        document: Content of the file.
    """

    def part(match: re.Match[str]) -> str:
        if match[2] == "counts":
            return f"{match[1]}{calibration_counts(document)}\n{match[3]}"
        return f"{match[1]}{calibration_table(document, match[2]).markdown()}{match[3]}"

    return _PART.sub(part, text)


def shipped() -> dict[str, Any]:
    """Content of the file that ships."""
    (path,) = calibration_files()
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8"), shipped()))
