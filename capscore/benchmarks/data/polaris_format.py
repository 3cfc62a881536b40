"""Polaris, Nebula and LongCap-Arena, which one group publishes in one format: CSV, Parquet and JSON → rows.

The configuration "default" has the official rows; "explained" has those of Kim et al. (2025, EXPERT), a score
and an explanation in three parts for each caption.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from .annotation_files import AnnotationFile, Row
from .builder import IMAGE_SUFFIXES, CaptionBenchmark, Example

EXPLANATION = ("fluency", "relevance", "descriptiveness")
_EXPERT = "https://github.com/hjkim811/EXPERT"
_RAW = "https://raw.githubusercontent.com/hjkim811/EXPERT/74bbef41209fce20551f2d707bc7642400d7eddf"


def rated_files(
    benchmark: str,
    hub: str,
    tables: AnnotationFile,
    splits: Mapping[str, tuple[str, str]],
    sha256: Mapping[str, str],
) -> dict[str, AnnotationFile]:
    """FILES of a benchmark.

    Args:
        benchmark: Its name, with which its files begin.
        hub: Page of its Parquet files.
        tables: Its CSV files, with "{split}" for the name of a split.
        splits: Split → its name in the Parquet files, and that in the CSV files.
        sha256: JSON file → its checksum, where it can be downloaded.
    """
    files = {
        f"{split}_parquet": AnnotationFile((f"data/{name}-*.parquet", f"{name}-*.parquet"), hub)
        for split, (name, _) in splits.items()
    }
    for split, (_, table) in splits.items():
        places = tuple(place.replace("{split}", table) for place in tables.names)
        files[f"{split}_csv"] = AnnotationFile(places, tables.source)
    for key, folder, file in (
        ("test_json", "annotations", f"{benchmark}_test.json"),
        ("train_explained", "exp_datasets", f"{benchmark}_exp_train.json"),
        ("validation_explained", "exp_datasets", f"{benchmark}_exp_val.json"),
    ):
        url = f"{_RAW}/{folder}" if file in sha256 else ""
        source = f"{_EXPERT}, folder {folder}"
        files[key] = AnnotationFile.in_folders(file, ("", f"{folder}/"), source, url, sha256.get(file, ""))
    return files


class RatedCaptions(CaptionBenchmark):
    """Base of the loading scripts of Polaris, Nebula and LongCap-Arena.

    FILES has, of each split (see `file_key`), some of "<split>_parquet" (see `shards`), "<split>_csv",
    "<split>_json" and "<split>_explained".

    Attributes:
        N_RATINGS: whether the explained rows say how many people a score is of.
        ONE_CAPTION_A_PHOTO: whether a photo that comes twice in a split is a mistake.
    """

    CONFIGS = {"default": "en", "explained": "en"}  # noqa: RUF012
    DEFAULT_CONFIG_NAME = "default"
    SPLITS = ("train", "validation", "test")
    N_RATINGS: ClassVar[bool] = False
    ONE_CAPTION_A_PHOTO: ClassVar[bool] = False

    def fields(self) -> dict[str, object]:
        columns: dict[str, object] = {"caption": str, "references": [str], "rating": float}
        if self.config.name == "explained":
            if self.N_RATINGS:
                columns["n_ratings"] = int
            columns |= dict.fromkeys(EXPLANATION, str)
        return columns

    def split_files(self, split: str) -> list[str]:
        kinds: Sequence[str] = ("explained",)
        if self.config.name != "explained":
            kinds = ("parquet", "csv", "json")
        names = [f"{self.file_key(split)}_{kind}" for kind in kinds]
        return [name for name in names if name in self.FILES]

    def file_key(self, split: str) -> str:
        """What the names in FILES of a split begin with."""
        return split

    def rows(self, split: str) -> Iterator[Example]:
        if self.config.name == "explained":
            yield from self._explained(split)
            return
        photos: set[str] = set()
        for number, row in enumerate(self._rated(split)):
            columns = _columns(row)
            photo = str(columns["image_id"])
            if self.ONE_CAPTION_A_PHOTO and photo in photos:
                raise row.error(f"the photo {photo!r} appears twice")
            photos.add(photo)
            yield str(number), {**columns, "references": row.captions("refs")}

    def _rated(self, split: str) -> Iterator[Row]:
        """The official rows of a split, from the best of its files that there are."""
        shards = self.shards(f"{self.file_key(split)}_parquet")
        for file in shards:
            yield from file.parquet()
        if shards:
            return
        names = self.split_files(split)[1:]
        name = next((name for name in names if self.find(name)), None)
        names = names or self.split_files(split)
        file = self.file(name or next((name for name in names if self.FILES[name].url), names[0]))
        if (name or "").endswith("_csv"):
            for row in file.csv():
                yield file.row({**row.values, "refs": _literal(row)}, line=row.line)
        else:
            yield from file.json_rows()

    def _explained(self, split: str) -> Iterator[Example]:
        for row in self.file(f"{split}_explained").json_rows():
            why = row.source.row(row["explanation"], entry=row.entry)
            columns = {**_columns(row), "references": []}
            if self.N_RATINGS:
                columns["n_ratings"] = row.integer("count", 1, 1000)
            columns |= {name: why.caption(name) for name in EXPLANATION}
            yield str(row["id"]), columns


def _columns(row: Row) -> dict[str, object]:
    """Photo, caption and score; names in the CSV and JSON files differ from those in the Parquet files."""
    image_id, image = _photo(row)
    return {
        "image_id": image_id,
        "image": image,
        "caption": row.caption(row.either("mt", "cand")),
        "rating": row.number(row.either("score", "human_score"), 0, 1),
    }


def _photo(row: Row) -> tuple[str, object]:
    """File name of the photo; and the names to look for, or the photo itself where the file holds it."""
    column = row.either("img", "image")
    held = row.get(column)
    if isinstance(held, Mapping) and held.get("bytes") is not None:
        digest, content = row.held_photo(column)
        # without a name it is called after its content, as the photos of Polaris and Nebula are
        name = row.get("file_name") or (held.get("path") or "").rpartition("/")[2] or f"{digest}.jpg"
        return name, {"path": name, "bytes": content}
    name = row.photo(row.either("imgid", "file_name"))
    if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:
        return name, [name]
    return f"{name}.jpg", [f"{name}.jpg", name]


def _literal(row: Row) -> object:
    """The CSV files hold a list of references as Python writes it."""
    try:
        return ast.literal_eval(row["refs"])
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise row.wrong("refs", "a list of captions") from error
