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
CATEGORIES = (
    "subjects",
    "clothing",
    "companions",
    "times",
    "places",
    "things",
    "holders",
    "views",
    "actions",
)

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
    """Captions of n scenes, each a dict from language to its `Caption` of the scene.

    Scene i and its words depend on the seed alone, not on n or the other languages.

    Raises:
        InputError: a language has no grammar.

    >>> scene = generate(1, ["en", "es"], seed=3)[0]
    >>> scene["en"].text[slice(*scene["en"].nouns[0])]
    'women'
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
    agreement: str | None


_Piece = tuple[str, tuple[tuple[int, int], ...]]
_NOTHING: _Piece = ("", ())


class Grammar:
    """A language's file, as grammar/README.md describes it → captions of scenes."""

    def __init__(self, language: str, data: dict[str, Any]):
        self._salt = crc32(language.encode())
        self._agreement: list[str] = data["agreement"]
        self._verb_forms: list[str] = data["verb_forms"]
        self._verbs: dict[str, Any] = data["verbs"]
        self._forms = {
            "things": data.get("thing_forms", [""]),
            "subjects": data.get("subject_forms", [""]),
            "places": data.get("place_forms", [""]),
            "actions": self._verb_forms,
        }
        self._object_form: str = data.get("object_form", self._forms["things"][0])
        self._words: dict[str, str] = data.get("words", {})
        self._space: str = data.get("space", " ")
        self._stop: str = data.get("stop", ".")
        self._capitals: dict[str, str] = data.get("capitals", {})
        self._joins: list[tuple[str, str]] = [tuple(pair) for pair in data.get("joins", [])]
        self._phrases = {category: self._read_category(category, data[category]) for category in CATEGORIES}
        self._templates = data["templates"]
        self._compiled: dict[tuple[str, frozenset[str]], tuple[list[float], list[_Template]]] = {}
        self._pieces: dict[Any, _Piece] = {}

    def _read_category(self, category: str, entries: dict[str, str | list[str]]) -> dict[str, list[_Phrase]]:
        missing = set(concepts()[category]) ^ set(entries)
        if missing:
            raise CapscoreError(f"{category}: missing or unknown {sorted(missing)}")
        read: dict[str, list[_Phrase]] = {}
        for concept, given in entries.items():
            for text in [given] if isinstance(given, str) else given:
                key, colon, rest = text.partition(":")
                has_key = category in ("subjects", "things") or (
                    category == "actions" and colon and key in self._forms["places"]
                )
                phrase = _Phrase(rest.strip(), key) if has_key else _Phrase(text.strip(), None)
                read.setdefault(concept, []).append(phrase)
        return read

    def _expand(self, text: str, category: str, form: int, agreement: str) -> str:
        """Text with its alternatives chosen."""

        def choice(of: list[str], index: int) -> Callable[[re.Match[str]], str]:
            def chosen(found: re.Match[str]) -> str:
                choices = found.group(1).split("|")
                if len(choices) != len(of):
                    raise CapscoreError(f"{category}, {text!r}: {found.group()} needs {len(of)} alternatives")
                return choices[index]

            return chosen

        agreed = choice(self._agreement, self._agreement.index(agreement) if agreement else 0)
        formed = choice(self._forms.get(category, [""]), form)
        return _FORMS.sub(formed, _AGREEING.sub(agreed, text))

    def say(self, scene: Scene) -> Caption:
        """A scene's caption."""
        state = (scene.style * 0x9E3779B97F4A7C15 + self._salt * 0xD1342543DE82EF95) & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 29
        state = state * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 32
        drawn = (state & 0xFFFF) / 0x10000, (state >> 16 & 0xFFFF) / 0x10000, (state >> 32 & 0xFFFF) / 0x10000
        wording = state >> 48

        phrases: dict[str, _Phrase] = {}
        for number, (slot, concept) in enumerate(scene.slots.items()):
            choices = self._phrases[_CATEGORY[slot]][concept]
            phrases[slot] = choices[(wording >> number) % len(choices)] if len(choices) > 1 else choices[0]

        weights, templates = self._suitable(scene)
        template = templates[bisect(weights, drawn[0] * weights[-1])] if len(templates) > 1 else templates[0]
        parts = [piece for part in template for piece in self._said(*part, phrases, scene.kind)]
        return self._finish(parts, drawn[1], drawn[2])

    def _said(
        self, part: Sequence[str | _Slot], optional: bool, phrases: dict[str, _Phrase], kind: str
    ) -> list[_Piece]:
        """The pieces of a part of a template; none of an optional one with an empty slot."""
        said: list[_Piece] = []
        for item in part:
            if isinstance(item, str):
                said.append((item, ()))
                continue
            piece = _NOTHING if item.absent(phrases) else self._piece(item, phrases)
            if not piece[0] and not optional:
                raise CapscoreError(f"templates, {kind}: a slot for {item.name} stays empty")
            if not piece[0]:
                return []
            said.append(piece)
        return said

    def _finish(self, parts: list[_Piece], case: float, stop: float) -> Caption:
        text = ""
        nouns: list[tuple[int, int]] = []
        for part, spans in parts:
            if spans:
                shift = len(text)
                nouns.extend([(start + shift, end + shift) for start, end in spans])
            text += part
        for before, after in self._joins:
            at = text.find(before)
            while at >= 0:
                text = text[:at] + after + text[at + len(before) :]
                grown, cut = len(after) - len(before), at + len(before)
                nouns = [
                    (start + grown, end + grown) if start >= cut else (start, end) for start, end in nouns
                ]
                at = text.find(before, at + len(after))
        if case >= LOWER_CASE:
            text = self._capitals.get(text[0], text[0].upper()) + text[1:]
        if stop >= NO_STOP:
            text += self._stop
        return Caption(text, tuple(nouns))

    def _suitable(self, scene: Scene) -> tuple[list[float], list[_Template]]:
        key = scene.kind, frozenset(scene.slots)
        if key not in self._compiled:
            present = set(scene.slots)
            inside = {"O", "Q"} if "H" in present else {"O"} if "A" in present else set()
            weights, templates = [], []
            for text, weight in self._templates[scene.kind].items():
                template = _compile(text)
                needed = {
                    name for items, optional in template if not optional for name in _slots(items, False)
                }
                said = {name for items, _ in template for name in _slots(items, True)}
                if needed <= present and present - inside <= said:
                    weights.append(weight)
                    templates.append(template)
            if not templates:
                raise CapscoreError(f"templates, {scene.kind}: none says {sorted(present)}")
            self._compiled[key] = list(accumulate(weights)), templates
        return self._compiled[key]

    def _piece(self, slot: _Slot, phrases: dict[str, _Phrase]) -> _Piece:
        """The content of a slot; each distinct one is made once."""
        name = slot.name
        if name in self._words:
            governor = phrases[slot.governor or "S"]
            key: Any = ("word", name, governor.agreement)
            if key not in self._pieces:
                text = self._expand(self._words[name], "words", 0, governor.agreement or "")
                self._pieces[key] = _mark(text)
            return self._pieces[key]
        phrase = phrases[name]
        controller = phrases.get(slot.governor or _CONTROLLER.get(name, "S"))
        agreement = (controller.agreement if controller else None) or self._agreement[0]
        inner = tuple(phrases[other] for other in slot.inserted if other in phrases)
        things = tuple(phrases.get(thing) for thing in "OQ") if "$" in phrase.text else ()
        form = self._place_form(phrases) if name == "P" and not slot.form else slot.form
        key = _CATEGORY[name], phrase, form, agreement, inner, things
        made = self._pieces.get(key)
        if made is None:
            made = self._pieces[key] = self._make(slot, phrase, agreement, inner, phrases)
        return made

    def _make(
        self,
        slot: _Slot,
        phrase: _Phrase,
        agreement: str,
        inner: tuple[_Phrase, ...],
        phrases: dict[str, _Phrase],
    ) -> _Piece:
        category, text = _CATEGORY[slot.name], phrase.text
        if category == "actions":
            part, _, mood = slot.form.rpartition(".")
            named = self._verbs[mood]
            form = self._verb_forms.index(named if isinstance(named, str) else named[agreement])
            if part:
                verb, rest = _split(text)
                text = verb if part == "verb" else rest
        else:
            wanted = slot.form or (self._place_form(phrases) if slot.name == "P" else "")
            form = self._forms.get(category, [""]).index(wanted) if wanted else 0
        text = self._expand(text, category, form, agreement)
        text = _THING.sub(
            lambda found: self._thing(phrases[found.group(1)], found.group(2) or self._object_form), text
        )
        if category == "subjects":
            added = [self._expand(other.text, "clothing", 0, agreement) for other in inner]
            before, _, after = text.rpartition("^")
            text = before + "".join(other + self._space for other in added) + after
        return _mark(text)

    def _place_form(self, phrases: dict[str, _Phrase]) -> str:
        """The form of the place that its action requires; in pairs, the second action."""
        action = phrases.get("B") or phrases.get("A")
        return (action.agreement if action else None) or ""

    def _thing(self, phrase: _Phrase, form: str) -> str:
        return self._expand(phrase.text, "things", self._forms["things"].index(form), self._agreement[0])


