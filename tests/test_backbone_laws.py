"""Laws of every kind of backbone: what its embeddings, its identity, its training and its files must be like.

A kind is tried with the tiny checkpoint that `tools.tiny.backbones` writes; its facts are in FACTS.
"""

import contextlib
import os
import pickle
import shutil
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from capscore import CapscoreError, InputError, load_backbone
from capscore.backbones import LOADERS, registry
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.tuned import WEIGHTS
from capscore.embedding.embedder import Embedder
from capscore.registry import BACKBONES
from tools.tiny import transformers_models as tiny
from tools.tiny.backbones import FOLDERS, KINDS, edit_json
from tools.tiny.colours import ColourBackbone
from training.engine.saved_towers import save_tuned

from .conftest import copy_of
from .laws import every

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

TEXTS = [*tiny.TEXTS, tiny.LONG]
CAPTIONS = [text for text in tiny.TEXTS if text]
PHOTOS = tiny.random_photos()


class Facts(NamedTuple):
    """What a backbone says of itself, worked out by hand from the writers' configs."""

    loader: str  # kind of its folder, or "" without a folder
    dim: int
    max_tokens: int
    end: int  # id of the last token of a text
    logit_scale: float
    setting: tuple = ()  # file, keys and another value of a setting that embeddings depend on
    prefix: str = ""
    languages: frozenset | None = None


E15, E25 = 4.4816890703, 12.1824939607
OPEN, CONFIG = "open_clip_config.json", "config.json"
HEADS, MEAN = ("model_cfg", "text_cfg", "heads"), ("preprocess_cfg", "mean")
LAYER_NORM, IMAGE_MEAN = ("vision_config", "layer_norm_eps"), ("image_mean",)
THIRDS = [0.3, 0.3, 0.3]
OF_STUDENT = ("A photo: ", frozenset(("de", "ja")))
USE = frozenset("ar de en es fr it ja ko nl pl pt ru th tr zh".split())
FACTS = {
    "open_clip clip": Facts("open_clip", 16, 24, 49407, E25, (OPEN, "model_cfg", "quick_gelu", True)),
    "open_clip clip_quickgelu": Facts("open_clip", 16, 24, 49407, E25, (OPEN, *HEADS, 1)),
    "open_clip custom_text": Facts("open_clip", 16, 24, 49407, E25, (OPEN, *MEAN, THIRDS)),
    "open_clip worldwide": Facts("open_clip", 16, 24, 2, E25, (OPEN, *HEADS, 1)),
    "open_clip siglip": Facts("open_clip", 16, 24, 2, E25, (OPEN, *HEADS, 1)),
    "open_clip clipa": Facts("open_clip", 16, 24, 0, E25, (OPEN, *HEADS, 1)),
    "open_clip coca": Facts("open_clip", 16, 24, 49407, E25, (OPEN, *HEADS, 1)),
    "open_clip xlmr": Facts("open_clip", 16, 24, 2, E25, (CONFIG, "layer_norm_eps", 0.1)),
    "open_clip nllb": Facts("open_clip", 16, 24, 2, E25, (CONFIG, "encoder_attention_heads", 1)),
    # the tokenizer's limit; the tower has 24 positions
    "clip": Facts("transformers", 16, 20, 519, E15, (CONFIG, "text_config", "hidden_act", "gelu")),
    "clip new end": Facts("transformers", 16, 20, 519, E15, (CONFIG, *LAYER_NORM, 0.1)),
    # the tower's; the tokenizer says 512
    "metaclip 2": Facts("transformers", 16, 21, 2, E15, ("preprocessor_config.json", *IMAGE_MEAN, THIRDS)),
    # 40 positions, of which the padding index 1 leaves 0 and 1 unused
    "altclip": Facts("transformers", 16, 38, 2, E15, (CONFIG, *LAYER_NORM, 0.1)),
    "chinese clip": Facts("transformers", 16, 26, 3, E15, (CONFIG, *LAYER_NORM, 0.1)),
    "siglip": Facts("transformers", 32, 16, 1, E15, (CONFIG, *LAYER_NORM, 0.1)),
    "siglip 2": Facts("transformers", 32, 16, 1, E15, ("preprocessor_config.json", "resample", 3)),
    "siglip 2 naflex": Facts("transformers", 32, 64, 1, E15, (CONFIG, *LAYER_NORM, 0.1)),
    "m-clip": Facts("multilingual_clip", 16, 38, 2, E15, ("encoder_config.json", "hidden_act", "relu")),
    "sentence-transformers": Facts("sentence_transformers", 16, 20, 3, E15, (CONFIG, "activation", "relu")),
    "student": Facts("student", 16, 38, 2, E15, (CONFIG, "layer_norm_eps", 0.1), *OF_STUDENT),
    "image tower": Facts("embedded", 512, 512, 2, 1.0, languages=USE),
    "tuned": Facts("tuned", 16, 20, 519, E15, prefix="A photo of ", languages=frozenset(("de",))),
    "noise gate": Facts("tuned", 512, 512, 2, 1.0, languages=USE),
    "embedded": Facts("", 512, 512, 2, 30.0, languages=USE),
    "embedded-free": Facts("", 512, 512, 2, 1.0, languages=USE),
    "embedded-pr-mcs": Facts("", 512, 512, 2, 30.0, languages=USE - {"th"}),
    "from outside": Facts("", 3, 6, 4, 1.0, languages=frozenset(("en", "de"))),
}
GATED = ("noise gate", "embedded-pr-mcs")
# the real weights, of the kinds of "image tower" and "noise gate"
SHIPPED = ("embedded", "embedded-pr-mcs")
TRAINABLE = [kind for kind in KINDS if kind not in (*SHIPPED, "from outside")]
# one of each loader; the others are damaged with --all, as each is loaded dozens of times
FIRST = [*{FACTS[kind].loader: kind for kind in reversed(FOLDERS)}.values()]
DAMAGED = [pytest.param(kind, marks=[] if kind in FIRST else [pytest.mark.slow]) for kind in FOLDERS]
WITH_SETTING = [kind for kind in FOLDERS if FACTS[kind].setting]


