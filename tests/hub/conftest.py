"""A Hub on this machine, and the library as its wheels give it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backbones.loopback_hub import LoopbackHub, logged_in

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[LoopbackHub]:
    with logged_in(tmp_path, monkeypatch) as hub:
        yield hub


@pytest.fixture(scope="session")
def wheels(tmp_path_factory) -> list[Path]:
    """Wheels of the library and of its weights, as `make wheel` builds them."""
    folder = tmp_path_factory.mktemp("wheels")
    for place in (ROOT, ROOT / "weights"):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=place, check=True, capture_output=True)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheels, tmp_path_factory) -> Path:
    """A folder that both wheels are installed in."""
    folder = tmp_path_factory.mktemp("site")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder
