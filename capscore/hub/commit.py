"""A plan of files → one commit on the Hub. A failure leaves no half commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError, Setting
from .plan import BENCHMARK, CARD, DATASET, METRIC, MODEL, RECORD, SPACE, Plan, check_options, one_line
from .weights import IMAGE_TOWER, MARK_CALIBRATION, NETWORK, files_read, replaceable_by

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_MESSAGES = {
    NETWORK: "InfoMetIC's network for capscore",
    MARK_CALIBRATION: "Mark calibration of InfoMetIC for capscore",
    IMAGE_TOWER: "Image tower for capscore",
    METRIC: "Metric module of capscore",
    BENCHMARK: "Benchmark of capscore",
}
# What a repository of each type is called in its addresses, and what loading reads of it besides our files
_ADDRESSES = {MODEL: "", SPACE: "spaces/", DATASET: "datasets/"}
_READ = {SPACE: (".py", ".whl"), DATASET: (".parquet",)}


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
        ready: Result of `plan_weights`, `plan_metric` or `plan_benchmark`.
        repo_id: "org/name" on the Hub; created if needed.
        private: Whether the new repository is private. A public repository is an error.
        revision: Branch, created from `main` if needed; None for `main`.
        message: Message of the commit.
        create_pr: Whether to open a pull request instead of committing to `main`.
        tag: Tag of the new commit, such as "v1".
        overwrite_card: Whether to replace a card on the Hub that somebody edited; else it is kept.
        delete_stale: Whether to delete, in the same commit, files on the Hub that loading would read and that
            the folder lacks; else they are an error.

    Raises:
        InputError: options that exclude each other.
        CapscoreError: the Hub is not available or refuses; says why, and what is on the Hub now.
    """
    check_options(repo_id, revision=revision, create_pr=create_pr, tag=tag, repo_type=ready.repo_type)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, RepoCard, constants

    api, kind = HfApi(endpoint=constants.ENDPOINT, library_name="capscore"), ready.repo_type
    branch = revision or constants.DEFAULT_REVISION
    with _errors_of_the_hub(repo_id, api.endpoint) as state:
        state["user"] = api.whoami()["name"]
        RepoCard(ready.card.decode("utf-8")).validate(repo_type=kind)
        created = _create(api, repo_id, kind, private=private, create_pr=create_pr)
        if created:
            state["done"] = f"{repo_id} was created and is empty"
        is_new_branch = _is_new_branch(api, repo_id, kind, branch, tag)
        start = constants.DEFAULT_REVISION if is_new_branch else branch
        head, there = _contents(api, repo_id, kind, start)
        is_kept = not (created or overwrite_card)
        kept_card = is_kept and _is_edited(api, ready, repo_id, head, there)
        sent = _contents_to_send(ready, kept_card)
        _check_kind(api, ready, repo_id, head, there)
        stale = _stale(ready, there)
        if stale and not delete_stale:
            raise CapscoreError(
                f"{repo_id} has files that loading would read besides those of {ready.folder}: "
                f"{', '.join(stale)}; ",
                Setting("delete_stale", True),
                " deletes them in the same commit. Nothing was sent",
            )
        if is_new_branch:
            api.create_branch(repo_id, repo_type=kind, branch=branch, revision=head)
            state["done"] = f"the branch {branch} was created, and equals main"
        deletions = [CommitOperationDelete(name) for name in stale]
        result = api.create_commit(
            repo_id,
            [*deletions, *(CommitOperationAdd(name, content) for name, content in sent.items())],
            repo_type=kind,
            commit_message=message or _MESSAGES.get(ready.kind, "Fine-tuned text tower for capscore"),
            revision=None if create_pr else branch,
            create_pr=create_pr,
            parent_commit=head,
        )
        state["done"] = f"the commit {result.oid} is there"
        _check_complete(api, repo_id, kind, result.oid, sent)
        if tag is not None:
            api.create_tag(repo_id, repo_type=kind, tag=tag, revision=result.oid)
    url = result.pr_url or f"{api.endpoint}/{_ADDRESSES[kind]}{repo_id}/tree/{result.oid}"
    changed, is_pull_request = result.oid != head, result.pr_url is not None
    return Pushed(repo_id, result.oid, url, created, changed, kept_card, tuple(stale), is_pull_request)


def _contents_to_send(ready: Plan, kept_card: bool) -> dict[str, Any]:
    """Name → content or path; the digest of the card tells later whether somebody edited it."""
    sent: dict[str, Any] = {file.name: file.content or file.path for file in ready.files}
    if kept_card:
        del sent[CARD]
    else:
        digest = hashlib.sha256(ready.card).hexdigest()
        sent[RECORD] = f"{json.dumps({'card': digest}, indent=1)}\n".encode()
    return sent


def _check_complete(api: HfApi, repo_id: str, kind: str, commit: str, sent: Collection[str]) -> None:
    """Check that a commit holds all files: a .gitignore there silently drops files."""
    missing = set(sent) - _contents(api, repo_id, kind, commit)[1]
    if missing:
        raise CapscoreError(
            f"the commit {commit} of {repo_id} lacks {', '.join(sorted(missing))}: does a .gitignore "
            "there name them?"
        )


