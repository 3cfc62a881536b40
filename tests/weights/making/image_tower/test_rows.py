"""Training rows out of small official files: what belongs to which, what is left out."""

import pytest

from capscore.errors import InputError
from tools.tiny.official import write_jsonl
from tools.tiny.sources_of_weights import SAYS, text_row, write_data, write_photos, write_texts
from weights.making.held_out import HeldOut, held_out_photos, photo_files
from weights.making.image_tower.rows import read_captions, training_rows

pytestmark = pytest.mark.usefixtures("prepared_here")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    return write_data(folder / "data"), write_photos(folder / "photos"), write_texts(folder / "texts")


@pytest.fixture(scope="module")
def rows(folders):
    data, photos, texts = folders
    captions, files = read_captions(data, texts), photo_files(photos)
    held = held_out_photos(data, [*files, *(name for _, name, *_ in captions)])
    return training_rows(captions, photos, files, held)


def test_a_photo_has_its_captions_of_all_sources(rows, folders):
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
    assert (str(alone.photo), " ".join(sorted(alone.captions))) == ("Flickr 720", "de es ja ru tr zh")
    assert alone.file is None and len(alone.captions["ja"]) == 5
    # a photo is read from the first folder that has it
    assert found["COCO 99"].name == "coco128/train2017/000000000099.jpg"
    assert found["COCO 99"].file == folders[1] / found["COCO 99"].name and found["COCO 99"].file.is_file()
    assert len(photo_files(folders[1])) == 6 + 7


def test_held_out_photos_are_left_out_of_every_source_and_counted(rows):
    captions = [text for row in (*rows.photos, *rows.texts) for own in row.captions.values() for text in own]
    assert rows.counts.total() == len(captions)
    assert rows.counts["flickr8k"] == 4 and rows.counts["jsts"] == 2
    assert rows.left_out == {
        "flickr8k": 8,  # 444, 701, 702 and 704, two captions each
        "multi30k": 12,  # 333, 444 and 888 in four languages
        "xflickrco": 22,  # 666 and 703 in six files, 666 five times in two more
        **dict.fromkeys(("flickr8k-cn", "arabic-flickr8k", "jsts", "coco-cn-extension"), 1),
    }


def test_one_photo_needs_a_caption(folders):
    alone = ("flickr8k", "5_a.jpg", "en", "A dog.")
    with pytest.raises(InputError, match="no caption is of an available photo"):
        training_rows([alone], folders[1], photo_files(folders[1]), HeldOut({}))


def test_texts_that_lack_a_source_are_an_error(folders, tmp_path):
    write_texts(tmp_path)
    write_jsonl(tmp_path / "zh.jsonl", [text_row("tatoeba", "a", "zh", "一只狗。")])
    with pytest.raises(InputError, match="has no caption of coco-cn-extension, flickr8k-cn"):
        read_captions(folders[0], tmp_path)
