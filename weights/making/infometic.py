"""Training rows of the shipped InfoMetIC weights: Flickr8k's photos with captions in several languages.

In: the captions of `weights.making.captions` and a folder of Flickr8k's photos. Out: JSONL rows for
`weights.making.infometic_network` of image, caption, language, `boxes` (some windows of the photo, the same
for all its captions) and `id`, and their origins for the card. Some captions have a second row with their
beginning, which says less about the photo. Photos that are held out are left out (`weights.making.held_out`).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capscore.errors import InputError
from capscore.images.load import load_image
from capscore.infometic.regions import windows
from capscore.infometic.words import CaptionWord, words_by_language
from training.engine.config import main as run_as_command
from training.engine.config import parse
from weights.making.captions import describe
from weights.making.held_out import HeldOut, first_names, held_out_photos, photo_files, photo_of
from weights.making.jsonl import print_counts, read_lines, write_lines, write_sources
from weights.making.settings import named_numbers
from weights.making.sources import SOURCES

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


def captions_of_photos(held: HeldOut, captions: Path, photos: Path) -> dict[str, list[dict[str, str]]]:
    """Language → rows of captions of the photos that are not held out, each once."""
    names = first_names(photo_files(photos))
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    seen = set()
    for row in read_lines(captions, "captions", ("id", "language", "caption"), dict):
        language, caption, source = row["language"], row["caption"], row["id"].partition("/")[0]
        photo = photo_of(row["id"].rpartition("/")[2])
        if source not in OF_PHOTOS or photo not in names or held.reason(photo, names[photo]):
            continue
        if (language, caption.casefold()) not in seen:
            seen.add((language, caption.casefold()))
            image = {"image": names[photo], "caption": caption, "language": language}
            found[language].append({**image, "id": f"{source}/{photo.number}"})
    return found


def beginning(caption: str, language: str, words: Sequence[CaptionWord], chance: random.Random) -> str:
    """A beginning of a caption that has at least two semantic words and leaves out a noun; "" for none.

    It ends before a word that is not semantic, such as a preposition, except in Japanese and Chinese.
    """
    semantic, nouns = ([word.semantic for word in words], [word.word_class == "noun" for word in words])
    ends = []
    for end in range(2, len(words)):
        may_end = language in _NO_PREPOSITIONS or not semantic[end]
        if may_end and semantic[end - 1] and sum(semantic[:end]) >= 2 and any(nouns[end:]):
            ends.append(end)
    return caption[: words[chance.choice(ends) - 1].end] if ends else ""


def photo_windows(path: Path) -> list[list[float]]:
    """Some windows of a photo, drawn by its name; never the whole photo."""
    boxes = windows(load_image(path).size)[1:]
    chosen = random.Random(f"0 {path.name}").sample(range(len(boxes)), min(WINDOWS, len(boxes)))
    return boxes[sorted(chosen)].tolist()


def write_rows(settings: Settings) -> dict[str, Counter[str]]:
    """Write the file; returns language → source → number of rows."""
    captions, photos = Path(settings.captions), Path(settings.photos)
    chance, chosen = random.Random(0), []
    held = held_out_photos(Path(settings.data))
    found = captions_of_photos(held, captions, photos)
    for language, most in named_numbers(settings.most, "most", int).items():
        chance.shuffle(found[language])
        chosen += found[language][:most]
    if not chosen:
        raise InputError(f"{captions} has no caption of the photos in {photos}", field="captions")
    shortened = [row for row in chosen if chance.random() < settings.beginnings]
    texts, languages = ([row[name] for row in shortened] for name in ("caption", "language"))
    rows = [*chosen]
    for row, words in zip(shortened, words_by_language(texts, languages), strict=True):
        if text := beginning(row["caption"], row["language"], words, chance):
            rows.append({**row, "caption": text})
    chance.shuffle(rows)
    boxes = {name: photo_windows(photos / name) for name in {row["image"] for row in rows}}
    write_lines(settings.out, ({**row, "boxes": boxes[row["image"]]} for row in rows))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row["language"]][row["id"].partition("/")[0]] += 1
    described = [SOURCES["flickr8k-photos"].described(len(boxes)), *describe(counts)]
    write_sources(settings.out, described, held.statement())
    return counts


def main(argv: Sequence[str] | None = None) -> None:
    print_counts(write_rows(parse(Settings, argv, __doc__ or "")))


if __name__ == "__main__":
    run_as_command(main)
