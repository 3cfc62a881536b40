"""What the studies measured, beside what ships and what is to be held."""

import json
from fnmatch import fnmatchcase

import pytest

from capscore.errors import InputError
from capscore.perturbations.styles import STYLES
from weights.measuring import summary
from weights.measuring.believable_marks import COCO, SHARES
from weights.measuring.changed_captions import changes_of
from weights.measuring.image_tower import KS, PACKAGED, RATED
from weights.measuring.pr_mcs_alarms import TRANSLATED, gaming
from weights.measuring.summary import measured_figures

OF_SET = {"data": "photos.jsonl", "config": "", "language": "en"}
DROP = {"name": "drop_average", "measured": -0.815}
DROPS = {**OF_SET, "results": [{"metric": "tuned", "statistics": [DROP]}]}
STYLED = {**OF_SET, "results": [{"metric": "tuned", "styles": {"given": {"below_half": 0.25}}}]}
AGREEMENT = {"metric": "fit@tuned", "statistics": [{"name": "tau_c", "measured": 0.358}]}
PLAIN = {"metric": "fit@plain", "statistics": [{"name": "tau_c", "measured": 0.1}]}
DOCUMENTS = {
    "pr_mcs": {
        "sets": [{"every_kind": {"runs": [DROPS], "styles": [STYLED]}}],
        "texts": {"said twice": {"plain": {"kept": 1.0}, "tuned": {"kept": 0.5}}},
    },
    "image_tower": {
        "search": {"plain": {"zh": {"r@5": [1.0, None, None]}}, "tuned": {"zh": {"r@5": [50.0, None, None]}}},
        "runs": [{"benchmark": "composite", "config": "flickr8k", "results": [PLAIN, AGREEMENT]}],
    },
    "marks": {"languages": {"en": {"right_not_fitting": 0.02, "blatant_marked": None}}},
    "changed_captions": {"… on a": {"en": {"change": 0.008}}},
}
FIGURES = {
    "PR-MCS: average drop, en, 83 photos": 81.5,
    "PR-MCS keeps of a caption said twice": 50.0,
    "R@5, zh": 50.0,
    "Composite's Flickr8k part, Fit τ_c": 35.8,
    "Marks: right captions that do not fit, en": 2.0,
    'MCS of a caption that ends in "on a": change × 100, en': 0.8,
}


def test_figures_are_those_of_the_last_backbone_in_percent(tmp_path):
    for name, document in DOCUMENTS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    assert measured_figures(tmp_path) == pytest.approx(FIGURES)


def test_the_command_says_what_is_held_and_what_was_not_measured(tmp_path, monkeypatch, capsys):
    wanted = [
        ("pr_mcs/*/styles/photos.jsonl/en/*/given/below_half", 100, "below", 23.8, "at least", 82),
        ("pr_mcs/texts/said twice/*/kept", 100, "twice", None, "at most", 60),
        ("marks/languages/en/blatant_marked", 100, "marked", 85, "at least", 75),
    ]
    monkeypatch.setattr(summary, "WANTED", wanted)
    with pytest.raises(InputError, match="pr_mcs, "):
        summary.main(["--run", str(tmp_path)])
    (tmp_path / "pr_mcs.json").write_text(json.dumps(DOCUMENTS["pr_mcs"]))
    summary.main(["--run", str(tmp_path)])
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if "| at " in line]
    assert [[cell.strip() for cell in line[1:-1]] for line in lines] == [
        ["below", "23.8", "25.0", "at least 82", "no"],
        ["twice", "–", "50.0", "at most 60", "yes"],
        ["marked", "85.0", "–", "at least 75", "not measured"],
    ]


def test_every_figure_that_is_to_be_held_is_one_that_a_study_writes():
    written = []
    for stated in RATED:
        names = f"{stated['slug']}/{stated['config']}"
        for metric in stated["metrics"]:
            taus = (f"statistics/tau_{letter}/measured" for letter in "bc")
            written += [f"image_tower/runs/{names}/results/{metric}@any/{tau}" for tau in taus]
    for language in ("en", *PACKAGED, "de, Multi30k", "fr, Multi30k"):
        written += [f"image_tower/search/any/{language}/r@{k}/0" for k in KS]
    for language in ("en", COCO):
        written += [f"marks/languages/{language}/{name}" for name in SHARES]
    row = {"image": "a", "caption": "A dog runs.", "language": "en"}
    written += [f"changed_captions/{changed.change}/en/change" for changed in changes_of([row])]
    written += [f"pr_mcs/texts/{name}/any/kept" for name in gaming(["A dog runs."])]
    of_files = ("photos.jsonl/en", "english.jsonl/en", "xtd10.jsonl/ko")
    for data in (*of_files, *(f"xflickrco/{language}" for language in TRANSLATED["xflickrco"])):
        of_set = "pr_mcs/sets/every_kind"
        written.append(f"{of_set}/runs/{data}/results/any/statistics/drop_average/measured")
        written += [f"{of_set}/styles/{data}/results/any/styles/{name}/below_half" for name in STYLES]
    for where, _, _, _, holds, _ in summary.WANTED:
        assert holds in ("at least", "at most")
        assert any(fnmatchcase(path, where) for path in written), where