@pytest.fixture(scope="module", autouse=True)
def outside():
    BACKBONES.register("from outside")(lambda device, dtype: ColourBackbone())
    yield
    BACKBONES.unregister("from outside")


@pytest.fixture
def trained(backbones):
    return lambda kind: copy_of(backbones(kind))


def same_rows(first, second, texts=TEXTS):
    for encode, items in (("encode_texts", texts), ("encode_images", PHOTOS)):
        rows = (getattr(each, encode)(items) for each in (first, second))
        np.testing.assert_allclose(*rows, rtol=0, atol=1e-6)


def test_every_loader_has_a_tiny_checkpoint():
    assert {FACTS[kind].loader for kind in FOLDERS} == {*LOADERS}
    assert {entry.kind for entry in registry().values()} <= {*LOADERS}
    assert {*FACTS} == {*KINDS}


@every("backbone")
def test_rows_are_float32_of_unit_length_and_differ_and_none_are_an_empty_array(backbone, backbones):
    loaded = backbones(backbone)
    texts = CAPTIONS if backbone != "from outside" else ["red", "green", "blue red"]
    for rows, number in ((loaded.encode_texts(texts), len(texts)), (loaded.encode_images(PHOTOS), 5)):
        assert rows.shape == (number, loaded.dim) and rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
        others = np.abs(rows[:, None] - rows[None]).max(axis=-1) + np.eye(len(rows))
        assert others.min() > 2e-5, "a tower that tells nothing apart passes every other law"
    assert loaded.encode_texts([]).shape == loaded.encode_images([]).shape == (0, loaded.dim)
    assert loaded.tokenize([]).ids == [] and Embedder(loaded).texts([]).matrix.shape == (0, loaded.dim)
    assert loaded.encode_judged([])[1].shape == (0, loaded.verdict_width)


@every("backbone", without=SHIPPED)
def test_order_and_batch_size_do_not_move_a_row(backbone, backbones):
    loaded = backbones(backbone)
    for encode, items in ((loaded.encode_texts, TEXTS), (loaded.encode_images, PHOTOS)):
        whole = encode(items)
        order = np.random.default_rng(0).permutation(len(items))
        for size in (1, 3):
            parts = [order[start : start + size] for start in range(0, len(items), size)]
            rows = np.concatenate([encode([items[row] for row in part]) for part in parts])
            np.testing.assert_allclose(rows, whole[order], atol=1e-5)


