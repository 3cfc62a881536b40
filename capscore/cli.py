"""The command `capscore`: options in; a scored file, a table on stdout, and an exit code out.

What a command needs is imported when it runs, so that `capscore --help` answers at once.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import __version__
from .errors import BackboneUnavailable, CapscoreError, MissingExtraError

if TYPE_CHECKING:
    from .backbones.base import Backbone
    from .backbones.registry import Known
    from .embedding import Embedder
    from .score_file import ScoringRun
    from .scorers.base import Scores

FAILED, USAGE, SKIPPED, INTERRUPTED = 1, 2, 3, 130

# How the library's errors put it → how it is put on the command line.
_SPELLINGS = {
    'backbone="embedded"': "--backbone embedded",
    "backbone='embedded'": "--backbone embedded",
    "on_error='skip'": "--on-error skip",
    "cache=False": "--no-cache",
    "cache=…": "--cache-dir",
    "trust_remote_code=True": "--trust-remote-code",
    "dtype='float32'": "--dtype float32",
    "image_tower=": "--image-tower ",
}

app = typer.Typer(
    name="capscore",
    help="Automatic evaluation of image captions, in every language.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
cache_app = typer.Typer(help="Embeddings that are kept on disk: look, and clear.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")


def main() -> None:
    """The entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without τ shows another sign, and goes on
            stream.reconfigure(errors="replace")
    app()


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Errors of a command become one message on stderr and an exit code; warnings become lines there."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        from .rows import UsageError

        try:
            with _short_warnings():
                function(*args, **kwargs)
        except UsageError as error:
            raise _failed(error, USAGE) from error
        except CapscoreError as error:
            raise _failed(error, FAILED) from error
        except KeyboardInterrupt as error:
            _say("interrupted")
            raise typer.Exit(_exit_code(error)) from None

    return wrapped


def _failed(error: Exception, code: int) -> typer.Exit:
    if os.environ.get("CAPSCORE_DEBUG", "") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    _say(f"error: {error}")
    return typer.Exit(code)


def _exit_code(interrupt: KeyboardInterrupt) -> int:
    return 128 + getattr(interrupt, "number", INTERRUPTED - 128)


def _say(message: str) -> None:
    for library, command in _SPELLINGS.items():
        message = message.replace(library, command)
    print(f"capscore: {message}", file=sys.stderr, flush=True)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings as one line each, and each once."""
    seen = set()

    def show(message: Any, category: type[Warning], *_: object) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            _say(f"warning: {text}")

    with warnings.catch_warnings():
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)  # meant for those who write programs
        warnings.showwarning = show
        yield


def _show_version(asked: bool) -> None:
    if asked:
        print(f"capscore {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


SCORE_HELP = """Score the captions of a file.

INPUT is JSONL, JSON (a list of objects), CSV, TSV, Parquet, or the folder of a saved data set
([bold]save_to_disk[/]). Its columns: [bold]image[/] (a path, an image id, or the image itself),
[bold]caption[/], for ref_clip_score [bold]references[/] (a list; in CSV a JSON list, or columns
reference_1, reference_2, …), and [bold]language[/] if there is one.

The result has the same rows and columns, then the scores; its kind goes by the suffix of --output, and a name
without one makes a saved data set. What the scores depend on is in OUTPUT.summary.json. Until it is whole,
the result is called OUTPUT.partial.

[bold]Exit codes[/]: 0 all rows scored; 1 failed (a bad row, weights that cannot be had, a result that cannot
be written); 2 wrong usage (options, columns, metric, language), nothing done; 3 done, but rows were skipped
(--on-error skip); 130 interrupted (Ctrl-C), 143 ended (SIGTERM): the rows written so far are whole.

