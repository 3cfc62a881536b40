"""What another package registers works wherever a name is taken, with nothing edited in capscore.

Expected values are worked out by hand: the bright photo has the light 0.8, the dark one 0.2.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import capscore

ROOT = Path(__file__).resolve().parents[2]
CAPTIONS = ["a bright room", "a dark room"]
REFERENCES = [["a large bright room", "a room at night"], ["a room"]]


def _cosine(photo, text):
    photo, text = np.array(photo), np.array(text)
    return photo @ text / np.linalg.norm(photo) / np.linalg.norm(text)


MCS = 2.5 * np.array([_cosine((0.8, 0.2), (1.01, 0.01)), _cosine((0.2, 0.8), (0.01, 1.01))])


@pytest.mark.parametrize("part", ["shortness", "mood", "brightness", "stutter", "rated_rooms"])
def test_documents_show_what_is_installed(part):
    source = (Path(__file__).parent / "capscore_outside" / f"{part}.py").read_text()
    assert source in (ROOT / "docs" / "extending.md").read_text()
    assert source.count("\n") <= 45


# ------------------------------------------------------------------------------ Python


def test_scorer_of_texts(installed):
    scores = capscore.load("shortness").score(CAPTIONS, references=REFERENCES, language="en")
    np.testing.assert_allclose(scores.scores, [3 / 4, 1.0])
    assert "highest" in scores.signature
    longer = capscore.load("shortness", highest=2.0).score(CAPTIONS, references=REFERENCES, language="en")
    np.testing.assert_allclose(longer.scores, [3 / 4, 3 / 2])


def test_scorer_of_photos(installed, photos):
    scores = capscore.load("mood").score([*CAPTIONS, "a room"], [*photos, photos[0]])
    np.testing.assert_allclose(scores.scores, [0.8, 0.8, 0.5], atol=1e-6)
    with pytest.raises(capscore.ImageError, match="row 1"):
        capscore.load("mood").score(CAPTIONS, [photos[0], "nowhere.png"])
    skipped = capscore.load("mood").score(CAPTIONS, [photos[0], "nowhere.png"], on_error="skip")
    np.testing.assert_allclose(skipped.scores, [0.8, np.nan], atol=1e-6)


def test_backbone(installed, photos):
    scores = capscore.load("mcs", backbone="brightness").score(CAPTIONS, photos, language="en")
    np.testing.assert_allclose(scores.scores, MCS, atol=1e-6)
    assert capscore.load_backbone("brightness").dim == 2


def test_unknown_options_and_names_are_named(installed):
    with pytest.raises(capscore.CapscoreError, match="hihgest"):
        capscore.load("shortness", hihgest=1.0)
    with pytest.raises(capscore.CapscoreError, match="did you mean 'shortness'"):
        capscore.load("shortnes")


def test_module(installed, photos):
    class Module(capscore.CaptionModule):
        metric = "mood"

        @classmethod
        def describe(cls):
            return "Mood of photos.", ""

    result = Module().compute(predictions=CAPTIONS, images=photos)
    assert result["mood"] == pytest.approx(0.8)


def test_stream(installed, photos):
    rows = [
        {"caption": caption, "image": photo, "references": references}
        for caption, photo, references in zip(CAPTIONS, photos, REFERENCES, strict=True)
    ]
    scorers = [capscore.load("shortness"), capscore.load("mood")]
    scored = list(capscore.score_stream(iter(rows), scorers, language="en"))
    assert [row["shortness"] for row in scored] == pytest.approx([3 / 4, 1.0])
    assert [row["mood"] for row in scored] == pytest.approx([0.8, 0.8], abs=1e-6)


def test_batches_of_ray(installed, photos):
    from capscore.integrations.ray import Score

    batch = {"caption": np.array(CAPTIONS), "image": np.array(photos)}
    scored = Score(metric=["mood", "mcs"], backbone="brightness", language="en")(batch)
    np.testing.assert_allclose(scored["mood"], [0.8, 0.8], atol=1e-6)
    np.testing.assert_allclose(scored["mcs"], MCS, atol=1e-6)


def test_torchmetrics(installed, photos):
    from capscore.integrations.torchmetrics import CaptionMetric

    metric = CaptionMetric("mood")
    metric.update(CAPTIONS, photos)
    assert float(metric.compute()) == pytest.approx(0.8)


def test_perturbation(installed):
    from capscore.perturbations import perturb

    found = perturb(["one two"], "stutter", language="en").captions
    assert found[0] in ("one one one two", "one two two two")


def test_benchmark(installed, rated_rooms):
    from capscore.benchmarks import run_benchmark

    rows = capscore.load_benchmark("rated_rooms", data_dir=rated_rooms, split="test")
    assert rows["rating"] == [5, 3, 1, 4, 2]
    metrics = {"mood": lambda: capscore.load("mood")}
    run = run_benchmark("rated_rooms", metrics=metrics, data_dir=rated_rooms)
    # scores 1, 0.5, 0, 1, 0 against 5, 3, 1, 4, 2: 8 pairs agree, 2 are ties of scores
    assert run.results[0].outcome.statistics[0].value == pytest.approx(8 / np.sqrt(8 * 10))


def test_app(installed):
    pytest.importorskip("gradio")
    from capscore.show.app import build_app

    assert "Shortness" in str(build_app().config)
    assert "Mood" in str(build_app("mood").config)


# ------------------------------------------------------------------------------ commands


def test_commands_that_score(commands, rows_file):
    both = ("-m", "shortness,mood,mcs", "--backbone", "brightness", "--language", "en", "--highest", "2")
    commands(
        ("score", rows_file, *both, "-o", "first.csv"),
        ("score", "second.jsonl", *both, "-o", "second.csv"),
    )
    header, *lines = (rows_file.parent / "first.csv").read_text().splitlines()
    scored = [dict(zip(header.split(","), re.split(r",(?! )", line), strict=False)) for line in lines]
    assert [float(row["mood"]) for row in scored] == pytest.approx([0.8, 0.8], abs=1e-6)
    assert [float(row["mcs"]) for row in scored] == pytest.approx(MCS, abs=1e-6)
    (compared,) = commands(("compare", "first.csv", "second.csv", "--json"))
    assert json.loads(compared)


def test_commands_about_benchmarks(commands, rated_rooms):
    listed, measured, _, cited = commands(
        ("data", "list"),
        ("benchmark", "--data", "rated_rooms", "--data-dir", rated_rooms, "-m", "mood", "--json"),
        ("data", "export", "rated_rooms", "--data-dir", rated_rooms, "--out", "exported"),
        ("cite", "shortness", "--data", "rated_rooms"),
    )
    assert "rated_rooms" in listed
    assert json.loads(measured)["results"]
    assert "Short Captions" in cited and "Rated Rooms" in cited


def test_commands_about_noise(commands, rows_file):
    rows = [{**json.loads(line), "language": "en"} for line in rows_file.read_text().splitlines()]
    (rows_file.parent / "english.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    perturbed, measured, backbones = commands(
        ("perturb", rows_file, "--kind", "stutter", "--language", "en"),
        (
            *("robustness", "--captions", "english.jsonl", "--kind", "stutter", "--json"),
            *("--metric", "mcs@brightness"),
        ),
        ("backbones",),
    )
    assert len(perturbed.splitlines()) >= 2
    assert "stutter" in measured
    assert "brightness" in backbones
