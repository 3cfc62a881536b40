"""A language code in any usual spelling → the code that a translation model has for it.

M2M100 calls German "de", NLLB "deu_Latn". The table is the one of the model's own tokenizer.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from ..errors import BackboneUnavailable, InputError
from ..text.languages import language_code

_NLLB = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_NEAR = 3  # of langcodes' distances: "no" and "nb" are 1 apart, languages that differ are further
_SHOWN = 400  # characters of a list of languages in an error


def language_tokens(tokenizer: Any, name: str) -> dict[str, int]:
    """The table of a tokenizer: a model's code of a language → number of its token.

    Args:
        tokenizer: Tokenizer of M2M100 or NLLB, of transformers.
        name: Name of the model, for the error.

    Raises:
        BackboneUnavailable: The tokenizer has no table of languages.
    """
    table = getattr(tokenizer, "lang_code_to_id", None)  # M2M100
    if not (isinstance(table, dict) and table):
        # NLLB's codes are tokens of their own
        added = tokenizer.get_added_vocab()
        table = {token: number for token, number in added.items() if _NLLB.fullmatch(token)}
    if not table:
        raise BackboneUnavailable(
            f"the tokenizer of {name} has no table of languages; expected a checkpoint of M2M100 or NLLB"
        )
    return dict(table)


def find_language(language: str, codes: Iterable[str], name: str) -> str:
    """The code that a model has for a language.

    Args:
        language: The model's own code ("zho_Hant"), or BCP 47 or ISO 639 ("zh-TW", "de").
        codes: Codes of the model.
        name: Name of the model, for the error.

    Raises:
        InputError: An unknown code, or a language that the model does not know; the message lists those that
            it knows.

    >>> find_language("de", ["fr", "de"], "m2m"), find_language("zh-TW", ["zho_Hans", "zho_Hant"], "nllb")
    ('de', 'zho_Hant')
    """
    import langcodes

    codes = list(codes)
    if language in codes:
        return language
    primary = language_code(language)
    asked = langcodes.standardize_tag(language.strip().replace("_", "-"))
    likely = langcodes.Language.get(asked).maximize()  # a region says which script
    bare = asked.partition("-")[0] == asked
    tags: dict[str, str] = {}
    for code in codes:
        try:
            tags.setdefault(langcodes.standardize_tag(code.replace("_", "-")), code)
        except langcodes.LanguageTagError:
            continue
    for wanted in (asked, f"{likely.language}-{likely.script}", *((primary,) if bare else ())):
        best, _ = langcodes.closest_match(wanted, list(tags), max_distance=_NEAR)
        if best in tags:
            return tags[best]
        # one script only, which is not the one that the language is usually written in by langcodes' table
        same = [code for tag, code in tags.items() if bare and tag.partition("-")[0] == wanted]
        if len(same) == 1:
            return same[0]
    raise InputError(
        f"the translator {name} does not know the language {language!r:.40}{_hint(language, codes)}; "
        f"it knows {_listed(sorted(codes))}",
        field="language",
    )


def _hint(language: str, codes: list[str]) -> str:
    near = difflib.get_close_matches(language, codes, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _listed(codes: list[str]) -> str:
    text = ", ".join(codes)
    if len(text) <= _SHOWN:
        return text
    return f"{len(codes)} languages: {text[:_SHOWN].rpartition(', ')[0]}, …"
