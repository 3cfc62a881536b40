"""The picture: what is drawn where, in which shape and colour, and that nothing is drawn as an empty box."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("matplotlib")

from matplotlib import font_manager

from capscore import CapscoreError, MissingExtraError, ResultWriteError
from capscore.show import fonts as font_files
from capscore.show.canvas import Canvas
from capscore.show.explain_picture import FontWarning, draw, write_png
from capscore.show.marked_words import visual_order

from ..infometic.invented import REGIONS, caption

PHOTO = Image.new("RGB", (40, 30), (120, 120, 120))
BLUE, ORANGE = "#0072B2", "#E69F00"


class Drawn:
    """What is drawn on the canvas, by kind: the arguments of every call."""

    def __init__(self, monkeypatch):
        self.calls = {name: [] for name in ("text", "line", "wave", "frame", "photo")}
        for name, calls in self.calls.items():
            monkeypatch.setattr(Canvas, name, self.recorded(getattr(Canvas, name), calls))

    @staticmethod
    def recorded(method, calls):
        def record(canvas, *arguments, **options):
            calls.append(arguments)
            return method(canvas, *arguments, **options)

        return record

    @property
    def texts(self) -> list[str]:
        return [text for _, _, text, *_ in self.calls["text"]]

    def place(self, words: str) -> tuple[float, float]:
        (found,) = [(x, y) for x, y, text, *_ in self.calls["text"] if text == words]
        return found


@pytest.fixture
def drawn(monkeypatch):
    return Drawn(monkeypatch)


def lines(drawn, colour, width):
    """(left, right) of the lines of a colour and width."""
    return [(left, right) for left, right, _, *look in drawn.calls["line"] if look[:2] == [colour, width]]


def test_a_wrong_word_has_a_sign_a_wave_and_its_score(drawn):
    draw(PHOTO, [caption("a red cat", right="red", wrong="cat")], beta=0.1)
    said = drawn.texts
    assert {"a", "red", "cat", "0.31", "0.02", "1 word is likely wrong"} <= set(said)
    assert said.count("✗") == 2  # the word's, and the legend's
    (left, right, *_), _ = drawn.calls["wave"]
    assert left == pytest.approx(drawn.place("cat")[0]) and right - left > 10
    assert "likely wrong, score 0.1 or below" in said


def test_right_words_and_caption_without_errors_have_no_wave(drawn):
    draw(PHOTO, [caption("a red cat", right="red cat")])
    assert len(drawn.calls["wave"]) == 1  # in the legend
    assert len(lines(drawn, BLUE, 1.3)) == 3  # under two words, and in the legend


def test_regions_are_told_apart_by_colour_line_and_sign(drawn):
    draw(PHOTO, [caption("a dog", regions=REGIONS)])
    assert {"✓ 1 dog", "✗ 2 sky", "✗ 3 tree", "✗ 4 sign"} <= set(drawn.texts)
    assert "✗ 5 bin" not in drawn.texts
    (solid,) = [(box, dashes) for box, colour, _, dashes in drawn.calls["frame"] if colour == BLUE]
    dashed = [dashes for _, colour, _, dashes in drawn.calls["frame"] if colour == ORANGE]
    assert solid[1] is None and len(dashed) == 3 and all(dashed)
    # 390 points for 40 pixels; the photo begins at 20, without a title at its top too
    assert solid[0] == pytest.approx([20 + at * 9.75 for at in (5, 5, 15, 25)])


def test_lines_are_where_they_are_said_to_be():
    regions = [((5, 5, 15, 25), True, 0.9, ""), ((20, 5, 35, 25), False, 0.9, "")]
    pixels = np.asarray(draw(PHOTO, [caption("a", regions=regions)])).astype(int)

    def pixel(place):
        return round((20 + place * 9.75) * 150 / 72)

    def along(x, colour):
        """The share of a part of a column, at a place of the photo, that has a colour."""
        column = pixels[pixel(7) : pixel(24), pixel(x)]
        return float((np.abs(column - colour).max(axis=1) < 3).mean())

    assert along(15, (0x00, 0x72, 0xB2)) == 1
    assert 0.5 < along(35, (0xE6, 0x9F, 0x00)) < 0.8
    assert along(10, (120, 120, 120)) == 1


def test_scores_are_bars(drawn):
    draw(PHOTO, [caption("a dog", scores={"precision": 0.4, "recall": float("nan"), "overall": 1.0})])
    assert {"0.40", "no score", "1.00"} <= set(drawn.texts)
    tracks, full = lines(drawn, "#e4e3df", 8), lines(drawn, "#1b1d21", 8)
    long = [right - left for left, right in tracks]
    assert [right - left for left, right in full] == pytest.approx([0.4 * long[0], 0.5 * long[2]])


def test_captions_stand_below_each_other(drawn):
    draw(PHOTO, [caption("one"), caption("two")], title="photo.jpg", signature="infometic|beta:0.1")
    assert drawn.place("photo.jpg")[1] < drawn.place("one")[1] < drawn.place("two")[1]
    assert len(drawn.calls["photo"]) == 2
    assert "infometic|beta:0.1" in drawn.texts


def test_long_captions_are_broken_and_nothing_runs_over_the_edge(drawn):
    long = caption("many words " * 30 + "z" * 200 + " ¿end?")
    picture = np.asarray(draw(PHOTO, [long, long, long], title="a" * 300, signature="b" * 400))
    assert "".join("".join(drawn.texts).split()).count("z") == 600
    edge = 8  # pixels; no picture has ink there
    assert picture[:edge].min() == picture[-edge:].min() == picture[:, :edge].min() == 255
    assert picture[:, -edge:].min() == 255


@pytest.mark.parametrize("text", ["z" * 5000, "e\u0301" * 2000, "\u0301" * 3000, "猫" * 500])
def test_words_of_any_length_are_drawn_whole(drawn, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FontWarning)
        draw(PHOTO, [caption(text, split="$.")])
    said = [line for x, _, line, *_ in drawn.calls["text"] if x > 400 and set(line) <= {*text, "?"}]
    assert sum(map(len, said)) >= len(text) and all(
        not line.startswith("\u0301") for line in said[1:] if "e" in text
    )


def test_arabic_runs_from_right_to_left(drawn):
    words = "قطة تنام هنا"
    draw(PHOTO, [caption(words, "ar", right="قطة هنا", wrong="تنام")])
    first, second, third = (drawn.place(word)[0] for word in words.split())
    assert first > second > third


def test_without_libraqm_it_is_said_once(monkeypatch, drawn):
    monkeypatch.setattr(font_files, "has_raqm", lambda: False)
    with pytest.warns(FontWarning, match="built without libraqm") as told:
        draw(PHOTO, [caption("قطة تنام", "ar"), caption("هنا", "ar")])
    assert len(told) == 1 and any("libraqm" in text for text in drawn.texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(PHOTO, [caption("кошка", "ru")])


@pytest.mark.skipif(not font_files.has_raqm(), reason="this Pillow has no libraqm")
def test_letters_are_joined():
    """A word of joined letters is narrower than its letters, each alone."""
    canvas = Canvas(font_files.find_fonts([("بيت", "ar")]), 100)
    alone = sum(canvas.width(letter, 15.0, "ar") for letter in "بيت")
    assert canvas.width("بيت", 15.0, "ar") < 0.8 * alone


def test_lines_of_both_directions():
    assert visual_order(["a", " ", "b"], False) == [0, 1, 2]
    assert visual_order(["a", " ", "قطة", " ", "هنا", " ", "b"], False) == [0, 1, 4, 3, 2, 5, 6]
    assert visual_order(["قطة", " ", "(", "3", " ", "cats", ")", "."], True) == [7, 6, 3, 4, 5, 2, 1, 0]
    assert visual_order([], True) == []


def test_characters_without_a_font_are_named_and_not_drawn(monkeypatch, drawn):
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    with pytest.warns(
        FontWarning, match=r"No font on this machine has 2 of the characters.*U\+304C, U\+732B"
    ):
        draw(PHOTO, [caption("猫が", "ja", wrong="猫", split=".")])
    said = drawn.texts
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
    monkeypatch.setitem(sys.modules, "matplotlib.font_manager", None)
    with pytest.raises(MissingExtraError, match="matplotlib"):
        draw(PHOTO, [caption("a")])


def test_the_same_input_gives_the_same_pixels():
    item = caption("a red cat", right="red", wrong="cat", regions=REGIONS)
    first, second = (draw(PHOTO, [item]).tobytes() for _ in range(2))
    assert first == second
