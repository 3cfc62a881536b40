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
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import capscore
from capscore.errors import CapscoreError

from ..photos import encode
from ..toy import BLUE, RED, ColourBackbone
from .case import Outcome

# what a command may leave beside its input
_RESULTS = {"out.jsonl", "out.summary.json"}


def run_command(*arguments: object) -> Outcome:
    """The command `capscore ARGUMENTS…`."""
    from capscore.cli import main

    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["capscore", *map(str, arguments)]),
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
    return _of_command(code, out, err)


def _of_command(code: int, out: str, err: str) -> Outcome:
    """What a command printed, its one error apart from the rest."""
    start = "capscore: error: "
    lines = err.split("\n")
    errors = [number for number, line in enumerate(lines) if line.startswith(start)]
    if errors:
        assert len(errors) == 1, err
        rest = [line for line in lines[errors[0] + 1 :] if line]
        error = "\n".join([lines[errors[0]].removeprefix(start), *rest])
        return Outcome(code, error, out + "\n".join(lines[: errors[0]]))
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


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else float(value) for value in values]


def score(metric: str, options: Mapping[str, Any], /, *rows: Any, **more: Any) -> Outcome:
    """Scores by the library."""

    def compute() -> Any:
        return capscore.load(metric, **options).score(*rows, **more)

    outcome, scores = call(compute)
    if scores is not None:
        outcome.scores = _numbers(scores.scores)
    return outcome


@contextmanager
def toy_by_name() -> Any:
    """The toy backbone is `toy` on the command line."""
    from capscore.backbones import loading

    load = loading.load_backbone

    def load_backbone(name: Any, **options: Any) -> Any:
        return ColourBackbone() if name == "toy" else load(name, **options)

    with mock.patch.object(loading, "load_backbone", load_backbone):
        yield


def made(given: Any, folder: Path) -> Any:
    """The input: made in the folder, where it is not there yet."""
    return given(folder) if callable(given) else given


def written(folder: Path, files: Mapping[str, Any]) -> None:
    """Write files, given as bytes or text, or by a function of their path."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))


def strict_json(text: str) -> Any:
    """A JSON document; NaN and Infinity are none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


# ------------------------------------------------------------------------------ texts


def caption(folder: Path, given: Any) -> Outcome:
    """A caption of a red photo beside the caption "red": by the library, and by the command, twice.

    The toy backbone's words are red, green and blue. The other row scores 2.5 in any company.
    """
    text = made(given, folder)
    options = {"backbone": ColourBackbone(), "cache": False}
    outcome = score("mcs", options, [text, "red"], [RED, RED])
    beside = score("mcs", {**options, "empty": "skip"}, [text, "red"], [RED, RED], on_error="skip")
    assert beside.scores is not None and beside.scores[1] == 2.5
    photo = encode(RED)
    written(folder, {"photo.png": photo})
    rows = [{"image": "photo.png", "caption": text}, {"image": "photo.png", "caption": "red"}]
    try:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
    except (TypeError, ValueError):
        assert outcome.error
        return outcome  # nothing that a file can hold
    source = folder / "in.jsonl"
    source.write_text(lines)
    common = ("score", source, "--backbone", "toy", "--no-cache", "-o", folder / "out.jsonl")
    with toy_by_name():
        by_command = run_command(*common)
        assert by_command.code == outcome.code, by_command
        assert bool(by_command.error) == bool(outcome.error)
        skipping = run_command(*common, "--on-error", "skip", "--empty", "skip", "--force", "--json")
    empty = isinstance(text, str) and not any(sign.isprintable() and not sign.isspace() for sign in text)
    assert skipping.code == (3 if outcome.error and not empty else 0), skipping
    results = [strict_json(line) for line in (folder / "out.jsonl").read_text("utf-8").split("\n")[:-1]]
    kept = None if isinstance(text, float) else text  # NaN is no JSON
    assert [row["caption"] for row in results] == [kept, "red"]
    assert results[1]["mcs"] == 2.5
    assert results[0]["mcs"] == beside.scores[0]
    if outcome.scores is not None:
        assert abs(outcome.scores[0] - results[0]["mcs"]) <= 1e-6
        outcome.scores = outcome.scores[:1]
    outcome.printed += by_command.printed
    return outcome


