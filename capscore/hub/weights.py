"""A folder that a recipe wrote → the files to publish as weights; files, card and weights are checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..backbones import find
from ..backbones.loading import load_backbone
from ..benchmarks.result_file import read_documents
from ..errors import CapscoreError, InputError, Setting
from .eval_results import FOLDER as EVAL_RESULTS
from .eval_results import eval_result_files
from .push import CARD, Plan, read_card

IMAGE_TOWER, NETWORK, MARK_CALIBRATION = "image_tower", "infometic", "mark_calibration"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
RUN = "run.json"  # facts of the card, with paths of this machine
_FOR_PEOPLE = (CARD, "LICENSE", "LICENCE", "NOTICE", "CITATION", f"{EVAL_RESULTS}/")


def plan_weights(folder: str | Path) -> Plan:
    """Check a folder, and list what to push from it.

    Reads only the local disk, unless the tower needs a backbone that is not downloaded yet.

    Args:
        folder: Saved student, fine-tuned tower, image tower, or network or mark calibration of InfoMetIC,
            with its card.

    Raises:
        InputError: there is no such folder.
        CapscoreError: the weights cannot be loaded, are not finite, or need a folder of this machine; the
            card is missing, or says no licence or languages. Names the file.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise InputError(Setting("folder", str(folder)), ": there is no such folder")
    kind = weights_kind(folder)
    path = folder / CARD
    if not path.is_file():
        raise CapscoreError(
            f"{folder} has no {CARD}: write its card with training.engine.model_card.write_card"
        )
    card = path.read_text(encoding="utf-8", errors="replace")
    data = read_card(card, path)
    for name, example in (("license", "apache-2.0"), ("language", "[de, en]")):
        if not data.get(name):
            raise CapscoreError(f"the front matter of {path} has no {name}, such as {name}: {example}")
    files, left_out = _sorted_out(folder, kind, card)
    backbone, notes = _load(folder, kind)
    _check_finite(folder / WEIGHTS)
    loads = "capscore.load(…, backbone='{repo}@{commit}')"
    if kind in (NETWORK, MARK_CALIBRATION):
        option = "weights" if kind == NETWORK else "marks"
        loads = f"capscore.load('infometic', backbone={backbone or '…'!r}, {option}='{{repo}}@{{commit}}')"
    name = folder.name.replace("_", "-")
    notes += [f"not sent: {', '.join(left_out)}"] if left_out else []
    return Plan("model", files, loads, partial(_files_read, kind), name, notes)


def with_results(plan: Plan, folder: str | Path, results: Sequence[str | Path], org: str) -> Plan:
    """The plan with what files of results say about exactly these weights, for the Hub's leaderboards.

    Args:
        plan: Result of `plan_weights`.
        folder: Folder of the weights.
        results: Files that `capscore benchmark --output` wrote, or folders of them.
        org: Organisation or user on the Hub that has the data sets.

    Raises:
        InputError: a file is not of the schema; two results are of one metric on the same rows.
        MissingExtraError: jsonschema is not installed.
    """
    kind = weights_kind(Path(folder))
    if kind == MARK_CALIBRATION:
        return plan
    if kind == NETWORK:
        from ..infometic.network import InfoMetIC

        revision = InfoMetIC.from_pretrained(folder, device="cpu").revision
    else:
        revision = load_backbone(folder, device="cpu").revision
    documents = [document for _, document in read_documents(results)]
    found = eval_result_files(documents, org, revision=revision)
    named = ", ".join(map(str, results))
    notes = (
        [] if found else [f"no results of these weights ({revision}) on all rows of a benchmark in {named}"]
    )
    files = {name: text.encode("utf-8") for name, text in found.items()}
    return replace(plan, files={**plan.files, **files}, notes=[*plan.notes, *notes])


