"""A benchmark as Parquet: `load_dataset` reads it without a script, on this and every other `datasets`."""

from __future__ import annotations

import datasets
import pytest
import yaml

import capscore
from capscore.benchmarks.data.export import export_benchmark

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
    out = export_benchmark("flickr8k_human", tmp_path / "out", ["crowdflower"], data_dir=folder)
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


def test_what_datasets_reads_in_the_card_is_whole(tmp_path, caplog):
    """It says so, as a warning of its log, where a part of the card is of no use to it."""
    folder = write(tmp_path / "files")
    out = export_benchmark("flickr8k_human", tmp_path / "out", ["expert"], data_dir=folder)
    with caplog.at_level("WARNING", logger="datasets"):
        datasets.logging.enable_propagation()
        try:
            builder = datasets.load_dataset_builder(str(out), "expert")
        finally:
            datasets.logging.disable_propagation()
    assert caplog.messages == []
    assert builder.info.splits["test"].num_examples == 2
    assert builder.info.splits["test"].num_bytes > 0


def test_rows_that_are_missing_in_an_exported_folder_are_noticed(tmp_path):
    import pyarrow.parquet as pq

    folder = write(tmp_path / "files")
    out = export_benchmark("flickr8k_human", tmp_path / "out", ["expert"], data_dir=folder)
    path = out / "expert" / "flickr8k_human-test.parquet"
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    with pytest.raises(datasets.exceptions.NonMatchingSplitsSizesError):
        datasets.load_dataset(str(out), "expert")


def test_what_was_not_written_by_an_export_is_left_alone(tmp_path, monkeypatch):
    folder = write(tmp_path / "files")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "README.md").write_text("# Mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(mine)
    for out in (folder, mine, tmp_path / "file", tmp_path / "link"):
        with pytest.raises(capscore.InputError, match="is not an exported benchmark; it is left alone"):
            export_benchmark("flickr8k_human", out, ["expert"], data_dir=folder, force=True)
    assert (mine / "README.md").read_text() == "# Mine"
    assert (tmp_path / "file").read_text() == "mine"
    empty = tmp_path / "empty"
    empty.mkdir()
    export_benchmark("flickr8k_human", empty, ["expert"], data_dir=folder, force=True)
    # the files that are read, or where a person is, may lie in a folder that was exported
    inner = write(empty / "files")
    for needed in ({"data_dir": inner}, {"data_dir": folder, "image_dir": inner}):
        with pytest.raises(capscore.InputError, match=r"is not replaced, for .*files lies in it"):
            export_benchmark("flickr8k_human", empty, ["expert"], force=True, **needed)
    monkeypatch.chdir(inner)
    with pytest.raises(capscore.InputError, match=r"is not replaced, for .*files lies in it"):
        export_benchmark("flickr8k_human", empty, ["expert"], data_dir=folder, force=True)
    assert (inner / "ExpertAnnotations.txt").is_file()


def test_a_home_folder_by_its_sign(tmp_path, monkeypatch):
    folder = write(tmp_path / "files")
    monkeypatch.setenv("HOME", str(tmp_path))
    out = export_benchmark("flickr8k_human", "~/out", ["expert"], data_dir="~/files")
    assert out == tmp_path / "out" and (out / "README.md").is_file()
    with pytest.raises(capscore.InputError, match="nowhere is not a folder"):
        export_benchmark("flickr8k_human", "~/other", ["expert"], data_dir=folder / "nowhere")


def test_missing_photos_are_not_called_a_failure_to_write(tmp_path):
    folder = write(tmp_path / "files")
    with pytest.raises(capscore.MissingImages, match=r"no 111_a\.jpg in"):
        export_benchmark("flickr8k_human", tmp_path / "out", ["expert"], data_dir=folder, images=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files"]


def test_a_full_disk(tmp_path, monkeypatch):
    folder = write(tmp_path / "files")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("datasets.arrow_writer.ParquetWriter.write", full, raising=False)
    with pytest.raises(capscore.ResultWriteError, match=r"out could not be written \(.*No space left"):
        export_benchmark("flickr8k_human", tmp_path / "out", ["expert"], data_dir=folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files"]
