"""The recipe of the eye as a command, on drawn photos with the real encoder and trunk; its settings."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch
import yaml

from capscore.backbones.learned import load_eye
from capscore.benchmark.data.builder import BenchmarkWarning
from capscore.errors import CapscoreError, InputError
from training.data.origin import SOURCES as ORIGINS
from training.embedded.eye import __main__ as recipe
from training.embedded.eye.rows import SOURCES
from training.embedded.eye.settings import EyeSettings
from training.engine.config import parse

from .sources import write_coco_rows, write_data, write_photos, write_texts

pytestmark = [
    pytest.mark.usefixtures("prepared_here"),
    pytest.mark.filterwarnings("ignore::capscore.benchmark.data.builder.BenchmarkWarning"),
]
CONFIGS = ("embedded_eye", "embedded_eye_small")


def flags(folder, **changes) -> list[str]:
    plain = {
        "data": folder / "data",
        "photos": folder / "photos",
        "texts": folder / "texts",
        "coco": folder / "more.jsonl",
        "out": folder / "run",
        "views": 2,
        "epochs": 3,
        "batch_size": 8,
        "average_decay": 0.5,
        "head_learning_rate": 1e-3,
        "log_every": 1,
        "no_half_precision": "",
    }
    given = []
    for name, value in {**plain, **changes}.items():
        given += [f"--{name}", *([str(value)] if value != "" else [])]
    return given


def write_all(folder):
    write_data(folder / "data")
    write_photos(folder / "photos")
    write_texts(folder / "texts")
    write_coco_rows(folder / "more.jsonl", [98, 99], "pt")
    origin = {"held_out": "", "sources": [{"name": "Invented captions", "license": "CC0", "rows": 2}]}
    (folder / f"more.jsonl{ORIGINS}").write_text(json.dumps(origin))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = write_all(tmp_path_factory.mktemp("eye"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BenchmarkWarning)
        recipe.main(flags(folder))
    return folder


def test_the_command_writes_weights_that_load(made):
    eye, config = load_eye(made / "run")
    assert config["w"] > 0 and config["logit_scale"] == 30
    assert config["languages"] is None  # those of the text encoder
    assert config["notes"] == {"recipe": "eye", "steps": 3}
    assert eye.config.side == 256
    settings = yaml.safe_load((made / "run" / "settings.yaml").read_text())
    assert settings["views"] == 2 and settings["license"] == "cc-by-nc-4.0"


def test_features_and_embeddings_are_on_disk(made):
    folder = made / "run" / "features"
    for view in (0, 1):
        found = np.load(folder / f"view-{view}.npy", mmap_mode="r")
        assert found.shape == (5, 88, 16, 16) and found.dtype == np.float16
        assert json.loads((folder / f"view-{view}.json").read_text())["done"] == 5
    rows = np.load(folder / "captions-of-photos.npy").astype(float)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)


def test_the_card_says_what_it_was_made_of_and_what_was_held_out(made):
    card = (made / "run" / "README.md").read_text(encoding="utf-8")
    assert "license: cc-by-nc-4.0" in card
    for said in (
        "Flickr8k, photos](https://doi.org/10.1613/jair.3994) | for research only | 3 |",
        "COCO, photos of train2014](https://cocodataset.org) | terms of Flickr, photo by photo | 2 |",
        "| Invented captions | CC0 | 2 |",
        "Multi30k, training split",
        "Held out: every photo, by its number, in whatever data set or language it turns up",
        "Flickr8k-Expert (1)",
        "all of COCO val2014",
    ):
        assert said in card


def test_the_frozen_half_and_the_published_trunk_agree(made):
    from capscore.backbones.efficientnet_lite import STAGES
    from capscore.backbones.folded_trunk import folded
    from capscore.backbones.free import load_image_tower
    from training.embedded.eye.trunk_halves import FrozenHalf, TrainedHalf, blocks_of_stages

    trunk = folded(load_image_tower())
    blocks = blocks_of_stages(STAGES, 4)
    eye, _ = load_eye(made / "run")
    with torch.inference_mode():
        pixels = torch.rand(1, 3, 64, 64) * 2 - 1
        early = FrozenHalf(trunk, blocks)(pixels)
        torch.testing.assert_close(TrainedHalf(trunk, blocks)(early), trunk(pixels), atol=1e-5, rtol=1e-5)
        assert early.shape == (1, 88, 4, 4)
        # the frozen half of the trained eye is the published one, in float16
        ours = FrozenHalf(eye.trunk, blocks)(pixels)
        torch.testing.assert_close(ours, early, atol=0.05, rtol=0.02)
        assert (eye.trunk(pixels) - trunk(pixels)).abs().max() > 0


def test_the_same_command_again_changes_nothing(made, capsys):
    before = (made / "run" / "model.safetensors").read_bytes()
    recipe.main(flags(made))
    assert (made / "run" / "model.safetensors").read_bytes() == before
    assert "photos in" not in capsys.readouterr().err  # no features were computed


def test_a_held_out_photo_stops_the_recipe_before_anything_is_computed(made, tmp_path):
    bad = write_coco_rows(tmp_path / "bad.jsonl", [99, 56])
    with pytest.raises(InputError, match=r"row 1, bad\.jsonl: COCO 56 .* Multi30k, test splits"):
        recipe.main(flags(made, coco=bad, out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_damaged_list_of_photos_stops_the_recipe(tmp_path):
    folder = write_all(tmp_path)
    (folder / "data" / "flickr8k" / "Flickr_8k.trainImages.txt").write_text("111_aa.jpg\n222_i")
    with pytest.raises(CapscoreError, match=r"trainImages\.txt, line 2: '222_i': expected the name"):
        recipe.main(flags(folder))


def test_another_backbone_is_no_text_encoder(made, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "load_backbone", lambda *a, **options: object())
    with pytest.raises(CapscoreError, match=r"text_encoder='embedded-free': expected embedded-free"):
        recipe.main(flags(made, out=tmp_path))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_settings_that_ship_are_settings(name):
    line = f"--config training/configs/{name}.yaml --data d --photos p --texts t --out o"
    found = parse(EyeSettings, line.split(), "")
    assert found.sources == list(SOURCES) and found.license == "cc-by-nc-4.0"
    assert (found.most_photos is None) == (name == "embedded_eye")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--views", "0"], "views=0: expected at least 1"),
        (["--frozen_stages", "8"], "frozen_stages=8: expected at most 7"),
        (["--average_decay", "1"], r"average_decay=1\.0: expected a number from 0 to below 1"),
        (["--soft_share", "-0.1"], "soft_share=-0"),
        (["--region_weight", "-1"], "region_weight=-1"),
        (["--most_photos", "0"], "most_photos=0"),
        (["--sources", "flickr8k", "flickr9k"], "sources=.*: expected a list of flickr8k, multi30k"),
        (["--head_learning_rate", "0"], "head_learning_rate=0"),
        (["--photos", " "], "photos is missing: give --photos"),
        (["--texts", ""], "texts is missing"),
        (["--epochs", "0"], "epochs=0"),
        (["--head_lerning_rate", "1"], "did you mean --head_learning_rate"),
    ],
)
def test_settings_that_cannot_be(given, message):
    plain = ["--data", "d", "--photos", "p", "--texts", "t", "--out", "o"]
    with pytest.raises(CapscoreError, match=message):
        parse(EyeSettings, [*plain, *given], "")
