"""Language codes, beam search, the choice among candidates, and quality, on tiny checkpoints."""

from __future__ import annotations

import json
import sys
import types
import venv

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.errors import (
    BackboneUnavailable,
    CapscoreError,
    InputError,
    LanguageWarning,
    MissingExtraError,
)
from capscore.translation.choose import choose, translate_texts
from capscore.translation.language_check import Py3LangId, check_is_identified
from capscore.translation.languages import find_language
from capscore.translation.model import BeamSearch, load_translator
from capscore.translation.quality import CometKiwiQuality, CosineQuality, load_quality
from capscore.translation.quartiles import quartiles

from .conftest import Lengths, Letters
from .tiny_translator import TEXTS, tiny_nllb

SEARCH = BeamSearch(6, 4, 10)


# --------------------------------------------------------------- languages


def test_codes_of_m2m100_are_those_of_its_tokenizer(translator):
    assert len(translator.codes) == 100
    tags = ("de", "deu", "de-AT", "de-DE", "zh", "nb", "fil")
    assert [translator.code(tag) for tag in tags] == ["de", "de", "de", "de", "zh", "no", "tl"]


def test_codes_of_nllb(tmp_path):
    nllb = load_translator(str(tiny_nllb(tmp_path)), device="cpu")
    assert sorted(nllb.codes) == ["deu_Latn", "eng_Latn", "fra_Latn", "kor_Hang", "zho_Hans", "zho_Hant"]
    asked = ("de", "deu_Latn", "ko", "zh", "zh-TW", "zho_Hant")
    found = ["deu_Latn", "deu_Latn", "kor_Hang", "zho_Hans", "zho_Hant", "zho_Hant"]
    assert [nllb.code(one) for one in asked] == found
    made = nllb.candidates(["a dog"], "eng_Latn", "deu_Latn", SEARCH)
    assert [len(texts) for texts in made] == [4]
    assert not any(code in text for text in made[0] for code in nllb.codes)
    with pytest.raises(InputError, match=r"does not know the language 'ru'.*it knows deu_Latn, eng_Latn"):
        nllb.code("ru")


def test_a_language_that_the_translator_does_not_know(translator):
    with pytest.raises(
        InputError, match=r"^language: the translator .*model@w[0-9a-f]{8} does not know the la"
    ):
        translator.code("te")
    with pytest.raises(InputError, match="unknown language code 'xx'"):
        translator.code("xx")


def test_a_script_that_the_model_lacks_is_no_other_script():
    with pytest.raises(InputError, match="does not know the language 'zh-TW'"):
        find_language("zh-TW", ["zho_Hans", "deu_Latn"], "a model")


# --------------------------------------------------------------- beam search


def plain_beams(translator, text, target, n_beams, n_candidates):
    """The same search through transformers alone, for one text without padding."""
    tokenizer = translator.tokenizer
    tokenizer.src_lang = "en"
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        made = translator.model.generate(
            **inputs,
            forced_bos_token_id=tokenizer.get_lang_id(target),
            num_beams=n_beams,
            num_return_sequences=n_candidates,
            max_new_tokens=10,
            do_sample=False,
        )
    pieces = tokenizer.sp_model
    words = [[tokenizer.decoder.get(number) for number in row] for row in made.tolist()]
    kept = [[word for word in row if word and word not in ("<s>", "<pad>", "</s>", "<unk>")] for row in words]
    return [pieces.decode(row).strip() for row in kept]


def test_candidates_are_those_of_the_beam_search(translator):
    found = translator.candidates(TEXTS[:2], "en", "de", SEARCH)
    assert found == [plain_beams(translator, text, "de", 6, 4) for text in TEXTS[:2]]
    assert [len(texts) for texts in found] == [4, 4]
    assert any(text for texts in found for text in texts)


@settings(max_examples=6)
@given(
    texts=st.lists(st.sampled_from([*TEXTS, "a", "dog dog dog dog", "on a chair"]), min_size=1, max_size=6)
)
def test_batches_by_length_change_no_translation(translator, texts):
    together = translator.candidates(texts, "en", "de", SEARCH, batch_size=4)
    assert together == [translator.candidates([text], "en", "de", SEARCH)[0] for text in texts]


def test_a_text_that_is_too_long(translator):
    with pytest.raises(InputError, match=r"row 1: the text has \d+ tokens, and .* reads at most 64"):
        translator.candidates(["a dog", "a dog " * 40], "en", "de", SEARCH)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"num_beams": 5, "candidates": 6},
            "candidates=6: expected at most as many as there are beams, num_beams=5",
        ),
        ({"num_beams": 0}, "num_beams=0: expected a whole number of at least 1"),
        ({"max_new_tokens": True}, "max_new_tokens=True: expected a whole number of at least 1"),
    ],
)
def test_settings_of_the_search(options, message):
    with pytest.raises(InputError) as caught:
        BeamSearch(**options)
    assert str(caught.value) == message


