"""Students: what they compute, saving and loading them, and pairing them with an image tower."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from capscore.backbones import base, checkpoint, text_towers
from capscore.backbones.base import LoadOptions
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.loading import load_backbone
from capscore.backbones.text_towers import StudentTextTower
from capscore.backbones.tokens import load_tokenizer
from capscore.errors import BackboneUnavailable, CapscoreError, ResultWriteError

from . import tiny_transformers as tiny

ENCODERS = ["xlm-roberta", "bert", "distilbert"]
FILES = {
    "capscore_student.json",
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


def make_student(folder: Path, kind: str = "distilbert", **changes) -> StudentTextTower:
    """A student that has not been saved; `folder` is for its tokenizer."""
    encoder = tiny.tiny_encoder(folder, kind)
    tower = StudentTextTower(encoder, load_tokenizer(folder, encoder.config), **({"dim": 16} | changes))
    tiny.randomise(tower.projection, seed=1)
    return tower.eval()


def load(folder: Path, **changes):
    return text_towers.load_student(
        folder, replace(LoadOptions(name="student", load_backbone=load_backbone), **changes)
    )


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory) -> Path:
    return tiny.write_clip(tmp_path_factory.mktemp("clip") / "clip")


@pytest.fixture(scope="module")
def image_tower(clip_folder):
    return load_backbone(str(clip_folder), device="cpu")


@pytest.fixture(scope="module")
def saved(tmp_path_factory, clip_folder) -> Path:
    """A whole student; not to be changed."""
    folder = tmp_path_factory.mktemp("saved")
    tower = make_student(
        folder / "tokenizer",
        max_tokens=30,
        image_tower=str(clip_folder),
        prefix="Ein Foto: ",
        languages=["ja", "de"],
        teacher="tiny CLIP",
        logit_scale=12.5,
    )
    tower.save_pretrained(folder / "student")
    return folder / "student"


@pytest.fixture(scope="module")
def backbone(saved):
    return load(saved)


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A student to be broken."""
    return Path(shutil.copytree(saved, tmp_path / "student"))


def by_hand(tower: StudentTextTower, text: str) -> np.ndarray:
    """One text, no padding, the plain mean of its tokens, the projection written out."""
    ids = tower.tokenizer(text, truncation=True, max_length=tower.max_tokens)["input_ids"]
    with torch.no_grad():
        hidden = tower.encoder(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()
    weight, bias = tower.projection.weight.detach().numpy(), tower.projection.bias.detach().numpy()
    return weight @ hidden.mean(axis=0) + bias


# What it computes


@pytest.mark.parametrize("kind", ENCODERS)
def test_forward_is_the_masked_mean_of_all_tokens_and_a_linear(kind, tmp_path):
    tower = make_student(tmp_path, kind)
    texts = [*tiny.TEXTS, tiny.LONG]
    tokens, mask = base.pad_batch(tower.tokenize(texts).ids, tower.tokenizer.pad_token_id)
    assert not mask.all(), "there should be padding to mask"
    with torch.no_grad():
        rows = tower(tokens, mask).numpy()
    np.testing.assert_allclose(rows, [by_hand(tower, text) for text in texts], atol=1e-5)
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).min() > 0.01, "not normalised"


def test_every_part_that_is_used_gets_a_gradient(tmp_path):
    tower = make_student(tmp_path, "bert").train()
    tokens, mask = base.pad_batch(tower.tokenize(tiny.TEXTS).ids, 0)
    tower(tokens, mask).square().mean().backward()
    without = [name for name, parameter in tower.named_parameters() if parameter.grad is None]
    assert without == []
    assert "encoder.pooler.dense.weight" not in tower.state_dict()


def test_context_length_is_the_encoders_unless_said(tmp_path):
    assert make_student(tmp_path / "a", "xlm-roberta").max_tokens == 38  # 40 positions, 2 unused
    assert make_student(tmp_path / "b", "bert").max_tokens == 40
    assert make_student(tmp_path / "c", "bert", max_tokens=12).max_tokens == 12
    with pytest.raises(CapscoreError):
        make_student(tmp_path / "d", "xlm-roberta", max_tokens=39)


# Saving and loading


@pytest.mark.parametrize("kind", ENCODERS)
def test_saved_and_loaded_it_is_the_same(kind, tmp_path):
    tower = make_student(tmp_path / "tokenizer", kind)
    tower.save_pretrained(tmp_path / "student")
    assert {path.name for path in (tmp_path / "student").iterdir()} >= FILES
    loaded = StudentTextTower.from_pretrained(tmp_path / "student")
    assert base.weights_digest(loaded) == base.weights_digest(tower)
    assert not loaded.training
    assert loaded.tokenize(tiny.TEXTS).ids == tower.tokenize(tiny.TEXTS).ids


