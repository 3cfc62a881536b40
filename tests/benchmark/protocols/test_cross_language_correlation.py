"""Correlation between languages: against NumPy, subsets by quality, and the figure."""

from __future__ import annotations

import errno
import itertools
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import cross_language, quality_subset
from capscore.errors import InputError, MissingExtraError, ResultWriteError

SCORES = {"en": [1, 2, 3, 4], "de": [1, 3, 3, 2], "ja": [4, 3, 2, 1]}


def test_literal_correlations():
    found = cross_language(SCORES)
    # en: -1.5, -.5, .5, 1.5; de less 2.25: -1.25, .75, .75, -.25 → 1.5 / √(5 · 2.75)
    r = 1.5 / math.sqrt(5 * 2.75)
    np.testing.assert_allclose(found.matrix, [[1, r, -1], [r, 1, -r], [-1, -r, 1]])
    assert (found.counts_of == 4).all()
    assert found.mean == pytest.approx(-1 / 3)
    assert [(name, n) for name, _, n in found.table()] == [
        ("pearson en de", 4),
        ("pearson en ja", 4),
        ("pearson de ja", 4),
        ("pearson mean", 3),
    ]
    assert found.counts() == {"languages": 3, "pairs": 3, "left out": 0}


def test_two_languages_are_compared_on_what_both_count():
    found = cross_language(SCORES, subset={"de": [True, True, True, False], "ja": [False, True, True, True]})
    assert found.counts_of.tolist() == [[4, 3, 3], [3, 3, 2], [3, 2, 3]]
    assert found.matrix[0, 1] == pytest.approx(np.corrcoef([1, 2, 3], [1, 3, 3])[0, 1])
    assert math.isnan(found.matrix[1, 2])  # two items, on which de is constant
    assert found.mean is None
    assert found.notes == ("no correlation of de and ja: one side is constant",)
    assert found.to_dict()["matrix"][1][2] is None
    apart = cross_language(SCORES, subset={"en": [1, 1, 0, 0], "de": [0, 0, 1, 1]})
    assert "no correlation of en and de: no item counts in both" in apart.notes


def test_missing_scores():
    scores = {**SCORES, "de": [1, None, 3, 2]}
    with pytest.raises(InputError, match=r"^row 1, scores\['de'\]: there is no score"):
        cross_language(scores)
    found = cross_language(scores, missing="skip")
    assert found.counts_of.tolist() == [[4, 3, 4], [3, 3, 3], [4, 3, 4]]
    assert (found.n_missing, found.notes) == (1, ("de: 1 item left out: the score is missing",))
    # a gap that does not count is nobody's business
    assert cross_language(scores, subset={"de": [1, 0, 1, 1]}).n_missing == 0


def test_quality_subsets():
    quality = {"de": [0.5, 0.1, 0.4, 0.3, 0.2], "fr": [0.9, 0.9, 0.9, 0.9, 0.1]}
    # the 25th and 75th percentile of de are 0.2 and 0.4
    low, high = quality_subset(quality, below=25), quality_subset(quality, above=75)
    assert low["de"].tolist() == [False, True, False, False, False]
    assert high["de"].tolist() == [True, False, False, False, False]
    assert low["fr"].tolist() == [False, False, False, False, True]
    assert high["fr"].tolist() == [False] * 5
    for settings in ({}, {"below": 25, "above": 75}, {"below": 101}, {"above": True}):
        with pytest.raises(InputError, match="expected"):
            quality_subset(quality, **settings)
    with pytest.raises(InputError, match=r"^row 1, quality\['de'\]: expected a number, got none"):
        quality_subset({"de": [0.1, None]}, below=25)


@pytest.mark.parametrize(
    ("scores", "settings", "message"),
    [
        ({"en": [1, 2]}, {}, r"^scores: expected a mapping of at least two languages"),
        ([[1, 2], [2, 3]], {}, r"^scores: expected a mapping"),
        ({"en": [1, 2], "de": [1]}, {}, r"^scores\['de'\]: 1 row here but 2"),
        (
            {"en": [1, 2], "de": [1, 2]},
            {"subset": {"fr": [1, 1]}},
            r"^subset: 'fr': no scores; there are en, de",
        ),
        ({"en": [1, 2], "de": [1, 2]}, {"subset": {"de": [1]}}, r"^subset\['de'\]: 1 row here but 2"),
    ],
)
def test_what_is_wrong_is_named(scores, settings, message):
    with pytest.raises(InputError, match=message):
        cross_language(scores, **settings)


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=2, max_size=12), st.randoms())
def test_agrees_with_numpy_in_any_order(rows, random):
    def run(rows):
        return cross_language(dict(zip(("en", "de", "ja"), zip(*rows, strict=True), strict=True)))

    found, shuffled = run(rows), run(random.sample(rows, len(rows)))
    np.testing.assert_allclose(shuffled.matrix, found.matrix)
    columns = np.array(rows, dtype=float).T
    for a, b in itertools.combinations(range(3), 2):
        if np.ptp(columns[a]) and np.ptp(columns[b]):
            assert found.matrix[a, b] == pytest.approx(np.corrcoef(columns[a], columns[b])[0, 1], abs=1e-12)
        else:
            assert math.isnan(found.matrix[a, b])


