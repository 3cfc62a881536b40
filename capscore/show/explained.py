"""What a scorer found in captions of a photo → what pages and pictures show: marks, regions, bars, notes."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError

if TYPE_CHECKING:
    from ..metrics.base import Scores

MOST_MISSED = 3
"""Default maximum of missed regions shown; all of them would hide the photo."""

NOTHING_LIKE_IT = 0.03
"""Probability below which a wrong noun is said to have nothing like it in the photo. Right words that are
marked by mistake have mostly more than that."""

# kind of a piece of a caption → the sign beside it
SIGNS = {"plain": "", "right": "", "wrong": "✗", "unsure": "?", "unseen": ""}
MENTIONED, MISSED = "✓", "✗"
# component of the scores → its name for people
SCORES = {"precision": "Text precision", "recall": "Vision recall", "overall": "Overall"}
# A very long photo is shown on a field of at most this ratio, so that there is room for labels.
_LONGEST = 4.0

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class ExplainedCaption:
    """A caption with the scorer's explanation.

    Attributes:
        text: The caption.
        language: BCP 47 tag; "" if none was stated.
        explanation: JSON-ready: "words" (text, start, end, score, semantic, correct), "regions" (box in
            pixels as left, top, right, bottom; score, mentioned, confidence, label), "null" (the null token's
            score), "image_size" (width, height) and "n_words_cut". The score of a word that was cut is None.
            From a mark calibration also "fits", of words "p_correct", of regions "p_mentioned" and "name".
        scores: "precision", "recall" and "overall"; NaN where there is no score.

    Raises:
        InputError: words that lie outside the caption or overlap.
    """

    text: str
    language: str
    explanation: Mapping[str, Any]
    scores: Mapping[str, float]

    def __post_init__(self) -> None:
        last = 0
        for word in sorted(self.explanation["words"], key=lambda word: word["start"]):
            start, end = word["start"], word["end"]
            if not last <= start < end <= len(self.text):
                raise InputError(
                    f"the word {word['text']!r} is said to reach from {start} to {end}, but the caption has "
                    f"{len(self.text)} characters and the word before ends at {last}",
                    field="words",
                )
            last = end


def explained_captions(captions: Sequence[str], scores: Scores) -> list[ExplainedCaption]:
    """Captions with the results of `capscore.load("infometic").score`.

    Args:
        captions: The n captions that were scored.
        scores: Scores of these n rows, with `details` and the components "precision" and "recall".
    """
    details = [told for told in scores.details or () if told is not None]
    return [
        ExplainedCaption(
            text,
            scores.languages[row],
            told,
            {
                "precision": float(scores.components["precision"][row]),
                "recall": float(scores.components["recall"][row]),
                "overall": float(scores.scores[row]),
            },
        )
        for row, (text, told) in enumerate(zip(captions, details, strict=True))
    ]


# ---- words ----


@dataclass(frozen=True)
class Segment:
    """A piece of a caption.

    Attributes:
        text: Its characters.
        kind: "right", "wrong" (likely wrong) or "unsure" (cannot tell) for content words, "unseen" for words
            that were cut off, else "plain".
        score: Score of a content word; None for others.
        p: Probability that a content word is right; None where no judge says.
        region: Number of the region most like a content word, counted from 0; None if there is none.
        noun: Whether the word is a noun.
    """

    text: str
    kind: str
    score: float | None = None
    region: int | None = None
    p: float | None = None
    noun: bool = False

    @property
    def note(self) -> str:
        """The number beside a content word: how likely it is right, or its score."""
        if self.p is not None:
            return percent(self.p)
        return "" if self.score is None else number(self.score)

    @property
    def title(self) -> str:
        """The number in words."""
        return f"right with probability {self.note}" if self.p is not None else f"score {self.note}"


def segments(caption: ExplainedCaption) -> list[Segment]:
    """The whole caption in pieces, in order.

    >>> words = [{"text": "cat", "start": 2, "end": 5, "score": 0.02, "semantic": True, "correct": False}]
    >>> told = {"words": words, "regions": [], "null": 0.5, "image_size": [9, 9], "n_words_cut": 0}
    >>> [(piece.text, piece.kind) for piece in segments(ExplainedCaption("a cat!", "en", told, {}))]
    [('a ', 'plain'), ('cat', 'wrong'), ('!', 'plain')]
    """
    found: list[Segment] = []
    last = 0
    for word in sorted(caption.explanation["words"], key=lambda word: word["start"]):
        kind = _kind(word, fits=caption.explanation.get("fits") is not False)
        if kind == "plain":
            continue
        if word["start"] > last:
            found.append(Segment(caption.text[last : word["start"]], "plain"))
        score = None if kind == "unseen" else word["score"]
        text = caption.text[word["start"] : word["end"]]
        p = None if kind == "unseen" else word.get("p_correct")
        noun = word.get("word_class") == "noun"
        found.append(Segment(text, kind, score, word.get("region"), p, noun))
        last = word["end"]
    if last < len(caption.text):
        found.append(Segment(caption.text[last:], "plain"))
    return found


def _kind(word: Mapping[str, Any], fits: bool = True) -> str:
    if word["score"] is None:
        return "unseen"
    if not word["semantic"]:
        return "plain"
    if word["correct"] is None:
        # words of a caption that does not fit are not judged one by one
        return "unsure" if fits and word.get("p_correct") is not None else "plain"
    return "right" if word["correct"] else "wrong"


def verdict(caption: ExplainedCaption) -> str:
    """A sentence about the caption, without the full stop and without its words.

    >>> words = [{"text": "cat", "start": 2, "end": 5, "score": 0.02, "semantic": True, "correct": False}]
    >>> told = {"words": words, "regions": [], "null": 0.5, "image_size": [9, 9], "n_words_cut": 0}
    >>> verdict(ExplainedCaption("a cat!", "en", told, {}))
    '1 word is likely wrong'
    >>> verdict(ExplainedCaption("a cat!", "en", {**told, "fits": False}, {}))
    'This caption does not fit the photo; words are not judged one by one'
    """
    if caption.explanation.get("fits") is False:
        return "This caption does not fit the photo; words are not judged one by one"
    kinds = [piece.kind for piece in segments(caption)]
    wrong = kinds.count("wrong")
    if wrong:
        return "1 word is likely wrong" if wrong == 1 else f"{wrong:,} words are likely wrong"
    if "right" in kinds:
        return "No word looks wrong"
    if "unsure" in kinds:
        return "No word can be judged with this photo"
    return "There is no content word, so none can be wrong"


def wrong_words(caption: ExplainedCaption) -> list[Segment]:
    """The words of a caption that are likely wrong, in order."""
    return [piece for piece in segments(caption) if piece.kind == "wrong"]


def wrong_because(wrong: Sequence[Segment]) -> str:
    """What a judge's strong doubt about nouns means, to stand behind them.

    Returns:
        "" without a judge, for other words than nouns, and where one has more than `NOTHING_LIKE_IT`.

    >>> wrong_because([Segment("piano", "wrong", 0.02, p=0.01, noun=True)])
    '; nothing in the photo looks like it'
    >>> wrong_because([Segment("piano", "wrong", 0.02, p=0.12, noun=True)])
    ''
    """
    sure = (piece.noun and piece.p is not None and piece.p < NOTHING_LIKE_IT for piece in wrong)
    if not wrong or not all(sure):
        return ""
    return f"; nothing in the photo looks like {'it' if len(wrong) == 1 else 'them'}"


def verdict_with_words(caption: ExplainedCaption) -> str:
    """A sentence about the caption that names the words that are likely wrong.

    >>> words = [{"text": "cat", "start": 2, "end": 5, "score": 0.02, "semantic": True, "correct": False}]
    >>> told = {"words": words, "regions": [], "null": 0.5, "image_size": [9, 9], "n_words_cut": 0}
    >>> verdict_with_words(ExplainedCaption("a cat!", "en", told, {}))
    'Likely wrong: cat (score 0.02).'
    """
    wrong = wrong_words(caption)
    if not wrong:
        return f"{verdict(caption)}."
    listed = ", ".join(f"{piece.text} ({piece.title})" for piece in wrong)
    return f"Likely wrong: {listed}{wrong_because(wrong)}."


# ---- regions ----


@dataclass(frozen=True)
class ShownRegion:
    """A region that is drawn.

    Attributes:
        number: Number from 1, mentioned regions first; the same on the photo and in the list.
        box: Left, top, right, bottom in pixels of the photo.
        mentioned: Whether the caption mentions it.
        score: Share of the caption that it accounts for.
        confidence: Confidence of the detector that there is an object.
        label: A name for what it shows; "" if it has none.
        place: Place among all regions, counted from 0.
        p: Probability that the caption mentions it; None where no judge says.
    """

    number: int
    box: Box
    mentioned: bool
    score: float
    confidence: float
    label: str
    place: int = 0
    p: float | None = None

    @property
    def note(self) -> str:
        """The number beside it: how likely the caption mentions it, or its score."""
        return number(self.score) if self.p is None else percent(self.p)

    @property
    def title(self) -> str:
        """The number in words, and how sure the finder is.

        >>> ShownRegion(2, (0, 0, 9, 9), False, 0.01, 0.9, "dog", p=0.14).title
        'mentioned with probability 14 %; confidence 0.90'
        """
        said = f"score {self.note}" if self.p is None else f"mentioned with probability {self.note}"
        return f"{said}; confidence {number(self.confidence)}"

    @property
    def sign(self) -> str:
        return MENTIONED if self.mentioned else MISSED

    @property
    def tag(self) -> str:
        """The label at its box.

        >>> ShownRegion(2, (0, 0, 9, 9), False, 0.01, 0.9, "a very long name of a thing").tag
        '✗ 2 a very long name …'
        """
        label = self.label if len(self.label) <= 18 else f"{self.label[:17]}…"
        return f"{self.sign} {self.number} {label}".rstrip()


def shown_regions(explanation: Mapping[str, Any], most_missed: int = MOST_MISSED) -> list[ShownRegion]:
    """Mentioned regions, best score first; then the missed regions with the highest confidence.

    Of regions that have one name and lie on each other, the one with the highest confidence is shown.

    Args:
        explanation: As in `ExplainedCaption`.
        most_missed: Maximum number of missed regions.
    """
    mentioned, missed = _apart(explanation["regions"])
    mentioned.sort(key=lambda one: -(one[1].get("p_mentioned") or one[1]["score"]))
    shown = []
    for number, (place, region) in enumerate([*mentioned, *missed[:most_missed]], 1):
        left, top, right, bottom = map(float, region["box"])
        label = region.get("name") or region["label"]
        look = bool(region["mentioned"]), region["score"], region["confidence"], label, place
        shown.append(ShownRegion(number, (left, top, right, bottom), *look, region.get("p_mentioned")))
    return shown


def shown_for(regions: Sequence[Mapping[str, Any]]) -> list[int]:
    """For each region the place of the one that is shown for it: its own, or that of one that shows the same.

    >>> box = {"mentioned": True, "score": 0.0, "name": "dog"}
    >>> pair = ((0, 0, 9, 9), 0.2), ((0, 0, 8, 9), 0.7)
    >>> shown_for([{**box, "box": edges, "confidence": confidence} for edges, confidence in pair])
    [1, 1]
    """
    found = list(range(len(regions)))
    shown: list[int] = []
    for place in sorted(found, key=lambda place: (-regions[place]["confidence"], regions[place]["score"])):
        alike = (other for other in shown if _shows_the_same(regions[place], regions[other]))
        found[place] = next(alike, place)
        if found[place] == place:
            shown.append(place)
    return found


_Regions = list[tuple[int, Mapping[str, Any]]]


def _apart(regions: Sequence[Mapping[str, Any]]) -> tuple[_Regions, _Regions]:
    """Mentioned and missed regions with their places, most confident first, without doubles."""
    kept = [(place, regions[place]) for place in dict.fromkeys(shown_for(regions))]
    kept.sort(key=lambda one: (-one[1]["confidence"], one[1]["score"]))
    mentioned = [one for one in kept if one[1]["mentioned"]]
    return mentioned, [one for one in kept if not one[1]["mentioned"]]


def _shows_the_same(region: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two regions have one name, are both mentioned or both missed, and share half of the smaller."""
    name = region.get("name")
    if not name or name != other.get("name") or bool(region["mentioned"]) != bool(other["mentioned"]):
        return False
    boxes = np.array([region["box"], other["box"]], float)
    low, high = boxes[:, :2], boxes[:, 2:]
    shared = np.clip(high.min(axis=0) - low.max(axis=0), 0, None).prod()
    return bool(shared >= 0.5 * (high - low).prod(axis=1).min())


