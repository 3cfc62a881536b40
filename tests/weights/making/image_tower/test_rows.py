"""Training rows out of small official files: what belongs to which photo, and what is left out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from capscore.errors import CapscoreError, InputError
from weights.making.held_out import HeldOut, Photo, held_out_photos, photo_of
from weights.making.image_tower.rows import (
    SOURCES,
    Caption,
    coco_captions,
    photo_files,
    read_captions,
    training_rows,
)

from ..test_captions import SAYS, text_row, write_lines
from .sources import COCO, FLICKR8K, write_coco_rows, write_data, write_photos, write_texts

pytestmark = [
    pytest.mark.usefixtures("prepared_here"),
    pytest.mark.filterwarnings("ignore::capscore.benchmarks.data.builder.BenchmarkWarning"),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    return write_data(folder / "data"), write_photos(folder / "photos"), write_texts(folder / "texts")


def made(folders, coco=(), sources=SOURCES, **options):
    data, photos, texts = folders
    captions = read_captions(data, texts, coco, sources)
    files = photo_files(photos)
    held = held_out_photos(data, [*files.names, *(one.name for one in captions)])
    return training_rows(captions, files, held, **options), held


@pytest.fixture(scope="module")
def rows(folders):
    return made(folders)


def test_a_photo_has_its_captions_of_all_sources(rows):
    found = {str(row.photo): row for row in rows[0].photos}
    assert list(found) == ["COCO 98", "COCO 99", "Flickr 111", "Flickr 222", "Flickr 700"]
    assert {name: sorted(row.captions) for name, row in found.items()} == {
        "COCO 98": ["ja"],
        "COCO 99": ["ja", "zh"],
        "Flickr 111": ["ar", "cs", "de", "en", "es", "fr", "ja", "ru", "tr", "zh"],
        "Flickr 222": ["cs", "de", "en", "fr"],
        "Flickr 700": ["en", "zh"],
    }
    assert found["Flickr 111"].captions["en"] == (
        "A brown dog rests near sign 111 .",
        "A dog lies beside sign 111.",
    )
    assert found["Flickr 111"].captions["de"] == ("Ein Hund liegt neben Schild 111.",)  # two sources have it
    assert found["Flickr 700"].captions["zh"] == (SAYS["zh"].format("700_bb.jpg#zhc#0!"),)
    assert found["COCO 99"].captions["ja"] == (SAYS["ja"].format("99-5!"),)


def test_a_photo_is_read_from_the_first_folder_that_has_it(rows, folders):
    found = {str(row.photo): row for row in rows[0].photos}
    assert found["COCO 99"].name == "coco128/train2017/000000000099.jpg"
    assert found["COCO 99"].file == folders[1] / found["COCO 99"].name and found["COCO 99"].file.is_file()
    assert found["Flickr 111"].name == "flickr8k/111_aa.jpg"
    assert {name: row.source for name, row in found.items()} == {
        "COCO 98": "coco",
        "COCO 99": "coco",
        "Flickr 111": "flickr8k",
        "Flickr 222": "flickr8k",
        "Flickr 700": "flickr8k",
    }


def test_photos_without_pixels_give_texts_alone(rows):
    # 720 has captions of xFlickr&CO in six languages, no pixels
    assert [(str(row.photo), sorted(row.captions), row.file) for row in rows[0].texts] == [
        ("Flickr 720", ["de", "es", "ja", "ru", "tr", "zh"], None)
    ]
    assert len(rows[0].texts[0].captions["ja"]) == 5


def test_counts_are_of_captions_that_are_in_the_rows(rows):
    found, _ = rows
    counted = Counter()
    for row in (*found.photos, *found.texts):
        counted.update({language: len(captions) for language, captions in row.captions.items()})
    by_language = Counter()
    for (_, language), n in found.counts.items():
        by_language[language] += n
    assert by_language == counted
    assert found.counts["flickr8k", "en"] == 4 and found.counts["multi30k", "en"] == 1
    assert found.counts["flickr8k-cn", "zh"] == 1 and found.counts["jsts", "ja"] == 2
    assert found.languages == sorted(counted)


def test_what_is_held_out_is_left_out_of_every_source_and_counted(rows):
    found, held = rows
    found.check(held)
    sources = Counter()
    for (source, reason), n in found.left_out.items():
        assert reason.startswith("it is in ")
        sources[source] += n
    assert sources == {
        "flickr8k": 8,  # 444, 701, 702 and 704, two captions each
        "multi30k": 12,  # 333, 444 and 888 in four languages
        "xflickrco": 22,  # 666 and 703 in six files, 666 five times in two more
        "flickr8k-cn": 1,
        "arabic-flickr8k": 1,
        "jsts": 1,
        "coco-cn-extension": 1,
    }


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "photo", ["666_q.jpg", "710_hh.jpg", "701_dd.jpg", "COCO_train2014_000000000056.jpg"]
)
def test_a_held_out_photo_enters_through_no_source_or_language(rows, folders, source, photo):
    _, held = rows
    one = photo_of(photo)
    captions = [
        Caption(photo_of("111_aa.jpg"), "111_aa.jpg", "en", "A dog.", source),
        *(
            Caption(one, photo, language, f"{language} of it", source)
            for language in ("en", "zh", "ar", "cs")
        ),
    ]
    found = training_rows(captions, photo_files(folders[1]), held)
    assert [str(row.photo) for row in found.photos] == ["Flickr 111"] and not found.texts
    assert sum(found.left_out.values()) == 4


def test_rows_with_a_held_out_photo_are_refused(rows):
    found, held = rows
    expected = (
        r"^row 2, flickr8k: Flickr 701 \(flickr8k/701_dd\.jpg\) may not be trained on: it is in Flickr8k-Exp"
    )
    bad = found.photos[2]._replace(photo=Photo("flickr", 701), name="flickr8k/701_dd.jpg")
    with pytest.raises(InputError, match=expected):
        replace(found, photos=[*found.photos[:2], bad]).check(held)
    with pytest.raises(InputError, match=r"^row 1, xflickrco: Flickr 666"):
        bad = found.texts[0]._replace(photo=Photo("flickr", 666), name="666.jpg")
        replace(found, texts=[found.texts[0], bad]).check(held)


def test_a_file_made_for_the_training_adds_languages(folders, tmp_path):
    rows = [*[99] * 2, 4711]
    found, held = made(folders, [write_coco_rows(tmp_path / "more.jsonl", rows, "pt-BR")])
    found.check(held)
    own = {str(row.photo): row for row in found.photos}["COCO 99"]
    assert own.captions["pt"] == ("A dog beside sign 99.",)
    assert found.counts["more.jsonl", "pt"] == 1
    # 4711 is nowhere else, so nothing says whether it is of val2014
    assert found.left_out["more.jsonl", "nothing shows that it is in COCO train2014, not in val2014"] == 1


def test_a_held_out_photo_in_a_file_made_for_the_training_is_an_error(folders, tmp_path):
    with pytest.raises(InputError, match=r"^row 2, more\.jsonl: COCO 56 .*it is in Multi30k, test splits"):
        made(folders, [write_coco_rows(tmp_path / "more.jsonl", [99, 98, 56])])
    # of val2014 by the name of a file that is there
    with pytest.raises(InputError, match=r"^row 0, more\.jsonl: COCO 130 .*it is in COCO val2014"):
        made(folders, [write_coco_rows(tmp_path / "more.jsonl", [130])])


def test_cocos_own_annotations(folders, tmp_path):
    path = tmp_path / "captions_train2017.json"
    images = [{"id": n, "file_name": f"{n:012d}.jpg"} for n in (98, 130, 140)]
    notes = [{"id": n, "image_id": n, "caption": f"Dog  {n}."} for n in (98, 130, 140)]
    path.write_text(json.dumps({"images": images, "annotations": notes}))
    found, _ = made(folders, [path])
    assert {str(row.photo): row for row in found.photos}["COCO 98"].captions["en"] == ("Dog 98.",)
    assert found.counts["coco", "en"] == 1
    left = {reason: n for (source, reason), n in found.left_out.items() if source == "coco"}
    assert left == {
        "it is in COCO val2014": 1,
        "nothing shows that it is in COCO train2014, not in val2014": 1,
    }
    path.write_text(json.dumps({"images": images, "annotations": [{"id": 1, "image_id": 5, "caption": "A"}]}))
    with pytest.raises(CapscoreError, match=r"annotations\[0\]: .image_id. is 5, expected the id"):
        list(coco_captions(path))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"photo": 9, "caption": "A dog."}', "line 1: lacks the field 'language'"),
        ('{"photo": "9 b", "caption": "A dog.", "language": "en"}', "line 1: 'photo' is '9 b', expected"),
        ('{"photo": 9.5, "caption": "A dog.", "language": "en"}', "line 1: 'photo' is 9.5, expected a whole"),
        ('{"photo": 9, "caption": " ", "language": "en"}', "line 1: 'caption' is ' '"),
        ('{"photo": 9, "caption": "A dog.", "language": "qq1"}', "line 1: .*qq1"),
        ('{"photo": 9, "capt', "line 1: is not JSON"),
        ("", "is empty"),
    ],
)
def test_a_damaged_row_names_its_line(tmp_path, row, message):
    write_lines(tmp_path / "more.jsonl", [row])
    with pytest.raises(CapscoreError, match=rf"more\.jsonl.*{message}"):
        list(coco_captions(tmp_path / "more.jsonl"))


def test_fewer_photos_are_spread_over_all(folders):
    everything, _ = made(folders)
    found, _ = made(folders, most_photos=2)
    assert [str(row.photo) for row in found.photos] == ["COCO 98", "Flickr 111"]
    assert found.counts["flickr8k", "en"] == 2 < everything.counts["flickr8k", "en"]
    assert found.texts == everything.texts
    assert made(folders, most_photos=99)[0] == everything


def test_photos_without_captions_are_rows_if_asked_for(folders):
    found, held = made(folders, sources=("flickr8k",), captionless=True)
    found.check(held)
    assert {str(row.photo): bool(row.captions) for row in found.photos} == {
        "COCO 98": False,
        "COCO 99": False,
        "Flickr 111": True,
        "Flickr 222": False,
        "Flickr 700": True,
    }


@pytest.mark.parametrize("sources", [("flickr8k",), ("multi30k",), ("flickr8k-cn",)])
def test_sources_can_be_left_out(folders, sources):
    found, _ = made(folders, sources=sources)
    assert {source for source, _ in found.counts} == set(sources)


def test_texts_that_lack_a_source_are_an_error(folders, tmp_path):
    data, _, _ = folders
    write_lines(tmp_path / "zh.jsonl", [text_row("tatoeba", "a", "zh", "一只狗。")])
    with pytest.raises(InputError, match=r"texts: .* has no caption of flickr8k-cn"):
        read_captions(data, tmp_path, sources=("flickr8k-cn",))
    with pytest.raises(InputError, match=r"texts: .*ja\.jsonl cannot be read"):
        read_captions(data, tmp_path, sources=("jsts",))
    with pytest.raises(InputError, match=r"texts: None has no caption of jsts"):
        read_captions(data, None, sources=("jsts",))
    write_lines(tmp_path / "ja.jsonl", [text_row("jsts", "one-2", "ja", "犬。")])
    with pytest.raises(InputError, match=r"'one-2' of jsts names no photo"):
        read_captions(data, tmp_path, sources=("jsts",))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["others/1_a.jpg"], "has no photo in a folder 'flickr8k'"),
        (["flickr8k/sunset.jpg"], r"sunset\.jpg: expected a name of flickr8k with a number"),
        (["flickr8k/COCO_train2014_000000000009.jpg"], "expected a name of flickr8k"),
        (["flickr8k/1_a.jpg", "coco_train2014/1_a.jpg"], "expected a name of coco_train2014"),
    ],
)
def test_a_folder_of_photos_that_cannot_be(tmp_path, names, message):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match=f"^photos: .*{message}"):
        photo_files(tmp_path)


def test_photos_are_found_by_number(folders):
    found = photo_files(folders[1])
    assert len(found.files) == len(FLICKR8K) + 5 and len(found.names) == len(FLICKR8K) + len(COCO)
    assert found.files[Photo("flickr", 700)] == "flickr8k/700_bb.jpg"
    assert (folders[1] / found.files[Photo("coco", 140)]).is_file()


def test_no_caption_of_a_photo_that_is_there_is_an_error(folders):
    caption = Caption(Photo("flickr", 5), "5_a.jpg", "en", "A dog.", "flickr8k")
    with pytest.raises(InputError, match="no caption is of a photo that is there"):
        training_rows([caption], photo_files(folders[1]), HeldOut({}), captionless=True)
