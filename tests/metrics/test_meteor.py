"""METEOR against what the authors' Java program, METEOR 1.5, gave for the same texts."""

import gzip
import shutil
import subprocess
import sys
import types
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from capscore.errors import CapscoreError, InputError, MissingExtraError
from capscore.metrics.meteor import METEOR, meteor, meteor_with_counts
from capscore.metrics.meteor_words import Knowledge, paraphrase_table

pytestmark = pytest.mark.skipif(bool(METEOR.what_is_missing()), reason="METEOR's data or stems are missing")

# with "-l en -norm", as coco-caption calls it
ENGLISH = [
    *(("a red kite", ["a red kite flies", "one kite"], 0.3799461194352912), ("", ["a cat"], 0.0)),
    *(("a", [""], 0.0), ("the dog runs fast", ["a dog is running quickly"], 0.16416332059955815)),
    ("café", ["café"], 1.0),
    ("The U.S. flag, isn't it? A t-shirt's \"logo\" – 3/4 of 1,000.5",
     ["the us flag is not it ; a t shirt 's logo - 3 / 4 of 1,000.5 !"], 0.39123573532851535),
    ("children and boys ride horses", ["boys and children riding a horse", "kids ride"], 0.3252218975471152),
    ("an old man in a straw hat sits on a park bench",
     ["a elderly man in a straw hat is sitting on a bench"], 0.4408852975501156),
    ("a man in front of a shop next to a man with a dog and a cat and a bird",
     ["a dog and a man with a cat next to a man and a bird in front of a store", "a shop"],
     0.5050716143049534),
    # "and its" matches "and the fact that it" and, better, "and the fact that it is"
    ("it includes key details such as the location and the fact that it is on a pan , "
     "which helps convey the scene",
     ["it includes key details such as the color of the fire hydrant and its placement , "
      "which helps convey the scene"], 0.40191969642975106),
    ("the geese ate better", ["a goose eats well", "a best goose eating"], 0.37321564531958046),
]  # fmt: skip
# texts, and their tokens as the program's Normalizer splits them
TOKENS = {
    "U.S.-made u.s.--made x-u.s. army": "us made us made x us army",
    "no.--é mr.-x p.m.-ж a.b.-c.d.": "no . é mr. x pm ж ab cd",
    "cats ..-3 , b...--3.5 !": "cats .. -3 , b ... -3.5 !",
    "a dog/cat dog_cat x-ray ,--,": "a dog / cat dog _ cat x ray , - ,",
    "``it's'' don't ‘em’ 90's": "\" it 's \" don 't ' em ' 90 's",
    "Mr.-no. 5 No.1,000 the end.": "mr. no . 5 no.1,000 the end .",
    "don't 's 90's rock'n'roll `x` ''y''": "don 't ' s 90 's rock 'n'roll ' x ' \" y \"",
    "a-b-c 5-5 -- x- e--f a–b": "a b-c 5 5 - x- e f a - b",
    "Mr. X No. 5 no. 5 i.e. u.s. ab. cd ab. CD 1.a.": "mr. x no. 5 no . 5 ie us ab. cd ab . cd 1a",
    "a,b 1,2 a,,b ... a...b": "a , b 1,2 a , ,b ... a ... b",
    "$5% 東京 ελ Ж é <x>": "$ 5 % 東 京 ε λ ж é < x >",
}
# with '-l … -lower -m "exact stem"', Czech with "exact"
OTHERS = [
    ("de", "ein alter mann reitet auf einem pferd",
     "ein mann auf pferden reitet und die alten", 0.3169811320754716),
    ("fr", "deux chiens courent dans la neige", "un chien court dans les neiges", 0.09333333333333332),
    ("es", "dos perros corren por la nieve blanca", "un perro corre en la nieve", 0.451806746973132),
    ("cs", "muž v modré bundě jde po chodníku", "muž v modré bundě jede po chodníku", 0.4443043396661671),
    ("ru", "ребёнок бежит по зелёной траве", "дети бегут по зелёным травам", 0.33985655860212294),
    ("it", "due cani corrono nella neve", "un cane corre sulla neve", 0.24128050658879052),
    ("tr", "iki köpek karda koşuyor", "bir köpek karların içinde koşuyorlar", 0.2539794806197795),
]  # fmt: skip


def test_tokens_are_those_of_the_java_program():
    knowledge = Knowledge("english")
    assert {text: " ".join(knowledge.tokens(text)) for text in TOKENS} == TOKENS


def test_english_scores_are_those_of_the_java_program():
    captions, references, expected = zip(*ENGLISH, strict=True)
    np.testing.assert_allclose(meteor(captions, references), expected, atol=1e-12)
    sums = [*meteor_with_counts(captions, references)[1].sum(axis=0), len(captions)]
    corpus = METEOR().corpus_of({"en": dict(zip(METEOR.statistic_names, sums, strict=True))})
    assert corpus == {"corpus_meteor": pytest.approx(0.40038561183557425, abs=1e-12)}


