"""Every protocol and every statistic on fixed arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from capscore.options import Sampling

from .place import Place
from .table import case


def draws(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers in [0, 1], with two digits so that some are equal."""
    return np.round(np.random.default_rng(seed).random(shape), 2)


def told(result: Any) -> Any:
    """A protocol's result → all that it says."""
    from capscore.statistics.columns import plain

    return {
        "details": plain(result.details),
        "table": result.table(),
        "counts": result.counts,
        "notes": result.notes,
        "statistics": [list(each) for each in result.statistics],
    }


@case("protocols/pairwise")
def _(place: Place) -> Any:
    from capscore.benchmarks.protocols import PASCAL50S_CATEGORIES, pairwise_by_category

    first, second = draws(2, 80)
    labels = [int(value < 0.4) for value in draws(80, seed=3)]
    categories = [PASCAL50S_CATEGORIES[row % 4] for row in range(80)]
    images = [f"{row // 3}.jpg" for row in range(80)]
    gaps = first.copy()
    gaps[5] = math.nan
    return {
        "plain": told(pairwise_by_category(first, second, labels, categories)),
        "images": told(
            pairwise_by_category(first, second, labels, categories, images=images, sampling=Sampling(100))
        ),
        "gaps": told(
            pairwise_by_category(
                gaps, second, labels, categories, sampling=Sampling(50, seed=3), missing="skip"
            )
        ),
    }


