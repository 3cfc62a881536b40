"""A folder that a recipe wrote → the files to publish as weights; files, card and weights are checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from ..errors import CapscoreError, InputError, Setting
from .plan import CARD, Plan, PublishedFile, read_card

KINDS = ("tuned", "student")  # in the order in which loading tries them
IMAGE_TOWER = "image_tower"
NETWORK = "infometic"
MARK_CALIBRATION = "mark-calibration"
# Front matter of the cards of InfoMetIC's weights, by which the Hub finds them and shows how to load them.
_FRONT_MATTER = {"library_name": "capscore", "pipeline_tag": "feature-extraction"}
WEIGHTS = "model.safetensors"
# The line that loads what was published.
_HOW_TOWER = "capscore.load(…, backbone='{place}')"
_HOW = {
    NETWORK: "capscore.load('infometic', backbone={backbone}, weights='{place}')",
    MARK_CALIBRATION: "capscore.load('infometic', backbone={backbone}, marks='{place}')",
}
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
# Files for people, besides what loading reads.
_ALONG = (CARD, "LICENSE*", "LICENCE*", "NOTICE*", "CITATION*", "text_tower/*")
# What a training run leaves, even under names that loading would read.
_REMAINS = (
    *("checkpoint*/*", "step-*/*", "runs/*", "wandb/*", "features/*"),
    *("optimizer*", "optimiser*", "scheduler*", "scaler*", "random_states*", "rng_state*"),
    *("training_state*", "trainer_state*", "training_args*"),
    *("log.*", "*.log", "*.jsonl", "events.out.tfevents*"),
)


def plan_weights(folder: str | Path, include: Sequence[str] = ()) -> Plan:
    """Check a folder, and list what to push from it.

    Reads only the local disk, unless the tower needs a backbone that is not downloaded yet.

    Args:
        folder: Saved student, fine-tuned tower, image tower or network of InfoMetIC, with its card.
        include: Patterns of further files to send ("log.jsonl", "checkpoints/step-000100/*").

    Raises:
        InputError: there is no such folder, or a pattern matches nothing.
        CapscoreError: the tower or network cannot be loaded, its weights are not finite, it needs a folder of
            this machine or contains pickles; the card is missing, lacks licence or languages, or belongs to
            something else; the files exceed the Hub's limits. Names the file.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise InputError(Setting("folder", str(folder)), ": there is no such folder")
    kind = _kind(folder)
    found = [
        PublishedFile.of(path, path.relative_to(folder).as_posix())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    files, left_out = _sort_out(folder, kind, found, include)
    _check_card(folder, kind)
    if not (folder / WEIGHTS).is_file():
        raise CapscoreError(f"{folder} has no {WEIGHTS}")
    backbone = ""
    notes: list[str] = []
    if kind == NETWORK:
        backbone, notes = _check_network(folder)
    elif kind == MARK_CALIBRATION:
        backbone = _check_mark_calibration(folder)
    else:
        notes = _check_tower(folder, kind)
    _check_weights(folder / WEIGHTS)
    return Plan(
        folder,
        kind,
        tuple(files),
        tuple(left_out),
        tuple(notes),
        backbone=backbone,
        name=folder.name.replace("_", "-"),
        how=_HOW.get(kind, _HOW_TOWER).replace("{backbone}", repr(backbone or "…")),
    )


def _kind(folder: Path) -> str:
    from ..backbones.checkpoint import folder_kind
    from ..infometic.folders import CONFIG

    kind = folder_kind(folder)
    if kind in KINDS:
        return kind
    if kind == "embedded":
        return IMAGE_TOWER
    if of_infometic := _kind_of_config(folder / CONFIG):
        return of_infometic
    raise CapscoreError(
        f"{folder} holds nothing that a recipe finished: expected capscore_student.json, "
        f"capscore_tuned.json, or the {CONFIG} of an image tower, of InfoMetIC's network or of its mark "
        "calibration"
    )


def replaceable_by(names: Collection[str], get: Callable[[str], Path]) -> tuple[tuple[str, ...], str]:
    """Kinds of weights that may replace what a repository holds, and what that is in words.

    Args:
        names: Names of its files.
        get: Gives the path of a file.
    """
    from ..backbones.checkpoint import STUDENT_MARKER, TUNED_FILES
    from ..infometic.network import CONFIG

    if not {STUDENT_MARKER, TUNED_FILES[0]}.isdisjoint(names):
        return KINDS, "a text tower"
    if CONFIG not in names:
        return (*KINDS, IMAGE_TOWER, NETWORK, MARK_CALIBRATION), "no model"
    known = {NETWORK: "a network of InfoMetIC", MARK_CALIBRATION: "a mark calibration of InfoMetIC"}
    kind = _kind_of_config(get(CONFIG))
    return ((kind,), known[kind]) if kind else ((*KINDS, IMAGE_TOWER), "another model")


def _kind_of_config(path: Path) -> str:
    """`NETWORK` or `MARK_CALIBRATION`, by the config file; "" for any other or no file."""
    from ..backbones.checkpoint import read_json
    from ..infometic import mark_calibration, network

    kinds = {network.MODEL_TYPE: NETWORK, mark_calibration.MODEL_TYPE: MARK_CALIBRATION}
    return kinds.get(str(read_json(path).get("model_type")), "") if path.is_file() else ""


def files_read(kind: str, names: Sequence[str]) -> list[str]:
    """The files that loading reads."""
    from ..backbones.checkpoint import needed_files
    from ..infometic.folders import CONFIG

    if kind in (NETWORK, MARK_CALIBRATION):
        return [name for name in names if name in (CONFIG, WEIGHTS)]
    return needed_files(names)


def _sort_out(
    folder: Path, kind: str, found: list[PublishedFile], include: Sequence[str]
) -> tuple[list[PublishedFile], list[tuple[PublishedFile, str]]]:
    names = [file.name for file in found]
    for pattern in include:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(Setting("include", pattern), f" matches no file in {folder}")
    read = set(files_read(kind, names))
    card = folder / CARD
    shown = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    files, left_out = [], []
    for file in found:
        asked = any(fnmatchcase(file.name, pattern) for pattern in include)
        reason = _remains(file.name)
        if reason == "hidden" or (reason and not asked):
            left_out.append((file, reason))
        elif file.path.suffix.lower() in PICKLES:
            raise CapscoreError(
                f"{file.path} is a pickle, which may run code on the machine of whoever loads it: it is not "
                "sent. Use safetensors for weights, and take it out of the folder"
            )
        elif asked or file.name in read or _goes_along(file.name) or f"]({file.name})" in shown:
            files.append(file)
        else:
            left_out.append((file, "loading does not read it"))
    return files, left_out


def _remains(name: str) -> str:
    """What a run left the file as, "" if it is not a leftover."""
    if any(part.startswith(".") for part in PurePosixPath(name).parts):
        return "hidden"
    is_left = any(fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}") for pattern in _REMAINS)
    return "left by the training" if is_left else ""


def _goes_along(name: str) -> bool:
    return any(fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for pattern in _ALONG)


def _check_card(folder: Path, kind: str) -> None:
    path = folder / CARD
    if not path.is_file():
        raise CapscoreError(
            f"{folder} has no {CARD}: write its card with training.engine.model_card.write_card"
        )
    data = read_card(path.read_text(encoding="utf-8"), path)
    for name, example in (("license", "apache-2.0"), ("language", "[de, en]")):
        if not data.get(name):
            raise CapscoreError(f"the front matter of {path} says no {name}, such as {name}: {example}")
    if data.get("license") == "other" and not (data.get("license_name") and data.get("license_link")):
        raise CapscoreError(f"{path} says license: other, which needs license_name and license_link")
    # the tag of a network or mark calibration is what it is
    for name, expected in (
        {**_FRONT_MATTER, "tags": kind}.items() if kind in (NETWORK, MARK_CALIBRATION) else ()
    ):
        said = data.get(name)
        if expected != said and expected not in (said if isinstance(said, list) else ()):
            raise CapscoreError(f"the front matter of {path} says {name}: {said}; expected {expected}")


def _check_tower(folder: Path, kind: str) -> list[str]:
    """Load the tower as far as possible; returns remarks."""
    from ..backbones import text_towers, tuned
    from ..backbones.base import LoadOptions
    from ..backbones.checkpoint import read_json
    from ..backbones.embedded.backbone import load_image_tower
    from ..backbones.loading import load_backbone

    if kind == IMAGE_TOWER:
        load_image_tower(folder)
        return []
    marker = folder / f"capscore_{kind}.json"
    said = read_json(marker)
    for field in ("base", "image_tower"):
        spec = str(said.get(field) or "")
        if _is_of_this_machine(spec):
            raise CapscoreError(
                f"{marker}: {field} is {spec!r}, a folder on this machine only; push that one first, "
                "and name it by its id on the Hub"
            )
    if kind == "student":
        text_towers.StudentTextTower.from_pretrained(folder)
    else:
        tuned.load_folder(folder, LoadOptions(name=folder.name, load_backbone=load_backbone))
    if kind == "student" and not said["image_tower"]:
        return ["the tower names no image tower: whoever loads it has to give image_tower=…"]
    return []


def _check_network(folder: Path) -> tuple[str, list[str]]:
    """Load the network; returns the backbone that it was trained on, and remarks."""
    from ..backbones import find
    from ..infometic.network import InfoMetIC

    backbone = InfoMetIC.from_pretrained(folder, device="cpu").config.backbone
    if not backbone:
        return "", ["the weights do not name their backbone: whoever loads them has to know it"]
    if find(backbone) is None and ("/" not in backbone or _is_of_this_machine(backbone)):
        return backbone, [
            f"the network reads the embeddings of {backbone!r}, a folder on this machine only: whoever loads "
            "it needs that folder too, as backbone=…"
        ]
    return backbone, []


def _check_mark_calibration(folder: Path) -> str:
    """Load the mark calibration; returns the backbone that it was trained on."""
    from ..infometic.mark_calibration import load_mark_calibration

    return load_mark_calibration(folder).backbone


def _is_of_this_machine(spec: str) -> bool:
    from ..backbones import find

    if not spec or find(spec) is not None:
        return False
    return spec.startswith(("/", ".", "~")) or "\\" in spec or Path(os.path.expanduser(spec)).exists()


def _check_weights(path: Path) -> None:
    import torch
    from safetensors import safe_open

    with safe_open(path, framework="pt") as weights:
        for name in weights.keys():
            tensor = weights.get_tensor(name)
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise CapscoreError(f"{path}: {name} holds NaN or infinity")
