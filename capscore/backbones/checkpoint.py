"""A Hub id or a folder → the files, JSON and tensors of a checkpoint, complete and safe to read.

No weight is left random, no file outside the folder is read, and no pickle that could run code is opened.
torch is imported only where tensors are read.
"""

from __future__ import annotations

import glob
import json
import os
import pickle
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from logging import ERROR, getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import (
    BackboneUnavailable,
    CapscoreError,
    CapscoreWarning,
    InputError,
    ResultWriteError,
    Setting,
    message_of,
    warn,
)
from ..files.scratch import scratch_folder
from ..files.text_files import CONFIG_BYTES, looks_like, readable_size
from ..switches import Switch
from ..text.languages import language_code
from .base import resolve_dtype, tensors_digest

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

Network = TypeVar("Network", bound="torch.nn.Module")
_LOG = getLogger(__name__)
CONFIG, WEIGHTS = "config.json", "model.safetensors"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
TUNED_FILES = ("capscore_tuned.json", WEIGHTS)
STUDENT_MARKER = "capscore_student.json"
OPEN_CLIP_CONFIG = "open_clip_config.json"
# Best first. model.safetensors comes last: beside open_clip weights it belongs to another library.
OPEN_CLIP_WEIGHTS = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "open_clip_pytorch_model.pt",
    "model.safetensors",
)
CONFIGURATION = (".json", ".txt", ".model")
# Files that say at once what a folder holds.
_MARKERS = {
    TUNED_FILES[0]: "tuned",
    STUDENT_MARKER: "student",
    "modules.json": "sentence_transformers",
    OPEN_CLIP_CONFIG: "open_clip",
}
_OTHER_RUNTIMES = {"onnx", "openvino", "coreml", "tflite", "flax", "tf"}
# Not a variant such as model.fp16.safetensors, a second copy of the same weights.
_WEIGHTS = re.compile(r"[\w-]+\.safetensors|(open_clip_)?pytorch_model[\w-]*\.bin")
_SECONDS = 10.0  # timeout for listing the files of a repository on the Hub
_MAX_LAYERS = 4096  # the deepest published networks have a few hundred
# Buffers that old versions of transformers saved and that new ones rebuild from the config.
_REBUILT = re.compile(r"(^|\.)(position_ids|token_type_ids)$")
_POOLER = re.compile(r"(^|\.)pooler\.")


def offline_variable() -> str | None:
    """The variable that forbids the network, or None."""
    from huggingface_hub import constants

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in constants.ENV_VARS_TRUE_VALUES:
            return name
    return "HF_HUB_OFFLINE" if constants.HF_HUB_OFFLINE else None


def fetch_model(repo: str, revision: str, choose: Callable[[Sequence[str]], list[str]]) -> tuple[Path, str]:
    """Download the files of a Hub model that `choose` picks among their names; returns folder and commit.

    `revision` is a commit, branch or tag; "" for `main`. Where the Hub cannot be reached, the cached copy of
    this revision is used, with a warning; `BackboneUnavailable` if there is none.
    """
    from huggingface_hub import HfApi, constants, errors, snapshot_download

    if _leads_out(revision):
        raise BackboneUnavailable(Setting("revision", revision), ": expected a commit, branch or tag")
    variable = offline_variable()
    failure = f"{variable} is set, so the network is not used"
    if variable is None:
        try:
            info = HfApi().model_info(repo, revision=revision or None, timeout=_SECONDS)
            _LOG.info("downloading the missing files of %s@%s from the Hub", repo, info.sha)
            names = map(glob.escape, choose([sibling.rfilename for sibling in info.siblings or []]))
            folder = Path(snapshot_download(repo, revision=revision or None, allow_patterns=list(names)))
            return folder, folder.name
        except errors.GatedRepoError:
            raise BackboneUnavailable(
                f"{repo!r} is gated: accept its terms on its page, then `hf auth login` or set HF_TOKEN"
            ) from None
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError):
            raise BackboneUnavailable(
                f"{repo!r} is not on the Hub{f' at revision {revision!r}' if revision else ''}, or private "
                "(log in with `hf auth login` or set HF_TOKEN)"
            ) from None
        except Exception as error:  # each layer below has its own kinds
            failure = f"the Hub ({constants.ENDPOINT}) cannot be reached: {message_of(error)[:200]}"
    snapshot = cached_snapshot(repo, revision)
    if snapshot is None:
        name = f"{repo!r} at revision {revision!r}" if revision else repr(repo)
        raise BackboneUnavailable(f"{failure}, and the cache {constants.HF_HUB_CACHE} has no copy of {name}")
    if variable is None:
        warn(CapscoreWarning(f"{failure}: using the cached copy of {repo} at {snapshot.name}"))
    return snapshot, snapshot.name


