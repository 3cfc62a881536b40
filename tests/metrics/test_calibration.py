"""Percentiles of right captions and of captions of other photos: what is measured, and when it applies."""

import json
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.files.text_files import json_document
from capscore.metrics import calibration, load
from capscore.metrics.calibration import PERCENTS, Calibration, Distribution, placed, standings
from capscore.metrics.cider import CIDEr
from capscore.metrics.mcs import MCS
from capscore.metrics.rouge_l import ROUGEL
from capscore.metrics.rows import parse_signature
from capscore.metrics.scores import Scores
from capscore.metrics.text_score import TextScore
from capscore.scoring import calibrating
from capscore.scoring.calibrating import CaptionedPhoto, calibrate_metric, other_captions, with_references
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone

from ..photos import noise

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

# what `make calibrate` measures: metric, backbone, number of references
SHIPPED = [
    *(("mcs", "embedded", 0), ("clip_score", "embedded", 0), ("pr_mcs", "embedded-pr-mcs", 0)),
    *((metric, "embedded", n) for metric in ("ref_clip_score", "text_score") for n in (1, 2, 3, 4)),
    *(("infometic", "embedded", 0), ("fit", "embedded", 0)),
]
HALF = 2.5 / math.sqrt(2)  # one colour against two


def captioned(*columns):
    return [CaptionedPhoto(*row) for row in zip(*columns, strict=True)]


def standing(scores, path=None):
    return standings({"mcs": scores}, {"mcs": placed(scores, path)}, path).get("mcs")


@pytest.fixture(autouse=True)
def two_photos_are_enough(monkeypatch):
    monkeypatch.setattr(calibrating, "MIN_PHOTOS", 2)


@pytest.fixture
def scorer():
    return MCS(Embedder(ColourBackbone()))


@pytest.fixture
def rows():
    """Three photos, of which one has two captions, in two languages; a caption twice, and a language with one
    photo, which the toy does not know."""
    images = {name: Image.fromarray(pixels) for name, pixels in (("r", RED), ("g", GREEN), ("b", BLUE))}
    given = [("r", "red"), ("r", "red green"), ("g", "green"), ("b", "blue")]
    listed = [(*one, language) for language in ("de", "en") for one in given]
    listed += [("r", "red", "en"), ("r", "rouge", "fr"), ("g", "vert", "fr")]
    return [CaptionedPhoto(photo, images[photo], text, language) for photo, text, language in listed]


@pytest.fixture
def file(scorer, rows, tmp_path):
    entry = calibrate_metric(scorer, rows, shuffled=9)
    found = calibrating.document([entry], rows, name="three colours", made="2026-01-31", shuffled=9, seed=0)
    (tmp_path / "colours.json").write_text(json.dumps(found))
    return tmp_path / "colours.json"


def test_percentiles_are_those_of_right_and_of_other_captions(scorer, rows):
    found = calibrate_metric(scorer, rows, shuffled=9)
    assert set(found["languages"]) == {"all", "de", "en"}  # each caption of a photo counts once
    # of other photos: red: green, blue (twice); green: red, red green, blue; blue: red, red green, green
    expected = {"right": [2.5, HALF, 2.5, 2.5], "shuffled": [0.0] * 9 + [HALF]}
    for kind, scores in expected.items():
        english = found["languages"]["en"][kind]
        percentiles = np.percentile(scores, PERCENTS).round(4).tolist()
        assert english["n"] == len(scores) and english["values"] == pytest.approx(percentiles, abs=1e-4)
    assert found["languages"]["all"]["right"]["n"] == 8
    assert found["backbone"] == {"name": "colours", "fingerprint": "colours-1"}


