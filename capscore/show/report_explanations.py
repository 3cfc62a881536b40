"""A section of the HTML page: which words of captions are wrong, and which regions of photos they miss.

In: photos with captions that InfoMetIC has explained. Out: HTML that `capscore.show.report.write_html` puts
into its page, and the style it needs: each caption with its wrong words marked, under the photo with the
regions that it mentions and misses, and its three scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import CapscoreError
from ..images.load import load_image
from .explain_page import STYLE as EXPLAINED_STYLE
from .explain_page import bars_line, cards, legend
from .explained import MOST_MISSED, ExplainedCaption, bars_end
from .report import ReportMetric, as_text


@dataclass(frozen=True)
class ReportExplained:
    """A photo with captions and what the scorer says of them.

    Attributes:
        image: anything `capscore.load_image` takes: the photo that was scored. It is read when the page is
            written.
        title: a few words.
        captions: at least one, as `capscore.show.explained.explained_captions` gives them; two that are
            to be compared stand side by side where there is room.
        labels: what each caption is, such as "right"; none, or as many as there are captions.
        photo: number of the photo among those of the page, from 0; None for no link.

    Raises:
        CapscoreError: no caption, or labels for other than all of them.
    """

    image: Any
    title: str
    captions: Sequence[ExplainedCaption]
    labels: Sequence[str] = ()
    photo: int | None = None

    def __post_init__(self) -> None:
        if not self.captions:
            raise CapscoreError(f"the explained photo {self.title!r} has no caption to show")
        if len(self.labels) not in (0, len(self.captions)):
            raise CapscoreError(
                f"the explained photo {self.title!r} has {len(self.captions)} captions and "
                f"{len(self.labels)} labels: expected one each, or none"
            )


@dataclass(frozen=True)
class ReportExplanations:
    """The section.

    Attributes:
        title: its heading.
        intro: paragraphs of plain text under it; they should say what `metric` is.
        metric: what explained the captions; its label and signature stand at the foot of the page.
        photos: in the order in which the page shows them. The scores' bars have one scale for all.
        beta: the threshold of words and regions, for the legend; None leaves it out.
        most_missed: how many missed regions of a photo are drawn at most.

    >>> told = {"words": [], "regions": [], "null": 1.0, "image_size": [9, 9], "n_words_cut": 0}
    >>> scores = {"precision": 1.0, "recall": 2.0, "overall": 3.0}
    >>> photo = ReportExplained("cat.jpg", "Cat", [ExplainedCaption("a cat", "en", told, scores)])
    >>> metric = ReportMetric("infometic", "InfoMetIC", "infometic|beta:0.1")
    >>> section = ReportExplanations("Words and regions", [], metric, [photo], beta=0.1)
    """

    title: str
    intro: Sequence[str]
    metric: ReportMetric
    photos: Sequence[ReportExplained]
    beta: float | None = None
    most_missed: int = MOST_MISSED


def render(section: ReportExplanations, titles: Sequence[str]) -> Iterator[str]:
    """The section as HTML, a photo at a time.

    Args:
        section: what it shows.
        titles: of the page's photos, for links to them.

    Raises:
        ImageError: a photo that cannot be read.
        CapscoreError: a photo is not of the size that its regions were found in.
    """
    yield '<section class="overview explanations" aria-labelledby="explained">\n'
    yield f'<h2 id="explained">{as_text(section.title)}</h2>\n'
    yield "".join(f"<p>{as_text(paragraph)}</p>\n" for paragraph in section.intro)
    if section.photos:
        end = bars_end([caption for photo in section.photos for caption in photo.captions])
        yield legend(section.beta)
        for number, photo in enumerate(section.photos):
            heading = as_text(photo.title)
            if photo.photo is not None:
                heading += f' · <a href="#photo-{photo.photo}">{as_text(titles[photo.photo])}</a>'
            name = f"explained-{number}"
            yield f'<h3>{heading}</h3>\n<div class="side-by-side">\n'
            yield cards(
                _image(photo),
                photo.captions,
                end,
                labels=photo.labels,
                most_missed=section.most_missed,
                name=name,
            )
            yield "</div>\n"
        yield bars_line(end)
    yield "</section>\n"


def _image(photo: ReportExplained) -> Any:
    image = load_image(photo.image)
    for caption in photo.captions:
        size = tuple(caption.explanation["image_size"])
        if size != image.size:
            raise CapscoreError(
                f"the explained photo {photo.title!r} has {image.width} × {image.height} pixels, but the "
                f"regions of its caption {caption.text!r} are of one with {size[0]} × {size[1]}"
            )
    return image


STYLE = f"""\
{EXPLAINED_STYLE}\
.explanations > p {{ max-width: 46rem }}
.explanations h3 {{ margin: 1.25rem 0 0.6rem; overflow-wrap: anywhere }}
.side-by-side {{
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr));
  gap: 1rem;
}}
.explanations .explained {{ grid-template-columns: minmax(0, 1fr); align-content: start; margin: 0 }}
.explanations figure {{ position: static }}
"""
