"""What holds for every recipe: it shows its progress, goes on exactly, writes a card, is pushed and loads."""

from __future__ import annotations

import functools
import importlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from tools.tiny.loopback_hub import logged_in
from tools.tiny.official import write_jsonl
from tools.tiny.transformers_models import write_encoder
from training.engine.config import parse
from training.engine.model_card import RECIPES, read_card
from training.engine.recipe import RecipeSettings

from .laws import every
from .training.rated_files import write_rated

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")


@dataclass(frozen=True)
class Tried:
    """How a recipe is tried: its settings, where its weights are, how they load."""

    files: Callable[[Path], dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)
    base: str = "base"
    settings: str = "Settings"
    weights: str = "."
    loads: Callable[[str], dict[str, str]] = lambda spec: {"backbone": spec}


COLOURS = "red green blue black white brown grey pink".split()


def captions(folder: Path) -> dict[str, list[str]]:
    return {"data": [str(write_captions(folder / "rows.jsonl"))]}


def rated(folder: Path) -> dict[str, list[str]]:
    shown, ratings = write_rated(folder)
    return {"data": [str(shown)], "ratings": [str(ratings)]}


def parallel(folder: Path) -> dict[str, Any]:
    words = {"dog": "Hund", "cat": "Katze", "boy": "Junge", "girl": "Mädchen"}
    rows = [{"en": f"a {a} and a {b}", "de": f"{words[a]} und {words[b]}"} for a in words for b in words]
    student = write_encoder(folder / "encoder")
    return {"data": [str(write_jsonl(folder / "rows.jsonl", rows))], "student": student}


def regions(folder: Path) -> dict[str, list[str]]:
    known = {"language": "en", "region_texts": ["a dog", "a tree"], "mentioned": [0]}
    rows = [
        {"caption": f"A {colour} dog runs.", "stand_in": f"Ein Hund, {colour}.", "image_id": number, **known}
        for number, colour in enumerate(COLOURS)
    ]
    return {"data": [str(write_jsonl(folder / "rows.jsonl", rows))]}


TRIED = {
    "pr_mcs": Tried(captions, {"kinds": ["repetition", "jumble"], "batch_size": 4}),
    "human_ratings": Tried(rated, {"batch_size": 4, "validation_share": 0.3}),
    "infometic": Tried(
        regions,
        {"width": 8, "heads": 2, "intra_layers": 1, "inter_layers": 1, "batch_size": 3, "max_tokens": 60}
        | {"tasks": ["coarse", "text"], "validation_share": 0.3},
        loads=lambda spec: {"backbone": "org/clip", "weights": spec},
    ),
    "teacher_learning": Tried(
        parallel, {"batch_size": 8}, base="teacher", settings="TeacherLearning", weights="student"
    ),
}


def settings_of(recipe: str) -> type:
    return getattr(importlib.import_module(f"training.{recipe}"), TRIED[recipe].settings)


def run(recipe: str, files: dict[str, Any], out: Path, **changes: Any) -> Any:
    given = {"max_steps": 2, "log_every": 1, "license": "apache-2.0", "data_license": "CC0"}
    settings = settings_of(recipe)(out=str(out), **{**given, **TRIED[recipe].options, **files, **changes})
    return importlib.import_module(f"training.{recipe}").train(settings)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, checkpoints):
    """Recipe → its files, and the folder of a run of two steps, done once."""

    def once(recipe: str) -> tuple[dict[str, list[str]], Path]:
        folder = tmp_path_factory.mktemp(recipe)
        files = TRIED[recipe].files(folder) | {TRIED[recipe].base: checkpoints("clip").spec}
        run(recipe, files, folder / "run")
        return files, folder / "run"

    return functools.cache(once)


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("step ")]


def test_every_recipe_is_tried():
    assert {*TRIED} == {*every("recipe").args[1]} <= {*RECIPES}


