"""Files of parallel text (JSON lines, Parquet, line-aligned) → distinct pairs of sentence and translation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capscore.benchmarks.data.annotation_files import AnnotationSource, Row
from capscore.errors import CapscoreError, InputError, Setting
from capscore.text.languages import NAMES, language_code

_SLOT = "{language}"
_KINDS = (".jsonl", ".jsonl.gz", ".parquet")
_LONG = ("source", "target", "language")


@dataclass(frozen=True, eq=False)
class ParallelText:
    """Pairs of a sentence and its translation.

    Attributes:
        sources: Distinct sentences of the source language (s), in order of appearance.
        pair_source: int64 (n,), place of each pair's sentence in `sources`.
        targets: Translations (n).
        languages: Language of each translation (n), as `language_code` spells it.
        duplicates: Number of repeated pairs that were left out.
        rows: Number of pairs of each file that was read, repeated ones included.
    """

    sources: list[str]
    pair_source: np.ndarray
    targets: list[str]
    languages: list[str]
    duplicates: int
    rows: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.targets)

    def counts(self) -> dict[str, int]:
        """Language → number of pairs, in alphabetical order."""
        languages, counts = np.unique(np.array(self.languages), return_counts=True)
        return dict(zip(languages.tolist(), counts.tolist(), strict=True))

    @cached_property
    def digest(self) -> str:
        """Digest of all pairs in their order, 32 hexadecimal digits."""
        digest = hashlib.blake2b(digest_size=16)
        for source, target, language in zip(
            self.pair_source.tolist(), self.targets, self.languages, strict=True
        ):
            digest.update(f"{self.sources[source]}\0{target}\0{language}\0".encode())
        return digest.hexdigest()


def read_parallel_text(
    paths: str | Path | Iterable[str | Path],
    languages: Sequence[str] | None = None,
    *,
    source_language: str = "en",
) -> ParallelText:
    """Read pairs from files.

    Consecutive blanks count as one. A repeated pair, in whatever file, is counted and left out.

    Args:
        paths: One or more of

            - `x.jsonl`, `x.jsonl.gz` or `x.parquet` with the fields `source`, `target` and `language`;
            - the same kinds with one field per language, `{"en": …, "de": …, "fr": …}`, where all but the
              source language may be null or absent;
            - `folder/train.{language}.gz` or another name with `{language}` in it: line-aligned files, one
              per language.
        languages: Languages to read, all of which must be present. None for all languages: then every field
            of the second form must be a language code, and `id` is Indonesian.
        source_language: Language of the sentences that are translated; pairs within it are left out.

    Raises:
        CapscoreError: no file, an unknown kind of file, or a language that is missing.
        AnnotationError: a damaged file or row; names file and line (Parquet: row, from 0).
        InputError: an unknown language code.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "captions.jsonl"
    ...     _ = file.write_text('{"en": "A dog.", "de": "Ein Hund.", "fr": "Un chien."}\\n', encoding="utf-8")
    ...     text = read_parallel_text(file)
    >>> text.sources, text.targets, text.languages
    (['A dog.'], ['Ein Hund.', 'Un chien.'], ['de', 'fr'])
    """
    paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not paths:
        raise CapscoreError("no file of parallel text was given")
    source_language = language_code(source_language)
    wanted = None if languages is None else {language_code(language) for language in languages}
    if wanted is not None:
        wanted.discard(source_language)
        if not wanted:
            raise CapscoreError(
                Setting("languages", list(languages or ())), f": only the source language, {source_language}"
            )
    place: dict[str, int] = {}
    pairs: dict[tuple[int, str, str], None] = {}
    rows = [0] * len(paths)
    for number, path in enumerate(paths):
        for source, target, language in _pairs(Path(path).expanduser(), wanted, source_language):
            pairs[place.setdefault(source, len(place)), target, language] = None
            rows[number] += 1
    found = {language for _, _, language in pairs}
    if wanted is not None and wanted - found:
        raise CapscoreError(
            f"{', '.join(map(str, paths))}: no sentence is in {', '.join(sorted(wanted - found))}; "
            f"available: {', '.join(sorted(found)) or 'none of the requested languages'}"
        )
    if not pairs:
        raise CapscoreError(f"{', '.join(map(str, paths))}: there is no translation from {source_language}")
    return ParallelText(
        sources=list(place),
        pair_source=np.fromiter((source for source, _, _ in pairs), dtype=np.int64, count=len(pairs)),
        targets=[target for _, target, _ in pairs],
        languages=[language for _, _, language in pairs],
        duplicates=sum(rows) - len(pairs),
        rows=tuple(rows),
    )


def _pairs(path: Path, wanted: set[str] | None, source_language: str) -> Iterator[tuple[str, str, str]]:
    if _SLOT in path.name:
        yield from _aligned(path, wanted, source_language)
        return
    if _SLOT in str(path):
        raise CapscoreError(f"{path}: {_SLOT} must be in the file's name")
    kind = next((kind for kind in _KINDS if path.name.endswith(kind)), None)
    if kind is None:
        raise CapscoreError(
            f"{path}: parallel text is read from {', '.join(_KINDS)}, or from line-aligned files written as "
            f"one name with {_SLOT} in it, such as train.{_SLOT}.gz"
        )
    if not path.is_file():
        raise CapscoreError(f"there is no file {path}")
    yield from _records(AnnotationSource(path), kind == ".parquet", wanted, source_language)


# -------------------------------------------------------------------- records


def _records(
    file: AnnotationSource, is_parquet: bool, wanted: set[str] | None, source_language: str
) -> Iterator[tuple[str, str, str]]:
    codes: dict[str, str] = {}
    for row in file.parquet() if is_parquet else file.jsonl():
        if "source" in row or "target" in row:
            language = _code(row, row["language"], codes)
            source, target = (row.caption(name) for name in _LONG[:2])
            if language != source_language and (wanted is None or language in wanted):
                yield source, target, language
            continue
        by_language = _fields_by_language(row, wanted, source_language, codes)
        if source_language not in by_language:
            raise row.error(f"has no field {source_language!r}, the source's; it has {', '.join(row)}")
        source = row.caption(by_language.pop(source_language))
        for language, name in by_language.items():
            if row[name] is not None:
                yield source, row.caption(name), language


def _fields_by_language(
    row: Row, wanted: set[str] | None, source_language: str, codes: dict[str, str]
) -> dict[str, str]:
    """Language → field, for the languages to read."""
    fields: dict[str, str] = {}
    for name in row:
        if wanted is None:
            code = _code(row, name, codes)
        else:
            code = codes.setdefault(name, _known_code(name))
            if code not in wanted and code != source_language:
                continue
        if code in fields:
            raise row.error(f"the fields {fields[code]!r} and {name!r} are both {code}")
        fields[code] = name
    return fields


def _sentence(file: AnnotationSource, line: int, text: str) -> str:
    return file.row({"the line": text}, line=line).caption("the line")


def _code(row: Row, name: Any, codes: dict[str, str]) -> str:
    if not isinstance(name, str) or not codes.get(name):
        try:
            codes[name] = language_code(name)
        except InputError as error:
            raise row.error(
                f"{error.message}. Expected the fields {', '.join(_LONG)}, or one field per language; if "
                "there are other fields, name the languages to read"
            ) from None
    return codes[name]


def _known_code(name: str) -> str:
    """The language that a field's name stands for, "" if it stands for none."""
    try:
        return language_code(name)
    except InputError:
        return ""


