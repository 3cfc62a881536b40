"""What InfoMetIC found in captions of a photo → what is shown of it: marks, regions, bars, notes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..metrics.calibration import ALL, RIGHT, placed
from ..metrics.scores import Scores, WrongWord
from ..registry import METRICS
from ..tables import fixed

MAX_MISSED = 3
"""Maximum of missed regions shown; all of them would hide the photo."""
MAX_LEAST = 3
"""Maximum of words that are named of a caption that does not fit."""
_NOTHING_LIKE_IT = 0.03  # right words that are marked by mistake are mostly more probable than that
SCORES = {"precision": "Text precision", "recall": "Vision recall", "overall": "Overall"}

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class ExplainedCaption:
    """A caption with the scorer's explanation.

    Attributes:
        scores: "precision", "recall" and "overall" where words are marked, else "score" and the components;
            NaN where there is no score.
        among: Language of these captions, or "all"; "" without a rank.
        found, reason, doubt: What the metric says of the caption, and of its own score; "" for nothing.
        wrong: Where its words begin that are likely wrong.
        pieces: The text in pieces, each with whether it is likely wrong; () where words are marked.
    """

    text: str
    language: str
    explanation: Mapping[str, Any]
    scores: Mapping[str, float]
    rank: float = math.nan
    among: str = ""
    found: str = ""
    reason: str = ""
    doubt: str = ""
    wrong: frozenset[int] = frozenset()
    pieces: Sequence[tuple[str, bool]] = ()

    @property
    def right_captions(self) -> str:
        return "right captions of all languages" if self.among == ALL else "right captions"

    @property
    def fits(self) -> bool:
        """Whether the caption as a whole fits the photo, as far as the metric can tell."""
        return self.explanation.get("fits") is not False


def explained_captions(captions: Sequence[str], scores: Scores) -> list[ExplainedCaption]:
    """The n captions that were scored, with what the metric says of each."""
    kind = METRICS.get(scores.metric)
    columns = {"score": scores.scores, **scores.components}
    if kind.marks_words():
        columns = {name: scores.components[name] for name in ("precision", "recall")}
        columns["overall"] = scores.scores
    ranks = placed(scores)
    details = scores.details or [None] * len(captions)
    explained = []
    for row, caption in enumerate(captions):
        numbers = {name: float(values[row]) for name, values in columns.items()}
        wrong = scores.wrong_words(row)
        explained.append(
            ExplainedCaption(
                caption,
                scores.languages[row],
                details[row] or {},
                numbers,
                ranks.below[RIGHT][row],
                ranks.among[row],
                scores.found(row),
                scores.reason(row),
                kind.doubt({name: float(values[row]) for name, values in scores.components.items()}),
                frozenset(start for start, _, _ in wrong),
                marked_pieces(caption, [wrong]),
            )
        )
    return explained


def marked_pieces(caption: str, wrong: Iterable[Sequence[WrongWord]]) -> list[tuple[str, bool]]:
    """The caption in pieces, each with whether it is likely wrong, by what several metrics say.

    >>> marked_pieces("a red cat", [[(2, 5, "red")], [(2, 9, "red cat")]])
    [('a ', False), ('red cat', True), ('', False)]
    """
    spans: list[tuple[int, int]] = []
    for start, end, _ in sorted({word for words in wrong for word in words}):
        if spans and start < spans[-1][1]:
            start, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((start, end))
    pieces, last = [], 0
    for start, end in spans:
        pieces += [(caption[last:start], False), (caption[start:end], True)]
        last = end
    return [*pieces, (caption[last:], False)]


def percent(p: float) -> str:
    """A probability as printed.

    >>> percent(0.004), percent(0.142), percent(0.99), percent(0.999)
    ('< 1 %', '14 %', '99 %', '> 99 %')
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
        kind: "right", "wrong" (likely wrong) or "unsure" (cannot tell) for content words, "unseen" for words
            that were cut off, else "plain", as words are that need no mark in a caption that does not fit.
        region: Number of the region most like a content word, counted from 0; None if there is none.
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
    pieces: list[Segment] = []
    last = 0
    for word in sorted(caption.explanation["words"], key=lambda word: word["start"]):
        p, correct = word.get("p_correct"), word["correct"]
        if word["score"] is None:
            kind, p = "unseen", None
        elif not word["semantic"]:
            continue
        elif word["start"] in caption.wrong:
            kind = "wrong"
        elif correct:
            kind = "right"
        elif caption.fits and p is not None:
            kind = "unsure"
        else:
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


class Verdict(NamedTuple):
    """A sentence about a caption: what comes before the words that it names, these, and what follows."""

    before: str
    words: Sequence[Segment] = ()
    after: str = "."

    def __str__(self) -> str:
        return f"{self.before}{', '.join(f'{word.text} ({word.title})' for word in self.words)}{self.after}"