class _Slot(NamedTuple):
    name: str
    inserted: tuple[str, ...]
    form: str
    governor: str

    def absent(self, phrases: dict[str, _Phrase]) -> bool:
        if self.name in _CATEGORY:
            return self.name not in phrases
        return (self.governor or "S") not in phrases


_Template = list[tuple[list["str | _Slot"], bool]]


def _slots(items: list[str | _Slot], inserted: bool) -> set[str]:
    """The slots in a part of a template; optionally with those inserted at another's ^."""
    named = {item.name for item in items if isinstance(item, _Slot) and item.name in _CATEGORY}
    if inserted:
        named |= {name for item in items if isinstance(item, _Slot) for name in item.inserted}
    return named


def _compile(text: str) -> _Template:
    """A template's text → its parts, each with whether it is optional."""
    template: _Template = []
    for number, part in enumerate(_GROUP.split(text)):
        if not part:
            continue
        items: list[str | _Slot] = []
        end = 0
        for found in _SLOT.finditer(part):
            if found.start() > end:
                items.append(part[end : found.start()])
            name, inserted, form, governor = found.groups()
            inner = tuple(inserted[1:].split("^")) if inserted else ()
            items.append(_Slot(name, inner, form or "", governor or ""))
            end = found.end()
        if end < len(part):
            items.append(part[end:])
        template.append((items, number % 2 == 1))
    return template


def _split(text: str) -> tuple[str, str]:
    """An action's verb, and the rest of the action."""
    start = text.index("{")
    end = text.index("}", start) + 1
    return text[start:end], text[:start] + text[end:]


def _mark(text: str) -> _Piece:
    """Text with [nouns] → text and their spans."""
    text = " ".join(text.replace("^", "").split()) if text else ""
    plain, spans, end = "", [], 0
    for found in re.finditer(r"\[([^\[\]]+)\]", text):
        plain += text[end : found.start()]
        spans.append((len(plain), len(plain) + len(found.group(1))))
        plain += found.group(1)
        end = found.end()
    plain += text[end:]
    if set(_THING.sub("", plain)) & set("{}()[]<>|$^"):
        raise CapscoreError(f"{text!r} has an unreadable mark")
    return plain, tuple(spans)
