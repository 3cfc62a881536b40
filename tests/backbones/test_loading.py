"""Whatever a person says of a backbone: loaded, or an error that says why and what else there is."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import types
from dataclasses import replace

import numpy as np
import pytest
from huggingface_hub import constants

import capscore.backbones as backbones
from capscore.backbones import Known, loading
from capscore.backbones.base import LoadOptions
from capscore.backbones.checkpoint import fetch, needed_files, offline_variable
from capscore.backbones.loading import is_downloaded, load_backbone
from capscore.errors import BackboneUnavailable, CapscoreError, MissingWeightsError
from capscore.metrics.loading import default_backbone
from capscore.registry import METRICS

from .loopback_hub import LoopbackHub
from .tiny_open_clip import MODELS, write_open_clip

TEXTS = ["A dog.", "Zwei Katzen spielen."]

WITH_BACKBONE = [name for name in METRICS.builtin if METRICS.get(name).takes_backbone]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    return {seed: write_open_clip(root / f"clip{seed}", "clip", seed=seed) for seed in (1, 2)}


@pytest.fixture
def online(monkeypatch, tmp_path):
    """The network allowed, with an empty cache, whatever variables the tests were started with."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def hub(online, monkeypatch):
    with LoopbackHub().running() as hub:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def dead_port(online, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    return url


@pytest.fixture
def loaded(tiny):
    return load_backbone(tiny[1], device="cpu")


def same(first, second) -> bool:
    return np.allclose(first.encode_texts(TEXTS), second.encode_texts(TEXTS), atol=1e-6)


# What is asked for


def test_a_backbone_passes_through(loaded):
    assert load_backbone(loaded) is loaded
    assert load_backbone(loaded, device="cpu", dtype="fp32", revision=loaded.revision) is loaded


@pytest.mark.parametrize(
    "argument, message",
    [
        ({"dtype": "bf16"}, r"dtype='bfloat16' was asked for, but .*'float32'"),
        ({"revision": "v9"}, r"revision='v9' was asked for, but .*'w"),
        ({"image_tower": "ViT-B/32"}, r"image_tower='ViT-B/32'.*already"),
    ],
)
def test_a_loaded_backbone_is_not_changed_behind_ones_back(loaded, argument, message):
    with pytest.raises(CapscoreError):
        load_backbone(loaded, **argument)


def test_a_loaded_backbone_stays_on_its_device(loaded, monkeypatch):
    monkeypatch.setattr(loaded, "device", "cuda:0")
    with pytest.raises(CapscoreError):
        load_backbone(loaded, device="cpu")


@pytest.mark.parametrize("spec", [None, 3, "", "  ", ["embedded"]])
def test_what_is_no_backbone_at_all(spec):
    with pytest.raises(CapscoreError):
        load_backbone(spec)


@pytest.mark.parametrize(
    ("name", "module", "loader"),
    [
        ("embedded", "embedded.backbone", "load_embedded"),
        ("embedded-free", "embedded.backbone", "load_free"),
    ],
)
def test_each_embedded_backbone_goes_to_its_own_loader(name, module, loader, monkeypatch):
    calls = []
    fake = types.ModuleType(module)
    setattr(fake, loader, lambda **options: calls.append(options) or "the embedded one")
    monkeypatch.setitem(sys.modules, f"capscore.backbones.{module}", fake)
    assert load_backbone(name, device="cpu", dtype="bf16") == "the embedded one"
    assert calls == [{"device": "cpu", "dtype": "bfloat16"}]
    with pytest.raises(CapscoreError):
        load_backbone(f"{name}@v1")


def test_a_local_folder_by_path_string_and_home(tiny, loaded, monkeypatch):
    assert same(load_backbone(str(tiny[1]), device="cpu"), loaded)
    monkeypatch.setenv("HOME", str(tiny[1].parent))
    assert same(load_backbone("~/clip1", device="cpu"), loaded)
    assert loaded.name == "clip1", "a signature tells no path of this machine"
    with pytest.raises(CapscoreError):
        load_backbone(tiny[1], revision="main")


def test_a_folder_may_have_an_at_sign(tiny, loaded, tmp_path):
    assert same(load_backbone(shutil.copytree(tiny[1], tmp_path / "my@model"), device="cpu"), loaded)


def test_open_clip_architecture_with_a_folder_or_file_of_weights(tiny, loaded, monkeypatch):
    import open_clip

    config = {"embed_dim": 16, "vision_cfg": dict(_vision()), **MODELS["clip"]}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", config)
    for weights in (tiny[1], tiny[1] / "open_clip_model.safetensors"):
        backbone = load_backbone(f"open_clip:tiny/{weights}", device="cpu")
        assert same(backbone, loaded)
        assert backbone.name == f"tiny/{weights.name}", "a signature tells no path of this machine"
    with pytest.raises(CapscoreError):
        load_backbone(f"open_clip:tiny/{tiny[1]}", revision="v1")
    with pytest.raises(CapscoreError):
        load_backbone("open_clip:tiny")


def _vision():
    from .tiny_open_clip import VISION

    return VISION


@pytest.mark.parametrize("kind", loading.LOADERS)
def test_each_kind_of_folder_goes_to_its_loader(kind, monkeypatch, tmp_path):
    calls = _fake_folders(monkeypatch, kind)
    assert load_backbone(tmp_path, device="cpu", image_tower="x/y") == "loaded"
    assert calls == [LoadOptions(tmp_path.name, image_tower="x/y")]


def _fake_folders(monkeypatch, kind="transformers"):
    """Every folder is of a kind whose loader only lists its options."""
    calls = []
    module, function = loading.LOADERS[kind]
    monkeypatch.setattr(loading, "folder_kind", lambda folder: kind)
    monkeypatch.setattr(
        f"capscore.backbones.{module}.{function}", lambda folder, options: calls.append(options) or "loaded"
    )
    return calls


def test_a_folder_of_no_known_kind(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(BackboneUnavailable):
        load_backbone(tmp_path)


@pytest.mark.parametrize("spec", ["./gone", "/gone/too", "~/gone", "a/b/c"])
def test_a_path_that_is_not_there_is_not_taken_for_a_hub_id(spec, dead_port):
    with pytest.raises(BackboneUnavailable):
        load_backbone(spec)


def test_a_file_is_not_a_folder(tiny):
    with pytest.raises(BackboneUnavailable):
        load_backbone(tiny[1] / "open_clip_model.safetensors")


# The Hub


def test_a_hub_id_is_downloaded_once_and_its_commit_is_known(hub, tiny, loaded):
    commit = hub.add("org/tiny", tiny[1])
    backbone = load_backbone("org/tiny", device="cpu")
    assert (backbone.name, backbone.revision) == ("org/tiny", commit)
    assert same(backbone, loaded)
    assert sorted(hub.served) == ["org/tiny/open_clip_config.json", "org/tiny/open_clip_model.safetensors"]
    assert load_backbone("hf-hub:org/tiny", device="cpu").revision == commit
    assert len(hub.served) == 2, "the second time came from the cache"


def test_revisions_are_told_apart(hub, tiny):
    first = hub.add("org/tiny", tiny[1])
    second = hub.add("org/tiny", tiny[2], tag="v2")
    by_tag = load_backbone("org/tiny@v2", device="cpu")
    assert by_tag.revision == second
    assert same(by_tag, load_backbone(tiny[2], device="cpu"))
    assert load_backbone("org/tiny", revision=first, device="cpu").revision == first
    assert load_backbone(f"hf-hub:org/tiny@{second}", device="cpu").fingerprint == by_tag.fingerprint
    with pytest.raises(CapscoreError):
        load_backbone("org/tiny@v2", revision="v1")


def test_a_wrong_revision_is_an_error_even_when_main_is_cached(hub, tiny):
    hub.add("org/tiny", tiny[1])
    load_backbone("org/tiny", device="cpu")
    with pytest.raises(BackboneUnavailable):
        load_backbone("org/tiny@v7", device="cpu")
    hub.broken = True
    with pytest.raises(BackboneUnavailable):
        load_backbone("org/tiny@v7", device="cpu")


def test_what_the_hub_does_not_have(hub):
    with pytest.raises(BackboneUnavailable) as error:
        load_backbone("org/none")
    assert "backbone='embedded-free'" in str(error.value)
    assert str(error.value).startswith("backbone 'org/none' is not available")


def test_a_gated_repository(hub, tiny):
    hub.add("org/gated", tiny[1])
    hub.gated.add("org/gated")
    with pytest.raises(BackboneUnavailable):
        load_backbone("org/gated")


def test_a_misspelt_name_is_told_apart(hub):
    with pytest.raises(BackboneUnavailable):
        load_backbone("sentence-transformers/clip-ViT-B-32-multilingual-v2")
    with pytest.raises(CapscoreError):
        load_backbone("xlm-roberta-base-ViT-B-32/laion5b_s13b_b90q")
    with pytest.raises(BackboneUnavailable):
        load_backbone("embeded")
    assert hub.served == []


def test_a_dead_hub_answers_in_seconds_and_says_so(dead_port):
    start = time.monotonic()
    with pytest.raises(BackboneUnavailable) as error:
        load_backbone("org/tiny")
    assert time.monotonic() - start < 5
    assert dead_port in str(error.value)


def test_a_default_that_cannot_be_had_does_not_change(dead_port):
    with pytest.raises(BackboneUnavailable):
        load_backbone(default_backbone("mcs"))


def test_a_broken_hub_with_a_cached_copy_uses_it_and_warns(hub, tiny):
    commit = hub.add("org/tiny", tiny[1])
    load_backbone("org/tiny", device="cpu")
    hub.broken = True
    with pytest.warns(UserWarning, match=f"503.*: using the cached copy of org/tiny at {commit}"):
        assert load_backbone("org/tiny", device="cpu").revision == commit


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_variables_are_honoured_and_named(hub, tiny, monkeypatch, variable):
    commit = hub.add("org/tiny", tiny[1])
    hub.add("org/other", tiny[2])
    load_backbone("org/tiny", device="cpu")
    before = len(hub.served)
    monkeypatch.setenv(variable, "1")
    assert offline_variable() == variable
    assert load_backbone("org/tiny", device="cpu").revision == commit
    assert load_backbone(f"org/tiny@{commit}", device="cpu").revision == commit
    with pytest.raises(BackboneUnavailable):
        load_backbone("org/other")
    with pytest.raises(BackboneUnavailable):
        load_backbone("org/tiny@v2")
    assert len(hub.served) == before


def test_a_fresh_process_reaches_the_endpoint_of_the_environment(hub, tiny, tmp_path):
    """HF_ENDPOINT and HF_HOME are read when huggingface_hub is imported: only a new process shows it."""
    commit = hub.add("org/tiny", tiny[1])
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_OFFLINE")}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1"}
    code = (
        "from capscore.backbones.loading import load_backbone;"
        "b = load_backbone('org/tiny', device='cpu'); print(b.name, b.revision, b.encode_texts(['x']).shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split("\n")[0] == f"org/tiny {commit} (1, 16)", done.stderr


def test_a_torn_download_is_named(hub, tiny, tmp_path):
    folder = shutil.copytree(tiny[1], tmp_path / "torn")
    weights = folder / "open_clip_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    hub.add("org/torn", folder)
    with pytest.raises(BackboneUnavailable):
        load_backbone("org/torn")


# The registry


@pytest.fixture
def known_pair(hub, tiny, monkeypatch):
    """A registry entry and an open_clip tag for the tiny model, with its repository on the loopback Hub."""
    import open_clip

    config = {"embed_dim": 16, "vision_cfg": dict(_vision()), **MODELS["clip"]}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", config)
    tag = {"hf_hub": "org/tiny/", "quick_gelu": True, "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.3)}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny", {"good": tag})
    pinned = hub.add("org/tiny", tiny[1], tag="pinned")
    hub.add("org/tiny", tiny[2])
    entry = Known(
        name="tiny/good",
        kind="open_clip",
        model="tiny",
        pretrained="good",
        revision=pinned,
        prefix="A photo depicts ",
        languages=("en",),
        aliases=("org/alias", "org/tiny"),
    )
    monkeypatch.setattr(loading, "find", lambda name: entry if name in (entry.name, *entry.aliases) else None)
    return entry


@pytest.mark.parametrize(
    "spec", ["tiny/good", "org/alias", "org/tiny", "open_clip:tiny/good", "hf-hub:org/tiny"]
)
def test_a_known_name_brings_what_the_registry_says(known_pair, spec):
    backbone = load_backbone(spec, device="cpu")
    assert (backbone.name, backbone.revision) == ("tiny/good", known_pair.revision)
    assert backbone.prefix == "A photo depicts " and backbone.languages == {"en"}
    assert backbone._model.transformer.resblocks[0].mlp.gelu.__class__.__name__ == "QuickGELU"


def test_another_revision_of_a_known_name(hub, known_pair, tiny):
    backbone = load_backbone("tiny/good@main", device="cpu")
    assert backbone.revision == hub.commit_of("org/tiny", "main") != known_pair.revision
    with pytest.raises(BackboneUnavailable):
        load_backbone("tiny/good", revision="v9")
    with pytest.raises(CapscoreError):
        load_backbone("tiny/good", image_tower="ViT-B/32")


def test_a_revision_of_an_alias_is_one_of_the_alias_own_repository(hub, known_pair, tiny):
    commit = hub.add("org/alias", tiny[2])
    backbone = load_backbone(f"org/alias@{commit}", device="cpu")
    assert (backbone.name, backbone.revision) == ("org/alias", commit)
    assert backbone.prefix == "A photo depicts "


def test_a_pair_that_only_open_clip_knows(known_pair, monkeypatch, hub):
    monkeypatch.setattr(loading, "find", lambda name: None)
    backbone = load_backbone("tiny/good", device="cpu")
    assert (backbone.name, backbone.prefix, backbone.languages) == ("tiny/good", "", None)
    assert backbone.revision == hub.commit_of("org/tiny", "main")


def test_a_tag_may_name_its_file(known_pair, hub, tiny, tmp_path):
    """The safetensors of that name come before the pickle, and nothing else of the repository comes along."""
    import open_clip

    folder = tmp_path / "named"
    folder.mkdir()
    shutil.copy(tiny[1] / "open_clip_model.safetensors", folder / "epoch_3.safetensors")
    for name in ("epoch_3.pt", "open_clip_model.safetensors"):
        (folder / name).write_bytes(b"never opened")
    hub.add("org/named", folder)
    open_clip.pretrained._PRETRAINED["tiny"]["named"] = {"hf_hub": "org/named/epoch_3.pt"}
    assert load_backbone("tiny/named", device="cpu").dim == 16
    assert hub.served == ["org/named/epoch_3.safetensors"]


def test_a_known_hub_id_passes_its_image_tower_on(hub, tiny, monkeypatch):
    commit = hub.add("org/text", tiny[1])
    entry = Known(
        name="org/text",
        kind="multilingual_clip",
        model="org/text",
        revision=commit,
        image_tower="ViT-B-32-quickgelu/openai",
        languages=("de", "en"),
    )
    monkeypatch.setattr(loading, "find", lambda name: entry if name == "org/text" else None)
    calls = _fake_folders(monkeypatch)
    load_backbone("org/text", device="cpu")
    load_backbone("org/text", device="cpu", image_tower="/a/folder")
    assert [call.image_tower for call in calls] == ["ViT-B-32-quickgelu/openai", "/a/folder"]
    assert calls[0].languages == {"de", "en"} and calls[0].revision == commit


def test_errors_of_a_backend_become_a_reason(monkeypatch, tmp_path):
    def fail(folder, options):
        raise OSError("no file named\n tokenizer.model")

    _fake_folders(monkeypatch)
    monkeypatch.setattr("capscore.backbones.transformers_clip.load_folder", fail)
    with pytest.raises(BackboneUnavailable):
        load_backbone(tmp_path)


# What is on this machine


def test_what_is_downloaded(known_pair, hub, tiny, monkeypatch):
    assert not is_downloaded(known_pair)
    load_backbone("org/tiny@main", device="cpu")
    assert not is_downloaded(known_pair), "another revision is not the pinned one"
    load_backbone("tiny/good", device="cpu")
    assert is_downloaded(known_pair)
    assert is_downloaded(replace(known_pair, revision="")), "main is there as well"
    before = list(hub.served)
    hub.broken = True
    assert is_downloaded(known_pair) and hub.served == before

    text = Known("org/text", "multilingual_clip", "org/tiny", image_tower="tiny/good")
    assert is_downloaded(text)
    assert not is_downloaded(replace(text, model="org/none"))
    assert not is_downloaded(replace(text, image_tower="org/none"))


def test_a_snapshot_without_its_weights_is_not_downloaded(known_pair, hub):
    fetch("org/tiny", known_pair.revision, lambda names: ["open_clip_config.json"])
    assert not is_downloaded(known_pair)


def test_embedded_is_here_with_all_its_packages(monkeypatch):
    known = backbones.find("embedded")
    present = {"torch", *loading._EMBEDDED_PACKAGES}
    monkeypatch.setattr(loading, "find_spec", lambda name: name if name in present else None)
    assert is_downloaded(known)
    for package in sorted(present):
        present.remove(package)
        assert not is_downloaded(known)
        present.add(package)


def test_an_embedded_backbone_with_weights_is_here_with_them(monkeypatch):
    known = replace(backbones.find("embedded"), weights="pr_mcs")
    assert is_downloaded(known)
    assert not is_downloaded(replace(known, weights="none"))


@pytest.mark.usefixtures("no_weights_installed")
def test_without_capscore_weights_embedded_is_an_error_that_names_what_does_without():
    with pytest.raises(
        MissingWeightsError,
    ) as error:
        load_backbone("embedded", device="cpu")
    assert "backbone='embedded-free' does without" in str(error.value)
    assert [is_downloaded(backbones.find(name)) for name in ("embedded", "embedded-free")] == [False, True]


def test_nothing_outside_the_cache_is_looked_at(online, tmp_path, monkeypatch):
    """Offline, "../.." would be a folder above the snapshots."""
    (tmp_path / "hub" / "models--org--tiny" / "snapshots" / "a").mkdir(parents=True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for revision in ("../..", "/etc", "a/../a"):
        with pytest.raises(BackboneUnavailable):
            fetch("org/tiny", revision, list)


# Defaults


def test_defaults_and_the_variable_that_overrides_them(monkeypatch):
    monkeypatch.delenv("CAPSCORE_BACKBONE", raising=False)
    assert default_backbone("mcs") == "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k"
    assert default_backbone("clip_score") == default_backbone("ref_clip_score") == "ViT-B-32-quickgelu/openai"
    assert all(backbones.find(default_backbone(metric)) for metric in WITH_BACKBONE)
    with pytest.raises(CapscoreError):
        default_backbone("bleu")
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    chosen = {metric: default_backbone(metric) for metric in (*WITH_BACKBONE, "bleu")}
    assert chosen.pop("pr_mcs") == "embedded-pr-mcs"
    assert set(chosen.values()) == {"embedded"}


# Which files


def test_of_two_copies_the_safe_one_and_of_many_runtimes_ours():
    files = [
        ".gitattributes",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "2_Dense/pytorch_model.bin",
        "README.md",
        "config.json",
        "flax_model.msgpack",
        "model.fp16.safetensors",
        "model.safetensors",
        "modeling_own.py",
        "modules.json",
        "onnx/config.json",
        "onnx/model.onnx",
        "openvino/openvino_model.bin",
        "pytorch_model.bin",
        "sentencepiece.bpe.model",
        "tf_model.h5",
        "training_args.bin",
        "vocab.txt",
    ]
    chosen = [
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "config.json",
        "model.safetensors",
        "modules.json",
        "sentencepiece.bpe.model",
        "vocab.txt",
    ]
    assert needed_files(files) == chosen


def test_pickles_only_where_nothing_else_is_and_shards_together():
    assert needed_files(["config.json", "pytorch_model.bin", "tf_model.h5"]) == [
        "config.json",
        "pytorch_model.bin",
    ]
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert needed_files([*shards, "model.safetensors.index.json"]) == [
        *shards,
        "model.safetensors.index.json",
    ]


def test_open_clip_repositories_give_one_copy_of_their_weights():
    files = ["model.safetensors", "open_clip_config.json", "open_clip_pytorch_model.bin", "pytorch_model.bin"]
    assert needed_files(files) == ["open_clip_config.json", "open_clip_pytorch_model.bin"]
    assert needed_files([*files, "open_clip_model.safetensors"])[1:] == ["open_clip_model.safetensors"]
    transformers = ["config.json", "model.safetensors", "open_clip_pytorch_model.bin"]
    assert needed_files(transformers) == ["config.json", "model.safetensors"]
    assert needed_files(["open_clip_pytorch_model.bin", "tokenizer.json"]) == [
        "open_clip_pytorch_model.bin",
        "tokenizer.json",
    ]


def test_file_names_are_not_patterns(hub, tmp_path):
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "a[1].json").write_text("{}")
    (folder / "a1.json").write_text("{}")
    hub.add("org/odd", folder)
    place, _ = fetch("org/odd", "", lambda names: ["a[1].json"])
    assert [path.name for path in place.iterdir()] == ["a[1].json"]
