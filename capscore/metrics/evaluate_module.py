"""A scorer as an `evaluate` module: rows from `add`, `add_batch` or `compute` → a dict of scores."""

from __future__ import annotations

import inspect
import os
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import datasets
import evaluate
from datasets import Features, Value

from ..errors import InputError, Setting
from ..options import check_flag, stated_options
from ..registry import METRICS
from ..text.languages import language_code
from .base import Scorer, check_column_names
from .loading import load
from .rows import PreparedRows

# arguments of `evaluate.load` that are not options of a metric
_OF_EVALUATE = frozenset(inspect.signature(evaluate.Metric).parameters) - {"config_name", "kwargs"}


class CaptionModule(evaluate.Metric, ABC):
    """Base of the modules in `metrics/`; a module names its `metric` and describes itself.

    Further arguments of `evaluate.load` are options of `capscore.load`; an option that the metric does not
    take is an error. `revision` in `evaluate.load` is that of the module; to set the backbone's, write
    `backbone="org/name@revision"`.

    `language` applies to all rows that come without one, and `per_row` to each `compute` without it.
    `evaluate.combine` does not pass `language` on in `add` and `add_batch`, so load combined modules with
    it. A module scores in one process; for several, see `docs/scale.md`.

    Attributes:
        metric: Name of the scorer.
        examples: Examples that run offline as doctests, for the description of inputs and outputs.
        papers: URLs of the papers that define the metric.
        details: Description of the scorer's `detail_names`; "" for a metric without details.
        backbone: Default backbone of a published module, which names repository and revision; "" for that of
            the metric. The option `backbone` and the metric's variable of the environment take precedence.
    """

    metric: ClassVar[str]
    backbone: ClassVar[str] = ""
    examples: ClassVar[str] = ""
    papers: ClassVar[tuple[str, ...]] = ()
    details: ClassVar[str] = ""

    def __init__(
        self,
        config_name: str | None = None,
        *,
        language: str | None = None,
        per_row: bool = True,
        **options: Any,
    ):
        check_flag("per_row", per_row)
        of_evaluate = {name: options.pop(name) for name in _OF_EVALUATE & options.keys()}
        processes = of_evaluate.get("num_process", 1)
        if processes != 1:
            raise InputError(
                Setting("num_process", processes),
                ": a module scores in one process; for several, use Ray Data or torchmetrics",
            )
        self._language, self._per_row = language, per_row
        self._scorer: Scorer | None = None
        self._waiting: list[PreparedRows] = []
        self._options = stated_options(options)
        self._kind = METRICS.get(self.metric)
        variable = self._kind.backbone_variable
        if self.backbone and "backbone" not in self._options and not os.environ.get(variable):
            self._options["backbone"] = self.backbone
        super().__init__(config_name=config_name, **of_evaluate)

    def __len__(self) -> int:
        return sum(map(len, self._waiting))

    @classmethod
    @abstractmethod
    def describe(cls) -> tuple[str, str]:
        """Description and citation of the metric; `super().describe()` gives those of its class."""
        kind = METRICS.get(cls.metric)
        about = inspect.cleandoc(kind.__doc__ or "").partition("\n\nArgs:")[0]
        return about, "\n\n".join(kind.citation)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.examples:
            own = inspect.getdoc(cls) if "__doc__" in vars(cls) else ""
            cls.__doc__ = "\n".join((cls.describe()[0], cls.inputs_and_outputs(), own or ""))

    @classmethod
    def inputs_and_outputs(cls) -> str:
        """Description of arguments and results, with examples; also part of the class's docstring."""
        kind = METRICS.get(cls.metric)
        arguments = ["predictions (list of str): candidate captions."]
        forms = "path, bytes, PIL image, array, tensor (channels first), or `datasets.Image` dict."
        opened = f"images (list): one image per caption: {forms}"
        ignored = "images (list, optional): accepted for every metric, but not opened."
        arguments.append(opened if kind.needs_images else ignored)
        if kind.needs_references:
            arguments.append(
                "references (list of lists of str, or of str): at least one reference per caption."
            )
        elif kind.takes_references:
            read = "read by `compute` if the module was loaded with `with_references=True`"
            arguments.append(f"references (list of lists of str, optional): {read}.")
        arguments += [f"{item.name} ({item.type}, optional): {item.help}." for item in kind.extra_columns]
        language = "decides how texts are split into words" if kind.splits_texts else "named in the signature"
        arguments += [
            f"language (str or list of str, optional): language code of the captions; {language}.",
            'on_error (str): "raise" (default), or "skip" to leave bad rows out and list them as "failures".',
            "per_row (bool, optional): argument of `compute`; False leaves out all lists. Default: as the "
            "module was loaded, else True.",
        ]
        components = [name for name in kind.component_names for name in (name, f"mean_{name}")]
        names = ", ".join(f'"{name}"' for name in (*components, *kind.corpus_names, *kind.detail_names))
        returns = (
            f'dict of plain floats, lists and strings: "{cls.metric}" (mean), "scores" (None for a skipped '
            f'row), {names}{", " if names else ""}"n_items", "n_scored" (rows behind the mean), "n_failed", '
            '"n_empty" (empty captions), "n_unique_images", "n_truncated", "failures", "signature".'
        )

        def filled(text: str, hanging: int = 0) -> str:
            return textwrap.fill(text, 110, initial_indent=" " * 4, subsequent_indent=" " * (4 + hanging))

        parts = ["\nArgs:", *(filled(text, 4) for text in arguments), "\nReturns:", filled(returns)]
        if cls.details:
            parts.append(f"\n    {cls.details}")
        if cls.examples:
            parts.append(f"\nExamples:\n\n{textwrap.indent(cls.examples, '    ')}")
        return "\n".join(parts)

    def _info(self) -> evaluate.MetricInfo:
        description, citation = self.describe()
        return evaluate.MetricInfo(
            description=description,
            citation=citation,
            inputs_description=self.inputs_and_outputs(),
            features=Features(self.needed_columns()),
            reference_urls=list(self.papers),
        )

    @property
    def scorer(self) -> Scorer:
        """The scorer, loaded on first use."""
        if self._scorer is None:
            self._scorer = load(self.metric, **self._options)
        return self._scorer

    def _download_and_prepare(self, dl_manager: Any) -> None:
        # when evaluate.load returns, everything that a module needs must be there
        scorer = self.scorer
        problem = self._language and scorer.language_problem(language_code(self._language))
        if problem:
            raise InputError(problem, field="language")

    def add_batch(
        self,
        *,
        predictions: Sequence[str] | None = None,
        images: Sequence[Any] | None = None,
        references: Sequence[Sequence[str]] | None = None,
        language: str | Sequence[str] | None = None,
        on_error: str = "raise",
        **extra: Sequence[Any] | None,
    ) -> None:
        """Add a batch of rows. If one of them raises an error, none is added."""
        check_column_names(self._kind, extra)
        if predictions is None:
            raise InputError("predictions=None: expected a list of captions", field="predictions")
        columns = predictions, images, references
        if isinstance(predictions, list) and not any(
            column is not None and len(column) for column in columns
        ):
            return  # the last batch of a loop may have no rows
        language = self._language if language is None else language
        try:
            rows = self.scorer.prepare(predictions, images, references, language, on_error=on_error, **extra)
        except InputError as error:
            if error.row is None:
                raise
            # rows are counted from the first that was added
            raise error.at(len(self) + error.row) from error.__cause__
        self._waiting.append(rows)

    def add(
        self,
        *,
        prediction: str | None = None,
        image: Any = None,
        reference: Sequence[str] | None = None,
        language: str | None = None,
        on_error: str = "raise",
        predictions: str | None = None,
        images: Any = None,
        references: Sequence[str] | None = None,
        **extra: Any,
    ) -> None:
        """Add one row. The arguments have singular and plural names; both mean the same."""
        columns: dict[str, Any] = {
            "predictions": _one_of("prediction", prediction, predictions),
            "images": _one_of("image", image, images),
            "references": _one_of("reference", reference, references),
            **extra,
        }
        needed = self.needed_columns()
        rows = {name: [value] for name, value in columns.items() if value is not None or name in needed}
        self.add_batch(language=language, on_error=on_error, **rows)  # type: ignore[arg-type]

    def compute(
        self,
        *,
        predictions: Sequence[str] | None = None,
        images: Sequence[Any] | None = None,
        references: Sequence[Sequence[str]] | None = None,
        language: str | Sequence[str] | None = None,
        on_error: str = "raise",
        per_row: bool | None = None,
        **extra: Sequence[Any] | None,
    ) -> dict[str, Any]:
        """Score the rows given here and those added before; return means, scores, counts and signature.

        `per_row=False` leaves out everything that has one entry per row; None uses the setting with which
        the module was loaded.

        References for a metric that needs none are ignored, as in `evaluate`, because `evaluate.combine`
        hands the same rows to all its modules; the signature then says `refs:0`. Empty lists, if no row was
        added before, have no scores: {}.
        """
        check_column_names(self._kind, extra)
        if per_row is None:
            per_row = self._per_row
        else:
            check_flag("per_row", per_row)
        needed = self.needed_columns()
        if predictions is not None or images is not None or references is not None:
            references = references if "references" in needed else None
            rows = {"predictions": predictions, "images": images, "references": references, **extra}
            self.add_batch(language=language, on_error=on_error, **rows)  # type: ignore[arg-type]
        elif (language, on_error, *extra.values()) != (None, "raise", *[None] * len(extra)):
            names = ", ".join(["language", "on_error", *extra])
            raise InputError(f"{names} belong to the rows: give them to add or add_batch, or pass rows here")
        if not self._waiting and predictions is None:
            raise InputError(
                f"{self.metric} has no rows to compute: pass {' and '.join(needed)}, or call add_batch",
                field="predictions",
            )
        return self._compute(per_row=per_row)

    def _compute(self, *, per_row: bool = True) -> dict[str, Any]:  # type: ignore[override]
        if not self._waiting:
            return {}
        scores = self.scorer.finish(PreparedRows.concatenate(self._waiting))
        self._waiting = []
        return scores.to_dict(per_row=per_row)

    def needed_columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"predictions": Value("string")}
        needs_images, needs_references = self._kind.needs(self._options)
        if needs_images:
            columns["images"] = datasets.Image(decode=False)
        if needs_references:
            columns["references"] = datasets.Sequence(Value("string"))
        return columns


def _one_of(name: str, value: object, plural: object) -> Any:
    if value is not None and plural is not None:
        raise InputError(f"both {name} and {name}s were given: pass one of them", field=name)
    return value if value is not None else plural
