"""Metrics that read texts only: literal scores, one corpus however rows come, languages, signatures."""

from __future__ import annotations

import itertools
import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import capscore
from capscore.errors import CapscoreError, CorpusWarning, InputError, LanguageWarning, MissingExtraError
from capscore.metrics.base import PreparedRows
from capscore.metrics.formulas.cider import DocumentFrequencies
from capscore.metrics.signature import parse_signature
from capscore.registry import METRICS
from capscore.text.segmentation import segmenter_name, tokenize

COUNTING = ["cider", "cider_d", "bleu", "rouge_l"]

CAPTIONS = ["a red kite", "a dog runs", "two dogs and dogs"]
REFERENCES = [["a red kite flies", "the kite"], ["a dog", "one dog runs"], ["two dogs run", "dogs"]]


def score(metric, captions=CAPTIONS, references=REFERENCES, language="en", **options):
    on_error = options.pop("on_error", "raise")
    return capscore.load(metric, **options).score(
        captions, references=references, language=language, on_error=on_error
    )


# -------------------------------------------------------------------- literal scores


def cider_by_hand(captions, references, *, clip=True, sigma=6.0):
    """CIDEr once more, with dictionaries: each n-gram of each caption by itself."""

    def counts(text, n):
        words = text.split()
        grams = [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
        return {gram: grams.count(gram) for gram in grams}

    scores = []
    for caption, texts in zip(captions, references, strict=True):
        per_order = []
        for n in range(1, 5):
            documents = [{gram for text in row for gram in counts(text, n)} for row in references]

            def vector(text, n=n, documents=documents):
                idf = {
                    g: math.log(len(documents) / max(sum(g in d for d in documents), 1))
                    for g in counts(text, n)
                }
                return {gram: count * idf[gram] for gram, count in counts(text, n).items()}

            own = vector(caption)
            similar = []
            for text in texts:
                other = vector(text)
                norms = math.hypot(*own.values()) * math.hypot(*other.values()) if own and other else 0
                product = sum(
                    (min(own[g], other[g]) if clip else own[g]) * other[g] for g in own if g in other
                )
                apart = max(len(caption.split()) - 1, 0) - max(len(text.split()) - 1, 0)
                penalty = math.exp(-(apart**2) / (2 * sigma**2)) if sigma else 1
                similar.append(penalty * product / norms if norms else 0)
            per_order.append(sum(similar) / len(similar))
        scores.append(10 * sum(per_order) / 4)
    return scores


CIDER = [3.4920539049332158, 3.383291592689095, 1.5347471431789816]
PAPER = [3.5408930291059546, 3.408056871239083, 2.4148145657226703]


def test_rouge_l_counts_a_word_with_a_blank_as_one():
    """As coco-caption, which splits at spaces: pycocoevalcap 1.2 on the Java tokenizer's words."""
    captions = [
        "a 2 1/2 year old boy holds a cup",
        "call (555) 123-4567 now",
        "a boy of 2\u20091/2 years",
        "two dogs",
    ]
    references = [
        ["a boy of 2 1/2 holds a red cup", "a boy 1/2 holds 2 cups"],
        ["a sign says 123-4567", "call (555) 123-4567"],
        ["a boy of 2 1/2 years"],
        ["two dogs run"],
    ]
    scores = score("rouge_l", captions, references).scores
    # the first: "a boy holds a cup" of 8 words, in a reference of 8
    assert scores == pytest.approx([5 / 8, 0.8299319727891156, 0.7393939393939394, 0.7721518987341772])


def test_cider():
    assert CIDER == pytest.approx(cider_by_hand(CAPTIONS, REFERENCES), abs=1e-9)
    assert PAPER == pytest.approx(cider_by_hand(CAPTIONS, REFERENCES, clip=False, sigma=None), abs=1e-9)
    for metric in ("cider", "cider_d"):
        scores = score(metric)
        np.testing.assert_allclose(scores.scores, CIDER, atol=1e-9)
        assert scores.mean == pytest.approx(sum(CIDER) / 3) and not scores.components
    np.testing.assert_allclose(score("cider", variant="coco").scores, CIDER, atol=1e-9)
    np.testing.assert_allclose(score("cider", variant="paper").scores, PAPER, atol=1e-9)


def test_bleu():
    scores = score("bleu")
    # words in common 3/3, 2/3 (a, dog; runs is in another reference: 3/3), …; of two references as near the
    # shorter counts, so that no caption is too short
    np.testing.assert_allclose(scores.components["bleu_1"], [1, 1, 0.5], atol=1e-6)
    np.testing.assert_allclose(scores.components["bleu_2"], [1, 1, math.sqrt(1 / 2 * 1 / 3)], atol=1e-6)
    np.testing.assert_allclose(scores.scores, scores.components["bleu_4"], rtol=0, atol=1e-12)
    corpus = scores.corpus
    # of all rows together: words 3 + 3 + 2 of 10, pairs 2 + 2 + 1 of 7, triples 1 + 0 + 0 of 4
    assert corpus["corpus_bleu_1"] == pytest.approx(8 / 10)
    assert corpus["corpus_bleu_2"] == pytest.approx(math.sqrt(8 / 10 * 5 / 7))
    assert corpus["corpus_bleu_3"] == pytest.approx((8 / 10 * 5 / 7 * 1 / 4) ** (1 / 3))
    summary = scores.summary()
    assert {name: summary[name] for name in corpus} == corpus
    assert list(corpus) == list(METRICS.get("bleu").corpus_names)


def test_rouge_l():
    # P and R: 3/3 and 3/4; 2/3 and 2/2 with one reference, 2/3 and 2/3 with the other; 2/4 and 2/3, 2/4 and 1
    def f(precision, recall):
        return (1 + 1.44) * precision * recall / (recall + 1.44 * precision)

    np.testing.assert_allclose(score("rouge_l").scores, [f(1, 3 / 4), f(2 / 3, 1), f(1 / 2, 1)], atol=1e-9)


# ------------------------------------------------------------------------- the contract


@pytest.mark.parametrize("metric", COUNTING)
def test_images_are_not_opened(metric):
    scorer = capscore.load(metric)
    with_images = scorer.score(CAPTIONS, ["gone.jpg"] * 3, REFERENCES, "en")
    assert with_images.to_dict() == score(metric).to_dict()
    assert with_images.n_unique_images == with_images.n_truncated == 0
    assert with_images.image_keys == ["", "", ""]
    with pytest.raises(InputError, match="images: got 2; expected 3, one per candidate"):
        scorer.score(CAPTIONS, ["gone.jpg"] * 2, REFERENCES)
    with pytest.raises(InputError, match=f"{metric} compares with references, but references=None$"):
        scorer.score(CAPTIONS)


@pytest.mark.parametrize("metric", COUNTING)
def test_a_row_that_fails_counts_for_nothing(metric):
    captions = [*CAPTIONS, None, "a cat"]
    references = [*REFERENCES, ["a kite"], []]
    with pytest.raises(InputError, match=r"^row 3, candidate: expected a caption"):
        score(metric, captions, references)
    scores = score(metric, captions, references, on_error="skip")
    expected = score(metric)
    np.testing.assert_allclose(scores.scores, [*expected.scores, np.nan, np.nan], rtol=0, atol=1e-12)
    assert (scores.mean, scores.corpus) == (expected.mean, expected.corpus)
    assert scores.signature == expected.signature
    assert list(scores.failures) == [3, 4]


@pytest.mark.parametrize("metric", COUNTING)
def test_when_every_row_fails(metric):
    scores = score(metric, [3, None], [["a"], ["b"]], on_error="skip")
    assert math.isnan(scores.mean) and scores.n_failed == 2
    assert all(value is None for name, value in scores.summary().items() if name.startswith("corpus_"))
    assert "|segmenter:none|" in scores.signature


def test_a_caption_without_words_scores_0():
    for metric in COUNTING:
        assert score(metric, ["...", "a dog", "two dogs"]).scores[0] == pytest.approx(0)


@pytest.mark.parametrize("metric", COUNTING)
def test_signatures(metric):
    name, settings = parse_signature(score(metric, language="en-GB").signature)
    assert name == metric
    keys = {
        "cider": ["variant", "segmenter", "df", "n", "sigma"],
        "cider_d": ["segmenter", "df", "n", "sigma"],
        "bleu": ["segmenter"],
        "rouge_l": ["segmenter", "beta"],
    }
    assert list(settings) == [*keys[metric], "refs", "lang", "version"]
    assert settings["segmenter"] == segmenter_name("en")
    assert (settings["refs"], settings["lang"]) == ("2", "en")
    assert settings["version"] == capscore.__version__
    if metric.startswith("cider"):
        assert re.fullmatch("rows@[0-9a-f]{8}", settings["df"])
        assert (settings["n"], settings["sigma"]) == ("4", "6")
    assert "sigma" not in score("cider", variant="paper").signature


def test_the_signature_names_the_references_that_were_counted():
    first = score("cider").signature
    assert score("cider", ["x", "y", "z"]).signature == first  # candidates are not counted
    assert score("cider", references=[*REFERENCES[:2], ["two dogs run", "cats"]]).signature != first
    twice = score("cider", CAPTIONS * 2, REFERENCES * 2).signature
    assert twice != first
    assert score("cider", language="de").signature.partition("|refs")[0] != first.partition("|refs")[0]


# --------------------------------------------------------- order and pieces change nothing

WORDS = st.lists(st.sampled_from("a the red dog kite runs Hund läuft".split()), min_size=1, max_size=6).map(
    " ".join
)
ROWS = st.lists(
    st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=3), st.sampled_from(["en", "de", ""])),
    min_size=1,
    max_size=10,
)


