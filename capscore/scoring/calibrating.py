"""Measures the scores of right captions, and of captions of other photos: the calibration of a metric."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import __version__
from ..errors import InputError, Setting, TruncationWarning, without_warnings
from ..files.columns import columns_of, find_reference_columns, read_inputs
from ..files.image_folder import ImageFolder
from ..files.row_source import CHUNK_ROWS, RowSource
from ..files.write import write_text
from ..images.load import content_key
from ..metrics.base import Scorer
from ..metrics.calibration import ALL, FORMAT, MIN_PHOTOS, PERCENTS, RIGHT, SHUFFLED, Distribution
from ..metrics.loading import ScorerLoader, check_options, metric_names
from ..metrics.rows import parse_signature
from ..metrics.scores import Scores
from ..options import LoadOptions, RowOptions, check_whole_number, split_options
from ..registry import METRICS
from ..tables import Report, Result, Table, fixed
from ..text.languages import language_code
from ..text.letters import folded
from .files import open_rows_to_score

if TYPE_CHECKING:
    import pandas as pd

_PERCENTS = (5, 25, 50, 75, 95)  # those that a table shows


class CaptionedPhoto(NamedTuple):
    """A right caption of a photo."""

    photo: str
    image: object
    caption: str
    language: str = ""
    references: list[str] | None = None


@dataclass(frozen=True)
class CalibrationFile(Result):
    """Percentiles of right captions, and of captions of other photos; made by `calibrate`."""

    document: dict[str, Any]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return self.document

    def to_pandas(self) -> pd.DataFrame:
        """A `pandas.DataFrame`, one line per metric, language and kind of captions, a column per percent."""
        import pandas as pd

        lines = []
        for entry in self.document["metrics"]:
            for language, kinds in entry["languages"].items():
                for kind, found in kinds.items():
                    line = {
                        "metric": entry["metric"],
                        "language": language,
                        "captions": kind,
                        "n": found["n"],
                    }
                    lines.append(line | dict(zip(self.document["percents"], found["values"], strict=True)))
        return pd.DataFrame(lines)

    def save(self, path: str | Path) -> None:
        """Write the file that `score --calibration` reads; each list of numbers is on one line."""
        text = json.dumps(self.document, ensure_ascii=False, indent=1)
        lines = re.sub(r"\[[-\d.,e\s]+\]", lambda numbers: " ".join(numbers[0].split()), text)
        write_text(path, f"{lines}\n")

    def report(self) -> Report:
        return Report(
            "", [calibration_table(self.document), calibration_counts(self.document)], unbroken=True
        )


def calibrate(
    rows: str | Path | RowSource | Iterable[Mapping[str, object]],
    metrics: str | Sequence[str] = "mcs",
    *,
    name: str | None = None,
    shuffled: int = 10,
    n_references: Sequence[int] = (),
    seed: int = 0,
    **options: object,
) -> CalibrationFile:
    """Measure the scores of right captions, and of captions of other photos, on a set.

    Args:
        rows: File, folder or list of right captions, one per row, with their photos; several captions of a
            photo and several languages are fine.
        metrics: Metrics, METRIC or METRIC@BACKBONE.
        name: Name of the set, shown beside scores; None for the file's.
        shuffled: Number of captions of other photos that are scored for each right one.
        n_references: Numbers of other captions of the photo that are its references, where the rows have
            none; () for all of them.
        seed: Seed for the choice of other captions.
        **options: How rows are read (`capscore.options.RowOptions`) and metrics loaded (`capscore.load`).

    Raises:
        InputError: a row that cannot be read, too few photos, an option that does not apply.
        CapscoreError: an unknown metric or option, a metric that cannot be loaded.

    >>> found = capscore.calibrate("captions.jsonl", "mcs@embedded", images="photos")     # doctest: +SKIP
    >>> found.save("mine.json")                                                           # doctest: +SKIP
    """
    read, load = split_options(options, RowOptions, LoadOptions)
    check_whole_number("shuffled", shuffled, 1)
    named = metric_names(metrics)
    chosen = [(metric, backbone) for metric, _, backbone in (text.partition("@") for text in named)]
    check_options([metric for metric, _ in chosen], load.arguments())
    with_lists = any(METRICS.get(metric).needs(load.arguments())[1] for metric, _ in chosen)
    source = open_rows_to_score(rows, read)
    captions, notes = read_captioned_photos(source, read, with_lists)
    loader = ScorerLoader(load.arguments())
    entries, learned = [], dict[str, object]()
    for metric, backbone in chosen:
        scorer = loader(metric, backbone or None)
        sizes: Sequence[int | None] = (n_references if scorer.needs_references else ()) or (None,)
        for size in sizes:
            entry = calibrate_metric(scorer, captions, shuffled=shuffled, n_references=size, seed=seed)
            new = entry.pop("learned")
            if both := sorted(learned.keys() & new.keys()):
                problem = f": a file holds one {' and one '.join(both)}, and two backbones would write it"
                raise InputError(Setting("metrics"), problem)
            learned |= new
            entries.append(entry)
    today = datetime.now(timezone.utc).date().isoformat()
    whole = document(
        entries, captions, name=name or source.path.stem, made=today, shuffled=shuffled, seed=seed
    )
    return CalibrationFile(whole | learned, tuple(notes))


def read_captioned_photos(
    source: RowSource, options: RowOptions, with_references: bool
) -> tuple[list[CaptionedPhoto], list[str]]:
    """All captions of a source, with photos by name, each checked to be text; notes on how they were read."""
    listed = with_references and bool(find_reference_columns(source.columns, options.references_column))
    names = columns_of(source, options, with_references=listed)
    folder = ImageFolder(Path(options.images or source.folder), allow_urls=options.allow_urls)
    rows = []
    first: dict[str, object] = {}  # an image that is stored in the file is kept once
    keys: dict[str, str] = {}  # name of a file → key of its content
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, folder)
        if inputs.problems:
            row = min(inputs.problems)
            raise source.at(inputs.problems[row], chunk, row)
        for row, image in enumerate(inputs.images or ()):
            name = str(image) if isinstance(image, str | Path) else ""
            photo = keys.get(name) or content_key(image, allow_urls=options.allow_urls)
            if name:
                keys[name] = photo
            code = (inputs.languages[row] if inputs.languages else options.language) or ""
            language = language_code(code) if code else ""
            references = inputs.references[row] if listed and inputs.references else None
            image = first.setdefault(photo, image)
            rows.append(CaptionedPhoto(photo, image, inputs.candidates[row], language, references))
    return rows, [*source.notes, *names.notes]


def _photos_per_language(rows: Sequence[CaptionedPhoto]) -> Counter[str]:
    return Counter(language for _, language in {(row.photo, row.language) for row in rows})


def usable_rows(
    rows: Sequence[CaptionedPhoto], languages: frozenset[str] | None = None
) -> list[CaptionedPhoto]:
    """Each caption of a photo once, in those languages (None for all) that have `MIN_PHOTOS` photos."""
    rows = _distinct(rows)
    photos = _photos_per_language(rows)
    return [
        row
        for row in rows
        if photos[row.language] >= MIN_PHOTOS
        and (languages is None or not row.language or row.language in languages)
    ]


def _distinct(rows: Sequence[CaptionedPhoto]) -> list[CaptionedPhoto]:
    found: dict[tuple[str, str, str], CaptionedPhoto] = {}
    for row in rows:
        found.setdefault((row.photo, row.language, row.caption), row)
    return list(found.values())


def with_references(rows: Sequence[CaptionedPhoto], number: int | None) -> list[CaptionedPhoto]:
    """Each caption with the first `number` other captions of its photo (None for all) as references."""
    of_photo = defaultdict(list)
    for index, row in enumerate(rows):
        of_photo[row.photo, row.language].append(index)
    found = []
    for index, row in enumerate(rows):
        others = [rows[other].caption for other in of_photo[row.photo, row.language] if other != index]
        if len(others) >= (number or 1):
            found.append(row._replace(references=others[:number]))
    return found


def calibrate_metric(
    scorer: Scorer,
    rows: Sequence[CaptionedPhoto],
    *,
    shuffled: int = 10,
    n_references: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Percentiles of a metric over right captions, and over captions of other photos in the same language.

    Returns:
        One entry of `document`, ready for JSON, and what the metric "learned" (see `Scorer.learn`).
    """
    if scorer.compares_rows:
        raise InputError(
            f"{scorer.metric}: the scores depend on which rows are scored together, so they have no fixed "
            "percentiles; give fixed ",
            Setting("document_frequencies"),
        )
    has_references = any(row.references is not None for row in rows)
    if scorer.needs_references and has_references and n_references is not None:
        raise InputError(Setting("n_references", n_references), ": the rows have their own references")
    if scorer.needs_references and not has_references:
        rows = with_references(_distinct(rows), n_references)
    backbone = getattr(scorer, "backbone", None)
    known = getattr(backbone, "languages", None)
    present = [f"{n} in {code or 'no language'}" for code, n in _photos_per_language(rows).most_common()]
    rows = usable_rows(rows, known)
    owners, others = other_captions(rows, shuffled, seed)
    if not owners:
        and_references = " and references" if scorer.needs_references else ""
        if and_references and n_references is not None:
            and_references = f" and {n_references} other captions as references"
        raise InputError(
            f"{scorer.metric}: no language that the metric knows has {MIN_PHOTOS} photos with "
            f"captions{and_references}; photos: {', '.join(present) or 'none'}"
        )
    wrong_rows = [
        rows[owner]._replace(caption=rows[other].caption) for owner, other in zip(owners, others, strict=True)
    ]
    right, wrong = _score(scorer, rows), _score(scorer, wrong_rows)
    learned = scorer.learn(right, wrong)
    if learned:  # which moves the scores
        right, wrong = _score(scorer, rows), _score(scorer, wrong_rows)
    languages: dict[str, dict[str, object]] = {}
    for kind, listed, scores in ((RIGHT, rows, right.scores), (SHUFFLED, wrong_rows, wrong.scores)):
        for language in [ALL, *sorted({row.language for row in wrong_rows} - {""})]:
            found = Distribution.of(scores[[language in (ALL, row.language) for row in listed]])
            languages.setdefault(language, {})[kind] = {"n": found.n, "values": list(found.values)}
    return {
        "metric": scorer.metric,
        "signature": right.signature,
        "backbone": backbone and {"name": backbone.name, "fingerprint": backbone.fingerprint},
        "truncated": right.n_truncated,
        "among_all": None if known is None else sorted(known - {*languages}),
        "varied": _varied(right, languages),
        "languages": languages,
        "learned": learned,
    }


