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
from weights.making.package_texts import (
    LANGUAGES,
    MORE_SOURCES,
    SOURCES,
    source_named,
    source_texts,
    write_texts,
)


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
            {
                "annotations": {
                    "annotations": {key: {"default": ["x"], "tts": [name]} for key, name in table.items()}
                }
            }
        )
        for language, table in names.items()
    }
    source = replace(source_named("cldr-annotations"), languages=tuple(names))
    return put(folder, source, tar(files, "gz"))


def stamps(folder, files):
    members = {f"./usr/share/tuxpaint/stamps/{path}": text for path, text in files.items()}
    parts = (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", tar(members, "xz")))
    content = b"!<arch>\n"
    for name, part in parts:
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(part):<10}`\n"
        content += header.encode() + part + b"\n" * (len(part) % 2)
    return put(folder, source_named("tuxpaint-stamps"), content)


def git(folder, *command):
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *command], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder, name, files):
    source = source_named(name)
    root = folder / source.file_name
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "texts")
    return replace(source, version=git(root, "rev-parse", "HEAD"))


def tatoeba_files(pairs):
    """ "eng-spa" → lines (English, Spanish), or (…, …, label of the second)."""
    files = {}
    for pair, lines in pairs.items():
        stem = f"datasets/helsinki_nlp/tatoeba/testsets/{pair}/tatoeba-test-v2021-08-07"
        names = [*pair.split("-"), f"{pair.split('-')[1]}.labels"]
        for column, name in enumerate(names[: len(lines[0])]):
            files[f"{stem}.{name}"] = "".join(f"{line[column]}\n" for line in lines).encode()
    return files


def tatoeba_ids(pairs, languages):
    """(language, text) → id"""
    rows = package_texts._tatoeba(dict(sorted(tatoeba_files(pairs).items())), languages)
    return {(language, text): key for key, language, text in rows}


def test_names_of_one_emoji_share_an_id(tmp_path):
    source = emoji(
        tmp_path, {"en": {"👨‍🌾": "farmer"}, "es": {"👨‍🌾": "un granjero"}, "ja": {"👨‍🌾": "農家"}}
    )
    about = {
        "id": "cldr-annotations/1f468-200d-1f33e",
        "source": "cldr-annotations",
        "licence": "Unicode-3.0",
    }
    assert list(source_texts(source, tmp_path, ["es", "ja"])) == [
        {**about, "text": "un granjero", "language": "es"},
        {**about, "text": "農家", "language": "ja"},
    ]


def test_stamps_of_a_debian_package(tmp_path):
    text = (
        "A hen.\nes.utf8=Una gallina.\npt.utf8=Uma galinha velha.\npt_BR.utf8=Uma galinha.\nit.utf8=A hen.\n"
        "sr@latin.utf8=Kokoška.\nnl.utf8=\n"
    )
    source = stamps(tmp_path, {"animals/hen.txt": text, "animals/hen.png": "no text"})
    rows = list(source_texts(source, tmp_path, ["en", "es", "pt", "it", "nl"]))
    expected = [("en", "A hen."), ("es", "Una gallina."), ("pt", "Uma galinha.")]
    assert [(row["language"], row["text"]) for row in rows] == expected
    assert {row["id"] for row in rows} == {"tuxpaint-stamps/animals/hen"}
    with pytest.raises(CapscoreError, match=r"no data\.tar"):
        list(source_texts(put(tmp_path, source, b"!<arch>\n"), tmp_path, ["en"]))


COCO = json.dumps(
    {
        "images": [{"id": "0", "file_name": "COCO_val2014_000000000599.jpg"}],
        "annotations": [
            {"image_id": 0, "id": "6548", "caption": "koltukta oturan  kedi."},
            {"image_id": "7", "id": "6549", "caption": "of a photo without a name"},
        ],
    }
).encode()
PAIRS = [
    {"yjcaptions_id": "31-7-8", "sentence1": "犬がいる。", "sentence2": "白い 犬がいる。", "label": 3.0},
    {"yjcaptions_id": "31_45-7-9", "sentence1": "犬がいる。", "sentence2": "皿がある。", "label": 0.0},
]


@pytest.mark.parametrize(
    ("name", "language", "files", "expected"),
    [
        (
            "coco-cn-extension",
            "zh",
            {"data/coco-cn_ext.icap2020.txt": "a.jpg#0\t一只母鸡\na.jpg#1\t两只 母鸡\n"},
            [("a.jpg#0", "一只母鸡"), ("a.jpg#1", "两只 母鸡")],
        ),
        (
            "dutch-descriptions",
            "nl",
            {
                "Data/Dutch/Val/val.0": "Een kip.\nEen  hond.\n",
                "Data/Dutch/Val/val.1": "Een bruine kip.\n\n",
                "Data/Dutch/Test/test.0": "Een geit.\n",
            },
            [
                ("validation-0-0", "Een kip."),
                ("validation-1-0", "Een hond."),
                ("validation-0-1", "Een bruine kip."),
            ],
        ),
        # the second photo of a pair is named behind the first
        (
            "jsts",
            "ja",
            {
                "datasets/jsts-v1.3/train-v1.3.json": "".join(f"{json.dumps(pair)}\n" for pair in PAIRS),
                "datasets/jsts-v1.3/valid-v1.3.json": json.dumps(PAIRS[0]),
            },
            [
                ("31-7", "犬がいる。"),
                ("31-8", "白い 犬がいる。"),
                ("31-7", "犬がいる。"),
                ("45-9", "皿がある。"),
            ],
        ),
        (
            "arabic-flickr8k",
            "ar",
            {
                "data/Flickr8k_text/Flickr8k.arabic.full.txt": "11_ab.jpg#0\tكلب يجري\nno caption\n",
                "data/Flickr8k_text/Flickr8k.token.txt": "11_ab.jpg#0\tA dog runs\n",
            },
            [("11_ab.jpg#0", "كلب يجري")],
        ),
        (
            "flickr8k-cn",
            "zh",
            {
                "data/flickr8kzhc.caption.txt": "11_ab.jpg#zhc#0 一只 母鸡\nnothing\n",
                "data/flickr8kzhm.caption.txt": "11_ab.jpg#zhm#0 鸡\n",
            },
            [("11_ab.jpg#zhc#0", "一只 母鸡")],
        ),
        (
            "framed-multi30k",
            "pt",
            {
                "data/flickr30k/captions.txt.gz": gzip.compress(
                    b"11.jpg#1\tUma galinha.\n11.jpg#2\tDuas  galinhas.\n"
                )
            },
            [("11.jpg#1", "Uma galinha."), ("11.jpg#2", "Duas galinhas.")],
        ),
        (
            "turkish-coco",
            "tr",
            {"MSCOCO/val/val_baseline_1.json": COCO},
            [("COCO_val2014_000000000599.jpg#6548", "koltukta oturan kedi.")],
        ),
        (
            "mscoco-it",
            "it",
            {"mscoco-it/captions_ita_devset_unvalidated.json.gz": gzip.compress(COCO)},
            [("COCO_val2014_000000000599.jpg#6548", "koltukta oturan kedi.")],
        ),
    ],
)
def test_captions_of_a_repository(tmp_path, name, language, files, expected):
    source = repository(tmp_path, name, files)
    rows = list(source_texts(source, tmp_path, [language, "en"]))
    assert [(row["id"], row["text"]) for row in rows] == [(f"{name}/{key}", text) for key, text in expected]
    assert {row["language"] for row in rows} == {language}
    assert list(source_texts(source, tmp_path, ["en"])) == []
    with pytest.raises(CapscoreError, match=name):
        list(source_texts(replace(source, version="0" * 40), tmp_path, [language]))


def test_sentences_of_a_repository(tmp_path):
    lines = [("A hen.", "一只母鸡。", "cmn_Hans"), ("A goat.", "一隻羊仔。", "yue_Hant")]
    source = repository(tmp_path, "tatoeba", tatoeba_files({"eng-zho": lines}))
    rows = list(source_texts(source, tmp_path, ["zh", "en"]))
    expected = [("en", "A hen."), ("zh", "一只母鸡。"), ("en", "A goat.")]
    assert [(row["language"], row["text"]) for row in rows] == expected
    # printf 'en\tA hen.' | sha1sum
    assert rows[0]["id"] == rows[1]["id"] == "tatoeba/f66c0d6c1971b627"


def test_an_id_is_the_english_sentences_also_through_a_third_language():
    pairs = {
        "ara-deu": [("دجاجة", "Huhn drei"), ("ماعز", "Ziege")],
        "deu-fra": [("Ein Huhn.", "Une poule.")],
        "eng-deu": [("A hen.", "Ein Huhn."), ("One hen.", "Ein Huhn.")],
        "fra-ita": [("Une poule.", "Una gallina.")],
        "epo-ita": [("Kapro.", "Una capra.")],
    }
    ids = tatoeba_ids(pairs, LANGUAGES)
    hen = ids["en", "A hen."]
    assert ids["de", "Ein Huhn."] == ids["fr", "Une poule."] == hen
    # three translations away: no longer the same; a second English sentence keeps an id of its own
    assert ids["it", "Una gallina."] != hen != ids["en", "One hen."]
    # without English the translations share one all the same
    assert ids["ar", "ماعز"] == ids["de", "Ziege"] != ids["it", "Una capra."]
    assert len(set(ids.values())) == 6


words = st.sampled_from(["a", "b", "c", "d"])
pair_names = st.sampled_from(["eng-spa", "deu-eng", "deu-spa", "fra-spa", "epo-fra"])


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(pair_names, st.lists(st.tuples(words, words), min_size=1, max_size=4), max_size=5))
def test_ids_do_not_depend_on_the_languages_wanted(pairs):
    everything = tatoeba_ids(pairs, LANGUAGES)
    for language in ("en", "es", "fr"):
        assert tatoeba_ids(pairs, [language]) == {
            side: key for side, key in everything.items() if side[0] == language
        }


def test_sides_of_different_length_are_an_error():
    files = tatoeba_files({"eng-spa": [("A hen.", "Una gallina.")]})
    files = {path: content * (1 + path.endswith(".spa")) for path, content in files.items()}
    with pytest.raises(CapscoreError, match=r"spa is not line-aligned"):
        list(package_texts._tatoeba(files, ["es"]))


def test_the_command_writes_a_file_per_language_with_each_text_once(tmp_path, monkeypatch, capsys):
    packages, out = tmp_path / "packages", tmp_path / "out"
    names = emoji(
        packages, {"en": {"🐔": "a  hen", "🐐": "caf\u0065\u0301"}, "es": {"🐔": " una\u202fgallina "}}
    )
    pictures = stamps(packages, {"hen.txt": "a hen\nes.utf8=una gallina clueca\n"})
    chinese = repository(
        packages, "flickr8k-cn", {"data/flickr8kzhc.caption.txt": "11_ab.jpg#zhc#0 一只母鸡\n"}
    )
    monkeypatch.setattr(package_texts, "SOURCES", (names, pictures))
    monkeypatch.setattr(package_texts, "MORE_SOURCES", (chinese,))
    arguments = ["--out", str(out), "--from", str(packages)]
    package_texts.main([*arguments, "--languages", "es,en"])
    printed = "es: 2 texts (cldr-annotations 1, tuxpaint-stamps 1)\nen: 2 texts (cldr-annotations 2)\n"
    assert capsys.readouterr().out == printed
    assert sorted(path.name for path in out.iterdir()) == ["en.jsonl", "es.jsonl"]
    rows = [
        json.loads(line) for path in sorted(out.iterdir()) for line in path.read_text("utf-8").splitlines()
    ]
    assert [(row["id"], row["text"]) for row in rows] == [
        ("cldr-annotations/1f414", "a hen"),
        ("cldr-annotations/1f410", "caf\u00e9"),
        ("cldr-annotations/1f414", "una gallina"),
        ("tuxpaint-stamps/hen", "una gallina clueca"),
    ]
    # some sources are read only where they are named
    package_texts.main([*arguments, "--languages", "zh", "--sources", "flickr8k-cn"])
    assert capsys.readouterr().out == "zh: 1 texts (flickr8k-cn 1)\n"
    with pytest.raises(SystemExit, match="2"):
        package_texts.main([*arguments, "--sources", "flickr8k"])
    assert "no flickr8k; there are cldr-annotations, tuxpaint-stamps, flickr8k-cn" in capsys.readouterr().err


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
        (
            source_named("tuxpaint-stamps"),
            None,
            "`apt-get download tuxpaint-stamps-default=2022.06.04-1` failed",
        ),
    ):
        with pytest.raises(CapscoreError, match=message):
            write_texts(out, languages=["en"], sources=[source], packages=packages)
        assert not (out / "en.jsonl").exists()
    with pytest.raises(InputError, match=r"no texts in .*eo.*; there are ar, cs"):
        write_texts(out, languages=["en", "eo"], packages=tmp_path)


def test_a_repository_is_fetched_once_and_only_for_its_languages(tmp_path):
    (tmp_path / "origin").mkdir()
    source = repository(
        tmp_path / "origin", "coco-cn-extension", {"data/coco-cn_ext.icap2020.txt": "a\t一只母鸡\n"}
    )
    source = replace(source, package=str(tmp_path / "origin" / source.file_name))
    out = tmp_path / "out"
    out.mkdir()
    names = emoji(out / "packages", {"es": {"🐔": "gallina"}})
    assert write_texts(out, languages=["es"], sources=[names, source])["es"] == {"cldr-annotations": 1}
    assert not (out / "packages" / "coco-cn").exists()
    for _ in range(2):
        assert write_texts(out, languages=["zh"], sources=[source])["zh"] == {"coco-cn-extension": 1}
        if (tmp_path / "origin").exists():
            (tmp_path / "origin").rename(tmp_path / "gone")
    assert sorted(path.name for path in out.iterdir()) == ["es.jsonl", "packages", "zh.jsonl"]


def test_every_source_is_pinned_and_described():
    for source in (*SOURCES, *MORE_SOURCES):
        assert (
            source.name in package_texts.__doc__
            and source.licence
            and set(source.languages) <= set(LANGUAGES)
        )
        assert len(source.version) == 40 if source.kind == "git" else len(source.sha256) == 64
