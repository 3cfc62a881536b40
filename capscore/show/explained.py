"""What InfoMetIC found in captions of a photo → what is shown of it: marks, regions, bars, notes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..metrics.calibration import RANKS, ranks
from ..registry import METRICS
from ..tables import fixed

if TYPE_CHECKING:
    from ..metrics.scores import Scores

MAX_MISSED = 3
"""Maximum of missed regions shown; all of them would hide the photo."""
_NOTHING_LIKE_IT = 0.03  # right words that are marked by mistake are mostly more probable than that
SCORES = {"precision": "Text precision", "recall": "Vision recall", "overall": "Overall"}

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class ExplainedCaption:
    """A caption with the scorer's explanation.

    Attributes:
        text: The caption.
        language: BCP 47 tag; "" if none was stated.
        explanation: The row's entry in `Scores.details`.
        scores: "precision", "recall" and "overall" where words are marked, else "score" and the components;
            NaN where there is no score.
        rank: Percent of right captions that score worse; NaN where the scores are not calibrated.
        found, reason, doubt: What the metric says of the caption, and of its own score; "" for nothing.
    """

    text: str
    language: str
    explanation: Mapping[str, Any]
    scores: Mapping[str, float]
    rank: float = math.nan
    found: str = ""
    reason: str = ""
    doubt: str = ""


def explained_captions(captions: Sequence[str], scores: Scores) -> list[ExplainedCaption]:
    """The n captions that were scored, with what the metric says of each."""
    kind = METRICS.get(scores.metric)
    columns = {"score": scores.scores, **scores.components}
    if kind.marks_words():
        columns = {name: scores.components[name] for name in ("precision", "recall")}
        columns["overall"] = scores.scores
    rank = ranks(scores)[RANKS[0]]
    details = scores.details or [None] * len(captions)
    explained = []
    for row, caption in enumerate(captions):
        numbers = {name: float(values[row]) for name, values in columns.items()}
        explained.append(
            ExplainedCaption(
                caption,
                scores.languages[row],
                details[row] or {},
                numbers,
                rank[row],
                scores.found(row),
                scores.reason(row),
                kind.doubt({name: float(values[row]) for name, values in scores.components.items()}),
            )
        )
    return explained


def percent(p: float) -> str:
    """A probability as printed.

    >>> percent(0.004), percent(0.142), percent(0.999)
    ('< 1 %', '14 %', '> 99 %')
    """
    if p < 0.01:
        return "< 1 %"
    if p > 0.99:
        return "> 99 %"
    return f"{100 * p:.0f} %"


# ---- words ----


@dataclass(frozen=True)
class Segment:
    """A piece of a caption.

    Attributes:
        text: Its characters.
        kind: "right", "wrong" (likely wrong) or "unsure" (cannot tell) for content words, "unseen" for words
            that were cut off, else "plain".
        score: Score of a content word; None for others.
        region: Number of the region most like a content word, counted from 0; None if there is none.
        p: Probability that a content word is right; None without a mark calibration.
        noun: Whether the word is a noun.
    """

    text: str
    kind: str
    score: float | None = None
    region: int | None = None
    p: float | None = None
    noun: bool = False

    @property
    def title(self) -> str:
        """How likely a content word is right, or its score."""
        if self.p is None:
            return f"score {fixed(self.score, 2)}"
        return f"right with probability {percent(self.p)}"


def segments(caption: ExplainedCaption) -> list[Segment]:
    """The whole caption in pieces, in order."""
    fits = caption.explanation.get("fits") is not False
    pieces: list[Segment] = []
    last = 0
    for word in sorted(caption.explanation["words"], key=lambda word: word["start"]):
        p, correct = word.get("p_correct"), word["correct"]
        if word["score"] is None:
            kind, p = "unseen", None
        elif not word["semantic"]:
            continue
        elif correct is not None:
            kind = {True: "right", False: "wrong"}[correct]
        elif fits and p is not None:
            kind = "unsure"
        else:  # words of a caption that does not fit are not judged one by one
            continue
        pieces.append(Segment(caption.text[last : word["start"]], "plain"))
        last = word["end"]
        text, is_noun = caption.text[word["start"] : last], word.get("word_class") == "noun"
        pieces.append(Segment(text, kind, word["score"], word.get("region"), p, is_noun))
    pieces.append(Segment(caption.text[last:], "plain"))
    return [piece for piece in pieces if piece.text]


def wrong_words(caption: ExplainedCaption) -> list[Segment]:
    """The words of a caption that are likely wrong, in order."""
    return [piece for piece in segments(caption) if piece.kind == "wrong"]


def wrong_because(wrong: Sequence[Segment]) -> str:
    """Explanation of strong doubt about nouns, to follow them; "" for other words and weaker doubt."""
    if not wrong or any(not piece.noun or piece.p is None or piece.p >= _NOTHING_LIKE_IT for piece in wrong):
        return ""
    if len(wrong) > 1:
        return "; nothing in the photo looks like them"
    return "; nothing in the photo looks like it"


def verdict(caption: ExplainedCaption) -> str:
    """A sentence about the caption that names the words that are likely wrong."""
    if caption.explanation.get("fits") is False:
        return (
            f"This caption does not fit the photo; words are not judged one by one{_least_likely(caption)}."
        )
    wrong = wrong_words(caption)
    if wrong:
        listed = ", ".join(f"{piece.text} ({piece.title})" for piece in wrong)
        return f"Likely wrong: {listed}{wrong_because(wrong)}."
    kinds = {piece.kind for piece in segments(caption)}
    if "right" in kinds:
        return "No word looks wrong."
    if "unsure" in kinds:
        return "No word can be judged with this photo."
    return "There is no content word, so none can be wrong."


def _least_likely(caption: ExplainedCaption) -> str:
    """The word of a caption that is least likely right, to follow what is said of it; "" if none is known."""
    known = [word for word in caption.explanation["words"] if word.get("p_correct") is not None]
    if not known:
        return ""
    least = min(known, key=lambda word: word["p_correct"])
    text = caption.text[least["start"] : least["end"]]
    return f"; least likely: {text} (right with probability {percent(least['p_correct'])})"


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
        index: Index among all regions.
        p: Probability that the caption mentions it; None without a mark calibration.
    """

    number: int
    box: Box
    mentioned: bool
    score: float
    confidence: float
    label: str
    index: int = 0
    p: float | None = None

    @property
    def note(self) -> str:
        """How likely the caption mentions it, or its score."""
        if self.p is None:
            return fixed(self.score, 2)
        return percent(self.p)

    @property
    def title(self) -> str:
        """The number in words, and the detector's confidence."""
        what = "mentioned with probability"
        if self.p is None:
            what = "score"
        return f"{what} {self.note}; confidence {fixed(self.confidence, 2)}"

    @property
    def tag(self) -> str:
        """The label at its box."""
        label, sign = self.label, {True: "✓", False: "✗"}[self.mentioned]
        if len(label) > 18:
            label = f"{label[:17]}…"
        return f"{sign} {self.number} {label}".rstrip()


