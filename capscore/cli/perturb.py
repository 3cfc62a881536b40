"""The command `capscore perturb`: options and a file of captions in; the file with perturbed captions out."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from .. import __version__
from ..files.progress import progress_bar
from ..files.rows import Chunk, UsageError
from .options import Debug
from .terminal import (
    DEBUG,
    SKIPPED,
    as_usage,
    box_style,
    command,
    exit_code,
    print_line,
    say,
    speaks_unicode,
)

if TYPE_CHECKING:
    from ..perturbations.perturbed_file import PerturbedRows
    from ..scorers.score_file import Signals

OBJECTS = ("critical_objects", "objects")  # columns that are taken for critical objects
_DRAWING = ("repetition", "removal", "masking")
_WORDS = (*_DRAWING, "jumble")

_PERTURB_HELP = """Perturb the captions of a file, as PR-MCS does, to see whether a metric notices.

INPUT is JSONL, JSON (a list of objects), CSV, TSV, Parquet, or the folder of a saved data set
([bold]save_to_disk[/]), with a column [bold]caption[/], and [bold]language[/] if there are several.

[bold]repetition[/] writes words twice, [bold]removal[/] keeps only some, [bold]masking[/] writes \\[MASK] for
some, [bold]jumble[/] puts all in another order, [bold]substitution[/] puts objects where others were: those
in the column critical_objects or objects (a list of texts or of \\[start, end] places; in CSV a JSON list) if
there is one, else, and where a row has none, the nouns. Repetition, removal and masking draw the same words,
each with probability --p. What a caption becomes depends on it, its language and the options alone.

The result has the same rows and columns, with the perturbed text in the column of the captions; then
[bold]original[/] has the caption as it was, [bold]perturbation[/] the kind, and [bold]unchanged[/] says
whether it stayed as it was. Several kinds make a row for each caption and kind, those of a caption together;
with --wide the rows stay as they are and each kind is a new column. The kind of file goes by the suffix of
--output; a name without one makes a saved data set, and counts and settings are beside it in
noisy.summary.json. Without --output the rows go to standard output as JSONL, and all else to standard error.

[bold]Exit codes[/]: 0 all done, unchanged captions included; 1 failed (a bad row, a package that is missing,
a result that cannot be written); 2 wrong usage (options, columns, language), nothing done; 3 done, but rows
could not be perturbed (--on-error skip); 130 interrupted (Ctrl-C), 143 ended (SIGTERM).

[bold]Example[/]: capscore perturb captions.jsonl --all-kinds --language ja --output noisy.jsonl
"""


def perturb_help() -> str:
    """The command's help."""
    # Rich keeps single line breaks; a paragraph is to fill the terminal, whatever its width.
    return re.sub(r"(?<!\n)\n(?!\n)", " ", _PERTURB_HELP)


