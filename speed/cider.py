"""CIDEr on rows like Flickr8k-Expert's, beside pycocoevalcap's on the same tokens in the same process.

In: captions of invented words. Out: seconds of the whole call, from texts to scores; how far the two differ.
"""

from __future__ import annotations

import numpy as np

from capscore.metrics.cider import cider
from capscore.metrics.ngrams import TokenRows

from .figures import Figure, repeat

PAIRS, RATERS, IMAGES, REFERENCES = 5_664, 3, 1_000, 5  # what Flickr8k-Expert has
WORDS, PHRASES = 6_000, 4_000


def measure(quick: bool) -> list[Figure]:
    """The 16,992 rows, best of 5, pycocoevalcap once; `quick`: a fourth of them."""
    candidates, references = rows(PAIRS // 4 if quick else PAIRS)
    scores: dict[str, np.ndarray] = {}

    def ours() -> None:
        scores["ours"] = cider(TokenRows.build(candidates, references, _split))

    timed = repeat({"ours": ours}, 5)["ours"]
    what = f"CIDEr of {len(candidates):,} rows, from texts"
    figures = [Figure(what, timed.best, "{:.2f} s", **timed.spread())]
    try:
        from pycocoevalcap.cider.cider import Cider
    except ImportError:
        return [*figures, Figure("  pycocoevalcap to compare with (extra java)", 0, "not here")]

    # it takes tokens joined by blanks, which these captions are
    given = dict(enumerate(references)), {row: [text] for row, text in enumerate(candidates)}

    def theirs() -> None:
        scores["theirs"] = Cider().compute_score(*given)[1]

    others = repeat({"theirs": theirs}, 1)["theirs"]
    difference = float(np.abs(scores["ours"] - scores["theirs"]).max())
    return [
        *figures,
        Figure("  pycocoevalcap, from tokens", others.best, "{:.1f} s", disturbed=others.disturbed),
        Figure("  pycocoevalcap ÷ capscore", others.best / timed.best, "{:.0f}×", 5),
        Figure("  largest difference between their scores", difference, "{:.0e}", 1e-6, at_most=True),
    ]


def rows(pairs: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Candidates and references: each of `pairs` candidates in 3 rows, with its image's 5 references.

    Words and phrases are as unevenly common as in a language, and the references of an image share phrases.
    Candidates are references of other images.
    """
    chance = np.random.default_rng(seed)

    def common(count: int, size: int) -> np.ndarray:
        """Numbers below `count`, the small ones often: their frequency falls with their rank."""
        weights = 1 / np.arange(1, count + 1)
        return chance.choice(count, size, p=weights / weights.sum())

    phrases = [
        " ".join(f"w{word}" for word in common(WORDS, size)) for size in chance.integers(2, 5, PHRASES)
    ]

    def captions_of_an_image() -> list[str]:
        own = common(PHRASES, 4)
        return [
            " ".join(phrases[number] for number in (*chance.choice(own, 2), *common(PHRASES, more)))
            for more in chance.integers(1, 4, REFERENCES)
        ]

    images = [captions_of_an_image() for _ in range(IMAGES)]
    candidates, references = [], []
    for image in np.sort(chance.integers(0, IMAGES, pairs)):
        other = images[(image + chance.integers(1, IMAGES)) % IMAGES]
        candidates += [str(chance.choice(other))] * RATERS
        references += [images[image]] * RATERS
    return candidates, references


def _split(texts: list[str]) -> list[list[str]]:
    return [text.split() for text in texts]
