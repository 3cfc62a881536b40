"""Laws of every benchmark that metrics are measured on: of the library, and one of another package.

What official files hold, and how they are read, exported and checked, has its laws in tests/datasets_scripts.
"""

import functools
import itertools
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import capscore
from capscore import CapscoreError
from capscore.benchmarks import published
from capscore.benchmarks.data.load import benchmark_builder, builder_class
from capscore.benchmarks.reading import SUITES, Configuration, benchmark_home, benchmark_queries, members
from capscore.benchmarks.tasks import TaskOptions, known_slugs, task_of
from capscore.files.shipped import benchmark_slugs
from capscore.options import RowOptions, Sampling
from capscore.registry import BENCHMARKS, METRICS
from tools.tiny.colours import ColourBackbone
from tools.tiny.command import write_jsonl

from .datasets_scripts.conftest import _own_cache, official, shared
from .laws import every
from .outside.conftest import write_rooms
from .outside.package import run_module

__all__ = ["_own_cache", "shared"]

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
RATED_ROOMS = run_module("rated_rooms")
BENCHMARKS.unregister("rated_rooms")  # it is registered while these laws run
UNSCORED = ("m_finecap3k", "flickr30k_entities")  # other protocols
QUICK = TaskOptions(missing="skip", sampling=Sampling(0))
DRAWN = TaskOptions(missing="skip", sampling=Sampling(40))
every_benchmark = every("benchmark", also=["rated_rooms"])
every_scored = every("benchmark", without=UNSCORED, also=["rated_rooms"])
# protocols of papers besides agreement, accuracy and recall: statistics of robustness and of systems
ELSEWHERE = ("mean_", "drop_", "system_")


@pytest.fixture(scope="module", autouse=True)
def outside():
    BENCHMARKS.register("rated_rooms")(RATED_ROOMS)
    yield
    BENCHMARKS.unregister("rated_rooms")


@pytest.fixture(scope="session")
def folder_of(shared, tmp_path_factory):
    rooms = functools.cache(lambda: write_rooms(tmp_path_factory.mktemp("rooms")))
    return lambda slug: rooms() if slug == "rated_rooms" else shared(slug)


def holds_photos(slug):
    return slug != "rated_rooms" and not official(slug).PHOTOS


def parts_of(slug):
    return [("default", "test")] if slug == "rated_rooms" else list(official(slug).ROWS)


def configs_of(slug):
    """The first split of each kind of configuration: one, and those with a task of their own."""
    config, split = parts_of(slug)[0]
    task = task_of(slug, config)
    others = {name: part for name, part in reversed(parts_of(slug)) if task_of(slug, name) is not task}
    return others | {config: split}


def rows_of(slug, config, split, folder):
    return list(benchmark_builder(slug, config, data_dir=folder).examples(split))


def copies(rows):
    """The rows five times over, as those of other photos, captions and groups."""
    names = ("image_id", "left_image_id", "right_image_id", "caption", "id", "premise_id")
    found = []
    for copy, (key, row) in itertools.product(range(5), rows):
        other = {name: f"{row[name]}·{copy}" for name in names if name in row}
        found.append((f"{key}·{copy}", row | other))
    return found


def toy_scores(queries):
    """A score that depends on photo and caption alone."""
    pairs = zip(queries.image_ids, queries.candidates, strict=True)
    return np.array([random.Random(f"{photo} {caption}").randrange(20) / 20 for photo, caption in pairs])


def toy():
    return {"mcs": lambda: capscore.load("mcs", backbone=ColourBackbone(), cache=False, progress=False)}


def measured(benchmark, config, folder, metrics, options=QUICK, **rows):
    where = {"config": config, "data_dir": folder, **rows}
    (run,) = capscore.benchmark(benchmark, metrics, **vars(options), **where).runs
    return run


def numbers(outcome):
    rows = [(row.value, *(row.interval or ()), row.n) for row in outcome.statistics]
    return [np.array(row, float) for row in rows]


def same(first, second):
    assert [row.name for row in first.statistics] == [row.name for row in second.statistics]
    for one, other in zip(numbers(first), numbers(second), strict=True):
        assert other == pytest.approx(one, abs=1e-9, nan_ok=True)


@every_benchmark
def test_a_benchmark_has_a_task_or_a_reason_for_none(benchmark):
    for config in builder_class(benchmark).CONFIGS:
        if benchmark in UNSCORED:
            with pytest.raises(CapscoreError, match=f"{benchmark} is not a benchmark of caption scores: it "):
                task_of(benchmark, config)
        else:
            assert task_of(benchmark, config)
    assert (benchmark in known_slugs()) == (benchmark not in UNSCORED)


