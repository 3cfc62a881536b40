"""Captions → words, pieces, scores of words from those of their pieces, and what words add to captions."""

import gc
import itertools
import weakref
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capscore.backbones.base import Backbone
from capscore.backbones.tokens import TextTokenizer, in_original, spans_of_pieces
from capscore.errors import CapscoreError, InputError
from capscore.infometic import words as module
from capscore.infometic.words import CaptionWord, caption_words, encode_pieces, split_pieces, word_scores
from capscore.text import word_classes
from tools.tiny.colours import ColourBackbone


def pieces(*spans, n_cut=0, read_to=100):
    places = np.array(spans, np.int64).reshape(-1, 2)
    return module.Pieces(list(range(len(spans))), places[:, 0], places[:, 1], n_cut, read_to)


def word(start, end):
    return CaptionWord("x" * (end - start), start, end, True, "noun")


def word_in(caption, text):
    text, _, number = text.partition(" ")
    start = -1
    for _ in range(int(number or 1)):
        start = caption.index(text, start + 1)
    return CaptionWord(text, start, start + len(text), True, "noun")


# A caption, its semantic words and its numbers, as a reader finds them.
CAPTIONS = [
    ("en", "Two dogs are chasing a red ball near 3 girls.", "Two dogs chasing red ball 3 girls", "Two 3"),
    ("de", "Zwölf Kinder essen ein großes Eis.", "Zwölf Kinder essen großes Eis", "Zwölf"),
    ("fr", "Deux chiens noirs courent sur la plage.", "Deux chiens noirs courent plage", "Deux"),
    ("es", "Tres perros corren por la playa.", "Tres perros corren playa", "Tres"),
    *(("zh", "两只狗在草地上跑", "两只 狗 草地 跑", "两只"), ("zh", "一个男人和一只狗", "男人 狗", "")),
    ("ja", "二人の少女が公園を走っている。", "二人 少女 公園 走っ", "二人"),
    ("ko", "두 소녀가 자전거를 탄다.", "두 소녀 자전거 탄다", "두"),
]


@pytest.mark.parametrize(("language", "caption", "semantic", "numbers"), CAPTIONS)
def test_semantic_words_and_numbers_of_a_caption(embedded, language, caption, semantic, numbers):
    (words,), (row,) = caption_words([caption], language), split_pieces(embedded, [caption])
    assert " ".join(word.text for word in words if word.semantic) == semantic
    assert " ".join(word.text for word in words if word.word_class == "number") == numbers
    assert all(caption[word.start : word.end] == word.text for word in words)
    scores = word_scores(row, np.full(len(row), 1 / len(row)), words)
    assert min(scores) > 0 and sum(scores) <= 1 + 1e-9  # every word of a real caption is read


def test_words_and_classes_but_for_numbers_are_those_of_the_tagger():
    captions = [CAPTIONS[0][1], "", "…", "one dog", "the 2nd of 3.5 dogs"]
    rows, tagged = caption_words(captions), word_classes.tag(captions)
    for word, tag in zip(itertools.chain(*rows), itertools.chain(*tagged), strict=True):
        assert word[:3] == tag[:3] and word.word_class in (tag.word_class, "number")
        assert word.semantic == (word.word_class in module.SEMANTIC_CLASSES)
    assert rows[1:3] == [[], []] and rows[3][0] == CaptionWord("one", 0, 3, False, "other")
    assert [word.text for word in rows[4] if word.word_class == "number"] == ["2nd", "3.5"]
    assert caption_words(["٣ كلاب"], "ar")[0][0].word_class == "number"


def test_every_language_with_numbers_has_a_tagger():
    assert module.numbers().keys() | {"zh"} == word_classes._SOURCES.keys()  # Chinese has signs
    assert all(word == word.lower() for words in module.numbers().values() for word in words)
    with pytest.raises(InputError, match="'mi'") as caught:
        caption_words(["he kurī"], "mi")
    assert caught.value.field == "language"


SCORES = [
    # "a surfboard!" as a, surf, board, !
    ([(0, 1), (2, 6), (6, 11), (11, 12)], [1 / 8, 1 / 4, 1 / 2, 1 / 8], [(0, 1), (2, 11)], [1 / 8, 3 / 4]),
    # four characters in a piece: one of the first word, a sign between, two of the second
    ([(0, 4), (4, 6)], [0.75, 0.25], [(0, 1), (2, 5)], [0.25, 0.75]),
    ([(0, 1), (0, 1), (0, 1)], [0.25, 0.25, 0.5], [(0, 1)], [1.0]),
    # a word of which the tokenizer makes nothing, and a piece that writes nothing
    *(([(0, 0), (0, 3)], [0.5, 0.5], [(0, 3), (4, 6)], [0.5, None]), ([], [], [(0, 3)], [None])),
    ([(0, 1)], [1.0], [], []),
]


