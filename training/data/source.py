"""A file of captions, or a benchmark, as a setting names it → its rows, counted, with their origin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
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
    """

    image_dir: str | None = None
    language: str | None = None
    data_license: str = "unknown"
    data_dir: str | None = None


def rows_of(sources: Iterable[Source]) -> Iterator[Row]:
    """The captions of several sources, one after the other."""
    for source in sources:
        yield from source.rows()


class Source(Origin):
    """A file or a benchmark.

    Args:
        spec: File of captions (`training.data.rows.file_rows`); "benchmark:SLUG", "benchmark:SLUG/CONFIG" or
            "benchmark:SLUG/CONFIG:SPLIT".
        settings: Where captions and their images come from.
        cells: Attributes of rows to read from a file.
    """

    def __init__(self, spec: str, settings: SourceSettings, cells: Collection[str]):
        self.spec, self.settings, self.cells = spec, settings, cells
        name = spec.removeprefix(BENCHMARK) if spec.startswith(BENCHMARK) else Path(spec).name
        super().__init__(spec, name, settings.data_license)

    def rows(self) -> Iterator[Row]:
        """The captions; afterwards `n` is their number. Errors are those of the readers."""
        self.n = 0
        for row in self._read():
            self.n += 1
            yield row

    def _read(self) -> Iterator[Row]:
        given = self.settings
        if not self.spec.startswith(BENCHMARK):
            file = Path(self.spec).expanduser()
            return file_rows(file, self.cells, images=given.image_dir, language=given.language)
        path, _, split = self.spec.removeprefix(BENCHMARK).partition(":")
        slug, _, config = path.partition("/")
        data_dir = None if given.data_dir is None else Path(given.data_dir).expanduser()
        if data_dir is not None and (data_dir / slug).is_dir():
            data_dir = data_dir / slug
        return benchmark_rows(
            slug, config or None, split=split or None, data_dir=data_dir, image_dir=given.image_dir
        )
