"""A file, benchmark or data set, as a setting names it → its rows, counted, with their origin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from capscore.errors import InputError, Setting
from training.data.annotated_rows import coco_rows, entity_rows
from training.data.origin import Origin
from training.data.rows import Row, benchmark_rows, file_rows

# What begins a name that is no file's: "benchmark:multi30k/de:train", "coco:captions_train2014.json",
# "entities:flickr30k_entities:train".
BENCHMARK, COCO, ENTITIES = "benchmark:", "coco:", "entities:"


@dataclass
class SourceSettings:
    """Settings of recipes whose captions may be a benchmark's.

    Attributes:
        data_dir: Folder of the benchmarks' files, or of folders named as the benchmarks.
        image_column, candidate_column, language_column: Names of columns, where they are unfamiliar.
    """

    data_dir: str | None = None
    image_column: str | None = None
    candidate_column: str | None = None
    language_column: str | None = None

    @property
    def columns(self) -> dict[str, str | None]:
        """The names of columns, as `training.data.rows.file_rows` takes them."""
        names = ("image_column", "candidate_column", "language_column")
        return {name: getattr(self, name) for name in names}


class Source(Origin):
    """A file, benchmark or data set.

    Args:
        spec: File of captions (`training.data.rows.file_rows`); "benchmark:SLUG", "benchmark:SLUG/CONFIG" or
            "benchmark:SLUG/CONFIG:SPLIT"; "coco:FILE"; "entities:FOLDER" or "entities:FOLDER:SPLIT".
        cells: Attributes of rows to read from a file.
        license: Licence of the captions, where no file beside them states it.
        language, images, columns: As in `training.data.rows.file_rows`.
        data_dir: Folder of a benchmark's files, or of folders named as the benchmarks.
    """

    def __init__(
        self,
        spec: str,
        cells: Collection[str],
        *,
        license: str,
        language: str | None = None,
        images: str | None = None,
        data_dir: str | None = None,
        columns: Mapping[str, str | None] | None = None,
    ):
        self.kind = next((kind for kind in (BENCHMARK, COCO, ENTITIES) if spec.startswith(kind)), "")
        path, self.split = spec.removeprefix(self.kind), ""
        if self.kind in (BENCHMARK, ENTITIES) and ":" in path:
            path, _, self.split = path.rpartition(":")
        self.spec, self.path, self.cells = spec, path, cells
        self.language, self.images, self.data_dir, self.columns = language, images, data_dir, columns or {}
        super().__init__(
            path, spec.removeprefix(BENCHMARK) if self.kind == BENCHMARK else Path(path).name, license
        )

    def rows(self) -> Iterator[Row]:
        """The captions; afterwards `n` is their number. Errors are those of the readers."""
        yield from self.counted(self._read())

    def _read(self) -> Iterator[Row]:
        path, split = Path(self.path).expanduser(), self.split or None
        if self.kind == BENCHMARK:
            slug, _, config = self.path.partition("/")
            data_dir = self.data_dir
            if data_dir is not None and (Path(data_dir).expanduser() / slug).is_dir():
                data_dir = str(Path(data_dir).expanduser() / slug)
            return benchmark_rows(slug, config or None, split=split, data_dir=data_dir, image_dir=self.images)
        if not self.kind:
            return file_rows(path, self.cells, images=self.images, language=self.language, **self.columns)
        if self.images is None:
            raise InputError(
                f"{self.spec} names images, but not their folder: give ", Setting("image_dir"), field="data"
            )
        if self.kind == COCO:
            return coco_rows(path, self.images, language=self.language or "en")
        return entity_rows(path, self.images, split=split)
