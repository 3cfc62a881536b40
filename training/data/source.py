"""A file of captions, or a benchmark, as a setting names it → its rows, counted, with their origin."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from training.data.origin import Origin
from training.data.rows import Row, benchmark_rows, file_rows

# What begins the name of a benchmark: "benchmark:multi30k/de:train".
BENCHMARK = "benchmark:"


@dataclass
class SourceSettings:
    """Where captions and their images come from.

    Attributes:
        image_dir: Folder of the images; None for the folder of the file.
        language: Language of captions that state none.
        data_license: Licence of the captions.
        data_dir: Folder of the benchmarks' files, or of folders named as the benchmarks.
        image_column, candidate_column, language_column: Names of columns, where they are unfamiliar.
    """

    image_dir: str | None = None
    language: str | None = None
    data_license: str = "unknown"
    data_dir: str | None = None
    image_column: str | None = None
    candidate_column: str | None = None
    language_column: str | None = None


class Source(Origin):
    """A file or a benchmark.

    Args:
        spec: File of captions (`training.data.rows.file_rows`); "benchmark:SLUG", "benchmark:SLUG/CONFIG" or
            "benchmark:SLUG/CONFIG:SPLIT".
        settings: Where captions and their images come from.
        cells: Attributes of rows to read from a file.
        rating_column: Column of the ratings.
    """

    def __init__(
        self,
        spec: str,
        settings: SourceSettings,
        cells: Collection[str],
        *,
        rating_column: str = "rating",
    ):
        self.spec, self.settings, self.cells, self.rating_column = spec, settings, cells, rating_column
        self.is_benchmark = spec.startswith(BENCHMARK)
        name = spec.removeprefix(BENCHMARK) if self.is_benchmark else Path(spec).name
        super().__init__(spec, name, settings.data_license)

    def rows(self) -> Iterator[Row]:
        """The captions; afterwards `n` is their number. Errors are those of the readers."""
        yield from self.counted(self._read())

    def _read(self) -> Iterator[Row]:
        given = self.settings
        if not self.is_benchmark:
            return file_rows(
                Path(self.spec).expanduser(),
                self.cells,
                images=given.image_dir,
                language=given.language,
                image_column=given.image_column,
                candidate_column=given.candidate_column,
                language_column=given.language_column,
                rating_column=self.rating_column,
            )
        path, _, split = self.spec.removeprefix(BENCHMARK).partition(":")
        slug, _, config = path.partition("/")
        data_dir = given.data_dir
        if data_dir is not None and (Path(data_dir).expanduser() / slug).is_dir():
            data_dir = str(Path(data_dir).expanduser() / slug)
        image_dir, split_name = given.image_dir, split or None
        return benchmark_rows(slug, config or None, split=split_name, data_dir=data_dir, image_dir=image_dir)
