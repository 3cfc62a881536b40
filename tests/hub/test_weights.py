"""Pushing towers and networks to a Hub on this machine; loading them back in a process that has nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from PIL import Image
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import capscore
from capscore.backbones.base import tensors_digest
from capscore.backbones.checkpoint import needed_files
from capscore.backbones.loading import load_backbone
from capscore.backbones.text_towers import StudentTextTower
from capscore.backbones.tokens import load_tokenizer
from capscore.backbones.tuned import save_tuned
from capscore.cli import app
from capscore.errors import CapscoreError, InputError
from capscore.hub.push import push
from capscore.hub.weights import plan_weights, weights_kind
from capscore.infometic.network import InfoMetIC, InfoMetICConfig
from tests import processes
from tests.backbones import tiny_transformers as tiny
from tests.backbones.loopback_hub import clean_environment
from tests.backbones.tiny_eye import write_eye
from training.engine.model_card import DataSource, ModelCard, write_card

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

Rows = tuple[list[str], list[str]]  # captions, paths of photos
CAPTIONS = ["a cat on the mat", "Zwei Hunde.", "кошка", "海辺", "a man and a dog"]
CARD = ModelCard(
    name="tiny",
    recipe="teacher_learning",
    base="org/encoder",
    languages=["de", "en"],
    license="apache-2.0",
    command="python -m training.teacher_learning --config tiny.yaml",
    settings={"epochs": 5},
    data=[DataSource("Invented captions", "CC0", rows=5)],
)
STUDENT = {
    "README.md",
    "capscore_student.json",
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    return tiny.write_clip(tmp_path_factory.mktemp("clip") / "clip")


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Rows:
    """Every caption with every photo."""
    folder = tmp_path_factory.mktemp("photos")
    photos = [folder / f"{number}.png" for number in range(5)]
    for path, photo in zip(photos, tiny.random_photos(5), strict=True):
        photo.save(path)
    pairs = [(caption, str(path)) for caption in CAPTIONS for path in photos]
    return [caption for caption, _ in pairs], [path for _, path in pairs]


def towards_photos(backbone) -> torch.Tensor:
    """Where the photos are: random towers point elsewhere, and would score 0."""
    return torch.tensor(backbone.encode_images(tiny.random_photos())).mean(0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory, clip) -> Path:
    """A student with its card; not to be changed."""
    folder = tmp_path_factory.mktemp("saved")
    encoder = tiny.tiny_encoder(folder / "tokenizer", "distilbert")
    tower = StudentTextTower(
        encoder, load_tokenizer(folder / "tokenizer", encoder.config), dim=16, image_tower="org/clip"
    )
    tiny.randomise(tower, seed=3)
    with torch.no_grad():
        tower.projection.bias += 2 * towards_photos(load_backbone(clip, device="cpu"))
    tower.save_pretrained(folder / "student")
    write_card(folder / "student", CARD)
    return folder / "student"


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(saved, tmp_path / "student"))


@pytest.fixture
def hub(hub, clip):
    """The Hub with the image tower on it; the user is logged in as "jo"."""
    hub.add("org/clip", clip)
    return hub


def run(folder: Path, repo_id: str, *options: object):
    org, _, name = repo_id.partition("/")
    arguments = ["publish", "weights", folder, "--org", org, "--name", name, *options]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def failed(*arguments: object, code: int = 1) -> str:
    """What a command that must fail says: one line, whatever it is."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    (line,) = (line for line in result.stderr.splitlines() if "error: " in line)
    assert "Traceback" not in result.output
    return line.partition("error: ")[2]


