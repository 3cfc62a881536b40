"""A photo and what the scorer says of its captions → HTML: a page that needs nothing else, or a part of one.

The photo is in it, once; it runs no script and asks no network for anything.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CapscoreError
from ..files.whole_file import whole_file
from .explained import (
    MENTIONED,
    MISSED,
    MOST_MISSED,
    SIGNS,
    Box,
    ExplainedCaption,
    Segment,
    ShownRegion,
    bars_end,
    bars_note,
    estimated_width,
    notes,
    number,
    photo_text,
    place_tags,
    score_bars,
    segments,
    shown_regions,
    stage,
    verdict,
)
from .report import STYLE as PAGE_STYLE
from .report import as_attribute, as_text, breakable, language_attributes, language_names

if TYPE_CHECKING:
    from PIL import Image

LONGEST_SIDE = 1280
"""Pixels; a larger photo is made smaller for the page."""

_JPEG_QUALITY = 85
# A photo's longer side on the page and a tag's letters, in CSS pixels: as a guess of what tags cover.
_SHOWN_SIDE, _TAG_LETTER, _TAG_HEIGHT, _TAG_PADDING = 560.0, 12.5, 21.0, 10.0


def write_page(
    path: str | Path,
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    *,
    title: str = "",
    signature: str = "",
    beta: float | None = None,
    most_missed: int = MOST_MISSED,
) -> Path:
    """Write a page about captions of a photo; the file gets its name once it is whole.

    Args:
        path: the file; what is there already is replaced.
        image: the photo that the boxes belong to.
        captions: at least one.
        title: heading of the page, such as the photo's name.
        signature: everything that the scores depend on; at the foot.
        beta: the threshold of words and regions, for the legend.
        most_missed: how many missed regions are drawn at most.

    Raises:
        CapscoreError: no caption.
        ResultWriteError: the file cannot be written.

    >>> told = {"words": [], "regions": [], "null": 1.0, "image_size": [9, 9], "n_words_cut": 0}
    >>> scores = {"precision": 1.0, "recall": 2.0, "overall": 3.0}
    >>> caption = ExplainedCaption("a cat", "en", told, scores)
    >>> write_page("cat.html", image, [caption], title="cat.jpg")     # doctest: +SKIP
    PosixPath('cat.html')
    """
    page = page_of(image, captions, title or "A photo and its captions", signature, beta, most_missed)
    path = Path(path).expanduser()
    with whole_file(path, "page", make_folders=True) as file:
        file.write(page.encode("utf-8"))
    return path


def render(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    *,
    beta: float | None = None,
    most_missed: int = MOST_MISSED,
) -> str:
    """Captions of a photo as HTML, for pages that have the style of `capscore.show.report` and `STYLE`
    besides.

    Args: as of `write_page`.

    Returns:
        A legend, an article a caption, and what the bars mean.

    Raises:
        CapscoreError: no caption.
    """
    end = bars_end(captions)
    return legend(beta) + cards(image, captions, end, most_missed=most_missed) + bars_line(end)


def cards(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    end: float,
    *,
    labels: Sequence[str] = (),
    most_missed: int = MOST_MISSED,
    name: str = "photo",
) -> str:
    """An article a caption, without a legend: for pages on which several photos share one.

    Args:
        image: the photo that the boxes belong to; its pixels are in the page once.
        captions: at least one.
        end: the end of the bars of precision and recall, as of `bars_end`.
        labels: what each caption is, beside its language; none, or one each.
        most_missed: how many missed regions are drawn at most.
        name: id of the photo's pixels, which no other element of the page has: letters, digits and "-".

    Raises:
        CapscoreError: no caption.
    """
    if not captions:
        raise CapscoreError("there is no caption to show")
    photo = _inline(image, name)
    parts = []
    for caption, label in zip(captions, labels or [""] * len(captions), strict=True):
        parts.append(_card(image.size, caption, label, photo, end, most_missed))
        photo = f'<use href="#{name}"/>'
    return "".join(parts)


def bars_line(end: float) -> str:
    """What the bars' lengths mean, as a paragraph."""
    return f'<p class="soft">{as_text(bars_note(end))}.</p>\n'