@pytest.mark.filterwarnings("ignore::capscore.errors.CorpusWarning")
@pytest.mark.parametrize("metric", COUNTING)
@given(rows=ROWS, data=st.data())
def test_rows_in_any_order(metric, rows, data):
    order = data.draw(st.permutations(range(len(rows))))
    straight = score(metric, *zip(*rows, strict=True))
    shuffled = score(metric, *zip(*(rows[place] for place in order), strict=True))
    np.testing.assert_allclose(shuffled.scores, straight.scores[order], atol=1e-9)
    assert shuffled.signature == straight.signature
    assert shuffled.corpus == pytest.approx(straight.corpus)


@pytest.mark.filterwarnings("ignore::capscore.errors.CorpusWarning")
@pytest.mark.parametrize("metric", COUNTING)
@given(rows=ROWS, cuts=st.sets(st.integers(1, 9)))
def test_pieces_are_one_corpus(metric, rows, cuts):
    scorer = capscore.load(metric)
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    pieces = []
    for start, end in itertools.pairwise(edges):
        captions, references, language = zip(*rows[start:end], strict=True)
        pieces.append(scorer.prepare(captions, None, references, language))
    together = scorer.finish(PreparedRows.concatenate(pieces))
    assert together.to_dict() == score(metric, *zip(*rows, strict=True)).to_dict()


