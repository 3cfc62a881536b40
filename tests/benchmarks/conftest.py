"""Tiny benchmarks on disk, and no trace outside the test's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..datasets_scripts.conftest import _own_cache, official

__all__ = ["_own_cache"]


@pytest.fixture
def flickr(tmp_path) -> Path:
    """Flickr8k's human judgements in their official files: two rows a configuration."""
    return _written("flickr8k_human", tmp_path / "flickr8k_human")


@pytest.fixture
def root(tmp_path) -> Path:
    """A folder of benchmarks, each in a folder of its name."""
    for slug in ("flickr8k_human", "pascal50s", "thumb", "valse", "xvnli", "marvl"):
        _written(slug, tmp_path / slug)
    return tmp_path


def _written(slug: str, folder: Path) -> Path:
    folder.mkdir()
    official(slug).write(folder)
    return folder
