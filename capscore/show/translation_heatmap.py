"""A translated file → how scores correlate between its languages (Gomes et al. 2025, Figure 1).

Maps: all rows, with a first backbone below the diagonal and a second one above it; and for each backbone the
rows whose translations are in the lowest quarter of the quality below the diagonal, and in the highest above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..benchmarks.protocols import CrossLanguageCorrelation, cross_language
from ..benchmarks.protocols.cross_language_correlation import HeatMap, draw_maps
from ..errors import InputError, Setting
from ..files.columns import find_columns, find_image_column
from ..files.image_folder import ImageFolder
from ..files.interrupts import Signals
from ..files.read import open_rows
from ..files.row_source import CHUNK_ROWS, RowSource
from ..metrics import load, scorer_class
from ..metrics.catalogue import IMAGES, METRICS, REFERENCES
from ..metrics.score_file import ScoringRun
from ..translation.run import TranslationOptions, tag_of

ORIGINAL = "original"  # where the captions are in several languages


@dataclass(frozen=True)
class BackboneMaps:
    """Correlations between languages of the scores of one backbone.

    Attributes:
        label: Name of the metric and the backbone.
        whole: Over all rows.
        low, high: Over rows whose translations are below the 25th percentile of the quality in their
            language, and above the 75th. Two languages are compared on rows that count in both.
    """

    label: str
    whole: CrossLanguageCorrelation
    low: CrossLanguageCorrelation
    high: CrossLanguageCorrelation


@dataclass(frozen=True)
class TranslationMaps:
    """Correlations of one or two backbones."""

    backbones: tuple[BackboneMaps, ...]

    def means(self) -> list[tuple[str, str, float | None, int]]:
        """Label, rows, mean correlation and number of pairs of languages, a line per map."""
        return [
            (one.label, rows, part.mean, len(part.statistics()) - 1)
            for one in self.backbones
            for rows, part in (("all", one.whole), ("lowest quarter", one.low), ("highest quarter", one.high))
        ]

    def to_dict(self) -> list[dict[str, Any]]:
        """All numbers, ready for JSON."""
        return [
            {
                "scores": one.label,
                "rows": rows,
                "languages": list(part.languages),
                "matrix": [[None if np.isnan(r) else float(r) for r in line] for line in part.matrix],
                "counts": part.counts_of.tolist(),
            }
            for one in self.backbones
            for rows, part in (("all", one.whole), ("low", one.low), ("high", one.high))
        ]


def correlate_translations(
    original: str | Path,
    translated: str | Path,
    options: TranslationOptions,
    *,
    metric: str = "mcs",
    backbones: Sequence[str | None] = (None,),
    images: Path | None = None,
    device: str | None = None,
) -> TranslationMaps:
    """Score captions and their translations, and correlate the scores of every two languages.

    Rows without a good translation in a language don't count in it.

    Args:
        original: File that was translated.
        translated: File that `translate_file` made of it with these options.
        options: Options of the translation.
        metric: Name of a metric that has a number per row.
        backbones: One or two backbones; None for the metric's own.
        images: Folder of the photos; None for the file's.
        device: Torch device.

    Raises:
        InputError: A metric without a backbone, photos that are missing, or fewer than two languages.
    """
    scorer_class(metric)  # a clear error for what is no metric
    if not METRICS[metric].has_backbone:
        raise InputError(Setting("metric", metric), ": expected a metric with a backbone, such as mcs")
    before, after = open_rows(original, split=options.split), open_rows(translated)
    name = tag_of(options.language) if options.language else ORIGINAL
    place = _places(after)
    made = []
    for backbone in backbones:
        given = {"backbone": backbone, "empty": "skip"} if backbone else {"empty": "skip"}
        scorer: Any = load(metric, **given, **({"device": device} if device else {}))  # type: ignore[arg-type]
        scores = {name: _scores(before, scorer, options, metric, images, options.language)}
        column = _scores(after, scorer, options, metric, images or before.folder, None)
        for language, (rows, at, _) in place.items():
            scores[language] = np.full(before.n_rows, np.nan)
            scores[language][rows] = column[at]
        low, high = (
            {
                language: _flags(before.n_rows, rows, quarter == wanted)
                for language, (rows, _, quarter) in place.items()
            }
            for wanted in (1, 4)
        )
        made.append(
            BackboneMaps(
                f"{metric} {scorer.backbone.name}",
                cross_language(scores, missing="skip"),
                cross_language(scores, subset=low, missing="skip"),
                cross_language(scores, subset=high, missing="skip"),
            )
        )
    return TranslationMaps(tuple(made))


def write_translation_heatmap(maps: TranslationMaps, path: str | Path) -> Path:
    """Draw the maps side by side.

    Args:
        path: File that ends in .png, .svg or .pdf.

    Raises:
        InputError: Another suffix.
        MissingExtraError: matplotlib is not installed.
        ResultWriteError: The file cannot be written.
    """
    first, *others = maps.backbones
    shown = [
        HeatMap(
            first.whole,
            "all rows",
            first.label,
            others[0].whole if others else None,
            others[0].label if others else "",
        )
    ]
    shown += [
        HeatMap(one.low, one.label, "lowest quarter", one.high, "highest quarter") for one in maps.backbones
    ]
    return draw_maps(path, shown)


def _places(translated: RowSource) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Language → row of the original, row of the file, and quartile (0 for none) of each good translation."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    names = find_columns(translated.columns, with_images=False, candidate=None)
    language = names.language or "language"
    for chunk in translated.chunks(CHUNK_ROWS):
        cells = (chunk.values(name) for name in (language, "source_row", "quartile", "translation_problem"))
        for row, (code, source, quartile, problem) in enumerate(zip(*cells, strict=True)):
            if not problem:
                quarter = 0 if quartile in (None, "") else int(quartile)
                found.setdefault(code, []).append((int(source), chunk.start + row, quarter))
    return {code: tuple(np.array(rows, dtype=np.int64).T) for code, rows in found.items()}  # type: ignore[misc]


def _flags(n_rows: int, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    flags = np.zeros(n_rows, dtype=bool)
    flags[rows[wanted]] = True
    return flags


def _scores(
    source: RowSource,
    scorer: Any,
    options: TranslationOptions,
    metric: str,
    images: Path | None,
    language: str | None,
) -> np.ndarray:
    """The score of each row of a file; NaN for a row without one."""
    looks_at = METRICS[metric].looks_at
    names = find_columns(
        source.columns,
        image=find_image_column(source.columns) if looks_at != REFERENCES else None,
        candidate=options.candidate_column,
        references=options.references_column,
        language=options.language_column,
        with_images=looks_at != REFERENCES,
        with_references=looks_at != IMAGES,
    )
    folder = ImageFolder(images or source.folder)
    run = ScoringRun(source, names, folder, [scorer], language=language, on_error="skip")
    with Signals() as signals:
        run.run(None, {}, signals)
    return np.asarray(run.scores()[metric].scores, dtype=np.float64)
