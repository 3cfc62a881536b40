"""open_clip models as Backbones: the numbers of open_clip itself, whatever the padding, dtype and layout."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from dataclasses import replace

import numpy as np
import open_clip
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from capscore.backbones import text_towers
from capscore.backbones.base import LoadOptions
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.open_clip import OpenClipBackbone, load_folder, load_open_clip
from capscore.errors import BackboneUnavailable, CapscoreError

from .tiny_open_clip import CONTEXT, MODELS, bytes_tokenizer, write_open_clip, write_xlmr_config

TEXTS = [
    "A dog.",
    "Ein Hund &amp; eine Katze  laufen.",
    "犬",
    "",
    "a very long caption that no context of twenty four tokens holds, as it goes on and on and on and on",
]
# Whether padding to the longest of the batch is exact for this tower.
TIGHT = {
    "clip": True,
    "clip_quickgelu": True,
    "custom_text": True,
    "worldwide": True,
    "xlmr": True,
    "siglip": False,
    "clipa": False,
    "coca": False,
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("open_clip")
    return {kind: write_open_clip(root / kind, kind, seed=3) for kind in MODELS}


def load(folder, **changes):
    return load_folder(folder, replace(LoadOptions(folder.name), **changes))


@pytest.fixture(scope="module")
def backbones(folders):
    return {kind: load(folder) for kind, folder in folders.items()}


def pictures() -> list[Image.Image]:
    generator = np.random.default_rng(0)
    sizes = [(40, 60), (32, 32), (100, 33)]
    return [Image.fromarray(generator.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in sizes]


def reference(folder, kind):
    """The same checkpoint through open_clip's own factory."""
    extra = {}
    if kind == "xlmr":
        text = json.loads((folder / "open_clip_config.json").read_text())["model_cfg"]["text_cfg"]
        extra["text_cfg"] = {**text, "hf_model_name": str(folder), "hf_model_pretrained": False}
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}", **extra)
    return model.eval(), preprocess, open_clip.get_tokenizer(f"local-dir:{folder}")


@pytest.mark.parametrize("kind", MODELS)
def test_embeddings_are_those_of_open_clip(folders, backbones, kind):
    model, preprocess, tokenizer = reference(folders[kind], kind)
    with torch.no_grad():
        texts = model.encode_text(tokenizer(TEXTS), normalize=True).numpy()
        images = model.encode_image(torch.stack([preprocess(p) for p in pictures()]), normalize=True).numpy()
    backbone = backbones[kind]
    np.testing.assert_allclose(backbone.encode_texts(TEXTS), texts, atol=1e-5)
    np.testing.assert_allclose(backbone.encode_images(pictures()), images, atol=1e-5)
    assert backbone.encode_texts(TEXTS).dtype == np.float32
    assert backbone.dim == texts.shape[1] == 16
    assert np.abs(texts[0] - texts[1]).max() > 0.01, "the tiny towers tell texts apart"


@pytest.mark.parametrize("kind", MODELS)
def test_padding_follows_the_tower(folders, backbones, kind):
    """A text alone, in a batch with longer ones, and padded to the whole context: one embedding."""
    backbone = backbones[kind]
    assert backbone._tight is TIGHT[kind]
    together = backbone.encode_texts(TEXTS)
    alone = np.concatenate([backbone.encode_texts([text]) for text in TEXTS])
    np.testing.assert_allclose(alone, together, atol=1e-5)
    widths = []
    embed = torch.nn.Embedding.forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch.nn.Embedding, "forward", lambda self, ids: widths.append(ids.shape[-1]) or embed(self, ids)
        )
        backbone.encode_tokens(backbone.tokenize(["A dog."]).ids)
    assert (max(widths) < CONTEXT) is TIGHT[kind]


def test_padding_short_would_change_siglip(backbones):
    """What the rule for non-causal towers guards against: the numbers do depend on the padding."""
    backbone = backbones["siglip"]
    ids = backbone.tokenize(["A dog."]).ids
    right = backbone.encode_tokens(ids)
    with torch.inference_mode():
        cut = backbone._model.encode_text(torch.tensor(ids), normalize=True).numpy()
    assert np.abs(right - cut).max() > 0.01


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(len(TEXTS))), size=st.integers(1, len(TEXTS)))
def test_order_and_batch_size_do_not_matter(backbones, order, size):
    backbone = backbones["xlmr"]
    texts = [TEXTS[i] for i in order]
    rows = np.concatenate([backbone.encode_texts(texts[i : i + size]) for i in range(0, len(texts), size)])
    np.testing.assert_allclose(rows, backbone.encode_texts(TEXTS)[list(order)], atol=1e-5)


