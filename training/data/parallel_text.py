"""Files of parallel text (JSON lines, Parquet, line-aligned) → distinct pairs of sentence and translation."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from capscore.benchmarks.data.annotation_files import AnnotationSource, Row
from capscore.errors import CapscoreError, InputError, Setting
from capscore.text.languages import NAMES, language_code

_SLOT = "{language}"
_KINDS = (".jsonl", ".jsonl.gz", ".parquet")
# Language of the sentences that are translated.
ENGLISH = "en"


@dataclass(frozen=True, eq=False)
class ParallelText:
    """Pairs of a sentence and its translation.

    Attributes:
        sources: Distinct sentences of the source language (s), in order of appearance.
        pair_source: int64 (n,), index of each pair's sentence in `sources`.
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
        for source, target, language in zip(self.pair_source, self.targets, self.languages, strict=True):
            digest.update(f"{self.sources[source]}\0{target}\0{language}\0".encode())
        return digest.hexdigest()


def read_parallel_text(paths: Iterable[str | Path], languages: Sequence[str] | None = None) -> ParallelText:
    """Read pairs of an English sentence and a translation from files.

    Consecutive blanks count as one. A repeated pair, in whatever file, is counted and left out; so are pairs
    within English.

    Args:
        paths: One or more of

            - `x.jsonl`, `x.jsonl.gz` or `x.parquet` with the fields `source`, `target` and `language`;
            - the same kinds with one field per language, `{"en": …, "de": …, "fr": …}`, where all but the
              English one may be null or absent;
            - `folder/train.{language}.gz` or another name with `{language}` in it: line-aligned files, one
              per language.
        languages: Languages to read, all of which must be present. None for all languages: then every field
            of the second form must be a language code, and `id` is Indonesian.

    Raises:
        CapscoreError: no file, an unknown kind of file, or a language that is missing.
        AnnotationError: a damaged file or row; names file and line (Parquet: row, from 0).
        InputError: an unknown language code.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "captions.jsonl"
    ...     _ = file.write_text('{"en": "A dog.", "de": "Ein Hund.", "fr": "Un chien."}\n', encoding="utf-8")
    ...     text = read_parallel_text([file])
    >>> text.sources, text.targets, text.languages
    (['A dog.'], ['Ein Hund.', 'Un chien.'], ['de', 'fr'])
    """
    wanted = None if languages is None else {language_code(language) for language in languages} - {ENGLISH}
    if wanted is not None and not wanted:
        raise CapscoreError(Setting("languages", list(languages or ())), ": expected another than English")
    numbers: dict[str, int] = {}
    pairs: dict[tuple[int, str, str], None] = {}
    rows = []
    for path in paths:
        n = 0
        for source, target, language in _pairs(Path(path).expanduser(), wanted):
            pairs[numbers.setdefault(source, len(numbers)), target, language] = None
            n += 1
        rows.append(n)
    found = {language for _, _, language in pairs}
    missing = sorted((wanted or set()) - found)
    if missing or not pairs:
        raise CapscoreError(
            f"{', '.join(map(str, paths))}: no sentence is translated from English to "
            f"{', '.join(missing) or 'another language'}; available: {', '.join(sorted(found)) or 'none'}"
        )
    return ParallelText(
        sources=list(numbers),
        pair_source=np.fromiter((source for source, _, _ in pairs), dtype=np.int64, count=len(pairs)),
        targets=[target for _, target, _ in pairs],
        languages=[language for _, _, language in pairs],
        duplicates=sum(rows) - len(pairs),
        rows=tuple(rows),
    )


def _pairs(path: Path, wanted: Collection[str] | None) -> Iterator[tuple[str, str, str]]:
    if _SLOT in path.name:
        yield from _aligned(path, wanted)
    elif not path.name.endswith(_KINDS):
        raise CapscoreError(
            f"{path}: parallel text is read from {', '.join(_KINDS)}, or from line-aligned files written as "
            f"one name with {_SLOT} in it, such as train.{_SLOT}.gz"
        )
    elif not path.is_file():
        raise CapscoreError(f"there is no file {path}")
    else:
        file = AnnotationSource(path)
        for row in file.parquet() if path.suffix == ".parquet" else file.jsonl():
            yield from _pairs_of_row(row, wanted)


def _pairs_of_row(row: Row, wanted: Collection[str] | None) -> Iterator[tuple[str, str, str]]:
    if "source" in row or "target" in row:
        language = _code(row, row["language"])
        source, target = row.caption("source"), row.caption("target")
        if language != ENGLISH and (wanted is None or language in wanted):
            yield source, target, language
        return
    fields: dict[str, str] = {}
    for name in row:
        code = _code(row, name) if wanted is None else _known_code(name)
        if wanted is not None and code not in wanted and code != ENGLISH:
            continue
        if code in fields:
            raise row.error(f"the fields {fields[code]!r} and {name!r} are both {code}")
        fields[code] = name
    if ENGLISH not in fields:
        raise row.error(f"has no field {ENGLISH!r}; it has {', '.join(row)}")
    source = row.caption(fields.pop(ENGLISH))
    for language, name in fields.items():
        if row[name] is not None:
            yield source, row.caption(name), language


def _code(row: Row, name: Any) -> str:
    code = _known_code(name) if isinstance(name, str) else ""
    if not code:
        raise row.error(
            f"{name!r:.60} is no language code; expected the fields source, target and language, or one "
            "field per language; if there are other fields, name the languages to read"
        )
    return code


@lru_cache(maxsize=1024)
def _known_code(name: str) -> str:
    """The language that a field's name stands for, "" if it stands for none."""
    try:
        return language_code(name)
    except InputError:
        return ""


def _aligned(template: Path, wanted: Collection[str] | None) -> Iterator[tuple[str, str, str]]:
    """Lines of the files that a name with {language} in it stands for."""
    before, _, after = template.name.partition(_SLOT)
    files: dict[str, Path] = {}
    for path in sorted(template.parent.glob("*")):
        if path.name.startswith(before) and path.name.endswith(after):
            code = _known_code(path.name[len(before) : len(path.name) - len(after)])
            if code in (NAMES if wanted is None else {*wanted, ENGLISH}):
                if code in files:
                    raise CapscoreError(f"{files[code]} and {path} are both {code}; give the name of one")
                files[code] = path
    if ENGLISH not in files:
        raise CapscoreError(f"{template}: there is no file of English sentences")
    first = AnnotationSource(files.pop(ENGLISH))
    sentences = _sentences(first)
    for language, path in files.items():
        file = AnnotationSource(path)
        translations = _sentences(file)
        if len(translations) != len(sentences):
            raise CapscoreError(
                f"{first} has {len(sentences):,} lines, but {file} has {len(translations):,}; lines with one "
                "number should be translations of each other"
            )
        for sentence, translation in zip(sentences, translations, strict=True):
            yield sentence, translation, language


def _sentences(file: AnnotationSource) -> list[str]:
    return [file.row({"the line": text}, line=line).caption("the line") for line, text in file.lines()]
