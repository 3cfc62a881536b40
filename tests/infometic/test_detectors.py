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

from capscore.errors import BackboneUnavailable, CapscoreError
from capscore.images.boxes import overlaps
from capscore.infometic.regions import SAME_BOX, Detector

from ..backbones.tiny_transformers import random_photos, randomise, write_json

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny checkpoint, written once; not to be changed."""
    return write_detr(tmp_path_factory.mktemp("detr") / "tiny")


def test_regions_lie_on_the_photo(folder):
    detector = Detector(str(folder), threshold=0.0)
    assert detector.name.startswith("detr:tiny@w")
    photos = [*random_photos(), Image.new("RGB", (1, 1), (200, 10, 10))]
    together = detector.find(photos)
    assert len(together) == len(photos)
    for photo, found in zip(photos, together, strict=True):
        assert 1 <= len(found) <= 100
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
    detector = Detector(str(folder), threshold=0.0)
    (found,) = detector.find([photo])
    model = transformers.DetrForObjectDetection.from_pretrained(folder).eval()
    inputs = transformers.AutoImageProcessor.from_pretrained(folder)(images=photo, return_tensors="pt")
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


def test_threshold_and_number(folder):
    (everything,) = Detector(str(folder), threshold=0.0).find(random_photos(1))
    middle = float(everything.confidences[len(everything) // 2])
    (sure,) = Detector(str(folder), threshold=middle).find(random_photos(1))
    assert len(sure) == (everything.confidences > middle).sum()
    (two,) = Detector(str(folder), threshold=0.0, max_regions=2).find(random_photos(1))
    np.testing.assert_allclose(two.boxes, everything.boxes[:2], atol=1e-3)
    (none,) = Detector(str(folder), threshold=1.0).find(random_photos(1))
    assert len(none) == 0


def test_fingerprints_tell_detectors_apart(folder, tmp_path):
    found = Detector(str(folder)).fingerprint
    assert found == Detector(str(shutil.copytree(folder, tmp_path / "tiny"))).fingerprint
    assert found != Detector(str(folder), threshold=0.2).fingerprint


def test_folders_that_hold_no_detector(tmp_path):
    with pytest.raises(BackboneUnavailable, match=r"has no config\.json"):
        Detector(str(tmp_path))
    transformers.CLIPConfig().save_pretrained(tmp_path / "clip")
    (tmp_path / "clip" / "model.safetensors").touch()
    with pytest.raises(CapscoreError, match="type 'clip', no 'detr' detector"):
        Detector(str(tmp_path / "clip"))


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ("model.safetensors", "has no weights"),
        ("preprocessor_config.json", "the processor in .* cannot be read"),
    ],
)
def test_missing_files_are_named(folder, tmp_path, file, complaint):
    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    (broken / file).unlink()
    with pytest.raises(BackboneUnavailable, match=complaint):
        Detector(str(broken))


def test_weights_of_another_shape_are_refused(folder, tmp_path):
    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    config = json.loads((broken / "config.json").read_text())
    write_json(broken / "config.json", {**config, "num_queries": 13})
    with pytest.raises(BackboneUnavailable, match=r"do not fit.*shape.*query_position_embeddings"):
        Detector(str(broken))
