"""What the README says can be done is done here as it says."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from importlib.metadata import metadata
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import capscore
from capscore.cli import app
from capscore.errors import CapscoreError
from capscore.registry import METRICS

from . import processes
from .datasets_scripts.conftest import official
from .toy import RED, ColourBackbone

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


@pytest.fixture
def here(tmp_path, monkeypatch):
    from skimage import data

    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for path in ("cat.jpg", "photos/cat.jpg"):
        Image.fromarray(data.cat()).save(path)
    return tmp_path


def test_python_examples(here):
    examples = [block for block in blocks("python") if "cat.jpg" in block]
    assert len(examples) == 2
    printed = run_examples(examples, "README.md")
    assert "Scores(mcs: mean 0.6" in printed
    assert "'n_items': 1" in printed and "'scores'" not in printed


def test_examples_of_robustness(here):
    text = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    printed = run_examples(re.findall(r"```python\n(.*?)```", text, flags=re.S), "robustness.md")
    *scores, found = printed.splitlines()
    # a caption and itself jumbled, in MCS and in PR-MCS
    (mcs, mcs_jumbled), (pr_mcs, pr_mcs_jumbled) = (
        [float(number) for number in line.strip("[]").split()] for line in scores
    )
    assert mcs_jumbled > 0.8 * mcs and pr_mcs > 0.8 * mcs and pr_mcs_jumbled < 0.2 * pr_mcs
    assert "'kind': 'repetition'" in found


def run_examples(examples, name):
    """What examples print, one after the other in one namespace."""
    names: dict = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for example in examples:
            exec(compile(example, name, "exec"), names)
    return printed.getvalue()


def commands():
    """The lines that a reader types into a console, with what the README shows below each."""
    found = []
    for block in blocks("console"):
        line, _, shown = block.partition("\n")
        found.append((line.removeprefix("$ "), shown))
    return found


def test_console_examples_print_what_is_shown(here):
    from skimage import data

    captions = {
        "cat": "a cat with green eyes looks to the side",
        "coffee": "a cup of coffee on a wooden table",
        "rocket": "a dog runs on the beach",
    }
    for name, caption in captions.items():
        Image.fromarray(getattr(data, name)()).save(here / "photos" / f"{name}.jpg")
        (here / "photos" / f"{name}.txt").write_text(f"{caption}\n", encoding="utf-8")
    for line, shown in commands():
        program, *arguments = shlex.split(line)
        assert program == "capscore"
        done = processes.run(["-m", "capscore", *arguments, "--no-cache"])
        assert done.returncode == 0, done.stderr
        printed = [" ".join(each.split()) for each in done.stdout.splitlines()]
        whole = " ".join(printed)
        for expected in shown.splitlines():
            words = " ".join(expected.split())
            # the last digits of a score may differ between processors
            assert re.sub(r"\d\.\d{4}", "#", words) in re.sub(r"\d\.\d{4}", "#", whole), expected
            for score in re.findall(r"\d\.\d{4}", words):
                near = [float(number) for number in re.findall(r"\d\.\d{4}", whole)]
                assert min(abs(float(score) - number) for number in near) < 0.0002, expected
    assert len(commands()) == 2 and (here / "report.html").is_file()


def test_benchmark_examples(here, monkeypatch):
    (here / "flickr8k").mkdir()
    official("flickr8k_human").write(here / "flickr8k")
    (example,) = [block for block in blocks("python") if "load_benchmark" in block]
    names: dict = {}
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", here / "cache")
    with pytest.warns(capscore.BenchmarkWarning, match="2 rows where 5,664 were published"):
        exec(compile(example, "README.md", "exec"), names)
    assert names["rows"].num_rows == 2
    lines = [line.partition("#")[0] for block in blocks("bash") for line in block.splitlines()]
    for line in lines:
        if line.startswith("capscore data list") or line.startswith("capscore benchmark"):
            _, *arguments = shlex.split(line)
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
    assert sum(line.startswith("capscore benchmark") for line in lines) == 1


def test_every_metric_and_extra_is_named():
    for metric in METRICS.names():
        assert f"`{metric}`" in README, metric
    listed = re.search(r"^Extras: .*?`dev`", README, flags=re.S | re.M).group()
    assert set(re.findall(r"`([a-z0-9-]+)`", listed)) - set(METRICS.names()) == set(
        metadata("capscore").get_all("Provides-Extra")
    )
    assert f"{len(capscore.benchmark_slugs())} benchmarks" in README


def test_signature_is_the_real_one(embedded):
    shown = re.search(r"^mcs\|.*$", README, flags=re.M).group()
    image = Image.new("RGB", (8, 8))
    scores = capscore.load("mcs", backbone=embedded, cache=False).score(["a dog"], [image])
    assert scores.signature == shown


def test_errors_read_as_they_are_shown(here):
    (here / "photos" / "dog.jpg").touch()
    scorer = capscore.load("ref_clip_score", backbone=ColourBackbone(), cache=False)
    told = []
    for images, references in (
        ([RED] * 3 + ["photos/dog.jpg"], [["red"]] * 4),
        ([RED] * 8, [["red"]] * 7 + ["a dog"]),
    ):
        with pytest.raises(CapscoreError) as caught:
            scorer.score(["red"] * len(images), images, references)
        told.append(str(caught.value))
    assert "\n".join(told) in README


def test_links_and_commands_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"(?:`|^)make ([a-z-]+)", README, flags=re.M):
        assert f"\n{command}:" in makefile, command
    for path in re.findall(r"`((?:capscore|metrics|benchmarks|docs|tests|training)/)`", README):
        assert (ROOT / path).is_dir(), path
