"""InfoMetIC as a scorer: what it says of words and regions, computed by hand where that is possible."""

from __future__ import annotations

import json
import warnings
from importlib.resources import files

import numpy as np
import pytest
import torch
from PIL import Image

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError, RegionWarning, TruncationWarning
from capscore.images.boxes import crops
from capscore.infometic.alignment import InfoCLIP
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from capscore.infometic.regions import RegionFinder, Regions
from capscore.infometic.words import encode_pieces, split_pieces
from capscore.metrics.infometic import InfoMetIC as InfoMetICScorer
from capscore.text.word_classes import tagger_name

# scikit-image ships them: 451 × 300 pixels, and 512 × 512
CAT = str(files("skimage.data") / "chelsea.png")
ROCKET = str(files("skimage.data") / "astronaut.png")
BOXES = [[0, 0, 225, 300], [225, 0, 451, 300], [100, 50, 300, 200]]


class NoFinder(RegionFinder):
    """A detector that finds nothing."""

    name, fingerprint, most = "nothing", "nothing", 5

    def __init__(self):
        self.asked = 0

    def find(self, images):
        self.asked += len(images)
        return [Regions(np.zeros((0, 4)), np.zeros(0), ()) for _ in images]


class Halves(NoFinder):
    """Finds the left and the right half of every photo."""

    name = fingerprint = "halves"

    def find(self, images):
        self.asked += len(images)
        found = []
        for image in images:
            width, height = image.size
            boxes = np.array([[0, 0, width / 2, height], [width / 2, 0, width, height]])
            found.append(Regions(boxes, np.array([0.75, 0.5]), ("left", "right")))
        return found


@pytest.fixture(scope="module")
def backbone():
    return capscore.load_backbone("embedded-free", device="cpu")


def scorer(backbone, **options):
    return capscore.load(
        "infometic", backbone=backbone, cache=False, progress=False, **{"regions": Halves(), **options}
    )


@pytest.fixture(scope="module")
def plain(backbone):
    return scorer(backbone, weights="info_clip")


def softmax(products):
    powers = np.exp(products - products.max())
    return powers / powers.sum()


def unit(row):
    return row / np.linalg.norm(row)


def test_scores_are_those_of_appendix_d_by_hand(plain, backbone):
    caption = "A tabby cat looks up."
    scores = plain.score([caption], [CAT], language="en", boxes=[BOXES])
    picture = Image.open(CAT).convert("RGB")
    photo = backbone.encode_images([picture])[0].astype(float)
    text = backbone.encode_texts([caption])[0].astype(float)
    regions = np.vstack([backbone.encode_images(crops(picture, np.array(BOXES))), np.zeros((1, 512))])
    pieces = split_pieces(backbone, [caption])[0]
    tokens = encode_pieces(backbone, pieces.ids).astype(float)
    region_scores, token_scores = softmax(100 * regions @ text), softmax(100 * tokens @ photo)
    recall = 100 * unit(region_scores @ regions) @ photo
    precision = 100 * unit(token_scores @ tokens) @ text
    assert scores.components["recall"][0] == pytest.approx(recall, abs=1e-2)
    assert scores.components["precision"][0] == pytest.approx(precision, abs=1e-2)
    assert scores.scores[0] == pytest.approx(recall + precision, abs=2e-2)
    assert scores.components["infometic_plus"][0] == pytest.approx(
        recall + precision + 100 * photo @ text, abs=3e-2
    )
    detail = scores.details[0]
    np.testing.assert_allclose(
        [*(region["score"] for region in detail["regions"]), detail["null"]], region_scores, atol=1e-4
    )
    by_word = {}
    for start, end, score in zip(pieces.starts, pieces.ends, token_scores, strict=True):
        for word in detail["words"]:
            if word["start"] <= start and end <= word["end"] and start < end:
                by_word[word["text"]] = by_word.get(word["text"], 0) + score
    for word in detail["words"]:
        assert word["score"] == pytest.approx(by_word[word["text"]], abs=1e-4)


def test_words_and_regions_are_judged_by_beta(backbone):
    for beta in (0.0, 0.3, 0.9):
        judged = scorer(backbone, weights="info_clip", beta=beta)
        detail = judged.score(["Two cats sleep."], [CAT], language="en").details[0]
        for word in detail["words"]:
            assert word["correct"] is (word["score"] > beta if word["semantic"] else None)
        assert [word["text"] for word in detail["words"] if word["semantic"]] == ["Two", "cats", "sleep"]
        for region in detail["regions"]:
            assert region["mentioned"] is (region["score"] > beta)


