"""docs/scores.md is of the calibrations that ship, which hold numbers alone."""

from __future__ import annotations

import re

import scores


def test_only_numbers_ship_and_the_page_shows_their_median():
    document = scores.shipped()
    assert document["set"]["photos"] == 325 and re.fullmatch(r"20\d\d-\d\d-\d\d", document["made"])
    for entry in document["metrics"]:
        for kinds in entry["languages"].values():
            assert set(kinds) == {"right", "shuffled"}
            for kind in kinds.values():
                assert set(kind) == {"n", "values"} and all(isinstance(one, float) for one in kind["values"])
    (mcs,) = [entry for entry in document["metrics"] if entry["metric"] == "mcs"]
    median = mcs["languages"]["all"]["right"]["values"][document["percents"].index(50)]
    lines = scores.PAGE.read_text(encoding="utf-8").splitlines()
    (cells,) = [line.split("|") for line in lines if line.startswith("| mcs | right")][:1]
    assert float(cells[6]) == round(median, 3)