# --------------------------------------------------------------- aligned lines


def _aligned(template: Path, wanted: set[str] | None, source_language: str) -> Iterator[tuple[str, str, str]]:
    files = _files_of(template, wanted, source_language)
    if source_language not in files:
        there = ", ".join(sorted(str(file) for file in files.values())) or "no such file"
        raise CapscoreError(
            f"{template}: there is no file of the source language, {source_language}; there is {there}"
        )
    source = AnnotationSource(files.pop(source_language))
    sentences = [_sentence(source, *line) for line in source.lines()]
    for language in sorted(files):
        target = AnnotationSource(files[language])
        lines = list(target.lines())
        if len(lines) != len(sentences):
            raise CapscoreError(
                f"{source} has {len(sentences):,} lines, but {target} has {len(lines):,}; lines with one "
                "number should be translations of each other"
            )
        for (number, text), sentence in zip(lines, sentences, strict=True):
            yield sentence, _sentence(target, number, text), language


def _files_of(template: Path, wanted: set[str] | None, source_language: str) -> dict[str, Path]:
    """Language → file, for a name with {language} in it."""
    before, _, after = template.name.partition(_SLOT)
    pattern = re.compile(re.escape(before) + r"([A-Za-z]{2,3}(?:[-_][A-Za-z]+)?)" + re.escape(after))
    files: dict[str, Path] = {}
    if not template.parent.is_dir():
        raise CapscoreError(f"there is no folder {template.parent}")
    for path in sorted(template.parent.iterdir()):
        match = pattern.fullmatch(path.name)
        code = _known_code(match[1]) if match else ""
        if code not in (NAMES if wanted is None else wanted | {source_language}):
            continue
        if code in files:
            raise CapscoreError(f"{files[code]} and {path} are both {code}; give the name of one")
        files[code] = path
    return files
