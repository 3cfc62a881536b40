"""Photos with texts of the same name: in a folder and the folders in it, a WebDataset .tar, or a .zip.

In: dog.jpg with dog.txt, dog.jpg.txt, dog.caption or dog.json (`{"caption": …}`). Each text file is one
caption, however many lines it has; a list in JSON is several. In a .tar, names are the same up to the first
dot, or up to the last where that leaves one photo each. Out: rows of `image` and `caption`; of archives, with
`__key__`.
"""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ..errors import InputError, Setting
from ..options import RowOptions
from .photo_names import composed, has_image_suffix
from .row_source import CHUNK_BYTES, Chunk, Row, RowSource, rows_in_memory
from .text_files import ROW_BYTES, UNPACKS_TOO_FAR, TextFile, longer_than, looks_like, unpacked_limit

TEXT_SUFFIXES = (".txt", ".caption")
_KINDS = (*TEXT_SUFFIXES, ".json")


@dataclass
class Sample:
    """Photos and texts of one name: suffix → texts."""

    key: str
    photos: list[str] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str) -> None:
        suffix = os.path.splitext(name)[1].lower()
        if has_image_suffix(name):
            self.photos.append(name)
        elif suffix in _KINDS:
            self.texts.setdefault(suffix, []).append(name)

    @property
    def has_text(self) -> bool:
        """Whether there is a text beside what JSON may say."""
        return any(suffix in self.texts for suffix in TEXT_SUFFIXES)


def samples_of(names: Sequence[str], *, up_to_first_dot: bool = False) -> list[Sample]:
    photos = {name for name in names if has_image_suffix(name)}
    samples: dict[str, Sample] = {}
    for name in names:
        stem = os.path.splitext(name)[0]
        if name not in photos and stem in photos:
            stem = os.path.splitext(stem)[0]
        stem = composed(stem)
        samples.setdefault(stem, Sample(stem)).add(name)
    if not up_to_first_dot:
        return [*samples.values()]
    by_key: dict[str, list[Sample]] = {}
    for sample in samples.values():
        folder, base = os.path.split(sample.key)
        by_key.setdefault(os.path.join(folder, base.partition(".")[0]), []).append(sample)
    found = []
    for key, parts in by_key.items():
        several = len([part for part in parts if part.photos]) > 1
        if several and any(part.photos and part.texts for part in parts):
            found += parts
            continue
        whole = Sample(key)
        for part in parts:
            for name in (*part.photos, *(text for texts in part.texts.values() for text in texts)):
                whole.add(name)
        found.append(whole)
    return found


class Captions:
    """The captions of samples, read once.

    Attributes:
        rows: Sample and caption of each row, or None where it has none.
    """

    def __init__(
        self, path: Path, samples: Sequence[Sample], read: Callable[[str], bytes], chosen: str | None
    ):
        self._path, self._read, self._chosen = path, read, chosen
        self.column = chosen or "caption"
        self.rows: list[tuple[Sample, str | None]] = []
        self._long: list[str] = []
        self._unread: list[str] = []
        for sample in samples:
            for names in (sample.photos, *sample.texts.values()):
                self._check_one(sample, names)
            captions = self._captions(sample)
            self.rows += [(sample, caption) for caption in captions]
            if not captions:
                self.rows.append((sample, None))
        self.notes: list[str] = []
        if self._long:
            n = len(self._long)
            self.notes.append(f"{n:,} texts have several lines; each is one caption (first: {self._long[0]})")
        if self._unread:
            self.notes.append(f"{len(self._unread):,} other captions are not read (first: {self._unread[0]})")

    def _check_one(self, sample: Sample, names: Sequence[str]) -> None:
        if len(names) > 1:
            what = "photos" if has_image_suffix(names[0]) else "texts"
            both = " and ".join(names[:2])
            raise InputError(
                f"{self._path}: the sample {sample.key!r:.80} has two {what}, {both}: rename one"
            )

    def _captions(self, sample: Sample) -> list[str]:
        texts: dict[str, str] = {}
        for suffix in TEXT_SUFFIXES:
            for name in sample.texts.get(suffix, ()):
                file = _Member(self._path / name, self._read(name))
                texts[suffix[1:]] = file.text().strip().replace("\r\n", "\n").replace("\r", "\n")
        if len(set(texts.values())) > 1 and self._chosen is None:
            raise InputError(
                Setting("candidate_column"),
                f": {self._path} has two texts of {sample.key}, .txt and .caption, that differ; choose txt "
                "or caption, or keep one of them",
            )
        of_json = [text for name in sample.texts.get(".json", ()) for text in self._of_json(name)]
        if not texts:
            return of_json
        text = texts.get(self._chosen or next(iter(texts)))
        others = [*texts.values(), *of_json]
        if any(other != text for other in others):
            self._unread.append(f"of {self._path / sample.key}")
        if text and "\n" in text:
            self._long.append(str(self._path / sample.key))
        return [] if text is None else [text]

    def _of_json(self, name: str) -> list[str]:
        about = _Member(self._path / name, self._read(name)).json_value()
        found = about.get("caption") if isinstance(about, dict) else None
        listed = [found] if isinstance(found, str) else found
        if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
            return []
        return listed


class _Member(TextFile):
    """A text of which the bytes were read."""

    def __init__(self, path: Path, content: bytes):
        super().__init__(path)
        self._content = content

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        yield io.BufferedReader(cast(io.RawIOBase, io.BytesIO(self._content)))


