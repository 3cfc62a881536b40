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
        # "a family in a red shirt" would share one shirt
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
        groups = self._groups = {name: frozenset(words.split()) for name, words in data["places"].items()}
        self._open_air = {concept for concept, words in groups.items() if words & outdoor}
        self._times = data["times"]
        self._companions, self._views = list(data["companions"]), list(data["views"])
        self._outdoor_views = {concept for concept, words in data["views"].items() if words}

        def places(names: str) -> list[str]:
            return [concept for concept, words in groups.items() if words & set(names.split())]

        def having(category: str, names: str) -> list[str]:
            return [c for c, words in data[category].items() if set(words.split()) & set(names.split())]

        self._actions: dict[str, dict[str, list[str]]] = {}
        self._often: dict[str, list[float]] = {kind: [] for kind, _ in _KIND_SHARES}  # cumulative
        self._by_kind: dict[str, list[str]] = {kind: [] for kind, _ in _KIND_SHARES}
        for action, rule in data["actions"].items():
            self._actions[action] = {
                "places": places(rule["at"]),
                "clothing": having("clothing", rule.get("wear", "")),
                "things": having("things", rule.get("objects", "")),
                "companions": self._companions if rule.get("with") else [],
            }
            by = set(rule["by"].split())
            self._add_subjects(action, [concept for concept, words in classes.items() if words & by])
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

    def _add_subjects(self, action: str, subjects: Sequence[str]) -> None:
        """Actions with more variants are drawn more often, else half of all captions would be repeats."""
        rule = self._actions[action]
        for kind, _ in _KIND_SHARES:
            own = rule[kind] = [concept for concept in subjects if self._kind_of[concept] == kind]
            if own:
                self._by_kind[kind].append(action)
                size = len(own) * (1 + len(rule["places"])) * (1 + len(rule["things"]))
                self._often[kind].append(size**0.5 + (self._often[kind] or [0.0])[-1])

    def draw(self) -> Scene:
        kind = self._kinds[bisect(self._weights, self._random.random() * self._weights[-1])]
        slots: dict[str, str] = getattr(self, f"_{kind}_scene")()
        return Scene(kind, slots, self._random.getrandbits(60))

    def _pick(self, items: Sequence[Any]) -> Any:
        return items[int(self._random.random() * len(items))]

    def _subject_kind(self) -> str:
        drawn = self._random.random()
        return next(kind for kind, share in _KIND_SHARES if drawn < share)

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
        # Two subjects of different kinds: two people could swap their actions.
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
        """Places for both actions; none if either has a thing."""
        item, other = self._actions[left], self._actions[right]
        if item["things"] or other["things"]:
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
