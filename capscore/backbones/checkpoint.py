"""Reads and writes checkpoint folders: JSON files, and weights that are complete and safe to read.

In: a local folder. Out: a dict, a state dict, or a transformers model in float32. No weight is left random,
and no pickle that could run code is opened.
"""

from __future__ import annotations

import glob
import json
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError, safe_open

if TYPE_CHECKING:
    import torch

from ..errors import (
    BackboneUnavailable,
    CapscoreError,
    CapscoreWarning,
    InputError,
    ResultWriteError,
    Setting,
    warn,
)
from ..files.sizes import CONFIG_BYTES, NESTED_LEVELS, nested_too_deeply, readable_size
from ..text.languages import language_code

MOST_LAYERS = 4096
"""Limit on the layers that a config may ask for; the deepest published networks have a few hundred."""

# JSON files that Python reads; tokenizer.json is read by a parser with limits of its own
_CONFIGS = ("*config*.json", "*.index.json", "modules.json", "special_tokens_map.json", "added_tokens.json")
# files that say at once what a folder holds
_MARKERS = {
    "capscore_tuned.json": "tuned",
    "capscore_student.json": "student",
    "modules.json": "sentence_transformers",
    "open_clip_config.json": "open_clip",
}
_SLACK = 2**26  # numbers that networks keep besides their weights, such as masks
# Buffers that old versions of transformers saved and that new ones rebuild from the config.
_REBUILT = re.compile(r"(^|\.)(position_ids|token_type_ids)$")
# What damaged weights raise.
_UNREADABLE = (SafetensorError, RuntimeError, EOFError, OSError, ValueError, TypeError)
_POOLER = re.compile(r"(^|\.)pooler\.")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        BackboneUnavailable: the file is missing, damaged, or holds something else; the message names it.
    """
    content = read_any_json(path)
    if not isinstance(content, dict):
        raise BackboneUnavailable(f"{path} should hold a JSON object, not {type(content).__name__}")
    return content


def read_any_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        BackboneUnavailable: the file is missing, damaged, too large or nested too deeply; the message names
            it.
    """
    text = _read_json_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise BackboneUnavailable(f"{path} cannot be read as JSON: {in_one_line(error)}") from None


def _read_json_text(path: Path) -> str:
    try:
        if not path.is_file():  # missing, or a pipe, which could wait for ever
            raise BackboneUnavailable(f"{path.parent} has no {path.name}")
        size = path.stat().st_size
        if size > CONFIG_BYTES.bytes:
            raise BackboneUnavailable(f"{path} has {readable_size(size)}; {CONFIG_BYTES}")
        text = path.read_text(encoding="utf-8")
    except BackboneUnavailable:
        raise
    except (OSError, ValueError) as error:
        raise BackboneUnavailable(f"{path} cannot be read as JSON: {in_one_line(error)}") from None
    if nested_too_deeply(text):
        raise BackboneUnavailable(f"{path} is nested too deeply; at most {NESTED_LEVELS} levels are read")
    return text


def refuse_hostile_folder(folder: Path) -> None:
    """Check the JSON files of a folder before a library reads them.

    Raises:
        BackboneUnavailable: a file is too large or nested too deeply, or a config asks for thousands of
            layers; a library would fill the memory, or end the process.
    """
    for pattern in _CONFIGS:
        for path in (*folder.glob(pattern), *folder.glob(f"*/{pattern}")):
            if path.is_file():
                text = _read_json_text(path)
                with suppress(ValueError):  # damaged: its reader says what is wrong
                    _refuse_layers(path, json.loads(text))


def _refuse_layers(place: Path, config: Any) -> None:
    for name, value in _numbers(config):
        if value > MOST_LAYERS and ("layers" in name or name == "depth"):
            asked = format(value, ",")[:30]
            raise BackboneUnavailable(
                f"{place} asks for {asked} layers ({name!r}); at most {MOST_LAYERS:,} are built"
            )


