"""Names → metrics, backbones, perturbations, benchmarks, readings, layouts, protocols: one register a kind.

What comes with the library and what another package adds are entries of the same register. A package adds its
own with a decorator, or with an entry point of the group `capscore.metrics`, `capscore.backbones`,
`capscore.perturbations`, `capscore.benchmarks`, `capscore.readings`, `capscore.layouts` or
`capscore.protocols`; then everything that takes a name takes it. docs/extending.md has examples.

    >>> @register_perturbation("shout")
    ... def shout(caption, language, rng):
    ...     return caption.upper()
    >>> from capscore.perturbations import perturb
    >>> perturb(["a dog"], "shout").captions
    ['A DOG']
    >>> PERTURBATIONS.unregister("shout")
"""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Callable, Collection
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from .errors import CapscoreError

# kind → name → "module:object"
_REGISTERED = json.loads(Path(__file__).with_name("registry.json").read_text(encoding="utf-8"))
T = TypeVar("T")
Item = TypeVar("Item")


class Registry(Generic[T]):
    """Names of things of one kind, imported on first use.

    Args:
        kind: What they are, in the singular, such as "metric"; entry points are in the group
            `capscore.<kind>s`. registry.json has those of the library.
        listed: "module:function" for further names of the library, which a data file or a folder brings: the
            function returns {spelling: name}, and a name may have several spellings.
        load: "module:function" of the function that returns the thing of such a name.
    """

    def __init__(self, kind: str, *, listed: str = "", load: str = ""):
        self.kind = kind
        self._places: dict[str, str] = _REGISTERED.get(kind, {})
        self._listed, self._load = listed, load
        self._registered: dict[str, Any] = {}

    @cached_property
    def builtin(self) -> dict[str, str]:
        """{spelling: name} of everything that comes with the library."""
        names = {name: name for name in self._places}
        if self._listed:
            names |= _imported(self._listed)()
        return names

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=f"capscore.{self.kind}s"):
            self._check_free(point.name, point.module)
            if point.name in found:
                raise self._taken(point.name, found[point.name].module, point.module)
            found[point.name] = point
        return found

    def register(self, name: str) -> Callable[[Item], Item]:
        """Decorator that gives a name to a class, a function or another object."""

        def named(item: Item) -> Item:
            self._check_free(name, item.__module__, item)
            if name in self._entry_points:
                module = self._entry_points[name].module
                if _package(module) != _package(item.__module__):
                    raise self._taken(name, module, item.__module__)
            self._registered[name] = item
            return item

        return named

    def unregister(self, name: str) -> None:
        """Take back a name that `register` gave."""
        self._registered.pop(name, None)

    def names(self) -> list[str]:
        """All names: of the library first, then of other packages."""
        return list(dict.fromkeys([*self.builtin.values(), *self._registered, *self._entry_points]))

    def all(self) -> dict[str, T]:
        """Every name, in the order of `names`, and its thing."""
        return {name: self.get(name) for name in self.names()}

    def outside(self) -> list[str]:
        """Names from other packages."""
        return [name for name in self.names() if name not in self.builtin]

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self._registered or name in self._entry_points

    def find(self, name: str) -> T | None:
        """The thing that a name is registered for, or None for an unknown name."""
        return self.get(name) if name in self else None

    def get(self, name: str) -> T:
        """The thing that a name is registered for."""
        if name in self._registered:
            return self._registered[name]
        if name in self._entry_points:
            item = self._entry_points[name].load()
            return self._registered.setdefault(name, item)
        if name in self._places:
            item = _imported(self._places[name])
            return self._registered.get(name, item)  # a decorator may have made something of it
        if name in self.builtin:
            return _imported(self._load)(self.builtin[name])
        known = self.names()
        close = difflib.get_close_matches(str(name)[:60].lower().replace("-", "_"), known, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CapscoreError(f"{self.kind} {name!r:.60} is not one of {', '.join(known)}{hint}")

    def _check_free(self, name: str, module: str, item: object = None) -> None:
        """Raise CapscoreError if the library has a name, or another item than this was registered for it."""
        if item is not None and self._places.get(name) == f"{module}:{getattr(item, '__name__', '')}":
            return  # the library's own, which is registered where it is defined
        if name in self.builtin:
            raise self._taken(name, "capscore", module)
        other = self._registered.get(name)
        if other is None or other is item:
            return
        if item is None:
            same = _package(other.__module__) == _package(module)
        else:
            same = _place(other) == _place(item)
        if not same:
            raise self._taken(name, other.__module__, module)

    def _taken(self, name: str, holder: str, newcomer: str) -> CapscoreError:
        there = f"there is already a {self.kind} named {name!r}, from {holder}"
        return CapscoreError(f"{there}: that of {newcomer} needs another name")


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _package(module: str) -> str:
    return module.partition(".")[0]


def _place(item: object) -> tuple[str, object]:
    """Where something was defined, by which a cell of a notebook that runs twice is known."""
    return item.__module__, getattr(item, "__qualname__", id(item))


METRICS: Registry[Any] = Registry("metric")
# Entries of capscore/backbones/registry.json, and functions `(*, device, dtype)` that load others
BACKBONES: Registry[Any] = Registry(
    "backbone", listed="capscore.backbones:spellings", load="capscore.backbones:known_backbone"
)
# Records (`capscore.perturbations.Kind`), and functions `(caption, language, rng) -> caption`
PERTURBATIONS: Registry[Any] = Registry("perturbation")
# Builders of benchmarks: classes in the loading scripts of datasets_scripts/, and others
BENCHMARKS: Registry[Any] = Registry(
    "benchmark",
    listed="capscore.files.shipped:shipped_benchmarks",
    load="capscore.benchmarks.data.load:builder_in_script",
)
# What a judge is asked, and how its answer becomes a score
READINGS: Registry[Any] = Registry("reading")
# Ways in which files lay out their rows
LAYOUTS: Registry[Any] = Registry(
    "layout", listed="capscore.files.layouts:known_layouts", load="capscore.files.layouts:known_layout"
)
# What of a benchmark's rows is scored, and what the scores give: classes of tasks
PROTOCOLS: Registry[Any] = Registry("protocol")


register_backbone = BACKBONES.register
"""Decorator for a function `(*, device, dtype)` that returns a `capscore.Backbone`."""
register_perturbation = PERTURBATIONS.register
"""Decorator for a function `(caption, language, rng) -> caption`; `rng` depends on seed and caption alone."""
register_benchmark = BENCHMARKS.register
"""Decorator for a `capscore.CaptionBenchmark` subclass with a `task` of `capscore.benchmarks.tasks`."""
register_reading = READINGS.register
"""Decorator for a `capscore.judges.readings.Reading` subclass, whose name `judge` takes as `reading`."""
register_protocol = PROTOCOLS.register
"""Decorator for a `capscore.benchmarks.tasks.Task` subclass, which a benchmark names as its `task`."""


def register_metric(
    name: str,
    *,
    aggregate: str | Callable[[Any], float] = "mean",
    higher_is_better: bool = True,
    title: str = "",
    score_range: tuple[float | None, float | None] = (None, None),
    citation: tuple[str, ...] = (),
    version: str = "",
) -> Callable[[Item], Item]:
    """Decorator for a metric: a function that gives a number per row, or a `capscore.Scorer` subclass.

    A function names what it takes of a row: `candidate` (a text), `image` (a PIL image in RGB), `references`
    (a list of texts), `language` (a code, "" if it is not stated), the candidate first; or, of many rows at
    once, `candidates`, `images`, `references` and `languages`, as lists, and gives an array of numbers. The
    number of a row depends on that row alone. Arguments that can be given by name alone are options, each
    with a default and an entry under `Args:` in the docstring. An `InputError` from a function of one row
    says that the row cannot be scored.

    A class says the same in its attributes (see `capscore.Scorer`), and takes no more than a name here. The
    keyword arguments of its `__init__`, with their entries in its docstring, are its options everywhere.

    Args:
        name: Name of the metric.
        aggregate: How scores of rows become the number of a set: "mean", or a function from an array
            (n,) of scores to a number, which is in `Scores.corpus` beside the mean; not for streams.
        higher_is_better: Whether a higher score is better.
        title: Name in tables and pages; "" makes one from the name.
        score_range: Lowest and highest score; None where there is no bound.
        citation: BibTeX entries.
        version: Version of the function, for signatures; "" for a digest of its source.

    Raises:
        CapscoreError: the name is taken, or the function's arguments are not those of a metric.

    >>> @register_metric("length_error", higher_is_better=False)
    ... def length_error(candidate, references):
    ...     return abs(len(candidate.split()) - len(references[0].split()))
    >>> import capscore
    >>> capscore.load("length_error").score(["a dog"], references=[["a black dog"]]).scores
    array([1.])
    >>> METRICS.unregister("length_error")
    """
    about: dict[str, object] = {"title": title, "score_range": score_range, "citation": citation}
    about |= {"aggregate": aggregate, "version": version, "higher_is_better": higher_is_better}
    usual = ("", (None, None), (), "mean", True)
    stated = {key: value for key, value in about.items() if value not in usual}

    def named(item: Item) -> Item:
        scorer: Any = item
        if not isinstance(item, type):
            make = _imported("capscore.metrics.from_function:scorer_of")
            scorer = make(item, name, **stated)
        elif stated:
            raise CapscoreError(f"the class of the metric {name!r} says in its attributes what it is")
        scorer.metric = name
        METRICS.register(name)(scorer)
        return item

    return named


def register_layout(
    name: str, example: str, *, lines: bool = False, marks: Collection[str] = ()
) -> Callable[[Item], Item]:
    """Decorator for a function `(value, notes) -> rows` of a layout of JSON, which all commands then read.

    Of a value in another layout it returns None. Rows are dicts such as `{"image": …, "caption": …}`; the
    function may append sentences for people to the list `notes`.

    Args:
        name: Name of the layout, for errors.
        example: Short text of JSON in it, for errors.
        lines: Whether values are objects of a list or of lines, each of which may be several rows; otherwise
            they are whole documents.
        marks: Names one of which every such object has, so that others are not looked at; () if none are.

    >>> @register_layout("tagged photos", '{"photos": [{"file": "a.jpg", "tag": "a dog"}]}')
    ... def tagged_photos(document, notes):
    ...     if "photos" in document:
    ...         return [{"image": photo["file"], "caption": photo["tag"]} for photo in document["photos"]]
    >>> from capscore.files.layouts import read_document
    >>> read_document({"photos": [{"file": "b.jpg", "tag": "a cat"}]}, [])[1]
    [{'image': 'b.jpg', 'caption': 'a cat'}]
    >>> LAYOUTS.unregister("tagged photos")
    """

    def named(layout: Any) -> Any:
        layout.example, layout.lines = example, lines or hasattr(layout, "columns")
        layout.marks = marks or getattr(layout, "marks", ())
        return LAYOUTS.register(name)(layout)

    return named
