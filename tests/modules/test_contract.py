"""What `evaluate` promises of a module, and what these modules promise on top; scores computed by hand."""

from __future__ import annotations

import gc
import inspect
import itertools
import json
import math
import re
import weakref
from importlib.metadata import requires

import datasets
import evaluate
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

import capscore
from capscore.errors import (
    BackboneUnavailable,
    CapscoreError,
    CorpusWarning,
    ImageError,
    InputError,
    MissingExtraError,
)
from capscore.registry import METRICS as SCORERS

from ..toy import BLUE, GREEN, RED, plain
from .conftest import METRICS, SLUGS, WITH_BACKBONE, toy_options

HALF = 2.5 * math.sqrt(0.5)  # two colours named, one of them in the photo
ROWS = {
    "predictions": ["red", "red blue", "green", "blue", "red"],
    "images": [RED, RED, RED, BLUE, GREEN],
    "references": [["red"], ["green", "red"], ["green"], ["red", "green"], ["red", "blue", "green"]],
}
# H-mean of 2.5 · cos with the photo and of the largest cosine with a reference; CIDEr by hand, see below;
# InfoCLIP's recall and precision, of photos all of whose regions are the photo
EXPECTED = {
    "mcs": [2.5, HALF, 0.0, 2.5, 0.0],
    "pr_mcs": [2.5, HALF, 0.0, 2.5, 0.0],
    "clip_score": [2.5, HALF, 0.0, 2.5, 0.0],
    "infometic": [200.0, 170.71067811865476, 200.0, 200.0, 200.0],
    "ref_clip_score": [10 / 7, 1.0101525445522106, 0.0, 0.0, 0.0],
    "cider": [2.5, 0.16929871407628727, 2.5, 0.0, 5 / 6],
}
MEAN = {
    "mcs": 1.3535533905932737,
    "pr_mcs": 1.3535533905932737,
    "clip_score": 1.3535533905932737,
    "infometic": 194.14213562373095,
    "ref_clip_score": 0.4877447946247279,
    "cider": 1.2005264094819241,
}
# how far float32 may be off: of 200, more than of 2.5
SPREAD = {slug: 5e-5 if slug == "infometic" else 1e-6 for slug in EXPECTED}
# in signatures, what the formula of a metric with a backbone depends on
CONSTANTS = {
    slug: "weights:info_clip|regions:windows|n_regions:20|marks:published|beta:0.1|plus:100"
    if slug == "infometic"
    else "w:2.5"
    for slug in WITH_BACKBONE
}


def rows(slug: str, first: int = 0, last: int = 5) -> dict:
    kind = SCORERS.get(slug)
    names = ["predictions"]
    names += ["images"] if kind.needs_images else []
    names += ["references"] if kind.needs_references else []
    return {name: ROWS[name][first:last] for name in names}


def direct(slug: str, given: dict, language: str | None = None, **options) -> capscore.Scores:
    """The same rows by the library."""
    scorer = capscore.load(slug, **{**toy_options(slug), **options})
    return scorer.score(given["predictions"], given.get("images"), given.get("references"), language)


def test_the_installed_datasets_is_the_one_to_test(datasets_expected):
    if datasets_expected:
        assert datasets.__version__ == datasets_expected
    for line in requires("capscore"):
        requirement = Requirement(line)
        if requirement.name == "datasets":
            assert requirement.specifier.contains(datasets.__version__)
        if requirement.name == "evaluate":
            assert requirement.specifier.contains(evaluate.__version__)


def test_expected_values_a_second_way():
    """The literals above, from angles: cos 45° where half of the words are right."""
    text, photo = math.cos(math.pi / 4), 2.5 * math.cos(math.pi / 4)
    assert EXPECTED["ref_clip_score"][1] == pytest.approx(2 / (1 / text + 1 / photo), abs=1e-12)
    assert EXPECTED["mcs"][1] == pytest.approx(photo, abs=1e-12)
    # 100 · the cosine of the photo's regions with the photo, and of the right word with its caption
    assert EXPECTED["infometic"][1] == pytest.approx(100 + 100 * text, abs=1e-12)
    # CIDEr: red and green are in the references of 4 rows of 5, blue in those of 1; one word is a quarter of
    # 10; the second caption is one 2-gram longer than its references, and only the second of them has "red"
    red, blue = math.log(5 / 4), math.log(5)
    cosine = red / math.hypot(red, blue)
    assert EXPECTED["cider"][1] == pytest.approx(2.5 * cosine * math.exp(-1 / 72) / 2, abs=1e-12)
    for slug, values in EXPECTED.items():
        assert MEAN[slug] == pytest.approx(sum(values) / 5, abs=1e-12)


