"""Texts out of sources: small sources of each kind, made here, with invented texts."""

import gzip
import json
from dataclasses import replace

import pytest

from capscore.errors import CapscoreError
from weights.making import package_texts
from weights.making.package_texts import LANGUAGES, TEXTS, source_texts
from weights.making.sources import SOURCES, listed_digest

PAIRS = """{"yjcaptions_id": "31-7-8", "sentence1": "犬", "sentence2": "白 犬"}
{"yjcaptions_id": "31_45-7-9", "sentence1": "犬", "sentence2": "皿"}
"""
STS = """genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2
main-captions\tMSRvid\t2012test\t1\t5.0\t개 "달린\t개
main-captions\timages\t2014\t7\t1.2\t사진의 개\t사진의 닭
"""
COCO = """{
"images": [{"id": "0", "file_name": "COCO_599.jpg"}],
"annotations": [
{"image_id": 0, "id": "6548", "caption": "kedi."},
{"image_id": "7", "id": "6549", "caption": "of a photo without a name"}]}"""


def put(folder, source, files):
    """The source's files in a folder of sources, and the source that pins them."""
    files = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    for path, content in files.items():
        target = folder / source.to / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return replace(source, files=len(files), sha256=listed_digest(files))


# (source, path, content) → texts by id; the second photo of a pair in JSTS is named behind the first
CAPTIONS = [
    ("coco-cn-extension", "data/coco-cn_ext.icap2020.txt", "a.jpg#0\t鸡\n", {"a.jpg#0": "鸡"}),
    ("dutch-descriptions", "Data/Dutch/Val/val.1", "Kip.\n", {"validation-0-1": "Kip."}),
    ("dutch-descriptions", "Data/Dutch/Val/val.0", "\nHond.\n", {"validation-1-0": "Hond."}),
    ("jsts", "datasets/jsts-v1.3/train-v1.3.json", PAIRS, {"31-7": "犬", "31-8": "白 犬", "45-9": "皿"}),
    ("korsts", "KorSTS/sts-dev.tsv", STS, {"MSRvid-2012test-1-1": '개 "달린', "MSRvid-2012test-1-2": "개"}),
    ("arabic-flickr8k", "data/Flickr8k_text/Flickr8k.arabic.full.txt", "1#0\tكلب\nno\n", {"1#0": "كلب"}),
    ("flickr8k-cn", "data/flickr8kzhc.caption.txt", "1.jpg#zhc#0 只 鸡\nno\n", {"1.jpg#zhc#0": "只 鸡"}),
    ("framed-multi30k", "data/flickr30k/captions.txt.gz", "1.jpg#1\tUma.\n", {"1.jpg#1": "Uma."}),
    ("turkish-coco", "MSCOCO/val/val_baseline_1.json", COCO, {"COCO_599.jpg#6548": "kedi."}),
    ("mscoco-it", "mscoco-it/captions_ita_testset_validated.json.gz", COCO, {"COCO_599.jpg#6548": "kedi."}),
    ("flickr8k-cn-test", "data/flickr8kzhmtest.captions.txt", "1.jpg#0 鸡\n", {"1.jpg#0": "鸡"}),
]


@pytest.mark.parametrize(("name", "path", "content", "expected"), CAPTIONS)
def test_captions_in_one_language(tmp_path, name, path, content, expected):
    source = SOURCES[name]
    file = gzip.compress(content.encode()) if path.endswith(".gz") else content.encode()
    assert source.named(path) == path
    rows = source_texts(put(tmp_path, source, {path: file}), tmp_path)
    found = {row["id"].removeprefix(f"{name}/"): (row["language"], row["text"]) for row in rows}
    assert found == {key: (*source.languages, text) for key, text in expected.items()}


def test_texts_are_cleaned_and_a_source_that_is_not_whole_is_named(tmp_path):
    files = {"Data/Dutch/Val/val.1": "Een bruine  kip.\n\n", "Data/Dutch/Val/val.0": "Een kip.\n"}
    source = put(tmp_path, SOURCES["dutch-descriptions"], files)
    assert [(row["id"], row["language"], row["text"]) for row in source_texts(source, tmp_path)] == [
        ("dutch-descriptions/validation-0-0", "nl", "Een kip."),
        ("dutch-descriptions/validation-0-1", "nl", "Een bruine kip."),
    ]
    (tmp_path / source.to / "Data/Dutch/Val/val.0").unlink()
    with pytest.raises(CapscoreError, match=r"1 file in .*dutch-descriptions, expected 2"):
        list(source_texts(source, tmp_path))


def test_sentences_of_other_languages_are_left_out(tmp_path):
    stem = "datasets/helsinki_nlp/tatoeba/testsets/eng-zho/tatoeba-test-v2021-08-07"
    lines = {
        "eng": "A hen.\nA goat.\n",
        "zho": "一只母鸡。\n一隻羊仔。\n",
        "zho.labels": "cmn_Hans\nyue_Hant\n",
    }
    files = {f"{stem}.{name}": text for name, text in lines.items()}
    source = put(tmp_path, SOURCES["tatoeba"], files)
    found = {(row["language"], row["text"]): row["id"] for row in source_texts(source, tmp_path)}
    assert set(found) == {("en", "A hen."), ("zh", "一只母鸡。"), ("en", "A goat.")}
    # printf 'en\tA hen.' | sha1sum
    assert found["en", "A hen."] == "tatoeba/f66c0d6c1971b627" != found["zh", "一只母鸡。"]


def test_the_command_writes_a_file_per_language_with_each_text_once(tmp_path, monkeypatch, capsys):
    files, said = {}, {"en": {"🐔": "a  hen", "🐐": "cafe\u0301"}, "es": {"🐔": " una\u202fgallina "}}
    for language, names in said.items():
        table = {sign: {"tts": [name]} for sign, name in names.items()}
        content = json.dumps({"annotations": {"annotations": table}})
        files[f"package/annotations/{language}/annotations.json"] = content
    emoji = put(tmp_path, replace(SOURCES["cldr-annotations"], languages=("en", "es")), files)
    read = {"en": [], "es": [("1", "en", "a hen"), ("2", "es", "pollo")]}
    monkeypatch.setitem(package_texts.READERS, "listed", lambda path, *_: read[path.split("/")[2]])
    monkeypatch.setattr(package_texts, "TEXTS", (emoji, replace(emoji, name="derived", form="listed")))
    package_texts.main(["--out", str(tmp_path / "out"), "--sources", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "es: 2 (cldr-annotations 1, derived 1)" in printed and "en: 2 (cldr-annotations 2)" in printed
    written = {path.stem: path.read_text("utf-8").splitlines() for path in (tmp_path / "out").iterdir()}
    assert written.keys() == {*LANGUAGES}
    rows = [json.loads(line) for language in ("en", "es") for line in written[language]]
    assert [(row["id"], row["text"]) for row in rows] == [
        ("cldr-annotations/1f414", "a hen"),
        ("cldr-annotations/1f410", "caf\u00e9"),
        ("cldr-annotations/1f414", "una gallina"),
        ("derived/2", "pollo"),
    ]
    # what is for measuring alone is not among the sources
    assert not any(source.name.endswith("-test") for source in TEXTS)
