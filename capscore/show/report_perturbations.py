"""A section of the HTML page: what perturbed words do to the scores of two metrics, with examples.

In: drops by language and perturbation, and captions with their perturbed variants, all scored. Out: HTML that
`capscore.show.report.write_html` puts into its page, and the style it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import CapscoreError
from ..perturbations.word_changes import Span
from .report import (
    ReportMetric,
    as_attribute,
    as_text,
    bar_length,
    language_attributes,
    language_name,
    language_names,
    top_of,
)


@dataclass(frozen=True)
class ReportVariant:
    """A perturbed caption and its scores.

    Attributes:
        kind: the perturbation.
        text: the perturbed caption.
        scores: metric's key → score; None or no entry where it has none.
        changed: (start, end) places of the words that were put there, none over another.
    """

    kind: str
    text: str
    scores: Mapping[str, float | None]
    changed: Sequence[Span] = ()


@dataclass(frozen=True)
class ReportPerturbed:
    """A caption as it is, and what perturbations made of it.

    Attributes:
        text: the caption.
        language: BCP 47 tag.
        scores: as of a variant.
        variants: in the order in which the page shows them.
        photo: number of its photo among those of the page, from 0; None for no link.
    """

    text: str
    language: str
    scores: Mapping[str, float | None]
    variants: Sequence[ReportVariant]
    photo: int | None = None


@dataclass(frozen=True)
class ReportPerturbations:
    """The section.

    Attributes:
        title: its heading.
        intro: paragraphs of plain text under it.
        metrics: those that are compared, in this order.
        drops: BCP 47 tag → perturbation → metric's key → change of the mean score, −1 where it falls to 0;
            None where that says nothing. Every language has the same perturbations; "average" is set apart.
        examples: captions with their variants.

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


def render(section: ReportPerturbations, titles: Sequence[str]) -> Iterator[str]:
    """The section as HTML.

    Args:
        section: what it shows.
        titles: of the page's photos, for links to them.
    """
    yield '<section class="overview perturbed" aria-labelledby="perturbed">\n'
    yield f'<h2 id="perturbed">{as_text(section.title)}</h2>\n'
    yield "".join(f"<p>{as_text(paragraph)}</p>\n" for paragraph in section.intro)
    if section.drops:
        yield _drops(section)
    if section.examples:
        scores = [
            part.scores.get(metric.key)
            for example in section.examples
            for part in (example, *example.variants)
            for metric in section.metrics
        ]
        top = top_of(scores)
        yield '<div class="sheets">\n'
        yield from (_example(section, example, top, titles) for example in section.examples)
        yield "</div>\n"
        yield f'<p class="soft">Marked: words that a perturbation put there. Bars reach to {top:g}.</p>\n'
    yield "</section>\n"


def _drops(section: ReportPerturbations) -> str:
    heads = "".join(
        f'<th scope="col"><abbr title="{as_attribute(language_name(tag))}">{as_text(tag)}</abbr></th>'
        for tag in section.drops
    )
    kinds = list(next(iter(section.drops.values())))
    rows = []
    for kind in kinds:
        cells = "".join(
            f"<td>{_bars_left(section.metrics, drops[kind])}</td>" for drops in section.drops.values()
        )
        style = ' class="average"' if kind == "average" else ""
        rows.append(f'<tr{style}><th scope="row">{as_text(kind)}</th>{cells}</tr>\n')
    swatches = "".join(
        f'<span class="swatch {_tone(number)}"></span>{as_text(metric.label)} '
        for number, metric in enumerate(section.metrics)
    )
    return (
        '<div class="sheet drops" role="region" aria-label="Change of the mean score" tabindex="0"><table>\n'
        f'<caption><b>What is left of the score</b> <span class="legend">{swatches}</span></caption>\n'
        f'<thead><tr><th scope="col"><span class="unseen">Perturbation</span></th>{heads}</tr></thead>\n'
        f"<tbody>\n{''.join(rows)}</tbody>\n</table></div>\n"
        '<p class="soft">Bars: the mean score of the perturbed captions, as a share of that of the captions '
        "as they are. Numbers: how far it changes.</p>\n"
    )


def _tone(number: int) -> str:
    """The first metric is the one that is compared with: grey; the next one stands out."""
    return "plain" if number else "before"


