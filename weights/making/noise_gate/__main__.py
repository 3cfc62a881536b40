"""Captions → the noise gate of PR-MCS behind an embedded backbone: `embedded-pr-mcs`.

    python -m weights.making.captions --config weights/making/configs/captions.yaml --data DATA \
        --texts texts --out captions.jsonl
    python -m weights.making.noise_gate --config weights/making/configs/pr_mcs.yaml \
        --texts captions.jsonl --out runs/noise_gate

In: captions with their words and a backbone. Out: a folder that
`capscore.load("pr_mcs", backbone=folder)` takes, with a card, the log and the checkpoints of the run. Only
it is trained: embeddings of right captions are those of the backbone. The same command continues an
interrupted run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capscore import load_backbone
from capscore.backbones.embedded.backbone import SentenceEncoderBackbone
from capscore.errors import CapscoreError, InputError, Setting
from capscore.files.write import write_text
from training.engine.config import main as run_as_command
from training.engine.loop import RunResult, run
from training.engine.model_card import write_card
from training.engine.processes import device, is_main_process, say
from training.engine.recipe import RESULT, compute_of, own_settings, run_folder, run_recipe, write_settings
from training.engine.saved_towers import save_tuned
from weights.making.cards import noise_gate_card, validation_results
from weights.making.held_out import photo_of
from weights.making.noise_gate.loss import POWER, NoiseGateCheck, NoiseGateLoss, curved, null_direction
from weights.making.noise_gate.samples import SampleBatches
from weights.making.noise_gate.texts import MarkedText, read_texts
from weights.making.settings import NoiseGateSettings

_NO_IDENTITY = {"stored_dtype", "name", "license", "keep_right", "validation_texts", "texts"}
# Captions from whose embeddings the null direction is found.
_FOR_DIRECTION = 6000


def train(settings: NoiseGateSettings) -> RunResult:
    """Run the recipe: read, train, set the curve, measure, save."""
    run_folder(settings)  # an error where it has the weights of another model
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    if not isinstance(backbone, SentenceEncoderBackbone):
        raise CapscoreError(Setting("base", settings.base), ": expected one with the embedded text encoder")
    training, validation, digest = split_texts(settings)
    say(f"{len(training):,} captions to train on, {len(validation):,} for validation")
    # before the noise gate is there: an untrained one would scale the rows
    chosen = np.random.default_rng(0).permutation(len(training))[:_FOR_DIRECTION]
    direction = null_direction(backbone, [training[row].text for row in chosen])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        sizes = dict(zip(("width", "layers", "heads"), settings.gate, strict=True))
        backbone.add_network_parts({"noise_gate": sizes})
    network = backbone.text_network()
    network.turn_to(direction)
    drawn = partial(SampleBatches, tokenizer=backbone.tokenizer, settings=settings)
    held_out = drawn(validation, steps=10**6, seed=settings.seed + 1)
    n_batches = -(-settings.validation_texts // settings.batch_size)
    samples = [sample for step in range(n_batches) for sample in held_out.batch(0, step)]
    check = NoiseGateCheck(samples[: settings.validation_texts])
    network.requires_grad_(False)
    network.gate.requires_grad_(True)
    network.train()
    result = run(
        network,
        drawn(training, steps=settings.max_steps or 1, seed=settings.seed),
        NoiseGateLoss(settings.kind_weight, settings.touched_weight, settings.numbers("right")),
        settings,
        evaluate=lambda model, step: check.numbers(check.openness(model)),
        identity={**own_settings(settings, _NO_IDENTITY), "texts_digest": digest},
    )
    network.eval()
    if result.finished and is_main_process():
        numbers = {"n_training": len(training), "n_validation": len(validation)}
        _finish(settings, backbone, check, result, numbers)
    return result


def _finish(
    settings: NoiseGateSettings,
    backbone: SentenceEncoderBackbone,
    check: NoiseGateCheck,
    result: RunResult,
    notes: dict[str, Any],
) -> None:
    """Set the curve of a trained noise gate, measure it, and write the folder."""
    out, network = Path(settings.out).expanduser(), backbone.text_network()
    openness = check.openness(network)
    curve = (check.best_reach(openness, settings.keep_right), POWER)
    with torch.no_grad():
        network.curve.copy_(torch.tensor(curve))
    kept = curved(openness, curve)
    numbers, languages = check.numbers(kept), check.by_language(kept)
    save_tuned(
        backbone,
        out,
        base=load_backbone(settings.base, device="cpu", dtype="float32"),
        base_spec=settings.base,
        recipe="pr_mcs",
        languages=sorted(settings.numbers("languages")),
        notes={"validation": numbers, "steps": result.step},
        dtype=settings.stored_dtype,
    )
    write_settings(out, settings)
    results = validation_results(numbers, languages, len(check.samples))
    write_card(out, noise_gate_card(settings, results=results, compute=compute_of(result, 0)))
    notes |= {"step": result.step, "validation": numbers, "curve": list(curve), "languages": languages}
    write_text(out / RESULT, json.dumps(notes, indent=1, ensure_ascii=False) + "\n", "result")


def split_texts(settings: NoiseGateSettings) -> tuple[list[MarkedText], list[MarkedText], str]:
    """Captions to train on, captions of other photos for validation, and a digest of all.

    A photo, by its number or else its name, is on one side in every data set and language.
    """
    training, validation = [], []
    digest = hashlib.sha256()
    for text in read_texts(settings.texts):
        digest.update(f"{text.source}\t{text.text}\n".encode())
        name = text.source.rpartition("/")[2]
        photo = photo_of(name) or name.partition("#")[0]  # without the language and number of the caption
        spot = int.from_bytes(hashlib.sha256(str(photo).encode()).digest()[:4], "big") / 2**32
        (validation if spot < settings.validation_share else training).append(text)
    known = {text.source.partition("/")[0] for text in (*training, *validation)}
    if unknown := [name for name in settings.numbers("sources") if name not in known]:
        raise InputError(
            f"there are no captions of {', '.join(unknown)}; expected some of {', '.join(sorted(known))}",
            field="sources",
        )
    return training, validation, digest.hexdigest()[:16]


def main(argv: Sequence[str] | None = None) -> None:
    run_recipe(NoiseGateSettings, train, argv, "Train the noise gate of PR-MCS behind an embedded backbone.")


if __name__ == "__main__":
    run_as_command(main)
