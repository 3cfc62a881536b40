"""Photos with captions → the calibration of InfoMetIC's marks, on photos that the training has not seen.

    python -m weights.making.mark_calibration.rows --data DATA --texts texts --photos PHOTOS --out rows.jsonl
    python -m weights.making.mark_calibration.boxes --rows rows.jsonl --detector yolox_nano.onnx \
        --out boxes.json
    python -m weights.making.mark_calibration --config weights/making/configs/mark_calibration.yaml \
        --rows rows.jsonl --boxes boxes.json --out runs/mark_calibration

Out: a folder for `capscore.infometic.mark_calibration.load_mark_calibration`, with a card, the log and the
checkpoints of the run. The same command continues an interrupted run.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from capscore import load_backbone
from capscore.backbones.base import Backbone
from capscore.errors import CapscoreError, Setting
from capscore.files.write import write_text
from capscore.infometic.mark_calibration import (
    MARKED_CLASSES,
    MarkCalibration,
    MarkNetwork,
    MarkNetworkConfig,
    save_mark_calibration,
)
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.loop import RunResult, run
from training.engine.model_card import write_card
from training.engine.processes import device, is_main_process, say
from training.engine.recipe import RESULT, own_settings, write_settings
from weights.making.cards import mark_calibration_card
from weights.making.mark_calibration.calibrate import calibrate, logits_of
from weights.making.mark_calibration.draws import MarkLoss, WordDraws, common_nouns
from weights.making.mark_calibration.features import MarkFeatures, embed_texts, prepare
from weights.making.mark_calibration.objects import (
    mention_curve,
    naming_photos,
    object_regions,
    read_boxes,
    train_naming,
)
from weights.making.mark_calibration.rows import read_mark_rows
from weights.making.mark_calibration.settings import MarkCalibrationSettings

_NO_IDENTITY = {"name", "license", "rows", "boxes", "features", "nouns", "noun_count"}


def train(settings: MarkCalibrationSettings, *, command: str = "") -> RunResult:
    """Run the recipe: features, training, calibration, weights, card."""
    out = Path(settings.out).expanduser()
    files = [row["file"] for row in read_mark_rows(settings.rows)]
    boxes = read_boxes(settings.boxes, files)
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    if not backbone.has_feature_map:
        raise CapscoreError(Setting("base", settings.base), ": expected a backbone with a feature map")
    folder = Path(settings.features).expanduser() if settings.features else out / "features"
    features = prepare(Path(settings.rows), backbone, settings.reduced, folder, say)
    splits = {name: np.flatnonzero(features.split == name) for name in ("train", "calibrate")}
    network = new_network(settings, features)
    draws = WordDraws(
        features,
        splits["train"].tolist(),
        settings.batch_size,
        captions=settings.captions,
        others=settings.others,
        rare=settings.rare,
        labelled=settings.labelled,
        weights=settings.weights,
        seed=settings.seed,
    )
    say(f"{len(draws.photos):,} photos to train on, {len(splits['calibrate']):,} to calibrate on")
    check = _check(features, splits["calibrate"].tolist(), settings.seed)
    network.train()
    settings.max_steps = settings.steps
    shown = {place: own[:, :4] for place, own in boxes.items()}
    result = run(
        network,
        draws,
        MarkLoss(features, shown, settings.thing_weight),
        settings,
        evaluate=check,
        identity={**own_settings(settings, _NO_IDENTITY), "data": _digest(settings)},
        parameters=[
            parameter
            for name, parameter in network.named_parameters()
            if not name.startswith(("reducer.", "fit.", "in_caption.", "mention.", "named_"))
        ],
    )
    network.eval()
    if result.finished and is_main_process():
        finish(settings, network, features, boxes, backbone, result, command)
    return result


def finish(
    settings: MarkCalibrationSettings,
    network: MarkNetwork,
    features: MarkFeatures,
    boxes: Mapping[int, np.ndarray],
    backbone: Backbone,
    result: RunResult,
    command: str,
) -> None:
    """Calibrate a trained network, in eval mode, and write it with its card."""
    out = Path(settings.out).expanduser()
    splits = {name: np.flatnonzero(features.split == name).tolist() for name in ("train", "calibrate")}
    file = Path(settings.features or out / "features").expanduser() / "things.npz"
    things = object_regions(features, boxes, backbone, file, say)
    naming_loss = train_naming(
        network, features, things, naming_photos(boxes, settings.seed), backbone, settings.seed
    )
    embed = partial(embed_texts, backbone)
    alone, words, fits = calibrate(network, features, splits["calibrate"], embed, settings.seed)
    mentions = mention_curve(network, features, boxes, things, backbone, settings.seed)
    notes = {
        "recipe": "mark_calibration",
        "step": result.step,
        "photos": {name: len(own) for name, own in splits.items()},
        "found": {
            language: {name: round(curve.found, 4) for name, curve in own.items()}
            for language, own in words.items()
        },
        "captions_found": {language: round(curve.found, 4) for language, curve in fits.items()},
        "naming_loss": round(naming_loss, 4),
        "mentions_found": round(mentions.found, 4),
        "validation": {name: round(value, 4) for name, value in result.evaluation.items()},
    }
    nouns = common_nouns(features, splits["train"], settings.nouns, settings.noun_count)
    save_mark_calibration(
        MarkCalibration(
            network,
            alone,
            words,
            fits,
            mentions,
            {language: tuple(own) for language, own in nouns.items()},
            backbone.name,
            backbone.revision,
            notes=notes,
        ),
        out,
    )
    write_settings(out, settings)
    compute = f"{torch.device(device()).type}, {result.seconds / 60:.0f} minutes"
    write_card(out, mark_calibration_card(settings, notes, command=command, compute=compute))
    write_text(out / RESULT, json.dumps(notes, indent=1, ensure_ascii=False) + "\n", "result")


def new_network(settings: MarkCalibrationSettings, features: MarkFeatures) -> MarkNetwork:
    """An untrained network with the reduction of the features, and photos as its background."""
    weight, bias = features.reducer
    config = MarkNetworkConfig(
        dim=features.whole.shape[1],
        features=weight.shape[1],
        reduced=settings.reduced,
        hidden=settings.hidden,
        inner=settings.inner,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = MarkNetwork(config)
    trained = np.flatnonzero((features.split == "train") & ~features.labelled)
    chance = np.random.default_rng(settings.seed)
    chosen = np.sort(chance.choice(trained, config.background, replace=len(trained) < config.background))
    with torch.no_grad():
        network.reducer.weight.copy_(torch.from_numpy(weight))
        network.reducer.bias.copy_(torch.from_numpy(bias))
        network.background.copy_(torch.from_numpy(features.whole[chosen].astype(np.float32)))
        # few cells are the centre of a thing's box
        network.thing.bias.zero_()
    network.dropout = settings.dropout
    return network


def _digest(settings: MarkCalibrationSettings) -> str:
    digest = hashlib.sha256()
    for path in (settings.rows, settings.boxes):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]


def _check(features: MarkFeatures, photos: Sequence[int], seed: int) -> Any:
    """A function that measures a network on words of photos that it is not trained on."""
    draws = WordDraws(
        features, photos, len(photos), captions=6, others=1, rare=0, labelled=0.0, weights={}, seed=seed + 1
    )

    def evaluate(model: nn.Module, step: int) -> Mapping[str, float]:
        assert isinstance(model, MarkNetwork)
        right, wrong = [], []
        for start in range(0, len(draws.photos), 64):
            rows = draws.draw(draws.photos[start : start + 64], np.random.default_rng([seed, start]))
            for row, logits in zip(rows, logits_of(model, features, rows), strict=True):
                nouns = row.classes == MARKED_CLASSES.index("noun")
                right.append(logits[nouns & (row.right > 0)])
                wrong.append(logits[nouns & (row.right == 0)])
        positive, negative = np.concatenate(right), np.concatenate(wrong)
        return {"nouns_found": float((negative < np.quantile(positive, 0.05)).mean())}

    return evaluate


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    settings = parse(MarkCalibrationSettings, arguments, "Train the network of InfoMetIC's marks.")
    result = train(settings, command=f"python -m weights.making.mark_calibration {shlex.join(arguments)}")
    say(f"saved to {settings.out}" if result.finished else "not finished: the same command continues")


if __name__ == "__main__":
    run_as_command(main)
