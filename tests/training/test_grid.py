"""The search over the loss weights: every combination once, and the pick of the stated rule."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from capscore.errors import CapscoreError
from tests.backbones import tiny_transformers as tiny
from training import grid
from training.grid import GridSettings, picked, search, show

from .caption_file import write_captions


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("grid")
    return write_captions(folder / "captions.jsonl"), tiny.write_clip(folder / "clip")


@pytest.fixture
def settings(files, tmp_path):
    data, base = files

    def make(**changes) -> GridSettings:
        plain = dict(
            out=str(tmp_path / "grid"),
            base=str(base),
            data=[str(data)],
            batch_size=6,
            max_steps=2,
            learning_rate=1e-3,
            validation_share=0.25,
            kinds=["masking", "jumble"],
            lambda_1_values=[0.1, 0.5],
            lambda_2_values=[0.05],
            lambda_3_values=[0.05],
            min_original=0.0,
            min_agreement=-1.0,
        )
        return GridSettings(**{**plain, **changes})

    return make


def numbers(drop: float, original: float = 1.0, agreement: float = 1.0) -> dict[str, float]:
    return {"drop_average": drop, "original_of_base": original, "agreement_with_base": agreement}


def test_the_default_grid_is_sixteen_runs_in_the_published_ranges(settings):
    names = ("lambda_1_values", "lambda_2_values", "lambda_3_values")
    plain = {name: GridSettings.__dataclass_fields__[name].default_factory() for name in names}
    runs = settings(**plain).runs()
    weights = [(run.lambda_1, run.lambda_2, run.lambda_3) for run in runs]
    assert len(set(weights)) == len(weights) == 16
    assert (0.1, 0.05, 0.05) in weights
    assert max(w[0] for w in weights) == 0.5 and max(max(w[1:]) for w in weights) == 0.1
    assert len({run.out for run in runs}) == 16


def test_the_rule(settings):
    own = settings(lambda_1_values=[0.0, 0.1, 0.2, 0.3, 0.4, 0.5], min_original=0.9, min_agreement=0.8)
    found = [
        (numbers(-0.9, original=0.89), ""),  # scores of good captions fell
        (numbers(-0.8, agreement=0.79), ""),  # the order has changed
        (numbers(-0.5, agreement=0.95), ""),
        (numbers(-0.5, agreement=0.99), ""),  # as large a drop, and closer
        (numbers(-0.4), ""),
        ({}, "a loss that is no number"),
    ]
    table = picked(own, own.runs(), found)
    assert [run.counts for run in table] == [False, False, True, True, True, False]
    assert [run.lambda_1 for run in table if run.picked] == [0.3]
    assert "at least 0.9" in own.rule and "at least 0.8" in own.rule


def test_none_is_picked_where_none_passes(settings, capsys):
    own = settings()
    table = picked(own, own.runs(), [(numbers(math.nan), ""), ({}, "a loss that is no number")])
    assert not any(run.picked or run.counts for run in table)
    assert table[0].numbers["drop_average"] is None
    show(own, table)
    said = capsys.readouterr().out
    assert "none is picked" in said and "l1_0.5-l2_0.05-l3_0.05: a loss that is no number" in said


def test_a_search_runs_each_once_and_goes_on_where_it_stopped(settings, tmp_path, monkeypatch, capsys):
    done: list[float] = []
    plain = grid.train

    def counted(own):
        done.append(own.lambda_1)
        if done == [0.1, 0.5]:
            raise KeyboardInterrupt
        return plain(own)

    monkeypatch.setattr(grid, "train", counted)
    with pytest.raises(KeyboardInterrupt):
        search(settings())
    table = search(settings())
    assert done == [0.1, 0.5, 0.5]
    assert search(settings()) == table and len(done) == 3
    stored = json.loads((tmp_path / "grid" / "grid.json").read_text(encoding="utf-8"))
    assert [run["folder"] for run in stored["runs"]] == ["l1_0.1-l2_0.05-l3_0.05", "l1_0.5-l2_0.05-l3_0.05"]
    assert stored["rule"] == settings().rule
    assert stored["base"]["original_of_base"] == 1
    best = min(table, key=lambda run: run.numbers["drop_average"])
    assert [run.picked for run in table] == [run is best for run in table]
    show(settings(), table)
    assert "→" in capsys.readouterr().out


def test_a_finished_run_with_other_settings_or_data_is_no_result(settings, tmp_path, files):
    data, _ = files
    copy = tmp_path / "captions.jsonl"
    copy.write_bytes(data.read_bytes())
    one = dict(data=[str(copy)], lambda_1_values=[0.1], max_steps=1)
    search(settings(**one))
    with pytest.raises(CapscoreError, match=r"holds a run with margin=0\.1, but 0\.2 was given"):
        search(settings(**one, margin=0.2))
    lines = copy.read_text(encoding="utf-8").splitlines(keepends=True)
    copy.write_text("".join(lines[3:]), encoding="utf-8")
    with pytest.raises(CapscoreError, match=r"captions\.jsonl has changed since"):
        search(settings(**one))


def test_a_run_that_diverges_does_not_stop_the_others(settings):
    table = search(settings(learning_rate=1e30, clip_norm=None, max_steps=4))
    assert all("step" in run.problem and not run.numbers for run in table) and len(table) == 2
    assert not any(run.picked for run in table)


def test_bad_data_stops_the_search(settings, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"stand_in": "y", "caption": 3, "language": "en"}\n')
    with pytest.raises(CapscoreError, match="caption: 3 is a int"):
        search(settings(data=[str(path)]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lambda_1_values": []}, r"lambda_1_values=\[\]"),
        ({"lambda_2_values": [-0.1]}, r"lambda_2_values=\[-0\.1\]"),
        ({"lambda_3_values": [0.1, 0.1]}, "a weight is named twice"),
        ({"validation_share": 0.0}, "needs captions to measure its runs on"),
    ],
)
def test_searches_that_cannot_be(settings, changes, message):
    with pytest.raises(CapscoreError, match=message):
        settings(**changes)
