"""The recipe that translates captions: languages, beam search, choice, quality, files and resuming."""

import dataclasses
import json
import venv

import numpy as np
import pytest
import torch

from capscore.errors import CapscoreError, InputError
from tools.tiny.official import write_jsonl
from tools.tiny.translator import TEXTS, tiny_m2m100, tiny_nllb
from training import translate as recipe
from training.engine import translator as models
from training.engine.translator import Translator, choose, find_language, load_language_check, load_quality
from training.translate import Settings, main

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

ROWS = [
    {"id": number, "image": f"{number}.jpg", "caption": text, "references": [text[:9], text], "rating": 1.5}
    for number, text in enumerate([*TEXTS, "a dog", "two cats"])
]


@pytest.fixture(scope="module")
def m2m100(tmp_path_factory):
    return tiny_m2m100(tmp_path_factory.mktemp("m2m100"))


def settings(m2m100, **more):
    small = {"num_beams": 6, "candidates": 4, "max_new_tokens": 10, "device": "cpu", "block_rows": 3}
    small |= {"input": "in.jsonl", "output": "out.jsonl", "languages": ["de"], "translator": str(m2m100)}
    return Settings(**{**small, **more})


@pytest.fixture
def simple(monkeypatch):
    """Quality and language check are those that a test can compute itself."""

    def share_of_length(sources, translations):
        return np.array([len(b) / len(a) for a, b in zip(sources, translations, strict=True)])

    monkeypatch.setattr(models, "load_quality", lambda settings: share_of_length)
    even = {0: "de", 1: "en"}  # a language that a test can tell itself
    monkeypatch.setattr(models, "load_language_check", lambda languages: lambda text: even[len(text) % 2])


@pytest.fixture
def captions(tmp_path, monkeypatch, simple):
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "in.jsonl", ROWS)
    return tmp_path


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def plain_beams(translator, text):
    """The same search through transformers alone, for one text without padding."""
    tokenizer = translator.tokenizer
    tokenizer.src_lang = "en"
    with torch.no_grad():
        read, search = tokenizer(text, return_tensors="pt"), {"num_beams": 6, "num_return_sequences": 4}
        search |= {"forced_bos_token_id": tokenizer.get_lang_id("de"), "max_new_tokens": 10}
        made = translator.model.generate(**read, **search, do_sample=False)
    words = [[tokenizer.decoder.get(number) for number in row] for row in made.tolist()]
    kept = [[word for word in row if word and word not in ("<s>", "<pad>", "</s>", "<unk>")] for row in words]
    return [tokenizer.sp_model.decode(row).strip() for row in kept]


def best(candidates):
    """The longest candidate of an even length, or of any if there is none: computed without `choose`."""
    made = [text for text in candidates if text]
    right = [text for text in made if len(text) % 2 == 0]
    return max(right or made, key=len, default=""), bool(right)