def references(folder: Path, given: Any) -> Outcome:
    """References of the candidate "a b", beside a harmless row that scores 1: ROUGE-L."""
    rows = (["a b", "a b"], None)
    outcome = score("rouge_l", {}, *rows, [made(given, folder), ["a b"]])
    beside = score("rouge_l", {}, *rows, [made(given, folder), ["a b"]], on_error="skip")
    assert beside.scores is not None and beside.scores[1] == 1
    assert (beside.scores[0] is None) == bool(outcome.error)
    if outcome.scores is not None:
        outcome.scores = outcome.scores[:1]
    return outcome


def words(folder: Path, given: Any) -> Outcome:
    """A candidate, its references and a language: ROUGE-L, whose words are counted."""
    candidate, texts, language = made(given, folder)
    return score("rouge_l", {}, [candidate], None, [texts], language)


def language(folder: Path, given: Any) -> Outcome:
    """A language code: by the library for all rows and for one row, and by the command."""
    code = made(given, folder)
    outcome = score("rouge_l", {}, ["a b"], None, [["a b"]], code)
    if isinstance(code, str):
        of_row = score("rouge_l", {}, ["a b", "a b"], None, [["a b"], ["a b"]], [code, "en"])
        assert of_row.code == outcome.code or code == ""
        written(folder, {"in.jsonl": json.dumps({"caption": "a b", "references": ["a b"]})})
        command = run_command("score", folder / "in.jsonl", "-m", "rouge_l", "--language", code)
        assert command.code in ((0,) if not outcome.error else (1, 2)), command
        outcome.printed += command.printed
    return outcome


# ------------------------------------------------------------------------------ files


def rows(folder: Path, given: Any) -> Outcome:
    """Name and content of a file of rows with references, and options: ROUGE-L by the command."""
    files = made(given, folder)
    name, content, *options = files
    written(folder, {name: content})
    before = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    outcome = run_command(
        "score", folder / name, "-m", "rouge_l", "-o", folder / "out.jsonl", "--quiet", *options
    )
    outcome.scores = _read_result(folder, before, outcome, "rouge_l")
    return outcome


def _read_result(folder: Path, before: set[str], outcome: Outcome, metric: str) -> list[float | None] | None:
    """Scores in the result; nothing else is left."""
    after = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert after - before <= _RESULTS, after - before
    for name in after & {"out.jsonl"}:
        for line in (folder / name).read_bytes().decode("utf-8").split("\n")[:-1]:
            strict_json(line)
    if "out.jsonl" not in after:
        assert outcome.error and "out.summary.json" not in after
        return None
    assert outcome.code in (0, 3), "a result was written, and an error was given"
    strict_json((folder / "out.summary.json").read_text("utf-8"))
    lines = (folder / "out.jsonl").read_bytes().decode("utf-8").split("\n")[:-1]
    return [strict_json(line)[metric] for line in lines]


def command_fails(folder: Path, given: Any) -> Outcome:
    """Files, and a command line in which {} is their folder, which leaves them as they were.

    A command that fails does so with 1 or 2, whichever it is.
    """
    files, *arguments = made(given, folder)
    written(folder, files)
    with toy_by_name():
        outcome = run_command(*(str(argument).replace("{}", str(folder)) for argument in arguments))
    outcome.code = 1 if outcome.code == 2 else outcome.code
    for name, content in files.items():
        if isinstance(content, str):
            assert (folder / name).read_text() == content
    assert {path.name for path in folder.iterdir()} == set(files), "something was left"
    return outcome


