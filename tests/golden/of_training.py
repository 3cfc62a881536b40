"""The recipes: losses on fixed arrays, settings, generated captions, and runs of a few steps."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .place import ROOT, Place, of_tests, write_rows
from .table import case

# what the cases call it → where it is
MODULES = {
    "losses": "training.engine.pr_mcs_losses",
    "infometic_losses": "training.engine.infometic_losses",
    "config": "training.engine.config",
    "loop": "training.engine.loop_settings",
    "pr_mcs": "training.pr_mcs",
    "infometic": "training.infometic",
    "teacher_learning": "training.teacher_learning",
    "human_ratings": "training.human_ratings",
    "translate": "training.translate",
    "grid": "training.grid",
    "embedded_captions": "weights.making.captions",
    "embedded_infometic": "weights.making.infometic",
    "image_tower": "weights.making.image_tower.settings",
    "noise_gate": "weights.making.noise_gate.settings",
    "mark_calibration": "weights.making.mark_calibration.settings",
    "caption_grammar": "weights.making.caption_grammar",
    "word_pollution": "training.data.word_pollution",
    "triples": "training.data.triples",
    "captions": "training.data.captions",
    "split": "training.data.split",
    "caption_rows": "training.data.rows",
}
CONFIGS = ROOT / "training" / "configs"
MAKING = ROOT / "weights" / "making" / "configs"
# name of the case → settings file of the weights that ship, and its recipe
OF_WEIGHTS = {
    "embedded_eye": ("image_tower", "image_tower"),
    "embedded_eye_small": ("image_tower_small", "image_tower"),
    "embedded_infometic": ("infometic", "infometic"),
    "embedded_judge": ("mark_calibration", "mark_calibration"),
    "embedded_pr_mcs": ("pr_mcs", "noise_gate"),
    "embedded_pr_mcs_second": ("pr_mcs_second", "noise_gate"),
}
# recipe → what the case calls it
NAMES = {"image_tower": "embedded_eye", "noise_gate": "embedded_gate", "mark_calibration": "embedded_judge"}
# of which recipe the settings of a file are, by how its name begins; the longest that fits
RECIPES = {
    "infometic": "infometic",
    "pr_mcs": "pr_mcs",
    "ratings": "human_ratings",
    "teacher_learning": "teacher_learning",
    "translate": "translate",
    "r": "infometic",
}
SETTINGS = {
    "loop": "LoopSettings",
    "pr_mcs": "Settings",
    "infometic": "Settings",
    "teacher_learning": "TeacherLearning",
    "human_ratings": "Settings",
    "translate": "Settings",
    "grid": "GridSettings",
    "embedded_captions": "Settings",
    "embedded_infometic": "Settings",
    "image_tower": "ImageTowerSettings",
    "noise_gate": "NoiseGateSettings",
    "mark_calibration": "MarkCalibrationSettings",
}


def module(name: str) -> ModuleType:
    """A module of the recipes, by its name in `MODULES`."""
    return importlib.import_module(MODULES[name])


def unit(*shape: int, seed: int) -> Any:
    """Rows of unit length as a tensor."""
    import torch

    rows = np.random.default_rng(seed).normal(size=shape)
    return torch.from_numpy(rows / np.linalg.norm(rows, axis=-1, keepdims=True)).float()


def digest(texts: Any) -> str:
    """Whatever has a repr → a short digest of it."""
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


@case("training/losses", quick=True)
def _(place: Place) -> Any:
    import torch

    losses = module("losses")
    images, captions, before = (unit(5, 8, seed=seed) for seed in (1, 2, 3))
    perturbed = unit(5, 3, 8, seed=4)
    changed = torch.tensor([[True, False, True]] * 4 + [[False] * 3])
    groups = torch.tensor([0, 0, 1, 2, 1])
    captions.requires_grad_(True)
    weights = losses.LossWeights(clip=0.3, lambda_1=1.0, lambda_2=1.0, lambda_3=0.5, keep_close=2.0)
    whole = losses.pr_mcs_loss(
        images,
        captions,
        perturbed,
        weights=weights,
        logit_scale=20.0,
        changed=changed,
        image_groups=groups,
        before=before,
    )
    whole["loss"].backward()
    return {
        "weights": losses.LossWeights(),
        "contrastive": losses.contrastive_loss(images, captions, logit_scale=5.0).item(),
        "grouped": losses.contrastive_loss(
            images, captions, logit_scale=5.0, image_groups=groups, caption_groups=groups.flip(0)
        ).item(),
        "matching": losses.matching_loss(images, captions).item(),
        "noise": losses.noise_loss(images, perturbed, margin=0.1, changed=changed).item(),
        "keep_close": losses.matching_loss(before, captions).item(),
        "whole": {name: value.item() for name, value in whole.items()},
        "gradient": captions.grad,
    }


@case("training/infometic_losses", quick=True)
def _(place: Place) -> Any:
    import torch

    losses = module("infometic_losses")
    scores, shares = unit(4, 4, seed=5) * 3, unit(2, 3, 2, seed=6).abs()
    alpha = unit(2, 4, seed=7).abs().softmax(dim=-1)
    labels = torch.tensor([[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    counted = torch.tensor(np.random.default_rng(8).random((4, 4)) < 0.7)
    there = torch.tensor([True, False, True, True])
    return {
        "coarse": [loss.item() for loss in losses.coarse_nce(scores, scores.T * 2)],
        "counted": [loss.item() for loss in losses.coarse_nce(scores, scores.T * 2, counted=counted)],
        "hard": losses.hard_negative_loss(scores[0], scores[1], there=there).item(),
        "token": losses.token_loss(alpha, labels, mask),
        "shares": losses.word_shares(alpha[:, :3], shares),
    }


@case("training/settings", quick=True)
def _(place: Place) -> Any:
    """Defaults of every recipe, and what the files in configs/ make of them."""
    found: dict[str, Any] = {}
    for name, kind in SETTINGS.items():
        fields = dataclasses.fields(getattr(module(name), kind))
        found[NAMES.get(name, name)] = {
            field.name: "required"
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            else field.default_factory()
            if field.default is dataclasses.MISSING
            else field.default
            for field in fields
        }
    parse = module("config").parse
    files = [(f"{old}.yaml", MAKING / f"{new}.yaml", recipe) for old, (new, recipe) in OF_WEIGHTS.items()]
    for path in sorted(CONFIGS.rglob("*.yaml")):
        prefix = max((start for start in RECIPES if path.stem.startswith(start)), key=len)
        files.append((str(path.relative_to(CONFIGS)), path, RECIPES[prefix]))
    for name, path, recipe in files:
        kind = getattr(module(recipe), SETTINGS[recipe])
        given = ["--config", str(path)] + (["--out", "run"] if recipe != "translate" else [])
        try:
            parsed = parse(kind, given, "A recipe.")
        except Exception:
            names = {field.name for field in dataclasses.fields(kind)}
            often = ("base", "data", "photos", "texts", "rows", "student", "ratings", "input", "output")
            needed = [name for name in often if name in names]
            parsed = parse(
                kind, [*given, *(part for name in needed for part in (f"--{name}", "x"))], "A recipe."
            )
        found[name] = dataclasses.asdict(parsed)
    return found


@case("training/caption_grammar", quick=True)
def _(place: Place) -> Any:
    grammar = module("caption_grammar")
    scenes = grammar.generate(200, seed=3)
    texts = {code: [list(scene[code]) for scene in scenes] for code in grammar.LANGUAGES}
    return {
        "languages": grammar.LANGUAGES,
        "first": {code: found[:4] for code, found in texts.items()},
        "all": {code: digest(found) for code, found in texts.items()},
    }


@case("training/word_pollution", quick=True)
def _(place: Place) -> Any:
    pollution = module("word_pollution")
    found = {}
    for language in ("en", "de", "ja"):
        texts = place.captions(language, ("right", "half", "wrong"))
        frequent = pollution.frequent_words(texts, language)
        rng = np.random.default_rng(0)
        polluted = [pollution.pollute(text, language, frequent, rng) for text in texts[:6]]
        found[language] = {
            "frequent": frequent,
            "polluted": [each and [each.caption, each.labels, each.replaced] for each in polluted],
        }
    return found


@case("training/triples")
def _(place: Place) -> Any:
    """Splits by photo, and what the batches of two epochs hold."""
    from capscore.embedding.embedder import Embedder

    triples, path = module("triples"), of_tests("training_captions").write_captions(Path("captions.jsonl"))
    toy = of_tests("toy").ColourBackbone()
    captions = module("captions").embed_captions(
        module("caption_rows").file_rows(path), Embedder(toy, cache=None)
    )
    split_by_image = module("split").split_by_image
    split = split_by_image(captions, validation_share=0.25)
    found: dict[str, Any] = {
        "training": split.training,
        "validation": split.validation,
        "few": split_by_image(captions, few_shot=2, seed=4).training,
        "image": captions.image,
        "stand-ins": captions.n_stand_ins,
    }
    for draws in ("one", "all"):
        batches = triples.TripleBatches(
            captions, split.training, batch_size=7, noise=triples.Noise(draws=draws), seed=2
        )
        found[draws] = [
            [[each.caption, each.perturbed, each.kinds] for each in batches.batch(epoch, step)]
            for epoch in range(2)
            for step in range(batches.steps_per_epoch)
        ]
    return found


@case("training/loop")
def _(place: Place) -> Any:
    """A contrastive run of ten steps: its log, the weights it ends with."""
    toy = of_tests("training_run")
    model, result = toy.train(Path("run"))
    _, half = toy.train(Path("stopped"), max_steps=6)
    _, whole = toy.train(Path("stopped"))
    return {
        "log": toy.lines(Path("run")),
        "losses": result.losses,
        "evaluation": result.evaluation,
        "weights": {name: value.detach().flatten()[:8] for name, value in model.named_parameters()},
        "resumed": [half.step, whole.resumed_from, whole.step, whole.losses],
        "files": sorted(str(path) for path in Path("run").rglob("*") if path.is_file()),
    }


def outcome(trained: Any) -> dict[str, Any]:
    """What a recipe's run says of itself, and its files."""
    return {
        "evaluation": trained.evaluation,
        "base": trained.base,
        "losses": trained.run.losses,
        "rows": [trained.n_training, trained.n_validation],
        "step": trained.run.step,
        "files": sorted(path.name for path in Path(trained.folder).iterdir()),
    }


