"""The base of the loading scripts in `datasets_scripts/`: official annotation files and photos in, rows out.

A script says which files its benchmark has, what is in them, and which photos belong to the rows; this module
finds, checks and downloads them. Only `datasets` and the standard library are imported.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import re
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import datasets
from datasets import Features, Value

from ...errors import CapscoreError, InputError, Part, ResultWriteError, Setting, warn
from .annotation_files import (
    AnnotationError,
    AnnotationFile,
    AnnotationSource,
    KeptReadings,
    MissingAnnotations,
)

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff"}

# A published file has a handful of garbled captions at most; one that was saved in another encoding has many.
_MOST_GARBLED = 0.01
# what Windows-1252 makes of the bytes for which Latin-1 has control characters
_WINDOWS_1252 = {
    ord(character): byte
    for byte in range(0x80, 0xA0)
    if (character := bytes([byte]).decode("cp1252", errors="ignore"))
}
# what `datasets` leaves in a folder that is also its cache
_CACHE_FILES = re.compile(r".*\.(lock|arrow)|dataset_info\.json|warnings\.json|LICENSE")
# beside prepared rows: what a person was told when they were made
_WARNINGS = "warnings.json"


class BenchmarkWarning(UserWarning):
    """A benchmark can be used, but is not all that was published: rows or photos are missing."""


class MissingImages(CapscoreError, FileNotFoundError):
    """Photos of a benchmark are not where they should be."""


@dataclass(frozen=True)
class ImageFolders:
    """Where a benchmark's photos lie.

    Args:
        folders: under `data_dir`, in the order in which they are looked through; "." is `data_dir` itself.
        source: where a person gets the photos, in words.
    """

    folders: tuple[str, ...]
    source: str


@dataclass
class BenchmarkConfig(datasets.BuilderConfig):
    """A configuration of a benchmark.

    Args:
        language: language code of the captions; "" where rows differ.
        image_dir: folder of the photos, if it is not one of the benchmark's own under `data_dir`.
        images: None takes the photos that are there, with None for the others; True demands them all; False
            leaves all out.
    """

    language: str = ""
    image_dir: str | None = None
    images: bool | None = None

    def options(self) -> dict[str, Any]:
        """What only this benchmark's configurations have, with defaults."""
        common = {known.name for known in fields(BenchmarkConfig)}
        return {known.name: known.default for known in fields(self) if known.name not in common}

    def create_config_id(self, config_kwargs: dict, custom_features: Features | None = None) -> str:
        """Name of the cache folder; another one once a file under `data_dir` or `image_dir` has changed."""
        config_kwargs = dict(config_kwargs)
        for name in ("data_dir", "image_dir"):
            if config_kwargs.get(name):
                folder = Path(os.path.abspath(os.path.expanduser(config_kwargs[name])))
                config_kwargs[name] = str(folder)
                config_kwargs[f"{name}_state"] = _state(folder)
        return super().create_config_id(config_kwargs, custom_features=custom_features)