@command
def perturb(
    input: Annotated[
        Path, typer.Argument(help="The file or data set with the captions.", show_default=False)
    ],
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            "-k",
            help="repetition, removal, masking, jumble or substitution; may be repeated.",
            show_default=False,
        ),
    ] = None,
    all_kinds: Annotated[bool, typer.Option("--all-kinds", help="All five.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the perturbed rows go.", show_default=False),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Language code of all captions, such as ja. Words and nouns are found by it; not stated "
            "counts as English.",
            show_default=False,
        ),
    ] = None,
    p: Annotated[
        float | None,
        typer.Option(
            "--p", min=0, max=1, help="Probability that a word is drawn. Default: 0.4.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another one gives other draws.")] = 0,
    independent_draws: Annotated[
        bool,
        typer.Option(
            "--independent-draws", help="Repetition, removal and masking draw words of their own each."
        ),
    ] = False,
    removal: Annotated[
        str | None,
        typer.Option(
            help="keep: the drawn words stay, as published (default). drop: they go.", show_default=False
        ),
    ] = None,
    nouns: Annotated[
        bool, typer.Option("--nouns", help="Substitution takes the nouns even where objects are given.")
    ] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="One new column a kind; the captions stay as they are.")
    ] = False,
    on_error: Annotated[
        str,
        typer.Option(
            "--on-error", help="raise: stop at the first bad row. skip: leave its caption as it is."
        ),
    ] = "raise",
    noun_finder: Annotated[
        bool,
        typer.Option(
            "--noun-finder", help="Only show what finds the words and nouns of the file's languages."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary, no progress bar.")] = False,
    debug: Debug = False,
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            "--candidate-column",
            help="Default: caption, candidate, prediction, hyp or cand.",
            rich_help_panel="Columns",
        ),
    ] = None,
    language_column: Annotated[
        str | None, typer.Option(help="Default: language or lang.", rich_help_panel="Columns")
    ] = None,
    objects_column: Annotated[
        str | None, typer.Option(help="Default: critical_objects or objects.", rich_help_panel="Columns")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split of a saved data set that has several.", rich_help_panel="Columns"),
    ] = None,
) -> None:
    DEBUG.set(debug)
    from ..files.columns import FAMILIAR, find_fields
    from ..files.rows import _refuse_bytes, check_output, open_rows, open_writer
    from ..perturbations.perturbed_file import Options, PerturbedRows
    from ..perturbations.published import KINDS, P
    from ..scorers.score_file import Signals
    from ..text.languages import language_code

    with Signals() as signals:
        if on_error not in ("raise", "skip"):
            raise UsageError(f"--on-error {on_error}: expected raise or skip")
        kinds = KINDS if noun_finder and not kind else _kinds(kind, all_kinds)
        _check_taken(
            kinds,
            {
                "--p": (p is not None, _DRAWING),
                "--independent-draws": (independent_draws, _DRAWING),
                "--removal": (removal is not None, ("removal",)),
                "--nouns": (nouns, ("substitution",)),
                "--objects-column": (objects_column is not None, ("substitution",)),
            },
        )
        if nouns and objects_column is not None:
            raise UsageError("--nouns and --objects-column: give one of them")
        if language is not None and language_column is not None:
            raise UsageError("--language and --language-column: give one of them")
        options = Options(
            p=P if p is None else p,
            seed=seed,
            shared_draws=not independent_draws,
            removal=removal or "keep",
            wide=wide,
            on_error=on_error,
        )
        with as_usage():
            options.check(kinds)
            code = None if language is None else language_code(language)

        source = open_rows(input, split=split)
        try:
            fields = find_fields(
                source.columns,
                candidate=column,
                language=language_column,
                with_images=False,
                with_language=language is None,
            )
        except UsageError as error:  # which knows the option as it is called where captions are scored
            raise UsageError(str(error).replace("--candidate-column", "--column")) from None
        unread = [name for name in FAMILIAR["language"] if name in source.columns]
        if language is not None and unread and not quiet:
            say(f"note: --language {language} is taken for every row; the column {unread[0]!r} is not read")
        objects = None
        if "substitution" in kinds and not nouns:
            objects = _objects_column(objects_column, source.columns)
        rows = PerturbedRows(source, fields, objects, kinds, options, code)
        if noun_finder:
            _show_finders(rows, as_json)
            return
        target = None
        if output is not None:
            target = check_output(output, source, force=force)
        else:
            _refuse_bytes(source, Path("standard output.jsonl"))
        rows.check()
        if rows.n_unsplit and not quiet:
            say(
                f"warning: {rows.n_unsplit:,} of {source.n_rows:,} captions are written without spaces, such "
                f"as {rows.unsplit!r:.40}, and their language, as stated or not, has them: each is taken for "
                "one word. State the language they are in: ja, th or zh"
            )

        sink = _StandardOutput() if target is None else open_writer(target, rows, {})
        shown = None if target is not None and not quiet else False
        with progress_bar("Perturbing", source.n_rows, shown=shown) as advance:
            summary = _run_and_write(rows, sink, signals, advance)

    if as_json:
        text = json.dumps(summary, indent=2, ensure_ascii=not speaks_unicode())
        print(text, file=sys.stderr if target is None else sys.stdout)
    elif not quiet:
        _print_summary(rows, summary, target)
    if rows.failures:
        if not quiet:
            _tell_failures(rows)
        raise typer.Exit(SKIPPED)


def _kinds(given: list[str] | None, all_kinds: bool) -> tuple[str, ...]:
    from ..perturbations.published import KINDS

    if all_kinds and given:
        raise UsageError("--kind and --all-kinds: give one of them")
    if not all_kinds and not given:
        raise UsageError(f"no perturbation is chosen: --kind with {', '.join(KINDS)}, or --all-kinds")
    return KINDS if all_kinds else tuple(dict.fromkeys(given))


def _check_taken(kinds: Sequence[str], options: dict[str, tuple[bool, tuple[str, ...]]]) -> None:
    """See that every option that was given means something to one of the kinds."""
    for name, (is_given, of) in options.items():
        if is_given and not set(kinds) & set(of):
            raise UsageError(f"{name} is an option of {', '.join(of)}; not of {', '.join(kinds)}")


def _objects_column(given: str | None, columns: Sequence[str]) -> str | None:
    if given is None:
        found = [name for name in OBJECTS if name in columns]
        if len(found) > 1:
            raise UsageError(
                f"the columns {' and '.join(found)} could each hold the objects: choose with "
                "--objects-column, or take the nouns with --nouns"
            )
        return found[0] if found else None
    if given not in columns:
        near = difflib.get_close_matches(given, columns, n=1, cutoff=0.6)
        hint = f"; did you mean --objects-column {near[0]}?" if near else ""
        raise UsageError(
            f"--objects-column {given}: there is no such column; found {', '.join(map(repr, columns))}{hint}"
        )
    return given


# ---- writing ----


class _Sink(Protocol):
    def write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None: ...
    def finish(self, about: dict[str, Any], summary: str) -> None: ...
    def stop(self) -> Path | None: ...