@case("training/pr_mcs")
def _(place: Place) -> Any:
    """Six steps on a tiny CLIP, and the tower scores what it has learnt."""
    import capscore

    path = of_tests("training_captions").write_captions(Path("captions.jsonl"))
    recipe = module("pr_mcs")
    trained = recipe.train(
        recipe.Settings(
            out="run",
            base=place.clip(),
            data=[str(path)],
            batch_size=6,
            max_steps=6,
            learning_rate=1e-3,
            validation_share=0.25,
            kinds=["repetition", "removal", "masking", "jumble"],
        )
    )
    scores = capscore.load("pr_mcs", backbone="run", cache=False).score(place.captions("en"), place.photos())
    return {
        **outcome(trained),
        "scores": scores.scores,
        "result": json.loads(Path("run/result.json").read_text()),
    }


EIGHT = (
    (
        "A red boat sails on the calm lake.",
        "Ein rotes Boot segelt auf dem See.",
        ["a red boat", "a tree"],
        [0],
    ),
    (
        "Two brown dogs chase a ball.",
        "Zwei Hunde jagen einen Ball.",
        ["two dogs", "a ball", "a bicycle"],
        [0, 1],
    ),
    ("An old woman reads a newspaper.", "Eine alte Frau liest.", ["an old woman", "a newspaper"], [0, 1]),
    ("A small child paints a yellow house.", "Ein Kind malt ein Haus.", ["a dog", "a yellow house"], [1]),
    ("Three white horses cross the meadow.", "Drei weiße Pferde.", ["a lamp", "white horses"], [1]),
    ("A man repairs a bicycle.", "Ein Mann repariert ein Fahrrad.", ["a man", "a bicycle", "a cake"], [0, 1]),
    ("A black cat sleeps under the table.", "Eine Katze schläft.", ["a black cat", "an airplane"], [0]),
    ("A young girl eats a large cake.", "Ein Mädchen isst Kuchen.", ["a young girl", "a boat"], [0]),
)


@case("training/infometic")
def _(place: Place) -> Any:
    """A small network taught eight captions for a few steps, with texts in the place of photos."""
    rows = [
        {"caption": text, "language": "en", "stand_in": other, "region_texts": parts, "mentioned": named}
        for text, other, parts, named in EIGHT
    ]
    recipe = module("infometic")
    trained = recipe.train(
        recipe.Settings(
            out="run",
            base=place.clip(),
            data=[write_rows("rows.jsonl", rows)],
            validation_share=0.25,
            batch_size=4,
            max_steps=6,
            learning_rate=1e-3,
            tasks=["coarse", "text", "vision"],
            width=32,
            heads=2,
            intra_layers=1,
            inter_layers=1,
            max_tokens=60,
        )
    )
    return {**outcome(trained), "result": json.loads(Path("run/result.json").read_text())}
