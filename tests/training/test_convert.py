"""The converter of InfoMetIC, PAC-S and PAC-S++: layouts it reads, scores of PAC-S, files it refuses.

That InfoMetIC's scores are those of the public code is in `tests/metrics/test_infometic_as_released.py`.
"""

import json
import os
from unittest import mock

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from torchvision import transforms

import capscore
from capscore.errors import CapscoreError, InputError, ResultWriteError
from capscore.hub.weights import plan_weights
from capscore.infometic.network import InfoMetIC
from tools.tiny.open_clip_models import DIM, TEXT, VISION, build
from tools.tiny.transformers_models import write_clip
from training import convert as module
from training.convert import Settings, main

from ..infometic.public_code import random_checkpoint
from ..photos import noise

STATE = random_checkpoint(intra=2, inter=1)


def convert(checkpoint, out, **options):
    return module.convert(Settings(str(checkpoint), str(out), **options))


def saved(path, content):
    torch.save(content, path)
    return path


def prefixed(state, prefix):
    return {prefix + name: tensor for name, tensor in state.items()}


def without(state, start):
    return {name: tensor for name, tensor in state.items() if not name.startswith(start)}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    return convert(saved(folder / "best_model.pth", STATE), folder / "network")


@pytest.mark.parametrize(
    "layout",
    [
        {"model": {"state_dict": STATE}, "epoch": 3},
        {"state_dict": prefixed(STATE, "module.")},
        prefixed({**STATE, "clip_backbone.visual.proj": torch.zeros(3, 2)}, "module."),
    ],
)
def test_every_layout_gives_the_same_network(tmp_path, plain, layout):
    found = convert(saved(tmp_path / "best_model.pth", layout), tmp_path / "network")
    assert found.fingerprint() == plain.fingerprint()


def test_tensors_stand_where_they_belong(plain, tmp_path):
    config, state = plain.config, plain.state_dict()
    assert (config.dim, config.heads, config.intra_layers, config.inter_layers) == (16, 16, 2, 1)
    assert config == config.released() and config.backbone == ""
    assert torch.equal(state["token_key.weight"], STATE["text_att_key"].T)
    half = {name: tensor.half() for name, tensor in STATE.items()}
    found = convert(saved(tmp_path / "half.pth", half), tmp_path / "network").region_query.weight
    assert found.dtype == torch.float32
    assert torch.allclose(found, plain.region_query.weight, atol=1e-3)


def test_the_weights_refuse_another_backbone(tmp_path, embedded, monkeypatch):
    clip = write_clip(tmp_path / "tiny", context=77)
    backbone = capscore.load_backbone(str(clip), device="cpu")
    tokens = backbone.text_network().state_dict()["text_model.embeddings.token_embedding.weight"]
    path = saved(tmp_path / "best.pth", {**STATE, "clip_backbone.token_embedding.weight": tokens.half()})
    found = convert(path, tmp_path / "network", backbone=str(clip))
    assert found.config.backbone_revision and found.config.backbone_fingerprint
    load = dict(weights=str(tmp_path / "network"), device="cpu", cache=False)
    scorer = capscore.load("infometic", backbone=str(clip), **load)
    assert scorer.weights == f"network@{found.revision}"
    other = write_clip(tmp_path / "other", context=77, seed=1)
    with pytest.raises(CapscoreError, match="the InfoMetIC weights were made for"):
        capscore.load("infometic", backbone=str(other), **load)
    with pytest.raises(CapscoreError, match=r"was trained with another CLIP than .*: their tables of tokens"):
        convert(path, tmp_path / "again", backbone=str(other))
    assert not (tmp_path / "again").exists()
    monkeypatch.setattr(module, "load_backbone", lambda *_, **__: embedded)
    with pytest.raises(CapscoreError, match="reads features of length 16; those of embedded have 512"):
        convert(path, tmp_path / "again", backbone="embedded")
    wide = saved(tmp_path / "wide.pth", random_checkpoint(dim=512, intra=1, inter=1))
    with pytest.raises(CapscoreError, match=r"'embedded' does not offer text embeddings .* any length"):
        convert(wide, tmp_path / "again", backbone="embedded")


MODEL = {"embed_dim": DIM, "vision_cfg": VISION, "text_cfg": TEXT}
MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)
CAPTIONS = ["a dog runs on the beach", "two red cats", "A house!"]
REFERENCES = [["a dog", "a brown dog runs"], ["cats"], ["a house", "the house of a man"]]
NAME = "tiny-pac-s/tuned"


