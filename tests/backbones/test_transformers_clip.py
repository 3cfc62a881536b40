"""transformers' CLIP family, loaded from tiny checkpoints on disk by the code that loads the real ones."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file, save_file

from capscore.backbones import base, transformers_clip
from capscore.backbones.base import LoadOptions
from capscore.backbones.checkpoint import folder_kind
from capscore.errors import BackboneUnavailable, CapscoreError

from . import tiny_transformers as tiny

WRITERS: dict[str, Callable[[Path], Path]] = {
    "clip": tiny.write_clip,
    "clip_new_eos": lambda folder: tiny.write_clip(folder, legacy_eos=False, pad_token="!"),
    "metaclip_2": tiny.write_metaclip_2,
    "altclip": tiny.write_altclip,
    "chinese_clip": tiny.write_chinese_clip,
    "siglip": tiny.write_siglip,
    "siglip_2": tiny.write_siglip_2,
    "siglip_2_own_tokenizer": lambda folder: tiny.write_siglip_2(folder, "Siglip2Tokenizer"),
    "siglip_2_naflex": tiny.write_siglip_2_naflex,
}
# Context length and last token of a text: from the writers' configs, worked out by hand.
CONTEXTS = {
    "clip": 20,  # the tokenizer's limit; the tower has 24 positions
    "clip_new_eos": 20,
    "metaclip_2": 21,  # the tower's; the tokenizer says 512
    "altclip": 38,  # 40 positions, of which the padding index 1 leaves 0 and 1 unused
    "chinese_clip": 26,
    "siglip": 16,
    "siglip_2": 16,
    "siglip_2_own_tokenizer": 16,
    "siglip_2_naflex": 64,
}
END_TOKENS = {
    "clip": "<|endoftext|>",
    "clip_new_eos": "<|endoftext|>",
    "metaclip_2": "</s>",
    "altclip": "</s>",
    "chinese_clip": "[SEP]",
    "siglip": "</s>",
    "siglip_2": "<eos>",
    "siglip_2_own_tokenizer": "<eos>",
    "siglip_2_naflex": "<eos>",
}
needs_sentencepiece = pytest.mark.skipif(
    not transformers.utils.is_sentencepiece_available() or not transformers.utils.is_protobuf_available(),
    reason="SigLIP's tokenizer needs sentencepiece and protobuf",
)
HAS_SIGLIP_2_TOKENIZER = hasattr(transformers, "Siglip2Tokenizer")  # since transformers 5
MARKS = {
    "siglip": needs_sentencepiece,
    "siglip_2_own_tokenizer": pytest.mark.skipif(not HAS_SIGLIP_2_TOKENIZER, reason="needs transformers 5"),
}
KINDS = [pytest.param(kind, marks=MARKS.get(kind, ())) for kind in WRITERS]
TIGHT = ["clip", "clip_new_eos", "metaclip_2", "altclip", "chinese_clip"]


# The sort of image processor that is taken, as the two versions of transformers put it.
TORCHVISION = {"use_fast": True} if transformers.__version__ < "5" else {"backend": "torchvision"}


def load(folder: Path, **changes):
    return transformers_clip.load_folder(folder, replace(LoadOptions(name="tiny"), **changes))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The folder of a kind, written once; not to be changed."""
    folders: dict[str, Path] = {}

    def get(kind: str) -> Path:
        if kind not in folders:
            folders[kind] = WRITERS[kind](tmp_path_factory.mktemp(kind) / "model")
        return folders[kind]

    return get


@pytest.fixture(scope="module")
def backbone(checkpoint):
    """The backbone of a kind, loaded once."""
    loaded: dict[str, base.Backbone] = {}

    def get(kind: str) -> base.Backbone:
        if kind not in loaded:
            loaded[kind] = load(checkpoint(kind))
        return loaded[kind]

    return get


@pytest.fixture
def clip(checkpoint, tmp_path) -> Path:
    """A CLIP checkpoint to be broken."""
    return Path(shutil.copytree(checkpoint("clip"), tmp_path / "clip"))


def unit(features) -> np.ndarray:
    features = features if isinstance(features, torch.Tensor) else features.pooler_output
    return (features / features.norm(dim=-1, keepdim=True)).detach().numpy()


