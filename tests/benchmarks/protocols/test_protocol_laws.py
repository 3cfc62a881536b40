"""Laws of every protocol of rows; `retrieval`, whose rows are matrices, has its own file."""

import inspect
import json
import math

import numpy as np
import pandas
import pyarrow
import pytest
import torch

from capscore.benchmarks import protocols
from capscore.benchmarks.protocols import captokeneval, detailcaps, foils, localisation, marvl, xvnli
from capscore.benchmarks.tasks import TaskOptions
from capscore.cli.benchmark import benchmark
from capscore.errors import InputError
from capscore.options import Sampling
from capscore.statistics.agreement import agreement, compare
from capscore.statistics.bootstrap import multiplicities


def thumb(scores, precision, recall, total, systems, **how):
    """The protocol, with a column for each rating."""
    return protocols.thumb(scores, {"precision": precision, "recall": recall, "total": total}, systems, **how)


N = 24
chance = np.random.default_rng(4)
A, B, C = chance.integers(0, 6, (3, N)) / 5
PHOTOS = [f"{number % 7}.jpg" for number in range(N)]
GROUPS = [f"caption {number // 4}" for number in range(N)]
MARKED = [[number % 2, 0, 0, number % 4 == 1] for number in range(N)]
pairwise = protocols.pairwise_by_category
# protocol → its columns of scores
SCORES = {
    pairwise: {"first": A, "second": B},
    foils: {"caption_scores": A, "foil_scores": B},
    xvnli: {"scores": A},
    marvl: {"left_scores": A, "right_scores": B},
    thumb: {"scores": A},
    detailcaps: {"scores": A / 2},
    localisation: {"caption_scores": A},
    captokeneval: {"word_scores": np.stack([A, B], 1).tolist(), "region_scores": [[c] for c in C]},
}
DOUBTS = [[x, None, y, 0.5] for x, y in np.stack([B, C], 1).tolist()]
SECOND = {"word_labels": [[1, number % 2] for number in range(N)]}
SECOND |= {"semantic": [[1, number % 3 > 0] for number in range(N)]}
# and its other columns
OTHERS = {
    pairwise: {"labels": chance.integers(0, 2, N), "categories": ["HC", "HI", "HM", "MM"] * (N // 4)},
    foils: {"pieces": chance.choice(["a", "b"], N), "valid": chance.random(N) < 0.8},
    xvnli: {"labels": [*protocols.XVNLI_LABELS] * (N // 3), "image_ids": PHOTOS},
    marvl: {"labels": [True, True, False, False] * (N // 4), "captions": GROUPS, "ids": [*range(N)]},
    thumb: {"precision": B, "recall": C, "total": B + C, "systems": chance.choice(["A", "B", "Human"], N)},
    detailcaps: {"grades": B, "photos": PHOTOS},
    localisation: {"foils": [n % 2 for n in range(N)], "word_doubts": DOUBTS, "word_labels": MARKED},
    captokeneval: {**SECOND, "region_labels": [[number % 2] for number in range(N)]},
}
# a value that stands in none of these
WRONG = {pairwise: 2, localisation: 7, captokeneval: [2, 2]}
DRAWING = [protocol for protocol in SCORES if protocol is not captokeneval]
every_protocol = pytest.mark.parametrize("protocol", SCORES, ids=lambda protocol: protocol.__name__)
every_drawing_one = pytest.mark.parametrize("protocol", DRAWING, ids=lambda protocol: protocol.__name__)


def columns_of(protocol):
    columns = {name: list(column) for name, column in (SCORES[protocol] | OTHERS[protocol]).items()}
    has_images = "images" in inspect.signature(getattr(protocols, protocol.__name__)).parameters
    return {**columns, **({"images": PHOTOS} if has_images else {})}


def test_every_protocol_is_here():
    functions = {name for name in protocols.__all__ if inspect.isfunction(getattr(protocols, name))}
    assert functions == {*(protocol.__name__ for protocol in SCORES), "retrieval", "battles_with_people"}


@every_protocol
def test_results_are_json_and_statistics_have_names(protocol):
    found = protocol(**columns_of(protocol), **({"sampling": Sampling(20)} if protocol in DRAWING else {}))
    json.dumps([found.details, found.counts], allow_nan=False)
    assert len({row.name for row in found.statistics}) == len(found.statistics) > 1
    for row in found.statistics:
        assert -1 <= row.value <= (math.inf if row.name == "one_minus_r2" else 1) and type(row.n) is int
        assert (row.interval is not None) == (protocol in DRAWING)
    assert found.table() == [(row.name.replace("_", " "), row.value, row.n) for row in found.statistics]
    assert all(found.value(row.name) == row.value for row in found.statistics)
    assert all(type(number) is int for number in found.counts.values())


@every_protocol
def test_the_order_of_rows_does_not_matter(protocol):
    columns = columns_of(protocol)
    order = np.random.default_rng(1).permutation(N)
    shuffled = {name: [column[row] for row in order] for name, column in columns.items()}
    drawing = {"sampling": Sampling(20)} if protocol in DRAWING else {}
    for how in (drawing, *([drawing | {"images": None}] if "images" in columns else [])):
        one, other = protocol(**{**columns, **how}), protocol(**{**shuffled, **how})
        for row, again in zip(one.statistics, other.statistics, strict=True):
            assert (again.name, again.n) == (row.name, row.n)
            assert again.value == pytest.approx(row.value, abs=1e-12)
            assert again.interval == (row.interval and pytest.approx(row.interval, abs=1e-12))
        assert one.counts == other.counts


@every_drawing_one
def test_intervals_are_those_of_photos_or_groups_drawn_and_written_out(protocol):
    columns = columns_of(protocol)
    units = GROUPS if protocol is marvl else PHOTOS
    found = protocol(**columns, sampling=Sampling(30, 0.5, 5))
    names = sorted(set(units))
    samples = {row.name: [] for row in found.statistics}
    for times in multiplicities(np.random.default_rng(5), len(names), 30).T:
        drawn = [(row, copy) for row in range(N) for copy in range(times[names.index(units[row])])]
        # a photo or a group that is drawn twice is two
        written = {name: [column[row] for row, _ in drawn] for name, column in columns.items()}
        for name in {"images", "image_ids", "photos", "captions", "ids"} & columns.keys():
            written[name] = [f"{columns[name][row]} {copy}" for row, copy in drawn]
        for name, value, *_ in protocol(**written).statistics:
            samples[name] += [] if value is None else [value]
    for name, _, interval, _ in found.statistics:
        assert interval == pytest.approx(tuple(np.quantile(samples[name], [0.25, 0.75])), abs=1e-12), name


@every_drawing_one
def test_intervals_need_two_photos_and_the_default_seed_is_0(protocol):
    columns = columns_of(protocol)
    drawn = [protocol(**columns, sampling=Sampling(20, **seed)) for seed in ({}, {"seed": 0}, {"seed": 1})]
    assert drawn[0].statistics == drawn[1].statistics != drawn[2].statistics
    assert all(row.interval is None for row in protocol(**columns).statistics)
    if "images" in columns:
        one = protocol(**{**columns, "images": ["a"] * N}, sampling=Sampling(9))
        assert all(row.interval is None for row in one.statistics)
        assert any("needs at least 2 images" in note for note in one.notes)
        by_row = protocol(**{**columns, "images": None}, sampling=Sampling(50))
        assert any("resampled by" in note for note in by_row.notes)


@every_protocol
def test_a_missing_score_stops_or_is_left_out_and_counted(protocol):
    columns = columns_of(protocol)
    assert protocol(**columns).counts["left out"] == 0
    for name in SCORES[protocol]:
        gap = [math.nan, *columns[name][5][1:]] if isinstance(columns[name][0], list) else None
        lacking = {**columns, name: [*columns[name][:5], gap, *columns[name][6:]]}
        if protocol is foils:
            lacking["valid"] = [True] * N
        with pytest.raises(InputError, match="missing='skip' leaves out") as caught:
            protocol(**lacking)
        assert (caught.value.row, caught.value.field) == (5, name)
        skipped = protocol(**lacking, missing="skip")
        assert skipped.counts["left out"] > 0 and any("left out" in note for note in skipped.notes)
        filled = protocol(**{**lacking, name: columns[name]})
        assert sum(row.n for row in skipped.statistics) < sum(row.n for row in filled.statistics)
    with pytest.raises(InputError, match="missing='ignore'"):
        protocol(**columns, missing="ignore")


@every_protocol
def test_a_column_that_does_not_fit_is_named(protocol):
    columns = columns_of(protocol)
    for name in columns:
        with pytest.raises(InputError) as caught:
            protocol(**{**columns, name: columns[name][:-1]})
        assert name in next(iter(columns)) or caught.value.field == name
        for given in ("abc", 3, {"a": 1}):
            with pytest.raises(InputError, match=f"{name}: "):
                protocol(**{**columns, name: given})
        cell = "x" if name in SCORES[protocol] else None if name == "images" else WRONG.get(protocol)
        with pytest.raises(InputError) as caught:
            protocol(**{**columns, name: [*columns[name][:3], cell, *columns[name][4:]]})
        assert (caught.value.row, caught.value.field) == (3, name)
    with pytest.raises(InputError):
        protocol(**{name: [] for name in columns})


def test_columns_of_common_types_are_accepted():
    scores, pieces = [0.9, 0.5, 0.3], ["a", "a", "b"]
    expected = foils(scores, [0.1, 0.5, 0.4], pieces, [True, True, False])
    series = pandas.Series(scores, index=[5, 6, 7]), pandas.array(scores, dtype="Float64")
    for column in (*series, pyarrow.array(scores), torch.tensor(scores, dtype=torch.float64)):
        assert foils(column, [0.1, 0.5, 0.4], pieces, [True, True, False]) == expected
    for column in (np.array(pieces), pandas.Series(pieces, index=[5, 6, 7]), pyarrow.array(pieces)):
        assert foils(scores, [0.1, 0.5, 0.4], column, np.array([True, True, False])) == expected


def test_defaults_of_runs_and_commands():
    """Other defaults would change published intervals."""
    assert TaskOptions() == TaskOptions("flatten", "raise", Sampling(1000, 0.95, 0))
    found = {name: part.default for name, part in inspect.signature(benchmark).parameters.items()}
    assert (found["bootstrap"], found["confidence"], found["seed"]) == (1000, 0.95, 0)
    for function, draws in ((agreement, 0), (compare, 1000)):
        assert inspect.signature(function).parameters["sampling"].default == Sampling(draws, 0.95, 0)
