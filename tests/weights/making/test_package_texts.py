"""Texts out of packages: small packages of each kind, made here, with invented texts."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
from dataclasses import replace

import pytest

from capscore.errors import CapscoreError, InputError
from weights.making import package_texts
from weights.making.package_texts import LANGUAGES, SOURCES, source_named, source_texts, write_texts

PAIRS = """{"yjcaptions_id": "31-7-8", "sentence1": "犬", "sentence2": "白 犬"}
{"yjcaptions_id": "31_45-7-9", "sentence1": "犬", "sentence2": "皿"}
"""
COCO = """{
"images": [{"id": "0", "file_name": "COCO_599.jpg"}],
"annotations": [
{"image_id": 0, "id": "6548", "caption": "kedi."},
{"image_id": "7", "id": "6549", "caption": "of a photo without a name"}]}"""


def tar(files, compression):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def put(folder, source, content):
    """The package's file with this content, and the source that pins it."""
    folder.mkdir(exist_ok=True)
    (folder / source.file_name).write_bytes(content)
    return replace(source, sha256=hashlib.sha256(content).hexdigest())


def emoji(folder, names):
    """A package of emoji names: language → characters → name."""
    files = {
        f"package/annotations/{language}/annotations.json": json.dumps(
            {"annotations": {"annotations": {key: {"tts": [name]} for key, name in table.items()}}}
        )
        for language, table in names.items()
    }
    source = replace(source_named("cldr-annotations"), languages=tuple(names))
    return put(folder, source, tar(files, "gz"))


def repository(folder, name, files):
    """A repository with a source's files, and the source that pins its commit."""
    source = source_named(name)
    root = folder / source.file_name
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init"], ["add", "--all"], ["commit", "--quiet", "--message", "texts"]):
        subprocess.run([*git, *command], cwd=root, check=True, capture_output=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    )
    return replace(source, package=f"file://{root}@{commit.stdout.strip()}")


def tatoeba_files(pairs):
    """ "eng-spa" → lines (English, Spanish), or (…, …, label of the second)."""
    files = {}
    for pair, lines in pairs.items():
        stem = f"datasets/helsinki_nlp/tatoeba/testsets/{pair}/tatoeba-test-v2021-08-07"
        names = [*pair.split("-"), f"{pair.split('-')[1]}.labels"]
        for column, name in enumerate(names[: len(lines[0])]):
            files[f"{stem}.{name}"] = "".join(f"{line[column]}\n" for line in lines).encode()
    return dict(sorted(files.items()))


