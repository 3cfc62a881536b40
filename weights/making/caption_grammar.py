"""A seed → photo captions that describe the same scenes in many languages, with the places of their nouns.

The captions teach networks which captions are plausible: subjects do only what such subjects do ("a dog
catches a frisbee"), so that a caption with swapped nouns can be recognised. grammar/README.md describes the
files.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple
from zlib import crc32

from capscore.errors import CapscoreError, InputError
from weights.making.caption_scenes import FOLDER, Scene, Scenes, concepts, read_grammar

LANGUAGES = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh")

# Share of captions without an initial capital, and without a full stop.
LOWER_CASE, NO_STOP = 0.15, 0.4

# slot → category of its concept
_CATEGORY = {"S": "subjects", "R": "subjects", "O": "things", "Q": "things", "A": "actions", "B": "actions"}
_CATEGORY |= {"C": "clothing", "K": "companions", "P": "places", "T": "times", "V": "views", "H": "holders"}
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


class _Phrase(NamedTuple):
    text: str
    agreement: str  # "" without any


class _Slot(NamedTuple):
    name: str
    inserted: list[str]
    form: str
    governor: str


# parts, each with whether it is optional
_Template = list[tuple[list["str | _Slot"], bool]]


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


class Grammar:
    """A language's file, as grammar/README.md describes it → captions of scenes."""

    def __init__(self, language: str, data: dict[str, Any]):
        self._salt, self._data = crc32(language.encode()), data
        self._forms = {
            "things": data.get("thing_forms", [""]),
            "subjects": data.get("subject_forms", [""]),
            "places": data.get("place_forms", [""]),
            "actions": data["verb_forms"],
        }
        self._phrases = {name: self._read_category(name, data[name]) for name in set(_CATEGORY.values())}
        self._suitable = cache(self._suitable_templates)

    def _read_category(self, category: str, entries: dict[str, str | list[str]]) -> dict[str, list[_Phrase]]:
        if missing := set(concepts()[category]) ^ set(entries):
            raise CapscoreError(f"{category}: missing or unknown {sorted(missing)}")

        def phrase(text: str) -> _Phrase:
            key, _, rest = text.partition(":")
            place_of_action = category == "actions" and rest and key in self._forms["places"]
            if category in ("subjects", "things") or place_of_action:
                return _Phrase(rest.strip(), key)
            return _Phrase(text.strip(), "")

        found = {}
        for concept, given in entries.items():
            found[concept] = [phrase(text) for text in ([given] if isinstance(given, str) else given)]
        return found

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
        text, nouns = self._joined("".join(self._said(part, phrases) for part, _ in template))
        if case >= LOWER_CASE:
            text = self._data.get("capitals", {}).get(text[0], text[0].upper()) + text[1:]
        return Caption(text + self._data.get("stop", ".") if stop >= NO_STOP else text, nouns)

    def _suitable_templates(self, kind: str, present: frozenset[str]) -> tuple[list[float], list[_Template]]:
        """Templates that say all of these slots: cumulated weights and the templates."""
        # things are said by their holder or their action
        inside = {"O", "Q"} if "H" in present else {"O"} if "A" in present else set()
        weights, templates = [], []
        for text, weight in self._data["templates"][kind].items():
            template = _compile(text)
            slots = [item for items, _ in template for item in items if isinstance(item, _Slot)]
            said = {slot.name for slot in slots}.union(*(slot.inserted for slot in slots))
            needed = set()
            for items, optional in template:
                needed |= {item.name for item in items if isinstance(item, _Slot) and not optional}
            if needed & _CATEGORY.keys() <= present and present - inside <= said:
                weights.append(weight)
                templates.append(template)
        if not templates:
            raise CapscoreError(f"templates, {kind}: none says {sorted(present)}")
        return list(accumulate(weights)), templates

    def _said(self, part: Sequence[str | _Slot], phrases: dict[str, _Phrase]) -> str:
        """A part of a template, its nouns in brackets; "" if a slot of it is empty."""
        pieces = [item if isinstance(item, str) else self._piece(item, phrases) for item in part]
        return "".join(pieces) if all(pieces) else ""

    def _joined(self, text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
        """A text with its nouns in brackets → text and nouns, with the language's joins ("à le" → "au")."""
        text, nouns = _mark(text)
        for before, after in self._data.get("joins", ()):
            at = text.find(before)
            while at >= 0:
                cut, grown = at + len(before), len(after) - len(before)
                text = text[:at] + after + text[cut:]
                nouns = [(a + grown, b + grown) if a >= cut else (a, b) for a, b in nouns]
                at = text.find(before, at + len(after))
        return text, tuple(nouns)

    def _piece(self, slot: _Slot, phrases: dict[str, _Phrase]) -> str:
        """The content of a slot; "" where the scene has nothing for it."""
        governor = phrases.get(slot.governor or _CONTROLLER.get(slot.name, "S"))
        words = self._data.get("words", {})
        if slot.name in words:
            return _tidy(self._expand(words[slot.name], "words", 0, governor)) if governor else ""
        if slot.name not in phrases:
            return ""
        category, text = _CATEGORY[slot.name], phrases[slot.name].text
        if category == "actions":
            part, _, mood = slot.form.rpartition(".")
            named = self._data["verbs"][mood]
            if not isinstance(named, str):
                agreement = governor.agreement if governor else ""
                named = named[agreement or self._data["agreement"][0]]
            if part:
                verb = _FORMS.search(text)
                text = verb[0] if part == "verb" else text[: verb.start()] + text[verb.end() :]
        elif slot.name == "P" and not slot.form:
            # the form that the action requires; in pairs, the second action
            action = phrases.get("B") or phrases.get("A")
            named = action.agreement if action else ""
        else:
            named = slot.form
        forms = self._forms.get(category, [""])
        text = self._expand(text, category, forms.index(named) if named else 0, governor)
        text = _THING.sub(lambda found: self._thing(phrases[found[1]], found[2]), text)
        if category == "subjects":
            before, _, after = text.rpartition("^")
            for name in slot.inserted:
                if name in phrases:
                    worn = self._expand(phrases[name].text, "clothing", 0, governor)
                    before += worn + self._data.get("space", " ")
            text = before + after
        return _tidy(text)

    def _thing(self, phrase: _Phrase, form: str | None) -> str:
        forms = self._forms["things"]
        form = form or self._data.get("object_form", forms[0])
        return self._expand(phrase.text, "things", forms.index(form), None)

    def _expand(self, text: str, category: str, form: int, governor: _Phrase | None) -> str:
        """A text with the alternatives that agree with the governor, and those of the form."""

        def choose(text: str, marks: re.Pattern[str], names: list[str], index: int) -> str:
            for found in marks.findall(text):
                if found.count("|") + 1 != len(names):
                    raise CapscoreError(f"{category}, {text!r}: {found} needs {len(names)} alternatives")
            return marks.sub(lambda found: found[1].split("|")[index], text)

        agreements = self._data["agreement"]
        agreement = governor.agreement if governor else ""
        agreed = choose(text, _AGREEING, agreements, agreements.index(agreement) if agreement else 0)
        return choose(agreed, _FORMS, self._forms.get(category, [""]), form)


def _compile(text: str) -> _Template:
    template: _Template = []
    for number, part in enumerate(_GROUP.split(text)):
        items: list[str | _Slot] = []
        end = 0
        for found in _SLOT.finditer(part):
            name, inserted, form, governor = found.groups(default="")
            items += [part[end : found.start()], _Slot(name, inserted.split("^")[1:], form, governor)]
            end = found.end()
        items = [item for item in (*items, part[end:]) if item]
        if items:
            template.append((items, number % 2 == 1))
    return template


def _tidy(text: str) -> str:
    return " ".join(text.replace("^", "").split())


def _mark(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Text with [nouns] → text and their spans."""
    plain, spans = "", []
    for number, part in enumerate(re.split(r"\[([^\[\]]+)\]", text)):
        if number % 2:
            spans.append((len(plain), len(plain) + len(part)))
        plain += part
    if set(plain) & set("{}()[]<>|$^"):
        raise CapscoreError(f"{text!r} has an unreadable mark")
    return plain, spans
