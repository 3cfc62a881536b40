"""M-CLIP, sentence-transformers and students: their numbers by hand, and how their folders break."""

import functools
import json
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from capscore import backbones as loading
from capscore.backbones import Known, base, checkpoint, text_towers
from capscore.backbones.base import BackboneOptions
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.text_towers import read_student
from capscore.errors import BackboneUnavailable, CapscoreError, ResultWriteError
from tools.tiny import transformers_models as tiny
from tools.tiny.backbones import edit_json, make_student
from training.engine.saved_towers import StudentRecord, save_student

TEXTS = [*tiny.TEXTS, tiny.LONG]
LOADERS = {"m-clip": text_towers.load_multilingual_clip, "student": text_towers.load_student}
LOADERS["sentence-transformers"] = text_towers.load_sentence_transformers
MARKER = "capscore_student.json"


@pytest.fixture
def copied(checkpoints, tmp_path):
    return lambda kind: checkpoints(kind).copied(tmp_path)


@pytest.fixture
def load(backbones):
    """(kind, folder) → its backbone, with the images of the tiny CLIP."""

    def loaded(kind, folder, **changes):
        options = BackboneOptions("tiny", image_tower=backbones("clip"))
        return LOADERS[kind](folder, replace(options, **changes))

    return loaded


def unit(rows):
    return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


