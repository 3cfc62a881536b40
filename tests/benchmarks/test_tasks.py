"""What of each benchmark is scored, and what becomes of the scores: with scores that are written out here."""

import numpy as np
import pytest

import capscore
from capscore.benchmarks.captioned import configs_by_language
from capscore.benchmarks.protocols import ProtocolResult, Statistic
from capscore.benchmarks.reading import configurations
from capscore.benchmarks.tasks import Task, TaskOptions, known_slugs, task_of
from capscore.errors import CapscoreError, InputError
from capscore.options import Sampling
from capscore.registry import BENCHMARKS, PROTOCOLS, register_protocol

quick = TaskOptions(sampling=Sampling(0))


def rows_of(*rows, **common):
    common = {"image_id": "1.jpg", "image": None, "language": "en", "caption": "c", **common}
    return [(str(number), {**common, **row}) for number, row in enumerate(rows)]


def values(outcome):
    return {row.name: row.value for row in outcome.statistics}


def test_crowd_and_experts_lead_with_their_own_statistic_and_what_is_unknown_is_refused():
    leading = [task_of("flickr8k_human", config).statistics[0] for config in ("expert", "crowdflower")]
    assert leading == ["tau_c", "tau_b"]
    with pytest.raises(CapscoreError, match="benchmark 'flickr' is not one of"):
        task_of("flickr", "default")
    for given in ({"raters": "median"}, {"missing": "drop"}):
        with pytest.raises(InputError, match=f"{next(iter(given))}=.*expected"):
            TaskOptions(**given)


def test_all_names_every_configuration_unless_one_has_that_name():
    every = configurations(["multi30k"], ["all"])
    assert [part.config for part in every] == ["en", "de", "fr", "cs", "task2_en", "task2_de"]
    assert [part.config for part in configurations(["nocaps"], ["all", "foil"])] == ["all", "foil"]
    assert configs_by_language("multi30k", ["all"]) == {code: code for code in ("en", "de", "fr", "cs")}
    assert configs_by_language("nocaps", ["all"]) == {"en": "all"}
    with pytest.raises(InputError, match=r"nocaps \(foil\) is not a set of captioned photos"):
        configs_by_language("nocaps", ["foil"])
    with pytest.raises(InputError, match="several sets of references in 'en': choose one of en, task2_en"):
        configs_by_language("multi30k", ["en", "task2_en"])


def test_pairs():
    pairs = ((0, "HC"), (1, "HC"), (1, "MM"), (1, "HI"), (1, "HM"))
    rows = rows_of(*({"captions": ["x", "y"], "label": label, "category": name} for label, name in pairs))
    task = task_of("pascal50s", "default")
    assert task.queries(rows).ids[:3] == ["0|0", "0|1", "1|0"]
    outcome = task.outcome(rows, np.array([2.0, 1.0, 2.0, 1.0, 5.0, 5.0, 1.0, 2.0, 1.0, 2.0]), quick)
    assert list(values(outcome).values()) == [0.5, 1, 1, 0, 0.625]


def test_foils_count_valid_rows_only():
    rows = rows_of(*({"foil": "y", "piece": "plurals", "valid": valid} for valid in (True, True, False)))
    task = task_of("valse", "plurals")
    assert task.queries(rows).candidates == ["c", "y"] * 3
    outcome = task.outcome(rows, np.array([2.0, 1.0, 1.0, 2.0, 0.0, 9.0]), quick)
    assert [(row.name, row.value, row.n) for row in outcome.statistics] == [("accuracy_plurals", 0.5, 2)]
    assert task.published_as("accuracy_plurals", "plurals") == ("plurals", "accuracy", ("",))
    assert task.published_as("accuracy_mean", "all") == ("all", "accuracy_mean", ("",))


