"""A file of captions or a benchmark, as settings name it → its captions, counted, with their origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.data.caption_rows import CaptionRow, benchmark_rows, file_rows
from training.data.origin import Origin

# What begins the name of a benchmark: "benchmark:multi30k/de:train".
BENCHMARK = "benchmark:"


class CaptionSource(Origin):
    """A file or a benchmark of the data.

    Args:
        spec: File of captions (`training.data.caption_rows.file_rows`), or a benchmark.
        license: Licence of the captions, where no file beside them states it.
        data_dir: Folder of a benchmark's files, or of folders named as the benchmarks.
        image_dir, language, image_column, candidate_column, language_column: As in
            `training.data.row_files.read_rows`.
    """

    def __init__(
        self,
        spec: str,
        *,
        license: str,
        language: str | None = None,
        image_dir: str | None = None,
        data_dir: str | None = None,
        image_column: str | None = None,
        candidate_column: str | None = None,
        language_column: str | None = None,
    ):
        name = spec.removeprefix(BENCHMARK) if spec.startswith(BENCHMARK) else Path(spec).name
        super().__init__(spec, name, license)
        self.spec, self.language, self.image_dir, self.data_dir = spec, language, image_dir, data_dir
        self.columns = {
            "image_column": image_column,
            "candidate_column": candidate_column,
            "language_column": language_column,
        }

    def rows(self) -> Iterator[CaptionRow]:
        """The captions; afterwards `n` is their number."""
        if not self.spec.startswith(BENCHMARK):
            rows = file_rows(
                Path(self.spec).expanduser(), images=self.image_dir, language=self.language, **self.columns
            )
        else:
            rest, _, split = self.spec.removeprefix(BENCHMARK).partition(":")
            slug, _, config = rest.partition("/")
            data_dir = self.data_dir
            if data_dir is not None and (Path(data_dir).expanduser() / slug).is_dir():
                data_dir = str(Path(data_dir).expanduser() / slug)
            rows = benchmark_rows(
                slug, config or None, split=split or None, data_dir=data_dir, image_dir=self.image_dir
            )
        yield from self.counted(rows)