# ---------------------------------------------------------------------------- figure

OTHER = {"en": [1, 2, 3, 4], "de": [1, 2, 3, 5], "ja": [1, 2, 2, 9]}


def cells(path):
    """The figure's numbers, row by row."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))
    return [text for text in texts if re.fullmatch(r"−?\d\.\d\d|–", text)], texts


def test_the_figure_says_the_numbers_in_words_and_text(tmp_path):
    path = cross_language(SCORES).figure(tmp_path / "map.svg", label="MCS")
    numbers, texts = cells(path)
    # 1.5 / √13.75 = .40; the scale's own labels come after
    assert numbers[:3] == ["0.40", "−1.00", "−0.40"]
    for text in ("en", "de", "ja", "MCS", "Correlation of scores between languages", "Pearson's r"):
        assert text in texts or text.replace("'", "&#39;") in texts or text.replace("'", "&apos;") in texts


def test_two_metrics_share_the_map(tmp_path):
    one, two = cross_language(SCORES), cross_language(OTHER)
    path = one.figure(tmp_path / "map.svg", label="CLIPScore", other=two, other_label="fine-tuned")
    numbers, texts = cells(path)
    upper = [f"{two.matrix[a, b]:.2f}" for a, b in ((0, 1), (0, 2), (1, 2))]
    assert numbers[:6] == [upper[0], upper[1], "0.40", upper[2], "−1.00", "−0.40"]
    assert "below the diagonal: CLIPScore · above: fine-tuned" in texts


def test_what_does_not_exist_is_a_dash(tmp_path):
    found = cross_language({"en": [1, 2, 3], "de": [2, 2, 2]})
    assert cells(found.figure(tmp_path / "map.svg"))[0][0] == "–"


@pytest.mark.parametrize(
    ("name", "start"), [("map.png", b"\x89PNG"), ("map.PDF", b"%PDF"), ("map.svg", b"<?xml")]
)
def test_formats_by_ending_and_equal_numbers_give_equal_files(tmp_path, name, start):
    (tmp_path / name).write_bytes(b"before")
    found = cross_language(SCORES)
    assert found.figure(tmp_path / name) == tmp_path / name
    first = (tmp_path / name).read_bytes()
    assert first.startswith(start)
    found.figure(tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert os.listdir(tmp_path) == [name]


def test_a_figure_that_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "map.png"
    path.write_bytes(b"before")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ResultWriteError, match=r"map\.png' could not be written: No space left on device"):
        cross_language(SCORES).figure(path)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["map.png"]


def test_figure_errors_name_what_is_wrong(tmp_path, monkeypatch):
    found = cross_language(SCORES)
    with pytest.raises(InputError, match=r"^path: .*expected a name that ends in one of \.png, \.svg, \.pdf"):
        found.figure(tmp_path / "map.jpg")
    with pytest.raises(InputError, match=r"^other: it has de, en, and this result has en, de, ja"):
        found.figure(tmp_path / "map.png", other=cross_language({"de": [1, 2], "en": [1, 2]}))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'capscore\[figures\]'"):
        found.figure(tmp_path / "map.png")
    assert os.listdir(tmp_path) == []


def test_numbers_stand_out_from_their_cells():
    import matplotlib

    from capscore.benchmarks.protocols.cross_language_correlation import readable_ink

    def luminance(colour):
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour[:3]]
        return float(np.dot((0.2126, 0.7152, 0.0722), linear))

    for place in np.linspace(0, 1, 101):
        colour = matplotlib.colormaps["cividis"](place)
        ink = {"black": 0.0, "white": 1.0}[readable_ink(colour)]
        dark, bright = sorted((luminance(colour), ink))
        assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_protocols_import_nothing_heavy():
    heavy = ("matplotlib", "scipy", "torch", "pandas", "PIL", "datasets")
    code = f"import sys, capscore.protocols; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
