"""Every loading script, and tiny files in its official format."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from types import ModuleType

import datasets
import pytest

from capscore.benchmarks.data.builder import BenchmarkWarning
from capscore.files.shipped import benchmark_slugs

from ..photos import encode, noise

SCRIPTS = Path(__file__).resolve().parents[2] / "datasets_scripts"
SLUGS = benchmark_slugs()


def official(slug: str) -> ModuleType:
    """What writes a benchmark's tiny official files, and what should come out of them."""
    return importlib.import_module(f"{__package__}.official.{slug}")


def configurations(slug: str) -> list[str]:
    """The configurations that the tiny files give."""
    return list(dict.fromkeys(config for config, _ in official(slug).ROWS))


def write_photos(slug: str, folder: Path) -> None:
    """The photos that the rows ask for."""
    for seed, name in enumerate(official(slug).PHOTOS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        suffix = Path(name).suffix.lower()
        (folder / name).write_bytes(encode(noise(seed=seed), "PNG" if suffix == ".png" else "JPEG"))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Prepared and downloaded files, and embeddings, go into the test's own folder."""
    cache = tmp_path_factory.mktemp("datasets")
    monkeypatch.setenv("CAPSCORE_CACHE", str(cache / "embeddings"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", cache / "downloads")
    datasets.disable_progress_bars()
    # tiny files never have the published number of rows
    warnings.simplefilter("ignore", BenchmarkWarning)


@pytest.fixture(params=SLUGS)
def slug(request) -> str:
    return request.param


@pytest.fixture
def data_dir(slug, tmp_path) -> Path:
    """A folder with the tiny official files of a benchmark."""
    folder = tmp_path / slug
    folder.mkdir()
    official(slug).write(folder)
    return folder
