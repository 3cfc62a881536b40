"""The rows of InfoMetIC's weights that ship: drawn photos of two pixels, and invented captions of them."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from capscore.errors import InputError
from capscore.infometic.words import caption_words
from tools.tiny.official import write_jsonl
from tools.tiny.sources_of_weights import HELD, write_data
from training.data.rows import ALIGNED, file_rows
from weights.making import infometic as module
from weights.making.held_out import HeldOut, Photo, held_out_photos
from weights.making.infometic import Settings, beginning, photo_windows, write_rows

# its windows are its two pixels
BOTH = [[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0, 1.0]]
# of photos that are trained on, one without captions, and four that are held out: Multi30k's and XFlickrCO's
# test splits have the first two, raters saw the third, the pixels of the fourth are at hand
PHOTOS = [f"{name}.jpg" for name in "111_aa 222_ii 700_bb 999_zz 666_q 502_p 701_dd 702_ee".split()]
EN = "Two dogs run on the sand near a lake."
DE = "Zwei Kinder spielen im Garten mit einem Ball."
JA = "白い犬が草の上で赤いボールを追いかけている。"
ZH = "两只狗在草地上追红色的球"
AR = "كلب ينام بجانب كرة"
CAPTIONS = [
    ("flickr8k/111", "en", EN),
    ("flickr8k/111", "en", EN.lower()),  # the same, as some are written in lower case
    ("multi30k/111", "de", DE),
    ("multi30k/111", "fr", "Deux chiens courent."),  # a language that is not asked for
    ("xflickrco/222", "ja", JA),
    ("xflickrco/222", "de", DE),  # the same of another photo
    ("arabic-flickr8k/arabic-flickr8k/700_bb.jpg#2", "ar", AR),
    ("tatoeba/700", "en", "A sentence of no photo."),
    ("coco-cn-extension/700", "zh", "一只猫坐在椅子上"),
    ("flickr8k/4711", "en", "A photo that is not there."),
    ("flickr8k-cn/222_ii.jpg#zhc#0", "zh", ZH),
    ("flickr8k-cn/222_ii.jpg#zhc#1", "zh", ZH),
    ("flickr8k-cn/701_dd.jpg#zhc#0", "zh", "一只狗"),
    *(("flickr8k/" + photo, "en", f"Held out is {photo}.") for photo in ("666", "502", "701", "702")),
]


def rows_file(path: Path, captions) -> Path:
    rows = ({"id": key, "language": language, "caption": caption} for key, language, caption in captions)
    return write_jsonl(path, rows)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The files; which photos are held out is known."""
    held = HeldOut({Photo("flickr", int(number)): ("a test split",) for number in HELD})
    monkeypatch.setattr(module, "held_out_photos", lambda data: held)
    monkeypatch.setattr(module, "WINDOWS", 2)
    rows_file(tmp_path / "captions.jsonl", CAPTIONS)
    (tmp_path / "photos").mkdir()
    for number, name in enumerate(PHOTOS):
        Image.new("RGB", (2, 1), (30 * number, 90, 200)).save(tmp_path / "photos" / name)
    return tmp_path


def settings(folder: Path, **changes) -> Settings:
    names = ("data", "captions.jsonl", "photos", "rows.jsonl")
    most = ["en:9", "de:9", "ja:9", "zh:9", "ar:9"]
    return Settings(*(str(folder / name) for name in names), **{"most": most, "beginnings": 0.0, **changes})