@every("recipe")
def test_a_stopped_recipe_tells_the_time_and_goes_on_to_the_same_weights(recipe, trained, tmp_path, capsys):
    files, whole = trained(recipe)
    capsys.readouterr()
    run(recipe, files, tmp_path / "run", max_minutes=1e-9)
    stopped = lines_of(capsys.readouterr().err)
    folder = tmp_path / "run" / TRIED[recipe].weights
    assert any(re.match(r"step 1/2 .* (\d+ s|min) left$", line) for line in stopped), stopped
    assert not (folder / "model.safetensors").exists()
    run(recipe, files, tmp_path / "run")
    assert not any(line.startswith("step 1/2 ") for line in lines_of(capsys.readouterr().err))
    here, there = (load_file(path / "model.safetensors") for path in (folder, whole / TRIED[recipe].weights))
    assert here.keys() == there.keys()
    for name, tensor in here.items():
        np.testing.assert_allclose(tensor, there[name], rtol=0, atol=1e-6, err_msg=name)


@every("recipe")
def test_a_recipe_writes_settings_and_a_card_that_names_data_and_licences(recipe, trained):
    files, out = trained(recipe)
    folder = out / TRIED[recipe].weights
    card = HubCard.load(folder / "README.md")
    assert card.data.license == "apache-2.0" and "en" in card.data.language
    assert (read_card(folder).recipe, read_card(folder).license) == (recipe, "apache-2.0")
    for path in files["data"]:
        assert f"| {Path(path).name} | CC0 |" in card.text
    assert str(out.parent) not in card.text, "a card tells nothing of the machine"
    line = ["--config", str(folder / "settings.yaml"), "--out", "again"]
    again, names = parse(settings_of(recipe), line, ""), [Path(path).name for path in files["data"]]
    assert (again.max_steps, again.out, again.data) == (2, "again", names)
    assert str(out.parent) not in (folder / "settings.yaml").read_text(), "nor do its settings"
    assert "--config settings.yaml --out runs/again" in card.text


@every("recipe")
def test_pushed_weights_score_as_their_folder(recipe, trained, tmp_path, monkeypatch, checkpoints):
    clip = checkpoints("clip")
    folder = shutil.copytree(trained(recipe)[1] / TRIED[recipe].weights, tmp_path / "copy")
    for path in folder.glob("*.json"):  # its base is on the Hub
        path.write_text(path.read_text().replace(clip.spec, "org/clip"))
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8))

    def scored(spec: str) -> Any:
        scorer = capscore.load(RECIPES[recipe].metric, **TRIED[recipe].loads(spec), device="cpu", cache=False)
        return scorer.score(["a dog", "a cat"], images=[photo, photo], language="en")

    with logged_in(tmp_path, monkeypatch) as hub:
        hub.add("org/clip", clip.spec_path)
        push(plan_weights(folder), "jo/run")
        assert "run.json" not in hub.files_of("jo/run") and "settings.yaml" in hub.files_of("jo/run")
        here, there = scored(str(folder)), scored("jo/run")
    assert np.isfinite(here.scores).all() and here.scores == pytest.approx(there.scores, abs=1e-6)
    assert "jo/run@" in there.signature


@every("recipe")
@pytest.mark.parametrize("bad", ["option", "value", "nothing", "row", "folder", "weights"])
def test_bad_settings_and_rows_are_one_error_before_the_first_step(recipe, bad, trained, tmp_path):
    files, _ = trained(recipe)
    flags = {"option": ["--lerning_rate", "1"], "value": ["--learning_rate", "fast"]}
    with pytest.raises(CapscoreError) as raised:
        if bad in flags:
            parse(settings_of(recipe), ["--out", str(tmp_path), *flags[bad]], "")
        elif bad == "nothing":
            run(recipe, {**files, "data": []}, tmp_path / "run")
        elif bad == "row":
            path = Path(files["data"][0])
            broken = path.with_name("broken.jsonl")
            first, _, *rest = path.read_text(encoding="utf-8").splitlines()
            broken.write_text("\n".join([first, '{"caption": 7, "en": 7', *rest]), encoding="utf-8")
            run(recipe, {**files, "data": [str(broken)]}, tmp_path / "run")
        elif bad == "folder":
            (tmp_path / "run").write_text("")
            run(recipe, files, tmp_path / "run")
        elif bad == "weights" and TRIED[recipe].weights == ".":
            (tmp_path / "run").mkdir()
            (tmp_path / "run" / "model.safetensors").write_bytes(b"")
            run(recipe, files, tmp_path / "run")
        else:
            pytest.skip("the weights are in a folder of their own")
    named = {"option": "learning_rate", "value": "learning_rate", "nothing": "data", "row": "broken.jsonl"}
    assert named.get(bad, "run") in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "run" / "log.jsonl").exists()


