"""BibTeX of what stands behind a number."""

import json
import re

import pytest

from capscore.backbones import registry
from capscore.errors import InputError
from capscore.registry import METRICS
from capscore.show.citations import cite, entries, keys_of_backbone

from ..cli.conftest import run
from ..processes import ROOT

MCS = "mcs|backbone:embedded@w4e728dcc|w:2.5|prefix:none|refs:0|lang:en|dtype:fp32|exif:yes|version:0.6.0"


def keys(found: list[str]) -> list[str]:
    return [re.match(r"@\w+\{([\w-]+),", entry)[1] for entry in found]


def test_every_entry_has_its_parts():
    for key, entry in entries().items():
        assert entry.count("{") == entry.count("}"), key
        for part in ("title = ", "author = ", "year = {"):
            assert part in entry, key


def test_every_metric_and_every_known_backbone_has_a_paper():
    assert all(METRICS.get(name).citation for name in METRICS.builtin)
    used = {key for name in METRICS.builtin for key in METRICS.get(name).citation}
    for name in registry():
        assert keys_of_backbone(name), name
        used.update(keys_of_backbone(name))
    assert used == set(entries()), "nothing is missing, and nothing is left over"


def test_the_entry_of_a_module_is_the_same():
    for path in ROOT.glob("metrics/*/[a-z]*.py"):
        if path.stem == path.parent.name:
            citation = re.search(r'_CITATION = r?"""(.*?)"""', path.read_text("utf-8"), re.DOTALL)
            assert citation and citation[1].replace("\\\n", "").strip() in entries().values(), path


def test_a_signature_is_cited_with_library_metric_backbone_and_benchmark():
    found, notes = cite(MCS, ["valse"])
    towers = ["hessel-etal-2021-clipscore", "yang-etal-2020-multilingual", "tan-le-2019-efficientnet"]
    assert keys(found)[:-1] == ["capscore", "kim-etal-2023-pr-mcs", *towers]
    assert "VALSE" in found[-1] and "version = {0.6.0}" in found[0] and notes == []
    found, notes = cite("mcs|backbone:someone/tower@0123|version:0.6.0")
    assert len(found) == len(cite("mcs")[0]) == 3
    assert notes == ["no citation is known for the backbone someone/tower: see its own card"]


@pytest.mark.parametrize("text", ["", "nonsense|a:b", "mcs|what"])
def test_invalid_signatures_are_refused(text):
    with pytest.raises(InputError):
        cite(text)


def test_a_result_file_is_cited_as_its_signatures(tmp_path):
    done = run("cite", MCS, "--data", "valse")
    assert done.exit_code == 0 and done.stdout.startswith("@software{capscore,")
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"benchmark": "valse", "results": [{"signature": MCS}]}))
    assert run("cite", path).stdout == done.stdout
    path.write_text("[]")
    assert "is not a result file" in run("cite", path).stderr
