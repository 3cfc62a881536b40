"""Captions with one wrong word."""

import numpy as np

from capscore.infometic.words import CaptionWord, caption_words
from training.data.word_pollution import any_frequent, frequent_words, pollute


def words_of(*parts: tuple[str, str]) -> list[CaptionWord]:
    """Words one blank apart, by text and class."""
    start, found = 0, []
    for text, word_class in parts:
        found.append(CaptionWord(text, start, start + len(text), word_class != "other", word_class))
        start += len(text) + 1
    return found


CAPTION = "Two dogs run behind the red car"
CLASSES = ("number", "noun", "verb", "other", "other", "adjective", "noun")
WORDS = words_of(*zip(CAPTION.split(), CLASSES, strict=True))


def draw(frequent, seed=0, **options):
    rng = np.random.default_rng(seed)
    return pollute(CAPTION, "en", WORDS, any_frequent(frequent), rng, **options)


def put_in(frequent, n=40, **options):
    """(word of the caption, word in its place) in n draws."""
    found = filter(None, (draw(frequent, seed, **options) for seed in range(n)))
    return {(WORDS[one.replaced].text, one.words[one.replaced].text) for one in found}


def test_the_words_of_a_polluted_caption_written_out():
    drawn = draw({"adjective": ["scarlet"]})
    assert drawn.caption == "Two dogs run behind the scarlet car" and drawn.replaced == 5
    assert [drawn.caption[word.start : word.end] for word in drawn.words] == drawn.caption.split()
    assert [word.word_class for word in drawn.words] == list(CLASSES)


def test_a_word_is_replaced_by_one_of_its_form():
    found = put_in({"noun": ["cats", "man", "trees", "boat"]})
    assert found == {("dogs", "cats"), ("dogs", "trees"), ("car", "man"), ("car", "boat")}
    # where no word has its form, any of its class is taken
    assert put_in({"noun": ["boats"]}) == {("dogs", "boats"), ("car", "boats")}


def test_a_capital_stays_at_the_start():
    assert draw({"number": ["three"]}).caption == "Three dogs run behind the red car"
    # a number in digits is another form, and better than none
    assert draw({"number": ["12"]}).caption == "12 dogs run behind the red car"
    assert draw({"number": ["12", "four"]}, 1).caption == "Four dogs run behind the red car"


def test_replacements_are_never_right_words():
    assert draw({"noun": ["Dogs", "car"], "verb": ["run"]}) is None
    assert draw({"noun": ["puppies"]}, avoid={"puppies"}) is None
    assert draw({}) is None


def test_frequent_words_come_in_order_and_as_they_are_written():
    captions = caption_words(["Dogs play.", "The dogs run with dogs.", "A man runs."], "en")
    assert frequent_words(captions)["noun"] == ["dogs", "man"]
    assert frequent_words(captions, most=1)["noun"] == ["dogs"]
    # a capital within a caption counts more than that of the first word
    man = [words_of(("Man", "noun")), words_of(("man", "noun")), words_of(("A", "other"), ("Man", "noun"))]
    assert frequent_words(man)["noun"] == ["Man"]
    assert frequent_words([*man, man[0], man[0]])["noun"] == ["man"]


def test_a_language_that_is_written_without_blanks():
    caption = "一只黑狗在草地上奔跑。"
    (words,) = caption_words([caption], "zh")
    frequent = frequent_words(caption_words(["一个男孩在海滩上玩球。"], "zh"))
    rng = np.random.default_rng(0)
    drawn = pollute(caption, "zh", words, any_frequent(frequent), rng)
    new, old = drawn.words[drawn.replaced], words[drawn.replaced]
    assert new.text in frequent[old.word_class]
    assert drawn.caption == caption[: new.start] + new.text + caption[old.end :]
