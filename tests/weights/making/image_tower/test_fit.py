"""The fit on tiny networks and invented features: it learns, stops at NaN, continues when killed."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from capscore.backbones.embedded.image_tower import ImageTower, ImageTowerConfig
from capscore.errors import CapscoreError
from weights.making.held_out import Photo
from weights.making.image_tower import fit as fitting
from weights.making.image_tower.data import CaptionDraws, CaptionEmbeddings, TrainingData
from weights.making.image_tower.features import TrainedHalf
from weights.making.image_tower.fit import fit
from weights.making.image_tower.rows import PhotoRow, TrainingRows
from weights.making.image_tower.settings import ImageTowerSettings

SMALL = ImageTowerConfig(
    dim=12,
    side=32,
    stem=8,
    stages=((1, 3, 2, 1, 8), (1, 3, 1, 2, 10), (1, 3, 2, 2, 16)),
    features=24,
    width=16,
    heads=4,
    grid=2,
    hidden=16,
    classes=10,
)
PHOTOS, TEXTS = 24, 10


def embeddings(rows, languages, captions, seed, without=None) -> CaptionEmbeddings:
    """Unit rows near one direction per row; one row may have none."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(rows, SMALL.dim))
    matrix, offsets = [], {}
    for language in languages:
        counts = np.where(np.arange(rows) == without, 0, captions)
        offsets[language] = len(matrix) + np.concatenate([[0], counts.cumsum()])
        matrix += [
            centre + 0.2 * chance.normal(size=SMALL.dim) for centre in np.repeat(centres, counts, axis=0)
        ]
    found = np.array(matrix).reshape(-1, SMALL.dim)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return CaptionEmbeddings(found.astype(np.float16), offsets, f"captions {seed}")


def data(texts=TEXTS) -> TrainingData:
    """Features that tell the photo: channels are its own random numbers."""
    chance = np.random.default_rng(7)
    base = 2 * chance.normal(size=(PHOTOS, 8, 1, 1))
    views = [(base + 0.1 * chance.normal(size=(PHOTOS, 8, 4, 4))).astype(np.float16) for _ in range(3)]
    captions = {"en": ("A dog.", "Dogs."), "zh": ("一只狗。",)}
    rows = [
        PhotoRow(Photo("flickr", n), f"{n}.jpg", None, "flickr8k", {} if n == 5 else captions)
        for n in range(PHOTOS)
    ]
    alone = [PhotoRow(Photo("flickr", 100 + n), "x.jpg", None, "multi30k", captions) for n in range(texts)]
    torch.manual_seed(0)
    eye = ImageTower(SMALL)
    with torch.no_grad():  # random layers so small would lose most of what they read
        for name, tensor in eye.trunk.named_parameters():
            tensor.mul_(2.5) if name.endswith("weight") else tensor.uniform_(0.0, 0.5)
    return TrainingData(
        rows=TrainingRows(rows, alone),
        views=views,
        captions=embeddings(PHOTOS, ("en", "zh"), 2, 1, without=5),
        texts=embeddings(texts, ("en", "de") if texts else (), 1, 2),
        tower=eye,
        frozen_blocks=1,
        digest="features",
    )


def settings(out, **changes) -> ImageTowerSettings:
    plain = ImageTowerSettings(
        out=str(out),
        data="d",
        photos="p",
        texts="t",
        epochs=8,
        batch_size=8,
        learning_rate=3e-3,
        head_learning_rate=2e-2,
        weight_decay=0.0,
        average_decay=0.5,
        logit_scale=10.0,
        recent=16,
        dropout=0.0,
        checkpoint_every=4,
        log_every=3,
        views=3,
        half_precision_steps=False,
        train_depthwise=True,
    )
    return replace(plain, **changes)


def losses(out) -> list[float]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line["losses"]["loss"] for line in lines if "losses" in line]


def retrieved(given: TrainingData, eye: ImageTower) -> float:
    """Share of the captioned photos whose nearest caption, among one of each, is their own."""
    half = fitting.TrainedHalf(eye.trunk, given.frozen_blocks)
    with torch.inference_mode():
        photos = eye.embed(half(torch.from_numpy(np.asarray(given.views[0])).float()))
        first = given.captions.offsets["zh"][:-1].clip(max=len(given.captions.matrix) - 1)
        rows = torch.from_numpy(given.captions.matrix[first].astype(np.float32))
        captions = torch.nn.functional.normalize(rows + rows @ eye.text.adapter.weight.T, dim=-1)
    own = (photos @ captions.T).argmax(dim=1).numpy() == np.arange(PHOTOS)
    return float(np.delete(own, 5).mean())


def test_photos_find_their_captions_afterwards(tmp_path):
    given = data()
    before = retrieved(given, given.tower)
    frozen = [
        p.detach().clone()
        for p in (*given.tower.trunk.stem.parameters(), *given.tower.trunk.blocks[0].parameters())
    ]
    fitted = fit(settings(tmp_path, epochs=30), given, tmp_path)
    assert fitted.run.finished and fitted.run.step == 30 * 3  # 23 photos with captions
    assert before < 0.3 and retrieved(given, fitted.tower) > 0.6
    found = losses(tmp_path)
    assert found[-1] < 0.7 * found[0]
    after = (*given.tower.trunk.stem.parameters(), *given.tower.trunk.blocks[0].parameters())
    for one, other in zip(frozen, after, strict=True):
        torch.testing.assert_close(one, other, atol=0, rtol=0)
    assert given.tower.text.adapter.weight.abs().max() > 1e-3
    assert 0.5 < fitted.w < 25 and not fitted.tower.training


