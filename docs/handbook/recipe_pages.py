"""A page per training recipe, from its docstring and its settings."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from training.engine.config import described

# recipe → module and class of its settings
RECIPES = {
    "pr_mcs": ("training.pr_mcs", "Settings"),
    "infometic": ("training.infometic", "Settings"),
    "teacher_learning": ("training.teacher_learning", "TeacherLearning"),
    "human_ratings": ("training.human_ratings", "Settings"),
    "translate": ("training.translate", "Settings"),
    "grid": ("training.grid", "GridSettings"),
    "noise_gate": ("weights.making.noise_gate.settings", "NoiseGateSettings"),
    "image_tower": ("weights.making.image_tower.settings", "ImageTowerSettings"),
    "mark_calibration": ("weights.making.mark_calibration.settings", "MarkCalibrationSettings"),
}


def recipe_page(name: str) -> str:
    """The page of a recipe in `RECIPES`.

    >>> "| `learning_rate` |" in recipe_page("pr_mcs")
    True
    """
    place, settings = RECIPES[name]
    module = importlib.import_module(place)
    run = place.removesuffix(".settings")
    text = inspect.cleandoc((module if run == place else importlib.import_module(run)).__doc__ or "")
    rows = [
        f"| `{setting}` | {_cell(default)} | {_cell(meaning)} |"
        for setting, default, meaning in described(getattr(module, settings))
    ]
    return "\n".join(
        [
            f"# python -m {run}\n",
            _indented_as_code(text),
            "\n## Settings\n",
            "Each is a line of the YAML file (`--config`), or an option of the command line, which wins.\n",
            "| setting | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _indented_as_code(text: str) -> str:
    """Docstrings indent commands: a block of them becomes a block of code."""
    blocks: list[str] = []
    for part in text.split("\n\n"):
        if all(line.startswith("    ") for line in part.splitlines()):
            blocks.append("```bash\n" + inspect.cleandoc("\n" + part) + "\n```")
        else:
            blocks.append(" ".join(part.split()))
    return "\n\n".join(blocks)


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("<", "&lt;")