def test_clip_tokens_are_the_published_ones(backbones):
    """49406 and 49407 are CLIP's start and end; 320 1929 269 is "a dog ." in its vocabulary."""
    tokens = backbones["clip"].tokenize(["A dog.", "dog " * 40])
    assert tokens.ids[0] == [49406, 320, 1929, 269, 49407]
    assert tokens.ids[1] == [49406] + [1929] * 22 + [49407]
    assert tokens.truncated.tolist() == [False, True]


def test_exactly_full_is_not_truncated(backbones):
    tokens = backbones["clip"].tokenize(["dog " * 22, "dog " * 23])
    assert list(map(len, tokens.ids)) == [24, 24]
    assert tokens.truncated.tolist() == [False, True]


def test_hub_tokens_are_cleaned_cut_and_keep_their_end(backbones):
    """Entities are resolved and white space is folded before the bytes are taken."""
    tokens = backbones["xlmr"].tokenize(["a &amp;  b", "x" * 22, "x" * 23, ""])
    plain = bytes_tokenizer()("a & b").input_ids
    assert tokens.ids[0] == plain
    assert len(plain) == 7 and plain[0] == 0 and plain[-1] == 2
    assert list(map(len, tokens.ids)) == [7, 24, 24, 2]
    assert [ids[-1] for ids in tokens.ids] == [2, 2, 2, 2]
    assert tokens.truncated.tolist() == [False, False, True, False]


def test_siglip_cleaning_drops_case_and_punctuation(backbones):
    tokens = backbones["siglip"].tokenize(["A dog, running!", "a dog running"])
    assert tokens.ids[0] == tokens.ids[1]


def test_separator_stripping(backbones):
    assert backbones["clipa"].tokenize(["ab"]).ids[0] == [*bytes_tokenizer()("ab").input_ids[:-1], 0]


def test_what_a_backbone_says_of_itself(folders):
    languages = frozenset(("de", "ja"))
    backbone = load_folder(folders["xlmr"], LoadOptions("xlm", "0123abc", "p ", languages))
    assert (backbone.name, backbone.revision, backbone.prefix) == ("xlm", "0123abc", "p ")
    assert backbone.languages == {"de", "ja"}
    assert (backbone.dtype, backbone.device, backbone.max_tokens) == ("float32", "cpu", CONTEXT)
    assert backbone.logit_scale == pytest.approx(12.182494, abs=1e-5)  # e^2.5
    assert backbone.encode_texts([]).shape == (0, 16)
    unnamed = load(folders["xlmr"])
    assert unnamed.name == "xlmr" and unnamed.languages is None and unnamed.prefix == ""
    assert len(unnamed.revision) == 9 and unnamed.revision[0] == "w"
    assert int(unnamed.revision[1:], 16) >= 0


def test_fingerprint_changes_with_whatever_changes_embeddings(folders, backbones, tmp_path):
    first = backbones["clip"].fingerprint
    assert load(folders["clip"]).fingerprint == first
    others = [write_open_clip(tmp_path / "seed", "clip", seed=4)]
    for name, change in {"mean": [0.1, 0.1, 0.1], "resize_mode": "squash"}.items():
        others.append(shutil.copytree(folders["clip"], tmp_path / name))
        path = others[-1] / "open_clip_config.json"
        config = json.loads(path.read_text())
        config["preprocess_cfg"][name] = change
        path.write_text(json.dumps(config))
    fingerprints = {load(folder).fingerprint for folder in others}
    fingerprints.add(load(folders["clip"], dtype="bfloat16").fingerprint)
    assert len(fingerprints | {first}) == 5


