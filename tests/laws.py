"""The harness of the laws: what holds for every thing of a kind, run over all that are registered.

`tests/test_<kind>_laws.py` holds the laws of a kind; what a thing needs to be tried (rows, a tiny checkpoint,
a small official file) stands in the table of that file. A new thing is tested by being registered.
"""

from importlib import import_module
from pathlib import Path

import pytest

from capscore.files.read import FORMATS
from capscore.files.shipped import benchmark_slugs
from capscore.perturbations import all_kinds
from capscore.registry import LAYOUTS, METRICS


def _recipes():
    found = Path(__file__).parents[1].glob("training/*.py")
    return sorted(path.stem for path in found if "    recipe_name: ClassVar" in path.read_text("utf-8"))


KINDS = {
    "command": lambda: import_module("tools.project.documents").every_command(),
    "metric": METRICS.names,
    "recipe": _recipes,
    "perturbation": all_kinds,
    "backbone": lambda: import_module("tools.tiny.backbones").KINDS,
    "benchmark": benchmark_slugs,
    "layout": LAYOUTS.names,
    "file_format": lambda: [
        *(known.name for known in FORMATS if known.is_written),
        "saved",
        "parts",
        "photos",
    ],
}


def every(kind, *, without=(), also=()):
    """Parametrize a law over all that is registered of a kind; its argument has the kind's name.

    What tests register themselves is named in `also`.
    """
    names = [*(name for name in KINDS[kind]() if name not in set(without)), *also]
    return pytest.mark.parametrize(kind, names)