def notes(caption: ExplainedCaption, most_missed: int = MOST_MISSED) -> list[str]:
    """Sentences besides the marks: words that were cut off, regions that are not drawn, the null token."""
    told = caption.explanation
    found = []
    unsure = [piece.text for piece in segments(caption) if piece.kind == "unsure"]
    if unsure:
        found.append(f"Cannot tell: {', '.join(unsure)}")
    cut = told["n_words_cut"]
    if cut:
        found.append(
            "1 word is past the limit and was not scored"
            if cut == 1
            else f"{cut:,} words are past the limit and were not scored"
        )
    regions = told["regions"]
    mentioned, missed = _apart(regions)
    if not regions:
        found.append("No region was found in the photo")
    elif not mentioned:
        found.append("The caption mentions none of the regions")
    more = len(missed) - most_missed
    if more > 0:
        found.append(f"{more:,} more missed {'region is' if more == 1 else 'regions are'} not drawn")
    alike = len(regions) - len(mentioned) - len(missed)
    if alike:
        found.append(
            f"{alike:,} more {'region shows' if alike == 1 else 'regions show'} the same as one of these"
        )
    if any(region.get("p_mentioned") is not None for region in regions):
        found.append("Behind a region stands how likely the caption mentions it")
    found.append(f"Score of the null token, what no region accounts for: {number(told['null'])}")
    return found


