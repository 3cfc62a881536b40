"""The base of scorers with a backbone: rows are embedded, and their cosines go into a formula."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from .. import __version__
from ..backbones.base import DTYPES
from ..errors import InputError, LanguageWarning, Setting, TruncationWarning, warn
from ..text.segmentation import text_problem
from .base import Measured, PreparedRows, Scorer, Scores, row_settings
from .input_rows import InputRows

if TYPE_CHECKING:
    from ..backbones.base import Backbone
    from ..embedding.embedder import Embedder


class BackboneScorer(Scorer):
    """Scores rows by the cosines of their embeddings.

    Args:
        embedder: Embedder of images and texts; holds the backbone.
        prefix: Text before each candidate and reference; None takes the backbone's own.
        empty, per_row: As in `Scorer`; the text without words is the prefix alone.
    """

    takes_backbone: ClassVar[bool] = True
    needs_images: ClassVar[bool] = True

    def __init__(
        self,
        embedder: Embedder,
        *,
        prefix: str | None = None,
        empty: Literal["raise", "score", "skip"] = "raise",
        per_row: bool = True,
    ):
        super().__init__(empty=empty, per_row=per_row)
        self.embedder = embedder
        problem = None if prefix is None else text_problem(prefix)
        if problem:
            raise InputError(Setting("prefix", prefix), f": {problem}")
        self.prefix = embedder.backbone.prefix if prefix is None else prefix

    @property
    def backbone(self) -> Backbone:
        """The towers of the embedder."""
        return self.embedder.backbone

    @property
    def value_names(self) -> tuple[str, ...]:
        return (
            *(("image_cosine",) if self.needs_images else ()),
            *(("text_cosine",) if self.compares_texts else ()),
        )

    @property
    def compares_texts(self) -> bool:
        """Whether candidates are compared with references by their embeddings."""
        return self.needs_references

    @abstractmethod
    def constants(self) -> dict[str, object]:
        """The constants of the formula, for the signature."""

    @abstractmethod
    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The formula: (n,) numbers of each of `value_names` → scores, components.

        "image_cosine" compares candidate and image, "text_cosine" candidate and best reference.
        """

    def text_values(self, verdicts: np.ndarray) -> dict[str, np.ndarray]:
        """What the backbone's gate says of n candidates (`EmbeddedRows.verdicts`) → further `value_names`."""
        return {}

    def finish(self, rows: PreparedRows) -> Scores:
        return self._combined(rows, {}, {})

    def _combined(
        self, rows: PreparedRows, values: dict[str, np.ndarray], settings: dict[str, object]
    ) -> Scores:
        """`finish`, with numbers that are known only now, and the settings they depend on."""
        cosines = {name: rows.values[name][rows.kept] for name in self.value_names}
        scores, components = self.combine({**cosines, **values})
        settings = {**self.first_settings, **settings, **row_settings(rows), **self.last_settings}
        return self._scores(rows, scores, components, settings)

    @property
    def settings(self) -> dict[str, object]:
        """The settings of the signature that do not depend on rows, in its order."""
        return {**self.first_settings, **self.last_settings}

    @property
    def first_settings(self) -> dict[str, object]:
        """The settings that come before those of the rows."""
        return {
            "backbone": f"{self.backbone.name}@{self.backbone.revision}",
            **({"rated": self.backbone.rated_from} if self.backbone.rated_from else {}),
            **self.constants(),
            "prefix": self.prefix,
        }

    @property
    def last_settings(self) -> dict[str, object]:
        """The settings that come after those of the rows."""
        return {
            "dtype": DTYPES[self.backbone.dtype],
            **({"exif": "yes"} if self.needs_images else {}),
            "version": __version__,
        }

    def measure(self, rows: InputRows, on_error: str) -> Measured:
        self.warn_about_languages(rows.languages)
        n_rows = len(rows)
        image_keys = [""] * n_rows
        if self.needs_images:
            images = self.embedder.images(rows.images, on_error=on_error, skip=rows.left_out())
            rows.failures.update(images.failures)
            image_keys = images.keys
        kept = rows.kept()

        texts, owners = rows.texts(kept, with_references=self.compares_texts)
        embedded = self.embedder.texts(texts, prefix=self.prefix)
        n_kept = int(kept.sum())
        candidates = embedded.index[:n_kept]
        values = self.text_values(embedded.verdicts[candidates])
        if self.needs_images:
            values["image_cosine"] = row_cosines(
                images.matrix, images.index[kept], embedded.matrix, candidates
            )
        if self.compares_texts:
            position = np.cumsum(kept) - 1  # row → its place among the kept rows
            places = position[owners]
            pairs = row_cosines(embedded.matrix, candidates[places], embedded.matrix, embedded.index[n_kept:])
            values["text_cosine"] = np.full(n_kept, -np.inf)
            np.maximum.at(values["text_cosine"], places, pairs)

        truncated = np.zeros(n_rows, dtype=bool)
        cut = embedded.truncated[embedded.index]
        truncated[np.flatnonzero(kept)[cut[:n_kept]]] = True
        truncated[owners[cut[n_kept:]]] = True
        self.warn_about_truncation(truncated)
        return Measured(values, image_keys, truncated)

    def warn_about_languages(self, languages: list[str]) -> None:
        """Warn about languages that the backbone was not trained on; one code per row."""
        known = self.backbone.languages
        strange = sorted(set(languages) - {""} - known) if known is not None else []
        if strange:
            warn(
                LanguageWarning(
                    f"backbone {self.backbone.name!r} was not trained on {', '.join(strange)} (it knows "
                    f"{', '.join(sorted(known or ()))}): scores in these languages mean little"
                )
            )

    def warn_about_truncation(self, truncated: np.ndarray) -> None:
        """Warn about rows whose text was cut at the backbone's number of tokens; one bool per row."""
        if truncated.any():
            rows = np.flatnonzero(truncated)
            warn(
                TruncationWarning(
                    f"{len(rows)} of {len(truncated)} rows have a text longer than the "
                    f"{self.backbone.max_tokens} tokens of {self.backbone.name!r}; the rest of it was not "
                    f"seen (first such row of these: {rows[0]})"
                )
            )


def row_cosines(
    left: np.ndarray, left_rows: np.ndarray, right: np.ndarray, right_rows: np.ndarray
) -> np.ndarray:
    """Cosines of n pairs of unit rows → float64 (n,); computed in slices, so that memory stays bounded."""
    out = np.empty(len(left_rows))
    for start in range(0, len(out), 1024):
        part = slice(start, start + 1024)
        out[part] = np.einsum(
            "nd,nd->n", _taken(left, left_rows[part]), _taken(right, right_rows[part]), optimize=False
        )
    return out


def _taken(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """`matrix[rows]`, without a copy where the rows follow one another."""
    first = int(rows[0])
    if first >= 0 and (np.diff(rows) == 1).all():
        return matrix[first : first + len(rows)]
    return matrix[rows]
