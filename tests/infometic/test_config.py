"""The config of InfoMetIC's network: the paper's values, bad values, JSON, and the backbone it goes with."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, asdict, replace
from types import SimpleNamespace

import pytest

from capscore.errors import CapscoreError
from capscore.infometic.network import InfoMetICConfig


def backbone(**changes):
    parts = {"name": "some/tower", "revision": "abc123", "dim": 512, "fingerprint": "f" * 32}
    return SimpleNamespace(**{**parts, **changes})


def test_the_defaults_are_the_papers():
    """Hu et al. 2023, sections 3.1 and 4.1; switches as the definitions of the project choose them."""
    assert asdict(InfoMetICConfig()) == {
        "dim": 512,
        "width": None,
        "heads": 16,
        "intra_layers": 4,
        "inter_layers": 2,
        "shared_norm": False,
        "mask_padding": True,
        "pad_token": None,
        "frame": False,
        "text_positions": True,
        "box_positions": True,
        "global_box": False,
        "global_in_fusion": True,
        "null_token": True,
        "input_scale": 10.0,
        "context_width": None,
        "sharpness": 1.0,
        "n_regions": 20,
        "max_tokens": 32,
        "caption_tokens": None,
        "unit_inputs": True,
        "prefix": None,
        "backbone": "",
        "backbone_revision": "",
        "backbone_fingerprint": "",
    }


def test_the_public_codes_switches():
    ours, theirs = asdict(InfoMetICConfig(dim=64)), asdict(InfoMetICConfig(dim=64).released())
    assert {name: value for name, value in theirs.items() if value != ours[name]} == {
        "shared_norm": True,
        "mask_padding": False,
        "pad_token": 0,
        "frame": True,
        "text_positions": False,
        "global_box": True,
        "input_scale": 1.0,
        "caption_tokens": 32,
        "unit_inputs": False,
        "prefix": "",
    }
    own_parts = InfoMetICConfig(dim=64, width=32, context_width=8, sharpness=2.0, max_tokens=12)
    released = own_parts.released()
    assert (released.width, released.context_width, released.sharpness) == (None, None, 1.0)
    assert released.max_tokens == released.caption_tokens == 12


def test_a_config_from_before_there_were_words_is_the_same():
    old = {name: value for name, value in asdict(InfoMetICConfig(dim=64)).items() if name != "sharpness"}
    del old["context_width"]
    assert InfoMetICConfig.from_dict(old) == InfoMetICConfig(dim=64, context_width=None, sharpness=1.0)


def test_a_config_from_before_the_public_codes_reading_is_the_same():
    new = ("pad_token", "frame", "caption_tokens", "unit_inputs", "prefix")
    old = {name: value for name, value in asdict(InfoMetICConfig(dim=64)).items() if name not in new}
    assert InfoMetICConfig.from_dict(old) == InfoMetICConfig(dim=64)
    assert InfoMetICConfig(dim=64).identity() == old  # and so are fingerprints, which signatures show
    assert InfoMetICConfig(dim=64, unit_inputs=False).identity() == {**old, "unit_inputs": False}


def test_how_it_reads_is_said_where_it_differs():
    assert InfoMetICConfig().reading == ""
    assert InfoMetICConfig(mask_padding=False).reading == "pad=zeros"
    assert InfoMetICConfig(frame=True, caption_tokens=8).reading == "frame,32+8tokens"
    assert InfoMetICConfig().released().reading == "frame,pad=0,32+32tokens,raw"


def test_it_survives_json_and_cannot_be_changed():
    config = InfoMetICConfig(dim=320, width=64, heads=4, context_width=96, sharpness=0.8, backbone="embedded")
    assert InfoMetICConfig.from_dict(json.loads(json.dumps(asdict(config)))) == config
    with pytest.raises(FrozenInstanceError):
        config.dim = 3


@pytest.mark.parametrize(
    "values, message",
    [
        ({"dim": 0}, "dim=0: expected a whole number from 1 to"),
        ({"dim": True}, "dim=True: expected a whole number"),
        ({"width": 30}, "heads=16 does not divide the width 30"),
        ({"intra_layers": -1}, "intra_layers=-1: expected a whole number from 0 to"),
        ({"shared_norm": 1}, "shared_norm=1: expected true or false"),
        ({"input_scale": 0}, "input_scale=0: expected a number above 0"),
        ({"input_scale": float("nan")}, "input_scale=nan: expected a number above 0"),
        ({"backbone": None}, "backbone=None: expected a string$"),
        (
            {"pad_token": -1, "mask_padding": False},
            "pad_token=-1: expected a whole number from 0 to",
        ),
        ({"pad_token": 0}, "pad_token=0 has no effect with mask_padding=True"),
        ({"head": 4}, "'head'"),
    ],
)
def test_values_that_cannot_be(values, message):
    with pytest.raises(CapscoreError, match=message):
        InfoMetICConfig.from_dict(values)


def test_a_backbones_identity_is_recorded():
    config = InfoMetICConfig().on(backbone(dim=64))
    assert (config.dim, config.backbone, config.backbone_revision) == (64, "some/tower", "abc123")
    assert config.backbone_fingerprint == "f" * 32


def test_which_backbone_goes_with_the_weights():
    config = InfoMetICConfig().on(backbone())
    config.check_backbone(backbone())
    config.check_backbone(backbone(fingerprint="0" * 32))  # the same weights in another dtype
    config.check_backbone(backbone(revision="main"))  # the same in every respect, asked for otherwise
    with pytest.raises(
        CapscoreError, match="made for some/tower @ abc123, not for some/tower @ w1: use that"
    ):
        config.check_backbone(backbone(revision="w1", fingerprint="0" * 32))
    with pytest.raises(
        CapscoreError,
        match=r"some/tower @ abc123, not for other @ x: .* 512, not 64",
    ):
        config.check_backbone(backbone(name="other", revision="x", dim=64))


def test_a_config_that_records_no_backbone_goes_with_any_of_its_dim():
    InfoMetICConfig().check_backbone(backbone())
    with pytest.raises(CapscoreError, match="an unnamed backbone"):
        InfoMetICConfig().check_backbone(backbone(dim=64))
    nameless = replace(InfoMetICConfig(), backbone_fingerprint="1" * 32)
    with pytest.raises(CapscoreError, match="made for an unnamed backbone, not for some/tower"):
        nameless.check_backbone(backbone(revision=""))
