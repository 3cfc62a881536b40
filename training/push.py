"""Put what a recipe trained, a text tower or InfoMetIC's network, on the Hub for `capscore.load` to download.

    python -m training.push FOLDER ORG/NAME --dry-run
    python -m training.push FOLDER ORG/NAME

In: the folder that a recipe wrote, with its card. Out: one commit on the Hub that holds what loading reads,
the card and the licence. Whatever is wrong is found before anything is sent; a failure leaves no half commit.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capscore.cli.cache import readable_size
from capscore.cli.options import Debug
from capscore.cli.terminal import DEBUG, box_style, command, make_console, print_line, say
from capscore.errors import CapscoreError
from capscore.files.rows import UsageError

from .engine.model_card import CARD

if TYPE_CHECKING:
    from huggingface_hub import HfApi

KINDS = ("tuned", "student")  # of capscore.backbones, in the order in which loading tries them
NETWORK = "infometic"
# what its card says on the Hub, where a network is found, and shown how it is used, by it
_NETWORK_CARD = {"library_name": "capscore", "pipeline_tag": "feature-extraction", "tags": "infometic"}
_MESSAGES = {NETWORK: "InfoMetIC's network for capscore"}
WEIGHTS = "model.safetensors"
# What the Hub takes: 50 GB a file, and a commit of at most 100 files is advised
# (huggingface.co/docs/hub/storage-limits).
MAX_BYTES = 50 * 10**9
MAX_FILES = 100
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
# Beside what loading reads: for people.
_ALONG = (CARD, "LICENSE*", "LICENCE*", "NOTICE*", "CITATION*", "text_tower/*")
# Patterns of what a training run leaves, and what it is; also of names that loading would read.
_REMAINS = {
    "checkpoint": ("checkpoint*/*", "step-*/*", "runs/*", "wandb/*"),
    "state of the training": (
        *("optimizer*", "optimiser*", "scheduler*", "scaler*", "random_states*", "rng_state*"),
        *("training_state*", "trainer_state*", "training_args*"),
    ),
    "log": ("log.*", "*.log", "*.jsonl", "events.out.tfevents*"),
    "features of the training captions": ("features/*",),
}
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class File:
    """A file of the folder: its name there, with "/", and its size in bytes."""

    name: str
    path: Path
    size: int


@dataclass(frozen=True)
class Plan:
    """What would be sent of a folder.

    Attributes:
        folder: the folder.
        kind: which of `KINDS` it is, or `NETWORK`.
        files: what is sent, by name.
        left_out: what is not, and why.
        notes: what whoever pushes should know.
        backbone: of a network, the backbone that it was trained on; "" for a tower, which is one.
    """

    folder: Path
    kind: str
    files: tuple[File, ...]
    left_out: tuple[tuple[File, str], ...]
    notes: tuple[str, ...] = ()
    backbone: str = ""

    @property
    def size(self) -> int:
        """Bytes that are sent."""
        return sum(file.size for file in self.files)

    def loading(self, place: str) -> str:
        """How what was sent to a place on the Hub is loaded."""
        if self.kind == NETWORK:
            return f"capscore.load({NETWORK!r}, backbone={self.backbone or '…'!r}, weights={place!r})"
        return f"capscore.load(…, backbone={place!r})"


@dataclass(frozen=True)
class Pushed:
    """What happened on the Hub.

    Attributes:
        repo_id: "org/name".
        commit: that now holds the files.
        url: of the commit, or of the pull request.
        created: the repository is new.
        changed: False if the Hub had all of it already, so that there is no new commit.
        kept_card: the Hub's own card was left as it is.
        deleted: files that were deleted from the Hub in the same commit.
        pull_request: the files are in a pull request.
    """

    repo_id: str
    commit: str
    url: str
    created: bool
    changed: bool
    kept_card: bool
    deleted: tuple[str, ...]
    pull_request: bool


# --------------------------------------------------------------------------- what would be sent


def plan(folder: str | Path, include: Sequence[str] = ()) -> Plan:
    """Look a folder over: what of it is to be sent, and whether it may be.

    Reads this disk only, unless the tower was made on top of a backbone that is not here yet.

    Args:
        folder: a saved student, a fine-tuned tower or a network of InfoMetIC, with its card.
        include: patterns of files that are sent besides ("log.jsonl", "checkpoints/step-000100/*").

    Raises:
        UsageError: there is no such folder, or a pattern that fits nothing.
        CapscoreError: the tower or network cannot be loaded, has weights that are no numbers, needs a folder
            of this machine, or comes with pickles; the card is missing, lacks the licence or the languages,
            or is that of something else; it is more than the Hub takes. Says which file.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder here")
    kind = _kind(folder)
    found = [
        File(path.relative_to(folder).as_posix(), path, path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    files, left_out = _sort_out(folder, kind, found, include)
    _check_card(folder, kind)
    _check_size(files)
    if not (folder / WEIGHTS).is_file():
        raise CapscoreError(f"{folder} has no {WEIGHTS}")
    backbone, notes = _check_network(folder) if kind == NETWORK else ("", _check_tower(folder, kind))
    _check_weights(folder / WEIGHTS)
    return Plan(folder, kind, tuple(files), tuple(left_out), tuple(notes), backbone)


def _kind(folder: Path) -> str:
    from capscore.infometic.model import CONFIG

    for kind in KINDS:
        if importlib.import_module(f"capscore.backbones.{kind}").recognises(folder):
            return kind
    if _is_network(folder / CONFIG):
        return NETWORK
    names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
    raise CapscoreError(
        f"{folder} holds nothing that a recipe finished: expected capscore_student.json, "
        f"capscore_tuned.json, or the {CONFIG} of InfoMetIC's network; it has {names}"
    )


def _is_network(config: Path) -> bool:
    """Whether a config, if it is there, is that of InfoMetIC's network."""
    from capscore.backbones.checkpoint import read_json
    from capscore.infometic.model import MODEL_TYPE

    return config.is_file() and read_json(config).get("model_type") == MODEL_TYPE


def _read(kind: str, names: Sequence[str]) -> list[str]:
    """Those of the files that loading reads."""
    from capscore.backbones.download import needed_files
    from capscore.infometic.model import CONFIG

    return [name for name in names if name in (CONFIG, WEIGHTS)] if kind == NETWORK else needed_files(names)


def _sort_out(
    folder: Path, kind: str, found: list[File], include: Sequence[str]
) -> tuple[list[File], list[tuple[File, str]]]:
    names = [file.name for file in found]
    for pattern in include:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = difflib.get_close_matches(pattern, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"--include {pattern!r} fits no file in {folder}{hint}")
    read = set(_read(kind, names))
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
                "sent. Weights are safetensors; take it out of the folder"
            )
        elif asked or file.name in read or _goes_along(file.name) or f"]({file.name})" in shown:
            files.append(file)
        else:
            left_out.append((file, "loading does not read it"))
    return files, left_out


def _remains(name: str) -> str:
    """What a file is that a run left behind, "" if it is none."""
    if any(part.startswith(".") for part in PurePosixPath(name).parts):
        return "hidden"
    for what, patterns in _REMAINS.items():
        if any(fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}") for pattern in patterns):
            return what
    return ""


def _goes_along(name: str) -> bool:
    return any(fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for pattern in _ALONG)


def _check_card(folder: Path, kind: str) -> None:
    from huggingface_hub import ModelCard
    from yaml import YAMLError

    path = folder / CARD
    if not path.is_file():
        raise CapscoreError(
            f"{folder} has no {CARD}: write its card with training.engine.model_card.write_card"
        )
    try:
        data = ModelCard.load(path).data
    except (ValueError, TypeError, YAMLError) as error:
        raise CapscoreError(f"the front matter of {path} cannot be read: {_one_line(error)}") from None
    for name, example in (("license", "apache-2.0"), ("language", "[de, en]")):
        if not data.get(name):
            raise CapscoreError(f"the front matter of {path} says no {name}, such as {name}: {example}")
    if data.get("license") == "other" and not (data.get("license_name") and data.get("license_link")):
        raise CapscoreError(f"{path} says license: other, which needs license_name and license_link")
    for name, expected in _NETWORK_CARD.items() if kind == NETWORK else ():
        said = data.get(name)
        if expected != said and expected not in (said if isinstance(said, list) else ()):
            raise CapscoreError(
                f"the front matter of {path} says {f'{name}: {said}' if said else f'no {name}'}; expected "
                f"{expected}, as in the card that training.infometic writes beside its network"
            )


def _check_size(files: list[File]) -> None:
    for file in files:
        if file.size > MAX_BYTES:
            raise CapscoreError(
                f"{file.path} has {readable_size(file.size)}; the Hub takes {readable_size(MAX_BYTES)} a file"
            )
    if len(files) > MAX_FILES:
        raise CapscoreError(
            f"{len(files)} files are too many for one commit (at most {MAX_FILES}): include fewer"
        )


def _check_tower(folder: Path, kind: str) -> list[str]:
    """Load what can be loaded of it; what to know about it."""
    from capscore.backbones import student, tuned
    from capscore.backbones.base import LoadOptions
    from capscore.backbones.checkpoint import read_json
    from capscore.backbones.loading import load_backbone

    marker = folder / f"capscore_{kind}.json"
    said = read_json(marker)
    for field in ("base", "image_tower"):
        spec = str(said.get(field) or "")
        if _is_of_this_machine(spec):
            raise CapscoreError(
                f"{marker}: {field} is {spec!r}, a folder that only this machine has; push that one first, "
                "and name it by its id on the Hub"
            )
    if kind == "student":
        student.StudentTextTower.from_pretrained(folder)
    else:
        tuned.load_folder(folder, LoadOptions(name=folder.name, load_backbone=load_backbone))
    if kind == "student" and not said["image_tower"]:
        return ["the tower names no image tower: whoever loads it has to say image_tower=…"]
    return []


def _check_network(folder: Path) -> tuple[str, list[str]]:
    """Load it; the backbone that it was trained on, and what to know about it."""
    from capscore.backbones import find
    from capscore.infometic.model import InfoMetIC

    backbone = InfoMetIC.from_pretrained(folder, device="cpu").config.backbone
    if not backbone:
        return "", ["the weights do not say which backbone they are for: whoever loads them has to know it"]
    if find(backbone) is None and ("/" not in backbone or _is_of_this_machine(backbone)):
        return backbone, [
            f"the network reads the embeddings of {backbone!r}, a folder that only this machine has: whoever "
            "loads it needs that as well, and gives it as backbone=…"
        ]
    return backbone, []


def _is_of_this_machine(spec: str) -> bool:
    from capscore.backbones import find

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


# --------------------------------------------------------------------------- sending it


def push(
    ready: Plan,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
    create_pr: bool = False,
    tag: str | None = None,
    overwrite_card: bool = False,
    delete_stale: bool = False,
) -> Pushed:
    """Send what was planned, in one commit.

    Args:
        ready: what `plan` found.
        repo_id: "org/name" on the Hub; made if it is not there yet.
        private: the repository is to be private. One that is public already is an error.
        revision: branch; None for `main`. One that is not there yet is made from `main`.
        message: of the commit.
        create_pr: open a pull request instead of committing to `main`.
        tag: for the new commit, such as "v1".
        overwrite_card: replace a card that is on the Hub already; else it is left as it is.
        delete_stale: delete, in the same commit, files on the Hub that loading would read and that the
            folder does not have; else they are an error.

    Raises:
        UsageError: options that do not go together.
        CapscoreError: the Hub cannot be reached or does not let it happen; says why, and what is there now.
    """
    check_options(repo_id, revision=revision, create_pr=create_pr, tag=tag)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, ModelCard, constants

    api = HfApi(endpoint=constants.ENDPOINT, library_name="capscore")
    branch = revision or constants.DEFAULT_REVISION
    with _told(repo_id, api.endpoint, "nothing was sent") as place:
        place["user"] = api.whoami()["name"]
        ModelCard.load(ready.folder / CARD).validate()  # asks the Hub what it makes of the front matter
        created = _prepare(api, repo_id, private=private, create_pr=create_pr, place=place)
        is_new = _is_new_branch(api, repo_id, branch, tag)
        head = api.model_info(repo_id, revision=constants.DEFAULT_REVISION if is_new else branch)
        there = {sibling.rfilename for sibling in head.siblings or []}
        kept_card = CARD in there and not overwrite_card
        sent = [file for file in ready.files if not (kept_card and file.name == CARD)]
        _check_kind_there(api, ready, repo_id, head.sha, there)
        stale = _stale(ready.kind, there, {file.name for file in ready.files})
        if stale and not delete_stale:
            raise CapscoreError(
                f"{repo_id} has files that loading would read besides those of {ready.folder}: "
                f"{', '.join(stale)}; --delete-stale deletes them in the same commit. Nothing was sent"
            )
        if is_new:
            api.create_branch(repo_id, branch=branch, revision=head.sha)
            place["done"] = f"the branch {branch} was made, and is what main is"
        result = api.create_commit(
            repo_id,
            [
                *(CommitOperationDelete(name) for name in stale),
                *(CommitOperationAdd(file.name, file.path) for file in sent),
            ],
            commit_message=message or _MESSAGES.get(ready.kind, "Fine-tuned text tower for capscore"),
            revision=None if create_pr else branch,
            create_pr=create_pr,
            parent_commit=head.sha,
        )
        place["done"] = f"the commit {result.oid} is there"
        _check_arrived(api, repo_id, result.oid, sent)
        if tag is not None:
            api.create_tag(repo_id, tag=tag, revision=result.oid)
    return Pushed(
        repo_id=repo_id,
        commit=result.oid,
        url=result.pr_url or f"{api.endpoint}/{repo_id}/tree/{result.oid}",
        created=created,
        changed=result.oid != head.sha,
        kept_card=kept_card,
        deleted=tuple(stale),
        pull_request=result.pr_url is not None,
    )


def check_options(repo_id: str, *, revision: str | None, create_pr: bool, tag: str | None) -> None:
    """What can be said of the options without a Hub; raises UsageError."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise UsageError(f"{repo_id!r} is not a Hub id: {_one_line(error)}") from None
    if "/" not in repo_id:
        raise UsageError(f"{repo_id!r}: expected org/name (or your user name, /name)")
    if revision is not None and (not revision.strip() or _COMMIT.fullmatch(revision)):
        raise UsageError(f"--revision {revision!r}: expected a branch; a commit cannot be added to")
    if create_pr and revision is not None:
        raise UsageError("--create-pr and --revision: a pull request is always one to main; give one of them")
    if create_pr and tag is not None:
        raise UsageError("--create-pr and --tag: a commit is tagged once it is merged; give one of them")
    if tag is not None and not tag.strip():
        raise UsageError("--tag is empty")


def _prepare(api: HfApi, repo_id: str, *, private: bool, create_pr: bool, place: dict[str, str]) -> bool:
    """See to it that the repository is there; whether it is new."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        info = api.model_info(repo_id)
    except GatedRepoError:
        raise
    except RepositoryNotFoundError:
        if create_pr:
            raise CapscoreError(f"there is no {repo_id} yet that a pull request could go to") from None
        api.create_repo(repo_id, private=private or None)
        place["done"] = f"{repo_id} was made and is empty"
        return True
    if private and not info.private:
        raise CapscoreError(
            f"--private: {repo_id} is there and is public. Make it private on its page first; nothing was "
            "sent"
        )
    return False


def _is_new_branch(api: HfApi, repo_id: str, branch: str, tag: str | None) -> bool:
    """Whether a branch is still to be made; neither it nor the tag may be a tag that is there."""
    from huggingface_hub import constants

    refs = api.list_repo_refs(repo_id)
    tags = {ref.name for ref in refs.tags}
    if tag in tags:
        raise CapscoreError(f"{repo_id} has a tag {tag!r} already; nothing was sent")
    if branch in tags:
        raise CapscoreError(f"--revision {branch}: that is a tag of {repo_id}; expected a branch")
    # refs/pr/3 is no branch, but can be committed to
    known = {constants.DEFAULT_REVISION, *(ref.name for ref in refs.branches)}
    return not branch.startswith("refs/") and branch not in known


def _check_kind_there(api: HfApi, ready: Plan, repo_id: str, commit: str, there: set[str]) -> None:
    """See that no tower is replaced by a network, no network by a tower: their files have the same names."""
    from capscore.backbones.download import STUDENT_MARKER, TUNED_FILES
    from capscore.infometic.model import CONFIG

    if there & {STUDENT_MARKER, TUNED_FILES[0]}:
        is_network, what = False, "a text tower"
    elif CONFIG in there:
        is_network = _is_network(Path(api.hf_hub_download(repo_id, CONFIG, revision=commit)))
        what = "a network of InfoMetIC" if is_network else "another model"
    else:
        return
    if is_network != (ready.kind == NETWORK):
        raise CapscoreError(f"{repo_id} holds {what}: give another repository. Nothing was sent")


def _stale(kind: str, there: set[str], ours: set[str]) -> list[str]:
    """Files on the Hub that loading would read, though the folder has no such file."""
    return sorted(set(_read(kind, sorted(there | ours))) - ours)


def _check_arrived(api: HfApi, repo_id: str, commit: str, sent: list[File]) -> None:
    """A .gitignore on the Hub drops files from a commit without a word."""
    info = api.model_info(repo_id, revision=commit)
    there = {sibling.rfilename for sibling in info.siblings or []}
    missing = [file.name for file in sent if file.name not in there]
    if missing:
        raise CapscoreError(
            f"the commit {commit} of {repo_id} lacks {', '.join(missing)}: does a .gitignore there name them?"
        )


@contextmanager
def _told(repo_id: str, endpoint: str, nothing: str) -> Iterator[dict[str, str]]:
    """Whatever goes wrong with the Hub becomes one error, with what is there now."""
    from capscore.backbones.download import offline_variable

    variable = offline_variable()
    if variable is not None:
        raise CapscoreError(f"{variable} is set, so {nothing}; --dry-run needs no network")
    place = {"done": nothing, "user": ""}
    try:
        yield place
    except CapscoreError:
        raise
    except Exception as error:  # the upload raises its own kinds, xet others, and the HTTP library others
        raise CapscoreError(f"{_reason(error, repo_id, endpoint, place['user'])}; {place['done']}") from error


def _reason(error: Exception, repo_id: str, endpoint: str, user: str) -> str:
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalTokenNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, LocalTokenNotFoundError):
        return "the Hub needs a token to know who pushes: `hf auth login`, or set HF_TOKEN"
    # An upload wraps what its threads met.
    status = next(filter(None, map(_status, _chain(error))), None)
    if not user and status == 401:
        return "the Hub does not accept the token: `hf auth login`, or set HF_TOKEN to one that may write"
    if isinstance(error, GatedRepoError):
        return f"{repo_id} is gated: accept its terms on its page first"
    if isinstance(error, RevisionNotFoundError):
        return f"{repo_id} has no such revision"
    if status == 403:
        return f"{user} may not write to {repo_id}, or the token may not write (a pull request: --create-pr)"
    if isinstance(error, RepositoryNotFoundError):
        return f"the Hub shows {user or 'this token'} no {repo_id}"
    if status == 409:
        return f"{repo_id} is there already, or somebody else makes it now: {_first_line(error)}"
    if status == 412:
        return f"somebody else committed to {repo_id} meanwhile; look at it, and push again"
    if status is not None and not str(error).startswith("Invalid metadata"):
        return f"the Hub ({endpoint}) answered with status {status}: {_first_line(error)}"
    if isinstance(error, ValueError):
        return f"the Hub does not take it: {_one_line(error)}"
    return f"the Hub ({endpoint}) could not be used ({type(error).__name__}: {_one_line(error)})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no detail"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# --------------------------------------------------------------------------- the command


