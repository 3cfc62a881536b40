"""Everything that the shipped weights learn from, by `sources.toml` → a folder of it, checked.

    python -m weights.making.sources fetch --to build/sources [--mirror FOLDER] [--only NAME …]
    python -m weights.making.sources check --to build/sources

In: repositories, read with git at the pinned commits, or npm packages. `--mirror` names a folder of bare git
directories, as OWNER+NAME/repo, OWNER+NAME.git or OWNER+NAME, to read instead of the network. Out: the
folders `data` (official files), `photos`, `texts` and `models`, and one line per source. What is whole is not
fetched again. The exit status is 1 if a source is missing, incomplete or another.

The checksum of a source is that of the list of its files, sorted by path, as sha256sum writes it: of each the
SHA-256 in hexadecimal, two blanks, its path from `to`, and a line feed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capscore.errors import CapscoreError
from capscore.tables import counted
from training.engine.config import main as run_as_command

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Languages of the texts that the weights learn from.
LANGUAGES = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh")
# Marks the name of a source that is only for measuring.
TEST = "-test"


@dataclass(frozen=True)
class Source:
    """A source, as the manifest describes it."""

    name: str
    licence: str  # SPDX name, or the short name of its owners
    to: str  # folder of its files
    files: int  # how many there are
    sha256: str  # checksum of the list of its files
    repository: str = ""
    commit: str = ""
    package: str = ""  # npm package, as name@version, for a source that is no repository
    request: str = ""  # how to get what no program can fetch
    paths: str = ".*"  # regular expression for whole paths in the repository
    under: str = ""  # beginning of these paths that is left out in `to`
    held_out: str = ""  # what of it no training may see, and why
    title: str = ""  # for cards; "" for `name`
    url: str = ""  # for cards; "" for the repository
    form: str = ""  # what reads its texts (`weights.making.package_texts.READERS`)
    languages: Sequence[str] = LANGUAGES

    def described(self, rows: int | None) -> dict[str, Any]:
        """What a card says of so many rows of it: name, license, url and rows."""
        title = f"{self.name} (npm:{self.package})" if self.package else self.title or self.name
        return {"name": title, "license": self.licence, "url": self.url or self.repository, "rows": rows}

    def named(self, path: str) -> str | None:
        """Where a file of the repository lies in `to`; None for one that is not wanted."""
        return path.removeprefix(self.under) if re.fullmatch(self.paths, path) else None

    def read(self, folder: Path) -> dict[str, bytes]:
        """The source's files by their paths in the repository; CapscoreError if they are not whole."""
        found, here = {}, folder / self.to
        for path in sorted(here.rglob("*")):
            name = path.relative_to(here).as_posix()
            if path.is_file() and self.named(self.under + name) == name:
                found[name] = path.read_bytes()
        if len(found) != self.files:
            raise CapscoreError(f"{counted(len(found), 'file')} in {here}, expected {self.files:,}")
        if (digest := listed_digest(found)) != self.sha256:
            raise CapscoreError(f"the files in {here} have the checksum {digest}, expected {self.sha256}")
        return {self.under + name: content for name, content in found.items()}


def listed_digest(files: Mapping[str, bytes]) -> str:
    """The checksum of files, path → content, as the top of this file says."""
    lines = [f"{hashlib.sha256(files[path]).hexdigest()}  {path}\n" for path in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


_MANIFEST = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SOURCES = {entry["name"]: Source(**entry) for entry in _MANIFEST["source"]}


def fetch(source: Source, folder: Path, mirror: Path | None = None) -> None:
    """Write a source's files into a folder, unless they are there and whole; CapscoreError if that fails."""
    with suppress(CapscoreError):
        source.read(folder)
        return
    if source.request:
        raise CapscoreError(f"no program can fetch it: {source.request}")
    with tempfile.TemporaryDirectory() as aside:
        files = _packed(source, Path(aside)) if source.package else _committed(source, Path(aside), mirror)
        for path, content in files:
            if (name := source.named(path)) is not None:
                target = folder / source.to / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    source.read(folder)


def _packed(source: Source, aside: Path) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files of an npm package."""
    _run(["npm", "pack", "--silent", source.package], aside)
    with tarfile.open(next(aside.glob("*.tgz"))) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                yield member.name, file.read()


def _committed(source: Source, aside: Path, mirror: Path | None) -> Iterator[tuple[str, bytes]]:
    """Path and content of the wanted files of a commit; CapscoreError where the content is absent."""
    place = "+".join(source.repository.rstrip("/").split("/")[-2:])
    if mirror is not None:
        known = [mirror / f"{place}{end}" for end in ("/repo", ".git", "")]
        repository = next((folder for folder in known if folder.is_dir()), None)
        if repository is None:
            raise CapscoreError(f"not reached: {mirror} has no {place}/repo")
    else:
        repository = aside / "repository"
        _run(["git", "init", "--quiet", "--bare", str(repository)], aside)
        _run(["git", "fetch", "--quiet", "--depth", "1", source.repository, source.commit], repository)
    listed = _run(["git", "ls-tree", "-r", "-z", source.commit], repository).decode().split("\0")
    entries = (entry.partition("\t") for entry in listed if entry)
    wanted = {path: about.split()[2] for about, _, path in entries if source.named(path) is not None}
    asked = "".join(f"{blob}\n" for blob in wanted.values()).encode()
    stream = io.BytesIO(_run(["git", "cat-file", "--batch"], repository, asked))
    for path in wanted:
        *_, size = stream.readline().split()
        if size == b"missing":
            raise CapscoreError(f"{place} does not hold the content of {path}, one of {source.files:,} files")
        yield path, stream.read(int(size))
        stream.read(1)


def _run(command: list[str], folder: Path, given: bytes = b"") -> bytes:
    try:
        return subprocess.run(command, cwd=folder, input=given, capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode("utf-8", "replace").strip() or str(error)
        shown = " ".join(command[:3])
        raise CapscoreError(f"not reached: `{shown} …` failed ({said.splitlines()[-1]})") from None


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("fetch", "check"))
    parser.add_argument("--to", type=Path, required=True, help="folder of the sources")
    parser.add_argument("--mirror", type=Path, help="folder of git directories to read in its place")
    parser.add_argument(
        "--only", nargs="+", default=SOURCES, choices=SOURCES, metavar="NAME", help="default: all"
    )
    given = parser.parse_args(argv)
    is_whole = True
    for name in given.only:
        source = SOURCES[name]
        said = f"{counted(source.files, 'file')} in {given.to / source.to}"
        try:
            if given.what == "fetch":
                fetch(source, given.to, given.mirror)
            else:
                source.read(given.to)
        except CapscoreError as error:
            said, is_whole = str(error), False
        print(f"{name}: {said}", flush=True)
    if not is_whole:
        raise SystemExit(1)


if __name__ == "__main__":
    run_as_command(main)