def tatoeba_ids(pairs, languages=LANGUAGES):
    """(language, text) → id"""
    rows = source_named("tatoeba").read(tatoeba_files(pairs), languages)
    return {(language, text): key for key, language, text in rows}


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb")
def test_stamps_of_a_debian_package(tmp_path):
    text = (
        "A hen.\nes.utf8=Una gallina.\npt.utf8=Uma galinha velha.\npt_BR.utf8=Uma galinha.\nit.utf8=A hen.\n"
        "sr@latin.utf8=Kokoška.\nnl.utf8=\n"
    )
    stamps = "./usr/share/tuxpaint/stamps/animals/hen"
    members = {f"{stamps}.txt": text, f"{stamps}.png": "no text"}
    content = b"!<arch>\n"
    for name, part in (
        ("debian-binary", b"2.0\n"),
        ("control.tar.xz", tar({}, "xz")),
        ("data.tar.xz", tar(members, "xz")),
    ):
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(part):<10}`\n"
        content += header.encode() + part + b"\n" * (len(part) % 2)
    source = put(tmp_path, source_named("tuxpaint-stamps"), content)
    rows = list(source_texts(source, tmp_path, ["en", "es", "pt", "it", "nl"]))
    expected = [("en", "A hen."), ("es", "Una gallina."), ("pt", "Uma galinha.")]
    assert [(row["language"], row["text"]) for row in rows] == expected
    assert {row["id"] for row in rows} == {"tuxpaint-stamps/animals/hen"}
    assert [row["text"] for row in source_texts(source, tmp_path, ["es"])] == ["Una gallina."]


@pytest.mark.parametrize(
    ("name", "path", "content", "expected"),
    [
        ("coco-cn-extension", "data/coco-cn_ext.icap2020.txt", "a.jpg#0\t鸡\n", {"a.jpg#0": "鸡"}),
        (
            "dutch-descriptions",
            "Data/Dutch/Val/val.1",
            "Een kip.\nEen hond.\n",
            {"validation-0-1": "Een kip.", "validation-1-1": "Een hond."},
        ),
        # the second photo of a pair is named behind the first
        ("jsts", "datasets/jsts-v1.3/train-v1.3.json", PAIRS, {"31-7": "犬", "31-8": "白 犬", "45-9": "皿"}),
        ("arabic-flickr8k", "data/Flickr8k_text/Flickr8k.arabic.full.txt", "1#0\tكلب\nno\n", {"1#0": "كلب"}),
        ("flickr8k-cn", "data/flickr8kzhc.caption.txt", "1.jpg#zhc#0 只 鸡\nno\n", {"1.jpg#zhc#0": "只 鸡"}),
        ("framed-multi30k", "data/flickr30k/captions.txt.gz", "1.jpg#1\tUma.\n", {"1.jpg#1": "Uma."}),
        ("turkish-coco", "MSCOCO/val/val_baseline_1.json", COCO, {"COCO_599.jpg#6548": "kedi."}),
        (
            "mscoco-it",
            "mscoco-it/captions_ita_testset_validated.json.gz",
            COCO,
            {"COCO_599.jpg#6548": "kedi."},
        ),
        ("flickr8k-cn-test", "data/flickr8kzhmtest.captions.txt", "1.jpg#0 鸡\n", {"1.jpg#0": "鸡"}),
    ],
)
def test_captions_in_one_language(name, path, content, expected):
    source = source_named(name)
    file = gzip.compress(content.encode()) if path.endswith(".gz") else content.encode()
    assert re.fullmatch(source.files, path)
    found = {key: (language, text) for key, language, text in source.read({path: file}, source.languages)}
    assert found == {key: (*source.languages, text) for key, text in expected.items()}


def test_a_repository_is_fetched_once_and_only_for_its_languages(tmp_path):
    files = {
        "Data/Dutch/Val/val.1": "Een bruine  kip.\n\n",
        "Data/Dutch/Val/val.0": "Een kip.\n",
        "Data/Dutch/Test/test.0": "Een geit.\n",
    }
    source = repository(tmp_path / "origin", "dutch-descriptions", files)
    out = tmp_path / "out"
    (out / "packages").mkdir(parents=True)
    names = emoji(out / "packages", {"es": {"🐔": "gallina"}})
    assert write_texts(out, languages=["es"], sources=[names, source])["es"] == {"cldr-annotations": 1}
    assert not (out / "packages" / source.file_name).exists()
    for _ in range(2):
        assert write_texts(out, languages=["nl"], sources=[source])["nl"] == {"dutch-descriptions": 2}
        if (tmp_path / "origin").exists():
            (tmp_path / "origin").rename(tmp_path / "gone")
    rows = [json.loads(line) for line in (out / "nl.jsonl").read_text("utf-8").splitlines()]
    assert [(row["id"], row["text"]) for row in rows] == [
        ("dutch-descriptions/validation-0-0", "Een kip."),
        ("dutch-descriptions/validation-0-1", "Een bruine kip."),
    ]
    assert sorted(path.name for path in out.iterdir()) == ["es.jsonl", "nl.jsonl", "packages"]
    assert [path.name for path in (out / "packages").glob(".*")] == []
    with pytest.raises(CapscoreError, match=r"dutch-descriptions: `git ls-tree .*` failed"):
        list(
            source_texts(
                replace(source, package=f"{source.package[:-40]}{'0' * 40}"), out / "packages", ["nl"]
            )
        )


def test_sentences_have_labels_and_the_id_of_their_english_sentence():
    ids = tatoeba_ids(
        {"eng-zho": [("A hen.", "一只母鸡。", "cmn_Hans"), ("A goat.", "一隻羊仔。", "yue_Hant")]}
    )
    assert set(ids) == {("en", "A hen."), ("zh", "一只母鸡。"), ("en", "A goat.")}
    # printf 'en\tA hen.' | sha1sum
    assert ids["en", "A hen."] == ids["zh", "一只母鸡。"] == "f66c0d6c1971b627"


def test_an_id_is_the_english_sentences_also_through_a_third_language():
    pairs = {
        "ara-deu": [("دجاجة", "Huhn drei"), ("ماعز", "Ziege")],
        "deu-fra": [("Ein Huhn.", "Une poule.")],
        "eng-deu": [("A hen.", "Ein Huhn."), ("One hen.", "Ein Huhn.")],
        "fra-ita": [("Une poule.", "Una gallina.")],
        "epo-ita": [("Kapro.", "Una capra.")],
    }
    ids = tatoeba_ids(pairs)
    hen = ids["en", "A hen."]
    assert ids["de", "Ein Huhn."] == ids["fr", "Une poule."] == hen
    # three translations away: no longer the same; a second English sentence keeps an id of its own
    assert ids["it", "Una gallina."] != hen != ids["en", "One hen."]
    # without English the translations share one all the same
    assert ids["ar", "ماعز"] == ids["de", "Ziege"] != ids["it", "Una capra."]
    assert len(set(ids.values())) == 6
    # an id does not depend on the languages that are wanted
    assert tatoeba_ids(pairs, ["it"]) == {side: key for side, key in ids.items() if side[0] == "it"}


def test_sides_of_different_length_are_an_error():
    files = tatoeba_files({"eng-spa": [("A hen.", "Una gallina.")]})
    files = {path: content * (1 + path.endswith(".spa")) for path, content in files.items()}
    with pytest.raises(CapscoreError, match=r"spa is not line-aligned"):
        list(source_named("tatoeba").read(files, ["es"]))


def test_the_command_writes_a_file_per_language_with_each_text_once(tmp_path, monkeypatch, capsys):
    packages, out = tmp_path / "packages", tmp_path / "out"
    names = emoji(
        packages, {"en": {"🐔": "a  hen", "🐐": "caf\u0065\u0301"}, "es": {"🐔": " una\u202fgallina "}}
    )
    derived = replace(names, name="derived-test", form="listed")
    listed = [("1", "en", "a hen"), ("2", "es", "pollo")]
    monkeypatch.setitem(package_texts.READERS, "listed", lambda files, own: listed)
    monkeypatch.setattr(package_texts, "SOURCES", (names, derived))
    arguments = ["--out", str(out), "--from", str(packages), "--languages", "es,en"]
    package_texts.main([*arguments, "--sources", "derived-test,cldr-annotations"])
    printed = "es: 2 texts (cldr-annotations 1, derived-test 1)\nen: 2 texts (cldr-annotations 2)\n"
    assert capsys.readouterr().out == printed
    assert sorted(path.name for path in out.iterdir()) == ["en.jsonl", "es.jsonl"]
    rows = [
        json.loads(line) for path in sorted(out.iterdir()) for line in path.read_text("utf-8").splitlines()
    ]
    assert [(row["id"], row["text"]) for row in rows] == [
        ("cldr-annotations/1f414", "a hen"),
        ("cldr-annotations/1f410", "caf\u00e9"),
        ("cldr-annotations/1f414", "una gallina"),
        ("derived-test/2", "pollo"),
    ]
    # what is for measuring is read only where it is named
    package_texts.main(arguments)
    assert "derived" not in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        package_texts.main([*arguments, "--sources", "flickr8k"])
    assert "no flickr8k; there are cldr-annotations, derived-test" in capsys.readouterr().err


def test_packages_that_are_missing_or_other_than_the_pinned_ones(tmp_path, monkeypatch):
    out, names = tmp_path / "out", emoji(tmp_path, {"en": {"🐔": "hen"}})
    empty = put(tmp_path / "empty", names, tar({"package/package.json": "{}"}, "gz"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for source, packages, message in (
        (replace(names, sha256="0" * 64), tmp_path, rf"SHA-256 [0-9a-f]{{64}}, expected {'0' * 64}"),
        (empty, tmp_path / "empty", "has no file like package/annotations"),
        (names, tmp_path / "nowhere", r"no cldr-annotations-full-48\.2\.0\.tgz in .*expected"),
        # without packages they are fetched, here without the programs
        (names, None, r"`npm pack --silent cldr-annotations-full@48\.2\.0` failed \(.*for --from"),
        (source_named("tuxpaint-stamps"), None, "`apt-get download tuxpaint-stamps-default=2022.*` fai"),
    ):
        with pytest.raises(CapscoreError, match=message):
            write_texts(out, languages=["en"], sources=[source], packages=packages)
        assert not (out / "en.jsonl").exists()
    with pytest.raises(InputError, match=r"no texts in .*eo.*; there are ar, cs"):
        write_texts(out, languages=["en", "eo"], packages=tmp_path)


def test_every_source_is_pinned():
    assert len({source.name for source in SOURCES}) == 13
    for source in SOURCES:
        assert source.licence and set(source.languages) <= set(LANGUAGES)
        pinned = source.sha256 or source.package.rpartition("@")[2]
        assert re.fullmatch("[0-9a-f]{64}" if source.sha256 else "[0-9a-f]{40}", pinned)
        assert source.sha256 or source.package.startswith("https://")
    assert source_named("tuxpaint-stamps").file_name == "tuxpaint-stamps-default_2022.06.04-1_all.deb"
    assert source_named("jsts").file_name == "JGLUE"
