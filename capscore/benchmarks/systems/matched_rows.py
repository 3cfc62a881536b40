"""Puts the captions of systems beside the photos and references of a set, in each language."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, Setting
from ..tasks import captioned_sets
from .captions import SystemCaptions, photo_key

_SHOWN = 3


@dataclass(frozen=True)
class Photo:
    """A photo of the set: its key, its path (None where it is missing), its references."""

    key: str
    path: str | None
    references: list[str]


@dataclass(frozen=True)
class MatchedRows:
    """What is scored in one language.

    Attributes:
        language, config: Language, and the configuration that has references in it.
        n_whole: Number of photos of the set.
        photos: Photos of which all systems have a caption, in the order of the set.
        captions: System → their captions.
        is_published: Whether the set has as many rows as were published.
    """

    language: str
    config: str
    n_whole: int
    photos: list[Photo]
    captions: dict[str, list[str]]
    is_published: bool = True

    def keep(self, kept: Sequence[bool]) -> MatchedRows:
        """The rows of some of the photos."""
        return dataclasses.replace(
            self,
            photos=list(itertools.compress(self.photos, kept)),
            captions={name: list(itertools.compress(texts, kept)) for name, texts in self.captions.items()},
        )


def configs_by_language(slug: str, configs: Sequence[str] | None) -> dict[str, str]:
    """Language → configuration: those that are named, or one for each language.

    Args:
        slug: Name of a set of captioned photos.
        configs: Names of configurations, each in another language; None for all languages.

    Raises:
        InputError: not a set of captioned photos, an unknown configuration, or two for one language.
    """
    from ..data.load import builder_class, config_name

    if slug not in captioned_sets():
        raise InputError(
            f"{slug!r} is not a set of captioned photos; those are {', '.join(captioned_sets())}"
        )
    kind = builder_class(slug)
    language = {known.name: known.language for known in kind.BUILDER_CONFIGS}
    found: dict[str, list[str]] = {}
    for name in [config_name(slug, one) for one in configs] if configs else language:
        if name not in found.setdefault(language[name], []):
            found[language[name]].append(name)
    chosen = {}
    for code, names in found.items():
        usual = [name for name in names if name in (code, kind.DEFAULT_CONFIG_NAME)]
        if len(names) > 1 and (configs or len(usual) != 1):
            raise InputError(
                f"{slug} has several sets of references in {code!r}: choose one of {', '.join(names)} with ",
                Setting("config"),
            )
        chosen[code] = usual[0] if len(usual) == 1 else names[0]
    return chosen


def known_languages(slug: str) -> list[str]:
    """The languages that a set of captioned photos has references in.

    >>> known_languages("xm3600")[:3]
    ['ar', 'bn', 'cs']
    """
    from ..data.load import builder_class

    return list(dict.fromkeys(known.language for known in builder_class(slug).BUILDER_CONFIGS))


def match_captions(
    code: str,
    config: str,
    slug: str,
    rows: Sequence[tuple[str, Mapping[str, Any]]],
    systems: Sequence[SystemCaptions],
    *,
    common_rows: bool,
) -> MatchedRows:
    """The captions of all systems in a language, in the order of the set's photos.

    Args:
        code, config: Language, and the configuration that has references in it.
        slug: Name of the set.
        rows: Rows of the configuration.
        systems: What the systems say.
        common_rows: Whether only photos that all systems with this language have are kept; otherwise a
            system without one of the photos is an error.

    Raises:
        InputError: a photo that the set does not have, or that a system has no caption of.
    """
    photos: dict[str, Photo] = {}
    for _, row in rows:
        key = photo_key(row["image_id"])
        known = photos.setdefault(key, Photo(key, row["image"], []))
        known.references.extend(row["references"])
    where = f"{slug} · {config}"
    for one in systems:
        for key, caption in one.captions.get(code, {}).items():
            if key not in photos:
                raise InputError(f"{caption.place}: {where} has no photo {key!r:.80}")
    present = [one for one in systems if code in one.captions]
    for one in systems:
        lacking = [key for key in photos if key not in one.captions.get(code, {})]
        if lacking and not common_rows:
            such = ", ".join(lacking[:_SHOWN])
            what = (
                f"no caption in {code!r}, and {' and '.join(other.name for other in present)} has"
                if one not in present and present
                else f"no caption in {code!r}"
                if one not in present
                else f"no caption in {code!r} of {len(lacking):,} of the {len(photos):,} photos of {where}, "
                f"such as {such}"
            )
            raise InputError(
                f"{one.path} has {what}; ",
                Setting("common_rows", True),
                " compares systems on the languages and photos that they have in common",
            )
    both = [key for key in photos if all(key in one.captions[code] for one in present)]
    if not both or not present:
        raise InputError(f"no photo of {where} has a caption by {' and '.join(one.name for one in present)}")
    return MatchedRows(
        code,
        config,
        len(photos),
        [photos[key] for key in both],
        {one.name: [one.captions[code][key].text for key in both] for one in present},
    )