SCORE = """
import json, sys
import torch
torch.set_num_threads(1)
import capscore, evaluate
job = json.loads(sys.argv[1])
found = {}
for backbone in job["backbones"]:
    result = capscore.load("mcs", backbone=backbone, device="cpu", cache=False).score(*job["rows"])
    found[backbone] = [result.scores.tolist(), result.signature]
metric, options = "mcs", {"backbone": job["backbones"][-1]} if job["backbones"] else {}
for weights in job["networks"]:
    metric, options = "infometic", {"backbone": "embedded", "weights": weights}
    scorer = capscore.load(metric, device="cpu", cache=False, **options)
    result = scorer.score(*job["rows"], **job["besides"])
    found[weights] = [result.scores.tolist(), result.signature]
module = evaluate.load(capscore.module_folder(metric), device="cpu", cache=False, **options)
result = module.compute(predictions=job["rows"][0], images=job["rows"][1], **job["besides"])
found["module"] = [result["scores"], result["signature"]]
print(json.dumps(found))
"""


def scored_elsewhere(
    hub, tmp_path, *backbones: str, networks: tuple[str, ...] = (), rows: Rows, **besides: object
) -> dict[str, list]:
    """Scores and signature a backbone, in a process with an empty cache that reaches the Hub without a token.

    Of networks likewise, with the embedded backbone and with what else belongs to their rows. Under "module"
    those of the evaluate module with the last of them.
    """
    environment = clean_environment(hub, tmp_path / "elsewhere") | {"HF_EVALUATE_OFFLINE": "1"}
    job = {"backbones": backbones, "networks": networks, "rows": rows, "besides": besides}
    done = processes.run(["-c", SCORE, json.dumps(job)], env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def scored_here(folder: Path, rows: Rows, image_tower: Path | None = None):
    backbone = load_backbone(folder, device="cpu", image_tower=image_tower and str(image_tower))
    scores = capscore.load("mcs", backbone=backbone, cache=False).score(*rows).scores
    assert len(set(scores.tolist())) > 5, "scores that say something: most are cut at 0"
    # another process may round differently
    return pytest.approx(scores.tolist(), abs=1e-6)


# There and back


def test_pushed(hub, saved):
    result = run(saved, "jo/tiny", "--tag", "v1")
    assert result.exit_code == 0, result.output
    commit = hub.commit_of("jo/tiny", "main")
    assert f"created and filled jo/tiny: {hub.url}/jo/tiny/commit/{commit}" in result.stdout
    assert f"capscore.load(…, backbone='jo/tiny@{commit}')" in result.stdout
    assert hub.steps == ["create", "lfs", "commit", "tag"]
    assert hub.commit_of("jo/tiny", "v1") == commit
    held = hub.files_of("jo/tiny")
    assert held.keys() == {*STUDENT, ".gitattributes"}
    assert all(held[name] == (saved / name).read_bytes() for name in STUDENT)


def test_loaded_back_with_the_same_scores(hub, saved, tuned, clip, rows, tmp_path):
    changed = Path(shutil.copytree(saved, tmp_path / "changed"))
    weights = load_file(changed / "model.safetensors")
    weights["projection.bias"] += 1
    save_file(weights, changed / "model.safetensors", metadata={"format": "pt"})

    first = push(plan_weights(saved), "jo/tiny", tag="v1").commit
    bold = push(plan_weights(changed), "jo/tiny", revision="bold")
    assert not bold.created and bold.changed and hub.messages[-1] == "Upload changed with capscore"
    ready = plan_weights(tuned)
    assert ready.files.keys() == {"README.md", "capscore_tuned.json", "model.safetensors"}
    further = push(ready, "jo/tuned").commit
    hub.served.clear()

    specs = ("jo/tiny", "jo/tiny@v1", f"jo/tiny@{first}", "jo/tiny@bold", f"jo/tuned@{further}", "jo/tuned")
    found = scored_elsewhere(hub, tmp_path, *specs, rows=rows)
    here = scored_here(saved, rows, clip)
    for spec in specs[:3]:
        assert found[spec][0] == here and f"backbone:jo/tiny@{first}" in found[spec][1]
    assert found["jo/tiny@bold"][0] == scored_here(changed, rows, clip)
    assert found["jo/tiny@bold"][0] != here
    assert f"backbone:jo/tiny@{bold.commit}" in found["jo/tiny@bold"][1]
    for spec in (*specs[4:], "module"):
        assert found[spec][0] == scored_here(tuned, rows)
        assert found[spec][0] != here
        assert f"backbone:jo/tuned@{further}" in found[spec][1]
    assert {name for name in hub.served if name.startswith("jo/")} == {
        *(f"jo/tiny/{name}" for name in STUDENT - {"README.md"}),
        "jo/tuned/capscore_tuned.json",
        "jo/tuned/model.safetensors",
    }


@pytest.fixture
def tuned(hub, clip, tmp_path) -> Path:
    """The text tower of the CLIP that is on the Hub, some steps towards the photos."""
    base, trained = (load_backbone("org/clip", device="cpu") for _ in range(2))
    optimizer = torch.optim.SGD(trained.text_network().requires_grad_(True).parameters(), lr=0.02)
    for _ in range(10):
        optimizer.zero_grad()
        texts = trained.embed_tokens(trained.tokenize(CAPTIONS).ids)
        (-texts @ towards_photos(trained)).mean().backward()
        optimizer.step()
    folder = tmp_path / "tuned"
    save_tuned(trained, folder, base=base, base_spec="org/clip", recipe="pr_mcs", languages=["en"])
    write_card(folder, CARD)
    return folder


def test_the_command_as_people_type_it(saved, tmp_path):
    """Without any network or token, as the tests are run."""
    done = processes.run(
        ["-m", "capscore", "publish", "weights", saved, "--org", "jo", "--name", "tiny", "--dry-run"],
        env={**os.environ, "HF_HOME": str(tmp_path), "COLUMNS": "100"},
        cwd=Path(capscore.__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    for name in STUDENT:
        assert name in done.stdout
    assert "dry run: 6 files, " in done.stdout and "to jo/tiny in one commit" in done.stdout


# Trial runs


def test_a_dry_run_asks_nobody(hub, folder, monkeypatch):
    (folder / "log.jsonl").write_text("{}\n")
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.broken = True
    result = run(folder, "jo/tiny", "--dry-run", "--private", "--tag", "v1", "--revision", "next")
    assert result.exit_code == 0, result.output
    assert re.search(r"log\.jsonl .* not sent", result.stdout)
    assert hub.steps == [] and set(hub.repos) == {"org/clip"}


def test_a_dry_run_fails_where_the_push_would(folder):
    (folder / "README.md").unlink()
    assert "has no README.md" in failed(folder, "jo/tiny", "--dry-run")


# What is sent


def test_what_training_leaves_is_left(folder):
    left = {
        "log.jsonl",
        "events.out.tfevents.1",
        "training_args.bin",
        "checkpoints/step-000100/model.safetensors",
        "checkpoints/step-000100/optimizer.pt",
        ".cache/huggingface/x.json",
        "deeper/config.json",
        "curve.png",
    }
    for name in [*left, "LICENSE"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    ready = plan_weights(folder)
    assert ready.left_out.keys() == left
    assert ready.files.keys() == STUDENT | {"LICENSE"}

    card = folder / "README.md"
    card.write_text(card.read_text() + "\n![The loss](curve.png)\n")
    asked = plan_weights(folder, ["log.jsonl", "checkpoints/*/model*"])
    further = {"LICENSE", "curve.png", "log.jsonl", "checkpoints/step-000100/model.safetensors"}
    assert asked.files.keys() == STUDENT | further


def test_included_checkpoints_are_not_downloaded_with_the_tower():
    student = ["capscore_student.json", "config.json", "model.safetensors"]
    assert needed_files([*student, "checkpoints/1/config.json", "checkpoints/1/model.safetensors"]) == student
    tuned = ["README.md", "capscore_tuned.json", "model.safetensors", "result.json", "text_tower/config.json"]
    assert needed_files(tuned) == ["capscore_tuned.json", "model.safetensors"]


def test_pickles_never(folder):
    (folder / "optimizer.pt").write_bytes(b"\x80\x04")
    assert "optimizer.pt" in plan_weights(folder).left_out
    with pytest.raises(CapscoreError, match=r"optimizer\.pt is a pickle, which may run code"):
        plan_weights(folder, ["optimizer.*"])


def test_a_pattern_that_fits_nothing(folder):
    (folder / "log.jsonl").write_text("{}")
    message = failed(folder, "jo/tiny", "--include", "log.json", "--dry-run", code=2)
    assert "--include log.json matches no file" in message


# Eyes


def test_an_eye_there_and_back(hub, tmp_path):
    folder = write_eye(tmp_path / "eye", languages=["de", "en"], w=1.5)
    with pytest.raises(CapscoreError, match=r"has no README.md"):
        plan_weights(folder)
    write_card(folder, replace(NETWORK_CARD, recipe="eye"))
    (folder / "log.jsonl").write_text("{}")
    ready = plan_weights(folder)
    assert ready.files.keys() == {"README.md", "config.json", "model.safetensors"}
    pushed = push(ready, "jo/eye")
    there, here = (capscore.load_backbone(spec, device="cpu") for spec in ("jo/eye", folder))
    assert there.revision == pushed.commit and there.w == here.w == 1.5
    photo = Image.new("RGB", (40, 30), "teal")
    np.testing.assert_allclose(there.encode_images([photo]), here.encode_images([photo]), atol=1e-6)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(CapscoreError, match=r"model.safetensors"):
        plan_weights(folder)


# What is no tower, or not for others


def test_folders_that_are_no_tower(folder, clip, tmp_path):
    assert "gone is no folder" in failed(tmp_path / "gone", "jo/tiny", "--dry-run", code=2)
    with pytest.raises(
        CapscoreError,
        match=r"expected capscore_student.json, .* network or of its mark calibration",
    ):
        plan_weights(clip)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CapscoreError, match="nothing that a recipe finished"):
        plan_weights(tmp_path / "empty")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:1000])
    with pytest.raises(CapscoreError, match=r"model.safetensors cannot be read"):
        plan_weights(folder)
    weights.unlink()
    with pytest.raises(CapscoreError, match=r"has no model.safetensors"):
        plan_weights(folder)
    weights.write_bytes(whole)
    plan_weights(folder)


def test_weights_that_are_no_numbers(folder):
    weights = load_file(folder / "model.safetensors")
    weights["projection.bias"][3] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CapscoreError, match=r"model.safetensors: projection.bias holds NaN or infinity"):
        plan_weights(folder)