@every_scored
def test_scored_items_are_named_and_belong_to_their_row(benchmark, folder_of):
    for config, split in parts_of(benchmark):
        rows = rows_of(benchmark, config, split, folder_of(benchmark))
        queries = task_of(benchmark, config).queries(rows)
        assert len(queries) == len(set(queries.ids)) > 0
        assert all(isinstance(text, str) and text for text in queries.candidates)
        assert queries.owners == sorted(queries.owners) and set(queries.owners) <= set(range(len(rows)))
        owned = zip(queries.ids, queries.owners, strict=True)
        assert all(key.startswith(rows[owner][0]) for key, owner in owned)
        if not holds_photos(benchmark):
            assert {path.rpartition("/")[2] for path in queries.images if path} <= set(queries.image_ids)
        assert [row["id"] for row in queries.to_rows()] == queries.ids


@every_scored
def test_numbers_do_not_depend_on_the_order_of_rows_and_come_again_by_seed(benchmark, folder_of):
    other_seed = TaskOptions(sampling=Sampling(40, seed=1))
    for config, split in configs_of(benchmark).items():
        task = task_of(benchmark, config)
        if task.asks_for:
            continue
        rows = copies(rows_of(benchmark, config, split, folder_of(benchmark)))
        tries = (rows, DRAWN), (random.Random(1).sample(rows, len(rows)), DRAWN), (rows, other_seed)
        found, again, other = (task.outcome(part, toy_scores(task.queries(part)), how) for part, how in tries)
        same(found, again)
        assert [row.value for row in other.statistics] == [row.value for row in found.statistics]
        assert len({row.name for row in found.statistics}) == len(found.statistics) > 0
        assert any(row.value is not None and row.interval for row in found.statistics)
        assert all(type(number) is int for number in found.counts.values())


@every_scored
def test_a_query_without_a_score_is_left_out_and_counted(benchmark, folder_of):
    config, split = next(reversed(configs_of(benchmark).items()))
    task, rows = task_of(benchmark, config), copies(rows_of(benchmark, config, split, folder_of(benchmark)))
    if task.asks_for:
        return
    scores = toy_scores(task.queries(rows))
    whole = task.outcome(rows, scores, QUICK)
    scores[0] = math.nan
    with pytest.raises(capscore.InputError, match="missing"):
        task.outcome(rows, scores, TaskOptions(sampling=Sampling(0)))
    part = task.outcome(rows, scores, QUICK)
    assert any("left out" in note for note in part.notes)
    assert sum(row.n for row in part.statistics) < sum(row.n for row in whole.statistics)


@every_scored
def test_a_run_measures_and_scores_from_its_file_give_the_same(benchmark, folder_of, tmp_path):
    for config, split in configs_of(benchmark).items():
        where, rows = Configuration(benchmark, config, folder_of(benchmark)), RowOptions(split=split)
        task = task_of(benchmark, config)
        if task.refusal(benchmark, METRICS.get("mcs"), ""):
            with pytest.raises(CapscoreError, match=f"mcs is a score of captions, and {benchmark} asks for"):
                measured(*where, toy(), split=split)
            continue
        try:
            run = measured(*where, toy(), split=split)
        except CapscoreError as error:
            assert "at least 2 items" in str(error)
            continue
        (result,) = run.results
        assert (run.benchmark, run.config, run.split) == (benchmark, config, split)
        assert result.n_rows == run.n_rows == len(rows_of(benchmark, config, split, folder_of(benchmark)))
        assert result.signature.startswith("mcs|backbone:colours") and len(run.files) > 0
        assert json.loads(json.dumps(run.to_dict(), allow_nan=False))["n_rows"] == run.n_rows
        if task.asks_for:
            assert result.scores is None
            with pytest.raises(CapscoreError, match=f"{benchmark} "):
                benchmark_queries(where, rows)
            continue
        queries = benchmark_queries(where, rows)
        pairs = [*zip(queries.ids, result.scores.tolist(), strict=True)]
        write_jsonl(tmp_path / "mine.jsonl", [{"id": key, "score": score} for key, score in pairs[::-1]])
        theirs = measured(*where, {"mine": tmp_path / "mine.jsonl"}, split=split)
        same(result.outcome, theirs.results[0].outcome)
        assert theirs.results[0].n_queries == len(queries)