def captured_shapes(backbone, monkeypatch) -> list[tuple[int, ...]]:
    """Filled with the shape of every batch of ids that the text tower is given."""
    shapes = []
    real = backbone._model.get_text_features

    def spy(**inputs):
        shapes.append(tuple(inputs["input_ids"].shape))
        return real(**inputs)

    monkeypatch.setattr(backbone._model, "get_text_features", spy)
    return shapes


# The right numbers


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_the_models_own_features_through_its_processor(kind, checkpoint, backbone):
    folder, texts = checkpoint(kind), [*tiny.TEXTS, tiny.LONG]
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder)
    # Gemma's tokenizer keeps capitals, which SigLIP 2 was not trained on.
    keeps_capitals = kind == "siglip_2" or (kind == "siglip_2_naflex" and not HAS_SIGLIP_2_TOKENIZER)
    theirs = [text.lower() for text in texts] if keeps_capitals else texts
    inputs = processor(
        text=theirs, padding="max_length", truncation=True, max_length=CONTEXTS[kind], return_tensors="pt"
    )
    assert inputs["input_ids"].shape == (8, CONTEXTS[kind])
    expected = unit(model.get_text_features(**inputs))

    rows = backbone(kind).encode_texts(texts)

    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    others = np.abs(rows[:, None] - rows[None]).max(axis=-1) + np.eye(len(rows))
    assert others.min() > 0.01, "the tiny tower should tell the texts apart, or the test above says nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_images_are_the_models_own_features_through_its_processor(kind, checkpoint, backbone):
    folder, photos = checkpoint(kind), tiny.random_photos()[:4]
    processor = transformers.AutoProcessor.from_pretrained(folder, **TORCHVISION)
    model = transformers.AutoModel.from_pretrained(folder)
    expected = unit(model.get_image_features(**processor(images=photos, return_tensors="pt")))

    rows = backbone(kind).encode_images(photos)

    assert rows.dtype == np.float32 and rows.shape == (4, backbone(kind).dim)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("kind", TIGHT)
def test_padding_goes_to_the_longest_of_the_batch(kind, backbone, monkeypatch):
    shapes = captured_shapes(backbone(kind), monkeypatch)
    ids = backbone(kind).tokenize(["a cat", "a dog"]).ids
    backbone(kind).encode_tokens(ids)
    assert shapes == [(2, max(map(len, ids)))]
    assert shapes[0][1] < CONTEXTS[kind]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.values[0] not in TIGHT])
def test_siglip_reads_the_whole_context(kind, backbone, monkeypatch):
    shapes = captured_shapes(backbone(kind), monkeypatch)
    backbone(kind).encode_tokens(backbone(kind).tokenize(["a cat", "a dog"]).ids)
    assert shapes == [(2, CONTEXTS[kind])]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.values[0].startswith("siglip_2")])
def test_siglip_2_reads_lower_case(kind, backbone):
    assert backbone(kind).tokenize(["A CAT"]).ids == backbone(kind).tokenize(["a cat"]).ids


@pytest.mark.parametrize("kind", ["metaclip_2", "altclip"])
def test_other_multilingual_towers_tell_capitals(kind, backbone):
    upper, lower = backbone(kind).tokenize(["A cat", "a cat"]).ids
    assert upper != lower


