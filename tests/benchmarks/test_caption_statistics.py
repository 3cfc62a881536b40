"""Statistics of captions: counted by hand, and Crossmodal-3600's published table."""

from __future__ import annotations

import json

import pytest

from capscore import CapscoreError, InputError
from capscore.benchmarks import caption_statistics as module
from capscore.benchmarks.caption_statistics import caption_statistics, count_captions, published_statistics
from capscore.benchmarks.data.load import builder_class

from ..datasets_scripts.conftest import official

PHOTOS = [f"photos_with_{n}" for n in ("1", "2", "3_or_more")]


def test_counted_by_hand():
    # 2, 1, 0 and 3 captions; words 3 2 1 1 1 4, characters 7 6 1 1 1 7
    found = count_captions([["a bc de\t", "abc  de"], ["x"], [], ["y", "z", "a b c d"]])
    assert [found[name] for name in ("captions", "photos", *PHOTOS)] == [6, 4, 1, 1, 1]
    assert found["words"] == pytest.approx((3 + 2 + 1 + 1 + 1 + 4) / 6, abs=1e-12)
    assert found["characters"] == pytest.approx((7 + 6 + 1 + 1 + 1 + 7) / 6, abs=1e-12)
    none = count_captions([[]])
    assert (none["captions"], none["words"], none["characters"]) == (0, None, None)


def test_the_columns_of_table_1_from_the_files(tmp_path, monkeypatch):
    official("xm3600").write(tmp_path)
    table = caption_statistics("xm3600", data_dir=tmp_path)
    assert [part["config"] for part in table["configs"]] == ["bn", "de", "quz"]
    german = table["configs"][1]
    # "Ein Hund am Strand", "Hund läuft im Sand", "Zwei Kinder": two blanks of the file count as one
    assert [german[name] for name in ("captions", *PHOTOS[:2])] == [3, 1, 1]
    assert german["words"] == pytest.approx((4 + 4 + 2) / 3, abs=1e-12)
    assert german["characters"] == pytest.approx((18 + 18 + 11) / 3, abs=1e-12)
    assert german["source"] == "Thapliyal et al. 2022, Table 1"
    assert german["published"] == dict(
        zip(("captions", *PHOTOS, "words", "characters"), (8643, 0, 2240, 1360, 11.2, 76.5), strict=True)
    )
    assert german["differing"] == sorted(german["published"])
    assert len(table["missing"]) == 33 and "lacks the field 'zh'" in table["missing"]["zh"]
    assert json.loads(json.dumps(table))["configs"][2]["language"] == "qu"
    # what is as published is not told: 15.67 is 15.7 in print
    printed = {"captions": 3, "photos_with_1": 1, "words": 3.3, "characters": 15.6}
    monkeypatch.setattr(module, "published_statistics", lambda *_: (printed, "a table"))
    (german,) = caption_statistics("xm3600", ["de"], data_dir=tmp_path)["configs"]
    assert german["differing"] == ["characters"]


def test_the_published_table_adds_up():
    kind = builder_class("xm3600")
    tables = {config.name: published_statistics("xm3600", config.name)[0] for config in kind.BUILDER_CONFIGS}
    assert sum(table["captions"] for table in tables.values()) == 261_375
    for name, table in tables.items():
        ones, twos, more = (table[column] for column in PHOTOS)
        assert ones + twos + more == 3600 and table["captions"] >= ones + 2 * twos + 3 * more
        assert table["captions"] == kind.COUNTS[name]["test"]["captions"]
    assert (tables["vi"]["words"], tables["id"]["characters"], tables["ja"]["words"]) == (18.0, 93.5, 1.0)
    assert published_statistics("multi30k", "en") == ({}, "")


def test_what_cannot_be_counted(tmp_path):
    official("xm3600").write(tmp_path)
    with pytest.raises(InputError, match="'vicr' is not a set of captioned photos; those are xm3600"):
        caption_statistics("vicr", data_dir=tmp_path)
    with pytest.raises(CapscoreError, match=r"captions\.jsonl, line 1: lacks the field 'fr'"):
        caption_statistics("xm3600", ["fr"], data_dir=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CapscoreError, match=r"no configuration of xm3600 can be read: .*captions\.jsonl"):
        caption_statistics("xm3600", data_dir=tmp_path / "empty")
