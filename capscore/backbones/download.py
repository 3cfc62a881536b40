"""A Hub id and a revision → a local folder with the files that a backbone needs, and its commit.

Errors name the reason: an offline variable, an unreachable Hub, an unknown model or revision, a gated model.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from ..errors import BackboneUnavailable, CapscoreWarning, Setting, warn

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
