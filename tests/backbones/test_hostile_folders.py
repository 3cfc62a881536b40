"""Checkpoint folders that are damaged, or made to do harm: one clear error, and no file outside is opened."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from capscore import load_backbone
from capscore.backbones.checkpoint import (
    read_json,
    read_state_dict,
    refuse_oversized,
    weight_files,
)
from capscore.errors import BackboneUnavailable, CapscoreError
from capscore.infometic.network import InfoMetIC, InfoMetICConfig

from . import tiny_kinds

KINDS = ["open_clip ours", "clip", "siglip", "chinese clip", "m-clip", "sentence-transformers", "student"]
KINDS[0] = next(kind for kind in tiny_kinds.KINDS if kind.startswith("open_clip"))
DEEP = "[" * 100_000
DIGITS = "1" * 5_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One folder per kind, written once; tests damage copies."""
    made = {}

    def of(kind: str):
        if kind not in made:
            made[kind] = tiny_kinds.Checkpoint(kind, tmp_path_factory.mktemp("kind"))
        return made[kind]

    return of


@pytest.fixture
def opened():
    """Paths of all files that Python opens."""
    paths: list[str] = []
    watching = True

    def hook(event, arguments):
        if watching and event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
            paths.append(os.fsdecode(arguments[0]))

    sys.addaudithook(hook)
    yield paths
    watching = False


def copy_of(checkpoint, tmp_path) -> Path:
    return Path(shutil.copytree(checkpoint.spec, tmp_path / "model"))


def error_of(checkpoint, folder) -> str:
    with pytest.raises(CapscoreError) as caught:
        load_backbone(folder, device="cpu", image_tower=checkpoint.image_tower)
    message = str(caught.value)
    assert len(message.splitlines()[0]) < 1000
    return message


INDEXES = {
    "outside": {"weight_map": {"a": "../secret.safetensors"}},
    "absolute": {"weight_map": {"a": "/etc/hostname"}},
    "deep outside": {"weight_map": {"a": "x/../../secret.safetensors"}},
    "backslash": {"weight_map": {"a": "..\\secret.safetensors"}},
    "NUL": {"weight_map": {"a": "a\0b"}},
    "numbers": {"weight_map": {"a": 3}},
    "list": {"weight_map": ["model-1.safetensors"]},
    "null": {"weight_map": None},
    "no map": {},
    "empty": {"weight_map": {}},
    "missing": {"weight_map": {"a": "model-1.safetensors"}},
    "folder": {"weight_map": {"a": "."}},
    "circle": {"weight_map": {"a": "circle.safetensors"}},
    "long": {"weight_map": {"a": "x" * 300 + ".safetensors"}},
    "surrogate": {"weight_map": {"a": "\ud800.safetensors"}},
}


