"""A well-formed caption → the same in another style that people score, still well-formed.

In: a `MarkedText` and a random generator. Out: a text with the places of its words and objects, or None where
the caption has no such form: a caption without a verb has no fragment.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capscore.perturbations.words import Span, is_punctuation
from capscore.text.letters import lower as lower_case
from capscore.text.letters import upper as upper_case
from weights.making.jsonl import beside
from weights.making.noise_gate.texts import MarkedText

_LANGUAGES = beside(__file__, "languages.yaml")
_OPENERS = {language: frozenset(words.split()) for language, words in _LANGUAGES["openers"].items()}
# Languages without blanks between words.
UNSPACED = ("ja", "zh")
_MAX_WORDS = 5
_STOPS = ".!?…。！？．｡؟"
# Signs that stand in pairs.
_QUOTES = frozenset('"“”„«»‹›()[]（）「」『』《》')


@dataclass(frozen=True, slots=True)
class Styled:
    text: str
    language: str
    words: tuple[Span, ...]  # punctuation is with the word before it
    objects: tuple[Span, ...]
    openers: frozenset[int] = frozenset()  # numbers of the words that open a noun phrase

    def cut(self, places: Sequence[Span]) -> list[str]:
        return [self.text[start:end] for start, end in places]


def as_written(text: MarkedText) -> Styled:
    openers = _OPENERS[text.language]
    opening = frozenset(
        number
        for number, (start, end) in enumerate(text.words)
        if lower_case(text.text[slice(*core(text.text, start, end))], text.language) in openers
    )
    return Styled(text.text, text.language, text.words, text.objects, opening)


def core(text: str, start: int, end: int) -> Span:
    """A word's place without the punctuation around it."""
    while start < end and is_punctuation(text[start]):
        start += 1
    while end > start and is_punctuation(text[end - 1]):
        end -= 1
    return start, end


def lower(text: Styled) -> Styled | None:
    return _recased(text, lower_case(text.text, text.language))


def upper(text: Styled) -> Styled | None:
    return _recased(text, upper_case(text.text, text.language))


def title(text: Styled) -> Styled | None:
    """Every Word With a Capital, Short Ones Too."""
    letters = list(text.text)
    for start, end in text.words:
        for place in range(start, end):
            if letters[place].isalpha():
                letters[place] = upper_case(letters[place], text.language)
                break
    return _recased(text, "".join(letters))


def _recased(text: Styled, content: str) -> Styled | None:
    return replace(text, text=content) if len(content) == len(text.text) else None


def bare(text: Styled) -> Styled | None:
    """Without punctuation around words."""
    return _rewritten(text, "")


def lower_bare(text: Styled) -> Styled | None:
    lowered = lower(text)
    return None if lowered is None else bare(lowered)


def spaced(text: Styled) -> Styled | None:
    """With punctuation as words of their own, as tokenizers leave it ("a dog , running ."), in lower case."""
    lowered = lower(text)
    if lowered is None or text.language in UNSPACED or any(sign in _QUOTES for sign in text.text):
        return None
    return _rewritten(lowered, " ")


def _rewritten(text: Styled, apart: str) -> Styled | None:
    """Words without the punctuation around them; with `apart`, the punctuation behind follows it."""
    written = ""
    words: list[Span] = []
    openers = []
    new_start: dict[int, int] = {}  # start of a word in the text → in the new one
    for number, (start, end) in enumerate(text.words):
        first, last = core(text.text, start, end)
        if first == last:
            continue
        if words:
            gap = text.text[text.words[number - 1][1] : start]
            written += gap or ("" if text.language in UNSPACED else " ")
        if number in text.openers:
            openers.append(len(words))
        new_start[first] = len(written)
        words.append((len(written), len(written) + last - first))
        written += text.text[first:last]
        behind = text.text[last:end].strip()
        if apart and behind:
            words.append((len(written) + len(apart), len(written) + len(apart) + len(behind)))
            written += apart + behind
    if not words:
        return None
    objects = []
    for start, end in text.objects:
        word = max((first for first in new_start if first <= start), default=None)
        if word is not None and (begin := new_start[word] + start - word) + end - start <= len(written):
            objects.append((begin, begin + end - start))
    return Styled(written, text.language, tuple(words), tuple(objects), frozenset(openers))


