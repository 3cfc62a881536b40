"""Compares captioning systems on a set of captioned photos, as Thapliyal et al. 2022 compare models.

In: one caption per photo and language of each system. Out: means, and differences to the first system.
Each language is scored apart, with all references of a photo, and CIDEr counts documents among its photos.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import __version__
from ..errors import CapscoreError, InputError, Setting
from ..files.columns import FAMILIAR, columns_of
from ..files.matching import photo_key
from ..files.read import open_rows
from ..files.row_source import CHUNK_ROWS
from ..metrics.rows import empty_caption, is_empty
from ..metrics.signature import format_signature, parse_signature
from ..options import RowOptions
from ..statistics.system_means import SystemComparison, compare_means
from ..text.languages import language_code
from .run import heard, images_for, read_benchmark, scored_by
from .tasks import TaskOptions, check_captioned

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
    metrics: Mapping[str, Callable[[], Scorer]],
    *,
    configs: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    split: str | None = None,
    image_dir: str | Path | None = None,
    options: TaskOptions | None = None,
    partial: bool = False,
    may_be_empty: bool = False,
    say: Callable[[str], None] | None = None,
) -> SystemsRun:
    """Score systems' captions in every language, and compare them with those of the first system.

    Args:
        slug: Name of a set of captioned photos, such as "xm3600".
        systems: Name → file of captions (see `read_captions`). One system is scored and not compared.
        metrics: Name → function that makes its scorer; names as in `run_benchmark`.
        configs: Configurations of the benchmark, each in another language; None for all languages that the
            systems have captions in.
        data_dir, split, image_dir: As in `run_benchmark`.
        options: Bootstrap draws, confidence and seed; None for 1,000 draws.
        partial: Whether a metric that looks at photos scores only those that are available.
        may_be_empty: Whether captions may be empty; the scorers say what becomes of them.
        say: Function that takes one line about what is being done.

    Raises:
        InputError: a file does not fit the benchmark or the other files; names file and row.
        CapscoreError: loading or scoring failed, or photos that a metric needs are missing.

    >>> run = run_systems("xm3600", {"a": "a.jsonl", "b": "b.jsonl"}, data_dir="xm3600",    # doctest: +SKIP
    ...                   metrics={"cider": lambda: capscore.load("cider")})
    >>> run.metrics["cider"]["de"].differences[0].difference                                # doctest: +SKIP
    0.0412…
    """
    options, say = options or TaskOptions(), say or (lambda line: None)
    if not systems or not metrics:
        raise InputError("expected at least one system and one metric")
    chosen, known = _configs_by_language(slug, configs)
    read, notes = {}, list[str]()
    for name, path in systems.items():
        say(f"{slug}: {path}")
        read[name] = read_captions(path, list(chosen), known=known, may_be_empty=may_be_empty, notes=notes)
    spoken = [code for code in chosen if configs or any(code in captions for captions in read.values())]
    if not spoken:
        raise InputError(f"no file has a caption in {', '.join(chosen)}")
    where: dict[str, Any] = {"data_dir": data_dir, "split": split, "image_dir": image_dir}
    where["images"] = images_for(metrics)
    readings: dict[tuple[str, str], Any] = {}  # a file of all languages is read once
    runs, languages = [], []
    for code in spoken:
        say(f"{slug} · {chosen[code]}")
        run, rows = read_benchmark(slug, chosen[code], options=options, readings=readings, **where)
        runs.append(run)
        languages.append(_Language(code, run.name, _with_captions(code, run.name, rows, read)))
    notes += _notes_by_config([(run.config, note) for run in runs for note in run.notes])
    measured: dict[str, dict[str, SystemComparison]] = {}
    signatures: dict[str, str] = {}
    for name, make in metrics.items():
        scorer, measured[name], of_languages = make(), {}, []
        with heard() as said:
            for language in languages:
                say(f"{language.where}: {name}")
                measured[name][language.code], signature = _compare(name, scorer, language, partial, options)
                of_languages.append(signature)
        signatures[name] = _joined(of_languages)
        notes += [f"{name}: {warning}" for warning in said]
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


def _configs_by_language(slug: str, configs: Sequence[str] | None) -> tuple[dict[str, str], list[str]]:
    """Language → configuration: those that are named, or one for each language; and all languages."""
    from .data.load import builder_class, config_name

    check_captioned(slug)
    kind = builder_class(slug)
    language = {known.name: known.language for known in kind.BUILDER_CONFIGS}
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(config_name(slug, given) for given in configs) if configs else language:
        found.setdefault(language[name], []).append(name)
    chosen = {}
    for code, names in found.items():
        usual = [name for name in names if name in (code, kind.DEFAULT_CONFIG_NAME)]
        if len(names) > 1 and (configs or len(usual) != 1):
            raise InputError(
                f"{slug} has several sets of references in {code!r}: choose one of {', '.join(names)} with ",
                Setting("config"),
            )
        chosen[code] = usual[0] if len(usual) == 1 else names[0]
    return chosen, list(dict.fromkeys(language.values()))


def _with_captions(
    code: str,
    where: str,
    rows: Sequence[tuple[str, Mapping[str, Any]]],
    systems: Mapping[str, Captions],
) -> list[_Photo]:
    """The photos of the set, in its order, with what each system says of them."""
    photos: dict[str, _Photo] = {}
    for _, row in rows:
        key = photo_key(row["image_id"])
        photos.setdefault(key, _Photo(key, row["image"], [], {})).references.extend(row["references"])
    for name, captions in ((name, system.get(code, {})) for name, system in systems.items()):
        for key, (text, place) in captions.items():
            if key not in photos:
                raise InputError(f"{place}: {where} has no photo {key!r:.80}")
            photos[key].captions[name] = text
        if lacking := [key for key in photos if key not in captions]:
            raise InputError(
                f"{name} has no caption in {code!r} for {len(lacking):,} of the {len(photos):,} photos "
                f"of {where}, such as {lacking[0]}; ",
                Setting("config"),
                " names the languages to compare in",
            )
    return [*photos.values()]


def _compare(
    name: str, scorer: Scorer, language: _Language, partial: bool, options: TaskOptions
) -> tuple[SystemComparison, str]:
    """Means and differences of the systems in a language, and the signature of the scores."""
    with_photos, with_references = scorer.needs_images, scorer.needs_references
    photos = [
        photo
        for photo in language.photos
        if (photo.path is not None or not with_photos) and (photo.references or not with_references)
    ]
    n_gone = len(language.photos) - len(photos)
    if n_gone and (not partial or not photos):
        gone = next(photo.key for photo in language.photos if photo not in photos)
        raise CapscoreError(
            f"{name}: {n_gone:,} of the {len(language.photos):,} photos of {language.where} cannot be "
            f"scored; for example, {gone} is missing or has no references; ",
            Setting("partial", True),
            " scores the others",
        )
    component = scored_by(name)[1]
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