def verdict(caption: ExplainedCaption) -> Verdict:
    """What is said of a caption; it names the words that are likely wrong, or else the least likely one."""
    pieces = segments(caption)
    wrong = [piece for piece in pieces if piece.kind == "wrong"]
    if not caption.fits:
        if not wrong:
            return Verdict("This caption does not fit the photo; it has no word that can be judged")
        if all(piece.p is not None for piece in wrong):
            wrong.sort(key=lambda piece: piece.p or 0.0)
        return Verdict("This caption does not fit the photo. Least likely: ", wrong[:MAX_LEAST])
    if wrong:
        return Verdict("Likely wrong: ", wrong, f"{wrong_because(wrong)}.")
    known = [piece for piece in pieces if piece.p is not None]
    least = min(known, key=lambda piece: piece.p or 0.0, default=None)
    doubted = [least] if least is not None and (least.p or 0.0) < 0.5 else []
    if any(piece.kind == "right" for piece in pieces):
        return Verdict(f"No word looks wrong{'; least likely: ' * len(doubted)}", doubted)
    if any(piece.kind == "unsure" for piece in pieces):
        return Verdict(f"No word can be judged with this photo{'; least likely: ' * len(doubted)}", doubted)
    return Verdict("There is no content word, so none can be wrong")


# ---- regions ----


@dataclass(frozen=True)
class ShownRegion:
    """A region that is drawn.

    Attributes:
        number: Number from 1, mentioned regions first; the same on the photo and in the list.
        label: A name for what it shows: its own, or the word of the caption that is most like it, or else
            where it is in the photo.
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
        label, sign = self.label, {True: "✓", False: "✗"}[self.mentioned]
        if len(label) > 18:
            label = f"{label[:17]}…"
        return f"{sign} {self.number} {label}".rstrip()


def shown_regions(explanation: Mapping[str, Any]) -> list[ShownRegion]:
    """Mentioned regions, best score first; then at most `MAX_MISSED` missed ones, most confident first."""
    regions = explanation["regions"]
    words: dict[int, str] = {}
    for word in explanation["words"]:
        if word.get("word_class") == "noun" and word["correct"] and word.get("region") is not None:
            words.setdefault(word["region"], word["text"])
    mentioned, missed = _distinct(regions)
    mentioned.sort(key=lambda index: -(regions[index].get("p_mentioned") or regions[index]["score"]))
    shown = []
    for number, index in enumerate([*mentioned, *missed[:MAX_MISSED]], 1):
        region = regions[index]
        left, top, right, bottom = map(float, region["box"])
        label = region.get("name") or region["label"]
        if not label and region["mentioned"]:
            label = words.get(index, "")
        label, p = label or place_of(region["box"], explanation["image_size"]), region.get("p_mentioned")
        numbers = bool(region["mentioned"]), region["score"], region["confidence"]
        shown.append(ShownRegion(number, (left, top, right, bottom), *numbers, label, index, p))
    return shown


def place_of(box: Sequence[float], size: Sequence[float]) -> str:
    """Where a box is in a photo, in words.

    >>> [place_of(box, (40, 30)) for box in ((0, 0, 10, 10), (10, 8, 30, 25), (1, 1, 40, 30))]
    ['top left', 'middle', 'most of the photo']
    """
    left, top, right, bottom = map(float, box)
    width, height = map(float, size)
    if (right - left) * (bottom - top) > 0.6 * width * height:
        return "most of the photo"
    across = ("left", "", "right")[min(int(1.5 * (left + right) / width), 2)]
    down = ("top", "", "bottom")[min(int(1.5 * (top + bottom) / height), 2)]
    return f"{down} {across}".strip() or "middle"


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
    """Sentences besides the marks: the rank, words without a mark, words and regions that are missing."""
    explanation, found = caption.explanation, []
    if not math.isnan(caption.rank):
        found.append(f"Rank: {caption.rank:.0f} % of {caption.right_captions} have a lower overall score")
    unsure = [piece.text for piece in segments(caption) if piece.kind == "unsure"]
    if unsure:
        found.append(f"Cannot tell: {', '.join(unsure)}")
    if explanation["n_words_cut"]:
        found.append(f"Words past the limit, not scored: {explanation['n_words_cut']:,}")
    if not explanation["regions"]:
        found.append("No region was found in the photo")
    return found


def footnotes(caption: ExplainedCaption) -> list[str]:
    """Sentences that few readers need: regions that are not drawn, what numbers mean, the null token."""
    explanation = caption.explanation
    regions = explanation["regions"]
    mentioned, missed = _distinct(regions)
    found = []
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
    """A score as a bar from the middle of its track, zero: its start (0 to 1), and its share (0 to 0.5)."""

    label: str
    value: str
    start: float
    share: float


def bars_end(signature: str) -> float:
    """Where the bars of precision and recall end, the same on all pages of one signature."""
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
