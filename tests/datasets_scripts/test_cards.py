"""The card of a data set says what its script does."""

from __future__ import annotations

import re

import pytest
import yaml

from capscore.benchmarks.data.load import benchmark_builder, builder_class
from capscore.text.languages import language_code

from .conftest import SCRIPTS, official

SECTIONS = [
    "Description",
    "How to load",
    "Files",
    "Configurations",
    "Fields",
    "Protocol",
    "Citation",
    "Changelog",
]


@pytest.fixture
def card(slug) -> tuple[dict, str]:
    """Front matter and body."""
    text = (SCRIPTS / slug / "README.md").read_text(encoding="utf-8")
    _, front, body = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    return yaml.safe_load(front), body


def section(body: str, title: str) -> str:
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", body, re.DOTALL | re.MULTILINE)[1]


def first_cells(text: str) -> list[str]:
    """What is in backticks in the first column of a table's lines."""
    cells = re.findall(r"^\| *(`.*?) *\|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_front_matter(slug, card):
    front, body = card
    required = "language license pretty_name size_categories source_datasets task_categories tags".split()
    assert set(required) <= set(front)
    assert "configs" not in front, "a script's configurations are the script's; the exported card has them"
    assert {"image-captioning", "capscore"} <= set(front["tags"])
    assert re.search(r"^# (.*)$", body, re.MULTILINE)[1] == front["pretty_name"]
    languages = {config.language for config in builder_class(slug).BUILDER_CONFIGS} - {""}
    assert languages <= {language_code(language) for language in front["language"]}


def test_sections(slug, card):
    _, body = card
    kind = builder_class(slug)
    assert re.findall(r"^## (.*)$", body, re.MULTILINE) == SECTIONS
    assert kind.citation() in section(body, "Citation")
    versions = re.findall(r"^- \*\*(.+?)\*\*", section(body, "Changelog"), re.MULTILINE)
    assert versions[0] == str(kind.VERSION)
    assert kind.__doc__ and kind.LICENSE and kind.HOMEPAGE.startswith("http")


def test_how_to_load(slug, card):
    _, body = card
    names = [config.name for config in builder_class(slug).BUILDER_CONFIGS]
    text = section(body, "How to load")
    ours = re.search(rf'capscore\.load_benchmark\("{slug}", "(.+?)", data_dir="{slug}"\)', text)
    theirs = re.search(
        rf'load_dataset\("datasets_scripts/{slug}", "(.+?)", data_dir="{slug}", trust_remote_code=True\)',
        text,
    )
    assert ours and theirs
    assert {ours[1], theirs[1]} <= set(names)


def test_configurations(slug, card):
    _, body = card
    names = [config.name for config in builder_class(slug).BUILDER_CONFIGS]
    assert first_cells(section(body, "Configurations")) == names


def test_fields(slug, card, data_dir):
    _, body = card
    columns: dict[str, None] = {}
    for config in dict.fromkeys(config for config, _ in official(slug).ROWS):
        columns.update(dict.fromkeys(benchmark_builder(slug, config, data_dir=data_dir).info.features))
    assert sorted(first_cells(section(body, "Fields"))) == sorted(columns)