def unstopped(text: Styled) -> Styled | None:
    """Without the full stop at the end."""
    end = len(text.text)
    while end and (text.text[end - 1] in _STOPS or text.text[end - 1].isspace()):
        end -= 1
    return _part(text, 0, len(text.words), end) if 0 < end < len(text.text) else None


def unopened(text: Styled) -> Styled | None:
    """Without the article or number at its beginning: "man on a bench"."""
    n = len(text.words)
    return _part(text, 1, n, len(text.text)) if 0 in text.openers and n > 2 else None


def finished(text: Styled, chance: random.Random) -> Styled | None:
    """As a sentence is written, with a capital and a full stop: "A bus." of "a bus"."""
    if not text.text or is_punctuation(text.text[-1]) or text.text[-1].isspace():
        return None
    first = upper_case(text.text[0], text.language)
    stop = "。" if text.language in UNSPACED else "!" if chance.random() < 0.1 else "."
    return _closed(_recased(text, first + text.text[1:]) or text, stop)


def dated(text: Styled, chance: random.Random) -> Styled | None:
    """With a year behind it, as photos are labelled: "two dogs, 1987"."""
    if text.language in ("ar", "ja", "zh") or not text.text or is_punctuation(text.text[-1]):
        return None
    return followed(_closed(text, ","), str(chance.randrange(1900, 2027)))


def followed(text: Styled, ending: str) -> Styled:
    """With an ending behind it, which counts as one word."""
    written = f"{text.text} {ending}"
    return replace(text, text=written, words=(*text.words, (len(text.text) + 1, len(written))))


def _closed(text: Styled, sign: str) -> Styled:
    """With a sign at its end, which belongs to the last word."""
    start, end = text.words[-1]
    return replace(text, text=text.text + sign, words=(*text.words[:-1], (start, end + len(sign))))


def in_blanks(text: Styled, chance: random.Random) -> Styled:
    """With blanks behind it, or a line break."""
    return replace(text, text=text.text + chance.choice((" ", "  ", "\n", " \n")))


def noun_phrase(marked: MarkedText, chance: random.Random) -> Styled | None:
    """A noun with what belongs to it, one to five words, with or without its article."""
    heads = [number for number, letter in enumerate(marked.classes) if letter == "n"]
    if not heads:
        return None
    first, last = _phrase(marked, chance.choice(heads[:3]))
    text = as_written(marked)
    if first in text.openers and first < last and chance.random() < 0.4:
        first += 1
    return _unstopped_part(text, first, last + 1)


def two_noun_phrases(marked: MarkedText, chance: random.Random) -> Styled | None:
    """Two nouns with what ties them: "a man on a bench", "dogs and cats"."""
    heads = [number for number, letter in enumerate(marked.classes) if letter == "n"]
    pairs = []
    for item, other in itertools.pairwise(heads):
        between = marked.classes[item + 1 : other]
        if between.strip("aj") == "" and 1 <= len(between) <= 4 and not _is_stopped(marked, item, other):
            pairs.append((item, other))
    if not pairs:
        return None
    item, other = chance.choice(pairs)
    first, _ = _phrase(marked, item)
    _, last = _phrase(marked, other)
    if last - first > 7:
        return None
    return _unstopped_part(as_written(marked), first, last + 1)


