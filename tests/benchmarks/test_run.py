"""A benchmark's files and a metric → its numbers: against a second computation, row by row."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from scipy.stats import kendalltau

import capscore
from capscore import CapscoreError, InputError
from capscore.benchmarks import run_benchmark
from capscore.benchmarks.data.load import benchmark_builder
from capscore.benchmarks.run import benchmark_queries
from capscore.benchmarks.tasks import TaskOptions, task_of

from ..datasets_scripts.conftest import official
from ..photos import encode, noise
from ..toy import ColourBackbone

rouge = {"rouge_l": functools.partial(capscore.load, "rouge_l")}
toy = {"mcs": functools.partial(capscore.load, "mcs", backbone=ColourBackbone(), cache=False)}
quick = TaskOptions(bootstrap=0)
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
    options = TaskOptions(bootstrap=0, raters="mean")
    run = run_benchmark("flickr8k_human", "expert", data_dir=tmp_path, metrics=rouge, options=options)
    values = [float(value) for value in run.results[0].scores]
    expected = kendalltau(values, np.mean(ratings, axis=1), variant="c").statistic
    assert run.results[0].outcome.statistics[0].value == pytest.approx(expected, abs=1e-12)


def test_intervals_hold_the_number_and_are_the_same_again(tmp_path):
    rated(tmp_path, rows=40, photos=10)
    options = TaskOptions(bootstrap=200, seed=3)
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
    assert np.allclose(four, plain, rtol=0, atol=1e-12, equal_nan=True)
    assert len({result.signature for result in run.results}) == 3
    assert run.results[0].signature.endswith("|component:bleu_1")
    assert (one >= four).all() and (one > four).any()


def test_a_metric_of_photos_says_what_is_missing(flickr):
    with pytest.raises(CapscoreError, match=r"mcs looks at photos, and 2 of the 2 photos of flickr8k_human"):
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


def scored(folder, scores, name="mine.jsonl"):
    """A file of scores for `rated`, in its order."""
    queries = benchmark_queries("flickr8k_human", "expert", data_dir=folder)
    rows = [{"id": key, "score": score} for key, score in zip(queries.ids, scores, strict=True)]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / name


def take(folder, scores, options=quick, **more):
    return run_benchmark("flickr8k_human", "expert", data_dir=folder, scores=scores, options=options, **more)


def test_a_missing_score_is_told_by_file_and_row(tmp_path):
    _, ratings = rated(tmp_path)
    path = scored(tmp_path, [None if n == 3 else n for n in range(12)])
    with pytest.raises(InputError, match=r"mine\.jsonl, 3\.jpg\|7\.jpg#2: scores: missing"):
        take(tmp_path, {"mine": path})
    run = take(tmp_path, {"mine": path}, TaskOptions(bootstrap=0, missing="skip"))
    rest = [n for n in range(12) if n != 3]
    expected = kendalltau(np.repeat(rest, 3), np.ravel([ratings[n] for n in rest]), variant="c").statistic
    (result,) = run.results
    assert result.outcome.statistics[0].value == pytest.approx(expected, abs=1e-12)
    assert result.outcome.counts["items"] == 11
    assert any("left out" in note for note in result.outcome.notes)


def test_constant_scores_are_undefined_in_words(tmp_path):
    rated(tmp_path)
    (result,) = take(tmp_path, {"mine": scored(tmp_path, [0.5] * 12)}, TaskOptions(bootstrap=50)).results
    assert [statistic.value for statistic in result.outcome.statistics] == [None] * 3
    assert any("scores are all 0.5" in note for note in result.outcome.notes)


def test_a_file_that_does_not_fit_is_told_before_anything_is_scored(tmp_path):
    rated(tmp_path)

    def never():
        raise AssertionError("scoring began")

    (tmp_path / "mine.jsonl").write_text('{"id": "x", "score": 1}\n')
    with pytest.raises(InputError, match="no score for 12 of 12 queries"):
        take(tmp_path, {"mine": tmp_path / "mine.jsonl"}, metrics={"rouge_l": never}, keep_going=True)


def test_figures_of_a_backbone_stand_beside_scores_of_that_backbone_only(tmp_path):
    rated(tmp_path)
    path = scored(tmp_path, range(12))
    backbone = "xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k"
    unknown, named, other = take(
        tmp_path, {"clip_score": path, f"clip_score@{backbone}": path, "clip_score@embedded": path}
    ).results
    assert {figure.backbone for figures in unknown.published.values() for figure in figures} <= {None}
    assert any("call the scores clip_score@BACKBONE" in note for note in unknown.outcome.notes)
    assert {figure.backbone for figures in named.published.values() for figure in figures} == {backbone}
    assert not any(other.published.values())


def test_averaged_ratings_are_not_set_beside_figures_of_single_ones(tmp_path):
    rated(tmp_path)
    path = scored(tmp_path, range(12))
    (result,) = take(tmp_path, {"cider": path}, TaskOptions(bootstrap=0, raters="mean")).results
    assert not any(result.published.values())
    assert any("they are for single ratings" in note for note in result.outcome.notes)
    (result,) = take(tmp_path, {"cider": path}).results
    assert result.published["tau_c"][0].value == 43.9


def test_what_is_not_compared_is_told(tmp_path):
    rated(tmp_path)
    path = scored(tmp_path, range(12))
    assert take(tmp_path, {"a": path}, compare=True).notes[-1] == (
        "nothing is compared: a comparison needs two metrics"
    )
    (tmp_path / "images").mkdir()
    for photo in (0, 1):
        (tmp_path / "images" / f"{photo}.jpg").write_bytes(encode(noise(seed=photo), "JPEG"))
    with pytest.raises(InputError, match="mcs and a were scored on different rows, 6 of them with both"):
        take(tmp_path, {"a": path}, metrics=toy, partial=True, compare=True)
    run = take(tmp_path, {"a": path}, metrics=toy, partial=True, compare=True, common_rows=True)
    assert "mcs and a are compared on 6 of 12 rows" in run.notes
    mine = [row for row, (key, _) in enumerate(run.results[1].rows) if key in dict(run.results[0].rows)]
    same = task_of("flickr8k_human", "expert").compare(
        run.results[0].rows, run.results[0].scores, run.results[1].scores[mine], run.options
    )
    assert [test["difference"] for test in run.comparisons] == [test["difference"] for test in same]


def test_systems_with_gaps_at_different_rows_are_not_compared(tmp_path):
    rated(tmp_path)
    whole, gaps = scored(tmp_path, range(12)), tmp_path / "gaps.jsonl"
    rows = [json.loads(line) for line in whole.read_text().splitlines()]
    rows[3]["score"] = rows[7]["score"] = None
    gaps.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = TaskOptions(bootstrap=50, missing="skip")
    with pytest.raises(InputError, match="different rows, 10 of them with both"):
        take(tmp_path, {"a": whole, "b": gaps}, options, compare=True)
    run = take(tmp_path, {"a": whole, "b": gaps}, options, compare=True, common_rows=True)
    assert "a and b are compared on 10 of 12 rows" in run.notes
    assert [test["difference"] for test in run.comparisons] == [0, 0]
    equal = take(tmp_path, {"a": gaps, "b": gaps}, options, compare=True)
    assert len(equal.comparisons) == 2


def test_two_equal_metrics_differ_by_nothing(tmp_path):
    rated(tmp_path)
    path = scored(tmp_path, range(12))
    run = take(tmp_path, {"a": path, "b": path}, TaskOptions(bootstrap=50), compare=True)
    assert [(test["difference"], test["p_value"]) for test in run.comparisons] == [(0.0, 1.0)] * 2


def test_two_metrics_are_compared_on_the_same_photos(tmp_path):
    rated(tmp_path, rows=40, photos=10)
    makers = {**rouge, "bleu_1": functools.partial(capscore.load, "bleu")}
    run = run_benchmark(
        "flickr8k_human",
        "expert",
        data_dir=tmp_path,
        metrics=makers,
        options=TaskOptions(bootstrap=100),
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
    with pytest.raises(
        InputError, match=r"flickr8k_human needs a configuration: expected one of expert, crowdflower"
    ):
        run_benchmark("flickr8k_human", data_dir=flickr, metrics=rouge)
    with pytest.raises(InputError, match=r"there is no split 'dev': one of test"):
        run_benchmark("flickr8k_human", "expert", data_dir=flickr, split="dev", metrics=rouge)


def test_all_splits_are_measured_together(tmp_path):
    official("vicr").write(tmp_path)
    builder = benchmark_builder("vicr", data_dir=tmp_path, images=False)
    parts = {split: list(builder.examples(split)) for split in ("train", "validation", "test")}
    assert [len(rows) for rows in parts.values()] == [1, 1, 2]
    rows = [row for part in parts.values() for row in part]
    run = run_benchmark("vicr", data_dir=tmp_path, split="all", metrics=rouge, options=quick)
    assert (run.split, run.n_rows) == ("all", 4)
    scores = capscore.load("rouge_l").score(
        [row["caption"] for _, row in rows],
        references=[row["references"] for _, row in rows],
        language="en",
    )
    single = [
        (score, rating)
        for score, (_, row) in zip(scores.scores, rows, strict=True)
        for rating in row["ratings"]
    ]
    tau_b = next(one for one in run.results[0].outcome.statistics if one.name == "tau_b")
    assert tau_b.value == pytest.approx(kendalltau(*zip(*single, strict=True)).statistic, abs=1e-12)
    queries = benchmark_queries("vicr", data_dir=tmp_path, split="all")
    assert queries.ids == [key for key, _ in rows]


def test_splits_with_a_row_in_common_are_not_measured_together(tmp_path):
    official("vicr").write(tmp_path)
    file = tmp_path / "VICR.csv"
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    file.write_text("\n".join([*lines, lines[-1].replace(",val,", ",train,")]), encoding="utf-8-sig")
    with pytest.raises(InputError, match=r"the row '.*A cat' is in more than one split; name one of train, "):
        run_benchmark("vicr", data_dir=tmp_path, split="all", metrics=rouge)


@pytest.mark.parametrize(
    "given",
    [
        {"raters": "median"},
        {"missing": "drop"},
        {"bootstrap": -1},
        {"bootstrap": 1.5},
        {"seed": -1},
        *({"confidence": share} for share in (0, 1, 1.5, float("nan"))),
    ],
)
def test_options_that_cannot_be(given):
    (name,) = given
    with pytest.raises(InputError, match=f"{name}=.*expected"):
        TaskOptions(**given)
