"""A benchmark as Parquet: which folders it replaces, and what is left when it fails."""

from unittest import mock

import datasets
import pyarrow.parquet as pq
import pytest

import capscore
from capscore.benchmarks.data.export import export_benchmark

from .conftest import official


def export(out, *configs, **options):
    return export_benchmark("flickr8k_human", out, configs or None, **options)


@pytest.fixture
def folder(written):
    return written("flickr8k_human")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_without_names_available_configurations_are_exported(folder, tmp_path, monkeypatch):
    (folder / "CrowdFlowerAnnotations.txt").unlink()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert names(export("~/out", data_dir="~/flickr8k_human")) == ["README.md", "expert"]
    with pytest.raises(capscore.InputError, match="nowhere is not a folder"):
        export("~/other", "expert", data_dir=folder / "nowhere")
    with pytest.raises(capscore.MissingAnnotations, match=r"CrowdFlowerAnnotations\.txt"):
        export(tmp_path / "other", "crowdflower", data_dir=folder)
    assert names(tmp_path) == ["flickr8k_human", "out"]


def test_a_folder_is_replaced_only_on_demand_and_only_by_a_whole_one(folder, tmp_path):
    out = export(tmp_path / "out", "crowdflower", data_dir=folder)
    (out / "mine.txt").write_text("mine")
    with pytest.raises(capscore.InputError, match="exists"):
        export(out, "expert", data_dir=folder)
    content = (folder / "ExpertAnnotations.txt").read_text()
    (folder / "ExpertAnnotations.txt").write_text("a\tb\n")
    with pytest.raises(capscore.AnnotationError, match="line 1"):
        export(out, "expert", data_dir=folder, force=True)
    assert (out / "mine.txt").read_text() == "mine"
    (folder / "ExpertAnnotations.txt").write_text(content)
    assert names(export(out, "expert", data_dir=folder, force=True)) == ["README.md", "expert"]


def test_datasets_reads_all_of_the_card_and_notices_missing_rows(folder, tmp_path, caplog):
    out = export(tmp_path / "out", "expert", data_dir=folder)
    with caplog.at_level("WARNING", logger="datasets"):
        datasets.logging.enable_propagation()
        try:
            builder = datasets.load_dataset_builder(str(out), "expert")
        finally:
            datasets.logging.disable_propagation()
    assert caplog.messages == [], "it says so where a part of the card is of no use to it"
    assert builder.info.splits["test"].num_examples == 2 and builder.info.splits["test"].num_bytes > 0
    path = out / "expert" / "flickr8k_human-test.parquet"
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    with pytest.raises(datasets.exceptions.NonMatchingSplitsSizesError):
        datasets.load_dataset(str(out), "expert")


def test_export_keeps_files_that_it_did_not_write(folder, tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "README.md").write_text("# Mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(mine)
    for out in (folder, mine, tmp_path / "file", tmp_path / "link"):
        with pytest.raises(capscore.InputError, match="is not an exported benchmark; it is left alone"):
            export(out, "expert", data_dir=folder, force=True)
    assert (mine / "README.md").read_text() == "# Mine" and (tmp_path / "file").read_text() == "mine"
    empty = tmp_path / "empty"
    empty.mkdir()
    export(empty, "expert", data_dir=folder, force=True)
    # the files that are read, or where a person is, may lie in a folder that was exported
    inner = empty / "files"
    inner.mkdir()
    official("flickr8k_human").write(inner)
    for needed in ({"data_dir": inner}, {"data_dir": folder, "image_dir": inner}):
        with pytest.raises(capscore.InputError, match=r"is not replaced, because .*files is in it"):
            export(empty, "expert", force=True, **needed)
    monkeypatch.chdir(inner)
    with pytest.raises(capscore.InputError, match=r"is not replaced, because .*files is in it"):
        export(empty, "expert", data_dir=folder, force=True)
    assert (inner / "ExpertAnnotations.txt").is_file()


def test_missing_photos_or_a_full_disk_leave_nothing(folder, tmp_path, monkeypatch):
    with pytest.raises(capscore.MissingImages, match=r"no 111_a\.jpg in"):
        export(tmp_path / "out", "expert", data_dir=folder, images=True)
    full = mock.Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("datasets.arrow_writer.ParquetWriter.write", full, raising=False)
    with pytest.raises(capscore.ResultWriteError, match=r"out could not be written \(.*No space left"):
        export(tmp_path / "out", "expert", data_dir=folder)
    assert names(tmp_path) == ["flickr8k_human"]