def written(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.usefixtures("prepared_here")
def test_the_command_writes_rows_that_training_reads_without_what_is_held_out(folder, monkeypatch, capsys):
    monkeypatch.undo()
    write_data(folder / "data")
    given = settings(folder)
    paths = (f"--{name}={getattr(given, name)}" for name in ("data", "captions", "photos", "out"))
    module.main([*paths, "--most", *given.most, "--beginnings", "0"])
    found = {tuple(row[name] for name in ("image", "caption", "language", "id")) for row in written(folder)}
    assert found == {
        ("111_aa.jpg", DE, "de", "multi30k/111"),
        ("111_aa.jpg", EN, "en", "flickr8k/111"),
        ("222_ii.jpg", ZH, "zh", "flickr8k-cn/222"),
        ("222_ii.jpg", JA, "ja", "xflickrco/222"),
        ("700_bb.jpg", AR, "ar", "arabic-flickr8k/700"),
    }
    assert all(row["boxes"] == BOTH for row in written(folder)) and len(written(folder)) == 5
    assert "ar: 1 (arabic-flickr8k 1)" in capsys.readouterr().out.splitlines()
    read = list(file_rows(folder / "rows.jsonl", ALIGNED, images=folder / "photos"))
    assert {row.image for row in read} == {folder / "photos" / name for name in PHOTOS[:3]}
    beside = json.loads((folder / "rows.jsonl.sources.json").read_text(encoding="utf-8"))
    assert beside["held_out"] == held_out_photos(folder / "data").statement()
    photos, *captions = beside["sources"]
    assert photos["name"].startswith("Flickr8k, photos") and photos["rows"] == 3
    assert sum(part["rows"] for part in captions) == len(captions) == 5


def test_no_more_captions_are_drawn_than_requested(folder):
    photos = ("111", "222", "700")
    captions = [(f"flickr8k/{photos[n % 3]}", "en", f"A dog sees {n} men.") for n in range(40)]
    rows_file(folder / "captions.jsonl", captions)
    assert write_rows(settings(folder, most=["en:10", "zh:0"])) == {"en": {"flickr8k": 10}}
    found = [row["caption"] for row in written(folder)]
    assert len(set(found)) == 10 and sorted(found) != sorted(caption for *_, caption in captions[:10])
    # the rows of the shipped weights cannot be made again with another seed
    assert [caption.split()[3] for caption in found[:4]] == ["38", "29", "21", "0"]


@pytest.mark.parametrize(
    ("language", "caption", "expected"),
    [
        ("en", EN, {"Two dogs run", "Two dogs run on the sand"}),
        ("en", "Beside a tree stands a small dog", {"Beside a tree stands"}),
        # nothing is left out, or but one semantic word is left
        ("en", "Two dogs run.", {""}),
        ("en", "A man near a lake", {""}),
        ("en", "", {""}),
        ("de", DE, {"Zwei Kinder spielen", "Zwei Kinder spielen im Garten"}),
        ("zh", ZH, {"两只狗", "两只狗在草地", "两只狗在草地上追", "两只狗在草地上追红色"}),
        ("ja", JA, {"白い犬", "白い犬が草", "白い犬が草の上", "白い犬が草の上で赤い"}),
    ],
)
def test_every_beginning_of_a_caption(language, caption, expected):
    (words,) = caption_words([caption], language)
    assert {beginning(caption, language, words, random.Random(seed)) for seed in range(60)} == expected


def test_a_share_of_the_captions_has_a_beginning_beside_it(folder):
    # two captions in three can have one: "A red dog sleeps"
    captions = [f"A red dog sleeps {('near lake', 'by rock', '')[n % 3]} {n}" for n in range(60)]
    rows_file(folder / "captions.jsonl", (("flickr8k/111", "en", caption) for caption in captions))
    for share, least, most in ((0.5, 10, 30), (1.0, 40, 40)):
        counts = write_rows(settings(folder, most=["en:60"], beginnings=share))
        found = Counter(row["caption"] for row in written(folder))
        assert all(found[caption] == 1 for caption in captions)
        assert least <= found["A red dog sleeps"] <= most and counts["en"]["flickr8k"] == found.total()


def test_windows_lie_in_the_upright_photo_and_depend_on_its_name(tmp_path):
    for name in ("1.jpg", "2.jpg"):
        Image.new("RGB", (40, 30), "red").save(tmp_path / name)
    first = photo_windows(tmp_path / "1.jpg")
    assert len(set(map(tuple, first))) == 6
    for left, top, right, bottom in first:
        assert 0 <= left < right <= 40 and 0 <= top < bottom <= 30
        assert (right - left) * (bottom - top) < 40 * 30
    assert photo_windows(tmp_path / "1.jpg") == first != photo_windows(tmp_path / "2.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    Image.new("RGB", (1, 2), "red").save(tmp_path / "3.jpg", exif=exif)
    assert photo_windows(tmp_path / "3.jpg") == BOTH


GOOD = json.dumps({"id": "flickr8k/111", "language": "en", "caption": "A dog runs."})


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("captions.jsonl", f"{GOOD}\n{{", r"captions\.jsonl, line 2: expected a row with"),
        ("captions.jsonl", GOOD.replace("111", "4711"), "has no caption of the photos in"),
        ("photos/222_ii.jpg", "no photo at all", r"222_ii\.jpg' is not an image that can be"),
    ],
)
def test_a_file_that_is_damaged_is_named_and_none_is_half_written(folder, path, content, message):
    (folder / path).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        write_rows(settings(folder))
    assert not (folder / "rows.jsonl").exists()