def test_what_it_says_of_itself_is_kept(saved, clip_folder):
    assert json.loads((saved / "capscore_student.json").read_text(encoding="utf-8")) == {
        "format": 1,
        "dim": 16,
        "max_tokens": 30,
        "image_tower": str(clip_folder),
        "prefix": "Ein Foto: ",
        "languages": ["de", "ja"],
        "teacher": "tiny CLIP",
        "logit_scale": 12.5,
    }
    loaded = StudentTextTower.from_pretrained(saved)
    assert (loaded.dim, loaded.max_tokens, loaded.teacher) == (16, 30, "tiny CLIP")
    assert (loaded.prefix, loaded.languages, loaded.logit_scale) == ("Ein Foto: ", {"de", "ja"}, 12.5)


def test_a_second_save_replaces_the_first_and_leaves_other_files(folder, tmp_path):
    (folder / "README.md").write_text("a card")
    tower = make_student(tmp_path / "tokenizer", "bert", dim=8)
    tower.save_pretrained(folder)
    assert {path.name for path in folder.iterdir()} >= FILES | {"README.md"}
    assert not list(folder.glob(".*")), "what was written aside is gone"
    assert base.weights_digest(StudentTextTower.from_pretrained(folder)) == base.weights_digest(tower)


def test_a_save_that_fails_leaves_the_old_student_whole(folder, tmp_path, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full_disk(tensors, path, metadata):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full_disk)
    with pytest.raises(ResultWriteError):
        make_student(tmp_path / "tokenizer").save_pretrained(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_save_torn_at_any_rename_never_looks_whole(folder, tmp_path, monkeypatch):
    tower = make_student(tmp_path / "tokenizer", dim=8)
    real = checkpoint.os.replace
    for survived in range(len(FILES)):
        done = []

        def power_cut(source, target, done=done, survived=survived):
            if len(done) == survived:
                raise KeyboardInterrupt
            done.append(real(source, target))

        monkeypatch.setattr(checkpoint.os, "replace", power_cut)
        with pytest.raises(KeyboardInterrupt):
            tower.save_pretrained(folder)
        assert folder_kind(folder) != "student"
    monkeypatch.setattr(checkpoint.os, "replace", real)
    tower.save_pretrained(folder)
    assert folder_kind(folder) == "student"


# As a backbone


def test_texts_are_the_students_and_images_the_teachers(saved, backbone, image_tower):
    tower = StudentTextTower.from_pretrained(saved)
    texts = [*tiny.TEXTS, tiny.LONG]
    expected = np.array([by_hand(tower, text) for text in texts])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    rows = backbone.encode_texts(texts)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    photos = tiny.random_photos()
    np.testing.assert_allclose(
        backbone.encode_images(photos), image_tower.encode_images(photos), rtol=0, atol=1e-6
    )


def test_attributes_come_from_the_folder(backbone, image_tower):
    assert (backbone.name, backbone.prefix, backbone.languages) == ("student", "Ein Foto: ", {"de", "ja"})
    assert (backbone.dim, backbone.max_tokens, backbone.logit_scale) == (16, 30, 12.5)
    text_revision, image_revision = backbone.revision.split("+")
    assert image_revision == image_tower.revision
    assert text_revision.startswith("w") and len(text_revision) == 9


def test_arguments_win_over_the_folder(saved, image_tower):
    loaded = load(saved, revision="abc", prefix="Foto: ", languages=frozenset({"fr"}))
    assert (loaded.prefix, loaded.languages) == ("Foto: ", {"fr"})
    assert loaded.revision == f"abc+{image_tower.revision}"


def test_languages_are_kept_in_one_form(folder, tmp_path):
    """Mandarin goes by Chinese, Bokmål by Norwegian: in what is made, and in a folder that others wrote."""
    tower = make_student(tmp_path, languages=["cmn", "pt-BR", "nb", "deu"])
    assert tower.languages == {"zh", "pt", "no", "de"}
    marker = json.loads((folder / "capscore_student.json").read_text())
    tiny.write_json(folder / "capscore_student.json", marker | {"languages": ["arb", "tl", "ja"]})
    assert load(folder).languages == {"ar", "fil", "ja"}
    with pytest.raises(CapscoreError):
        make_student(tmp_path, languages=["klingonese"])


def test_another_image_tower_shows_in_the_name(saved, backbone, tmp_path):
    other = load_backbone(str(tiny.write_clip(tmp_path / "other", seed=1)), device="cpu")
    for image_tower in (other, str(tmp_path / "other")):
        loaded = load(saved, image_tower=image_tower)
        assert loaded.name == "student+other"
        assert loaded.fingerprint != backbone.fingerprint
        np.testing.assert_allclose(
            loaded.encode_images(tiny.random_photos()),
            other.encode_images(tiny.random_photos()),
            rtol=0,
            atol=1e-6,
        )


def test_load_backbone_finds_it_by_its_folder(saved, backbone):
    loaded = load_backbone(str(saved), device="cpu")
    assert loaded.fingerprint == backbone.fingerprint


def test_padding_goes_to_the_longest_of_the_batch(saved, monkeypatch):
    loaded = load(saved)
    shapes = []
    loaded._text.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(inputs[0].shape)))
    ids = loaded.tokenize(["a cat", "a dog on the beach"]).ids
    loaded.encode_tokens(ids)
    assert shapes == [(2, max(map(len, ids)))]


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_batch_size_and_order_do_not_matter(backbone, data):
    texts = [*tiny.TEXTS, tiny.LONG]
    whole = backbone.encode_texts(texts)
    order = data.draw(st.permutations(range(len(texts))))
    size = data.draw(st.integers(1, len(texts)))
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        np.testing.assert_allclose(
            backbone.encode_texts([texts[row] for row in rows]), whole[rows], atol=1e-5
        )


