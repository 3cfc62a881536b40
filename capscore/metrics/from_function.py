"""A function that gives a number per row → a metric; `capscore.registry.register_metric` makes it one.

In: a function of one row, or of many. Out: a class of scorers, whose options are its keyword arguments.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import xxhash

from .. import __version__
from ..errors import CapscoreError, ImageError, InputError
from .base import Scorer
from .loading import documented_arguments
from .rows import InputRows, Measured, PreparedRows, row_settings
from .scores import Scores

OF_A_ROW = ("candidate", "image", "references", "language")
OF_ROWS = ("candidates", "images", "references", "languages")
_BLOCK = 256  # rows of one call of a function of many rows

Aggregate = Callable[[np.ndarray], float]


class FunctionScorer(Scorer):
    """Scores rows by a function of each row, or of many rows at once.

    Attributes:
        function: The function.
        inputs: Names of what it takes of the rows, among `OF_A_ROW` or `OF_ROWS`.
        defaults: Its options and their defaults.
        aggregate: Function from the scores of all rows, float64 (n,), to their number; None for the mean.
        code: Version of the function, for the signature.
    """

    value_names = ("number",)
    function: ClassVar[Callable[..., Any]]
    inputs: ClassVar[tuple[str, ...]]
    defaults: ClassVar[dict[str, Any]]
    aggregate: ClassVar[Aggregate | None] = None
    code: ClassVar[str] = ""

    def __init__(self, **options: Any):
        own = {name: options.pop(name) for name in self.defaults if name in options}
        super().__init__(**options)
        self.options = {**self.defaults, **own}

    def __reduce__(self) -> tuple[Any, ...]:
        # the class has the name of the function, by which pickle would look for it
        return _made_again, (self.metric, {**self.options, "empty": self.empty})

    def measure(self, rows: InputRows, on_error: str) -> Measured:
        keys = [""] * len(rows)
        numbers: list[float] = []
        kept = np.flatnonzero(rows.kept()).tolist()
        size = 1 if self.inputs[0] == OF_A_ROW[0] else _BLOCK
        for start in range(0, len(kept), size):
            photos = self._photos(rows, kept[start : start + size], keys, on_error)
            if not photos:
                continue
            if size > 1:
                numbers += self._numbers(rows, photos)
                continue
            for row in photos:
                try:
                    numbers += self._numbers(rows, photos)
                except InputError as error:
                    rows.failures[row] = error.at(row)
                    if on_error == "raise":
                        raise rows.failures[row] from error
        return Measured({"number": np.array(numbers)}, keys, np.zeros(len(rows), dtype=bool))

    def _photos(
        self, rows: InputRows, asked: Sequence[int], keys: list[str], on_error: str
    ) -> dict[int, Any]:
        """Row → its photo, None for a metric that opens none; without rows whose photo cannot be read."""
        from ..images.load import content_key, load_image

        if not self.needs_images:
            return dict.fromkeys(asked)
        found = {}
        for row in asked:
            try:
                keys[row] = content_key(rows.images[row])
                found[row] = load_image(rows.images[row])
            except ImageError as error:
                keys[row] = ""
                rows.failures[row] = error.at(row)
                if on_error == "raise":
                    raise rows.failures[row] from error
        return found

    def _numbers(self, rows: InputRows, photos: dict[int, Any]) -> list[float]:
        """What the function gives for some rows."""
        lists = rows.references or [[]] * len(rows)
        columns = {
            "candidate": [rows.candidates[row] for row in photos],
            "image": [*photos.values()],
            "references": [lists[row] for row in photos],
            "language": [rows.languages[row] for row in photos],
        }
        if self.inputs[0] == OF_A_ROW[0]:
            given = [columns[name][0] for name in self.inputs]
            found = [type(self).function(*given, **self.options)]
        else:
            of_rows = dict(zip(OF_ROWS, columns.values(), strict=True))
            found = list(type(self).function(*(of_rows[name] for name in self.inputs), **self.options))
            if len(found) != len(photos):
                raise CapscoreError(f"{self.metric} gave {len(found)} numbers for {len(photos)} rows")
        return [*map(self._number, found)]

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
        return self.make_scores(rows, values, {}, settings, self._corpus(values))

    @property
    def settings(self) -> dict[str, object]:
        stated = {name: value for name, value in self.options.items() if value is not None}
        return {**stated, "code": self.code, "version": __version__}

    def _corpus(self, values: np.ndarray) -> dict[str, float]:
        aggregate = type(self).aggregate
        if aggregate is None:
            return {}
        number = float(aggregate(values)) if len(values) else math.nan
        return {self.aggregation: number}


def _made_again(metric: str, options: dict[str, Any]) -> Scorer:
    from ..registry import METRICS

    made: Scorer = METRICS.get(metric)(**options)
    return made


def scorer_of(
    function: Callable[..., Any],
    name: str,
    *,
    aggregate: str | Aggregate = "mean",
    version: str = "",
    **about: Any,
) -> type[FunctionScorer]:
    """The class of a metric that a function computes.

    Args:
        function: Function, as `capscore.registry.register_metric` describes it.
        name: Name of the metric.
        aggregate: "mean", or a function from the rows' scores to the number of the set.
        version: Version of the function, for the signature; "" for a digest of its source.
        **about: Class attributes of `Scorer`.

    Raises:
        CapscoreError: arguments that are not those of a metric, an option without a default or description.

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
    of_set: dict[str, Any] = {}
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

    def __init__(self: FunctionScorer, **given: Any) -> None:
        FunctionScorer.__init__(self, **given)

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    common = inspect.Parameter("common", inspect.Parameter.VAR_KEYWORD)
    __init__.__signature__ = inspect.Signature([first, *options.values(), common])  # type: ignore[attr-defined]
    return __init__


def _digest(function: Callable[..., Any]) -> str:
    """A digest of a function's source, or of its code where there is no source."""
    try:
        code = inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = function.__code__.co_code
    return xxhash.xxh3_64_hexdigest(code)[:8]
