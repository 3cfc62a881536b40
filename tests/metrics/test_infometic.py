"""InfoMetIC as a scorer: words and regions by hand, each thing once, and marks that its weights decide."""

import functools
import math
from collections import Counter
from importlib.resources import files
from unittest import mock

import evaluate
import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data

import capscore
from capscore.embedding import photos as embedding
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import BackboneUnavailable, CapscoreError, InputError, RegionWarning, TruncationWarning
from capscore.images.boxes import crops
from capscore.infometic.network import InfoMetIC, InfoMetICConfig, WordContext
from capscore.infometic.regions import RegionFinder, Regions
from capscore.infometic.words import encode_pieces, split_pieces
from capscore.metrics import infometic
from capscore.metrics.infometic import InfoMetIC as InfoMetICScorer
from capscore.scoring.to_check import reasons_to_check
from capscore.text import word_classes
from capscore.text.word_classes import tagger_name
from tools.tiny.colours import RED, ColourBackbone
from tools.tiny.command import read_jsonl

from ..photos import noise

# scikit-image ships them: 451 × 300 pixels, and 512 × 512
CAT, ROCKET = (str(files("skimage.data") / f"{name}.png") for name in ("chelsea", "astronaut"))
BOXES = [[0, 0, 225, 300], [225, 0, 451, 300], [100, 50, 300, 200]]
# red in the left two thirds, blue in the right one: the mean is (2, 0, 1) / √5
FLAG = np.zeros((40, 60, 3), np.uint8)
FLAG[:, :40, 0] = FLAG[:, 40:, 2] = 255
LEFT, RIGHT = [0, 0, 40, 40], [40, 0, 60, 40]
SMALL = {"width": 16, "heads": 2, "intra_layers": 1, "inter_layers": 1}


class Finder(RegionFinder):
    """Finds the same boxes, in shares of the size, in every photo."""

    def __init__(self, *shares: tuple[float, ...], name: str = "halves"):
        self.name = self.fingerprint = name
        self.shares, self.asked = np.array(shares).reshape(-1, 4), 0

    def find(self, images):
        self.asked += len(images)
        labels = ("left", "right")[: len(self.shares)]
        boxes = [self.shares * np.array([*image.size, *image.size]) for image in images]
        return [Regions(each, np.ones(len(each)), labels) for each in boxes]


def halves() -> Finder:
    return Finder((0, 0, 0.5, 1), (0.5, 0, 1, 1))


@pytest.fixture(scope="module")
def backbone(embedded_free):
    return embedded_free


def scorer(backbone, **options) -> InfoMetICScorer:
    given = {"backbone": backbone, "cache": False, "progress": False, "regions": halves(), **options}
    return capscore.load("infometic", **given)


@pytest.fixture(scope="module")
def plain(backbone):
    return scorer(backbone, weights="info_clip")


def toy(**options) -> InfoMetICScorer:
    return scorer(ColourBackbone(), **{"weights": "info_clip", "regions": "windows", **options})


def softmax(*products: float) -> np.ndarray:
    powers = np.exp(np.array(products) - max(products))
    return powers / powers.sum()


def each(items, key):
    return [item[key] for item in items]


def semantic(detail) -> list[str]:
    return [word["text"] for word in detail["words"] if word["semantic"]]


