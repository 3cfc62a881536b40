"""Weights that are published: what is sent, what is refused before, and that they come back the same."""

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.hub.push import push
from capscore.hub.weights import plan_weights, weights_kind
from capscore.infometic.network import InfoMetICConfig

from .conftest import NETWORK, change, change_bias, done, write_network

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")
CAPTIONS = ["a cat on the mat", "Zwei Hunde.", "кошка", "海辺", "a man and a dog"]
TUNED_FILES = {"README.md", "capscore_tuned.json", "model.safetensors"}
NETWORK_FILES = {"README.md", "config.json", "model.safetensors"}


def texts(spec):
    return capscore.load_backbone(str(spec), device="cpu").encode_texts(CAPTIONS)


def test_an_earlier_commit_is_loaded_by_its_name_and_no_file_that_is_not_needed(hub, student, elsewhere):
    """That what is there is the same as the folder is one of the laws of recipes."""
    before, sent = texts(student), plan_weights(student)
    first = push(sent, "jo/tiny").commit
    change_bias(student)
    push(plan_weights(student), "jo/tiny")
    elsewhere()
    np.testing.assert_allclose(texts(f"jo/tiny@{first}"), before, atol=1e-6)
    np.testing.assert_allclose(texts("jo/tiny"), texts(student), atol=1e-6)
    assert np.abs(texts("jo/tiny") - before).max() > 1e-2
    served = {name for name in hub.served if name.startswith("jo/")}
    assert served == {f"jo/tiny/{name}" for name in sent.files} - {"jo/tiny/README.md"}


def test_an_image_tower_from_the_hub_is_unchanged(hub, eye, elsewhere):
    ready = plan_weights(eye)
    assert ready.files.keys() == NETWORK_FILES
    pushed = push(ready, "jo/eye")
    elsewhere()
    there, here = (capscore.load_backbone(str(spec), device="cpu") for spec in ("jo/eye", eye))
    assert there.revision == pushed.commit and there.w == here.w == 1.5
    photo = Image.new("RGB", (40, 30), "teal")
    np.testing.assert_allclose(there.encode_images([photo]), here.encode_images([photo]), atol=1e-6)


def test_training_files_are_sent_only_if_the_card_shows_them(student, tuned):
    assert plan_weights(tuned).files.keys() == TUNED_FILES
    files = set(plan_weights(student).files)
    left = {"log.jsonl", "run.json", "training_args.bin", "curve.png"}
    left |= {"checkpoints/step-000100/model.safetensors", "deeper/config.json"}
    for name in [*left, "LICENSE"]:
        (student / name).parent.mkdir(parents=True, exist_ok=True)
        (student / name).write_text("x")
    ready = plan_weights(student)
    assert ready.files.keys() == files | {"LICENSE"}
    assert {*ready.notes[-1].removeprefix("not sent: ").split(", ")} == left
    card = student / "README.md"
    card.write_text(card.read_text() + "\n![The loss](curve.png)\n")
    assert plan_weights(student).files.keys() == files | {"LICENSE", "curve.png"}


def test_a_network_is_planned_with_what_it_needs(hub, network, tmp_path):
    ready = plan_weights(network)
    assert weights_kind(network) == "infometic" and ready.files.keys() == NETWORK_FILES
    assert [note.partition(":")[0] for note in ready.notes] == ["not sent"]
    told, first = done("weights", network, "--org", "jo"), hub.commit_of("jo/net", "main")
    assert f"capscore.load('infometic', backbone='embedded', weights='jo/net@{first}')" in told
    local = [(name, f"{name!r}, a folder on this machine only") for name in ("my-tower", "./gone")]
    for name, note in [*local, ("", "do not name their")]:
        config = InfoMetICConfig(**{**vars(NETWORK), "backbone": name})
        ready = plan_weights(write_network(tmp_path / f"net{len(name)}", config))
        assert note in ready.notes[0]
        assert f"backbone={name or '…'!r}, weights='{{repo}}@" in ready.loads


def test_folders_that_hold_no_weights(checkpoints, tmp_path):
    with pytest.raises(InputError, match="neither a folder nor one of the installed weights"):
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


@pytest.mark.parametrize("tower", ["{clip}", "./clip", "~/clip", "C:\\clip", ""])
def test_a_tower_that_only_this_machine_has(student, checkpoints, tower):
    change(student / "capscore_student.json", image_tower=tower.format(clip=checkpoints("clip").spec))
    if not tower:  # of none it is said that the reader has to name one
        assert "image_tower=" in done("weights", student, "--org", "jo", "--dry-run")
        return
    with pytest.raises(CapscoreError, match=r"image_tower is .*, a folder on this machine only"):
        plan_weights(student)


CARDS = {"language: [de]": "has no license", "license: mit": "has no language"}
CARDS |= dict.fromkeys(("license: [mit\nlanguage", "- de"), "README.md cannot be read")


@pytest.mark.parametrize("front", CARDS)
def test_cards_that_say_too_little(student, front):
    (student / "README.md").write_text(f"---\n{front}\n---\n# Tiny\n")
    with pytest.raises(CapscoreError, match=CARDS[front]):
        plan_weights(student)