app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command(help="Put a fine-tuned text tower, or a network of InfoMetIC, on the Hub, in one commit.")
@command
def main_command(
    folder: Annotated[Path, typer.Argument(help="What a recipe wrote: weights, their config, card.")],
    repo_id: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Where on the Hub; made if need be.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and list only: no network, no token.")
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="Make the new repository private.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch; made from main if need be. Default: main.", show_default=False)
    ] = None,
    message: Annotated[str | None, typer.Option(help="Of the commit.", show_default=False)] = None,
    create_pr: Annotated[
        bool, typer.Option("--create-pr", help="Open a pull request instead of committing.")
    ] = False,
    tag: Annotated[str | None, typer.Option(help="Tag the commit, such as v1.", show_default=False)] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Send these files too: a pattern, such as log.jsonl. Repeatable."),
    ] = None,
    overwrite_card: Annotated[
        bool, typer.Option("--overwrite-card", help="Replace the card that is on the Hub.")
    ] = False,
    delete_stale: Annotated[
        bool,
        typer.Option("--delete-stale", help="Delete files there that loading would read and FOLDER lacks."),
    ] = False,
    debug: Debug = False,
) -> None:
    DEBUG.set(debug)
    check_options(repo_id, revision=revision, create_pr=create_pr, tag=tag)
    ready = plan(folder, include or ())
    console = make_console()
    _show(console, ready)
    for note in ready.notes:
        say(f"note: {note}")
    if dry_run:
        for line in _would(ready, repo_id, revision, private, create_pr, tag, overwrite_card):
            print_line(console, line)
        return
    pushed = push(
        ready,
        repo_id,
        private=private,
        revision=revision,
        message=message,
        create_pr=create_pr,
        tag=tag,
        overwrite_card=overwrite_card,
        delete_stale=delete_stale,
    )
    for line in _did(pushed, ready, tag):
        print_line(console, line)


