"""Training rows out of small official files: what belongs to which, what is left out."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from capscore.errors import CapscoreError, InputError
from tools.tiny.official import write_jsonl, write_lines
from tools.tiny.sources_of_weights import (
    COCO,
    PHOTOS,
    SAYS,
    text_row,
    write_coco_rows,
    write_data,
    write_photos,
    write_texts,
)
from weights.making.held_out import HeldOut, Photo, held_out_photos
from weights.making.image_tower.rows import (
    SOURCES,
    Caption,
    coco_captions,
    photo_files,
    read_captions,
    training_rows,
)

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
    held = held_out_photos(data, [*files, *(caption.name for caption in captions)])
    return training_rows(captions, photos, files, held, **options)


@pytest.fixture(scope="module")
def rows(folders):
    return made(folders)


def test_a_photo_has_its_captions_of_all_sources(rows):
    found = {str(row.photo): row for row in rows.photos}
    assert {name: sorted(row.captions) for name, row in found.items()} == {
        "COCO 98": ["ja"],
        "COCO 99": ["ja", "zh"],
        "Flickr 111": ["ar", "cs", "de", "en", "es", "fr", "ja", "ru", "tr", "zh"],
        "Flickr 222": ["cs", "de", "en", "fr"],
        "Flickr 700": ["en", "zh"],
    }
    assert list(found) == sorted(found)
    own = found["Flickr 111"].captions
    assert own["en"] == ("A brown dog rests near sign 111 .", "A dog lies beside sign 111.")
    assert own["de"] == ("Ein Hund liegt neben Schild 111.",)  # two sources have it
    assert found["COCO 99"].captions["ja"] == (SAYS["ja"].format("99-5!"),)
    # 720 has captions of xFlickr&CO in six languages, no pixels
    (alone,) = rows.texts
    assert (str(alone.photo), sorted(alone.captions), alone.file) == (
        "Flickr 720",
        ["de", "es", "ja", "ru", "tr", "zh"],
        None,
    )
    assert len(alone.captions["ja"]) == 5


def test_a_photo_is_read_from_the_first_folder_that_has_it(rows, folders):
    found = {str(row.photo): row for row in rows.photos}
    assert found["COCO 99"].name == "coco128/train2017/000000000099.jpg"
    assert found["COCO 99"].file == folders[1] / found["COCO 99"].name and found["COCO 99"].file.is_file()
    assert {name: row.source for name, row in found.items()} == {
        **dict.fromkeys(("COCO 98", "COCO 99"), "coco"),
        **dict.fromkeys(("Flickr 111", "Flickr 222", "Flickr 700"), "flickr8k"),
    }
    assert len(photo_files(folders[1])) == len(PHOTOS) + len(COCO)


def test_held_out_photos_are_left_out_of_every_source_and_counted(rows):
    found = rows
    counted = Counter()
    for row in (*found.photos, *found.texts):
        counted.update({language: len(captions) for language, captions in row.captions.items()})
    by_language = Counter()
    for (_, language), n in found.counts.items():
        by_language[language] += n
    assert by_language == counted
    assert found.counts["flickr8k", "en"] == 4 and found.counts["multi30k", "en"] == 1
    assert found.left_out == {
        "flickr8k": 8,  # 444, 701, 702 and 704, two captions each
        "multi30k": 12,  # 333, 444 and 888 in four languages
        "xflickrco": 22,  # 666 and 703 in six files, 666 five times in two more
        **dict.fromkeys(("flickr8k-cn", "arabic-flickr8k", "jsts", "coco-cn-extension"), 1),
    }


def test_a_file_of_captions_adds_languages(folders, tmp_path):
    # 56 and 130 are held out; 4711 is nowhere else, so nothing says whether it is of val2014
    found = made(folders, [write_coco_rows(tmp_path / "more.jsonl", [99, 99, 56, 130, 4711], "pt-BR")])
    assert {str(row.photo): row for row in found.photos}["COCO 99"].captions["pt"] == (
        "A dog beside sign 99.",
    )
    assert (found.counts["more.jsonl", "pt"], found.left_out["more.jsonl"]) == (1, 3)


def test_cocos_own_annotations(folders, tmp_path):
    path = tmp_path / "captions_train2017.json"
    images = [{"id": n, "file_name": f"{n:012d}.jpg"} for n in (98, 130, 140)]
    notes = [{"id": n, "image_id": n, "caption": f"Dog  {n}."} for n in (98, 130, 140)]
    path.write_text(json.dumps({"images": images, "annotations": notes}))
    found = made(folders, [path])
    assert {str(row.photo): row for row in found.photos}["COCO 98"].captions["en"] == ("Dog 98.",)
    assert (found.counts["coco", "en"], found.left_out["coco"]) == (1, 2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"photo": 9, "caption": "A dog."}', "line 1: lacks the field 'language'"),
        ('{"photo": 9.5, "caption": "A dog.", "language": "en"}', "line 1: 'photo' is 9.5, expected a whole"),
        ('{"photo": 9, "caption": "A dog.", "language": "qq1"}', "line 1: .*qq1"),
    ],
)
def test_a_damaged_row_names_its_line(tmp_path, row, message):
    path = write_lines(tmp_path / "more.jsonl", [row])
    with pytest.raises(CapscoreError, match=rf"more\.jsonl.*{message}"):
        list(coco_captions(path))


def test_one_photo_needs_a_caption(folders):
    alone = Caption(Photo("flickr", 5), "5_a.jpg", "en", "A dog.", "flickr8k")
    with pytest.raises(InputError, match="no caption is of an available photo"):
        training_rows([alone], folders[1], photo_files(folders[1]), HeldOut({}))


def test_texts_that_lack_a_source_are_an_error(folders, tmp_path):
    write_jsonl(tmp_path / "zh.jsonl", [text_row("tatoeba", "a", "zh", "一只狗。")])
    write_jsonl(tmp_path / "ja.jsonl", [text_row("jsts", "one-2", "ja", "犬。")])
    for source, message in (
        ("flickr8k-cn", "has no caption of flickr8k-cn"),
        ("jsts", "'' of jsts names no photo"),
    ):
        with pytest.raises(InputError, match=message):
            read_captions(folders[0], tmp_path, sources=(source,))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("others/1_a.jpg", "has no photo in a folder 'flickr8k'"),
        ("coco_train2014/1_a.jpg", "expected a name of coco_train2014"),
    ],
)
def test_unusable_folders_of_photos_are_refused(tmp_path, name, message):
    write_lines(tmp_path / name, [])
    with pytest.raises(InputError, match=f"^photos: .*{message}"):
        photo_files(tmp_path)
