"""Training of InfoMetIC, run for real: on the embedded backbone with texts as photos, and on a tiny CLIP."""

from __future__ import annotations

import doctest
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image, ImageDraw
from safetensors.torch import load_file

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, ImageError, InputError
from capscore.infometic.alignment import InfoCLIP
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from capscore.infometic.words import CaptionWord, Pieces, caption_words, split_pieces
from tests.backbones import tiny_transformers as tiny
from training.data import alignment_features
from training.data.aligned_rows import AlignedRow, RegionText, coco_rows, entity_rows, file_rows
from training.data.alignment_batches import AlignmentBatches, AlignmentItem
from training.data.alignment_data import AlignmentData, load_features
from training.data.alignment_features import FeatureOptions, labelled_shares, prepare
from training.data.stored_rows import StoredRows
from training.data.word_pollution import like_words
from training.engine.alignment_check import AlignmentCheck, set_sharpness
from training.engine.alignment_loss import AlignmentLoss
from training.engine.config import parse
from training.engine.training_log import read_log
from training.infometic import Settings, train

from ..processes import run_distributed
from .data.test_flickr30k_entities import SENTENCES, XML

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "training" / "configs"
WEIGHTS = "model.safetensors"

# caption, what stands in for the photo, texts that stand for regions, those that the caption mentions
EIGHT = [
    (
        "A red boat sails on the calm lake.",
        "Ein rotes Boot segelt auf dem See.",
        ["a red boat", "a tree"],
        [0],
    ),
    (
        "Two brown dogs chase a ball.",
        "Zwei Hunde jagen einen Ball.",
        ["two dogs", "a ball", "a bicycle"],
        [0, 1],
    ),
    ("An old woman reads a newspaper.", "Eine alte Frau liest.", ["an old woman", "a newspaper"], [0, 1]),
    ("A small child paints a yellow house.", "Ein Kind malt ein Haus.", ["a dog", "a yellow house"], [1]),
    ("Three white horses cross the meadow.", "Drei weiße Pferde.", ["a lamp", "white horses"], [1]),
    ("A man repairs a bicycle.", "Ein Mann repariert ein Fahrrad.", ["a man", "a bicycle", "a cake"], [0, 1]),
    ("A black cat sleeps under the table.", "Eine Katze schläft.", ["a black cat", "an airplane"], [0]),
    ("A young girl eats a large cake.", "Ein Mädchen isst Kuchen.", ["a young girl", "a boat"], [0]),
]
COLOURS = ("red", "green", "blue", "yellow", "black", "white")
SMALL = dict(width=32, heads=2, intra_layers=1, inter_layers=1)