def weights_kind(folder: Path) -> str:
    """What a folder holds: "tuned", "student", `IMAGE_TOWER`, `NETWORK`, `MARK_CALIBRATION`; or an error."""
    from ..backbones.checkpoint import folder_kind, read_json
    from ..infometic import mark_calibration, network

    kind = folder_kind(folder)
    if kind in ("tuned", "student"):
        return kind
    if kind == "embedded":
        return IMAGE_TOWER
    config = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    kinds = {network.MODEL_TYPE: NETWORK, mark_calibration.MODEL_TYPE: MARK_CALIBRATION}
    if config.get("model_type") in kinds:
        return kinds[config["model_type"]]
    raise CapscoreError(
        f"{folder} holds no finished result of a recipe: expected capscore_student.json, "
        f"capscore_tuned.json, or the {CONFIG} of an image tower, of InfoMetIC's network or of its mark "
        "calibration"
    )


def _files_read(kind: str, names: Sequence[str]) -> list[str]:
    """Files that loading reads; of another kind those by which it would take the repository for that."""
    from ..backbones.checkpoint import STUDENT_MARKER, TUNED_FILES, needed_files

    if kind in ("tuned", "student"):
        return needed_files([name for name in names if name != RUN])
    return [name for name in names if name in (CONFIG, WEIGHTS, STUDENT_MARKER, *TUNED_FILES)]


def _sorted_out(folder: Path, kind: str, card: str) -> tuple[dict[str, Path], list[str]]:
    """Files to send by name, among them those that the card shows; and names of those that stay here."""
    paths = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
    }
    read = _files_read(kind, list(paths))
    files = {
        name: path
        for name, path in paths.items()
        if name in read or f"]({name})" in card or name.startswith(_FOR_PEOPLE)
    }
    if WEIGHTS not in files:
        raise CapscoreError(f"{folder} has no {WEIGHTS}")
    return files, [name for name in paths if name not in files]


def _load(folder: Path, kind: str) -> tuple[str, list[str]]:
    """Load the weights as far as possible; returns the backbone of InfoMetIC's, and remarks."""
    if kind == IMAGE_TOWER:
        from ..backbones.embedded.backbone import load_image_tower

        load_image_tower(folder)
        return "", []
    if kind == MARK_CALIBRATION:
        from ..infometic.mark_calibration import load_mark_calibration

        return load_mark_calibration(folder).backbone, []
    if kind != NETWORK:
        return "", _load_text_tower(folder, kind)
    from ..infometic.network import InfoMetIC

    backbone = InfoMetIC.from_pretrained(folder, device="cpu").config.backbone
    if not backbone:
        return "", ["the weights do not name their backbone: users must know it to load them"]
    if _is_local(backbone) or ("/" not in backbone and find(backbone) is None):
        why = f"the network reads the embeddings of {backbone!r}, a folder on this machine only"
        return backbone, [f"{why}: users need that folder too, as backbone=…"]
    return backbone, []


def _load_text_tower(folder: Path, kind: str) -> list[str]:
    from ..backbones import text_towers, tuned
    from ..backbones.base import BackboneOptions
    from ..backbones.checkpoint import read_json

    marker = folder / f"capscore_{kind}.json"
    content = read_json(marker)
    for name in ("base", "image_tower"):
        spec = str(content.get(name) or "")
        if _is_local(spec):
            raise CapscoreError(
                f"{marker}: {name} is {spec!r}, a folder on this machine only; push that one first, "
                "and name it by its id on the Hub"
            )
    if kind == "tuned":
        tuned.load_folder(folder, BackboneOptions(name=folder.name))
        return []
    text_towers.StudentTextTower.from_pretrained(folder)
    if content["image_tower"]:
        return []
    return ["the tower names no image tower: users must pass image_tower=…"]


def _is_local(spec: str) -> bool:
    """Whether a backbone is a folder on this machine."""
    if not spec or find(spec) is not None:
        return False
    return spec.startswith(("/", ".", "~")) or "\\" in spec or Path(os.path.expanduser(spec)).exists()


def _check_finite(path: Path) -> None:
    import torch
    from safetensors import safe_open

    with safe_open(path, framework="pt") as weights:
        for name in weights.keys():
            tensor = weights.get_tensor(name)
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise CapscoreError(f"{path}: {name} holds NaN or infinity")
