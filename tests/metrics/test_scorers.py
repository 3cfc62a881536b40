"""Formulas to the digit, counts, signatures, and one clear error for every bad row."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pandas
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import (
    CapscoreError,
    ImageError,
    InputError,
    LanguageWarning,
    OptionError,
    TruncationWarning,
)
from capscore.metrics.backbone_scorer import MCS, CLIPScore, RefCLIPScore, clip_score, ref_clip_score
from capscore.metrics.base import PreparedRows

from ..toy import BLUE, GREEN, RED, ColourBackbone, plain

YELLOW = plain((255, 255, 0))


def make(kind, **options):
    return kind(Embedder(ColourBackbone(**options)))


# ------------------------------------------------------------------ formulas


def test_clip_score_formula():
    assert clip_score(np.array([1.0, 0.5, 0.0, -1.0])).tolist() == [2.5, 1.25, 0.0, 0.0]
    assert clip_score(np.array([0.5]), w=2.0).tolist() == [1.0]


def test_ref_clip_score_formula():
    # harmonic means by hand: 2·1.25·0.5/1.75 = 0.7142857…, 2·2.5·1/3.5 = 1.4285714…
    got = ref_clip_score(np.array([0.5, 1.0, 0.0, -0.3, 0.4]), np.array([0.5, 1.0, 0.0, 0.9, -0.2]))
    np.testing.assert_allclose(got, [0.7142857142857143, 1.4285714285714286, 0.0, 0.0, 0.0], atol=1e-15)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1))
def test_ref_clip_score_is_scipys_harmonic_mean(pairs):
    from scipy.stats import hmean

    image, text = np.array(pairs).T
    # tiny cosines underflow in scipy's reciprocals, not in ours
    image, text = (np.where(np.abs(x) < 1e-100, 0.0, x) for x in (image, text))
    terms = np.stack([2.5 * np.maximum(image, 0), np.maximum(text, 0)])
    expected = np.where((terms > 0).all(axis=0), hmean(np.where(terms > 0, terms, 1.0), axis=0), 0.0)
    np.testing.assert_allclose(ref_clip_score(image, text), expected, atol=1e-12)


def test_mcs_literal_scores():
    scores = make(MCS).score(["red", "green", "red green", "blue"], [RED, RED, YELLOW, YELLOW])
    # cosines 1, 0, 1, 0; then "red" on yellow is 1/√2
    np.testing.assert_allclose(scores.scores, [2.5, 0.0, 2.5, 0.0], atol=1e-6)
    assert scores.mean == pytest.approx(1.25)
    half = make(MCS).score(["red"], [YELLOW])
    assert half.mean == pytest.approx(1.7677669529663689, abs=1e-6)


def test_ref_clip_score_literal_scores():
    scores = make(RefCLIPScore).score(
        ["red", "red", "blue", "green"],
        [RED, YELLOW, RED, GREEN],
        [["red green", "blue"], ["green", "red"], ["blue"], ["red"]],
    )
    # row 0: 2.5 and 1/√2 → 2·2.5·0.70710678/3.20710678 = 1.10240…; row 1: 1.7677670 and 1 → 1.2773958…
    np.testing.assert_allclose(scores.components["clip_score"], [2.5, 1.76776695, 0, 2.5], atol=1e-6)
    np.testing.assert_allclose(scores.components["text_score"], [0.70710678, 1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(scores.scores, [1.10240594, 1.27739580, 0, 0], atol=1e-6)
    assert scores.scores[1] == pytest.approx(2 / (1 / (2.5 / math.sqrt(2)) + 1), abs=1e-6)
    assert scores.mean == pytest.approx((1.10240594 + 1.27739580) / 4, abs=1e-6)


def test_prefix_goes_before_candidates_and_references():
    scores = make(RefCLIPScore, prefix="blue ").score(["red"], [RED], [["green"]])
    # "blue red" against red: 1/√2 · 2.5; "blue red" against "blue green": 1/2
    assert scores.components["clip_score"][0] == pytest.approx(1.76776695, abs=1e-6)
    assert scores.components["text_score"][0] == pytest.approx(0.5, abs=1e-6)
    assert "|prefix:blue%20|" in scores.signature


# ---------------------------------------------------- properties of whole scores


rows_of = st.lists(
    st.tuples(
        st.sampled_from(["red", "green", "blue", "red green", "red blue blue", "cat"]),
        st.sampled_from([0, 1, 2, 3]),
        st.lists(st.sampled_from(["red", "green blue", "dog", "blue"]), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=15,
)


@given(rows=rows_of, batch_size=st.integers(1, 6), data=st.data())
def test_same_rows_in_any_order_and_batch_size_score_the_same(rows, batch_size, data):
    photos = [RED, GREEN, BLUE, YELLOW]
    order = data.draw(st.permutations(range(len(rows))))

    def run(rows, batch_size):
        scorer = RefCLIPScore(Embedder(ColourBackbone(), batch_size=batch_size))
        captions, images, references = zip(*rows, strict=True)
        return scorer.score(captions, [photos[image] for image in images], references)

    straight, shuffled = run(rows, None), run([rows[place] for place in order], batch_size)
    np.testing.assert_allclose(shuffled.scores, straight.scores[order], atol=1e-6)
    assert shuffled.mean == pytest.approx(straight.mean, abs=1e-6)
    assert shuffled.signature == straight.signature


@given(rows=rows_of, cut=st.integers(0, 15))
def test_pieces_finished_together_are_the_whole(rows, cut):
    photos = [RED, GREEN, BLUE, YELLOW]
    scorer = make(RefCLIPScore)

    def columns(rows):
        captions, images, references = zip(*rows, strict=True)
        return captions, [photos[image] for image in images], references, "en"

    pieces = [scorer.prepare(*columns(part)) for part in (rows[:cut], rows[cut:]) if part]
    together = scorer.finish(PreparedRows.concatenate(pieces))
    assert together.to_dict() == scorer.score(*columns(rows)).to_dict()


def test_pieces_keep_what_went_wrong_in_them():
    scorer = make(MCS)
    pieces = [scorer.prepare(["red", text], [RED, RED], on_error="skip") for text in (None, "red")]
    scores = scorer.finish(PreparedRows.concatenate([*pieces, pieces[0]]))
    assert list(scores.failures) == [1, 5] and scores.n_items == 6 and scores.n_unique_images == 1
    np.testing.assert_allclose(scores.scores, [2.5, np.nan, 2.5, 2.5, 2.5, np.nan], atol=1e-6)


# ------------------------------------------------------------ counts, signature


def test_counts_and_signature():
    with pytest.warns(TruncationWarning, match=r"1 of 3 rows .* 6 tokens .*first such row: 2"):
        scores = make(MCS).score(["red", "red", "a b c d e f"], [RED, RED, GREEN], language="de-AT")
    assert (scores.n_items, scores.n_unique_images, scores.n_truncated, scores.n_failed) == (3, 2, 1, 0)
    assert scores.signature == (
        f"mcs|backbone:colours@w00000000|w:2.5|prefix:none|refs:0|lang:de|dtype:fp32|exif:yes|"
        f"version:{capscore.__version__}"
    )
    assert capscore.metrics.signature.parse_signature(scores.signature)[1]["backbone"] == "colours@w00000000"


def test_signature_of_mixed_rows():
    scores = make(RefCLIPScore).score(
        ["red", "green"], [RED, RED], [["red"], ["red", "blue"]], language=["de", "en"]
    )
    assert "|refs:var|lang:de+en|" in scores.signature
    assert "|refs:1|lang:unstated|" in make(RefCLIPScore).score(["red"], [RED], [["red"]]).signature


def test_results_are_ready_for_json():
    result = (
        make(RefCLIPScore).score(["red", None], [RED, RED], [["red"], ["red"]], on_error="skip").to_dict()
    )
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["scores"][1] is None and result["clip_score"][1] is None
    assert result["ref_clip_score"] == pytest.approx(1.4285714, abs=1e-6)
    assert result["mean_clip_score"] == pytest.approx(2.5)
    assert result["failures"] == [{"row": 1, "error": "candidate: expected a caption, got None"}]
    assert result["n_items"] == 2 and result["n_failed"] == 1


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("caption", "said"),
    [
        (None, "expected a caption, got None"),
        ("", "expected a caption, got an empty string"),
        (" \t", r"expected a caption, got an empty string"),
        (3, r"expected a caption, got 3 \(int\)"),
        (float("nan"), r"expected a caption, got nan"),
        (["a"], r"expected a caption, got \['a'\] \(list\)"),
        (b"cat", r"expected a caption, got b'cat' \(bytes\)"),
        ("\ud800 cat", "half a surrogate pair"),
        ("\u200b \ufeff", "has no visible character"),
        (pandas.NA, r"<NA>"),
    ],
)
def test_bad_caption(caption, said):
    with pytest.raises(InputError, match=f"^row 1, candidate: .*{said}"):
        make(MCS).score(["red", caption], [RED, RED])
    if "empty" in said or "visible" in said:
        return  # on_error leaves empty captions alone: see test_empty_captions.py
    scores = make(MCS).score(["red", caption], [RED, RED], on_error="skip")
    assert scores.scores[0] == pytest.approx(2.5) and np.isnan(scores.scores[1])
    assert scores.mean == pytest.approx(2.5) and list(scores.failures) == [1]


@pytest.mark.parametrize(
    ("references", "said"),
    [
        ("red", "got 'red'"),
        (None, "got (None|nan)"),
        ([], "at least one reference, got an empty list"),
        (["red", ""], "reference 1 is an empty string"),
        (["red", None], "reference 1 is None"),
        ({"a": 1}, r"\(dict\)"),
        (float("nan"), "got (None|nan)"),
        (7, r"got 7 \(int\)"),
    ],
)
def test_bad_references(references, said):
    with pytest.raises(InputError, match=f"^row 1, references: .*{said}"):
        make(RefCLIPScore).score(["red", "red"], [RED, RED], [["red"], references])
    scores = make(RefCLIPScore).score(["red", "red"], [RED, RED], [["red"], references], on_error="skip")
    assert scores.n_failed == 1 and scores.mean == pytest.approx(1.4285714, abs=1e-6)
    assert "|refs:1|" in scores.signature


def test_bad_image_names_the_row(tmp_path):
    with pytest.raises(ImageError, match=r"^row 1, image: .*gone\.jpg"):
        make(MCS).score(["red", "red"], [RED, tmp_path / "gone.jpg"])
    scores = make(MCS).score(["red", "red"], [RED, tmp_path / "gone.jpg"], on_error="skip")
    assert scores.n_failed == 1 and scores.mean == pytest.approx(2.5)
    assert "gone.jpg" in scores.failures[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((["red", "red"], [RED], [["red"], ["red"]]), "got 1; expected 2, one per candidate"),
        ((["red"], [RED], [["red"], ["red"]]), "got 2; expected 1, one per candidate"),
        (("red", [RED]), "candidates='red' is one string; expected a list of captions"),
        (([], []), "no rows: candidates is empty"),
        ((["red"], None, [["red"]]), "images=None"),
        ((["red"], [RED]), "references=None"),
        ((["red"], [RED], "red"), "references='red' is one string; expected a list of lists"),
        ((["red"], [RED], [["red"]], ["de", "en"]), "got 2; expected 1, one per candidate"),
        ((["red"], [RED], [["red"]], 3), "language is a int"),
        ((["red"], [RED], [["red"]], "klingonese"), "unknown language code 'klingonese'"),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_rows_that_do_not_fit_together_are_never_skipped(arguments, said, on_error):
    with pytest.raises(InputError, match=said.replace("[", r"\[")):
        make(RefCLIPScore).score(*arguments, on_error=on_error)


def test_references_where_none_are_used():
    with pytest.raises(InputError, match="mcs takes no references"):
        make(MCS).score(["red"], [RED], [["red"]])


def test_a_set_has_no_order():
    with pytest.raises(InputError, match="candidates is a set"):
        make(MCS).score({"red", "green"}, [RED, GREEN])


def test_columns_of_every_kind():
    expected = [2.5, 0.0]
    captions, references = ["red", "green"], [["red"], ["red", "blue"]]
    for column in (
        tuple(captions),
        iter(captions),
        np.array(captions),
        pandas.Series(captions, index=[7, 3]),
        pyarrow.array(captions),
        pyarrow.chunked_array([captions[:1], captions[1:]]),
    ):
        scores = make(RefCLIPScore).score(column, [RED, RED], pyarrow.array(references))
        np.testing.assert_allclose(scores.components["clip_score"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        (pandas.DataFrame({"c": ["red"], "p": ["a.jpg"]}), "candidates is a DataFrame"),
        (pyarrow.table({"c": ["red"]}), "candidates is a Table"),
        (np.array("red"), "candidates is a ndarray; expected a list of captions"),
    ],
)
def test_what_is_no_list_of_captions(candidates, said):
    with pytest.raises(InputError, match=said):
        make(MCS).score(candidates, [RED])


def test_rows_may_have_no_language():
    scores = make(MCS).score(["red"] * 4, [RED] * 4, language=["de", None, "", float("nan")])
    assert scores.languages == ["de", "", "", ""] and scores.n_failed == 0
    assert "|lang:de+unstated|" in scores.signature


def test_a_language_that_is_no_text_names_the_row():
    with pytest.raises(InputError, match=r"^row 1, language: \['de'\] is not a language code"):
        make(MCS).score(["red"] * 2, [RED] * 2, language=["de", ["de"]])


def test_prefix_is_checked():
    with pytest.raises(InputError, match="prefix=5: 5 is a int; expected a string"):
        MCS(Embedder(ColourBackbone()), prefix=5)


def test_images_of_rows_with_a_bad_text_are_left_alone():
    scorer = make(MCS)
    scores = scorer.score(["red", None], [RED, GREEN], on_error="skip")
    assert scorer.backbone.encoded_images == 1
    assert scores.n_unique_images == 1


def test_on_error_is_checked():
    with pytest.raises(InputError, match="on_error='ignore': expected 'raise' or 'skip'"):
        make(MCS).score(["red"], [RED], on_error="ignore")


def test_every_row_bad():
    scores = make(MCS).score([3, None], [RED, RED], on_error="skip")
    assert math.isnan(scores.mean) and scores.n_failed == 2
    assert scores.to_dict()["mcs"] is None


def test_one_bad_language_code_among_rows():
    scores = make(MCS).score(["red", "red"], [RED, RED], language=["de", "nolang"], on_error="skip")
    assert list(scores.failures) == [1] and "'nolang'" in scores.failures[1]


def test_a_language_the_backbone_does_not_know_is_warned_about_once():
    with pytest.warns(
        LanguageWarning, match=r"'colours' was not trained on ja, th \(it knows de, en\)"
    ) as caught:
        make(MCS).score(["red", "red", "red"], [RED] * 3, language=["ja", "th", "de"])
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(MCS).score(["red"], [RED], language="de")
        make(MCS).score(["red"], [RED])


# -------------------------------------------------------------------------- load


def test_load_by_name():
    assert (
        capscore.load("clip_score", backbone=ColourBackbone(), cache=False).score(["red"], [RED]).mean == 2.5
    )
    assert type(capscore.load("clip_score", backbone=ColourBackbone(), cache=False)) is CLIPScore


@pytest.mark.parametrize(
    ("name", "meant"), [("msc", "mcs"), ("clipscore", "clip_score"), ("RefCLIP-Score", "ref_clip_score")]
)
def test_unknown_metric(name, meant):
    with pytest.raises(CapscoreError, match=f"metric '{name}' is not one of .*did you mean '{meant}'"):
        capscore.load(name, backbone=ColourBackbone())


def test_scores_say_what_they_are():
    text = repr(make(MCS).score(["red"], [RED]))
    assert text.startswith("Scores(mcs: mean 2.5000 of 1 rows; mcs|backbone:colours@")


def test_a_row_keeps_its_first_error():
    """Candidate, references and language of the last row are all bad; the first of them is told."""
    scores = make(RefCLIPScore).score(
        ["red", "red", None],
        [RED, RED, "gone.jpg"],
        [["red"], [], [None]],
        language=["de", "nolang", "nolang"],
        on_error="skip",
    )
    assert scores.failures == {
        1: "references: expected at least one reference, got an empty list",
        2: "candidate: expected a caption, got None",
    }


def test_the_language_of_a_failed_row_is_not_in_the_signature():
    scores = make(MCS).score(
        ["red", None, "red"], [RED, RED, "gone.jpg"], language=["de", "en", "fr"], on_error="skip"
    )
    assert scores.languages == ["de", "en", "fr"] and "|lang:de|" in scores.signature
    assert (
        "|lang:de+en+fr|"
        in make(MCS).score([None] * 3, [RED] * 3, language=["de", "en", "fr"], on_error="skip").signature
    )


def test_columns_that_a_metric_does_not_have():
    scorer = make(MCS)
    for call in (scorer.score, scorer.prepare):
        with pytest.raises(OptionError, match=r"mcs takes no boxes$"):
            call(["red"], [RED], boxes=[None])
    assert scorer.score(["red"], [RED], boxes=None).mean == 2.5
