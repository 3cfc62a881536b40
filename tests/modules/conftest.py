"""What the tests of the modules share: where the modules are, how they are loaded, a tiny real checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import evaluate
import pytest

from capscore.metrics.evaluate_module import CaptionModule
from capscore.registry import METRICS as METRICS_BY_NAME

from ..backbones.tiny_transformers import write_clip
from ..shipped_weights import pr_mcs_on
from ..toy import ColourBackbone

METRICS = Path(__file__).resolve().parents[2] / "metrics"
SLUGS = sorted(folder.name for folder in METRICS.iterdir() if folder.is_dir() and folder.name[0] not in "._")
WITH_BACKBONE = [slug for slug in SLUGS if METRICS_BY_NAME.get(slug).takes_backbone]


def pytest_report_header() -> str:
    where = Path(datasets.__file__).parent
    return f"evaluate {evaluate.__version__} on datasets {datasets.__version__} ({where})"


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory, monkeypatch):
    """Results of `evaluate` and gradio's copies of examples stay in folders of the tests."""
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path_factory.mktemp("hf-metrics"))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.getbasetemp() / "gradio"))


@pytest.fixture
def uploads(tmp_path, monkeypatch) -> Path:
    """The folder in which gradio keeps uploads."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    (tmp_path / "uploads").mkdir()
    return tmp_path / "uploads"


@pytest.fixture
def load() -> Callable[..., CaptionModule]:
    """Loads a module by its slug as a user does; on the toy backbone unless told otherwise."""

    def load(slug: str, **options: Any) -> CaptionModule:
        return evaluate.load(str(METRICS / slug), **{**toy_options(slug), **options})

    return load


def toy_options(slug: str) -> dict[str, Any]:
    """What puts a metric on the toy backbone, if it has one; InfoMetIC without a network."""
    own = {"weights": "info_clip"} if slug == "infometic" else {}
    return {"backbone": toy_backbone(slug), "cache": False, **own} if slug in WITH_BACKBONE else {}


def toy_backbone(slug: str) -> ColourBackbone:
    """The toy backbone; for PR-MCS it says that it was fine-tuned for it."""
    backbone = ColourBackbone()
    backbone.recipe = "pr_mcs" if slug == "pr_mcs" else ""
    return backbone


@pytest.fixture(params=SLUGS)
def slug(request) -> str:
    return request.param


@pytest.fixture(params=WITH_BACKBONE)
def slug_with_backbone(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def embedded_pr_mcs(base_of_pr_mcs):
    """The weights of PR-MCS that ship, loaded once."""
    return pr_mcs_on(base_of_pr_mcs)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    """A CLIP checkpoint as the Hub has them, with random weights."""
    return write_clip(tmp_path_factory.mktemp("tiny-clip"))


@pytest.fixture(scope="session")
def datasets_expected() -> str:
    return os.environ.get("CAPSCORE_EXPECT_DATASETS", "")
