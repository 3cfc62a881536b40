"""The figures of the study on the card of a gate."""

from __future__ import annotations

import json

import pytest

from capscore import InputError, load_backbone
from training.engine.model_card import card_text
from weights.making.cards import measured_card
from weights.making.noise_gate.__main__ import train

from .marked_texts import write_marked
from .test_recipe import settings

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train(settings(write_marked(folder), folder / "gate", steps=1))
    return folder / "gate"


def figures(backbone: str) -> dict:
    alarms = {"n": 50, "below_half": 0.01, "kept": 0.99, "not_scored": 0}
    own = {"drops": {"substitution": -0.75}, "average": -0.9, "styles": {"given": alarms, "title": alarms}}
    plain = {"drops": {"substitution": -0.02}, "average": -0.2, "styles": {}}
    return {
        "backbones": [backbone],
        "sets": [
            {
                "title": "Flickr8k test",
                "language": "en",
                "n_captions": 50,
                "results": {"mcs@embedded": plain, "gate": own},
            }
        ],
        "models": {"thumb": {"gate": alarms}, "all": {"gate": alarms}},
        "agreement": {"Flickr8k-Expert τ_c, by photos": {"gate": [54.4, 54.3]}},
        "search": {"search among 1,000 photos": {"gate": {"R@1": [20.0, 20.5]}}},
    }


def test_the_card_has_the_figures_of_these_weights(weights, tmp_path):
    revision = load_backbone(str(weights), device="cpu").revision
    (tmp_path / "figures.json").write_text(json.dumps(figures(f"gate@{revision}")), encoding="utf-8")
    card = measured_card(weights, tmp_path / "figures.json")
    values = {result.metric: (result.value, result.base_value) for result in card.results}
    assert values == {
        "drop_average": (-90.0, -20.0),
        "drop_substitution": (-75.0, -2.0),
        "false_alarms_given": (1.0, None),
        "false_alarms_models": (1.0, None),
        "kendall_tau_c": (54.3, 54.4),
        "r@1": (20.5, 20.0),
    }
    text = card_text(card)
    assert "| own captions | Apache-2.0 | 12 | training |" in text and "Held out: photos of the test" in text
    assert "right captions below half of their MCS, as written, %" in text


def test_figures_of_other_weights_are_refused(weights, tmp_path):
    (tmp_path / "figures.json").write_text(json.dumps(figures("gate@w00000000")), encoding="utf-8")
    with pytest.raises(InputError, match="has figures of gate@w00000000, not of"):
        measured_card(weights, tmp_path / "figures.json")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"backbones": 3}'])
def test_a_file_without_figures(weights, tmp_path, content):
    (tmp_path / "figures.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"has (no figures of weights|figures of nothing)"):
        measured_card(weights, tmp_path / "figures.json")
