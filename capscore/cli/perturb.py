"""The command `capscore perturb`: perturbs the captions of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from .. import __version__
from ..errors import CapscoreError, Setting
from ..files.console import make_console
from ..files.progress import progress_bar
from .models import spoken_language
from .options import AsJson, Force, Language, OnError, Quiet, Split, column_option
from .request import argument, flowing, option
from .terminal import (
    SKIPPED,
    Stopped,
    UsageError,
    as_usage,
    check_choice,
    check_not_standard_output,
    check_only_one,
    listed_failures,
    make_table,
    print_failures,
    print_json,
    print_line,
    say,
    speaks_unicode,
    spell,
)

if TYPE_CHECKING:
    from rich.table import Table

    from ..files.interrupts import Signals
    from ..files.row_source import Chunk
    from ..perturbations.perturbed_file import PerturbedSource

OBJECTS = ("critical_objects", "objects")  # columns that are taken for critical objects
_DRAWING = ("repetition", "removal", "masking")
_FINDS = {"words": (*_DRAWING, "jumble"), "nouns": ("substitution",)}
_PANEL = "Perturbations"

_HELP = """Perturb the captions of a file, as PR-MCS does, to see whether a metric notices.

INPUT is JSONL, JSON, CSV, TSV, Parquet, or the folder of a saved data set, with a column [bold]caption[/],
and [bold]language[/] if there are several.

[bold]repetition[/] writes words twice, [bold]removal[/] keeps only some words, [bold]masking[/] writes
\\[MASK] for some, [bold]jumble[/] shuffles all words, [bold]substitution[/] exchanges objects: those in the
column critical_objects or objects (a list of texts or of \\[start, end] places; in CSV a JSON list) or, where
a row has none, its nouns. As published, their new order is any other one, so that some of three or more may
stay in place; with [bold]--order every[/], all of them move. Repetition, removal and masking draw the same
words, each with probability --p. The result depends only on the caption, its language and the options.

The result has the same rows and columns, with the perturbed text in the caption's column, and three new
columns: [bold]original[/], [bold]perturbation[/] and [bold]unchanged[/]. Several kinds make a row for each
caption and kind; with --wide, each kind is a new column instead. The suffix of --output chooses the kind of
file (a saved data set if there is none); counts and settings are in OUTPUT.summary.json. Without --output,
rows go to standard output as JSONL and everything else to standard error.

[bold]Exit codes[/]: 0 done, unchanged captions included; 1 failed (row, package, or writing); 2 wrong usage,
nothing done; 3 done, but rows were skipped (--on-error skip); 130 interrupted (Ctrl-C), 143 ended (SIGTERM).

[bold]Example[/]: capscore perturb captions.jsonl --all-kinds --language ja --output noisy.jsonl
"""


def perturb_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class PerturbRequest:
    """What `capscore perturb` is asked for."""

    input: Annotated[Path, argument("INPUT")]
    kind: Annotated[
        list[str] | None,
        option("repetition, removal, masking, … (above); repeatable.", "--kind", "-k"),
    ] = None
    all_kinds: Annotated[bool, option("All five kinds.", "--all-kinds")] = False
    output: Annotated[Path | None, option("File for the perturbed rows.", "--output", "-o")] = None
    language: Language = None
    on_error: OnError = "raise"
    noun_finder: Annotated[bool, option("Only show what finds words and nouns.", "--noun-finder")] = False
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    p: Annotated[
        float | None,
        option("Probability of drawing a word. Default: 0.4.", "--p", min=0, max=1, panel=_PANEL),
    ] = None
    seed: Annotated[int, option("Seed for all draws. Default: 0.", panel=_PANEL)] = 0
    independent_draws: Annotated[
        bool, option("Draw new words for each kind.", "--independent-draws", panel=_PANEL)
    ] = False
    removal: Annotated[
        str | None, option("keep or drop the drawn words. Default: keep.", panel=_PANEL, metavar="HOW")
    ] = None
    order: Annotated[
        str | None,
        option(
            "Order of the objects: published, or every (all move). Default: published.",
            panel=_PANEL,
            metavar="HOW",
        ),
    ] = None
    nouns: Annotated[bool, option("Exchange nouns even if objects are given.", "--nouns", panel=_PANEL)] = (
        False
    )
    wide: Annotated[bool, option("Make a column per kind.", "--wide", panel=_PANEL)] = False
    column: Annotated[
        str | None,
        option(
            "Default: caption, candidate, hyp, ….",
            "--column",
            "--candidate-column",
            panel="Columns",
        ),
    ] = None
    language_column: Annotated[str | None, column_option("language, lang")] = None
    objects_column: Annotated[str | None, column_option("critical_objects, objects")] = None
    split: Split = None

    def __post_init__(self) -> None:
        from ..perturbations import KINDS

        check_choice("on_error", self.on_error, ("raise", "skip"))
        check_only_one(Setting("kind", self.kind), Setting("all_kinds", self.all_kinds))
        check_not_standard_output(self.output, ": rows go to standard output if this option is left out")
        if not (self.kind or self.all_kinds or self.noun_finder):
            raise UsageError(f"no perturbation is chosen: --kind with {', '.join(KINDS)}, or --all-kinds")
        for name, takes in (
            ("p", _DRAWING),
            ("independent_draws", _DRAWING),
            ("removal", ("removal",)),
            ("order", ("substitution",)),
            ("nouns", ("substitution",)),
            ("objects_column", ("substitution",)),
        ):
            if getattr(self, name) not in (None, False) and not set(self.kinds) & set(takes):
                raise UsageError(
                    Setting(name), f" is an option of {', '.join(takes)}, not of {', '.join(self.kinds)}"
                )
        check_only_one(Setting("nouns", self.nouns), Setting("objects_column", self.objects_column))
        check_only_one(Setting("language", self.language), Setting("language_column", self.language_column))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The perturbations, each once."""
        from ..perturbations import KINDS

        return KINDS if self.all_kinds or not self.kind else tuple(dict.fromkeys(self.kind))


