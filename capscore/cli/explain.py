"""The command `capscore explain`: a photo and captions in; wrong words, missed regions and scores out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .benchmark import check_target
from .options import (
    REGIONS,
    BatchSize,
    CacheDir,
    Debug,
    Device,
    Dtype,
    NoCache,
    RegionNames,
    RegionsFrom,
    TrustRemoteCode,
    Weights,
    chosen_cache,
    infometic_options,
)
from .terminal import DEBUG, as_usage, box_style, command, make_console, print_line, speaks_unicode

if TYPE_CHECKING:
    from PIL import Image
    from rich.table import Table
    from rich.text import Text

    from ..scorers.base import Scorer, Scores
    from ..show.explained import ExplainedCaption, ShownRegion

SUFFIXES = (".html", ".htm", ".png", ".json")

_EXPLAIN_HELP = """Show what captions of a photo get wrong, and what they leave out.

InfoMetIC marks each content word (noun, verb, adjective, adverb, number) as right or wrong, and each region
of the photo as mentioned or missed, and gives three scores: [bold]text precision[/], how much of the caption
the photo shows; [bold]vision recall[/], how much of the photo the caption tells; [bold]overall[/], their sum.
Several captions of the photo may be given. Without --output all is printed.

[bold]--output[/] NAME.html is a page that needs nothing but itself; NAME.png is a picture (with matplotlib);
NAME.json has every word, region and score.

[bold]Exit codes[/]: 0 done; 1 failed (a photo that cannot be read, weights that cannot be had, a result that
cannot be written); 2 wrong usage (options, language, boxes), nothing done; 130 interrupted.

[bold]Example[/]: capscore explain photo.jpg "A cat on a red sofa" --output photo.html
"""


def explain_help() -> str:
    """The command's help."""
    # Rich keeps single line breaks; a paragraph is to fill the terminal, whatever its width.
    return re.sub(r"(?<!\n)\n(?!\n)", " ", _EXPLAIN_HELP)


@command
def explain(
    photo: Annotated[Path, typer.Argument(help="The photo.", show_default=False)],
    captions: Annotated[
        list[str], typer.Argument(help="One caption or several.", metavar="CAPTION...", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A .html, .png or .json file.", show_default=False),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Language code of the captions, such as de. Content words are found by it; not stated "
            "counts as English.",
            show_default=False,
        ),
    ] = None,
    beta: Annotated[
        float,
        typer.Option(min=0, max=1, help="Words and regions with a score above it are right or mentioned."),
    ] = 0.1,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    debug: Debug = False,
    regions: RegionsFrom = None,
    region_names: RegionNames = None,
    boxes: Annotated[
        Path | None,
        typer.Option(
            help="A JSON file with the regions: a list of \\[left, top, right, bottom] in its pixels.",
            rich_help_panel=REGIONS,
            show_default=False,
        ),
    ] = None,
    missed: Annotated[
        int,
        typer.Option(
            "--missed",
            min=0,
            help="Show so many missed regions at most, those that are surest to be something.",
            rich_help_panel=REGIONS,
        ),
    ] = 3,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Name, Hub id (org/name@revision) or folder; see `capscore backbones`. Default: the "
            "variable CAPSCORE_BACKBONE, else the metric's own.",
            rich_help_panel="Model",
            show_default=False,
        ),
    ] = None,
    weights: Weights = None,
    device: Device = None,
    dtype: Dtype = "float32",
    batch_size: BatchSize = None,
    trust_remote_code: TrustRemoteCode = False,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
) -> None:
    DEBUG.set(debug)
    from ..files.rows import UsageError
    from ..images.load import load_image
    from ..text.languages import language_code

    if regions is not None and boxes is not None:
        raise UsageError("--regions and --boxes: give one of them")
    if region_names and boxes is not None:
        raise UsageError("--region-names and --boxes: give one of them")
    if as_json and output is not None:
        raise UsageError("--json prints; --output NAME.json writes: give one of them")
    if not all(caption.strip() for caption in captions):
        raise UsageError("a caption is empty")
    cache = chosen_cache(cache_dir, no_cache)
    own = infometic_options(weights=weights, regions=regions, region_names=region_names, beta=beta)
    with as_usage():
        if language is not None:
            language_code(language)
    given_boxes = None if boxes is None else _read_boxes(boxes)
    target = None if output is None else output.expanduser()
    check_target(target, SUFFIXES, force)
    for source in (photo, boxes):
        if target is not None and source is not None and os.path.realpath(source) == os.path.realpath(target):
            raise UsageError(f"--output {output} is what is read; the result needs a name of its own")
    if target is not None and target.suffix.lower() == ".png":
        from ..show.benchmark_figure import figure_class

        figure_class()  # before any work is done

    image = load_image(photo)
    with as_usage():
        scorer = _scorer(
            own,
            backbone=backbone,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            trust_remote_code=trust_remote_code,
            cache=cache,
        )
        problem = None if language is None else scorer.language_problem(language_code(language))
        if problem:
            raise UsageError(f"--language {language}: {problem}")
    scores = scorer.score(
        list(captions),
        [photo] * len(captions),
        language=language,
        boxes=None if given_boxes is None else [given_boxes] * len(captions),
    )

    from ..show.explained import explained_captions

    found = explained_captions(captions, scores)
    if target is not None:
        _write(target, photo, image, found, scores, beta, missed)
    if as_json:
        print(json.dumps(_as_dict(photo, found, scores, beta), indent=2, ensure_ascii=not speaks_unicode()))
    elif not quiet:
        _print(found, scores, beta, missed)
        if target is not None:
            print_line(make_console(), f"Written to {target}")


