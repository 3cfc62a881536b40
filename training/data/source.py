"""A file of captions, or a benchmark, as a setting names it → its rows, counted, with their origin."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from capscore.errors import InputError
from training.data.rows import Row, benchmark_rows, file_rows

BENCHMARK = "benchmark:"  # as in "benchmark:multi30k/de:train"
SOURCES = ".sources.json"  # of the file beside a file of captions that says where they come from


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


@dataclass(frozen=True)
class DataSource:
    """A data set that contributed to the weights, its licence as its owners state it, or "unknown".

    `rows` were used, None if they were not counted; `hub_id` is "org/name" of its page on the Hub.
    """

    name: str
    license: str
    rows: int | None = None
    url: str = ""
    hub_id: str = ""
    used_for: str = "training"

    def __post_init__(self) -> None:
        texts = (self.name, self.license, self.url)
        if not all(isinstance(text, str) for text in texts) or not isinstance(self.rows, int | None):
            raise TypeError("a name, licence or address is not a text, or rows are not a number")


class Origin:
    """Where the captions of a file or data set come from, and the number `n` of rows that were read.

    A file of the same name with `SOURCES` behind it lists the origins and says what was held out.
    """

    def __init__(self, path: str, name: str, license: str):
        self.n, self.held_out, self.file = 0, "", Path(path).expanduser()
        self._alone = (name, license)
        self._parts: list[DataSource] = []
        beside = Path(f"{self.file}{SOURCES}")
        if beside.is_file():
            try:
                content = json.loads(beside.read_text(encoding="utf-8"))
                self._parts = [DataSource(**part) for part in content["sources"]]
                self.held_out = content.get("held_out", "")
                if not self._parts or not isinstance(self.held_out, str):
                    raise TypeError("there is no source, or what was held out is not a text")
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                expected = '{"held_out": …, "sources": [{"name": …, "license": …, "rows": …}, …]}'
                problem = f"does not say where the captions come from ({type(error).__name__}: {error})"
                raise InputError(f"{beside} {problem}; expected {expected}", field="data") from None

    def described(self) -> list[DataSource]:
        """The origins of the captions, for the card."""
        return self._parts or [DataSource(*self._alone, rows=self.n)]


class Source(Origin):
    """A file of captions (`training.data.rows.file_rows`), whose `cells` are read, or a benchmark.

    A benchmark is "benchmark:SLUG", "benchmark:SLUG/CONFIG" or "benchmark:SLUG/CONFIG:SPLIT".
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
        part, images = split or None, given.image_dir
        return benchmark_rows(slug, config or None, split=part, data_dir=data_dir, image_dir=images)


def rows_of(sources: Iterable[Source]) -> Iterator[Row]:
    """The captions of several sources, one after the other."""
    for source in sources:
        yield from source.rows()
