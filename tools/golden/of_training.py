"""The recipes: losses on fixed arrays, settings, generated captions, and runs of a few steps."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from tools.tiny.captions import EIGHT, write_captions

from .place import Place, write_rows
from .table import case


def unit(*shape: int, seed: int) -> Any:
    """Rows of unit length as a tensor."""
    import torch

    rows = np.random.default_rng(seed).normal(size=shape)
    return torch.from_numpy(rows / np.linalg.norm(rows, axis=-1, keepdims=True)).float()


def digest(texts: Any) -> str:
    """Whatever has a repr → a short digest of it."""
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:16]


@case("training/losses")
def _(place: Place) -> Any:
    import torch

    from training.engine import pr_mcs_losses as losses

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
        before=before,
    )
    whole["loss"].backward()
    return {
        "weights": losses.LossWeights(),
        "contrastive": losses.contrastive_loss(images, captions, logit_scale=5.0).item(),
        "grouped": losses.contrastive_loss(
            images, captions, logit_scale=5.0, caption_groups=groups.flip(0)
        ).item(),
        "matching": losses.matching_loss(images, captions).item(),
        "noise": losses.noise_loss(images, perturbed, margin=0.1, changed=changed).item(),
        "keep_close": losses.matching_loss(before, captions).item(),
        "whole": {name: value.item() for name, value in whole.items()},
        "gradient": captions.grad,
    }


@case("training/infometic_losses")
def _(place: Place) -> Any:
    import torch

    from training.engine import infometic_losses as losses

    scores, shares = unit(4, 4, seed=5) * 3, unit(2, 3, 2, seed=6).abs()
    alpha = unit(2, 4, seed=7).abs().softmax(dim=-1)
    labels = torch.tensor([[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    counted = torch.tensor(np.random.default_rng(8).random((4, 4)) < 0.7)
    there = torch.tensor([True, False, True, True])
    return {
        "coarse": [losses.nce(part).item() for part in (scores, scores.T * 2)],
        "counted": [losses.nce(part, counted).item() for part in (scores, scores.T * 2)],
        "hard": losses.hard_negative_loss(scores[0], scores[1], there=there).item(),
        "token": losses.token_loss(alpha, labels, mask),
        "shares": losses.word_shares(alpha[:, :3], shares),
    }


@case("training/loop")
def _(place: Place) -> Any:
    """A contrastive run of ten steps: its log, the weights it ends with."""
    from tools.tiny import training_run as toy

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
        "rows": [*trained.split.sizes],
        "step": trained.run.step,
        "files": sorted(path.name for path in Path(trained.folder).iterdir()),
    }


@case("training/pr_mcs")
def _(place: Place) -> Any:
    """Six steps on a tiny CLIP, and the tower scores what it has learnt."""
    import capscore
    from training import pr_mcs as recipe

    path = write_captions(Path("captions.jsonl"))
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


@case("training/infometic")
def _(place: Place) -> Any:
    """A small network taught eight captions for a few steps, with texts in the place of photos."""
    from training import infometic as recipe

    rows = [
        {"caption": text, "language": "en", "stand_in": other, "region_texts": parts, "mentioned": named}
        for text, other, parts, named in EIGHT
    ]
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
