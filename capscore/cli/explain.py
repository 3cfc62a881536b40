"""Show what captions of a photo get wrong and leave out.

PHOTO is an image file, and each CAPTION a text in quotation marks.

For each content word (noun, verb, adjective, adverb, number), InfoMetIC says "right", "likely wrong" or
"cannot tell"; for each region of the photo, whether the caption mentions it. It gives three scores:
[bold]text precision[/], how much of the caption is in the photo; [bold]vision recall[/], how much of the
photo is in the caption; [bold]overall[/], their sum.

With [bold]--metric judge[/], a vision–language model scores each caption, and says in words what is wrong.

[bold]--output[/] NAME.html is a self-contained page; [bold]--json[/] prints every word, region and score.

[bold]Exit codes[/]: 0 done; 1 failed (photo, weights, or writing); 2 wrong usage (options, language), nothing
done; 130 interrupted.

[bold]Example[/]: capscore explain photo.jpg "A cat on a red sofa" --output photo.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..errors import Setting, visible
from ..files.console import make_console
from ..metrics.loading import Option, all_options
from . import options, terminal
from .options import argument, option

if TYPE_CHECKING:
    from ..metrics.scores import Scores
    from ..show.explained import ExplainedCaption

BETA = 0.1
_METRICS = ("infometic", "judge")


def _options() -> dict[str, Option]:
    left_out = ("allow_urls", "allow_private_urls", "empty", "progress", "explain", "with_references")
    return {name: entry for name, entry in all_options([*_METRICS]).items() if name not in left_out}


@options.with_metric_options(_options)
def explain(
    photo: Annotated[Path, argument("PHOTO")],
    captions: Annotated[list[str], argument("CAPTION")],
    metric: Annotated[
        Literal["infometic", "judge"],
        option("infometic (default) or judge.", "--metric", "-m", metavar="METRIC"),
    ] = "infometic",
    output: Annotated[Path | None, option("File: .html.", "--output", "-o")] = None,
    language: Annotated[
        list[str] | None,
        option("Language of all captions; or repeated, one per caption.", metavar="CODE"),
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    metric_options: Mapping[str, Any] = {},
) -> None:
    """Explain the captions, and print or write what was found."""
    from ..files.write import write_text
    from ..images.load import load_image
    from ..metrics import load
    from ..show.explained import explained_captions
    from ..show.pages import explain_page, judge_page
    from ..text.languages import NAMES, is_plainly_other
    from ..text.word_classes import length_problem

    options.check_metric_options([metric], metric_options)
    judges = metric == "judge"
    target = None if output is None else output.expanduser()
    terminal.check_result_file("output", target, (".html", ".htm"), force)
    if target is not None and target.resolve() == photo.resolve():
        raise terminal.UsageError(Setting("output", target), " is an input file: choose another name")
    for caption in captions:
        if problem := "a caption is empty" if not caption.strip() else length_problem(caption):
            raise terminal.UsageError(problem)
    spoken = [*(language or ())] * (len(captions) if len(language or ()) == 1 else 1)
    if spoken and len(spoken) != len(captions):
        count = f"{len(spoken)} languages and {len(captions)} captions"
        raise terminal.UsageError(Setting("language"), f": {count}; give one for all, or one for each")
    codes = [options.language_of(code) or "" for code in spoken] or ["en"] * len(captions)
    image = load_image(photo)
    with terminal.as_usage():
        asked: dict[str, Any] = {"explain": True} if judges else {}
        scorer: Any = load(metric, **metric_options, **asked)
        for given, code in zip(spoken, codes, strict=False):
            if refusal := scorer.language_problem(code):
                raise terminal.UsageError(Setting("language", given), f": {refusal}")
    for number, (caption, code) in enumerate(() if judges else zip(captions, codes, strict=True), 1):
        if is_plainly_other(caption, code):
            read_as = f"it is read as {NAMES.get(code, (code, code))[1]}"
            terminal.say(f"note: caption {number} seems to be in another language; {read_as} (--language)")
    scores = scorer.score(captions, [image] * len(captions), language=spoken or None)
    learned = getattr(scorer, "mark_calibration", None) is not None
    beta = None if learned else metric_options.get("beta", BETA)
    explained = explained_captions(captions, scores)
    marked = {} if judges else {"beta": beta}
    document = {"image": str(photo), **marked, **_document(explained, scores)}
    if target is not None:
        make = judge_page if judges else explain_page
        write_text(target, make(image, explained, photo.name, scores.signature, **marked), "page")
    if as_json:
        terminal.print_json(document)
    elif not quiet:
        if judges:
            _print_judged(explained, scores.signature)
        else:
            _print(explained, scores.signature, beta)
        terminal.print_written(make_console(), target)


def _document(captions: Sequence[ExplainedCaption], scores: Scores) -> dict[str, Any]:
    """All that was found out, ready for JSON; null for a missing score."""
    numbers = {scores.metric: scores.scores, **scores.components}
    rows = []
    for row, caption in enumerate(captions):
        plain = {name: float(values[row]) for name, values in numbers.items()}
        found = {name: value if value == value else None for name, value in plain.items()}
        rows.append({"caption": caption.text, "language": caption.language, **found, **caption.explanation})
    return {"signature": scores.signature, "captions": rows}


def _print(captions: Sequence[ExplainedCaption], signature: str, beta: float | None) -> None:
    """Captions with their words marked by signs and colours; in ASCII where a terminal shows no more."""
    from rich.text import Text

    from ..show.explained import SCORES, notes, segments, shown_regions, verdict
    from ..tables import fixed

    console = make_console()
    no, cut = "✗…" if terminal.speaks_unicode() else "x~"
    marks = {
        "wrong": (f"{no}[{{}}]", "bold red"),
        "unsure": ("?{}", "dim underline"),
        "unseen": (f"{cut}({{}})", "dim"),
        "right": ("{}", "underline"),
    }
    for caption in captions:
        marked = Text()
        for piece in segments(caption):
            pattern, style = marks.get(piece.kind, ("{}", ""))
            marked.append(pattern.format(_clean(piece.text)), style=style)
        console.print("", marked, "", Text(_clean(verdict(caption))), sep="\n")
        shown = shown_regions(caption.explanation)
        lines = [(label, fixed(caption.scores[name], 2, "no score")) for name, label in SCORES.items()]
        for label, kept in (("Mentioned", True), ("Missed", False)):
            regions = [
                f"{_clean(item.label or f'region {item.number}')} ({item.note})"
                for item in shown
                if item.mentioned == kept
            ]
            lines.append((label, ", ".join(regions) or "–"))
        for label, text in lines:
            terminal.print_line(console, f"{label:<16}{text}")
        for note in notes(caption):
            console.print(f"{note}.", style="dim", markup=False)
    below = "" if beta is None else f", with a score of {beta:g} or below"
    legend = f"{no}[word]: likely wrong{below}. ?word: cannot tell. {cut}(word): cut off, not scored."
    console.print("", legend, style="dim", markup=False, sep="\n")
    terminal.print_line(console, signature)


def _print_judged(captions: Sequence[ExplainedCaption], signature: str) -> None:
    from ..tables import fixed

    console = make_console()
    for caption in captions:
        console.print()
        terminal.print_line(console, _clean(caption.text))
        for name, value in caption.scores.items():
            terminal.print_line(console, f"{name:<8}{fixed(value, 4, 'no score')}")
        terminal.print_line(console, f"{'reason':<8}{_clean(caption.explanation['reason']) or '–'}")
    console.print()
    terminal.print_line(console, signature)


def _clean(text: str) -> str:
    """A text without anything that would control the terminal or break its line."""
    return visible(" ".join(text.splitlines()) if text.strip() else " ", keep="\t").replace("\t", " ")
