"""docs/scores.md: its tables are those of the calibrations that ship."""

from __future__ import annotations

import re

import scores


def test_the_tables_are_those_of_the_file_that_ships():
    text = scores.PAGE.read_text(encoding="utf-8")
    assert scores.page(text, scores.shipped()) == text, "python docs/scores.py writes them"
    document = scores.shipped()
    (mcs,) = [entry for entry in document["metrics"] if entry["metric"] == "mcs"]
    median = mcs["languages"]["all"]["right"]["values"][document["percents"].index(50)]
    line = next(line for line in text.splitlines() if line.startswith("| mcs | right"))
    assert float(line.split("|")[6]) == round(median, 3)


def test_only_numbers_ship():
    document = scores.shipped()
    assert document["set"]["photos"] == 325 and re.fullmatch(r"20\d\d-\d\d-\d\d", document["made"])
    for entry in document["metrics"]:
        for kinds in entry["languages"].values():
            assert set(kinds) == {"right", "shuffled"}
            for kind in kinds.values():
                assert set(kind) == {"n", "values"} and all(isinstance(one, float) for one in kind["values"])