def test_what_it_says_is_ready_for_json(plain):
    scores = plain.score(["A cat."], [CAT], language="en")
    said = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert said["infometic"] == pytest.approx(said["recall"][0] + said["precision"][0])
    assert [word["text"] for word in said["words"][0]] == ["A", "cat"]
    assert [region["label"] for region in said["regions"][0]] == ["left", "right"]
    assert [region["box"] for region in said["regions"][0]] == [[0, 0, 225.5, 300], [225.5, 0, 451, 300]]
    assert said["image_size"] == [[451, 300]]
    assert said["n_words_cut"] == [0]
    assert sum(region["score"] for region in said["regions"][0]) + said["null"][0] == pytest.approx(1)
    assert (
        "|weights:info_clip|regions:halves@halves|n_regions:20|marks:published|beta:0.1|plus:100|"
        in said["signature"]
    )


def test_order_duplicates_and_company_do_not_matter(plain):
    captions = ["A cat looks.", "An astronaut in an orange suit smiles.", "Two dogs", "A cat looks."]
    photos = [CAT, ROCKET, CAT, CAT]
    together = plain.score(captions, photos, language="en")
    for row in range(4):
        alone = plain.score([captions[row]], [photos[row]], language="en")
        assert together.scores[row] == pytest.approx(alone.scores[0], abs=1e-3)
        for one, other in zip(together.details[row]["words"], alone.details[0]["words"], strict=True):
            assert one["score"] == pytest.approx(other["score"], abs=1e-4)
    backwards = plain.score(captions[::-1], photos[::-1], language="en")
    np.testing.assert_allclose(backwards.scores[::-1], together.scores, atol=1e-3)


def test_regions_of_an_image_are_looked_for_once(backbone):
    finder = Halves()
    once = scorer(backbone, weights="info_clip", regions=finder)
    once.score(["A cat.", "A dog.", "A cat."], [CAT, CAT, ROCKET], language="en")
    once.score(["A red cat."], [CAT], language="en")
    assert finder.asked == 2


def test_given_boxes_and_found_ones_in_one_call(plain):
    scores = plain.score(["A cat.", "A cat."], [CAT, CAT], language="en", boxes=[BOXES[:1], None])
    assert [len(detail["regions"]) for detail in scores.details] == [1, 2]
    assert scores.details[0]["regions"][0]["confidence"] == 1.0
    assert "|regions:halves@halves+given|" in scores.signature
    alone = plain.score(["A cat."], [CAT], language="en", boxes=[BOXES])
    assert "|regions:given|" in alone.signature


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ([300, 0, 100, 200], "row 1, boxes: box 0 is [300, 0, 100, 200]: expected left below"),
        ([500, 0, 600, 100], "row 1, boxes: box 0 is [500, 0, 600, 100]: it lies outside the photo"),
        ([0, 0, float("nan"), 9], "row 1, boxes: box 0"),
    ],
)
def test_a_bad_box_is_named(plain, box, said):
    rows = dict(candidates=["A cat."] * 2, images=[CAT] * 2, language="en", boxes=[None, [box]])
    with pytest.raises(InputError) as caught:
        plain.score(**rows)
    assert str(caught.value).startswith(said)
    skipped = plain.score(**rows, on_error="skip")
    assert list(skipped.failures) == [1]
    assert skipped.details[1] is None
    assert skipped.to_dict()["words"][1] is None
    assert np.isfinite(skipped.scores[0])


def test_as_many_lists_of_boxes_as_rows(plain):
    with pytest.raises(InputError, match="boxes: got 1; expected 2, one per candidate"):
        plain.score(["A cat.", "A dog."], [CAT, CAT], language="en", boxes=[BOXES])


def test_no_region_is_a_warning_and_no_nan(backbone):
    blind = scorer(backbone, weights="info_clip", regions=NoFinder())
    with pytest.warns(RegionWarning, match="1 of 1 rows have an image in which no region was found"):
        scores = blind.score(["A cat."], [CAT], language="en")
    assert scores.components["recall"].tolist() == [0.0]
    assert scores.details[0]["regions"] == [] and scores.details[0]["null"] == 1.0


def test_a_caption_without_a_word_that_counts(plain):
    detail = plain.score(["It is there, and so."], [CAT], language="en").details[0]
    assert detail["words"] and not any(word["semantic"] for word in detail["words"][:1])
    marks = plain.score(["?!"], [CAT], language="en")
    assert marks.details[0]["words"] == []
    assert np.isfinite(marks.scores).all()