def open_photo_folder(path: Path, samples: Sequence[Sample], options: RowOptions) -> RowSource:
    """Rows of the photos of a folder, or of its texts where it holds no photos; names are relative to it."""
    with_photos = [sample for sample in samples if sample.photos]
    unread = [sample for sample in samples if not sample.photos and sample.has_text]
    captions = Captions(
        path, with_photos or unread, lambda name: (path / name).read_bytes(), _chosen(options)
    )
    rows: list[Row] = []
    places: list[str] = []
    faults: dict[int, InputError] = {}
    for sample, caption in captions.rows:
        texts = [text for names in sample.texts.values() for text in names]
        photo = sample.photos[0] if sample.photos else sample.key
        if caption is None:
            beside = f"{os.path.basename(sample.key)}.txt"
            problem = f"there is no {beside} beside it, which holds its caption"
            faults[len(rows)] = InputError(problem, field="candidate")
        rows.append({"image": photo, captions.column: caption})
        places.append(str(path / (texts[0] if texts and caption is not None else photo)))
    notes = captions.notes
    if with_photos and unread:
        name = f"{unread[0].key}{next(iter(unread[0].texts))}"
        notes.append(f"{name} in {path} is not read: there is no photo of the same name")
    return rows_in_memory(
        rows, places, path, faults=faults, notes=notes, format="folder of photos with texts"
    )


def _chosen(options: RowOptions) -> str | None:
    return options.candidate_column if options.candidate_column in ("txt", "caption") else None


def open_archive(path: Path, file: Path, options: RowOptions) -> RowSource:
    """Rows of an archive; a sample that lacks photo or caption is a row at fault. `file` is what is read."""
    import pyarrow as pa

    with _opened(path, file) as archive:
        every = samples_of(archive.names, up_to_first_dot=archive.is_tar)
        samples = [sample for sample in every if sample.photos or sample.has_text]
        if not any(sample.photos for sample in samples):
            raise InputError(f"{path} holds no photos with texts; unpack it, and name the file in it to read")
        captions = Captions(path, samples, archive.read, _chosen(options))
    photo = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    column = captions.column
    schema = pa.schema([("__key__", pa.string()), ("image", photo), (column, pa.string())])
    faults: dict[int, InputError] = {}
    places: list[str] = []
    for sample, caption in captions.rows:
        for value, name, what in ((sample.photos, "image", "photo"), (caption, "candidate", "caption")):
            if value is None or value == []:
                faults[len(places)] = InputError(f"the sample {sample.key!r:.80} has no {what}", field=name)
        places.append(f"{path}, sample {sample.key}")

    def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
        names = [*(columns or schema.names)]
        start, rows, n_bytes = 0, list[Row](), 0
        with _opened(path, file) as archive:
            for number, (sample, caption) in enumerate(captions.rows):
                row: Row = {"__key__": sample.key, column: caption}
                for name in sample.photos:
                    content = archive.read(name) if "image" in names else None
                    row["image"] = {"bytes": content, "path": name}
                    n_bytes += len(content or b"")
                rows.append(row)
                if len(rows) == size or n_bytes > CHUNK_BYTES or number == len(places) - 1:
                    yield Chunk(start, None, table=pa.Table.from_pylist(rows, schema).select(names))
                    start, rows, n_bytes = start + len(rows), [], 0

    return RowSource(
        path,
        schema.names,
        len(places),
        read,
        arrow_schema=schema,
        notes=captions.notes,
        faults=faults,
        places=places,
    )


_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError)


class _Archive:
    """Files of a .tar or .zip, in its order; a name may come twice."""

    def __init__(self, path: Path, file: Path):
        self.path, self.is_tar = path, not zipfile.is_zipfile(file)
        self.archive: tarfile.TarFile | zipfile.ZipFile
        if self.is_tar:
            self.archive = tar = tarfile.open(file, "r:")
            members = {item.name: item for item in tar if item.isfile()}
            sizes = [(item.name, item.size) for item in tar.getmembers() if item.isfile()]
            self._content = lambda name: (tar.extractfile(members[name]) or io.BytesIO()).read()
        else:
            self.archive = packed = zipfile.ZipFile(file)
            sizes = [(item.filename, item.file_size) for item in packed.infolist() if not item.is_dir()]
            self._content = packed.read
            if sum(size for _, size in sizes) > unpacked_limit(file.stat().st_size):
                raise InputError(f"{path} {UNPACKS_TOO_FAR}")
        self.names = [name for name, _ in sizes if is_visible(name)]
        self._sizes = dict(sizes)

    def read(self, name: str) -> bytes:
        if self._sizes[name] > ROW_BYTES.bytes:
            raise InputError(f"{self.path}, {name}: {longer_than(ROW_BYTES)}")
        return self._content(name)


@contextmanager
def _opened(path: Path, file: Path) -> Iterator[_Archive]:
    """An archive; what is wrong with it becomes an error that names it."""
    try:
        archive = _Archive(path, file)
        with archive.archive:
            yield archive
    except InputError:
        raise
    except _DAMAGE as error:  # RuntimeError: a zip that asks for a password
        kind = "zip" if path.suffix.lower() == ".zip" else "WebDataset"
        reason = looks_like(file, may_be_zip=True) or error
        raise InputError(f"{path} is not a {kind} archive that can be read: {reason}") from None


def is_visible(name: str) -> bool:
    """Whether neither a file nor a folder of its path is hidden, or one that macOS adds."""
    parts = name.split("/")
    return "__MACOSX" not in parts and not any(part[:1] == "." and part.strip(".") for part in parts)
