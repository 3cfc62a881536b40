"""A seed → photo captions that say the same scene in many languages, with the places of their nouns.

In: how many scenes, which languages, a seed. Out of `generate`: a list of scenes, each a dict from language
to `Caption`. The captions are training text for networks that learn which captions are plausible: subjects
do only what such subjects do ("a dog catches a frisbee"), so that a caption whose nouns changed places can
be told apart.

The data lies in `training/grammar`. `concepts.json` knows no language: it names the concepts and says which
go together. `<language>.json` says each concept in a language. Words are fixed phrases; nothing is
inflected here.

**concepts.json**

- `subjects`: concept → its kind (person, animal or vehicle: the first word) and classes.
- `actions`: concept → `by` (classes of subjects that do it), `at` (groups of places where it is done; "" =
  said without a place), `wear` (groups of clothing), `objects` (classes of things, for actions with a
  `$O`), `with` (a companion may be named).
- `subjects` with the class "female" wear what is in the group "dress", children nothing that is "formal"; a
  baby and what is "collective" (a family) wear nothing that is named.
- `places`: concept → its groups. `outdoor`: groups of places in the open. `clothing`, `things`: concept →
  groups.
- `times`: concept → `at` ("outdoor" or "any") and `not` (groups of places where it would be odd).
- `exists`: class of things → groups of places where such a thing is. `static`: class of subjects → groups
  of places for captions without a verb. `stills`: classes of things for close-ups and pairs of things.
  `holders`: tables and the like → classes of the things on them. `views`: whole captions of rooms and
  landscapes; "outdoor" may take a time.
- `weights`: how often each kind of scene comes.

**<language>.json**

- `agreement`: the agreement keys of the language, e.g. `["s", "p"]` or `["ms", "fs", "mp", "fp"]`.
- `verb_forms`: names of the alternatives inside `{…}` of actions, in order, e.g. `["s", "p", "ing"]`.
- `verbs`: what templates ask for → form: `{"pres": {"s": "s", "p": "p"}, "ing": "ing"}`; a dict chooses by
  the agreement key of the subject and has every key.
- `thing_forms`: names of the alternatives inside `{…}` of things, e.g. `["nom", "acc", "dat"]`; the first
  is what a slot takes that names none. `subject_forms`, `place_forms`: the same for subjects and places.
- `object_form`: the form that a bare `$O` takes.
- `words`: small words that agree, for templates: `"be": "<is|are>"`.
- `space` (default " "): what stands between a noun and what is put in at its `^`.
- `stop`: the full stop (default "."). `capitals` (optional): capitals that are not `str.upper`'s: `{"i":
  "İ"}`.
- `joins` (optional): pairs [before, after] of literal text, replaced in finished captions: `[" que un", "
  qu'un"]`; neither side may hold a whole noun.
- `subjects`, `clothing`, `companions`, `times`, `places`, `things`, `holders`, `views`, `actions`: concept
  → phrase, or a list of phrases, of which one is drawn. Every concept of `concepts.json` must be there.
- `templates`: kind of scene → {template: weight}.

**Phrases**

- `[noun]` marks the nouns that may change places: heads of noun phrases, one word each, as the language's
  tagger would cut it. The brackets go, the span stays.
- `<a|b>`: one alternative an agreement key, in the order of `agreement`; in clothing, companions, actions
  and words. They agree with the subject.
- `{a|b|c}`: one alternative a form; in actions (`verb_forms`), things (`thing_forms`), subjects
  (`subject_forms`), places (`place_forms`). An alternative may be empty. `<…>` may stand inside `{…}`, not
  the other way round. Both may stand inside or around `[…]`. The first `{…}` of an action is its verb, for
  templates that put the verb elsewhere.
- Subjects and things begin with their agreement key and a colon: `"s: a [man]"`.
- An action may begin with one of `place_forms` and a colon: a `{P}` that names no form takes that one with
  it.
- `$O` (or `$O.form`) in actions and holders is the thing; holders have `$Q` (or `$Q.form`) too, a second
  thing.
- `^` in subjects is where templates with `{S^C}` put the clothing in (none: at the front).

**Templates** are text with slots. A part in parentheses goes when a slot in it is absent or empty; a
template is used for a scene if it says all that the scene has.

- `{S}` subject, `{C}` clothing, `{K}` companion, `{P}` place, `{T}` time, `{O}` `{Q}` things, `{V}` view,
  `{H}` holder.
- `{S:form}`, `{O:form}`: a form of it. `{S^C}`, `{S^C^K}`: the subject with clothing (and companion), if
  the scene has them, put in at its `^`.
- `{A:pres}`: action, by the names in `verbs`; `{A:verb.pres}` only its verb, `{A:rest.pres}` all but its
  verb.
- `{name}`: a word of `words`, agreeing with the subject; `{name@O}` with the thing, `{name@R}` with the
  second subject.
- `{R}` `{B:pres}`: the second subject and its action, in scenes of kind pair.

| kind | what the scene has |
|---|---|
| action | S A, and at times C K P T |
| static | S P, and at times C T |
| pair | S A R B, and at times P |
| exist | O P, and at times T |
| still | O (a close-up), or O Q (two things), and at times P |
| holder | H (with O and Q inside) |
| view | V, and at times T |

The first sign becomes a capital and the full stop is added for most captions, so no phrase or template
brings them.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from capscore.errors import CapscoreError, InputError

FOLDER = Path(__file__).parent / "grammar"
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

# How often what a scene need not have is there.
CLOTHING, COMPANION, PLACE, TIME = 0.45, 0.15, 0.8, 0.18
LOWER_CASE, NO_STOP = 0.15, 0.4
_KIND_SHARES = (("person", 0.68), ("animal", 0.9), ("vehicle", 1.0))  # cumulative

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
_CONTROLLER = {"B": "R", "O": "O", "Q": "Q", "R": "R"}  # whose agreement a slot follows; the others follow S
_SLOT = re.compile(r"\{(\w+)((?:\^\w)*)(?::([\w.]+))?(?:@(\w))?\}")
_GROUP = re.compile(r"\(([^()]*)\)")
_FORMS = re.compile(r"\{([^{}]*)\}")
_AGREEING = re.compile(r"<([^<>]*)>")
_THING = re.compile(r"\$([OQ])(?:\.(\w+))?")


class Caption(NamedTuple):
    """A caption and where its nouns are.

    Args:
        text: the caption.
        nouns: (start, end) of each noun that may change places, in characters of the text, in its order.
    """

    text: str
    nouns: tuple[tuple[int, int], ...]


class Scene(NamedTuple):
    """What every language says: a kind of `concepts()["weights"]`, its slots, and a number for the wording.

    Args:
        kind: of scene.
        slots: slot → concept, as the table above says.
        style: 60 random bits, from which each language takes template, synonyms, capital and full stop.
    """

    kind: str
    slots: dict[str, str]
    style: int


def generate(n: int, languages: Sequence[str] = LANGUAGES, seed: int = 0) -> list[dict[str, Caption]]:
    """Captions of n scenes, each in every language asked for.

    Args:
        n: how many scenes, 0 or more.
        languages: codes out of `LANGUAGES`.
        seed: of the draw. Scene i and its words depend on it alone, neither on n nor on the other languages.

    Returns:
        n dicts from language to `Caption`; the captions of one dict say the same.

    Raises:
        InputError: a language has no grammar; n is negative.
        CapscoreError: a file of the grammar is at fault; the error names file and concept.

    Example:
        >>> scene = generate(1, ["en", "es"], seed=3)[0]
        >>> sorted(scene)
        ['en', 'es']
        >>> scene["en"].text[slice(*scene["en"].nouns[0])]
        'women'
    """
    if n < 0:
        raise InputError(f"cannot make {n} captions; n is 0 or more", field="n")
    grammars = {language: load(language) for language in languages}
    scenes = Scenes(seed)
    made = []
    for _ in range(n):
        scene = scenes.draw()
        made.append({language: grammar.say(scene) for language, grammar in grammars.items()})
    return made


@cache
def load(language: str) -> Grammar:
    """The grammar of a language, checked, read once.

    Raises:
        InputError: the language has no grammar.
        CapscoreError: its file is at fault.
    """
    if language not in LANGUAGES:
        raise InputError(
            f"no caption grammar for {language!r}; there is one for {', '.join(LANGUAGES)}", field="languages"
        )
    return Grammar(language, _read(FOLDER / f"{language}.json"))


@cache
def concepts() -> dict[str, Any]:
    """What `concepts.json` holds."""
    return _read(FOLDER / "concepts.json")


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CapscoreError(f"the caption grammar lacks its file {path.name}") from None
    except ValueError as error:
        raise CapscoreError(f"{path.name} is not JSON: {error}") from None


class Scenes:
    """A seed → scenes, one after the other, by the rules of `concepts.json`."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        data = concepts()
        self._kinds = list(data["weights"])
        self._weights = list(accumulate(data["weights"].values()))
        classes = {concept: frozenset(words.split()) for concept, words in data["subjects"].items()}
        self._kind_of = {concept: words.split()[0] for concept, words in data["subjects"].items()}
        clothing = {concept: frozenset(words.split()) for concept, words in data["clothing"].items()}
        # "a family in a red shirt" would be one shirt for all
        self._wears = {
            subject: {
                concept
                for concept, words in clothing.items()
                if ("dress" not in words or "female" in of) and ("formal" not in words or "child" not in of)
            }
            for subject, of in classes.items()
            if "person" in of and not of & {"baby", "collective"}
        }
        outdoor = frozenset(data["outdoor"].split())
        groups = {concept: frozenset(words.split()) for concept, words in data["places"].items()}
        self._groups = groups
        self._open_air = {concept for concept, words in groups.items() if words & outdoor}
        self._times = data["times"]
        self._companions = list(data["companions"])
        self._outdoor_views = {concept for concept, words in data["views"].items() if words}
        self._views = list(data["views"])

        def places(names: str) -> list[str]:
            return [concept for concept, words in groups.items() if words & set(names.split())]

        def having(category: str, names: str) -> list[str]:
            return [c for c, words in data[category].items() if set(words.split()) & set(names.split())]

        self._actions: dict[str, dict[str, list[str]]] = {}
        self._often: dict[str, list[float]] = {kind: [] for kind, _ in _KIND_SHARES}  # cumulative
        self._by_kind: dict[str, list[str]] = {kind: [] for kind, _ in _KIND_SHARES}
        for action, rule in data["actions"].items():
            subjects = [concept for concept, words in classes.items() if words & set(rule["by"].split())]
            self._actions[action] = {
                "places": places(rule["at"]),
                "clothing": having("clothing", rule.get("wear", "")),
                "things": having("things", rule.get("objects", "")),
                "companions": self._companions if rule.get("with") else [],
            }
            for kind, _ in _KIND_SHARES:
                own = [concept for concept in subjects if self._kind_of[concept] == kind]
                self._actions[action][kind] = own
                if own:
                    self._by_kind[kind].append(action)
                    # Actions with more to say come more often, else half of all captions would be repeats.
                    rule_now = self._actions[action]
                    size = len(own) * (1 + len(rule_now["places"])) * (1 + len(rule_now["things"]))
                    self._often[kind].append(size**0.5 + (self._often[kind] or [0.0])[-1])
        self._static = [
            (concept, places(at))
            for name, at in data["static"].items()
            for concept, words in classes.items()
            if name in words
        ]
        self._exists = [
            (thing, places(at))
            for name, at in data["exists"].items()
            for thing, words in data["things"].items()
            if name in words.split()
        ]
        self._stills = [
            (having("things", name), places(data["exists"].get(name, ""))) for name in data["stills"].split()
        ]
        self._holders = [(holder, having("things", names)) for holder, names in data["holders"].items()]
        self._everyday = having("clothing", "any")

    def draw(self) -> Scene:
        """The next scene."""
        kind = self._kinds[bisect(self._weights, self._random.random() * self._weights[-1])]
        slots: dict[str, str] = getattr(self, f"_{kind}_scene")()
        return Scene(kind, slots, self._random.getrandbits(60))

    def _pick(self, items: Sequence[Any]) -> Any:
        return items[int(self._random.random() * len(items))]

    def _subject_kind(self) -> str:
        drawn = self._random.random()
        for kind, share in _KIND_SHARES:
            if drawn < share:
                return kind
        return _KIND_SHARES[-1][0]

    def _action(self, kind: str) -> str:
        often = self._often[kind]
        return self._by_kind[kind][bisect(often, self._random.random() * often[-1])]

    def _time(self, slots: dict[str, str], likely: float = TIME) -> None:
        if self._random.random() >= likely:
            return
        time = self._pick(list(self._times))
        rule = self._times[time]
        place = slots.get("P")
        if place is None or (rule["at"] == "outdoor" and place not in self._open_air):
            return
        if not self._groups[place] & set(rule.get("not", "").split()):
            slots["T"] = time

    def _dress(self, slots: dict[str, str], clothing: list[str]) -> None:
        if clothing and slots["S"] in self._wears and self._random.random() < CLOTHING:
            worn = self._pick(clothing)
            if worn in self._wears[slots["S"]]:
                slots["C"] = worn

    def _action_scene(self) -> dict[str, str]:
        kind = self._subject_kind()
        action = self._action(kind)
        rule = self._actions[action]
        slots = {"S": self._pick(rule[kind]), "A": action}
        if rule["things"]:
            slots["O"] = self._pick(rule["things"])
        self._dress(slots, rule["clothing"])
        if slots["S"] in self._wears and rule["companions"] and self._random.random() < COMPANION:
            slots["K"] = self._pick(rule["companions"])
        if rule["places"] and self._random.random() < PLACE:
            slots["P"] = self._pick(rule["places"])
            self._time(slots)
        return slots

    def _static_scene(self) -> dict[str, str]:
        subject, places = self._pick(self._static)
        slots = {"S": subject, "P": self._pick(places)}
        self._dress(slots, self._everyday)
        self._time(slots)
        return slots

    def _pair_scene(self) -> dict[str, str]:
        # Two subjects of different kinds: of two people either could do what the other does.
        first, second = ("person", "animal") if self._random.random() < 0.8 else ("person", "vehicle")
        if self._random.random() < 0.4:
            first, second = second, first
        left, right = self._action(first), self._action(second)
        places = self._shared(left, right)
        while left == right or not places:
            left, right = self._action(first), self._action(second)
            places = self._shared(left, right)
        slots = {"S": self._pick(self._actions[left][first]), "A": left}
        slots |= {"R": self._pick(self._actions[right][second]), "B": right}
        if self._random.random() < PLACE:
            slots["P"] = self._pick(places)
        return slots

    def _shared(self, left: str, right: str) -> list[str]:
        """Places where both are done; none where either names a thing of its own."""
        one, other = self._actions[left], self._actions[right]
        if one["things"] or other["things"]:
            return []
        return [place for place in one["places"] if place in other["places"]]

    def _exist_scene(self) -> dict[str, str]:
        thing, places = self._pick(self._exists)
        slots = {"O": thing, "P": self._pick(places)}
        self._time(slots)
        return slots

    def _still_scene(self) -> dict[str, str]:
        things, places = self._pick(self._stills)
        slots = {"O": self._pick(things)}
        if self._random.random() < 0.6 and len(things) > 1:
            while slots.get("Q", slots["O"]) == slots["O"]:
                slots["Q"] = self._pick(things)
        if places and self._random.random() < 0.5:
            slots["P"] = self._pick(places)
        return slots

    def _holder_scene(self) -> dict[str, str]:
        holder, things = self._pick(self._holders)
        first = second = self._pick(things)
        while second == first:
            second = self._pick(things)
        return {"H": holder, "O": first, "Q": second}

    def _view_scene(self) -> dict[str, str]:
        view = self._pick(self._views)
        slots = {"V": view}
        if view in self._outdoor_views and self._random.random() < 0.3:
            slots["T"] = self._pick(
                ("at_sunset", "sunny_day", "under_gray_sky", "early_morning", "in_evening")
            )
        return slots