def test_words_regions_and_scores_by_hand():
    """InfoCLIP: 100 · the cosines, and a softmax over a caption's pieces, or over regions and null token."""
    scores = toy().score(["red green kite"], [FLAG], language="en", boxes=[[LEFT, RIGHT]])
    (detail,) = scores.details
    words, regions = detail["words"], detail["regions"]
    assert each(words, "text") == ["red", "green", "kite"]
    assert (each(words, "start"), each(words, "end")) == ([0, 4, 10], [3, 9, 14])
    # cosines with the photo: of red 2/√5, of green 0, of a word without colour 3/√15
    of_words = softmax(100 * 2 / math.sqrt(5), 0, 100 * 3 / math.sqrt(15))
    np.testing.assert_allclose(each(words, "score"), of_words, rtol=1e-4, atol=1e-12)
    assert (each(words, "semantic"), each(words, "correct")) == ([True] * 3, [True, False, False])
    # the caption is (1, 1, 0) / √2: its cosine with the red part is 1/√2, with the blue one 0, with null 0
    of_regions = softmax(100 / math.sqrt(2), 0, 0)
    np.testing.assert_allclose([*each(regions, "score"), detail["null"]], of_regions, rtol=1e-4, atol=1e-12)
    assert (each(regions, "box"), each(regions, "mentioned")) == ([LEFT, RIGHT], [True, False])
    assert (each(regions, "confidence"), each(regions, "label")) == ([1.0] * 2, [""] * 2)
    assert (detail["image_size"], detail["n_words_cut"], detail["boxes_given"]) == ([60, 40], 0, True)
    # what is mentioned of the photo is red, what is right of the caption "red"
    recall, precision, cosine = 100 * 2 / math.sqrt(5), 100 / math.sqrt(2), 2 / math.sqrt(10)
    expected = [recall, precision, recall + precision + 100 * cosine, cosine]
    np.testing.assert_allclose([values[0] for values in scores.components.values()], expected, rtol=1e-4)
    assert scores.scores[0] == pytest.approx(recall + precision, rel=1e-5)
    stated = "|weights:info_clip|regions:given|n_regions:20|marks:published|beta:0.1|plus:100|"
    assert stated in scores.signature


def test_beta_moves_marks_and_no_score():
    """Three regions alike and a caption that fits all of them: a third of the score each."""
    stripes = [[0, 0, 3, 1], [0, 1, 3, 2], [0, 2, 3, 3]]
    for beta, mentioned in ((0.3, True), (0.5, False)):
        scores = toy(beta=beta).score(["red"], [RED], boxes=[stripes])
        regions = scores.details[0]["regions"]
        assert each(regions, "score") == pytest.approx([1 / 3] * 3)
        assert each(regions, "mentioned") == [mentioned] * 3
        assert scores.scores == pytest.approx([200]) and f"|beta:{beta}|" in scores.signature
    # eleven equal words share 1, so none is above 0.1 although all are right; the card says so
    with pytest.warns(TruncationWarning):
        (detail,) = toy().score([" ".join(["red"] * 11)], [RED]).details
    assert each(detail["words"], "score") == pytest.approx([1 / 11] * 11)
    assert not any(each(detail["words"], "correct"))


def test_the_requested_number_of_regions_is_scored():
    assert len(toy(n_regions=2).score(["red"], [FLAG]).details[0]["regions"]) == 2
    many = toy(n_regions=90)  # more than are found: all of them
    (found,) = many.finder.find([Image.fromarray(FLAG)])
    regions = many.score(["red"], [FLAG]).details[0]["regions"]
    assert 20 < len(found) == len(regions) and sorted(each(regions, "box")) == sorted(found.boxes.tolist())


def test_given_boxes_and_found_ones_in_one_call(plain):
    captions, boxes = ["A cat."] * 3, [BOXES[:1], None, np.array(BOXES)]
    scores = plain.score(captions, [CAT] * 3, language="en", boxes=boxes)
    assert [len(detail["regions"]) for detail in scores.details] == [1, 2, 3]
    assert each(scores.details[1]["regions"], "box") == [[0, 0, 225.5, 300], [225.5, 0, 451, 300]]
    assert "|regions:halves@halves+given|" in scores.signature
    options = {"backbone": plain.backbone, "cache": False, "weights": "info_clip", "regions": halves()}
    module = evaluate.load(capscore.module_folder("infometic"), **options)
    module.add(prediction=captions[0], image=CAT, boxes=boxes[0], language="en")
    module.add_batch(predictions=captions[1:], images=[CAT] * 2, boxes=boxes[1:], language="en")
    with pytest.raises(InputError, match="boxes belong to the rows"):
        module.compute(boxes=boxes)
    result = module.compute()
    assert result["scores"] == pytest.approx(scores.scores.tolist(), rel=1e-5)
    assert [len(regions) for regions in result["regions"]] == [1, 2, 3]
    # arrays that differ in the tenth digit are two boxes
    near = [[np.array([0.0, 0.0, 100.0 + shift, 200.0])] for shift in (1e-9, 2e-9)]
    details = plain.score(["A cat"] * 2, [CAT] * 2, language="en", boxes=near).details
    assert [detail["regions"][0]["box"][2] for detail in details] == [100.0 + 1e-9, 100.0 + 2e-9]


# a list in a list in a list …
NESTED = functools.reduce(lambda inner, _: [inner], range(100_000), [])


