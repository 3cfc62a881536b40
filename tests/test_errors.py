"""Warnings point at the caller's line, however deep in the library they arise."""

import warnings

from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreWarning, OptionError, warn
from capscore.metrics.backbone_scorer import MCS

from .toy import RED, ColourBackbone


def test_a_warning_points_at_the_first_line_outside_the_library():
    scorer = MCS(Embedder(ColourBackbone()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scorer.score(["rouge"], [RED], language="fr")
        scorer.prepare(["rouge"], [RED], language="fr")
        scorer.warn_about_languages(["fr"])
        warn(CapscoreWarning("here"))
    assert [one.filename for one in caught] == [__file__] * 4
    first = caught[0].lineno
    assert [one.lineno for one in caught] == [first, first + 1, first + 2, first + 3]


def test_a_warning_in_a_loop_is_shown_once_per_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            warn(CapscoreWarning("again"))
    assert len(caught) == 1


def test_an_option_error_is_what_python_raises_for_a_wrong_keyword():
    assert issubclass(OptionError, TypeError) and issubclass(OptionError, ValueError)
