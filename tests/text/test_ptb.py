"""The words of captions are those that the Java tokenizer gives.

Each row of `ANSWERS` is a text of ours and what Stanford CoreNLP 3.4.1's PTBTokenizer made of it, run as
pycocoevalcap 1.2 runs it (-preserveLines -lowerCase, then its list of dropped marks).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.text import ptb

ANSWERS = [
    ("A man rides a horse.", "a man rides a horse"),
    ("Two dogs run, jump and bark!", "two dogs run jump and bark"),
    ("The man's dog doesn't like the girls' ball.", "the man 's dog does n't like the girls ball"),
    (
        "They can't swim; he won't, she'd rather not and I'm sure it's fine.",
        "they ca n't swim he wo n't she 'd rather not and i 'm sure it 's fine",
    ),
    (
        "We’re here, don’t worry: it’s Anna’s and they’ve left.",
        "we 're here do n't worry it 's anna 's and they 've left",
    ),
    ("He cannot see what they're gonna do, wanna bet?", "he can not see what they 're gon na do wan na bet"),
    ("'Tis a rock 'n' roll band from the '90s.", "'t is a rock 'n' roll band from the '90s"),
    (
        "A 3-year-old boy in a red-and-white T-shirt eats half-eaten food.",
        "a 3-year-old boy in a red-and-white t-shirt eats half-eaten food",
    ),
    ("A well- known half -- finished --- thing ----- here.", "a well known half finished thing ----- here"),
    (
        "Sign reads \"NO PARKING\" and “Keep Out” and ``quoted'' and 'single'.",
        "sign reads no parking and keep out and quoted and single",
    ),
    ("A boy/girl and/or dog on 1/2 of 2 1/2 fields.", "a boy/girl and/or dog on 1/2 of 2\xa01/2 fields"),
    (
        "It costs $5.50, US$10, £3, €7 and 50% of 1,000.25.",
        "it costs $ 5.50 us$ 10 # 3 $ 7 and 50 % of 1,000.25",
    ),
    (
        "Train No. 5 at 10:30 a.m. on the 3rd of Oct. 2012.",
        "train no. 5 at 10:30 a.m. on the 3rd of oct. 2012",
    ),
    (
        "Mr. Smith and Dr. Jones of St. Louis, U.S.A., live in Washington, D.C.",
        "mr. smith and dr. jones of st. louis u.s.a. live in washington d.c.",
    ),
    ("A sign with the letter B. The wall is white.", "a sign with the letter b the wall is white"),
    ("A sign with the letter b. Another wall", "a sign with the letter b. another wall"),
    (
        "Person (in blue) sits [there] with {things} <here>.",
        "person -lrb- in blue -rrb- sits -lsb- there -rsb- with -lcb- things -rcb- <here>",
    ),
    ("He waits... and waits . . . and waits… then leaves.", "he waits and waits and waits then leaves"),
    ("What?! No way!! Really??? Yes!", "what ?! no way !! really ??? yes"),
    (
        "Visit http://www.example.com/a?b=1, www.example.org or mail me@example.com.",
        "visit http://www.example.com/a?b=1 www.example.org or mail me@example.com",
    ),
    ("A tweet by @someone about #dogs and #2.", "a tweet by @someone about #dogs and # 2"),
    ("Salt &amp; pepper, AT&T, R&B and rock & roll.", "salt & pepper at&t r&b and rock & roll"),
    ("A smile :) or ;-) or :D and a face ^_^.", "a smile :-rrb- or ;--rrb- or :d and a face ^_^"),
    ("Call (555) 123-4567 or 555-1234 today.", "call -lrb-555-rrb-\xa0123-4567 or 555-1234 today"),
    ("A café à la carte with naïve señor Müller.", "a café à la carte with naïve señor müller"),
    ("A dog 🐕 and a cat\xa0sleep — really – on the sofa.", "a dog and a cat sleep really on the sofa"),
    ("5 x 5, 3+4=7, 4*5, 10% and -5 degrees.", "5 x 5 3 +4 = 7 4 * 5 10 % and -5 degrees"),
    ("O'Brien and d'Artagnan's o'clock ma'am y'all.", "o'brien and d'artagnan 's o'clock ma'am y' all"),
    ("The C++ book and the photo dog.jpg file.", "the c++ book and the photo dog.jpg file"),
    ("end.Start of a sentence,without space;here too.", "end.start of a sentence without space here too"),
    (" two   spaces\tand a tab ", "two spaces and a tab"),
    ("?!.,;:", "?!"),
    ("  ", ""),
    ("½ cup and 1½ cups at 20°C cost 5¢", "1/2 cup and 1 1/2 cups at 20 ° c cost 5 cents"),
    ("He said, \"It's 5 o'clock.\" Then he left.", "he said it 's 5 o'clock then he left"),
    ("日本語 text in 2 parts, Привет мир!", "日本語 text in 2 parts привет мир"),
    ("etc. etc.) e.g. i.e. vs. p.m.", "etc. etc. -rrb- e.g. i.e. vs. p.m."),
    (
        "A _very_ *bold* ~ text | with signs ^ and \\ more",
        "a _ very _ * bold * ~ text | with signs ^ and \\ more",
    ),
    ("The 1960s car of the 60's isn't the owner's.", "the 1960s car of the 60 's is n't the owner 's"),
    ("He got 1st, 2nd and 100th of 5,000 on 12/25/2010.", "he got 1st 2nd and 100th of 5,000 on 12/25/2010"),
]


# what the Java program writes where blanks are odd; a no-break space in an answer is part of a word
ODD_BLANKS = [
    ("1 1/2 cups", "1\xa01/2 cups"),
    ("a 2 1/2 year old boy", "a 2\xa01/2 year old boy"),
    ("a 2\xa01/2 year old boy", "a 2\xa01/2 year old boy"),
    (
        "a 2\t1/2 or 2\u20091/2 or 2\u200b1/2 or 2\u202f1/2 or 2\u30001/2",
        "a 2 1/2 or 2 1/2 or 2 1/2 or 2 1/2 or 2 1/2",
    ),
    ("(555) 123-4567 or (555)\u2007123-4567", "-lrb-555-rrb-\xa0123-4567 or -lrb- 555 -rrb- 123-4567"),
    ("800 555\xa01234, 800\u2009555-1234", "800\xa0555\xa01234 800 555-1234"),
    ("20\u200b800 and 3\ufeff4 and a\u200eb", "20 800 and 3 4 and a b"),
    ("the letter l.\u3000The end", "the letter l the end"),
    ("the letter l.\u202fThe end", "the letter l. the end"),
    ("no.\xa05, no.\u205f5", "no. 5 no 5"),
    ("the '90\u2009x '90\u200bx", "the '90 x 90 x"),
    ("<a b='c d'> <a\tb='c'>", "<a\xa0b='c\xa0d'> < a b = c >"),
    ("<!-- (a) <b> --> x", "<!--\xa0(a)\xa0<b> > x"),
    ("www.a\u2009b.com/c\xa0d x me@ex\xa0a.com", "www.a\u2009b.com/c\xa0d x me@ex \xa0a.com"),
    ("so . . . on .\xa0. . . .5", "so on 5"),
]


@pytest.mark.parametrize(("text", "answer"), ANSWERS + ODD_BLANKS)
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
    stems = {*ptb._NOT_PLAIN, *ptb._STARTERS.split(), *ptb._FILE_ENDINGS.split(), "x", "dog", "isnt", "ph"}
    for stem in sorted(stems):
        for word in (stem, stem.capitalize(), stem.upper()):
            for end in ("", ".", ",", "!", ".,"):
                assert ptb.tokenize(f"a {word}{end} b") == ptb._lex(f"a {word}{end} b"), word + end


def test_equal_texts_have_lists_of_their_own():
    first, second = ptb.tokenize_all(["a dog", "a dog"])
    first.append("x")
    assert second == ["a", "dog"]
