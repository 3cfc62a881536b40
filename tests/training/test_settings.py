"""Settings of the recipes: the files are the papers', and values that cannot be are one error."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capscore.errors import CapscoreError
from capscore.perturbations import KINDS
from training import human_ratings, infometic, pr_mcs, teacher_learning, translate
from training.data.photos import Photos
from training.engine.config import parse

CONFIGS = Path(__file__).parents[2] / "training" / "configs"
SETTINGS = {
    "human_ratings": human_ratings.Settings,
    "infometic": infometic.Settings,
    "pr_mcs": pr_mcs.Settings,
    "teacher_learning": teacher_learning.TeacherLearning,
    "translate": translate.Settings,
}
NEEDED = {
    "human_ratings": {"out": "o", "base": "b", "data": ["d"], "ratings": ["r"]},
    "teacher_learning": {"data": ["d"]},
    "translate": {"input": "i", "output": "o"},
}

ADAM = dict(betas=[0.9, 0.999], eps=1e-8)
PR_MCS = ADAM | dict(epochs=5, learning_rate=5e-5, lambda_1=0.1, lambda_2=0.05, lambda_3=0.05, margin=0.1)
PR_MCS |= dict(clip_weight=1.0, keep_close=0.0, p=0.4, kinds=list(KINDS), order="published", few_shot=None)
PR_MCS |= dict(validation_share=0.1)
INFOMETIC = dict(max_steps=32_000, batch_size=32, learning_rate=1e-4, hard_negatives=True, negatives=None)
INFOMETIC |= dict(n_regions=20, max_tokens=32, heads=16, width=None, intra_layers=4, inter_layers=2)
INFOMETIC |= dict(tasks=[*3 * ["coarse"], "text", *3 * ["coarse"], "vision"], pollutions=1)
RATINGS = dict(contrastive_weight=1.0, pearson_weight=1.0, towers="both")
TEACHER = ADAM | dict(epochs=5, learning_rate=5e-5, teacher="RN50x4-quickgelu/openai")
TEACHER |= dict(languages=["de", "es", "fr", "ja"], student="distilbert-base-multilingual-cased")
TRANSLATE = dict(translator="facebook/m2m100_1.2B", num_beams=100, candidates=25, on_rejected="drop")


def given(recipe: str) -> dict[str, Any]:
    return NEEDED.get(recipe, {"out": "o", "base": "b", "data": ["d"]})


@pytest.mark.parametrize(
    ("recipe", "name", "expected"),
    [
        ("pr_mcs", "pr_mcs", PR_MCS),
        ("pr_mcs", "pr_mcs_first_version", {**PR_MCS, "margin": 0.0}),
        ("pr_mcs", "pr_mcs_few_shot", {**PR_MCS, "few_shot": 300}),
        ("human_ratings", "ratings_both", RATINGS),
        ("human_ratings", "ratings_contrastive", {**RATINGS, "pearson_weight": 0.0}),
        ("human_ratings", "ratings_pearson", {**RATINGS, "contrastive_weight": 0.0}),
        ("teacher_learning", "teacher_learning", TEACHER),
        ("translate", "translate", TRANSLATE),
        ("infometic", "infometic", INFOMETIC),
    ],
)
def test_a_file_has_the_numbers_of_its_paper(recipe, name, expected):
    flags = ["--config", str(CONFIGS / f"{name}.yaml")]
    for option, value in given(recipe).items():
        flags += [f"--{option}", *value]  # each of one letter
    settings = parse(SETTINGS[recipe], flags, "")
    assert {setting: getattr(settings, setting) for setting in expected} == expected
    # a loss that compares the rows of a batch takes no parts of it
    assert hasattr(settings, "accumulation_steps") == (recipe == "teacher_learning")


NO_LOSS = dict.fromkeys(("clip_weight", "lambda_1", "lambda_2", "lambda_3"), 0.0)


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        ("pr_mcs", {"kinds": ["jumbel"]}, "perturbation 'jumbel' .*jumble"),
        ("pr_mcs", {"kinds": []}, r"kinds=\[\]: expected one or more"),
        ("pr_mcs", {"kinds": ["jumble", "jumble"]}, "each once"),
        ("pr_mcs", {"p": 1.5}, r"p=1\.5"),
        ("pr_mcs", {"order": "ever"}, "order='ever'"),
        ("pr_mcs", {"margin": 1.0}, r"margin=1\.0"),
        ("pr_mcs", {"lambda_2": -1.0}, r"lambda_2=-1\.0"),
        ("pr_mcs", {"logit_scale": 0.0}, r"logit_scale=0\.0"),
        ("pr_mcs", {"evaluate_captions": 0}, "evaluate_captions=0"),
        ("pr_mcs", NO_LOSS, "every term of the loss"),
        ("human_ratings", {"data": []}, r"data=\[\]: expected images with captions"),
        ("human_ratings", {"ratings": []}, r"ratings=\[\]: expected rated captions"),
        ("human_ratings", {"contrastive_weight": 0.0, "pearson_weight": 0.0}, "both losses have weight 0"),
        ("human_ratings", {"pearson_weight": -1.0}, r"pearson_weight=-1\.0: expected a weight"),
        ("human_ratings", {"batch_size": 1}, "batch_size=1: expected at least 2"),
        ("human_ratings", {"lora_rank": 0}, "lora_rank=0: expected at least 1"),
        ("human_ratings", {"lora_dropout": 1.0}, r"lora_dropout=1\.0"),
        ("human_ratings", {"patience": 0}, "patience=0: expected at least 1"),
        ("infometic", {"tasks": ["coarse", "regions"]}, "expected a list of coarse, text, vision"),
        ("infometic", {"pollutions": 0}, "pollutions=0, but tasks has 'text'"),
        ("infometic", {"negatives": 0}, "negatives=0"),
        ("infometic", {"n_regions": 0}, "n_regions=0"),
        ("teacher_learning", {"accumulation_steps": 0}, "accumulation_steps=0: expected a whole number"),
        ("teacher_learning", {"accumulation_steps": 257}, "accumulation_steps=257: expected at most"),
        ("translate", {"candidates": 6, "num_beams": 5}, "candidates=6: expected 1 to num_beams=5"),
        ("translate", {"languages": ["de", "deu"]}, r"languages=\['de', 'deu'\]: expected .* each once"),
    ],
)
def test_impossible_values_are_refused(recipe, changes, message):
    with pytest.raises(CapscoreError, match=message):
        SETTINGS[recipe](**{**given(recipe), **changes})


@pytest.mark.parametrize("recipe", ["human_ratings", "infometic", "pr_mcs"])
def test_the_seed_decides_the_split(recipe):
    photos = Photos(np.arange(40), [f"photo {number}" for number in range(40)], [()] * 40)
    first, again, other = (
        SETTINGS[recipe](**given(recipe), seed=seed).split(photos).validation.tolist() for seed in (0, 0, 1)
    )
    assert first == again != other and len(first) == len(other)