@case("protocols/foils")
def _(place: Place) -> Any:
    from capscore.benchmarks.protocols import VALSE_PHENOMENA, VALSE_PIECES, foils

    captions, wrong = draws(2, 66, seed=1)
    pieces = [list(VALSE_PIECES)[row % len(VALSE_PIECES)] for row in range(66)]
    valid = [row % 7 != 0 for row in range(66)]
    photos = [str(row // 2) for row in range(66)]
    return {
        "pieces": list(VALSE_PIECES),
        "phenomena": VALSE_PHENOMENA,
        "plain": told(foils(captions, wrong)),
        "grouped": told(
            foils(captions, wrong, [piece[:4] for piece in pieces], valid, sampling=Sampling(100))
        ),
        "valse": told(foils(captions, wrong, pieces, valid, images=photos, sampling=Sampling(100, 0.9))),
        "gaps": told(foils([math.nan, *captions[1:]], wrong, pieces, valid, missing="skip")),
    }


@case("protocols/marvl")
def _(place: Place) -> Any:
    from capscore.benchmarks.protocols import marvl

    left, right = draws(2, 43, seed=2)
    labels = [row % 2 == 0 for row in range(43)]
    captions = [f"caption {row // 4}" for row in range(43)]
    ids = [f"sw-{row}" for row in range(43)]
    gaps = left.copy()
    gaps[[0, 9]] = math.nan
    found = marvl(left, right, labels, captions, ids, sampling=Sampling(100))
    return {"caption": told(found), "gaps": told(marvl(gaps, right, labels, captions, ids, missing="skip"))}


@case("protocols/xvnli")
def _(place: Place) -> Any:
    from capscore.benchmarks.protocols import XVNLI_LABELS, xvnli

    scores = draws(60, seed=4)
    labels = [(*XVNLI_LABELS, "-")[row % 4] if row % 5 else XVNLI_LABELS[0] for row in range(60)]
    images = [str(row // 6) for row in range(60)]
    premises = [f"{row // 6}#{row % 2}" for row in range(60)]
    gaps = [None if row == 7 else value for row, value in enumerate(scores)]
    return {
        "labels": XVNLI_LABELS,
        "images": told(xvnli(scores, labels, images, sampling=Sampling(100, seed=5))),
        "premises": told(xvnli(scores, labels, images, premise_ids=premises, sampling=Sampling(50))),
        "gaps": told(xvnli(gaps, labels, images, missing="skip")),
    }


@case("protocols/captokeneval")
def _(place: Place) -> Any:
    from capscore.benchmarks.protocols import captokeneval
    from capscore.benchmarks.protocols.words import scores_of_tokens

    words = [[0.30, 0.05, 0.20], [0.00, 0.40], [math.nan, 0.25]]
    given = (words, [[1, 0, 1], [1, 0], [1, 1]], [[1, 1, 0], [1, 1], [0, 1]])
    regions = ([[0.2, 0.0], [0.3, 0.1, 0.05], []], [[1, 0], [0, 1, 0], []])
    caption = "Two dogs, on a red-brown sofa."
    own = [
        {"text": caption[a:b], "start": a, "end": b, "score": (a + 1) / 64, "semantic": True}
        for a, b in ((0, 3), (4, 8), (10, 12), (13, 14), (15, 18), (19, 24), (25, 29))
    ]
    own[4]["score"] = None
    return {
        "plain": told(captokeneval(*given, *regions)),
        "beta": told(captokeneval(*given, *regions, beta=0.22)),
        "skip": told(captokeneval([[0.3, None, 0.2], *words[1:]], *given[1:], *regions, missing="skip")),
        "tokens": [
            scores_of_tokens(caption, tokens, own)
            for tokens in (
                ["two", "dogs", ",", "on", "a", "red-brown", "sofa", "."],
                ["Two dogs", "on", "a", "red", "-", "brown", "sofa."],
            )
        ],
    }


@case("protocols/retrieval")
def _(place: Place) -> Any:
    from capscore.benchmarks.protocols import retrieval

    similarity = draws(12, 30, seed=6)
    owners = [row % 12 for row in range(30)]
    images, texts = (
        np.random.default_rng(7).normal(size=(12, 8)),
        np.random.default_rng(8).normal(size=(30, 8)),
    )
    gaps = similarity.copy()
    gaps[2, 3] = math.nan
    return {
        "similarity": told(retrieval(similarity, text_to_image=owners)),
        "ks": told(retrieval(similarity, text_to_image=owners, ks=(1, 2, 20))),
        "embeddings": told(retrieval(image_embeddings=images, text_embeddings=texts, text_to_image=owners)),
        "gaps": told(retrieval(gaps, text_to_image=owners, missing="skip")),
        "constant": told(retrieval(np.ones((4, 8)), text_to_image=[0, 0, 1, 1, 2, 2, 3, 3], ks=(1, 2))),
    }


@case("protocols/thumb")
def _(place: Place) -> Any:
    from capscore.benchmarks.protocols import thumb

    scores = draws(40, seed=20)
    rated = np.random.default_rng(21).integers(1, 6, (3, 40))
    ratings = dict(zip(("precision", "recall", "total"), rated, strict=True))
    systems = [("Human", "Up-Down", "VinVL-base", "VinVL-large")[row % 4] for row in range(40)]
    images = [str(row // 4) for row in range(40)]
    gaps = [None, *scores[1:]]
    return {
        "plain": told(thumb(scores, ratings, systems)),
        "images": told(thumb(scores, ratings, systems, images=images, sampling=Sampling(100))),
        "gaps": told(thumb(gaps, ratings, systems, human="VinVL-base", missing="skip")),
        "constant": told(
            thumb(
                [0.5] * 4,
                {"precision": [5] * 4, "recall": [1, 2, 3, 4], "total": [1, 2, 3, 4]},
                ["A", "A", "B", "B"],
            )
        ),
    }


@case("protocols/detailcaps")
def _(place: Place) -> Any:
    from capscore.benchmarks.protocols import detailcaps

    scores, photos = draws(40, seed=20), [str(row // 3) for row in range(40)]
    grades = np.random.default_rng(22).integers(0, 6, 40)
    return {
        "drawn": told(detailcaps(scores, grades, photos, sampling=Sampling(100))),
        "gaps": told(detailcaps([None, *scores[1:]], grades, photos, missing="skip")),
        "constant": told(detailcaps([0.5] * 4, [1, 2, 3, 4], ["a", "a", "b", "b"])),
    }


@case("protocols/rating_correlation")
def _(place: Place) -> Any:
    from capscore.statistics.agreement import agreement

    scores = draws(30, seed=30)
    ratings = np.random.default_rng(31).integers(1, 5, (30, 3))
    images = [str(row // 3) for row in range(30)]
    found = {}
    for raters in ("flatten", "mean"):
        result = agreement(scores, ratings, raters=raters, images=images, sampling=Sampling(100))
        found[raters] = result.to_dict()
    gaps = [None, *scores[1:]]
    last = agreement(gaps, ratings[:, 0], raters=None, statistics="tau_c", missing="skip")
    return {**found, "gaps": last.to_dict()}


# ------------------------------------------------------------------ agreement and correlation


@case("agreement/agreement")
def _(place: Place) -> Any:
    from capscore.statistics import agreement

    scores = draws(40, seed=60)
    ratings = np.random.default_rng(61).integers(1, 5, (40, 3)).astype(float)
    images = [str(row // 2) for row in range(40)]
    gaps = ratings.copy()
    gaps[3, 1] = math.nan
    found = {
        "items": agreement.agreement(scores, ratings[:, 0]),
        "flatten": agreement.agreement(
            scores, ratings, raters="flatten", images=images, sampling=Sampling(200)
        ),
        "mean": agreement.agreement(scores, ratings, raters="mean", sampling=Sampling(200, 0.9, 4)),
        "one": agreement.agreement(
            scores, ratings[:, 1], statistics=["tau_c", "pearson"], sampling=Sampling(50)
        ),
        "skip": agreement.agreement([None, *scores[1:]], ratings[:, 0], missing="skip"),
        "constant": agreement.agreement([1.0] * 6, [1, 2, 3, 1, 2, 3]),
        "ragged": agreement.agreement(scores[:4], [[1, 2], [3], [2, 2, 4], [1]], raters="flatten"),
    }
    return {name: result.to_dict() for name, result in found.items()}


@case("agreement/compare")
def _(place: Place) -> Any:
    from capscore.statistics import agreement

    first, second = draws(2, 40, seed=62)
    ratings = np.random.default_rng(63).integers(1, 5, (40, 3)).astype(float)
    images = [str(row // 2) for row in range(40)]
    return {
        f"bootstrap {statistic}": agreement.compare(
            (first, second),
            ratings,
            raters="flatten",
            images=images,
            statistic=statistic,
            sampling=Sampling(200),
        ).to_dict()
        for statistic in ("tau_c", "tau_b", "spearman", "pearson")
    }


@case("agreement/correlation")
def _(place: Place) -> Any:
    from capscore.statistics import bootstrap, correlation

    first, second = draws(50, seed=66), np.random.default_rng(67).integers(1, 5, 50)
    weights = np.random.default_rng(68).integers(0, 4, 50)
    found: dict[str, Any] = {}
    for name in ("tau_b", "tau_c", "spearman", "pearson"):
        function = getattr(correlation, name)
        rows = correlation.Correlations(first, second.astype(float))
        found[name] = [
            function(first, second),
            float(rows.values([name], weights[:, None])[name][0]),
            function(second, second),
            function(first, -first),
        ]
    whole = correlation.Correlations(first, second.astype(float), np.arange(50) // 5)
    rng = np.random.default_rng(0)
    return {
        **found,
        "units": [whole.n_units, whole.n_cells],
        "draws": bootstrap.multiplicities(rng, 6, 3),
        "interval": bootstrap.percentile_interval(draws(200, seed=69), 0.95),
        "p": bootstrap.two_sided_p(draws(200, seed=70) - 0.5, 0.4),
    }