def test_a_photo_of_one_pixel(backbone):
    windows = scorer(backbone, weights="info_clip", regions="windows")
    scores = windows.score(["A cat."], [Image.new("RGB", (1, 1), "red")], language="en")
    assert np.isfinite(scores.scores).all()
    assert scores.details[0]["regions"][0]["box"] == [0, 0, 1, 1]


def test_words_beyond_the_limit_are_said_and_counted(plain):
    with pytest.warns(TruncationWarning, match="1 of 2 rows have a caption of more than 32 pieces"):
        scores = plain.score(["A cat.", " ".join(["cat"] * 40)], [CAT, CAT], language="en")
    detail = scores.details[1]
    assert detail["n_words_cut"] == 8
    assert [word["score"] is None for word in detail["words"]] == [False] * 32 + [True] * 8
    assert detail["words"][-1]["correct"] is None
    assert scores.n_truncated == 1


def test_weights_are_used_and_named(backbone, tmp_path):
    import torch

    torch.manual_seed(0)
    config = InfoMetICConfig(width=16, heads=2, intra_layers=1, inter_layers=1).on(backbone)
    model = InfoMetIC(config)
    model.save_pretrained(tmp_path / "own")
    loaded = scorer(backbone, weights=tmp_path / "own")
    scores = loaded.score(["A cat."], [CAT], language="en")
    assert f"|weights:own@{loaded.aligner.revision}|" in scores.signature
    assert scores.scores[0] != pytest.approx(
        scorer(backbone, weights="info_clip").score(["A cat."], [CAT]).scores[0]
    )
    again = scorer(backbone, weights=model.eval()).score(["A cat."], [CAT], language="en")
    assert again.scores[0] == pytest.approx(scores.scores[0], abs=1e-4)


# Weights that read what words add


@pytest.fixture(scope="module")
def network(backbone):
    """Weights of a formula; the words' part has more to say than in a new network."""
    import torch

    torch.manual_seed(0)
    sizes = dict(width=16, heads=2, intra_layers=1, inter_layers=1, context_width=8, sharpness=0.9)
    model = InfoMetIC(InfoMetICConfig(**sizes).on(backbone)).eval()
    with torch.no_grad():
        model.word_query.weight *= 4
        model.word_out.weight *= 3
    return model


@pytest.fixture(scope="module")
def reader(backbone, network):
    return scorer(backbone, weights=network)


def test_what_words_add_reaches_the_network(reader, backbone, network):
    """Once more, a caption alone: its words, their pieces and the captions without them are written out."""
    import torch

    from capscore.infometic.alignment import WordContext

    caption = "A tabby cat looks up."
    detail = reader.score([caption], [CAT], language="en", boxes=[BOXES]).details[0]
    assert [word["text"] for word in detail["words"] if word["semantic"]] == ["tabby", "cat", "looks", "up"]
    whole, *without = backbone.encode_texts(
        [caption, "A cat looks up.", "A tabby looks up.", "A tabby cat up.", "A tabby cat looks ."]
    )
    pieces = split_pieces(backbone, [caption])[0]
    assert [caption[a:b] for a, b in zip(pieces.starts, pieces.ends, strict=True)] == [
        "A", "tab", "by", "cat", "look", "s", "up", ".",
    ]  # fmt: skip
    added = np.zeros((8, 512), np.float32)
    for piece, word in ((1, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3)):
        added[piece] = whole - without[word]
    weight = np.array([0, 0.5, 0.5, 1, 0.5, 0.5, 1, 0], np.float32)
    picture = Image.open(CAT).convert("RGB")
    shares = np.array(BOXES) / [451, 300, 451, 300]

    def one(array):
        return torch.from_numpy(np.asarray(array, np.float32))[None]

    with torch.no_grad():
        found = network.pairs(
            network.encode_images(
                one(backbone.encode_images([picture])[0]),
                one(backbone.encode_images(crops(picture, np.array(BOXES)))),
                one(shares),
                torch.ones(1, 3).bool(),
            ),
            network.encode_texts(
                one(whole),
                one(encode_pieces(backbone, pieces.ids)),
                torch.ones(1, 8).bool(),
                context=WordContext(one(added), one(weight)),
            ),
            [0],
            [0],
        )
    scores = found.token_scores[0].tolist()
    assert scores[0] == scores[7] == 0
    said = [word["score"] for word in detail["words"]]
    expected = [0, scores[1] + scores[2], scores[3], scores[4] + scores[5], scores[6]]
    assert said == pytest.approx(expected, abs=1e-4)
    assert sum(said) == pytest.approx(1, abs=1e-5)
    assert np.ptp(said[1:]) > 0.01
    assert detail["null"] == pytest.approx(found.region_scores[0, 3].item(), abs=1e-4)


