"""The captions of the weights that ship, out of tiny files in the sources' own formats."""

import json
import random
import re
from collections import Counter

import pytest

from capscore.errors import CapscoreError, InputError
from tools.tiny.official import write_jsonl
from tools.tiny.sources_of_weights import HELD, SAYS, text_row
from tools.tiny.sources_of_weights import write_captions as write_official
from weights.making import captions as module
from weights.making.captions import HELD_OUT, package_captions
from weights.making.held_out import Photo
from weights.making.settings import named_numbers

COCO = (("train", "56"), ("val", "77"), ("train", "99"))
TEXTS = {
    "en": [
        ("cldr-annotations", "1f415", "a brown guide dog"),
        ("tatoeba", "aa", SAYS["en"].format("9001")),
        ("tatoeba", "aa", "There is a dog near sign 9001."),
        ("tatoeba", "bb", "Stop!"),
    ],
    "zh": [
        *(("coco-cn-extension", f"COCO_{split}2014_{n:0>12}#0", SAYS["zh"].format(n)) for split, n in COCO),
        ("tatoeba", "aa", SAYS["zh"].format("9001")),
    ],
    "nl": [
        ("dutch-descriptions", "validation-0-1", SAYS["nl"].format(501)),
        ("dutch-descriptions", "validation-0-2", SAYS["nl"].format(501) + "!"),
        ("dutch-descriptions", "validation-1-1", SAYS["nl"].format(502)),
        ("tatoeba", "cc", SAYS["nl"].format("9002")),
    ],
}

pytestmark = pytest.mark.usefixtures("prepared_here")


def write_all(folder):
    write_official(folder / "data")
    for language, texts in TEXTS.items():
        rows = [text_row(source, key, language, text) for source, key, text in texts]
        write_jsonl(folder / "texts" / f"{language}.jsonl", rows)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("sources"))


def make(folder, out):
    paths = [f"--data={folder / 'data'}", f"--texts={folder / 'texts'}", f"--out={out}"]
    module.main([*paths, "--package_texts", "en:9", "zh:9", "nl:9"])


@pytest.fixture(scope="module")
def made(written, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "new" / "captions.jsonl"
    make(written, out)
    return out, [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def numbers(caption: str) -> set[str]:
    return set(re.findall(r"\d+", caption))


def package(folder, counts, held=()):
    photos = [Photo("flickr", 501), Photo("flickr", 502)]
    return list(package_captions(folder, counts, photos, held, random.Random(0)))


@pytest.mark.parametrize(
    ("source", "name", "language", "collection"),
    [
        ("flickr8k-cn", "{}_ab.jpg#zhc#0", "zh", "flickr"),
        ("jsts", "{}-5", "ja", "coco"),
        ("turkish-coco", "COCO_val2014_{:0>12}.jpg#42", "tr", "coco"),
    ],
)
def test_texts_of_held_out_photos_are_left_out(tmp_path, source, name, language, collection):
    write_jsonl(tmp_path / "en.jsonl", [])
    rows = [text_row(source, name.format(n), language, SAYS[language].format(n)) for n in ("703", "700")]
    write_jsonl(tmp_path / f"{language}.jsonl", rows)
    assert len(package(tmp_path, {language: 9})) == 2
    (text,) = package(tmp_path, {language: 9}, held=[Photo(collection, 703)])
    assert numbers(text.caption) == {"700"}


def test_descriptions_come_before_sentences_and_emoji_are_a_tenth(tmp_path):
    rows = []
    for source, most in (("tatoeba", 30), ("framed-multi30k", 5), ("cldr-annotations", 30)):
        rows += [text_row(source, n, "en", f"The dog sleeps here {n}") for n in range(most)]
    write_jsonl(tmp_path / "en.jsonl", rows)
    found = package(tmp_path, {"en": 20})
    expected = ["cldr-annotations"] * 2 + ["framed-multi30k"] * 5 + ["tatoeba"] * 13
    assert [text.image.split("/")[0] for text in found] == expected
    # drawn, not the first ones
    assert [text.caption for text in found[7:]] != [f"The dog sleeps here {n}" for n in range(13)]


def test_the_file_has_the_requested_captions_and_no_held_out_ones(made):
    _, rows = made
    counts = Counter((row["language"], row["id"].split("/")[0]) for row in rows)
    assert counts == {
        # 111 and 222 in four languages
        **{(language, "multi30k"): 2 for language in ("en", "de", "fr", "cs")},
        # 111 and 720, of which two languages have five captions; the German one of 111 is Multi30k's too
        **{(language, "xflickrco"): 2 for language in ("es", "ru", "tr", "zh")},
        **{("de", "xflickrco"): 5, ("ja", "xflickrco"): 6, ("en", "flickr8k"): 3},
        # "Stop!" is too short
        **{("en", "tatoeba"): 2, ("zh", "tatoeba"): 1, ("nl", "tatoeba"): 1},
        # of three COCO photos two are in a test set
        **{("zh", "coco-cn-extension"): 1, ("nl", "dutch-descriptions"): 2},
    }
    for row in rows:
        assert not numbers(row["caption"]) & HELD, row
    assert len({(row["language"], row["caption"]) for row in rows}) == len(rows)
    nouns = {}
    for row in rows:
        found = tuple(row["caption"][start:end] for start, end in row["objects"])
        assert all(noun == noun.strip() != "" for noun in found)
        nouns.setdefault((row["language"], row["id"]), found)
    assert nouns["de", "multi30k/111"] == ("Hund", "Schild") and nouns["ja", "xflickrco/111"][0] == "犬"
    (german,) = (row for row in rows if (row["language"], row["id"]) == ("de", "multi30k/111"))
    words = [german["caption"][start:end] for start, end in german["words"]]
    assert words == german["caption"].split() and german["classes"] == "anvana"


def test_the_same_sources_are_the_same_file_to_the_byte(made, written, tmp_path):
    make(written, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == made[0].read_bytes()


def test_beside_the_file_stands_where_its_captions_come_from(made):
    content = json.loads(made[0].with_name("captions.jsonl.sources.json").read_text(encoding="utf-8"))
    assert content["held_out"] == HELD_OUT
    rows = {part["name"]: part["rows"] for part in content["sources"]}
    assert rows["Flickr8k, training split"] == 3 and sum(rows.values()) == len(made[1])


@pytest.mark.parametrize(
    ("path", "content", "named"),
    [
        ("data/flickr8k/Flickr8k.token.txt", b"111_aa.jpg#0\tA dog.\n\n111_aa.jpg\tA\n", "line 3"),
        ("data/xflickrco/ja/train_200x5.jsonl", None, ""),
        ("texts/nl.jsonl", b'{"id": "tatoeba/a", "text": "A dog."}\n', "line 1: expected a row"),
    ],
)
def test_a_source_that_is_missing_or_damaged_is_named_and_nothing_is_written(tmp_path, path, content, named):
    file = write_all(tmp_path) / path
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(CapscoreError, match=f"{file.stem}.*{named}"):
        make(tmp_path, tmp_path / "captions.jsonl")
    assert not (tmp_path / "captions.jsonl").exists()


@pytest.mark.parametrize("entry", ["ja", "ja:", ":5", "ja:1.5", "ja:-1", "zh:1"])
def test_numbers_of_languages_keep_their_order_and_are_whole(entry):
    assert [*named_numbers(["zh:2", "en:30000", "ar:0"], "most", int)] == ["zh", "en", "ar"]
    with pytest.raises(InputError, match=r"copies: .*(ja|:5|zh is named twice)"):
        named_numbers(["zh:2", entry], "copies", int)