@dataclass(frozen=True)
class PerturbResult:
    """A perturbed file.

    Attributes:
        rows: The perturbed rows, with counts and failures.
        summary: Counts and settings, ready for JSON; None if only the finders were asked for.
        finders: What finds words and nouns in each language.
        reasons: Why nothing finds them, a line each.
    """

    rows: PerturbedSource
    summary: dict[str, Any] | None
    finders: dict[str, dict[str, Any]]
    reasons: Sequence[str] = ()


def run_perturb(request: PerturbRequest) -> PerturbResult:
    """Perturb a file, and write the result to a file or to standard output.

    Raises:
        UsageError, InputError: An option is wrong, or a row.
        Stopped: A signal came.
    """
    from ..files.interrupts import Signals
    from ..files.write import check_output, open_writer, refuse_bytes

    with Signals() as signals:
        rows = _open_input(request)
        if request.noun_finder:
            return PerturbResult(rows, None, *_find_finders(rows))
        target = None
        if request.output is not None:
            target = check_output(request.output, rows.source, force=request.force)
        else:
            refuse_bytes(rows.source, Setting("output"), "JSONL on standard output")
        rows.check()
        if rows.n_unsplit and not request.quiet:
            say(
                f"warning: {rows.n_unsplit:,} of {rows.source.n_rows:,} captions are written without spaces, "
                f"such as {rows.unsplit!r:.40}, and their language, as stated or not, has them: each is "
                "taken for one word. State the language they are in: ja, th or zh"
            )
        sink = _StandardOutput() if target is None else open_writer(target, rows, {})
        shown = None if target is not None and not request.quiet else False
        with progress_bar("Perturbing", rows.source.n_rows, shown=shown) as advance:
            summary = _write(rows, sink, signals, advance)
    return PerturbResult(rows, summary, summary["languages"])


def _open_input(request: PerturbRequest) -> PerturbedSource:
    from ..files.columns import check_column, find_columns, unread_language
    from ..files.read import open_rows
    from ..perturbations import P
    from ..perturbations.perturbed_file import PerturbationOptions, PerturbedSource

    options = PerturbationOptions(
        p=P if request.p is None else request.p,
        seed=request.seed,
        shared_draws=not request.independent_draws,
        removal=request.removal or "keep",
        order=request.order or "published",
        wide=request.wide,
        on_error=request.on_error,
    )
    with as_usage():
        options.check(request.kinds)
    language = spoken_language(request.language)
    source = open_rows(request.input, split=request.split)
    names = find_columns(
        source.columns,
        candidate=request.column,
        language=request.language_column,
        with_images=False,
        with_language=language is None,
    )
    unread = unread_language(source.columns, language)
    if unread and not request.quiet:
        say(f"note: --language {language} is taken for every row; the column {unread!r} is not read")
    objects = request.objects_column
    if objects is not None:
        check_column("objects_column", objects, source.columns)
    elif "substitution" in request.kinds and not request.nouns:
        found = [name for name in OBJECTS if name in source.columns]
        if len(found) > 1:
            raise UsageError(
                f"the columns {' and '.join(found)} could each hold the objects: choose with "
                "--objects-column, or take the nouns with --nouns"
            )
        objects = found[0] if found else None
    return PerturbedSource(source, names, objects, request.kinds, options, language)


class _Sink(Protocol):
    def write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None: ...
    def finish(self, about: dict[str, Any], summary: str) -> None: ...
    def stop(self) -> Path | None: ...


class _StandardOutput:
    """Rows as JSONL on standard output."""

    def write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        from ..errors.visible import json_visible
        from ..files.write import json_bytes

        for row in chunk.dicts():
            print(json_visible(json_bytes(row, ascii_only=not speaks_unicode()).decode("utf-8")))

    def finish(self, about: dict[str, Any], summary: str) -> None:
        sys.stdout.flush()

    def stop(self) -> Path | None:
        return None


