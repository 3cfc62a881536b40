"""A benchmark's files and a metric → its numbers: against a second computation, row by row."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau

import capscore
from capscore.benchmarks.data.load import benchmark_builder, builder_class
from capscore.benchmarks.reading import Configuration, benchmark_queries, read_scores
from capscore.benchmarks.tasks import Queries, RetrievalTask, TaskOptions, task_of
from capscore.errors import CapscoreError, InputError
from capscore.judges.asker import Answers
from capscore.options import RowOptions, Sampling
from tools.tiny.colours import ColourBackbone
from tools.tiny.command import write_jsonl
from tools.tiny.judges import tiny_judge

from ..datasets_scripts.conftest import official
from ..photos import encode, noise

rouge = {"rouge_l": functools.partial(capscore.load, "rouge_l")}
toy = {"mcs": functools.partial(capscore.load, "mcs", backbone=ColourBackbone(), cache=False)}
VIT_B = "ViT-B-32-quickgelu/openai"
quick = TaskOptions(sampling=Sampling(0))
mean_ratings = TaskOptions(raters="mean", sampling=Sampling(0))


def rated(folder):
    """A benchmark of twelve pairs of four photos in the official format, and its ratings."""
    rows, photos, rng = 12, 4, np.random.default_rng(1)
    words = "dog cat boy girl runs sleeps red blue house tree".split()
    keys = [f"{photo}.jpg#{number}" for photo in range(rows + photos) for number in range(5)]
    captions = {key: " ".join(rng.choice(words, 5)) for key in keys}
    (folder / "Flickr8k.token.txt").write_text("".join(f"{key}\t{text}\n" for key, text in captions.items()))
    lines, ratings = [], []
    for row in range(rows):
        three = sorted(rng.integers(1, 5, 3).tolist())
        ratings.append(three)
        lines.append(f"{row % photos}.jpg\t{row + photos}.jpg#2\t" + "\t".join(map(str, three)))
    (folder / "ExpertAnnotations.txt").write_text("\n".join(lines) + "\n")
    return captions, ratings


def write_photos(folder, *numbers):
    (folder / "images").mkdir()
    for photo in numbers:
        (folder / "images" / f"{photo}.jpg").write_bytes(encode(noise(seed=photo), "JPEG"))


def run(folder, metrics, options=quick, **more):
    where = {"config": "expert", "data_dir": folder}
    (found,) = capscore.benchmark("flickr8k_human", metrics, **vars(options), **where, **more).runs
    return found


def scored(folder, scores, name="mine.jsonl"):
    queries = benchmark_queries(Configuration("flickr8k_human", "expert", folder))
    rows = [{"id": key, "score": score} for key, score in zip(queries.ids, scores, strict=True)]
    return write_jsonl(folder / name, rows)


def test_agreement_is_that_of_the_scores_with_every_single_rating(tmp_path):
    captions, ratings = rated(tmp_path)
    found = run(tmp_path, rouge)
    texts = [captions[f"{row + 4}.jpg#2"] for row in range(12)]
    references = [[captions[f"{row % 4}.jpg#{n}"] for n in range(5)] for row in range(12)]
    scores = capscore.load("rouge_l").score(texts, references=references, language="en")
    expected = kendalltau(np.repeat(scores.scores, 3), np.ravel(ratings), variant="c").statistic
    (result,) = found.results
    assert result.outcome.statistics[0] == ("tau_c", pytest.approx(expected, abs=1e-12), None, 36)
    assert result.outcome.counts == {"items": 12, "ratings": 36, "photos": 4}
    assert result.signature == scores.signature
    assert "has 12 rows where 5,664 were published" in found.notes[0]
    (mean,) = run(tmp_path, rouge, mean_ratings).results
    expected = kendalltau(scores.scores, np.mean(ratings, axis=1), variant="c").statistic
    assert mean.value("tau_c") == pytest.approx(expected, abs=1e-12)


def standings(result, name="tau_c"):
    (found,) = [one for one in result.to_dict()["statistics"] if one["name"] == name]
    return list(dict.fromkeys(entry["standing"] for entry in found["published"]))


def test_published_values_are_shown(tmp_path, monkeypatch):
    rated(tmp_path)
    path = scored(tmp_path, range(12))
    cut = run(tmp_path, {"cider": lambda: capscore.load("cider")}).results
    assert standings(cut[0]) == ["not comparable: 12 rows, not 5,664"]
    monkeypatch.setattr(builder_class("flickr8k_human"), "COUNTS", {"expert": {"test": {"rows": 12}}})
    (cider,) = run(tmp_path, {"cider": lambda: capscore.load("cider")}).results
    assert standings(cider) == ["not reproduced"]
    figures = cider.published["tau_c"]
    assert figures[0].value == 43.9
    assert [figure.value for figure in figures if figure.kind == "recomputed"] == [43.89]
    entry = cider.to_dict()["statistics"][0]
    assert entry["published"][0]["difference"] == pytest.approx(entry["measured"] - 0.439)
    # figures of single ratings do not stand beside averaged ones
    (mean,) = run(tmp_path, {"cider": path}, mean_ratings).results
    assert standings(mean) == ["not comparable: raters='mean', not single ratings"]
    # nor those of captions that are read in another way
    write_photos(tmp_path, *range(4))
    monkeypatch.setattr(ColourBackbone, "name", VIT_B)
    clip = functools.partial(capscore.load, "clip_score", backbone=ColourBackbone(), cache=False)
    readings = {"cider": lambda: capscore.load("cider", variant="paper"), "clip_score": clip}
    readings["clip_score@as"] = lambda: clip(prefix="a photo of ")
    (paper,), (same,), (prefixed,) = map(standings, run(tmp_path, readings).results)
    assert (paper, same) == ("not comparable: variant='paper'", "not reproduced")
    assert prefixed == "not comparable: prefix='a photo of '"
    # figures of a backbone stand beside scores of that backbone only
    backbone = "xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k"
    names = ("clip_score", f"clip_score@{backbone}", "clip_score@embedded")
    unknown, named, other = run(tmp_path, dict.fromkeys(names, path)).results
    assert {figure.backbone for figure in unknown.published["tau_c"]} == {None}
    (said,) = standings(unknown, "tau_b")
    assert said.startswith(f"not comparable: with the backbone {VIT_B}; scores named clip_score@BACKBONE")
    assert {figure.backbone for figures in named.published.values() for figure in figures} == {backbone}
    assert standings(named) == ["not reproduced"]
    assert standings(other) == [f"not comparable: with the backbone {VIT_B}"]


@pytest.mark.parametrize(("formula", "ranked"), [("ratio", True), ("p_yes", False)])
def test_scores_that_round_to_one_are_ranked_by_their_margin(tmp_path, monkeypatch, formula, ranked):
    _, ratings = rated(tmp_path)
    write_photos(tmp_path, *range(4))
    sure = 50 + np.mean(ratings, axis=1)  # the logistic function of each is 1.0
    judge = capscore.load("judge", backbone=tiny_judge(), cache=False, formula=formula)
    answers = Answers(np.stack([sure, np.ones(12)], axis=1), ["photo"] * 12, {})
    monkeypatch.setattr(judge.asker, "ask", lambda *given, **more: answers)
    (result,) = run(tmp_path, {"judge": lambda: judge}, mean_ratings).results
    assert result.value("tau_b") == (pytest.approx(1) if ranked else None)
    assert ("rows are ranked by the margin of their score" in result.outcome.notes) == ranked
    assert result.backbone == "tiny-qwen2_5_vl"


def test_a_judge_is_asked_about_every_photo_with_every_caption(tmp_path):
    texts, rows = ["a dog", "two cats", "a red house"], []
    for n, text in enumerate(texts):
        row = {"image": noise(seed=n), "image_id": str(n), "references": [text], "language": "en"}
        rows.append((str(n), row))
    judge = capscore.load("judge", backbone=tiny_judge(), cache=False)
    found = RetrievalTask().measure(rows, judge, "", quick).outcome
    pairs = [(text, row["image"]) for _, row in rows for text in texts]
    margins = judge.score(*map(list, zip(*pairs, strict=True))).components["margin"].reshape(3, 3)
    best = np.mean(margins.argmax(axis=1) == range(3))
    assert found.statistics[0] == ("image_to_text_r@1", pytest.approx(best), None, 3)


def test_a_component_is_a_metric_of_its_own(tmp_path):
    rated(tmp_path)
    results = run(tmp_path, ["bleu_1", "bleu_4", "bleu"]).results
    one, four, plain = (result.scores for result in results)
    assert np.allclose(four, plain, rtol=0, atol=1e-12, equal_nan=True)
    assert len({result.signature for result in results}) == 3
    assert results[0].signature.endswith("|component:bleu_1")
    assert (one >= four).all() and (one > four).any()


def test_a_metric_that_cannot_be_run_stops_no_other(tmp_path):
    rated(tmp_path)
    partly = TaskOptions(sampling=Sampling(0), partial=True)
    with pytest.raises(CapscoreError, match=r"^mcs looks at photos, and 4 of the 4 photos of flickr8k_human"):
        run(tmp_path, toy, partly)
    write_photos(tmp_path, 0, 1)
    found = run(tmp_path, {**toy, **rouge})
    assert "mcs looks at photos, and 2 of the 4 photos of flickr8k_human" in str(found.skipped["mcs"])
    assert list(found.skipped) == ["mcs"] and [result.metric for result in found.results] == ["rouge_l"]
    found = run(tmp_path, {**toy, **rouge}, partly)
    assert [(result.metric, result.n_rows) for result in found.results] == [("mcs", 6), ("rouge_l", 12)]

    def full():
        raise RuntimeError("out of memory")

    with pytest.raises(CapscoreError, match=r"^rouge_l: RuntimeError: out of memory"):
        run(tmp_path, {"rouge_l": full})


def test_metrics_are_named_or_scorers_or_what_makes_them(tmp_path):
    rated(tmp_path)
    named = run(tmp_path, ["rouge_l", "bleu_4"]).results
    given = run(tmp_path, {"mine": capscore.load("rouge_l"), "bleu_4": None, **rouge}).results
    values = [result.value("tau_c") for result in (*named, *given)]
    assert values == [values[0], values[1], values[0], values[1], values[0]]
    assert given[0].published["tau_c"] == [] and named[0].published["tau_c"]
    (tmp_path / "mine.jsonl").write_text('{"id": "x", "score": 1}\n')
    before_scoring = {"rouge_l": lambda: pytest.fail("scoring began"), "mine": tmp_path / "mine.jsonl"}
    for wrong, options, message in (
        ("roug_l", {}, "did you mean 'rouge_l'"),
        ("cider@embedded", {}, "cider has no backbone"),
        ([], {}, "nothing to measure"),
        (rouge, {"split": "dev"}, "there is no split 'dev': one of test"),
        (before_scoring, {}, "no score for 12 of 12 queries"),
    ):
        with pytest.raises(CapscoreError, match=message):
            run(tmp_path, wrong, **options)


def test_results_print_and_become_rows_of_pandas(tmp_path):
    rated(tmp_path)
    where = {"config": "expert", "data_dir": tmp_path}
    found = capscore.benchmark("flickr8k_human", "rouge_l", **vars(quick), **where)
    (expert,) = found.runs
    assert "flickr8k_human · expert (test, 12 rows)" in str(found) and str(expert.report()) in str(found)
    table = found.to_pandas()
    assert list(table["statistic"]) == ["tau_c", "tau_b", "spearman"] and set(table["n_rows"]) == {12}
    assert list(table["value"]) == [row.value for row in expert.results[0].outcome.statistics]
    document = found.to_dict()
    assert document["format"] == "capscore-results" and document["results"][0]["metric"] == "rouge_l"
    assert "| rouge_l | τ_c |" in found.markdown()


def test_missing_and_constant_scores_of_a_file_are_reported(tmp_path):
    _, ratings = rated(tmp_path)
    path = scored(tmp_path, [*range(11), None])
    with pytest.raises(InputError, match=r"mine\.jsonl, 3\.jpg\|15\.jpg#2: scores: missing"):
        run(tmp_path, {"mine": path})
    (result,) = run(tmp_path, {"mine": path}, TaskOptions(missing="skip", sampling=Sampling(0))).results
    expected = kendalltau(np.repeat(range(11), 3), np.ravel(ratings[:11]), variant="c").statistic
    assert result.outcome.statistics[0].value == pytest.approx(expected, abs=1e-12)
    assert result.signature == "mine.jsonl, column score, rows matched by id"
    assert (result.n_rows, result.n_queries) == (11, 11)
    path = scored(tmp_path, [0.5] * 12)
    (result,) = run(tmp_path, {"mine": path}, TaskOptions(sampling=Sampling(50))).results
    assert [statistic.value for statistic in result.outcome.statistics] == [None] * 3
    assert any("scores are all 0.5" in note for note in result.outcome.notes)


def test_two_metrics_are_compared_on_the_same_rows(tmp_path):
    rated(tmp_path)
    draws = TaskOptions(sampling=Sampling(50), compare=True)
    found = run(tmp_path, ["rouge_l", "bleu_1"], draws)
    first, second = (result.outcome.statistics[0].value for result in found.results)
    assert all(test["metrics"] == ["rouge_l", "bleu_1"] for test in found.comparisons)
    assert [test["difference"] for test in found.comparisons] == pytest.approx([first - second])
    whole = scored(tmp_path, range(12))
    equal = run(tmp_path, {"a": whole, "b": whole}, draws)
    assert [(test["difference"], test["p_value"]) for test in equal.comparisons] == [(0.0, 1.0)]
    middle = scored(tmp_path, [n % 5 for n in range(12)], "middle.jsonl")
    several = run(tmp_path, {"a": whole, **rouge, "b": whole, "c": middle}, draws).comparisons
    # of three tests the smallest p-value counts three times
    smallest = min(several, key=lambda test: test["p_value"])
    assert smallest["p_value_holm"] == pytest.approx(min(3 * smallest["p_value"], 1))
    assert smallest["p_value_holm"] > smallest["p_value"]
    alone = run(tmp_path, {"a": whole}, draws)
    assert alone.notes[-1] == "nothing is compared: a comparison needs two metrics"


def test_metrics_with_different_rows_are_compared_on_shared_rows(tmp_path):
    rated(tmp_path)
    write_photos(tmp_path, 0, 1)
    whole = scored(tmp_path, range(12))
    draws = TaskOptions(sampling=Sampling(50), partial=True, compare=True)
    found = run(tmp_path, {**toy, "a": whole}, draws)
    assert "mcs and a are compared on 6 of 12 rows" in found.notes
    first, second = found.results
    mine = [row for row, (key, _) in enumerate(second.rows) if key in dict(first.rows)]
    task = task_of("flickr8k_human", "expert")
    same = task.compare(first.rows, first.scores, second.scores[mine], found.options)
    assert [test["difference"] for test in found.comparisons] == [test["difference"] for test in same]
    # rows with gaps are not common
    gaps = scored(tmp_path, [None if n in (3, 7) else n for n in range(12)], "gaps.jsonl")
    found = run(tmp_path, {"a": whole, "b": gaps}, replace(draws, missing="skip"))
    assert "a and b are compared on 10 of 12 rows" in found.notes


def test_all_splits_are_measured_together(tmp_path):
    official("vicr").write(tmp_path)
    builder = benchmark_builder("vicr", data_dir=tmp_path, images=False)
    rows = [row for split in ("train", "validation", "test") for row in builder.examples(split)]
    cider = {"cider": lambda: capscore.load("cider")}
    whole = {"data_dir": tmp_path, "split": "all"}
    (found,) = capscore.benchmark("vicr", cider, **vars(quick), **whole).runs
    beside = [figure for figures in found.results[0].published.values() for figure in figures]
    assert beside and {figure.language for figure in beside} <= {None, "en"}
    assert {figure.unlike for figure in beside} == {"the split all, not test"}
    assert (found.split, found.n_rows) == ("all", len(rows)) == ("all", 4)
    queries = benchmark_queries(Configuration("vicr", None, tmp_path), RowOptions(split="all"))
    assert queries.ids == [key for key, _ in rows]
    file = tmp_path / "VICR.csv"
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    file.write_text("\n".join([*lines, lines[-1].replace(",val,", ",train,")]), encoding="utf-8-sig")
    with pytest.raises(InputError, match=r"the row '.*A cat' is in more than one split; name one of train, "):
        capscore.benchmark("vicr", rouge, **whole)


QUERIES = Queries(ids=["a|1", "a|2", "b|1"])


def read(path, rows, **options):
    return read_scores(write_jsonl(path, rows), QUERIES, **options)


def test_rows_are_matched_by_id_in_any_order(tmp_path):
    rows = [{"id": name, "score": n} for n, name in enumerate(["b|1", "x", "a|2", "a|1"])]
    scores, notes = read(tmp_path / "s.jsonl", rows)
    assert scores.tolist() == [3, 2, 0]
    assert notes == ("s.jsonl has 1 row without a query, such as 'x'",)


def test_a_query_without_a_row_is_left_to_missing(tmp_path):
    rows = [{"id": "b|1", "score": 3}, {"id": "a|1", "score": None}]
    scores, notes = read(tmp_path / "s.jsonl", rows, missing="skip")
    np.testing.assert_array_equal(scores, [np.nan, np.nan, 3])
    assert notes == ("s.jsonl has no score for 1 of 3 queries, such as 'a|2'",)
    with pytest.raises(InputError, match=r"no score for 3 of 3 queries.*'a\|1'"):
        read(tmp_path / "s.jsonl", [{"id": 0, "score": 3}], missing="skip")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a|1", "points": 1}], r"no column 'score'; it has id, points"),
        ([{"id": "a|1", "score": "good"}], r"s.jsonl, line 1: the column 'score' holds 'good'; expected"),
        ([{"id": "a|1", "score": True}], r"line 1: the column 'score' holds True; expected a finite"),
        ([{"id": "a|1", "score": 10**400}], r"line 1: the column 'score' holds 1000.*; expected a finite"),
        ([{"id": "a|1", "score": 1}, {"id": None, "score": 2}], r"s.jsonl, line 2: the id is missing"),
        ([{"score": 1}] * 3, "no column 'id'; it has score; write_queries writes the rows to score"),
        ([{"id": "a|1", "score": 1}, {"id": "a|2", "score": 1}], r"no score for 1 of 3 queries.*'b\|1'"),
        ([{"id": "a|1", "score": 2}, {"id": "a|1", "score": 1}], r"line 2: .*has two scores, 2 and 1"),
    ],
)
def test_mismatched_scores_are_named(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / "s.jsonl", rows)