def write_rows(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def eight(tmp_path_factory) -> Path:
    """Eight captions, each with a text that stands in for its photo."""
    rows = [
        {
            "caption": caption,
            "language": "en",
            "stand_in": stand_in,
            "region_texts": texts,
            "mentioned": named,
        }
        for caption, stand_in, texts, named in EIGHT
    ]
    return write_rows(tmp_path_factory.mktemp("eight") / "captions.jsonl", rows)


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
        boxes = [[2, 4, 19, 29], [26, 6, 45, 27]]
        for caption, named in ((f"{colour} square and {other} disc", [0, 1]), (f"one {colour} square", [0])):
            rows.append(
                {
                    "image": f"{number}.png",
                    "caption": caption,
                    "boxes": boxes,
                    "mentioned": named,
                    "id": number,
                }
            )
    return write_rows(folder / "captions.jsonl", rows)


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    return tiny.write_clip(tmp_path_factory.mktemp("base") / "clip")


@pytest.fixture
def settings(pictures, clip, tmp_path):
    """Settings of a short run on the tiny CLIP; any of them can be changed."""

    def make(**changes) -> Settings:
        plain = dict(
            out=str(tmp_path / "run"),
            base=str(clip),
            data=[str(pictures)],
            language="en",
            regions="given",
            batch_size=5,
            max_steps=8,
            learning_rate=1e-3,
            validation_share=0.2,
            tasks=["coarse", "text", "vision"],
            max_tokens=60,
            checkpoint_every=2,
            log_every=4,
            **SMALL,
        )
        return Settings(**{**plain, **changes})

    return make


# A run from end to end


@pytest.fixture(scope="module")
def trained(eight, tmp_path_factory):
    """A small network that has learnt eight captions by heart."""
    return train(
        Settings(
            out=str(tmp_path_factory.mktemp("runs") / "infometic"),
            base="embedded-free",
            data=[str(eight)],
            validation_share=0.0,
            batch_size=8,
            max_steps=100,
            learning_rate=4e-3,
            tasks=["coarse", "text", "text", "vision"],
            license="apache-2.0",
            data_license="CC0",
            **SMALL,
        )
    )


@pytest.fixture(scope="module")
def learnt(trained) -> AlignmentData:
    return load_features(trained.folder / "features")


def test_it_names_the_wrong_word_in_each_of_eight_captions(trained, learnt):
    model = InfoMetIC.from_pretrained(trained.folder)
    images = learnt.images(list(range(8)))
    states = model.encode_images(images.global_, images.regions, images.boxes, images.mask)
    wrong = [int(learnt.polluted_texts(pair)[0]) for pair in range(8)]
    texts = learnt.text_batch(wrong)
    found = model.pairs(
        states, model.encode_texts(texts.global_, texts.tokens, texts.mask), list(range(8)), list(range(8))
    )
    for pair, text in enumerate(wrong):
        scores = found.token_scores[pair].double().detach().numpy() @ texts.shares[pair].double().numpy()
        n = int(texts.counted[pair].sum())
        # the word that differs from the caption as it was, told from the texts themselves
        before, after = EIGHT[pair][0].rstrip(".").split(), learnt.texts[text].rstrip(".").split()
        (planted,) = [
            number for number, words in enumerate(zip(before, after, strict=True)) if len(set(words)) == 2
        ]
        semantic = [number for number, word in enumerate(before) if word.lower() not in _FUNCTION_WORDS]
        assert len(semantic) == n
        assert semantic[int(scores[:n].argmin())] == planted, learnt.texts[text]


_FUNCTION_WORDS = {"a", "an", "the", "on", "under"}


def test_what_the_check_says_of_it(trained, learnt):
    model = InfoMetIC.from_pretrained(trained.folder)
    check = AlignmentCheck(learnt, np.arange(8))
    numbers = check(model)
    assert numbers["planted_found"] == 1 and numbers["words_right"] > 0.95
    assert numbers["regions_right"] > 0.9
    assert numbers["planted_found"] > check(InfoCLIP())["planted_found"]
    assert 0.1 < numbers["planted_by_chance"] < 0.4


def test_the_folder_has_card_settings_and_result(trained):
    assert trained.run.finished and trained.run.step == 100
    card = (trained.folder / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---")[1])
    assert front["license"] == "apache-2.0" and front["language"] == ["en"]
    for expected in ("captions.jsonl | CC0 | 8", "Nothing was measured.", 'weights="', "Hu et al. 2023"):
        assert expected in card
    result = json.loads((trained.folder / "result.json").read_text())
    assert (result["step"], result["n_training"], result["n_validation"]) == (100, 8, 0)
    assert yaml.safe_load((trained.folder / "settings.yaml").read_text())["width"] == 32
    assert InfoMetIC.from_pretrained(trained.folder).notes["languages"] == ["en"]


def test_features_are_made_once(trained, eight, embedded_free, monkeypatch):
    monkeypatch.setattr(alignment_features, "_build", lambda *arguments: pytest.fail("made again"))
    said = []
    again = prepare(
        file_rows(eight),
        Embedder(embedded_free),
        FeatureOptions(),
        trained.folder / "features",
        say=said.append,
    )
    assert len(again) == 8 and not said


# Labels and features


def test_docstring_examples():
    result = doctest.testmod(alignment_features, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= 3 and not result.failed


def test_pieces_of_words_written_out():
    # surf|board|er s in the red| car, cut behind the fifth piece: the last word is not seen to its end
    pieces = Pieces([1, 2, 3, 4, 5], np.array([0, 4, 9, 13, 16]), np.array([4, 9, 12, 17, 19]), 1, 19)
    words = [
        CaptionWord("surfboard", 0, 9, True, "noun"),
        CaptionWord("in", 10, 12, False, "other"),
        CaptionWord("red", 13, 16, True, "adjective"),
        CaptionWord("cars", 17, 21, True, "noun"),
    ]
    entries, kept = labelled_shares(pieces, words, (1, -1, 0, 1))
    assert entries == [(0, 0, 1.0), (1, 0, 1.0), (3, 1, 1.0)]
    assert kept == [0, 2]


def features(rows, embedder, folder, **options) -> AlignmentData:
    return prepare(rows, embedder, FeatureOptions(**options), folder)


def test_features_are_the_embeddings_of_what_stands_in(embedded_free, tmp_path):
    embedder = Embedder(embedded_free)
    regions = (RegionText("a dog", (0.0, 0.0, 0.5, 1.0)), RegionText("a cat"))
    rows = [
        AlignedRow(
            "A dog runs.", "en", stand_ins=("Ein Hund.", "Un chien."), region_texts=regions, mentioned=(0,)
        ),
        AlignedRow("A bird sings.", "en", stand_ins=("Ein Vogel.",), region_texts=regions, mentioned=()),
        AlignedRow("Nothing is known.", "en", stand_ins=("Nichts.",)),
    ]
    data = features(rows, embedder, tmp_path / "features")
    mean = embedded_free.encode_texts(["Ein Hund.", "Un chien."]).mean(axis=0)
    batch = data.images([0, 1, 2])
    assert np.allclose(batch.global_[0], mean / np.linalg.norm(mean), atol=1e-5)
    assert np.allclose(batch.global_[1], embedded_free.encode_texts(["Ein Vogel."])[0], atol=1e-5)
    assert np.allclose(batch.regions[0], embedded_free.encode_texts(["a dog", "a cat"]), atol=1e-5)
    assert batch.boxes[0].tolist() == [[0, 0, 0.5, 1], [0, 0, 0, 0]]
    assert batch.mask.tolist() == [[True, True], [True, True], [False, False]]
    # mentioned, not mentioned, and the null region, which stands for a caption that mentions none
    assert data.region_labels([0, 1], 2).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert data.with_region_labels().tolist() == [True, True, False]
    told = data.text_batch([0])
    assert np.allclose(told.global_[0], embedded_free.encode_texts(["A dog runs."])[0], atol=1e-5)
    assert told.counted.sum() == 2 and told.labels[0].tolist() == [1, 1]


def test_features_of_pictures_are_those_of_their_boxes(pictures, clip, tmp_path):
    from capscore import load_backbone

    embedder = Embedder(load_backbone(str(clip), device="cpu"))
    rows = list(file_rows(pictures, language="en"))
    data = features(rows, embedder, tmp_path / "features", regions="given")
    assert (len(data), len(data.image_vector)) == (12, 6)
    picture = Image.open(rows[0].image)
    crop = embedder.images([picture.crop((2, 4, 19, 29))]).matrix[0]
    batch = data.images([0])
    assert np.allclose(batch.regions[0, 0], crop, atol=1e-5)
    assert batch.boxes[0, 0].tolist() == pytest.approx([2 / 48, 4 / 32, 19 / 48, 29 / 32])
    assert data.region_labels([0, 1], 2).tolist() == [[1, 1, 0], [1, 0, 0]]
    # what says less is the hard negative of what says more, and has none itself
    negatives = data.hard_negatives()
    assert [data.texts[text] for text in negatives[0]] == [rows[1].caption] and not len(negatives[1])
    # no word of an image's captions is put into another of them
    for pair in range(12):
        said = {word for row in rows[pair - pair % 2 : pair - pair % 2 + 2] for word in row.caption.split()}
        for text in data.polluted_texts(pair):
            assert len(set(data.texts[text].lower().split()) - said) == 1

    found = features(rows, embedder, tmp_path / "found", regions="windows", n_regions=5, overlap=0.2)
    assert 1 <= found.images([0]).mask.sum() <= 5


def test_a_changed_picture_is_noticed_and_a_torn_folder_replaced(pictures, clip, tmp_path):
    from capscore import load_backbone

    embedder = Embedder(load_backbone(str(clip), device="cpu"))
    folder, said = tmp_path / "features", []

    def digest() -> str:
        rows = list(file_rows(pictures, language="en"))[:2]
        return prepare(rows, embedder, FeatureOptions(regions="given"), folder, say=said.append).digest

    first = digest()
    assert digest() == first and not any("computed again" in line for line in said)
    os.utime(pictures.with_name("0.png"), ns=(0, 0))
    second = digest()
    assert second != first and any("are computed again" in line for line in said)
    (folder / "about.json").write_text("{")
    assert digest() == second
    (folder / "vectors.npy").write_bytes(b"torn")
    with pytest.raises(CapscoreError, match=r"features in .* cannot be read .* remove the folder"):
        digest()
    assert [path.name for path in tmp_path.iterdir()] == ["features"]


# What words add to their texts


WORDS_OF = [
    ("A tabby cat looks up.", "en"),
    ("?!", "en"),
    ("两个男人在街上跳舞", "zh"),
]


@pytest.fixture(scope="module")
def added(embedded_free, tmp_path_factory) -> AlignmentData:
    """Features of texts in English and Chinese with what their words add, each polluted where that can be."""
    rows = [AlignedRow(text, language, stand_ins=(text,)) for text, language in WORDS_OF]
    rows += [AlignedRow("A small dog sleeps.", "en", stand_ins=("dog",))]
    return features(rows, Embedder(embedded_free), tmp_path_factory.mktemp("added") / "f", word_context=True)


def test_features_of_words_written_out(added, embedded_free):
    context = added.text_batch([0, 1]).context
    whole, *without = embedded_free.encode_texts(
        [
            "A tabby cat looks up.",
            "A cat looks up.",
            "A tabby looks up.",
            "A tabby cat up.",
            "A tabby cat looks .",
        ]
    )
    # A|tab|by|cat|look|s|up|.
    expected = np.zeros((8, 512))
    for piece, word in ((1, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3)):
        expected[piece] = whole - without[word]
    np.testing.assert_allclose(context.added[0], expected, atol=2e-4)  # stored in half precision
    assert context.weight[0].tolist() == [0, 0.5, 0.5, 1, 0.5, 0.5, 1, 0]
    # no word at all, and padding
    assert context.weight[1].tolist() == [0.0] * 8 and not context.added[1].any()


def test_features_of_a_polluted_caption_are_of_its_own_words(added, embedded_free):
    number = int(added.polluted_texts(0)[0])
    before, after = WORDS_OF[0][0], added.texts[number]
    ((old, _),) = {pair for pair in zip(before.split(), after.split(), strict=True) if len(set(pair)) == 2}
    batch = added.text_batch([number])
    whole, without = embedded_free.encode_texts([after, before.replace(f"{old} ", "")])
    (word,) = np.flatnonzero(batch.labels[0] == 0)
    (pieces,) = np.nonzero(batch.shares[0, :, word].numpy())
    assert len(pieces)
    for piece in pieces:
        np.testing.assert_allclose(batch.context.added[0, piece], whole - without, atol=2e-4)
    assert batch.context.weight[0, pieces].sum() == pytest.approx(1)


@pytest.mark.parametrize("number", range(3), ids=["en", "marks", "zh"])
def test_the_network_is_told_the_same_of_words_in_training_and_in_scoring(added, embedded_free, number):
    """A piece that writes parts of two words, one of which counts, has the same part of it in both."""
    scorer = capscore.load(
        "infometic", backbone=embedded_free, weights="info_clip", cache=False, progress=False
    )
    (text, language) = WORDS_OF[number]
    pieces = split_pieces(embedded_free, [text])
    ((expected, weight),) = scorer.contexts([text], caption_words([text], language), pieces)
    context = added.text_batch([number]).context
    np.testing.assert_allclose(context.weight[0], weight, atol=1e-6)
    np.testing.assert_allclose(context.added[0], expected, atol=2e-4)


def test_features_without_what_words_add(learnt):
    assert learnt.added is None and learnt.text_batch([0]).context is None


def test_planted_words_are_like_those_they_replace(embedded_free, tmp_path):
    """The word most like another is not put in for it, as it would be by chance."""
    nouns = ("dog", "cat", "horse", "cow", "sheep", "goat", "bird", "duck")
    rows = [AlignedRow(f"the {noun}", "en", stand_ins=(noun,)) for noun in nouns]
    embedder = Embedder(embedded_free)
    table = embedded_free.encode_texts(list(nouns))
    cosines = table @ table.T
    np.fill_diagonal(cosines, -1)
    nearest = {noun: nouns[place] for noun, place in zip(nouns, cosines.argmax(axis=1), strict=True)}
    listed = like_words({"noun": list(nouns)}, embedded_free.encode_texts)["noun"]
    drawn = {}
    for alike in (0.0, 1.0):
        data = features(rows, embedder, tmp_path / str(alike), pollutions=60, alike=alike)
        drawn[alike] = {
            (noun, data.texts[text].split()[1])
            for pair, noun in enumerate(nouns)
            for text in data.polluted_texts(pair)
        }
    assert drawn[0.0] >= set(nearest.items())
    assert not drawn[1.0] & set(nearest.items())
    assert drawn[1.0] == {(noun, other) for noun in nouns for other in listed[noun]}


@pytest.mark.parametrize("in_memory", [0, 40, 10**6])
def test_rows_of_half_precision_grow_beyond_the_memory(in_memory, tmp_path):
    rows = np.arange(15, dtype=np.float32).reshape(5, 3) / 4
    stored = StoredRows(3, tmp_path, in_memory, np.float16)
    for part in (rows[:2], rows[2:2], rows[2:]):
        stored.append(part)
    np.save(tmp_path / "rows.npy", stored.finish())
    found = np.load(tmp_path / "rows.npy")
    assert found.dtype == np.float16 and found.tolist() == rows.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


# Sharpness


class Alarms:
    """Stands in for a check: how many right words are flagged depends on the sharpness alone."""

    def __init__(self, of_sharpness):
        self.of_sharpness, self.asked = of_sharpness, 0

    def false_alarms(self, model) -> float:
        self.asked += 1
        return self.of_sharpness(model.config.sharpness)


@pytest.mark.parametrize(
    ("of_sharpness", "least", "most"),
    [
        (lambda sharpness: 0.5 * (sharpness > 2.0), 1.995, 2.0),
        (lambda sharpness: 0.5 * (sharpness > 0.25), 0.2493, 0.25),
        # 10 ** (-20 / 2048), which the last halving reaches, is 0.977764747: not to be rounded up
        (lambda sharpness: 0.5 * (sharpness > 0.97776475), 0.9776, 0.97776475),
        (lambda sharpness: sharpness / 10, 0.7985, 0.8001),
        (lambda sharpness: 0.08, 9.98, 10.0),  # as many as may be are not too many
        (lambda sharpness: 0.0, 9.98, 10.0),
        (lambda sharpness: 0.081, 0.1, 0.1),
    ],
)
def test_sharpness_is_found_by_halving(of_sharpness, least, most):
    model, check = InfoMetIC(InfoMetICConfig(dim=8, heads=2, intra_layers=1)), Alarms(of_sharpness)
    before, weights = model.config, model.state_dict()
    set_sharpness(model, check, 0.08)
    assert least <= model.config.sharpness <= most and check.asked == 12
    assert replace(model.config, sharpness=1.0) == before
    assert all(torch.equal(model.state_dict()[name], weights[name]) for name in weights)


def test_sharpness_of_a_network_and_its_false_alarms(learnt, trained):
    model, check = InfoMetIC.from_pretrained(trained.folder), AlignmentCheck(learnt, np.arange(8))
    images, told = learnt.images(list(range(8))), learnt.text_batch(learnt.pair_text.tolist())
    states = model.encode_images(images.global_, images.regions, images.boxes, images.mask)

    def flagged() -> float:
        """Counted one by one."""
        texts = model.encode_texts(told.global_, told.tokens, told.mask)
        found = model.pairs(states, texts, list(range(8)), list(range(8))).token_scores.detach().numpy()
        n_words = told.counted.sum(dim=1).tolist()
        scores = [
            sum(
                found[row, piece] * told.shares[row, piece, word].item()
                for piece in range(told.mask.shape[1])
            )
            for row in range(8)
            for word in range(n_words[row])
        ]
        return sum(score <= 0.1 for score in scores) / len(scores)

    # shares between those of the least and the greatest sharpness, whichever kernels trained the network
    for share in (0.2, 0.3):
        set_sharpness(model, check, share)
        assert check.false_alarms(model) == pytest.approx(flagged()) == check(model)["false_alarms"]
        assert flagged() <= share
        model.config = replace(model.config, sharpness=model.config.sharpness * 1.003)
        assert flagged() > share


# Batches and losses


def test_tasks_take_turns_and_every_pair_comes_once(learnt):
    tasks = ["coarse", "coarse", "coarse", "text"]
    batches = AlignmentBatches(learnt, np.arange(8), tasks=tasks, batch_size=3)
    # three coarse batches are one turn
    assert batches.steps_per_epoch == 4
    epoch = [batches.batch(0, step) for step in range(4)]
    assert [rows[0].task for rows in epoch] == tasks
    assert sorted(row.pair for rows in epoch[:3] for row in rows) == list(range(8))
    assert all(row.text in learnt.polluted_texts(row.pair) for row in epoch[3])
    assert batches.batch(0, 1) == AlignmentBatches(learnt, np.arange(8), tasks=tasks, batch_size=3).batch(
        0, 1
    )
    kept = AlignmentBatches(learnt, np.arange(8), tasks=["text"], batch_size=8, untouched=0.5).batch(0, 0)
    assert {row.text == learnt.pair_text[row.pair] for row in kept} == {True, False}


def test_a_task_without_data_is_an_error(learnt):
    with pytest.raises(InputError, match="there are no captions to train on"):
        AlignmentBatches(learnt, np.zeros(0, np.int64), tasks=["coarse"], batch_size=8)


def test_the_losses_on_rows_are_those_of_their_scores(learnt, trained):
    model = InfoMetIC.from_pretrained(trained.folder)
    made = Settings(out="o", base="b", data=["d"], pollution_weight=0.5, pollutions=1)
    loss = AlignmentLoss(learnt, made)
    batches = AlignmentBatches(learnt, np.arange(8), tasks=["coarse", "text", "vision"], batch_size=8)
    with torch.no_grad():
        coarse, text, vision = (
            loss(model, batches.batch(0, step), lambda tensor: tensor) for step in range(3)
        )
        images, everything = learnt.images(list(range(8))), list(range(8))
        states = model.encode_images(images.global_, images.regions, images.boxes, images.mask)
        told = learnt.text_batch(everything)
        plain = model.pairs(
            states,
            model.encode_texts(told.global_, told.tokens, told.mask),
            np.repeat(everything, 8).tolist(),
            everything * 8,
        )
        wrong = learnt.text_batch([int(learnt.polluted_texts(pair)[0]) for pair in everything])
        polluted = model.pairs(
            states, model.encode_texts(wrong.global_, wrong.tokens, wrong.mask), everything, everything
        )

    def nce(scores):
        scores = scores.double().numpy().reshape(8, 8)
        own = np.diag(scores)
        return np.mean([np.log(np.exp(scores).sum(axis=axis)) - own for axis in (0, 1)])

    assert coarse["recall"].item() == pytest.approx(nce(plain.recall), abs=1e-4)
    assert coarse["precision"].item() == pytest.approx(nce(plain.precision), abs=1e-4)
    assert coarse["hard"].item() == 0  # no image has two captions here
    total = 0.0
    for pair in range(8):
        alpha = polluted.token_scores[pair].double().numpy() @ wrong.shares[pair].double().numpy()
        labels, n = wrong.labels[pair].numpy(), int(wrong.counted[pair].sum())
        total -= sum(np.log(alpha[word]) for word in range(n) if labels[word]) / n / 8
    assert text["text"].item() == pytest.approx(total, abs=1e-4)
    own = plain.precision.reshape(8, 8).diagonal()
    expected = torch.log1p(torch.exp(polluted.precision - own)).mean().item()
    assert text["pollution"].item() == pytest.approx(expected, abs=1e-4)
    assert text["loss"].item() == pytest.approx(total + 0.5 * expected, abs=1e-4)
    regions, total = plain.region_scores.reshape(8, 8, -1), 0.0
    for pair, (_, _, texts, named) in enumerate(EIGHT):
        total -= sum(np.log(regions[pair, pair, region].item()) for region in named) / len(texts) / 8
    assert vision["vision"].item() == pytest.approx(total, abs=1e-4)


def items(data, pairs) -> list[AlignmentItem]:
    return [
        AlignmentItem("coarse", at, pair, int(data.pair_image[pair]), int(data.pair_text[pair]), -1, "")
        for at, pair in enumerate(pairs)
    ]


def test_fewer_negatives_and_pieces_of_a_batch(learnt, trained):
    model = InfoMetIC.from_pretrained(trained.folder)

    def recall(rows=None, **changes):
        loss = AlignmentLoss(learnt, Settings(out="o", base="b", data=["d"], **changes))
        with torch.no_grad():
            return loss(model, rows or items(learnt, range(8)), lambda tensor: tensor)["recall"].item()

    whole = recall()
    assert recall(pairs_at_once=5) == pytest.approx(whole, abs=1e-5)
    assert recall(negatives=7) == pytest.approx(whole, abs=1e-5)
    assert recall(negatives=2) < whole
    # a pair that comes twice is no negative of itself unless asked for
    twice = items(learnt, [0, 0])
    assert recall(twice) == 0 and recall(twice, shared_negatives=True) == pytest.approx(np.log(2), abs=1e-5)


# Going on, and several processes


@contextmanager
def broken_off(monkeypatch):
    """A run in here is interrupted in its sixth step."""
    plain = AlignmentLoss.__call__
    calls = []

    def until_the_sixth(self, *arguments):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return plain(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(AlignmentLoss, "__call__", until_the_sixth)
        yield


def test_a_run_that_reads_words_is_resumed_and_its_weights_are_scored_with(
    settings, clip, pictures, tmp_path, monkeypatch
):
    def own(**changes) -> Settings:
        return settings(context_width=4, false_alarms=0.25, alike=0.5, **changes)

    whole = train(own(out=str(tmp_path / "whole")))
    with broken_off(monkeypatch):
        train(own())
    resumed = train(own())
    assert resumed.run.resumed_from == 4
    ours, theirs = (load_file(run.folder / WEIGHTS) for run in (resumed, whole))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert "word_added.weight" in ours
    new = InfoMetIC(InfoMetIC.from_pretrained(whole.folder).config).word_query.weight
    assert not torch.equal(ours["word_query.weight"], new)  # it learns
    assert resumed.evaluation == whole.evaluation
    model = InfoMetIC.from_pretrained(resumed.folder)
    assert model.config == InfoMetIC.from_pretrained(whole.folder).config
    assert model.config.context_width == 4 and model.config.sharpness != 1
    # what is told of it is with that sharpness
    data = load_features(resumed.folder / "features")
    check = AlignmentCheck(data, own().split(data.photo_captions()).validation)
    assert check(model) == pytest.approx(resumed.evaluation)
    assert check.n == 2
    scorer = capscore.load(
        "infometic", backbone=str(clip), weights=resumed.folder, device="cpu", cache=False, progress=False
    )
    assert scorer.aligner.reads_words
    scores = scorer.score(["red square"], [pictures.with_name("0.png")], language="en")
    words = scores.details[0]["words"]
    assert np.isfinite(scores.scores).all()
    assert sum(word["score"] for word in words if word["semantic"]) == pytest.approx(1, abs=1e-5)
    with pytest.raises(CapscoreError, match="context_width=4, but 5 was given"):
        train(settings(context_width=5, false_alarms=0.25, alike=0.5))


def test_a_run_that_was_broken_off_ends_with_the_same_weights(settings, tmp_path, monkeypatch):
    whole = train(settings(out=str(tmp_path / "whole")))
    assert (whole.n_training, whole.n_validation) == (10, 2)
    with broken_off(monkeypatch):
        train(settings())
    assert not (tmp_path / "run" / WEIGHTS).exists()
    torch.manual_seed(12345)  # what was drawn before the run is nothing to it
    resumed = train(settings())
    assert resumed.run.resumed_from == 4
    ours, theirs = (load_file(run.folder / WEIGHTS) for run in (resumed, whole))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert resumed.evaluation == whole.evaluation and resumed.base == whole.base
    card = (resumed.folder / "README.md").read_text(encoding="utf-8")
    assert "| this network | InfoCLIP |" in card and "planted found" in card
    with pytest.raises(CapscoreError, match=r"hard_weight=1\.0, but 2\.0 was given"):
        train(settings(hard_weight=2.0))


def test_two_processes_are_one(settings, tmp_path):
    # 10 pairs in batches of 5: the processes have unequal parts, and not every part has a hard negative
    own = settings(
        batch_size=5,
        max_steps=5,
        tasks=["coarse", "coarse", "coarse", "text", "vision"],
        context_width=4,
        log_every=1,
    )
    alone = train(own)
    (tmp_path / "two.yaml").write_text(yaml.safe_dump({**asdict(own), "out": str(tmp_path / "two")}))
    for done in run_distributed(["-m", "training.infometic", "--config", tmp_path / "two.yaml"], cwd=ROOT):
        assert done.returncode == 0, done.stderr
    ours, theirs = (load_file(Path(folder) / WEIGHTS) for folder in (alone.folder, tmp_path / "two"))
    assert ours.keys() == theirs.keys()
    for name in ours:
        # attention does not depend on the bias of its keys: its gradient is rounding, which Adam makes large
        if not name.endswith("attention_in.bias"):
            assert torch.allclose(ours[name], theirs[name], atol=1e-4), name
    one, two = (
        [line["losses"] for line in read_log(folder) if "losses" in line]
        for folder in (alone.folder, tmp_path / "two")
    )
    assert [set(line) for line in one] == [set(line) for line in two]
    for before, after in zip(one, two, strict=True):
        assert after == pytest.approx(before, abs=1e-4)


# Reading


def test_rows_of_a_file(tmp_path):
    row = {"caption": "x", "language": "en", "stand_in": ["y", "z"], "mentioned": [1, 0], "photo": 7}
    row["region_texts"] = ["a", {"text": "b", "box": [0, 0, 0.5, 1]}]
    (read,) = file_rows(write_rows(tmp_path / "a.jsonl", [row]))
    assert (read.stand_ins, read.mentioned, read.photo) == (("y", "z"), (0, 1), "7")
    assert read.region_texts == (RegionText("a"), RegionText("b", (0.0, 0.0, 0.5, 1.0)))
    (tmp_path / "a.csv").write_text(
        'caption,language,stand_in,region_texts,mentioned\nx,en,y,"[""a"", ""b""]",[0]\n'
    )
    (read,) = file_rows(tmp_path / "a.csv")
    assert (read.stand_ins, read.region_texts[1].text, read.mentioned) == (("y",), "b", (0,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stand_in": None}, "line 1 .*neither an image nor a stand_in"),
        ({"stand_in": [" "]}, "line 1 .*stand_in: it is blank"),
        ({"boxes": [[0, 0, 1, 1]]}, "boxes in pixels and a stand_in"),
        ({"boxes": "0 0 1 1"}, r"boxes: '0 0 1 1'; expected a list of \[left"),
        ({"region_texts": [{"txt": "a"}]}, r"region_texts\[0\] has txt; expected text and box"),
        ({"region_texts": [{"text": "a", "box": [0, 0, 20, 9]}]}, "in shares of the image's width"),
        ({"region_texts": ["a"], "mentioned": [1]}, r"mentioned: \[1\]; expected numbers of its 1 boxes"),
        ({"mentioned": [True]}, "expected numbers of its 0 boxes"),
    ],
)
def test_rows_that_cannot_be(tmp_path, change, message):
    row = {"caption": "x", "language": "en", "stand_in": "y", **change}
    with pytest.raises(InputError, match=message):
        list(file_rows(write_rows(tmp_path / "a.jsonl", [row])))


def test_coco_and_entities(tmp_path):
    for name in ("a.jpg", "17.jpg"):
        Image.new("RGB", (100, 60), "red").save(tmp_path / name)
    captions = {
        "images": [{"id": 3, "file_name": "a.jpg"}],
        "annotations": [{"id": 8, "image_id": 3, "caption": "A red field."}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(captions))
    (row,) = coco_rows(tmp_path / "coco.json", tmp_path)
    assert (row.caption, row.image, row.language) == ("A red field.", tmp_path / "a.jpg", "en")
    for name, text in (("Annotations/17.xml", XML), ("Sentences/17.txt", SENTENCES)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    rows = list(entity_rows(tmp_path, tmp_path))
    assert [row.mentioned for row in rows] == [(0, 1, 2), (0,), ()]
    assert rows[0].boxes == ((0, 10, 40, 60), (49, 19, 70, 30), (70, 19, 100, 30))
    (tmp_path / "17.jpg").unlink()
    with pytest.raises(ImageError, match=r"no such file: .*17\.jpg"):
        list(entity_rows(tmp_path, tmp_path))


# Settings and configs


PUBLISHED = {
    "max_steps": 32_000,
    "batch_size": 32,
    "learning_rate": 1e-4,
    "tasks": [*3 * ["coarse"], "text", *3 * ["coarse"], "vision"],
    "negatives": None,
    "hard_negatives": True,
    "n_regions": 20,
    "max_tokens": 32,
    "heads": 16,
    "width": None,
    "intra_layers": 4,
    "inter_layers": 2,
    "global_in_fusion": True,
    "pollution_weight": 0.0,
    "untouched": 0.0,
    "alike": 0.0,
    "context_width": None,
    "false_alarms": None,
    "beta": 0.1,
}
COARSE = {"tasks": ["coarse"], "hard_negatives": False}


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("infometic", {}),
        ("infometic_ablations/r1_without_inter_modal", {**COARSE, "inter_layers": 0}),
        ("infometic_ablations/r2_without_intra_modal", {**COARSE, "intra_layers": 0}),
        ("infometic_ablations/r3_without_global_feature", {**COARSE, "global_in_fusion": False}),
        ("infometic_ablations/r4_coarse_only", COARSE),
        ("infometic_ablations/r5_hard_negatives", {"tasks": ["coarse"]}),
        ("infometic_ablations/r6_fine_grained", {"hard_negatives": False}),
        ("infometic_ablations/r7_all", {}),
    ],
)
def test_configs_are_the_paper(name, differs):
    line = ["--config", str(CONFIGS / f"{name}.yaml"), "--base", "b", "--data", "d", "--out", "o"]
    read = parse(Settings, line, "")
    for setting, value in {**PUBLISHED, **differs}.items():
        assert getattr(read, setting) == value, setting
    plain = Settings(out="o", base="b", data=["d"])
    assert {f.name for f in fields(Settings) if getattr(read, f.name) != getattr(plain, f.name)} <= set(
        differs
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": " "}, "base is missing"),
        ({"data": []}, "data is missing"),
        ({"tasks": ["coarse", "regions"]}, "expected a list of coarse, text, vision"),
        ({"tasks": []}, "tasks="),
        ({"text_weight": -1.0}, r"text_weight=-1\.0: expected a weight"),
        ({"text_weight": 0.0}, "tasks has 'text', all of whose losses have weight 0"),
        ({"pollutions": 0}, "pollutions=0, but tasks has 'text'"),
        ({"negatives": 0}, "negatives=0: expected at least 1"),
        ({"beta": 1.0}, r"beta=1\.0"),
        ({"untouched": 1.0}, r"untouched=1\.0"),
        ({"alike": 1.5}, r"alike=1\.5: expected a share from 0 to 1"),
        ({"alike": float("nan")}, "alike=nan"),
        ({"context_width": 0}, "context_width=0: expected a whole number from 1 to 16,384"),
        ({"false_alarms": 0.0}, r"false_alarms=0\.0: expected a share between 0 and 1"),
        ({"false_alarms": 1.0}, r"false_alarms=1\.0"),
        ({"false_alarms": 0.1, "validation_share": 0.0}, "false_alarms is set on validation captions, but"),
        ({"heads": 3}, "heads=3 does not divide the width 32"),
        ({"overlap": 0.0}, r"overlap=0\.0"),
        ({"n_regions": 0}, "n_regions=0"),
        ({"evaluate_pairs": 0}, "evaluate_pairs=0"),
    ],
)
def test_settings_that_cannot_be(settings, changes, message):
    with pytest.raises(CapscoreError, match=message):
        settings(**changes)


def test_a_task_without_boxes_is_an_error_before_anything_is_embedded(
    settings, tmp_path, pictures, monkeypatch
):
    def embedded(*_, **__):
        raise AssertionError("rows were embedded")

    monkeypatch.setattr("training.infometic.prepare", embedded)
    plain = {"image": str(pictures.with_name("0.png")), "caption": "red square", "language": "en"}
    data = [str(write_rows(tmp_path / "plain.jsonl", [plain]))]
    with pytest.raises(InputError, match=r"no row says which regions .* --tasks coarse text"):
        train(settings(data=data, tasks=["coarse", "vision"]))
    with pytest.raises(AssertionError, match="were embedded"):
        train(settings(data=data, tasks=["coarse"]))


def test_data_that_cannot_be(settings, tmp_path, pictures):
    plain = {"image": str(pictures.with_name("0.png")), "caption": "red square", "language": "en"}
    bad = write_rows(tmp_path / "bad.jsonl", [plain])
    with pytest.raises(InputError, match=r"line 1 .*has no boxes, which regions='given' needs"):
        train(settings(data=[str(bad)], tasks=["coarse"]))
    write_rows(bad, [{**plain, "boxes": [[30, 0, 20, 9]]}])
    with pytest.raises(InputError, match=r"line 1 .*box 0 is \(30\.0, 0\.0, 20\.0, 9\.0\)"):
        train(settings(data=[str(bad)], tasks=["coarse"]))
    write_rows(
        bad, [{**plain, "boxes": [[0, 0, 20, 9]]}, {**plain, "caption": "blue disc", "boxes": [[0, 0, 9, 9]]}]
    )
    with pytest.raises(InputError, match="no row says which regions its caption mentions"):
        train(settings(data=[str(bad)], validation_share=0.0))
    with pytest.raises(InputError, match="names images, but not their folder: give image_dir"):
        train(settings(data=[f"entities:{tmp_path}:train"]))
    (tmp_path / "run" / WEIGHTS).write_bytes(b"")
    with pytest.raises(CapscoreError, match="has the weights of another model"):
        train(settings())