def test_result(load, slug):
    result = load(slug).compute(**rows(slug))
    np.testing.assert_allclose(result["scores"], EXPECTED[slug], rtol=1e-7, atol=SPREAD[slug])
    assert result[slug] == pytest.approx(MEAN[slug], abs=SPREAD[slug])
    assert (result["n_items"], result["n_unique_images"]) == (5, 3 if slug in WITH_BACKBONE else 0)
    assert (result["n_truncated"], result["n_failed"], result["failures"]) == (0, 0, [])
    references = "var" if SCORERS.get(slug).needs_references else "0"
    if slug in WITH_BACKBONE:
        assert result["signature"] == (
            f"{slug}|backbone:colours@w00000000|{CONSTANTS[slug]}|prefix:none|refs:{references}|lang:unstated|dtype:fp32"
            f"|exif:yes|version:{capscore.__version__}"
        )
    else:
        assert re.fullmatch(
            rf"{slug}\|variant:coco\|segmenter:[\w.-]+\|df:rows@[0-9a-f]{{8}}\|n:4\|sigma:6"
            rf"\|refs:{references}\|lang:unstated\|version:{re.escape(capscore.__version__)}",
            result["signature"],
        )
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert type(result[slug]) is float and all(type(score) is float for score in result["scores"])


def test_components_of_ref_clip_score(load):
    result = load("ref_clip_score").compute(**rows("ref_clip_score"))
    np.testing.assert_allclose(result["clip_score"], [2.5, HALF, 0, 2.5, 0], atol=1e-6)
    np.testing.assert_allclose(result["text_score"], [1, math.sqrt(0.5), 1, 0, 1], atol=1e-6)
    assert result["mean_text_score"] == pytest.approx((3 + math.sqrt(0.5)) / 5, abs=1e-6)
    assert result["mean_clip_score"] == pytest.approx((5 + HALF) / 5, abs=1e-6)


def test_the_same_as_the_library(load, slug):
    assert load(slug).compute(**rows(slug), language="de") == direct(slug, rows(slug), "de").to_dict()


@pytest.fixture(scope="module", params=SLUGS)
def whole(request, tmp_path_factory):
    """A metric's name, its module, and the result of all rows at once."""
    module = evaluate.load(
        str(METRICS / request.param),
        **toy_options(request.param),
        cache_dir=str(tmp_path_factory.mktemp("e")),
    )
    return request.param, module, module.compute(**rows(request.param))


@given(cuts=st.sets(st.integers(1, 4)), single=st.booleans())
def test_pieces_make_the_whole(whole, cuts, single):
    name, module, result = whole
    edges = [0, *sorted(cuts), 5]
    for first, last in itertools.pairwise(edges):
        part = rows(name, first, last)
        if single:
            for row in range(last - first):
                module.add(**{key: values[row] for key, values in part.items()})
        else:
            module.add_batch(**part)
    assert len(module) == 5
    assert module.compute() == result


def test_add_takes_singular_and_plural_names(load):
    module = load("ref_clip_score")
    module.add(prediction="red", image=RED, reference=["red"])
    module.add(predictions="red", images=RED, references=["red"])
    assert module.compute()["scores"] == pytest.approx([10 / 7, 10 / 7])
    with pytest.raises(InputError, match="both image and images were given"):
        module.add(prediction="red", image=RED, images=RED, reference=["red"])


def test_compute_scores_what_was_added_and_what_is_given(load, slug):
    module = load(slug)
    whole = module.compute(**rows(slug))
    module.add_batch(**rows(slug, 0, 2))
    assert module.compute(**rows(slug, 2, 5)) == whole