@pytest.mark.parametrize("tower", ["{clip}", "./clip", "~/clip", "C:\\clip"])
def test_a_tower_that_only_this_machine_has(folder, clip, tower):
    change(folder / "capscore_student.json", image_tower=tower.format(clip=clip))
    with pytest.raises(CapscoreError, match=r"image_tower is .*clip', a folder on this machine only"):
        plan_weights(folder)


def test_a_student_without_an_image_tower_says_so(folder):
    change(folder / "capscore_student.json", image_tower="")
    (note,) = plan_weights(folder).notes
    assert "image_tower=" in note
    assert "note: the tower names no image tower" in run(folder, "jo/tiny", "--dry-run").stderr


def test_a_fine_tuned_tower_whose_base_is_gone(hub, tuned, monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "emptied"))
    hub.repos.pop("org/clip")
    with pytest.raises(CapscoreError, match=r"was fine-tuned from org/clip@[0-9a-f]{40}: .*not on the Hub"):
        plan_weights(tuned)


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


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
def test_cards_that_say_too_little(folder, front, message):
    (folder / "README.md").write_text(f"---\n{front}\n---\n# Tiny\n")
    with pytest.raises(CapscoreError, match=message):
        plan_weights(folder)


@pytest.mark.parametrize("repo_id", ["jo/tiny/more", "jo/tiny--"])
def test_what_is_no_hub_id(saved, repo_id):
    assert "is not a Hub id" in failed(saved, repo_id, "--dry-run", code=2)


