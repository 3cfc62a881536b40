"""Metrics that read texts only: literal scores, languages, signatures, frequencies counted before."""

import json
import math
import pickle
import unicodedata
import warnings
from unittest import mock

import numpy as np
import pytest

import capscore
from capscore.errors import CapscoreError, CorpusWarning, InputError, LanguageWarning, MissingExtraError
from capscore.metrics.cider import DocumentFrequencies
from capscore.text.segmentation import segmenter_name, tokenize
from tools.tiny.colours import meteor_counts

COUNTING = ["cider", "cider_d", "bleu", "rouge_l"]
CAPTIONS = ["a red kite", "a dog runs", "two dogs and dogs"]
REFERENCES = [["a red kite flies", "the kite"], ["a dog", "one dog runs"], ["two dogs run", "dogs"]]
# test_formulas.py computes CIDEr once more with dictionaries
CIDER = [3.4920539049332158, 3.383291592689095, 1.5347471431789816]
PAPER = [3.5408930291059546, 3.408056871239083, 2.4148145657226703]


def score(metric, captions=CAPTIONS, references=REFERENCES, language="en", on_error="raise", **options):
    rows = {"references": references, "language": language, "on_error": on_error}
    return capscore.load(metric, **options).score(captions, **rows)


def test_cider_and_rouge_l():
    for metric in ("cider", "cider_d"):
        np.testing.assert_allclose(score(metric).scores, CIDER, atol=1e-9)
    np.testing.assert_allclose(score("cider", variant="paper").scores, PAPER, atol=1e-9)

    # P and R: 3/3 and 3/4; 2/3 and 2/2 with one reference, 2/3 and 2/3 with the other; 2/4 and 2/3, 2/4 and 1
    def f(precision, recall):
        return (1 + 1.44) * precision * recall / (recall + 1.44 * precision)

    np.testing.assert_allclose(score("rouge_l").scores, [f(1, 3 / 4), f(2 / 3, 1), f(1 / 2, 1)], atol=1e-9)


def test_bleu():
    with pytest.warns(CorpusWarning, match="2 of 3 captions have fewer than 4 words"):
        scores = score("bleu")
    # words in common 3/3, 2/3 (a, dog; runs is in another reference: 3/3), …; of two references as near the
    # shorter counts, so that no caption is too short
    np.testing.assert_allclose(scores.components["bleu_1"], [1, 1, 0.5], atol=1e-6)
    np.testing.assert_allclose(scores.components["bleu_2"], [1, 1, math.sqrt(1 / 2 * 1 / 3)], atol=1e-6)
    np.testing.assert_allclose(scores.scores, scores.components["bleu_4"], rtol=0, atol=1e-12)
    # of all rows together: words 3 + 3 + 2 of 10, pairs 2 + 2 + 1 of 7, triples 1 + 0 + 0 of 4
    assert scores.corpus["corpus_bleu_1"] == pytest.approx(8 / 10)
    assert scores.corpus["corpus_bleu_2"] == pytest.approx(math.sqrt(8 / 10 * 5 / 7))
    assert scores.scores[0] < 0.04
    assert scores.corpus["corpus_bleu_3"] == pytest.approx((8 / 10 * 5 / 7 * 1 / 4) ** (1 / 3))


@pytest.mark.parametrize("language", [None, "en", "fr"])
@pytest.mark.parametrize(("metric", "best"), [("bleu", 1), ("cider", 10), ("rouge_l", 1)])
def test_a_decomposed_caption_equals_itself(metric, best, language):
    captions = ["une fille préfère le café à l'école", "한 남자가 의자에 앉아 있다", "ёжик один красный дом"]
    composed = [[unicodedata.normalize("NFC", text)] for text in captions]
    scores = score(metric, [unicodedata.normalize("NFD", text) for text in captions], composed, language)
    assert scores.scores == pytest.approx([best] * 3)
    assert scores.settings["segmenter"] == ("space1" if language == "fr" else "ptb2+nfc")
    assert "nfc" not in score(metric, [text for (text,) in composed], composed, language).signature


def test_rouge_l_counts_a_word_with_a_blank_as_one():
    """As coco-caption, which splits at spaces: pycocoevalcap 1.2 on the Java tokenizer's words."""
    captions = ["a 2 1/2 year old boy holds a cup", "call (555) 123-4567 now", "a boy of 2\u20091/2 years"]
    references = [["a boy of 2 1/2 holds a red cup", "a boy 1/2 holds 2 cups"]]
    references += [["a sign says 123-4567", "call (555) 123-4567"], ["a boy of 2 1/2 years"]]
    # the first: "a boy holds a cup" of 8 words, in a reference of 8
    expected = [5 / 8, 0.8299319727891156, 0.7393939393939394]
    assert score("rouge_l", captions, references).scores == pytest.approx(expected)


