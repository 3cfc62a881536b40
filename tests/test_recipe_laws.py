"""What holds for every recipe: it shows its progress, goes on exactly, writes a card, is pushed and loads."""

import functools
import hashlib
import importlib
import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard as HubCard
from PIL import Image
from safetensors.numpy import load_file

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.hub.push import push
from capscore.hub.weights import plan_weights
from tools.tiny.captions import write_captions
from tools.tiny.command import read_jsonl
from tools.tiny.loopback_hub import logged_in
from tools.tiny.official import write_jsonl
from tools.tiny.transformers_models import write_encoder
from training.engine import loop
from training.engine.config import parse
from training.engine.model_card import RECIPES, read_card
from training.engine.recipe import RecipeSettings

from .laws import KINDS, every
from .training.rated_files import write_rated

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")


COLOURS = "red green blue black white brown grey pink".split()


def parallel(folder):
    words = {"dog": "Hund", "cat": "Katze", "boy": "Junge", "girl": "Mädchen"}
    rows = [{"en": f"a {a} and a {b}", "de": f"{words[a]} und {words[b]}"} for a in words for b in words]
    student = write_encoder(folder / "encoder")
    return {"data": [str(write_jsonl(folder / "rows.jsonl", rows))], "student": student}


def regions(folder):
    known = {"language": "en", "region_texts": ["a dog", "a tree"], "mentioned": [0]}
    rows = []
    for number, colour in enumerate(COLOURS):
        row = {"caption": f"A {colour} dog runs.", "stand_in": f"Ein Hund, {colour}."}
        rows.append(row | {"image_id": number, **known})
    return {"data": [str(write_jsonl(folder / "rows.jsonl", rows))]}


def rows_of(recipe, folder):
    if recipe == "pr_mcs":
        return {"data": [str(write_captions(folder / "rows.jsonl"))]}
    if recipe == "human_ratings":
        shown, ratings = write_rated(folder)
        return {"data": [str(shown)], "ratings": [str(ratings)]}
    return parallel(folder) if recipe == "teacher_learning" else regions(folder)


# recipe → its settings
TRIED = {
    "pr_mcs": {"kinds": ["repetition", "jumble"], "batch_size": 4},
    "human_ratings": {"batch_size": 4, "validation_share": 0.3},
    "infometic": {"width": 8, "heads": 2, "intra_layers": 1, "inter_layers": 1, "batch_size": 3}
    | {"max_tokens": 60, "tasks": ["coarse", "text"], "validation_share": 0.3},
    "teacher_learning": {"batch_size": 8},
}


def settings_of(recipe):
    name = "TeacherLearning" if recipe == "teacher_learning" else "Settings"
    return getattr(importlib.import_module(f"training.{recipe}"), name)


def weights_of(recipe, out):
    return out / "student" if recipe == "teacher_learning" else out


def run(recipe, files, out, **changes):
    given = {"max_steps": 2, "log_every": 1, "license": "apache-2.0", "data_license": "CC0"}
    settings = settings_of(recipe)(out=str(out), **{**given, **TRIED[recipe], **files, **changes})
    return importlib.import_module(f"training.{recipe}").train(settings)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, checkpoints):
    """Recipe → its files, and the folder of a run of two steps, done once."""

    def once(recipe):
        folder = tmp_path_factory.mktemp(recipe)
        base = "teacher" if recipe == "teacher_learning" else "base"
        files = rows_of(recipe, folder) | {base: checkpoints("clip").spec}
        run(recipe, files, folder / "run")
        return files, folder / "run"

    return functools.cache(once)


def test_every_recipe_is_tried():
    assert {*TRIED} == {*KINDS["recipe"]()} <= {*RECIPES}
    assert {*NAMED} == {name for name in TRIED if issubclass(settings_of(name), RecipeSettings)}


def training(model):
    return (part.training for part in model.modules())


@every("recipe")
def test_a_stopped_recipe_tells_the_time_and_goes_on_to_the_same_weights(
    recipe, trained, tmp_path, capsys, monkeypatch
):
    files, whole = trained(recipe)
    capsys.readouterr()
    modes, step = set(), loop._Run._train_step
    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "_train_step", lambda of: (modes.update(training(of.model)), step(of)))
        run(recipe, files, tmp_path / "run", max_minutes=1e-9)
    assert modes == {True}, "dropout is for training"
    stopped = capsys.readouterr().err
    folder = weights_of(recipe, tmp_path / "run")
    assert re.search(r"^step 1/2 .* (\d+ s|min) left$", stopped, re.MULTILINE), stopped
    assert not (folder / "model.safetensors").exists()
    run(recipe, files, tmp_path / "run")
    assert not re.search("^step 1/2 ", capsys.readouterr().err, re.MULTILINE)
    here, there = (load_file(path / "model.safetensors") for path in (folder, weights_of(recipe, whole)))
    assert here.keys() == there.keys()
    for name, tensor in here.items():
        np.testing.assert_allclose(tensor, there[name], rtol=0, atol=1e-6, err_msg=name)


