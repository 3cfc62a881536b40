"""One self-contained HTML page: photos, their captions in every language, and what the metrics gave them.

In: photos with scored captions, and a few words about them. Out: a file that needs nothing but itself. The
photos are in it, it runs no script, and it asks no network for anything.
"""

from __future__ import annotations

import base64
import html
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError
from ..files.whole_file import whole_file
from ..text.languages import NAMES

if TYPE_CHECKING:
    from .report_explanations import ReportExplanations
    from .report_perturbations import ReportPerturbations

THUMBNAIL_SIDE = 640
JPEG_QUALITY = 85

# mark → symbol, label; from best to worst
MARKS = {"right": ("✓", "right"), "half": ("~", "half right"), "wrong": ("✗", "wrong")}
RIGHT_TO_LEFT = frozenset(("Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Syrc", "Thaa"))


@dataclass(frozen=True)
class ReportMetric:
    """A metric whose scores the page shows.

    Attributes:
        key: what `ReportCaption.scores` calls it, such as "mcs".
        label: what the page calls it, such as "MCS".
        signature: everything its numbers depend on.
        explanation: a sentence on what it looks at and what its range is.
    """

    key: str
    label: str
    signature: str
    explanation: str = ""


@dataclass(frozen=True)
class ReportCaption:
    """A caption and its scores.

    Attributes:
        text: the caption.
        language: BCP 47 tag; "" if not known.
        scores: metric's key → score; None, NaN or no entry where it has none.
        mark: "right", "half", "wrong", or "" if nobody has judged it.
        problem: why it was not scored; "" if it was.
    """

    text: str
    language: str = ""
    scores: Mapping[str, float | None] = field(default_factory=dict)
    mark: str = ""
    problem: str = ""

    def __post_init__(self) -> None:
        if self.mark and self.mark not in MARKS:
            raise CapscoreError(f"mark={self.mark!r}: expected one of {', '.join(MARKS)}, or '' for none")


@dataclass(frozen=True)
class ReportPhoto:
    """A photo with its captions.

    Attributes:
        image: anything `capscore.load_image` takes; None where there is no picture to show. It is read when
            the page is written, so that a long list of paths costs no memory.
        title: a few words.
        captions: in the order in which the page shows them; those in one language stand together.
        references: BCP 47 tag → reference captions.
        alt: what the photo shows, for those who cannot see it; "" says only its title.
        credit: who made it and under which terms.
    """

    image: Any
    title: str
    captions: Sequence[ReportCaption]
    references: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alt: str = ""
    credit: str = ""


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
) -> Path:
    """Write the page; the file gets its name only once it is whole.

    Args:
        path: the file; what is there already is replaced.
        title: heading of the page.
        intro: paragraphs of plain text under the heading.
        photos: one card each.
        metrics: whose scores to show, in this order.
        facts: (number, what it counts), shown large, such as ("0.81", "mean MCS of 500 captions").
        perturbations: a section on what perturbed words do to scores.
        explanations: a section on which words of captions are wrong, and which regions of photos they miss.
        reproduce: commands that give the same page again.

    Returns:
        The path.

    Raises:
        ImageError: a photo that cannot be read.
        CapscoreError: an explained photo is not of the size that its regions were found in.
        ResultWriteError: the file could not be written; what was there before is whole.

    >>> metric = ReportMetric("mcs", "MCS", "mcs|backbone:embedded@w00000000|w:2.5")
    >>> photo = ReportPhoto("cat.jpg", "Cat", [ReportCaption("a cat", "en", {"mcs": 0.9})])
    >>> write_html("report.html", title="Cats", intro=[], photos=[photo], metrics=[metric])  # doctest: +SKIP
    PosixPath('report.html')
    """
    page = _Page(photos, metrics, perturbations, explanations)
    path = Path(path).expanduser()
    with whole_file(path, "report") as file:
        for part in page.render(title, intro, facts, reproduce):
            file.write(part.encode("utf-8"))
    return path