def test_foils_of_pairs_are_ranked_together():
    foils = ("a cat", "cat"), ("a van", "van")
    rows = rows_of(*({"caption": "a dog", "foil": foil, "foil_word": word} for foil, word in foils))
    for slug, config in (("foil", "default"), ("nocaps", "foil")):
        task = task_of(slug, config)
        assert task.queries(rows).candidates == ["a dog", "a cat", "a dog", "a van"]
        assert task.marked(rows) == [(False, []), (True, [(2, 5)])] * 2
        # right captions are first and third, foils first and third from the end
        found = [*values(task.outcome(rows, np.array([4.0, 3.0, 2.0, 1.0]), quick)).values()]
        assert found == pytest.approx([1.0, 5 / 6, 5 / 6], abs=1e-12)
    tokens = {"tokens": ["A", "dog,", "asleep."], "token_labels": [0, 1, 1]}
    hat = rows_of({"caption": "A dog, asleep.", **tokens})
    assert task_of("hat", "default").marked(hat) == [(True, [(2, 6), (7, 14)])]


def test_thumb_correlates_each_rating():
    ratings = zip((1, 2, 3), (3, 2, 1), (1, 3, 2), strict=True)
    rows = rows_of(*({"precision": p, "recall": r, "rating": total} for p, r, total in ratings), system="A")
    task = task_of("thumb", "default")
    found = values(task.outcome(rows, np.array([1.0, 2.0, 3.0]), quick))
    of_people = [found[f"pearson_{name}_with_human"] for name in ("precision", "recall", "total")]
    assert of_people == pytest.approx([1, -1, 0.5])
    assert task.published_as("pearson_total_with_human", "default")[1:] == ("pearson_total", ("with_human",))


def test_xvnli_is_measured_by_photo_and_by_premise():
    labels = zip(["entailment", "neutral", "contradiction", "-"], "aabb", strict=True)
    rows = rows_of(*({"label": label, "premise_id": premise} for label, premise in labels))
    task = task_of("xvnli", "en")
    outcome = task.outcome(rows, np.array([3.0, 1.0, 2.0, 9.0]), quick)
    # E > C holds; of the three pairs N > C does not; the triple does not. Of one premise are only E and N
    assert list(values(outcome).values()) == [1.0, pytest.approx(2 / 3), 0.0, None, 1.0, None]
    assert any(note.startswith("within a premise: ") for note in outcome.notes)
    assert task.published_as("accuracy_1_same_premise", "fr") == ("fr", "accuracy_1", ("",))
    assert task.published_as("accuracy_1", "fr") == ("fr", "accuracy_1", ())


def test_marvl_looks_at_two_photos_a_row():
    photos = {"left_image": None, "right_image": None, "left_image_id": "l.jpg", "right_image_id": "r.jpg"}
    rows = rows_of(*({"id": f"tr-{n}", "label": n < 2} for n in range(4)), **photos)
    task = task_of("marvl", "tr")
    assert task.queries(rows).image_ids[:2] == ["l.jpg", "r.jpg"]
    # maxima of the true rows 5 and 4; minima of the false rows 0 and 4.5
    outcome = task.outcome(rows, np.array([5.0, 1.0, 4.0, 1.0, 0.0, 3.0, 6.0, 4.5]), quick)
    assert values(outcome) == {"accuracy_1": 0.75, "accuracy_2": 0.0}


def test_a_benchmark_of_another_package_names_a_protocol_of_its_own():
    @register_protocol("share_above")
    class ShareAbove(Task):
        def __init__(self, least):
            self.least = float(least)

        def outcome(self, rows, scores, options):
            share = float((scores > self.least).mean())
            return ProtocolResult((Statistic("share", share, None, len(scores)),), {"captions": len(scores)})

    class Rooms(capscore.CaptionBenchmark):
        task = "share_above 0.5"

    BENCHMARKS.register("rooms_above")(Rooms)
    try:
        task = task_of("rooms_above", "default")
        assert values(task.outcome([], np.array([0.2, 0.7, 0.9, 0.4]), quick)) == {"share": 0.5}
        assert task_of("rooms_above", "other") is task and "rooms_above" in known_slugs()
        Rooms.task = "share_abov 0.5"
        with pytest.raises(CapscoreError, match="did you mean 'share_above'"):
            task_of("rooms_above", "default")
    finally:
        BENCHMARKS.unregister("rooms_above")
        PROTOCOLS.unregister("share_above")
