"""The doors to the library give one number for the same rows, whatever the rows and names are like."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import capscore
from capscore.errors import OptionError
from capscore.integrations.ray import Score
from capscore.integrations.torchmetrics import CaptionMetric
from capscore.integrations.trainer import CaptionCallback

from .toy import RED, ColourBackbone

REFERENCES = [["a dog runs on the grass"], ["two men sit on a bench"], ["a red car in the street"]]


# ---- torchmetrics


def test_metrics_of_a_collection_keep_their_own_rows_unless_all_settings_agree():
    """They agree on the first batch: a caption of one sentence, then one of two."""

    def made():
        backbone = ColourBackbone()
        backbone.by_sentence = True
        options = {"language": "en", "backbone": backbone, "cache": False}
        metrics = {"mcs": CaptionMetric("mcs", **options), "again": CaptionMetric("mcs", **options)}
        metrics |= {"cut": CaptionMetric("mcs", long="cut", **options)}
        return metrics | {"clip_score": CaptionMetric("clip_score", **options)}

    together, alone = MetricCollection(made()), made()
    for batch in ((["red"], [RED]), (["A red ball. The blue box."], [RED])):
        together.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    assert sorted(map(len, together.compute_groups.values())) == [1, 1, 2]
    found = {name: float(number) for name, number in together.compute().items()}
    assert found == {name: float(metric.compute()) for name, metric in alone.items()}
    assert found["mcs"] != found["cut"]


@pytest.mark.parametrize(
    "ids",
    [
        *([7, 8], ["7", "8"], [[7], [8]], (7, 8), np.array([7, 8]), np.array([[7], [8]])),
        *(torch.tensor([7, 8]), [torch.tensor(7), torch.tensor([8])], [np.int32(7), np.float64(8)]),
    ],
    ids=lambda ids: f"{type(ids).__name__} of {type(ids[0]).__name__}",
)
def test_a_row_has_one_name_whatever_holds_it(ids):
    metric = CaptionMetric("rouge_l", language="en")
    for named in ([7, 8], ids):
        metric.update(["a dog", "a cat"], references=[["a dog"], ["a bus"]], ids=named)
    assert int(metric.n_rows) == 2
    metric.update(["a", "b"], references=[["a"], ["b"]], ids=[None, float("nan")])
    assert int(metric.n_rows) == 4


# ---- names


def test_two_scorers_of_one_metric_are_refused_by_every_door():
    scorers = [capscore.load("mcs", backbone=ColourBackbone(), cache=False) for _ in range(2)]
    rows = [{"image": "a.jpg", "caption": "a dog"}]
    doors = {
        "stream": lambda: capscore.score_stream(rows, scorers),
        "file": lambda: capscore.score_file(rows, scorers),
        "file with a preset": lambda: capscore.score_file(rows, scorers, preset="multilingual"),
        "file and name": lambda: capscore.score_file(rows, [scorers[0], "mcs"]),
        "ray": lambda: Score(["mcs", "mcs@embedded-free"]),
        "trainer": lambda: CaptionCallback(len, ["a.jpg"], ["mcs", "mcs"]),
    }
    for call in doors.values():
        with pytest.raises(OptionError, match=r"two scorers of|is there twice"):
            call()


def test_systems_may_have_any_name():
    names = ["missing", "self", "rows", "systems", "images", "name", "all", "en"]
    systems = {name: [0.1 * number, 0.2, 0.3] for number, name in enumerate(names)}
    (found,) = capscore.compare_systems(systems, images=["a", "b", "c"])
    assert [*found.means] == names and [other.system for other in found.differences] == names[1:]
