"""Show what captions of a photo get wrong, and what they leave out.

PHOTO is an image file, and each CAPTION a text in quotation marks.

InfoMetIC says of each content word (noun, verb, adjective, adverb, number) whether it is right, likely wrong,
or whether it cannot tell, and of each region of the photo whether the caption mentions it. It gives three
scores: [bold]text precision[/], how much of the caption is in the photo; [bold]vision recall[/], how much of
the photo is in the caption; [bold]overall[/], their sum.

[bold]--output[/] NAME.html is a self-contained page; NAME.json has every word, region and score. Without
--output everything is printed.

[bold]Exit codes[/]: 0 done; 1 failed (photo, weights, or writing); 2 wrong usage (options, language, boxes),
nothing done; 130 interrupted.

[bold]Example[/]: capscore explain photo.jpg "A cat on a red sofa" --output photo.html
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import InputError, Setting, visible
from ..files.console import make_console
from ..metrics.loading import Option, all_options
from . import options, terminal
from .options import argument, option

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..metrics.base import Scores
    from ..show.explained import ExplainedCaption, ShownRegion

BETA = 0.1
_MAX_BYTES = 16 * 2**20  # of a file of boxes


def _options() -> dict[str, Option]:
    left_out = ("allow_urls", "allow_private_urls", "empty", "per_row", "progress")
    return {name: entry for name, entry in all_options(["infometic"]).items() if name not in left_out}


@options.with_metric_options(_options)
def explain(
    photo: Annotated[Path, argument("PHOTO")],
    captions: Annotated[list[str], argument("CAPTION")],
    output: Annotated[Path | None, option("File: .html or .json.", "--output", "-o")] = None,
    language: options.Language = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    boxes: Annotated[
        Path | None,
        option("JSON file of regions, \\[\\[left, top, right, bottom], …], in pixels.", panel="InfoMetIC"),
    ] = None,
    missed: Annotated[
        int, option("Most missed regions to show. Default: 3.", "--missed", min=0, panel="InfoMetIC")
    ] = 3,
    metric_options: Mapping[str, Any] = {},
) -> None:
    """Explain the captions, and print or write what was found."""
    from ..files.write import write_text
    from ..show.explained import explained_captions
    from ..show.pages import explain_page

    for name in ("regions", "region_names"):
        terminal.check_only_one(Setting(name, metric_options.get(name)), Setting("boxes", boxes))
    options.check_metric_options(["infometic"], metric_options)
    target = None if output is None else output.expanduser()
    terminal.check_result_file("output", target, (".html", ".htm", ".json"), force)
    if target is not None and target.resolve() in (photo.resolve(), boxes and boxes.resolve()):
        raise terminal.UsageError(
            Setting("output", target), " is what is read; the result needs a name of its own"
        )
    image, scores, beta = _score(photo, captions, language, boxes, metric_options)
    explained = explained_captions(captions, scores)
    document = {
        "image": str(photo),
        "beta": beta,
        "signature": scores.signature,
        "captions": [_row(caption, scores, row) for row, caption in enumerate(explained)],
    }
    if target is not None and target.suffix.lower() == ".json":
        terminal.write_json(target, document)
    elif target is not None:
        page = explain_page(image, explained, photo.name, scores.signature, beta, missed)
        write_text(target, page, "page")
    if as_json:
        terminal.print_json(document)
    elif not quiet:
        _print(explained, scores, beta, missed)
        terminal.print_written(make_console(), target)


def _score(
    photo: Path,
    captions: list[str],
    language: str | None,
    boxes: Path | None,
    metric_options: Mapping[str, Any],
) -> tuple[Any, Scores, float | None]:
    """The photo, the scores of the captions, and the threshold of marks as published."""
    from ..images.load import load_image
    from ..metrics import load
    from ..text.word_classes import length_problem

    for caption in captions:
        if problem := "a caption is empty" if not caption.strip() else length_problem(caption):
            raise terminal.UsageError(problem)
    options.language_of(language)
    image = load_image(photo)
    regions = None if boxes is None else _read_boxes(boxes, image.size)
    with terminal.as_usage():
        scorer: Any = load("infometic", **metric_options)
        refusal = None if language is None else scorer.language_problem(options.language_of(language))
        if refusal:
            raise terminal.UsageError(Setting("language", language), f": {refusal}")
    scores = scorer.score(
        captions,
        [image] * len(captions),  # which is decoded already
        language=language,
        boxes=None if regions is None else [regions] * len(captions),
    )
    learned = getattr(scorer, "mark_calibration", None) is not None
    return image, scores, None if learned else metric_options.get("beta", BETA)


def _read_boxes(path: Path, size: tuple[int, int]) -> list[Any]:
    """The boxes of a JSON file, which lie in a photo of a size."""
    from ..images.boxes import check_boxes

    try:
        with open(path.expanduser(), "rb") as file:
            boxes = json.loads(file.read(_MAX_BYTES).decode("utf-8-sig"))
        check_boxes(boxes, size)
    except InputError as error:
        raise terminal.UsageError(Setting("boxes", path), ": ", *error.parts) from None
    except (OSError, ValueError, RecursionError) as error:
        raise terminal.UsageError(
            Setting("boxes", path), f": expected a JSON list of boxes: {error}"
        ) from None
    return boxes


def _row(caption: ExplainedCaption, scores: Scores, row: int) -> dict[str, Any]:
    """All that was found out about a caption, ready for JSON; null for a missing score."""
    numbers = {scores.metric: scores.scores[row]}
    numbers |= {name: values[row] for name, values in scores.components.items()}
    return {
        "caption": caption.text,
        "language": caption.language,
        **{name: None if math.isnan(value) else float(value) for name, value in numbers.items()},
        **caption.explanation,
    }


def _print(captions: Sequence[ExplainedCaption], scores: Scores, beta: float | None, missed: int) -> None:
    from ..show.explained import bars_end, bars_note, notes, shown_regions, verdict

    console, signs = make_console(), _signs()
    end = bars_end(captions)
    for caption in captions:
        console.print("", _marked(caption, signs), "", _clean(verdict(caption)), sep="\n")
        console.print(_bars(caption, end, signs))
        regions = shown_regions(caption.explanation, missed)
        if regions:
            console.print(_region_table(regions, signs))
        for note in notes(caption, missed):
            console.print(f"{note}.", style="dim", markup=False)
    below = "" if beta is None else f", with a score of {beta:g} or below"
    legend = (
        f"{signs['wrong']}[word]: likely wrong{below}. ?word: cannot tell. "
        f"{signs['unseen']}(word): cut off, not scored."
    )
    console.print("", legend, f"{bars_note(end)}.", sep="\n", style="dim", markup=False)
    terminal.print_line(console, scores.signature)


def _signs() -> dict[str, str]:
    """Signs beside words and regions, in ASCII where the terminal shows no more."""
    if terminal.speaks_unicode():
        return {"mentioned": "✓", "wrong": "✗", "unseen": "…", "full": "█", "empty": "░"}
    return {"mentioned": "+", "wrong": "x", "unseen": "~", "full": "#", "empty": "."}


def _marked(caption: ExplainedCaption, signs: dict[str, str]) -> Text:
    """The caption with its words marked by signs and colours."""
    from rich.text import Text

    from ..show.explained import segments

    marks = {
        "wrong": (f"{signs['wrong']}[{{}}]", "bold red"),
        "unsure": ("?{}", "dim underline"),
        "unseen": (f"{signs['unseen']}({{}})", "dim"),
        "right": ("{}", "underline"),
    }
    text = Text()
    for piece in segments(caption):
        pattern, style = marks.get(piece.kind, ("{}", ""))
        text.append(pattern.format(_clean(piece.text)), style=style)
    return text


def _clean(text: str) -> str:
    """A text without anything that would control the terminal or break its line."""
    return visible(" ".join(text.splitlines()) if text.strip() else " ", keep="\t").replace("\t", " ")


def _bars(caption: ExplainedCaption, end: float, signs: dict[str, str]) -> Table:
    from rich.table import Table

    from ..show.explained import score_bars

    table = Table("", "", "", box=None, show_header=False, pad_edge=False)
    for bar in score_bars(caption, end):
        full = round(bar.share * 30)
        table.add_row(bar.label, signs["full"] * full + signs["empty"] * (30 - full), bar.value)
    return table


def _region_table(regions: Sequence[ShownRegion], signs: dict[str, str]) -> Table:
    from rich.text import Text

    from ..show.tables import fixed

    learned = any(region.p is not None for region in regions)
    numbers = ("mentioned" if learned else "score", "confidence", "left, top, right, bottom")
    table = terminal.make_table("region", "what", numbers=numbers)
    table.columns[0].no_wrap = True
    for region in regions:
        kind = f"{signs['mentioned']} mentioned" if region.mentioned else f"{signs['wrong']} missed"
        table.add_row(
            f"{region.number} {kind}",
            Text(_clean(region.label)),
            region.note,
            fixed(region.confidence, 2),
            ", ".join(f"{edge:.0f}" for edge in region.box),
            style="" if region.mentioned else "yellow",
        )
    return table