def test_a_second_compute_starts_from_nothing(load, slug):
    module = load(slug)
    module.compute(**rows(slug))
    again = module.compute(**rows(slug, 1, 3))
    assert again == direct(slug, rows(slug, 1, 3)).to_dict()
    if slug in WITH_BACKBONE:
        assert again["scores"] == pytest.approx(EXPECTED[slug][1:3], abs=SPREAD[slug])
    # rows are counted anew, too
    with pytest.raises(InputError, match=r"^row 0, candidate"):
        module.add(**{**{key: values[0] for key, values in rows(slug).items()}, "predictions": ""})


@pytest.mark.parametrize("options", [{}, {"keep_in_memory": True}])
def test_compute_without_rows(load, slug, options):
    module = load(slug, **options)
    with pytest.raises(InputError, match=f"{slug} has no rows to compute"):
        module.compute()
    module.compute(**rows(slug))
    with pytest.raises(InputError, match=f"{slug} has no rows to compute"):
        module.compute()


def test_keep_in_memory(load, slug, tmp_path):
    module = load(slug, keep_in_memory=True, cache_dir=str(tmp_path))
    module.add_batch(**rows(slug, 0, 3))
    assert not list(tmp_path.rglob("*.arrow"))
    assert module.compute(**rows(slug, 3, 5)) == load(slug).compute(**rows(slug))


def test_two_modules_side_by_side(load, tmp_path):
    """Both hold rows at once; neither sees the other's."""
    first, second = (load("mcs", cache_dir=str(tmp_path)) for _ in range(2))
    first.add(prediction="red", image=RED)
    second.add(prediction="blue", image=RED)
    assert first.compute()["scores"] == [2.5]
    assert second.compute()["scores"] == [0.0]
    assert not list(tmp_path.rglob("*.arrow"))


def test_languages(load):
    module = load("mcs")
    module.add_batch(predictions=["red", "blue"], images=[RED, RED], language=["de", "en-GB"])
    module.add(prediction="red", image=RED, language="de")
    assert "|lang:de+en|" in module.compute()["signature"]
    module.add(prediction="red", image=RED)
    with pytest.raises(InputError, match="on_error belong to the rows"):
        module.compute(language="de")
    with pytest.raises(InputError, match="unknown language code 'deutsh'"):
        module.add(prediction="red", image=RED, language="deutsh")


# ------------------------------------------------------------------------ bad rows

