"""The pipeline: which steps run, and all of them on a few drawn photos with tiny settings."""

from __future__ import annotations

import importlib
import json
import warnings
from pathlib import Path

import pytest
import yaml

from capscore import load_backbone
from capscore.backbones.embedded.backbone import load_image_tower
from capscore.benchmarks.data.builder import BenchmarkWarning
from capscore.errors import CapscoreError
from capscore.infometic.mark_calibration import load_mark_calibration
from capscore.infometic.network import InfoMetIC
from tools.tiny.official import write_jsonl
from tools.tiny.sources_of_weights import draw_photo, text_row, write_data, write_photos, write_texts
from weights.making import pipeline
from weights.making.image_tower import data as tower_data
from weights.making.image_tower import second
from weights.making.mark_calibration import calibrate, draws, objects
from weights.making.mark_calibration.rows import COCO_THINGS, read_mark_rows
from weights.making.pipeline import DONE, PLAN, Step, read_plan, run_steps

STEPS = [
    Step("rows", "some.rows", "1 minute", "rows.jsonl", options={"out": "{out}/rows.jsonl"}),
    Step("run", "some.run", "1 hour", "run/w", "run.yaml", {"rows": "{out}/rows.jsonl"}, after=["rows"]),
]


@pytest.fixture
def steps_of(tmp_path):
    """Runs both steps with settings, and gives what ran; `stops` is a step that stops before its end."""
    plan, ran = tmp_path / "plan.yaml", []
    folders = {name: tmp_path / name for name in ("data", "photos", "sources", "out")} | {"tower": "t"}

    def go(settings="seed: 0", stops="", steps=STEPS):
        ran.clear()
        (tmp_path / "run.yaml").write_text(settings)

        def run(module, arguments):
            ran.append((module, arguments))
            made = folders["out"] / {"some.rows": "rows.jsonl", "some.run": "run/w"}[module]
            if module != stops:
                made.parent.mkdir(parents=True, exist_ok=True)
                made.write_text("done")

        run_steps(steps, folders, plan=plan, run=run)
        return [module for module, _ in ran]

    go.ran = ran
    return go


def test_steps_run_in_order_once_and_one_that_was_cut_off_goes_on(steps_of, tmp_path, capsys):
    with pytest.raises(CapscoreError, match=r"run is not finished, .*: the same command continues"):
        steps_of(stops="some.run")
    assert steps_of.ran == [
        ("some.rows", ["--out", f"{tmp_path}/out/rows.jsonl"]),
        ("some.run", ["--config", f"{tmp_path}/run.yaml", "--rows", f"{tmp_path}/out/rows.jsonl"]),
    ]
    assert steps_of() == ["some.run"] and steps_of() == []
    said = capsys.readouterr().out
    assert "rows: 1 minute\nrows: finished after" in said and f"run: done before, {tmp_path}" in said
    (tmp_path / "out/run/w").unlink()
    assert steps_of(steps=STEPS[:1]) == [] and steps_of() == ["some.run"]


def test_other_settings_or_rows_are_refused_until_the_outcome_is_removed(steps_of, tmp_path):
    steps_of()
    with pytest.raises(CapscoreError, match=r"run: .* was made with other settings .*: remove it"):
        steps_of(settings="seed: 1")
    (tmp_path / "out/run/w").unlink()
    assert steps_of(settings="seed: 1") == ["some.run"]
    # of other rows
    done = json.loads((tmp_path / "out" / DONE).read_text())
    (tmp_path / "out" / DONE).write_text(json.dumps({**done, "rows": "of another time"}))
    (tmp_path / "out/rows.jsonl").unlink()
    (tmp_path / "out" / DONE).write_text(json.dumps({**done, "run": "made of others"}))
    with pytest.raises(CapscoreError, match=r"run: .* from other data"):
        steps_of(settings="seed: 1")


def test_a_step_takes_outcomes_of_steps_before_it():
    names = [step.name for step in read_plan()]
    assert len({*names}) == len(names)
    for number, step in enumerate(read_plan()):
        assert {*step.after} <= {*names[:number]}


def test_the_command_prints_what_it_would_run(capsys):
    pipeline.main(["--out", "o", "--tower", "embedded", "--dry-run"])
    lines = capsys.readouterr().out.splitlines()
    assert not any("image_tower" in line for line in lines) and len(lines) == len(read_plan()) - 2
    assert any("noise_gate" in line and "--base embedded" in line for line in lines)
    with pytest.raises(SystemExit, match="2"):
        pipeline.main(["--out", "o", "--only", "nothing"])