class _Phrase(NamedTuple):
    text: str
    agreement: str | None


_Piece = tuple[str, tuple[tuple[int, int], ...]]
_NOTHING: _Piece = ("", ())


class Grammar:
    """A language's file → captions of scenes.

    Args:
        language: its code.
        data: its file, as the module's docstring says.

    Raises:
        CapscoreError: a concept is missing, a phrase or template has what it cannot have.
    """

    def __init__(self, language: str, data: dict[str, Any]):
        self.language = language
        self._file = f"{language}.json"
        self._salt = crc32(language.encode())
        self._agreement: list[str] = self._required(data, "agreement")
        self._verb_forms: list[str] = self._required(data, "verb_forms")
        self._verbs: dict[str, Any] = self._required(data, "verbs")
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
        self._phrases: dict[str, dict[str, list[_Phrase]]] = {}
        for category in CATEGORIES:
            self._phrases[category] = self._read_category(category, self._required(data, category))
        self._templates = self._required(data, "templates")
        for kind in concepts()["weights"]:
            if kind not in self._templates:
                raise self._fault(f"has no templates for scenes of kind {kind!r}")
        self._compiled: dict[tuple[str, frozenset[str]], tuple[list[float], list[_Template]]] = {}
        self._pieces: dict[Any, _Piece] = {}

    def _fault(self, text: str) -> CapscoreError:
        return CapscoreError(f"{self._file} {text}")

    def _required(self, data: dict[str, Any], key: str) -> Any:
        if key not in data:
            raise self._fault(f"lacks {key!r}")
        return data[key]

    def _read_category(self, category: str, entries: dict[str, str | list[str]]) -> dict[str, list[_Phrase]]:
        wanted = concepts()[category]
        missing = [concept for concept in wanted if concept not in entries]
        unknown = [concept for concept in entries if concept not in wanted]
        if missing or unknown:
            raise self._fault(f"{category}: missing {missing}, unknown {unknown}")
        read = {}
        for concept, given in entries.items():
            phrases = []
            for text in [given] if isinstance(given, str) else given:
                key = None
                if category in ("subjects", "things"):
                    key, _, text = text.partition(":")
                    if key not in self._agreement:
                        raise self._fault(
                            f"{category}, {concept}: {key!r} is no agreement key of {self._agreement}"
                        )
                elif category == "actions" and text.partition(":")[0] in self._forms["places"]:
                    key, _, text = text.partition(":")
                phrases.append(_Phrase(text.strip(), key))
            for phrase in phrases:
                self._check(category, concept, phrase)
            read[concept] = phrases
        return read

    def _check(self, category: str, concept: str, phrase: _Phrase) -> None:
        """Each phrase is expanded once in every form, so that a fault shows when the file is read."""
        text, place = phrase.text, f"{category}, {concept}"
        if not text:
            raise self._fault(f"{place}: is empty")
        if not category.startswith(("clothing", "companions", "actions")) and _AGREEING.search(text):
            raise self._fault(f"{place}: {text!r} agrees with something, but nothing governs it")
        takes = bool(concepts()[category][concept].get("objects")) if category == "actions" else False
        if category == "actions" and "{" not in text:
            raise self._fault(f"{place}: has no {{verb}}")
        if category == "actions" and takes != ("$O" in text):
            raise self._fault(f"{place}: {'lacks' if takes else 'has'} $O")
        if category == "holders" and ("$O" not in text or "$Q" not in text):
            raise self._fault(f"{place}: needs $O and $Q")
        for form in range(len(self._forms.get(category, [""]))):
            for agreement in self._agreement:
                _mark(self._expand(place, text, category, form, agreement), self._file, place)

    def _expand(self, place: str, text: str, category: str, form: int, agreement: str) -> str:
        """Text with its alternatives chosen."""

        def agreeing(found: re.Match[str]) -> str:
            choices = found.group(1).split("|")
            if len(choices) != len(self._agreement):
                raise self._fault(f"{place}: <{found.group(1)}> needs {len(self._agreement)} alternatives")
            return choices[self._agreement.index(agreement)]

        forms = self._forms.get(category, [""])

        def chosen(found: re.Match[str]) -> str:
            choices = found.group(1).split("|")
            if len(choices) != len(forms):
                raise self._fault(f"{place}: {{{found.group(1)}}} needs {len(forms)} alternatives")
            return choices[form]

        return _FORMS.sub(chosen, _AGREEING.sub(agreeing, text))

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
        parts: list[_Piece] = []
        for literals_and_slots, optional in template:
            said = []
            for item in literals_and_slots:
                if isinstance(item, str):
                    said.append((item, ()))
                    continue
                piece = _NOTHING if item.absent(phrases) else self._piece(item, phrases)
                if not piece[0]:
                    if optional:
                        said = []
                        break
                    raise self._fault(f"templates, {scene.kind}: a slot for {item.name} stays empty")
                said.append(piece)
            parts.extend(said)
        return self._finish(parts, drawn[1], drawn[2])

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
                template = _compile(text, self._file, self._words, self._verbs)
                needed = {
                    name for items, optional in template if not optional for name in _slots(items, False)
                }
                said = {name for items, _ in template for name in _slots(items, True)}
                if needed <= present and present - inside <= said:
                    weights.append(weight)
                    templates.append(template)
            if not templates:
                raise self._fault(f"templates, {scene.kind}: none says {sorted(present)}")
            self._compiled[key] = list(accumulate(weights)), templates
        return self._compiled[key]

    def _piece(self, slot: _Slot, phrases: dict[str, _Phrase]) -> _Piece:
        """What stands in a slot; each distinct one is made once."""
        name = slot.name
        if name in self._words:
            governor = phrases[slot.governor or "S"]
            key: Any = ("word", name, governor.agreement)
            if key not in self._pieces:
                text = self._expand(f"words, {name}", self._words[name], "words", 0, governor.agreement or "")
                self._pieces[key] = _mark(text, self._file, name)
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
        place = f"{category}, {text!r}"
        if category == "actions":
            part, _, mood = slot.form.rpartition(".")
            named = self._verbs[mood]
            form = self._verb_forms.index(named if isinstance(named, str) else named[agreement])
            if part:
                verb, rest = _split(text)
                text = verb if part == "verb" else rest
        else:
            forms = self._forms.get(category, [""])
            if slot.form and slot.form not in forms:
                raise self._fault(f"a template asks for form {slot.form!r} of {category}, which has {forms}")
            wanted = slot.form or (self._place_form(phrases) if slot.name == "P" else "")
            form = forms.index(wanted) if wanted else 0
        text = self._expand(place, text, category, form, agreement)
        text = _THING.sub(
            lambda found: self._thing(phrases[found.group(1)], found.group(2) or self._object_form), text
        )
        if category == "subjects":
            added = [self._expand(place, other.text, "clothing", 0, agreement) for other in inner]
            before, _, after = text.rpartition("^")
            text = before + "".join(other + self._space for other in added) + after
        return _mark(text, self._file, place)

    def _place_form(self, phrases: dict[str, _Phrase]) -> str:
        """The form of the place that the action next to it asks for; in pairs, the second action's."""
        action = phrases.get("B") or phrases.get("A")
        return (action.agreement if action else None) or ""

    def _thing(self, phrase: _Phrase, form: str) -> str:
        forms = self._forms["things"]
        if form not in forms:
            raise self._fault(f"$O.{form}: things have the forms {forms}")
        return self._expand("things", phrase.text, "things", forms.index(form), self._agreement[0])


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
    """The slots in a part of a template; with those put in at another's ^ if asked for."""
    named = {item.name for item in items if isinstance(item, _Slot) and item.name in _CATEGORY}
    if inserted:
        named |= {name for item in items if isinstance(item, _Slot) for name in item.inserted}
    return named


