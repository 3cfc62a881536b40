"""A seed → scenes for captions, by the rules of grammar/concepts.json. Scenes know no language."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# Probability of each optional part of a scene.
CLOTHING, COMPANION, PLACE, TIME = 0.45, 0.15, 0.8, 0.18
_KINDS = ("person", "animal", "vehicle")
_KIND_SHARES = (0.68, 0.9, 1.0)  # cumulative
_VIEW_TIMES = ("at_sunset", "sunny_day", "under_gray_sky", "early_morning", "in_evening")


class Scene(NamedTuple):
    """A scene, which every language describes."""

    kind: str  # one of the `weights` of `CONCEPTS`
    slots: dict[str, str]  # slot → concept; see the table in grammar/README.md
    style: int  # 60 random bits: template, synonyms, capital and full stop in each language


def read_grammar(name: str) -> dict[str, Any]:
    """The content of a file of grammar/: of a language, by its code, or "concepts"."""
    path = Path(__file__).parent / "grammar" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


CONCEPTS = read_grammar("concepts")


@cache
def _having(category: str, names: str) -> list[str]:
    """The concepts of a category that have one of these classes or groups."""
    wanted = set(names.split())
    return [concept for concept, words in CONCEPTS[category].items() if wanted & set(words.split())]


@cache
def _placed(rules: str, category: str) -> list[tuple[str, list[str]]]:
    """Concepts of the classes that rules name, and their places."""
    found = []
    for name, at in CONCEPTS[rules].items():
        found += [(concept, _having("places", at)) for concept in _having(category, name)]
    return found


@cache
def _wearable(subject: str) -> set[str]:
    """What a subject may wear; "a family in a red shirt" would share one shirt."""
    classes = CONCEPTS["subjects"][subject].split()
    if "person" not in classes or "baby" in classes or "collective" in classes:
        return set()
    worn = set(CONCEPTS["clothing"])
    if "female" not in classes:
        worn -= {*_having("clothing", "dress")}
    return worn - {*_having("clothing", "formal")} if "child" in classes else worn


@cache
def _choices(action: str) -> dict[str, list[str]]:
    """What may be drawn with an action: subjects of each kind, places, clothing, things and companions."""
    rule = CONCEPTS["actions"][action]
    found = {kind: [] for kind in _KINDS}
    for subject in _having("subjects", rule["by"]):
        found[CONCEPTS["subjects"][subject].split()[0]].append(subject)
    return found | {
        "places": _having("places", rule["at"]),
        "clothing": _having("clothing", rule.get("wear", "")),
        "things": _having("things", rule.get("objects", "")),
        "companions": [*CONCEPTS["companions"]] if rule.get("with") else [],
    }


@cache
def _actions(kind: str) -> dict[str, float]:
    """The actions of a kind of subject, and how often each is drawn."""
    often = {}
    for action in CONCEPTS["actions"]:
        own = _choices(action)
        if own[kind]:
            # actions with more variants are drawn more often, else half of all captions were repeats
            often[action] = (len(own[kind]) * (1 + len(own["places"])) * (1 + len(own["things"]))) ** 0.5
    return often


class Scenes:
    """A seed → scenes, one after the other, by the rules of `concepts.json`."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def draw(self) -> Scene:
        kind = self._weighted(CONCEPTS["weights"])
        slots: dict[str, str] = getattr(self, f"_{kind}_scene")()
        return Scene(kind, slots, self._random.getrandbits(60))

    def _pick(self, items: Sequence[Any]) -> Any:
        return self._random.choices(items)[0]

    def _weighted(self, weights: dict[str, float]) -> str:
        return self._random.choices([*weights], [*weights.values()])[0]

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _time(self, slots: dict[str, str]) -> None:
        if self._chance(TIME):
            time, place = self._pick([*CONCEPTS["times"]]), slots["P"]
            rule = CONCEPTS["times"][time]
            fits = rule["at"] == "any" or place in _having("places", CONCEPTS["outdoor"])
            if fits and place not in _having("places", rule.get("not", "")):
                slots["T"] = time

    def _dress(self, slots: dict[str, str], clothing: list[str]) -> None:
        if clothing and _wearable(slots["S"]) and self._chance(CLOTHING):
            worn = self._pick(clothing)
            if worn in _wearable(slots["S"]):
                slots["C"] = worn

    def _action_scene(self) -> dict[str, str]:
        kind = self._random.choices(_KINDS, cum_weights=_KIND_SHARES)[0]
        action = self._weighted(_actions(kind))
        own = _choices(action)
        slots = {"S": self._pick(own[kind]), "A": action}
        if own["things"]:
            slots["O"] = self._pick(own["things"])
        self._dress(slots, own["clothing"])
        if _wearable(slots["S"]) and own["companions"] and self._chance(COMPANION):
            slots["K"] = self._pick(own["companions"])
        if own["places"] and self._chance(PLACE):
            slots["P"] = self._pick(own["places"])
            self._time(slots)
        return slots

    def _static_scene(self) -> dict[str, str]:
        subject, places = self._pick(_placed("static", "subjects"))
        slots = {"S": subject, "P": self._pick(places)}
        self._dress(slots, _having("clothing", "any"))
        self._time(slots)
        return slots

    def _pair_scene(self) -> dict[str, str]:
        # Two subjects of different kinds: two people could swap their actions.
        kinds = ["person", "animal" if self._chance(0.8) else "vehicle"]
        if self._chance(0.4):
            kinds.reverse()
        places: list[str] = []
        while not places:
            left, right = (self._weighted(_actions(kind)) for kind in kinds)
            one, other = _choices(left), _choices(right)
            if left != right and not one["things"] and not other["things"]:
                places = [place for place in one["places"] if place in other["places"]]
        slots = {"S": self._pick(one[kinds[0]]), "A": left, "R": self._pick(other[kinds[1]]), "B": right}
        if self._chance(PLACE):
            slots["P"] = self._pick(places)
        return slots

    def _exist_scene(self) -> dict[str, str]:
        thing, places = self._pick(_placed("exists", "things"))
        slots = {"O": thing, "P": self._pick(places)}
        self._time(slots)
        return slots

    def _still_scene(self) -> dict[str, str]:
        name = self._pick(CONCEPTS["stills"].split())
        things, places = _having("things", name), _having("places", CONCEPTS["exists"].get(name, ""))
        slots = {"O": self._pick(things)}
        if self._chance(0.6) and len(things) > 1:
            slots["Q"] = self._other(things, slots["O"])
        if places and self._chance(0.5):
            slots["P"] = self._pick(places)
        return slots

    def _other(self, things: Sequence[str], thing: str) -> str:
        while (other := self._pick(things)) == thing:
            pass
        return other

    def _holder_scene(self) -> dict[str, str]:
        holder = self._pick([*CONCEPTS["holders"]])
        things = _having("things", CONCEPTS["holders"][holder])
        first = self._pick(things)
        return {"H": holder, "O": first, "Q": self._other(things, first)}

    def _view_scene(self) -> dict[str, str]:
        view = self._pick([*CONCEPTS["views"]])
        slots = {"V": view}
        if CONCEPTS["views"][view] and self._chance(0.3):
            slots["T"] = self._pick(_VIEW_TIMES)
        return slots
