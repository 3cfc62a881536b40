"""Compares captioning systems on a set of captioned photos, as Thapliyal et al. 2022 compare models.

In: one caption per photo and language of each system. Out: means, and differences to the first system.
Each language is scored apart, with all references of a photo, and CIDEr counts documents among its photos.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import __version__
from ..errors import CapscoreError, InputError, Setting
from ..files.columns import FAMILIAR, columns_of
from ..files.console import say_step
from ..files.matching import photo_key
from ..files.read import open_rows
from ..files.row_source import CHUNK_ROWS
from ..metrics.loading import component_of
from ..metrics.rows import empty_caption, is_empty
from ..metrics.signature import format_signature, parse_signature
from ..options import LoadOptions, RowOptions
from ..statistics.system_means import SystemComparison, compare_means
from ..text.languages import language_code
from .captioned import CaptionedPhotos, captioned_photos, configs_by_language, languages_of
from .reading import Configuration, collected_warnings
from .run import Measurable, named_metrics
from .tasks import TaskOptions

if TYPE_CHECKING:
    from ..metrics.base import Scorer

# language → photo (file name without folder and suffix) → caption, and where it stands in words
Captions = Mapping[str, Mapping[str, tuple[str, str]]]


class _Photo(NamedTuple):
    """A photo of the set (its path None where it is missing), and what each system says of it."""

    key: str
    path: str | None
    references: list[str]
    captions: dict[str, str]


class _Language(NamedTuple):
    """What is scored in a language."""

    code: str
    where: str
    photos: list[_Photo]


@dataclass(frozen=True)
class SystemsRun:
    """Systems that were compared on a benchmark.

    Attributes:
        benchmark, split, version: Names of what was read.
        files: Name of every annotation file that was read → its SHA-256.
        systems: System → its file.
        options: How intervals are made.
        metrics: Metric → language → means of all systems, and differences to the first; rows are photos.
        signatures: Metric → its signature: "var" where languages differ, and the languages joined.
        notes: Remarks that a reader needs.
    """

    benchmark: str
    split: str
    version: str
    files: Mapping[str, str]
    systems: Mapping[str, Path]
    options: TaskOptions
    metrics: Mapping[str, Mapping[str, SystemComparison]]
    signatures: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def means(self, metric: str) -> dict[str, float]:
        """System → plain mean over the languages."""
        means = [part.means for part in self.metrics[metric].values()]
        return {name: math.fsum(part[name] for part in means) / len(means) for name in self.systems}

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "benchmark": self.benchmark,
            "split": self.split,
            "script_version": self.version,
            "capscore_version": __version__,
            "files": dict(self.files),
            "systems": {name: str(path) for name, path in self.systems.items()},
            "options": asdict(self.options.sampling),
            "metrics": {
                metric: {
                    "signature": self.signatures[metric],
                    "languages": {language: part.to_dict() for language, part in parts.items()},
                    "means": self.means(metric),
                }
                for metric, parts in self.metrics.items()
            },
            "notes": list(self.notes),
        }


def run_systems(
    slug: str,
    systems: Mapping[str, str | Path],
    metrics: Sequence[str] | Mapping[str, Measurable | None],
    *,
    configs: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    rows: RowOptions = RowOptions(),
    options: TaskOptions = TaskOptions(),
    load: LoadOptions = LoadOptions(),
) -> SystemsRun:
    """Score systems' captions in every language, and compare them with those of the first system.

    Args:
        slug: Name of a set of captioned photos, such as "xm3600".
        systems: Name → file of captions (see `read_captions`). One system is scored and not compared.
        metrics, rows, options, load: As in `capscore.benchmark`.
        configs: Configurations of the benchmark, each in another language; None for all languages that the
            systems have captions in.
        data_dir: Folder of the benchmark's files.

    Raises:
        InputError: a file does not fit the benchmark or the other files; names file and row.
        CapscoreError: loading or scoring failed, or photos that a metric needs are missing.

    >>> systems = {"a": "a.jsonl", "b": "b.jsonl"}
    >>> run = run_systems("xm3600", systems, ["cider"], data_dir="xm3600")                  # doctest: +SKIP
    >>> run.metrics["cider"]["de"].differences[0].difference                                # doctest: +SKIP
    0.0412…
    """
    named, _ = named_metrics(metrics, load)
    if not systems or not named:
        raise InputError("expected at least one system and one metric")
    chosen, known = configs_by_language(slug, configs or ()), languages_of(slug)
    may_be_empty = load.metric_options.get("empty", "raise") != "raise"
    read, notes = {}, list[str]()
    for name, path in systems.items():
        say_step(f"{slug}: {path}", shown=load.progress)
        read[name] = read_captions(path, list(chosen), known=known, may_be_empty=may_be_empty, notes=notes)
    spoken = [code for code in chosen if configs or any(code in captions for captions in read.values())]
    if not spoken:
        raise InputError(f"no file has a caption in {', '.join(chosen)}")
    images = None if any(metric.kind.needs_images for metric in named) else False
    readings: dict[tuple[str, str], object] = {}  # a file of all languages is read once
    runs, languages = [], []
    for code in spoken:
        say_step(f"{slug} · {chosen[code]}", shown=load.progress)
        where = Configuration(slug, chosen[code], data_dir)
        found = captioned_photos(code, where, rows, images=images, readings=readings)
        runs.append(found.run)
        languages.append(_Language(code, found.run.name, _with_captions(found, read)))
    notes += _notes_by_config([(run.config, note) for run in runs for note in run.notes])
    measured: dict[str, dict[str, SystemComparison]] = {}
    signatures: dict[str, str] = {}
    for metric in named:
        scorer, measured[metric.name], of_languages = metric.make(), {}, []
        with collected_warnings() as said:
            for language in languages:
                say_step(f"{language.where}: {metric.name}", shown=load.progress)
                compared, signature = _compare(metric.name, scorer, language, options)
                measured[metric.name][language.code] = compared
                of_languages.append(signature)
        signatures[metric.name] = _joined(of_languages)
        notes += [f"{metric.name}: {warning}" for warning in said]
    return SystemsRun(
        benchmark=slug,
        split=runs[0].split,
        version=runs[0].version,
        files={name: digest for run in runs for name, digest in run.files.items()},
        systems={name: Path(path) for name, path in systems.items()},
        options=options,
        metrics=measured,
        signatures=signatures,
        notes=tuple(notes),
    )


def read_captions(
    path: str | Path,
    languages: Sequence[str],
    *,
    known: Sequence[str] | None = None,
    may_be_empty: bool = False,
    notes: list[str] | None = None,
) -> Captions:
    """Read the captions of a system.

    Args:
        path: File, or saved data set, with one caption per photo and language. Of a photo's name, folder and
            suffix do not count. Without a column of languages, all captions are in the requested one.
        languages: Requested languages; rows in others are left out.
        known: Languages that a row may have; None for `languages`.
        may_be_empty: Whether a caption may be empty.
        notes: List that gets sentences about columns with a less familiar name.

    Raises:
        InputError: a column is missing, or several could be meant; a row without photo, language or
            caption; an unknown language; two captions of one photo in one language. Names file and row.
    """
    source = open_rows(path)
    try:
        image = "image_id" if "image_id" in source.columns else None
        names = columns_of(source, RowOptions(image_column=image))
    except InputError as error:  # the command has no option for a column
        raise InputError(f"{path}, {error.option}", *error.parts[1:]) from None
    if names.language is None and len(languages) != 1:
        expected = f"expected one of {', '.join(FAMILIAR['language'])}, or one language by "
        raise InputError(f"{path} has no column of languages: {expected}", Setting("config"))
    if notes is not None:
        notes += (f"{path}: {note}" for note in names.notes)
    columns = [name for name in (names.image, names.candidate, names.language) if name]
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for chunk in source.chunks(CHUNK_ROWS, columns):
        for row, (image, text, *tag) in enumerate(zip(*map(chunk.values, columns), strict=True)):
            try:
                code = languages[0] if not tag else language_code(tag[0]) if tag[0] else ""
                if code not in (known or languages):
                    have = ", ".join(known or languages)
                    raise InputError(f"there are no references in {code!r}, only in {have}")
                if code in languages:
                    captions, key = found.setdefault(code, {}), _photo_in(image, columns[0])
                    if key in captions:
                        first = (
                            f"a second caption of the photo {key!r:.80}; the first is in {captions[key][1]}"
                        )
                        raise InputError(first)
                    if not isinstance(text, str):
                        raise InputError(f"{text!r:.60} ({type(text).__name__}); expected a caption")
                    if is_empty(text) and not may_be_empty:
                        raise InputError(*empty_caption(text).parts)
                    captions[key] = text, source.place(chunk, row)
            except InputError as error:
                raise source.at(error, chunk, row) from None
    return found


def _photo_in(cell: Any, column: str) -> str:
    """What the photo that a cell names is known by; an InputError if it names none."""
    name = cell.get("path") if isinstance(cell, dict) else cell
    if isinstance(name, bool) or not isinstance(name, (str, int)) or not str(name).strip():
        raise InputError(f"the column {column!r} holds {cell!r:.60}; expected the name of a photo")
    return photo_key(str(name).strip())


def _with_captions(found: CaptionedPhotos, systems: Mapping[str, Captions]) -> list[_Photo]:
    """The photos of the set, in its order, with what each system says of them."""
    photos = {photo.key: _Photo(*photo, {}) for photo in found.photos}
    for name, system in systems.items():
        captions = system.get(found.language, {})
        for key, (text, place) in captions.items():
            if key not in photos:
                raise InputError(f"{place}: {found.run.name} has no photo {key!r:.80}")
            photos[key].captions[name] = text
        if lacking := [key for key in photos if key not in captions]:
            raise InputError(
                f"{name} has no caption in {found.language!r} for {len(lacking):,} of the {len(photos):,} "
                f"photos of {found.run.name}, such as {lacking[0]}; ",
                Setting("config"),
                " names the languages to compare in",
            )
    return [*photos.values()]


def _compare(
    name: str, scorer: Scorer, language: _Language, options: TaskOptions
) -> tuple[SystemComparison, str]:
    """Means and differences of the systems in a language, and the signature of the scores."""
    with_photos, with_references = scorer.needs_images, scorer.needs_references
    photos = [
        photo
        for photo in language.photos
        if (photo.path is not None or not with_photos) and (photo.references or not with_references)
    ]
    n_gone = len(language.photos) - len(photos)
    if n_gone and not (options.partial and photos):
        gone = next(photo.key for photo in language.photos if photo not in photos)
        raise CapscoreError(
            f"{name}: {n_gone:,} of the {len(language.photos):,} photos of {language.where} cannot be "
            f"scored; for example, {gone} is missing or has no references; ",
            Setting("partial", True),
            " scores the others",
        )
    component = component_of(name)[1]
    systems, signature = {}, ""
    for system in photos[0].captions:
        try:
            scores = scorer.score(
                [photo.captions[system] for photo in photos],
                [photo.path for photo in photos] if with_photos else None,
                references=[photo.references for photo in photos] if with_references else None,
                language=language.code,
            )
        except InputError as error:
            photo = "" if error.row is None else f", photo {photos[error.row].key}"
            raise InputError(f"{name} on {language.where}: {system}{photo}: ", *error.parts) from error
        systems[system] = scores.components[component] if component else scores.scores
        signature = signature or scores.signature
    # empty captions that the scorer leaves out have no score
    if not np.isfinite(np.array([*systems.values()])).all(axis=0).any():
        raise CapscoreError(f"{name} has no score for any photo of {language.where}")
    how: dict[str, Any] = {"sampling": options.sampling, "missing": "skip", "rows": language.code}
    found = compare_means(systems, images=range(len(photos)), **how)
    return found, f"{signature}|component:{component}" if component else signature


def _joined(signatures: Sequence[str]) -> str:
    """The signatures of all languages as one."""
    read = [parse_signature(signature) for signature in signatures]
    joined = {}
    for key in dict.fromkeys(key for _, settings in read for key in settings):
        values = list(dict.fromkeys(settings.get(key, "none") for _, settings in read))
        joined[key] = values[0] if len(values) == 1 else "+".join(values) if key == "lang" else "var"
    return format_signature(read[0][0], joined)


def _notes_by_config(notes: Sequence[tuple[str, str]]) -> list[str]:
    """Notes of configurations, those that say the same of several as one: "x (de, fr, test) is short"."""
    found: dict[str, list[str]] = {}
    for config, note in notes:
        found.setdefault(note.replace(f"({config},", "({},"), []).append(config)
    return [note.replace("({},", f"({', '.join(configs)},") for note, configs in found.items()]
