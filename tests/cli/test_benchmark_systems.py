"""`capscore benchmark --systems` and `capscore data statistics` as a person types them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import capscore as library

from ..benchmarks.systems.tiny import CAPTIONS, REFERENCES, rows_of, write_rows, write_set, write_systems
from ..datasets_scripts.conftest import _own_cache, official
from ..photos import encode, noise
from .test_benchmark import capscore

__all__ = ["_own_cache"]


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path / "xm3600")


def compare(folder, *arguments):
    return capscore("benchmark", "--data", "xm3600", "--data-dir", folder, *arguments)


def words(text):
    return " ".join(text.split())


def test_two_systems(folder, tmp_path):
    small, large = write_systems(tmp_path, "small", "large").values()
    result = compare(folder, "--systems", small, large, "--bootstrap", 100)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if "|" not in line) <= 80
    assert lines[1] == "xm3600 (test): small, large"
    german = next(line.split() for line in lines if line.startswith("de"))
    assert german == ["de", "4", "2.5064", "*5.0618"]
    assert next(line.split() for line in lines if line.startswith("mean "))[1:] == ["2.5274", "4.0740"]
    heading = lines.index("cider, de (4 rows, 4 photos)")
    large = next(line.split() for line in lines[heading:] if line.startswith("large"))
    assert large[1:3] == ["5.0618", "+2.5555"] and large[-1] == "0.12"  # 2 of 16 ways to swap
    assert "cider|variant:coco|" in result.stdout and "lang:de+qu" in result.stdout


def test_all_that_can_be_written(folder, tmp_path):
    systems = write_systems(tmp_path, "small", "large", "other")
    out = tmp_path / "out"
    files = [out / "r.json", out / "r.md"]
    given = ("-m", "cider,rouge_l", "--bootstrap", 50, "--output", files[0], "--markdown", files[1])
    result = compare(folder, "--systems", *systems.values(), *given)
    assert result.exit_code == 0, result.output
    tables = [line for line in result.stdout.splitlines() if not line.startswith(("  ", "Written"))]
    assert max(map(len, tables)) <= 80
    document = json.loads(files[0].read_text())
    german = document["metrics"]["cider"]["languages"]["de"]["comparison"]
    assert german["means"]["other"] == pytest.approx(2.667263927, abs=1e-6)
    assert [one["system"] for one in german["differences"]] == ["large", "other"]
    assert set(document["metrics"]["rouge_l"]["means"]) == set(systems)
    markdown = files[1].read_text()
    assert markdown.startswith("## xm3600 (test): small, large, other\n")
    assert "| de | 4 | 2.5064 | **5.0618** | 2.6673 |" in markdown
    again = compare(folder, "--systems", *systems.values(), "--output", files[0])
    assert again.exit_code == 2 and "exists; --force overwrites it" in again.stderr


def test_json_and_a_name_of_ones_own(folder, tmp_path):
    small = write_systems(tmp_path, "small")["small"]
    result = compare(folder, "--systems", f"mine={small}", "--bootstrap", 0, "--json")
    document = json.loads(result.stdout)
    assert list(document["systems"]) == ["mine"]
    assert document["metrics"]["cider"]["means"]["mine"] == pytest.approx(2.527355475, abs=1e-6)


def test_a_metric_that_looks_at_photos(folder, tmp_path, embedded_is_read_once):
    systems = write_systems(tmp_path, "small", "large")
    (folder / "images").mkdir()
    photos = [folder / "images" / f"{name}.jpg" for name in REFERENCES]
    for number, path in enumerate(photos):
        path.write_bytes(encode(noise(seed=number), "JPEG"))
    given = ("--systems", *systems.values(), "--metric", "mcs", "--backbone", "embedded", "--bootstrap", 0)
    result = compare(folder, *given, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["metrics"]["mcs"]["languages"]
    backbone = library.load_backbone("embedded", device="cpu")
    seen = backbone.encode_images([Image.open(path).convert("RGB") for path in photos])
    for language, name in (("de", "de"), ("qu", "quz")):
        for system in systems:
            read = backbone.encode_texts([backbone.prefix + text for text in CAPTIONS[system][name]])
            scores = backbone.w * np.maximum((seen * read).sum(axis=1), 0)
            assert found[language]["comparison"]["means"][system] == pytest.approx(scores.mean(), abs=1e-5)
    photos[2].write_text("junk")
    told = words(compare(folder, *given).stderr)
    assert f"mcs on xm3600 · de: small, photo 22cc: '{photos[2]}' is not an image that can be read" in told
    photos[2].unlink()
    result = compare(folder, *given)
    assert result.exit_code == 1
    assert "1 of the 4 photos of xm3600 · de cannot be scored; 22cc, for one" in words(result.stderr)
    result = compare(folder, *given, "--partial")
    assert result.exit_code == 0 and ["de", "3"] in (line.split()[:2] for line in result.stdout.splitlines())


def test_bad_files_are_told_with_file_and_row(folder, tmp_path):
    small, large = write_systems(tmp_path, "small", "large").values()
    twice = write_rows(tmp_path / "twice.jsonl", [*rows_of("small"), rows_of("small")[3]])
    result = compare(folder, "--systems", large, twice)
    assert result.exit_code == 1 and result.stdout == ""
    assert f"{twice}, line 9 (row 8 counted from 0): a second caption of the photo" in words(result.stderr)
    less = write_rows(tmp_path / "less.jsonl", rows_of("large")[:-1])
    result = compare(folder, "--systems", small, less)
    assert result.exit_code == 1
    told = words(result.stderr)
    assert "less has no caption in 'qu' of 1 of the 4 photos of xm3600 · quz, such as 33dd" in told
    assert "; --common-rows compares systems on the languages and photos that they have in common" in told
    result = compare(folder, "--systems", small, tmp_path / "none.jsonl")
    assert result.exit_code == 2 and "no such file" in words(result.stderr)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["a.jsonl"], "'a.jsonl': unexpected; files of captions go with --systems"),
        (["--systems", "a.jsonl", "--scores", "s.jsonl"], "--scores and --systems: give only one of them"),
        (["--systems", "a.jsonl", "--figure", "f.png"], "--figure and --systems: give only one of them"),
        (["--systems", "a.jsonl", "x/a.jsonl", "a=b.jsonl", "a=c.jsonl"], "two files would be called 'a'"),
        (["--systems", "a.jsonl", "--data", "multi30k"], "--systems takes one benchmark"),
    ],
)  # fmt: skip
def test_wrong_usage(folder, arguments, message):
    result = compare(folder, *arguments)
    assert result.exit_code == 2 and message in words(result.stderr)


def test_statistics_of_captions(tmp_path):
    official("xm3600").write(tmp_path)
    markdown, output = tmp_path / "t.md", tmp_path / "t.json"
    result = capscore(
        "data", "statistics", "xm3600", "--data-dir", tmp_path, "--markdown", markdown, "--output", output
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if "/" not in line) <= 80
    german = next(line for line in lines if line.startswith("de "))
    assert german.split()[:7] == ["de", "3", "1", "1", "0", "3.3", "15.7"]
    assert "8 captions in 3 configurations" in words(result.stdout)
    assert "| quz | 3 | 1 | 1 | 0 | 2.3 | 13.7 | captions 7,200" in markdown.read_text()
    assert json.loads(output.read_text())["configs"][0]["config"] == "bn"
    refused = capscore("data", "statistics", "vicr", "--data-dir", tmp_path)
    assert refused.exit_code == 2 and "is not a set of captioned photos" in words(refused.stderr)
