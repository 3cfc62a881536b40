"""A seed → photo captions that describe the same scenes in many languages, with the places of their nouns.

The captions teach networks which captions are plausible: subjects do only what such subjects do ("a dog
catches a frisbee"), so that a caption with swapped nouns can be recognised. grammar/README.md describes the
files.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple
from zlib import crc32

from capscore.errors import CapscoreError, InputError
from weights.making.caption_scenes import FOLDER, Scene, Scenes, concepts, read_grammar

LANGUAGES = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh")

# Share of captions without an initial capital, and without a full stop.
LOWER_CASE, NO_STOP = 0.15, 0.4

_CATEGORY = {
    "S": "subjects",
    "R": "subjects",
    "C": "clothing",
    "K": "companions",
    "P": "places",
    "T": "times",
    "O": "things",
    "Q": "things",
    "V": "views",
    "H": "holders",
    "A": "actions",
    "B": "actions",
}
_CONTROLLER = {"B": "R", "O": "O", "Q": "Q", "R": "R"}  # slot → slot that it agrees with; S for all others
_SLOT = re.compile(r"\{(\w+)((?:\^\w)*)(?::([\w.]+))?(?:@(\w))?\}")
_GROUP = re.compile(r"\(([^()]*)\)")
_FORMS = re.compile(r"\{([^{}]*)\}")
_AGREEING = re.compile(r"<([^<>]*)>")
_THING = re.compile(r"\$([OQ])(?:\.(\w+))?")


class Caption(NamedTuple):
    """A caption, and (start, end) of each noun that may swap with another, in characters, in order."""

    text: str
    nouns: tuple[tuple[int, int], ...]


def generate(n: int, languages: Sequence[str] = LANGUAGES, seed: int = 0) -> list[dict[str, Caption]]:
    """Captions of n scenes, each a dict from language to its `Caption`; InputError for one without a grammar.

    Scene i and its words depend on the seed alone, not on n or the other languages.
    """
    grammars = {language: load(language) for language in languages}
    scenes = Scenes(seed)
    made = []
    for _ in range(n):
        scene = scenes.draw()
        made.append({language: grammar.say(scene) for language, grammar in grammars.items()})
    return made


@cache
def load(language: str) -> Grammar:
    """The grammar of a language, read once; raises InputError if it has none."""
    if language not in LANGUAGES:
        raise InputError(f"no caption grammar for {language!r}, only for {', '.join(LANGUAGES)}")
    return Grammar(language, read_grammar(FOLDER / f"{language}.json"))


class _Phrase(NamedTuple):
    text: str
    agreement: str  # "" without any


_Piece = tuple[str, tuple[tuple[int, int], ...]]


class Grammar:
    """A language's file, as grammar/README.md describes it → captions of scenes."""

    def __init__(self, language: str, data: dict[str, Any]):
        self._salt = crc32(language.encode())
        self._agreement: list[str] = data["agreement"]
        self._verbs: dict[str, Any] = data["verbs"]
        self._forms = {
            "things": data.get("thing_forms", [""]),
            "subjects": data.get("subject_forms", [""]),
            "places": data.get("place_forms", [""]),
            "actions": data["verb_forms"],
        }
        self._object_form: str = data.get("object_form", self._forms["things"][0])
        self._words: dict[str, str] = data.get("words", {})
        self._space: str = data.get("space", " ")
        self._stop: str = data.get("stop", ".")
        self._capitals: dict[str, str] = data.get("capitals", {})
        self._joins: list[tuple[str, str]] = [tuple(pair) for pair in data.get("joins", [])]
        self._phrases = {name: self._read_category(name, data[name]) for name in set(_CATEGORY.values())}
        self._templates = data["templates"]
        self._suitable = cache(self._suitable_templates)

    def _read_category(self, category: str, entries: dict[str, str | list[str]]) -> dict[str, list[_Phrase]]:
        if missing := set(concepts()[category]) ^ set(entries):
            raise CapscoreError(f"{category}: missing or unknown {sorted(missing)}")

        def phrase(text: str) -> _Phrase:
            key, colon, rest = text.partition(":")
            place_of_action = category == "actions" and colon and key in self._forms["places"]
            has_key = category in ("subjects", "things") or place_of_action
            return _Phrase(rest.strip(), key) if has_key else _Phrase(text.strip(), "")

        return {
            concept: [phrase(text) for text in ([given] if isinstance(given, str) else given)]
            for concept, given in entries.items()
        }

    def say(self, scene: Scene) -> Caption:
        state = (scene.style * 0x9E3779B97F4A7C15 + self._salt * 0xD1342543DE82EF95) & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 29
        state = state * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 32
        draw, case, stop = ((state >> shift & 0xFFFF) / 0x10000 for shift in (0, 16, 32))
        wording = state >> 48

        phrases: dict[str, _Phrase] = {}
        for number, (slot, concept) in enumerate(scene.slots.items()):
            choices = self._phrases[_CATEGORY[slot]][concept]
            phrases[slot] = choices[(wording >> number) % len(choices)]
        weights, templates = self._suitable(scene.kind, frozenset(scene.slots))
        template = templates[bisect(weights, draw * weights[-1])] if len(templates) > 1 else templates[0]
        text, nouns = self._joined([piece for part in template for piece in self._said(*part, phrases)])
        if case >= LOWER_CASE:
            text = self._capitals.get(text[0], text[0].upper()) + text[1:]
        return Caption(f"{text}{self._stop}" if stop >= NO_STOP else text, nouns)

    def _suitable_templates(self, kind: str, present: frozenset[str]) -> tuple[list[float], list[_Template]]:
        """Templates that say all of these slots: cumulated weights and the templates."""
        # things are said by their holder or their action
        inside = {"O", "Q"} if "H" in present else {"O"} if "A" in present else set()
        found = []
        for text, weight in self._templates[kind].items():
            template = _compile(text)
            needed = {name for items, optional in template if not optional for name in _slots(items)}
            said = {name for items, _ in template for name in _slots(items, inserted=True)}
            if needed <= present and present - inside <= said:
                found.append((weight, template))
        if not found:
            raise CapscoreError(f"templates, {kind}: none says {sorted(present)}")
        weights, templates = zip(*found, strict=True)
        return list(accumulate(weights)), list(templates)

    def _said(self, part: Sequence[str | _Slot], optional: bool, phrases: dict[str, _Phrase]) -> list[_Piece]:
        """The pieces of a part of a template; none of an optional one with an empty slot."""
        said: list[_Piece] = []
        for item in part:
            piece = (item, ()) if isinstance(item, str) else self._piece(item, phrases)
            if not piece[0]:
                if not optional:
                    raise CapscoreError(f"templates: a slot for {item} stays empty")
                return []
            said.append(piece)
        return said

    def _joined(self, pieces: Sequence[_Piece]) -> _Piece:
        """Pieces in one, with the language's joins ("à le" → "au")."""
        text = ""
        nouns: list[tuple[int, int]] = []
        for part, spans in pieces:
            nouns += [(start + len(text), end + len(text)) for start, end in spans]
            text += part
        for before, after in self._joins:
            at = text.find(before)
            while at >= 0:
                cut, grown = at + len(before), len(after) - len(before)
                text = text[:at] + after + text[cut:]
                nouns = [(a + grown, b + grown) if a >= cut else (a, b) for a, b in nouns]
                at = text.find(before, at + len(after))
        return text, tuple(nouns)

    def _piece(self, slot: _Slot, phrases: dict[str, _Phrase]) -> _Piece:
        """The content of a slot; empty where the scene has nothing for it."""
        governor = phrases.get(slot.governor or _CONTROLLER.get(slot.name, "S"))
        if slot.name in self._words:
            return _mark(self._expand(self._words[slot.name], "words", 0, governor)) if governor else ("", ())
        if slot.name not in phrases:
            return "", ()
        category, text = _CATEGORY[slot.name], phrases[slot.name].text
        if category == "actions":
            part, _, mood = slot.form.rpartition(".")
            named = self._verbs[mood]
            if not isinstance(named, str):
                named = named[governor.agreement if governor and governor.agreement else self._agreement[0]]
            if part:
                verb, rest = _split(text)
                text = verb if part == "verb" else rest
        else:
            named = slot.form or (self._place_form(phrases) if slot.name == "P" else "")
        forms = self._forms.get(category, [""])
        text = self._expand(text, category, forms.index(named) if named else 0, governor)
        text = _THING.sub(
            lambda found: self._thing(phrases[found.group(1)], found.group(2) or self._object_form), text
        )
        if category == "subjects":
            worn = [phrases[name].text for name in slot.inserted if name in phrases]
            before, _, after = text.rpartition("^")
            added = "".join(self._expand(other, "clothing", 0, governor) + self._space for other in worn)
            text = before + added + after
        return _mark(text)

    def _place_form(self, phrases: dict[str, _Phrase]) -> str:
        """The form of the place that its action requires; in pairs, the second action."""
        action = phrases.get("B") or phrases.get("A")
        return action.agreement if action else ""

    def _thing(self, phrase: _Phrase, form: str) -> str:
        return self._expand(phrase.text, "things", self._forms["things"].index(form), None)

    def _expand(self, text: str, category: str, form: int, governor: _Phrase | None) -> str:

        def choice(of: list[str], index: int) -> Callable[[re.Match[str]], str]:
            def chosen(found: re.Match[str]) -> str:
                choices = found.group(1).split("|")
                if len(choices) != len(of):
                    raise CapscoreError(f"{category}, {text!r}: {found.group()} needs {len(of)} alternatives")
                return choices[index]

            return chosen

        agreement = governor.agreement if governor else ""
        agreed = choice(self._agreement, self._agreement.index(agreement) if agreement else 0)
        formed = choice(self._forms.get(category, [""]), form)
        return _FORMS.sub(formed, _AGREEING.sub(agreed, text))


