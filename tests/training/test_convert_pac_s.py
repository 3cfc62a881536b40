"""The converter of PAC-S and PAC-S++: scores of the public code, files it refuses, nothing left half-way."""

from __future__ import annotations

import json

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from torchvision import transforms

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.hub.weights import plan_weights
from tools.tiny.open_clip_models import DIM, TEXT, VISION, build
from training import convert as module
from training.convert import Settings, main

from ..photos import noise

MODEL = {"embed_dim": DIM, "vision_cfg": VISION, "text_cfg": TEXT}
MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)
CAPTIONS = ["a dog runs on the beach", "two red cats", "A house!"]
REFERENCES = [["a dog", "a brown dog runs"], ["cats"], ["a house", "the house of a man"]]
NAME = "tiny-pac-s/tuned"


@pytest.fixture(autouse=True)
def tiny(tmp_path_factory, monkeypatch):
    """A tiny architecture that open_clip knows, with the record of a tag."""
    folder = tmp_path_factory.mktemp("architectures")
    (folder / "tiny-pac-s.json").write_text(json.dumps(MODEL))
    open_clip.add_model_config(folder)
    record = {"quick_gelu": True, "mean": MEAN, "std": STD, "hf_hub": "nobody/nothing/"}
    monkeypatch.setattr(module, "tag_config", lambda model, tag: record)
    return record


def convert(checkpoint, out, **options):
    return module.convert(Settings(str(checkpoint), str(out), **options))


def clip(seed=3):
    return build({**MODEL, "quick_gelu": True}, None, seed)


def saved(folder, tensors):
    torch.save({"state_dict": tensors, "epoch": 4}, folder / "clip.pth")
    return folder / "clip.pth"


def with_lora(model, rank=2, seed=0):
    """A state dict as PAC-S++ has it; the model gets the weights that this adds up to, entry by entry.

    Of an MLP, the public code reads the weight alone.
    """
    draw = np.random.default_rng(seed)
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, weight in list(tensors.items()):
        k = weight.shape[-1] if weight.ndim == 4 else 1
        if not name.endswith(("in_proj_weight", "out_proj.weight", "conv1.weight", "mlp.c_fc.weight")):
            continue
        second = draw.normal(0, 0.2, (weight.shape[0] * k, rank * k)).astype(np.float32)
        first = draw.normal(0, 0.2, (rank * k, weight.shape[1] * k)).astype(np.float32)
        stem = f"{name}_" if "in_proj" in name else name.removesuffix("weight")
        tensors |= {f"{stem}lora_A": torch.tensor(first), f"{stem}lora_B": torch.tensor(second)}
        added = sum(np.outer(second[:, n], first[n]) for n in range(rank * k)) / rank
        if "mlp" not in name:
            with torch.no_grad():
                model.get_parameter(name).add_(torch.tensor(added).reshape(weight.shape))
    return tensors


def by_hand(model, photos):
    """PAC-S and RefPAC-S, row by row: 2 · max(cos, 0), with the prefix, and the harmonic mean."""
    tokenize = open_clip.SimpleTokenizer(context_length=TEXT["context_length"])
    size = VISION["image_size"]
    bicubic = transforms.InterpolationMode.BICUBIC
    steps = [transforms.Resize(size, bicubic), transforms.CenterCrop(size), transforms.ToTensor()]
    read = transforms.Compose([*steps, transforms.Normalize(MEAN, STD)])

    def unit(features):
        vector = features[0].numpy().astype(np.float64)
        return vector / np.sqrt((vector**2).sum())

    scores, with_references = [], []
    with torch.inference_mode():
        for photo, caption, references in zip(photos, CAPTIONS, REFERENCES, strict=True):
            texts = [
                unit(model.encode_text(tokenize([f"A photo depicts {text}"])))
                for text in (caption, *references)
            ]
            cosine = unit(model.encode_image(read(photo)[None])) @ texts[0]
            best = max(float(texts[0] @ other) for other in texts[1:])
            scores.append(2 * max(cosine, 0))
            with_references.append(2 * scores[-1] * best / (scores[-1] + best))
    return scores, with_references


