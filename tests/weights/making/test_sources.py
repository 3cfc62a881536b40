"""The manifest of what weights are made from: fetched from small repositories, and checked."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from capscore.errors import CapscoreError
from weights.making import sources
from weights.making.caption_grammar import LANGUAGES
from weights.making.held_out import SETS
from weights.making.sources import SOURCES, Source

FILES = {"data/a b.txt": "one", "data/deep/c.txt": "two", "other.txt": "not wanted"}
# printf one | sha256sum; printf two | sha256sum
LISTED = (
    "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed  a b.txt\n"
    "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3  deep/c.txt\n"
)


@pytest.fixture
def source(tmp_path):
    """A source in a repository of its own, which lies in a folder of mirrors."""
    root = tmp_path / "mirror" / "own+texts" / "repo"
    for path, content in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init"], ["add", "--all"], ["commit", "--quiet", "--message", "texts"]):
        subprocess.run([*git, *command], cwd=root, check=True, capture_output=True)
    (root / "data/a b.txt").write_text("a later version")
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    )
    digest = hashlib.sha256(LISTED.encode()).hexdigest()
    pinned = {"repository": f"file://{tmp_path}/own/texts", "commit": commit.stdout.strip()}
    return Source("texts", "CC0-1.0", "texts/own", 2, digest, **pinned, paths="data/.*", under="data/")


def run(monkeypatch, capsys, source, *arguments) -> tuple[int, str]:
    """Exit status and lines of the command."""
    monkeypatch.setattr(sources, "SOURCES", (source,))
    try:
        sources.main(list(map(str, arguments)))
        status = 0
    except SystemExit as error:
        status = error.code
    return status, capsys.readouterr().out


def test_a_source_is_fetched_from_a_mirror_or_by_its_address_and_is_checked(
    tmp_path, source, monkeypatch, capsys
):
    to, mirror = tmp_path / "to", tmp_path / "mirror"
    assert run(monkeypatch, capsys, source, "check", "--to", to)[0] == 1
    fetched = run(monkeypatch, capsys, source, "fetch", "--to", to, "--mirror", mirror)
    assert fetched == (0, f"texts: 2 files in {to}/texts/own\n")
    assert (to / "texts/own/a b.txt").read_text() == "one" and not list(to.rglob("other.txt"))
    assert source.read(to) == {"data/a b.txt": b"one", "data/deep/c.txt": b"two"}
    # what is whole is not fetched again
    again = run(monkeypatch, capsys, source, "fetch", "--to", to, "--mirror", tmp_path / "nowhere")
    assert again == fetched == run(monkeypatch, capsys, source, "check", "--to", to)
    (mirror / "own").mkdir()
    shutil.copytree(mirror / "own+texts/repo/.git", tmp_path / "own/texts")
    assert run(monkeypatch, capsys, source, "fetch", "--to", tmp_path / "by_address")[0] == 0


@pytest.mark.parametrize(
    ("change", "mirror", "message"),
    [
        ({"commit": "0" * 40}, "mirror", r"texts: not reached: `git ls-tree -r …` failed \(.*\)"),
        ({}, "nowhere", r"texts: not reached: .*nowhere has no own\+texts/repo"),
        ({"sha256": "0" * 64}, "mirror", r"texts: the files have the checksum [0-9a-f]{64}, expected 0{64}"),
        (
            {"request": "write to its authors"},
            "mirror",
            "texts: no program can fetch it: write to its authors",
        ),
        ({"files": 3}, "mirror", r"texts: 2 files in .*texts/own, expected 3"),
    ],
    ids=["another commit", "no mirror", "another checksum", "by request", "a file too few"],
)
def test_what_is_wrong_is_one_clear_line(tmp_path, source, monkeypatch, capsys, change, mirror, message):
    arguments = ("fetch", "--to", tmp_path / "to", "--mirror", tmp_path / mirror)
    status, lines = run(monkeypatch, capsys, replace(source, **change), *arguments)
    assert status == 1 and re.fullmatch(message, lines.removesuffix("\n"))


def test_a_file_that_the_repository_lacks_is_named(tmp_path, source):
    with pytest.raises(CapscoreError, match=r"1 of 2 files are missing, such as texts/own/deep/c\.txt"):
        with pytest.MonkeyPatch.context() as patch:
            listed = [("data/a b.txt", b"one"), ("data/deep/c.txt", None)]
            patch.setattr(sources, "_committed", lambda *_: listed)
            sources.fetch(source, tmp_path / "to")


def test_every_source_is_pinned_and_says_what_is_held_out():
    folders = set()
    for source in SOURCES:
        assert re.fullmatch("[0-9a-f]{64}", source.sha256) and source.licence and source.files > 0
        assert set(source.languages) <= set(LANGUAGES)
        reached = [bool(source.repository), bool(source.package), bool(source.request)]
        assert sum(reached) == 1 and (not source.repository or re.fullmatch("[0-9a-f]{40}", source.commit))
        assert not source.name.endswith("-test") or source.held_out
        folders.add(source.to)
    # whatever the code holds out of a set is read from an official file of the manifest
    read = {folder.partition("/")[2] for folder in folders if folder.startswith("data/")}
    assert len(read) == 10 and len(SETS) == 15