def _varied(scores: Scores, languages: Iterable[str]) -> dict[str, dict[str, str]]:
    """Setting that may differ from row to row → language, or "all" → its value; several are joined."""
    found: dict[str, dict[str, str]] = {}
    for name, values in scores.varied.items():
        for language in languages:
            present = {
                value
                for value, spoken in zip(values, scores.languages, strict=True)
                if language in (ALL, spoken)
            }
            found.setdefault(name, {})[language] = "+".join(sorted(present))
    return found


def other_captions(rows: Sequence[CaptionedPhoto], number: int, seed: int) -> tuple[list[int], list[int]]:
    """Rows, and up to `number` rows of other photos in the same language for each: indices, equally many.

    A caption that a photo has itself is not drawn for it, however it is written in capitals and blanks.
    """
    rng = np.random.default_rng(seed)
    by_language = defaultdict(list)
    for index, row in enumerate(rows):
        by_language[row.language].append(index)
    owners: list[int] = []
    others: list[int] = []
    for indices in by_language.values():
        # photos side by side, so that "not of this photo" is all but one stretch
        indices = sorted(indices, key=lambda index: (rows[index].photo, index))
        photos = [rows[index].photo for index in indices]
        captions = [folded(rows[index].caption).rstrip(".!。 ") for index in indices]
        places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, (photo, caption) in enumerate(zip(photos, captions, strict=True)):
            places["photo", photo].append(place)
            places["caption", caption].append(place)
        right: dict[str, set[int]] = defaultdict(set)
        for photo, caption in zip(photos, captions, strict=True):
            right[photo].update(places["photo", photo], places["caption", caption])
        # places that are not right, before each that is
        gaps = {photo: np.array(sorted(taken)) - np.arange(len(taken)) for photo, taken in right.items()}
        for index, photo in zip(indices, photos, strict=True):
            n_others = len(indices) - len(right[photo])
            drawn = rng.choice(n_others, size=min(number, n_others), replace=False) if n_others else ()
            drawn = np.sort(drawn)
            # the n-th place that is not right is as many places further as right ones come before it
            for place in drawn + np.searchsorted(gaps[photo], drawn, side="right"):
                owners.append(index)
                others.append(indices[int(place)])
    return owners, others