@every("recipe")
def test_a_recipe_writes_settings_and_a_card_that_names_data_and_licences(recipe, trained):
    files, out = trained(recipe)
    folder = weights_of(recipe, out)
    card = HubCard.load(folder / "README.md")
    assert card.data.license == "apache-2.0" and "en" in card.data.language
    assert (read_card(folder).recipe, read_card(folder).license) == (recipe, "apache-2.0")
    for path in files["data"]:
        assert f"| {Path(path).name} | CC0 |" in card.text
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        assert read_card(folder).inputs[Path(path).name] == digest
    assert str(out.parent) not in card.text, "a card tells nothing of the machine"
    line = ["--config", str(folder / "settings.yaml"), "--out", "again"]
    again, names = parse(settings_of(recipe), line, ""), [Path(path).name for path in files["data"]]
    assert (again.max_steps, again.out, again.data) == (2, "again", names)
    assert str(out.parent) not in (folder / "settings.yaml").read_text(), "nor do its settings"
    assert "--config settings.yaml --out runs/again" in card.text


@every("recipe")
def test_pushed_weights_score_as_their_folder(recipe, trained, tmp_path, monkeypatch, checkpoints):
    clip = checkpoints("clip")
    folder = shutil.copytree(weights_of(recipe, trained(recipe)[1]), tmp_path / "copy")
    for path in folder.glob("*.json"):  # its base is on the Hub
        path.write_text(path.read_text().replace(clip.spec, "org/clip"))
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8))

    def scored(spec):
        named = {"backbone": "org/clip", "weights": spec} if recipe == "infometic" else {"backbone": spec}
        scorer = capscore.load(RECIPES[recipe].metric, **named, device="cpu", cache=False)
        return scorer.score(["a dog", "a cat"], images=[photo, photo], language="en")

    with logged_in(tmp_path, monkeypatch) as hub:
        hub.add("org/clip", clip.spec_path)
        push(plan_weights(folder), "jo/run")
        assert "run.json" not in hub.files_of("jo/run") and "settings.yaml" in hub.files_of("jo/run")
        here, there = scored(str(folder)), scored("jo/run")
    assert np.isfinite(here.scores).all() and here.scores == pytest.approx(there.scores, abs=1e-6)
    assert "jo/run@" in there.signature


# lists, each of one photo that the rows of a recipe have
NAMED = {
    "pr_mcs": ("coffee", "data/coffee.jpg"),
    "human_ratings": ("3", "3.png", "COCO_val2014_000000000003.jpg"),
    "infometic": ("3", "000000000003.jpg", "val2014/COCO_val2014_000000000003.jpg"),
}

# what is bad → what the error names
BAD = {"lerning_rate=1": "learning_rate", "learning_rate=fast": "learning_rate", "no data": "data"}
BAD |= {"row": "broken.jsonl", "folder": "run"}
OF_PHOTOS = {"weights": "run", "one image": "show 1"}
CALLS = {*itertools.product(TRIED, BAD), *itertools.product(NAMED, OF_PHOTOS)}


@pytest.mark.parametrize(("recipe", "bad"), sorted(CALLS))
def test_bad_settings_and_rows_are_one_error_before_the_first_step(recipe, bad, trained, tmp_path):
    files, out = trained(recipe)[0], tmp_path / "run"
    if bad == "no data":
        files = {**files, "data": []}
    elif bad == "row":
        path = Path(files["data"][0])
        first, _, *rest = path.read_text(encoding="utf-8").splitlines()
        broken = path.with_name("broken.jsonl")
        broken.write_text("\n".join([first, '{"caption": 7, "en": 7', *rest]), encoding="utf-8")
        files = {**files, "data": [str(broken)]}
    elif bad == "one image":
        rows, path = read_jsonl(Path(files["data"][0])), Path(files["data"][0]).with_name("one.jsonl")
        shown = {name: rows[0].get(name) for name in ("image", "stand_in", "image_id")}
        write_jsonl(path, [{**row, **shown} for row in rows])
        files = {**files, "data": [str(path)], "validation_share": 0.0}
    elif bad == "folder":
        out.write_text("")
    elif bad == "weights":
        out.mkdir()
        (out / "model.safetensors").write_bytes(b"")
    with pytest.raises(CapscoreError) as raised:
        if "=" in bad:
            parse(settings_of(recipe), ["--out", str(tmp_path), *f"--{bad}".split("=")], "")
        run(recipe, files, out)
    assert {**BAD, **OF_PHOTOS}[bad] in str(raised.value) and "\n" not in str(raised.value)
    assert not (out / "log.jsonl").exists()


