"""Templates and their values → HTML pages that need no other file and load nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import io
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..benchmarks.result_file import metric_order
from ..errors import visible
from ..metrics.judge import LOW_MASS
from ..tables import fixed
from ..text.languages import NAMES
from .benchmark_tables import benchmark_title, metric_title, statistic_name
from .explained import (
    Box,
    ExplainedCaption,
    ShownRegion,
    bars_end,
    bars_note,
    notes,
    representatives,
    score_bars,
    segments,
    shown_regions,
    verdict,
    wrong_because,
    wrong_words,
)

if TYPE_CHECKING:
    from PIL import Image

    from ..benchmarks.result_file import ReportedNumber

MAX_SIDE = 1280
"""Longest side in pixels; a larger photo is scaled down for the page."""
_RIGHT_TO_LEFT = frozenset(("Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Syrc", "Thaa"))
# A photo's longer side on the page, and the size of a tag's letters, in CSS pixels
_SHOWN_SIDE, _TAG_LETTER, _TAG_HEIGHT, _TAG_PADDING = 560.0, 12.5, 21.0, 10.0


@cache
def environment(folder: Path | None = None) -> Environment:
    """The templates of capscore and, before them, those of a folder.

    All printed values are escaped, and control characters are shown by their code.
    """
    own = PackageLoader("capscore.show", "templates")
    templates = Environment(
        loader=own if folder is None else ChoiceLoader([FileSystemLoader(folder), own]),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value), keep="\n\t"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {"breakable": breakable, "in_language": language_attributes}
    templates.filters.update(filters, language_names=language_names, fixed=fixed, bars_note=bars_note)
    names = {"metric_title": metric_title, "benchmark_title": benchmark_title}
    templates.filters.update(names, statistic_name=statistic_name)
    return templates


def render(template: str, **context: Any) -> str:
    """Fill one of capscore's own templates."""
    return environment().get_template(template).render(context)


def page_script(name: str) -> tuple[str, str]:
    """A script of a page, and the source that the page's policy names it by."""
    script = files(__package__).joinpath(f"templates/{name}").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    return script, f"sha256-{digest}"


def breakable(signature: str) -> Markup:
    """A signature that may be broken into lines after each of its settings."""
    return Markup("|<wbr>").join(visible(part, keep="\n\t") for part in signature.split("|"))


def language_names(tag: str) -> tuple[str, str]:
    """The name of a language in itself and in English; the tag where the language has no known name."""
    if not tag:
        return "Language not stated", "Language not stated"
    primary, _, rest = tag.replace("_", "-").partition("-")
    own, english = NAMES.get(primary.lower(), (tag, tag))
    if rest and own != tag:
        own, english = f"{own} ({rest})", f"{english} ({rest})"
    return own, english


@cache
def language_attributes(tag: str) -> Markup:
    """The attributes ` lang="ar" dir="rtl"` of an element in that language; the text decides without one."""
    import langcodes

    if not tag:
        return Markup(' dir="auto"')
    try:
        script = langcodes.Language.get(tag.replace("_", "-")).maximize().script
        direction = "rtl" if script in _RIGHT_TO_LEFT else "ltr"
    except langcodes.LanguageTagError:
        direction = "auto"
    return Markup(' lang="{}" dir="{}"').format(visible(tag.replace("_", "-")), direction)