def _bars_left(metrics: Sequence[ReportMetric], drops: Mapping[str, float | None]) -> str:
    return "".join(_left(metric, number, drops.get(metric.key)) for number, metric in enumerate(metrics))


def _left(metric: ReportMetric, number: int, drop: float | None) -> str:
    shown = change(drop)
    width = bar_length(None if drop is None else 1 + drop, 1.0)
    return (
        f'<span class="left" title="{as_attribute(metric.label)} {shown}">'
        f'<span class="track" aria-hidden="true"><i class="{_tone(number)}" style="width:{width}"></i></span>'
        f'<span class="unseen">{as_text(metric.label)} </span><b>{shown}</b></span>'
    )


def change(drop: float | None) -> str:
    """A change in percent, as printed.

    >>> change(-0.936), change(0.004), change(0.12), change(None)
    ('−94 %', '0 %', '+12 %', '–')
    """
    if drop is None:
        return "–"
    percent = round(100 * drop)
    return f"{percent:+d} %".replace("-", "−") if percent else "0 %"


def _example(
    section: ReportPerturbations, example: ReportPerturbed, top: float, titles: Sequence[str]
) -> str:
    own, english = language_names(example.language)
    attributes = language_attributes(example.language)
    second = f' <span class="soft">{as_text(english)}</span>' if own != english else ""
    link = ""
    if example.photo is not None:
        link = f' · <a href="#photo-{example.photo}">{as_text(titles[example.photo])}</a>'
    heads = "".join(f'<th scope="col">{as_text(metric.label)}</th>' for metric in section.metrics)
    parts = [ReportVariant("as it is", example.text, example.scores), *example.variants]
    rows = "".join(
        f'<tr><th scope="row">{as_text(part.kind)}</th>'
        f'<td class="said"><span class="text"{attributes}>{_marked(part)}</span></td>'
        + "".join(
            _bar(part.scores.get(metric.key), top, number) for number, metric in enumerate(section.metrics)
        )
        + "</tr>\n"
        for part in parts
    )
    return (
        f'<div class="sheet" role="region" aria-label="{as_attribute(english)}" tabindex="0"><table>\n'
        f"<caption><b{attributes}>{as_text(own)}</b>{second}{link}</caption>\n"
        '<thead><tr><th scope="col"><span class="unseen">Perturbation</span></th>'
        f'<th scope="col"><span class="unseen">Caption</span></th>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody>\n</table></div>\n"
    )


def _bar(score: float | None, top: float, number: int) -> str:
    shown = "–" if score is None else f"{score:.2f}"
    return (
        f'<td class="left"><b>{shown}</b><span class="track" aria-hidden="true">'
        f'<i class="{_tone(number)}" style="width:{bar_length(score, top)}"></i></span></td>'
    )


def _marked(part: ReportVariant) -> str:
    pieces, last = [], 0
    for start, end in part.changed:
        pieces += [as_text(part.text[last:start]), f"<mark>{as_text(part.text[start:end])}</mark>"]
        last = end
    return "".join(pieces) + as_text(part.text[last:])


STYLE = """\
.perturbed > p { max-width: 46rem }
.perturbed .sheet { align-self: start }
.perturbed thead th { white-space: nowrap }
.perturbed td { padding: 0.35rem 0.45rem; vertical-align: top }
.perturbed thead th:first-child, .perturbed tbody th { width: 6.5rem; vertical-align: top }
.perturbed .average > * { font-weight: 650; border-top: 2px solid var(--soft) }
.perturbed span.left { display: grid; grid-template-columns: minmax(1.5rem, 1fr) 3.6rem; gap: 0.4rem }
.perturbed .left { align-items: center; font-size: 0.85rem }
.perturbed .left b { font-weight: inherit; text-align: end; font-variant-numeric: tabular-nums }
.perturbed .track { display: block }
.perturbed td.left { width: 4.6rem; text-align: end }
.perturbed td.said { text-align: start; font-size: 0.92rem }
.perturbed mark { background: var(--chip-half); color: inherit; border-radius: 3px; padding: 0 0.1em }
.before { background: var(--soft) }
.perturbed .drops table { min-width: 34rem }
@media (max-width: 34rem) {
  .perturbed td { padding: 0.3rem 0.2rem }
  .perturbed td.left { width: 2.9rem }
  .perturbed thead th:first-child, .perturbed tbody th { width: 4.6rem; font-size: 0.75rem }
}
"""