def shown_regions(explanation: Mapping[str, Any]) -> list[ShownRegion]:
    """Mentioned regions, best score first; then at most `MAX_MISSED` missed ones, the most confident first.

    Of regions that have one name and overlap, the one with the highest confidence is shown.
    """
    regions = explanation["regions"]
    mentioned, missed = _distinct(regions)
    mentioned.sort(key=lambda index: -(regions[index].get("p_mentioned") or regions[index]["score"]))
    shown = []
    for number, index in enumerate([*mentioned, *missed[:MAX_MISSED]], 1):
        region = regions[index]
        left, top, right, bottom = map(float, region["box"])
        label, p = region.get("name") or region["label"], region.get("p_mentioned")
        numbers = bool(region["mentioned"]), region["score"], region["confidence"]
        shown.append(ShownRegion(number, (left, top, right, bottom), *numbers, label, index, p))
    return shown


def representatives(regions: Sequence[Mapping[str, object]]) -> list[int]:
    """For each region the index of the one that is shown for it: its own, or that of one that shows the same.

    Two show the same if they have one name, are both mentioned or both missed, and share half of the smaller.
    """

    def show_the_same(region: Mapping[str, object], other: Mapping[str, object]) -> bool:
        name = region.get("name")
        if not name or name != other.get("name") or bool(region["mentioned"]) != bool(other["mentioned"]):
            return False
        boxes = np.array([region["box"], other["box"]], float)
        low, high = boxes[:, :2], boxes[:, 2:]
        shared = np.clip(high.min(axis=0) - low.max(axis=0), 0, None).prod()
        return bool(shared >= 0.5 * (high - low).prod(axis=1).min())

    found = list(range(len(regions)))
    shown: list[int] = []
    for index in _most_confident_first(regions, found):
        same = (other for other in shown if show_the_same(regions[index], regions[other]))
        found[index] = next(same, index)
        if found[index] == index:
            shown.append(index)
    return found