def inline_jpeg(image: Image.Image, max_side: int) -> tuple[str, int, int]:
    """A photo, scaled down to `max_side` pixels, as the `data:` address of a JPEG; its width and height."""
    from PIL import Image as PIL_Image

    small = image.convert("RGB")
    small.thumbnail((max_side, max_side), PIL_Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=85, optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/jpeg;base64,{data}", *small.size


# ---- explained captions ----


def explain_page(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    title: str = "",
    signature: str = "",
    beta: float | None = None,
) -> str:
    """A page about captions of a photo: marked words, regions on the photo, and scores.

    Args:
        image: Photo that the regions' boxes refer to.
        captions: At least one caption.
        title: Heading of the page, such as the photo's name.
        signature: Everything that the scores depend on; shown at the foot.
        beta: Threshold of words and regions, for the legend; None with a mark calibration.
    """
    end = bars_end(signature)
    return render(
        "explain_page.html",
        title=title or "A photo and its captions",
        signature=signature,
        beta=beta,
        end=end,
        explained=explained_cards(image, captions, end),
    )


def judge_page(
    image: Image.Image, captions: Sequence[ExplainedCaption], title: str = "", signature: str = ""
) -> str:
    """A page about captions of a photo: their scores by a judge, and its reasons; arguments as before."""
    return render(
        "judge_page.html",
        title=title or "A photo and its captions",
        signature=signature,
        photo=inline_jpeg(image, MAX_SIDE),
        captions=captions,
        low_mass=LOW_MASS,
    )


def explained_cards(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    end: float,
    *,
    labels: Sequence[str] = (),
    name: str = "photo",
) -> dict[str, Any]:
    """What the macro `cards` of the template explained.html shows: one card per caption of a photo.

    Args:
        image: Photo that the regions' boxes refer to.
        captions: At least one caption.
        end: End of the bars of precision and recall, from `bars_end`.
        labels: One label per caption, shown beside its language; or none.
        name: Id of the photo's pixels, unique in the page: letters, digits and "-".
    """
    cards = []
    for caption, label in zip(captions, labels or [""] * len(captions), strict=True):
        regions = caption.explanation["regions"]
        shown, drawn = representatives(regions), shown_regions(caption.explanation)
        pieces = [
            piece if piece.region is None else replace(piece, region=shown[piece.region])
            for piece in segments(caption)
        ]
        wrong = wrong_words(caption)
        lit = sorted({piece.region for piece in pieces if piece.region is not None})
        cards.append(
            {
                "caption": caption,
                "label": label,
                "pieces": pieces,
                "near": [(index, _inside(regions[index]["box"], image.size)) for index in lit],
                "verdict": verdict(caption),
                "wrong": wrong,
                "wrong_because": wrong_because(wrong),
                "bars": score_bars(caption, end),
                "regions": drawn,
                "notes": notes(caption),
                "drawn": _drawn(drawn, image.size),
            }
        )
    n_regions = max(len(caption.explanation["regions"]) for caption in captions)
    photo = {"name": name, "address": inline_jpeg(image, MAX_SIDE)[0], "size": image.size}
    return {"n_regions": n_regions, "photo": photo, "cards": cards}


def _drawn(regions: Sequence[ShownRegion], size: tuple[int, int]) -> list[dict[str, Any]]:
    """Regions with their boxes in pixels of the photo, and places of their tags in percent of it.

    A tag is at the corner of its box where it covers the least of other tags. It is measured from its nearer
    side, since tags cover more of a photo that is shown smaller.
    """
    width, height = map(float, size)
    pixel = max(width, height) / _SHOWN_SIDE  # a pixel of the screen, in pixels of the photo
    tags: list[Box] = []
    drawn = []
    for region in regions:
        x0, y0, x1, y1 = box = _inside(region.box, size)
        letters = sum(1.05 if unicodedata.east_asian_width(item) in "WF" else 0.62 for item in region.tag)
        wide, high = (letters * _TAG_LETTER + _TAG_PADDING) * pixel, _TAG_HEIGHT * pixel
        corners = [
            (max(0.0, min(x, width - wide)), max(0.0, min(y, height - high)))
            for x in (x0, x1 - wide)
            for y in (y0, y0 - high, y1 - high, y1)
        ]
        places = [(x, y, x + wide, y + high) for x, y in corners]
        tag = min(places, key=lambda place: sum(_overlap(place, other) for other in tags))
        tags.append(tag)
        on_right = tag[0] + tag[2] > width
        across = width - tag[2] if on_right else tag[0]
        drawn.append(
            {
                "region": region,
                "box": box,
                "side": "right" if on_right else "left",
                "across": 100 * across / width,
                "down": 100 * tag[1] / height,
            }
        )
    return drawn


def _overlap(first: Box, second: Box) -> float:
    across = min(first[2], second[2]) - max(first[0], second[0])
    return max(across, 0) * max(min(first[3], second[3]) - max(first[1], second[1]), 0)


def _inside(box: Box, size: tuple[int, int]) -> Box:
    """The box, moved inwards so that its lines are fully visible at the photo's edges."""
    edge = min(2 * max(size) / _SHOWN_SIDE, size[0] / 4, size[1] / 4)
    left, right = (min(max(float(x), edge), size[0] - edge) for x in box[::2])
    top, bottom = (min(max(float(y), edge), size[1] - edge) for y in box[1::2])
    return left, top, right, bottom


# ---- the leaderboard ----


def leaderboard_page(numbers: Sequence[ReportedNumber], title: str) -> str:
    """A page of results: one row per number, filters above, a table that its headings sort."""
    script, digest = page_script("table.js")
    titles: dict[str, Callable[[str], str]] = {
        "benchmark": benchmark_title,
        "language": lambda tag: language_names(tag)[1],
        "metric": metric_title,
        "licence": str,
    }
    choices = {}
    for name, title_of in titles.items():
        values = {getattr(number, name) for number in numbers} - {""}
        ordered = sorted(values, key=lambda value: (metric_order(value)[0], title_of(value).casefold()))
        choices[name] = [(value, title_of(value)) for value in ordered]
    return render(
        "leaderboard.html",
        title=title,
        script=script,
        script_hash=digest,
        numbers=numbers,
        choices=choices,
        sizes=(100, 200, 500, 1000),  # of backbones, in millions of parameters
        files=sorted({number.file for number in numbers}),
    )