def test_what_is_no_translator(tmp_path, m2m100):
    with pytest.raises(
        BackboneUnavailable, match=r"is no folder, nor a Hub id such as 'facebook/m2m100_1.2B'"
    ):
        load_translator("m2m100")
    with pytest.raises(BackboneUnavailable, match=r"has no config\.json"):
        load_translator(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(BackboneUnavailable, match=r"of the kind 'bert'; expected 'm2m_100'"):
        load_translator(str(tmp_path))
    with pytest.raises(CapscoreError, match="goes with a model on the Hub"):
        load_translator(str(m2m100), revision="main")


# --------------------------------------------------------------- choice


def test_the_best_of_the_right_language_is_kept(translator):
    texts = [*TEXTS[:3], TEXTS[0]]
    made = translate_texts(
        texts,
        "en",
        "de",
        translator=translator,
        quality=Lengths(),
        identifier=Letters(),
        search=SEARCH,
        batch_size=2,
    )
    for text, chosen in zip(texts, made, strict=True):
        candidates = [one for one in plain_beams(translator, text, "de", 6, 4) if one]
        right = [one for one in candidates if len(one) % 2 == 0] or candidates
        longest = max(map(len, right), default=0)
        assert chosen.text == next((one for one in right if len(one) == longest), "")
        if candidates:
            assert chosen.quality == pytest.approx(longest / len(text))
            assert chosen.accepted == len({one for one in candidates if len(one) % 2 == 0})
            assert (chosen.problem is None) == (chosen.accepted > 0)
    assert made[0] == made[3]


def test_all_candidates_are_turned_away():
    chosen = choose([("a dog", 0.9, "en"), ("the dog", 0.95, "en"), ("123", 0.1, "")], "de")
    assert (chosen.text, chosen.quality, chosen.accepted) == ("the dog", 0.95, 0)
    assert chosen.problem == (
        "none of 3 candidates is in de by the language check, which takes 2 for en, 1 for no language"
    )
    assert choose([("a dog", 0.9, "en")], None).problem is None
    assert choose([], "de").problem == "the translator wrote nothing"


def test_the_language_check_tells_captions_apart():
    pytest.importorskip("py3langid")
    identifier = Py3LangId()
    texts = [
        "Ein brauner Hund läuft am Strand entlang.",
        "A brown dog runs along the beach.",
        "Un chien brun court le long de la plage.",
        "一只棕色的狗在海滩上奔跑。",
        "Коричневая собака бежит по пляжу.",
        "123 !",
    ]
    assert identifier.identify(texts) == ["de", "en", "fr", "zh", "ru", ""]
    check_is_identified(identifier, "zho_Hans".replace("_", "-"))
    with pytest.raises(InputError, match=r"does not know 'mi'.*language_check=False translates without it"):
        check_is_identified(identifier, "mi")


def test_the_language_check_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'capscore\[translate\]'"):
        Py3LangId()


# --------------------------------------------------------------- quality


def test_cosine_under_a_backbone(embedded_free):
    quality = CosineQuality(embedded_free)
    assert quality.name == f"cosine:embedded-free@{embedded_free.revision}"
    one, other = ["a dog", "a dog", "a cat"], ["ein Hund", "ein Flugzeug", "eine Katze"]
    a, b = embedded_free.encode_texts(one), embedded_free.encode_texts(other)
    expected = [
        float(np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y)) for x, y in zip(a, b, strict=True)
    ]
    found = quality.estimate(one, other)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[0] > found[1]
    with pytest.warns(LanguageWarning, match="was not trained on sw: its cosines say little"):
        quality.check_languages(["de", "sw"])


def comet_package(*, references=False):
    """A package with the interface of unbabel-comet 2.2; its quality is the share of the source's length."""
    asked = []

    class Model:
        def requires_references(self):
            return references

        def predict(self, samples, batch_size, gpus, progress_bar):
            asked.append((samples, batch_size, gpus))
            scores = [len(one["mt"]) / (len(one["src"]) + len(one["mt"])) for one in samples]
            return types.SimpleNamespace(scores=scores)

    package = types.ModuleType("comet")
    package.download_model = lambda name: f"/models/{name}/checkpoints/model.ckpt"
    package.load_from_checkpoint = lambda file: (asked.append(file), Model())[1]
    return package, asked


