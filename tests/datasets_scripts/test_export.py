"""A benchmark as Parquet: `load_dataset` reads it without a script, on this and every other `datasets`."""

from __future__ import annotations

import datasets
import pytest
import yaml

import capscore
from capscore.data_export import export_benchmark

from .conftest import configurations, official, write_photos

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


def test_exported_rows_are_those_of_the_script(slug, data_dir, tmp_path):
    write_photos(slug, data_dir)
    names = configurations(slug)
    out = export_benchmark(slug, tmp_path / "out", names, data_dir=data_dir)
    for config in names:
        ours = capscore.load_benchmark(slug, config, data_dir=data_dir)
        theirs = datasets.load_dataset(str(out), config)
        assert set(theirs) == set(ours)
        for split in ours:
            assert theirs[split].column_names == ours[split].column_names
            assert list(theirs[split]) == list(ours[split])


def test_no_file_tells_of_this_machine_or_of_this_version(slug, data_dir, tmp_path):
    import pyarrow.parquet as pq

    config = configurations(slug)[0]
    out = export_benchmark(slug, tmp_path / "out", [config], data_dir=data_dir)
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".parquet", ".md"}
    for path in files:
        assert str(tmp_path).encode() not in path.read_bytes()
        if path.suffix == ".parquet":
            assert not pq.read_schema(path).metadata
    front = yaml.safe_load((out / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert [entry["config_name"] for entry in front["configs"]] == [config]
    splits = [split for name, split in official(slug).ROWS if name == config]
    assert [entry["split"] for entry in front["configs"][0]["data_files"]] == splits


def write(folder):
    folder.mkdir()
    official("flickr8k_human").write(folder)
    return folder


def test_without_names_it_exports_what_is_there(tmp_path):
    folder = write(tmp_path / "files")
    (folder / "CrowdFlowerAnnotations.txt").unlink()
    out = export_benchmark("flickr8k_human", tmp_path / "out", data_dir=folder)
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "expert"]
    with pytest.raises(capscore.MissingAnnotations, match=r"CrowdFlowerAnnotations\.txt"):
        export_benchmark("flickr8k_human", tmp_path / "other", ["crowdflower"], data_dir=folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "out"]


def test_a_folder_is_replaced_only_if_told_to_and_only_by_a_whole_one(tmp_path):
    folder = write(tmp_path / "files")
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(capscore.InputError, match="exists"):
        export_benchmark("flickr8k_human", out, ["expert"], data_dir=folder)
    damaged = write(tmp_path / "damaged")
    (damaged / "ExpertAnnotations.txt").write_text("a\tb\n")
    with pytest.raises(capscore.AnnotationError, match="line 1"):
        export_benchmark("flickr8k_human", out, ["expert"], data_dir=damaged, force=True)
    assert (out / "mine.txt").read_text() == "mine"
    export_benchmark("flickr8k_human", out, ["expert"], data_dir=folder, force=True)
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "expert"]