@pytest.mark.parametrize("language", ["en", "ja", "th", "zh"])
def test_texts_without_words_score_as_in_coco_caption(language):
    """pycocoevalcap 1.2: Cider, Rouge and Bleu(4) of {0: ["a dog runs"], 1: [""]}, references as here."""
    pytest.importorskip({"ja": "fugashi", "th": "pythainlp", "zh": "rjieba"}.get(language, "json"))
    rows = ["a dog runs", ""], [["a dog", "the dog runs"], ["one cat"]], language
    for metric in COUNTING:
        found = score(metric, *rows, empty="score")
        assert found.scores[1] == 0 and found.scores[0] > 0
        assert score(metric, ["...", "a dog", "two dogs"]).scores[0] == pytest.approx(0)
    if language == "en":
        # 3 words beside references of 3 and 2: e^(1 − 5/3)
        corpus = score("bleu", *rows, empty="score").corpus
        assert corpus["corpus_bleu_1"] == pytest.approx(0.5134171186903144)
        assert score("cider", *rows, empty="score").scores == pytest.approx([3.3365689318484023, 0])
    nothing = score("bleu", [3, None], [["a"], ["b"]], on_error="skip")
    assert np.isnan(list(nothing.corpus.values())).all() and "|segmenter:none|" in nothing.signature


def test_empty_references_score_as_in_coco_caption_where_empty_captions_do():
    """pycocoevalcap 1.2's Rouge of these rows: the empty text is one empty word there."""
    rows = ["a dog", "", "a dog"], [["a dog", ""], ["", "a cat"], [" "]]
    assert score("rouge_l", *rows, empty="score").scores.tolist() == [1, 1, 0]
    with pytest.raises(InputError, match="row 0, references: reference 1 is an empty string"):
        score("rouge_l", *rows, empty="skip")


def test_signatures():
    df = score("cider").settings["df"]
    counts, end = f"segmenter:ptb2|df:{df}|n:4|sigma:6", f"refs:2|lang:en|version:{capscore.__version__}"
    stated = {"cider": f"variant:coco|{counts}", "cider_d": counts, "bleu": "segmenter:ptb2"}
    for metric, middle in (stated | {"rouge_l": "segmenter:ptb2|beta:1.2"}).items():
        assert score(metric, language="en-GB").signature == f"{metric}|{middle}|{end}"
    assert len(df) == len("rows@") + 8 and "sigma" not in score("cider", variant="paper").signature


def test_the_signature_names_the_references_that_were_counted():
    first = score("cider").signature
    assert score("cider", ["x", "y", "z"]).signature == first  # candidates are not counted
    assert score("cider", CAPTIONS[::-1], [texts[::-1] for texts in REFERENCES[::-1]]).signature == first
    assert score("cider", references=[*REFERENCES[:2], ["two dogs run", "cats"]]).signature != first
    assert score("cider", CAPTIONS * 2, REFERENCES * 2).signature == first  # the same photos
    rows = {"references": REFERENCES * 2, "language": "en", "image_id": [*range(6)]}
    assert capscore.load("cider").score(CAPTIONS * 2, **rows).signature != first
    assert score("cider", language="de").signature.partition("|refs")[0] != first.partition("|refs")[0]


@pytest.mark.parametrize("metric", ["cider", "rouge_l", "bleu"])
def test_each_language_is_a_corpus_of_its_own_and_unstated_is_english(metric):
    german = ["ein roter Drachen", "ein Hund", "zwei Hunde"], [["ein Drachen"], ["ein Hund läuft"], ["Hunde"]]
    captions = [text for pair in zip(CAPTIONS, german[0], strict=True) for text in pair]
    references = [texts for pair in zip(REFERENCES, german[1], strict=True) for texts in pair]
    mixed = score(metric, captions, references, ["en", "de", "", "de", "en", "de"])
    np.testing.assert_allclose(mixed.scores[::2], score(metric).scores, atol=1e-12)
    np.testing.assert_allclose(mixed.scores[1::2], score(metric, *german, "de").scores, atol=1e-12)
    assert "|lang:de+en+unstated|" in mixed.signature