# ---------------------------------------------------------------------------- languages


@pytest.mark.parametrize("metric", ["cider", "rouge_l", "bleu"])
def test_each_language_is_a_corpus_of_its_own(metric):
    german = ["ein roter Drachen", "ein Hund", "zwei Hunde"], [["ein Drachen"], ["ein Hund läuft"], ["Hunde"]]
    mixed = score(
        metric,
        [text for pair in zip(CAPTIONS, german[0], strict=True) for text in pair],
        [texts for pair in zip(REFERENCES, german[1], strict=True) for texts in pair],
        ["en", "de"] * 3,
    )
    np.testing.assert_allclose(mixed.scores[::2], score(metric).scores, atol=1e-12)
    np.testing.assert_allclose(mixed.scores[1::2], score(metric, *german, "de").scores, atol=1e-12)
    assert "|refs:var|lang:de+en|" in mixed.signature


def test_a_language_that_is_not_stated_counts_as_english():
    mixed = score("cider", language=["en", "", "en"])
    np.testing.assert_allclose(mixed.scores, score("cider").scores, rtol=0, atol=1e-12)
    assert mixed.settings["df"] == score("cider").settings["df"]
    assert "|segmenter:ptb2|" in mixed.signature and "|lang:en+unstated|" in mixed.signature