@pytest.mark.parametrize("dtype, tolerance", [("bfloat16", 0.05), ("float16", 0.01)])
@pytest.mark.parametrize("kind", ["clip", "xlmr", "siglip"])
def test_low_precision_is_close_and_comes_out_float32(folders, backbones, kind, dtype, tolerance):
    backbone = load(folders[kind], dtype=dtype)
    assert next(backbone._model.parameters()).dtype == getattr(torch, dtype)
    for low, full in (
        (backbone.encode_texts(TEXTS), backbones[kind].encode_texts(TEXTS)),
        (backbone.encode_images(pictures()), backbones[kind].encode_images(pictures())),
    ):
        assert low.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(low, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(low, full, atol=tolerance)
    assert backbone.revision == backbones[kind].revision, "the digest is of the weights before the cast"


def test_a_pickle_of_tensors_loads_and_is_the_same_model(folders, backbones, tmp_path):
    folder = write_open_clip(tmp_path / "bin", "clip", seed=3, weights="bin")
    backbone = load(folder)
    assert backbone.fingerprint == backbones["clip"].fingerprint


class Trap:
    def __reduce__(self):
        return os.mkdir, (str(Trap.target),)


def test_a_pickle_with_code_is_refused_and_not_run(folders, tmp_path):
    folder = tmp_path / "trap"
    folder.mkdir()
    shutil.copy(folders["clip"] / "open_clip_config.json", folder)
    Trap.target = tmp_path / "ran"
    torch.save({"state_dict": Trap()}, folder / "open_clip_pytorch_model.bin")
    with pytest.raises(BackboneUnavailable):
        load(folder)
    (folder / "open_clip_pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(BackboneUnavailable):
        load(folder)
    assert not Trap.target.exists()


def test_safetensors_are_taken_before_pickles(folders, tmp_path):
    folder = shutil.copytree(folders["clip"], tmp_path / "both")
    (folder / "open_clip_pytorch_model.bin").write_bytes(b"never opened")
    assert load(folder).dim == 16


def test_text_config_may_lie_in_a_subfolder(folders, backbones, tmp_path):
    folder = shutil.copytree(folders["xlmr"], tmp_path / "split")
    (folder / "config.json").unlink()
    write_xlmr_config(folder / "tiny-xlm-roberta")
    assert load(folder).fingerprint == backbones["xlmr"].fingerprint


def test_a_folder_without_the_text_config_says_so(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = shutil.copytree(folders["xlmr"], tmp_path / "cut")
    (folder / "config.json").unlink()
    with pytest.raises(BackboneUnavailable):
        load(folder)


def test_a_folder_without_the_tokenizer_says_so(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    folder = shutil.copytree(folders["xlmr"], tmp_path / "cut")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(BackboneUnavailable):
        load(folder)


def test_laions_layout_weights_and_tokenizer_json_alone(folders, backbones, tmp_path, monkeypatch):
    """Its XLM-R repositories have no config at all: the architecture is named, its text config is known."""
    folder = tmp_path / "laion"
    folder.mkdir()
    for name in ("open_clip_model.safetensors", "tokenizer.json"):
        shutil.copy(folders["xlmr"] / name, folder)
    config = json.loads((folders["xlmr"] / "open_clip_config.json").read_text())["model_cfg"]
    config["text_cfg"] |= {"hf_model_name": "tiny-roberta", "hf_tokenizer_name": "tiny-roberta"}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny-roberta-ViT", config)
    known = json.loads((folders["xlmr"] / "config.json").read_text())
    monkeypatch.setitem(text_towers._ENCODERS, "tiny-roberta", known)
    backbone = load_open_clip(f"tiny-roberta-ViT/{folder}", LoadOptions(""))
    assert backbone.name == "tiny-roberta-ViT/laion"
    assert backbone.tokenize(TEXTS).ids == backbones["xlmr"].tokenize(TEXTS).ids
    np.testing.assert_allclose(backbone.encode_texts(TEXTS), backbones["xlmr"].encode_texts(TEXTS), atol=1e-5)
    assert folder_kind(folder) == "open_clip"
    with pytest.raises(BackboneUnavailable):
        load(folder)


@pytest.mark.parametrize(
    "damage, message",
    [
        (
            lambda f: (f / "open_clip_model.safetensors").unlink(),
            r"no open_clip weights.*open_clip_config.json",
        ),
        (lambda f: _cut(f / "open_clip_model.safetensors"), r"open_clip_model.safetensors cannot be read"),
        (lambda f: (f / "open_clip_config.json").write_text("{"), r"config.json cannot be read"),
        (lambda f: (f / "open_clip_config.json").write_text("[]"), r"config.json should hold"),
        (lambda f: _edit(f, "embed_dim", 8), r"cannot be read.*size mismatch"),
        (
            lambda f: _edit(f, "vision_cfg", {"layers": 1, "depth": 3}),
            r"the open_clip configuration of .*depth",
        ),
    ],
)
def test_damaged_folders_are_named(folders, tmp_path, damage, message):
    folder = shutil.copytree(folders["clip"], tmp_path / "damaged")
    damage(folder)
    with pytest.raises(BackboneUnavailable):
        load(folder)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def _edit(folder, key, value):
    path = folder / "open_clip_config.json"
    config = json.loads(path.read_text())
    config["model_cfg"][key] = value
    path.write_text(json.dumps(config))


def test_misspelt_architectures_and_tags_list_what_there_is():
    with pytest.raises(CapscoreError):
        load_open_clip("ViT-B-33/openai", LoadOptions(""))
    with pytest.raises(CapscoreError):
        load_open_clip("ViT-B-32/opnai", LoadOptions(""))
    with pytest.raises(CapscoreError):
        load_open_clip("ViT-B-32/", LoadOptions(""))
    with pytest.raises(CapscoreError):
        load_open_clip("ViT-B-32/~nobody-at-all/x.pt", LoadOptions(""))


def test_it_brings_its_own_image_tower(folders):
    with pytest.raises(CapscoreError):
        load(folders["clip"], image_tower="ViT-B/32")


@pytest.mark.parametrize(
    "kind, settings, message",
    [
        ("clip", {"nonsense": 1}, r"nonsense"),
        ("clip", {"trust_remote_code": True}, r"tokenizer_kwargs may not set trust_remote_code"),
        ("xlmr", {"local_files_only": False, "token": "t"}, r"may not set local_files_only, token"),
        ("xlmr", {"language": "de"}, r"set_src_lang"),
    ],
)
def test_what_a_config_may_not_ask_of_its_tokenizer(folders, tmp_path, kind, settings, message):
    folder = shutil.copytree(folders[kind], tmp_path / "asks")
    text = json.loads((folder / "open_clip_config.json").read_text())["model_cfg"]["text_cfg"]
    _edit(folder, "text_cfg", {**text, "tokenizer_kwargs": settings})
    with pytest.raises(BackboneUnavailable):
        load(folder)


def test_a_model_in_hand_can_be_wrapped(folders, backbones):
    model, preprocess, tokenizer = reference(folders["clip"], "clip")
    backbone = OpenClipBackbone.from_model(model, tokenizer, preprocess, name="mine", device="cpu")
    assert (backbone.name, backbone.dim) == ("mine", 16)
    np.testing.assert_allclose(backbone.encode_texts(TEXTS), backbones["clip"].encode_texts(TEXTS), atol=1e-6)
    assert backbone.fingerprint == backbones["clip"].fingerprint
    bare = OpenClipBackbone.from_model(model, tokenizer, name="mine", device="cpu")
    np.testing.assert_array_equal(
        bare.preprocess(pictures()[0]).numpy(), backbone.preprocess(pictures()[0]).numpy()
    )
    with pytest.raises(CapscoreError):
        OpenClipBackbone.from_model(model, "ViT-B-32", name="mine")


def test_random_vit_b_32_as_benchmarks_wrap_it():
    """The real architecture, one text: tight padding gives what open_clip's 77 tokens give."""
    model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32", pretrained=None)
    tokenizer = open_clip.get_tokenizer("ViT-B-32")
    backbone = OpenClipBackbone.from_model(model, tokenizer, preprocess, name="random", device="cpu")
    assert (backbone.dim, backbone.max_tokens) == (512, 77)
    assert backbone.logit_scale == pytest.approx(14.285714, abs=1e-5)  # 1 / 0.07
    with torch.no_grad():
        wanted = model.encode_text(tokenizer(["a dog on the beach"]), normalize=True).numpy()
    np.testing.assert_allclose(backbone.encode_texts(["a dog on the beach"]), wanted, atol=1e-5)


def test_preprocessing_is_safe_in_threads(backbones):
    from concurrent.futures import ThreadPoolExecutor

    photos = pictures() * 8
    alone = [backbones["clip"].preprocess(photo) for photo in photos]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(backbones["clip"].preprocess, photos))
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
    assert alone[0].dtype == torch.float32
