"""Templates and their values → HTML pages that need no other file and load nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import io
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..benchmarks.result_file import ReportedNumber, metric_order
from ..benchmarks.results import benchmark_title, statistic_name
from ..errors import InputError, visible
from ..files.columns import ChunkInputs
from ..images.load import load_image
from ..metrics.loading import metric_title
from ..tables import fixed
from ..text.languages import NAMES
from . import explained
from .explained import Box, ExplainedCaption, ShownRegion

if TYPE_CHECKING:
    from PIL import Image

MAX_SIDE = 1280
"""Longest side in pixels; a larger photo is scaled down for the page."""
_THUMBNAIL = 320  # longest side of a photo of a row, in pixels
_RIGHT_TO_LEFT = frozenset(("Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Syrc", "Thaa"))
# A photo's longer side on the page, and the size of a tag's letters, in CSS pixels
_SHOWN_SIDE, _TAG_LETTER, _TAG_HEIGHT, _TAG_PADDING = 560.0, 12.5, 21.0, 10.0


@cache
def templates_of(folder: Path | None = None) -> Environment:
    """The templates of capscore and, before them, those of a folder."""
    templates = Environment(
        loader=ChoiceLoader([FileSystemLoader(folder or ()), PackageLoader("capscore.show", "templates")]),
        autoescape=True,
        finalize=_printed,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        breakable=breakable,
        in_language=language_attributes,
        language_names=language_names,
        fixed=fixed,
        metric_title=metric_title,
        benchmark_title=benchmark_title,
        statistic_name=statistic_name,
    )
    return templates


def _printed(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return visible(str(value), keep="\n\t")


def render(template: str, **context: object) -> str:
    return templates_of().get_template(template).render(context)


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
    direction = "auto"
    with suppress(langcodes.LanguageTagError):
        script = langcodes.Language.get(tag.replace("_", "-")).maximize().script
        direction = "rtl" if script in _RIGHT_TO_LEFT else "ltr"
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


def picture_of(inputs: ChunkInputs, row: int, side: int = _THUMBNAIL) -> tuple[str, int, int] | None:
    """A row's photo, small; None where it has none that can be read: whoever scored has said so."""
    if inputs.images is None or row in inputs.problems:
        return None
    with suppress(InputError):
        return inline_jpeg(load_image(inputs.images[row]), side)
    return None


def references_of(inputs: ChunkInputs, row: int) -> Sequence[str]:
    if inputs.references is None:
        return ()
    references = inputs.references[row] or ()
    return [references] if isinstance(references, str) else references


# ---- explained captions ----


def explain_page(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    title: str = "",
    signature: str = "",
    beta: float | None = None,
) -> str:
    """A page about captions of a photo: marked words, regions on the photo, and scores."""
    end = explained.bars_end(signature)
    return render(
        "explain_page.html",
        title=title or "A photo and its captions",
        signature=signature,
        beta=beta,
        end=end,
        explained=explained_cards(image, captions, end),
    )


def scores_page(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    title: str = "",
    signature: str = "",
    about: str = "",
) -> str:
    """A page about captions of a photo: their scores, and what the metric says in words."""
    return render(
        "scores_page.html",
        title=title or "A photo and its captions",
        signature=signature,
        photo=inline_jpeg(image, MAX_SIDE),
        captions=captions,
        about=about,
    )


def explained_cards(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    end: float,
    *,
    labels: Sequence[str] = (),
    name: str = "photo",
) -> dict[str, object]:
    """What the macro `cards` of the template explained.html shows: one card per caption of a photo."""
    cards = []
    for caption, label in zip(captions, labels or [""] * len(captions), strict=True):
        regions = caption.explanation["regions"]
        shown, pieces = explained.representatives(regions), []
        for piece in explained.segments(caption):
            if piece.region is not None:
                piece = replace(piece, region=shown[piece.region])
            pieces.append(piece)
        lit = sorted({piece.region for piece in pieces if piece.region is not None})
        drawn = explained.shown_regions(caption.explanation)
        cards.append(
            {
                "caption": caption,
                "label": label,
                "pieces": pieces,
                "near": [(index, _inside(regions[index]["box"], image.size)) for index in lit],
                "verdict": explained.verdict(caption),
                "bars": explained.score_bars(caption, end),
                "regions": drawn,
                "notes": explained.notes(caption),
                "footnotes": explained.footnotes(caption),
                "drawn": _drawn(drawn, image.size),
            }
        )
    n_regions = max(len(caption.explanation["regions"]) for caption in captions)
    photo = {"name": name, "address": inline_jpeg(image, MAX_SIDE)[0], "size": image.size}
    return {"n_regions": n_regions, "photo": photo, "cards": cards}


class _Drawn(NamedTuple):
    """A region with its box in pixels of the photo, and the place of its tag in percent of the photo."""

    region: ShownRegion
    box: Box
    side: str
    across: float
    down: float


def _drawn(regions: Sequence[ShownRegion], size: tuple[int, int]) -> list[_Drawn]:
    """Regions with tags, each at the corner of its box where it covers the least of other tags."""
    width, height = map(float, size)
    pixel = max(width, height) / _SHOWN_SIDE  # a pixel of the screen, in pixels of the photo
    high = _TAG_HEIGHT * pixel
    tags: list[Box] = []
    drawn = []
    for region in regions:
        x0, y0, x1, y1 = box = _inside(region.box, size)
        wide = (_letters(region.tag) * _TAG_LETTER + _TAG_PADDING) * pixel
        places: list[Box] = []
        for x, y in product((x0, x1 - wide), (y0, y0 - high, y1 - high, y1)):
            x, y = max(0.0, min(x, width - wide)), max(0.0, min(y, height - high))
            places.append((x, y, x + wide, y + high))
        tag = min(places, key=lambda place: sum(_overlap(place, other) for other in tags))
        tags.append(tag)
        side, across = "left", tag[0]
        if tag[0] + tag[2] > width:
            side, across = "right", width - tag[2]
        drawn.append(_Drawn(region, box, side, 100 * across / width, 100 * tag[1] / height))
    return drawn


def _letters(text: str) -> float:
    """Width of a text, in widths of a letter that is as wide as high."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return 1.05 * wide + 0.62 * (len(text) - wide)


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
        # of backbones, in millions of parameters
        sizes=[(size, f"up to {size} million") for size in (100, 200, 500, 1000)],
        files=sorted({number.file for number in numbers}),
    )
