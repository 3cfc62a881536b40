"""Perturbed and scored: against the formula computed a second way, published figures, stand-ins."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import capscore
from capscore.benchmarks.robustness import RobustnessOptions, run_robustness
from capscore.benchmarks.robustness.run import perturbed_captions
from capscore.errors import CapscoreError, InputError
from capscore.perturbations import KINDS, chosen_kinds, perturb
from capscore.perturbations import UNSEEN_KINDS as UNSEEN
from capscore.show.robustness_tables import averages, drop_rows, groups, kept_rows, robustness_reports
from capscore.show.tables import signed

from ...toy import ColourBackbone

quick = RobustnessOptions(bootstrap=0)
COLOURS = {"r": (1, 0, 0), "b": (0, 0, 1)}


def by_hand(text, photo):
    """MCS of the toy backbone, word by word."""
    counts = [text.split()[:4].count(colour) for colour in ("red", "green", "blue")]
    if not any(counts):
        counts = [1, 1, 1]
    cosine = sum(a * b for a, b in zip(counts, COLOURS[photo], strict=True)) / math.hypot(*counts)
    return 2.5 * max(cosine, 0)


def test_numbers_are_those_of_the_formula(captions, scorer):
    run = run_robustness(captions, {"mcs": scorer}, RobustnessOptions(kinds=("all",), bootstrap=0, seed=4))
    (result,) = run.results
    original = [by_hand(*pair) for pair in zip(captions.captions, captions.image_ids, strict=True)]
    assert result.scores == pytest.approx(original, abs=1e-6)
    assert result.value("mean_original") == pytest.approx(sum(original) / 4, abs=1e-6)
    drops = {}
    for kind in (*KINDS, *UNSEEN):
        texts = perturb(captions.captions, kind, "en", seed=4).captions
        mean = sum(by_hand(*pair) for pair in zip(texts, captions.image_ids, strict=True)) / 4
        drops[kind] = mean / (sum(original) / 4) - 1
        assert result.value(f"drop_{kind}") == pytest.approx(drops[kind], abs=1e-6)
    assert result.value("drop_average") == pytest.approx(sum(drops[kind] for kind in KINDS) / 5, abs=1e-6)
    assert result.value("drop_average_unseen") == pytest.approx(
        sum(drops[kind] for kind in UNSEEN) / 6, abs=1e-6
    )
    assert list(run.unchanged) == [*KINDS, *UNSEEN]


def test_each_text_and_photo_is_embedded_once(captions, scorer):
    run_robustness(captions, {"mcs": scorer}, quick)
    texts = {*captions.captions}
    for kind in KINDS:
        texts.update(perturb(captions.captions, kind, "en").captions)
    assert scorer.backbone.encoded_texts == len(texts)
    assert scorer.backbone.encoded_images == 2


def test_the_signature_says_how_it_was_perturbed(captions, scorer):
    signature = run_robustness(captions, {"mcs": scorer}, replace(quick, seed=7)).results[0].signature
    assert signature.startswith("mcs|backbone:colours@w00000000|w:2.5|prefix:none|refs:0|lang:en|")
    assert "|images:photos|kinds:repetition+removal+masking+jumble+substitution|seed:7|" in signature
    assert "|words:blanks|p:0.4|draws:shared|removal:keep|objects:classes2+" in signature


def test_what_is_kept_is_compared_with_the_first_metric(captions, scorer):
    other = capscore.load("mcs", backbone=ColourBackbone(), cache=False, prefix="green ")
    run = run_robustness(captions, {"mcs": scorer, "again": scorer, "green": other}, quick)
    first, again, green = run.results
    assert first.value("original_of_first") == again.value("original_of_first") == 1.0
    originals = [result.value("mean_original") for result in run.results]
    assert green.value("original_of_first") == pytest.approx(originals[2] / originals[0])
    assert originals[2] < originals[0]
    # every caption names the colour of its photo, of which there are two
    assert [first.value(f"text_to_image_r@{k}") for k in (1, 5, 10)] == [1.0, 1.0, 1.0]
    assert kept_rows(groups([run])[0])[1] == ("", "again", "1.000", "100.0", "100.0", "100.0")


def test_unchanged_captions_are_counted(captions, scorer):
    counted = run_robustness(captions, {"mcs": scorer}, replace(quick, kinds=("number", "jumble")))
    assert counted.unchanged["number"] == 4
    assert counted.results[0].value("drop_number") == 0
    assert "number: left 4 of 4 captions unchanged; counted" in counted.results[0].notes


def test_objects_of_the_data_are_what_is_substituted(captions, scorer):
    given = replace(captions, objects=[["ball", "red"], ["car", "tree"], ["whale"], []])
    run = run_robustness(given, {"mcs": scorer}, replace(quick, kinds=("substitution",)))
    assert run.unchanged == {"substitution": 2}
    assert run.not_found == 1
    assert "1 critical object not found in their captions, and left there" in run.notes
    assert run.results[0].signature.endswith("|objects:given|order:published")


def test_the_order_of_the_objects(captions, scorer):
    """The result is that of the captions as `perturb` writes them, and its signature says the order."""
    given = replace(captions, objects=[["red", "ball"], ["car", "tree"], [], []])
    asked = replace(quick, kinds=("substitution",), order="every")
    run = run_robustness(given, {"mcs": scorer}, asked)
    assert run.results[0].signature.endswith("|objects:given|order:every")
    assert "substitution: every object moves, which is stronger than as published" in run.notes
    assert run.to_dict()["options"]["order"] == "every"
    three = replace(
        captions.take([0] * 30),
        captions=[f"a {number} cat and a dog and a man" for number in range(30)],
        objects=[["cat", "dog", "man"]] * 30,
    )
    for order in ("published", "every"):
        options = replace(quick, kinds=("substitution",), order=order)
        texts = perturbed_captions(three, options)[0]["substitution"].captions
        assert texts == perturb(three.captions, "substitution", objects=three.objects, order=order).captions
        told = [text.split("a ", 1)[1].split(" ", 1)[1].split(" and a ") for text in texts]
        stays = [any(map(str.__eq__, things, ("cat", "dog", "man"))) for things in told]
        assert any(stays) == (order == "published") and not all(stays)


def test_intervals_hold_the_drop_and_come_again(captions, scorer):
    options = RobustnessOptions(bootstrap=60, seed=2)
    first, second = (run_robustness(captions, {"mcs": scorer}, options).results[0] for _ in range(2))
    assert first.statistics == second.statistics
    drawn = {name: one for name, one in first.statistics.items() if one.interval}
    assert set(drawn) == {*(f"drop_{kind}" for kind in KINDS), "drop_average"}
    for one in drawn.values():
        assert one.interval[0] - 1e-12 <= one.value <= one.interval[1] + 1e-12


def test_an_interval_is_that_of_photos_drawn_with_their_captions(captions, scorer, monkeypatch):
    """Two photos: a draw has the first twice, both, or the second twice."""
    options = RobustnessOptions(kinds=("masking",), bootstrap=400, seed=1)
    monkeypatch.setattr("capscore.benchmarks.robustness.run.CONFIDENCE", 0.9999)
    result = run_robustness(captions, {"mcs": scorer}, options).results[0]
    before, after = result.scores, result.perturbed_scores["masking"]
    ends = [after[part].sum() / before[part].sum() - 1 for part in (slice(0, 2), slice(2, 4))]
    assert result.statistics["drop_masking"].interval == pytest.approx((min(ends), max(ends)), abs=1e-6)


def test_one_photo_has_no_interval_and_no_retrieval(captions, scorer):
    result = run_robustness(captions.take([0, 1]), {"mcs": scorer}, RobustnessOptions()).results[0]
    assert all(one.interval is None for one in result.statistics.values())
    assert any(note.startswith("no intervals:") for note in result.notes)
    assert result.value("text_to_image_r@1") is None


def test_published_figures_stand_beside(captions, scorer):
    published = replace(captions, data="coco_captions", split="test")
    run = run_robustness(published, {"mcs": scorer, "pr_mcs@x": scorer}, quick)
    (group,) = groups([run])
    printed = [cells for _, what, *cells in drop_rows(group, "pr_mcs@x") if what == "published"]
    assert printed == [["1.4177", "−37.9", "−78.1", "−99.2", "−97.0", "−82.1", "−78.9"]]
    (report,) = robustness_reports([run])
    assert any(
        text.startswith("published pr_mcs@x (en): Kim et al. 2023, Table 7")
        for text in report.parts
        if isinstance(text, str)
    )


def test_a_kind_that_a_language_has_no_rules_for_is_left_out_and_told(captions, scorer):
    swahili = replace(captions, language="sw")
    run = run_robustness(swahili, {"mcs": scorer}, replace(quick, kinds=("negation", "jumble")))
    assert list(run.skipped) == ["negation"] and "no rules for 'negation'" in run.skipped["negation"]
    assert list(run.unchanged) == ["jumble"]
    assert any("was not trained on sw" in warning for warning in run.results[0].warnings)
    lines = [part for part in robustness_reports([run])[0].parts if isinstance(part, str)]
    assert any(line.strip().startswith("negation: not run.") for line in lines)
    with pytest.raises(CapscoreError, match="no rules for 'negation'"):
        run_robustness(swahili, {"mcs": scorer}, replace(quick, kinds=("negation",)))


def test_a_text_stands_for_a_photo(captions, scorer, plain):
    texts = ["red", "red", "blue", "blue"]
    given = replace(captions, images=[None] * 4, stand_ins=texts)
    run = run_robustness(given, {"mcs": scorer}, quick, plain_embedders={"mcs": plain})
    seen = run_robustness(captions, {"mcs": scorer}, quick)
    # the toy's tower gives the word the embedding that it gives the colour
    assert run.results[0].scores == pytest.approx(seen.results[0].scores, abs=1e-6)
    for name in ("text_to_image_r@1", "original_of_first"):
        assert run.results[0].value(name) == seen.results[0].value(name)
    assert run.images == "stand-in"
    assert "|images:stand-in,colours@w00000000|" in run.results[0].signature
    assert "exif" not in run.results[0].signature
    assert any(note.startswith("no photo was opened") for note in run.notes)


def test_stand_ins_are_embedded_by_the_plain_tower(captions, plain):
    class Blind(ColourBackbone):
        """A tower that training has ruined: every text is green."""

        def encode_tokens(self, ids):
            self.encoded_texts += len(ids)
            return np.tile(np.array([[0, 1, 0]], dtype=np.float32), (len(ids), 1))

    ruined = capscore.load("mcs", backbone=Blind(fingerprint="blind"), cache=False)
    given = replace(captions, stand_ins=["red", "red", "blue", "blue"])
    run = run_robustness(given, {"mcs": ruined}, quick, plain_embedders={"mcs": plain})
    # green captions against red and blue; against themselves they would score 2.5
    assert run.results[0].value("mean_original") == 0
    assert plain.backbone.encoded_texts == 2
    assert run.results[0].value("original_of_first") is None
    assert run.results[0].value("drop_average") is None


def test_languages_are_averaged_plainly(captions, scorer):
    german = replace(captions.take([0, 1, 2]), language="de")
    runs = [run_robustness(one, {"mcs": scorer}, quick) for one in (captions, german)]
    (group,) = groups(runs)
    drops = [run.results[0].value("drop_average") for run in runs]
    assert averages(group, "mcs")["drop_average"] == (pytest.approx(sum(drops) / 2), None)
    found = drop_rows(group, "mcs")
    assert [row[0] for row in found if row[0]] == ["en", "de", "all"]
    assert found[-1][1] == "drop %" and found[-1][-1] == signed(100 * sum(drops) / 2, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ("jumbel",)}, "jumbel.*: expected repetition, removal"),
        ({"p": 1.5}, "p=1.5: expected a probability"),
        ({"order": "all"}, "order='all': expected one of published, every"),
        ({"bootstrap": -1}, "bootstrap=-1"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_options(settings, message):
    with pytest.raises(InputError, match=message):
        RobustnessOptions(**settings)


def test_sets_of_kinds():
    assert chosen_kinds(["paper"]) == KINDS and chosen_kinds(["unseen", "typos"]) == UNSEEN
    assert chosen_kinds(["all"]) == (*KINDS, *UNSEEN)


def test_metrics_that_compare_with_references_are_refused(captions):
    with pytest.raises(InputError, match="rouge_l compares captions with references"):
        run_robustness(captions, {"rouge_l": capscore.load("rouge_l")}, quick)


def test_no_captions(captions, scorer):
    with pytest.raises(InputError, match=r"toy \(en\): there are no captions"):
        run_robustness(captions.take([]), {"mcs": scorer}, quick)
