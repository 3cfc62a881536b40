"""Language codes as people write them."""

from __future__ import annotations

import pytest

from capscore.errors import InputError
from capscore.text.languages import NAMES, language_code


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("de", "de"),
        ("DE", "de"),
        (" fr ", "fr"),
        ("pt-BR", "pt"),
        ("zh_TW", "zh"),
        ("zh-Hans-CN", "zh"),
        ("cmn", "zh"),
        ("jpn", "ja"),
        ("deu", "de"),
        ("ger", "de"),
        ("fil", "fil"),
        ("quz", "qu"),
        ("mi", "mi"),
        ("arb", "ar"),
        ("swh", "sw"),
        ("pes", "fa"),
        ("nb", "no"),
        ("nn-NO", "no"),
        ("tl", "fil"),
        ("hr", "hr"),
        ("sr-Latn", "sr"),
    ],
)
def test_code(given, code):
    assert language_code(given) == code


@pytest.mark.parametrize("code", NAMES)
def test_the_table_says_what_the_package_says(code):
    import langcodes

    expected = langcodes.Language.get(code).prefer_macrolanguage().language
    assert langcodes.tag_is_valid(code) and language_code(code) == expected == code


@pytest.mark.parametrize(
    ("given", "meant"),
    [("german", "de"), ("English", "en"), ("jp", "ja"), ("cn", "zh"), ("spansih", "es"), ("kr", "ko")],
)
def test_near_misses_are_explained(given, meant):
    with pytest.raises(InputError, match=f"unknown language code '{given}'.*did you mean '{meant}'"):
        language_code(given)


@pytest.mark.parametrize("given", ["", "  ", None, 7, ["de"], "xx-yy-zz!", "qqq1", "und", "x"])
def test_nobody_knows_it(given):
    with pytest.raises(InputError, match="language"):
        language_code(given)