# What is there already


def test_the_same_again_makes_no_commit(hub, saved):
    first = push(plan_weights(saved), "jo/tiny")
    again = push(plan_weights(saved), "jo/tiny", overwrite_card=True)
    assert (again.changed, again.commit, again.created) == (False, first.commit, False)
    assert hub.steps == ["create", "lfs", "commit"]
    assert "already has all files; no commit was made" in run(saved, "jo/tiny").stdout


def test_another_card_is_kept_unless_told(hub, folder):
    push(plan_weights(folder), "jo/tiny")
    before = hub.files_of("jo/tiny")["README.md"]
    (folder / "README.md").write_text((folder / "README.md").read_text() + "More.\n")
    change(folder / "capscore_student.json", teacher="another")
    result = run(folder, "jo/tiny")
    assert result.exit_code == 0 and "the card on the Hub differs and was kept" in result.stdout
    held = hub.files_of("jo/tiny")
    assert held["README.md"] == before and b"another" in held["capscore_student.json"]
    assert not push(plan_weights(folder), "jo/tiny", overwrite_card=True).kept_card
    assert hub.files_of("jo/tiny")["README.md"].endswith(b"More.\n")


def test_files_there_that_loading_would_read_too(hub, folder):
    (folder / "added_tokens.json").write_text("{}")
    push(plan_weights(folder), "jo/tiny")
    (folder / "added_tokens.json").unlink()
    before, steps = hub.files_of("jo/tiny"), list(hub.steps)
    message = failed(folder, "jo/tiny")
    assert "files that loading would read" in message and "added_tokens.json; --delete-stale" in message
    assert hub.files_of("jo/tiny") == before and hub.steps == steps
    result = run(folder, "jo/tiny", "--delete-stale")
    assert result.exit_code == 0 and "deleted on the Hub: added_tokens.json" in result.stdout
    assert hub.files_of("jo/tiny").keys() == before.keys() - {"added_tokens.json"}


