"""InfoMetIC's weights on disk and on the Hub."""

import json
import os
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from capscore.backbones.checkpoint import CONFIG, WEIGHTS
from capscore.errors import BackboneUnavailable, CapscoreError
from capscore.infometic.network import InfoMetIC, load_aligner
from tools.tiny.pairs import TINY, encode, images_of, texts_of, tiny_model

from .test_network import backbone


@pytest.fixture
def folder(tmp_path):
    tiny_model().save_pretrained(tmp_path / "weights", notes={"steps": 7})
    return tmp_path / "weights"


def saved_and_loaded(model, folder, **options):
    model.save_pretrained(folder, **options)
    return InfoMetIC.from_pretrained(folder)


WORDS = replace(TINY, context_width=3, sharpness=0.7)


@pytest.mark.parametrize("config", [TINY, WORDS], ids=["plain", "words"])
def test_a_network_loads_as_it_was_saved(config, tmp_path):
    model, folder = tiny_model(config), tmp_path / "weights"
    again = saved_and_loaded(model, folder, notes={"steps": 7})
    assert again.config == config and again.notes == {"steps": 7} and not again.training
    assert (again.name, again.revision) == ("weights", f"w{model.fingerprint()[:8]}")
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())
    pairs = [0, 0, 1], [0, 1, 1]
    towers = images_of([3, 1]), texts_of([2, 5])
    found, expected = (each.pairs(*encode(each, *towers), *pairs).overall for each in (again, model))
    assert torch.allclose(found, expected, rtol=0, atol=1e-6)
    assert again.fingerprint() != tiny_model(replace(config, sharpness=0.5)).fingerprint()
    half = saved_and_loaded(model, tmp_path / "half", dtype="fp16")
    assert {tensor.dtype for tensor in load_file(tmp_path / "half" / WEIGHTS).values()} == {torch.float16}
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor.half().float(), half.state_dict()[name])
    assert half.revision != again.revision
    again.save_pretrained(tmp_path / "again")
    for name in (CONFIG, WEIGHTS):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_weights_that_cannot_be_saved(tmp_path):
    model = tiny_model()
    model.region_key.weight.data[0, 0] = 1e6
    for options, message in (
        ({"dtype": "bf16"}, "dtype='bf16': .* float32 or float16"),
        ({"notes": {"x": float("nan")}}, "JSON"),
        ({"dtype": "float16"}, r"region_key\.weight of .* torch.float16"),
    ):
        with pytest.raises(CapscoreError, match=message):
            model.save_pretrained(tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_another_models_folder_is_refused(tmp_path):
    save_file({"x": torch.zeros(1)}, tmp_path / WEIGHTS)
    with pytest.raises(CapscoreError, match="already holds a model of type None"):
        tiny_model().save_pretrained(tmp_path)
    (tmp_path / CONFIG).write_text('{"model_type": "clip"}')
    with pytest.raises(CapscoreError, match="already holds a model of type 'clip'"):
        tiny_model().save_pretrained(tmp_path)


BAD = [("width", -1), ("width", 2**40), ("heads", 0), ("inter_layers", 10**6)]
BAD += [("input_scale", "NaN"), ("mask_padding", "no")]
NO_FILES = {
    "a folder": os.mkdir,
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a list": lambda path: path.write_text("[]"),
    "UTF-16": lambda path: path.write_text('{"model_type": "infometic"}', "utf-16"),
}


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_of_weights_is_refused(folder, name, kind):
    (folder / name).unlink()
    NO_FILES[kind](folder / name)
    with pytest.raises(BackboneUnavailable, match=name):
        InfoMetIC.from_pretrained(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "clip"}, "describes a model of type 'clip', not 'infometic'"),
        ({"format": 2}, "config.json is of format 2; .* reads format 1"),
        ({"weights": None}, "config.json"),
        ({"heads": 5}, "config.json: heads=5 does not divide the width 6"),
        *(({name: value}, "config.json") for name, value in BAD),
        ({"layers": 5}, "config.json: .*'layers'"),
        ({"inter_layers": 1}, r"Unexpected key.*inter_layers\.1\."),
        ({"inter_layers": 3}, r"Missing key.*inter_layers\.2\."),
        ({"max_tokens": 9}, "size mismatch for text_position"),
    ],
)
def test_a_config_that_does_not_fit(folder, changes, message):
    record = json.loads((folder / CONFIG).read_text()) | changes
    (folder / CONFIG).write_text(json.dumps(record))
    with pytest.raises(BackboneUnavailable, match=message):
        InfoMetIC.from_pretrained(folder)


def test_errors_name_torn_and_missing_files(folder):
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(BackboneUnavailable, match=r"does not belong to config.json"):
        InfoMetIC.from_pretrained(folder)
    (folder / CONFIG).unlink()
    with pytest.raises(BackboneUnavailable, match=r"has no config.json"):
        InfoMetIC.from_pretrained(folder)


def test_weights_come_from_the_hub_with_their_commit(hub, folder, monkeypatch):
    (folder / "README.md").write_text("a card")
    commit = hub.add("org/infometic", folder)
    model = InfoMetIC.from_pretrained("org/infometic")
    assert (model.name, model.revision) == ("org/infometic", commit)
    assert model.fingerprint() == tiny_model().fingerprint()
    assert load_aligner("org/infometic", backbone(dim=6, device="cpu"))[1] == f"org/infometic@{commit}"
    assert sorted(hub.served) == [f"org/infometic/{name}" for name in (CONFIG, WEIGHTS)]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert InfoMetIC.from_pretrained("org/infometic").revision == commit
    with pytest.raises(BackboneUnavailable, match="'org/other' is not available: HF_HUB_OFFLINE is set"):
        InfoMetIC.from_pretrained("org/other")


def test_revisions(hub, folder):
    commit = hub.add("org/infometic", folder, tag="v1")
    for asked in ({"spec": "org/infometic@v1"}, {"spec": "org/infometic", "revision": "v1"}):
        assert InfoMetIC.from_pretrained(**asked).revision == commit
    for spec, options, message in (
        ("org/infometic@v1", {"revision": "v2"}, "revision='v2' does not go with"),
        ("org/infometic@v2", {}, "'org/infometic' is not on the Hub at revision 'v2'"),
        (folder / "nowhere", {}, "there is no such folder"),
        (folder, {"revision": "main"}, "revision='main' does not go with"),
        (folder, {"backbone": backbone()}, r"not for some/tower @ abc.*length of the embeddings: 6"),
    ):
        with pytest.raises(CapscoreError, match=message):
            InfoMetIC.from_pretrained(spec, **options)