def _is_edited(api: HfApi, ready: Plan, repo_id: str, commit: str, there: set[str]) -> bool:
    """Whether the card on the Hub is neither the one to send nor one that a push has put there."""

    def read(name: str) -> bytes:
        path = api.hf_hub_download(repo_id, name, repo_type=ready.repo_type, revision=commit)
        return Path(path).read_bytes()

    if CARD not in there:
        return False
    card = read(CARD)
    if card == ready.card:
        return False
    try:
        return (
            json.loads(read(RECORD))["card"] != hashlib.sha256(card).hexdigest() if RECORD in there else True
        )
    except (ValueError, KeyError, TypeError):
        return True


def _create(api: HfApi, repo_id: str, kind: str, *, private: bool, create_pr: bool) -> bool:
    """Create the repository if needed; returns whether it is new."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        info = api.repo_info(repo_id, repo_type=kind)
    except GatedRepoError:
        raise
    except RepositoryNotFoundError:
        if create_pr:
            raise CapscoreError(f"there is no {repo_id} yet for a pull request") from None
        sdk = "gradio" if kind == SPACE else None
        api.create_repo(repo_id, repo_type=kind, private=private or None, space_sdk=sdk)
        return True
    if private and not info.private:
        raise CapscoreError(
            f"--private: {repo_id} exists and is public. Make it private on its page first; nothing was sent"
        )
    return False


def _contents(api: HfApi, repo_id: str, kind: str, revision: str) -> tuple[str, set[str]]:
    """Commit of a revision, and the names of its files."""
    info: Any = api.repo_info(repo_id, repo_type=kind, revision=revision)
    return info.sha, {sibling.rfilename for sibling in info.siblings or []}


def _is_new_branch(api: HfApi, repo_id: str, kind: str, branch: str, tag: str | None) -> bool:
    """Whether the branch has to be created; neither it nor the tag may be an existing tag."""
    refs = api.list_repo_refs(repo_id, repo_type=kind)
    tags = {ref.name for ref in refs.tags}
    if tag in tags:
        raise CapscoreError(f"{repo_id} has a tag {tag!r} already; nothing was sent")
    if branch in tags:
        raise CapscoreError(f"--revision {branch}: that is a tag of {repo_id}; expected a branch")
    # refs/pr/3 is not a branch, but accepts commits
    return not branch.startswith("refs/") and branch not in {"main", *(ref.name for ref in refs.branches)}


def _check_kind(api: HfApi, ready: Plan, repo_id: str, commit: str, there: set[str]) -> None:
    """Refuse to replace weights of one kind by those of another: their files have the same names."""
    if ready.repo_type != MODEL:
        return
    kinds, what = replaceable_by(
        there, lambda name: Path(api.hf_hub_download(repo_id, name, revision=commit))
    )
    if ready.kind not in kinds:
        raise CapscoreError(f"{repo_id} holds {what}: give another repository. Nothing was sent")


def _stale(ready: Plan, there: set[str]) -> list[str]:
    """Files on the Hub that loading would read and that are not among ours."""
    ours = {RECORD, *(file.name for file in ready.files)}
    if ready.repo_type == MODEL:
        return sorted(set(files_read(ready.kind, sorted(there | ours))) - ours)
    return sorted(name for name in there - ours if name.endswith(_READ[ready.repo_type]))


@contextmanager
def _errors_of_the_hub(repo_id: str, endpoint: str) -> Iterator[dict[str, str]]:
    """Turn any error of the Hub into one error that also says what is on the Hub now."""
    from ..backbones.checkpoint import offline_variable

    variable = offline_variable()
    if variable is not None:
        raise CapscoreError(f"{variable} is set, so nothing was sent; --dry-run needs no network")
    state = {"done": "nothing was sent", "user": ""}
    try:
        yield state
    except CapscoreError:
        raise
    except Exception as error:  # the upload, xet and the HTTP library raise their own kinds
        raise CapscoreError(f"{_reason(error, repo_id, endpoint, state['user'])}; {state['done']}") from error


def _reason(error: Exception, repo_id: str, endpoint: str, user: str) -> str:
    from huggingface_hub.errors import GatedRepoError, LocalTokenNotFoundError

    if isinstance(error, LocalTokenNotFoundError):
        return "the Hub needs a token to know who pushes: `hf auth login`, or set HF_TOKEN"
    if isinstance(error, GatedRepoError):
        return f"{repo_id} is gated: accept its terms on its page first"
    cause: BaseException | None = error  # an upload wraps the errors of its threads
    while cause is not None and not hasattr(cause, "response"):
        cause = cause.__cause__
    status = getattr(getattr(cause, "response", None), "status_code", None)
    known = {
        401: "the Hub does not accept the token: `hf auth login`, or set HF_TOKEN to one that may write",
        403: f"{user} may not write to {repo_id}, or the token may not write (try --create-pr)",
        404: f"the Hub shows {user} no {repo_id}",
        412: f"somebody else committed to {repo_id} in the meantime; look at it, and push again",
    }
    why = cause or error
    told = f"the Hub ({endpoint}) refuses it or could not be used: {type(why).__name__}: {one_line(why)}"
    return known.get(status or 0, told)