@pytest.mark.parametrize("kind", ["clip", "altclip", "siglip_2"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_batch_size_and_order_do_not_matter(kind, backbone, data):
    tower, texts, photos = backbone(kind), [*tiny.TEXTS, tiny.LONG], tiny.random_photos()
    whole_texts, whole_photos = tower.encode_texts(texts), tower.encode_images(photos)
    order = data.draw(st.permutations(range(len(texts))))
    size = data.draw(st.integers(1, len(texts)))
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        np.testing.assert_allclose(
            tower.encode_texts([texts[row] for row in rows]), whole_texts[rows], atol=1e-5
        )
        rows = [row for row in rows if row < len(photos)]
        np.testing.assert_allclose(
            tower.encode_images([photos[row] for row in rows]), whole_photos[rows], atol=1e-5
        )


# Tokens


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_is_cut_before_its_end_token(kind, backbone):
    tower = backbone(kind)
    assert tower.max_tokens == CONTEXTS[kind]
    tokens = tower.tokenize(["a cat", tiny.LONG, "a dog"])
    assert tokens.truncated.tolist() == [False, True, False]
    assert len(tokens.ids[1]) == CONTEXTS[kind]
    end = tower._tokenizer.convert_tokens_to_ids(END_TOKENS[kind])
    assert [ids[-1] for ids in tokens.ids] == [end] * 3
    assert tokens.ids[1][:-1] == tower._tokenizer(tiny.LONG.lower())["input_ids"][: CONTEXTS[kind] - 1]


def test_a_text_of_exactly_the_context_is_not_cut(backbone):
    tower = backbone("clip")
    tokens = tower.tokenize(["cat " * 18, "cat " * 19])  # a token each, and two special ones
    assert tokens.truncated.tolist() == [False, True]
    assert [len(ids) for ids in tokens.ids] == [20, 20]


def test_nothing_in_nothing_out(backbone):
    tower = backbone("clip")
    assert tower.encode_texts([]).shape == tower.encode_images([]).shape == (0, 16)
    assert tower.encode_tokens([]).shape == tower.encode_pixels([]).shape == (0, 16)
    assert tower.tokenize([]).ids == [] and tower.tokenize([]).truncated.shape == (0,)


@pytest.mark.parametrize(("kind", "wrong"), [("clip", 7), ("metaclip_2", 3)])
def test_an_end_token_that_the_tokenizer_does_not_write_is_refused(kind, wrong, checkpoint, tmp_path):
    folder = Path(shutil.copytree(checkpoint(kind), tmp_path / kind))
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["eos_token_id"] = wrong
    tiny.write_json(folder / "config.json", config)
    with pytest.raises(CapscoreError):
        load(folder)


# What a backbone says of itself


def test_attributes(backbone, checkpoint):
    tower = load(checkpoint("clip"), revision="abc", prefix="A photo of ", languages=frozenset({"en"}))
    assert (tower.name, tower.revision, tower.prefix) == ("tiny", "abc", "A photo of ")
    assert tower.languages == {"en"}
    assert (tower.dim, tower.device, tower.dtype) == (16, "cpu", "float32")
    assert backbone("siglip_2").dim == 32
    assert tower.logit_scale == pytest.approx(4.4816890703)  # e^1.5
    assert backbone("siglip_2").logit_scale == pytest.approx(4.4816890703)


def test_without_a_revision_it_is_a_digest_of_the_folder(checkpoint, backbone, tmp_path):
    model = transformers.CLIPModel.from_pretrained(checkpoint("clip"))
    digests = base.weights_digest(model), base.settings_digest(checkpoint("clip"))
    assert backbone("clip").revision == f"w{base.fingerprint_of(*digests)[:8]}"
    assert re.fullmatch("w[0-9a-f]{8}", backbone("clip").revision)
    other = load(tiny.write_clip(tmp_path, seed=1))
    assert other.revision != backbone("clip").revision


def test_bfloat16_is_near_and_has_another_fingerprint(checkpoint, backbone):
    half = load(checkpoint("clip"), dtype="bfloat16")
    assert next(half._model.parameters()).dtype == torch.bfloat16
    rows = half.encode_texts(tiny.TEXTS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, backbone("clip").encode_texts(tiny.TEXTS), atol=0.05)
    np.testing.assert_allclose(
        half.encode_images(tiny.random_photos()),
        backbone("clip").encode_images(tiny.random_photos()),
        atol=0.05,
    )
    assert half.fingerprint != backbone("clip").fingerprint
    assert half.revision == backbone("clip").revision


def test_fingerprint_follows_what_an_embedding_depends_on(clip, backbone):
    same = load(clip, name="other", revision="main", prefix="x", languages=frozenset({"de"}))
    assert same.fingerprint == backbone("clip").fingerprint

    config = json.loads((clip / "preprocessor_config.json").read_text())
    tiny.write_json(clip / "preprocessor_config.json", config | {"resample": 2})
    resampled = load(clip).fingerprint
    tiny.write_json(clip / "preprocessor_config.json", config)
    tiny.clip_tokenizer(clip, max_length=19)
    shorter = load(clip).fingerprint
    tiny.clip_tokenizer(clip, max_length=20, pad_token="!")
    padded = load(clip).fingerprint
    assert len({same.fingerprint, resampled, shorter, padded}) == 4


# Pixels


@pytest.mark.skipif(not hasattr(transformers, "CLIPImageProcessorPil"), reason="needs transformers 5")
def test_both_sorts_of_image_processor_work(clip, backbone):
    tower, photos = load(clip), tiny.random_photos()
    tower._image_processor = transformers.AutoImageProcessor.from_pretrained(clip, backend="pil")
    assert type(tower._image_processor).__name__ == "CLIPImageProcessorPil"
    assert type(backbone("clip")._image_processor).__name__ == "CLIPImageProcessor"
    for photo in photos:
        pixels = tower.preprocess(photo)
        assert pixels.dtype == torch.float32 and pixels.shape == (3, 32, 32)
        # The two may round differently: a step of 255 is 0.015 after normalisation.
        torch.testing.assert_close(pixels, backbone("clip").preprocess(photo), atol=0.031, rtol=0)
    assert tower.remade().fingerprint != backbone("clip").fingerprint


def test_which_sort_is_taken_is_not_left_to_the_version(clip, monkeypatch):
    asked = []
    load_processor = transformers.AutoImageProcessor.from_pretrained
    monkeypatch.setattr(
        transformers.AutoImageProcessor,
        "from_pretrained",
        lambda folder, **arguments: asked.append(arguments) or load_processor(folder, **arguments),
    )
    load(clip)
    assert asked == [{"local_files_only": True, "trust_remote_code": False, **TORCHVISION}]


def test_preprocessing_by_hand(backbone):
    # An image of the tower's own size: no resize, no crop, only (x / 255 - mean) / std.
    photo = tiny.random_photos()[0].resize((32, 32))
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    expected = (np.asarray(photo) / 255 - mean) / std
    np.testing.assert_allclose(backbone("clip").preprocess(photo), expected.transpose(2, 0, 1), atol=1e-5)


def test_an_image_three_pixels_high_has_its_channels_last(backbone):
    thin = tiny.random_photos()[4]
    assert thin.size == (50, 3)
    resized = thin.resize((int(50 * 32 / 3), 32), Image.Resampling.BICUBIC)
    left = (resized.width - 32) // 2
    by_hand = backbone("clip").preprocess(resized.crop((left, 0, left + 32, 32)))
    difference = (backbone("clip").preprocess(thin) - by_hand).abs()
    assert difference.mean() < 0.03  # the crop may begin a pixel further on
    assert difference.max() < 0.3


@pytest.mark.parametrize("kind", ["clip", "siglip_2", "siglip_2_naflex"])
def test_threads_may_preprocess_at_once(kind, backbone):
    tower, photos = backbone(kind), tiny.random_photos() * 8
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(tower.preprocess, photos))
    for photo, pixels in zip(photos, together, strict=True):
        assert torch.equal(pixels, tower.preprocess(photo))


# Weights


def test_a_pickle_of_tensors_is_read(clip, backbone):
    torch.save(load_file(clip / "model.safetensors"), clip / "pytorch_model.bin")
    (clip / "model.safetensors").unlink()
    pickled = load(clip)
    assert pickled.fingerprint == backbone("clip").fingerprint
    np.testing.assert_allclose(
        pickled.encode_texts(tiny.TEXTS), backbone("clip").encode_texts(tiny.TEXTS), rtol=0, atol=1e-6
    )


def test_safetensors_are_preferred(clip, backbone):
    (clip / "pytorch_model.bin").write_bytes(b"not a checkpoint")
    assert load(clip).fingerprint == backbone("clip").fingerprint


class Malicious:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_pickle_that_runs_code_is_refused(clip, tmp_path):
    (clip / "model.safetensors").unlink()
    torch.save({"logit_scale": Malicious(tmp_path / "it_ran")}, clip / "pytorch_model.bin")
    with pytest.raises(BackboneUnavailable):
        load(clip)
    assert not (tmp_path / "it_ran").exists()


def test_shards_are_read(clip, backbone):
    model = transformers.CLIPModel.from_pretrained(clip)
    (clip / "model.safetensors").unlink()
    model.save_pretrained(clip, max_shard_size="60KB")
    shards = sorted(clip.glob("model-*.safetensors"))
    assert len(shards) > 1
    np.testing.assert_allclose(
        load(clip).encode_texts(tiny.TEXTS), backbone("clip").encode_texts(tiny.TEXTS), rtol=0, atol=1e-6
    )
    shards[1].unlink()
    with pytest.raises(BackboneUnavailable):
        load(clip)


def test_buffers_of_old_checkpoints_are_no_harm(clip, backbone):
    state = load_file(clip / "model.safetensors")
    state["text_model.embeddings.position_ids"] = torch.arange(24).unsqueeze(0)
    state["vision_model.embeddings.position_ids"] = torch.arange(17).unsqueeze(0)
    save_file(state, clip / "model.safetensors")
    assert load(clip).fingerprint == backbone("clip").fingerprint


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda state: state.pop("text_projection.weight"), r"text_projection\.weight are missing"),
        (
            lambda state: state.update({"text_model.encoder.layers.2.mlp.fc1.weight": torch.zeros(64, 32)}),
            r"layers\.2\.mlp\.fc1\.weight belong to no part",
        ),
        (
            lambda state: state.update({"visual_projection.weight": torch.zeros(8, 32)}),
            r"visual_projection\.weight( \(stored \(8, 32\), config \(16, 32\)\))? have a shape that differs",
        ),
    ],
)
def test_weights_that_do_not_fit_are_never_replaced_by_random_ones(clip, change, complaint):
    state = load_file(clip / "model.safetensors")
    change(state)
    save_file(state, clip / "model.safetensors")
    with pytest.raises(BackboneUnavailable):
        load(clip)


