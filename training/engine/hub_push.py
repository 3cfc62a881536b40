"""A plan of files → one commit on the Hub. A failure leaves no half commit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capscore.errors import CapscoreError, InputError, Setting
from training.engine.model_card import CARD
from training.engine.push_plan import EYE, NETWORK, Plan, PushedFile, files_read, is_network, one_line

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_COMMIT = re.compile(r"[0-9a-f]{40}")
_MESSAGES = {NETWORK: "InfoMetIC's network for capscore", EYE: "Eye for capscore"}
_OTHER_MESSAGE = "Fine-tuned text tower for capscore"


@dataclass(frozen=True)
class Pushed:
    """Outcome of a push.

    Attributes:
        repo_id: "org/name".
        commit: Commit that holds the files.
        url: Address of the commit, or of the pull request.
        created: Whether the repository is new.
        changed: False if the Hub already had all files, so that there is no new commit.
        kept_card: Whether the card on the Hub was kept.
        deleted: Files that were deleted from the Hub in the same commit.
        pull_request: Whether the files are in a pull request.
    """

    repo_id: str
    commit: str
    url: str
    created: bool
    changed: bool
    kept_card: bool
    deleted: tuple[str, ...]
    pull_request: bool


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
    """Push the planned files in one commit.

    Args:
        ready: Result of `plan`.
        repo_id: "org/name" on the Hub; created if needed.
        private: Whether the new repository is private. A public repository is an error.
        revision: Branch, created from `main` if needed; None for `main`.
        message: Message of the commit.
        create_pr: Whether to open a pull request instead of committing to `main`.
        tag: Tag of the new commit, such as "v1".
        overwrite_card: Whether to replace a card on the Hub; else it is kept.
        delete_stale: Whether to delete, in the same commit, files on the Hub that loading would read and that
            the folder lacks; else they are an error.

    Raises:
        InputError: options that exclude each other.
        CapscoreError: the Hub is not available or refuses; says why, and what is on the Hub now.
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
                f"{', '.join(stale)}; ",
                Setting("delete_stale", True),
                " deletes them in the same commit. Nothing was sent",
            )
        if is_new:
            api.create_branch(repo_id, branch=branch, revision=head.sha)
            place["done"] = f"the branch {branch} was created, and equals main"
        result = api.create_commit(
            repo_id,
            [
                *(CommitOperationDelete(name) for name in stale),
                *(CommitOperationAdd(file.name, file.path) for file in sent),
            ],
            commit_message=message or _MESSAGES.get(ready.kind, _OTHER_MESSAGE),
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
    """Check the options as far as possible without the Hub; raises InputError."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InputError(Setting("repo_id", repo_id), f" is not a Hub id: {one_line(error)}") from None
    if "/" not in repo_id:
        raise InputError(Setting("repo_id", repo_id), ": expected org/name (or your user name, /name)")
    if revision is not None and (not revision.strip() or _COMMIT.fullmatch(revision)):
        raise InputError(Setting("revision", revision), ": expected a branch; a commit cannot be added to")
    if create_pr and revision is not None:
        raise InputError(
            Setting("create_pr"),
            " and ",
            Setting("revision"),
            ": a pull request always goes to main; give only one of them",
        )
    if create_pr and tag is not None:
        raise InputError(
            Setting("create_pr"),
            " and ",
            Setting("tag"),
            ": a commit is tagged once it is merged; give only one of them",
        )
    if tag is not None and not tag.strip():
        raise InputError(Setting("tag"), " is empty")


def _prepare(api: HfApi, repo_id: str, *, private: bool, create_pr: bool, place: dict[str, str]) -> bool:
    """Create the repository if needed; returns whether it is new."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        info = api.model_info(repo_id)
    except GatedRepoError:
        raise
    except RepositoryNotFoundError:
        if create_pr:
            raise CapscoreError(f"there is no {repo_id} yet for a pull request") from None
        api.create_repo(repo_id, private=private or None)
        place["done"] = f"{repo_id} was created and is empty"
        return True
    if private and not info.private:
        raise CapscoreError(
            f"--private: {repo_id} exists and is public. Make it private on its page first; nothing was sent"
        )
    return False


def _is_new_branch(api: HfApi, repo_id: str, branch: str, tag: str | None) -> bool:
    """Whether the branch has to be created; neither it nor the tag may be an existing tag."""
    from huggingface_hub import constants

    refs = api.list_repo_refs(repo_id)
    tags = {ref.name for ref in refs.tags}
    if tag in tags:
        raise CapscoreError(f"{repo_id} has a tag {tag!r} already; nothing was sent")
    if branch in tags:
        raise CapscoreError(f"--revision {branch}: that is a tag of {repo_id}; expected a branch")
    # refs/pr/3 is not a branch, but accepts commits
    known = {constants.DEFAULT_REVISION, *(ref.name for ref in refs.branches)}
    return not branch.startswith("refs/") and branch not in known


def _check_kind_there(api: HfApi, ready: Plan, repo_id: str, commit: str, there: set[str]) -> None:
    """Refuse to replace a tower by a network or a network by a tower: their files have the same names."""
    from capscore.backbones.download import STUDENT_MARKER, TUNED_FILES
    from capscore.infometic.model import CONFIG

    if there & {STUDENT_MARKER, TUNED_FILES[0]}:
        is_ours, what = False, "a text tower"
    elif CONFIG in there:
        is_ours = is_network(Path(api.hf_hub_download(repo_id, CONFIG, revision=commit)))
        what = "a network of InfoMetIC" if is_ours else "another model"
    else:
        return
    if is_ours != (ready.kind == NETWORK):
        raise CapscoreError(f"{repo_id} holds {what}: give another repository. Nothing was sent")


def _stale(kind: str, there: set[str], ours: set[str]) -> list[str]:
    """Files on the Hub that loading would read and that the folder lacks."""
    return sorted(set(files_read(kind, sorted(there | ours))) - ours)


def _check_arrived(api: HfApi, repo_id: str, commit: str, sent: list[PushedFile]) -> None:
    """Check that all files are on the Hub: a .gitignore there silently drops files from a commit."""
    info = api.model_info(repo_id, revision=commit)
    there = {sibling.rfilename for sibling in info.siblings or []}
    missing = [file.name for file in sent if file.name not in there]
    if missing:
        raise CapscoreError(
            f"the commit {commit} of {repo_id} lacks {', '.join(missing)}: does a .gitignore there name them?"
        )


@contextmanager
def _told(repo_id: str, endpoint: str, nothing: str) -> Iterator[dict[str, str]]:
    """Turn any error of the Hub into one error that also says what is on the Hub now."""
    from capscore.backbones.download import offline_variable

    variable = offline_variable()
    if variable is not None:
        raise CapscoreError(f"{variable} is set, so {nothing}; --dry-run needs no network")
    place = {"done": nothing, "user": ""}
    try:
        yield place
    except CapscoreError:
        raise
    except Exception as error:  # the upload, xet and the HTTP library raise their own kinds
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
    # An upload wraps the errors of its threads.
    status = next(filter(None, map(_status, _chain(error))), None)
    if not user and status == 401:
        return "the Hub does not accept the token: `hf auth login`, or set HF_TOKEN to one that may write"
    if isinstance(error, GatedRepoError):
        return f"{repo_id} is gated: accept its terms on its page first"
    if isinstance(error, RevisionNotFoundError):
        return f"{repo_id} has no such revision"
    if status == 403:
        return f"{user} may not write to {repo_id}, or the token may not write (try --create-pr)"
    if isinstance(error, RepositoryNotFoundError):
        return f"the Hub shows {user or 'this token'} no {repo_id}"
    if status == 409:
        return f"{repo_id} exists already, or is being created: {_first_line(error)}"
    if status == 412:
        return f"somebody else committed to {repo_id} in the meantime; look at it, and push again"
    if status is not None and not str(error).startswith("Invalid metadata"):
        return f"the Hub ({endpoint}) answered with status {status}: {_first_line(error)}"
    if isinstance(error, ValueError):
        return f"the Hub refuses it: {one_line(error)}"
    return f"the Hub ({endpoint}) could not be used ({type(error).__name__}: {one_line(error)})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no detail"
