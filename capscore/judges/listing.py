"""What a model lists as the claims of a caption → claims, and where each stands in the caption.

In: the caption, and the model's answer to `LIST`. Out: a `Split`. The answer may be JSON, a list with bullets
or numbers, or one claim per line. A claim that shares no word with the caption is not the caption's, and is
dropped; if none is left, the caption is split by the rules of `capscore.text.claims`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from ..text.claims import Claim, claims
from ..text.letters import lower
from ..text.reasoning import without_reasoning

LIST = (
    'Here is a description of a photo: "{caption}"\n'
    "List every claim that it makes about the photo. Write each claim as one short sentence that can be "
    "understood alone, in the language and with the words of the description. Add nothing of your own. "
    "Answer with a JSON list of strings."
)
MAX_LISTED = 64  # claims of a caption
MAX_TOKENS = 768  # of an answer
_MARKED = re.compile(r"\s*(?:[-*•–—·▪●]|[(\[]?\d{1,3}(?:[.)\]:]|\s*[-–]\s)|\(?[a-zA-Z][.)])\s*(.*)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_KEYS = ("claims", "statements", "claim", "statement", "text")
_EDGES = " \t\r\n\"'“”„«»`*_,;"
# Two characters of a script that has no blanks between words, not both hiragana; or a word
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fff\u3040-\ud7ff"
_WORD = re.compile(
    rf"(?=((?![ぁ-ゟ]{{2}})[{_UNSPACED}]{{2}}))|((?<![{_UNSPACED}])[{_UNSPACED}](?![{_UNSPACED}])|[^\W{_UNSPACED}]+)"
)
# Words of claims that say nothing of a photo (en de fr es it pt nl)
_EMPTY = frozenset(
    "the a an and or of in on at to is are was were be been has have had it its there this that these those "
    "with from for by as their they he she his her some photo image picture description caption shows shown "
    "der die das den dem ein eine einen einem einer und oder ist sind hat haben auf im mit es gibt von bild "
    "foto le la les un une des du et ou est sont il elle avec sur dans el los las una y o es son hay con en "
    "de se lo gli uno ed ha c'è che per os as uma há com em no na het een en op met zijn er".split()
)


class Split(NamedTuple):
    """The claims of a text.

    Attributes:
        claims: Claims, each with its place; of one that is not in the text word for word, the place of the
            clause that has most of its words.
        is_listed: Whether the model listed them; the rules split the text otherwise.
        dropped: What the model listed beyond them.
    """

    claims: list[Claim]
    is_listed: bool
    dropped: list[str]


def split_by(answer: str, text: str) -> Split:
    """The claims of a text by a model's answer.

    >>> found = split_by('["A dog runs", "The dog is brown", "A cat"]', "A brown dog runs.")
    >>> [claim.text for claim in found.claims], found.dropped
    (['A dog runs', 'The dog is brown'], ['A cat'])
    >>> split_by("I cannot do that.", "A dog runs; it is brown.").is_listed
    False
    """
    by_rule, known = claims(text), _words(text)
    found: list[Claim] = []
    dropped: list[str] = []
    for listed in listed_claims(answer):
        if len(found) < MAX_LISTED and _shares(_words(listed), known):
            found.append(Claim(*_place(listed, text, by_rule), listed))
        else:
            dropped.append(listed)
    return Split(found or by_rule, bool(found), dropped)


def listed_claims(answer: str) -> list[str]:
    """The claims that an answer lists, each once; [] if it is no list.

    >>> listed_claims("Here they are:\\n1. A dog runs.\\n2. It is **brown**.")
    ['A dog runs.', 'It is brown.']
    >>> listed_claims('```json\\n["A dog runs", "It is')
    ['A dog runs']
    """
    answer = without_reasoning(answer)
    texts = _from_json(answer) or _from_lines(answer.splitlines())
    trimmed = (re.sub(r"\*\*|__|`", "", text).strip(_EDGES) for text in texts)
    return [*dict.fromkeys(text for text in trimmed if re.search(r"\w", text))]


def _from_json(answer: str) -> list[str]:
    """The strings of the first JSON list in an answer; of one that was cut off, those that are whole."""
    start = answer.find("[")
    if start < 0:
        return []
    with suppress(ValueError, RecursionError):
        return [*_strings(json.JSONDecoder(strict=False).raw_decode(answer[start:])[0])]
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        return [*_strings(ast.literal_eval(answer[start : answer.rfind("]") + 1]))]
    found = []
    for string in _STRING.findall(answer, start):
        with suppress(ValueError):
            found.append(json.loads(string, strict=False))
    return [text for text in found if text not in _KEYS]


def _strings(value: object) -> Iterator[str]:
    """The claims in decoded JSON: strings, or objects that hold one by a usual name."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        yield from _strings(next((value[key] for key in _KEYS if key in value), None))


def _from_lines(lines: Iterable[str]) -> list[str]:
    """Lines with a bullet or a number; without any, all of several lines, but for one that announces them."""
    lines = [line for line in lines if line.strip(f"{_EDGES}#")]
    marked = [match[1] for match in map(_MARKED.fullmatch, lines) if match]
    if marked:
        return marked
    plain = [line for line in lines if not line.rstrip().endswith((":", "："))]
    return plain if len(plain) > 1 else []


def _words(text: str) -> set[str]:
    """Words with a meaning; of scripts without blanks, two neighbouring characters each."""
    found = {pair or word for pair, word in _WORD.findall(lower(text))}
    return (found - _EMPTY) or found


def _shares(some: set[str], others: set[str]) -> int:
    """Number of words that are among others: the same, or with the same first four letters."""
    beginnings = {word[:4] for word in others if len(word) >= 4}
    return sum(word in others or (len(word) >= 4 and word[:4] in beginnings) for word in some)


def _place(listed: str, text: str, by_rule: list[Claim]) -> tuple[int, int]:
    """Where a claim stands: its own words, or the clause that shares most words with it."""
    if match := re.search(re.escape(listed.rstrip(".。")), text, re.IGNORECASE):
        return match.span()
    words = _words(listed)
    nearest = max(by_rule, key=lambda clause: _shares(words, _words(clause.text)))
    return nearest.start, nearest.end
