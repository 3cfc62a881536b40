"""The training captions of the shipped PR-MCS weights: many sources → one file for the noise gate.

    python -m weights.making.captions --config weights/making/configs/captions.yaml --data DATA \
        --texts texts --out captions.jsonl

In: a folder with the official files of Multi30k, Flickr8k and XFlickrCO, the folder of
`weights.making.package_texts`. Out: JSONL rows of caption, language, `objects` (the places of its nouns),
`words` (places) with their `classes` and `id` (`source/image`), without captions that are used in
measurements (`TESTED`); and their origins for the card.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import listed_photos, token_captions
from capscore.text.segmentation import words
from training.engine.config import main as run_as_command
from training.engine.config import parse
from weights.making.held_out import TESTED, Photo, held_out_photos, official_rows, photo_of
from weights.making.jsonl import beside, print_counts, write_lines, write_sources
from weights.making.noise_gate.texts import MarkedText, marked
from weights.making.package_texts import photo_name, read_texts
from weights.making.settings import named_numbers
from weights.making.sources import SOURCES

MULTI30K = ("en", "de", "fr", "cs")
_STATED = beside(__file__, "captions.yaml")
XFLICKRCO: Mapping[str, Sequence[str]] = _STATED["xflickrco"]
HELD_OUT: str = _STATED["held_out"]
# Number of words of a caption; shorter ones say too little to be perturbed, longer ones take too much time.
MIN_WORDS, MAX_WORDS = 3, 30
# Most emoji names per language: they are short and similar.
MAX_EMOJI_NAMES = 600


@dataclass
class Settings:
    """Settings of the file of captions.

    Attributes:
        data: Folder with the folders multi30k, flickr8k and xflickrco.
        texts: Folder of `weights.making.package_texts`.
        out: File to write.
        package_texts: Number of texts of the packages per language, as language:number.
    """

    data: str
    texts: str
    out: str
    package_texts: list[str] = field(default_factory=list)


class Text(NamedTuple):
    caption: str
    language: str
    image: str  # source/image


def photo_captions(data: Path, held: Collection[Photo]) -> Iterator[Text]:
    """Captions of photos in the training splits, each once, without photos that are held out."""
    seen = set()
    for source, image, language, caption in training_captions(data):
        photo = photo_of(image)
        if photo is not None and photo not in held and (language, caption) not in seen:
            seen.add((language, caption))
            yield Text(caption, language, f"{source}/{photo.number}")


def training_captions(data: Path) -> Iterator[tuple[str, str, str, str]]:
    """Source, image, language and caption of the official training splits."""
    for language in MULTI30K:
        for image, references in _references("multi30k", language, "train", data):
            yield "multi30k", image, language, references[0]
    folder = data / "flickr8k"
    training = set(listed_photos(AnnotationSource(folder / "Flickr_8k.trainImages.txt")))
    for _, _, image, caption in token_captions(AnnotationSource(folder / "Flickr8k.token.txt")):
        if image in training:
            yield "flickr8k", image, "en", caption
    for language, splits in XFLICKRCO.items():
        for split in splits:
            for image, references in _references("xflickrco", language, split, data):
                yield from (("xflickrco", image, language, caption) for caption in references)


def _references(slug: str, config: str, split: str, data: Path) -> Iterator[tuple[str, list[str]]]:
    rows = official_rows(data, slug, config, split)
    return zip(rows["image_id"], rows["references"], strict=True)


def package_captions(
    folder: Path,
    counts: Mapping[str, int],
    photos: Sequence[Photo | None],
    held: Collection[Photo],
    chance: random.Random,
) -> Iterator[Text]:
    """Random texts of `package_texts`: some names of emoji, then descriptions of pictures, then sentences.

    `photos` are those of Multi30k's validation split, for Dutch descriptions.
    """
    for language, most in counts.items():
        kept = []
        for row in read_texts(folder / f"{language}.jsonl"):
            is_whole = MIN_WORDS <= len(words(row["text"], language)) <= MAX_WORDS
            if is_whole and _described(row["id"], photos) not in held:
                kept.append(row)
        chance.shuffle(kept)
        emoji = [row for row in kept if row["source"].startswith("cldr-")][: min(MAX_EMOJI_NAMES, most // 10)]
        pictures = [row for row in kept if not row["source"].startswith(("cldr-", "tatoeba"))]
        sentences = [row for row in kept if row["source"] == "tatoeba"]
        for row in [*emoji, *pictures, *sentences][:most]:
            yield Text(row["text"], language, f"{row['source']}/{row['id']}")


def _described(row_id: str, photos: Sequence[Photo | None]) -> Photo | None:
    if row_id.startswith("dutch-descriptions/"):
        return photos[int(row_id.split("-")[2])]
    return photo_of(photo_name(row_id))


def write_captions(settings: Settings) -> dict[str, Counter[str]]:
    """Write the file; returns language → source → number of captions."""
    data, chance = Path(settings.data), random.Random(0)
    packages = named_numbers(settings.package_texts, "package_texts", int)
    by_language: dict[str, list[Text]] = defaultdict(list)
    held = held_out_photos(data, sets=TESTED).sets
    for text in photo_captions(data, held):
        by_language[text.language].append(text)
    texts: list[Text] = []
    for own in by_language.values():
        chance.shuffle(own)
        texts += own
    numbered = [photo_of(image) for image, _ in _references("multi30k", "en", "validation", data)]
    texts += package_captions(Path(settings.texts), packages, numbered, held, chance)
    marks = _marks(texts)
    chance.shuffle(texts)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    rows = []
    for text in texts:
        counts[text.language][text.image.partition("/")[0]] += 1
        found = marks[text]
        row = {"caption": text.caption, "language": text.language, "objects": found.objects}
        rows.append({**row, "words": found.words, "classes": found.classes, "id": text.image})
    write_lines(settings.out, rows)
    write_sources(settings.out, describe(counts), HELD_OUT)
    return counts


def _marks(texts: Sequence[Text]) -> dict[Text, MarkedText]:
    """Each text's words and nouns."""
    marks = {}
    for language in {text.language for text in texts}:
        own = [text for text in texts if text.language == language]
        marks |= zip(own, marked([text.caption for text in own], language), strict=True)
    return marks


def describe(counts: Mapping[str, Counter[str]]) -> list[dict[str, Any]]:
    """Language → source → number of captions → each source's name, license, url and rows."""
    total = sum(counts.values(), Counter())
    return [SOURCES[source].described(rows) for source, rows in total.most_common()]


def main(argv: Sequence[str] | None = None) -> None:
    print_counts(write_captions(parse(Settings, argv, __doc__ or "")))


if __name__ == "__main__":
    run_as_command(main)