def fragment(marked: MarkedText, chance: random.Random) -> Styled | None:
    """The caption from a verb on: "playing in the street"."""
    n = len(marked.classes)
    if marked.language == "ja":
        spots = [
            number + 1
            for number, (start, end) in enumerate(marked.words[:-2])
            if marked.text[start:end] in ("が", "は")
        ]
    else:
        spots = [number for number in range(1, n - 1) if marked.classes[number] == "v"]
    spots = [spot for spot in spots if "n" in marked.classes[spot:] or n - spot >= 2]
    if not spots:
        return None
    styled = _part(as_written(marked), chance.choice(spots[:2]), n, len(marked.text))
    return unstopped(styled) or styled if styled is not None and chance.random() < 0.7 else styled


def shortened(marked: MarkedText, chance: random.Random) -> Styled | None:
    """The caption up to one of its nouns: "A man rides a wave", of "A man rides a wave on his board"."""
    if marked.language not in _LANGUAGES["may_end"]:
        return None
    classes = marked.classes
    spots = [
        number
        for number in range(2, len(classes) - 1)
        if classes[number] == "n" and classes[number + 1] == "a" and "v" in classes[:number]
    ]
    return _unstopped_part(as_written(marked), 0, chance.choice(spots) + 1) if spots else None


def cut_short(marked: MarkedText, chance: random.Random) -> Styled | None:
    """The caption up to a word that needs another behind it, "A man in front of the"; None if none does.

    Such a word is an opener, a preposition or the like before a noun, its adjective or its opener.
    """
    if marked.language not in _LANGUAGES["may_cut"]:
        return None
    text, classes = as_written(marked), marked.classes
    spots = [
        number
        for number in range(2, len(classes))
        if (classes[number] in "nj" or number in text.openers)
        and not _is_stopped(marked, number - 1, number)
        and (number - 1 in text.openers or (classes[number - 1] == "a" and number > 3))
    ]
    return _unstopped_part(text, 0, chance.choice(spots)) if spots else None


def _phrase(marked: MarkedText, head: int) -> Span:
    """First and last word of the phrase around a noun."""
    classes, language = marked.classes, marked.language
    openers, ties = _OPENERS[language], _LANGUAGES["ties"].get(language, ())
    first = head
    while first > 0 and head - first + 1 < _MAX_WORDS and not _is_stopped(marked, first - 1, first):
        letter = classes[first - 1]
        word = marked.text[slice(*marked.words[first - 1])].lower()
        if word in openers:
            first -= 1
            break
        if letter == "j" or (letter == "n" and language in ("en", "zh", "ja", "ko", "tr")):
            first -= 1
        elif word in ties and first > 1 and classes[first - 2] in "nj":
            first -= 2
        else:
            break
    last = head
    while (
        language in _LANGUAGES["adjective_after"]
        and last + 1 < len(classes)
        and classes[last + 1] == "j"
        and last - first + 1 < _MAX_WORDS
        and not _is_stopped(marked, last, last + 1)
    ):
        last += 1
    return first, last


def _is_stopped(marked: MarkedText, first: int, second: int) -> bool:
    """Whether punctuation stands between two words."""
    between = marked.text[marked.words[first][1] - 1 : marked.words[second][0] + 1]
    return any(is_punctuation(sign) for sign in between)


def _unstopped_part(text: Styled, first: int, last: int) -> Styled | None:
    return _part(text, first, last, core(text.text, *text.words[last - 1])[1])


def _part(text: Styled, first: int, last: int, end: int) -> Styled | None:
    """The words from `first` to before `last`, up to the place `end`."""
    start = text.words[first][0]
    while start < end and (is_punctuation(text.text[start]) or text.text[start].isspace()):
        start += 1
    # words of punctuation alone may fall away
    kept = {
        number: (max(a, start) - start, min(b, end) - start)
        for number, (a, b) in enumerate(text.words[first:last], first)
        if min(b, end) > max(a, start)
    }
    if not kept:
        return None
    return Styled(
        text.text[start:end],
        text.language,
        tuple(kept.values()),
        tuple((a - start, b - start) for a, b in text.objects if a >= start and b <= end),
        frozenset(index for index, number in enumerate(kept) if number in text.openers),
    )
