"""Weights that are published: what is sent, what is refused before, and that they come back the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from PIL import Image
from safetensors.torch import load_file, save_file

import capscore
from capscore.backbones.base import tensors_digest
from capscore.backbones.checkpoint import needed_files
from capscore.errors import CapscoreError, InputError
from capscore.hub.push import push
from capscore.hub.weights import plan_weights, weights_kind
from capscore.infometic.network import InfoMetIC, InfoMetICConfig

from .conftest import NETWORK, change, done, failed, write_network

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")
CAPTIONS = ["a cat on the mat", "Zwei Hunde.", "кошка", "海辺", "a man and a dog"]
TUNED_FILES = {"README.md", "capscore_tuned.json", "model.safetensors"}
NETWORK_FILES = {"README.md", "config.json", "model.safetensors"}


def texts(spec):
    return capscore.load_backbone(str(spec), device="cpu").encode_texts(CAPTIONS)


def weights(folder):
    return load_file(folder / "model.safetensors")


def save(folder, tensors):
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


# ---- there and back ----


def test_towers_come_back_the_same_by_branch_tag_and_commit(hub, student, tuned, elsewhere):
    before, sent = texts(student), plan_weights(student)
    first = push(sent, "jo/tiny", tag="v1").commit
    tensors = weights(student)
    tensors["projection.bias"] += 1
    save(student, tensors)
    bold = push(plan_weights(student), "jo/tiny", revision="bold")
    assert not bold.created and bold.changed and hub.messages[-1] == "Upload tiny with capscore"
    ready = plan_weights(tuned)
    assert ready.files.keys() == TUNED_FILES
    further, expected = push(ready, "jo/tuned").commit, texts(tuned)
    elsewhere()
    for spec in ("jo/tiny", "jo/tiny@v1", f"jo/tiny@{first}"):
        np.testing.assert_allclose(texts(spec), before, atol=1e-6)
    np.testing.assert_allclose(texts("jo/tiny@bold"), texts(student), atol=1e-6)
    assert np.abs(texts("jo/tiny@bold") - before).max() > 1e-2
    np.testing.assert_allclose(texts(f"jo/tuned@{further}"), expected, atol=1e-6)
    assert np.abs(texts("org/clip") - expected).max() > 1e-3
    assert capscore.load_backbone("jo/tuned", device="cpu").revision.startswith(further)
    served = {name for name in hub.served if name.startswith("jo/")}
    assert served == {
        *(f"jo/tiny/{name}" for name in sent.files if name != "README.md"),
        *(f"jo/tuned/{name}" for name in TUNED_FILES - {"README.md"}),
    }


def test_an_image_tower_comes_back_the_same(hub, eye, elsewhere):
    ready = plan_weights(eye)
    assert ready.files.keys() == NETWORK_FILES
    pushed = push(ready, "jo/eye")
    elsewhere()
    there, here = (capscore.load_backbone(str(spec), device="cpu") for spec in ("jo/eye", eye))
    assert there.revision == pushed.commit and there.w == here.w == 1.5
    photo = Image.new("RGB", (40, 30), "teal")
    np.testing.assert_allclose(there.encode_images([photo]), here.encode_images([photo]), atol=1e-6)


def test_a_network_comes_back_the_same(hub, network, embedded, tmp_path, elsewhere):
    told = done("weights", network, "--org", "jo", "--tag", "v1")
    first = hub.commit_of("jo/net", "main")
    assert f"capscore.load('infometic', backbone='embedded', weights='jo/net@{first}')" in told
    assert hub.files_of("jo/net").keys() == {*NETWORK_FILES, ".gitattributes"}
    other = write_network(tmp_path / "other", NETWORK.on(embedded), seed=1)
    push(plan_weights(other), "jo/net")
    elsewhere()
    photos = [np.full((8, 8, 3), 40 * number, np.uint8) for number in range(5)]

    def scored(spec):
        scorer = capscore.load("infometic", backbone=embedded, weights=spec, cache=False)
        return scorer.score(CAPTIONS, photos, language="en", boxes=[[[0, 0, 4, 4], [1, 1, 7, 5]]] * 5)

    there = scored("jo/net@v1")
    assert there.scores.tolist() == pytest.approx(scored(network).scores.tolist(), abs=1e-6)
    assert f"|weights:jo/net@{first}|" in there.signature
    now = scored("jo/net").scores.tolist()
    assert now == pytest.approx(scored(other).scores.tolist(), abs=1e-6)
    assert now != pytest.approx(there.scores.tolist(), abs=1e-2)
    served = {name for name in hub.served if name.startswith("jo/")}
    assert served == {"jo/net/config.json", "jo/net/model.safetensors"}


def test_a_network_as_the_recipe_saves_it(hub, tmp_path, embedded):
    from training.infometic import Settings, train

    rows = [
        f'{{"caption": "A {colour} dog runs.", "language": "en", "stand_in": "Ein Hund, {colour}.", '
        '"region_texts": ["a dog"], "mentioned": [0]}'
        for colour in ("red", "green", "blue", "black", "white", "brown")
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    small = {"width": 8, "heads": 2, "intra_layers": 1, "inter_layers": 1, "batch_size": 3, "max_steps": 2}
    licences = {"license": "apache-2.0", "data_license": "CC0", "tasks": ["coarse", "text"]}
    data = {"out": str(tmp_path / "run"), "base": "embedded", "data": [str(tmp_path / "rows.jsonl")]}
    train(Settings(**data, **small, **licences))
    ready = plan_weights(tmp_path / "run")
    assert ready.files.keys() == NETWORK_FILES and "backbone='embedded'" in ready.loads
    assert {"settings.yaml", "result.json"} <= ready.left_out.keys()
    commit = push(ready, "jo/run").commit
    loaded = InfoMetIC.from_pretrained(f"jo/run@{commit}", backbone=embedded)
    assert loaded.revision == commit
    assert loaded.fingerprint() == InfoMetIC.from_pretrained(tmp_path / "run").fingerprint()


# ---- what is sent ----


def test_what_training_leaves_is_sent_only_on_demand_or_where_the_card_shows_it(student):
    files = set(plan_weights(student).files)
    left = {
        *(
            "log.jsonl",
            "run.json",
            "events.out.tfevents.1",
            "training_args.bin",
            ".cache/huggingface/x.json",
            "curve.png",
        ),
        *("checkpoints/step-000100/model.safetensors", "checkpoints/step-000100/optimizer.pt"),
        "deeper/config.json",
    }
    for name in [*left, "LICENSE"]:
        (student / name).parent.mkdir(parents=True, exist_ok=True)
        (student / name).write_text("x")
    ready = plan_weights(student)
    assert ready.left_out.keys() == left and ready.files.keys() == files | {"LICENSE"}
    card = student / "README.md"
    card.write_text(card.read_text() + "\n![The loss](curve.png)\n")
    asked = plan_weights(student, ["log.jsonl", "checkpoints/*/model*"])
    further = {"LICENSE", "curve.png", "log.jsonl", "checkpoints/step-000100/model.safetensors"}
    assert asked.files.keys() == files | further
    with pytest.raises(CapscoreError, match=r"optimizer\.pt is a pickle, which may run code"):
        plan_weights(student, ["*optimizer.*"])
    with pytest.raises(InputError, match=r"include='log\.json' matches no file"):
        plan_weights(student, ["log.json"])


def test_included_checkpoints_are_not_downloaded_with_the_tower():
    files = ["capscore_student.json", "config.json", "model.safetensors"]
    assert needed_files([*files, "checkpoints/1/config.json", "checkpoints/1/model.safetensors"]) == files
    files = [*sorted(TUNED_FILES), "result.json", "text_tower/config.json"]
    assert needed_files(files) == ["capscore_tuned.json", "model.safetensors"]


def test_a_network_is_planned_with_what_it_needs(network, tmp_path):
    ready = plan_weights(network)
    assert weights_kind(network) == "infometic" and ready.notes == []
    assert ready.files.keys() == NETWORK_FILES
    left = {"settings.yaml", "result.json", "run.json", "log.jsonl", "features/boxes.npy"}
    assert ready.left_out.keys() == left
    for name, note in (("my-tower", "'my-tower', a folder on this machine only"), ("", "do not name their")):
        config = InfoMetICConfig(**{**vars(NETWORK), "backbone": name})
        ready = plan_weights(write_network(tmp_path / f"net{name}", config))
        assert note in ready.notes[0]
        assert f"backbone={name or '…'!r}, weights='{{repo}}@" in ready.loads


def test_a_student_without_an_image_tower_says_so(student):
    change(student / "capscore_student.json", image_tower="")
    said = done("weights", student, "--org", "jo", "--dry-run")
    assert "note: the tower names no image tower" in said and "image_tower=" in said


# ---- what is refused before anything is sent ----


def test_folders_that_hold_no_weights(checkpoints, tmp_path):
    said = failed("weights", "nope", "--org", "jo", "--dry-run", code=2)
    assert "nope is no folder and none of the installed weights: image_tower, infometic" in said
    with pytest.raises(InputError, match="there is no such folder"):
        plan_weights(tmp_path / "gone")
    for folder in (checkpoints("clip").spec_path, tmp_path):
        with pytest.raises(CapscoreError, match=r"expected capscore_student.json, .* mark calibration"):
            plan_weights(folder)


@pytest.mark.parametrize("kind", ["student", "tuned", "eye", "network"])
def test_torn_or_missing_files_are_named(kind, request):
    folder = request.getfixturevalue(kind)
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for content, message in ((whole[:1000], "model.safetensors"), (None, "has no model.safetensors")):
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(CapscoreError, match=message):
            plan_weights(folder)
    path.write_bytes(whole)
    plan_weights(folder)
    (folder / "README.md").unlink()
    with pytest.raises(CapscoreError, match=r"has no README.md"):
        plan_weights(folder)


def test_weights_that_are_no_numbers(student, network):
    tensors = weights(student)
    tensors["projection.bias"][3] = torch.nan
    save(student, tensors)
    with pytest.raises(CapscoreError, match=r"model.safetensors: projection.bias holds NaN or infinity"):
        plan_weights(student)
    tensors = weights(network)
    name = min(tensors)
    tensors[name].view(-1)[0] = torch.inf
    save(network, tensors)
    change(network / "config.json", weights=tensors_digest(tensors))
    with pytest.raises(CapscoreError, match=rf"model.safetensors: {re.escape(name)} holds NaN or infinity"):
        plan_weights(network)


def test_networks_whose_files_do_not_belong_together(network, embedded, tmp_path):
    config, said = network / "config.json", (network / "config.json").read_bytes()
    for content, message in ((said[:40], "config.json cannot be read"), ({"format": 99}, "is of format 99")):
        change(config, **content) if isinstance(content, dict) else config.write_bytes(content)
        with pytest.raises(CapscoreError, match=message):
            plan_weights(network)
        config.write_bytes(said)
    other = write_network(tmp_path / "other", NETWORK.on(embedded), seed=1)
    (other / "model.safetensors").replace(network / "model.safetensors")
    with pytest.raises(CapscoreError, match=r"does not belong to config.json"):
        plan_weights(network)


@pytest.mark.parametrize("tower", ["{clip}", "./clip", "~/clip", "C:\\clip"])
def test_a_tower_that_only_this_machine_has(student, checkpoints, tower):
    name = tower.format(clip=checkpoints("clip").spec)
    change(student / "capscore_student.json", image_tower=name)
    with pytest.raises(CapscoreError, match=r"image_tower is .*, a folder on this machine only"):
        plan_weights(student)


def test_a_fine_tuned_tower_whose_base_is_gone(hub, tuned, monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "emptied"))
    hub.repos.pop("org/clip")
    with pytest.raises(CapscoreError, match=r"was fine-tuned from org/clip@[0-9a-f]{40}: .*not on the Hub"):
        plan_weights(tuned)


@pytest.mark.parametrize(
    "front, message",
    [
        ("language: [de]", "says no license, such as license: apache-2.0"),
        ("license: mit", "says no language, such as"),
        ("license: mit\nlanguage: []", "says no language"),
        ("license: [mit\nlanguage", "front matter of .*README.md cannot be read"),
        ("- de", "front matter of .*README.md cannot be read"),
    ],
)
def test_cards_that_say_too_little(student, front, message):
    (student / "README.md").write_text(f"---\n{front}\n---\n# Tiny\n")
    with pytest.raises(CapscoreError, match=message):
        plan_weights(student)
