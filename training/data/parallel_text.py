"""Files of sentences with their translations → distinct pairs of sentence and translation."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from capscore.errors import CapscoreError, InputError, Setting
from capscore.files.columns import is_missing
from capscore.files.read import open_rows
from capscore.files.row_source import CHUNK_ROWS
from capscore.text.languages import language_code
from training.data.rows import checked_text

ENGLISH = "en"  # language of the sentences that are translated


class Pair(NamedTuple):
    """An English sentence and its translation into a language, as `language_code` spells it."""

    source: str
    target: str
    language: str


@dataclass(frozen=True)
class ParallelText:
    """Distinct pairs of a sentence and its translation, and the numbers of pairs that the files had."""

    pairs: list[Pair]
    rows: tuple[int, ...] = ()

    @cached_property
    def sources(self) -> list[str]:
        """Distinct English sentences, in order of appearance."""
        return list(dict.fromkeys(pair.source for pair in self.pairs))

    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(pair.language for pair in self.pairs).items()))

    def without(self, sentences: Collection[str]) -> ParallelText:
        return ParallelText([pair for pair in self.pairs if pair.source not in sentences], self.rows)

    def digest(self) -> str:
        """Digest of all pairs in their order, 32 hexadecimal digits."""
        digest = hashlib.blake2b(digest_size=16)
        for pair in self.pairs:
            digest.update("".join(f"{part}\0" for part in pair).encode())
        return digest.hexdigest()


def read_parallel_text(paths: Iterable[str | Path], languages: Sequence[str] | None = None) -> ParallelText:
    """Read distinct pairs of an English sentence and a translation from files; consecutive blanks are one.

    Args:
        paths: One or more files, as `capscore.files.read.open_rows` takes them, with one column per language:
            `{"en": …, "de": …, "fr": …}`, where all but the English one may be null or absent.
        languages: Languages to read, all of which must be present. None for all languages: then the name of
            every column must be a language code, and `id` is Indonesian.
    """
    wanted: set[str] | None = None
    if languages is not None:
        wanted = set(map(language_code, languages)) - {ENGLISH}
        if not wanted:
            raise CapscoreError(Setting("languages", [*languages]), ": expected other languages than English")
    pairs: dict[Pair, None] = {}
    rows = []
    for path in paths:
        read = list(_pairs(Path(path).expanduser(), wanted))
        pairs |= dict.fromkeys(read)
        rows.append(len(read))
    found = {pair.language for pair in pairs}
    missing = sorted((wanted or set()) - found)
    if missing or not pairs:
        to = f"{', '.join(missing) or 'another language'}; available: {', '.join(sorted(found)) or 'none'}"
        problem = f"no sentence is translated from English to {to}"
        raise CapscoreError(f"{', '.join(map(str, paths))}: {problem}")
    return ParallelText(list(pairs), tuple(rows))


def _pairs(path: Path, wanted: Collection[str] | None) -> Iterator[Pair]:
    file = open_rows(path)
    columns = _columns(path, file.columns, wanted)
    for chunk in file.chunks(CHUNK_ROWS):
        problems = file.problems(chunk)
        cells = {language: chunk.values(column) for language, column in columns.items()}
        for index in range(len(chunk)):
            try:
                if index in problems:
                    raise problems[index]
                source = _sentence(cells[ENGLISH][index], columns[ENGLISH])
                for language, column in columns.items():
                    cell = cells[language][index]
                    if language != ENGLISH and not is_missing(cell):
                        yield Pair(source, _sentence(cell, column), language)
            except InputError as error:
                raise file.at(error, chunk, index) from None


def _columns(path: Path, names: Iterable[str], wanted: Collection[str] | None) -> dict[str, str]:
    """Language → its column in a file."""
    columns: dict[str, str] = {}
    for name in names:
        try:
            code = language_code(name)
        except InputError:
            if wanted is not None:
                continue
            expected = "one column per language; if there are other columns, name the languages to read"
            problem = f"the column {name!r:.60} is not a language code; expected {expected}"
            raise InputError(f"{path}: {problem}") from None
        if wanted is not None and code not in {*wanted, ENGLISH}:
            continue
        if code in columns:
            raise InputError(f"{path}: the columns {columns[code]!r} and {name!r} are both {code}")
        columns[code] = name
    if ENGLISH not in columns:
        raise InputError(f"{path} has no column {ENGLISH!r}; it has {', '.join(names)}")
    return columns


def _sentence(cell: object, column: str) -> str:
    return " ".join(checked_text(cell, column).split())