@pytest.mark.parametrize("recipe", NAMED)
def test_held_out_images_are_in_no_part_counted_and_in_the_card(recipe, trained, tmp_path, capsys):
    files, out = trained(recipe)
    before, held = json.loads((out / "result.json").read_text()), tmp_path / "held.txt"
    for number, name in enumerate(NAMED[recipe]):
        held.write_text(f"{name}\nof another set\n")
        some = run(recipe, files, tmp_path / f"{number}", hold_out=str(held), max_steps=1)
        n_held = before["n_training"] + before["n_validation"] - sum(some.split.sizes)
        said = f"{n_held} row{'s' * (n_held > 1)} of 1 photo; 1 of the 2 names on the list match a photo"
        assert n_held and f"held out: {said}" in capsys.readouterr().err
        assert said in read_card(tmp_path / f"{number}").held_out
    held.write_text("of another set\n")
    with pytest.raises(InputError, match=r"hold_out: 0 of the 1 names .*'of another set': no photo"):
        run(recipe, files, tmp_path / "none", hold_out=str(held))


@pytest.mark.parametrize("recipe", NAMED)
def test_a_photo_is_on_one_side_whatever_stands_in_for_it(recipe, trained, tmp_path):
    files, _ = trained(recipe)
    rows = []
    for colour in COLOURS:
        said = f"A {colour} dog runs.", f"The dog is {colour}."
        for own, other in (said, said[::-1]):
            row = {"caption": own, "stand_in": other, "language": "en", "rating": len(rows)}
            rows.append({**row, "region_texts": ["a dog"], "mentioned": [0]})
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    given = {name: [path] if name in ("data", "ratings") else value for name, value in files.items()}
    split = run(recipe, given, tmp_path / "run", validation_share=0.4, max_steps=1).split
    training, validation = (part % 16 // 2 for part in (split.training, split.validation))
    assert len({*training}) == 5 and len({*validation}) == 3 and not {*training} & {*validation}


def test_sentences_of_the_training_text_are_not_validated_on(trained, tmp_path, capsys):
    files, _ = trained("teacher_learning")
    first, _ = Path(files["data"][0]).read_text(encoding="utf-8").split("\n", 1)
    new = tmp_path / "new.jsonl"
    new.write_text(f'{first}\n{{"en": "a bird", "de": "ein Vogel"}}\n', encoding="utf-8")
    run("teacher_learning", files, tmp_path / "run", validation=[str(new)], max_steps=1)
    assert "1 sentence for validation; left out: 1 that is in the training" in capsys.readouterr().err
    with pytest.raises(CapscoreError, match="every sentence of the validation text is in the training"):
        run("teacher_learning", files, tmp_path / "none", validation=files["data"])


def test_photos_that_are_validated_are_not_trained_on(trained, tmp_path, capsys):
    files, _ = trained("human_ratings")
    folder, rows = Path(files["ratings"][0]).parent, read_jsonl(Path(files["ratings"][0]))
    rows = [{**row, "image": str(folder / row["image"])} for row in rows]
    parts = {"first": rows[:24], "last": rows[20:]}
    apart = [str(write_jsonl(tmp_path / f"{name}.jsonl", part)) for name, part in parts.items()]
    given = {**files, "data": [], "contrastive_weight": 0.0, "ratings": apart[:1], "validation": apart[1:]}
    with pytest.raises(InputError, match=r"line 21.*its photo is in the measured rows too, .*line 1"):
        run("human_ratings", given, tmp_path / "shared")
    (tmp_path / "held.txt").write_text("5.png\n7")
    some = run("human_ratings", given, tmp_path / "run", hold_out=str(tmp_path / "held.txt"), max_steps=1)
    assert some.split.sizes == (20, 12)
    assert "held out: 12 rows of 2 photos" in capsys.readouterr().err
