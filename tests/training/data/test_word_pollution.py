"""Captions with one wrong word, and the labels of all words."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.infometic.words import CaptionWord, caption_words
from training.data import word_pollution
from training.data.word_pollution import frequent_words, like_words, pollute, word_labels


def words_of(*parts: tuple[str, str]) -> list[CaptionWord]:
    """Words one blank apart, by text and class."""
    place, found = 0, []
    for text, word_class in parts:
        found.append(CaptionWord(text, place, place + len(text), word_class != "other", word_class))
        place += len(text) + 1
    return found


CAPTION = "Two dogs run behind the red car"
WORDS = words_of(
    ("Two", "number"),
    ("dogs", "noun"),
    ("run", "verb"),
    ("behind", "other"),
    ("the", "other"),
    ("red", "adjective"),
    ("car", "noun"),
)


def draw(frequent, seed=0, **options):
    return pollute(CAPTION, "en", frequent, np.random.default_rng(seed), words=WORDS, **options)


def test_docstring_examples():
    result = doctest.testmod(word_pollution, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= 3 and not result.failed


def test_labels_of_a_polluted_caption_written_out():
    drawn = draw({"adjective": ["blue"]})
    assert drawn.caption == "Two dogs run behind the blue car"
    assert word_labels(WORDS) == (1, 1, 1, -1, -1, 1, 1)
    # the number, both nouns and the verb are right; behind and the are left out; the word put in is wrong
    assert drawn.labels == (1, 1, 1, -1, -1, 0, 1)
    assert (drawn.replaced, drawn.original) == (5, "red")
    assert [drawn.caption[word.start : word.end] for word in drawn.words] == drawn.caption.split()
    assert [word.word_class for word in drawn.words] == [word.word_class for word in WORDS]


def test_a_word_is_replaced_by_one_of_its_form():
    nouns = ["cats", "man", "trees", "boat"]
    replaced = {
        (drawn.original, drawn.words[drawn.replaced].text)
        for drawn in (draw({"noun": nouns}, s) for s in range(40))
    }
    assert replaced == {("dogs", "cats"), ("dogs", "trees"), ("car", "man"), ("car", "boat")}
    # where no word has its form, any of its class is taken
    assert draw({"noun": ["boats"]}, 3, avoid={"cats"}).labels.count(0) == 1


def test_a_capital_stays_at_the_start():
    assert draw({"number": ["three"]}).caption == "Three dogs run behind the red car"
    # a number in digits is another form, and better than none
    assert draw({"number": ["12"]}).caption == "12 dogs run behind the red car"
    assert draw({"number": ["12", "four"]}, 1).caption == "Four dogs run behind the red car"


def test_what_would_be_right_is_not_put_in():
    assert draw({"noun": ["Dogs", "car"], "verb": ["run"]}) is None
    assert draw({"noun": ["puppies"]}, avoid={"puppies"}) is None
    assert draw({}) is None
    assert pollute("of the", "en", {"noun": ["dog"]}, np.random.default_rng(0)) is None


def test_frequent_words_come_in_order_and_as_they_are_written():
    captions = ["Dogs play.", "The dogs run with dogs.", "Hunde", "A man runs."]
    listed = [
        words_of(("Dogs", "noun"), ("play", "verb")),
        words_of(("The", "other"), ("dogs", "noun"), ("run", "verb"), ("with", "other"), ("dogs", "noun")),
        words_of(("Hunde", "noun")),
        words_of(("A", "other"), ("Man", "noun"), ("runs", "verb")),
    ]
    frequent = frequent_words(captions, "en", words=listed)
    assert frequent == {"noun": ["dogs", "hunde", "Man"], "verb": ["play", "run", "runs"]}
    assert frequent_words(captions, "en", words=listed, most=1) == {"noun": ["dogs"], "verb": ["play"]}
    # a capital within a caption counts more than that of the first word
    twice = [words_of(("Man", "noun")), words_of(("man", "noun")), words_of(("A", "other"), ("Man", "noun"))]
    assert frequent_words([""] * 4, "en", words=[*twice, twice[2][1:]])["noun"] == ["man"]
    assert frequent_words([""] * 5, "en", words=[*twice, twice[1], twice[2]])["noun"] == ["Man"]
    with pytest.raises(InputError, match="most=0: expected at least 1"):
        frequent_words(captions, "en", most=0)


def on_a_circle(degrees):
    """Embeds words as directions, and remembers what it was asked for."""
    asked = []

    def embed(words):
        asked.append(list(words))
        turned = np.radians([degrees[word] for word in words])
        return np.stack([np.cos(turned), np.sin(turned)], axis=1)

    return embed, asked


def test_words_like_a_word_come_in_order_without_the_very_first():
    embed, asked = on_a_circle(
        {"dog": 0, "Man": 90, "puppy": 5, "cat": 20, "woman": 100, "car": 60, "red": 0, "blue": 40}
    )
    frequent = {"noun": ["dog", "Man", "puppy", "cat", "woman", "car"], "adjective": ["red", "blue"]}
    found = like_words(frequent, embed)
    assert asked == [frequent["noun"], frequent["adjective"]]
    assert found["noun"] == {
        "dog": ["cat", "car", "Man", "woman"],  # 20, 60, 90 and 100 degrees away; puppy is the very first
        "man": ["car", "cat", "puppy", "dog"],
        "puppy": ["cat", "car", "Man", "woman"],
        "cat": ["dog", "car", "Man", "woman"],
        "woman": ["car", "cat", "puppy", "dog"],
        "car": ["cat", "woman", "puppy", "dog"],
    }
    # of two words, the other one is the very first
    assert found["adjective"] == {"red": [], "blue": []}
    # words as like as each other come by their frequency
    names = [f"word{number}" for number in range(20)]
    alike, _ = on_a_circle({name: 90.0 * (name != "word3") for name in names})
    order = like_words({"noun": names}, alike, most=20)["noun"]["word3"]
    assert order == [name for name in names if name not in ("word0", "word3")]
    assert like_words(frequent, embed, most=2)["noun"]["dog"] == ["cat", "car"]
    assert like_words({"verb": ["runs"]}, on_a_circle({"runs": 0})[0]) == {"verb": {"runs": []}}


def test_a_word_is_replaced_by_one_like_it():
    like = {"noun": {"dogs": ["cats"], "car": ["truck"]}, "number": {"two": ["three"]}}
    frequent = {"noun": ["houses", "tree"], "adjective": ["blue"], "number": ["nine"]}
    drawn = {
        (one.original, one.words[one.replaced].text)
        for one in (draw(frequent, seed, like=like) for seed in range(40))
    }
    # red has none: it is replaced by any frequent word of its class
    assert drawn == {("dogs", "cats"), ("car", "truck"), ("Two", "Three"), ("red", "blue")}


def test_a_word_like_another_that_would_be_right_is_not_put_in():
    like = {"noun": {"dogs": ["puppies", "Car", "cats"]}}
    found = {draw({}, seed, like=like, avoid={"puppies"}) for seed in range(20)} - {None}
    assert {one.caption for one in found} == {"Two cats run behind the red car"}
    assert (
        draw({"noun": ["trees"]}, like={"noun": {"dogs": ["puppies"], "car": []}}, avoid={"puppies"}) is None
    )


def test_a_language_that_is_written_without_blanks():
    caption = "一只黑狗在草地上奔跑。"
    frequent = frequent_words(["一个男孩在海滩上玩球。"], "zh")
    drawn = pollute(caption, "zh", frequent, np.random.default_rng(0))
    new, before = drawn.words[drawn.replaced], caption_words([caption], "zh")[0]
    assert new.text in frequent[before[drawn.replaced].word_class] and drawn.labels.count(0) == 1
    assert drawn.caption == caption[: new.start] + new.text + caption[before[drawn.replaced].end :]


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_one_seed_is_one_caption_that_differs_in_one_word(seed):
    frequent = {
        "noun": ["cats", "boat"],
        "verb": ["sleep", "sit"],
        "adjective": ["green"],
        "number": ["five"],
    }
    drawn, again = draw(frequent, seed), draw(frequent, seed)
    assert drawn == again
    differ = [a for a, b in zip(drawn.caption.split(), CAPTION.split(), strict=True) if a != b]
    assert differ == [drawn.words[drawn.replaced].text] and sorted(drawn.labels).count(1) == 4
