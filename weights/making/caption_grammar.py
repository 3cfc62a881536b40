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

from capscore.errors import InputError
from weights.making.caption_scenes import Scene, Scenes, read_grammar

LANGUAGES = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh")

# Share of captions without an initial capital, and without a full stop.
LOWER_CASE, NO_STOP = 0.15, 0.4

# What the file of a language need not state.
_DEFAULTS: dict[str, Any] = {"words": {}, "joins": [], "capitals": {}, "space": " ", "stop": "."}
_DEFAULTS |= {"subject_forms": [""], "thing_forms": [""], "place_forms": [""]}
# slot → category of its concept
_CATEGORY = {"S": "subjects", "R": "subjects", "O": "things", "Q": "things", "A": "actions", "B": "actions"}
_CATEGORY |= {"C": "clothing", "K": "companions", "P": "places", "T": "times", "V": "views", "H": "holders"}
_CONTROLLER = {"B": "R", "O": "O", "Q": "Q", "R": "R"}  # slot → slot that it agrees with; S for all others
# The name of a slot, names of slots that are inserted, its form, and the slot that it agrees with.
_SLOT = re.compile(r"\{(\w+)((?:\^\w)*)(?::([\w.]+))?(?:@(\w))?\}")
_OPTIONAL = re.compile(r"\(([^()]*)\)")
_FORMS = re.compile(r"\{([^{}]*)\}")
_AGREEING = re.compile(r"<([^<>]*)>")
_NOUN = re.compile(r"\[([^\[\]]+)\]")
_THING = re.compile(r"\$([OQ])(?:\.(\w+))?")


class Caption(NamedTuple):
    """A caption, and (start, end) of each noun that may swap with another, in characters, in order."""

    text: str
    nouns: tuple[tuple[int, int], ...]


class _Phrase(NamedTuple):
    text: str
    agreement: str  # "" without any


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
    return Grammar(language, read_grammar(language))


class Grammar:
    """A language's file, as grammar/README.md describes it → captions of scenes."""

    def __init__(self, language: str, data: dict[str, Any]):
        self._salt, self._data = crc32(language.encode()), _DEFAULTS | data
        self._suitable = cache(self._suitable_templates)
        self._forms = {"actions": data["verb_forms"]}
        for category in ("subjects", "things", "places"):
            self._forms[category] = self._data[f"{category[:-1]}_forms"]
        self._phrases: dict[str, dict[str, list[_Phrase]]] = {}
        for category in set(_CATEGORY.values()):
            own = self._phrases[category] = {}
            for concept, given in data[category].items():
                own[concept] = [self._phrase(text) for text in ([given] if isinstance(given, str) else given)]

    def _phrase(self, text: str) -> _Phrase:
        key, _, rest = text.partition(":")
        known = key in self._data["agreement"] or key in self._data["place_forms"]
        return _Phrase(rest.strip(), key) if known else _Phrase(text.strip(), "")

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
        template = templates[bisect(weights, draw * weights[-1])]
        text = "".join(self._said(part, phrases) for part in _OPTIONAL.split(template))
        for before, after in self._data["joins"]:
            text = text.replace(before, after)
        text, nouns = _without_brackets(text)
        if case >= LOWER_CASE:
            text = self._data["capitals"].get(text[0], text[0].upper()) + text[1:]
        return Caption(text + self._data["stop"] if stop >= NO_STOP else text, nouns)

    def _suitable_templates(self, kind: str, present: frozenset[str]) -> tuple[list[float], list[str]]:
        """Templates that say all of these slots: cumulated weights and the templates."""
        # things are said by their holder or their action
        inside = {"O", "Q"} if "H" in present else {"O"} if "A" in present else set()
        suitable = {}
        for template, weight in self._data["templates"][kind].items():
            slots = _SLOT.findall(template)
            said = {name for name, *_ in slots}.union(*(inserted for _, inserted, *_ in slots))
            needed = {name for name, *_ in _SLOT.findall(_OPTIONAL.sub("", template))}
            if needed & _CATEGORY.keys() <= present and present - inside <= said:
                suitable[template] = weight
        return list(accumulate(suitable.values())), list(suitable)

    def _said(self, part: str, phrases: dict[str, _Phrase]) -> str:
        """A part of a template, its nouns in brackets; "" if a slot of it is empty."""
        pieces = [self._piece(phrases, *slot) for slot in _SLOT.findall(part)]
        return _SLOT.sub(lambda _: pieces.pop(0), part) if all(pieces) else ""

    def _piece(self, phrases: dict[str, _Phrase], slot: str, inserted: str, form: str, governor: str) -> str:
        """The content of a slot; "" where the scene has nothing for it."""
        agreeing = phrases.get(governor or _CONTROLLER.get(slot, "S"))
        if slot in self._data["words"]:
            return _tidy(self._expand(self._data["words"][slot], agreeing)) if agreeing else ""
        if slot not in phrases:
            return ""
        category, text = _CATEGORY[slot], phrases[slot].text
        if category == "actions":
            part, _, mood = form.rpartition(".")
            form = self._data["verbs"][mood]
            if not isinstance(form, str):
                form = form[(agreeing and agreeing.agreement) or self._data["agreement"][0]]
            if part:
                verb = _FORMS.search(text)
                text = verb[0] if part == "verb" else text[: verb.start()] + text[verb.end() :]
        elif slot == "P" and not form:
            # the form that the action requires; in pairs, the second action
            action = phrases.get("B") or phrases.get("A")
            form = action.agreement if action else ""
        text = self._expand(text, agreeing, self._forms[category].index(form) if form else 0)
        text = _THING.sub(lambda found: self._thing(phrases[found[1]], found[2]), text)
        if category == "subjects":
            before, _, after = text.rpartition("^")
            for name in inserted.replace("^", ""):
                if name in phrases:
                    before += self._expand(phrases[name].text, agreeing) + self._data["space"]
            text = before + after
        return _tidy(text)

    def _thing(self, thing: _Phrase, form: str | None) -> str:
        forms = self._forms["things"]
        return self._expand(thing.text, None, forms.index(form or self._data.get("object_form", forms[0])))

    def _expand(self, text: str, governor: _Phrase | None, form: int = 0) -> str:
        """A text with the alternatives that agree with the governor, and those of the form."""
        own = governor.agreement if governor else ""
        index = self._data["agreement"].index(own) if own else 0
        agreed = _AGREEING.sub(lambda found: found[1].split("|")[index], text)
        return _FORMS.sub(lambda found: found[1].split("|")[form], agreed)


def _tidy(text: str) -> str:
    return " ".join(text.replace("^", "").split())


def _without_brackets(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Text with [nouns] → text and their spans."""
    plain, spans = "", []
    for number, part in enumerate(_NOUN.split(text)):
        if number % 2:
            spans.append((len(plain), len(plain) + len(part)))
        plain += part
    return plain, tuple(spans)
