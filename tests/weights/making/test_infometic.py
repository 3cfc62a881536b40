"""The rows of InfoMetIC's weights that ship: drawn photos of two pixels, and invented captions of them.

The data folder, and which photos it holds out, is that of the tests of `weights.making.captions`.
"""

from __future__ import annotations

import doctest
import json
import random
import re
import warnings
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from capscore.benchmarks.data.builder import BenchmarkWarning
from capscore.errors import CapscoreError, InputError
from capscore.infometic.words import caption_words
from training.data.rows import ALIGNED, file_rows
from training.engine.model_card import DataSource
from weights.making import infometic as embedded_infometic
from weights.making.captions import HELD_OUT
from weights.making.infometic import (
    OF_PHOTOS,
    PhotoCaption,
    Settings,
    beginning,
    captions_of_photos,
    photo_files,
    photo_windows,
    write_rows,
)
from weights.making.jsonl import sources_file

from .test_captions import HELD, write_flickr8k, write_lines, write_multi30k, write_xflickrco

# its windows are its two pixels
BOTH = [[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0, 1.0]]
# of photos that are trained on, one without captions, and four that are held out: Multi30k's and XFlickrCO's
# test splits have the first two, raters saw the third, the pixels of the fourth are at hand
PHOTOS = ("111_aa.jpg", "222_ii.jpg", "700_bb.jpg", "999_zz.jpg", "666_q.jpg", "502_p.jpg", "701_dd.jpg")
PHOTOS += ("702_ee.jpg",)

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
    ("grammar/700", "en", "A caption of the grammar."),
    ("coco-cn-extension/700", "zh", "一只猫坐在椅子上"),
    ("flickr8k/4711", "en", "A photo that is not there."),
    *(("flickr8k/" + photo, "en", f"Held out is {photo}.") for photo in ("666", "502", "701", "702")),
]
CHINESE = [
    ("flickr8k-cn/222_ii.jpg#zhc#0", ZH),
    ("flickr8k-cn/222_ii.jpg#zhc#1", ZH),
    ("flickr8k-cn/701_dd.jpg#zhc#0", "一只狗"),
]


def draw(folder: Path, names=PHOTOS, size=(2, 1)) -> None:
    folder.mkdir()
    for number, name in enumerate(names):
        Image.new("RGB", size, (30 * number, 90, 200)).save(folder / name)


def write_all(folder: Path) -> Path:
    write_multi30k(folder / "data" / "multi30k")
    write_flickr8k(folder / "data" / "flickr8k")
    write_xflickrco(folder / "data" / "xflickrco")
    rows = [{"id": key, "language": code, "caption": text} for key, code, text in CAPTIONS]
    write_lines(folder / "captions.jsonl", (json.dumps(row, ensure_ascii=False) for row in rows))
    rows = [{"id": key, "language": "zh", "text": text, "source": "flickr8k-cn"} for key, text in CHINESE]
    write_lines(folder / "texts" / "zh.jsonl", (json.dumps(row, ensure_ascii=False) for row in rows))
    draw(folder / "photos")
    return folder


# tiny files never have the published number of rows
pytestmark = [
    pytest.mark.usefixtures("prepared_here"),
    pytest.mark.filterwarnings("ignore::capscore.benchmarks.data.builder.BenchmarkWarning"),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    return write_all(tmp_path_factory.mktemp("sources"))


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """The same files, for a test to damage; which photos are held out is known."""
    monkeypatch.setattr(embedded_infometic, "held_out", lambda data: frozenset(HELD))
    return write_all(tmp_path)


def settings(folder: Path, to: Path, **changes) -> Settings:
    plain = dict(
        data=str(folder / "data"),
        captions=str(folder / "captions.jsonl"),
        texts=str(folder / "texts"),
        photos=str(folder / "photos"),
        out=str(to),
        most=["en:9", "de:9", "ja:9", "zh:9", "ar:9"],
        windows=2,
        beginnings=0.0,
    )
    return Settings(**{**plain, **changes})


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture(scope="module")
def made(written, tmp_path_factory):
    """The file and its counts."""
    out = tmp_path_factory.mktemp("made") / "new" / "rows.jsonl"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BenchmarkWarning)
        counts = write_rows(settings(written, out))
    return out, counts


