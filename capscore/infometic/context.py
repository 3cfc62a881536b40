"""Captions and their words → what each word says beyond the rest of its caption.

A sentence encoder has no states of tokens: a piece alone says what it means anywhere. What it means here is
how the caption's embedding changes when its word is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .pieces import Pieces
from .words import CaptionWord, word_shares


def without_word(caption: str, start: int, end: int) -> str:
    """A caption without the word that stands from `start` to `end`, runs of blanks as one.

    >>> without_word("Two red dogs", 4, 7)
    'Two dogs'
    """
    return " ".join((caption[:start] + caption[end:]).split())


def word_context(
    pieces: Pieces, words: Sequence[CaptionWord], counted: Sequence[int], added: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The context of a caption's pieces, as `capscore.infometic.alignment.WordContext` has it.

    Args:
        pieces: of the caption.
        words: of the caption, all of them.
        counted: numbers of the w words that count.
        added: (w, d), of those: the caption's embedding less that of the caption without the word.

    Returns:
        What is added, float32 (p, d), and the weights, float32 (p,). A piece that writes parts of several
        words has of each that counts as much as it writes of it.

    >>> pieces = Pieces([5, 6, 7], np.array([0, 4, 8]), np.array([3, 8, 11]), 0, 11)  # "red", "ball", "oon"
    >>> words = [CaptionWord("red", 0, 3, True, "adjective"), CaptionWord("balloon", 4, 11, True, "noun")]
    >>> added, weight = word_context(pieces, words, [0, 1], np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> added.tolist(), weight.tolist()
    ([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [1.0, 0.5, 0.5])
    """
    return spread(word_shares(pieces, words)[:, list(counted)], added)


def spread(shares: np.ndarray, added: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What words add, and their weight, to their pieces: (p, w) and (w, d) → (p, d) and (p,).

    A piece that writes several words whole has a weight of 1 as well.
    """
    in_pieces = shares.sum(axis=0)
    share_of_word = np.divide(
        1.0, in_pieces, out=np.zeros_like(in_pieces, dtype=np.float64), where=in_pieces > 0
    )
    weight = np.minimum(shares @ share_of_word, 1.0)
    return (shares @ added).astype(np.float32), weight.astype(np.float32)


def added_by_words(
    captions: Sequence[str],
    words: Sequence[Sequence[CaptionWord]],
    embed: Callable[[Sequence[str]], np.ndarray],
) -> list[np.ndarray]:
    """What each word adds to its caption; every distinct text is embedded once.

    Args:
        captions: n captions.
        words: of each, the words that count.
        embed: m texts → (m, d), rows of unit length.

    Returns:
        n float32 (w, d): the caption's embedding less that of the caption without the word.
    """
    without = [
        [without_word(caption, word.start, word.end) for word in own]
        for caption, own in zip(captions, words, strict=True)
    ]
    place: dict[str, int] = {}
    for caption, texts in zip(captions, without, strict=True):
        for text in (caption, *texts):
            place.setdefault(text, len(place))
    rows = np.asarray(embed(list(place)), np.float32)
    return [
        rows[place[caption]] - rows[[place[text] for text in texts]].reshape(len(texts), rows.shape[1])
        for caption, texts in zip(captions, without, strict=True)
    ]
