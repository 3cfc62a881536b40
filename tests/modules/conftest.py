"""What the tests of the modules share: where the modules are, and how they are loaded."""

from pathlib import Path

import evaluate
import pytest

from capscore.metrics.with_backbone import BackboneScorer
from capscore.registry import METRICS as METRICS_BY_NAME
from tools.hostile.metrics import options_for

METRICS = Path(__file__).resolve().parents[2] / "metrics"
SLUGS = sorted(folder.name for folder in METRICS.iterdir() if folder.is_dir() and folder.name[0] not in "._")
WITH_BACKBONE = [slug for slug in SLUGS if issubclass(METRICS_BY_NAME.get(slug), BackboneScorer)]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path_factory.mktemp("hf-metrics"))


@pytest.fixture
def load():
    """Loads a module by its slug as a user does; on a toy unless told otherwise."""
    return lambda slug, **options: evaluate.load(str(METRICS / slug), **options_for(slug, **options))


@pytest.fixture(params=SLUGS)
def slug(request):
    return request.param