BAD = [
    ("predictions", None, "candidate: expected a caption, got None"),
    ("predictions", "", "candidate: expected a caption, got an empty string"),
    ("predictions", "  ", "candidate: expected a caption, got an empty string"),
    ("predictions", 3, r"candidate: expected a caption, got 3 \(int\)"),
    ("predictions", math.nan, "candidate: expected a caption, got nan"),
    ("images", None, "image: None is not an image"),
    ("images", "nowhere.jpg", "image: no such file: 'nowhere.jpg'"),
    ("images", b"no image", "image: bytes of length 8"),
    ("images", np.zeros((3, 4, 3)), "image: .*float64"),
    ("images", np.zeros((3, 8, 9), np.uint8), r"image: .*\(3, 8, 9\)"),
    ("references", "red", "references: expected a list of references, got 'red'"),
    ("references", [], "references: expected at least one reference, got an empty list"),
    ("references", None, "references: expected a list of references, got None"),
    ("references", ["red", ""], "references: reference 1 is an empty string"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_a_bad_row_is_named_and_the_rows_before_it_stay(load, name, value, message):
    slug = "ref_clip_score" if name == "references" else "mcs"
    module = load(slug)
    module.add_batch(**rows(slug, 0, 2))
    bad = {key: list(values) for key, values in rows(slug, 2, 5).items()}
    bad[name][1] = value
    # rows count from the first that was added: two were, and it is the second of this batch
    with pytest.raises(InputError, match=f"^row 3, {message}"):
        module.add_batch(**bad)
    with pytest.raises(InputError, match=f"^row 3, {message}"):
        module.compute(**bad)
    with pytest.raises(InputError, match=f"^row 2, {message}"):
        module.add(**{key: values[1] for key, values in bad.items()})
    assert len(module) == 2
    result = module.compute()
    np.testing.assert_allclose(result["scores"], EXPECTED[slug][:2], atol=1e-6)


# an empty caption is no bad row: see tests/metrics/test_empty_captions.py
@pytest.mark.parametrize(
    ("name", "value", "message"), [row for row in BAD if "got an empty string" not in row[2]]
)
def test_a_bad_row_can_be_skipped(load, name, value, message):
    slug = "ref_clip_score" if name == "references" else "mcs"
    module = load(slug)
    module.add(**{key: values[0] for key, values in rows(slug).items()})
    bad = {key: list(values) for key, values in rows(slug, 0, 3).items()}
    bad[name][1] = value
    module.add_batch(**bad, on_error="skip")
    result = module.compute()
    first, third = EXPECTED[slug][0], EXPECTED[slug][2]
    assert result["scores"] == [pytest.approx(first), pytest.approx(first), None, pytest.approx(third)]
    assert result[slug] == pytest.approx((2 * first + third) / 3)
    assert (result["n_items"], result["n_failed"]) == (4, 1)
    assert [failure["row"] for failure in result["failures"]] == [2]
    field = message.partition(":")[0]
    assert result["failures"][0]["error"].startswith(f"{field}: ")
    json.dumps(result, allow_nan=False)


def test_when_every_row_is_skipped(load, slug):
    given = {**rows(slug, 0, 1), "predictions": [None]}
    result = load(slug).compute(**given, on_error="skip")
    assert (result[slug], result["scores"], result["n_failed"]) == (None, [None], 1)
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": [RED]}, "images: got 1; expected 2, one per candidate"),
        ({"predictions": ["red"]}, "images: got 2; expected 1, one per candidate"),
        ({"references": [["red"]]}, "references: got 1; expected 2, one per candidate"),
        ({"images": None}, "ref_clip_score looks at images, but images=None"),
        ({"references": None}, "ref_clip_score compares with references, but references=None"),
        ({"predictions": None}, "predictions=None: expected a list of captions"),
        ({"predictions": "red"}, "'red' is one string"),
        ({"predictions": [], "images": [], "references": []}, "there are no rows"),
        ({"language": ["de"]}, "language: got 1; expected 2, one per candidate"),
        ({"on_error": "ignore"}, "on_error='ignore': expected 'raise' or 'skip'"),
    ],
)
def test_lists_that_do_not_go_together(load, change, message):
    module = load("ref_clip_score")
    given = {**rows("ref_clip_score", 0, 2), **change}
    for call in (module.add_batch, module.compute):
        with pytest.raises(InputError, match=message):
            call(**given)
    assert len(module) == 0


def test_images_for_a_metric_without_them(load):
    """They are taken by every call, and not opened: these do not exist."""
    module, given = load("cider"), {**rows("cider"), "images": ["gone.jpg"] * 5}
    expected = module.compute(**rows("cider"))
    assert module.compute(**given) == expected
    module.add_batch(**given)
    assert module.compute() == expected
    module.add(prediction="red", reference=["red"], image="gone.jpg")
    with pytest.raises(InputError, match="images: got 4; expected 5, one per candidate"):
        module.add_batch(**{**given, "images": ["gone.jpg"] * 4})
    with pytest.warns(CorpusWarning, match="1 row in"):
        assert module.compute()["n_unique_images"] == 0


def test_references_for_a_metric_without_them(load):
    """A mistake in add_batch; in compute they are left out, because `evaluate.combine` hands them to all."""
    module = load("mcs")
    given = {"predictions": ["red"], "images": [RED], "references": [["red"]]}
    with pytest.raises(InputError, match="mcs takes no references"):
        module.add_batch(**given)
    result = module.compute(**given)
    assert result["scores"] == [2.5]
    assert "|refs:0|" in result["signature"]


def test_a_language_for_all_rows(load, slug):
    """`evaluate.combine(…).add_batch` hands on no language: a module can be told when it is loaded."""
    german = load(slug, language="de")
    both = evaluate.combine([german])
    both.add_batch(**rows(slug))
    assert both.compute()["signature"] == direct(slug, rows(slug), "de").signature
    german.add_batch(**rows(slug, 0, 3))
    german.add(**{name: values[0] for name, values in rows(slug, 3, 4).items()}, language="fr")
    german.add_batch(**rows(slug, 4, 5), language=["fr"])
    assert "|lang:de+fr|" in german.compute()["signature"]


