"""Detectors, loaded from tiny checkpoints on disk by the code that loads the real ones.

What they find is compared with boxes worked out from the networks' raw outputs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from capscore.errors import BackboneUnavailable, CapscoreError, InputError
from capscore.images.boxes import overlaps
from capscore.infometic.detectors import SAME_BOX, Detector

from ..backbones.tiny_transformers import (
    bert_tokenizer,
    clip_tokenizer,
    random_photos,
    randomise,
    write_json,
)

SIDE = 32
LABELS = {"0": "cat", "1": "dog", "2": "ball"}


def write_detr(folder: Path) -> Path:
    backbone = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 8, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage4"],
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        num_queries=12,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        id2label=LABELS,
        label2id={name: int(number) for number, name in LABELS.items()},
    )
    randomise(transformers.DetrForObjectDetection(config)).save_pretrained(folder)
    write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "DetrImageProcessor",
            "format": "coco_detection",
            "do_resize": True,
            "size": {"shortest_edge": SIDE, "longest_edge": 2 * SIDE},
            "do_rescale": True,
            "do_normalize": True,
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "do_pad": True,
        },
    )
    return folder


def write_owlv2(folder: Path) -> Path:
    size = clip_tokenizer(folder, max_length=16)
    tower = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    config = transformers.Owlv2Config(
        text_config={**tower, "vocab_size": size, "max_position_embeddings": 16},
        vision_config={**tower, "image_size": SIDE, "patch_size": 8},
        projection_dim=16,
    )
    randomise(transformers.Owlv2ForObjectDetection(config)).save_pretrained(folder)
    processor = {
        "image_processor_type": "Owlv2ImageProcessor",
        "processor_class": "Owlv2Processor",
        "do_resize": True,
        "size": {"height": SIDE, "width": SIDE},
        "do_rescale": True,
        "do_pad": True,
        "do_normalize": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    write_json(folder / "preprocessor_config.json", processor)
    return folder


def write_grounding_dino(folder: Path) -> Path:
    size = bert_tokenizer(folder, max_length=64, lowercase=True)
    config = transformers.GroundingDinoConfig(
        backbone=None,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone_config=transformers.SwinConfig(
            image_size=SIDE,
            patch_size=4,
            embed_dim=8,
            depths=[1, 1, 1],
            num_heads=[1, 1, 1],
            window_size=2,
            out_features=["stage1", "stage2", "stage3"],
        ),
        text_config=transformers.BertConfig(
            vocab_size=size,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=64,
        ),
        num_queries=9,
        d_model=64,  # in 32 groups of channels, none of which may be a single number
        encoder_layers=1,
        decoder_layers=2,  # the boxes of the others are tied to those of the first
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_text_len=64,
    )
    randomise(transformers.GroundingDinoForObjectDetection(config)).save_pretrained(folder)
    write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "GroundingDinoImageProcessor",
            "processor_class": "GroundingDinoProcessor",
            "format": "coco_detection",
            "do_resize": True,
            "size": {"shortest_edge": SIDE, "longest_edge": 2 * SIDE},
            "do_rescale": True,
            "do_normalize": True,
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "do_pad": True,
        },
    )
    return folder


WRITERS = {"detr": write_detr, "owlv2": write_owlv2, "grounding-dino": write_grounding_dino}
NAMES = {"detr": (), "owlv2": ["cat", "the dog"], "grounding-dino": ["cat", "dog"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The checkpoint of a kind, written once; not to be changed."""
    written: dict[str, Path] = {}

    def get(kind: str) -> Path:
        if kind not in written:
            written[kind] = WRITERS[kind](tmp_path_factory.mktemp(kind) / "tiny")
        return written[kind]

    return get


def load(folder: Path, kind: str, **options) -> Detector:
    return Detector(str(folder), kind=kind, names=NAMES[kind], **options)


@pytest.mark.parametrize("kind", WRITERS)
def test_regions_lie_on_the_photo(folder, kind):
    detector = load(folder(kind), kind, threshold=0.0)
    assert detector.name.startswith(f"{kind}:tiny@w")
    photos = [*random_photos(), Image.new("RGB", (1, 1), (200, 10, 10))]
    together = detector.find(photos)
    assert len(together) == len(photos)
    for photo, found in zip(photos, together, strict=True):
        # most of what OWLv2 looks at in a photo of 50 × 3 is padding
        assert (0 if photo.height < 33 else 1) <= len(found) <= 100
        assert (found.boxes[:, :2] >= 0).all() and (found.boxes[:, 2:] <= photo.size).all()
        assert (found.boxes[:, :2] < found.boxes[:, 2:]).all()
        assert (np.diff(found.confidences) <= 0).all()
        assert ((found.confidences > 0) & (found.confidences <= 1)).all()
        shared = overlaps(found.boxes, found.boxes)
        np.fill_diagonal(shared, 0)
        assert (shared <= SAME_BOX).all()
        alone = detector.find([photo])[0]
        np.testing.assert_allclose(found.boxes, alone.boxes, atol=1e-3)
        assert found.labels == alone.labels


def test_detr_equals_its_raw_outputs(folder):
    photo = random_photos()[1]  # 64 × 33
    detector = load(folder("detr"), "detr", threshold=0.0)
    (found,) = detector.find([photo])
    model = transformers.DetrForObjectDetection.from_pretrained(folder("detr")).eval()
    inputs = transformers.AutoImageProcessor.from_pretrained(folder("detr"))(
        images=photo, return_tensors="pt"
    )
    with torch.no_grad():
        outputs = model(**inputs)
    shares = torch.exp(outputs.logits[0] - outputs.logits[0].logsumexp(-1, keepdim=True))[:, :3].numpy()
    x, y, w, h = outputs.pred_boxes[0].numpy().astype(np.float64).T
    boxes = np.column_stack([(x - w / 2) * 64, (y - h / 2) * 33, (x + w / 2) * 64, (y + h / 2) * 33])
    boxes = boxes.clip(0, [64, 33, 64, 33])
    best = int(shares.max(axis=1).argmax())
    np.testing.assert_allclose(found.boxes[0], boxes[best], atol=1e-3)
    assert found.confidences[0] == pytest.approx(shares[best].max(), abs=1e-5)
    assert found.labels[0] == LABELS[str(shares[best].argmax())]