# The file


def test_the_rows_written_out(made):
    out, counts = made
    expected = [
        ("111_aa.jpg", EN, "en", "flickr8k/111"),
        ("111_aa.jpg", DE, "de", "multi30k/111"),
        ("222_ii.jpg", JA, "ja", "xflickrco/222"),
        ("222_ii.jpg", ZH, "zh", "flickr8k-cn/222"),
        ("700_bb.jpg", AR, "ar", "arabic-flickr8k/700"),
    ]
    rows = [
        {"image": image, "caption": caption, "language": code, "boxes": BOTH, "id": key}
        for image, caption, code, key in expected
    ]
    assert sorted(rows_of(out), key=lambda row: row["caption"]) == sorted(
        rows, key=lambda row: row["caption"]
    )
    assert counts == {
        ("en", "flickr8k"): 1,
        ("de", "multi30k"): 1,
        ("ja", "xflickrco"): 1,
        ("zh", "flickr8k-cn"): 1,
        ("ar", "arabic-flickr8k"): 1,
    }


def test_training_reads_the_rows(made, written):
    rows = list(file_rows(made[0], ALIGNED, images=written / "photos"))
    assert {row.image for row in rows} == {written / "photos" / name for name in PHOTOS[:3]}
    assert {row.boxes for row in rows} == {tuple(map(tuple, BOTH))}
    assert {row.caption for row in rows} == {EN, DE, JA, ZH, AR}


def test_no_photo_that_is_held_out_is_named(made):
    text = made[0].read_text(encoding="utf-8")
    assert not re.search(r"Held|666|502|701|702|一只狗", text)


def test_beside_the_file_stands_what_it_comes_from(made):
    said = json.loads(sources_file(made[0]).read_text(encoding="utf-8"))
    assert said["held_out"] == HELD_OUT
    photos, *captions = (DataSource(**part) for part in said["sources"])
    assert photos.name.startswith("Flickr8k, photos") and photos.rows == 3
    assert photos.license == "for research only"
    assert {part.name.split(",")[0]: part.rows for part in captions} == {
        "Flickr8k": 1,
        "Multi30k": 1,
        "xFlickr&CO": 1,
        "arabic-flickr8k": 1,
        "flickr8k-cn": 1,
    }
    assert all(part.license for part in captions)
    chinese = next(part for part in captions if part.name == "flickr8k-cn")
    assert (chinese.license, chinese.url) == ("none stated", "https://github.com/li-xirong/flickr8kcn")


def test_one_seed_is_one_file_to_the_byte(made, written, tmp_path):
    write_rows(settings(written, tmp_path / "again.jsonl"))
    assert (tmp_path / "again.jsonl").read_bytes() == made[0].read_bytes()


def many(folder: Path) -> None:
    """Forty English captions of three photos, each of its own text."""
    rows = [
        {
            "id": f"flickr8k/{('111', '222', '700')[n % 3]}",
            "language": "en",
            "caption": f"A dog sees {n} men.",
        }
        for n in range(40)
    ]
    write_lines(folder / "captions.jsonl", map(json.dumps, rows))


def test_captions_are_drawn_and_no_more_than_asked_for(own):
    many(own)
    found = {}
    for seed in (0, 1):
        out = own / f"{seed}.jsonl"
        counts = write_rows(settings(own, out, most=["en:10", "zh:0"], seed=seed))
        assert counts == {("en", "flickr8k"): 10}
        found[seed] = [row["caption"] for row in rows_of(out)]
        assert len(set(found[seed])) == 10
    assert set(found[0]) != set(found[1]) != {f"A dog sees {n} men." for n in range(10)}


def test_texts_may_be_left_out(own):
    (own / "texts" / "zh.jsonl").unlink()
    assert write_rows(settings(own, own / "rows.jsonl", texts=""))["zh flickr8k-cn"] == 0