class _StandardOutput:
    """Rows as JSONL on standard output."""

    def write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        from ..files.rows import _json_bytes, _plain

        for row in chunk.dicts():
            if speaks_unicode():
                print(_json_bytes(row).decode("utf-8"))
            else:
                print(json.dumps(row, default=_plain))

    def finish(self, about: dict[str, Any], summary: str) -> None:
        sys.stdout.flush()

    def stop(self) -> Path | None:
        return None


def _run_and_write(
    rows: PerturbedRows, sink: _Sink, signals: Signals, advance: Callable[[int], None]
) -> dict[str, Any]:
    from ..scorers.score_file import CHUNK_ROWS

    done = 0
    try:
        for chunk in rows.chunks(CHUNK_ROWS):
            with signals.held():
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
            kept = sink.stop()
        where = "no result was written" if kept is None else f"{kept} has what was written"
        if isinstance(error, KeyboardInterrupt):
            say(f"interrupted after {done:,} of {rows.source.n_rows:,} captions; {where}")
            raise typer.Exit(exit_code(error)) from None
        if kept is not None:
            say(f"the first {done:,} of {rows.source.n_rows:,} captions are in {kept}")
        raise
    return summary


def _summary(rows: PerturbedRows, target: Path | None) -> dict[str, Any]:
    """What the whole file came to, JSON-ready."""
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
        "languages": _finders(rows),
        "failures": [
            {"row": row, "line": line, "error": error} for row, (line, error) in sorted(rows.failures.items())
        ],
        "versions": {"capscore": __version__},
    }


def _finders(rows: PerturbedRows) -> dict[str, dict[str, Any]]:
    """Language, "" where none is stated → how many captions are in it and what finds its words and nouns."""
    found = {}
    for code, count in sorted(rows.languages.items(), key=lambda item: item[0] or ""):
        found[code or ""] = {"captions": count}
        for name, kind in (("words", ""), ("nouns", "substitution")):
            finder = rows._found.get((kind, code))
            found[code or ""][name] = finder if isinstance(finder, str) else None
    return found


def _console(to_errors: bool) -> Any:
    from rich.console import Console

    return Console(highlight=False, stderr=to_errors)


def _print_summary(rows: PerturbedRows, summary: dict[str, Any], target: Path | None) -> None:
    from rich.table import Table

    console = _console(to_errors=target is None)
    parts = summary["perturbations"]
    table = Table(box=box_style(), pad_edge=False)
    table.add_column("perturbation", no_wrap=True)
    for heading in ("rows", "unchanged", "of these failed"):
        table.add_column(heading, justify="right")
    for kind, part in parts.items():
        table.add_row(kind, *(f"{part[name]:,}" for name in ("rows", "unchanged", "failed")))
    console.print(table)
    finds = [
        name for name, kinds in (("words", _WORDS), ("nouns", ("substitution",))) if set(kinds) & set(parts)
    ]
    console.print(_finder_table(summary["languages"], finds))
    missing = parts.get("substitution", {}).get("objects_not_found", 0)
    if missing:
        print_line(console, f"objects that are not in their captions, and were left out: {missing:,}")
    if target is None:
        print_line(console, f"{summary['rows']:,} rows written to standard output")
    else:
        print_line(console, f"{summary['rows']:,} rows written to {target}")


def _finder_table(languages: dict[str, dict[str, Any]], finds: Sequence[str]) -> Any:
    from rich.table import Table

    table = Table(box=box_style(), pad_edge=False)
    table.add_column("language", no_wrap=True)
    table.add_column("captions", justify="right", no_wrap=True)
    for name in finds:
        table.add_column(f"{name} found by", overflow="fold")
    for code, part in languages.items():
        table.add_row(code or "not stated", f"{part['captions']:,}", *(part[name] or "–" for name in finds))
    return table


def _show_finders(rows: PerturbedRows, as_json: bool) -> None:
    """What finds words and nouns in each language of the file, or why nothing does."""
    from ..errors import CapscoreError

    found: dict[str, dict[str, Any]] = {}
    reasons = []
    for code, count in sorted(rows.count_languages().items(), key=lambda item: item[0] or ""):
        found[code or ""] = {"captions": count}
        for name, kind in (("words", ""), ("nouns", "substitution")):
            try:
                finder = rows.finder(kind, code)
            except CapscoreError as error:
                finder = error
            found[code or ""][name] = finder if isinstance(finder, str) else None
            if not isinstance(finder, str):
                reasons.append(f"{code or 'not stated'}, {name}: {getattr(finder, 'message', finder)}")
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=not speaks_unicode()))
    else:
        _console(to_errors=False).print(_finder_table(found, ("words", "nouns")))
    for reason in reasons:
        say(reason)


def _tell_failures(rows: PerturbedRows, most: int = 5) -> None:
    say(f"{len(rows.failures):,} of {rows.source.n_rows:,} captions could not be perturbed:")
    for row, (line, error) in sorted(rows.failures.items())[:most]:
        place = f"row {row} counted from 0" if line is None else f"line {line}"
        print(f"  {place}: {error}", file=sys.stderr)
    if len(rows.failures) > most:
        print(f"  and {len(rows.failures) - most:,} more", file=sys.stderr)
