"""Captions embedded once, split by image, and in batches that depend on nothing else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, ImageError, InputError, LanguageWarning
from capscore.perturbations import KINDS, perturb
from tests.toy import BLUE, RED, ColourBackbone
from training.data.captions import Captions, check_captions, embed_captions
from training.data.rows import Row
from training.data.split import split_by_image
from training.data.triples import Noise, TripleBatches, epoch_seed

ENGLISH = [
    "a red kite over the green hill",
    "the red door of a small house",
    "green leaves lie on the wet road",
    "a blue boat waits in the harbour",
]
WORDS = Noise(kinds=("repetition", "removal", "masking", "jumble"))


def made(texts, images=None, *, languages=None, objects=None) -> Captions:
    """Captions without towers: image i is a row of its own."""
    images = list(range(len(texts))) if images is None else images
    n = max(images) + 1
    return Captions(
        texts=list(texts),
        languages=list(languages or ["en"] * len(texts)),
        objects=list(objects or [None] * len(texts)),
        image=np.array(images, dtype=np.int64),
        names=[(f"id{row}", f"photo{image}") for row, image in enumerate(images)],
        embeddings=np.eye(n, dtype=np.float32),
        keys=[f"key {image}" for image in range(n)],
        n_stand_ins=0,
    )


def drawn(captions, *, epoch=0, seed=0, **noise):
    """The triples of all captions in one batch, in the order of the captions."""
    n = len(captions)
    batches = TripleBatches(captions, range(n), batch_size=n, noise=Noise(**noise), seed=seed)
    return sorted(batches.batch(epoch, 0), key=lambda row: row.row)


# Embedding


def test_each_image_is_embedded_once_and_equal_pixels_are_one_image(monkeypatch):
    monkeypatch.setattr("training.data.captions._CHUNK", 2)
    backbone = ColourBackbone(prefix="green ")
    rows = [
        Row("a red kite", "en", image=RED),
        Row("ein roter Drachen", "de", image=RED.copy()),
        Row("the green field", "en", stand_in=("red",)),
        Row("the blue sea", "en", image=BLUE),
        Row("a field", "en", stand_in=("red",)),
    ]
    captions = embed_captions(rows, Embedder(backbone))
    assert (backbone.encoded_images, backbone.encoded_texts) == (2, 1)
    assert captions.image.tolist() == [0, 0, 2, 1, 2]
    half = 0.5**0.5  # a stand-in goes through the text tower with its prefix
    assert np.allclose(captions.embeddings, [[1, 0, 0], [0, 0, 1], [half, half, 0]])
    assert (len(captions), captions.n_stand_ins, len(set(captions.keys))) == (5, 1, 3)
    assert captions.languages == ["en", "de", "en", "en", "en"]


def test_rows_that_cannot_be_embedded_are_named():
    rows = [Row("a", "en", image=RED), Row("b", "en", image=b"no image", where="c.jsonl, line 2")]
    with pytest.raises(ImageError, match=r"c\.jsonl, line 2, image: "):
        embed_captions(rows, Embedder(ColourBackbone()))
    for check in (
        lambda rows: embed_captions(rows, Embedder(ColourBackbone())),
        lambda rows: check_captions(rows, nouns=True),
    ):
        with pytest.raises(InputError, match="no captions to train on"):
            check([])
    with pytest.raises(InputError, match=r"c\.jsonl, line 3, stand_in: it is a list of 2; expected one"):
        check_captions([Row("b", "en", stand_in=("a", "b"), where="c.jsonl, line 3")], nouns=False)


# Split


@settings(max_examples=20)
@given(st.integers(2, 40), st.integers(1, 5), st.floats(0, 0.9), st.integers(0, 9))
def test_no_image_is_on_both_sides_and_the_order_of_rows_does_not_matter(n_images, each, share, seed):
    images = [image for image in range(n_images) for _ in range(each)]
    captions = made([f"caption {row}" for row in range(len(images))], images)
    expected = max(round(share * n_images), 1) if share else 0
    if expected == n_images:
        return
    split = split_by_image(captions, validation_share=share, seed=seed)
    sides = [set(captions.image[rows]) for rows in (split.training, split.validation)]
    assert not sides[0] & sides[1] and len(sides[0] | sides[1]) == n_images
    assert len(sides[1]) == expected
    assert len(split.training) + len(split.validation) == len(captions)
    order = np.random.default_rng(seed).permutation(len(images))
    again = split_by_image(
        made([captions.texts[row] for row in order], captions.image[order].tolist()),
        validation_share=share,
        seed=seed,
    )
    assert {captions.texts[order[row]] for row in again.validation} == {
        captions.texts[row] for row in split.validation
    }


def test_the_split_is_nine_to_one_and_the_seed_gives_another():
    captions = made([f"caption {row}" for row in range(200)])
    splits = [split_by_image(captions, seed=seed) for seed in (0, 1)]
    assert [len(split.validation) for split in splits] == [20, 20]
    assert splits[0].validation.tolist() != splits[1].validation.tolist()


def test_held_out_images_are_in_neither_part():
    captions = made([f"caption {row}" for row in range(30)], [row // 3 for row in range(30)])
    # the id of one caption, and the name of an image: all captions of both images go
    split = split_by_image(captions, hold_out={"id4", "photo7", "of another set"})
    kept = set(split.training) | set(split.validation)
    assert kept == set(range(30)) - {3, 4, 5, 21, 22, 23}
    assert split.n_held_out == 6
    assert "held out" in split.described(0) and "few-shot" not in split.described(0)


def test_few_shot_takes_so_many_captions_and_measures_on_the_others():
    captions = made([f"caption {row}" for row in range(300)], [row // 3 for row in range(300)])
    split = split_by_image(captions, few_shot=31, hold_out={"photo0"})
    assert (len(split.training), split.n_left_out, len(split.validation)) == (31, 2, 264)
    assert not set(captions.image[split.training]) & set(captions.image[split.validation])
    assert split.n_held_out == 3 and 0 not in captions.image[[*split.training, *split.validation]]
    # images come in the order of a hash of their keys, rows of an image in that of the data
    order = sorted(range(1, 100), key=lambda n: xxhash.xxh3_64_intdigest(f"0|key {n}".encode()))
    expected = [3 * n + row for n in order[:10] for row in range(3)] + [3 * order[10]]
    assert split.training.tolist() == sorted(expected)
    published = split_by_image(made([f"caption {row}" for row in range(3000)]), few_shot=300)
    assert (len(published.training), len(published.validation)) == (300, 2700)


@pytest.mark.parametrize(
    ("n", "arguments", "message"),
    [
        (1, {"validation_share": 0.6}, "1 image puts all captions in the validation split"),
        (4, {"validation_share": 0.9}, "4 images puts all captions in the validation split"),
        (3, {"hold_out": {"photo0", "photo1", "photo2"}}, "all 3 images are on the list"),
        (3, {"few_shot": 3}, "few_shot=3: 3 captions are not enough"),
        (3, {"few_shot": 0}, "few_shot=0"),
        (3, {"validation_share": 1.0}, r"validation_share=1\.0: expected a share"),
    ],
)
def test_splits_that_cannot_be(n, arguments, message):
    with pytest.raises(InputError, match=message):
        split_by_image(made(["x"] * n), **arguments)


# Batches


@settings(max_examples=20)
@given(st.integers(1, 60), st.integers(1, 17), st.integers(0, 5))
def test_an_epoch_has_each_caption_once_whatever_was_asked_before(n, batch_size, epoch):
    captions = made([f"a dog {row} and its stick" for row in range(n)])
    batches, fresh = (
        TripleBatches(captions, range(n), batch_size=batch_size, noise=WORDS, seed=3) for _ in range(2)
    )
    steps = [batches.batch(epoch, step) for step in range(batches.steps_per_epoch)]
    assert sorted(row.row for rows in steps for row in rows) == list(range(n))
    assert max(map(len, steps)) <= batch_size and max(map(len, steps)) - min(map(len, steps)) <= 1
    for step in reversed(range(batches.steps_per_epoch)):
        assert fresh.batch(epoch, step) == steps[step]
    order = np.random.default_rng((3, epoch, 0)).permutation(n)
    assert [row.row for rows in steps for row in rows] == order.tolist()


def test_perturbations_are_those_of_the_library_drawn_afresh_each_epoch():
    captions = made(ENGLISH)
    epochs = [
        {row.caption: row.perturbed for row in drawn(captions, epoch=e, kinds=("jumble",))} for e in range(6)
    ]
    for caption in ENGLISH:
        assert len({epoch[caption] for epoch in epochs}) >= 4
    assert {r.caption: r.perturbed for r in drawn(captions, seed=1, kinds=("jumble",))} != epochs[0]
    for row in drawn(captions, epoch=2, seed=5, kinds=WORDS.kinds):
        expected = perturb([row.caption], row.kinds[0], "en", seed=epoch_seed(5, 2))
        assert row.perturbed == tuple(expected.captions)


def test_the_settings_reach_the_perturbations():
    rows = drawn(made([f"word{row} goes home by night" for row in range(50)]), kinds=("removal",), p=1.0)
    assert {len(row.perturbed[0].split()) for row in rows} == {4}
    dog = made(["a dog and a cat on the beach"], objects=[("dog", "cat", "beach")])
    texts = {
        order: {drawn(dog, epoch=e, kinds=("substitution",), order=order)[0].perturbed[0] for e in range(40)}
        for order in ("every", "published")
    }
    assert texts["every"] == {"a cat and a beach on the dog", "a beach and a dog on the cat"}
    assert texts["published"] > texts["every"] and len(texts["published"]) == 5


def test_a_caption_that_a_kind_cannot_change_gets_another_one_of_the_others():
    captions = made(["sunset", *(f"a dog {row}" for row in range(3))])
    for epoch in range(8):
        for shares in ((), (1e6, 1e6, 1.0)):
            kinds = ("removal", "jumble", "masking")
            sunset = drawn(captions, epoch=epoch, kinds=kinds, shares=shares)[0]
            assert (sunset.perturbed, sunset.kinds) == (("[MASK]",), ("masking",))
    sunset = drawn(captions, kinds=("removal", "jumble"))[0]
    assert (sunset.perturbed, sunset.kinds) == ((None,), ("",))


def test_all_draws_give_every_kind_and_none_where_it_changes_nothing():
    captions = made(["a dog on the beach", "sunset"], objects=[("dog", "beach"), ()])
    dog, sunset = drawn(captions, draws="all")
    assert dog.kinds == KINDS and None not in dog.perturbed
    assert dog.perturbed[KINDS.index("substitution")] == "a beach on the dog"
    assert sunset.kinds == ("repetition", "", "masking", "", "")


def test_each_language_is_perturbed_as_its_own():
    captions = made(["赤い凧が丘の上を飛ぶ", ENGLISH[0]], languages=["ja", "en"])
    japanese, english = drawn(captions, kinds=("masking",))
    assert " " not in japanese.perturbed[0] and "[MASK]" in japanese.perturbed[0]
    assert english.perturbed[0].count(" ") == ENGLISH[0].count(" ")


def test_where_nothing_finds_nouns_the_other_kinds_are_drawn_and_it_is_said():
    captions = made(
        ["he kurī kei te tāhuna"] * 5 + ["a dog on the beach"],
        languages=["mi"] * 5 + ["en"],
        objects=[None] * 5 + [("dog", "beach")],
    )
    noise = Noise(kinds=("substitution", "masking"))
    with pytest.warns(LanguageWarning, match="no noun finder for mi"):
        batches = TripleBatches(captions, range(6), batch_size=6, noise=noise)
    assert batches.noun_finders == {"mi": ""}
    assert Counter((row.language, row.kinds[0]) for row in batches.batch(0, 0))["mi", "masking"] == 5
    assert TripleBatches(captions, range(6), batch_size=6, noise=WORDS).noun_finders == {}


def first_kinds(shares=(), n=40, **options):
    captions = made([f"word{row} goes home by night" for row in range(n)])
    return [row.kinds[0] for row in drawn(captions, kinds=WORDS.kinds, shares=shares, **options)]


def test_kinds_come_as_often_as_their_shares_say():
    for shares in ((), (1.0, 2.0, 3.0, 4.0)):
        counts = Counter(first_kinds(shares, 2000))
        for kind, share in zip(WORDS.kinds, shares or (2.5,) * 4, strict=True):
            chance = share / 10  # 2,000 draws, ± 4 standard deviations
            assert abs(counts[kind] - 2000 * chance) < 4 * (2000 * chance * (1 - chance)) ** 0.5, kind
    assert first_kinds((1, 1, 2, 4)) == first_kinds((8.0, 8.0, 16.0, 32.0))
    assert first_kinds((1, 1, 2, 4)) != first_kinds((1, 1, 2, 4), epoch=1)


def test_what_a_seed_draws_stays():
    # NumPy's own draw for the caption's number is what decides, and stays so for weights that ship
    expected = [WORDS.kinds[np.random.default_rng((3, 2, 1, row)).permutation(4)[0]] for row in range(40)]
    assert first_kinds(seed=3, epoch=2) == expected
    # the first of a weighted draw is where one uniform number falls among the running sums
    numbers = [np.random.default_rng((0, 0, 1, row)).random(4)[0] for row in range(40)]
    expected = [WORDS.kinds[sum(number >= edge for edge in (0.1, 0.3, 0.6))] for number in numbers]
    assert first_kinds((1.0, 2.0, 3.0, 4.0)) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ("jumbel",)}, "'jumbel' .*jumble"),
        ({"kinds": ()}, r"kinds=\[\]: expected one or more"),
        ({"kinds": ("jumble", "jumble")}, "each once"),
        ({"p": 1.5}, r"p=1\.5"),
        ({"removal": "kept"}, "removal='kept'"),
        ({"order": "ever"}, "order='ever'"),
        ({"draws": "two"}, "draws='two'"),
        ({"shares": (1.0, 2.0)}, r"shares=\[1\.0, 2\.0\]: expected a number above 0 for each of repetition"),
        ({"kinds": ("jumble",), "shares": (0.0,)}, r"shares=\[0\.0\]"),
        ({"kinds": ("jumble",), "shares": (float("nan"),)}, r"shares=\[nan\]"),
        ({"kinds": ("jumble",), "shares": (float("inf"),)}, r"shares=\[inf\]"),
        ({"kinds": ("jumble",), "shares": (1.0,), "draws": "all"}, r"shares=\[1\.0\] is for draws='one'"),
    ],
)
def test_noise_that_cannot_be(settings, message):
    with pytest.raises(CapscoreError, match=message):
        Noise(**settings)


def test_batches_need_captions():
    with pytest.raises(InputError, match="no captions to train on"):
        TripleBatches(made(ENGLISH), [], batch_size=2)
