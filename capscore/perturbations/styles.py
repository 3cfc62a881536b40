"""Right captions → the same in other styles that people score, made by rule: still right.

In: captions of one language. Out: restyled captions, each with the row of the caption that it is made of. A
metric that turns them away raises a false alarm. A restyled caption depends only on the caption, its style
and the language; a paragraph on the captions of its photo.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..text.languages import language_code
from ..text.segmentation import has_spaces
from ..text.word_classes import Word, tag
from .kinds import check_captions
from .unseen import NUMBERS
from .words import caption_random, is_punctuation, placed_words, without_stop

RULES = "styles2"  # in signatures; the number grows whenever the rules for a caption change
# Words of a noun phrase and of a paragraph, at most; a paragraph has at least two captions.
PHRASE = 5
PARAGRAPH = 120

_ARTICLES = {
    "de": "ein eine einen einem einer der die das den dem",
    "en": "a an the one",
    "es": "un una unos unas el la los las",
    "fr": "un une des le la les",
    "it": "un uno una il lo la i gli le",
    "nl": "een de het",
    "pt": "um uma uns umas o a os as",
    "tr": "bir iki üç dört beş",
}
_COUNTED = re.compile("[一两二三四五六七八九十几]+[个只条位名辆群些头匹张把]?")
# Words between two parts of a noun phrase
_TIES = {"ja": "の", "zh": "的"}
_ADJECTIVE_FOLLOWS = ("ar", "es", "fr", "it", "pt")
_VERB_IS_LAST = ("ja", "ko", "tr")


@dataclass(frozen=True)
class Restyled:
    """Captions in a style.

    Attributes:
        captions: m texts.
        rows: Row of the caption that each is made of; of a paragraph, its first caption.
    """

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

    Args:
        captions: n texts in one language.
        style: One of `STYLES`.
        language: Language code (see `capscore.text.languages.language_code`); None for English.
        photos: The photo of each caption, for paragraphs.

    Raises:
        InputError: an unknown style, no photos for paragraphs; a caption is not a string or is blank (the
            error names the row); the language has no tagger.
        MissingExtraError: the tagger of the language is not installed.

    >>> [restyle(["Two dogs play on the beach."], style).captions for style in STYLES[1:4]]
    [['two dogs play on the beach'], ['Two dogs play on the beach'], ['Two Dogs Play On The Beach.']]
    >>> restyle(["Two dogs play on the beach."], "fragment").captions
    ['play on the beach']
    """
    if style not in STYLES:
        raise InputError(f"style {style!r} is not one of {', '.join(STYLES)}", field="style")
    code = "en" if language is None else language_code(language)
    check_captions(captions)
    if style == "given":
        return Restyled(list(captions), list(range(len(captions))))
    if style == "paragraph":
        if len(photos) != len(captions):
            raise InputError(f"{len(photos)} photos for {len(captions)} captions", field="photos")
        return _paragraphs(captions, photos, code)
    texts: list[str | None]
    if style in _PARTS:
        tagged = tag(captions, code)
        texts = [_PARTS[style](text, words, code) for text, words in zip(captions, tagged, strict=True)]
    else:
        texts = [_WRITTEN[style](text, code) for text in captions]
    rows = [row for row, text in enumerate(texts) if text and text != captions[row]]
    return Restyled([texts[row] or "" for row in rows], rows)


def _lower(caption: str, code: str) -> str:
    if code == "tr":
        caption = caption.replace("İ", "i").replace("I", "ı")
    return without_stop(caption).lower()


def _upper(caption: str, code: str) -> str:
    return (caption.replace("i", "İ") if code == "tr" else caption).upper()


def _title(caption: str, code: str) -> str:
    parts, last = [], 0
    for start, end in placed_words(caption, code):
        parts += [caption[last:start], _upper(caption[start], code), caption[start + 1 : end]]
        last = end
    return "".join([*parts, caption[last:]])


def _bare(caption: str, code: str) -> str:
    places = placed_words(caption, code)
    between = " " if has_spaces(code) else ""
    return between.join(caption[start:end] for start, end in places)


_WRITTEN: dict[str, Callable[[str, str], str]] = {
    "lower": _lower,
    "bare": _bare,
    "title": _title,
    "capitals": _upper,
    "blanks": lambda caption, code: f"{caption}  ",
}


def _noun_phrase(caption: str, words: Sequence[Word], code: str) -> str | None:
    head = next((number for number, word in enumerate(words) if word.word_class == "noun"), None)
    if head is None:
        return None

    def joins(number: int) -> bool:
        """Whether no punctuation stands between a word and the next."""
        return not any(map(is_punctuation, caption[words[number].end : words[number + 1].start]))

    last = head
    while last + 1 < len(words) and joins(last):
        after = words[last + 1]
        ties = (
            after.text == _TIES.get(code) and last + 2 < len(words) and words[last + 2].word_class == "noun"
        )
        if not ties and (after.word_class != "noun" or _is_turkish_place(after.text, code)):
            break
        last += 2 if ties else 1
    if (
        code in _ADJECTIVE_FOLLOWS
        and last + 1 < len(words)
        and words[last + 1].word_class == "adjective"
        and joins(last)
    ):
        last += 1
    first = head
    while first and joins(first - 1):
        before = words[first - 1]
        tied = before.text == _TIES.get(code) and first > 1 and words[first - 2].word_class in _NAMING
        if before.word_class != "adjective" and not tied:
            break
        first -= 1
    if first and joins(first - 1) and _opens(words[first - 1].text, code):
        # "der schwarze Hund", but "schwarzer Hund"
        needed = code == "de" and words[first - 1].text.lower() in _DEFINITE and first < head
        if needed or caption_random(0, "article", caption).random() >= 0.4:
            first -= 1
    if last - first + 1 > PHRASE:
        return None
    text = caption[words[first].start : words[last].end]
    is_german_noun = code == "de" and words[first].word_class == "noun"
    return text if is_german_noun else _lower(text[0], code) + text[1:]


_NAMING = ("noun", "adjective")
_DEFINITE = ("der", "die", "das", "den", "dem")


def _is_turkish_place(word: str, code: str) -> bool:
    """Whether a noun says where something is, so that it belongs to the verb, not to the noun before it."""
    return code == "tr" and word.lower().endswith(("da", "de", "ta", "te", "dan", "den", "tan", "ten"))


def _opens(word: str, code: str) -> bool:
    """Whether a word is an article or a number."""
    lowered = word.lower()
    if code in ("zh", "ja"):
        return _COUNTED.fullmatch(word) is not None
    numbers = {form for row in NUMBERS.get(code, ()) for form in row.split() if form != "-"}
    return lowered in numbers or lowered in _ARTICLES.get(code, "").split()


def _stopped(caption: str, words: Sequence[Word], code: str) -> str | None:
    phrase = _noun_phrase(caption, words, code)
    return phrase and _upper(phrase[0], code) + phrase[1:] + ("." if has_spaces(code) else "。")


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
    stop, between = (". ", "") if has_spaces(code) else ("。", "")
    for rows in of_photo.values():
        sentences: list[str] = []
        length = 0
        for caption in rows:
            length += len(placed_words(caption, code))
            if length > PARAGRAPH:
                break
            sentence = without_stop(caption.strip())
            if sentence:
                sentences.append(_upper(sentence[0], code) + sentence[1:] + stop)
        if len(sentences) > 1:
            found.captions.append(between.join(sentences).rstrip())
            found.rows.append(next(iter(rows.values())))
    return found
