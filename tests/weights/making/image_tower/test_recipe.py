"""The recipe of the eye as a command, on drawn photos with the real encoder and trunk; its settings."""

from __future__ import annotations

import json
import re
import shutil
import warnings

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from capscore.backbones.embedded.backbone import load_embedded, load_image_tower, save_image_tower
from capscore.backbones.embedded.image_tower import ImageTower, ImageTowerConfig
from capscore.benchmarks.data.builder import BenchmarkWarning
from capscore.errors import CapscoreError, InputError
from training.data.origin import SOURCES as ORIGINS
from training.engine.config import parse
from weights.making import cards as measured_card
from weights.making.image_tower import __main__ as recipe
from weights.making.image_tower import averaged as averaging
from weights.making.image_tower.rows import SOURCES
from weights.making.image_tower.settings import ImageTowerSettings

from .sources import draw_photo, write_coco_rows, write_data, write_photos, write_texts

pytestmark = [
    pytest.mark.usefixtures("prepared_here"),
    pytest.mark.filterwarnings("ignore::capscore.benchmarks.data.builder.BenchmarkWarning"),
]
# small, but with the text encoder's 512 dimensions
SMALL = ImageTowerConfig(
    side=32, stem=8, stages=((1, 3, 2, 1, 8), (1, 3, 2, 2, 16)), features=16, width=16, heads=4
)
CONFIGS = ("image_tower", "image_tower_small")


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
    eye, config = load_image_tower(made / "run")
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
        assert len(json.loads((folder / f"view-{view}.json").read_text())["photos"]) == 5
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
    from capscore.backbones.embedded.backbone import load_efficientnet
    from capscore.backbones.embedded.image_tower import STAGES
    from weights.making.image_tower.features import FrozenHalf, TrainedHalf, blocks_of_stages, folded

    trunk = folded(load_efficientnet())
    blocks = blocks_of_stages(STAGES, 4)
    eye, _ = load_image_tower(made / "run")
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


def labels(folder, name, file):
    path = folder / name
    path.write_text(json.dumps({"file": file, "caption": "a sign", "language": "en"}) + "\n")
    return path


def test_labelled_photos_are_rows_too(made, tmp_path):
    draw_photo(made / "photos" / "things" / "sign" / "1.png", 77)
    rows, _ = recipe.rows_of(
        parse(
            ImageTowerSettings,
            flags(made, labelled=labels(tmp_path, "signs.jsonl", "things/sign/1.png"), out=tmp_path),
            "",
        )
    )
    (row,) = [row for row in rows.photos if row.source == "labelled"]
    assert row.name == "things/sign/1.png" and row.captions == {"en": ("a sign",)}
    assert rows.counts["signs.jsonl", "en"] == 1


def test_a_labelled_photo_that_looks_like_a_held_out_one_stops_the_recipe(made, tmp_path):
    place = made / "photos" / "things" / "sign" / "2.png"
    place.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(made / "photos" / "flickr8k" / "710_hh.jpg") as held:  # of the development split
        held.resize((80, 60)).save(place)
    given = flags(made, labelled=labels(tmp_path, "signs.jsonl", "things/sign/2.png"), out=tmp_path)
    with pytest.raises(InputError, match=r"sign/2\.png may not be trained on: it looks like .*710_hh\.jpg"):
        recipe.main(given)
    place.unlink()


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
    line = f"--config weights/making/configs/{name}.yaml --data d --photos p --texts t --out o"
    found = parse(ImageTowerSettings, line.split(), "")
    assert found.sources == list(SOURCES) and found.license == "cc-by-nc-4.0"
    assert (found.most_photos is None) == (name == "image_tower")


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
        parse(ImageTowerSettings, [*plain, *given], "")


# ------------------------------------------------------- figures on the card


def figure(key, title, value, **changes):
    return {
        "key": key,
        "title": title,
        "value": value,
        "interval": [value - 1, value + 2],
        "n": 50,
        "unit": "percent",
        "signature": "",
        **changes,
    }


