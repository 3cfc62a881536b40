"""Every loading script, and tiny files in its official format."""

import functools
import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import datasets
import pytest

import capscore
from capscore.benchmarks.data.builder import BenchmarkWarning

from ..photos import encode, noise


def official(slug: str) -> ModuleType:
    """What writes a benchmark's tiny official files, and says what is in them."""
    return importlib.import_module(f"tools.tiny.official.{slug}")


def write_photos(slug: str, folder: Path) -> None:
    for seed, name in enumerate(official(slug).PHOTOS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encode(noise(seed=seed), "PNG" if name.endswith(".png") else "JPEG"))


def load(slug: str, config: str | None, folder: Path, split: str | None = None, **options: Any) -> Any:
    options.setdefault("cache_dir", folder / "cache")
    return capscore.load_benchmark(slug, config, data_dir=folder, split=split, **options)


@pytest.fixture(autouse=True)
def _own_cache(_own_cache, tmp_path_factory, monkeypatch):
    """As in tests/conftest.py; prepared and downloaded files go into the test's own folder too."""
    cache = tmp_path_factory.mktemp("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", cache / "downloads")
    datasets.disable_progress_bars()
    # tiny files never have the published number of rows
    warnings.simplefilter("ignore", BenchmarkWarning)


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Callable[[str], Path]:
    """Benchmark → a folder with its tiny official files and photos, which no test changes."""
    root = tmp_path_factory.mktemp("benchmarks")

    @functools.cache
    def folder(slug: str) -> Path:
        made = root / slug
        made.mkdir()
        official(slug).write(made)
        write_photos(slug, made)
        return made

    return folder


@pytest.fixture
def written(tmp_path) -> Callable[..., Path]:
    """Benchmark, and which of its ways to write (`write`) → a new folder with its files, without photos."""

    def folder(slug: str, write: str = "write") -> Path:
        made = tmp_path / slug
        made.mkdir(exist_ok=True)
        getattr(official(slug), write)(made)
        return made

    return folder
