"""The manifest of what weights are made from: fetched from small repositories, and checked."""

import hashlib
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from weights.making import sources
from weights.making.held_out import SETS
from weights.making.sources import LANGUAGES, SOURCES, Source

FILES = {"data/a b.txt": "one", "data/deep/c.txt": "two", "other.txt": "not wanted"}
# printf one | sha256sum; printf two | sha256sum
LISTED = (
    "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed  a b.txt\n"
    "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3  deep/c.txt\n"
)
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


@pytest.fixture
def source(tmp_path):
    """A source in a repository of its own, which lies in a folder of mirrors."""
    root = tmp_path / "mirror" / "own+texts" / "repo"
    for path, content in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    for words in ("init", "add --all", "commit --quiet --message texts", "rev-parse HEAD"):
        done = subprocess.run([*GIT, *words.split()], cwd=root, check=True, capture_output=True, text=True)
    (root / "data/a b.txt").write_text("a later version")
    digest = hashlib.sha256(LISTED.encode()).hexdigest()
    pinned = {"repository": f"file://{tmp_path}/own/texts", "commit": done.stdout.strip()}
    return Source("texts", "CC0-1.0", "texts/own", 2, digest, **pinned, paths="data/.*", under="data/")


@pytest.fixture
def run(monkeypatch, capsys):
    """A function from a source and arguments to the exit status and the lines of the command."""

    def run(source, *arguments) -> tuple[int, str]:
        monkeypatch.setattr(sources, "SOURCES", {source.name: source})
        status = 0
        try:
            sources.main(list(map(str, arguments)))
        except SystemExit as error:
            status = error.code
        return status, capsys.readouterr().out

    return run


def test_a_source_is_fetched_from_a_mirror_or_by_its_address_and_is_checked(tmp_path, source, run):
    to, mirror = tmp_path / "to", tmp_path / "mirror"
    assert run(source, "check", "--to", to)[0] == 1
    fetched = run(source, "fetch", "--to", to, "--mirror", mirror)
    assert fetched == (0, f"texts: 2 files in {to}/texts/own\n")
    assert (to / "texts/own/a b.txt").read_text() == "one" and not list(to.rglob("other.txt"))
    assert source.read(to) == {"data/a b.txt": b"one", "data/deep/c.txt": b"two"}
    # what is whole is not fetched again
    again = run(source, "fetch", "--to", to, "--mirror", tmp_path / "nowhere")
    assert again == fetched == run(source, "check", "--to", to)
    (mirror / "own").mkdir()
    shutil.copytree(mirror / "own+texts/repo/.git", tmp_path / "own/texts")
    assert run(source, "fetch", "--to", tmp_path / "by_address")[0] == 0


@pytest.mark.parametrize(
    ("change", "mirror", "named"),
    [
        ({"commit": "0" * 40}, "mirror", r"git ls-tree"),
        ({}, "nowhere", r"nowhere has no own\+texts/repo"),
        ({"sha256": "0" * 64}, "mirror", r"checksum [0-9a-f]{64}, expected 0{64}"),
        ({"request": "write to its authors"}, "mirror", "write to its authors"),
        ({"files": 3}, "mirror", r"2 files in .*texts/own, expected 3"),
    ],
    ids=["another commit", "no mirror", "another checksum", "by request", "a file too few"],
)
def test_what_is_wrong_is_one_clear_line(tmp_path, source, run, change, mirror, named):
    arguments = ("fetch", "--to", tmp_path / "to", "--mirror", tmp_path / mirror)
    status, lines = run(replace(source, **change), *arguments)
    assert status == 1 and re.fullmatch(f"texts: .*{named}.*\n", lines)


def test_a_file_whose_content_the_repository_lacks_is_named(tmp_path, source, run):
    root = tmp_path / "mirror" / "own+texts" / "repo"
    asked = [*GIT, "rev-parse", f"{source.commit}:data/deep/c.txt"]
    blob = subprocess.run(asked, cwd=root, check=True, capture_output=True, text=True).stdout.strip()
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    status, line = run(source, "fetch", "--to", tmp_path / "to", "--mirror", tmp_path / "mirror")
    assert status == 1 and "does not hold the content of data/deep/c.txt" in line


def test_every_source_is_pinned_and_says_what_is_held_out():
    for source in SOURCES.values():
        assert re.fullmatch("[0-9a-f]{64}", source.sha256) and source.licence and source.files > 0
        assert set(source.languages) <= set(LANGUAGES)
        reached = [bool(source.repository), bool(source.package), bool(source.request)]
        assert sum(reached) == 1 and (not source.repository or re.fullmatch("[0-9a-f]{40}", source.commit))
        assert not source.name.endswith("-test") or source.held_out
    # whatever the code holds out of a set is read from an official file of the manifest
    assert len({own.to for own in SOURCES.values() if own.to.startswith("data/")}) == 10 and len(SETS) == 15
