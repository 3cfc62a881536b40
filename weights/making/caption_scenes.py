"""A seed → scenes for captions, by the rules of grammar/concepts.json. Scenes know no language."""

from __future__ import annotations

import json
import random
from bisect import bisect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "grammar"

# Probability of each optional part of a scene.
CLOTHING, COMPANION, PLACE, TIME = 0.45, 0.15, 0.8, 0.18
_KIND_SHARES = (("person", 0.68), ("animal", 0.9), ("vehicle", 1.0))  # cumulative
_VIEW_TIMES = ("at_sunset", "sunny_day", "under_gray_sky", "early_morning", "in_evening")


class Scene(NamedTuple):
    """A scene, which every language describes."""

    kind: str  # one of `concepts()["weights"]`
    slots: dict[str, str]  # slot → concept; see the table in grammar/README.md
    style: int  # 60 random bits: template, synonyms, capital and full stop in each language


@cache
def concepts() -> dict[str, Any]:
    return read_grammar(FOLDER / "concepts.json")


def read_grammar(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _having(category: str, names: str) -> list[str]:
    """The concepts of a category that have one of these classes or groups."""
    wanted = set(names.split())
    return [concept for concept, words in concepts()[category].items() if wanted & set(words.split())]


class Scenes:
    """A seed → scenes, one after the other, by the rules of `concepts.json`."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        data = self._data = concepts()
        self._weights = list(accumulate(data["weights"].values()))
        classes = {concept: words.split() for concept, words in data["subjects"].items()}
        self._wears = {subject: self._clothing(of) for subject, of in classes.items()}
        self._open_air = _having("places", data["outdoor"])
        self._actions: dict[str, dict[str, list[str]]] = {}
        self._often: dict[str, list[float]] = {kind: [] for kind, _ in _KIND_SHARES}  # cumulative
        self._by_kind: dict[str, list[str]] = {kind: [] for kind, _ in _KIND_SHARES}
        for action, rule in data["actions"].items():
            own = self._actions[action] = {
                "places": _having("places", rule["at"]),
                "clothing": _having("clothing", rule.get("wear", "")),
                "things": _having("things", rule.get("objects", "")),
                "companions": [*data["companions"]] if rule.get("with") else [],
            }
            subjects = _having("subjects", rule["by"])
            for kind, often in self._often.items():
                own[kind] = [concept for concept in subjects if classes[concept][0] == kind]
                if own[kind]:
                    self._by_kind[kind].append(action)
                    # actions with more variants are drawn more often, else half of all captions were repeats
                    size = len(own[kind]) * (1 + len(own["places"])) * (1 + len(own["things"]))
                    often.append(size**0.5 + (often or [0.0])[-1])
        self._static = self._placed("static", "subjects")
        self._exists = self._placed("exists", "things")
        self._stills = []
        for name in data["stills"].split():
            self._stills.append((_having("things", name), _having("places", data["exists"].get(name, ""))))
        self._holders = [(holder, _having("things", names)) for holder, names in data["holders"].items()]

    def _clothing(self, classes: Sequence[str]) -> set[str]:
        """What a subject of these classes wears; "a family in a red shirt" would share one shirt."""
        if "person" not in classes or "baby" in classes or "collective" in classes:
            return set()
        worn = set(self._data["clothing"])
        if "female" not in classes:
            worn -= {*_having("clothing", "dress")}
        return worn - {*_having("clothing", "formal")} if "child" in classes else worn

    def _placed(self, rules: str, category: str) -> list[tuple[str, list[str]]]:
        """Concepts of the classes that rules name, and their places."""
        found = []
        for name, at in self._data[rules].items():
            found += [(concept, _having("places", at)) for concept in _having(category, name)]
        return found

    def draw(self) -> Scene:
        kind = [*self._data["weights"]][bisect(self._weights, self._random.random() * self._weights[-1])]
        slots: dict[str, str] = getattr(self, f"_{kind}_scene")()
        return Scene(kind, slots, self._random.getrandbits(60))

    def _pick(self, items: Sequence[Any]) -> Any:
        return items[int(self._random.random() * len(items))]

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _action(self, kind: str) -> str:
        often = self._often[kind]
        return self._by_kind[kind][bisect(often, self._random.random() * often[-1])]

    def _time(self, slots: dict[str, str]) -> None:
        if self._chance(TIME):
            time, place = self._pick([*self._data["times"]]), slots.get("P", "")
            rule = self._data["times"][time]
            groups = self._data["places"].get(place, "").split()
            odd = set(rule.get("not", "").split()).intersection(groups)
            if place and not odd and (rule["at"] != "outdoor" or place in self._open_air):
                slots["T"] = time

    def _dress(self, slots: dict[str, str], clothing: list[str]) -> None:
        if clothing and self._wears[slots["S"]] and self._chance(CLOTHING):
            worn = self._pick(clothing)
            if worn in self._wears[slots["S"]]:
                slots["C"] = worn

    def _action_scene(self) -> dict[str, str]:
        drawn = self._random.random()
        kind = next(kind for kind, share in _KIND_SHARES if drawn < share)
        action = self._action(kind)
        rule = self._actions[action]
        slots = {"S": self._pick(rule[kind]), "A": action}
        if rule["things"]:
            slots["O"] = self._pick(rule["things"])
        self._dress(slots, rule["clothing"])
        if self._wears[slots["S"]] and rule["companions"] and self._chance(COMPANION):
            slots["K"] = self._pick(rule["companions"])
        if rule["places"] and self._chance(PLACE):
            slots["P"] = self._pick(rule["places"])
            self._time(slots)
        return slots

    def _static_scene(self) -> dict[str, str]:
        subject, places = self._pick(self._static)
        slots = {"S": subject, "P": self._pick(places)}
        self._dress(slots, _having("clothing", "any"))
        self._time(slots)
        return slots

    def _pair_scene(self) -> dict[str, str]:
        # Two subjects of different kinds: two people could swap their actions.
        first, second = ("person", "animal") if self._chance(0.8) else ("person", "vehicle")
        if self._chance(0.4):
            first, second = second, first
        left, places = "", []
        while not places:
            left, right = self._action(first), self._action(second)
            places = self._shared(left, right)
        slots = {"S": self._pick(self._actions[left][first]), "A": left}
        slots |= {"R": self._pick(self._actions[right][second]), "B": right}
        if self._chance(PLACE):
            slots["P"] = self._pick(places)
        return slots

    def _shared(self, left: str, right: str) -> list[str]:
        """Places for two actions; none if they are one, or either has a thing."""
        item, other = self._actions[left], self._actions[right]
        if left == right or item["things"] or other["things"]:
            return []
        return [place for place in item["places"] if place in other["places"]]

    def _exist_scene(self) -> dict[str, str]:
        thing, places = self._pick(self._exists)
        slots = {"O": thing, "P": self._pick(places)}
        self._time(slots)
        return slots

    def _still_scene(self) -> dict[str, str]:
        things, places = self._pick(self._stills)
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
        holder, things = self._pick(self._holders)
        first = self._pick(things)
        return {"H": holder, "O": first, "Q": self._other(things, first)}

    def _view_scene(self) -> dict[str, str]:
        view = self._pick([*self._data["views"]])
        slots = {"V": view}
        if self._data["views"][view] and self._chance(0.3):
            slots["T"] = self._pick(_VIEW_TIMES)
        return slots
