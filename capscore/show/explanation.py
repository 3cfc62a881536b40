"""A photo and captions → what a metric says of each caption: printed, as a page, as a table, as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Setting
from ..files.console import make_console
from ..metrics.loading import metric_names
from ..registry import METRICS
from ..tables import fixed
from ..text.languages import NAMES, is_plainly_other, language_code
from ..text.suspicious import is_empty
from . import explained
from .explained import ExplainedCaption, explained_captions, segments

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image
    from rich.console import Console
    from rich.text import Text

    from ..metrics.base import Scorer
    from ..metrics.scores import Scores

# kind of a piece of a caption → how it is written, and its style
_MARKS = {
    "wrong": ("{wrong}[{text}]", "bold red"),
    "unsure": ("?{text}", "dim underline"),
    "unseen": ("{cut}({text})", "dim"),
    "right": ("{text}", "underline"),
    "plain": ("{text}", ""),
}


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a metric says of captions of a photo; made by `explain`."""

    image: Image.Image
    name: str
    captions: Sequence[ExplainedCaption]
    scores: Scores
    marks_below: float | None
    notes: Sequence[str] = ()

    @property
    def marks_words(self) -> bool:
        """Whether words of captions are marked."""
        return bool(METRICS.get(self.scores.metric).marks_words())

    def to_dict(self) -> dict[str, Any]:
        """Signature, and every score and detail of each caption, ready for JSON; None for a missing score."""
        scores: dict[str, Any] = self.scores.to_dict()
        rows = []
        for row, caption in enumerate(self.captions):
            found = {"caption": caption.text, "language": caption.language}
            found[self.scores.metric] = scores["scores"][row]
            found |= {name: scores[name][row] for name in self.scores.components}
            rows.append({**found, **caption.explanation})
        document = {"signature": self.scores.signature, "captions": rows}
        if self.marks_words:
            return {"beta": self.marks_below, **document}
        return document

    def to_pandas(self) -> pd.DataFrame:
        import pyarrow as pa

        rows, columns = self.to_dict()["captions"], {}
        for name in ("caption", "language", self.scores.metric, *self.scores.components):
            columns[name] = [row[name] for row in rows]
        return pa.table(columns).to_pandas()

    def to_html(self) -> str:
        """A page in one file: the photo, the captions, and what was found."""
        from .pages import explain_page, scores_page

        about = self.image, self.captions, self.name, self.scores.signature
        if self.marks_words:
            return explain_page(*about, beta=self.marks_below)
        kind = METRICS.get(self.scores.metric)
        return scores_page(*about, about=kind.about_scores or (kind.__doc__ or "").split("\n")[0])

    def print(self, console: Console | None = None) -> None:
        """Print the captions, with signs and colours at their words if the metric marks them."""
        from rich.text import Text

        console, marks_words = console or make_console(), self.marks_words
        for caption in self.captions:
            if marks_words:
                _print_marked(console, caption)
            else:
                _print_scores(console, caption)
        console.print()
        if marks_words:
            wrong, cut = _signs(console)
            below = ""
            if self.marks_below is not None:
                below = f", with a score of {self.marks_below:g} or below"
            others = f"?word: cannot tell. {cut}(word): cut off, not scored."
            if self.marks_below is None:
                others += " (%): probability that the caption mentions the region."
            console.print(Text(f"{wrong}[word]: likely wrong{below}. {others}", "dim"))
        _print_lines(console, [self.scores.signature])


def explain(
    photo: object,
    captions: str | Sequence[str],
    metric: str | Scorer = "infometic",
    *,
    references: Sequence[str] | None = None,
    language: str | Sequence[str] | None = None,
    name: str = "",
    **options: Any,
) -> Explanation:
    """Say what captions of a photo get wrong and leave out, as far as a metric can tell.

    `infometic` marks words and regions, `judge` says in words what is wrong; every metric gives its scores,
    with its components, its rank where it is calibrated, and what its details say.

    Args:
        photo: The photo, as `Scorer.score` takes it.
        captions: One caption or more.
        metric: Name of the metric, or its scorer.
        references: References of the photo, for a metric that compares with them.
        language: Language code of all captions, or one for each.
        name: Name of the photo on the page; "" for that of its file.
        **options: Options of `capscore.load`.

    Raises:
        InputError: an empty caption, or one in a language that the metric does not know.
        ImageError: a photo that cannot be read.
        CapscoreError: as in `capscore.load`.

    >>> explanation = explain("cat.jpg", "a dog on a sofa", backbone="embedded")     # doctest: +SKIP
    >>> explanation.captions[0].explanation["words"][0]["correct"]                   # doctest: +SKIP
    False
    """
    from ..images.load import load_image
    from ..metrics import load

    texts = _listed(captions)
    image = load_image(photo)
    (metric,) = metric_names(metric, most=1, loaded=True)
    if isinstance(metric, str):
        kind = METRICS.get(metric.partition("@")[0])
        check_captions(texts, kind, language)  # before weights are loaded, which takes seconds
        metric = load(metric, **{**kind.explaining, **options})
    codes = check_captions(texts, metric, language)
    for code in codes or ():
        if problem := metric.language_problem(code):
            raise InputError(Setting("language", code), f": {problem}")
    columns: dict[str, Any] = {"images": [image] * len(texts), "language": codes}
    if references is not None:
        columns["references"] = [list(references)] * len(texts)
    scores = metric.score(texts, **columns)
    found = explained_captions(texts, scores)
    if isinstance(photo, str | Path):
        name = name or Path(photo).name
    notes = _language_notes(found) if metric.marks_words() else []
    return Explanation(image, name or "photo", found, scores, metric.marks_below, notes)