def test_cometkiwi_gets_pairs_without_references(monkeypatch):
    package, asked = comet_package()
    monkeypatch.setitem(sys.modules, "comet", package)
    quality = load_quality("cometkiwi:org/kiwi", device="cpu")
    assert quality.name == "cometkiwi:org/kiwi"
    np.testing.assert_allclose(quality.estimate(["abc", "a"], ["x", "xyz"]), [0.25, 0.75])
    pairs = [{"src": "abc", "mt": "x"}, {"src": "a", "mt": "xyz"}]
    assert asked == ["/models/org/kiwi/checkpoints/model.ckpt", (pairs, 16, 0)]
    monkeypatch.setitem(sys.modules, "comet", comet_package(references=True)[0])
    with pytest.raises(InputError, match="compares with references"):
        CometKiwiQuality("org/comet")


def test_cometkiwi_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(
        BackboneUnavailable, match=r"COMETKiwi needs the package unbabel-comet .* give quality_py"
    ):
        load_quality("cometkiwi", device="cpu")
    with pytest.raises(InputError, match="quality='bleu': expected cosine, cosine:BACKBONE, cometkiwi"):
        load_quality("bleu")
    with pytest.raises(InputError, match="quality_python='x' goes with quality='cometkiwi'"):
        load_quality("cosine", python="x")


# The interface of unbabel-comet 2.2, and what its packages print.
COMET = """
import sys, types
print("not an answer")
def download_model(name):
    if name == "org/gated":
        raise KeyError(f"Model '{name}' not supported by COMET.")
    return f"{name}.ckpt"
class Model:
    def __init__(self, file):
        self.file = file
    def requires_references(self):
        return self.file == "org/comet.ckpt"
    def predict(self, samples, batch_size, gpus, progress_bar):
        print("predicting")
        if samples[0]["src"] == "die":
            sys.exit("out of memory")
        if samples[0]["src"] == "fail":
            raise RuntimeError("no such layer")
        wanted = len(samples) - (samples[0]["src"] == "few")
        scores = [len(one["mt"]) / (len(one["src"]) + len(one["mt"])) for one in samples]
        return types.SimpleNamespace(scores=scores[:wanted])
load_from_checkpoint = Model
"""


@pytest.fixture(scope="module")
def comet_python(tmp_path_factory):
    """The Python of an environment that has nothing but a package `comet`."""
    folder = tmp_path_factory.mktemp("comet")
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "comet.py").write_text(COMET)
    return folder / "bin" / "python"


def test_cometkiwi_under_another_python(comet_python):
    quality = load_quality("cometkiwi:org/kiwi", device="cpu", python=comet_python)
    assert quality.name == "cometkiwi:org/kiwi"
    np.testing.assert_allclose(quality.estimate(["abc", "ä\n"], ["x", "xyz中"]), [0.25, 4 / 6])
    np.testing.assert_allclose(quality.estimate(["abc"], ["abc"]), [0.5])
    assert quality.estimate([], []).shape == (0,)
    process = quality._model._process
    del quality
    assert process.returncode == 0  # it ends with what uses it


def test_what_may_go_wrong_under_another_python(comet_python, tmp_path):
    def load(model="org/kiwi", python=comet_python):
        return load_quality(f"cometkiwi:{model}", device="cpu", python=python)

    with pytest.raises(
        InputError, match=r"quality_python=.*: expected the Python of an environment .*No such"
    ):
        load(python=tmp_path / "none")
    with pytest.raises(InputError, match="compares with references"):
        load("org/comet")
    with pytest.raises(BackboneUnavailable, match=r"'org/gated' is not available: .*not supported by COMET"):
        load("org/gated")
    with pytest.raises(CapscoreError, match=r"under .* failed: no such layer"):
        load().estimate(["fail"], ["x"])
    with pytest.raises(CapscoreError, match="gave 0 estimates for 1 pairs"):
        load().estimate(["few"], ["x"])
    with pytest.raises(CapscoreError, match=r"ended with exit code 1: .*out of memory"):
        load().estimate(["die"], ["x"])
    (package,) = comet_python.parents[1].glob("lib/python*/site-packages/comet.py")
    hidden = package.rename(package.with_suffix(".away"))
    try:
        with pytest.raises(
            InputError, match=r"has no package unbabel-comet .*python -m pip install unbabel-c"
        ):
            load()
    finally:
        hidden.rename(package)


def test_quartiles_are_those_of_the_paper():
    quality = np.random.default_rng(0).normal(size=41).round(2).tolist()
    low, middle, high = (sorted(quality)[place] for place in (10, 20, 30))  # 41 values: no interpolation
    expected = [1 if q < low else 4 if q > high else 2 if q <= middle else 3 for q in quality]
    assert quartiles(quality) == expected
    assert quartiles([None, 0.5]) == [None, 2]
    assert quartiles([]) == []
