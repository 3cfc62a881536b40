"""Short texts in 15 languages out of the sources of texts → one `<language>.jsonl` per language.

    python -m weights.making.package_texts --sources build/sources --out texts

In: the folder of `weights.making.sources`. Out: rows {"id", "text", "language", "source", "licence"}. A text
appears once in its language's file, under the first source that has it, in the order of the manifest. A model
trained on Tatoeba's test sets (Tiedemann 2020) cannot be tested on translation there.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from capscore.errors import CapscoreError
from capscore.files.write import write_text
from training.engine.config import main as run_as_command
from training.engine.config import parse
from weights.making.caption_grammar import LANGUAGES
from weights.making.jsonl import beside, print_counts, read_lines, with_texts
from weights.making.sources import SOURCES, TEST, Source

_STATED = beside(__file__, "package_texts.yaml")
# (id without the source's name, language, text as the package has it)
Text = tuple[str, str, str]
Files = Mapping[str, bytes]


def _emoji_names(files: Files, languages: Sequence[str]) -> Iterator[Text]:
    for path, content in files.items():
        _, part, language, _ = path.split("/")
        table = json.loads(content)[part]["annotations"] if language in languages else {}
        for characters, entry in table.items():
            for name in entry.get("tts", ()):
                yield "-".join(f"{ord(character):x}" for character in characters), language, name


def _listed_captions(files: Files, languages: Sequence[str], mark: str = "\t") -> Iterator[Text]:
    """Lines of a photo's key, a tab or another mark, and its caption, all in one language."""
    for language, content in itertools.product(languages, files.values()):
        for line in _unpacked(content).decode("utf-8").splitlines():
            key, separator, text = line.partition(mark)
            if separator:
                yield key, language, text


def _coco_captions(files: Files, languages: Sequence[str]) -> Iterator[Text]:
    """Files in the form of COCO's captions, in one language; ids are a photo's file and a caption's id."""
    for language, content in itertools.product(languages, files.values()):
        listed = json.loads(_unpacked(content))
        names = {str(image["id"]): image["file_name"] for image in listed["images"]}
        for row in listed["annotations"]:
            # a file may hold the captions of more photos than it names
            if (name := names.get(str(row["image_id"]))) is not None:
                yield f"{name}#{row['id']}", language, row["caption"]


def _unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _dutch_descriptions(files: Files, languages: Sequence[str]) -> Iterator[Text]:
    for language, (path, content) in itertools.product(languages, files.items()):
        for photo, text in enumerate(content.decode("utf-8").splitlines()):
            yield f"validation-{photo}-{path.rpartition('.')[2]}", language, text


def _jsts(files: Files, languages: Sequence[str]) -> Iterator[Text]:
    """Both captions of each pair: "photo-caption-caption", or "photo_photo-caption-caption" of two photos."""
    for language, content in itertools.product(languages, files.values()):
        for pair in map(json.loads, content.decode("utf-8").splitlines()):
            photos, *captions = pair["yjcaptions_id"].split("-")
            first, _, second = photos.partition("_")
            for number, photo in enumerate((first, second or first)):
                yield f"{photo}-{captions[number]}", language, pair[f"sentence{number + 1}"]


def _tatoeba(files: Files, languages: Sequence[str]) -> Iterator[Text]:
    """Sentences, each under a digest; lines that are labelled as of another language are left out."""
    for path, content in files.items():
        code = path.rpartition(".")[2]
        language = _STATED["codes"].get(code, "")
        if language not in languages:
            continue
        lines, labelled = _lines(content), files.get(f"{path}.labels")
        labels = [code] * len(lines) if labelled is None else _lines(labelled)
        if len(labels) != len(lines):
            raise CapscoreError(f"tatoeba: {path} is not line-aligned with its labels")
        for line, label in zip(map(_clean, lines), labels, strict=True):
            if label in _STATED["labels"].get(code, [code]):
                said = f"{language}\t{line}".encode()
                yield hashlib.sha1(said, usedforsecurity=False).hexdigest()[:16], language, line


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8").removesuffix("\n").split("\n")


# Form of a source's files → what reads them.
READERS: dict[str, Callable[[Files, Sequence[str]], Iterable[Text]]] = {
    "emoji names": _emoji_names,
    "lines": _listed_captions,
    "lines with blanks": partial(_listed_captions, mark=" "),
    "coco": _coco_captions,
    "dutch descriptions": _dutch_descriptions,
    "jsts": _jsts,
    "tatoeba": _tatoeba,
}
# Sources of texts, without those that are for measuring alone; a text that several have is of the first.
TEXTS = tuple(source for source in SOURCES if source.form and not source.name.endswith(TEST))


@dataclass
class Settings:
    """Settings of the files of texts.

    Attributes:
        sources: Folder of `weights.making.sources`.
        out: Folder to write to.
    """

    sources: str
    out: str


@cache  # packages repeat many sentences
def _clean(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def source_texts(source: Source, folder: str | Path) -> Iterator[dict[str, str]]:
    """Rows of one source, with repeated texts: {"id", "text", "language", "source", "licence"}.

    `folder` is that of `weights.making.sources`; CapscoreError if its files there are not whole. Texts are in
    Unicode's form NFC with single blanks.
    """
    for key, language, text in READERS[source.form](source.read(Path(folder)), source.languages):
        if cleaned := _clean(text):
            row = {"id": f"{source.name}/{key}", "text": cleaned, "language": language}
            yield {**row, "source": source.name, "licence": source.licence}


def write_texts(folder: Path, out: Path) -> dict[str, Counter[str]]:
    """Write `<language>.jsonl` for each language; returns language → number of rows per source.

    The first source of a repeated text is kept.
    """
    lines: dict[str, dict[str, str]] = {language: {} for language in LANGUAGES}
    counts: dict[str, Counter[str]] = {language: Counter() for language in LANGUAGES}
    for source in TEXTS:
        for row in source_texts(source, folder):
            if row["text"] not in (known := lines[row["language"]]):
                known[row["text"]] = json.dumps(row, ensure_ascii=False) + "\n"
                counts[row["language"]][source.name] += 1
    for language, found in lines.items():
        write_text(out / f"{language}.jsonl", "".join(found.values()), "texts")
    return counts


def read_texts(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of this module; raises InputError if it is missing or damaged."""
    return read_lines(path, with_texts("id", "text", "language", "source"), "texts", "row of package_texts")


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


def main(argv: Sequence[str] | None = None) -> None:
    settings = parse(Settings, argv, __doc__ or "")
    print_counts(write_texts(Path(settings.sources), Path(settings.out)))


if __name__ == "__main__":
    run_as_command(main)
