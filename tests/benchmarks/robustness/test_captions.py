"""Benchmarks and files → captions with their photos."""

import pytest

from capscore.benchmarks.reading import Configuration
from capscore.benchmarks.robustness import CaptionSet, benchmark_captions, file_captions
from capscore.errors import CapscoreError, InputError
from capscore.options import RowOptions
from tools.tiny.command import write_jsonl

from ...datasets_scripts.conftest import official, write_photos
from ...photos import encode, noise


def test_a_benchmark_with_its_photos(tmp_path):
    official("xflickrco").write(tmp_path)
    write_photos("xflickrco", tmp_path)
    where = Configuration("xflickrco", "de", tmp_path)
    (german,) = benchmark_captions(where)
    assert (german.language, german.captions) == ("de", ["Ein Hund läuft.", "Zwei Kinder."])
    assert german.image_ids == ["111.jpg", "COCO_val2014_000000000034.jpg"]
    assert [path.rpartition("/")[2] for path in german.images] == german.image_ids
    assert german.objects is None and list(german.files) == ["test.jsonl"]
    (tmp_path / "flickr30k-images" / "111.jpg").unlink()
    with pytest.raises(CapscoreError, match=r"xflickrco \(de\): for 1 of 2 captions the photo is missing"):
        benchmark_captions(where)
    (german,) = benchmark_captions(where, partial=True)
    assert german.captions == ["Zwei Kinder."]
    assert "1 of 2 captions; for the others the photo is missing" in german.notes


def test_only_captions_that_are_known_to_be_true_are_taken(tmp_path):
    official("m_finecap3k").write(tmp_path)
    write_photos("m_finecap3k", tmp_path)
    (french,) = benchmark_captions(Configuration("m_finecap3k", "fr", tmp_path))
    assert french.captions == ["Une femme en manteau rouge attend."]  # twice in the file, of one photo
    assert french.objects == [["femme", "manteau rouge"]]
    official("flickr8k_human").write(tmp_path)
    write_photos("flickr8k_human", tmp_path)
    (rated,) = benchmark_captions(Configuration("flickr8k_human", "expert", tmp_path))
    pairs = list(zip(rated.image_ids, rated.captions, strict=True))
    assert len(pairs) == len(set(pairs)) > 0
    official("valse").write(tmp_path)
    with pytest.raises(CapscoreError, match="valse has no captions that are known to be true"):
        benchmark_captions(Configuration("valse", "existence", tmp_path))


def test_a_draw_is_the_same_in_all_languages():
    def captions(code, n):
        texts, photos = [f"{code} {number}" for number in range(n)], [str(number // 2) for number in range(n)]
        return CaptionSet("toy", "", "", code, texts, photos, photos)

    whole = captions("en", 40)
    english, german = (part.sample(10, 3) for part in (whole, captions("de", 39)))
    assert len(english) == 10 and english.notes[-1] == "10 of 40 captions, drawn with seed 3"
    numbers = [{int(text.split()[1]) for text in part.captions} for part in (english, german)]
    assert len(numbers[0] & numbers[1]) >= 9
    assert whole.sample(40, 0) is whole and whole.sample(10, 4).captions != english.captions


def test_a_file_has_a_set_per_language(tmp_path):
    (tmp_path / "a.png").write_bytes(encode(noise()))
    captions = [("A dog.", "en-GB", ["dog"]), ("Ein Hund.", "de", None)]
    captions.append(("A black dog.", "en", ["dog", "black"]))
    names = "caption", "language", "objects"
    rows = [{"image": "a.png", **dict(zip(names, cells, strict=True))} for cells in captions]
    english, german = file_captions(write_jsonl(tmp_path / "captions.jsonl", rows))
    assert (english.language, english.captions) == ("en", ["A dog.", "A black dog."])
    assert english.objects == [["dog"], ["dog", "black"]] and german.objects == [[]]
    assert english.images == [tmp_path / "a.png"] * 2
    table = tmp_path / "captions.csv"
    table.write_text('image,caption,critical_objects\na.png,A dog on a mat.,"[""dog"", ""mat""]"\n')
    (english,) = file_captions(table, RowOptions(language="en"))
    assert english.objects == [["dog", "mat"]] and english.image_ids == ["a.png"]
    table.write_text("image,caption,lang,objects\na.png,A dog.,en,dog\n")
    with pytest.raises(InputError, match=r"captions\.csv, line 2.*objects: 'dog': expected a list"):
        file_captions(table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caption": " "}, "caption: ' ' is not a caption"),
        ({"language": "xyzzy"}, "language: unknown language code 'xyzzy'"),
        ({"language": None}, "language: None is not a language code"),
        ({"image": "gone.jpg"}, r"image: no such file: .*gone\.jpg"),
    ],
)
def test_bad_rows_are_named_by_line(tmp_path, change, message):
    (tmp_path / "a.png").write_bytes(encode(noise()))
    row = {"caption": "A dog.", "language": "en", "image": "a.png"}
    with pytest.raises(InputError, match=rf"line 2.*{message}"):
        file_captions(write_jsonl(tmp_path / "rows.jsonl", [row, {**row, **change}]))


def test_columns_and_photos_that_a_file_may_lack(tmp_path):
    path = write_jsonl(tmp_path / "rows.jsonl", [{"caption": "A dog.", "image": "gone.jpg"}])
    with pytest.raises(CapscoreError, match="has no column with languages"):
        file_captions(path)
    with pytest.raises(CapscoreError, match="for 1 of 1 caption the photo is missing"):
        file_captions(path, RowOptions(language="en"), partial=True)
