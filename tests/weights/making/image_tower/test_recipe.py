"""The recipe of the image tower, run once on drawn photos with the real encoder and trunk; its card."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
import torch
import yaml

from capscore.backbones.embedded.backbone import load_efficientnet, load_embedded, load_image_tower
from capscore.backbones.embedded.image_tower import STAGES
from capscore.benchmarks.data.builder import BenchmarkWarning
from capscore.errors import CapscoreError, InputError
from tools.tiny.sources_of_weights import write_coco_rows, write_data, write_photos, write_texts
from training.engine.model_card import read_card
from weights.making import cards
from weights.making.image_tower import __main__ as recipe
from weights.making.image_tower import data as training_data
from weights.making.image_tower.features import FrozenHalf, TrainedHalf, blocks_of_stages, folded
from weights.making.image_tower.settings import ImageTowerSettings
from weights.making.jsonl import write_sources

pytestmark = [
    pytest.mark.usefixtures("prepared_here", "embedded_is_read_once"),
    pytest.mark.filterwarnings("ignore::capscore.benchmarks.data.builder.BenchmarkWarning"),
]


def flags(folder, **changes) -> list[str]:
    paths = {name: folder / name for name in ("data", "photos", "texts")}
    paths |= {"coco": folder / "more.jsonl", "out": folder / "run"}
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
    more = write_coco_rows(folder / "more.jsonl", [98, 99], "pt")
    write_sources(more, [{"name": "Invented captions", "license": "CC0", "rows": 2}])
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


def test_the_frozen_half_and_the_published_trunk_agree(made):
    trunk, blocks = folded(load_efficientnet()), blocks_of_stages(STAGES, 4)
    tower, _ = load_image_tower(made / "run")
    with torch.inference_mode():
        pixels = torch.rand(1, 3, 64, 64) * 2 - 1
        early = FrozenHalf(trunk, blocks)(pixels)
        torch.testing.assert_close(TrainedHalf(trunk, blocks)(early), trunk(pixels), atol=1e-5, rtol=1e-5)
        # the frozen half of the trained tower is the published one, in float16
        torch.testing.assert_close(FrozenHalf(tower.trunk, blocks)(pixels), early, atol=0.05, rtol=0.02)
        assert (tower.trunk(pixels) - trunk(pixels)).abs().max() > 0


def test_another_encoder_stops_the_recipe_before_anything_is_computed(made, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "load_backbone", lambda *_, **__: object())
    with pytest.raises(CapscoreError, match=r"text_encoder='embedded-free': expected embedded-free"):
        recipe.main(flags(made, out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("frozen_stages", 8),
        ("english_share", 1.0),
        ("soft_share", 1.5),
        ("region_weight", -1.0),
        ("least_part", 0.0),
        ("sources", ["flickr8k", "flickr9k"]),
        ("photos", " "),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(CapscoreError, match=name):
        ImageTowerSettings(**{"data": "d", "photos": "p", "texts": "t", "out": "o", name: value})


def figure(key, title, value, interval=None):
    return {"key": key, "title": title, "value": value, "interval": interval, "n": 50, "signature": ""}


def test_the_figures_of_its_own_weights_go_onto_the_card(made, tmp_path, capsys):
    weights, path = shutil.copytree(made / "run", tmp_path / "tower"), tmp_path / "figures.json"
    measures = [
        figure("retrieval/flickr8k_test/en/r@1", "R@1 en, 1,000 test photos", 21.5, [20.5, 23.5]),
        figure("retrieval/flickr8k_test/de/r@5", "R@5 de, Multi30k", 40.0),
        figure("retrieval/flickr8k_several/pt/r@1", "R@1 pt, 83 photos", 50.0),
        figure("expert/mcs/tau_c", "MCS τ_c", 55.25),
        figure("expert/ref_clip_score/tau_c", "RefCLIPScore τ_c", None),
        figure("vicr/mcs/tau_b/mean_ratings", "MCS τ_b, mean ratings", 48.0),
    ]
    revision = load_embedded(weights, device="cpu").revision
    reports = [
        {"name": "runs/tower", "backbone": {"revision": revision}, "measures": measures},
        {
            "name": "embedded-free",
            "backbone": {"revision": "w1"},
            "measures": [figure("expert/mcs/tau_c", "", 40.0)],
        },
    ]
    path.write_text(json.dumps({"backbones": reports}))
    arguments = ["--weights", str(weights), "--figures", str(path)]
    for _ in range(2):  # written again, nothing changes
        cards.main(arguments)
        assert "4 results on the card of run" in capsys.readouterr().out
    before, card = read_card(made / "run"), read_card(weights)
    assert (card.data, card.held_out, card.settings) == (before.data, before.held_out, before.settings)
    assert [
        (row.data, row.split, row.language, row.metric, row.value, row.base_value) for row in card.results
    ] == [
        ("flickr8k", "test", "en", "r@1", 21.5, None),
        ("multi30k", "Flickr8k's test photos", "de", "r@5", 40.0, None),
        ("flickr8k_human", "expert", "en", "tau_c", 55.25, 40.0),
        ("vicr", "public sample", "en", "tau_b", 48.0, None),
    ]
    assert "R@1 en, 1,000 test photos, % | 21.5 [20.5, 23.5] |" in (weights / "README.md").read_text("utf-8")
    for content, message in (
        (path.read_text().replace(revision, "w2"), "has figures of w2, w1, not of"),
        ('{"backbones": 3}', "has no figures of weights.measuring"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            cards.main(arguments)