def test_japanese_is_split_into_words_by_its_segmenter(monkeypatch):
    captions, references = ["猫が寝ている", "犬が走る"], [["猫がソファで寝ている"], ["犬が公園を走る"]]
    found = score("rouge_l", captions, references, "ja")
    assert 0.5 < min(found.scores) and max(found.scores) < 1
    assert f"|segmenter:{segmenter_name('ja')}|" in found.signature
    missing = mock.Mock(side_effect=MissingExtraError("fugashi", "ja", "finding words"))
    monkeypatch.setattr("capscore.metrics.with_references.segmenter_name", missing)
    with pytest.raises(MissingExtraError, match=r"\[ja\]"):
        score("cider", captions, references, "ja", on_error="skip")


@pytest.mark.parametrize(("language", "named"), [(None, "not stated"), ("de", "'de'")])
def test_texts_without_spaces_in_a_language_that_has_them_are_warned_about(language, named):
    rows = ["猫が寝ている", "ein Hund"], [["猫がソファで寝ている"], ["ein Hund", "ein Hund läuft"]]
    with pytest.warns(LanguageWarning, match=rf"such as '猫が寝ている' \(language {named}") as caught:
        score("cider", *rows, language)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score("rouge_l", *rows, ["ja", "de"])
        sign = ["ein Schild 出口", "ein Hund"], [["das Schild 出口 an der Wand"], ["ein Hund"]]
        score("rouge_l", *sign, language)


