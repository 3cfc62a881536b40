"""Polaris and Nebula, which one group publishes in one format: their CSV, Parquet and JSON files → rows.

The configuration "default" has the official rows; "explained" has those of Kim et al. (2025, EXPERT), a score
and an explanation in three parts for each caption.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import datasets
from datasets import Value

from .annotation_files import AnnotationSource
from .builder import IMAGE_SUFFIXES, CaptionBenchmark

EXPLANATION = ("fluency", "relevance", "descriptiveness")


class RatedCaptions(CaptionBenchmark):
    """Base of the loading scripts of Polaris and Nebula.

    FILES has, for a split, some of "<split>_parquet" (patterns, see `shards`), "<split>_csv", "<split>_json"
    and "<split>_explained".

    Attributes:
        N_RATINGS: whether the explained rows say how many people a score is of.
        ONE_CAPTION_A_PHOTO: whether a photo that comes twice in a split is a mistake.
    """

    SPLITS = ("train", "validation", "test")
    N_RATINGS: ClassVar[bool] = False
    ONE_CAPTION_A_PHOTO: ClassVar[bool] = False

    def fields(self) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "caption": Value("string"),
            "references": datasets.Sequence(Value("string")),
            "rating": Value("float64"),
        }
        if self.config.name == "explained":
            columns |= {"n_ratings": Value("int64")} if self.N_RATINGS else {}
            columns |= {name: Value("string") for name in EXPLANATION}
        return {**columns, "language": Value("string")}

    def splits(self) -> tuple[str, ...]:
        known = tuple(split for split in self.SPLITS if self._kinds(split))
        return tuple(split for split in known if self._is_there(split)) or known

    def rows(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.config.name == "explained":
            yield from self._explained(self.file(f"{split}_explained"))
            return
        seen: dict[str, Any] = {}
        for number, (file, official, references, place) in enumerate(self._rated(split)):
            row = self._row(file, official, references, place)
            if self.ONE_CAPTION_A_PHOTO:
                file.once(seen, row["image_id"], "the photo", **place)
            yield str(number), row

    def _kinds(self, split: str) -> list[str]:
        """Names in FILES of what this configuration reads of a split, the best first."""
        kinds = ("explained",) if self.config.name == "explained" else ("parquet", "csv", "json")
        return [name for kind in kinds if (name := f"{split}_{kind}") in self.FILES]

    def _is_there(self, split: str) -> bool:
        names = self._kinds(split)
        if self.data_dir is None:
            return any(self.FILES[name].url for name in names)
        return any(self.find(name) or self.shards(name) for name in names)

    def _rated(self, split: str) -> Iterator[tuple[AnnotationSource, Mapping[str, Any], Any, dict[str, int]]]:
        """(file, official row, its references, its place in the file) of a split."""
        shards = self.shards(f"{split}_parquet")
        if shards:
            for file in shards:
                for number, row in file.parquet("refs"):
                    yield file, row, row["refs"], {"entry": number}
            return
        names = self._kinds(split)[1:]
        name = next((name for name in names if self.find(name)), None)
        name = name or next((name for name in names if self.FILES[name].url), names[0])
        file = self.file(name)
        if name.endswith("_csv"):
            for line, row in file.csv("refs"):
                yield file, row, _literal(file, row["refs"], line), {"line": line}
            return
        for entry, row in _entries(file):
            file.require(row, ["refs"], entry=entry)
            yield file, row, row["refs"], {"entry": entry}

    def _explained(self, file: AnnotationSource) -> Iterator[tuple[str, dict[str, Any]]]:
        seen: dict[str, Any] = {}
        for entry, row in _entries(file):
            file.require(row, ["id", "explanation", *(["count"] if self.N_RATINGS else [])], entry=entry)
            file.require(row["explanation"], EXPLANATION, entry=entry)
            ours = self._row(file, row, [], {"entry": entry})
            if self.N_RATINGS:
                ours["n_ratings"] = file.integer(row["count"], "'count'", 1, 1000, entry=entry)
            for name in EXPLANATION:
                ours[name] = file.caption(row["explanation"][name], f"the explanation of {name}", entry=entry)
            file.once(seen, str(row["id"]), "'id'", entry=entry)
            yield str(row["id"]), ours

    def _row(
        self, file: AnnotationSource, row: Mapping[str, Any], references: Any, place: dict[str, Any]
    ) -> dict[str, Any]:
        image_id, image = _photo(file, row, place)
        return {
            "image_id": image_id,
            "image": image,
            "caption": file.caption(_one_of(file, row, ("mt", "cand"), place), "the caption", **place),
            "references": [
                file.caption(text, "a reference", **place)
                for text in file.items(references, "'refs'", **place)
            ],
            "rating": file.number(
                _one_of(file, row, ("score", "human_score"), place), "the score", 0, 1, **place
            ),
            "language": "en",
        }


def _one_of(
    file: AnnotationSource, row: Mapping[str, Any], names: Sequence[str], place: dict[str, Any]
) -> Any:
    """The same thing is called otherwise in the CSV and JSON files than in the Parquet files of the Hub."""
    for name in names:
        if name in row:
            return row[name]
    raise file.error(f"lacks {' or '.join(map(repr, names))}; it has {', '.join(row)}", **place)


def _photo(file: AnnotationSource, row: Mapping[str, Any], place: dict[str, Any]) -> tuple[str, Any]:
    """File name of the photo; and the names to look for, or the photo itself where the file holds it."""
    held = row.get("img", row.get("image"))
    if isinstance(held, Mapping) and held.get("bytes") is not None:
        name = row.get("file_name") or (held.get("path") or "").rpartition("/")[2]
        # without a name it is called after its content, as the photos of Polaris and Nebula are
        name = name or f"{hashlib.md5(held['bytes'], usedforsecurity=False).hexdigest()}.jpg"
        return name, {"path": name, "bytes": held["bytes"]}
    name = file.photo(_one_of(file, row, ("imgid", "file_name"), place), "the photo's name", **place)
    if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:
        return name, [name]
    return f"{name}.jpg", [f"{name}.jpg", name]


def _entries(file: AnnotationSource) -> Iterator[tuple[int, dict[str, Any]]]:
    for entry, row in enumerate(file.items(file.json(), "the document")):
        file.require(row, (), entry=entry)
        yield entry, row


def _literal(file: AnnotationSource, text: str, line: int) -> Any:
    """The CSV files hold a list of references as Python writes it."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise file.error(f"'refs' is {text!r:.60}, expected a list of captions", line=line) from error