def out_of_order(captions: Sequence[ReportCaption], metric: str) -> list[bool]:
    """For captions of one photo in one language: True where one scores above a caption with a better mark.

    >>> marks = {"right": 0.9, "half": 1.1, "wrong": 0.9}
    >>> out_of_order([ReportCaption("", scores={"mcs": s}, mark=m) for m, s in marks.items()], "mcs")
    [False, True, False]
    """
    rank = {mark: place for place, mark in enumerate(MARKS)}
    scored = [
        (rank[caption.mark], score)
        for caption in captions
        if caption.mark and (score := _score(caption, metric)) is not None
    ]
    flags = []
    for caption in captions:
        score, place = _score(caption, metric), rank.get(caption.mark, -1)
        flags.append(score is not None and any(better < place and score > other for better, other in scored))
    return flags


# --------------------------------------------------------------------------- the page


class _Page:
    """Renders the page part by part, so that no more than one photo is in memory."""

    def __init__(
        self,
        photos: Sequence[ReportPhoto],
        metrics: Sequence[ReportMetric],
        perturbations: ReportPerturbations | None,
        explanations: ReportExplanations | None,
    ):
        self.photos, self.metrics = photos, metrics
        self.perturbations, self.explanations = perturbations, explanations
        captions = [caption for photo in photos for caption in photo.captions]
        tags = [*(caption.language for caption in captions), *(tag for p in photos for tag in p.references)]
        self.languages = list(dict.fromkeys(tags))
        self.marks = [mark for mark in MARKS if any(caption.mark == mark for caption in captions)]
        self.tops = {metric.key: _top(captions, metric.key) for metric in metrics}
        self.misordered = any(
            any(out_of_order(group, metric.key))
            for photo in photos
            for group in _by_language(photo.captions).values()
            for metric in metrics
        )

    def render(
        self, title: str, intro: Sequence[str], facts: Sequence[tuple[str, str]], reproduce: str
    ) -> Iterator[str]:
        yield self._head(title)
        yield '<header class="top">\n'
        yield f"<h1>{as_text(title)}</h1>\n"
        yield "".join(f"<p>{as_text(paragraph)}</p>\n" for paragraph in intro)
        yield self._facts(facts)
        yield "</header>\n"
        if self.marks:
            yield self._overview()
        if self.perturbations is not None:
            from .report_perturbations import render

            yield from render(self.perturbations, [photo.title for photo in self.photos])
        if self.explanations is not None:
            from .report_explanations import render

            yield from render(self.explanations, [photo.title for photo in self.photos])
        yield self._filter()
        yield "<main>\n" + self._legend()
        for number, photo in enumerate(self.photos):
            yield self._card(number, photo)
        yield "</main>\n"
        yield self._foot(reproduce)
        yield "</body>\n</html>\n"

    def _head(self, title: str) -> str:
        # The policy forbids what the page does without anyway: nothing is ever loaded or run.
        policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
        filters = "".join(
            f"body:has(#language-{number}:checked) main :is(.card,.block):not(.l{number}){{display:none}}\n"
            for number in range(len(self.languages))
        )
        style = STYLE
        if self.perturbations is not None:
            from .report_perturbations import STYLE as more

            style += more
        if self.explanations is not None:
            from .report_explanations import STYLE as more

            style += more
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{as_attribute(title)}</title>\n<style>\n{style}{filters}</style>\n</head>\n<body>\n"
        )

    def _facts(self, facts: Sequence[tuple[str, str]]) -> str:
        if not facts:
            return ""
        tiles = "".join(
            f"<div><dt>{as_text(counted)}</dt><dd>{as_text(number)}</dd></div>\n" for number, counted in facts
        )
        return f'<dl class="facts">\n{tiles}</dl>\n'

    def _overview(self) -> str:
        """A table per metric: photos by languages, each cell its captions' scores as small bars."""
        tables = []
        for metric in self.metrics:
            heads = "".join(
                f'<th scope="col"><abbr title="{as_attribute(language_name(tag))}">'
                f"{as_text(tag or '?')}</abbr></th>"
                for tag in self.languages
            )
            rows = []
            for number, photo in enumerate(self.photos):
                groups = _by_language(photo.captions)
                cells = "".join(
                    f"<td>{self._cell(groups.get(tag, []), metric)}</td>" for tag in self.languages
                )
                link = f'<a href="#photo-{number}">{as_text(photo.title)}</a>'
                rows.append(f'<tr><th scope="row">{link}</th>{cells}</tr>\n')
            tables.append(
                f'<div class="sheet" role="region" aria-label="{as_attribute(metric.label)}" tabindex="0">\n'
                "<table>\n"
                f"<caption><b>{as_text(metric.label)}</b> "
                f"{as_text(metric.explanation)}</caption>\n"
                f'<thead><tr><th scope="col"><span class="unseen">Photo</span></th>{heads}</tr></thead>\n'
                f"<tbody>\n{''.join(rows)}</tbody>\n</table></div>\n"
            )
        note = ", ".join(MARKS[mark][1] for mark in self.marks)
        swatches = "".join(
            f'<span class="swatch {mark}"></span>{MARKS[mark][0]} {MARKS[mark][1]} ' for mark in self.marks
        )
        flag = (
            f" {_FLAG} marks a cell in which a caption scores above a better one." if self.misordered else ""
        )
        return (
            '<section class="overview" aria-labelledby="at-a-glance">\n'
            '<h2 id="at-a-glance">At a glance</h2>\n'
            f'<p class="legend">{swatches}</p>\n<div class="sheets">\n{"".join(tables)}</div>\n'
            f'<p class="soft">In every cell, from the left: {note}. The higher the bar, the higher the score.'
            f"{flag}</p>\n</section>\n"
        )

    def _cell(self, captions: Sequence[ReportCaption], metric: ReportMetric) -> str:
        bars, spoken = [], []
        for caption in captions:
            if not caption.mark:
                continue
            score = _score(caption, metric.key)
            shown = "no score" if score is None else f"{score:.2f}"
            spoken.append(f"{MARKS[caption.mark][1]} {shown}")
            height = bar_length(score, self.tops[metric.key])
            bars.append(f'<i class="{caption.mark}" style="height:{height}"></i>')
        if not bars:
            return ""
        words = ", ".join(spoken)
        flag = ""
        if any(out_of_order(captions, metric.key)):
            flag = f'<span class="flag">{_FLAG}</span>'
            words += "; a caption scores above a better one"
        return (
            f'<span class="minis" title="{words}" aria-hidden="true">{"".join(bars)}</span>{flag}'
            f'<span class="unseen">{words}</span>'
        )

    def _filter(self) -> str:
        if len(self.languages) < 2:
            return ""
        choices = [("all", "All languages", "", "")]
        for number, tag in enumerate(self.languages):
            own, english = language_names(tag)
            choices.append((str(number), own, language_attributes(tag), "" if own == english else english))
        buttons = "".join(
            f'<label><input type="radio" name="language" id="language-{key}"'
            f"{' checked' if key == 'all' else ''}><span>"
            f"<span{attributes}>{as_text(own)}</span>"
            f"{f'<span class=unseen> ({as_text(english)})</span>' if english else ''}</span></label>\n"
            for key, own, attributes, english in choices
        )
        return (
            '<form class="filter" autocomplete="off"><fieldset>\n'
            f'<legend class="unseen">Show captions in</legend>\n{buttons}</fieldset></form>\n'
        )

    def _legend(self) -> str:
        scales = "; ".join(
            f"{as_text(metric.label)} from 0 to {self.tops[metric.key]:g}" for metric in self.metrics
        )
        flag = (
            f" {_FLAG} after a number: the caption scores above a better one, so the metric put these two in "
            "the wrong order."
            if self.misordered
            else ""
        )
        return f'<p class="soft scale">Length of the bars: {scales}.{flag}</p>\n' if self.metrics else ""

    def _card(self, number: int, photo: ReportPhoto) -> str:
        groups = _by_language(photo.captions)
        for tag in photo.references:
            groups.setdefault(tag, [])
        classes = " ".join(f"l{self.languages.index(tag)}" for tag in groups)
        blocks = "".join(self._block(tag, group, photo) for tag, group in groups.items())
        credit = f'<span class="soft">{as_text(photo.credit)}</span>' if photo.credit else ""
        return (
            f'<article class="card {classes}" id="photo-{number}" aria-labelledby="title-{number}">\n'
            f"<figure>{_picture(photo)}"
            f'<figcaption><h2 id="title-{number}">{as_text(photo.title)}</h2>{credit}</figcaption></figure>\n'
            f'<div class="blocks">\n{blocks}</div>\n</article>\n'
        )

    def _block(self, tag: str, captions: Sequence[ReportCaption], photo: ReportPhoto) -> str:
        own, english = language_names(tag)
        attributes = language_attributes(tag)
        second = f' <span class="soft">{as_text(english)}</span>' if own != english else ""
        flags = {metric.key: out_of_order(captions, metric.key) for metric in self.metrics}
        rows = "".join(
            self._caption(caption, attributes, {key: flag[place] for key, flag in flags.items()})
            for place, caption in enumerate(captions)
        )
        references = ""
        if photo.references.get(tag):
            items = "".join(f"<li{attributes}>{as_text(text)}</li>" for text in photo.references[tag])
            count = len(photo.references[tag])
            references = (
                f"<details><summary>{count} reference{'s' if count > 1 else ''}</summary>"
                f'<ul role="list">{items}</ul></details>\n'
            )
        return (
            f'<section class="block l{self.languages.index(tag)}">\n'
            f"<h3><span{attributes}>{as_text(own)}</span>{second}</h3>\n"
            f'<ul class="captions" role="list">\n{rows}</ul>\n{references}</section>\n'
        )

    def _caption(self, caption: ReportCaption, attributes: str, flags: Mapping[str, bool]) -> str:
        mark = ""
        if caption.mark:
            symbol, label = MARKS[caption.mark]
            mark = (
                f'<span class="mark {caption.mark}"><span aria-hidden="true">{symbol}</span> {label}</span>'
            )
        bars = "".join(self._bar(caption, metric, flags[metric.key]) for metric in self.metrics)
        problem = f'<p class="problem">Not scored: {as_text(caption.problem)}</p>' if caption.problem else ""
        return (
            f'<li>{mark}<p class="text"{attributes}>{as_text(caption.text)}</p>'
            f'<div class="scores">{bars}</div>{problem}</li>\n'
        )

    def _bar(self, caption: ReportCaption, metric: ReportMetric, flagged: bool) -> str:
        score = _score(caption, metric.key)
        shown = "no score" if score is None else f"{score:.3f}"
        flag = (
            ' <span class="flag" title="scores above a better caption">'
            f'<span aria-hidden="true">{_FLAG}</span>'
            '<span class="unseen">scores above a better caption</span></span>'
            if flagged
            else ""
        )
        width = bar_length(score, self.tops[metric.key])
        return (
            f'<div class="score"><span class="name">{as_text(metric.label)}</span>'
            f'<span class="track" aria-hidden="true"><i class="{caption.mark or "plain"}" '
            f'style="width:{width}"></i></span><b>{shown}{flag}</b></div>'
        )

    def _foot(self, reproduce: str) -> str:
        commands = (
            '<h2 id="again">The same numbers again</h2>\n'
            f'<pre tabindex="0"><code>{as_text(reproduce)}</code></pre>\n'
            if reproduce
            else ""
        )
        compared = () if self.perturbations is None else self.perturbations.metrics
        explained = () if self.explanations is None else (self.explanations.metric,)
        signatures = "".join(
            f"<dt>{as_text(label)}</dt>"
            f"{''.join(f'<dd><code>{breakable(each)}</code></dd>' for each in own)}\n"
            for label, own in _signatures([*self.metrics, *compared, *explained]).items()
        )
        return (
            f'<footer>\n{commands}<h2 id="signatures">Signatures</h2>\n'
            '<p class="soft">A signature names everything that a score depends on: same signature, same '
            "numbers.</p>\n"
            f"<dl>\n{signatures}</dl>\n"
            '<p class="soft">This page is one file: photos, style and text are all in it.</p>\n</footer>\n'
        )


