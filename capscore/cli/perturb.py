r"""Perturb the captions of a file, as PR-MCS does, to see whether a metric notices.

INPUT is JSONL, JSON, CSV, TSV, Parquet, or the folder of a saved data set, with a column [bold]caption[/],
and [bold]language[/] if there are several.

[bold]--kind paper[/] is all five kinds of PR-MCS: [bold]repetition[/] writes words twice, [bold]removal[/]
keeps only some words, [bold]masking[/] writes \[MASK] for some, [bold]jumble[/] shuffles all words,
[bold]substitution[/] exchanges objects: those in the column critical_objects or objects (a list of texts or
of \[start, end] places; in CSV a JSON list) or, where a row has none, its nouns. As published, their new
order is any other one, so that some of three or more may stay in place; with [bold]--order every[/], all of
them move. Repetition, removal and masking draw the same words, each with probability --p. [bold]--kind
unseen[/] is neighbours, typos, number, negation, foreign and truncation, and [bold]--kind all[/] is every
kind. The result depends only on the caption, its language and the options.

The result has the same rows and columns, with the perturbed text in the caption's column, and three new
columns: [bold]original[/], [bold]perturbation[/] and [bold]unchanged[/]. Several kinds make a row for each
caption and kind; with --wide, each kind is a new column instead. The suffix of --output chooses the kind of
file (a saved data set if there is none); counts and settings are in OUTPUT.summary.json. Without --output,
rows go to standard output as JSONL and everything else to standard error.

[bold]Exit codes[/]: 0 done, unchanged captions included; 1 failed (row, package, or writing); 2 wrong usage,
nothing done; 3 done, but rows were skipped (--on-error skip); 130 interrupted (Ctrl-C), 143 ended (SIGTERM).

[bold]Example[/]: capscore perturb captions.jsonl --kind paper --language ja --output noisy.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .. import __version__
from ..errors import CapscoreError, Setting, json_visible
from ..files.console import make_console, progress_bar
from . import options, terminal
from .options import argument, column_option, noise_option, option

if TYPE_CHECKING:
    from ..files.row_source import Chunk
    from ..perturbations.perturbed_file import PerturbationOptions, PerturbedSource

OBJECTS = ("critical_objects", "objects")  # columns that are taken for critical objects
_DRAWING = ("repetition", "removal", "masking")


def perturb(
    input: Annotated[Path, argument("INPUT")],
    kind: options.Kinds = None,
    output: Annotated[Path | None, option("File for the perturbed rows.", "--output", "-o")] = None,
    language: options.Language = None,
    on_error: options.OnError = "raise",
    noun_finder: Annotated[bool, option("Only show what finds words and nouns.", "--noun-finder")] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    p: Annotated[
        float | None, noise_option("Probability of drawing a word. Default: 0.4.", "--p", min=0, max=1)
    ] = None,
    seed: Annotated[int, noise_option("Seed for all random draws. Default: 0.")] = 0,
    independent_draws: Annotated[
        bool, noise_option("Draw new words for each kind.", "--independent-draws")
    ] = False,
    removal: options.Removal = None,
    order: options.Order = None,
    nouns: Annotated[bool, noise_option("Exchange nouns even if objects are given.", "--nouns")] = False,
    wide: Annotated[bool, noise_option("Make a column per kind.", "--wide")] = False,
    column: Annotated[
        str | None, column_option("Default: caption, candidate, hyp, ….", "--column", "--candidate-column")
    ] = None,
    language_column: options.LanguageColumn = None,
    objects_column: Annotated[str | None, column_option("Default: critical_objects, objects.")] = None,
    split: options.Split = None,
) -> int | None:
    """Perturb a file, and write the result to a file or to standard output."""
    from ..perturbations import P
    from ..perturbations.perturbed_file import PerturbationOptions

    if not (kind or noun_finder):
        raise terminal.UsageError("no perturbation is chosen: give --kind, such as --kind paper")
    kinds = options.chosen_kinds(kind or ["paper"])
    _check_taken(kinds, _DRAWING, p=p, independent_draws=independent_draws)
    _check_taken(kinds, ("removal",), removal=removal)
    _check_taken(kinds, ("substitution",), order=order, nouns=nouns, objects_column=objects_column)
    terminal.check_only_one(Setting("nouns", nouns), Setting("objects_column", objects_column))
    terminal.check_only_one(Setting("language", language), Setting("language_column", language_column))
    terminal.check_not_standard_output(output, ": rows go to standard output if this option is left out")
    draws = (P if p is None else p, seed, not independent_draws)
    noise = PerturbationOptions(*draws, removal or "keep", order or "published", wide, on_error)
    columns = {"candidate": column, "language": language_column, "objects": objects_column}
    rows = _open(input, split, columns, kinds, noise, language, nouns)
    if noun_finder:
        _show_finders(rows, as_json)
        return None
    summary = _write(rows, output, force, quiet)
    if as_json:
        terminal.print_json(summary, stderr=output is None)
    elif not quiet:
        _print_summary(summary)
    if rows.failures and not quiet:
        what = f"of {rows.source.n_rows:,} captions could not be perturbed"
        terminal.print_failures(rows.failures, what, rows.source.short_place)
    return terminal.SKIPPED if rows.failures else None


def _check_taken(kinds: Sequence[str], takes: Sequence[str], **given: Any) -> None:
    """Raise UsageError for an option of kinds that are not asked for."""
    for name, value in given.items():
        if value not in (None, False) and not set(kinds) & set(takes):
            raise terminal.UsageError(
                Setting(name), f" is an option of {', '.join(takes)}, not of {', '.join(kinds)}"
            )


def _open(
    path: Path,
    split: str | None,
    columns: dict[str, Any],
    kinds: Sequence[str],
    noise: PerturbationOptions,
    language: str | None,
    nouns: bool,
) -> PerturbedSource:
    """The rows of a file, perturbed as they are read."""
    from ..files.columns import check_column, find_columns, unread_language
    from ..files.read import open_rows
    from ..perturbations.perturbed_file import PerturbedSource

    with terminal.as_usage():
        noise.check(kinds)
    code = options.language_of(language)
    source = open_rows(path, split=split)
    objects = columns.pop("objects")
    names = find_columns(source.columns, **columns, with_images=False, with_language=code is None)
    unread = unread_language(source.columns, code)
    if unread:
        terminal.say(f"note: --language {code} is taken for every row; the column {unread!r} is not read")
    if objects is not None:
        check_column("objects_column", objects, source.columns)
    elif "substitution" in kinds and not nouns:
        found = [name for name in OBJECTS if name in source.columns]
        if len(found) > 1:
            raise terminal.UsageError(
                f"{' and '.join(found)} could each hold the objects: give --objects-column"
            )
        objects = found[0] if found else None
    return PerturbedSource(source, names, objects, kinds, noise, code)


class _StandardOutput:
    """Writes rows as JSONL to standard output, as a `Writer` would to a file."""

    path = None

    def write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        from ..files.write import json_bytes

        for row in chunk.dicts():
            print(json_visible(json_bytes(row, ascii_only=not terminal.speaks_unicode()).decode("utf-8")))

    def finish(self, about: dict[str, Any], summary: str) -> None:
        sys.stdout.flush()

    def stop(self) -> None:
        pass


def _write(rows: PerturbedSource, output: Path | None, force: bool, quiet: bool) -> dict[str, Any]:
    """Write the perturbed rows; returns counts and settings of the whole file, ready for JSON."""
    from ..files.row_source import CHUNK_ROWS
    from ..files.write import check_output, open_writer, refuse_bytes

    n_rows = rows.source.n_rows
    if output is None:
        refuse_bytes(rows.source, Setting("output"), "JSONL on standard output")
    else:
        output = check_output(output, rows.source, force=force)
    rows.check()
    if rows.n_unsplit and not quiet:
        terminal.say(
            f"warning: {rows.n_unsplit:,} of {n_rows:,} captions are written without spaces, such as "
            f"{rows.unsplit!r:.40}, and their language, as stated or not, has them: each is taken for one "
            "word. State the language they are in: ja, th or zh"
        )
    sink: Any = _StandardOutput() if output is None else open_writer(output, rows, {})
    done = 0
    try:
        with progress_bar("Perturbing", n_rows, shown=False if quiet or output is None else None) as advance:
            for chunk in rows.chunks(CHUNK_ROWS):
                sink.write(chunk, {})
                count = len(chunk) if rows.options.wide else len(chunk) // len(rows.kinds)
                done += count
                advance(count)
        summary = _summary(rows, sink.path)
        settings = {kind: part["settings"] for kind, part in summary["perturbations"].items()}
        about = {"perturbations": settings, "languages": summary["languages"]}
        sink.finish(about, json.dumps(summary, ensure_ascii=False, indent=2) + "\n")
    except BaseException:
        kept = sink.stop()
        if kept is not None:
            terminal.say(f"the first {done:,} of {n_rows:,} captions are in {kept}")
        raise
    return summary


def _summary(rows: PerturbedSource, target: Path | None) -> dict[str, Any]:
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
        "languages": {
            code or "": {
                "captions": count,
                **{
                    name: found if isinstance(found := rows.finders.get((kind, code)), str) else None
                    for name, kind in (("words", ""), ("nouns", "substitution"))
                },
            }
            for code, count in sorted(rows.languages.items(), key=lambda item: item[0] or "")
        },
        "failures": terminal.listed_failures(rows.failures),
        "versions": {"capscore": __version__},
    }


def _show_finders(rows: PerturbedSource, as_json: bool) -> None:
    """Print what finds words and nouns in each language of the file, and why nothing does."""
    languages: dict[str, dict[str, Any]] = {}
    reasons = []
    for code, count in sorted(rows.count_languages().items(), key=lambda item: item[0] or ""):
        found = languages[code or ""] = {"captions": count}
        for name, kind in (("words", ""), ("nouns", "substitution")):
            finder: str | CapscoreError
            try:
                finder = rows.finder(kind, code)
            except CapscoreError as error:
                finder = error
            found[name] = finder if isinstance(finder, str) else None
            if not isinstance(finder, str):
                reason = "".join(
                    part if isinstance(part, str) else terminal.spell(part) for part in finder.parts
                )
                reasons.append(f"{code or 'not stated'}, {name}: {reason}")
    if as_json:
        terminal.print_json(languages)
    else:
        make_console().print(_finder_table(languages, ("words", "nouns")))
    for reason in reasons:
        terminal.say(reason)


def _print_summary(summary: dict[str, Any]) -> None:
    console = make_console(stderr=summary["output"] is None)
    parts = summary["perturbations"]
    table = terminal.make_table("perturbation", numbers=("rows", "unchanged", "of these failed"))
    for kind, part in parts.items():
        table.add_row(kind, *(f"{part[name]:,}" for name in ("rows", "unchanged", "failed")))
    console.print(table)
    finds = ["words"] * any(kind != "substitution" for kind in parts) + ["nouns"] * ("substitution" in parts)
    console.print(_finder_table(summary["languages"], finds))
    missing = parts.get("substitution", {}).get("objects_not_found", 0)
    if missing:
        terminal.print_line(
            console, f"objects that are not in their captions, and were left out: {missing:,}"
        )
    n_rows, target = summary["rows"], summary["output"] or "standard output"
    terminal.print_line(console, f"{n_rows:,} row{'' if n_rows == 1 else 's'} written to {target}")


def _finder_table(languages: dict[str, dict[str, Any]], finds: Sequence[str]) -> Any:
    table = terminal.make_table("language", numbers=("captions",))
    for name in finds:
        table.add_column(f"{name} found by", overflow="fold")
    for code, part in languages.items():
        table.add_row(code or "not stated", f"{part['captions']:,}", *(part[name] or "–" for name in finds))
    return table
