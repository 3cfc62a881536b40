"""Show what captions of a photo get wrong and leave out.

PHOTO is an image file, and each CAPTION a text in quotation marks.

For each content word (noun, verb, adjective, adverb, number), InfoMetIC says "right", "likely wrong" or
"cannot tell"; for each region of the photo, whether the caption mentions it. It gives three scores:
[bold]text precision[/], how much of the caption is in the photo; [bold]vision recall[/], how much of the
photo is in the caption; [bold]overall[/], their sum.

With [bold]--metric judge[/], a vision–language model scores each caption, and says in words what is wrong.
Any other metric gives its score, and what it says of the caption.

[bold]--output[/] NAME.html is a self-contained page; [bold]--json[/] prints every word, region and score.

[bold]Exit codes[/]: 0 done; 1 failed (photo, weights, or writing); 2 wrong usage (options, language), nothing
done; 130 interrupted.

[bold]Example[/]: capscore explain photo.jpg "A cat on a red sofa" --output photo.html
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from ..errors import InputError, Setting
from ..files.console import make_console
from ..registry import METRICS
from . import options, terminal
from .options import argument, option


@options.with_metric_options(options.of_explaining)
def explain(
    photo: Annotated[Path, argument("PHOTO")],
    captions: Annotated[list[str], argument("CAPTION")],
    metric: Annotated[
        str,
        option(
            "Metric. Default: infometic.",
            "--metric",
            "-m",
            metavar="METRIC",
            autocompletion=options.complete_metrics,
        ),
    ] = "infometic",
    output: Annotated[Path | None, option("File: .html.", "--output", "-o")] = None,
    language: Annotated[
        list[str] | None, option("Language of all captions; or repeated, one per caption.", metavar="CODE")
    ] = None,
    reference: Annotated[list[str] | None, option("Reference; repeatable.", metavar="TEXT")] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    metric_options: Mapping[str, object] = {},
) -> None:
    from ..files.write import write_text
    from ..images.load import load_image
    from ..metrics import load
    from ..show import explanation

    options.check_metric_options([metric], metric_options)
    target = None if output is None else output.expanduser()
    terminal.check_result_file("output", target, (".html", ".htm"), force)
    if target is not None and target.resolve() == photo.resolve():
        raise terminal.UsageError(Setting("output", target), " is an input file: choose another name")
    kind = METRICS.get(metric.partition("@")[0])
    image = load_image(photo)  # before weights are loaded, which takes seconds
    with terminal.as_usage():
        codes = explanation.check_captions(captions, kind, language)
        scorer = load(metric, **{**kind.explaining, **metric_options})
    with terminal.as_usage(InputError):
        found = explanation.explain(
            image, captions, scorer, references=reference, language=codes, name=photo.name
        )
    for note in found.notes:
        terminal.say(f"note: {note} (--language)")
    if target is not None:
        write_text(target, found.to_html(), "page")
    if as_json:
        terminal.print_json({"image": str(photo), **found.to_dict()})
    elif not quiet:
        console = make_console()
        found.print(console)
        terminal.print_written(console, target)
