"""Perturbed and scored: against the formula computed a second way, published figures, styles and degrees."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

import capscore
from capscore.benchmarks.robustness import CaptionSet, Robustness, RobustnessOptions
from capscore.benchmarks.robustness.results import averages
from capscore.benchmarks.robustness.run import alarms, curve, measure, measure_degrees, measure_styles
from capscore.errors import CapscoreError, InputError
from capscore.options import Sampling
from capscore.perturbations import KINDS, UNSEEN_KINDS, perturb
from capscore.perturbations.by_degree import DEGREES, by_degree
from capscore.perturbations.styles import STYLES, restyle
from capscore.statistics.bootstrap import NO_INTERVALS
from capscore.tables import signed
from tools.tiny.colours import BLUE, RED, ColourBackbone

quick = RobustnessOptions(sampling=NO_INTERVALS)
pytestmark = pytest.mark.filterwarnings("ignore::capscore.errors.CapscoreWarning")
COLOURS = {"r": (1, 0, 0), "b": (0, 0, 1)}


@pytest.fixture
def captions():
    texts = ["red red ball", "red car by a tree", "blue sea", "blue sky and blue sea"]
    return CaptionSet("toy", "", "", "en", texts, ["r", "r", "b", "b"], [RED, RED, BLUE, BLUE])


@pytest.fixture
def scorer():
    return capscore.load("mcs", backbone=ColourBackbone(), cache=False)


def by_hand(text, photo):
    counts = [text.split()[:4].count(colour) for colour in ("red", "green", "blue")]
    counts = counts if any(counts) else [1, 1, 1]
    cosine = sum(a * b for a, b in zip(counts, COLOURS[photo], strict=True)) / math.hypot(*counts)
    return 2.5 * max(cosine, 0)


def test_numbers_are_those_of_the_formula(captions, scorer):
    run = measure(captions, {"mcs": scorer}, RobustnessOptions(kinds=("all",), sampling=Sampling(0, seed=4)))
    (result,) = run.results

    def mean(texts):
        return sum(map(by_hand, texts, captions.image_ids)) / 4

    original = mean(captions.captions)
    noisy = {kind: perturb(captions.captions, kind, "en", seed=4) for kind in (*KINDS, *UNSEEN_KINDS)}
    drops = {kind: mean(found.captions) / original - 1 for kind, found in noisy.items()}
    expected = {"mean_original": original, **{f"drop_{kind}": drop for kind, drop in drops.items()}}
    expected["drop_average"] = sum(drops[kind] for kind in KINDS) / 5
    expected["drop_average_unseen"] = sum(drops[kind] for kind in UNSEEN_KINDS) / 6
    assert {name: result.value(name) for name in expected} == pytest.approx(expected, abs=1e-6)
    assert [result.statistics[name].n for name in ("drop_jumble", "drop_average")] == [4, 4 * 5]
    assert list(run.unchanged) == [*drops] and run.unchanged["number"] == 4
    assert "number: left 4 of 4 captions unchanged; counted" in result.outcome.notes


def test_each_text_and_photo_is_embedded_once_and_the_signature_says_how(captions, scorer):
    (result,) = measure(captions, {"mcs": scorer}, replace(quick, sampling=Sampling(0, seed=7))).results
    texts = {text for kind in KINDS for text in perturb(captions.captions, kind, "en", seed=7).captions}
    assert scorer.backbone.encoded_texts == len(texts | {*captions.captions})
    assert scorer.backbone.encoded_images == 2
    assert result.signature.startswith("mcs|backbone:colours@w00000000|w:2.5|prefix:none|refs:0|lang:en|")
    assert "|images:photos|kinds:repetition+removal+masking+jumble+substitution|seed:7|" in result.signature
    assert "|words:blanks|p:0.4|draws:shared|removal:keep|objects:classes2+" in result.signature


def test_kept_shares_are_relative_to_the_first_metric(captions, scorer):
    other = capscore.load("mcs", backbone=ColourBackbone(), cache=False, prefix="green ")
    run = measure(captions, {"mcs": scorer, "again": scorer, "green": other}, quick)
    first, again, green = run.results
    assert first.value("original_of_first") == again.value("original_of_first") == 1.0
    originals = [result.value("mean_original") for result in run.results]
    assert green.value("original_of_first") == pytest.approx(originals[2] / originals[0])
    assert originals[2] < originals[0]
    # every caption names the colour of its photo, of which there are two
    assert [first.value(f"text_to_image_r@{k}") for k in (1, 5, 10)] == [1.0, 1.0, 1.0]
    assert "|  | again | 1.000 | 100.0 | 100.0 | 100.0 |" in Robustness([run]).markdown()


def test_objects_of_the_data_are_what_is_substituted(captions, scorer):
    given = replace(captions, objects=[["ball", "red"], ["car", "tree"], ["whale"], []])
    run = measure(given, {"mcs": scorer}, replace(quick, kinds=("substitution",), order="every"))
    assert run.unchanged == {"substitution": 2} and run.not_found == 1
    every, left = run.notes[-2:]
    assert every.startswith("substitution: every object moves") and left.startswith("1 critical object not")
    assert run.results[0].signature.endswith("|objects:given|order:every")
    texts = perturb(captions.captions, "substitution", objects=given.objects, order="every").captions
    expected = np.mean([*map(by_hand, texts, captions.image_ids)])
    assert run.results[0].value("mean_substitution") == pytest.approx(expected, abs=1e-6)


def test_an_interval_is_that_of_photos_drawn_with_their_captions(captions, scorer):
    options = RobustnessOptions(sampling=Sampling(60, seed=2))
    first, second = (measure(captions, {"mcs": scorer}, options) for _ in range(2))
    assert first.results[0].statistics == second.results[0].statistics
    drawn = {name for name, row in first.results[0].statistics.items() if row.interval}
    assert drawn == {*(f"drop_{kind}" for kind in KINDS), "drop_average"}
    # two photos: a draw has the first twice, both, or the second twice
    options = RobustnessOptions(kinds=("masking",), sampling=Sampling(400, 0.9999, seed=1))
    result = measure(captions, {"mcs": scorer}, options).results[0]
    both = captions.captions, perturb(captions.captions, "masking", "en", seed=1).captions
    before, after = (np.array([*map(by_hand, texts, captions.image_ids)]) for texts in both)
    ends = [after[part].sum() / before[part].sum() - 1 for part in (slice(0, 2), slice(2, 4))]
    assert result.statistics["drop_masking"].interval == pytest.approx((min(ends), max(ends)), abs=1e-6)
    alone = measure(captions.take([0, 1]), {"mcs": scorer}, RobustnessOptions()).results[0]
    assert all(row.interval is None for row in alone.statistics.values())
    assert any(note.startswith("no intervals:") for note in alone.outcome.notes)
    assert alone.value("text_to_image_r@1") is None


def test_published_figures_are_shown(captions, scorer):
    published = replace(captions, data="coco_captions", split="test")
    run = measure(published, {"mcs": scorer, "pr_mcs@x": scorer}, quick)
    printed = "|  | published | 1.4177 | −37.9 | −78.1 | −99.2 | −97.0 | −82.1 | −78.9 |"
    assert printed in Robustness([run]).markdown()
    assert averages([run], "pr_mcs@x")[1]["drop_jumble"] == pytest.approx(-0.9702, abs=1e-3)
    assert "published pr_mcs@x (en): Kim et al. 2023, Table 7" in str(Robustness([run]))


def test_a_kind_without_rules_for_a_language_is_left_out_with_a_note(captions, scorer):
    swahili = replace(captions, language="sw")
    run = measure(swahili, {"mcs": scorer}, replace(quick, kinds=("negation", "jumble")))
    assert list(run.skipped) == ["negation"] and "no rules for 'negation'" in run.skipped["negation"]
    assert list(run.unchanged) == ["jumble"]
    assert any("was not trained on sw" in warning for warning in run.results[0].warnings)
    assert "negation: not run." in str(Robustness([run]))
    for nothing, told in ((swahili, "no rules for 'negation'"), (captions.take([]), "there are no captions")):
        with pytest.raises(CapscoreError, match=told):
            measure(nothing, {"mcs": scorer}, replace(quick, kinds=("negation",)))


def test_languages_are_averaged_plainly(captions, scorer):
    german = replace(captions.take([0, 1, 2]), language="de")
    found = capscore.robustness([captions, german], {"mcs": scorer}, bootstrap=0, seed=3)
    assert {run.options.sampling for run in found.sets} == {Sampling(0, seed=3)}
    drops = [run.results[0].value("drop_average") for run in found.sets]
    (sets,) = found.groups().values()
    measured, published = averages(sets, "mcs")
    assert (measured["drop_average"], published["drop_average"]) == (pytest.approx(sum(drops) / 2), None)
    rows = found.report().parts[0].parts[0].rows
    assert [row[0] for row in rows if row[0]] == ["en", "de", "all"]
    assert rows[-1][1] == "drop %" and rows[-1][-1] == signed(100 * sum(drops) / 2, 1)
    table = found.to_pandas()
    assert list(table["kind"][:6]) == ["", *KINDS] and set(table["language"]) == {"en", "de"}
    assert list(table["drop"][1:6]) == [found.sets[0].results[0].value(f"drop_{kind}") for kind in KINDS]


@pytest.mark.parametrize("settings", [{"kinds": ("jumbel",)}, {"p": 1.5}, {"order": "all"}])
def test_bad_options(settings):
    ((name, value),) = settings.items()
    value = value[0] if name == "kinds" else value
    with pytest.raises(InputError, match=f"{name.removesuffix('s')}.*{value}"):
        RobustnessOptions(**settings)


class Harsh(ColourBackbone):
    """Turns texts of up to two words to the colour that no photo here has."""

    def encode_tokens(self, ids):
        rows = super().encode_tokens(ids)
        for row, sequence in enumerate(ids):
            if len(sequence) < 5:
                rows[row] = [0.1 * rows[row][0], 1, 0.1 * rows[row][2]]
                rows[row] /= np.linalg.norm(rows[row])
        return rows


def test_false_alarms_by_hand(captions, scorer):
    harsh = capscore.load("mcs", backbone=Harsh(fingerprint="harsh"), cache=False)
    plain = "mcs@colours", scorer
    run = measure_styles(captions, {"harsh": harsh, "mcs": scorer}, {"harsh": plain, "mcs": plain})
    assert run.against["harsh"] == "mcs@colours"
    assert run.skipped == {} and list(run.numbers["harsh"]) == list(STYLES)
    for style, found in run.numbers["mcs"].items():
        texts = restyle(captions.captions, style, "en", photos=captions.image_ids)
        assert found["n"] + found["not_scored"] == len(texts.captions), style
        assert not found["n"] or (found["below_half"], found["kept"]) == (0, 1)
    # of the four captions only "blue sea" has two words
    given = run.numbers["harsh"]["given"]
    assert given["n"] == 4 and given["below_half"] == 0.25
    rows = captions.captions, captions.images
    before, after = (part.score(*rows, language="en").mean for part in (scorer, harsh))
    assert given["kept"] == pytest.approx(after / before) and given["kept"] < 0.9
    assert run.to_dict()["results"][0]["styles"]["given"]["below_half"] == 0.25
    # a language without a tagger
    run = measure_styles(replace(captions, language="sw"), {"mcs": scorer}, {"mcs": plain})
    assert list(run.skipped) == ["nouns", "stopped", "fragment"]
    assert "word classes" in run.skipped["nouns"] and "given" in run.numbers["mcs"]
    # a score of exactly half is not one
    found = alarms(np.array([0.5, 0.4, 0.1]), np.array([1.0, 1.0, 0.0]))
    assert found == {"n": 2, "below_half": 0.5, "kept": 0.45, "not_scored": 1}


def test_a_curve_by_hand():
    scores, touched = np.array([[0.9, 2.0, 3.0], [0.4, 1.2, 3.0]]), np.array([[0.1, 0.2, 0], [0.5, 0.4, 0]])
    found = curve(np.array([1.0, 2.0, 3.0]), [*scores], [*touched], (0.1, 0.5))
    assert found["n"] == 2, "the third caption is never touched"
    np.testing.assert_allclose(found["drops"], [2.9 / 3 - 1, 1.6 / 3 - 1])
    np.testing.assert_allclose(found["touched"], [0.15, 0.45])
    by_hand = spearmanr([0.1, 0, 0.6, 0.4], [0.1, 0.2, 0.5, 0.4]).statistic
    assert (found["of_means"], found["of_captions"]) == pytest.approx((1, by_hand))
    # what rounding leaves of a score has no order
    shares = (0.1, 0.2, 0.4, 0.6, 0.8)
    left = [np.array([score]) for score in (0.9, 0.5, 1e-5, 3e-5, 2e-5)]
    found = curve(np.ones(1), left, [np.array([share]) for share in shares], shares)
    by_hand = spearmanr([1, 2, 4, 4, 4], [1, 2, 3, 4, 5]).statistic
    assert found["of_means"] == pytest.approx(by_hand) and by_hand > 0.89
    nothing = curve(np.ones(2), [np.ones(2)], [np.zeros(2)], (0.4,))
    assert [nothing[name] for name in ("n", "drops", "of_means", "of_captions")] == [0, [None], None, None]


def test_curves_of_a_metric(captions, scorer):
    options = RobustnessOptions(["masking", "jumble"], sampling=Sampling(seed=2))
    run = measure_degrees(captions, {"mcs": scorer}, options)
    assert list(run.numbers["mcs"]) == ["masking", "jumble"]
    found = run.numbers["mcs"]["masking"]
    before = scorer.score(captions.captions, captions.images, language="en").scores
    for number, degree in enumerate(DEGREES):
        noisy = by_degree(captions.captions, "masking", "en", degree=degree, seed=2)
        scores = scorer.score(noisy.captions, captions.images, language="en").scores
        assert found["drops"][number] == pytest.approx(scores.mean() / before.mean() - 1)
        assert found["touched"][number] == pytest.approx(noisy.touched.mean())
    assert run.to_dict()["results"][0]["kinds"]["masking"]["n"] == 4
