"""All demos on one page, and its tab that compares systems: what it computes, and what it refuses."""

from __future__ import annotations

import html
import json
import re
import socket
import sys

import pytest
from typer.testing import CliRunner

from capscore.cli import app
from capscore.errors import CapscoreError, MissingExtraError
from capscore.show.app_inputs import given_files
from capscore.show.app_parts import TITLES
from capscore.show.combined_app import combined_app
from capscore.show.compare_app import compared

gr = pytest.importorskip("gradio")
SCORES = {"base": [0.2, 0.4, 0.6, 0.8], "better": [0.4, 0.6, 0.8, 1.0], "worse": [0.1, 0.4, 0.5, 0.8]}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Scored files of systems, in the folder of uploads."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))

    def written(**systems):
        found = []
        for number, (name, scores) in enumerate(systems.items()):
            # each upload lies in a folder of its own, as gradio has it
            path = tmp_path / str(number) / f"{name}.jsonl"
            path.parent.mkdir()
            rows = [{"id": str(row), "image": f"{row}.jpg", "mcs": score} for row, score in enumerate(scores)]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            found.append(str(path))
        return found

    return written


def texts(markup: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", markup)).split())


def test_a_tab_per_metric_and_one_that_compares():
    page = combined_app(backbone="embedded")
    tabs = [block.label for block in page.blocks.values() if isinstance(block, gr.Tab)]
    assert sorted(tabs) == sorted([*TITLES.values(), "Compare systems"])
    buttons = [block.value for block in page.blocks.values() if isinstance(block, gr.Button)]
    assert {"Explain", "Score", "Compare"} <= set(buttons)


def test_means_and_differences(files):
    shown = texts(compared(files(**SCORES)))
    assert "mcs (4 rows, 4 photos)" in shown
    assert "base mean 0.5000" in shown
    # a constant difference: every draw has it; 2 of the 2⁴ ways to swap are as far from 0, twice after Holm
    assert "better mean 0.7000 difference +0.2000 interval +0.2000 to +0.2000" in shown
    assert "p randomisation 0.25" in shown
    assert "whether the settings agree is not checked" in shown


def test_names_are_texts(files):
    page = compared(files(**{"base": [1.0, 2.0], "<b>odd": [1.0, 3.0]}))
    assert "<b>" not in page and "&lt;b&gt;odd" in page


def summary(folder, name, signature):
    path = folder / name / f"{name}.summary.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"metrics": {"mcs": {"signature": signature}}}), encoding="utf-8")
    return str(path)


def test_summaries_tell_what_was_scored(files, tmp_path):
    uploads = files(base=[1.0, 2.0], other=[1.0, 3.0])
    signature = "mcs|backbone:toy@1|w:2.5"
    good = [*uploads, *(summary(tmp_path, name, signature) for name in ("base", "other"))]
    shown = texts(compared(good))
    assert signature in shown and "not checked" not in shown
    with pytest.raises(CapscoreError, match="mcs"):
        changed = (tmp_path / "other" / "other.summary.json").read_text().replace("2.5", "2.0")
        (tmp_path / "other" / "other.summary.json").write_text(changed)
        compared(good)
    with pytest.raises(CapscoreError, match=r"foreign\.summary\.json is the summary of none of base, other"):
        compared([*uploads, summary(tmp_path, "foreign", signature)])


@pytest.mark.parametrize("given", [None, [], "/etc/hostname", ["/etc/hostname", 3]])
def test_only_uploads_are_read(given, files):
    with pytest.raises(CapscoreError, match=r"there is no file|a file is no upload"):
        given_files(given)


def test_one_system_is_none_to_compare(files):
    with pytest.raises(CapscoreError, match="at least two systems"):
        compared(files(base=[1.0, 2.0]))


def test_other_rows_are_refused(files):
    with pytest.raises(CapscoreError):
        compared(files(base=[1.0, 2.0], other=[1.0, 2.0, 3.0]))


def test_a_taken_port_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = CliRunner().invoke(app, ["app", "--port", str(port), "--backbone", "embedded"])
    assert outcome.exit_code == 1
    assert str(port) in " ".join(outcome.output.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "bleu"], "there is no demo of bleu"),
        (["--metric", "cider", "--backbone", "embedded"], "--backbone does not apply: cider has none"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    outcome = CliRunner().invoke(app, ["app", *options])
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.output.split())


def test_without_gradio_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(MissingExtraError, match=r"capscore\[app\]"):
        combined_app()
