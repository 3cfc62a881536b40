"""The command `capscore explain`: shows what captions of a photo get wrong and leave out."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import InputError, Setting
from ..files.console import make_console
from ..files.sizes import ROW_BYTES, nested_too_deeply
from .models import spoken_language
from .options import OF_INFOMETIC, AsJson, Force, Language, Quiet
from .request import argument, check_metric_options, flowing, metric_options, option
from .terminal import (
    UsageError,
    as_usage,
    check_only_one,
    check_result_file,
    make_table,
    print_json,
    print_line,
    print_written,
    speaks_unicode,
)

if TYPE_CHECKING:
    from PIL import Image
    from rich.table import Table
    from rich.text import Text

    from ..metrics.base import Scorer, Scores
    from ..show.explained import ExplainedCaption, ShownRegion

SUFFIXES = (".html", ".htm", ".json")
BETA = 0.1

_HELP = """Show what captions of a photo get wrong, and what they leave out.

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


def explain_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class ExplainRequest:
    """What `capscore explain` is asked for."""

    photo: Annotated[Path, argument("PHOTO")]
    captions: Annotated[list[str], argument("CAPTION")]
    output: Annotated[Path | None, option("File: .html or .json.", "--output", "-o")] = None
    language: Language = None
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    boxes: Annotated[
        Path | None,
        option(
            "JSON file of regions, \\[\\[left, top, right, bottom], …], in pixels.",
            panel="InfoMetIC",
        ),
    ] = None
    missed: Annotated[
        int,
        option("Most missed regions to show. Default: 3.", "--missed", min=0, panel="InfoMetIC"),
    ] = 3
    options: Mapping[str, Any] = metric_options(*OF_INFOMETIC)

    def __post_init__(self) -> None:
        for name in ("regions", "region_names"):
            check_only_one(Setting(name, self.options.get(name)), Setting("boxes", self.boxes))
        if self.as_json and self.output is not None:
            raise UsageError("--json prints; --output NAME.json writes: give one of them")
        if not all(caption.strip() for caption in self.captions):
            raise UsageError("a caption is empty")
        spoken_language(self.language)
        check_metric_options(["infometic"], self.options)
        check_result_file("output", self.target, SUFFIXES, self.force)
        for source in (self.photo, self.boxes):
            if self.target and source and os.path.realpath(source) == os.path.realpath(self.target):
                raise UsageError(
                    Setting("output", self.target), " is what is read; the result needs a name of its own"
                )

    @property
    def target(self) -> Path | None:
        """Path of the result."""
        return None if self.output is None else self.output.expanduser()

    @property
    def beta(self) -> float:
        """Threshold of words and regions, for marks as published."""
        return self.options.get("beta", BETA)


@dataclass(frozen=True)
class ExplainResult:
    """Explained captions of a photo.

    Attributes:
        captions: The captions with their words and regions.
        scores: Their scores.
        document: Everything that was found, ready for JSON.
    """

    captions: Sequence[ExplainedCaption]
    scores: Scores
    document: dict[str, Any] = field(repr=False)


def run_explain(request: ExplainRequest) -> ExplainResult:
    """Explain the captions, and write the result if a path is given.

    Raises:
        UsageError, InputError: An option is wrong, or the photo.
    """
    from ..images.boxes import check_boxes
    from ..images.load import load_image
    from ..text.word_classes import length_problem

    boxes = None if request.boxes is None else _read_boxes(request.boxes)
    target = request.target
    for caption in request.captions:
        if too_long := length_problem(caption):
            raise UsageError(too_long)
    image = load_image(request.photo)
    if boxes is not None:
        try:
            check_boxes(boxes, image.size)
        except InputError as error:
            raise UsageError(Setting("boxes", request.boxes), ": ", *error.parts) from None
    with as_usage():
        scorer = load_scorer(request.options)
        language = spoken_language(request.language)
        problem = None if language is None else scorer.language_problem(language)
        if problem:
            raise UsageError(Setting("language", request.language), f": {problem}")
    n_captions = len(request.captions)
    scores = scorer.score(
        list(request.captions),
        [image] * n_captions,  # which is decoded already
        language=request.language,
        boxes=None if boxes is None else [boxes] * n_captions,
    )

    from ..show.explained import explained_captions

    captions = explained_captions(request.captions, scores)
    document = {
        "image": str(request.photo),
        "beta": None if getattr(scorer, "mark_calibration", None) is not None else request.beta,
        "signature": scores.signature,
        "captions": [_row(caption, scores, row) for row, caption in enumerate(captions)],
    }
    if target is not None:
        _write(target, request, image, captions, scores, document)
    return ExplainResult(captions, scores, document)


def load_scorer(options: Mapping[str, Any]) -> Scorer:
    """The scorer that explains."""
    from ..metrics import load

    return load("infometic", **options)