def _signatures(metrics: Iterable[ReportMetric]) -> dict[str, list[str]]:
    """Label → its signatures, each once: captions in other languages are scored under another one."""
    found: dict[str, list[str]] = {}
    for metric in metrics:
        own = found.setdefault(metric.label, [])
        if metric.signature not in own:
            own.append(metric.signature)
    return found


# ------------------------------------------------------------------- text into HTML

_FLAG = "▲"
# What HTML cannot hold (controls, halves of surrogate pairs) and what would turn the text around it.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def as_text(text: object) -> str:
    """Text for an element. Control characters are shown by their code: a caption that holds one looks it.

    >>> as_text("<b> & \x07")
    '&lt;b&gt; &amp; <span class="control" dir="ltr">U+0007</span>'
    """

    def code(match: re.Match[str]) -> str:
        return f'<span class="control" dir="ltr">U+{ord(match.group()):04X}</span>'

    return UNSEEN.sub(code, html.escape(str(text)))


def as_attribute(text: object) -> str:
    """Text for an attribute or the window's title, where no element can stand.

    >>> as_attribute('"a" \x07')
    '&quot;a&quot; �'
    """
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", html.escape(str(text)))


def breakable(signature: str) -> str:
    """A signature as HTML that may be broken after each of its settings.

    >>> breakable("mcs|w:2.5")
    'mcs|<wbr>w:2.5'
    """
    return "|<wbr>".join(as_text(part) for part in signature.split("|"))


