"""The search over the loss weights: every combination once, and the pick of the stated rule."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from capscore.errors import CapscoreError
from tests.backbones import tiny_transformers as tiny
from training import grid
from training.grid import GridRun, GridSettings, pick, report, search

from .caption_file import write_captions


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("grid")
    return write_captions(folder / "captions.jsonl"), tiny.write_clip(folder / "clip")


@pytest.fixture
def settings(files, tmp_path):
    data, base = files

    def make(**changes) -> GridSettings:
        plain = dict(out=str(tmp_path / "grid"), base=str(base), data=[str(data)], batch_size=6, max_steps=2)
        plain |= dict(learning_rate=1e-3, validation_share=0.25, kinds=["masking", "jumble"])
        plain |= dict(lambda_1_values=[0.1, 0.5], lambda_2_values=[0.05], lambda_3_values=[0.05])
        return GridSettings(**{**plain, "min_original": 0.0, "min_agreement": -1.0, **changes})

    return make


def shown(settings, table) -> str:
    console = Console(file=io.StringIO(), width=200)
    report(settings, table).print(console)
    return console.file.getvalue()


def test_the_default_grid_is_sixteen_runs_in_the_published_ranges(settings):
    names = ("lambda_1_values", "lambda_2_values", "lambda_3_values")
    plain = {name: GridSettings.__dataclass_fields__[name].default_factory() for name in names}
    runs = settings(**plain).runs()
    weights = [(run.lambda_1, run.lambda_2, run.lambda_3) for run in runs]
    assert len(set(weights)) == len(weights) == 16 == len({run.out for run in runs})
    assert (0.1, 0.05, 0.05) in weights
    assert max(w[0] for w in weights) == 0.5 and max(max(w[1:]) for w in weights) == 0.1


def test_the_rule(settings):
    def numbers(drop: float, original: float = 1.0, agreement: float = 1.0) -> dict[str, float]:
        return {"drop_average": drop, "original_of_base": original, "agreement_with_base": agreement}

    own = settings(min_original=0.9, min_agreement=0.8)
    found = [
        numbers(-0.9, original=0.89),  # scores of good captions fell
        numbers(-0.8, agreement=0.79),  # the order has changed
        numbers(-0.5, agreement=0.95),
        numbers(-0.5, original=0.9, agreement=0.99),  # as large a drop, and closer
        numbers(-0.4, agreement=0.8),
        {},  # a loss that is no number
        numbers(math.nan),
    ]
    assert pick(own, found) == 3
    assert pick(own, found[4:]) == 0
    assert pick(own, [found[0], *found[5:]]) is None
    assert "at least 0.9" in own.rule and "at least 0.8" in own.rule
    said = shown(own, [GridRun("l1_0.5", (0.5, 0.05, 0.05), {"drop_average": -0.25}, "no number")])
    assert "none is picked" in said and "l1_0.5: no number" in said and "−25.0" in said


def test_a_grid_trains_each_run_once_and_continues_where_it_stopped(settings, tmp_path, monkeypatch):
    steps: list[tuple[float, int]] = []
    plain = grid.train

    def counted(own):
        if len(steps) == 1:
            steps.append((own.lambda_1, -1))
            raise KeyboardInterrupt
        trained = plain(own)
        steps.append((own.lambda_1, trained.run.step - trained.run.resumed_from))
        return trained

    monkeypatch.setattr(grid, "train", counted)
    with pytest.raises(KeyboardInterrupt):
        search(settings())
    table = search(settings())
    assert steps == [(0.1, 2), (0.5, -1), (0.1, 0), (0.5, 2)], "what is finished is not trained again"
    stored = json.loads((tmp_path / "grid" / "grid.json").read_text(encoding="utf-8"))
    assert [run["folder"] for run in stored["runs"]] == ["l1_0.1-l2_0.05-l3_0.05", "l1_0.5-l2_0.05-l3_0.05"]
    assert stored["rule"] == settings().rule and stored["base"]["original_of_base"] == 1
    best = min(table, key=lambda run: run.numbers["drop_average"])
    assert [run.picked for run in table] == [run is best for run in table]
    assert shown(settings(), table).count("→") == 2  # the mark, and "text→image"
    with pytest.raises(CapscoreError, match=r"holds a run with margin=0\.1, but 0\.2 was given"):
        search(settings(margin=0.2))


def test_a_run_that_diverges_does_not_stop_the_others_and_bad_data_does(settings, tmp_path):
    table = search(settings(learning_rate=1e30, clip_norm=None, max_steps=4))
    assert all("step" in run.problem and not run.numbers for run in table) and len(table) == 2
    assert not any(run.picked for run in table)
    path = tmp_path / "bad.jsonl"
    path.write_text('{"stand_in": "y", "caption": 3, "language": "en"}\n')
    with pytest.raises(CapscoreError, match="caption: 3 is a int"):
        search(settings(data=[str(path)], out=str(tmp_path / "other")))
