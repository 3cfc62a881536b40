"""The base of the loading scripts in `datasets_scripts/`: official files and photos in, rows out."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import datasets
from datasets import Features, Value

from ...errors import CapscoreError, InputError, ResultWriteError, Setting, warn
from ...files.shipped import benchmark_folder
from ...files.write import whole_file
from .annotation_files import AnnotationError, AnnotationFile, AnnotationSource, MissingAnnotations

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff"}

# what `datasets` leaves in a folder that is also its cache
_CACHE_FILES = re.compile(r".*\.(lock|arrow)|dataset_info\.json|warnings\.json|LICENSE")
# beside prepared rows: the warnings when they were made
_WARNINGS = "warnings.json"
_FEATURES = {str: "string", int: "int64", float: "float64", bool: "bool"}


Example = tuple[str, dict[str, Any]]
"""Key and columns of a row, as `GeneratorBasedBuilder` yields them."""


class BenchmarkWarning(UserWarning):
    """A benchmark is usable but incomplete: rows or photos are missing."""


class MissingImages(CapscoreError, FileNotFoundError):
    """Photos of a benchmark are not where they should be."""


@dataclass(frozen=True)
class ImageFolders:
    """Folders of a benchmark's photos.

    Args:
        folders: Folders under `data_dir`, in the order in which they are searched; "." is `data_dir` itself.
        source: Where to get the photos, in words.
    """

    folders: tuple[str, ...]
    source: str


@dataclass
class BenchmarkConfig(datasets.BuilderConfig):
    """A configuration of a benchmark.

    Args:
        language: Language code of the captions; "" if rows differ.
        image_dir: Folder of the photos, if they are not in one of the benchmark's folders under `data_dir`.
        images: None uses the photos that are available, with None for the others; True requires all; False
            leaves all out.
    """

    language: str = ""
    image_dir: str | None = None
    images: bool | None = None

    def options(self) -> dict[str, object]:
        """Options of this benchmark's configurations only, with defaults."""
        common = {known.name for known in fields(BenchmarkConfig)}
        return {known.name: known.default for known in fields(self) if known.name not in common}

    def create_config_id(self, config_kwargs: dict, custom_features: Features | None = None) -> str:
        """Name of the cache folder, which differs once a file under `data_dir` or `image_dir` has changed."""
        for name in ("data_dir", "image_dir"):
            if config_kwargs.get(name):
                folder = _absolute(config_kwargs[name])
                config_kwargs = {**config_kwargs, name: str(folder), f"{name}_state": _state(folder)}
        return super().create_config_id(config_kwargs, custom_features=custom_features)


def _absolute(folder: str | Path) -> Path:
    return Path(os.path.abspath(os.path.expanduser(folder)))


def _state(folder: Path) -> str:
    """A digest of names, sizes and times of the files in a folder; of photos, of names."""
    files: list[tuple[str | int, ...]] = []
    seen, start = set(), len(os.path.join(folder, ""))
    for parent, folders, names in os.walk(folder, followlinks=True):
        status = os.stat(parent)
        if (status.st_dev, status.st_ino) in seen:  # a link may lead to a folder that was looked through
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (os.path.join(parent, name) for name in sorted(names)):
            if _CACHE_FILES.fullmatch(os.path.basename(path)) or not os.path.isfile(path):
                continue
            files.append((path[start:],))
            if os.path.splitext(path)[1].lower() not in IMAGE_SUFFIXES:
                status = os.stat(path)
                files[-1] += (status.st_size, status.st_mtime_ns)
    return hashlib.sha256(repr(files).encode()).hexdigest()[:16]


def _feature(kind: object) -> object:
    """`str`, `[int]`, `[{"x": float}]` … → a feature of `datasets`; features stay what they are."""
    if isinstance(kind, list):
        item = _feature(kind[0])
        return [item] if isinstance(item, dict) else datasets.Sequence(item)
    if isinstance(kind, dict):
        return {name: _feature(value) for name, value in kind.items()}
    if isinstance(kind, type):
        return Value(_FEATURES[kind])
    return kind


class _Photos:
    """Photos in folders, by the names that annotation files have for them."""

    def __init__(self, roots: Sequence[Path]):
        self.roots = [root for root in roots if os.path.isdir(root)]
        self.found: set[str] = set()
        self.missing: dict[str, None] = {}

    def find(self, names: Sequence[str]) -> str | None:
        """Path of the first of these names that is there; it is counted."""
        for root, name in itertools.product(self.roots, names):
            # an annotation file has no say over what is read outside the folders of photos
            is_inside = not os.path.isabs(name) and ".." not in name.split("/")
            if is_inside and os.path.isfile(path := f"{root}/{name}"):
                self.found.add(names[0])
                return path
        self.missing[names[0]] = None
        return None


