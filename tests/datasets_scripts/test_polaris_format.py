"""The Parquet files of Polaris and Nebula, with photos inside; which file is read; what can be downloaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import capscore
from capscore.benchmarks.data.load import benchmark_builder

from .official import nebula, polaris


@pytest.fixture
def hub(tmp_path):
    nebula.write_parquet(tmp_path)
    return tmp_path


def embedded(folder, slug, split):
    from pyarrow import parquet

    column = "image" if slug == "nebula" else "img"
    found = []
    for path in sorted((folder / "data").glob(f"{split}-*")):
        found += [row["bytes"] for row in parquet.read_table(path).column(column).to_pylist()]
    return found


def test_photos_are_those_inside_the_files(hub):
    loaded = capscore.load_benchmark("nebula", "default", data_dir=hub, split="train", images=True)
    assert loaded["image_id"] == ["cc33.png", "dd44.png"]
    import datasets

    raw = loaded.cast_column("image", datasets.Image(decode=False))
    assert [photo["bytes"] for photo in raw["image"]] == embedded(hub, "nebula", "train")


def test_photos_left_out(hub):
    loaded = capscore.load_benchmark("nebula", "default", data_dir=hub, split="train", images=False)
    assert list(loaded["image"]) == [None, None]


def test_examples_have_paths_and_each_photo_is_written_once(tmp_path):
    polaris.write_parquet(tmp_path)
    builder = benchmark_builder("polaris", "default", data_dir=tmp_path, cache_dir=tmp_path / "cache")
    for _ in range(2):
        rows = [row for _, row in builder.examples("test")]
        assert [Path(row["image"]).read_bytes() for row in rows] == embedded(tmp_path, "polaris", "test")
    files = [path for path in (tmp_path / "cache" / "polaris" / "photos").rglob("*") if path.is_file()]
    assert sorted(files) == sorted({Path(row["image"]) for row in rows})
    assert len(files) == 2  # two judgements are of one photo


def test_a_photo_without_a_name_is_called_after_its_content(tmp_path):
    import pyarrow
    from pyarrow import parquet

    row = {"refs": ["a"], "cand": "b", "img": {"bytes": b"some photo", "path": None}, "human_score": 1.0}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "test-00000-of-00001.parquet")
    builder = benchmark_builder("polaris", "default", data_dir=tmp_path)
    assert [row["image_id"] for _, row in builder.rows("test")] == [
        f"{hashlib.md5(b'some photo').hexdigest()}.jpg"
    ]


def test_photos_come_from_the_parquet_files_where_there_are_tables_too(tmp_path):
    polaris.write(tmp_path)
    polaris.write_parquet(tmp_path)
    assert capscore.load_benchmark("polaris", "default", data_dir=tmp_path, split="test").num_rows == 3
    assert capscore.load_benchmark("polaris", "default", data_dir=tmp_path, split="validation").num_rows == 1


def test_a_part_is_missing(tmp_path):
    polaris.write_parquet(tmp_path)
    (tmp_path / "data" / "test-00001-of-00002.parquet").unlink()
    with pytest.warns(capscore.BenchmarkWarning, match="were published: is a file cut short"):
        capscore.load_benchmark("polaris", "default", data_dir=tmp_path, split="test")


@pytest.mark.parametrize("length", [0, 3, 200, -20])
def test_a_parquet_file_cut_short(hub, length):
    path = hub / "data" / "test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(
        capscore.AnnotationError, match=r"test-00000-of-00001\.parquet: is not Parquet, or cut short"
    ):
        capscore.load_benchmark("nebula", "default", data_dir=hub, split="test")


def test_a_parquet_file_with_other_columns(hub):
    import pyarrow
    from pyarrow import parquet

    path = hub / "data" / "test-00000-of-00001.parquet"
    parquet.write_table(pyarrow.table({"refs": [["a"]], "mt": ["b"]}), path)
    with pytest.raises(
        capscore.AnnotationError, match=r"entry 0: lacks the field 'file_name'; it has refs, mt"
    ):
        capscore.load_benchmark("nebula", "default", data_dir=hub, split="test")
    parquet.write_table(pyarrow.table({"mt": ["b"], "imgid": ["x"], "score": [0.5]}), path)
    with pytest.raises(capscore.AnnotationError, match=r"lacks the field 'refs'; it has mt"):
        capscore.load_benchmark("nebula", "default", data_dir=hub, split="test")


def test_splits_are_those_whose_files_are_there(tmp_path):
    assert benchmark_builder("polaris", "default", data_dir=tmp_path).splits() == (
        "train",
        "validation",
        "test",
    )
    polaris.write_json(tmp_path)
    assert benchmark_builder("polaris", "default", data_dir=tmp_path).splits() == ("test",)


def test_splits_that_can_be_downloaded():
    assert benchmark_builder("nebula", "default").splits() == ("test",)
    assert benchmark_builder("nebula", "explained").splits() == ("validation",)
    assert benchmark_builder("polaris", "explained").splits() == ("validation",)
    assert benchmark_builder("polaris", "default").splits() == ("train", "validation", "test")


def test_a_photo_is_looked_for_with_and_without_a_suffix(tmp_path):
    polaris.write(tmp_path)
    rows = dict(benchmark_builder("polaris", "default", data_dir=tmp_path).rows("train"))
    assert rows["0"]["image"] == ["aa11.jpg", "aa11"]
    table = tmp_path / "polaris_train.csv"
    table.write_text(table.read_text().replace("aa11", "aa11.PNG"))
    rows = dict(benchmark_builder("polaris", "default", data_dir=tmp_path).rows("train"))
    assert (rows["0"]["image_id"], rows["0"]["image"]) == ("aa11.PNG", ["aa11.PNG"])
