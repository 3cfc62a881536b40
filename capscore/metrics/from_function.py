"""A function that gives a number per row → a metric; `capscore.registry.register_metric` makes it one."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import xxhash

from .. import __version__
from ..errors import CapscoreError, InputError
from ..registry import METRICS
from .base import Scorer
from .loading import documented_arguments
from .rows import InputRows, PreparedRows, row_settings
from .scores import Scores

OF_A_ROW = ("candidate", "image", "references", "language")
OF_ROWS = ("candidates", "images", "references", "languages")
_BLOCK = 256  # rows, or distinct photos, of one call of a function of many rows

Aggregate = Callable[[np.ndarray], float]


class FunctionScorer(Scorer):
    """Scores rows by a function of each row, or of many rows at once.

    Attributes:
        aggregate: Function from the scores of all rows, float64 (n,), to their number; None for the mean.
    """

    value_names = ("number",)
    function: ClassVar[Callable[..., Any]]
    inputs: ClassVar[tuple[str, ...]]
    defaults: ClassVar[dict[str, object]]
    aggregate: ClassVar[Aggregate | None] = None
    code: ClassVar[str] = ""

    def __init__(self, **options: Any):
        own = {name: options.pop(name) for name in self.defaults if name in options}
        super().__init__(**options)
        self.options = {**self.defaults, **own}

    def __reduce__(self) -> tuple[object, ...]:
        # the class has the name of the function, by which pickle would look for it
        return _made_again, (self.metric, {**self.options, "empty": self.empty})

    def measure(self, rows: InputRows, on_error: str) -> dict[str, np.ndarray]:
        from ..embedding.photos import PhotoPipeline, in_batches

        numbers: dict[int, float] = {}
        if not self.needs_images:
            for some in in_batches(np.flatnonzero(rows.kept()).tolist(), _BLOCK):
                numbers |= self._numbers(rows, dict.fromkeys(some), on_error)
        else:
            with PhotoPipeline().photos(rows.images, on_error=on_error, skip=rows.left_out()) as photos:
                rows.image_keys, rows_of = photos.keys, photos.rows_by_key()
                for batch in in_batches(photos.each(lambda key, photo: photo), _BLOCK):
                    shown: dict[int, object] = {}
                    for key, photo in batch:
                        shown |= dict.fromkeys(rows_of[key], photo)
                    numbers |= self._numbers(rows, shown, on_error)
            rows.failures.update(photos.failures)
        kept = np.flatnonzero(rows.kept()).tolist()
        return {"number": np.array([numbers[row] for row in kept])}

    def _numbers(self, rows: InputRows, photos: dict[int, Any], on_error: str) -> dict[int, float]:
        """What the function gives for some rows with their photos; None where it opens none."""
        lists = rows.references or [[]] * len(rows)
        columns = {
            "candidate": [rows.candidates[row] for row in photos],
            "image": [*photos.values()],
            "references": [lists[row] for row in photos],
            "language": [rows.languages[row] for row in photos],
        }
        function = type(self).function
        if self.inputs[0] == OF_ROWS[0]:
            of_rows = dict(zip(OF_ROWS, columns.values(), strict=True))
            found = list(function(*(of_rows[name] for name in self.inputs), **self.options))
            if len(found) != len(photos):
                raise CapscoreError(f"{self.metric} gave {len(found)} numbers for {len(photos)} rows")
            return dict(zip(photos, map(self._number, found), strict=True))
        numbers = {}
        for place, row in enumerate(photos):
            try:
                number = function(*(columns[name][place] for name in self.inputs), **self.options)
            except InputError as error:
                rows.failures[row] = error.at(row)
                if on_error == "raise":
                    raise rows.failures[row] from error
            else:
                numbers[row] = self._number(number)
        return numbers

    def _number(self, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise CapscoreError(f"{self.metric} gave {value!r:.60} for a row: expected a number")
        return number

    def finish(self, rows: PreparedRows) -> Scores:
        values = rows.values["number"][rows.kept]
        *own, version = self.settings.items()
        settings = dict([*own, *row_settings(rows).items(), version])
        return self.make_scores(rows, values, {}, settings)

    @property
    def settings(self) -> dict[str, object]:
        stated = {name: value for name, value in self.options.items() if value is not None}
        return {**stated, "code": self.code, "version": __version__}

    def corpus_of_rows(
        self, scores: np.ndarray, languages: Sequence[str], statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        aggregate, values = type(self).aggregate, scores[~np.isnan(scores)]
        if aggregate is None:
            return {}
        number = float(aggregate(values)) if len(values) else math.nan
        return {self.aggregation: number}


def _made_again(metric: str, options: dict[str, object]) -> Any:
    return METRICS.get(metric)(**options)


def scorer_of(
    function: Callable[..., object],
    name: str,
    *,
    aggregate: str | Aggregate = "mean",
    version: str = "",
    **about: object,
) -> type[FunctionScorer]:
    """The class of a metric that a function computes.

    >>> scorer_of(lambda candidate: len(candidate), "length", version="1")().score(["a dog"]).mean
    5.0
    """
    options: dict[str, inspect.Parameter] = {}
    inputs: list[str] = []
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            options[key] = _option(name, parameter, documented_arguments(function.__doc__))
        else:
            inputs.append(key)
    if not any(inputs[:1] == [known[0]] and {*inputs} <= {*known} for known in (OF_A_ROW, OF_ROWS)):
        raise CapscoreError(
            f"the metric {name!r} is a function of {', '.join(inputs) or 'nothing'}: expected "
            f"{', '.join(OF_A_ROW)} of one row, or {', '.join(OF_ROWS)} of many, the candidate first, and "
            "options as keyword arguments"
        )
    of_set: dict[str, object] = {}
    if callable(aggregate):
        corpus_name = f"corpus_{name}"
        of_set = {"aggregate": staticmethod(aggregate), "corpus_names": (corpus_name,)}
        of_set["aggregation"] = corpus_name
    elif aggregate != "mean":
        raise CapscoreError(f"{name!r}: aggregate={aggregate!r}, expected 'mean' or a function of scores")
    attributes = {
        "metric": name,
        "title": name.replace("_", " ").capitalize(),
        "needs_images": any(key in inputs for key in ("image", "images")),
        "needs_references": "references" in inputs,
        "splits_texts": any(key in inputs for key in ("language", "languages")),
        **of_set,
        **about,
        "function": staticmethod(function),
        "inputs": tuple(inputs),
        "defaults": {key: parameter.default for key, parameter in options.items()},
        "code": version or _digest(function),
        "__init__": _init(options),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
    }
    return type(function.__name__, (FunctionScorer,), attributes)


def _option(metric: str, parameter: inspect.Parameter, texts: dict[str, str]) -> inspect.Parameter:
    """A keyword argument as an option: one without an annotation has the type of its default."""
    if parameter.default is parameter.empty:
        raise CapscoreError(f"{metric}: the option {parameter.name!r} needs a default")
    if parameter.name not in texts:
        missing = f"the option {parameter.name!r} needs an entry under Args: in the docstring"
        raise CapscoreError(f"{metric}: {missing}")
    if parameter.annotation is parameter.empty:
        return parameter.replace(annotation=type(parameter.default))
    return parameter


def _init(options: dict[str, inspect.Parameter]) -> Callable[..., None]:
    """An `__init__` with the options, from which `options_of` reads them."""

    def __init__(self: FunctionScorer, **given: object) -> None:
        FunctionScorer.__init__(self, **given)

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    common = inspect.Parameter("common", inspect.Parameter.VAR_KEYWORD)
    __init__.__signature__ = inspect.Signature([first, *options.values(), common])  # type: ignore[attr-defined]
    return __init__


def _digest(function: Callable[..., object]) -> str:
    try:
        code = inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = function.__code__.co_code
    return xxhash.xxh3_64_hexdigest(code)[:8]
