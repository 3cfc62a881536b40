"""Examples of the README, the guides and the notebook run as they stand, in a folder with what they name.

A block that cannot run here says why in the line above it: `<!-- not run: needs photos of COCO -->`; a page
whose first line says so has none that does. What a block takes for granted stands in such a line too:
`<!-- setup: captions = ["a cat"] -->`. Lines of pip, make and hf are not run.
"""

import contextlib
import io
import itertools
import json
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

import capscore
from capscore.errors import CapscoreError
from tools.tiny.colours import RED, ColourBackbone

from .cli.conftest import run
from .datasets_scripts.conftest import official

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?:<!-- (not run|setup): (.*?) -->\n)?```(python|console|bash)\n(.*?)^```", re.S | re.M)
SLOW = ("infometic.md", "integrations.md")
ELSEWHERE = ("pip", "make", "hf", "python -m venv")
# captions of the photos by two systems, and references
SYSTEMS = {
    "baseline": {
        "cat": "a cat with green eyes looks to the side",
        "coffee": "a cup of coffee on a wooden table",
        "rocket": "a dog runs on the beach",
    },
    "ours": {
        "cat": "a striped cat with green eyes",
        "coffee": "a cup of espresso and a spoon on a table",
        "rocket": "a rocket stands on its launch pad at dusk",
    },
    "refs": {
        "cat": ["a tabby cat looks to the side", "the face of a cat with green eyes"],
        "coffee": ["a cup of coffee on a saucer with a spoon", "espresso on a wooden table"],
        "rocket": ["a white rocket on a launch pad at night", "a rocket between towers before its start"],
    },
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What the documents name: photos, with captions beside them and of systems, and a benchmark."""
    from skimage import data

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    for name in ("photos", "flickr8k"):
        Path(name).mkdir()
    official("flickr8k_human").write(tmp_path / "flickr8k")
    for name in ("cat", "photo"):
        Image.fromarray(data.cat()).save(f"{name}.jpg")
    for name, caption in SYSTEMS["baseline"].items():
        Image.fromarray(getattr(data, name)()).save(f"photos/{name}.jpg")
        Path(f"photos/{name}.txt").write_text(f"{caption}\n", encoding="utf-8")
    for system, texts in SYSTEMS.items():
        Path(f"{system}.json").write_text(json.dumps({f"{name}.jpg": text for name, text in texts.items()}))
    return tmp_path


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
    examples = []
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
    printed = run_examples(examples, document.name)
    if document.stem == "README":
        assert "Scores(mcs: mean 0.6" in printed and "Likely wrong: dog" in printed
    if document.stem == "robustness":  # a caption and itself jumbled, in MCS and in PR-MCS
        *lines, found = printed.splitlines()
        (mcs, mcs_jumbled), (pr_mcs, pr_mcs_jumbled) = (
            map(float, line.strip("[]").split()) for line in lines
        )
        assert mcs_jumbled > 0.8 * mcs and pr_mcs > 0.8 * mcs and pr_mcs_jumbled < 0.2 * pr_mcs
        assert "'kind': 'repetition'" in found


def run_examples(examples, name):
    names = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for example in examples:
            exec(compile(example, name, "exec"), names)
    return printed.getvalue()


def run_commands(block):
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and not line.startswith(ELSEWHERE):
            assert words[0] == "capscore", f"not a command that runs here; say why: {line}"
            done = run(*words[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}"


def prints_what_is_shown(block):
    """Type the first line of a console example, and compare what is printed with the lines below it."""
    line, _, shown = block.partition("\n")
    program, *arguments = shlex.split(line.removeprefix("$ "))
    done = run(*arguments, "--no-cache")
    assert program == "capscore" and done.exit_code == 0, done.output
    whole = " ".join(done.stdout.split())
    near = [float(number) for number in re.findall(r"\d\.\d{4}", whole)]
    for expected in shown.splitlines():
        words = " ".join(expected.split())
        # the last digits of a score may differ between processors
        assert re.sub(r"\d\.\d{4}", "#", words) in re.sub(r"\d\.\d{4}", "#", whole), expected
        for score in re.findall(r"\d\.\d{4}", words):
            assert min(abs(float(score) - number) for number in near) < 0.0002, expected
    for option, file in itertools.pairwise(arguments):
        assert option not in ("--output", "--report", "--table") or Path(file).is_file()


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


def test_the_signature_beside_a_score_is_the_real_one(embedded):
    shown = re.search(r"^mcs\|.*$", DOCUMENTS[0].read_text("utf-8"), flags=re.M).group()
    scorer = capscore.load("mcs", backbone=embedded, cache=False)
    assert scorer.score(["a dog"], [Image.new("RGB", (8, 8))], language="en").signature == shown


def test_bad_input_ends_in_one_error_that_names_the_row_as_shown(folder):
    (folder / "photos" / "dog.jpg").touch()
    scorer = capscore.load("ref_clip_score", backbone=ColourBackbone(), cache=False)
    given = [([RED] * 3 + ["photos/dog.jpg"], [["red"]] * 4), ([RED] * 8, [["red"]] * 7 + [[]])]
    told = []
    for images, references in given:
        with pytest.raises(CapscoreError) as caught:
            scorer.score(["red"] * len(images), images, references)
        told.append(str(caught.value))
    assert "\n".join(told) in (ROOT / "docs" / "limits.md").read_text("utf-8")
