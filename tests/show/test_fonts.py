"""Which fonts are found for which characters, and what is said of those that none has."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from matplotlib import font_manager, ft2font

from capscore.show import fonts
from capscore.show.fonts import Fonts, find_fonts


def no_scan():
    raise AssertionError("font files are looked through")


def test_what_the_usual_font_has_needs_no_search(monkeypatch):
    monkeypatch.setattr(font_manager, "findSystemFonts", no_scan)
    found = find_fonts([("A cat — ✓ ✗ кошка γάτα\n\ufe0f", "en")])
    assert found == Fonts(("DejaVu Sans",), frozenset(), frozenset(), False)


def test_characters_that_no_font_has(monkeypatch):
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    found = find_fonts([("a 猫", "ja"), ("が", "ja")])
    assert found.families == ("DejaVu Sans",)
    assert found.missing == {"猫", "が"}
    assert found.drawable("a 猫\tが\u202e!") == "a ? ?!"


def test_the_font_that_has_most_is_taken_and_one_with_a_box_for_everything_is_not(monkeypatch):
    has = {"some.ttf": "猫", "all.ttf": "猫が", "boxes.ttf": "猫がⴰ", "broken.ttf": ""}

    class Font:
        style_name = "Regular"

        def __init__(self, path):
            if path == "broken.ttf":
                raise RuntimeError("no outlines")
            self.path = path
            self.family_name = {"boxes.ttf": "Last Resort"}.get(path, "Sans")

        def get_char_index(self, code):
            return int(self.path not in has or chr(code) in has[self.path])

    usual = fonts._covered
    monkeypatch.setattr(fonts, "_base_font", lambda: "base.ttf")
    monkeypatch.setattr(fonts, "_covered", lambda p, x: {"a"} & x if p == "base.ttf" else usual(p, x))
    monkeypatch.setattr(fonts, "_families", lambda path, tags: [path])
    monkeypatch.setattr(ft2font, "FT2Font", Font)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: list(has))
    found = find_fonts([("a 猫が ⴰ", "ja")])
    assert found.families == ("DejaVu Sans", "all.ttf")
    assert (found.found, found.missing) == ({"猫", "が"}, {"ⴰ"})


@pytest.mark.parametrize(
    ("tag", "second"),
    [
        ("ja", "CJK JP"),
        ("zh", "CJK SC"),
        ("zh-Hant", "CJK TC"),
        ("zh_TW", "CJK TC"),
        ("ko-KR", "CJK KR"),
        ("en", "CJK KR"),
    ],
)
def test_each_language_has_its_own_shapes(tag, second):
    found = Fonts(("DejaVu Sans", "CJK KR", "CJK SC", "CJK TC", "CJK JP"), frozenset(), frozenset(), False)
    families = found.for_language(tag)
    assert families[:2] == ["DejaVu Sans", second]
    assert sorted(families) == sorted(found.families)


def test_older_drawing_joins_no_letters(monkeypatch):
    monkeypatch.delattr(ft2font, "__libraqm_version__", raising=False)
    assert find_fonts([("قطة", "ar")]).unshaped
    assert not find_fonts([("кошка", "ru")]).unshaped