class _Slot(NamedTuple):
    name: str
    inserted: tuple[str, ...]
    form: str
    governor: str


_Template = list[tuple[list["str | _Slot"], bool]]


def _slots(items: list[str | _Slot], *, inserted: bool = False) -> set[str]:
    """The slots in a part of a template; optionally with those inserted at another's ^."""
    slots = [item for item in items if isinstance(item, _Slot)]
    named = {slot.name for slot in slots if slot.name in _CATEGORY}
    return named.union(*(slot.inserted for slot in slots)) if inserted else named


def _compile(text: str) -> _Template:
    """A template's text → its parts, each with whether it is optional."""
    template: _Template = []
    for number, part in enumerate(_GROUP.split(text)):
        items: list[str | _Slot] = []
        end = 0
        for found in _SLOT.finditer(part):
            name, inserted, form, governor = found.groups()
            inner = tuple(inserted[1:].split("^")) if inserted else ()
            items += [part[end : found.start()], _Slot(name, inner, form or "", governor or "")]
            end = found.end()
        items = [item for item in (*items, part[end:]) if item]
        if items:
            template.append((items, number % 2 == 1))
    return template


def _split(text: str) -> tuple[str, str]:
    """An action's verb, and the rest of the action."""
    start = text.index("{")
    end = text.index("}", start) + 1
    return text[start:end], text[:start] + text[end:]


def _mark(text: str) -> _Piece:
    """Text with [nouns] → text and their spans."""
    plain, spans = "", []
    for number, part in enumerate(re.split(r"\[([^\[\]]+)\]", " ".join(text.replace("^", "").split()))):
        if number % 2:
            spans.append((len(plain), len(plain) + len(part)))
        plain += part
    if set(plain) & set("{}()[]<>|$^"):
        raise CapscoreError(f"{text!r} has an unreadable mark")
    return plain, tuple(spans)
