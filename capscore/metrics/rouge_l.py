"""ROUGE-L (Lin 2004) on tokens, as coco-caption computes it: the longest sequence that two captions share."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from .ngrams import TokenRows, blocks, number_words, starts
from .with_references import Compared, ReferenceScorer, Texts

BETA = 1.2  # recall weighs β² times as much as precision
_BLOCK = 1 << 14  # token numbers at once; few enough to stay in the processor's cache
_LONG = 1 << 10  # tokens of a text from which pairs are compared one by one


class ROUGEL(ReferenceScorer):
    """ROUGE-L (Lin 2004), in [0, 1]: the longest sequence of words shared with a reference.

    β = 1.2, as image captioning has used it since the COCO evaluation server.
    """

    metric = "rouge_l"
    title = "ROUGE-L"
    citation = ("lin-2004-rouge",)
    score_range = (0, 1)

    def compare(self, texts: Texts) -> Compared:
        scores = rouge_l(texts.tokens_for_rouge())
        return Compared(scores, {"segmenter": texts.segmenters, "beta": BETA})


def rouge_l(rows: TokenRows) -> np.ndarray:
    """ROUGE-L of each row: (1 + β²) P R / (R + β² P), β = 1.2.

    As in coco-caption and the PyPI package pycocoevalcap (Rouge): P is the length of the longest common
    subsequence divided by the number of the candidate's tokens, R the same with the reference's tokens. P and
    R are the highest over all references and may come from different ones.

    Returns:
        float64 (n,), 0 to 1; 0 if no reference shares a token. As in coco-caption, a candidate without tokens
        scores 0, or 1 if a reference has none either.

    >>> rows = TokenRows.build(["a red kite", "a dog"], [["the kite is a red one"], ["birds"]],
    ...                        lambda texts: [text.split() for text in texts])
    >>> rouge_l(rows).round(4).tolist()  # "a red": P = 2/3, R = 2/6
    [0.4192, 0.0]
    """
    if not len(rows):
        return np.zeros(0)
    pairs = rows.pairs
    candidates, texts = np.repeat(pairs.candidates, pairs.sizes), _Sequences(rows.tokens)
    common = texts.common(candidates, pairs.references)
    precision, recall = (
        np.maximum.reduceat(common / texts.sizes[of], starts(pairs.sizes)[:-1])
        for of in (candidates, pairs.references)
    )
    weighed = recall + BETA**2 * precision
    scores = (1 + BETA**2) * precision * recall / np.where(weighed > 0, weighed, 1.0)
    return scores[pairs.of_row]


class _Sequences:
    """Texts as numbers of tokens. A text without tokens has one empty token, as `"".split(" ")` gives."""

    def __init__(self, texts: list[list[str]]):
        texts = [tokens or [""] for tokens in texts]
        self.numbers = number_words(texts)[1].astype(np.int32)
        self.sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        self._firsts = starts(self.sizes)[:-1]

    def padded(self, texts: np.ndarray, padding: int) -> np.ndarray:
        """Token numbers of texts, one column per text: int32 (longest, texts), with `padding` below."""
        sizes = self.sizes[texts]
        places = np.arange(sizes.max())[:, None]
        inside = places < sizes
        return np.where(inside, self.numbers[np.where(inside, self._firsts[texts] + places, 0)], padding)

    def common(self, these: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Length of the longest common subsequence of pairs of texts: int64 (pairs,)."""
        swap = self.sizes[these] > self.sizes[others]
        short, long = np.where(swap, others, these), np.where(swap, these, others)
        order = np.lexsort((self.sizes[short], self.sizes[long]))
        lengths = np.empty(len(these), dtype=np.int64)
        for block in blocks(self.sizes[long[order]], _BLOCK):
            here = order[block]
            columns = self.padded(short[here], -1), self.padded(long[here], -2)
            lengths[here] = _common(*columns) if len(columns[1]) < _LONG else _common_of_long(*columns)
        return lengths


def _common(short: np.ndarray, long: np.ndarray) -> np.ndarray:
    """Columns of tokens (s, pairs) and (l, pairs) → length of the longest common subsequence, (pairs,)."""
    # lengths[j]: of the part of `short` read so far with the first j tokens of `long`
    lengths = np.zeros((len(long) + 1, long.shape[1]), dtype=np.int32)
    for token in short:
        # one longer where the tokens are equal, else as long as without one of them
        lengths[1:] = np.maximum(lengths[1:], lengths[:-1] + (long == token))
        np.maximum.accumulate(lengths, axis=0, out=lengths)
    return lengths[-1]


def _common_of_long(short: np.ndarray, long: np.ndarray) -> list[int]:
    """The same for long texts, pair by pair, with a row of the table as the bits of a number (Hyyrö 2004)."""
    lengths = []
    for tokens, others in zip(short.T.tolist(), long.T.tolist(), strict=True):
        places: dict[int, int] = defaultdict(int)
        for index, token in enumerate(others):
            places[token] |= 1 << index
        row = every = (1 << len(others)) - 1
        for token in tokens:
            matched = row & places.get(token, 0)
            row = (row + matched | row - matched) & every
        lengths.append(len(others) - row.bit_count())
    return lengths
