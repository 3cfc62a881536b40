"""Labelled photos → captions, and their rows."""

from __future__ import annotations

import doctest
import json
import shutil

import pytest

from capscore.errors import CapscoreError, InputError
from weights.making.image_tower import labelled as module
from weights.making.image_tower.labelled import labelled_captions, labelled_photos, main

from .sources import draw_photo


@pytest.fixture
def photos(tmp_path):
    """Two labels in folders, with five and one photos."""
    for seed, name in enumerate((*(f"fire_engine/{n}.jpg" for n in range(5)), "Owl/0.png")):
        draw_photo(tmp_path / "photos" / "things" / name, seed)
    (tmp_path / "photos" / "things" / "read me.txt").write_text("no photo")
    return tmp_path / "photos"


def run(photos, out, *options):
    main(["--photos", str(photos), "--folder", "things", "--out", str(out), *options])
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_docstrings():
    assert not doctest.testmod(module).failed


def test_the_label_is_the_folder_or_what_the_expression_finds(photos):
    found = labelled_photos(photos, "things")
    assert list(found.items())[:2] == [
        ("things/Owl/0.png", "Owl"),
        ("things/fire_engine/0.jpg", "fire engine"),
    ]
    assert len(found) == 6
    assert set(labelled_photos(photos, "things", label="^(...)").values()) == {"fir", "Owl"}


def test_the_most_photos_are_spread_over_a_label(photos):
    found = labelled_photos(photos, "things", most=2)
    assert list(found) == ["things/Owl/0.png", "things/fire_engine/0.jpg", "things/fire_engine/2.jpg"]


def test_the_command_writes_rows_and_their_source(photos, tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    options = ["--most", "1", "--name", "Drawn", "--license", "CC0 1.0"]
    rows = run(photos, out, *options)
    assert [row["caption"] for row in rows] == [
        "an Owl",
        "A photo of an Owl.",
        "a fire engine",
        "A photo of a fire engine.",
    ]
    assert {row["language"] for row in rows} == {"en"}
    beside = json.loads((tmp_path / "rows.jsonl.sources.json").read_text())
    assert beside["sources"] == [{"name": "Drawn", "license": "CC0 1.0", "rows": 2, "url": ""}]
    assert capsys.readouterr().out.startswith("2 photos with 2 labels in ")


def test_equal_files_are_one_photo(photos, tmp_path):
    shutil.copy(photos / "things" / "Owl" / "0.png", photos / "things" / "Owl" / "1.png")
    out = tmp_path / "rows.jsonl"
    shutil.rmtree(photos / "things" / "fire_engine")
    run(photos, out)
    captions, files = labelled_captions(out, photos)
    assert len(captions) == 4 and len({one.photo for one in captions}) == 1
    assert list(files.values()) == ["things/Owl/0.png"]
    assert captions[0].photo.collection == "labelled" and captions[0].row == 0


@pytest.mark.parametrize(
    "options, message",
    [
        (["--label", "(Owl)"], "fire_engine/0.jpg: --label '.Owl.*' finds nothing in its path"),
        (["--folder", "nothing"], "nothing has no photo"),
    ],
)
def test_what_cannot_be_labelled_is_an_error(photos, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        run(photos, tmp_path / "rows.jsonl", *options)
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize(
    "row, message",
    [
        (
            {"file": "things/gone.jpg", "caption": "an owl", "language": "en"},
            "line 1: there is no photo .*gone",
        ),
        ({"file": "things/Owl/0.png", "caption": "", "language": "en"}, "line 1"),
        ({"file": "things/Owl/0.png", "caption": "an owl", "language": "xx"}, "line 1"),
        ({"file": "things/Owl/0.png", "caption": "an owl"}, "line 1: .*language"),
    ],
)
def test_a_damaged_row_names_its_line(photos, tmp_path, row, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises((CapscoreError, InputError), match=message):
        labelled_captions(path, photos)
