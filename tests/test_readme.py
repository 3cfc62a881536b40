"""What the README says can be done is done here as it says; each test has a promise for its name."""

from __future__ import annotations

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

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CAPTIONS = {"cat": "a cat with green eyes looks to the side", "coffee": "a cup of coffee on a wooden table"}
CAPTIONS["rocket"] = "a dog runs on the beach"


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text("utf-8"), flags=re.S)


def write_photos() -> None:
    """Write what README and guides start from here: cat.jpg, and photos with their captions."""
    from skimage import data

    Path("photos").mkdir()
    Image.fromarray(data.cat()).save("cat.jpg")
    for name, caption in CAPTIONS.items():
        Image.fromarray(getattr(data, name)()).save(f"photos/{name}.jpg")
        Path(f"photos/{name}.txt").write_text(f"{caption}\n", encoding="utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos()
    return tmp_path


def run_examples(examples, name):
    """What examples print, one after the other in one namespace."""
    names: dict = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for example in examples:
            exec(compile(example, name, "exec"), names)
    return printed.getvalue()


def prints_what_is_shown(block: str) -> None:
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


def write_systems() -> None:
    """Write the captions of two systems, and references, of the photos."""
    ours = {"cat": "a striped cat with green eyes", "coffee": "a cup of espresso and a spoon on a table"}
    ours["rocket"] = "a rocket stands on its launch pad at dusk"
    references = {
        "cat": ["a tabby cat looks to the side", "the face of a cat with green eyes"],
        "coffee": ["a cup of coffee on a saucer with a spoon", "espresso on a wooden table"],
        "rocket": ["a white rocket on a launch pad at night", "a rocket between towers before its start"],
    }
    for name, values in (("ours", ours), ("baseline", CAPTIONS), ("refs", references)):
        listed = {f"{photo}.jpg": value for photo, value in values.items()}
        Path(f"{name}.json").write_text(json.dumps(listed))


@pytest.mark.usefixtures("embedded_is_read_once")
@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.split()[2])
def test_each_command_prints_what_is_shown_and_writes_its_files(here, block):
    write_systems()
    prints_what_is_shown(block)
    words = shlex.split(block.partition("\n")[0])
    for option, file in itertools.pairwise(words):
        if option in ("--output", "--report", "--table"):
            assert (here / file).is_file()


@pytest.mark.usefixtures("embedded_is_read_once")
def test_the_example_in_python_runs(flickr8k, monkeypatch):
    (example,) = blocks("python")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", flickr8k / "cache")
    with pytest.warns(capscore.BenchmarkWarning, match="2 rows where 5,664 were published"):
        printed = run_examples([example], "README.md")
    assert "Scores(mcs: mean 0.6" in printed and "Likely wrong: dog" in printed


def test_the_signature_beside_a_score_is_the_real_one(embedded):
    shown = re.search(r"^mcs\|.*$", README, flags=re.M).group()
    scorer = capscore.load("mcs", backbone=embedded, cache=False)
    assert scorer.score(["a dog"], [Image.new("RGB", (8, 8))], language="en").signature == shown


@pytest.mark.usefixtures("embedded_is_read_once")
def test_pr_mcs_gives_a_jumbled_caption_less_than_mcs_does_and_a_right_one_the_same(here):
    text = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    printed = run_examples(re.findall(r"```python\n(.*?)```", text, flags=re.S), "robustness.md")
    *scores, found = printed.splitlines()
    # a caption and itself jumbled, in MCS and in PR-MCS
    numbers = [[float(number) for number in line.strip("[]").split()] for line in scores]
    (mcs, mcs_jumbled), (pr_mcs, pr_mcs_jumbled) = numbers
    assert mcs_jumbled > 0.8 * mcs and pr_mcs > 0.8 * mcs and pr_mcs_jumbled < 0.2 * pr_mcs
    assert "'kind': 'repetition'" in found


@pytest.fixture
def flickr8k(here):
    (here / "flickr8k").mkdir()
    official("flickr8k_human").write(here / "flickr8k")
    return here


def test_the_commands_of_benchmarks_run_as_they_stand(flickr8k):
    lines = blocks("bash", "docs/benchmarking.md")[0].splitlines()
    commands = [line for line in lines if re.match("capscore (data list|benchmark)", line)]
    for line in commands:
        result = run(*shlex.split(line, comments=True)[1:])
        assert result.exit_code == 0, result.output
    assert len(commands) == 2


def test_a_benchmark_is_a_data_set_in_one_line(flickr8k, monkeypatch):
    (example,) = [text for text in blocks("python", "docs/benchmarking.md") if "load_benchmark(" in text]
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", flickr8k / "cache")
    with pytest.warns(capscore.BenchmarkWarning, match="2 rows where 5,664 were published"):
        assert run_examples([example, "print(rows.num_rows)"], "benchmarking.md").endswith("2\n")


def test_bad_input_ends_in_one_error_that_names_the_row_as_shown(here):
    (here / "photos" / "dog.jpg").touch()
    scorer = capscore.load("ref_clip_score", backbone=ColourBackbone(), cache=False)
    given = [([RED] * 3 + ["photos/dog.jpg"], [["red"]] * 4), ([RED] * 8, [["red"]] * 7 + [[]])]
    told = []
    for images, references in given:
        with pytest.raises(CapscoreError) as caught:
            scorer.score(["red"] * len(images), images, references)
        told.append(str(caught.value))
    assert "\n".join(told) in (ROOT / "docs" / "limits.md").read_text("utf-8")


def test_rows_that_are_skipped_are_counted_beside_the_mean():
    scorer = capscore.load("ref_clip_score", backbone=ColourBackbone(), cache=False)
    scores = scorer.score(["red", "red"], [RED, "gone.jpg"], [["red"], ["red"]], on_error="skip")
    assert (scores.n_scored, scores.n_failed) == (1, 1) and scores.mean > 0
