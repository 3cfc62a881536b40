"""Fine-tuning for PR-MCS, run for real: on the embedded backbone, or a tiny CLIP where that says as much."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

import capscore
from capscore.embedding.embedder import Embedder
from capscore.errors import BackboneUnavailable, CapscoreError, InputError, MissingExtraError
from capscore.perturbations import KINDS
from tests.backbones import tiny_transformers as tiny
from tests.toy import ColourBackbone
from training.data.caption_rows import file_rows
from training.data.captions import embed_captions
from training.data.split import split_by_image
from training.data.triples import Noise, TripleBatches
from training.engine import pr_mcs_losses as losses
from training.engine.config import parse
from training.engine.robustness_check import RobustnessCheck
from training.engine.training_log import read_log
from training.engine.triple_loss import TripleLoss
from training.pr_mcs import Settings, train

from ..processes import run_distributed
from .caption_file import LANGUAGES, write_captions

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "training" / "configs"
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_captions(tmp_path_factory.mktemp("data") / "captions.jsonl")


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    return tiny.write_clip(tmp_path_factory.mktemp("base") / "clip")


@pytest.fixture
def settings(data, clip, tmp_path):
    """Settings of a short run on the tiny CLIP; any of them can be changed."""

    def make(**changes) -> Settings:
        plain = dict(
            out=str(tmp_path / "run"),
            base=str(clip),
            data=[str(data)],
            batch_size=6,
            max_steps=6,
            learning_rate=1e-3,
            validation_share=0.25,
            kinds=["repetition", "removal", "masking", "jumble"],
            checkpoint_every=2,
        )
        return Settings(**{**plain, **changes})

    return make


# A run from end to end


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """The embedded backbone, taught for a few steps."""
    out = tmp_path_factory.mktemp("runs") / "tower"
    return train(
        Settings(
            out=str(out),
            base="embedded-free",
            data=[str(data)],
            batch_size=8,
            max_steps=15,
            learning_rate=5e-4,
            validation_share=0.25,
            logit_scale=20.0,
            clip_weight=0.3,
            lambda_1=1.0,
            lambda_2=1.0,
            lambda_3=0.5,
            keep_close=2.0,
            license="apache-2.0",
            data_license="CC0",
        )
    )


def test_the_drop_grows_and_the_captions_as_they_were_keep_their_scores(trained):
    assert (trained.n_training, trained.n_validation) == (18, 6)
    assert trained.run.finished and trained.run.step == 15
    before, after = trained.base, trained.evaluation
    assert after["drop_average"] < before["drop_average"] - 0.05
    assert after["original_of_base"] > 0.9
    assert after["agreement_with_base"] > 0.9
    assert before["original_of_base"] == before["agreement_with_base"] == 1
    assert {f"drop_{kind}" for kind in KINDS} <= set(after)


def test_the_folder_loads_and_scores_as_the_run_measured(trained, data, embedded_free):
    tuned = capscore.load_backbone(str(trained.folder), device="cpu")
    assert tuned.languages == set(LANGUAGES)
    rows = [row for row in file_rows(data) if row.image is not None]
    images = [row.image for row in rows]
    assert np.allclose(
        Embedder(tuned).images(images).matrix,
        Embedder(embedded_free).images(images).matrix,
        rtol=0,
        atol=1e-6,
    )

    captions = embed_captions(file_rows(data), Embedder(embedded_free))
    validation = split_by_image(captions, validation_share=0.25).validation
    check = RobustnessCheck(captions, validation, Noise(), embedded_free)
    again = check(tuned)
    assert again.keys() == trained.evaluation.keys()
    for name, value in trained.evaluation.items():
        assert again[name] == pytest.approx(value, abs=1e-5), name

    scorer = capscore.load("mcs", backbone=str(trained.folder), device="cpu")
    scored = scorer.score([rows[0].caption], [rows[0].image], language="en")
    cosine = (tuned.encode_texts([rows[0].caption]) * Embedder(tuned).images(images[:1]).matrix).sum()
    assert scored.mean == pytest.approx(2.5 * max(float(cosine), 0), abs=1e-5)


def test_only_the_text_tower_is_stored_and_the_card_says_what_was_done(trained):
    stored = load_file(trained.folder / WEIGHTS)
    network = capscore.load_backbone("embedded-free", device="cpu").text_network()
    assert stored.keys() <= set(network.state_dict())
    card = (trained.folder / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---")[1])
    assert front["license"] == "apache-2.0" and front["language"] == list(sorted(LANGUAGES))
    for expected in (
        "captions.jsonl | CC0 | 24",
        "| `lambda_2` | 1 |",
        "2 of the 8 images were not available",
    ):
        assert expected in card
    result = json.loads((trained.folder / "result.json").read_text())
    assert result["this"]["drop_average"] == pytest.approx(trained.evaluation["drop_average"])


def test_the_log_has_terms_and_evaluations(trained):
    lines = read_log(trained.folder)
    assert [line["step"] for line in lines if "evaluation" in line] == [0, 15]
    (last,) = [line["losses"] for line in lines if "losses" in line]
    assert {"loss", "clip", "l1", "l2", "l3", "keep_close"} == set(last)


# The loss as the loop calls it


def test_the_loss_on_rows_is_that_of_their_embeddings(data, embedded_free):
    captions = embed_captions(file_rows(data), Embedder(embedded_free))
    batches = TripleBatches(captions, range(24), batch_size=8, noise=Noise(draws="all"))
    rows = batches.batch(0, 1)
    weights = losses.LossWeights(keep_close=0.5)
    loss = TripleLoss(
        embedded_free,
        captions,
        weights,
        logit_scale=20.0,
        shared_negatives=False,
        before=Embedder(embedded_free).texts(captions.texts),
    )
    with torch.no_grad():
        found = loss(embedded_free.text_network(), rows, lambda tensor: tensor)

    def unit(texts):
        return embedded_free.encode_texts(texts)

    n = len(rows)
    images = captions.embeddings[[row.image for row in rows]]
    originals = unit([row.caption for row in rows])
    l1 = np.mean([1 - images[i] @ originals[i] for i in range(n)])
    pairs = [(i, vector) for i, row in enumerate(rows) for vector in unit([t for t in row.perturbed if t])]
    l2 = np.mean([max(0.1, images[i] @ vector) for i, vector in pairs])
    l3 = np.mean([max(0.1, originals[i] @ vector) for i, vector in pairs])
    clip = 0.0
    for i, row in enumerate(rows):
        others = [j for j in range(n) if j == i or rows[j].image != row.image]
        by_image = np.array([20 * images[i] @ originals[j] for j in others])
        by_text = np.array([20 * images[j] @ originals[i] for j in others])
        own = 20 * images[i] @ originals[i]
        clip += (np.log(np.exp(by_image).sum()) + np.log(np.exp(by_text).sum()) - 2 * own) / (2 * n)
    assert found["clip"].item() == pytest.approx(clip, abs=1e-4)
    assert found["l1"].item() == pytest.approx(l1, abs=1e-5)
    assert found["l2"].item() == pytest.approx(l2, abs=1e-5)
    assert found["l3"].item() == pytest.approx(l3, abs=1e-5)
    # the tower has not moved yet
    assert found["keep_close"].item() == pytest.approx(0, abs=1e-6)
    assert found["loss"].item() == pytest.approx(clip + 0.1 * l1 + 0.05 * l2 + 0.05 * l3, abs=1e-4)


def test_the_check_counts_by_hand():
    """Colours: masking every word of "red" and "blue" leaves texts that are as far from every image."""
    backbone = ColourBackbone()
    from tests.toy import BLUE, RED
    from training.data.caption_rows import CaptionRow

    rows = [CaptionRow("red", "en", image=RED), CaptionRow("blue", "en", image=BLUE)]
    captions = embed_captions(rows, Embedder(backbone))
    check = RobustnessCheck(captions, np.arange(2), Noise(kinds=("masking",)), backbone)
    numbers = check.base_numbers
    # a text without a colour is (1, 1, 1) / √3
    assert numbers["original"] == pytest.approx(2.5)
    assert numbers["drop_masking"] == pytest.approx(1 / 3**0.5 - 1)
    assert numbers["drop_repetition"] == numbers["drop_removal"] == numbers["drop_jumble"] == 0
    assert numbers["drop_average"] == pytest.approx((1 / 3**0.5 - 1) / 4)
    assert numbers["text_to_image_r@1"] == numbers["image_to_text_r@1"] == 1
    assert "drop_substitution" not in numbers


# Going on, and several processes


def test_a_run_that_was_broken_off_ends_with_the_same_weights(settings, tmp_path, monkeypatch):
    whole = train(settings(out=str(tmp_path / "whole")))
    plain = TripleLoss.__call__
    calls = []

    def until_the_fourth(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return plain(self, *arguments)

    monkeypatch.setattr(TripleLoss, "__call__", until_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        train(settings())
    assert not (tmp_path / "run" / WEIGHTS).exists()
    monkeypatch.setattr(TripleLoss, "__call__", plain)
    resumed = train(settings())
    assert resumed.run.resumed_from == 2
    ours, theirs = (load_file(run.folder / WEIGHTS) for run in (resumed, whole))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert resumed.evaluation == whole.evaluation and resumed.base == whole.base


def test_two_processes_are_one(settings, tmp_path):
    # 18 rows in 4 steps are 4 or 5 a batch, so that the processes have unequal parts of some
    own = settings(batch_size=5, max_steps=3, shared_negatives=False)
    alone = train(own)
    (tmp_path / "two.yaml").write_text(yaml.safe_dump({**asdict(own), "out": str(tmp_path / "two")}))
    for done in run_distributed(["-m", "training.pr_mcs", "--config", tmp_path / "two.yaml"], cwd=ROOT):
        assert done.returncode == 0, done.stderr
    ours, theirs = (load_file(Path(folder) / WEIGHTS) for folder in (alone.folder, tmp_path / "two"))
    assert ours.keys() == theirs.keys()
    for name in ours:
        # attention does not depend on the bias of its keys: its gradient is rounding, which Adam makes large
        if not name.endswith("k_proj.bias"):
            assert torch.allclose(ours[name], theirs[name], atol=2e-5), name
    losses_of = [
        [line["losses"] for line in read_log(folder) if "losses" in line]
        for folder in (alone.folder, tmp_path / "two")
    ]
    for name, value in losses_of[0][0].items():
        assert losses_of[1][0][name] == pytest.approx(value, abs=1e-5)


def test_a_finished_run_is_not_trained_again(settings):
    first = train(settings(max_steps=2))
    again = train(settings(max_steps=2))
    assert again.run.resumed_from == 2 and again.evaluation == first.evaluation


# Few-shot, held-out, configs


def test_few_shot_goes_on_from_a_tuned_tower(settings, tmp_path):
    first = train(settings(max_steps=2))
    few = train(settings(out=str(tmp_path / "few"), base=str(first.folder), few_shot=3, max_steps=2))
    assert (few.n_training, few.n_validation) == (3, 21)
    tuned = capscore.load_backbone(str(few.folder), device="cpu")
    assert tuned.fingerprint != capscore.load_backbone(str(first.folder), device="cpu").fingerprint


def test_a_list_holds_images_out(settings, tmp_path, capsys):
    (tmp_path / "held.txt").write_text("chelsea\ncoins.png\n")
    run = train(settings(hold_out=str(tmp_path / "held.txt"), max_steps=1))
    assert run.n_training + run.n_validation == 18
    assert "6 held out by the list" in capsys.readouterr().err


def test_without_validation_nothing_is_measured_and_the_card_says_so(settings):
    run = train(settings(validation_share=0.0, max_steps=1))
    assert (run.evaluation, run.base) == ({}, {})
    assert "Nothing was measured." in (run.folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("pr_mcs", {}),
        ("pr_mcs_first_version", {"margin": 0.0}),
        ("pr_mcs_few_shot", {"few_shot": 300}),
    ],
)
def test_configs_are_the_paper(name, differs):
    line = ["--config", str(CONFIGS / f"{name}.yaml"), "--base", "b", "--data", "d", "--out", "o"]
    read = parse(Settings, line, "")
    published = {
        "lambda_1": 0.1,
        "lambda_2": 0.05,
        "lambda_3": 0.05,
        "margin": 0.1,
        "epochs": 5,
        "learning_rate": 5e-5,
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "p": 0.4,
        "shared_draws": True,
        "removal": "keep",
        "order": "published",
        "kinds": list(KINDS),
        "clip_weight": 1.0,
        "keep_close": 0.0,
        "shared_negatives": True,
        "validation_share": 0.1,
        "few_shot": None,
    }
    for setting, value in {**published, **differs}.items():
        assert getattr(read, setting) == value, setting


# Bad input


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kinds": ["jumbel"]}, CapscoreError, "perturbation 'jumbel' .*jumble"),
        ({"p": 1.2}, CapscoreError, r"p=1\.2: expected a probability from 0 to 1"),
        ({"data": []}, CapscoreError, "data is missing"),
        ({"base": " "}, CapscoreError, "base is missing"),
        ({"margin": 1.0}, CapscoreError, r"margin=1\.0"),
        ({"lambda_2": -1.0}, CapscoreError, r"lambda_2=-1\.0"),
        ({"logit_scale": 0.0}, CapscoreError, r"logit_scale=0\.0"),
        (
            {"clip_weight": 0.0, "lambda_1": 0.0, "lambda_2": 0.0, "lambda_3": 0.0},
            CapscoreError,
            "every term of the loss has weight 0",
        ),
        ({"kind_shares": [1.0, 2.0]}, CapscoreError, r"shares=\[1\.0, 2\.0\]: expected a number above 0 for"),
        ({"kind_shares": [1.0] * 4, "draws": "all"}, CapscoreError, "is for draws='one'"),
    ],
)
def test_settings_that_cannot_be(settings, changes, error, message):
    with pytest.raises(error, match=message):
        settings(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"data": ["nothing.jsonl"]}, CapscoreError, r"nothing\.jsonl.*: no such file"),
        ({"data": ["benchmark:multi31k/de"]}, CapscoreError, "'multi31k'.*multi30k"),
        ({"validation_share": 0.95}, InputError, "all captions in the validation split"),
        ({"few_shot": 24}, InputError, "few_shot=24: 24 captions are not enough"),
        ({"base": "no-such-backbone"}, BackboneUnavailable, "no-such-backbone"),
        ({"hold_out": "held.txt"}, InputError, r"the list held\.txt cannot be read"),
    ],
)
def test_data_that_cannot_be(settings, changes, error, message):
    with pytest.raises(error, match=message):
        train(settings(**changes))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image": "gone.png", "caption": "x", "language": "en"}, "line 1 .*no such file"),
        ({"stand_in": "y", "caption": 12, "language": "en"}, "line 1 .*caption: 12 is a int"),
    ],
)
def test_rows_that_cannot_be(settings, tmp_path, row, message):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=message):
        train(settings(data=[str(path)]))


def test_a_bad_row_ends_the_run_before_anything_is_embedded(settings, tmp_path, monkeypatch):
    def embedded(*_, **__):
        raise AssertionError("captions were embedded")

    monkeypatch.setattr("training.pr_mcs.embed_captions", embedded)
    rows = [{"caption": f"a dog runs {n}", "stand_in": "a dog", "language": "en"} for n in range(1100)]
    bad = tmp_path / "bad.jsonl"
    for last in (
        {"caption": "", "stand_in": "a dog", "language": "en"},
        {"caption": "a cat", "image": "nowhere.png", "language": "en"},
    ):
        bad.write_text("".join(json.dumps(row) + "\n" for row in [*rows, last]), encoding="utf-8")
        with pytest.raises(InputError, match="line 1101"):
            train(settings(data=[str(bad)]))
    bad.write_text("".join(json.dumps({**row, "language": "fr"}) + "\n" for row in rows), encoding="utf-8")

    def missing(language):
        raise MissingExtraError("rippletagger", "nouns-gpl", "the nouns of French captions")

    monkeypatch.setattr("training.data.captions.noun_finder", missing)
    with pytest.raises(MissingExtraError, match="nouns-gpl"):
        train(settings(data=[str(bad)], kinds=["jumble", "substitution"]))
    with pytest.raises(AssertionError, match="were embedded"):
        train(settings(data=[str(bad)], kinds=["jumble"]))


def test_an_empty_file_is_no_data(settings, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="is empty"):
        train(settings(data=[str(tmp_path / "empty.jsonl")]))


def test_a_loss_that_is_no_number_names_the_captions_of_its_batch(settings):
    with pytest.raises(CapscoreError, match=r"(?s)step \d+: .*(nan|inf).*caption="):
        train(settings(learning_rate=1e30, clip_norm=None, max_steps=6))


def test_a_folder_with_another_model_is_refused_before_the_work(settings, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / WEIGHTS).write_bytes(b"")
    with pytest.raises(CapscoreError, match="has the weights of another model"):
        train(settings())


def test_other_settings_do_not_go_on_with_a_run(settings):
    train(settings(max_steps=2))
    with pytest.raises(CapscoreError, match=r"lambda_3=0\.05, but 0\.07 was given"):
        train(settings(max_steps=2, lambda_3=0.07))


# What captions come from, said beside them


def with_sources(data, folder, text) -> str:
    path = folder / "captions.jsonl"
    path.write_bytes(data.read_bytes())
    (folder / "captions.jsonl.sources.json").write_text(text, encoding="utf-8")
    return str(path)


def test_the_card_has_the_sources_that_stand_beside_the_captions(settings, data, tmp_path):
    said = {
        "held_out": "all photos of the sea",
        "sources": [
            {"name": "Photos of the harbour", "license": "CC0", "url": "https://example.org/h", "rows": 18},
            {"name": "A grammar", "license": "Apache-2.0", "rows": 6},
        ],
    }
    path = with_sources(data, tmp_path, json.dumps(said))
    run = train(settings(data=[path], max_steps=1, data_license="of no account"))
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    assert "[Photos of the harbour](https://example.org/h) | CC0 | 18" in card
    assert "A grammar | Apache-2.0 | 6" in card
    assert "all photos of the sea; 6 captions of images that no training caption has" in card
    assert "captions.jsonl | of no account" not in card


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"sources": [{"name": "A',
            r"jsonl\.sources\.json does not say where the captions come from",
        ),
        ("[]", r"TypeError: it holds \[\]"),
        ('"text"', "it holds 'text'"),
        ("{}", "KeyError: 'sources'"),
        ('{"sources": []}', r"sources is \[\]"),
        ('{"sources": {"name": "A"}}', "sources is"),
        ('{"sources": ["A"]}', "a source is 'A'"),
        ('{"sources": [{"name": "A"}]}', "license"),
        ('{"sources": [{"name": "A", "license": "CC0", "rows": "6"}]}', "rows is '6'"),
        ('{"sources": [{"name": 1, "license": "CC0"}]}', "name is 1"),
        ('{"sources": [{"name": "A", "licence": "CC0"}]}', "licence"),
        ('{"held_out": 3, "sources": [{"name": "A", "license": "CC0"}]}', "held_out is 3"),
    ],
)
def test_damaged_sources_are_an_error_before_the_work(settings, data, tmp_path, text, message):
    path = with_sources(data, tmp_path, text)
    with pytest.raises(InputError, match=message):
        train(settings(data=[path], max_steps=1))