def check_captions(
    captions: Sequence[str], metric: Scorer | type[Scorer], language: str | Sequence[str] | None
) -> list[str] | None:
    """Check captions and languages before a metric, or its class, is loaded; returns a code for each."""
    from ..text.word_classes import length_problem

    for row, caption in enumerate(captions):
        if is_empty(caption):
            raise InputError(f"caption {row + 1} is empty", row=row, field="candidate")
        if metric.marks_words() and (problem := length_problem(str(caption))):
            raise InputError(problem, row=row, field="candidate")
    if not language:
        return None
    stated = _listed(language)
    if len(stated) == 1:
        stated *= len(captions)
    if len(stated) != len(captions):
        count = f": {len(stated)} languages and {len(captions)} captions; give one for all, or one for each"
        raise InputError(Setting("language"), count)
    codes = []
    for tag in stated:
        try:
            codes.append(language_code(tag))
        except InputError as error:
            raise InputError(Setting("language", tag), ": ", *error.parts) from None
    return codes


def _listed(texts: str | Sequence[str]) -> list[str]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        return [texts]
    return list(texts)


def _language_notes(captions: Sequence[ExplainedCaption]) -> list[str]:
    """Captions that are plainly not in the language whose words are marked."""
    found = []
    for number, caption in enumerate(captions, 1):
        code = caption.language or "en"
        if is_plainly_other(caption.text, code):
            read_as = NAMES.get(code, (code, code))[1]
            found.append(f"caption {number} seems to be in another language; it is read as {read_as}")
    return found


def _print_marked(console: Console, caption: ExplainedCaption) -> None:
    """A caption with its words marked by signs and colours; in ASCII where a terminal shows no more."""
    from rich.text import Text

    marked = _marked(console, ((piece.kind, piece.text) for piece in segments(caption)))
    console.print("", marked, "", Text(_clean(str(explained.verdict(caption)))), sep="\n")
    lines = [(label, fixed(caption.scores[name], 2, "no score")) for name, label in explained.SCORES.items()]
    regions: dict[bool, list[str]] = {True: [], False: []}
    for item in explained.shown_regions(caption.explanation):
        regions[item.mentioned].append(f"{_clean(item.label)} ({item.note})")
    lines += [("Mentioned", ", ".join(regions[True])), ("Missed", ", ".join(regions[False]))]
    _print_lines(console, [f"{label:<16}{text or '–'}" for label, text in lines])
    if said := explained.notes(caption):
        console.print(Text("\n".join(f"{note}." for note in said), "dim"))


def _print_scores(console: Console, caption: ExplainedCaption) -> None:
    """A caption with what is likely wrong in it, its score and components, and what the metric says of it."""
    lines = {name: fixed(value, 4, "no score") for name, value in caption.scores.items()}
    if not math.isnan(caption.rank):
        lines["rank"] = f"{caption.rank:.0f} % of {caption.right_captions} score worse"
    if caption.found:
        lines["found"] = _clean(caption.found)
    if caption.reason:
        lines["reason"] = _clean(caption.reason)
    width = max(8, *(len(name) + 2 for name in lines))
    of_caption = [f"{name:<{width}}{text}" for name, text in lines.items()]
    marked = _marked(console, (("wrong" if is_wrong else "plain", text) for text, is_wrong in caption.pieces))
    marked.rstrip()
    console.print("", marked, sep="\n", soft_wrap=True)
    _print_lines(console, of_caption)


def _marked(console: Console, pieces: Iterable[tuple[str, str]]) -> Text:
    """Pieces of a caption, each a kind and its text, with signs and colours."""
    from rich.text import Text

    marked, (wrong, cut) = Text(), _signs(console)
    for kind, text in pieces:
        pattern, style = _MARKS[kind]
        marked.append(pattern.format(text=_clean(text), wrong=wrong, cut=cut), style=style)
    return marked


def _signs(console: Console) -> tuple[str, str]:
    if console.encoding.lower().startswith("utf"):
        return "✗", "…"
    return "x", "~"


def _print_lines(console: Console, lines: Sequence[str]) -> None:
    """Print lines that a person may want to copy, unbroken whatever the width."""
    console.print("\n".join(lines), soft_wrap=True)


def _clean(text: str) -> str:
    """A text on one line; the console shows what would control it."""
    return re.sub(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029\t]", " ", text)
