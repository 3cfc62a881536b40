"""BLEU-1 to BLEU-4 (Papineni et al. 2002) on tokens, as coco-caption computes them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..errors import CorpusWarning, warn
from .ngrams import ORDERS, TokenRows, blocks, look_up, starts
from .with_references import Compared, ReferenceScorer, Texts

# coco-caption's guards against division by 0; they show in scores of candidates without shared n-grams
_TINY, _SMALL = 1e-15, 1e-9
_COUNTS = (
    *("matches_1", "matches_2", "matches_3", "matches_4"),
    *("n_tokens", "n_2_grams", "n_3_grams", "n_4_grams", "nearest_length"),
)


class BLEU(ReferenceScorer):
    """BLEU-4 of each row (Papineni et al. 2002), in [0, 1]. Components: "bleu_1" to "bleu_4".

    Papers report the BLEU of a corpus, which is not the mean over rows. `Scores.corpus` and the summary hold
    it as "corpus_bleu_1" to "corpus_bleu_4", the last of which stands for a set of rows. The BLEU-4 of a row
    of fewer than four words is near 0, however right it is, as in coco-caption; a warning counts such rows.
    """

    metric = "bleu"
    title = "BLEU"
    citation = ("papineni-etal-2002-bleu",)
    score_range = (0, 1)
    component_names = ("bleu_1", "bleu_2", "bleu_3", "bleu_4")
    corpus_names = ("corpus_bleu_1", "corpus_bleu_2", "corpus_bleu_3", "corpus_bleu_4")
    statistic_names = _COUNTS
    in_tables = component_names
    aggregation = "corpus_bleu_4"

    def compare(self, texts: Texts) -> Compared:
        rows, counts = np.zeros((0, 4)), np.zeros((0, len(_COUNTS)))
        if texts.candidates:
            counts = _statistics(texts.tokens)
            rows = _bleu_of(counts)
            n_short = int((counts[:, 4] < 4).sum())
            if n_short:
                message = "captions have fewer than 4 words, and BLEU-4 of such a row is near 0: see bleu_1"
                warn(CorpusWarning(f"{n_short:,} of {len(rows):,} {message}"))
        return Compared(
            scores=rows[:, 3],
            components=dict(zip(self.component_names, rows.T, strict=True)),
            settings={"segmenter": texts.segmenters},
            statistics=dict(zip(_COUNTS, counts.T, strict=True)),
        )

    @classmethod
    def corpus_of(cls, sums: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        if not sums:
            return dict.fromkeys(cls.corpus_names, math.nan)
        counts = np.sum([[of[name] for name in _COUNTS] for of in sums.values()], axis=0)
        return dict(zip(cls.corpus_names, _bleu_of(counts.T).T, strict=True))


def bleu(rows: TokenRows) -> np.ndarray:
    """BLEU-1 to BLEU-4 of each row separately.

    As in coco-caption and the PyPI package pycocoevalcap (Bleu, option "closest"): the geometric mean of the
    precisions of 1- to k-grams, where an n-gram of the candidate counts at most as often as in the reference
    that has it most. If the reference nearest in length (of two equally near, the shorter) has r tokens, more
    than the candidate's c, the score is multiplied by e^(1 − r/c). No matches count as 1e-15 matches and no
    n-grams as 1e-9 n-grams, so BLEU-4 without a common 4-gram is small, not 0.

    Returns:
        float64 (n, 4), 0 to 1. A candidate without tokens scores 0.

    >>> rows = TokenRows.build(["a red kite", "a dog"], [["a red kite flies", "one kite"], ["a dog"]],
    ...                        lambda texts: [text.split() for text in texts])
    >>> bleu(rows)[:, :2].round(4).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _bleu_of(_statistics(rows))


def corpus_bleu(rows: TokenRows) -> np.ndarray:
    """BLEU-1 to BLEU-4 of all rows as one text: matches and lengths are summed before any division.

    This is not the mean over rows. Repeated rows count each time. Otherwise as in `bleu`.

    Returns:
        float64 (4,), 0 to 1; 0 without rows.

    >>> rows = TokenRows.build(["a red kite", "the dog"], [["a red kite flies"], ["a dog sits"]],
    ...                        lambda texts: [text.split() for text in texts])
    >>> corpus_bleu(rows).round(4).tolist()
    [0.5363, 0.4895, 0.5436, 0.0181]
    """
    return _bleu_of(_statistics(rows).sum(axis=0))


def _bleu_of(counts: np.ndarray) -> np.ndarray:
    """Counts of rows or of their sum, (…, 9), in the order of `_COUNTS` → BLEU-1 to BLEU-4, (…, 4)."""
    matches, n_tokens, n_nearest = counts[..., :4], counts[..., 4], counts[..., 8]
    possible = counts[..., 4:8]
    precisions = (matches + _TINY) / (possible + _SMALL)
    means = np.cumprod(precisions, axis=-1) ** (1 / np.arange(1, ORDERS + 1))
    ratio = (n_tokens + _TINY) / (n_nearest + _SMALL)
    return means * np.where(ratio < 1, np.exp(1 - 1 / np.minimum(ratio, 1)), 1.0)[..., None]


def _statistics(rows: TokenRows) -> np.ndarray:
    """The counts of `_COUNTS` of each row, float64 (n, 9).

    They are: clipped matches of 1- to 4-grams; numbers of 1- to 4-grams of the candidate, of which the first
    is its length; and the length of the reference nearest in length.
    """
    ngrams, pairs = rows.ngrams, rows.pairs
    candidates, documents = pairs.candidates, pairs.documents
    matches = np.zeros((len(candidates), ORDERS), dtype=np.int64)
    for block in blocks(ngrams.sizes[candidates] + rows.document_sizes[documents]):
        first, last = documents[block][[0, -1]]
        keys, most = rows.most(slice(first, last + 1))
        pair, ids, counts = ngrams.of(candidates[block])
        held = look_up(keys, most, (documents[block] - first)[pair] * len(ngrams) + ids)
        matches[block] = ngrams.sums(pair, ids, np.minimum(counts, held), block.stop - block.start)

    n_tokens, lengths = rows.lengths[candidates], rows.lengths[pairs.references]
    beyond = int(rows.lengths.max(initial=0)) + 1
    # the nearest; of two equally near, the shorter
    apart = np.abs(lengths - np.repeat(n_tokens, pairs.sizes)) * beyond + lengths
    nearest = np.minimum.reduceat(apart, starts(pairs.sizes)[:-1]) % beyond if len(candidates) else n_tokens
    possible = np.maximum(n_tokens[:, None] - np.arange(ORDERS), 0)
    return np.column_stack([matches, possible, nearest])[pairs.of_row].astype(np.float64)
