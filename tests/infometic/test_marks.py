"""Marks of words, captions and regions: the network, its curves, its folder, and rows that it judges."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from capscore.errors import BackboneUnavailable, CapscoreError
from capscore.infometic import mark_calibration
from capscore.infometic.mark_calibration import SHARED, CaptionBatch, MarkCurve, MarkNetwork, PhotoBatch
from capscore.infometic.marks import MarkedRow, PhotoFeatures, mark_rows
from capscore.infometic.words import CaptionWord
from tools.tiny.marks import EVEN, SIZES, seen_photos, tiny_marks
from weights.making.mark_calibration.__main__ import save_mark_calibration

WORDS = torch.nn.functional.normalize(torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(1)), dim=2)
CLASSES = torch.tensor([[0, 1, 2, 4], [0, 0, 3, 1], [4, 2, 1, 0]])
CURVE, NEVER, ALWAYS = (MarkCurve(1.0, bias, EVEN, 0.9) for bias in (0.0, -40.0, 40.0))


@pytest.fixture(scope="module")
def loaded():
    return tiny_marks()


def captions(texts, words, judged, classes, logits) -> CaptionBatch:
    return CaptionBatch(*(torch.tensor([part]) for part in (texts, words, judged, classes, logits)))


def network_of_two():
    """A network of two dimensions; naming by cosines alone, and photos (1, 0) and (0, 1) as background."""
    network = MarkNetwork(replace(SIZES, dim=2, background=2))
    network.background.copy_(torch.eye(2))
    network.named_word.weight.data.zero_()
    network.named_cosine.data[:] = torch.tensor([1.0, 0.25])
    return network


def seen_photo(whole, *windows) -> PhotoBatch:
    cells, mask = torch.zeros(1, 6, SIZES.reduced), torch.ones(1, len(windows)).bool()
    return PhotoBatch(cells, torch.tensor([whole]), torch.tensor([windows]), mask)


def test_a_word_is_judged_without_its_neighbours_and_without_padding(loaded):
    seen, judge = seen_photos(3), loaded.network.word_logits
    together = judge(seen, WORDS, CLASSES)
    alone = judge(PhotoBatch(*(part[1:2] for part in seen)), WORDS[1:2, 2:3], CLASSES[1:2, 2:3])
    assert together[1, 2].item() == pytest.approx(alone[0, 0].item(), abs=1e-6)
    windows = torch.cat([seen.windows, torch.full((3, 2, 8), 9.0)], 1)
    more = seen._replace(windows=windows, mask=torch.nn.functional.pad(seen.mask, (0, 2)))
    assert torch.allclose(judge(more, WORDS, CLASSES), together, atol=1e-6)
    few = seen._replace(windows=seen.windows[:, :1], mask=seen.mask[:, :1])
    assert torch.isfinite(judge(few, WORDS, CLASSES)).all()  # one window is enough


def test_logits_of_a_word_against_a_second_computation(loaded):
    """The second way: one word of one photo in NumPy, step by step."""
    part = {name: tensor.double().numpy() for name, tensor in loaded.network.state_dict().items()}
    seen = seen_photos(2)
    cells, whole, windows = (values[1].double().numpy() for values in (seen.cells, seen.whole, seen.windows))
    word, kind = WORDS[1, 2].double().numpy(), int(CLASSES[1, 2])

    def linear(name, row):
        return row @ part[f"{name}.weight"].T + part.get(f"{name}.bias", 0.0)

    def gelu(row):
        return torch.nn.functional.gelu(torch.from_numpy(row)).numpy()

    def attended(name, row):
        asked = linear(f"{name}_key", row) @ query / 2  # √hidden
        total = np.log(np.exp(asked).sum())
        return np.exp(asked - total) @ linear(f"{name}_value", row), total / 4

    query = linear("query", word * 20) + part["word_class.weight"][kind]
    (of_cells, at_cells), (of_windows, at_windows) = attended("cell", cells), attended("window", windows * 20)
    cosines = np.sort(windows @ word)[::-1]
    of_photo = word @ whole, cosines[0], cosines[:3].mean(), np.maximum(cosines, -0.3).mean()
    means = linear("cell_mean", cells.mean(axis=0)), linear("photo", whole * 20), of_windows
    row = [query * of_cells, *(query * mean for mean in means), of_cells, of_windows]
    row = np.concatenate([*row, 5 * np.array(of_photo), [at_cells, at_windows]])
    row = gelu(linear("first", row) + linear("word", word * 20))
    (expected,) = linear("last", row + gelu(linear("second", row)))
    found = loaded.network.word_logits(seen, WORDS[:2], CLASSES[:2])[1, 2]
    assert found.item() == pytest.approx(expected, abs=1e-5)


def test_a_box_holds_the_centre_of_its_cell(loaded):
    logits, boxes = loaded.network.object_boxes(torch.randn(2, 6, SIZES.reduced), 2, 3)
    assert logits.shape == (2, 6)
    x, y = torch.tensor([1, 3, 5, 1, 3, 5]) / 6, torch.tensor([1, 1, 1, 3, 3, 3]) / 4
    assert ((boxes[..., 0] < x) & (x < boxes[..., 2]) & (boxes[..., 1] < y) & (y < boxes[..., 3])).all()


def test_a_caption_fits_that_is_nearer_to_its_photo_than_to_others():
    """By hand: cosine .6, and .5 on average with the background; the lowest of eleven does not count."""
    network, seen = network_of_two(), seen_photo([0.6, 0.8], [0.8, 0.6])
    found = network.fit_logits(seen, torch.tensor([[1.0, 0.0]]))
    assert found.tolist() == pytest.approx([5 * (0.6 - 0.5)], abs=1e-6)
    more = MarkNetwork(replace(SIZES, dim=2, background=11))
    more.background.copy_(torch.tensor([[0.0, 1.0]] + 5 * [[0.6, 0.8]] + 5 * [[1.0, 0.0]]))
    assert more.usual(torch.tensor([[1.0, 0.0]])).tolist() == pytest.approx([0.8], abs=1e-6)


def test_features_of_words_in_a_caption():
    """By hand: two words, the second likely wrong; without it the caption is nearer to the photo."""
    network, seen = network_of_two(), seen_photo([1.0, 0.0], [0.8, 0.6])
    words = [[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]]
    without = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [9.0, 9.0]]])
    shown = captions([0.6, 0.8], words, [True, True, False], [0, 4, 0], [3.0, -1.0, 7.0])
    of_words = network.best_window_logits(seen, shown.words), network.ahead(seen, shown.words)
    found = network.word_features(seen, shown, without, *of_words)
    # own, mean of the others, differences from it and from the lowest other, gain, gain above the other's,
    # gain with the best window, cosine, the same beside the background, number of the others, whether it
    # names the window: cosine · 5 + 0.25; and how much nearer it is to the photo and its best window, which
    # may be the whole, than to the background
    of_caption = [3.0, (0.6 - 0.7) / np.sqrt(0.02) / 2, np.log(2) / 2]
    first = [1.5, -0.5, 2.0, 2.0, 12.0, (0.6 + 0.4) * 20, (0.96 - 0.6) * 20, *of_caption, 5.05 / 2]
    second = [-0.5, 1.5, -2.0, -2.0, -8.0, -20.0, (0.96 - 0.8) * 20, *of_caption, 3.25 / 2]
    ahead = 8 * (0.6 + 0.96 - 0.7), 8 * (0.0 + 0.6 - 0.5)
    assert found[0, 0].tolist() == pytest.approx([*first, 1, 0, 0, 0, 0, ahead[0]], abs=1e-5)
    assert found[0, 1].tolist() == pytest.approx([*second, 0, 0, 0, 0, 1, ahead[1]], abs=1e-5)
    logit = 3 + ahead[0] + network.in_caption(found[..., :-1])[0, 0, 0].item()
    assert network.in_caption_logits(found)[0, 0].item() == pytest.approx(logit, abs=1e-5)
    alone = CaptionBatch(shown.texts, *(part[:, :1] for part in shown[1:]))
    found = network.word_features(seen, alone, without[:, :1], torch.zeros(1, 1), torch.zeros(1, 1))
    assert torch.isfinite(found).all() and found[0, 0, 3] == 0 and found[0, 0, 9] == 0


@pytest.mark.parametrize("noun_first", [True, False])
def test_features_of_a_mention(noun_first):
    """By hand: one word like the region, one unlike it, of which one is a noun."""
    near, far = [0.6, 0.8], [0.0, 1.0]
    network, region, photo = network_of_two(), torch.tensor([[[1.0, 0.0]]]), torch.tensor([[0.8, 0.6]])
    shown = captions(near, [near, far], [True, True], [1 - noun_first, int(noun_first)], [0.0, 0.0])
    naming, box = network.naming_logits(shown.words, region, photo), torch.tensor([[[0.0, 0.0, 0.5, 0.5]]])
    found = network.mention_features(region, box, photo, shown, naming)
    of_noun = (3.0, (0.6 - 0.96) * 5, 3.25 / 2) if noun_first else (0.0, (0.0 - 0.6) * 5, 0.25 / 2)
    expected = [of_noun[0], -1.5, 3.0, of_noun[1], 3.0, 4.0, 0.5, 1.5, of_noun[2], 3.25 / 2]
    assert found[0, 0].tolist() == pytest.approx(expected, abs=1e-6)


def test_which_word_names_which_region(loaded):
    """The second way: one word and one region at a time."""
    network, seen = loaded.network, seen_photos(2)
    found = network.naming_logits(WORDS[:2], seen.windows, seen.whole)
    for photo, word, region in ((0, 0, 1), (1, 2, 4)):
        of_word, of_region = WORDS[photo, word], seen.windows[photo, region]
        told = network.named_word.weight @ of_word * 20
        shown = network.named_region.weight @ torch.cat([of_region, of_region - seen.whole[photo]]) * 20
        weight, bias = network.named_cosine.tolist()
        expected = (told @ shown) / np.sqrt(SIZES.named) + weight * 5 * (of_word @ of_region) + bias
        assert found[photo, word, region].item() == pytest.approx(expected.item(), abs=1e-4)
    masked = seen._replace(mask=torch.zeros(2, 5).bool())
    for none in (masked, masked._replace(windows=seen.windows[:, :0], mask=masked.mask[:, :0])):
        assert network.best_window_logits(none, WORDS[:2]).unique().tolist() == [-6.0]


def test_three_verdicts():
    for p, expected in ((0.6, True), (0.5, True), (0.49, None), (0.11, None), (0.09, False)):
        assert CURVE.verdict(p, 0.05) is expected
    for p in (0.9, 0.01):  # a class whose wrong words are hardly found is never judged
        assert MarkCurve(1.0, 0.0, EVEN, 0.1).verdict(p, 0.05) is None


def test_rates_of_false_alarms():
    assert MarkCurve(1.0, 0.0, (0.9,) * 101, 1.0).threshold(0.05) == 0.5
    assert [CURVE.verdict(0.2, rate) for rate in (0.05, 0.1, 0.15)] == [None, None, False]
    given = [*((n, "noun") for n in (0, 1, 3, 6, 12)), (6, "verb")]
    rates = [mark_calibration.word_rate(0.06, *one) for one in given]
    assert rates == pytest.approx([0.06, 0.06, 0.06, 0.03, 0.015, 0.003])


def test_languages_share_curves():
    english = MarkCurve(2.0, 0.0, EVEN, 0.9)
    curves = {"noun": CURVE}, {SHARED: {"noun": CURVE}, "en": {"noun": english}}, {SHARED: CURVE}, CURVE
    calibration = mark_calibration.MarkCalibration(MarkNetwork(SIZES), *curves)
    assert calibration.word_curve("en", "noun") is english
    assert calibration.word_curve("sw", "noun") is calibration.caption_curve("en") is CURVE
    assert calibration.word_curve("en", "number") is None


def test_a_folder_gives_the_calibration_back(loaded, tmp_path, embedded):
    save_mark_calibration(loaded, tmp_path)
    load = mark_calibration.load_mark_calibration
    again, seen = load(tmp_path), seen_photos(3)
    with torch.inference_mode():
        expected, found = (one.network.word_logits(seen, WORDS, CLASSES) for one in (loaded, again))
    assert torch.allclose(found, expected, atol=2e-2)  # its weights are stored in float16
    curve, read = loaded.words[SHARED]["noun"], again.words[SHARED]["noun"]
    assert again.nouns == loaded.nouns and read == again.mentions
    assert read.quantiles == pytest.approx(curve.quantiles) and read.found == curve.found
    assert again.name.startswith("w") and len(again.name) == 9
    record = json.loads((tmp_path / "config.json").read_text())
    record["calibration"]["words"][SHARED]["noun"]["bias"] += 1
    (tmp_path / "config.json").write_text(json.dumps(record))
    assert load(tmp_path).name != again.name
    with pytest.raises(CapscoreError, match="is for the backbone tiny@w0, not for embedded@"):
        load(tmp_path, backbone=embedded)


OTHER = "not that of a mark calibration"
CHANGES = {"model_type": ("bert", "of type 'bert'"), "format": (1, "format 1"), "sizes": (None, OTHER)}
CHANGES |= {"nouns": ([1], OTHER), "calibration": ({"words": {}}, f"{OTHER}.*alone")}
CASES = [("sizes", {"dim": 8}, "size"), *((name, *row) for name, row in CHANGES.items())]


@pytest.mark.parametrize(("name", "value", "message"), CASES)
def test_a_damaged_config_is_refused(loaded, tmp_path, name, value, message):
    save_mark_calibration(loaded, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(BackboneUnavailable, match=message):
        mark_calibration.load_mark_calibration(tmp_path)


TEXTS = ("dog", "runs", "red", "two", "the")
KINDS = ("noun", "verb", "adjective", "number", "other")


def embed(texts):
    """A text's row depends on the text alone."""
    rows = [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
    return np.array([row / np.linalg.norm(row) for row in rows], np.float32)


def unit(chance, *shape):
    rows = chance.normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def rows():
    chance = np.random.default_rng(0)
    cells = chance.normal(size=(2, 6, SIZES.reduced)).astype(np.float16)
    features = [PhotoFeatures(cells[n], unit(chance, 5 - 2 * n, 8).astype(np.float16)) for n in (0, 1)]
    photos, made = unit(chance, 2, 8), []
    for photo, numbers, language, k in (
        (0, (0, 1, 2), "en", 4), (1, (0,), "de", 1), (0, (4, 3), "en", 0), (1, (), "", 2),
        (0, (2, 2, 0, 1), "ja", 3),
    ):  # fmt: skip
        text, words = "", []
        for number in numbers:
            text, start = f"{text}{TEXTS[number]} ", len(text)
            words.append(CaptionWord(TEXTS[number], start, len(text) - 1, number < 4, KINDS[number]))
        text = text.strip()
        of_photo, about = (features[photo], photos[photo], embed([text])[0]), (text, words, language)
        made.append(MarkedRow(*of_photo, *about, unit(chance, k, 8), chance.random((k, 4))))
    return made


def judged(rows, rate=0.05, found=0.9, **curves):
    calibration = tiny_marks(found)
    for name, curve in curves.items():
        setattr(calibration, name, curve)
    return mark_rows(calibration, rows, embed, rate)


def test_rows_do_not_depend_on_each_other(rows):
    together, backwards = judged(rows), judged(rows[::-1])[::-1]
    for row, *marks in zip(rows, together, backwards, strict=True):
        (alone,) = judged([row])
        for found in marks:
            assert (found.fits, found.correct, found.region) == (alone.fits, alone.correct, alone.region)
            for name in ("p_fits", "p_correct", "p_mentioned"):
                first, second = (np.array(getattr(mark, name), float) for mark in (found, alone))
                np.testing.assert_allclose(first, second, atol=1e-6)
    assert judged([]) == []


def test_the_probability_is_that_of_the_network(rows):
    """The second way: one caption, one photo, step by step without the batches."""
    network, row = tiny_marks().network, rows[0]
    cells, windows = (torch.from_numpy(part.astype(np.float32))[None] for part in row.features)
    seen = PhotoBatch(cells, torch.from_numpy(row.photo)[None], windows, torch.ones(1, 5, dtype=torch.bool))
    classes, there = torch.tensor([[0, 1, 2]]), torch.ones(1, 3, dtype=torch.bool)
    words = torch.from_numpy(embed(TEXTS[:3]))[None]
    rest = torch.from_numpy(embed(["runs red", "dog red", "dog runs"]))[None]
    texts = torch.from_numpy(embed(["dog runs red"]))
    alone = torch.cat([network.word_logits(seen, words[:, [n]], classes[:, [n]]) for n in range(3)], dim=1)
    spoken = CaptionBatch(texts, words, there, classes, alone)
    of_words = network.best_window_logits(seen, words), network.ahead(seen, words)
    features = network.word_features(seen, spoken, rest, *of_words)
    (found,) = judged([row])
    logits = network.in_caption_logits(features)[0]
    assert found.p_correct == pytest.approx(logits.sigmoid().tolist(), abs=1e-6)
    assert found.p_fits == pytest.approx(network.fit_logits(seen, texts).sigmoid().item(), abs=1e-6)


def test_unjudged_words_have_no_verdict(rows):
    found = judged(rows)[2]  # "the" is not semantic, and numbers have no curve
    assert found.p_correct == found.correct == [None, None]
    cut = replace(rows[0], read_to=10)  # "red" ends after it
    assert [p is None for p in judged([cut])[0].p_correct] == [False, False, True]
    hardly = judged(rows, 0.5, found=0.1)
    assert {mark for row in hardly for mark in row.correct} == {None}
    assert any(p is not None for row in hardly for p in row.p_correct)


def test_words_of_a_caption_that_does_not_fit_are_not_judged_alone(rows):
    for found, row in zip(judged(rows, fits={SHARED: NEVER}, mentions=ALWAYS), rows, strict=True):
        assert not found.fits and found.p_fits < 1e-6 and not any(found.mentioned)
        assert found.correct == [None] * len(row.words) == found.region
    rarely = MarkCurve(0.0, float(np.log(0.07 / 0.93)), EVEN, 0.9)  # above 0.04 = 2 · 0.4 · 5 % it fits
    assert all(found.fits for found in judged(rows, fits={SHARED: rarely}))


def test_a_right_word_lies_in_the_region_that_it_names(rows):
    (found,) = judged(rows[:1], words={SHARED: {"noun": NEVER, "verb": ALWAYS}}, fits={SHARED: ALWAYS})
    assert found.correct == [False, True, None]
    assert found.region[0] is None and found.region[1] in range(4) and found.region[2] is None
    regions = np.stack([*unit(np.random.default_rng(5), 2, 8), embed(["runs"])[0]])
    calibration = tiny_marks()
    calibration.network.named_word.weight.data.zero_()  # then cosines decide
    calibration.words, calibration.fits = {SHARED: {"verb": ALWAYS}}, {SHARED: ALWAYS}
    row = replace(rows[0], regions=regions, shares=np.zeros((3, 4)))
    assert mark_rows(calibration, [row], embed, 0.05)[0].region[1] == 2


NOUNS = [("en", "Couple"), ("en", "groups"), ("de", "Gruppe"), ("zh", "一群人")]


@pytest.mark.parametrize("code, noun", NOUNS)
def test_a_noun_that_counts_what_is_together_is_not_judged(rows, code, noun):
    word = rows[0].words[0]
    words = [word._replace(text=noun, end=word.start + len(noun))]
    row = replace(rows[0], text=rows[0].text.replace(word.text, noun), words=words, language=code)
    for language, expected in ((code, None), ("nl", False)):
        (found,) = judged([replace(row, language=language)], words={SHARED: {"noun": NEVER}})
        assert found.correct == [expected] and (found.p_correct == [None]) == (expected is None)
