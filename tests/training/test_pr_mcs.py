"""Fine-tuning for PR-MCS: its loss and check by hand, a run on the embedded backbone, few-shot, held-out."""

from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError, MissingExtraError
from capscore.perturbations import KINDS
from tools.tiny.captions import LANGUAGES, write_captions
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.official import write_jsonl
from training import pr_mcs
from training.data.rows import Row, file_rows
from training.data.split import split_by_image
from training.data.triples import Noise, TripleBatches
from training.engine import pr_mcs_losses as losses
from training.engine.pr_mcs_losses import TripleLoss
from training.engine.robustness_check import RobustnessCheck
from training.pr_mcs import Settings, train

from .data.test_triples import embedded
from .two_processes import assert_two_processes_are_one

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_captions(tmp_path_factory.mktemp("data") / "captions.jsonl")


@pytest.fixture
def settings(data, checkpoints, tmp_path):
    plain = dict(out=str(tmp_path / "run"), base=checkpoints("clip").spec, data=[str(data)], max_steps=2)
    plain |= dict(batch_size=6, kinds=["repetition", "removal", "masking", "jumble"])
    return partial(Settings, **plain, learning_rate=1e-3, validation_share=0.25)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    weights = dict(clip_weight=0.3, lambda_1=1.0, lambda_2=1.0, lambda_3=0.5, keep_close=2.0)
    out = str(tmp_path_factory.mktemp("runs") / "tower")
    given = dict(batch_size=8, max_steps=15, learning_rate=5e-4, validation_share=0.25, logit_scale=20.0)
    return train(Settings(out=out, base="embedded-free", data=[str(data)], **given, **weights))


def test_the_drop_grows_and_the_captions_as_they_were_keep_their_scores(trained):
    assert trained.split.sizes == (18, 6)
    before, after = trained.base, trained.evaluation
    assert after["drop_average"] < before["drop_average"] - 0.05
    assert after["original_of_base"] > 0.9 and after["agreement_with_base"] > 0.9
    assert before["original_of_base"] == before["agreement_with_base"] == 1
    assert {f"drop_{kind}" for kind in KINDS} <= set(after)
    terms = {"loss", "clip", "l1", "l2", "l3", "keep_close"}
    assert set(trained.run.losses) == terms
    card = (trained.folder / "README.md").read_text(encoding="utf-8")
    assert "2 of the 8 images were not available" in card


def test_the_saved_text_tower_scores_as_the_run_measured(trained, data, embedded_free):
    tuned = capscore.load_backbone(str(trained.folder), device="cpu")
    assert tuned.languages == set(LANGUAGES)
    stored = load_file(trained.folder / "model.safetensors")
    assert stored.keys() <= embedded_free.text_network().state_dict().keys()
    captions = embedded(file_rows(data), embedded_free)
    again = embedded(file_rows(data), tuned)
    photos = [not row.stand_in for row in file_rows(data)]
    one, two = (part.embeddings[part.image[photos]] for part in (captions, again))
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-6)
    validation = split_by_image(captions.photos, validation_share=0.25).validation
    check = RobustnessCheck(captions, validation, Noise(), embedded_free)
    assert check(tuned) == pytest.approx(trained.evaluation, abs=1e-5)


def test_the_loss_on_rows_is_that_of_their_embeddings(data, embedded_free):
    captions = embedded(file_rows(data), embedded_free)
    rows = TripleBatches(captions, range(24), batch_size=8, noise=Noise()).batch(0, 1)
    weights, before = losses.LossWeights(keep_close=0.5), Embedder(embedded_free).texts(captions.texts)
    loss = TripleLoss(embedded_free, captions, weights, logit_scale=20.0, before=before)
    with torch.no_grad():
        found = loss(embedded_free.text_network(), rows, lambda tensor: tensor)
    unit = embedded_free.encode_texts
    originals = torch.tensor(unit([row.caption for row in rows]))
    changed = [row.perturbed is not None for row in rows]
    noisy = torch.tensor(unit([row.perturbed or "nothing" for row in rows]))[:, None]
    images = torch.tensor(captions.embeddings[[row.image for row in rows]])
    given = dict(weights=weights, logit_scale=20.0, before=originals)
    expected = losses.pr_mcs_loss(images, originals, noisy, changed=torch.tensor(changed)[:, None], **given)
    numbers = {name: value.item() for name, value in expected.items()}
    assert {name: value.item() for name, value in found.items()} == pytest.approx(numbers, abs=1e-5)


def test_the_check_counts_by_hand():
    backbone = ColourBackbone()
    rows = [Row("red", "en", image=RED), Row("blue", "en", image=BLUE)]
    captions = embedded(rows, backbone)
    check = RobustnessCheck(captions, np.arange(2), Noise(kinds=("masking",)), backbone)
    numbers = check.base_numbers
    # a text without a colour is (1, 1, 1) / √3, as far from every image
    assert numbers["original"] == pytest.approx(2.5)
    assert numbers["drop_masking"] == pytest.approx(1 / 3**0.5 - 1)
    assert numbers["drop_repetition"] == numbers["drop_removal"] == numbers["drop_jumble"] == 0
    assert numbers["drop_average"] == pytest.approx((1 / 3**0.5 - 1) / 4)
    assert numbers["text_to_image_r@1"] == numbers["image_to_text_r@1"] == 1
    assert "drop_substitution" not in numbers


@pytest.mark.slow
def test_two_processes_give_the_results_of_one(settings, tmp_path):
    # 18 rows in 4 steps are 4 or 5 a batch, so that the processes have unequal parts of some
    own = settings(batch_size=5, max_steps=3)
    assert_two_processes_are_one(pr_mcs, own, tmp_path)


def test_few_shot_starts_from_a_tuned_tower(settings, tmp_path):
    first = train(settings(max_steps=1))
    few = train(settings(out=str(tmp_path / "few"), base=str(first.folder), few_shot=6, max_steps=1))
    assert few.split.sizes == (6, 18)
    prints = [capscore.load_backbone(str(run.folder), device="cpu").fingerprint for run in (few, first)]
    assert prints[0] != prints[1]


def test_each_weight_of_the_loss_is_its_setting(settings):
    given = dict(lambda_1=1.0, lambda_2=2.0, lambda_3=3.0, margin=0.2, keep_close=4.0)
    assert settings(clip_weight=0.5, **given).weights == losses.LossWeights(clip=0.5, **given)


def test_a_bad_row_ends_the_run_before_anything_is_embedded(settings, tmp_path, monkeypatch):
    missing = MissingExtraError("rippletagger", "nouns-gpl", "the nouns of French captions")
    for name, error in (("embed_captions", AssertionError("were embedded")), ("noun_finder", missing)):
        monkeypatch.setattr(f"training.pr_mcs.{name}", mock.Mock(side_effect=error))
    rows = [{"caption": f"un chien {n}", "stand_in": "a dog", "language": "fr"} for n in range(1100)]
    bad = tmp_path / "bad.jsonl"
    for last, kinds, error, message in [
        ([{"caption": "", "stand_in": "a dog", "language": "en"}], ["jumble"], InputError, "line 1101"),
        ([], ["jumble", "substitution"], MissingExtraError, "nouns-gpl"),
        ([], ["jumble"], AssertionError, "were embedded"),
    ]:
        write_jsonl(bad, [*rows, *last])
        with pytest.raises(error, match=message):
            train(settings(data=[str(bad)], kinds=kinds))
