"""Captions embedded once, split by image, and in batches that depend on nothing else."""

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.embedding.embedder import Embedder
from capscore.errors import ImageError, InputError, LanguageWarning
from capscore.perturbations import perturb
from tools.tiny.colours import BLUE, RED, ColourBackbone
from training.data.captions import Captions, embed_captions
from training.data.photos import held_out, photos_of
from training.data.pictures import Pictures
from training.data.rows import Row
from training.data.split import split_by_image
from training.data.stored import StoredRows
from training.data.triples import Noise, TripleBatches, epoch_seed

ENGLISH = [
    "a red kite over the green hill",
    "the red door of a small house",
    "green leaves lie on the wet road",
    "a blue boat waits in the harbour",
]
WORDS = ("repetition", "removal", "masking", "jumble")


def embedded(rows, backbone) -> Captions:
    return embed_captions(rows, Pictures(Embedder(backbone), StoredRows(backbone.dim)))


def made(texts, images=None, *, languages=None, objects=None) -> Captions:
    """Captions without towers: image i is a row of its own."""
    n_texts, rows = len(texts), []
    images = list(range(n_texts)) if images is None else images
    columns = zip(texts, images, languages or ["en"] * n_texts, objects or [None] * n_texts, strict=True)
    for number, (text, image, language, named) in enumerate(columns):
        rows.append(Row(text, language, objects=named, names=(f"id{number}", f"photo{image}")))
    n = max(images) + 1
    keys = [f"key {image}" for image in range(n)]
    photos = photos_of(rows, [keys[image] for image in images])
    return Captions(rows, np.array(images), np.eye(n, dtype=np.float32), keys, 0, photos)


