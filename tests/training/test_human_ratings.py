"""Fine-tuning on human ratings, from end to end, on tiny checkpoints and a tiny image tower."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from scipy.stats import kendalltau, spearmanr

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.images.load import content_key
from tools.tiny.image_tower import write_image_tower
from tools.tiny.official import write_jsonl
from tools.tiny.open_clip_models import write_open_clip
from training import human_ratings
from training.data.photos import Photos
from training.data.pictures import TrainedPictures
from training.data.rows import RATED, file_rows
from training.data.split import split_by_image
from training.engine.model_card import read_card
from training.engine.ratings import RatingsLoss
from training.engine.trainable_parts import PartSettings, TrainedPart
from training.human_ratings import Settings, train

from .rated_files import write_rated
from .two_processes import assert_two_processes_are_one


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    return write_rated(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def bases(tmp_path_factory, checkpoints) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bases")
    made = {"open_clip": write_open_clip(folder / "open_clip"), "clip": Path(checkpoints("clip").spec)}
    return {**made, "tower": write_image_tower(folder / "tower", w=2.0)}


@pytest.fixture
def settings(files, bases, tmp_path):
    def make(base="clip", **changes) -> Settings:
        plain = dict(out=str(tmp_path / "run"), base=str(bases.get(base, base)), data=[str(files[0])])
        plain |= dict(ratings=[str(files[1])], batch_size=6, max_steps=6, learning_rate=1e-3)
        return Settings(**{**plain, "validation_share": 0.3, **changes})

    return make


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def embedded(backbone, rows) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(backbone, Path):
        backbone = capscore.load_backbone(str(backbone), device="cpu")
    images = backbone.encode_images([Image.open(row.image).convert("RGB") for row in rows])
    return images, backbone.encode_texts([row.caption for row in rows])


def cosines(folder: Path, rows) -> np.ndarray:
    return np.multiply(*embedded(folder, rows)).sum(axis=1)


@pytest.mark.parametrize("base", ["clip", "open_clip", pytest.param("tower", marks=pytest.mark.slow)])
def test_the_folder_scores_as_the_run_measured(settings, files, bases, base):
    run = train(settings(base, max_steps=12, learning_rate=3e-3))
    assert run.split.sizes == (49, 21)
    rows = list(file_rows(files[1], RATED))
    before, after = (cosines(folder, rows) for folder in (bases[base], run.folder))
    ratings = np.array([row.rating for row in rows])
    assert np.corrcoef(after, ratings)[0, 1] > np.corrcoef(before, ratings)[0, 1] + 0.1
    losses = run.run.losses
    assert losses["loss"] == pytest.approx(losses["contrastive"] + losses["pearson"])

    # the numbers of the run again, from the saved folder, by scipy; an image tower is stored in float16
    stored = json.loads((run.folder / "result.json").read_text())["this"]
    keys = {Path(row.image).stem: content_key(row.image) for row in rows}
    photos = Photos(np.arange(10), [keys[str(n)] for n in range(10)], [()] * 10)
    held = {str(number) for number in split_by_image(photos, validation_share=0.3).validation}
    for language in ("de", "en") if base != "tower" else ():
        own = [n for n, row in enumerate(rows) if Path(row.image).stem in held and row.language == language]
        pair = after[own], ratings[own]
        found = {"tau_b": kendalltau(*pair), "tau_c": kendalltau(*pair, variant="c"), "rho": spearmanr(*pair)}
        for name, result in found.items():
            assert stored[f"{name}_{language}"] == pytest.approx(result.statistic, abs=1e-6)
    assert stored["tau_c"] == pytest.approx((stored["tau_c_de"] + stored["tau_c_en"]) / 2)

    # the signature says that these are rated weights, and of which base
    plain = capscore.load_backbone(str(bases[base]), device="cpu")
    scorer = capscore.load("mcs", backbone=str(run.folder), device="cpu")
    scored = scorer.score([rows[0].caption], [rows[0].image], language="en")
    assert f"|rated:{plain.name}@{plain.revision}|" in scored.signature
    assert scored.mean == pytest.approx(scorer.backbone.w * max(after[0], 0), abs=1e-5)
    assert base == "tower" or scorer.backbone.w == 2.5


def test_text_towers_alone_leave_images_as_they_were(settings, files, bases):
    run, rows = train(settings("open_clip", towers="text", max_steps=1)), list(file_rows(files[0]))[:3]
    (images, texts), (before, others) = (embedded(part, rows) for part in (run.folder, bases["open_clip"]))
    assert np.allclose(images, before, rtol=0, atol=1e-6)
    assert not np.allclose(texts, others, rtol=0, atol=1e-4)


def test_chosen_layers_alone_are_stored(settings):
    run = train(settings(layers=["vision_model.encoder.layers.1.*", "text_projection.weight"], max_steps=1))
    parts = {name.partition("layers.1.")[0] for name in tensors_of(run.folder)}
    assert parts == {"vision_model.encoder.", "text_projection.weight"}


@pytest.mark.parametrize("base", ["clip", "open_clip", pytest.param("tower", marks=pytest.mark.slow)])
def test_lora_merged_scores_as_lora_beside_the_layers(bases, base, files):
    rows = list(file_rows(files[1], RATED))[:6]
    backbone = capscore.load_backbone(str(bases[base]), device="cpu")
    names = set(backbone.network().state_dict())
    part = TrainedPart(backbone, PartSettings(lora_rank=2, lora_alpha=4.0))
    trained = [p for p in part.network.parameters() if p.requires_grad]
    with torch.no_grad():
        for parameter in trained:
            parameter.normal_(0, 0.2, generator=torch.Generator().manual_seed(parameter.numel()))
    beside = embedded(backbone, rows)
    part.merge()
    assert set(backbone.network().state_dict()) == names
    kinds = zip(embedded(backbone, rows), beside, embedded(bases[base], rows), strict=True)
    for merged, before, plain in kinds:
        assert np.allclose(merged, before, rtol=0, atol=1e-5)
        assert not np.allclose(merged, plain, rtol=0, atol=1e-3)


def test_a_run_with_lora_bf16_and_gradient_checkpointing(settings):
    lora = dict(lora_rank=2, layers=["*.q_proj", "*.v_proj"])
    run = train(settings(gradient_checkpointing=True, precision="bf16", **lora))
    names = set(tensors_of(run.folder))
    assert names and all(name.endswith(("q_proj.weight", "v_proj.weight")) for name in names)
    assert {name.partition("_")[0] for name in names} == {"text", "vision"}


def test_an_image_tower_trains_its_head_on_maps_or_its_trunk_too(settings, files, bases, tmp_path):
    before = tensors_of(bases["tower"])
    head = train(settings("tower", layers=["head.*", "text.*"], max_steps=2, validation_share=0.0))
    trunk = train(settings("tower", out=str(tmp_path / "trunk"), layers=["trunk.last.*"], max_steps=2))
    for folder, moved in ((head.folder, ("head.", "text.adapter")), (trunk.folder, ("trunk.last.",))):
        after = tensors_of(folder)
        changed = {name for name in after if not torch.equal(after[name], before[name])}
        assert changed and all(name.startswith(moved) for name in changed)
    # w keeps the scores of the training captions as large as they were
    learned = [*file_rows(files[0]), *file_rows(files[1], RATED)]
    means = [cosines(folder, learned).mean() for folder in (bases["tower"], head.folder)]
    w = capscore.load_backbone(str(head.folder), device="cpu").w
    assert w * means[1] == pytest.approx(2.0 * means[0], rel=1e-2)


def test_a_step_minimises_the_sum_of_both_losses(settings, monkeypatch):
    calls = []
    plain = RatingsLoss.__call__

    def noted(self, model, rows, gather):
        calls.append({type(row).__name__ for row in rows})
        return plain(self, model, rows, gather)

    monkeypatch.setattr(RatingsLoss, "__call__", noted)
    train(settings(max_steps=2))
    train(settings(out=settings().out + "-p", max_steps=2, contrastive_weight=0.0, data=[]))
    contrasted = train(settings(out=settings().out + "-c", max_steps=2, pearson_weight=0.0))
    cited = [source.name for source in read_card(contrasted.folder).data]
    assert contrasted.split.sizes == (21, 21) and cited == ["shown.jsonl"]
    assert calls == 2 * [{"ShownRow"}, {"PearsonRow"}] + 2 * [{"PearsonRow"}] + 2 * [{"ShownRow"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "changes"),
    [("open_clip", {}), ("clip", {"lora_rank": 2, "gradient_checkpointing": True})],
    ids=["whole", "LoRA"],
)
def test_two_processes_give_the_results_of_one(settings, tmp_path, base, changes):
    # batches of 5 leave the processes unequal parts
    own = settings(base, batch_size=5, max_steps=3, evaluate_every=1, patience=5, **changes)
    assert_two_processes_are_one(human_ratings, own, tmp_path)


def test_early_stopping_keeps_the_best_weights(settings, monkeypatch):
    values = iter([0.9, 0.1, 0.5, 0.4, 0.3, 0.2])  # the first is before training

    class Told(human_ratings.RatingsCheck):
        def __call__(self):
            found = super().__call__()
            return {**found, "tau_c": next(values, 0.0)} if hasattr(self, "base_numbers") else found

    monkeypatch.setattr(human_ratings, "RatingsCheck", Told)
    given = dict(evaluate_every=1, patience=2, max_steps=20)
    run = train(settings(**given))
    assert (run.run.step, run.run.best_step, run.run.finished) == (4, 2, True)
    assert run.evaluation["tau_c"] == 0.5
    two = train(settings(out=settings().out + "-2", max_steps=2))
    ours, theirs = tensors_of(run.folder), tensors_of(two.folder)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    again = train(settings(**given))
    assert again.run.resumed_from == 4 and again.evaluation["tau_c"] == 0.5


def test_the_mean_of_references_stands_in_for_a_photo(settings, tmp_path, bases, capsys):
    rows = [
        {"stand_in": [f"a cat on mat {photo}", f"the cat {photo} sits"], "caption": f"dog {photo} {number}"}
        | {"language": "en", "rating": number + photo / 10}
        for photo in range(6)
        for number in range(3)
    ]
    rated = write_jsonl(tmp_path / "rated.jsonl", rows)
    run = train(settings(ratings=[str(rated)], data=[], contrastive_weight=0.0, max_steps=2))
    assert "6 images, 6 of them replaced by texts" in capsys.readouterr().err
    assert "6 of the 6 images were not available" in (run.folder / "README.md").read_text()
    base = capscore.load_backbone(str(bases["clip"]), device="cpu")
    mean = base.encode_texts(rows[0]["stand_in"]).mean(axis=0)
    pictures = TrainedPictures(base, "pixels")
    assert pictures.add(file_rows(rated, RATED))[1] == [photo for photo in range(6) for _ in range(3)]
    assert np.allclose(pictures.embedded([0])[0], mean / np.linalg.norm(mean), rtol=0, atol=1e-6)


def test_a_bad_rating_ends_the_run_before_anything_is_embedded(settings, files, monkeypatch):
    monkeypatch.setattr("training.human_ratings.TrainedPictures.add", lambda *_: pytest.fail("embedded"))
    rows = [json.loads(line) for line in files[1].read_text().splitlines()]
    bad = write_jsonl(files[1].parent / "bad.jsonl", [rows[0], {**rows[1], "rating": "good"}])
    with pytest.raises(InputError, match=r"line 2.*rating: 'good'; expected a finite number"):
        train(settings(ratings=[str(bad)]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": ["visual.*"]}, r"layers='visual\.\*' matches no parameter.*There are"),
        ({"patience": 2, "validation_share": 0.0}, "patience=2: expected ratings to"),
        ({"stop_by": "tau_x", "patience": 1}, "stop_by='tau_x' is not evaluated; evaluated are"),
        ({"base": "embedded-free"}, "its image tower cannot be fine-tuned"),
        ({"lora_rank": 2}, r"LoRA needs the package 'peft'.*\[training\]"),
        ({"base": "tower", "gradient_checkpointing": True}, "a model that offers it"),
    ],
)
def test_untrainable_backbones_are_refused(settings, changes, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    base = changes.pop("base", "clip")
    with pytest.raises(CapscoreError, match=message):
        train(settings(base, max_steps=1, **changes))
    log = Path(settings().out, "log.jsonl")
    assert not log.exists() or not log.read_text(), "before the first step"
