"""Reads rows: JSONL, JSON, CSV, TSV, token, tar and Parquet files, saved data sets, photos with texts.

`FORMATS` lists the files that can be read, `registry.LAYOUTS` what their JSON may look like. A new format is
one function and one entry there.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import InputError, Setting
from ..options import RowOptions
from ..text.suspicious import are_tokens
from .columns import find_candidate_column, find_reference_columns, named_columns, written_list
from .layouts import line_reader
from .pages import PAGE_STARTS, PAGE_SUFFIXES, open_pages, page_names
from .photo_names import IMAGE_SUFFIXES
from .row_source import CHUNK_ROWS, NoRowsError, Row, RowSource, layout_error, read_dicts, read_tables
from .samples import TEXT_SUFFIXES, is_visible, open_archive, open_photo_folder, samples_of
from .shards import expanded, join_rows
from .text_files import (
    ROW_BYTES,
    ROW_IN_MEMORY,
    UNPACKS_TOO_FAR,
    TextFile,
    copied_stream,
    longer_than,
    looks_like,
    open_csv,
    open_json,
    open_lines,
    open_text,
    open_tsv,
    unpacked_limit,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

EXPECTED = "JSONL, JSON, CSV, TSV, Parquet, WebDataset tar, HTML, Markdown, or the folder of a saved data set"
# what a list of texts looks like that neither JSON nor Python wrote, as NumPy's ['a dog' 'a cat']
_BROKEN_LIST = re.compile(r"""\s*\[\s*(['"]).*\1\s*\]\s*""", re.S)
_OTHER_PHOTOS = (".heic", ".heif", ".dng", ".cr2", ".svg")


_PARTS: tuple[tuple[str, ...], ...] = ((".tar",), (".parquet",), (".jsonl", ".jsonl.gz", ".ndjson"))
_BESIDE_PARTS: dict[tuple[str, ...], set[str]] = {_PARTS[0]: {".parquet", ".json"}}  # of img2dataset


def open_rows(
    path: str | Path | Sequence[str | Path],
    options: RowOptions = RowOptions(),
    *,
    needs_split: bool = True,
    lists_are_rows: bool = True,
) -> RowSource:
    """Open a file or folder of rows. A text file is read here to its end, so that errors in it come early.

    Args:
        path: JSONL, JSON (a list of objects, or in one of `registry.LAYOUTS`), CSV, TSV, token, WebDataset or
            Parquet file, named pipe, or "-" for standard input; the suffix shows the format, or the content
            where there is no suffix, and text may be gzipped (.gz). Or a folder: of a saved data set, of
            .tar, .jsonl or Parquet files that are parts of one, of photos with NAME.txt or .caption beside
            each NAME.jpg, one caption per file, or with metadata.csv or .jsonl. Or several that are one:
            a pattern such as corpus-*.tar or part-{00000..00041}.parquet, or a list.
        options: `split` of a saved data set that has several, or of a file that names the split of each row;
            with `on_error="skip"`, a row of another number of cells than the header is one of
            `RowSource.faults`. `references` are not read here, but by `references.open_with_references`.
    """
    given = [path] if isinstance(path, str | Path) else [*path]
    files = [file for item in given for file in expanded(item)]
    if not files:
        raise InputError("there are no files to read")
    if len(files) == 1:
        source, split = _open(files[0], options)
        source = in_layout(source)
    else:
        name = Path(given[0] if len(given) == 1 else f"{files[0]} … {files[-1].name}")
        source, split = _open_parts(name, files, options)
    if split is not None and (needs_split or named_columns(("split",), source.columns)):
        source = _of_split(source, split)
    if lists_are_rows:
        source = one_caption_per_row(source, options)
    for row, fault in source.faults.items():
        if options.on_error == "raise" and fault.field is None:
            raise source.at_row(fault, row)
    return source


def _open_parts(path: Path, files: Sequence[Path], options: RowOptions) -> tuple[RowSource, str | None]:
    """Rows of several files as one, without the empty ones, and the split that is still to be taken."""
    parts: list[RowSource] = []
    split = options.split
    for number, file in enumerate(files):
        try:
            part, split = _open(file, options)
            parts.append(one_caption_per_row(in_layout(part), options))
        except NoRowsError:
            if not parts and number == len(files) - 1:
                raise
    return join_rows(path, parts, options), split


def _open(path: Path, options: RowOptions) -> tuple[RowSource, str | None]:
    """Rows, and the split that is still to be taken of them."""
    split = options.split
    try:
        if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
            return _open_saved(path, split), None
        if path.is_dir():
            return _open_folder(path, options), split
        file = copied_stream(path)
        with open(file, "rb") as opened:
            start = opened.read(4096)
    except FileNotFoundError:
        raise InputError(Setting("path", path), ": no such file") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # also a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise InputError(Setting("path", f"{str(path)[:80]}"), f" cannot be read: {reason}") from None
    if not start:
        raise NoRowsError(f"{path} is empty (0 bytes); expected {EXPECTED}")
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    for known in FORMATS:
        if suffix in known.suffixes or (not suffix and start.lstrip().startswith(known.starts)):
            source = known.open(path, file, options)
            if source.format in ("", "rows"):
                source.format = known.name
            elif source.format != known.name:
                source.format = f"{known.name}, {source.format}"
            return source, split
    expected = f" has an unknown format; expected {EXPECTED}"
    if suffix in (".xlsx", ".xls", ".ods"):
        expected += "; export its table as CSV"
    elif suffix in IMAGE_SUFFIXES:
        expected += f'; a photo is part of a row, {{"image": "{path.name}", …}}, or goes to score --photo'
    raise InputError(Setting("path", path), expected)


def _of_split(source: RowSource, split: str) -> RowSource:
    column = next(iter(named_columns(("split",), source.columns)), None)
    if column is None:
        raise InputError(Setting("split", split), f": {source.path} has no split, and no column of that name")
    (splits,) = source.cells(column)
    numbers = [number for number, cell in enumerate(splits) if cell == split]
    if not numbers:
        names = ", ".join(map(str, dict.fromkeys(splits)))
        raise InputError(Setting("split", split), f": {source.path} has the splits {names:.300}")
    return source.only(numbers)


def _open_folder(path: Path, options: RowOptions) -> RowSource:
    """Parts of one table or data set, photos with texts, or pages, also in the folders inside."""
    files = sorted(name for name in os.listdir(path) if name[0] not in "._" and (path / name).is_file())
    for suffixes in _PARTS:
        parts = [path / name for name in files if name.lower().endswith(suffixes)]
        others = {Path(name).suffix.lower() for name in files} - {*suffixes, ".md"}
        if parts and others <= _BESIDE_PARTS.get(suffixes, set()):
            return _open_parts(path, parts, options)[0]
    names = _names_within(path)
    samples = samples_of(names)
    texts = [sample for sample in samples if sample.has_text]
    if any(sample.photos for sample in texts) or (texts and all(map(_is_text, names))):
        source = open_photo_folder(path, samples, options)
        for page in [name for name in files if name.lower().endswith((".html", ".htm"))][:1]:
            why = "the captions are in the texts beside the photos"
            source.notes = [*source.notes, f"{page} in {path} is not read: {why}"]
        return source
    for name in ("metadata.jsonl", "metadata.csv", "metadata.parquet"):
        if name in files:
            return _open(path / name, RowOptions())[0]
    photos = [sample for sample in samples if sample.photos]
    if any(".json" in sample.texts for sample in photos):
        return open_photo_folder(path, samples, options)
    if page_names(path):
        try:
            return open_pages(path, path, options.images)
        except InputError as error:
            beside = ""
            if photos:
                beside = f"; no text is beside any of the {len(photos):,} photos (dog.jpg and dog.txt)"
            raise InputError(*error.parts, beside) from None
    suffixes_found = Counter(os.path.splitext(name)[1].lower() for name in names)
    unread = "".join(
        f" ({suffixes_found[kind]:,} {kind} cannot be read)"
        for kind in _OTHER_PHOTOS
        if kind in suffixes_found
    )
    hint = ""
    if photos and texts:  # in folders of their own; not every command has an option for the photos
        text_folder, photo_folder = (
            path / os.path.dirname(name) for name in (texts[0].key, photos[0].photos[0])
        )
        hint = f"; to pair them, read the texts in {text_folder} with {photo_folder} as the folder of images"
    raise InputError(
        Setting("path", path),
        f" is a folder with {len(photos):,} photos{unread} and no saved data set; expected {EXPECTED}; or "
        "photos with a text file beside each (dog.jpg and dog.txt, one caption per file) or metadata.csv",
        hint,
    )


def _is_text(name: str) -> bool:
    return name.lower().endswith(TEXT_SUFFIXES)


def _names_within(path: Path) -> list[str]:
    """Files in a folder and the folders in it, sorted, relative to it; hidden ones aside."""
    names: list[str] = []
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if is_visible(name)]
        within = Path(folder).relative_to(path)
        names += (str(within / name) for name in files if name[0] not in "._")
    return sorted(name for name in names if (path / name).is_file())


def _open_saved(path: Path, split: str | None) -> RowSource:
    import datasets
    import pyarrow as pa

    try:
        loaded = datasets.load_from_disk(str(path))
    except Exception as error:  # datasets raises whatever json, Arrow or the file system do
        raise InputError(f"{path} is a saved data set that cannot be loaded: {error}") from error
    if isinstance(loaded, datasets.Dataset):  # without splits
        loaded = {None: loaded}
    if split is None and len(loaded) == 1:
        (split,) = loaded
    if split not in loaded:
        given = Setting("split") if split is None else Setting("split", split)
        splits = ", ".join(filter(None, loaded)) or "(none)"
        raise InputError(given, f": {path} has the splits {splits}; choose one")
    dataset = loaded[split].with_format("arrow")
    n_rows, schema = len(dataset), dataset.features.arrow_schema

    def tables(size: int, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        names = columns or schema.names
        part, kinds = dataset.select_columns([*names]), pa.schema([schema.field(name) for name in names])
        for first in range(0, n_rows, size):
            table = part[first : min(first + size, n_rows)].cast(kinds)
            _checked_texts(path, table)
            yield table

    read = read_tables(tables, dataset.data.nbytes / max(dataset.data.num_rows, 1))
    return RowSource(
        path,
        schema.names,
        n_rows,
        read,
        arrow_schema=schema,
        format="saved data set",
        lists=_list_columns(schema),
    )


def _open_parquet(path: Path, file: Path) -> RowSource:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, pre_buffer=False) as opened:
            about, schema = opened.metadata, opened.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: names that are not UTF-8
        reason = looks_like(file) or error
        raise InputError(f"{path} is not a Parquet file that can be read: {reason}") from None
    n_rows = about.num_rows
    n_bytes = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    limit = unpacked_limit(file.stat().st_size)
    if max(n_bytes, ROW_IN_MEMORY * n_rows) > limit:
        raise InputError(f"{path} {UNPACKS_TOO_FAR}")
    try:
        _check_repeated(path, file, about, limit)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is cut short or damaged: {error}") from None

    def tables(size: int, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        try:
            with pq.ParquetFile(file, pre_buffer=False) as opened:
                for batch in opened.iter_batches(batch_size=size, columns=columns):
                    table = pa.Table.from_batches([batch])
                    _checked_texts(path, table)
                    yield table
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is cut short or damaged: {error}") from None

    read = read_tables(tables, n_bytes / max(n_rows, 1))
    lists = _list_columns(schema)
    return RowSource(path, schema.names, n_rows, read, arrow_schema=schema, format="parquet", lists=lists)


def _check_repeated(path: Path, file: Path, about: pq.FileMetaData, limit: int) -> None:
    """Refuse a file in which texts that are stored once are, as cells of many rows, larger than the limit."""
    import pyarrow.parquet as pq

    groups: dict[int, list[str]] = {}
    for group in range(about.num_row_groups):
        for index in range(about.num_columns):
            chunk, kind = about.row_group(group).column(index), about.schema.column(index).logical_type.type
            if kind == "STRING" and chunk.has_dictionary_page and chunk.total_uncompressed_size > 2**20:
                groups.setdefault(group, []).append(chunk.path_in_schema)
    unpacked = 0
    for group, columns in groups.items():
        with pq.ParquetFile(file, pre_buffer=False, read_dictionary=columns) as opened:
            unpacked += _checked_texts(path, opened.read_row_group(group, columns))
        if unpacked > limit:
            raise InputError(f"{path} {UNPACKS_TOO_FAR}")


def _checked_texts(path: Path, table: pa.Table) -> int:
    """Bytes of the texts in a table; an InputError that names the column of one beyond `ROW_BYTES`."""
    import pyarrow.compute as pc

    n_bytes, longest = 0, ROW_BYTES.bytes
    for name in table.column_names:
        for cells in table[name].chunks:
            lengths = _text_lengths(cells)
            if lengths is not None and len(lengths):
                n_bytes += pc.sum(lengths).as_py() or 0
                if (pc.max(lengths).as_py() or 0) > longest:
                    raise InputError(f"{path}: a text of the column {name!r:.60} is {longer_than(ROW_BYTES)}")
    return n_bytes


def _text_lengths(cells: pa.Array) -> pa.Array | None:
    """Bytes of each text of a column, or in its lists; None where cells are something else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = cells.type
    if pa.types.is_dictionary(kind):
        lengths = _text_lengths(cells.dictionary)
        return None if lengths is None else lengths.take(cells.indices)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _text_lengths(cells.flatten())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.binary_length(cells)
    return None


def _list_columns(schema: pa.Schema) -> frozenset[str]:
    return frozenset(field.name for field in schema if "list" in str(field.type).partition("<")[0])


def check_no_tokens(source: RowSource, *columns: str) -> None:
    for column in columns:
        if column not in source.lists:
            continue
        if are_tokens(_lists_in(source, column)):
            first = next(cell for cell in _lists_in(source, column) if cell)
            raise layout_error(
                source.path,
                f"{source.path}: the lists in {column!r} hold single words, such as {first!r:.60}, and are "
                "no lists of captions; join the tokens of a caption to one text",
            )


def _lists_in(source: RowSource, column: str) -> Iterator[object]:
    """Cells of a column, read as they are asked for; written lists as lists, other texts as None."""
    for chunk in source.chunks(CHUNK_ROWS, [column]):
        for cell in chunk.values(column):
            if source.cells_are_text:
                yield written_list(cell) if str(cell).lstrip().startswith("[") else None
            else:
                yield cell


def one_caption_per_row(source: RowSource, options: RowOptions = RowOptions()) -> RowSource:
    """Rows with one caption each, of rows with lists of captions; a cell of a table may be a written one."""
    column = find_candidate_column(source.columns, options.candidate_column)
    references: tuple[str, ...] = ()
    with suppress(InputError):
        references = find_reference_columns(source.columns, options.references_column)
    check_no_tokens(source, *filter(None, (column, *references)))
    if column not in source.lists:
        return source
    n_rows, n_lists = 0, 0
    faults: dict[int, InputError] = {}
    places: list[str] = []
    for number, (_, row) in enumerate(_numbered_rows(source)):
        captions = listed_captions(row.get(column), source.cells_are_text)
        if number in source.faults:
            faults[n_rows] = source.faults[number]
        elif captions is None and source.cells_are_text and _BROKEN_LIST.fullmatch(row.get(column) or ""):
            expected = 'expected a JSON list such as ["A cat.", "A small cat."], or one caption'
            problem = f"the cell holds {row[column]!r:.60}; {expected}"
            faults[n_rows] = InputError(problem, field="candidate")
        n_lists += captions is not None
        n_rows += len(captions or "1")
        if source.places:
            places += [source.places[number]] * len(captions or "1")
    if not n_lists:
        return replace(source, faults={**source.faults, **faults})

    def rows() -> Iterator[tuple[int | None, Row]]:
        for line, row in _numbered_rows(source):
            captions = listed_captions(row.get(column), source.cells_are_text)
            if captions is None:
                yield line, row
            for caption in captions or ():
                yield line, {**row, column: caption}

    note = f"{n_lists:,} lists of captions are read, a row per caption"
    return replace(
        source,
        n_rows=n_rows,
        read=read_dicts(rows),
        arrow_schema=None,
        notes=[*source.notes, note],
        faults=faults,
        places=places,
        lists=source.lists - {column},
    )


def in_layout(source: RowSource) -> RowSource:
    """Rows of a table whose rows are in a layout of lines, as its first one is; other rows as they are."""
    if source.arrow_schema is None and not source.cells_are_text:
        return source  # JSON, whose layouts are known where it is parsed
    rows_of = line_reader()
    (first,) = next(source.chunks(1)).dicts()
    if rows_of(first) is None:
        return source
    names: dict[str, None] = {}
    lists: set[str] = set()
    n_rows = 0
    for _, row in _numbered_rows(source):
        for part in rows_of(row) or [row]:
            n_rows += 1
            names.update(dict.fromkeys(part))
            lists.update(name for name, cell in part.items() if isinstance(cell, list))

    def rows() -> Iterator[tuple[int | None, Row]]:
        for line, row in _numbered_rows(source):
            yield from ((line, part) for part in rows_of(row) or [row])

    return replace(
        source,
        columns=[*names],
        n_rows=n_rows,
        read=read_dicts(rows),
        arrow_schema=None,
        lists=source.lists | lists,
    )


def _numbered_rows(source: RowSource) -> Iterator[tuple[int | None, Row]]:
    """Line, or None, and cells of every row."""
    for chunk in source.chunks(CHUNK_ROWS):
        lines: Sequence[int | None] = chunk.lines or [None] * len(chunk)
        yield from zip(lines, chunk.dicts(), strict=True)


def listed_captions(cell: object, cells_are_text: bool) -> list[str] | None:
    """The captions of a cell that holds a list of them; None for another cell, which stays as it is."""
    if cells_are_text and isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = written_list(cell)
    if isinstance(cell, list) and cell and all(isinstance(text, str | None) for text in cell):
        return cell
    return None


Open = Callable[[Path, Path, RowOptions], RowSource]


def _of_text(read: Callable[[TextFile], RowSource]) -> Open:
    return lambda path, file, options: read(TextFile(path, file))


def _open_page(path: Path, file: Path, options: RowOptions) -> RowSource:
    return open_pages(path, file, options.images)


class Format(NamedTuple):
    """A kind of file, and the function from its path, for errors, file and options to its rows."""

    name: str
    suffixes: tuple[str, ...]
    starts: tuple[bytes, ...]  # of the content of a file without a suffix
    open: Open
    is_written: bool = True  # whether results may be of this kind


FORMATS = (
    Format("jsonl", (".jsonl", ".ndjson"), (), _of_text(open_lines)),
    Format("json", (".json",), (b"{", b"["), _of_text(open_json)),
    Format("csv", (".csv",), (), _of_text(open_csv)),
    Format("tsv", (".tsv",), (), _of_text(open_tsv)),
    Format("text", (".txt", ".token"), (), _of_text(open_text), is_written=False),
    Format("webdataset", (".tar",), (), open_archive, is_written=False),
    Format("zip", (".zip",), (), open_archive, is_written=False),
    Format("parquet", (".parquet",), (b"PAR1",), lambda path, file, options: _open_parquet(path, file)),
    Format("web page", PAGE_SUFFIXES, PAGE_STARTS, _open_page, is_written=False),
)
