"""The recipe of the judge, on drawn photos of shapes: features, draws, losses, calibration, weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from capscore.errors import CapscoreError, InputError, MissingExtraError
from capscore.infometic.mark_calibration import MARKED_CLASSES, load_mark_calibration
from weights.making.mark_calibration import __main__ as recipe
from weights.making.mark_calibration import boxes as box_command
from weights.making.mark_calibration import calibrate, objects
from weights.making.mark_calibration.boxes import SIDE, decoded, fitted
from weights.making.mark_calibration.draws import (
    SUPPORTED,
    WordDraws,
    cell_boxes,
    common_nouns,
    overlaps_of,
    padded,
    rare_things,
)
from weights.making.mark_calibration.features import load, prepare, reduction
from weights.making.mark_calibration.objects import (
    THINGS,
    alike_objects,
    likeness,
    names_of_objects,
    naming_photos,
    object_regions,
    read_boxes,
    train_naming,
    window_labels,
)
from weights.making.mark_calibration.settings import MarkCalibrationSettings

SHAPES = {
    "dog": ("red", "A red dog runs on grass.", "Ein roter Hund läuft."),
    "car": ("blue", "Two blue cars wait in the street.", "Ein blaues Auto wartet."),
    "boat": ("green", "A green boat floats on the lake.", "Ein grünes Boot schwimmt."),
    "horse": ("brown", "The brown horse jumps over a fence.", "Das braune Pferd springt."),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """24 photos of four things; every third is for calibration, one is measured on."""
    folder = tmp_path_factory.mktemp("photos")
    chance = np.random.default_rng(0)
    listed, boxes = [], {}
    for number in range(24):
        thing = list(SHAPES)[number % 4]
        colour, english, german = SHAPES[thing]
        photo = Image.fromarray(chance.integers(0, 60, (96, 128, 3), dtype=np.uint8))
        ImageDraw.Draw(photo).rectangle((20, 20, 90, 80), fill=colour)
        file = folder / f"{number}.png"
        photo.save(file)
        boxes[str(file)] = [[20 / 128, 20 / 96, 90 / 128, 80 / 96, THINGS.index(thing), 0.9]]
        split = "measure" if number == 23 else ("calibrate" if number % 3 == 2 else "train")
        captions = [[english, "en", "flickr8k"], [german, "de", "multi30k"], [f"a {thing}", "en", "flickr8k"]]
        listed.append({"photo": f"Flickr {number}", "file": str(file), "split": split, "captions": captions})
    path = folder / "judged.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in listed))
    (folder / "boxes.json").write_text(json.dumps(boxes))
    return path


@pytest.fixture(scope="module")
def features(rows, embedded, tmp_path_factory):
    return prepare(rows, embedded, 8, tmp_path_factory.mktemp("features") / "own", lambda message: None)


# ------------------------------------------------------------------ features


def test_the_shapes(features):
    assert features.cells.shape == (24, features.side[0] * features.side[1], 8)
    assert features.whole.shape == (24, 512) and len(features.captions) == 72
    assert features.there.sum(axis=1).min() > 20
    assert len(features.start) == 73 and features.start[-1] == len(features.word) == len(features.word_class)


def test_rows_are_the_backbone_s(features, embedded):
    photo = Image.open(features.files[5]).convert("RGB")
    assert features.whole[5].astype(float) == pytest.approx(embedded.encode_images([photo])[0], abs=1e-3)
    place = features.words.index(("en", "dog"))
    row = embedded.encode_texts(["dog"])[0]
    assert features.embeddings[place].astype(float) == pytest.approx(row, abs=1e-3)
    weight, bias = features.reducer
    cells = embedded.feature_maps([embedded.preprocess(photo)]).flatten(2).transpose(1, 2)[0].numpy()
    assert features.cells[5].astype(float) == pytest.approx(cells @ weight.T + bias, abs=2e-2)


def test_the_support_of_a_word_is_its_best_cosine(features):
    """The second way: one word, one photo."""
    word = features.words.index(("de", "hund"))
    for photo in (0, 1):
        captions = np.flatnonzero(features.photo == photo)
        own = np.unique(np.concatenate([features.word[features.words_of(caption)] for caption in captions]))
        best = (features.embeddings[own].astype(float) @ features.embeddings[word].astype(float)).max()
        assert features.support[word, photo] / 255 == pytest.approx(best, abs=4e-3)


def test_features_are_read_again(features, rows, embedded, tmp_path):
    folder = tmp_path / "again"
    prepare(rows, embedded, 8, folder, lambda message: None)
    written = (folder / "index.json").stat().st_mtime_ns
    prepare(rows, embedded, 8, folder, lambda message: None)
    assert (folder / "index.json").stat().st_mtime_ns == written
    assert np.array_equal(load(folder).whole, features.whole)
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_a_reduction_keeps_most():
    chance = np.random.default_rng(1)
    base = chance.normal(size=(300, 2)) * [3.0, 1.0]
    cells = base @ chance.normal(size=(2, 6)) + 5.0
    weight, bias = reduction(cells, 2)
    found = cells @ weight.T + bias
    assert found.mean(axis=0) == pytest.approx([0, 0], abs=1e-5)
    assert found[:, 0].var() == pytest.approx(1.0, abs=1e-4)
    assert abs(np.corrcoef(found.T)[0, 1]) < 1e-4


# ------------------------------------------------------------------ draws


def draws_of(features, **given):
    options = {
        "captions": 2,
        "others": 1,
        "rare": 0,
        "labelled": 0.0,
        "weights": {"de": 2.0},
        "seed": 0,
        **given,
    }
    return WordDraws(features, np.flatnonzero(features.split == "train").tolist(), 5, **options)


def test_a_draw_depends_on_seed_epoch_and_step_alone(features):
    first, second = draws_of(features), draws_of(features)
    second.batch(0, 0)
    for one, other in zip(first.batch(1, 2), second.batch(1, 2), strict=True):
        assert one.photo == other.photo
        assert np.array_equal(one.words, other.words) and np.array_equal(one.right, other.right)


def test_right_words_are_the_photo_s_and_wrong_ones_have_no_support(features):
    draws = draws_of(features)
    n_wrong = 0
    for step in range(draws.steps_per_epoch):
        for row in draws.batch(0, step):
            own = {
                word
                for caption in np.flatnonzero(features.photo == row.photo)
                for word in features.word[features.words_of(caption)].tolist()
            }
            assert set(row.words[row.right > 0].tolist()) <= own
            wrong = row.words[row.right == 0]
            assert (features.support[wrong, row.photo] < SUPPORTED * 255).all()
            n_wrong += len(wrong)
            assert features.split[row.photo] == "train"
    assert n_wrong > 20


def test_the_most_frequent_nouns_come_first(features):
    nouns = common_nouns(features, range(24), most=3, least=2)
    assert set(nouns["en"]) <= {"dog", "horse", "boat", "car", "cars", "grass", "fence", "lake", "street"}
    assert len(nouns["en"]) == 3
    assert common_nouns(features, range(24), most=3, least=99) == {}


# ------------------------------------------------------------------ photos with labels alone


@pytest.fixture(scope="module")
def with_labels(rows, embedded, tmp_path_factory):
    """The captioned photos, and two that have the name of a thing."""
    folder = tmp_path_factory.mktemp("labelled")
    listed = [json.loads(line) for line in rows.read_text().splitlines()][:6]
    for name, german in (("accordion", "Akkordeon"), ("grand piano", "Klavier")):
        file = folder / f"{name}.png"
        Image.new("RGB", (64, 48), "grey").save(file)
        captions = [[name, "en", "labelled"], [german, "de", "labelled"]]
        row = {"photo": f"labelled photo {name}", "file": str(file), "split": "train", "captions": captions}
        listed.append(row)
    for number, things in enumerate((("bear",), ("toaster", "hot dog"))):
        file = folder / f"{number}.png"
        Image.new("RGB", (64, 48), "white").save(file)
        captions = [[name, "en", "things"] for name in things]
        listed.append({"photo": f"COCO {number}", "file": str(file), "split": "train", "captions": captions})
    path = folder / "judged.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in listed))
    return prepare(path, embedded, 8, folder / "features", lambda message: None)


def test_names_are_nouns_and_in_the_vocabulary(with_labels):
    assert with_labels.labelled.tolist() == [False] * 6 + [True] * 4
    assert with_labels.complete.tolist() == [False] * 8 + [True] * 2
    own = np.flatnonzero(with_labels.photo == 7)
    words = [
        with_labels.words[word] for caption in own for word in with_labels.word[with_labels.words_of(caption)]
    ]
    assert words == [("en", "grand piano"), ("en", "piano"), ("de", "klavier")]
    assert set(with_labels.word_class[with_labels.start[own[0]] :].tolist()) == {MARKED_CLASSES.index("noun")}
    things = [
        {code: with_labels.words[place][1] for code, place in one.items()} for one in with_labels.vocabulary
    ]
    assert {"en": "piano"} in things
    own = np.flatnonzero(with_labels.photo == 9)
    words = {
        with_labels.words[word]
        for caption in own
        for word in with_labels.word[with_labels.words_of(caption)].tolist()
    }
    assert words == {("en", "toaster"), ("en", "hot dog")}  # which is no dog
    assert any(one["en"] == "violin" and one["de"] == "geige" for one in things)


def test_rare_things_are_wrong_words(with_labels):
    """A photo with a label alone has no wrong words from captions, which may well be right."""
    rare = rare_things(with_labels)
    assert with_labels.place_of["en", "accordion"] in rare["en"]
    draws = WordDraws(
        with_labels, range(10), 10, captions=2, others=2, rare=3, labelled=1.0, weights={}, seed=0
    )
    wrong = {row.photo: set(row.words[row.right == 0].tolist()) for row in draws.batch(0, 0)}
    everything = set(np.concatenate(list(rare.values())).tolist()) | set(draws.alike.ravel().tolist())
    assert set(wrong) == set(range(10))
    assert wrong[6] and wrong[7] and wrong[6] | wrong[7] <= everything
    for photo, words in wrong.items():
        assert all(with_labels.support[word, photo] < SUPPORTED * 255 for word in words)


def test_where_all_things_are_named_the_others_are_not_there(with_labels):
    """The bear of the first photo is a wrong word of the second, and not of photos with a label alone."""
    bear, toaster = (with_labels.place_of["en", name] for name in ("bear", "toaster"))
    draws = WordDraws(
        with_labels, [6, 7, 8, 9], 4, captions=4, others=8, rare=0, labelled=1.0, weights={}, seed=0
    )
    draws.alike[:] = -1
    wrong: dict[int, set[int]] = {photo: set() for photo in (6, 7, 8, 9)}
    for epoch in range(5):
        for row in draws.batch(epoch, 0):
            wrong[row.photo] |= set(row.words[row.right == 0].tolist())
    assert bear in wrong[9] and toaster in wrong[8]
    assert not wrong[6] and not wrong[7]


def test_a_share_of_the_labelled_photos_is_drawn(with_labels):
    draws = WordDraws(
        with_labels, range(10), 4, captions=1, others=1, rare=1, labelled=0.5, weights={}, seed=0
    )
    for epoch in range(4):
        drawn = [row.photo for step in range(draws.steps_per_epoch) for row in draws.batch(epoch, step)]
        assert sorted(photo for photo in drawn if photo < 6) == list(range(6))
        assert len([photo for photo in drawn if photo > 5]) == 2


# ------------------------------------------------------------------ losses


def test_a_cell_wants_the_smallest_box_around_it():
    boxes = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5], [0.9, 0.9, 0.95, 0.95]])
    wanted, there = cell_boxes(boxes, 2, 2)
    assert there.tolist() == [True] * 4
    assert wanted[0].tolist() == [0.0, 0.0, 0.5, 0.5] and wanted[3].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_no_boxes():
    assert not cell_boxes(np.zeros((0, 4)), 3, 3)[1].any()


def test_overlaps():
    first = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    second = torch.tensor([[1.0, 1.0, 3.0, 3.0], [0.0, 0.0, 1.0, 1.0], [5.0, 5.0, 6.0, 6.0]])
    assert overlaps_of(first, second).tolist() == pytest.approx([1 / 7, 1.0, 0.0], abs=1e-6)


def test_padding(features):
    rows = draws_of(features).batch(0, 0)
    words, classes, right, there = padded(rows)
    assert there.sum(dim=1).tolist() == [len(row.words) for row in rows]
    assert words[1][there[1]].tolist() == rows[1].words.tolist()
    assert right[~there].abs().max() == 0 and classes.max() < len(MARKED_CLASSES)


# ------------------------------------------------------------------ mentions


def test_what_a_window_shows_is_mentioned_unknown_or_not():
    alike = np.full(len(THINGS), 0.55)
    alike[THINGS.index("dog")], alike[THINGS.index("car")] = 0.9, 0.2
    boxes = np.array(
        [[0, 0, 0.4, 0.4, THINGS.index(name), 0.9] for name in ("dog",)]
        + [[0.6, 0.6, 1, 1, THINGS.index("car"), 0.9], [0.6, 0, 1, 0.4, THINGS.index("cat"), 0.9]]
    )
    windows = np.array([[0, 0, 0.4, 0.3], [0.6, 0.6, 1, 1], [0.6, 0, 1, 0.4], [0, 0.5, 0.4, 1]])
    assert window_labels(windows, boxes, alike).tolist() == [1, 0, -1, -1]


def test_names_of_objects(embedded):
    names = names_of_objects(embedded)
    alike = likeness(embedded.encode_texts(["Hund", "femme"]), names)
    assert alike[THINGS.index("dog")] > 0.7 and alike[THINGS.index("person")] > 0.7
    assert alike[THINGS.index("toaster")] < 0.5
    assert likeness(np.zeros((0, 512)), names).max() == -1


def test_likeness_of_all_words(features, embedded):
    """The second way: one word at a time."""
    found = alike_objects(features, embedded)
    for place in (0, len(features.words) - 1):
        row = features.embeddings[[place]].astype(np.float32)
        assert found[place] == pytest.approx(likeness(row, names_of_objects(embedded)), abs=1e-5)


# ------------------------------------------------------------------ naming


def test_a_word_learns_to_name_its_region(rows, features, embedded, small, monkeypatch, tmp_path):
    monkeypatch.setattr(objects, "_STEPS", 150)
    boxes = read_boxes(str(rows.with_name("boxes.json")), features.files)
    things = object_regions(features, boxes, embedded, tmp_path / "things.npz", lambda message: None)
    written = (tmp_path / "things.npz").stat().st_mtime_ns
    again = object_regions(features, boxes, embedded, tmp_path / "things.npz", lambda message: None)
    assert (tmp_path / "things.npz").stat().st_mtime_ns == written and np.array_equal(again.rows, things.rows)
    assert things.photo.tolist() == list(range(24)) and things.thing[1] == THINGS.index("car")
    judge = recipe.new_network(settings(rows, tmp_path), features)
    photos = naming_photos(boxes, 0)
    assert 12 <= len(photos) < 24
    train_naming(judge, features, things, photos, embedded, 0)
    nouns = [features.place_of["en", name] for name in ("dog", "car", "boat", "horse")]
    words = torch.from_numpy(features.embeddings[nouns].astype(np.float32))
    found = judge.naming_logits(
        words.expand(len(photos), 4, 512),
        torch.from_numpy(things.rows[photos].astype(np.float32))[:, None],
        torch.from_numpy(features.whole[photos].astype(np.float32)),
    )[:, :, 0]
    assert found.argmax(dim=1).tolist() == [photo % 4 for photo in photos]


# ------------------------------------------------------------------ the recipe


def settings(rows, out, **given):
    return MarkCalibrationSettings(
        out=str(out), rows=str(rows), boxes=str(rows.with_name("boxes.json")), steps=4, batch_size=5,
        reduced=8, hidden=8, inner=12, captions=2, others=1, languages=["en:2"], nouns=5, noun_count=1,
        log_every=2, checkpoint_every=2, **given,
    )  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(calibrate, "LEAST", 8)
    monkeypatch.setattr(objects, "_LEAST", 2)
    monkeypatch.setattr(objects, "_STEPS", 20)


def test_the_recipe(rows, tmp_path, small, embedded):
    out = tmp_path / "judge"
    result = recipe.train(settings(rows, out, max_minutes=None), command="make judge")
    assert result.finished and result.step == 4 and "words" in result.losses and "boxes" in result.losses
    loaded = load_mark_calibration(out, backbone=embedded)
    assert loaded.backbone == "embedded" and loaded.nouns["en"]
    assert loaded.notes["photos"] == {"train": 16, "calibrate": 7}
    card = (out / "README.md").read_text()
    assert "judge" in card and "YOLOX" in card and "7 of the held-out photos" in card
    again = recipe.train(settings(rows, out), command="make judge")
    assert again.resumed_from == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"boxes": ""}, "boxes is missing"),
        ({"boxes": "nowhere.json"}, "no file of boxes"),
        ({"base": "embedded-free"}, "feature map"),
        ({"rows": "nowhere.jsonl"}, "cannot be read"),
    ],
)
def test_bad_settings(rows, tmp_path, change, said):
    given = settings(rows, tmp_path / "judge")
    for name, value in change.items():
        setattr(given, name, value)
    with pytest.raises((CapscoreError, FileNotFoundError), match=said):
        recipe.train(given)


@pytest.mark.parametrize("change", [{"steps": 0}, {"dropout": 1.0}, {"rows": ""}, {"languages": ["en"]}])
def test_settings_out_of_range(rows, tmp_path, change):
    with pytest.raises(CapscoreError):
        MarkCalibrationSettings(**{"out": str(tmp_path), "rows": str(rows), **change})


# ------------------------------------------------------------------ boxes of a detector


def test_a_photo_is_fitted_into_a_square():
    pixels, ratio = fitted(Image.new("RGB", (832, 208), (10, 20, 30)))
    assert pixels.shape == (3, SIDE, SIDE) and ratio == 0.5
    assert pixels[:, 0, 0].tolist() == [30, 20, 10] and pixels[:, 300, 0].tolist() == [114, 114, 114]


def test_an_output_is_decoded():
    found = np.zeros((52 * 52 + 26 * 26 + 13 * 13, 7))
    found[53] = [0.5, 0.25, np.log(2), 0.0, 0.8, 0.5, 1.0]  # second row and column of the finest grid
    boxes, scores = decoded(found)
    assert boxes[53].tolist() == pytest.approx([4.0, 6.0, 20.0, 14.0])
    assert scores[53].tolist() == pytest.approx([0.4, 0.8])


class _Session:
    """A detector that finds one dog, twice."""

    def __init__(self, file, providers):
        self.file = file

    def get_inputs(self):
        return [type("Input", (), {"name": "images"})]

    def run(self, names, given):
        assert given["images"].shape == (1, 3, SIDE, SIDE)
        found = np.full((1, 52 * 52 + 26 * 26 + 13 * 13, 85), 0.0)
        for cell, certain in ((0, 0.9), (1, 0.7)):
            found[0, cell, :5] = [1.0 - cell, 1.0, np.log(2), np.log(2), 1.0]
            found[0, cell, 5 + 16] = certain
        return [found]


def test_boxes_of_the_training_photos(rows, tmp_path, monkeypatch):
    module = type("onnxruntime", (), {"InferenceSession": _Session})
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", module)
    out = tmp_path / "boxes.json"
    settings = box_command.Settings(rows=str(rows), detector="yolox.onnx", out=str(out))
    assert box_command.write_boxes(settings) == 16
    ((box,), *_) = json.loads(out.read_text()).values()
    # the photo of 128 × 96 pixels was enlarged 3.25 times; the box is 16 pixels wide
    assert box == [
        0.0,
        0.0,
        pytest.approx(16 / 3.25 / 128, abs=1e-4),
        pytest.approx(16 / 3.25 / 96, abs=1e-4),
        16,
        0.9,
    ]


def test_a_detector_needs_onnxruntime(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match="capscore\\[boxes\\]"):
        box_command.Detector("yolox.onnx")


def test_a_missing_file_of_the_boxes():
    with pytest.raises(InputError, match="--detector is missing"):
        box_command.Settings(rows="rows", out="out")
