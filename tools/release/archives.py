"""Wheels and source archives: the same bytes whenever they are built, and nothing missing or too much."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

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
_IN_WEIGHTS = ("capscore_weights/infometic/", "capscore_weights/image_tower/")
_NOWHERE = ("__pycache__", ".pyc", ".DS_Store", ".venv/", "/build/")


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
    names = {path.name: _members(path) for path in archives}
    if len(names) != 4:
        raise RuntimeError(f"expected two wheels and two source archives, got {', '.join(names) or 'none'}")
    for archive, members in names.items():
        wheel, weights = archive.endswith(".whl"), archive.startswith("capscore_weights")
        wanted = (
            _IN_WEIGHTS if weights else _IN_WHEEL if wheel else ("/pyproject.toml", "/tests/", "/training/")
        )
        missing = [one for one in (*wanted, "LICENSE") if not any(one in member for member in members)]
        foreign = [member for member in members if any(one in member for one in _NOWHERE)]
        if wheel and not weights:
            foreign += [
                member
                for member in members
                if member.startswith(("tests/", "tools/", "training/", "weights/"))
            ]
        if missing or foreign:
            raise RuntimeError(f"{archive} lacks {missing}, and should not hold {foreign}")
    return f"{sum(map(len, names.values())):,} files"


def requirements(wheel: Path, extras: Iterable[str]) -> list[str]:
    """What a wheel requires, without markers: the library's own dependencies and those of extras."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        stated = Parser().parsestr(file.read(name).decode()).get_all("Requires-Dist") or []
    found = []
    for requirement in map(Requirement, stated):
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
            return file.namelist()
    with tarfile.open(archive) as file:
        return file.getnames()


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