def _by_language(captions: Sequence[ReportCaption]) -> dict[str, list[ReportCaption]]:
    groups: dict[str, list[ReportCaption]] = {}
    for caption in captions:
        groups.setdefault(caption.language, []).append(caption)
    return groups


def language_names(tag: str) -> tuple[str, str]:
    """What a language is called by its speakers and in English; the tag itself where nobody told us.

    >>> language_names("de"), language_names("de-AT"), language_names("tlh")
    (('Deutsch', 'German'), ('Deutsch (AT)', 'German (AT)'), ('tlh', 'tlh'))
    """
    if not tag:
        return "Language not stated", "Language not stated"
    primary, _, rest = tag.replace("_", "-").partition("-")
    own, english = NAMES.get(primary.lower(), (tag, tag))
    if rest and own != tag:
        own, english = f"{own} ({rest})", f"{english} ({rest})"
    return own, english


def language_name(tag: str) -> str:
    """What a language is called by its speakers and in English, as one text for people.

    >>> language_name("de"), language_name("en")
    ('Deutsch, German', 'English')
    """
    own, english = language_names(tag)
    return own if own == english else f"{own}, {english}"


def language_attributes(tag: str) -> str:
    """` lang="ar" dir="rtl"` for an element in that language; without one, the text decides its direction."""
    if not tag:
        return ' dir="auto"'
    return f' lang="{as_attribute(tag.replace("_", "-"))}" dir="{text_direction(tag)}"'


