"""People's ratings of real captioners, compared: exact p-values and intervals, Holm's correction, ranks.

THumB 1.0 (Kasai et al. 2022, github.com/jungokasai/THumB, mscoco/mscoco_THumB-1.0.jsonl): 500 photos of COCO
with a caption of each captioner and of a person, rated from 1 to 5 for precision and for recall. Below is how
many photos have the same four ratings, and no more of the data.
"""

import numpy as np
import pytest
import scipy.stats

import capscore

SYSTEMS = ["Unified-VLP", "VinVL-base", "VinVL-large", "Human"]
# ratings of the four captions of a photo, in the order of SYSTEMS: number of photos
COUNTS = {
    "precision": """
        5555:203 5554:22 5553:4 5545:10 5544:2 5535:6 5533:1 5455:14 5453:1 5445:10 5444:2 5355:12 5345:2
        5344:2 5335:5 5334:3 5333:1 5255:2 5245:1 5225:1 4555:31 4554:1 4553:1 4545:5 4544:2 4525:1 4455:11
        4445:19 4444:6 4435:3 4434:2 4425:1 4345:2 4344:2 4334:2 4145:1 3555:22 3554:3 3553:1 3545:6 3535:5
        3534:1 3455:4 3445:7 3444:3 3434:2 3355:4 3354:2 3345:4 3344:2 3335:12 3334:3 3325:1 3324:1 3255:1
        3235:1 2555:3 2554:1 2535:2 2455:1 2444:1 2443:1 2355:1 2333:1 2255:1 2225:6 2224:3
    """,
    "recall": """
        5555:61 5554:12 5553:2 5552:1 5545:6 5544:1 5543:2 5534:1 5533:1 5455:3 5454:2 5445:2 5444:3 5443:1
        5355:5 5354:2 5335:2 5334:1 5333:1 4555:11 4554:12 4553:3 4545:4 4544:8 4543:1 4535:1 4455:3 4454:6
        4453:2 4445:49 4444:45 4443:11 4435:2 4434:2 4433:1 4354:2 4345:3 4344:5 4343:2 4335:2 4334:11
        4333:1 4332:1 3555:5 3554:4 3553:4 3544:4 3535:5 3534:4 3533:2 3445:11 3444:12 3443:5 3435:3 3434:5
        3433:1 3355:1 3354:1 3353:2 3345:15 3344:6 3343:6 3335:43 3334:26 3333:13 3324:1 3323:1 3235:1
        3234:1 2534:1 2453:1 2444:1 2434:1 2345:1 2335:1 2334:3 2325:3 2235:2 2234:1 2233:2 2225:1 2224:2
        2223:1
    """,
}
MEANS = {"precision": [4.354, 4.472, 4.536, 4.82], "recall": [3.77, 3.946, 3.97, 4.352]}
# Exact p of swaps and 95 % interval of each system minus VinVL-base, from the chances of every sum (those of
# 500 single differences, convolved). By 99,999 draws of scipy 1.17.1's permutation_test p is 0.0072, 0.0630,
# 0.4579; no end of its bootstrap is off by more than 0.002.
EXACT = {
    "precision": {
        "Unified-VLP": (0.006449408, -0.202, -0.034),
        "VinVL-large": (0.062678650, 0.0, 0.130),
        "Human": (5.8092e-14, 0.270, 0.428),
    },
    "recall": {
        "Unified-VLP": (3.3171e-07, -0.242, -0.110),
        "VinVL-large": (0.459040666, -0.034, 0.082),
        "Human": (2.1892e-15, 0.314, 0.498),
    },
}
N_DRAWS = 10_000


def ratings_of(kind):
    photos = []
    for cell in COUNTS[kind].split():
        ratings, _, n_photos = cell.partition(":")
        photos += [[*map(int, ratings)]] * int(n_photos)
    return dict(zip(SYSTEMS, np.array(photos).T, strict=True))


@pytest.fixture(scope="module")
def compared():
    """The four on the ratings, each with its rows in another order, as 10,000 draws see them."""
    ratings = {kind: ratings_of(kind) for kind in COUNTS}
    systems = {}
    for seed, name in enumerate(SYSTEMS):
        of_photo = {kind: ratings[kind][name].tolist() for kind in COUNTS}
        order = np.random.default_rng(seed).permutation(500).tolist()
        systems[name] = [{"image_id": n, **{kind: of_photo[kind][n] for kind in COUNTS}} for n in order]
    return capscore.compare(systems, [*COUNTS], baseline="VinVL-base", bootstrap=N_DRAWS)


@pytest.mark.parametrize(("kind", "factors"), [("precision", (2, 1, 3)), ("recall", (3, 1, 3))])
def test_means_and_ranks_are_those_of_the_ratings_and_holm_corrects_for_three(compared, kind, factors):
    assert [*compared.figures(kind).values()] == pytest.approx(MEANS[kind], abs=1e-12)
    assert sorted(SYSTEMS, key=compared.figures(kind).get) == SYSTEMS
    (whole,) = compared.metrics[kind]
    assert (whole.n_rows, whole.n_images, whole.best) == (500, 500, ["Human"])
    of = {other.system: other for other in whole.differences}
    for name, factor in zip(EXACT[kind], factors, strict=True):
        assert of[name].p_value_holm == pytest.approx(factor * of[name].p_value, abs=1e-12)
    assert {name for name in of if whole.is_shown(of[name])} == {"Human", "Unified-VLP"}


@pytest.mark.parametrize(("kind", "system"), [(kind, name) for kind in COUNTS for name in EXACT[kind]])
def test_p_values_and_intervals_are_the_exact_ones_but_for_the_draws(compared, kind, system):
    ratings = ratings_of(kind)
    p_value, *ends = EXACT[kind][system]
    if p_value > 1e-9:
        t_test = scipy.stats.ttest_rel(ratings[system], ratings["VinVL-base"]).pvalue
        assert t_test == pytest.approx(p_value, rel=0.15)
    (other,) = (one for one in compared.metrics[kind][0].differences if one.system == system)
    difference = ratings[system].mean() - ratings["VinVL-base"].mean()
    assert other.difference == pytest.approx(difference, abs=1e-12)
    # 3 standard errors of a share of 10,000 draws; an end of the interval is off by as much at 0.0035
    near = 3 * np.sqrt(p_value * (1 - p_value) / N_DRAWS) + 1e-12
    assert other.p_value == pytest.approx((1 + N_DRAWS * p_value) / (1 + N_DRAWS), abs=near)
    assert [other.interval.low, other.interval.high] == pytest.approx(ends, abs=0.0021)
