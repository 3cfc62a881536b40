"""`capscore benchmark` with several backbones: one table, what fails, and wrong usage."""

from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import kendalltau
from typer.testing import CliRunner

import capscore
from capscore.backbones import registry
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


def test_one_table_in_80_columns(data, tmp_path):
    files = [tmp_path / "t.json", tmp_path / "t.md"]
    options = ("--bootstrap", 20, "--output", files[0], "--markdown", files[1], "--no-cache")
    result = compare(data, *options)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert not [line for line in lines if len(line) > 80]
    document = json.loads(files[0].read_text())
    assert [(one["data"], one["statistic"]) for one in document["columns"]] == [
        ("flickr8k_human · expert", "tau_c"),
        ("flickr8k_human · crowdflower", "tau_b"),
    ]
    # a second computation of a cell: the metric by itself, and scipy
    queries = capscore.benchmarks.run.benchmark_queries(
        "flickr8k_human", "expert", data_dir=data / "flickr8k_human"
    )
    for row, toy in zip(document["rows"], (ColourBackbone(), Backwards()), strict=True):
        scores = capscore.load("mcs", backbone=toy, cache=False).score(
            queries.candidates, queries.images, language=queries.languages
        )
        ratings = [
            list(map(int, line.split("\t")[2:]))
            for line in (data / "flickr8k_human" / "ExpertAnnotations.txt").read_text().splitlines()
        ]
        expected = kendalltau(np.repeat(scores.scores, 3), np.ravel(ratings), variant="c").statistic
        assert row["cells"][0]["value"] == pytest.approx(expected, abs=1e-6)
    values = [[row["cells"][place]["value"] for row in document["rows"]] for place in (0, 1)]
    assert values[0][0] != values[0][1]
    for place in (0, 1):
        best = [row["cells"][place]["best"] for row in document["rows"]]
        assert best == [value == max(values[place]) for value in values[place]]
        shown = f"*{100 * max(values[place]):.2f}".replace("-", "−")
        assert shown in result.stdout
        assert f"**{shown[1:]} " in files[1].read_text()
    assert "CC-BY-NC-4.0" in result.stdout and "Apache-2.0" in result.stdout
    assert "78.7M" in result.stdout and "captions/s" in result.stdout and "photos/s" in result.stdout
    assert "mcs|backbone:embedded@w00000000|" in result.stdout.replace("\n", "")
    speeds = [one["images_per_second"] for one in document["backbones"]]
    assert all(speed > 0 for speed in speeds)


@pytest.fixture
def drawn(monkeypatch):
    """The figures that a test writes."""
    figures, plain = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *given, **more: (figures.append(self), plain(self, *given, **more))[1]
    )
    return figures


def test_the_figure_has_a_line_per_backbone(data, tmp_path, drawn):
    files = ("--output", tmp_path / "t.json", "--figure", tmp_path / "t.png")
    result = compare(data, "--bootstrap", 20, "--no-cache", *files)
    assert result.exit_code == 0, result.output
    (figure,) = drawn
    rows = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "flickr8k_human · expert (×100)",
        "flickr8k_human · crowdflower (×100)",
    ]
    for place, (panel, statistic) in enumerate(zip(figure.axes, ("τ_c", "τ_b"), strict=True)):
        names = [label.get_text() for label in panel.get_yticklabels()]
        wanted = [f"mcs@{name}  {statistic}" for name in ("embedded", "embedded-free")]
        assert [name for name in names if statistic in name] == wanted
        at = [names.index(name) for name in wanted]
        cells = [row["cells"][place] for row in rows]
        points = {
            line.get_ydata()[0]: line.get_xdata()[0] for line in panel.lines if line.get_marker() == "o"
        }
        assert [points[one] for one in at] == pytest.approx([100 * cell["value"] for cell in cells])
        texts = {text.xy[1]: text.get_text() for text in panel.texts}
        assert [texts[one] for one in at] == [
            f"{100 * cell['value']:.1f}".replace("-", "−") for cell in cells
        ]
        bars = {
            line.get_ydata()[0]: list(line.get_xdata()) for line in panel.lines if len(line.get_xdata()) == 2
        }
        for one, cell in zip(at, cells, strict=True):
            assert bars[one] == pytest.approx([100 * bound for bound in cell["interval"]])
    with Image.open(tmp_path / "t.png") as picture:
        assert picture.width > 900


def test_a_heat_map_of_three_is_refused_before_the_work(data, tmp_path, toys):
    result = compare(data, "-m", "mcs", "-m", "pr_mcs", "--heatmap", tmp_path / "h.png")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "it has room for two, below and above its diagonal, not 4" in said
    assert not toys and not (tmp_path / "h.png").exists()


def test_a_backbone_that_fails_has_its_reason_in_its_row(data, tmp_path, monkeypatch, toys):
    broken = ("embedded", "BAAI/AltCLIP-m9", "embedded-free")
    result = compare(data, "--bootstrap", 0, "--markdown", tmp_path / "t.md", backbones=broken)
    assert result.exit_code == 3
    assert "BAAI/AltCLIP-m9 no network here." in flat(result.stdout)
    assert "| BAAI/AltCLIP-m9 | no network here. |" in (tmp_path / "t.md").read_text()
    assert "*" in result.stdout  # the others were measured

    def full(self, pixels):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Backwards, "encode_pixels", full)
    result = compare(data, "--bootstrap", 0, "--no-cache")
    assert result.exit_code == 3
    assert "mcs · embedded-free on flickr8k_human · expert: not run." in flat(result.stdout)
    assert "out of memory" in flat(result.stdout)
    result = compare(data, "--bootstrap", 0, "--quiet", backbones=("BAAI/AltCLIP-m9", "BAAI/AltCLIP"))
    assert result.exit_code == 1 and "no backbone could be measured" in result.stderr
    assert "capscore: BAAI/AltCLIP-m9: no network here." in result.stderr


def test_all_known_takes_every_entry(data):
    result = compare(data, "--bootstrap", 0, "--json", backbones=("all-known",))
    assert result.exit_code == 3
    found = {one["name"]: one["failed"] for one in json.loads(result.stdout)["backbones"]}
    assert list(found) == list(registry())
    assert {name for name, failed in found.items() if not failed} == {
        name for name in registry() if "/" not in name
    }


def test_a_suite_and_its_missing_data(data):
    arguments = ("--suite", "english", "--data-dir", data, "--bootstrap", 0)
    result = compare(None, *arguments, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [run["config"] for run in document["runs"]] == ["expert", "crowdflower"]
    assert "there is no folder" in document["skipped"]["thumb"]
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
    names = [row["name"] for row in document["rows"]]
    assert (names[0], names[1], names[-1]) == ("mcs@embedded", "text_score@embedded", "rouge_l")
    tests = document["runs"][0]["comparisons"]
    assert ["mcs@embedded", "mcs@embedded-free"] in [test["metrics"] for test in tests]


@pytest.mark.parametrize(
    ("backbones", "message"),
    [
        (("embedded", "embeded-fre"), "--backbone embeded-fre: it is not a known name"),
        (("embedded", "embeded-fre"), "it is not a known name"),
        (("embedded", "embedded"), "--backbone embedded is the same as embedded"),
        (("ViT-B/32", "openai/clip-vit-base-patch32"), "is the same as ViT-B/32"),
        (("all-known", "embedded"), "name each once"),
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
