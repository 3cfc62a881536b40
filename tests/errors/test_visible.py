"""Texts that attack a terminal or hold passwords, and what messages show of them."""

import json
import pickle
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore import errors
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreWarning, ImageError, InputError, Setting, address_name, in_one_line, warn
from capscore.metrics.mcs import MCS
from tools.tiny.colours import RED, ColourBackbone

# marks and joiners that words of these languages need
WORDS = ["نمی\u200cخواهم", "שלום\u200f", "क\u094dष", "👩\u200d👧", "τ_b ≥ 0.5", "日本語"]
ATTACKS = [
    ("\x1b[31mred", r"\x1b[31mred"),
    ("a\rb", "a b"),
    ("a\n  b", "a b"),
    ("a\u2028b", "a b"),
    ("\x07bell\x00", r"\x07bell\x00"),
    ("\u202egpj.exe", r"\u202egpj.exe"),
    ("half \udcff", r"half \udcff"),
    ("tab\there", r"tab\there"),
    *((word, word) for word in WORDS),
]


@pytest.mark.parametrize(("text", "shown"), ATTACKS)
def test_a_message_controls_no_terminal_and_keeps_words_of_every_language(text, shown):
    assert in_one_line(text) == shown
    for error in (InputError(text), ImageError("no file ", text).at(3, "image")):
        assert shown in str(error) and shown in error.message and shown in error.spelled()
        assert not set(str(error)) & set("\x00\x07\x1b\x9b\n\r\t\u2028\u202e\u2066\udcff")
    assert str(CapscoreWarning(text)) == shown
    assert str(pickle.loads(pickle.dumps(InputError(text, row=1)))) == f"row 1: {shown}"
    assert text not in WORDS or errors.visible(text) == errors.json_visible(text) == text


@given(st.recursive(st.none() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)))
def test_escaped_json_has_the_same_value(value):
    text = errors.json_visible(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert not set(text) & {"\x1b", "\x7f", "\x9b", "\u2028", "\u202e"}


ADDRESSES = [
    ("https://secret@x.org/a.jpg", "https://…@x.org/a.jpg"),
    ("http://x.org/a.jpg?token=secret#secret", "http://x.org/a.jpg?…"),
    ("HTTP://ME:SECRET@X.ORG:8080/a", "HTTP://…@X.ORG:8080/a"),
    ("http://me:sec/ret@x.org/a", "http://…@x.org/a"),
    ("http://me:sec?ret@x.org/a", "http://…?…"),
    ("http:\\\\me:secret@x.org/a", "http:\\\\…@x.org/a"),
    ("s3://key:secret@bucket/a", "s3://…@bucket/a"),
    ("http://[::1]:80/a", "http://[::1]:80/a"),
    ("http://x.org/@author/a.jpg", "http://x.org/@author/a.jpg"),
    ("photos/a?b#c.jpg", "photos/a?b#c.jpg"),
    ("C:/photos/a?.jpg", "C:/photos/a?.jpg"),
]


@pytest.mark.parametrize(("address", "name"), ADDRESSES)
def test_an_address_is_named_without_its_secrets(address, name):
    assert address_name(address) == name


_SIGNS = st.text("/?#@:\\[]%. a1é&=", max_size=4)


@given(_SIGNS, _SIGNS, _SIGNS)
def test_no_password_and_no_query_is_ever_shown(user, before, after):
    assert "SECRET" not in address_name(f"http://me{user}:{before}SECRET{after}@x.org/p")
    assert "SECRET" not in address_name(f"https://x.org:80/p?a{user}={before}SECRET{after}")


def test_a_message_hides_the_secrets_of_addresses_inside_it():
    text = "GET 'https://me:pw@x.org/a?key=1' said no (see https://x.org/help), then ftp://me:pw@y.org failed"
    shown = "GET 'https://…@x.org/a?…' said no (see https://x.org/help), then ftp://…@y.org failed"
    assert errors.without_secrets(text) == str(InputError(text)) == shown
    assert str(InputError(Setting("path", "http://me:pw@x.org"), " is odd")) == "path='http://…@x.org' is odd"


def test_a_warning_points_at_the_first_line_outside_the_library():
    scorer = MCS(Embedder(ColourBackbone()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scorer.score(["rouge"], [RED], language="fr")
        scorer.prepare(["rouge"], [RED], language="fr")
        scorer.warn_about_languages(["fr"])
        warn(CapscoreWarning("here"))
    assert [each.filename for each in caught] == [__file__] * 4
    first = caught[0].lineno
    assert [each.lineno for each in caught] == [first, first + 1, first + 2, first + 3]