@lru_cache(maxsize=1024)
def text_direction(tag: str) -> str:
    """Where lines in a language begin: "ltr" or "rtl"; "auto" for what is no tag of a language.

    >>> text_direction("ar"), text_direction("az"), text_direction("az-Arab"), text_direction("?")
    ('rtl', 'ltr', 'rtl', 'auto')
    """
    import langcodes

    try:
        script = langcodes.Language.get(tag.replace("_", "-")).maximize().script
    except langcodes.LanguageTagError:
        return "auto"
    return "rtl" if script in RIGHT_TO_LEFT else "ltr"


# ------------------------------------------------------------------ scores into bars


def _score(caption: ReportCaption, metric: str) -> float | None:
    score = caption.scores.get(metric)
    return None if score is None or math.isnan(score) else float(score)


def _top(captions: Iterable[ReportCaption], metric: str) -> float:
    """Where the bars of a metric end."""
    return top_of(_score(caption, metric) for caption in captions)


def top_of(scores: Iterable[float | None]) -> float:
    """The highest score, rounded up to a tenth, at least 0.1: where bars end that stand for them.

    >>> top_of([0.42, None]), top_of([])
    (0.5, 0.1)
    """
    highest = max((score for score in scores if score is not None), default=0.0)
    return max(math.ceil(highest * 10 - 1e-9) / 10, 0.1)


def bar_length(score: float | None, top: float) -> str:
    """A score as the length of a bar that is full at `top`; of none, and below 0, nothing.

    >>> bar_length(0.5, 2.0), bar_length(None, 2.0), bar_length(3.0, 2.0)
    ('25.0%', '0.0%', '100.0%')
    """
    share = 0.0 if score is None else min(max(score / top, 0.0), 1.0)
    return f"{100 * share:.1f}%"


# ------------------------------------------------------------------------- pictures