def page_of(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    title: str,
    signature: str,
    beta: float | None,
    most_missed: int,
) -> str:
    # The policy forbids what the page does without anyway: nothing is ever loaded or run.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    body = render(image, captions, beta=beta, most_missed=most_missed)
    foot = ""
    if signature:
        foot = (
            '<footer>\n<h2 id="signature">Signature</h2>\n'
            '<p class="soft">It names all that the scores depend on: same signature, same numbers.</p>\n'
            f"<p><code>{breakable(signature)}</code></p>\n"
            '<p class="soft">This page is one file: photo, style and text are all in it.</p>\n</footer>\n'
        )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{as_attribute(title)}</title>\n<style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n"
        f'<header class="top">\n<h1>{as_text(title)}</h1>\n'
        "<p>What each caption says that is not in the photo, and what it leaves out.</p>\n</header>\n"
        f"<main>\n{body}</main>\n{foot}</body>\n</html>\n"
    )


def legend(beta: float | None) -> str:
    """What the marks on words and the lines on the photo mean; `beta` is the threshold, None untold."""
    above = "" if beta is None else f", score above {beta:g}"
    below = "" if beta is None else f", score {beta:g} or below"
    return (
        '<ul class="key soft" role="list">\n'
        f'<li><span class="said word-right">word</span> right content word{above}</li>\n'
        f'<li><mark class="said word-wrong">{_sign("wrong")}word</mark> wrong content word{below}</li>\n'
        '<li><span class="said word-unseen">word</span> cut off, not looked at</li>\n'
        f'<li><span class="line mentioned"></span>{MENTIONED} region that the caption mentions</li>\n'
        f'<li><span class="line missed"></span>{MISSED} region that it misses</li>\n</ul>\n'
    )


def _sign(kind: str) -> str:
    return f'<span class="sign" aria-hidden="true">{SIGNS[kind]}</span>' if SIGNS[kind] else ""


def _card(
    size: tuple[int, int], caption: ExplainedCaption, label: str, photo: str, end: float, most_missed: int
) -> str:
    regions = shown_regions(caption.explanation, most_missed)
    own, english = language_names(caption.language)
    second = f" · {as_text(english)}" if own != english else ""
    if label:
        second += f" · <bdi>{as_text(label)}</bdi>"
    attributes = language_attributes(caption.language)
    said = "".join(map(_said, segments(caption)))
    listed = "".join(f"<li>{as_text(note)}.</li>" for note in notes(caption, most_missed))
    return (
        '<article class="card explained">\n'
        f"<figure>{_photo(size, regions, photo)}</figure>\n"
        f'<div>\n<p class="soft language"><span{attributes}>{as_text(own)}</span>{second}</p>\n'
        f'<p class="caption"{attributes}>{said}</p>\n'
        f'<p class="verdict">{as_text(verdict(caption))}{_wrong_words(caption, attributes)}.</p>\n'
        f"{_bars(caption, end)}{_region_lists(regions)}"
        f'<ul class="soft notes" role="list">{listed}</ul>\n{_word_table(caption, attributes)}</div>\n'
        "</article>\n"
    )


# ---- words ----


def _said(piece: Segment) -> str:
    """A piece of the caption, marked for the eye and in words for the ear."""
    text = as_text(piece.text)
    if piece.kind == "plain":
        return text
    if piece.kind == "unseen":
        return f'<span class="said word-unseen" title="cut off, not looked at">{text}</span>'
    title = f'title="score {number(piece.score)}"'
    if piece.kind == "right":
        return f'<span class="said word-right" {title}>{text}</span>'
    return (
        f'<mark class="said word-wrong" {title}>{_sign("wrong")}'
        f'<span class="unseen" lang="en">wrong: </span>{text}</mark>'
    )


def _wrong_words(caption: ExplainedCaption, attributes: str) -> str:
    wrong = [piece for piece in segments(caption) if piece.kind == "wrong"]
    listed = ", ".join(
        f"<bdi><b{attributes}>{as_text(piece.text)}</b></bdi> ({number(piece.score)})" for piece in wrong
    )
    return f": {listed}" if wrong else ""


def _word_table(caption: ExplainedCaption, attributes: str) -> str:
    words = caption.explanation["words"]
    if not words:
        return ""
    rows = []
    for word in words:
        judged = {True: "✓ right", False: "✗ wrong", None: ""}[word["correct"]]
        if word["score"] is None:
            score, judged = "–", "cut off"
        else:
            score, judged = number(word["score"]), judged or "no content word"
        rows.append(
            f'<tr><th scope="row"{attributes}>{as_text(word["text"])}</th>'
            f"<td>{score}</td><td>{judged}</td></tr>\n"
        )
    return (
        "<details><summary>All words and their scores</summary>\n<table>\n"
        '<thead><tr><th scope="col">Word</th><th scope="col">Score</th><th scope="col">Judged</th></tr>'
        "</thead>\n"
        f"<tbody>\n{''.join(rows)}</tbody>\n</table></details>\n"
    )