def _write(rows: PerturbedSource, sink: _Sink, signals: Signals, advance: Any) -> dict[str, Any]:
    from ..files.interrupts import before_the_end
    from ..files.row_source import CHUNK_ROWS

    done, n_rows = 0, rows.source.n_rows

    def left() -> str:
        kept = sink.stop()
        where = "no result was written" if kept is None else f"{kept} has what was written"
        return f"interrupted after {done:,} of {n_rows:,} captions; {where}"

    try:
        with before_the_end(left):
            for chunk in rows.chunks(CHUNK_ROWS):
                # a reader of standard output may keep it waiting for ever
                with nullcontext() if isinstance(sink, _StandardOutput) else signals.held():
                    sink.write(chunk, {})
                count = len(chunk) if rows.options.wide else len(chunk) // len(rows.kinds)
                done += count
                advance(count)
        summary = _summary(rows, getattr(sink, "path", None))
        settings = {kind: part["settings"] for kind, part in summary["perturbations"].items()}
        about = {"perturbations": settings, "languages": summary["languages"]}
        with signals.held(drop=True):  # nothing is left to interrupt
            sink.finish(about, json.dumps(summary, ensure_ascii=False, indent=2) + "\n")
    except BaseException as error:
        with signals.held(drop=True):
            if isinstance(error, KeyboardInterrupt):
                raise Stopped(left(), error) from None
            kept = sink.stop()
        if kept is not None:
            say(f"the first {done:,} of {n_rows:,} captions are in {kept}")
        raise
    return summary


def _summary(rows: PerturbedSource, target: Path | None) -> dict[str, Any]:
    """Counts and settings of the whole file, ready for JSON."""
    return {
        "input": str(rows.source.path),
        "output": None if target is None else str(target),
        "captions": rows.source.n_rows,
        "rows": rows.n_rows,
        "perturbations": {
            kind: {
                "rows": part.rows,
                "unchanged": part.unchanged,
                "failed": part.failed,
                "settings": part.settings,
                **({"objects_not_found": part.not_found} if kind == "substitution" else {}),
            }
            for kind, part in rows.counts.items()
        },
        "languages": _described(rows.languages, rows.finders.get)[0],
        "failures": listed_failures(rows.failures),
        "versions": {"capscore": __version__},
    }


def _find_finders(rows: PerturbedSource) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What finds words and nouns in each language of the file, and why nothing does."""

    def find(key: tuple[str, str | None]) -> str | CapscoreError:
        try:
            return rows.finder(*key)
        except CapscoreError as error:
            return error

    return _described(rows.count_languages(), find)


def _described(counts: dict[str | None, int], find: Any) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Language, "" where none is stated → number of captions and what finds words and nouns; and reasons."""
    found: dict[str, dict[str, Any]] = {}
    reasons = []
    for code, count in sorted(counts.items(), key=lambda item: item[0] or ""):
        found[code or ""] = {"captions": count}
        for name, kind in (("words", ""), ("nouns", "substitution")):
            finder = find((kind, code))
            found[code or ""][name] = finder if isinstance(finder, str) else None
            if isinstance(finder, CapscoreError):
                message = "".join(map(_spelled, finder.parts))
                reasons.append(f"{code or 'not stated'}, {name}: {message}")
    return found, reasons


def _spelled(part: str | Setting) -> str:
    return part if isinstance(part, str) else spell(part)


def show_perturb(request: PerturbRequest, result: PerturbResult) -> int | None:
    """Print counts and finders, or the summary as JSON, and the rows that failed."""
    rows, summary = result.rows, result.summary
    if summary is None:
        if request.as_json:
            print_json(result.finders)
        else:
            make_console().print(_finder_table(result.finders, ("words", "nouns")))
        for reason in result.reasons:
            say(reason)
        return None
    if request.as_json:
        print_json(summary, stderr=request.output is None)
    elif not request.quiet:
        _print_summary(summary)
    if not rows.failures:
        return None
    if not request.quiet:
        print_failures(rows.failures, f"of {rows.source.n_rows:,} captions could not be perturbed")
    return SKIPPED


def _print_summary(summary: dict[str, Any]) -> None:
    console = make_console(stderr=summary["output"] is None)
    parts = summary["perturbations"]
    table = make_table("perturbation", numbers=("rows", "unchanged", "of these failed"))
    for kind, part in parts.items():
        table.add_row(kind, *(f"{part[name]:,}" for name in ("rows", "unchanged", "failed")))
    console.print(table)
    finds = [name for name, kinds in _FINDS.items() if set(kinds) & set(parts)]
    console.print(_finder_table(summary["languages"], finds))
    missing = parts.get("substitution", {}).get("objects_not_found", 0)
    if missing:
        print_line(console, f"objects that are not in their captions, and were left out: {missing:,}")
    n_rows, target = summary["rows"], summary["output"] or "standard output"
    print_line(console, f"{n_rows:,} row{'' if n_rows == 1 else 's'} written to {target}")


def _finder_table(languages: dict[str, dict[str, Any]], finds: Sequence[str]) -> Table:
    table = make_table("language", numbers=("captions",))
    for name in finds:
        table.add_column(f"{name} found by", overflow="fold")
    for code, part in languages.items():
        table.add_row(code or "not stated", f"{part['captions']:,}", *(part[name] or "–" for name in finds))
    return table
