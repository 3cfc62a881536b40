"""The ways in which a hostile input reaches capscore: a folder and the input → what happened.

The command is called through its own entry, in this process, with its streams captured.
"""

from __future__ import annotations

import atexit
import functools
import io
import json
import math
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import capscore
from capscore.backbones import loading
from capscore.errors import CapscoreError

from ..photos import encode
from ..toy import BLUE, RED, ColourBackbone
from .case import Outcome

# what a command may leave beside its input
_RESULTS = {"out.jsonl", "out.summary.json"}


def _load_backbone(name: Any, load: Any = loading.load_backbone, **options: Any) -> Any:
    return ColourBackbone() if name == "toy" else load(name, **options)


def run_command(*arguments: object) -> Outcome:
    """The command `capscore ARGUMENTS…`, for which the toy backbone is `toy`."""
    from capscore.cli import main

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["capscore", *map(str, arguments)]),
        mock.patch.object(loading, "load_backbone", _load_backbone),
        mock.patch.object(sys, "stdin", io.StringIO()),
        mock.patch.object(sys, "stdout", streams[0]),
        mock.patch.object(sys, "stderr", streams[1]),
        mock.patch.dict(os.environ, COLUMNS="80", NO_COLOR="1"),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    out, err = (stream.buffer.getvalue().decode("utf-8", errors="surrogateescape") for stream in streams)
    before, *errors = f"\n{err}".split("\ncapscore: error: ")
    if errors:
        assert len(errors) == 1, err
        return Outcome(code, errors[0].rstrip("\n"), out + before)
    if "╭─ Error" in err:  # a box of the command line's parser
        inside = err.split("╭─ Error", 1)[1].split("\n", 1)[1]
        error = " ".join(" ".join(line.strip("│╰╯─ ") for line in inside.splitlines()).split())
        return Outcome(code, error, out)
    return Outcome(code, "", out + err)


def call(function: Callable[[], Any]) -> tuple[Outcome, Any]:
    """A call in Python, and its value; only errors of capscore are caught."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            value = function()
        except CapscoreError as error:
            return Outcome(1, str(error)), None
    said = [str(one.message) for one in given if one.category.__module__.startswith("capscore")]
    return Outcome(0, "", "\n".join(said)), value


def score(metric: str, options: Mapping[str, Any], /, *rows: Any, **more: Any) -> Outcome:
    """Scores by the library."""
    outcome, scores = call(lambda: capscore.load(metric, **options).score(*rows, **more))
    if scores is not None:
        outcome.scores = [None if math.isnan(value) else float(value) for value in scores.scores]
    return outcome


def beside(metric: str, options: Mapping[str, Any], columns: Callable[[], Any], other: float) -> Outcome:
    """A hostile row before a harmless one, which keeps its score where the first is skipped."""
    outcome = score(metric, options, *columns())
    skipped = score(metric, options, *columns(), on_error="skip").scores
    assert skipped is not None and skipped[1] == other
    assert (skipped[0] is None) == bool(outcome.error)
    outcome.scores = outcome.scores and outcome.scores[:1]
    return outcome


def score_file(folder: Path, name: str, metric: str, *options: object) -> Outcome:
    """`capscore score` of a file of rows: its result is all that is left, and has no NaN or Infinity."""
    before = {path.name for path in folder.iterdir()} - _RESULTS
    outcome = run_command("score", folder / name, "-m", metric, "-o", folder / "out.jsonl", *options)
    left = {path.name for path in folder.iterdir()} - before
    assert left == (_RESULTS if outcome.code in (0, 3) else set()), (left, outcome)
    if left:
        json.loads((folder / "out.summary.json").read_text("utf-8"), parse_constant=pytest.fail)
        outcome.scores = [row[metric] for row in rows_of(folder / "out.jsonl")]
    return outcome


def rows_of(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text("utf-8").split("\n")[:-1]
    return [json.loads(line, parse_constant=pytest.fail) for line in lines]


def made(given: Any, folder: Path) -> Any:
    """The input; a function makes it in the folder."""
    return given(folder) if callable(given) else given


def written(folder: Path, files: Mapping[str, Any]) -> None:
    """Write files, given as bytes or text, or by a function of their path."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(folder / name)
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))