SAID = [
    ("A red dog runs on grass.", "A dog plays in a garden."),
    ("Two blue cars wait in the street.", "A dog before a house."),
    ("A green boat floats on the lake.", "A dog in a boat on water."),
    ("A woman reads a book in a kitchen.", "A woman beside a dog."),
]
TINY_GATE = {
    "languages": ["en:1", "de:1"], "sources": ["grammar:1"], "gate": [16, 1, 2], "max_steps": 1,
    "batch_size": 4, "validation_share": 0.3, "validation_texts": 40, "keep_right": 0.1,
    "precision": "no", "evaluate_every": 1000, "right": [],
}  # fmt: skip
# What makes every run tiny, by the file of its settings.
TINY = {
    "captions.yaml": {"package_texts": ["en:9", "zh:9", "ar:9"], "grammar": ["en:60", "de:60"]},
    "image_tower.yaml": {"views": 1, "epochs": 1, "batch_size": 4, "half_precision": False},
    "image_tower_second.yaml": {
        "text_hidden": 8, "text_steps": 1, "epochs": 1, "batch_size": 4, "pool": 4, "recent": 1,
        "half_precision": False,
    },
    "pr_mcs.yaml": TINY_GATE,
    "infometic.yaml": {
        "width": 8, "heads": 2, "intra_layers": 1, "inter_layers": 1, "context_width": 4, "max_steps": 1,
        "batch_size": 3, "negatives": 1, "validation_share": 0.4, "pollutions": 1,
    },
    "mark_calibration.yaml": {
        "reduced": 8, "hidden": 8, "inner": 12, "captions": 1, "others": 1, "rare": 0, "max_steps": 1,
        "batch_size": 2, "languages": ["en:1"],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory, embedded_is_read_once, prepared_here):
    """All steps of the plan on drawn photos, each run by its own command in this process."""
    folder = tmp_path_factory.mktemp("all")
    write_data(folder / "data")
    write_photos(folder / "photos")
    texts = folder / "data" / "flickr8k"
    for number in range(20):  # more of the development split
        draw_photo(folder / "photos" / "flickr8k" / f"{9000 + number}_z.jpg", number)
        with (
            open(texts / "Flickr_8k.devImages.txt", "a") as photos,
            open(texts / "Flickr8k.token.txt", "a") as captions,
        ):
            photos.write(f"{9000 + number}_z.jpg\n")
            for place, said in enumerate(SAID[number % len(SAID)]):
                captions.write(f"{9000 + number}_z.jpg#{place}\t{said}\n")
    configs = folder / "configs"
    configs.mkdir()
    for name in {step.config for step in read_plan()} - {""}:
        settings = yaml.safe_load((PLAN.parent / name).read_text("utf-8")) | TINY[name]
        (configs / name).write_text(yaml.safe_dump(settings))
    places = {name: folder / name for name in ("data", "photos", "sources", "out")}
    places["tower"] = folder / "out" / "image_tower"

    def run(module, arguments):
        if module.endswith("package_texts"):  # the packages are not here
            texts = write_texts(folder / "out" / "texts")
            write_jsonl(texts / "en.jsonl", [text_row("tatoeba", 1, "en", "The dog sleeps here.")])
        elif module.endswith("boxes"):  # nor is the detector
            files = [row["file"] for row in read_mark_rows(places["out"] / "mark_rows.jsonl")]
            box = [0.1, 0.1, 0.6, 0.9, COCO_THINGS.index("dog"), 0.9]
            (places["out"] / "boxes.json").write_text(json.dumps({file: [box] for file in files}))
        else:
            package = Path(*module.split(".")).is_dir()
            importlib.import_module(f"{module}.__main__" if package else module).main(arguments)
        if module.endswith("mark_calibration.rows"):  # whose captions all say the same
            rows = read_mark_rows(places["out"] / "mark_rows.jsonl")
            for number, row in enumerate(rows):
                row["captions"] = [[text, "en", "x"] for text in SAID[number % len(SAID)]]
            write_jsonl(places["out"] / "mark_rows.jsonl", rows)

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", BenchmarkWarning)
        patch.setattr(tower_data, "_STEPS", 2)
        patch.setattr(second, "_SCENES", 4)
        patch.setitem(second._TEXT_SETTINGS, "batch_size", 8)
        for module, name, value in (
            (calibrate, "LEAST", 2), (calibrate, "_STEPS", 4), (draws, "NOUN_COUNT", 1),
            (objects, "_LEAST", 1), (objects, "_STEPS", 10),
            (objects, "_NAMING", 0.4), (objects, "_CURVE", 0.75),
        ):  # fmt: skip
            patch.setattr(module, name, value)
        steps = read_plan()
        assert run_steps(steps, places, plan=configs / PLAN.name, run=run) == [step.name for step in steps]
        assert run_steps(steps, places, plan=configs / PLAN.name, run=run) == []
    return places


@pytest.mark.filterwarnings("ignore::capscore.benchmarks.data.builder.BenchmarkWarning")
def test_all_steps_make_what_is_loaded_together(folders):
    out = folders["out"]
    tower, _ = load_image_tower(out / "image_tower")
    assert tower.config.text_hidden == 8
    gated = load_backbone(str(out / "pr_mcs"), device="cpu")
    assert gated.network_parts() == {"noise_gate": {"width": 16, "layers": 1, "heads": 2}}
    assert InfoMetIC.from_pretrained(out / "infometic").config.context_width == 4
    backbone = load_backbone(str(out / "image_tower"), device="cpu")
    marks = load_mark_calibration(out / "mark_calibration", backbone=backbone)
    assert list(marks.with_references) == json.loads((out / "fit_references.json").read_text())
