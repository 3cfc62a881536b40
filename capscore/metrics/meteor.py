"""METEOR 1.5 (Denkowski and Lavie 2014): words matched exactly, by stem, by synonym or by paraphrase.

In: captions, each with a list of references. Out: one score per row in [0, 1], and one of all rows together.
The numbers are those of the authors' Java program; its data are in the PyPI package pycocoevalcap.
"""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, product
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from ..errors import CapscoreError, InputError
from .meteor_words import DATA, EXACT, PARAPHRASE, Knowledge
from .with_references import UNSTATED, Compared, ReferenceScorer, Texts

_BEAM = 40
# one number orders partial alignments: most matched words, fewest chunks, least distance
_MATCH, _CHUNK = 1 << 48, 1 << 24

# counts of a row whose sums make the METEOR of a corpus, as `_score` takes them, and 1
_COUNTS = tuple("matched other_matched total other_total n_words n_other_words n_chunks n_rows".split())

_Related = dict[str, dict[str, list[int]]]  # see `Knowledge.matches`
# start in the reference, way, order among those, start in the candidate, numbers of words there and there
_Match = tuple[int, int, tuple[object, ...], int, int, int]
_Chain: TypeAlias = "tuple[_Match, _Chain] | None"  # the last match of a path, and those before it
# cost, first free word of the reference, end of the last match in the candidate or -1, words used, matches
_Path = tuple[int, int, int, int, _Chain]


@dataclass(frozen=True)
class _Language:
    """A language's name in METEOR's files, and its published parameters."""

    name: str
    alpha: float
    beta: float
    gamma: float
    delta: float
    weights: Sequence[float]  # of exact matches, stems, synonyms and paraphrases

    @property
    def modules(self) -> str:
        return "+".join(("exact", "stem", "synonym", "paraphrase")[: len(self.weights)])


_LANGUAGES = {code: _Language(*parameters) for code, parameters in DATA["languages"].items()}


def meteor(
    candidates: Sequence[str], references: Sequence[Sequence[str]], language: str = "en"
) -> np.ndarray:
    """METEOR 1.5 (Denkowski and Lavie 2014) of each row separately.

    The score of a row is that of its best reference. METEOR tokenises and lower-cases English. For the
    numbers of coco-caption, pass tokens of the Penn Treebank tokeniser joined by spaces, without punctuation.
    Texts of other languages are split at spaces, and match exactly and by stem (Czech exactly): pycocoevalcap
    has no paraphrases for them. The English table of paraphrases is sorted once a machine, in some four
    seconds, and kept in the cache's folder (113 MB).

    Args:
        candidates: n captions.
        references: n lists of at least one reference.
        language: Language of all texts: cs, da, de, en, es, fi, fr, hu, it, nb, nl, no, pt, ro, ru, sv or tr.

    Returns:
        float64 (n,), 0 to 1. A caption without words scores 0. The METEOR of a corpus, which captioning
        tables print, is not their mean: see `meteor_with_counts`.

    Raises:
        InputError: METEOR has no parameters for the language.
        MissingExtraError: pycocoevalcap, which contains the data, or snowballstemmer is not installed.
        CapscoreError: snowballstemmer 3 or later is installed, whose stems are not METEOR's.

    >>> meteor(["a red kite"], [["a red kite flies", "one kite"]]).round(4).tolist()    # doctest: +SKIP
    [0.3799]
    """
    return meteor_with_counts(candidates, references, language)[0]


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Spares looking for cycles among many small objects that have none: a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_without_garbage_collection()
def meteor_with_counts(
    candidates: Sequence[str], references: Sequence[Sequence[str]], language: str = "en"
) -> tuple[np.ndarray, np.ndarray]:
    """`meteor` of each row, and the counts, float64 (n, 7), whose sums make the METEOR of a corpus."""
    if language not in _LANGUAGES:
        raise InputError(f"METEOR has no parameters for the language {language!r}, only for {_codes()}")
    parameters = _LANGUAGES[language]
    knowledge = Knowledge(parameters.name)
    tokens = {text: knowledge.tokens(text) for text in {*candidates, *chain.from_iterable(references)}}
    related = knowledge.matches(list(tokens.values()))
    beginnings = {phrase[: end.start()] for phrase in related for end in re.finditer(" ", phrase)}

    def value(word: str) -> float:
        return 1 - parameters.delta if word in knowledge.function_words else parameters.delta

    texts = {text: _Text(words, related, beginnings, value) for text, words in tokens.items()}
    scores, counts = np.zeros(len(candidates)), np.zeros((len(candidates), 7))
    for row, (candidate, listed) in enumerate(zip(candidates, references, strict=True)):
        pairs = [_Pair.of(texts[candidate], texts[text], related, parameters) for text in listed]
        best = (-1.0, 0)
        for highest, number in sorted(((pair.highest(), -n) for n, pair in enumerate(pairs)), reverse=True):
            if highest < best[0] - 1e-9:
                break
            sums = pairs[-number].sums()
            if (found := (_score(sums, parameters), number)) > best:  # of equal ones, the first
                best, counts[row] = found, sums
        scores[row] = best[0]
    return scores, counts