@pytest.mark.parametrize(("spans", "given_scores", "words", "expected"), SCORES)
def test_a_word_has_the_sum_of_its_shares_of_pieces(spans, given_scores, words, expected):
    found = word_scores(pieces(*spans), np.array(given_scores), [word(*span) for span in words])
    assert found == [None if score is None else pytest.approx(score) for score in expected]


def test_words_that_were_cut_have_no_score():
    # the caption is cut before its sixth character, within the second word; the third is never reached
    cut = pieces((0, 3), (3, 5), n_cut=2, read_to=5)
    assert word_scores(cut, np.array([0.5, 0.5]), [word(0, 3), word(3, 8), word(9, 12)]) == [0.5, None, None]


def test_the_nearest_region_of_each_word_written_out():
    words = [word(0, 3), CaptionWord("on", 4, 8, False, "other"), word(4, 12)]
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.2, 1.0]])
    regions = np.array([[0.0, 0.0, 9.0], [0.1, 0.0, 0.0], [0.0, 5.0, 5.0]])
    # the last word is the sum of two pieces, (0, 1.2, 1): cosines 0.64 and 0.996 with first and last region
    split = pieces((0, 3), (4, 8), (9, 12))
    assert module.nearest_regions(split, rows, words, regions) == [1, None, 2]
    assert module.nearest_regions(split, rows, words, regions[::-1]) == [1, None, 0]
    assert module.nearest_regions(split, rows, words, regions[:0]) == [None] * 3


@pytest.mark.parametrize(
    ("caption", "text", "left"),
    [
        *(("Two red dogs run", "run", "Two red dogs"), ("a dog and a dog", "dog 2", "a dog and a")),
        *(("A  red,\n round ball .", "red", "A , round ball ."), ("Dogs", "Dogs", "")),
        ("两只狗在草地上跑", "狗", "两只在草地上跑"),
    ],
)
def test_a_caption_without_a_word(caption, text, left):
    assert module.without_word(caption, word_in(caption, text)) == left


BALLOONS = [(0, 4), (4, 7), (7, 8), (9, 11), (12, 13), (14, 17)]
SPREAD = [
    # "ball|oon|s in a red": a word of three pieces, two pieces that do not count, a word of one
    (BALLOONS, [(0, 8), (14, 17)], [[0.5], [0.25]], [*[0.5] * 3, 0, 0, 0.25], [*[1 / 3] * 3, 0, 0, 1]),
    # abcd|efg, words "ab" and "cdefg": the second word has 1.5 pieces, and the first piece at most 1
    ([(0, 4), (4, 7)], [(0, 2), (2, 7)], [[1.0], [3.0]], [2.0, 3.0], [1, 2 / 3]),
    ([(0, 0), (0, 3)], [(0, 3), (4, 6)], [[1.0], [9.0]], [0.0, 1.0], [0, 1]),
    *(([(0, 3), (4, 6)], [], np.zeros((0, 1)), [0.0, 0.0], [0, 0]), ([], [(0, 3)], [[1.0]], [], [])),
]


@pytest.mark.parametrize(("spans", "words", "added", "of_pieces", "weights"), SPREAD)
def test_pieces_share_what_their_word_adds_and_its_weight_of_1(spans, words, added, of_pieces, weights):
    shares = module.word_shares(pieces(*spans), [word(*span) for span in words])
    found, weight = module.spread(shares, np.array(added, np.float16))
    assert found[:, 0].tolist() == pytest.approx(of_pieces) and weight == pytest.approx(weights)
    assert found.dtype == weight.dtype == np.float32


def letters(texts):
    return np.array([[*map(text.count, "abc")] for text in texts], np.float64)


def test_the_context_of_words_written_out_with_each_text_embedded_once():
    embed = mock.Mock(side_effect=letters)
    # the second caption is the first without its last word, and its word leaves what the third one is
    captions = ["a b c", "a b", "a", "a b c", "a  b"]
    rows = zip(captions, ["c b", "b", "", "c", "b"], strict=True)
    left_out = [[word_in(text, one) for one in row.split()] for text, row in rows]
    found = module.added_by_words(captions, left_out, embed)
    assert embed.call_args_list == [mock.call(["a b c", "a b", "a c", "a", "a  b"])]
    b, c = [0, 1, 0], [0, 0, 1]
    assert [rows.tolist() for rows in found] == [[c, b], [b], [], [c], [b]]
    assert found[2].shape == (0, 3) and found[0].dtype == np.float32


# one kind of backbone for each tokenizer and each way to it
KINDS = [
    *("open_clip clip", "open_clip worldwide", "open_clip siglip", "open_clip clipa", "clip", "metaclip 2"),
    *("chinese clip", "siglip", "siglip 2", "m-clip", "sentence-transformers", "student", "embedded"),
]
DROP_PUNCTUATION = ("open_clip siglip", "siglip", "embedded")  # the last at the end of a text

