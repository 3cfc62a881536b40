"""What `check_benchmark` finds in a folder: counts, checksums, photos."""

from __future__ import annotations

import pytest

import capscore
from capscore.benchmarks.data.check import NOTE, OK, PROBLEM, check_benchmark

from ..photos import encode, noise
from .conftest import configurations, official, write_photos

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


@pytest.fixture
def flickr(tmp_path):
    official("flickr8k_human").write(tmp_path)
    return tmp_path


def said(checked, level):
    return [
        f"{finding.what}: {finding.message}"
        for part in checked
        for finding in part.findings
        if finding.level == level
    ]


def test_every_benchmark_can_be_checked(slug, data_dir):
    write_photos(slug, data_dir)
    names = configurations(slug)
    for part in check_benchmark(slug, names, data_dir=data_dir):
        assert {split: counts["rows"] for split, counts in part.counts.items()} == {
            split: rows for (config, split), rows in official(slug).ROWS.items() if config == part.config
        }
        assert part.missing_images == []


def test_counts_and_checksums_differ_from_those_published(flickr):
    checked = check_benchmark("flickr8k_human", ["expert"], data_dir=flickr)
    assert checked[0].counts["test"]["ratings"] == 6
    assert "test: 2 rows, and 5,664 were published" in said(checked, PROBLEM)
    assert "ExpertAnnotations.txt: differs from the published file (SHA-256)" in said(checked, PROBLEM)
    assert any("no folder of them is there" in line for line in said(checked, NOTE))


def test_missing_photos_are_named_with_what_may_have_been_meant(flickr):
    (flickr / "images").mkdir()
    (flickr / "images" / "111_a.jpeg").write_bytes(encode(noise(seed=0), "JPEG"))
    (part,) = check_benchmark("flickr8k_human", ["expert"], data_dir=flickr)
    assert part.missing_images == ["111_a.jpg", "222_b.jpg"]
    (line,) = [line for line in said([part], PROBLEM) if line.startswith("photos")]
    assert "2 of 2 are not in" in line and "111_a.jpg" in line


def test_all_photos_are_there(flickr):
    (flickr / "images").mkdir()
    for seed, name in enumerate(("111_a.jpg", "222_b.jpg")):
        (flickr / "images" / name).write_bytes(encode(noise(seed=seed), "JPEG"))
    assert "photos: all 2 are there" in said(
        check_benchmark("flickr8k_human", ["expert"], data_dir=flickr), OK
    )


def test_a_missing_file_is_a_problem_of_its_configuration(flickr):
    (flickr / "CrowdFlowerAnnotations.txt").unlink()
    expert, crowd = check_benchmark("flickr8k_human", data_dir=flickr)
    assert expert.counts["test"]["rows"] == 2
    assert crowd.counts == {}
    assert any("not found under data_dir" in problem.message for problem in crowd.problems)
    with pytest.raises(capscore.CapscoreError, match="is not a folder"):
        check_benchmark("flickr8k_human", data_dir=flickr / "nowhere")


def test_wrong_names_are_found_before_any_file_is_read(flickr):
    (flickr / "ExpertAnnotations.txt").write_text("damaged")
    with pytest.raises(capscore.InputError, match=r"no configuration 'crowd'"):
        check_benchmark("flickr8k_human", ["expert", "crowd"], data_dir=flickr)
    with pytest.raises(capscore.InputError, match=r"data_dir: .*nowhere is not a folder"):
        check_benchmark("flickr8k_human", data_dir=flickr / "nowhere")


def test_counts_are_compared_with_those_of_the_file_that_is_read(tmp_path):
    (tmp_path / "FineCapEval.csv").write_text(
        "image,caption,object,background,relation\na.jpg,A dog on a beach,dog,beach,dog on beach\n"
    )
    checked = check_benchmark("m_finecap3k", ["en"], data_dir=tmp_path)
    assert "test: 1 rows, and 5,000 were published" in said(checked, PROBLEM)