def _picture(photo: ReportPhoto) -> str:
    if photo.image is None:
        return '<p class="no-picture">No picture</p>'
    data, width, height = _thumbnail(photo.image)
    return (
        f'<img src="data:image/jpeg;base64,{data}" alt="{as_attribute(photo.alt or photo.title)}" '
        f'width="{width}" height="{height}">'
    )


def _thumbnail(image: Any) -> tuple[str, int, int]:
    """Any image → (JPEG in base64, width, height), neither side above `THUMBNAIL_SIDE` pixels."""
    from PIL import Image

    from ..images.load import load_image

    small = load_image(image)
    small.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii"), *small.size


# ---------------------------------------------------------------------------- style

# Blue, orange and vermilion are told apart with every kind of colour vision; full, striped and hollow bars
# without any. Other pages that are made of the same parts have it too.
STYLE = """\
:root {
  color-scheme: light dark;
  --page: #f5f4f1;
  --card: #fff;
  --ink: #1b1d21;
  --soft: #565c66;
  --line: #dcdcd8;
  --track: #ecebe7;
  --right: #0067a5;
  --half: #b36b00;
  --wrong: #c2410c;
  --chip-right: #e2eff8;
  --chip-half: #fdf0d5;
  --chip-wrong: #fde6dc;
  --link: #00558a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131519;
    --card: #1d2026;
    --ink: #e9eaed;
    --soft: #a9afba;
    --line: #343942;
    --track: #2b2f37;
    --right: #5cb8f2;
    --half: #f0b94a;
    --wrong: #ff8b57;
    --chip-right: #12324a;
    --chip-half: #3d2e0b;
    --chip-wrong: #46210f;
    --link: #8ecbf5;
  }
}
* { box-sizing: border-box }
html { scroll-behavior: smooth; scroll-padding-top: 4.5rem; -webkit-text-size-adjust: 100% }
body {
  margin: 0;
  background: var(--page);
  color: var(--ink);
  line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", Arial, sans-serif;
}
:lang(ja) {
  font-family: system-ui, "Hiragino Sans", "Yu Gothic UI", Meiryo,
    "Noto Sans CJK JP", "Noto Sans JP", sans-serif;
}
:lang(zh) {
  font-family: system-ui, "PingFang SC", "Microsoft YaHei UI",
    "Noto Sans CJK SC", "Noto Sans SC", sans-serif;
}
:lang(zh-TW), :lang(zh-HK), :lang(zh-Hant) {
  font-family: system-ui, "PingFang TC", "Microsoft JhengHei UI",
    "Noto Sans CJK TC", "Noto Sans TC", sans-serif;
}
:lang(ko) {
  font-family: system-ui, "Apple SD Gothic Neo", "Malgun Gothic",
    "Noto Sans CJK KR", "Noto Sans KR", sans-serif;
}
:lang(ar), :lang(fa), :lang(ur) {
  font-family: "Segoe UI", "Geeza Pro", "Noto Sans Arabic", "Noto Naskh Arabic", Tahoma, sans-serif;
}
header.top, section.overview, main, footer { max-width: 82rem; margin: 0 auto; padding: 0 1.25rem }
header.top { padding-top: 2.5rem }
h1 {
  font-size: clamp(1.7rem, 4vw, 2.6rem);
  line-height: 1.15;
  letter-spacing: -0.02em;
  margin: 0 0 0.75rem;
  text-wrap: balance;
}
h2 { font-size: 1.25rem; line-height: 1.25; margin: 0 }
h3 { font-size: 0.95rem; margin: 0 0 0.35rem; font-weight: 650 }
h3 .soft { font-weight: 400 }
header.top p { max-width: 46rem; margin: 0 0 0.75rem; font-size: 1.05rem; overflow-wrap: anywhere }
a { color: var(--link) }
.soft { color: var(--soft); font-size: 0.88rem }
.unseen {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}
.facts {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(13rem, 100%), 1fr));
  gap: 0.75rem;
  margin: 1.5rem 0;
}
.facts div {
  display: flex;
  flex-direction: column-reverse;
  justify-content: flex-end;
  background: var(--card);
  border: 1px solid var(--line);
  border-radius: 0.75rem;
  padding: 0.8rem 1rem;
}
.facts dd {
  margin: 0;
  font-size: 1.7rem;
  font-weight: 700;
  line-height: 1.2;
  letter-spacing: -0.01em;
  font-variant-numeric: tabular-nums;
}
.facts dt { color: var(--soft); font-size: 0.9rem }
section.overview { margin-top: 2rem }
.overview p { margin: 0.4rem 0 }
.legend {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 0.1rem 0.45rem;
  font-size: 0.9rem;
}
.swatch { display: inline-block; width: 0.8rem; height: 0.8rem; border-radius: 2px }
.swatch:not(:first-child) { margin-left: 0.8rem }
.sheets {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr));
  gap: 1rem;
  margin: 0.75rem 0;
}
.sheet {
  background: var(--card);
  border: 1px solid var(--line);
  border-radius: 0.75rem;
  padding: 0.6rem 0.8rem;
  overflow-x: auto;
}
table { border-collapse: collapse; width: 100% }
caption { text-align: start; padding: 0.1rem 0.2rem 0.4rem; font-size: 0.88rem; color: var(--soft) }
caption b { color: var(--ink); font-size: 1rem; margin-inline-end: 0.3rem }
thead th { font-size: 0.8rem; font-weight: 600; color: var(--soft); text-align: center }
thead abbr { text-decoration: none }
tbody th {
  font-weight: 500;
  text-align: start;
  font-size: 0.9rem;
  padding: 0.3rem 0.4rem 0.3rem 0.2rem;
}
td {
  text-align: center;
  padding: 0.35rem 0.1rem;
  border-top: 1px solid var(--line);
  position: relative;
  vertical-align: bottom;
}
tbody th { border-top: 1px solid var(--line) }
.minis {
  display: inline-flex;
  align-items: flex-end;
  gap: 2px;
  height: 2.4rem;
  border-bottom: 1px solid var(--soft);
}
.minis i { display: block; width: 7px; border-radius: 1.5px 1.5px 0 0 }
td .flag { position: absolute; top: 0.1rem; inset-inline-end: 0.1rem }
.flag { color: var(--wrong); font-size: 0.7em }
.right { background: var(--right) }
.half {
  background: repeating-linear-gradient(135deg, var(--half) 0 2.5px, transparent 2.5px 4.5px);
  box-shadow: inset 0 0 0 1px var(--half);
}
.wrong { box-shadow: inset 0 0 0 1.5px var(--wrong) }
.plain { background: var(--right) }
.filter {
  position: sticky;
  top: 0;
  z-index: 2;
  background: color-mix(in srgb, var(--page) 92%, transparent);
  backdrop-filter: blur(6px);
  border-bottom: 1px solid var(--line);
  margin-top: 1.75rem;
}
.filter fieldset {
  max-width: 82rem;
  margin: 0 auto;
  padding: 0.6rem 1.25rem;
  border: 0;
  display: flex;
  flex-wrap: wrap;
  gap: 0.4rem;
}
.filter label { position: relative; cursor: pointer }
.filter input {
  position: absolute;
  opacity: 0;
  inset: 0;
  margin: 0;
  cursor: pointer;
}
.filter label > span {
  display: block;
  padding: 0.2rem 0.75rem;
  border: 1px solid var(--line);
  border-radius: 99px;
  background: var(--card);
  font-size: 0.92rem;
}
.filter label:hover > span { border-color: var(--soft) }
.filter input:checked + span {
  background: var(--ink);
  color: var(--page);
  border-color: var(--ink);
}
.filter input:focus-visible + span { outline: 3px solid var(--link); outline-offset: 2px }
@supports not selector(:has(a)) {
  .filter { display: none }
}
.scale { margin: 1rem 0 0 }
.card {
  display: grid;
  grid-template-columns: minmax(0, 21rem) minmax(0, 1fr);
  gap: 1.5rem;
  background: var(--card);
  border: 1px solid var(--line);
  border-radius: 1rem;
  padding: 1.25rem;
  margin: 1.25rem 0;
}
figure { margin: 0; align-self: start; position: sticky; top: 4.5rem }
figure img { display: block; width: 100%; height: auto; border-radius: 0.6rem }
.no-picture {
  display: grid;
  place-items: center;
  margin: 0;
  aspect-ratio: 3/2;
  border: 1px dashed var(--soft);
  border-radius: 0.6rem;
  color: var(--soft);
}
figcaption { margin-top: 0.7rem; overflow-wrap: anywhere }
.blocks {
  display: grid;
  grid-template-columns: repeat(auto-fit, minmax(min(23rem, 100%), 1fr));
  gap: 1.5rem 1.75rem;
  align-content: start;
}
.captions, details ul { list-style: none; margin: 0; padding: 0 }
.captions li {
  display: grid;
  grid-template-columns: 6.3rem minmax(0, 1fr);
  gap: 0.15rem 0.6rem;
  align-items: start;
  padding: 0.5rem 0;
  border-top: 1px solid var(--line);
}
.captions li > :not(.mark):nth-child(1), .scores, .problem { grid-column: 1/-1 }
.mark + .text ~ .scores, .mark + .text ~ .problem { grid-column: 2 }
.mark {
  font-size: 0.8rem;
  font-weight: 600;
  border-radius: 99px;
  padding: 0.1rem 0.55rem;
  justify-self: start;
  margin-top: 0.12rem;
  white-space: nowrap;
  box-shadow: none;
}
.mark.right { background: var(--chip-right) }
.mark.half { background: var(--chip-half) }
.mark.wrong { background: var(--chip-wrong) }
.text { margin: 0; overflow-wrap: anywhere; unicode-bidi: isolate }
.text:lang(ar), .text:lang(fa), .text:lang(ur) { font-size: 1.08em }
.scores {
  display: grid;
  grid-template-columns: max-content minmax(3rem, 1fr) max-content;
  gap: 0.1rem 0.6rem;
  align-items: center;
}
.score { display: contents; font-size: 0.8rem }
.score .name { color: var(--soft); font-size: 0.8rem }
.score b {
  font-weight: 600;
  font-variant-numeric: tabular-nums;
  font-size: 0.85rem;
  min-width: 3.4rem;
}
.track { height: 0.6rem; border-radius: 3px; background: var(--track); overflow: hidden }
.track i { display: block; height: 100%; border-radius: 3px }
.problem { margin: 0; font-size: 0.88rem; color: var(--wrong) }
.control {
  font: 600 0.72em ui-monospace, Consolas, monospace;
  border: 1px solid var(--soft);
  border-radius: 3px;
  padding: 0 0.25em;
  margin: 0 0.1em;
  unicode-bidi: isolate;
}
details { font-size: 0.9rem; border-top: 1px solid var(--line); padding-top: 0.4rem }
summary { cursor: pointer; color: var(--soft) }
details li { padding: 0.2rem 0; overflow-wrap: anywhere; unicode-bidi: isolate }
footer { padding-top: 1rem; padding-bottom: 3rem }
footer h2 { margin-top: 1.5rem }
footer dl { margin: 0.5rem 0 }
footer dt { font-weight: 600; margin-top: 0.5rem }
footer dd { margin: 0 }
pre, code {
  font-family: ui-monospace, SFMono-Regular, Consolas, "Liberation Mono", monospace;
  font-size: 0.88rem;
}
footer dd code { overflow-wrap: anywhere }
pre {
  background: var(--card);
  border: 1px solid var(--line);
  border-radius: 0.6rem;
  padding: 0.8rem 1rem;
  overflow-x: auto;
}
@media (max-width: 56rem) {
  .card { grid-template-columns: minmax(0, 1fr) }
  figure { position: static }
  figure img { max-height: 22rem; width: auto; max-width: 100%; margin: 0 auto }
}
@media (max-width: 34rem) {
  header.top, section.overview, main, footer { padding-left: 0.8rem; padding-right: 0.8rem }
  header.top { padding-top: 1.5rem }
  .card { padding: 0.9rem; border-radius: 0.8rem }
  .filter { position: static }
  .filter fieldset { padding: 0.6rem 0.8rem }
  .captions li { grid-template-columns: minmax(0, 1fr) }
  .mark + .text ~ .scores, .mark + .text ~ .problem { grid-column: 1 }
  .sheet { padding: 0.5rem }
  .minis i { width: 6px }
}
@media (prefers-reduced-motion: reduce) {
  html { scroll-behavior: auto }
}
@media print {
  .filter { display: none }
  .card { break-inside: avoid-page }
  figure { position: static }
}
"""
