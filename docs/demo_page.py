"""Photos with scored, perturbed and explained captions → the demo's HTML page, which needs no other file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capscore.errors import CapscoreError
from capscore.files.whole_file import whole_file
from capscore.images.load import load_image
from capscore.perturbations.words import Span
from capscore.show.explained import MAX_MISSED, ExplainedCaption, bars_end
from capscore.show.pages import environment, explained_cards, inline_jpeg

TEMPLATES = Path(__file__).resolve().parent / "templates"
THUMBNAIL_SIDE = 640

# mark → symbol, label; from best to worst
MARKS = {"right": ("✓", "right"), "half": ("~", "half right"), "wrong": ("✗", "wrong")}


@dataclass(frozen=True)
class ReportMetric:
    """A metric whose scores the page shows.

    Attributes:
        key: Name in `ReportCaption.scores`, such as "mcs".
        label: Name on the page, such as "MCS".
        signature: Everything that its numbers depend on.
        explanation: Description of what it compares, and its range.
    """

    key: str
    label: str
    signature: str
    explanation: str = ""


@dataclass(frozen=True)
class ReportCaption:
    """A caption and its scores.

    Attributes:
        text: The caption.
        language: BCP 47 tag; "" if not known.
        scores: Metric's key → score; None, NaN or no entry where there is no score.
        mark: "right", "half", "wrong", or "" if nobody has judged it.
        problem: Why it was not scored; "" if it was.
    """

    text: str
    language: str = ""
    scores: Mapping[str, float | None] = field(default_factory=dict)
    mark: str = ""
    problem: str = ""

    def __post_init__(self) -> None:
        if self.mark and self.mark not in MARKS:
            raise CapscoreError(f"mark={self.mark!r}: expected one of {', '.join(MARKS)}, or '' for none")

    def score(self, metric: str) -> float | None:
        """The score of a metric; None where it is missing or NaN."""
        score = self.scores.get(metric)
        return None if score is None or math.isnan(score) else float(score)


@dataclass(frozen=True)
class ReportPhoto:
    """A photo with its captions.

    Attributes:
        image: Anything that `capscore.load_image` takes; None where there is no picture to show.
        title: A few words.
        captions: Captions in the order of the page; those in one language are shown together.
        references: BCP 47 tag → reference captions.
        alt: Description of the photo for those who cannot see it; "" repeats its title.
        credit: Author and terms of use.
    """

    image: Any
    title: str
    captions: Sequence[ReportCaption]
    references: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alt: str = ""
    credit: str = ""


@dataclass(frozen=True)
class ReportVariant:
    """A perturbed caption and its scores.

    Attributes:
        kind: The perturbation.
        text: The perturbed caption.
        scores: Metric's key → score; None or no entry where there is no score.
        changed: Places (start, end) of the words that the perturbation inserted; they don't overlap.
    """

    kind: str
    text: str
    scores: Mapping[str, float | None]
    changed: Sequence[Span] = ()

    def pieces(self) -> list[tuple[str, bool]]:
        """The text in pieces, each with whether the perturbation inserted it."""
        pieces, last = [], 0
        for start, end in self.changed:
            pieces += [(self.text[last:start], False), (self.text[start:end], True)]
            last = end
        return [*pieces, (self.text[last:], False)]


@dataclass(frozen=True)
class ReportPerturbed:
    """A caption with its perturbed variants.

    Attributes:
        text: The caption.
        language: BCP 47 tag.
        scores: Scores of the caption, as in a variant.
        variants: Variants in the order of the page.
        photo: 0-based number of its photo on the page; None for no link.
    """

    text: str
    language: str
    scores: Mapping[str, float | None]
    variants: Sequence[ReportVariant]
    photo: int | None = None

    def rows(self) -> list[ReportVariant]:
        """The caption as it is, and its variants."""
        return [ReportVariant("as it is", self.text, self.scores), *self.variants]


@dataclass(frozen=True)
class ReportPerturbations:
    """The section about what perturbed words do to the scores of two metrics.

    Attributes:
        title: Heading.
        intro: Paragraphs of plain text under it.
        metrics: Compared metrics, the baseline first.
        drops: BCP 47 tag → perturbation → metric's key → change of the mean score, −1 where it falls to 0;
            None where it is undefined. Every language has the same perturbations; "average" is set apart.
        examples: Captions with their variants.

    Raises:
        CapscoreError: languages with different perturbations.
    """

    title: str
    intro: Sequence[str]
    metrics: Sequence[ReportMetric]
    drops: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    examples: Sequence[ReportPerturbed] = ()

    def __post_init__(self) -> None:
        kinds = {tuple(drops) for drops in self.drops.values()}
        if len(kinds) > 1:
            raise CapscoreError(f"drops: expected the same perturbations in every language, got {kinds}")

    def top(self) -> float:
        """Score at which the bars of the examples end."""
        return top_of(
            row.scores.get(metric.key)
            for example in self.examples
            for row in example.rows()
            for metric in self.metrics
        )


@dataclass(frozen=True)
class ReportExplained:
    """A photo with captions that InfoMetIC has explained.

    Attributes:
        image: Anything that `capscore.load_image` takes: the photo that was scored.
        title: A few words.
        captions: At least one, from `explained_captions`; two captions are shown side by side where there is
            room.
        labels: A label for each caption, such as "right"; or none.
        photo: 0-based number of the photo on the page; None for no link.

    Raises:
        CapscoreError: no caption, or a number of labels that differs from the number of captions.
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

    def checked_image(self) -> Any:
        """The photo; an error if its size is not the one in which its regions were found."""
        image = load_image(self.image)
        for caption in self.captions:
            size = tuple(caption.explanation["image_size"])
            if size != image.size:
                raise CapscoreError(
                    f"the explained photo {self.title!r} has {image.width} × {image.height} pixels, but the "
                    f"regions of its caption {caption.text!r} were found in {size[0]} × {size[1]} pixels"
                )
        return image


