"""What is downloaded is checked, and read like a file that lies there."""

from __future__ import annotations

import gzip
import hashlib
import shutil

import datasets
import pytest

import capscore
from capscore.benchmarks.data.check import OK, PROBLEM, check_benchmark
from capscore.benchmarks.data.load import builder_class

from .official import coco_captions, multi30k, xm3600

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder, and where it is downloaded from; a download has no ending, as `datasets` names it."""
    folder = tmp_path / "site"
    folder.mkdir()
    url = "https://example.org"

    def download(self, address):
        got = tmp_path / hashlib.sha256(address.encode()).hexdigest()
        shutil.copyfile(folder / address.removeprefix(f"{url}/"), got)
        return str(got)

    monkeypatch.setattr(datasets.DownloadManager, "download", download)
    return folder, url


def git_blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def publish(monkeypatch, slug, **files):
    monkeypatch.setattr(builder_class(slug), "FILES", files)


def test_an_archive_known_by_its_git_id(site, monkeypatch, tmp_path):
    folder, url = site
    xm3600.write_repository(folder)
    path = folder / "web-data" / "captions.zip"
    names = ("captions.jsonl", "captions.zip::captions.jsonl")
    known = capscore.AnnotationFile(
        names, url=f"{url}/web-data/captions.zip", git_blob=git_blob(path.read_bytes())
    )
    publish(monkeypatch, "xm3600", captions=known, image_ids=capscore.AnnotationFile(("image_ids.txt",)))
    rows = capscore.load_benchmark("xm3600", "de", split="test", cache_dir=tmp_path / "cache")
    assert rows["references"][1] == ["Zwei Kinder"]

    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(capscore.AnnotationError, match=r"not the published file \(its checksum differs from"):
        capscore.load_benchmark("xm3600", "bn", split="test", cache_dir=tmp_path / "another_cache")


def test_a_gzipped_file_is_unpacked(site, monkeypatch, tmp_path):
    folder, url = site
    multi30k.write(folder)
    (folder / "train.de.gz").write_bytes(gzip.compress((folder / "train.de").read_bytes()))
    files = {
        "train.images": folder / "image_splits" / "train.txt",
        "train.de": folder / "train.de.gz",
    }
    known = {
        name: capscore.AnnotationFile(
            (path.name,),
            url=f"{url}/{path.relative_to(folder).as_posix()}",
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for name, path in files.items()
    }
    publish(monkeypatch, "multi30k", **known)
    monkeypatch.setattr(builder_class("multi30k"), "splits", lambda self: ("train",))
    rows = capscore.load_benchmark("multi30k", "de", split="train", cache_dir=tmp_path / "cache")
    assert rows["references"][2] == ["Ein Hund auf grünem Gras 3."]


def test_an_unpacked_file_is_not_compared_with_its_archive(tmp_path):
    coco_captions.write(tmp_path)
    (checked,) = check_benchmark("coco_captions", ["2014"], data_dir=tmp_path)
    said = {finding.message for finding in checked.findings if finding.what == "captions_val2014.json"}
    assert said == {"is there; no checksum of it is published"}
    (checked,) = check_benchmark("coco_captions", ["2017"], data_dir=tmp_path)
    levels = {finding.level for finding in checked.findings if finding.what == "annotations_trainval2017.zip"}
    assert levels == {PROBLEM}


def test_an_archive_is_compared_with_its_git_id(tmp_path, monkeypatch):
    xm3600.write_repository(tmp_path)
    (checked,) = check_benchmark("xm3600", ["de"], data_dir=tmp_path)
    said = [finding for finding in checked.findings if finding.what == "captions.zip"]
    assert [(one.level, one.message) for one in said] == [
        (PROBLEM, "differs from the published file (git id)")
    ]
    blob = git_blob((tmp_path / "web-data" / "captions.zip").read_bytes())
    known = capscore.AnnotationFile(("web-data/captions.zip::captions.jsonl",), git_blob=blob)
    publish(monkeypatch, "xm3600", captions=known, image_ids=capscore.AnnotationFile(("image_ids.txt",)))
    (checked,) = check_benchmark("xm3600", ["de"], data_dir=tmp_path)
    said = [finding for finding in checked.findings if finding.what == "captions.zip"]
    assert [(one.level, one.message) for one in said] == [(OK, "is the published file (git id)")]