[bold]Example[/]: capscore score preds.jsonl --metric mcs --images photos --output scores.jsonl
"""


@app.command(help=SCORE_HELP, no_args_is_help=True)
@_command
def score(
    input: Annotated[Path, typer.Argument(help="The file or data set with the captions.", show_default=False)],
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="mcs (default), clip_score or ref_clip_score; may be repeated."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder that image names start from. Default: that of INPUT.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the scored rows go.", show_default=False),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Name, Hub id (org/name@revision) or folder; see `capscore backbones`. Default: the variable "
            "CAPSCORE_BACKBONE, else the metric's own.",
            show_default=False,
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language code of all captions, such as de.", show_default=False)
    ] = None,
    on_error: Annotated[
        str, typer.Option("--on-error", help="raise: stop at the first bad row. skip: leave it without a score.")
    ] = "raise",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table, no progress bar.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (or set CAPSCORE_DEBUG=1).")
    ] = False,
    image_column: Annotated[
        str | None, typer.Option(help="Default: image, image_path, file_name or img.", rich_help_panel="Columns")
    ] = None,
    candidate_column: Annotated[
        str | None,
        typer.Option(help="Default: caption, candidate, prediction, hyp or cand.", rich_help_panel="Columns"),
    ] = None,
    references_column: Annotated[
        str | None,
        typer.Option(help="Default: references, refs, or reference_1, reference_2, ….", rich_help_panel="Columns"),
    ] = None,
    language_column: Annotated[
        str | None, typer.Option(help="Default: language or lang.", rich_help_panel="Columns")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of a saved data set that has several.", rich_help_panel="Columns")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1, …. Default: a GPU if any.", rich_help_panel="Model")
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16 or float16.", rich_help_panel="Model")
    ] = "float32",
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Images or texts at once. Default: what suits.", rich_help_panel="Model"),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Commit, branch or tag on the Hub.", rich_help_panel="Model")
    ] = None,
    image_tower: Annotated[
        str | None, typer.Option(help="For text towers published alone.", rich_help_panel="Model")
    ] = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Run Python code that comes with weights.", rich_help_panel="Model"),
    ] = False,
    allow_urls: Annotated[
        bool, typer.Option("--allow-urls", help="Fetch images from http(s) addresses.", rich_help_panel="Model")
    ] = False,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Folder for embeddings.", rich_help_panel="Model", show_default=False)
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep no embeddings on disk.", rich_help_panel="Model")
    ] = False,
) -> None:
    if debug:
        os.environ["CAPSCORE_DEBUG"] = "1"
    from .score_file import Signals

    with Signals() as signals:
        options = dict(locals())
        del options["signals"], options["debug"]
        _score(signals, **options)


def _score(
    signals: Any,
    *,
    input: Path,
    metric: list[str] | None,
    images: Path | None,
    output: Path | None,
    backbone: str | None,
    language: str | None,
    on_error: str,
    force: bool,
    as_json: bool,
    quiet: bool,
    image_column: str | None,
    candidate_column: str | None,
    references_column: str | None,
    language_column: str | None,
    split: str | None,
    device: str | None,
    dtype: str,
    batch_size: int | None,
    revision: str | None,
    image_tower: str | None,
    trust_remote_code: bool,
    allow_urls: bool,
    cache_dir: Path | None,
    no_cache: bool,
) -> None:
    from .row_fields import ImageFolder, find_fields
    from .rows import UsageError, check_output, open_rows, open_writer, summary_path, write_whole
    from .score_file import CHUNK_ROWS, Interrupted, ScoringRun, check_images_exist, load_scorers, result_columns

    metrics = _metrics(metric)
    if on_error not in ("raise", "skip"):
        raise UsageError(f"--on-error {on_error}: expected raise or skip")
    if no_cache and cache_dir is not None:
        raise UsageError("--no-cache and --cache-dir: give one of them")
    if language is not None and language_column is not None:
        raise UsageError("--language and --language-column: give one of them")
    with _as_usage():
        from .backbones.base import resolve_dtype
        from .languages import language_code

        resolve_dtype(dtype)
        if language is not None:
            language_code(language)

    source = open_rows(input, split=split)
    fields = find_fields(
        source.columns,
        image=image_column,
        candidate=candidate_column,
        references=references_column,
        language=language_column,
        with_references=_need_references(metrics),
        with_language=language is None,
    )
    folder = ImageFolder(images if images is not None else source.path.parent, allow_urls=allow_urls)
    columns = result_columns(metrics, source.columns if output else (), on_error=on_error)
    target = check_output(output, source, force=force) if output is not None else None
    if on_error == "raise":
        check_images_exist(source, fields, folder)

    chunked = source.n_rows > CHUNK_ROWS

    def make_embedder(name: str) -> Embedder:
        from .cache import resolve_cache
        from .embedding import Embedder

        return Embedder(
            _load_backbone(name, device, dtype, revision, image_tower, trust_remote_code),
            batch_size=batch_size,
            cache=resolve_cache(False if no_cache else cache_dir),
            allow_urls=allow_urls,
            progress=False if quiet or chunked else None,  # with many chunks the bar is ours
        )

    from .backbones.loading import default_backbone

    names = [backbone or default_backbone(name) for name in metrics]
    scorers = load_scorers(metrics, names, make_embedder)
    run = ScoringRun(
        source,
        fields,
        folder,
        scorers,
        language=language,
        on_error=on_error,
        say=lambda message: _say(f"warning: {message}"),
    )
    kinds = {name: float if metric else str for name, (metric, _) in columns.items()}
    writer = open_writer(target, source, kinds) if target is not None else None
    try:
        with _progress(source.n_rows, shown=chunked and not quiet) as advance:
            run.run(writer, columns, signals, advance)
        with signals.held():
            scores = run.scores()
            summary = _summary(run, scores, target)
            if writer is not None:
                # The summary first: if the disk has no room for it, there is no result without one.
                about = {name: part.signature for name, part in scores.items()}
                text = json.dumps(summary, ensure_ascii=False, indent=2) + "\n"
                _finish(lambda: writer.finish({"signatures": about}), summary_path(target), text, write_whole)
    except BaseException as error:
        with signals.held_for_good():
            kept = writer.stop() if writer is not None else None
        if isinstance(error, Interrupted):
            _say(_told_interruption(run, kept))
            raise typer.Exit(_exit_code(error)) from None
        if isinstance(error, CapscoreError) and kept is not None:
            _say(f"{writer.written:,} of {source.n_rows:,} rows are in {kept}")
        raise
    run.tell_about_truncation()
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=not _speaks_unicode()))
    elif not quiet:
        _print_summary(scores, run, target)
    if run.failures:
        if not quiet:
            _tell_failures(run)
        raise typer.Exit(SKIPPED)
