"""Which fonts are found for which characters, and what is said of those that none has."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from matplotlib import font_manager, ft2font

from capscore.show import fonts
from capscore.show.fonts import FontFile, Fonts, find_fonts


def no_scan():
    raise AssertionError("font files are looked through")


def test_what_the_usual_font_has_needs_no_search(monkeypatch):
    monkeypatch.setattr(font_manager, "findSystemFonts", no_scan)
    found = find_fonts([("A cat — ✓ ✗ кошка γάτα\n\ufe0f", "en")])
    assert (found.others, found.missing, found.unshaped) == ((), frozenset(), False)
    regular, bold = found.base
    assert found.runs("a ✓") == [(regular, "a ✓")] and found.runs("a", bold=True) == [(bold, "a")]
    assert "Bold" in bold and "Bold" not in regular


def test_characters_that_no_font_has(monkeypatch):
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    found = find_fonts([("a 猫", "ja"), ("が", "ja")])
    assert found.others == () and found.missing == {"猫", "が"}
    assert found.drawable("a 猫\tが\u202e!") == "a ? ?!"


def test_the_font_that_has_most_is_taken_and_one_with_a_box_for_everything_is_not(monkeypatch):
    has = {"some.ttf": "猫", "all.ttf": "猫が", "boxes.ttf": "猫がⴰ", "broken.ttf": "", "some JP.ttf": "猫"}

    class Font:
        style_name = "Regular"

        def __init__(self, path):
            if path == "broken.ttf":
                raise RuntimeError("no outlines")
            self.path = path
            self.family_name = {"boxes.ttf": "Last Resort"}.get(path, path.removesuffix(".ttf"))

        def get_char_index(self, code):
            return int(chr(code) in has.get(self.path, "a"))

    monkeypatch.setattr(fonts, "_base_fonts", lambda: ("base.ttf", "bold.ttf"))
    monkeypatch.setattr(ft2font, "FT2Font", Font)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: list(has))
    found = find_fonts([("a 猫が ⴰ", "en")])
    assert [font.path for font in found.others] == ["all.ttf"]
    assert found.missing == {"ⴰ"}
    assert found.runs("a猫が a", bold=True) == [("bold.ttf", "a"), ("all.ttf", "猫が"), ("bold.ttf", " a")]
    found = find_fonts([("a 猫が ⴰ", "ja")])
    assert [font.path for font in found.others] == ["all.ttf", "some JP.ttf"]
    assert found.runs("猫が", "ja") == [("some JP.ttf", "猫"), ("all.ttf", "が")]


@pytest.mark.parametrize(
    ("tag", "first"),
    [
        ("ja", "CJK JP"),
        ("zh", "CJK SC"),
        ("zh-Hant", "CJK TC"),
        ("zh_TW", "CJK TC"),
        ("ko-KR", "CJK KR"),
        ("en", "CJK KR"),
    ],
)
def test_each_language_has_its_own_shapes(tag, first):
    names = ("CJK KR", "CJK SC", "CJK TC", "CJK JP")
    found = Fonts(
        ("", ""), tuple(FontFile(name, name, frozenset("猫")) for name in names), frozenset(), False
    )
    assert found.runs("猫", tag) == [(first, "猫")]


def test_a_text_is_placed_from_left_to_right_whatever_its_direction(monkeypatch):
    if not fonts.has_raqm():
        pytest.skip("this Pillow has no libraqm")
    found = find_fonts([("ab", "")])
    split = Fonts(found.base, (FontFile(found.base[1], "Bold", frozenset("b")),), frozenset(), False)
    assert [piece for _, piece, *_ in split.placed("aab", 20)] == ["aa", "b", ""]
    placed = list(split.placed("aab", 20, direction="rtl"))
    assert [piece for _, piece, *_ in placed] == ["b", "aa", ""]
    assert 0 == placed[0][0] < placed[1][0] < placed[2][0] == split.width("aab", 20)


def test_without_libraqm_letters_are_not_joined(monkeypatch):
    monkeypatch.setattr(fonts, "has_raqm", lambda: False)
    assert find_fonts([("قطة", "ar")]).unshaped
    assert not find_fonts([("кошка", "ru")]).unshaped
    assert find_fonts([("قطة", "ar")]).width("قطة", 20.0, language="ar") > 0
