"""Whatever a person says of a backbone: loaded, or an error that says why and what else there is."""

import shutil
import socket
import time
from unittest import mock

import numpy as np
import pytest
from huggingface_hub import constants

import capscore
from capscore import backbones as loading
from capscore.backbones import Known, check_spec, find, load_backbone
from capscore.backbones.checkpoint import fetch_model, needed_files, offline_variable
from capscore.errors import BackboneUnavailable, CapscoreError, MissingWeightsError
from capscore.judges.model import known_models
from capscore.metrics.loading import default_backbone
from capscore.registry import METRICS
from tools.tiny.open_clip_models import MODELS, VISION, write_open_clip

TEXTS = ["A dog.", "Zwei Katzen spielen."]
ARCHITECTURE = {"embed_dim": 16, "vision_cfg": VISION, **MODELS["clip"]}
WITH_BACKBONE = [name for name in METRICS.builtin if METRICS.get(name).takes_backbone and name != "judge"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    return {seed: write_open_clip(root / f"clip{seed}", "clip", seed=seed) for seed in (1, 2)}


@pytest.fixture(scope="session")
def loaded(tiny):
    return load_backbone(tiny[1], device="cpu")


def same(first, second):
    return np.allclose(first.encode_texts(TEXTS), second.encode_texts(TEXTS), atol=1e-6)


def test_a_loaded_backbone_passes_through_and_nothing_goes_with_it(loaded):
    assert load_backbone(loaded) is loaded
    for option in ("device", "dtype", "revision", "image_tower"):
        with pytest.raises(CapscoreError, match=f"{option}='x' does not go with the backbone 'clip1'"):
            load_backbone(loaded, **{option: "x"})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (None, "backbone=None"),
        ("  ", "backbone='  '"),
        ("embedded@v1", "revision='v1'"),
        ("org/name@../..", "expected a commit"),
        ("org/name@/etc", "expected a commit"),
        ("~nobody-at-all/model", "no folder"),
        ("runs/bset", "no folder"),
        ("embeded", "not a known name"),
        ("open_clip:tiny", "open_clip:MODEL/TAG"),
        ("xlm-roberta-base-ViT-B-32/laion5b_s13b_b90q", "its tags: laion5b_s13b_b90k"),
        ("org/tiny@", "name@revision"),
    ],
)
def test_unloadable_backbones_are_refused_with_the_reason(spec, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(CapscoreError, match=said):
        load_backbone(spec, device="cpu")


def test_a_spec_that_names_nothing_is_refused_before_anything_is_loaded():
    for spec in ("./gone", "embeded", "open_clip:tiny", "ViT-B-32/opnai"):
        with pytest.raises(CapscoreError, match="backbone="):
            check_spec(spec)
    for spec in ("embedded", "org/anything", "ViT-B-32/openai", "open_clip:ViT-B-32/."):
        check_spec(spec)


def test_a_local_folder_by_path_string_and_home(tiny, loaded, monkeypatch, tmp_path):
    assert same(load_backbone(str(tiny[1]), device="cpu"), loaded)
    assert same(load_backbone(shutil.copytree(tiny[1], tmp_path / "my@model"), device="cpu"), loaded)
    monkeypatch.setenv("HOME", str(tiny[1].parent))
    assert same(load_backbone("~/clip1", device="cpu"), loaded)
    assert loaded.name == "clip1", "a signature tells no path of this machine"
    with pytest.raises(CapscoreError, match="revision='main'"):
        load_backbone(tiny[1], revision="main")


def test_an_architecture_with_a_folder_or_file_of_weights(tiny, loaded, monkeypatch, tmp_path):
    """Its revision is of both, and other files beside the weights do not count."""
    import open_clip

    for name, quick in (("plain", False), ("quick", True)):
        monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, name, ARCHITECTURE | {"quick_gelu": quick})
    folder = shutil.copytree(tiny[1], tmp_path / "m")
    (folder / "notes.txt").write_text("mine")
    paths = (tiny[1], tiny[1] / "open_clip_model.safetensors", folder)
    found = [load_backbone(f"open_clip:plain/{weights}", device="cpu") for weights in paths]
    assert [backbone.name for backbone in found] == [f"plain/{weights.name}" for weights in paths]
    assert all(same(backbone, loaded) for backbone in found)
    quick = load_backbone(f"open_clip:quick/{folder}", device="cpu")
    assert len({backbone.revision for backbone in found} | {quick.revision}) == 2
    assert quick.fingerprint != found[0].fingerprint
    with pytest.raises(CapscoreError, match="revision='v1'"):
        load_backbone(f"open_clip:plain/{folder}", revision="v1")


