"""A scorer as an `evaluate` module: rows from `add`, `add_batch` or `compute` → a dict of scores.

Rows are checked and measured as they come, in the process that gets them. Only a few numbers per row wait for
`compute`, and the texts where a metric compares rows with each other. Therefore memory does not grow with the
images, each process of a distributed run does its share of the model's work, and CIDEr of rows that came in
pieces equals CIDEr of all rows together.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import datasets
import evaluate
import numpy as np
from datasets import Features, Value

from ..errors import CapscoreError, InputError, Setting
from ..registry import METRICS
from ..text.languages import language_code
from .base import PreparedRows, Scorer, check_column_names
from .loading import load, stated_options

_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # as the Arrow format has it
# what waits for `compute`: each row as JSON, in place of the inputs that evaluate would store
_STORED = Features({"row": Value("string")})


class CaptionModule(evaluate.Metric, ABC):
    """Base of the modules in `metrics/`; a module names its `metric` and describes itself.

    Further arguments of `evaluate.load` are options of `capscore.load`; an option that the metric does not
    take is an error. `revision` in `evaluate.load` is the module's; for the backbone's, write
    `backbone="org/name@revision"`.

    `language` applies to all rows that come without one, and `per_row` to each `compute` without it.
    `evaluate.combine` does not pass `language` on in `add` and `add_batch`, so combined modules have to be
    loaded with it.

    With `num_process > 1`, every process needs the same `experiment_id` and `cache_dir` (a shared folder) and
    its own `process_id`, and must call `compute` even if it got no rows. `timeout` is the number of seconds
    that a process waits for another. Process 0 gets the result of all rows, in the order of `process_id`; the
    others get None.

    Attributes:
        metric: Name of the scorer.
        examples: Examples that run offline as doctests, for the description of inputs and outputs.
        papers: URLs of the papers that define the metric.
        details: Description of the scorer's `detail_names`; "" for a metric without details.
        backbone: Default backbone of a published module, which names repository and revision; "" for that of
            the metric. The option `backbone` and the variable CAPSCORE_BACKBONE come before it.
    """

    metric: ClassVar[str]
    backbone: ClassVar[str] = ""
    examples: ClassVar[str] = ""
    papers: ClassVar[tuple[str, ...]] = ()
    details: ClassVar[str] = ""

    def __init__(
        self,
        config_name: str | None = None,
        keep_in_memory: bool = False,
        cache_dir: str | None = None,
        num_process: int = 1,
        process_id: int = 0,
        seed: int | None = None,
        experiment_id: str | None = None,
        hash: str | None = None,
        max_concurrent_cache_files: int = 10000,
        timeout: int | float = 100,
        *,
        language: str | None = None,
        per_row: bool = True,
        **options: Any,
    ):
        _check_per_row(per_row)
        if experiment_id is not None and not re.fullmatch(r"[\w .-]{0,60}", str(experiment_id)):
            raise InputError(
                Setting("experiment_id", experiment_id),
                ": expected at most 60 letters, digits, blanks, '_', '.' and '-': it begins names of files",
            )
        self._language, self._per_row = language, per_row
        self._scorer: Scorer | None = None
        self._options = stated_options(options)
        if self.backbone and "backbone" not in self._options and not os.environ.get("CAPSCORE_BACKBONE"):
            self._options["backbone"] = self.backbone
        self._storing = False
        self._rows_here = 0
        super().__init__(
            config_name=config_name,
            keep_in_memory=keep_in_memory,
            cache_dir=cache_dir,
            num_process=num_process,
            process_id=process_id,
            seed=seed,
            experiment_id=experiment_id,
            hash=hash,
            max_concurrent_cache_files=max_concurrent_cache_files,
            timeout=timeout,
        )

    # ------------------------------------------------- description

    @classmethod
    @abstractmethod
    def describe(cls) -> tuple[str, str]:
        """Description and citation of the metric."""

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
        if kind.needs_images:
            arguments.append(
                "images (list): one image per caption: path, bytes, PIL image, uint8 array (height, width, "
                "channels), or `datasets.Image` dict."
            )
        else:
            arguments.append("images (list, optional): accepted for every metric, but not opened.")
        if kind.needs_references:
            arguments.append("references (list of lists of str): at least one reference per caption.")
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
        kind = METRICS.get(self.metric)
        description, citation = self.describe()
        names: dict[str, Any] = {"predictions": Value("string")}
        if kind.needs_images:
            names["images"] = datasets.Image(decode=False)
        if kind.needs_references:
            names["references"] = datasets.Sequence(Value("string"))
        return evaluate.MetricInfo(
            description=description,
            citation=citation,
            inputs_description=self.inputs_and_outputs(),
            features=Features(names),
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

    # ----------------------------------------------------------------- rows come in

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
        check_column_names(METRICS.get(self.metric), extra)
        if self._is_closed():
            raise CapscoreError(
                f"the last compute of {self.metric} was interrupted, and its rows are still waiting: "
                "call compute() again before adding others"
            )
        if predictions is None:
            raise InputError("predictions=None: expected a list of captions", field="predictions")
        if self.num_process > 1:
            self._open_storage()  # processes meet before the work, so that none waits while another scores
            if hasattr(predictions, "__len__") and len(predictions) == 0:
                return  # rows were shared out unevenly
        language = self._language if language is None else language
        try:
            rows = self.scorer.prepare(predictions, images, references, language, on_error=on_error, **extra)
        except InputError as error:
            if error.row is None:
                raise
            # rows are counted from the first one that this process got
            raise error.at(self._rows_here + error.row) from error.__cause__
        with self._row_storage():
            super().add_batch(row=[_as_text(rows.row(index)) for index in range(len(rows))])
        self._rows_here += len(rows)

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
        kind = METRICS.get(self.metric)
        needed = {"predictions": True, "images": kind.needs_images, "references": kind.needs_references}
        rows = {name: [value] for name, value in columns.items() if value is not None or needed.get(name)}
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
    ) -> dict[str, Any] | None:
        """Score the rows given here and those added before; return means, scores, counts and signature.

        `per_row=False` leaves out everything that has one entry per row; None does as the module was loaded.

        References for a metric that takes none are ignored, as in `evaluate`, because `evaluate.combine`
        hands the same rows to all its modules; the signature then says `refs:0`.
        """
        kind = METRICS.get(self.metric)
        check_column_names(kind, extra)
        per_row = self._per_row if per_row is None else per_row
        _check_per_row(per_row)
        if predictions is not None or images is not None or references is not None:
            references = references if kind.needs_references else None
            rows = {"predictions": predictions, "images": images, "references": references, **extra}
            self.add_batch(language=language, on_error=on_error, **rows)  # type: ignore[arg-type]
        elif (language, on_error, *extra.values()) != (None, "raise", *[None] * len(extra)):
            names = ", ".join(["language", "on_error", *extra])
            raise InputError(f"{names} belong to the rows: give them to add or add_batch, or pass rows here")
        if self.num_process > 1 and not self._is_closed():
            self._open_storage()  # no rows here, but the other processes wait for this one
        if self.writer is not None or self._is_closed():
            try:
                with self._row_storage():
                    result = super().compute(per_row=per_row)
            finally:
                if not self._is_closed():
                    self._rows_here = 0
            if result is None or result["n_items"]:
                return result
        needed = ["predictions", *(["images"] if kind.needs_images else [])]
        needed += ["references"] if kind.needs_references else []
        raise InputError(
            f"{self.metric} has no rows to compute: pass {' and '.join(needed)}, or call add or add_batch",
            field="predictions",
        )

    def _compute(self, *, row: list[str], per_row: bool = True) -> dict[str, Any]:
        if not row:
            return {"n_items": 0}
        scores = self.scorer.finish(PreparedRows.concatenate([_from_text(text) for text in row]))
        return scores.to_dict(per_row=per_row)

    # ------------------------------------------- storage of rows until compute

    def _is_closed(self) -> bool:
        """Whether rows are in a file that a failed `compute` closed before it had read all of them."""
        return self.writer is None and self.cache_file_name is not None

    def _open_storage(self) -> None:
        if self.writer is None:
            self.selected_feature_format = _STORED
            self._init_writer()

    def _get_all_cache_files(self) -> tuple[list[str], list[Any]]:
        """The files of all processes, complete: the lock of a process that was killed is free as well."""
        paths, locks = super()._get_all_cache_files()
        for process, path in enumerate(paths):
            if not _is_complete(path):
                for lock in locks[1:]:
                    lock.release()
                raise CapscoreError(
                    f"process {process} of {len(paths)} ended before it called compute(), and its rows are "
                    "not all there: run all processes again"
                )
        return paths, locks

    # `evaluate` writes, gathers and reads rows of the declared inputs. Inside `_row_storage` it sees the
    # column above instead, so that its files, locks and processes handle it.

    @contextmanager
    def _row_storage(self) -> Iterator[None]:
        self._storing = True
        try:
            yield
        finally:
            self._storing = False

    def _feature_names(self) -> list[str]:
        return list(_STORED) if self._storing else super()._feature_names()

    def _infer_feature_from_batch(self, batch: dict[str, Any]) -> Features:
        return _STORED

    def _infer_feature_from_example(self, example: dict[str, Any]) -> Features:
        return _STORED


def _check_per_row(per_row: object) -> None:
    if not isinstance(per_row, bool):
        raise InputError(Setting("per_row", per_row), ": expected True or False")


def _one_of(name: str, value: Any, plural: Any) -> Any:
    if value is not None and plural is not None:
        raise InputError(f"both {name} and {name}s were given: pass one of them", field=name)
    return value if value is not None else plural


def _is_complete(path: str) -> bool:
    """Whether a stream of Arrow data was closed by its writer, which marks the end."""
    try:
        with open(path, "rb") as file:
            file.seek(-len(_END_OF_STREAM), os.SEEK_END)
            return file.read() == _END_OF_STREAM
    except FileNotFoundError:
        return True  # `evaluate` says what that means
    except OSError:
        return False  # too short


def _as_text(row: PreparedRows) -> str:
    return json.dumps(vars(row), default=np.ndarray.tolist)


def _from_text(text: str) -> PreparedRows:
    row = json.loads(text)
    row["values"] = {name: np.array(value, dtype=np.float64) for name, value in row["values"].items()}
    for name, kind in (("truncated", bool), ("n_references", np.int64), ("empty", bool)):
        row[name] = np.array(row[name], dtype=kind)
    return PreparedRows(**row)