def test_a_language_that_cannot_be_is_said_at_load(load, monkeypatch):
    with pytest.raises(InputError, match=r"language: unknown language code 'jp'.* mean 'ja'"):
        load("mcs", language="jp")
    with pytest.raises(InputError, match=r"language: Khmer .* written without spaces"):
        load("cider", language="km")

    def missing(language):
        raise MissingExtraError("fugashi", "ja", "finding words")

    monkeypatch.setattr("capscore.text.segmentation.segmenter_name", missing)
    with pytest.raises(MissingExtraError, match=r"capscore\[ja\]"):
        load("cider", language="ja")


def test_an_unknown_keyword_is_an_error(load, slug):
    module = load(slug)
    for call in (module.add, module.add_batch, module.compute):
        with pytest.raises(TypeError, match="captions"):
            call(captions=["red"], images=[RED])
    with pytest.raises(TypeError, match="batchsize"):
        load(slug, batchsize=3)


# --------------------------------------------------------------- evaluate's own rules


def test_combine(load):
    names = ("mcs", "ref_clip_score", "cider")
    both = evaluate.combine([load(name) for name in names])
    result = both.compute(**rows("ref_clip_score"), language="de")
    for name in names:
        assert result[name] == pytest.approx(MEAN[name], abs=1e-6)
        assert result[f"{name}_scores"] == pytest.approx(EXPECTED[name], abs=1e-6)
    json.dumps(result, allow_nan=False)
    both.add_batch(**rows("ref_clip_score", 0, 4))
    both.add(**{name: values[4] for name, values in ROWS.items()})
    pieces = both.compute()
    assert {key: value for key, value in pieces.items() if "signature" not in key} == {
        key: value for key, value in result.items() if "signature" not in key
    }


def test_the_class_is_found_although_its_base_is_in_reach(load, slug):
    assert inspect.isabstract(capscore.CaptionModule)
    module = load(slug)
    assert type(module).__mro__[1] is capscore.CaptionModule
    assert module.name == module.metric == slug
    assert module.module_type == "metric"