# ---- scores and regions ----


def _bars(caption: ExplainedCaption, end: float) -> str:
    bars = "".join(
        f'<div class="score"><span class="name">{bar.label}</span><span class="track" aria-hidden="true">'
        f'<i class="full" style="width:{100 * bar.share:.1f}%"></i></span><b>{bar.value}</b></div>\n'
        for bar in score_bars(caption, end)
    )
    return f'<div class="scores">\n{bars}</div>\n'


def _region_lists(regions: Sequence[ShownRegion]) -> str:
    parts = []
    for mentioned, heading in ((True, "Mentioned"), (False, "Missed")):
        own = [region for region in regions if region.mentioned is mentioned]
        if not own:
            continue
        items = ", ".join(
            f'<span title="confidence {number(region.confidence)}"><b>{region.sign}\u00a0{region.number}</b> '
            f'<bdi>{as_text(region.label)}</bdi> <span class="soft">{number(region.score)}</span></span>'
            for region in own
        )
        line = f'<span class="line {heading.lower()}" aria-hidden="true"></span>'
        parts.append(f"<dt>{line}{heading}</dt><dd>{items}</dd>\n")
    return f'<dl class="regions">\n{"".join(parts)}</dl>\n' if parts else ""


# ---- the photo ----


def _inline(image: Image.Image, name: str) -> str:
    """The photo as an SVG element in its own pixels, made smaller where that is enough."""
    from PIL import Image as PIL_Image

    small = image.convert("RGB")
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE), PIL_Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=_JPEG_QUALITY, optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return (
        f'<image id="{as_attribute(name)}" width="{image.width}" height="{image.height}" '
        f'preserveAspectRatio="none" href="data:image/jpeg;base64,{data}"/>'
    )


def _photo(size: tuple[int, int], regions: Sequence[ShownRegion], photo: str) -> str:
    left, top, width, height = field = stage(size)
    pixel = max(width, height) / _SHOWN_SIDE  # of the screen, in those of the photo
    edge = 2 * pixel
    boxes = [_within(region.box, size, edge) for region in regions]
    drawn = "".join(_rectangle(box, region) for box, region in zip(boxes, regions, strict=True))
    sizes = [
        ((estimated_width(region.tag) * _TAG_LETTER + _TAG_PADDING) * pixel, _TAG_HEIGHT * pixel)
        for region in regions
    ]
    tags = "".join(
        _tag(place, region, field)
        for place, region in zip(place_tags(boxes, sizes, field), regions, strict=True)
    )
    return (
        f'<div class="stage" style="aspect-ratio:{width:g}/{height:g};--ratio:{width / height:.4f}">'
        f'<svg viewBox="{left:g} {top:g} {width:g} {height:g}" role="img" '
        f'aria-label="{as_attribute(photo_text(regions))}">'
        f"{photo}{drawn}</svg>{tags}</div>"
    )


def _within(box: Box, size: tuple[int, int], edge: float) -> Box:
    """A box whose lines are whole at the photo's edges too."""
    edge = min(edge, size[0] / 4, size[1] / 4)
    left, right = (min(max(x, edge), size[0] - edge) for x in box[::2])
    top, bottom = (min(max(y, edge), size[1] - edge) for y in box[1::2])
    return left, top, right, bottom


def _rectangle(box: Box, region: ShownRegion) -> str:
    left, top, right, bottom = box
    place = f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}"'
    kind = "mentioned" if region.mentioned else "missed"
    return f'<rect class="around {kind}" {place}/><rect class="box {kind}" {place}/>'


def _tag(place: Box, region: ShownRegion, field: Box) -> str:
    left, top, width, height = field
    kind = "mentioned" if region.mentioned else "missed"
    down = 100 * (place[1] - top) / height
    # where the photo is shown smaller, tags cover more of it, and grow away from its nearer side
    if place[0] + place[2] > 2 * left + width:
        across = f"right:{100 * (left + width - place[2]) / width:.2f}%"
    else:
        across = f"left:{100 * (place[0] - left) / width:.2f}%"
    style = f"{across};top:{down:.2f}%"
    return f'<span class="tag {kind}" aria-hidden="true" style="{style}">{as_text(region.tag)}</span>'


