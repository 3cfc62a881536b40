"""A folder that a recipe wrote → the files to publish as weights; files, card and weights are checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..backbones import checkpoint, find, load_backbone
from ..backbones.base import BackboneOptions
from ..benchmarks.result_file import read_documents
from ..errors import CapscoreError, InputError, Setting
from ..files.shipped import has_weights, offered_weights, weights_folder
from .eval_results import FOLDER as EVAL_RESULTS
from .eval_results import eval_result_files
from .push import CARD, Plan, files_in, read_card

IMAGE_TOWER, NETWORK, MARK_CALIBRATION = "image_tower", "infometic", "mark_calibration"
OPEN_CLIP = "open_clip"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
RUN = "run.json"  # facts of the card, with paths of this machine
Files = dict[str, Path | bytes]
_FOR_PEOPLE = (CARD, "LICENSE", "LICENCE", "NOTICE", "CITATION", f"{EVAL_RESULTS}/")


def plan_weights(folder: str | Path, results: Sequence[str | Path] = (), org: str = "") -> Plan:
    """Check a folder, and list what to push from it."""
    folder = _weights_in(str(folder))
    kind = weights_kind(folder)
    text = _checked_card(folder / CARD)
    paths = files_in(folder)
    read = _files_read(kind, [*paths])
    files: Files = {}
    for name, path in paths.items():
        if name in read or f"]({name})" in text or name.startswith(_FOR_PEOPLE):
            files[name] = path
    weights = checkpoint.OPEN_CLIP_WEIGHTS[0] if kind == OPEN_CLIP else WEIGHTS
    if weights not in files:
        raise CapscoreError(f"{folder} has no {weights}")
    loads, notes = _load(folder, kind)
    if len(files) < len(paths):
        notes.append(f"not sent: {', '.join(name for name in paths if name not in files)}")
    if results:
        measured, remarks = _results_of(folder, kind, results, org)
        files |= measured
        notes += remarks
    return Plan("model", files, loads, partial(_files_read, kind), folder.name.replace("_", "-"), notes)


def _weights_in(name: str) -> Path:
    """A folder, by its path or by the name of installed weights."""
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    if has_weights(name):
        return weights_folder(name)
    installed = ", ".join(offered_weights()) or "there are none"
    expected = f" is neither a folder nor one of the installed weights: {installed}"
    raise InputError(Setting("folder", name), expected)


def _checked_card(path: Path) -> str:
    """Text of the card, which must name a licence and languages."""
    if not path.is_file():
        raise CapscoreError(
            f"{path.parent} has no {CARD}: write its card with training.engine.model_card.write_card"
        )
    card = read_card(path)
    for name, example in (("license", "apache-2.0"), ("language", "[de, en]")):
        if not card.data.get(name):
            raise CapscoreError(f"the front matter of {path} has no {name}, such as {name}: {example}")
    return card.text


def _results_of(folder: Path, kind: str, results: Sequence[str | Path], org: str) -> tuple[Files, list[str]]:
    """Files of `.eval_results/` about exactly these weights, and a remark where there are none."""
    if kind == MARK_CALIBRATION:
        return {}, []
    if kind == NETWORK:
        from ..infometic.network import InfoMetIC

        revision = InfoMetIC.from_pretrained(folder, device="cpu").revision
    else:
        revision = load_backbone(folder, device="cpu").revision
    documents = [document for _, document in read_documents(results)]
    files = eval_result_files(documents, org, revision=revision)
    if files:
        return {name: text.encode("utf-8") for name, text in files.items()}, []
    named = ", ".join(map(str, results))
    return {}, [f"no results of these weights ({revision}) on all rows of a benchmark in {named}"]


def weights_kind(folder: Path) -> str:
    """What a folder holds: "tuned", "student" or one of the names above; or an error."""
    from ..infometic import mark_calibration, network

    kind = checkpoint.folder_kind(folder)
    if kind in ("tuned", "student", OPEN_CLIP):
        return kind
    if kind == "embedded":
        return IMAGE_TOWER
    config = checkpoint.read_config(folder / CONFIG) if (folder / CONFIG).is_file() else {}
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
    if kind in ("tuned", "student", OPEN_CLIP):
        return checkpoint.needed_files([name for name in names if name != RUN])
    return [
        name
        for name in names
        if name in (CONFIG, WEIGHTS, checkpoint.STUDENT_MARKER, *checkpoint.TUNED_FILES)
    ]


def _load(folder: Path, kind: str) -> tuple[str, list[str]]:
    """Load the weights as far as possible; returns the call that loads them from the Hub, and remarks."""
    load = "capscore.load(…, backbone='{repo}@{commit}')"
    if kind == OPEN_CLIP:
        load_backbone(folder, device="cpu")
        return load, []
    if kind == IMAGE_TOWER:
        from ..backbones.embedded.backbone import load_image_tower

        load_image_tower(folder)
        return load, []
    if kind not in (NETWORK, MARK_CALIBRATION):
        return load, _load_text_tower(folder, kind)
    notes = []
    if kind == MARK_CALIBRATION:
        from ..infometic.mark_calibration import load_mark_calibration

        option, backbone = "marks", load_mark_calibration(folder).backbone
    else:
        from ..infometic.network import InfoMetIC

        option, backbone = "weights", InfoMetIC.from_pretrained(folder, device="cpu").config.backbone
        if not backbone:
            notes.append("the weights do not name their backbone: users must know it to load them")
        elif _is_local(backbone) or ("/" not in backbone and find(backbone) is None):
            why = f"the network reads the embeddings of {backbone!r}, a folder on this machine only"
            notes.append(f"{why}: users need that folder too, as backbone=…")
    load = f"capscore.load('infometic', backbone={backbone or '…'!r}, {option}='{{repo}}@{{commit}}')"
    return load, notes


def _load_text_tower(folder: Path, kind: str) -> list[str]:
    """Load a tower as far as possible; returns remarks."""
    from ..backbones import text_towers, tuned

    marker = folder / f"capscore_{kind}.json"
    content = checkpoint.read_config(marker)
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
    text_towers.read_student(folder)
    if content["image_tower"]:
        return []
    return ["the tower names no image tower: users must pass image_tower=…"]


def _is_local(spec: str) -> bool:
    """Whether a backbone is a folder on this machine."""
    if not spec or find(spec) is not None:
        return False
    return spec.startswith(("/", ".", "~")) or "\\" in spec or Path(os.path.expanduser(spec)).exists()
