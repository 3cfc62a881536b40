"""BLEU, CIDEr and ROUGE-L on tokens: published numbers, rows by hand, and each formula a second time."""

import math
from collections import Counter
from functools import cache
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.metrics import ngrams, rouge_l
from capscore.metrics.bleu import bleu, corpus_bleu
from capscore.metrics.cider import DocumentFrequencies, cider
from capscore.metrics.ngrams import NGrams, TokenRows

# What is there to get wrong: a word more often than in any reference, no common word, one token, no token at
# all, a candidate equal to a reference, references of unlike length, one row twice.
BREAD = "the old baker sells warm bread at dawn"
CANDIDATES = ["a red kite a red kite over the hill", "two goats chew on a green hat", "snow", ""]
CANDIDATES += [BREAD, "a boat", BREAD]
REFERENCES = [
    ["a red kite flies over the hill", "one kite above a hill", "a child flies a red paper kite"],
    ["the goats are eating a green hat", "two goats chew a hat on the farm"],
    *(["snow covers the whole village", "snow"], ["a lamp", "the lamp on the table is not lit"], [BREAD]),
    *(["three ducks cross a road", "ducks walk over the road one after another in a long row"], [BREAD]),
]


def split(texts: list[str]) -> list[list[str]]:
    return [text.split() for text in texts]


def build(rows: list[tuple[str, list[str]]]) -> TokenRows:
    return TokenRows.build([candidate for candidate, _ in rows], [texts for _, texts in rows], split)


# few words, so that n-grams repeat within a caption and between captions; empty captions too
captions = st.lists(st.sampled_from("a b c d e".split()), max_size=9).map(" ".join)
row_lists = st.lists(st.tuples(captions, st.lists(captions, min_size=1, max_size=4)), min_size=1, max_size=8)

# what pycocoevalcap 1.2 gives for the invented rows (compute_score of Bleu(4), Cider and Rouge)
CORPUS = [0.8391830293983487, 0.7644130049874932, 0.7097627638158528, 0.636459977633365]
BAKER = [0.9999999997500004, 0.9999999997410718, 0.9999999997301591, 0.9999999997163694]
BLEU = [
    [0.7777777776913581, 0.6236095643887031, 0.48074985670840664, 6.559965569989933e-05],
    [0.9999999997142859, 0.8164965806847213, 0.6436595895358154, 9.036020033091823e-05],
    [0.999999998000002, 0.0009999999985000015, 9.999999986666685e-05, 3.162277656215536e-05],
    [0.0, 0.0, 0.0, 0.0],
    BAKER,
    [0.1115650799626501, 4.9893420529863676e-09, 1.770985252956271e-08, 3.3365741273970057e-08],
    BAKER,
]
COCO = [1.5820680886709668, 3.0266599967456758, 1.7504608768230052, 0.0, 10.0, 0.05169282407578704, 10.0]
ROUGE = [0.7672955974842767, 0.6587473002159828, 1.0, 0.0, 1.0, 0.26521739130434785, 1.0]
# what vrama91/cider gives for them in its Python 3 form (ruotianluo/cider, class Cider, df "corpus")
PAPER = [2.8029693372511515, 3.04947078689835, 1.875, 0.0, 10.0, 0.0824537599843927, 10.0]


@pytest.mark.parametrize("block", [1, 20, 10**6])
def test_published_numbers_whatever_the_size_of_blocks(monkeypatch, block):
    monkeypatch.setattr(ngrams.blocks, "__defaults__", (block,))
    monkeypatch.setattr(rouge_l, "_BLOCK", block)
    rows = TokenRows.build(CANDIDATES, REFERENCES, split)
    found = [bleu(rows), corpus_bleu(rows), cider(rows), cider(rows, variant="paper"), rouge_l.rouge_l(rows)]
    for numbers, expected in zip(found, [BLEU, CORPUS, COCO, PAPER, ROUGE], strict=True):
        np.testing.assert_allclose(numbers, expected, rtol=0, atol=1e-12)


