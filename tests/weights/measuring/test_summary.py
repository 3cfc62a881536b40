"""What the studies measured, beside what ships and what is to be held."""

from __future__ import annotations

import json

import pytest

from capscore.errors import InputError
from capscore.perturbations.styles import STYLES
from weights.measuring import summary
from weights.measuring.image_tower import RATED
from weights.measuring.planting import KINDS
from weights.measuring.pr_mcs_alarms import gaming
from weights.measuring.summary import Wanted, measured_figures, read_wanted

PR_MCS = {
    "sets": [
        {
            "every_kind": {
                "runs": [
                    {
                        "data": "photos.jsonl",
                        "language": "en",
                        "results": [{}, {"statistics": [{"name": "drop_average", "measured": -0.815}]}],
                    }
                ],
                "styles": [{"results": [{}, {"styles": {"given": {"below_half": 0.25}}}]}],
            }
        }
    ],
    "gaming": {"said twice": {"plain": 1.0, "tuned": 0.5}},
}
MARKS = {"languages": {"en": {"right_not_fitting": 0.02, "kinds": {"blatant": {"marked": None}}}}}


def test_figures_are_those_of_the_last_backbone_in_percent(tmp_path):
    (tmp_path / "pr_mcs.json").write_text(json.dumps(PR_MCS))
    (tmp_path / "marks.json").write_text(json.dumps(MARKS))
    towers = [{"measures": []}, {"measures": [{"key": "expert/mcs/tau_c", "value": 54.4}]}]
    (tmp_path / "image_tower.json").write_text(json.dumps({"backbones": towers}))
    assert measured_figures(tmp_path) == {
        "pr_mcs/photos.jsonl/en/drop": 81.5,
        "pr_mcs/photos.jsonl/en/below half/given": 25.0,
        "pr_mcs/gaming/said twice": 50.0,
        "image_tower/expert/mcs/tau_c": 54.4,
        "marks/en/right_not_fitting": 2.0,
        "marks/en/blatant": None,
    }


def test_the_command_says_what_is_held_and_what_was_not_measured(tmp_path, monkeypatch, capsys):
    wanted = [
        Wanted("pr_mcs/photos.jsonl/en/drop", "drop", 83.8, "at least", 82),
        Wanted("pr_mcs/gaming/said twice", "twice", None, "at most", 60),
        Wanted("marks/en/blatant", "marked", 85, "at least", 75),
    ]
    monkeypatch.setattr(summary, "read_wanted", lambda: wanted)
    with pytest.raises(InputError, match=r"has none of pr_mcs\.json, .*: measure first"):
        summary.main(["--run", str(tmp_path)])
    (tmp_path / "pr_mcs.json").write_text(json.dumps(PR_MCS))
    summary.main(["--run", str(tmp_path)])
    lines = [
        line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if "| at " in line
    ]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["drop", "83.8", "81.5", "at least 82", "no"],
        ["twice", "–", "50.0", "at most 60", "yes"],
        ["marked", "85.0", "–", "at least 75", "not measured"],
    ]
    (tmp_path / "pr_mcs.json").write_text("[]")
    with pytest.raises(InputError, match=r"pr_mcs\.json is not what weights\.measuring writes"):
        summary.main(["--run", str(tmp_path)])


def test_every_figure_that_is_to_be_held_is_one_that_a_study_writes():
    for figure in read_wanted():
        study, *rest = figure.key.split("/")
        assert figure.holds in ("at least", "at most")
        if study == "image_tower":
            assert rest[0] in ("retrieval", *RATED)
        elif rest[0] == "gaming":
            assert rest[1] in gaming(["A dog runs."])
        elif study == "marks":
            assert rest[1] in (*KINDS, "right_not_fitting", "right_without_mark", "others_not_fitting")
        else:
            assert study == "pr_mcs" and (rest[2:] == ["drop"] or rest[3] in STYLES)