def masked_mean(encoder, weight, bias, ids):
    """One text, no padding: the plain mean of its tokens, and the projection written out."""
    with torch.no_grad():
        hidden = encoder(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()
    return weight.detach().numpy() @ hidden.mean(axis=0) + bias.detach().numpy()


def test_m_clip_by_hand(checkpoints, backbones):
    folder = checkpoints("m-clip").spec_path
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    config = transformers.XLMRobertaConfig.from_pretrained(folder / "encoder_config.json")
    encoder = transformers.XLMRobertaModel(config).eval()
    inner = {k.removeprefix("transformer."): v for k, v in state.items() if k.startswith("transformer.")}
    encoder.load_state_dict(inner, strict=False)
    weight, bias = (state[f"LinearTransformation.{part}"] for part in ("weight", "bias"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, config=config)
    ids = tokenizer(TEXTS, truncation=True, max_length=38)["input_ids"]
    expected = unit([masked_mean(encoder, weight, bias, row) for row in ids])
    np.testing.assert_allclose(backbones("m-clip").encode_texts(TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["xlm-roberta", "bert", "distilbert"])
def test_a_student_by_hand_which_is_the_same_when_it_is_saved_and_loaded(kind, tmp_path):
    about = {"image_tower": "some/clip", "prefix": "Ein Foto: ", "teacher": "tiny CLIP", "logit_scale": 12.5}
    tower = make_student(tmp_path / "t", kind, max_tokens=30)
    ids = tower.tokenize(TEXTS).ids
    tokens, mask = base.pad_batch(ids, tower.tokenizer.pad_token_id)
    assert not mask.all(), "there should be padding to mask"
    weight, bias = tower.projection.weight, tower.projection.bias
    with torch.no_grad():
        expected = [masked_mean(tower.encoder, weight, bias, row) for row in ids]
        np.testing.assert_allclose(tower(tokens, mask), expected, atol=1e-5)
    save_student(tower, tmp_path / "student", StudentRecord(**about, languages=["cmn", "nb", "deu"]))
    marker = {"format": 1, "dim": 16, "max_tokens": 30, "languages": ["de", "no", "zh"], **about}
    assert json.loads((tmp_path / "student" / MARKER).read_text(encoding="utf-8")) == marker
    loaded, said = read_student(tmp_path / "student")
    assert base.weights_digest(loaded) == base.weights_digest(tower) and not loaded.training
    assert loaded.tokenize(TEXTS).ids == ids and (loaded.dim, loaded.max_tokens) == (16, 30)
    assert said == marker


@pytest.fixture
def library():
    """Of sentence-transformers, which only the worker that runs these tests reads."""
    from sentence_transformers import SentenceTransformer

    return functools.partial(SentenceTransformer, device="cpu")


def test_sentence_transformers_are_what_the_library_encodes(checkpoints, backbones, load, library, tmp_path):
    texts = [*TEXTS, "  a cat\n"]
    model = library(checkpoints("sentence-transformers").spec)
    expected = model.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(backbones("sentence-transformers").encode_texts(texts), expected, atol=1e-5)
    model.save(str(tmp_path / "anew"), create_model_card=False)  # as the version of today writes it
    anew = load("sentence-transformers", tmp_path / "anew")
    np.testing.assert_allclose(anew.encode_texts(texts), expected, atol=1e-5)


def test_a_default_prompt_becomes_the_prefix(load, library, tmp_path):
    folder = tiny.write_sentence_transformer(tmp_path / "model", prompt="photo: ")
    loaded = load("sentence-transformers", folder)
    assert loaded.prefix == "photo: "
    expected = library(str(folder)).encode(["a cat"], normalize_embeddings=True)
    np.testing.assert_allclose(loaded.encode_texts(["photo: a cat"]), expected, atol=1e-5)
    edit_json(folder / "1_Pooling" / "config.json", "include_prompt", value=False)
    with pytest.raises(CapscoreError, match="leaves its prompt out"):
        load("sentence-transformers", folder)


@pytest.mark.parametrize("kind", LOADERS)
def test_images_are_those_of_the_other_tower_and_it_names_both(kind, checkpoints, load, backbones, tmp_path):
    folder, clip, photos = checkpoints(kind).spec_path, backbones("clip"), tiny.random_photos()
    paired = load(kind, folder, revision="abc")
    np.testing.assert_allclose(paired.encode_images(photos), clip.encode_images(photos), rtol=0, atol=1e-6)
    assert (paired.name, paired.revision) == ("tiny+model", f"abc+{clip.revision}")
    swapped = load(kind, folder, image_tower=str(tiny.write_clip(tmp_path / "other", seed=1)))
    assert swapped.name == "tiny+other" and swapped.fingerprint != paired.fingerprint
    np.testing.assert_allclose(swapped.encode_texts(TEXTS), paired.encode_texts(TEXTS), rtol=0, atol=1e-6)


def test_padding_goes_to_the_longest_of_the_batch(backbones):
    shapes, paired = [], backbones("student")
    hook = paired._text.register_forward_hook(lambda _, inputs, out: shapes.append(inputs[0].shape))
    ids = paired.tokenize(["a cat", "a dog on the beach"]).ids
    paired.encode_tokens(ids)
    hook.remove()
    assert shapes == [(2, max(map(len, ids)))]


def test_the_registered_image_tower_is_not_part_of_the_name(checkpoints, load, backbones, monkeypatch):
    known = Known("M-CLIP/tiny", "multilingual_clip", "M-CLIP/tiny", image_tower="some/clip")
    monkeypatch.setattr(text_towers, "find", lambda name: known if name == "M-CLIP/tiny" else None)
    monkeypatch.setattr(loading, "load_backbone", lambda spec, **options: backbones("clip"))
    for tower, name in ((None, ""), ("some/clip", ""), ("another/clip", "+model")):
        loaded = load("m-clip", checkpoints("m-clip").spec_path, image_tower=tower, name="M-CLIP/tiny")
        assert loaded.name == f"M-CLIP/tiny{name}"


def test_context_lengths_are_the_encoders_unless_the_folder_says_less(copied, load, tmp_path):
    for wrong in (2, 39):
        with pytest.raises(CapscoreError, match=rf"max_tokens={wrong}.*reads 3 to 38"):
            make_student(tmp_path / "c", "xlm-roberta", max_tokens=wrong)
    folder = copied("sentence-transformers")
    (folder / "sentence_bert_config.json").unlink()
    assert load("sentence-transformers", folder).max_tokens == 40


def test_safetensors_and_weights_without_a_pooler_are_the_same_m_clip(load, checkpoints, tmp_path):
    same = load("m-clip", checkpoints("m-clip").spec_path).fingerprint
    folder = tiny.write_multilingual_clip(tmp_path / "model", pickled=False)
    assert load("m-clip", folder).fingerprint == same
    state = load_file(folder / "model.safetensors")
    without = {key: tensor for key, tensor in state.items() if ".pooler." not in key}
    assert len(without) == len(state) - 2
    save_file(without, folder / "model.safetensors")
    assert load("m-clip", folder).fingerprint == same


def test_an_image_tower_is_required_and_must_have_the_same_length(load, tmp_path):
    wide = tiny.write_multilingual_clip(tmp_path / "wide", dim=24)
    with pytest.raises(CapscoreError, match="24 numbers per text, model has 16 per image"):
        load("m-clip", wide)
    with pytest.raises(CapscoreError, match="image_tower="):
        load("m-clip", wide, image_tower=None)


def test_an_encoder_that_is_unknown_or_of_another_size_is_refused(copied, load):
    folder = copied("m-clip")
    (folder / "encoder_config.json").unlink()
    with pytest.raises(CapscoreError, match="names the encoder 'tiny-roberta'"):
        load("m-clip", folder)
    edit_json(folder / "config.json", "modelBase", value="xlm-roberta-base")
    with pytest.raises(BackboneUnavailable):
        load("m-clip", folder)


def test_arguments_win_over_the_folder_and_languages_have_one_form(copied, load):
    folder = copied("student")
    edit_json(folder / MARKER, "languages", value=["arb", "tl", "ja"])
    edit_json(folder / MARKER, "logit_scale", value=12.5)
    said = load("student", folder)
    told = load("student", folder, prefix="Foto: ", languages=frozenset({"fr"}))
    assert (said.languages, said.logit_scale) == ({"ar", "fil", "ja"}, 12.5)
    assert (told.prefix, told.languages) == ("Foto: ", {"fr"})


def test_a_second_save_replaces_the_first_or_leaves_it(copied, tmp_path):
    folder = copied("student")
    (folder / "README.md").write_text("a card")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    tower = make_student(tmp_path / "tokenizer", "bert", dim=8)
    full = mock.patch("safetensors.torch.save_file", side_effect=OSError(28, "No space left on device"))
    with full, pytest.raises(ResultWriteError, match="No space left"):
        save_student(tower, folder, StudentRecord())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    save_student(tower, folder, StudentRecord())
    assert {path.name for path in folder.iterdir()} >= before.keys() and not list(folder.glob(".*"))
    assert base.weights_digest(read_student(folder)[0]) == base.weights_digest(tower)


def test_a_save_torn_at_any_rename_never_looks_whole(copied, tmp_path, monkeypatch):
    folder, tower = copied("student"), make_student(tmp_path / "tokenizer", dim=8)
    real = checkpoint.os.replace
    for survived in range(4):
        done = []

        def power_cut(source, target, done=done, survived=survived):
            if len(done) == survived:
                raise KeyboardInterrupt
            done.append(real(source, target))

        monkeypatch.setattr(checkpoint.os, "replace", power_cut)
        with pytest.raises(KeyboardInterrupt):
            save_student(tower, folder, StudentRecord())
        assert folder_kind(folder) != "student"
