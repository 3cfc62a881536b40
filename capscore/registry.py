"""Names → metrics, backbones, perturbations and benchmarks, also those of other packages.

A package adds its own with a decorator, or with an entry point of the group `capscore.metrics`,
`capscore.backbones`, `capscore.perturbations` or `capscore.benchmarks`; then everything that takes a name
takes it. docs/extending.md shows one of each.

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
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from .errors import CapscoreError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of things of one kind, imported on first use.

    Args:
        kind: What they are, in the singular, such as "metric"; entry points are in the group
            `capscore.<kind>s`.
        builtin: Name → "module:object" of those that come with the library.
    """

    def __init__(self, kind: str, builtin: Mapping[str, str] | None = None):
        self.kind = kind
        self.builtin = dict(builtin or {})
        self._registered: dict[str, T] = {}

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=f"capscore.{self.kind}s")}

    def register(self, name: str) -> Callable[[Any], Any]:
        """Decorator that gives a name to a class or function.

        Raises:
            CapscoreError: the name comes with the library, or something else has it.
        """

        def named(item: Any) -> Any:
            other = self._registered.get(name, item)
            if name in self.builtin or (other.__module__, other.__name__) != (item.__module__, item.__name__):
                raise CapscoreError(f"there is already a {self.kind} named {name!r}")
            self._registered[name] = item
            return item

        return named

    def unregister(self, name: str) -> None:
        """Take back a name that `register` gave."""
        self._registered.pop(name, None)

    def names(self) -> list[str]:
        """All names: of the library first, then of other packages."""
        return list(dict.fromkeys([*self.builtin, *self._registered, *self._entry_points]))

    def outside(self) -> list[str]:
        """Names from other packages."""
        return [name for name in self.names() if name not in self.builtin]

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self._registered or name in self._entry_points

    def get(self, name: str) -> T:
        """The thing that a name is registered for.

        Raises:
            CapscoreError: unknown name; suggests a similar one.
        """
        if name in self._registered:
            return self._registered[name]
        if name in self.builtin:
            module, _, item = self.builtin[name].partition(":")
            return getattr(importlib.import_module(module), item)
        if name in self._entry_points:
            self._registered.setdefault(name, self._entry_points[name].load())
            return self._registered[name]
        known = self.names()
        close = difflib.get_close_matches(str(name)[:60].lower().replace("-", "_"), known, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CapscoreError(f"{self.kind} {name!r:.60} is not one of {', '.join(known)}{hint}")


METRICS: Registry[Any] = Registry(
    "metric",
    {
        "mcs": "capscore.metrics.mcs:MCS",
        "pr_mcs": "capscore.metrics.pr_mcs:PRMCS",
        "clip_score": "capscore.metrics.clip_score:CLIPScore",
        "infometic": "capscore.metrics.infometic:InfoMetIC",
        "judge": "capscore.metrics.judge:Judge",
        "ref_clip_score": "capscore.metrics.ref_clip_score:RefCLIPScore",
        "clip_cider": "capscore.metrics.clip_cider:CLIPCIDEr",
        "text_score": "capscore.metrics.text_score:TextScore",
        "cider": "capscore.metrics.cider:CIDEr",
        "cider_d": "capscore.metrics.cider:CIDErD",
        "bleu": "capscore.metrics.bleu:BLEU",
        "rouge_l": "capscore.metrics.rouge_l:ROUGEL",
        "meteor": "capscore.metrics.meteor:METEOR",
        "spice": "capscore.metrics.spice:SPICE",
        "chair": "capscore.metrics.chair:Chair",
    },
)
# Loaders of backbones by name, besides those of capscore/backbones/registry.json
BACKBONES: Registry[Callable[..., Any]] = Registry("backbone")
# Perturbations besides those of capscore.perturbations
PERTURBATIONS: Registry[Callable[..., str]] = Registry("perturbation")
# Builders of benchmarks besides those of datasets_scripts/
BENCHMARKS: Registry[Any] = Registry("benchmark")


def register_metric(name: str) -> Callable[[Any], Any]:
    """Decorator for a `capscore.Scorer` subclass, whose attribute `metric` becomes the name.

    Its class attributes say what it reads and gives (see `capscore.Scorer`); the keyword arguments of its
    `__init__`, with their entries under `Args:` in its docstring, are its options everywhere.
    """

    def named(scorer: Any) -> Any:
        scorer.metric = name
        return METRICS.register(name)(scorer)

    return named


def register_backbone(name: str) -> Callable[[Any], Any]:
    """Decorator for a function `(*, device, dtype)` that returns a `capscore.Backbone`."""
    return BACKBONES.register(name)


def register_perturbation(name: str) -> Callable[[Any], Any]:
    """Decorator for a function `(caption, language, rng) -> caption`.

    It gets a caption, a language code, and a `random.Random` that depends on the seed and the caption alone.
    """
    return PERTURBATIONS.register(name)


def register_benchmark(name: str) -> Callable[[Any], Any]:
    """Decorator for a `capscore.CaptionBenchmark` subclass with a `task` of `capscore.benchmarks.tasks`."""
    return BENCHMARKS.register(name)