def test_errors_of_a_loader_become_reasons_and_an_unknown_folder_lists_its_files(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BackboneUnavailable, match=r"no model of a known kind .*notes\.txt"):
        load_backbone(tmp_path)
    failing = mock.Mock(side_effect=OSError("no file named\n tokenizer.model"))
    monkeypatch.setattr(loading, "folder_kind", lambda folder: "transformers")
    monkeypatch.setattr("capscore.backbones.transformers_clip.load_folder", failing)
    with pytest.raises(BackboneUnavailable, match=r"no file named tokenizer\.model"):
        load_backbone(tmp_path)


def test_revisions_are_distinguished(hub, tiny):
    first = hub.add("org/tiny", tiny[1])
    second = hub.add("org/tiny", tiny[2], tag="v2")
    assert load_backbone("hf-hub:org/tiny", device="cpu").revision == first
    assert sorted(hub.served) == ["org/tiny/open_clip_config.json", "org/tiny/open_clip_model.safetensors"]
    by_tag = load_backbone("org/tiny@v2", device="cpu")
    assert by_tag.revision == second and same(by_tag, load_backbone(tiny[2], device="cpu"))
    assert load_backbone("org/tiny", revision=first, device="cpu").revision == first
    with pytest.raises(CapscoreError, match="no other revision"):
        load_backbone("org/tiny@v2", revision="v1")


def test_the_logger_says_what_is_fetched_loaded_and_known(hub, tiny, tmp_path, caplog):
    commit = hub.add("org/tiny", tiny[1])
    caplog.set_level("INFO", "capscore")
    images = [np.full((4, 4, 3), value, np.uint8) for value in (50, 90)]
    for _ in range(2):
        scorer = capscore.load("mcs", backbone="org/tiny", device="cpu", cache=tmp_path)
        scorer.score(["a dog", "a dog"], images)
    parts = [commit, commit, "0 of 2", "0 of 1", commit, commit, "2 of 2", "1 of 1"]
    for part, record in zip(parts, caplog.records, strict=True):
        assert part in record.getMessage()


def test_missing_or_refused_files_of_the_hub_are_named(hub, tiny):
    commit = hub.add("org/tiny", tiny[1])
    hub.add("org/gated", tiny[1])
    hub.gated.add("org/gated")
    load_backbone("org/tiny", device="cpu")
    reasons = {"org/none": r"^backbone 'org/none' is not available.*Instead: backbone='embedded',"}
    reasons |= {"org/gated": "is gated", "org/tiny@v7": "not on the Hub at revision 'v7'"}
    for spec, reason in reasons.items():
        with pytest.raises(BackboneUnavailable, match=reason):
            load_backbone(spec)
    hub.broken = True
    with pytest.raises(BackboneUnavailable, match="503"):
        load_backbone("org/tiny@v7")
    with pytest.warns(UserWarning, match=f"503.*: using the cached copy of org/tiny at {commit}"):
        assert load_backbone("org/tiny", device="cpu").revision == commit


