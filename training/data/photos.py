"""Rows → the photos that they describe, whatever stands in for them; a list of names → those it names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from capscore.errors import InputError
from capscore.files.matching import match_hold_out
from capscore.files.photo_names import parts_of
from capscore.tables import counted
from capscore.text.letters import folded
from training.data.rows import Row

# Number of a photo, or its name without suffix, and behind it the folders, from the innermost.
_Name = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Photos:
    """The photos of n rows: the number of each row's photo (n,), and the names that a list may have for it.

    Of several pictures of a photo, its key is the first content key in alphabetical order.
    """

    number: np.ndarray
    keys: list[str]
    names: list[tuple[str, ...]]


def photos_of(rows: Sequence[Row], contents: Sequence[str]) -> Photos:
    """Find which rows describe one photo; `contents` are the content keys of their images or stand-ins.

    Rows do if what they describe has equal content, if they give the photo one name, or if a text that stands
    in for the photo of a row without such a name is a caption of the other's photo, or stands in for it.
    Names agree as far as both name folders: `dog/1.jpg` and `1` do, `dog/1.jpg` and `cat/1.jpg` do not.
    """
    nameless = [row for row in rows if row.stand_in and not row.photo]
    texts = {folded(text) for row in nameless for text in row.stand_in}
    ids = {row.names[0] for row in nameless if row.names}
    given = {_split_name(name) for name in ids.union(*(row.photo for row in rows))}
    linked = DisjointSet(contents)

    def link(content: str, other: Hashable) -> None:
        linked.add(other)
        linked.merge(content, other)

    for row, content in zip(rows, contents, strict=True):
        for name in row.photo or ids.intersection(row.names[:1]):
            for tail in _tails(_split_name(name)):
                if tail in given:
                    link(content, tail)
        said = set(row.stand_in)
        if np.isnan(row.rating):  # a caption that people rated may be of another photo
            said.add(row.caption)
        for text in map(folded, said):
            if text in texts:
                link(content, f"said {text}")
    keys: dict[Hashable, str] = {}
    for content in contents:
        root = linked[content]
        keys[root] = min(content, keys.get(root, content))
    numbers = {root: number for number, root in enumerate(keys)}
    number = np.array([numbers[linked[content]] for content in contents], dtype=np.int64)
    return Photos(number, list(keys.values()), [row.names for row in rows])


def read_names(path: str | Path) -> list[str]:
    """The names in a list, one per line, each once; an InputError if it cannot be read, or is empty."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the list {path} cannot be read: {reason}", field="hold_out") from None
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        raise InputError(f"the list {path} is empty; expected one id or image name per line")
    return list(dict.fromkeys(names))


def held_out(photos: Photos, listed: Sequence[str]) -> tuple[np.ndarray, str]:
    """Which photos a list names, by the rules of `capscore.files.matching.match_hold_out`.

    Returns bool (u,), and how much was found, in words. InputError if that is none, or a name is not clear.
    """
    labels = []
    for names in photos.names:
        split = {name: _split_name(name) for name in names}
        tails = {tail for name in split.values() for tail in _tails(name)[:-1]}
        whole = [name for name in names if split[name] not in tails]
        labels.append(sorted(whole, key=lambda name: -len(split[name])))
    found = match_hold_out(listed, labels)
    if found.ambiguous:
        name = found.ambiguous[0]
        problem = f"the name {name!r:.60} on the list is not clear: {found.unmatched[name]}; name its folder"
        raise InputError(problem, field="hold_out")
    if not found.rows:
        first = next(filter(None, photos.names), ())
        a_row = f"a row is named {', '.join(map(repr, first)) or 'by no id or name of an image'}"
        raise InputError(f"{found.sentence()}; {a_row}", field="hold_out")
    held = np.zeros(len(photos.keys), bool)
    held[photos.number[found.rows]] = True
    n_rows, n_photos = int(held[photos.number].sum()), int(held.sum())
    return held, f"{counted(n_rows, 'row')} of {counted(n_photos, 'photo')}; {found.sentence()}"


def _split_name(name: str) -> _Name:
    """A name, as names are compared.

    >>> _split_name("dog/0012.jpg"), _split_name("val2014/COCO_val2014_000000391895.jpg")
    (('12', 'dog'), ('391895',))
    """
    parts = parts_of(name)
    return parts.number or parts.stem, *reversed(parts.folders)


def _tails(name: _Name) -> list[_Name]:
    """A name with ever more of its folders."""
    return [name[:end] for end in range(1, len(name) + 1)]