def test_a_language_without_a_segmenter_fails_by_row():
    for metric in COUNTING:
        with pytest.raises(InputError, match=r"^row 1, language: Khmer .* written without spaces"):
            score(metric, language=["en", "km", "en"])
        assert list(score(metric, language=["en", "km", "en"], on_error="skip").failures) == [1]


def test_a_segmenter_that_is_missing_is_said_before_any_work(monkeypatch):
    def missing(language):
        raise MissingExtraError("fugashi", "ja", "finding words")

    monkeypatch.setattr("capscore.text.segmentation.segmenter_name", missing)
    with pytest.raises(MissingExtraError, match=r"capscore\[ja\]"):
        capscore.load("cider").prepare(["猫"], references=[["猫"]], language="ja", on_error="skip")


@pytest.mark.parametrize(("language", "said"), [(None, "not stated"), ("de", "'de'")])
@pytest.mark.parametrize("metric", COUNTING)
def test_texts_without_spaces_in_a_language_that_has_them_are_warned_about(metric, language, said):
    captions, references = (
        ["猫が寝ている", "ein Hund"],
        [["猫がソファで寝ている"], ["ein Hund", "ein Hund läuft"]],
    )
    with pytest.warns(LanguageWarning, match=rf"2 of 4 texts .* '猫が寝ている' \(language {said}") as caught:
        score(metric, captions, references, language)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score(metric, captions * 2, [*references, ["犬"], ["Hunde"]], ["ja", "de"] * 2)
        sign = ["ein Schild 出口", "ein Hund"], [["das Schild 出口 an der Wand"], ["ein Hund"]]
        score(metric, *sign, language)


def test_japanese_is_split_into_words():
    captions, references = ["猫が寝ている", "犬が走る"], [["猫がソファで寝ている"], ["犬が公園を走る"]]
    with_language = score("rouge_l", captions, references, "ja")
    assert 0.5 < min(with_language.scores) and max(with_language.scores) < 1
    assert f"|segmenter:{segmenter_name('ja')}|" in with_language.signature


# ---------------------------------------------------------------- document frequencies


def counted(references=REFERENCES, language="en"):
    return DocumentFrequencies.from_references(
        [tokenize(texts, language) for texts in references], segmenter=segmenter_name(language)
    )


def test_frequencies_that_were_counted_before(tmp_path):
    frequencies = counted()
    expected = score("cider").scores
    for given_ in (frequencies, frequencies.save(tmp_path / "df.npz"), str(tmp_path / "df.npz")):
        scores = score("cider", document_frequencies=given_)
        np.testing.assert_allclose(scores.scores, expected, atol=1e-12)
        assert f"|df:{frequencies.fingerprint}|" in scores.signature
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = score("cider", CAPTIONS[1:2], REFERENCES[1:2], document_frequencies=frequencies)
    np.testing.assert_allclose(alone.scores, expected[1:2], atol=1e-12)


def test_frequencies_of_other_words_are_refused():
    frequencies = DocumentFrequencies.from_references([[["a"]], [["b"]]], segmenter="another-1")
    with pytest.raises(InputError, match=r"^row 0, language: texts in 'en' are split .* of another-1"):
        score("cider", document_frequencies=frequencies)
    anonymous = DocumentFrequencies.from_references([[["a"]], [["b"]]])
    with pytest.warns(CorpusWarning, match="knows 17% of the words"):
        assert score("cider", document_frequencies=anonymous).n_failed == 0


@pytest.mark.parametrize(
    ("captions", "references", "rows"),
    [
        (["a dog"], [["a dog"]], "1 row in 'en'"),
        (["a dog", "a cat"], [["a dog", "one dog"], ["one dog", "a dog"]], "2 rows in 'en'"),
        (["a dog", "a cat"], [["A dog."], ["a dog"]], "2 rows in 'en'"),  # other letters, the same words
        (["a dog", "a cat"], [["🐕"], ["🐈!"]], "2 rows in 'en'"),  # no words
    ],
)
def test_references_that_tell_no_row_from_another_are_warned_about(captions, references, rows):
    with pytest.warns(CorpusWarning, match=f"{rows} .* 0 by definition") as caught:
        scores = score("cider", captions, references)
    assert scores.scores.tolist() == [0.0] * len(captions)
    assert len(caught) == 1 and caught[0].filename == __file__


