"""The registry file: whole, consistent, and what its sources say."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from importlib.resources import files

import pytest

from capscore.backbones import Known, find, registry
from capscore.text.languages import language_code

ENTRIES = list(registry().values())
WITH_FIGURES = {
    "ViT-B-32-quickgelu/openai",
    "ViT-H-14-378-quickgelu/dfn5b",
    "ViT-H-14-quickgelu/dfn5b",
    "ViT-L-14-quickgelu/dfn2b",
    "ViT-g-14/laion2b_s12b_b42k",
    "ViT-H-14/laion2b_s32b_b79k",
    "ViT-L-14/laion2b_s32b_b82k",
    "BAAI/AltCLIP",
    "ViT-L-14-336-quickgelu/openai",
    "ViT-L-14-quickgelu/openai",
    "xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k",
    "BAAI/AltCLIP-m18",
    "M-CLIP/XLM-Roberta-Large-Vit-B-16Plus",
    "BAAI/AltCLIP-m9",
    "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k",
    "M-CLIP/XLM-Roberta-Large-Vit-L-14",
    "M-CLIP/XLM-Roberta-Large-Vit-B-32",
    "sentence-transformers/clip-ViT-B-32-multilingual-v1",
}


def test_the_file_has_only_fields_that_are_read():
    raw = json.loads(files("capscore.backbones").joinpath("registry.json").read_text(encoding="utf-8"))
    known = {field.name for field in fields(Known)}
    assert all(set(row) <= known for row in raw["backbones"])
    assert len(raw["backbones"]) == len(ENTRIES), "two rows have one name"


def test_no_name_or_alias_means_two_things():
    names = [name for entry in ENTRIES for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))
    assert all(find(name) is not None for name in names)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_is_whole(entry):
    assert entry.kind in {
        "embedded",
        "open_clip",
        "transformers",
        "multilingual_clip",
        "sentence_transformers",
        "tuned",
    }
    assert entry.model and entry.dim > 0
    assert entry.revision == "" or re.fullmatch("[0-9a-f]{40}", entry.revision)
    assert entry.prefix == ("A photo depicts " if entry.languages == ("en",) else "")
    assert list(entry.languages) == sorted(set(entry.languages))
    # as `language_code` gives them, so that a code in its other form is not taken for an unknown language
    assert [language_code(language) for language in entry.languages] == list(entry.languages)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_image_towers_are_known_and_have_the_same_length(entry):
    needs_one = entry.kind in {"multilingual_clip", "sentence_transformers"}
    assert bool(entry.image_tower) == needs_one
    if needs_one:
        tower = find(entry.image_tower)
        assert tower is not None and tower.name == entry.image_tower
        assert tower.dim == entry.dim


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_fine_tuned_companions_and_their_bases_are_known(entry):
    assert bool(entry.base) == (entry.kind == "tuned")
    for companion in entry.tuned.values():
        assert registry()[companion].dim == entry.dim
    if entry.base:
        base = registry()[entry.base]
        assert any(entry.name in other.tuned.values() for other in ENTRIES)
        assert (base.dim, base.prefix) == (entry.dim, entry.prefix)


def test_open_clip_has_every_pair_and_agrees_on_the_length():
    import open_clip

    pairs = set(open_clip.list_pretrained())
    for entry in ENTRIES:
        if entry.kind == "open_clip":
            assert (entry.model, entry.pretrained) in pairs
            assert entry.name == f"{entry.model}/{entry.pretrained}"
            assert open_clip.get_model_config(entry.model)["embed_dim"] == entry.dim


def test_activations_are_those_the_weights_were_trained_with():
    """A tag trained with QuickGELU belongs to an architecture with it."""
    import open_clip
    from open_clip.pretrained import get_pretrained_cfg

    for entry in ENTRIES:
        if entry.kind == "open_clip":
            trained = get_pretrained_cfg(entry.model, entry.pretrained).get("quick_gelu") or False
            assert open_clip.get_model_config(entry.model).get("quick_gelu", False) == trained


def test_all_eighteen_rows_of_figures_are_there_and_whole():
    figures = {entry.name: entry.agreement for entry in ENTRIES if entry.agreement}
    assert set(figures) == WITH_FIGURES and len(WITH_FIGURES) == 18
    for benchmarks in figures.values():
        assert list(benchmarks) == ["VICR", "Flickr8k-Expert", "Flickr8k-CF", "Composite"]
        for coefficients in benchmarks.values():
            assert list(coefficients) == ["tau_b", "tau_c", "rho"]
            assert all(0 < value < 100 for value in coefficients.values())


def test_some_figures_word_for_word():
    assert flat("ViT-B-32-quickgelu/openai") == [
        *(60.7, 67.1, 76.9, 51.1, 51.5, 63.1, 34.4, 17.8, 42.4, 50.6, 51.4, 67.9)
    ]
    assert flat("xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k") == [
        *(67.6, 73.0, 82.4, 57.4, 54.3, 67.3, 38.2, 19.4, 46.2, 55.5, 56.2, 73.2)
    ]
    assert flat("sentence-transformers/clip-ViT-B-32-multilingual-v1") == [
        *(60.3, 66.7, 76.6, 51.5, 51.8, 63.6, 33.3, 17.2, 41.1, 48.9, 49.6, 65.9)
    ]


def test_column_sums_of_all_eighteen_rows():
    """A second look at the transcription: each column's sum, added up from the printed table by itself."""
    sums = [sum(column) for column in zip(*map(flat, sorted(WITH_FIGURES)), strict=True)]
    assert sums == pytest.approx(COLUMN_SUMS, abs=1e-9)


COLUMN_SUMS = [1157.8, 1276.3, 1444.1, 972.3, 973.3, 1186.0, 652.0, 336.5, 801.2, 954.0, 967.8, 1270.1]


def flat(name: str) -> list[float]:
    return [value for row in registry()[name].agreement.values() for value in row.values()]


def test_languages_as_the_makers_state_them():
    assert registry()["BAAI/AltCLIP-m9"].languages == ("ar", "en", "es", "fr", "it", "ja", "ko", "ru", "zh")
    assert len(registry()["BAAI/AltCLIP-m18"].languages) == 18
    assert {"th", "hi", "uk", "vi"} <= set(registry()["BAAI/AltCLIP-m18"].languages)
    assert registry()["BAAI/AltCLIP"].languages == ("en", "zh")


def test_aliases_and_near_misses():
    assert find("openai/clip-vit-base-patch32").name == "ViT-B-32-quickgelu/openai"
    assert find("nobody/nothing") is None
