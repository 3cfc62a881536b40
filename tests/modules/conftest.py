"""What the tests of the modules share: where the modules are, and how they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest

from capscore.embedding.background import Background, Curve
from capscore.metrics.evaluate_module import CaptionModule
from capscore.metrics.with_backbone import BackboneScorer
from capscore.registry import METRICS as METRICS_BY_NAME
from tools.tiny.colours import ColourBackbone
from tools.tiny.judges import tiny_judge

METRICS = Path(__file__).resolve().parents[2] / "metrics"
SLUGS = sorted(folder.name for folder in METRICS.iterdir() if folder.is_dir() and folder.name[0] not in "._")
WITH_BACKBONE = [slug for slug in SLUGS if issubclass(METRICS_BY_NAME.get(slug), BackboneScorer)]
BACKGROUND = Background(np.eye(3, dtype=np.float32), "colours@w00000000", {"shared": Curve(3.0, -1.0)})


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory, monkeypatch):
    """Results of `evaluate` stay in folders of the tests."""
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path_factory.mktemp("hf-metrics"))


@pytest.fixture
def load() -> Callable[..., CaptionModule]:
    """Loads a module by its slug as a user does; on the toy backbone unless told otherwise."""

    def load(slug: str, **options: Any) -> CaptionModule:
        backbone = ColourBackbone()
        backbone.recipe = "pr_mcs" if slug == "pr_mcs" else ""
        toy = {"backbone": backbone, "cache": False} if slug in WITH_BACKBONE else {}
        toy |= {"backbone": tiny_judge(), "cache": False} if slug == "judge" else {}
        toy |= {"weights": "info_clip"} if slug == "infometic" else {}
        toy |= {"background": BACKGROUND} if slug == "fit" else {}
        return evaluate.load(str(METRICS / slug), **{**toy, **options})

    return load


@pytest.fixture(params=SLUGS)
def slug(request) -> str:
    return request.param
