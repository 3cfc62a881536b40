"""The recipe of the marks on drawn photos of shapes: features, draws, losses, curves, weights and card."""

import json
import sys
from collections import Counter
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from torch.nn import functional as F

from capscore.embedding.background import Curve
from capscore.errors import CapscoreError, MissingExtraError
from capscore.images.boxes import overlaps
from capscore.infometic.mark_calibration import MARKED_CLASSES, RATES, SHARED, load_mark_calibration
from tools.tiny.official import write_jsonl
from weights.making.held_out import HeldOut, Photo
from weights.making.mark_calibration import __main__ as recipe
from weights.making.mark_calibration import boxes as box_command
from weights.making.mark_calibration import calibrate, draws, features, objects
from weights.making.mark_calibration.draws import (
    SUPPORTED,
    MarkLoss,
    WordDraws,
    cell_boxes,
    common_nouns,
    like_words,
    rare_things,
)
from weights.making.mark_calibration.features import rows_at
from weights.making.mark_calibration.rows import COCO_THINGS, names_of_things, split_of
from weights.making.settings import MarkCalibrationSettings

NOUN = MARKED_CLASSES.index("noun")
SHAPES = {
    "dog": ("red", "A red dog runs on grass.", "Ein roter Hund läuft."),
    "car": ("blue", "Two blue cars wait in the street.", "Ein blaues Auto wartet."),
    "boat": ("green", "A green boat floats on the lake.", "Ein grünes Boot schwimmt."),
    "horse": ("brown", "The brown horse jumps over a fence.", "Das braune Pferd springt."),
}
N_PHOTOS = 20