@every("backbone", without=GATED)  # they read more of a text, sentence by sentence
def test_a_long_text_is_cut_to_the_context_and_keeps_its_end(backbone, backbones):
    loaded, facts = backbones(backbone), FACTS[backbone]
    before, after = loaded.special_tokens()
    assert after[-1:] == [facts.end] and loaded.max_tokens == facts.max_tokens
    texts = ["dog " * words for words in (range(1, 70) if facts.max_tokens < 99 else range(505, 515))]
    tokens = loaded.tokenize([*texts, tiny.LONG * 9])
    whole = [[token for token, *_ in spans] for spans in loaded.piece_spans([*texts, tiny.LONG * 9])]
    room = facts.max_tokens - len(before) - len(after)
    assert tokens.ids == [[*before, *pieces[:room], *after] for pieces in whole]
    assert tokens.truncated.tolist() == [len(pieces) > room for pieces in whole]
    assert 0 < tokens.truncated.sum() < len(texts)


@every("backbone")
def test_a_backbone_describes_itself(backbone, backbones, checkpoints):
    loaded, facts = backbones(backbone), FACTS[backbone]
    assert (loaded.dim, loaded.max_tokens) == (facts.dim, facts.max_tokens)
    assert loaded.logit_scale == pytest.approx(facts.logit_scale, abs=1e-5)
    assert (loaded.prefix, loaded.languages) == (facts.prefix, facts.languages)
    assert (loaded.device, loaded.dtype) == ("cpu", "float32")
    assert all(len(part) == 9 and part[0] == "w" for part in loaded.revision.split("+"))
    if facts.loader:
        assert loaded.name == ("model+images" if backbone in ("m-clip", "sentence-transformers") else "model")
        assert folder_kind(checkpoints(backbone).spec_path) == facts.loader


@every("backbone")
def test_pictures_of_every_mode_and_shape_have_an_embedding(backbone, backbones):
    odd = [Image.new(mode, (5, 7)) for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "I;16")]
    odd += [Image.new("RGB", size, "green") for size in ((1, 1), (1, 900), (900, 1))]
    rows = Embedder(backbones(backbone), batch_size=4).images(odd)
    assert not rows.failures and len(rows.index) == 10
    np.testing.assert_allclose(np.linalg.norm(rows.matrix, axis=1), 1, atol=1e-5)


@every("backbone", without=["from outside", *SHIPPED])
def test_images_go_through_exact_convolutions(backbone, backbones, monkeypatch):
    seen, convolve = [], nn.Conv2d.forward
    monkeypatch.setattr(torch.backends.cudnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)

    def watched(self, x):
        seen.append(torch.backends.cudnn.allow_tf32)
        return convolve(self, x)

    monkeypatch.setattr(nn.Conv2d, "forward", watched)
    backbones(backbone).encode_images(PHOTOS[:1])
    assert not any(seen) and (seen or backbone == "siglip 2 naflex")


PRECISIONS = [*((kind, "bfloat16") for kind in TRAINABLE), ("siglip", "float16")]


@pytest.mark.parametrize(("backbone", "dtype"), PRECISIONS)
def test_low_precision_is_near_and_another_backbone(backbone, dtype, backbones, checkpoints):
    low, full = checkpoints(backbone).load(dtype=dtype), backbones(backbone)
    assert (low.dtype, low.revision) == (dtype, full.revision) and low.fingerprint != full.fingerprint
    for encode, items in (("encode_texts", CAPTIONS), ("encode_images", PHOTOS)):
        rows, expected = (getattr(each, encode)(items) for each in (low, full))
        assert rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-2)
        assert (rows * expected).sum(axis=1).min() > (0.98 if dtype == "bfloat16" else 0.999)


