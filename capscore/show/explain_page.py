"""A photo and what the scorer says about its captions → an HTML page that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError
from ..files.whole_file import write_text
from .explained import (
    MOST_MISSED,
    Box,
    ExplainedCaption,
    Segment,
    ShownRegion,
    bars_end,
    estimated_width,
    notes,
    photo_text,
    place_tags,
    score_bars,
    segments,
    shown_for,
    shown_regions,
    stage,
    verdict,
    wrong_because,
    wrong_words,
)
from .markup import inline_jpeg, render

if TYPE_CHECKING:
    from PIL import Image

LONGEST_SIDE = 1280
"""Longest side in pixels; a larger photo is scaled down for the page."""

# A photo's longer side on the page and a tag's letters, in CSS pixels: an estimate of what tags cover.
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
    """Write a page about captions of a photo. The file gets its name once it is complete.

    Args:
        path: File to write; an existing one is replaced.
        image: Photo that the regions' boxes refer to.
        captions: At least one caption.
        title: Heading of the page, such as the photo's name.
        signature: Everything that the scores depend on; shown at the foot.
        beta: Threshold of words and regions, for the legend.
        most_missed: Maximum number of missed regions drawn.

    Raises:
        CapscoreError: no caption.
        ResultWriteError: the file cannot be written.

    >>> told = {"words": [], "regions": [], "null": 1.0, "image_size": [9, 9], "n_words_cut": 0}
    >>> scores = {"precision": 1.0, "recall": 2.0, "overall": 3.0}
    >>> caption = ExplainedCaption("a cat", "en", told, scores)
    >>> write_page("cat.html", image, [caption], title="cat.jpg")     # doctest: +SKIP
    PosixPath('cat.html')
    """
    path = Path(path).expanduser()
    write_text(path, page_of(image, captions, title, signature, beta, most_missed), "page")
    return path


def page_of(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    title: str = "",
    signature: str = "",
    beta: float | None = None,
    most_missed: int = MOST_MISSED,
) -> str:
    """The page that `write_page` writes; arguments and errors are the same."""
    end = bars_end(captions)
    return render(
        "explain_page.html",
        title=title or "A photo and its captions",
        signature=signature,
        beta=beta,
        end=end,
        explained=explained_cards(image, captions, end, most_missed=most_missed),
    )


def explained_cards(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    end: float,
    *,
    labels: Sequence[str] = (),
    most_missed: int = MOST_MISSED,
    name: str = "photo",
) -> dict[str, Any]:
    """What the macro `cards` of the template explained.html shows: one card per caption of a photo.

    Args:
        image: Photo that the regions' boxes refer to.
        captions: At least one caption.
        end: End of the bars of precision and recall, from `bars_end`.
        labels: One label per caption, shown beside its language; or none.
        most_missed: Maximum number of missed regions drawn.
        name: Id of the photo's pixels, unique in the page: letters, digits and "-".

    Raises:
        CapscoreError: no caption.
    """
    if not captions:
        raise CapscoreError("there is no caption to show")
    address, _, _ = inline_jpeg(image, LONGEST_SIDE)
    n_regions = max(len(caption.explanation["regions"]) for caption in captions)
    return {
        "n_regions": n_regions,
        "photo": {"name": name, "address": address, "width": image.width, "height": image.height},
        "cards": [
            _card(image.size, caption, label, end, most_missed)
            for caption, label in zip(captions, labels or [""] * len(captions), strict=True)
        ],
    }


def _card(
    size: tuple[int, int], caption: ExplainedCaption, label: str, end: float, most_missed: int
) -> dict[str, Any]:
    regions = shown_regions(caption.explanation, most_missed)
    field = stage(size)
    shown, wrong = shown_for(caption.explanation["regions"]), wrong_words(caption)
    pieces = [
        piece if piece.region is None else replace(piece, region=shown[piece.region])
        for piece in segments(caption)
    ]
    return {
        "language": caption.language,
        "label": label,
        "pieces": pieces,
        "near": _near(pieces, caption.explanation["regions"], size),
        "verdict": verdict(caption),
        "wrong": wrong,
        "wrong_because": wrong_because(wrong),
        "bars": score_bars(caption, end),
        "regions": regions,
        "notes": notes(caption, most_missed),
        "words": caption.explanation["words"],
        "photo_text": photo_text(regions),
        "field": field,
        "drawn": _drawn(regions, size, field),
    }


def _near(pieces: Sequence[Segment], regions: Sequence[Any], size: tuple[int, int]) -> list[dict[str, Any]]:
    """Boxes that light up with the words that are most like them: place of the region, and its box."""
    places = sorted({piece.region for piece in pieces if piece.region is not None})
    edge = max(size) / _SHOWN_SIDE
    boxes = []
    for place in places:
        left, top, right, bottom = map(float, regions[place]["box"])
        boxes.append(_within((left, top, right, bottom), size, 2 * edge))
    return [
        {"place": place, "left": x0, "top": y0, "width": x1 - x0, "height": y1 - y0}
        for place, (x0, y0, x1, y1) in zip(places, boxes, strict=True)
    ]


def _drawn(regions: Sequence[ShownRegion], size: tuple[int, int], field: Box) -> list[dict[str, Any]]:
    """Boxes in pixels of the photo; tags in percent of the field, measured from its nearer side."""
    left, top, width, height = field
    pixel = max(width, height) / _SHOWN_SIDE  # a pixel of the screen, in pixels of the photo
    boxes = [_within(region.box, size, 2 * pixel) for region in regions]
    sizes = [
        ((estimated_width(region.tag) * _TAG_LETTER + _TAG_PADDING) * pixel, _TAG_HEIGHT * pixel)
        for region in regions
    ]
    drawn = []
    for region, box, tag in zip(regions, boxes, place_tags(boxes, sizes, field), strict=True):
        # where the photo is shown smaller, tags cover more of it and grow away from their side
        on_right = tag[0] + tag[2] > 2 * left + width
        drawn.append(
            {
                "place": region.place,
                "kind": "mentioned" if region.mentioned else "missed",
                "left": box[0],
                "top": box[1],
                "width": box[2] - box[0],
                "height": box[3] - box[1],
                "tag": region.tag,
                "tag_side": "right" if on_right else "left",
                "tag_across": 100 * (left + width - tag[2] if on_right else tag[0] - left) / width,
                "tag_down": 100 * (tag[1] - top) / height,
            }
        )
    return drawn


def _within(box: Box, size: tuple[int, int], edge: float) -> Box:
    """The box, moved inwards so that its lines are fully visible at the photo's edges."""
    edge = min(edge, size[0] / 4, size[1] / 4)
    left, right = (min(max(x, edge), size[0] - edge) for x in box[::2])
    top, bottom = (min(max(y, edge), size[1] - edge) for y in box[1::2])
    return left, top, right, bottom