def test_other_captions_are_drawn_alike_from_other_photos_in_the_same_language(rows):
    drawn = other_captions(rows, 2, seed=5)
    for a, b in zip(*drawn, strict=True):
        assert rows[a].photo != rows[b].photo and rows[a].language == rows[b].language
    assert len({*zip(*drawn, strict=True)}) == len(drawn[0])
    assert other_captions(rows, 2, seed=5) == drawn != other_captions(rows, 2, seed=6)
    pairs = captioned(list("aabb"), [None] * 4, list("1234"), ["en"] * 4)
    counts = np.zeros((4, 4))
    for seed in range(200):
        np.add.at(counts, other_captions(pairs, 1, seed), 1)
    # 100 of 200 each, with a standard deviation of 7
    assert np.abs(counts - 100 * (np.arange(4)[:, None] // 2 != np.arange(4) // 2)).max() < 40


def test_a_metric_that_compares_texts_is_given_references():
    rows = captioned(list("aaab"), [None] * 4, ["one", "two", "three", "four"], ["en"] * 4)
    found = [[row.references for row in with_references(rows, number)] for number in (None, 1, 3)]
    assert found == [[["two", "three"], ["one", "three"], ["one", "two"]], [["two"], ["one"], ["one"]], []]
    colours = ["red", "red green", "green", "green blue", "blue", "blue red"]
    rows = captioned(list("rrggbb"), [None] * 6, colours, ["en"] * 6)
    scored = calibrate_metric(TextScore(Embedder(ColourBackbone())), rows, shuffled=99)
    assert parse_signature(scored["signature"])[1]["refs"] == "1"
    right = scored["languages"]["en"]["right"]
    assert right["n"] == 6 and right["values"] == pytest.approx([round(1 / math.sqrt(2), 4)] * len(PERCENTS))
    assert scored["languages"]["en"]["shuffled"]["n"] == 6 * 4
    own = captioned(list("rg"), [None] * 2, ["a red car", "a green car"], ["en"] * 2, [["a red car"]] * 2)
    best = calibrate_metric(ROUGEL(), own)["languages"]["all"]["right"]["values"][-1]
    assert best == pytest.approx(1.0, abs=1e-3)
    for captions, number, named in ((own, 1, "have their own"), (rows, 2, "2 other captions.*photos: none")):
        with pytest.raises(InputError, match=named):
            calibrate_metric(ROUGEL(), captions, n_references=number)


def test_a_photo_with_a_long_caption_does_not_make_rows_depend_on_each_other(scorer, rows):
    """Only some signatures say `long:sentences2`; with one draw, the shuffled captions may have none."""
    scorer.long, scorer.embedder.backbone.by_sentence = "sentences", True
    long = "a red car is on the road. the car is red."
    found = calibrate_metric(scorer, [rows[0]._replace(caption=long), *rows[1:]], shuffled=1, seed=3)
    assert "|long:sentences2|" in found["signature"]


def test_rows_that_depend_on_each_other_and_too_few_photos_are_refused(scorer, rows, monkeypatch):
    captions = ["a red car", "one red car", "a dog", "one dog", "the sea", "a sea"]
    with pytest.raises(InputError, match=r"depend on which rows are scored together.*document_frequencies"):
        calibrate_metric(CIDEr(), captioned(list("aabbcc"), [None] * 6, captions, ["en"] * 6))
    monkeypatch.setattr(calibrating, "MIN_PHOTOS", 20)
    with pytest.raises(InputError, match="20 photos"):
        calibrate_metric(scorer, rows)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(-2, 14))
@settings(max_examples=20)
def test_percent_below_is_the_share_that_is_lower(values, score):
    many = np.repeat(np.array(values, dtype=float), 200)
    found = Distribution.of(many).percent_below(np.array([float(score)]))[0]
    # between two percentiles the rank is interpolated, so a step of the data is blurred by up to one percent
    assert found == pytest.approx(scipy.stats.percentileofscore(many, score, "strict"), abs=1.01)


def test_scores_are_placed_in_their_own_language(scorer, file, rows):
    image = rows[0].image
    scores = scorer.score(["red green", "blue", "red"], [image] * 3, language=["de", "en", None])
    right = scores.percentiles(calibration=file)
    # 1.7678 is the lowest of four, 0 is below all; two of eight are lower than 2.5, the others the same
    assert right.tolist() == pytest.approx([0.0, 0.0, 25.0], abs=5)
    # 0 is shared by nine of ten, 1.7678 by the other
    shuffled = scores.percentiles("shuffled", calibration=file)
    assert shuffled.tolist() == pytest.approx([100.0, 0.0, 100.0], abs=1)
    means = {"better_than_right": right.mean(), "better_than_shuffled": shuffled.mean()}
    counts = {"rows": 3, "rows_without": 0, "rows_with_fewer_references": 0, "among_all_languages": {"": 1}}
    found = standing(scores, file).to_dict()
    assert {name: found.pop(name) for name in means} == pytest.approx(means)
    assert found == counts | {"set": "three colours"}
    some = scorer.score(["red", "red", None], [image] * 3, language=["en", "fr", "en"], on_error="skip")
    where = standing(some, file)
    assert (where.n_rows, where.n_without) == (1, 1) and "1 row" in where.sentence()
    for empty in ("score", "skip"):  # what is done with empty captions does not hide the rank of the others
        other = MCS(Embedder(ColourBackbone()), empty=empty).score(["red", ""], [image] * 2, language="en")
        found = other.percentiles(calibration=file)
        assert found[0] == some.percentiles(calibration=file)[0] and np.isnan(found[1]) == (empty == "skip")


def test_a_file_is_read_once_until_it_changes(scorer, file, rows, monkeypatch):
    scores, read = scorer.score(["red"], [rows[0].image], language="en"), []
    monkeypatch.setattr(calibration, "json_document", lambda *given: read.append(1) or json_document(*given))
    for _ in range(3):
        standing(scores, file)
    assert len(read) <= 1
    file.write_text(json.dumps(json.loads(file.read_text()) | {"set": {"name": "others"}}))
    assert standing(scores, file).set_name == "others" and len(read) <= 2


def test_a_calibration_applies_to_its_own_signature_only(scorer, file, rows):
    image = rows[0].image
    with_prefix = MCS(Embedder(ColourBackbone()), prefix="a photo of ").score(["red"], [image], language="en")
    named = "made with prefix:none, scored with prefix:a photo of "
    assert standing(with_prefix, file).to_dict().keys() == {"reason"}
    assert standing(with_prefix, file).reason.endswith(named)
    spoken = scorer.score(["red"], [image], language="fr")
    assert "de, en, not in fr" in standing(spoken, file).reason
    assert standing(spoken) is None  # nothing ships for the toy
    other = {"rouge_l": load("rouge_l").score(["a"], references=[["a"]])}
    found = standings(other, {"rouge_l": placed(other["rouge_l"], file)}, file)["rouge_l"]
    assert found.reason.endswith(f": {file} has no calibration of rouge_l")
    for scores, kind, path, message in (
        *((with_prefix, "right", file, named), (spoken, "right", None, "has no calibration")),
        (spoken, "wrong", file, "'right' or 'shuffled'"),
    ):
        with pytest.raises(InputError, match=message):
            scores.percentiles(kind, calibration=path)


# metric → what it was calibrated with: number of references → languages
CALIBRATED = {"mcs": {0: ("en", "de")}, "infometic": {0: ("en", "de")}, "rouge_l": {1: ("en", "de")}}
CALIBRATED["ref_clip_score"] = {1: ("en", "de"), 2: ("en",), 4: ("en",)}
# language of a row → what it is ranked among: its own language, all (the backbone knows "it"), or none
SPOKEN = {"en": ("en", "en"), "de": ("de", "all"), "it": ("all", "all"), "": ("all", "all"), "fi": ("", "")}
# references of a row → of the captions it is among
NUMBERS = {0: 0, 1: 1, 2: 2, 3: None, 4: 4, 5: 4, 7: 4, 8: None}
# the setting of which each language has its own value
VARIED = {"infometic": "words", "rouge_l": "segmenter"}


def calibrated(metric, n_references, languages):
    """A calibration in which the score .5 ranks at 10, 20, … in the languages and in all together."""
    words, kinds = VARIED.get(metric), {}
    varied = {words: {code: f"{code}-1" for code in (*languages, "all")}} if words else {}
    for place, code in enumerate(("all", *languages), 1):
        cut = [0.0] * PERCENTS.index(10 * place) + [1.0] * (len(PERCENTS) - PERCENTS.index(10 * place))
        kinds[code] = dict.fromkeys(("right", "shuffled"), Distribution(100, tuple(cut)))
    signature = f"{metric}|backbone:b@1|w:1|refs:{n_references}|lang:{'+'.join(languages)}"
    known = frozenset({"en", "de", "it"} - {*languages}) if metric != "rouge_l" else None
    return Calibration(metric, signature, "set", kinds, known, varied)


def scored(metric, rows, **settings):
    """Scores of .5 of rows (language, number of references)."""
    languages, counts = map(list, zip(*rows, strict=True))
    stated = {"backbone": "b@1", "w": 1, "refs": counts[0] if len({*counts}) == 1 else "var", **settings}
    varied = {VARIED[metric]: [f"{code or 'en'}-1" for code in languages]} if metric in VARIED else {}
    stated |= {words: ",".join(sorted({*codes})) for words, codes in varied.items()}
    n = len(rows)
    columns = {}, stated, [""] * n, np.zeros(n, bool), np.array(counts), languages
    return Scores(metric, np.full(n, 0.5), *columns, varied=varied)


@pytest.mark.parametrize("metric", CALIBRATED)
def test_a_row_has_the_rank_that_it_has_alone(metric, monkeypatch):
    """Over languages, stated or not, and numbers of references: other rows of a file change nothing."""
    known = [calibrated(metric, n, languages) for n, languages in CALIBRATED[metric].items()]
    monkeypatch.setattr(calibration, "shipped_calibrations", lambda: known)
    needed = [n for n in NUMBERS if (n > 0) == ("ref" in metric or metric == "rouge_l")]
    rows = [(language, n) for language in SPOKEN for n in needed]
    together = placed(scored(metric, rows))
    for index, (language, n) in enumerate(rows):
        alone = placed(scored(metric, [(language, n)]))
        captions = CALIBRATED[metric].get(NUMBERS[n])
        among = SPOKEN[language][language not in (captions or ())]
        if metric == "rouge_l" and language == "fi":
            among = "all"  # without a backbone, every language is ranked
        expected = among if captions else ""
        assert alone.among[0] == together.among[index] == expected, (language, n)
        assert alone.n_fewer == (n in (5, 7) and bool(expected))
        assert bool(alone.reason) == (not expected)
        rank = 10 * (1 + ["all", *captions].index(expected)) if expected else np.nan
        for kind in ("right", "shuffled"):
            found = [alone.below[kind][0], together.below[kind][index]]
            np.testing.assert_allclose(found, [rank, rank], atol=1)


OTHERS = {
    "a setting": (scored("mcs", [("en", 0)], w=2), "made with w:1, scored with w:2"),
    "another backbone": (scored("mcs", [("en", 0)], backbone="c@1"), ""),
    "another metric": (scored("pr_mcs", [("en", 0)]), ""),
    "other references": (scored("ref_clip_score", [("en", 8)]), "made with refs:1, scored with refs:8"),
    "a language": (scored("mcs", [("fi", 0)]), "there are ranks in de, en, it, not in fi"),
}


@pytest.mark.parametrize(("scores", "reason"), OTHERS.values(), ids=OTHERS)
def test_the_nearest_calibration_says_why_there_is_no_rank(scores, reason, monkeypatch):
    known = [calibrated(metric, n, codes) for metric, of in CALIBRATED.items() for n, codes in of.items()]
    monkeypatch.setattr(calibration, "shipped_calibrations", lambda: known)
    found = placed(scores)
    assert found.reason == reason and np.isnan(found.below["right"]).all() and not found.set_name


def test_only_a_tagger_of_the_row_s_own_language_matters(monkeypatch):
    shipped = [calibrated("infometic", 0, ("en", "de"))]
    monkeypatch.setattr(calibration, "shipped_calibrations", lambda: shipped)
    scores = scored("infometic", [("en", 0), ("de", 0), ("it", 0)])
    scores.varied["words"][1:] = ["de-2", "it-9"]
    found = placed(scores)
    assert found.among.tolist() == ["en", "", "all"]
    assert found.reason == "made with words:de-1, scored with words:de-2"


BEGUN = b'{"format": "capscore calibration 2"'
EMPTY = BEGUN + b', "percents": [1], "set": {"name": "x"}, "metrics": []}'


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", BEGUN + b"}", b"[" * 100_000, EMPTY])
def test_damaged_files_are_refused_by_name(content, file):
    found = json.loads(file.read_text())
    found["metrics"][0]["languages"]["en"]["right"]["values"][3] = 99
    numbers = json.dumps(found).encode()
    wrong = r"colours\.json.*(JSON|UTF-|calibrate` wrote)"
    first = BEGUN.replace(b"n 2", b"n 1") + b"}"
    for written, expected in ((numbers, "ascending"), (first, "before 0.12"), (content, wrong)):
        file.write_bytes(written)
        with pytest.raises(InputError, match=expected):
            calibration.read_calibrations(file)
    with pytest.raises(InputError, match=r"none\.json.*cannot be read"):
        calibration.read_calibrations(file.with_name("none.json"))


@pytest.mark.parametrize(("metric", "backbone", "n_references"), SHIPPED)
def test_shipped_calibrations_apply_to_scores(metric, backbone, n_references):
    """Where this fails, a score may have changed since: `make calibrate DATA=…` measures again."""
    references = [["a dog runs"] * n_references] if n_references else None
    scorer = load(metric, backbone=backbone, cache=False)
    where = standing(scorer.score(["a dog"], [Image.fromarray(noise())], references, language="en"))
    assert where is not None and not where.reason, f"run make calibrate DATA=… ({where})"
    assert 0 <= where.better_than["right"] <= where.better_than["shuffled"] <= 100


def test_shipped_calibrations_separate_right_captions_from_shuffled_ones():
    shipped = calibration.shipped_calibrations()
    assert {one.metric for one in shipped} == {metric for metric, _, _ in SHIPPED}
    for one in shipped:
        whole, middle = one.languages["all"], PERCENTS.index(50)
        assert whole["right"].values[middle] > whole["shuffled"].values[middle]
        assert whole["right"].n > 500 and {"en", "zh"} <= set(one.languages)