def test_bleu_by_hand():
    # "a" 2 of 3 times, since the second reference has it twice; "b" once: 3 of 4. 2-grams: "a b" of 3.
    # The references of 3 and of 5 words are equally near 4: 3 counts, and nothing is lost to brevity.
    rows = build([("a b a a", ["a b c", "c a d a e"])])
    assert bleu(rows)[0, :2] == pytest.approx([3 / 4, math.sqrt(3 / 4 * 1 / 3)], abs=1e-8)
    # 2 words against 4: e^(1 − 4/2)
    assert bleu(build([("a b", ["a b c d"])]))[0, 0] == pytest.approx(math.exp(-1), abs=1e-8)
    assert bleu(build([("", [""]), ("", ["a"])])).tolist() == [[0.0] * 4] * 2
    assert bleu(build([])).shape == (0, 4) and corpus_bleu(build([])).tolist() == [0.0] * 4


def test_cider_by_hand():
    rows = build([("a red kite", ["a red kite flies"]), ("a dog", ["a cat sleeps"])])
    # "a" is in both documents and weighs nothing. 1-grams: 2 of 2 and 3 words, 2/√6; 2-grams: 2/√(2·3) too;
    # 3-grams: 1 of 1 and 2; no 4-gram. The penalty is for 2 against 3 2-grams.
    expected = 10 * (2 / math.sqrt(6) + 2 / math.sqrt(6) + 1 / math.sqrt(2)) / 4 * math.exp(-1 / 72)
    np.testing.assert_allclose(cider(rows), [expected, 0.0], atol=1e-12)
    # three tokens make no 4-gram: a quarter is lost even to a perfect match
    assert cider(build([("w x y", ["w x y"]), ("a", ["b"])]))[0] == pytest.approx(7.5)
    one = build([("w x y z", ["w x y z"])])
    assert cider(one).tolist() == [0.0]  # of one row, no n-gram is rare
    many = DocumentFrequencies.from_references([split([text]) for text in ("w x y z", "w b", "c")])
    np.testing.assert_allclose(cider(one, frequencies=many), [10.0], atol=1e-12)
    assert cider(build([])).shape == (0,)
    assert cider(build([("", [""]), ("", ["a"]), ("a", [""])])).tolist() == [0.0, 0.0, 0.0]


def test_rouge_l_by_hand():
    # "a red" of 3 tokens and of 6: P = 2/3, R = 1/3; 2.44 · 2/9 / (1/3 + 1.44 · 2/3); of the second, the best
    # P is the first reference's (3/3), the best R the second's (1/1)
    rows = build([("a red kite", ["the kite is a red one"]), ("a b c", ["a x b y c", "b"])])
    assert rouge_l.rouge_l(rows) == pytest.approx([122 / 291, 1.0])
    # "" has one token, the empty one, where it is split at blanks
    empty = build([("", ["a", "b"]), ("a", [""]), ("", ["a", ""])])
    assert rouge_l.rouge_l(empty).tolist() == [0.0, 0.0, 1.0]
    assert rouge_l.rouge_l(build([])).shape == (0,)
    long = [f"w{number}" for number in range(70)]
    rows = build([(" ".join(long[::2]), [" ".join(long * 100)]), (" ".join(long * 20), [" ".join(long)])])
    # P and R: 35 of 35 and of 7,000; 70 of 1,400 and of 70
    expected = [2.44 * 0.005 / (0.005 + 1.44), 2.44 * 0.05 / (1 + 1.44 * 0.05)]
    np.testing.assert_allclose(rouge_l.rouge_l(rows), expected, atol=1e-12)


def counted(tokens: list[str]) -> list[Counter[tuple[str, ...]]]:
    return [Counter(zip(*(tokens[start:] for start in range(n)), strict=False)) for n in range(1, 5)]