# Folders that cannot be loaded


@pytest.mark.parametrize(
    ("absent", "complaint"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", "neither model.safetensors nor pytorch_model.bin"),
        ("tokenizer.json", "has no tokenizer"),
        ("preprocessor_config.json", "has no preprocessor_config.json"),
    ],
)
def test_a_missing_file_is_named(clip, absent, complaint):
    (clip / absent).unlink()
    with pytest.raises(BackboneUnavailable):
        load(clip)


def test_a_torn_pickle_is_named(clip):
    torch.save(load_file(clip / "model.safetensors"), clip / "pytorch_model.bin")
    (clip / "model.safetensors").unlink()
    content = (clip / "pytorch_model.bin").read_bytes()
    (clip / "pytorch_model.bin").write_bytes(content[:1000])
    with pytest.raises(BackboneUnavailable):
        load(clip)


def test_another_kind_of_model_is_refused(clip):
    config = json.loads((clip / "config.json").read_text())
    tiny.write_json(clip / "config.json", config | {"model_type": "blip"})
    with pytest.raises(CapscoreError):
        load(clip)


def test_a_config_with_nonsense_in_it_is_refused(clip):
    config = json.loads((clip / "config.json").read_text())
    config["text_config"]["hidden_size"] = "wide"
    tiny.write_json(clip / "config.json", config)
    with pytest.raises(CapscoreError):
        load(clip)