# neither sentencepiece nor the lock of the toy is pickled
@every("backbone", without=["image tower", *GATED, *SHIPPED, "embedded-free", "from outside"])
def test_a_pickled_backbone_is_the_same(backbone, backbones):
    embedder = Embedder(backbones(backbone), batch_size=3)
    again = pickle.loads(pickle.dumps(embedder))
    assert (again.fingerprint, again.image_batch) == (embedder.fingerprint, 3)
    rows = embedder.backbone.encode_texts(CAPTIONS)
    np.testing.assert_allclose(again.texts(CAPTIONS).matrix, rows, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_copy_is_the_same_and_another_weight_another(kind, backbones, checkpoints, tmp_path, monkeypatch):
    loaded, folder = backbones(kind), checkpoints(kind).copied(tmp_path)
    # another version of torch prints its layers otherwise
    monkeypatch.setattr(torch.nn.Module, "__repr__", lambda module: str(id(module)))
    same = checkpoints(kind).load(folder)
    assert (same.name, same.fingerprint, same.revision) == (loaded.name, loaded.fingerprint, loaded.revision)
    if kind in ("image tower", "tuned", "noise gate"):
        return  # their weights are signed; they change below, by training
    changed(weights_of(folder)[0], lambda state: next(iter(state.values())).view(-1)[:1].add_(0.5))
    other = checkpoints(kind).load(folder)
    assert other.fingerprint != loaded.fingerprint and other.revision != loaded.revision


@pytest.mark.parametrize("kind", WITH_SETTING)
def test_the_same_weights_used_otherwise_are_another_backbone(kind, backbones, checkpoints, tmp_path):
    file, *keys, value = FACTS[kind].setting
    folder = checkpoints(kind).copied(tmp_path)
    edit_json(folder / file, *keys, value=value)
    loaded, other = backbones(kind), checkpoints(kind).load(folder)
    assert other.fingerprint != loaded.fingerprint and other.revision != loaded.revision
    rows = [(each.encode_texts(CAPTIONS), each.encode_images(PHOTOS)) for each in (loaded, other)]
    assert max(np.abs(a - b).max() for a, b in zip(*rows, strict=True)) > 1e-4


@pytest.mark.parametrize("kind", FIRST)
def test_a_folder_on_the_hub_is_pinned_to_its_commit(kind, backbones, checkpoints, hub):
    checkpoint, loaded = checkpoints(kind), backbones(kind)
    commit = hub.add("org/tiny", checkpoint.spec_path)
    backbone = load_backbone("org/tiny", device="cpu", image_tower=checkpoint.image_tower)
    assert backbone.name == loaded.name.replace("model", "org/tiny")
    assert backbone.revision.partition("+")[0] == commit
    same_rows(backbone, loaded)
    served = len(hub.served)
    load_backbone(f"org/tiny@{commit}", device="cpu", image_tower=checkpoint.image_tower)
    assert served and len(hub.served) == served, "the second time it comes from the cache"


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_tower_does_not_go_with_a_backbone_that_has_one(kind, checkpoints):
    lends = kind in ("m-clip", "sentence-transformers", "student")
    with pytest.raises(CapscoreError, match="512 per image" if lends else "image_tower"):
        checkpoints(kind).load(image_tower="embedded-free")


def step(backbone, rate=0.05):
    """One step of gradient descent that drives the captions' embeddings apart."""
    network = backbone.text_network().requires_grad_(True)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    rows = backbone.embed_tokens(backbone.tokenize(CAPTIONS).ids)
    (rows @ rows.T).pow(2).mean().backward()
    optimizer.step()


@pytest.mark.parametrize("kind", TRAINABLE)
def test_gradients_reach_the_text_tower_and_nothing_else(kind, trained):
    backbone = trained(kind)
    ids = backbone.tokenize(CAPTIONS).ids
    # what inference leaves behind must not be in the way
    plain, _ = backbone.encode_tokens(ids), backbone.encode_images(PHOTOS[:1])
    network = backbone.text_network().requires_grad_(True)
    inner = {id(parameter) for parameter in network.parameters()}
    parts = *vars(backbone).values(), *vars(getattr(backbone, "_image", None) or object).values()
    modules = [part for part in parts if isinstance(part, nn.Module)]
    others = [p for module in modules for p in module.parameters() if id(p) not in inner]
    for training in (False, True):
        rows = backbone.embed_tokens(ids)
        assert rows.dtype == torch.float32 and not torch.is_inference(rows)
        if not training:  # torch takes another way through attention where gradients are wanted
            np.testing.assert_allclose(rows.detach().numpy(), plain, atol=2e-6)
        network.zero_grad()
        (rows[0] @ rows[1]).backward()
        grads = {name: parameter.grad for name, parameter in network.named_parameters()}
        silent = [name for name, grad in grads.items() if grad is None]
        assert training or all(name.startswith("gate.touched") for name in silent)  # LayerDrop
        assert sum(grad.abs().max() > 0 for grad in grads.values() if grad is not None) > 0.3 * len(grads)
        assert others and all(parameter.grad is None for parameter in others)
        network.train()


@pytest.mark.parametrize("kind", TRAINABLE)
def test_a_trained_tower_is_remade_saved_and_loaded(kind, trained, backbones, checkpoints, tmp_path):
    backbone, base = trained(kind), backbones(kind)
    unmoved = backbone.remade(languages=["ja", "de-CH"])
    assert (unmoved.fingerprint, unmoved.revision) == (base.fingerprint, base.remade().revision)
    assert unmoved.languages == {"ja", "de"}
    step(backbone)
    assert backbone.fingerprint == base.fingerprint, "until it is remade"
    again = backbone.remade(name="moved")
    assert (again.name, again.dim, again.prefix) == ("moved", base.dim, base.prefix)
    assert again.fingerprint != base.fingerprint and again.revision != base.revision
    assert backbone.remade(revision="0" * 40).revision.startswith("0" * 40)
    with pytest.raises(InputError):
        backbone.remade(languages=["nothing"])
    if kind.startswith("open_clip"):  # of which the same weights may have another context length
        shorter = base.remade()
        shorter.max_tokens -= 1
        assert shorter.remade().fingerprint != base.fingerprint
    rows, images = again.encode_texts(CAPTIONS), base.encode_images(PHOTOS)
    assert np.abs(rows - base.encode_texts(CAPTIONS)).max() > 1e-3
    np.testing.assert_allclose(again.encode_images(PHOTOS), images, rtol=0, atol=1e-6)

    spec = {"base": base, "base_spec": checkpoints(kind).spec, "recipe": "one step"}
    save_tuned(backbone, tmp_path / "out", **spec, languages=["de"])
    back = load_backbone(tmp_path / "out", device="cpu")
    same_rows(back, again)
    assert (back.name, back.languages, back.recipe) == ("out", {"de"}, "one step")
    settings = ("prefix", "dim", "logit_scale", "w")
    assert [getattr(back, name) for name in settings] == [getattr(base, name) for name in settings]
    assert back.fingerprint == again.fingerprint and back.revision not in (base.revision, again.revision)

    save_tuned(backbone, tmp_path / "half", **spec, dtype="float16")
    half = load_backbone(tmp_path / "half", device="cpu")
    assert half.languages == base.languages and half.dtype == "float32"
    np.testing.assert_allclose(half.encode_texts(CAPTIONS), rows, atol=3e-3)
    stored = load_file(tmp_path / "half" / WEIGHTS).values()
    assert {tensor.dtype for tensor in stored if tensor.is_floating_point()} == {torch.float16}


def weights_of(folder):
    return [path for path in sorted(folder.rglob("*")) if path.suffix in (".safetensors", ".bin")]


def changed(path, change):
    pickled = path.suffix == ".bin"
    state = torch.load(path, weights_only=True) if pickled else load_file(path)
    change(state)
    state = {name: tensor.contiguous() for name, tensor in state.items()}
    (torch.save if pickled else save_file)(state, path)


def refused(checkpoint, folder):
    with pytest.raises(CapscoreError, match=r"^backbone ") as caught:
        checkpoint.load(folder)
    assert len(str(caught.value).splitlines()[0]) < 1000


class Trap(str):
    """A pickle of it makes a folder of this name when it is opened without care."""

    def __reduce__(self):
        return os.mkdir, (str(self),)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
DEEP = b"[" * 100_000
DAMAGES = (
    lambda path: path.write_bytes(path.read_bytes()[:-100]),
    lambda path: path.write_bytes(path.read_bytes()[:20]),
    lambda path: path.write_bytes((2**63 - 1).to_bytes(8, "little") + b"{}"),
    lambda path: path.write_bytes(len(DEEP).to_bytes(8, "little") + DEEP),
    # weights that do not fit are never replaced by random ones
    lambda path: changed(path, lambda state: state.pop(max(state, key=lambda name: state[name].numel()))),
    lambda path: changed(path, lambda state: state.update(stray=torch.zeros(2))),
    lambda path: changed(path, lambda state: state.update({max(state): torch.zeros(3, 2, 1)})),
)


@pytest.mark.parametrize("kind", DAMAGED)
def test_weights_that_are_damaged_or_do_not_fit_are_refused(kind, checkpoints, tmp_path):
    folder = checkpoints(kind).copied(tmp_path)
    path = weights_of(folder)[0]
    whole = path.read_bytes()
    for damage in DAMAGES:
        damage(path)
        refused(checkpoints(kind), folder)
        path.write_bytes(whole)
    changed(path, lambda state: [t.fill_(torch.nan) for t in state.values() if t.is_floating_point()])
    with pytest.raises(CapscoreError):
        Embedder(checkpoints(kind).load(folder)).texts(["dog"])


@pytest.mark.parametrize("kind", DAMAGED)
def test_pickles_with_code_and_shards_outside_are_never_opened(kind, checkpoints, tmp_path):
    folder = checkpoints(kind).copied(tmp_path)
    shutil.copy(weights_of(folder)[0], tmp_path / "secret.safetensors")
    for path in weights_of(folder):
        path.unlink()
    name = "open_clip_pytorch_model.bin" if FACTS[kind].loader == "open_clip" else "pytorch_model.bin"
    torch.save({"state_dict": Trap(tmp_path / "ran")}, folder / name)
    refused(checkpoints(kind), folder)
    (folder / name).write_bytes(pickle.dumps(Trap(tmp_path / "ran")))
    refused(checkpoints(kind), folder)
    assert not (tmp_path / "ran").exists()
    (folder / name).unlink()
    names = ("../secret.safetensors", "x/../../secret.safetensors", "a\0b", ".", "gone", 3)
    for weight_map in (*({"a": name} for name in names), ["a"], None, {}):
        for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
            tiny.write_json(folder / index, {"weight_map": weight_map})
            refused(checkpoints(kind), folder)
            (folder / index).unlink()


@pytest.mark.parametrize("kind", DAMAGED)
def test_code_beside_the_weights_never_runs(kind, checkpoints, backbones, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a library must not ask"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = checkpoints(kind).copied(tmp_path)
    (folder / "foreign.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    classes = ("AutoConfig", "AutoModel", "AutoTokenizer", "AutoImageProcessor")
    auto = dict.fromkeys(classes, "foreign.Foreign")
    types = {"config.json": "model_type", "tokenizer_config.json": "tokenizer_class"}
    there = [name for name in (*types, "preprocessor_config.json") if (folder / name).is_file()]
    for name in there:
        edit_json(folder / name, "auto_map", value=auto)
    same_rows(checkpoints(kind).load(folder), backbones(kind))
    for name in there:
        content = (folder / name).read_bytes()
        edit_json(folder / name, types.get(name, "image_processor_type"), value="foreign")
        with contextlib.suppress(CapscoreError):
            checkpoints(kind).load(folder)
        (folder / name).write_bytes(content)
    assert not (tmp_path / "ran").exists()


# kind of folder, file, what in it, and another value, which the rest of the folder does not bear out
POOLING, DENSE = "1_Pooling/config.json", "2_Dense/config.json"
STUDENT, TUNED, NETWORK = "capscore_student.json", "capscore_tuned.json", ("config.json", "network")
TEXT_CFG = ("model_cfg", "text_cfg")
CONTRADICTIONS = [
    ("open_clip clip", OPEN, "model_cfg", "embed_dim", 8),
    ("open_clip clip", OPEN, "model_cfg", "vision_cfg", {"layers": 1, "depth": 3}),
    ("open_clip clip", OPEN, *TEXT_CFG, "tokenizer_kwargs", {"nonsense": 1}),
    ("open_clip xlmr", OPEN, *TEXT_CFG, "tokenizer_kwargs", {"trust_remote_code": True}),
    ("open_clip xlmr", OPEN, *TEXT_CFG, "tokenizer_mode", "clips"),
    ("open_clip xlmr", OPEN, *TEXT_CFG, "hf_model_name", "../outside"),
    ("open_clip xlmr", OPEN, *TEXT_CFG, "hf_tokenizer_name", "/etc"),
    ("clip", "config.json", "text_config", "eos_token_id", 7),
    ("metaclip 2", "config.json", "text_config", "eos_token_id", 3),
    ("m-clip", "config.json", "numDims", 7),
    ("m-clip", "config.json", "transformerDimensions", 7),
    ("m-clip", "encoder_config.json", "model_type", "no-such-type"),
    ("sentence-transformers", "modules.json", 1, "type", "foreign.Pooling"),
    ("sentence-transformers", "modules.json", 0, "type", "sentence_transformers.models.CLIPModel"),
    ("sentence-transformers", "modules.json", 2, "path", "../outside"),
    ("sentence-transformers", "modules.json", 2, "path", "..\\outside"),
    ("sentence-transformers", POOLING, "pooling_mode_cls_token", True),
    ("sentence-transformers", POOLING, "pooling_mode", "max"),
    ("sentence-transformers", DENSE, "activation_function", "torch.nn.Tanh"),
    ("sentence-transformers", "sentence_bert_config.json", "do_lower_case", True),
    *(("student", STUDENT, "dim", dim) for dim in ("16", 8)),
    *(("student", STUDENT, "languages", codes) for codes in (["de", "klingonese"], ["de", 3], "de")),
    ("student", STUDENT, "format", 2),
    ("student", STUDENT, "max_tokens", True),
    ("image tower", "config.json", "format", 2),
    ("image tower", "config.json", "text_encoder", {"name": "other", "version": "4"}),
    ("image tower", *NETWORK, "features", 32),
    ("image tower", *NETWORK, "dim", 256),
    ("image tower", *NETWORK, "depth", 3),
    ("image tower", *NETWORK, "heads", "2"),
    *(("image tower", "config.json", "w", w) for w in (None, -1.0)),
    ("image tower", "config.json", "languages", ["qqqq"]),
    ("tuned", TUNED, "format", 2),
    *(("tuned", TUNED, "base", base) for base in (3, "org/nobody-has-this", "/gone/away")),
    *(("tuned", TUNED, "parts", parts) for parts in ([], {"gate": {}})),
    ("tuned", TUNED, "languages", ["nothing"]),
    ("tuned", TUNED, "weights", "0"),
]


@pytest.mark.parametrize("contradiction", CONTRADICTIONS, ids=str)
def test_settings_that_contradict_the_rest_of_a_folder_are_refused(contradiction, checkpoints, tmp_path):
    kind, file, *keys, value = contradiction
    folder = checkpoints(kind).copied(tmp_path)
    edit_json(folder / file, *keys, value=value)
    with pytest.raises(CapscoreError):
        checkpoints(kind).load(folder)


JSON = {"deep": DEEP, "list": b"[]", "cut": b'{"a": 1, "a"'}
NUMBERS = {"digits": b'{"hidden_size": ' + b"1" * 5_000 + b"}", "not UTF-8": b"\xff\xfe{}"}
# a folder is whole without them, or they may hold any JSON
OPTIONAL = ("special_tokens_map.json", "generation_config.json", "sentence_bert_config.json")


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_or_missing_settings_are_refused_or_not_needed(kind, checkpoints, backbones, tmp_path):
    made, folder = checkpoints(kind), checkpoints(kind).copied(tmp_path)
    for path in [path for path in sorted(folder.rglob("*")) if path.is_file()]:
        whole, is_read = path.read_bytes(), path.suffix == ".json" and path.name not in OPTIONAL
        damages = JSON | (NUMBERS if path.name == "config.json" else {})
        for name, content in damages.items() if is_read else ():
            if (path.name, name) != ("modules.json", "list"):
                path.write_bytes(content)
                refused(made, folder)
        path.write_bytes(POINTER)
        with pytest.raises(CapscoreError, match="git lfs pull"):
            made.load(folder)
        path.unlink()
        try:
            backbone = made.load(folder)
        except CapscoreError:
            assert path.name not in OPTIONAL
        else:
            if path.name == "tokenizer_config.json":  # without its say, the library has another one
                assert backbone.revision != backbones(kind).revision
            else:
                same_rows(backbone, backbones(kind), CAPTIONS[:3])
        path.write_bytes(whole)
