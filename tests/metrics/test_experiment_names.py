"""Names of experiments become names of files: what cannot be one is an error before anything is written."""

from __future__ import annotations

from pathlib import Path

import evaluate
import pytest

from capscore import module_folder
from capscore.errors import InputError


@pytest.mark.parametrize("name", ["a/b", "../x", "/etc/x", "a\\b", "a\0b", "a\nb", "x" * 300, "\ud800"])
def test_a_name_that_no_file_can_have(tmp_path, name):
    with pytest.raises(InputError, match="expected at most 60 letters") as caught:
        evaluate.load(module_folder("cider"), experiment_id=name, cache_dir=str(tmp_path / "cache"))
    assert caught.value.option == "experiment_id"
    assert not list(tmp_path.rglob("*.arrow*"))


@pytest.mark.parametrize("name", [None, "", "run 7", "lauf_ä", 3])
def test_names_that_files_have(tmp_path, name):
    module = evaluate.load(module_folder("cider"), experiment_id=name, cache_dir=str(tmp_path))
    result = module.compute(predictions=["a cat", "a dog"], references=[["a cat"], ["a dog"]])
    assert result["n_items"] == 2
    assert all(Path(tmp_path) in path.parents for path in tmp_path.rglob("*.arrow*"))