def test_a_dead_hub_is_asked_no_more_and_a_default_does_not_change(online, monkeypatch):
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    with socket.socket() as deaf:  # it holds its port, and listens to nobody
        deaf.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        for spec in ("org/tiny", default_backbone("mcs")):
            with pytest.raises(BackboneUnavailable, match=url):
                load_backbone(spec)
    assert sum(waited) < 10


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_variables_are_honoured_and_named(hub, tiny, monkeypatch, variable):
    commit = hub.add("org/tiny", tiny[1])
    hub.add("org/other", tiny[2])
    load_backbone("org/tiny", device="cpu")
    before = len(hub.served)
    monkeypatch.setenv(variable, "1")
    assert offline_variable() == variable
    assert load_backbone(f"org/tiny@{commit}", device="cpu").revision == commit
    for spec in ("org/other", "org/tiny@v2"):
        with pytest.raises(BackboneUnavailable, match=variable):
            load_backbone(spec)
    for revision in ("../..", "/etc", "a/../a"):  # "../.." would be a folder above the snapshots
        with pytest.raises(BackboneUnavailable, match="expected a commit"):
            fetch_model("org/tiny", revision, list)
    assert len(hub.served) == before


@pytest.fixture
def known_pair(hub, tiny, monkeypatch):
    """A registry entry and an open_clip tag for the tiny model, with its repository on the loopback Hub."""
    import open_clip

    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", ARCHITECTURE)
    tag = {"hf_hub": "org/tiny/", "quick_gelu": True, "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.3)}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny", {"good": tag})
    pinned = hub.add("org/tiny", tiny[1], tag="pinned")
    hub.add("org/tiny", tiny[2])
    about = {"model": "tiny", "pretrained": "good", "revision": pinned, "aliases": ("org/alias", "org/tiny")}
    entry = Known("tiny/good", "open_clip", prefix="A photo depicts ", languages=("en",), **about)
    monkeypatch.setattr(loading, "find", lambda name: entry if name in (entry.name, *entry.aliases) else None)
    return entry


@pytest.mark.parametrize("spec", ["tiny/good", "org/alias", "open_clip:tiny/good", "hf-hub:org/tiny"])
def test_a_known_name_brings_what_the_registry_says(known_pair, spec):
    backbone = load_backbone(spec, device="cpu")
    assert (backbone.name, backbone.revision) == ("tiny/good", known_pair.revision)
    assert backbone.prefix == "A photo depicts " and backbone.languages == {"en"}
    assert backbone._model.transformer.resblocks[0].mlp.gelu.__class__.__name__ == "QuickGELU"


def test_another_revision_is_one_of_the_repository_that_is_named(hub, known_pair, tiny):
    backbone = load_backbone("tiny/good@main", device="cpu")
    assert backbone.revision == hub.commit_of("org/tiny", "main") != known_pair.revision
    commit = hub.add("org/alias", tiny[2])
    backbone = load_backbone(f"org/alias@{commit}", device="cpu")
    assert (backbone.name, backbone.revision, backbone.prefix) == ("org/alias", commit, "A photo depicts ")
    with pytest.raises(BackboneUnavailable, match="v9"):
        load_backbone("tiny/good", revision="v9")


def test_a_pair_that_only_open_clip_knows(known_pair, monkeypatch, hub, tiny, tmp_path):
    """Its tag may name a file: the safetensors of that name come before the pickle, and nothing else."""
    import open_clip

    monkeypatch.setattr(loading, "find", lambda name: None)
    backbone = load_backbone("tiny/good", device="cpu")
    assert (backbone.name, backbone.prefix, backbone.languages) == ("tiny/good", "", None)
    assert backbone.revision == hub.commit_of("org/tiny", "main")
    folder = tmp_path / "named"
    folder.mkdir()
    shutil.copy(tiny[1] / "open_clip_model.safetensors", folder / "epoch_3.safetensors")
    for name in ("epoch_3.pt", "open_clip_model.safetensors"):
        (folder / name).write_bytes(b"never opened")
    hub.add("org/named", folder)
    open_clip.pretrained._PRETRAINED["tiny"]["named"] = {"hf_hub": "org/named/epoch_3.pt"}
    hub.served.clear()
    assert load_backbone("tiny/named", device="cpu").dim == 16
    assert hub.served == ["org/named/epoch_3.safetensors"]