def caption(folder: Path, given: Any) -> Outcome:
    """A caption of a red photo beside the caption "red": by the library, and by the command, twice.

    The toy backbone's words are red, green and blue. The other row scores 2.5 in any company.
    """
    options = {"backbone": ColourBackbone(), "cache": False}
    outcome = score("mcs", options, [given, "red"], [RED, RED])
    skipped = score("mcs", {**options, "empty": "skip"}, [given, "red"], [RED, RED], on_error="skip").scores
    assert skipped is not None and skipped[1] == 2.5
    try:
        lines = [json.dumps({"image": "photo.png", "caption": text}) for text in (given, "red")]
    except TypeError:
        assert outcome.error
        return outcome  # nothing that a file can hold
    written(folder, {"photo.png": encode(RED), "in.jsonl": "\n".join(lines)})
    common = (folder, "in.jsonl", "mcs", "--backbone", "toy", "--no-cache")
    by_command = score_file(*common)
    assert (by_command.code, bool(by_command.error)) == (outcome.code, bool(outcome.error)), by_command
    skipping = score_file(*common, "--on-error", "skip", "--empty", "skip", "--force", "--json")
    empty = isinstance(given, str) and not any(sign.isprintable() and not sign.isspace() for sign in given)
    assert skipping.code == (3 if outcome.error and not empty else 0), skipping
    kept = None if isinstance(given, float) else given  # NaN is no JSON
    assert [row["caption"] for row in rows_of(folder / "out.jsonl")] == [kept, "red"]
    assert skipping.scores == skipped and by_command.scores == outcome.scores
    outcome.scores = outcome.scores and outcome.scores[:1]
    outcome.printed += by_command.printed
    return outcome


def references(folder: Path, given: Any) -> Outcome:
    """References of the candidate "a b", beside a harmless row that scores 1: ROUGE-L."""
    return beside("rouge_l", {}, lambda: (["a b", "a b"], None, [made(given, folder), ["a b"]]), 1)


def words(folder: Path, given: Any) -> Outcome:
    """A candidate, its reference and a language: ROUGE-L, whose words are counted."""
    candidate, reference, code = given
    return score("rouge_l", {}, [candidate], None, [[reference]], code)


def language(folder: Path, given: Any) -> Outcome:
    """A language code: by the library for all rows and for one row, and by the command."""
    outcome = score("rouge_l", {}, ["a b"], None, [["a b"]], given)
    if isinstance(given, str):
        of_row = score("rouge_l", {}, ["a b", "a b"], None, [["a b"], ["a b"]], [given, "en"])
        assert of_row.code == outcome.code
        written(folder, {"in.jsonl": json.dumps({"caption": "a b", "references": ["a b"]})})
        command = run_command("score", folder / "in.jsonl", "-m", "rouge_l", "--language", given)
        assert command.code in ((0,) if not outcome.error else (1, 2)), command
        outcome.printed += command.printed
    return outcome


def rows(folder: Path, given: Any) -> Outcome:
    """Name and content of a file of rows with references: ROUGE-L by the command."""
    name, content = given
    written(folder, {name: content})
    return score_file(folder, name, "rouge_l", "--quiet")


def command(folder: Path, given: Any) -> Outcome:
    """Files, and a command line in which {} is their folder, which leaves them as they were.

    A command that fails does so with 1 or 2, whichever it is.
    """
    files, *arguments = given
    written(folder, files)
    outcome = run_command(*(str(argument).replace("{}", str(folder)) for argument in arguments))
    outcome.code = 1 if outcome.code == 2 else outcome.code
    for name, content in files.items():
        if isinstance(content, str):
            assert (folder / name).read_text() == content
    assert {path.name for path in folder.iterdir()} == set(files), "something was left"
    return outcome


def image(folder: Path, given: Any) -> Outcome:
    """An image for the caption "red" by the library, beside a blue one whose caption scores 2.5."""
    options = {"backbone": ColourBackbone(), "cache": False, "allow_urls": True}
    return beside("mcs", options, lambda: (["red", "blue"], [made(given, folder), BLUE]), 2.5)


