"""The study of PR-MCS weights with a toy that is harsh to short texts: what it counts, writes and refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from capscore.benchmarks.robustness import CaptionSet
from capscore.embedding.embedder import Embedder
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.official import write_json, write_jsonl
from tools.tiny.official.polaris import EXPLANATION
from weights.measuring import pr_mcs_alarms as study
from weights.measuring.summary import values_at

pytestmark = pytest.mark.filterwarnings("ignore::capscore.TruncationWarning")


class Harsh(ColourBackbone):
    """Turns texts of up to two words to the colour green."""

    name = "harsh"

    def encode_tokens(self, ids):
        rows = super().encode_tokens(ids)
        rows[[len(sequence) < 5 for sequence in ids]] = [0.1, 0.99, 0.1]
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


BACKBONES = {"plain": ColourBackbone(fingerprint="plain"), "harsh": Harsh(fingerprint="harsh")}
TEXTS = ["red red ball", "red car by a tree", "blue sea", "blue sky and blue sea"]
PHOTOS = ["1_a.jpg", "1_a.jpg", "2_b.jpg", "2_b.jpg"]
CAPTIONS = CaptionSet("toy", "", "", "en", TEXTS, PHOTOS, [RED, RED, BLUE, BLUE])


@pytest.fixture
def towers():
    harsh, plain = (Embedder(BACKBONES[name], cache=None) for name in ("harsh", "plain"))
    return {"harsh": harsh}, plain


def test_a_set_of_captions_has_drops_styles_and_curves(towers):
    runs, moved = study.measure_set(CAPTIONS, *towers).values()
    styles, degrees = runs.styles, runs.degrees
    assert [result.metric for result in runs.results] == ["mcs@colours", "harsh"]
    plain, harsh = (result.value("original_of_first") for result in runs.results)
    assert plain == 1 and harsh < 0.9
    assert len(runs.unchanged) == 5 + 6 and list(moved.unchanged) == ["substitution"]
    assert list(styles.numbers) == ["harsh"] and styles.numbers["harsh"]["given"]["below_half"] == 0.25
    assert styles.numbers["harsh"]["paragraph"]["n"] == 2
    assert [*degrees.numbers["harsh"]] == ["repetition", "removal", "masking", "jumble", "substitution"]


def test_texts_in_place_of_photos_are_embedded_by_the_plain_tower(towers):
    texts = study.with_texts("toy", "en", zip(TEXTS, PHOTOS, ["red", "red", "blue", "blue"], strict=True))
    seen, read = (study.measure_set(part, *towers)["every_kind"].results for part in (CAPTIONS, texts))
    # the toy's tower gives the word the embedding that it gives the colour
    for one, other in zip(seen, read, strict=True):
        assert other.scores == pytest.approx(one.scores, abs=1e-6)
        assert other.value("text_to_image_r@1") == one.value("text_to_image_r@1")


def test_five_photos_make_a_paragraph_where_each_has_one_caption():
    assert study._with_paragraphs(CAPTIONS) is CAPTIONS
    alone = replace(CAPTIONS, image_ids=list("abcdef"))
    assert study._with_paragraphs(alone).image_ids == [*"aaaaaf"]


def test_captions_of_models_are_compared_with_themselves(towers):
    kept = study.kept_of_texts(*towers, ["red ball", "red ball and a red car"])["harsh"]
    # the cosine of red with what the harsh one makes of it
    expected = (1 + 0.1 / np.sqrt(0.1**2 + 0.99**2 + 0.1**2)) / 2
    assert kept["kept"] == pytest.approx(expected, abs=1e-6) and kept["below_half"] == 0.5
    given = ["A man riding a wave .", "a man riding  a wave", "two dogs.", " . ", "A cat"]
    assert study.written_alike(given, 10) == ["a man riding a wave", "two dogs", "a cat"]
    some = study.written_alike([f"caption {number}" for number in range(100)], 7)
    assert len(some) == 7 and some == study.written_alike([f"caption {number}" for number in range(100)], 7)


def test_the_command_measures_what_is_there_and_lists_what_is_missing(tmp_path, monkeypatch):
    rated = {"imgid": "1.jpg", "score": 0.5, "count": 8, "explanation": EXPLANATION}
    polaris = [{"id": f"val_{text}", "mt": text, **rated} for text in ("Red ball.", "red ball and a red car")]
    write_json(tmp_path / "data" / "polaris" / "polaris_exp_val.json", polaris)
    rows = [
        {"id": name, "stand_in": text, "caption": text + " and more", "language": "en"}
        for name, text in (("1_a.jpg", "a red ball"), ("2_b.jpg", "the blue sea"))
    ]
    write_jsonl(tmp_path / "held_out" / "english.jsonl", rows)
    monkeypatch.setattr(study, "LEAST", 2)
    monkeypatch.setattr(BACKBONES["harsh"], "tuned_from", "plain")
    monkeypatch.setattr(study, "resolve_cache", lambda cache: None)
    monkeypatch.setattr("capscore.load_backbone", BACKBONES.__getitem__)
    monkeypatch.chdir(tmp_path)
    folders = ["--data", "data", "--held-out", "held_out", "--backbone", "harsh"]
    study.main([*folders, "--output", "out.json", "--markdown", "out.md"])
    found, table = (Path(f"out.{end}").read_text(encoding="utf-8") for end in ("json", "md"))
    found = json.loads(found)
    assert [part["every_kind"]["runs"][0]["data"] for part in found["sets"]] == ["english.jsonl"]
    figures = dict(values_at(found["sets"], "sets"))  # as the summary of all studies reads it
    drop = figures["sets/every_kind/runs/english.jsonl/en/results/harsh/statistics/drop_average/measured"]
    assert f"−{-100 * drop:.1f} |" in table
    assert "sets/every_kind/styles/english.jsonl/en/results/harsh/styles/given/below_half" in figures
    assert found["texts"]["polaris"] == found["texts"]["all"]
    assert {"captions of captioning models, thumb", "photos"} <= set(found["missing"])
    assert "## english.jsonl" in table and "### Right captions in other styles, harsh" in table
    assert "| polaris | harsh | 2 | 50.0 |" in table and "not measured: photos: " in table