def test_a_known_hub_id_passes_its_image_tower_on(hub, tiny, monkeypatch):
    commit = hub.add("org/text", tiny[1])
    about = {"model": "org/text", "revision": commit, "image_tower": "some/clip", "languages": ("de", "en")}
    entry = Known("org/text", "multilingual_clip", **about)
    monkeypatch.setattr(loading, "find", lambda name: entry if name == "org/text" else None)
    calls = []
    monkeypatch.setattr(loading, "_load_folder", lambda folder, options: calls.append(options))
    load_backbone("org/text", device="cpu")
    load_backbone("org/text", device="cpu", image_tower="/a/folder")
    assert [call.image_tower for call in calls] == ["some/clip", "/a/folder"]
    assert calls[0].languages == {"de", "en"} and calls[0].revision == commit


@pytest.mark.usefixtures("no_weights_installed")
@pytest.mark.parametrize("name", ["embedded", "embedded-pr-mcs"])
def test_without_capscore_weights_the_error_names_a_backbone_that_does_without(name):
    with pytest.raises(MissingWeightsError, match="backbone='embedded-free' does without"):
        load_backbone(name, device="cpu")


def test_defaults_and_the_variable_that_overrides_them(monkeypatch):
    assert default_backbone("mcs") == "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k"
    assert default_backbone("clip_score") == default_backbone("ref_clip_score") == "ViT-B-32-quickgelu/openai"
    assert all(find(default_backbone(metric)) for metric in WITH_BACKBONE)
    with pytest.raises(CapscoreError, match="bleu"):
        default_backbone("bleu")
    assert default_backbone("judge") in known_models()
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    monkeypatch.setenv("CAPSCORE_JUDGE", "org/judge")
    assert default_backbone("judge") == "org/judge"
    assert {default_backbone(metric) for metric in {*WITH_BACKBONE, "bleu"} - {"pr_mcs"}} == {"embedded"}


SHARDS = "model-00001-of-00002.safetensors! model-00002-of-00002.safetensors!"
# files of a repository; those to take have a "!"
REPOSITORIES = {
    "of two copies the safe one, of many runtimes ours": "README.md 2_Dense/config.json! "
    "2_Dense/model.safetensors! 2_Dense/pytorch_model.bin config.json! flax_model.msgpack "
    "model.fp16.safetensors model.safetensors! modeling_own.py modules.json! onnx/config.json "
    "openvino/openvino_model.bin pytorch_model.bin sentencepiece.bpe.model! training_args.bin vocab.txt!",
    "a pickle where nothing else is": "config.json! pytorch_model.bin! tf_model.h5",
    "shards together": f"{SHARDS} model.safetensors.index.json!",
    "open_clip": "model.safetensors open_clip_config.json! open_clip_pytorch_model.bin! pytorch_model.bin",
    "open_clip, safe": "open_clip_config.json! open_clip_model.safetensors! open_clip_pytorch_model.bin",
    "transformers": "config.json! model.safetensors! open_clip_pytorch_model.bin",
    "LAION": "open_clip_pytorch_model.bin! tokenizer.json!",
    "a fine-tuned tower": "capscore_tuned.json! model.safetensors! config.json README.md",
    "a student": "capscore_student.json! model.safetensors! config.json! steps/model.safetensors",
}


@pytest.mark.parametrize("repository", REPOSITORIES)
def test_one_copy_of_the_weights_and_all_settings_are_taken(repository):
    files = REPOSITORIES[repository].split()
    chosen = [name[:-1] for name in files if name.endswith("!")]
    assert needed_files([name.rstrip("!") for name in files]) == chosen


def test_file_names_are_not_patterns(hub, tmp_path):
    for name in ("a[1].json", "a1.json"):
        (tmp_path / name).write_text("{}")
    hub.add("org/odd", tmp_path)
    there, _ = fetch_model("org/odd", "", lambda names: ["a[1].json"])
    assert [path.name for path in there.iterdir()] == ["a[1].json"]
