"""The command `capscore translate`: translates the captions of a file, with quality control."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import Setting
from ..files.console import make_console
from ..files.progress import progress_bar
from .options import AsJson, Backbones, Force, Language, OnError, Quiet, Split, column_option
from .request import argument, flowing, option
from .terminal import (
    SKIPPED,
    Stopped,
    UsageError,
    as_usage,
    check_choice,
    check_not_standard_output,
    check_only_one,
    check_result_file,
    make_table,
    print_failures,
    print_json,
    print_line,
    print_written,
    say,
)

if TYPE_CHECKING:
    from ..show.translation_heatmap import TranslationMaps
    from ..translation.run import TranslatedFile, TranslationOptions

_PANEL = "Translation"
_FIGURE = "Figure"

_HELP = """Translate the captions of a file, and keep the best of many translations of each.

INPUT is JSONL, JSON, CSV, TSV, Parquet, or the folder of a saved data set, with a column [bold]caption[/],
and [bold]language[/] unless --language states it.

A model, M2M100 or NLLB, writes --candidates translations of a caption by beam search. A language check turns
away those in another language, --quality estimates the others, and the best is kept: cosine:BACKBONE is the
cosine of caption and translation under a multilingual backbone, cometkiwi:MODEL is COMETKiwi. The result has
a row for each row and language, in this order, with the translation in the caption's column and every other
column carried along; new are [bold]original[/], [bold]original_language[/], [bold]quality[/],
[bold]quartile[/] (of the quality, in its language), [bold]translation_problem[/] and [bold]source_row[/].
Counts and settings are in OUTPUT.summary.json.

Finished blocks of rows are kept in OUTPUT.shards: the same command goes on where it was ended. Several
processes share the work with --shard 1/4, --shard 2/4, …; then the command without --shard writes the result.

[bold]--heatmap[/] scores the captions and their translations with --metric, and draws how the scores of every
two languages correlate: over all rows, and over the worst and the best quarter of the translations.

[bold]Exit codes[/]: 0 done; 1 failed; 2 wrong usage, nothing done; 3 done, but bad rows were left as they are
(--on-error skip); 130 interrupted (Ctrl-C), 143 ended (SIGTERM).

