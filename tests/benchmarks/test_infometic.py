"""InfoMetIC on benchmarks: files of photos and captions in, the rows of the paper's tables out."""

import functools
import json

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

import capscore
from capscore.benchmarks import tasks
from capscore.benchmarks.tasks import TaskOptions
from capscore.errors import CapscoreError
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from capscore.infometic.regions import RegionFinder, Regions
from capscore.options import Sampling
from tools.tiny.colours import ColourBackbone
from tools.tiny.official import coco, write_json, write_jsonl

from ..photos import encode

quick = TaskOptions(sampling=Sampling(0))
pytestmark = pytest.mark.filterwarnings("ignore::capscore.errors.CapscoreWarning")
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
# left and right half of each photo
PHOTOS = {"0.jpg": (RED, BLUE), "1.jpg": (GREEN, GREEN), "2.jpg": (BLUE, GREEN)}
PHOTOS["3.jpg"] = (200, 90, 0), (10, 90, 220)
LEFT, RIGHT = [0, 0, 4, 4], [4, 0, 8, 4]


class Halves(RegionFinder):
    """Finds the two halves of a photo; of a dark one nothing."""

    name = fingerprint = "halves"
    most = 2

    def find(self, images):
        found = []
        for image in images:
            boxes = np.array([LEFT, RIGHT] if image.getextrema() != ((0, 0),) * 3 else [], float)
            boxes = boxes.reshape(-1, 4)
            found.append(Regions(boxes, np.linspace(0.9, 0.5, len(boxes)), ("",) * len(boxes)))
        return found


class OpenAI(ColourBackbone):
    name = "ViT-B-32-quickgelu/openai"


def picture(left, right):
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :4], pixels[:, 4:] = left, right
    return pixels


def write_photos(folder):
    folder.mkdir()
    for name, halves in PHOTOS.items():
        (folder / name).write_bytes(encode(picture(*halves)))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    torch.manual_seed(0)
    model = InfoMetIC(InfoMetICConfig(dim=3, heads=1, intra_layers=1, inter_layers=1, max_tokens=4))
    folder = tmp_path_factory.mktemp("weights") / "tiny"
    model.save_pretrained(folder)
    return folder


def maker(backbone=None, **options):
    options = {"weights": "info_clip", "regions": Halves(), "cache": False, "progress": False, **options}
    return functools.partial(capscore.load, "infometic", backbone=backbone or ColourBackbone(), **options)


def results(slug, folder, metrics=None, options=quick, config=None):
    metrics = metrics or {"infometic": maker()}
    (run,) = capscore.benchmark(slug, metrics, config=config or (), data_dir=folder, **vars(options)).runs
    json.dumps(run.to_dict(), allow_nan=False)
    return {result.metric: result for result in run.results}


def statistics(result):
    return {statistic.name: statistic.value for statistic in result.outcome.statistics}


MCS = {"mcs": functools.partial(capscore.load, "mcs", backbone=ColourBackbone(), cache=False)}


