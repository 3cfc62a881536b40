"""Captions and their words → what each word adds to the embedding of its caption.

A sentence encoder has no states of tokens, and a piece encoded alone has the same meaning in every caption.
Its meaning in this caption is the change of the caption's embedding if the word is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .pieces import Pieces
from .words import CaptionWord, word_shares


def without_word(caption: str, start: int, end: int) -> str:
    """A caption without its word from `start` to `end`, with runs of blanks as one.

    >>> without_word("Two red dogs", 4, 7)
    'Two dogs'
    """
    return " ".join((caption[:start] + caption[end:]).split())


def word_context(
    pieces: Pieces, words: Sequence[CaptionWord], counted: Sequence[int], added: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The context of a caption's pieces for `capscore.infometic.alignment.WordContext`.

    Args:
        pieces: Pieces of the caption.
        words: All words of the caption.
        counted: Indices of the w words that count.
        added: (w, d), embedding of the caption minus that of the caption without the word, for these words.

    Returns:
        What is added, float32 (p, d), and the weights, float32 (p,). A piece of several words gets a share of
        each word that counts, in proportion to its characters.

    >>> pieces = Pieces([5, 6, 7], np.array([0, 4, 8]), np.array([3, 8, 11]), 0, 11)  # "red", "ball", "oon"
    >>> words = [CaptionWord("red", 0, 3, True, "adjective"), CaptionWord("balloon", 4, 11, True, "noun")]
    >>> added, weight = word_context(pieces, words, [0, 1], np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> added.tolist(), weight.tolist()
    ([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [1.0, 0.5, 0.5])
    """
    return spread(word_shares(pieces, words)[:, list(counted)], added)


def spread(shares: np.ndarray, added: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What words add, and their weight, for each piece: shares (p, w) and (w, d) → (p, d) and (p,).

    A piece of several whole words also has weight 1.
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
    """What each word adds to its caption; each distinct text is embedded once.

    Args:
        captions: n captions.
        words: n lists of the words that count.
        embed: Function from m texts to (m, d), rows of unit length.

    Returns:
        n float32 arrays (w, d): embedding of the caption minus that of the caption without the word.
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