@pytest.mark.parametrize("stem", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("name", INDEXES)
def test_indexes_of_shards(tmp_path, opened, stem, name):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.safetensors").write_bytes(b"secret")
    os.symlink("circle.safetensors", folder / "circle.safetensors")
    (folder / f"{stem}.index.json").write_text(json.dumps(INDEXES[name]))
    del opened[:]
    for read in (weight_files, read_state_dict):
        with pytest.raises(BackboneUnavailable):
            read(folder)
    outside = [path for path in opened if not path.startswith(str(folder))]
    assert not [path for path in outside if "secret" in path or path == "/etc/hostname"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["outside", "list", "null", "missing"])
def test_an_index_of_every_kind(whole, tmp_path, kind, name, opened):
    folder = copy_of(whole(kind), tmp_path)
    (tmp_path / "secret.safetensors").write_bytes(b"secret")
    weights = [path for path in folder.rglob("*") if path.suffix in (".safetensors", ".bin", ".pt")]
    for path in weights:
        path.unlink()
        (path.parent / "model.safetensors.index.json").write_text(json.dumps(INDEXES[name]))
    del opened[:]
    assert weights and error_of(whole(kind), folder)
    assert not [path for path in opened if path.endswith("secret.safetensors")]


CONTENTS = {
    "deep": DEEP,
    "deep in a field": '{"model_type": ' + DEEP,
    "digits": f'{{"hidden_size": {DIGITS}}}',
    "list": "[]",
    "null": "null",
    "empty": "",
    "not UTF-8": b"\xff\xfe{}",
    "NUL": "{\0}",
    "twice": '{"a": 1, "a"',
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONTENTS)
def test_json_files_of_every_kind(whole, tmp_path, kind, name):
    content = CONTENTS[name]
    data = content if isinstance(content, bytes) else content.encode()
    pristine = whole(kind)
    for path in sorted(Path(pristine.spec).rglob("*.json")):
        place = path.relative_to(pristine.spec)
        if place.name in ("modules.json", "special_tokens_map.json", "generation_config.json"):
            if name in ("list", "null", "empty"):
                continue  # a list of no modules, and files that may be left out
        if place.name.startswith("config_sentence") or place.name.startswith("sentence_"):
            continue
        folder = copy_of(pristine, tmp_path)
        (folder / place).write_bytes(data)
        error_of(pristine, folder)
        shutil.rmtree(folder)


@pytest.mark.parametrize("value", [["clip"], {"a": 1}, 3, None, "", "\ud800", "x" * 100_000])
@pytest.mark.parametrize("kind", KINDS)
def test_types_of_models(whole, tmp_path, kind, value):
    folder = copy_of(whole(kind), tmp_path)
    path = folder / "config.json"
    if not path.exists():
        pytest.skip("this kind has no config.json")
    about = json.loads(path.read_text())
    if "model_type" not in about and "modelBase" not in about:
        pytest.skip("this kind has no type of its own")
    about["model_type" if "model_type" in about else "modelBase"] = value
    (folder / "encoder_config.json").unlink(missing_ok=True)  # M-CLIP's modelBase is read without it
    path.write_text(json.dumps(about))
    error_of(whole(kind), folder)


HUGE = [10**12, 10**30, -1, "many", None, [1], 1.5, True]


@pytest.mark.parametrize("value", HUGE, ids=str)
@pytest.mark.parametrize("kind", ["open_clip ours", "clip", "m-clip", "student"])
def test_sizes_in_configs(whole, tmp_path, kind, value):
    kind = KINDS[0] if kind.startswith("open_clip") else kind
    pristine = whole(kind)
    names = ("hidden_size", "num_hidden_layers", "vocab_size", "width", "layers", "image_size", "embed_dim",
             "max_position_embeddings", "intermediate_size", "projection_dim", "context_length")  # fmt: skip
    for file in ("config.json", "open_clip_config.json", "encoder_config.json"):
        original = Path(pristine.spec) / file
        if not original.is_file():
            continue
        for changed, about in _each_changed(json.loads(original.read_text()), names, value):
            folder = copy_of(pristine, tmp_path)
            (folder / file).write_text(json.dumps(about))
            try:
                load_backbone(folder, device="cpu", image_tower=pristine.image_tower)
            except CapscoreError as error:
                assert len(str(error).splitlines()[0]) < 1000
            else:
                # what a library takes for the default, or does not use
                assert value in (None, True, 1.5) or changed in _UNUSED, (file, changed, value)
            shutil.rmtree(folder)


# M-CLIP's and the students' encoders are read with a context that their tokenizers limit
_UNUSED = {"max_position_embeddings", "projection_dim", "intermediate_size", "image_size", "vocab_size"}


def _each_changed(about, names, value):
    """The content once for each of its numbers with one of the names, with that number changed."""
    places = []

    def walk(node, path):
        if isinstance(node, dict):
            for name, inner in node.items():
                if name in names and isinstance(inner, int):
                    places.append((*path, name))
                walk(inner, (*path, name))

    walk(about, ())
    for place in places:
        copy = json.loads(json.dumps(about))
        node = copy
        for name in place[:-1]:
            node = node[name]
        node[place[-1]] = value
        yield place[-1], copy


TOKENIZERS = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "null": lambda data: b"null",
    "deep": lambda data: DEEP.encode(),
    "no model": lambda data: b'{"version": "1.0"}',
    "digits": lambda data: b'{"version": ' + DIGITS.encode() + b"}",
}


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("kind", ["clip", "m-clip", "sentence-transformers", "student"])
def test_tokenizers(whole, tmp_path, kind, name):
    folder = copy_of(whole(kind), tmp_path)
    for path in folder.rglob("tokenizer.json"):
        path.write_bytes(TOKENIZERS[name](path.read_bytes()))
    error_of(whole(kind), folder)


