"""Training of InfoMetIC: features, batches and losses by hand, and runs on texts and on drawn pictures."""

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from torch.nn import functional as F

from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.images.boxes import overlaps
from capscore.infometic.network import InfoCLIP, InfoMetIC, InfoMetICConfig
from capscore.infometic.words import CaptionWord, Pieces
from tools.tiny.captions import EIGHT
from tools.tiny.official import write_jsonl
from training import infometic
from training.data.alignment_batches import AlignmentBatches, AlignmentItem
from training.data.alignment_data import AlignmentData, load_features
from training.data.alignment_features import FeatureOptions, prepare, seen_words
from training.data.rows import ALIGNED, Row, file_rows
from training.data.stored import StoredRows
from training.engine.alignment_check import AlignmentCheck
from training.engine.infometic_losses import AlignmentLoss, token_loss, word_shares
from training.engine.pr_mcs_losses import nce
from training.infometic import Settings, train

from .two_processes import assert_two_processes_are_one

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

COLOURS = ("red", "green", "blue", "yellow", "black", "white")
SMALL = dict(width=32, heads=2, intra_layers=1, inter_layers=1)


@pytest.fixture(scope="module")
def eight(tmp_path_factory) -> Path:
    """Eight captions, each with a text that stands in for its photo."""
    names = ("caption", "stand_in", "region_texts", "mentioned")
    rows = [{**dict(zip(names, row, strict=True)), "language": "en"} for row in EIGHT]
    return write_jsonl(tmp_path_factory.mktemp("eight") / "captions.jsonl", rows)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Six pictures of a square and a disc, each with a caption that says more and one that says less."""
    folder = tmp_path_factory.mktemp("pictures")
    rows = []
    for number, colour in enumerate(COLOURS):
        other = COLOURS[number - 1]
        picture = Image.new("RGB", (48, 32), "gray")
        draw = ImageDraw.Draw(picture)
        draw.rectangle((2, 4, 18, 28), fill=colour)
        draw.ellipse((26, 6, 44, 26), fill=other)
        picture.save(folder / f"{number}.png")
        row = {"image": f"{number}.png", "boxes": [[2, 4, 19, 29], [26, 6, 45, 27]], "id": number}
        rows.append({**row, "caption": f"{colour} square and {other} disc", "mentioned": [0, 1]})
        rows.append({**row, "caption": f"one {colour} square", "mentioned": [0]})
    return write_jsonl(folder / "captions.jsonl", rows)


@pytest.fixture
def embedder(backbones) -> Embedder:
    return Embedder(backbones("clip"))


@pytest.fixture
def settings(pictures, checkpoints, tmp_path):
    plain = dict(
        out=str(tmp_path / "run"), base=checkpoints("clip").spec, data=[str(pictures)], language="en"
    )
    plain |= dict(regions="given", batch_size=5, max_steps=8, learning_rate=1e-3, validation_share=0.2)
    return partial(Settings, **plain, **SMALL, tasks=["coarse", "text", "vision"], max_tokens=60)


@pytest.fixture(scope="module")
def trained(eight, tmp_path_factory):
    given = dict(base="embedded-free", data=[str(eight)], out=str(tmp_path_factory.mktemp("runs") / "eight"))
    given |= dict(validation_share=0.0, batch_size=8, max_steps=100, learning_rate=4e-3)
    return train(Settings(**given, tasks=["coarse", "text", "text", "vision"], **SMALL))


@pytest.fixture(scope="module")
def learnt(trained) -> AlignmentData:
    (folder,) = (trained.folder / "features").iterdir()
    return load_features(folder)


@pytest.fixture
def network(trained) -> InfoMetIC:
    return InfoMetIC.from_pretrained(trained.folder)


def scored(model, data, texts):
    """Each of the eight images with a text: the texts, and what the network says of the pairs."""
    images, told = data.images(list(range(8))), data.text_batch(texts)
    states = model.encode_images(images.global_, images.regions, images.boxes, images.mask)
    encoded = model.encode_texts(told.global_, told.tokens, told.mask)
    return told, model.pairs(states, encoded, list(range(8)), list(range(8)))


def wrong_texts(data) -> list[int]:
    return [int(data.polluted[pair][0]) for pair in range(8)]


FUNCTION_WORDS = {"a", "an", "the", "on", "under"}


def test_it_names_the_wrong_word_in_each_of_eight_captions(network, learnt):
    wrong = wrong_texts(learnt)
    texts, found = scored(network, learnt, wrong)
    for pair, text in enumerate(wrong):
        scores = found.token_scores[pair].double().detach().numpy() @ texts.shares[pair].double().numpy()
        # the word that differs from the caption as it was, told from the texts themselves
        before, after = EIGHT[pair][0].rstrip(".").split(), learnt.texts[text].rstrip(".").split()
        differs = [len(set(words)) == 2 for words in zip(before, after, strict=True)]
        semantic = [number for number, word in enumerate(before) if word.lower() not in FUNCTION_WORDS]
        assert len(semantic) == int(texts.counted[pair].sum()) and sum(differs) == 1
        assert differs[semantic[int(scores[: len(semantic)].argmin())]], learnt.texts[text]


def test_results_of_the_check(network, learnt):
    check = AlignmentCheck(learnt, np.arange(8))
    numbers = check(network)
    assert numbers["planted_found"] == 1 and numbers["words_right"] > 0.95
    assert numbers["regions_right"] > 0.9 and numbers["precision_falls"] == 1
    assert numbers["planted_found"] > check(InfoCLIP(network.config.dim))["planted_found"]
    n_words = learnt.text_batch(wrong_texts(learnt)).counted.sum(dim=1)
    assert numbers["planted_by_chance"] == pytest.approx((1 / n_words).mean().item())


def test_pieces_of_words_written_out():
    # surf|board|er s in the red| car, cut behind the fifth piece: the last word is not seen to its end
    pieces = Pieces([1, 2, 3, 4, 5], np.array([0, 4, 9, 13, 16]), np.array([4, 9, 12, 17, 19]), 1, 19)
    words = [
        CaptionWord("surfboard", 0, 9, True, "noun"),
        CaptionWord("in", 10, 12, False, "other"),
        CaptionWord("red", 13, 16, True, "adjective"),
        CaptionWord("cars", 17, 21, True, "noun"),
    ]
    assert seen_words(pieces, words) == ([(0, 0, 1.0), (1, 0, 1.0), (3, 1, 1.0)], [0, 2])


def features(rows, embedder, folder, **options) -> AlignmentData:
    return prepare(rows, embedder, FeatureOptions(**options), folder)


def test_features_are_the_embeddings_of_what_stands_in(embedded_free, tmp_path):
    regions = ("a dog", "a cat")
    two = ("Ein Hund.", "Un chien.")
    rows = [
        Row("A dog runs.", "en", stand_in=two, region_texts=regions, mentioned=(0,)),
        Row("A bird sings.", "en", stand_in=("Ein Vogel.",), region_texts=regions, mentioned=()),
        Row("Nothing is known.", "en", stand_in=("Nichts.",)),
    ]
    data = features(rows, Embedder(embedded_free), tmp_path / "features", n_regions=2)
    mean = embedded_free.encode_texts(list(two)).mean(axis=0)
    batch = data.images([0, 1, 2])
    assert np.allclose(batch.global_[0], mean / np.linalg.norm(mean), atol=1e-5)
    assert np.allclose(batch.global_[1], embedded_free.encode_texts(["Ein Vogel."])[0], atol=1e-5)
    assert np.allclose(batch.regions[0], embedded_free.encode_texts(["a dog", "a cat"]), atol=1e-5)
    assert not batch.boxes.any()
    assert batch.mask.tolist() == [[True, True], [True, True], [False, False]]
    # mentioned, not mentioned, and the null region, which stands for a caption that mentions none
    assert data.region_labels([0, 1], 2).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert data.with_region_labels().tolist() == [True, True, False]
    told = data.text_batch([0])
    assert np.allclose(told.global_[0], embedded_free.encode_texts(["A dog runs."])[0], atol=1e-5)
    assert told.labels[0].tolist() == [1, 1]
    one = features(rows, Embedder(embedded_free), tmp_path / "one", n_regions=1)
    assert one.images([0]).mask.tolist() == [[True]]


def test_features_of_pictures_are_those_of_their_boxes(pictures, embedder, tmp_path):
    rows = list(file_rows(pictures, ALIGNED, language="en"))
    data = features(rows, embedder, tmp_path / "features", regions="given")
    assert (len(data.pair_image), len(data.image_vector)) == (12, 6)
    crop = embedder.images([Image.open(rows[0].image).crop((2, 4, 19, 29))]).matrix[0]
    batch = data.images([0])
    assert np.allclose(batch.regions[0, 0], crop, atol=1e-5)
    assert batch.boxes[0, 0].tolist() == pytest.approx([2 / 48, 4 / 32, 19 / 48, 29 / 32])
    assert data.region_labels([0, 1], 2).tolist() == [[1, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("own_boxes", [False, True])
def test_rows_of_one_photo_are_one_even_with_boxes_of_their_own(pictures, embedder, tmp_path, own_boxes):
    rows = list(file_rows(pictures, ALIGNED, language="en"))
    if own_boxes:
        rows = [replace(row, boxes=row.boxes[: len(row.mentioned)]) for row in rows]
    data = features(rows, embedder, tmp_path / "features", regions="given")
    assert (len(data.photos.keys), len(data.image_vector)) == (6, 12 if own_boxes else 6)
    # what says less is the hard negative of what says more, and has none itself
    negatives = data.hard_negatives()
    assert [data.texts[text] for text in negatives[0]] == [rows[1].caption] and not len(negatives[1])
    # no word of an image's captions is put into another of them
    for pair in range(12):
        said = {word for row in rows[pair - pair % 2 : pair - pair % 2 + 2] for word in row.caption.split()}
        for text in data.polluted[pair]:
            assert len(set(data.texts[text].lower().split()) - said) == 1
    # they are not each other's negatives
    model = InfoMetIC(InfoMetICConfig(dim=embedder.backbone.dim, **SMALL))
    assert recall(AlignmentLoss(data), model, range(2)) == 0


def recall(loss, model, pairs) -> float:
    rows = []
    for place, pair in enumerate(pairs):
        numbers = int(loss.data.pair_image[pair]), int(loss.data.pair_text[pair])
        rows.append(AlignmentItem("coarse", place, pair, *numbers, -1, ""))
    with torch.no_grad():
        return loss(model, rows, lambda tensor: tensor)["recall"].item()


def test_found_regions_are_mentioned_from_an_overlap_with_the_boxes_that_are_named(
    pictures, embedder, tmp_path
):
    rows = list(file_rows(pictures, ALIGNED, language="en"))
    data = features(rows, embedder, tmp_path / "found", n_regions=5, overlap=0.3)
    seen = set()
    for pair in range(2):
        boxes = data.boxes[int(data.pair_image[pair])] * (48, 32, 48, 32)
        named = [rows[pair].boxes[number] for number in rows[pair].mentioned]
        expected = (overlaps(boxes, named).max(axis=1) >= 0.3).tolist()
        assert data.labels[pair].tolist() == ([*expected, False] if any(expected) else [])
        seen |= set(expected)
    assert 1 <= len(boxes) <= 5 and seen == {True, False}
    nothing = features(rows, embedder, tmp_path / "nothing", n_regions=5, overlap=1.0)
    assert not nothing.with_region_labels().any()


def test_a_changed_picture_has_other_features_and_torn_ones_are_named(pictures, embedder, tmp_path):
    pictures = shutil.copytree(pictures.parent, tmp_path / "copy") / pictures.name
    folder = tmp_path / "features"

    def digest() -> str:
        rows = list(file_rows(pictures, ALIGNED, language="en"))[:2]
        return features(rows, embedder, folder, regions="given").digest

    first = digest()
    os.utime(pictures, ns=(0, 0))
    assert digest() == first
    Image.new("RGB", (48, 32), "red").save(pictures.with_name("0.png"))
    second = digest()
    assert {path.name for path in folder.iterdir()} == {first, second} and second != first
    (folder / second / "vectors.npy").write_bytes(b"torn")
    with pytest.raises(CapscoreError, match=r"features in .* cannot be read .* remove the folder"):
        digest()


def test_rows_of_half_precision_are_stored_in_a_nameless_file(tmp_path):
    rows, stored = np.arange(15, dtype=np.float32).reshape(5, 3) / 4, StoredRows(3, tmp_path, np.float16)
    assert stored.finish().shape == (0, 3)
    assert [stored.append(part) for part in (rows[:2], rows[2:])] == [range(2), range(2, 5)]
    assert stored.finish().dtype == np.float16 and stored.finish().tolist() == rows.tolist()
    assert not list(tmp_path.iterdir())


def test_tasks_take_turns_and_every_pair_comes_once(learnt):
    tasks = ["coarse", "coarse", "coarse", "text"]
    batches, again = (AlignmentBatches(learnt, np.arange(8), tasks=tasks, batch_size=3) for _ in range(2))
    # three coarse batches are one turn
    assert batches.steps_per_epoch == 4
    epoch = [batches.batch(0, step) for step in range(4)]
    assert [rows[0].task for rows in epoch] == tasks
    assert sorted(row.pair for rows in epoch[:3] for row in rows) == list(range(8))
    assert all(row.text in learnt.polluted[row.pair] for row in epoch[3])
    assert again.batch(0, 1) == epoch[1]
    batches.hard_negatives = [np.arange(8)] * 8
    first, second = ([row.other for row in batches.batch(turn, 0)] for turn in (0, 1))
    assert first != second and {*first} <= {*range(8)}
    with pytest.raises(InputError, match="there are no captions to train on"):
        AlignmentBatches(learnt, np.zeros(0, np.int64), tasks=["coarse"], batch_size=8)


def test_the_losses_on_rows_are_those_of_their_scores(learnt, network):
    loss = AlignmentLoss(learnt)
    batches = AlignmentBatches(learnt, np.arange(8), tasks=["coarse", "text", "vision"], batch_size=8)
    with torch.no_grad():
        coarse, text, vision = (loss(network, batches.batch(0, n), lambda tensor: tensor) for n in range(3))
        images, everything = learnt.images(list(range(8))), list(range(8))
        states = network.encode_images(images.global_, images.regions, images.boxes, images.mask)
        told = learnt.text_batch(everything)
        encoded = network.encode_texts(told.global_, told.tokens, told.mask)
        plain = network.pairs(states, encoded, np.repeat(everything, 8).tolist(), everything * 8)
        wrong, polluted = scored(network, learnt, wrong_texts(learnt))
        recall, precision = (nce(part.reshape(8, 8)) for part in (plain.recall, plain.precision))
        alpha = word_shares(polluted.token_scores, wrong.shares)
        of_words = token_loss(alpha, wrong.labels, wrong.counted).mean()
        named = torch.zeros(8, images.mask.shape[1] + 1)
        for pair, (*_, mentioned) in enumerate(EIGHT):
            named[pair, list(mentioned)] = 1
        of_pairs = plain.region_scores.reshape(8, 8, -1)[range(8), range(8)]
        of_regions = token_loss(of_pairs, named, F.pad(images.mask, (0, 1))).mean()
    assert coarse["recall"].item() == pytest.approx(recall.item(), abs=1e-4)
    assert coarse["precision"].item() == pytest.approx(precision.item(), abs=1e-4)
    assert coarse["hard"].item() == 0  # no image has two captions here
    assert coarse["loss"].item() == pytest.approx(coarse["recall"].item() + coarse["precision"].item())
    assert text["text"].item() == text["loss"].item() == pytest.approx(of_words.item(), abs=1e-4)
    assert vision["vision"].item() == pytest.approx(of_regions.item(), abs=1e-4)


def test_fewer_negatives_and_pieces_of_a_batch(learnt, network, monkeypatch):
    whole = recall(AlignmentLoss(learnt), network, range(8))
    assert recall(AlignmentLoss(learnt, negatives=7), network, range(8)) == pytest.approx(whole, abs=1e-5)
    assert recall(AlignmentLoss(learnt, negatives=2), network, range(8)) < whole
    # a pair that comes twice is no negative of itself
    assert recall(AlignmentLoss(learnt), network, [0, 0]) == 0
    monkeypatch.setattr("training.engine.infometic_losses._PAIRS_AT_ONCE", 5)
    assert recall(AlignmentLoss(learnt), network, range(8)) == pytest.approx(whole, abs=1e-5)


@pytest.mark.slow
def test_two_processes_give_the_results_of_one(settings, tmp_path):
    # 10 pairs in batches of 5: the processes have unequal parts, and not every part has a hard negative
    tasks = ["coarse", "coarse", "coarse", "text", "vision"]
    own = settings(batch_size=5, max_steps=5, tasks=tasks)
    assert_two_processes_are_one(infometic, own, tmp_path, atol=1e-4)


def test_rows_without_right_boxes_are_named_if_possible_before_anything_is_embedded(
    settings, tmp_path, pictures
):
    embedded = mock.Mock(side_effect=AssertionError("rows were embedded"))
    plain = {"image": str(pictures.with_name("0.png")), "caption": "red square"}
    for boxes, tasks, how, message in [
        ({}, ["coarse", "vision"], {"prepare": embedded}, "no row says which regions .* --tasks coarse text"),
        ({}, ["coarse"], {}, r"line 1.*has no boxes, which regions='given' needs"),
        ({"boxes": [[30, 0, 20, 9]]}, ["coarse"], {}, r"line 1.*box 0 is \(30\.0, 0\.0, 20\.0, 9\.0\)"),
    ]:
        bad = write_jsonl(tmp_path / "bad.jsonl", [{**plain, **boxes}])
        with pytest.raises(InputError, match=message):
            train(settings(data=[str(bad)], tasks=tasks), **how)