def write_figures(folder, weights):
    """Figures of the eye and of another backbone; returns the file."""
    backbone = load_embedded(weights, device="cpu")
    measures = [
        figure("retrieval/flickr8k_test/en/r@1", "R@1 en, 1,000 test photos", 21.5),
        figure("retrieval/flickr8k_test/de/r@5", "R@5 de, Multi30k", 40.0, interval=None),
        figure("retrieval/flickr8k_several/pt/r@1", "R@1 pt, 83 photos", 50.0),
        figure("expert/mcs/tau_c", "MCS τ_c", 55.25),
        figure("expert/ref_clip_score/photo_term", "photo term", 0.3, unit="score"),
        figure("vicr/mcs/tau_b/mean_ratings", "MCS τ_b, mean ratings", 48.0),
    ]
    reports = [
        {
            "name": "runs/eye",
            "backbone": {"fingerprint": backbone.fingerprint, "revision": backbone.revision},
            "measures": measures,
        },
        {
            "name": "embedded-free",
            "backbone": {"fingerprint": "f", "revision": "w1"},
            "measures": [figure("expert/mcs/tau_c", "MCS τ_c", 40.0)],
        },
    ]
    path = folder / "figures.json"
    path.write_text(json.dumps({"backbones": reports}))
    return path


def test_the_figures_of_its_own_weights_go_onto_the_card(made, tmp_path, capsys):
    weights = tmp_path / "eye"
    shutil.copytree(made / "run", weights)
    before = (weights / "README.md").read_text(encoding="utf-8")
    figures = write_figures(tmp_path, weights)
    measured_card.main(["--weights", str(weights), "--figures", str(figures), "--name", "eye"])
    assert "4 results on the card of eye" in capsys.readouterr().out
    text = (weights / "README.md").read_text(encoding="utf-8")
    assert "| `flickr8k`, test | en | R@1 en, 1,000 test photos, % | 21.5 [20.5, 23.5] |" in text
    assert "| `flickr8k_human`, expert | en | MCS τ_c, % | 55.25 [54.25, 57.25] | 40 | 50 |" in text
    assert "83 photos" not in text and "photo term" not in text
    # what the training wrote stays as it was
    for part in ("## Training data", "## Training\n", "## Licence", "Held out: "):
        assert section(text, part) == section(before, part).replace("# run\n", "# eye\n"), part
    # written again, nothing changes
    measured_card.main(["--weights", str(weights), "--figures", str(figures), "--name", "eye"])
    assert (weights / "README.md").read_text(encoding="utf-8") == text


def section(text, heading):
    return text.partition(f"\n{heading}")[2].partition("\n## ")[0]


def test_figures_of_other_weights_are_refused(made, tmp_path):
    figures = write_figures(tmp_path, made / "run")
    figures.write_text(figures.read_text().replace(load_embedded(made / "run").revision, "other"))
    for path, message in (
        (figures, "has figures of runs/eye@other"),
        (tmp_path / "gone.json", "gone.json has no figures of weights.measuring (FileNotFoundError"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            measured_card.main(["--weights", str(made / "run"), "--figures", str(path)])


# ---------------------------------------------------------------- mean of two


def test_the_mean_of_two_runs_is_an_eye_with_a_card(made, tmp_path, capsys):
    first, second, out = made / "run", tmp_path / "second", tmp_path / "mean"
    shutil.copytree(first, second)
    eye, config = load_image_tower(second)
    with torch.no_grad():
        eye.head.mean.bias += 0.5
    save_image_tower(eye, second, w=config["w"] + 1.0, logit_scale=config["logit_scale"])
    averaging.main(["--weights", str(first), str(second), "--out", str(out), "--name", "two"])
    assert capsys.readouterr().out == f"the mean of 2 image towers in {out}\n"
    mean, found = load_image_tower(out)
    one, _ = load_image_tower(first)
    torch.testing.assert_close(mean.head.mean.bias, one.head.mean.bias + 0.25)
    torch.testing.assert_close(mean.trunk.last.weight, one.trunk.last.weight)
    assert found["w"] == pytest.approx(config["w"] + 0.5)
    text = (out / "README.md").read_text(encoding="utf-8")
    assert "- It is the mean of 2 runs, and the settings are those of the last." in text
    assert section(text, "## Training data") == section(
        (first / "README.md").read_text(encoding="utf-8"), "## Training data"
    )
    assert load_embedded(out, device="cpu").w == pytest.approx(config["w"] + 0.5)


def test_eyes_without_a_mean_are_refused(made, tmp_path):
    small = tmp_path / "small"
    save_image_tower(ImageTower(SMALL), small)
    for folders in ([made / "run"], [made / "run", small]):
        with pytest.raises(CapscoreError):
            averaging.main(["--weights", *map(str, folders), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_eyes_of_two_seeds_are_refused(made, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(made / "run", other)
    settings = yaml.safe_load((other / "settings.yaml").read_text())
    (other / "settings.yaml").write_text(yaml.safe_dump({**settings, "seed": 7}))
    with pytest.raises(CapscoreError, match="one size, one scale and one seed"):
        averaging.main(["--weights", str(made / "run"), str(other), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