def test_a_long_text_is_cut_before_its_end_token(backbone):
    tokens = backbone.tokenize(["a cat", tiny.LONG])
    assert tokens.truncated.tolist() == [False, True]
    assert [len(tokens.ids[1]), tokens.ids[0][-1], tokens.ids[1][-1]] == [30, 3, 3]  # 3 is [SEP]


def test_nothing_in_nothing_out(backbone):
    assert backbone.encode_texts([]).shape == backbone.encode_images([]).shape == (0, 16)
    assert backbone.encode_tokens([]).shape == (0, 16)


def test_bfloat16_is_near_and_has_another_fingerprint(saved, backbone):
    half = load(saved, dtype="bfloat16")
    np.testing.assert_allclose(half.encode_texts(tiny.TEXTS), backbone.encode_texts(tiny.TEXTS), atol=0.05)
    assert half.fingerprint != backbone.fingerprint
    assert half.revision == backbone.revision


def test_fingerprint_follows_the_tokenizer(folder, backbone):
    assert load(folder).fingerprint == backbone.fingerprint
    tiny.bert_tokenizer(folder, lowercase=True)
    assert load(folder).fingerprint != backbone.fingerprint


# What goes wrong


def test_towers_of_two_dimensions_are_refused(folder, tmp_path, clip_folder):
    make_student(tmp_path / "tokenizer", dim=24).save_pretrained(folder)
    with pytest.raises(CapscoreError):
        load(folder, image_tower=str(clip_folder))


def test_a_student_without_an_image_tower_asks_for_one(folder, tmp_path):
    make_student(tmp_path / "tokenizer").save_pretrained(folder)
    with pytest.raises(CapscoreError):
        load(folder)


@pytest.mark.parametrize(
    "absent", ["capscore_student.json", "config.json", "model.safetensors", "tokenizer.json"]
)
def test_a_missing_file_is_named(folder, absent):
    (folder / absent).unlink()
    if absent == "tokenizer.json":  # transformers 4 writes the vocabulary a second time
        (folder / "vocab.txt").unlink(missing_ok=True)
    with pytest.raises(BackboneUnavailable):
        load(folder)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "is of format .*reads format 1"),
        ({"dim": "16"}, "'dim' should be present, as int"),
        ({"max_tokens": True}, "'max_tokens' should be present, as int"),
        ({"languages": ["de", "klingonese"]}, "json: unknown language code 'klingonese'"),
        ({"languages": ["de", 3]}, "json: 3 is not a language"),
        ({"languages": "de"}, "'languages' should be present, as list or null"),
        ({"dim": 8}, r"says dim 8, but projection\.weight has 16"),
    ],
)
def test_a_marker_that_says_something_else_is_refused(folder, change, complaint):
    marker = json.loads((folder / "capscore_student.json").read_text(encoding="utf-8"))
    tiny.write_json(folder / "capscore_student.json", marker | change)
    with pytest.raises(BackboneUnavailable):
        load(folder)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda state: state.pop("projection.bias"), r"projection\.bias are missing"),
        (
            lambda state: state.pop("encoder.transformer.layer.1.ffn.lin1.weight"),
            r"layer\.1\.ffn\.lin1\.weight are missing",
        ),
        (lambda state: state.update(stray=torch.zeros(1)), "stray belong to no part"),
        (
            lambda state: state.update({"encoder.embeddings.word_embeddings.weight": torch.zeros(7, 32)}),
            r"word_embeddings\.weight.* have a shape that differs",
        ),
        (
            lambda state: state.update({"projection.weight": torch.zeros(16, 31)}),
            r"\(16, 31, 16\), config \(32,\)\) have a shape that differs",
        ),
    ],
)
def test_weights_that_do_not_fit_are_never_replaced_by_random_ones(folder, change, complaint):
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors")
    with pytest.raises(BackboneUnavailable):
        load(folder)


def test_only_a_whole_save_is_recognised(saved, clip_folder, tmp_path):
    assert folder_kind(saved) == "student"
    assert folder_kind(clip_folder) != "student"
    assert folder_kind(tmp_path) != "student"
    assert folder_kind(clip_folder) == "transformers"