def test_branches_and_tags(hub, folder):
    first = push(plan_weights(folder), "jo/tiny", tag="v1").commit
    change(folder / "capscore_student.json", teacher="another")
    second = push(plan_weights(folder), "jo/tiny", revision="next").commit
    assert hub.commit_of("jo/tiny", "main") == first != second == hub.commit_of("jo/tiny", "next")
    steps = list(hub.steps)
    assert "has a tag 'v1' already; nothing was sent" in failed(folder, "jo/tiny", "--tag", "v1")
    assert hub.steps == steps


def test_private_repositories(hub, saved):
    push(plan_weights(saved), "jo/secret", private=True)
    assert "jo/secret" in hub.private
    push(plan_weights(saved), "jo/open")
    steps = list(hub.steps)
    assert "--private: jo/open exists and is public" in failed(saved, "jo/open", "--private")
    assert hub.steps == steps


def test_a_pull_request_to_somebody_else(hub, folder, monkeypatch):
    push(plan_weights(folder), "jo/tiny")
    before = hub.files_of("jo/tiny")
    change(folder / "capscore_student.json", teacher="another")
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    result = run(folder, "jo/tiny", "--create-pr")
    assert result.exit_code == 0, result.output
    assert f"{hub.url}/jo/tiny/discussions/1" in result.stdout
    assert hub.files_of("jo/tiny") == before
    assert b"another" in hub.files_of("jo/tiny", "refs/pr/1")["capscore_student.json"]


# What goes wrong


