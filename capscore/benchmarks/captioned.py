"""Sets of captioned photos → their photos with the references of a language, to score systems' captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import InputError, Setting
from ..files.photo_names import id_text
from ..options import RowOptions
from .reading import Configuration, read_benchmark
from .results import BenchmarkRun
from .tasks import check_captioned, task_of


class PhotoReferences(NamedTuple):
    """A photo, known by its id; its path is None where it is missing."""

    key: str
    path: str | None
    references: list[str]


@dataclass(frozen=True)
class CaptionedPhotos:
    """The photos of a set, in its order, with their references in one language."""

    language: str
    run: BenchmarkRun
    photos: list[PhotoReferences]


def configs_by_language(slug: str, configs: Sequence[str] = ()) -> dict[str, str]:
    """Language → configuration of a set of captioned photos: those that are named, or one per language.

    "all" names one per language too, unless it is the name of a configuration.
    """
    from .data.load import builder_class, config_names, means_all

    check_captioned(slug)
    kind = builder_class(slug)
    language_of = {known.name: known.language for known in kind.BUILDER_CONFIGS}
    names_of: dict[str, list[str]] = {}
    by_name = not means_all(slug, configs)
    for name in config_names(slug, configs):
        if task_of(slug, name).captioned:
            names_of.setdefault(language_of[name], []).append(name)
        elif by_name:
            raise InputError(f"{slug} ({name}) is not a set of captioned photos", field="config")
    chosen = {}
    for language, names in names_of.items():
        usual = [name for name in names if name in (language, kind.DEFAULT_CONFIG_NAME)]
        if len(names) > 1 and (by_name or len(usual) != 1):
            raise InputError(
                f"{slug} has several sets of references in {language!r}: choose one of {', '.join(names)} "
                "with ",
                Setting("config"),
            )
        chosen[language] = usual[0] if len(usual) == 1 else names[0]
    return chosen


def languages_of(slug: str) -> list[str]:
    from .data.load import builder_class

    return list(dict.fromkeys(known.language for known in builder_class(slug).BUILDER_CONFIGS))


def captioned_photos(
    language: str,
    where: Configuration,
    rows: RowOptions = RowOptions(),
    *,
    images: bool | None = None,
    readings: dict[tuple[str, str], object] | None = None,
) -> CaptionedPhotos:
    """Read the photos of a set, and all references of each in a language."""
    run, found = read_benchmark(where, rows, images=images, readings=readings)
    photos: dict[str, PhotoReferences] = {}
    for _, row in found:
        key = id_text(row["image_id"])
        photo = photos.setdefault(key, PhotoReferences(key, row["image"], []))
        photo.references.extend(row["references"])
    return CaptionedPhotos(language, run, list(photos.values()))
