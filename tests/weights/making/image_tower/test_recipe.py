"""The recipe of the image tower, run once on drawn photos with the real encoder and trunk; its card."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import yaml

from capscore.backbones.embedded.backbone import load_efficientnet, load_image_tower
from capscore.backbones.embedded.image_tower import STAGES
from capscore.benchmarks.data.builder import BenchmarkWarning
from tools.tiny.sources_of_weights import write_data, write_photos, write_texts
from training.engine.model_card import read_card
from weights.making.image_tower import __main__ as recipe
from weights.making.image_tower import data as training_data
from weights.making.image_tower.features import FrozenHalf, TrainedHalf, blocks_of_stages, folded

pytestmark = [
    pytest.mark.usefixtures("prepared_here", "embedded_is_read_once"),
    pytest.mark.filterwarnings("ignore::capscore.benchmarks.data.builder.BenchmarkWarning"),
]


def flags(folder, **changes) -> list[str]:
    paths = {name: folder / name for name in ("data", "photos", "texts")}
    paths["out"] = folder / "run"
    plain = {
        "views": 2,
        "epochs": 1,
        "batch_size": 4,
        "average_decay": 0.5,
        "head_learning_rate": 1e-3,
        "log_every": 1,
    }
    given = [
        part for name, value in {**paths, **plain, **changes}.items() for part in (f"--{name}", str(value))
    ]
    return [*given, "--half_precision", "false"]


@pytest.fixture(scope="module")
def made(tmp_path_factory, embedded_is_read_once):
    folder = tmp_path_factory.mktemp("tower")
    write_data(folder / "data")
    write_photos(folder / "photos")
    write_texts(folder / "texts")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", BenchmarkWarning)
        patch.setattr(training_data, "_STEPS", 2)
        recipe.main(flags(folder))
    return folder


def test_the_command_writes_weights_that_load_features_and_settings(made):
    tower, config = load_image_tower(made / "run")
    assert config["w"] > 0 and config["logit_scale"] == 30 and tower.config.side == 256
    assert config["languages"] is None  # those of the text encoder
    assert config["notes"] == {"recipe": "image_tower", "steps": 2}
    settings = yaml.safe_load((made / "run" / "settings.yaml").read_text())
    assert settings["views"] == 2 and settings["license"] == "cc-by-nc-4.0"
    features = made / "run" / "features"
    assert [np.load(path).shape for path in features.glob("view-*.npy")] == [(5, 88, 16, 16)] * 2
    for path in features.glob("captions-*.npy"):
        np.testing.assert_allclose(np.linalg.norm(np.load(path).astype(float), axis=1), 1, atol=1e-3)
    card = read_card(made / "run")
    assert card.data[0].name.startswith("Flickr8k, photos") and card.data[0].rows == 3
    assert card.settings["w"] > 0 and "the captions of 1 more" in card.limitations[0]


def test_the_frozen_half_and_the_published_trunk_agree(made):
    trunk, blocks = folded(load_efficientnet()), blocks_of_stages(STAGES, 4)
    tower, _ = load_image_tower(made / "run")
    with torch.inference_mode():
        pixels = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1
        early = FrozenHalf(trunk, blocks)(pixels)
        torch.testing.assert_close(TrainedHalf(trunk, blocks)(early), trunk(pixels), atol=1e-5, rtol=1e-5)
        # the frozen half of the trained tower is the published one, in float16
        torch.testing.assert_close(FrozenHalf(tower.trunk, blocks)(pixels), early, atol=0.05, rtol=0.02)
        assert (tower.trunk(pixels) - trunk(pixels)).abs().max() > 0
