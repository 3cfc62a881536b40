"""Benchmarks and files → captions with their photos, or texts that stand for them."""

from __future__ import annotations

import json

import pytest

from capscore.benchmarks.robustness import benchmark_captions, file_captions
from capscore.errors import CapscoreError, InputError

from ...datasets_scripts.conftest import official, write_photos
from ...photos import encode, noise


def written(folder, *rows):
    path = folder / "captions.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_benchmark_with_its_photos(tmp_path):
    official("xflickrco").write(tmp_path)
    write_photos("xflickrco", tmp_path)
    (german,) = benchmark_captions("xflickrco", "de", data_dir=tmp_path)
    assert (german.language, german.captions) == ("de", ["Ein Hund läuft.", "Zwei Kinder."])
    assert german.image_ids == ["111.jpg", "COCO_val2014_000000000034.jpg"]
    assert [path.rpartition("/")[2] for path in german.images] == german.image_ids
    assert german.stand_ins is None and german.objects is None and list(german.files) == ["test.jsonl"]
    (tmp_path / "flickr30k-images" / "111.jpg").unlink()
    with pytest.raises(CapscoreError, match=r"xflickrco \(de\): for 1 of 2 captions the photo is missing"):
        benchmark_captions("xflickrco", "de", data_dir=tmp_path)
    (german,) = benchmark_captions("xflickrco", "de", data_dir=tmp_path, partial=True)
    assert german.captions == ["Zwei Kinder."]
    assert "1 of 2 captions; for the others the photo is missing" in german.notes


def test_an_english_caption_stands_in_for_the_photo(tmp_path):
    official("xflickrco").write(tmp_path)
    german, english = (
        benchmark_captions("xflickrco", code, data_dir=tmp_path, stand_in=True)[0] for code in ("de", "en")
    )
    assert german.stand_ins == english.stand_ins == english.captions == ["A dog runs.", "Two children."]
    assert any(note.startswith("2 captions are the texts that replace") for note in english.notes)
    # of several English captions the first stands, and is not scored
    official("coco_captions").write(tmp_path)
    config, split = next(iter(official("coco_captions").ROWS))
    for part in benchmark_captions("coco_captions", config, split=split, data_dir=tmp_path, stand_in=True):
        for caption, text, name in zip(part.captions, part.stand_ins, part.image_ids, strict=True):
            assert caption != text or part.image_ids.count(name) == 1
        assert any("not scored: they replace their photos" in note for note in part.notes)


def test_only_captions_that_are_known_to_be_true_are_taken(tmp_path):
    official("m_finecap3k").write(tmp_path)
    write_photos("m_finecap3k", tmp_path)
    (french,) = benchmark_captions("m_finecap3k", "fr", data_dir=tmp_path)
    assert french.captions == ["Une femme en manteau rouge attend."]  # twice in the file, of one photo
    assert french.objects == [["femme", "manteau rouge"]]
    official("flickr8k_human").write(tmp_path)
    (rated,) = benchmark_captions("flickr8k_human", "expert", data_dir=tmp_path, stand_in=True)
    pairs = list(zip(rated.image_ids, rated.captions, strict=True))
    assert len(pairs) == len(set(pairs)) > 0
    official("valse").write(tmp_path)
    with pytest.raises(CapscoreError, match="valse has no captions that are known to be true"):
        benchmark_captions("valse", "existence", data_dir=tmp_path, stand_in=True)


def test_a_draw_is_the_same_in_all_languages(tmp_path):
    rows = [
        {"caption": f"{code} {n}", "language": code, "image_id": str(n // 2), "stand_in": f"photo {n // 2}"}
        for code in ("en", "de")
        for n in range(40)
        if (code, n) != ("de", 39)
    ]
    whole, german = file_captions(written(tmp_path, *rows), stand_in=True)
    english, german = (part.sample(10, 3) for part in (whole, german))
    assert len(english) == 10 and english.notes[-1] == "10 of 40 captions, drawn with seed 3"
    numbers = [{int(text.split()[1]) for text in part.captions} for part in (english, german)]
    assert len(numbers[0] & numbers[1]) >= 9
    assert whole.sample(40, 0) is whole and whole.sample(10, 4).captions != english.captions


def test_a_file_has_a_set_per_language(tmp_path):
    (tmp_path / "a.png").write_bytes(encode(noise()))
    path = written(
        tmp_path,
        {"image": "a.png", "caption": "A dog.", "language": "en-GB", "objects": ["dog"]},
        {"image": "a.png", "caption": "Ein Hund.", "language": "de", "objects": None},
        {"image": "a.png", "caption": "A black dog.", "language": "en", "objects": ["dog", "black"]},
    )
    english, german = file_captions(path)
    assert (english.language, english.captions) == ("en", ["A dog.", "A black dog."])
    assert english.objects == [["dog"], ["dog", "black"]] and german.objects == [[]]
    assert english.images == [tmp_path / "a.png"] * 2
    table = tmp_path / "captions.csv"
    table.write_text(
        'caption,lang,stand_in,critical_objects\nA dog on a mat.,en,A pet,"[""dog"", ""mat""]"\n'
    )
    (english,) = file_captions(table, stand_in=True)
    assert english.objects == [["dog", "mat"]] and english.image_ids == ["A pet"]
    table.write_text("caption,lang,stand_in,objects\nA dog.,en,A pet,dog\n")
    with pytest.raises(InputError, match=r"captions\.csv, line 2.*objects: 'dog': expected a list"):
        file_captions(table, stand_in=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caption": " "}, "caption: ' ' is not a caption"),
        ({"caption": 3}, "caption: 3 is not a caption"),
        ({"language": "xyzzy"}, "language: unknown language code 'xyzzy'"),
        ({"language": None}, "language: None is not a language code"),
        ({"stand_in": 7}, "stand_in: 7 is not a text"),
    ],
)
def test_bad_rows_are_named_by_line(tmp_path, change, message):
    row = {"caption": "A dog.", "language": "en", "stand_in": "A pet"}
    with pytest.raises(InputError, match=rf"line 2.*{message}"):
        file_captions(written(tmp_path, row, {**row, **change}), stand_in=True)


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"stand_in": "A pet"}, {"stand_in": True}, "has no column with languages"),
        ({"language": "en", "image": "gone.jpg"}, {}, r"line 1.*image: no such file: .*gone\.jpg"),
        (
            {"language": "en", "image": "gone.jpg"},
            {"partial": True},
            "for 1 of 1 caption the photo is missing",
        ),
        ({"language": "en", "image": "gone.jpg"}, {"stand_in": True}, "has no column 'stand_in'"),
        ({"language": "en", "stand_in": ""}, {"stand_in": True}, "no English caption"),
    ],
)
def test_columns_that_a_file_may_lack(tmp_path, row, options, message):
    with pytest.raises(CapscoreError, match=message):
        file_captions(written(tmp_path, {"caption": "A dog.", **row}), **options)
