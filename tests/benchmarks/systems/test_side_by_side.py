"""Side-by-side ratings: files of gains and of single ratings, and Crossmodal-3600's published tables."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from capscore import InputError
from capscore.benchmarks.systems import Evaluation, published_agreement, read_evaluations
from capscore.benchmarks.systems.side_by_side import published_evaluations, published_scores

from .tiny import write_rows

# Table 6, as printed: languages, N, and r, ρ, τ_b of CIDEr on XM600, XM3600 and COCO-dev
TABLE_6 = {
    "all": (130, [(0.88, 0.87, 0.69), (0.88, 0.92, 0.76), (0.68, 0.30, 0.21)]),
    "ext": (82, [(0.72, 0.76, 0.54), (0.84, 0.84, 0.65), (-0.44, -0.52, -0.32)]),
    "core": (48, [(0.90, 0.95, 0.80), (0.90, 0.96, 0.81), (0.89, 0.86, 0.67)]),
}
# the same from scipy.stats on the printed numbers of Tables 5 and 7, which are rounded
RECOMPUTED = {
    "all": [(0.8781, 0.8741, 0.6953), (0.8807, 0.9158, 0.7602), (0.6819, 0.2988, 0.2095)],
    "ext": [(0.7207, 0.7561, 0.5402), (0.8424, 0.8389, 0.6562), (-0.4359, -0.5219, -0.3159)],
    "core": [(0.8985, 0.9495, 0.8043), (0.8951, 0.9544, 0.8082), (0.8889, 0.8629, 0.6631)],
}
NAMES = ("pearson", "spearman", "tau_b")


def test_table_6_from_tables_5_and_7():
    found = published_agreement()
    assert len(found) == 9
    for place, one in enumerate(found):
        n_points, printed = TABLE_6[one.languages]
        assert one.references == ("xm600", "xm3600", "coco_dev_translated")[place % 3]
        assert one.level.n_points == n_points
        assert tuple(one.printed[name] for name in NAMES) == printed[place % 3]
        values = tuple(one.level.values[name] for name in NAMES)
        assert values == pytest.approx(RECOMPUTED[one.languages][place % 3], abs=5.1e-5)
        assert values == pytest.approx(printed[place % 3], abs=0.0075)


def test_differences_are_those_of_the_models_scores():
    # Tables 5 and 7 against Tables 8 to 11, each rounded to three digits
    content = json.loads(
        files("capscore.benchmarks.systems").joinpath("side_by_side.json").read_text("utf-8")
    )
    rows = [row for part in content["evaluations"].values() for row in part["rows"]]
    assert [len(part["rows"]) for part in content["evaluations"].values()] == [24, 41]
    for first, second, language, _, _, on_xm3600, on_coco in rows:
        models = [content["scores"][name]["values"][language] for name in (first, second)]
        for place, printed in ((0, on_xm3600), (1, on_coco)):
            assert models[1][place] - models[0][place] == pytest.approx(printed, abs=0.00101)
    assert all(len(part["values"]) == 35 for part in content["scores"].values())


def test_published_scores_and_evaluations():
    assert published_scores("xm3600", "cider", "zh") == {
        "BB+CC": 0.202,
        "Bg": 0.110,
        "Lg": 0.099,
        "BB": 0.087,
    }
    assert published_scores("xm3600", "cider", "qu") == published_scores("xm3600", "bleu_4", "en") == {}
    found = {(one.first, one.second, one.language): one for one in published_evaluations()}
    assert len(found) == 65 and found["Bg", "BB", "zh"].gain == -16.0
    assert {one.language for one in found.values()} >= {"fil", "he", "no"}


def test_gains_from_a_file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("system_a,system_b,language,gain\nx,y,de,12.5\ny,x,quz,-3\n", encoding="utf-8")
    assert read_evaluations(path) == [
        Evaluation("x", "y", "de", 12.5),
        Evaluation("y", "x", "qu", -3.0),
    ]


def rating(photo, number, first="x", second="y", language="de"):
    return {
        "system_a": first,
        "system_b": second,
        "language": language,
        "image_id": photo,
        "rating": number,
    }


def test_single_ratings_become_wins_minus_losses(tmp_path):
    rows = [
        *[rating("1", number) for number in (3, 1, -2)],  # a win
        *[rating("2.jpg", number) for number in (1, 0, -1)],  # neither
        *[rating("3", number) for number in (-1, -1, 2)],  # a loss
        *[rating("4", number, "y", "x") for number in (-3, -1)],  # a win, named the other way round
        *[rating("5", number) for number in (1, -1)],  # half is no majority
        *[rating("1", number, language="fr") for number in (0, 0, 1)],
    ]
    found = read_evaluations(write_rows(tmp_path / "people.jsonl", rows))
    assert found == [Evaluation("x", "y", "de", 20.0, 5), Evaluation("x", "y", "fr", 0.0, 1)]


GAIN = {"system_a": "x", "system_b": "y", "language": "de", "gain": 1.0}


@pytest.mark.parametrize(
    "rows, message",
    [
        ([GAIN, {**GAIN, "gain": 2}], r"people.jsonl, line 2 .*: a second gain of 'x' and 'y' in 'de'"),
        ([GAIN, {**GAIN, "system_a": "y", "system_b": "x"}], r"line 2 .*: a second gain of 'y' and 'x'"),
        ([{**GAIN, "system_b": "x"}], r"line 1 .*: system_a and system_b are"),
        ([{**GAIN, "gain": "much"}], r"line 1 .*: the column 'gain' holds 'much'; expected a finite number"),
        ([{**GAIN, "gain": None}], r"line 1 .*: the column 'gain' holds None"),
        ([{**GAIN, "gain": True}], r"line 1 .*: the column 'gain' holds True"),
        ([{**GAIN, "language": "xx"}], r"line 1 .*: unknown language code 'xx'"),
        ([{**GAIN, "system_a": ""}], r"line 1 .*: system_a and system_b are"),
        ([{**GAIN, "rating": 1}], r"jsonl: expected the columns system_a, system_b, language and"),
        ([{"system_a": "x", "gain": 1}], r"people.jsonl: expected the columns .*; it has system_a, gain"),
        ([{"system_a": "x", "system_b": "y", "language": "de", "rating": 1}], r"expected the columns"),
        ([rating(None, 1)], r"line 1 .*: the column 'image_id' holds None"),
    ],
)  # fmt: skip
def test_bad_ratings(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_evaluations(write_rows(tmp_path / "people.jsonl", rows))
