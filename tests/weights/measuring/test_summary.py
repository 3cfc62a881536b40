"""What the studies measured, beside what ships and what is to be held."""

import json

import pytest

from capscore.errors import InputError
from capscore.perturbations.styles import STYLES
from weights.measuring import summary
from weights.measuring.believable_marks import COCO, SHARES
from weights.measuring.changed_captions import changes_of
from weights.measuring.image_tower import PACKAGED, RATED
from weights.measuring.pr_mcs_alarms import gaming
from weights.measuring.summary import measured_figures

RUN = {
    "data": "photos.jsonl",
    "language": "en",
    "results": [{}, {"statistics": [{"name": "drop_average", "measured": -0.815}]}],
}
STYLED = {"results": [{}, {"styles": {"given": {"below_half": 0.25}}}]}
AGREEMENT = {"metric": "fit@tuned", "statistics": [{"name": "tau_c", "measured": 0.358}]}
DOCUMENTS = {
    "pr_mcs": {
        "sets": [{"every_kind": {"runs": [RUN], "styles": [STYLED]}}],
        "texts": {"said twice": {"plain": {"kept": 1.0}, "tuned": {"kept": 0.5}}},
    },
    "image_tower": {
        "search": {"plain": {}, "tuned": {"zh": {f"r@{k}": [10.0 * k, None, None] for k in (1, 5, 10)}}},
        "runs": [{"benchmark": "composite", "config": "flickr8k", "results": [AGREEMENT]}],
    },
    "marks": {"languages": {"en": {**dict.fromkeys(SHARES), "right_not_fitting": 0.02}}},
    "changed_captions": {"… on a": {"en": {"change": 0.008}}},
}
FIGURES = {
    "pr_mcs/photos.jsonl/en/drop": 81.5,
    "pr_mcs/photos.jsonl/en/below half/given": 25.0,
    "pr_mcs/kept/said twice": 50.0,
    "search/zh/r@1": 10.0,
    "search/zh/r@5": 50.0,
    "search/zh/r@10": 100.0,
    "composite/flickr8k/fit/tau_c": 35.8,
    **{f"marks/en/{name}": None for name in SHARES},
    "marks/en/right_not_fitting": 2.0,
    "changes/en/… on a": 0.8,
}


def test_figures_are_those_of_the_last_backbone_in_percent(tmp_path):
    for name, document in DOCUMENTS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    assert measured_figures(tmp_path) == pytest.approx(FIGURES)


def test_the_command_says_what_is_held_and_what_was_not_measured(tmp_path, monkeypatch, capsys):
    wanted = [
        ("pr_mcs/photos.jsonl/en/drop", "drop", 83.8, "at least", 82),
        ("pr_mcs/kept/said twice", "twice", None, "at most", 60),
        ("marks/en/blatant_marked", "marked", 85, "at least", 75),
    ]
    monkeypatch.setattr(summary, "WANTED", wanted)
    with pytest.raises(InputError, match=r"pr_mcs\.json"):
        summary.main(["--run", str(tmp_path)])
    (tmp_path / "pr_mcs.json").write_text(json.dumps(DOCUMENTS["pr_mcs"]))
    summary.main(["--run", str(tmp_path)])
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if "| at " in line]
    assert [[cell.strip() for cell in line[1:-1]] for line in lines] == [
        ["drop", "83.8", "81.5", "at least 82", "no"],
        ["twice", "–", "50.0", "at most 60", "yes"],
        ["marked", "85.0", "–", "at least 75", "not measured"],
    ]


def test_every_figure_that_is_to_be_held_is_one_that_a_study_writes():
    rated = {f"{stated['slug']}/{stated['config']}": stated["metrics"] for stated in RATED}
    row = {"image": "a", "caption": "A dog runs.", "language": "en"}
    changes = {changed.change for changed in changes_of([row])}
    for key, _, _, holds, _ in summary.WANTED:
        study, first, *rest = key.split("/")
        assert holds in ("at least", "at most")
        if study == "search":
            assert first in ("en", *PACKAGED) or first.endswith(", Multi30k")
        elif study == "marks":
            assert first in ("en", COCO) and rest[0] in SHARES
        elif study == "changes":
            assert rest[0] in changes
        elif first == "kept":
            assert rest[0] in gaming(["A dog runs."])
        elif study == "pr_mcs":
            assert rest[1:] == ["drop"] or rest[2] in STYLES
        else:
            assert rest[0] in rated[f"{study}/{first}"]
