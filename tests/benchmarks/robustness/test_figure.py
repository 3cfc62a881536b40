"""The figure of drops: dots, whiskers, published values, and a legend that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capscore.benchmarks.robustness import RobustnessOptions, run_robustness
from capscore.show import figures
from capscore.show.figures import dot_drops, write_dots
from capscore.show.robustness_tables import groups

KINDS = ["masking", "jumble"]


def drawn(runs, path, monkeypatch):
    """The figure that `write_dots` saves."""
    kept = []
    save = figures.save_figure
    monkeypatch.setattr(figures, "save_figure", lambda figure, to: (kept.append(figure), save(figure, to))[1])
    write_dots(runs, path)
    return kept[0]


def test_whiskers_are_the_interval_of_one_language(captions, scorer):
    run = run_robustness(captions, {"mcs": scorer}, RobustnessOptions(bootstrap=50))
    result = run.results[0]
    for drop, kind in zip(dot_drops(groups([run])[0], "mcs", KINDS), KINDS, strict=True):
        assert drop.mean == pytest.approx(result.value(f"drop_{kind}"))
        assert (drop.low, drop.high) == result.statistics[f"drop_{kind}"].interval
        assert drop.published is None


def test_whiskers_are_the_range_over_languages(captions, scorer):
    published = replace(captions, data="coco_captions", split="test")
    other = replace(published, language="de", captions=[text[::-1] for text in published.captions])
    options = RobustnessOptions(bootstrap=0, kinds=("masking", "jumble"))
    runs = [run_robustness(each, {"mcs": scorer}, options) for each in (published, other)]
    drops = [[run.results[0].value(f"drop_{kind}") for run in runs] for kind in KINDS]
    for drop, values in zip(dot_drops(groups(runs)[0], "mcs", KINDS), drops, strict=True):
        assert drop.mean == pytest.approx(sum(values) / 2)
        assert (drop.low, drop.high) == (min(values), max(values))
        assert drop.published is not None


def test_the_legend_fits_with_published_values(captions, scorer, tmp_path, monkeypatch):
    published = replace(captions, data="coco_captions", split="test")
    names = {
        "mcs@xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k": scorer,
        "pr_mcs@some-organisation/a-rather-long-name-of-a-fine-tuned-tower": scorer,
        "clip_score": scorer,
    }
    run = run_robustness(published, names, RobustnessOptions(bootstrap=0))
    figure = drawn([run], tmp_path / "drops.png", monkeypatch)
    figure.canvas.draw()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 5  # CLIPScore has no published values here
    box = legend.get_window_extent()
    assert 0 <= box.x0 and box.x1 <= figure.bbox.x1 and 0 <= box.y0
    title = figure.axes[0].get_title(loc="left")
    assert "whisker" not in title and "stand in" not in title


def test_stand_ins_are_said_and_no_line_joins_kinds(captions, scorer, plain, tmp_path, monkeypatch):
    given = replace(captions, images=[None] * 4, stand_ins=["red", "red", "blue", "blue"])
    options = RobustnessOptions(bootstrap=50)
    run = run_robustness(given, {"mcs": scorer}, options, plain_embedders={"mcs": plain})
    figure = drawn([run], tmp_path / "drops.svg", monkeypatch)
    title = figure.axes[0].get_title(loc="left").replace("\n", " ")
    assert "texts stand in for photos" in title and "whisker: 95 % interval" in title
    for line in figure.axes[0].get_lines():
        heights = line.get_ydata()
        assert len(set(heights)) == 1 or list(line.get_xdata()) == [0, 0]