def test_no_token(hub, saved, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    message = failed(saved, "jo/tiny")
    assert "no token found" in message and "`hf auth login`" in message
    assert message.endswith("; nothing was sent")


def test_a_token_that_is_not_accepted(hub, saved, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    assert "HF_TOKEN environment variable is invalid" in failed(saved, "jo/tiny")
    assert set(hub.repos) == {"org/clip"}


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline(hub, saved, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    assert f"{variable} is set, so nothing was sent; --dry-run needs no network" in failed(saved, "jo/tiny")


def test_a_dead_hub(hub, saved, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    message = failed(saved, "jo/tiny")
    assert "the Hub (http://127.0.0.1:9)" in message and "nothing was sent" in message


def test_a_broken_hub(hub, saved):
    hub.broken = True
    assert "503" in failed(saved, "jo/tiny")


def test_somebody_elses_repository(hub, saved):
    hub.add("ann/tiny", saved)
    message = failed(saved, "ann/tiny", "--overwrite-card")
    assert "403" in message and "nothing was sent" in message
    assert "403" in failed(saved, "ann/new")
    assert hub.steps == []


def test_a_private_repository_of_somebody_else(hub, saved):
    hub.add("ann/secret", saved)
    hub.private.add("ann/secret")
    assert "403" in failed(saved, "ann/secret")


def test_a_gated_repository(hub, folder):
    push(plan_weights(folder), "jo/tiny")
    hub.gated.add("jo/tiny")
    change(folder / "capscore_student.json", teacher="another")
    assert "gated" in failed(folder, "jo/tiny").lower()


@pytest.mark.parametrize("step", ["preupload", "lfs-batch", "lfs", "commit"])
def test_a_failure_leaves_no_half_commit(hub, folder, step):
    commit = push(plan_weights(folder), "jo/tiny").commit
    before = hub.files_of("jo/tiny")
    weights = load_file(folder / "model.safetensors")
    weights["projection.bias"] += 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    hub.refused[step] = 422
    message = failed(folder, "jo/tiny")
    assert "422" in message and message.endswith("; nothing was sent")
    assert hub.commit_of("jo/tiny", "main") == commit and hub.files_of("jo/tiny") == before
    hub.refused.clear()
    assert push(plan_weights(folder), "jo/tiny").changed
    assert hub.files_of("jo/tiny")["model.safetensors"] == (folder / "model.safetensors").read_bytes()


def test_a_failure_says_what_was_made_before_it(hub, saved):
    hub.refused["commit"] = 422
    assert failed(saved, "jo/new").endswith("; nothing was sent")
    assert hub.files_of("jo/new").keys() == {".gitattributes"}
    hub.refused = {"tag": 422}
    message = failed(saved, "jo/new", "--tag", "v1")
    assert message.endswith(f"; the commit {hub.commit_of('jo/new', 'main')} is there, without a tag")


def test_somebody_who_is_faster(hub, folder):
    push(plan_weights(folder), "jo/tiny")
    change(folder / "capscore_student.json", teacher="another")
    preupload = hub.preupload

    def meanwhile(repo, revision, asked):
        hub.preupload = preupload
        hub.add(repo, hub._new_folder(repo))
        return preupload(repo, revision, asked)

    hub.preupload = meanwhile
    assert "A commit has happened since" in failed(folder, "jo/tiny")
    assert hub.files_of("jo/tiny") == {}


def test_a_card_that_the_hub_does_not_take(hub, folder):
    card = folder / "README.md"
    card.write_text(card.read_text().replace("license: apache-2.0", "license: my-own"))
    message = failed(folder, "jo/tiny")
    assert "the Hub" in message and "must be one of them" in message
    assert message.endswith("; nothing was sent") and "jo/tiny" not in hub.repos


def test_an_option_at_fault_is_data(saved):
    with pytest.raises(InputError) as caught:
        push(plan_weights(saved), "tiny")
    assert caught.value.option == "repo_id"


# A network of InfoMetIC


NETWORK_FILES = {"README.md", "config.json", "model.safetensors"}
NETWORK_CARD = replace(
    CARD,
    name="net",
    recipe="infometic",
    base="embedded",
    command="python -m training.infometic --config settings.yaml",
)
SMALL = InfoMetICConfig(width=8, heads=2, intra_layers=1, inter_layers=1)


def save_network(folder: Path, config: InfoMetICConfig, seed: int = 0) -> Path:
    """A network with its card, and what the recipe leaves beside it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = InfoMetIC(config)
    network.save_pretrained(folder, dtype="float16", notes={"recipe": "infometic", "languages": ["de", "en"]})
    write_card(folder, NETWORK_CARD)
    for name in ("settings.yaml", "result.json", "log.jsonl", "features/settings.json", "features/boxes.npy"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def network(tmp_path, embedded) -> Path:
    return save_network(tmp_path / "net", SMALL.on(embedded))


def test_a_network_is_planned(network):
    ready = plan_weights(network)
    assert weights_kind(network) == "infometic" and ready.notes == []
    assert ready.files.keys() == NETWORK_FILES
    assert ready.left_out.keys() == {
        *("settings.yaml", "result.json", "log.jsonl", "features/settings.json", "features/boxes.npy")
    }
    (network / "LICENSE").write_text("x")
    asked = plan_weights(network, ["settings.yaml"])
    assert asked.files.keys() == NETWORK_FILES | {"LICENSE", "settings.yaml"}


def test_a_network_there_and_back(hub, network, embedded, rows, tmp_path):
    result = run(network, "jo/net", "--tag", "v1")
    assert result.exit_code == 0, result.output
    first = hub.commit_of("jo/net", "main")
    told = f"load it: capscore.load('infometic', backbone='embedded', weights='jo/net@{first}')"
    assert told in " ".join(result.stdout.split())
    held = hub.files_of("jo/net")
    assert held.keys() == {*NETWORK_FILES, ".gitattributes"}
    assert all(held[name] == (network / name).read_bytes() for name in NETWORK_FILES)
    assert hub.messages == ["Upload net with capscore"]

    other = save_network(tmp_path / "other", SMALL.on(embedded), seed=1)
    second = push(plan_weights(other), "jo/net").commit
    hub.served.clear()
    rows = tuple(column[:7] for column in rows)
    boxes = [[[0, 0, 4, 4], [1, 1, 7, 5]]] * 7
    found = scored_elsewhere(hub, tmp_path, networks=("jo/net@v1", "jo/net"), rows=rows, boxes=boxes)
    assert {name for name in hub.served if name.startswith("jo/")} == {
        "jo/net/config.json",
        "jo/net/model.safetensors",
    }

    def here(folder: Path) -> list[float]:
        scorer = capscore.load("infometic", backbone=embedded, weights=folder, cache=False)
        scores = scorer.score(*rows, boxes=boxes).scores.tolist()
        assert len(set(scores)) == 7
        return scores

    # another process may have other numbers of threads, which round differently
    before, now = here(network), here(other)
    assert found["jo/net@v1"][0] == pytest.approx(before, abs=1e-5)
    assert before != pytest.approx(now, abs=1e-2)
    assert f"|weights:jo/net@{first}|" in found["jo/net@v1"][1]
    for spec in ("jo/net", "module"):
        assert found[spec][0] == pytest.approx(now, abs=1e-5)
        assert f"|weights:jo/net@{second}|" in found[spec][1]


def test_a_network_as_the_recipe_saves_it(hub, tmp_path, embedded):
    """Trained for two steps, pushed, and loaded from there."""
    from training.infometic import Settings, train

    data = tmp_path / "captions.jsonl"
    rows = [
        {"caption": f"A {colour} dog runs.", "language": "en", "stand_in": f"Ein Hund, {colour}."}
        for colour in ("red", "green", "blue", "black", "white", "brown")
    ]
    data.write_text(
        "".join(json.dumps({**row, "region_texts": ["a dog"], "mentioned": [0]}) + "\n" for row in rows)
    )
    small = {"width": 8, "heads": 2, "intra_layers": 1, "inter_layers": 1}
    run_settings = Settings(
        out=str(tmp_path / "run"), base="embedded", data=[str(data)], batch_size=3, max_steps=2,
        license="apache-2.0", data_license="CC0", tasks=["coarse", "text"], checkpoint_every=1, **small,
    )  # fmt: skip
    train(run_settings)
    ready = plan_weights(tmp_path / "run")
    assert ready.files.keys() == NETWORK_FILES and "backbone='embedded'" in ready.loads
    assert {"settings.yaml", "result.json"} <= ready.left_out.keys()
    commit = push(ready, "jo/run").commit
    loaded = InfoMetIC.from_pretrained(f"jo/run@{commit}", backbone=embedded)
    ours = InfoMetIC.from_pretrained(tmp_path / "run")
    assert loaded.revision == commit and loaded.fingerprint() == ours.fingerprint()


def test_networks_that_are_torn(network, embedded, tmp_path):
    weights, config = network / "model.safetensors", network / "config.json"
    whole, said = weights.read_bytes(), config.read_bytes()
    weights.write_bytes(whole[:1000])
    with pytest.raises(CapscoreError, match=r"model.safetensors cannot be read"):
        plan_weights(network)
    weights.write_bytes(
        (save_network(tmp_path / "other", SMALL.on(embedded), seed=1) / weights.name).read_bytes()
    )
    with pytest.raises(CapscoreError, match=r"does not belong to config.json"):
        plan_weights(network)
    weights.unlink()
    with pytest.raises(CapscoreError, match=r"has no model.safetensors"):
        plan_weights(network)
    weights.write_bytes(whole)
    change(config, format=99)
    with pytest.raises(CapscoreError, match=r"is of format 99"):
        plan_weights(network)
    config.write_bytes(said[:40])
    with pytest.raises(CapscoreError, match=r"config.json cannot be read"):
        plan_weights(network)
    config.write_bytes(said)
    plan_weights(network)


def test_a_network_of_no_numbers(network):
    weights = load_file(network / "model.safetensors")
    name = min(weights)
    weights[name].view(-1)[0] = torch.inf
    save_file(weights, network / "model.safetensors", metadata={"format": "pt"})
    change(network / "config.json", weights=tensors_digest(weights))
    with pytest.raises(CapscoreError, match=rf"model.safetensors: {re.escape(name)} holds NaN or infinity"):
        plan_weights(network)


def test_a_network_without_its_card(network):
    (network / "README.md").unlink()
    assert "has no README.md" in failed(network, "jo/net", "--dry-run")


@pytest.mark.parametrize(
    "name, note",
    [("my-tower", "of 'my-tower', a folder on this machine only"), ("", "do not name their backbone")],
)
def test_a_network_whose_backbone_others_do_not_have(tmp_path, name, note):
    network = save_network(tmp_path / "net", InfoMetICConfig(**{**vars(SMALL), "backbone": name}))
    ready = plan_weights(network)
    (said,) = ready.notes
    assert note in said
    assert f"backbone={name or '…'!r}, weights='{{repo}}@" in ready.loads


def test_a_network_does_not_replace_a_tower_silently(hub, network, saved, tuned):
    push(plan_weights(saved), "jo/tower")
    push(plan_weights(tuned), "jo/tuned")
    steps = list(hub.steps)
    for repo, marker in (("jo/tower", "capscore_student.json"), ("jo/tuned", "capscore_tuned.json")):
        assert f"{repo} has further files that loading would read: {marker}; " in failed(network, repo)
    assert hub.steps == steps


def test_further_files_of_a_network_on_the_hub_stay(hub, network):
    """What loading does not read is in nobody's way."""
    push(plan_weights(network, ["result.json"]), "jo/net")
    change(network / "config.json", notes={"recipe": "infometic", "steps": 7})
    assert push(plan_weights(network), "jo/net").deleted == []
    assert "result.json" in hub.files_of("jo/net")
