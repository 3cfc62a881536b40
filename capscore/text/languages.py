"""A language code in any usual spelling → the primary subtag that backbones and signatures use.

Also finds texts in a language other than the stated one, by their script, or by py3langid if installed.
"""

from __future__ import annotations

import codecs
import difflib
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

from ..errors import InputError, OptionError, Setting

# difference of log-likelihoods above which py3langid's language is believed
_PLAINLY = 10.0
# primary subtag → its own name and its English name
NAMES: dict[str, tuple[str, str]] = {}
for _line in Path(__file__).with_name("languages.tsv").read_text(encoding="utf-8").splitlines():
    _subtag, _own, _english = _line.split("\t")
    NAMES[_subtag] = _own, _english
# Names that are written instead of a code, and the code.
_BY_NAME = {own.lower(): code for code, (own, _) in NAMES.items()}
_BY_NAME |= {english.lower(): code for code, (_, english) in NAMES.items()}
# Country codes that are mistaken for language codes.
COUNTRIES = {"jp": "ja", "cn": "zh", "kr": "ko", "cz": "cs", "gb": "en", "us": "en", "gr": "el", "dk": "da"}
# "en_US.UTF-8" and "sr_RS@latin", as systems name a language with its encoding and a modifier
_LOCALE = re.compile(r"(?P<tag>[A-Za-z]{2,3}(?:[_-]\w+)*)(?:\.(?P<encoding>[\w-]+))?(?:@[A-Za-z]+)?")
# No language: undetermined, several, none, uncoded, made up; and subtags for private use.
_NO_LANGUAGE = re.compile("und|mul|zxx|mis|art|q[a-t][a-z]|x-.*")


def language_code(language: str) -> str:
    """A language tag → its primary subtag in the shortest form.

    Args:
        language: BCP 47 or ISO 639 code ("de", "pt-BR", "zh_TW", "deu"), or a system's locale
            ("en_US.UTF-8"). Members of a macrolanguage of ISO 639-3 become it ("arz" → "ar", "yue" → "zh",
            "nb" → "no"), except for those with a code of two letters, such as "id", "hr" and "sr".

    Raises:
        InputError: not a string, an unknown code, or one for private use; the message suggests a similar one.

    >>> [language_code(tag) for tag in ("de", "pt-BR", "zh_TW", "jpn", "EN", "yue", "de_DE@euro")]
    ['de', 'pt', 'zh', 'ja', 'en', 'zh', 'de']
    """
    if not isinstance(language, str) or not language.strip():
        raise InputError(f"{language!r:.60} is not a language code such as 'de' or 'pt-BR'", field="language")
    return _code(language)


def option_code(language: str | None) -> str | None:
    """`language_code` of the option `language`, or None; an OptionError names the option."""
    if language is None:
        return None
    try:
        return language_code(language)
    except InputError as error:
        raise OptionError(Setting("language", language), ": ", *error.parts) from None


def stated_code(language: str | None) -> str:
    """`language_code` of a stated language; "en" for None."""
    return "en" if language is None else language_code(language)


@lru_cache(maxsize=1024)
def _code(language: str) -> str:
    tag = _without_encoding(language.strip()).replace("_", "-")
    lowered = tag.lower()
    if lowered in NAMES:
        return lowered
    import langcodes  # slow to import, so only for what is not in the table

    meant = _BY_NAME.get(lowered) or COUNTRIES.get(lowered)
    if meant is None and langcodes.tag_is_valid(tag):
        primary = langcodes.Language.get(tag).prefer_macrolanguage().language
        if primary and not _NO_LANGUAGE.fullmatch(primary):
            return _macrolanguage(primary)
    if meant is None:
        meant = next((_BY_NAME[name] for name in difflib.get_close_matches(lowered, _BY_NAME, n=1)), "")
    expected = "expected BCP 47 or ISO 639, such as 'de' or 'pt-BR'"
    problem = f"unknown language code {language!r:.60} ({expected})"
    if meant:
        problem += f"; did you mean {meant!r}?"
    raise InputError(problem, field="language")


def _without_encoding(tag: str) -> str:
    locale = _LOCALE.fullmatch(tag)
    if locale is None:
        return tag
    try:
        codecs.lookup(locale["encoding"] or "utf-8")
    except LookupError:
        return tag
    return locale["tag"]


def _macrolanguage(code: str) -> str:
    """The macrolanguage of a member that has no code of two letters; any other code as it is."""
    from langcodes.data_dicts import MACROLANGUAGES

    if code in ("nb", "nn"):
        return "no"
    return MACROLANGUAGES.get(code, code) if len(code) == 3 else code


def is_plainly_other(text: str, code: str) -> bool:
    """Whether a text is plainly not in a language; only its script is looked at without py3langid.

    >>> is_plainly_other("Собака бежит.", "en"), is_plainly_other("a dog", "ja"), is_plainly_other("犬", "ja")
    (True, True, False)
    """
    import langcodes

    letters = [sign for sign in text if sign.isalpha()]
    latin = sum(unicodedata.name(sign, "").startswith("LATIN") for sign in letters)
    if not letters:
        return False
    if langcodes.Language.get(code).maximize().script != "Latn":
        latin = len(letters) - latin  # what is expected is any other script
    if latin < len(letters) / 2:
        return True
    try:
        import py3langid
    except ImportError:
        return False
    likely = {label: score for label, score in py3langid.rank(text) if label in NAMES}
    return code in likely and likely[code] < max(likely.values()) - _PLAINLY