READ = [
    ("A cat looks.", CAT, "en"),
    ("An astronaut in an orange suit smiles.", ROCKET, "en"),
    ("and the", CAT, "en"),
    ("Ein Hund rennt.", ROCKET, "de"),
    ("Cats", CAT, "en"),
    ("?!", ROCKET, "en"),
    ("Cats", CAT, "de"),
    ("A cat looks.", CAT, "en"),
]


@pytest.fixture(scope="module")
def together(reader):
    captions, photos, languages = zip(*READ, strict=True)
    return reader.score(captions, photos, language=languages)


def test_the_matrix_of_weights_that_read_words_has_the_rows_on_its_diagonal(reader, together):
    captions, photos, languages = zip(*READ, strict=True)
    matrix, parts = reader.score_matrix(captions, photos, languages)
    assert matrix.shape == (8, 8)
    np.testing.assert_allclose(matrix.diagonal(), together.scores, atol=1e-3)
    for name, values in together.components.items():
        np.testing.assert_allclose(parts[name].diagonal(), values, atol=1e-3)
    # equal images and equal captions of one language have equal scores
    assert (matrix[0] == matrix[2]).all() and (matrix[:, 0] == matrix[:, 7]).all()
    # another caption beside it, another order: nothing
    some = [6, 3, 0]
    again, _ = reader.score_matrix([captions[n] for n in some], [ROCKET, CAT], [languages[n] for n in some])
    np.testing.assert_allclose(again, matrix[[1, 0]][:, some], atol=1e-3)


def test_rows_of_weights_that_read_words_stand_for_themselves(reader, together):
    for row, (caption, photo, language) in enumerate(READ):
        alone = reader.score([caption], [photo], language=language)
        assert together.scores[row] == pytest.approx(alone.scores[0], abs=1e-3)
        words, expected = together.details[row]["words"], alone.details[0]["words"]
        assert [word["text"] for word in words] == [word["text"] for word in expected]
        assert [word["score"] for word in words] == pytest.approx(
            [word["score"] for word in expected], abs=1e-4
        )
    assert together.scores[0] == pytest.approx(together.scores[7], abs=1e-4)


def test_semantic_words_have_all_of_the_score_where_there_are_any(together):
    for row, (caption, _, _) in enumerate(READ):
        words = together.details[row]["words"]
        of_words = [word["score"] for word in words if word["semantic"]]
        others = [word["score"] for word in words if not word["semantic"]]
        assert np.isfinite(together.scores[row])
        if of_words:
            assert sum(of_words) == pytest.approx(1, abs=1e-5) and not any(others), caption
        elif words:  # "and the": all of it counts, since nothing else does
            assert sum(others) == pytest.approx(1, abs=1e-5) and all(others), caption
    assert together.details[5]["words"] == []
    assert together.details[4]["words"][0]["score"] == pytest.approx(1)  # a caption of one word


def test_a_word_at_the_very_end_counts(reader, backbone):
    caption = "a red cat"
    words, pieces = reader._words([caption], ["en"]), split_pieces(backbone, [caption])
    ((added, weight),) = reader.contexts([caption], words, pieces)
    assert weight.tolist() == [0, 1, 1]
    whole, without = backbone.encode_texts([caption, "a red"])
    np.testing.assert_allclose(added[2], whole - without, atol=1e-6)


@pytest.mark.parametrize("caption", ["a red cat", "a red cat.", "a red cat ", "cat", "a red cat and"])
def test_the_last_word_is_scored_with_and_without_a_full_stop(reader, caption):
    words = reader.score([caption], [CAT], language="en").details[0]["words"]
    (cat,) = (word for word in words if word["text"] == "cat")
    assert caption[cat["start"] : cat["end"]] == "cat" and cat["semantic"]
    assert cat["score"] > 0 and cat["correct"] is (cat["score"] > reader.beta)
    assert sum(word["score"] for word in words) == pytest.approx(1, abs=1e-5)