def test_languages_of_m2m100_and_nllb(m2m100, tmp_path, simple):
    translator = Translator(settings(m2m100))
    assert len(translator.codes) == 100
    found = {"de": "de", "deu": "de", "de-AT": "de", "zh": "zh", "nb": "no", "fil": "tl"}
    assert {tag: translator.code(tag) for tag in found} == found
    with pytest.raises(InputError, match="the translator does not support 'te'"):
        translator.code("te")
    nllb = Translator(settings(folder := tiny_nllb(tmp_path)))
    found = {"de": "deu_Latn", "deu_Latn": "deu_Latn", "zh": "zho_Hans", "zh-TW": "zho_Hant"}
    assert {tag: nllb.code(tag) for tag in found} == found
    made = nllb.candidates(["a dog"], "en", "de")
    assert len(made[0]) == 4 and not any(code in text for text in made[0] for code in nllb.codes)
    with pytest.raises(InputError, match="does not support 'zh-TW'"):
        find_language("zh-TW", ("zho_Hans", "deu_Latn"))
    (folder / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(CapscoreError, match="'marian'; expected a Hub id or folder of M2M100 or NLLB"):
        Translator(settings(folder))


def test_candidates_are_those_of_the_beam_search_in_any_batch(m2m100, simple):
    translator = Translator(settings(m2m100, batch_size=4))
    texts = [*TEXTS[:3], "a", "dog dog dog dog"]
    assert translator.candidates(texts, "en", "de") == [plain_beams(translator, text) for text in texts]


def test_a_rejected_text_says_why():
    chosen = choose([("a dog", 0.9, "en"), ("the dog", 0.95, "en"), ("123", 0.1, "")], "de")
    assert chosen == ("the dog", 0.95, "none of 3 candidates is in de by the language check")
    assert choose([("a dog", 0.9, "en"), ("a cat", 0.9, "en")], None) == ("a dog", 0.9, None)
    assert choose([], "de") == ("", None, "the translator wrote nothing")


def test_the_language_check_tells_captions_apart():
    pytest.importorskip("py3langid")
    identify = load_language_check(["de", "zho_Hans"])
    texts = {"Ein brauner Hund läuft am Strand entlang.": "de", "A brown dog runs along the beach.": "en"}
    texts |= {"一只棕色的狗在海滩上奔跑。": "zh", "123 !": ""}
    assert {text: identify(text) for text in texts} == texts
    with pytest.raises(InputError, match=r"language_check=False; .* does not support mi"):
        load_language_check(["mi"])


def test_cosine_under_a_backbone(m2m100, embedded_free):
    texts, translations = ["a dog", "a dog", "a cat"], ["ein Hund", "ein Flugzeug", "eine Katze"]
    ours, theirs = embedded_free.encode_texts(texts), embedded_free.encode_texts(translations)
    expected = (ours * theirs).sum(axis=1)
    found = load_quality(settings(m2m100))(texts, translations)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[0] > found[1]


# The command of unbabel-comet 2.2: the options that it reads, and the file that it writes.
COMET = """
import json, sys
given = dict(zip(sys.argv[1:], sys.argv[2:]))
assert given["--gpus"] == "0" and "--quiet" in sys.argv
if given["--model"] == "org/gated":
    sys.exit("Model 'org/gated' not supported by COMET.")
texts = [open(given[name], encoding="utf-8").read().splitlines() for name in ("-s", "-t")]
scores = [{"src": a, "mt": b, "COMET": len(b) / (len(a) + len(b))} for a, b in zip(*texts, strict=True)]
json.dump({given["-t"]: scores}, open(given["--to_json"], "w"))
"""


def test_cometkiwi_by_its_own_command_under_another_python(m2m100, tmp_path):
    venv.create(tmp_path / "comet", symlinks=True, with_pip=False)
    (packages,) = (tmp_path / "comet").glob("lib/python*/site-packages")
    (packages / "comet" / "cli").mkdir(parents=True)
    (packages / "comet" / "cli" / "score.py").write_text(COMET)
    python = str(tmp_path / "comet" / "bin" / "python")
    quality = load_quality(settings(m2m100, quality="cometkiwi:org/kiwi", quality_python=python))
    np.testing.assert_allclose(quality(["abc", "ä\n", "abc"], ["x", "xyz中", "abc"]), [0.25, 0.8, 0.5])
    assert quality([], []).shape == (0,)
    gated = load_quality(settings(m2m100, quality="cometkiwi:org/gated", quality_python=python))
    with pytest.raises(CapscoreError, match=r"ended with exit code 1: Model 'org/gated' not supported"):
        gated(["abc"], ["x"])
    for wrong in ("bleu", "cometkiwi"):
        with pytest.raises(CapscoreError, match=f"quality='{wrong}': expected cosine:BACKBONE, or cometk"):
            load_quality(settings(m2m100, quality=wrong))


def test_rows_are_carried_along_and_the_best_is_kept(captions, m2m100):
    given = settings(m2m100, languages=["de", "fr"], on_rejected="keep")
    assert recipe.translate(given) == (14, 0)
    rows, translator = read(captions / "out.jsonl"), Translator(given)
    assert [row["id"] for row in rows] == [index // 2 for index in range(14)]
    assert [row["language"] for row in rows] == 7 * ["de", "fr"]
    for row in rows[::2]:
        before = ROWS[row["source_row"]]
        assert [row[name] for name in ("image", "rating")] == [before[name] for name in ("image", "rating")]
        assert (row["original"], row["original_language"]) == (before["caption"], "en")
        assert row["original_references"] == before["references"]
        text, right = best(plain_beams(translator, row["original"]))
        assert row["caption"] == text
        assert (row["translation_problem"] is None) == right
        assert row["quality"] == (pytest.approx(len(text) / len(row["original"])) if text else None)
        assert row["references"] == [best(plain_beams(translator, text))[0] for text in before["references"]]
    assert not (captions / "out.jsonl.blocks").exists()
    good = [row for row in rows if row["translation_problem"] is None]
    less = dataclasses.replace(given, output="less.jsonl", on_rejected="drop")
    assert recipe.translate(less) == (len(good), 14 - len(good)) and read(captions / "less.jsonl") == good
    with pytest.raises(InputError, match=r"output='out.jsonl': expected a new file"):
        recipe.translate(given)


def test_files_without_references_are_translated_and_columns_checked_before_the_model(captions, m2m100):
    rows = [{name: row[name] for name in ("id", "caption")} for row in ROWS]
    write_jsonl(captions / "in.jsonl", rows)
    assert recipe.translate(settings(m2m100, on_rejected="keep")) == (len(rows), 0)
    made = read(captions / "out.jsonl")
    assert [row["original"] for row in made] == [row["caption"] for row in rows]
    assert not any("references" in name for row in made for name in row)
    (captions / "in.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(InputError, match="caption"):
        recipe.translate(settings("nowhere", output="new.jsonl"))


def test_a_killed_run_continues_where_it_was(captions, m2m100, monkeypatch):
    recipe.translate(settings(m2m100, output="whole.jsonl"))
    plain, seen = Translator.translate, []

    def dies(self, texts, *languages):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(texts)
        return plain(self, texts, *languages)

    monkeypatch.setattr(Translator, "translate", dies)
    with pytest.raises(KeyboardInterrupt):
        recipe.translate(settings(m2m100))
    assert not (captions / "out.jsonl").exists()
    with pytest.raises(InputError, match=r"holds blocks of other settings or captions"):
        recipe.translate(settings(m2m100, num_beams=5))
    seen.clear()
    recipe.translate(settings(m2m100))
    assert len(seen) == 1  # of three blocks
    assert (captions / "out.jsonl").read_bytes() == (captions / "whole.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"caption": "  "}, r"line 2.*caption: '  ': expected a text"),
        ({"caption": "a dog " * 40}, r"line 2.*a text has \d+ tokens; the translator reads at most 64"),
        ({"id": 1}, r"line 2.*candidate: the row has no 'caption'"),
        ({"caption": "a dog", "references": ["a", 3]}, r"line 2.*caption: 3: expected a text"),
    ],
)
def test_bad_rows(captions, m2m100, row, message):
    write_jsonl(captions / "in.jsonl", [ROWS[0], {"references": ["a dog"], **row}])
    with pytest.raises(InputError, match=message):
        recipe.translate(settings(m2m100))
    assert [path.name for path in captions.iterdir()] == ["in.jsonl"]


def test_languages_of_captions(captions, m2m100):
    rows = [{**ROWS[0], "language": "en"}, {**ROWS[1], "language": "de-AT"}]
    write_jsonl(captions / "in.jsonl", rows)
    recipe.translate(settings(m2m100, language=None, on_rejected="keep"))
    made = read(captions / "out.jsonl")
    assert [(row["language"], row["original_language"]) for row in made] == [("de", "en"), ("de", "de")]
    assert made[1]["caption"] == rows[1]["caption"] and made[1]["quality"] is None  # it is in German already


def test_the_command(m2m100, capsys, captions):
    config = str(recipe.__file__).replace("translate.py", "configs/translate.yaml")
    line = f"--config {config} --input in.jsonl --output out.jsonl --translator {m2m100} --device cpu"
    main(f"{line} --num_beams 4 --candidates 3 --max_new_tokens 8 --languages de".split())
    n = len(read(captions / "out.jsonl"))
    told = f"{n} rows written to out.jsonl, {7 - n} dropped; quality: cosine:embedded-free"
    assert told in capsys.readouterr().out