def _show(console: Any, ready: Plan) -> None:
    from rich.table import Table

    table = Table(box=box_style(), pad_edge=False)
    table.add_column("file", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for file in ready.files:
        table.add_row(file.name, readable_size(file.size), "")
    for file, reason in ready.left_out:
        table.add_row(file.name, readable_size(file.size), f"not sent: {reason}", style="dim")
    console.print(table)


def _would(
    ready: Plan,
    repo_id: str,
    revision: str | None,
    private: bool,
    create_pr: bool,
    tag: str | None,
    overwrite_card: bool,
) -> list[str]:
    where = "a pull request to main" if create_pr else f"the branch {revision or 'main'}"
    card = "is replaced" if overwrite_card else "is left as it is"
    return [
        f"dry run: {len(ready.files)} files, {readable_size(ready.size)}, would go to {repo_id}, {where}, in "
        "one commit",
        f"a repository that is not there yet would be made {'private' if private else 'public'}; a card that "
        f"is there already {card}",
        *([f"the commit would be tagged {tag}"] if tag else []),
    ]


def _did(pushed: Pushed, ready: Plan, tag: str | None) -> list[str]:
    lines = []
    if not pushed.changed:
        lines.append(f"{pushed.repo_id} has all of this already; no commit was made")
    elif pushed.pull_request:
        lines.append(f"opened {pushed.url}")
    else:
        made = "made and filled" if pushed.created else "pushed to"
        lines.append(f"{made} {pushed.repo_id}: {pushed.url}")
    if pushed.deleted:
        lines.append(f"deleted there: {', '.join(pushed.deleted)}")
    if pushed.kept_card:
        lines.append("the card that was there is left as it is; --overwrite-card replaces it")
    if tag:
        lines.append(f"tagged {tag}")
    lines.append(f"load it: {ready.loading(f'{pushed.repo_id}@{pushed.commit}')}")
    return lines


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without é shows another sign, and goes on
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
