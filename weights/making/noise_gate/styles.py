"""A well-formed caption → the same in another style that people score, still well-formed.

In: a `MarkedText` and a random generator. Out: a text with the places of its words and objects, or None where
the caption has no such form: a caption without a verb has no fragment.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

from capscore.perturbations.words import Span, core, is_punctuation
from capscore.text.letters import lower as lower_case
from capscore.text.letters import upper as upper_case
from weights.making.jsonl import beside
from weights.making.noise_gate.texts import MarkedText, PlacedText

_LANGUAGES = beside(__file__, "languages.yaml")
_OPENERS = {language: frozenset(words.split()) for language, words in _LANGUAGES["openers"].items()}
# Languages without blanks between words.
UNSPACED = ("ja", "zh")
_MAX_WORDS = 5
_STOPS = ".!?…。！？．｡؟"
# Signs that stand in pairs.
_QUOTES = frozenset('"“”„«»‹›()[]（）「」『』《》')


def openers(text: PlacedText) -> set[int]:
    """The numbers of the words that open a noun phrase."""
    lowered = [lower_case(word, text.language) for word in text.cores()]
    return {number for number, word in enumerate(lowered) if word in _OPENERS[text.language]}


def lower(text: PlacedText) -> PlacedText | None:
    return _recased(text, lower_case(text.text, text.language))


def upper(text: PlacedText) -> PlacedText | None:
    return _recased(text, upper_case(text.text, text.language))


def title(text: PlacedText) -> PlacedText | None:
    """Every Word With a Capital, Short Ones Too."""
    letters = list(text.text)
    for start, end in text.words:
        for place in range(start, end):
            if letters[place].isalpha():
                letters[place] = upper_case(letters[place], text.language)
                break
    return _recased(text, "".join(letters))


def _recased(text: PlacedText, content: str) -> PlacedText | None:
    return replace(text, text=content) if len(content) == len(text.text) else None


def bare(text: PlacedText) -> PlacedText | None:
    """Without punctuation around words."""
    return _rewritten(text)


def lower_bare(text: PlacedText) -> PlacedText | None:
    lowered = lower(text)
    return lowered and bare(lowered)


def spaced(text: PlacedText) -> PlacedText | None:
    """With punctuation as words of their own, as tokenizers leave it ("a dog , running ."), in lower case."""
    lowered = lower(text)
    if lowered is None or text.language in UNSPACED or any(sign in _QUOTES for sign in text.text):
        return None
    return _rewritten(lowered, apart=True)


def _rewritten(text: PlacedText, *, apart: bool = False) -> PlacedText | None:
    """Words without the punctuation around them; `apart`: what stands behind one is a word of its own."""
    written = ""
    words: list[Span] = []
    moves = []  # where each word began, and how far it moves
    for number, (start, end) in enumerate(text.words):
        first, last = core(text.text, (start, end))
        if first == last:
            continue
        if words:
            gap = text.text[text.words[number - 1][1] : start]
            written += gap or ("" if text.language in UNSPACED else " ")
        moves.append((first, len(written) - first))
        words.append((len(written), len(written) + last - first))
        written += text.text[first:last]
        behind = text.text[last:end].strip()
        if apart and behind:
            words.append((len(written) + 1, len(written) + 1 + len(behind)))
            written += f" {behind}"
    objects = []
    for start, end in text.objects:
        before = [move for first, move in moves if first <= start]
        if before and end + before[-1] <= len(written):
            objects.append((start + before[-1], end + before[-1]))
    return PlacedText(written, text.language, tuple(words), tuple(objects)) if words else None


def unstopped(text: PlacedText) -> PlacedText | None:
    """Without the full stop at the end."""
    end = len(text.text)
    while end and (text.text[end - 1] in _STOPS or text.text[end - 1].isspace()):
        end -= 1
    return _part(text, 0, len(text.words), end) if 0 < end < len(text.text) else None


def unopened(text: PlacedText) -> PlacedText | None:
    """Without the article or number at its beginning: "man on a bench"."""
    n = len(text.words)
    return _part(text, 1, n, len(text.text)) if n > 2 and 0 in openers(text) else None


def finished(text: PlacedText, chance: random.Random) -> PlacedText | None:
    """As a sentence is written, with a capital and a full stop: "A bus." of "a bus"."""
    if is_punctuation(text.text[-1]) or text.text[-1].isspace():
        return None
    first = upper_case(text.text[0], text.language)
    stop = "。" if text.language in UNSPACED else "!" if chance.random() < 0.1 else "."
    return _closed(_recased(text, first + text.text[1:]) or text, stop)


def dated(text: PlacedText, chance: random.Random) -> PlacedText | None:
    """With a year behind it, as photos are labelled: "two dogs, 1987"."""
    if text.language in ("ar", "ja", "zh") or is_punctuation(text.text[-1]):
        return None
    return followed(_closed(text, ","), str(chance.randrange(1900, 2027)))


def followed(text: PlacedText, ending: str) -> PlacedText:
    """With an ending behind it, which counts as one word."""
    written = f"{text.text} {ending}"
    return replace(text, text=written, words=(*text.words, (len(text.text) + 1, len(written))))


def _closed(text: PlacedText, sign: str) -> PlacedText:
    """With a sign at its end, which belongs to the last word."""
    start, end = text.words[-1]
    return replace(text, text=text.text + sign, words=(*text.words[:-1], (start, end + len(sign))))


def in_blanks(text: PlacedText, chance: random.Random) -> PlacedText:
    """With blanks behind it, or a line break."""
    return replace(text, text=text.text + chance.choice((" ", "  ", "\n", " \n")))


def noun_phrase(marked: MarkedText, chance: random.Random) -> PlacedText | None:
    """A noun with what belongs to it, one to five words, with or without its article."""
    heads = _nouns(marked)
    if not heads:
        return None
    first, last = _phrase(marked, chance.choice(heads[:3]))
    if first in openers(marked) and first < last and chance.random() < 0.4:
        first += 1
    return _part(marked, first, last + 1)


def two_noun_phrases(marked: MarkedText, chance: random.Random) -> PlacedText | None:
    """Two nouns with what ties them: "a man on a bench", "dogs and cats"."""
    pairs = []
    for item, other in itertools.pairwise(_nouns(marked)):
        between = marked.classes[item + 1 : other]
        if between.strip("aj") == "" and 1 <= len(between) <= 4 and not _is_stopped(marked, item, other):
            pairs.append((item, other))
    if not pairs:
        return None
    item, other = chance.choice(pairs)
    first, _ = _phrase(marked, item)
    _, last = _phrase(marked, other)
    return _part(marked, first, last + 1) if last - first <= 7 else None


def fragment(marked: MarkedText, chance: random.Random) -> PlacedText | None:
    """The caption from a verb on: "playing in the street"."""
    n, words = len(marked.words), marked.cut(marked.words)
    if marked.language == "ja":
        spots = [number for number in range(1, n - 1) if words[number - 1] in ("が", "は")]
    else:
        spots = [number for number in range(1, n - 1) if marked.classes[number] == "v"]
    if not spots:
        return None
    found = _part(marked, chance.choice(spots[:2]), n, len(marked.text))
    return unstopped(found) or found if found is not None and chance.random() < 0.7 else found


def shortened(marked: MarkedText, chance: random.Random) -> PlacedText | None:
    """The caption up to one of its nouns: "A man rides a wave", of "A man rides a wave on his board"."""
    if marked.language not in _LANGUAGES["may_end"]:
        return None
    classes = marked.classes
    nouns = [number for number in _nouns(marked) if number >= 2 and "v" in classes[:number]]
    spots = [number for number in nouns if classes[number + 1 : number + 2] == "a"]
    return _part(marked, 0, chance.choice(spots) + 1) if spots else None


def cut_short(marked: MarkedText, chance: random.Random) -> PlacedText | None:
    """The caption up to a word that needs another behind it, "A man in front of the"; None if none does.

    Such a word is an opener, a preposition or the like before a noun, its adjective or its opener.
    """
    if marked.language not in _LANGUAGES["may_cut"]:
        return None
    opening, classes = openers(marked), marked.classes
    spots = [
        number
        for number in range(2, len(classes))
        if (classes[number] in "nj" or number in opening)
        and not _is_stopped(marked, number - 1, number)
        and (number - 1 in opening or (classes[number - 1] == "a" and number > 3))
    ]
    return _part(marked, 0, chance.choice(spots)) if spots else None


def _nouns(marked: MarkedText) -> list[int]:
    return [number for number, letter in enumerate(marked.classes) if letter == "n"]


def _phrase(marked: MarkedText, head: int) -> Span:
    """First and last word of the phrase around a noun."""
    classes, language = marked.classes, marked.language
    ties = _LANGUAGES["ties"].get(language, ())
    first = head
    while first > 0 and head - first + 1 < _MAX_WORDS and not _is_stopped(marked, first - 1, first):
        letter = classes[first - 1]
        word = marked.text[slice(*marked.words[first - 1])].lower()
        if word in _OPENERS[language]:
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


def _part(text: PlacedText, first: int, last: int, end: int | None = None) -> PlacedText | None:
    """The words from `first` to before `last`, up to the place `end` or without punctuation at the end."""
    start = text.words[first][0]
    if end is None:
        _, end = core(text.text, text.words[last - 1])
    while start < end and (is_punctuation(text.text[start]) or text.text[start].isspace()):
        start += 1
    words = [(max(a, start) - start, min(b, end) - start) for a, b in text.words[first:last]]
    words = [(a, b) for a, b in words if a < b]  # without those of punctuation that falls away
    objects = tuple((a - start, b - start) for a, b in text.objects if a >= start and b <= end)
    return PlacedText(text.text[start:end], text.language, tuple(words), objects) if words else None