@dataclass(frozen=True)
class ReportExplanations:
    """The section about which words of captions are wrong, and which regions of photos they miss.

    Attributes:
        title: Heading.
        intro: Paragraphs of plain text under it; they should say what `metric` is.
        metric: Scorer of the captions; its label and signature are at the foot of the page.
        photos: Photos in the order of the page. All score bars have one scale.
        beta: Threshold of words and regions, for the legend; None leaves it out.
        most_missed: Maximum number of missed regions drawn on a photo.
    """

    title: str
    intro: Sequence[str]
    metric: ReportMetric
    photos: Sequence[ReportExplained]
    beta: float | None = None
    most_missed: int = MAX_MISSED


def write_html(
    path: str | Path,
    *,
    title: str,
    intro: Sequence[str],
    photos: Sequence[ReportPhoto],
    metrics: Sequence[ReportMetric],
    facts: Sequence[tuple[str, str]] = (),
    perturbations: ReportPerturbations | None = None,
    explanations: ReportExplanations | None = None,
    reproduce: str = "",
    closing: Sequence[str] = (),
) -> Path:
    """Write the page. The file gets its name once it is complete.

    Args:
        path: File to write; an existing one is replaced.
        title: Heading of the page.
        intro: Paragraphs of plain text under the heading.
        photos: Photos, one card each.
        metrics: Metrics whose scores are shown, in this order.
        facts: Pairs (number, what it counts), shown large, such as ("0.81", "mean MCS of 500 captions").
        perturbations: Section about what perturbed words do to scores.
        explanations: Section about wrong words and missed regions.
        reproduce: Commands that make the same page again.
        closing: Paragraphs of plain text at the foot.

    Raises:
        ImageError: a photo cannot be read.
        CapscoreError: an explained photo does not have the size in which its regions were found.
        ResultWriteError: the file could not be written; what was there before is unchanged.

    >>> metric = ReportMetric("mcs", "MCS", "mcs|backbone:embedded@w00000000|w:2.5")
    >>> photo = ReportPhoto("cat.jpg", "Cat", [ReportCaption("a cat", "en", {"mcs": 0.9})])
    >>> write_html("report.html", title="Cats", intro=[], photos=[photo], metrics=[metric])  # doctest: +SKIP
    PosixPath('report.html')
    """
    captions = [caption for photo in photos for caption in photo.captions]
    tags = [
        *(caption.language for caption in captions),
        *(tag for photo in photos for tag in photo.references),
    ]
    shown = [_shown(photo, metrics) for photo in photos]
    blocks = [block for photo in shown for block in photo["blocks"].values()]
    signatures: dict[str, dict[str, None]] = {}  # captions in other languages have another signature
    compared = perturbations.metrics if perturbations else ()
    for metric in (*metrics, *compared, *([explanations.metric] if explanations else ())):
        signatures.setdefault(metric.label, {})[metric.signature] = None
    templates = environment(TEMPLATES)
    templates.filters.update(bar_length=bar_length, change=change_in_percent)
    page = templates.get_template("demo_page.html").generate(
        title=title,
        intro=intro,
        photos=shown,
        metrics=metrics,
        facts=facts,
        perturbations=perturbations,
        explanations=explanations,
        explained=_explained(explanations) if explanations and explanations.photos else None,
        reproduce=reproduce,
        closing=closing,
        languages=list(dict.fromkeys(tags)),
        marks=[mark for mark in MARKS if any(caption.mark == mark for caption in captions)],
        looks=MARKS,
        tops={metric.key: top_of(each.score(metric.key) for each in captions) for metric in metrics},
        misordered=any(True in flags for block in blocks for flags in block["flags"].values()),
        signatures=signatures,
    )
    path = Path(path).expanduser()
    with whole_file(path, "report") as file:
        for part in page:
            file.write(part.encode("utf-8"))
    return path


