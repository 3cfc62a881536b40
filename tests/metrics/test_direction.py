"""A metric of which less is better, `length_error`: the exact match is the best row everywhere."""

import json
from typing import ClassVar

import numpy as np
import pytest

import capscore
from capscore.benchmarks.tasks import RatingTask, Task
from capscore.metrics.calibration import PERCENTS
from capscore.metrics.loading import is_lower_better
from capscore.options import OutputOptions
from capscore.registry import BENCHMARKS, METRICS, register_metric
from capscore.scoring.calibrating import document
from capscore.scoring.row_filter import RowFilter
from capscore.statistics.systems import compare_figures
from tools.tiny import command
from tools.tiny.command import read_jsonl, write_jsonl

REFERENCE = "a black dog"
# errors 3, 0, 1, 2
CAPTIONS = ["a big black dog on grass", "one black dog", "the old black dog", "a dog runs to us"]


@pytest.fixture(autouse=True)
def length_error():
    @register_metric("length_error", higher_is_better=False, score_range=(0, 9))
    def length_error(candidate, references):
        return abs(len(candidate.split()) - len(references[0].split()))

    yield
    METRICS.unregister("length_error")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    systems = {"rows": CAPTIONS, "near": ["a red dog"] * 9, "far": ["a dog and a cat and a bird"] * 9}
    for name, captions in systems.items():
        rows = [{"id": n, "image": f"{n}.jpg", "caption": text} for n, text in enumerate(captions)]
        write_jsonl(tmp_path / f"{name}.jsonl", [row | {"references": [REFERENCE]} for row in rows])
    return tmp_path


def run(*words):
    done = command.run(*words)
    assert done.exit_code == 0, done.output
    return done.output


def scored():
    return capscore.load("length_error").score(CAPTIONS, references=[[REFERENCE]] * 4)


def test_scores_keep_their_sign_and_rank_the_exact_match_highest():
    scores = scored()
    assert scores.scores.tolist() == [3, 0, 1, 2] and scores.mean == 1.5
    assert scores.ranking.tolist() == [-3, 0, -1, -2] and scores.rising().tolist() == [-3, 0, -1, -2]


def test_the_largest_errors_come_first_on_the_screen_in_a_report_and_in_a_sorted_file(files):
    made = ["--sort", "length_error", "-o", "sorted.jsonl", "--report", "page.html"]
    for options in ([], ["--sort", "length_error"], made):
        shown = run("score", "rows.jsonl", "-m", "length_error", "--worst", "2", *options)
        assert shown.index(CAPTIONS[0]) < shown.index(CAPTIONS[3])
        assert CAPTIONS[1] not in shown and CAPTIONS[2] not in shown
    page = (files / "page.html").read_text(encoding="utf-8")
    listed = page.partition('id="cards"')[2].partition("</ul>\n</section>")[0]
    assert CAPTIONS[0] in listed and CAPTIONS[1] not in listed
    assert [row["length_error"] for row in read_jsonl(files / "sorted.jsonl")] == [3, 2, 1, 0]


@pytest.mark.parametrize(("choice", "kept"), [(["--top", "2"], [1, 2]), (["--min-score", "1"], [1, 2])])
def test_the_rows_that_stay_are_those_with_the_smallest_error(files, choice, kept):
    shown = run("score", "rows.jsonl", "-m", "length_error", "--keep", "kept.jsonl", *choice)
    assert [row["id"] for row in read_jsonl(files / "kept.jsonl")] == kept
    assert "the highest has 1.0000" in shown and ("among the lowest 2" in shown or "at most 1" in shown)


def test_a_filter_without_rows_that_stay_has_no_worst_score():
    chosen = RowFilter("length_error", OutputOptions(keep="k", min_score=-1.0))
    assert not chosen.choose({"length_error": scored()}).any()
    assert chosen.to_dict()["lowest"] is None and "highest" not in chosen.sentence()
    assert f"; the best row has {min(scored().scores):.4f}." in chosen.sentence()


def test_ranks_are_percents_of_right_captions_with_larger_errors(tmp_path):
    scores, path = scored(), tmp_path / "calibration.json"
    right = {"n": 100, "values": [9 * percent / 100 for percent in PERCENTS]}
    entry = {"metric": "length_error", "signature": scores.signature, "backbone": None, "truncated": 0}
    entry |= {"languages": {"all": {"right": right, "shuffled": right}}, "among_all": None, "varied": {}}
    whole = document([entry], [], name="errors", made="2026-01-01", shuffled=1, seed=0)
    path.write_text(json.dumps(whole), encoding="utf-8")
    expected = [100 * (9 - error) / 9 for error in (3, 0, 1, 2)]
    np.testing.assert_allclose(scores.percentiles(calibration=path), expected, atol=1e-9)


def test_the_smaller_mean_is_the_better_one(files):
    shown = run("compare", "near.jsonl", "far.jsonl", "-m", "length_error")
    assert "*0.0000" in shown and "far scores worse (higher) than near by 5.0000" in shown
    document = json.loads(run("compare", "near.jsonl", "far.jsonl", "-m", "length_error", "--json"))
    assert document["metrics"]["length_error"]["comparisons"][0]["higher_is_better"] is False
    score = capscore.load("length_error").score
    of_captions = [score([text] * 4, references=[[REFERENCE]] * 4) for text in CAPTIONS[:2]]
    assert capscore.compare_systems(dict(zip("ab", of_captions, strict=True)))[0].best == ["b"]
    assert compare_figures({"a": [1.0, 2.0], "b": [2.0, 3.0]}).best == ["b"]


def test_columns_of_results_say_their_direction():
    names = ["length_error", "chair", "chair_i", "chair_chair_s", "recall", "mcs", "theirs"]
    assert [is_lower_better(name) for name in names] == [True, False, True, True, False, False, False]


def test_agreement_with_people_is_positive_where_small_errors_are_rated_high(tmp_path):
    class Rated(capscore.CaptionBenchmark):
        """Captions with ratings."""

        CITATION = "@misc{rated}"
        FILES: ClassVar = {"ratings": capscore.AnnotationFile(("ratings.jsonl",), source="https://x.org")}
        FIELDS: ClassVar = {"caption": str, "references": [str], "rating": float}
        task = RatingTask("tau_b", "pearson")

        def rows(self, split):
            for row in self.file("ratings").jsonl():
                texts = {"caption": row.caption("caption"), "references": row.captions("references")}
                rated = {"image_id": row.photo("photo"), "rating": row.number("rating", 1, 5)}
                yield str(row.line), texts | rated

    lines = [{"photo": f"{n}.jpg", "caption": text} for n, text in enumerate(CAPTIONS)]
    for line, rating in zip(lines, [1, 4, 3, 2], strict=True):
        line |= {"references": [REFERENCE], "rating": rating}
    write_jsonl(tmp_path / "ratings.jsonl", lines)
    BENCHMARKS.register("rated")(Rated)
    try:
        (run,) = capscore.benchmark("rated", ["length_error"], data_dir=tmp_path).runs
    finally:
        BENCHMARKS.unregister("rated")
    assert [item.value for item in run.results[0].outcome.statistics] == pytest.approx([1.0, 1.0])
    assert Task().numbers(scored(), "").tolist() == [-3, 0, -1, -2]
