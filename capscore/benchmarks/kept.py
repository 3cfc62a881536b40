"""Finished results of a benchmark in a folder: what a result depends on → the result, if it is there."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .. import __version__
from ..backbones.base import fingerprint_of
from ..errors import InputError, Setting
from ..files.write import write_text
from .tasks import Queries

T = TypeVar("T")

# raised whenever the form of the files changes
_FORM = 2


class KeptResults:
    """Results of backbones in a folder, one file for each metric, backbone and data set.

    A result is found again only if everything that it depends on is the same: the scorer's settings and the
    backbone's fingerprint, the rows and photos, the files they come from, and how scores become numbers.

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
        self.options = {name: _option(value) for name, value in sorted((options or {}).items())}
        self.n_found = 0
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(Setting("keep", folder), ": expected a folder, and it is a file")

    def key(
        self, of_run: Mapping[str, Any], queries: Queries, scorer: Any, wanted: Mapping[str, str]
    ) -> dict[str, Any] | None:
        """Everything that a scorer's results depend on; None for one without a backbone, which is quick.

        Args:
            of_run: What all results of a run depend on, ready for JSON.
            queries: Queries that are scored.
            scorer: Scorer of the queries.
            wanted: Name in the table → component.
        """
        embedder = getattr(scorer, "embedder", None)
        if embedder is None:
            return None
        photos = dict(zip(queries.image_ids, queries.images, strict=True))
        sizes = [(name, path and Path(path).stat().st_size) for name, path in sorted(photos.items())]
        return {
            "form": _FORM,
            "version": __version__,
            "metric": scorer.metric,
            "options": self.options,
            "settings": {name: str(value) for name, value in scorer.settings.items()},
            "fingerprint": embedder.fingerprint,
            "wanted": dict(wanted),
            **of_run,
            "queries": fingerprint_of(*queries.ids, *queries.candidates),
            "photos": fingerprint_of(*sizes),
        }

    def find(self, key: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> list[T] | None:
        """The results with a key; None if they are not kept.

        Args:
            key: What they depend on, from `key`.
            read: Function that makes a result of its form in JSON.

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
            results = [read(fields) for fields in document["results"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} is damaged ({type(error).__name__}: {error}); remove it, and its result is "
                "measured again"
            ) from error
        self.n_found += 1
        return results

    def keep(self, key: dict[str, Any], results: Sequence[Mapping[str, Any]]) -> None:
        """Keep the results with a key, in their form in JSON.

        Raises:
            ResultWriteError: the file cannot be written.
        """
        document = {"depends": key, "results": results}
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
        path = self.folder / f"{_file_name(name)}--{fingerprint[:16]}--speed.json"
        before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        speed = {key: before.get(key) if value is None else value for key, value in measured.items()}
        if speed != before and any(value is not None for value in speed.values()):
            write_text(path, f"{json.dumps(speed)}\n", "kept speed")
        return speed

    def _path(self, key: dict[str, Any]) -> Path:
        named = "--".join((next(iter(key["wanted"])), key["benchmark"], key["config"]))
        digest = fingerprint_of(json.dumps(key, sort_keys=True))
        return self.folder / f"{_file_name(named)}--{digest[:16]}.json"


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:120]


def _option(value: object) -> str:
    """An option's value, and a digest of the file that it names."""
    path = Path(value) if isinstance(value, str | Path) else None
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else ""
    return f"{value} {digest}".strip()
