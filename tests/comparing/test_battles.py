"""Systems ranked by battles of their scores: direction, ties, draws, what cannot be ranked, the command."""

import json

import numpy as np
import pytest

import capscore
from capscore.errors import CapscoreError
from capscore.statistics.battles import bradley_terry
from tools.tiny.systems import rows_of

from ..cli.conftest import flat, run, write_jsonl

# system → scores of four photos
SCORES = {"a": [0.9, 0.5, 0.2, 0.7], "b": [0.1, 0.5, 0.4, 0.3], "c": [0.0, 0.6, 0.1, 0.2]}


def rows(scores, column="mcs"):
    return [{"image": f"{number}.jpg", column: score} for number, score in enumerate(scores)]


def systems(column="mcs", **more):
    return {name: rows(scores, column) for name, scores in (SCORES | more).items()}


def ranked(given, metric="mcs", **options):
    return capscore.battles(given, metric, **{"bootstrap": 50, **options})


def test_wins_ratings_and_order_by_hand():
    found = ranked(systems())
    wins = np.array([[0, 2.5, 3], [1.5, 0, 3], [1, 1, 0]])  # a beats b on 2, ties on 1, loses 1; …
    np.testing.assert_array_equal(found.wins, wins)
    expected = dict(zip("abc", bradley_terry(wins), strict=True))
    assert found.ratings == pytest.approx(expected, abs=1e-6) and [*found.systems] == ["a", "b", "c"]
    assert (found.n_battles, found.n_ties, found.n_photos, found.unit) == (12, 1, 4, "photo")
    assert found.shares == pytest.approx({"a": 5.5 / 8, "b": 4.5 / 8, "c": 2 / 8})
    assert found.signature == "mcs|pairs:all|tie:1e-05|prior:one-tie" and found.first is None
    interval = found.intervals["a"]
    assert interval.low < found.ratings["a"] < interval.high and found.above.shape == (3, 3)
    np.testing.assert_allclose(found.above + found.above.T, 1)
    frame = found.to_pandas()
    assert frame["won"].tolist() == [*found.shares.values()] and frame["wins against b"][0] == 2.5
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["wins"][0] == [0, 2.5, 3]
    assert "a & " in found.to_latex() and found.signature in found.to_latex()


def test_a_lower_score_wins_where_less_is_better():
    up, down = ranked(systems()), ranked(systems("chair_i"), "chair_i")
    assert [*down.systems] == [*up.systems][::-1]
    np.testing.assert_array_equal(down.wins[::-1, ::-1], up.wins.T)


@pytest.mark.parametrize(("tie", "n_ties"), [(None, 1), (0, 1), (0.1, 6), (0.15, 6), (1, 12)])
def test_scores_within_the_band_tie(tie, n_ties):
    found = ranked(systems(), tie=tie)
    assert found.n_ties == n_ties and f"tie:{tie if tie is not None else 1e-05:g}|" in found.signature


def test_neither_the_order_of_rows_nor_of_systems_changes_a_number():
    given = systems()
    other = {name: given[name][::-1] for name in ("c", "a", "b")}
    drawn = ranked(given, pairs=7)
    assert drawn.n_battles == 7 and "|pairs:7|seed:0|" in drawn.signature
    assert drawn.wins.tolist() != ranked(given, pairs=7, seed=1).wins.tolist()
    first, second = drawn.to_dict(), ranked(other, pairs=7).to_dict()
    for name in ("ratings", "elo", "shares", "n_ties"):
        assert second[name] == pytest.approx(first[name], abs=1e-6), name
    np.testing.assert_allclose(second["above"], first["above"], atol=1e-6)
    for name, interval in first["intervals"].items():
        assert second["intervals"][name] == pytest.approx(interval, abs=1e-6)


def test_captions_of_several_languages_fight_in_their_own_and_photos_are_drawn_whole():
    given = {}
    for name in ("small", "large"):
        given[name] = [{**row, "letters": len(row["caption"])} for row in rows_of(name)]
    found = ranked(given, "letters")
    assert (found.n_battles, found.n_photos, found.matched_by) == (8, 4, "photo and language")


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ({"a": [1, 1], "b": [0, 0]}, ["a won all its battles: only the prior", "b lost all its battles"]),
        ({"a": [1, 1], "b": [1, 1], "c": [1, 1]}, ["no system won more battles than another"]),
        ({"a": [1], "b": [0]}, ["no intervals: a bootstrap needs at least 2 photos, and there is 1"]),
        ({"a": [1, 0], "b": [0, 1], "c": [None, None]}, ["no battles connect these groups of systems, "]),
    ],
)
def test_what_makes_ratings_doubtful_is_noted(given, notes):
    found = ranked({name: rows(scores) for name, scores in given.items()}, common_rows=True)
    assert np.isfinite([*found.ratings.values()]).all()
    for note in notes:
        assert any(part.startswith(note) for part in found.notes), found.notes
    assert str(found)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({"a": rows([1])}, {}, "expected at least 2 systems, got 1"),
        ({"a": rows([1, None]), "b": rows([1, 2])}, {}, "mcs: 1 rows of a have no score"),
        ({"a": rows([1]), "b": rows([None])}, {"common_rows": True}, "no battle has an outcome"),
        ({"a": rows([1]), "b": rows([2])}, {"pairs": 0}, r"^pairs=0: expected a whole number of at least 1"),
        ({"a": rows([1]), "b": rows([2])}, {"tie": -1}, "tie=-1: expected a finite number of at least 0"),
        ({"a": rows([1]), "b": rows([2])}, {"metric": "judge", "tie": 0.5}, "tie=0.5: .* to below 0.5"),
    ],
)
def test_what_cannot_be_ranked_is_one_clear_error(given, options, message):
    with pytest.raises(CapscoreError, match=message):
        ranked(given, **options)


@pytest.mark.parametrize("name", ["compare", "battles", "compare_systems", "hallucinated"])
def test_systems_without_names_are_refused(name):
    with pytest.raises(CapscoreError, match="systems: expected names"):
        getattr(capscore, name)([rows([1]), rows([2])], *["mcs"] * (name == "battles"))


def test_the_command_prints_what_python_gives_within_80_columns(tmp_path):
    long = {"a-captioner-with-a-long-name-2024": SCORES["a"], "b": SCORES["b"], "c": SCORES["c"]}
    files = [write_jsonl(tmp_path / f"{name}.jsonl", rows(scores)) for name, scores in long.items()]
    asked = ("compare", *files, "-m", "mcs", "--battles")
    done = run(*asked, "--samples", 50, "--table", tmp_path / "t.tex")
    assert done.exit_code == 0 and max(map(len, done.stdout.partition("Written to")[0].splitlines())) <= 80
    for said in (
        "rating",
        "Battles won against each system",
        "12 battles on 4 photos, 1 tie",
        "of the draws: ",
    ):
        assert said in flat(done.stdout)
    printed = json.loads(run(*asked, "--samples", 50, "--json").stdout)
    python = ranked({name: rows(scores) for name, scores in long.items()}).to_dict()
    assert {**printed, "systems": 0} == {**json.loads(json.dumps(python)), "systems": 0}
    assert (tmp_path / "t.tex").read_text().count("&") > 8
    drawn = run(*asked, "--pairs", 6, "--tie", "0.2")
    assert "6 battles on" in drawn.stdout and "(at most 0.2 apart)" in drawn.stdout
