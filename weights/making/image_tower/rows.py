"""Official caption files and a folder of photos → training rows, one per photo, without what is held out.

Captions of one photo come together by its number, in whatever source they are. Photos whose pixels are not
there give rows of captions alone, for the text side.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from capscore.errors import InputError
from training.engine.processes import say
from weights.making.captions import training_captions
from weights.making.held_out import HeldOut, Photo, first_names, held_out_photos, photo_files, photo_of
from weights.making.package_texts import photo_name, read_texts
from weights.making.settings import TowerSettings

# Sources of `weights.making.package_texts` that caption photos, each with its language.
PACKAGE_TEXTS = {"flickr8k-cn": "zh", "arabic-flickr8k": "ar", "jsts": "ja", "coco-cn-extension": "zh"}
SOURCES = ("flickr8k", "multi30k", "xflickrco", *PACKAGE_TEXTS)


# Source, file name of the photo or id of the caption as the source has it, language and text.
Caption = tuple[str, str, str, str]


class PhotoRow(NamedTuple):
    photo: Photo
    name: str  # path in the folder of photos; for captions alone, its name in the first source
    file: Path | None  # where its pixels are; None for captions alone
    captions: dict[str, tuple[str, ...]]  # language → captions, each once, in the order of the sources


@dataclass(frozen=True)
class TrainingRows:
    """The rows to train on, in order of collection and number."""

    photos: list[PhotoRow]  # with pixels
    texts: list[PhotoRow]  # without pixels, two captions or more
    counts: Counter[str]  # source → captions
    left_out: Counter[str]  # source → captions of photos that are held out


def rows_of(settings: TowerSettings) -> tuple[TrainingRows, HeldOut]:
    given = settings.data, settings.photos, settings.texts
    data, folder, texts = (Path(path).expanduser() for path in given)
    files, captions = photo_files(folder), read_captions(data, texts)
    held = held_out_photos(data, [*files, *(name for _, name, *_ in captions)])
    rows = training_rows(captions, folder, files, held)
    say(f"{len(rows.photos):,} photos, and captions of {len(rows.texts):,} without pixels")
    for source in sorted({*rows.left_out, *rows.counts}):
        say(f"  {source}: {rows.counts[source]:,} captions, {rows.left_out[source]:,} left out")
    return rows, held


def read_captions(data: Path, texts: Path) -> list[Caption]:
    """The captions of all sources, held out or not; InputError if a source has none."""
    found = list(training_captions(data))
    for language in dict.fromkeys(PACKAGE_TEXTS.values()):
        for row in read_texts(texts / f"{language}.jsonl"):
            if row["source"] in SOURCES:
                found.append((row["source"], photo_name(row["id"]), language, row["text"]))
    if missing := set(SOURCES) - {source for source, *_ in found}:
        raise InputError(f"{texts} has no caption of {', '.join(sorted(missing))}", field="texts")
    return sorted(found, key=lambda caption: SOURCES.index(caption[0]))


def training_rows(
    captions: Iterable[Caption], folder: Path, files: Mapping[str, Photo], held: HeldOut
) -> TrainingRows:
    """Captions → rows, without what is held out; InputError if no photo in the folder has a caption."""
    names = first_names(files)
    # photo → language and folded text → language, text, name and source
    found: dict[Photo, dict[tuple[str, str], tuple[str, str, str, str]]] = defaultdict(dict)
    left_out: Counter[str] = Counter()
    for source, name, language, given in captions:
        photo, text = photo_of(name), " ".join(given.split())
        if photo is not None and not held.reason(photo, name):
            found[photo].setdefault((language, text.casefold()), (language, text, name, source))
        else:
            left_out[source] += 1
    seen, texts, counts = [], [], Counter[str]()
    for photo, own in sorted(found.items()):
        rows: dict[str, tuple[str, ...]] = {}
        for language, text, *_ in own.values():
            rows[language] = (*rows.get(language, ()), text)
        if photo in names:
            seen.append(PhotoRow(photo, names[photo], folder / names[photo], rows))
        elif len(own) > 1:
            texts.append(PhotoRow(photo, next(iter(own.values()))[2], None, rows))
        else:
            continue
        counts.update(source for *_, source in own.values())
    if not seen:
        raise InputError("no caption is of an available photo that may be trained on", field="photos")
    return TrainingRows(seen, texts, counts, left_out)