def _scorer(
    own: dict[str, Any],
    *,
    backbone: str | None,
    device: str | None,
    dtype: str,
    batch_size: int | None,
    trust_remote_code: bool,
    cache: bool | Path | None,
) -> Scorer:
    from ..scorers import load

    return load(
        "infometic",
        backbone=backbone,
        device=device,
        dtype=dtype,
        batch_size=batch_size,
        trust_remote_code=trust_remote_code,
        cache=cache,
        **own,
    )


def _read_boxes(path: Path) -> list[list[float]]:
    """Boxes of a JSON file; whether they lie in the photo is seen when it is scored."""
    from ..files.rows import UsageError

    try:
        found = json.loads(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--boxes {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"--boxes {path} is not JSON: {error}") from error
    if not isinstance(found, list):
        raise UsageError(f"--boxes {path}: expected a list of boxes, got {_shortened(found)}")
    for place, box in enumerate(found):
        numbers = isinstance(box, list) and len(box) == 4
        if not numbers or any(isinstance(x, bool) or not isinstance(x, int | float) for x in box):
            raise UsageError(
                f"--boxes {path}: box {place}, counted from 0: expected [left, top, right, bottom], "
                f"got {_shortened(box)}"
            )
    return found


def _shortened(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _write(
    target: Path,
    photo: Path,
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    scores: Scores,
    beta: float,
    missed: int,
) -> None:
    kind = target.suffix.lower()
    if kind == ".json":
        from ..files.whole_file import write_text

        text = json.dumps(_as_dict(photo, captions, scores, beta), indent=2, ensure_ascii=False)
        write_text(target, f"{text}\n", "explanation")
        return
    if kind == ".png":
        from ..show.explain_picture import write_png as write
    else:
        from ..show.explain_page import write_page as write
    write(
        target,
        image,
        captions,
        title=photo.name,
        signature=scores.signature,
        beta=beta,
        most_missed=missed,
    )


def _as_dict(
    photo: Path, captions: Sequence[ExplainedCaption], scores: Scores, beta: float
) -> dict[str, Any]:
    """All that was found, JSON-ready; null for a score that is none."""
    import math

    rows = []
    for row, caption in enumerate(captions):
        numbers = {scores.metric: scores.scores[row]}
        numbers |= {name: values[row] for name, values in scores.components.items()}
        rows.append(
            {
                "caption": caption.text,
                "language": caption.language,
                **{name: None if math.isnan(value) else float(value) for name, value in numbers.items()},
                **caption.explanation,
            }
        )
    return {"image": str(photo), "beta": beta, "signature": scores.signature, "captions": rows}


# ---- the terminal ----


def _print(captions: Sequence[ExplainedCaption], scores: Scores, beta: float, missed: int) -> None:
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
    console.print(
        f"{signs['wrong']}[word]: content word with a score of {beta:g} or below. "
        f"{signs['unseen']}(word): cut off, not scored.",
        style="dim",
        markup=False,
    )
    console.print(f"{bars_note(end)}.", style="dim", markup=False)
    print_line(console, scores.signature)


def _signs() -> dict[str, str]:
    """What stands beside words and regions; this terminal may know no more than ASCII."""
    if speaks_unicode():
        return {"mentioned": "✓", "wrong": "✗", "unseen": "…", "full": "█", "empty": "░"}
    return {"mentioned": "+", "wrong": "x", "unseen": "~", "full": "#", "empty": "."}


def _marked(caption: ExplainedCaption) -> Text:
    """The caption, its words marked by signs as well as by colour."""
    from rich.text import Text

    from ..show.explained import segments

    signs, text = _signs(), Text()
    for piece in segments(caption):
        said = _clean(piece.text)
        if piece.kind == "wrong":
            text.append(f"{signs['wrong']}[{said}]", style="bold red")
        elif piece.kind == "unseen":
            text.append(f"{signs['unseen']}({said})", style="dim")
        else:
            text.append(said, style="underline" if piece.kind == "right" else "")
    return text


def _verdict(caption: ExplainedCaption) -> Text:
    from rich.text import Text

    from ..show.explained import number, segments, verdict

    wrong = [
        f"{_clean(piece.text)} ({number(piece.score)})"
        for piece in segments(caption)
        if piece.kind == "wrong"
    ]
    return Text(verdict(caption) + (f": {', '.join(wrong)}." if wrong else "."))


def _clean(text: str) -> str:
    """A text that does nothing to the terminal but stand in its line."""
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
    from rich.table import Table
    from rich.text import Text

    from ..show.explained import number

    signs = _signs()
    table = Table(box=box_style(), pad_edge=False)
    table.add_column("region", no_wrap=True)
    table.add_column("what", overflow="fold")
    for heading in ("score", "confidence"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("left, top, right, bottom", justify="right", no_wrap=True)
    for region in regions:
        kind = f"{signs['mentioned']} mentioned" if region.mentioned else f"{signs['wrong']} missed"
        table.add_row(
            f"{region.number} {kind}",
            Text(_clean(region.label) if region.label else ""),
            number(region.score),
            number(region.confidence),
            ", ".join(f"{edge:.0f}" for edge in region.box),
            style="" if region.mentioned else "yellow",
        )
    return table
