"""Language codes as people write them."""

import langcodes
import pytest

from capscore.errors import InputError
from capscore.text.languages import NAMES, is_plainly_other, language_code

GIVEN = {
    "de": "de DE deu ger de_DE@euro de_DE.ISO-8859-15@euro", "fr": " fr ", "pt": "pt-BR pt_BR.utf8",
    "zh": "zh_TW zh-Hans-CN cmn yue wuu nan hak gan lzh zh-yue zh-min-nan yue-Hant-HK zh_CN.GB18030",
    "ja": "jpn ja_JP.eucJP", "fil": "fil tl", "qu": "quz qvi", "mi": "mi", "ar": "arb arz apc ary aeb acm",
    "sw": "swh swc", "fa": "pes prs", "no": "nb nn-NO nob", "hr": "hr", "sr": "sr-Latn sr_RS@latin cnr",
    "id": "id ind in", "ms": "ms zsm zlm", "ku": "ckb kmr", "lv": "lvs ltg", "et": "ekk", "az": "azj azb",
    "en": "en_US.UTF-8 en-US en-x-foo eng", "yi": "ydd ji", "sq": "als", "mg": "plt", "ne": "npi",
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
    ("given", "meant"), [("german", "de"), ("English", "en"), ("jp", "ja"), ("spansih", "es"), ("kr", "ko")]
)
def test_a_near_miss_is_explained(given, meant):
    with pytest.raises(InputError, match=f"'{given}'.*did you mean '{meant}'"):
        language_code(given)


@pytest.mark.parametrize(
    "given",
    [
        *("  ", None, 7, ["de"], "xx-yy-zz!", "qqq1", "und", "x", "mul", "art", "C", "C.UTF-8", "POSIX"),
        *("qaa", "qtz", "qaa-x-foo", "x-foo", "x-de", "en.jpg", "de@", ".UTF-8"),
    ],
)
def test_unknown_languages_are_refused(given):
    with pytest.raises(InputError, match="language"):
        language_code(given)


def test_py3langid_distinguishes_latin_languages_if_installed():
    pytest.importorskip("py3langid")
    assert is_plainly_other("Ein Zug.", "en") and is_plainly_other("A black dog runs.", "de")
    assert not any(is_plainly_other(text, "en") for text in ("a cat", "the kite", "red car", "7", ""))