def photo_text(regions: Sequence[ShownRegion]) -> str:
    """The drawn photo in words, for people who cannot see it."""
    counts = [sum(region.mentioned is kind for region in regions) for kind in (True, False)]
    shown = [f"{count} region{'s' if count != 1 else ''}" for count in counts]
    return f"The photo, with {shown[0]} that the caption mentions and {shown[1]} that it misses"


# ---- scores ----


@dataclass(frozen=True)
class ScoreBar:
    """A score as a bar.

    Attributes:
        label: Name of the score.
        value: The score as printed.
        share: Share of the bar that is filled, from 0 to 1.
    """

    label: str
    value: str
    share: float


def number(score: float | None) -> str:
    """A score as printed.

    >>> number(0.0214), number(31.25), number(-0.001), number(float("nan"))
    ('0.02', '31.25', '0.00', 'no score')
    """
    if score is None or math.isnan(score):
        return "no score"
    return f"{score:.2f}".replace("-0.00", "0.00").replace("-", "−")


def percent(p: float) -> str:
    """A probability as printed.

    >>> percent(0.004), percent(0.142), percent(0.999)
    ('< 1 %', '14 %', '> 99 %')
    """
    return "< 1 %" if p < 0.01 else "> 99 %" if p > 0.99 else f"{100 * p:.0f} %"


