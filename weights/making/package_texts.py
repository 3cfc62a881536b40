"""Short texts in 15 languages out of the sources of texts → one `<language>.jsonl` per language.

    python -m weights.making.package_texts --sources build/sources --out texts

In: the folder of `weights.making.sources`. Out: rows {"id", "text", "language", "source", "licence"}. A text
appears once in its language's file, under the first source that has it, in the order of the manifest. A model
trained on Tatoeba's test sets (Tiedemann 2020) cannot be tested on translation there.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from capscore.files.write import write_text
from weights.making.jsonl import beside, print_counts, read_lines
from weights.making.settings import command
from weights.making.sources import LANGUAGES, SOURCES, TEST, Source

_STATED = beside(__file__, "package_texts.yaml")
Files = Mapping[str, bytes]
# (id without the source's name, language or "" for that of the source, text as the package has it)
Texts = Iterator[tuple[str, str, str]]


def _emoji_names(path: str, content: str, files: Files) -> Texts:
    _, part, language, _ = path.split("/")
    for characters, entry in json.loads(content)[part]["annotations"].items():
        for name in entry.get("tts", ()):
            yield "-".join(f"{ord(character):x}" for character in characters), language, name


def _listed_captions(path: str, content: str, files: Files, mark: str = "\t") -> Texts:
    """Lines of a photo's key, a tab or another mark, and its caption."""
    for line in content.splitlines():
        key, separator, text = line.partition(mark)
        if separator:
            yield key, "", text


def _coco_captions(path: str, content: str, files: Files) -> Texts:
    """A file in the form of COCO's captions; ids are a photo's file and a caption's id."""
    listed = json.loads(content)
    names = {str(image["id"]): image["file_name"] for image in listed["images"]}
    for row in listed["annotations"]:
        # a file may hold the captions of more photos than it names
        if (name := names.get(str(row["image_id"]))) is not None:
            yield f"{name}#{row['id']}", "", row["caption"]


def _dutch_descriptions(path: str, content: str, files: Files) -> Texts:
    for photo, text in enumerate(content.splitlines()):
        yield f"validation-{photo}-{path.rpartition('.')[2]}", "", text


def _jsts(path: str, content: str, files: Files) -> Texts:
    """Both captions of each pair: "photo-caption-caption", or "photo_photo-caption-caption" of two photos."""
    for pair in map(json.loads, content.splitlines()):
        photos, *captions = pair["yjcaptions_id"].split("-")
        first, _, second = photos.partition("_")
        for number, photo in enumerate((first, second or first)):
            yield f"{photo}-{captions[number]}", "", pair[f"sentence{number + 1}"]


def _korsts(path: str, content: str, files: Files) -> Texts:
    """Both sentences of each pair, without those of photos, whose numbers are not told."""
    for row in csv.DictReader(content.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
        if row["filename"] not in _STATED["of_photos"]:
            for number in "12":
                name = "-".join([row["filename"], row["year"], row["id"], number])
                yield name, "", row[f"sentence{number}"]


def _tatoeba(path: str, content: str, files: Files) -> Texts:
    """Sentences, each under a digest; lines that are labelled as of another language are left out."""
    code = path.rpartition(".")[2]
    if (language := _STATED["codes"].get(code)) is None:
        return
    lines = content.removesuffix("\n").split("\n")
    labels = [code] * len(lines)
    if (labelled := files.get(f"{path}.labels")) is not None:
        labels = labelled.decode("utf-8").removesuffix("\n").split("\n")
    for line, label in zip(map(_clean, lines), labels, strict=True):
        if label in _STATED["labels"].get(code, [code]):
            said = f"{language}\t{line}".encode()
            yield hashlib.sha1(said, usedforsecurity=False).hexdigest()[:16], language, line


# Form of a source's files → what reads one of them: its path, its content, and all files of the source.
READERS: dict[str, Callable[[str, str, Files], Texts]] = {
    "emoji names": _emoji_names,
    "lines": _listed_captions,
    "lines with blanks": partial(_listed_captions, mark=" "),
    "coco": _coco_captions,
    "dutch descriptions": _dutch_descriptions,
    "jsts": _jsts,
    "korsts": _korsts,
    "tatoeba": _tatoeba,
}
# Sources of texts, without those that are for measuring alone; a text that several have is of the first.
TEXTS = tuple(source for source in SOURCES.values() if source.form and not source.name.endswith(TEST))


@cache  # packages repeat many sentences
def _clean(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def source_texts(source: Source, folder: str | Path) -> Iterator[dict[str, str]]:
    """Rows of one source, with repeated texts: {"id", "text", "language", "source", "licence"}.

    `folder` is that of `weights.making.sources`; CapscoreError if its files there are not whole. Texts are in
    Unicode's form NFC with single blanks.
    """
    files = source.read(Path(folder))
    for path, content in files.items():
        plain = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        for key, stated, text in READERS[source.form](path, plain.decode("utf-8"), files):
            language, cleaned = stated or source.languages[0], _clean(text)
            if cleaned and language in source.languages:
                row = {"id": f"{source.name}/{key}", "text": cleaned, "language": language}
                yield {**row, "source": source.name, "licence": source.licence}


def write_texts(folder: Path, out: Path) -> dict[str, Counter[str]]:
    """Write `<language>.jsonl` for each language; returns language → number of rows per source.

    The first source of a repeated text is kept.
    """
    rows: dict[str, dict[str, dict[str, str]]] = {language: {} for language in LANGUAGES}
    for source in TEXTS:
        for row in source_texts(source, folder):
            rows[row["language"]].setdefault(row["text"], row)
    for language, found in rows.items():
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in found.values()]
        write_text(out / f"{language}.jsonl", "".join(lines), "texts")
    return {language: Counter(row["source"] for row in found.values()) for language, found in rows.items()}


def read_texts(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of this module; raises InputError if it is missing or damaged."""
    return read_lines(path, "texts", ("id", "text", "language", "source"), dict)


def photo_name(row_id: str) -> str:
    """The file name of the photo that a text describes, by the text's id; "" where the id names none.

    >>> photo_name("jsts/9-5"), photo_name("tatoeba/0a1b")
    ('COCO_train2014_000000000009.jpg', '')
    """
    source, _, name = row_id.partition("/")
    number = name.partition("-")[0]
    if source == "jsts" and number.isdecimal():
        # YJ Captions are of train2014 alone (Miyazaki and Shimizu 2016)
        return f"COCO_train2014_{number:0>12}.jpg"
    return name if source in _STATED["of_files"] else ""


@command(sources="folder of weights.making.sources", out="folder to write to")
def main(sources: Path, out: Path) -> None:
    print_counts(write_texts(sources, out))


if __name__ == "__main__":
    main()