def naive_cider(rows, documents=None, clip=True, sigma=6.0):
    documents = [texts for _, texts in rows] if documents is None else documents
    held = Counter()
    for texts in documents:
        held.update({ngram for text in texts for order in counted(text.split()) for ngram in order})

    def vectors(text):
        idf = {ngram: math.log(len(documents)) - math.log(max(1, count)) for ngram, count in held.items()}
        rare = math.log(len(documents))
        orders = counted(text.split())
        return [{ngram: n * idf.get(ngram, rare) for ngram, n in order.items()} for order in orders]

    scores = []
    for candidate, texts in rows:
        total = 0.0
        for reference in texts:
            bigrams = [max(len(text.split()) - 1, 0) for text in (candidate, reference)]
            penalty = math.exp(-((bigrams[0] - bigrams[1]) ** 2) / (2 * sigma**2))
            for ours, theirs in zip(vectors(candidate), vectors(reference), strict=True):
                norm = math.hypot(*ours.values()) * math.hypot(*theirs.values())
                products = (
                    (min(ours[ngram], theirs[ngram]) if clip else ours[ngram]) * theirs[ngram]
                    for ngram in ours.keys() & theirs.keys()
                )
                total += penalty * sum(products) / norm if norm else 0.0
        scores.append(10 * total / 4 / len(texts))
    return scores


def naive_rouge_l(rows):
    scores = []
    for candidate, texts in rows:
        tokens, references = (candidate.split() or [""]), [text.split() or [""] for text in texts]
        common = [longest(tuple(tokens), tuple(others)) for others in references]
        precision = max(common) / len(tokens)
        recall = max(length / len(others) for length, others in zip(common, references, strict=True))
        weighed = recall + 1.44 * precision
        scores.append(2.44 * precision * recall / weighed if weighed else 0.0)
    return scores


@cache
def longest(some: tuple[str, ...], others: tuple[str, ...]) -> int:
    if not some or not others:
        return 0
    if some[0] == others[0]:
        return 1 + longest(some[1:], others[1:])
    return max(longest(some[1:], others), longest(some, others[1:]))


@given(row_lists, st.lists(st.lists(captions, min_size=1, max_size=3), min_size=1, max_size=6))
@settings(max_examples=20)
def test_equals_the_second_computation(rows, documents):
    given = build(rows)
    np.testing.assert_allclose(cider(given), naive_cider(rows), atol=1e-9)
    expected = naive_cider(rows, clip=False, sigma=math.inf)
    np.testing.assert_allclose(cider(given, variant="paper"), expected, atol=1e-9)
    frequencies = DocumentFrequencies.from_references([split(texts) for texts in documents])
    np.testing.assert_allclose(cider(given, frequencies=frequencies), naive_cider(rows, documents), atol=1e-9)
    of_rows = DocumentFrequencies.from_rows(given)
    assert of_rows.n_documents == len(rows)
    np.testing.assert_allclose(cider(given, frequencies=of_rows), naive_cider(rows), atol=1e-9)
    for long in (rouge_l._LONG, 3):  # texts that are compared pair by pair, too
        with mock.patch.object(rouge_l, "_LONG", long):
            np.testing.assert_allclose(rouge_l.rouge_l(given), naive_rouge_l(rows), atol=1e-12)


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=8), max_size=6))
@settings(max_examples=20)
def test_every_ngram_is_counted_as_a_dict_counts_it(texts):
    ngrams = NGrams.count(texts)
    words: list[tuple[str, ...]] = []  # the tokens of each n-gram
    for prefix, last in zip(ngrams.prefixes.tolist(), ngrams.lasts.tolist(), strict=True):
        words.append((*(words[prefix] if prefix >= 0 else ()), ngrams.words[last]))
    assert len(set(words)) == len(words) == len(ngrams) and (np.diff(ngrams.keys) > 0).all()
    assert [len(ngram) - 1 for ngram in words] == ngrams.orders.tolist()
    found = [Counter() for _ in texts]
    for text, number, count in zip(*ngrams.of(np.arange(len(texts))), strict=True):
        found[text][words[number]] = int(count)
    expected = [sum(counted(text), Counter()) for text in texts]
    assert found == expected
    for row, of_text in enumerate(expected):
        counts = ngrams.counts_in(np.full(len(words), row), np.arange(len(words)))
        assert counts.tolist() == [of_text[ngram] for ngram in words]
