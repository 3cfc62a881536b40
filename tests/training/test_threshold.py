"""What moving a gate's threshold does: against networks whose own threshold was moved."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from capscore import load_backbone
from capscore.benchmark.robustness import CaptionSet
from capscore.errors import CapscoreError, InputError
from training import threshold
from training.engine.gate import MovedThreshold
from training.threshold import Row, Settings, print_table, trade_off

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

TEXTS = [
    "A dog runs on the beach.",
    "dog dog A runs the",
    "Ein Hund rennt am Strand.",
    "a red car",
    "cat cat",
]


@pytest.fixture(scope="module")
def tower():
    return load_backbone("embedded-pr-mcs", device="cpu")


@pytest.mark.parametrize("shift", [-3.0, 0.0, 2.5])
def test_it_is_as_if_the_bias_were_moved(tower, shift):
    moved = MovedThreshold(tower, shift, {})
    again = copy.copy(tower)
    again.text = copy.deepcopy(tower.text)
    with torch.no_grad():
        again.text.gate.leave.bias -= shift
    np.testing.assert_allclose(moved.encode_texts(TEXTS), again.encode_texts(TEXTS), atol=1e-4)


def test_each_text_goes_through_the_networks_once(tower, monkeypatch):
    seen = []
    apart = tower.text.apart
    monkeypatch.setattr(tower.text, "apart", lambda ids, mask: (seen.append(len(ids)), apart(ids, mask))[1])
    memory = {}
    for shift in (0.0, 1.0, 2.0):
        MovedThreshold(tower, shift, memory).encode_texts([*TEXTS, *TEXTS])
    MovedThreshold(tower, 1.0, memory).encode_texts([TEXTS[0], "a new one"])
    assert seen == [5, 1]


def test_towers_of_other_thresholds_are_not_taken_for_each_other(tower):
    one, other = (MovedThreshold(tower, shift, {}) for shift in (0.0, 1.0))
    assert len({one.fingerprint, other.fingerprint, tower.fingerprint}) == 3
    assert (one.recipe, other.name) == ("pr_mcs", "embedded-pr-mcs+1")


def test_a_tower_without_a_gate():
    with pytest.raises(CapscoreError, match="embedded has no gate whose threshold could be moved"):
        MovedThreshold(load_backbone("embedded", device="cpu"), 0.0, {})


@pytest.fixture
def captions(monkeypatch):
    """One set of German captions with English ones that stand for photos, in place of a benchmark."""
    german = [
        "Ein brauner Hund läuft am Strand entlang.",
        "Zwei Frauen sitzen auf einer Bank im Park.",
        "Ein Mann mit Hut fährt auf einem Fahrrad.",
        "Kinder spielen mit einem Ball im Garten.",
    ]
    english = [
        "A brown dog runs along the beach.",
        "Two women sit on a bench in the park.",
        "A man with a hat rides a bicycle.",
        "Children play with a ball in the garden.",
    ]
    made = CaptionSet("garden", "de", "test", "de", german, list("abcd"), [None] * 4, stand_ins=english)
    monkeypatch.setattr(threshold, "_captions", lambda spec, settings: [made])


@pytest.mark.filterwarnings("ignore")
def test_an_open_gate_keeps_the_captions_and_loses_the_drop(captions):
    rows = trade_off(Settings(data=["garden"], data_dir="x", shifts=[-40.0, 0.0, 60.0]))
    shut, shipped, open_ = rows
    assert [row.shift for row in rows] == [-40.0, 0.0, 60.0]
    # a shut gate turns every caption away, an open one none
    assert (shut.kept, shut.drop, shut.substitution) == (0, None, None)
    assert open_.kept == pytest.approx(100, abs=1e-3)
    assert open_.drop > shipped.drop
    assert shipped.kept > 60
    assert shipped.drops == {"garden/de": shipped.drop}
    assert [row.tau_c for row in rows] == [None] * 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("given", "order"), [({}, "published"), ({"order": "every"}, "every")])
def test_the_order_of_exchanged_objects(captions, monkeypatch, given, order):
    run, orders = threshold.run_robustness, []

    def noting(one, scorers, options, **rest):
        orders.append(options.order)
        return run(one, scorers, options, **rest)

    monkeypatch.setattr(threshold, "run_robustness", noting)
    trade_off(Settings(data=["garden"], data_dir="x", shifts=[0.0], **given))
    assert orders == [order]


@pytest.mark.parametrize("given", [{}, {"data": ["multi30k/de"]}, {"data_dir": "x"}])
def test_what_to_measure_on_must_be_said(given):
    with pytest.raises(InputError, match="give --data and --data_dir"):
        Settings(**given)


def test_the_table(capsys):
    print_table(
        [
            Row(-1.0, 98.04, 93.26, 71.5, {"a/de": 94.04, "b": 92.48}, None),
            Row(2.0, 99.5, None, None, {"a/de": 88.0, "b": None}, 52.746),
        ]
    )
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[1:3] == [["-1", "98.0", "93.3", "71.5"], ["+2", "99.5", "–", "–", "52.75"]]
    assert lines[-2:] == [["a/de", "94.0", "88.0"], ["b", "92.5", "–"]]
