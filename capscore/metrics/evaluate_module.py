"""A scorer as an `evaluate` module: rows from `add`, `add_batch` or `compute` → a dict of scores.

Rows are checked and measured as they come, in the process that gets them. Only a few numbers per row wait for
`compute`, and the texts where a metric compares rows with each other. Therefore memory does not grow with the
images, each process of a distributed run does its share of the model's work, no data set encodes an image
again (which would change its pixels), and CIDEr of rows that came in pieces equals CIDEr of all rows
together.
"""

from __future__ import annotations

import inspect
import json
import os
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import datasets
import evaluate
import numpy as np
from datasets import Features, Value

from ..errors import CapscoreError, InputError, Setting
from ..registry import METRICS
from ..text.languages import language_code
from .base import PreparedRows, Scorer
from .input_rows import check_column_names
from .loading import check_options, load, stated_options

if TYPE_CHECKING:
    pass

_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # as the Arrow format has it

INPUTS = """
Args:
    predictions (list of str): candidate captions.
    images (list{optional}): {images}
{references}{extra}    language (str or list of str, optional): language code of the captions; {language}
    on_error (str): "raise" (default), or "skip" to leave bad rows out and list them under "failures".
    per_row (bool, optional): argument of `compute`; False leaves out all lists, so that a trainer logs means,
        counts and signature only. Default: as the module was loaded, else True.

Returns:
{returns}
{details}{examples}"""
RETURNS = """dict of plain floats, lists and strings: "{metric}" (mean), "scores" (None for a skipped \
row){components}, "n_items", "n_scored" (rows behind the mean), "n_failed", "n_empty" (empty captions), \
"n_unique_images", "n_truncated", "failures", "signature"."""
IMAGES = """one image per caption: path, bytes, PIL image, uint8 array (height, width, channels), or
        `datasets.Image` dict."""
NO_IMAGES = """accepted, so that the same rows can go to every metric, but not opened."""
REFERENCES = """    references (list of lists of str): at least one reference per caption.
"""
DETAILS = """
    For each row (None for a skipped one):
    {names}.
    {more}
"""
LANGUAGE = "named in the signature."
SPLIT_LANGUAGE = """decides how
        texts are split into words."""