# ---- style ----

# Okabe and Ito's blue and orange on the photo, in light and dark alike; words in the page's own colours.
STYLE = """\
.key { list-style: none; display: flex; flex-wrap: wrap; gap: 0.4rem 1.6rem; margin: 1rem 0 0; padding: 0 }
.explained { grid-template-columns: minmax(0, 1.15fr) minmax(0, 1fr) }
.explained figure { top: 1rem }
.explained p { margin: 0 0 0.6rem }
.stage {
  position: relative;
  width: min(100%, 75vh * var(--ratio));
  min-width: min(9rem, 100%);
  margin: 0 auto;
  overflow: hidden;
  border-radius: 0.4rem;
  background: var(--track);
}
.stage svg { position: absolute; inset: 0; width: 100%; height: 100%; display: block }
.stage rect { fill: none; vector-effect: non-scaling-stroke }
rect.around { stroke-width: 5px; stroke: #fff }
rect.around.missed { stroke: #000; stroke-dasharray: 12px 7px }
rect.box { stroke-width: 3px }
rect.box.mentioned { stroke: #0072b2 }
rect.box.missed { stroke: #e69f00; stroke-dasharray: 12px 7px }
.tag {
  position: absolute;
  font: 600 0.78rem/1.25rem system-ui, "Noto Sans", "Noto Sans CJK JP", sans-serif;
  padding: 0 0.3rem;
  white-space: nowrap;
  unicode-bidi: isolate;
}
.tag.mentioned { background: #0072b2; color: #fff; box-shadow: 0 0 0 1px #fff }
.tag.missed { background: #e69f00; color: #000; box-shadow: 0 0 0 1px #000 }
.explained .caption { font-size: 1.35rem; line-height: 1.75; overflow-wrap: anywhere; margin-bottom: 0.8rem }
.said { background: none; color: inherit; text-underline-offset: 0.28em; text-decoration-skip-ink: none }
.said.word-right { text-decoration: underline solid 2px var(--mentioned) }
.said.word-wrong {
  color: var(--wrong);
  font-weight: 600;
  text-decoration: underline wavy 2px var(--wrong);
}
.said .sign { font-size: 0.75em; padding-inline-end: 0.15em }
.said.word-unseen { color: var(--soft); text-decoration: underline dotted 2px var(--soft) }
.explained .verdict { font-weight: 500 }
.explained .verdict b { color: var(--wrong) }
.explained .scores { margin: 0 0 1rem; gap: 0.35rem 0.8rem; max-width: 30rem }
.explained .score .name { font-size: 0.92rem; color: inherit }
.explained .score b { font-size: 0.95rem; text-align: end }
.explained .full { background: var(--ink) }
.regions {
  display: grid;
  grid-template-columns: max-content minmax(0, 1fr);
  gap: 0.3rem 0.9rem;
  margin: 0 0 0.8rem;
}
.regions dt { font-weight: 600; font-size: 0.92rem }
.regions dd { margin: 0; font-size: 0.92rem; overflow-wrap: anywhere }
.line { display: inline-block; width: 1.6rem; vertical-align: 0.25em; margin-inline-end: 0.5rem }
.line.mentioned { border-top: 3px solid var(--mentioned) }
.line.missed { border-top: 3px dashed var(--missed) }
.notes { list-style: none; margin: 0 0 0.8rem; padding: 0 }
.explained details table { width: auto; margin: 0.4rem 0 }
.explained details :is(th, td) {
  padding: 0.15rem 1.2rem 0.15rem 0;
  text-align: start;
  vertical-align: baseline;
}
.explained td { font-variant-numeric: tabular-nums }
:root { --mentioned: #0072b2; --missed: #c78500 }
@media (prefers-color-scheme: dark) {
  :root { --mentioned: #4db5f0; --missed: #e69f00 }
}
@media (max-width: 56rem) {
  .explained { grid-template-columns: minmax(0, 1fr) }
}
@media (max-width: 34rem) {
  .tag { font-size: 0.68rem; line-height: 1.05rem; padding: 0 0.2rem }
}
@media print {
  .tag, .full, .track { print-color-adjust: exact; -webkit-print-color-adjust: exact }
}
"""
