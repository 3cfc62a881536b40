r"""Perturb the captions of a file, as PR-MCS does, to see whether a metric notices.

[bold]Example[/]: capscore perturb captions.jsonl --kind paper --language ja --output noisy.jsonl

INPUT has a column [bold]caption[/], and [bold]language[/] if there are several. [bold]--kind paper[/] is the
five kinds of PR-MCS, [bold]unseen[/] six others, [bold]all[/] both; docs/robustness.md describes each.
Substitution swaps the objects in the column critical_objects or objects, or else the nouns. The result
depends only on the caption, its language and the options.

The result has the same columns, with the perturbed caption, and [bold]original[/], [bold]perturbation[/] and
[bold]unchanged[/]; with several kinds, a row for each caption and kind. Counts are in OUTPUT.summary.json.

[bold]Exit codes[/]: 0 done; 1 failed; 2 wrong usage; 3 done, but rows were skipped; 130 interrupted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import Setting, json_visible
from ..files.console import make_console, progress_bar
from ..options import RowOptions
from . import options, terminal
from .options import argument, noise_option, option

if TYPE_CHECKING:
    from ..files.columns import ColumnNames
    from ..files.row_source import RowSource
    from ..perturbations.perturbed_file import PerturbedFile

Probability = Annotated[
    float | None, noise_option("Probability of drawing a word. Default: 0.4.", "--p", min=0, max=1)
]


def perturb(
    input: Annotated[Path, argument("INPUT")],
    kind: options.Kinds = None,
    output: Annotated[Path | None, option("File for the perturbed rows.", "--output", "-o")] = None,
    language: options.Language = None,
    on_error: options.OnError = "raise",
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    p: Probability = None,
    seed: Annotated[int, noise_option("Seed for all random draws. Default: 0.")] = 0,
    candidate_column: options.CandidateColumn = None,
    language_column: options.LanguageColumn = None,
    split: options.Split = None,
) -> int | None:
    """Perturb a file, and write the result to a file or to standard output."""
    from ..perturbations import P, all_kinds, kind_of
    from ..perturbations.perturbed_file import PerturbedFile

    if not kind:
        raise terminal.UsageError("no perturbation is chosen: give --kind, such as --kind paper")
    kinds = options.chosen_kinds(kind)
    drawing = [name for name in all_kinds() if kind_of(name).draws_words]
    if p is not None and not set(kinds) & set(drawing):
        raise terminal.UsageError(f"--p is an option of {', '.join(drawing)}, not of {', '.join(kinds)}")
    terminal.check_only_one(Setting("language", language), Setting("language_column", language_column))
    terminal.check_not_standard_output(output, ": rows go to standard output if this option is left out")
    code = options.language_of(language)
    source, names = _open(input, split, candidate_column, language_column, code)
    rows = PerturbedFile(
        source,
        names,
        kinds,
        p=P if p is None else p,
        seed=seed,
        language=code,
        skips=on_error == "skip",
    )
    summary = _write(rows, output, force, quiet)
    if as_json:
        terminal.print_json(summary, stderr=output is None)
    elif not quiet:
        _print_summary(summary)
    if rows.failures and not quiet:
        what = f"of {source.n_rows:,} captions could not be perturbed"
        terminal.print_failures(rows.failures, what, source.short_place)
    return terminal.SKIPPED if rows.failures else None


def _open(
    path: Path, split: str | None, candidate: str | None, languages: str | None, language: str | None
) -> tuple[RowSource, ColumnNames]:
    """A file's rows, and its columns of captions and languages."""
    from ..files.columns import columns_of
    from ..files.read import open_rows

    row_options = RowOptions(
        candidate_column=candidate, language_column=languages, split=split, language=language
    )
    source = open_rows(path, row_options)
    names = columns_of(source, row_options, with_images=False)
    options.say_notes(source, names, language)
    return source, names


def _write(rows: PerturbedFile, output: Path | None, force: bool, quiet: bool) -> dict[str, Any]:
    """Perturb and write the rows; returns the summary."""
    from ..files.write import Writer, check_output, json_bytes, refuse_bytes

    n_rows = rows.source.n_rows
    if output is None:
        refuse_bytes(rows.source, Setting("output"), "JSONL on standard output")
    else:
        output = check_output(output, rows.source, force=force)
    with progress_bar("Perturbing", n_rows, shown=False if quiet or output is None else None) as advance:
        rows.run(advance)
    if rows.unsplit and not quiet:
        terminal.say(
            f"warning: {len(rows.unsplit):,} of {n_rows:,} captions are written without spaces, such as "
            f"{rows.unsplit[0]!r:.40}, and count as one word each: state the language they are in"
        )
    summary = rows.summary(output)
    if output is None:
        for chunk, new in rows.chunks():
            for row, *values in zip(chunk.dicts(), *new.values(), strict=True):
                line = json_bytes(
                    {**row, **dict(zip(new, values, strict=True))}, ascii_only=not terminal.speaks_unicode()
                )
                print(json_visible(line.decode("utf-8")))
        return summary
    writer = Writer(output, rows.source, rows.new)
    try:
        for chunk, new in rows.chunks():
            writer.write(chunk, new)
        settings = {kind: part["settings"] for kind, part in summary["perturbations"].items()}
        about = {"perturbations": settings, "languages": summary["languages"]}
        writer.finish(about, json.dumps(summary, ensure_ascii=False, indent=2) + "\n")
    finally:
        writer.stop()
    return summary


def _print_summary(summary: dict[str, Any]) -> None:
    from ..tables import Report, Table

    parts, languages = summary["perturbations"], summary["languages"]
    columns = ("rows", "unchanged", "failed")
    counts = [(kind, *(f"{part[name]:,}" for name in columns)) for kind, part in parts.items()]
    finders = [
        (code or "not stated", f"{part['captions']:,}", part["words"] or "–", part["nouns"] or "–")
        for code, part in languages.items()
    ]
    missing = parts.get("substitution", {}).get("objects_not_found", 0)
    remarks = [f"objects that are not in their captions, and were left out: {missing:,}"] if missing else []
    tables = [
        Table(("perturbation", *columns), counts),
        Table(("language", "captions", "words found by", "nouns found by"), finders, left=4),
    ]
    console = make_console(stderr=summary["output"] is None)
    Report("", [*tables, *remarks]).print(console)
    n_rows, target = summary["rows"], summary["output"] or "standard output"
    terminal.print_line(console, f"{n_rows:,} row{'' if n_rows == 1 else 's'} written to {target}")
