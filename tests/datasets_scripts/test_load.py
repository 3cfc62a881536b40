"""`capscore.load_benchmark`: what may be asked for, how a wrong wish is answered, several at once."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import datasets
import pytest
from packaging.version import Version

import capscore
from capscore.benchmarks.data import load as data_sets
from capscore.benchmarks.data.load import benchmark_builder, builder_class

from ..processes import Process
from .conftest import SCRIPTS, official

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")
READING = Path(capscore.__file__).parent / "benchmarks" / "data"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "xvnli"
    made.mkdir()
    official("xvnli").write(made)
    return made


@pytest.fixture
def rows(folder):
    return capscore.load_benchmark("xvnli", "fr", data_dir=folder, split="test")


# ---------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize(
    "way", ["slash", "tilde", "relative", "around", "path", "link", "blanks and letters"]
)
def test_a_folder_by_any_name(folder, rows, tmp_path, monkeypatch, way):
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.chdir(folder.parent)
    (tmp_path / "link").symlink_to(folder)
    odd = tmp_path / "données d’ici 日本"
    odd.mkdir()
    official("xvnli").write(odd)
    name = {
        "slash": f"{folder}/",
        "tilde": f"~/{folder.name}",
        "relative": folder.name,
        "around": f"{folder.name}/../{folder.name}/.",
        "path": folder,
        "link": tmp_path / "link",
        "blanks and letters": str(odd),
    }[way]
    assert list(capscore.load_benchmark("xvnli", "fr", data_dir=name, split="test")) == list(rows)


@pytest.mark.parametrize("name", ["nowhere", "~nobody-of-that-name/xvnli", "fr/test.jsonl"])
def test_a_folder_that_is_none(folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    with pytest.raises(capscore.MissingAnnotations, match=rf"data_dir=.*{name}' is not a folder"):
        capscore.load_benchmark("xvnli", "fr", data_dir=name)


def test_an_empty_name_is_not_taken_for_a_wish_to_download():
    with pytest.raises(capscore.InputError, match="data_dir: is empty, expected a folder, or None"):
        capscore.load_benchmark("xvnli", "fr", data_dir="")


@pytest.mark.parametrize(
    "split, start, stop",
    [("test[:50%]", 0, 3), ("test[2:]", 2, 6), ("test[:1]+test[-1:]", None, None), ("test", 0, 6)],
)
def test_a_part_of_a_split(folder, rows, split, start, stop):
    expected = [rows[0], rows[-1]] if start is None else list(rows.select(range(len(rows))))[start:stop]
    found = capscore.load_benchmark("xvnli", "fr", data_dir=folder, split=split)
    assert list(found) == expected


@pytest.mark.parametrize(
    "split, message",
    [
        ("tset", r"xvnli \(fr\) has no split 'tset': one of test"),
        ("test+dev", r"xvnli \(fr\) has no split 'dev': one of test$"),
        ("train[:10%]", r"xvnli \(fr\) has no split 'train': one of test$"),
        ("test[:10%", r"'test\[:10%': .*expected such as 'test\[:10%\]'"),
        ("test[:110%]", r"'test\[:110%\]': "),
        ("", r"xvnli \(fr\) has no split ''"),
    ],
)
def test_a_split_that_is_none(folder, split, message):
    with pytest.raises(capscore.InputError, match=f"split: {message}"):
        capscore.load_benchmark("xvnli", "fr", data_dir=folder, split=split)


def test_a_split_as_datasets_has_them(folder, rows):
    for split in (datasets.Split.TEST, datasets.ReadInstruction("test", to=2, unit="abs")):
        found = capscore.load_benchmark("xvnli", "fr", data_dir=folder, split=split)
        assert list(found) == list(rows)[: found.num_rows]
        assert found.num_rows == (6 if split == "test" else 2)


@pytest.mark.parametrize("split", ["test[:2]", "test+test", "all"])
def test_a_stream_is_of_one_whole_split(folder, split):
    with pytest.raises(capscore.InputError, match=r"a stream is of one whole split, of test; take and skip"):
        capscore.load_benchmark("xvnli", "fr", data_dir=folder, split=split, streaming=True)


def test_configurations_and_options_that_there_are_not(folder):
    load = capscore.load_benchmark
    for arguments, message in (
        (("xvnl", "fr"), r"there is no benchmark 'xvnl': .*xvnli"),
        (("flickr8k-human",), r"'flickr8k-human'.*flickr8k_human"),
        (("xvnli", "FR"), r"no configuration 'FR': expected one of en, ar, es, fr, ru"),
        (("xvnli",), r"xvnli needs a configuration: expected one of en, ar, es, fr, ru$"),
    ):
        with pytest.raises(capscore.CapscoreError, match=message):
            load(*arguments, data_dir=folder)


@pytest.mark.parametrize(
    "slug, options, message",
    [
        (
            "composite",
            {"questoin": "x"},
            r"composite has no option 'questoin': its options are question, candidates, human_reference",
        ),
        ("thumb", {"language": "de"}, r"thumb has no option 'language': it has none$"),
        ("thumb", {"create_config_id": 1}, r"thumb has no option 'create_config_id'"),
        ("composite", {"human_reference": "no"}, r"human_reference='no': expected bool, such as False"),
        ("composite", {"candidates": True}, r"candidates=True: expected int, such as 3"),
        ("composite", {"question": "x"}, r"question: expected one of correctness, thoroughness"),
    ],
)
def test_options_that_there_are_not(tmp_path, slug, options, message):
    official(slug).write(tmp_path)
    with pytest.raises(capscore.InputError, match=message):
        capscore.load_benchmark(slug, data_dir=tmp_path, options=options)


def test_images_are_asked_for_with_true_false_or_none(folder):
    with pytest.raises(capscore.InputError, match="images: 'yes': expected None, True or False"):
        capscore.load_benchmark("xvnli", "fr", data_dir=folder, images="yes")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_cache_that_cannot_be_made(folder, tmp_path, streaming):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        capscore.ResultWriteError, match=r"cannot be prepared in .*file \(File exists\); cache_"
    ):
        capscore.load_benchmark(
            "xvnli", "fr", data_dir=folder, cache_dir=tmp_path / "file", streaming=streaming
        )


# ------------------------------------------------------------------------------- streams


def test_a_stream_is_shuffled_cut_and_read_again(folder, rows):
    stream = capscore.load_benchmark("xvnli", "fr", data_dir=folder, split="test", streaming=True)
    assert list(stream.take(2)) == list(rows)[:2]
    assert list(stream.skip(3)) == list(rows)[3:]
    shuffled = list(stream.shuffle(seed=1, buffer_size=3))
    assert sorted(row["id"] for row in shuffled) == sorted(rows["id"])
    assert list(stream) == list(rows)


def test_a_damaged_file_ends_a_stream_at_its_line(folder):
    path = folder / "fr" / "test.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    stream = capscore.load_benchmark("xvnli", "fr", data_dir=folder, split="test", streaming=True)
    assert len(list(stream.take(2))) == 2
    with pytest.raises(capscore.AnnotationError, match=r"test\.jsonl, line 4: is not JSON"):
        list(stream)


# ------------------------------------------------------------------------- several at once


def test_several_threads_load_a_script_at_once(folder, monkeypatch):
    """The second must wait until the first has the whole module, however long that takes."""
    source = SCRIPTS / "xvnli" / "xvnli.py"
    slow = folder / "xvnli.py"
    slow.write_text("import time\ntime.sleep(0.3)\n" + source.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(data_sets, "benchmark_folder", lambda slug: str(folder))
    before = sys.modules.pop("capscore_benchmarks.xvnli", None)
    found = []

    def find():
        try:
            found.append(builder_class("xvnli").__name__)
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=find) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        del sys.modules["capscore_benchmarks.xvnli"]
        if before is not None:
            sys.modules["capscore_benchmarks.xvnli"] = before
    assert found == ["Xvnli"] * 4


def test_several_processes_prepare_the_same_rows(folder, tmp_path):
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); import capscore; "
        "print(capscore.load_benchmark('xvnli', 'fr', data_dir=sys.argv[1], cache_dir=sys.argv[2], "
        "split='test').num_rows)"
    )
    started = [Process(["-c", code, folder, tmp_path / "cache"]) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in started] == ["6", "6"]
    assert len(list((tmp_path / "cache").rglob("*.arrow"))) == 1


def test_loaded_rows_are_mapped_by_several_processes(rows):
    counted = rows.map(lambda row: {"length": len(row["caption"])}, num_proc=2)
    assert counted["length"] == [len(caption) for caption in rows["caption"]]


# ------------------------------------------------------------- when rows are prepared again


def test_other_code_prepares_other_rows(folder, monkeypatch, tmp_path):
    before = benchmark_builder("xvnli", "fr", data_dir=folder).cache_dir
    assert benchmark_builder("xvnli", "fr", data_dir=folder).cache_dir == before
    for path in READING.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(data_sets, "__file__", str(tmp_path / "load.py"))
    assert benchmark_builder("xvnli", "fr", data_dir=folder).cache_dir == before
    (tmp_path / "polaris_format.py").write_text("changed")
    assert benchmark_builder("xvnli", "fr", data_dir=folder).cache_dir != before


@pytest.mark.skipif(
    Version(datasets.__version__) >= Version("4"), reason="datasets 4 and later run no loading scripts"
)
def test_datasets_itself_reads_a_changed_file_again(folder, tmp_path):
    def labels():
        return datasets.load_dataset(
            str(SCRIPTS / "xvnli"),
            "fr",
            data_dir=str(folder),
            split="test",
            cache_dir=str(tmp_path / "cache"),
            trust_remote_code=True,
        )["label"]

    before = labels()
    path = folder / "fr" / "test.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace(f'"{before[0]}"', '"neutral"', 1), encoding="utf-8"
    )
    assert labels() == ["neutral", *before[1:]]
