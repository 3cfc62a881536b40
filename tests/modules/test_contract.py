"""What `evaluate` promises of a module, and what these promise on top."""

import gc
import inspect
import json
import os
import weakref
from importlib.metadata import requires
from pathlib import Path

import datasets
import evaluate
import pytest
from packaging.requirements import Requirement

import capscore
from capscore.errors import BackboneUnavailable, CapscoreError, InputError
from capscore.registry import METRICS as SCORERS
from tools.hostile.metrics import COLUMNS
from tools.tiny.colours import RED, plain

from .conftest import METRICS

ROWS = {"predictions": COLUMNS["candidates"]} | {name: COLUMNS[name] for name in ("images", "references")}


def rows(slug, first=0, last=5):
    kind = SCORERS.get(slug)
    needed = {"predictions": True, "images": kind.needs_images, "references": kind.needs_references}
    return {name: ROWS[name][first:last] for name, is_needed in needed.items() if is_needed}


def test_the_installed_datasets_is_the_one_to_test():
    assert datasets.__version__ == os.environ.get("CAPSCORE_EXPECT_DATASETS", datasets.__version__)
    installed = {"datasets": datasets.__version__, "evaluate": evaluate.__version__}
    for requirement in map(Requirement, requires("capscore")):
        if requirement.name in installed:
            assert requirement.specifier.contains(installed[requirement.name])


