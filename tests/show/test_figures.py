"""The figure of drops: what it needs, says and leaves; equal numbers give equal files."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from capscore import CapscoreError, MissingExtraError
from capscore.benchmarks.robustness import RobustnessOptions, run_robustness
from capscore.show import figures
from capscore.show.figures import write_dots

from ..benchmarks.robustness.conftest import captions, plain, scorer

__all__ = ["captions", "plain", "scorer"]


@pytest.fixture
def measured(captions, scorer):
    names = "mcs@xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k", "pr_mcs@some-organisation/a-long-name", "x"
    published = replace(captions, data="coco_captions", split="test")
    options = RobustnessOptions(bootstrap=0, kinds=("masking", "jumble"))
    return run_robustness(published, dict.fromkeys(names, scorer), options)


def drawn(run, monkeypatch):
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, to: kept.append(figure))
    write_dots([run], "drops.svg")
    return kept[0]


def test_equal_numbers_give_equal_files(measured, tmp_path):
    for suffix, start in {".png": b"\x89PNG", ".SVG": b"<?xml", ".pdf": b"%PDF"}.items():
        path, other = (write_dots([measured], tmp_path / f"{name}{suffix}") for name in ("one", "other"))
        assert path.read_bytes().startswith(start) and path.read_bytes() == other.read_bytes()


def test_the_legend_fits_with_published_values(measured, monkeypatch):
    figure = drawn(measured, monkeypatch)
    figure.canvas.draw()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 5  # x has no published values
    box = legend.get_window_extent()
    assert 0 <= box.x0 and box.x1 <= figure.bbox.x1 and 0 <= box.y0
    assert "whisker" not in (title := figure.axes[0].get_title(loc="left")) and "stand in" not in title


def test_stand_ins_are_said_and_no_line_joins_kinds(captions, scorer, plain, monkeypatch):
    given = replace(captions, images=[None] * 4, stand_ins=["red", "red", "blue", "blue"])
    options = RobustnessOptions(bootstrap=50, kinds=("masking", "jumble"))
    run = run_robustness(given, {"mcs": scorer}, options, plain_embedders={"mcs": plain})
    axes = drawn(run, monkeypatch).axes[0]
    title = axes.get_title(loc="left").replace("\n", " ")
    assert "texts stand in for photos" in title and "whisker: 95 % interval" in title
    for line in axes.get_lines():
        assert len(set(line.get_ydata())) == 1 or list(line.get_xdata()) == [0, 0]


def test_figure_says_what_it_needs(measured, tmp_path, monkeypatch):
    with pytest.raises(CapscoreError, match=r"a figure is one of \.png, \.svg, \.pdf"):
        write_dots([measured], tmp_path / "out.gif")
    with pytest.raises(CapscoreError, match="no measured number"):
        write_dots([], tmp_path / "out.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"capscore\[figures\]"):
        write_dots([measured], tmp_path / "out.png")