HEADERS = {
    "length beyond the file": (2**63 - 1).to_bytes(8, "little") + b"{}",
    "length of all bits": b"\xff" * 8 + b"{}",
    "no header": (0).to_bytes(8, "little"),
    "short": b"\0",
    "deep": len(DEEP).to_bytes(8, "little") + DEEP.encode(),
    "offsets beyond the file": (lambda head: len(head).to_bytes(8, "little") + head)(
        b'{"a":{"dtype":"F32","shape":[99999999999],"data_offsets":[0,399999999996]}}'
    ),
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("kind", KINDS)
def test_headers_of_safetensors(whole, tmp_path, kind, name):
    folder = copy_of(whole(kind), tmp_path)
    files = list(folder.rglob("*.safetensors"))
    for path in files:
        path.write_bytes(HEADERS[name])
    if not files:
        pytest.skip("this kind's weights are a pickle")
    error_of(whole(kind), folder)


@pytest.mark.parametrize("place", ["../outside", "/etc", "a/../../outside", "..\\outside"])
def test_modules_and_towers_outside_the_folder(whole, tmp_path, place, opened):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "config.json").write_text('{"model_type": "xlm-roberta"}')
    folder = copy_of(whole("sentence-transformers"), tmp_path)
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["path"] = place
    (folder / "modules.json").write_text(json.dumps(modules))
    del opened[:]
    assert "no place inside" in error_of(whole("sentence-transformers"), folder)
    shutil.rmtree(folder)

    for kind, field in (("xlmr", "hf_model_name"), ("xlmr", "hf_tokenizer_name")):
        folder = copy_of(whole(f"open_clip {kind}"), tmp_path)
        path = folder / "open_clip_config.json"
        about = json.loads(path.read_text())
        assert field in about["model_cfg"]["text_cfg"]
        about["model_cfg"]["text_cfg"][field] = place
        path.write_text(json.dumps(about))
        assert "no place inside" in error_of(whole(f"open_clip {kind}"), folder)
        shutil.rmtree(folder)
    assert not [path for path in opened if path.startswith(str(outside))]


@pytest.mark.parametrize("field", ["vocab_file", "merges_file", "tokenizer_file", "transformers_weights"])
def test_files_named_outside_the_folder_are_not_opened(whole, tmp_path, opened, field):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = copy_of(whole("clip"), tmp_path)
    name = "config.json" if field == "transformers_weights" else "tokenizer_config.json"
    about = json.loads((folder / name).read_text())
    about[field] = "../secret.txt"
    (folder / name).write_text(json.dumps(about))
    del opened[:]
    try:
        load_backbone(folder, device="cpu")
    except CapscoreError:
        pass
    assert not [path for path in opened if path.endswith("secret.txt")]


def test_json_files_have_a_size(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSCORE_MAX_CONFIG_BYTES", "100")
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"a": "x" * 100}))
    with pytest.raises(BackboneUnavailable):
        read_json(path)


@pytest.mark.parametrize("value", HUGE[:-1], ids=str)
def test_networks_of_infometic(tmp_path, value):
    network = InfoMetIC(InfoMetICConfig(dim=8, width=8, heads=2))
    network.save_pretrained(tmp_path)
    assert InfoMetIC.from_pretrained(tmp_path).config == network.config
    about = json.loads((tmp_path / "config.json").read_text())
    for name, before in about.items():
        if isinstance(before, (int, list)) and not isinstance(before, bool):
            (tmp_path / "config.json").write_text(json.dumps({**about, name: value}))
            with pytest.raises(CapscoreError):
                InfoMetIC.from_pretrained(tmp_path)
    for content in CONTENTS.values():
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "config.json").write_bytes(data)
        with pytest.raises(CapscoreError):
            InfoMetIC.from_pretrained(tmp_path)


def test_a_network_that_is_larger_than_its_weights_is_never_made(tmp_path):
    for config in ({"a": [{"num_hidden_layers": 100_000}]}, {"hidden_size": 10**10}):
        with pytest.raises(BackboneUnavailable):
            refuse_oversized(tmp_path, config, 10**9)
    refuse_oversized(tmp_path, {"hidden_size": 10, "vocab_size": 10}, 1_000)
