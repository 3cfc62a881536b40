"""The picture: what is drawn where, in which shape and colour, and that nothing is drawn as an empty box."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("matplotlib")

from matplotlib import font_manager

from capscore import CapscoreError, MissingExtraError, ResultWriteError
from capscore.show.explain_picture import FontWarning, draw, visual_order, write_png

from ..infometic.invented import REGIONS, caption

PHOTO = Image.new("RGB", (40, 30), (120, 120, 120))
BLUE, ORANGE, RED = "#0072B2", "#E69F00", "#B93D00"


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def lines(figure, colour):
    return [line for line in figure.axes[0].lines if line.get_color() == colour]


def place(figure, words):
    (found,) = [text for text in figure.axes[0].texts if text.get_text() == words]
    return found.get_position()


def test_a_wrong_word_has_a_sign_a_wave_and_its_score():
    figure = draw(PHOTO, [caption("a red cat", right="red", wrong="cat")], beta=0.1)
    said = texts(figure)
    assert {"a", "red", "cat", "0.31", "0.02", "1 of 2 content words is wrong"} <= set(said)
    assert said.count("✗") == 2  # the word's, and the legend's
    wave, _ = lines(figure, RED)
    x, y = wave.get_data()
    assert x[0] == pytest.approx(place(figure, "cat")[0]) and np.ptp(y) > 2
    assert "wrong content word, score 0.1 or below" in said


def test_right_words_and_caption_without_errors_have_no_wave():
    figure = draw(PHOTO, [caption("a red cat", right="red cat")])
    assert len(lines(figure, RED)) == 1  # in the legend
    assert len(lines(figure, BLUE)) == 3  # under two words, and in the legend


def test_regions_are_told_apart_by_colour_line_and_sign():
    figure = draw(PHOTO, [caption("a dog", regions=REGIONS)])
    assert {"✓ 1 dog", "✗ 2 sky", "✗ 3 tree", "✗ 4 sign"} <= set(texts(figure))
    assert "✗ 5 bin" not in texts(figure)
    (solid,) = [line for line in lines(figure, BLUE) if len(line.get_xdata()) == 5]
    dashed = [line for line in lines(figure, ORANGE) if len(line.get_xdata()) == 5]
    assert solid.get_linestyle() == "-"
    assert [line.get_linestyle() for line in dashed] == ["--"] * 3
    # 390 points for 40 pixels; the photo begins at 20, without a title at its top too
    x, y = solid.get_data()
    assert [min(x), max(x)] == pytest.approx([20 + 5 * 9.75, 20 + 15 * 9.75])
    assert [min(y), max(y)] == pytest.approx([20 + 5 * 9.75, 20 + 25 * 9.75])


def test_scores_are_bars():
    figure = draw(
        PHOTO, [caption("a dog", scores={"precision": 0.4, "recall": float("nan"), "overall": 1.0})]
    )
    assert {"0.40", "no score", "1.00"} <= set(texts(figure))
    tracks, full = lines(figure, "#e4e3df"), lines(figure, "#1b1d21")
    long = [np.ptp(line.get_xdata()) for line in tracks]
    assert [np.ptp(line.get_xdata()) for line in full] == pytest.approx([0.4 * long[0], 0.5 * long[2]])


def test_captions_stand_below_each_other():
    figure = draw(PHOTO, [caption("one"), caption("two")], title="photo.jpg", signature="infometic|beta:0.1")
    assert place(figure, "photo.jpg")[1] < place(figure, "one")[1] < place(figure, "two")[1]
    assert len(figure.axes[0].images) == 2
    assert "infometic|beta:0.1" in texts(figure)


def test_long_captions_are_broken_and_nothing_runs_over_the_edge():
    long = caption("many words " * 30 + "z" * 200 + " ¿end?")
    figure = draw(PHOTO, [long], title="a" * 300, signature="b" * 400)
    figure.canvas.draw()
    width, height = figure.bbox.size
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
    assert "".join("".join(texts(figure)).split()).count("z") == 200


def test_arabic_runs_from_right_to_left():
    words = "قطة تنام هنا"
    figure = draw(PHOTO, [caption(words, "ar", right="قطة هنا", wrong="تنام")])
    first, second, third = (place(figure, word)[0] for word in words.split())
    assert first > second > third


def test_lines_of_both_directions():
    assert visual_order(["a", " ", "b"], False) == [0, 1, 2]
    assert visual_order(["a", " ", "قطة", " ", "هنا", " ", "b"], False) == [0, 1, 4, 3, 2, 5, 6]
    assert visual_order(["قطة", " ", "(", "3", " ", "cats", ")", "."], True) == [7, 6, 3, 4, 5, 2, 1, 0]
    assert visual_order([], True) == []


def test_characters_without_a_font_are_named_and_not_drawn(monkeypatch):
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    with pytest.warns(
        FontWarning, match=r"No font on this machine has 2 of the characters.*U\+304C, U\+732B"
    ):
        figure = draw(PHOTO, [caption("猫が", "ja", wrong="猫", split=".")])
    said = texts(figure)
    assert "?" in said and not any(letter in text for text in said for letter in "猫が")
    assert any("U+732B" in text for text in said)


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 2)])
def test_photos_of_any_shape(size, tmp_path):
    regions = [((0, 0, *size), True, 1.0, "$x_1$"), ((0, 0, 1, 1), False, 1.0, "")]
    item = caption("costs $5 or $6", regions=regions, size=size)
    path = write_png(tmp_path / "new" / "photo.png", Image.new("RGB", size), [item])
    with Image.open(path) as drawn:
        assert drawn.width == 1625 and drawn.height > 500


def test_nothing_is_left_where_it_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(CapscoreError, match=r"expected a name that ends in .png"):
        write_png(tmp_path / "photo.jpg", PHOTO, [caption("a")])
    with pytest.raises(CapscoreError, match="no caption"):
        write_png(tmp_path / "photo.png", PHOTO, [])
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ResultWriteError, match="picture"):
        write_png(tmp_path / "folder.png", PHOTO, [caption("a")])
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="matplotlib"):
        draw(PHOTO, [caption("a")])


def test_the_same_input_gives_the_same_pixels():
    item = caption("a red cat", right="red", wrong="cat", regions=REGIONS)
    drawn = []
    for _ in range(2):
        file = io.BytesIO()
        draw(PHOTO, [item]).savefig(file, format="rgba")
        drawn.append(file.getvalue())
    assert drawn[0] == drawn[1]