def bars_end(captions: Sequence[ExplainedCaption]) -> float:
    """Where the bars of precision and recall end: the next 1, 2, 5, 10, 20, 50, … above all of them.

    >>> told = {"words": [], "regions": [], "null": 1.0, "image_size": [9, 9], "n_words_cut": 0}
    >>> bars_end([ExplainedCaption("", "", told, {"precision": 12.5, "recall": 3.0, "overall": 15.5})])
    20.0
    """
    parts = [caption.scores[name] for caption in captions for name in ("precision", "recall")]
    highest = max((part for part in parts if math.isfinite(part)), default=0.0)
    end, steps = 1.0, (2.0, 2.5, 2.0)
    place = 0
    while end < highest:
        end *= steps[place % 3]
        place += 1
    return end


def score_bars(caption: ExplainedCaption, end: float) -> list[ScoreBar]:
    """The three scores as bars; precision and recall end at `end`, their sum at twice that."""
    return [
        ScoreBar(
            label,
            number(caption.scores[name]),
            _share(caption.scores[name], 2 * end if name == "overall" else end),
        )
        for name, label in SCORES.items()
    ]


def _share(score: float, end: float) -> float:
    return 0.0 if math.isnan(score) else min(max(score / end, 0.0), 1.0)


def bars_note(end: float) -> str:
    """What the lengths of the bars mean."""
    return (
        f"Bars of precision and recall end at {end:g}, that of their sum, overall, at {2 * end:g}. Scores "
        "are scaled cosines; a score below 0 means that the two are less alike than unrelated ones"
    )


