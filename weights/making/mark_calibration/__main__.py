"""Photos with captions → the calibration of InfoMetIC's marks, on photos that the training has not seen.

In: rows and boxes of the modules of these names. Out: a folder for
`capscore.infometic.mark_calibration.load_mark_calibration`, with a card, the log and the checkpoints of the
run. The same command continues an interrupted run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash

from capscore import load_backbone
from capscore.backbones.checkpoint import write_network
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, Setting
from capscore.files.write import write_text
from capscore.infometic import mark_calibration as marks
from capscore.infometic.mark_calibration import MarkCalibration, MarkCurve, MarkNetwork
from training.data.alignment_features import embedded
from training.engine.config import main as run_as_command
from training.engine.loop import RunResult, run
from training.engine.model_card import write_card
from training.engine.processes import device, is_main_process, say
from training.engine.recipe import RESULT, compute_of, own_settings, run_recipe, write_settings
from weights.making.cards import mark_calibration_card
from weights.making.mark_calibration.calibrate import calibrate
from weights.making.mark_calibration.draws import MarkLoss, WordDraws, common_nouns
from weights.making.mark_calibration.features import MarkFeatures, prepare, rows_at
from weights.making.mark_calibration.objects import Things, mention_curve, read_boxes, train_naming
from weights.making.mark_calibration.rows import read_mark_rows
from weights.making.settings import MarkCalibrationSettings

_NO_IDENTITY = {"name", "license", "rows", "boxes"}
# Layers that are trained after the run, or not at all.
_LATER = ("reducer.", "in_caption.", "mention.", "named_")


def train(settings: MarkCalibrationSettings) -> RunResult:
    """Run the recipe: features, training, calibration, weights, card."""
    boxes = read_boxes(settings.boxes, [row["file"] for row in read_mark_rows(settings.rows)])
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    if not backbone.has_feature_map:
        raise CapscoreError(Setting("base", settings.base), ": expected a backbone with a feature map")
    features = prepare(settings.rows, backbone, settings.reduced, settings.features_folder)
    network = new_network(settings, features)
    splits = {name: features.of_split(name) for name in ("train", "calibrate")}
    draws = WordDraws(features, splits["train"], settings)
    say(f"{len(draws.photos):,} photos to train on, {len(splits['calibrate']):,} to calibrate on")
    data = b"".join(Path(path).read_bytes() for path in (settings.rows, settings.boxes))
    network.train()
    result = run(
        network,
        draws,
        MarkLoss(features, boxes, settings.thing_weight),
        settings,
        identity={**own_settings(settings, _NO_IDENTITY), "data": xxhash.xxh3_128_hexdigest(data)},
        parameters=[part for name, part in network.named_parameters() if not name.startswith(_LATER)],
    )
    network.eval()
    if not result.finished or not is_main_process():
        return result
    out, seed = Path(settings.out).expanduser(), settings.seed
    things = Things(features, boxes, backbone)
    train_naming(network, things, seed)
    embed = partial(embedded, Embedder(backbone, cache=EmbeddingCache(None)))
    alone, words, fits = calibrate(network, features, embed, settings)
    mentions = mention_curve(network, things, seed)
    notes = {
        "recipe": "mark_calibration",
        "step": result.step,
        "photos": {name: len(own) for name, own in splits.items()},
        "found": {},  # how much of what is wrong is found at 5 % false alarms
    }
    for language, curves in words.items():
        notes["found"][language] = {name: round(curve.found, 4) for name, curve in curves.items()}
    nouns, made_for = common_nouns(features, splits["train"]), (backbone.name, backbone.revision)
    calibration = MarkCalibration(network, alone, words, fits, mentions, nouns, *made_for, notes=notes)
    save_mark_calibration(calibration, out)
    write_settings(out, settings)
    write_card(out, mark_calibration_card(settings, notes, compute=compute_of(result, 0)))
    write_text(out / RESULT, json.dumps(notes, indent=1, ensure_ascii=False) + "\n", "result")
    return result


def save_mark_calibration(calibration: MarkCalibration, folder: str | os.PathLike[str]) -> None:
    """Write a mark calibration, its weights in float16; errors as in `write_network`."""
    record = {
        "model_type": marks.MODEL_TYPE,
        "format": marks.FORMAT,
        "sizes": asdict(calibration.network.config),
        "calibration": {name: _curves_as_json(getattr(calibration, name)) for name in marks.CURVES},
        **{name: getattr(calibration, name) for name in ("backbone", "backbone_revision", "nouns", "notes")},
    }
    write_network(folder, calibration.network, record, "float16")


def _curves_as_json(curves: Any) -> dict[str, Any]:
    """A curve, or a mapping of curves, ready for JSON."""
    if isinstance(curves, MarkCurve):
        numbers = {name: round(getattr(curves, name), 5) for name in ("scale", "bias", "found")}
        return {**numbers, "quantiles": [round(value, 5) for value in curves.quantiles]}
    return {name: _curves_as_json(inner) for name, inner in curves.items()}


def new_network(settings: MarkCalibrationSettings, features: MarkFeatures) -> MarkNetwork:
    """An untrained network with the reduction of the features, and photos as its background."""
    sizes = {name: getattr(settings, name) for name in ("reduced", "hidden", "inner")}
    config = marks.MarkNetworkConfig(dim=features.whole.shape[1], features=features.weight.shape[1], **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = MarkNetwork(config)
    with torch.no_grad():
        network.reducer.weight.copy_(torch.from_numpy(np.array(features.weight)))
        network.reducer.bias.copy_(torch.from_numpy(np.array(features.bias)))
        network.background.copy_(background_of(features, config.background, settings.seed))
        # few cells are the centre of a thing's box
        network.thing.bias.zero_()
    network.dropout = settings.dropout
    return network


def background_of(features: MarkFeatures, number: int, seed: int) -> torch.Tensor:
    """Embeddings (number, d) of photos that are trained on; of a small collection, a larger share."""
    trained = np.flatnonzero(features.split == "train")
    folder = np.array([str(Path(features.files[place]).parent) for place in trained])
    _, collection, sizes = np.unique(folder, return_inverse=True, return_counts=True)
    shares = 1.0 / sizes[collection]
    few, chance = len(trained) < number, np.random.default_rng(seed)
    chosen = chance.choice(trained, number, replace=few, p=shares / shares.sum())
    return rows_at(features.whole, np.sort(chosen))


def main(argv: Sequence[str] | None = None) -> None:
    run_recipe(MarkCalibrationSettings, train, argv, "Train the network of InfoMetIC's marks.")


if __name__ == "__main__":
    run_as_command(main)
