"""CIDEr in its variants: published numbers, the formula with dicts beside it, what must not matter."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import CapscoreError, InputError, ResultWriteError
from capscore.metrics.formulas import ngrams
from capscore.metrics.formulas.cider import DocumentFrequencies, cider, cider_d
from capscore.metrics.formulas.ngrams import TokenRows

from ...token_rows import CANDIDATES, REFERENCES, build, captions, invented, row_lists, split

# what pycocoevalcap 1.2 gives for these rows (Cider().compute_score)
COCO = [1.5820680886709668, 3.0266599967456758, 1.7504608768230052, 0.0, 10.0, 0.05169282407578704, 10.0]
# what vrama91/cider gives for them in its Python 3 form (ruotianluo/cider, class Cider, df "corpus")
PAPER = [2.8029693372511515, 3.04947078689835, 1.875, 0.0, 10.0, 0.0824537599843927, 10.0]


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


INVENTED = list(zip(CANDIDATES, REFERENCES, strict=True))


def test_published_numbers():
    np.testing.assert_allclose(cider(invented()), COCO, atol=1e-12)
    np.testing.assert_allclose(cider_d(invented()), COCO, atol=1e-12)
    np.testing.assert_allclose(naive(INVENTED), COCO, atol=1e-12)


def test_the_papers_plain_cider():
    np.testing.assert_allclose(cider(invented(), variant="paper"), PAPER, atol=1e-12)
    np.testing.assert_allclose(naive(INVENTED, clip=False, sigma=math.inf), PAPER, atol=1e-12)


def test_a_row_by_hand():
    rows = build([("a red kite", ["a red kite flies"]), ("a dog", ["a cat sleeps"])])
    # "a" is in both documents and weighs nothing. 1-grams: 2 of 2 and 3 words, 2/√6; 2-grams: 2/√(2·3) too;
    # 3-grams: 1 of 1 and 2; no 4-gram. The penalty is for 2 against 3 2-grams.
    expected = 10 * (2 / math.sqrt(6) + 2 / math.sqrt(6) + 1 / math.sqrt(2)) / 4 * math.exp(-1 / 72)
    assert expected == pytest.approx(5.769558, abs=1e-6)
    np.testing.assert_allclose(cider(rows), [expected, 0.0], atol=1e-12)
    narrow = cider_d(rows, sigma=1.0)
    np.testing.assert_allclose(narrow, [expected * math.exp(1 / 72 - 1 / 2), 0.0], atol=1e-12)


def test_a_candidate_that_is_its_only_reference_scores_10_and_any_other_less():
    rows = build(
        [(text, [text]) for text in ("w x y z", "k l m n o", "p q r s t u")] + [("k x m z", ["a b c d"])]
    )
    np.testing.assert_allclose(cider(rows), [10.0, 10.0, 10.0, 0.0], atol=1e-12)
    # three tokens make no 4-gram: a quarter is lost even to a perfect match
    assert cider(build([("w x y", ["w x y"]), ("a", ["b"])]))[0] == pytest.approx(7.5)


def test_a_single_row_scores_0_without_frequencies_from_elsewhere():
    one = build([("w x y z", ["w x y z"])])
    assert cider(one).tolist() == [0.0]
    many = DocumentFrequencies.from_references([split([text]) for text in ("w x y z", "w b", "c")])
    np.testing.assert_allclose(cider(one, frequencies=many), [10.0], atol=1e-12)


@given(row_lists, st.booleans(), st.sampled_from([0.5, 6.0, math.inf]))
def test_equals_the_computation_with_dicts(rows, clip, sigma):
    if clip:
        np.testing.assert_allclose(cider_d(build(rows), sigma=sigma), naive(rows, sigma=sigma), atol=1e-9)
    else:
        expected = naive(rows, clip=False, sigma=math.inf)
        np.testing.assert_allclose(cider(build(rows), variant="paper"), expected, atol=1e-9)


@given(row_lists, st.lists(st.lists(captions, min_size=1, max_size=3), min_size=1, max_size=6))
def test_frequencies_from_elsewhere_equal_the_computation_with_dicts(rows, documents):
    frequencies = DocumentFrequencies.from_references([split(texts) for texts in documents])
    np.testing.assert_allclose(cider(build(rows), frequencies=frequencies), naive(rows, documents), atol=1e-9)


@given(row_lists, st.randoms())
def test_the_order_of_rows_and_of_references_does_not_matter(rows, chance):
    order = chance.sample(range(len(rows)), len(rows))
    shuffled = [(rows[row][0], chance.sample(rows[row][1], len(rows[row][1]))) for row in order]
    np.testing.assert_allclose(cider(build(shuffled)), cider(build(rows))[order], atol=1e-9)


@given(row_lists, st.integers(2, 4))
def test_repeating_all_rows_changes_nothing_if_every_ngram_is_in_a_reference(rows, times):
    # every candidate is a reference of the next row
    rows = [(candidate, [*texts, rows[row - 1][0]]) for row, (candidate, texts) in enumerate(rows)]
    once, often = cider(build(rows)), cider(build(rows * times))
    np.testing.assert_allclose(often, np.tile(once, times), atol=1e-9)


def test_an_ngram_that_no_reference_has_weighs_more_among_more_rows():
    rows = [("a b unseen", ["a b c"]), ("d", ["e f"]), ("e", ["a g"])]
    once, twice = cider(build(rows)), cider(build(rows * 2))
    np.testing.assert_allclose(twice, naive(rows * 2), atol=1e-12)
    assert twice[0] < once[0] - 0.01


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_the_size_of_blocks_does_not_matter(monkeypatch, limit):
    whole = cider(invented()), cider(invented(), variant="paper")
    monkeypatch.setattr(ngrams.blocks, "__defaults__", (limit,))
    np.testing.assert_allclose(cider(invented()), whole[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(cider(invented(), variant="paper"), whole[1], rtol=0, atol=1e-12)


def test_no_rows_and_no_tokens():
    assert cider(build([])).shape == (0,)
    assert cider(build([("", [""]), ("", ["a"]), ("a", [""])])).tolist() == [0.0, 0.0, 0.0]


def test_tokens_may_be_anything_but_blank_separated():
    rows = TokenRows.build(
        ["赤い凧", "猫"], [["赤い凧が飛ぶ"], ["犬と猫"]], lambda texts: [list(t) for t in texts]
    )
    spaced = build([("赤 い 凧", ["赤 い 凧 が 飛 ぶ"]), ("猫", ["犬 と 猫"])])
    np.testing.assert_allclose(cider(rows), cider(spaced), rtol=0, atol=1e-12)


def test_bad_settings():
    with pytest.raises(
        InputError, match="variant: 'plain' is not a variant of CIDEr; expected 'coco' or 'paper'"
    ):
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


@given(row_lists)
def test_frequencies_of_the_rows_are_what_the_rows_use_themselves(rows):
    token_rows = build(rows)
    frequencies = DocumentFrequencies.from_rows(token_rows)
    np.testing.assert_allclose(
        cider(token_rows, frequencies=frequencies), cider(token_rows), rtol=0, atol=1e-12
    )
    same = DocumentFrequencies.from_references([split(texts) for _, texts in rows])
    assert same.n_documents == frequencies.n_documents == len(rows)
    np.testing.assert_allclose(cider(token_rows, frequencies=same), cider(token_rows), rtol=0, atol=1e-12)


def test_saved_and_read_back(tmp_path):
    frequencies = DocumentFrequencies.from_references(DOCUMENTS, segmenter="blanks")
    path = frequencies.save(tmp_path / "frequencies.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["frequencies.npz"]
    read = DocumentFrequencies.load(path)
    assert (read.n_documents, read.words, read.segmenter) == (3, frequencies.words, "blanks")
    for name in ("firsts", "prefixes", "lasts", "counts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(frequencies, name))
    assert read.fingerprint == frequencies.fingerprint
    np.testing.assert_allclose(
        cider(invented(), frequencies=read), cider(invented(), frequencies=frequencies), rtol=0, atol=1e-12
    )


def test_the_fingerprint_tells_counts_apart():
    prints = {
        DocumentFrequencies.from_references(documents).fingerprint
        for documents in (DOCUMENTS, DOCUMENTS[:2], DOCUMENTS * 2, [[["a", "red"]]], [[["a"]], [["red"]]])
    }
    assert len(prints) == 5
    assert DocumentFrequencies.from_references(DOCUMENTS).fingerprint in prints


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    frequencies = DocumentFrequencies.from_references(DOCUMENTS)
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "taken", tmp_path / "nowhere" / "frequencies.npz"):
        with pytest.raises(ResultWriteError, match="could not be written"):
            frequencies.save(path)
    assert [file.name for file in tmp_path.rglob("*")] == ["taken"]


def saved_with(tmp_path, about=None, **arrays):
    """A file of frequencies in which something was changed."""
    path = DocumentFrequencies.from_references(DOCUMENTS).save(tmp_path / "frequencies.npz")
    with np.load(path) as file:
        parts = dict(file)
    said = {**json.loads(parts["about"].tobytes()), **(about or {})}
    parts |= {"about": np.frombuffer(json.dumps(said).encode(), np.uint8), **arrays}
    np.savez(path, **parts)
    return path


def test_files_that_are_not_document_frequencies(tmp_path):
    with pytest.raises(CapscoreError, match="cannot be read: No such file"):
        DocumentFrequencies.load(tmp_path / "missing.npz")
    for name, content in {"empty": b"", "text": b"a red kite", "zip": b"PK\x03\x04 cut off"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CapscoreError, match=f"{name}' is not what DocumentFrequencies.save writes"):
            DocumentFrequencies.load(tmp_path / name)
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", counts=np.zeros(3))
    for name in ("array.npy", "other.npz"):
        with pytest.raises(CapscoreError, match=r"is not what DocumentFrequencies\.save writes"):
            DocumentFrequencies.load(tmp_path / name)


CHANGED = {
    "format": ({"about": {"format": "weights"}}, "is not what"),
    "version": ({"about": {"version": 2}}, "is not what"),
    "fewer documents than counted": ({"about": {"n_documents": 1}}, "is not what"),
    "a word twice": ({"about": {"words": ["a", "a", "kite", "hat", "snow"]}}, "is not what"),
    "a word less": ({"about": {"words": ["a", "red", "kite", "hat"]}}, "is not what"),
    "counts cut off": ({"counts": np.array([1, 2])}, "is not what"),
    "a count of 0": ({"counts": np.zeros(11, np.int64)}, "is not what"),
    "a last word that is none": ({"lasts": np.full(11, 9)}, "is not what"),
    "a prefix of the same order": ({"prefixes": np.full(11, 10)}, "is not what"),
    "orders backwards": ({"firsts": np.array([0, 5, 3, 11, 11])}, "is not what"),
    "documents that are no number": ({"about": {"n_documents": "3"}}, "is not what"),
    "a part of a document": ({"about": {"n_documents": 3.5}}, "is not what"),
    "more documents than can be counted": ({"about": {"n_documents": 10**400}}, "is not what"),
    "no documents": ({"about": {"n_documents": None}}, "is not what"),
    "words that are none": ({"about": {"words": [["a"], ["red"], [], [], []]}}, "is not what"),
    "numbers for words": ({"about": {"words": [1, 2, 3, 4, 5]}}, "is not what"),
    "a segmenter without a name": ({"about": {"segmenter": 5}}, "is not what"),
    "a count by itself": ({"counts": np.int64(3)}, "is not what"),
    "counts that are no integers": ({"counts": np.ones(11)}, "is not what DocumentFrequencies.save writes"),
}


def test_damaged_files_are_refused(tmp_path):
    """Wherever a byte is changed or the file ends: an error that names it, or the same frequencies."""
    good = DocumentFrequencies.from_references(DOCUMENTS)
    content = good.save(tmp_path / "whole.npz").read_bytes()
    path, refused = tmp_path / "damaged.npz", 0
    for place in range(0, len(content), 3):
        for damaged in (content[:place], content[:place] + b"\xa5" + content[place + 1 :]):
            path.write_bytes(damaged)
            try:
                assert DocumentFrequencies.load(path).fingerprint == good.fingerprint
            except CapscoreError as error:
                assert "damaged.npz' " in str(error) and "pickle" not in str(error)
                refused += 1
    assert refused > len(content) / 3


@pytest.mark.parametrize("name", CHANGED)
def test_changed_files_are_refused(tmp_path, name):
    changes, message = CHANGED[name]
    with pytest.raises(CapscoreError, match=message):
        DocumentFrequencies.load(saved_with(tmp_path, **changes))
    assert DocumentFrequencies.load(saved_with(tmp_path)).n_documents == 3  # it was the change


def test_documents_that_cannot_be_counted():
    with pytest.raises(InputError, match="row 1, references: 'a red kite' is a text; expected its tokens"):
        DocumentFrequencies.from_references([[["a"]], ["a red kite"]])
    with pytest.raises(InputError, match="row 0, references: no reference"):
        DocumentFrequencies.from_references([[]])
    with pytest.raises(InputError, match="no document to count"):
        DocumentFrequencies.from_references([])
    with pytest.raises(InputError, match="no document to count"):
        DocumentFrequencies.from_rows(build([]))
