"""Pascal-50S's MATLAB files: votes, ties, references."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import loadmat, savemat

import capscore
from capscore.benchmarks.data.load import benchmark_builder

from .official import pascal50s


@pytest.fixture
def folder(tmp_path):
    pascal50s.write_mat(tmp_path)
    return tmp_path


def rows(folder, **options):
    return dict(benchmark_builder("pascal50s", data_dir=folder, options=options).rows("test"))


def test_votes_are_counted_by_caption_whichever_was_shown_first(folder):
    assert {key: row["votes"] for key, row in rows(folder).items()} == {
        "HC|0": [20, 28],
        "HC|1": [11, 37],
        "HI|0": [47, 1],
        "HM|0": [40, 8],
        "MM|0": [24, 24],
    }


def test_the_preferred_caption(folder):
    # the last is a tie: printf '2008_000001.jpg\\nthere is a cat\\na sofa' | sha256sum gives 0f…, an odd byte
    assert [row["label"] for row in rows(folder).values()] == [1, 1, 0, 0, 1]


def test_both_forms_have_the_same_pairs(folder):
    official = rows(folder)
    pascal50s.write(folder)
    labelled = rows(folder)
    assert list(official) == list(labelled)
    for key, row in official.items():
        assert row["references"] == labelled[key]["references"]
        assert row["captions"] == labelled[key]["captions"]
        assert row["image_id"] == labelled[key]["image_id"]
        assert key == "MM|0" or row["label"] == labelled[key]["label"]


def test_as_many_references_as_asked_for(folder):
    assert {len(row["references"]) for row in rows(folder).values()} == {5}
    assert {len(row["references"]) for row in rows(folder, n_references=48).values()} == {48}
    assert {len(row["references"]) for row in rows(folder, n_references=0).values()} == {0}
    pascal50s.write(folder)
    with pytest.raises(capscore.AnnotationError, match=r"has 5 references, expected 6"):
        rows(folder, n_references=6)
    with pytest.raises(capscore.InputError, match=r"n_references='all': expected int"):
        rows(folder, n_references="all")


def test_equal_captions_are_told_apart_by_their_place(tmp_path, monkeypatch):
    monkeypatch.setattr(pascal50s, "PAIRS", [("MM", "2008_000001.jpg", ("a cat", "a cat"), 30)])
    pascal50s.write_mat(tmp_path)
    assert rows(tmp_path)["MM|0"]["votes"] == [30, 18]


def test_files_cut_short(folder):
    for name in ("pair_pascal.mat", "consensus_pascal.mat"):
        content = (folder / name).read_bytes()
        for length in (0, 60, 130, len(content) - 40):
            (folder / name).write_bytes(content[:length])
            with pytest.raises(capscore.AnnotationError, match=rf"{name}: is not a MATLAB file"):
                rows(folder)
        (folder / name).write_bytes(content)


def test_votes_without_pairs(folder):
    (folder / "consensus_pascal.mat").unlink()
    with pytest.raises(capscore.AnnotationError, match=r"reads consensus_pascal\.mat"):
        rows(folder)


def change(folder, file, variable, edit):
    content = {name: value for name, value in loadmat(folder / file).items() if not name.startswith("__")}
    content[variable] = edit(content[variable])
    savemat(folder / file, content)


def _another_winner(triplets):
    triplets[0, 50][3] = np.array([[0]])
    return triplets


def _another_caption(triplets):
    triplets[0, 49][1] = np.array([["an unknown caption"]], dtype=object)
    return triplets


def _two_fields(pairs):
    return np.array(
        [[(pair["image"], pair["B"]) for pair in pairs[0]]], dtype=[("image", object), ("B", object)]
    )


@pytest.mark.parametrize(
    "file, variable, edit, message",
    [
        (
            "pair_pascal.mat",
            "category",
            lambda codes: codes + 3,
            r"entry 0: 'category' is 5, expected",
        ),
        ("pair_pascal.mat", "category", lambda codes: codes[:, 1:], r"has 5 pairs and 4 categories"),
        (
            "pair_pascal.mat",
            "new_input",
            _two_fields,
            r"'new_input' has 2 fields, expected 3",
        ),
        (
            "consensus_pascal.mat",
            "triplets",
            lambda votes: votes[:, 1:],
            r"has 239 votes, expected 48 for each of 5",
        ),
        ("consensus_pascal.mat", "triplets", _another_winner, r"entry 50: the winner is 0, expected 1 or -1"),
        ("consensus_pascal.mat", "triplets", _another_caption, r"entry 49: compares .*an unknown caption"),
    ],
)
def test_damaged_files(folder, file, variable, edit, message):
    change(folder, file, variable, edit)
    with pytest.raises(capscore.AnnotationError, match=message):
        rows(folder)


def test_a_variable_is_missing(folder):
    savemat(folder / "pair_pascal.mat", {"category": np.array([[1]])})
    with pytest.raises(capscore.AnnotationError, match=r"lacks the variable 'new_input'"):
        rows(folder)
