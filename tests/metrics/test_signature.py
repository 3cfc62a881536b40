"""A signature survives any value and can be read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.metrics.signature import format_signature, parse_signature


def test_literal():
    settings = {"backbone": "org/name@main", "w": 2.5, "prefix": "", "refs": 5, "exif": True}
    assert format_signature("mcs", settings) == "mcs|backbone:org/name@main|w:2.5|prefix:none|refs:5|exif:yes"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_value_comes_back(value):
    signature = format_signature("mcs", {"prefix": value, "refs": 0})
    assert parse_signature(signature) == ("mcs", {"prefix": value, "refs": "0"})
    assert "\n" not in signature and " " not in signature


def test_no_prefix_is_not_the_prefix_none():
    assert format_signature("mcs", {"prefix": ""}) != format_signature("mcs", {"prefix": "none"})


def test_torn_signature():
    with pytest.raises(ValueError, match="'w' in signature"):
        parse_signature("mcs|w")
