"""Right captions → the same captions in other styles; a metric that turns them away raises a false alarm.

A restyled caption depends only on the caption, its style and the language; a paragraph on the captions of its
photo.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..errors import InputError
from ..text.languages import stated_code
from ..text.letters import lower, upper
from ..text.segmentation import has_spaces
from ..text.word_classes import Word, tag
from .kinds import check_captions
from .rules import listed, rule
from .words import caption_random, is_punctuation, join, placed_words, with_texts, without_stop

RULES = "styles2"  # in signatures; the number grows whenever the rules for a caption change
# Words of a noun phrase and of a paragraph, at most; a paragraph has at least two captions.
PHRASE = 5
PARAGRAPH = 120

_COUNTED = re.compile("[一两二三四五六七八九十几]+[个只条位名辆群些头匹张把]?")
# Words between two parts of a noun phrase
_TIES = {"ja": "の", "zh": "的"}
_ADJECTIVE_FOLLOWS = ("ar", "es", "fr", "it", "pt")
_VERB_IS_LAST = ("ja", "ko", "tr")


@dataclass(frozen=True)
class Restyled:
    """Captions in a style."""

    captions: list[str]
    rows: list[int]


def restyle(
    captions: Sequence[str], style: str, language: str | None = None, *, photos: Sequence[Hashable] = ()
) -> Restyled:
    """Write captions in another style.

    - given: as they are.
    - lower: in lower case, without the stop at the end.
    - bare: without punctuation around words.
    - title: Every Word With a Capital.
    - capitals: IN CAPITALS.
    - blanks: with two blanks at the end.
    - nouns: the first noun of the caption with its adjectives, number or article, one to five words; in two
      of five captions without the number or article.
    - stopped: the same phrase with a capital and a full stop ("A red bus.").
    - fragment: the caption from its verb on ("playing in the street"); from the second noun on where verbs
      come last.
    - paragraph: two or more captions of one photo as sentences, at most 120 words; once per photo.

    A caption is left out if it has no such form, or if the style leaves it as it is.

    >>> [restyle(["Two dogs play on the beach."], style).captions for style in STYLES[1:4]]
    [['two dogs play on the beach'], ['Two dogs play on the beach'], ['Two Dogs Play On The Beach.']]
    >>> restyle(["Two dogs play on the beach."], "fragment").captions
    ['play on the beach']
    """
    if style not in STYLES:
        raise InputError(f"style {style!r} is not one of {', '.join(STYLES)}", field="style")
    code = stated_code(language)
    check_captions(captions)
    if style == "given":
        return Restyled(list(captions), list(range(len(captions))))
    if style == "paragraph":
        if len(photos) != len(captions):
            raise InputError(f"{len(photos)} photos for {len(captions)} captions", field="photos")
        return _paragraphs(captions, photos, code)
    restyled = Restyled([], [])
    tagged: list[list[Word]] = [[] for _ in captions]
    if style in _PARTS:
        tagged = tag(captions, code)
    for row, (caption, words) in enumerate(zip(captions, tagged, strict=True)):
        text = _PARTS[style](caption, words, code) if style in _PARTS else _WRITTEN[style](caption, code)
        if text and text != caption:
            restyled.captions.append(text)
            restyled.rows.append(row)
    return restyled


def _lower(caption: str, code: str) -> str:
    return lower(without_stop(caption), code)


def _title(caption: str, code: str) -> str:
    firsts = [(start, start + 1) for start, _ in placed_words(caption, code)]
    return with_texts(caption, firsts, [upper(caption[start], code) for start, _ in firsts])


def _bare(caption: str, code: str) -> str:
    return join([caption[start:end] for start, end in placed_words(caption, code)], code)


def _blanks(caption: str, code: str) -> str:
    return f"{caption}  "


_WRITTEN: dict[str, Callable[[str, str], str]] = {
    "lower": _lower,
    "bare": _bare,
    "title": _title,
    "capitals": upper,
    "blanks": _blanks,
}


def _noun_phrase(caption: str, words: Sequence[Word], code: str) -> str | None:
    texts = [*(word.text for word in words), ""]
    classes = [*(word.word_class for word in words), "", ""]
    if "noun" not in classes:
        return None
    gaps = [caption[before.end : after.start] for before, after in pairwise(words)]
    # whether a word and the one before it stand together, without punctuation
    joined = [False, *(not any(map(is_punctuation, gap)) for gap in gaps), False]
    tie = _TIES.get(code)

    last = first = classes.index("noun")
    while joined[last + 1]:
        if texts[last + 1] == tie and classes[last + 2] == "noun":
            last += 2
        elif classes[last + 1] == "noun" and not _is_turkish_place(texts[last + 1], code):
            last += 1
        else:
            break
    if code in _ADJECTIVE_FOLLOWS and joined[last + 1] and classes[last + 1] == "adjective":
        last += 1
    has_adjective = False
    while joined[first]:
        is_tied = texts[first - 1] == tie and classes[first - 2] in ("noun", "adjective")
        if classes[first - 1] != "adjective" and not is_tied:
            break
        first -= 1
        has_adjective = True
    if joined[first] and _opens(texts[first - 1], code):
        # "der schwarze Hund", but "schwarzer Hund"
        needed = code == "de" and has_adjective and lower(texts[first - 1], code) in _DEFINITE
        if needed or caption_random(0, "article", caption).random() >= 0.4:
            first -= 1
    if last - first + 1 > PHRASE:
        return None
    text = caption[words[first].start : words[last].end]
    if code == "de" and classes[first] == "noun":
        return text
    return _lower(text[0], code) + text[1:]


_DEFINITE = ("der", "die", "das", "den", "dem")


def _is_turkish_place(word: str, code: str) -> bool:
    """Whether a noun says where something is, so that it belongs to the verb, not to the noun before it."""
    return code == "tr" and lower(word, code).endswith(("da", "de", "ta", "te", "dan", "den", "tan", "ten"))


def _opens(word: str, code: str) -> bool:
    """Whether a word is an article or a number."""
    if code in ("zh", "ja"):
        return _COUNTED.fullmatch(word) is not None
    numbers = " ".join(rule(code, "numbers") or ()).split()
    return lower(word, code) in (*numbers, *listed(code, "articles"))


def _sentence(text: str, code: str) -> str:
    """The text with a capital and a full stop."""
    stop = "." if has_spaces(code) else "。"
    return upper(text[0], code) + text[1:] + stop


def _stopped(caption: str, words: Sequence[Word], code: str) -> str | None:
    phrase = _noun_phrase(caption, words, code)
    return phrase and _sentence(phrase, code)


def _fragment(caption: str, words: Sequence[Word], code: str) -> str | None:
    classes = [word.word_class for word in words]
    if code in _VERB_IS_LAST:
        nouns = [number for number, name in enumerate(classes) if name == "noun"]
        first = nouns[1] if len(nouns) > 1 else 0
        while first > 0 and classes[first - 1] == "adjective":
            first -= 1
    else:
        first = next((number for number, name in enumerate(classes) if name == "verb"), 0)
        while 0 < first < len(words) - 1 and classes[first + 1] == "verb":
            first += 1
    if not 0 < first <= len(words) - 2:
        return None
    return without_stop(caption[words[first].start :])


_PARTS: dict[str, Callable[[str, Sequence[Word], str], str | None]] = {
    "nouns": _noun_phrase,
    "stopped": _stopped,
    "fragment": _fragment,
}
STYLES = ("given", *_WRITTEN, *_PARTS, "paragraph")


def _paragraphs(captions: Sequence[str], photos: Sequence[Hashable], code: str) -> Restyled:
    of_photo: dict[Hashable, dict[str, int]] = {}
    for row, (caption, photo) in enumerate(zip(captions, photos, strict=True)):
        of_photo.setdefault(photo, {}).setdefault(caption, row)
    found = Restyled([], [])
    for rows in of_photo.values():
        sentences: list[str] = []
        length = 0
        for caption in rows:
            length += len(placed_words(caption, code))
            if length > PARAGRAPH:
                break
            if text := without_stop(caption.strip()):
                sentences.append(_sentence(text, code))
        if len(sentences) > 1:
            found.captions.append(join(sentences, code))
            found.rows.append(next(iter(rows.values())))
    return found
