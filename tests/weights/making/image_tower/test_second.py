"""The second stage of the image tower, run once on drawn photos and a tiny tower; its texts and settings."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from capscore.backbones.embedded.backbone import load_embedded, load_image_tower
from capscore.errors import CapscoreError
from tools.tiny.image_tower import write_image_tower
from tools.tiny.sources_of_weights import draw_photo, write_data, write_photos, write_texts
from training.data.source import DataSource
from training.engine.config import parse
from training.engine.model_card import ModelCard, write_card
from weights.making.held_out import Photo
from weights.making.image_tower import second
from weights.making.image_tower.rows import PhotoRow
from weights.making.settings import SecondStageSettings

pytestmark = pytest.mark.usefixtures("prepared_here", "embedded_is_read_once")


def flags(folder, **changes) -> list[str]:
    paths = {name: folder / name for name in ("data", "photos", "texts", "start")}
    plain = {
        "out": folder / "run", "text_hidden": 64, "text_steps": 40, "epochs": 15, "batch_size": 3,
        "learning_rate": 1e-2, "head_learning_rate": 1e-2, "logit_scale": 10, "average_decay": 0.5,
        "frozen_blocks": 1, "pool": 8, "recent": 1, "dropout": 0, "damaged_share": 0.2,
        "half_precision": "false", "log_every": 5,
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in {**paths, **plain, **changes}.items()]


@pytest.fixture(scope="module")
def made(tmp_path_factory, embedded_is_read_once):
    folder = tmp_path_factory.mktemp("second")
    write_data(folder / "data")
    write_photos(folder / "photos")
    # 150 and 151 have no caption, and 151 is of val2014
    draw_photo(folder / "photos/coco_train2014/COCO_train2014_000000000150.jpg", 150)
    draw_photo(folder / "photos/coco_val2014/COCO_val2014_000000000151.jpg", 151)
    write_texts(folder / "texts")
    write_image_tower(folder / "start")
    data, settings = [DataSource("Caltech 101", "CC BY 4.0", rows=5)], {"seed": 0}
    card = ModelCard("first", "image_tower", "Lite2", ["en"], "cc-by-nc-4.0", "make", settings, data)
    write_card(folder / "start", replace(card, compute="cpu, 37 minutes"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second, "_SENTENCES", 20)
        patch.setitem(second._TEXT_SETTINGS, "batch_size", 64)
        patch.setitem(second._TEXT_SETTINGS, "warmup_steps", 5)
        second.main(flags(folder))
        yield folder


def losses(folder) -> list[dict[str, float]]:
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [line["losses"] for line in map(json.loads, lines) if "losses" in line]


def test_the_losses_fall_and_the_frozen_part_stays(made):
    run = losses(made / "run")
    assert set(run[0]) >= {"loss", "photo", "caption", "region", "pair", "near", "anchor"}
    assert all(run[-1][name] < run[0][name] for name in ("loss", "photo", "near"))
    (tower, config), (start, _) = load_image_tower(made / "run"), load_image_tower(made / "start")
    assert config["w"] > 0 and tower.config.text_hidden == 64
    for part in (lambda tower: tower.trunk.stem, lambda tower: tower.trunk.blocks[0]):
        torch.testing.assert_close(part(tower).state_dict(), part(start).state_dict(), atol=1e-3, rtol=1e-3)
    assert not torch.equal(tower.trunk.last.weight, start.trunk.last.weight)


def test_a_caption_with_an_opener_moves_to_the_place_of_the_caption(made):
    plain = ["a dog lies beside a sign", "Ein Hund liegt neben einem Schild."]
    opened = ["a photo of a dog lies beside a sign", "das foto zeigt ein hund liegt neben einem schild"]
    rows = {}
    for name in ("start", "run"):
        backbone = load_embedded(made / name, device="cpu")
        rows[name] = [backbone.encode_texts(texts) for texts in (plain, opened)]
    before, after = ((rows[name][1] * rows["start"][0]).sum(axis=1) for name in ("start", "run"))
    assert (after > before + 0.03).all()
    assert ((rows["run"][0] * rows["start"][0]).sum(axis=1) > 0.95).all()


def test_held_out_photos_teach_nothing(made):
    settings = parse(SecondStageSettings, flags(made), "")
    rows, held = second.rows_of(settings)
    assert not any(held.reason(row.photo, row.name) for row in rows.photos)
    # neither 151 of val2014, nor 56 of a test set, nor photos with captions
    assert [row.photo.number for row in second.anchor_photos(settings, rows, held)] == [150]


def test_a_stopped_run_goes_on_and_ends_with_the_same_weights(made, tmp_path):
    steps = {"text_steps": 2, "epochs": 1}
    second.main(flags(made, out=tmp_path / "whole", **steps))
    for _ in range(2):  # of 2 steps of the text place, and then of 2 of the tower
        second.main(flags(made, out=tmp_path / "part", max_minutes=1e-9, **steps))
    settings = parse(SecondStageSettings, flags(made, out=tmp_path / "part", **steps), "")
    assert second.train(settings).resumed_from
    whole, part = (load_image_tower(tmp_path / name)[0].state_dict() for name in ("whole", "part"))
    torch.testing.assert_close(part, whole, atol=1e-6, rtol=0)
    with pytest.raises(CapscoreError, match="pool"):
        second.main(flags(made, out=tmp_path / "part", **{**steps, "pool": 9}))


def test_near_right_captions_differ_in_one_word_and_openers_stand_around_the_folded_caption(tmp_path):
    captions = {"en": ("A black dog runs.",), "ja": ("黒い犬が走る。",)}
    row = PhotoRow(Photo("coco", 9), "9.jpg", None, captions)
    (near,) = second.near_right([row])
    assert near == second.near_right([row])[0] and len(near.captions["wrong"]) > 2
    for right, wrong in zip(near.captions["right"], near.captions["wrong"], strict=True):
        assert right == "A black dog runs."
        assert sum(a != b for a, b in zip(right.split(), wrong.split(), strict=True)) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second, "_SENTENCES", 1)
        found = second.with_openers([row], write_texts(tmp_path), 0).captions
    pairs = dict(zip(found["plain"], found["opened"], strict=True))
    assert len(pairs) == 2 + 10
    assert "a black dog runs" in pairs["A black dog runs."] and "黒い犬が走る" in pairs["黒い犬が走る。"]
    assert all(len(opened) > len(plain) for plain, opened in pairs.items())


def test_damaged_photos_are_other_pixels_of_the_same_photo():
    noise = np.random.default_rng(0).normal(128, 40, (90, 120)).clip(0, 255).astype(np.uint8)
    image = Image.fromarray(noise).convert("RGB").resize((240, 180))
    sizes = set()
    for seed in range(12):
        found = second.damaged(image, 64, np.random.default_rng(seed))
        sizes.add(found.size)
        levels = [np.asarray(item.resize((8, 8)), dtype=float) for item in (found, image)]
        assert 0 < np.abs(levels[0] - levels[1]).mean() < 12
    assert len(sizes) > 6 and all(28 <= width == height <= 77 for width, height in sizes)


def test_settings_are_checked(made):
    given = "--start s --data d --photos p --texts t --out o".split()
    for name, value in (("start_share", "1.5"), ("near_weight", "-1"), ("dropout", "2")):
        with pytest.raises(CapscoreError, match=name):
            parse(SecondStageSettings, [*given, f"--{name}", value], "")
    with pytest.raises(CapscoreError, match="no start: give --start"):
        parse(SecondStageSettings, given[2:], "")
    with pytest.raises(CapscoreError, match=r"text_hidden=32.*expected 64, the start's"):
        second.main(flags(made, start=made / "run", text_hidden=32, out=made / "none"))