def test_modules_pass_the_checks_of_evaluates_repository(load, slug):
    """As its tests/test_metric_common.py, which no package holds; empty lists have no score."""
    module, columns = load(slug), rows(slug)
    kinds = {parameter.kind for parameter in inspect.signature(module._compute).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    empty = {name: [] for name in columns}
    assert module.compute(**empty) == {}
    module.add_batch(**columns)
    module.add_batch(**empty)
    assert module.compute(**empty)["n_items"] == 5


def test_add_takes_singular_and_plural_names(load):
    module, other = load("ref_clip_score"), load("ref_clip_score")
    module.add(prediction="red", image=RED, reference=["red"])
    module.add(predictions="red", images=RED, references=["red"])
    other.add(prediction="blue", image=RED, reference=["red"])
    assert module.compute()["scores"] == pytest.approx([10 / 7, 10 / 7]) and len(other) == 1
    with pytest.raises(InputError, match="both image and images were given"):
        module.add(prediction="red", image=RED, images=RED, reference=["red"])


BAD = {"mcs predictions": (None, "candidate"), "mcs images": (b"no image", "image")}
BAD["ref_clip_score references"] = ([], "references")


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_is_counted_from_the_first_and_the_rows_before_it_stay(load, case):
    (slug, name), (value, field) = case.split(), BAD[case]
    module = load(slug)
    module.add_batch(**rows(slug, 0, 2))
    bad = {key: list(values) for key, values in rows(slug, 2, 5).items()}
    bad[name][1] = value
    for call in (module.add_batch, module.compute):
        with pytest.raises(InputError, match=f"^row 3, {field}: "):
            call(**bad)
    with pytest.raises(InputError, match=f"^row 2, {field}: "):
        module.add(**{key: values[1] for key, values in bad.items()})
    assert len(module) == 2
    module.add_batch(**bad, on_error="skip")
    result = module.compute()
    assert result["scores"][3] is None and [failure["row"] for failure in result["failures"]] == [3]
    with pytest.raises(InputError, match=f"^row 1, {field}: "):
        module.add_batch(**bad)  # rows are counted anew


def test_empty_captions_are_counted_over_all_pieces(load):
    module = load("cider", empty="skip")
    module.add_batch(predictions=["a dog", " "], references=[["a dog runs"], ["a cat"]])
    module.add(prediction="two cats", reference=["two cats sit"])
    result = module.compute()
    # of pycocoevalcap, where the photo of the empty caption is a document too
    assert result["scores"] == [pytest.approx(3.5414921595), None, pytest.approx(3.7564711970)]
    assert [result[key] for key in ("n_items", "n_scored", "n_failed", "n_empty")] == [3, 2, 0, 1]
    assert module.compute(**rows("cider"))["n_empty"] == 0  # a second call begins anew


def test_lists_are_left_out_at_load_or_at_compute(load):
    quiet = load("cider", per_row=False)
    flat = quiet.compute(**rows("cider"))
    assert all(isinstance(value, (float, int, str)) for value in flat.values()) and "signature" in flat
    assert load("cider").compute(**rows("cider"), per_row=False) == flat
    assert len(quiet.compute(**rows("cider"), per_row=True)["scores"]) == 5
    with pytest.raises(InputError, match="per_row='no': expected True or False"):
        quiet.compute(**rows("cider"), per_row="no")


def test_columns_that_a_metric_does_not_take(load):
    """References are a mistake in add_batch; in compute `evaluate.combine` hands them to all."""
    mcs, given = load("mcs"), {"predictions": ["red"], "images": [RED], "references": [["red"]]}
    with pytest.raises(InputError, match="mcs takes no references"):
        mcs.add_batch(**given)
    assert mcs.compute(**given)["scores"] == [2.5]
    with pytest.raises(InputError, match="mcs takes no boxes"):
        mcs.add(prediction="red", image=RED, boxes=[[0, 0, 2, 2]])
    with pytest.raises(InputError, match="predictions=None"):
        mcs.compute(images=[RED])


def test_a_language_comes_with_rows_or_with_the_module(load):
    module = load("mcs", language="de")
    module.add_batch(**rows("mcs", 0, 2))
    module.add(prediction="red", image=RED, language="fr")
    module.add_batch(**rows("mcs", 2, 4), language=["en-GB", None])
    assert "|lang:de+en+fr+unstated|" in module.compute()["signature"]
    both = evaluate.combine([module])  # whose add_batch hands on no language
    both.add_batch(**rows("mcs"))
    assert "|lang:de|" in both.compute()["signature"]
    module.add(prediction="red", image=RED)
    with pytest.raises(InputError, match="on_error belong to the rows"):
        module.compute(language="de")
    for slug, code, message in (("mcs", "jp", "unknown .* 'jp'"), ("cider", "km", "Khmer .* without spaces")):
        with pytest.raises(InputError, match=f"language: {message}"):
            load(slug, language=code)


def test_combine(load):
    names = ("mcs", "infometic", "cider")
    both = evaluate.combine([load(name) for name in names])
    result = both.compute(**ROWS, language="de")
    for name in names:
        alone = load(name).compute(**rows(name), language="de")
        assert result[name] == pytest.approx(alone[name], rel=1e-6)
        assert result[f"{name}_scores"] == pytest.approx(alone["scores"], rel=1e-6)
    json.dumps(result, allow_nan=False)
    both.add_batch(**ROWS)
    assert both.compute()["cider_scores"] == pytest.approx(alone["scores"])


def test_features_and_descriptions(load, slug):
    module, kind = load(slug), SCORERS.get(slug)
    assert type(module).__mro__[1] is capscore.CaptionModule and inspect.isabstract(capscore.CaptionModule)
    assert module.name == module.metric == slug and module.module_type == "metric"
    names, described = list(rows(slug)), module.inputs_description
    assert list(module.features) == names and module.features["predictions"] == datasets.Value("string")
    assert isinstance(module.features.get("images", datasets.Image()), datasets.Image)
    parameters = set(inspect.signature(module.compute).parameters) - {"references", "extra"}
    for name in {*names, *parameters, *(column.name for column in kind.extra_columns)}:
        assert f"\n    {name} (" in described
    assert ("references" in described) == (kind.needs_references or kind.takes_references)
    assert all(f'"{key}"' in described for key in module.compute(**rows(slug)))
    lines = (METRICS / slug / f"{slug}.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip() and line.lstrip()[0] != "#"]) <= 50


def test_options_go_to_the_library_and_the_model_is_freed_with_the_module(load, checkpoints, monkeypatch):
    checkpoint = checkpoints("clip").spec
    module = load("mcs", backbone=checkpoint, device="cpu", batch_size=3, prefix="Ein ")
    assert module.scorer.embedder.image_batch == 3 and module.scorer.backbone.device == "cpu"
    assert "|prefix:Ein%20|" in module.compute(predictions=["Hund"], images=[RED])["signature"]
    backbone = weakref.ref(module.scorer.backbone)
    del module
    gc.collect()
    assert backbone() is None
    monkeypatch.setenv("CAPSCORE_BACKBONE", checkpoint)
    assert load("mcs", backbone=None).scorer.backbone.name == Path(checkpoint).name
    with pytest.raises(BackboneUnavailable, match=r"nowhere.*backbone='embedded'"):
        load("mcs", backbone="./nowhere")
    with pytest.raises(CapscoreError, match="variant='paper': an option of cider, not of mcs"):
        load("mcs", variant="paper")
    with pytest.raises(InputError, match="num_process=2"):
        load("cider", num_process=2, experiment_id="x")


def test_no_image_is_kept(load):
    module, photos = load("mcs"), [plain((255, shade, 0), (256, 256)) for shade in range(20)]
    held = [weakref.ref(photo) for photo in photos]
    module.add_batch(predictions=["red"] * 20, images=photos)
    del photos
    gc.collect()
    assert [photo() for photo in held] == [None] * 20
    assert module.compute()["n_unique_images"] == 20
