"""What METEOR 1.5 knows of words: tokens, stems, synonyms and paraphrases, from the data in pycocoevalcap.

In: texts. Out: their tokens, and for each word or phrase those that METEOR matches with it. The data are
files of the program's jar and its English table of paraphrases, which is sorted once a machine.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from ..embedding.cache import EmbeddingCache
from ..errors import CapscoreError, MissingExtraError
from ..files.scratch import scratch_folder
from .spice import program_folder

# how two phrases can match; PARAPHRASE of the reference's phrase, PARAPHRASED: of the candidate's
EXACT, STEM, SYNONYM, PARAPHRASE, PARAPHRASED = range(5)
_PIECE = 1 << 16  # bytes of the table that are read at once
_TABLE = "meteor-paraphrases-0"  # start of the names of the table's files; another number for another form

# parameters of languages, letters and splits of METEOR's tokeniser, and WordNet's inflections
DATA = json.loads(Path(__file__).with_name("meteor.json").read_text(encoding="utf-8"))
_LETTER = DATA["letter"]
_SPLITS = [(re.compile(pattern.replace("«letter»", _LETTER)), into) for pattern, into in DATA["splits"]]
_NEEDS_NO_SPLIT = re.compile("[a-z0-9 ]*")
# the first that leads to a word of WordNet counts
_INFLECTIONS = [pair.split(":") for pair in DATA["inflections"].split()]


class Knowledge:
    """What METEOR knows of one language.

    Raises:
        MissingExtraError: pycocoevalcap or snowballstemmer is not installed.
        CapscoreError: snowballstemmer 3 or later is installed, whose stems are not METEOR's.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            stems = version("snowballstemmer")
        except PackageNotFoundError:
            raise MissingExtraError("snowballstemmer", "meteor", "METEOR") from None
        if int(stems.partition(".")[0]) > 2:
            raise CapscoreError(
                f"METEOR needs snowballstemmer 2, and {stems} is installed, whose stems differ: "
                "pip install 'snowballstemmer<3'"
            )
        self._home = program_folder("meteor", "meteor-1.5.jar", "meteor", "METEOR")

    @cached_property
    def function_words(self) -> frozenset[str]:
        """Words that count less than others; the program takes the English ones for every language."""
        return frozenset(_lines(self._home, "function/english.words"))

    @cached_property
    def _abbreviations(self) -> dict[str, bool]:
        """Words whose period belongs to them → whether it does so before numbers only."""
        lines = (line.partition(" ") for line in _lines(self._home, f"nonbreaking/{self.name}.prefixes"))
        return {word: "NUMERIC_ONLY" in note for word, _, note in lines if word and word[0] != "#"}

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text in lower case; METEOR splits English ("-norm"), other languages come split."""
        if self.name != "english" or _NEEDS_NO_SPLIT.fullmatch(text):
            return text.lower().split()
        text = f" {text} "
        for pattern, into in _SPLITS:
            text = pattern.sub(into, text)
        words = text.split()
        for index, (word, following) in enumerate(pairwise([*words, ""])):
            stem = word[:-1]
            if word[-1] != "." or not word.strip("."):
                continue
            if "." in stem and re.search(f"[{_LETTER}]", stem):
                words[index] = word.replace(".", "")
            elif not (
                "a" <= following[:1] <= "z"
                or (
                    stem in self._abbreviations and (not self._abbreviations[stem] or following[:1].isdigit())
                )
            ):
                words[index] = f"{stem} ."
        return " ".join(words).lower().split()

    def matches(self, texts: Collection[Sequence[str]]) -> dict[str, dict[str, list[int]]]:
        """Each word or phrase of the texts → each that it matches → how, in METEOR's order.

        The first is a phrase of the candidate, the second of the reference.
        """
        words = set(chain.from_iterable(texts))
        found: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
        for word in words:
            found[word][word] = [EXACT]
        if self.name != "czech":  # for which METEOR has no stemmer
            import snowballstemmer

            stemmer: Any = snowballstemmer.stemmer(self.name)
            # to METEOR's Russian stemmer "ё" is no letter, to this one it is "е": "ѐ" is none to both
            _relate(found, words, STEM, lambda word: [stemmer.stemWord(word.replace("ё", "ѐ"))])
        if self.name == "english" and words:
            _relate(found, words, SYNONYM, _synsets(self._home))
            for phrase, paraphrases in self._paraphrases(texts, words):
                for other in paraphrases:
                    found[other].setdefault(phrase, []).append(PARAPHRASE)
                    found[phrase].setdefault(other, []).append(PARAPHRASED)
            for related in found.values():
                for ways in related.values():
                    ways.sort()
        return dict(found)

    def _paraphrases(
        self, texts: Collection[Sequence[str]], words: set[str]
    ) -> Iterator[tuple[str, list[str]]]:
        """Phrases of the table and their paraphrases, as far as the texts have all their three-word parts."""
        table = paraphrase_table(self._home / "data" / "paraphrase-en.gz")
        sequences, three = set(words), set[str]()
        for text in texts:
            sequences.update(map(" ".join, pairwise(text)))
            three.update(map(" ".join, zip(text, text[1:], text[2:], strict=False)))
        sequences |= three

        def occurs(phrase: str) -> bool:
            if phrase in sequences or phrase.count(" ") < 3:
                return phrase in sequences
            parts = phrase.split(" ")
            return all(" ".join(parts[at : at + 3]) in three for at in range(len(parts) - 2))

        for phrase, others in table.entries(sequences, three):
            those = list(filter(occurs, others))
            if those and occurs(phrase):
                yield phrase, those


@cache
def _lines(home: Path, member: str) -> list[str]:
    with zipfile.ZipFile(home / "meteor-1.5.jar") as jar:
        return jar.read(member).decode().splitlines()


@cache
def _synsets(home: Path) -> Callable[[str], set[str]]:
    """A function that returns the WordNet synsets of a word and of its base form."""
    lines, forms = _lines(home, "synonym/english.synsets"), _lines(home, "synonym/english.exceptions")
    of_word = dict(zip(lines[::2], lines[1::2], strict=True))
    bases: defaultdict[str, list[str]] = defaultdict(list)
    for base, inflected in zip(forms[::2], forms[1::2], strict=True):
        for form in inflected.split():
            bases[form].append(base)

    def synsets(word: str) -> set[str]:
        regular = []
        if len(word) > 2 and not word.endswith("ss"):
            tried = (word[: -len(end)] + into for end, into in _INFLECTIONS if word.endswith(end))
            regular = [base for base in tried if base in of_word][:1]
        known = [word, *bases.get(word, regular)]
        return {synset for base in known for synset in of_word.get(base, "").split()}

    return synsets


class _Table(NamedTuple):
    """The table of paraphrases: n entries in the order of their phrases' digests.

    Attributes:
        digests: uint64 (n,), ascending, of the phrases.
        starts: int64 (n + 1,), where each entry begins.
        checks: uint64 (n,), digests of the entries.
        heads, longer: uint64 and int64, digests of the first three words of phrases of more words, ascending,
            and the numbers of those phrases.
        entries_in_a_row: uint8, entries: a phrase and its paraphrases, each with a line feed.
    """

    digests: np.ndarray
    starts: np.ndarray
    checks: np.ndarray
    heads: np.ndarray
    longer: np.ndarray
    entries_in_a_row: np.ndarray

    def entries(self, phrases: set[str], three_words: set[str]) -> Iterator[tuple[str, list[str]]]:
        """Those of the phrases that the table has, and longer ones that begin so, with their paraphrases."""
        digests = _digests(map(str.encode, phrases))
        places = np.searchsorted(self.digests, digests).clip(max=len(self.digests) - 1)
        numbers = {*places[self.digests[places] == digests].tolist()}
        digests = _digests(map(str.encode, three_words))
        ends = np.searchsorted(self.heads, digests, "right").tolist()
        for start, end in zip(np.searchsorted(self.heads, digests).tolist(), ends, strict=True):
            numbers.update(self.longer[start:end].tolist())
        for number in sorted(numbers):
            entry = self.entries_in_a_row[self.starts[number] : self.starts[number + 1]].tobytes()
            if xxhash.xxh3_64_intdigest(entry) != self.checks[number]:
                folder = EmbeddingCache().tables
                problem = f"the files {_TABLE}-… in {folder} are damaged"
                raise CapscoreError(f"{problem}: `capscore cache clear` removes them, and all embeddings")
            phrase, *others = entry.decode().removesuffix("\n").split("\n")
            yield phrase, others


def _digests(texts: Iterable[bytes]) -> np.ndarray:
    return np.fromiter(map(xxhash.xxh3_64_intdigest, texts), np.uint64)


@cache
def paraphrase_table(file: Path) -> _Table:
    """The table in a file, sorted by digests in the cache's folder, or from now on."""
    with file.open("rb") as packed:
        packed.seek(-8, os.SEEK_END)
        identity = packed.read().hex()  # checksum and length of what is packed
    folder = EmbeddingCache().tables
    arrays, entries = (folder / f"{_TABLE}-{identity}{suffix}" for suffix in (".npz", ".txt"))
    with suppress(OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        with np.load(arrays, allow_pickle=False) as kept:
            columns = {name: kept[name] for name in _Table._fields[:-1]}
        if entries.stat().st_size == columns["starts"][-1]:
            return _Table(**columns, entries_in_a_row=np.memmap(entries, np.uint8, "r"))
    table = _read_table(file)
    with suppress(OSError):  # without them, the next process reads the file again
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(arrays) as scratch:
            columns = table._asdict()
            columns.pop("entries_in_a_row").tofile(scratch / entries.name)
            np.savez(scratch / arrays.name, **columns)
            (scratch / entries.name).replace(entries)
            (scratch / arrays.name).replace(arrays)
    return table


def _read_table(file: Path) -> _Table:
    """The table in a file that is sorted by phrase: rows of three lines, probability, phrase, paraphrase."""
    phrases: list[bytes] = [b""]
    entries: list[bytes] = [b""]
    rest = b""
    with gzip.open(file) as rows:
        while piece := rows.read(_PIECE):
            lines = (rest + piece).split(b"\n")
            whole = (len(lines) - 1) // 3 * 3
            rest = b"\n".join(lines[whole:])
            others, end = lines[2:whole:3], 0
            for phrase, count in Counter(lines[1:whole:3]).items():
                start, end = end, end + count
                if phrase != phrases[-1]:  # else it began in the piece before
                    phrases.append(phrase)
                    entries.append(phrase + b"\n")
                entries[-1] += b"\n".join(others[start:end]) + b"\n"
    digests = _digests(phrases)
    order = np.argsort(digests)
    phrases, entries = ([texts[number] for number in order.tolist()] for texts in (phrases, entries))
    longer = np.array([number for number, phrase in enumerate(phrases) if phrase.count(b" ") > 2], np.int64)
    heads = _digests(b" ".join(phrases[number].split(b" ", 3)[:3]) for number in longer.tolist())
    by_head = np.argsort(heads)
    return _Table(
        digests=digests[order],
        starts=np.cumsum([0, *map(len, entries)]),
        checks=_digests(entries),
        heads=heads[by_head],
        longer=longer[by_head],
        entries_in_a_row=np.frombuffer(b"".join(entries), np.uint8),
    )


def _relate(
    found: dict[str, dict[str, list[int]]], words: set[str], way: int, keys: Callable[[str], Collection[str]]
) -> None:
    keys_of = {word: keys(word) for word in words}
    with_key: defaultdict[str, list[str]] = defaultdict(list)
    for word, its_keys in keys_of.items():
        for key in its_keys:
            with_key[key].append(word)
    for word, its_keys in keys_of.items():
        for other in {other for key in its_keys for other in with_key[key]} - {word}:
            found[word].setdefault(other, []).append(way)
