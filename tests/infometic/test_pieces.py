"""The pieces of captions: their ids, their places in the text as it was written, each encoded alone."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from capscore import load_backbone
from capscore.backbones.base import Backbone
from capscore.backbones.tokens import original_spans, settled, spans_of_pieces
from capscore.errors import CapscoreError
from capscore.infometic import words as pieces_module
from capscore.infometic.words import encode_pieces, split_pieces

from ..backbones import tiny_transformers as tiny
from ..backbones.tiny_kinds import Checkpoint
from ..toy import ColourBackbone

# One kind of backbone for each tokenizer and each way to it, and the special tokens it puts around a text.
SPECIAL = {
    "open_clip clip": ([49406], [49407]),
    "open_clip worldwide": ([0], [2]),
    "open_clip siglip": ([0], [2]),
    "open_clip clipa": ([0], [0]),
    "clip": ([518], [519]),
    "metaclip 2": ([0], [2]),
    "chinese clip": ([2], [3]),
    "siglip": ([], [1]),
    "siglip 2": ([], [1]),
    "m-clip": ([0], [2]),
    "sentence-transformers": ([2], [3]),
    "student": ([0], [2]),
    "embedded": ([1], [2]),
}
KINDS = [*SPECIAL]
DROP_PUNCTUATION = ("open_clip siglip", "siglip")

# Letters with case and accents, composed and not; scripts without case or blanks; what NFKC makes longer or
# shorter; marks out of order; quotation marks; emoji of one sign and of several; blanks of several kinds.
WORDS = (
    "cat dog the THE İstanbul straße ﬁne Ⅳ x² ½ ① ｶﾞｷﾞ e\u0301te\u0301 ä Kůň стол 犬 が 草地 기차 บ้าน كلب "
    "हिन्दी \u1112\u1161\u11ab 😀 👍🏽 👩‍🍳 🇩🇪 ❤️ don't T-shirt x_y 3.5 “A” o\u0302\u0323 "
    ", . ! &amp; â€™"
).split()
texts = st.lists(
    st.tuples(st.sampled_from(WORDS), st.sampled_from(["", " ", "  ", "\t", "\u00a0"])), max_size=9
).map(lambda parts: "".join(word + blank for word, blank in parts))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """kind → its backbone, made when first asked for."""
    made = {}

    def load(kind):
        if kind not in made:
            made[kind] = Checkpoint(kind, tmp_path_factory.mktemp("kind")).load()
        return made[kind]

    return load


@pytest.mark.parametrize("kind", SPECIAL)
@given(text=texts)
@example(text="THE  😀  ")  # more blanks than one on both sides of a sign
@example(text="\u3000“A”\t.\t")
@example(text="\u00a0x_y\u3000")
@example(text="É  o\u0302\u0323\t.  ½ ")
def test_ids_are_those_of_the_tokens_and_spans_are_in_order(loaded, kind, text):
    backbone = loaded(kind)
    (row,) = backbone.piece_spans([text])
    ids = [token for token, _, _ in row]
    tokens = backbone.tokenize([text])
    before, after = SPECIAL[kind]
    room = backbone.max_tokens - len(before) - len(after)
    assert tokens.ids[0] == [*before, *ids[:room], *after]
    assert tokens.truncated[0] == (len(ids) > room)

    starts, ends = [start for _, start, _ in row], [end for _, _, end in row]
    assert starts == sorted(starts) and ends == sorted(ends)
    assert all(0 <= start <= end <= len(text) for start, end in zip(starts, ends, strict=True))
    for start, end in zip(starts, ends, strict=True):
        assert text[start:end] == text[start:end].strip()
    covered = {place for start, end in zip(starts, ends, strict=True) for place in range(start, end)}
    for place, sign in enumerate(text):
        dropped = kind in DROP_PUNCTUATION and not sign.isalpha()
        # what is left of an entity or of a wrong decoding may be put to a neighbour
        if not (sign.isspace() or dropped or "&" in text or "â" in text):
            assert place in covered, (text, place, row)


def spans(backbone, text):
    return [text[start:end] for _, start, end in backbone.piece_spans([text])[0]]


def test_places_of_the_embedded_tokenizer(embedded):
    assert embedded.piece_spans(["  The ﬁne  Kůň "]) == [
        [(76, 2, 5), (1668, 6, 9), (345, 11, 12), (0, 12, 13), (0, 13, 14)]
    ]
    assert spans(embedded, "犬が 😀 e\u0301t") == ["", "犬", "が", "", "😀", "e\u0301", "t"]
    assert embedded.piece_spans(["", " "]) == [[(0, 0, 0)], [(0, 0, 0)]]
    assert embedded.piece_spans([]) == []


def test_places_of_clips_own_tokenizer(loaded):
    backbone = loaded("open_clip clip")
    text = "  A  CAT's 犬 👍🏽 &amp; Cafe\u0301"
    assert spans(backbone, text) == [
        *("A", "CAT", "'s"),
        *("犬",) * 3,  # its three bytes
        *("👍🏽", "&amp;", "Cafe\u0301"),
    ]
    assert backbone.piece_spans([text])[0][0] == (320, 2, 3)
    assert spans(backbone, "donâ€™t") == ["don", "â€™t"]


def test_places_where_a_tokenizer_lower_cases_and_drops_punctuation(loaded):
    assert spans(loaded("siglip"), "The dog: İ & a cat!")[:6] == ["T", "h", "e", "dog", "", "İ"]
    assert spans(loaded("open_clip siglip"), "A_b, C") == ["A", "", "b", "", "C"]
    assert spans(loaded("siglip 2"), "İ Dog") == ["İ", "İ", "İ", "", "Dog"]


def test_a_blank_that_a_tokenizer_adds_writes_nothing(loaded):
    assert loaded("m-clip").piece_spans(["a cat犬"])[0] == [
        (4, 0, 0),  # ▁
        (15, 0, 1),
        (57, 2, 5),
        (54, 5, 6),
    ]


def test_spans_in_a_changed_text():
    assert original_spans("Tom &amp; Jerry", "tom & jerry", [(0, 3), (4, 5), (6, 11)]) == [
        (0, 3),
        (4, 9),
        (10, 15),
    ]
    # signs that are taken out belong to no word
    assert original_spans("“A-team”, go!", "ateam go", [(0, 5), (6, 8)]) == [(1, 7), (10, 12)]
    # İ becomes two characters, ½ three
    assert original_spans("İ½", "i̇1⁄2", [(0, 2), (2, 3), (4, 5)]) == [(0, 1), (1, 2), (1, 2)]
    # several blanks stay, or become one
    assert original_spans("A  😀  ", "a  😀  ", [(0, 1), (3, 4)]) == [(0, 1), (3, 4)]
    assert original_spans("A  😀  b", "a 😀 b", [(0, 1), (2, 3), (4, 5)]) == [(0, 1), (3, 4), (6, 7)]
    # quotation marks are made straight, a blank takes a sign's place, marks are put in order
    assert original_spans(" “A” .", '"a" .', [(0, 1), (1, 2), (2, 3), (4, 5)]) == [
        (1, 2),
        (2, 3),
        (3, 4),
        (5, 6),
    ]
    assert original_spans(" x_y ", "x y", [(0, 1), (2, 3)]) == [(1, 2), (3, 4)]
    assert original_spans("O\u0302\u0323 .", "ộ .", [(0, 1), (2, 3)]) == [(0, 3), (4, 5)]
    # no way to tell: in proportion
    assert original_spans("abcd", "xy", [(0, 1), (1, 2)]) == [(0, 2), (2, 4)]
    assert original_spans("a", "", [(0, 0)]) == [(1, 1)]


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_two_texts_can_be_aligned(original, changed):
    cells = [(place, place + 1) for place in range(len(changed))]
    found = original_spans(original, changed, cells)
    assert all(0 <= start <= end <= len(original) for start, end in found)
    rows = settled(original, [(place, *span) for place, span in enumerate(found)])
    assert [start for _, start, _ in rows] == sorted(start for _, start, _ in rows)
    assert [end for _, _, end in rows] == sorted(end for _, _, end in rows)


def test_a_long_text_that_is_changed_throughout_takes_no_time():
    original, changed = "ab" * 20_000, "xyz" * 20_000
    assert original_spans(original, changed, [(0, 60_000)]) == [(0, 40_000)]


def test_unknown_signs_of_a_text_longer_than_its_pieces():
    assert spans_of_pieces("½ x", [0, 0, 0, 7], ["▁1", "⁄", "2", "▁x"]) == [
        (0, 0, 1),
        (0, 0, 1),
        (0, 0, 1),
        (7, 2, 3),
    ]


def test_captions_are_cut_and_it_is_counted(embedded):
    long = "a red dog runs"
    whole, cut, again = split_pieces(embedded, [long, "a", long])
    assert whole is again and whole.n_cut == 0 and whole.read_to == len(long)
    assert len(whole) == 4 and whole.starts.tolist() == [0, 2, 6, 10] and whole.ends.tolist() == [1, 5, 9, 14]
    assert whole.starts.dtype == whole.ends.dtype == np.int64
    (cut,) = split_pieces(embedded, [long], max_pieces=3)
    assert (cut.ids, cut.n_cut, cut.read_to) == (whole.ids[:3], 1, 10)
    assert len(split_pieces(embedded, ["dog " * 40])[0]) == 32
    assert split_pieces(embedded, ["dog " * 40])[0].n_cut == 8


def test_an_empty_caption_may_have_no_piece(loaded):
    (empty,) = split_pieces(loaded("clip"), ["  "])
    assert len(empty) == 0 and empty.starts.shape == (0,) and empty.n_cut == 0


# ---- each piece alone ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_stands_between_the_special_tokens(loaded, kind):
    backbone = loaded(kind)
    (pieces,) = split_pieces(backbone, ["a cat 犬"])
    rows = encode_pieces(backbone, pieces.ids)
    assert rows.shape == (len(pieces), backbone.dim) and rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    if kind == "open_clip clips":  # start, piece, end, padding, and the class token at the end of the context
        alone = [[0, token, 2, *[1] * 20, 0] for token in pieces.ids]
    else:
        before, after = SPECIAL[kind]
        alone = [[*before, token, *after] for token in pieces.ids]
    expected = np.concatenate([backbone.encode_tokens([sequence]) for sequence in alone])
    np.testing.assert_allclose(rows, expected, atol=1e-5)


@given(ids=st.lists(st.integers(3, 400), min_size=1, max_size=40))
def test_rows_do_not_depend_on_order_and_company(embedded, ids):
    pieces_module._encoded.pop(embedded, None)
    whole = encode_pieces(embedded, range(3, 401))
    again = copy.copy(embedded)
    np.testing.assert_allclose(encode_pieces(again, ids), whole[np.array(ids) - 3], atol=1e-6)


def test_a_piece_is_encoded_once():
    backbone = ColourBackbone()
    ids = split_pieces(backbone, ["red red blue"])[0].ids
    assert ids == [1, 1, 3]
    assert encode_pieces(backbone, ids).tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert backbone.text_batches == [[3, 3]]
    assert encode_pieces(backbone, [3, 2, 1]).tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert backbone.encoded_texts == 3
    assert encode_pieces(backbone, []).shape == (0, 3) and backbone.encoded_texts == 3


def test_what_is_remembered_is_bounded_and_goes_with_the_backbone(monkeypatch):
    monkeypatch.setattr(pieces_module, "MAX_REMEMBERED", 2)
    backbone = ColourBackbone()
    encode_pieces(backbone, [1, 2])
    encode_pieces(backbone, [3])  # one more than is remembered: only the last asked for stay
    assert pieces_module._encoded[backbone][1].keys() == {3}
    assert encode_pieces(backbone, [1, 2, 3]).tolist() == np.eye(3).tolist()
    assert len(pieces_module._encoded[backbone][1]) == 2
    backbone.fingerprint = "colours-2"
    before = backbone.encoded_texts
    encode_pieces(backbone, [1])
    assert backbone.encoded_texts == before + 1
    remembered = weakref.ref(next(iter(pieces_module._encoded[backbone][1].values())))
    del backbone
    gc.collect()
    assert remembered() is None


def test_a_trained_backbone_has_pieces_of_its_own(embedded):
    trained = load_backbone("embedded", device="cpu")
    ids = [345, 2665]
    before = encode_pieces(trained, ids)
    with np.testing.assert_raises(AssertionError):
        for parameter in trained.text_network().parameters():
            parameter.data.mul_(1.1)
        np.testing.assert_allclose(encode_pieces(trained.remade(), ids), before, atol=1e-4)
    assert trained.remade().piece_spans(["A dog"]) == embedded.piece_spans(["A dog"])


def test_a_backbone_that_tells_no_pieces_is_refused():
    class Silent(ColourBackbone):
        piece_spans = Backbone.piece_spans

    with pytest.raises(CapscoreError, match="'colours' does not offer"):
        split_pieces(Silent(), ["red"])


def test_a_tokenizer_that_tells_no_places_is_refused():
    class Slow:
        is_fast = False

    from capscore.backbones.tokens import piece_spans

    with pytest.raises(CapscoreError, match="Slow does not say"):
        piece_spans(Slow(), ["a"])


def test_rows_that_are_no_numbers_are_refused():
    class Broken(ColourBackbone):
        def encode_tokens(self, ids):
            return np.full((len(ids), 3), np.nan, np.float32)

    with pytest.raises(CapscoreError, match="NaN or infinity"):
        encode_pieces(Broken(), [1, 2])


def test_the_digest_of_a_backbone_is_that_of_its_towers(tmp_path):
    """Telling pieces changes neither weights nor tokenizer, and so no score that is in a cache."""
    backbone = load_backbone(str(tiny.write_clip(tmp_path / "clip")), device="cpu")
    before = backbone.fingerprint, backbone.tokenize(["a cat"]).ids
    backbone.piece_spans(["a cat"])
    again = backbone.remade()
    assert (again.fingerprint, again.tokenize(["a cat"]).ids) == before