@pytest.fixture
def thumb(tmp_path):
    write_photos(tmp_path / "val2014")
    ratings = np.random.default_rng(2).integers(2, 6, (8, 2)).tolist()
    captions = "red blue|green|blue green thing|red|a red thing|blue|green red|a blue sky".split("|")
    rows = []
    for number, (caption, (precision, recall)) in enumerate(zip(captions, ratings, strict=True)):
        about = {"SYS": "Human" if number > 5 else "AB"[number // 4], "seg_id": str(number), "set_id": 0}
        scale = {"P": float(precision), "R": float(recall), "human_score": (precision + recall) / 2}
        penalties = dict.fromkeys(("Fl", "Inc", "Con"), 0.0)
        rows.append({**about, "hyp": caption, "image": f"{number % 4}.jpg", **scale, **penalties})
    write_jsonl(tmp_path / "mscoco_THumB-1.0.jsonl", rows)
    references = [{"seg_id": row["seg_id"], "set_id": 0, "refs": ["a"]} for row in rows]
    write_jsonl(tmp_path / "mscoco_references.json", references)
    return tmp_path, rows


PARTS = ("infometic", "infometic_plus", "infometic_recall", "infometic_precision")


def test_thumb_correlates_the_score_and_its_components(thumb):
    folder, rows = thumb
    found = results("thumb", folder, dict.fromkeys(PARTS, maker()))
    photos = [picture(*PHOTOS[row["image"]]) for row in rows]
    scores = maker()().score([row["hyp"] for row in rows], photos, language="en")
    parts = scores.components
    whole = scores.scores, scores.scores + 100 * parts["clip_cosine"], parts["recall"], parts["precision"]
    expected = dict(zip(PARTS, whole, strict=True))
    assert list(found) == list(expected)
    machine = np.array([row["SYS"] != "Human" for row in rows])
    for name, result in found.items():
        np.testing.assert_allclose(result.scores, expected[name], atol=1e-4)
        for column, rating in (("P", "precision"), ("R", "recall"), ("human_score", "total")):
            ratings = np.array([row[column] for row in rows])
            for kept, words in ((machine, "without_human"), (np.full(8, True), "with_human")):
                r = pearsonr(expected[name][kept], ratings[kept]).statistic
                assert statistics(result)[f"pearson_{rating}_{words}"] == pytest.approx(r, abs=1e-5)
    assert "weights:info_clip" in found["infometic"].signature
    assert found["infometic_recall"].signature == f"{found['infometic'].signature}|component:recall"


@pytest.mark.parametrize(("weights", "recall", "whole"), [("info_clip", 0.05, 0.13), ("network", 0.18, 0.22)])
def test_published_figures_are_shown_beside_their_metric(thumb, network, weights, recall, whole):
    weights_of = network if weights == "network" else weights
    found = results("thumb", thumb[0], dict.fromkeys(PARTS, maker(OpenAI(), weights=weights_of)))
    figures = [result.published["pearson_precision_without_human"] for result in found.values()]
    printed = [[figure.value for figure in part] for part in figures]
    # there is no figure of InfoCLIP with the cosine added
    assert printed[:3] == [[whole], [] if weights == "info_clip" else [0.22], [recall]]
    told = "with these settings it is infoclip_recall" in found["infometic_recall"].outcome.notes
    assert told == (weights == "info_clip")


def word(text, correct=True, semantic=True):
    return {"text": text, "correct": correct, "semantic": semantic}


@pytest.fixture
def tokens(tmp_path):
    """Two captions. By hand, with products times 100 in the softmax:

    The photo of the first is (1, 0, 1) / √2. A piece without a colour is (1, 1, 1) / √3, of cosine .82 with
    it; "red" is (1, 0, 0), of cosine .71. So a and ball have a half each, and red nothing. The caption is
    (1, 0, 0): the left half is (1, 0, 0), the right one and the null token have products of 0.
    The second photo and its caption are (0, 1, 0): both halves have one half, and so has the only piece all.
    """
    write_photos(tmp_path / "val2014")
    words = [word("a", semantic=False), word("red"), word("ball", False), word(".", semantic=False)]
    # one reaches over the edge
    boxes = [(RIGHT, False), (LEFT, True)], [(LEFT, True), ([4, 0, 80, 40], False)]
    regions = [[{"box": box, "mentioned": mentioned} for box, mentioned in part] for part in boxes]
    pairs = [
        {"id": "a", "image": "0.jpg", "caption": "A red ball.", "words": words, "regions": regions[0]},
        {"id": "b", "image": "1.jpg", "caption": "green", "words": [word("green")], "regions": regions[1]},
    ]
    write_jsonl(tmp_path / "captokeneval.jsonl", pairs)
    return tmp_path, pairs


def test_captokeneval_by_hand(tokens):
    found = results("captokeneval", tokens[0], {"infometic": maker(OpenAI())})["infometic"]
    # red is taken for wrong and ball for right, both mistakenly; of regions, the right half of the second
    assert statistics(found) == {"accuracy_vision": 3 / 4, "accuracy_text": 1 / 3}
    assert found.outcome.counts == {"semantic words": 3, "other words": 2, "regions": 4, "left out": 0}
    assert [figure.value for figure in found.published["accuracy_text"]] == [0.33]
    found = results("captokeneval", tokens[0], {"infometic": maker(beta=0.6)}, TaskOptions())["infometic"]
    # ball's .5 is now too little, rightly; so are the halves of the second photo, one of them mistakenly
    assert statistics(found) == {"accuracy_vision": 3 / 4, "accuracy_text": 2 / 3}
    assert found.outcome.notes[-2].startswith("no intervals")


def test_notes_count_words_that_were_cut_off_or_do_not_fit(tokens, network):
    folder, pairs = tokens
    pairs[1]["caption"] = "green green green green ball"
    pairs[1]["words"] = [word(text) for text in pairs[1]["caption"].split()]
    write_jsonl(folder / "captokeneval.jsonl", pairs)
    makers = {"infometic": maker(weights=network)}
    with pytest.raises(CapscoreError, match=r"row 1, word_scores: "):
        results("captokeneval", folder, makers)
    skip = TaskOptions(missing="skip", sampling=Sampling(0))
    found = results("captokeneval", folder, makers, skip)["infometic"]
    assert found.outcome.counts["left out"] == 1
    assert "1 semantic word without a score left out" in found.outcome.notes
    pairs[1]["caption"] = "blue"
    write_jsonl(folder / "captokeneval.jsonl", pairs)
    with pytest.raises(CapscoreError, match=r"row 1, words: word 0 is 'green', but the caption 'blue'"):
        results("captokeneval", folder)
    with pytest.raises(CapscoreError, match="infometic_plus is a score of captions, and captokeneval asks"):
        results("captokeneval", folder, {"infometic_plus": maker()})


def test_the_word_that_is_wrong(tmp_path, monkeypatch):
    write_photos(tmp_path / "val2014")
    captions = [("0.jpg", "A red ball.", "red"), ("1.jpg", "green", ""), ("2.jpg", "a green cube", "cube")]
    rows = []
    for name, caption, wrong in captions:
        row = {"sample_id": name, "image_path": name, "caption": caption, "references": ["a thing"]}
        grounding = [[token, token == wrong] for token in caption.split()]
        rows.append(row | {"grounding": grounding, "contains_hallucination": bool(wrong)})
    write_json(tmp_path / "hat-trainval.json", rows)
    both = dict.fromkeys(PARTS[:2], maker())
    whole = results("hat", tmp_path, both)
    found = statistics(whole["infometic"])
    # as in `tokens`, "red" has nothing and "ball" half of what its caption has: red is found. The third photo
    # is (0, 1, 1) / √2; "green" is (0, 1, 0), cosine .71, "a" and "cube" are (1, 1, 1) / √3, cosine .82:
    # of "green" and "cube", "green" is doubted, mistakenly
    assert found["localisation_accuracy"] == 1 / 2
    # judged are red 0 (wrong), ball .5, green 1, green 0, cube .5 (wrong); from the lowest: red and green,
    # ball and cube, green
    assert found["word_average_precision"] == pytest.approx(1 / 2 * 1 / 2 + 1 / 2 * 2 / 4, abs=1e-6)
    assert found["word_auc"] == pytest.approx((2.5 + 1.5) / 6, abs=1e-6)
    assert whole["infometic"].outcome.counts["judged words"] == 5
    monkeypatch.setattr(tasks, "_BLOCK", 2)
    for one, other in zip(whole.values(), results("hat", tmp_path, both).values(), strict=True):
        assert one.signature == other.signature
        assert statistics(one) == pytest.approx(statistics(other), abs=1e-6)
        np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-5)
    # a metric without scores of words
    (mcs,) = results("hat", tmp_path, MCS).values()
    assert list(statistics(mcs)) == ["average_precision_right", "average_precision_foil"]
    assert mcs.outcome.notes[0].startswith("no localisation accuracy: it needs scores of words")


def test_pairs_that_cannot_be_scored(network):
    scorer, photo = maker(weights=network)(), picture(RED, BLUE)
    with pytest.raises(CapscoreError, match="row 1, candidate: expected a caption, got an empty string"):
        scorer.score_matrix(["red", ""], [photo])
    with torch.no_grad():
        scorer.aligner.log_scale.fill_(float("nan"))
    with pytest.raises(CapscoreError, match="gave NaN or infinity for 2 pairs"):
        scorer.score_matrix(["red", "blue"], [photo])


def test_retrieval_ranks_by_the_score_of_each_pair(tmp_path, network):
    write_photos(tmp_path / "images")
    texts = ["red blue", "a red thing", "green", "two green", "blue green", "green blue", "a thing", "red"]
    right = np.repeat(np.arange(4), 2)
    document = coco(dict(enumerate(PHOTOS)), zip(right.tolist(), texts, strict=True))
    for image in document["images"]:
        image |= {"open_images_id": str(image["id"]), "domain": "in-domain", "height": 4}
    write_json(tmp_path / "nocaps_val_4500_captions.json", {"licenses": [], "info": {}, **document})
    makers = dict.fromkeys(PARTS[:2], maker(OpenAI(), weights=network))
    found = results("nocaps", tmp_path, makers, TaskOptions(), config="all")
    photos = [picture(*halves) for halves in PHOTOS.values() for _ in texts]
    rows = makers["infometic"]().score(texts * 4, photos, language="en")
    expected = {"infometic": rows.scores, "infometic_plus": rows.components["infometic_plus"]}
    assert list(found) == list(expected)
    for name, result in found.items():
        matrix = expected[name].reshape(4, 8)
        # the place of the best right answer among all, from 0
        best = [np.sum(matrix[n] > matrix[n, right == n].max()) for n in range(4)]
        places = [int(np.sum(matrix[:, text] > matrix[right[text], text])) for text in range(8)]
        for k in (1, 5, 10):
            assert statistics(result)[f"image_to_text_r@{k}"] == np.mean([place < k for place in best])
            assert statistics(result)[f"text_to_image_r@{k}"] == np.mean([place < k for place in places])
        assert any(note.startswith("no intervals") for note in result.outcome.notes)
    assert [result.published["text_to_image_r@1"][0].value for result in found.values()] == [71.6, 76.2]