def test_a_word_that_is_cut_off_adds_nothing(reader, backbone):
    # the 32nd piece is the first of "Rottweilers"
    caption = " ".join(["cat"] * 30 + ["red", "Rottweilers", "sleep"])
    with pytest.warns(TruncationWarning, match="1 of 1 rows have a caption of more than 32 pieces"):
        detail = reader.score([caption], [CAT], language="en").details[0]
    scores = [word["score"] for word in detail["words"]]
    assert scores[31:] == [None, None] and sum(scores[:31]) == pytest.approx(1, abs=1e-5)
    pieces = split_pieces(backbone, [caption])
    words = reader._words([caption], ["en"])
    ((added, weight),) = reader.contexts([caption], words, pieces)
    assert weight.tolist() == [1.0] * 31 + [0.0] and not added[31].any()
    whole, without = backbone.encode_texts([caption, caption.replace("red ", "")])
    np.testing.assert_allclose(added[30], whole - without, atol=1e-6)
    with pytest.warns(TruncationWarning):
        matrix, _ = reader.score_matrix([caption], [CAT], "en")
    assert np.isfinite(matrix).all()


def test_a_language_without_words_in_the_matrix(reader, plain):
    captions = ["A cat looks.", "He ngeru"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix, _ = plain.score_matrix(captions, [CAT], ["en", "mi"])
        with pytest.raises(InputError, match="'mi'") as caught:
            reader.score_matrix(captions, [CAT], ["en", "mi"])
    assert matrix.shape == (1, 2) and np.isfinite(matrix).all()
    assert caught.value.field == "language"


def signature_of(backbone, **options):
    scores = InfoMetICScorer(Embedder(backbone, cache=None, progress=False), **options)
    return scores, lambda **rows: scores.score(["A cat."], [CAT], language="en", **rows).signature


def test_given_boxes_reach_the_signature(backbone):
    _, signature = signature_of(backbone, weights="info_clip")
    assert "|regions:given|" in signature(boxes=[BOXES])


def test_weights_for_another_backbone(backbone, tmp_path):
    other = InfoMetICConfig(width=16, heads=2, backbone="elsewhere", backbone_revision="w1")
    InfoMetIC(other).save_pretrained(tmp_path)
    with pytest.raises(CapscoreError, match="made for elsewhere @ w1, not for embedded"):
        scorer(backbone, weights=tmp_path)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"beta": 1.0}, "beta=1.0"),
        ({"beta": "high"}, "beta='high'"),
        ({"n_regions": 0}, "n_regions=0"),
        ({"regions": "window"}, "regions='window'"),
    ],
)
def test_bad_settings(backbone, option, said):
    with pytest.raises(InputError, match=said):
        scorer(backbone, **option)


def test_a_language_without_word_classes(plain):
    with pytest.raises(InputError, match="row 0, language"):
        plain.score(["He ngeru"], [CAT], language="mi")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skipped = plain.score(["He ngeru", "a cat"], [CAT] * 2, language=["mi", "en"], on_error="skip")
    assert list(skipped.failures) == [0]


# One signature, one number


def test_an_unsaved_network_is_named_by_its_weights(backbone):
    def network(seed, **changes):
        torch.manual_seed(seed)
        sizes = {"width": 16, "heads": 2, "intra_layers": 1, "inter_layers": 1}
        return InfoMetIC(InfoMetICConfig(dim=512, **{**sizes, **changes}))

    names = [
        scorer(backbone, weights=own).weights
        for own in (network(0), network(0), network(1), network(0, sharpness=2.0))
    ]
    assert names[0] == names[1] and len(set(names)) == 3
    assert all(name.startswith("unsaved@w") for name in names)


def test_a_network_that_was_trained_since_it_was_loaded_has_another_name(backbone, tmp_path):
    torch.manual_seed(0)
    InfoMetIC(InfoMetICConfig(dim=512, width=16, heads=2, intra_layers=1)).save_pretrained(tmp_path / "own")
    loaded = InfoMetIC.from_pretrained(tmp_path / "own")
    before = scorer(backbone, weights=loaded).weights
    assert before == scorer(backbone, weights=tmp_path / "own").weights
    with torch.no_grad():
        loaded.log_scale += 0.1
    after = scorer(backbone, weights=loaded).weights
    assert after != before and after.startswith("own@w")