def test_what_is_a_caption_of_a_photo(tmp_path):
    files = {"111": Path("111_aa.jpg"), "56": Path("56.jpg")}
    rows = [
        {"id": f"{source}/{source}/111_aa.jpg#{number}", "language": "en", "text": f"From {source}."}
        for number, source in enumerate((*OF_PHOTOS, "tatoeba", "jsts"))
    ]
    rows += [
        {"id": "flickr8k/111", "language": "en", "caption": "FROM MULTI30K."},  # said already
        {"id": "flickr8k/111", "language": "de", "caption": "From Multi30k."},  # in another language
        {"id": "xflickrco/COCO_val2014_000000000056", "language": "en", "caption": "A bus."},
    ]
    assert list(captions_of_photos(rows, files)) == [
        *(PhotoCaption(f"From {source}.", "en", source, "111_aa.jpg") for source in OF_PHOTOS),
        PhotoCaption("From Multi30k.", "de", "flickr8k", "111_aa.jpg"),
        PhotoCaption("A bus.", "en", "xflickrco", "56.jpg"),
    ]


def test_photos_by_their_short_names(tmp_path):
    draw(tmp_path / "photos", ("12_ab.jpg", "34.jpg"))
    (tmp_path / "photos" / "note.txt").write_text("no photo")
    assert photo_files(tmp_path / "photos") == {
        "12": tmp_path / "photos" / "12_ab.jpg",
        "34": tmp_path / "photos" / "34.jpg",
    }


# Beginnings


@pytest.mark.parametrize(
    ("language", "caption", "expected"),
    [
        ("en", EN, {"Two dogs run", "Two dogs run on the sand"}),
        ("en", "A red ball lies beside a dog", {"A red ball lies"}),
        ("en", "Beside a tree stands a small dog", {"Beside a tree stands"}),
        ("en", "A man sits on a chair.", {"A man sits"}),
        # nothing is left out, or but one semantic word is left
        ("en", "Two dogs run.", {""}),
        ("en", "A man near a lake", {""}),
        ("en", "Dogs", {""}),
        ("en", "", {""}),
        ("de", DE, {"Zwei Kinder spielen", "Zwei Kinder spielen im Garten"}),
        ("de", "Ein Hund liegt neben Schild 111.", {"Ein Hund liegt"}),
        ("zh", ZH, {"两只狗", "两只狗在草地", "两只狗在草地上追", "两只狗在草地上追红色"}),
        ("zh", "一个男孩在海滩上玩球", {"一个男孩在海滩"}),
        ("ja", JA, {"白い犬", "白い犬が草", "白い犬が草の上", "白い犬が草の上で赤い"}),
    ],
)
def test_every_beginning_of_a_caption(language, caption, expected):
    (words,) = caption_words([caption], language)
    found = {beginning(caption, language, words, random.Random(seed)) for seed in range(60)}
    assert found == expected


def test_beginnings_are_rows_beside_their_captions(own):
    out = own / "rows.jsonl"
    counts = write_rows(settings(own, out, beginnings=1.0, most=["en:9", "de:9", "zh:9", "ja:9"]))
    rows = rows_of(out)
    assert counts == {
        pair: 2
        for pair in zip(
            ("en", "de", "ja", "zh"), ("flickr8k", "multi30k", "xflickrco", "flickr8k-cn"), strict=True
        )
    }
    for whole in (EN, DE, ZH, JA):
        (full,) = (row for row in rows if row["caption"] == whole)
        (begun,) = (row for row in rows if row["caption"] != whole and whole.startswith(row["caption"]))
        assert {**begun, "caption": whole} == full


def test_some_captions_have_a_beginning(own):
    # two captions in three can have one: "A red dog sleeps"
    captions = [f"A red dog sleeps {('near lake', 'by rock', '')[n % 3]} {n}" for n in range(60)]
    rows = [{"id": "flickr8k/111", "language": "en", "caption": caption} for caption in captions]
    write_lines(own / "captions.jsonl", map(json.dumps, rows))
    out = own / "rows.jsonl"
    found = {}
    for share in (0.0, 0.5, 1.0):
        write_rows(settings(own, out, most=["en:60"], beginnings=share))
        written = Counter(row["caption"] for row in rows_of(out))
        assert all(written[caption] == 1 for caption in captions)
        found[share] = written["A red dog sleeps"]
        assert written.total() == 60 + found[share]
    assert found[0.0] == 0 and 10 <= found[0.5] <= 30 and found[1.0] == 40


