"""Pages that are made from the code: options of commands, settings of recipes, ideas of metrics."""

from __future__ import annotations

import html
import importlib
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

import typer.main

from capscore.cli import app
from training.engine.config import described

# recipe → module and class of its settings
RECIPES = {
    "pr_mcs": ("training.pr_mcs", "Settings"),
    "infometic": ("training.infometic", "Settings"),
    "teacher_learning": ("training.teacher_learning", "TeacherLearning"),
    "human_ratings": ("training.human_ratings", "Settings"),
    "translate": ("training.translate", "Settings"),
    "infometic_network": ("weights.making.infometic_network", "Settings"),
    "noise_gate": ("weights.making.settings", "NoiseGateSettings"),
    "image_tower": ("weights.making.settings", "ImageTowerSettings"),
    "image_tower_second": ("weights.making.settings", "SecondStageSettings"),
    "mark_calibration": ("weights.making.settings", "MarkCalibrationSettings"),
}
_COSINE = [("cosine of both embeddings",), ("w · max(cosine, 0)",)]
# metric → columns of boxes, each of which leads to the next
_IDEAS: dict[str, list[tuple[str, ...]]] = {
    "mcs": [
        ("photo", "caption, in any language"),
        ("image tower", "text tower, many languages"),
        *_COSINE,
    ],
    "fit": [
        ("photo", "caption, in any language", "background of photos"),
        ("cosine with the photo", "mean cosine with the 10 nearest photos of the background"),
        ("the one less the other",),
        ("logistic: the probability of this photo, not another",),
    ],
    "clip_score": [
        ("photo", "“A photo depicts” + caption"),
        ("image tower", "text tower, English"),
        *_COSINE,
    ],
    "pr_mcs": [
        ("photo", "caption"),
        ("image tower", "text tower that knows noise"),
        ("cosine: near 0 for broken captions",),
        ("w · max(cosine, 0)",),
    ],
    "ref_clip_score": [
        ("photo", "caption", "references"),
        ("w · max(cosine with the photo, 0)", "largest cosine with a reference"),
        ("harmonic mean",),
    ],
    "infometic": [
        ("photo", "caption"),
        ("regions", "words"),
        ("which word belongs to which region?",),
        (
            "vision recall: regions that no word names",
            "overall score",
            "text precision: words that no region shows",
        ),
    ],
    "judge": [
        ("photo", "question that quotes the caption"),
        ("vision–language model",),
        ("probability of yes against no",),
    ],
    "cider": [
        ("caption", "references of the photo"),
        ("runs of 1 to 4 words", "runs of 1 to 4 words"),
        ("rare runs weigh more",),
        ("10 · mean cosine",),
    ],
}
_BOX = "border:1px solid currentColor;border-radius:8px;padding:.4em .6em;text-align:center;max-width:11em"
_COLUMN = "display:flex;flex-direction:column;justify-content:space-around;gap:.6em"


def idea_picture(metric: str) -> str:
    """The idea of a metric: columns of boxes with arrows between them, in the colours of the page.

    >>> "w · max(cosine, 0)" in idea_picture("mcs")
    True
    """
    columns = [
        f'<div style="{_COLUMN}">'
        + "".join(f'<span style="{_BOX}">{html.escape(text)}</span>' for text in column)
        + "</div>"
        for column in _IDEAS[metric]
    ]
    arrow = '<span style="align-self:center"> → </span>'
    return f'<div style="display:flex;gap:.5em;overflow-x:auto">{arrow.join(columns)}</div>'


def command_pages() -> dict[str, str]:
    """Command, with "-" for blanks → its page.

    >>> "## Options" in command_pages()["compare"]
    True
    """
    pages: dict[str, str] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for part, item in getattr(command, "commands", {"": command}).items():
            words = f"{name} {part}".strip()
            pages[words.replace(" ", "-")] = _command_page(words, item)
    return pages


def _command_page(words: str, command: Any) -> str:
    command.add_metric_options()
    command.name_metrics()
    text = re.sub(r"\[/?(?:bold|italic|dim)?\]", "", command.help or "")
    # an example stands alone, as what is typed
    text, _, example = text.partition("Example: ")
    rows = [
        (", ".join(f"`{flag}`" for flag in (*item.opts, *item.secondary_opts)), item.metavar, item.help)
        for item in command.params
        if item.param_type_name == "option"
    ]
    code = f"```bash\n{example.strip()}\n```\n" if example else ""
    table = _table(("option", "value", "meaning"), rows)
    return f"# capscore {words}\n\n{_escaped(text)}\n\n{code}\n## Options\n\n{table}"


def recipe_page(name: str) -> str:
    """The page of a recipe in `RECIPES`.

    >>> "| `learning_rate` |" in recipe_page("pr_mcs")
    True
    """
    module, settings = RECIPES[name]
    run = module.removesuffix(".settings")
    text = inspect.cleandoc(importlib.import_module(run).__doc__ or "")
    # docstrings indent commands
    code = re.sub(
        r"(?:^    .*\n?)+", lambda part: f"```bash\n{inspect.cleandoc(part[0])}\n```\n", text, flags=re.M
    )
    rows = [
        (f"`{setting}`", default, meaning)
        for setting, default, meaning in described(getattr(importlib.import_module(module), settings))
    ]
    about = "Each is a line of the YAML file (`--config`), or an option of the command line, which wins."
    table = _table(("setting", "default", "meaning"), rows)
    return f"# python -m {run}\n\n{code}\n\n## Settings\n\n{about}\n\n{table}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
    lines = [headings, ["---"] * len(headings)]
    lines += [[cells[0] or "", *(_escaped(cell or "") for cell in cells[1:])] for cells in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _escaped(text: str) -> str:
    """Text of a help as Markdown: its signs are escaped, and a paragraph is one line."""
    parts = [" ".join(part.split()) for part in text.split("\n\n")]
    return re.sub(r"([<>*_|\[\]])", r"\\\1", "\n\n".join(parts).strip())
