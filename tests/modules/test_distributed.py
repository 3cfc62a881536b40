"""Several processes score one set of rows: each does its share of the work, the first gets all results."""

from __future__ import annotations

import threading
from pathlib import Path

import evaluate
import pytest

import capscore
from capscore.errors import CapscoreError, InputError

from ..toy import GREEN, RED, ColourBackbone
from .conftest import METRICS, WITH_BACKBONE


def modules(folder: Path, count: int, slug: str = "mcs", **options: object) -> list:
    options |= {"num_process": count, "experiment_id": "threads", "cache_dir": str(folder)}
    made = []
    for rank in range(count):
        towers = {"backbone": ColourBackbone(), "cache": False} if slug in WITH_BACKBONE else {}
        made.append(evaluate.load(str(METRICS / slug), process_id=rank, **options, **towers))
    return made


def at_once(*jobs) -> list:
    """Run each job in a thread of its own; returns what they returned or raised."""
    outcomes = [None] * len(jobs)

    def work(rank, job):
        try:
            outcomes[rank] = job()
        except Exception as error:
            outcomes[rank] = error

    threads = [threading.Thread(target=work, args=item) for item in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return outcomes


def test_rows_of_all_processes_are_one_corpus(tmp_path):
    """CIDEr of a row depends on those of the other process."""
    captions = ["a red kite", "ein roter Hund", "a dog", "ein Drachen", "two red dogs run"]
    references = [
        ["a red kite flies"],
        ["ein Hund", "der rote Hund"],
        ["a dog", "one dog"],
        ["ein roter Drachen"],
        ["two dogs run", "red dogs"],
    ]
    rows = {"predictions": captions, "references": references, "language": ["en", "de", "en", "de", "en"]}
    first, second = (
        {name: values[part] for name, values in rows.items()} for part in (slice(2), slice(2, 5))
    )
    parts = modules(tmp_path, 2, "cider")
    results = at_once(lambda: parts[0].compute(**first), lambda: parts[1].compute(**second))
    whole = capscore.load("cider").score(captions, references=references, language=rows["language"])
    assert results == [whole.to_dict(), None] and min(whole.scores) > 0.3
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize("how", ["compute alone", "an empty batch", "compute with empty lists"])
def test_a_process_without_rows(tmp_path, how):
    first, second, third = modules(tmp_path, 3)

    def empty():
        if how == "an empty batch":
            second.add_batch(predictions=[], images=[])
        if how == "compute with empty lists":
            return second.compute(predictions=[], images=[])
        return second.compute()

    results = at_once(
        lambda: first.compute(predictions=["red"], images=[RED]),
        empty,
        lambda: third.compute(predictions=["blue", "green"], images=[RED, GREEN]),
    )
    assert results[0]["scores"] == [2.5, 0.0, 2.5] and results[1:] == [None, None]
    assert (results[0]["n_items"], results[0]["n_unique_images"]) == (3, 2)
    # each encoded its own rows only
    assert [module.scorer.backbone.encoded_images for module in (first, second, third)] == [1, 0, 2]


def test_no_process_has_rows(tmp_path):
    first, second = modules(tmp_path, 2)
    results = at_once(first.compute, second.compute)
    assert isinstance(results[0], InputError) and "no rows" in str(results[0]) and results[1] is None


@pytest.mark.parametrize("died", [False, True])
def test_rows_of_a_late_process_are_waited_for_and_of_a_dead_one_missed(tmp_path, died):
    """The lock of a dead one is free and a part of its rows can be read; they must not pass for all."""
    first, second = modules(tmp_path, 2, timeout=1)
    at_once(
        lambda: first.add_batch(predictions=["red"], images=[RED]),
        lambda: second.add_batch(predictions=["blue"], images=[RED]),
    )
    if died:
        second.writer.write_examples_on_file()
        second.writer.stream.flush()
        second.filelock.release(force=True)
        with pytest.raises(CapscoreError, match=r"process 1 of 2 ended before it called compute\(\)"):
            first.compute()
        return
    with pytest.raises(ValueError, match="process 1"):
        first.compute()
    with pytest.raises(CapscoreError, match=r"call compute\(\) again"):
        first.add_batch(predictions=["green"], images=[RED])
    assert second.compute() is None
    assert first.compute()["scores"] == [2.5, 0.0]