# ----------------------------------------------------------------------------- images


def image(folder: Path, given: Any) -> Outcome:
    """An image for the caption "red" by the library, beside a blue one whose caption scores 2.5."""
    photo = made(given, folder)
    options = {"backbone": ColourBackbone(), "cache": False}
    images = [photo, BLUE]
    outcome = score("mcs", options, ["red", "blue"], images)
    beside = score("mcs", options, ["red", "blue"], images, on_error="skip")
    assert beside.scores is not None and beside.scores[1] == 2.5
    assert (beside.scores[0] is None) == bool(outcome.error)
    if outcome.scores is not None:
        outcome.scores = outcome.scores[:1]
    return outcome


def image_file(folder: Path, given: Any) -> Outcome:
    """A file of an image for the caption "red": by the library as path and as bytes, and by the command."""
    name, content = made(given, folder)
    written(folder, {f"photos/{name}": content, "photos/blue.png": encode(BLUE)})
    path = folder / "photos" / name
    outcome = image(folder, path)
    if path.is_file() and path.stat().st_size < 2**22:
        in_memory = image(folder, path.read_bytes())
        assert in_memory.scores == outcome.scores
    rows = [{"image": name, "caption": "red"}, {"image": "blue.png", "caption": "blue"}]
    written(folder, {"in.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    common = ("score", folder / "in.jsonl", "--backbone", "toy", "--no-cache", "--images", folder / "photos")
    before = {str(one.relative_to(folder)) for one in folder.rglob("*")}
    with toy_by_name():
        by_command = run_command(*common, "-o", folder / "out.jsonl")
    scores = _read_result(folder, before, by_command, "mcs")
    assert by_command.code == outcome.code, by_command
    if scores is not None and outcome.scores is not None:
        assert scores[1] == 2.5 and scores[0] == outcome.scores[0]
    outcome.error = by_command.error
    outcome.printed += by_command.printed
    return outcome


# ---------------------------------------------------------------------------- options


def option(folder: Path, given: Any) -> Outcome:
    """A metric and options of `capscore.load`, and one row scored with them."""
    metric, options = made(given, folder)
    references = [[["red"], ["blue"]]] if metric in ("cider", "clip_cider") else []
    if metric == "cider":
        return score(metric, options, ["red", "blue"], None, *references)
    options = {"backbone": ColourBackbone(), "cache": False, **options}
    return score(metric, options, ["red", "blue"], [RED, BLUE], *references)


# ------------------------------------------------------------------------- benchmarks


def annotation(folder: Path, given: Any) -> Outcome:
    """An annotation file by its name, its content and variables of the environment; counts its rows."""
    from capscore.benchmarks.data.annotation_files import AnnotationSource

    name, content, *environment = made(given, folder)
    written(folder, {name: content})
    packed = name.endswith((".zip", ".tar.gz")) and not name.endswith("tsv.gz")
    source = AnnotationSource(folder / name, "f.tsv" if packed else "")
    kind = "tsv" if packed else name.removesuffix(".gz").rpartition(".")[2]
    readers: dict[str, Callable[[], Any]] = {
        "tsv": lambda: list(source.tsv("photo", "caption")),
        "csv": lambda: [row["id"] for row in source.csv()],
        "jsonl": lambda: [row["id"] for row in source.jsonl()],
        "parquet": lambda: [row["id"] for row in source.parquet()],
        "json": lambda: list(source.json()),
    }
    with mock.patch.dict(os.environ, environment[0] if environment else {}):
        outcome, found = call(readers[kind])
    if found is not None:
        outcome.scores = [len(found)]
    assert {path.name for path in folder.iterdir()} == {name}, "something was unpacked"
    return outcome


def regions_of_entities(folder: Path, given: Any) -> Outcome:
    """Regions of a photo, as Flickr30k Entities has them."""
    from capscore.benchmarks.data import flickr30k_entities
    from capscore.benchmarks.data.annotation_files import AnnotationSource

    written(folder, {"Annotations/1.xml": made(given, folder)})
    return call(lambda: flickr30k_entities.read_annotation(AnnotationSource(folder / "Annotations/1.xml")))[0]


# --------------------------------------------------------------------------- training


def training_file(folder: Path, given: Any) -> Outcome:
    """A file of settings; the score is the learning rate."""
    written(folder, {"settings.yaml": made(given, folder)})
    return training_line(folder, ["--config", str(folder / "settings.yaml")])


def training_line(folder: Path, given: Any) -> Outcome:
    """Settings on the command line of a recipe; the score is the learning rate."""
    from training.engine.config import as_flag, parse
    from training.engine.loop_settings import LoopSettings

    arguments = made(given, folder)
    out = [] if "--out" in arguments else ["--out", "out"]

    def read() -> Any:
        try:
            return parse(LoopSettings, [*arguments, *out], "")
        except CapscoreError as error:
            error.spelled(as_flag)
            raise

    outcome, settings = call(read)
    if settings is not None:
        outcome.scores = [settings.learning_rate]
    return outcome


# ------------------------------------------------------------------------------- apps

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
    written(folder, {"uploads/photo.png": encode(RED), "outside.png": encode(RED)})
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


# ----------------------------------------------------------- folders with weights, caches


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


def _with_hostile_file(kind: str, folder: Path, given: Any) -> Path:
    """A copy in which one file has another content: text, bytes, changed entries, or None for no file."""
    name, content = given
    copy = folder / kind
    shutil.copytree(_harmless(kind), copy)
    path = copy / name
    if isinstance(content, dict):
        content = json.dumps({**json.loads(path.read_text()), **content})
    path.unlink(missing_ok=True)
    if name.endswith("index.json"):
        (copy / "model.safetensors").unlink()
    if content is not None:
        written(copy, {name: content})
    return copy


def checkpoint(folder: Path, given: Any) -> Outcome:
    """A CLIP checkpoint in which one file is hostile."""
    path = _with_hostile_file("checkpoint", folder, given)
    outcome, _ = call(lambda: capscore.load_backbone(str(path), device="cpu"))
    assert not list(folder.rglob("harmed")) and not Path("harmed").exists(), "code of a checkpoint was run"
    return outcome


def network(folder: Path, given: Any) -> Outcome:
    """Weights of InfoMetIC of which one file is hostile."""
    from capscore.infometic.network import InfoMetIC

    path = _with_hostile_file("network", folder, given)
    outcome, _ = call(lambda: InfoMetIC.from_pretrained(path))
    assert not Path("harmed").exists(), "code of a checkpoint was run"
    return outcome


def cache(folder: Path, given: Any) -> Outcome:
    """A folder of embeddings, for a red photo and "red": by the library."""
    path = made(given, folder)
    options = {"backbone": ColourBackbone(), "cache": path}
    outcome = score("mcs", options, ["red"], [RED])
    again = score("mcs", options, ["red"], [RED])
    assert again.scores == outcome.scores
    return outcome


def address(folder: Path, given: Any) -> Outcome:
    """A web address that may be fetched, beside a blue photo whose caption scores 2.5."""
    options = {"backbone": ColourBackbone(), "cache": False, "allow_urls": True}
    outcome = score("mcs", options, ["red", "blue"], [given, BLUE])
    beside = score("mcs", options, ["red", "blue"], [given, BLUE], on_error="skip")
    assert beside.scores is not None and beside.scores[1] == 2.5
    return outcome


SURFACES: dict[str, Callable[[Path, Any], Outcome]] = {
    surface.__name__: surface
    for surface in (
        *(caption, references, words, language, rows, command_fails, image, image_file, option, annotation),
        *(regions_of_entities, training_file, training_line, app, address, checkpoint, network, cache),
    )
}
