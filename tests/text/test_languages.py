"""Language codes as people write them."""

from __future__ import annotations

import langcodes
import pytest

from capscore.errors import InputError
from capscore.text.languages import NAMES, is_plainly_other, language_code

GIVEN = {
    "de": "de DE deu ger", "fr": " fr ", "pt": "pt-BR", "zh": "zh_TW zh-Hans-CN cmn", "ja": "jpn",
    "fil": "fil tl", "qu": "quz", "mi": "mi", "ar": "arb", "sw": "swh", "fa": "pes", "no": "nb nn-NO",
    "hr": "hr", "sr": "sr-Latn",
}  # fmt: skip


@pytest.mark.parametrize("code", GIVEN)
def test_a_code_in_any_spelling_is_its_primary_subtag(code):
    spellings = [GIVEN[code], *GIVEN[code].split()] if code == "fr" else GIVEN[code].split()
    assert {language_code(spelling) for spelling in spellings} == {code}


def test_the_table_says_what_the_package_says():
    for code in NAMES:
        expected = langcodes.Language.get(code).prefer_macrolanguage().language
        assert langcodes.tag_is_valid(code) and language_code(code) == expected == code


@pytest.mark.parametrize(
    ("given", "meant"),
    [("german", "de"), ("English", "en"), ("jp", "ja"), ("spansih", "es"), ("kr", "ko")],
)
def test_a_near_miss_is_explained(given, meant):
    with pytest.raises(InputError, match=f"'{given}'.*did you mean '{meant}'"):
        language_code(given)


@pytest.mark.parametrize("given", ["  ", None, 7, ["de"], "xx-yy-zz!", "qqq1", "und", "x"])
def test_unknown_languages_are_refused(given):
    with pytest.raises(InputError, match="language"):
        language_code(given)


def test_py3langid_distinguishes_latin_languages_if_installed():
    pytest.importorskip("py3langid")
    assert is_plainly_other("Ein Zug.", "en") and is_plainly_other("A black dog runs.", "de")
    assert not any(is_plainly_other(text, "en") for text in ("a cat", "the kite", "red car", "7", ""))