def takes_photos(recipe: str) -> None:
    if not issubclass(settings_of(recipe), RecipeSettings):
        pytest.skip("it reads no photos")


# lists, each of one photo that the rows of a recipe have
NAMED = {
    "pr_mcs": ("coffee", "data/coffee.jpg"),
    "human_ratings": ("3", "3.png", "COCO_val2014_000000000003.jpg"),
    "infometic": ("3", "000000000003.jpg", "val2014/COCO_val2014_000000000003.jpg"),
}


@every("recipe")
def test_held_out_images_are_in_no_part_counted_and_in_the_card(recipe, trained, tmp_path, capsys):
    takes_photos(recipe)
    files, out = trained(recipe)
    before, held = json.loads((out / "result.json").read_text()), tmp_path / "held.txt"
    for number, name in enumerate(NAMED[recipe]):
        held.write_text(f"{name}\nof another set\n")
        some = run(recipe, files, tmp_path / f"{number}", hold_out=str(held), max_steps=1)
        n_held = before["n_training"] + before["n_validation"] - some.n_training - some.n_validation
        said = f"{n_held} row{'s' * (n_held > 1)} of 1 photo; 1 of the 2 names on the list match a photo"
        assert n_held and f"held out: {said}" in capsys.readouterr().err
        assert said in read_card(tmp_path / f"{number}").held_out
    held.write_text("of another set\n")
    with pytest.raises(InputError, match=r"hold_out: 0 of the 1 names .*'of another set': no photo"):
        run(recipe, files, tmp_path / "none", hold_out=str(held))


@every("recipe")
def test_a_photo_is_on_one_side_whatever_stands_in_for_it(recipe, trained, tmp_path):
    takes_photos(recipe)
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


@every("recipe")
def test_what_is_validated_is_not_trained_on(recipe, trained, tmp_path, capsys):
    files, _ = trained(recipe)
    if "validation" not in settings_of(recipe).__dataclass_fields__:
        pytest.skip("it has no file of rows to validate on")
    if recipe == "teacher_learning":
        first, _ = Path(files["data"][0]).read_text(encoding="utf-8").split("\n", 1)
        new = tmp_path / "new.jsonl"
        new.write_text(f'{first}\n{{"en": "a bird", "de": "ein Vogel"}}\n', encoding="utf-8")
        run(recipe, files, tmp_path / "run", validation=[str(new)], max_steps=1)
        assert "1 sentence for validation; left out: 1 that is in the training" in capsys.readouterr().err
        with pytest.raises(CapscoreError, match="every sentence of the validation text is in the training"):
            run(recipe, files, tmp_path / "none", validation=files["data"])
        return
    rows = [json.loads(line) for line in Path(files["ratings"][0]).read_text().splitlines()]
    for row in rows:
        row["image"] = str(Path(files["ratings"][0]).parent / row["image"])
    parts = {"first": rows[:24], "last": rows[20:]}
    apart = [str(write_jsonl(tmp_path / f"{name}.jsonl", part)) for name, part in parts.items()]
    given = {**files, "data": [], "contrastive_weight": 0.0, "ratings": apart[:1], "validation": apart[1:]}
    with pytest.raises(InputError, match=r"line 21.*its photo is in the measured rows too, .*line 1"):
        run(recipe, given, tmp_path / "shared")
    (tmp_path / "held.txt").write_text("5.png\n7")
    some = run(recipe, given, tmp_path / "run", hold_out=str(tmp_path / "held.txt"), max_steps=1)
    assert (some.n_training, some.n_validation) == (20, 12)
    assert "held out: 12 rows of 2 photos" in capsys.readouterr().err