def test_owlv2_boxes_are_those_of_the_padded_square(folder):
    photo = random_photos()[2]  # 33 × 80
    detector = load(folder("owlv2"), "owlv2", threshold=0.0)
    (found,) = detector.find([photo])
    model = transformers.Owlv2ForObjectDetection.from_pretrained(folder("owlv2")).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder("owlv2"))
    with torch.no_grad():
        outputs = model(**processor(text=[["cat", "the dog"]], images=photo, return_tensors="pt"))
    confidences = torch.sigmoid(outputs.logits[0]).numpy()
    x, y, w, h = outputs.pred_boxes[0].numpy().astype(np.float64).T
    boxes = 80 * np.column_stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
    boxes = boxes.clip(0, [33, 80, 33, 80])
    seen = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    best = int(np.where(seen, confidences.max(axis=1), -1).argmax())
    np.testing.assert_allclose(found.boxes[0], boxes[best], atol=1e-3)
    assert found.confidences[0] == pytest.approx(confidences[best].max(), abs=1e-5)
    assert found.labels[0] == ["cat", "the dog"][confidences[best].argmax()]


def test_threshold_and_number(folder):
    path = folder("detr")
    (everything,) = load(path, "detr", threshold=0.0).find(random_photos(1))
    middle = float(everything.confidences[len(everything) // 2])
    (sure,) = load(path, "detr", threshold=middle).find(random_photos(1))
    assert len(sure) == (everything.confidences > middle).sum()
    (two,) = load(path, "detr", threshold=0.0, max_regions=2).find(random_photos(1))
    np.testing.assert_allclose(two.boxes, everything.boxes[:2], atol=1e-3)
    (none,) = load(path, "detr", threshold=1.0).find(random_photos(1))
    assert len(none) == 0


def test_fingerprints_tell_detectors_apart(folder, tmp_path):
    path = folder("owlv2")
    copy = Path(shutil.copytree(path, tmp_path / "tiny"))
    assert load(path, "owlv2").fingerprint == load(copy, "owlv2").fingerprint
    assert load(path, "owlv2").fingerprint != load(path, "owlv2", threshold=0.2).fingerprint
    others = Detector(str(path), kind="owlv2", names=["cat"])
    assert load(path, "owlv2").fingerprint != others.fingerprint


def test_grounding_dino_reads_the_names_up_to_its_limit(folder):
    """All names are one text, of `max_text_len` tokens at most; 64 of the tiny one."""
    path = folder("grounding-dino")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    many = [f"{letter}{other}" for letter in "abcdefgh" for other in "klmnop"]

    def fitting(limit: int) -> int:
        """How many of the names make a text of so many tokens at most."""
        lengths = [len(tokenizer(". ".join(many[:n]) + ".")["input_ids"]) for n in range(1, len(many))]
        return sum(length <= limit for length in lengths)

    n = fitting(64)
    assert 5 < n < 40
    found = Detector(str(path), kind="grounding-dino", names=many[:n])
    assert found.names == tuple(many[:n]) and len(found.find(random_photos(1))) == 1
    with pytest.raises(InputError, match="reads 64 tokens"):
        Detector(str(path), kind="grounding-dino", names=many[: n + 1])


def test_owlv2_reads_a_name_up_to_its_limit(folder):
    """16 tokens of the tiny one, whatever the number of names."""
    path = folder("owlv2")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    long = "x" * 30
    assert len(tokenizer(long)["input_ids"]) > 16
    names = [*(f"{letter}{other}" for letter in "abcdefgh" for other in "klm"), "cat"]
    found = Detector(str(path), kind="owlv2", names=names)
    assert len(found.find(random_photos(1))) == 1
    with pytest.raises(InputError, match="reads 16 tokens"):
        Detector(str(path), kind="owlv2", names=["cat", long])


def test_folders_that_hold_no_detector(folder, tmp_path):
    with pytest.raises(CapscoreError, match="type 'owlv2', no 'detr' detector"):
        load(folder("owlv2"), "detr")
    with pytest.raises(CapscoreError, match="type 'detr', no 'owlv2' detector"):
        load(folder("detr"), "owlv2")
    with pytest.raises(BackboneUnavailable, match=r"has no config\.json"):
        load(tmp_path, "detr")
    with pytest.raises(CapscoreError, match="revision='main' does not go with"):
        load(folder("detr"), "detr", revision="main")


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("model.safetensors", "has no weights"),
        ("preprocessor_config.json", "the processor in .* cannot be read"),
    ],
)
def test_missing_files_are_named(folder, tmp_path, file, complaint):
    broken = Path(shutil.copytree(folder("detr"), tmp_path / "broken"))
    (broken / file).unlink()
    with pytest.raises(BackboneUnavailable, match=complaint):
        load(broken, "detr")


def test_weights_of_another_shape_are_refused(folder, tmp_path):
    broken = Path(shutil.copytree(folder("detr"), tmp_path / "broken"))
    config = json.loads((broken / "config.json").read_text())
    write_json(broken / "config.json", {**config, "num_queries": 13})
    with pytest.raises(BackboneUnavailable, match=r"do not fit.*shape.*query_position_embeddings"):
        load(broken, "detr")
