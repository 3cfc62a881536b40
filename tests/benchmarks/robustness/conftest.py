"""Captions of two colours that a toy metric sees."""

import pytest

import capscore
from capscore.benchmarks.robustness import CaptionSet
from tools.tiny.colours import BLUE, RED, ColourBackbone


@pytest.fixture
def captions() -> CaptionSet:
    texts = ["red red ball", "red car by a tree", "blue sea", "blue sky and blue sea"]
    return CaptionSet("toy", "", "", "en", texts, ["r", "r", "b", "b"], [RED, RED, BLUE, BLUE])


@pytest.fixture
def scorer():
    return capscore.load("mcs", backbone=ColourBackbone(), cache=False)