def document(
    entries: Sequence[dict[str, object]],
    rows: Sequence[CaptionedPhoto],
    *,
    name: str,
    made: str,
    shuffled: int,
    seed: int,
) -> dict[str, object]:
    """A file of calibrations, ready for JSON: results of `calibrate`, and on what they were measured."""
    rows = usable_rows(rows)
    languages = Counter(row.language or "unstated" for row in rows)
    counts = {"photos": len({row.photo for row in rows}), "captions": len(rows)}
    return {
        "format": FORMAT,
        "set": {"name": name, **counts, "languages": dict(sorted(languages.items()))},
        "made": made,
        "version": __version__,
        "shuffled_per_caption": shuffled,
        "seed": seed,
        "percents": list(PERCENTS),
        "metrics": list(entries),
    }


def _score(scorer: Any, rows: Sequence[CaptionedPhoto]) -> Scores:
    images = [row.image for row in rows] if scorer.needs_images else None
    references = [row.references for row in rows] if scorer.needs_references else None
    languages = [row.language or None for row in rows]
    with without_warnings(TruncationWarning):  # the entry says how many
        captions = [row.caption for row in rows]
        return scorer.score(captions, images, references, languages if any(languages) else None)


def calibration_table(document: Mapping[str, Any], language: str = "all") -> Table:
    """Percentiles of right captions, and of captions of other photos, per metric."""
    places = [document["percents"].index(percent) for percent in _PERCENTS]
    rows = []
    for entry in document["metrics"]:
        name = _metric_with_references(entry["metric"], entry["signature"])
        for kind, scores in entry["languages"].get(language, {}).items():
            values = [fixed(scores["values"][place], 3) for place in places]
            rows.append((name, kind, f"{scores['n']:,}", *values))
            name = ""  # once per metric
    return Table(("metric", "captions", "n", *(f"{percent} %" for percent in _PERCENTS)), rows, left=2)


def _metric_with_references(metric: str, signature: str) -> str:
    count = parse_signature(signature)[1].get("refs", "0")
    return {"0": metric, "1": f"{metric}, 1 reference"}.get(count, f"{metric}, {count} references")


def calibration_counts(document: Mapping[str, Any]) -> str:
    captions = document["set"]
    languages = ", ".join(f"{code} {count:,}" for code, count in captions["languages"].items())
    return (
        f"{captions['name']}: {captions['captions']:,} captions of {captions['photos']:,} photos "
        f"({languages}), measured on {document['made']} with capscore {document['version']}; up to "
        f"{document['shuffled_per_caption']} captions of other photos for each."
    )
