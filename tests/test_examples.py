"""Examples of the guides and of the notebook run as they stand, in a folder with the files that they name.

A block that cannot run here says why in the line above it: `<!-- not run: needs photos of COCO -->`; a page
whose first line says so has none that does. What a block takes for granted stands in such a line too:
`<!-- setup: captions = ["a cat"] -->`. Lines of pip, make and hf are not run. Those of the README are run in
test_readme.py.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from .cli.conftest import run
from .test_readme import prints_what_is_shown, run_examples, write_photos

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^(?:<!-- (not run|setup): (.*?) -->\n)?```(python|console|bash)\n(.*?)^```", re.S | re.M)
SLOW = ("infometic.md", "integrations.md")
ELSEWHERE = ("pip", "make", "hf", "python -m venv")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The photos that the guides name."""
    monkeypatch.chdir(tmp_path)
    write_photos()
    shutil.copy("cat.jpg", "photo.jpg")


@pytest.mark.usefixtures("embedded_is_read_once")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "document",
    [pytest.param(path, marks=[pytest.mark.slow] if path.name in SLOW else []) for path in DOCUMENTS],
    ids=lambda path: path.stem,
)
def test_examples_run(document, folder, monkeypatch):
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    text = document.read_text(encoding="utf-8")
    examples: list[str] = []
    for kind, said, language, block in [] if text.startswith("<!-- not run: ") else BLOCK.findall(text):
        if kind == "setup":
            examples.append(said)
        if kind == "not run":
            continue
        if language == "python":
            examples.append(block)
        elif language == "console":
            prints_what_is_shown(block)
        else:
            run_commands(block)
    run_examples(examples, document.name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("weights/capscore_weights/*/README.md")), ids=lambda path: path.parent.name
)
def test_weights_are_loaded_as_their_card_says(path, folder):
    examples = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)
    own = {"path/to/this/folder": str(path.parent), "…": "a cat", "photo.jpg": "cat.jpg", '"ar"': '"en"'}
    for shown, here in own.items():
        examples = [example.replace(shown, here) for example in examples]
    assert len(examples) == 2 and "|version:" in run_examples(examples, path.parent.name)


def run_commands(block: str) -> None:
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and not line.startswith(ELSEWHERE):
            assert words[0] == "capscore", f"not a command that runs here; say why: {line}"
            done = run(*words[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}"


@pytest.mark.slow
def test_the_notebook_runs(folder, monkeypatch):
    """All of it but the installation."""
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    notebook = json.loads((ROOT / "docs" / "first_score.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    install, *examples = ("".join(cell["source"]) for cell in cells)
    assert install.startswith("%pip install")
    shown = run_examples(examples, "first_score.ipynb")
    assert shown.count("better than") == 3
    assert "a striped cat with green eyes → No word looks wrong." in shown
    assert "a striped piano with green eyes → Likely wrong: piano" in shown
