"""WebDataset archives: a .tar whose members with one name, up to the first dot, are a photo and its caption.

In: 000.jpg and 000.txt, 000.caption or 000.json (`{"caption": …}`). Out: rows of `__key__`, `image` and
`caption`.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import InputError
from .photo_names import IMAGE_SUFFIXES
from .row_source import CHUNK_BYTES, Chunk, Row, RowSource
from .text_files import ROW_BYTES, decode_json, longer_than


def open_tar(path: Path, file: Path) -> RowSource:
    """Rows of an archive; a sample that lacks photo or caption is a row at fault. `file` is what is read."""
    import pyarrow as pa

    photo = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("__key__", pa.string()), ("image", photo), ("caption", pa.string())])
    faults: dict[int, InputError] = {}
    places: list[str] = []
    for key, sample in _samples(path, file, with_photos=False):
        for name, what in (("image", "photo"), ("caption", "caption")):
            if name not in sample:
                field = "candidate" if what == "caption" else "image"
                faults[len(places)] = InputError(f"the sample {key!r:.80} has no {what}", field=field)
        places.append(f"{path}, sample {key}")

    def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
        names = [*(columns or schema.names)]
        start, rows, n_bytes = 0, [], 0
        for number, (key, sample) in enumerate(_samples(path, file, with_photos="image" in names)):
            rows.append({"__key__": key, **sample})
            n_bytes += len((sample.get("image") or {}).get("bytes") or b"")
            if len(rows) == size or n_bytes > CHUNK_BYTES or number == len(places) - 1:
                yield Chunk(start, None, table=pa.Table.from_pylist(rows, schema).select(names))
                start, rows, n_bytes = start + len(rows), [], 0

    return RowSource(path, schema.names, len(places), read, arrow_schema=schema, faults=faults, places=places)


def _samples(path: Path, file: Path, *, with_photos: bool) -> Iterator[tuple[str, Row]]:
    """Key and cells of each sample, without the bytes of photos if they are not wanted."""
    try:
        with tarfile.open(file, "r:") as archive:
            samples: dict[str, list[tarfile.TarInfo]] = {}
            for item in archive:
                if item.isfile() and not os.path.basename(item.name).startswith("."):
                    samples.setdefault(_key(item.name), []).append(item)
            for key, parts in samples.items():
                sample: Row = {}
                for member in parts:
                    suffix = os.path.splitext(member.name)[1].lower()
                    if suffix in IMAGE_SUFFIXES and "image" not in sample:
                        name = os.path.basename(member.name)
                        photo = _content(archive, member, path) if with_photos else None
                        sample["image"] = {"bytes": photo, "path": name}
                    elif suffix in (".txt", ".caption"):
                        sample["caption"] = _content(archive, member, path).decode().strip()
                    elif suffix == ".json" and "caption" not in sample:
                        about = decode_json(_content(archive, member, path).decode())
                        if isinstance(about, dict) and isinstance(about.get("caption"), str):
                            sample["caption"] = about["caption"]
                yield key, sample
    except InputError:
        raise
    except (tarfile.TarError, OSError, EOFError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a WebDataset archive (.tar) that can be read: {error}") from None


def _key(name: str) -> str:
    folder, base = os.path.split(name)
    return os.path.join(folder, base.partition(".")[0])


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    if member.size > ROW_BYTES.bytes:
        raise InputError(f"{path}, {member.name}: {longer_than(ROW_BYTES)}")
    opened = archive.extractfile(member)
    return opened.read() if opened else b""
