"""A folder of benchmarks: what it allows is run, and of the rest it is said why not."""

from __future__ import annotations

import functools

import pytest

import capscore
from capscore import InputError
from capscore.benchmarks import run_suite
from capscore.benchmarks.suite import benchmark_home, members
from capscore.benchmarks.tasks import TaskOptions

quick = TaskOptions(bootstrap=0)
rouge = {"rouge_l": functools.partial(capscore.load, "rouge_l")}
pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


def test_members():
    english, multilingual, everything = (set(members(suite)) for suite in ("english", "multilingual", "all"))
    assert ("flickr8k_human", "expert") in english
    assert ("xvnli", "en") in english and ("xvnli", "fr") in multilingual
    assert not english & multilingual
    assert english | multilingual == everything
    with pytest.raises(InputError, match="'german' is not a suite: one of english, multilingual, all"):
        list(members("german"))


def test_what_is_there_is_run_and_what_is_not_is_told(root):
    seen = []
    found = run_suite("english", root, rouge, options=quick, done=seen.append)
    assert [run.name for run in found.runs] == [run.name for run in seen]
    assert {"flickr8k_human · expert", "flickr8k_human · crowdflower"} <= {run.name for run in found.runs}
    assert "there is no folder" in found.skipped["composite · coco"]
    reason = "rouge_l compares captions with references, and in valse no caption has any"
    assert found.skipped["valse · existence"] == reason
    assert found.failed == {}
    assert set(found.to_dict()) == {"suite", "runs", "skipped", "failed"}


def test_a_damaged_file_does_not_stop_the_others(root):
    (root / "flickr8k_human" / "ExpertAnnotations.txt").write_text("broken\n")
    found = run_suite("english", root, rouge, options=quick)
    assert "line 1: expected 5 tab-separated columns" in found.failed["flickr8k_human · expert"]
    assert "flickr8k_human · crowdflower" in {run.name for run in found.runs}


def test_familiar_folder_names(tmp_path):
    (tmp_path / "flickr8k").mkdir()
    assert benchmark_home(tmp_path, "flickr8k_human") == tmp_path / "flickr8k"
    (tmp_path / "flickr8k_human").mkdir()
    assert benchmark_home(tmp_path, "flickr8k_human") == tmp_path / "flickr8k_human"
    assert benchmark_home(tmp_path, "xvnli") is None
    with pytest.raises(InputError, match="is not a folder"):
        run_suite("all", tmp_path / "nowhere", rouge)
