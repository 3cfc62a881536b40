"""Compares captioning systems on a set of captioned photos, as Thapliyal et al. 2022 compare models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..benchmarks.captioned import CaptionedPhotos, captioned_photos, configs_by_language, languages_of
from ..benchmarks.published import PublishedOrder, orders_of
from ..benchmarks.reading import Configuration, collected_warnings
from ..benchmarks.results import BenchmarkRun
from ..benchmarks.run import named_metrics
from ..errors import CapscoreError, InputError, Setting
from ..files.columns import FAMILIAR, ColumnNames, columns_of, named_columns
from ..files.console import say_step
from ..files.photo_names import KnownNames, id_text
from ..files.read import open_rows
from ..files.row_source import CHUNK_ROWS, RowSource
from ..metrics.base import Scorer
from ..metrics.loading import component_of
from ..metrics.rows import empty_caption, format_signature, parse_signature
from ..options import NO_OPTIONS, LoadOptions, RowOptions, Sampling
from ..statistics.systems import TEN_THOUSAND, RowStatistics, SystemComparison, compare_figures
from ..text.languages import language_code
from ..text.suspicious import is_empty
from .comparison import Comparison
from .published_order import OrderAgreement, Published, order_agreements, orders_among, published_orders
from .systems import captioner_caution, statistics_of

# language → photo, as the file names it → caption, and where it stands in words
Captions = Mapping[str, Mapping[str, tuple[str, str]]]


class _Photo(NamedTuple):
    """A photo of the set (its path None where it is missing), and what each system says of it."""

    key: str
    path: str | None
    references: list[str]
    captions: dict[str, str]


class _Language(NamedTuple):
    code: str
    run: BenchmarkRun
    photos: list[_Photo]


def compare_on_benchmark(
    where: Configuration,
    systems: Mapping[str, str | Path],
    metrics: Sequence[str] = ("cider",),
    configs: Sequence[str] = (),
    *,
    rows: RowOptions = RowOptions(),
    load: LoadOptions = NO_OPTIONS,
    sampling: Sampling = TEN_THOUSAND,
    partial: bool = False,
    published: Published | None = None,
) -> Comparison:
    """Score systems' captions in every language of a benchmark, and compare them with those of the first.

    `published` is as in `compare`; None takes what is published of these systems on the set.
    """
    named, _ = named_metrics(metrics, load)
    orders = None if published is None else published_orders(published, [*systems])
    images = None if any(metric.kind.needs_images for metric in named) else False
    languages, notes = _read_languages(where, systems, configs, rows, load, images)
    orders_in: dict[str, list[PublishedOrder]] = {}
    for language in languages:
        of_set = orders
        if of_set is None:
            of_set = orders_among(orders_of(where.slug, language.run.config), [*systems])
        orders_in[language.code] = of_set
    measured: dict[str, list[SystemComparison]] = {}
    agreeing: list[OrderAgreement] = []
    signatures: dict[str, str] = {}
    for metric in named:
        scorer, of_languages = metric.make(), []
        measured[metric.name] = []
        with collected_warnings() as said:
            for language in languages:
                say_step(f"{language.run.name}: {metric.name}", shown=load.progress)
                scores, signature = _scored(metric.name, scorer, language, partial)
                photos = range(max(len(part.scores) for part in scores.values()))
                compared = compare_figures(
                    scores,
                    images=photos,
                    sampling=sampling,
                    missing="skip",
                    rows=language.code,
                    higher_is_better=not scorer.lower_is_better(component_of(metric.name)[1]),
                )
                known = orders_in[language.code]
                agreeing += order_agreements(known, metric.name, compared, scores, photos, sampling)
                measured[metric.name].append(compared)
                of_languages.append(signature)
        signatures[metric.name] = _joined(of_languages)
        notes += [f"{metric.name}: {warning}" for warning in said]
    files: dict[str, str] = {}
    for language in languages:
        files.update(language.run.files)
    first = languages[0].run
    about: dict[str, object] = {"benchmark": where.slug, "split": first.split}
    about |= {"script_version": first.version, "files": files}
    if len(systems) > 1:
        notes += captioner_caution(signatures.values())
    names = {name: str(path) for name, path in systems.items()}
    no_rows = dict.fromkeys(systems, 0)
    return Comparison(
        names, measured, signatures, "photo and language", no_rows, notes, about, tuple(agreeing)
    )


def _read_languages(
    where: Configuration,
    systems: Mapping[str, str | Path],
    configs: Sequence[str],
    rows: RowOptions,
    load: LoadOptions,
    images: bool | None,
) -> tuple[list[_Language], list[str]]:
    """The languages of configurations, or all in which a system has captions; and notes."""
    chosen, known = configs_by_language(where.slug, configs), languages_of(where.slug)
    may_be_empty = load.metric_options.get("empty", "worst") != "raise"
    read: dict[str, Captions] = {}
    notes: list[str] = []
    for name, path in systems.items():
        say_step(f"{where.slug}: {path}", shown=load.progress)
        read[name], more = read_captions(path, list(chosen), known=known, may_be_empty=may_be_empty)
        notes += more
    spoken = [code for code in chosen if configs or any(code in captions for captions in read.values())]
    if not spoken:
        raise InputError(f"no file has a caption in {', '.join(chosen)}")
    readings: dict[tuple[str, str], object] = {}  # a file of all languages is read once
    languages = []
    for code in spoken:
        say_step(f"{where.slug} · {chosen[code]}", shown=load.progress)
        of_language = where._replace(config=chosen[code])
        found = captioned_photos(code, of_language, rows, images=images, readings=readings)
        languages.append(_Language(code, found.run, _with_captions(found, read)))
    by_config = [(language.run.config, note) for language in languages for note in language.run.notes]
    return languages, notes + _notes_by_config(by_config)


def read_captions(
    path: str | Path, languages: Sequence[str], *, known: Sequence[str] = (), may_be_empty: bool = False
) -> tuple[Captions, list[str]]:
    """Read the captions of a system, and notes on columns with a less familiar name."""
    source = open_rows(path)
    names = _columns(source, path)
    if names.language is None and len(languages) != 1:
        expected = f"expected one of {', '.join(FAMILIAR['language'])}, or one language by "
        raise InputError(f"{path} has no column of languages: {expected}", Setting("config"))
    found: dict[str, dict[str, tuple[str, str]]] = {code: {} for code in languages}
    columns = [name for name in (names.image, names.candidate, names.language) if name]
    for chunk in source.chunks(CHUNK_ROWS, columns):
        for row, (image, text, *tag) in enumerate(zip(*map(chunk.values, columns), strict=True)):
            try:
                code = _language_in(tag, known or languages, languages[0])
                if code not in found:
                    continue
                key = _photo_in(image, columns[0])
                if key in found[code]:
                    first = found[code][key][1]
                    raise InputError(f"a second caption of the photo {key!r:.80}; the first is in {first}")
                if not isinstance(text, str):
                    raise InputError(f"{text!r:.60} ({type(text).__name__}); expected a caption")
                if is_empty(text) and not may_be_empty:
                    raise InputError(*empty_caption(text).parts)
            except InputError as error:
                raise source.at(error, chunk, row) from None
            found[code][key] = text, source.place(chunk, row)
    return {code: captions for code, captions in found.items() if captions}, [
        f"{path}: {note}" for note in names.notes
    ]


def _columns(source: RowSource, path: str | Path) -> ColumnNames:
    image = next(iter(named_columns(("image_id",), source.columns)), None)
    try:
        return columns_of(source, RowOptions(image_column=image))
    except InputError as error:  # no option names a column here
        raise InputError(f"{path}, {error.option}", *error.parts[1:]) from None


def _language_in(tag: Sequence[str | None], known: Sequence[str], only: str) -> str:
    """The language that a row names; the only one where no column does."""
    if not tag:
        return only
    code = language_code(tag[0]) if tag[0] else ""
    if code not in known:
        raise InputError(f"there are no references in {code!r}, only in {', '.join(known)}")
    return code


def _photo_in(cell: object, column: str) -> str:
    """What the photo that a cell names is known by; an InputError if it names none."""
    name = cell.get("path") if isinstance(cell, dict) else cell
    if not (text := id_text(name).strip()):
        raise InputError(f"the column {column!r} holds {cell!r:.60}; expected the name of a photo")
    return text


def _with_captions(found: CaptionedPhotos, systems: Mapping[str, Captions]) -> list[_Photo]:
    """The photos of the set, in its order, with what each system says of them."""
    photos = {photo.key: _Photo(*photo, {}) for photo in found.photos}
    known = KnownNames([*photos])
    for name, system in systems.items():
        captions = system.get(found.language, {})
        matched = known.match(captions)
        for key, (text, place) in captions.items():
            if key not in matched.matches:
                why = f": {matched.problems[key]}" if key in matched.problems else ""
                raise InputError(f"{place}: {found.run.name} has no photo {key!r:.80}{why}")
            photos[matched.matches[key]].captions[name] = text
        if lacking := [key for key, photo in photos.items() if name not in photo.captions]:
            raise InputError(
                f"{name} has no caption in {found.language!r} for {len(lacking):,} of the {len(photos):,} "
                f"photos of {found.run.name}, such as {lacking[0]}; ",
                Setting("config"),
                " names the languages to compare in",
            )
    return [*photos.values()]


def _scored(
    name: str, scorer: Scorer, language: _Language, partial: bool
) -> tuple[dict[str, RowStatistics], str]:
    """Scores of the systems in a language, and their signature."""
    photos = _scorable(name, scorer, language, partial)
    component = component_of(name)[1]
    systems, signature = {}, ""
    # what opens no photos is told which they are
    images = [photo.path if scorer.needs_images else photo.key for photo in photos]
    references = None
    if scorer.needs_references:
        references = [photo.references for photo in photos]
    for system in photos[0].captions:
        captions = [photo.captions[system] for photo in photos]
        try:
            scores = scorer.score(captions, images, references, language.code)
        except InputError as error:
            photo = "" if error.row is None else f", photo {photos[error.row].key}"
            raise InputError(f"{name} on {language.run.name}: {system}{photo}: ", *error.parts) from error
        systems[system] = statistics_of(scores, component)
        signature = signature or scores.signature
    # empty captions that the scorer leaves out have no score
    if not np.isfinite([part.scores for part in systems.values()]).all(axis=0).any():
        raise CapscoreError(f"{name} has no score for any photo of {language.run.name}")
    return systems, f"{signature}|component:{component}" if component else signature


def _scorable(name: str, scorer: Scorer, language: _Language, partial: bool) -> list[_Photo]:
    """The photos that a metric can score; an error where some cannot be and `partial` is not given."""
    photos = []
    for photo in language.photos:
        has_image = photo.path is not None or not scorer.needs_images
        if has_image and (photo.references or not scorer.needs_references):
            photos.append(photo)
    n_gone = len(language.photos) - len(photos)
    if not n_gone or (partial and photos):
        return photos
    gone = next(photo.key for photo in language.photos if photo not in photos)
    raise CapscoreError(
        f"{name}: {n_gone:,} of the {len(language.photos):,} photos of {language.run.name} cannot be "
        f"scored; for example, {gone} is missing or has no references; ",
        Setting("partial", True),
        " scores the others",
    )


def _joined(signatures: Sequence[str]) -> str:
    read = [parse_signature(signature) for signature in signatures]
    joined: dict[str, str] = {}
    for _, settings in read:
        for key in settings:
            values = list(dict.fromkeys(other.get(key, "none") for _, other in read))
            joined[key] = values[0] if len(values) == 1 else "var"
            if key == "lang":
                joined[key] = "+".join(values)
    return format_signature(read[0][0], joined)


def _notes_by_config(notes: Sequence[tuple[str, str]]) -> list[str]:
    """Notes of configurations, those that say the same of several as one: "x (de, fr, test) is short"."""
    found: dict[str, list[str]] = {}
    for config, note in notes:
        found.setdefault(note.replace(f"({config},", "({},"), []).append(config)
    return [note.replace("({},", f"({', '.join(configs)},") for note, configs in found.items()]
