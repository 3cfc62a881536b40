"""Finished results of a benchmark in a folder: what a result depends on → the result, if it is there.

A result is found again only if everything that it depends on is the same: the scorer's settings and the
backbone's fingerprint, the rows and photos, the files they come from, and how scores become numbers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from ..backbones.base import fingerprint_of
from ..errors import InputError, Setting
from ..files.whole_file import write_text
from .protocols.results import Statistic
from .published import Published
from .tasks import KeyedRows, Outcome, Queries, TaskOptions

if TYPE_CHECKING:
    from ..metrics.base import Scorer

# raised whenever the form of the files changes
_FORM = 1
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class KeptResults:
    """Results of backbones in a folder, one file for each metric, backbone and data set.

    Args:
        folder: Folder of the files; it is made when the first result is kept.
        options: Options that the scorers are made with, beyond those that their settings name.

    Attributes:
        n_found: Number of results that were found so far.

    Raises:
        InputError: `folder` is a file.
    """

    def __init__(self, folder: str | Path, options: Mapping[str, object] | None = None):
        self.folder = Path(folder).expanduser()
        self.options = {name: _said(value) for name, value in sorted((options or {}).items())}
        self.n_found = 0
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(Setting("keep", folder), ": expected a folder, and it is a file")

    def key(
        self,
        names: Sequence[str],
        files: Mapping[str, str],
        options: TaskOptions,
        queries: Queries,
        scorer: Scorer,
        wanted: Mapping[str, str],
    ) -> dict[str, Any] | None:
        """Everything that a scorer's results depend on; None for one without a backbone, which is quick.

        Args:
            names: Benchmark, configuration, split and version.
            files: Name of every annotation file → its SHA-256.
            options: How scores become numbers.
            queries: Queries that are scored.
            scorer: Scorer of the queries.
            wanted: Name in the table → component.
        """
        embedder = getattr(scorer, "embedder", None)
        settings = getattr(scorer, "settings", None)
        if embedder is None or settings is None:
            return None
        photos = dict(zip(queries.image_ids, queries.images, strict=True))
        sizes = [
            (name, None if path is None else Path(path).stat().st_size)
            for name, path in sorted(photos.items())
        ]
        return {
            "form": _FORM,
            "version": __version__,
            "metric": scorer.metric,
            "options": self.options,
            "settings": {name: str(value) for name, value in settings.items()},
            "fingerprint": embedder.fingerprint,
            "wanted": dict(wanted),
            "benchmark": [*names],
            "files": dict(files),
            "statistics": dataclasses.asdict(options),
            "queries": fingerprint_of(*queries.ids, *queries.candidates),
            "photos": fingerprint_of(*sizes),
        }

    def find(self, key: dict[str, Any], rows: KeyedRows) -> list[dict[str, Any]] | None:
        """The fields of the results with a key, as `MetricResult` has them; None if they are not kept.

        Args:
            key: What they depend on, from `key`.
            rows: Rows that were scored.

        Raises:
            InputError: the file is damaged; the message names it.
        """
        path = self._path(key)
        if not path.is_file():
            return None
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if document["depends"] != key:
                return None
            results = [_fields(row, rows) for row in document["results"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} is damaged ({type(error).__name__}: {error}); remove it, and its result is "
                "measured again"
            ) from error
        self.n_found += 1
        return results

    def keep(self, key: dict[str, Any], results: Sequence[Mapping[str, Any]]) -> None:
        """Keep the results with a key.

        Args:
            key: What they depend on, from `key`.
            results: Their fields, as `MetricResult` has them.

        Raises:
            ResultWriteError: the file cannot be written.
        """
        document = {"depends": key, "results": [_plain(result) for result in results]}
        text = json.dumps(document, ensure_ascii=False, indent=1)
        write_text(self._path(key), f"{text}\n", "kept result")

    def speed(
        self, name: str, fingerprint: str, measured: dict[str, float | None]
    ) -> dict[str, float | None]:
        """The speed of a backbone: as measured now, or else as it was kept; what is measured is kept.

        Args:
            name, fingerprint: Name of the backbone, and fingerprint of its embedder.
            measured: Numbers per second by name; None where nothing was encoded.
        """
        path = self.folder / f"{_NOT_IN_NAMES.sub('_', name)[:120]}--{fingerprint[:16]}--speed.json"
        before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        speed = {key: before.get(key) if value is None else value for key, value in measured.items()}
        if speed != before and any(value is not None for value in speed.values()):
            write_text(path, f"{json.dumps(speed)}\n", "kept speed")
        return speed

    def _path(self, key: dict[str, Any]) -> Path:
        named = "--".join((next(iter(key["wanted"])), *key["benchmark"][:2]))
        digest = fingerprint_of(json.dumps(key, sort_keys=True))
        return self.folder / f"{_NOT_IN_NAMES.sub('_', named)[:120]}--{digest[:16]}.json"


def _plain(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without its rows, ready for JSON."""
    outcome: Outcome = result["outcome"]
    scores = result["scores"]
    return {
        **{name: value for name, value in result.items() if name != "rows"},
        "outcome": {
            "statistics": [statistic._asdict() for statistic in outcome.statistics],
            "counts": outcome.counts,
            "notes": list(outcome.notes),
            "details": outcome.details,
        },
        "published": {
            name: [dataclasses.asdict(figure) for figure in figures]
            for name, figures in result["published"].items()
        },
        "warnings": list(result["warnings"]),
        "scores": None if scores is None else [_number(score) for score in scores],
    }


def _said(value: object) -> str:
    """An option's value, and a digest of the file that it names."""
    path = Path(value) if isinstance(value, str | Path) else None
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else ""
    return f"{value} {digest}".strip()


def _number(score: float) -> float | None:
    return None if np.isnan(score) else float(score)


def _fields(row: dict[str, Any], rows: KeyedRows) -> dict[str, Any]:
    """The fields of a result from its form in JSON."""
    outcome, scores = row["outcome"], row["scores"]
    statistics = tuple(
        Statistic(**{**one, "interval": None if one["interval"] is None else tuple(one["interval"])})
        for one in outcome["statistics"]
    )
    return {
        **row,
        "outcome": Outcome(statistics, outcome["counts"], tuple(outcome["notes"]), outcome["details"]),
        "published": {
            name: [Published(**figure) for figure in figures] for name, figures in row["published"].items()
        },
        "warnings": tuple(row["warnings"]),
        "rows": rows,
        "scores": None if scores is None else np.array([np.nan if one is None else one for one in scores]),
    }