# Windows


def test_windows_lie_in_the_photo_and_are_never_all_of_it(tmp_path):
    draw(tmp_path / "photos", ("1.jpg", "2.jpg"), size=(40, 30))
    first = photo_windows(tmp_path / "photos" / "1.jpg", 6, 0)
    assert len(first) == 6 == len(set(map(tuple, first)))
    for left, top, right, bottom in first:
        assert 0 <= left < right <= 40 and 0 <= top < bottom <= 30
        assert (right - left) * (bottom - top) < 40 * 30
    assert photo_windows(tmp_path / "photos" / "1.jpg", 6, 0) == first
    assert photo_windows(tmp_path / "photos" / "1.jpg", 6, 1) != first
    assert photo_windows(tmp_path / "photos" / "2.jpg", 6, 0) != first
    every = photo_windows(tmp_path / "photos" / "1.jpg", 999, 0)
    assert 20 < len(every) < 60
    # in their order
    assert [box for box in every if box in first] == first


def test_fewer_windows_than_there_are(tmp_path):
    draw(tmp_path / "photos", ("1.jpg",))
    assert photo_windows(tmp_path / "photos" / "1.jpg", 99, 0) == BOTH
    drawn = [photo_windows(tmp_path / "photos" / "1.jpg", 1, seed) for seed in range(20)]
    assert all(len(boxes) == 1 for boxes in drawn) and {tuple(boxes[0]) for boxes in drawn} == set(
        map(tuple, BOTH)
    )


def test_windows_are_of_the_upright_photo(tmp_path):
    photo, exif = Image.new("RGB", (1, 2), "red"), Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    photo.save(tmp_path / "1.jpg", exif=exif)
    assert photo_windows(tmp_path / "1.jpg", 2, 0) == BOTH


def test_captions_of_a_photo_have_the_same_windows_whatever_else_is_there(own):
    many(own)
    for name in PHOTOS[:3]:
        Image.new("RGB", (40, 30), "green").save(own / "photos" / name)
    boxes = {}
    for n in (40, 8):
        write_rows(settings(own, own / f"{n}.jsonl", windows=3, most=[f"en:{n}"]))
        for row in rows_of(own / f"{n}.jsonl"):
            assert len(row["boxes"]) == 3
            assert boxes.setdefault(row["image"], row["boxes"]) == row["boxes"]
    assert len(boxes) == 3 and len({str(own) for own in boxes.values()}) == 3


# Bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": ""}, "data: --data is missing"),
        ({"captions": ""}, "captions: --captions is missing"),
        ({"photos": ""}, "photos: --photos is missing"),
        ({"out": ""}, "out: --out is missing"),
        ({"most": ["en"]}, "most: 'en': expected language:number"),
        ({"most": ["en:1", "en:2"]}, "most: en is named twice"),
        ({"windows": 0}, "windows: 0: expected at least 1"),
        ({"beginnings": 1.5}, r"beginnings: 1\.5: expected a share from 0 to 1"),
        ({"beginnings": float("nan")}, "beginnings: nan"),
    ],
)
def test_settings_that_cannot_be(tmp_path, changes, message):
    with pytest.raises(InputError) as caught:
        settings(tmp_path, tmp_path / "rows.jsonl", **changes)
    assert re.search(message, f"{caught.value.field}: {caught.value.message}")


GOOD = json.dumps({"id": "flickr8k/111", "language": "en", "caption": "A dog runs."})