@pytest.fixture
def tiny(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("architectures")
    (folder / "tiny-pac-s.json").write_text(json.dumps(MODEL))
    open_clip.add_model_config(folder)
    record = {"quick_gelu": True, "mean": MEAN, "std": STD, "hf_hub": "nobody/nothing/"}
    monkeypatch.setattr(module, "tag_config", lambda model, tag: record)


def clip():
    return build({**MODEL, "quick_gelu": True}, None, 3)


def with_lora(model, rank=2):
    """A state dict as PAC-S++ has it; the model gets the weights that this adds up to, entry by entry.

    Of an MLP, the public code reads the weight alone.
    """
    draw = np.random.default_rng(0)
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
    size, bicubic = VISION["image_size"], transforms.InterpolationMode.BICUBIC
    steps = [transforms.Resize(size, bicubic), transforms.CenterCrop(size), transforms.ToTensor()]
    read = transforms.Compose([*steps, transforms.Normalize(MEAN, STD)])

    def unit(features):
        vector = features[0].numpy().astype(np.float64)
        return vector / np.sqrt((vector**2).sum())

    scores, with_references = [], []
    with torch.inference_mode():
        for photo, caption, references in zip(photos, CAPTIONS, REFERENCES, strict=True):
            told = [f"A photo depicts {text}" for text in (caption, *references)]
            texts = [unit(model.encode_text(tokenize([text]))) for text in told]
            cosine = unit(model.encode_image(read(photo)[None])) @ texts[0]
            best = max(float(texts[0] @ other) for other in texts[1:])
            scores.append(2 * max(cosine, 0))
            with_references.append(2 * scores[-1] * best / (scores[-1] + best))
    return scores, with_references


@pytest.mark.parametrize("lora", [False, True])
def test_scores_of_pac_s_are_those_of_the_public_code(tmp_path, capsys, lora, tiny):
    model, photos = clip(), [Image.fromarray(noise(40, 50, n)) for n in range(3)]
    path = saved(tmp_path / "clip.pth", {"state_dict": with_lora(model) if lora else model.state_dict()})
    out = tmp_path / "pac-s"
    main(["--checkpoint", str(path), "--out", str(out), "--backbone", NAME, "--license", "mit"])
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
    assert {"README.md", "open_clip_config.json", "open_clip_model.safetensors"} == {*plan_weights(out).files}
    assert "license: mit" in (out / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("own", [{"w": 0}, {"w": "nan"}, {"w": None}, [2.0]])
def test_a_damaged_factor_is_one_error(tmp_path, own, tiny):
    out = tmp_path / "out"
    convert(saved(tmp_path / "clip.pth", clip().state_dict()), out, backbone=NAME)
    config = json.loads((out / "open_clip_config.json").read_text())
    (out / "open_clip_config.json").write_text(json.dumps({**config, "capscore": own}))
    with pytest.raises(capscore.BackboneUnavailable, match=r"open_clip_config\.json"):
        capscore.load_backbone(out)


LORA = with_lora(clip())


class Code:
    def __reduce__(self):
        return (os.mkdir, ("ran",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (without(STATE, "logit_scale"), "Missing key.*log_scale"),
        (without(STATE, "text_encoder.resblocks.1."), "2 layers of each .*text_layers.1.attention_in.weight"),
        ({**STATE, "img_bboxtext_fusion": torch.zeros(32, 16)}, "Unexpected key.*img_bboxtext_fusion"),
        ({**STATE, "image_encoder.resblocks.2.ln_1.bias": torch.zeros(16)}, "3 layers of each .*Missing"),
        ({**STATE, "text_att_key": torch.zeros(16)}, "size mismatch for token_key.weight"),
        ({**STATE, "ln.bias": torch.full((16,), torch.nan)}, "norms.all.bias of .* is not finite"),
        ({**STATE, "ln.bias": [0.0] * 16}, "'ln.bias' should be a tensor of numbers, not list"),
        ({**STATE, "ln.bias": torch.zeros(16).long()}, "'ln.bias' should be a tensor of numbers"),
        ({"weight": torch.zeros(2)}, r"neither the vector ln.weight .* nor visual.proj .*; it has weight"),
        ({**STATE, "ln.weight": torch.zeros(2, 2)}, "neither the vector ln.weight"),
        ({}, "holds dict: expected names with their tensors"),
        (torch.zeros(3), "holds Tensor: expected names with their tensors"),
        (without(LORA, "transformer."), r"wrong\.pth does not fit tiny-pac-s: .*Missing key.*transformer\."),
        (without(LORA, "visual.conv1.lora_B"), "visual.conv1.lora_A, .*lora_B and .*weight do not go"),
        ({**LORA, "visual.conv1.lora_B": torch.zeros(3, 4)}, "do not go together"),
        (b"", r"wrong\.pth cannot be read safely"),
        ({**STATE, "x": Code()}, r"wrong\.pth cannot be read safely"),
    ],
)
def test_unexpected_content_is_one_error_and_nothing_is_written_or_run(
    tmp_path, monkeypatch, content, message, tiny
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "wrong.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        saved(path, content)
    with pytest.raises(CapscoreError, match=message):
        convert(path, tmp_path / "out", backbone=NAME if "visual.proj" in [*content] else "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["wrong.pth"]


def test_the_folder_appears_whole_and_replaces_nothing(tmp_path, monkeypatch, capsys):
    path, out = saved(tmp_path / "best.pth", STATE), tmp_path / "out"
    out.mkdir()
    main(["--checkpoint", str(path), "--out", str(out), "--license", "apache-2.0"])
    said = capsys.readouterr().out
    assert "2 layers of each modality, 1 of both, vectors of 16" in said and "no backbone is recorded" in said
    assert {"README.md", "config.json", "model.safetensors"} <= {entry.name for entry in out.iterdir()}
    text = (out / "README.md").read_text(encoding="utf-8")
    assert "training.convert --checkpoint best.pth --out out" in text and str(tmp_path) not in text
    assert "a checkpoint of the public code" in text and "refuse none of its length" in text
    assert InfoMetIC.from_pretrained(out).notes["converted_from"] == "best.pth"
    for taken in (out, path):
        with pytest.raises(InputError, match="is not empty: give a new folder"):
            convert(path, taken)
    with pytest.raises(InputError, match="there is no file"):
        convert(tmp_path / "other.pth", tmp_path / "new")
    with pytest.raises(InputError, match="'vit/x': open_clip has no architecture 'vit'"):
        convert(saved(tmp_path / "clip.pth", LORA), tmp_path / "new", backbone="vit/x")
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        monkeypatch.setattr(module, "write_card", mock.Mock(side_effect=error))
        with pytest.raises((ResultWriteError, KeyboardInterrupt)):
            convert(path, tmp_path / "deep" / "network")
        assert list((tmp_path / "deep").iterdir()) == []
