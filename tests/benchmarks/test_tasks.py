"""What of each benchmark is scored, and what becomes of the scores: with scores that are written out here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr

from capscore import CapscoreError
from capscore.benchmarks.data.load import benchmark_builder
from capscore.benchmarks.tasks import TaskOptions, known_slugs, task_of
from capscore.files.shipped import benchmark_slugs

from ..datasets_scripts.conftest import official

quick = TaskOptions(bootstrap=0)
pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


def value(outcome, name):
    return next(statistic.value for statistic in outcome.statistics if statistic.name == name)


def row(**columns):
    return {"image_id": "1.jpg", "image": None, "language": "en", **columns}


def test_every_benchmark_has_a_task_or_a_reason():
    for slug in benchmark_slugs():
        if slug in known_slugs():
            continue
        with pytest.raises(CapscoreError, match=f"{slug} is not a benchmark of caption scores: it "):
            task_of(slug, "default")
    with pytest.raises(CapscoreError, match="flickr is not a benchmark"):
        task_of("flickr", "default")


@pytest.mark.parametrize("slug", [slug for slug in benchmark_slugs() if slug in known_slugs()])
def test_rows_of_every_loading_script_can_be_asked_for(slug, tmp_path):
    official(slug).write(tmp_path)
    for config, split in official(slug).ROWS:
        builder = benchmark_builder(slug, config, data_dir=tmp_path)
        rows = list(builder.examples(split))
        task = task_of(slug, config)
        queries = task.queries(rows)
        assert len(queries) == len(set(queries.ids)) > 0
        assert all(isinstance(text, str) and text for text in queries.candidates)
        assert len(queries.owners) == len(queries) and set(queries.owners) <= set(range(len(rows)))
        assert all(path is None for path in queries.images)
        if not task.asks_for:
            scores = np.arange(len(queries), dtype=float)
            try:
                outcome = task.outcome(rows, scores, quick)
            except CapscoreError as error:
                assert "at least" in str(error) or "fewer" in str(error), error
                continue
            assert outcome.statistics


def test_crowd_and_experts_lead_with_their_own_statistic():
    assert task_of("flickr8k_human", "expert").statistics[0] == "tau_c"
    assert task_of("flickr8k_human", "crowdflower").statistics[0] == "tau_b"


def test_pairs():
    rows = [
        ("a", row(captions=["x", "y"], label=0, category="HC")),
        ("b", row(captions=["x", "z"], label=1, category="HC")),
        ("c", row(captions=["u", "v"], label=1, category="MM")),
        ("d", row(captions=["u", "v"], label=1, category="HI")),
        ("e", row(captions=["u", "v"], label=1, category="HM")),
    ]
    task = task_of("pascal50s", "default")
    assert task.queries(rows).ids[:3] == ["a|0", "a|1", "b|0"]
    scores = np.array([2.0, 1.0, 2.0, 1.0, 5.0, 5.0, 1.0, 2.0, 1.0, 2.0])
    outcome = task.outcome(rows, scores, quick)
    assert [value(outcome, f"accuracy_{name}") for name in ("hc", "hi", "hm", "mm", "mean")] == [
        0.5,
        1,
        1,
        0,
        0.625,
    ]
    assert outcome.counts == {"pairs": 5, "ties": 1, "left out": 0}


def test_foils_count_valid_rows_only():
    rows = [
        ("a", row(caption="x", foil="y", piece="plurals", valid=True)),
        ("b", row(caption="x", foil="z", piece="plurals", valid=True)),
        ("c", row(caption="x", foil="z", piece="plurals", valid=False)),
    ]
    task = task_of("valse", "plurals")
    assert task.queries(rows).candidates == ["x", "y", "x", "z", "x", "z"]
    outcome = task.outcome(rows, np.array([2.0, 1.0, 1.0, 2.0, 0.0, 9.0]), quick)
    assert [(s.name, s.value, s.n) for s in outcome.statistics] == [("accuracy_plurals", 0.5, 2)]
    assert outcome.counts["not valid"] == 1
    assert task.published_as("accuracy_plurals", "plurals") == ("plurals", "accuracy", ("",))
    assert task.published_as("accuracy_mean", "all") == ("all", "accuracy_mean", ("",))


def test_foils_of_pairs_are_ranked_together():
    rows = [
        ("a", row(caption="a dog", foil="a cat", foil_word="cat")),
        ("b", row(caption="a bus", foil="a van", foil_word="van")),
    ]
    for slug, config in (("foil", "default"), ("nocaps", "foil")):
        task = task_of(slug, config)
        assert task.queries(rows).candidates == ["a dog", "a cat", "a bus", "a van"]
        assert task.marked(rows) == [(False, []), (True, [(2, 5)]), (False, []), (True, [(2, 5)])]
        outcome = task.outcome(rows, np.array([4.0, 3.0, 2.0, 1.0]), quick)
        # right captions are first and third, foils first and third from the end
        assert [(s.name, s.value, s.n) for s in outcome.statistics] == [
            ("accuracy_all", 1.0, 2),
            ("average_precision_right", pytest.approx(5 / 6, abs=1e-12), 4),
            ("average_precision_foil", pytest.approx(5 / 6, abs=1e-12), 4),
        ]
        assert outcome.counts["pairs"] == outcome.counts["foils"] == 2


def test_hallucinated_tokens_have_places():
    rows = [("a", row(caption="A dog, asleep.", tokens=["A", "dog,", "asleep."], token_labels=[0, 1, 1]))]
    assert task_of("hat", "default").marked(rows) == [(True, [(2, 6), (7, 14)])]


def test_thumb_with_and_without_people():
    rng = np.random.default_rng(0)
    systems = ["Up-Down", "VinVL-large", "Human", "Up-Down", "VinVL-large", "Human"]
    ratings = rng.integers(1, 6, (6, 3)).astype(float)
    scores = rng.normal(size=6)
    rows = [
        (str(n), row(caption="x", system=systems[n], precision=p, recall=r, rating=t))
        for n, (p, r, t) in enumerate(ratings)
    ]
    outcome = task_of("thumb", "default").outcome(rows, scores, quick)
    machine = np.array([system != "Human" for system in systems])
    for column, name in enumerate(("precision", "recall", "total")):
        expected = pearsonr(scores[machine], ratings[machine, column]).statistic
        assert value(outcome, f"pearson_{name}_without_human") == pytest.approx(expected, abs=1e-12)
        expected = pearsonr(scores, ratings[:, column]).statistic
        assert value(outcome, f"pearson_{name}_with_human") == pytest.approx(expected, abs=1e-12)
    task = task_of("thumb", "default")
    assert task.published_as("pearson_total_with_human", "default")[1:] == ("pearson_total", ("with_human",))


def test_xvnli():
    labels = ["entailment", "neutral", "contradiction", "-"]
    rows = [
        (str(n), row(caption=str(n), label=label, premise_id="ab"[n // 2])) for n, label in enumerate(labels)
    ]
    outcome = task_of("xvnli", "en").outcome(rows, np.array([3.0, 1.0, 2.0, 9.0]), quick)
    # E > C holds; of the three pairs N > C does not; the triple does not
    assert [value(outcome, f"accuracy_{n}") for n in (1, 2, 3)] == [1.0, pytest.approx(2 / 3), 0.0]
    # of one premise are only E and N, so there is one pair and no more
    within = [value(outcome, f"accuracy_{n}_same_premise") for n in (1, 2, 3)]
    assert within == [None, 1.0, None]
    assert any(note.startswith("within a premise: ") for note in outcome.notes)
    task = task_of("xvnli", "en")
    assert task.published_as("accuracy_1_same_premise", "fr") == ("fr", "accuracy_1", ("",))
    assert task.published_as("accuracy_1", "fr") == ("fr", "accuracy_1", ())


def test_marvl_looks_at_two_photos_a_row():
    rows = [
        (
            str(n),
            {
                **{f"{side}_image_id": f"{side}{n}.jpg" for side in ("left", "right")},
                **{f"{side}_image": None for side in ("left", "right")},
                "language": "tr",
                "caption": "c",
                "id": f"tr-{n}",
                "label": n < 2,
            },
        )
        for n in range(4)
    ]
    task = task_of("marvl", "tr")
    assert task.queries(rows).image_ids[:2] == ["left0.jpg", "right0.jpg"]
    outcome = task.outcome(rows, np.array([5.0, 1.0, 4.0, 1.0, 0.0, 3.0, 6.0, 4.5]), quick)
    # maxima of the true rows 5 and 4; minima of the false rows 0 and 4.5
    assert value(outcome, "accuracy_1") == 0.75
    assert value(outcome, "accuracy_2") == 0.0
    assert task.queries(rows).owners == [0, 0, 1, 1, 2, 2, 3, 3]
