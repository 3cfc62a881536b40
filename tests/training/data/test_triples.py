"""Captions to train on: read, embedded once, split by image, and in batches that depend on nothing else."""

from __future__ import annotations

import csv
import json
import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, ImageError, InputError, LanguageWarning
from capscore.perturbations import KINDS, perturb
from tests.photos import encode
from tests.toy import BLUE, GREEN, RED, ColourBackbone
from training.data.caption_rows import CaptionRow, benchmark_rows, file_rows, read_names
from training.data.captions import Captions, embed_captions
from training.data.split import split_by_image
from training.data.triples import Noise, TripleBatches

ENGLISH = [
    "a red kite over the green hill",
    "the red door of a small house",
    "green leaves lie on the wet road",
    "a blue boat waits in the harbour",
]


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
        n_truncated=0,
    )


WORDS = Noise(kinds=("repetition", "removal", "masking", "jumble"))


# Embedding


def test_each_image_is_embedded_once_and_equal_pixels_are_one_image():
    backbone = ColourBackbone()
    rows = [
        CaptionRow("a red kite", "en", image=RED),
        CaptionRow("ein roter Drachen", "de", image=RED.copy()),
        CaptionRow("the green field", "en", stand_in="green grass"),
        CaptionRow("the blue sea", "en", image=BLUE),
        CaptionRow("a field", "en", stand_in="green grass"),
    ]
    captions = embed_captions(rows, Embedder(backbone))
    assert (backbone.encoded_images, backbone.encoded_texts) == (2, 1)
    assert captions.image.tolist() == [0, 0, 2, 1, 2]
    assert np.allclose(captions.embeddings, [[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    assert (len(captions), captions.n_stand_ins, len(set(captions.keys))) == (5, 1, 3)
    assert captions.languages == ["en", "de", "en", "en", "en"]


def test_a_stand_in_goes_through_the_text_tower_with_its_prefix():
    captions = embed_captions(
        [CaptionRow("x", "en", stand_in="red")], Embedder(ColourBackbone(prefix="green "))
    )
    assert np.allclose(captions.embeddings, [[0.5**0.5, 0.5**0.5, 0]])


def test_many_embeddings_are_mapped_from_a_file(tmp_path):
    shades = [np.full((2, 2, 3), (value, 255 - value, 7), dtype=np.uint8) for value in range(40)]
    rows = [CaptionRow(f"shade {value}", "en", image=shade) for value, shade in enumerate(shades)]
    plain = embed_captions(rows, Embedder(ColourBackbone()))
    mapped = embed_captions(rows, Embedder(ColourBackbone()), folder=tmp_path, in_memory=100)
    assert isinstance(mapped.embeddings, np.memmap) and not isinstance(plain.embeddings, np.memmap)
    assert np.allclose(mapped.embeddings, plain.embeddings, rtol=0, atol=1e-6)
    assert not list(tmp_path.iterdir())


def test_embedding_names_the_row_of_a_bad_image_and_wants_rows():
    rows = [
        CaptionRow("a", "en", image=RED),
        CaptionRow("b", "en", image=b"no image", place="c.jsonl, line 2"),
    ]
    with pytest.raises(ImageError, match=r"c\.jsonl, line 2, image: "):
        embed_captions(rows, Embedder(ColourBackbone()))
    with pytest.raises(InputError, match="no captions to train on"):
        embed_captions([], Embedder(ColourBackbone()))


# Reading


@pytest.fixture
def photos(tmp_path):
    Image.fromarray(RED).save(tmp_path / "red.png")
    Image.fromarray(GREEN).save(tmp_path / "green.png")
    return tmp_path


ROWS = [
    {"id": "7", "image": "red.png", "caption": "a red kite", "language": "en-GB", "objects": ["kite"]},
    {"id": "8", "image": "green", "caption": "grüne Wiese", "language": "de", "objects": None},
]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_jsonl_csv_and_parquet_give_the_same_rows(photos):
    jsonl = write_jsonl(photos / "rows.jsonl", ROWS)
    pq.write_table(pa.Table.from_pylist(ROWS), photos / "rows.parquet")
    with open(photos / "rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows({**row, "objects": json.dumps(row["objects"] or [])} for row in ROWS)

    def shown(path):
        return [(r.caption, r.language, r.image, r.stand_in, r.objects, r.names) for r in file_rows(path)]

    expected = [
        ("a red kite", "en", photos / "red.png", None, ("kite",), ("7", "red.png", "red")),
        ("grüne Wiese", "de", photos / "green.png", None, None, ("8", "green")),
    ]
    assert shown(jsonl) == expected
    assert shown(photos / "rows.parquet") == expected
    # a cell of CSV says that there are no objects, not that nobody looked
    assert shown(photos / "rows.csv") == [expected[0], (*expected[1][:4], (), expected[1][5])]
    captions = embed_captions(file_rows(jsonl), Embedder(ColourBackbone()))
    assert np.allclose(captions.embeddings, [[1, 0, 0], [0, 1, 0]])


def test_photos_inside_parquet_keep_their_names(tmp_path):
    stored = [{"image": {"bytes": encode(RED), "path": "a/red.png"}, "caption": "red", "lang": "en"}]
    pq.write_table(pa.Table.from_pylist(stored), tmp_path / "rows.parquet")
    (row,) = file_rows(tmp_path / "rows.parquet")
    assert row.names == ("a/red.png", "red.png", "red")
    assert np.allclose(embed_captions([row], Embedder(ColourBackbone())).embeddings, [[1, 0, 0]])


def test_a_text_may_stand_in_where_there_is_no_image(photos):
    mixed = [
        {"stand_in": "une prairie", "caption": "a meadow"},
        {"image": "red.png", "caption": "a kite", "stand_in": None},
    ]
    rows = list(file_rows(write_jsonl(photos / "r.jsonl", mixed), language="en"))
    assert [(row.image, row.stand_in) for row in rows] == [(None, "une prairie"), (photos / "red.png", None)]
    only = list(file_rows(write_jsonl(photos / "s.jsonl", mixed[:1]), language="en"))
    assert only[0].stand_in == "une prairie"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image": "red.png", "caption": 3}, r"line 2 .*caption: 3 is a int; expected a string"),
        ({"image": "red.png", "caption": " "}, "line 2 .*caption: it is blank"),
        ({"image": "reed.png", "caption": "x"}, r"line 2 .*image: no such file: .*reed\.png"),
        ({"image": "red.png", "caption": "x", "stand_in": "y"}, "line 2 .*both an image and a stand_in"),
        ({"caption": "x"}, "line 2 .*neither an image nor a stand_in"),
        ({"caption": "x", "stand_in": 4}, "line 2 .*stand_in: 4 is a int"),
        ({"image": "red.png", "caption": "x", "language": "klingonese"}, "line 2 .*unknown language code"),
        ({"image": "red.png", "caption": "x", "language": None}, "line 2 .*states no language"),
        (
            {"image": "red.png", "caption": "x", "objects": "kite"},
            "line 2 .*objects: 'kite'; expected a list",
        ),
    ],
)
def test_what_is_wrong_with_a_row_names_its_line(photos, row, message):
    first = {"image": "red.png", "caption": "x", "language": "en", "stand_in": None}
    path = write_jsonl(photos / "rows.jsonl", [first, {"language": "en", **row}])
    with pytest.raises(InputError, match=message):
        list(file_rows(path))


def test_what_is_wrong_with_a_file(tmp_path, photos):
    with pytest.raises(InputError, match="no such file"):
        list(file_rows(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match=r"candidate_column.*found 'image', 'words'"):
        list(file_rows(write_jsonl(tmp_path / "r.jsonl", [{"image": "red.png", "words": "x"}])))
    odd = write_jsonl(tmp_path / "o.jsonl", [{"photo": "red.png", "words": "x", "tongue": "de"}])
    (row,) = file_rows(odd, image_column="photo", candidate_column="words", language_column="tongue")
    assert (row.caption, row.language) == ("x", "de")


def test_lists_of_names(tmp_path):
    path = tmp_path / "held.txt"
    path.write_text("red.png\n\n id7 \n", encoding="utf-8")
    assert read_names(path) == {"red.png", "id7"}
    path.write_text("\n")
    with pytest.raises(InputError, match="is empty"):
        read_names(path)
    with pytest.raises(InputError, match=r"none\.txt cannot be read"):
        read_names(tmp_path / "none.txt")


def test_a_benchmark_brings_captions_images_and_critical_objects(tmp_path):
    folder = tmp_path / "m_finecap3k"
    (folder / "images").mkdir(parents=True)
    Image.fromarray(RED).save(folder / "images" / "r.png")
    row = {"id": "1", "image": "r.png", "caption": "un cerf-volant sur la plage", "backgrounds": []}
    write_jsonl(
        folder / "fr.jsonl", [{**row, "critical_objects": ["cerf-volant", "plage"], "relationships": []}]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one row is fewer than published
        rows = list(benchmark_rows("m_finecap3k", "fr", data_dir=folder))
    assert [(r.caption, r.language, r.objects) for r in rows] == [
        ("un cerf-volant sur la plage", "fr", ("cerf-volant", "plage"))
    ]
    assert {"1", "r.png", "r"} == set(rows[0].names)
    assert np.allclose(embed_captions(rows, Embedder(ColourBackbone())).embeddings, [[1, 0, 0]])


# Split


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
    assert len(split_by_image(captions, validation_share=0).validation) == 0


def test_held_out_images_are_in_neither_part():
    captions = made([f"caption {row}" for row in range(30)], [row // 3 for row in range(30)])
    # the id of one caption, and the name of an image: all captions of both images go
    split = split_by_image(captions, hold_out={"id4", "photo7", "of another set"})
    kept = set(split.training) | set(split.validation)
    assert kept == set(range(30)) - {3, 4, 5, 21, 22, 23}
    assert split.n_held_out == 6


def test_few_shot_takes_so_many_captions_and_measures_on_the_others():
    captions = made([f"caption {row}" for row in range(300)], [row // 3 for row in range(300)])
    split = split_by_image(captions, few_shot=31)
    assert (len(split.training), split.n_left_out, len(split.validation)) == (31, 2, 267)
    assert not set(captions.image[split.training]) & set(captions.image[split.validation])
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
        (3, {"validation_share": 1.0}, "validation_share=1.0: expected a share"),
    ],
)
def test_splits_that_cannot_be(n, arguments, message):
    with pytest.raises(InputError, match=message):
        split_by_image(made(["x"] * n), **arguments)


# Batches


@given(st.integers(1, 60), st.integers(1, 17), st.integers(0, 5))
def test_an_epoch_has_each_caption_once_whatever_was_asked_before(n, batch_size, epoch):
    captions = made([f"a dog {row} and its stick" for row in range(n)])
    batches = TripleBatches(captions, range(n), batch_size=batch_size, noise=WORDS, seed=3)
    steps = [batches.batch(epoch, step) for step in range(batches.steps_per_epoch)]
    assert sorted(row.row for rows in steps for row in rows) == list(range(n))
    assert max(map(len, steps)) <= batch_size and max(map(len, steps)) - min(map(len, steps)) <= 1
    fresh = TripleBatches(captions, range(n), batch_size=batch_size, noise=WORDS, seed=3)
    for step in reversed(range(batches.steps_per_epoch)):
        assert fresh.batch(epoch, step) == steps[step]


def test_perturbations_are_those_of_the_library_drawn_afresh_each_epoch():
    captions = made(ENGLISH)
    batches = TripleBatches(captions, range(4), batch_size=4, noise=Noise(kinds=("jumble",)))
    epochs = [{row.caption: row.perturbed[0] for row in batches.batch(epoch, 0)} for epoch in range(6)]
    assert all(set(epoch) == set(ENGLISH) for epoch in epochs)
    for caption in ENGLISH:
        assert len({epoch[caption] for epoch in epochs}) >= 4
        assert all(sorted(epoch[caption].split()) == sorted(caption.split()) for epoch in epochs)
    other = TripleBatches(captions, range(4), batch_size=4, noise=Noise(kinds=("jumble",)), seed=1)
    assert {row.caption: row.perturbed[0] for row in other.batch(0, 0)} != epochs[0]


def test_kinds_are_drawn_uniformly_and_the_settings_reach_them():
    captions = made([f"word{row} goes home by night" for row in range(2000)])
    batches = TripleBatches(captions, range(2000), batch_size=2000, noise=WORDS)
    counts = Counter(row.kinds[0] for row in batches.batch(0, 0))
    assert set(counts) == set(WORDS.kinds)
    assert all(430 < count < 570 for count in counts.values())  # 500 ± 3.6 standard deviations
    all_but_one = Noise(kinds=("removal",), p=1.0, removal="keep")
    rows = TripleBatches(captions, range(50), batch_size=50, noise=all_but_one).batch(0, 0)
    assert {len(row.perturbed[0].split()) for row in rows} == {4}


def test_a_caption_that_a_kind_cannot_change_gets_another_one_of_the_others():
    captions = made(["sunset"] * 1 + [f"a dog {row}" for row in range(3)])
    noise = Noise(kinds=("removal", "jumble", "masking"))
    for epoch in range(8):
        batch = TripleBatches(captions, range(4), batch_size=4, noise=noise).batch(epoch, 0)
        (sunset,) = [row for row in batch if row.caption == "sunset"]
        assert (sunset.perturbed, sunset.kinds) == (("[MASK]",), ("masking",))
    alone = TripleBatches(captions, range(4), batch_size=4, noise=Noise(kinds=("removal", "jumble")))
    (sunset,) = [row for row in alone.batch(0, 0) if row.caption == "sunset"]
    assert (sunset.perturbed, sunset.kinds) == ((None,), ("",))


def test_all_draws_give_every_kind_and_none_where_it_changes_nothing():
    captions = made(["a dog on the beach", "sunset"], objects=[("dog", "beach"), ()])
    batches = TripleBatches(captions, range(2), batch_size=2, noise=Noise(draws="all"))
    rows = {row.caption: row for row in batches.batch(0, 0)}
    dog = rows["a dog on the beach"]
    assert dog.kinds == KINDS and None not in dog.perturbed
    assert dog.perturbed[KINDS.index("substitution")] == "a beach on the dog"
    assert rows["sunset"].kinds == ("repetition", "", "masking", "", "")


def test_each_language_is_perturbed_as_its_own():
    japanese = "赤い凧が丘の上を飛ぶ"
    captions = made([japanese, ENGLISH[0]], languages=["ja", "en"])
    batches = TripleBatches(captions, range(2), batch_size=2, noise=Noise(kinds=("masking",)))
    rows = {row.language: row for row in batches.batch(0, 0)}
    assert " " not in rows["ja"].perturbed[0] and "[MASK]" in rows["ja"].perturbed[0]
    assert rows["en"].perturbed[0].count(" ") == ENGLISH[0].count(" ")


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
    kinds = Counter((row.language, row.kinds[0]) for row in batches.batch(0, 0))
    assert kinds[("mi", "masking")] == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TripleBatches(captions, range(6), batch_size=6, noise=WORDS)


def test_annotated_objects_win_over_nouns():
    captions = made(["a dog and a cat on the beach"], objects=[("cat", "beach")])
    noise = Noise(kinds=("substitution",))
    (row,) = TripleBatches(captions, range(1), batch_size=1, noise=noise).batch(0, 0)
    assert row.perturbed == ("a dog and a beach on the cat",)


def test_the_order_of_exchanged_objects():
    captions = made(["a dog and a cat on the beach"], objects=[("dog", "cat", "beach")])

    def texts(**settings):
        noise = Noise(kinds=("substitution",), **settings)
        batches = TripleBatches(captions, range(1), batch_size=1, noise=noise)
        return {batches.batch(epoch, 0)[0].perturbed[0] for epoch in range(40)}

    every = {"a cat and a beach on the dog", "a beach and a dog on the cat"}
    assert texts(order="every") == every
    assert texts() == texts(order="published") > every
    assert len(texts()) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ("jumbel",)}, "'jumbel' .*jumble"),
        ({"kinds": ()}, "no perturbation is chosen"),
        ({"kinds": ("jumble", "jumble")}, "named twice"),
        ({"p": 1.5}, r"p=1\.5"),
        ({"p": -0.1}, r"p=-0\.1"),
        ({"removal": "kept"}, "removal='kept': expected one of keep"),
        ({"order": "ever"}, "order='ever': expected one of published, every"),
        ({"draws": "two"}, "draws='two'"),
        ({"shares": (1.0, 2.0)}, "expected a number above 0 for each of repetition, removal, masking"),
        (
            {"shares": (1.0, 1.0, 0.0, 1.0, 1.0)},
            r"shares=\[1\.0, 1\.0, 0\.0, 1\.0, 1\.0\]: expected a number",
        ),
        ({"shares": (1.0, 1.0, -1.0, 1.0, 1.0)}, "expected a number above 0"),
        ({"kinds": ("jumble",), "shares": (float("nan"),)}, r"shares=\[nan\]: expected a number above 0"),
        ({"kinds": ("jumble",), "shares": (float("inf"),)}, r"shares=\[inf\]: expected a number above 0"),
        ({"kinds": ("jumble",), "shares": (1.0,), "draws": "all"}, r"shares=\[1\.0\] is for draws='one'"),
    ],
)
def test_noise_that_cannot_be(settings, message):
    with pytest.raises(CapscoreError, match=message):
        Noise(**settings)


def test_batches_that_cannot_be():
    captions = made(ENGLISH)
    with pytest.raises(InputError, match="no captions to train on"):
        TripleBatches(captions, [], batch_size=2)
    with pytest.raises(InputError, match="batch_size=0"):
        TripleBatches(captions, range(4), batch_size=0)
    with pytest.raises(InputError, match="step 2 of an epoch of 2"):
        TripleBatches(captions, range(4), batch_size=2, noise=WORDS).batch(0, 2)


def test_every_perturbed_text_is_one_that_perturb_gives():
    """The batch adds nothing of its own to the texts."""
    captions = made(ENGLISH)
    batches = TripleBatches(captions, range(4), batch_size=4, noise=WORDS, seed=5)
    from training.data.triples import epoch_seed

    for row in batches.batch(2, 0):
        expected = perturb([row.caption], row.kinds[0], "en", seed=epoch_seed(5, 2))
        assert row.perturbed == tuple(expected.captions)


# Kinds that come more often than others


def first_kinds(noise: Noise, n: int = 2000, *, seed: int = 0, epoch: int = 0) -> list[str]:
    """The kind that each of n captions gets, by its number."""
    captions = made([f"word{row} goes home by night" for row in range(n)])
    batches = TripleBatches(captions, range(n), batch_size=n, noise=noise, seed=seed)
    return [row.kinds[0] for row in sorted(batches.batch(epoch, 0), key=lambda row: row.row)]


def test_kinds_come_as_often_as_their_shares_say():
    shares = dict(zip(WORDS.kinds, (1.0, 2.0, 3.0, 4.0), strict=True))
    counts = Counter(first_kinds(Noise(kinds=WORDS.kinds, shares=tuple(shares.values()))))
    for kind, share in shares.items():
        # 2,000 draws, ± 4 standard deviations
        chance = share / 10
        assert abs(counts[kind] - 2000 * chance) < 4 * (2000 * chance * (1 - chance)) ** 0.5, kind


def test_shares_count_relative_to_each_other_and_are_drawn_afresh():
    few, many = (Noise(kinds=WORDS.kinds, shares=shares) for shares in ((1, 1, 2, 4), (8.0, 8.0, 16.0, 32.0)))
    assert first_kinds(few, 50) == first_kinds(many, 50)
    assert first_kinds(few, 50) != first_kinds(few, 50, epoch=1)
    assert first_kinds(few, 50) != first_kinds(few, 50, seed=1)


def test_without_shares_kinds_are_drawn_alike_as_before():
    # NumPy's own permutation for the caption's number is what decides, and stays so for weights that ship
    expected = [WORDS.kinds[np.random.default_rng((3, 2, 1, row)).permutation(4)[0]] for row in range(40)]
    assert first_kinds(Noise(kinds=WORDS.kinds, shares=()), 40, seed=3, epoch=2) == expected
    assert first_kinds(WORDS, 40, seed=3, epoch=2) == expected


def test_what_a_seed_draws_by_shares_stays():
    kinds = first_kinds(Noise(kinds=WORDS.kinds, shares=(1.0, 2.0, 3.0, 4.0)), 8)
    expected = []
    for row in range(8):
        # the first of a weighted draw is where one uniform number falls among the running sums
        number = np.random.default_rng((0, 0, 1, row)).random(4)[0]
        expected.append(WORDS.kinds[sum(number >= edge for edge in (0.1, 0.3, 0.6))])
    assert kinds == expected


def test_a_kind_of_a_large_share_that_changes_nothing_gives_way_to_the_others():
    captions = made(["sunset"])
    noise = Noise(kinds=("removal", "jumble", "masking"), shares=(1e6, 1e6, 1.0))
    for epoch in range(8):
        (row,) = TripleBatches(captions, range(1), batch_size=1, noise=noise).batch(epoch, 0)
        assert row.kinds == ("masking",)