def _most_confident_first(regions: Sequence[Mapping[str, Any]], indices: Iterable[int]) -> list[int]:
    return sorted(indices, key=lambda index: (-regions[index]["confidence"], regions[index]["score"]))


def _distinct(regions: Sequence[Mapping[str, object]]) -> tuple[list[int], list[int]]:
    """Indices of mentioned and of missed regions, most confident first, without doubles."""
    kept = _most_confident_first(regions, dict.fromkeys(representatives(regions)))
    mentioned = [index for index in kept if regions[index]["mentioned"]]
    return mentioned, [index for index in kept if not regions[index]["mentioned"]]


def notes(caption: ExplainedCaption) -> list[str]:
    """Sentences besides the marks: words that were cut off, regions that are not drawn, the null token."""
    explanation = caption.explanation
    regions = explanation["regions"]
    mentioned, missed = _distinct(regions)
    found = []
    if not math.isnan(caption.rank):
        found.append(f"Rank: {caption.rank:.0f} % of right captions have a lower overall score")
    unsure = [piece.text for piece in segments(caption) if piece.kind == "unsure"]
    if unsure:
        found.append(f"Cannot tell: {', '.join(unsure)}")
    if explanation["n_words_cut"]:
        found.append(f"Words past the limit, not scored: {explanation['n_words_cut']:,}")
    if not regions:
        found.append("No region was found in the photo")
    elif not mentioned:
        found.append("The caption mentions none of the regions")
    if len(missed) > MAX_MISSED:
        found.append(f"Missed regions that are not drawn: {len(missed) - MAX_MISSED:,}")
    doubles = len(regions) - len(mentioned) - len(missed)
    if doubles:
        found.append(f"Regions that show the same as one of these: {doubles:,}")
    if any(region.get("p_mentioned") is not None for region in regions):
        found.append("The number after a region is the probability that the caption mentions it")
    found.append(f"Score of the null token, what no region accounts for: {fixed(explanation['null'], 2)}")
    return found


# ---- scores ----


class ScoreBar(NamedTuple):
    """A score as a bar from the middle of its track, zero, to the right or, below zero, to the left.

    Attributes:
        label: Name of the score.
        value: The score as printed.
        start: Where the bar starts, as a share of the track (0 to 1).
        share: How much of the track it fills (0 to 0.5).
    """

    label: str
    value: str
    start: float
    share: float


def bars_end(signature: str) -> float:
    """Where the bars of precision and recall end, the same on all pages of one signature.

    InfoCLIP's cosines of CLIP are about 30; what a network learnt is mostly between −10 and 10.
    """
    if "|weights:info_clip|" in signature:
        return 40.0
    return 10.0


def score_bars(caption: ExplainedCaption, end: float) -> list[ScoreBar]:
    """The three scores as bars; precision and recall end at ±`end`, their sum at twice that."""
    bars = []
    for name, label in SCORES.items():
        score = caption.scores[name]
        part = score / {"overall": 4 * end}.get(name, 2 * end)
        part = min(max(np.nan_to_num(part), -0.5), 0.5)
        bars.append(ScoreBar(label, fixed(score, 2, "no score"), 0.5 + min(part, 0.0), abs(part)))
    return bars


def bars_note(end: float) -> str:
    """What the lengths of the bars mean."""
    return (
        f"Bars of precision and recall go from −{end:g} to {end:g}, that of their sum, overall, from "
        f"−{2 * end:g} to {2 * end:g}, with 0 in the middle, on every page of the same weights. Scores are "
        "scaled cosines; a score below 0 means that the two are less alike than unrelated ones"
    )
