"""What the package of docs/extending.md registers works wherever a name is taken; capscore is not edited.

That its metrics obey the laws of all metrics is tried in tests/test_metric_laws.py. Expected values are by
hand: the bright photo has the light 0.8, the dark one 0.2.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import capscore
from capscore.perturbations import perturb
from tools.tiny.command import read_jsonl, write_jsonl
from tools.tiny.judges import tiny_judge

from ..judges.test_parity import PHOTOS, asked

CAPTIONS = ["a bright room", "a dark room"]


def _cosine(photo, text):
    photo, text = np.array(photo), np.array(text)
    return photo @ text / np.linalg.norm(photo) / np.linalg.norm(text)


MCS = 2.5 * np.array([_cosine((0.8, 0.2), (1.01, 0.01)), _cosine((0.2, 0.8), (0.01, 1.01))])


def test_entry_points_are_found_by_name(installed, photos):
    references = [["a large bright room", "a room at night"], ["a room"]]
    for options, second in (({}, 1.0), ({"highest": 2.0}, 3 / 2)):
        scores = capscore.load("shortness", **options).score(CAPTIONS, references=references, language="en")
        np.testing.assert_allclose(scores.scores, [3 / 4, second])
    mood = capscore.load("mood").score([*CAPTIONS, "a room"], [*photos, photos[0]])
    np.testing.assert_allclose(mood.scores, [0.8, 0.8, 0.5], atol=1e-6)
    scores = capscore.load("mcs", backbone="brightness").score(CAPTIONS, photos, language="en")
    np.testing.assert_allclose(scores.scores, MCS, atol=1e-6)
    changed = ("one one one two", "one two two two")
    assert perturb(["one two"], "stutter", language="en").captions[0] in changed
    for name, options, shown in (("shortness", {"hihgest": 1}, "hihgest"), ("shortnes", {}, "'shortness'")):
        with pytest.raises(capscore.CapscoreError, match=shown):
            capscore.load(name, **options)


@pytest.mark.filterwarnings("ignore:rows that look wrong", "ignore::DeprecationWarning")
def test_a_judge_asks_and_reads_what_another_package_says(installed):
    judge = capscore.load("judge", backbone=tiny_judge(), reading="stars", cache=False)
    found = judge.score(CAPTIONS, PHOTOS[:2])
    model, processor = judge.model.model, judge.model.processor
    inputs = asked(processor, judge.reading.question, enumerate(CAPTIONS))
    digits = processor.tokenizer.convert_tokens_to_ids([*"12345"])
    with torch.inference_mode():
        chances = torch.stack([model(**of_row).logits[0, -1].softmax(dim=0)[digits] for of_row in inputs])
    stars = (chances / chances.sum(dim=1, keepdim=True)) @ torch.arange(1.0, 6.0)
    np.testing.assert_allclose(found.scores, (stars - 1) / 4, atol=1e-5)
    np.testing.assert_allclose(found.components["mass"], chances.sum(dim=1), atol=1e-5)
    assert "|reading:stars|template:" in found.signature and "|answers:stars|" in found.signature
    with pytest.raises(capscore.CapscoreError, match=r"'starz' is not one of yes, grade, match.*'stars'"):
        capscore.load("judge", backbone=tiny_judge(), reading="starz")


def test_a_benchmark_is_loaded_and_run(installed, rated_rooms):
    rows = capscore.load_benchmark("rated_rooms", data_dir=rated_rooms, split="test")
    assert rows["rating"] == [5, 3, 1, 4, 2]
    (run,) = capscore.benchmark("rated_rooms", "mood", data_dir=rated_rooms).runs
    # scores 1, 0.5, 0, 1, 0 against 5, 3, 1, 4, 2: 8 pairs agree, 2 are ties of scores
    assert run.results[0].outcome.statistics[0].value == pytest.approx(8 / np.sqrt(8 * 10))


def test_the_app_has_a_tab_for_each_metric(installed):
    pytest.importorskip("gradio")
    from capscore.show.app import build_app

    assert "Shortness" in str(build_app().config) and "Mood" in str(build_app("mood").config)


@pytest.mark.parametrize("metric", ["length_ratio", "shortness"])
def test_metrics_of_texts_are_explained_published_and_cited(metric, command, rows_file):
    """Doors that the laws of metrics do not try."""
    explained = command("explain", "day.png", CAPTIONS[0], "-m", metric, "--reference", "a", "--json")
    assert json.loads(explained)["captions"][0][metric] > 0
    listed = command("publish", "metric", metric, "--org", "jo", "--install", "release", "--dry-run")
    assert f"{metric}.py" in listed and "dry run: 4 files" in listed
    scores = capscore.load(metric).score(CAPTIONS, references=[["a room"]] * 2)
    assert "@software{capscore" in command("cite", scores.signature)


def test_a_layout_is_read_by_commands(command, photos, tmp_path):
    album = [{"file": Path(photo).name, "tag": tag} for photo, tag in zip(photos, CAPTIONS, strict=True)]
    (tmp_path / "album.json").write_text(json.dumps({"album": album}))
    summary = json.loads(command("score", "album.json", "-m", "mood", "--json"))
    assert summary["metrics"]["mood"]["mean"] == pytest.approx(0.8, abs=1e-6)
    rows = capscore.score_file("album.json", "mood")
    assert rows.to_pandas()["mood"].tolist() == pytest.approx([0.8, 0.8], abs=1e-6)


def test_every_command_takes_the_names(command, rows_file, rated_rooms):
    both = ("-m", "shortness,mood,mcs", "--backbone", "brightness", "--language", "en", "--highest", "2")
    write_jsonl(
        rows_file.with_name("english.jsonl"), [{**row, "language": "en"} for row in read_jsonl(rows_file)]
    )
    for system in ("first", "second"):
        command("score", f"{system}.jsonl", *both, "-o", f"{system}.scored.jsonl")
    scored = read_jsonl(rows_file.with_name("first.scored.jsonl"))
    assert [row["mood"] for row in scored] == pytest.approx([0.8, 0.8], abs=1e-6)
    assert [row["mcs"] for row in scored] == pytest.approx(MCS, abs=1e-6)
    assert json.loads(command("compare", "first.scored.jsonl", "second.scored.jsonl", "--json"))
    rooms = ("--data-dir", rated_rooms)
    benchmark = ("benchmark", "--data", "rated_rooms", *rooms, "-m", "mood", "--json")
    assert json.loads(command(*benchmark))["results"]
    command("data", "export", "rated_rooms", *rooms, "--output", "exported")
    assert "rated_rooms" in command("data", "list")
    cited = command("cite", "shortness", "--data", "rated_rooms")
    assert "Short Captions" in cited and "Rated Rooms" in cited
    assert len(command("perturb", rows_file, "--kind", "stutter", "--language", "en").splitlines()) >= 2
    robustness = ("robustness", "english.jsonl", "--kind", "stutter", "--json")
    for metric in ("mcs@brightness", "mood"):
        assert "stutter" in command(*robustness, "--metric", metric)
    listed = command("publish", "dataset", "rated_rooms", "--org", "jo", *rooms, "--dry-run")
    assert "parquet" in listed and "README.md" in listed
    assert "brightness" in command("backbones")
