"""Statements: one question per claim; their mean, recall of references, and what is marked in the caption."""

from __future__ import annotations

import json

import numpy as np
import pytest
import transformers

import capscore
from capscore.judges.statements import Statements

from .test_trained import photo, rows_of, taught
from .tiny_models import tiny_judge

PHOTO = np.full((42, 42, 3), (200, 40, 40), np.uint8)
CAPTION = "A dog runs on the beach, while two men watch it. It is brown."
CLAIMS = ["A dog runs on the beach", "two men watch it", "It is brown"]


def load(**options):
    return capscore.load("judge", backbone=tiny_judge("qwen2_5_vl"), cache=False, **options)


def chances(claims, question=Statements.question):
    """The probability of each claim, by the plain reading and one row per claim."""
    return load(question=question).score(claims, [PHOTO] * len(claims)).scores


def test_a_score_is_the_mean_probability_of_the_claims():
    found = load(reading="statements").score([CAPTION, "a cat"], [PHOTO, PHOTO])
    each = chances([*CLAIMS, "a cat"])
    assert found.scores == pytest.approx([each[:3].mean(), each[3]], abs=1e-6)
    assert found.components["precision"] == pytest.approx(found.scores, abs=1e-12)
    margin = np.log(found.scores / (1 - found.scores))
    assert found.components["margin"] == pytest.approx(margin, abs=1e-6)
    claims = found.details[0]["claims"]
    assert [CAPTION[claim["start"] : claim["end"]] for claim in claims] == CLAIMS
    assert [claim["p"] for claim in claims] == pytest.approx(each[:3], abs=1e-6)
    false = [claim for claim, p in zip(CLAIMS, each, strict=False) if p < 0.5]
    assert found.details[0]["false_claims"] == "; ".join(false)


def test_references_are_recalled_by_the_words_of_the_caption():
    references = [["A dog runs. It is brown.", "two men"], ["a cat"]]
    found = load(reading="statements", with_references=True).score(
        [CAPTION, "a cat"], [PHOTO, PHOTO], references
    )
    told = (
        'Here is a description of a photo: "{text}"\nDoes the description say this: "{caption}"? '
        "Judge by the description alone. Answer yes or no."
    )
    recall = chances(["A dog runs", "It is brown", "two men"], told.replace("{text}", CAPTION)).mean()
    assert found.components["recall"][0] == pytest.approx(recall, abs=1e-6)
    precision = found.components["precision"]
    f1 = 2 * precision * found.components["recall"] / (precision + found.components["recall"])
    assert found.components["f1"] == pytest.approx(f1, abs=1e-9)


def test_a_claim_of_one_photo_is_asked_once_and_ten_claims_share_its_photo(passes):
    caption = " ".join(f"There is a red thing number {number}." for number in range(10))
    load(reading="statements").score([caption, caption], [PHOTO, PHOTO])
    assert len(passes) == 3, "the photo once, and the ten questions of both rows in two batches"


def test_a_judge_of_colours_finds_the_false_claim(tiny_model, tmp_path):
    transformers.AutoProcessor.from_pretrained(tiny_model("qwen3_vl")).save_pretrained(tmp_path)
    rows = [
        (pixels, Statements.question.replace("{caption}", text), right)
        for pixels, text, right in rows_of(seed=0)
    ]
    taught(tiny_model("qwen3_vl"), rows).save_pretrained(tmp_path)
    scorer = capscore.load("judge", backbone=tmp_path, cache=False, reading="statements")
    shade = photo("red", np.random.default_rng(7))
    found = scorer.score(["a red photo; a blue photo"], [shade])
    assert found.details[0]["false_claims"] == "a blue photo"
    assert scorer.wrong_words(found.details[0]) == [(13, 25, "a blue photo")]
    assert scorer.found(found.details[0]) == "likely false: a blue photo"


def test_the_command_writes_what_is_likely_false(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setattr("capscore.judges.model.load_judge", lambda name, **options: tiny_judge())
    Image.fromarray(PHOTO).save(tmp_path / "one.png")
    found = capscore.score_file(
        [{"image": str(tmp_path / "one.png"), "caption": CAPTION}],
        "judge",
        reading="statements",
        output=tmp_path / "rows.jsonl",
    )
    expected = load(reading="statements").score([CAPTION], [PHOTO]).details[0]["false_claims"]
    assert found.to_pandas()["false_claims"][0] == expected
    assert json.loads((tmp_path / "rows.jsonl").read_text())["false_claims"] == expected
