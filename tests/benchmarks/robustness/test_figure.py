"""The figure of drops: published values, stand-ins, and a legend that fits."""

from __future__ import annotations

from dataclasses import replace

from capscore.benchmarks.robustness import RobustnessOptions, run_robustness
from capscore.show import figures


def drawn(run, path, monkeypatch):
    """The figure that `write_dots` saves."""
    kept = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, to: kept.append(figure))
    figures.write_dots([run], path)
    return kept[0]


def test_the_legend_fits_with_published_values(captions, scorer, tmp_path, monkeypatch):
    names = (
        "mcs@xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k",
        "pr_mcs@some-organisation/a-rather-long-name-of-a-fine-tuned-tower",
        "clip_score",
    )
    published = replace(captions, data="coco_captions", split="test")
    run = run_robustness(published, dict.fromkeys(names, scorer), RobustnessOptions(bootstrap=0))
    figure = drawn(run, tmp_path / "drops.png", monkeypatch)
    figure.canvas.draw()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 5  # CLIPScore has no published values here
    box = legend.get_window_extent()
    assert 0 <= box.x0 and box.x1 <= figure.bbox.x1 and 0 <= box.y0
    title = figure.axes[0].get_title(loc="left")
    assert "whisker" not in title and "stand in" not in title


def test_stand_ins_are_said_and_no_line_joins_kinds(captions, scorer, plain, tmp_path, monkeypatch):
    given = replace(captions, images=[None] * 4, stand_ins=["red", "red", "blue", "blue"])
    options = RobustnessOptions(bootstrap=50, kinds=("masking", "jumble"))
    run = run_robustness(given, {"mcs": scorer}, options, plain_embedders={"mcs": plain})
    axes = drawn(run, tmp_path / "drops.svg", monkeypatch).axes[0]
    title = axes.get_title(loc="left").replace("\n", " ")
    assert "texts stand in for photos" in title and "whisker: 95 % interval" in title
    for line in axes.get_lines():
        assert len(set(line.get_ydata())) == 1 or list(line.get_xdata()) == [0, 0]
