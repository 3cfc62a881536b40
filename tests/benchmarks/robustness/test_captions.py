"""Benchmarks and files → captions with their photos, or texts that stand for them."""

from __future__ import annotations

import json

import pytest

from capscore.benchmarks.robustness import benchmark_captions, file_captions
from capscore.errors import CapscoreError, InputError

from ...datasets_scripts.conftest import official, write_photos
from ...photos import encode, noise

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


@pytest.fixture
def flickrco(tmp_path):
    official("xflickrco").write(tmp_path)
    return tmp_path


def written(folder, rows, name="captions.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_benchmark_with_its_photos(flickrco):
    write_photos("xflickrco", flickrco)
    (one,) = benchmark_captions("xflickrco", "de", data_dir=flickrco)
    assert (one.language, one.captions) == ("de", ["Ein Hund läuft.", "Zwei Kinder."])
    assert one.image_ids == ["111.jpg", "COCO_val2014_000000000034.jpg"]
    assert [path.rpartition("/")[2] for path in one.images] == one.image_ids
    assert one.stand_ins is None and one.objects is None
    assert list(one.files) == ["test.jsonl"]


def test_missing_photos_are_an_error_or_left_out(flickrco):
    write_photos("xflickrco", flickrco)
    (flickrco / "flickr30k-images" / "111.jpg").unlink()
    with pytest.raises(
        CapscoreError, match=r"xflickrco \(de\): for 1 of 2 captions the photo is missing, such"
    ):
        benchmark_captions("xflickrco", "de", data_dir=flickrco)
    (one,) = benchmark_captions("xflickrco", "de", data_dir=flickrco, partial=True)
    assert one.captions == ["Zwei Kinder."]
    assert "1 of 2 captions; for the others the photo is missing" in one.notes


def test_an_english_caption_stands_for_the_photo(flickrco):
    (one,) = benchmark_captions("xflickrco", "de", data_dir=flickrco, stand_in=True)
    assert one.stand_ins == ["A dog runs.", "Two children."]
    (english,) = benchmark_captions("xflickrco", "en", data_dir=flickrco, stand_in=True)
    assert english.stand_ins == english.captions == ["A dog runs.", "Two children."]
    assert any(
        note.startswith("2 captions are the texts that stand for their photos") for note in english.notes
    )


def test_of_several_english_captions_the_first_stands_and_is_not_scored(tmp_path):
    official("coco_captions").write(tmp_path)
    config = next(iter(official("coco_captions").ROWS))
    sets = benchmark_captions("coco_captions", config[0], split=config[1], data_dir=tmp_path, stand_in=True)
    for one in sets:
        several = {name for name in one.image_ids if one.image_ids.count(name) > 1}
        for caption, text, name in zip(one.captions, one.stand_ins, one.image_ids, strict=True):
            assert caption != text or name not in several
    assert any("not scored: they stand for their photos" in note for one in sets for note in one.notes)


def test_critical_objects_come_along(tmp_path):
    official("m_finecap3k").write(tmp_path)
    write_photos("m_finecap3k", tmp_path)
    (one,) = benchmark_captions("m_finecap3k", "fr", data_dir=tmp_path)
    assert one.captions == ["Une femme en manteau rouge attend."]  # twice in the file, of one photo
    assert one.objects == [["femme", "manteau rouge"]]


def test_ratings_are_no_true_captions_but_references_are(tmp_path):
    official("flickr8k_human").write(tmp_path)
    (one,) = benchmark_captions("flickr8k_human", "expert", data_dir=tmp_path, stand_in=True)
    pairs = list(zip(one.image_ids, one.captions, strict=True))
    assert len(pairs) == len(set(pairs))
    official("valse").write(tmp_path)
    with pytest.raises(CapscoreError, match="valse has no captions that are known to be true"):
        benchmark_captions("valse", "existence", data_dir=tmp_path, stand_in=True)


def test_a_draw_is_the_same_in_all_languages(tmp_path):
    rows = [
        {
            "caption": f"{language} {n}",
            "language": language,
            "image_id": str(n // 2),
            "stand_in": f"photo {n // 2}",
        }
        for language in ("en", "de")
        for n in range(40)
        if (language, n) != ("de", 39)
    ]
    sets = file_captions(written(tmp_path, rows), stand_in=True)
    english, german = (one.sample(10, 3) for one in sets)
    assert len(english) == 10 and english.notes[-1] == "10 of 40 captions, drawn with seed 3"
    numbers = [{int(text.split()[1]) for text in one.captions} for one in (english, german)]
    assert len(numbers[0] & numbers[1]) >= 9
    assert sets[0].sample(40, 0) is sets[0]
    assert sets[0].sample(10, 4).captions != english.captions


def test_a_file_by_language(tmp_path):
    (tmp_path / "a.png").write_bytes(encode(noise()))
    rows = [
        {"image": "a.png", "caption": "A dog.", "language": "en-GB", "objects": ["dog"]},
        {"image": "a.png", "caption": "Ein Hund.", "language": "de", "objects": None},
        {"image": "a.png", "caption": "A black dog.", "language": "en", "objects": ["dog", "black"]},
    ]
    path = written(tmp_path, rows)
    english, german = file_captions(path)
    assert (english.language, english.captions) == ("en", ["A dog.", "A black dog."])
    assert english.objects == [["dog"], ["dog", "black"]] and german.objects == [[]]
    assert english.images == [tmp_path / "a.png"] * 2


def test_csv_cells_hold_lists(tmp_path):
    path = tmp_path / "captions.csv"
    path.write_text('caption,lang,stand_in,critical_objects\nA dog on a mat.,en,A pet,"[""dog"", ""mat""]"\n')
    (one,) = file_captions(path, stand_in=True)
    assert one.objects == [["dog", "mat"]] and one.image_ids == ["A pet"]
    path.write_text("caption,lang,stand_in,objects\nA dog.,en,A pet,dog\n")
    with pytest.raises(InputError, match=r"captions\.csv, line 2 .*objects: 'dog': expected a list"):
        file_captions(path, stand_in=True)


def test_a_file_needs_a_column_of_languages(tmp_path):
    path = written(tmp_path, [{"caption": "A dog.", "stand_in": "A pet"}])
    with pytest.raises(InputError, match="has no column with languages"):
        file_captions(path, stand_in=True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"caption": " ", "language": "en", "stand_in": "x"}, r"line 2 .*caption: ' ' is not a caption"),
        ({"caption": 3, "language": "en", "stand_in": "x"}, r"line 2 .*caption: 3 is not a caption"),
        (
            {"caption": "A", "language": "xyzzy", "stand_in": "x"},
            r"line 2 .*language: unknown language code 'xyzzy'",
        ),
        ({"caption": "A", "stand_in": "x"}, r"line 2 .*language: None is not a language code"),
        ({"caption": "A", "language": "en", "stand_in": 7}, r"line 2 .*stand_in: 7 is not a text"),
    ],
)
def test_bad_rows_are_told_by_line(tmp_path, row, message):
    path = written(tmp_path, [{"caption": "A dog.", "language": "en", "stand_in": "A pet"}, row])
    with pytest.raises(InputError, match=message):
        file_captions(path, stand_in=True)


def test_what_else_a_file_may_lack(tmp_path):
    path = written(tmp_path, [{"caption": "A dog.", "language": "en", "image": "gone.jpg"}])
    with pytest.raises(InputError, match=r"line 1 .*image: no such file: .*gone\.jpg"):
        file_captions(path)
    with pytest.raises(CapscoreError, match=r"for 1 of 1 caption the photo is missing"):
        file_captions(path, partial=True)
    with pytest.raises(InputError, match="has no column 'stand_in'"):
        file_captions(path, stand_in=True)
    path = written(tmp_path, [{"caption": "A", "language": "en", "stand_in": ""}] * 2)
    with pytest.raises(CapscoreError, match="no English caption"):
        file_captions(path, stand_in=True)