# Letters with case and accents, composed and not; scripts without case or blanks; what NFKC makes longer or
# shorter; marks out of order; quotation marks; emoji of one sign and of several; blanks of several kinds.
WORDS = "cat dog the THE İstanbul straße ﬁne Ⅳ x² ½ ① ｶﾞｷﾞ e\u0301te\u0301 ä Kůň стол 犬 が 草地 기차 บ้าน كلب "
WORDS += "हिन्दी \u1112\u1161\u11ab 😀 👍🏽 👩‍🍳 🇩🇪 ❤️ don't T-shirt x_y 3.5 “A” o\u0302\u0323 , . ! &amp; â€™"
texts = st.lists(
    st.tuples(st.sampled_from(WORDS.split()), st.sampled_from(["", " ", "  ", "\t", "\u00a0"])), max_size=9
).map(lambda parts: "".join(word + blank for word, blank in parts))


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts)
@example(text="THE  😀  ")  # more blanks than one on both sides of a sign
@example(text="\u3000“A”\t.\t")
@example(text="É  o\u0302\u0323\t.  ½ \u00a0x_y\u3000")
@settings(max_examples=8)
def test_ids_are_those_of_the_tokens_and_spans_are_in_order(backbones, kind, text):
    backbone = backbones(kind)
    (row,) = backbone.piece_spans([text])
    ids, starts, ends = ([part[column] for part in row] for column in range(3))
    tokens, (before, after) = backbone.tokenize([text]), backbone.special_tokens()
    room = backbone.max_tokens - len(before) - len(after)
    assert tokens.ids[0] == [*before, *ids[:room], *after]
    assert tokens.truncated[0] == (len(ids) > room)
    assert starts == sorted(starts) and ends == sorted(ends)
    assert all(0 <= start <= end <= len(text) for start, end in zip(starts, ends, strict=True))
    assert all(text[a:b] == text[a:b].strip() for a, b in zip(starts, ends, strict=True))
    covered = {place for start, end in zip(starts, ends, strict=True) for place in range(start, end)}
    for place, sign in enumerate(text):
        dropped = kind in DROP_PUNCTUATION and not sign.isalpha()
        # what is left of an entity or of a wrong decoding may be put to a neighbour
        assert place in covered or sign.isspace() or dropped or "&" in text or "â" in text, (text, place, row)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [("open_clip clip", [49406], [49407]), ("siglip", [], [1]), ("m-clip", [0], [2]), ("embedded", [1], [2])],
)
def test_a_piece_is_encoded_between_the_special_tokens(backbones, kind, before, after):
    backbone = backbones(kind)
    (split,) = split_pieces(backbone, ["a cat 犬"])
    rows = encode_pieces(backbone, split.ids)
    assert rows.shape == (len(split), backbone.dim) and rows.dtype == np.float32
    expected = [backbone.encode_tokens([[*before, token, *after]])[0] for token in split.ids]
    np.testing.assert_allclose(rows, expected, atol=1e-5)


WRITTEN = [
    ("embedded", "  The ﬁne  Kůň ", ["The", "ﬁne", "K", "ů", "ň"]),
    ("embedded", "犬が 😀 e\u0301t", ["", "犬", "が", "", "😀", "e\u0301", "t"]),
    ("embedded", " ", [""]),
    # 犬 has three bytes
    ("open_clip clip", "  A  CAT's 犬 👍🏽 &amp;", ["A", "CAT", "'s", *"犬犬犬", "👍🏽", "&amp;"]),
    ("open_clip clip", "donâ€™t Cafe\u0301", ["don", "â€™t", "Cafe\u0301"]),
    ("siglip", "The dog: İ", ["T", "h", "e", "dog", "", "İ", "İ"]),
    ("open_clip siglip", "A_b, C", ["A", "", "b", "", "C"]),
    ("siglip 2", "İ Dog", ["İ", "İ", "İ", "", "Dog"]),
    ("m-clip", "a cat犬", ["", "a", "cat", "犬"]),  # a blank that a tokenizer adds writes nothing
]


@pytest.mark.parametrize(("kind", "text", "expected"), WRITTEN)
def test_places_of_a_tokenizers_pieces(backbones, kind, text, expected):
    (row,) = backbones(kind).piece_spans([text])
    assert [text[start:end] for _, start, end in row] == expected
    assert backbones(kind).piece_spans([]) == []