def _read_boxes(path: Path) -> list[list[float]]:
    """Boxes of a JSON file; whether they lie in the photo is not checked here."""
    given = Setting("boxes", path)
    try:
        with open(os.path.expanduser(path), "rb") as file:
            content = file.read(ROW_BYTES.bytes + 1)
        if len(content) > ROW_BYTES.bytes:
            raise UsageError(given, f" is too large for a list of boxes; {ROW_BYTES}")
        text = content.decode("utf-8-sig")
        if nested_too_deeply(text):
            raise UsageError(given, ": the JSON is nested too deeply for a list of boxes")
        found = json.loads(text)
    except OSError as error:
        raise UsageError(given, f" cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(given, f" is not JSON: {error}") from error
    if not isinstance(found, list):
        raise UsageError(given, f": expected a list of boxes, got {_shortened(found)}")
    for place, box in enumerate(found):
        numbers = isinstance(box, list) and len(box) == 4
        if not numbers or any(isinstance(x, bool) or not isinstance(x, int | float) for x in box):
            raise UsageError(
                given,
                f": box {place}, counted from 0: expected [left, top, right, bottom], got {_shortened(box)}",
            )
    return found


def _shortened(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _write(
    target: Path,
    request: ExplainRequest,
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    scores: Scores,
    document: dict[str, Any],
) -> None:
    kind = target.suffix.lower()
    if kind == ".json":
        from ..files.whole_file import write_text

        text = json.dumps(document, indent=2, ensure_ascii=False)
        write_text(target, f"{text}\n", "explanation")
        return
    from ..show.explain_page import write_page

    write_page(
        target,
        image,
        captions,
        title=request.photo.name,
        signature=scores.signature,
        beta=document["beta"],
        most_missed=request.missed,
    )


def _row(caption: ExplainedCaption, scores: Scores, row: int) -> dict[str, Any]:
    """All that was found out about a caption, ready for JSON; null for a missing score."""
    import math

    numbers = {scores.metric: scores.scores[row]}
    numbers |= {name: values[row] for name, values in scores.components.items()}
    return {
        "caption": caption.text,
        "language": caption.language,
        **{name: None if math.isnan(value) else float(value) for name, value in numbers.items()},
        **caption.explanation,
    }


def show_explain(request: ExplainRequest, result: ExplainResult) -> None:
    """Print the captions with their marks, scores and regions, or everything as JSON."""
    if request.as_json:
        print_json(result.document)
    elif not request.quiet:
        _print(result.captions, result.scores, result.document["beta"], request.missed)
        if request.target is not None:
            print_written(make_console(), request.target)


# ---- the terminal ----


def _print(captions: Sequence[ExplainedCaption], scores: Scores, beta: float | None, missed: int) -> None:
    from ..show.explained import bars_end, bars_note, notes, shown_regions

    console = make_console()
    end = bars_end(captions)
    for caption in captions:
        console.print()
        console.print(_marked(caption))
        console.print()
        console.print(_verdict(caption))
        console.print(_bars(caption, end))
        regions = shown_regions(caption.explanation, missed)
        if regions:
            console.print(_region_table(regions))
        for note in notes(caption, missed):
            console.print(f"{note}.", style="dim", markup=False)
    signs = _signs()
    console.print()
    below = "" if beta is None else f", with a score of {beta:g} or below"
    console.print(
        f"{signs['wrong']}[word]: likely wrong{below}. ?word: cannot tell. "
        f"{signs['unseen']}(word): cut off, not scored.",
        style="dim",
        markup=False,
    )
    console.print(f"{bars_note(end)}.", style="dim", markup=False)
    print_line(console, scores.signature)


def _signs() -> dict[str, str]:
    """Signs beside words and regions, in ASCII where the terminal shows no more."""
    if speaks_unicode():
        return {"mentioned": "✓", "wrong": "✗", "unseen": "…", "full": "█", "empty": "░"}
    return {"mentioned": "+", "wrong": "x", "unseen": "~", "full": "#", "empty": "."}


def _marked(caption: ExplainedCaption) -> Text:
    """The caption with its words marked by signs and colours."""
    from rich.text import Text

    from ..show.explained import segments

    signs, text = _signs(), Text()
    for piece in segments(caption):
        said = _clean(piece.text)
        if piece.kind == "wrong":
            text.append(f"{signs['wrong']}[{said}]", style="bold red")
        elif piece.kind == "unsure":
            text.append(f"?{said}", style="dim underline")
        elif piece.kind == "unseen":
            text.append(f"{signs['unseen']}({said})", style="dim")
        else:
            text.append(said, style="underline" if piece.kind == "right" else "")
    return text


def _verdict(caption: ExplainedCaption) -> Text:
    from rich.text import Text

    from ..show.explained import verdict_with_words

    return Text(_clean(verdict_with_words(caption)))


def _clean(text: str) -> str:
    """A text without anything that would control the terminal or break its line."""
    from ..show.markup import UNSEEN

    return UNSEEN.sub("?", " ".join(text.splitlines()) if text.strip() else " ").replace("\t", " ")


def _bars(caption: ExplainedCaption, end: float) -> Table:
    from rich.table import Table

    from ..show.explained import score_bars

    signs, width = _signs(), 30
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for bar in score_bars(caption, end):
        full = round(bar.share * width)
        table.add_row(bar.label, signs["full"] * full + signs["empty"] * (width - full), bar.value)
    return table


def _region_table(regions: Sequence[ShownRegion]) -> Table:
    from rich.text import Text

    from ..show.explained import number

    signs = _signs()
    judged = any(region.p is not None for region in regions)
    numbers = ("mentioned" if judged else "score", "confidence", "left, top, right, bottom")
    table = make_table("region", "what", numbers=numbers)
    table.columns[0].no_wrap = True
    for region in regions:
        kind = f"{signs['mentioned']} mentioned" if region.mentioned else f"{signs['wrong']} missed"
        table.add_row(
            f"{region.number} {kind}",
            Text(_clean(region.label) if region.label else ""),
            region.note,
            number(region.confidence),
            ", ".join(f"{edge:.0f}" for edge in region.box),
            style="" if region.mentioned else "yellow",
        )
    return table