# ---- places on the photo ----


def stage(size: tuple[int, int]) -> Box:
    """The field that a photo is shown on: left, top, width and height in pixels of the photo.

    The field is the photo itself, unless one side is more than four times as long as the other.

    >>> stage((640, 480)), stage((1, 100))
    ((0.0, 0.0, 640.0, 480.0), (-12.0, 0.0, 25.0, 100.0))
    """
    width, height = map(float, size)
    wide, high = max(width, height / _LONGEST), max(height, width / _LONGEST)
    return (width - wide) / 2, (height - high) / 2, wide, high


def place_tags(boxes: Sequence[Box], sizes: Sequence[tuple[float, float]], field: Box) -> list[Box]:
    """Places for tags: at a corner of their boxes, inside the field, and without overlap if possible.

    Args:
        boxes: The n boxes.
        sizes: Width and height of their n tags, in the same units.
        field: Left, top, width and height of the area for tags.

    Returns:
        The n places, as left, top, right, bottom.

    >>> place_tags([(10, 10, 90, 90), (10, 10, 90, 90)], [(20, 8), (20, 8)], (0, 0, 100, 100))
    [(10, 10, 30, 18), (10, 2, 30, 10)]
    """
    placed: list[Box] = []
    for box, size in zip(boxes, sizes, strict=True):
        choices = _choices(box, size, field)
        placed.append(min(choices, key=lambda choice: sum(_shared(choice, other) for other in placed)))
    return placed


def _choices(box: Box, size: tuple[float, float], field: Box) -> list[Box]:
    (left, top, right, bottom), (width, height) = box, size
    corners = [(left, top), (left, top - height), (right - width, top), (right - width, top - height)]
    corners += [(left, bottom - height), (left, bottom), (right - width, bottom - height)]
    corners += [(right - width, bottom)]
    corners += [(left, top + step * height) for step in range(1, 40) if top + step * height < bottom]
    found = []
    for x, y in corners:
        x = max(field[0], min(x, field[0] + field[2] - width))
        y = max(field[1], min(y, field[1] + field[3] - height))
        found.append((x, y, x + width, y + height))
    return found


def _shared(a: Box, b: Box) -> float:
    """The area of the overlap."""
    return max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)


def estimated_width(text: str) -> float:
    """The approximate width of a text, in units of its font size.

    >>> estimated_width("ab"), estimated_width("猫")
    (1.24, 1.05)
    """
    return sum(1.05 if unicodedata.east_asian_width(letter) in "WF" else 0.62 for letter in text)