@pytest.mark.parametrize(
    ("original", "changed", "spans", "expected"),
    [
        ("Tom &amp; Jerry", "tom & jerry", [(0, 3), (4, 5), (6, 11)], [(0, 3), (4, 9), (10, 15)]),
        # signs that are taken out belong to no word
        ("“A-team”, go!", "ateam go", [(0, 5), (6, 8)], [(1, 7), (10, 12)]),
        # İ becomes two characters, ½ three
        ("İ½", "i̇1⁄2", [(0, 2), (2, 3), (4, 5)], [(0, 1), (1, 2), (1, 2)]),
        # several blanks become one
        ("A  😀  b", "a 😀 b", [(0, 1), (2, 3), (4, 5)], [(0, 1), (3, 4), (6, 7)]),
        # quotation marks are made straight, a blank takes a sign's place, marks are put in order
        (" “A” .", '"a" .', [(0, 1), (1, 2), (2, 3), (4, 5)], [(1, 2), (2, 3), (3, 4), (5, 6)]),
        (" x_y ", "x y", [(0, 1), (2, 3)], [(1, 2), (3, 4)]),
        ("O\u0302\u0323 .", "ộ .", [(0, 1), (2, 3)], [(0, 3), (4, 5)]),
        # no way to tell: in proportion
        *(("abcd", "xy", [(0, 1), (1, 2)], [(0, 2), (2, 4)]), ("a", "", [(0, 0)], [(1, 1)])),
        ("ab" * 20_000, "xyz" * 20_000, [(0, 60_000)], [(0, 40_000)]),  # takes no time
    ],
)
def test_spans_in_a_changed_text(original, changed, spans, expected):
    rows = in_original(original, changed, [(7, *span) for span in spans])
    assert rows == [(7, *span) for span in expected]


@given(st.text(max_size=30), st.text(max_size=30))
@settings(max_examples=20)
def test_any_two_texts_can_be_aligned(original, changed):
    rows = in_original(original, changed, [(place, place, place + 1) for place in range(len(changed))])
    assert all(0 <= start <= end <= len(original) for _, start, end in rows)
    for column in (1, 2):
        assert [row[column] for row in rows] == sorted(row[column] for row in rows)


def test_captions_are_cut_and_it_is_counted(embedded, backbones):
    long = "a red dog runs"
    whole, _, again = split_pieces(embedded, [long, "a", long])
    assert whole is again and (whole.n_cut, whole.read_to) == (0, len(long))
    assert whole.starts.tolist() == [0, 2, 6, 10] and whole.ends.tolist() == [1, 5, 9, 14]
    (cut,) = split_pieces(embedded, [long], max_pieces=3)
    assert (cut.ids, cut.n_cut, cut.read_to) == (whole.ids[:3], 1, 10)
    (many,), (empty,) = split_pieces(embedded, ["dog " * 40]), split_pieces(backbones("clip"), ["  "])
    assert (len(many), many.n_cut) == (32, 8) and (len(empty), empty.n_cut) == (0, 0)


def test_a_piece_is_encoded_once_and_what_is_remembered_is_bounded(monkeypatch):
    backbone = ColourBackbone()
    ids = split_pieces(backbone, ["red red blue"])[0].ids
    assert ids == [1, 1, 3] and encode_pieces(backbone, ids).tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert backbone.text_batches == [[3, 3]]
    assert encode_pieces(backbone, [3, 2, 1]).tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert encode_pieces(backbone, []).shape == (0, 3) and backbone.encoded_texts == 3
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    backbone = ColourBackbone()
    encode_pieces(backbone, [1, 2])
    encode_pieces(backbone, [3])  # one more than is remembered: only the last asked for stay
    assert module._encoded[backbone][1].keys() == {3}
    assert encode_pieces(backbone, [1, 2, 3]).tolist() == np.eye(3).tolist()
    assert len(module._encoded[backbone][1]) == 2
    backbone.fingerprint, before = "colours-2", backbone.encoded_texts
    encode_pieces(backbone, [1])
    assert backbone.encoded_texts == before + 1
    remembered = weakref.ref(next(iter(module._encoded[backbone][1].values())))
    del backbone
    gc.collect()
    assert remembered() is None


def test_a_backbone_without_pieces_or_finite_numbers_is_refused():
    class Silent(ColourBackbone):
        piece_spans = Backbone.piece_spans

    class Broken(ColourBackbone):
        def encode_tokens(self, ids):
            return np.full((len(ids), 3), np.nan, np.float32)

    with pytest.raises(CapscoreError, match="'colours' does not offer"):
        split_pieces(Silent(), ["red"])
    with pytest.raises(CapscoreError, match="NaN or infinity"):
        encode_pieces(Broken(), [1, 2])
    # unknown signs of a text that is longer than its pieces
    found = spans_of_pieces("½ x", [0, 0, 0, 7], ["▁1", "⁄", "2", "▁x"])
    assert found == [(0, 0, 1), (0, 0, 1), (0, 0, 1), (7, 2, 3)]
    slow = type("Slow", (), {"is_fast": False})()
    with pytest.raises(CapscoreError, match="Slow does not say"):
        TextTokenizer(slow, 9).piece_spans(["a"])
