"""`capscore benchmark` with several backbones: their rows, what fails, and wrong usage."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import kendalltau
from typer.testing import CliRunner

import capscore
from capscore.cli import app
from capscore.errors import BackboneUnavailable

from ..benchmarks.test_run import rated
from ..datasets_scripts.conftest import _own_cache, official
from ..photos import encode, noise
from ..toy import BLUE, RED, ColourBackbone

__all__ = ["_own_cache"]

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


class Backwards(ColourBackbone):
    """A toy that takes red for blue in photos."""

    def encode_pixels(self, pixels):
        return super().encode_pixels([pixel.flip(0) for pixel in pixels])


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Every backbone is a toy by name; `embedded-free` sees backwards, and those of the Hub cannot be had."""
    made = {}

    def load(name, **options):
        if not isinstance(name, str):
            return name
        if "/" in name:
            raise BackboneUnavailable(f"backbone {name!r} is not available: no network here.\nInstead: …")
        kind = Backwards if name == "embedded-free" else ColourBackbone
        made[name] = kind(fingerprint=name)
        made[name].name = name
        return made[name]

    monkeypatch.setattr("capscore.backbones.loading.load_backbone", load)
    return made


@pytest.fixture
def data(tmp_path):
    """A folder with Flickr8k's two sets, four photos, and captions of which some name their colour."""
    folder = tmp_path / "data" / "flickr8k_human"
    folder.mkdir(parents=True)
    official("flickr8k_human").write(folder)
    rated(folder)
    shares = (0, 1, 0.5, 0.25, 1, 0)
    lines = [f"{n % 4}.jpg\t{n + 4}.jpg#1\t{share}\t{int(4 * share)}\t1" for n, share in enumerate(shares)]
    (folder / "CrowdFlowerAnnotations.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "images").mkdir(exist_ok=True)
    for number, colour in enumerate((RED, BLUE, noise(seed=1), noise(seed=2))):
        (folder / "images" / f"{number}.jpg").write_bytes(encode(colour, "JPEG"))
    return tmp_path / "data"


def compare(data, *arguments, width=80, backbones=("embedded", "embedded-free")):
    named = [part for name in backbones for part in ("--backbone", name)]
    command = ["benchmark", *named, *map(str, arguments)]
    if data is not None:
        configs = ("--config", "expert", "--config", "crowdflower")
        command += ["--data", "flickr8k_human", *configs, "--data-dir", str(data / "flickr8k_human")]
    return CliRunner(env={"COLUMNS": str(width)}).invoke(app, command)


def flat(text):
    return " ".join(text.split())


def test_a_row_per_backbone_in_80_columns(data, tmp_path):
    files = [tmp_path / "t.json", tmp_path / "t.md"]
    options = ("--bootstrap", 20, "--output", files[0], "--markdown", files[1], "--no-cache")
    result = compare(data, *options)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert not [line for line in lines if len(line) > 80]
    expert, crowd = json.loads(files[0].read_text())["runs"]
    assert [crowd["results"][0]["statistics"][0]["name"], crowd["config"]] == ["tau_b", "crowdflower"]
    assert [result["metric"] for result in expert["results"]] == ["mcs@embedded", "mcs@embedded-free"]
    # a second computation of a number: the metric by itself, and scipy
    queries = capscore.benchmarks.run.benchmark_queries(
        "flickr8k_human", "expert", data_dir=data / "flickr8k_human"
    )
    ratings = [
        list(map(int, line.split("\t")[2:]))
        for line in (data / "flickr8k_human" / "ExpertAnnotations.txt").read_text().splitlines()
    ]
    values = []
    for found, toy in zip(expert["results"], (ColourBackbone(), Backwards()), strict=True):
        scores = capscore.load("mcs", backbone=toy, cache=False).score(
            queries.candidates, queries.images, language=queries.languages
        )
        expected = kendalltau(np.repeat(scores.scores, 3), np.ravel(ratings), variant="c").statistic
        values.append(found["statistics"][0]["measured"])
        assert values[-1] == pytest.approx(expected, abs=1e-6)
        assert (
            f"| {found['metric']} | τ_c | {100 * values[-1]:.2f}".replace("-", "−").replace(
                "embedded−free", "embedded-free"
            )
            in files[1].read_text()
        )
    assert values[0] != values[1]
    assert "mcs|backbone:embedded@w00000000|" in result.stdout.replace("\n", "")


def test_a_backbone_that_fails_does_not_stop_the_others(data, monkeypatch):
    broken = ("embedded", "BAAI/AltCLIP-m9", "embedded-free")
    result = compare(data, "--bootstrap", 0, backbones=broken)
    assert result.exit_code == 3
    assert "mcs@BAAI/AltCLIP-m9: not run." in flat(result.stdout) and "no network here." in flat(
        result.stdout
    )
    assert any(line.startswith("mcs@embedded ") and "τ_c" in line for line in result.stdout.splitlines())

    def full(self, pixels):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Backwards, "encode_pixels", full)
    result = compare(data, "--bootstrap", 0, "--no-cache")
    assert result.exit_code == 3
    assert "mcs@embedded-free: not run." in flat(result.stdout) and "out of memory" in flat(result.stdout)
    result = compare(data, "--bootstrap", 0, "--quiet", backbones=("BAAI/AltCLIP-m9", "BAAI/AltCLIP"))
    assert result.exit_code == 1 and "no network here." in result.stderr


def test_a_suite_and_its_missing_data(data):
    arguments = ("--suite", "english", "--data-dir", data, "--bootstrap", 0)
    result = compare(None, *arguments, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [run["config"] for run in document["runs"]] == ["expert", "crowdflower"]
    assert "there is no folder" in document["skipped"]["thumb"]
    result = compare(None, *arguments, "--quiet", backbones=("embedded", "BAAI/AltCLIP"))
    assert result.exit_code == 3 and "mcs@BAAI/AltCLIP was not run." in result.stderr
    for photo in (data / "flickr8k_human" / "images").iterdir():
        photo.unlink()
    result = compare(None, *arguments)
    assert result.exit_code == 1
    assert "looks at photos, and 4 of the 4 photos" in flat(result.stdout)


def test_several_metrics_and_paired_tests(data):
    options = ("-m", "mcs,text_score,rouge_l", "--compare", "--bootstrap", 20, "--json")
    result = compare(data, *options)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    names = [result["metric"] for result in document["runs"][0]["results"]]
    assert names == [
        *("mcs@embedded", "mcs@embedded-free", "text_score@embedded", "text_score@embedded-free", "rouge_l")
    ]
    tests = document["runs"][0]["comparisons"]
    assert ["mcs@embedded", "mcs@embedded-free"] in [test["metrics"] for test in tests]


@pytest.mark.parametrize(
    ("backbones", "message"),
    [
        (("embedded", "embeded-fre"), "--backbone embeded-fre: it is not a known name"),
        (("embedded", "ViT-B-32/opnai"), "open_clip has no weights 'opnai' for ViT-B-32"),
        (("embedded", "./nowhere"), "there is no folder"),
    ],
)
def test_names_are_checked_before_anything_runs(data, toys, backbones, message):
    result = compare(data, backbones=backbones)
    assert result.exit_code == 2 and message in flat(result.stderr), result.stderr
    assert toys == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--metric", "mcs"), "give either --data, for one benchmark, or --suite"),
        (("--data", "thumb", "-m", "cider"), "none of cider has a backbone"),
    ],
)
def test_what_else_may_go_wrong(arguments, message):
    result = compare(None, *arguments)
    assert result.exit_code == 2 and message in flat(result.stderr), result.stderr
