"""The fit on tiny networks and invented features: its loss by hand, what it learns, how it goes on."""

import copy
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from capscore.backbones.embedded.image_tower import ImageTower, ImageTowerConfig
from capscore.errors import CapscoreError
from weights.making.image_tower import data as training_data
from weights.making.image_tower.__main__ import FirstStageLoss, fit, maps_of
from weights.making.image_tower.contrast import Learner, measured_w
from weights.making.image_tower.data import CaptionDraws, CaptionEmbeddings
from weights.making.image_tower.features import TrainedHalf
from weights.making.settings import ImageTowerSettings

SMALL = ImageTowerConfig(
    dim=12, side=32, stem=8, stages=((1, 3, 2, 1, 8), (1, 3, 1, 2, 10), (1, 3, 2, 2, 16)),
    features=24, width=16, heads=4, grid=2, hidden=16, classes=10,
)  # fmt: skip
PHOTOS, TEXTS = 24, 10
ALL = np.arange(PHOTOS)
SHARES = np.random.default_rng(3).dirichlet(np.ones(SMALL.classes), PHOTOS)


@pytest.fixture(autouse=True)
def _short_adapter(monkeypatch):
    """The adapter of so few captions is learned in fewer steps."""
    monkeypatch.setattr(training_data, "_STEPS", 60)


def embeddings(rows, languages, captions, seed) -> CaptionEmbeddings:
    """Unit rows near one direction per row."""
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(rows, SMALL.dim))
    matrix, offsets = [], {}
    for language in languages:
        offsets[language] = len(matrix) + captions * np.arange(rows + 1)
        repeated = np.repeat(centres, captions, axis=0)
        matrix += [centre + 0.2 * chance.normal(size=SMALL.dim) for centre in repeated]
    found = unit(np.array(matrix).reshape(-1, SMALL.dim))
    return CaptionEmbeddings(found.astype(np.float16), offsets, f"captions {seed}")


def data() -> SimpleNamespace:
    """Features that show which photo it is: channels are its own random numbers."""
    chance = np.random.default_rng(7)
    base = 2 * chance.normal(size=(PHOTOS, 8, 1, 1))
    views = [(base + 0.1 * chance.normal(size=(PHOTOS, 8, 4, 4))).astype(np.float16) for _ in range(3)]
    torch.manual_seed(0)
    tower = ImageTower(SMALL)
    with torch.no_grad():  # random layers so small would lose most of what they read
        for name, tensor in tower.trunk.named_parameters():
            tensor.mul_(2.5) if name.endswith("weight") else tensor.uniform_(0.0, 0.5)
    captions, texts = embeddings(PHOTOS, ("en", "zh"), 2, 1), embeddings(TEXTS, ("en", "de"), 1, 2)
    return SimpleNamespace(tower=tower, views=views, digest="features", captions=captions, texts=texts)


def settings(out, **changes) -> ImageTowerSettings:
    plain = {
        "data": "d", "photos": "p", "texts": "t", "epochs": 2, "batch_size": 8, "learning_rate": 3e-3,
        "head_learning_rate": 2e-2, "weight_decay": 0.0, "average_decay": 0.5, "logit_scale": 10.0,
        "recent": 16, "dropout": 0.0, "checkpoint_every": 2, "log_every": 3, "views": 3,
        "half_precision": False, "frozen_blocks": 1, "least_part": 1.0,
    }  # fmt: skip
    return ImageTowerSettings(**{"out": str(out), **plain, **changes})


def softmax(rows: np.ndarray) -> np.ndarray:
    rows = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return rows / rows.sum(axis=-1, keepdims=True)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def contrast(tmp_path, **changes):
    """Data, the loss, what remembers photos, mean captions, and a step of it."""
    found = data()
    given = settings(tmp_path, **{"softness": 0.5, "region_weight": 0.7, "pair_weight": 0.5, **changes})
    found.tower.requires_grad_(False).eval()
    loss = FirstStageLoss(given, found.tower, found)
    loss.shares = SHARES
    learner = Learner(found.tower, given.recent).eval()

    def step(rows, seed):
        """The terms, and what they are of: embeddings of the drawn views and captions."""
        torch.manual_seed(seed)
        terms = loss(SimpleNamespace(model=learner), rows, lambda tensor: tensor)
        torch.manual_seed(seed)
        chance = np.random.default_rng(int(torch.randint(2**31, ())))
        views = chance.integers(3, size=len(rows))
        features = loss._features(rows, views, chance)
        photos = found.tower.embed(loss.half(torch.from_numpy(features).float())).double().numpy()
        captions = unit(loss.draws.at(loss.draws.places(ALL, chance)).double().numpy())
        return {name: term.item() for name, term in terms.items()}, photos, captions

    # mean captions of all photos, on the unit sphere; the adapter is still zero
    means = unit(np.array([loss.draws.means(np.array([n]))[0].numpy() for n in ALL]))
    return found, loss, learner, means, step


