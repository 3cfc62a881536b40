"""Photos with all their captions in all languages: rows for training and calibrating marks.

    python -m weights.making.mark_calibration.rows --data DATA --texts TEXTS --photos PHOTOS --out FILE \
        [--labelled caltech.jsonl instruments.jsonl] [--coco captions.jsonl] [--things things.jsonl]

In: official caption files, texts of `weights.making.package_texts`, folders of photos, and beside them files
of labels ("a rocket", as of `image_tower.rows.labelled_captions`) and of all of COCO's things in a photo ("a
dog, a frisbee and a person", as of `coco_captions`). Out: JSONL, one photo a row: `photo`,
`file`, `split`, and `captions`, a list of [caption, language, source]. Captions of the sources "labelled" and
"things" are names of what a photo shows, in all languages that `names_of_things` knows; of
"things" they are complete, so no other of COCO's things is there. A photo with a label is of "train". The
split of another photo follows from its number alone:

- "train": no set holds it out;
- "calibrate": held out, and its number gives 0 or 1 when divided by 5; or a photo of COCO that no set holds
  out, with captions and an even number: thresholds are set on its captions;
- "measure": held out otherwise. Such a photo is seen by no training and no calibration.

Photos in the folder `flickr8k/images` of the data are always of "measure". `rows.jsonl.sources.json` lists
the origins of the captions, for the card.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import token_captions
from capscore.errors import InputError
from training.engine.config import main as run_as_command
from training.engine.config import parse
from weights.making.captions import HELD_OUT, describe, photo_captions
from weights.making.held_out import TESTED, HeldOut, Photo, held_out_photos, photo_of
from weights.making.image_tower.rows import COCO, LABELLED, coco_captions, labelled_captions
from weights.making.jsonl import beside, read_lines, sources_file, write_lines, write_sources
from weights.making.package_texts import photo_name, read_texts

# Source of names of all of COCO's things in a photo.
THINGS = "things"
Split = Literal["train", "calibrate", "measure"]
SPLITS: tuple[Split, ...] = get_args(Split)
# Blocks of emoji that picture things, words that name none, and COCO's things.
_KNOWN = beside(__file__, "things.yaml")
COCO_THINGS: list[str] = _KNOWN["coco"]
_NO_THING = frozenset(_KNOWN["no_things"].split())
# One word, of letters alone.
_WORD = re.compile(r"[^\W\d_]{2,}")
# Languages in which a name is one word without blanks, however long.
_UNSPACED = frozenset(("zh", "ja"))
_MOST_UNSPACED = 5


@dataclass
class Settings:
    """Settings of the file of rows.

    Attributes:
        data: Folder with the folders multi30k, flickr8k and xflickrco, which determine what is held out.
        texts: Folder of `weights.making.package_texts`.
        photos: Folder with photos; its folders are searched too.
        out: File to write.
        labelled: Files of labels of photos in the same folder.
        coco: Files of captions of COCO's photos, as `image_tower.rows.coco_captions` reads them.
        things: Files of captions that list all of COCO's things in a photo.
    """

    data: str
    texts: str
    photos: str
    out: str
    labelled: list[str] = field(default_factory=list)
    coco: list[str] = field(default_factory=list)
    things: list[str] = field(default_factory=list)


def split_of(photo: Photo, name: str, held: HeldOut, always: frozenset[Photo] = frozenset()) -> Split | None:
    """The split of a photo; None for one that may not be trained on, but is in no measured set either.

    Its file name may tell COCO's split; photos of `always` are always measured on.

    >>> held = HeldOut({Photo("flickr", 666): ("Flickr8k test",), Photo("flickr", 668): ("Flickr8k test",)})
    >>> [split_of(Photo("flickr", number), f"{number}.jpg", held) for number in (665, 666, 668)]
    ['train', 'calibrate', 'measure']
    """
    if photo in always:
        return "measure"
    if photo in held.sets:
        return "calibrate" if photo.number % 5 < 2 else "measure"
    return None if held.reason(photo, name) else "train"


def photo_files(folder: Path) -> dict[Photo, Path]:
    """The photos of a folder and its folders."""
    files: dict[Photo, Path] = {}
    for path in sorted(folder.rglob("*.jpg")):
        if (photo := photo_of(path.name)) is not None:
            files.setdefault(photo, path)
    if not files:
        raise InputError(f"{folder} has no photo (*.jpg) whose name has a number", field="photos")
    return files


def captions_of(data: Path, texts: Path) -> Iterator[tuple[Photo, str, str, str]]:
    """Photo, caption, language and source of every caption, of held-out photos as well."""
    for text in photo_captions(data, ()):
        source, _, name = text.image.rpartition("/")
        # of xFlickr&CO, the numbers of COCO's photos have at most six digits
        is_of_coco = source == "xflickrco" and len(name) <= 6
        if name.isdecimal():
            yield Photo("coco" if is_of_coco else "flickr", int(name)), text.caption, text.language, source
    # of all photos of Flickr8k, which `photo_captions` reads of its training split alone
    for _, _, image, caption in token_captions(AnnotationSource(data / "flickr8k" / "Flickr8k.token.txt")):
        if (photo := photo_of(image)) is not None:
            yield photo, caption, "en", "flickr8k"
    for file in sorted(texts.glob("*.jsonl")):
        for row in read_texts(file):
            photo = photo_of(photo_name(row["id"]))
            if photo is not None and row["source"] != "mscoco-it":  # whose photos are all of val2014
                yield photo, row["text"], row["language"], row["source"]


def labelled_rows(settings: Settings) -> Iterator[dict[str, Any]]:
    """The rows of labelled photos; the first file that has a photo names it."""
    known: set[Photo] = set()
    for path in settings.labelled:
        captions, files = labelled_captions(Path(path), Path(settings.photos))
        shown: dict[Photo, set[str]] = defaultdict(set)
        for caption in captions:
            shown[caption.photo].add(thing_of(caption.text))
        for photo in [photo for photo in shown if photo not in known]:
            known.add(photo)
            names = [[name, language, LABELLED] for name, language in names_in_all_languages(shown[photo])]
            yield _row(photo, Path(settings.photos) / files[photo], "train", names)


def _row(photo: Photo, file: Path, split: str, captions: list[list[str]]) -> dict[str, Any]:
    return {"photo": str(photo), "file": str(file), "split": split, "captions": captions}


@cache
def names_of_things() -> tuple[dict[str, str], ...]:
    """For each thing: language → its name, in lower case; only names of one word, always one in English.

    >>> violin, = (names for names in names_of_things() if names["en"] == "violin")
    >>> violin["de"], violin["zh"]
    ('geige', '小提琴')
    """
    import emoji

    languages = [code for code in emoji.LANGUAGES if code != "alias"]
    for code in languages:
        emoji.config.load_language(code)
    unique = {}
    for sign, about in emoji.EMOJI_DATA.items():
        points = [point for point in map(ord, sign) if point != 0xFE0F]
        if len(points) == 1 and any(first <= points[0] <= last for first, last in _KNOWN["emoji"]):
            names = {code: name for code in languages if (name := _single_word(about.get(code), code))}
            if names.get("en") and names["en"] not in _NO_THING:
                unique[names["en"]] = names
    return tuple(unique[name] for name in sorted(unique))


def _single_word(name: str | None, code: str) -> str:
    """ ":Name:" → "name"; "" if it is more than one word."""
    plain = (name or "").strip(":").lower()
    is_word = _WORD.fullmatch(plain) and (code not in _UNSPACED or len(plain) <= _MOST_UNSPACED)
    return plain if is_word else ""


def names_in_all_languages(things: Collection[str]) -> list[tuple[str, str]]:
    """English names of things → (name, language) in all languages that are known."""
    translated = {names["en"]: names for names in names_of_things()}
    named = ({**translated.get(thing, {}), "en": thing} for thing in sorted(things))
    return list(dict.fromkeys((name, language) for names in named for language, name in names.items()))


def things_in(caption: str) -> list[str]:
    """The things that a caption lists.

    >>> things_in("a bowl, an orange and a hot dog")
    ['bowl', 'orange', 'hot dog']
    """
    return [thing_of(part) for part in re.split(r", | and ", caption)]


def thing_of(caption: str) -> str:
    """The thing that a label names.

    >>> thing_of("an Owl"), thing_of("A photo of a grand piano.")
    ('owl', 'grand piano')
    """
    plain = caption.strip().rstrip(".").lower().removeprefix("a photo of ")
    return re.sub("^an? ", "", plain)


def write_rows(settings: Settings) -> dict[str, Counter[str]]:
    """Write the file; returns split → language → number of captions."""
    data = Path(settings.data)
    files, held = photo_files(Path(settings.photos)), held_out_photos(data, sets=TESTED)
    pictured = (photo_of(path.name) for path in (data / "flickr8k" / "images").glob("*.jpg"))
    always = frozenset(photo for photo in pictured if photo is not None)
    captions: dict[Photo, dict[tuple[str, str], str]] = defaultdict(dict)
    coco = (item for path in settings.coco for item in coco_captions(Path(path)))
    of_coco = ((item.photo, item.text, item.language, COCO) for item in coco)
    for photo, caption, language, source in chain(captions_of(data, Path(settings.texts)), of_coco):
        if photo in files and caption.strip():
            captions[photo].setdefault((language, caption.strip()), source)
    captioned = frozenset(captions)
    things: dict[Photo, set[str]] = defaultdict(set)
    for item in (item for path in settings.things for item in coco_captions(Path(path))):
        if item.photo in files:
            things[item.photo].update(things_in(item.text))
    for photo, names in things.items():
        for name, language in names_in_all_languages(names):
            captions[photo].setdefault((language, name), THINGS)
    trained: dict[str, Counter[str]] = defaultdict(Counter)
    rows: list[dict[str, Any]] = []
    for photo in sorted(captions):
        split = split_of(photo, files[photo].name, held, always)
        if split is None:
            continue
        if split == "train" and photo in captioned and photo.collection == "coco" and not photo.number % 2:
            split = "calibrate"
        listed = [[caption, language, source] for (language, caption), source in captions[photo].items()]
        own = [item for item in listed if split == "train" or item[2] != THINGS]
        rows.append(_row(photo, files[photo], split, own))
        for _, language, source in own:
            if split == "train" and source not in (THINGS, COCO):
                trained[language][source] += 1
    if not any(row["split"] == "train" for row in rows):
        raise InputError(f"no photo in {settings.photos} has a caption to train on", field="photos")
    rows += labelled_rows(settings)
    write_lines(settings.out, rows)
    sources = describe(trained)
    for path in (*settings.labelled, *settings.coco, *settings.things):
        sources += json.loads(sources_file(path).read_text(encoding="utf-8"))["sources"]
    write_sources(settings.out, sources, HELD_OUT)
    counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    for row in rows:
        counts[row["split"]].update(language for _, language, _ in row["captions"])
    return counts


def read_mark_rows(file: str | Path) -> list[dict[str, Any]]:
    """The rows of a file that this command wrote; raises InputError if it is missing or damaged."""

    def convert(row: Any) -> dict[str, Any]:
        if row["split"] in SPLITS and row["file"] and all(len(item) == 3 for item in row["captions"]):
            return row
        raise ValueError

    return list(read_lines(file, convert, "rows", "row of photo, file, split and captions"))


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    for split, languages in write_rows(parse(Settings, argv, __doc__ or "")).items():
        print(f"{split}: {', '.join(f'{code} {n:,}' for code, n in languages.most_common())}")


if __name__ == "__main__":
    run_as_command(main)