def cached_snapshot(repo: str, revision: str) -> Path | None:
    """The folder of a model in the Hub's cache, if it has exactly this revision ("" for `main`)."""
    from huggingface_hub import errors, snapshot_download

    if not repo or _leads_out(repo) or _leads_out(revision):
        return None
    try:
        # No file is asked for: else a snapshot without files that `fetch_model` leaves is refused.
        there = snapshot_download(repo, revision=revision or None, local_files_only=True, allow_patterns=[])
        return Path(there)
    except (errors.LocalEntryNotFoundError, errors.HFValidationError):
        return None


def _leads_out(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/")


def needed_files(files: Sequence[str]) -> list[str]:
    """The files of a repository that a backbone reads: configuration, tokenizer, and one copy of the weights.

    >>> needed_files(["config.json", "model.safetensors", "pytorch_model.bin", "tf_model.h5", "onnx/a.json"])
    ['config.json', 'model.safetensors']
    """
    if TUNED_FILES[0] in files:
        return [name for name in files if name in TUNED_FILES]
    if STUDENT_MARKER in files:
        files = [name for name in files if "/" not in name]
    folders: dict[str, list[str]] = {}
    for name in files:
        folder = name.rpartition("/")[0]
        if not _OTHER_RUNTIMES.intersection(folder.split("/")):
            folders.setdefault(folder, []).append(name)
    chosen: set[str] = set()
    for folder, names in folders.items():
        chosen.update(name for name in names if name.endswith(CONFIGURATION))
        if not folder and OPEN_CLIP_CONFIG in names:
            chosen.update(open_clip_weights(names)[:1])
            continue
        weights = [name for name in names if _WEIGHTS.fullmatch(name.rpartition("/")[2])]
        plain = [name for name in weights if "open_clip_" not in name] or weights
        chosen.update([name for name in plain if name.endswith(".safetensors")] or plain)
    return [name for name in files if name in chosen]


def open_clip_weights(names: Sequence[str]) -> list[str]:
    """open_clip's weights among the file names of one folder, best first."""
    return [name for name in OPEN_CLIP_WEIGHTS if name in names]


def folder_kind(folder: Path) -> str:
    """What a folder holds, by its files: a kind of `LOADERS`, the most specific first, or ""."""
    names = {path.name for path in folder.iterdir() if path.is_file()} if folder.is_dir() else set()
    for marker, kind in _MARKERS.items():
        if marker in names:
            return kind
    if any(name.startswith("open_clip_") for name in open_clip_weights(sorted(names))):
        return "open_clip"
    config = read_config(folder / CONFIG) if CONFIG in names else {}
    if config.get("model_type") == "capscore_eye":
        return "embedded"
    if {"modelBase", "numDims"} <= config.keys():
        return "multilingual_clip"
    return "" if {"model_type", "auto_map"}.isdisjoint(config) else "transformers"


def read_config(path: Path, kind: type = dict) -> Any:
    """The JSON object (or list, by `kind`) in a file; anything else raises `BackboneUnavailable`."""
    if not path.is_file():  # missing, or a pipe, which could wait for ever
        raise BackboneUnavailable(f"{path.parent} has no {path.name}")
    with refusing(f"{path}"):
        size = path.stat().st_size
        if size > CONFIG_BYTES.bytes:
            raise BackboneUnavailable(f"{path} has {readable_size(size)}; {CONFIG_BYTES}")
        content = json.loads(fetched(path).read_text(encoding="utf-8"))
    if not isinstance(content, kind):
        raise BackboneUnavailable(f"{path} should hold a JSON {kind.__name__}, not {type(content).__name__}")
    return content


def inside(folder: Path, name: object, named_by: Path) -> Path:
    """The path of a file that a file of a checkpoint names; one outside raises `BackboneUnavailable`."""
    if not isinstance(name, str) or _leads_out(name) or any(sign in name for sign in "\0\\:"):
        raise BackboneUnavailable(f"{named_by} names {name!r:.80}, which is not inside {folder}")
    return folder / name


def read_marker(
    path: Path, version: int, fields: Mapping[str, tuple[type, ...]], model_type: str | None = None
) -> dict[str, Any]:
    """The JSON file that marks a folder as written by capscore, of this format, its fields of these types."""
    marker = read_config(path)
    kind = marker.get("model_type")
    if model_type not in (None, kind):
        raise BackboneUnavailable(f"{path} describes a model of type {kind!r}, not {model_type!r}")
    if marker.get("format") != version:
        raise BackboneUnavailable(
            f"{path} is of format {marker.get('format')!r:.60}; this capscore reads format {version}"
        )
    for name, types in fields.items():
        value = marker.get(name)
        if not isinstance(value, types) or isinstance(value, bool):
            raise BackboneUnavailable(f"{path}: {name} is missing, or of another type than expected")
    try:
        for language in marker.get("languages") or ():
            language_code(language)
    except InputError as error:
        raise BackboneUnavailable(f"{path}: ", *error.parts) from None
    return marker


def read_checkpoint(
    folder: Path,
    marker: str,
    version: int,
    fields: Mapping[str, tuple[type, ...]],
    model_type: str | None = None,
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What `write_checkpoint` wrote: content of the marker, and tensors; otherwise `BackboneUnavailable`."""
    expected = {**fields, "weights": (str,), "notes": (dict,)}
    content = read_marker(folder / marker, version, expected, model_type)
    state = read_state_dict(folder)
    if tensors_digest(state) != content["weights"]:
        raise BackboneUnavailable(f"{folder}: {WEIGHTS} does not belong to {marker}: saving was interrupted")
    return content, state


def write_checkpoint(
    folder: Path,
    marker: str,
    content: Mapping[str, object],
    tensors: Mapping[str, torch.Tensor],
    what: str,
    save_more: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write model.safetensors and the marker, a JSON file, in place of those of a folder, all or nothing.

    The old marker is removed first and the new one comes last: a folder without it is not finished. Other
    files stay.
    """
    import torch
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise CapscoreError(f"{name} of {what} is not finite as {tensor.dtype}: nothing was saved")
    try:
        if "weights" in content:
            content = {**content, "weights": tensors_digest(tensors)}
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise CapscoreError(f"the record of {what} must be serialisable as JSON: {error}") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(folder / marker) as scratch:
            save_more(scratch)
            save_file(tensors, scratch / WEIGHTS, metadata={"format": "pt"})
            (scratch / marker).write_text(text, encoding="utf-8")
            readable = (scratch / marker).stat().st_mode
            (folder / marker).unlink(missing_ok=True)
            files = sorted(path.relative_to(scratch) for path in scratch.rglob("*") if path.is_file())
            for file in sorted(files, key=lambda file: file == Path(marker)):
                (scratch / file).chmod(readable)  # safetensors makes files that only their owner can read
                (folder / file).parent.mkdir(exist_ok=True)
                os.replace(scratch / file, folder / file)
    except Exception as error:  # on a full disk every library raises its own
        raise ResultWriteError(f"{what} could not be saved to {folder}: {message_of(error)}") from error


def find_folder(
    spec: str | os.PathLike[str], revision: str | None = None, what: str = "weights"
) -> tuple[Path, str, str]:
    """A network's folder, its name, and its commit ("" for a folder); fetched if on the Hub."""
    wanted = str(spec).strip()
    folder, (name, _, after) = Path(wanted).expanduser(), wanted.partition("@")
    if wanted and folder.is_dir() and not revision:
        return folder, folder.resolve().name, ""  # not its path, so that signatures do not depend on it
    if revision and (folder.is_dir() or after not in ("", revision)):
        raise CapscoreError(Setting("revision", revision), " does not go with ", Setting(what, wanted))
    try:
        if not HUB_ID.fullmatch(name):
            raise BackboneUnavailable("there is no such folder, and it is not a Hub id (org/name)")
        folder, commit = fetch_model(name, revision or after, lambda files: [CONFIG, WEIGHTS])
    except BackboneUnavailable as error:
        raise BackboneUnavailable(Setting(what, wanted), " is not available: ", *error.parts) from error
    return folder, name, commit


def write_network(
    folder: str | os.PathLike[str], network: torch.nn.Module, record: Mapping[str, object], dtype: str
) -> None:
    """Write a network's weights, as float32 or float16, then config.json: the record, dtype and a digest."""
    import torch

    folder, stored = Path(folder).expanduser(), resolve_dtype(dtype)
    if stored == "bfloat16":
        raise CapscoreError(Setting("dtype", dtype), ": weights are stored as float32 or float16")
    kind = record["model_type"]
    if (folder / CONFIG).is_file():
        kind = read_config(folder / CONFIG).get("model_type")
    elif (folder / WEIGHTS).is_file():
        kind = None
    if kind != record["model_type"]:
        raise CapscoreError(f"{folder} already holds a model of type {kind!r}: use another folder")
    tensors = {name: tensor.to(getattr(torch, stored)) for name, tensor in network.state_dict().items()}
    content = {**record, "dtype": stored, "weights": ""}
    write_checkpoint(folder, CONFIG, content, tensors, f"the weights of {record['model_type']}")


def read_network(
    folder: Path, model_type: str, version: int
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Content of config.json, and weights; BackboneUnavailable if missing, damaged, or of another model."""
    return read_checkpoint(folder, CONFIG, version, {}, model_type)


def built(
    folder: Path, state: Mapping[str, torch.Tensor], sizes: Mapping[str, object], build: Callable[[], Network]
) -> Network:
    """The network that `build` makes by its sizes, with a folder's weights, in float32 and eval mode."""
    import torch

    refuse_oversized(folder, sizes, sum(tensor.nbytes for tensor in state.values()))
    with refusing(f"the network in {folder}"), torch.random.fork_rng(devices=[]):
        network = build()  # with random numbers, so that those of the caller stay as they were
        network.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    return network.eval()


def refuse_other_models(folder: Path, kind: str) -> None:
    """Raise `CapscoreError` if a folder to be written holds a model of another kind."""
    names = [path.name for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    needed = needed_files(names)
    others = [name for name in needed if name == CONFIG or not name.endswith(CONFIGURATION)]
    if others and folder_kind(folder) != kind:
        raise CapscoreError(
            f"{folder} already holds {', '.join(others)} of another model: use another folder, or delete "
            "them if they are left over from an earlier attempt"
        )


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights: safetensors rather than pickles, all shards of one set."""
    for single in (folder / "model.safetensors", folder / "pytorch_model.bin"):
        index = single.with_name(f"{single.name}.index.json")
        if single.is_file():
            return [fetched(single)]
        if index.is_file():
            with refusing(f"{index}"):
                names = set(read_config(index)["weight_map"].values())
                files = [inside(folder, name, index) for name in sorted(names)]
                if files and all(file.is_file() for file in files):
                    return [*map(fetched, files)]
            raise BackboneUnavailable(f"{folder} does not have the files that {index.name} names")
    raise BackboneUnavailable(
        f"{folder} has no weights: neither model.safetensors nor pytorch_model.bin is in it"
    )


def fetched(file: Path) -> Path:
    """A file of a checkpoint; an error where a pointer to it is instead, or the page of an error."""
    if (other := looks_like(file)) and not zipfile.is_zipfile(file):  # as weights of PyTorch are
        raise BackboneUnavailable(f"{file} cannot be read: {other}")
    return file


def read_state_dict(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a folder's weights, on the CPU, as stored."""
    import torch
    from safetensors.torch import load_file

    state: dict[str, torch.Tensor] = {}
    for file in weight_files(folder):
        with refusing(f"{file}"):
            if file.suffix == ".safetensors":
                state.update(load_file(file))
            else:
                state.update(torch.load(file, map_location="cpu", weights_only=True))
    return state


def without_rebuilt(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state dict without the buffers that only some versions of transformers list."""
    return {name: tensor for name, tensor in state.items() if not _REBUILT.search(name)}


def refuse_misfit(
    folder: Path,
    missing: Iterable[str],
    unexpected: Iterable[str],
    mismatched: Iterable[str | tuple[str, ...]] = (),
) -> None:
    """Raise `BackboneUnavailable` unless the weights of a folder are exactly the model's."""
    complaints = []
    for what, names in (
        ("missing", missing),
        ("unexpected", (name for name in unexpected if not _POOLER.search(name))),
        ("of another shape", (entry if isinstance(entry, str) else entry[0] for entry in mismatched)),
    ):
        listed = sorted(name for name in names if not _REBUILT.search(name))
        if listed:
            complaints.append(f"{len(listed)} {what}, such as {listed[0]}")
    if complaints:
        raise BackboneUnavailable(f"the weights in {folder} do not fit its config: {'; '.join(complaints)}")


def refuse_oversized(folder: Path, config: Mapping[str, object], stored: int) -> None:
    """Raise `BackboneUnavailable` if a config asks for more than the `stored` bytes of weights can be for."""
    numbers = list(_numbers(config))
    layers = max((value for name, value in numbers if "layers" in name or name == "depth"), default=0)
    largest = max((value for _, value in numbers), default=0)  # a network is no wider than it has weights
    if layers > _MAX_LAYERS or largest > max(stored, 2**20):
        raise BackboneUnavailable(
            f"the weights in {folder} do not fit its config: {readable_size(stored)} are too few for "
            f"{layers:,} layers, or a size of {largest:,}"
        )


def _numbers(config: object, name: str = "") -> Iterator[tuple[str, int]]:
    """Names and values of all whole numbers in a config."""
    if isinstance(config, Mapping):
        for inner, value in config.items():
            yield from _numbers(value, str(inner))
    elif isinstance(config, (list, tuple)):
        for value in config:
            yield from _numbers(value, name)
    elif isinstance(config, int) and not isinstance(config, bool):
        yield name, abs(config)


def load_strictly(
    config: PretrainedConfig,
    folder: Path,
    state: dict[str, torch.Tensor] | None = None,
    *,
    without_pooler: bool = False,
) -> PreTrainedModel:
    """A transformers model with all weights of a folder (or `state`) and no other, in float32 and eval mode.

    `without_pooler` removes a pooler: towers with their own pooling do not use it, and a missing one would be
    filled with random numbers. `BackboneUnavailable` is raised where weights do not fit.
    """
    import torch
    from transformers import MODEL_MAPPING  # slow to import, and tuned embedded backbones need none of it

    kind: Any = MODEL_MAPPING[type(config)]
    state = read_state_dict(folder) if state is None else state
    refuse_oversized(folder, config.to_dict(), sum(tensor.nbytes for tensor in state.values()))
    arguments = {"dtype": torch.float32, "ignore_mismatched_sizes": True, "output_loading_info": True}
    with quietly_refusing(f"the {kind.__name__} in {folder}"):
        model, report = kind.from_pretrained(None, config=config, state_dict=state, **arguments)
    missing = [name for name in report["missing_keys"] if not (without_pooler and _POOLER.search(name))]
    refuse_misfit(folder, missing, report["unexpected_keys"], report["mismatched_keys"])
    if without_pooler and getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.eval()


@cache
def encoder_configs() -> dict[str, dict[str, str | int | float]]:
    """Configs of published text encoders, where they are not the default, by the last part of the Hub id."""
    return json.loads(Path(__file__).with_name("encoders.json").read_text(encoding="utf-8"))


def encoder_config(name: str) -> dict[str, str | int | float] | None:
    """Config of a published text encoder, by its Hub id in any case; None if unknown."""
    return encoder_configs().get(name.rpartition("/")[2].lower())


def load_config(folder: Path) -> PretrainedConfig:
    """The transformers config of a folder with weights; code that comes with it does not run."""
    from transformers import AutoConfig

    read_config(folder / CONFIG)
    weight_files(folder)  # "file missing" is a clearer error than one about the config
    with quietly_refusing(f"{folder / 'config.json'}"):
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn whatever a library raises into one `BackboneUnavailable` about `what`."""
    try:
        yield
    except CapscoreError:
        raise
    except pickle.UnpicklingError:  # its message advises to load the file anyway
        raise BackboneUnavailable(f"{what} is damaged, or holds more than tensors") from None
    except Exception as error:  # damaged files and wrong values end each library in its own way
        raise BackboneUnavailable(f"{what} cannot be read: {message_of(error)}") from error


@contextmanager
def quietly_refusing(what: str) -> Iterator[None]:
    """The same where transformers is at work, which neither logs nor shows bars within the block."""
    with refusing(what), _TRANSFORMERS.at((ERROR, False)):
        yield


def _transformers_says() -> tuple[int, bool] | None:
    """How much transformers logs, and whether it shows bars; None before it is used."""
    log = sys.modules.get("transformers.utils.logging")
    return None if log is None else (log.get_verbosity(), log.is_progress_bar_enabled())


def _let_transformers_say(said: tuple[int, bool] | None) -> None:
    log = sys.modules.get("transformers.utils.logging")
    if log is not None and said is not None:
        log.set_verbosity(said[0])
        (log.enable_progress_bar if said[1] else log.disable_progress_bar)()


_TRANSFORMERS = Switch(_transformers_says, _let_transformers_say)
