"""Files of results that `capscore benchmark --output` writes: a stamp, a schema, and rows to compare."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from ..backbones import find
from ..errors import InputError, MissingExtraError
from ..files.text_files import TextFile
from ..metrics.loading import component_of
from ..metrics.rows import parse_signature
from ..registry import METRICS

FORMAT, FORMAT_VERSION = "capscore-results", 1
# Packages that numbers come out of.
_PACKAGES = "numpy scipy torch torchvision transformers open_clip_torch datasets pillow".split()
_LOW_IS_GOOD = frozenset({"one_minus_r2"})
# content of a file of results, or one of its parts; result_schema.json says what is in it
Document = dict[str, Any]


def stamped(document: Document) -> Document:
    """A document of results with its format, and with what computed it."""
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "environment": environment(), **document}


def environment() -> Document:
    """Python, system and packages, without anything that names a machine or person."""
    versions: dict[str, str] = {}
    for package in _PACKAGES:
        for found in metadata.distributions(name=package):
            versions.setdefault(package, found.version)
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "packages": versions,
    }


class ReportedNumber(NamedTuple):
    """A number that a metric got on a benchmark."""

    benchmark: str
    config: str
    split: str
    language: str  # of the captions, as the signature has it; "" if it names none or several
    metric: str
    backbone: str  # "" for metrics without
    statistic: str  # such as "tau_c"
    main: bool  # whether it is the one that papers report
    value: float | None  # unrounded
    interval: tuple[float, float] | None
    n_rows: int  # that were scored
    n_of: int  # rows of the split
    figures: tuple[Document, ...]  # published of the same, as in the file, with the preferred one first
    licence: str  # of the backbone's weights; "" where none is known
    parameters: int  # of the backbone; 0 where their number is not known
    signature: str  # everything that the scores depend on
    version: str  # of capscore
    file: str  # that it stands in

    @property
    def published(self) -> float | None:
        """The preferred published value; None where it is of something else, such as another backbone."""
        if not self.figures or self.figures[0].get("standing", "").startswith("not comparable"):
            return None
        return self.figures[0]["value"]

    @property
    def source(self) -> str:
        """Source of the published figure, and whether it is reproduced; "" without one."""
        if not self.figures:
            return ""
        figure = self.figures[0]
        source = figure["source"]
        if self.published is None:
            source = f"{source}: {100 * figure['value']:.1f}"
        return "; ".join(filter(None, (source, figure.get("standing"))))


def read_results(paths: Iterable[str | Path]) -> list[ReportedNumber]:
    """Numbers of files of results: benchmarks by name, and in each statistic the best number first."""
    numbers: list[ReportedNumber] = []
    for file, document in read_documents(paths):
        for run in runs_of(document):
            numbers += numbers_of(file.name, run)
    return sorted(numbers, key=_best_first)


def _best_first(number: ReportedNumber) -> tuple[object, ...]:
    """Sorts numbers of one statistic from the best to the worst, undefined ones last."""
    best = math.inf
    if number.value is not None:
        best = number.value if number.statistic in _LOW_IS_GOOD else -number.value
    statistic = (number.benchmark, number.config, not number.main, number.statistic)
    return *statistic, best, *metric_order(number.metric), number.backbone, number.file


def read_documents(paths: Iterable[str | Path]) -> list[tuple[Path, Document]]:
    """Read files of results, and files in folders, with the content of each."""
    files: list[Path] = []
    for path in map(Path, paths):
        found = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        if not found or not all(file.is_file() for file in found):
            raise InputError(f"{path} is neither a file of results nor a folder of them (.json)")
        files += found
    return [(file, check_document(TextFile(file).json_value(), str(file))) for file in files]


def metric_order(name: str) -> tuple[int, str]:
    """Sorts metrics as the library presents them, others last, by name."""
    places = {metric: place for place, metric in enumerate(METRICS.names())}
    return places.get(component_of(name)[0], len(places)), name


def check_document(document: object, what: str) -> Document:
    """Check a document of results against the schema; returns it."""
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match
    except ImportError:
        raise MissingExtraError("jsonschema", "leaderboard", "checking files of results") from None
    problem = best_match(Draft202012Validator(schema()).iter_errors(document))
    if problem is not None:
        place = "/".join(map(str, problem.absolute_path)) or "the whole"
        raise InputError(f"{what} does not match the schema of results: {place}: {problem.message:.200}")
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        raise InputError(f"{what} has NaN or an infinite number; write null for a missing number") from None
    assert isinstance(document, dict)
    return document


@cache
def schema() -> Document:
    """The JSON Schema (draft 2020-12) of files of results."""
    return json.loads(files(__package__).joinpath("result_schema.json").read_text(encoding="utf-8"))


def runs_of(document: Document) -> list[Document]:
    """The runs of a document, whether it has one or several."""
    return document["runs"] if "runs" in document else [document]


def numbers_of(file: str, run: Document) -> Iterator[ReportedNumber]:
    """The numbers of a run, of which the file says where they stand."""
    for result in run["results"]:
        backbone = result["backbone"] or ""
        known = find(backbone) if backbone else None
        for index, statistic in enumerate(result["statistics"]):
            yield ReportedNumber(
                benchmark=run["benchmark"],
                config=run["config"],
                split=run["split"],
                language=_language(result["signature"]),
                metric=result["metric"].partition("@")[0],
                backbone=backbone,
                statistic=statistic["name"],
                main=index == 0,
                value=statistic["measured"],
                interval=statistic["interval"] and tuple(statistic["interval"]),
                n_rows=result["n_rows"],
                n_of=run["n_rows"],
                figures=tuple(statistic.get("published", ())),
                licence=known.licence if known else "",
                parameters=known.parameters if known else 0,
                signature=result["signature"],
                version=run["capscore_version"],
                file=file,
            )


def _language(signature: str) -> str:
    """The one language that a signature names, or ""."""
    try:
        language = parse_signature(signature)[1].get("lang", "")
    except ValueError:  # scores that others computed
        return ""
    return "" if language in ("none", "various") else language
