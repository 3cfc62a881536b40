"""InfoMetIC on benchmarks: files of photos and captions in, the rows of the paper's tables out."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

import capscore
from capscore import CapscoreError, InputError
from capscore.benchmarks import run_benchmark
from capscore.benchmarks.run import COMPONENTS, benchmark_queries
from capscore.benchmarks.tasks import TaskOptions
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from capscore.infometic.regions import RegionFinder, Regions
from capscore.registry import METRICS

from ..datasets_scripts.conftest import _own_cache
from ..photos import encode
from ..toy import ColourBackbone

__all__ = ["_own_cache"]

quick = TaskOptions(bootstrap=0)
pytestmark = pytest.mark.filterwarnings(
    "ignore::capscore.BenchmarkWarning",
    "ignore::capscore.TruncationWarning",
    "ignore::capscore.errors.RegionWarning",
)
RED, GREEN, BLUE, DARK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0)
# left and right half of each photo
PHOTOS = {
    "0.jpg": (RED, BLUE),
    "1.jpg": (GREEN, GREEN),
    "2.jpg": (BLUE, GREEN),
    "3.jpg": ((200, 90, 0), (10, 90, 220)),
}
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
    """The same towers under the name of those that papers use."""

    name = "ViT-B-32-quickgelu/openai"


def picture(left, right):
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :4], pixels[:, 4:] = left, right
    return pixels


def write_photos(folder, names=PHOTOS):
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(encode(picture(*PHOTOS[name])))


def network():
    torch.manual_seed(0)
    return InfoMetIC(InfoMetICConfig(dim=3, heads=1, intra_layers=1, inter_layers=1, max_tokens=4)).eval()


def maker(backbone=None, **options):
    options = {"weights": "info_clip", "regions": Halves(), **options}
    return functools.partial(
        capscore.load,
        "infometic",
        backbone=backbone or ColourBackbone(),
        cache=False,
        progress=False,
        **options,
    )


def statistics(result):
    return {statistic.name: statistic.value for statistic in result.outcome.statistics}


# ------------------------------------------------------------------ ratings


@pytest.fixture
def thumb(tmp_path):
    """Eight rated captions, two of them by people."""
    write_photos(tmp_path / "val2014")
    rng = np.random.default_rng(2)
    captions = [
        "red blue",
        "green",
        "blue green thing",
        "red",
        "a red thing",
        "blue",
        "green red",
        "a blue sky",
    ]
    rows = []
    for number, caption in enumerate(captions):
        precision, recall = rng.integers(2, 6, 2).tolist()
        rows.append(
            {
                "SYS": "Human" if number > 5 else "AB"[number // 4],
                "seg_id": str(number),
                "set_id": 0,
                "hyp": caption,
                "image": f"{number % 4}.jpg",
                "P": float(precision),
                "R": float(recall),
                "Fl": 0.0,
                "Inc": 0.0,
                "Con": 0.0,
                "human_score": (precision + recall) / 2,
            }
        )
    (tmp_path / "mscoco_THumB-1.0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "mscoco_references.json").write_text(
        "".join(json.dumps({"seg_id": row["seg_id"], "set_id": 0, "refs": ["a"]}) + "\n" for row in rows)
    )
    return tmp_path, rows


def test_thumb_has_rows_for_recall_precision_and_plus(thumb):
    folder, rows = thumb
    run = run_benchmark("thumb", data_dir=folder, metrics={"infometic": maker()}, options=quick)
    assert [result.metric for result in run.results] == [
        "infometic",
        "infometic_plus",
        "infometic_recall",
        "infometic_precision",
    ]
    scores = maker()().score(
        [row["hyp"] for row in rows], [picture(*PHOTOS[row["image"]]) for row in rows], language="en"
    )
    expected = {
        "infometic": scores.scores,
        "infometic_plus": scores.scores + 100 * scores.components["clip_cosine"],
        "infometic_recall": scores.components["recall"],
        "infometic_precision": scores.components["precision"],
    }
    machine = np.array([row["SYS"] != "Human" for row in rows])
    assert machine.sum() == 6
    for result in run.results:
        np.testing.assert_allclose(result.scores, expected[result.metric], atol=1e-4)
        found = statistics(result)
        for column, rating in (("P", "precision"), ("R", "recall"), ("human_score", "total")):
            ratings = np.array([row[column] for row in rows])
            for kept, words in ((machine, "without_human"), (np.full(8, True), "with_human")):
                r = pearsonr(expected[result.metric][kept], ratings[kept]).statistic
                assert found[f"pearson_{rating}_{words}"] == pytest.approx(r, abs=1e-5)
    signatures = {result.metric: result.signature for result in run.results}
    assert "weights:info_clip" in signatures["infometic"]
    assert signatures["infometic_recall"] == signatures["infometic"] + "|component:recall"
    json.dumps(run.to_dict(), allow_nan=False)


def test_rows_are_scored_once_for_all_of_a_metrics_rows(thumb):
    folder, _ = thumb
    made = []

    def make():
        made.append(maker()())
        return made[-1]

    run = run_benchmark("thumb", data_dir=folder, metrics={"infometic": make}, options=quick)
    assert len(made) == 1 and len(run.results) == 4
    # four photos and two halves of each
    assert made[0].backbone.encoded_images <= 4 + 8


def test_figures_stand_beside_the_metric_that_it_is(thumb):
    folder, _ = thumb
    for weights, recall, whole in (("info_clip", 0.05, 0.13), (network(), 0.18, 0.22)):
        makers = {"infometic": maker(OpenAI(), weights=weights)}
        run = run_benchmark("thumb", data_dir=folder, metrics=makers, options=quick)
        by_name = {result.metric: result for result in run.results}

        def printed(name, by_name=by_name):
            return [figure.value for figure in by_name[name].published["pearson_precision_without_human"]]

        assert (printed("infometic_recall"), printed("infometic")) == ([recall], [whole])
        # there is no figure of InfoCLIP with the cosine added
        assert printed("infometic_plus") == ([] if weights == "info_clip" else [0.22])
        told = "with these settings it is infoclip_recall" in by_name["infometic_recall"].outcome.notes
        assert told == (weights == "info_clip")


def test_a_row_that_is_asked_for_is_there_once(thumb):
    folder, _ = thumb
    makers = {name: maker() for name in ("infometic_plus", "infometic")}
    run = run_benchmark("thumb", data_dir=folder, metrics=makers, options=quick, compare=True)
    names = [result.metric for result in run.results]
    assert names == ["infometic_plus", "infometic", "infometic_recall", "infometic_precision"]
    assert [test["metrics"][1] for test in run.comparisons] == []
    alone = run_benchmark("thumb", data_dir=folder, metrics={"infometic_plus": maker()}, options=quick)
    assert [result.metric for result in alone.results] == ["infometic_plus"]
    np.testing.assert_allclose(alone.results[0].scores, run.results[0].scores, rtol=0, atol=1e-6)
    named = {f"infometic@{number}": maker() for number in "ab"}
    run = run_benchmark("thumb", data_dir=folder, metrics=named, options=quick)
    assert [result.metric for result in run.results][:2] == ["infometic@a", "infometic_plus@a"]
    assert len(run.results) == 8


def test_ratings_of_the_whole_have_no_rows_for_its_parts(tmp_path):
    write_photos(tmp_path / "images")
    texts = ["red blue", "green", "blue", "a thing"]
    (tmp_path / "Flickr8k.token.txt").write_text(
        "".join(
            f"{name}#{number}\t{text} {number}\n"
            for name, text in zip(PHOTOS, texts, strict=True)
            for number in range(5)
        )
    )
    (tmp_path / "ExpertAnnotations.txt").write_text(
        "0.jpg\t1.jpg#1\t1\t2\t2\n1.jpg\t2.jpg#1\t1\t1\t3\n2.jpg\t3.jpg#0\t4\t3\t3\n3.jpg\t0.jpg#3\t2\t4\t4\n"
    )
    run = run_benchmark(
        "flickr8k_human", "expert", data_dir=tmp_path, metrics={"infometic": maker(OpenAI())}, options=quick
    )
    assert [result.metric for result in run.results] == ["infometic", "infometic_plus"]
    assert run.results[0].published["tau_c"][0].metric == "infoclip"


def test_names_of_rows_are_those_that_can_be_asked_for():
    own = {name: (metric, part) for name, (metric, part) in COMPONENTS.items() if metric == "infometic"}
    kind = METRICS.get("infometic")
    assert own == {name: ("infometic", part) for name, part in kind.reported.items()}
    assert set(kind.reported.values()) <= set(kind.component_names)


# ------------------------------------------------------------------ words and regions


@pytest.fixture
def tokens(tmp_path):
    """Two captions. By hand, with products times 100 in the softmax:

    The photo of the first is (1, 0, 1) / √2. A piece without a colour is (1, 1, 1) / √3, of cosine .82 with
    it; "red" is (1, 0, 0), of cosine .71. So a and ball have a half each, and red nothing. The caption is
    (1, 0, 0): the left half is (1, 0, 0), the right one and the null token have products of 0.
    The second photo and its caption are (0, 1, 0): both halves have one half, and so has the only piece all.
    """
    write_photos(tmp_path / "val2014", ["0.jpg", "1.jpg"])

    def word(text, correct, semantic=True):
        return {"text": text, "correct": correct, "semantic": semantic}

    def region(box, mentioned):
        return {"box": box, "mentioned": mentioned}

    pairs = [
        {
            "id": "a",
            "image": "0.jpg",
            "caption": "A red ball.",
            "words": [word("a", True, False), word("red", True), word("ball", False), word(".", True, False)],
            "regions": [region(RIGHT, False), region(LEFT, True)],
        },
        {
            "id": "b",
            "image": "1.jpg",
            "caption": "green",
            "words": [word("green", True)],
            # one reaches over the edge
            "regions": [region(LEFT, True), region([4, 0, 80, 40], False)],
        },
    ]
    (tmp_path / "captokeneval.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return tmp_path


def test_captokeneval_by_hand(tokens):
    run = run_benchmark(
        "captokeneval", data_dir=tokens, metrics={"infometic": maker(OpenAI())}, options=quick
    )
    (result,) = run.results
    # red is taken for wrong and ball for right, both mistakenly; of regions, the right half of the second
    assert statistics(result) == {"accuracy_vision": 3 / 4, "accuracy_text": 1 / 3}
    assert result.outcome.counts == {"semantic words": 3, "other words": 2, "regions": 4, "left out": 0}
    assert [figure.value for figure in result.published["accuracy_text"]] == [0.33]
    assert result.scores is None


def test_captokeneval_with_another_threshold(tokens):
    makers = {"infometic": maker(beta=0.6)}
    run = run_benchmark("captokeneval", data_dir=tokens, metrics=makers, options=TaskOptions())
    # ball's .5 is now too little, rightly; so are the halves of the second photo, one of them mistakenly
    assert statistics(run.results[0]) == {"accuracy_vision": 3 / 4, "accuracy_text": 2 / 3}
    assert run.results[0].outcome.notes[-2].startswith("no intervals")


def test_words_that_were_cut_off_are_missing(tokens):
    path = tokens / "captokeneval.jsonl"
    weights = network()  # reads four pieces
    lines = path.read_text().splitlines()
    pair = json.loads(lines[1])
    pair["caption"] = "green green green green ball"
    pair["words"] = [{"text": text, "correct": True, "semantic": True} for text in pair["caption"].split()]
    path.write_text(f"{lines[0]}\n{json.dumps(pair)}\n")
    makers = {"infometic": maker(weights=weights)}
    with pytest.raises(InputError, match=r"row 1, word_scores: "):
        run_benchmark("captokeneval", data_dir=tokens, metrics=makers, options=quick)
    run = run_benchmark(
        "captokeneval", data_dir=tokens, metrics=makers, options=TaskOptions(bootstrap=0, missing="skip")
    )
    assert run.results[0].outcome.counts["left out"] == 1
    assert "1 semantic word without a score left out" in run.results[0].outcome.notes


def test_words_of_another_caption(tokens):
    path = tokens / "captokeneval.jsonl"
    path.write_text(path.read_text().replace('"caption": "green"', '"caption": "blue"'))
    with pytest.raises(InputError, match=r"row 1, words: word 0 is 'green', but the caption 'blue'"):
        run_benchmark("captokeneval", data_dir=tokens, metrics={"infometic": maker()}, options=quick)


def test_a_score_of_captions_says_nothing_of_words(tokens):
    mcs = functools.partial(capscore.load, "mcs", backbone=ColourBackbone(), cache=False)
    message = "mcs is a score of captions, and captokeneval asks for scores"
    with pytest.raises(CapscoreError, match=message):
        run_benchmark("captokeneval", data_dir=tokens, metrics={"mcs": mcs}, options=quick)
    makers = {"mcs": mcs, "infometic_plus": maker(), "infometic": maker()}
    run = run_benchmark("captokeneval", data_dir=tokens, metrics=makers, options=quick, keep_going=True)
    assert [result.metric for result in run.results] == ["infometic"]
    assert list(run.skipped) == ["mcs", "infometic_plus"]
    with pytest.raises(CapscoreError, match="captokeneval asks for scores of words and regions"):
        run_benchmark("captokeneval", data_dir=tokens, scores={"mine": tokens / "x.jsonl"}, options=quick)
    with pytest.raises(CapscoreError, match="captokeneval asks for scores of words and regions"):
        benchmark_queries("captokeneval", data_dir=tokens)


# ------------------------------------------------------------------ foils and hallucinated words


@pytest.fixture
def hat(tmp_path):
    """Captions of the photos of `tokens`, one of them with a hallucinated word, in the form of HAT."""
    write_photos(tmp_path / "val2014", ["0.jpg", "1.jpg", "2.jpg"])
    rows = []
    for name, tokens, wrong in (
        ("0.jpg", ["A", "red", "ball."], {"red"}),
        ("1.jpg", ["green"], set()),
        ("2.jpg", ["a", "green", "cube"], {"cube"}),
    ):
        rows.append(
            {
                "sample_id": name,
                "caption": " ".join(tokens),
                "grounding": [[token, token in wrong] for token in tokens],
                "contains_hallucination": bool(wrong),
                "image_path": name,
                "references": ["a thing"],
            }
        )
    (tmp_path / "hat-trainval.json").write_text(json.dumps(rows))
    return tmp_path


def test_the_word_that_is_wrong(hat):
    run = run_benchmark("hat", data_dir=hat, metrics={"infometic": maker()}, options=quick)
    assert [result.metric for result in run.results] == ["infometic", "infometic_plus"]
    found = statistics(run.results[0])
    # as in `tokens`, "red" has nothing and "ball" half of what its caption has: red is found. The third photo
    # is (0, 1, 1) / √2; "green" is (0, 1, 0), cosine .71, "a" and "cube" are (1, 1, 1) / √3, cosine .82:
    # of "green" and "cube", "green" is doubted, mistakenly
    assert found["localisation_accuracy"] == 1 / 2
    # judged are red 0 (wrong), ball .5, green 1, green 0, cube .5 (wrong); from the lowest: red and green,
    # ball and cube, green
    assert found["word_average_precision"] == pytest.approx(1 / 2 * 1 / 2 + 1 / 2 * 2 / 4, abs=1e-6)
    assert found["word_auc"] == pytest.approx((2.5 + 1.5) / 6, abs=1e-6)
    assert run.results[0].outcome.counts["judged words"] == 5
    assert statistics(run.results[1])["localisation_accuracy"] == 1 / 2
    json.dumps(run.to_dict(), allow_nan=False)


def test_blocks_of_rows_give_the_same(hat, monkeypatch):
    from capscore.benchmarks import tasks as module

    whole = run_benchmark("hat", data_dir=hat, metrics={"infometic": maker()}, options=quick).results
    monkeypatch.setattr(module, "_BLOCK", 2)
    parts = run_benchmark("hat", data_dir=hat, metrics={"infometic": maker()}, options=quick).results
    for one, other in zip(whole, parts, strict=True):
        assert one.signature == other.signature
        assert statistics(one) == pytest.approx(statistics(other), abs=1e-6)
        np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-5)


def test_a_metric_without_scores_of_words_says_so(hat):
    mcs = functools.partial(capscore.load, "mcs", backbone=ColourBackbone(), cache=False)
    (result,) = run_benchmark("hat", data_dir=hat, metrics={"mcs": mcs}, options=quick).results
    assert list(statistics(result)) == ["average_precision_right", "average_precision_foil"]
    assert result.outcome.notes == (
        "no localisation accuracy: it needs scores of words, and here a caption has one score",
    )


def test_foils_of_pairs(tmp_path):
    write_photos(tmp_path / "images")
    (tmp_path / "nocaps-val-foil.json").write_text(
        json.dumps(
            [
                {
                    "image_path": name,
                    "references": ["a thing"],
                    "baseline": caption,
                    "foil": caption.replace(word, foil),
                    "replacement": [word, foil],
                    "domain": "in-domain",
                }
                for name, caption, word, foil in (
                    # the photo is (1, 0, 1) / √2
                    ("0.jpg", "A blue ball", "ball", "green"),
                    ("1.jpg", "A green ball", "green", "red"),
                    ("2.jpg", "A thing", "thing", "stone"),
                )
            ]
        )
    )
    (result,) = run_benchmark(
        "nocaps", "foil", data_dir=tmp_path, metrics={"infometic_recall": maker()}, options=quick
    ).results
    found = statistics(result)
    assert list(found) == [
        "accuracy_all",
        "localisation_accuracy",
        "average_precision_right",
        "average_precision_foil",
        "word_average_precision",
        "word_auc",
    ]
    # "green" and "red" are 0 beside words of more; "stone" is the only judged word of its foil
    assert found["localisation_accuracy"] == 1.0
    assert result.outcome.counts["foils"] == result.outcome.counts["right captions"] == 3
    assert result.outcome.value("localisation_accuracy") == 1.0


# ------------------------------------------------------------------ every photo with every caption


CAPTIONS = ["red blue", "a red thing", "green", "two green", "blue green", "green", "a thing", "red"]


@pytest.mark.parametrize("weights", ["info_clip", "network"])
def test_every_pair_has_the_score_of_its_row(weights):
    scorer = maker(weights=network() if weights == "network" else weights)()
    photos = [*(picture(*halves) for halves in PHOTOS.values()), picture(DARK, DARK), picture(RED, BLUE)]
    captions = [*CAPTIONS, "one two three four red"]  # longer than the network reads
    scores, components = scorer.score_matrix(captions, photos, "en")
    rows = scorer.score(captions * len(photos), [photo for photo in photos for _ in captions], language="en")
    shape = (len(photos), len(captions))
    np.testing.assert_allclose(scores, rows.scores.reshape(shape), atol=2e-4)
    assert set(components) == set(scorer.component_names)
    for name, values in components.items():
        np.testing.assert_allclose(values, rows.components[name].reshape(shape), atol=2e-4)
    assert np.ptp(scores) > 1
    # equal ones to the last bit
    np.testing.assert_array_equal(scores[:, 2], scores[:, 5])
    np.testing.assert_array_equal(scores[0], scores[5])


def test_pairs_do_not_depend_on_order_or_blocks(monkeypatch):
    from capscore.metrics import infometic

    photos = [picture(*halves) for halves in PHOTOS.values()]
    whole, _ = maker(weights=network())().score_matrix(CAPTIONS, photos)
    monkeypatch.setattr(infometic, "_BLOCK", 3)
    monkeypatch.setattr(infometic, "_PAIRS_ON_CPU", 2)
    back, _ = maker(weights=network())().score_matrix(CAPTIONS[::-1], photos[::-1])
    np.testing.assert_allclose(back[::-1, ::-1], whole, atol=1e-4)


def test_pairs_that_cannot_be_scored():
    scorer = maker()()
    photo = picture(RED, BLUE)
    with pytest.raises(InputError, match="row 1, candidate: expected a caption, got an empty string"):
        scorer.score_matrix(["red", ""], [photo])
    with pytest.raises(InputError, match="there are no rows"):
        scorer.score_matrix([], [photo])
    with pytest.raises(InputError, match="there are no images"):
        scorer.score_matrix(["red"], [])
    with pytest.raises(InputError, match="got 2; expected 1, one per candidate"):
        scorer.score_matrix(["red"], [photo], ["en", "de"])
    spoilt = network()
    with torch.no_grad():
        spoilt.log_scale.fill_(float("nan"))
    with pytest.raises(CapscoreError, match="gave NaN or infinity for 2 pairs"):
        maker(weights=spoilt)().score_matrix(["red", "blue"], [photo])


def test_retrieval(tmp_path):
    write_photos(tmp_path / "images")
    captions = {
        "0.jpg": ["red blue", "a red thing"],
        "1.jpg": ["green", "two green"],
        "2.jpg": ["blue green", "green blue"],
        "3.jpg": ["a thing", "red"],
    }
    (tmp_path / "nocaps_val_4500_captions.json").write_text(
        json.dumps(
            {
                "licenses": [],
                "info": {},
                "images": [
                    {"id": n, "file_name": name, "open_images_id": str(n), "domain": "in-domain", "height": 4}
                    for n, name in enumerate(captions)
                ],
                "annotations": [
                    {"image_id": n, "id": 2 * n + place, "caption": text}
                    for n, texts in enumerate(captions.values())
                    for place, text in enumerate(texts)
                ],
            }
        )
    )
    makers = {"infometic": maker(OpenAI(), weights=network())}
    run = run_benchmark("nocaps", "all", data_dir=tmp_path, metrics=makers, options=TaskOptions())
    assert [result.metric for result in run.results] == ["infometic", "infometic_plus"]
    texts = [text for own in captions.values() for text in own]
    own = np.repeat(np.arange(4), 2)
    rows = maker(OpenAI(), weights=network())().score(
        texts * 4, [picture(*PHOTOS[name]) for name in PHOTOS for _ in texts], language="en"
    )
    for result, values in zip(run.results, (rows.scores, rows.components["infometic_plus"]), strict=True):
        matrix = values.reshape(4, 8)
        found = statistics(result)
        # the place of the best right answer among all, from 0
        best = [
            min(int(np.sum(matrix[n] > matrix[n, text])) for text in np.flatnonzero(own == n))
            for n in range(4)
        ]
        places = [int(np.sum(matrix[:, text] > matrix[own[text], text])) for text in range(8)]
        for k in (1, 5, 10):
            assert found[f"image_to_text_r@{k}"] == np.mean([place < k for place in best])
            assert found[f"text_to_image_r@{k}"] == np.mean([place < k for place in places])
        assert result.scores is None
        assert any(note.startswith("no intervals") for note in result.outcome.notes)
    assert run.results[0].published["text_to_image_r@1"][0].value == 71.6
    assert run.results[1].published["text_to_image_r@1"][0].value == 76.2
