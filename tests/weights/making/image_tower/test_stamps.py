"""Stamps → photos on a plain ground, and their captions."""

from __future__ import annotations

import doctest
import json

import numpy as np
import pytest
from PIL import Image

from weights.making.image_tower import stamps as module
from weights.making.image_tower.labelled import labelled_captions
from weights.making.image_tower.stamps import captions_of, main


def stamp(path, *, side=120, colours=True, text="A red fish.\nde.utf8=Ein roter Fisch.\n"):
    """A cut-out of noise, or of one colour, with its corner transparent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((side, side + 20, 4), 255, dtype=np.uint8)
    if colours:
        pixels[..., :3] = np.random.default_rng(0).integers(0, 256, (side, side + 20, 3))
    pixels[:40, :40, 3] = 0
    Image.fromarray(pixels).save(path)
    if text is not None:
        path.with_suffix(".txt").write_text(text, encoding="utf-8")


def run(folder, tmp_path):
    out = tmp_path / "stamps.jsonl"
    main(["--stamps", str(folder), "--photos", str(tmp_path / "photos"), "--out", str(out)])
    return out, [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_docstrings():
    assert not doctest.testmod(module).failed


def test_photos_become_rows_and_the_rest_is_left_out(tmp_path, capsys):
    folder = tmp_path / "stamps"
    stamp(folder / "animals" / "fish.png")
    stamp(folder / "animals" / "drawing.png", colours=False)
    stamp(folder / "animals" / "small.png", side=60)
    stamp(folder / "animals" / "cartoon" / "dog.png")
    stamp(folder / "symbols" / "plus.png")
    stamp(folder / "town" / "no text.png", text=None)
    stamp(folder / "town" / "no caption.png", text="\nde.utf8=Ein Haus.\n")
    out, rows = run(folder, tmp_path)
    assert rows == [
        {"file": "tuxpaint/animals-fish.jpg", "caption": "A red fish.", "language": "en"},
        {"file": "tuxpaint/animals-fish.jpg", "caption": "Ein roter Fisch.", "language": "de"},
    ]
    assert capsys.readouterr().out == f"1 photos with 2 captions in {out}\n"
    captions, files = labelled_captions(out, tmp_path / "photos")
    assert [caption.text for caption in captions] == ["A red fish.", "Ein roter Fisch."]
    assert list(files.values()) == ["tuxpaint/animals-fish.jpg"]
    source = json.loads((tmp_path / "stamps.jsonl.sources.json").read_text())["sources"]
    assert [one["rows"] for one in source] == [1]


def test_a_stamp_lies_in_the_middle_of_its_ground(tmp_path):
    folder = tmp_path / "stamps"
    stamp(folder / "fish.png")
    run(folder, tmp_path)
    with Image.open(tmp_path / "photos" / "tuxpaint" / "fish.jpg") as picture:
        pixels = np.asarray(picture)
    assert pixels.shape == (154, 154, 3)  # 140 and a tenth
    # the ground around the cut-out, and through its transparent corner, is one grey
    assert np.abs(pixels[:10].astype(int) - int(pixels[0, 0, 0])).max() <= 8
    assert np.abs(pixels[22:50, 12:40].astype(int) - int(pixels[0, 0, 0])).max() <= 40
    assert pixels[60:130, 60:130].std() > 40


def test_captions_in_several_languages():
    text = (
        "A frog.\nar.utf8=.ضفدع\nhe.utf8=צפרדע\npt.utf8=Uma rã.\npt_BR.utf8=Um sapo.\nfr.utf8=\nit.utf8="
        + "a" * 121
    )
    assert captions_of(text) == {"en": "A frog.", "ar": "ضفدع", "pt": "Uma rã."}
    assert captions_of("") == {}


def test_bad_input_is_one_clear_error(tmp_path, capsys):
    folder = tmp_path / "stamps"
    folder.mkdir()
    with pytest.raises(SystemExit):
        run(folder, tmp_path)
    assert "has no PNG files: expected the folder of Tux Paint's stamps" in capsys.readouterr().err
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / "broken.txt").write_text("A frog.")
    with pytest.raises(SystemExit):
        run(folder, tmp_path)
    assert "broken.png is no picture that can be read" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "stamps.jsonl").exists()


def test_the_captions_of_rockets_name_one_file_each(tmp_path):
    path = module.__file__.replace("stamps.py", "rockets.jsonl")
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert len({row["file"] for row in rows}) == 37
    assert all(row["file"].startswith("rockets/") and row["language"] == "en" for row in rows)
    assert len({(row["file"], row["caption"]) for row in rows}) == len(rows) == 69