def test_frequencies_that_were_counted_before(tmp_path):
    tokens = [tokenize(texts, "en") for texts in REFERENCES]
    frequencies = DocumentFrequencies.from_references(tokens, segmenter=segmenter_name("en"))
    for given in (frequencies, frequencies.save(tmp_path / "df.npz"), str(tmp_path / "df.npz")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scores = score("cider", CAPTIONS[1:2], REFERENCES[1:2], document_frequencies=given)
        np.testing.assert_allclose(scores.scores, CIDER[1:2], atol=1e-9)
        assert f"|df:{frequencies.fingerprint}|" in scores.signature


def test_frequencies_of_other_words_are_refused():
    other = DocumentFrequencies.from_references([[["a"]], [["b"]]], segmenter="another-1")
    for language, named in (("en", "'en'"), (None, "not stated")):
        with pytest.raises(InputError, match=f"^row 0, language: .*{named} .* of another-1"):
            score("cider", document_frequencies=other, language=language)


ALIKE = [["a dog", "one dog"], ["one dog", "a dog"]]
OTHER_LETTERS, NO_WORDS = [["A dog."], ["a dog"]], [["🐕"], ["🐈!"]]


@pytest.mark.parametrize("references", [[["a dog"]], ALIKE, OTHER_LETTERS, NO_WORDS])
def test_references_that_do_not_identify_rows_give_a_warning(references):
    n = len(references)
    with pytest.warns(CorpusWarning, match=f"{n} in 'en'.* 0 by definition") as caught:
        scores = score("cider", ["a dog", "a cat"][:n], references)
    assert scores.scores.tolist() == [0.0] * n
    assert sum(warning.category is CorpusWarning for warning in caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("metric", ["meteor", "spice"])
def test_meteor_and_spice_get_distinct_rows_of_words(monkeypatch, metric):
    calls = []

    def program(candidates, references, *more):
        calls.append((candidates, references, *more))
        scores = np.arange(len(candidates)) / 4
        return (scores, meteor_counts(scores)) if metric == "meteor" else scores

    if metric == "meteor":
        monkeypatch.setattr("capscore.metrics.meteor.Knowledge", str)
        monkeypatch.setattr("capscore.metrics.meteor.meteor_with_counts", program)
    else:
        monkeypatch.setattr("capscore.metrics.spice.SPICE.program", staticmethod(program))
    captions, references = ["A red kite!", "The dog."], [["the kite", "A kite."], ["A dog runs"]]
    scores = score(metric, [*captions, captions[0]], [*references, references[0]])
    once = (["a red kite", "the dog"], [["the kite", "a kite"], ["a dog runs"]])
    assert calls == ([(*once, "en")] if metric == "meteor" else [([], []), once])
    assert scores.scores.tolist() == [0, 1 / 4, 0]
    assert scores.corpus == ({"corpus_meteor": pytest.approx(0.25 / 3)} if metric == "meteor" else {})
    modules = "modules:exact+stem+synonym+paraphrase|"
    program = f"1.5|implementation:python|{modules}" if metric == "meteor" else "1.0|"
    assert scores.signature.startswith(f"{metric}|program:{program}segmenter:ptb2|refs:var|lang:en|")
    known = "cs, da, de, .*, tr" if metric == "meteor" else "English"
    with pytest.raises(InputError, match=f"^row 1, language: {metric} scores.*{known}.*'ja'"):
        score(metric, language=["en", "ja", "en"])


DOCUMENTS = [[["a", "red", "kite"], ["a", "kite"]], [["a", "red", "hat"]], [["snow"]]]


@pytest.fixture
def frequencies():
    return DocumentFrequencies.from_references(DOCUMENTS, segmenter="blanks")


def test_literal_frequencies(frequencies):
    assert (frequencies.n_documents, frequencies.words) == (3, ["a", "red", "kite", "hat", "snow"])
    # the words; "a red", "a kite", "red kite", "red hat"; "a red kite", "a red hat"
    assert frequencies.firsts.tolist() == [0, 5, 9, 11, 11]
    assert frequencies.counts.tolist() == [2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1]


def test_frequencies_can_be_saved_read_back_and_distinguished(frequencies, tmp_path):
    read = DocumentFrequencies.load(frequencies.save(tmp_path / "frequencies.npz"))
    assert [file.name for file in tmp_path.iterdir()] == ["frequencies.npz"]
    assert (read.n_documents, read.words, read.segmenter) == (3, frequencies.words, "blanks")
    for name in ("firsts", "prefixes", "lasts", "counts"):
        np.testing.assert_array_equal(getattr(read, name), getattr(frequencies, name))
    assert read.fingerprint == frequencies.fingerprint
    others = (DOCUMENTS, DOCUMENTS[:2], DOCUMENTS * 2, [[["a", "red"]]], [[["a"]], [["red"]]])
    assert len({DocumentFrequencies.from_references(each).fingerprint for each in others}) == 5
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "taken", tmp_path / "nowhere" / "frequencies.npz"):
        with pytest.raises(CapscoreError, match="could not be written"):
            frequencies.save(path)


def test_other_and_damaged_files_are_refused_by_name(frequencies, tmp_path):
    """Wherever a byte is changed or the file ends: an error that names it, or the same frequencies."""
    path = tmp_path / "damaged.npz"
    with pytest.raises(CapscoreError, match="cannot be read: No such file"):
        DocumentFrequencies.load(path)
    content, refused = frequencies.save(tmp_path / "whole.npz").read_bytes(), 0
    cuts = range(0, len(content), 29)
    changed = [content[:cut] + b"\xa5" + content[cut + 1 :] for cut in cuts]
    np.savez(tmp_path / "other.npz", counts=np.zeros(3))
    other = [b"a red kite", (tmp_path / "other.npz").read_bytes()]
    for damaged in (*other, *changed, *(content[:cut] for cut in cuts)):
        path.write_bytes(damaged)
        try:
            assert DocumentFrequencies.load(path).fingerprint == frequencies.fingerprint
        except CapscoreError as error:
            assert "damaged.npz' is not what DocumentFrequencies.save writes" in str(error)
            refused += 1
    assert refused > len(cuts)


def test_arrays_that_unpack_beyond_the_limit_are_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "zeros.npz", counts=np.zeros(10_000))
    monkeypatch.setenv("CAPSCORE_MAX_LIST_BYTES", "80000")  # the array alone, without its header
    with pytest.raises(CapscoreError, match=r"zeros\.npz'? unpacks to more than it may: .*MAX_LIST_BYTES"):
        DocumentFrequencies.load(tmp_path / "zeros.npz")


CONTRADICTIONS = [{"about": {"version": 1}}, {"about": {"n_documents": 10**400}}, {"counts": np.ones(11)}]


@pytest.mark.parametrize("changes", CONTRADICTIONS)
def test_files_that_contradict_themselves_are_refused(frequencies, tmp_path, changes):
    path = frequencies.save(tmp_path / "frequencies.npz")
    with np.load(path) as file:
        parts = dict(file)
    about = json.loads(parts["about"].tobytes()) | changes.get("about", {})
    parts |= {**changes, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
    np.savez(path, **parts)
    with pytest.raises(CapscoreError, match="is not what"):
        DocumentFrequencies.load(path)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_is_called_one_and_not_opened(tmp_path, protocol):
    path = tmp_path / "coco-val-df.p"
    path.write_bytes(pickle.dumps({("a",): 1}, protocol))
    with pytest.raises(CapscoreError, match="is a pickle"):
        DocumentFrequencies.load(path)


def test_documents_that_cannot_be_counted():
    text = [[["a"]], ["a red kite"]]
    for documents, message in ((text, "row 1, references: 'a red kite'"), ([[]], "row 0, "), ([], "no doc")):
        with pytest.raises(InputError, match=message):
            DocumentFrequencies.from_references(documents)