def _state(folder: Path) -> str:
    """A digest of names, sizes and times of the files in a folder; links are followed.

    Of photos names are enough: prepared rows have their paths, not what is in them.
    """
    digest = hashlib.sha256()
    photos = tuple(IMAGE_SUFFIXES)
    folders, seen = [str(folder)], set()
    while folders:
        directory = folders.pop()
        try:
            status = os.stat(directory)
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue  # not there, or not ours to read
        if (status.st_dev, status.st_ino) in seen:
            continue  # a link to a folder that was looked through
        seen.add((status.st_dev, status.st_ino))
        files = []
        for entry in entries:
            if entry.is_dir():
                folders += [] if entry.name.startswith(".") else [entry.path]
            elif not _is_file(entry) or _CACHE_FILES.fullmatch(entry.name):
                continue
            elif entry.name.lower().endswith(photos):
                files.append(entry.name)
            else:
                with contextlib.suppress(FileNotFoundError):  # gone in the meantime
                    status = os.stat(entry.path)
                    files.append(f"{entry.name}\0{status.st_size}\0{status.st_mtime_ns}")
        if files:
            about = "\0".join([os.path.relpath(directory, folder), *files, ""])
            digest.update(about.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file, or a link to one."""
    return os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()


def garbled(text: str) -> bool:
    """Whether a text was written in one encoding and read in another.

    UTF-8 that was read as Latin-1 or Windows-1252 is UTF-8 again if it is turned back into bytes, which
    other text hardly ever is; characters that an encoding lacks became "?" or U+FFFD.

    >>> garbled("un cafÃ© Ã\xa0 Paris"), garbled("un café à Paris"), garbled("?????? ?? ????")
    (True, False, True)
    """
    if text.isascii():
        return 2 * text.count("?") > len(text)
    if "\ufffd" in text:
        return True
    try:
        content = text.translate(_WINDOWS_1252).encode("latin-1")
    except UnicodeEncodeError:
        return False
    # blanks in a row became one, and the second byte of some letters looks like a blank
    decoded = content.decode("utf-8", errors="replace")
    broken = decoded.count("\ufffd")
    return sum(not character.isascii() for character in decoded) - broken > broken


class CaptionBenchmark(datasets.GeneratorBasedBuilder):
    """Base of a benchmark's loading script.

    A script is a class with VERSION, BUILDER_CONFIGS, DESCRIPTION, CITATION, HOMEPAGE, LICENSE, FILES,
    IMAGES, COUNTS, `fields` and `rows`; nothing else is needed.

    Attributes:
        FILES: name → annotation file.
        IMAGES: where photos lie.
        SPLITS: names of the splits of a configuration; a method `splits` may say otherwise.
        COUNTS: configuration → split → what is counted → published number; "rows" is always counted.
    """

    BUILDER_CONFIG_CLASS = BenchmarkConfig
    DESCRIPTION: ClassVar[str] = ""
    CITATION: ClassVar[str] = ""
    HOMEPAGE: ClassVar[str] = ""
    LICENSE: ClassVar[str] = ""
    FILES: ClassVar[Mapping[str, AnnotationFile]] = {}
    IMAGES: ClassVar[ImageFolders]
    SPLITS: ClassVar[tuple[str, ...]] = ("test",)
    COUNTS: ClassVar[Mapping[str, Mapping[str, Mapping[str, int]]]] = {}
    # what other builders of the same files have read
    kept_readings: KeptReadings | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for config in cls.BUILDER_CONFIGS:
            config.version = datasets.Version(str(cls.VERSION))

    # --------------------------------------------------------- what a script says of itself

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Name → feature of all columns but "image" and "image_id", which come first."""

    @abstractmethod
    def rows(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """(key, row) of every row, in the official order. A key is unique in the split.

        A row has "image_id", the photo's file name; where photos have other names or lie in folders,
        "image" is a list of names to look for. A photo that an annotation file itself holds is there as
        `datasets.Image` encodes it, {"path": its name, "bytes": …}. Files are had from `self.file`.
        """

    def splits(self) -> tuple[str, ...]:
        """The splits of this configuration that can be read from the files there are."""
        return self.SPLITS

    def published(self, split: str) -> Mapping[str, int]:
        """Published counts of a split; a script says otherwise where an option chooses other rows."""
        return self.COUNTS.get(self.config.name, {}).get(split, {})

    def count(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """What a published table counts in a split's rows, photos left out."""
        return {"rows": len(rows), "images": len({row["image_id"] for row in rows if "image_id" in row})}

    def warn(self, message: str) -> None:
        """Say that the benchmark can be used, but is not all that was published.

        It is said again whenever the prepared rows are loaded.
        """
        self._said.append(message)
        warn(BenchmarkWarning(message))

    @cached_property
    def _said(self) -> list[str]:
        return []

    # ------------------------------------------------------------------------------ files

    @property
    def data_dir(self) -> Path | None:
        """The folder that the user named."""
        given = self.config.data_dir
        return None if not given else Path(os.path.abspath(os.path.expanduser(given)))

    def find(self, name: str) -> AnnotationSource | None:
        """An annotation file under `data_dir`, or None if it is not there."""
        if self.data_dir is None:
            return None
        for place in self.FILES[name].names:
            path, _, member = place.format(config=self.config.name).partition("::")
            if os.path.isfile(self.data_dir / path):
                return AnnotationSource(self.data_dir / path, member, self._note, self.kept_readings)
        return None

    def shards(self, name: str) -> list[AnnotationSource]:
        """The files under `data_dir` that hold an annotation file in parts, in order; [] if there are none.

        Its names are patterns, `"data/test-*.parquet"`; the first that matches anything is taken.

        Raises:
            AnnotationError: "…-00002-of-00005…" is there, but not all five are.
        """
        if self.data_dir is None:
            return []
        for place in self.FILES[name].names:
            paths = sorted(self.data_dir.glob(place.format(config=self.config.name)))
            if not paths:
                continue
            parts = {match[1] for path in paths if (match := re.search(r"-of-(\d+)", path.name))}
            if parts and parts != {f"{len(paths):05d}"}:
                raise AnnotationError(
                    f"{self.name} ({self.config.name}): there are {len(paths)} files {place} under data_dir="
                    f"{self.data_dir}; by their names there should be {' or '.join(sorted(parts))}"
                )
            return [AnnotationSource(path, opened=self._note, kept=self.kept_readings) for path in paths]
        return []

    @cached_property
    def files_read(self) -> dict[Path, AnnotationSource]:
        """The annotation files that have been read so far, by their path."""
        return {}

    def _note(self, source: AnnotationSource) -> None:
        self.files_read[source.path] = source

    def file(self, name: str) -> AnnotationSource:
        """An annotation file: the one under `data_dir`, else downloaded and checked.

        Raises:
            MissingAnnotations: it is not there and cannot be downloaded; says where it is looked for and had.
        """
        found = self.find(name)
        if found is not None:
            return found
        known = self.FILES[name]
        if known.url and self.data_dir is None:
            return self._download(known)
        raise MissingAnnotations(*self._absence(name))

    def _absence(self, name: str) -> tuple[Part, ...]:
        known = self.FILES[name]
        places = " or ".join(place.format(config=self.config.name) for place in known.names)
        where: tuple[Part, ...]
        given = Setting("data_dir", self.data_dir)
        if self.data_dir is None:
            where = ("no ", Setting("data_dir"), " was given")
        elif os.path.isdir(self.data_dir):
            where = ("not found under ", given, self._there(known))
        else:
            where = (given, " is not a folder")
        source = known.source or self.HOMEPAGE
        return (f"{self.name} ({self.config.name}) reads {places}: ", *where, f". Get it from {source}")

    def _there(self, known: AnnotationFile) -> str:
        """What is there instead of a file: something else of its name, a similar name, or anything."""
        assert self.data_dir is not None
        held: list[str] = []
        for place in known.names:
            path = self.data_dir / place.format(config=self.config.name).partition("::")[0]
            if os.path.isdir(path) or os.path.islink(path):
                return f"; {path} is {'a folder' if os.path.isdir(path) else 'a link to nothing'}"
            try:
                names = sorted(os.listdir(path.parent))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                return f"; {path.parent} cannot be read ({error.strerror})"
            spelt = {name.lower(): name for name in names}
            near = difflib.get_close_matches(path.name.lower(), spelt, n=1, cutoff=0.8)
            if near:
                return f"; there is {path.parent / spelt[near[0]]}"
            held = held or names
        held = held or sorted(os.listdir(self.data_dir))
        return f", which holds {', '.join(held[:4])}{', …' if len(held) > 4 else ''}" if held else ""

    def _download(self, known: AnnotationFile) -> AnnotationSource:
        url = known.url.format(config=self.config.name)
        manager = datasets.DownloadManager(
            dataset_name=self.name,
            download_config=datasets.DownloadConfig(cache_dir=self._cache_downloaded_dir),
            record_checksums=False,
        )
        try:
            path = Path(manager.download(url))
        except (OSError, ValueError, RuntimeError) as error:
            reason = error.__cause__ or error
            raise MissingAnnotations(
                f"{self.name} ({self.config.name}): {url} could not be downloaded ({reason}). Put the file "
                "into a folder and give ",
                Setting("data_dir"),
                f"; it is looked for as {' or '.join(known.names)}",
            ) from error
        member = next((place.partition("::")[2] for place in known.names if "::" in place), "")
        source = AnnotationSource(path, member, self._note, self.kept_readings)
        got = source.sha256() if known.sha256 else source.git_blob()
        if got != (known.sha256 or known.git_blob):
            path.unlink(missing_ok=True)
            kind = "SHA-256" if known.sha256 else "git id"
            raise AnnotationError(
                f"{self.name}: what {url} gave is not the published file (its {kind} differs from "
                f"{(known.sha256 or known.git_blob)[:12]}…); it was removed"
            )
        # that a file is packed is told by its name, which a download does not keep
        named = path.with_name(f"{path.name}-{url.rpartition('/')[2]}")
        if named.name.endswith((".gz", ".tgz", ".tar")):
            if not named.exists():
                beside = named.with_name(f".{named.name}.{os.getpid()}")
                shutil.copyfile(path, beside)
                os.replace(beside, named)
            source = AnnotationSource(named, member, self._note, self.kept_readings)
        return source

    # ------------------------------------------------------------------------------ images

    @cached_property
    def image_roots(self) -> list[Path]:
        """Folders in which photos are looked for, those that exist."""
        if self.config.image_dir:
            folder = Path(os.path.abspath(os.path.expanduser(self.config.image_dir)))
            if not os.path.isdir(folder):
                raise InputError(Setting("image_dir", folder), " is not a folder")
            return [folder]
        if self.data_dir is None:
            return []
        found = [self.data_dir / folder.format(config=self.config.name) for folder in self.IMAGES.folders]
        return [folder for folder in found if os.path.isdir(folder)]

    def find_image(self, names: Sequence[str]) -> str | None:
        """Path of the first of these names that is there."""
        for root in self.image_roots:
            for name in names:
                if name in self._listing(root, name.rpartition("/")[0]):
                    return f"{root}/{name}"
        return None

    def _listing(self, root: Path, folder: str) -> frozenset[str]:
        """Names of the files in a folder, as seen from its root; read once."""
        key = (root, folder)
        if key not in self._listings:
            names: list[str] = []
            # an annotation file has no say over what is read outside the folders of photos
            if not os.path.isabs(folder) and ".." not in folder.split("/"):
                try:
                    with os.scandir(root / folder) as entries:
                        names = [entry.name for entry in entries if _is_file(entry)]
                except (FileNotFoundError, NotADirectoryError, ValueError):
                    pass  # none of its photos is there; no folder has such a name
                except OSError as error:
                    raise MissingImages(
                        f"{self.name} ({self.config.name}): the folder of photos {root / folder} cannot be "
                        f"read ({error.strerror})"
                    ) from error
            self._listings[key] = frozenset(f"{folder}/{name}" if folder else name for name in names)
        return self._listings[key]

    @cached_property
    def _listings(self) -> dict[tuple[Path, str], frozenset[str]]:
        return {}

    # ---------------------------------------------------------------- what `datasets` asks

    @property
    def image_columns(self) -> tuple[str, ...]:
        """The columns that hold photos."""
        return ("image",)

    def _info(self) -> datasets.DatasetInfo:
        if self.BUILDER_CONFIGS and self.config.name not in self.builder_configs:
            raise InputError(
                f"{self.name} needs the name of a configuration: one of {', '.join(self.builder_configs)}"
            )
        columns: dict[str, Any] = {}
        if self.image_columns == ("image",):
            columns = {"image": datasets.Image(), "image_id": Value("string")}
        return datasets.DatasetInfo(
            description=self.DESCRIPTION,
            citation=self.CITATION,
            homepage=self.HOMEPAGE,
            license=self.LICENSE,
            features=Features({**columns, **self.fields()}),
        )

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(name=split, gen_kwargs={"split": split}) for split in self.splits()]

    def examples(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """`checked_rows` with the path of every photo, or None where it is not there."""
        for key, row in self._generate_examples(split):
            for column in self.image_columns:
                row[column] = row[column] and self._unpacked(row[column])
            yield key, row

    def _unpacked(self, photo: Mapping[str, Any]) -> str:
        """Path of a photo; one that an annotation file holds is written out, once, named by its content."""
        content = photo["bytes"]
        if content is None:
            return photo["path"]
        suffix = os.path.splitext(photo["path"] or "")[1]
        suffix = suffix if suffix.lower() in IMAGE_SUFFIXES else ""
        name = f"{hashlib.sha256(content).hexdigest()[:32]}{suffix}"
        path = Path(os.path.expanduser(str(self._cache_dir_root)), self.name, "photos", name[:2], name)
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
                unfinished.write(content)
            os.replace(unfinished.name, path)
        return str(path)

    def _generate_examples(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
        tally = _Tally()
        for key, row in self.checked_rows(split):
            tally.rows += 1
            yield key, self._with_images(row, tally)
        self._report(tally, split)

    def checked_rows(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """`rows`, with every key seen once and no text decoded wrongly; "image" holds names to look for."""
        name = f"{self.name} ({self.config.name}, {split})"
        seen: set[str] = set()
        wrong: list[str] = []
        for key, row in self.rows(split):
            if key in seen:
                raise AnnotationError(f"{name}: the key {key!r} appears twice", file=self._files_read())
            seen.add(key)
            text = row.get("caption") or next(iter(row.get("references") or ("",)))
            if garbled(text):
                wrong.append(text)
            yield key, row
        if not seen:
            raise AnnotationError(f"{name}: there are no rows", file=self._files_read())
        if len(wrong) > max(1, _MOST_GARBLED * len(seen)):
            file, line = self._origin(wrong[0])
            raise AnnotationError(
                f"{name}: {len(wrong):,} of {len(seen):,} captions look as if UTF-8 had been read as another "
                f"encoding and saved again, such as {wrong[0]!r:.80}",
                file=file,
                line=line,
            )

    def _files_read(self) -> str:
        return " or ".join(map(str, self.files_read.values()))

    def _origin(self, text: str) -> tuple[str, int | None]:
        """The file that has a text, and the line; all files that were read, where none has it as it is."""
        for source in list(self.files_read.values()):
            line = source.line_of(text)
            if line is not None:
                return str(source), line
        return self._files_read(), None

    def _with_images(self, row: dict[str, Any], tally: _Tally) -> dict[str, Any]:
        row = dict(row)
        for column in self.image_columns:
            names = row.get(column) or [row["image_id"]]
            if isinstance(names, Mapping):
                tally.add([names["path"]], found=True)
                row[column] = None if self.config.images is False else dict(names)
                continue
            path = None if self.config.images is False else self.find_image(names)
            tally.add(names, path is not None)
            if path is None and self.config.images:
                places = ", ".join(map(str, self.image_roots)) or self._expected_folders()
                raise MissingImages(
                    f"{self.name} ({self.config.name}): no {' or '.join(names)} in {places}; images=True "
                    "asks for all of them, and `capscore data check` lists what is missing. Photos: "
                    f"{self.IMAGES.source}"
                )
            row[column] = None if path is None else {"path": path, "bytes": None}
        return row

    def _expected_folders(self) -> str:
        folders = (folder.format(config=self.config.name) for folder in self.IMAGES.folders)
        return f"data_dir/{{{', '.join(folders)}}} (none of these is there)"

    def _report(self, tally: _Tally, split: str) -> None:
        name = f"{self.name} ({self.config.name}, {split})"
        published = self.published(split).get("rows")
        if published is not None and tally.rows != published:
            self.warn(
                f"{name} has {tally.rows:,} rows where {published:,} were published: is a file cut short?"
            )
        if self.config.images is False or not self.image_roots or not tally.missing:
            return
        there = f"found {self._an_image()}" if self._an_image() else "there are no photos at all"
        photos = len(tally.missing) + len(tally.found)
        which = "not one" if not tally.found else f"{len(tally.found):,}"
        verb = "is" if len(tally.found) < 2 else "are"
        message = (
            f"{name}: {which} of its {photos:,} photos {verb} in {', '.join(map(str, self.image_roots))}; "
            f"missing is {tally.missing_example}, {there}"
        )
        if not tally.found and self.config.image_dir:
            raise MissingImages(f"{message}. images=False loads the annotations alone. {self.IMAGES.source}")
        self.warn(f"{message}. Rows without a photo have None")

    def _an_image(self) -> str:
        """A photo that is there, in a folder of photos or in one within it."""
        for root in self.image_roots:
            for folder in ("", *sorted(entry.name for entry in os.scandir(root) if entry.is_dir())):
                for name in sorted(self._listing(root, folder)):
                    if name.lower().endswith(tuple(IMAGE_SUFFIXES)):
                        return name
        return ""

    def download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        """As in `datasets`; what was said when the rows were prepared is said again when they are found.

        Raises:
            AnnotationError, MissingImages: as `capscore.load_benchmark`; nothing is kept.
            ResultWriteError: the cache cannot be written, or its disk is full.
        """
        self._said.clear()
        try:
            super().download_and_prepare(*args, **kwargs)
        except CapscoreError:
            raise
        except OSError as error:
            raise self._unwritable(error) from error
        kept = Path(self._output_dir, _WARNINGS)
        if not self._said and kept.is_file():
            for message in json.loads(kept.read_text(encoding="utf-8")):
                warn(BenchmarkWarning(message))

    def _download_and_prepare(self, dl_manager, verification_mode, **prepare_split_kwargs) -> None:
        try:
            super()._download_and_prepare(dl_manager, verification_mode, **prepare_split_kwargs)
        except datasets.exceptions.DatasetGenerationError as error:
            # what is wrong is said by the error below; this one only says that there was one
            if isinstance(error.__cause__, (CapscoreError, BenchmarkWarning)):
                raise error.__cause__ from None
            if isinstance(error.__cause__, OSError):
                raise self._unwritable(error.__cause__) from error.__cause__
            raise
        if self._said and os.path.isdir(self._output_dir):
            # the folder has another name until it is whole
            Path(self._output_dir, _WARNINGS).write_text(json.dumps(self._said), encoding="utf-8")

    def _unwritable(self, error: OSError) -> ResultWriteError:
        return ResultWriteError(
            f"{self.name} ({self.config.name}) could not be prepared in {self._cache_dir_root} "
            f"({error.strerror or error}); cache_dir=… is another folder for it"
        )


@dataclass
class _Tally:
    """Photos found and missing, as sets of names; rows."""

    rows: int = 0
    found: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    missing_example: str = ""

    def add(self, names: Sequence[str], found: bool) -> None:
        """Count a photo of a row."""
        (self.found if found else self.missing).add(names[0])
        if not found and not self.missing_example:
            self.missing_example = names[0]