def test_an_image_tower_does_not_go_with_it(checkpoint):
    with pytest.raises(CapscoreError):
        load(checkpoint("clip"), image_tower="embedded")


# Code that comes with a checkpoint

FOREIGN_CODE = """
from pathlib import Path
import torch
from transformers import CLIPConfig, CLIPModel
Path({marker!r}).touch()

class ForeignConfig(CLIPConfig):
    model_type = "foreign"

class ForeignModel(CLIPModel):
    config_class = ForeignConfig
"""


@pytest.fixture
def foreign(clip, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    (clip / "foreign.py").write_text(FOREIGN_CODE.format(marker=str(tmp_path / "it_ran")))
    config = json.loads((clip / "config.json").read_text())
    config |= {
        "model_type": "foreign",
        "auto_map": {"AutoConfig": "foreign.ForeignConfig", "AutoModel": "foreign.ForeignModel"},
    }
    tiny.write_json(clip / "config.json", config)
    return clip


def test_foreign_code_does_not_run_unasked(foreign, tmp_path):
    assert folder_kind(foreign) == "transformers"
    with pytest.raises(CapscoreError):
        load(foreign)
    assert not (tmp_path / "it_ran").exists()


def test_a_known_model_never_runs_the_code_beside_it(foreign, tmp_path, backbone):
    config = json.loads((foreign / "config.json").read_text())
    tiny.write_json(foreign / "config.json", config | {"model_type": "clip"})
    tower = load(foreign)
    np.testing.assert_allclose(
        tower.encode_texts(tiny.TEXTS), backbone("clip").encode_texts(tiny.TEXTS), rtol=0, atol=1e-6
    )
    assert not (tmp_path / "it_ran").exists()


def test_recognises(checkpoint, tmp_path):
    assert folder_kind(checkpoint("clip")) == "transformers"
    assert folder_kind(tmp_path) != "transformers"
    tiny.write_json(tmp_path / "config.json", {"modelBase": "xlm-roberta-base", "numDims": 512})
    assert folder_kind(tmp_path) != "transformers"