def _compile(text: str, file: str, words: dict[str, str], verbs: dict[str, Any]) -> _Template:
    """A template's text → its parts, each with whether it may go."""
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
            if name not in _CATEGORY and name not in words:
                raise CapscoreError(f"{file} templates: {text!r} has the unknown slot {name!r}")
            if name in ("A", "B") and (form or "").rpartition(".")[2] not in verbs:
                raise CapscoreError(
                    f"{file} templates: {text!r} asks for verb {form!r}; there are {list(verbs)}"
                )
            inner = tuple(inserted[1:].split("^")) if inserted else ()
            items.append(_Slot(name, inner, form or "", governor or ""))
            end = found.end()
        if end < len(part):
            items.append(part[end:])
        if any(isinstance(item, str) and set(item) & set("{}()[]<>|$^") for item in items):
            raise CapscoreError(f"{file} templates: {text!r} has a slot that cannot be read")
        template.append((items, number % 2 == 1))
    return template


def _split(text: str) -> tuple[str, str]:
    """An action's verb, and all but its verb."""
    start = text.index("{")
    end = text.index("}", start) + 1
    return text[start:end], text[:start] + text[end:]


def _mark(text: str, file: str, place: str) -> _Piece:
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
        raise CapscoreError(f"{file} {place}: {text!r} has a mark that cannot be read")
    return plain, tuple(spans)
