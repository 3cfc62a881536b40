"""Texts → the language that each is in, by a maintained identifier that works without network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..errors import InputError, MissingExtraError, Setting
from ..text.languages import language_code


class LanguageIdentifier(Protocol):
    """What tells the language of a text.

    Attributes:
        name: Name in signatures.
        languages: Codes, as of `language_code`, of the languages that it tells apart.
    """

    name: str
    languages: frozenset[str]

    def identify(self, texts: Sequence[str]) -> list[str]:
        """The language of each text; "" for one without letters."""


class Py3LangId:
    """py3langid: about a hundred languages, a model of 5 MB, BSD licence.

    Raises:
        MissingExtraError: The package is not installed.
    """

    def __init__(self) -> None:
        try:
            import py3langid
        except ImportError:
            raise MissingExtraError("py3langid", "translate", "the language check of translations") from None
        from importlib.metadata import version

        self._classify = py3langid.classify
        self.name = f"py3langid {version('py3langid')}"
        self.languages = frozenset(_code(label) for label, _ in py3langid.rank("a"))

    def identify(self, texts: Sequence[str]) -> list[str]:
        """The language of each text; "" for one without letters."""
        known = {
            text: _code(self._classify(text)[0]) if any(map(str.isalpha, text)) else ""
            for text in dict.fromkeys(texts)
        }
        return [known[text] for text in texts]


def _code(label: str) -> str:
    """An identifier's label as the code of the same language that the rest of capscore uses."""
    try:
        return language_code(label)
    except InputError:
        return str(label)


def check_is_identified(identifier: LanguageIdentifier, language: str) -> None:
    """Raise InputError if an identifier cannot tell that a text is in a language (any usual code)."""
    if language_code(language) not in identifier.languages:
        raise InputError(
            f"the language check ({identifier.name}) does not know {language!r:.40}; it knows "
            f"{', '.join(sorted(identifier.languages))}; ",
            Setting("language_check", False),
            " translates without it",
            field="language",
        )
