"""Image towers, students and fine-tuned backbones → folders that `capscore.load_backbone` reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from capscore.backbones import checkpoint, find
from capscore.backbones.base import DTYPES, PUBLISHED_W, Backbone, resolve_dtype, tensors_digest
from capscore.backbones.embedded.backbone import CONFIG, MAX_BYTES, MODEL_TYPE, TEXT_ENCODER
from capscore.backbones.embedded.backbone import FORMAT as TOWER_FORMAT
from capscore.backbones.embedded.image_tower import ImageTower
from capscore.backbones.text_towers import STUDENT_FORMAT, PairedBackbone, TextTower
from capscore.backbones.tuned import FORMAT, MARKER, Towers, cast, network_of, tokens_digest
from capscore.errors import CapscoreError, Setting
from capscore.text.languages import language_code

_COMMIT = re.compile(r"[0-9a-f]{40}")


def save_image_tower(
    image_tower: ImageTower,
    folder: str | Path,
    *,
    w: float = PUBLISHED_W,
    logit_scale: float = 1.0,
    languages: Iterable[str] | None = None,
    recipe: str = "",
    rated_from: str = "",
    notes: Mapping[str, object] | None = None,
) -> None:
    """Save an image tower to a folder that `load_backbone` reads; config.json comes last.

    Matrices are stored in float16 and vectors in float32. Other files stay; the folder of another model is
    refused, and so are weights that are not finite, too large for float16, or too many for `MAX_BYTES`. `w`,
    `logit_scale`, `recipe` and `rated_from` are those of `Backbone`; `languages` is None for those of the
    text encoder; `notes` are ready for JSON.
    """
    folder = Path(folder)
    checkpoint.refuse_other_models(folder, "embedded")
    state = image_tower.state_dict()
    # vectors are few, and rounding one moves every photo and text alike
    tensors = {name: tensor.half() if tensor.ndim > 1 else tensor.float() for name, tensor in state.items()}
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > MAX_BYTES:
        raise CapscoreError(f"the image tower's weights have {size:,} bytes; expected at most {MAX_BYTES:,}")
    if not min(w, logit_scale) > 0:
        raise CapscoreError(f"w={w} and logit_scale={logit_scale}: expected factors above 0")
    config = {
        "model_type": MODEL_TYPE,
        "format": TOWER_FORMAT,
        "network": image_tower.config.to_dict(),
        "w": float(w),
        "logit_scale": float(logit_scale),
        "languages": _codes(languages),
        "text_encoder": TEXT_ENCODER,
        "weights": "",
        **_stated(recipe=recipe, rated_from=rated_from),
        "notes": dict(notes or {}),
    }
    checkpoint.write_checkpoint(folder, CONFIG, config, tensors, "the image tower")


@dataclass(frozen=True)
class StudentRecord:
    """What the folder of a student says of it, besides its weights.

    `image_tower` is the spec of the teacher's for `load_backbone`, "" for none; `prefix` is put before every
    text; `languages` are the codes of the training; `logit_scale` is None for the image tower's.
    """

    image_tower: str = ""
    prefix: str = ""
    teacher: str = ""
    languages: Iterable[str] | None = None
    logit_scale: float | None = None


def save_student(tower: TextTower, folder: str | Path, record: StudentRecord) -> None:
    """Save a student's text tower to a folder that `load_backbone` reads; capscore_student.json comes last.

    Where that fails, an earlier one in the folder is unharmed.
    """
    marker = {"format": STUDENT_FORMAT, "dim": tower.dim, "max_tokens": tower.max_tokens}
    marker |= asdict(record) | {"languages": _codes(record.languages)}

    def save_more(folder: Path) -> None:
        tower.encoder.config.save_pretrained(folder)
        tower.tokenizer.save_pretrained(folder)

    checkpoint.write_checkpoint(
        Path(folder), checkpoint.STUDENT_MARKER, marker, tower.state_dict(), "the student", save_more
    )


def save_tuned(
    backbone: Backbone,
    folder: str | Path,
    *,
    base: Backbone,
    base_spec: str,
    recipe: str,
    languages: Iterable[str] | None = None,
    notes: Mapping[str, object] | None = None,
    dtype: str = "float32",
    towers: Towers = "text",
    rated_from: str = "",
) -> None:
    """Write what fine-tuning changed to a folder that `load_backbone` reads.

    The folder holds model.safetensors with the tensors that differ from the base's, and capscore_tuned.json,
    which comes last. Other files stay; a folder with another model's weights is refused.

    Args:
        backbone, base: Trained backbone, and the one that the training started from, both in float32.
        base_spec: Spec of the base for `load_backbone`. A commit is pinned if the base came from the Hub; the
            path of a folder is stored as an absolute one.
        languages: None for the backbone's.
        dtype: "float32", or "float16" for half the size and embeddings that differ by about 1e-3.
        towers: Network that was trained: "text", `Backbone.text_network`, or "both", `Backbone.network`.
    """
    folder, stored = Path(folder), resolve_dtype(dtype)
    if stored == "bfloat16":
        raise CapscoreError(Setting("dtype", dtype), ": weights are stored as float32 or float16")
    parts = _check_pair(backbone, base, towers)
    before = checkpoint.without_rebuilt(network_of(base, towers).state_dict())
    after = checkpoint.without_rebuilt(network_of(backbone, towers).state_dict())
    changed = _changed(before, after, grown=parts is not None)
    base_spec, commit = _absolute(base_spec.strip()), base.revision.partition("+")[0]
    if not base_spec or base_spec == _absolute(str(folder)):
        raise CapscoreError(Setting("base_spec", base_spec), ": expected another backbone, or another folder")
    if _COMMIT.fullmatch(commit) and "@" not in base_spec and not os.path.isabs(base_spec):
        base_spec = f"{base_spec}@{commit}"  # the text tower came from the Hub
    marker = {
        "format": FORMAT,
        "base": base_spec,
        "base_revision": base.revision,
        # a tower is cast when it is loaded, so there is a digest to check for every dtype
        "base_text": {name: tensors_digest(cast(before, getattr(torch, name))) for name in DTYPES},
        "base_tokens": tokens_digest(base),
        "image_tower": _absolute(base.image_tower) if isinstance(base, PairedBackbone) else "",
        "parts": parts,
        "prefix": backbone.prefix,
        "languages": _codes(backbone.languages if languages is None else languages),
        "weights": "",
        "recipe": recipe,
        **_stated(towers="" if towers == "text" else towers, rated_from=rated_from),
        "notes": dict(notes or {}),
    }
    checkpoint.refuse_other_models(folder, "tuned")
    tensors = cast(changed, getattr(torch, stored))
    checkpoint.write_checkpoint(folder, MARKER, marker, tensors, "the fine-tuned tower")


def _check_pair(backbone: Backbone, base: Backbone, towers: Towers) -> dict[str, object] | None:
    """Parts, ready for JSON, to add to the base before the tensors are put in; None if it has them all."""
    own, others = ({t.data_ptr() for t in network_of(b, towers).parameters()} for b in (backbone, base))
    parts, had = (getattr(model.text_network(), "parts", None) for model in (backbone, base))
    if type(backbone) is not type(base) or {backbone.dtype, base.dtype} != {"float32"}:
        problem = "a backbone and its base are of one kind, both in float32"
    elif own & others:
        problem = "backbone and base share their network"
    elif base.remade().fingerprint != base.fingerprint:
        problem = "the base has changed since it was loaded"
    elif tokens_digest(backbone) != tokens_digest(base):
        problem = "the backbone splits texts into other tokens than its base"
    elif parts != had and (parts is None or had is not None or towers == "both"):
        problem = f"the backbone has the parts {parts!r}, but its base has {had!r}"
    elif parts == had:
        return None
    else:
        return parts
    raise CapscoreError(f"{problem}: load the base {base.name!r} again, as the training started from it")


def _changed(
    before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor], *, grown: bool
) -> dict[str, torch.Tensor]:
    misfits = [name for name in before if name not in after or after[name].shape != before[name].shape]
    if not grown:
        misfits += after.keys() - before.keys()
    if misfits:
        raise CapscoreError(f"the network is not that of the base: {', '.join(sorted(misfits)[:3])} differ")
    changed = {name: tensor.detach().cpu() for name, tensor in after.items()}
    for name, tensor in before.items():
        if torch.equal(changed[name], tensor.cpu()):
            del changed[name]
    if not changed:
        raise CapscoreError("nothing was trained: every weight equals the base's")
    return changed


def _stated(**texts: str) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}


def _codes(languages: Iterable[str] | None) -> list[str] | None:
    return None if languages is None else sorted(set(map(language_code, languages)))


def _absolute(spec: str) -> str:
    """A spec as the marker stores it: the path of a folder becomes absolute."""
    path = Path(spec).expanduser()
    return str(path.resolve()) if spec and find(spec) is None and path.is_dir() else spec