def test_its_data_are_read_once_a_process(monkeypatch):
    meteor(["a"], [["b"]])
    monkeypatch.setattr("capscore.metrics.meteor_words.gzip.open", None)
    monkeypatch.setattr("capscore.metrics.meteor_words.zipfile.ZipFile", None)
    caption, references, expected = ENGLISH[7]  # with paraphrases
    assert meteor([caption], [references]) == pytest.approx([expected], abs=1e-12)


@pytest.mark.parametrize(("language", "caption", "reference", "expected"), OTHERS)
def test_other_languages_take_their_parameters_and_stems(language, caption, reference, expected):
    assert meteor([caption], [[reference]], language) == pytest.approx([expected], abs=1e-12)


def test_no_rows_and_a_language_without_parameters():
    assert meteor([], []).shape == (0,) and np.isnan(METEOR().corpus_of({})["corpus_meteor"])
    with pytest.raises(InputError, match="no parameters for the language 'ja', only for cs, da,"):
        meteor(["a"], [["b"]], "ja")


def test_corpus_of_several_languages_is_weighted_by_rows():
    rows = {"de": ("ein Mann", "ein alter Mann"), "fr": ("un homme", "un vieil homme")}
    languages = ["de", "fr", "de"]
    captions, references = zip(*(rows[code] for code in languages), strict=True)
    scores = METEOR().score(captions, references=[[text] for text in references], language=languages)
    alone = [METEOR().score([a], references=[[b]], language=code) for code, (a, b) in rows.items()]
    expected = np.dot([found.corpus["corpus_meteor"] for found in alone], [2 / 3, 1 / 3])
    assert scores.corpus["corpus_meteor"] == pytest.approx(expected)
    assert "|implementation:python|modules:exact+stem|" in scores.signature


def test_what_is_not_installed_is_named(monkeypatch):
    empty = types.ModuleType("pycocoevalcap")
    empty.__path__ = ["nowhere"]
    monkeypatch.setitem(sys.modules, "pycocoevalcap", empty)
    with pytest.raises(MissingExtraError, match=r"^METEOR needs .*'pycocoevalcap'.*\[meteor\]"):
        METEOR()
    monkeypatch.setattr("capscore.metrics.meteor_words.version", lambda name: "3.0.1")
    with pytest.raises(CapscoreError, match=r"snowballstemmer 2, and 3.0.1"):
        METEOR()
    absent = mock.Mock(side_effect=PackageNotFoundError("snowballstemmer"))
    monkeypatch.setattr("capscore.metrics.meteor_words.version", absent)
    with pytest.raises(MissingExtraError, match=r"^METEOR needs .*'snowballstemmer'.*\[meteor\]"):
        METEOR()


@pytest.mark.slow  # the program takes some five seconds to start
@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_the_java_program_gives_these_scores():
    import pycocoevalcap

    folder = Path(next(iter(pycocoevalcap.__path__))) / "meteor"
    command = ["java", "-Dfile.encoding=UTF-8", "-Xmx2G", "-jar", "meteor-1.5.jar", "-", "-", "-stdio"]

    def ask(lines):
        streams = {"input": "\n".join(lines), "capture_output": True, "encoding": "utf-8"}
        done = subprocess.run([*command, "-l", "en", "-norm"], cwd=folder, **streams)
        return done.stdout.split("\n")[:-1]

    counts = ask(" ||| ".join(["SCORE", *references, caption]) for caption, references, _ in ENGLISH)
    *scores, corpus = map(float, ask([" ||| ".join(["EVAL", *counts])]))
    assert scores == pytest.approx([expected for *_, expected in ENGLISH], abs=1e-12)
    assert corpus == pytest.approx(0.40038561183557425, abs=1e-12)


def test_the_table_of_paraphrases_is_kept_and_made_anew_where_it_is_cut_short(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSCORE_CACHE", str(tmp_path / "cache"))
    rows = [("a dog", "the dog"), ("a dog", "one dog"), ("in front of the", "before the"), ("x", "y")]
    with gzip.open(tmp_path / "table.gz", "wt") as file:
        file.writelines(f"0.5\n{phrase}\n{other}\n" for phrase, other in rows)

    def found() -> dict[str, list[str]]:
        paraphrase_table.cache_clear()
        return dict(paraphrase_table(tmp_path / "table.gz").entries({"a dog", "y"}, {"in front of", "a b c"}))

    expected = {"a dog": ["the dog", "one dog"], "in front of the": ["before the"]}
    try:
        assert found() == expected
        arrays, entries = sorted((tmp_path / "cache" / "tables").iterdir())
        assert entries.stem.endswith(f"-{(tmp_path / 'table.gz').read_bytes()[-8:].hex()}")  # its checksum
        for damaged in (entries, arrays):
            damaged.write_bytes(damaged.read_bytes()[:-9])
            assert found() == expected == found()
        entries.write_bytes(entries.read_bytes().replace(b"dog", b"cat"))
        with pytest.raises(CapscoreError, match="are damaged: `capscore cache clear` removes them"):
            found()
        arrays.unlink()
        monkeypatch.setenv("CAPSCORE_CACHE", str(tmp_path / "table.gz" / "no folder"))
        assert found() == expected
    finally:
        paraphrase_table.cache_clear()