@pytest.mark.parametrize(
    ("boxes", "message"),
    [  # tests/images/test_boxes.py has more
        ([BOXES[0], [300, 0, 100, 200]], r"box 1 is \[300, 0, 100, 200\]"),
        *(([[0, 0, 10**400, 5]], "four"), ([{"a": 1}], "box 0 is {'a': 1}"), (NESTED, "four")),
        *(("a" * 100_000, "a list of boxes"), (BOXES * 400, "1,200 boxes for one photo; .* at most 1,000")),
    ],
    ids=["order", "number", "dict", "nested", "text", "many"],
)
def test_invalid_boxes_are_named_with_their_row(plain, boxes, message):
    rows = dict(candidates=["A cat."] * 2, images=[CAT] * 2, language="en", boxes=[None, boxes])
    skipped = plain.score(**rows, on_error="skip")
    assert list(skipped.failures) == [1] and skipped.details[1] is None and np.isfinite(skipped.scores[0])
    with pytest.raises(InputError, match=f"^row 1, boxes: .*{message}") as caught:
        plain.score(**rows)
    assert len(str(caught.value)) < 300


def test_no_region_no_content_word_and_a_photo_of_one_pixel(backbone):
    blind = scorer(backbone, weights="info_clip", regions=Finder(name="nothing"))
    with pytest.warns(RegionWarning, match="1 of 1 rows have an image in which no region was found"):
        scores = blind.score(["A cat."], [CAT], language="en")
    assert scores.components["recall"].tolist() == [0.0]
    assert scores.details[0]["regions"] == [] and scores.details[0]["null"] == 1.0
    scores = toy().score(["of the", "red", "?!"], [np.array([[[255, 0, 0]]], np.uint8)] * 3, language="en")
    assert each(scores.details[0]["regions"], "box") == [[0, 0, 1, 1]]
    marks = [each(detail["words"], "correct") for detail in scores.details]
    assert marks == [[None, None], [True], []] and np.isfinite(scores.scores).all()
    scores = toy().score(["a red dog", "ein roter Hund"], [RED] * 2, language=["en", "de"])
    assert [semantic(detail) for detail in scores.details] == [["red", "dog"], ["roter", "Hund"]]


def test_words_beyond_the_limit_are_reported_and_counted(plain):
    cut = "1 of 2 rows have a caption of more than 32 pieces"
    with pytest.warns(TruncationWarning, match=cut):
        scores = plain.score(["A cat.", " ".join(["cat"] * 40)], [CAT, CAT], language="en")
    detail = scores.details[1]
    assert detail["n_words_cut"] == 8 and scores.truncated.tolist() == [False, True]
    assert [word["score"] is None for word in detail["words"]] == [False] * 32 + [True] * 8
    assert detail["words"][-1]["correct"] is None
    with pytest.warns(TruncationWarning, match=cut):
        plain.warn_about_truncation(scores.truncated)  # as `capscore score` does


def test_a_caption_that_no_tagger_reads_fails_alone(plain):
    captions = ["A cat", "cats " * 250_000, "A cat"]
    with pytest.raises(InputError, match=r"row 1, candidate: a text of 1,250,000 characters: word classes"):
        plain.score(captions, [CAT] * 3, language="en")
    scores = plain.score(captions, [CAT] * 3, language="en", on_error="skip")
    assert list(scores.failures) == [1] and np.isfinite(scores.scores[[0, 2]]).all()


@pytest.fixture(scope="module")
def network(backbone):
    """Random weights; the words' part has more to say than in a new network."""
    torch.manual_seed(0)
    model = InfoMetIC(InfoMetICConfig(**SMALL, context_width=8, sharpness=0.9).on(backbone)).eval()
    with torch.no_grad():
        model.word_query.weight *= 4
        model.word_out.weight *= 3
    return model


