"""Statistics of captions: counted by hand, and Crossmodal-3600's published table."""

from __future__ import annotations

import json

import pytest

from capscore import CapscoreError, InputError
from capscore.benchmarks.caption_statistics import (
    caption_statistics,
    count_captions,
    published_statistics,
)
from capscore.benchmarks.data.load import builder_class

from ..datasets_scripts.conftest import _own_cache, official

__all__ = ["_own_cache"]


@pytest.fixture
def folder(tmp_path):
    official("xm3600").write(tmp_path)
    return tmp_path


def test_counted_by_hand():
    # 2, 1, 0 and 3 captions; words 3 2 1 1 1 4, characters 7 6 1 1 1 7
    found = count_captions([["a bc de\t", "abc  de"], ["x"], [], ["y", "z", "a b c d"]])
    assert (found["captions"], found["photos"]) == (6, 4)
    assert [found[f"photos_with_{n}"] for n in ("1", "2", "3_or_more")] == [1, 1, 1]
    assert found["words"] == pytest.approx((3 + 2 + 1 + 1 + 1 + 4) / 6, abs=1e-12)
    assert found["characters"] == pytest.approx((7 + 6 + 1 + 1 + 1 + 7) / 6, abs=1e-12)
    none = count_captions([[]])
    assert (none["captions"], none["words"], none["characters"]) == (0, None, None)


def test_the_columns_of_table_1_from_the_files(folder):
    table = caption_statistics("xm3600", data_dir=folder)
    assert [part["config"] for part in table["configs"]] == ["bn", "de", "quz"]
    german = table["configs"][1]
    # "Ein Hund am Strand", "Hund läuft im Sand", "Zwei Kinder": two blanks of the file count as one
    assert [german[name] for name in ("captions", "photos_with_1", "photos_with_2")] == [3, 1, 1]
    assert german["words"] == pytest.approx((4 + 4 + 2) / 3, abs=1e-12)
    assert german["characters"] == pytest.approx((18 + 18 + 11) / 3, abs=1e-12)
    assert german["source"] == "Thapliyal et al. 2022, Table 1"
    assert german["published"] == {
        **{"captions": 8643, "photos_with_1": 0, "photos_with_2": 2240, "photos_with_3_or_more": 1360},
        **{"words": 11.2, "characters": 76.5},
    }
    assert german["differing"] == sorted(german["published"])
    assert len(table["missing"]) == 33 and "lacks the field 'zh'" in table["missing"]["zh"]
    assert json.loads(json.dumps(table))["configs"][2]["language"] == "qu"


def test_what_is_as_published_is_not_told(folder, monkeypatch):
    printed = {"captions": 3, "photos_with_1": 1, "words": 3.3, "characters": 15.6}
    monkeypatch.setattr(
        "capscore.benchmarks.caption_statistics.published_statistics", lambda *_: (printed, "a table")
    )
    (german,) = caption_statistics("xm3600", ["de"], data_dir=folder)["configs"]
    assert german["differing"] == ["characters"]  # 15.67 is 15.7 in print


def test_the_published_table_adds_up():
    configs = [config.name for config in builder_class("xm3600").BUILDER_CONFIGS]
    tables = {name: published_statistics("xm3600", name)[0] for name in configs}
    assert sum(table["captions"] for table in tables.values()) == 261_375
    for name, table in tables.items():
        ones, twos, more = (table[f"photos_with_{n}"] for n in ("1", "2", "3_or_more"))
        assert ones + twos + more == 3600
        assert table["captions"] >= ones + 2 * twos + 3 * more
        assert table["captions"] == builder_class("xm3600").COUNTS[name]["test"]["captions"]
    assert (tables["vi"]["words"], tables["id"]["characters"], tables["ja"]["words"]) == (18.0, 93.5, 1.0)
    assert published_statistics("multi30k", "en") == ({}, "")


def test_what_cannot_be_counted(folder, tmp_path):
    with pytest.raises(InputError, match="'vicr' is not a set of captioned photos; those are xm3600"):
        caption_statistics("vicr", data_dir=folder)
    with pytest.raises(CapscoreError, match=r"captions\.jsonl, line 1: lacks the field 'fr'"):
        caption_statistics("xm3600", ["fr"], data_dir=folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CapscoreError, match=r"no configuration of xm3600 can be read: .*captions\.jsonl"):
        caption_statistics("xm3600", data_dir=tmp_path / "empty")