def numbered(n, each=1) -> Captions:
    return made([f"word{row} goes home by night" for row in range(n)], [row // each for row in range(n)])


def drawn(captions, *, epoch=0, seed=0, **noise):
    n = len(captions.rows)
    batches = TripleBatches(captions, range(n), batch_size=n, noise=Noise(**noise), seed=seed)
    return sorted(batches.batch(epoch, 0), key=lambda row: row.row)


def test_each_image_is_embedded_once_and_equal_pixels_are_one_image(monkeypatch):
    monkeypatch.setattr("training.data.pictures._CHUNK", 2)
    backbone = ColourBackbone(prefix="green ")
    rows = [
        Row("a red kite", "en", image=RED),
        Row("ein roter Drachen", "de", image=RED.copy()),
        Row("the green field", "en", stand_in=("red",)),
        Row("the blue sea", "en", image=BLUE),
        Row("a field", "en", stand_in=("red",)),
    ]
    captions = embedded(rows, backbone)
    assert (backbone.encoded_images, backbone.encoded_texts) == (2, 1)
    assert captions.image.tolist() == [0, 0, 2, 1, 2]
    half = 0.5**0.5  # a stand-in goes through the text tower with its prefix
    assert np.allclose(captions.embeddings, [[1, 0, 0], [0, 0, 1], [half, half, 0]])
    assert (len(captions.rows), captions.n_stand_ins, len(set(captions.keys))) == (5, 1, 3)
    assert captions.images_in_words() == "3 images, 1 of them replaced by texts"
    assert captions.languages(np.arange(3)) == ["de", "en"]


def test_rows_that_cannot_be_embedded_are_named():
    rows = [Row("a", "en", image=RED), Row("b", "en", image=b"no image", where="c.jsonl, line 2")]
    with pytest.raises(ImageError, match=r"c\.jsonl, line 2, image: "):
        embedded(rows, ColourBackbone())
    with pytest.raises(InputError, match="no captions to train on"):
        embedded([], ColourBackbone())


@settings(max_examples=20)
@given(st.integers(2, 40), st.integers(1, 5), st.floats(0, 0.9), st.integers(0, 9))
def test_no_image_is_on_both_sides_and_the_order_of_rows_does_not_matter(n_images, each, share, seed):
    captions = numbered(n_images * each, each)
    expected = max(round(share * n_images), 1) if share else 0
    if expected == n_images:
        return
    split = split_by_image(captions.photos, validation_share=share, seed=seed)
    sides = [set(captions.image[rows]) for rows in (split.training, split.validation)]
    assert not sides[0] & sides[1] and len(sides[0] | sides[1]) == n_images
    assert len(sides[1]) == expected
    assert len(split.training) + len(split.validation) == len(captions.rows)
    order = np.random.default_rng(seed).permutation(len(captions.rows))
    other = made([captions.texts[row] for row in order], captions.image[order].tolist())
    again = split_by_image(other.photos, validation_share=share, seed=seed)
    assert set(order[again.validation]) == set(split.validation)


def test_few_shot_takes_so_many_captions_and_measures_on_the_others():
    captions = numbered(300, each=3)
    split = split_by_image(captions.photos, few_shot=31, hold_out=["photo0"])
    assert (*split.sizes, split.n_left_out) == (31, 264, 2)
    assert not set(captions.image[split.training]) & set(captions.image[split.validation])
    assert "3 rows of 1 photo" in split.held_out
    # images come in the order of a hash of their keys, rows of an image in that of the data
    order = sorted(range(1, 100), key=lambda n: xxhash.xxh3_64_intdigest(f"0|key {n}".encode()))
    expected = [3 * n + row for n in order[:10] for row in range(3)] + [3 * order[10]]
    assert split.training.tolist() == sorted(expected)


@pytest.mark.parametrize(
    ("n", "arguments", "message"),
    [
        (1, {"validation_share": 0.6}, "1 image puts all captions in validation"),
        (3, {"hold_out": ["photo0", "photo1", "photo2"]}, "all 3 images are on the list"),
        (3, {"hold_out": ["photo9", "id"]}, "0 of the 2 names .*'photo9': no photo has .* named 'id0'"),
        (3, {"few_shot": 3}, "few_shot=3: 3 captions are too few"),
        (3, {"few_shot": 0}, "few_shot=0"),
        (3, {"validation_share": 1.0}, r"validation_share=1\.0: expected a share"),
    ],
)
def test_impossible_splits_are_refused(n, arguments, message):
    with pytest.raises(InputError, match=message):
        split_by_image(numbered(n).photos, **arguments)


def standing_in(*texts, caption="x", **known) -> Row:
    return Row(caption, "en", stand_in=texts, **known)


@pytest.mark.parametrize(
    ("rows", "same"),
    [
        ([Row("a", "en", photo=("a/1.jpg",)), Row("b", "en", photo=("b/1.jpg",))], False),
        ([standing_in("a", photo=("a/1.jpg",)), standing_in("b", photo=("b/1.jpg",))], False),
        ([standing_in("a", photo=("a/1.jpg",)), standing_in("b", photo=("1",))], True),
        ([standing_in("a", photo=("/data/a/1.jpg",)), standing_in("b", photo=("a/0001.png",))], True),
        ([Row("a", "en", photo=("v/COCO_val2014_000000000042.jpg",)), standing_in("b", photo=("42",))], True),
        ([Row("a", "en", photo=("a.jpg", "7")), standing_in("b", photo=("7",))], True),
        ([standing_in("a", names=("7",)), standing_in("b", names=("7",))], True),
        ([standing_in("a", names=("7",)), standing_in("b", names=("8",))], False),
        ([Row("a", "en", names=("7",)), standing_in("b", names=("7",))], True),
        ([Row("a", "en", names=("7",)), Row("b", "en", names=("7",))], False),
        ([standing_in("A dog.", caption="b"), standing_in("B", caption="a  dog.")], True),
        ([standing_in("a", "b"), standing_in("b", "c")], True),
        ([standing_in("a", "b", photo=("1",)), standing_in("b", "c", photo=("2",))], False),
        ([Row("A dog.", "en", photo=("1",)), standing_in("a dog.")], True),
        ([Row("A dog.", "en", photo=("1",), rating=1.0), standing_in("a dog.")], False),
    ],
)
def test_rows_of_one_photo_are_known_by_its_name_and_by_what_stands_in(rows, same):
    assert len(photos_of(rows, ["k0", "k1"]).keys) == 2 - same
    assert len(photos_of(rows, ["k", "k"]).keys) == 1  # equal content
    backwards = photos_of([*reversed(rows)], ["k1", "k0"])
    assert {*backwards.keys} == ({"k0"} if same else {"k0", "k1"})


@pytest.mark.parametrize(
    ("names", "listed", "held"),
    [
        (("COCO_val2014_000000391895.jpg",), "391895", True),
        (("dog/0001.jpg", "0001.jpg", "0001"), "/data/dog/0001.png", True),
        (("dog/0001.jpg", "0001.jpg", "0001"), "cat/0001.jpg", False),
        (("7", "a.jpg"), "7", True),
    ],
)
def test_a_list_names_photos_as_files_and_ids_do(names, listed, held):
    rows = [Row("a", "en", names=some) for some in (names, ("x/other", "other"), ("y/other", "other"))]
    photos = photos_of(rows, ["k0", "k1", "k2"])
    assert held_out(photos, [listed, "x/other"])[0].tolist() == [held, True, False]
    with pytest.raises(InputError, match="on the list is not clear: it could be 'x/other' and 'y/other'"):
        held_out(photos, ["other"])


def test_perturbations_are_those_of_the_library_drawn_afresh_each_epoch():
    captions = made(ENGLISH)
    epochs = [[row.perturbed for row in drawn(captions, epoch=e, kinds=("jumble",))] for e in range(6)]
    assert all(len({*texts}) >= 4 for texts in zip(*epochs, strict=True))
    for row in drawn(captions, epoch=2, seed=5, kinds=WORDS):
        expected = perturb([row.caption], row.kind, "en", seed=epoch_seed(5, 2))
        assert [row.perturbed] == list(expected.captions)


def test_the_settings_reach_the_perturbations():
    rows = drawn(numbered(50), kinds=("removal",), p=1.0)
    assert {len(row.perturbed.split()) for row in rows} == {4}
    dog = made(["a dog and a cat on the beach"], objects=[("dog", "cat", "beach")])
    texts = {
        order: {drawn(dog, epoch=e, kinds=("substitution",), order=order)[0].perturbed for e in range(40)}
        for order in ("every", "published")
    }
    assert texts["every"] == {"a cat and a beach on the dog", "a beach and a dog on the cat"}
    assert texts["published"] > texts["every"] and len(texts["published"]) == 5


def test_a_caption_that_a_kind_cannot_change_gets_another_kind():
    captions = made(["sunset", *(f"a dog {row}" for row in range(3))])
    for epoch in range(8):
        sunset = drawn(captions, epoch=epoch, kinds=("removal", "jumble", "masking"))[0]
        assert (sunset.perturbed, sunset.kind) == ("[MASK]", "masking")
    sunset = drawn(captions, kinds=("removal", "jumble"))[0]
    assert (sunset.perturbed, sunset.kind) == (None, "")


def test_each_language_is_perturbed_as_its_own():
    captions = made(["赤い凧が丘の上を飛ぶ", ENGLISH[0]], languages=["ja", "en"])
    japanese, english = drawn(captions, kinds=("masking",))
    assert " " not in japanese.perturbed and "[MASK]" in japanese.perturbed
    assert english.perturbed.count(" ") == ENGLISH[0].count(" ")


def test_without_a_noun_finder_the_other_kinds_are_drawn_with_a_warning():
    texts, objects = ["he kurī kei te tāhuna"] * 5 + ["a dog on the beach"], [None] * 5 + [("dog", "beach")]
    captions = made(texts, languages=["mi"] * 5 + ["en"], objects=objects)
    noise = Noise(kinds=("substitution", "masking"))
    with pytest.warns(LanguageWarning, match="no noun finder for mi"):
        batches = TripleBatches(captions, range(6), batch_size=6, noise=noise)
    assert batches.noun_finders == {"mi": ""}
    assert [row.kind for row in batches.batch(0, 0) if row.row < 5] == ["masking"] * 5
    assert TripleBatches(captions, range(6), batch_size=6, noise=Noise(WORDS)).noun_finders == {}
