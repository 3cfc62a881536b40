"""What METEOR 1.5 knows of words: tokens, stems, synonyms and paraphrases, from the data in pycocoevalcap.

In: texts. Out: their tokens, and for each word or phrase those that METEOR matches with it. The data are
files of the program's jar and its English table of paraphrases; only what the texts can use is parsed.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, pairwise
from typing import Any

from ..errors import CapscoreError, MissingExtraError
from .spice import program_folder

# how two phrases can match; PARAPHRASE of the reference's phrase, PARAPHRASED: of the candidate's
EXACT, STEM, SYNONYM, PARAPHRASE, PARAPHRASED = range(5)
_PIECE = 1 << 15  # bytes of the table that are decompressed at once

_LETTER = "A-Za-zÀ-ÖØ-öø-žЀ-ԧᴀ-ᵿꙀ-ꙮ꙾-ꚗ"  # what METEOR's tokeniser takes for letters
_SPLITS = [
    (re.compile(pattern), into)
    for pattern, into in (
        ("[‘’]", "'"),
        ("[“”]", '"'),
        ("–", " - "),
        (rf"([^{_LETTER}0-9\s.'`,-])", r" \1 "),
        (r"(\.\.+)", r" \1 "),
        ("([^0-9]),([^0-9])", r"\1 , \2"),
        ("([0-9]),([^0-9])", r"\1 , \2"),
        ("([^0-9]),([0-9])", r"\1 , \2"),
        ("--", "-"),
        (rf"([{_LETTER}0-9.])-([{_LETTER}0-9])", r"\1 \2"),
        ("`", "'"),
        ("''", ' " '),
        (rf"([^{_LETTER}])'([^{_LETTER}])", r"\1 ' \2"),
        (rf"([^{_LETTER}0-9])'([{_LETTER}])", r"\1 ' \2"),
        (rf"([{_LETTER}])'([^{_LETTER}])", r"\1 ' \2"),
        (rf"([{_LETTER}])'([{_LETTER}])", r"\1 '\2"),
        ("([0-9])'s", r"\1 's"),
    )
]
_NEEDS_NO_SPLIT = re.compile("[a-z0-9 ]*")

# WordNet's rules of inflection; the first that leads to a word of WordNet counts
_INFLECTIONS = [
    pair.split(":")
    for pair in (
        "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y es:e es: ed:e ed: ing:e ing: er: est: er:e est:e"
    ).split()
]


class Knowledge:
    """What METEOR knows of one language.

    Args:
        name: English name of the language, as in the jar: "english".

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

    def _lines(self, member: str) -> list[str]:
        with zipfile.ZipFile(self._home / "meteor-1.5.jar") as jar:
            return jar.read(member).decode().splitlines()

    @cached_property
    def function_words(self) -> frozenset[str]:
        """Words that count less than others; the program takes the English ones for every language."""
        return frozenset(self._lines("function/english.words"))

    @cached_property
    def _abbreviations(self) -> dict[str, bool]:
        """Words whose period belongs to them → whether it does so before numbers only."""
        lines = (line.partition(" ") for line in self._lines(f"nonbreaking/{self.name}.prefixes"))
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
            _relate(found, words, SYNONYM, self._synsets())
            for phrase, paraphrases in self._paraphrases(texts, words):
                for other in paraphrases:
                    found[other].setdefault(phrase, []).append(PARAPHRASE)
                    found[phrase].setdefault(other, []).append(PARAPHRASED)
            for related in found.values():
                for ways in related.values():
                    ways.sort()
        return dict(found)

    def _synsets(self) -> Callable[[str], set[str]]:
        """A function that returns the WordNet synsets of a word and of its base form."""
        lines, forms = self._lines("synonym/english.synsets"), self._lines("synonym/english.exceptions")
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

    def _paraphrases(
        self, texts: Collection[Sequence[str]], words: set[str]
    ) -> Iterator[tuple[str, list[str]]]:
        """Phrases of the table and their paraphrases, as far as the texts have all their three-word parts."""
        sequences = set(words)
        for text in texts:
            sequences.update(map(" ".join, pairwise(text)))
            sequences.update(map(" ".join, zip(text, text[1:], text[2:], strict=False)))
        known = {sequence.encode() for sequence in sequences}

        def occurs(phrase: bytes) -> bool:
            if phrase in known or phrase.count(b" ") < 3:
                return phrase in known
            parts = phrase.split(b" ")
            return all(b" ".join(parts[at : at + 3]) in known for at in range(len(parts) - 2))

        rest = b""
        inflate = zlib.decompressobj(wbits=31)
        with (self._home / "data" / "paraphrase-en.gz").open("rb") as table:
            while piece := table.read(_PIECE):
                # sorted by phrase; per row three lines: probability, phrase, paraphrase
                lines = (rest + inflate.decompress(piece)).split(b"\n")
                whole = (len(lines) - 1) // 3 * 3
                rest = b"\n".join(lines[whole:])
                phrases, paraphrases = lines[1:whole:3], lines[2:whole:3]
                for phrase in dict.fromkeys(phrases):
                    if phrase in known or (phrase.count(b" ") > 2 and occurs(phrase)):
                        its = paraphrases[bisect_left(phrases, phrase) : bisect_right(phrases, phrase)]
                        if those := [other.decode() for other in its if other in known or occurs(other)]:
                            yield phrase.decode(), those


def _relate(
    found: dict[str, dict[str, list[int]]], words: set[str], way: int, keys: Callable[[str], Collection[str]]
) -> None:
    """Add a way of matching between different words that share a key."""
    keys_of = {word: keys(word) for word in words}
    with_key: defaultdict[str, list[str]] = defaultdict(list)
    for word, its_keys in keys_of.items():
        for key in its_keys:
            with_key[key].append(word)
    for word, its_keys in keys_of.items():
        for other in {other for key in its_keys for other in with_key[key]} - {word}:
            found[word].setdefault(other, []).append(way)