class _Text:
    """A text as METEOR compares it.

    Attributes:
        places: Each word, and each longer phrase that can match → its starts.
    """

    __slots__ = ("places", "total", "values")

    def __init__(
        self, words: list[str], related: _Related, beginnings: set[str], value: Callable[[str], float]
    ) -> None:
        self.values = [value(word) for word in words]
        self.total = sum(self.values)
        self.places: dict[str, tuple[int, ...]] = {}
        for start, phrase in enumerate(words):
            for stop in range(start + 1, len(words) + 1):
                if stop == start + 1 or phrase in related:
                    self.places[phrase] = (*self.places.get(phrase, ()), start)
                if phrase not in beginnings or stop == len(words):
                    break
                phrase = f"{phrase} {words[stop]}"


@dataclass
class _Pair:
    """A candidate and a reference."""

    candidate: _Text
    reference: _Text
    language: _Language
    matches: list[_Match]
    n_matches: list[int]
    n_other_matches: list[int]

    @classmethod
    def of(cls, candidate: _Text, reference: _Text, related: _Related, language: _Language) -> _Pair:
        matches: list[_Match] = []
        n_matches, n_other_matches = [0] * len(candidate.values), [0] * len(reference.values)
        for phrase, starts in candidate.places.items():
            ways_of, length = related[phrase], phrase.count(" ") + 1
            for other_phrase in ways_of.keys() & reference.places.keys():
                ways, other_length = ways_of[other_phrase], other_phrase.count(" ") + 1
                for start, other in product(starts, reference.places[other_phrase]):
                    for way in ways:
                        order: tuple[Any, ...] = (start, length, other_phrase)
                        if way == PARAPHRASE:
                            order = (other_length, phrase, start)
                        matches.append((other, way, order, start, length, other_length))
                    for word in range(start, start + length):
                        n_matches[word] += len(ways)
                    for word in range(other, other + other_length):
                        n_other_matches[word] += len(ways)
        matches.sort()
        return cls(candidate, reference, language, matches, n_matches, n_other_matches)

    def highest(self) -> float:
        """A score that no alignment exceeds: each word that has a match is matched, in one chunk."""
        mine = [value for value, n in zip(self.candidate.values, self.n_matches, strict=True) if n]
        other = [value for value, n in zip(self.reference.values, self.n_other_matches, strict=True) if n]
        whole = len(mine) == len(self.n_matches) and len(other) == len(self.n_other_matches)
        totals = self.candidate.total, self.reference.total
        return _score([sum(mine), sum(other), *totals, len(mine), len(other), not whole], self.language)

    def sums(self) -> list[float]:
        """Sums over the best alignment.

        Weight of matched words, of all words, and number of matched words, of candidate and reference in
        turn; last the number of chunks, 0 if the texts match whole.
        """
        sums = [0.0, 0.0, self.candidate.total, self.reference.total, 0, 0, 0]
        end = other_end = -1
        for other, way, _, start, length, other_length in self._align():
            weight = self.language.weights[min(way, PARAPHRASE)]
            sums[0] += weight * sum(self.candidate.values[start : start + length])
            sums[1] += weight * sum(self.reference.values[other : other + other_length])
            sums[4] += length
            sums[5] += other_length
            sums[6] += start != end or other != other_end
            end, other_end = start + length, other + other_length
        if sums[4:] == [len(self.n_matches), len(self.n_other_matches), 1]:
            sums[6] = 0
        return sums

    def _align(self) -> list[_Match]:
        """The matches of METEOR's alignment, in the order of the reference.

        A match whose words have no other match is certain. A beam search along the reference decides on the
        others: most matched words, where a match that is not exact counts half of its words, rounded down,
        whatever its weight; then fewest chunks, an open one not counted; then least distance. As in the
        program, the distance of a match counts for the alignments that are tried after it, not for its own.
        """
        certain: dict[int, _Match] = {}
        open_at: dict[int, list[tuple[int, int, int, int, int, int, _Match]]] = {}
        for match in self.matches:
            other, way, _, start, length, other_length = match
            stop, free = start + length, other + other_length
            if max(self.n_matches[start:stop]) == max(self.n_other_matches[other:free]) == 1:
                certain[other] = match
            else:
                gain = (length + other_length if way == EXACT else length // 2 + other_length // 2) * _MATCH
                words = (1 << stop) - (1 << start)
                open_at.setdefault(other, []).append(
                    (gain, abs(other - start), words, start, stop, free, match)
                )
        if not open_at:
            return list(certain.values())

        paths: list[_Path] = [(0, 0, -1, 0, None)]
        closed = True  # whether no match of a path ends right before the word
        for index in range(len(self.n_other_matches)):
            extended: list[_Path]
            if index in certain:
                _, _, _, start, length, other_length = certain[index]
                free, stop = index + other_length, start + length
                extended = [
                    (cost if end in (-1, start) else cost + _CHUNK, free, stop, used, chosen)
                    for cost, _, end, used, chosen in paths
                ]
            elif index in open_at:
                extended = []
                for path in paths:
                    cost, free, end, used, chosen = path
                    if free > index:
                        extended.append(path)
                        continue
                    ended = 0 if end == -1 else _CHUNK
                    for gain, distance, words, start, stop, free, match in open_at[index]:
                        if not used & words:
                            jump = 0 if end == start else ended
                            extended.append((cost - gain + jump, free, stop, used | words, (match, chosen)))
                            cost += distance
                    extended.append((cost + ended, index, -1, used, chosen))
            elif closed:
                continue
            else:
                extended = [
                    path if path[2] == -1 or path[1] > index else (path[0] + _CHUNK, 0, -1, path[3], path[4])
                    for path in paths
                ]
            extended.sort(key=itemgetter(0))
            paths = extended[:_BEAM]
            closed = all(path[2] == -1 for path in paths)
        chosen = min(paths, key=lambda path: path[0] + (_CHUNK if path[2] != -1 else 0))[4]
        while chosen:
            match, chosen = chosen
            certain[match[0]] = match
        return [certain[other] for other in sorted(certain)]


def _score(sums: Sequence[float], language: _Language) -> float:
    """METEOR of the sums of one row or of a corpus."""
    matched, other_matched, total, other_total, n_words, n_other_words, n_chunks = sums
    if not matched or not other_matched:
        return 0.0
    precision, recall = matched / total, other_matched / other_total
    mean = precision * recall / (language.alpha * precision + (1 - language.alpha) * recall)
    return mean * (1 - language.gamma * (2 * n_chunks / (n_words + n_other_words)) ** language.beta)


def _codes() -> str:
    return ", ".join(sorted(_LANGUAGES))


class METEOR(ReferenceScorer):
    """METEOR 1.5: words match exactly, by stem, by synonym or by paraphrase.

    As in coco-caption, METEOR gets the words that the other metrics count: in lower case, without
    punctuation. Synonyms and paraphrases are those of English; other languages match exactly and by stem,
    Czech exactly.

    The METEOR of a corpus, which captioning tables print, is not the mean over its rows. `Scores.corpus` and
    the summary hold it as "corpus_meteor", and it stands for a set of rows; of several languages it is their
    mean, weighted by rows.

    Raises:
        MissingExtraError: pycocoevalcap, which contains METEOR's data, or snowballstemmer is not installed.
    """

    metric = "meteor"
    title = "METEOR"
    citation = ("denkowski-lavie-2014-meteor",)
    score_range = (0, 1)
    corpus_names = ("corpus_meteor",)
    statistic_names = _COUNTS
    aggregation = "corpus_meteor"

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        Knowledge("english")

    @classmethod
    def what_is_missing(cls) -> str:
        try:
            Knowledge("english")
        except CapscoreError as error:
            return str(error)
        return ""

    def language_problem(self, code: str) -> str:
        if code and code not in _LANGUAGES:
            return f"{self.metric} scores captions in {_codes()}, but the given language is {code!r}"
        return super().language_problem(code)

    def language_settings(self, code: str) -> dict[str, str]:
        return {"modules": _LANGUAGES[code or UNSTATED].modules, **super().language_settings(code)}

    def compare(self, texts: Texts) -> Compared:
        scores, counts = np.zeros(len(texts.candidates)), np.ones((len(texts.candidates), len(_COUNTS)))
        for code, indices, its_texts in texts.by_language():
            captions, references, of_row = its_texts.distinct_rows()
            found, of_rows = meteor_with_counts(captions, references, code)
            scores[indices], counts[indices, :-1] = found[of_row], of_rows[of_row]
        modules = dict.fromkeys(_LANGUAGES[code].modules for code in sorted(set(texts.languages)))
        settings: dict[str, object] = {"program": "1.5", "implementation": "python"}
        settings |= {"modules": "/".join(modules) or None, "segmenter": texts.segmenters}
        return Compared(scores, settings, statistics=dict(zip(_COUNTS, counts.T, strict=True)))

    @classmethod
    def corpus_of(cls, sums: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        counts: dict[str, np.ndarray] = {}
        for code, of_language in sums.items():
            here = np.array([of_language[name] for name in _COUNTS])
            counts[code or UNSTATED] = counts.get(code or UNSTATED, 0.0) + here
        if not counts:
            return {"corpus_meteor": math.nan}
        n_rows, total = sum(part[-1] for part in counts.values()), 0.0
        for code, part in counts.items():
            of_sets = [_score(sums, _LANGUAGES[code]) for sums in part[:-1].reshape(7, -1).T.tolist()]
            total += np.reshape(of_sets, part[-1].shape) * part[-1]
        return {"corpus_meteor": total / n_rows}