def test_compute_has_no_open_keywords(load, slug):
    """`evaluate` asks it of every module in its own tests."""
    module = load(slug)
    kinds = {parameter.kind for parameter in inspect.signature(module._compute).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_features_and_descriptions(load, slug):
    module = load(slug)
    names = list(rows(slug))
    assert list(module.features) == names
    assert module.features["predictions"] == datasets.Value("string")
    assert isinstance(module.features.get("images", datasets.Image()), datasets.Image)
    parameters = set(inspect.signature(module.compute).parameters) - {"references", "extra"}
    for name in {*names, *parameters}:
        assert f"\n    {name} (" in module.inputs_description
    assert ("references" in module.inputs_description) == SCORERS.get(slug).needs_references
    extra = {column.name for column in SCORERS.get(slug).extra_columns}
    assert extra == ({"boxes"} if slug == "infometic" else set())
    assert ("\n    boxes (" in module.inputs_description) == bool(extra)
    assert ("not opened" in module.inputs_description) == (slug not in WITH_BACKBONE)
    for key in load(slug).compute(**rows(slug)):
        assert f'"{key}"' in module.inputs_description
    for method in (module.add, module.add_batch, module.compute):
        assert module.inputs_description in method.__doc__
    assert module.description and "@inproceedings" in module.citation
    papers = ("https://aclanthology.org/", "https://arxiv.org/abs/")
    assert all(address.startswith(papers) for address in module.info.reference_urls)


def test_the_module_is_thin(slug):
    text = (METRICS / slug / f"{slug}.py").read_text(encoding="utf-8")
    code = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(code) <= 50


# ------------------------------------------------------------------ backbones, memory


def test_options_go_to_the_library(load, checkpoint):
    module = load("mcs", backbone=str(checkpoint), device="cpu", dtype="float32", batch_size=3, prefix="Ein ")
    assert module.scorer.embedder.image_batch == 3
    assert module.scorer.backbone.device == "cpu"
    assert "|prefix:Ein%20|" in module.compute(predictions=["Hund"], images=[RED])["signature"]


def test_the_default_backbone_can_be_overridden(load, checkpoint, monkeypatch):
    monkeypatch.setenv("CAPSCORE_BACKBONE", str(checkpoint))
    module = load("mcs", backbone=None)
    assert f"|backbone:{checkpoint.name}@" in module.compute(predictions=["a"], images=[RED])["signature"]


def test_the_embedded_backbone(load, slug_with_backbone, embedded):
    slug = slug_with_backbone
    grey = plain((128, 128, 128), (64, 48))
    given = {"predictions": ["ein grauer Himmel", "eine Katze"], "images": [grey, grey]}
    if slug == "ref_clip_score":
        given["references"] = [["Nebel"], ["Nebel", "ein grauer Himmel"]]
    # by its name once, as loading takes seconds
    module = load(slug, backbone="embedded" if slug == "mcs" else embedded, device="cpu")
    result = module.compute(**given, language="de")
    expected = direct(slug, given, "de", backbone=embedded)
    np.testing.assert_allclose(result["scores"], expected.scores, atol=1e-6)
    assert result["signature"] == expected.signature
    assert result["signature"].startswith(f"{slug}|backbone:embedded@w")


@pytest.mark.parametrize("name", ["./nowhere", "nobody/has-such-a-model"])
def test_a_backbone_that_cannot_be_had_is_said_at_load(load, slug_with_backbone, name):
    with pytest.raises(BackboneUnavailable, match=f"{name}.*backbone='embedded-free'"):
        load(slug_with_backbone, backbone=name)


@pytest.mark.parametrize(
    ("slug", "options", "message"),
    [
        (
            "cider",
            {"backbone": "embedded"},
            "backbone='embedded': an option of mcs",
        ),
        ("mcs", {"variant": "paper"}, "variant='paper': an option of cider, not of mcs"),
        ("cider", {"variant": "D"}, "variant='D': expected 'coco' or 'paper'"),
        ("cider", {"document_frequencies": "gone.npz"}, "'gone.npz' cannot be read"),
    ],
)
def test_an_option_of_another_metric_is_said_at_load(load, slug, options, message):
    with pytest.raises(CapscoreError, match=message):
        load(slug, **options)


def test_the_model_is_freed_with_the_module(load, checkpoint):
    module = load("mcs", backbone=str(checkpoint))
    module.compute(predictions=["a cat"], images=[RED])
    backbone = weakref.ref(module.scorer.backbone)
    del module
    gc.collect()
    assert backbone() is None


def test_no_image_is_kept(load, tmp_path):
    """Twenty images of 192 kB come in; not one is held on to, and next to nothing is on disk."""
    module = load("mcs", cache_dir=str(tmp_path))
    photos = [plain((255, shade, 0), (256, 256)) for shade in range(20)]
    held = [weakref.ref(photo) for photo in photos]
    module.add_batch(predictions=["red"] * 20, images=photos)
    del photos
    gc.collect()
    assert [photo() for photo in held] == [None] * 20
    module.writer.stream.flush()
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.arrow")) < 20_000
    assert module.compute()["n_unique_images"] == 20


def test_rows_survive_a_compute_that_breaks_off(load, monkeypatch):
    module = load("mcs")
    module.add(prediction="red", image=RED)
    with monkeypatch.context() as broken:

        def fail():
            raise OSError("the disk is gone for a moment")

        broken.setattr(module, "_get_all_cache_files", fail)
        with pytest.raises(OSError, match="gone for a moment"):
            module.compute()
    with pytest.raises(CapscoreError, match="call compute\\(\\) again"):
        module.add(prediction="blue", image=RED)
    assert module.compute()["scores"] == [2.5]


def test_images_errors_keep_their_kind(load, tmp_path):
    (tmp_path / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    with pytest.raises(ImageError, match=r"^row 1, image: .*cut\.png") as caught:
        load("mcs").compute(predictions=["red", "red"], images=[RED, tmp_path / "cut.png"])
    assert (caught.value.row, caught.value.field) == (1, "image")