@pytest.fixture(scope="module")
def reader(backbone, network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights") / "trained"
    network.save_pretrained(folder)
    return scorer(backbone, weights=folder)


def test_the_context_of_words_reaches_the_network(reader, backbone, network):
    """Once more, a caption alone: its words, their pieces and the captions without them are written out."""
    caption = "A tabby cat looks up."
    detail = reader.score([caption], [CAT], language="en", boxes=[BOXES]).details[0]
    assert semantic(detail) == ["tabby", "cat", "looks", "up"]
    texts = [caption, "A cat looks up.", "A tabby looks up.", "A tabby cat up.", "A tabby cat looks ."]
    whole, *without = backbone.encode_texts(texts)
    pieces = split_pieces(backbone, [caption])[0]
    texts = [caption[start:end] for start, end in zip(pieces.starts, pieces.ends, strict=True)]
    assert texts == ["A", "tab", "by", "cat", "look", "s", "up"]
    added = np.zeros((7, 512), np.float32)
    for piece, word in ((1, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3)):
        added[piece] = whole - without[word]
    weight = np.array([0, 0.5, 0.5, 1, 0.5, 0.5, 1], np.float32)
    picture = Image.open(CAT).convert("RGB")

    def one(array):
        return torch.from_numpy(np.asarray(array, np.float32))[None]

    with torch.no_grad():
        seen = backbone.encode_images([picture])[0], backbone.encode_images(crops(picture, np.array(BOXES)))
        places = np.array(BOXES) / [451, 300, 451, 300]
        images = network.encode_images(*map(one, (*seen, places)), torch.ones(1, 3).bool())
        encoded, context = one(encode_pieces(backbone, pieces.ids)), WordContext(one(added), one(weight))
        read = network.encode_texts(one(whole), encoded, torch.ones(1, 7).bool(), context=context)
        found = network.pairs(images, read, [0], [0])
    scores = found.token_scores[0].tolist()
    expected = [0, scores[1] + scores[2], scores[3], scores[4] + scores[5], scores[6]]
    of_words = each(detail["words"], "score")
    assert scores[0] == 0 and np.ptp(of_words[1:]) > 0.01
    assert of_words == pytest.approx(expected, abs=1e-4) and sum(of_words) == pytest.approx(1, abs=1e-5)
    assert detail["null"] == pytest.approx(found.region_scores[0, 3].item(), abs=1e-4)


READ = [
    *(("A cat looks.", CAT, "en"), ("An astronaut in an orange suit smiles.", ROCKET, "en")),
    *(("and the", CAT, "en"), ("Ein Hund rennt.", ROCKET, "de"), ("Cats", CAT, "en"), ("?!", ROCKET, "en")),
    *(("Cats", CAT, "de"), ("A cat looks.", CAT, "en")),
    ("a red cat", CAT, "en"),  # whose last word ends with the caption
]


def test_rows_stand_for_themselves_and_are_the_diagonal_of_the_matrix(reader, monkeypatch):
    captions, photos, languages = zip(*READ, strict=True)
    together = reader.score(captions, photos, language=languages)
    for row, (caption, photo, language) in enumerate(READ):
        alone, words = reader.score([caption], [photo], language=language), together.details[row]["words"]
        assert together.scores[row] == pytest.approx(alone.scores[0], abs=1e-3)
        assert each(words, "score") == pytest.approx(each(alone.details[0]["words"], "score"), abs=1e-4)
        # semantic words have all of the score where there are any; "and the": all of it counts
        counted = [word["score"] for word in words if word["semantic"]] or each(words, "score")
        assert sum(counted) == pytest.approx(float(bool(words)), abs=1e-5) and all(counted)
    matrix, parts = reader.score_matrix(captions, photos, languages)
    np.testing.assert_allclose(matrix.diagonal(), together.scores, atol=1e-3)
    for name, values in together.components.items():
        np.testing.assert_allclose(parts[name].diagonal(), values, atol=1e-3)
    assert (matrix[0] == matrix[2]).all() and (matrix[:, 0] == matrix[:, 7]).all()
    for name, size in (("_BLOCK", 3), ("_PAIRS_ON_CPU", 2)):
        monkeypatch.setattr(infometic, name, size)
    some = [6, 3, 0]
    again, _ = reader.score_matrix([captions[n] for n in some], [ROCKET, CAT], [languages[n] for n in some])
    np.testing.assert_allclose(again, matrix[[1, 0]][:, some], atol=1e-3)
    with pytest.raises(InputError, match="no images"):
        reader.score_matrix(captions, [], languages)


def test_a_word_that_is_cut_off_adds_nothing(reader):
    # the 32nd piece is the first of "Rottweilers"
    caption = " ".join(["cat"] * 30 + ["red", "Rottweilers", "sleep"])
    with pytest.warns(TruncationWarning, match="1 of 1 rows have a caption of more than 32 pieces"):
        detail = reader.score([caption], [CAT], language="en").details[0]
    scores = each(detail["words"], "score")
    assert scores[31:] == [None, None] and sum(scores[:31]) == pytest.approx(1, abs=1e-5)


@pytest.mark.filterwarnings("ignore::capscore.errors.LanguageWarning")
def test_a_language_without_a_tagger_is_refused_where_words_are_read(reader, plain):
    with pytest.raises(InputError, match="row 0, language"):
        plain.score(["He ngeru"], [CAT], language="mi")
    rows = ["A cat looks.", "He ngeru"], [CAT], ["en", "mi"]
    matrix, _ = plain.score_matrix(*rows)
    with pytest.raises(InputError, match="'mi'") as caught:
        reader.score_matrix(*rows)
    assert matrix.shape == (1, 2) and np.isfinite(matrix).all() and caught.value.field == "language"


def test_weights_are_named(reader):
    scores = reader.score(["A cat."], [CAT], language="en")
    assert f"|weights:trained@w{reader.aligner.fingerprint()[:8]}|" in scores.signature


def test_settings_that_move_numbers_are_in_the_signature(backbone, embedded, plain):
    def signature(scorer):
        return scorer.score(["A cat."], [CAT], language="en").signature

    seeded = InfoMetICScorer(Embedder(backbone), weights="info_clip", regions=halves(), seed=3)
    assert "|n_regions:20|seed:3|" in signature(seeded)
    assert "|seed:" not in signature(plain) and "|words:" not in signature(plain)
    # a tagger where words decide the scores
    assert f"|words:{tagger_name('en')}|" in signature(scorer(embedded, regions=None))


BOX = [[0, 0, 3, 3]]
CAPTIONS = ["A tabby cat looks to the side.", "A dog.", "An astronaut stands by a flag.", "Of the."]
ROWS = [(caption, (CAT, ROCKET)[row % 2]) for caption in CAPTIONS for row in range(4)]  # each pair twice


def score(scorer, rows=ROWS):
    captions, photos = zip(*rows, strict=True)
    return scorer.score(captions, photos, language="en")


@pytest.fixture(scope="module")
def scored(embedded):
    return score(InfoMetICScorer(Embedder(embedded, progress=False)))


def flat(detail):
    numbers = [detail["p_fits"], detail["null"]]
    for word in detail["words"]:
        numbers += [word["score"], word["p_correct"] or 0.0, {None: 2}.get(word["correct"], word["correct"])]
    for region in detail["regions"]:
        numbers += [region["score"], region["p_mentioned"], *region["box"]]
    return numbers


def same(first, second):
    for one, other in zip(first.details, second.details, strict=True):
        assert flat(one) == pytest.approx(flat(other), abs=1e-5)
    for name in ("infometic_plus", "precision", "recall"):
        np.testing.assert_allclose(first.components[name], second.components[name], atol=1e-5)


def test_each_distinct_text_is_read_and_tagged_and_each_image_encoded_once(embedded, scored, monkeypatch):
    scorer = InfoMetICScorer(Embedder(embedded, progress=False))
    functions = {"encode_judged": type(embedded), "tag": word_classes, "encode_images": scorer.aligner}
    given = {}  # what each of them was given
    for name, owner in functions.items():
        watched = mock.create_autospec(getattr(owner, name), side_effect=getattr(owner, name))
        monkeypatch.setattr(owner, name, watched)
        given[name] = watched.call_args_list
    found = score(scorer)
    read = Counter(tuple(ids) for call in given["encode_judged"] for ids in call.args[1])
    tagged = Counter(text for call in given["tag"] for text in {*call.args[0]})
    assert {*read.values()} == {1} and tagged == Counter(CAPTIONS)
    assert [len(call.args[0]) for call in given["encode_images"]] == [2]
    # whole captions, and one without each of their words
    texts = [*CAPTIONS, "A cat looks to the side.", "A tabby looks to the side.", "An stands by a flag."]
    assert {tuple(ids) for ids in embedded.tokenize(texts).ids} <= read.keys()
    same(found, scored)
    # rows of one pair do not share their details
    first, again = found.details[0], found.details[2]
    assert ROWS[0] == ROWS[2] and first["words"][0] is not again["words"][0]
    assert first["regions"][0]["box"] is not again["regions"][0]["box"]


def test_small_blocks_and_another_order_change_nothing(embedded, scored, monkeypatch):
    for name, size in (("_AT_ONCE", 3), ("_PAIRS", 2), ("_IMAGES", 1)):
        monkeypatch.setattr(infometic, name, size)
    scorer = InfoMetICScorer(Embedder(embedded, progress=False))
    same(score(scorer), scored)
    backwards = score(scorer, ROWS[::-1])
    np.testing.assert_allclose(backwards.scores[::-1], scored.scores, atol=1e-5)
    for row in (0, 11):
        assert flat(backwards.details[15 - row]) == pytest.approx(flat(scored.details[row]), abs=1e-5)


def on_toy(cache=None):
    return InfoMetICScorer(Embedder(ColourBackbone(), cache=cache), weights="info_clip", regions=halves())


def of_dogs(scorer, photos, **more):
    return scorer.score(["a red dog"] * len(photos), photos, language="en", **more)


def test_a_photo_is_decoded_once_for_its_embedding_and_its_regions(tmp_path, monkeypatch):
    photos = [str(tmp_path / f"{number}.png") for number in range(6)]
    for number, path in enumerate(photos):
        Image.fromarray(noise(8, 12, seed=number)).save(path)
    decoded, real = [], embedding.load_image

    def watched(image, **options):
        decoded.extend([image] * isinstance(image, str))
        return real(image, **options)

    monkeypatch.setattr(embedding, "load_image", watched)
    scorer, rows = on_toy(), [*photos, photos[0], photos[3]]
    first = of_dogs(scorer, rows)
    assert sorted(decoded) == photos and scorer.finder.asked == 6
    decoded.clear()
    # nothing is decoded again while embeddings and regions are remembered
    assert of_dogs(scorer, rows).to_dict() == first.to_dict()
    assert (decoded, scorer.finder.asked) == ([], 6)
    # regions at given boxes need the pixels again, each photo's once
    of_dogs(scorer, rows, boxes=[BOX, None, BOX, None, None, None, [[1, 1, 5, 5]], None])
    assert sorted(decoded) == [photos[0], photos[2]]
    decoded.clear()
    cache = EmbeddingCache(tmp_path / "cache")
    on_disk = [of_dogs(on_toy(cache), photos).to_dict() for _ in range(2)]
    assert sorted(decoded) == sorted(photos * 2) and on_disk[0] == on_disk[1]
    decoded.clear()
    matrix, _ = on_toy().score_matrix(["red", "blue dog"], [photos[1], photos[0], photos[1]], "en")
    assert sorted(decoded) == photos[:2] and matrix[0].tolist() == matrix[2].tolist()


SHOWN = (
    ("chelsea", "A tabby cat looks to the side.", "en"),
    ("coffee", "A cup of coffee stands on a wooden table.", "en"),
    ("chelsea", "Two men play football on a green field.", "en"),
    *(("coffee", "Un tren rojo en la nieve.", "es"), ("chelsea", "Eine Katze blickt zur Seite.", "de")),
)


@pytest.fixture(scope="module")
def pictures():
    return {name: getattr(data, name)() for name in ("chelsea", "coffee")}


@pytest.fixture(scope="module")
def learned(embedded):
    return InfoMetICScorer(Embedder(embedded, progress=False))


@pytest.fixture(scope="module")
def judged(learned, pictures):
    names, captions, languages = zip(*SHOWN, strict=True)
    return learned.score(captions, [pictures[name] for name in names], language=languages)


def marked(scores) -> list[str]:
    return [word["text"] for detail in scores.details for word in detail["words"] if word["correct"] is False]


def test_captions_that_fit_are_recognised_and_no_right_word_is_marked(judged, pictures):
    assert [detail["fits"] for detail in judged.details] == [True, True, False, False, True]
    assert marked(judged) == []
    for (photo, *_), detail in zip(SHOWN, judged.details, strict=True):
        assert 0 <= detail["p_fits"] <= 1
        for word in detail["words"]:
            assert word["semantic"] or word["p_correct"] is word["correct"] is None
            assert word["p_correct"] is None or 0 <= word["p_correct"] <= 1
            assert word["region"] is None or 0 <= word["region"] < len(detail["regions"])
        for region in detail["regions"]:
            left, top, right, bottom = region["box"]
            height, width = pictures[photo].shape[:2]
            assert 0 <= left < right <= width and 0 <= top < bottom <= height
        if not detail["fits"]:
            assert {word["correct"] for word in detail["words"]} == {None}
            assert not any(region["mentioned"] for region in detail["regions"])


def test_a_planted_noun_is_marked_and_more_at_a_higher_rate(learned, pictures):
    caption, found = ["A tabby cat sits on a train."], []
    for rate in (0.01, 0.05, 0.5):
        marker = InfoMetICScorer(learned.embedder, false_alarms=rate)
        found.append(marked(marker.score(caption, [pictures["chelsea"]], None, "en")))
    assert found[1] == ["train"] and len(found[0]) <= 1 <= len(found[2])


def test_files_have_the_words_and_captions_that_do_not_fit(judged, learned, pictures, tmp_path):
    for name, photo in pictures.items():
        Image.fromarray(photo).save(tmp_path / f"{name}.png")
    rows = [{"image": f"{name}.png", "caption": text, "language": code} for name, text, code in SHOWN]
    rows.append({"image": "chelsea.png", "caption": "A dog looks to the side.", "language": "en"})
    found = capscore.score_file(rows, learned, images=tmp_path, output=tmp_path / "o.jsonl")
    lines = read_jsonl(tmp_path / "o.jsonl")
    details = [detail["p_fits"] for detail in judged.details]
    assert [line["p_fits"] for line in lines[:5]] == pytest.approx(details, abs=1e-6)
    words = ["", "", "men, play, football, field", "tren, nieve", "", "dog, side"]
    assert [line["likely_wrong"] for line in lines] == words
    assert lines[0]["missed"] == "" and [*found.to_pandas()["missed"]] == [line["missed"] for line in lines]
    assert {2, 3} <= {*found.likely_wrong()} and not {0, 1, 4} & {*found.likely_wrong()}
    reasons = reasons_to_check(found)
    assert reasons[3] | {"rank": ""} == {"rank": "", "fit": "does not fit the photo", "words": "tren, nieve"}
    assert reasons[5]["words"] == "dog, side"
    (streamed, *_) = capscore.score_stream(rows, learned, images=tmp_path)
    assert streamed["likely_wrong"] == "" and streamed["p_fits"] == pytest.approx(details[0])


def test_regions_have_names_in_the_language_of_the_caption(judged, learned):
    english = [region["name"] for region in judged.details[0]["regions"]]
    german = [region["name"] for region in judged.details[4]["regions"] if region["name"]]
    nouns = learned.mark_calibration.nouns
    assert "cat" in english or "kitten" in english
    assert set(english) - {""} <= set(nouns["en"])
    assert german and all(name[0].isupper() and name.lower() in nouns["de"] for name in german)


def test_marks_as_published_and_what_the_signature_names(judged, learned, pictures):
    assert f"|marks:learned@{learned.mark_calibration.name}|false_alarms:0.05|" in judged.signature
    published = InfoMetICScorer(learned.embedder, marks="published", regions="windows")
    scores = published.score([SHOWN[0][1]], [pictures["chelsea"]], language="en")
    assert "|marks:published|beta:0.1|" in scores.signature and "false_alarms" not in scores.signature
    (detail,) = scores.details
    assert detail["fits"] is None and detail["p_fits"] is None
    for word in detail["words"]:
        assert word["p_correct"] is None
        assert word["correct"] == (word["score"] > published.beta if word["semantic"] else None)
    assert {region["p_mentioned"] for region in detail["regions"]} == {None}


def test_missing_marks_are_named(learned, embedded_free, tmp_path):
    embedder = Embedder(embedded_free, progress=False)
    assert InfoMetICScorer(embedder).mark_calibration is None
    for options, named in (({"marks": "learned"}, "'embedded-free'"), ({"regions": "things"}, "'things'")):
        with pytest.raises(CapscoreError, match=f"{named}.*mark calibration|mark calibration.*{named}"):
            InfoMetICScorer(embedder, **options)
    with pytest.raises(BackboneUnavailable):
        InfoMetICScorer(learned.embedder, marks=tmp_path)
    loaded = capscore.load("infometic", backbone=learned.backbone, marks="published", false_alarms=0.1)
    assert loaded.mark_calibration is None and loaded.false_alarms == 0.1
