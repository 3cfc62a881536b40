"""`capscore.load_benchmark`: what may be asked for, downloads, checks, several at once."""

import gzip
import hashlib
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
import pytest

import capscore
from capscore.benchmarks.data import load as data_sets
from capscore.benchmarks.data.check import NOTE, OK, PROBLEM, check_benchmark
from capscore.benchmarks.data.load import benchmark_builder, builder_class

from ..photos import encode, noise
from .conftest import load, official

READING = Path(capscore.__file__).parent / "benchmarks" / "data"


@pytest.fixture
def folder(written):
    return written("xvnli")


@pytest.fixture
def rows(folder):
    return load("xvnli", "fr", folder, "test")


@pytest.mark.parametrize("name", ["{}/", "~/xvnli", "xvnli/../xvnli/.", "link", "données d’ici 日本"])
def test_a_folder_by_any_name(folder, rows, tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to(folder)
    shutil.copytree(folder, "données d’ici 日本", ignore=shutil.ignore_patterns("cache"))
    found = capscore.load_benchmark("xvnli", "fr", data_dir=name.format(folder), split="test")
    assert list(found) == list(rows)


def test_parts_of_a_split_as_datasets_has_them(folder, rows):
    part = datasets.ReadInstruction("test", from_=1, to=3, unit="abs")
    halves = ("test[:50%]", [0, 1, 2]), ("test[:1]+test[-1:]", [0, 5])
    for split, numbers in ((datasets.Split.TEST, range(6)), (part, [1, 2]), *halves):
        assert list(load("xvnli", "fr", folder, split)) == [rows[number] for number in numbers]
    with pytest.raises(capscore.InputError, match="whole split"):
        load("xvnli", "fr", folder, part, streaming=True)


COCO = {"slug": "composite", "config": "coco"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"split": "tset"}, r"split: 'tset' of xvnli \(fr\), which has test: "),
        ({"split": "test+dev"}, r"split: 'test\+dev' of xvnli \(fr\), which has test: "),
        ({"split": "test[:10%"}, r"split: 'test\[:10%' of "),
        ({"split": "test[:110%]"}, r"split: 'test\[:110%\]' of "),
        ({"split": "test[:2]", "streaming": True}, "split: 'test.*: .*; a stream reads one whole split"),
        ({"slug": "xvnl"}, "benchmark 'xvnl' is not one of .*did you mean 'xvnli'"),
        ({"config": "FR"}, "no configuration 'FR': expected one of en, ar, es, fr, ru"),
        ({"config": None}, "xvnli needs a configuration: expected one of en, ar, es, fr, ru$"),
        ({"images": "yes"}, "images: 'yes'"),
        ({"data_dir": ""}, "data_dir: is empty"),
        ({"data_dir": "~nobody-of-that-name/x"}, "data_dir=.*~nobody-of-that-name/x' is not a folder"),
        ({"data_dir": "fr/test.jsonl"}, r"data_dir=.*fr/test\.jsonl' is not a folder"),
        ({"options": {"language": "de"}}, "xvnli has no option 'language'"),
        (COCO | {"options": {"questoin": "x"}}, "'questoin': .* question, candidates, human_reference"),
        (COCO | {"options": {"candidates": True}}, "candidates=True: expected int, such as 3"),
    ],
)
def test_a_wrong_argument_is_named(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    given = {"slug": "xvnli", "config": "fr", "data_dir": folder, **arguments}
    with pytest.raises(capscore.CapscoreError, match=message):
        capscore.load_benchmark(**given)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_cache_that_cannot_be_made(folder, tmp_path, streaming):
    (tmp_path / "file").write_text("")
    with pytest.raises(capscore.ResultWriteError, match=r"prepared in .*file \(File exists\); cache_"):
        load("xvnli", "fr", folder, cache_dir=tmp_path / "file", streaming=streaming)


def test_a_stream_is_shuffled_and_ends_at_a_damaged_line(folder, rows):
    stream = load("xvnli", "fr", folder, "test", streaming=True)
    assert sorted(row["id"] for row in stream.shuffle(seed=1, buffer_size=3)) == sorted(rows["id"])
    path = folder / "fr" / "test.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    stream = load("xvnli", "fr", folder, "test", streaming=True)
    assert len(list(stream.take(2))) == 2
    with pytest.raises(capscore.AnnotationError, match=r"test\.jsonl, line 4: not valid JSON"):
        list(stream)


def test_a_thread_waits_until_another_has_loaded_the_whole_script(folder, monkeypatch):
    source = Path(data_sets.benchmark_folder("xvnli"), "xvnli.py").read_text(encoding="utf-8")
    (folder / "xvnli.py").write_text("import time\ntime.sleep(0.3)\n" + source, encoding="utf-8")
    monkeypatch.setattr(data_sets, "benchmark_folder", lambda slug: str(folder))
    monkeypatch.delitem(sys.modules, "capscore_benchmarks.xvnli", raising=False)
    with ThreadPoolExecutor(4) as threads:
        found = [*threads.map(lambda _: builder_class("xvnli").__name__, range(4))]
    monkeypatch.delitem(sys.modules, "capscore_benchmarks.xvnli")
    assert found == ["Xvnli"] * 4


def test_other_code_prepares_other_rows(folder, monkeypatch, tmp_path):
    before = benchmark_builder("xvnli", "fr", data_dir=folder).cache_dir
    for path in READING.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(data_sets, "__file__", str(tmp_path / "load.py"))
    assert benchmark_builder("xvnli", "fr", data_dir=folder).cache_dir == before
    (tmp_path / "polaris_format.py").write_text("changed")
    assert benchmark_builder("xvnli", "fr", data_dir=folder).cache_dir != before


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder, and where it is downloaded from; a download has no ending, as `datasets` names it."""
    folder = tmp_path / "site"
    folder.mkdir()

    def download(self, address):
        got = tmp_path / hashlib.sha256(address.encode()).hexdigest()
        shutil.copyfile(folder / address.removeprefix("https://example.org/"), got)
        return str(got)

    monkeypatch.setattr(datasets.DownloadManager, "download", download)
    return folder


def git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def found_of(checked, what):
    return [(found.level, found.message) for part in checked for found in part.findings if found.what == what]


@pytest.mark.parametrize(("shift", "level"), [(-1, PROBLEM), (0, OK), (1, PROBLEM)])
def test_more_and_fewer_rows_than_published_are_problems(shift, level, site, monkeypatch):
    official("xm3600").write(site)
    (counts,) = check_benchmark("xm3600", ["de"], data_dir=site)[0].counts.values()
    changed = {what: number + shift for what, number in counts.items()}
    monkeypatch.setattr(builder_class("xm3600"), "published", lambda self, split: changed)
    (checked,) = check_benchmark("xm3600", ["de"], data_dir=site)
    assert {found.level for found in checked.findings if found.what in checked.counts} == {level}


def test_an_archive_known_by_its_git_id(site, monkeypatch, tmp_path):
    official("xm3600").write_repository(site)
    path = site / "web-data" / "captions.zip"
    (checked,) = check_benchmark("xm3600", ["de"], data_dir=site)
    assert found_of([checked], path.name) == [(PROBLEM, "differs from the published file (git id)")]
    names = ("captions.jsonl", "captions.zip::captions.jsonl", "web-data/captions.zip::captions.jsonl")
    url, blob = "https://example.org/web-data/captions.zip", git_blob(path.read_bytes())
    files = {"captions": capscore.AnnotationFile(names, url=url, git_blob=blob)}
    files["image_ids"] = capscore.AnnotationFile(("image_ids.txt",))
    monkeypatch.setattr(builder_class("xm3600"), "FILES", files)
    (checked,) = check_benchmark("xm3600", ["de"], data_dir=site)
    assert found_of([checked], path.name) == [(OK, "is the published file (git id)")]
    rows = capscore.load_benchmark("xm3600", "de", split="test", cache_dir=tmp_path / "cache")
    assert rows["references"][1] == ["Zwei Kinder"]
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(capscore.AnnotationError, match=r"not the published file \(its checksum differs from"):
        capscore.load_benchmark("xm3600", "bn", split="test", cache_dir=tmp_path / "another_cache")


def test_a_gzipped_download_is_unpacked(site, monkeypatch, tmp_path):
    official("multi30k").write(site)
    (site / "train.de.gz").write_bytes(gzip.compress((site / "train.de").read_bytes()))
    files = {}
    for name, place in (("train.images", "image_splits/train.txt"), ("train.de", "train.de.gz")):
        sha256 = hashlib.sha256((site / place).read_bytes()).hexdigest()
        url = f"https://example.org/{place}"
        files[name] = capscore.AnnotationFile((Path(place).name,), url=url, sha256=sha256)
    monkeypatch.setattr(builder_class("multi30k"), "FILES", files)
    rows = capscore.load_benchmark("multi30k", "de", split="train", cache_dir=tmp_path / "cache")
    assert rows["references"][2] == ["Ein Hund auf grünem Gras 3."]


def test_an_unpacked_file_is_not_compared_with_its_archive(written):
    checked = check_benchmark("coco_captions", ["2014", "2017"], data_dir=written("coco_captions"))
    assert found_of(checked, "captions_val2014.json") == [(OK, "is there, but no checksum was published")]
    assert {level for level, _ in found_of(checked, "annotations_trainval2017.zip")} == {PROBLEM}


def test_missing_photos_and_files_are_findings(written):
    folder = written("flickr8k_human")
    (checked,) = check_benchmark("flickr8k_human", ["expert"], data_dir=folder)
    ((level, message),) = found_of([checked], "photos")
    assert level == NOTE and "no folder holds them" in message
    (folder / "images").mkdir()
    (folder / "images" / "111_a.jpeg").write_bytes(encode(noise(), "JPEG"))
    (folder / "CrowdFlowerAnnotations.txt").unlink()
    expert, crowd = check_benchmark("flickr8k_human", data_dir=folder)
    assert expert.missing_images == ["111_a.jpg", "222_b.jpg"]
    ((level, message),) = found_of([expert], "photos")
    assert level == PROBLEM and "2 of 2 are not in" in message and "111_a.jpg" in message
    assert expert.counts["test"]["rows"] == 2 and crowd.counts == {}
    assert any("not found under data_dir" in problem.message for problem in crowd.problems)
    for configs, where, told in ((["crowd"], folder, "configuration 'crowd'"), (None, "nowhere", "is not a")):
        with pytest.raises(capscore.InputError, match=told):
            check_benchmark("flickr8k_human", configs, data_dir=where)
