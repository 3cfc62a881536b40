"""All steps that make the weights, as make runs them, on a few drawn photos with tiny settings."""

import json
import re
import shlex
import shutil

import numpy as np
import pytest
import yaml

from capscore import load_backbone
from capscore.backbones.embedded.backbone import load_image_tower
from capscore.infometic.mark_calibration import load_mark_calibration
from capscore.infometic.network import InfoMetIC
from tools.tiny.official import write_jsonl
from tools.tiny.sources_of_weights import draw_photo, write_data, write_photos, write_texts
from training.engine.model_card import read_card
from weights.making.image_tower import data as tower_data
from weights.making.image_tower import second
from weights.making.mark_calibration import calibrate, draws, objects
from weights.making.mark_calibration.rows import COCO_THINGS, read_mark_rows

from ..test_makefile import ROOT, printed, program

CONFIGS = ROOT / "weights" / "making" / "configs"

SAID = [
    ("A red dog runs on grass.", "A dog plays in a garden."),
    ("Two blue cars wait in the street.", "A dog before a house."),
    ("A green boat floats on the lake.", "A dog in a boat on water."),
    ("A woman reads a book in a kitchen.", "A woman beside a dog."),
]
TINY_GATE = {
    "languages": ["en:1", "de:1"], "sources": ["tatoeba:1"], "gate": [16, 1, 2], "max_steps": 1,
    "batch_size": 4, "validation_share": 0.3, "validation_texts": 40, "keep_right": 0.1,
    "precision": "no", "evaluate_every": 1000, "right": [],
}  # fmt: skip
# What makes every run tiny, by the file of its settings.
TINY = {
    "captions.yaml": {"package_texts": ["en:60", "de:60", "zh:9", "ar:9"]},
    "image_tower.yaml": {"views": 2, "epochs": 1, "batch_size": 4, "half_precision": False},
    "image_tower_second.yaml": {
        "text_hidden": 8, "text_steps": 1, "epochs": 1, "batch_size": 4, "pool": 4, "recent": 1,
        "half_precision": False,
    },
    "pr_mcs.yaml": TINY_GATE,
    "infometic.yaml": {
        "width": 8, "heads": 2, "intra_layers": 1, "inter_layers": 1, "context_width": 4, "max_steps": 1,
        "batch_size": 8, "negatives": 1, "validation_share": 0.4, "pollutions": 1,
    },
    "mark_calibration.yaml": {
        "reduced": 8, "hidden": 8, "inner": 12, "captions": 1, "others": 1, "rare": 0, "max_steps": 1,
        "batch_size": 2, "languages": ["en:1"],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory, embedded_is_read_once, prepared_here):
    """Each step is run by its own command in this process, and is not run again."""
    folder = tmp_path_factory.mktemp("all")
    write_data(folder / "data")
    write_photos(folder / "photos")
    texts = folder / "data" / "flickr8k"
    for number in range(20):  # more of the development split
        draw_photo(folder / "photos" / "flickr8k" / f"{9000 + number}_z.jpg", number)
        with (
            open(texts / "Flickr_8k.devImages.txt", "a") as photos,
            open(texts / "Flickr8k.token.txt", "a") as captions,
        ):
            photos.write(f"{9000 + number}_z.jpg\n")
            for place, said in enumerate(SAID[number % len(SAID)]):
                captions.write(f"{9000 + number}_z.jpg#{place}\t{said}\n")
    configs = folder / "configs"
    configs.mkdir()
    for name, tiny in TINY.items():
        settings = yaml.safe_load((CONFIGS / name).read_text("utf-8")) | tiny
        (configs / name).write_text(yaml.safe_dump(settings))
    out = folder / "out"
    out.mkdir()

    def commands():
        given = {"TRAINING": out, "DATA": folder / "data", "PHOTOS": folder / "photos", "CONFIGS": configs}
        said = printed("train-embedded", *(f"{name}={value}" for name, value in given.items()))
        lines = re.findall(r"python -m (weights\.making\..*)", said)
        return list(dict.fromkeys(lines))

    def run(module, *arguments):
        if module.endswith("package_texts"):  # the packages are not here
            write_texts(out / "texts")
        elif module.endswith("boxes"):  # nor is the detector
            files = [row["file"] for row in read_mark_rows(out / "mark_rows.jsonl")]
            box = [0.1, 0.1, 0.6, 0.9, COCO_THINGS.index("dog"), 0.9]
            (out / "boxes.json").write_text(json.dumps({file: [box] for file in files}))
        else:
            program(module).main([*arguments])
        if module.endswith("mark_calibration.rows"):  # whose captions all say the same
            rows = read_mark_rows(out / "mark_rows.jsonl")
            for number, row in enumerate(rows):
                row["captions"] = [[text, "en", "x"] for text in SAID[number % len(SAID)]]
            write_jsonl(out / "mark_rows.jsonl", rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tower_data, "_STEPS", 2)
        patch.setattr(second, "_SENTENCES", 4)
        patch.setitem(second._TEXT_SETTINGS, "batch_size", 8)
        for module, name, value in (
            (calibrate, "LEAST", 2), (calibrate, "_STEPS", 4), (draws, "NOUN_COUNT", 1),
            (objects, "_STEPS", 10), (objects, "_NAMING", 0.4), (objects, "_CURVE", 0.75),
        ):  # fmt: skip
            patch.setattr(module, name, value)
        steps = commands()
        assert len(steps) == 11
        for number, step in enumerate(steps):
            assert commands() == steps[number:]
            run(*shlex.split(step))
        assert not commands()
    (configs / "pr_mcs.yaml").touch()
    assert [step.split()[0] for step in commands()] == ["weights.making.noise_gate"]
    return out


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_all_steps_make_what_is_loaded_together(out):
    tower, _ = load_image_tower(out / "image_tower")
    assert tower.config.text_hidden == 8 and tower.config.side == 256
    _, config = load_image_tower(out / "image_tower_first")
    assert config["w"] > 0 and config["logit_scale"] == 30
    assert config["languages"] is None  # those of the text encoder
    assert config["notes"] == {"recipe": "image_tower", "steps": 2}
    settings = yaml.safe_load((out / "image_tower_first" / "settings.yaml").read_text())
    assert settings["views"] == 2 and settings["license"] == "cc-by-nc-4.0"
    features = out / "image_tower_first" / "features"
    assert [np.load(path).shape for path in features.glob("view-*.npy")] == [(5, 88, 16, 16)] * 2
    for path in features.glob("captions-*.npy"):
        np.testing.assert_allclose(np.linalg.norm(np.load(path).astype(float), axis=1), 1, atol=1e-3)
    card = read_card(out / "image_tower_first")
    assert card.data[0].name.startswith("Flickr8k, photos") and card.data[0].rows == 3
    assert card.settings["w"] > 0 and "the captions of 1 more" in card.limitations[0]
    gated = load_backbone(str(out / "pr_mcs"), device="cpu")
    assert gated.network_parts() == {"noise_gate": {"width": 16, "layers": 1, "heads": 2}}
    network, told = out / "infometic", json.loads((out / "infometic" / "result.json").read_text())["this"]
    config = InfoMetIC.from_pretrained(network).config
    assert config.context_width == 4 and config.sharpness != 1 and told["false_alarms"] <= 0.1
    assert "weights.making.infometic_network --config settings.yaml" in (network / "README.md").read_text()
    backbone = load_backbone(str(out / "image_tower"), device="cpu")
    marks = load_mark_calibration(out / "mark_calibration", backbone=backbone)
    assert list(marks.with_references) == json.loads((out / "fit_references.json").read_text())
