"""CIDEr in its variants: published numbers, the formula with dicts beside it, files of frequencies."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.errors import CapscoreError, InputError, ResultWriteError
from capscore.metrics.formulas import ngrams
from capscore.metrics.formulas.cider import DocumentFrequencies, cider, cider_d

from ...token_rows import CANDIDATES, REFERENCES, build, captions, invented, row_lists, split

# what pycocoevalcap 1.2 gives for these rows (Cider().compute_score)
COCO = [1.5820680886709668, 3.0266599967456758, 1.7504608768230052, 0.0, 10.0, 0.05169282407578704, 10.0]
# what vrama91/cider gives for them in its Python 3 form (ruotianluo/cider, class Cider, df "corpus")
PAPER = [2.8029693372511515, 3.04947078689835, 1.875, 0.0, 10.0, 0.0824537599843927, 10.0]
INVENTED = list(zip(CANDIDATES, REFERENCES, strict=True))


def counts(text: str) -> list[Counter[tuple[str, ...]]]:
    words = text.split()
    return [
        Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1)) for n in range(1, 5)
    ]


def naive(
    rows: list[tuple[str, list[str]]],
    documents: list[list[str]] | None = None,
    clip: bool = True,
    sigma: float = 6.0,
) -> list[float]:
    """The formula with dicts, a row and an n-gram at a time."""
    documents = [texts for _, texts in rows] if documents is None else documents
    held = Counter()
    for texts in documents:
        held.update({ngram for text in texts for order in counts(text) for ngram in order})

    def vectors(text):
        return [
            {
                ngram: count * (math.log(len(documents)) - math.log(max(1, held[ngram])))
                for ngram, count in order.items()
            }
            for order in counts(text)
        ]

    scores = []
    for candidate, texts in rows:
        total = 0.0
        for reference in texts:
            bigrams = [max(len(text.split()) - 1, 0) for text in (candidate, reference)]
            penalty = math.exp(-((bigrams[0] - bigrams[1]) ** 2) / (2 * sigma**2))
            for ours, theirs in zip(vectors(candidate), vectors(reference), strict=True):
                norm = math.hypot(*ours.values()) * math.hypot(*theirs.values())
                if norm:
                    product = sum(
                        (min(weight, theirs[ngram]) if clip else weight) * theirs[ngram]
                        for ngram, weight in ours.items()
                        if ngram in theirs
                    )
                    total += penalty * product / norm
        scores.append(10 * total / 4 / len(texts))
    return scores


@pytest.mark.parametrize("block", [1, 7, 10**6])
def test_published_numbers_whatever_the_size_of_blocks(monkeypatch, block):
    monkeypatch.setattr(ngrams.blocks, "__defaults__", (block,))
    for scores in (cider(invented()), cider_d(invented()), naive(INVENTED)):
        np.testing.assert_allclose(scores, COCO, atol=1e-12)
    for scores in (cider(invented(), variant="paper"), naive(INVENTED, clip=False, sigma=math.inf)):
        np.testing.assert_allclose(scores, PAPER, atol=1e-12)


def test_rows_by_hand():
    rows = build([("a red kite", ["a red kite flies"]), ("a dog", ["a cat sleeps"])])
    # "a" is in both documents and weighs nothing. 1-grams: 2 of 2 and 3 words, 2/√6; 2-grams: 2/√(2·3) too;
    # 3-grams: 1 of 1 and 2; no 4-gram. The penalty is for 2 against 3 2-grams.
    expected = 10 * (2 / math.sqrt(6) + 2 / math.sqrt(6) + 1 / math.sqrt(2)) / 4 * math.exp(-1 / 72)
    assert expected == pytest.approx(5.769558, abs=1e-6)
    np.testing.assert_allclose(cider(rows), [expected, 0.0], atol=1e-12)
    narrow = cider_d(rows, sigma=1.0)
    np.testing.assert_allclose(narrow, [expected * math.exp(1 / 72 - 1 / 2), 0.0], atol=1e-12)
    # three tokens make no 4-gram: a quarter is lost even to a perfect match
    assert cider(build([("w x y", ["w x y"]), ("a", ["b"])]))[0] == pytest.approx(7.5)
    one = build([("w x y z", ["w x y z"])])
    assert cider(one).tolist() == [0.0]  # of one row, no n-gram is rare
    many = DocumentFrequencies.from_references([split([text]) for text in ("w x y z", "w b", "c")])
    np.testing.assert_allclose(cider(one, frequencies=many), [10.0], atol=1e-12)
    assert cider(build([])).shape == (0,)
    assert cider(build([("", [""]), ("", ["a"]), ("a", [""])])).tolist() == [0.0, 0.0, 0.0]


@given(row_lists, st.sampled_from([0.5, 6.0, math.inf]))
@settings(max_examples=20)
def test_equals_the_computation_with_dicts(rows, sigma):
    np.testing.assert_allclose(cider_d(build(rows), sigma=sigma), naive(rows, sigma=sigma), atol=1e-9)
    expected = naive(rows, clip=False, sigma=math.inf)
    np.testing.assert_allclose(cider(build(rows), variant="paper"), expected, atol=1e-9)


@given(row_lists, st.lists(st.lists(captions, min_size=1, max_size=3), min_size=1, max_size=6))
@settings(max_examples=20)
def test_frequencies_from_elsewhere_equal_the_computation_with_dicts(rows, documents):
    frequencies = DocumentFrequencies.from_references([split(texts) for texts in documents])
    np.testing.assert_allclose(cider(build(rows), frequencies=frequencies), naive(rows, documents), atol=1e-9)
    of_rows = DocumentFrequencies.from_rows(build(rows))
    assert of_rows.n_documents == len(rows)
    np.testing.assert_allclose(cider(build(rows), frequencies=of_rows), naive(rows), atol=1e-9)


def test_bad_settings_are_named():
    with pytest.raises(InputError, match="variant: 'plain' is not a variant of CIDEr"):
        cider(invented(), variant="plain")
    for sigma in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match=r"sigma: .* is not a width"):
            cider_d(invented(), sigma=sigma)


# ----------------------------------------------------------------- document frequencies

DOCUMENTS = [[["a", "red", "kite"], ["a", "kite"]], [["a", "red", "hat"]], [["snow"]]]


def test_literal_frequencies():
    frequencies = DocumentFrequencies.from_references(DOCUMENTS, segmenter="blanks")
    assert frequencies.n_documents == 3
    # 5 words; "a red", "red kite", "a kite", "red hat"; "a red kite", "a red hat"
    assert np.diff(frequencies.firsts).tolist() == [5, 4, 2, 0] and len(frequencies) == 11
    expected = {"a": 2, "red": 2, "kite": 1, "a red": 2, "a kite": 1, "a red hat": 1, "snow": 1}
    assert {text: frequencies.count(text.split()) for text in expected} == expected
    for absent in ("bird", "kite a", "red snow", "a red kite hat", "a bird"):
        assert frequencies.count(absent.split()) == 0
    for wrong in ([], ["a"] * 5, "a red"):
        with pytest.raises(InputError, match="is not a list of 1 to 4 tokens"):
            frequencies.count(wrong)


def test_frequencies_are_saved_read_back_and_told_apart(tmp_path):
    frequencies = DocumentFrequencies.from_references(DOCUMENTS, segmenter="blanks")
    read = DocumentFrequencies.load(frequencies.save(tmp_path / "frequencies.npz"))
    assert [file.name for file in tmp_path.iterdir()] == ["frequencies.npz"]
    assert (read.n_documents, read.words, read.segmenter) == (3, frequencies.words, "blanks")
    for name in ("firsts", "prefixes", "lasts", "counts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(frequencies, name))
    assert read.fingerprint == frequencies.fingerprint
    others = (DOCUMENTS, DOCUMENTS[:2], DOCUMENTS * 2, [[["a", "red"]]], [[["a"]], [["red"]]])
    assert len({DocumentFrequencies.from_references(each).fingerprint for each in others}) == 5


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "taken", tmp_path / "nowhere" / "frequencies.npz"):
        with pytest.raises(ResultWriteError, match="could not be written"):
            DocumentFrequencies.from_references(DOCUMENTS).save(path)
    assert [file.name for file in tmp_path.rglob("*")] == ["taken"]


def test_other_and_damaged_files_are_refused_by_name(tmp_path):
    """Wherever a byte is changed or the file ends: an error that names it, or the same frequencies."""
    path = tmp_path / "damaged.npz"
    with pytest.raises(CapscoreError, match="cannot be read: No such file"):
        DocumentFrequencies.load(path)
    good = DocumentFrequencies.from_references(DOCUMENTS)
    content, refused = good.save(tmp_path / "whole.npz").read_bytes(), 0
    cuts = range(0, len(content), 29)
    changed = [content[:cut] + b"\xa5" + content[cut + 1 :] for cut in cuts]
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", counts=np.zeros(3))
    other = [b"a red kite", *((tmp_path / name).read_bytes() for name in ("array.npy", "other.npz"))]
    for damaged in (*other, *changed, *(content[:cut] for cut in cuts)):
        path.write_bytes(damaged)
        try:
            assert DocumentFrequencies.load(path).fingerprint == good.fingerprint
        except CapscoreError as error:
            assert "damaged.npz' is not what DocumentFrequencies.save writes" in str(error)
            refused += 1
    assert refused > len(cuts)


CHANGED = {
    "version": {"about": {"version": 1}},
    "fewer documents": {"about": {"n_documents": 1}},
    "more documents than can be counted": {"about": {"n_documents": 10**400}},
    "words that are none": {"about": {"words": [["a"], ["red"], [], [], []]}},
    "a word less": {"about": {"words": ["a", "red", "kite", "hat"]}},
    "counts cut off": {"counts": np.array([1, 2])},
    "counts that are no integers": {"counts": np.ones(11)},
    "a prefix of the same order": {"prefixes": np.full(11, 10)},
}


@pytest.mark.parametrize("name", CHANGED)
def test_files_that_contradict_themselves_are_refused(tmp_path, name):
    path = DocumentFrequencies.from_references(DOCUMENTS).save(tmp_path / "frequencies.npz")
    with np.load(path) as file:
        parts = dict(file)
    about = json.loads(parts["about"].tobytes()) | CHANGED[name].get("about", {})
    parts |= {**CHANGED[name], "about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
    np.savez(path, **parts)
    with pytest.raises(CapscoreError, match="is not what"):
        DocumentFrequencies.load(path)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([[["a"]], ["a red kite"]], "row 1, references: 'a red kite' is a text; expected its tokens"),
        ([[]], "row 0, references: no reference"),
        ([], "no document to count"),
    ],
)
def test_documents_that_cannot_be_counted(documents, message):
    with pytest.raises(InputError, match=message):
        DocumentFrequencies.from_references(documents)