def test_a_converted_folder_has_a_card_and_can_be_published(tmp_path):
    convert(saved(tmp_path, clip().state_dict()), tmp_path / "out", backbone=NAME, license="mit")
    plan = plan_weights(tmp_path / "out")
    assert {"README.md", "open_clip_config.json", "open_clip_model.safetensors"} == {*plan.files}
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "license: mit" in card and "--checkpoint clip.pth" in card and str(tmp_path) not in card


@pytest.mark.parametrize("lora", [False, True])
def test_scores_are_those_of_the_public_code(tmp_path, capsys, lora):
    model, photos = clip(), [Image.fromarray(noise(40, 50, n)) for n in range(3)]
    tensors = with_lora(model) if lora else model.state_dict()
    out = tmp_path / "pac-s"
    main(["--checkpoint", str(saved(tmp_path, tensors)), "--out", str(out), "--backbone", NAME])
    assert "vectors of 16, w = 2, prefix 'A photo depicts '" in capsys.readouterr().out
    pac, ref_pac = by_hand(model, photos)
    assert len(set(pac)) == 3
    scorer = capscore.load("clip_score", backbone=out, cache=False)
    found = scorer.score(CAPTIONS, photos, language="en")
    assert found.scores == pytest.approx(pac, abs=1e-6)
    assert "|w:2|prefix:A%20photo%20depicts%20|" in found.signature
    ref = capscore.load("ref_clip_score", backbone=out, cache=False)
    found = ref.score(CAPTIONS, photos, references=REFERENCES, language="en")
    assert found.scores == pytest.approx(ref_pac, abs=1e-6)


STATE = clip().state_dict()
LORA = with_lora(clip())


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (
            {name: tensor for name, tensor in STATE.items() if not name.startswith("transformer.")},
            r"clip\.pth does not fit tiny-pac-s: transformer.* is missing; .* and \d+ more",
        ),
        ({**STATE, "extra": torch.zeros(2)}, "extra is unexpected"),
        ({**STATE, "visual.proj": torch.zeros(3, 2)}, r"visual.proj has the shape \(3, 2\), not \(32, 16\)"),
        (
            {name: tensor for name, tensor in LORA.items() if name != "visual.conv1.lora_B"},
            "visual.conv1.lora_A, visual.conv1.lora_B and visual.conv1.weight do not go together",
        ),
        ({**LORA, "visual.conv1.lora_B": torch.zeros(3, 4)}, "do not go together"),
    ],
)
def test_unexpected_content_is_one_error_and_nothing_is_written(tmp_path, tensors, message):
    path = saved(tmp_path, tensors)
    with pytest.raises(CapscoreError, match=message):
        convert(path, tmp_path / "out", backbone=NAME)
    assert [entry.name for entry in tmp_path.iterdir()] == ["clip.pth"]


def test_wrong_settings_are_one_error(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        convert(tmp_path / "none.pth", tmp_path / "out", backbone=NAME)
    with pytest.raises(InputError, match="'vit/x': open_clip has no architecture 'vit'"):
        convert(saved(tmp_path, STATE), tmp_path / "out", backbone="vit/x")
    with pytest.raises(InputError, match="is not empty"):
        convert(saved(tmp_path, STATE), tmp_path, backbone=NAME)


@pytest.mark.parametrize("own", [{"w": 0}, {"w": "nan"}, {"w": None}, [2.0]])
def test_a_damaged_factor_is_one_error(tmp_path, own):
    out = tmp_path / "out"
    convert(saved(tmp_path, STATE), out, backbone=NAME)
    config = json.loads((out / "open_clip_config.json").read_text())
    (out / "open_clip_config.json").write_text(json.dumps({**config, "capscore": own}))
    with pytest.raises(capscore.BackboneUnavailable, match=r"open_clip_config\.json"):
        capscore.load_backbone(out)