def test_frequencies_of_another_language_are_warned_about():
    german = counted([["ein Hund läuft", "der Hund"], ["eine Katze schläft"]], "de")
    french = ["un chien court", "un chat dort"], [["un chien court"], ["un chat dort sur un sofa"]], "fr"
    with pytest.warns(CorpusWarning, match=r"knows 0% of the words .* in 'fr'") as caught:
        score("cider", *french, document_frequencies=german)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # three words of four are known
        score("cider", ["ein Hund"], [["ein brauner Hund läuft"]], "de", document_frequencies=german)


# ------------------------------------------------------------------------------ loading


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        (
            "cider",
            {"backbone": "embedded"},
            "backbone='embedded': an option of mcs",
        ),
        ("cider", {"cache": False}, "cache=False: an option of mcs"),
        ("rouge_l", {"device": "cpu"}, "device='cpu': an option of mcs"),
        ("bleu", {"document_frequencies": "x.npz"}, "document_frequencies='x.npz': an option of clip_cider"),
        ("mcs", {"document_frequencies": "x.npz"}, "document_frequencies='x.npz': an option of clip_cider"),
        ("cider_d", {"variant": "paper"}, "variant='paper': an option of cider, not of cider_d"),
        ("cider", {"variant": "D"}, "variant='D': expected 'coco' or 'paper'"),
        ("cider", {"document_frequencies": "gone.npz"}, "'gone.npz' cannot be read"),
        ("cider", {"document_frequencies": {"a": 1}}, "document_frequencies={'a': 1}: expected a"),
        ("text_score", {"allow_urls": True}, "allow_urls=True: an option of mcs"),
    ],
)
def test_options_that_do_not_fit(metric, options, message):
    with pytest.raises(CapscoreError, match=message):
        capscore.load(metric, **options)


# ------------------------------------------------------------------- the Java programs


@pytest.fixture
def java(monkeypatch):
    """Programs that give the share of the first reference's words that the caption has."""
    given_ = []

    def program(candidates, references):
        given_.append((list(candidates), [list(texts) for texts in references]))
        shares = [
            sum(word in caption.split() for word in texts[0].split()) / len(texts[0].split())
            for caption, texts in zip(candidates, references, strict=True)
        ]
        return np.array(shares)

    monkeypatch.setattr("capscore.metrics.java_metrics.METEOR.program", staticmethod(program))
    monkeypatch.setattr("capscore.metrics.java_metrics.SPICE.program", staticmethod(program))
    return given_


@pytest.mark.parametrize("metric", ["meteor", "spice"])
def test_java_programs_get_words(java, metric):
    scores = score(metric, ["A red kite!", "The dog."], [["the kite", "A kite."], ["A dog runs"]])
    assert java == [([], []), (["a red kite", "the dog"], [["the kite", "a kite"], ["a dog runs"]])]
    np.testing.assert_allclose(scores.scores, [1 / 2, 1 / 3])
    version = {"meteor": "1.5", "spice": "1.0"}[metric]
    assert scores.signature == (
        f"{metric}|program:{version}|segmenter:{segmenter_name('en')}|refs:var|lang:en"
        f"|version:{capscore.__version__}"
    )


@pytest.mark.parametrize("metric", ["meteor", "spice"])
def test_java_programs_read_english(java, metric):
    with pytest.raises(InputError, match=f"^row 1, language: {metric} scores English captions only.*'de'"):
        score(metric, language=["en", "de", "en"])
    skipped = score(metric, language=["en", "de", ""], on_error="skip")
    assert list(skipped.failures) == [1]


def test_what_a_java_program_lacks_is_said_when_it_is_loaded(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("capscore.metrics.java_metrics._program", lambda *names: None)
    with pytest.raises(CapscoreError, match="METEOR needs Java"):
        capscore.load("meteor")