@pytest.mark.parametrize("soft_share", [0.0, 0.4])
def test_the_loss_of_two_steps_by_hand(tmp_path, soft_share):
    found, _, learner, means, step = contrast(tmp_path, soft_share=soft_share, recent=3, names_weight=0.2)
    names = unit(found.tower.head.names.double().numpy())
    found.tower.head.names.zero_()  # the head's own may change
    earlier, earlier_rows = np.zeros((0, 12)), []
    for seed, rows in ((1, [4, 7]), (2, [7, 20])):
        terms, photos, captions = step(rows, seed)
        # photos → captions of all photos
        target = (1 - soft_share) * np.eye(PHOTOS)[rows]
        target += soft_share * softmax(5.0 * means[rows] @ captions.T)
        logits = 10.0 * photos @ captions.T
        photo = -(target * np.log(softmax(logits))).sum(axis=1).mean()
        # captions → photos of this step and of the earlier ones, without those of the caption's own photo
        of_captions = []
        for number, row in enumerate(rows):
            kept = [n for n, other in enumerate(earlier_rows) if other != row]
            near = softmax(5.0 * captions[row] @ means[rows + [earlier_rows[n] for n in kept]].T)
            target_of = (1 - soft_share) * np.eye(len(near))[number] + soft_share * near
            shown = 10.0 * captions[row] @ np.vstack([photos, earlier[kept]]).T
            of_captions.append(-(target_of * np.log(softmax(shown))).sum())
        # with the shares of ImageNet's classes, by how sure they are
        sure = 1 + (SHARES[rows] * np.log(SHARES[rows])).sum(axis=1) / np.log(len(names))
        cross = -(SHARES[rows] * np.log(softmax(5.0 * photos @ names.T))).sum(axis=1)
        expected = {
            "photo": photo,
            "caption": np.mean(of_captions),
            "pair": np.log(np.exp(logits).sum() / 2) - (target * logits).sum() / 2,
            "names": (sure * cross).mean(),
            "region": terms["region"],
        }
        assert terms["region"] != pytest.approx(photo, abs=1e-6)
        weighted = {"photo": 0.5, "caption": 0.5, "pair": 0.5, "names": 0.2, "region": 0.7}
        expected["loss"] = sum(weight * expected[name] for name, weight in weighted.items())
        assert terms == pytest.approx(expected, abs=1e-5)
        earlier, earlier_rows = np.vstack([photos, earlier])[:3], (rows + earlier_rows)[:3]
        np.testing.assert_allclose(learner.recent[: len(earlier)].numpy(), earlier, atol=1e-6)
        assert learner.recent_rows[: len(earlier)].tolist() == earlier_rows


def test_parts_of_views_are_cut_from_them_and_half_are_mirrored(tmp_path):
    found, loss, *_ = contrast(tmp_path, least_part=0.5)
    for view in found.views:  # every cell knows its place
        view[...] = np.arange(16).reshape(4, 4)
    chance, shapes, mirrored, corners = np.random.default_rng(0), set(), 0, set()
    for _ in range(200):
        parts = loss._features(list(range(24)), np.zeros(24, dtype=int), chance)[:, 0].astype(int)
        shapes.add(parts.shape[1:])
        # along a column cells differ by a row of the view, whether it is mirrored or not
        assert (np.diff(parts, axis=1) == 4).all()
        across = np.diff(parts, axis=2)
        assert (np.abs(across) == 1).all() and (across == across[:, :1, :1]).all()
        mirrored += int((across[:, 0, 0] < 0).sum())
        corners |= set(parts.min(axis=(1, 2)).tolist())
    assert shapes == {(h, w) for h in (2, 3, 4) for w in (2, 3, 4)}
    assert 2200 < mirrored < 2600  # of 4,800
    assert corners == {0, 1, 2, 4, 5, 6, 8, 9, 10}


