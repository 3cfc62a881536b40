"""What the tests of translation share: a tiny translator, loaded once, and simple judges of texts."""

from __future__ import annotations

import pytest

from .tiny_translator import tiny_m2m100


@pytest.fixture(scope="session")
def m2m100(tmp_path_factory):
    """Folder of a tiny M2M100."""
    return tiny_m2m100(tmp_path_factory.mktemp("m2m100"))


@pytest.fixture(scope="session")
def translator(m2m100):
    from capscore.translation.model import load_translator

    return load_translator(str(m2m100), device="cpu")


class Letters:
    """Identifies the language of a text by whether its number of letters is even: de, or odd: en."""

    name = "letters"
    languages = frozenset({"de", "en", "fr"})

    def identify(self, texts):
        return ["de" if len(text) % 2 == 0 else "en" for text in texts]


class Lengths:
    """Estimates quality by the length of a translation, relative to the text's; long ones are better."""

    name = "lengths"

    def check_languages(self, languages):
        pass

    def estimate(self, sources, translations):
        import numpy as np

        return np.array([len(b) / len(a) for a, b in zip(sources, translations, strict=True)])