def test_w_puts_both_cosines_on_one_scale(tmp_path):
    given = data()
    fitted = fit(settings(tmp_path, epochs=8), given, tmp_path)
    half = fitting.TrainedHalf(given.tower.trunk, given.frozen_blocks)
    # photo 3, whole, and two of its captions, drawn as stated
    draws = CaptionDraws(given.captions, ("en", "zh"), settings(tmp_path).english_share)
    first, second = draws.two(np.array([3]), np.random.default_rng(0))
    with torch.inference_mode():
        photo = given.tower.embed(half(torch.from_numpy(given.views[0][3:4]).float()))[0]
        one, other = (
            torch.nn.functional.normalize(row + given.tower.text.adapter(row), dim=-1)[0]
            for row in (first, second)
        )
    expected = float(one @ other) / float(photo @ one)
    assert fitting.measured_w(given, half, draws, np.array([3])) == pytest.approx(expected, abs=1e-5)
    captioned = np.array([n for n in range(PHOTOS) if n != 5])
    assert fitted.w == pytest.approx(fitting.measured_w(given, half, draws, captioned), abs=1e-6)


class Killed(Exception):
    pass


@pytest.mark.parametrize("killed_at", [2, 9])
def test_a_killed_fit_ends_with_the_same_weights(tmp_path, monkeypatch, killed_at):
    whole = fit(settings(tmp_path / "whole"), data(), tmp_path / "whole")

    calls, contrast = 0, fitting.ContrastLoss.__call__

    def kill(self, *arguments):
        nonlocal calls
        calls += 1
        if calls > killed_at:
            raise Killed
        return contrast(self, *arguments)

    monkeypatch.setattr(fitting.ContrastLoss, "__call__", kill)
    with pytest.raises(Killed):
        fit(settings(tmp_path / "part"), data(), tmp_path / "part")
    monkeypatch.setattr(fitting.ContrastLoss, "__call__", contrast)
    part = fit(settings(tmp_path / "part"), data(), tmp_path / "part")
    assert part.run.resumed_from == killed_at // 4 * 4 and part.run.step == whole.run.step == 24
    expected = whole.tower.state_dict()
    for name, tensor in part.tower.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=0)
    assert part.w == pytest.approx(whole.w, abs=1e-6)


def test_a_run_with_other_data_does_not_continue(tmp_path):
    stopped = fit(settings(tmp_path, max_minutes=1e-9), data(), tmp_path)
    assert not stopped.run.finished and stopped.w == 2.5
    with pytest.raises(CapscoreError, match="data_digest"):
        fit(settings(tmp_path), replace(data(), digest="other"), tmp_path)
    with pytest.raises(CapscoreError, match="logit_scale"):
        fit(settings(tmp_path, logit_scale=20.0), data(), tmp_path)


def test_nan_stops_and_names_the_batch(tmp_path):
    given = data()
    for view in given.views:
        view[9] = np.nan
    with pytest.raises(CapscoreError, match=r"epoch 1, step \d: loss is nan.*rows.*: .*9") as caught:
        fit(settings(tmp_path), given, tmp_path)
    assert "learning_rate" in str(caught.value)


def test_the_classes_of_the_photos_are_those_of_the_trunk_as_it_came(tmp_path):
    given = data()
    fresh = copy.deepcopy(given.tower).eval()
    fit(settings(tmp_path, names_weight=0.5, epochs=2), given, tmp_path)
    (path,) = tmp_path.glob("shares-*.npy")
    with torch.no_grad():
        maps = TrainedHalf(fresh.trunk, 1)(torch.from_numpy(given.views[0]).float())
        expected = fresh.head.classes(maps.mean(dim=(2, 3))).softmax(dim=-1).numpy()
    np.testing.assert_allclose(np.load(path), expected, atol=1e-3)
    assert not torch.equal(given.tower.trunk.last.weight, fresh.trunk.last.weight)


def test_the_adapter_is_learned_first_and_kept(tmp_path):
    given = data()
    fitted = fit(settings(tmp_path, max_minutes=1e-9), given, tmp_path)
    assert not fitted.run.finished
    learned = given.tower.text.adapter.weight.clone()
    assert learned.abs().max() > 1e-3
    again = data()
    fit(settings(tmp_path), again, tmp_path)
    torch.testing.assert_close(again.tower.text.adapter.weight, learned, atol=0, rtol=0)
    # half of it is kept
    whole = data()
    fit(settings(tmp_path / "whole", adapter_share=1.0, max_minutes=1e-9), whole, tmp_path / "whole")
    torch.testing.assert_close(whole.tower.text.adapter.weight, 2 * learned, atol=1e-6, rtol=0)
    none = data(texts=0)
    fit(settings(tmp_path / "none", adapter_share=0.0, max_minutes=1e-9), none, tmp_path / "none")
    assert none.tower.text.adapter.weight.abs().max() == 0


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"soft_share": 1.5}, "soft_share"),
        ({"english_share": 1.0}, "english_share"),
        ({"recent": 0}, "recent"),
        ({"dropout": -0.1}, "dropout"),
    ],
)
def test_settings_out_of_range(tmp_path, changes, message):
    with pytest.raises(CapscoreError, match=message):
        settings(tmp_path, **changes)