@pytest.mark.parametrize("train_depthwise", [False, True])
def test_depthwise_convolutions_stay_unless_they_are_trained(train_depthwise):
    tower = data().tower
    half = TrainedHalf(tower, 0, train_depthwise=train_depthwise)
    rows = torch.rand(2, SMALL.stem, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        half(rows).float().square().sum().backward()
    for block in half.blocks:
        assert (block.depthwise.weight.grad is not None) == train_depthwise
        assert block.project.weight.grad is not None
    with torch.no_grad():  # in full precision both ways of computing a block agree
        expected = torch.nn.functional.relu6(tower.trunk.last(tower.trunk.blocks(rows)))
        torch.testing.assert_close(half(rows), expected)


def retrieved(given) -> float:
    tower = given.tower
    with torch.inference_mode():
        photos = tower.embed(maps_of(TrainedHalf(tower, 1), given.views[0])(ALL))
        first = given.captions.offsets["zh"][ALL]
        captions = tower.text.adapted(torch.from_numpy(given.captions.matrix[first].astype(np.float32)))
    return float(((photos @ captions.T).argmax(dim=1).numpy() == np.arange(PHOTOS)).mean())


def test_trained_photos_retrieve_their_captions(tmp_path):
    given = data()
    before, fresh = retrieved(given), copy.deepcopy(given.tower).eval()
    run, w = fit(settings(tmp_path, epochs=20, names_weight=0.1), given.tower, given)
    assert run.finished and run.step == 20 * 3
    assert before < 0.3 and retrieved(given) > 0.5 and not given.tower.training
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    losses = [line["losses"]["loss"] for line in lines if "losses" in line]
    assert losses[-1] < 0.8 * losses[0]
    for part in (lambda tower: tower.trunk.stem, lambda tower: tower.trunk.blocks[0]):
        torch.testing.assert_close(part(given.tower).state_dict(), part(fresh).state_dict(), atol=0, rtol=0)
    assert not torch.equal(given.tower.trunk.last.weight, fresh.trunk.last.weight)
    # the classes of the photos are those of the trunk as it came
    (path,) = tmp_path.glob("shares-*.npy")
    with torch.no_grad():
        maps = TrainedHalf(fresh, 1)(torch.from_numpy(given.views[0]).float())
        expected = fresh.head.classes(maps.mean(dim=(2, 3))).softmax(dim=-1).numpy()
    np.testing.assert_allclose(np.load(path), expected, atol=1e-3)
    # w puts both cosines on one scale: photo 3, whole, and two of its captions
    half, draws = TrainedHalf(given.tower, 1), CaptionDraws(given.captions, 0.4)
    pair = draws.two(np.array([3]), np.random.default_rng(0))
    with torch.inference_mode():
        photo = given.tower.embed(half(torch.from_numpy(given.views[0][3:4]).float()))[0].numpy()
        first, second = (unit((row + given.tower.text.adapter(row)).numpy())[0] for row in pair)
    maps = maps_of(half, given.views[0])
    found = measured_w(given.tower, maps, draws, np.array([3]))
    assert found == pytest.approx(float(first @ second) / float(photo @ first), abs=1e-5)
    assert w == pytest.approx(measured_w(given.tower, maps, draws, ALL), abs=1e-6)


def test_a_fit_that_is_stopped_ends_with_the_same_weights_and_other_data_do_not_continue(tmp_path):
    whole, stopped, goes_on = data(), data(), data()
    run, w = fit(settings(tmp_path / "whole"), whole.tower, whole)
    half, published = fit(settings(tmp_path / "part", max_minutes=1e-9), stopped.tower, stopped)
    assert not half.finished and published == 2.5
    with pytest.raises(CapscoreError, match="data_digest"):
        fit(settings(tmp_path / "part"), data().tower, SimpleNamespace(**{**vars(data()), "digest": "other"}))
    with pytest.raises(CapscoreError, match="logit"):
        fit(settings(tmp_path / "part", logit_scale=20.0), data().tower, data())
    rest, same = fit(settings(tmp_path / "part"), goes_on.tower, goes_on)
    assert rest.resumed_from and rest.step == run.step == 6
    torch.testing.assert_close(goes_on.tower.state_dict(), whole.tower.state_dict(), atol=1e-6, rtol=0)
    assert same == pytest.approx(w, abs=1e-6)
    # the adapter is learned before the first step, and a share of it is kept
    learned = stopped.tower.text.adapter.weight
    torch.testing.assert_close(whole.tower.text.adapter.weight, learned, atol=0, rtol=0)
    given = data()
    fit(settings(tmp_path / "own", max_minutes=1e-9, adapter_share=1.0), given.tower, given)
    torch.testing.assert_close(given.tower.text.adapter.weight, 2 * learned, atol=1e-6, rtol=0)
    assert learned.abs().max() > 1e-3
