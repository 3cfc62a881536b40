"""The words of captions are those that the Java tokenizer gives.

Each row of ptb_answers.jsonl is a text of ours and what Stanford CoreNLP 3.4.1's PTBTokenizer made of it,
run as pycocoevalcap 1.2 runs it (-preserveLines -lowerCase, then its list of dropped marks).
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.text import ptb

# some with odd blanks; a no-break space in an answer is part of a word
_FILE = Path(__file__).with_name("ptb_answers.jsonl")
ANSWERS = list(map(json.loads, _FILE.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_words_are_those_of_the_java_program(text, answer):
    assert " ".join(ptb.tokenize(text, whole=True)) == answer
    assert ptb.tokenize(text) == answer.split()  # as CIDEr and BLEU split it
    assert ptb.tokenize_all([text, "x"], whole=True) == [answer.split(" ") if answer else [], ["x"]]


def test_signs_between_and_in_words():
    for sign in ("\n", "\r", "\r\n", "\x0b", "\x0c", "\u2028", "\u2029", "\t", "\u3000"):
        # some of them would put the Java run out of step, and every later caption with it
        assert ptb.tokenize(f"the letter{sign}L. The end") == ["the", "letter", "l", "the", "end"], sign
    text = "so\xadft ne\u0301e co\u2010op x\u200by 👩\u200d🚀 हिन्दी 𝒜 a\ud83db"
    assert ptb.tokenize(text) == ["soft", "n\u00e9e", "co\u2010op", "x", "y", "हिन्दी", "a", "b"]


# what the rules look for, in pieces that can meet in any way
PIECES = (
    "A a l. L. The the Mr. St. no. No. 5 12 1/2 555 (555) ) ( . .. ... , ; : - -- ' '' \" “ ” ’ ‘ ` 's n't "
    "don't 'n' 'em '90s dogs' U.S. e.g. etc. co. Ltd. a.m. p. & &amp; AT&T <b> < > <a b=\"c d\"> #1 #a @b "
    "http://x.org/y www.x.org e@x.org $5 % * + x-y - _ / é ½ ² 日本 😀 \u00a0 \u200b cannot gonna 'tis y'all "
    "O'Neil :) ^_^ B Street She"
).split(" ")
texts = st.lists(st.sampled_from([*PIECES, " ", " ", "  "]), max_size=10).map("".join)


@given(st.lists(texts, max_size=6), st.text())
def test_order_and_other_texts_do_not_change_tokens(captions, other):
    alone = [ptb.tokenize(text) for text in captions]
    assert ptb.tokenize_all(captions) == alone
    assert ptb.tokenize_all(captions[::-1] + captions) == alone[::-1] + alone
    for text in captions:  # pieces are lexed apart only where that changes nothing
        blank = "".join(" " if sign in "\u00a0\u200b" else sign for sign in text)
        assert ptb.tokenize(blank) == ptb._lex(blank)
    for word in ptb.tokenize(other):
        assert word and word.split() == [word]
        assert word not in {".", ",", "!", "?", "'", "''", "`", "``", ":", ";", "-", "--", "..."}


def test_plain_pieces_are_what_the_rules_say():
    words = ptb._DATA["words"]
    stems = {*ptb._NOT_PLAIN, *words["starters"].split(), *words["file endings"].split()}
    stems |= {"x", "dog", "isnt", "ph"}
    for stem in sorted(stems):
        for word in (stem, stem.capitalize(), stem.upper()):
            for end in ("", ".", ",", "!", ".,"):
                assert ptb.tokenize(f"a {word}{end} b") == ptb._lex(f"a {word}{end} b"), word + end