def test_other_settings_of_info_clip_are_in_its_name(backbone):
    assert scorer(backbone, weights=InfoCLIP()).weights == "info_clip"
    assert scorer(backbone, weights=InfoCLIP(sharpness=5.0)).weights == "info_clip(sharpness=5)"
    both = scorer(backbone, weights=InfoCLIP(sharpness=5.0, scale=2.0))
    assert "|weights:info_clip(sharpness=5,scale=2)|" in both.score(["A cat."], [CAT]).signature


def test_the_seed_of_the_clusters_is_in_the_signature(backbone):
    assert "|seed:" not in scorer(backbone, weights="info_clip").score(["A cat."], [CAT]).signature
    embedder = Embedder(backbone, progress=False)
    seeded = InfoMetICScorer(embedder, weights="info_clip", regions=Halves(), seed=3).score(["A cat."], [CAT])
    assert "|n_regions:20|seed:3|" in seeded.signature


def test_a_tagger_is_in_the_signature_where_words_decide_the_scores(backbone, embedded):
    captions, languages = ["A cat.", "Eine Katze."], ["en", "de"]
    shipped = scorer(embedded).score(captions, [CAT] * 2, language=languages)
    assert f"|words:{tagger_name('en')}|" in shipped.signature  # HanTa for both
    plain = scorer(backbone, weights="info_clip").score(captions, [CAT] * 2, language=languages)
    assert "|words:" not in plain.signature


# Limits


def test_a_long_word_is_scored(plain):
    with pytest.warns(TruncationWarning):
        scores = plain.score(["A cat", "A " + "c" * 1000], [CAT, CAT], language="en")
    assert np.isfinite(scores.scores).all()
    assert len(scores.details[1]["words"]) == 2


def test_a_caption_that_no_tagger_reads_fails_alone(plain):
    captions = ["A cat", "cats " * 250_000, "A cat"]
    with pytest.raises(InputError, match=r"row 1, candidate: a text of 1,250,000 characters: word classes"):
        plain.score(captions, [CAT] * 3, language="en")
    scores = plain.score(captions, [CAT] * 3, language="en", on_error="skip")
    assert list(scores.failures) == [1] and "at most 5,000 characters" in scores.failures[1]
    assert np.isnan(scores.scores[1]) and np.isfinite(scores.scores[[0, 2]]).all()


def nested(depth):
    boxes = []
    for _ in range(depth):
        boxes = [boxes]
    return boxes


@pytest.mark.parametrize(
    "boxes, message",
    [
        (nested(100_000), r"row 0, boxes: box 0 is \[\[\[.*expected four finite numbers"),
        ("a" * 100_000, "row 0, boxes: expected a list of boxes .*'aaa.*aaa'"),
        ([{"a": 1}], "box 0 is {'a': 1}: expected four"),
        ([[0, 0, 10**400, 5]], r"box 0 is \[0, 0, 1000.*0000, 5\]: expected four"),
        ([[0, 0, np.nan, 5]], r"box 0 is \[0, 0, nan, 5\]: expected four"),
        (np.zeros((2, 3)), r"box 0 is \[0\.0, 0\.0, 0\.0\]: expected four"),
        ({"boxes": BOXES}, "expected a list of boxes"),
        (BOXES * 400, "1,200 boxes for one photo; expected at most 1,000"),
    ],
)
def test_boxes_that_are_none(plain, boxes, message):
    with pytest.raises(InputError, match=message) as caught:
        plain.score(["A cat"], [CAT], language="en", boxes=[boxes])
    assert len(str(caught.value)) < 300
    scores = plain.score(["A cat", "A cat"], [CAT, CAT], language="en", boxes=[boxes, None], on_error="skip")
    assert list(scores.failures) == [0] and np.isfinite(scores.scores[1])


def test_arrays_that_differ_in_the_tenth_digit_are_two_boxes(plain):
    boxes = [[np.array([0.0, 0.0, 100.0 + shift, 200.0])] for shift in (1e-9, 2e-9)]
    scores = plain.score(["A cat"] * 2, [CAT] * 2, language="en", boxes=boxes)
    found = [detail["regions"][0]["box"][2] for detail in scores.details]
    assert found == [100.0 + 1e-9, 100.0 + 2e-9]


def test_a_photo_is_decoded_once(backbone, monkeypatch):
    from capscore.embedding import embedder

    decoded = []
    real = embedder.load_image

    def load(image, **options):
        decoded.append(image)
        return real(image, **options)

    monkeypatch.setattr(embedder, "load_image", load)
    scorer(backbone).score(["A cat", "Two cats"], [CAT, CAT], language="en")
    assert [image for image in decoded if not isinstance(image, Image.Image)] == [CAT]
