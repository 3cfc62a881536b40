"""The ways in which a hostile input reaches capscore: a folder and the input → what happened.

The command is called through its own entry, in this process, with its streams captured.
"""

from __future__ import annotations

import io
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import capscore
from capscore import backbones
from capscore.errors import CapscoreError
from tests.photos import encode
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.command import read_jsonl, write_jsonl

from .case import Outcome


def _load_backbone(name: Any, load: Any = backbones.load_backbone, **options: Any) -> Any:
    return ColourBackbone() if name == "toy" else load(name, **options)


def run_command(*arguments: object) -> Outcome:
    """The command `capscore ARGUMENTS…`, for which the toy backbone is `toy`."""
    from capscore.cli import main

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["capscore", *map(str, arguments)]),
        mock.patch.object(backbones, "load_backbone", _load_backbone),
        mock.patch.multiple(sys, stdin=io.StringIO(), stdout=streams[0], stderr=streams[1]),
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
        return Outcome(code, " ".join(inside.translate(dict.fromkeys(map(ord, "│╰╯─"), " ")).split()), out)
    return Outcome(code, "", out + err)


def call(function: Callable[[], Any]) -> tuple[Outcome, Any]:
    """A call in Python, and its value; only errors of capscore are caught."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            value = function()
        except CapscoreError as error:
            return Outcome(1, str(error)), None
    said = [str(each.message) for each in given if each.category.__module__.startswith("capscore")]
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
    assert skipped is not None and skipped[1] == other and (skipped[0] is None) == bool(outcome.error)
    outcome.scores = outcome.scores and outcome.scores[:1]
    return outcome


def score_file(folder: Path, name: str, metric: str, *options: object) -> Outcome:
    """`capscore score` of a file of rows: its result is all that is left."""
    before = {path.name for path in folder.iterdir()}
    outcome = run_command("score", folder / name, "-m", metric, "-o", folder / "out.jsonl", *options)
    left = {path.name for path in folder.iterdir()} - before
    assert left == ({"out.jsonl", "out.summary.json"} if outcome.code in (0, 3) else set()), (left, outcome)
    if left:
        outcome.scores = [row[metric] for row in read_jsonl(folder / "out.jsonl")]
    return outcome


def written(folder: Path, files: Mapping[str, Any]) -> None:
    """Write files, given as bytes or text, or by a function of their path."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(folder / name)
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))


OPTIONS = {"backbone": ColourBackbone(), "cache": False}
TOY = ("--backbone", "toy", "--no-cache")


def caption(folder: Path, given: Any) -> Outcome:
    """A caption of a red photo beside the caption "red": by the library and by the command.

    The toy backbone's words are red, green and blue. The other row scores 2.5 in any company.
    """
    outcome = score("mcs", OPTIONS, [given, "red"], [RED, RED])
    skipped = score("mcs", {**OPTIONS, "empty": "skip"}, [given, "red"], [RED, RED], on_error="skip").scores
    assert skipped is not None and skipped[1] == 2.5
    written(folder, {"photo.png": encode(RED)})
    write_jsonl(folder / "in.jsonl", [{"image": "photo.png", "caption": text} for text in (given, "red")])
    by_command = score_file(folder, "in.jsonl", "mcs", *TOY)
    assert by_command.code == outcome.code and by_command.scores == outcome.scores
    outcome.printed += by_command.printed
    outcome.scores = outcome.scores and outcome.scores[:1]
    return outcome


def references(folder: Path, given: Any) -> Outcome:
    """References of the candidate "a b", beside a harmless row that scores 1: ROUGE-L."""
    made = given if callable(given) else lambda: given
    return beside("rouge_l", {}, lambda: (["a b", "a b"], None, [made(), ["a b"]]), 1)


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
        write_jsonl(folder / "in.jsonl", [{"caption": "a b", "references": ["a b"]}])
        by_command = run_command("score", folder / "in.jsonl", "-m", "rouge_l", "--language", given)
        assert bool(by_command.code) == bool(outcome.error), by_command
        outcome.printed += by_command.printed
    return outcome


def rows(folder: Path, given: Any) -> Outcome:
    """Name and content of a file of rows with references: ROUGE-L by the command."""
    written(folder, dict([given]))
    return score_file(folder, given[0], "rouge_l", "--quiet")


def command(folder: Path, given: Any) -> Outcome:
    """Files, and a command line in which {} is their folder, which leaves them as they were.

    A command that fails does so with 1 or 2, whichever it is.
    """
    files, *arguments = given
    written(folder, files)
    outcome = run_command(*(str(argument).replace("{}", str(folder)) for argument in arguments))
    outcome.code = min(outcome.code, 1)
    assert {path.name: path.read_text() for path in folder.iterdir()} == files, "something was left"
    return outcome


def image(folder: Path, given: Any) -> Outcome:
    """An image for the caption "red" by the library, beside a blue one whose caption scores 2.5."""
    options = {**OPTIONS, "allow_urls": True}
    return beside("mcs", options, lambda: (["red", "blue"], [given, BLUE]), 2.5)


def image_file(folder: Path, given: Any) -> Outcome:
    """A file of an image for the caption "red": by the library as path and as bytes, and by the command."""
    name, content = given
    written(folder, {f"photos/{name}": content, "photos/blue.png": encode(BLUE)})
    path = folder / "photos" / name
    outcome = image(folder, path)
    if path.is_file() and path.stat().st_size < 2**22:
        assert image(folder, path.read_bytes()).scores == outcome.scores
    rows = [{"image": name, "caption": "red"}, {"image": "blue.png", "caption": "blue"}]
    write_jsonl(folder / "in.jsonl", rows)
    by_command = score_file(folder, "in.jsonl", "mcs", *TOY, "--images", folder / "photos")
    assert by_command.code == outcome.code, by_command
    assert by_command.scores == (outcome.scores and [*outcome.scores, 2.5])
    outcome.error, outcome.printed = by_command.error, outcome.printed + by_command.printed
    return outcome


def annotation(folder: Path, given: Any) -> Outcome:
    """An annotation file by its name, its content and a limit on what it unpacks to; counts its rows."""
    from capscore.benchmarks.data.annotation_files import AnnotationSource
    from capscore.benchmarks.data.load import builder_class

    name, content, *limit = given
    written(folder, {name: content})
    source = AnnotationSource(folder / name, "f.tsv" if name == "f.zip" else "")
    script = sys.modules[builder_class("flickr30k_entities").__module__]
    readers: dict[str, Callable[[], Any]] = {
        "f.parquet": lambda: [row["id"] for row in source.parquet()],
        "f.xml": lambda: script.read_annotation(source),  # regions of a photo
    }
    variables = ("UNPACKED", "ROW", "LIST") if limit else ()
    with mock.patch.dict(os.environ, {f"CAPSCORE_MAX_{kind}_BYTES": str(limit[0]) for kind in variables}):
        outcome, found = call(readers.get(name, lambda: list(source.tsv("photo", "caption"))))
    outcome.scores = None if found is None else [len(found)]
    assert {path.name for path in folder.iterdir()} == {name}, "something was unpacked"
    return outcome


def settings(folder: Path, given: Any) -> Outcome:
    """Settings of a recipe, as a YAML file or a command line; the score is the learning rate."""
    from training.engine.config import parse
    from training.engine.loop_settings import LoopSettings

    if not isinstance(given, list):
        written(folder, {"settings.yaml": given})
        given = ["--config", str(folder / "settings.yaml")]
    outcome, found = call(lambda: parse(LoopSettings, [*given, "--out", "out"], ""))
    outcome.scores = None if found is None else [found.learning_rate]
    return outcome