def _numbers(config: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Names and values of all whole numbers in a config."""
    if isinstance(config, Mapping):
        for inner, value in config.items():
            yield from _numbers(value, str(inner))
    elif isinstance(config, (list, tuple)):
        for value in config:
            yield from _numbers(value, name)
    elif isinstance(config, int) and not isinstance(config, bool):
        yield name, abs(config)


def refuse_oversized(
    folder: Path, config: Mapping[str, Any], stored: int, build: Callable[[], torch.nn.Module]
) -> None:
    """Check that a config does not ask for a much larger network than the weights are for.

    Args:
        folder: Folder of the config, named in errors.
        config: Content of the config.
        stored: Number of bytes of the weights, which hold at most as many numbers.
        build: Function that builds the network. It is called only if two numbers of the config could make
            such a network, and on the device "meta", where nothing is stored.

    Raises:
        BackboneUnavailable: it asks for more.
    """
    import torch

    _refuse_layers(folder, config)
    *_, second, first = sorted([1, 1, *(value for _, value in _numbers(config))])
    if first * second <= 4 * stored:
        return
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            network = build()
        tensors = [*network.parameters(), *network.buffers()]
        asked = sum(tensor.numel() for tensor in tensors)
    except CapscoreError:
        raise
    except Exception:  # some networks cannot be built there; then the real attempt says what is wrong
        return
    if asked > stored + _SLACK:
        raise BackboneUnavailable(
            f"the weights in {folder} do not fit its config, which asks for {asked:,} numbers: they are at "
            f"most {stored:,}"
        )


def folder_kind(folder: Path) -> str:
    """What a folder holds, by its files, the most specific kind first; "" if it holds no model.

    A repository often holds one model in the formats of several libraries.

    Returns:
        "tuned", "student", "sentence_transformers", "open_clip", "embedded", "multilingual_clip",
        "transformers" or "".

    Raises:
        BackboneUnavailable: its config.json is damaged.
    """
    names = {path.name for path in folder.iterdir() if path.is_file()} if folder.is_dir() else set()
    for marker, kind in _MARKERS.items():
        if marker in names:
            return kind
    if any(name.startswith("open_clip_") for name in open_clip_weights(sorted(names))):
        return "open_clip"
    config = read_json(folder / "config.json") if "config.json" in names else {}
    if config.get("model_type") == "capscore_eye":
        return "embedded"
    if {"modelBase", "numDims"} <= config.keys():
        return "multilingual_clip"
    return "" if {"model_type", "auto_map"}.isdisjoint(config) else "transformers"


def inside(folder: Path, name: Any, named_by: Path) -> Path:
    """The place of a file that a file of a checkpoint names, which must be inside the folder.

    Raises:
        BackboneUnavailable: the name is no text, or leads out of the folder.
    """
    leads_out = (
        not isinstance(name, str)
        or any(sign in name for sign in "\0\\:")
        or PurePosixPath(name).is_absolute()
        or ".." in PurePosixPath(name).parts
    )
    if leads_out:
        raise BackboneUnavailable(f"{named_by} names {name!r:.80}, which is no place inside {folder}")
    return folder / name


def read_marker(
    path: Path, version: int, fields: Mapping[str, tuple[type, ...]], content: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The JSON file that marks a folder as written by capscore, checked.

    Args:
        path: File to read.
        version: Value that its "format" must have.
        fields: Types that each of its other fields may have; "languages" holds language codes or is null.
        content: Content of the file, if it has already been read.

    Raises:
        BackboneUnavailable: the file is missing or damaged, of another format, or a field is wrong.
    """
    marker = read_json(path) if content is None else content
    found = marker.get("format")
    if found != version:
        newer = isinstance(found, int) and found > version
        hint = ": pip install --upgrade capscore" if newer else ""
        raise BackboneUnavailable(
            f"{path} is of format {found!r}; this version of capscore reads format {version}{hint}"
        )
    for field, types in fields.items():
        value = marker.get(field)
        if field not in marker or isinstance(value, bool) or not isinstance(value, types):
            expected = " or ".join("null" if kind is type(None) else kind.__name__ for kind in types)
            raise BackboneUnavailable(f"{path}: {field!r} should be present, as {expected}")
    languages = marker.get("languages")
    if languages is not None and not isinstance(languages, list):
        raise BackboneUnavailable(f"{path}: 'languages' should be a list of language codes, or null")
    try:
        for language in languages or ():
            language_code(language)
    except InputError as error:
        raise BackboneUnavailable(f"{path}: ", *error.parts) from None
    return marker


@contextmanager
def replacing_files(folder: Path, marker: str, what: str) -> Iterator[Path]:
    """A scratch folder whose files replace those of a folder when the block ends without an error.

    The marker file is removed first and comes last: a folder without it is not finished. Other files stay.

    Args:
        folder: Folder to write, created if it does not exist.
        marker: Name of the file that marks the folder as finished.
        what: What is being saved, for the error message.

    Raises:
        ResultWriteError: any error while writing.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder) as scratch:
            aside = Path(scratch)
            yield aside
            files = sorted(path.relative_to(aside) for path in aside.rglob("*") if path.is_file())
            readable = (aside / marker).stat().st_mode
            (folder / marker).unlink(missing_ok=True)
            for file in sorted(files, key=lambda file: file == Path(marker)):
                # safetensors makes files that only their owner can read
                (aside / file).chmod(readable)
                (folder / file).parent.mkdir(exist_ok=True)
                os.replace(aside / file, folder / file)
    except Exception as error:  # on a full disk every library raises its own
        raise ResultWriteError(f"{what} could not be saved to {folder}: {in_one_line(error)}") from error


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights: safetensors rather than pickles, all shards of one set.

    Raises:
        BackboneUnavailable: there are no weights, a shard is missing, or a safetensors file is damaged.
    """
    for stem, suffix in (("model", "safetensors"), ("pytorch_model", "bin")):
        single, index = folder / f"{stem}.{suffix}", folder / f"{stem}.{suffix}.index.json"
        if single.is_file():
            files = [single]
        elif index.is_file():
            files = _shards(index)
        else:
            continue
        for file in files:
            _refuse_torn(file)
        return files
    raise BackboneUnavailable(
        f"{folder} has no weights: neither model.safetensors nor pytorch_model.bin is in it"
    )


def _shards(index: Path) -> list[Path]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise BackboneUnavailable(
            f"{index} should name the file of each tensor under 'weight_map', not {names!r:.60}"
        )
    return sorted({inside(index.parent, name, index) for name in names.values()})


def _refuse_torn(file: Path) -> None:
    try:
        found = file.is_file()
    except OSError:  # a name that the file system does not take
        found = False
    if not found:
        raise BackboneUnavailable(f"{file.parent} has no {file.name:.80}, which its index names")
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise BackboneUnavailable(why_torn(file, error)) from None


def why_torn(file: Path, error: Exception) -> str:
    """What is wrong with a safetensors file that cannot be opened."""
    try:
        with open(file, "rb") as opened:
            if opened.read(24) == b"version https://git-lfs.":
                return f"{file} is a Git LFS pointer: the weights were never pulled (git lfs pull)"
    except OSError:
        pass  # then the first error says why
    return f"{file} is damaged or not a safetensors file: {error}"


def read_state_dict(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a folder's weights, on the CPU, as stored.

    Pickles are read with `weights_only=True`: a file that would run code is refused.

    Raises:
        BackboneUnavailable: see `weight_files`; or a pickle that is damaged or holds more than tensors.
    """
    import torch
    from safetensors.torch import load_file

    state: dict[str, torch.Tensor] = {}
    for file in weight_files(folder):
        try:
            if file.suffix == ".safetensors":
                state.update(load_file(file))
            else:
                state.update(torch.load(file, map_location="cpu", weights_only=True))
        except pickle.UnpicklingError:  # its message advises to load the file anyway
            raise BackboneUnavailable(
                f"{file} cannot be read safely: it is damaged, or holds more than tensors"
            ) from None
        except _UNREADABLE as error:
            raise BackboneUnavailable(f"{file} cannot be read: {in_one_line(error)}") from None
    return state


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether no value is NaN or infinite.

    >>> is_finite(torch.tensor([1.0, 3e38, 3e38])), is_finite(torch.tensor([torch.inf, -torch.inf]))
    (True, False)
    """
    # a sum is finite only of finite values, and takes a tenth of the time; a sum of large ones may overflow
    return bool(tensor.sum().isfinite() or tensor.isfinite().all())


def without_rebuilt(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state dict without the buffers that only some versions of transformers list."""
    return {name: tensor for name, tensor in state.items() if not _REBUILT.search(name)}


def refuse_misfit(
    folder: Path, missing: Iterable[str], unexpected: Iterable[str], mismatched: Iterable[str] = ()
) -> None:
    """Raise unless the weights of a folder are exactly the model's.

    Weights of a pooler that the model does without are ignored.

    Raises:
        BackboneUnavailable: weights do not fit; up to three of each sort are named.
    """
    complaints = []
    for what, names in (
        ("are missing", missing),
        ("belong to no part of the model", (name for name in unexpected if not _POOLER.search(name))),
        ("have a shape that differs from the config's", mismatched),
    ):
        names = sorted(name for name in names if not _REBUILT.search(name))
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            complaints.append(f"{', '.join(names[:3])}{more} {what}")
    if complaints:
        raise BackboneUnavailable(f"the weights in {folder} do not fit its config: {'; '.join(complaints)}")


def refuse_misreport(folder: Path, report: dict[str, Any], *, without_pooler: bool = False) -> None:
    """`refuse_misfit` for the report of `from_pretrained(..., output_loading_info=True)`."""
    shapes = [
        entry  # transformers 4 gives only the name, 5 also the two shapes
        if isinstance(entry, str)
        else f"{entry[0]} (stored {tuple(entry[1])}, config {tuple(entry[2])})"
        for entry in report["mismatched_keys"]
    ]
    missing = [name for name in report["missing_keys"] if not (without_pooler and _POOLER.search(name))]
    refuse_misfit(folder, missing, report["unexpected_keys"], shapes)


def load_strictly(
    model_class: Any,
    config: Any,
    folder: Path,
    state: dict[str, torch.Tensor] | None = None,
    *,
    without_pooler: bool = False,
) -> Any:
    """A transformers model with the weights of a folder, in float32 and in eval mode.

    Args:
        model_class: Class of transformers, such as `CLIPModel`.
        config: Config of the model.
        folder: Folder of the weights; named in errors.
        state: Weights, if they have already been read.
        without_pooler: Whether to remove the pooler, even if the checkpoint has one: towers with their own
            pooling do not use it, and a missing one would be filled with random numbers.

    Raises:
        BackboneUnavailable: weights are missing, too many, or of another shape; or the model cannot be built.
    """
    import torch

    state = read_state_dict(folder) if state is None else state
    stored = sum(tensor.nbytes for tensor in state.values())
    refuse_oversized(folder, config.to_dict(), stored, lambda: model_class(config))
    try:
        with quiet_transformers():
            model, report = model_class.from_pretrained(
                None,
                config=config,
                state_dict=state,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,  # reported, and refused below
                output_loading_info=True,
            )
    except Exception as error:  # a config can be wrong in many ways
        raise BackboneUnavailable(
            f"no {model_class.__name__} can be built from {folder}: {in_one_line(error)}"
        ) from error
    refuse_misreport(folder, report, without_pooler=without_pooler)
    if without_pooler and getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.eval()


def load_config(folder: Path, what: str, raised: type[CapscoreError] = CapscoreError) -> Any:
    """The config of transformers in a folder; code that comes with it does not run.

    Args:
        folder: Folder with config.json.
        what: What the config should describe, for the error message.
        raised: Class of the error if transformers does not accept the config.
    """
    from transformers import AutoConfig

    refuse_hostile_folder(folder)
    try:
        with quiet_transformers():
            return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # each model type validates its config in its own way
        raise raised(f"{folder / 'config.json'} is not the config of {what}: {in_one_line(error)}") from error


def load_with_report(auto_class: Any, folder: Path, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """A model by an `AutoModel…` class of transformers, in float32, and the report for `refuse_misreport`.

    Raises:
        BackboneUnavailable: see `weight_files`. Other errors are transformers' own.
    """
    import torch

    files = weight_files(folder)
    with quiet_transformers():
        return auto_class.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=files[0].suffix == ".safetensors",
            weights_only=True,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # reported
            output_loading_info=True,
            **arguments,
        )


def load_processor(auto_class: Any, folder: Path, what: str, **arguments: Any) -> Any:
    """A processor by an `Auto…` class of transformers.

    Raises:
        BackboneUnavailable: it cannot be loaded; the message begins with `what`.
    """
    try:
        with quiet_transformers():
            return auto_class.from_pretrained(folder, local_files_only=True, **arguments)
    except Exception as error:  # OSError, ValueError or TypeError, depending on the fault
        raise BackboneUnavailable(
            f"the {what} in {folder} cannot be loaded: {in_one_line(error)[:400]}"
        ) from error


def in_one_line(error: Exception) -> str:
    """An error's message without line breaks, or its type if it has none; the start of a very long one."""
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 600 else f"{message[:600]}…"


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silences transformers' progress bars and reports; what matters in them is raised as an error."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


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
# capscore's own towers. Subfolders of a student, such as training checkpoints, are not loaded; of a
# fine-tuned tower only two files are, since its base provides the rest.
STUDENT_MARKER = "capscore_student.json"
TUNED_FILES = ("capscore_tuned.json", "model.safetensors")
OTHER_RUNTIMES = {"onnx", "openvino", "coreml", "tflite", "flax", "tf"}
# Not a variant such as model.fp16.safetensors, a second copy of the same weights.
_WEIGHTS = re.compile(r"[\w-]+\.safetensors|(open_clip_)?pytorch_model[\w-]*\.bin")
SECONDS = 10.0  # timeout for listing the files of a repository on the Hub


def offline_variable() -> str | None:
    """The variable that forbids the network, or None."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}:
            return name
    return "HF_HUB_OFFLINE" if constants.HF_HUB_OFFLINE else None


def fetch(repo: str, revision: str, choose: Callable[[Sequence[str]], list[str]]) -> tuple[Path, str]:
    """Download the chosen files of a Hub model.

    Args:
        repo: Hub id, "org/name".
        revision: Commit, branch or tag; "" for `main`.
        choose: Function from the names of all files of the repository to those to download.

    Returns:
        The folder of the snapshot, and its commit.

    Raises:
        BackboneUnavailable: the model is not available; the message says why. Another revision is never used
            instead.
    """
    if _climbs(revision):
        raise BackboneUnavailable(Setting("revision", revision), ": expected a commit, branch or tag")
    variable = offline_variable()
    if variable is not None:
        snapshot = cached_snapshot(repo, revision)
        if snapshot is None:
            raise BackboneUnavailable(
                f"{variable} is set, so the network is not used, and the cache "
                f"{constants.HF_HUB_CACHE} has no copy of {_at(repo, revision)}"
            )
        return snapshot, snapshot.name
    try:
        info = HfApi(endpoint=constants.ENDPOINT).model_info(repo, revision=revision or None, timeout=SECONDS)
        files = choose([sibling.rfilename for sibling in info.siblings or []])
        folder = snapshot_download(
            repo,
            revision=revision or None,
            allow_patterns=[glob.escape(name) for name in files],
            endpoint=constants.ENDPOINT,
        )
    except RevisionNotFoundError:
        raise BackboneUnavailable(f"{repo!r} is on the Hub, but has no revision {revision!r}") from None
    except GatedRepoError:
        raise BackboneUnavailable(
            f"{repo!r} is gated: accept its terms on its page, then `hf auth login` or set HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise BackboneUnavailable(
            f"the Hub has no model {repo!r}, or it is private (log in with `hf auth login` or set HF_TOKEN)"
        ) from None
    except HFValidationError as error:
        raise BackboneUnavailable(f"{repo!r} is not a Hub id: {error}") from None
    except Exception as error:
        if not _of_the_network(error):
            raise
        snapshot = cached_snapshot(repo, revision)
        what = f"the Hub ({constants.ENDPOINT}) {_complaint(error)}"
        if snapshot is None:
            raise BackboneUnavailable(
                f"{what}, and the cache {constants.HF_HUB_CACHE} has no copy of {_at(repo, revision)}"
            ) from error
        warn(CapscoreWarning(f"{what}: using the cached copy of {repo} at {snapshot.name}"))
        return snapshot, snapshot.name
    return Path(folder), Path(folder).name


def needed_files(files: Sequence[str], *, remote_code: bool = False) -> list[str]:
    """The files of a repository that a backbone reads: configuration, tokenizer, and one copy of the weights.

    Weights are safetensors if a folder has them, otherwise PyTorch's, never another runtime's copy. For
    capscore's own towers only the folder itself counts, and for fine-tuned ones only what they add to their
    base.

    >>> needed_files(["config.json", "model.safetensors", "pytorch_model.bin", "tf_model.h5", "onnx/a.json"])
    ['config.json', 'model.safetensors']
    """
    folders: dict[str, list[str]] = {}
    if TUNED_FILES[0] in files:
        return [name for name in files if name in TUNED_FILES]
    if STUDENT_MARKER in files:
        files = [name for name in files if "/" not in name]
    for name in files:
        path = PurePosixPath(name)
        if not OTHER_RUNTIMES.intersection(path.parts[:-1]):
            folders.setdefault(str(path.parent), []).append(name)
    chosen: set[str] = set()
    for folder, names in folders.items():
        chosen.update(name for name in names if name.endswith(CONFIGURATION))
        if remote_code:
            chosen.update(name for name in names if name.endswith(".py"))
        if folder == "." and OPEN_CLIP_CONFIG in names:
            chosen.update(open_clip_weights(names)[:1])
            continue
        weights = [name for name in names if _WEIGHTS.fullmatch(PurePosixPath(name).name)]
        own = [name for name in weights if not PurePosixPath(name).name.startswith("open_clip_")] or weights
        chosen.update([name for name in own if name.endswith(".safetensors")] or own)
    return [name for name in files if name in chosen]


def open_clip_weights(names: Sequence[str]) -> list[str]:
    """open_clip's weights among the file names of one folder, best first."""
    return [name for name in OPEN_CLIP_WEIGHTS if name in names]


def cached_snapshot(repo: str, revision: str) -> Path | None:
    """The folder of a model in the Hub's cache, if it has exactly this revision ("" for `main`)."""
    if not repo or _climbs(repo) or _climbs(revision):
        return None
    folder = Path(constants.HF_HUB_CACHE).expanduser() / ("models--" + repo.replace("/", "--"))
    reference = folder / "refs" / (revision or constants.DEFAULT_REVISION)
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return snapshot if commit and snapshot.is_dir() else None


def holds_weights(folder: Path) -> bool:
    """Whether a folder or its subfolders hold weights, whatever their names."""
    return any(
        path.suffix in (".safetensors", ".bin", ".pt") and path.is_file() for path in folder.rglob("*")
    )


def _climbs(name: str) -> bool:
    """Whether a name, used in a path, would lead out of its parent folder."""
    return name.startswith("/") or ".." in name.split("/")


def _at(repo: str, revision: str) -> str:
    return f"{repo!r} at revision {revision!r}" if revision else repr(repo)


def _of_the_network(error: Exception) -> bool:
    """Whether an error came from the network; huggingface_hub has changed its HTTP library twice."""
    if isinstance(error, (HfHubHTTPError, LocalEntryNotFoundError, ConnectionError, TimeoutError)):
        return True
    return type(error).__module__.partition(".")[0] in {"httpx", "httpx2", "httpcore", "requests", "urllib3"}


def _complaint(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"answered with status {status}"
    detail = str(error).partition("\n")[0] or "no detail"
    return f"cannot be reached ({type(error).__name__}: {detail})"