class CaptionBenchmark(datasets.GeneratorBasedBuilder):
    """Base of a benchmark's loading script. The docstring of the subclass describes the benchmark.

    Attributes:
        VERSION, HOMEPAGE, LICENSE: of the data set.
        CITATION: BibTeX; "" takes it from the benchmark's card.
        CONFIGS: name of a configuration → language code of its captions.
        FIELDS: column → `str`, `int`, `float`, `bool`, a list of one of them, or a feature of `datasets`.
            Photos, their names ("image", "image_id") and "language" come with the base.
        FILES: name → annotation file.
        IMAGES: Folders of the photos.
        IMAGE_COLUMNS: the columns that hold photos; each has one of names, "image_id", beside it.
        SPLITS: names of the splits.
        task: `capscore.benchmarks.tasks.Task` of a benchmark from another package; None if it has none.
        COUNTS: configuration → split → what is counted → published number; "rows" is always counted.
    """

    BUILDER_CONFIG_CLASS = BenchmarkConfig
    VERSION = "1.0.0"
    CITATION: ClassVar[str] = ""
    HOMEPAGE: ClassVar[str] = ""
    LICENSE: ClassVar[str] = ""
    task: ClassVar[Any] = None
    CONFIGS: ClassVar[Mapping[str, str]] = {"default": "en"}
    FIELDS: ClassVar[Mapping[str, object]] = {}
    FILES: ClassVar[Mapping[str, AnnotationFile]] = {}
    IMAGES: ClassVar[ImageFolders]
    IMAGE_COLUMNS: ClassVar[tuple[str, ...]] = ("image",)
    SPLITS: ClassVar[tuple[str, ...]] = ("test",)
    COUNTS: ClassVar[Mapping[str, Mapping[str, Mapping[str, int]]]] = {}
    # what builders of the same files have read, shared by them
    readings: dict[tuple[str, str], Any] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        version = datasets.Version(cls.VERSION)
        cls.BUILDER_CONFIGS = [
            cls.BUILDER_CONFIG_CLASS(name=name, language=language, version=version)
            for name, language in cls.CONFIGS.items()
        ]

    @abstractmethod
    def rows(self, split: str) -> Iterator[Example]:
        """(key, row) of every row, in the official order. A key is unique within the split.

        A row has "image_id", the photo's file name; where photos have other names or lie in folders,
        "image" is a list of names to look for. A photo that an annotation file itself holds is there as
        `datasets.Image` encodes it, {"path": its name, "bytes": …}. `self.file` gives the files.
        """

    def fields(self) -> Mapping[str, object]:
        """The columns of this configuration, as FIELDS has them."""
        return self.FIELDS

    def split_files(self, split: str) -> Sequence[str]:
        """Names in FILES, of which one must exist for a split to be offered; without names it always is."""
        return ()

    def splits(self) -> tuple[str, ...]:
        """The splits of this configuration that the available files hold; all splits if there are none."""

        def is_available(name: str) -> bool:
            if self.data_dir is None:
                return bool(self.FILES[name].url)
            return bool(self.find(name) or self.shards(name))

        known = [split for split in self.SPLITS if self.split_files(split)] or self.SPLITS
        there = [split for split in known if any(map(is_available, self.split_files(split)))]
        return tuple(there or known)

    def published(self, split: str) -> Mapping[str, int]:
        """Published counts of a split; a script overrides it if an option chooses other rows."""
        return self.COUNTS.get(self.config.name, {}).get(split, {})

    def count(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Counts of a split's rows, as a published table has them; photos are not read."""
        images: set[str] = set()
        for column in self.IMAGE_COLUMNS:
            images.update(row[f"{column}_id"] for row in rows)
        counts = {"rows": len(rows), "images": len(images)}
        if "references" in self.fields() and not {"caption", "captions"} & self.fields().keys():
            counts["captions"] = sum(len(row["references"]) for row in rows)
        return counts

    def warn(self, message: str) -> None:
        """Warn that the benchmark is usable but incomplete."""
        self._warnings.append(message)
        warn(BenchmarkWarning(message))

    @cached_property
    def _warnings(self) -> list[str]:
        return []

    @property
    def data_dir(self) -> Path | None:
        """The folder that the user named."""
        if not self.config.data_dir:
            return None
        return _absolute(self.config.data_dir)

    @cached_property
    def files_read(self) -> dict[Path, AnnotationSource]:
        """The annotation files that have been read so far, by their path."""
        return {}

    def _source(self, path: Path, member: str = "") -> AnnotationSource:
        return AnnotationSource(path, member, self.files_read, self.readings)

    def find(self, name: str) -> AnnotationSource | None:
        """An annotation file under `data_dir`, or None if it is not there."""
        folder = self.data_dir
        if folder is None:
            return None
        for place in self.FILES[name].names:
            path, _, member = place.format(config=self.config.name).partition("::")
            if os.path.isfile(folder / path):
                return self._source(folder / path, member)
        return None

    def shards(self, name: str) -> list[AnnotationSource]:
        """The files under `data_dir` that hold an annotation file in parts, in order; [] if there are none.

        Its names are patterns, `"data/test-*.parquet"`; the first that matches anything is taken.
        """
        for pattern in self.FILES[name].names:
            if self.data_dir and "*" in pattern and (paths := sorted(self.data_dir.glob(pattern))):
                return [self._source(path) for path in paths]
        return []

    def file(self, name: str) -> AnnotationSource:
        """An annotation file: the one under `data_dir`, else downloaded and checked."""
        if found := self.find(name):
            return found
        known = self.FILES[name]
        if known.url and self.data_dir is None:
            return self._download(known)
        given: list[str | Setting] = ["not found under ", Setting("data_dir", self.data_dir)]
        if self.data_dir is None:
            given = ["no ", Setting("data_dir"), " was given"]
        elif not os.path.isdir(self.data_dir):
            given = [Setting("data_dir", self.data_dir), " is not a folder"]
        names = " or ".join(known.names).format(config=self.config.name)
        what = f"{self.name} ({self.config.name}) reads {names}: "
        raise MissingAnnotations(what, *given, f". Get it from {known.source or self.HOMEPAGE}")

    def _download(self, known: AnnotationFile) -> AnnotationSource:
        manager = datasets.DownloadManager(
            dataset_name=self.name,
            download_config=datasets.DownloadConfig(cache_dir=self._cache_downloaded_dir),
            record_checksums=False,
        )
        try:
            path = Path(manager.download(known.url))
        except (OSError, ValueError, RuntimeError) as error:
            raise MissingAnnotations(
                f"{self.name} ({self.config.name}): {known.url} could not be downloaded "
                f"({error.__cause__ or error}). Put {' or '.join(known.names)} into a folder and give ",
                Setting("data_dir"),
            ) from error
        member = next((place.partition("::")[2] for place in known.names if "::" in place), "")
        source = self._source(path, member)
        if not source.is_published(known):
            path.unlink(missing_ok=True)
            raise AnnotationError(
                f"{self.name}: the download from {known.url} is not the published file (its checksum differs "
                f"from {(known.sha256 or known.git_blob)[:12]}…); it was removed"
            )
        return source

    @cached_property
    def image_roots(self) -> list[Path]:
        """Folders in which photos are looked for, those that exist; none if photos are left out."""
        if self.config.images is False:
            return []
        if self.config.image_dir:
            folder = _absolute(self.config.image_dir)
            if not os.path.isdir(folder):
                raise InputError(Setting("image_dir", folder), " is not a folder")
            return [folder]
        if self.data_dir is None:
            return []
        found = [self.data_dir / folder.format(config=self.config.name) for folder in self.IMAGES.folders]
        return [folder for folder in found if os.path.isdir(folder)]

    def find_image(self, names: Sequence[str]) -> str | None:
        """Path of the first of these names that exists."""
        return self._photo_folders.find(names)

    @cached_property
    def _photo_folders(self) -> _Photos:
        return _Photos(self.image_roots)

    def _info(self) -> datasets.DatasetInfo:
        if self.config.name not in self.CONFIGS:
            raise InputError(
                f"{self.name} needs the name of a configuration: one of {', '.join(self.CONFIGS)}"
            )
        columns: dict[str, object] = {}
        for column in self.IMAGE_COLUMNS:
            columns |= {column: datasets.Image(), f"{column}_id": str}
        columns |= {**self.fields(), "language": str}
        return datasets.DatasetInfo(
            description=inspect.cleandoc(self.__doc__ or ""),
            citation=self.citation(),
            homepage=self.HOMEPAGE,
            license=self.LICENSE,
            features=Features({name: _feature(kind) for name, kind in columns.items()}),
        )

    @classmethod
    def citation(cls) -> str:
        """BibTeX of the benchmark."""
        if cls.CITATION:
            return cls.CITATION.strip()
        card = Path(benchmark_folder(cls.__module__.rpartition(".")[2]), "README.md")
        return re.findall(r"^```bibtex\n(.*?)\n```$", card.read_text("utf-8"), re.DOTALL | re.MULTILINE)[-1]

    def _split_generators(self, dl_manager: object) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator(name=split, gen_kwargs={"split": split}) for split in self.splits()]

    def examples(self, split: str) -> Iterator[Example]:
        """`checked_rows` with the path of every photo, or None if it is missing."""
        for key, row in self._generate_examples(split):
            for column in self.IMAGE_COLUMNS:
                row[column] = row[column] and self._unpacked(row[column])
            yield key, row

    def _unpacked(self, photo: Mapping[str, Any]) -> str:
        """Path of a photo; one that an annotation file holds is written out, once, named by its content."""
        content = photo["bytes"]
        if content is None:
            return photo["path"]
        suffix = os.path.splitext(photo["path"] or "")[1]
        if suffix.lower() not in IMAGE_SUFFIXES:
            suffix = ""
        name = f"{hashlib.sha256(content).hexdigest()[:32]}{suffix}"
        path = Path(os.path.expanduser(str(self._cache_dir_root)), self.name, "photos", name[:2], name)
        if not path.is_file():
            with whole_file(path, "photo", make_folders=True) as file:
                file.write(content)
        return str(path)

    def checked_rows(self, split: str) -> Iterator[Example]:
        """`rows`, with every key seen once; "image" holds names to look for."""
        seen: set[str] = set()
        problem = "there are no rows"
        for key, row in self.rows(split):
            if key in seen:
                problem = f"the key {key!r} appears twice"
                seen.clear()
                break
            seen.add(key)
            yield key, {"language": self.config.language, **row}
        if not seen:
            file = " or ".join(map(str, self.files_read.values()))
            raise AnnotationError(f"{self.name} ({self.config.name}, {split}): {problem}", file=file)

    def _generate_examples(self, split: str) -> Iterator[Example]:
        photos = self._photo_folders = _Photos(self.image_roots)
        name = f"{self.name} ({self.config.name}, {split})"
        n_rows = 0
        for key, row in self.checked_rows(split):
            n_rows += 1
            yield key, {**row, **{column: self._image(column, row, photos) for column in self.IMAGE_COLUMNS}}
        published = self.published(split).get("rows", n_rows)
        if n_rows != published:
            self.warn(f"{name} has {n_rows:,} rows where {published:,} were published: is a file cut short?")
        if not photos.roots or not photos.missing:
            return
        message = (
            f"{name}: {len(photos.found):,} of its {len(photos.missing) + len(photos.found):,} photos are in "
            f"{', '.join(map(str, photos.roots))}; missing is {next(iter(photos.missing))}"
        )
        if not photos.found and self.config.image_dir:
            raise MissingImages(f"{message}. images=False loads the annotations alone. {self.IMAGES.source}")
        self.warn(f"{message}. Rows without a photo have None")

    def _image(self, column: str, row: Mapping[str, Any], photos: _Photos) -> dict[str, object] | None:
        names = row.get(column) or [row[f"{column}_id"]]
        if self.config.images is False:
            return None
        if isinstance(names, Mapping):
            photos.found.add(names["path"])
            return dict(names)
        path = photos.find(names)
        if path is not None:
            return {"path": path, "bytes": None}
        if self.config.images:
            places = ", ".join(map(str, self.image_roots)) or f"data_dir/{', '.join(self.IMAGES.folders)}"
            raise MissingImages(
                f"{self.name} ({self.config.name}): no {' or '.join(names)} in {places}; images=True asks "
                f"for all of them, which `capscore data check` lists. Photos: {self.IMAGES.source}"
            )
        return None

    def download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        """As in `datasets`; warnings about the rows are repeated when these come from the cache."""
        self._warnings.clear()
        try:
            super().download_and_prepare(*args, **kwargs)
        except datasets.exceptions.DatasetGenerationError as error:
            # what is wrong is said by the error below; this one only says that there was one
            if isinstance(error.__cause__, (CapscoreError, BenchmarkWarning)):
                raise error.__cause__ from None
            if not isinstance(error.__cause__, OSError):
                raise
            raise self._unwritable(error.__cause__) from error.__cause__
        except CapscoreError:
            raise
        except OSError as error:
            raise self._unwritable(error) from error
        kept = Path(self._output_dir, _WARNINGS)
        if not self._warnings and kept.is_file():
            for message in json.loads(kept.read_text(encoding="utf-8")):
                warn(BenchmarkWarning(message))

    def _download_and_prepare(self, dl_manager, verification_mode, **prepare_split_kwargs) -> None:
        super()._download_and_prepare(dl_manager, verification_mode, **prepare_split_kwargs)
        if self._warnings and os.path.isdir(self._output_dir):
            # the folder has another name until it is whole
            Path(self._output_dir, _WARNINGS).write_text(json.dumps(self._warnings), encoding="utf-8")

    def _unwritable(self, error: OSError) -> ResultWriteError:
        return ResultWriteError(
            f"{self.name} ({self.config.name}) could not be prepared in {self._cache_dir_root} "
            f"({error.strerror or error}); cache_dir=… chooses another folder"
        )
