"""Training rows of the shipped InfoMetIC weights: Flickr8k's photos with captions in several languages.

    python -m weights.making.infometic --data DATA --captions captions.jsonl --photos PHOTOS --out rows.jsonl

In: the captions of `weights.making.captions` and a folder of Flickr8k's photos. Out: JSONL rows for
`weights.making.infometic_network` of image, caption, language, `boxes` (some windows of the photo, the same
for all its captions) and `id`. Some captions have a second row with their beginning, which says less about
the photo. Photos of all test and validation splits and of rated sets are left out
(`weights.making.held_out`). For the card, `rows.jsonl.sources.json` lists the origins of the rows.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from capscore.errors import ImageError, InputError
from capscore.images.load import load_image
from capscore.infometic.regions import windows
from capscore.infometic.words import CaptionWord, caption_words
from training.engine.config import main as run_as_command
from training.engine.config import parse
from weights.making.captions import describe
from weights.making.held_out import Photo, held_out_photos, photo_of
from weights.making.jsonl import read_lines, with_texts, write_lines, write_sources
from weights.making.mark_calibration.rows import photo_files
from weights.making.named_numbers import named_numbers
from weights.making.sources import source_named

# Sources whose photos may be in Flickr8k.
OF_PHOTOS = ("flickr8k", "multi30k", "xflickrco", "arabic-flickr8k", "flickr8k-cn", "framed-multi30k")
# Windows of each photo.
WINDOWS = 6
# Languages without prepositions or similar words: a beginning may end anywhere.
_NO_PREPOSITIONS = ("ja", "zh")


@dataclass
class Settings:
    """Settings of the file of rows.

    Attributes:
        data: Folder with the folders multi30k, flickr8k and xflickrco, which determine what is held out.
        captions: File of `weights.making.captions`.
        photos: Folder of Flickr8k's photos.
        out: File to write.
        most: Most captions per language, as language:number; languages that are not named have none.
        beginnings: Share of the captions whose beginning is a row as well.
    """

    data: str
    captions: str
    photos: str
    out: str
    most: list[str] = field(
        default_factory="en:28000 zh:14000 de:6000 fr:6000 pt:8000 ar:6000 cs:3000 ja:2000 es:500".split
    )
    beginnings: float = 0.2

    def __post_init__(self) -> None:
        named_numbers(self.most, "most", int)
        if not 0 <= self.beginnings <= 1:
            raise InputError(f"{self.beginnings!r}: expected a share from 0 to 1", field="beginnings")


class PhotoCaption(NamedTuple):
    caption: str
    language: str
    source: str
    photo: str  # its file name


def captions_of_photos(
    rows: Iterable[Mapping[str, Any]], files: Mapping[Photo, Path]
) -> Iterator[PhotoCaption]:
    """The rows of `weights.making.captions` that caption one of the photos; each caption once."""
    seen = set()
    for row in rows:
        caption = row["caption"]
        source = row["id"].partition("/")[0]
        photo = photo_of(row["id"].rpartition("/")[2])
        key = (row["language"], caption.casefold())
        if source in OF_PHOTOS and photo in files and key not in seen:
            seen.add(key)
            yield PhotoCaption(caption, row["language"], source, files[photo].name)


def beginning(caption: str, language: str, words: Sequence[CaptionWord], chance: random.Random) -> str:
    """A beginning of a caption that has at least two semantic words and leaves out a noun; "" for none.

    It ends before a word that is not semantic, such as a preposition, except in Japanese and Chinese.
    """
    semantic = [word.semantic for word in words]
    anywhere = language in _NO_PREPOSITIONS
    ends = [
        end
        for end in range(2, len(words))
        if (anywhere or not semantic[end])
        and sum(semantic[:end]) >= 2
        and semantic[end - 1]
        and any(word.word_class == "noun" for word in words[end:])
    ]
    return caption[: words[chance.choice(ends) - 1].end] if ends else ""


def photo_windows(path: Path) -> list[list[float]]:
    """Some windows of a photo, drawn by its name; never the whole photo."""
    try:
        boxes = windows(load_image(path).size)[1:]
    except ImageError as error:
        raise InputError(error.message, field="photos") from None
    chosen = random.Random(f"0 {path.name}").sample(range(len(boxes)), min(WINDOWS, len(boxes)))
    return boxes[sorted(chosen)].tolist()


def write_rows(settings: Settings) -> dict[str, Counter[str]]:
    """Write the file; returns language → source → number of rows."""
    chance = random.Random(0)
    files, held = photo_files(Path(settings.photos)), held_out_photos(Path(settings.data))
    files = {photo: path for photo, path in files.items() if not held.reason(photo, path.name)}
    cells = ("id", "language", "caption")
    rows = read_lines(settings.captions, with_texts(*cells), "captions", f"row of {', '.join(cells)}")
    found: dict[str, list[PhotoCaption]] = defaultdict(list)
    for caption in captions_of_photos(rows, files):
        found[caption.language].append(caption)
    chosen = []
    for language, most in named_numbers(settings.most, "most", int).items():
        chance.shuffle(found[language])
        chosen += found[language][:most]
    if not chosen:
        raise InputError(
            f"{settings.captions} has no caption of the photos in {settings.photos}", field="captions"
        )
    everything = [*chosen, *_beginnings(chosen, settings.beginnings, chance)]
    chance.shuffle(everything)
    photos = dict.fromkeys(caption.photo for caption in everything)
    boxes = {photo: photo_windows(Path(settings.photos) / photo) for photo in photos}
    lines = [
        {
            "image": item.photo,
            "caption": item.caption,
            "language": item.language,
            "boxes": boxes[item.photo],
            "id": f"{item.source}/{photo_of(item.photo).number}",
        }
        for item in everything
    ]
    write_lines(settings.out, lines)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for item in everything:
        counts[item.language][item.source] += 1
    described = [source_named("flickr8k-photos").described(len(boxes)), *describe(counts)]
    write_sources(settings.out, described, held.statement())
    return counts


def _beginnings(chosen: Sequence[PhotoCaption], share: float, chance: random.Random) -> list[PhotoCaption]:
    by_language: dict[str, list[PhotoCaption]] = defaultdict(list)
    for item in chosen:
        if chance.random() < share:
            by_language[item.language].append(item)
    found = []
    for language, own in by_language.items():
        for item, words in zip(own, caption_words([item.caption for item in own], language), strict=True):
            if text := beginning(item.caption, language, words, chance):
                found.append(item._replace(caption=text))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    counts = write_rows(parse(Settings, argv, __doc__ or ""))
    for language, sources in sorted(counts.items()):
        print(f"{language}: {', '.join(f'{name} {n:,}' for name, n in sources.most_common())}")


if __name__ == "__main__":
    run_as_command(main)