def image_file(folder: Path, given: Any) -> Outcome:
    """A file of an image for the caption "red": by the library as path and as bytes, and by the command."""
    name, content = given
    written(folder, {f"photos/{name}": content, "photos/blue.png": encode(BLUE)})
    path = folder / "photos" / name
    outcome = image(folder, path)
    if path.is_file() and path.stat().st_size < 2**22:
        assert image(folder, path.read_bytes()).scores == outcome.scores
    rows = [{"image": name, "caption": "red"}, {"image": "blue.png", "caption": "blue"}]
    written(folder, {"in.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    common = ("--backbone", "toy", "--no-cache", "--images", folder / "photos")
    by_command = score_file(folder, "in.jsonl", "mcs", *common)
    assert by_command.code == outcome.code, by_command
    assert by_command.scores == (outcome.scores and [*outcome.scores, 2.5])
    outcome.error = by_command.error
    outcome.printed += by_command.printed
    return outcome


def option(folder: Path, given: Any) -> Outcome:
    """A metric, one of its options and a value: refused before anything is scored."""
    metric, name, value = given
    options = {} if metric == "cider" else {"backbone": ColourBackbone(), "cache": False}
    options |= {"weights": "info_clip"} if metric == "infometic" else {}
    texts = [[["red"], ["blue"]]] if "cider" in metric else []
    return score(metric, {**options, name: value}, ["red", "blue"], [RED, BLUE], *texts)


def annotation(folder: Path, given: Any) -> Outcome:
    """An annotation file by its name, its content and a limit on what it unpacks to; counts its rows."""
    from capscore.benchmarks.data.annotation_files import AnnotationSource
    from capscore.benchmarks.data.flickr30k_entities import read_annotation

    name, content, *limit = given
    written(folder, {name: content})
    source = AnnotationSource(folder / name, "f.tsv" if name == "f.zip" else "")
    readers: dict[str, Callable[[], Any]] = {
        "f.jsonl": lambda: [row["id"] for row in source.jsonl()],
        "f.parquet": lambda: [row["id"] for row in source.parquet()],
        "f.json": lambda: list(source.json()),
        "f.xml": lambda: read_annotation(source),  # regions of a photo, as Flickr30k Entities has them
    }
    variables = ("UNPACKED", "ROW", "LIST") if limit else ()
    with mock.patch.dict(os.environ, {f"CAPSCORE_MAX_{kind}_BYTES": str(limit[0]) for kind in variables}):
        outcome, found = call(readers.get(name, lambda: list(source.tsv("photo", "caption"))))
    if found is not None:
        outcome.scores = [len(found)]
    assert {path.name for path in folder.iterdir()} == {name}, "something was unpacked"
    return outcome


def settings(folder: Path, given: Any) -> Outcome:
    """Settings of a recipe, as a YAML file or a command line; the score is the learning rate."""
    from training.engine.config import as_flag, parse
    from training.engine.loop_settings import LoopSettings

    if not isinstance(given, list):
        written(folder, {"settings.yaml": given})
        given = ["--config", str(folder / "settings.yaml")]

    def read() -> Any:
        try:
            return parse(LoopSettings, [*given, *([] if "--out" in given else ["--out", "out"])], "")
        except CapscoreError as error:
            error.spelled(as_flag)
            raise

    outcome, found = call(read)
    if found is not None:
        outcome.scores = [found.learning_rate]
    return outcome


_CLICKS: dict[str, list[Any]] = {
    "mcs": [None, "red", "", "en"],
    "infometic": [None, "red", "en"],
    "cider": [None, "red\nblue", "red\n\nblue", "en"],
}


@functools.cache
def _handler(metric: str) -> Callable[..., Any]:
    from capscore.show.app import build_app

    app = build_app(metric, backbone=None if metric == "cider" else ColourBackbone(), device="cpu")
    return next(function.fn for function in app.fns.values() if function.api_name in ("score", "explain"))


def app(folder: Path, given: Any) -> Outcome:
    """A metric's demo, the place of one value, and the value; the others are harmless."""
    import gradio

    metric, place, value = given
    written(folder, {"uploads/photo.png": encode(RED)})
    values = list(_CLICKS[metric])
    if metric != "cider":
        values[0] = str(folder / "uploads" / "photo.png")
    with mock.patch.dict(os.environ, GRADIO_TEMP_DIR=str(folder / "uploads")), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values[place] = made(value, folder)
        try:
            shown = _handler(metric)(*values)
        except gradio.Error as error:
            assert "Something went wrong" not in error.message
            assert str(folder) not in error.message, "a path of this machine is shown"
            return Outcome(1, error.message)
    return Outcome(0, "", str(shown[0]))


@functools.cache
def _harmless(kind: str) -> Path:
    """A tiny checkpoint, or tiny weights of InfoMetIC; made once, and copied for each case."""
    folder = Path(tempfile.mkdtemp(prefix="harmless-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if kind == "checkpoint":
        from ..backbones.tiny_transformers import write_clip

        write_clip(folder)
    else:
        from ..infometic.tiny_pairs import tiny_model

        tiny_model().save_pretrained(folder)
    return folder


def weights(folder: Path, given: Any) -> Outcome:
    """A CLIP checkpoint, or weights of InfoMetIC, of which one file is hostile.

    Its content is text, bytes, changed entries, or a function of its path.
    """
    from capscore.infometic.network import InfoMetIC

    kind, name, content = given
    copy = folder / kind
    shutil.copytree(_harmless(kind), copy)
    path = copy / name
    if isinstance(content, dict):
        content = json.dumps({**json.loads(path.read_text()), **content})
    path.unlink(missing_ok=True)
    if name.endswith("index.json"):
        (copy / "model.safetensors").unlink()
    written(copy, {name: content})
    load = InfoMetIC.from_pretrained if kind == "network" else capscore.load_backbone
    outcome, _ = call(lambda: load(str(copy), device="cpu"))
    assert not list(folder.rglob("harmed")) and not Path("harmed").exists(), "code of a checkpoint was run"
    return outcome


def cache(folder: Path, given: Any) -> Outcome:
    """A folder of embeddings, for a red photo and "red": by the library."""
    options = {"backbone": ColourBackbone(), "cache": made(given, folder)}
    outcome = score("mcs", options, ["red"], [RED])
    assert score("mcs", options, ["red"], [RED]).scores == outcome.scores
    return outcome
