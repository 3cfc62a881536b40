"""The reading of two captions: the mean of both orders, a photo read once, and ranks that a judge gives."""

import functools

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import capscore
from capscore.errors import CapscoreError, RowWarning
from capscore.judges.battle import Battle
from tools.tiny import judges as tiny_models
from tools.tiny.judges import FAMILIES, tiny_judge

from ..cli.conftest import write_jsonl
from ..photos import noise
from .test_parity import PHOTOS, asked, assert_close, spellings

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
TWO = "two dogs run, 2.5 km!"
ROWS = [(0, "A red cat sleeps.", TWO), (3, "犬", "no"), (0, TWO, "a cat")]
FAST = ("qwen2_5_vl", "llava", "paligemma")
CAPTIONS = {"a": "a cat", "b": "two dogs on a bench", "c": "a house by the sea"}
load = functools.partial(tiny_models.load, reading="battle")


def share_of(probabilities, tokenizer, word):
    """Probability of all tokens that spell a word, without those of single bytes."""
    ids = [n for n in spellings(tokenizer, word) if not tokenizer.convert_ids_to_tokens(n).startswith("<0x")]
    return float(probabilities[ids].sum())


def scored(scorer, rows=ROWS):
    photos, captions, rivals = zip(*rows, strict=True)
    return scorer.score(captions, [PHOTOS[photo] for photo in photos], rival=rivals)


@pytest.mark.parametrize("answers", ["1/2", "A/B"])
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in FAMILIES]
)
def test_a_battle_is_the_mean_of_both_orders_of_rows_alone(family, answers, tiny_model):
    folder, words = tiny_model(family), answers.split("/")
    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    model = getattr(transformers, name).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    question, expected = Battle(answers=answers).question, []
    assert f"Answer {words[0]} or {words[1]}." in question
    for photo, caption, rival in ROWS:
        shares, masses = [], []
        for one, other in ((caption, rival), (rival, caption)):
            (inputs,) = asked(processor, question.replace("{rival}", other), [(photo, one)])
            with torch.inference_mode():
                probabilities = model(**inputs).logits[0, -1].double().softmax(dim=0)
            first, second = (share_of(probabilities, processor.tokenizer, word) for word in words)
            shares.append(first / (first + second))
            masses.append(first + second)
        expected.append([(shares[0] + 1 - shares[1]) / 2, np.mean(shares), np.mean(masses)])
    judge = load(backbone=folder, answers=answers)
    found = scored(judge)
    numbers = found.scores, found.components["first"], found.components["mass"]
    assert_close(np.stack(numbers, axis=1), expected)
    assert_close(np.exp(-found.components["margin"]), 1 / found.scores - 1)
    turned = scored(judge, [(photo, rival, caption) for photo, caption, rival in ROWS])
    assert_close(turned.scores, 1 - found.scores)


def test_captions_that_are_equal_or_empty_neither_win_nor_lose_for_their_place():
    found = scored(load(), [(0, "a cat", "a cat"), (0, "", "a cat"), (0, "a cat", " "), (0, "", "")])
    assert found.scores == pytest.approx([0.5, 0, 1, 0.5], abs=1e-9)
    assert "|empty:worst|" in found.signature
    left_out = scored(load(empty="skip"), [(0, "a", "b"), (0, "a", "")])
    assert np.isnan(left_out.scores).tolist() == [False, True]


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, {}, "reading='battle' .* a column 'rival'"),
        ({}, {"rival": [None]}, "row 0, rival: expected a caption, got None"),
        ({"empty": "raise"}, {"rival": [""]}, "row 0, rival: expected a caption, got an empty string"),
        ({}, {"rival": ["word " * 20_000]}, "row 0, rival: its question has .* tokens"),
        ({"question": "Is it {caption}?"}, {}, "with {caption} .* and {rival}"),
        ({"question": "{caption} {rival} {context}"}, {}, "{context} has .* {caption} and {rival} have"),
        ({"explain": True}, {}, "explain=True does not go with reading='battle'"),
        ({"answers": "first one/second one"}, {}, "has no token for 'first one'; try other answers"),
        ({"reading": "yes"}, {"rival": ["a"]}, "judge takes no rival"),
        ({"reading": "yes", "question": "{caption} {rival}"}, {}, "{rival} has no .*, only {caption} has"),
    ],
)
def test_what_is_no_battle_is_named(options, columns, message):
    with pytest.raises(CapscoreError, match=message):
        load(**options).score(["a cat"], PHOTOS[:1], **columns)