def _shown(photo: ReportPhoto, metrics: Sequence[ReportMetric]) -> dict[str, Any]:
    blocks = {}
    for tag in dict.fromkeys([*(caption.language for caption in photo.captions), *photo.references]):
        captions = [caption for caption in photo.captions if caption.language == tag]
        blocks[tag] = {
            "captions": captions,
            "flags": {metric.key: out_of_order(captions, metric.key) for metric in metrics},
            "references": photo.references.get(tag, ()),
        }
    picture = None
    if photo.image is not None:
        address, width, height = inline_jpeg(load_image(photo.image), THUMBNAIL_SIDE)
        picture = {"address": address, "width": width, "height": height, "alt": photo.alt or photo.title}
    return {"title": photo.title, "credit": photo.credit, "picture": picture, "blocks": blocks}


def _explained(section: ReportExplanations) -> dict[str, Any]:
    end = bars_end([caption for photo in section.photos for caption in photo.captions])
    photos = [
        {
            "title": photo.title,
            "photo": photo.photo,
            "explained": explained_cards(
                photo.checked_image(),
                photo.captions,
                end,
                labels=photo.labels,
                max_missed=section.most_missed,
                name=f"explained-{number}",
            ),
        }
        for number, photo in enumerate(section.photos)
    ]
    languages = [card["caption"].language for photo in photos for card in photo["explained"]["cards"]]
    n_regions = max(photo["explained"]["n_regions"] for photo in photos)
    return {
        "end": end,
        "photos": photos,
        "languages": list(dict.fromkeys(languages)),
        "n_regions": n_regions,
    }


def out_of_order(captions: Sequence[ReportCaption], metric: str) -> list[bool]:
    """For captions of one photo in one language: True where one scores above a caption with a better mark.

    >>> marks = {"right": 0.9, "half": 1.1, "wrong": 0.9}
    >>> out_of_order([ReportCaption("", scores={"mcs": s}, mark=m) for m, s in marks.items()], "mcs")
    [False, True, False]
    """
    ranks = {mark: rank for rank, mark in enumerate(MARKS)}
    judged = [
        (ranks[caption.mark], score)
        for caption in captions
        if caption.mark and (score := caption.score(metric)) is not None
    ]
    flags = []
    for caption in captions:
        score, rank = caption.score(metric), ranks.get(caption.mark, -1)
        flags.append(score is not None and any(better < rank and score > other for better, other in judged))
    return flags


def top_of(scores: Iterable[float | None]) -> float:
    """The score at which bars end: the highest one, rounded up to a tenth, and at least 0.1.

    >>> top_of([0.42, None]), top_of([])
    (0.5, 0.1)
    """
    highest = max((score for score in scores if score is not None), default=0.0)
    return max(math.ceil(highest * 10 - 1e-9) / 10, 0.1)


def change_in_percent(change: float | None) -> str:
    """A relative change as printed; "–" where it is undefined.

    >>> change_in_percent(-0.936), change_in_percent(0.004), change_in_percent(0.12), change_in_percent(None)
    ('−94 %', '0 %', '+12 %', '–')
    """
    if change is None:
        return "–"
    percent = round(100 * change)
    return f"{percent:+d} %".replace("-", "−") if percent else "0 %"


def bar_length(score: float | None, top: float) -> str:
    """The length of a bar that is full at `top`; a missing or negative score has no length.

    >>> bar_length(0.5, 2.0), bar_length(None, 2.0), bar_length(3.0, 2.0)
    ('25.0%', '0.0%', '100.0%')
    """
    share = 0.0 if score is None else min(max(score / top, 0.0), 1.0)
    return f"{100 * share:.1f}%"
