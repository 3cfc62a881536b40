"""The metadata of every card is what the Hub accepts, and its figures are those of the files of results."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path

import pytest
from huggingface_hub import DatasetCard, ModelCard, RepoCard, SpaceCard

from capscore.benchmarks.result_file import read_results

from .test_readme import run_examples, write_photos

ROOT = Path(__file__).resolve().parents[1]
KINDS = {
    "metrics/*/README.md": SpaceCard,
    "datasets_scripts/*/README.md": DatasetCard,
    "weights/capscore_weights/*/README.md": ModelCard,
}
CARDS = [(path, kind) for pattern, kind in KINDS.items() for path in sorted(ROOT.glob(pattern))]
# from https://huggingface.co/docs/hub/repositories-licenses, those in use here
LICENCES = {
    *("apache-2.0", "mit", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc0-1.0"),
    *("bsd-3-clause-clear", "cc-by-2.0", "cc-by-nc-2.0", "other", "unknown"),
}
# from https://huggingface.co/docs/hub/datasets-cards and the tasks of the Hub, those in use here
TASKS = {"image-to-text", "feature-extraction", "visual-question-answering", "text-to-image"}
TASKS |= {"image-text-to-text", "zero-shot-image-classification", "translation", "text-classification"}
SIZE = re.compile(r"n<1K|1K<n<10K|10K<n<100K|100K<n<1M|1M<n<10M")
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def listed(value: object) -> list:
    return [] if value is None else value if isinstance(value, list) else [value]


@pytest.mark.parametrize(("path", "kind"), CARDS, ids=[str(path.relative_to(ROOT)) for path, _ in CARDS])
def test_metadata(path, kind: type[RepoCard]):
    card = kind.load(path)  # parses YAML and model-index as huggingface_hub does before it pushes
    data = card.data.to_dict()
    licences = listed(data.get("license"))
    assert licences and set(licences) <= LICENCES
    for language in listed(data.get("language")):
        assert re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]+)*|multilingual", language), language
    assert set(listed(data.get("task_categories"))) <= TASKS
    assert data.get("pipeline_tag", "feature-extraction") in TASKS
    assert all(SIZE.fullmatch(size) for size in listed(data.get("size_categories")))
    assert all(HUB_ID.fullmatch(name) for name in listed(data.get("datasets")))
    assert all(isinstance(tag, str) and tag for tag in listed(data.get("tags")))
    assert len(card.text.strip()) > 500


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("weights/capscore_weights/*/README.md")), ids=lambda path: path.parent.name
)
def test_figures_of_a_model_index(path):
    found = ModelCard.load(path).data.eval_results
    assert found
    for one in found:
        assert one.task_type and one.dataset_type and one.metric_type
        assert isinstance(one.metric_value, (int, float)) and math.isfinite(one.metric_value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("weights/capscore_weights/*/README.md")), ids=lambda path: path.parent.name
)
def test_weights_are_loaded_as_their_card_says(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos()
    examples = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)
    own = {"path/to/this/folder": str(path.parent), "…": "a cat", "photo.jpg": "cat.jpg", '"ar"': '"en"'}
    for shown, here in own.items():
        examples = [example.replace(shown, here) for example in examples]
    assert len(examples) == 2 and "|version:" in run_examples(examples, path.parent.name)


def test_measured_figures_of_cards_are_those_of_the_files():
    """If this fails: python docs/measured.py."""
    measured = importlib.import_module("measured")
    cards = measured.cards()
    assert len(cards) >= 9
    for path, text in cards.items():
        assert path.read_text(encoding="utf-8") == text, path


@pytest.mark.parametrize(("page", "n_rows", "n_free"), [("README.md", 5, 2), ("docs/backbones.md", 5, 2)])
def test_figures_of_a_page_are_those_of_the_files(page, n_rows, n_free):
    text = (ROOT / page).read_text(encoding="utf-8")
    numbers = {
        (one.config, one.metric, one.backbone): one for one in read_results([ROOT / "results"]) if one.main
    }
    rows = re.findall(r"^\| Flickr8k-(Expert|CF), (\w+), τ_[bc] \| ([^|]*) \| ([^|]*) \|", text, re.M)
    assert len(rows) == n_rows
    slugs = {"MCS": "mcs", "Fit": "fit", "InfoMetIC": "infometic", "RefCLIPScore": "ref_clip_score"}
    checked = 0
    for name, metric, embedded, free in rows:
        config = {"Expert": "expert", "CF": "crowdflower"}[name]
        one = numbers[config, slugs[metric], "embedded"]
        low, high = one.interval
        assert embedded == f"{100 * one.value:.1f} [{100 * low:.1f}–{100 * high:.1f}]"
        if (config, slugs[metric], "embedded-free") in numbers:
            assert free == f"{100 * numbers[config, slugs[metric], 'embedded-free'].value:.1f}"
            checked += 1
    assert checked == n_free