class CaptionModule(evaluate.Metric, ABC):
    """Base of the modules in `metrics/`; a module names its `metric` and describes itself.

    Further arguments of `evaluate.load` are options of `capscore.load`; an option that the metric does not
    take is an error. `revision` in `evaluate.load` is the module's; for the backbone's, write
    `backbone="org/name@revision"`.

    `language` applies to all rows that come without one. `evaluate.combine` does not pass `language` on in
    `add` and `add_batch`, so combined modules have to be loaded with it.

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
        **options: Any,
    ):
        _check_experiment(experiment_id)
        self._language = language
        self._scorer: Scorer | None = None
        self._options = stated_options(options)
        if self.backbone and "backbone" not in self._options and not os.environ.get("CAPSCORE_BACKBONE"):
            self._options["backbone"] = self.backbone
        check_options(self.metric, self._options)
        METRICS.get(self.metric).check_options(self._options)
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
        components = "".join(
            [
                *(f', "{name}", "mean_{name}"' for name in kind.component_names),
                *(f', "{name}"' for name in kind.corpus_names),
            ]
        )
        details = ""
        if kind.detail_names:
            names = ", ".join(f'"{name}"' for name in kind.detail_names)
            details = DETAILS.format(names=names, more=cls.details)
        return INPUTS.format(
            optional="" if kind.needs_images else ", optional",
            images=IMAGES if kind.needs_images else NO_IMAGES,
            references=REFERENCES if kind.needs_references else "",
            extra="".join(
                f"{_filled(f'{column.name} ({column.type}, optional): {column.help}.', hanging=True)}\n"
                for column in kind.extra_columns
            ),
            language=SPLIT_LANGUAGE if kind.splits_texts else LANGUAGE,
            returns=_filled(RETURNS.format(metric=cls.metric, components=components)),
            details=details,
            examples=f"\nExamples:\n\n{textwrap.indent(cls.examples, '    ')}" if cls.examples else "",
        )

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
        if self._language is not None:
            problem = scorer.language_problem(language_code(self._language))
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
        self._check_names(extra)
        if self._is_closed():
            raise CapscoreError(
                f"the last compute of {self.metric} was interrupted, and its rows are still waiting: "
                "call compute() again before adding others"
            )
        if language is None:
            language = self._language
        if predictions is None:
            raise InputError("predictions=None: expected a list of captions", field="predictions")
        if self.num_process > 1:
            if self.writer is None:
                # processes meet before the work, so that none waits while another one scores
                self._open_storage()
            if hasattr(predictions, "__len__") and len(predictions) == 0:
                return  # rows were shared out unevenly
        try:
            rows = self.scorer.prepare(predictions, images, references, language, on_error=on_error, **extra)
        except InputError as error:
            if error.row is not None and self._rows_here:
                # rows are counted from the first one that this process got
                raise error.at(self._rows_here + error.row) from error.__cause__
            raise
        with self._row_storage():
            super().add_batch(**_to_columns(rows))
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
        caption = _one_of("prediction", prediction, "predictions", predictions)
        photo = _one_of("image", image, "images", images)
        refs = _one_of("reference", reference, "references", references)
        kind = METRICS.get(self.metric)
        takes_references = refs is not None or kind.needs_references
        self.add_batch(
            predictions=[caption],
            images=[photo] if photo is not None or kind.needs_images else None,
            references=[refs] if takes_references else None,
            language=language,
            on_error=on_error,
            **{name: None if value is None else [value] for name, value in extra.items()},
        )

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
        self._check_names(extra)
        if not isinstance(per_row, (bool, type(None))):
            raise InputError(Setting("per_row", per_row), ": expected True or False")
        stray = [name for name, values in extra.items() if values is not None]
        if predictions is not None or images is not None or references is not None:
            self.add_batch(
                predictions=predictions,
                images=images,
                references=references if METRICS.get(self.metric).needs_references else None,
                language=language,
                on_error=on_error,
                **extra,
            )
        elif language is not None or on_error != "raise":
            raise InputError(
                "language and on_error belong to the rows: give them to add or add_batch, or pass rows here"
            )
        elif stray:
            raise InputError(
                f"{stray[0]} belong to the rows: give them to add or add_batch, or pass rows here",
                field=stray[0],
            )
        if self.writer is None and not self._is_closed() and self.num_process > 1:
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
        kind = METRICS.get(self.metric)
        needed = ["predictions", *(["images"] if kind.needs_images else [])]
        needed += ["references"] if kind.needs_references else []
        raise InputError(
            f"{self.metric} has no rows to compute: pass {' and '.join(needed)}, or call add or add_batch",
            field="predictions",
        )

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

    def _compute(
        self,
        *,
        values: list[list[float]],
        candidate: list[str],
        references: list[list[str]],
        image_key: list[str],
        truncated: list[bool],
        n_references: list[int],
        row_language: list[str],
        error: list[str],
        details: list[str],
        empty: list[bool],
        per_row: bool | None = None,
    ) -> dict[str, Any]:
        names = self.scorer.value_names
        table = np.array(values, dtype=np.float64).reshape(len(error), len(names))
        rows = PreparedRows(
            values=dict(zip(names, table.T, strict=True)),
            candidates=list(candidate) if self.scorer.waits else None,
            references=list(references) if self.scorer.waits else None,
            image_keys=list(image_key),
            truncated=np.array(truncated, dtype=bool),
            n_references=np.array(n_references, dtype=np.int64),
            languages=list(row_language),
            failures={row: message for row, message in enumerate(error) if message},
            empty=np.array(empty, dtype=bool),
            skips_empty=self.scorer.empty == "skip",
            details=[json.loads(text) for text in details] if self.scorer.detail_names else None,
        )
        scores = self.scorer.finish(rows)
        return scores.to_dict(per_row=scores.per_row if per_row is None else per_row)

    def _check_names(self, extra: dict[str, Any]) -> None:
        check_column_names(self.metric, METRICS.get(self.metric).extra_columns, extra)

    # ------------------------------------------- storage of rows until compute

    def _row_features(self) -> Features:
        return Features(
            {
                "values": datasets.Sequence(Value("float64")),
                "candidate": Value("string"),
                "references": datasets.Sequence(Value("string")),
                "image_key": Value("string"),
                "truncated": Value("bool"),
                "n_references": Value("int64"),
                "row_language": Value("string"),
                "error": Value("string"),
                "details": Value("string"),
                "empty": Value("bool"),
            }
        )

    def _is_closed(self) -> bool:
        """Whether rows are in a file that a failed `compute` closed before it had read all of them."""
        return self.writer is None and self.cache_file_name is not None

    def _open_storage(self) -> None:
        self.selected_feature_format = self._row_features()
        self._init_writer()

    # `evaluate` writes, gathers and reads rows of the declared inputs. Inside `_row_storage` it sees the
    # columns above instead, so that its files, locks and processes handle them.

    @contextmanager
    def _row_storage(self) -> Iterator[None]:
        self._storing = True
        try:
            yield
        finally:
            self._storing = False

    def _feature_names(self) -> list[str]:
        return list(self._row_features()) if self._storing else super()._feature_names()

    def _infer_feature_from_batch(self, batch: dict[str, Any]) -> Features:
        return self._row_features()

    def _infer_feature_from_example(self, example: dict[str, Any]) -> Features:
        return self._row_features()


def _filled(text: str, *, hanging: bool = False) -> str:
    """A paragraph of a docstring's section."""
    return textwrap.fill(text, 110, initial_indent="    ", subsequent_indent=" " * (8 if hanging else 4))


def _check_experiment(name: Any) -> None:
    """Raise InputError unless a name can begin the name of a file, as `evaluate` uses it."""
    if name is None or name == "" or isinstance(name, int):
        return
    whole = isinstance(name, str) and 0 < len(name.encode("utf-8", "surrogatepass")) <= 100
    if not whole or not name.isprintable() or any(sign in name for sign in "/\\") or name.strip(". ") == "":
        raise InputError(
            Setting("experiment_id", name if not isinstance(name, str) else name[:50]),
            ": expected a name of 1 to 100 characters that can begin the name of a file, without / and \\",
        )


def _one_of(name: str, value: Any, other: str, other_value: Any) -> Any:
    if value is not None and other_value is not None:
        raise InputError(f"both {name} and {other} were given: pass one of them", field=name)
    return value if value is not None else other_value


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


def _to_columns(rows: PreparedRows) -> dict[str, list[Any]]:
    return {
        "values": [[float(values[row]) for values in rows.values.values()] for row in range(len(rows))],
        "candidate": rows.candidates or [""] * len(rows),
        "references": rows.references or [[]] * len(rows),
        "image_key": rows.image_keys,
        "truncated": rows.truncated.tolist(),
        "n_references": rows.n_references.tolist(),
        "row_language": rows.languages,
        "error": [rows.failures.get(row, "") for row in range(len(rows))],
        "details": [json.dumps(detail) for detail in rows.details or [None] * len(rows)],
        "empty": rows.empty.tolist(),
    }
