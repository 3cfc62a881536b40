"""Metrics that compare texts work where torch is not installed; everything else says what is missing."""

import json
import subprocess
import sys

import pytest

# Stands for a machine without torch: neither the packages nor their metadata are found.
BLOCK = """
import importlib.metadata, sys
MISSING = ("torch", "torchvision", "open_clip", "timm")
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
known = importlib.metadata.version
def version(name):
    if name in MISSING:
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)
importlib.metadata.version = version
"""
ROWS = [
    {"caption": "a dog runs on the grass", "references": ["a dog runs on the grass", "a brown dog plays"]},
    {"caption": "two men ride bikes", "references": ["two men riding bicycles on a road"]},
]


def run(code, *arguments):
    return subprocess.run([sys.executable, "-c", BLOCK + code, *arguments], capture_output=True, text=True)


def command(*arguments):
    return run("import sys; from capscore.cli import main; main()", *map(str, arguments))


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def test_text_metrics_on_the_command_line(rows, tmp_path):
    out = tmp_path / "scores.jsonl"
    done = command("score", rows, "-m", "cider", "-m", "bleu", "-m", "rouge_l", "--output", out)
    assert done.returncode == 0, done.stderr
    first = json.loads(out.read_text(encoding="utf-8").splitlines()[0])
    assert first["rouge_l"] == pytest.approx(1.0)
    (summary,) = tmp_path.glob("*summary.json")
    versions = json.loads(summary.read_text(encoding="utf-8"))["versions"]
    assert versions["torch"] is None and versions["numpy"]


@pytest.mark.parametrize("metric", ["mcs", pytest.param("infometic", marks=pytest.mark.slow)])
def test_metrics_with_a_backbone_name_what_is_missing(rows, metric):
    done = command("score", rows, "-m", metric, "--image-column", "caption", "--on-error", "skip")
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert any("needs PyTorch" in line and "pip install torch" in line for line in lines), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["score --help", "backbones", "data list"])
def test_commands_that_need_no_torch(arguments):
    done = command(*arguments.split())
    assert done.returncode == 0 and done.stdout, done.stderr
