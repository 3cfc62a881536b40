"""A benchmark's files and a metric → its numbers: against a second computation, row by row."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from scipy.stats import kendalltau

import capscore
from capscore import CapscoreError, InputError
from capscore.benchmark import run_benchmark
from capscore.benchmark.run import benchmark_queries
from capscore.benchmark.tasks import Options

from ..photos import encode, noise
from ..toy import ColourBackbone

rouge = {"rouge_l": functools.partial(capscore.load, "rouge_l")}
toy = {"mcs": functools.partial(capscore.load, "mcs", backbone=ColourBackbone(), cache=False)}
quick = Options(bootstrap=0)
pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


def rated(folder, rows=12, photos=4, seed=1):
    """A benchmark of `rows` pairs in the official format, and its ratings."""
    rng = np.random.default_rng(seed)
    words = "dog cat boy girl runs sleeps red blue house tree".split()
    captions = {
        f"{photo}.jpg#{number}": " ".join(rng.choice(words, 5))
        for photo in range(rows + photos)
        for number in range(5)
    }
    (folder / "Flickr8k.token.txt").write_text("".join(f"{key}\t{text}\n" for key, text in captions.items()))
    lines, ratings = [], []
    for row in range(rows):
        three = sorted(rng.integers(1, 5, 3).tolist())
        ratings.append(three)
        lines.append(f"{row % photos}.jpg\t{row + photos}.jpg#2\t" + "\t".join(map(str, three)))
    (folder / "ExpertAnnotations.txt").write_text("\n".join(lines) + "\n")
    return captions, ratings


def test_agreement_is_that_of_the_scores_with_every_single_rating(tmp_path):
    captions, ratings = rated(tmp_path)
    run = run_benchmark("flickr8k_human", "expert", data_dir=tmp_path, metrics=rouge, options=quick)
    scores = capscore.load("rouge_l").score(
        [captions[f"{row + 4}.jpg#2"] for row in range(12)],
        references=[[captions[f"{row % 4}.jpg#{n}"] for n in range(5)] for row in range(12)],
        language="en",
    )
    expected = kendalltau(np.repeat(scores.scores, 3), np.ravel(ratings), variant="c").statistic
    (result,) = run.results
    assert result.outcome.statistics[0].name == "tau_c"
    assert result.outcome.statistics[0].value == pytest.approx(expected, abs=1e-12)
    assert result.outcome.statistics[0].n == 36
    assert result.outcome.counts == {"items": 12, "ratings": 36, "photos": 4}
    assert result.signature == scores.signature
    assert run.notes == (
        "flickr8k_human (expert, test) has 12 rows where 5,664 were published: is a file cut short?",
    )


def test_averaged_raters_are_another_number(tmp_path):
    _, ratings = rated(tmp_path)
    options = Options(bootstrap=0, raters="mean")
    run = run_benchmark("flickr8k_human", "expert", data_dir=tmp_path, metrics=rouge, options=options)
    values = [float(value) for value in run.results[0].scores]
    expected = kendalltau(values, np.mean(ratings, axis=1), variant="c").statistic
    assert run.results[0].outcome.statistics[0].value == pytest.approx(expected, abs=1e-12)


def test_intervals_hold_the_number_and_are_the_same_again(tmp_path):
    rated(tmp_path, rows=40, photos=10)
    options = Options(bootstrap=200, seed=3)
    first, second = (
        run_benchmark("flickr8k_human", "expert", data_dir=tmp_path, metrics=rouge, options=options)
        for _ in range(2)
    )
    for statistic in first.results[0].outcome.statistics:
        low, high = statistic.interval
        assert low < statistic.value < high
    assert first.results[0].outcome.statistics == second.results[0].outcome.statistics


def test_published_values_stand_beside(flickr):
    run = run_benchmark(
        "flickr8k_human",
        "expert",
        data_dir=flickr,
        metrics={"cider": lambda: capscore.load("cider")},
        options=quick,
    )
    figures = run.results[0].published["tau_c"]
    assert figures[0].value == 43.9
    assert [figure.value for figure in figures if figure.kind == "recomputed"] == [43.89]
    entry = run.to_dict()["results"][0]["statistics"][0]
    measured = entry["measured"]
    assert entry["published"][0]["difference"] == (
        None if measured is None else pytest.approx(measured - 0.439)
    )
    json.dumps(run.to_dict(), allow_nan=False)


def test_a_component_is_a_metric_of_its_own(tmp_path):
    rated(tmp_path)
    makers = {name: functools.partial(capscore.load, "bleu") for name in ("bleu_1", "bleu_4", "bleu")}
    run = run_benchmark("flickr8k_human", "expert", data_dir=tmp_path, metrics=makers, options=quick)
    one, four, plain = (result.scores for result in run.results)
    assert np.array_equal(four, plain)
    assert (one >= four).all() and (one > four).any()


def test_a_metric_of_photos_says_what_is_missing(flickr):
    with pytest.raises(CapscoreError, match=r"mcs looks at photos, and 2 of 2 of flickr8k_human · expert"):
        run_benchmark("flickr8k_human", "expert", data_dir=flickr, metrics=toy, options=quick)
    run = run_benchmark(
        "flickr8k_human", "expert", data_dir=flickr, metrics={**toy, **rouge}, options=quick, keep_going=True
    )
    assert list(run.skipped) == ["mcs"]
    assert [result.metric for result in run.results] == ["rouge_l"]


def test_partial_scores_the_rows_whose_photos_are_there(tmp_path):
    rated(tmp_path)
    (tmp_path / "images").mkdir()
    for photo in (0, 1):
        (tmp_path / "images" / f"{photo}.jpg").write_bytes(encode(noise(seed=photo), "JPEG"))
    run = run_benchmark(
        "flickr8k_human", "expert", data_dir=tmp_path, metrics={**toy, **rouge}, options=quick, partial=True
    )
    assert [(result.metric, result.n_rows) for result in run.results] == [("mcs", 6), ("rouge_l", 12)]
    assert run.n_rows == 12


def test_scores_of_others_need_no_code(tmp_path):
    rated(tmp_path)
    ours = run_benchmark("flickr8k_human", "expert", data_dir=tmp_path, metrics=rouge, options=quick).results[
        0
    ]
    queries = benchmark_queries("flickr8k_human", "expert", data_dir=tmp_path)
    rows = [
        {"id": row["id"], "score": float(score)}
        for row, score in zip(queries.to_rows(), ours.scores, strict=True)
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    run = run_benchmark("flickr8k_human", "expert", data_dir=tmp_path, scores={"mine": path}, options=quick)
    (theirs,) = run.results
    assert theirs.outcome.statistics == ours.outcome.statistics
    assert theirs.signature == "mine.jsonl, column score, rows matched by id"


def test_two_metrics_are_compared_on_the_same_photos(tmp_path):
    rated(tmp_path, rows=40, photos=10)
    makers = {**rouge, "bleu_1": functools.partial(capscore.load, "bleu")}
    run = run_benchmark(
        "flickr8k_human",
        "expert",
        data_dir=tmp_path,
        metrics=makers,
        options=Options(bootstrap=100),
        compare=True,
    )
    first, second = (result.outcome.statistics[0].value for result in run.results)
    assert [test["method"] for test in run.comparisons] == ["bootstrap", "randomisation"]
    for test in run.comparisons:
        assert test["metrics"] == ["rouge_l", "bleu_1"]
        assert test["difference"] == pytest.approx(first - second)
        assert 0 < test["p_value"] <= 1


def test_nothing_to_measure(flickr):
    with pytest.raises(InputError, match="nothing to measure"):
        run_benchmark("flickr8k_human", "expert", data_dir=flickr)
    with pytest.raises(InputError, match=r"a configuration is needed: one of expert, crowdflower"):
        run_benchmark("flickr8k_human", data_dir=flickr, metrics=rouge)
    with pytest.raises(InputError, match=r"there is no split 'dev': one of test"):
        run_benchmark("flickr8k_human", "expert", data_dir=flickr, split="dev", metrics=rouge)
    with pytest.raises(InputError, match="raters"):
        Options(raters="median")