@pytest.fixture
def systems(tmp_path):
    """Rows of three systems, and the folder of their three photos."""
    for number in range(3):
        Image.fromarray(noise(40, 60, number)).save(tmp_path / f"{number}.png")
    photos = [f"{n}.png" for n in range(3)]
    given = {}
    for name, caption in CAPTIONS.items():
        given[name] = [{"image": photo, "caption": f"{caption} {photo[0]}"} for photo in photos]
    return given, tmp_path


def test_a_judge_ranks_systems_and_reads_each_photo_once(systems, passes, tmp_path):
    given, images = systems
    options = {"backbone": tiny_judge("qwen2_5_vl"), "images": images, "cache": tmp_path / "cache"}
    options["bootstrap"] = 20
    found = capscore.battles(given, "judge", tie=0, **options)
    seen = {True: 0, False: 0}  # rows with and without a photo
    for inputs in passes:
        seen[inputs.get("pixel_values") is not None] += len(inputs["input_ids"])
    assert seen == {True: 3, False: 3 * 3 * 2}  # three battles in both orders
    expected, firsts = np.zeros((3, 3)), []
    names = [*found.systems]
    for one, other in (("a", "b"), ("a", "c"), ("b", "c")):
        rows = [(f"{CAPTIONS[one]} {n}", f"{CAPTIONS[other]} {n}", images / f"{n}.png") for n in range(3)]
        captions, rivals, paths = map(list, zip(*rows, strict=True))
        alone = load().score(captions, paths, rival=rivals)
        firsts += alone.components["first"].tolist()
        expected[names.index(one), names.index(other)] = (alone.scores > 0.5).sum()
        expected[names.index(other), names.index(one)] = (alone.scores < 0.5).sum()
    np.testing.assert_array_equal(found.wins, expected)
    assert found.first == pytest.approx(np.mean(firsts), abs=1e-6) and 0 <= found.contradicted <= 1
    assert found.signature.startswith("judge|backbone:tiny") and "|reading:battle|" in found.signature
    assert "Position bias: the caption that comes first is better with probability 0." in str(found)
    passes.clear()
    again = capscore.battles({name: given[name] for name in "cab"}, "judge", tie=0, **options)
    assert not passes and again.ratings == pytest.approx(found.ratings, abs=1e-6)
    given["b"][1]["caption"] = None
    with pytest.raises(CapscoreError, match=r"^b \(row 1,.*\) against c \(row 1,.*\): candidate: "):
        capscore.battles(given, "judge", **options)
    left = capscore.battles(given, "judge", on_error="skip", **options)
    assert (left.n_left_out, left.n_battles) == (2, 7)


def test_messages_name_the_lines_of_both_captions(systems):
    given, images = systems
    given["b"][2]["caption"] = "&#39;"
    files = {name: write_jsonl(images / f"{name}.jsonl", rows) for name, rows in given.items()}
    files["b"].write_text("\n" + files["b"].read_text())
    options = {"backbone": tiny_judge("qwen2_5_vl"), "cache": False, "bootstrap": 0, "match_by": "photo"}
    place = r"without a letter \(first: b \(\S+b.jsonl, line 4\) against c \(\S+c.jsonl, line 3\)"
    with pytest.warns(RowWarning, match=place):
        capscore.battles(files, "judge", **options)


def test_single_answers_decide_where_a_reading_of_one_caption_is_named(systems):
    given, images = systems
    options = {"backbone": tiny_judge("qwen2_5_vl"), "images": images, "cache": False, "bootstrap": 0}
    found = capscore.battles(given, "judge", reading="yes", **options)
    scorer, scores = load(reading="yes"), {}
    for name, rows in given.items():
        captions, paths = zip(*((row["caption"], images / row["image"]) for row in rows), strict=True)
        scores[name] = scorer.score(captions, paths).scores
    wins = [[(scores[one] > scores[other]).sum() for other in found.systems] for one in found.systems]
    np.testing.assert_array_equal(found.wins, wins)
    assert "|reading:yes|" in found.signature and found.first is None
