"""Candidates for the translation of a text → the best one that is in the right language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..text.languages import language_code
from .language_check import LanguageIdentifier
from .model import BeamSearch, Translator
from .quality import QualityEstimator, check_finite


@dataclass(frozen=True)
class Translation:
    """The chosen translation of a text.

    Attributes:
        text: The translation; "" if the model wrote nothing.
        quality: Its estimated quality; None if it is empty.
        distinct: Number of candidates that differ and are not empty.
        accepted: Number of these that are in the right language, as far as it was checked.
        problem: Why none was accepted, or None.
    """

    text: str
    quality: float | None
    distinct: int
    accepted: int
    problem: str | None = None


def translate_texts(
    texts: Sequence[str],
    source: str,
    target: str,
    *,
    translator: Translator,
    quality: QualityEstimator,
    identifier: LanguageIdentifier | None,
    search: BeamSearch,
    batch_size: int = 8,
) -> list[Translation]:
    """Translate texts of one language (Gomes et al. 2025, App. C).

    Of the candidates of a text, those in another language are turned away; of the others the one with the
    highest quality is kept, and of equals the one that the translator likes best. Where all are turned away,
    the best of all is kept, and `problem` says so.

    Args:
        texts: n texts.
        source, target: Language codes in any usual spelling.
        translator, quality, identifier: Models; without an identifier, no language is checked.
        search: Settings of the beam search.
        batch_size: As of `Translator.candidates`.

    Raises:
        InputError: The translator does not know a language, or a text is too long for it.
    """
    distinct = list(dict.fromkeys(texts))
    found = translator.candidates(
        distinct, translator.code(source), translator.code(target), search, batch_size=batch_size
    )
    pairs = [(row, text) for row, made in enumerate(found) for text in dict.fromkeys(made) if text]
    spoken = [""] * len(pairs) if identifier is None else identifier.identify([text for _, text in pairs])
    estimates = quality.estimate([distinct[row] for row, _ in pairs], [text for _, text in pairs])
    check_finite(estimates, quality.name)
    wanted = None if identifier is None else language_code(target.replace("_", "-"))
    by_row: dict[int, list[tuple[str, float, str]]] = {}
    for (row, text), language, estimate in zip(pairs, spoken, estimates.tolist(), strict=True):
        by_row.setdefault(row, []).append((text, estimate, language))
    chosen = {text: choose(by_row.get(row, []), wanted) for row, text in enumerate(distinct)}
    return [chosen[text] for text in texts]


def choose(candidates: Sequence[tuple[str, float, str]], language: str | None) -> Translation:
    """The best of some candidates.

    Args:
        candidates: Text, quality and language of each, the translator's best first.
        language: Language that they should be in; None if that is not checked.

    >>> choose([("a dog", 0.9, "en"), ("ein Hund", 0.8, "de"), ("Hund", 0.7, "de")], "de")
    Translation(text='ein Hund', quality=0.8, distinct=3, accepted=2, problem=None)
    """
    if not candidates:
        return Translation("", None, 0, 0, "the translator wrote nothing")
    right = [one for one in candidates if language in (None, one[2])]
    text, quality, _ = max(right or candidates, key=lambda one: one[1])  # the first of equals
    if right:
        return Translation(text, quality, len(candidates), len(right))
    counts = Counter(one[2] or "no language" for one in candidates)
    taken = ", ".join(f"{count} for {code}" for code, count in counts.most_common(3))
    problem = (
        f"none of {len(candidates)} candidates is in {language} by the language check, which takes {taken}"
    )
    return Translation(text, quality, len(candidates), 0, problem)
