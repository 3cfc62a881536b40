"""Wheels and source archives: the same bytes whenever they are built, and nothing missing or too much."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from email.message import Message
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import capscore

_ROOT = Path(__file__).resolve().parents[2]
# 2024-01-01: archives hold this time instead of that of the build
_MOMENT = "1704067200"
_IN_WHEEL = (
    "capscore/py.typed",
    "capscore/benchmarks/result_schema.json",
    "capscore/show/templates/page.css",
    "capscore/show/citations.bib",
    "capscore/_shipped/metrics/mcs/mcs.py",
    "capscore/_shipped/datasets_scripts/valse/valse.py",
)
_IN_SOURCES = ("/pyproject.toml", "/tests/", "/tools/", "/training/", "capscore/__init__.py")
_NOWHERE = ("__pycache__", ".pyc", ".DS_Store", ".venv/", "/build/")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".onnx")
# the only weights of the library's own: embeddings of WordNet's texts by an encoder that is Apache-2.0
_FREE_WEIGHTS = ["capscore/backbones/embedded/free_classes.safetensors"]


def build_twice(root: Path, output: Path) -> str:
    """Build the archives of both packages twice, from two copies of the checkout.

    Args:
        root: The checkout.
        output: Folder that gets the archives, once they are the same.

    Returns:
        Name and checksum of each.

    Raises:
        RuntimeError: an archive's bytes differ, or it cannot be built.
    """
    with tempfile.TemporaryDirectory() as scratch:
        found = []
        for name in ("one", "second copy"):
            copy, built = Path(scratch, name), Path(scratch, f"built {name}")
            # what is committed, and nothing that lies around
            subprocess.run(["git", "clone", "--quiet", str(root), str(copy)], check=True)
            for package in (copy, copy / "weights"):
                command = [sys.executable, "-m", "build", "--outdir", str(built), str(package)]
                settings = {**os.environ, "SOURCE_DATE_EPOCH": _MOMENT}
                done = subprocess.run(command, env=settings, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError((done.stdout + done.stderr)[-2000:])
            found.append({path.name: _checksum(path) for path in sorted(built.iterdir())})
        if found[0] != found[1]:
            names = [name for name in found[0] if found[0][name] != found[1].get(name)]
            raise RuntimeError(f"other bytes in the second build: {', '.join(names)}")
        output.mkdir(parents=True, exist_ok=True)
        for old in output.glob("capscore*"):
            old.unlink()
        for path in built.iterdir():
            shutil.copy(path, output)
    return ", ".join(f"{name} {checksum[:12]}" for name, checksum in found[0].items())


def check_contents(archives: Iterable[Path]) -> str:
    """Check that each archive carries what it should.

    Raises:
        RuntimeError: names what is missing, or what should not be there.
    """
    paths = list(archives)
    if len(paths) != 4:
        names = ", ".join(path.name for path in paths)
        raise RuntimeError(f"expected two wheels and two source archives, got {names or 'none'}")
    if problems := [problem for path in paths for problem in problems_of(path)]:
        raise RuntimeError("\n".join(problems))
    return f"{sum(len(_members(path)) for path in paths):,} files"


def problems_of(archive: Path) -> list[str]:
    """What an archive of either package lacks, holds too much, or states wrongly."""
    members = _members(archive)
    wheel, of_weights = archive.suffix == ".whl", archive.name.startswith("capscore_weights")
    files = [member if wheel else member.partition("/")[2] for member in members]
    carried = sorted(file for file in files if file.endswith(_WEIGHTS))
    cards = _ROOT.glob("weights/capscore_weights/*/README.md")
    shipped = [path.parent.relative_to(_ROOT / "weights").as_posix() for path in cards]
    foreign = [member for member in members if any(part in member for part in _NOWHERE)]
    wanted, weights = list(_IN_WHEEL if wheel else _IN_SOURCES), _FREE_WEIGHTS
    if of_weights:
        wanted = [f"{folder}/README.md" for folder in shipped]
        weights = sorted(f"{folder}/model.safetensors" for folder in shipped)
        foreign += [member for member in members if member.endswith((".py", ".so", ".pkl"))]
    elif wheel:
        others = ("tests/", "tools/", "training/", "weights/", "capscore_weights/")
        foreign += [member for member in members if member.startswith(others)]
    missing = [part for part in (*wanted, "LICENSE") if not any(part in member for member in members)]
    problems = []
    if missing or foreign:
        problems.append(f"{archive.name} lacks {missing}, and should not hold {foreign}")
    if carried != weights:
        problems.append(f"{archive.name} carries the weights {carried}; expected {weights}")
    return [*problems, *(f"{archive.name}: {problem}" for problem in _wrong_metadata(_metadata(archive)))]


def _wrong_metadata(stated: Message) -> list[str]:
    """Version, bound of the weights, and the page that an index shows."""
    version, page = Version(capscore.__version__), str(stated.get_payload())
    wrong = []
    if stated["Version"] != capscore.__version__:
        wrong.append(f"version {stated['Version']}; expected {version}")
    next_minor = Version(f"{version.major}.{version.minor + 1}.0")
    required = map(Requirement, stated.get_all("Requires-Dist") or [])
    bounds = [requirement.specifier for requirement in required if requirement.name == "capscore-weights"]
    if stated["Name"] == "capscore" and not bounds:
        wrong.append("no extra requires capscore-weights")
    for bound in bounds:
        if version not in bound or next_minor in bound:
            wrong.append(f"capscore-weights{bound} is not of the series of {version}")
    install = re.search(r"pip install '(.*)'", page)
    if install is None or install[1] != "capscore[embedded]" or "make demo" in page.split("## Install")[0]:
        wrong.append("its page does not begin with how to install it from an index")
    links = re.findall(r"\]\(([^)]+)\)", page)
    lost = [link for link in links if not link.startswith(("https://", "http://", "#"))]
    if lost or not links:
        wrong.append(f"{len(links)} links, of which these lead nowhere: {lost}")
    return wrong


def requirements(wheel: Path, extras: Iterable[str]) -> list[str]:
    """What a wheel requires, without markers: the library's own dependencies and those of extras."""
    found = []
    for requirement in map(Requirement, _metadata(wheel).get_all("Requires-Dist") or []):
        marker = requirement.marker
        if requirement.name != "capscore" and (
            marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
        ):
            requirement.marker = None
            found.append(str(requirement))
    return found


def _members(archive: Path) -> list[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return [name for name in file.namelist() if not name.endswith("/")]
    with tarfile.open(archive) as file:
        return [member.name for member in file.getmembers() if member.isfile()]


def _metadata(archive: Path) -> Message:
    """What an archive states of itself; nothing where it has no such file."""
    ending = "METADATA" if archive.suffix == ".whl" else "PKG-INFO"
    name = next((name for name in _members(archive) if name.endswith(f"/{ending}")), None)
    if name is None:
        return Message()
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return Parser().parsestr(file.read(name).decode())
    with tarfile.open(archive) as opened, opened.extractfile(name) or io.BytesIO() as content:
        return Parser().parsestr(content.read().decode())


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
