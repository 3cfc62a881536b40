"""Translates the captions of a file, block by block, and writes the result once every block is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError, Setting
from ..files.columns import ColumnNames, find_columns
from ..files.read import open_rows
from ..files.row_source import CHUNK_ROWS, Chunk, RowSource
from ..files.write import check_output, open_writer, partial_path, summary_path
from ..text.languages import language_code
from .choose import Translation, translate_texts
from .language_check import LanguageIdentifier, Py3LangId, check_is_identified
from .model import DEFAULT_TRANSLATOR, BeamSearch, Translator, check_at_least_one, load_translator
from .quality import QualityEstimator, load_quality
from .quartiles import quartiles
from .rows import CaptionRow, no_language, read_caption_rows
from .shards import Blocks
from .translated_file import TranslatedRow, TranslatedSource, new_columns

ON_REJECTED = ("keep", "drop", "stop")


@dataclass(frozen=True)
class TranslationOptions:
    """How a file is translated.

    Attributes:
        languages: Languages to translate into, in any usual spelling or as the translator calls them.
        language: Language of all captions; None reads the column.
        translator, revision: As of `load_translator`.
        search: Settings of the beam search.
        quality, quality_python: Estimator and the Python that it runs under, as of `load_quality`.
        language_check: Whether candidates in other languages are turned away.
        references: Whether references are translated too.
        on_error: What a bad row does: "raise", or "skip" to leave it untranslated.
        on_rejected: What a row does of whose candidates none is in the right language: "keep" the best with
            the reason, "drop" the row, or "stop".
        batch_size: Number of texts that are translated together.
        shard_rows: Number of rows per block.
        shard: Share of the blocks to make, such as (2, 4), the second of four; None makes all, and the
            result.
        device, dtype: As of `load_translator`.
        candidate_column, references_column, language_column, split: As of `find_columns` and `open_rows`.

    Raises:
        InputError: An option has a wrong value.
    """

    languages: tuple[str, ...]
    language: str | None = None
    translator: str = DEFAULT_TRANSLATOR
    revision: str | None = None
    search: BeamSearch = field(default_factory=BeamSearch)
    quality: str = "cosine"
    quality_python: str | None = None
    language_check: bool = True
    references: bool = False
    on_error: str = "raise"
    on_rejected: str = "keep"
    batch_size: int = 8
    shard_rows: int = 256
    shard: tuple[int, int] | None = None
    device: str | None = None
    dtype: str | None = None
    candidate_column: str | None = None
    references_column: str | None = None
    language_column: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        if not self.languages:
            raise InputError(Setting("to"), ": expected at least one language to translate into")
        if len({tag_of(code) for code in self.languages}) < len(self.languages):
            raise InputError(Setting("to", list(self.languages)), ": a language is named twice")
        for name in ("batch_size", "shard_rows"):
            check_at_least_one(name, getattr(self, name))
        for name, choices in (("on_error", ("raise", "skip")), ("on_rejected", ON_REJECTED)):
            if getattr(self, name) not in choices:
                raise InputError(
                    Setting(name, getattr(self, name)), f": expected one of {', '.join(choices)}"
                )


@dataclass(frozen=True)
class TranslatedFile:
    """What a run did.

    Attributes:
        output: The result; None if this was a share of the work.
        summary: Counts and settings, ready for JSON.
        failures: For each bad row, its line (or None) and what was wrong.
    """

    output: Path | None
    summary: dict[str, Any]
    failures: dict[int, tuple[int | None, str]]


@dataclass(frozen=True)
class _Job:
    source: RowSource
    names: ColumnNames
    rows: list[CaptionRow]
    options: TranslationOptions
    translator: Translator
    quality: QualityEstimator
    identifier: LanguageIdentifier | None

    def settings(self) -> dict[str, Any]:
        """Everything that a translation depends on, and the texts."""
        import xxhash

        digest = xxhash.xxh3_128()
        for row in self.rows:
            digest.update(json.dumps([row.caption, row.references, row.language]).encode())
        return {
            "texts": digest.hexdigest(),
            "languages": [*self.options.languages],
            "translator": self.translator.name,
            **asdict(self.options.search),
            "dtype": self.options.dtype or "float32",
            "quality": self.quality.name,
            "language_check": None if self.identifier is None else self.identifier.name,
            "references": self.options.references,
            "shard_rows": self.options.shard_rows,
            "version": __version__,
        }


def tag_of(language: str) -> str:
    """The tag that a result has for a language.

    >>> tag_of("deu_Latn"), tag_of("zho_Hant"), tag_of("zh-TW"), tag_of("pt")
    ('de', 'zh-Hant', 'zh-TW', 'pt')
    """
    import langcodes

    language_code(language)  # a clear error for what is no language
    tag = langcodes.standardize_tag(language.strip().replace("_", "-"))
    return language_code(tag) if tag.partition("-")[0] == tag else tag


def translate_file(
    path: str | Path,
    output: str | Path,
    options: TranslationOptions,
    *,
    force: bool = False,
    progress: Callable[[int, int], AbstractContextManager[Callable[[int], None]]] | None = None,
    held: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> TranslatedFile:
    """Translate the captions of a file into one or several languages.

    The result has a row for each row and language, in the order of the file and of the languages, with the
    translation in the caption's column and the columns `NEW_COLUMNS`; every other column is carried along.
    A run that was ended goes on where it was; the same command for a result that is there does nothing.

    Args:
        path: File of rows, as of `open_rows`.
        output: File of the result.
        options: How to translate.
        force: Whether results and unfinished work of other settings are replaced.
        progress: Function of the numbers of all blocks and of those that are done, whose context gives a
            function that is told how many more are.
        held: Context in which the result is written and signals wait.

    Raises:
        InputError: A bad row, column or option; a language that a model does not know; a result or
            unfinished work of other settings; a block that another process works on.
        BackboneUnavailable, MissingExtraError: Weights or a package are not here.
        ResultWriteError: A file cannot be written.
    """
    job = _open(path, options)
    settings = job.settings()
    target = Path(output).expanduser()
    finished = None if force else _finished(target, settings, options)
    if finished is not None:
        return TranslatedFile(target, finished, _failures(job.rows))
    new_columns(job.source, job.names)
    target = check_output(output, job.source, force=force)
    n_blocks = -(-len(job.rows) // options.shard_rows)
    blocks = Blocks(target.with_name(f"{target.name}.shards"), settings, n_blocks, force=force)
    mine = blocks.mine(options.shard)
    if not mine:
        raise InputError(
            Setting("shard", "/".join(map(str, options.shard or ()))),
            f": the {len(job.rows)} rows make {n_blocks} block{'s' if n_blocks > 1 else ''} of ",
            Setting("shard_rows", options.shard_rows),
            ", so this share has no rows",
        )
    before = set(blocks.done())
    shown = (
        nullcontext(lambda count: None) if progress is None else progress(len(mine), len(before & set(mine)))
    )
    with shown as advance:
        for number in mine:
            if number not in before:
                _make(job, blocks, number)
                advance(1)
            if options.on_rejected == "stop":
                _stop_at_rejected(job, blocks.read(number))
    done = blocks.done()
    counts = {"blocks": n_blocks, "done": len(done), "made": len(set(mine) - before)}
    if options.shard is not None:
        summary = {
            "input": str(path),
            "output": None,
            "shard": list(options.shard),
            **counts,
            "settings": settings,
        }
        return TranslatedFile(None, summary, _failures(job.rows))
    records = [record for number in range(n_blocks) for record in blocks.read(number)]
    rows = _result_rows(job, records)
    summary = {
        "input": str(path),
        "output": str(target),
        "rows": len(job.rows),
        **_counts(job, records, rows),
        "on_error": options.on_error,
        "on_rejected": options.on_rejected,
        "settings": settings,
    }
    with held():
        _write(target, TranslatedSource(job.source, job.names, rows), summary)
        blocks.remove()
    return TranslatedFile(target, summary, _failures(job.rows))


def _open(path: str | Path, options: TranslationOptions) -> _Job:
    source = open_rows(path, split=options.split)
    names = find_columns(
        source.columns,
        candidate=options.candidate_column,
        references=options.references_column,
        language=options.language_column,
        with_images=False,
        with_references=options.references,
        # it is known even where one language is stated for all rows, for its cells change
        with_language=True,
    )
    if options.language is None and names.language is None:
        raise no_language(source)
    translator = load_translator(
        options.translator, revision=options.revision, device=options.device, dtype=options.dtype
    )
    identifier = Py3LangId() if options.language_check else None
    for code in options.languages:
        translator.code(code)
        if identifier is not None:
            check_is_identified(identifier, code)
    if options.language is not None:
        translator.code(options.language)
    own = names if options.language is None else ColumnNames(None, names.candidate, names.references)
    rows = read_caption_rows(source, own, options.language, translator.code, on_error=options.on_error)
    quality = load_quality(options.quality, device=options.device, python=options.quality_python)
    quality.check_languages([language_code(code) for code in options.languages])
    rows = _without_long(source, rows, translator, options.on_error)
    return _Job(source, names, rows, options, translator, quality, identifier)


def _without_long(
    source: RowSource, rows: list[CaptionRow], translator: Translator, on_error: str
) -> list[CaptionRow]:
    """The rows, with a problem where a text is too long for the translator."""
    checked = []
    for number, row in enumerate(rows):
        texts = [row.caption, *row.references] if row.problem is None else []
        # a token has a byte or more
        long = [
            text for text in texts if len(text.encode("utf-8", "surrogatepass")) >= translator.max_tokens - 8
        ]
        counts = translator.count_tokens(long, translator.code(row.language)) if long else []
        if any(count > translator.max_tokens for count in counts):
            message = translator.too_long(max(counts))
            if on_error == "raise":
                place = source.short_place(number, row.line)
                raise InputError(f"{source.path}, {place}: {message}")
            row = CaptionRow("", (), "", message, row.line)
        checked.append(row)
    return checked


def _make(job: _Job, blocks: Blocks, number: int) -> None:
    with blocks.locked(number):
        if blocks.path(number).is_file():  # another process was quicker
            return
        first = number * job.options.shard_rows
        rows = list(enumerate(job.rows[first : first + job.options.shard_rows], first))
        made: dict[tuple[str, str], dict[str, Translation]] = {}
        for target in job.options.languages:
            for language in dict.fromkeys(row.language for _, row in rows if row.problem is None):
                if language == tag_of(target):
                    continue
                texts = [
                    text
                    for _, row in rows
                    if row.language == language and row.problem is None
                    for text in (row.caption, *row.references)
                ]
                chosen = translate_texts(
                    texts,
                    language,
                    target,
                    translator=job.translator,
                    quality=job.quality,
                    identifier=job.identifier,
                    search=job.options.search,
                    batch_size=job.options.batch_size,
                )
                made[language, target] = dict(zip(texts, chosen, strict=True))
        blocks.write(
            number,
            [
                _record(place, row, target, made.get((row.language, target)))
                for place, row in rows
                for target in job.options.languages
            ],
        )


def _record(place: int, row: CaptionRow, target: str, made: dict[str, Translation] | None) -> dict[str, Any]:
    """What a block knows of a row in a language; without translations if it is bad, or in that language."""
    if row.problem is not None or made is None:
        return {"row": place, "to": target, "caption": None, "references": None}
    return {
        "row": place,
        "to": target,
        "caption": asdict(made[row.caption]),
        "references": [asdict(made[text]) for text in row.references],
    }


def _rejected(record: Mapping[str, Any]) -> str | None:
    """Why a row has no good translation, or None."""
    if record["caption"] is None:
        return None
    problems = [record["caption"]["problem"]]
    problems += [
        one["problem"] and f"reference {number}: {one['problem']}"
        for number, one in enumerate(record["references"], start=1)
    ]
    return "; ".join(filter(None, problems)) or None


def _stop_at_rejected(job: _Job, records: Iterable[Mapping[str, Any]]) -> None:
    for record in records:
        problem = _rejected(record)
        if problem:
            place = job.source.short_place(record["row"], job.rows[record["row"]].line)
            raise InputError(
                f"{job.source.path}, {place}: {problem}; ",
                Setting("on_rejected", "keep"),
                " keeps such rows with the reason, ",
                Setting("on_rejected", "drop"),
                " drops them",
            )


def _result_rows(job: _Job, records: Sequence[Mapping[str, Any]]) -> list[TranslatedRow]:
    quality: dict[str, list[float | None]] = {}
    for record in records:
        good = record["caption"] is not None and _rejected(record) is None
        quality.setdefault(record["to"], []).append(record["caption"]["quality"] if good else None)
    places = {code: iter(quartiles(values)) for code, values in quality.items()}
    found = []
    for record in records:
        row = job.rows[record["row"]]
        problem = row.problem or _rejected(record)
        quartile = next(places[record["to"]])
        if problem and job.options.on_rejected == "drop":
            continue
        caption, references = record["caption"], record["references"]
        found.append(
            TranslatedRow(
                row=record["row"],
                language=tag_of(record["to"]),
                original_language=row.language,
                caption=None if caption is None else caption["text"],
                references=None if not references else [one["text"] for one in references],
                references_quality=None if not references else [one["quality"] for one in references],
                quality=None if caption is None else caption["quality"],
                quartile=quartile,
                problem=problem,
            )
        )
    return found


def _counts(job: _Job, records: Sequence[Mapping[str, Any]], rows: Sequence[TranslatedRow]) -> dict[str, Any]:
    by_language = {}
    for code in job.options.languages:
        own = [one for one in records if one["to"] == code]
        quality = [one["caption"]["quality"] for one in own if one["caption"] and _rejected(one) is None]
        by_language[tag_of(code)] = {
            "rows": sum(row.language == tag_of(code) for row in rows),
            "translated": sum(one["caption"] is not None for one in own),
            "rejected": sum(_rejected(one) is not None for one in own),
            "candidates": sum(one["caption"]["distinct"] for one in own if one["caption"]),
            "accepted": sum(one["caption"]["accepted"] for one in own if one["caption"]),
            "quality": sum(quality) / len(quality) if quality else None,
        }
    return {
        "bad_rows": sum(row.problem is not None for row in job.rows),
        "written": len(rows),
        "languages": by_language,
    }


def _failures(rows: Sequence[CaptionRow]) -> dict[int, tuple[int | None, str]]:
    return {number: (row.line, row.problem) for number, row in enumerate(rows) if row.problem is not None}


def _finished(target: Path, settings: dict[str, Any], options: TranslationOptions) -> dict[str, Any] | None:
    """The summary of a result that the same job wrote, or None."""
    if options.shard is not None or not target.exists():
        return None
    try:
        summary = json.loads(summary_path(target).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    wanted = {
        "settings": json.loads(json.dumps(settings)),
        "on_error": options.on_error,
        "on_rejected": options.on_rejected,
    }
    return summary if {name: summary.get(name) for name in wanted} == wanted else None


def _write(target: Path, rows: RowSource, summary: dict[str, Any]) -> None:
    if not rows.n_rows:
        raise InputError(
            f"no row is left for {target}: every translation was rejected; ",
            Setting("on_rejected", "keep"),
            " keeps them with the reason",
        )
    writer = open_writer(target, rows, {})
    try:
        for chunk in rows.chunks(CHUNK_ROWS):
            writer.write(chunk, {})
        text = json.dumps(summary, ensure_ascii=False, indent=2) + "\n"
        writer.finish({"translation": summary["settings"]}, text)
    except BaseException:
        writer.stop()
        partial = partial_path(target)
        if partial.is_file():
            partial.unlink()
        raise


def split_by_quartile(result: Path, *, force: bool = False) -> list[Path]:
    """Write the rows of a result into four files by the quartile of their quality in their language.

    Args:
        result: File that `translate_file` wrote: captions.de.jsonl gives captions.de.quartile1.jsonl, ….
        force: Whether files of these names are replaced.

    Returns:
        The files; none for a quartile without rows.

    Raises:
        InputError: A file exists, or is not such a result.
    """
    source = open_rows(result)
    if "quartile" not in source.columns:
        raise InputError(f"{result} has no column 'quartile'; expected a result of a translation")
    places: dict[int, list[int]] = {number: [] for number in (1, 2, 3, 4)}
    for chunk in source.chunks(CHUNK_ROWS, ["quartile"]):
        for row, value in enumerate(chunk.values("quartile")):
            if value not in (None, ""):
                places[int(value)].append(chunk.start + row)
    targets = {
        number: check_output(quartile_path(result, number), source, force=force)
        for number, rows in places.items()
        if rows
    }
    for number, target in targets.items():
        part = _SomeRows(source, places[number])
        _write(target, part, {"input": str(result), "quartile": number, "rows": part.n_rows, "settings": {}})
    return list(targets.values())


def quartile_path(result: Path, number: int) -> Path:
    """The file of a quartile: captions.jsonl → captions.quartile1.jsonl."""
    partial = partial_path(result)
    return partial.with_name(partial.name.replace(".partial", f".quartile{number}", 1))


class _SomeRows(RowSource):
    """Some rows of a file, in its order."""

    def __init__(self, source: RowSource, rows: Sequence[int]):
        self.source, self.path, self.columns = source, source.path, source.columns
        self.n_rows, self._rows = len(rows), set(rows)
        self.cells_are_text = source.cells_are_text

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        start = 0
        for chunk in self.source.chunks(size, columns):
            kept = [row for row in range(len(chunk)) if chunk.start + row in self._rows]
            if not kept:
                continue
            if chunk.rows is not None:
                yield Chunk(start, None, rows=[chunk.rows[row] for row in kept])
            else:
                yield Chunk(start, None, table=chunk.table.take(kept))
            start += len(kept)

    def schema(self) -> Any:
        return self.source.schema()
