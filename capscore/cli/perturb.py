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

from pathlib import Path
from typing import Annotated

from ..errors import Setting, json_visible
from ..files.console import make_console
from ..tables import counted
from . import options, terminal
from .options import argument, noise_option, option

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
    from ..files.write import json_bytes, refuse_bytes
    from ..perturbations import P, all_kinds, kind_of
    from ..perturbations.perturbed_file import perturb as perturb_rows

    if not kind:
        raise terminal.UsageError("no perturbation is chosen: give --kind, such as --kind paper")
    kinds = options.chosen_kinds(kind)
    drawing = [name for name in all_kinds() if kind_of(name).draws_words]
    if p is not None and not set(kinds) & set(drawing):
        raise terminal.UsageError(f"--p is an option of {', '.join(drawing)}, not of {', '.join(kinds)}")
    if p is None:
        p = P
    terminal.check_only_one(Setting("language", language), Setting("language_column", language_column))
    terminal.check_not_standard_output(output, ": rows go to standard output if this option is left out")
    found = perturb_rows(
        input,
        kinds,
        p=p,
        seed=seed,
        progress=False if quiet or output is None else None,
        candidate_column=candidate_column,
        language_column=language_column,
        split=split,
        language=language,
        on_error=on_error,
        output=output,
        force=force,
    )
    for note in (*found.source.notes, *found.names.notes):
        terminal.say(f"note: {note}")
    if output is None:
        refuse_bytes(found.source, Setting("output"), "JSONL on standard output")
        for row in found.rows():
            line = json_bytes(row, ascii_only=not terminal.speaks_unicode())
            print(json_visible(line.decode("utf-8")))
    if as_json:
        terminal.print_json(found.to_dict(), stderr=output is None)
    elif not quiet:
        console = make_console(stderr=output is None)
        found.report().print(console)
        target = found.output or "standard output"
        terminal.print_line(console, f"{counted(found.n_rows, 'row')} written to {target}")
    if not found.failures:
        return None
    if not quiet:
        what = f"of {found.source.n_rows:,} captions could not be perturbed"
        terminal.print_failures(found.failures, what, found.source.long_place)
    return terminal.SKIPPED