[bold]Example[/]: capscore translate captions.jsonl --language en --to de --to zh --output translated.jsonl
"""


def translate_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class TranslateRequest:
    """What `capscore translate` is asked for."""

    input: Annotated[Path, argument("INPUT")]
    to: Annotated[list[str] | None, option("Language, such as de; repeatable.", "--to", metavar="CODE")] = (
        None
    )
    output: Annotated[Path | None, option("File for the translated rows.", "--output", "-o")] = None
    language: Language = None
    references: Annotated[bool, option("Translate the references too.", "--references")] = False
    on_error: OnError = "raise"
    on_rejected: Annotated[
        str, option("Row without a good translation: keep (default), drop or stop.", metavar="HOW")
    ] = "keep"
    split_quartiles: Annotated[bool, option("Write a file per quartile too.", "--split-quartiles")] = False
    shard: Annotated[str | None, option("Share of the work, such as 2/4.", metavar="N/M")] = None
    shard_rows: Annotated[int, option("Rows per block. Default: 256.", min=1)] = 256
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    translator: Annotated[
        str | None,
        option("Hub id or folder. Default: facebook/m2m100_1.2B.", panel=_PANEL, metavar="MODEL"),
    ] = None
    revision: Annotated[str | None, option("Its commit, branch or tag on the Hub.", panel=_PANEL)] = None
    num_beams: Annotated[int, option("Beams. Default: 100.", min=1, panel=_PANEL)] = 100
    candidates: Annotated[int, option("Translations per caption. Default: 25.", min=1, panel=_PANEL)] = 25
    max_new_tokens: Annotated[int, option("Longest one. Default: 128.", min=1, panel=_PANEL)] = 128
    quality: Annotated[
        str,
        option("Default: cosine:embedded-free.", panel=_PANEL, metavar="KIND"),
    ] = "cosine"
    quality_python: Annotated[
        Path | None, option("Python that has unbabel-comet.", panel=_PANEL, metavar="FILE")
    ] = None
    no_language_check: Annotated[
        bool, option("Accept candidates in any language.", "--no-language-check", panel=_PANEL)
    ] = False
    batch_size: Annotated[int, option("Captions per batch. Default: 8.", min=1, panel=_PANEL)] = 8
    device: Annotated[str | None, option("Default: a GPU if there is one.", panel=_PANEL)] = None
    dtype: Annotated[str | None, option("float32, bfloat16, float16.", panel=_PANEL)] = None
    heatmap: Annotated[Path | None, option("Figure: .png, .svg or .pdf.", panel=_FIGURE)] = None
    metric: Annotated[str, option("Default: mcs.", "--metric", "-m", panel=_FIGURE, metavar="METRIC")] = "mcs"
    backbone: Backbones = None
    images: Annotated[Path | None, option("Folder of the photos.", panel=_FIGURE, metavar="FOLDER")] = None
    column: Annotated[
        str | None,
        option("Default: caption, candidate, hyp, ….", "--column", "--candidate-column", panel="Columns"),
    ] = None
    references_column: Annotated[str | None, column_option("references, refs")] = None
    language_column: Annotated[str | None, column_option("language, lang")] = None
    split: Split = None

    def __post_init__(self) -> None:
        check_choice("on_error", self.on_error, ("raise", "skip"))
        check_choice("on_rejected", self.on_rejected, ("keep", "drop", "stop"))
        check_only_one(Setting("language", self.language), Setting("language_column", self.language_column))
        check_not_standard_output(self.output, ": a translation is written to a file")
        if not self.to:
            raise UsageError("no language to translate into: give --to de, once for each language")
        if self.output is None:
            raise UsageError("give --output, the file for the translated rows")
        with as_usage():
            check_result_file("heatmap", self.heatmap, (".png", ".svg", ".pdf"), self.force)
        if self.shard is not None and (self.heatmap or self.split_quartiles):
            raise UsageError("--shard makes a share of the blocks; the command without it writes results")
        if self.heatmap is None and (self.backbone or self.images):
            raise UsageError("--backbone and --images belong to --heatmap")
        if len(self.backbone or ()) > 2:
            raise UsageError(Setting("backbone"), ": a figure compares two at most")

    def options(self) -> TranslationOptions:
        """How the file is translated."""
        from ..translation.model import DEFAULT_TRANSLATOR, BeamSearch
        from ..translation.run import TranslationOptions
        from ..translation.shards import parse_shard

        with as_usage():
            return TranslationOptions(
                languages=tuple(self.to or ()),
                language=self.language,
                translator=self.translator or DEFAULT_TRANSLATOR,
                revision=self.revision,
                search=BeamSearch(self.num_beams, self.candidates, self.max_new_tokens),
                quality=self.quality,
                quality_python=None if self.quality_python is None else str(self.quality_python),
                language_check=not self.no_language_check,
                references=self.references,
                on_error=self.on_error,
                on_rejected=self.on_rejected,
                batch_size=self.batch_size,
                shard_rows=self.shard_rows,
                shard=parse_shard(self.shard),
                device=self.device,
                dtype=self.dtype,
                candidate_column=self.column,
                references_column=self.references_column,
                language_column=self.language_column,
                split=self.split,
            )


@dataclass(frozen=True)
class TranslateResult:
    """A translated file.

    Attributes:
        file: The result, with counts and failures.
        quartiles: The files of the quartiles.
        maps: Correlations between languages, if a figure was asked for.
    """

    file: TranslatedFile
    quartiles: list[Path]
    maps: TranslationMaps | None


def run_translate(request: TranslateRequest) -> TranslateResult:
    """Translate a file, and write the result, its quartiles and its figure.

    Raises:
        UsageError, InputError: An option is wrong, or a row.
        Stopped: A signal came.
    """
    from ..files.interrupts import Signals
    from ..translation.run import split_by_quartile, translate_file

    options = request.options()
    output = request.output or Path()
    with Signals() as signals:
        try:
            done = translate_file(
                request.input,
                output,
                options,
                force=request.force,
                progress=lambda total, before: progress_bar(
                    "Translating", total, shown=False if request.quiet else None, done=before
                ),
                held=lambda: signals.held(drop=True),
            )
        except KeyboardInterrupt as error:
            kept = f"finished blocks are in {output}.shards, and the same command goes on from there"
            raise Stopped(f"interrupted; {kept}", error) from None
        parts = split_by_quartile(output, force=True) if request.split_quartiles else []
        maps = None if request.heatmap is None else _draw(request, options, output)
    return TranslateResult(done, parts, maps)


def _draw(request: TranslateRequest, options: TranslationOptions, output: Path) -> TranslationMaps:
    from ..show.translation_heatmap import correlate_translations, write_translation_heatmap

    say("note: scoring the captions and their translations for the figure")
    maps = correlate_translations(
        request.input,
        output,
        options,
        metric=request.metric,
        backbones=request.backbone or [None],
        images=request.images,
        device=request.device,
    )
    if request.heatmap is not None:
        write_translation_heatmap(maps, request.heatmap)
    return maps


def show_translate(request: TranslateRequest, result: TranslateResult) -> int | None:
    """Print counts, or the summary as JSON, and the rows that were left untranslated."""
    summary = result.file.summary
    if request.as_json:
        maps = {} if result.maps is None else {"correlations": result.maps.to_dict()}
        print_json({**summary, **maps})
    elif not request.quiet:
        _print_summary(request, result)
    if not result.file.failures:
        return None
    if not request.quiet:
        n_rows = summary.get("rows", len(result.file.failures))
        print_failures(result.file.failures, f"of {n_rows:,} rows could not be translated")
    return SKIPPED


def _print_summary(request: TranslateRequest, result: TranslateResult) -> None:
    console, summary = make_console(), result.file.summary
    if result.file.output is None:
        left = summary["blocks"] - summary["done"]
        print_line(
            console,
            f"{summary['made']:,} blocks translated; {left:,} of {summary['blocks']:,} are left"
            + ("" if left else ": the command without --shard writes the result"),
        )
        return
    table = make_table(
        "language", numbers=("rows", "translated", "rejected", "candidates", "accepted", "quality")
    )
    for code, part in summary["languages"].items():
        counts = [f"{part[name]:,}" for name in ("rows", "translated", "rejected", "candidates", "accepted")]
        table.add_row(code, *counts, "–" if part["quality"] is None else f"{part['quality']:.3f}")
    console.print(table)
    print_line(
        console, f"quality: {summary['settings']['quality']}, the mean of translations that were accepted"
    )
    if result.maps is not None:
        console.print(_table_of_means(result.maps.means()))
    print_written(console, result.file.output, *result.quartiles, request.heatmap)


def _table_of_means(means: list[tuple[str, str, float | None, int]]) -> Any:
    table = make_table("scores of", "rows", numbers=("mean r", "pairs"))
    for label, rows, mean, pairs in means:
        table.add_row(label, rows, "–" if mean is None else f"{mean:.3f}", f"{pairs:,}")
    return table