@every_scored
def test_missing_photos_are_named_and_their_rows_left_out_on_demand(benchmark, folder_of, tmp_path):
    config, split = parts_of(benchmark)[0]
    if holds_photos(benchmark) or task_of(benchmark, config).refusal(benchmark, METRICS.get("mcs"), ""):
        return
    rows = rows_of(benchmark, config, split, folder_of(benchmark))
    photos = task_of(benchmark, config).queries(rows).images
    names = sorted({path for path in photos if path})
    given = benchmark, config, folder_of(benchmark), toy()
    partly = replace(QUICK, partial=True)
    (tmp_path / "none").mkdir()
    for path in map(Path, names[: (len(names) + 1) // 2]):
        (tmp_path / "half" / path.parent.name).mkdir(parents=True, exist_ok=True)
        for name in (path.name, f"{path.parent.name}/{path.name}"):
            (tmp_path / "half" / name).symlink_to(path)
    with pytest.raises(CapscoreError, match=r"photos|missing"):
        measured(*given, partly, split=split, images=tmp_path / "none")
    if len(names) < 2:
        return
    with pytest.raises(CapscoreError, match=r"mcs looks at photos, and .* are missing"):
        measured(*given, split=split, images=tmp_path / "half")
    try:
        run = measured(*given, partly, split=split, images=tmp_path / "half")
    except CapscoreError as error:
        assert "at least 2 items" in str(error)
        return
    assert 0 < run.results[0].n_rows < run.n_rows == len(rows)


@every_benchmark
def test_published_figures_name_existing_configurations_and_statistics(benchmark, folder_of):
    figures = [figure for figure in published.figures() if figure.benchmark == benchmark]
    configs = {*builder_class(benchmark).CONFIGS, "all", "default", "others"}
    # some are of captions in a language that were not released
    assert all(figure.config in configs or figure.config == figure.language for figure in figures)
    assert all(figure.metric not in METRICS or METRICS.get(figure.metric) for figure in figures)
    for config, split in {} if benchmark in UNSCORED else configs_of(benchmark).items():
        task = task_of(benchmark, config)
        if not task.asks_for:
            rows = copies(rows_of(benchmark, config, split, folder_of(benchmark)))
            measured = task.outcome(rows, toy_scores(task.queries(rows)), QUICK).statistics
            asked = {task.published_as(row.name, config)[:2] for row in measured}
            of_config = [figure for figure in figures if figure.config in (config, "all")]
            own = [figure for figure in of_config if not figure.statistic.startswith(ELSEWHERE)]
            printed = {(figure.config, figure.statistic) for figure in own}
            assert not printed or printed & asked or {part for part, _ in printed} == {"all"}


def test_suites_divide_all_scored_benchmarks_by_language(tmp_path):
    english, multilingual, everything = ({where[:2] for where in members(one, tmp_path)} for one in SUITES)
    assert not english & multilingual and english | multilingual == everything
    assert {slug for slug, _ in everything} == {*benchmark_slugs(), "rated_rooms"} - {*UNSCORED}
    assert {("xvnli", "en"), ("flickr8k_human", "expert"), ("rated_rooms", "default")} <= english
    assert ("xvnli", "fr") in multilingual
    with pytest.raises(capscore.InputError, match="'german' is not a suite: one of english"):
        list(members("german", tmp_path))


def test_a_suite_is_its_parts_whatever_one_of_them_lacks(folder_of, tmp_path):
    for slug in ("valse", "thumb", "rated_rooms"):
        (tmp_path / slug).symlink_to(folder_of(slug))
    (tmp_path / "flickr8k").mkdir()  # a familiar name
    official("flickr8k_human").write(tmp_path / "flickr8k")
    (tmp_path / "flickr8k" / "ExpertAnnotations.txt").write_text("broken\n")
    (tmp_path / "composite").mkdir()
    found = capscore.benchmark("english", "rouge_l", data_dir=tmp_path, **vars(QUICK))
    assert len(found.runs) == 3
    for run in found.runs:
        alone = measured(run.benchmark, run.config, benchmark_home(tmp_path, run.benchmark), "rouge_l")
        same(run.results[0].outcome, alone.results[0].outcome)
    assert "rouge_l compares captions with references" in found.skipped["valse · existence"]
    assert "there is no folder" in found.skipped["vicr"] and "reads" in found.skipped["composite · coco"]
    assert "line 1: expected 5 tab-separated columns" in found.failed["flickr8k_human · expert"]
    assert {"suite", "runs", "skipped", "failed"} < set(found.to_dict())
    n_parts = len(found.runs) + len(found.skipped) + len(found.failed)
    assert n_parts == len(list(members("english", tmp_path)))
    (tmp_path / "flickr8k_human").mkdir()
    assert benchmark_home(tmp_path, "flickr8k_human") == tmp_path / "flickr8k_human"
    with pytest.raises(capscore.InputError, match="is not a folder"):
        capscore.benchmark("all", "rouge_l", data_dir=tmp_path / "nowhere")