@pytest.fixture(scope="module", autouse=True)
def small(embedded, embedded_free):
    with pytest.MonkeyPatch.context() as patch:
        backbones = {"embedded": embedded, "embedded-free": embedded_free}
        patch.setattr(recipe, "load_backbone", lambda name, **options: backbones[name])
        names = ({"en": "violin", "de": "geige"}, {"en": "piano", "de": "klavier"}, {"en": "bear"})
        patch.setattr(features, "names_of_things", lambda: names)
        patch.setattr(calibrate, "LEAST", 2)
        patch.setattr(calibrate, "_STEPS", 10)
        patch.setattr(draws, "NOUN_COUNT", 1)
        patch.setattr(objects, "_STEPS", 60)
        yield


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Captioned photos, every third for calibration and one to measure on."""
    folder = tmp_path_factory.mktemp("photos")
    listed, boxes = [], {}
    for number in range(N_PHOTOS):
        photo, file = Image.new("RGB", (64, 48), "grey"), folder / f"{number}.png"
        thing = list(SHAPES)[number % 4]
        colour, english, german = SHAPES[thing]
        ImageDraw.Draw(photo).rectangle((10, 10, 45, 40), fill=colour)
        boxes[str(file)] = [[10 / 64, 10 / 48, 45 / 64, 40 / 48, COCO_THINGS.index(thing), 0.9]]
        split = "measure" if number == 19 else ("calibrate" if number % 3 == 2 else "train")
        captions = [[english, "en", "x"], [german, "de", "x"], [f"a {thing}", "en", "x"]]
        photo.save(file)
        listed.append({"photo": f"Flickr {number}", "file": str(file), "split": split, "captions": captions})
    (folder / "boxes.json").write_text(json.dumps(boxes))
    return write_jsonl(folder / "rows.jsonl", listed)


def settings(file, out, **given):
    values = {
        "out": str(out), "rows": str(file), "boxes": str(file.with_name("boxes.json")), "max_steps": 2,
        "batch_size": 5, "reduced": 8, "hidden": 8, "inner": 12, "captions": 2, "others": 1,
        "languages": ["en:2"], "checkpoint_every": 2, **given,
    }  # fmt: skip
    return MarkCalibrationSettings(**values)


@pytest.fixture(scope="module")
def trained(rows, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "marks"
    return recipe.train(settings(rows, out)), out


@pytest.fixture(scope="module")
def seen(trained, rows, embedded):
    return features.prepare(str(rows), embedded, 8, trained[1] / "features")


@pytest.fixture(scope="module")
def network(trained):
    return load_mark_calibration(trained[1]).network


def draws_of(seen, photos=None, batch_size=5, **given):
    options = {"captions": 2, "others": 1, "rare": 0, "batch_size": batch_size, **given}
    chosen = np.flatnonzero(seen.split == "train").tolist() if photos is None else photos
    return WordDraws(seen, chosen, MarkCalibrationSettings("o", rows="r", boxes="b", **options))


def words_of(seen, photo):
    return {word for own in seen.captions_of[photo] for word in seen.word[seen.words_of(own)].tolist()}


def test_a_run_writes_weights_and_card_and_continues_from_its_end(trained, rows, embedded):
    result, out = trained
    assert result.finished and result.step == 2 and {"words", "confidence", "boxes"} <= set(result.losses)
    loaded = load_mark_calibration(out, backbone=embedded)
    assert loaded.backbone == "embedded" and set(loaded.nouns) == {"de", "en"}
    assert loaded.fits[SHARED].scale != 0  # after two steps it may have either sign
    assert loaded.notes["photos"] == {"train": 13, "calibrate": 6}
    card, told = (out / "README.md").read_text(), ("weights.making.mark_calibration --config", "YOLOX")
    assert all(text in card for text in (*told, "6 of the held-out photos"))
    written = {path: path.stat().st_mtime_ns for path in out.glob("features/*/*")}
    again = recipe.train(settings(rows, out))
    assert again.resumed_from == 2 and len(written) > 10
    assert written == {path: path.stat().st_mtime_ns for path in out.glob("features/*/*")}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"boxes": "nowhere.json"}, "nowhere.json' cannot be read"),
        ({"base": "embedded-free"}, "feature map"),
        ({"hidden": -1}, "hidden"),
        ({"dropout": 1.1}, "dropout"),
    ],
)
def test_bad_settings_are_named_before_anything_is_computed(rows, tmp_path, change, said):
    with pytest.raises(CapscoreError, match=said):
        recipe.train(settings(rows, tmp_path / "marks", **change))
    assert not (tmp_path / "marks").exists()


def test_features_are_the_backbone_s_rows(seen, embedded):
    photo, word = Image.open(seen.files[5]).convert("RGB"), seen.place_of["en", "dog"]
    cells = embedded.feature_maps([embedded.preprocess(photo)]).flatten(2).transpose(1, 2)[0].numpy()
    caption = seen.captions.index("a dog")
    for found, expected, error in (
        (seen.whole[5], embedded.encode_images([photo])[0], 1e-3),
        (seen.embeddings[word], embedded.encode_texts(["dog"])[0], 1e-3),
        (seen.texts[caption], embedded.encode_texts(["a dog"])[0], 1e-3),
        (seen.cells[5], cells @ seen.weight.T + seen.bias, 2e-2),
    ):
        assert found.astype(float) == pytest.approx(expected, abs=error)
    assert seen.there.sum(axis=1).min() > 20
    assert len(seen.start) == len(seen.captions) + 1 and seen.start[-1] == len(seen.word)


def test_the_support_of_a_word_is_its_best_cosine_with_a_word_of_the_photo(seen):
    word = seen.place_of["de", "hund"]
    for photo in (0, 1):
        rows = seen.embeddings[sorted(words_of(seen, photo))].astype(float)
        best = (rows @ seen.embeddings[word].astype(float)).max()
        assert seen.support[word, photo] / 255 == pytest.approx(best, abs=4e-3)


def test_a_reduction_keeps_most_of_the_variance():
    chance = np.random.default_rng(1)
    base = chance.normal(size=(300, 2)) * [3.0, 1.0]
    cells = base @ chance.normal(size=(2, 6)) + 5.0
    weight, bias = features.reduction(cells, 2)
    found = cells @ weight.T + bias
    assert found.mean(axis=0) == pytest.approx([0, 0], abs=1e-5)
    assert found[:, 0].var() == pytest.approx(1.0, abs=1e-4)
    assert abs(np.corrcoef(found.T)[0, 1]) < 1e-4


def test_an_epoch_draws_each_photo_once(seen):
    made, again = (draws_of(seen, range(N_PHOTOS), 4, languages=["de:2"]) for _ in range(2))
    for epoch in range(2):
        rows = [row for step in range(made.steps_per_epoch) for row in made.batch(epoch, step)]
        assert sorted(row.photo for row in rows) == list(range(N_PHOTOS))
    for first, second in zip(rows[-4:], again.batch(1, made.steps_per_epoch - 1)[-4:], strict=True):
        assert all(np.array_equal(*pair) for pair in zip(first, second, strict=True))
    assert made.chances[0].tolist() == [0.25, 0.5, 0.25]


def test_right_words_come_from_the_photo_and_wrong_ones_have_no_support(seen):
    made, n_wrong = draws_of(seen), 0
    for row in chain.from_iterable(made.batch(0, step) for step in range(made.steps_per_epoch)):
        assert set(row.words[row.right > 0].tolist()) <= words_of(seen, row.photo)
        wrong = row.words[row.right == 0]
        assert (seen.support[wrong, row.photo] < SUPPORTED * 255).all()
        n_wrong += len(wrong)
    assert n_wrong > 20


def test_rare_things_are_among_the_wrong_words(seen):
    rare = rare_things(seen)
    assert seen.place_of["en", "violin"] in rare["en"] and seen.place_of["de", "geige"] in rare["de"]
    found = [row.words[row.right == 0] for row in draws_of(seen, rare=3, others=0).batch(0, 0)]
    assert set(np.concatenate(found).tolist()) & set(np.concatenate(list(rare.values())).tolist())


def test_the_most_frequent_nouns_come_first(seen, monkeypatch):
    monkeypatch.setattr(draws, "MOST_NOUNS", 3)
    nouns = common_nouns(seen, range(N_PHOTOS))
    assert len(nouns["en"]) == 3 and set(nouns["en"][:2]) <= {"dog", "horse", "boat", "car"}
    monkeypatch.setattr(draws, "NOUN_COUNT", 99)
    assert common_nouns(seen, range(N_PHOTOS)) == {}


def test_nouns_like_a_word_are_the_nearest_of_its_language_that_mean_something_else():
    angles = np.linspace(0, np.pi, 40)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    words = [("en", str(number)) for number in range(40)] + [("de", "x")]
    counted = np.repeat(np.arange(41), [2, *[3] * 40])  # the first is not frequent
    kinds, embeddings = np.full(len(counted), NOUN), np.vstack([rows, rows[:1]])
    alike = like_words(SimpleNamespace(words=words, word=counted, word_class=kinds, embeddings=embeddings))
    cosines = rows @ rows[5]
    expected = [number for number in np.argsort(-cosines).tolist() if number and cosines[number] <= 0.6]
    assert alike[5].tolist()[: len(expected)] == expected[:24] and (alike[40] == -1).all()


def test_the_target_of_a_cell_is_the_smallest_box_around_it():
    boxes = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5], [0.9, 0.9, 0.95, 0.95]])
    wanted, there = cell_boxes(boxes, 2, 2)
    assert there.tolist() == [True] * 4
    assert wanted[0].tolist() == [0.0, 0.0, 0.5, 0.5] and wanted[3].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert not cell_boxes(np.zeros((0, 4)), 3, 3)[1].any()


def test_the_loss_is_that_of_words_and_of_boxes(seen, network):
    """A second time, from the logits of each photo."""
    drawn = draws_of(seen).batch(0, 0)[:2]
    boxes = {drawn[0].photo: np.array([[0.1, 0.1, 0.9, 0.9]])}
    found = MarkLoss(seen, boxes, 0.5)(network, drawn, lambda rows: rows)
    logits = []
    with torch.no_grad():
        for row in drawn:
            words, classes = rows_at(seen.embeddings, row.words)[None], torch.from_numpy(row.classes)[None]
            logits.append(network.word_logits(seen.seen([row.photo]), words, classes)[0])
    logits, right = torch.cat(logits).numpy(), np.concatenate([row.right for row in drawn]) > 0
    words = np.logaddexp(0, -logits[right]).mean() / 2 + np.logaddexp(0, logits[~right]).mean() / 2
    height, width = seen.side.tolist()
    cells = rows_at(seen.cells, [drawn[0].photo])
    confidence, shown = (item[0] for item in network.object_boxes(cells, height, width))
    across, down = ((torch.arange(n) + 0.5) / n for n in (width, height))
    inside = (((down - 0.5).abs() < 0.4)[:, None] & ((across - 0.5).abs() < 0.4)).flatten()
    confidence = F.binary_cross_entropy_with_logits(confidence, inside.float()).item()
    common = overlaps(shown[inside].detach().numpy(), np.array([[0.1, 0.1, 0.9, 0.9]]))
    total = words + 0.5 * (confidence + 1 - common.mean())
    expected = {"words": words, "confidence": confidence, "boxes": 1 - common.mean(), "loss": total}
    assert {name: term.item() for name, term in found.items()} == pytest.approx(expected, abs=1e-5)


def test_nouns_are_like_the_names_of_things(embedded):
    alike = objects.like_things(embedded.encode_texts(["Hund", "femme"]), embedded)
    assert alike[0, COCO_THINGS.index("dog")] > 0.7 and alike[1, COCO_THINGS.index("person")] > 0.7
    assert alike[:, COCO_THINGS.index("toaster")].max() < 0.5


def test_a_word_has_learned_to_name_its_region(rows, seen, network, embedded):
    boxes = objects.read_boxes(str(rows.with_name("boxes.json")), seen.files)
    things = objects.Things(seen, boxes, embedded)
    photos, others = things.photos(0)
    assert 10 <= len(photos) < N_PHOTOS and sorted([*photos, *others]) == list(range(N_PHOTOS))
    assert [*things.shown] == list(range(N_PHOTOS)) and things.shown[1][0, 4] == COCO_THINGS.index("car")
    nouns = [seen.place_of["en", name] for name in SHAPES]
    words = rows_at(seen.embeddings, nouns).expand(len(photos), 4, 512)
    regions = torch.from_numpy(np.stack([things.rows[photo] for photo in photos])).float()
    whole = rows_at(seen.whole, photos)
    found = network.naming_logits(words, regions, whole)[:, :, 0].argmax(dim=1)
    assert (found.numpy() == np.array(photos) % 4).mean() > 0.9


def test_a_curve_has_the_quantiles_of_right_logits():
    chance = np.random.default_rng(3)
    right, wrong = chance.normal(1.5, 1.2, 900), chance.normal(-0.5, 0.8, 300)
    curve = calibrate.fit_curve(right, wrong)
    assert (curve.scale, curve.bias) == Curve.of(right, wrong)
    p, others = (1 / (1 + np.exp(-(curve.scale * own + curve.bias))) for own in (right, wrong))
    assert curve.quantiles == pytest.approx(np.quantile(p, RATES).tolist(), abs=1e-12)
    assert curve.found == pytest.approx((others < curve.quantiles[10]).mean(), abs=1e-12)
    apart = calibrate.fit_curve(np.array([5.0, 6.0]), np.array([-5.0, -6.0]))
    assert np.isfinite([apart.scale, apart.bias]).all() and apart.found == 1.0
    assert calibrate.fit_curve(right[:1], wrong) is None


def test_other_languages_count_as_so_many_logits_together(monkeypatch):
    """Weights 1, 1, and ½ for each of the others: .1, .3, .5 and .9 lie at ½, 1¼, 2 and 2¾ of 3."""
    monkeypatch.setattr(calibrate, "PRIOR", 1)
    monkeypatch.setattr(calibrate, "RATES", (0.0, 1 / 6, 5 / 12, 0.5, 1.0))
    found = calibrate._quantiles(np.array([0.1, 0.5]), np.array([0.3, 0.9]))
    assert found.tolist() == pytest.approx([0.1, 0.1, 0.3, 0.3 + 0.2 / 3, 0.9])


def test_each_half_is_judged_by_layers_trained_on_the_other(monkeypatch):
    """The halves have opposite labels, so each is judged wrongly; unknown ones teach nothing."""
    monkeypatch.setattr(calibrate, "_STEPS", 200)
    torch.manual_seed(0)
    inputs = torch.linspace(-1, 1, 40)[:, None]
    half = np.arange(40) % 2
    labels = np.where(half == 0, inputs[:, 0] > 0, inputs[:, 0] < 0).astype(int)
    labels[:2] = -1
    layers = torch.nn.Linear(1, 1)
    logits = calibrate.crossed(layers, lambda rows: layers(rows)[:, 0], inputs, labels, half)
    assert ((logits[2:] > 0) != (labels[2:] == 1)).mean() > 0.8


def test_cases_have_one_wrong_word_that_the_photo_does_not_support(seen):
    photos = seen.of_split("calibrate")
    cases = calibrate.make_cases(draws_of(seen, photos, len(photos), captions=8, rare=2), 0)
    kinds = Counter(case.kind for case in cases)
    assert kinds["right"] == 3 * len(photos) and kinds["planted"] > kinds["right"] and kinds["other"] > 5
    for case in cases:
        own = {seen.captions[caption] for caption in seen.captions_of[case.photo]}
        words, caption = case.words, case.text
        assert all(caption[word.start : word.end] == word.text for word in words)
        assert case.kind != "right" or (caption in own and set(case.labels) == {1, -1})
        assert case.kind != "other" or (caption not in own and set(case.labels) == {-1})
        if case.kind == "planted":
            (wrong,) = np.flatnonzero(case.labels == 0)
            word = seen.place_of[case.language, words[wrong].text.lower()]
            assert caption not in own and seen.support[word, case.photo] < SUPPORTED * 255


class Session:
    """A detector that finds one dog, twice."""

    def __init__(self, file, providers):
        pass

    def get_inputs(self):
        return [SimpleNamespace(name="images")]

    def run(self, names, given):
        assert given["images"].shape == (1, 3, box_command.SIDE, box_command.SIDE)
        found = np.zeros((1, 52 * 52 + 26 * 26 + 13 * 13, 85))
        for cell, certain in ((0, 0.9), (1, 0.7)):
            found[0, cell, :5] = [1.0 - cell, 1.0, np.log(2), np.log(2), 1.0]
            found[0, cell, 5 + 16] = certain
        return [found]


def test_boxes_of_the_training_photos(rows, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace(InferenceSession=Session))
    out = tmp_path / "boxes.json"
    options = ["--rows", str(rows), "--detector", "yolox.onnx", "--out", str(out)]
    box_command.main(options)
    found = json.loads(out.read_text())
    # the photo of 64 × 48 pixels was enlarged 6.5 times; the box is 16 pixels wide
    expected = [0.0, 0.0, *(pytest.approx(16 / 6.5 / side, abs=1e-4) for side in (64, 48)), 16, 0.9]
    assert len(found) == 13 and all(own == [expected] for own in found.values())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match="onnxruntime"):
        box_command.main(options)


def test_a_photo_is_fitted_into_a_square_blue_first():
    pixels, ratio = box_command.fitted(Image.new("RGB", (832, 208), (10, 20, 30)))
    assert pixels.shape == (3, 416, 416) and ratio == 0.5
    assert pixels[:, 0, 0].tolist() == [30, 20, 10] and pixels[:, 300, 0].tolist() == [114, 114, 114]


HELD = HeldOut({Photo("flickr", number): ("Flickr8k test",) for number in range(100, 110)})


def test_the_split_of_a_photo():
    splits = [split_of(Photo("flickr", number), f"{number}.jpg", HELD) for number in (99, 100, 101, 102, 106)]
    assert splits == ["train", "calibrate", "calibrate", "measure", "calibrate"]
    always = Photo("flickr", 100)
    assert split_of(always, "100.jpg", HELD, frozenset([always])) == "measure"
    of_coco = ("COCO_train2014_000000000009.jpg", "COCO_val2014_000000000009.jpg", "000000000009.jpg")
    assert [split_of(Photo("coco", 9), name, HELD) for name in of_coco] == ["train", None, None]
    # an even number: thresholds are set on it
    assert split_of(Photo("coco", 8), of_coco[0], HELD) == "calibrate"


def test_names_of_things_are_single_words():
    names = names_of_things()
    assert len(names) > 200 and len({own["en"] for own in names}) == len(names)
    assert not any(" " in name for own in names for name in own.values())
    assert not {"man", "heart", "smiling"} & {own["en"] for own in names}


@pytest.mark.parametrize("name", ["captions", "reduced", "hidden", "inner"])
def test_captions_and_sizes_of_the_network_are_at_least_one(tmp_path, name):
    with pytest.raises(CapscoreError, match=f"{name}=0: expected a whole number of at least 1"):
        settings(tmp_path / "rows.jsonl", "o", **{name: 0})
