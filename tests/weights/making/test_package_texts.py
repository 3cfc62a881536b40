"""Texts out of packages: small packages of each kind, made here, with invented texts."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.errors import CapscoreError, InputError
from weights.making import package_texts
from weights.making.package_texts import LANGUAGES, MORE_SOURCES, SOURCES, source_texts, write_texts

BY_NAME = {source.name: source for source in (*SOURCES, *MORE_SOURCES)}


def tar(files, compression=""):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:
        for name, text in files.items():
            content = text.encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
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
            {
                "annotations": {
                    "annotations": {key: {"default": ["x"], "tts": [name]} for key, name in table.items()}
                }
            }
        )
        for language, table in names.items()
    }
    source = replace(BY_NAME["cldr-annotations"], languages=tuple(names))
    return put(folder, source, tar(files, "gz"))


def stamps(folder, files):
    members = {f"./usr/share/tuxpaint/stamps/{path}": text for path, text in files.items()}
    parts = (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", tar(members, "xz")))
    content = b"!<arch>\n"
    for name, part in parts:
        content += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(part):<10}`\n".encode()
            + part
            + b"\n" * (len(part) % 2)
        )
    return put(folder, BY_NAME["tuxpaint-stamps"], content)


def git(folder, *command):
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *command], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder, name, files):
    source = BY_NAME[name]
    place = folder / source.file_name
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    git(place, "init", "--quiet")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", "texts")
    return replace(source, version=git(place, "rev-parse", "HEAD"))


def tatoeba_files(pairs):
    """ "eng-spa" → lines (English, Spanish), or (…, …, label of the second)."""
    files = {}
    for pair, lines in pairs.items():
        stem = f"datasets/helsinki_nlp/tatoeba/testsets/{pair}/tatoeba-test-v2021-08-07"
        first, second = pair.split("-")
        files[f"{stem}.{first}"] = "".join(f"{line[0]}\n" for line in lines)
        files[f"{stem}.{second}"] = "".join(f"{line[1]}\n" for line in lines)
        if len(lines[0]) == 3:
            files[f"{stem}.{second}.labels"] = "".join(f"{line[2]}\n" for line in lines)
    return files


def tatoeba_rows(pairs, languages):
    contents = {path: text.encode() for path, text in sorted(tatoeba_files(pairs).items())}
    return list(package_texts._tatoeba(contents, languages))


def ids(rows):
    return {(language, text): key for key, language, text in rows}


def test_names_of_one_emoji_share_an_id(tmp_path):
    source = emoji(
        tmp_path, {"en": {"👨‍🌾": "farmer"}, "es": {"👨‍🌾": "un granjero"}, "ja": {"👨‍🌾": "農家"}}
    )
    assert list(source_texts(source, tmp_path, ["es", "ja"])) == [
        {
            "id": "cldr-annotations/1f468-200d-1f33e",
            "text": text,
            "language": language,
            "source": "cldr-annotations",
            "licence": "Unicode-3.0",
        }
        for language, text in (("es", "un granjero"), ("ja", "農家"))
    ]


def test_stamps_of_a_debian_package(tmp_path):
    source = stamps(
        tmp_path,
        {
            "animals/hen.txt": "A hen.\nes.utf8=Una gallina.\npt.utf8=Uma galinha velha.\n"
            "pt_BR.utf8=Uma galinha.\nit.utf8=A hen.\nsr@latin.utf8=Kokoška.\nnl.utf8=\n",
            "animals/hen.png": "no text",
        },
    )
    rows = list(source_texts(source, tmp_path, ["en", "es", "pt", "it", "nl"]))
    assert [(row["language"], row["text"]) for row in rows] == [
        ("en", "A hen."),
        ("es", "Una gallina."),
        ("pt", "Uma galinha."),
    ]
    assert {row["id"] for row in rows} == {"tuxpaint-stamps/animals/hen"}


def test_a_debian_package_without_content(tmp_path):
    source = put(tmp_path, BY_NAME["tuxpaint-stamps"], b"!<arch>\n")
    with pytest.raises(CapscoreError, match=r"no data\.tar"):
        list(source_texts(source, tmp_path, ["en"]))


def test_captions_of_repositories(tmp_path):
    chinese = repository(
        tmp_path,
        "coco-cn-extension",
        {"data/coco-cn_ext.icap2020.txt": "a.jpg#0\t一只母鸡\na.jpg#1\t两只 母鸡\n"},
    )
    assert [(row["id"], row["text"]) for row in source_texts(chinese, tmp_path, ["zh", "nl"])] == [
        ("coco-cn-extension/a.jpg#0", "一只母鸡"),
        ("coco-cn-extension/a.jpg#1", "两只 母鸡"),
    ]
    dutch = repository(
        tmp_path,
        "dutch-descriptions",
        {
            "Data/Dutch/Val/val.0": "Een kip.\nEen  hond.\n",
            "Data/Dutch/Val/val.1": "Een bruine kip.\n\n",
            "Data/Dutch/Test/test.0": "Een geit.\n",
        },
    )
    assert [(row["id"], row["text"]) for row in source_texts(dutch, tmp_path, ["nl"])] == [
        ("dutch-descriptions/validation-0-0", "Een kip."),
        ("dutch-descriptions/validation-1-0", "Een hond."),
        ("dutch-descriptions/validation-0-1", "Een bruine kip."),
    ]
    assert list(source_texts(dutch, tmp_path, ["zh"])) == []


def test_captions_of_sentence_pairs(tmp_path):
    pairs = [
        {"yjcaptions_id": "31-7-8", "sentence1": "犬がいる。", "sentence2": "白い 犬がいる。", "label": 3.0},
        {"yjcaptions_id": "31_45-7-9", "sentence1": "犬がいる。", "sentence2": "皿がある。", "label": 0.0},
    ]
    lines = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs)
    source = repository(
        tmp_path,
        "jsts",
        {
            "datasets/jsts-v1.3/train-v1.3.json": lines,
            "datasets/jsts-v1.3/valid-v1.3.json": lines.replace("犬", "猫"),
        },
    )
    rows = [(row["id"], row["text"]) for row in source_texts(source, tmp_path, ["ja", "ar"])]
    # the second photo of a pair is named behind the first
    assert rows == [
        ("jsts/31-7", "犬がいる。"),
        ("jsts/31-8", "白い 犬がいる。"),
        ("jsts/31-7", "犬がいる。"),
        ("jsts/45-9", "皿がある。"),
    ]
    assert list(source_texts(source, tmp_path, ["ar"])) == []


def test_arabic_captions_of_flickr8k(tmp_path):
    source = repository(
        tmp_path,
        "arabic-flickr8k",
        {
            "data/Flickr8k_text/Flickr8k.arabic.full.txt": "11_ab.jpg#0\tكلب يجري\nno caption\n",
            "data/Flickr8k_text/Flickr8k.token.txt": "11_ab.jpg#0\tA dog runs\n",
        },
    )
    rows = list(source_texts(source, tmp_path, ["ar", "ja"]))
    assert [(row["id"], row["text"]) for row in rows] == [("arabic-flickr8k/11_ab.jpg#0", "كلب يجري")]
    assert list(source_texts(source, tmp_path, ["ja"])) == []


def test_chinese_captions_of_flickr8k(tmp_path):
    source = repository(
        tmp_path,
        "flickr8k-cn",
        {
            "data/flickr8kzhc.caption.txt": "11_ab.jpg#zhc#0 一只 母鸡\n12_cd.jpg#zhc#4 两只羊。\nnothing\n",
            "data/flickr8kzhm.caption.txt": "11_ab.jpg#zhm#0 鸡\n",
            "data/flickr8kenc.caption.txt": "11_ab.jpg#enc#0 A hen\n",
        },
    )
    rows = list(source_texts(source, tmp_path, ["zh", "en"]))
    assert [(row["id"], row["language"], row["text"]) for row in rows] == [
        ("flickr8k-cn/11_ab.jpg#zhc#0", "zh", "一只 母鸡"),
        ("flickr8k-cn/12_cd.jpg#zhc#4", "zh", "两只羊。"),
    ]
    assert list(source_texts(source, tmp_path, ["en"])) == []


def test_portuguese_captions_of_flickr30k(tmp_path):
    lines = "11.jpg#1\tUma galinha corre.\n11.jpg#2\tDuas  galinhas.\n"
    source = repository(
        tmp_path, "framed-multi30k", {"data/flickr30k/captions.txt.gz": gzip.compress(lines.encode())}
    )
    assert [(row["id"], row["text"]) for row in source_texts(source, tmp_path, ["pt", "en"])] == [
        ("framed-multi30k/11.jpg#1", "Uma galinha corre."),
        ("framed-multi30k/11.jpg#2", "Duas galinhas."),
    ]


@pytest.mark.parametrize(
    ("name", "file", "language"),
    [
        ("turkish-coco", "MSCOCO/val/val_baseline_1.json", "tr"),
        ("mscoco-it", "mscoco-it/captions_ita_devset_unvalidated.json.gz", "it"),
    ],
)
def test_captions_in_the_form_of_coco(tmp_path, name, file, language):
    told = {
        "images": [{"id": "0", "file_name": "COCO_val2014_000000000599.jpg"}],
        "annotations": [
            {"image_id": 0, "id": "6548", "caption": "koltukta oturan  kedi."},
            {"image_id": "7", "id": "6549", "caption": "of a photo without a name"},
        ],
    }
    content = json.dumps(told).encode()
    source = repository(tmp_path, name, {file: gzip.compress(content) if file.endswith("gz") else content})
    assert [(row["id"], row["text"]) for row in source_texts(source, tmp_path, [language])] == [
        (f"{name}/COCO_val2014_000000000599.jpg#6548", "koltukta oturan kedi.")
    ]
    assert list(source_texts(source, tmp_path, ["en"])) == []


def test_sentences_of_a_repository(tmp_path):
    source = repository(
        tmp_path,
        "tatoeba",
        tatoeba_files(
            {"eng-zho": [("A hen.", "一只母鸡。", "cmn_Hans"), ("A goat.", "一隻羊仔。", "yue_Hant")]}
        ),
    )
    rows = list(source_texts(source, tmp_path, ["zh", "en"]))
    assert [(row["language"], row["text"]) for row in rows] == [
        ("en", "A hen."),
        ("zh", "一只母鸡。"),
        ("en", "A goat."),
    ]
    # printf 'en\tA hen.' | sha1sum
    assert rows[0]["id"] == rows[1]["id"] == "tatoeba/f66c0d6c1971b627"


def test_an_id_is_the_english_sentences_also_through_a_third_language():
    rows = ids(
        tatoeba_rows(
            {
                "ara-deu": [("دجاجة", "Huhn drei"), ("ماعز", "Ziege")],
                "deu-fra": [("Ein Huhn.", "Une poule.")],
                "eng-deu": [("A hen.", "Ein Huhn."), ("One hen.", "Ein Huhn.")],
                "fra-ita": [("Une poule.", "Una gallina.")],
                "epo-ita": [("Kapro.", "Una capra.")],
            },
            LANGUAGES,
        )
    )
    hen = rows["en", "A hen."]
    assert rows["de", "Ein Huhn."] == rows["fr", "Une poule."] == hen
    # three translations away: no longer the same
    assert rows["it", "Una gallina."] != hen
    # a second English sentence keeps an id of its own
    assert rows["en", "One hen."] != hen
    # without English: the translations share one all the same
    assert rows["ar", "ماعز"] == rows["de", "Ziege"] != rows["it", "Una capra."]
    assert len({rows[side] for side in rows}) == 6


words = st.sampled_from(["a", "b", "c", "d"])
pair_names = st.sampled_from(["eng-spa", "deu-eng", "deu-spa", "fra-spa", "epo-fra"])


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(pair_names, st.lists(st.tuples(words, words), min_size=1, max_size=4), max_size=5))
def test_ids_do_not_depend_on_the_languages_wanted(pairs):
    everything = ids(tatoeba_rows(pairs, LANGUAGES))
    for language in ("en", "es", "fr"):
        own = ids(tatoeba_rows(pairs, [language]))
        assert own == {side: key for side, key in everything.items() if side[0] == language}


def test_sides_of_different_length():
    files = {
        path: text.encode() for path, text in tatoeba_files({"eng-spa": [("A hen.", "Una gallina.")]}).items()
    }
    longer = {path: content * (1 + path.endswith(".spa")) for path, content in files.items()}
    with pytest.raises(CapscoreError, match=r"spa is not line-aligned"):
        list(package_texts._tatoeba(longer, ["es"]))


def test_a_file_per_language_with_each_text_once(tmp_path):
    packages, out = tmp_path / "packages", tmp_path / "out"
    names = emoji(
        packages, {"en": {"🐔": "a  hen", "🐐": "caf\u0065\u0301"}, "es": {"🐔": " una\u202fgallina "}}
    )
    pictures = stamps(packages, {"hen.txt": "a hen\nes.utf8=una gallina clueca\n"})
    counts = write_texts(out, languages=["es", "en"], sources=[names, pictures], packages=packages)
    assert {language: dict(by_source) for language, by_source in counts.items()} == {
        "es": {"cldr-annotations": 1, "tuxpaint-stamps": 1},
        "en": {"cldr-annotations": 2},
    }
    assert sorted(path.name for path in out.iterdir()) == ["en.jsonl", "es.jsonl"]
    rows = [json.loads(line) for line in (out / "en.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["id"], row["text"]) for row in rows] == [
        ("cldr-annotations/1f414", "a hen"),
        ("cldr-annotations/1f410", "caf\u00e9"),
    ]
    spanish = (out / "es.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in spanish] == ["una gallina", "una gallina clueca"]
    assert json.loads(spanish[1]) == {
        "id": "tuxpaint-stamps/hen",
        "text": "una gallina clueca",
        "language": "es",
        "source": "tuxpaint-stamps",
        "licence": "GPL-2.0-or-later",
    }


def test_sources_without_the_language_are_not_needed(tmp_path):
    names = emoji(tmp_path, {"es": {"🐔": "gallina"}})
    absent = BY_NAME["coco-cn-extension"]
    counts = write_texts(tmp_path / "out", languages=["es"], sources=[names, absent], packages=tmp_path)
    assert counts["es"] == {"cldr-annotations": 1}


def test_another_package_than_the_pinned_one(tmp_path):
    source = replace(emoji(tmp_path, {"en": {"🐔": "hen"}}), sha256="0" * 64)
    with pytest.raises(CapscoreError, match=rf"SHA-256 [0-9a-f]{{64}}, expected {'0' * 64}"):
        write_texts(tmp_path / "out", languages=["en"], sources=[source], packages=tmp_path)
    assert not (tmp_path / "out" / "en.jsonl").exists()


def test_another_commit_than_the_pinned_one(tmp_path):
    source = repository(tmp_path, "coco-cn-extension", {"data/coco-cn_ext.icap2020.txt": "a\t一只母鸡\n"})
    with pytest.raises(CapscoreError, match="coco-cn-extension"):
        list(source_texts(replace(source, version="0" * 40), tmp_path, ["zh"]))


def test_a_package_without_the_files(tmp_path):
    source = put(tmp_path, BY_NAME["cldr-annotations"], tar({"package/package.json": "{}"}, "gz"))
    out = tmp_path / "out"
    with pytest.raises(CapscoreError, match="has no file like package/annotations"):
        write_texts(out, languages=["en"], sources=[source], packages=tmp_path)
    assert not out.exists()


def test_a_missing_package(tmp_path):
    with pytest.raises(CapscoreError, match=r"no cldr-annotations-full-48\.2\.0\.tgz in .*expected"):
        write_texts(tmp_path / "out", languages=["en"], packages=tmp_path)


def test_a_language_without_texts(tmp_path):
    with pytest.raises(InputError, match=r"no texts in .*eo.*; there are ar, cs"):
        write_texts(tmp_path / "out", languages=["en", "eo"], packages=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_repository_is_fetched_once(tmp_path):
    (tmp_path / "origin").mkdir()
    source = repository(
        tmp_path / "origin", "coco-cn-extension", {"data/coco-cn_ext.icap2020.txt": "a\t一只母鸡\n"}
    )
    source = replace(source, package=str(tmp_path / "origin" / source.file_name))
    out = tmp_path / "out"
    assert write_texts(out, languages=["zh"], sources=[source])["zh"] == {"coco-cn-extension": 1}
    assert sorted(path.name for path in out.iterdir()) == ["packages", "zh.jsonl"]
    assert [path.name for path in (out / "packages").iterdir()] == ["coco-cn"]
    (tmp_path / "origin").rename(tmp_path / "gone")
    assert write_texts(out, languages=["zh"], sources=[source])["zh"] == {"coco-cn-extension": 1}


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("cldr-annotations", "npm pack --silent cldr-annotations-full@48.2.0"),
        ("tuxpaint-stamps", "apt-get download tuxpaint-stamps-default=2022.06.04-1"),
    ],
)
def test_a_fetch_without_its_program(tmp_path, monkeypatch, name, command):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapscoreError, match=rf"`{command}` failed \(.*for --from"):
        write_texts(tmp_path / "out", languages=["en"], sources=[BY_NAME[name]])


def test_the_command(tmp_path, monkeypatch, capsys):
    names = emoji(tmp_path, {"es": {"🐔": "gallina", "🐐": "cabra"}, "en": {"🐔": "hen"}})
    monkeypatch.setattr(package_texts, "SOURCES", (names,))
    arguments = ["--out", str(tmp_path / "out"), "--from", str(tmp_path)]
    package_texts.main([*arguments, "--languages", "es,en"])
    assert capsys.readouterr().out == "es: 2 texts (cldr-annotations 2)\nen: 1 texts (cldr-annotations 1)\n"
    with pytest.raises(SystemExit, match="2"):
        package_texts.main([*arguments, "--sources", "x"])
    assert "--sources: no x;" in capsys.readouterr().err


def test_the_command_reads_some_sources_only_where_they_are_named(tmp_path, monkeypatch, capsys):
    names = emoji(tmp_path, {"zh": {"🐔": "母鸡"}})
    captions = repository(
        tmp_path, "flickr8k-cn", {"data/flickr8kzhc.caption.txt": "11_ab.jpg#zhc#0 一只母鸡\n"}
    )
    monkeypatch.setattr(package_texts, "SOURCES", (names,))
    monkeypatch.setattr(package_texts, "MORE_SOURCES", (captions,))
    arguments = ["--out", str(tmp_path / "out"), "--from", str(tmp_path), "--languages", "zh"]
    package_texts.main(arguments)
    assert capsys.readouterr().out == "zh: 1 texts (cldr-annotations 1)\n"
    package_texts.main([*arguments, "--sources", "flickr8k-cn"])
    assert capsys.readouterr().out == "zh: 1 texts (flickr8k-cn 1)\n"
    package_texts.main([*arguments, "--sources", "flickr8k-cn,cldr-annotations"])
    assert "flickr8k-cn 1" in (said := capsys.readouterr().out) and "cldr-annotations 1" in said
    with pytest.raises(SystemExit, match="2"):
        package_texts.main([*arguments, "--sources", "flickr8k"])
    assert "no flickr8k; there are cldr-annotations, flickr8k-cn" in capsys.readouterr().err


def test_every_source_is_pinned_and_named_with_its_licence():
    every = (*SOURCES, *MORE_SOURCES)
    assert len(BY_NAME) == len(every)
    for source in every:
        assert source.name in package_texts.__doc__
        assert len(source.version if source.kind == "git" else source.sha256) == (
            40 if source.kind == "git" else 64
        )
        assert set(source.languages) <= set(LANGUAGES)
    licences = {source.licence for source in every}
    assert licences == {
        "Unicode-3.0",
        "GPL-2.0-or-later",
        "MIT",
        "Apache-2.0",
        "CC-BY-SA-4.0",
        "CC-BY-2.0-FR",
        "none stated",
    }
