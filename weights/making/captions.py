"""The training captions of the shipped PR-MCS weights: many sources → one file for `training.pr_mcs`.

    python -m weights.making.package_texts --out texts
    python -m weights.making.captions --data DATA --texts texts --out captions.jsonl

In: a folder with the official files of Multi30k, Flickr8k and XFlickrCO, the folder of
`weights.making.package_texts`, and this project's grammar. Out: JSONL rows of caption, language, `objects`
(the places of its nouns), `stand_in` (a text whose embedding replaces the photo's: another English caption of
the photo where there is one) and `id` (`source/image`). Captions that are used in measurements are left out:
see `held_out`. For the card, `captions.jsonl.sources.json` lists the origins of the captions with licences
and counts.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.flickr8k_captions import listed_photos, token_captions
from capscore.benchmarks.data.load import load_benchmark
from capscore.errors import InputError
from capscore.files.whole_file import whole_file, write_text
from capscore.perturbations import find_nouns
from capscore.text.segmentation import words
from training.engine.config import language_counts, parse
from training.engine.config import main as run_as_command
from weights.making.caption_grammar import generate
from weights.making.held_out import TESTED, held_out_photos
from weights.making.package_texts import MORE_SOURCES, SOURCES

MULTI30K = ("en", "de", "fr", "cs")
XFLICKRCO = {
    "de": ("train_1500", "train_200x5"),
    "ja": ("train_1500", "train_200x5"),
    **dict.fromkeys(("es", "ru", "tr", "zh"), ("train_100",)),
}
_COCO = re.compile(r"COCO_(?:train|val|test)20\d\d_(\d+)")
# Captions of test photos are there for measuring alone.
_PACKAGES = tuple(source.name for source in (*SOURCES, *MORE_SOURCES) if not source.name.endswith("-test"))
# Sources whose ids begin with the file of a photo.
_OF_FILES = (
    "coco-cn-extension",
    "arabic-flickr8k",
    "flickr8k-cn",
    "framed-multi30k",
    "turkish-coco",
    "mscoco-it",
)
# Sources other than packages: name, licence as its owners state it, address.
OTHER_SOURCES = {
    "multi30k": (
        "Multi30k, training split",
        "none stated, for research",
        "https://github.com/multi30k/dataset",
    ),
    "flickr8k": ("Flickr8k, training split", "for research only", "https://doi.org/10.1613/jair.3994"),
    "xflickrco": ("xFlickr&CO, few-shot training files", "MIT", "https://github.com/e-bug/iglue"),
    "grammar": ("caption grammar of capscore (weights/making/caption_grammar.py)", "Apache-2.0", ""),
}
HELD_OUT = (
    "every caption, in every set and language, of photos in a test split of Multi30k, xFlickr&CO or "
    "Flickr8k, of those that Flickr8k-Expert or Flickr8k-CF rates, and of the 83 Flickr8k photos that are "
    "measured on; the sets XVNLI, MaRVL, VALSE, Pascal-50S and the others as a whole"
)
# Number of words of a caption; shorter ones say too little to be perturbed, longer ones take too much time.
SHORTEST, LONGEST = 3, 30
# Most emoji names per language: they are short and similar.
MOST_EMOJI_NAMES = 600


@dataclass
class Settings:
    """Settings of the file of captions.

    Attributes:
        data: Folder with the folders multi30k, flickr8k and xflickrco.
        texts: Folder of `weights.making.package_texts`.
        out: File to write.
        most: Most captions of photos per language, as language:number; other languages have all.
        package_texts: Number of texts of the packages per language.
        grammar: Number of captions of the grammar per language.
        copies: Number of copies of each caption of a photo, for languages with few.
        lower_share: Share of the captions that are lower-cased, as in many data sets.
        seed: Seed for all random draws.

    Raises:
        InputError: a setting is missing or out of range.
    """

    data: str = ""
    texts: str = ""
    out: str = ""
    most: list[str] = field(default_factory=list)
    package_texts: list[str] = field(
        default_factory=lambda: (
            "en:40000 de:30000 fr:30000 cs:24000 ja:60000 es:60000 zh:68000 ru:50000 pt:200000 it:80000 "
            "nl:50000 pl:44000 tr:60000 ar:44000 ko:8900"
        ).split()
    )
    grammar: list[str] = field(
        default_factory=lambda: (
            "en:2000 de:5000 fr:1500 cs:1500 ja:9000 es:10000 zh:6000 ru:5000 pt:4000 it:4000 nl:3000 "
            "pl:4000 tr:8000 ar:3000 ko:3500"
        ).split()
    )
    copies: list[str] = field(default_factory=list)
    lower_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("data", "texts", "out"):
            if not getattr(self, name):
                raise InputError(f"--{name} is missing; see --help", field=name)
        for name in ("most", "package_texts", "grammar", "copies"):
            self.counts(name)
        if not 0 <= self.lower_share <= 1:
            raise InputError(f"{self.lower_share!r}: expected a share from 0 to 1", field="lower_share")

    def counts(self, name: str) -> dict[str, int]:
        """A setting of the form language:number, as language → number.

        Raises:
            InputError: an entry of another form, or a language that is named twice.
        """
        return language_counts(getattr(self, name), name)


@dataclass(frozen=True)
class Text:
    """A caption whose nouns may not be found yet.

    Attributes:
        caption: The caption.
        language: Its language.
        image: Source and image, as source/image.
        stand_in: Text that replaces the photo.
        nouns: Places of its nouns; None if they are not known yet.
    """

    caption: str
    language: str
    image: str
    stand_in: str
    nouns: tuple[tuple[int, int], ...] | None = None


def short_name(image: str | int) -> str:
    """An image's id without the suffix and secret that data sets spell differently.

    >>> short_name("1000268201_693b08cb0e.jpg"), short_name(1000268201)
    ('1000268201', '1000268201')
    >>> short_name("COCO_val2014_000000398076.jpg#657409"), short_name(398076)
    ('398076', '398076')
    """
    coco = _COCO.match(str(image))
    return str(int(coco.group(1))) if coco else str(image).split("_")[0].split(".")[0]


def held_out(data: Path) -> frozenset[str]:
    """Photos that no training caption may describe, in any set and language, by `short_name`.

    These are the photos of every test split of Multi30k, XFlickrCO and Flickr8k, those that Flickr8k's raters
    saw, and those in the folder `images`.

    Raises:
        CapscoreError: a file is missing or damaged, or a list of Flickr8k names no photo.
    """
    return frozenset(str(photo.number) for photo in held_out_photos(data, sets=TESTED).sets)


def photo_captions(data: Path, held: Collection[str]) -> Iterator[Text]:
    """Captions of photos in the training splits, without photos that are held out.

    Raises:
        CapscoreError: a file is missing or damaged.
    """
    english: dict[str, list[str]] = defaultdict(list)
    found: list[tuple[str, str, str]] = []  # source/image, language, caption
    for language in MULTI30K:
        images = _column("multi30k", language, "train", data, "image_id")
        listed = _column("multi30k", language, "train", data, "references")
        found += [
            (f"multi30k/{short_name(image)}", language, row[0])
            for image, row in zip(images, listed, strict=True)
        ]
    flickr8k = data / "flickr8k"
    training = set(listed_photos(AnnotationSource(flickr8k / "Flickr_8k.trainImages.txt")))
    tokens = AnnotationSource(flickr8k / "Flickr8k.token.txt")
    for line, _, image, caption in token_captions(tokens):
        tokens.caption(caption, "the caption", line=line)  # raises where it is blank
        if image in training:
            found.append((f"flickr8k/{short_name(image)}", "en", caption))
    for language, splits in XFLICKRCO.items():
        for split in splits:
            images = _column("xflickrco", language, split, data, "image_id")
            for image, captions in zip(
                images, _column("xflickrco", language, split, data, "references"), strict=True
            ):
                found += [(f"xflickrco/{short_name(image)}", language, caption) for caption in captions]
    for image, language, caption in found:
        if language == "en":
            english[short_of(image)].append(caption)
    seen = set()
    for image, language, caption in found:
        photo = short_of(image)
        if photo in held or (language, caption) in seen:
            continue
        seen.add((language, caption))
        # a caption does not stand in for its own photo, if there is another
        others = [text for text in english[photo] if text != caption]
        yield Text(caption, language, image, others[0] if others else caption)


def short_of(image: str) -> str:
    """The photo of a `Text.image`."""
    return image.rpartition("/")[2]


def package_captions(
    folder: Path,
    counts: dict[str, int],
    photos: Mapping[str, str],
    held: Collection[str],
    chance: random.Random,
) -> Iterator[Text]:
    """Random texts of the packages: some names of emoji, then descriptions of pictures, then sentences.

    Args:
        folder: Folder of `weights.making.package_texts`.
        counts: Number of texts per language.
        photos: Row number in Multi30k's validation split → its photo, for Dutch descriptions.
        held: Photos whose descriptions are left out.
        chance: Random generator.

    Raises:
        InputError: a file is missing or damaged.
    """
    english = {}
    for row in _rows(folder / "en.jsonl"):
        english.setdefault(row["id"], row["text"])
    for language, most in counts.items():
        rows = [
            row
            for row in _rows(folder / f"{language}.jsonl")
            if _is_caption_long(row["text"], language) and _described(row["id"], photos) not in held
        ]
        chance.shuffle(rows)
        emoji = [row for row in rows if row["source"].startswith("cldr")][: min(MOST_EMOJI_NAMES, most // 10)]
        described = [
            row for row in rows if row["source"] not in ("tatoeba",) and not row["source"].startswith("cldr")
        ]
        sentences = [row for row in rows if row["source"] == "tatoeba"]
        for row in [*emoji, *described, *sentences][:most]:
            yield Text(
                row["text"], language, f"{row['source']}/{row['id']}", english.get(row["id"], row["text"])
            )


def _described(row_id: str, photos: Mapping[str, str]) -> str:
    """The photo that a text of the packages describes; "" for none."""
    source, _, name = row_id.partition("/")
    if source in _OF_FILES:
        return short_name(name)
    if source == "jsts":
        return name.partition("-")[0]  # COCO's number, as short_name has it
    if source == "dutch-descriptions":
        try:
            return photos[name.split("-")[1]]
        except (KeyError, IndexError):
            raise InputError(
                f"{row_id} describes no photo in Multi30k's validation split, which has {len(photos):,}",
                field="texts",
            ) from None
    return ""


def grammar_captions(counts: dict[str, int], seed: int) -> Iterator[Text]:
    """Captions of the grammar, each with its English version."""
    languages = sorted({"en", *counts})
    for number, scene in enumerate(generate(max(counts.values(), default=0), languages, seed)):
        for language, most in counts.items():
            if number < most:
                caption = scene[language]
                yield Text(
                    caption.text, language, f"grammar/{number}", scene["en"].text, tuple(caption.nouns)
                )


def write_captions(settings: Settings) -> dict[str, Counter[str]]:
    """Write the file; returns language → source → captions.

    Raises:
        CapscoreError: a file is missing or damaged, or no nouns can be found in a language.
    """
    data, chance = Path(settings.data), random.Random(settings.seed)
    most, copies = settings.counts("most"), settings.counts("copies")
    photos: dict[str, list[Text]] = defaultdict(list)
    held = held_out(data)
    for text in photo_captions(data, held):
        photos[text.language].append(text)
    texts: list[Text] = []
    for language, found in photos.items():
        chance.shuffle(found)
        texts += found[: most.get(language)] * copies.get(language, 1)
    validation = _column("multi30k", "en", "validation", data, "image_id")
    numbered = {str(number): short_name(image) for number, image in enumerate(validation)}
    texts += package_captions(Path(settings.texts), settings.counts("package_texts"), numbered, held, chance)
    texts += grammar_captions(settings.counts("grammar"), settings.seed)
    nouns = _nouns(texts)
    chance.shuffle(texts)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    with whole_file(Path(settings.out), "the captions", make_folders=True) as file:
        for text in texts:
            places = nouns[text.language, text.caption] if text.nouns is None else text.nouns
            lower = text.caption.lower()
            is_lower = chance.random() < settings.lower_share and len(lower) == len(text.caption)
            row = {
                "caption": lower if is_lower else text.caption,
                "language": text.language,
                "stand_in": text.stand_in,
                "objects": [list(place) for place in places],
                "id": text.image,
            }
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            counts[text.language][text.image.partition("/")[0]] += 1
    write_text(sources_file(settings.out), json.dumps(describe(counts), indent=2) + "\n", "the sources")
    return counts


def sources_file(captions: str | Path) -> Path:
    """The file that lists the origins of a file of captions."""
    return Path(f"{captions}.sources.json")


def describe(counts: Mapping[str, Counter[str]]) -> dict[str, Any]:
    """Language → source → number of captions → what the card needs: "held_out" and "sources"."""
    of_packages = {
        source.name: (source.name, source.licence, source.package)
        if source.kind == "git"
        # a package has no address
        else (f"{source.name} ({source.kind} package {source.package} {source.version})", source.licence, "")
        for source in (*SOURCES, *MORE_SOURCES)
    }
    total = sum(counts.values(), Counter())
    return {
        "held_out": HELD_OUT,
        "sources": [
            dict(
                zip(("name", "license", "url"), {**of_packages, **OTHER_SOURCES}[source], strict=True),
                rows=rows,
            )
            for source, rows in total.most_common()
        ],
    }


def _nouns(texts: Iterable[Text]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    unknown: dict[str, dict[str, None]] = defaultdict(dict)
    for text in texts:
        if text.nouns is None:
            unknown[text.language][text.caption] = None
    return {
        (language, caption): places
        for language, captions in unknown.items()
        for caption, places in zip(captions, find_nouns(list(captions), language), strict=True)
    }


def _is_caption_long(text: str, language: str) -> bool:
    return SHORTEST <= len(words(text, language)) <= LONGEST


def _column(slug: str, config: str, split: str, data: Path, column: str) -> Sequence:
    return load_benchmark(slug, config, split=split, data_dir=data / slug, images=False)[column]


def _lines(path: Path, field: str) -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {reason}", field=field) from None
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def read_rows(
    path: Path,
    names: Sequence[str],
    field: str,
    expected: str,
    known: Mapping[str, Collection[str]] | None = None,
) -> list[dict[str, Any]]:
    """The rows of a JSONL file with some required text cells.

    Args:
        path: The file.
        names: Cells that must be texts and not empty.
        field: Setting that names the file.
        expected: Description of a line, for errors.
        known: Cell → values that it may have.

    Raises:
        InputError: the file cannot be read, or a line is malformed; names the line.
    """
    rows = []
    for number, line in _lines(path, field):
        try:
            row = json.loads(line)
            if not all(isinstance(row[name], str) and row[name] for name in names):
                raise ValueError
            if any(row[name] not in choices for name, choices in (known or {}).items()):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{path}, line {number}: {line!r:.60}; expected {expected}", field=field
            ) from None
        rows.append(row)
    return rows


def _rows(path: Path) -> list[dict[str, str]]:
    expected = f"a row of weights.making.package_texts: id, text, and as source one of {', '.join(_PACKAGES)}"
    return read_rows(path, ("id", "text", "source"), "texts", expected, {"source": _PACKAGES})


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    settings = parse(Settings, argv, __doc__ or "")
    counts = write_captions(settings)
    for language, sources in sorted(counts.items(), key=lambda entry: -entry[1].total()):
        print(
            f"{language}  {sources.total():7,}  "
            + ", ".join(f"{n:,} {name}" for name, n in sources.most_common())
        )


if __name__ == "__main__":
    run_as_command(lambda: main(sys.argv[1:]))