@pytest.mark.parametrize(
    ("path", "content", "field", "message"),
    [
        ("captions.jsonl", None, "captions", r"captions\.jsonl cannot be read: No such file"),
        ("captions.jsonl", f"{GOOD}\n{{", "captions", r"captions\.jsonl, line 2: expected a row of"),
        ("captions.jsonl", '["a"]', "captions", r"captions\.jsonl, line 1"),
        ("captions.jsonl", '{"id": "flickr8k/1", "language": "en"}', "captions", "line 1.*id, language, c"),
        ("captions.jsonl", GOOD.replace("A dog runs.", ""), "captions", r"captions\.jsonl, line 1"),
        ("captions.jsonl", GOOD.replace('"en"', "7"), "captions", r"captions\.jsonl, line 1"),
        ("captions.jsonl", GOOD.replace("111", "4711"), "captions", "has no caption of the photos in"),
        ("captions.jsonl", "", "captions", "has no caption of the photos"),
        ("texts/zh.jsonl", None, "texts", r"zh\.jsonl cannot be read: No such file"),
        ("texts/zh.jsonl", f"{GOOD}\n", "texts", r"zh\.jsonl, line 1: expected a row"),
        ("photos/222_ii.jpg", "no photo at all", "photos", r"222_ii\.jpg' is not an image that can be"),
        ("photos/222_ii.jpg", "", "photos", r"222_ii\.jpg' is empty"),
    ],
)  # fmt: skip
def test_a_file_that_is_missing_or_damaged_is_named_and_nothing_is_half_written(
    own, path, content, field, message
):
    if content is None:
        (own / path).unlink()
    else:
        (own / path).write_text(content, encoding="utf-8")
    most = ["en:9"] if path == "captions.jsonl" else ["de:9", "zh:9"]
    with pytest.raises(InputError, match=message) as caught:
        write_rows(settings(own, own / "out" / "rows.jsonl", most=most))
    assert caught.value.field == field
    assert not (own / "out").exists() or not list((own / "out").iterdir())


def test_a_photo_that_is_cut_short_is_named_and_what_was_there_stays(own):
    out = own / "rows.jsonl"
    write_rows(settings(own, out))
    before = {path: path.read_bytes() for path in (out, sources_file(out))}
    photo = own / "photos" / "111_aa.jpg"
    photo.write_bytes(photo.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"111_aa\.jpg' is cut short or damaged"):
        write_rows(settings(own, out, seed=1))
    assert {path: path.read_bytes() for path in before} == before
    assert not [path for path in own.iterdir() if path.name.startswith(".")]


def test_no_photos_and_no_data(own, monkeypatch):
    for photo in (own / "photos").iterdir():
        photo.unlink()
    for folder in (own / "photos", own / "nowhere"):
        with pytest.raises(InputError, match=rf"{folder.name} has no photo \(\*\.jpg\); expected those"):
            write_rows(settings(own, own / "rows.jsonl", photos=str(folder)))
    draw(own / "others", PHOTOS[4:])
    with pytest.raises(InputError, match="has no caption of the photos in"):
        write_rows(settings(own, own / "rows.jsonl", photos=str(own / "others")))
    monkeypatch.undo()
    (own / "data" / "flickr8k" / "ExpertAnnotations.txt").unlink()
    with pytest.raises(CapscoreError, match=r"ExpertAnnotations\.txt: cannot be read"):
        write_rows(settings(own, own / "rows.jsonl", photos=str(own / "others")))
    assert not (own / "rows.jsonl").exists()


def test_a_language_whose_words_cannot_be_told(own):
    row = {"id": "flickr8k/111", "language": "mi", "caption": "He kurī"}
    write_lines(own / "captions.jsonl", [json.dumps(row)])
    with pytest.raises(InputError, match="'mi'"):
        write_rows(settings(own, own / "rows.jsonl", most=["mi:5"], beginnings=1.0))
    assert not (own / "rows.jsonl").exists()


def test_the_command_says_what_it_wrote(own, capsys):
    given = settings(own, own / "rows.jsonl")
    embedded_infometic.main(
        [
            *("--data", given.data, "--captions", given.captions, "--texts", given.texts),
            *("--photos", given.photos, "--out", given.out),
            *("--most", "en:1", "zh:2", "--beginnings", "0", "--windows", "2"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == ["en flickr8k  1", "zh flickr8k-cn  1"]
    assert len(rows_of(own / "rows.jsonl")) == 2


def test_docstring_examples():
    result = doctest.testmod(embedded_infometic)
    assert result.attempted and not result.failed
