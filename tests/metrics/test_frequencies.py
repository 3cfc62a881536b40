"""Document frequencies: what is counted, and files of them."""

import json
import pickle

import numpy as np
import pytest

from capscore.errors import CapscoreError, InputError, ResultWriteError
from capscore.metrics.cider import DocumentFrequencies

DOCUMENTS = [[["a", "red", "kite"], ["a", "kite"]], [["a", "red", "hat"]], [["snow"]]]


@pytest.fixture
def frequencies():
    return DocumentFrequencies.from_references(DOCUMENTS, segmenter="blanks")


def test_literal_frequencies(frequencies):
    assert (frequencies.n_documents, frequencies.words) == (3, ["a", "red", "kite", "hat", "snow"])
    # the words; "a red", "a kite", "red kite", "red hat"; "a red kite", "a red hat"
    assert frequencies.firsts.tolist() == [0, 5, 9, 11, 11]
    assert frequencies.counts.tolist() == [2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1]


def test_frequencies_can_be_saved_read_back_and_distinguished(frequencies, tmp_path):
    read = DocumentFrequencies.load(frequencies.save(tmp_path / "frequencies.npz"))
    assert [file.name for file in tmp_path.iterdir()] == ["frequencies.npz"]
    assert (read.n_documents, read.words, read.segmenter) == (3, frequencies.words, "blanks")
    for name in ("firsts", "prefixes", "lasts", "counts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(frequencies, name))
    assert read.fingerprint == frequencies.fingerprint
    others = (DOCUMENTS, DOCUMENTS[:2], DOCUMENTS * 2, [[["a", "red"]]], [[["a"]], [["red"]]])
    assert len({DocumentFrequencies.from_references(each).fingerprint for each in others}) == 5
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "taken", tmp_path / "nowhere" / "frequencies.npz"):
        with pytest.raises(ResultWriteError, match="could not be written"):
            frequencies.save(path)


def test_other_and_damaged_files_are_refused_by_name(frequencies, tmp_path):
    """Wherever a byte is changed or the file ends: an error that names it, or the same frequencies."""
    path = tmp_path / "damaged.npz"
    with pytest.raises(CapscoreError, match="cannot be read: No such file"):
        DocumentFrequencies.load(path)
    content, refused = frequencies.save(tmp_path / "whole.npz").read_bytes(), 0
    cuts = range(0, len(content), 29)
    changed = [content[:cut] + b"\xa5" + content[cut + 1 :] for cut in cuts]
    np.savez(tmp_path / "other.npz", counts=np.zeros(3))
    other = [b"a red kite", (tmp_path / "other.npz").read_bytes()]
    for damaged in (*other, *changed, *(content[:cut] for cut in cuts)):
        path.write_bytes(damaged)
        try:
            assert DocumentFrequencies.load(path).fingerprint == frequencies.fingerprint
        except CapscoreError as error:
            assert "damaged.npz' is not what DocumentFrequencies.save writes" in str(error)
            refused += 1
    assert refused > len(cuts)


def test_arrays_that_unpack_beyond_the_limit_are_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "zeros.npz", counts=np.zeros(10_000))
    monkeypatch.setenv("CAPSCORE_MAX_LIST_BYTES", "80000")  # the array alone, without its header
    with pytest.raises(CapscoreError, match=r"zeros\.npz'? unpacks to more than it may: .*MAX_LIST_BYTES"):
        DocumentFrequencies.load(tmp_path / "zeros.npz")


@pytest.mark.parametrize(
    "changes", [{"about": {"version": 1}}, {"about": {"n_documents": 10**400}}, {"counts": np.ones(11)}]
)
def test_files_that_contradict_themselves_are_refused(frequencies, tmp_path, changes):
    path = frequencies.save(tmp_path / "frequencies.npz")
    with np.load(path) as file:
        parts = dict(file)
    about = json.loads(parts["about"].tobytes()) | changes.get("about", {})
    parts |= {**changes, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
    np.savez(path, **parts)
    with pytest.raises(CapscoreError, match="is not what"):
        DocumentFrequencies.load(path)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_is_called_one_and_not_opened(tmp_path, protocol):
    path = tmp_path / "coco-val-df.p"
    path.write_bytes(pickle.dumps({("a",): 1}, protocol))
    with pytest.raises(CapscoreError, match="is a pickle"):
        DocumentFrequencies.load(path)


def test_documents_that_cannot_be_counted():
    text = [[["a"]], ["a red kite"]]
    for documents, message in (
        (text, "row 1, references: 'a red kite'"),
        ([[]], "row 0, "),
        ([], "no document"),
    ):
        with pytest.raises(InputError, match=message):
            DocumentFrequencies.from_references(documents)
